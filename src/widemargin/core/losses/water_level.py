"""The water level: the largest smallest response that a total slack of nν buys, without a bias and with one.

The problem, one basin. Given responses cᵢ as heights, weights sᵢ as widths and a volume V of water, find the level γ:

    g(γ) = Σ sᵢ max(0, γ − cᵢ) = V;      V = 0: γ = min cᵢ.

For example, heights 0, 1 and 5 with widths 1 and V = 3 have the level 2. (g is convex and piecewise linear, so Newton's
method γ ← (V + Σ sᵢcᵢ)/Σ sᵢ over the covered points finds γ in about four passes; ``tests/reference`` has this version.
The method below needs one pass and also solves the next problem.)

Two basins. A bias b raises the responses of the positive class by b and lowers those of the negative class by b; find
the b with the largest γ. Let u = γ − b and v = γ + b be the levels of the two classes, each in its own heights. Then

    2γ = max {u + v : G⁺(u) + G⁻(v) ≤ V} = min over m of (V + S⁺(m) + S⁻(m))/m,

where G is g of one class and S(m) the sum of its lowest heights up to the mass m. With equal weights 2γ is the level of
the sums of the sorted classes, pair by pair. At the minimum both classes are covered up to the same mass m, and the
ratio is the level: m grows while the next two heights sum to less than the ratio. One basin is the special case of a
second basin of height 0 and unlimited mass.

The method, :func:`pour`: one pass over n and a small sort.

1. Sum all points below a window about the last levels, and list the points inside it. (Without last levels NumPy sorts
   all heights for a first window.)
2. From these sums, and the density of the listed points, estimate the levels; lay a smaller window about them.
3. Sort the few points in the smaller window and walk up through them to the minimum.
4. If the minimum is not inside, enlarge the window, in the end to everything. The result depends on windows by rounding
   only.

The result also describes p*, the minimax-optimal distribution over the covered points: p*ᵢ = sᵢ/(mass covered), half
of it on each class with two basins; the last point may be covered in part. :func:`draw` draws from p* without a list
of all its points: step 1 keeps the mass below the window by pieces of the examples, and a draw searches one piece.

Cotter, Shalev-Shwartz, Srebro: The Kernelized Stochastic Batch Perceptron. ICML 2012, Secs. 3.2 and 3.6, App. B.
The printed Algorithms 2 and 3 do not work as they stand; ``tests/reference/water_level.py`` has a working selection.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import compiled, inlined

NEAR = 16  # the window should hold one in so many points; fewer are missed more often, more take longer to list
FEW = 128  # points that the smaller window should hold, which are sorted
MOST_TRIES = 6  # estimates of the levels before the smaller window is laid
PIECE = 1024  # examples in a piece, which a draw searches
EQUAL = 1e-14  # relative difference of masses that count as equal


class Room(NamedTuple):
    """Working memory of :func:`pour`; what it leaves here describes p* for :func:`draw` until the next call.

    By basin and piece of the examples, ``masses``: the mass below the window. Points in the window: ``near`` lists
    all of them; by basin there are their ``places`` among the examples, ``heights`` and ``weights``, and an ``order``
    of them, of which the first ``taken`` are covered. ``spare`` is for sorting.

    The other fields have one number for each basin. The window: its ends ``low`` and ``high``, the mass ``below`` it
    and Σ mass × height there, ``below_total``; the points ``seen`` in it. The walk up through the points: how many are
    ``ordered``, how many lie below its ``start``, and how many are ``taken``, whole or in the end in part; the ``mass``
    covered, its Σ mass × height ``total``, the ``part`` of the next point's mass that is covered, and the heights of
    the ``last`` point covered and of the ``next`` one.

    The caller allocates all of this, because allocations inside compiled loops take long to compile.
    """

    masses: np.ndarray
    near: np.ndarray
    spare: np.ndarray
    places: np.ndarray
    heights: np.ndarray
    weights: np.ndarray
    order: np.ndarray
    low: np.ndarray
    high: np.ndarray
    below: np.ndarray
    below_total: np.ndarray
    mass: np.ndarray
    total: np.ndarray
    part: np.ndarray
    last: np.ndarray
    next: np.ndarray
    seen: np.ndarray
    ordered: np.ndarray
    start: np.ndarray
    taken: np.ndarray


def room(n: int) -> Room:
    """Room for n examples. The system provides the memory as it is first written, so unused parts cost nothing."""
    near, spare, places, order = np.empty(n, np.int64), np.empty(n, np.int64), *np.empty((2, 2, n), np.int64)
    heights, weights = np.empty((2, 2, n))
    numbers, counts = np.zeros((9, 2)), np.zeros((4, 2), np.int64)
    return Room(np.zeros((2, -(-n // PIECE))), near, spare, places, heights, weights, order, *numbers, *counts)


class Window(NamedTuple):
    """Where :func:`pour` looks first: ``middle``, a level for each basin, and ``width``, one number, the half-width."""

    middle: np.ndarray
    width: np.ndarray


@inlined
def _survey(c, y, s, two, room):
    """Step 1, the pass over all examples; returns the number of points inside the window.

    Sets ``masses``, ``below`` and ``below_total`` of the points below the window, and ``near``.
    """
    masses, near = room.masses, room.near
    low, other_low, high, other_high = room.low[0], room.low[1], room.high[0], room.high[1]
    n_near = 0
    room.below[0], room.below[1], room.below_total[0], room.below_total[1] = 0.0, 0.0, 0.0, 0.0
    for piece in range(masses.shape[1]):
        first = piece * PIECE
        C, Y = c[first : first + PIECE], y[first : first + PIECE]
        own, others, own_total, others_total = 0.0, 0.0, 0.0, 0.0
        if s.size > 0:
            S = s[first : first + PIECE]
            for i in range(C.size):
                height = Y[i] * C[i]
                first_one, other_one = (Y[i] > 0.0) & (height < low), (Y[i] < 0.0) & (height < other_low)
                own += S[i] if first_one else 0.0
                others += S[i] if other_one else 0.0
                own_total += S[i] * height if first_one else 0.0
                others_total += S[i] * height if other_one else 0.0
        else:
            for i in range(C.size):
                height = Y[i] * C[i]
                first_one, other_one = (Y[i] > 0.0) & (height < low), (Y[i] < 0.0) & (height < other_low)
                own += 1.0 if first_one else 0.0
                others += 1.0 if other_one else 0.0
                own_total += height if first_one else 0.0
                others_total += height if other_one else 0.0
        for i in range(C.size):
            height, is_first = Y[i] * C[i], Y[i] > 0.0
            # write every index, and count only those that belong here: no branch to predict
            near[n_near] = first + i
            n_near += int((height >= (low if is_first else other_low)) & (height < (high if is_first else other_high)))
        if not two:
            own, others, own_total, others_total = own + others, 0.0, own_total + others_total, 0.0
        masses[0, piece], masses[1, piece] = own, others
        room.below[0] += own
        room.below[1] += others
        room.below_total[0] += own_total
        room.below_total[1] += others_total
    return n_near


@inlined
def _look(c, y, s, two, window, whole, room):
    """List the points inside a window, or all, by basin; returns their number, points of weight 0 included."""
    near, heights, weights = room.near, room.heights, room.weights
    for a in range(2):
        middle = window.middle[a if two else 0]
        room.low[a] = -np.inf if whole else middle - window.width[0]
        room.high[a] = np.inf if whole else middle + window.width[0]
    n_near = _survey(c, y, s, two, room)
    room.seen[0], room.seen[1] = 0, 0
    for r in range(n_near):
        i = near[r]
        weight = s[i] if s.size > 0 else 1.0
        if weight > 0.0:
            a = int(two and y[i] < 0.0)
            k = room.seen[a]
            room.places[a, k], heights[a, k], weights[a, k] = i, y[i] * c[i], weight
            room.seen[a] = k + 1
    return n_near


@inlined
def _sort(heights, order, spare, n):
    """Sort the first n of ``order`` by their heights, by merging; Numba's own sort takes two seconds to compile."""
    width, source, target = 1, order, spare
    sorted_already = 1
    while sorted_already < n and heights[order[sorted_already - 1]] <= heights[order[sorted_already]]:
        sorted_already += 1
    while width < n and sorted_already < n:
        for low in range(0, n, 2 * width):
            middle, end = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for r in range(low, end):
                if i < middle and (j == end or heights[source[i]] <= heights[source[j]]):
                    target[r] = source[i]
                    i += 1
                else:
                    target[r] = source[j]
                    j += 1
        source, target = target, source
        width *= 2
    for r in range(n):
        order[r] = source[r]


