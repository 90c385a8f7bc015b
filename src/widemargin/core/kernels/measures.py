"""Measures: sums over the features of two rows. Most kernels are functions of one measure.

    Inner       Σ x z                                    ⟨x, z⟩
    Squared     Σ (x − z)²                               ‖x − z‖²
    Absolute    Σ |x − z|                                ‖x − z‖₁
    Overlap     Σ min(|x|, |z|) if xz > 0, else 0        (‖x‖₁ + ‖z‖₁ − ‖x − z‖₁) / 2

For example the Gaussian kernel is exp(−γ s) of the measure Squared. This module measures one pair of rows at a time, in
float64, at the cost of their entries; :mod:`.tiles` measures many pairs at once.
"""

from typing import NamedTuple

import numpy as np

from ..compiling.dispatch import generic, inlined
from ..rows.distant import Distant
from ..rows.rows import CSRRows, DenseRows, row_entries, shape
from ..sharing import share

SOME_ENTRIES = 2**18  # entries; how many are read at once, so that their terms stay in the processor's cache
TINY = 2.0**-90  # a smaller sum of squares in float32 may lack terms that underflowed, and is computed in float64


class Inner(NamedTuple):
    """The inner product Σ xz."""


class Squared(NamedTuple):
    """The squared Euclidean distance Σ (x − z)²."""


class Absolute(NamedTuple):
    """The Manhattan distance Σ |x − z|."""


class Overlap(NamedTuple):
    """The sum of min(|x|, |z|) over features where x and z have the same sign."""


@generic
def term(measure, x, z):
    """The term of one feature, with the values x and z."""


@term.case(Inner)
def term_inner(measure, x, z):
    return x * z


@term.case(Squared)
def term_squared(measure, x, z):
    return (x - z) * (x - z)


@term.case(Absolute)
def term_absolute(measure, x, z):
    return abs(x - z)


@generic
def alone(measure, x):
    """The term of one feature in the size of a row."""


@alone.case(Inner, Squared)
def alone_square(measure, x):
    return x * x


@alone.case(Absolute)
def alone_absolute(measure, x):
    return abs(x)


@generic
def row_sum(X, i, Z, j, measure):
    """The measure of row i of X and row j of Z, of the same layout, in float64."""


@row_sum.case(DenseRows)
def row_sum_dense(X, i, Z, j, measure):
    x, z = X.values[i], Z.values[j]
    total = 0.0
    for k in range(x.size):
        total += term(measure, np.float64(x[k]), np.float64(z[k]))
    return total


@row_sum.case(CSRRows)
def row_sum_csr(X, i, Z, j, measure):
    p, p_end = X.indptr[i], X.indptr[i + 1]
    q, q_end = Z.indptr[j], Z.indptr[j + 1]
    total = 0.0
    while p < p_end or q < q_end:
        a = np.int64(X.indices[p]) if p < p_end else np.int64(X.n_features)
        b = np.int64(Z.indices[q]) if q < q_end else np.int64(X.n_features)
        x, z = 0.0, 0.0
        if a <= b:
            x = np.float64(X.data[p])
            p += 1
        if b <= a:
            z = np.float64(Z.data[q])
            q += 1
        total += term(measure, x, z)
    return total


@inlined
def own_size(measure, X, i):
    """The size of row i, ‖xᵢ‖² for Squared and ‖xᵢ‖₁ for Absolute, in float64."""
    total = 0.0
    for x in row_entries(X, i):
        total += alone(measure, np.float64(x))
    return total


def largest_size(measure: Squared | Absolute, X: DenseRows | CSRRows | Distant, threads: int = 1) -> float:
    """The largest size of a row, ‖x‖² (Squared) or ‖x‖₁ (Absolute); infinity where it overflows.

    Squares of dense float32 rows are summed in float32, because callers need the order of magnitude only. The number of
    threads does not change the result.
    """
    if isinstance(X, Distant):
        return X.sizes(isinstance(measure, Squared))[1]
    n, d = shape(X)
    square, per_row = isinstance(measure, Squared), d if isinstance(X, DenseRows) else X.data.size // max(1, n)
    few = max(1, SOME_ENTRIES // max(1, per_row))
    blocks = -(-n // few)
    largest = np.zeros(blocks)

    def look(start: int, stop: int) -> None:
        with np.errstate(over="ignore"):
            for k in range(start, stop):
                largest[k] = _some_sizes(square, X, k * few, few).max()

    step = max(1, -(-blocks // threads))
    share(look, [(start, min(start + step, blocks)) for start in range(0, blocks, step)])
    return float(largest.max(initial=0.0))


def _some_sizes(square: bool, X: DenseRows | CSRRows, first: int, few: int) -> np.ndarray:
    """The sizes ‖x‖² or ‖x‖₁ of ``few`` rows from row ``first`` on; sparse rows without entries are left out."""
    if isinstance(X, DenseRows):
        part = X.values[first : first + few]
        sums = np.einsum("ij,ij->i", part, part) if square else np.abs(part).sum(1, np.float64)
        if square and not TINY < sums.max() < np.inf:  # outside of the range of float32
            sums = np.einsum("ij,ij->i", part, part, dtype=np.float64)
        return sums
    ends = X.indptr[first : first + few + 1]
    part = X.data[ends[0] : ends[-1]]
    starts = (ends[:-1] - ends[0])[ends[1:] > ends[:-1]]
    terms = np.square(part, dtype=np.float64) if square else np.abs(part, dtype=np.float64)
    return np.add.reduceat(terms, starts) if starts.size else np.zeros(1)
