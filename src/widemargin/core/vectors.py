"""Vectors kept feature by feature, so that every loop over vectors is vector code.

``Z`` (features × capacity) holds a vector in each column. Row i of the data, less a centre, is compared with all of
them at once: for one feature after the other

    sums[j] ← sums[j] + m(x_k, Z[k, j])        (all j; sixteen or so in a register)

with the measures of :mod:`.kernels`; sparse rows start from the size of the vector, ‖z‖² or ‖z‖₁, and add only what
their own entries change:

    SquaredBeyond    (x − z)² − z²
    AbsoluteBeyond   |x − z| − |z|

:func:`.kernels.finish` maps sums to kernel values. Columns behind the last vector are zero, so loops run over whole
registers (:func:`padded`).
"""

from typing import Any, NamedTuple

import numpy as np

from .dispatch import borrow, compiled, flat, generic, use_wide_registers
from .kernels import CHUNK, LANES, RBF, Absolute, Inner, Laplacian, Squared, accumulate, finish
from .rows import CSRRows, DenseRows, borrowed

#: Tiles of rows scored together, which share the reading of vectors.
TILES = 8


class SquaredBeyond(NamedTuple):
    """(x − z)² − z²: only features with x ≠ 0 count, on top of ‖z‖²."""


class AbsoluteBeyond(NamedTuple):
    """|x − z| − |z|."""


def measures(kernel: Any) -> tuple[Any, Any]:
    """The measure of a kernel, and the same beyond the size of the vector, for sparse rows."""
    if isinstance(kernel, RBF):
        return Squared(), SquaredBeyond()
    if isinstance(kernel, Laplacian):
        return Absolute(), AbsoluteBeyond()
    return Inner(), Inner()


@generic
def term(measure, x, z):
    """The measure of one feature."""


@term.case(Squared)
def _(measure, x, z):
    return (x - z) * (x - z)


@term.case(SquaredBeyond)
def _(measure, x, z):
    return x * (x - (z + z))


@term.case(Absolute)
def _(measure, x, z):
    return abs(x - z)


@term.case(AbsoluteBeyond)
def _(measure, x, z):
    return abs(x - z) - abs(z)


@term.case(Inner)
def _(measure, x, z):
    return x * z


@generic
def alone(measure, x):
    """What one feature adds to the size of a vector."""


for _square in (Squared, SquaredBeyond, Inner):

    @alone.case(_square)
    def _(measure, x):
        return x * x


for _absolute in (Absolute, AbsoluteBeyond):

    @alone.case(_absolute)
    def _(measure, x):
        return abs(x)


@generic
def base(measure, size):
    """What the sum over a sparse row starts with, for a vector of this size."""


for _beyond in (SquaredBeyond, AbsoluteBeyond):

    @base.case(_beyond)
    def _(measure, size):
        return size


@base.case(Inner)
def _(measure, size):
    return 0.0 * size


@generic
def own_sum(measure, size):
    """The measure of a vector with itself, from its size."""


for _distance in (Squared, Absolute):

    @own_sum.case(_distance)
    def _(measure, size):
        return 0.0


@own_sum.case(Inner)
def _(measure, size):
    return size


@compiled
def add_terms(measure, a, b, c, d, za, zb, zc, zd, m, sums):
    """sums[j] += the measures of four features, in place: one pass over the sums for four features."""
    for j in range(m):
        sums[j] += (term(measure, a, za[j]) + term(measure, b, zb[j])) + (
            term(measure, c, zc[j]) + term(measure, d, zd[j])
        )


@compiled
def vector_sums(measure, x, Z, m, sums):
    """sums[j] ← the measure of a vector x and column j of Z, j < m, in place."""
    d = x.size
    for j in range(m):
        sums[j] = 0
    k = 0
    while k + 4 <= d:
        add_terms(measure, x[k], x[k + 1], x[k + 2], x[k + 3], Z[k], Z[k + 1], Z[k + 2], Z[k + 3], m, sums)
        k += 4
    while k < d:
        a, za = x[k], Z[k]
        for j in range(m):
            sums[j] += term(measure, a, za[j])
        k += 1


@generic
def row_sums(X, i, centre, measure, beyond, Z, size, m, x, sums):
    """sums[j] ← the measure of row i (less the centre) and column j of Z, j < m; x ← the row; returns its size."""


@row_sums.case(DenseRows)
def _(X, i, centre, measure, beyond, Z, size, m, x, sums):
    row = X.values[i]
    own = 0.0
    for k in range(x.size):
        x[k] = row[k] - centre[k]
        own += alone(measure, np.float64(x[k]))
    vector_sums(measure, x, Z, m, sums)
    return own


