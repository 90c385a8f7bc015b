"""Rows of a data matrix: the two layouts and the few things solvers do with a row.

A layout is a NamedTuple of arrays; the loops of the solvers see only the
primitives below, so that one loop serves dense and CSR data, float32 and
float64, 32-bit and 64-bit indices. The arrays are the caller's own: nothing is
copied but 64-bit indices that fit into 32 bits, and read-only memory maps are
welcome. No loop writes to a row, so that arrays which may be written to and those which
may not are one type here, and share machine code.

Weights are a C-ordered matrix ``V`` of shape (n_features, n_outputs): the
weights of one feature stand together, so a row costs one gather per non-zero
however many outputs share it.
"""

import platform
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .borrowing import borrow, flat
from .dispatch import compiled, generic, inlined

#: How many rows ahead of their use the memory of rows is asked for.
AHEAD = 4
#: Weights of up to NEAR bytes are in a near cache. Up to FAR they are asked for ahead, entry by entry, where machines
#: have no instruction that gathers them; one that has is faster without (docs/notes/compiled.md).
NEAR, FAR = 2**20, 0 if platform.machine().lower() in ("x86_64", "amd64") else 2**23
#: How many entries ahead of their use.
ENTRIES_AHEAD = 32
#: Weights of rows with fewer entries are read one by one: a gathering instruction waits until those that the row before
#: has changed are written.
SHORT_ROW = 0 if FAR else 128


class DenseRows(NamedTuple):
    """A C-ordered matrix of float32 or float64."""

    values: np.ndarray


