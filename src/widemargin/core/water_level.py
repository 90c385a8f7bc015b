"""Water levels: how high nν of slack lifts the lowest responses, without a bias and with one.

One basin. Responses cᵢ with weights sᵢ (widths of the columns) hold a volume V of water up to the level γ with

    g(γ) = Σ sᵢ max(0, γ − cᵢ) = V;      V = 0: γ = min cᵢ.

g is convex and piecewise linear, so Newton's method (γ ← (V + Σ sᵢcᵢ)/Σ sᵢ over the covered points) ends at it from
any level that covers a point, in four passes over n from the level of the step before; ``tests/reference`` has it. The
way below takes one, and serves two basins as well.

Two basins. A bias b lifts the positive responses by b and lowers the negative ones by it; the best b maximises γ. With
u = γ − b and v = γ + b the levels of the two classes in their own heights,

    2γ = max {u + v : G⁺(u) + G⁻(v) ≤ V} = min over m of (V + S⁺(m) + S⁻(m))/m,

G being g of one class and S(m) the sum of its lowest responses up to the mass m (for equal weights: 2γ is the level of
the sorted classes added pairwise). At the minimum both classes are covered to the same mass, and the ratio is the
level: m grows while the next two heights sum to less than it. One basin is the same with a second one of height 0 and
endless mass.

:func:`pour` finds the minimum in one pass over n and a small sort. Points below a window about the last levels are
summed; those inside it are listed, and a smaller window is laid about where the sums, and the density of the
listed points, say that the levels are now; the few points in that are sorted and walked through. If the minimum is not
inside, a window grows, in the end over everything: the answer never depends on windows but for rounding. Where there
are no last levels, all heights are sorted by NumPy to lay the first window. What is left
is p*, the minimax-optimal distribution: p*ᵢ = sᵢ/(mass covered), half of it on each class where there are two basins; a
point at the surface may be covered in part. :func:`draw` draws from it without a list of all its points: the pass
has kept the mass below the window of each piece of the examples, so one piece is searched for each draw.

Cotter, Shalev-Shwartz, Srebro: The Kernelized Stochastic Batch Perceptron. ICML 2012, Secs. 3.2 and 3.6, App. B.
Printed Algorithms 2 and 3 do not work as they stand; ``tests/reference/water_level.py`` has a selection that does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .borrowing import borrow
from .dispatch import compiled, inlined

#: The window should hold one in NEAR of the points, and the one inside it FEW; so few are sorted at once.
NEAR, FEW = 16, 128
#: Times that the sums inside the window say how far the levels are.
MOST_TRIES = 6
#: Examples in a piece.
PIECE = 1024
#: Masses this close to each other, relative to themselves, are equal.
EQUAL = 1e-14


#: What ``Room.here`` holds of each basin. Of the window: its ends, the mass below it, and Σ mass × height there. Of the
#: walk up through its points: the mass covered, Σ mass × height, what is covered of the next point's mass, and the
#: heights of the highest point covered and of the next one.
LOW, HIGH, BELOW, BELOW_TOTAL, MASS, TOTAL, PART, LAST, NEXT = range(9)
#: What ``Room.counts`` holds of each basin: the points in the window; of those in ``order``, how many there are,
#: how many are below the start of the walk, and how many are covered whole, or, in the end, at all.
SEEN, ORDERED, START, TAKEN = range(4)


class Room(NamedTuple):
    """Where :func:`pour` works, and what it leaves behind for :func:`draw` until the next time.

    Mass below the window, by basin and piece; points of the window: ``near`` are all of them, and by basin their
    ``places``, ``heights`` and ``weights``, and an ``order`` of them, of which the first are covered. All is made by
    whoever calls: what a loop makes itself is counted, which takes long to compile.
    """

    masses: np.ndarray
    near: np.ndarray
    spare: np.ndarray
    places: np.ndarray
    heights: np.ndarray
    weights: np.ndarray
    order: np.ndarray
    here: np.ndarray
    counts: np.ndarray


def room(n: int) -> Room:
    """Room for n examples; memory that no window reaches is never touched."""
    near, spare, places, order = np.empty(n, np.int64), np.empty(n, np.int64), *np.empty((2, 2, n), np.int64)
    heights, weights = np.empty((2, 2, n))
    masses, here, counts = np.zeros((2, -(-n // PIECE))), np.zeros((9, 2)), np.zeros((4, 2), np.int64)
    return Room(masses, near, spare, places, heights, weights, order, here, counts)


@inlined
def _survey(c, y, s, two, room):
    """The one pass. In place: masses ← of the points below the window, by basin and piece; BELOW, BELOW_TOTAL ← of all
    pieces; near ← the points inside the window. Returns how many are near.
    """
    masses, near, here = room.masses, room.near, room.here
    low, other_low, high, other_high = here[LOW, 0], here[LOW, 1], here[HIGH, 0], here[HIGH, 1]
    n_near = 0
    here[BELOW, 0], here[BELOW, 1], here[BELOW_TOTAL, 0], here[BELOW_TOTAL, 1] = 0.0, 0.0, 0.0, 0.0
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
            # every index is written and kept only where it belongs: no branches
            near[n_near] = first + i
            n_near += int((height >= (low if is_first else other_low)) & (height < (high if is_first else other_high)))
        if not two:
            own, others, own_total, others_total = own + others, 0.0, own_total + others_total, 0.0
        masses[0, piece], masses[1, piece] = own, others
        here[BELOW, 0] += own
        here[BELOW, 1] += others
        here[BELOW_TOTAL, 0] += own_total
        here[BELOW_TOTAL, 1] += others_total
    return n_near


@inlined
def _look(c, y, s, two, window, whole, room):
    """List the points in a window, or all, by basin; in place. Returns how many there are, with those of no weight."""
    here, count, near, heights, weights = room.here, room.counts, room.near, room.heights, room.weights
    for a in range(2):
        middle = window[a if two else 0]
        here[LOW, a] = -np.inf if whole else middle - window[2]
        here[HIGH, a] = np.inf if whole else middle + window[2]
    n_near = _survey(c, y, s, two, room)
    count[SEEN, 0], count[SEEN, 1] = 0, 0
    for r in range(n_near):
        i = near[r]
        weight = s[i] if s.size > 0 else 1.0
        if weight > 0.0:
            a = int(two and y[i] < 0.0)
            k = count[SEEN, a]
            room.places[a, k], heights[a, k], weights[a, k] = i, y[i] * c[i], weight
            count[SEEN, a] = k + 1
    return n_near


@inlined
def _sort(heights, order, spare, n):
    """Sort the first n of ``order`` by their heights, in place; Numba's own sort takes two seconds to compile."""
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
    """order ← the points of a basin below LAST and then, sorted, those below NEXT, in place; counts them."""
    heights, order, inside = room.heights[a], room.order[a], room.near
    low, high = room.here[LAST, a], room.here[NEXT, a]
    n_below, n_inside = 0, 0
    for r in range(room.counts[SEEN, a]):
        order[n_below] = r
        n_below += int(heights[r] < low)
        inside[n_inside] = r
        n_inside += int((heights[r] >= low) & (heights[r] < high))
    _sort(heights, inside, room.spare, n_inside)
    for r in range(n_inside):
        order[n_below + r] = inside[r]
    room.counts[START, a], room.counts[ORDERED, a] = n_below, n_below + n_inside


