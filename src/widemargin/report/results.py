"""The examples and the results of a comparison. This module loads no compiler, so that rivals' processes start fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

#: The first words of a rival's name.
RIVAL = "scikit-learn "


@dataclass(frozen=True)
class Examples:
    """Training rows, and test rows to measure the error on; ``labels`` says whether the targets are classes."""

    X: Any
    y: np.ndarray
    test_X: Any
    test_y: np.ndarray
    labels: bool = True

    @property
    def n(self) -> int:
        """The number of training rows."""
        return self.X.shape[0]

    def error(self, predicted: np.ndarray) -> float:
        """The share of wrong labels, or the root mean square error."""
        if self.labels:
            return float(np.mean(predicted != self.test_y))
        return float(np.sqrt(np.mean((np.asarray(predicted, float) - self.test_y) ** 2)))


@dataclass
class Result:
    """The result of a contender.

    ``curve`` has (seconds, error) of checkpoints and of the end. ``error``, ``relative_gap``, ``vectors`` and ``bytes``
    are None if there is no model, or if the model has no such number.
    """

    name: str
    stop_reason: str = ""
    seconds: float = 0.0
    error: float | None = None
    relative_gap: float | None = None
    vectors: int | None = None
    bytes: int | None = None
    curve: list[tuple[float, float]] = field(default_factory=list)

    @property
    def is_rival(self) -> bool:
        """Whether the contender is from another library."""
        return self.name.startswith(RIVAL)


def describe(result: Result, model: Any, examples: Examples) -> None:
    """Fill in the error and the size of a trained model of any library."""
    result.error = examples.error(model.predict(examples.test_X))
    result.curve.append((result.seconds, result.error))
    if hasattr(model, "support_vectors_"):
        result.vectors = int(model.support_vectors_.shape[0])
        parts = [model.support_vectors_, model.dual_coef_, model.intercept_ if hasattr(model, "intercept_") else ()]
    else:
        parts = [model.coef_, model.intercept_]
    result.bytes = sum(_bytes(part) for part in parts)


def _bytes(part: Any) -> int:
    if sp.issparse(part):
        part = sp.csr_matrix(part)
        return part.data.nbytes + part.indices.nbytes + part.indptr.nbytes
    return np.asarray(part).nbytes
