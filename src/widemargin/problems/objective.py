"""The objective: λ (or C), loss, weights and intercept, and its value as a function of scores.

All conventions stand here and nowhere else. With rows xᵢ, targets yᵢ, weights sᵢ and scores zᵢ = Wᵀxᵢ + b, the primal
is

    P(W, b) = λ/2 ‖W‖² + (1/n) Σ sᵢ ℓ(zᵢ, yᵢ),        λ = 1/(C n),

Labels are ±1 (``Single``), class indices (``OneVsRest`` and the joint losses) or real numbers. A *regularized*
intercept is the weight of a constant feature of value 1, so ‖W‖² includes b². For separate outputs P is the sum over
outputs. With caps C sᵢ each output has

    P = λ (½‖w‖² + Σ C sᵢ ℓ(zᵢ, yᵢ)),        D(β) = λ (−Σ C sᵢ ℓ*(−βᵢ/(C sᵢ)) − ½‖w(β)‖²)  ≤  min P,

for dual variables β with the signs of w = Σ βᵢxᵢ. A free intercept demands Σ βᵢ = 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.borrowing import borrow
from ..core.compiling.dispatch import compiled
from ..core.losses import losses
from ..core.losses.bias import lowest_on_ray, weighted_losses
from ..files import savable
from ..schemas import Array

#: Treatments of the intercept (Pegasos Sec. 6): no intercept; (1) a constant feature;
#: (2) sub-gradient steps without regularisation; (3) minimised in each batch; (4) an outer search.
INTERCEPTS = ("none", "regularized", "unregularized", "exact", "search")

#: Sample weights that are all 1.
NO_WEIGHTS = np.empty(0)

UNIT = 2.0**-53  # u, the relative rounding error of float64
#: A sum of k terms has an error of at most kuΣ|term|, and of at most 10√k uΣ|term| unless rounding errors, taken as
#: independent and without bias, do what they do with a probability of 2k e⁻⁵⁰ (Higham, Mary, SIAM J. Sci. Comput. 41).
LIKELY = 10.0
BALANCED = 1e-9  # |Σ β| / Σ |β| up to which Σ β counts as 0, as a free bias demands; the rest is rounding


@savable()
class Certificate(NamedTuple):
    """What is proven about a model: primal value, dual value and their difference.

    The objective of the model is at most ``gap`` above its minimum. Fitted estimators have it as
    ``certificate_``.

    Attributes
    ----------
    primal : float
        The objective of the model.
    dual : float
        A lower bound of the minimum.
    gap : float
        primal − dual.
    relative_gap : float
        The gap as a share r of the primal value. The minimum is at least 1 − r of what was reached, which is thus at
        most r/(1 − r) above it.

    Examples
    --------
    >>> from widemargin.problems.objective import Certificate
    >>> Certificate(primal=2.0, dual=1.5, gap=0.5).relative_gap
    0.25
    """

    primal: float
    dual: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """The gap as a share r of the primal value, which is thus at most r/(1 − r) above the minimum."""
        return self.gap / max(abs(self.primal), np.finfo(float).tiny)


@savable(primal=Array("problems", finite=False), dual=Array("problems", finite=False))
class Certificates(Sequence):
    """The certificates of many binary problems, stored as two arrays; a sequence of :class:`Certificate`.

    >>> Certificates(np.array([1.0, 2.0]), np.array([0.5, np.nan]))[0].gap
    0.5
    """

    def __init__(self, primal: np.ndarray, dual: np.ndarray) -> None:
        self.primal, self.dual = primal, dual

    def _to_parts(self) -> dict[str, Any]:
        return vars(self)

    @classmethod
    def of(cls, certificates: Iterable[Certificate | None]) -> Certificates:
        """The certificates of some problems, of which some may be None."""
        known = [(math.nan, math.nan) if c is None else c[:2] for c in certificates]
        return cls(*np.array(known, np.float64).reshape(-1, 2).T)

    @property
    def gaps(self) -> np.ndarray:
        """The gaps of all problems, NaN where there is no certificate."""
        return self.primal - self.dual

    def __len__(self) -> int:
        return self.primal.size

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return Certificates(self.primal[k], self.dual[k])
        primal, dual = float(self.primal[k]), float(self.dual[k])
        return None if math.isnan(dual) else Certificate(primal, dual, primal - dual)

    def replace(self, k: int, certificate: Certificate | None) -> None:
        """Set the certificate of problem k, or None."""
        self.primal[k], self.dual[k] = (math.nan, math.nan) if certificate is None else certificate[:2]


@compiled
def add_conjugates(target, y, s, C, alpha, out):
    """out[c] −= Σ C sᵢ ℓ*(−αᵢ/(C sᵢ)) for α of shape (n, outputs)."""
    y, s, alpha, out = borrow(y), borrow(s), borrow(alpha), borrow(out)
    loss = losses.output_loss(target)
    for i in range(alpha.shape[0]):
        weight = C * s[i] if s.size else C
        for c in range(out.size):
            cap = weight * losses.output_weight(target, y[i], c)
            if cap > 0.0:
                out[c] -= cap * losses.conjugate(loss, -alpha[i, c] / cap, losses.output_label(target, y[i], c))


class Objective:
    """Base of problems: the objective for λ, loss (``target``), targets, weights and intercept.

    Methods treat outputs separately; for a joint loss of several classes only :meth:`errors_of` has a meaning.
    """

    lam: float
    target: Any
    y: np.ndarray
    sample_weight: np.ndarray
    intercept: str
    n: int
    n_outputs: int

    def __post_init__(self) -> None:
        check_lam(self.lam)

    @property
    def C(self) -> float:
        """The trade-off 1/(λn) of the C-form."""
        return 1.0 / (self.lam * self.n)

    @property
    def loss(self) -> Any:
        """The loss of one score."""
        return losses.scalar_loss(self.target)

    @property
    def has_free_bias(self) -> bool:
        """Whether the intercept has no penalty, so that the dual variables sum to zero."""
        return self.intercept in ("unregularized", "exact", "search")

    @property
    def constant(self) -> float:
        """The constant that is added to every kernel value: 1 for a regularised intercept, else 0."""
        return 1.0 if self.intercept == "regularized" else 0.0

    @property
    def is_joint(self) -> bool:
        """Whether one loss ties the outputs."""
        return losses.is_joint(self.target)

    def penalty(self, W: np.ndarray, b: np.ndarray) -> float:
        """The regularisation λ/2 ‖W‖² of a linear model, the intercept included when it is regularised."""
        norm2 = sum_of_squares(W)
        if self.intercept == "regularized":
            norm2 += sum_of_squares(b)
        return 0.5 * self.lam * norm2

    def weights_of(self, q: int) -> np.ndarray:
        """Sample weights of output q, empty where all are 1."""
        return self.sample_weight[q] if self.sample_weight.ndim == 2 else self.sample_weight

    def binary_part(self, q: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """(loss, targets, weights) of output q."""
        s = self.weights_of(q)
        s = s if s.size else np.ones(self.n)
        if isinstance(self.target, losses.OneVsRest):
            own = self.y == q
            return self.loss, np.where(own, 1.0, -1.0), np.where(own, self.target.positive_weight[q], 1.0) * s
        return self.loss, self.y[q] if self.y.ndim == 2 else self.y, s

    @property
    def scale(self) -> float:
        """The largest |y| of a regression, among examples with weight; 1 for labels."""
        if not self.loss.is_regression:
            return 1.0
        _, y, s = self.binary_part(0)
        return float(np.abs(y[s > 0.0]).max(initial=0.0)) or 1.0

    def caps_of(self, q: int) -> np.ndarray:
        """The upper bounds C sᵢ of the dual variables of output q."""
        return self.C * self.binary_part(q)[2]

    def value(self, scores: np.ndarray, norm2: np.ndarray) -> float:
        """P of scores of shape (outputs, n), intercepts included, and the ‖w‖² of the outputs."""
        total = 0.0
        for q in range(self.n_outputs):
            loss, y, s = self.binary_part(q)
            total += 0.5 * float(norm2[q]) + weighted_losses(loss, scores[q], 1.0, 0.0, y, self.C * s)
        return self.lam * total

    def mean_losses(self, scores: np.ndarray) -> np.ndarray:
        """The weighted mean loss (1/n) Σ sᵢ ℓ of each output."""
        parts = (self.binary_part(q) for q in range(self.n_outputs))
        return np.array([weighted_losses(l, z, 1.0, 0.0, y, s) / self.n for z, (l, y, s) in zip(scores, parts)])

    def dual(self, beta: np.ndarray, norm2: np.ndarray) -> float:
        """D(β) for β of shape (outputs, n), given ‖w(β)‖² of each output; −∞ outside of the box."""
        out = np.zeros(self.n_outputs)
        add_conjugates(self.target, self.y, self.sample_weight, self.C, beta.T, out)
        return self.lam * float(np.sum(out - 0.5 * norm2))

    def dual_of_multiple(self, beta: np.ndarray, penalty: np.ndarray) -> float:
        """The sum over outputs of max D(θβ) over θ ≥ 0, at least 0; for the hinge and the ε-insensitive loss.

        ``penalty`` is λ‖w(β)‖² of each output, which is in the range of float64 for every C; ‖w(β)‖² may overflow.
        """
        total = 0.0
        for q in range(self.n_outputs):
            (loss, y, s), size, used = self.binary_part(q), np.abs(beta[q]), beta[q] != 0.0
            if loss.is_regression:
                linear = float(beta[q] @ y - loss.epsilon * size.sum())
            else:
                linear = float(size.sum()) if np.all(beta[q] * y >= 0.0) else 0.0
            balanced = not self.has_free_bias or abs(float(beta[q].sum())) <= BALANCED * float(size.sum())
            if balanced and linear > 0.0:
                share = float(np.min(self.C * s[used] / size[used]))
                linear *= self.lam
                share = min(share, linear / float(penalty[q])) if penalty[q] > 0.0 else share
                total += max(0.0, share * (linear - 0.5 * share * float(penalty[q])))
        return total

    def best_multiple(self, f: np.ndarray, norm2: float, q: int = 0) -> tuple[float, float, float]:
        """(multiple, bias, value in the C-form) of the best multiple of a w with responses f, for output q."""
        loss, y, s = self.binary_part(q)
        multiple, bias, value = lowest_on_ray(loss, f, y, s, norm2 / self.C, self.has_free_bias)
        return multiple, bias, self.C * value

    def errors_of(self, scores: np.ndarray) -> float:
        """Weighted share of misclassified examples, for scores of shape (n, outputs); for regression the weighted mean
        absolute error. With one output for each class, an example counts with its weight in its own class's output.
        """
        weights = self.sample_weight
        if self.n_outputs > 1:
            truth = (self.y if self.y.ndim == 1 else self.y.argmax(axis=0)).astype(np.intp)
            if weights.ndim == 2:
                weights = weights[truth, np.arange(truth.size)]
            if isinstance(self.target, losses.OneVsRest):
                of_class = self.target.positive_weight[truth]
                weights = weights * of_class if weights.size else of_class
            return weighted_mean(scores.argmax(axis=1) != truth, weights)
        if self.loss.is_regression:
            return weighted_mean(np.abs(scores[:, 0] - self.y), weights)
        return weighted_mean(np.where(scores[:, 0] > 0, 1.0, -1.0) != self.y, weights)


def weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Σ sᵢvᵢ/Σ sᵢ; empty weights are all 1. If all weights are 0, the mean is 0."""
    if not weights.size:
        return float(np.mean(values))
    total = float(weights.sum())
    return float(weights @ values) / total if total > 0.0 else 0.0


def rounding_of_sum(terms: float) -> float:
    """A bound, as a share of Σ |term|, of the error of a float64 sum of so many products in any order."""
    return UNIT * (1.0 + min(float(terms), LIKELY * math.sqrt(terms)))


def sum_of_squares(a: np.ndarray) -> float:
    """Σ a², accumulated in float64 without a copy of a large array."""
    flat = a.reshape(-1)
    return float(sum(np.square(flat[i : i + 65536], dtype=np.float64).sum() for i in range(0, flat.size, 65536)))


def check_lam(lam: float) -> None:
    """Refuse a λ that is not a finite number > 0."""
    if not (math.isfinite(lam) and lam > 0):
        raise ValueError(f"lam must be a finite number > 0, got {lam}")
