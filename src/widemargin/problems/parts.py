"""Problems whose examples are divided into parts, for example among the workers of a cluster.

A problem here reads no example itself. It sends a message to all parts, and each part replies with sums over its own
examples::

    losses, gradients = parts.sums("at", W)         # calls part.at(W) on every part, and adds the replies
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..models import LinearModel
from .kernel import KernelProblem
from .linear import Problem
from .objective import NO_WEIGHTS, Certificate, Objective


class Parts:
    """The parts of the examples, in this process or on workers, as a solver talks to them."""

    def __len__(self) -> int:
        raise NotImplementedError

    def each(self, method: str, *message: Any) -> Iterator[Any]:
        """The replies of all parts to one message, in the order of the parts, as an iterator to be exhausted."""
        raise NotImplementedError

    def ask(self, method: str, *message: Any) -> list[Any]:
        """The replies of all parts to one message, in their order."""
        return list(self.each(method, *message))

    def sums(self, method: str, *message: Any, least: int = 0) -> list[Any]:
        """The replies of all parts, which are tuples, reduced to one list.

        The first ``least`` entries are minima, the others sums in the order of the parts. Replies are not kept, so that
        memory is that of two.
        """
        totals: list[Any] = []
        number = 0
        for reply in self.each(method, *message):  # enumerate would keep a reference to the last reply
            totals, number = _with_reply(totals, number, reply, least), number + 1
            del reply
        return totals


def _with_reply(totals: list[Any], number: int, reply: tuple, least: int) -> list[Any]:
    """The totals with one more reply; the first reply, which belongs to a part, is not modified."""
    if number == 0:
        return list(reply)
    for place, value in enumerate(reply):
        if place < least:
            totals[place] = np.minimum(totals[place], value)
        elif number == 1:
            totals[place] = totals[place] + value
        else:
            totals[place] += value
    return totals


class LocalParts(Parts):
    """Parts in this process. Parts on workers have the same methods."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def each(self, method: str, *message: Any) -> Iterator[Any]:
        """The replies of all parts to one message, in their order."""
        return (getattr(part, method)(*message) for part in self.parts)

    def states(self) -> list[dict[str, np.ndarray]]:
        """The states of all parts, in their order."""
        return self.ask("state")

    def restore(self, states: list[dict[str, np.ndarray]]) -> None:
        """Set the states of all parts."""
        for part, state in zip(self.parts, states, strict=True):
            part.restore(state)

    def close(self) -> None:
        """Release the parts."""


class Here:
    """Examples in this process: one problem for each part."""

    def __init__(self, problems: Sequence[Any]) -> None:
        self.problems = list(problems)

    def parts(self, make: Callable[[Any, int], Any]) -> LocalParts:
        """The parts make(problem, number)."""
        return LocalParts([make(problem, k) for k, problem in enumerate(self.problems)])


@dataclass(frozen=True, eq=False)
class PartsProblem(Objective):
    """A linear problem over the examples of all parts.

    Parameters
    ----------
    place : where the examples are; ``place.parts(make)`` returns the :class:`Parts`
    n, d, n_outputs, dtype : numbers of examples, features and scores of a row; the dtype of the data
    target, lam, intercept : as in :class:`widemargin.problems.linear.Problem`
    loss_at_zero : the weighted mean loss of each output if all scores are 0
    entries : stored entries of all rows
    scale : the largest |y| of a regression, 1 for labels
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
    scale: float = 1.0  # type: ignore[misc]

    @property
    def mean_entries(self) -> float:
        """Stored entries of a row, on average; at least 1."""
        return max(1.0, self.entries / self.n)

    def at_zero(self) -> tuple[float, LinearModel]:
        """The objective of w = 0, b = 0, and the model."""
        W, b = np.zeros((self.n_outputs, self.d), self.dtype), np.zeros(self.n_outputs)
        return float(self.loss_at_zero.sum()), LinearModel(W, b)


def in_parts(problem: Problem, chosen: Sequence[np.ndarray]) -> PartsProblem:
    """A linear problem of one process, divided into parts with the chosen rows."""
    zero = problem.output_losses(np.zeros((problem.d, problem.n_outputs)), np.zeros(problem.n_outputs))
    return PartsProblem(
        Here([problem.take(rows) for rows in chosen]), problem.n, problem.d, problem.n_outputs, problem.dtype,
        problem.target, problem.lam, problem.intercept, zero,
        round(problem.mean_entries * problem.n), problem.scale,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class KernelPartsProblem(Objective):
    """A kernel problem, or several binary ones, over the examples of all parts.

    Parameters
    ----------
    place : where the examples are, in order; each part is a :class:`.kernel.KernelProblem`
    sizes : examples of each part
    kernel, target, lam, intercept, cache_bytes : as in :class:`.kernel.KernelProblem`
    masses : ndarray of shape (n_problems, 2)
        Sums of the weights of the positive and of the negative examples of each binary problem.
    y, sample_weight : labels and weights of some examples, where they are known
    """

    place: Any
    sizes: np.ndarray
    kernel: Any
    target: Any
    lam: float
    intercept: str
    masses: np.ndarray
    cache_bytes: float = 200 * 2**20
    y: np.ndarray = field(default_factory=lambda: NO_WEIGHTS)
    sample_weight: np.ndarray = field(default_factory=lambda: NO_WEIGHTS)

    dtype, overflow = KernelProblem.dtype, KernelProblem.overflow

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of examples."""
        return int(self.sizes.sum())

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """Number of binary problems."""
        return self.masses.shape[0]

    def certificate(
        self, beta: np.ndarray, signs: np.ndarray, weights: np.ndarray, norm2: np.ndarray, hinge: np.ndarray
    ) -> Certificate:
        """The certificate of w = Σ βᵢΦ(xᵢ) over some examples with labels ``signs`` and ``weights``.

        ``norm2`` is ‖w‖², including the constant feature of a regularised bias; ``hinge`` the mean hinge of all
        examples.
        """
        few = replace(self, y=signs, sample_weight=weights)
        primal, dual = float(np.sum(0.5 * self.lam * norm2 + hinge)), few.dual_of_multiple(beta, self.lam * norm2)
        return Certificate(primal, dual, primal - dual)


def kernel_in_parts(problem: KernelProblem, chosen: Sequence[np.ndarray]) -> KernelPartsProblem:
    """A kernel problem of one process, divided into parts with the chosen rows."""
    s = problem.sample_weight
    parts = [
        replace(problem, X=problem.rows(k), y=problem.signs[:, k], sample_weight=s[..., k] if s.size else s)
        for k in chosen
    ]
    return KernelPartsProblem(
        Here(parts), np.array([part.n for part in parts]), problem.kernel, problem.target, problem.lam,
        problem.intercept, np.sum([masses_of(part) for part in parts], axis=0), problem.cache_bytes,
    )  # fmt: skip


def masses_of(problem: KernelProblem) -> np.ndarray:
    """Sums of the weights of the positive and of the negative examples of each binary problem."""
    weights = [problem.binary_part(q)[2] for q in range(problem.n_outputs)]
    return np.array([[s[y > 0.0].sum(), s[y < 0.0].sum()] for s, y in zip(weights, problem.signs, strict=True)])
