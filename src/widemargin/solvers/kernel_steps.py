"""Kernel solvers that visit one example at a time: Pegasos, dual coordinate ascent and the Perceptron.

All three keep w = s Σ αᵢyᵢΦ(xᵢ) with a scalar s, and the responses fⱼ = Σ αᵢyᵢK(xᵢ, xⱼ) of all
examples. A visit of example i looks at fᵢ alone; only if it changes αᵢ, by δ, is row i of the kernel needed::

    αᵢ ← αᵢ + δ,    fⱼ ← fⱼ + δ yᵢ K(xᵢ, xⱼ)   for all j.

================  =====================================================  ========================
rule              δ                                                      s
================  =====================================================  ========================
KernelPegasos     1 if yᵢ fᵢ / (λ(t − 1)) < 1 or t = 1, else 0           1/(λt)     (Pegasos, Fig. 3)
KernelSDCA        clip((1 − yᵢfᵢ)/K(xᵢ, xᵢ), −αᵢ, C sᵢ − αᵢ)             1          (SBP paper, Sec. 4.4)
KernelPerceptron  1 if yᵢfᵢ ≤ 0, else 0                                  1          (SBP paper, Sec. 4.5)
================  =====================================================  ========================

The printed test of Fig. 3 has y of the visited example inside the sum, and 1/(λt) where w_t has 1/(λ(t − 1));
both are mended above. Weights sᵢ multiply Pegasos' and the Perceptron's δ.

A step costs O(1), and O(n) when it changes α, beside the kernel row. The compiled loop runs until a row it
needs is missing; then the rows of the next examples that would change are computed in one block.
The intercept is regularised (kernel + 1) or absent.

Certificate: α of SDCA is feasible, and the gap is exact. For the others θα is feasible for
0 ≤ θ ≤ min C sᵢ/αᵢ, and the best such θ gives the dual value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import losses
from ..core.dispatch import borrow, compiled, generic
from ..core.kernel_cache import RowCache
from ..core.shuffling import shuffle
from ..history import Counters
from ..models import KernelModel
from ..problem import Certificate, KernelProblem
from ..running import Solver

#: Rows computed at a time when one is missing.
AHEAD = 64


class PegasosRule(NamedTuple):
    """λ."""

    lam: float


class SDCARule(NamedTuple):
    """Exact maximisation of the dual over one coordinate."""


class PerceptronRule(NamedTuple):
    """Add what is misclassified."""


@generic
def change(rule, t, y, f, alpha, cap, weight, diagonal):
    """δ of the example visited at step t."""


@change.case(PegasosRule)
def _(rule, t, y, f, alpha, cap, weight, diagonal):
    if t == 1 or y * f < rule.lam * (t - 1):
        return weight
    return 0.0


@change.case(SDCARule)
def _(rule, t, y, f, alpha, cap, weight, diagonal):
    slope = 1.0 - y * f
    if diagonal > 0.0:
        return min(max(alpha + slope / diagonal, 0.0), cap) - alpha
    # a row of zeros: the dual is linear in its coordinate
    return (cap if slope > 0.0 else 0.0) - alpha


@change.case(PerceptronRule)
def _(rule, t, y, f, alpha, cap, weight, diagonal):
    if y * f <= 0.0:
        return weight
    return 0.0


@compiled
def visit(rule, order, t, y, f, alpha, cap, weight, diagonal, rows, slot_of, constant):
    """Visit examples in order, changing alpha and f in place, until a row is missing; returns (visits, changes)."""
    order, y, f, alpha, cap = borrow(order), borrow(y), borrow(f), borrow(alpha), borrow(cap)
    weight, diagonal, rows, slot_of = borrow(weight), borrow(diagonal), borrow(rows), borrow(slot_of)
    changes = 0
    for s in range(order.size):
        i = order[s]
        d = change(rule, t + s + 1, y[i], f[i], alpha[i], cap[i], weight[i], diagonal[i])
        if d == 0.0:
            continue
        slot = slot_of[i]
        if slot < 0:
            return s, changes
        changes += 1
        alpha[i] += d
        c = d * y[i]
        for j in range(f.size):
            f[j] += c * (rows[slot, j] + constant)
    return order.size, changes


@compiled
def would_change(rule, order, t, y, f, alpha, cap, weight, diagonal, slot_of, out):
    """out ← examples of order, from its start, that would change now and have no row; returns how many."""
    found = 0
    for s in range(order.size):
        i = order[s]
        if slot_of[i] < 0 and change(rule, t + s + 1, y[i], f[i], alpha[i], cap[i], weight[i], diagonal[i]) != 0.0:
            fresh = True
            for k in range(found):
                if out[k] == i:
                    fresh = False
            if fresh:
                out[found] = i
                found += 1
                if found == out.size:
                    break
    return found


@dataclass
class State:
    """α, the responses f, the order of visits and where it stands."""

    alpha: np.ndarray
    f: np.ndarray
    order: np.ndarray
    position: int
    t: int
    rng: np.random.Generator
    counters: Counters = field(default_factory=Counters)


@dataclass
class KernelSteps(Solver):
    """Base of the solvers of this file.

    Parameters
    ----------
    sampling : {"permutation", "iid"}
        A new permutation each epoch, or independent draws.
    """

    sampling: str = "permutation"

    dual_feasible: ClassVar[bool] = False

    def rule(self, problem: KernelProblem) -> Any:
        """The rule of a visit."""
        raise NotImplementedError

    def scale(self, problem: KernelProblem, state: State) -> float:
        """s."""
        return 1.0

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        name = type(self).__name__
        loss = losses.scalar_loss(problem.target)
        if not isinstance(loss, losses.Hinge):
            raise ValueError(f"{name} solves the hinge loss, got {type(loss).__name__}: use SMO")
        if problem.has_free_bias:
            raise ValueError(f"{name} has no unregularised intercept: use intercept='regularized' or 'none', or SMO")
        if self.sampling not in ("permutation", "iid"):
            raise ValueError(f"sampling must be 'permutation' or 'iid', got {self.sampling!r}")

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> State:
        """α = 0."""
        self.check(problem)
        state = State(np.zeros(problem.n), np.zeros(problem.n), np.arange(problem.n), 0, 0, rng)
        if self.sampling == "permutation":
            shuffle(state.order, rng)
        return state

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """n."""
        return problem.n

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> None:
        """Take n_steps visits, in place. advance(a) then advance(b) is advance(a + b), bit for bit."""
        known = getattr(problem, "_row_cache", None) is not None
        cache, diagonal = self._kept(problem)
        weight = problem.sample_weight if problem.sample_weight.size else np.ones(problem.n)
        rule, cap = self.rule(problem), problem.caps
        out = np.empty(min(AHEAD, cache.capacity), np.int64)
        before = cache.matrix.evaluations if known else 0
        while n_steps > 0:
            order = self._next_visits(state, n_steps)
            done = 0
            while done < order.size:
                taken, changes = visit(
                    rule, order[done:], state.t, problem.y, state.f, state.alpha, cap, weight, diagonal,
                    cache.rows, cache.slot_of, problem.constant,
                )  # fmt: skip
                done += taken
                state.t += taken
                state.counters.updates += changes
                if done < order.size:
                    found = would_change(
                        rule, order[done:], state.t, problem.y, state.f, state.alpha, cap, weight, diagonal,
                        cache.slot_of, out,
                    )  # fmt: skip
                    cache.fetch(out[:found])
            n_steps -= order.size
            state.counters.steps += order.size
            state.counters.visits += order.size
        state.counters.kernel_evals += cache.matrix.evaluations - before

    def _next_visits(self, state: State, most: int) -> np.ndarray:
        n = state.order.size
        if self.sampling == "iid":
            return (state.rng.random(min(most, 65536)) * n).astype(np.int64)
        if state.position == n:
            shuffle(state.order, state.rng)
            state.position = 0
        visits = state.order[state.position : state.position + most]
        state.position += visits.size
        return visits

    def _kept(self, problem: KernelProblem) -> tuple[RowCache, np.ndarray]:
        """The problem's row cache, and the diagonal of its kernel."""
        kept = getattr(problem, "_row_cache", None)
        if kept is None:
            everything = np.arange(problem.n)
            matrix = problem.matrix(everything, everything)
            kept = RowCache(matrix, problem.cache_bytes), matrix.diagonal() + problem.constant
            problem._row_cache = kept  # type: ignore[attr-defined]
        return kept

    # -- output

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal, dual and gap in the λ-form."""
        scale = self.scale(problem, state)
        alpha, cap = scale * state.alpha, problem.caps
        margins = scale * problem.y * state.f
        norm2 = float(alpha @ margins)
        primal = 0.5 * norm2 + float(cap @ np.maximum(0.0, 1.0 - margins))
        share = 1.0
        if not self.dual_feasible:
            used = alpha > 0.0
            limit = float(np.min(cap[used] / alpha[used])) if used.any() else 0.0
            share = min(limit, alpha.sum() / norm2) if norm2 > 0.0 else 0.0
        dual = float(share * alpha.sum() - 0.5 * share**2 * norm2)
        return Certificate(problem.lam * primal, problem.lam * dual, problem.lam * (primal - dual))

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel) -> dict[str, float]:
        """Objective, and the gap where it tends to 0."""
        certificate = self.certificate(problem, state)
        if self.dual_feasible:
            return {"objective": certificate.primal, "gap": certificate.gap}
        return {"objective": certificate.primal}

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """A finished copy."""
        support = np.flatnonzero(state.alpha)
        coefficients = self.scale(problem, state) * problem.y[support] * state.alpha[support]
        return KernelModel(
            problem.kernel, support, problem.rows(support), coefficients[None, :], np.zeros(1), problem.constant
        )


@dataclass
class KernelPegasos(KernelSteps):
    """Kernelised Pegasos, Fig. 3 of the paper; α counts violations."""

    sampling: str = "iid"

    def rule(self, problem: KernelProblem) -> PegasosRule:
        """λ."""
        return PegasosRule(problem.lam)

    def scale(self, problem: KernelProblem, state: State) -> float:
        """1/(λt)."""
        return 1.0 / (problem.lam * max(state.t, 1))


@dataclass
class KernelSDCA(KernelSteps):
    """Stochastic dual coordinate ascent with a kernel."""

    dual_feasible: ClassVar[bool] = True

    def rule(self, problem: KernelProblem) -> SDCARule:
        """Exact maximisation over one coordinate."""
        return SDCARule()


@dataclass
class KernelPerceptron(KernelSteps):
    """The kernel Perceptron. One pass has a guarantee; more passes fit the training set without bound.

    The model is Σ αᵢyᵢΦ(xᵢ) as it stands; its scale means nothing to a hinge, so its objective is that of the best
    multiple of it.
    """

    def rule(self, problem: KernelProblem) -> PerceptronRule:
        """Mistakes."""
        return PerceptronRule()

    def scale(self, problem: KernelProblem, state: State) -> float:
        """The multiple of Σ αᵢyᵢΦ(xᵢ) with the lowest objective, by golden section over the ray."""
        margins = problem.y * state.f
        return best_multiple(margins, float(state.alpha @ margins), problem.caps)


def best_multiple(margins: np.ndarray, norm2: float, cap: np.ndarray, offset: Any = 0.0) -> float:
    """The s > 0 that minimises ½s²‖w‖² + Σ C max(0, 1 − offset − s margin), by golden section; 1 for w = 0."""
    if norm2 <= 0.0:
        return 1.0
    rest = 1.0 - offset

    def objective(s: float) -> float:
        return 0.5 * s * s * norm2 + float(cap @ np.maximum(0.0, rest - s * margins))

    low, high = 0.0, math.sqrt(2.0 * float(np.sum(cap * np.maximum(0.0, rest))) / norm2)
    shrink = 0.5 * (math.sqrt(5.0) - 1.0)
    for _ in range(40):
        first, second = high - shrink * (high - low), low + shrink * (high - low)
        if objective(first) < objective(second):
            high = second
        else:
            low = first
    return max(0.5 * (low + high), 1e-300)
