"""The dual of kernel SVMs: its variables, values, optimality conditions, certificate and model.

Problem, in the C-form (½‖w‖² + C Σ losses; λ times that is the λ-form, λ/2 ‖w‖² + the mean loss), for variables
v = 1 … m over the rows of the data::

    max  D(α) = Σ h_v σ_v α_v − ½ Σ_{v,w} σ_v σ_w α_v α_w K(row v, row w)     0 ≤ α_v ≤ C_v,
    Σ σ_v α_v = 0                                                            where the bias is free

Given are signs σ, offsets h and bounds C. A classifier has one variable per row, with σ = h = y. A regressor with an
ε-tube has two: σ = +1, h = y − ε and σ = −1, h = y + ε.

The state is α with its responses f_i = Σ σ_v α_v K(i, row v). The gradient of D in σ_v α_v is e_v = h_v − f(row v):
moving σ_v α_v up by t raises D by t e_v − ½ t² K_vv. At the optimum with a free bias b

    max {e_v : σ_v α_v can rise}  ≤  b  ≤  min {e_v : σ_v α_v can fall};

without a bias, e_v ≤ 0 where σ_v α_v can rise and e_v ≥ 0 where it can fall. The duality gap costs O(m), since the
responses are known::

    P − D = Σ_v (C_v [σ_v (e_v − b)]₊ − α_v σ_v (e_v − b))

:mod:`.rounds` moves α, :mod:`.smo` and :mod:`.pairs` are solvers on the CPU, :mod:`widemargin.backends.smo` is one on
a GPU.

Fan, Chen, Lin: Working set selection using second order information for training support vector machines.
JMLR 6 (2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.compiling.dispatch import apart, inlined
from ...core.intrinsics.extremes import larger, smaller
from ...core.losses import losses
from ...files import savable
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate
from .. import protocol
from ..protocol import Capabilities, Solver

# Tuned numbers.
ROUGHLY = 0.05  # relative gap; below it w(α) itself is the model, above it the best multiple of w(α) is looked for
TAU = 1e-12  # least curvature of a direction; an indefinite kernel can have less
FEASIBLE = 1e-12  # share of Σα; a smaller |Σσα| is rounding, and correcting it would take variables off their bounds
HALVINGS = 100  # bisections for the nearest feasible point; 60 exhaust float64

# ---------------------------------------------------------------- compiled parts


@inlined
def bars(sigma, cap, alpha):
    """(0 where σα can rise, else −∞; 0 where σα can fall, else +∞).

    Added to e, they leave out what cannot rise where a largest e is looked for, and what cannot fall for a smallest.
    """
    # of α itself: ∞ where it cannot grow, or cannot shrink
    grows, shrinks = 0.0 if alpha < cap else np.inf, 0.0 if alpha > 0.0 else np.inf
    return (-grows, shrinks) if sigma > 0.0 else (-shrinks, grows)


@apart
def violations(sigma, h, cap, row, alpha, f, up, down):
    """up[v] ← e_v where σ_vα_v can rise, else −∞; down[v] ← e_v where it can fall, else +∞; returns their extremes."""
    top, bottom = -np.inf, np.inf
    for v in range(alpha.size):
        e = h[v] - f[row[v]]
        rises, falls = bars(sigma[v], cap[v], alpha[v])
        up[v], down[v] = e + rises, e + falls
        top, bottom = larger(top, up[v]), smaller(bottom, down[v])
    return top, bottom


@apart
def excess(sigma, h, cap, row, alpha, f, b):
    """(duality gap, Σ σα (h − ½f)) of the given variables, where all others stand still.

    The sum is the dual value where all others are 0. Else it lacks a part, and only the gap is to be used.
    """
    gap, dual = 0.0, 0.0
    for v in range(alpha.size):
        s = sigma[v] * (h[v] - f[row[v]] - b)
        gap += cap[v] * larger(0.0, s) - alpha[v] * s
        dual += sigma[v] * alpha[v] * (h[v] - 0.5 * f[row[v]])
    return gap, dual


@inlined
def middle(top, bottom):
    """The middle of the interval of optimal biases; its finite end where it has only one."""
    if np.isfinite(top) and np.isfinite(bottom):
        return 0.5 * (top + bottom)
    if np.isfinite(top):
        return top
    return bottom if np.isfinite(bottom) else 0.0


# ---------------------------------------------------------------- variables and points


@dataclass
class Variables:
    """Signs, offsets, bounds and rows of the dual variables."""

    sigma: np.ndarray
    h: np.ndarray
    cap: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, problem: KernelProblem) -> Variables:
        """One variable per example for the hinge, two for the ε-insensitive loss."""
        loss, caps = losses.scalar_loss(problem.target), problem.caps
        rows = np.arange(problem.n)
        if not loss.is_regression:
            return cls(problem.y, problem.y, caps, rows)
        ones = np.ones(problem.n)
        h = np.concatenate([problem.y - loss.epsilon, problem.y + loss.epsilon])
        return cls(np.concatenate([ones, -ones]), h, np.tile(caps, 2), np.tile(rows, 2))

    def signed(self, alpha: np.ndarray) -> np.ndarray:
        """β = Σ σα over the variables of each row, of shape (1, n)."""
        return np.bincount(self.row, self.sigma * alpha, int(self.row[-1]) + 1)[None, :]

    def margins(self, f: np.ndarray, bias: float) -> np.ndarray:
        """σ_v (e_v − b): above 0 where the example violates its margin."""
        return self.sigma * (self.h - f[self.row] - bias)


def free_bias(sigma: np.ndarray, e: np.ndarray, cap: np.ndarray, alpha: np.ndarray) -> float:
    """The middle of the interval of biases that α allows."""
    more, less = alpha < cap, alpha > 0.0
    rises, falls = np.where(sigma > 0.0, more, less), np.where(sigma > 0.0, less, more)
    return middle(e[rises].max(initial=-np.inf), e[falls].min(initial=np.inf))


def lightened(alpha: np.ndarray, sigma: np.ndarray, cap: np.ndarray, balanced: bool) -> np.ndarray:
    """α clipped to the box; with Σ σα = 0 if ``balanced``, by scaling the heavier side down. Zeros stay zeros."""
    alpha, rises = np.minimum(alpha, cap), sigma > 0.0
    if balanced:
        up, down = alpha[rises].sum(), alpha[~rises].sum()
        alpha[rises] *= min(1.0, down / max(up, TAU))
        alpha[~rises] *= min(1.0, up / max(down, TAU))
    return alpha


def balance(alpha: np.ndarray, sigma: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """The nearest point of the box with Σ σα = 0: α − σt clipped, with t found by bisection; α itself if feasible."""
    if abs(float(sigma @ alpha)) <= FEASIBLE * float(alpha.sum()):
        return np.clip(alpha, 0.0, cap)
    low, high = -float(cap.max()), float(cap.max())
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        if np.sum(sigma * np.clip(alpha - sigma * t, 0.0, cap)) > 0:
            low = t
        else:
            high = t
    return np.clip(alpha - sigma * high, 0.0, cap)


@savable("SMO.Point")
class Point(NamedTuple):
    """A primal point: a multiple of w(α), a bias and the value in the C-form."""

    multiple: float
    bias: float
    primal: float


# ---------------------------------------------------------------- solvers of the dual


class DualSolver(Solver):
    """Base of the solvers of this dual: primal point, model and certificate of an α with known responses.

    Their states have ``alpha``, ``f``, ``bias``, ``primal``, ``dual`` and ``point``.
    """

    #: Whether the start is near the solution. The model is then w(α) itself: no better multiple of it is looked for.
    onward: Any = False

    capabilities = Capabilities(aim="optimum", free_intercept=True, starts_from_duals=True, for_pairs="smo")

    @staticmethod
    def _check_loss(problem: KernelProblem) -> None:
        loss = losses.scalar_loss(problem.target)
        if not isinstance(loss, (losses.Hinge, losses.EpsilonInsensitive)):
            raise ValueError(
                f"SMO solves the hinge and the ε-insensitive loss, got {type(loss).__name__}: choose one of them "
                "or another solver"
            )

    @staticmethod
    def _nearest(problem: KernelProblem, variables: Variables, duals: np.ndarray) -> np.ndarray:
        """Feasible α for dual variables of shape (1, n)."""
        v, beta = variables, protocol.checked_duals(duals, 1, problem.n)
        alpha = np.clip(v.sigma * beta[0, v.row], 0.0, v.cap)
        return balance(alpha, v.sigma, v.cap) if problem.has_free_bias else alpha

    def _close(self, problem: KernelProblem, variables: Variables, state: Any) -> None:
        """Set bias, primal and dual value and the best point from α and its responses."""
        state.bias, state.primal, state.dual = self._values(problem, variables, state.alpha, state.f)
        state.point = self._point(problem, variables, state.alpha, state.f, state.bias, state.primal, state.dual)

    def _values(
        self, problem: KernelProblem, variables: Variables, alpha: np.ndarray, f: np.ndarray
    ) -> tuple[float, float, float]:
        """The bias, the primal and the dual value of α with the responses f."""
        v, bias = variables, 0.0
        if problem.has_free_bias:
            bias = free_bias(v.sigma, v.h - f[v.row], v.cap, alpha)
        signed = v.sigma * alpha
        norm2 = float(signed @ f[v.row])
        primal = problem.value(f[None] + bias, np.array([norm2])) / problem.lam
        return bias, primal, float(v.h @ signed) - 0.5 * norm2

    def _point(
        self, problem: KernelProblem, variables: Variables, alpha: np.ndarray, f: np.ndarray, bias: float,
        primal: float, dual: float,
    ) -> Point:  # fmt: skip
        """The best primal point on the ray of w(α). Far from the optimum a large C makes w(α) too long."""
        own = Point(1.0, bias, primal)
        near = self.onward or primal - dual <= ROUGHLY * abs(primal)
        if (near and np.isfinite(primal)) or not alpha.any():
            return own  # C times the losses of w(α) may leave float64's range
        norm2 = float(np.sum(variables.sigma * alpha * f[variables.row]))
        ray = Point(*problem.best_multiple(f, norm2))
        return ray if ray.primal < primal else own

    def certificate(self, problem: KernelProblem, state: Any) -> Certificate:
        """Primal value of the model, dual value of α, and their difference, in the λ-form."""
        return self._certificate(problem, state.point, state.dual)

    def _certificate(self, problem: KernelProblem, point: Point, dual: float) -> Certificate:
        return Certificate(problem.lam * point.primal, problem.lam * dual, problem.lam * (point.primal - dual))

    def duals(self, problem: KernelProblem, state: Any) -> np.ndarray:
        """Σ σα over the variables of an example, of shape (1, n)."""
        return Variables.of(problem).signed(state.alpha)

    def model(self, problem: KernelProblem, state: Any) -> KernelModel:
        """Support vectors, coefficients and bias of the best point that can be made of the state's α."""
        return self._model(problem, self.duals(problem, state), state.point)

    def scores(self, problem: KernelProblem, state: Any) -> tuple[np.ndarray, float] | None:
        """The scores of the best point, a multiple of w(α), and one over the multiple."""
        multiple, bias, _ = state.point
        return multiple * state.f[None] + bias, 1.0 / max(multiple, TAU)

    def _model(self, problem: KernelProblem, beta: np.ndarray, point: Point) -> KernelModel:
        return problem.model(point.multiple * beta, np.array([point.bias]))
