"""Structured outputs: examples of any kind, which the problem knows only through an argmax oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.losses import losses
from ..core.rows.rows import DenseRows
from .objective import NO_WEIGHTS, check_lam, sum_of_squares


@dataclass(frozen=True, eq=False)
class StructuredProblem:
    """Structured outputs through an argmax oracle (Pegasos, Example 5).

    The loss of example (x, y) is max over ŷ of δ(ŷ, y) − ⟨w, φ(x, y) − φ(x, ŷ)⟩.

    Parameters
    ----------
    examples : sequence of (x, y)
        Anything that the oracle takes.
    oracle : callable (w, x, y) → (difference, cost)
        Finds the ŷ that attains the maximum for the weights w (an array of
        ``n_features``) and returns φ(x, y) − φ(x, ŷ) as a dense vector, and δ(ŷ, y).
    n_features : int
        Length of φ.
    lam : float
        λ.
    """

    examples: Sequence[tuple[Any, Any]]
    oracle: Callable[[np.ndarray, Any, Any], tuple[np.ndarray, float]]
    n_features: int
    lam: float

    intercept = "none"
    n_outputs = 1
    dtype = np.dtype(np.float64)

    def __post_init__(self) -> None:
        check_lam(self.lam)
        if len(self.examples) == 0:
            raise ValueError("examples must not be empty, got none")
        if self.n_features < 1:
            raise ValueError(f"n_features must be ≥ 1, got {self.n_features}")

    sample_weight = NO_WEIGHTS
    is_joint = False
    target = losses.Single(losses.StructuredHinge())

    @property
    def n(self) -> int:
        """Number of examples."""
        return len(self.examples)

    @property
    def d(self) -> int:
        """Number of features."""
        return self.n_features

    def answers(self, w: np.ndarray, chosen: np.ndarray) -> tuple[DenseRows, np.ndarray]:
        """(differences, costs) that the oracle returns at w for the chosen examples."""
        rows, costs = np.empty((len(chosen), self.d)), np.empty(len(chosen))
        for r, i in enumerate(chosen):
            difference, costs[r] = self.oracle(w, *self.examples[i])
            if np.shape(difference) != (self.d,):
                raise ValueError(
                    f"the oracle must return a difference of {self.d} features, got shape {np.shape(difference)}"
                )
            rows[r] = difference
        return DenseRows(rows), costs

    def primal(self, W: np.ndarray, b: np.ndarray) -> float:
        """The objective P(w), which takes one call of the oracle per example."""
        rows, costs = self.answers(W[:, 0], np.arange(self.n))
        return 0.5 * self.lam * sum_of_squares(W) + float(np.mean(costs - rows.values @ W[:, 0]))

    def norm_bound(self, b: np.ndarray) -> np.ndarray:
        """An upper bound of ‖w‖ at the optimum, √(2 P(0)/λ)."""
        return np.sqrt([2.0 * self.primal(np.zeros((self.d, 1)), b) / self.lam])