@inlined
def _line_up(a, room):
    """order ← the points of a basin below ``last``, which are covered as the walk begins, then, sorted, those below
    ``next``.
    """
    heights, weights, order, inside = room.heights[a], room.weights[a], room.order[a], room.near
    low, high = room.last[a], room.next[a]
    n_below, n_inside = 0, 0
    for r in range(room.seen[a]):
        order[n_below] = r
        n_below += int(heights[r] < low)
        inside[n_inside] = r
        n_inside += int((heights[r] >= low) & (heights[r] < high))
    _sort(heights, inside, room.spare, n_inside)
    for r in range(n_inside):
        order[n_below + r] = inside[r]
    mass, total = room.below[a], room.below_total[a]
    for r in range(n_below):
        mass += weights[order[r]]
        total += weights[order[r]] * heights[order[r]]
    room.mass[a], room.total[a], room.part[a] = mass, total, 0.0
    room.start[a], room.taken[a], room.ordered[a] = n_below, n_below, n_below + n_inside


@inlined
def _moves(volume, two, window, from_u, from_v, room):
    """Step 2: how far the levels are from the middle of the window, from a first guess of that.

    With the mass m covered at the guess, the density ρ of the points and the missing volume R, one basin has
    m du + ½ρ du² = R; two basins have m⁺du + m⁻dv = R and m⁺ + ρ⁺du = m⁻ + ρ⁻dv.
    """
    m, other_m, density, other_density, missing, width = 0.0, 0.0, 0.0, 0.0, volume, window.width[0]
    for a in range(2 if two else 1):
        middle = window.middle[a] + (from_u if a == 0 else from_v)
        mass, total, inside = room.below[a], room.below_total[a], 0.0
        for r in range(room.seen[a]):
            height, weight = room.heights[a, r], room.weights[a, r]
            inside += weight
            covered = height < middle
            mass += weight if covered else 0.0
            total += weight * height if covered else 0.0
        m, other_m, density, other_density = mass, m, inside / (2.0 * width), density
        missing -= middle * mass - total
    if not two:
        root = math.sqrt(max(m * m + 2.0 * density * missing, 0.0))
        du = 2.0 * missing / (m + root) if m > 0.0 else 0.0
        dv = du
    elif density > 0.0 and other_density > 0.0 and m + other_m > 0.0:
        # of the two, the first basin is the other one now
        du = (missing * density - m * (other_m - m)) / (other_m * density + m * other_density)
        dv = (other_m - m + other_density * du) / density
    else:
        du, dv = 0.0, 0.0
    return min(max(from_u + du, -width), width), min(max(from_v + dv, -width), width)


