"""Whether a machine may score in float32, as it was trained, or must in float64.

An error of a kernel value, ε, moves a score by αε, and the errors of equal or like vectors add up. So their number and
size says little, and a bound for the worst case, Σ|α|ε, is far too large for most machines. The error is therefore
measured: some examples are scored both ways. If errors of scores have about a normal distribution, one row among
10⁶ at most has an error above :data:`DEVIATIONS` times their standard deviation, and that is below what is measured by
more than a factor of 1 + 4/√(2s), for s examples, once in 10⁴ machines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.kernel_matrix import KernelMatrix
from ..core.measures import Absolute, Squared
from ..core.rows import as_matrix, dtype_of, shape, take_rows
from ..models import widened
from .layout import Preparation

#: Examples that are scored, fewer where there are more than so many scores.
SOME, SCORES = 64, 2**16
#: The largest error that is expected, in terms of the standard deviation.
DEVIATIONS = 5.0
#: Errors of scores, as a share of their spread, that are promised for data of each precision.
PROMISED = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
#: Kernel values held at once.
VALUES = 2**20


def sample(n: int, outputs: int) -> np.ndarray:
    """Some of n rows, from the first to the last, for a machine with so many outputs."""
    return np.unique(np.linspace(0, n - 1, min(n, SOME, max(4, SCORES // outputs))).astype(np.int64))


def exact_values(kernel: Any, X: Any, Z: Any) -> np.ndarray:
    """The kernel of all rows of X with all of Z, in float64, by NumPy."""
    A, B = (as_matrix(rows).astype(np.float64) for rows in (X, Z))
    with np.errstate(over="ignore", invalid="ignore"):
        if kernel.measure is Absolute:
            from sklearn.metrics.pairwise import manhattan_distances

            sums = manhattan_distances(A, B)
        else:
            products = A @ B.T
            sums = products.toarray() if sp.issparse(products) else products
            if kernel.measure is Squared:
                own, others = (np.asarray((M.multiply(M) if sp.issparse(M) else M * M).sum(axis=1)) for M in (A, B))
                sums = np.maximum(own.reshape(-1, 1) + others.reshape(1, -1) - 2.0 * sums, 0.0)
        return np.asarray(kernel.of_array(np, sums))


def exact_scores(model: Any, X: Any, vectors: Any) -> np.ndarray:
    """Scores less the intercepts, of shape (outputs, rows), in float64, by NumPy; ``vectors`` stand for the model's."""
    n, wide = model.support.size, np.empty((model.support.size, shape(X)[0]))
    step = max(1, VALUES // max(1, shape(X)[0]))
    for first in range(0, n, step):
        part = np.arange(first, min(first + step, n))
        wide[part] = exact_values(model.kernel, take_rows(vectors, part), X)
    return np.asarray(model.combined(wide))


def keeps_promise(found: np.ndarray, exact: np.ndarray, dtype: Any) -> bool:
    """Whether scores of some rows, of shape (outputs, rows), say that those of all rows of a dtype are exact enough."""
    errors = found - exact
    if not np.isfinite(errors).all():
        return False
    doubt = 1.0 + 4.0 / np.sqrt(2.0 * errors.shape[1])
    expected = DEVIATIONS * doubt * np.sqrt(np.mean(errors**2, axis=1))
    return bool((expected <= PROMISED[np.dtype(dtype)] * np.ptp(exact, axis=1)).all())


def settled(model: Any, preparation: Preparation, own: Any = None, X: Any = None) -> tuple[Any, Preparation]:
    """A machine of rows and its preparation, in float64 where float32 does not predict as exactly as is promised.

    ``own`` are its vectors, and X some of the examples, as they were given; None where they are what the machine has.
    """
    if model.support.size == 0 or dtype_of(model.vectors) == np.float64:
        return model, preparation
    wide = replace(preparation, as_float32=False)
    rough, exact = (take_rows(model.vectors, sample(model.support.size, model.intercept.size)),) * 2
    if X is not None:
        rough, exact = (how.rows(model.kernel, X.copy()) for how in (preparation, wide))
    vectors = widened(model.vectors) if own is None else widened(wide.rows(model.kernel, own.copy()))
    found = model.combined(KernelMatrix(model.kernel, rough, model.vectors).block(np.arange(shape(rough)[0])).T)
    expected = exact_scores(model, exact, vectors)
    if keeps_promise(found, expected, np.float64 if preparation.as_float32 else np.float32):
        return model, preparation
    return replace(model, vectors=vectors), wide
