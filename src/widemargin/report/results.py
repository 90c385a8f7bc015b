"""What contenders train on, and what became of them; nothing here loads a compiler, so rivals' processes start soon."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

#: What a rival's name begins with.
RIVAL = "scikit-learn "


@dataclass(frozen=True)
class Examples:
    """What is trained on, and what the error is measured on; ``labels`` says whether y are classes."""

    X: Any
    y: np.ndarray
    test_X: Any
    test_y: np.ndarray
    labels: bool = True

    @property
    def n(self) -> int:
        """Rows to train on."""
        return self.X.shape[0]

    def error(self, predicted: np.ndarray) -> float:
        """The share of wrong labels, or the root of the mean square error."""
        if self.labels:
            return float(np.mean(predicted != self.test_y))
        return float(np.sqrt(np.mean((np.asarray(predicted, float) - self.test_y) ** 2)))


@dataclass
class Result:
    """What became of a contender.

    ``curve`` has (seconds, error) at checkpoints and at the end; ``error``, ``relative_gap``, ``vectors`` and ``bytes``
    are None where there is no model or no such thing.
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
        """Whether it is another library's."""
        return self.name.startswith(RIVAL)


def describe(result: Result, model: Any, examples: Examples) -> None:
    """Fill in what is known of a trained model of any library: its error and its size."""
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