@inlined
def _cover(reached, a, room):
    """Cover basin a up to the mass ``reached``, as far as its points go."""
    order, n_ordered = room.order, room.ordered[a]
    mass, taken, part, total = room.mass[a], room.taken[a], room.part[a], room.total[a]
    while reached - mass > EQUAL * reached and taken < n_ordered:
        k = order[a, taken]
        gap = room.weights[a, k] - part
        moved = min(gap, reached - mass)
        room.last[a] = room.heights[a, k]
        total += moved * room.heights[a, k]
        if gap - moved <= EQUAL * reached:
            taken += 1
            part = 0.0
            mass += gap
        else:
            part += moved
            mass = reached
    room.mass[a], room.taken[a], room.part[a], room.total[a] = mass, taken, part, total
    room.next[a] = room.heights[a, order[a, taken]] if taken < n_ordered else np.inf


@inlined
def _climb(volume, two, final, room):
    """Step 3: walk up to the minimum; returns (the level, whether the minimum is inside the window).

    ``final``: the window holds all points.
    """
    basins = 2 if two else 1
    reached, steps, level = max(room.mass[0], room.mass[1]), 0, np.inf
    while True:
        # bring both basins to the same mass, then look at the next heights
        for a in range(basins):
            _cover(reached, a, room)
        if not two:
            room.mass[1], room.next[1] = room.mass[0], 0.0
        lacking = reached - min(room.mass[0], room.mass[1]) > EQUAL * reached
        if (max(room.next[0], room.next[1]) == np.inf or lacking) and not final:
            return level, False
        if reached > 0.0:
            level = (volume + room.total[0] + room.total[1]) / reached
            if room.next[0] + room.next[1] >= level:
                # if the walk ends where it began, the minimum may lie below the start
                return level, final or steps > 0 or room.last[0] + room.last[1] <= level
        step, skipped = np.inf, False
        for a in range(basins):
            taken = room.taken[a]
            if taken < room.ordered[a]:
                gap = room.weights[a, room.order[a, taken]] - room.part[a]
                if gap <= EQUAL * reached:  # a weight that adds nothing to the mass
                    room.taken[a] = taken + 1
                    room.part[a] = 0.0
                    skipped = True
                step = min(step, gap)
        steps += 1
        if skipped:
            continue
        if not step < np.inf:  # no mass is left: there is no level
            return level, True
        reached += step


