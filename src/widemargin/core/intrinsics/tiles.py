"""Sums over features of sixteen rows at a time: the vector instructions of :mod:`widemargin.core.kernels.tiles`.

A tile has a line for each feature, with the numbers of :data:`LANES` rows. For a row v the sums

    s ← s + m(tileₖ, vₖ)        for each feature k in turn

stand in registers, for several rows v at once. m is the term of a measure: xz, the overlap, (x − z)² or |x − z|. Only
the product and the sum of a term may be fused. The plain versions add the same terms in the same order, to the same
bits, and keep their sums in memory.
"""

from typing import Any

import numpy as np
from numba import types

from ..borrowing import CHECKED, check_index, check_range
from ..compiling.dispatch import compile_within, inlined
from .emitting import FEATURES, FUSED, TypingError, cgutils, emitted, ir
from .hints import emit_prefetch

LANES = 16  # rows of a tile
# A group is the dense rows that are compared with a tile at the same time, so that their sums fill the registers.
# GROUP_BYTES is its number of rows times the bytes of a number, BESIDE the number of tiles at the same time. 12 rows ×
# 2 tiles × 16 float32 sums are 24 of the 32 registers of AVX-512; 6 × 16 are 12 of the 16 of AVX2, and 24 of the 32 of
# NEON, which takes as many float64 rows, with one half of a tile after the other. Other rows form groups of a third.
GROUP_BYTES, BESIDE = (48, 2) if FEATURES.get("avx512f") else (24, 1)
NEON = bool(FEATURES.get("neon"))
AHEAD = 16  # features; how long before its use a feature of a tile is prefetched
SPARSE_BYTES = 128  # bytes of the sums of a tile of sparse rows: 16 in float64, 32 in float32

#: The term of each class of measures: "product", "overlap", "square" or "distance".
TERMS: dict[type, str] = {}


@inlined
def group_of(itemsize):
    """The number of rows of a group, for numbers of so many bytes."""
    return GROUP_BYTES // (4 if NEON else itemsize)


# ---------------------------------------------------------------- a term


def add_term(measure, total, x, z):
    """total + m(x, z)."""
    raise NotImplementedError("add_term runs in compiled loops only")


def _add_product(measure, total, x, z):
    return total + x * z


def _add_overlap(measure, total, x, z):
    zero, low, high = z - z, x if x < z else z, x if x > z else z
    return total + ((low if low > zero else zero) + (-high if high < zero else zero))


def _add_square(measure, total, x, z):
    return total + (x - z) * (x - z)


def _add_distance(measure, total, x, z):
    return total + abs(x - z)


PLAIN = {"product": _add_product, "overlap": _add_overlap, "square": _add_square, "distance": _add_distance}
compile_within(add_term, lambda measure, *_: PLAIN[TERMS[measure.instance_class]], fastmath=FUSED)


def _emit_term(builder: Any, measure: type, total: Any, x: Any, z: Any) -> Any:
    """Emit total + m(x, z), for vectors."""
    term, fused = TERMS[measure], ("contract",)
    if term == "product":
        return builder.fadd(total, builder.fmul(x, z, flags=fused), flags=fused)
    if term == "overlap":
        zero = ir.Constant(x.type, [0.0] * x.type.count)
        low = builder.select(builder.fcmp_ordered("<", x, z), x, z)
        high = builder.select(builder.fcmp_ordered(">", x, z), x, z)
        above = builder.select(builder.fcmp_ordered(">", low, zero), low, zero)
        below = builder.select(builder.fcmp_ordered("<", high, zero), builder.fneg(high), zero)
        return builder.fadd(total, builder.fadd(above, below))
    difference = builder.fsub(x, z)
    if term == "square":
        return builder.fadd(total, builder.fmul(difference, difference, flags=fused), flags=fused)
    bits = 32 if isinstance(x.type.element, ir.FloatType) else 64
    name = f"llvm.fabs.v{x.type.count}f{bits}"
    magnitude = cgutils.get_or_insert_function(builder.module, ir.FunctionType(x.type, [x.type]), name)
    return builder.fadd(total, builder.call(magnitude, [difference]))


# ---------------------------------------------------------------- vectors of LLVM


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


