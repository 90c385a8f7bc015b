"""Kernel values between vectors that come and go one by one, in bounded memory that grows without copying.

A vector occupies a *slot*; a later vector may reuse the slot. The kernel row of slot i holds its values with all slots.
A row is stored in *pieces* of :data:`WIDTH` columns, taken from one pool: more slots need more pieces, and no row ever
moves. When the pool is empty, the row that was used longest ago returns its pieces; if that row is needed again, it is
computed anew, with the same bits (see :mod:`.tiles`).

A new vector adds one row and one column. Writing the column at once would touch every row. Instead the rows of the
newest vectors stand in a *tail*. A row that is used first copies its missing columns from the tail, and when the tail
is full all rows do. For example, with vectors 0 … 9 stored and vectors 10 and 11 in the tail, reading row 4 copies
K(4, 10) and K(4, 11) from tail rows 10 and 11.

Cost: O(count) to enter a vector or to read a row; every LONGEST_TAIL new vectors one pass over all rows.

:class:`Slots` stores the vectors themselves, laid out for computing their kernel values with arriving rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import apart, compiled, inlined
from ..rows.rows import CSRRows, dtype_of, shape, take_rows
from .kernels import between
from .measures import Absolute, Inner, Overlap, Squared, own_size
from .tiles import CHUNK, LANES, Packed, PairByPair, Scattered, aligned, compute_rows, packed_sums, scattered_sums

WIDTH = 256  # columns of a piece
LONGEST_TAIL, SHORTEST_TAIL = 128, 16  # rows of the tail, at most and at least
TAIL_SHARE = 0.06  # share of the memory that the tail may take
LEAST_ROWS = 8  # rows; the pool has room for so many even if n_bytes is smaller
CANCELS = 0.05  # ‖x‖² + ‖z‖² − 2⟨x, z⟩ loses too many digits where γ‖x‖² exceeds CANCELS/√ε
NARROW, WIDE = np.dtype(np.float32), np.dtype(np.float64)
#: The largest reach (γ times a row's size) at which distances are computed from inner products, by dtype of the sums.
FURTHEST = {kind: CANCELS / math.sqrt(np.finfo(kind).eps) for kind in (NARROW, WIDE)}
LATE = 0.05  # share of new sparse vectors at which all are gathered again (linear kernel; other kernels: at any)
LARGEST_GAMMA = float(np.finfo(NARROW).max) ** 0.75  # γ for which float32 sums stay in range, and 1/γ likewise

# ---------------------------------------------------------------- kernel values


class Panels(NamedTuple):
    """The arrays of the kernel values, for compiled loops.

    ``pool`` (pieces × WIDTH) holds the values. ``piece_of`` (slots × panels) are the pieces of each row, −1 for none;
    ``free`` is a stack of free pieces, of which there are ``n_free[0]``. ``used`` is the time of a row's last use, by
    the ``clock[0]``. ``came[0]`` counts the vectors that ever came, ``upto`` how many of them have their column in a
    row, −1 for a row without pieces. ``tail`` holds the rows of the vectors that came after the first ``before[0]``, in
    the slots ``tail_slot``; ``tail_of`` is a slot's row in the tail, −1 for none.
    """

    pool: np.ndarray
    piece_of: np.ndarray
    free: np.ndarray
    used: np.ndarray
    upto: np.ndarray
    tail: np.ndarray
    tail_slot: np.ndarray
    tail_of: np.ndarray
    n_free: np.ndarray
    came: np.ndarray
    before: np.ndarray
    clock: np.ndarray


def no_panels(slots: int, n_bytes: float) -> Panels:
    """Panels with so many slots, all empty. The system provides the pool's memory as it is first written."""
    slots = -(-slots // WIDTH) * WIDTH
    panels = slots // WIDTH
    length = min(max(int(TAIL_SHARE * n_bytes) // (4 * slots), SHORTEST_TAIL), LONGEST_TAIL)
    # the tail grows with the slots, so its whole share is left to it from the start
    pieces = max(int((1.0 - TAIL_SHARE) * n_bytes) // (4 * WIDTH), LEAST_ROWS * panels)
    return Panels(
        np.empty((pieces, WIDTH), np.float32), np.full((slots, panels), -1, np.int32), np.arange(pieces)[::-1].copy(),
        np.zeros(slots, np.int64), np.full(slots, -1),
        # rows of an odd number of cache lines: else all entries of a column compete for the same set of the cache
        np.empty((length, slots + LANES), np.float32), np.empty(length, np.int64), np.full(slots, -1),
        np.array([pieces]), *np.zeros((3, 1), np.int64),
    )  # fmt: skip


def with_slots(panels: Panels, slots: int, count: int, n_bytes: float) -> Panels:
    """Panels with room for more slots, and the same values; all empty if the old pool has no room for LEAST_ROWS rows.

    The pool is not copied.
    """
    flush(panels, count)
    new = no_panels(slots, n_bytes)
    if new.pool.shape[0] > panels.pool.shape[0]:
        return new
    old, columns = panels.piece_of.shape
    new.piece_of[:old, :columns] = panels.piece_of
    for name in ("used", "upto", "tail_of"):
        getattr(new, name)[:old] = getattr(panels, name)
    return panels._replace(
        piece_of=new.piece_of, used=new.used, upto=new.upto, tail=new.tail, tail_slot=new.tail_slot, tail_of=new.tail_of
    )


@inlined
def drop_row(panels, i):
    """Return the pieces of row i to the pool, in place."""
    piece_of, n_free = panels.piece_of, panels.n_free
    for q in range(piece_of.shape[1]):
        if piece_of[i, q] >= 0:
            panels.free[n_free[0]] = piece_of[i, q]
            n_free[0] += 1
            piece_of[i, q] = -1
    panels.upto[i] = -1


@inlined
def take_piece(panels, keep):
    """A free piece. If there is none, the row that was used longest ago, other than ``keep``, returns its pieces."""
    n_free, used, upto = panels.n_free, panels.used, panels.upto
    if n_free[0] == 0:
        oldest = -1
        for i in range(upto.size):
            if upto[i] >= 0 and i != keep and (oldest < 0 or used[i] < used[oldest]):
                oldest = i
        drop_row(panels, oldest)
    n_free[0] -= 1
    return panels.free[n_free[0]]


@inlined
def refresh(panels, i):
    """Copy the columns that row i lacks from the tail, in place."""
    tail, tail_slot = panels.tail, panels.tail_slot
    first = panels.before[0]
    for came in range(panels.upto[i], panels.came[0]):
        slot = tail_slot[came - first]
        q = slot // WIDTH
        if panels.piece_of[i, q] < 0:
            panels.piece_of[i, q] = take_piece(panels, i)
        panels.pool[panels.piece_of[i, q], slot % WIDTH] = tail[came - first, i]
    panels.upto[i] = panels.came[0]


@inlined
def put_row(panels, i, row, count):
    """Store a row, the values of slot i with all slots below ``count``, in pieces, in place."""
    for q in range((count + WIDTH - 1) // WIDTH):
        if panels.piece_of[i, q] < 0:
            panels.piece_of[i, q] = take_piece(panels, i)
        piece, start = panels.pool[panels.piece_of[i, q]], q * WIDTH
        for c in range(min(WIDTH, count - start)):
            piece[c] = row[start + c]
    panels.upto[i] = panels.came[0]


@inlined
def empty_tail(panels, count):
    """Copy all missing columns from the tail to the rows, then move the tail's own rows into pieces, in place."""
    upto = panels.upto
    for i in range(count):
        if upto[i] >= 0:
            refresh(panels, i)
    for k in range(panels.came[0] - panels.before[0]):
        slot = panels.tail_slot[k]
        if panels.tail_of[slot] == k:
            put_row(panels, slot, panels.tail[k], count)
            panels.tail_of[slot] = -1
    panels.before[0] = panels.came[0]


@compiled
def flush(panels, count):
    """:func:`empty_tail`, for Python."""
    empty_tail(borrow(panels), count)


@compiled
def hold(panels, i, row, count):
    """Store a row that was computed for slot i, in place."""
    panels = borrow(panels)
    panels.clock[0] += 1
    panels.used[i] = panels.clock[0]
    put_row(panels, i, borrow(row), count)


@inlined
def enter(panels, slot, row, count):
    """Add a vector in a slot below ``count``, in place; ``row`` are its values with all slots, its own included."""
    tail, tail_slot = panels.tail, panels.tail_slot
    if panels.came[0] - panels.before[0] == tail_slot.size:
        empty_tail(panels, count)
    k = panels.came[0] - panels.before[0]
    panels.tail_of[slot], tail_slot[k] = k, slot
    own = tail[k]
    for j in range(count):
        own[j] = row[j]
    for other in range(k):
        tail[other, slot] = row[tail_slot[other]]
    panels.came[0] += 1
    panels.clock[0] += 1
    panels.used[slot] = panels.clock[0]


@inlined
def leave(panels, slot):
    """Remove the vector of a slot, in place."""
    panels.tail_of[slot] = -1
    if panels.upto[slot] >= 0:
        drop_row(panels, slot)


@apart
def load_row(panels, i, count, out):
    """out ← the values of slot i with all slots below ``count``; returns False if the row must be computed."""
    panels.clock[0] += 1
    panels.used[i] = panels.clock[0]
    k = panels.tail_of[i]
    if k >= 0:
        row = panels.tail[k]
        for j in range(count):
            out[j] = row[j]
        return True
    if panels.upto[i] < 0:
        return False
    refresh(panels, i)
    for q in range((count + WIDTH - 1) // WIDTH):
        piece, start = panels.pool[panels.piece_of[i, q]], q * WIDTH
        for c in range(min(WIDTH, count - start)):
            out[start + c] = piece[c]
    return True


# ---------------------------------------------------------------- vectors


@compiled
def row_reaches(measure, gamma, X, out):
    """out[i] ← γ‖xᵢ‖² or γ‖xᵢ‖₁, in float64; ∞ instead of NaN."""
    X = borrow(X)
    for i in range(out.size):
        reach = gamma * own_size(measure, X, i)
        out[i] = np.inf if np.isnan(reach) else reach


@compiled
def own_values(kernel, X, out):
    """out[i] ← k(xᵢ, xᵢ)."""
    X, out = borrow(X), borrow(out)
    for i in range(out.size):
        out[i] = between(kernel, X, i, X, i)


def reach_of(kernel: Any, X: Any) -> np.ndarray:
    """The reach of each row, γ times its size, from which :func:`way_of` chooses; 0 for kernels without distances."""
    found = np.zeros(shape(X)[0])
    if kernel.of_distances:
        row_reaches(kernel.measure(), float(kernel.gamma), X, found)
    return found


class Way(NamedTuple):
    """How kernel values are computed.

    ``number``: ways for a larger reach have higher numbers. ``dtype`` of the sums, their ``measure``, and their
    ``weight`` in distances (1: sums are distances; −2: sizes are added, see
    :class:`widemargin.core.kernels.tiles.Packed`). ``in_pairs``: from two rows at a time, without tiles.
    """

    number: int
    dtype: np.dtype
    measure: Any
    weight: float
    in_pairs: bool = False


def way_of(kernel: Any, X: Any, reach: float) -> Way:
    """How kernel values of rows with this largest reach are computed.

    The choice depends on nothing else of the rows, so that rows may come one by one.
    """
    sparse, own = isinstance(X, CSRRows), np.dtype(dtype_of(X))
    if not kernel.of_distances:
        return Way(0, WIDE if sparse else own, Inner(), 1.0)
    fits = kernel.gamma == 0.0 or 1.0 / LARGEST_GAMMA < kernel.gamma < LARGEST_GAMMA
    absolute, exact = kernel.measure is Absolute, own if fits else WIDE
    if sparse:
        if reach <= FURTHEST[WIDE]:
            return Way(0, WIDE, Overlap() if absolute else Inner(), -2.0)
        return Way(1, WIDE, kernel.measure(), 1.0, True)
    if absolute:
        return Way(0, NARROW, Absolute(), 1.0) if fits and reach <= 16.0 else Way(1, exact, Absolute(), 1.0)
    if fits and reach <= FURTHEST[NARROW]:
        return Way(0, NARROW, Inner(), -2.0)
    if exact == WIDE and reach <= FURTHEST[WIDE]:
        return Way(1, WIDE, Inner(), -2.0)
    return Way(2, exact, Squared(), 1.0)


@compiled
def write_slots(X, examples, slots, sizes, tiles, z_size):
    """Store rows of X, with their sizes, as the vectors of ``slots``."""
    values, tiles = borrow(X.values), borrow(tiles)
    for k in range(examples.size):
        row, tile, lane = values[examples[k]], tiles[slots[k] // LANES], slots[k] % LANES
        z_size[slots[k]] = sizes[k]
        for c in range(row.size):
            tile[c, lane] = row[c]


class Slots:
    """Vectors in slots, for computing their kernel values with rows of the same data.

    Dense vectors are stored in tiles. Sparse vectors are gathered from the rows of the data when kernel values are
    computed; a few that came since the last gathering are computed separately.
    """

    def __init__(self, kernel: Any, X: Any, way: Way, capacity: int):
        self.kernel, self.way, self.sparse = kernel, way, isinstance(X, CSRRows)
        self.evaluations = 0
        width = shape(X)[1]
        self._tiles, self._sizes = np.empty((0, width, LANES), way.dtype), np.empty(0, way.dtype)
        self._slot = np.zeros(width if self.sparse else 0, np.int32)
        self._gathered: Any = None
        self._late = np.empty(0, np.int64)
        self.grow(capacity)

    def grow(self, capacity: int) -> None:
        """Make room for so many slots."""
        chunks = -(-capacity // CHUNK)
        self._sizes = np.pad(self._sizes, (0, chunks * CHUNK - self._sizes.size))
        if not self.sparse:
            old, width, _ = self._tiles.shape
            tiles = aligned((chunks * (CHUNK // LANES), width, LANES), self.way.dtype)
            tiles[:old], tiles[old:] = self._tiles, 0
            self._tiles = tiles

    def own_sums(self, rows: Any) -> np.ndarray:
        """The sizes of rows, summed like the measure; zeros where distances are computed without sizes."""
        sizes = np.zeros(shape(rows)[0], self.way.dtype)
        if self.way.weight < 0.0:
            (scattered_sums if self.sparse else packed_sums)(self.way.measure, rows, sizes)
        return sizes

    def put(self, X: Any, examples: np.ndarray, slots: np.ndarray, sizes: np.ndarray | None = None) -> None:
        """Put these rows of X, with their :meth:`own_sums` if known, into these slots."""
        if not slots.size:
            return
        sizes = self.own_sums(take_rows(X, examples)) if sizes is None else sizes
        if self.sparse:
            self._sizes[slots] = sizes
            self._late = np.union1d(self._late, slots)
        else:
            write_slots(X, examples, slots, sizes, self._tiles, self._sizes)

    def renumbered(self) -> None:
        """Forget gathered rows, because the rows of the data have other indices now."""
        self._gathered, self._late = None, self._late[:0]

    def against(
        self, X: Any, index: np.ndarray, rows: Any, out: np.ndarray, sizes: np.ndarray, chosen: np.ndarray | None = None
    ) -> None:  # fmt: skip
        """out[r, j] ← k(row r of ``rows``, vector of slot j), for all r or the chosen ones.

        ``index`` are the slots' rows in X; ``sizes`` are the :meth:`own_sums` of ``rows``.
        """
        places, count = np.arange(shape(rows)[0]) if chosen is None else chosen, index.size
        if places.size == 0 or count == 0:
            return
        self.evaluations += places.size * count
        if not self.sparse:
            way = self.way
            recipe = Packed(self.kernel, way.measure, way.weight, rows, self._tiles, sizes, self._sizes, False)
            compute_rows(recipe, places, places, np.zeros(len(places), np.int64), count, out)
            return
        known = 0 if self._gathered is None else shape(self._gathered)[0]
        if known == 0 or self._late.size > (LATE * known if self.kernel.is_linear else 0):
            self._gathered, self._late = take_rows(X, index), self._late[:0]
        self._scatter(rows, self._gathered, sizes, self._sizes, places, out)
        late = self._late
        if late.size:
            found = np.empty((out.shape[0], late.size), np.float32)
            own = np.zeros(-(-late.size // CHUNK) * CHUNK, self.way.dtype)
            own[: late.size] = self._sizes[late]
            self._scatter(rows, take_rows(X, index[late]), sizes, own, places, found)
            out[np.ix_(places, late)] = found[places]

    def _scatter(
        self, rows: Any, Z: Any, sizes: np.ndarray, own: np.ndarray, places: np.ndarray, out: np.ndarray
    ) -> None:
        """out[r, j] ← k(row r, row j of Z) for the r in places; sparse rows, of sizes ``sizes`` and ``own``."""
        kernel, way = self.kernel, self.way
        recipe: Any = PairByPair(kernel, rows, Z, False)
        if not way.in_pairs:
            recipe = Scattered(kernel, way.measure, way.weight, rows, Z, sizes, own, False, self._slot)
        compute_rows(recipe, places, places, np.zeros(len(places), np.int64), shape(Z)[0], out)

    def among(
        self, X: Any, index: np.ndarray, rows: Any, sizes: np.ndarray, chosen: np.ndarray, others: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """Kernel values of the chosen ``rows`` with the others, as rows of an array with one row for each of ``rows``.

        ``rows`` are rows ``index`` of X; ``sizes`` are their :meth:`own_sums`.
        """
        out = np.empty((index.size, others.size), np.float32)
        other = Slots(self.kernel, X, self.way, others.size)
        other._slot = self._slot
        other.put(X, index[others], np.arange(others.size), sizes[others])
        other.against(X, index[others], rows, out, sizes, chosen)
        self.evaluations += other.evaluations
        return out
