"""Interior point: exact linear machines on narrow data, in some thirty passes whatever C and the features' sizes.

With rows zᵢ (xᵢ, and a constant 1 where the intercept is regularised) and w = Σ βᵢzᵢ the dual in the C-form is::

    max over β   Σ (pᵢ(βᵢ) − qᵢβᵢ²/2) − ½ ‖w‖²,          Σ βᵢ = 0 where the intercept is free,

a box problem in one or two variables v ≥ 0 per example, β = Σ σ_vα_v:

==================  ==========================  =================  ==================  ========
loss                variables                   p_v                upper bound u_v     q_v
==================  ==========================  =================  ==================  ========
hinge               σ = y                       1                  C sᵢ                0
squared hinge       σ = y                       1                  none                1/(2C sᵢ)
ε-insensitive       σ = ±1                      σy − ε             C sᵢ                0
its square          σ = ±1                      σy − ε             none                1/(2C sᵢ)
==================  ==========================  =================  ==================  ========

A step is one of Mehrotra's for the conditions, with multipliers l of α ≥ 0 and m of α ≤ u::

    σ(⟨w, z⟩ + b) + qα − p = l − m,    w = Σ σαz,    Σ σα = 0,    αl = τ,    (u − α)m = τ → 0.

With Θ = q + l/α + m/(u − α) its equations reduce to d unknowns, Δw (and Δb)::

    (I + Zᵀ Θ̄⁻¹ Z) Δw = …,      Θ̄⁻¹ᵢ = Σ 1/Θ_v over the variables of example i,

which one pass over the data sets up: O(nd²) and the memory of d². w is a variable of its own: sums Σ βᵢzᵢ of large
features would cancel all its digits. Columns are divided by their sizes before the equations are solved.

Ferris, Munson: Interior-point methods for massive support vector machines. SIAM J. Optimization 13 (2002).
Mehrotra: On the implementation of a primal-dual interior point method. SIAM J. Optimization 2 (1992).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ..core import losses
from ..core.rows import as_matrix
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Problem
from ..problems.objective import Certificate
from . import protocol
from .protocol import Solver

#: Most features, since a step solves as many equations.
WIDEST = 2000
#: A step goes this share of the way to the nearest bound.
TO_THE_BOUND = 0.995
#: Entries of the data that are weighted at a time.
ENTRIES_AT_ONCE = 2**20


@savable("Interior.State")
@dataclass
class State(protocol.State):
    """α and its multipliers l and m, of shape (outputs, 1 or 2, n); w, b, and which outputs can go no further."""

    alpha: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    w: np.ndarray
    b: np.ndarray
    ended: np.ndarray
    counters: Counters = field(default_factory=Counters)

    resumes = False

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether rounding allows no further step of any output."""
        return bool(self.ended.all())


@dataclass
class Box:
    """The box problem of one output; arrays of shape (1 or 2, n)."""

    sigma: np.ndarray
    p: np.ndarray
    u: np.ndarray
    q: np.ndarray


