"""Blocks of kernel values K[i, j] = k(xᵢ, zⱼ) in compiled code; a value has the same bits in every block.

Tiles. Sixteen rows (thirty-two CSR rows in float32) are stored feature by feature, so that feature k of all of them
fills one or two vector registers. For a row v and its entries vₖ in order,

    s ← s + m(tileₖ, vₖ)        (sixteen or thirty-two sums, in registers)

with a measure m of :mod:`.measures`. Three cases:

    Packed        Dense data, and sparse data whose rows share features. All rows of Z are tiles, made once. Rows of X
                  are compared with a tile in groups of about twelve, or with two tiles at once where registers allow.
                  Inner and Overlap are 0 where x is, so features that no row of the group has are skipped (half of
                  them in pictures with an empty margin); a skipped zero changes no bit.
    Scattered     Other CSR data. The requested rows of X become a tile, which is compared with each row of Z. A tile
                  has only the features that occur in it, so its size depends on entries, not on all features.
    PairByPair    Rows for which such sums are not precise enough.

Then one pass maps sums to kernel values. A distance is the sum itself, or size(x) + size(z) − 2 × sum, clipped at 0,
where the size is ‖x‖² or ‖x‖₁. Sizes add the same terms in the same order as the sum of a row with itself, so that
equal rows have the distance 0 and the kernel value 1 exactly.

The law. Sums are independent of each other; their number is padded to whole registers; each adds the same terms in the
same order. A row has therefore the same bits with whichever other rows, in whichever order and on however many threads
it is computed, and K[i, j] and K[j, i] have the same bits. Products by BLAS do not have this property
(docs/notes/smo.md).

Cost: rows × columns × features for Packed, rows × entries of Z for Scattered.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import compiled, generic, inlined
from ..intrinsics.atomics import claim
from ..intrinsics.hints import use_wide_registers
from ..intrinsics.tiles import (
    AHEAD,
    BESIDE,
    LANES,
    SPARSE_BYTES,
    TERMS,
    add_few,
    add_many,
    add_term,
    group_of,
    sum_sparse,
)  # fmt: skip
from ..rows.rows import CSRRows, DenseRows, n_rows, shape, some_rows
from .kernels import between, finish, measure_of
from .measures import Absolute, Inner, Overlap, Squared

CHUNK = 192  # columns whose sums are mapped to kernel values together
DEPTH = 256  # dense features in one partial sum: bounds the rounding error and keeps the tile in the first cache
HEIGHT = 132  # dense rows compared with a tile before the next tile is read: as many as a round of SMO has
TILE_ENTRIES = 2**17  # entries of sparse rows in a tile, unless a single row has more


TERMS.update({Inner: "product", Overlap: "overlap", Squared: "square", Absolute: "distance"})


@generic
def _complete(measure, sums, weight, x_size, z_size):
    """sums ← the measure of whole rows; distances are x_size + z_size + weight · sums."""


@_complete.case(Inner)
def _complete_inner(measure, sums, weight, x_size, z_size):
    pass


@_complete.case(Squared, Absolute)
def _add_sizes(measure, sums, weight, x_size, z_size):
    weight = sums.dtype.type(weight)
    for j in range(CHUNK):
        sums[j] = x_size + z_size[j] + weight * sums[j]


@generic
def dense_row(X, i, room):
    """Row i with all its features; a CSR row is written to ``room``."""


@dense_row.case(DenseRows)
def dense_row_dense(X, i, room):
    return X.values[i]


@dense_row.case(CSRRows)
def dense_row_csr(X, i, room):
    room[:] = 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        room[X.indices[p]] = X.data[p]
    return room


@compiled
def scattered_sums(measure, X, out):
    """out[i] ← the sum of row i with itself, in the order of sums of a tile with a sparse row."""
    X, out = borrow(X), borrow(out)
    for i in range(n_rows(X)):
        total = out.dtype.type(0)
        for p in range(X.indptr[i], X.indptr[i + 1]):
            x = out.dtype.type(X.data[p])
            total = add_term(measure, total, x, x)
        out[i] = total


class Packed(NamedTuple):
    """Rows X, and all rows of Z in an even number of tiles, an array of shape (tile, feature, row of the tile).

    ``weight`` is the factor of the sums in distances: −2 with sizes, 1 without, when sizes are 0. Sizes have the dtype
    of the sums; ``z_size`` is padded to whole chunks. ``same``: Z is X and the diagonal is 1.
    """

    kernel: Any
    measure: Any
    weight: float
    X: DenseRows | CSRRows
    tiles: np.ndarray
    x_size: np.ndarray
    z_size: np.ndarray
    same: bool


class Scattered(NamedTuple):
    """CSR rows X and Z; ``slot`` (n_features, int32) is working memory, zero between calls. The rest as in Packed."""

    kernel: Any
    measure: Any
    weight: float
    X: CSRRows
    Z: CSRRows
    x_size: np.ndarray
    z_size: np.ndarray
    same: bool
    slot: np.ndarray


class PairByPair(NamedTuple):
    """Rows for which sums over tiles are not precise enough."""

    kernel: Any
    X: Any
    Z: Any
    same: bool


@generic
def _compute(recipe, I, places, begun, last, out):
    """out[places[r], j] ← k(row I[r], column j) for j < last, except chunks of columns that another thread takes.

    begun[r] counts the chunks that threads have taken, for the rows that are computed together from row r on.
    """


@inlined
def accumulate(measure, tiles, first, last, V, rows, listed, stretches, sums):
    """sums[j, 16 (v − first) + t] ← the measure of row t of tile v and row j of V for first ≤ v < last, j < rows.

    V and ``listed`` are those of :func:`write_group`, with lists for so many stretches of each third of a group; 0 if
    all thirds have the same lists. Later rows of ``sums``, up to whole groups, get numbers, too.
    """
    few = group_of(sums.itemsize) // 3
    sums[:] = 0
    for s in range(-(-V.shape[1] // DEPTH)):
        j = 0
        while rows - j > 2 * few:
            for v in range(first, last, BESIDE):
                add_many(measure, tiles, v, V, j, listed, j // few * stretches + s, sums, (v - first) * LANES)
            j += 3 * few
        while j < rows:
            for v in range(first, last, BESIDE):
                add_few(measure, tiles, v, V, j, listed, j // few * stretches + s, sums, (v - first) * LANES)
            j += few


@generic
def vanishes(measure):
    """Whether a term of the measure is 0 if x or z is."""


@vanishes.case(Inner, Overlap)
def _does(measure):
    return True


@vanishes.case(Squared, Absolute)
def _does_not(measure):
    return False


@inlined
def list_features(wanted, first, listed):
    """List the features that are wanted (≠ 0), for each part of DEPTH features (stretch) in a row of ``listed``.

    Such a row, from row ``first`` on, has the range of its features in V, then their positions in a tile, then the
    positions of the first AHEAD of them in the next tiles, for prefetching.
    """
    width = wanted.size
    for s in range(-(-width // DEPTH)):
        g, count = first + s, 0
        for k in range(s * DEPTH, min((s + 1) * DEPTH, width)):
            if wanted[k] != 0:
                listed[g, 2 + count] = k * LANES
                count += 1
        listed[g, 0], listed[g, 1] = s * DEPTH, s * DEPTH + count
        for k in range(2, 2 + min(AHEAD, count)):
            listed[g, count + k] = listed[g, k] + BESIDE * width * LANES


@inlined
def write_group(measure, X, I, start, end, V, third, listed, sums, room):
    """Write the rows I[start:end] of X, one group, to V from this third on, with only the features that they have.

    V has the shape (third of a group, k, row of the third). The lists of the group belong to its first third (see
    :func:`list_features`). ``sums`` and ``room`` are working memory of one number for each feature.
    """
    width, few = sums.size, V.shape[2]
    stretches = -(-width // DEPTH)
    for k in range(width):
        sums[k] = 0 if vanishes(measure) else 1
    for r in range(start, end):
        row = dense_row(X, I[r], room)
        for k in range(width):
            sums[k] += abs(row[k])
    list_features(sums, third * stretches, listed)
    for r in range(start, end):
        row, u, place = dense_row(X, I[r], room), third + (r - start) // few, (r - start) % few
        for s in range(stretches):
            g = third * stretches + s
            for k in range(listed[g, 1] - listed[g, 0]):
                V[u, s * DEPTH + k, place] = row[listed[g, 2 + k] // LANES]


@_compute.case(Packed)
def _compute_packed(recipe, I, places, begun, last, out):
    X, tiles, z_size = borrow(recipe.X), borrow(recipe.tiles), borrow(recipe.z_size)
    width = tiles.shape[1]
    height, stretches = min(HEIGHT, I.size), -(-width // DEPTH)
    many = group_of(z_size.itemsize)
    few = many // 3
    thirds = -(-height // many) * 3
    V = np.zeros((thirds, width, few), z_size.dtype)
    listed = np.empty((thirds * stretches, 2 + DEPTH + AHEAD), np.int64)
    sums, kept = np.empty((height + many, CHUNK), z_size.dtype), np.empty(CHUNK, out.dtype)
    of_features, room = np.empty(width, z_size.dtype), np.empty(width, z_size.dtype)
    for start in range(0, I.size, height):
        end = min(start + height, I.size)
        rows, j = end - start, 0
        while j < rows:
            size = many if rows - j > 2 * few else few
            group_end = min(start + j + size, end)
            write_group(recipe.measure, X, I, start + j, group_end, V, j // few, listed, of_features, room)
            j += size
        a = claim(begun, start) * CHUNK
        while a < last:
            u, end_tile = a // LANES, min((a + CHUNK) // LANES, tiles.shape[0])
            accumulate(recipe.measure, tiles, u, end_tile, V, rows, listed, stretches, sums)
            _map(recipe, I, places, start, end, a, last, sums, kept, out)
            a = claim(begun, start) * CHUNK


@_compute.case(Scattered)
def _compute_scattered(recipe, I, places, begun, last, out):
    X, Z, z_size, slot = borrow(recipe.X), borrow(recipe.Z), borrow(recipe.z_size), borrow(recipe.slot)
    lanes = SPARSE_BYTES // z_size.itemsize
    S = np.empty((CHUNK, lanes), z_size.dtype)
    sums = np.zeros((lanes, CHUNK), z_size.dtype)
    kept, start = np.empty(CHUNK, out.dtype), 0
    while start < I.size:
        rows, entries = 0, np.int64(0)
        while rows < lanes and start + rows < I.size:
            i = I[start + rows]
            more = np.int64(X.indptr[i + 1] - X.indptr[i])
            if rows > 0 and entries + more > TILE_ENTRIES:
                break
            entries += more
            rows += 1
        # row 0 of the tile is zero and stands for all features that do not occur
        tile, used = np.zeros((entries + 1, lanes), z_size.dtype), 0
        for r in range(rows):
            i = I[start + r]
            for p in range(X.indptr[i], X.indptr[i + 1]):
                column = X.indices[p]
                if slot[column] == 0:
                    used += 1
                    slot[column] = used
                tile[slot[column], r] = X.data[p]
        a = claim(begun, start) * CHUNK
        while a < last:
            b = min(a + CHUNK, last)
            for j in range(a, b):
                low, high = np.int64(Z.indptr[j]), np.int64(Z.indptr[j + 1])
                sum_sparse(recipe.measure, tile, slot, Z.data, Z.indices, low, high, S, j - a)
            for t in range(rows):
                for j in range(b - a):
                    sums[t, j] = S[j, t]
            _map(recipe, I, places, start, start + rows, a, last, sums, kept, out)
            a = claim(begun, start) * CHUNK
        for r in range(rows):
            i = I[start + r]
            for p in range(X.indptr[i], X.indptr[i + 1]):
                slot[X.indices[p]] = 0
        start += rows


@_compute.case(PairByPair)
def _compute_pair_by_pair(recipe, I, places, begun, last, out):
    X, Z = borrow(recipe.X), borrow(recipe.Z)
    for r in range(I.size):
        a = claim(begun, r) * CHUNK
        while a < last:
            for j in range(a, min(a + CHUNK, last)):
                out[places[r], j] = 1 if recipe.same and I[r] == j else between(recipe.kernel, X, I[r], Z, j)
            a = claim(begun, r) * CHUNK


@inlined
def _map(recipe, I, places, start, end, a, last, sums, kept, out):
    """out[places[r], j] ← the kernel value of sums[r − start, j − a], start ≤ r < end, a ≤ j < min(a + CHUNK, last).

    A whole chunk is always mapped, so that all values pass through the same vector instructions.
    """
    z_size = borrow(recipe.z_size)[a : a + CHUNK]
    b = min(a + CHUNK, last)
    for r in range(start, end):
        place, i, values = places[r], I[r], sums[r - start]
        _complete(measure_of(recipe.kernel), values, recipe.weight, recipe.x_size[i], z_size)
        finish(recipe.kernel, values, CHUNK, kept)
        for j in range(b - a):
            out[place, a + j] = kept[j]
        if recipe.same and a <= i < b:
            out[place, i] = 1


@compiled
def compute_rows(recipe, I, places, begun, last, out):
    """out[places[r], j] ← k(row I[r], column j) for j < last, together with other threads that call the same.

    Threads share ``begun``, which is 0 for each row at first: a thread takes the next chunk of columns that no other
    has.
    """
    use_wide_registers()
    _compute(borrow(recipe), borrow(I), borrow(places), borrow(begun), last, borrow(out))


@generic
def _write_tiles(X, tiles):
    """Write rows into tiles."""


@_write_tiles.case(DenseRows)
def _write_tiles_dense(X, tiles):
    n, width = X.values.shape
    for u in range(tiles.shape[0]):
        tile, first = tiles[u], u * LANES
        rows = min(LANES, n - first)
        if rows == LANES:  # feature by feature, which writes in the order of memory
            for k in range(width):
                for t in range(LANES):
                    tile[k, t] = X.values[first + t, k]
        else:
            tile[:] = 0
            for t in range(rows):
                for k in range(width):
                    tile[k, t] = X.values[first + t, k]


@_write_tiles.case(CSRRows)
def _write_tiles_csr(X, tiles):
    tiles[:] = 0
    for i in range(n_rows(X)):
        tile = tiles[i // LANES]
        for p in range(X.indptr[i], X.indptr[i + 1]):
            tile[X.indices[p], i % LANES] = X.data[p]


@compiled
def _write_and_sum(X, tiles, measure, out):
    """Write rows into tiles, and out[i] ← the sum of row i with itself, for as many rows as ``out`` has places."""
    X, tiles, out = borrow(X), borrow(tiles), borrow(out)
    _write_tiles(X, tiles)
    total, own = np.empty(LANES, tiles.dtype), np.empty(LANES, tiles.dtype)
    for u in range(out.size // LANES):
        tile = tiles[u]
        own[:] = 0
        for k in range(0, tile.shape[0], DEPTH):
            total[:] = 0
            for c in range(k, min(k + DEPTH, tile.shape[0])):
                for t in range(LANES):
                    total[t] = add_term(measure, total[t], tile[c, t], tile[c, t])
            for t in range(LANES):
                own[t] += total[t]
        for t in range(LANES):
            out[u * LANES + t] = own[t]


def pack(X: Any, tiles: np.ndarray, measure: Any = Inner(), sums: np.ndarray | None = None) -> None:  # noqa: B008
    """tiles[u, k, t] ← feature k of row 16 u + t; rows after the last are 0.

    If ``sums`` is given, sums[i] ← the measure's sum of row i with itself, in the order of sums over tiles.
    """
    _write_and_sum(X, tiles, measure, np.empty(0, tiles.dtype) if sums is None else sums)


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose first entry, and therefore every row of sixteen, starts a cache line."""
    count = math.prod(shape)
    raw = np.empty(count + LANES, dtype)
    start = -raw.ctypes.data % 64 // dtype.itemsize
    return raw[start : start + count].reshape(shape)


def packed_sums(measure: Any, X: Any, out: np.ndarray) -> None:
    """out[i] ← the sum of row i with itself, in the order of sums over tiles; out has their dtype."""
    n, width = shape(X)
    step = min(max(1, 2**16 // max(1, width * LANES)), -(-n // LANES)) * LANES
    tiles, sums = aligned((step // LANES, width, LANES), out.dtype), np.empty(step, out.dtype)
    for first in range(0, n, max(1, step)):
        last = min(first + step, n)
        pack(some_rows(X, first, last), tiles, measure, sums)
        out[first:last] = sums[: last - first]
