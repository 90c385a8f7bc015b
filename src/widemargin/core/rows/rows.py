"""Rows of a data matrix: two layouts, dense and CSR, and the primitives by which solvers read a row.

A layout is a NamedTuple of arrays. Solvers' loops use only the primitives below, so that one loop serves both layouts,
float32 and float64, 32-bit and 64-bit indices::

    X = as_rows(matrix)                 # DenseRows or CSRRows, over the caller's memory
    z = row_dot(X, i, V, one)           # ⟨v, xᵢ⟩, in compiled code
    row_add(X, i, g, V)                 # V ← V + xᵢgᵀ

Nothing is copied, except 64-bit indices that fit into 32 bits; read-only memory maps are accepted. No loop writes to a
row, so read-only and writable arrays are passed as one type and share machine code (:func:`unlocked`).

Weights are a C-ordered matrix ``V`` of shape (n_features, n_outputs). The weights of one feature are adjacent, so a row
costs one memory access for each entry, whatever the number of outputs.
"""

import platform
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..borrowing import borrow, flat
from ..compiling.dispatch import compiled, generic, inlined
from ..intrinsics.hints import one_by_one, prefetch

AHEAD = 4  # rows; how long before its use a row is prefetched
NEAR = 2**20  # bytes of weights that the processor's near cache holds: below, entries are not prefetched
#: Bytes of weights above which entries are not prefetched either. x86 has an instruction that gathers entries and is
#: faster without (docs/notes/compiled.md).
FAR = 0 if platform.machine().lower() in ("x86_64", "amd64") else 2**23
ENTRIES_AHEAD = 32  # entries; how long before its use an entry is prefetched
#: Entries of a row below which weights are read one by one: a gathering instruction would wait until the weights that
#: the previous row changed are written.
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


@generic
def n_rows(X):
    """Number of rows."""


@n_rows.case(DenseRows)
def n_rows_dense(X):
    return X.values.shape[0]


@n_rows.case(CSRRows)
def n_rows_csr(X):
    return X.indptr.size - 1


@generic
def row_size(X, i):
    """Number of stored entries of row i."""


@row_size.case(DenseRows)
def row_size_dense(X, i):
    return X.values.shape[1]


@row_size.case(CSRRows)
def row_size_csr(X, i):
    return X.indptr[i + 1] - X.indptr[i]


@generic
def row_entries(X, i):
    """The stored entries of row i."""


@row_entries.case(DenseRows)
def row_entries_dense(X, i):
    return X.values[i]


@row_entries.case(CSRRows)
def row_entries_csr(X, i):
    return X.data[X.indptr[i] : X.indptr[i + 1]]


@inlined
def row_norm2(X, i):
    """Squared Euclidean norm of row i, in float64."""
    row, total = row_entries(X, i), 0.0
    for k in range(row.size):
        total += np.float64(row[k]) * np.float64(row[k])
    return total


@inlined
def add_four(X, p, v, unit, a, b, c, d):
    """The sums a, b, c, d, each plus the product of one of the next four entries, which are read one by one."""
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
def row_dot_dense(X, i, V, unit):
    v = flat(V)
    total = unit - unit
    for j in range(X.values.shape[1]):
        total += unit * X.values[i, j] * v[j]
    return total


@row_dot.case(CSRRows)
def row_dot_csr(X, i, V, unit):
    v = flat(V)
    total = unit - unit
    if NEAR < v.size * v.itemsize <= FAR:
        last = X.indptr[i + 1] - 1
        for p in range(X.indptr[i], X.indptr[i + 1]):
            prefetch(v, X.indices[min(p + ENTRIES_AHEAD, last)])
            total += unit * X.data[p] * v[X.indices[p]]
    elif X.indptr[i + 1] - X.indptr[i] < SHORT_ROW:
        # four sums, because an addition waits for the previous one to the same sum
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
    """⟨u, xᵢ⟩ for U of shape (n_features, 1); 0 if U has no rows."""


@row_along.case(DenseRows)
def row_along_dense(X, i, U):
    u, along = flat(U), U.dtype.type(0)
    for j in range(u.size):
        along += X.values[i, j] * u[j]
    return along


@row_along.case(CSRRows)
def row_along_csr(X, i, U):
    u, along = flat(U), U.dtype.type(0)
    if u.size:
        for p in range(X.indptr[i], X.indptr[i + 1]):
            one_by_one()
            along += X.data[p] * u[X.indices[p]]
    return along


@generic
def is_short(X, i):
    """Whether row i has so few entries that one loop for three sums is faster than three loops."""


@is_short.case(DenseRows)
def is_short_dense(X, i):
    return False


@is_short.case(CSRRows)
def is_short_csr(X, i):
    return X.indptr[i + 1] - X.indptr[i] < SHORT_ROW


@generic
def short_row_dots(X, i, V, U):
    """(⟨v, xᵢ⟩, ⟨u, xᵢ⟩, ‖xᵢ‖²) of a short row in one pass; V and U as in :func:`row_dot` and :func:`row_along`."""


@short_row_dots.case(DenseRows)
def short_row_dots_dense(X, i, V, U):
    return V.dtype.type(0), U.dtype.type(0), 0.0


