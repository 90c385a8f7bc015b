"""Water levels: how high nν of slack lifts the lowest responses, without a bias and with one.

One basin. Responses cᵢ with weights sᵢ (widths of the columns) hold a volume V of water up to the level γ with

    g(γ) = Σ sᵢ max(0, γ − cᵢ) = V;      V = 0: γ = min cᵢ.

g is convex and piecewise linear, so Newton's method from any level that covers a point is monotone after its first
step, and ends as soon as the covered set repeats: γ ← (V + Σ sᵢcᵢ)/Σ sᵢ over the covered points. From the level of the
step before it takes two or three passes.

Two basins. A bias b lifts the positive responses by b and lowers the negative ones by it; the best b maximises γ. With
u = γ − b and v = γ + b the levels of the two classes in their own heights,

    2γ = max {u + v : G⁺(u) + G⁻(v) ≤ V} = min over m of (V + S⁺(m) + S⁻(m))/m,

G being g of one class and S(m) the sum of its lowest responses up to the mass m (for equal weights: 2γ is the level of
the sorted classes added pairwise). At the minimum both classes are covered to the same mass, and the ratio is the
level: m grows while the next two heights sum to less than it. One basin is the same with a second one of height 0 and
endless mass.

:func:`pour` finds the minimum in one pass and a small sort. Points below a window about the last levels are listed and
summed; those inside it are sorted and walked through. If the minimum is not inside, the window grows and the pass is
made again, in the end over everything: the answer never depends on the window but for rounding. The list of covered
points comes with it, and with it p*, the minimax-optimal distribution: p*ᵢ = sᵢ/(mass covered), half of it on each
class where there are two basins; a point at the surface may be covered in part.

Cotter, Shalev-Shwartz, Srebro: The Kernelized Stochastic Batch Perceptron. ICML 2012, Secs. 3.2 and 3.6, App. B.
Printed Algorithms 2 and 3 do not work as they stand; ``tests/reference/water_level.py`` has a selection that does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .dispatch import borrow, compiled

#: The window should hold about so many points.
NEAR = 256
#: Masses this close to each other, relative to themselves, are equal.
ROUNDING = 1e-14


@compiled
def water_level(c, s, volume, start):
    """The level of one basin, by Newton's method from ``start``; s may be empty for equal weights. (level, passes)."""
    c, s = borrow(c), borrow(s)
    weighted, low = s.size > 0, np.inf
    if not volume > 0.0:
        for i in range(c.size):
            low = min(low, c[i])
        return low, 1
    level, covered, passes, descending = start, -1, 0, False
    while True:
        passes += 1
        mass, total, count = 0.0, 0.0, 0
        if weighted:
            for i in range(c.size):
                if c[i] < level:
                    mass += s[i]
                    total += s[i] * c[i]
                    count += 1
        else:
            for i in range(c.size):
                below = c[i] < level
                total += c[i] if below else 0.0
                count += 1 if below else 0
            mass = np.float64(count)
        if mass <= 0.0:
            # nothing under water: the level over all points at the lowest height is not above the true one
            if low < np.inf:
                return low, passes  # a volume that rounding swallows
            everything = 0.0
            for i in range(c.size):
                everything += s[i] if weighted else 1.0
                if not weighted or s[i] > 0.0:
                    low = min(low, c[i])
            level, covered = low + volume / everything, -1
            passes += 1
        elif count == covered:
            return level, passes
        else:
            lower = (volume + total) / mass
            if descending and lower >= level:
                return level, passes  # only rounding moves it now
            level, covered, descending = lower, count, covered >= 0


@compiled
def _listed(c, y, two, lows, highs, below, near):
    """below ← points under the window of their basin, near ← points inside, in place; returns how many of each."""
    c, y, below, near = borrow(c), borrow(y), borrow(below), borrow(near)
    n_below, n_near = 0, 0
    for i in range(c.size):
        height = y[i] * c[i]
        first = y[i] > 0.0 or not two
        low, high = (lows[0], highs[0]) if first else (lows[1], highs[1])
        # every index is written and kept only where it belongs: no branches
        below[n_below] = i
        n_below += 1 if height < low else 0
        near[n_near] = i
        n_near += 1 if (height >= low) & (height < high) else 0
    return n_below, n_near