class CSRRows(NamedTuple):
    """Compressed sparse rows: row i has ``data[p]`` in column ``indices[p]``, ``indptr[i] ≤ p < indptr[i + 1]``."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n_features: int


def emit_prefetch(builder: ir.IRBuilder, pointer: Any) -> None:
    """Emit a request for the cache line at a pointer, which changes nothing and may point anywhere."""
    pointer, i32 = builder.bitcast(pointer, cgutils.voidptr_t), ir.IntType(32)
    function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
    function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    builder.call(function, [pointer, i32(0), i32(3), i32(1)])


@intrinsic
def prefetch(typingctx, array, index):
    """Ask the memory system for the cache line of ``array[index]``; changes nothing."""
    signature = types.void(array, index)

    def codegen(context, builder, sig, args):
        view = context.make_array(sig.args[0])(context, builder, args[0])
        emit_prefetch(builder, builder.gep(view.data, [args[1]]))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def one_by_one(typingctx):
    """Keep the loop that this stands in from becoming vector code; it costs nothing."""

    def codegen(context, builder, signature, args):
        nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "", side_effect=True)
        builder.call(nothing, [])
        return context.get_dummy_value()

    return types.void(), codegen


@generic
def n_rows(X):
    """Number of rows."""


@n_rows.case(DenseRows)
def _(X):
    return X.values.shape[0]


@n_rows.case(CSRRows)
def _(X):
    return X.indptr.size - 1


@generic
def row_size(X, i):
    """Number of stored entries of row i."""


@row_size.case(DenseRows)
def _(X, i):
    return X.values.shape[1]


@row_size.case(CSRRows)
def _(X, i):
    return X.indptr[i + 1] - X.indptr[i]


@generic
def row_norm2(X, i):
    """Squared Euclidean norm of row i, in float64."""


@row_norm2.case(DenseRows)
def _(X, i):
    total = 0.0
    for j in range(X.values.shape[1]):
        total += np.float64(X.values[i, j]) * np.float64(X.values[i, j])
    return total


@row_norm2.case(CSRRows)
def _(X, i):
    total = 0.0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        total += np.float64(X.data[p]) * np.float64(X.data[p])
    return total


@inlined
def add_four(X, p, v, unit, a, b, c, d):
    """Four sums, each with its product of the next four entries of sparse rows, which are read one by one."""
    one_by_one()
    a += unit * X.data[p] * v[X.indices[p]]
    b += unit * X.data[p + 1] * v[X.indices[p + 1]]
    c += unit * X.data[p + 2] * v[X.indices[p + 2]]
    d += unit * X.data[p + 3] * v[X.indices[p + 3]]
    return a, b, c, d


@generic
def row_dot(X, i, V, unit):
    """⟨v, xᵢ⟩ for V of shape (n_features, 1), in the precision of ``unit``, a 1 of some dtype."""


@row_dot.case(DenseRows)
def _(X, i, V, unit):
    v = flat(V)
    total = unit - unit
    for j in range(X.values.shape[1]):
        total += unit * X.values[i, j] * v[j]
    return total


@row_dot.case(CSRRows)
def _(X, i, V, unit):
    v = flat(V)
    total = unit - unit
    if NEAR < v.size * v.itemsize <= FAR:
        last = X.indptr[i + 1] - 1
        for p in range(X.indptr[i], X.indptr[i + 1]):
            prefetch(v, X.indices[min(p + ENTRIES_AHEAD, last)])
            total += unit * X.data[p] * v[X.indices[p]]
    elif X.indptr[i + 1] - X.indptr[i] < SHORT_ROW:
        # four sums, since each addition waits for the one before
        second, third, fourth, p, end = total, total, total, X.indptr[i], X.indptr[i + 1]
        while p + 3 < end:
            total, second, third, fourth = add_four(X, p, v, unit, total, second, third, fourth)
            p += 4
        while p < end:
            one_by_one()
            total += unit * X.data[p] * v[X.indices[p]]
            p += 1
        total = (total + second) + (third + fourth)
    else:
        for p in range(X.indptr[i], X.indptr[i + 1]):
            total += unit * X.data[p] * v[X.indices[p]]
    return total


@generic
def row_along(X, i, U):
    """⟨u, xᵢ⟩ for U of shape (n_features, 1), or of no rows for u = 0."""


@row_along.case(DenseRows)
def _(X, i, U):
    u, along = flat(U), U.dtype.type(0)
    for j in range(u.size):
        along += X.values[i, j] * u[j]
    return along


@row_along.case(CSRRows)
def _(X, i, U):
    u, along = flat(U), U.dtype.type(0)
    if u.size:
        for p in range(X.indptr[i], X.indptr[i + 1]):
            one_by_one()
            along += X.data[p] * u[X.indices[p]]
    return along


@generic
def is_short(X, i):
    """Whether row i has so few entries that three loops over it take longer than one."""


@is_short.case(DenseRows)
def _(X, i):
    return False


@is_short.case(CSRRows)
def _(X, i):
    return X.indptr[i + 1] - X.indptr[i] < SHORT_ROW


@generic
def short_row_dots(X, i, V, U):
    """(⟨v, xᵢ⟩, ⟨u, xᵢ⟩, ‖xᵢ‖²) of a short row in one pass, for V and U of shape (n_features, 1), or U of no rows."""


@short_row_dots.case(DenseRows)
def _(X, i, V, U):
    return V.dtype.type(0), U.dtype.type(0), 0.0


@short_row_dots.case(CSRRows)
def _(X, i, V, U):
    # the first in four sums as in row_dot, so that it has the same bits
    v, u, p, end = flat(V), flat(U), X.indptr[i], X.indptr[i + 1]
    a, b, c, d = V.dtype.type(0), V.dtype.type(0), V.dtype.type(0), V.dtype.type(0)
    along, norm2, other = U.dtype.type(0), 0.0, 0.0
    while p + 3 < end:
        for k in range(0, 4, 2):
            x, z = np.float64(X.data[p + k]), np.float64(X.data[p + k + 1])
            norm2 += x * x
            other += z * z
        if u.size:
            for k in range(4):
                along += X.data[p + k] * u[X.indices[p + k]]
        a, b, c, d = add_four(X, p, v, V.dtype.type(1), a, b, c, d)
        p += 4
    while p < end:
        one_by_one()
        a += X.data[p] * v[X.indices[p]]
        if u.size:
            along += X.data[p] * u[X.indices[p]]
        norm2 += np.float64(X.data[p]) * np.float64(X.data[p])
        p += 1
    return (a + b) + (c + d), along, norm2 + other


@generic
def row_scores(X, i, V, z):
    """z ← Vᵀxᵢ: the inner products of row i with each column of V."""


@row_scores.case(DenseRows)
def _(X, i, V, z):
    if V.shape[1] == 1:
        z[0] = row_dot(X, i, V, V.dtype.type(1))
    else:
        for c in range(V.shape[1]):
            z[c] = 0.0
        for j in range(X.values.shape[1]):
            for c in range(V.shape[1]):
                z[c] += X.values[i, j] * V[j, c]


@row_scores.case(CSRRows)
def _(X, i, V, z):
    if V.shape[1] == 1:
        z[0] = row_dot(X, i, V, V.dtype.type(1))
    else:
        for c in range(V.shape[1]):
            z[c] = 0.0
        for p in range(X.indptr[i], X.indptr[i + 1]):
            x = X.data[p]
            j = X.indices[p]
            for c in range(V.shape[1]):
                z[c] += x * V[j, c]


@generic
def row_add(X, i, g, V):
    """V ← V + xᵢgᵀ, in place."""


@row_add.case(DenseRows)
def _(X, i, g, V):
    d = X.values.shape[1]
    if V.shape[1] == 1:
        v = flat(V)
        step = V.dtype.type(g[0])
        for j in range(d):
            v[j] += step * X.values[i, j]
    else:
        for j in range(d):
            for c in range(V.shape[1]):
                V[j, c] += X.values[i, j] * g[c]


@row_add.case(CSRRows)
def _(X, i, g, V):
    if V.shape[1] == 1:
        v = flat(V)
        step = V.dtype.type(g[0])
        for p in range(X.indptr[i], X.indptr[i + 1]):
            v[X.indices[p]] += step * X.data[p]
    else:
        for p in range(X.indptr[i], X.indptr[i + 1]):
            x = X.data[p]
            j = X.indices[p]
            for c in range(V.shape[1]):
                V[j, c] += x * g[c]


@generic
def prefetch_rows(X, order, s, end):
    """Ask for the memory of the row that stands a few places after place s of ``order``; changes nothing."""


@prefetch_rows.case(DenseRows)
def _(X, order, s, end):
    if s + AHEAD < end:
        values = flat(X.values)
        width = X.values.shape[1]
        start = np.int64(order[s + AHEAD]) * width
        for j in range(0, min(width, 1024), 64 // X.values.itemsize):
            prefetch(values, start + j)


@prefetch_rows.case(CSRRows)
def _(X, order, s, end):
    if s + 2 * AHEAD < end:
        prefetch(X.indptr, order[s + 2 * AHEAD])
    if s + AHEAD < end:
        i = order[s + AHEAD]
        start, end = X.indptr[i], X.indptr[i + 1]
        # without a loop for the shortest rows: its end would be guessed wrongly
        prefetch(X.data, start)
        prefetch(X.data, start + 8)
        prefetch(X.indices, start)
        prefetch(X.indices, start + 8)
        if end - start > 16:
            for p in range(start + 16, min(end, start + 64), 16):
                prefetch(X.data, p)
                prefetch(X.data, p + 8)
                prefetch(X.indices, p)


@inlined
def touch(y, s, order, p, end):
    """Ask for the target and weight of the example a few places after place p of ``order``; changes nothing."""
    if p + AHEAD < end:
        prefetch(y, order[p + AHEAD])
        if s.size:
            prefetch(s, order[p + AHEAD])


# ---------------------------------------------------------------- at the door


def checked_sparse(X: Any, name: str = "X") -> Any:
    """X; refuses a sparse matrix that names rows or columns it does not have, or whose arrays do not fit together.

    SciPy checks none of this once a matrix is made, and compiled code, SciPy's as ours, follows every index. So all
    that takes a sparse matrix of a user calls this first. Two passes over the indices and one over ``indptr``.
    """
    if not sp.issparse(X) or X.ndim != 2:
        return X
    if X.format == "lil":  # lists, which have no such arrays
        X = X.tocsr()
    if X.format == "coo":
        if not X.row.shape == X.col.shape == X.data.shape:
            raise _misfit(name, f"has {X.row.size} rows, {X.col.size} columns and {X.data.size} values")
        for axis, places in enumerate((X.row, X.col)):
            at = _first_outside(name, places, X.shape[axis])
            if at is not None:
                raise _stray(name, X, axis, int(places[at]), f"entry {at}")
    elif X.format in ("csr", "csc", "bsr"):
        _check_compressed(name, X)
    return X


def _check_compressed(name: str, X: Any) -> None:
    """Refuse indices outside of the matrix, and an ``indptr`` that does not rise from 0 to their number."""
    along = 1 if X.format == "csc" else 0
    block = X.blocksize if X.format == "bsr" else (1, 1)
    lines, width = X.shape[along] // block[along], X.shape[1 - along] // block[1 - along]
    data, indices, indptr = X.data, X.indices, X.indptr
    if indices.ndim != 1 or len(data) != indices.size or data.ndim != (3 if X.format == "bsr" else 1):
        raise _misfit(name, f"has data of shape {data.shape} and indices of shape {indices.shape}")
    if indptr.shape != (lines + 1,) or indptr.dtype.kind not in "iu":
        raise _misfit(name, f"needs an indptr of {lines + 1} whole numbers, and has {indptr.size} of {indptr.dtype}")
    if indptr[0] != 0 or indptr[-1] > indices.size or (indptr[1:] < indptr[:-1]).any():
        raise _misfit(name, f"has an indptr that does not rise from 0 to {indices.size}, the number of its entries")
    at = _first_outside(name, indices[: indptr[-1]], width)
    if at is not None:
        line = int(np.searchsorted(indptr, at, side="right")) - 1
        said = "block of rows" if X.format == "bsr" else "row" if along == 0 else "column"
        raise _stray(name, X, 1 - along, int(indices[at]) * block[1 - along], f"{said} {line}")


def _first_outside(name: str, places: np.ndarray, size: int) -> int | None:
    """Where the first place stands that is not within 0 to size − 1; None if there is none."""
    if places.dtype.kind not in "iu":
        raise _misfit(name, f"has indices of {places.dtype}, which are no whole numbers")
    if not places.size or (places.min() >= 0 and places.max() < size):
        return None
    return int(np.argmax((places < 0) | (places >= size)))


def _stray(name: str, X: Any, axis: int, place: int, who: str) -> ValueError:
    what, size = ("row", "column")[axis], X.shape[axis]
    has = f"{size} {what}s (0..{size - 1})" if size else f"no {what}s"
    return ValueError(f"{who} names {what} {place}, but {name} has {has}: mend its indices, or give it another shape")


def _misfit(name: str, said: str) -> ValueError:
    return ValueError(f"{name} {said}: its arrays were changed after it was made, so make it anew")


class _Unlocked:
    """The memory of a read-only array, kept alive, as NumPy takes it for one that may be written to."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def unlocked(array: Any) -> Any:
    """The same memory as an array that counts as writable, for compiled loops that only read it; a copy where its
    numbers begin between two places for them, as in what comes over a network. Rows have all their arrays so.

    Numba has other types for read-only arrays and for such ones, and compiles every loop again for them; NumPy's
    products of such ones differ in the last bits.
    """
    if isinstance(array, tuple):
        return type(array)(*(unlocked(part) if isinstance(part, np.ndarray) else part for part in array))
    if not array.flags.aligned:
        return array.copy()
    if array.flags.writeable:
        return array
    return np.asarray(_Unlocked(array)) if array.size else array.copy()


