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
inside, a window grows, in the end over everything: the answer never depends on windows but for rounding. What is left
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
from .dispatch import apart, compiled, inlined

#: The window should hold one in NEAR of the points, and the one inside it FEW; so few are sorted at once.
NEAR, FEW = 16, 128
#: Examples in a piece.
PIECE = 1024
#: Masses this close to each other, relative to themselves, are equal.
EQUAL = 1e-14


def pieces(n: int) -> np.ndarray:
    """Room for the masses of n examples, piece by piece, of the two basins."""
    return np.zeros((2, -(-n // PIECE)))


@inlined
def _survey(c, y, s, two, lows, highs, masses, near, mass, total):
    """The one pass. In place: masses ← of the points below the window, by basin and piece; mass, total ← their mass and
    Σ mass × height, by basin; near ← the points inside the window. Returns how many are near.
    """
    low, other_low = lows[0], lows[1]
    n_near = 0
    mass[0], mass[1], total[0], total[1] = 0.0, 0.0, 0.0, 0.0
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
            height, a = Y[i] * C[i], int(Y[i] < 0.0)
            # every index is written and kept only where it belongs: no branches
            near[n_near] = first + i
            n_near += int((height >= lows[a]) & (height < highs[a]))
        if not two:
            own, others, own_total, others_total = own + others, 0.0, own_total + others_total, 0.0
        masses[0, piece], masses[1, piece] = own, others
        mass[0] += own
        mass[1] += others
        total[0] += own_total
        total[1] += others_total
    return n_near


class Points(NamedTuple):
    """Points of a basin, with their heights and weights."""

    places: np.ndarray
    heights: np.ndarray
    weights: np.ndarray


class View(NamedTuple):
    """What the pass over all points shows: the window from ``lows`` to ``highs``, the mass ``below`` it with Σ mass ×
    height as ``total``, by basin, the points inside, and how many there are, those of no weight included.
    """

    lows: np.ndarray
    highs: np.ndarray
    below: np.ndarray
    total: np.ndarray
    first: Points
    second: Points
    n_near: int


class Walk(NamedTuple):
    """Where a walk up through the points of a window stands, by basin; changed in place.

    Of the points ``taken`` are covered whole, ``start`` of them since before the walk, and ``part`` of the next one's
    mass. ``mass`` is covered in all, ``total`` is Σ mass × height, ``last`` and ``following`` are the heights of the
    highest point covered and of the next one.
    """

    start: np.ndarray
    taken: np.ndarray
    part: np.ndarray
    mass: np.ndarray
    total: np.ndarray
    last: np.ndarray
    following: np.ndarray


class Surface(NamedTuple):
    """The levels u and v and the points covered, with their masses for weights, if the minimum is ``inside``."""

    inside: bool
    u: float
    v: float
    first: Points
    second: Points


@apart
def _gathered(c, y, s, two, sign, near, n_near):
    """Points of a basin that are inside the window, with their heights and weights."""
    points, heights, weights = np.empty(n_near, np.int64), np.empty(n_near), np.empty(n_near)
    k = 0
    for r in range(n_near):
        i = near[r]
        if (not two or y[i] == sign) and (s.size == 0 or s[i] > 0.0):
            points[k], heights[k], weights[k] = i, y[i] * c[i], s[i] if s.size > 0 else 1.0
            k += 1
    return Points(points[:k], heights[:k], weights[:k])


@inlined
def _look(c, y, s, two, window, whole, masses, near):
    """The view through a window, or of everything; in place: masses and near as in :func:`pour`."""
    lows, highs, below, total = np.empty(2), np.empty(2), np.empty(2), np.empty(2)
    for a in range(2):
        middle = window[a if two else 0]
        lows[a], highs[a] = (-np.inf, np.inf) if whole else (middle - window[2], middle + window[2])
    n_near = _survey(c, y, s, two, lows, highs, masses, near, below, total)
    first = _gathered(c, y, s, two, 1.0, near, n_near)
    second = Points(first.places[:0], first.heights[:0], first.weights[:0])
    if two:
        second = _gathered(c, y, s, two, -1.0, near, n_near)
    return View(lows, highs, below, total, first, second, n_near)


@apart
def _chosen(points, order, count):
    """Some of the points, in an order."""
    places, heights, weights = np.empty(count, np.int64), np.empty(count), np.empty(count)
    for r in range(count):
        i = order[r]
        places[r], heights[r], weights[r] = points.places[i], points.heights[i], points.weights[i]
    return Points(places, heights, weights)


@apart
def _in_order(heights):
    """The places of heights, from the lowest to the highest; Numba's own sort takes two seconds to compile."""
    n, width = heights.size, 1
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for r in range(n):
        order[r] = r
    while width < n:
        for low in range(0, n, 2 * width):
            middle, end = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for r in range(low, end):
                if i < middle and (j == end or heights[order[i]] <= heights[order[j]]):
                    merged[r] = order[i]
                    i += 1
                else:
                    merged[r] = order[j]
                    j += 1
        order, merged = merged, order
        width *= 2
    return order


@apart
def _split(points, low, high):
    """The points below ``low`` and then, in order, those below ``high``; and how many are below ``low``."""
    heights = points.heights
    n_below, n_inside = 0, 0
    order, inside = np.empty(heights.size, np.int64), np.empty(heights.size, np.int64)
    for r in range(heights.size):
        order[n_below] = r
        n_below += int(heights[r] < low)
        inside[n_inside] = r
        n_inside += int((heights[r] >= low) & (heights[r] < high))
    between = np.empty(n_inside)
    for r in range(n_inside):
        between[r] = heights[inside[r]]
    ranks = _in_order(between)
    for r in range(n_inside):
        order[n_below + r] = inside[ranks[r]]
    return _chosen(points, order, n_below + n_inside), n_below


@inlined
def _moves(volume, two, window, view):
    """How far the levels have moved from the middle of the window, by the sums there and the density inside.

    With masses m covered and R the volume missing, m du + ½ρdu² = R; with two basins m⁺du + m⁻dv = R
    and m⁺ + ρ⁺du = m⁻ + ρ⁻dv.
    """
    m, density, missing = np.empty(2), np.empty(2), volume
    m[0], m[1], density[0], density[1] = 0.0, 0.0, 0.0, 0.0
    for a in range(2 if two else 1):
        points = view.first if a == 0 else view.second
        heights, weights = points.heights, points.weights
        here, below = view.below[a], view.total[a]
        for r in range(heights.size):
            density[a] += weights[r]
            covered = heights[r] < window[a]
            here += weights[r] if covered else 0.0
            below += weights[r] * heights[r] if covered else 0.0
        density[a] /= 2.0 * window[2]
        m[a] = here
        missing -= window[a] * here - below
    if not two:
        root = math.sqrt(max(m[0] * m[0] + 2.0 * density[0] * missing, 0.0))
        du = 2.0 * missing / (m[0] + root) if m[0] > 0.0 else 0.0
        dv = du
    elif density[0] > 0.0 and density[1] > 0.0 and m[0] + m[1] > 0.0:
        du = (missing * density[1] - m[1] * (m[0] - m[1])) / (m[0] * density[1] + m[1] * density[0])
        dv = (m[0] - m[1] + density[0] * du) / density[1]
    else:
        du, dv = 0.0, 0.0
    return min(max(du, -window[2]), window[2]), min(max(dv, -window[2]), window[2])


@apart
def _begin(two, view, first, second, walk):
    """Cover the points below the start of the walk, in place; a second basin that is none has height 0."""
    mass, total, start = walk.mass, walk.total, walk.start
    for a in range(2):
        mass[a], total[a], walk.part[a], walk.taken[a] = view.below[a], view.total[a], 0.0, start[a]
    for a in range(2 if two else 1):
        points = first if a == 0 else second
        heights, weights = points.heights, points.weights
        for r in range(start[a]):
            mass[a] += weights[r]
            total[a] += weights[r] * heights[r]
    if not two:
        mass[1], total[1], walk.last[1] = mass[0], 0.0, 0.0


@inlined
def _cover(reached, a, points, walk):
    """Cover basin a up to the mass reached, as far as its points go, in place."""
    mass, taken, part = walk.mass, walk.taken, walk.part
    heights, weights = points.heights, points.weights
    while reached - mass[a] > EQUAL * reached and taken[a] < heights.size:
        room = weights[taken[a]] - part[a]
        moved = min(room, reached - mass[a])
        walk.last[a] = heights[taken[a]]
        walk.total[a] += moved * walk.last[a]
        if room - moved <= EQUAL * reached:
            taken[a] += 1
            part[a] = 0.0
            mass[a] += room
        else:
            part[a] += moved
            mass[a] = reached
    walk.following[a] = heights[taken[a]] if taken[a] < heights.size else np.inf


@inlined
def _climb(volume, two, final, first, second, walk):
    """Walk up to the minimum, in place; returns (the level, whether the minimum is inside the window).

    ``final`` says that the window holds everything.
    """
    mass, total, taken, part = walk.mass, walk.total, walk.taken, walk.part
    last, following, basins = walk.last, walk.following, 2 if two else 1
    reached, steps, level = max(mass[0], mass[1]), 0, np.inf
    while True:
        # bring both basins to the same mass, then look at the next heights
        for a in range(basins):
            _cover(reached, a, first if a == 0 else second, walk)
        if not two:
            mass[1], following[1] = mass[0], 0.0
        lacking = reached - min(mass[0], mass[1]) > EQUAL * reached
        if (following[0] == np.inf or following[1] == np.inf or lacking) and not final:
            return level, False
        if reached > 0.0:
            level = (volume + total[0] + total[1]) / reached
            if following[0] + following[1] >= level:
                # where the walk began: was the start already above the minimum?
                return level, final or steps > 0 or last[0] + last[1] <= level
        step, skipped = np.inf, False
        for a in range(basins):
            weights = first.weights if a == 0 else second.weights
            if taken[a] < weights.size:
                room = weights[taken[a]] - part[a]
                if room <= EQUAL * reached:  # a weight that adds nothing to the mass
                    taken[a] += 1
                    part[a] = 0.0
                    skipped = True
                step = min(step, room)
        steps += 1
        if skipped:
            continue
        if not step < np.inf:  # no mass is left: there is no level
            return level, True
        reached += step


@apart
def _covered(a, points, walk):
    """The points of basin a that the walk has covered, with their masses."""
    part = walk.part[a]
    count = walk.taken[a] + int(part > 0.0)
    masses = points.weights[:count]
    if part > 0.0:
        masses[-1] = part
    return Points(points.places[:count], points.heights[:count], masses)


@inlined
def _surface(volume, two, whole, window, view):
    """The surface of a volume > 0, by walks through smaller windows about where it should be."""
    taken, start = np.empty(2, np.int64), np.empty(2, np.int64)
    walk = Walk(start, taken, np.empty(2), np.empty(2), np.empty(2), np.empty(2), np.empty(2))
    last, following, part = walk.last, walk.following, walk.part
    share = FEW / view.n_near if view.n_near > 2 * FEW and not whole else 1.0
    du, dv = 0.0, 0.0
    if share < 1.0:
        du, dv = _moves(volume, two, window, view)
    while True:
        everything = share >= 1.0
        for a in range(2):
            middle, width = window[a if two else 0] + (du if a == 0 else dv), share * window[2]
            last[a] = view.lows[a] if everything else max(middle - width, view.lows[a])
            following[a] = view.highs[a] if everything else min(middle + width, view.highs[a])
        first, start[0] = _split(view.first, last[0], following[0])
        second, start[1] = _split(view.second, last[1], following[1])
        edge, other_edge = last[0], last[1]  # not below the highest covered point
        _begin(two, view, first, second, walk)
        final = whole and everything
        level, inside = _climb(volume, two, final, first, second, walk)
        u, v = level, level
        if two and inside:
            lowest, highest = max(last[0], level - following[1]), min(following[0], level - last[1])
            # where nothing was walked over, the highest covered point is known to be below the window, no more
            if not final:
                inside = (taken[0] > start[0] or part[0] > 0.0 or lowest > edge) and (
                    taken[1] > start[1] or part[1] > 0.0 or highest < level - other_edge
                )
            u = 0.5 * (lowest + highest)
            v = level - u
        if inside or everything:
            break
        share = 8.0 * share if 16.0 * share < 1.0 else 1.0
    return Surface(inside, u, v, _covered(0, first, walk), _covered(1, second, walk))


@apart
def _lowest_of(points):
    """The lowest points, all of them, and their height."""
    heights, lowest, count = points.heights, np.inf, 0
    for r in range(heights.size):
        lowest = min(lowest, heights[r])
    order = np.empty(heights.size, np.int64)
    for r in range(heights.size):
        order[count] = r
        count += int(heights[r] == lowest)
    return _chosen(points, order, count), lowest


@inlined
def _lowest(two, view):
    """The surface of no volume: the minimisers, all of them."""
    first, second = view.first, view.second
    if view.below[0] + view.below[1] != 0.0 or first.heights.size == 0 or (second.heights.size == 0 and two):
        return Surface(False, 0.0, 0.0, first, second)
    first, u = _lowest_of(first)
    second, v = _lowest_of(second)
    return Surface(True, u, v if two else u, first, second)


@inlined
def _lay_window(n, whole, view, surface, window):
    """window ← about the levels found, of a width to go on with, in place."""
    if whole:
        # the height of a slice of the points about the level
        heights, middle, reach = view.first.heights, 0, max(1, n // (2 * NEAR))
        for r in range(heights.size):
            middle += int(heights[r] < surface.u)
        order = _in_order(heights)
        lowest, highest = order[max(0, middle - reach)], order[min(middle + reach, heights.size) - 1]
        width = 0.5 * (heights[highest] - heights[lowest])
        window[2] = width if width > 0.0 else np.inf
    else:
        wanted = max(n // NEAR, FEW)
        # a window that holds everything need not grow
        narrow = 2 * view.n_near < min(wanted, n)
        window[2] *= 0.7 if view.n_near > 2 * wanted else 1.3 if narrow else 1.0
    window[0], window[1] = surface.u, surface.v


class Found(NamedTuple):
    """What :func:`pour` leaves behind, by basin: p* covers all below ``lows``, of mass ``below``, and listed points of
    the window with their masses, of which only the last may be less than its weight.
    """

    level: float
    bias: float
    lows: np.ndarray
    below: np.ndarray
    first: Points
    second: Points
    passes: int


@compiled
def pour(c, y, s, volume, two, window, masses, near):
    """Pour ``volume`` into one basin, or into the two of the signs y; heights are y c. Returns :class:`Found`.

    Changes in place: ``window``, (u, v, half-width) to look in first, becomes the levels found and a width to go on
    with; ``masses`` (see :func:`pieces`) those below the window; ``near`` is scratch of n integers.
    """
    c, y, s, window, masses, near = borrow(c), borrow(y), borrow(s), borrow(window), borrow(masses), borrow(near)
    passes = 0
    while True:
        passes += 1
        whole = passes > 3 or not np.isfinite(window[0] + window[1] + window[2])
        view = _look(c, y, s, two, window, whole, masses, near)
        if volume > 0.0:
            surface = _surface(volume, two, whole, window, view)
        else:
            surface = _lowest(two, view)
        if surface.inside:
            break
        window[2] *= 4.0
    _lay_window(c.size, whole, view, surface, window)
    level, bias = 0.5 * (surface.u + surface.v), 0.5 * (surface.v - surface.u) if two else 0.0
    return Found(level, bias, view.lows, view.below, surface.first, surface.second, passes)


@compiled
def draw(c, y, s, two, found, masses, basin, uniforms, out):
    """out ← points of a basin (0: positive ones, or all of one basin), drawn from p* by numbers in [0, 1), in place."""
    c, y, s, found, masses = borrow(c), borrow(y), borrow(s), borrow(found), borrow(masses)
    uniforms, out = borrow(uniforms), borrow(out)
    points = found.first if basin == 0 else found.second
    listed, weights = points.places, points.weights
    low, below = found.lows[basin], found.below[basin]
    total = below
    for r in range(listed.size):
        total += weights[r]
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
            for r in range(listed.size):
                point = listed[r]
                rest -= weights[r]
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
    window, masses, near = np.array([0.0, 0.0, np.inf]), pieces(n), np.empty(n, np.int64)
    found = pour(signs * c, signs, weights, float(volume), two, window, masses, near)
    p = np.zeros(n)
    for listed, _, own in (found.first, found.second):
        if listed.size:
            p[listed] = own / own.sum() * (0.5 if two else 1.0)
    return Poured(found.level, found.bias, p)