@inlined
def _moves(volume, two, window, from_u, from_v, room):
    """How far the levels are from the middle of the window, by the sums at a first guess and the density inside.

    From there, with masses m covered and R the volume missing, m du + ½ρdu² = R; with two basins m⁺du + m⁻dv = R
    and m⁺ + ρ⁺du = m⁻ + ρ⁻dv.
    """
    m, other_m, density, other_density, missing, width = 0.0, 0.0, 0.0, 0.0, volume, window[2]
    for a in range(2 if two else 1):
        middle = window[a] + (from_u if a == 0 else from_v)
        here, below, inside = room.here[BELOW, a], room.here[BELOW_TOTAL, a], 0.0
        for r in range(room.counts[SEEN, a]):
            height, weight = room.heights[a, r], room.weights[a, r]
            inside += weight
            covered = height < middle
            here += weight if covered else 0.0
            below += weight * height if covered else 0.0
        m, other_m, density, other_density = here, m, inside / (2.0 * width), density
        missing -= middle * here - below
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
def _begin(two, room):
    """Cover the points below the start of the walk, in place; a second basin that is none has height 0."""
    here, count = room.here, room.counts
    for a in range(2):
        mass, total = here[BELOW, a], here[BELOW_TOTAL, a]
        if a == 0 or two:
            for r in range(count[START, a]):
                k = room.order[a, r]
                mass += room.weights[a, k]
                total += room.weights[a, k] * room.heights[a, k]
        here[MASS, a], here[TOTAL, a], here[PART, a], count[TAKEN, a] = mass, total, 0.0, count[START, a]
    if not two:
        here[MASS, 1], here[TOTAL, 1], here[LAST, 1] = here[MASS, 0], 0.0, 0.0


