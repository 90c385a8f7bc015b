"""Linear problems: the objective of weights and a bias, and lower bounds of its minimum.

The conventions are those of :mod:`.objective`. Fenchel duality gives, for any slopes gᵢ in the domain of ℓ*,

    D(g) = −(1/n) Σ sᵢ ℓ*(gᵢ) − 1/(2λ) ‖(1/n) Σ sᵢ xᵢgᵢᵀ‖²  ≤  min P,

where an unregularised intercept demands Σ sᵢgᵢ = 0 for each output. Each value costs one pass over the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.borrowing import borrow
from ..core.compiling.dispatch import compiled
from ..core.losses import losses
from ..core.losses.bias import BestBias, best_bias, mixed_slope, smoothed_slopes
from ..core.rows.rows import (
    CSRRows,
    DenseRows,
    as_matrix,
    dtype_of,
    row_add,
    row_norms2,
    row_scores,
    shape,
    take_rows,
)
from ..models import LinearModel
from .objective import INTERCEPTS, NO_WEIGHTS, Certificate, Objective, rounding_of_sum, sum_of_squares


@compiled
def _add_losses(X, target, y, s, W, b, z, row, out):
    """out[c] += Σ sᵢ × the loss of output c on row i. z and row are working memory, of one number for each output."""
    X, y, s, W, b, z = borrow(X), borrow(y), borrow(s), borrow(W), borrow(b), borrow(z)
    row, out = borrow(row), borrow(out)
    W, outputs = losses.output_columns(target, W), losses.output_count(target, z)
    for i in range(y.size):
        row_scores(X, i, W, z)
        for c in range(outputs):
            z[c] += b[c]
        if s.size:
            for c in range(outputs):
                row[c] = 0.0
            losses.output_values(target, z, y[i], row)
            for c in range(outputs):
                out[c] += s[i] * row[c]
        else:
            losses.output_values(target, z, y[i], out)


class Affine(NamedTuple):
    """Weights W (d × outputs) and biases b (outputs), or a gradient in them."""

    W: np.ndarray
    b: np.ndarray


@compiled
def _add_slopes(X, target, y, s, at, width, z, g, out):
    """out += (Σ sᵢxᵢgᵢᵀ, Σ sᵢgᵢ) for the slopes gᵢ at ``at``, averaged over ± width; returns Σ sᵢℓ*(gᵢ)."""
    X, y, s, z, g = borrow(X), borrow(y), borrow(s), borrow(z), borrow(g)
    at, out = borrow(at), borrow(out)
    W, A = losses.output_columns(target, at.W), losses.output_columns(target, out.W)
    b, a, outputs = at.b, out.b, losses.output_count(target, z)
    total = 0.0
    for i in range(y.size):
        row_scores(X, i, W, z)
        for c in range(outputs):
            z[c] += b[c]
        smoothed_slopes(target, z, y[i], width, g)
        weight = s[i] if s.size else 1.0
        total += weight * losses.total_conjugate(target, g, y[i])
        some = False
        for c in range(outputs):
            g[c] *= weight
            a[c] += g[c]
            some = some or g[c] != 0.0
        if some:
            row_add(X, i, g, A)
    return total


@compiled
def add_scores(X, V, z, f):
    """f[q, i] += ⟨row i, column q of V⟩, in place; z is working memory, of one number for each column."""
    X, V, z, f = borrow(X), borrow(V), borrow(z), borrow(f)
    for i in range(f.shape[1]):
        row_scores(X, i, V, z)
        for q in range(z.size):
            f[q, i] += z[q]


@compiled
def _add_balanced_slopes(X, loss, y, s, scores, width, best, g, A):
    """A += Σ sᵢxᵢgᵢ for slopes at the best bias, with Σ sᵢgᵢ = 0; returns Σ sᵢℓ*(gᵢ)."""
    X, y, s, scores, g, A = borrow(X), borrow(y), borrow(s), borrow(scores), borrow(g), borrow(A)
    total = 0.0
    for i in range(y.size):
        u = mixed_slope(loss, scores[i], y[i], width, best)
        total += s[i] * losses.conjugate(loss, u, y[i])
        g[0] = s[i] * u
        row_add(X, i, g, A)
    return total


@dataclass(frozen=True, eq=False)
class Problem(Objective):
    """A linear problem: the data and the objective.

    Parameters
    ----------
    X : DenseRows, CSRRows or Remote
        The data, canonical (see :func:`widemargin.core.rows.rows.as_rows`), or an object that fetches single rows and
        columns.
    y : ndarray of float64, shape (n,)
        ±1, class indices or real targets, depending on ``target``.
    target : Single, OneVsRest, MulticlassHinge or MulticlassLog
        The loss, and how labels become outputs.
    lam : float
        λ, the regularisation.
    sample_weight : ndarray of float64, shape (n,) or (0,)
        Weights sᵢ; empty means all ones.
    intercept : one of INTERCEPTS
        The treatment of the intercept.
    n_outputs : int
        Number of scores of a row.
    columns : DenseRows or CSRRows, optional
        The columns of X as rows, if the user gave both layouts.
    """

    X: Any
    y: np.ndarray
    target: Any
    lam: float
    sample_weight: np.ndarray = field(default_factory=lambda: NO_WEIGHTS)
    intercept: str = "none"
    n_outputs: int = 1
    columns: DenseRows | CSRRows | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.intercept not in INTERCEPTS:
            raise ValueError(f"intercept must be one of {', '.join(INTERCEPTS)}, got {self.intercept!r}")
        self._check_sizes()
        if losses.is_joint(self.target) and self.intercept in ("exact", "search"):
            raise ValueError(
                f"intercept={self.intercept!r} treats one output at a time and a joint multi-class loss ties them: "
                "use 'regularized', 'unregularized' or 'none', or multi_class='ovr'"
            )

    def _check_sizes(self) -> None:
        """Check the sizes of all arrays that compiled loops index, because these loops check no bounds."""
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
    def is_open(self) -> bool:
        """Whether the data is in memory, so that a pass over it is affordable."""
        return self.columns is None and isinstance(self.X, (DenseRows, CSRRows))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of data and weights."""
        return dtype_of(self.X)

    @property
    def mean_entries(self) -> float:
        """Average number of stored entries of a row, at least 1; for data in memory."""
        return max(1.0, (self.X.data.size if isinstance(self.X, CSRRows) else self.X.values.size) / self.n)

    @property
    def mean_weight(self) -> float:
        """The mean of the sample weights, 1 without them."""
        return float(self.sample_weight.mean()) if self.sample_weight.size else 1.0

    def take(self, chosen: np.ndarray) -> Problem:
        """The problem on a copy of the chosen examples, with the same λ."""
        weights = self.sample_weight[chosen] if self.sample_weight.size else self.sample_weight
        return replace(self, X=take_rows(self.X, chosen), y=self.y[chosen], sample_weight=weights, columns=None)

    def output_losses(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(1/n) Σ sᵢ ℓ for each output (a joint loss in the first) at weights W of shape (d, n_outputs)."""
        out, W = np.zeros(self.n_outputs), np.ascontiguousarray(W)
        _add_losses(self.X, self.target, self.y, self.sample_weight, W, b, *np.empty((2, self.n_outputs)), out)
        return out / self.n

    def primal(self, W: np.ndarray, b: np.ndarray) -> float:
        """The objective P(W, b)."""
        return self.penalty(W, b) + float(self.output_losses(W, b).sum())

    def at_zero(self) -> tuple[float, LinearModel]:
        """(objective, model) of w = 0, b = 0."""
        W, b = np.zeros((self.d, self.n_outputs), self.dtype), np.zeros(self.n_outputs)
        return float(self._losses_without_features(b).sum()), LinearModel(W.T, b)

    def _losses_without_features(self, b: np.ndarray) -> np.ndarray:
        """The losses of each output at w = 0, without reading data in memory."""
        X = self.X
        if isinstance(self.target, losses.Single) and not self.loss.is_regression and not b.any():
            return np.full(1, losses.value(self.loss, 0.0, 1.0) * self.mean_weight)  # the same for both labels
        if isinstance(X, CSRRows):
            X = CSRRows(X.data[:0], X.indices[:0], np.zeros_like(X.indptr), 0)
        elif isinstance(X, DenseRows):
            X = DenseRows(np.empty((self.n, 0), self.dtype))
        return replace(self, X=X, columns=None).output_losses(np.zeros((shape(X)[1], self.n_outputs), self.dtype), b)

    def norm_bound(self, b: np.ndarray) -> np.ndarray:
        """An upper bound of ‖w‖ at the optimum for fixed b, for each output (for a joint loss one of all).

        λ/2 ‖w*‖² ≤ P(w*) ≤ P(0) holds for every loss. For the hinge with b = 0 equality of primal and dual improves
        this to λ‖w*‖² ≤ mean sᵢ, the radius 1/√λ of the paper.
        """
        at_zero = self._losses_without_features(b)
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
        out = np.zeros((1, self.n))
        add_scores(self.X, np.ascontiguousarray(W[:, c : c + 1]), np.empty(1), out)
        return out[0]

    def best_intercept(self, W: np.ndarray | None) -> np.ndarray:
        """The b that minimises P(W, ·), for each output; W = None stands for 0."""
        b = np.empty(self.n_outputs)
        for c in range(self.n_outputs):
            loss, y, s = self.binary_part(c)
            scores = np.zeros(self.n) if W is None else self.column_scores(W, c)
            lo, hi, _ = best_bias(loss, scores, y, s, 0.0, 0.0)
            b[c] = 0.5 * (lo + hi)
        return b

    def column_squares(self) -> np.ndarray:
        """The weighted mean square (1/n) Σ sᵢxᵢⱼ² of each feature j."""
        X, s = as_matrix(self.X), self.sample_weight
        total, height = np.zeros(self.d), max(1, 2**20 // int(self.mean_entries))
        for first in range(0, self.n, height):
            rows = slice(first, first + height)
            part = X[rows].astype(np.float64, copy=False)
            squares = part.multiply(part) if isinstance(self.X, CSRRows) else np.square(part)
            total += s[rows] @ squares if s.size else np.asarray(squares.sum(axis=0)).ravel()
        return total / self.n

    def ratio_of_sizes(self, squares: np.ndarray | None = None) -> float:
        """Root mean square of the largest feature / that of the median one, without features that are all 0.

        ``squares`` are those of :meth:`column_squares`, if they are known.
        """
        squares = self.column_squares() if squares is None else squares
        squares = squares[squares > 0.0]
        return math.sqrt(squares.max() / np.median(squares)) if squares.size else 1.0

    def gain_of_scaled_step(self, W: np.ndarray, b: np.ndarray, enough: float) -> float:
        """The relative decrease of P(W, b) by a scaled gradient step: a lower bound of what is left to gain.

        The step divides each feature's gradient by the feature's mean square, so that features of different sizes
        count alike. Of five step lengths the best counts; the first with a decrease above ``enough`` ends the search.
        """
        A, a, outputs = np.zeros((self.d, self.n_outputs)), np.zeros(self.n_outputs), self.n_outputs
        z, g, W = np.empty(outputs), np.empty(outputs), np.ascontiguousarray(W)
        _add_slopes(self.X, self.target, self.y, self.sample_weight, Affine(W, b), 0.0, z, g, Affine(A, a))
        charged = self.lam * (self.intercept == "regularized")
        D = (-(A / self.n + self.lam * W) / (self.column_squares() + self.lam)[:, None]).astype(W.dtype)
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

    def certificate(self, W: np.ndarray, b: np.ndarray, known: float = -math.inf) -> Certificate:
        """The certificate of (W, b), with the best of a few dual values and the ``known`` one.

        Dual points are the slopes of the losses at (W, b), and averages of slopes over a width: at a margin of exactly
        1 any slope in [−1, 0] is a sub-gradient, and the optimum uses all of them. For a piecewise-linear loss also
        multiples in [0, 1] are dual points, and the best one counts. Possible rounding errors lower the dual value.
        """
        W = W.astype(np.float64, copy=False)
        penalty, loss = self.penalty(W, b), float(self.output_losses(W, b).sum())
        primal = penalty + loss
        kinked = losses.scalar_loss(self.target).smoothness == math.inf
        widths = (0.0, 0.3) if kinked and not self.is_joint else (0.0,)
        q = self.squared_lengths()
        drift = rounding_of_sum(self.n) * self._pull(loss, self._mean(q))
        dual = max(known, *(self._dual_from(W, b, width, kinked, drift) for width in widths))
        dual = max(0.0, dual - self.lost_by_rounding(penalty, b, loss, q))  # 0 is a bound: no loss is negative
        return Certificate(primal, dual, primal - dual)

    def squared_lengths(self) -> np.ndarray:
        """‖xᵢ‖² of each row."""
        out = np.empty(self.n)
        row_norms2(self.X, out)
        return out

    def _mean(self, values: np.ndarray) -> float:
        """(1/n) Σ sᵢvᵢ."""
        s = self.sample_weight
        return float(s @ values) / self.n if s.size else float(values.mean())

    def _pull(self, loss: float, square: float) -> float:
        """A bound of (1/n) Σ sᵢ|ℓ'|vᵢ over rows and outputs, given the mean loss and the weighted mean of vᵢ².

        By Cauchy's inequality, with |ℓ'| at most its Lipschitz constant, or 2√ℓ for squared losses.
        """
        shape = losses.scalar_loss(self.target)
        most = 1.0
        if isinstance(self.target, losses.OneVsRest):
            most = float(self.target.positive_weight.max(initial=1.0))
        elif isinstance(self.target, losses.MulticlassHinge):
            most = 2.0
        steep = shape.lipschitz**2 * self.n_outputs * self.mean_weight * most
        if shape.lipschitz == math.inf:
            steep = 2.0 * shape.smoothness * loss
        return math.sqrt(steep) * math.sqrt(most * square)

    def lost_by_rounding(self, penalty: float, b: np.ndarray, loss: float, q: np.ndarray) -> float:
        """A bound of the rounding error of the primal value penalty + loss, with scores in float64.

        The error of a score is at most a share of ‖xᵢ‖‖w‖ + |b|. ``q`` are the squared lengths of the rows.
        """
        X, bias = self.X, float(np.abs(b).max())
        longest = self.d if isinstance(X, DenseRows) else int(np.diff(X.indptr).max(initial=0))
        moved = math.sqrt(2.0 * penalty / self.lam) * self._pull(loss, self._mean(q)) + bias * self._pull(
            loss, self.mean_weight
        )
        return rounding_of_sum(longest + 1) * moved + rounding_of_sum(self.n) * loss

    def _dual_from(self, W: np.ndarray, b: np.ndarray, width: float, scalable: bool, drift: float) -> float:
        # float64, because rounding in a long sum would spoil the bound
        A, W = np.zeros((self.d, self.n_outputs)), np.ascontiguousarray(W)
        free = self.has_free_bias
        if free and self.is_joint:
            return -math.inf
        if free:
            conjugates = 0.0
            for c in range(self.n_outputs):
                loss, y, s = self.binary_part(c)
                scores = self.column_scores(W, c)
                best, column = BestBias(*best_bias(loss, scores, y, s, width, 0.0)), np.zeros((self.d, 1))
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
        dual -= drift / self.lam * (math.sqrt(norm2) / self.n + 0.5 * drift) + rounding_of_sum(self.n) * abs(linear)
        return dual if math.isfinite(dual) else -math.inf