@short_row_dots.case(CSRRows)
def short_row_dots_csr(X, i, V, U):
    # ⟨v, xᵢ⟩ in four sums as in row_dot, so that both give the same bits
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
def row_scores_dense(X, i, V, z):
    if V.shape[1] == 1:
        z[0] = row_dot(X, i, V, V.dtype.type(1))
    else:
        for c in range(V.shape[1]):
            z[c] = 0.0
        for j in range(X.values.shape[1]):
            for c in range(V.shape[1]):
                z[c] += X.values[i, j] * V[j, c]


@row_scores.case(CSRRows)
def row_scores_csr(X, i, V, z):
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
def row_add_dense(X, i, g, V):
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
def row_add_csr(X, i, g, V):
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
    """Prefetch the row that comes AHEAD positions after position s of ``order``; changes nothing."""


@prefetch_rows.case(DenseRows)
def prefetch_rows_dense(X, order, s, end):
    if s + AHEAD < end:
        values = flat(X.values)
        width = X.values.shape[1]
        start = np.int64(order[s + AHEAD]) * width
        for j in range(0, min(width, 1024), 64 // X.values.itemsize):
            prefetch(values, start + j)


@prefetch_rows.case(CSRRows)
def prefetch_rows_csr(X, order, s, end):
    if s + 2 * AHEAD < end:
        prefetch(X.indptr, order[s + 2 * AHEAD])
    if s + AHEAD < end:
        i = order[s + AHEAD]
        start, end = X.indptr[i], X.indptr[i + 1]
        # no loop for the shortest rows, because the processor would mispredict its end
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
    """Prefetch target and weight of the example AHEAD positions after position p of ``order``; changes nothing."""
    if p + AHEAD < end:
        prefetch(y, order[p + AHEAD])
        if s.size:
            prefetch(s, order[p + AHEAD])


# ---------------------------------------------------------------- checks of users' matrices


def checked_sparse(X: Any, name: str = "X") -> Any:
    """Return X; refuse a sparse matrix with indices out of range, or whose arrays do not fit together.

    SciPy does not check a matrix after it was made, and compiled code, SciPy's and ours, follows every index. Whatever
    takes a sparse matrix from a user therefore calls this first. Cost: two passes over the indices and one over
    ``indptr``.
    """
    if not sp.issparse(X) or X.ndim > 2:
        return X
    if X.format not in ("coo", "csr", "csc", "bsr"):  # lil, dok and dia have no such arrays
        X = X.tocsr()
    if X.format == "coo":
        coords = X.coords if X.ndim == 1 else (X.row, X.col)
        if any(places.shape != X.data.shape for places in coords):
            raise _misfit(name, f"has {' and '.join(str(p.size) for p in coords)} indices and {X.data.size} values")
        for axis, places in enumerate(coords):
            at = _first_outside(name, places, X.shape[axis])
            if at is not None:
                raise _stray(name, X, axis - X.ndim, int(places[at]), f"entry {at}")
    else:
        _check_compressed(name, X)
    return X


def _check_compressed(name: str, X: Any) -> None:
    """Refuse indices out of range, and an ``indptr`` that does not rise from 0 to the number of entries."""
    along = 1 if X.format == "csc" else 0
    block = X.blocksize if X.format == "bsr" else (1, 1)
    size = (1, *X.shape)[-2:]  # a one-dimensional array counts as one row
    lines, width = size[along] // block[along], size[1 - along] // block[1 - along]
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
        raise _stray(name, X, -1 - along, int(indices[at]) * block[1 - along], f"{said} {line}")


def _first_outside(name: str, places: np.ndarray, size: int) -> int | None:
    """The position of the first index outside of 0 … size − 1; None if there is none."""
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
    """A read-only array, kept alive, with an array interface that calls its memory writable."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def unlocked(array: Any) -> Any:
    """The same memory as an array that counts as writable, for compiled loops that only read it.

    Numba has separate types for read-only and for unaligned arrays and would compile every loop again for each. An
    unaligned array, for example one from a network buffer, is copied; its products by NumPy would also differ in the
    last bits. All arrays of rows pass through here.
    """
    if isinstance(array, tuple):
        return type(array)(*(unlocked(part) if isinstance(part, np.ndarray) else part for part in array))
    if not array.flags.aligned:
        return array.copy()
    if array.flags.writeable:
        return array
    return np.asarray(_Unlocked(array)) if array.size else array.copy()


def writable(value: Any) -> Any:
    """The value, with copies of read-only arrays; an array, a tuple with arrays, or anything else."""
    if isinstance(value, tuple):
        parts = map(writable, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value


def _narrow(indices: np.ndarray, largest: int) -> np.ndarray:
    """Indices as int32 where the largest one fits, else as int64."""
    return unlocked(indices.astype(np.int32 if largest < 2**31 else np.int64, copy=False))


def as_rows(X: Any) -> DenseRows | CSRRows:
    """The rows of a matrix, over its own memory if it is canonical, else over one canonical copy.

    Canonical are C-ordered float32 or float64 arrays, and CSR matrices of these dtypes with sorted indices without
    duplicates, of 64 bits only where 32 are too few.
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
        return X.rows(chosen)  # a source or a device: fetch them
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
    """A layout as a NumPy or SciPy matrix over the same memory; another matrix in a form with slices of rows."""
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
