"""The examples of a step: one, or a batch whose scores come from one matrix product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.compiling.dispatch import generic
from ...core.kernels.expansion import from_product, gather, row_sums


class OneByOne(NamedTuple):
    """Each example has a step of its own."""


class Batch(NamedTuple):
    """A step is for several examples, whose scores come from one product of their rows with the vectors."""

    most: float  # largest ‖x‖² for which squared distances are computed from norms and products
    rows: np.ndarray
    own: np.ndarray
    products: np.ndarray


@generic
def multiply(batch, X, order, first, count, machine):
    """batch.products ← inner products of ``count`` examples with all vectors, in place."""


@multiply.case(OneByOne)
def multiply_nothing(batch, X, order, first, count, machine):
    pass


@multiply.case(Batch)
def multiply_batch(batch, X, order, first, count, machine):
    vectors = machine.expansion.vectors
    for r in range(count):
        batch.own[r] = gather(X, order[first + r], machine.metric.measure, vectors, batch.rows[r])
    np.dot(batch.rows, vectors.Z, batch.products)


@generic
def sums_of(batch, X, i, r, m, machine):
    """work.sums ← the measure between row i, example r of the batch, and all vectors; returns the size of the row."""


@sums_of.case(OneByOne)
def sums_of_row(batch, X, i, r, m, machine):
    return row_sums(X, i, machine.metric, machine.expansion.vectors, m, machine.work.x, machine.work.sums)


@sums_of.case(Batch)
def sums_of_batch_row(batch, X, i, r, m, machine):
    own, products, size, sums = batch.own[r], batch.products[r], machine.expansion.vectors.size, machine.work.sums
    if own > batch.most:
        return row_sums(X, i, machine.metric, machine.expansion.vectors, m, machine.work.x, sums)
    for j in range(m):
        sums[j] = from_product(machine.metric.measure, own, size[j], products[j])
    return np.float64(own)
