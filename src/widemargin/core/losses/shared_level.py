"""The water level of responses that are distributed over several workers.

The level of :mod:`.water_level` depends individually only on the few points near the surface. All points below count
by their mass and Σ mass × height alone. So:

1. Each worker sorts its points into cells of a common grid (:func:`sort_into`) and sends sums for each cell.
2. The driver adds the sums. They are exact at the lines of the grid; within a cell they count as one point at the mean
   height. The level of these points tells the cell of the surface.
3. Workers send the points of this cell and of its neighbours; equal heights become one point.
4. :func:`surface` computes the level from sums and lists, exact up to rounding. If the lists cannot prove that, it
   returns None, and more cells are listed.

Each worker sends 3 × 64 numbers for each basin and a short list, however many examples it has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import compiled, inlined

CELLS = 64  # cells of a grid; the first and the last one are unbounded
EQUAL = 1e-13  # relative difference of masses, and of heights at the level, that count as equal


@inlined
def _cell(height, line, inverse):
    """The cell of a height: 0 below the lowest line, and one more for each line at or below the height."""
    place = (height - line) * inverse
    return 0 if not place >= 0.0 else CELLS - 1 if place >= CELLS - 2.0 else 1 + int(place)


@compiled
def sort_into(c, y, s, two, lines, cells, sums, ends):
    """Sort points with heights y c and weights s (empty: all 1) into the cells of one basin, or of the two of y.

    ``lines`` are (lowest line, 1/distance) by basin. cells ← basin × CELLS + cell of each point, −1 for weight 0;
    sums += (mass, Σ mass × height, number) by basin and cell; ends ← (lowest, highest) height by basin.
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
    """What the driver knows of a basin.

    Below the height ``low`` lie points of total ``mass``, with Σ mass × height = ``total``. Then follow points with
    distinct ``heights`` in rising order and their ``weights``. ``more``: there are unlisted points above.
    """

    low: float
    mass: float
    total: float
    heights: np.ndarray
    weights: np.ndarray
    more: bool

    def masses(self) -> np.ndarray:
        """The mass covered before each listed point, and when all are covered."""
        return self.mass + np.concatenate([[0.0], np.cumsum(self.weights)])

    def follow(self, masses: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(Σ mass × height, the height of the next point, that of the last one covered) when masses m are covered.

        The next height is −∞ if it is unknown and ∞ if there is none; the last one is ``low`` if it was not listed.
        """
        sums = self.total + np.concatenate([[0.0], np.cumsum(self.weights * self.heights)])
        above = np.append(self.heights, -np.inf if self.more else np.inf)
        below = np.append(self.low, self.heights)
        coming = np.searchsorted(masses, m, side="right") - 1
        gone = np.searchsorted(masses, m, side="left")
        return np.interp(m, masses, sums), above[coming], below[np.minimum(gone, below.size - 1)]


class Level(NamedTuple):
    """The levels u and v of the basins, in their own heights, and the mass covered in each."""

    u: float
    v: float
    mass: float


def surface(volume: float, basins: list[Basin]) -> Level | None:
    """The level of a volume in one basin or two; None if the listed points do not determine it.

    >>> basin = Basin(-np.inf, 0.0, 0.0, np.array([0.0, 1.0, 5.0]), np.ones(3), False)
    >>> surface(3.0, [basin])
    Level(u=2.0, v=2.0, mass=2.0)
    """
    masses = [basin.masses() for basin in basins]
    if len(basins) == 2:  # make masses equal that differ by rounding only
        own, other = masses
        near = np.clip(np.searchsorted(other, own), 1, other.size - 1) if other.size > 1 else np.zeros(own.size, int)
        for j in (near - 1, near):
            j = np.maximum(j, 0)
            own[:] = np.where(np.abs(own - other[j]) <= EQUAL * other[j], other[j], own)
    m = np.unique(np.concatenate(masses))
    m = m[(m >= max(each[0] for each in masses)) & (m <= min(each[-1] for each in masses)) & (m > 0.0)]
    if m.size == 0:
        return None
    followed = [basin.follow(each, m) for basin, each in zip(basins, masses, strict=True)]
    totals, following, last = (np.array(rows) for rows in zip(*followed, strict=True))
    levels = (volume + totals.sum(axis=0)) / m
    slack = EQUAL * np.where(np.isfinite(following), np.abs(following), 0.0).sum(axis=0)
    enough = np.flatnonzero(following.sum(axis=0) >= levels - slack)
    if enough.size == 0:
        return None
    k = int(enough[0])
    level, above, below = levels[k], following[:, k], last[:, k]
    if k == 0 and below.sum() > level + EQUAL * abs(below.sum()):  # the minimum may be below
        return None
    if len(basins) == 1:
        return Level(float(level), float(level), float(m[k]))
    lowest, highest = max(below[0], level - above[1]), min(above[0], level - below[1])
    # points below the listed ones lie somewhere below ``low``
    hidden = [m[k] <= each[0] and basin.mass > 0.0 for basin, each in zip(basins, masses, strict=True)]
    if (hidden[0] and lowest == below[0]) or (hidden[1] and highest == level - below[1]):
        return None
    u = 0.5 * (lowest + highest)
    return Level(float(u), float(level - u), float(m[k]))


def covered(basin: Basin, mass: float, heights: np.ndarray) -> np.ndarray:
    """The covered shares of points at these heights, listed ones or below, when ``mass`` is covered."""
    if basin.heights.size == 0:
        return np.ones(heights.size)
    place = np.minimum(np.searchsorted(basin.heights, heights), basin.heights.size - 1)
    share = np.clip((mass - basin.masses()[place]) / basin.weights[place], 0.0, 1.0)
    return np.where(heights < basin.heights[0], 1.0, share)


class Cells(NamedTuple):
    """The sums of all workers over the cells of a basin, its lines, and its lowest and highest point."""

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

    def basin(self, window: np.ndarray, lists: list[tuple[np.ndarray, np.ndarray]]) -> Basin:
        """The basin, when workers have listed the (heights, weights) of the cells in a window (first, end)."""
        first, last = window.tolist()
        heights, group = np.unique(np.concatenate([each[0] for each in lists]), return_inverse=True)
        weights = np.bincount(group, np.concatenate([each[1] for each in lists]), heights.size)
        mass, total, number = self.sums[:first].sum(axis=0).tolist()
        low = self.height(first) if number else -np.inf
        return Basin(low, mass, total, heights, weights, bool(self.sums[last:, 2].any()))

    def about(self, height: float, reach: int) -> tuple[int, int]:
        """(first, end) of the cells to list: the cell of a height and ``reach`` non-empty cells on each side."""
        j = _cell(height, self.line, self.inverse)
        used = np.flatnonzero(self.sums[:, 2] > 0.0)
        lower, upper = used[used < j], used[used > j]
        first = lower[-min(reach, lower.size)] if lower.size else j
        last = upper[min(reach, upper.size) - 1] if upper.size else j
        return int(first), int(last) + 1


def grid(low: Any, high: Any) -> np.ndarray:
    """(Lowest line, 1/distance) of lines between two heights, or between each two of two arrays."""
    width = np.maximum(np.maximum(high - low, 1e-300), 1e-12 * np.maximum(np.abs(low), np.abs(high)))
    return np.stack([low, (CELLS - 2.0) / width], axis=-1)
