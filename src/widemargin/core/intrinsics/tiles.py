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
    """The vector instructions that the loops below share, for vectors of so many lanes."""

    def __init__(self, context: Any, builder: Any, dtype: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.element = context.get_data_type(dtype)
        self.vector = ir.VectorType(self.element, lanes)
        self.align = dtype.bitwidth // 8

    def zeros(self) -> Any:
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

    def spread(self, number: Any) -> Any:
        """A number in all lanes."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        return self.spread_lane(self.builder.insert_element(undefined, number, ir.IntType(32)(0)), 0)

    def spread_lane(self, numbers: Any, lane: int) -> Any:
        """One number of a vector, in all lanes."""
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [lane] * self.lanes)
        return self.builder.shuffle_vector(numbers, ir.Constant(numbers.type, ir.Undefined), lanes)

    def spread_each(self, pointer: Any, count: int) -> list[Any]:
        """The numbers from a pointer on, each in all lanes: NEON takes one of a register, AVX one in memory."""
        if not NEON or count == 1:
            places = (self.builder.gep(pointer, [ir.IntType(64)(g)]) for g in range(count))
            return [self.spread(self.builder.load(place)) for place in places]
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


def _add_group(emit: _Emitter, measure: type, arguments: Any, thirds: int) -> None:
    """Emit what :func:`_adder` says of its arguments; on NEON wide groups take the lanes of a tile in halves."""
    builder, (_, tiles, v, V, j, listed, row, sums, column) = emit.builder, arguments
    few = group_of(emit.align) // 3
    group = range(thirds * few)
    size = builder.mul(builder.extract_value(tiles.shape, 1), j.type(LANES))
    first = builder.mul(v, size)
    list_of_row = builder.mul(row, builder.extract_value(listed.shape, 1))
    start, end = (builder.load(builder.gep(listed.data, [builder.add(list_of_row, j.type(c))])) for c in range(2))
    places = builder.add(builder.sub(list_of_row, start), j.type(2))

    def lines(k, lane, ahead):
        """Pointers to the k-th feature of each tile, or one so many behind it, from a lane on."""
        place = builder.load(builder.gep(listed.data, [builder.add(builder.add(places, k), k.type(ahead))]))
        place = builder.add(builder.add(place, first), lane)
        return [emit.line(tiles, builder.add(place, builder.mul(size, k.type(t)))) for t in range(BESIDE)]

    width = builder.extract_value(V.shape, 1)
    rows = [builder.gep(V.data, [builder.mul(builder.add(j, j.type(g)), width)]) for g in group[::few]]
    with cgutils.for_range(builder, j.type(LANES // emit.lanes)) as half:
        lane = builder.mul(half.index, j.type(emit.lanes))
        totals = [[emit.zeros() for _ in range(BESIDE)] for g in group]
        with cgutils.for_range_slice(builder, start, end, start.type(1), inc=True) as (k, _):
            x = [emit.load(line) for line in lines(k, lane, 0)]
            for line in lines(k, lane, AHEAD):
                emit_prefetch(builder, line)
            for third in range(thirds):
                numbers = emit.spread_each(builder.gep(rows[third], [builder.mul(k, k.type(few))]), few)
                for z, some in zip(numbers, totals[third * few :], strict=False):
                    for t, total in enumerate(some):
                        builder.store(_emit_term(builder, measure, builder.load(total), x[t], z), total)
        for g in group:
            i = builder.mul(builder.add(j, j.type(g)), builder.extract_value(sums.shape, 1))
            i = builder.add(builder.add(i, column), lane)
            for t, total in enumerate(totals[g]):
                place = emit.line(sums, builder.add(i, i.type(t * LANES)))
                emit.store(builder.fadd(emit.load(place), builder.load(total)), place)


def _adder(thirds: int) -> Any:
    """The intrinsic that holds so many thirds of a group of rows against BESIDE tiles at once, by listed features."""

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

    @emitted(plain, indexes=True)
    def add(typingctx, measure, tiles, v, V, j, listed, row, sums, column):
        """sums[j + g, column:] += Σₖ m(tiles[v] at listed[row, 2 + k − start], V[j + g, k]) for a group of rows g.

        k goes from ``start`` = listed[row, 0] to listed[row, 1]; AHEAD places behind the last are asked for. V has
        thirds of groups, with the shape (third, k, row of it). Of rows behind the last, which are anything, there are
        sums, too. Further tiles beside the first one, up to BESIDE of them, go to the columns that follow.
        """
        _require_c_order(tiles, V, listed, sums)

        def codegen(context, builder, sig, args):
            halves = tiles.dtype.bitwidth // 32 if NEON and thirds == 3 else 1
            emit = _Emitter(context, builder, tiles.dtype, LANES // halves)
            _add_group(emit, measure.instance_class, _opened(context, builder, sig, args), thirds)
            return context.get_dummy_value()

        return types.void(measure, tiles, v, V, j, listed, row, sums, column), codegen

    return add


add_many, add_few = _adder(3), _adder(1)


def _plain_sum_sparse(measure, tile, slot, data, indices, start, end, S, s):
    S[s] = 0
    for p in range(start, end):
        line, z = slot[indices[p]], S.dtype.type(data[p])
        for t in range(S.shape[1]):
            S[s, t] = add_term(measure, S[s, t], tile[line, t], z)


@emitted(_plain_sum_sparse, indexes=True)
def sum_sparse(typingctx, measure, tile, slot, data, indices, start, end, S, s):
    """S[s] ← Σₚ m(tile[slot[indices[p]]], data[p]) for start ≤ p < end, in place."""
    _require_c_order(tile, slot, data, indices, S)
    signature = types.void(measure, tile, slot, data, indices, start, end, S, s)

    def codegen(context, builder, sig, args):
        measure, tile, _, data, *_ = sig.args
        emit = _Emitter(context, builder, tile.dtype, SPARSE_BYTES * 8 // tile.dtype.bitwidth)
        widen = data.dtype != tile.dtype
        _, tile, slot, data, indices, start, end, S, s = _opened(context, builder, sig, args)
        total = emit.zeros()
        with cgutils.for_range_slice(builder, start, end, start.type(1), inc=True) as (p, _):
            feature = builder.load(builder.gep(indices.data, [p]))
            column = builder.load(builder.gep(slot.data, [feature]))
            x = emit.load(emit.row(tile, builder.sext(column, p.type)))
            z = builder.load(builder.gep(data.data, [p]))
            z = emit.spread(builder.fpext(z, emit.element) if widen else z)
            builder.store(_emit_term(builder, measure.instance_class, builder.load(total), x, z), total)
        emit.store(builder.load(total), emit.row(S, s))
        return context.get_dummy_value()

    return signature, codegen
