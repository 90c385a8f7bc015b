"""A cache of kernel rows with a fixed number of bytes; the least recently used row makes room for a new one.

A kernel row has the same bits however it is computed (see :mod:`.tiles`), so a cached value and a recomputed one are
equal. Compiled loops see the cache as :class:`Held`. A loop that needs a missing row returns to Python, which calls
:meth:`RowCache.fetch` and starts the loop again::

    cache = RowCache(matrix, n_bytes=200e6)
    slots = cache.fetch(np.array([3, 7]))      # computes rows 3 and 7 unless the cache holds them
    cache.rows[slots]                          # the two kernel rows

Cost: one evaluation of a kernel row for each miss, and O(capacity) to find the oldest slots when the buffer is full.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import compiled
from .matrix import KernelMatrix

LEAST_ROWS = 16  # rows; the cache holds so many even if n_bytes is smaller, so that a solver's smallest step fits


class Held(NamedTuple):
    """The arrays of a cache, for compiled loops.

    ``rows`` (capacity × n) is the buffer, one kernel row in each slot. ``slot_of`` is the slot of each row of the
    matrix, −1 for a row that is not cached; ``row_in`` the row in each slot, −1 for an empty slot. A loop that uses a
    row increments ``clock[0]`` and stores it in ``used[slot]``.
    """

    rows: np.ndarray
    slot_of: np.ndarray
    row_in: np.ndarray
    used: np.ndarray
    clock: np.ndarray


class RowCache:
    """Rows of a kernel matrix, in its dtype.

    Parameters
    ----------
    matrix : KernelMatrix
        The matrix whose rows are cached.
    n_bytes : float
        Memory for rows.

    Attributes
    ----------
    held : Held
        The arrays, for compiled loops.
    rows : ndarray of shape (capacity, n)
        The buffer; ``rows[slots]`` are the rows for the slots that :meth:`fetch` returned.
    slot_of : ndarray of shape (n,)
        The slot of each row, −1 for a row that is not cached.
    hits, misses : int
        Number of rows that were found, and that were computed.
    """

    def __init__(self, matrix: KernelMatrix, n_bytes: float):
        self.matrix: Any = matrix
        n, width = matrix.shape
        self.capacity = min(n, max(int(n_bytes // (matrix.dtype.itemsize * max(width, 1))), LEAST_ROWS))
        self.held = Held(
            np.empty((self.capacity, width), matrix.dtype), np.full(n, -1), np.full(self.capacity, -1),
            np.zeros(self.capacity, np.int64), np.zeros(1, np.int64),
        )  # fmt: skip
        self.hits = self.misses = self._filled = 0

    @property
    def rows(self) -> np.ndarray:
        return self.held.rows

    @property
    def slot_of(self) -> np.ndarray:
        return self.held.slot_of

    def fetch(self, wanted: np.ndarray) -> np.ndarray:
        """The slots of the wanted rows, distinct and at most ``capacity``; computes the rows that are missing.

        Missing rows get empty slots first, then the least recently used ones.
        """
        rows, slot_of, row_in, used, clock = self.held
        slots = slot_of[wanted]
        missing = (slots < 0).nonzero()[0]
        clock[0] += 1
        count, now = missing.size, clock[0]
        self.hits += wanted.size - count
        self.misses += count
        if count < wanted.size:
            used[slots if count == 0 else slots[slots >= 0]] = now
        if count:
            new, claimed = wanted[missing], np.arange(self._filled, min(self._filled + count, self.capacity))
            self._filled += claimed.size
            if claimed.size < count:
                used[claimed] = now
                more = count - claimed.size
                claimed = np.concatenate([claimed, np.argpartition(used, more - 1)[:more]])
                gone = row_in[claimed]
                slot_of[gone[gone >= 0]] = -1
            slots[missing] = slot_of[new] = claimed
            row_in[claimed], used[claimed] = new, now
            try:
                self.matrix.fill(new, claimed, rows)
            except BaseException:
                slot_of[new] = row_in[claimed] = -1
                used[claimed] = 0
                raise
        return slots

    def part(self, rows: np.ndarray, columns: np.ndarray) -> Part:
        """The matrix between some rows and some columns, for one of several problems that share this cache."""
        return Part(self, rows, columns)


class Part:
    """Some rows and columns of a cached matrix, with the methods of a :class:`KernelMatrix`.

    ``evaluations`` counts the kernel values that had to be computed: whole rows of the cached matrix.
    """

    def __init__(self, cache: RowCache, rows: np.ndarray, columns: np.ndarray):
        self.cache, self._rows, self._columns = cache, rows, columns
        self.shape = rows.size, columns.size
        self.threads = cache.matrix.threads
        self.dtype = cache.rows.dtype
        self.evaluations = 0

    def block(self, I: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Rows I of the part, over all its columns."""
        out = np.empty((len(I), self.shape[1]), self.dtype) if out is None else out
        self.fill(np.asarray(I), np.arange(len(I)), out)
        return out

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        """out[places] ← rows I of the part, in place."""
        cache = self.cache
        before = cache.matrix.evaluations
        for first in range(0, len(I), cache.capacity):
            some = slice(first, first + cache.capacity)
            slots = cache.fetch(self._rows[I[some]])
            take_columns(cache.rows, slots, self._columns, places[some], out)
        self.evaluations += cache.matrix.evaluations - before

    def diagonal(self) -> np.ndarray:
        """k(xᵢ, xᵢ) for every row of the part, in float64."""
        matrix = self.cache.matrix
        before = matrix.evaluations
        values = matrix.diagonal()[self._rows]
        self.evaluations += matrix.evaluations - before
        return values


@compiled
def take_columns(rows, slots, columns, places, out):
    """out[places[r]] ← rows[slots[r], columns]."""
    rows, columns, out = borrow(rows), borrow(columns), borrow(out)
    for r in range(slots.size):
        source, target = rows[slots[r]], out[places[r]]
        for c in range(columns.size):
            target[c] = source[columns[c]]
