"""Blocks of kernel values, computed in compiled code, whose bits never depend on the block.

How a block is computed. Sixteen rows at a time, of CSR rows in float32 thirty-two, are packed into a tile with
one column per row, so that feature k of all of them stands in one or two vector registers. Then, for a row v,
and for its entries vₖ in order,

    s ← s + m(tileₖ, vₖ)        (sixteen sums, or thirty-two, in registers)

with one of the measures m of :mod:`.measures`.

Dense data, and sparse data whose rows share features: all rows of Z are packed once, and the rows of X asked for are
held against the tiles, a dozen at a time, where there are many registers against two tiles at once. Inner and Overlap
vanish where x does, so features that none of the dozen has are left out, which is half of them in pictures with an
empty margin; a term that vanishes changes no bit. Other CSR data: the rows of X asked for are packed and held
against each row of Z. Only the columns that occur in the tile count: they are renumbered, the tile holds those
alone, and its size is bounded by the entries of its rows however many features there are. Last, a pass maps sums
to kernel values: both distances are Σ itself, or size(x) + size(z) − 2Σ, clipped at 0, with ‖x‖² or ‖x‖₁ as size.
Sizes are sums of the same terms in the same order as Σ of a row with itself, so that the distance of two equal rows
is 0 and their kernel value 1, to the bit.

The law. The sums are independent, there are always as many (padded with zeros), and each runs over the same
terms in the same order: the bits of a row are the same whichever rows it is asked for with, in whichever order,
on any number of threads; and K[i, j] and K[j, i] are the same bits. Products by BLAS do not have this property
(docs/notes/smo.md).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .borrowing import CHECKED, borrow, check_index, check_range
from .dispatch import compiled, generic, inlined, use_wide_registers
from .kernels import between, finish, measure_of
from .measures import Absolute, Inner, Overlap, Squared
from .rows import CSRRows, DenseRows, emit_prefetch, n_rows, shape, some_rows
from .sharing import claim

LANES = 16  # rows in a tile
CHUNK = 192  # columns between two maps from sums to kernel values
DEPTH = 256  # dense features summed at a stretch: bounds the rounding error and keeps the tile in the first cache
# Dense rows held against tiles together, times bytes, and the tiles: 12 × 2 × 16 float32 sums are 24 of the 32
# registers of AVX-512, 6 × 16 are 12 of the 16 of AVX2 and 24 of the 32 of NEON, where in float64 there are as many
# rows, held against one half of a tile after the other. What is left over goes in groups of a third of that.
GROUP_BYTES, BESIDE = (48, 2) if binding.get_host_cpu_features().get("avx512f") else (24, 1)
NEON = bool(binding.get_host_cpu_features().get("neon"))
AHEAD = 16  # features of a tile between the one that is used and the one that is asked for
SPARSE_BYTES = 128  # of sums of sparse rows in a tile: 16 in float64, 32 in float32
HEIGHT = 132  # dense rows held against a tile before the next tile is read: those of a round of SMO at once
TILE_ENTRIES = 2**17  # of sparse rows in a tile, unless one row alone has more


@inlined
def group_of(itemsize):
    """Rows of numbers of so many bytes that are held against tiles together."""
    return GROUP_BYTES // (4 if NEON else itemsize)


def _add_term(builder: ir.IRBuilder, measure: type, total: Any, x: Any, z: Any) -> Any:
    """Emit total + m(x, z), for vectors."""
    fused = ("contract",)
    if measure is Inner:
        return builder.fadd(total, builder.fmul(x, z, flags=fused), flags=fused)
    if measure is Overlap:
        zero = ir.Constant(x.type, [0.0] * x.type.count)
        low = builder.select(builder.fcmp_ordered("<", x, z), x, z)
        high = builder.select(builder.fcmp_ordered(">", x, z), x, z)
        above = builder.select(builder.fcmp_ordered(">", low, zero), low, zero)
        below = builder.select(builder.fcmp_ordered("<", high, zero), builder.fneg(high), zero)
        return builder.fadd(total, builder.fadd(above, below))
    difference = builder.fsub(x, z)
    if measure is Squared:
        return builder.fadd(total, builder.fmul(difference, difference, flags=fused), flags=fused)
    bits = 32 if isinstance(x.type.element, ir.FloatType) else 64
    name = f"llvm.fabs.v{x.type.count}f{bits}"
    magnitude = cgutils.get_or_insert_function(builder.module, ir.FunctionType(x.type, [x.type]), name)
    return builder.fadd(total, builder.call(magnitude, [difference]))


class _Emitter:
    """The vector instructions that the loops below share."""

    def __init__(self, context, builder, tile_type, source_type, lanes=LANES):
        self.builder, self.lanes = builder, lanes
        self.element = context.get_data_type(tile_type.dtype)
        self.vector = ir.VectorType(self.element, lanes)
        self.align = tile_type.dtype.bitwidth // 8
        self.widen = source_type.dtype != tile_type.dtype

    def sums(self) -> Any:
        place = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(ir.Constant(self.vector, [0.0] * self.lanes), place)
        return place

    def line(self, array: Any, start: Any) -> Any:
        """Pointer to the vector that begins at a place of an array, counted in numbers."""
        return self.builder.bitcast(self.builder.gep(array.data, [start]), self.vector.as_pointer())

    def row(self, array: Any, index: Any) -> Any:
        """Pointer to row ``index`` of an array with a column for each lane."""
        return self.line(array, self.builder.mul(index, index.type(self.lanes)))

    def load(self, pointer: Any) -> Any:
        return self.builder.load(pointer, align=self.align)

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, pointer, align=self.align)

    def spread(self, pointer: Any) -> Any:
        """The number at a pointer, in all lanes."""
        number = self.builder.load(pointer)
        if self.widen:
            number = self.builder.fpext(number, self.element)
        first = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), number, ir.IntType(32)(0))
        return self.spread_lane(first, 0)

    def spread_lane(self, numbers: Any, lane: int) -> Any:
        """One number of a vector, in all lanes."""
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [lane] * self.lanes)
        return self.builder.shuffle_vector(numbers, ir.Constant(numbers.type, ir.Undefined), lanes)

    def spread_each(self, pointer: Any, count: int) -> list[Any]:
        """The numbers from a pointer on, each in all lanes: NEON takes one of a register, AVX one in memory."""
        if not NEON or count == 1:
            return [self.spread(self.builder.gep(pointer, [ir.IntType(64)(g)])) for g in range(count)]
        kind = ir.VectorType(self.element, count)
        numbers = self.load(self.builder.bitcast(pointer, kind.as_pointer()))
        return [self.spread_lane(numbers, g) for g in range(count)]


def _require_c_order(*arrays: Any) -> None:
    if any(array.layout != "C" for array in arrays):
        raise TypingError("arrays must be C-ordered")


def _add_group(context, builder, sig, args, thirds, beside, where):
    """Emit sums[j + g, column:column + 16] += Σₖ m(tileₖ, V[j + g]ₖ) for so many thirds of a group of rows g.

    ``where`` names the arguments: a tile, or tiles and the number ``v`` of one, of which those ``beside`` go to the
    columns that follow; V has rows, of which the features from ``start`` to ``end`` count, or thirds of groups of them
    with the shape (third, k, row of it), which need fewer pointers, and of listed features alone.
    """
    at: dict[str, Any] = dict(zip(where, args, strict=True))
    of = dict(zip(where, sig.args, strict=False))
    tile, V, totals = (context.make_array(of[name])(context, builder, at[name]) for name in ("tile", "V", "sums"))
    itemsize, j, listed = of["tile"].dtype.bitwidth // 8, at["j"], "listed" in at
    halves = itemsize // 4 if NEON and thirds == 3 else 1
    emit = _Emitter(context, builder, of["tile"], of["V"], LANES // halves)
    size = builder.mul(builder.extract_value(tile.shape, of["tile"].ndim - 2), j.type(LANES))
    width, last = builder.extract_value(V.shape, 1), builder.sub(builder.extract_value(V.shape, 0), j.type(1))
    first: Any = j.type(0)
    start: Any = at.get("start")
    end: Any = at.get("end")
    if listed:
        lists = context.make_array(of["listed"])(context, builder, at["listed"])
        row = builder.mul(at["row"], builder.extract_value(lists.shape, 1))
        check_index(context, builder, builder.extract_value(lists.shape, 0), at["row"])
        start, end = (builder.load(builder.gep(lists.data, [builder.add(row, row.type(c))])) for c in range(2))
        last_listed = builder.add(builder.sub(end, start), row.type(2 + AHEAD))
        check_range(context, builder, builder.extract_value(lists.shape, 1), row.type(2), last_listed)
        row = builder.add(builder.sub(row, start), row.type(2))
        first = builder.mul(at["v"], size)

    def lines(k, lane, ahead):
        """Pointers to the k-th feature of each tile, or one so many behind it, from a lane on."""
        if listed:
            place = builder.load(builder.gep(lists.data, [builder.add(builder.add(row, k), k.type(ahead))]))
        else:
            place = builder.mul(k, k.type(LANES))
        place = builder.add(builder.add(place, first), lane)
        if not ahead:
            end_of_last = builder.add(place, builder.add(builder.mul(size, k.type(beside - 1)), k.type(emit.lanes)))
            check_range(context, builder, tile.nitems, place, end_of_last)
        return [emit.line(tile, builder.add(place, builder.mul(size, k.type(t)))) for t in range(beside)]

    few = group_of(itemsize) // 3
    group, together = range(thirds * few), few if listed else 1
    if CHECKED:
        _check_group(context, builder, V, totals, at, (start, end), len(group), beside)
    rows = []
    for g in group[::together]:
        i = builder.add(j, j.type(g))
        if not listed:
            i = builder.select(builder.icmp_signed("<", i, last), i, last)
        rows.append(builder.gep(V.data, [builder.mul(i, width)]))
    with cgutils.for_range(builder, j.type(halves)) as half:
        lane = builder.mul(half.index, j.type(emit.lanes))
        sums = [[emit.sums() for _ in range(beside)] for g in group]
        with cgutils.for_range_slice(builder, start, end, start.type(1), inc=True) as (k, _):
            x = [emit.load(line) for line in lines(k, lane, 0)]
            if listed:
                for line in lines(k, lane, AHEAD):
                    emit_prefetch(builder, line)
            for g in group[::together]:
                numbers = builder.gep(rows[g // together], [builder.mul(k, k.type(together))])
                for z, some in zip(emit.spread_each(numbers, together), sums[g : g + together], strict=True):
                    for t, total in enumerate(some):
                        more = _add_term(builder, of["measure"].instance_class, builder.load(total), x[t], z)
                        builder.store(more, total)
        for g in group:
            i = builder.mul(builder.add(j, j.type(g)), builder.extract_value(totals.shape, 1))
            i = builder.add(builder.add(i, at["column"]), lane)
            for t, total in enumerate(sums[g]):
                place = emit.line(totals, builder.add(i, i.type(t * LANES)))
                emit.store(builder.fadd(emit.load(place), builder.load(total)), place)
    return context.get_dummy_value()


def _check_group(context, builder, V, totals, at, features, height, beside):
    """Test the ranges of features, rows and sums; without a list, the last row stands for those behind it."""
    j = at["j"]
    behind = builder.add(j, j.type(height))
    check_range(context, builder, builder.extract_value(V.shape, 1), *features)
    if "listed" in at:
        check_range(context, builder, builder.udiv(V.nitems, builder.extract_value(V.shape, 1)), j, behind)
    else:
        check_index(context, builder, builder.extract_value(V.shape, 0), j)
    last = builder.add(at["column"], j.type(beside * LANES))
    check_range(context, builder, builder.extract_value(totals.shape, 0), j, behind)
    check_range(context, builder, builder.extract_value(totals.shape, 1), at["column"], last)


def _adder(thirds: int) -> Any:
    """The intrinsic that holds so many thirds of a group of rows against a tile."""
    names = "measure", "tile", "V", "j", "start", "end", "sums"

    @intrinsic
    def add(typingctx, measure, tile, V, j, start, end, sums):
        """sums[j + g] += Σₖ m(tile[k], V[j + g, k]) for a group of rows g and start ≤ k < end.

        Of rows behind the last, which it repeats, there are sums, too.
        """
        _require_c_order(tile, V, sums)

        def codegen(context, builder, sig, args):
            where, column = (*names, "column"), args[3].type(0)
            return _add_group(context, builder, sig, (*args, column), thirds, 1, where)

        return types.void(measure, tile, V, j, start, end, sums), codegen

    return add


def _listed_adder(thirds: int) -> Any:
    """The intrinsic that holds so many thirds of a group of rows against BESIDE tiles at once, by listed features."""
    names = "measure", "tile", "v", "V", "j", "listed", "row", "sums", "column"

    @intrinsic
    def add(typingctx, measure, tiles, v, V, j, listed, row, sums, column):
        """sums[j + g, column:] += Σₖ m(tiles[v] at listed[row, 2 + k − start], V[j + g, k]) for a group of rows g.

        k goes from ``start`` = listed[row, 0] to listed[row, 1]; AHEAD places behind the last are asked for. Of rows
        behind the last, which are anything, there are sums, too.
        """
        _require_c_order(tiles, V, listed, sums)

        def codegen(context, builder, sig, args):
            return _add_group(context, builder, sig, args, thirds, BESIDE, names)

        return types.void(measure, tiles, v, V, j, listed, row, sums, column), codegen

    return add


_add_many, _add_few = _adder(3), _adder(1)
_add_many_listed, _add_few_listed = _listed_adder(3), _listed_adder(1)


@intrinsic
def _sum_sparse(typingctx, measure, tile, slot, data, indices, start, end, S, s):
    """S[s] ← Σₚ m(tile[slot[indices[p]]], data[p]) for start ≤ p < end, in place."""
    _require_c_order(tile, slot, data, indices, S)
    signature = types.void(measure, tile, slot, data, indices, start, end, S, s)

    def codegen(context, builder, sig, args):
        emit = _Emitter(context, builder, sig.args[1], sig.args[3], SPARSE_BYTES * 8 // sig.args[1].dtype.bitwidth)
        array = {k: context.make_array(sig.args[k])(context, builder, args[k]) for k in (1, 2, 3, 4, 7)}
        tile, slot, data, indices, S = (array[k] for k in (1, 2, 3, 4, 7))
        start, end, s = args[5], args[6], args[8]
        sums = emit.sums()
        check_range(context, builder, indices.nitems, start, end)
        check_range(context, builder, data.nitems, start, end)
        check_index(context, builder, builder.extract_value(S.shape, 0), s)
        with cgutils.for_range_slice(builder, start, end, start.type(1), inc=True) as (p, _):
            feature = builder.load(builder.gep(indices.data, [p]))
            check_index(context, builder, slot.nitems, builder.sext(feature, p.type))
            column = builder.load(builder.gep(slot.data, [feature]))
            check_index(context, builder, builder.extract_value(tile.shape, 0), builder.sext(column, p.type))
            x = emit.load(emit.row(tile, builder.sext(column, p.type)))
            z = emit.spread(builder.gep(data.data, [p]))
            builder.store(_add_term(builder, sig.args[0].instance_class, builder.load(sums), x, z), sums)
        emit.store(builder.load(sums), emit.row(S, s))
        return context.get_dummy_value()

    return signature, codegen


@generic
def _complete(measure, sums, weight, x_size, z_size):
    """sums ← the measure of whole rows, in place: distances are x_size + z_size + weight · sums."""


@_complete.case(Inner)
def _(measure, sums, weight, x_size, z_size):
    pass


def _add_sizes(measure, sums, weight, x_size, z_size):
    weight = sums.dtype.type(weight)
    for j in range(CHUNK):
        sums[j] = x_size + z_size[j] + weight * sums[j]


_complete.case(Squared)(_add_sizes)
_complete.case(Absolute)(_add_sizes)


@generic
def dense_row(X, i, room):
    """Row i with all its features; that of CSR rows is written to ``room``."""


@dense_row.case(DenseRows)
def _(X, i, room):
    return X.values[i]


@dense_row.case(CSRRows)
def _(X, i, room):
    room[:] = 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        room[X.indices[p]] = X.data[p]
    return room


@intrinsic
def _add_own(typingctx, measure, tile, start, end, sums):
    """sums += Σₖ m(tile[k], tile[k]) for start ≤ k < end, in place."""
    _require_c_order(tile, sums)
    signature = types.void(measure, tile, start, end, sums)

    def codegen(context, builder, sig, args):
        emit = _Emitter(context, builder, sig.args[1], sig.args[4])
        tile, totals = (context.make_array(sig.args[k])(context, builder, args[k]) for k in (1, 4))
        sums, place = emit.sums(), emit.line(totals, args[2].type(0))
        check_range(context, builder, builder.extract_value(tile.shape, 0), args[2], args[3])
        check_range(context, builder, totals.nitems, args[2].type(0), args[2].type(LANES))
        with cgutils.for_range_slice(builder, args[2], args[3], args[2].type(1), inc=True) as (k, _):
            x = emit.load(emit.row(tile, k))
            builder.store(_add_term(builder, sig.args[0].instance_class, builder.load(sums), x, x), sums)
        emit.store(builder.fadd(emit.load(place), builder.load(sums)), place)
        return context.get_dummy_value()

    return signature, codegen


@compiled
def tile_sums(measure, tiles, out):
    """out[i] ← Σ of row i of the tiles with itself, as a block of rows against tiles sums it."""
    tiles, out = borrow(tiles), borrow(out)
    sums = np.empty(LANES, out.dtype)
    for u in range(tiles.shape[0]):
        sums[:] = 0
        for k in range(0, tiles.shape[1], DEPTH):
            _add_own(measure, tiles[u], k, min(k + DEPTH, tiles.shape[1]), sums)
        for t in range(LANES):
            out[u * LANES + t] = sums[t]


@compiled
def scattered_sums(measure, X, out):
    """out[i] ← Σ of row i with itself, as a tile sums it against rows."""
    X, out = borrow(X), borrow(out)
    longest = np.int64(0)
    for i in range(n_rows(X)):
        longest = max(longest, np.int64(X.indptr[i + 1] - X.indptr[i]))
    places = np.arange(longest).astype(np.int32)
    lanes = SPARSE_BYTES // out.itemsize
    tile, own = np.zeros((longest, lanes), out.dtype), np.empty(longest, out.dtype)
    S = np.empty((1, lanes), out.dtype)
    for i in range(n_rows(X)):
        low, size = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1] - X.indptr[i])
        for k in range(size):
            own[k] = X.data[low + k]
            tile[k, 0] = own[k]
        _sum_sparse(measure, tile, places, own, places, np.int64(0), size, S, np.int64(0))
        out[i] = S[0, 0]


class Packed(NamedTuple):
    """Rows X, and all rows of Z in an even number of tiles of shape (tile, feature, row of the tile).

    The sizes have the dtype of the sums, and ``z_size`` is padded to whole chunks; they are 0 where ``weight``, that of
    sums in distances, is 1. ``same``: Z is X and the diagonal is 1.
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
    """CSR rows X and Z; ``slot`` (n_features, int32) is working space full of zeros. The rest as in Packed."""

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
    """Rows of which no sum over tiles is precise enough."""

    kernel: Any
    X: Any
    Z: Any
    same: bool