@row_sums.case(CSRRows)
def _(X, i, centre, measure, beyond, Z, size, m, x, sums):
    number = x.dtype.type
    start, end = X.indptr[i], X.indptr[i + 1]
    own = 0.0
    for p in range(start, end):
        own += alone(measure, np.float64(number(X.data[p])))
    for j in range(m):
        sums[j] = base(beyond, size[j])
    p = start
    while p + 4 <= end:
        a, b, c, d = X.data[p], X.data[p + 1], X.data[p + 2], X.data[p + 3]
        add_terms(
            beyond, number(a), number(b), number(c), number(d),
            Z[X.indices[p]], Z[X.indices[p + 1]], Z[X.indices[p + 2]], Z[X.indices[p + 3]], m, sums,
        )  # fmt: skip
        p += 4
    while p < end:
        a, za = number(X.data[p]), Z[X.indices[p]]
        for j in range(m):
            sums[j] += term(beyond, a, za[j])
        p += 1
    return own


@generic
def write_row(X, i, x, Z, j):
    """Column j of Z, which is zero, ← row i, that row_sums has seen."""


@write_row.case(DenseRows)
def _(X, i, x, Z, j):
    for k in range(x.size):
        Z[k, j] = x[k]


@write_row.case(CSRRows)
def _(X, i, x, Z, j):
    for p in range(X.indptr[i], X.indptr[i + 1]):
        Z[X.indices[p], j] = X.data[p]


@compiled
def padded(count):
    """Vectors to compute with: whole registers."""
    return (count + LANES - 1) // LANES * LANES


@generic
def gather(X, i, centre, x):
    """x ← row i, less the centre, in place."""


@gather.case(DenseRows)
def _(X, i, centre, x):
    for k in range(x.size):
        x[k] = X.values[i, k] - centre[k]


@gather.case(CSRRows)
def _(X, i, centre, x):
    for k in range(x.size):
        x[k] = 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        x[X.indices[p]] = X.data[p]


@generic
def from_product(measure, own, size, product):
    """The measure of two vectors from their sizes and their inner product."""


@from_product.case(Squared)
def _(measure, own, size, product):
    return own + size - (product + product)


@from_product.case(Inner)
def _(measure, own, size, product):
    return product


# ---------------------------------------------------------------- rows scored


@generic
def score(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """out[i] ← the scores of row i, in place; no row depends on the others."""


@score.case(CSRRows)
def _(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """Row by row, as in training."""
    Z, size, A, m = borrow(budget.Z), borrow(budget.size), borrow(budget.A), padded(count)
    X, centre, out = borrowed(X), borrow(centre), borrow(out)
    x, sums, k = np.empty(Z.shape[0], Z.dtype), np.empty(m, Z.dtype), np.empty(m, Z.dtype)
    for i in range(out.shape[0]):
        row_sums(X, i, centre, measure, beyond, Z, size, m, x, sums)
        finish(kernel, sums, m, k)
        for c in range(A.shape[0]):
            row, f = A[c], A.dtype.type(0)
            for j in range(m):
                f += row[j] * k[j]
            out[i, c] = scale * f


@score.case(DenseRows)
def _(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """A tile of rows at a time (see core.kernels), against the vectors as rows V; the last tile repeats its last row.

    V has two columns more where squared distances are made of norms: (−2z, 1, ‖z‖²)·(x, ‖x‖², 1) is ‖x − z‖².
    """
    V, A = borrow(V), borrow(budget.A)
    X, centre, out = borrowed(X), borrow(centre), borrow(out)
    d, width = centre.size, V.shape[1]
    tiles, total = np.ones((TILES, width, LANES), A.dtype), np.empty((TILES, A.shape[0], LANES), A.dtype)
    S, K = np.empty((CHUNK, LANES), A.dtype), np.empty((CHUNK, LANES), A.dtype)
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
            for u in range(used):
                accumulate(V[a:b], measure, tiles[u], S)
                finish(kernel, sums, (b - a) * LANES, k)
                weigh(A, a, b, K, total[u])
        for r in range(min(used * LANES, out.shape[0] - first)):
            for c in range(A.shape[0]):
                out[first + r, c] = scale * total[r // LANES, c, r % LANES]


@compiled
def weigh(A, a, b, K, total):
    """total[c, t] += Σ_j A[c, j] K[j − a, t] for a ≤ j < b, in place."""
    for c in range(A.shape[0]):
        row, sums = A[c], total[c]
        j = a
        while j + 4 <= b:
            p, q, r, s = row[j], row[j + 1], row[j + 2], row[j + 3]
            kp, kq, kr, ks = K[j - a], K[j - a + 1], K[j - a + 2], K[j - a + 3]
            for t in range(LANES):
                sums[t] += (p * kp[t] + q * kq[t]) + (r * kr[t] + s * ks[t])
            j += 4
        while j < b:
            p, kp = row[j], K[j - a]
            for t in range(LANES):
                sums[t] += p * kp[t]
            j += 1


@compiled
def score_rows(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """out[i] ← the scores of row i, in place."""
    use_wide_registers()
    score(X, kernel, measure, beyond, V, budget, count, scale, centre, out)
