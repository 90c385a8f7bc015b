"""A cache of kernel rows with a fixed number of bytes, least recently used rows giving way.

A row is the same bits with whichever rows it is computed (see :mod:`.tiles`), so a value is the same whether
it was kept or computed anew. The buffer stays within the bytes given; at least :data:`LEAST_ROWS` rows are
held whatever was asked.

Compiled loops get the cache as :class:`Held`, and return to Python for rows that are missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .borrowing import borrow
from .dispatch import compiled
from .kernel_matrix import KernelMatrix

#: A solver can always hold this many rows at once.
LEAST_ROWS = 16


class Held(NamedTuple):
    """What compiled code sees of a cache.

    ``rows`` (capacity × n) is the buffer; ``slot_of`` the slot of each row of the matrix, −1 where it is not held;
    ``row_in`` the row in each slot, −1 where it is free; ``used`` the time of a slot's last use; ``counts`` the time,
    the rows found, the rows computed, and the slots ever filled.
    """

    rows: np.ndarray
    slot_of: np.ndarray
    row_in: np.ndarray
    used: np.ndarray
    counts: np.ndarray


class RowCache:
    """Rows of a kernel matrix, in its dtype.

    Parameters
    ----------
    matrix : KernelMatrix
    n_bytes : float
        Memory for rows.

    Attributes
    ----------
    held : Held
        The arrays, for compiled loops.
    rows : ndarray of shape (capacity, n)
        The buffer; ``rows[slots]`` are the rows that :meth:`fetch` answered with.
    slot_of : ndarray of shape (n,)
        The slot of each row, −1 where it is not held.
    hits, misses : int
        Rows found and rows computed.
    """

    def __init__(self, matrix: KernelMatrix, n_bytes: float):
        self.matrix: Any = matrix
        n, width = matrix.shape
        self.capacity = min(n, max(int(n_bytes // (matrix.dtype.itemsize * max(width, 1))), LEAST_ROWS))
        self.held = Held(
            np.empty((self.capacity, width), matrix.dtype), np.full(n, -1), np.full(self.capacity, -1),
            np.zeros(self.capacity, np.int64), np.zeros(4, np.int64),
        )  # fmt: skip

    @property
    def rows(self) -> np.ndarray:
        return self.held.rows

    @property
    def slot_of(self) -> np.ndarray:
        return self.held.slot_of

    @property
    def hits(self) -> int:
        return int(self.held.counts[1])

    @property
    def misses(self) -> int:
        return int(self.held.counts[2])

    @property
    def n_bytes(self) -> int:
        """Bytes of the buffer of rows."""
        return self.rows.nbytes

    @property
    def filled_bytes(self) -> int:
        """Bytes of the slots that were ever filled."""
        return int(self.held.counts[3]) * self.rows.itemsize * self.rows.shape[1]

    def _claim(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slots of the wanted rows, which are distinct and at most ``capacity``; and the places of those missing.

        Rows that are not held get the slots least recently used; the caller fills them.
        """
        _, slot_of, row_in, used, counts = self.held
        slots = slot_of[wanted]
        missing = (slots < 0).nonzero()[0]
        count, now, filled = missing.size, counts[0] + 1, counts[3]
        counts[0], counts[1], counts[2] = now, counts[1] + wanted.size - count, counts[2] + count
        if count < wanted.size:
            used[slots if count == 0 else slots[slots >= 0]] = now
        if count:
            rows, claimed = wanted[missing], np.arange(filled, min(filled + count, self.capacity))
            counts[3] += claimed.size
            if claimed.size < count:
                used[claimed] = now
                more = count - claimed.size
                claimed = np.concatenate([claimed, np.argpartition(used, more - 1)[:more]])
                gone = row_in[claimed]
                slot_of[gone[gone >= 0]] = -1
            slots[missing] = slot_of[rows] = claimed
            row_in[claimed], used[claimed] = rows, now
        return slots, missing

    def fetch(self, wanted: np.ndarray) -> np.ndarray:
        """Slots of the wanted rows, which must be distinct and at most ``capacity``; computes what is missing."""
        slots, missing = self._claim(wanted)
        if missing.size:
            try:
                self.matrix.fill(wanted[missing], slots[missing], self.rows)
            except BaseException:
                self.discard(wanted[missing])
                raise
        return slots

    def insert(self, wanted: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Hold rows that were computed elsewhere, distinct and at most ``capacity``, and return their slots.

        Rows that were held get the new values; none of them counts as found or computed.
        """
        counted = self.held.counts[1:3].copy()
        slots, _ = self._claim(wanted)
        self.held.counts[1:3] = counted
        self.rows[slots] = values
        return slots

    def discard(self, unwanted: np.ndarray) -> None:
        """Forget rows, whose slots are the next to be filled; those that are not here are passed over."""
        slots = self.slot_of[unwanted]
        slots = slots[slots >= 0]
        self.slot_of[unwanted] = -1
        self.held.row_in[slots] = -1
        self.held.used[slots] = 0

    def holds(self, wanted: np.ndarray) -> np.ndarray:
        """Which of the wanted rows are here."""
        return self.slot_of[wanted] >= 0

    def part(self, rows: np.ndarray, columns: np.ndarray) -> Part:
        """The matrix between some of the examples, for one of several problems that share the rows held here."""
        return Part(self, rows, columns)


class Part:
    """Some rows and columns of the matrix of a cache; as a :class:`KernelMatrix`, where ``evaluations`` are the values
    that had to be computed, whole rows of that matrix.
    """

    def __init__(self, cache: RowCache, rows: np.ndarray, columns: np.ndarray):
        self.cache, self._rows, self._columns = cache, rows, columns
        self.shape = rows.size, columns.size
        self.threads = cache.matrix.threads
        self.dtype = cache.rows.dtype
        self.evaluations = 0

    def block(self, I: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The rows I of the part, over all its columns."""
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
