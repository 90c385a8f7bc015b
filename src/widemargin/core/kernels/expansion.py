"""The vectors z_j of a kernel model W = Σ_j Φ(z_j) α_jᵀ that come and go, with their coefficients α_j.

``Z`` (rows × capacity) holds a vector in each column and a feature in each row, so that loops over vectors become
vector instructions. Kernel values of one row x with all vectors need one sum for each vector. For each feature k

    sums[j] ← sums[j] + m(x_k, Z[k, j])        (all j; about sixteen in a register)

with a measure m of :mod:`.measures`; then :func:`widemargin.core.kernels.kernels.finish` maps sums to kernel values.
Columns after the last vector are zero, so that loops run over whole registers (:func:`padded`). Cost: features ×
vectors for a dense row, entries × vectors for a sparse one.

Dense data. Row k of Z is feature k. A centre is subtracted in float64 before a vector is rounded to the precision of Z.
:func:`recentre` moves the centre if the vectors turn out to lie far from it.

Sparse data. A sum starts from the vector's size, ‖z‖² or ‖z‖₁, and each entry of the row adds the difference to it:

    SquaredBeyond    (x − z)² − z²
    AbsoluteBeyond   |x − z| − |z|

Only features of some vector have a row of Z: feature k has row slot[k]. Row 0 is zero and stands for all other
features. A row is given out when the first vector with that feature comes and becomes free when the last one goes, so
memory depends on the vectors and not on the number of features. For example, three text documents with 100 words each
need at most 301 rows, however many words there are. Free rows are zero, and no result depends on their number.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..borrowing import borrow, flat
from ..compiling.dispatch import apart, compiled, generic, inlined
from ..intrinsics.hints import use_wide_registers
from ..rows.rows import CSRRows, DenseRows, as_rows, row_size
from .kernels import finish
from .measures import Absolute, Inner, Squared, alone, term
from .tiles import AHEAD, BESIDE, CHUNK, DEPTH, LANES, accumulate, group_of, list_features

TILES = 8  # tiles of rows that are scored together, so that a vector is read once for all of them
FIRST_ROWS = 1024  # rows of Z for sparse vectors at first, unless there are fewer features
FAR = 100.0  # ratio of the distance from the centre to the spread at which vectors are centred anew
TIED = 16  # units in the last place; closer ‖α_j‖² k(z_j, z_j) are ties (equal Pegasos steps differ by at most 12)


class Metric(NamedTuple):
    """How rows are compared with vectors: the kernel, its measure, and the measure less the vector's size."""

    kernel: Any
    measure: Any
    beyond: Any


class Vectors(NamedTuple):
    """Vectors in columns 0 … count − 1 of Z; later columns are zero.

    ``size``: ‖z‖², or ‖z‖₁ for the Laplacian kernel. Dense data: ``centre``. Sparse data: ``slot``, the row of Z of
    each feature; ``feature`` of each row of Z; ``held``, the number of vectors that are not zero in a row; ``free``, a
    stack of free rows. ``rows`` has two numbers: the rows ever given out, and how many of these are free.
    """

    Z: np.ndarray
    size: np.ndarray
    centre: np.ndarray
    slot: np.ndarray
    feature: np.ndarray
    held: np.ndarray
    free: np.ndarray
    rows: np.ndarray


class Expansion(NamedTuple):
    """Vectors with their coefficients; entries after the last vector are zero.

    ``A`` (outputs × capacity): coefficients, without the scale that a solver may keep for all; ``norm2``:
    ‖α_j‖² k(z_j, z_j); ``age``: the number of the update that added the vector.
    """

    vectors: Vectors
    A: np.ndarray
    norm2: np.ndarray
    age: np.ndarray


