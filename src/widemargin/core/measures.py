"""Measures of two rows: sums over the features, of which most kernels are functions.

    Inner       Σ x z                                    ⟨x, z⟩
    Squared     Σ (x − z)²                               ‖x − z‖²
    Absolute    Σ |x − z|                                ‖x − z‖₁
    Overlap     Σ min(|x|, |z|) if xz > 0, else 0        (‖x‖₁ + ‖z‖₁ − ‖x − z‖₁) / 2

Here two rows are measured in float64; :mod:`.tiles` measures many at once.
"""

from typing import NamedTuple

import numpy as np

from .dispatch import generic
from .distant import Distant
from .rows import CSRRows, DenseRows, row_norm2, shape
from .sharing import share

#: Entries whose terms are held at once.
SOME_ENTRIES = 2**18
#: Of smaller sums some terms may have vanished in float32.
TINY = 2.0**-90


class Inner(NamedTuple):
    """The inner product Σ xz."""


class Squared(NamedTuple):
    """The squared Euclidean distance Σ (x − z)²."""


class Absolute(NamedTuple):
    """The Manhattan distance Σ |x − z|."""


class Overlap(NamedTuple):
    """The sum of min(|x|, |z|) over features where x and z have the same sign."""


@generic
def row_inner(X, i, Z, j):
    """The inner product ⟨xᵢ, zⱼ⟩ of two rows, in float64."""


@row_inner.case(DenseRows)
def _(X, i, Z, j):
    x, z = X.values[i], Z.values[j]
    total = 0.0
    for k in range(x.size):
        total += np.float64(x[k]) * np.float64(z[k])
    return total


@row_inner.case(CSRRows)
def _(X, i, Z, j):
    p, p_end = X.indptr[i], X.indptr[i + 1]
    q, q_end = Z.indptr[j], Z.indptr[j + 1]
    total = 0.0
    while p < p_end and q < q_end:
        a, b = X.indices[p], Z.indices[q]
        if a == b:
            total += np.float64(X.data[p]) * np.float64(Z.data[q])
        p += a <= b
        q += b <= a
    return total


@generic
def row_distance(X, i, Z, j, squared):
    """‖xᵢ − zⱼ‖² if squared else ‖xᵢ − zⱼ‖₁, from the differences, in float64."""


@row_distance.case(DenseRows)
def _(X, i, Z, j, squared):
    x, z = X.values[i], Z.values[j]
    total = 0.0
    if squared:
        for k in range(x.size):
            difference = np.float64(x[k]) - np.float64(z[k])
            total += difference * difference
    else:
        for k in range(x.size):
            total += abs(np.float64(x[k]) - np.float64(z[k]))
    return total


@row_distance.case(CSRRows)
def _(X, i, Z, j, squared):
    p, p_end = X.indptr[i], X.indptr[i + 1]
    q, q_end = Z.indptr[j], Z.indptr[j + 1]
    total = 0.0
    while p < p_end or q < q_end:
        a = np.int64(X.indices[p]) if p < p_end else np.int64(X.n_features)
        b = np.int64(Z.indices[q]) if q < q_end else np.int64(X.n_features)
        difference = 0.0
        if a <= b:
            difference += np.float64(X.data[p])
            p += 1
        if b <= a:
            difference -= np.float64(Z.data[q])
            q += 1
        total += difference * difference if squared else abs(difference)
    return total


@generic
def row_norm1(X, i):
    """The sum of absolute values of row i, in float64."""


@row_norm1.case(DenseRows)
def _(X, i):
    total = 0.0
    for x in X.values[i]:
        total += abs(np.float64(x))
    return total


@row_norm1.case(CSRRows)
def _(X, i):
    total = 0.0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        total += abs(np.float64(X.data[p]))
    return total


@generic
def row_sum(measure, X, i, Z, j):
    """The measure of row i of X and row j of Z, of the same layout, in float64."""


@row_sum.case(Inner)
def _(measure, X, i, Z, j):
    return row_inner(X, i, Z, j)


@row_sum.case(Squared)
def _(measure, X, i, Z, j):
    return row_distance(X, i, Z, j, True)


@row_sum.case(Absolute)
def _(measure, X, i, Z, j):
    return row_distance(X, i, Z, j, False)


@generic
def own_size(measure, X, i):
    """What distances of row i are made of, ‖xᵢ‖² or ‖xᵢ‖₁, in float64."""


@own_size.case(Squared)
def _(measure, X, i):
    return row_norm2(X, i)


@own_size.case(Absolute)
def _(measure, X, i):
    return row_norm1(X, i)


def sizes(
    measure: Squared | Absolute, X: DenseRows | CSRRows | Distant, threads: int = 1
) -> tuple[float, float]:  # fmt: skip
    """(largest, mean) ‖x‖² (Squared) or ‖x‖₁ (Absolute) of all rows; infinity where they overflow.

    Squares of dense float32 rows are summed in float32: it is the order of magnitude that matters. Threads change no
    bit.
    """
    if isinstance(X, Distant):
        return X.sizes(isinstance(measure, Squared))[1:]
    n, d = shape(X)
    square, per_row = isinstance(measure, Squared), d if isinstance(X, DenseRows) else X.data.size // max(1, n)
    few = max(1, SOME_ENTRIES // max(1, per_row))
    blocks = -(-n // few)
    largest, totals = np.zeros(blocks), np.zeros(blocks)

    def look(start: int, stop: int) -> None:
        with np.errstate(over="ignore"):
            for k in range(start, stop):
                sums = _some_sizes(square, X, k * few, few)
                largest[k], totals[k] = sums.max(), sums.sum(dtype=np.float64)

    step = max(1, -(-blocks // threads))
    share(look, [(start, min(start + step, blocks)) for start in range(0, blocks, step)])
    return float(largest.max(initial=0.0)), float(sum(totals.tolist())) / max(1, n)


def _some_sizes(square: bool, X: DenseRows | CSRRows, first: int, few: int) -> np.ndarray:
    """‖x‖² or ‖x‖₁ of a few rows; of sparse ones without entries there may be none."""
    if isinstance(X, DenseRows):
        part = X.values[first : first + few]
        sums = np.einsum("ij,ij->i", part, part) if square else np.abs(part).sum(1, np.float64)
        if square and not TINY < sums.max() < np.inf:  # squares that float32 has no numbers for
            sums = np.einsum("ij,ij->i", part, part, dtype=np.float64)
        return sums
    ends = X.indptr[first : first + few + 1]
    part = X.data[ends[0] : ends[-1]]
    starts = (ends[:-1] - ends[0])[ends[1:] > ends[:-1]]
    terms = np.square(part, dtype=np.float64) if square else np.abs(part, dtype=np.float64)
    return np.add.reduceat(terms, starts) if starts.size else np.zeros(1)