def writable(value: Any) -> Any:
    """The same with arrays that can be written to, copies of those that cannot: an array, a tuple of them, or other."""
    if isinstance(value, tuple):
        parts = map(writable, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value


def _narrow(indices: np.ndarray, largest: int) -> np.ndarray:
    """Indices of 32 bits where the largest fits, else of 64."""
    return unlocked(indices.astype(np.int32 if largest < 2**31 else np.int64, copy=False))


def as_rows(X: Any) -> DenseRows | CSRRows:
    """Wrap a matrix that is already canonical, or bring it into a canonical form with one copy.

    Canonical is: C-ordered float32 or float64, or CSR with sorted, summed
    indices, of 64 bits only where 32 do not do.
    """
    if sp.issparse(X):
        X = X.tocsr()
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return CSRRows(unlocked(X.data), _narrow(X.indices, X.shape[1]), _narrow(X.indptr, X.data.size), X.shape[1])
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return DenseRows(unlocked(np.ascontiguousarray(X, dtype=dtype)))


def shape(X: Any) -> tuple[int, int]:
    """(number of rows, number of features)."""
    if isinstance(X, CSRRows):
        return X.indptr.size - 1, int(X.n_features)
    return X.values.shape if isinstance(X, DenseRows) else X.shape


def dtype_of(X: Any) -> np.dtype:
    """The dtype of the entries, float32 or float64."""
    return X.data.dtype if isinstance(X, CSRRows) else X.values.dtype if isinstance(X, DenseRows) else X.dtype


def take_rows(X: Any, chosen: np.ndarray) -> DenseRows | CSRRows:
    """A copy of the chosen rows, in their order."""
    if isinstance(X, DenseRows):
        return DenseRows(np.ascontiguousarray(X.values[chosen]))
    if not isinstance(X, CSRRows):
        return X.rows(chosen)  # they are fetched
    if X.indices.dtype == X.indptr.dtype == np.int32:
        found = as_matrix(X)[chosen]
        return CSRRows(found.data, found.indices, found.indptr, X.n_features)
    # by hand: SciPy would copy all 64-bit indices to 32 bits first
    sizes = np.diff(X.indptr)[chosen]
    indptr = np.zeros(chosen.size + 1, X.indptr.dtype)
    np.cumsum(sizes, out=indptr[1:])
    places = np.arange(indptr[-1]) + np.repeat(X.indptr[chosen] - indptr[:-1], sizes)
    return CSRRows(X.data[places], X.indices[places], indptr, X.n_features)


def some_rows(X: Any, first: int, last: int) -> Any:
    """The rows from first to last, over the same memory."""
    if isinstance(X, DenseRows):
        return DenseRows(X.values[first:last])
    return CSRRows(X.data, X.indices, X.indptr[first : last + 1], X.n_features)


def as_matrix(X: Any) -> Any:
    """A layout as a NumPy or SciPy matrix over the same memory; any other matrix is itself, made sliceable by rows."""
    if isinstance(X, DenseRows):
        return X.values
    if isinstance(X, CSRRows):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=shape(X), copy=False)
    if sp.issparse(X):
        return X if X.format in ("csr", "csc") else X.tocsr()
    return X if hasattr(X, "shape") else np.asarray(X)


@compiled
def row_norms2(X, out):
    """out[i] ← ‖xᵢ‖²."""
    X, out = borrow(X), borrow(out)
    for i in range(out.size):
        out[i] = row_norm2(X, i)
