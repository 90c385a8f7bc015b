"""The kernel values between vectors that come one by one, in memory that grows without a copy and stays within bounds.

A vector has a *slot*, which another one may have when it has gone. The row of slot i holds its kernel values with all
slots. It stands in *pieces* of :data:`WIDTH` columns that are taken from one pool, so that more slots mean more pieces
and no row is ever moved. Where the pool is used up, the row that was used longest ago gives its pieces back; whoever
needs it computes it anew, to the same bits (see :mod:`.tiles`).

A vector that comes brings a row and, for all others, a column. The columns are not written at once, which would touch
every row: the newest vectors have their rows in a *tail*, a row that is used takes from it the columns that it lacks,
and when the tail is full all rows take theirs together.

:class:`Slots` are the vectors themselves, laid out to be held against rows that arrive.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .borrowing import borrow
from .dispatch import apart, compiled, inlined
from .kernels import between
from .measures import Absolute, Inner, Overlap, Squared, own_size
from .rows import CSRRows, dtype_of, shape, take_rows
from .tiles import CHUNK, LANES, Packed, PairByPair, Scattered, aligned, compute_rows, pack, packed_sums, scattered_sums

#: Columns of a piece.
WIDTH = 256
#: Rows of a tail, at most and at least.
LONGEST_TAIL, SHORTEST_TAIL = 128, 16
#: The share of the bytes that the tail may have.
TAIL_SHARE = 0.06
#: The pool always has room for this many rows.
LEAST_ROWS = 8
#: Distances made of sizes and inner products lose digits where γ times a size exceeds this over √ε.
CANCELS = 0.05
NARROW, WIDE = np.dtype(np.float32), np.dtype(np.float64)
#: The largest reach of rows whose distances are made so, by the dtype of the sums; the range of γ in float32.
FURTHEST = {kind: CANCELS / math.sqrt(np.finfo(kind).eps) for kind in (NARROW, WIDE)}
#: Sparse vectors are copied to one place anew when more than this share of them has come since. With kernels that are
#: not linear a block asks once, and any that has come is reason enough.
LATE = 0.05
LARGEST_GAMMA = float(np.finfo(NARROW).max) ** 0.75

# ---------------------------------------------------------------- kernel values


class Panels(NamedTuple):
    """What compiled code sees.

    ``pool`` (pieces × WIDTH); ``piece_of`` (slots × panels) the pieces of a row, −1 where it has none; ``free`` a stack
    of pieces; ``used`` the time of a row's last use; ``upto`` the number of vectors, of all that came, whose columns a
    row has, −1 where it has no pieces; ``tail`` the rows of the newest vectors, of the slots ``tail_slot``; ``tail_of``
    the place of a slot in the tail, −1 for none; ``numbers``: see the constants below.
    """

    pool: np.ndarray
    piece_of: np.ndarray
    free: np.ndarray
    used: np.ndarray
    upto: np.ndarray
    tail: np.ndarray
    tail_slot: np.ndarray
    tail_of: np.ndarray
    numbers: np.ndarray


#: Places in ``numbers``: free pieces; vectors that came; of these, those that came before the tail began; the time.
FREE, CAME, BEFORE, TIME = 0, 1, 2, 3


def no_panels(slots: int, n_bytes: float) -> Panels:
    """Panels for so many slots, all empty; memory of the pool is touched as it is used."""
    slots = -(-slots // WIDTH) * WIDTH
    panels = slots // WIDTH
    length = int(TAIL_SHARE * n_bytes) // (4 * slots)
    length = min(max(length, SHORTEST_TAIL), LONGEST_TAIL)
    # what the tail does not take of its share at first it may take later
    pieces = max(int((1.0 - TAIL_SHARE) * n_bytes) // (4 * WIDTH), LEAST_ROWS * panels)
    return Panels(
        np.empty((pieces, WIDTH), np.float32), np.full((slots, panels), -1, np.int32), np.arange(pieces)[::-1].copy(),
        np.zeros(slots, np.int64), np.full(slots, -1), *_no_tail(length, slots), np.full(slots, -1),
        np.array([pieces, 0, 0, 0]),
    )  # fmt: skip


def _no_tail(length: int, slots: int) -> tuple[np.ndarray, np.ndarray]:
    # an odd number of cache lines in a row, so that the entries of a column do not all share one place in the cache
    return np.empty((length, slots + LANES), np.float32), np.empty(length, np.int64)


def with_slots(panels: Panels, slots: int, count: int, n_bytes: float) -> Panels:
    """The same values with room for more slots; the pool stays where it is, unless it is too small for a few rows."""
    flush(panels, count)
    new = no_panels(slots, 0.0)
    old, columns = panels.piece_of.shape
    new.piece_of[:old, :columns] = panels.piece_of
    for name in ("used", "upto", "tail_of"):
        getattr(new, name)[:old] = getattr(panels, name)
    width = new.piece_of.shape[0]
    length = min(max(int(TAIL_SHARE * n_bytes) // (4 * width), SHORTEST_TAIL), LONGEST_TAIL)
    tail, tail_slot = _no_tail(length, width)
    pool, free, numbers = panels.pool, panels.free, panels.numbers.copy()
    short = LEAST_ROWS * new.piece_of.shape[1] - pool.shape[0]
    if short > 0:
        pool = np.concatenate([pool, np.empty((short, WIDTH), np.float32)])
        free = np.concatenate([free, np.zeros(short, free.dtype)])
        free[numbers[FREE] : numbers[FREE] + short] = np.arange(pool.shape[0] - short, pool.shape[0])
        numbers[FREE] += short
    return new._replace(pool=pool, free=free, tail=tail, tail_slot=tail_slot, numbers=numbers)


@inlined
def drop_row(panels, i):
    """Give the pieces of row i back, in place."""
    piece_of, numbers = panels.piece_of, panels.numbers
    for q in range(piece_of.shape[1]):
        if piece_of[i, q] >= 0:
            panels.free[numbers[FREE]] = piece_of[i, q]
            numbers[FREE] += 1
            piece_of[i, q] = -1
    panels.upto[i] = -1


@inlined
def take_piece(panels, keep):
    """A free piece; where there is none, the row that was used longest ago, other than ``keep``, gives its own back."""
    numbers, used, upto = panels.numbers, panels.used, panels.upto
    if numbers[FREE] == 0:
        oldest = -1
        for i in range(upto.size):
            if upto[i] >= 0 and i != keep and (oldest < 0 or used[i] < used[oldest]):
                oldest = i
        drop_row(panels, oldest)
    numbers[FREE] -= 1
    return panels.free[numbers[FREE]]


@inlined
def refresh(panels, i):
    """Row i takes from the tail the columns it lacks, in place."""
    tail, tail_slot, numbers = panels.tail, panels.tail_slot, panels.numbers
    first = numbers[BEFORE]
    for came in range(panels.upto[i], numbers[CAME]):
        slot = tail_slot[came - first]
        q = slot // WIDTH
        if panels.piece_of[i, q] < 0:
            panels.piece_of[i, q] = take_piece(panels, i)
        panels.pool[panels.piece_of[i, q], slot % WIDTH] = tail[came - first, i]
    panels.upto[i] = numbers[CAME]


@inlined
def put_row(panels, i, row, count):
    """Row i ← the values given, of all slots below ``count``, in pieces, in place."""
    for q in range((count + WIDTH - 1) // WIDTH):
        if panels.piece_of[i, q] < 0:
            panels.piece_of[i, q] = take_piece(panels, i)
        piece, start = panels.pool[panels.piece_of[i, q]], q * WIDTH
        for c in range(min(WIDTH, count - start)):
            piece[c] = row[start + c]
    panels.upto[i] = panels.numbers[CAME]


@inlined
def empty_tail(panels, count):
    """All rows take their columns from the tail, and the rows in it get pieces, in place."""
    numbers, upto = panels.numbers, panels.upto
    for i in range(count):
        if upto[i] >= 0:
            refresh(panels, i)
    for k in range(numbers[CAME] - numbers[BEFORE]):
        slot = panels.tail_slot[k]
        if panels.tail_of[slot] == k:
            put_row(panels, slot, panels.tail[k], count)
            panels.tail_of[slot] = -1
    numbers[BEFORE] = numbers[CAME]


@compiled
def flush(panels, count):
    """Empty the tail into the pieces, in place."""
    empty_tail(borrow(panels), count)


@compiled
def hold(panels, i, row, count):
    """Keep a row that was computed for slot i, in place."""
    panels = borrow(panels)
    panels.numbers[TIME] += 1
    panels.used[i] = panels.numbers[TIME]
    put_row(panels, i, borrow(row), count)


@inlined
def enter(panels, slot, row, count):
    """A vector comes to a slot, which is below ``count`` and whose own column the row has, in place."""
    numbers, tail, tail_slot = panels.numbers, panels.tail, panels.tail_slot
    if numbers[CAME] - numbers[BEFORE] == tail_slot.size:
        empty_tail(panels, count)
    k = numbers[CAME] - numbers[BEFORE]
    panels.tail_of[slot], tail_slot[k] = k, slot
    own = tail[k]
    for j in range(count):
        own[j] = row[j]
    for other in range(k):
        tail[other, slot] = row[tail_slot[other]]
    numbers[CAME] += 1
    numbers[TIME] += 1
    panels.used[slot] = numbers[TIME]


@inlined
def leave(panels, slot):
    """A vector leaves its slot, in place."""
    panels.tail_of[slot] = -1
    if panels.upto[slot] >= 0:
        drop_row(panels, slot)


@apart
def load_row(panels, i, count, out):
    """out ← the values of slot i with all slots below ``count``, in place; False if they must be computed."""
    panels.numbers[TIME] += 1
    panels.used[i] = panels.numbers[TIME]
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
    """out[i] ← γ‖xᵢ‖² or γ‖xᵢ‖₁, in float64, and ∞ where that is no number, in place."""
    X = borrow(X)
    for i in range(out.size):
        reach = gamma * own_size(measure, X, i)
        out[i] = np.inf if np.isnan(reach) else reach


@compiled
def own_values(kernel, X, out):
    """out[i] ← k(xᵢ, xᵢ), in place."""
    X, out = borrow(X), borrow(out)
    for i in range(out.size):
        out[i] = between(kernel, X, i, X, i)


def reach_of(kernel: Any, X: Any) -> np.ndarray:
    """γ times the size of each row, by which it is decided how distances are computed; zeros for other kernels."""
    found = np.zeros(shape(X)[0])
    if kernel.of_distances:
        row_reaches(kernel.measure(), float(kernel.gamma), X, found)
    return found


class Way(NamedTuple):
    """How kernel values are computed: the dtype of the sums, the measure, the weight of sums in distances (see
    :class:`.tiles.Packed`); ``in_pairs``: from two rows at a time.
    """

    dtype: np.dtype
    measure: Any
    weight: float
    in_pairs: bool = False


def way_of(kernel: Any, X: Any, reach: float) -> tuple[int, Way]:
    """How the kernel values of rows that reach so far are computed, and its number: rows that reach further have the
    same or a higher one. Nothing else of the rows matters, so that they may come one by one.
    """
    sparse, own = isinstance(X, CSRRows), np.dtype(dtype_of(X))
    if not kernel.of_distances:
        return 0, Way(WIDE if sparse else own, Inner(), 1.0)
    fits = kernel.gamma == 0.0 or 1.0 / LARGEST_GAMMA < kernel.gamma < LARGEST_GAMMA
    absolute = kernel.measure is Absolute
    if sparse:
        if reach <= FURTHEST[WIDE]:
            return 0, Way(WIDE, Overlap() if absolute else Inner(), -2.0)
        return 1, Way(WIDE, kernel.measure(), 1.0, True)
    if absolute:
        near = fits and reach <= 16.0
        return (0, Way(NARROW, Absolute(), 1.0)) if near else (1, Way(own if fits else WIDE, Absolute(), 1.0))
    if fits and reach <= FURTHEST[NARROW]:
        return 0, Way(NARROW, Inner(), -2.0)
    if (own == WIDE or not fits) and reach <= FURTHEST[WIDE]:
        return 1, Way(WIDE, Inner(), -2.0)
    return 2, Way(own if fits else WIDE, Squared(), 1.0)


@compiled
def write_slots(X, examples, slots, sizes, tiles, z_size):
    """The vectors in ``slots`` ← rows of X, with their sizes, in place."""
    values, tiles = borrow(X.values), borrow(tiles)
    for k in range(examples.size):
        row, tile, lane = values[examples[k]], tiles[slots[k] // LANES], slots[k] % LANES
        z_size[slots[k]] = sizes[k]
        for c in range(row.size):
            tile[c, lane] = row[c]


class Slots:
    """Vectors in slots, which rows of the same data are held against.

    Dense vectors stand in tiles. Those of sparse data are the rows of the data themselves: they are copied to one
    place when rows are held against them; a few that have come since are held against by themselves.
    """

    def __init__(self, kernel: Any, X: Any, way: Way, capacity: int):
        self.kernel, self.way, self.sparse = kernel, way, isinstance(X, CSRRows)
        self.evaluations = 0
        self._tiles, self._sizes = np.empty((0, 0, LANES), way.dtype), np.empty(0, way.dtype)
        self._width = shape(X)[1]
        self._slot = np.zeros(self._width if self.sparse else 0, np.int32)
        self._gathered: Any = None
        self._late: list[np.ndarray] = []
        self.grow(capacity)

    def grow(self, capacity: int) -> None:
        """Make room for so many slots."""
        chunks = -(-capacity // CHUNK)
        sizes = np.zeros(chunks * CHUNK, self.way.dtype)
        sizes[: self._sizes.size] = self._sizes
        self._sizes = sizes
        if not self.sparse:
            tiles = aligned((chunks * (CHUNK // LANES), self._width, LANES), self.way.dtype)
            old = self._tiles.shape[0]
            tiles[:old] = self._tiles if old else 0
            tiles[old:] = 0
            self._tiles = tiles

    def own_sums(self, rows: Any) -> np.ndarray:
        """The sizes of rows as sums have them; zeros where distances do not need them."""
        sizes = np.zeros(shape(rows)[0], self.way.dtype)
        if self.way.weight < 0.0:
            (scattered_sums if self.sparse else packed_sums)(self.way.measure, rows, sizes)
        return sizes

    def put(self, X: Any, examples: np.ndarray, slots: np.ndarray, sizes: np.ndarray | None = None) -> None:
        """The vectors in these slots are these rows of X, whose :meth:`own_sums` may be known."""
        if not slots.size:
            return
        sizes = self.own_sums(take_rows(X, examples)) if sizes is None else sizes
        if self.sparse:
            self._sizes[slots] = sizes
            self._late.append(slots)
        else:
            write_slots(X, examples, slots, sizes, self._tiles, self._sizes)

    def renumbered(self) -> None:
        """The rows of the data have other numbers now."""
        self._gathered, self._late = None, []

    def against(
        self, X: Any, index: np.ndarray, rows: Any, out: np.ndarray, sizes: np.ndarray, chosen: np.ndarray | None = None
    ) -> None:  # fmt: skip
        """out[r, j] ← k(row r of ``rows``, slot j) for the slots whose examples, rows of X, are ``index``, of all r or
        those chosen; ``sizes`` are the :meth:`own_sums` of ``rows``.
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
        late = self._late[0] if len(self._late) == 1 else np.unique(np.concatenate(self._late or [places[:0]]))
        if known == 0 or late.size > (LATE * known if self.kernel.is_linear else 0):
            self._gathered, self._late, late = take_rows(X, index), [], late[:0]
        self._scatter(rows, self._gathered, sizes, self._sizes, places, out)
        if late.size:
            found = np.empty((out.shape[0], late.size), np.float32)
            own = np.zeros(-(-late.size // CHUNK) * CHUNK, self.way.dtype)
            own[: late.size] = self._sizes[late]
            self._scatter(rows, take_rows(X, index[late]), sizes, own, places, found)
            out[np.ix_(places, late)] = found[places]

    def _scatter(
        self, rows: Any, Z: Any, sizes: np.ndarray, own: np.ndarray, places: np.ndarray, out: np.ndarray
    ) -> None:
        """out[r, j] ← k(row r, row j of Z), sparse rows of sizes ``sizes`` and ``own``, for the r in places."""
        kernel, way = self.kernel, self.way
        recipe: Any = PairByPair(kernel, rows, Z, False)
        if not way.in_pairs:
            recipe = Scattered(kernel, way.measure, way.weight, rows, Z, sizes, own, False, self._slot)
        compute_rows(recipe, places, places, np.zeros(len(places), np.int64), shape(Z)[0], out)

    def among(
        self, X: Any, index: np.ndarray, rows: Any, sizes: np.ndarray, chosen: np.ndarray, others: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """The kernel values of the chosen rows, in their places, with others; ``rows`` are the rows ``index`` of X, and
        ``sizes`` their :meth:`own_sums`.
        """
        out = np.empty((index.size, others.size), np.float32)
        if chosen.size and index.size > 1:
            part: Any = take_rows(X, index[others])
            other = Slots(self.kernel, part, self.way, others.size)
            if not self.sparse:
                pack(part, other._tiles)
            other._sizes[: others.size] = sizes[others]
            other._gathered, other._slot = part, self._slot
            other.against(X, index[others], rows, out, sizes, chosen)
            self.evaluations += other.evaluations
        return out
