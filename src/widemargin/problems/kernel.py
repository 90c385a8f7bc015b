"""Kernel problems: the objective of w = Σ βᵢΦ(xᵢ), for one or several binary problems on the same examples.

The conventions are those of :mod:`.objective`. A problem also gives the kernel matrix between any two sets of its
examples (:meth:`KernelProblem.matrix`), certificates and models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.kernels.cache import RowCache
from ..core.kernels.matrix import KernelMatrix
from ..core.rows.rows import CSRRows, DenseRows, take_rows
from ..core.threads.interrupts import PROMPT
from ..models import KernelModel
from .bounds import Binary
from .objective import INTERCEPTS, NO_WEIGHTS, Certificate, Objective

FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class KernelProblem(Objective):
    """A kernel SVM: the objective of a linear problem with ⟨w, Φ(x)⟩ instead of ⟨w, x⟩.

    Parameters
    ----------
    kernel : a kernel of :mod:`widemargin.core.kernels.kernels`
    X : the rows that the kernel takes
    y, lam, sample_weight : as in a linear problem. For several binary problems on the same examples, which a solver
        trains together, y and the weights have the shape (n_problems, n)
    target : Single(Hinge()) or Single(EpsilonInsensitive(ε)), …
    intercept : "none", "regularized" (kernel + 1) or "unregularized"
    cache_bytes : float
        Memory for kernel rows.
    threads : int
        Threads that compute kernel values.
    shared : (RowCache, examples), optional
        A cache of kernel rows that other problems use too, and the indices of this problem's examples in it.
    outputs : int
        Number of scores of one problem with class numbers as y, whose solver trains them together.
    dtype : float32 or float64
        The dtype of cached kernel values.
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
        super().__post_init__()
        if self.intercept not in (allowed := INTERCEPTS[:3]):
            names = ", ".join(allowed)
            raise ValueError(f"intercept must be one of {names} for kernel machines, got {self.intercept!r}")

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of examples."""
        return self.y.shape[-1]

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        """Number of scores of a row."""
        return self.outputs if self.y.ndim == 1 else self.y.shape[0]

    @property
    def signs(self) -> np.ndarray:
        """The labels ±1, of shape (n_outputs, n)."""
        return np.atleast_2d(self.y)

    @property
    def caps(self) -> np.ndarray:
        """The upper bounds C sᵢ of the dual variables of the only binary problem."""
        return self.caps_of(0)

    @property
    def entries_per_row(self) -> int:
        """Average number of entries behind a kernel value; 0 for a given matrix and a user's function."""
        if self.kernel.is_table or self.kernel.is_function or not isinstance(self.X, (DenseRows, CSRRows)):
            return 0
        data = self.X.values if isinstance(self.X, DenseRows) else self.X.data
        return data.size // max(1, self.n)

    @property
    def values_at_once(self) -> int:
        """Kernel values that take about a twentieth of a second; after so many a solver returns to Python."""
        # of dense rows eight terms take the time of one: what is done with a value takes longer than short rows
        terms = 32 + self.entries_per_row // 8 if isinstance(self.X, DenseRows) else max(16, self.entries_per_row)
        return max(1, PROMPT // terms)

    def rows(self, chosen: np.ndarray) -> Any:
        """A copy of the chosen rows."""
        return take_rows(self.X, chosen) if isinstance(self.X, (DenseRows, CSRRows)) else self.X[chosen]

    def take(self, chosen: np.ndarray, q: int = 0) -> KernelProblem:
        """Binary problem q on a copy of the chosen examples, with the same λ."""
        X = DenseRows(self.X.values[np.ix_(chosen, chosen)]) if self.kernel.is_table else self.rows(chosen)
        s = self.weights_of(q)
        return replace(self, X=X, y=self.signs[q, chosen], sample_weight=s[chosen] if s.size else s, shared=None)

    def freed(self) -> KernelProblem:
        """The problem with a free intercept, if this one's is a constant feature; else the problem itself.

        A constant feature adds the same component to all Φ(x), in whose direction coordinate steps and water levels
        converge slowly. The objective of the free problem is lower by ½λb², so its lower bounds hold here too.
        """
        return replace(self, intercept="unregularized") if self.intercept == "regularized" else self

    def adopted(self, model: KernelModel) -> tuple[KernelModel, float]:
        """(model, charge): a model of the :meth:`freed` problem for this one, and what that adds to its objective."""
        if self.constant == model.constant:
            return model, 0.0
        intercept = model.intercept - self.constant * model.coef.sum(axis=1)
        charge = 0.5 * self.lam * float(model.intercept @ model.intercept)
        return replace(model, intercept=intercept, constant=self.constant), charge

    def at_zero(self) -> tuple[float, KernelModel]:
        """(objective, model) of w = 0 with the best bias."""
        nothing, bias, objective = np.zeros(self.n), np.zeros(self.n_outputs), 0.0
        for q in range(self.n_outputs):
            _, bias[q], value = self.best_multiple(nothing, 0.0, q)
            objective += self.lam * value
        return objective, self.model(np.zeros((self.n_outputs, self.n)), bias)

    def matrix(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """The kernel matrix between two sets of examples, computed by blocks of rows on demand."""
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
        """A copy of the chosen rows, or X itself if these are all rows in order."""
        whole = chosen.size == self.n and np.array_equal(chosen, np.arange(self.n))
        return self.X if whole else self.rows(chosen)

    def certificate(self, beta: np.ndarray, f: np.ndarray, bias: np.ndarray) -> Certificate:
        """The certificate of w = Σ βᵢΦ(xᵢ) with responses f, both of shape (outputs, n), and biases.

        The dual point is the best multiple of β in the box. With a constant feature the bias is a part of that
        feature's weight.
        """
        root = math.sqrt(self.lam)  # λ‖w‖² is in the range of float64 for every C; ‖w‖² may overflow
        part, above = root * beta, root * bias
        penalty = np.sum(part * (root * f), axis=1)
        beside = self.constant * above * (2.0 * part.sum(axis=1) + above)
        primal = 0.5 * float(np.sum(penalty + beside)) + float(self.mean_losses(f + bias[:, None]).sum())
        dual = self.dual_of_multiple(beta, penalty)
        return Certificate(primal, dual, primal - dual)

    def as_binary(self) -> Binary:
        """The only binary problem, as tables with one row."""
        loss, y, s = self.binary_part(0)
        return Binary(loss, y[None], self.C * s[None], self.lam, self.constant, self.has_free_bias)

    def model(self, beta: np.ndarray, bias: np.ndarray) -> KernelModel:
        """The model of w = Σ βᵢΦ(xᵢ) for β of shape (outputs, n)."""
        support = np.flatnonzero(np.any(beta != 0.0, axis=0))
        return KernelModel(self.kernel, support, self.rows(support), beta[:, support], bias, self.constant)

    def errors(self, model: Any) -> float:
        """Weighted share of misclassified examples; for regression the weighted mean absolute error."""
        return self.errors_of(model.decision_function(self.X))