@inlined
def _cover(reached, a, room):
    """Cover basin a up to the mass reached, as far as its points go, in place."""
    here, order, n_ordered = room.here, room.order, room.counts[ORDERED, a]
    mass, taken, part, total = here[MASS, a], room.counts[TAKEN, a], here[PART, a], here[TOTAL, a]
    while reached - mass > EQUAL * reached and taken < n_ordered:
        k = order[a, taken]
        gap = room.weights[a, k] - part
        moved = min(gap, reached - mass)
        here[LAST, a] = room.heights[a, k]
        total += moved * room.heights[a, k]
        if gap - moved <= EQUAL * reached:
            taken += 1
            part = 0.0
            mass += gap
        else:
            part += moved
            mass = reached
    here[MASS, a], room.counts[TAKEN, a], here[PART, a], here[TOTAL, a] = mass, taken, part, total
    here[NEXT, a] = room.heights[a, order[a, taken]] if taken < n_ordered else np.inf


@inlined
def _climb(volume, two, final, room):
    """Walk up to the minimum, in place; returns (the level, whether the minimum is inside the window).

    ``final`` says that the window holds everything.
    """
    here, count, basins = room.here, room.counts, 2 if two else 1
    reached, steps, level = max(here[MASS, 0], here[MASS, 1]), 0, np.inf
    while True:
        # bring both basins to the same mass, then look at the next heights
        for a in range(basins):
            _cover(reached, a, room)
        if not two:
            here[MASS, 1], here[NEXT, 1] = here[MASS, 0], 0.0
        lacking = reached - min(here[MASS, 0], here[MASS, 1]) > EQUAL * reached
        if (max(here[NEXT, 0], here[NEXT, 1]) == np.inf or lacking) and not final:
            return level, False
        if reached > 0.0:
            level = (volume + here[TOTAL, 0] + here[TOTAL, 1]) / reached
            if here[NEXT, 0] + here[NEXT, 1] >= level:
                # where the walk began: was the start already above the minimum?
                return level, final or steps > 0 or here[LAST, 0] + here[LAST, 1] <= level
        step, skipped = np.inf, False
        for a in range(basins):
            taken = count[TAKEN, a]
            if taken < count[ORDERED, a]:
                gap = room.weights[a, room.order[a, taken]] - here[PART, a]
                if gap <= EQUAL * reached:  # a weight that adds nothing to the mass
                    count[TAKEN, a] = taken + 1
                    here[PART, a] = 0.0
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
    """(whether the minimum is inside, u, v) for a volume > 0, by walks through smaller windows about where it should
    be; in place, the points covered come first in ``order``, TAKEN of them, with their masses for weights.
    """
    here, count = room.here, room.counts
    share = FEW / n_near if n_near > 2 * FEW and not whole else 1.0
    du, dv = 0.0, 0.0
    near, tries = share < 1.0, 0
    while near and tries < MOST_TRIES:
        before, other_before = du, dv
        du, dv = _moves(volume, two, window, du, dv, room)
        near = max(abs(du - before), abs(dv - other_before)) > 0.5 * share * window[2]
        tries += 1
    while True:
        everything = share >= 1.0
        for a in range(2):
            middle, width = window[a if two else 0] + (du if a == 0 else dv), share * window[2]
            here[LAST, a] = here[LOW, a] if everything else max(middle - width, here[LOW, a])
            here[NEXT, a] = here[HIGH, a] if everything else min(middle + width, here[HIGH, a])
            _line_up(a, room)
        edge, other_edge = here[LAST, 0], here[LAST, 1]  # not below the highest covered point
        _begin(two, room)
        final = whole and everything
        level, inside = _climb(volume, two, final, room)
        u, v = level, level
        if two and inside:
            lowest, highest = max(here[LAST, 0], level - here[NEXT, 1]), min(here[NEXT, 0], level - here[LAST, 1])
            # where nothing was walked over, the highest covered point is known to be below the window, no more
            if not final:
                walked = count[TAKEN, 0] > count[START, 0] or here[PART, 0] > 0.0 or lowest > edge
                other = count[TAKEN, 1] > count[START, 1] or here[PART, 1] > 0.0 or highest < level - other_edge
                inside = walked and other
            u = 0.5 * (lowest + highest)
            v = level - u
        if inside or everything:
            break
        share = 8.0 * share if 16.0 * share < 1.0 else 1.0
    for a in range(2 if two else 1):
        if here[PART, a] > 0.0:
            room.weights[a, room.order[a, count[TAKEN, a]]] = here[PART, a]
            count[TAKEN, a] += 1
    return inside, u, v