def _opened(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """The arguments, of arrays what Numba has of them: ``data``, ``shape``, ``nitems``."""
    return [
        context.make_array(kind)(context, builder, each) if isinstance(kind, types.Array) else each
        for kind, each in zip(signature.args, args, strict=True)
    ]


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
    first: Any = j.type(0)
    start: Any = at.get("start")
    end: Any = at.get("end")
    if listed:
        lists, row, start, end = _list_of_features(context, builder, of["listed"], at)
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
    rows = _rows_of_group(builder, V, j, group[::together], repeats_last=not listed)
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
                        more = _emit_term(builder, of["measure"].instance_class, builder.load(total), x[t], z)
                        builder.store(more, total)
        for g in group:
            i = builder.mul(builder.add(j, j.type(g)), builder.extract_value(totals.shape, 1))
            i = builder.add(builder.add(i, at["column"]), lane)
            for t, total in enumerate(sums[g]):
                place = emit.line(totals, builder.add(i, i.type(t * LANES)))
                emit.store(builder.fadd(emit.load(place), builder.load(total)), place)
    return context.get_dummy_value()


def _rows_of_group(builder, V, j, group, repeats_last):
    """Pointers to the rows j + g of V; the last row may stand for those behind it."""
    width, last = builder.extract_value(V.shape, 1), builder.sub(builder.extract_value(V.shape, 0), j.type(1))
    rows = []
    for g in group:
        i = builder.add(j, j.type(g))
        if repeats_last:
            i = builder.select(builder.icmp_signed("<", i, last), i, last)
        rows.append(builder.gep(V.data, [builder.mul(i, width)]))
    return rows


def _list_of_features(context, builder, kind, at):
    """(the lists, the place of feature 0 in the list of a row of lists, the first feature, the one behind the last)."""
    lists = context.make_array(kind)(context, builder, at["listed"])
    row = builder.mul(at["row"], builder.extract_value(lists.shape, 1))
    check_index(context, builder, builder.extract_value(lists.shape, 0), at["row"])
    start, end = (builder.load(builder.gep(lists.data, [builder.add(row, row.type(c))])) for c in range(2))
    last_listed = builder.add(builder.sub(end, start), row.type(2 + AHEAD))
    check_range(context, builder, builder.extract_value(lists.shape, 1), row.type(2), last_listed)
    return lists, builder.add(builder.sub(row, start), row.type(2)), start, end


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

    def plain(measure, tile, V, j, start, end, sums):
        total = np.empty(LANES, sums.dtype)
        for g in range(j, j + thirds * (group_of(sums.itemsize) // 3)):
            i = min(g, V.shape[0] - 1)
            total[:] = 0
            for k in range(start, end):
                z = sums.dtype.type(V[i, k])
                for t in range(LANES):
                    total[t] = add_term(measure, total[t], tile[k, t], z)
            for t in range(LANES):
                sums[g, t] += total[t]

    @emitted(plain)
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

    def plain(measure, tiles, v, V, j, listed, row, sums, column):
        total, start = np.empty(LANES, sums.dtype), listed[row, 0]
        for g in range(j, j + thirds * V.shape[2]):
            for u in range(BESIDE):
                total[:] = 0
                for k in range(start, listed[row, 1]):
                    line, z = listed[row, 2 + k - start] // LANES, V[g // V.shape[2], k, g % V.shape[2]]
                    for t in range(LANES):
                        total[t] = add_term(measure, total[t], tiles[v + u, line, t], z)
                for t in range(LANES):
                    sums[g, column + u * LANES + t] += total[t]

    @emitted(plain)
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


add_many, add_few = _adder(3), _adder(1)
add_many_listed, add_few_listed = _listed_adder(3), _listed_adder(1)


def _plain_sum_sparse(measure, tile, slot, data, indices, start, end, S, s):
    S[s] = 0
    for p in range(start, end):
        line, z = slot[indices[p]], S.dtype.type(data[p])
        for t in range(S.shape[1]):
            S[s, t] = add_term(measure, S[s, t], tile[line, t], z)


@emitted(_plain_sum_sparse)
def sum_sparse(typingctx, measure, tile, slot, data, indices, start, end, S, s):
    """S[s] ← Σₚ m(tile[slot[indices[p]]], data[p]) for start ≤ p < end, in place."""
    _require_c_order(tile, slot, data, indices, S)
    signature = types.void(measure, tile, slot, data, indices, start, end, S, s)

    def codegen(context, builder, sig, args):
        measure, tile, _, data, *_ = sig.args
        emit = _Emitter(context, builder, tile, data, SPARSE_BYTES * 8 // tile.dtype.bitwidth)
        _, tile, slot, data, indices, start, end, S, s = _opened(context, builder, sig, args)
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
            builder.store(_emit_term(builder, measure.instance_class, builder.load(sums), x, z), sums)
        emit.store(builder.load(sums), emit.row(S, s))
        return context.get_dummy_value()

    return signature, codegen


def _plain_add_own(measure, tile, start, end, sums):
    total = np.zeros(LANES, sums.dtype)
    for k in range(start, end):
        for t in range(LANES):
            total[t] = add_term(measure, total[t], tile[k, t], tile[k, t])
    for t in range(LANES):
        sums[t] += total[t]


@emitted(_plain_add_own)
def add_own(typingctx, measure, tile, start, end, sums):
    """sums += Σₖ m(tile[k], tile[k]) for start ≤ k < end, in place."""
    _require_c_order(tile, sums)
    signature = types.void(measure, tile, start, end, sums)

    def codegen(context, builder, sig, args):
        measure, *_, totals = sig.args
        emit = _Emitter(context, builder, totals, totals)
        _, tile, start, end, totals = _opened(context, builder, sig, args)
        sums, place = emit.sums(), emit.line(totals, start.type(0))
        check_range(context, builder, builder.extract_value(tile.shape, 0), start, end)
        check_range(context, builder, totals.nitems, start.type(0), start.type(LANES))
        with cgutils.for_range_slice(builder, start, end, start.type(1), inc=True) as (k, _):
            x = emit.load(emit.row(tile, k))
            builder.store(_emit_term(builder, measure.instance_class, builder.load(sums), x, x), sums)
        emit.store(builder.fadd(emit.load(place), builder.load(sums)), place)
        return context.get_dummy_value()

    return signature, codegen
