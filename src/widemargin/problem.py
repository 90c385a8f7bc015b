"""The problem: data, loss and regularisation, and what is being minimised.

Conventions stand here and nowhere else. With rows xᵢ, targets yᵢ, weights sᵢ and
scores zᵢ = Wᵀxᵢ + b, the primal objective is

    P(W, b) = λ/2 ‖W‖² + (1/n) Σ sᵢ ℓ(zᵢ, yᵢ),        λ = 1/(C n),

labels are ±1 (``Single``), class indices (``OneVsRest`` and the joint losses) or
real numbers, and a *regularized* intercept is the weight of a constant feature of
value 1, so b² stands in ‖W‖². For separate outputs P is the sum over outputs.
Fenchel duality gives, for any slopes gᵢ in the domain of ℓ*,

    D(g) = −(1/n) Σ sᵢ ℓ*(gᵢ) − 1/(2λ) ‖(1/n) Σ sᵢ xᵢgᵢᵀ‖²  ≤  min P,

where an unregularised intercept demands Σ sᵢgᵢ = 0 for each output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from .core import losses
from .core.bias import best_bias, mixed_slope, smoothed_slopes
from .core.dispatch import borrow, compiled
from .core.kernel_cache import RowCache
from .core.kernel_matrix import KernelMatrix
from .core.rows import (
    CSRRows,
    DenseRows,
    as_matrix,
    borrowed,
    dtype_of,
    row_add,
    row_scores,
    shape,
    take_rows,
)
from .models import KernelModel, LinearModel
from .objective import Certificate, Objective

#: Treatments of the intercept (Pegasos Sec. 6): no intercept; (1) a constant feature;
#: (2) sub-gradient steps without regularisation; (3) minimised in each batch; (4) an outer search.
INTERCEPTS = ("none", "regularized", "unregularized", "exact", "search")

NO_WEIGHTS = np.empty(0)


@compiled
def _add_losses(X, target, y, s, W, b, z, out):
    """out[c] += Σ sᵢ × the loss of output c on row i."""
    X, y, s, W, b, z = borrowed(X), borrow(y), borrow(s), borrow(W), borrow(b), borrow(z)
    row = np.zeros(out.size)
    for i in range(y.size):
        row_scores(X, i, W, z)
        for c in range(z.size):
            z[c] += b[c]
        if s.size:
            row[:] = 0.0
            losses.output_values(target, z, y[i], row)
            for c in range(z.size):
                out[c] += s[i] * row[c]
        else:
            losses.output_values(target, z, y[i], out)


class Affine(NamedTuple):
    """Weights W (d × outputs) and biases b (outputs), or a gradient in them."""

    W: np.ndarray
    b: np.ndarray


@compiled
def _add_slopes(X, target, y, s, at, width, z, g, out):
    """out += (Σ sᵢxᵢgᵢᵀ, Σ sᵢgᵢ) for the slopes at ``at``, smoothed over width; returns Σ sᵢℓ*(gᵢ)."""
    X, y, s, W, b = borrowed(X), borrow(y), borrow(s), borrow(at.W), borrow(at.b)
    z, g, A, a = borrow(z), borrow(g), borrow(out.W), borrow(out.b)
    total = 0.0
    for i in range(y.size):
        row_scores(X, i, W, z)
        for c in range(z.size):
            z[c] += b[c]
        smoothed_slopes(target, z, y[i], width, g)
        weight = s[i] if s.size else 1.0
        total += weight * losses.total_conjugate(target, g, y[i])
        for c in range(z.size):
            g[c] *= weight
            a[c] += g[c]
        row_add(X, i, g, A)
    return total


@compiled
def _column_scores(X, w, z, out):
    """out[i] ← ⟨w, xᵢ⟩ for w of shape (d, 1)."""
    X, w, z, out = borrowed(X), borrow(w), borrow(z), borrow(out)
    for i in range(out.size):
        row_scores(X, i, w, z)
        out[i] = z[0]


@compiled
def _add_balanced_slopes(X, loss, y, s, scores, width, best, g, A):
    """A += Σ sᵢxᵢgᵢ for slopes that sum to zero over the examples; returns Σ sᵢℓ*(gᵢ)."""
    X, y, s, scores, g, A = borrowed(X), borrow(y), borrow(s), borrow(scores), borrow(g), borrow(A)
    total = 0.0
    for i in range(y.size):
        u = mixed_slope(loss, scores[i], y[i], width, best)
        total += s[i] * losses.conjugate(loss, u, y[i])
        g[0] = s[i] * u
        row_add(X, i, g, A)
    return total


@dataclass(frozen=True, eq=False)
class Problem(Objective):
    """What is minimised, and its value.

    Parameters
    ----------
    X : DenseRows or CSRRows
        The data, canonical (see :func:`widemargin.core.rows.as_rows`).
    y : ndarray of float64, shape (n,)
        ±1, class indices or real targets, as ``target`` wants them.
    target : Single, OneVsRest, MulticlassHinge or MulticlassLog
        The loss and how the outputs share it.
    lam : float
        λ, the regularisation.
    sample_weight : ndarray of float64, shape (n,) or (0,)
        Weights sᵢ; empty means all ones.
    intercept : one of INTERCEPTS
    n_outputs : int
        Number of scores per row.
    """

    X: DenseRows | CSRRows
    y: np.ndarray
    target: Any
    lam: float
    sample_weight: np.ndarray = field(default_factory=lambda: NO_WEIGHTS)
    intercept: str = "none"
    n_outputs: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lam) and self.lam > 0):
            raise ValueError(f"lam must be a finite number > 0, got {self.lam}")
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"intercept must be one of {', '.join(INTERCEPTS)}, got {self.intercept!r}")
        self._check_sizes()
        if losses.is_joint(self.target) and self.intercept in ("exact", "search"):
            raise ValueError(
                f"intercept={self.intercept!r} treats one output at a time and a joint multi-class loss ties them: "
                "use 'regularized', 'unregularized' or 'none', or multi_class='ovr'"
            )

    def _check_sizes(self) -> None:
        """Compiled loops check no bounds, so everything they index has its size checked here."""
        n, outputs = self.n, self.n_outputs
        if self.y.shape != (n,):
            raise ValueError(f"y must have one entry for each of {n} rows, got shape {self.y.shape}")
        if self.sample_weight.shape not in ((0,), (n,)):
            raise ValueError(f"sample_weight must be empty or have {n} entries, got shape {self.sample_weight.shape}")
        if isinstance(self.target, losses.Single):
            expected = 1
        elif isinstance(self.target, losses.OneVsRest):
            expected = self.target.positive_weight.size
        elif isinstance(self.target, losses.MulticlassHinge):
            expected = self.target.cost.shape[0] if self.target.cost.shape[0] == self.target.cost.shape[1] else -1
        else:
            expected = outputs
        if outputs != expected:
            raise ValueError(f"n_outputs is {outputs} and the target has {expected}: make them agree")
        if outputs > 1 and n > 0 and (self.y.min() < 0 or self.y.max() >= outputs):
            raise ValueError(f"y must hold class indices from 0 to {outputs - 1}, got {self.y.min()} to {self.y.max()}")

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of examples."""
        return shape(self.X)[0]

    @property
    def d(self) -> int:
        """Number of features."""
        return shape(self.X)[1]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of data and weights."""
        return dtype_of(self.X)

    @property
    def is_joint(self) -> bool:
        """Whether one loss ties the outputs."""
        return losses.is_joint(self.target)

    @property
    def mean_weight(self) -> float:
        """The mean of the sample weights, 1 without them."""
        return float(self.sample_weight.mean()) if self.sample_weight.size else 1.0

    def take(self, chosen: np.ndarray) -> Problem:
        """The problem on a copy of the chosen examples, with the same λ."""
        weights = self.sample_weight[chosen] if self.sample_weight.size else self.sample_weight
        return Problem(
            take_rows(self.X, chosen), self.y[chosen], self.target, self.lam, weights, self.intercept, self.n_outputs
        )

    def output_losses(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(1/n) Σ sᵢ ℓ for each output (a joint loss in the first) at weights W of shape (d, n_outputs)."""
        out, W = np.zeros(self.n_outputs), np.ascontiguousarray(W)
        _add_losses(self.X, self.target, self.y, self.sample_weight, W, b, np.empty(self.n_outputs), out)
        return out / self.n

    def penalty(self, W: np.ndarray, b: np.ndarray) -> float:
        """The regularisation λ/2 ‖W‖², the intercept included when it is regularised."""
        norm2 = sum_of_squares(W)
        if self.intercept == "regularized":
            norm2 += sum_of_squares(b)
        return 0.5 * self.lam * norm2

    def primal(self, W: np.ndarray, b: np.ndarray) -> float:
        """The objective P(W, b)."""
        return self.penalty(W, b) + float(self.output_losses(W, b).sum())

    def at_zero(self) -> tuple[float, LinearModel]:
        """The objective of w = 0, b = 0, and the model."""
        W, b = np.zeros((self.d, self.n_outputs), self.dtype), np.zeros(self.n_outputs)
        return self.primal(W, b), LinearModel(W.T, b)

    def norm_bound(self, b: np.ndarray) -> np.ndarray:
        """A radius for each output (one for all if joint) that holds the optimum for a given fixed b.

        λ/2 ‖w*‖² ≤ P(w*) ≤ P(0) holds for every loss. For the hinge with b free
        or absent, equality of primal and dual improves it to λ‖w*‖² ≤ mean sᵢ,
        the radius 1/√λ of the paper.
        """
        at_zero = self.output_losses(np.zeros((self.d, self.n_outputs), self.dtype), b)
        if self.is_joint:
            at_zero[:] = at_zero.sum()
        if isinstance(losses.scalar_loss(self.target), losses.Hinge) and not b.any():
            return np.sqrt(at_zero / self.lam)
        return np.sqrt(2.0 * at_zero / self.lam)

    def errors(self, model: LinearModel) -> float:
        """Weighted share of misclassified examples; for regression the weighted mean absolute error."""
        return self.errors_of(model.decision_function(as_matrix(self.X)))

    def column_scores(self, W: np.ndarray, c: int) -> np.ndarray:
        """The scores ⟨w_c, xᵢ⟩ of all rows, without the intercept."""
        out = np.empty(self.n)
        _column_scores(self.X, np.ascontiguousarray(W[:, c : c + 1]), np.empty(1), out)
        return out

    def best_intercept(self, W: np.ndarray) -> np.ndarray:
        """The b that minimises P(W, ·), output by output."""
        b = np.empty(self.n_outputs)
        for c in range(self.n_outputs):
            loss, y, s = self.binary_part(c)
            lo, hi, _ = best_bias(loss, self.column_scores(W, c), y, s, 0.0)
            b[c] = 0.5 * (lo + hi)
        return b

    def column_squares(self) -> np.ndarray:
        """The weighted mean square (1/n) Σ sᵢxᵢⱼ² of each feature j."""
        matrix, weights = as_matrix(self.X), self.sample_weight if self.sample_weight.size else np.ones(self.n)
        total, height = np.zeros(self.d), max(1, 2**20 // max(1, self.d))
        for first in range(0, self.n, height):
            part, s = matrix[first : first + height], weights[first : first + height]
            squares = part * part if isinstance(part, np.ndarray) else part.multiply(part)
            total += s @ squares
        return total / self.n

    def ratio_of_sizes(self) -> float:
        """The root mean square of the largest feature over that of the median one; features of zeros do not count."""
        squares = self.column_squares()
        squares = squares[squares > 0.0]
        return math.sqrt(squares.max() / np.median(squares)) if squares.size else 1.0

    def gain_of_scaled_step(self, W: np.ndarray, b: np.ndarray, enough: float) -> float:
        """A share of P(W, b) by which a better point lies below it; a lower bound on what is left to gain.

        The point is the best of a few steps against the gradient, each feature's part divided by its mean square, which
        no difference of scales can hide. The first that gains more than ``enough`` is good enough.
        """
        A, a, outputs = np.zeros((self.d, self.n_outputs)), np.zeros(self.n_outputs), self.n_outputs
        z, g, W = np.empty(outputs), np.empty(outputs), np.ascontiguousarray(W)
        _add_slopes(self.X, self.target, self.y, self.sample_weight, Affine(W, b), 0.0, z, g, Affine(A, a))
        charged = self.lam * (self.intercept == "regularized")
        D = -(A / self.n + self.lam * W) / (self.column_squares() + self.lam)[:, None]
        e = -(a / self.n + charged * b) / (self.mean_weight + charged)
        if self.intercept in ("none", "search"):
            e[:] = 0.0

        def values(t: float) -> np.ndarray:
            V, c = W + t * D, b + t * e
            out = self.output_losses(V, c)
            out += 0.5 * self.lam * np.array([sum_of_squares(V[:, k]) for k in range(outputs)])
            out += 0.5 * charged * c**2
            return np.atleast_1d(out.sum()) if self.is_joint else out

        least = values(0.0)
        objective = float(least.sum())
        for t in (1.0, 4.0, 0.25, 0.0625, 0.015625):
            least = np.minimum(least, values(t))
            if objective - least.sum() > enough * objective:
                break
        return (objective - float(least.sum())) / objective if objective > 0.0 else 0.0

    def certificate(self, W: np.ndarray, b: np.ndarray) -> Certificate:
        """Primal value at (W, b) and the best of a few dual values found from it.

        The dual points are slopes at (W, b), as they are and smoothed: a
        margin of exactly 1 has any slope in [−1, 0] and the optimum uses them
        all. A piecewise-linear loss also allows the best multiple in [0, 1].
        """
        primal = self.primal(W, b)
        kinked = losses.scalar_loss(self.target).smoothness == math.inf
        widths = (0.0, 0.3) if kinked and not self.is_joint else (0.0,)
        # no loss is negative, so 0 is a dual value too
        dual = max(0.0, *(self._dual_from(W, b, width, kinked) for width in widths))
        return Certificate(primal, dual, primal - dual)

    def _dual_from(self, W: np.ndarray, b: np.ndarray, width: float, scalable: bool) -> float:
        # in float64: a bound must not suffer from a long sum's rounding
        A, W = np.zeros((self.d, self.n_outputs)), np.ascontiguousarray(W)
        free = self.has_free_bias
        if free and self.is_joint:
            return -math.inf
        if free:
            conjugates = 0.0
            for c in range(self.n_outputs):
                loss, y, s = self.binary_part(c)
                scores = self.column_scores(W, c)
                best, column = best_bias(loss, scores, y, s, width), np.zeros((self.d, 1))
                conjugates += _add_balanced_slopes(self.X, loss, y, s, scores, width, best, np.empty(1), column)
                A[:, c] = column[:, 0]
            norm2 = sum_of_squares(A)
        else:
            a = np.zeros(self.n_outputs)
            z, g, at, out = np.empty(self.n_outputs), np.empty(self.n_outputs), Affine(W, b), Affine(A, a)
            conjugates = _add_slopes(self.X, self.target, self.y, self.sample_weight, at, width, z, g, out)
            norm2 = sum_of_squares(A) + (sum_of_squares(a) if self.intercept == "regularized" else 0.0)
        linear, quadratic = -conjugates / self.n, norm2 / (self.lam * self.n**2)
        share = min(1.0, max(0.0, linear / quadratic)) if scalable and quadratic > 0 else 1.0
        dual = share * linear - 0.5 * share**2 * quadratic
        return dual if math.isfinite(dual) else -math.inf


@dataclass(frozen=True, eq=False)
class KernelProblem(Objective):
    """A kernel SVM: the same objective with ⟨w, Φ(x)⟩ for ⟨w, x⟩, and w = Σ σ_vα_v Φ(row v).

    Parameters
    ----------
    kernel : a kernel of :mod:`widemargin.core.kernels`
    X : the rows the kernel takes
    y, lam, sample_weight : as in :class:`Problem`; or, for several binary problems on the same examples, y and the
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

    dtype = np.dtype(np.float32)
    overflow = "kernel values exceed float32: scale the data, or lower degree or gamma"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lam) and self.lam > 0):
            raise ValueError(f"lam must be a finite number > 0, got {self.lam}")
        allowed = ("none", "regularized", "unregularized")
        if self.intercept not in allowed:
            names = ", ".join(allowed)
            raise ValueError(f"the intercept of a kernel SVM must be one of {names}, got {self.intercept!r}")

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
    def constant(self) -> float:
        """Added to every kernel value: 1 for a regularised intercept."""
        return 1.0 if self.intercept == "regularized" else 0.0

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
        """The kernel between two sets of examples, computed by blocks of rows on demand, in float32."""
        if self.shared is not None:
            rows_of_all, own = self.shared
            return rows_of_all.part(own[rows], own[columns])
        if self.kernel.is_table:
            whole = rows is columns and self._rows_or_all(rows) is self.X
            table = self.X if whole else DenseRows(self.X.values[np.ix_(rows, columns)])
            return KernelMatrix(self.kernel, table, dtype=np.float32)
        X, Z = self._rows_or_all(rows), None if rows is columns else self._rows_or_all(columns)
        return KernelMatrix(self.kernel, X, Z, dtype=np.float32, threads=self.threads)

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

    def certificate_of(self, rows: Any, support: np.ndarray, coefficients: np.ndarray, bias: float) -> Certificate:
        """The certificate of w = Σ cᵢΦ(xᵢ) over some examples from kernel values of ``rows`` in float64."""
        c, beta = coefficients, np.zeros((1, self.n))
        beta[0, support] = c
        if self.kernel.is_table:
            matrix = KernelMatrix(self.kernel, DenseRows(rows.values[support]), dtype=np.float64)
        else:
            own = replace(self, X=rows, shared=None).rows(support)
            matrix = KernelMatrix(self.kernel, own, rows, dtype=np.float64, threads=self.threads)
        f = np.full((1, self.n), self.constant * float(c.sum()))
        height = max(16, 2**22 // max(1, self.n))
        for first in range(0, support.size, height):
            part = np.arange(first, min(first + height, support.size))
            f[0] += c[part] @ matrix.block(part)
        return self.certificate(beta, f, np.array([bias]))

    def model(self, beta: np.ndarray, bias: np.ndarray) -> KernelModel:
        """The model of w = Σ βᵢΦ(xᵢ) for β of shape (outputs, n)."""
        support = np.flatnonzero(np.any(beta != 0.0, axis=0))
        return KernelModel(self.kernel, support, self.rows(support), beta[:, support], bias, self.constant)

    def errors(self, model: Any) -> float:
        """Weighted share of misclassified examples; for regression the weighted mean absolute error."""
        return self.errors_of(model.decision_function(self.X))


def sum_of_squares(a: np.ndarray) -> float:
    """Σ a², accumulated in float64 without a copy of a large array."""
    flat = a.reshape(-1)
    return float(sum(np.square(flat[i : i + 65536], dtype=np.float64).sum() for i in range(0, flat.size, 65536)))


@dataclass(frozen=True, eq=False)
class StructuredProblem:
    """Structured outputs through an argmax oracle (Pegasos, Example 5).

    The loss of example (x, y) is max over ŷ of δ(ŷ, y) − ⟨w, φ(x, y) − φ(x, ŷ)⟩.

    Parameters
    ----------
    examples : sequence of (x, y)
        Anything the oracle understands.
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
        if not (math.isfinite(self.lam) and self.lam > 0):
            raise ValueError(f"lam must be a finite number > 0, got {self.lam}")
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
        """The oracle's answers at w for the chosen examples: rows of differences, and costs."""
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
        """A radius that holds the optimum, √(2 P(0)/λ)."""
        return np.sqrt([2.0 * self.primal(np.zeros((self.d, 1)), b) / self.lam])
