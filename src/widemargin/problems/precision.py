"""Whether a kernel model, trained on float32 kernel values, may also predict in float32.

The promise: scores of float64 data are right to 1e-6 of their spread, those of float32 data to 1e-4.

An error ε of a kernel value changes a score by αε, and errors of similar vectors add up. The worst case Σ|α|ε is far
too large for most models, so the error is measured: :func:`settled` scores up to 64 examples in both precisions. If
errors of scores are about normal, at most one row in 10⁶ has an error above :data:`DEVIATIONS` standard deviations. The
standard deviation from s examples is multiplied by 1 + 4/√(2s), which is too little for one model in 10⁴. A model that
does not keep the promise gets its vectors in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.kernels.matrix import KernelMatrix
from ..core.rows.rows import dtype_of, shape, take_rows
from ..models import alike, widened
from .layout import Preparation

SOME, SCORES = 64, 2**16  # examples that are scored, fewer if a model has so many outputs that scores would be more
DEVIATIONS = 5.0  # largest expected error / standard deviation
#: Promised errors of scores, as a share of their spread, by the precision of the data.
PROMISED = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
VALUES = 2**20  # kernel values that are computed at once


def sample(n: int, outputs: int) -> np.ndarray:
    """Indices of some of n rows, evenly spaced, fewer for a model with many outputs."""
    return np.unique(np.linspace(0, n - 1, min(n, SOME, max(4, SCORES // outputs))).astype(np.int64))


def exact_scores(model: Any, X: Any, vectors: Any) -> np.ndarray:
    """Scores without intercepts, of shape (outputs, rows), in float64, with ``vectors`` instead of the model's."""
    matrix = KernelMatrix(model.kernel, *alike(widened(X), widened(vectors)))
    n, m = matrix.shape
    step = max(1, VALUES // max(1, m))
    parts = [matrix.block(np.arange(first, min(first + step, n))) for first in range(0, n, step)]
    return np.concatenate([np.asarray(model.combined(part.T)) for part in parts], axis=1)


def largest_error(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest expected error of the scores of all rows, as a share of their spread.

    ``found`` and ``exact`` are the scores of some rows, of shape (outputs, rows).
    """
    errors, spread = found - exact, np.ptp(exact, axis=1)
    if not np.isfinite(errors).all() or not errors.any():
        return 0.0 if np.isfinite(errors).all() else math.inf
    doubt = 1.0 + 4.0 / np.sqrt(2.0 * errors.shape[1])
    shares = errors / np.where(spread > 0.0, spread, 1.0)[:, None]
    expected = DEVIATIONS * doubt * np.sqrt(np.mean(shares**2, axis=1))
    return float(np.where((spread > 0.0) | (expected == 0.0), expected, math.inf).max())


def keeps_promise(found: np.ndarray, exact: np.ndarray, dtype: Any) -> bool:
    """Whether the scores of all rows of a dtype should be as exact as promised, judged by those of some rows."""
    return largest_error(found, exact) <= PROMISED[np.dtype(dtype)]


def settled(
    model: Any, preparation: Preparation, own: Any = None, X: Any = None, seen: Sequence[float] = ()
) -> tuple[Any, Preparation]:  # fmt: skip
    """(model, preparation), in float64 if float32 would not keep the promise.

    ``own`` are the vectors and X some examples as the user gave them; None if they are those of the model. ``seen`` has
    a :func:`largest_error` of each output if scores were compared before; at most half of the promised error is then
    enough, without another measurement.
    """
    if model.support.size == 0 or dtype_of(model.vectors) == np.float64:
        return model, preparation
    dtype = np.dtype(np.float64 if preparation.as_float32 else np.float32)
    if len(seen) == model.intercept.size and 2.0 * max(seen) <= PROMISED[dtype]:
        return model, preparation
    wide = replace(preparation, as_float32=False)
    rough, exact = (take_rows(model.vectors, sample(model.support.size, model.intercept.size)),) * 2
    if X is not None:
        rough, exact = (how.rows(model.kernel, X.copy()) for how in (preparation, wide))
    vectors = widened(model.vectors) if own is None else widened(wide.rows(model.kernel, own.copy()))
    found = model.combined(KernelMatrix(model.kernel, rough, model.vectors).block(np.arange(shape(rough)[0])).T)
    expected = exact_scores(model, exact, vectors)
    if keeps_promise(found, expected, dtype):
        return model, preparation
    return replace(model, vectors=vectors), wide