@inlined
def _surface(volume, two, whole, window, n_near, room):
    """Steps 2 and 3 for a volume > 0; returns (whether the minimum is inside, u, v).

    Leaves the covered points at the front of ``order``, with the masses that are covered as their weights.
    """
    share = FEW / n_near if n_near > 2 * FEW and not whole else 1.0
    du, dv = 0.0, 0.0
    for _ in range(MOST_TRIES if share < 1.0 else 0):
        before, other_before = du, dv
        du, dv = _moves(volume, two, window, du, dv, room)
        if not max(abs(du - before), abs(dv - other_before)) > 0.5 * share * window.width[0]:
            break
    while True:
        everything = share >= 1.0
        for a in range(2):
            middle, width = window.middle[a if two else 0] + (du if a == 0 else dv), share * window.width[0]
            room.last[a] = room.low[a] if everything else max(middle - width, room.low[a])
            room.next[a] = room.high[a] if everything else min(middle + width, room.high[a])
            _line_up(a, room)
        edge, other_edge = room.last[0], room.last[1]  # not below the highest covered point
        if not two:  # the second basin has height 0
            room.mass[1], room.last[1] = room.mass[0], 0.0
        final = whole and everything
        level, inside = _climb(volume, two, final, room)
        u, v = level, level
        if two and inside:
            lowest, highest = max(room.last[0], level - room.next[1]), min(room.next[0], level - room.last[1])
            # if the walk took no point, the highest covered one lies somewhere below the window
            if not final:
                walked = room.taken[0] > room.start[0] or room.part[0] > 0.0 or lowest > edge
                other = room.taken[1] > room.start[1] or room.part[1] > 0.0 or highest < level - other_edge
                inside = walked and other
            u = 0.5 * (lowest + highest)
            v = level - u
        if inside or everything:
            break
        share = 8.0 * share if 16.0 * share < 1.0 else 1.0
    for a in range(2 if two else 1):
        if room.part[a] > 0.0:
            room.weights[a, room.order[a, room.taken[a]]] = room.part[a]
            room.taken[a] += 1
    return inside, u, v


