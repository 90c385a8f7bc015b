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

from typing import NamedTuple

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


class Level(NamedTuple):
    """The levels u and v of the basins, in their own heights, and the mass covered in each."""

    u: float
    v: float
    mass: float


class _Covered(NamedTuple):
    """A basin at given masses: Σ mass × height, the height of the next point, and of the last one covered."""

    total: np.ndarray
    next: np.ndarray
    last: np.ndarray


class _Walk:
    """A basin as functions of the mass covered: Σ mass × height, the next point's height, the last point's height."""

    def __init__(self, basin: Basin) -> None:
        self.basin = basin
        self.masses = basin.mass + np.concatenate([[0.0], np.cumsum(basin.weights)])
        self.sums = basin.total + np.concatenate([[0.0], np.cumsum(basin.weights * basin.heights)])

    def follow(self, m: np.ndarray) -> _Covered:
        """The basin at masses m.

        The next height is −∞ if it is unknown and ∞ if there is none; the last one is ``low`` if it was not listed.
        """
        above = np.append(self.basin.heights, -np.inf if self.basin.more else np.inf)
        below = np.append(self.basin.low, self.basin.heights)
        coming = np.searchsorted(self.masses, m, side="right") - 1
        gone = np.searchsorted(self.masses, m, side="left")
        return _Covered(np.interp(m, self.masses, self.sums), above[coming], below[np.minimum(gone, below.size - 1)])


def surface(volume: float, basins: list[Basin]) -> Level | None:
    """The level of a volume in one basin or two; None if the listed points do not determine it.

    >>> basin = Basin(-np.inf, 0.0, 0.0, np.array([0.0, 1.0, 5.0]), np.ones(3), False)
    >>> surface(3.0, [basin])
    Level(u=2.0, v=2.0, mass=2.0)
    """
    walks = [_Walk(basin) for basin in basins]
    if len(walks) == 2:  # make masses equal that differ by rounding only
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
    level = (volume + sum(each.total for each in seen)) / m
    following, last = np.sum([each.next for each in seen], axis=0), np.sum([each.last for each in seen], axis=0)
    slack = EQUAL * sum(np.where(np.isfinite(each.next), np.abs(each.next), 0.0) for each in seen)
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
    # points below the listed ones lie somewhere below ``low``
    hidden = [m[k] <= walk.masses[0] and walk.basin.mass > 0.0 for walk in walks]
    if (hidden[0] and lowest == last_u[k]) or (hidden[1] and highest == level[k] - last_v[k]):
        return None
    u = 0.5 * (lowest + highest)
    return Level(float(u), float(level[k] - u), float(m[k]))


def covered(basin: Basin, mass: float, heights: np.ndarray) -> np.ndarray:
    """The covered shares of points at these heights, listed ones or below, when ``mass`` is covered."""
    start = basin.mass + np.concatenate([[0.0], np.cumsum(basin.weights)])[:-1]
    if basin.heights.size == 0:
        return np.ones(heights.size)
    place = np.minimum(np.searchsorted(basin.heights, heights), basin.heights.size - 1)
    share = np.clip((mass - start[place]) / basin.weights[place], 0.0, 1.0)
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

    def about(self, height: float, reach: int) -> tuple[int, int]:
        """(first, end) of the cells to list: the cell of a height and ``reach`` non-empty cells on each side."""
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