def whole_rows(n: int) -> int:
    """Rows of Z for n features: a multiple of four, because sums take four features at a time."""
    return -(-n // 4) * 4


def no_vectors(d: int, capacity: int, dtype: Any, sparse: bool) -> Vectors:
    """A buffer without vectors, for d features."""
    rows, mapped = (whole_rows(min(d + 1, FIRST_ROWS)), d) if sparse else (d, 0)
    per_row = rows if sparse else 0
    return Vectors(
        np.zeros((rows, capacity), dtype), np.zeros(capacity, dtype), np.zeros(d - mapped), np.zeros(mapped, np.int32),
        np.zeros(per_row, np.int32), np.zeros(per_row, np.int32), np.zeros(per_row, np.int32),
        np.array([1 if sparse else d, 0]),
    )  # fmt: skip


def enlarged(array: np.ndarray, *shape: int) -> np.ndarray:
    """A copy with this shape; new entries, at the end of each axis, are zero."""
    return np.pad(array, [(0, size - old) for size, old in zip(shape, array.shape, strict=True)])


def with_rows(vectors: Vectors, rows: int) -> Vectors:
    """The same vectors, sparse ones, with more rows."""
    arrays = {name: getattr(vectors, name) for name in ("Z", "feature", "held", "free")}
    return vectors._replace(**{name: enlarged(array, rows, *array.shape[1:]) for name, array in arrays.items()})


def with_columns(vectors: Vectors, capacity: int) -> Vectors:
    """The same vectors with room for more."""
    Z, size = vectors.Z, vectors.size
    return vectors._replace(Z=enlarged(Z, len(Z), capacity), size=enlarged(size, capacity))


def is_sparse(vectors: Vectors) -> bool:
    """Whether the vectors are those of sparse data."""
    return vectors.slot.size > 0


def n_features(vectors: Vectors) -> int:
    """Number of features of the data."""
    return vectors.slot.size if is_sparse(vectors) else vectors.Z.shape[0]


def rows_in_use(vectors: Vectors) -> int:
    """Rows of Z that are not free."""
    return int(vectors.rows[0] - vectors.rows[1])


def as_data(vectors: Vectors, count: int, dtype: Any) -> DenseRows | CSRRows:
    """The vectors as rows in the layout of the data, with the centre added back."""
    V = vectors.Z[:, :count].T
    if not is_sparse(vectors):
        return DenseRows(np.ascontiguousarray(V + vectors.centre, dtype))
    compact = sp.csr_matrix(V)
    entries = compact.data.astype(dtype), vectors.feature[compact.indices], compact.indptr
    return as_rows(sp.csr_matrix(entries, (count, vectors.slot.size)))


def recentre(kernel: Any, vectors: Vectors, count: int) -> None:
    """Move the centre to the median of the vectors, in place, if it is far from them compared with their spread."""
    if is_sparse(vectors) or not kernel.of_distances or count < 3:
        return
    V = vectors.Z[:, :count].astype(np.float64)
    middle = np.median(V, axis=1, keepdims=True)
    rest = V - middle
    if np.sum(middle**2) > FAR**2 * np.median(np.sum(rest**2, axis=0)):
        vectors.centre[:] += middle[:, 0]
        vectors.Z[:, :count] = rest
        vectors.size[:count] = np.sum(np.abs(rest) if kernel.measure is Absolute else rest**2, axis=0)


# ---------------------------------------------------------------- measures


class SquaredBeyond(NamedTuple):
    """(x − z)² − z², which is 0 where x is: summed over the entries of x and added to ‖z‖²."""


class AbsoluteBeyond(NamedTuple):
    """|x − z| − |z|, which is 0 where x is: summed over the entries of x and added to ‖z‖₁."""


BEYOND: dict[Any, Any] = {Squared: SquaredBeyond, Absolute: AbsoluteBeyond, Inner: Inner}


def metric_of(kernel: Any) -> Metric:
    """How a kernel compares rows with vectors."""
    return Metric(kernel, kernel.measure(), BEYOND[kernel.measure]())


@term.case(SquaredBeyond)
def term_squared_beyond(measure, x, z):
    return x * (x - (z + z))


@term.case(AbsoluteBeyond)
def term_absolute_beyond(measure, x, z):
    return abs(x - z) - abs(z)


@generic
def base(measure, size):
    """The value at which the sum over a sparse row starts, for a vector of this size."""


@base.case(SquaredBeyond, AbsoluteBeyond)
def base_beyond(measure, size):
    return size


@base.case(Inner)
def base_inner(measure, size):
    return 0.0 * size


@generic
def own_sum(measure, size):
    """The measure of a vector with itself, from its size."""


@own_sum.case(Squared, Absolute)
def own_sum_distance(measure, size):
    return 0.0


@own_sum.case(Inner)
def own_sum_inner(measure, size):
    return size


@inlined
def add_terms(measure, a, b, c, d, za, zb, zc, zd, sums):
    """sums[j] += the terms of four features, so that sums are read and written once for all four."""
    for j in range(sums.size):
        sums[j] += (term(measure, a, za[j]) + term(measure, b, zb[j])) + (
            term(measure, c, zc[j]) + term(measure, d, zd[j])
        )


@inlined
def vector_sums(measure, x, Z, m, sums):
    """sums[j] ← the measure of a vector x and column j of Z, j < m."""
    d, sums = x.size, sums[:m]
    for j in range(m):
        sums[j] = 0
    k = 0
    while k + 4 <= d:
        add_terms(measure, x[k], x[k + 1], x[k + 2], x[k + 3], Z[k], Z[k + 1], Z[k + 2], Z[k + 3], sums)
        k += 4
    while k < d:
        a, za = x[k], Z[k]
        for j in range(m):
            sums[j] += term(measure, a, za[j])
        k += 1


@generic
def gather(X, i, measure, vectors, x):
    """x ← row i as a column of Z; returns the size of the row, features without a row of Z included."""


@gather.case(DenseRows)
def gather_dense(X, i, measure, vectors, x):
    row, centre, own = X.values[i], vectors.centre, 0.0
    for k in range(x.size):
        x[k] = row[k] - centre[k]
        own += alone(measure, np.float64(x[k]))
    return own


@gather.case(CSRRows)
def gather_csr(X, i, measure, vectors, x):
    own = 0.0
    for k in range(x.size):
        x[k] = 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        x[vectors.slot[X.indices[p]]] = X.data[p]
        own += alone(measure, np.float64(x.dtype.type(X.data[p])))
    x[0] = 0
    return own


@generic
def row_sums(X, i, metric, vectors, m, x, sums):
    """sums[j] ← the measure of row i and vector j < m; returns the size of the row. x is working memory."""


@row_sums.case(DenseRows)
def row_sums_dense(X, i, metric, vectors, m, x, sums):
    own = gather(X, i, metric.measure, vectors, x)
    vector_sums(metric.measure, x, vectors.Z, m, sums)
    return own


@row_sums.case(CSRRows)
def row_sums_csr(X, i, metric, vectors, m, x, sums):
    Z, slot, size, number, beyond = vectors.Z, vectors.slot, vectors.size, x.dtype.type, metric.beyond
    start, end, sums = X.indptr[i], X.indptr[i + 1], sums[:m]
    own = 0.0
    for p in range(start, end):
        own += alone(metric.measure, np.float64(number(X.data[p])))
    for j in range(m):
        sums[j] = base(beyond, size[j])
    p = start
    while p + 4 <= end:
        a, b, c, d = X.data[p], X.data[p + 1], X.data[p + 2], X.data[p + 3]
        add_terms(
            beyond, number(a), number(b), number(c), number(d), Z[slot[X.indices[p]]], Z[slot[X.indices[p + 1]]],
            Z[slot[X.indices[p + 2]]], Z[slot[X.indices[p + 3]]], sums,
        )  # fmt: skip
        p += 4
    while p < end:
        a, za = number(X.data[p]), Z[slot[X.indices[p]]]
        for j in range(m):
            sums[j] += term(beyond, a, za[j])
        p += 1
    return own


# ---------------------------------------------------------------- vectors that come and go


@inlined
def lacks(X, i, vectors):
    """How many rows of Z are missing to store row i, which is sparse; 0 if it fits."""
    room, new = vectors.Z.shape[0] - vectors.rows[0] + vectors.rows[1], 0
    if room >= row_size(X, i):
        return 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        new += vectors.slot[X.indices[p]] == 0
    return max(new - room, 0)


@generic
def wants_rows(X, order, first, count, vectors, most):
    """Whether Z may need more rows, up to ``most``, for the ``count`` examples from order[first] on."""


@wants_rows.case(DenseRows)
def wants_rows_dense(X, order, first, count, vectors, most):
    return False


@wants_rows.case(CSRRows)
def wants_rows_csr(X, order, first, count, vectors, most):
    room, entries = vectors.Z.shape[0] - vectors.rows[0] + vectors.rows[1], 0
    if vectors.Z.shape[0] >= most:
        return False
    for r in range(count):
        entries += row_size(X, order[first + r])
    return room < entries


@generic
def write_row(X, i, x, vectors, j):
    """Column j, which is zero, ← row i; a dense row is given centred, as x."""


@write_row.case(DenseRows)
def write_row_dense(X, i, x, vectors, j):
    for k in range(x.size):
        vectors.Z[k, j] = x[k]


@write_row.case(CSRRows)
def write_row_csr(X, i, x, vectors, j):
    Z, slot, rows = vectors.Z, vectors.slot, vectors.rows
    for p in range(X.indptr[i], X.indptr[i + 1]):
        value, feature = Z.dtype.type(X.data[p]), X.indices[p]
        if value == 0:
            continue
        if slot[feature] == 0:
            if rows[1] > 0:
                rows[1] -= 1
                slot[feature] = vectors.free[rows[1]]
            else:
                slot[feature] = rows[0]
                rows[0] += 1
            vectors.feature[slot[feature]] = feature
        vectors.held[slot[feature]] += 1
        Z[slot[feature], j] = value


@inlined
def let_go(vectors, k):
    """Count one vector less in row k, in place; a row without vectors becomes free."""
    vectors.held[k] -= 1
    if vectors.held[k] == 0:
        vectors.slot[vectors.feature[k]] = 0
        vectors.free[vectors.rows[1]] = k
        vectors.rows[1] += 1


@inlined
def write_column(vectors, z, j):
    """Column j ← z, whose features all have rows."""
    Z = vectors.Z
    if vectors.slot.size:
        for k in range(z.size):
            if z[k] != 0 and Z[k, j] == 0:
                vectors.held[k] += 1
            elif z[k] == 0 and Z[k, j] != 0:
                let_go(vectors, k)
    for k in range(z.size):
        Z[k, j] = z[k]


@inlined
def drop_column(vectors, j, last):
    """Remove vector j, in place: the last vector moves to its column, and the last column becomes zero."""
    Z = vectors.Z
    if vectors.slot.size:
        for k in range(Z.shape[0]):
            if Z[k, j] != 0:
                let_go(vectors, k)
    for k in range(Z.shape[0]):
        Z[k, j] = Z[k, last]
        Z[k, last] = 0
    vectors.size[j] = vectors.size[last]
    vectors.size[last] = 0


@inlined
def drop_term(expansion, j, last):
    """Remove vector j with its coefficients, in place: the last vector moves to its column."""
    A = expansion.A
    drop_column(expansion.vectors, j, last)
    for c in range(A.shape[0]):
        A[c, j] = A[c, last]
        A[c, last] = 0
    expansion.norm2[j], expansion.age[j] = expansion.norm2[last], expansion.age[last]
    expansion.norm2[last], expansion.age[last] = 0, 0


@apart
def least(values, count):
    """The index of the smallest entry; of equal ones the first."""
    best, place = values[0], 0
    for j in range(1, count):
        if values[j] < best:
            best, place = values[j], j
    return place


@compiled
def smallest(expansion, count):
    """The index of the vector with the smallest ‖α_j‖² k(z_j, z_j); of those equal up to rounding the oldest."""
    norm2, age = expansion.norm2, expansion.age
    place = least(norm2, count)
    most = norm2[place] * (1.0 + TIED * (2.0**-52 if norm2.itemsize == 8 else 2.0**-23))
    for j in range(count):
        if norm2[j] <= most and age[j] < age[place]:
            place = j
    return place


@inlined
def size2(A, j):
    """The squared norm ‖α_j‖² of the coefficients of vector j."""
    total = 0.0
    for c in range(A.shape[0]):
        total += np.float64(A[c, j]) * np.float64(A[c, j])
    return total


@inlined
def correlation(A, j, k, m):
    """⟨W, Φ(z_j)α_jᵀ⟩ without the common scale; k is the kernel row of vector j."""
    total = 0.0
    for c in range(A.shape[0]):
        row, f = A[c], A.dtype.type(0)
        for i in range(m):
            f += row[i] * k[i]
        total += np.float64(A[c, j]) * np.float64(f)
    return total


@inlined
def padded(count):
    """``count`` rounded up to whole registers."""
    return (count + LANES - 1) // LANES * LANES


@generic
def from_product(measure, own, size, product):
    """The measure of two vectors from their sizes and their inner product."""


@from_product.case(Squared)
def from_product_squared(measure, own, size, product):
    return own + size - (product + product)


@from_product.case(Inner)
def from_product_inner(measure, own, size, product):
    return product


# ---------------------------------------------------------------- scores of rows


@generic
def score(X, metric, V, expansion, count, scale, out):
    """out[i] ← the scores of row i; no row depends on the others."""


@score.case(CSRRows)
def score_csr(X, metric, V, expansion, count, scale, out):
    """Row by row, as in training."""
    X, vectors, A, out, m = borrow(X), borrow(expansion.vectors), borrow(expansion.A), borrow(out), padded(count)
    x, sums, k = np.empty(0, A.dtype), np.empty(m, A.dtype), np.empty(m, A.dtype)
    for i in range(out.shape[0]):
        row_sums(X, i, metric, vectors, m, x, sums)
        finish(metric.kernel, sums, m, k)
        for c in range(A.shape[0]):
            row, f = A[c], A.dtype.type(0)
            for j in range(m):
                f += row[j] * k[j]
            out[i, c] = scale * f


@score.case(DenseRows)
def score_dense(X, metric, V, expansion, count, scale, out):
    """Tiles of rows (see :mod:`.tiles`) against the vectors as rows V; the last tile repeats the last row.

    Where squared distances come from inner products, V has two more columns: (−2z, 1, ‖z‖²)·(x, ‖x‖², 1) = ‖x − z‖².
    """
    V, A, X, centre, out = borrow(V), borrow(expansion.A), borrow(X), borrow(expansion.vectors.centre), borrow(out)
    d, width = centre.size, V.shape[1]
    few, side = group_of(A.itemsize) // 3, BESIDE * LANES
    groups, listed = in_groups(V, few), np.empty((-(-width // DEPTH), 2 + DEPTH + AHEAD), np.int64)
    list_features(np.ones(width), 0, listed)
    tiles, total = np.ones((TILES, width, LANES), A.dtype), np.empty((TILES // BESIDE, A.shape[0], side), A.dtype)
    S, K = np.empty((CHUNK + 3 * few, side), A.dtype), np.empty((CHUNK, side), A.dtype)
    sums, k = flat(S), flat(K)
    for first in range(0, out.shape[0], TILES * LANES):
        used = min(TILES, (out.shape[0] - first + LANES - 1) // LANES)
        for r in range(used * LANES):
            row, tile, t, norm2 = X.values[min(first + r, out.shape[0] - 1)], tiles[r // LANES], r % LANES, 0.0
            for q in range(d):
                tile[q, t] = row[q] - centre[q]
                norm2 += np.float64(tile[q, t]) * np.float64(tile[q, t])
            if width > d:
                tile[d, t] = norm2
        total[:] = 0
        for a in range(0, count, CHUNK):
            b = min(a + CHUNK, count)
            for u in range(0, used, BESIDE):  # the last one may have a tile beside it that is not used
                accumulate(metric.measure, tiles, u, u + BESIDE, groups[a // few :], b - a, listed, 0, S)
                finish(metric.kernel, sums, (b - a) * side, k)
                weigh(A, a, b, K, total[u // BESIDE])
        for r in range(min(used * LANES, out.shape[0] - first)):
            for c in range(A.shape[0]):
                out[first + r, c] = scale * total[r // side, c, r % side]


@inlined
def in_groups(V, few):
    """The rows of V as thirds of groups, for :func:`.tiles.accumulate`."""
    groups = np.zeros((-(-V.shape[0] // (3 * few)) * 3, V.shape[1], few), V.dtype)
    for j in range(V.shape[0]):
        for k in range(V.shape[1]):
            groups[j // few, k, j % few] = V[j, k]
    return groups


@inlined
def weigh(A, a, b, K, total):
    """total[c, t] += Σ_j A[c, j] K[j − a, t] for a ≤ j < b."""
    for c in range(A.shape[0]):
        row, sums = A[c], total[c]
        j = a
        while j + 4 <= b:
            p, q, r, s = row[j], row[j + 1], row[j + 2], row[j + 3]
            kp, kq, kr, ks = K[j - a], K[j - a + 1], K[j - a + 2], K[j - a + 3]
            for t in range(K.shape[1]):
                sums[t] += (p * kp[t] + q * kq[t]) + (r * kr[t] + s * ks[t])
            j += 4
        while j < b:
            p, kp = row[j], K[j - a]
            for t in range(K.shape[1]):
                sums[t] += p * kp[t]
            j += 1


@compiled
def score_rows(X, metric, V, expansion, count, scale, out):
    """:func:`score`, for Python."""
    use_wide_registers()
    score(X, metric, V, expansion, count, scale, out)