@inlined
def _lowest(two, room):
    """For a volume of 0: (whether the lowest points are inside, u, v); these points come first in ``order``."""
    order = room.order
    inside = room.below[0] + room.below[1] == 0.0 and room.seen[0] > 0 and (room.seen[1] > 0 or not two)
    for a in range(2):
        heights, lowest, n_lowest = room.heights[a], np.inf, 0
        for r in range(room.seen[a]):
            lowest = min(lowest, heights[r])
        for r in range(room.seen[a]):
            order[a, n_lowest] = r
            n_lowest += int(heights[r] == lowest)
        room.last[a], room.taken[a] = lowest, n_lowest
    return inside, room.last[0], room.last[1] if two else room.last[0]


class Found(NamedTuple):
    """The result of :func:`pour`: level γ, bias b and passes over the examples; p* is in its room."""

    level: float
    bias: float
    passes: int


@compiled
def _pour(c, y, s, volume, two, window, room):
    """:func:`pour` with the window given, infinite for all points, and made wider until it holds the level; returns
    (u, v, passes, points in the window).
    """
    c, y, s, window, room = borrow(c), borrow(y), borrow(s), borrow(window), borrow(room)
    passes = 0
    while True:
        passes += 1
        whole = passes > 3 or not np.isfinite(window.middle[0] + window.middle[1] + window.width[0])
        n_near = _look(c, y, s, two, window, whole, room)
        if volume > 0.0:
            inside, u, v = _surface(volume, two, whole, window, n_near, room)
        else:
            inside, u, v = _lowest(two, room)
        if inside:
            return u, v, passes, n_near
        window.width[0] *= 4.0


