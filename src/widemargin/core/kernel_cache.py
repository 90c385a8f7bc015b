"""A cache of kernel rows with a fixed number of bytes, least recently used rows giving way.

Rows are computed in blocks (see :mod:`.kernels`), so a value is the same whether
it was kept or computed anew. The buffer and the block that fills it stay within
the bytes given; at least :data:`LEAST_ROWS` rows are held whatever was asked.
"""

from __future__ import annotations

import numpy as np

from .kernels import KernelMatrix

#: A solver can always hold this many rows at once.
LEAST_ROWS = 16
#: Most rows computed in one block.
BLOCK = 256


class RowCache:
    """Rows of a kernel matrix, float32.

    Parameters
    ----------
    matrix : KernelMatrix
    n_bytes : int
        Memory for rows.

    Attributes
    ----------
    rows : ndarray of shape (capacity, n)
        The buffer; ``rows[slots]`` are the rows that :meth:`fetch` answered with.
    slot_of : ndarray of shape (n,)
        The slot of each row, −1 where it is not held.
    hits, misses : int
        Rows found and rows computed.
    """

    def __init__(self, matrix: KernelMatrix, n_bytes: float):
        self.matrix = matrix
        n, width = matrix.shape
        affordable = int(n_bytes // (4 * max(width, 1)))
        block = min(BLOCK, max(affordable // 9, 1), n)
        self.capacity = min(n, max(affordable - block, LEAST_ROWS))
        self.rows = np.empty((self.capacity, width), np.float32)
        self._block = np.empty((block, width), np.float32)
        self.slot_of = np.full(n, -1, np.int64)
        self._row_in = np.full(self.capacity, -1, np.int64)
        self._used = np.zeros(self.capacity, np.int64)
        self._clock = 0
        self.hits = self.misses = 0

    @classmethod
    def of_all(cls, gram: np.ndarray) -> RowCache:
        """A cache that holds a whole matrix from the start."""
        cache = cls.__new__(cls)
        n = gram.shape[0]
        cache.capacity = n
        cache.rows = np.ascontiguousarray(gram, np.float32)
        cache._block = np.empty((0, n), np.float32)
        cache.slot_of = np.arange(n)
        cache._row_in = np.arange(n)
        cache._used = np.zeros(n, np.int64)
        cache._clock = cache.hits = cache.misses = 0
        return cache

    @property
    def n_bytes(self) -> int:
        """Bytes held."""
        return self.rows.nbytes + self._block.nbytes

    def fetch(self, wanted: np.ndarray) -> np.ndarray:
        """Slots of the wanted rows, which must be distinct and at most ``capacity``; computes what is missing."""
        self._clock += 1
        slots = self.slot_of[wanted]
        self._used[slots[slots >= 0]] = self._clock
        missing = np.flatnonzero(slots < 0)
        self.hits += wanted.size - missing.size
        self.misses += missing.size
        if missing.size:
            oldest = self._oldest(missing.size)
            evicted = self._row_in[oldest]
            self.slot_of[evicted[evicted >= 0]] = -1
            for first in range(0, missing.size, self._block.shape[0]):
                part = missing[first : first + self._block.shape[0]]
                self.rows[oldest[first : first + part.size]] = self.matrix.block(
                    wanted[part], out=self._block[: part.size]
                )
            self._row_in[oldest] = wanted[missing]
            self.slot_of[wanted[missing]] = oldest
            self._used[oldest] = self._clock
            slots[missing] = oldest
        return slots

    def holds(self, wanted: np.ndarray) -> np.ndarray:
        """Which of the wanted rows are here."""
        return self.slot_of[wanted] >= 0

    def _oldest(self, count: int) -> np.ndarray:
        """Slots not used in this fetch, the least recently used first."""
        if count == self.capacity:
            return np.arange(count)
        return np.argpartition(self._used, count - 1)[:count]
