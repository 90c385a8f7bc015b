"""Kernel problems: the objective of an expansion over examples, several binary problems on them, and kernel values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.interrupts import PROMPT
from ..core.kernel_cache import RowCache
from ..core.kernel_matrix import KernelMatrix
from ..core.rows import CSRRows, DenseRows, take_rows
from ..models import KernelModel
from .objective import NO_WEIGHTS, Certificate, Objective, check_lam

FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class KernelProblem(Objective):
    """A kernel SVM: the same objective with ⟨w, Φ(x)⟩ for ⟨w, x⟩, and w = Σ σ_vα_v Φ(row v).

    Parameters
    ----------
    kernel : a kernel of :mod:`widemargin.core.kernels`
    X : the rows the kernel takes
    y, lam, sample_weight : as in a linear problem; or, for several binary problems on the same examples, y and the
        weights of shape (n_problems, n), for solvers that train them together
    target : Single(Hinge()) or Single(EpsilonInsensitive(ε)), …
    intercept : "none", "regularized" (kernel + 1) or "unregularized"
    cache_bytes : float
        Memory for kernel rows.
    threads : int
        Threads that compute kernel values.
    shared : (RowCache, examples), optional
        Kernel rows shared with other problems, and which of its examples are those of this problem.
    outputs : int
        Number of scores of one problem whose solver trains them together, with class numbers as y.
    dtype : float32 or float64
        Of the kernel values that solvers keep.
    """

    kernel: Any
    X: Any
    y: np.ndarray
    target: Any
    lam: float
    sample_weight: np.ndarray = field(default_factory=lambda: NO_WEIGHTS)
    intercept: str = "unregularized"
    cache_bytes: float = 200 * 2**20
    threads: int = 1
    shared: tuple[RowCache, np.ndarray] | None = None
    outputs: int = 1
    dtype: np.dtype = FLOAT32

    overflow = "kernel values exceed float32: scale the data, or lower degree or gamma"

    def __post_init__(self) -> None:
        check_lam(self.lam)
        allowed = ("none", "regularized", "unregularized")
        if self.intercept not in allowed:
            names = ", ".join(allowed)
            raise ValueError(f"intercept must be one of {names} for kernel machines, got {self.intercept!r}")

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of examples."""
        return self.y.shape[-1]

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """Number of scores: those of one problem, or of several binary ones."""
        return self.outputs if self.y.ndim == 1 else self.y.shape[0]

    @property
    def signs(self) -> np.ndarray:
        """The labels ±1 as (n_outputs, n)."""
        return np.atleast_2d(self.y)

    def weights_of(self, q: int) -> np.ndarray:
        """Sample weights of binary problem q, empty where all are 1."""
        return self.sample_weight[q] if self.sample_weight.ndim == 2 else self.sample_weight

    @property
    def caps(self) -> np.ndarray:
        """The upper bounds C sᵢ of the dual variables of the only binary problem."""
        return self.caps_of(0)

    @property
    def entries_per_row(self) -> int:
        """Entries of the data that a kernel value is computed from, on average; 0 where they are not looked at here."""
        if self.kernel.is_table or self.kernel.is_function or not isinstance(self.X, (DenseRows, CSRRows)):
            return 0
        data = self.X.values if isinstance(self.X, DenseRows) else self.X.data
        return data.size // max(1, self.n)

    @property
    def constant(self) -> float:
        """Added to every kernel value: 1 for a regularised intercept."""
        return 1.0 if self.intercept == "regularized" else 0.0

    @property
    def values_at_once(self) -> int:
        """Kernel values that take a twentieth of a second or so: after them a solver lets others look at the clock."""
        return max(1, PROMPT // max(16, self.entries_per_row))

    def rows(self, chosen: np.ndarray) -> Any:
        """A copy of the chosen rows."""
        if isinstance(self.X, (DenseRows, CSRRows)) and not self.kernel.is_table:
            return take_rows(self.X, chosen)
        return self.X[chosen] if not self.kernel.is_table else DenseRows(self.X.values[chosen])

    def take(self, chosen: np.ndarray, q: int = 0) -> KernelProblem:
        """Binary problem q on a copy of the chosen examples, with the same λ."""
        X = DenseRows(self.X.values[np.ix_(chosen, chosen)]) if self.kernel.is_table else self.rows(chosen)
        s = self.weights_of(q)
        return replace(self, X=X, y=self.signs[q, chosen], sample_weight=s[chosen] if s.size else s, shared=None)

    def freed(self) -> KernelProblem:
        """The problem whose intercept is free, if this one's is a constant feature; else the problem itself.

        A constant feature adds its own direction to all Φ(x), along which coordinates and water levels crawl. The free
        problem's objective is lower by ½λb², so that a lower bound of it is one of this problem's too.
        """
        return replace(self, intercept="unregularized") if self.intercept == "regularized" else self

    def adopted(self, model: KernelModel) -> tuple[KernelModel, float]:
        """A model of the :meth:`freed` problem as one of this problem, and by how much the objective is larger here."""
        if self.constant == model.constant:
            return model, 0.0
        intercept = model.intercept - self.constant * model.coef.sum(axis=1)
        charge = 0.5 * self.lam * float(model.intercept @ model.intercept)
        return replace(model, intercept=intercept, constant=self.constant), charge

    def value_at_zero(self) -> float:
        """The objective of w = 0, b = 0."""
        return self.value(np.zeros((self.n_outputs, self.n)), np.zeros(self.n_outputs))

    def at_zero(self) -> tuple[float, KernelModel]:
        """The objective of w = 0 with its best bias, and the model."""
        nothing, bias, objective = np.zeros(self.n), np.zeros(self.n_outputs), 0.0
        for q in range(self.n_outputs):
            _, bias[q], value = self.best_multiple(nothing, 0.0, q)
            objective += self.lam * value
        return objective, self.model(np.zeros((self.n_outputs, self.n)), bias)

    def matrix(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """The kernel between two sets of examples, computed by blocks of rows on demand."""
        if self.shared is not None:
            rows_of_all, own = self.shared
            return rows_of_all.part(own[rows], own[columns])
        if self.kernel.is_table:
            whole = rows is columns and self._rows_or_all(rows) is self.X
            table = self.X if whole else DenseRows(self.X.values[np.ix_(rows, columns)])
            return KernelMatrix(self.kernel, table, dtype=self.dtype)
        X, Z = self._rows_or_all(rows), None if rows is columns else self._rows_or_all(columns)
        return KernelMatrix(self.kernel, X, Z, dtype=self.dtype, threads=self.threads)

    def _rows_or_all(self, chosen: np.ndarray) -> Any:
        """The chosen rows; X itself, and no copy, where they are all rows in order."""
        whole = chosen.size == self.n and np.array_equal(chosen, np.arange(self.n))
        return self.X if whole else self.rows(chosen)

    def certificate(self, beta: np.ndarray, f: np.ndarray, bias: np.ndarray) -> Certificate:
        """Primal and dual of w = Σ βᵢΦ(xᵢ) with responses f, both of shape (outputs, n), and biases.

        The dual point is the best multiple of β in the box. A bias beside a constant feature is a part of that
        feature's weight.
        """
        norm2 = np.sum(beta * f, axis=1)
        beside = self.constant * bias * (2.0 * beta.sum(axis=1) + bias)
        primal, dual = self.value(f + bias[:, None], norm2 + beside), self.dual_of_multiple(beta, norm2)
        return Certificate(primal, dual, primal - dual)

    def bounded(
        self, beta: np.ndarray, scores: np.ndarray, bias: float, error: np.ndarray, largest: float
    ) -> Certificate:  # fmt: skip
        """The certificate of w = Σ βᵢΦ(xᵢ) and a bias from scores that are known up to an error each.

        P is not below that of w, and D not above that of a multiple of β, whatever the true scores are within their
        errors. ``largest`` bounds k(x, x). Sums of n numbers may be wrong by n roundings of the sum of their sizes.
        A free bias wants Σ β = 0: what rounding leaves of it is taken off the coefficient where that costs least.
        """
        loss, y, s = self.binary_part(0)
        f, size, cap, theta, dual = scores - bias, np.abs(beta), self.C * s, 0.0, 0.0
        missed = np.abs(scores - y) - loss.epsilon if loss.is_regression else 1.0 - y * scores
        off, rounded = float(size @ error), self.n * float(np.finfo(np.float64).eps)
        norm2, turned = float(beta @ f), float(size @ np.abs(f))
        beside = self.constant * bias * (2.0 * float(beta.sum()) + bias)
        lost = float(cap @ np.maximum(missed + error, 0.0))
        primal = 0.5 * (max(norm2, 0.0) + off + beside + rounded * turned) + (1.0 + rounded) * lost
        linear = float(beta @ y) - (loss.epsilon * float(size.sum()) if loss.is_regression else 0.0)
        used, norm2 = beta != 0.0, norm2 + off + rounded * turned
        if linear > 0.0 and (loss.is_regression or bool(np.all(beta * y >= 0.0))):
            theta = float(np.min(cap[used] / size[used]))
            theta = min(theta, linear / norm2) if norm2 > 0.0 else theta
            dual = theta * linear - 0.5 * theta**2 * norm2 - rounded * theta * float(size @ np.abs(y))
            left = theta * float(beta.sum()) if self.has_free_bias else 0.0
            if left != 0.0:
                moved = theta * beta - left
                fits = (np.abs(moved) <= cap) & ((beta * moved > 0.0) | loss.is_regression)
                slope = np.where(fits, np.abs(y - theta * f) + theta * error, np.inf).min()
                epsilon = loss.epsilon if loss.is_regression else 0.0
                dual -= abs(left) * (float(slope) + epsilon) + 0.5 * left**2 * largest
        primal, dual = self.lam * primal, self.lam * max(dual, 0.0)
        return Certificate(primal, dual, primal - dual)

    def model(self, beta: np.ndarray, bias: np.ndarray) -> KernelModel:
        """The model of w = Σ βᵢΦ(xᵢ) for β of shape (outputs, n)."""
        support = np.flatnonzero(np.any(beta != 0.0, axis=0))
        return KernelModel(self.kernel, support, self.rows(support), beta[:, support], bias, self.constant)

    def errors(self, model: Any) -> float:
        """Weighted share of misclassified examples; for regression the weighted mean absolute error."""
        return self.errors_of(model.decision_function(self.X))
