"""A linear problem whose examples lie in parts, in several places perhaps: what all of them together minimise.

Nobody here reads an example. Whoever wants to know something of the examples asks the parts, which reply with sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import losses
from ..models import LinearModel
from .linear import Problem
from .objective import Objective, check_lam, sum_of_squares


class LocalParts:
    """Parts in this process. Elsewhere, anything will do that has these methods."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    def ask(self, method: str, *message: Any) -> list[Any]:
        """The replies of all parts to one message, in their order."""
        return [getattr(part, method)(*message) for part in self.parts]

    def states(self) -> list[dict[str, np.ndarray]]:
        """The states of all parts, in their order."""
        return self.ask("state")

    def restore(self, states: list[dict[str, np.ndarray]]) -> None:
        """Take the parts back to their states."""
        for part, state in zip(self.parts, states, strict=True):
            part.restore(state)

    def close(self) -> None:
        """Let the parts go."""


class Here:
    """Examples in this process, as a problem for each part."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)

    def parts(self, make: Callable[[Problem, int], Any]) -> LocalParts:
        """What ``make`` makes of each part's problem and number."""
        return LocalParts([make(problem, k) for k, problem in enumerate(self.problems)])


@dataclass(frozen=True, eq=False)
class PartsProblem(Objective):
    """What is minimised over the examples of all parts.

    Parameters
    ----------
    place : where the parts are: ``place.parts(make)`` gives whom to :meth:`LocalParts.ask`
    n, d, n_outputs, dtype : examples and features, scores of a row, and the numbers in the data
    target, lam, intercept : as in :class:`widemargin.problems.linear.Problem`
    loss_at_zero : the weighted mean loss of each output where all scores are zero
    entries : stored entries of all rows
    scale : the size of targets, 1 for labels
    """

    place: Any
    n: int  # type: ignore[misc]
    d: int
    n_outputs: int
    dtype: Any
    target: Any
    lam: float
    intercept: str
    loss_at_zero: np.ndarray
    entries: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_lam(self.lam)

    @property
    def is_joint(self) -> bool:
        """Whether one loss ties the outputs."""
        return losses.is_joint(self.target)

    @property
    def mean_entries(self) -> float:
        """Stored entries of a row, on average; at least 1."""
        return max(1.0, self.entries / self.n)

    def penalty(self, W: np.ndarray, b: np.ndarray) -> float:
        """The regularisation λ/2 ‖W‖², the intercept included when it is regularised."""
        return 0.5 * self.lam * (sum_of_squares(W) + (sum_of_squares(b) if self.intercept == "regularized" else 0.0))

    def at_zero(self) -> tuple[float, LinearModel]:
        """The objective of w = 0, b = 0, and the model."""
        W, b = np.zeros((self.n_outputs, self.d), self.dtype), np.zeros(self.n_outputs)
        return float(self.loss_at_zero.sum()), LinearModel(W, b)


def in_parts(problem: Problem, chosen: Sequence[np.ndarray]) -> PartsProblem:
    """A problem in one process, its rows dealt out to parts."""
    scale = float(np.abs(problem.y).max()) if problem.loss.is_regression and problem.n else 1.0
    zero = problem.output_losses(np.zeros((problem.d, problem.n_outputs)), np.zeros(problem.n_outputs))
    return PartsProblem(
        Here([problem.take(rows) for rows in chosen]), problem.n, problem.d, problem.n_outputs, problem.dtype,
        problem.target, problem.lam, problem.intercept, zero,
        round(problem.mean_entries * problem.n), scale or 1.0,
    )  # fmt: skip
