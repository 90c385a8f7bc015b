"""New coordinates for dense rows that lie far from the origin compared with their spread.

For example features near 10⁶ that vary by 1. Scores of such rows are differences of large numbers, and the features
are nearly parallel. New coordinates remove both difficulties and leave the objective, the dual variables and both
values as they are:

- With a *free* intercept, a shift: ⟨w, x⟩ + b = ⟨w, x − μ⟩ + (b + ⟨w, μ⟩), and Σ αᵢxᵢ = Σ αᵢ(xᵢ − μ) because Σ αᵢ = 0.
- Otherwise a reflection H, which keeps ‖w‖² (including b² if b is the weight of a constant feature):
  ⟨w, x⟩ = ⟨Hw, Hx⟩. The reflection that maps the mean μ to an axis, Hμ = ∓‖μ‖e, gives one nearly constant feature and
  centred others: Hx = Hμ + H(x − μ). The reflected problem has no intercept of its own.

x − μ is exact where a row is within a factor of two of μ, so no digit of the spread is lost. Cost: a copy of the rows
in float64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.rows.rows import CSRRows, DenseRows, as_matrix, take_rows
from ..core.sampling.visits import spread
from ..models import LinearModel
from .linear import Problem

FAR_OUT = 1e4  # |mean| / standard deviation of a feature above which rows move: products then share half their digits
SOME_ROWS = 256  # rows that decide whether to move
DENSE_FROM = 0.25  # share of non-zeros below which sparse rows are never moved: zeros spread them


class Coordinates(NamedTuple):
    """The centre μ, and the reflection H = I − 2vvᵀ/‖v‖² to the axis of this index; an empty v is a shift only."""

    centre: np.ndarray
    v: np.ndarray
    axis: int

    @classmethod
    def of(cls, problem: Problem) -> Coordinates | None:
        """The coordinates for a problem; None if it is well posed as it is, or not in memory."""
        X, (n, d) = problem.X, (problem.n, problem.d)
        if not problem.is_open or (isinstance(X, CSRRows) and X.data.size < DENSE_FROM * n * d):
            return None
        some = take_rows(X, spread(n, min(n, SOME_ROWS))) if n > SOME_ROWS else X
        part = cls._dense(some)
        mean, deviation = part.mean(axis=0), part.std(axis=0)
        if not np.any((np.abs(mean) > FAR_OUT * deviation) & (deviation > 0.0)):
            return None
        centre = cls._dense(X).mean(axis=0)
        if problem.has_free_bias:
            return cls(centre, np.empty(0), 0)
        u = np.append(centre, [1.0] if problem.intercept == "regularized" else [])
        u /= np.sqrt(u @ u)
        axis = int(np.argmax(np.abs(u)))
        u[axis] += np.copysign(1.0, u[axis])
        return cls(centre, u, axis)

    @staticmethod
    def _dense(X: DenseRows | CSRRows) -> np.ndarray:
        matrix = as_matrix(X)
        return np.asarray(matrix if isinstance(X, DenseRows) else matrix.toarray(), np.float64)

    def _reflect(self, rows: np.ndarray) -> np.ndarray:
        return rows - np.outer(rows @ (self.v * (2.0 / (self.v @ self.v))), self.v)

    def inner(self, problem: Problem) -> Problem:
        """The problem in the new coordinates, on a copy of its rows in float64."""
        rows = self._dense(problem.X) - self.centre
        if not self.v.size:
            return replace(problem, X=DenseRows(rows))
        if problem.intercept == "regularized":
            rows = np.hstack([rows, np.zeros((len(rows), 1))])
        rows = np.ascontiguousarray(self._reflect(rows))
        mean = np.append(self.centre, np.ones(self.v.size - self.centre.size))
        rows[:, self.axis] -= np.copysign(np.sqrt(mean @ mean), mean[self.axis])
        return replace(problem, X=DenseRows(rows), intercept="none")

    def outer(self, model: LinearModel) -> LinearModel:
        """A model of the new problem as a model of the given one, in float64."""
        coef = model.coef.astype(np.float64)
        if not self.v.size:
            return LinearModel(coef, model.intercept - coef @ self.centre)
        coef, d = self._reflect(coef), self.centre.size
        return LinearModel(np.ascontiguousarray(coef[:, :d]), coef[:, d:].sum(axis=1))
