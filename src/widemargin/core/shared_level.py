"""Water levels of responses that lie in several places: from counts and sums on a grid, exact in the end.

The level of :mod:`.water_level` depends on few points: those about the surface. Of all others it wants the mass below
and Σ mass × height. So each place sorts its points into cells between lines (:func:`sort_into`), and the sums over all
places say in which cell the surface is: at every line they are exact, between lines a cell counts as one point at its
mean height. Then the points of that cell, and of the next ones that are not empty, are listed; equal heights are one
point with the sum of their weights. :func:`surface` of lists and sums is that of all points, but for rounding; where
the lists do not show that, it says so, and more cells are listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .borrowing import borrow
from .dispatch import compiled, inlined

#: Cells of a grid; the first and the last have no end.
CELLS = 64
#: Masses this close to each other, relative to themselves, are equal; and heights that make a level.
EQUAL = 1e-13


@inlined
def _cell(height, line, inverse):
    """The cell of a height: 1 above the lowest line, one more for each line above."""
    place = (height - line) * inverse
    return 0 if not place >= 0.0 else CELLS - 1 if place >= CELLS - 2.0 else 1 + int(place)


@compiled
def sort_into(c, y, s, two, lines, cells, sums, ends):
    """Sort points with heights y c and weights s (empty: ones) into the cells of one basin, or of the two of y.

    ``lines`` are (lowest line, 1/distance) by basin. In place: cells ← those of the points, basin × CELLS + cell, −1
    for points without weight; sums += (mass, Σ mass × height, number) by basin and cell; ends ← (lowest, highest).
    """
    c, y, s, lines = borrow(c), borrow(y), borrow(s), borrow(lines)
    cells, sums, ends = borrow(cells), borrow(sums), borrow(ends)
    for i in range(c.size):
        weight = s[i] if s.size > 0 else 1.0
        if weight <= 0.0:
            cells[i] = -1
            continue
        height, a = y[i] * c[i], 1 if two and y[i] < 0.0 else 0
        j = _cell(height, lines[a, 0], lines[a, 1])
        cells[i] = a * CELLS + j
        sums[a, j, 0] += weight
        sums[a, j, 1] += weight * height
        sums[a, j, 2] += 1.0
        ends[a, 0] = min(ends[a, 0], height)
        ends[a, 1] = max(ends[a, 1], height)


class Basin(NamedTuple):
    """What is known of a basin: ``mass`` below the height ``low`` with Σ mass × height = ``total``, then points with
    heights, in order and all different, and weights; and whether there are ``more`` points above."""

    low: float
    mass: float
    total: float
    heights: np.ndarray
    weights: np.ndarray
    more: bool


class Level(NamedTuple):
    """The levels u and v of the basins in their own heights, and the mass that each of them has covered."""

    u: float
    v: float
    mass: float


class _Walk:
    """A basin's masses, sums, and heights of the next and the last point, at given masses."""

    def __init__(self, basin: Basin) -> None:
        self.basin = basin
        self.masses = basin.mass + np.concatenate([[0.0], np.cumsum(basin.weights)])
        self.sums = basin.total + np.concatenate([[0.0], np.cumsum(basin.weights * basin.heights)])

    def follow(self, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Σ mass × height, height of the next point, of the last): the next is −∞ where it is not known, ∞ where
        there is none, and the last at most ``low`` where it was not listed."""
        above = np.append(self.basin.heights, -np.inf if self.basin.more else np.inf)
        below = np.append(self.basin.low, self.basin.heights)
        coming = np.searchsorted(self.masses, m, side="right") - 1
        gone = np.searchsorted(self.masses, m, side="left")
        return np.interp(m, self.masses, self.sums), above[coming], below[np.minimum(gone, below.size - 1)]


def surface(volume: float, basins: list[Basin]) -> Level | None:
    """The level of a volume in one basin or two; None if it is not among the points that are listed.

    >>> basin = Basin(-np.inf, 0.0, 0.0, np.array([0.0, 1.0, 5.0]), np.ones(3), False)
    >>> surface(3.0, [basin])
    Level(u=2.0, v=2.0, mass=2.0)
    """
    walks = [_Walk(basin) for basin in basins]
    if len(walks) == 2:  # masses that are equal but for rounding are equal
        own, other = walks[0].masses, walks[1].masses
        near = np.clip(np.searchsorted(other, own), 1, other.size - 1) if other.size > 1 else np.zeros(own.size, int)
        for j in (near - 1, near):
            j = np.maximum(j, 0)
            own[:] = np.where(np.abs(own - other[j]) <= EQUAL * other[j], other[j], own)
    m = np.unique(np.concatenate([walk.masses for walk in walks]))
    m = m[(m >= max(w.masses[0] for w in walks)) & (m <= min(w.masses[-1] for w in walks)) & (m > 0.0)]
    if m.size == 0:
        return None
    seen = [walk.follow(m) for walk in walks]
    level = (volume + sum(each[0] for each in seen)) / m
    following, last = np.sum([each[1] for each in seen], axis=0), np.sum([each[2] for each in seen], axis=0)
    slack = EQUAL * sum(np.where(np.isfinite(each[1]), np.abs(each[1]), 0.0) for each in seen)
    enough = np.flatnonzero(following >= level - slack)
    if enough.size == 0:
        return None
    k = int(enough[0])
    if k == 0 and last[0] > level[0] + EQUAL * abs(last[0]):  # the minimum may be below
        return None
    if len(walks) == 1:
        return Level(float(level[k]), float(level[k]), float(m[k]))
    (_, next_u, last_u), (_, next_v, last_v) = seen
    lowest, highest = max(last_u[k], level[k] - next_v[k]), min(next_u[k], level[k] - last_v[k])
    # what lies below the listed points is known to be below ``low``, no more
    hidden = [m[k] <= walk.masses[0] and walk.basin.mass > 0.0 for walk in walks]
    if (hidden[0] and lowest == last_u[k]) or (hidden[1] and highest == level[k] - last_v[k]):
        return None
    u = 0.5 * (lowest + highest)
    return Level(float(u), float(level[k] - u), float(m[k]))


def covered(basin: Basin, mass: float, heights: np.ndarray) -> np.ndarray:
    """The shares of the points at some heights that are covered when ``mass`` is; listed ones, or below them."""
    start = basin.mass + np.concatenate([[0.0], np.cumsum(basin.weights)])[:-1]
    if basin.heights.size == 0:
        return np.ones(heights.size)
    place = np.minimum(np.searchsorted(basin.heights, heights), basin.heights.size - 1)
    share = np.clip((mass - start[place]) / basin.weights[place], 0.0, 1.0)
    return np.where(heights < basin.heights[0], 1.0, share)


class Cells(NamedTuple):
    """The sums of all places over the cells of a basin, its lines and its lowest and highest point."""

    line: float
    inverse: float
    sums: np.ndarray
    ends: np.ndarray

    def height(self, j: int) -> float:
        """The lower line of cell j."""
        return -np.inf if j <= 0 else self.line + (j - 1) / self.inverse

    def guess(self) -> Basin:
        """Each cell as one point at its mean height."""
        used = self.sums[:, 0] > 0.0
        mass, total = self.sums[used, 0], self.sums[used, 1]
        heights = np.maximum.accumulate(total / mass)
        heights += np.arange(heights.size) * 1e-300
        return Basin(-np.inf, 0.0, 0.0, heights, mass, False)

    def about(self, height: float, reach: int) -> tuple[int, int]:
        """(first, last) of the cells to be listed: that of a height, and ``reach`` that are not empty on each side."""
        place = (height - self.line) * self.inverse
        j = 0 if not place >= 0.0 else CELLS - 1 if place >= CELLS - 2.0 else 1 + int(place)
        used = np.flatnonzero(self.sums[:, 2] > 0.0)
        lower, upper = used[used < j], used[used > j]
        first = lower[-min(reach, lower.size)] if lower.size else j
        last = upper[min(reach, upper.size) - 1] if upper.size else j
        return int(first), int(last) + 1


def grid(low: float, high: float) -> np.ndarray:
    """(Lowest line, 1/distance) of lines between two heights."""
    width = max(high - low, 1e-300, 1e-12 * max(abs(low), abs(high)))
    return np.array([low, (CELLS - 2.0) / width])