@compiled
def _sorted_basin(c, y, s, two, sign, near, n_near):
    """Points of a basin that are inside the window, lowest first: (points, heights)."""
    points = np.empty(n_near, np.int64)
    heights = np.empty(n_near)
    k = 0
    for r in range(n_near):
        i = near[r]
        if (not two or y[i] == sign) and (s.size == 0 or s[i] > 0.0):
            points[k] = i
            heights[k] = y[i] * c[i]
            k += 1
    order = np.argsort(heights[:k])
    return points[:k][order], heights[:k][order]


@compiled
def pour(c, y, s, volume, two, window, below, near, covered, result):
    """Pour ``volume`` into one basin, or into the two of the signs y; heights are y c. Changes in place:

    window : (u, v, half-width) to look in first; becomes the levels found, and a width to go on with
    covered : (2, n); row 0 lists covered points (positive ones, where there are two basins), row 1 negative ones
    result : (γ, b, mass covered in each basin, mass of the last point listed in row 0, the same in row 1)

    ``below`` and ``near`` are scratch of n integers. Returns the number of covered points of each row, and passes.
    """
    weighted = s.size > 0
    lows, highs, last, following = np.empty(2), np.empty(2), np.empty(2), np.empty(2)
    mass, total, taken, part, count = (
        np.empty(2),
        np.empty(2),
        np.empty(2, np.int64),
        np.empty(2),
        np.empty(2, np.int64),
    )
    passes, width = 0, window[2]
    while True:
        passes += 1
        if passes > 3 or not np.isfinite(width) or not np.isfinite(window[0] + window[1]):
            width = np.inf
            lows[:], highs[:] = -np.inf, np.inf
        else:
            for a in range(2):
                lows[a], highs[a] = window[a] - width, window[a] + width
        whole = width == np.inf
        n_below, n_near = _listed(c, y, two, lows, highs, below, near)
        mass[:], total[:], last[:], count[:] = 0.0, 0.0, -np.inf, 0
        for r in range(n_below):
            i = below[r]
            a = 0 if (y[i] > 0.0 or not two) else 1
            w = s[i] if weighted else 1.0
            if w > 0.0:
                height = y[i] * c[i]
                mass[a] += w
                total[a] += w * height
                last[a] = max(last[a], height)
                covered[a, count[a]] = i
                count[a] += 1
        first_points, first_heights = _sorted_basin(c, y, s, two, 1.0, near, n_near)
        if two:
            second_points, second_heights = _sorted_basin(c, y, s, two, -1.0, near, n_near)
        else:
            second_points, second_heights = np.empty(0, np.int64), np.empty(0)
        taken[:], part[:] = 0, 0.0  # points of the window covered whole, and mass of the next one covered in part
        inside = True

        if not volume > 0.0:
            # the minimisers, all of them
            inside = whole or (n_below == 0 and first_heights.size > 0 and (not two or second_heights.size > 0))
            if inside:
                for a in range(2 if two else 1):
                    heights = first_heights if a == 0 else second_heights
                    points = first_points if a == 0 else second_points
                    while taken[a] < heights.size and heights[taken[a]] == heights[0]:
                        i = points[taken[a]]
                        covered[a, taken[a]] = i
                        mass[a] += s[i] if weighted else 1.0
                        taken[a] += 1
                    count[a], last[a], part[a] = taken[a], heights[0], 0.0
                u = last[0]
                v = last[1] if two else u
                break
        else:
            if not two:
                # the second basin: height 0, endless mass
                mass[1], total[1], last[1] = mass[0], 0.0, 0.0
            reached = max(mass[0], mass[1])
            steps, level = 0, np.inf
            while True:
                # bring both basins to the same mass, then look at the next heights
                for a in range(2 if two else 1):
                    heights = first_heights if a == 0 else second_heights
                    points = first_points if a == 0 else second_points
                    while reached - mass[a] > ROUNDING * reached and taken[a] < heights.size:
                        i = points[taken[a]]
                        room = (s[i] if weighted else 1.0) - part[a]
                        share = min(room, reached - mass[a])
                        last[a] = heights[taken[a]]
                        total[a] += share * last[a]
                        if room - share <= ROUNDING * reached:
                            taken[a] += 1
                            part[a] = 0.0
                            mass[a] += room
                        else:
                            part[a] += share
                            mass[a] = reached
                    following[a] = heights[taken[a]] if taken[a] < heights.size else np.inf
                if not two:
                    mass[1], following[1] = mass[0], 0.0
                lacking = reached - min(mass[0], mass[1]) > ROUNDING * reached
                if (following[0] == np.inf or following[1] == np.inf or lacking) and not whole:
                    inside = False
                    break
                if reached > 0.0:
                    level = (volume + total[0] + total[1]) / reached
                    if following[0] + following[1] >= level:
                        # where the walk began: was the start already above the minimum?
                        inside = whole or steps > 0 or last[0] + last[1] <= level
                        break
                step, skipped = np.inf, False
                for a in range(2 if two else 1):
                    points = first_points if a == 0 else second_points
                    if taken[a] < points.size:
                        i = points[taken[a]]
                        room = (s[i] if weighted else 1.0) - part[a]
                        if room <= ROUNDING * reached:  # a weight that adds nothing to the mass
                            taken[a] += 1
                            part[a] = 0.0
                            skipped = True
                        step = min(step, room)
                steps += 1
                if skipped:
                    continue
                if not step < np.inf:  # no mass is left: there is no level
                    inside = True
                    break
                reached += step
            if inside:
                if two:
                    lowest = max(last[0], level - following[1])
                    highest = min(following[0], level - last[1])
                    u = 0.5 * (lowest + highest)
                    v = level - u
                else:
                    u, v = level, level
                break
        width = 4.0 * width
    if volume > 0.0:
        for a in range(2 if two else 1):
            points = first_points if a == 0 else second_points
            for r in range(taken[a] + (1 if part[a] > 0.0 else 0)):
                covered[a, count[a]] = points[r]
                count[a] += 1
    for a in range(2):
        if part[a] == 0.0 and count[a] > 0:
            i = covered[a, count[a] - 1]
            part[a] = s[i] if weighted else 1.0
    result[0], result[1] = 0.5 * (u + v), 0.5 * (v - u) if two else 0.0
    result[2], result[3], result[4] = mass[0], part[0], part[1]
    window[0], window[1] = u, v
    if whole:
        # the height of a slice of the sorted points about the level
        middle = np.searchsorted(first_heights, u)
        about = first_heights[max(0, middle - NEAR // 4) : middle + NEAR // 4]
        width = about[-1] - about[0] if about.size > 1 else 0.0
        window[2] = width if width > 0.0 else np.inf
    else:
        window[2] = width * (0.7 if n_near > 2 * NEAR else 1.3 if n_near < NEAR // 2 else 1.0)
    return count[0], count[1] if two else 0, passes


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
    covered, result = np.empty((2, n), np.int64), np.empty(5)
    counts = pour(
        signs * c, signs, weights, float(volume), two, np.array([0.0, 0.0, np.inf]),
        np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), covered, result,
    )  # fmt: skip
    p = np.zeros(n)
    for a in range(2 if two else 1):
        listed = covered[a, : counts[a]]
        p[listed] = weights[listed] if weights.size else 1.0
        p[listed[-1]] = result[3 + a]
        p[listed] /= p[listed].sum() * (2.0 if two else 1.0)
    return Poured(float(result[0]), float(result[1]), p)