def pour(
    c: np.ndarray, y: np.ndarray, s: np.ndarray, volume: float, two: bool, window: np.ndarray, room: Room
) -> Found:  # fmt: skip
    """Pour ``volume`` into one basin, or into two by the signs y; heights are y c. Returns :class:`Found`.

    ``window`` = (u, v, half-width) is where the search begins; it becomes the levels found and a width for the next
    call. The ``room`` then describes p*: all points below ``low``, of mass ``below``, and the first ``taken`` points of
    ``order`` with their masses, of which only the last may be less than the point's weight.
    """
    n, wanted = c.size, max(c.size // NEAR, FEW)
    there = Window(window[:2], window[2:])
    if n > 2 * wanted and not there.width[0] < np.inf:
        window[:] = _sorted_window(c, y, volume, two)
    u, v, passes, n_near = _pour(c, y, s, volume, two, there, room)
    if room.high[0] == np.inf:  # all points are listed: half the height of a slice of them about the level
        heights, reach = np.sort(room.heights[0, : room.seen[0]]), max(1, n // (2 * NEAR))
        middle = int(np.searchsorted(heights, u))
        width = 0.5 * np.ptp(heights[max(0, middle - reach) : middle + reach]) if heights.size else 0.0
        there.width[0] = width if width > 0.0 else np.inf
    elif n_near > 2 * wanted:
        there.width[0] *= 0.7
    elif 2 * n_near < min(wanted, n):  # a window that holds everything need not grow
        there.width[0] *= 1.3
    there.middle[:] = u, v
    return Found(0.5 * (u + v), 0.5 * (v - u) if two else 0.0, passes)


def _sorted_window(c: np.ndarray, y: np.ndarray, volume: float, two: bool) -> tuple[float, float, float]:
    """(u, v, half-width) of a window about the levels for equal weights, by sorting all heights.

    The width is infinite if the window must hold all points. With z the sums of the two sorted classes, the lowest m
    points of each class are covered if Σ (zₘ − zₖ) over k ≤ m is below the volume.
    """
    first, second = (np.sort(c[y > 0.0]), np.sort(-c[y < 0.0])) if two else (np.sort(y * c),) * 2
    m, reach = min(first.size, second.size), c.size // (4 * NEAR)
    z = first[:m] + second[:m] if two else first
    sums = np.cumsum(z)
    k = int(np.searchsorted(z * np.arange(1, m + 1) - sums, volume))
    if k == m:
        return 0.0, 0.0, np.inf
    u, v = float(first[k]), float(second[k])
    if k > 0:
        level = float(volume + sums[k - 1]) / k
        u = v = level
        if two:
            u = 0.5 * (max(first[k - 1], level - second[k]) + min(first[k], level - second[k - 1]))
            v = level - u
    width = 0.0
    for middle, heights in ((u, first), (v, second)):
        slice_of = 0.5 * (heights[min(k + reach, heights.size - 1)] - heights[max(k - reach, 0)])
        width = max(width, slice_of, heights[k] - middle, middle - heights[max(k - 1, 0)])
    return u, v, 1.001 * float(width) if width > 0.0 else np.inf


@compiled
def draw(c, y, s, two, room, basin, uniforms, out):
    """out ← points of a basin (0: the positive class, or the only basin), drawn from p* by numbers in [0, 1)."""
    c, y, s, room, uniforms, out = borrow(c), borrow(y), borrow(s), borrow(room), borrow(uniforms), borrow(out)
    masses, order, weights = room.masses, room.order, room.weights
    low, below, n_listed = room.low[basin], room.below[basin], room.taken[basin]
    total = below
    for r in range(n_listed):
        total += weights[basin, order[basin, r]]
    for k in range(out.size):
        rest, point = uniforms[k] * total, -1
        if rest < below:
            piece = 0
            while piece < masses.shape[1] - 1 and (rest >= masses[basin, piece] or masses[basin, piece] == 0.0):
                rest -= masses[basin, piece]
                piece += 1
            # rounding may end the search at an empty piece
            while piece > 0 and masses[basin, piece] == 0.0:
                piece -= 1
            for i in range(piece * PIECE, min((piece + 1) * PIECE, c.size)):
                own = not two or (y[i] > 0.0 if basin == 0 else y[i] < 0.0)
                weight = s[i] if s.size > 0 else 1.0
                if own and y[i] * c[i] < low and weight > 0.0:
                    point = i
                    rest -= weight
                    if rest < 0.0:
                        break
        else:
            rest -= below
            for r in range(n_listed):
                point = room.places[basin, order[basin, r]]
                rest -= weights[basin, order[basin, r]]
                if rest < 0.0:
                    break
        out[k] = point


class Poured(NamedTuple):
    """The result of :func:`fill`: the level γ, the bias b and the minimax-optimal distribution p."""

    level: float
    bias: float
    p: np.ndarray


def fill(c: np.ndarray, volume: float, *, y: np.ndarray | None = None, s: np.ndarray | None = None) -> Poured:
    """Pour ``volume`` over responses c: with labels y into two basins, without them into one. All points are listed.

    Examples
    --------
    >>> fill(np.array([0.0, 1.0, 5.0]), 3.0)
    Poured(level=2.0, bias=0.0, p=array([0.5, 0.5, 0. ]))
    """
    n, two = c.size, y is not None
    signs, weights = (np.ones(n) if y is None else y), (np.empty(0) if s is None else s)
    space = room(n)
    u, v, _, _ = _pour(signs * c, signs, weights, float(volume), two, Window(np.zeros(2), np.array([np.inf])), space)
    p = np.zeros(n)
    for a in range(2 if two else 1):
        listed = space.order[a, : space.taken[a]]
        own = space.weights[a, listed]
        p[space.places[a, listed]] = own / own.sum() * (0.5 if two else 1.0)
    return Poured(0.5 * (u + v), 0.5 * (v - u) if two else 0.0, p)