@generic
def _compute(recipe, I, places, begun, last, out):
    """out[places[r], j] ← k(row I[r], column j) for j < last, but for chunks of columns that another thread takes.

    begun[r] are the chunks that have been taken, of rows which are computed together and of which r is the first.
    """


@inlined
def accumulate(V, measure, tile, S):
    """S[j] ← Σₖ m(tile[k], V[j, k]) for every dense row of V; S has at least as many, and a multiple of a group's."""
    few = group_of(S.itemsize) // 3
    S[:] = 0
    for k in range(0, V.shape[1], DEPTH):
        end = min(k + DEPTH, V.shape[1])
        j = 0
        while V.shape[0] - j > 2 * few:
            _add_many(measure, tile, V, j, k, end, S)
            j += 3 * few
        while j < V.shape[0]:
            _add_few(measure, tile, V, j, k, end, S)
            j += few


@generic
def vanishes(measure):
    """Whether the measure is 0 wherever one of the two is."""


def _does(measure):
    return True


def _does_not(measure):
    return False


vanishes.case(Inner)(_does)
vanishes.case(Overlap)(_does)
vanishes.case(Squared)(_does_not)
vanishes.case(Absolute)(_does_not)


@inlined
def write_group(measure, X, I, start, end, V, third, listed, sums, room):
    """Write the rows I[start:end] of X, one group, to V from this third on, with the features that any of them has.

    V has thirds of groups with the shape (third, k, row of it), feature by feature from the start of each stretch on.
    For a third that a group begins with and each stretch ``listed`` has where its features begin and end in V, the
    places in a tile where they stand, and those of the first few in the tiles that are next. ``sums`` and ``room``,
    one number for each feature, are working space.
    """
    width, few = sums.size, V.shape[2]
    stretches = -(-width // DEPTH)
    for k in range(width):
        sums[k] = 0 if vanishes(measure) else 1
    for r in range(start, end):
        row = dense_row(X, I[r], room)
        for k in range(width):
            sums[k] += abs(row[k])
    for s in range(stretches):
        g, count = third * stretches + s, 0
        for k in range(s * DEPTH, min((s + 1) * DEPTH, width)):
            if sums[k] != 0:
                listed[g, 2 + count] = k * LANES
                count += 1
        listed[g, 0], listed[g, 1] = s * DEPTH, s * DEPTH + count
        for k in range(2, 2 + min(AHEAD, count)):
            listed[g, count + k] = listed[g, k] + BESIDE * width * LANES
    for r in range(start, end):
        row, u, place = dense_row(X, I[r], room), third + (r - start) // few, (r - start) % few
        for s in range(stretches):
            g = third * stretches + s
            for k in range(listed[g, 1] - listed[g, 0]):
                V[u, s * DEPTH + k, place] = row[listed[g, 2 + k] // LANES]


@_compute.case(Packed)
def _(recipe, I, places, begun, last, out):
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
            sums[:] = 0
            for s in range(stretches):
                j = 0
                while rows - j > 2 * few:
                    g = j // few * stretches + s
                    for v in range(u, end_tile, BESIDE):
                        _add_many_listed(recipe.measure, tiles, v, V, j, listed, g, sums, (v - u) * LANES)
                    j += many
                while j < rows:
                    g = j // few * stretches + s
                    for v in range(u, end_tile, BESIDE):
                        _add_few_listed(recipe.measure, tiles, v, V, j, listed, g, sums, (v - u) * LANES)
                    j += few
            _map(recipe, I, places, start, end, a, last, sums, kept, out)
            a = claim(begun, start) * CHUNK


@_compute.case(Scattered)
def _(recipe, I, places, begun, last, out):
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
        # place 0 of the tile is a row of zeros, for all features that do not occur
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
                _sum_sparse(recipe.measure, tile, slot, Z.data, Z.indices, low, high, S, j - a)
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
def _(recipe, I, places, begun, last, out):
    X, Z = borrow(recipe.X), borrow(recipe.Z)
    for r in range(I.size):
        a = claim(begun, r) * CHUNK
        while a < last:
            for j in range(a, min(a + CHUNK, last)):
                out[places[r], j] = 1 if recipe.same and I[r] == j else between(recipe.kernel, X, I[r], Z, j)
            a = claim(begun, r) * CHUNK


@inlined
def _map(recipe, I, places, start, end, a, last, sums, kept, out):
    """out[places[r], j] ← the kernel values of sums[r − start, j − a], for start ≤ r < end and a ≤ j < a + CHUNK, last.

    Whole chunks are mapped, the last one with whatever stands behind its end, so that all values go through the
    same vector instructions.
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
    """out[places[r], j] ← k(row I[r], column j) for j < last, in place, together with other threads that do the same.

    ``begun`` is theirs in common, a zero for each row; who is done with some columns takes the next that nobody has.
    """
    use_wide_registers()
    _compute(borrow(recipe), borrow(I), borrow(places), borrow(begun), last, borrow(out))


@generic
def _write_tiles(X, tiles):
    """Write rows into tiles."""


@_write_tiles.case(DenseRows)
def _(X, tiles):
    n, width = X.values.shape
    for u in range(tiles.shape[0]):
        tile, first = tiles[u], u * LANES
        rows = min(LANES, n - first)
        if rows == LANES:  # a line of the tile at a time
            for k in range(width):
                for t in range(LANES):
                    tile[k, t] = X.values[first + t, k]
        else:
            tile[:] = 0
            for t in range(rows):
                for k in range(width):
                    tile[k, t] = X.values[first + t, k]


@_write_tiles.case(CSRRows)
def _(X, tiles):
    tiles[:] = 0
    for i in range(n_rows(X)):
        tile = tiles[i // LANES]
        for p in range(X.indptr[i], X.indptr[i + 1]):
            tile[X.indices[p], i % LANES] = X.data[p]


@compiled
def pack(X, tiles):
    """tiles[u, k, t] ← feature k of row 16 u + t; rows behind the last are zeros."""
    _write_tiles(borrow(X), borrow(tiles))


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose first entry, and so every row of sixteen, starts a cache line."""
    count = math.prod(shape)
    raw = np.empty(count + LANES, dtype)
    start = -raw.ctypes.data % 64 // dtype.itemsize
    return raw[start : start + count].reshape(shape)


def packed_sums(measure: Any, X: Any, out: np.ndarray) -> None:
    """out[i] ← Σ of row i with itself, as a block of rows against tiles sums it; out has the dtype of the sums."""
    n, width = shape(X)
    step = min(max(1, 2**16 // max(1, width * LANES)), -(-n // LANES)) * LANES
    tiles, sums = aligned((step // LANES, width, LANES), out.dtype), np.empty(step, out.dtype)
    for first in range(0, n, max(1, step)):
        last = min(first + step, n)
        pack(some_rows(X, first, last), tiles)
        tile_sums(measure, tiles, sums)
        out[first:last] = sums[: last - first]