@savable()
@dataclass
class Interior(Solver):
    """Interior-point method for linear machines on data with few features.

    Parameters
    ----------
    max_features : int
        Data with more features is refused.

    Notes
    -----
    Losses: hinge, squared hinge, (squared) ε-insensitive. Intercepts: "regularized", "unregularized", "none".
    """

    max_features: int = WIDEST

    state_class = State
    exact = True

    def first_slice(self, problem: Problem) -> int:
        """One step: a few passes over the data."""
        return 1

    def check(self, problem: Problem) -> None:
        """Refuse what this method cannot do, in one sentence each."""
        loss = losses.scalar_loss(problem.target)
        known = (losses.Hinge, losses.SquaredHinge, losses.EpsilonInsensitive, losses.SquaredEpsilon)
        if problem.is_joint or not isinstance(loss, known):
            raise ValueError(
                "the solver 'interior' has the hinge, the ε-insensitive loss and their squares, each output apart: "
                "choose one of them with multi_class='ovr', or another solver"
            )
        if problem.intercept not in ("none", "regularized", "unregularized"):
            raise ValueError(
                f"the solver 'interior' has the intercepts 'regularized', 'unregularized' and 'none', got "
                f"{problem.intercept!r}: use one of them, or the solver 'pegasos'"
            )
        if problem.d > self.max_features:
            raise ValueError(
                f"the solver 'interior' solves as many equations as there are features, at most {self.max_features}, "
                f"got {problem.d}: use the solver 'sdca'"
            )

    def steps_per_epoch(self, problem: Problem) -> int:
        """A step passes over the data."""
        return 1

    def init(self, problem: Problem, rng: Any = None) -> State:
        """The state with w = 0 and α in the middle of its box."""
        self.check(problem)
        boxes = [self._box(problem, c) for c in range(problem.n_outputs)]
        u, q = np.stack([box.u for box in boxes]), np.stack([box.q for box in boxes])
        bounded = np.isfinite(u)
        ones = np.where(u > 0.0, 1.0, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha = np.where(bounded, 0.5 * u, 0.5 / q)
        outputs, width = problem.n_outputs, problem.d + (problem.intercept == "regularized")
        return State(
            alpha, ones, np.where(bounded, ones, 0.0), np.zeros((outputs, width)), np.zeros(outputs),
            np.zeros(outputs, bool),
        )  # fmt: skip

    def _box(self, problem: Problem, c: int) -> Box:
        """The box problem of output c; examples of weight 0 have an empty box."""
        loss, y, s = problem.binary_part(c)
        cap = problem.C * s
        squared = loss.smoothness < math.inf
        with np.errstate(divide="ignore"):
            u = np.where(cap > 0.0, math.inf, 0.0) if squared else cap
            q = np.where(cap > 0.0, 0.5 / cap, 0.0) if squared else np.zeros(y.size)
        if not loss.is_regression:
            return Box(y[None, :], np.ones((1, y.size)), u[None, :], q[None, :])
        sigma = np.stack([np.ones(y.size), -np.ones(y.size)])
        return Box(sigma, sigma * y - loss.epsilon, np.stack([u, u]), np.stack([q, q]))

    # -- steps

    def advance(self, problem: Problem, state: State, n_steps: int) -> int:
        """Take a step of every output, in place; returns 1, so that each is looked at."""
        X, n_steps = as_matrix(problem.X), min(n_steps, 1)
        for _ in range(n_steps):
            for c in np.flatnonzero(~state.ended).tolist():
                self._step(problem, X, self._box(problem, c), state, c)
            state.counters.steps += 1
            state.counters.visits += problem.n
            state.counters.updates += problem.n
        return n_steps

    def at_checkpoint(self, state: State) -> bool:
        """After each step: to look at a point costs much less."""
        return True

    def _step(self, problem: Problem, X: Any, box: Box, state: State, c: int) -> None:
        """One of Mehrotra's steps of output c."""
        constant, free = problem.intercept == "regularized", problem.intercept == "unregularized"
        inside = box.u > 0.0
        bounded = inside & np.isfinite(box.u)
        alpha = np.where(inside, np.maximum(state.alpha[c], 1e-300), 1.0)
        room = np.where(bounded, np.maximum(box.u - alpha, 1e-300), 1.0)  # rounding may leave none
        lower, upper, here = state.lower[c], state.upper[c], state.w[c]
        theta = box.q + lower / alpha + np.where(bounded, upper / room, 0.0)
        inverse = np.where(inside, 1.0 / np.where(inside, theta, 1.0), 0.0)
        scores = self._times(X, here, constant) + state.b[c]
        beta = np.sum(np.where(inside, box.sigma * alpha, 0.0), axis=0)
        unmet = self._transposed(X, beta, constant) - here  # w = Σ βz
        slope = np.where(inside, box.sigma * scores + box.q * alpha - box.p, 0.0)
        system = self._system(X, inverse.sum(axis=0), constant)
        across = self._transposed(X, inverse.sum(axis=0), constant) if free else None
        state.counters.feature_reads += 6 * (X.nnz if sp.issparse(X) else X.size)

        def direction(of_lower: np.ndarray, of_upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
            """(Δα, Δw, Δb) for the complementarities αl and (u − α)m that are left to be made zero."""
            rho = -slope + lower - of_lower / alpha - np.where(bounded, upper - of_upper / room, 0.0)
            weighted = np.sum(box.sigma * inverse * rho, axis=0)
            right = self._transposed(X, weighted, constant) + unmet
            dw = system(right)
            db = 0.0
            if free and across is not None:
                total = float(inverse.sum())
                turned = system(across)
                db = float(weighted.sum() + beta.sum() - across @ dw) / max(total - float(across @ turned), 1e-300)
                dw = dw - db * turned
            change = self._times(X, dw, constant) + db
            return inverse * (rho - box.sigma * change), dw, db

        count = max(1, int(inside.sum() + bounded.sum()))
        products = alpha * lower * inside, room * upper * bounded
        mean = float(products[0].sum() + products[1].sum()) / count
        da, _, _ = direction(*products)
        dl, dm = self._multipliers(da, *products, alpha, room, lower, upper, inside, bounded)
        length = self._length(da, dl, dm, alpha, room, lower, upper, inside, bounded, 1.0)
        after = np.sum(inside * (alpha + length * da) * (lower + length * dl))
        after += np.sum(bounded * (room - length * da) * (upper + length * dm))
        tau = mean * min(1.0, float(after) / count / mean) ** 3 if mean > 0.0 else 0.0
        left = products[0] + da * dl * inside - tau * inside, products[1] - da * dm * bounded - tau * bounded
        da, dw, db = direction(*left)
        dl, dm = self._multipliers(da, *left, alpha, room, lower, upper, inside, bounded)
        length = self._length(da, dl, dm, alpha, room, lower, upper, inside, bounded, TO_THE_BOUND)
        if not (np.isfinite(dw).all() and math.isfinite(db) and length > 1e-10):
            state.ended[c] = True
            return
        state.alpha[c] = np.where(inside, alpha + length * da, 0.0)
        state.lower[c] += length * dl
        state.upper[c] += length * dm
        state.w[c] += length * dw
        state.b[c] += length * db

    @staticmethod
    def _multipliers(da, of_lower, of_upper, alpha, room, lower, upper, inside, bounded):
        """The changes (Δl, Δm) of the multipliers that go with a change Δα."""
        dl = np.where(inside, -(of_lower + lower * da) / alpha, 0.0)
        return dl, np.where(bounded, -(of_upper - upper * da) / room, 0.0)

    @staticmethod
    def _length(da, dl, dm, alpha, room, lower, upper, inside, bounded, share):
        """How far a direction may be followed: ``share`` of the way to the nearest bound, at most 1."""
        longest = 1.0
        for value, change, there in (
            (alpha, da, inside),
            (lower, dl, inside),
            (room, -da, bounded),
            (upper, dm, bounded),
        ):
            falls = there & (change < 0.0)
            if falls.any():
                longest = min(longest, share * float(np.min(-value[falls] / change[falls])))
        return longest

    # -- products with the data and a constant feature

    @staticmethod
    def _times(X: Any, w: np.ndarray, constant: bool) -> np.ndarray:
        d = X.shape[1]
        return np.asarray(X @ w[:d], np.float64) + (w[d] if constant else 0.0)

    @staticmethod
    def _transposed(X: Any, v: np.ndarray, constant: bool) -> np.ndarray:
        found = np.asarray(X.T @ v, np.float64)
        return np.append(found, v.sum()) if constant else found

    @staticmethod
    def _system(X: Any, weights: np.ndarray, constant: bool) -> Any:
        """right ↦ (I + Zᵀ diag(weights) Z)⁻¹ right, by Cholesky's method on columns of unit size."""
        n, d = X.shape
        A = np.zeros((d + constant, d + constant))
        step = max(1, ENTRIES_AT_ONCE // max(1, d))
        for first in range(0, n, step):
            part, w = X[first : first + step], weights[first : first + step]
            if sp.issparse(part):
                scaled = sp.diags_array(np.sqrt(w)) @ part
                A[:d, :d] += np.asarray((scaled.T @ scaled).todense())
            else:
                scaled = np.sqrt(w)[:, None] * part
                A[:d, :d] += scaled.T @ scaled
            if constant:
                column = np.asarray(part.T @ w)
                A[:d, d] += column
                A[d, :d] += column
        if constant:
            A[d, d] = weights.sum()
        A[np.diag_indices_from(A)] += 1.0
        size = 1.0 / np.sqrt(np.diag(A))
        A *= size[:, None] * size[None, :]
        A[np.diag_indices_from(A)] += 4.0 * np.finfo(float).eps * len(A)
        factor = scipy.linalg.cho_factor(A, lower=True, check_finite=False)
        return lambda right: size * scipy.linalg.cho_solve(factor, size * right, check_finite=False)

    # -- output

    def model(self, problem: Problem, state: State) -> LinearModel:
        """A finished copy; a free intercept is the best one for its weights."""
        d = problem.d
        W = state.w[:, :d].T.copy()
        if problem.intercept == "regularized":
            b = state.w[:, d].copy()
        elif problem.intercept == "none":
            b = np.zeros(problem.n_outputs)
        else:
            b = problem.best_intercept(W)
        return LinearModel(W.T.astype(problem.dtype), b)

    def certificate(self, problem: Problem, state: State) -> Certificate:
        """Primal value of the model, dual value of α made feasible, and their difference."""
        model = self.model(problem, state)
        primal, dual = problem.primal(model.coef.T, model.intercept), 0.0
        X, constant = as_matrix(problem.X), problem.intercept == "regularized"
        for c in range(problem.n_outputs):
            box, alpha = self._box(problem, c), state.alpha[c]
            if problem.intercept == "unregularized":
                alpha = self._balanced(alpha, box)
            beta = np.sum(box.sigma * alpha, axis=0)
            w = self._transposed(X, beta, constant)
            linear, quadratic = float(np.sum(box.p * alpha)), float(w @ w + np.sum(box.q * alpha**2))
            share = min(1.0, max(0.0, linear / quadratic)) if quadratic > 0.0 else 1.0  # the best multiple in the box
            dual += max(0.0, share * linear - 0.5 * share**2 * quadratic)
        dual *= problem.lam
        return Certificate(primal, dual, primal - dual)

    @staticmethod
    def _balanced(alpha: np.ndarray, box: Box) -> np.ndarray:
        """α with Σ σα = 0: the side that is too heavy is made lighter by one factor."""
        up, down = (float(np.sum(alpha * (box.sigma == sign))) for sign in (1.0, -1.0))
        heavy = 1.0 if up > down else -1.0
        if max(up, down) == 0.0:
            return alpha
        return np.where(box.sigma == heavy, alpha * (min(up, down) / max(up, down)), alpha)

    def duals(self, problem: Problem, state: State) -> np.ndarray:
        """Σ σα over the variables of an example, of shape (outputs, n)."""
        boxes = [self._box(problem, c) for c in range(problem.n_outputs)]
        return np.stack([np.sum(box.sigma * alpha, axis=0) for box, alpha in zip(boxes, state.alpha, strict=True)])
