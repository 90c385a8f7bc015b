"""Other coordinates for dense rows that lie far from the origin, for their spread: the same problem, better posed.

Scores of such rows are differences of large numbers, and products of their features are all alike. Both go away without
a change of the objective, of the dual variables and of either value:

- A *free* intercept takes up a shift: ⟨w, x⟩ + b = ⟨w, x − μ⟩ + (b + ⟨w, μ⟩), and Σ αᵢxᵢ = Σ αᵢ(xᵢ − μ) as Σ αᵢ = 0.
- Else ‖w‖² (with b², where b is regularised and the weight of a constant feature) does not change under a reflection H
  of the rows: ⟨w, x⟩ = ⟨Hw, Hx⟩. The one that takes the mean μ to a multiple of an axis, Hμ = ∓‖μ‖e, leaves one feature
  that is nearly constant, and centred ones: Hx = Hμ + H(x − μ). This problem has no intercept of its own.

x − μ is exact where a row is within a factor of two of μ, so no digit of the spread is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.rows import CSRRows, DenseRows, as_matrix, take_rows
from ..core.visits import spread
from ..models import LinearModel
from .linear import Problem

#: Rows are far out where a feature's mean is more than so many times its standard deviation: products of such features
#: have half of their digits in common.
FAR_OUT = 1e4
#: Rows by which that is told.
SOME_ROWS = 256
#: Sparse rows with a smaller share of non-zeros are not far out.
DENSE_FROM = 0.25


class Coordinates(NamedTuple):
    """The centre μ, and v of the reflection H = I − 2vvᵀ/‖v‖² with the axis e, as a place; no v is a shift alone."""

    centre: np.ndarray
    v: np.ndarray
    axis: int

    @classmethod
    def of(cls, problem: Problem) -> Coordinates | None:
        """The coordinates that a problem wants; None where it is well posed as it is, or not in memory."""
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
        """The problem in these coordinates, on a copy of its rows in float64."""
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
        """The model of the problem as it was given, in float64, which it needs."""
        coef = model.coef.astype(np.float64)
        if not self.v.size:
            return LinearModel(coef, model.intercept - coef @ self.centre)
        coef, d = self._reflect(coef), self.centre.size
        return LinearModel(np.ascontiguousarray(coef[:, :d]), coef[:, d:].sum(axis=1))