@inlined
def _lowest(two, room):
    """(whether they are inside, u, v) for no volume: the minimisers, all of them, come first in ``order``."""
    here, count, order = room.here, room.counts, room.order
    inside = here[BELOW, 0] + here[BELOW, 1] == 0.0 and count[SEEN, 0] > 0 and (count[SEEN, 1] > 0 or not two)
    for a in range(2):
        heights, lowest, n_lowest = room.heights[a], np.inf, 0
        for r in range(count[SEEN, a]):
            lowest = min(lowest, heights[r])
        for r in range(count[SEEN, a]):
            order[a, n_lowest] = r
            n_lowest += int(heights[r] == lowest)
        here[LAST, a], count[TAKEN, a] = lowest, n_lowest
    return inside, here[LAST, 0], here[LAST, 1] if two else here[LAST, 0]


@inlined
def _lay_window(n, whole, n_near, u, v, window, room):
    """window ← about the levels found, of a width to go on with, in place."""
    if whole:
        # the height of a slice of the points about the level
        heights, order, size = room.heights[0], room.near, room.counts[SEEN, 0]
        middle, reach = 0, max(1, n // (2 * NEAR))
        for r in range(size):
            order[r] = r
            middle += int(heights[r] < u)
        width = 0.0
        if size > 0:
            _sort(heights, order, room.spare, size)
            width = 0.5 * (heights[order[min(middle + reach, size) - 1]] - heights[order[max(0, middle - reach)]])
        window[2] = width if width > 0.0 else np.inf
    else:
        wanted = max(n // NEAR, FEW)
        # a window that holds everything need not grow
        narrow = 2 * n_near < min(wanted, n)
        window[2] *= 0.7 if n_near > 2 * wanted else 1.3 if narrow else 1.0
    window[0], window[1] = u, v


class Found(NamedTuple):
    """What :func:`pour` answers; the points that p* covers are in its room."""

    level: float
    bias: float
    passes: int


@compiled
def _pour(c, y, s, volume, two, window, room):
    """As :func:`pour`, from a window as it is; one of no finite width holds everything. Returns the fields of Found."""
    c, y, s, window, room = borrow(c), borrow(y), borrow(s), borrow(window), borrow(room)
    passes = 0
    while True:
        passes += 1
        whole = passes > 3 or not np.isfinite(window[0] + window[1] + window[2])
        n_near = _look(c, y, s, two, window, whole, room)
        if volume > 0.0:
            inside, u, v = _surface(volume, two, whole, window, n_near, room)
        else:
            inside, u, v = _lowest(two, room)
        if inside:
            break
        window[2] *= 4.0
    _lay_window(c.size, whole, n_near, u, v, window, room)
    return 0.5 * (u + v), 0.5 * (v - u) if two else 0.0, passes


def pour(
    c: np.ndarray, y: np.ndarray, s: np.ndarray, volume: float, two: bool, window: np.ndarray, room: Room
) -> Found:  # fmt: skip
    """Pour ``volume`` into one basin, or into the two of the signs y; heights are y c. Returns :class:`Found`.

    Changes in place: ``window``, (u, v, half-width) to look in first, becomes the levels found and a width to go on
    with; the ``room`` holds p* by basin: all below LOW, of mass BELOW, by piece in ``masses``, and the first TAKEN of
    the points in ``order`` with their masses, of which only the last may be less than its weight.
    """
    n, wanted = c.size, max(c.size // NEAR, FEW)
    if n > 2 * wanted and not window[2] < np.inf:
        window[:] = _sorted_window(c, y, volume, two)
    return Found(*_pour(c, y, s, volume, two, window, room))


def _sorted_window(c: np.ndarray, y: np.ndarray, volume: float, two: bool) -> tuple[float, float, float]:
    """(u, v, half-width) about the levels of points of equal weight, by sorting all heights; the width is infinite
    where the window must hold everything.

    The lowest m of each basin, at heights of z together, are covered where Σ (zₘ − zₖ) over k ≤ m is below the volume.
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
    """out ← points of a basin (0: positive ones, or all of one basin), drawn from p* by numbers in [0, 1), in place."""
    c, y, s, room, uniforms, out = borrow(c), borrow(y), borrow(s), borrow(room), borrow(uniforms), borrow(out)
    masses, order, weights = room.masses, room.order, room.weights
    low, below, n_listed = room.here[LOW, basin], room.here[BELOW, basin], room.counts[TAKEN, basin]
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
            # rounding may lead to an empty piece at the end
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
    """What :func:`fill` answers: the level γ, the bias b and the minimax-optimal distribution p."""

    level: float
    bias: float
    p: np.ndarray


def fill(c: np.ndarray, volume: float, *, y: np.ndarray | None = None, s: np.ndarray | None = None) -> Poured:
    """Pour ``volume`` over responses c: with labels y into two basins, without them into one.

    Examples
    --------
    >>> fill(np.array([0.0, 1.0, 5.0]), 3.0)
    Poured(level=2.0, bias=0.0, p=array([0.5, 0.5, 0. ]))
    >>> fill(np.array([0.0, 1.0]), 0.0, y=np.array([1.0, -1.0]))
    Poured(level=0.5, bias=0.5, p=array([0.5, 0.5]))
    """
    c = np.ascontiguousarray(c, dtype=np.float64)
    n, two = c.size, y is not None
    signs = np.ascontiguousarray(y, dtype=np.float64) if y is not None else np.ones(n)
    weights = np.empty(0) if s is None else np.ascontiguousarray(s, dtype=np.float64)
    for sign in (1.0, -1.0) if two else (1.0,):
        if not np.any((signs == sign) & (weights > 0.0 if weights.size else True)):
            raise ValueError("a basin needs a point with a weight > 0, and one has none")
    if not (np.isfinite(c).all() and math.isfinite(volume)):
        raise ValueError("responses and volume must be finite numbers")
    window, space = np.array([0.0, 0.0, np.inf]), room(n)
    found = Found(*_pour(signs * c, signs, weights, float(volume), two, window, space))  # which lists all points
    p = np.zeros(n)
    for a in range(2 if two else 1):
        listed = space.order[a, : space.counts[TAKEN, a]]
        own = space.weights[a, listed]
        p[space.places[a, listed]] = own / own.sum() * (0.5 if two else 1.0)
    return Poured(found.level, found.bias, p)
