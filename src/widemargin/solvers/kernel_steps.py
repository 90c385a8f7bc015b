"""Kernel solvers that visit one example at a time: Pegasos, dual coordinate ascent and the Perceptron.

All three keep w = s Σ cᵢΦ(xᵢ) with a scalar s, and the responses fⱼ = Σ cᵢK(xᵢ, xⱼ) of all examples. A visit of
example i looks at fᵢ alone; only if it changes cᵢ, by δ, is row i of the kernel needed::

    cᵢ ← cᵢ + δ,    fⱼ ← fⱼ + δ K(xᵢ, xⱼ)   for all j.

================  =====================================================  ========================
rule              δ                                                      s
================  =====================================================  ========================
KernelPegasos     yᵢ if yᵢ fᵢ / (λ(t − 1)) < 1 or t = 1, else 0          1/(λt)     (Pegasos, Fig. 3)
KernelSDCA        argmax over α of the dual, less αᵢ                     1          (SBP paper, Sec. 4.4)
KernelPerceptron  yᵢ if yᵢfᵢ ≤ 0, else 0                                 1          (SBP paper, Sec. 4.5)
================  =====================================================  ========================

For Pegasos and the Perceptron, which know the hinge alone, c = αy with counts α ≥ 0; weights sᵢ multiply their δ. The
printed test of Fig. 3 has y of the visited example inside the sum, and 1/(λt) where w_t has 1/(λ(t − 1)); both are
mended above.

For SDCA c = α is the dual variable itself, with its sign, for every loss with a conjugate, as in the linear
:mod:`.sdca`, whose step this is::

    D = λ (−C Σ sᵢ ℓ*(−αᵢ/(C sᵢ)) − ½ Σ αᵢfᵢ),
    αᵢ ← argmax over α of  −C sᵢ ℓ*(−α/(C sᵢ)) − (α − αᵢ) fᵢ − ½ K(xᵢ, xᵢ) (α − αᵢ)².

For the hinge yᵢαᵢ ← clip(yᵢαᵢ + (1 − yᵢfᵢ)/K(xᵢ, xᵢ), 0, C sᵢ). Each visit raises D or leaves it. Shrinking is that of
the linear solver, too: an example that a visit leaves where it was (at a bound, or inside the tube) rests for 1 pass,
then 3, 7, 15, at most 31; the first change ends that, and nothing is ever removed for good.

A step costs O(1), and O(n) when it changes c, beside the kernel row. The compiled loop runs until a row it
needs is missing; then the rows of the next examples that would change are computed in one block.
The intercept is regularised (kernel + 1) or absent.

Certificate: α of SDCA is feasible, and the gap is exact. For the others θα is feasible for
0 ≤ θ ≤ min C sᵢ/αᵢ, and the best such θ gives the dual value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import losses
from ..core.bias import weighted_losses
from ..core.dispatch import borrow, compiled, generic
from ..core.kernel_cache import RowCache
from ..core.shuffling import shuffle
from ..files import savable
from ..history import Counters
from ..models import KernelModel
from ..problem import Certificate, KernelProblem
from ..running import Solver
from .sdca import FLAT, LONGEST_REST, add_conjugates, dual_step, fit_box, list_awake
from .smo import ROUGHLY, add_rows

#: Rows computed at a time when one is missing.
AHEAD = 64
#: Rows computed at a time for the responses of a given α.
BLOCK = 256


class PegasosRule(NamedTuple):
    """λ."""

    lam: float


class SDCARule(NamedTuple):
    """Exact maximisation of the dual over one coordinate, for this loss."""

    loss: Any


class PerceptronRule(NamedTuple):
    """Add what is misclassified."""


@generic
def change(rule, t, y, f, alpha, cap, weight, diagonal):
    """(the new α, δ) of the example visited at step t."""


@change.case(PegasosRule)
def _(rule, t, y, f, alpha, cap, weight, diagonal):
    if t == 1 or y * f < rule.lam * (t - 1):
        return alpha + weight, weight * y
    return alpha, 0.0


@change.case(SDCARule)
def _(rule, t, y, f, alpha, cap, weight, diagonal):
    after = 0.0
    if cap > 0.0:
        after = dual_step(rule.loss, alpha, f, y, max(diagonal, FLAT), cap)
    return after, after - alpha


@change.case(PerceptronRule)
def _(rule, t, y, f, alpha, cap, weight, diagonal):
    if y * f <= 0.0:
        return alpha + weight, weight * y
    return alpha, 0.0


class Examples(NamedTuple):
    """What belongs to the examples: what is given, and α, f and the rests (see :class:`State`), changed in place."""

    y: np.ndarray
    cap: np.ndarray
    weight: np.ndarray
    diagonal: np.ndarray
    alpha: np.ndarray
    f: np.ndarray
    rest: np.ndarray
    wait: np.ndarray


@compiled
def visit(rule, order, t, examples, held, constant):
    """Visit examples in order until a row is missing in the cache ``held``; returns (visits, changes)."""
    y, cap, weight, diagonal = (
        borrow(examples.y), borrow(examples.cap), borrow(examples.weight), borrow(examples.diagonal)
    )  # fmt: skip
    alpha, f, rest, wait = borrow(examples.alpha), borrow(examples.f), borrow(examples.rest), borrow(examples.wait)
    order, rows, slot_of = borrow(order), borrow(held.rows), borrow(held.slot_of)
    used, counts = borrow(held.used), borrow(held.counts)
    changes = 0
    for s in range(order.size):
        i = order[s]
        after, c = change(rule, t + s + 1, y[i], f[i], alpha[i], cap[i], weight[i], diagonal[i])
        if c == 0.0:
            if rest.size:
                rest[i] = min(2 * rest[i] + 1, LONGEST_REST)
                wait[i] = rest[i]
            continue
        slot = slot_of[i]
        if slot < 0:
            return s, changes
        counts[0] += 1
        used[slot] = counts[0]
        changes += 1
        alpha[i] = after
        if rest.size:
            rest[i] = 0
        for j in range(f.size):
            f[j] += c * (rows[slot, j] + constant)
    return order.size, changes


@compiled
def would_change(rule, order, t, examples, slot_of, out):
    """out ← the first of order, and those after it that would change now, where they have no row; returns how many."""
    y, f, alpha, cap = examples.y, examples.f, examples.alpha, examples.cap
    weight, diagonal = examples.weight, examples.diagonal
    out[0] = order[0]
    found = 1
    for s in range(1, order.size):
        if found == out.size:
            break
        i = order[s]
        if slot_of[i] < 0:
            _, c = change(rule, t + s + 1, y[i], f[i], alpha[i], cap[i], weight[i], diagonal[i])
            fresh = c != 0.0
            for k in range(found):
                if out[k] == i:
                    fresh = False
            if fresh:
                out[found] = i
                found += 1
    return found


@savable("KernelSteps.State")
@dataclass
class State:
    """α, the responses f, the order of visits and where it stands.

    The first ``awake`` entries of ``order`` are the examples of this pass. An idle example rests for ``rest`` passes,
    ``wait`` of them still to come; both are empty where there is no shrinking.
    """

    alpha: np.ndarray
    f: np.ndarray
    order: np.ndarray
    awake: int
    position: int
    t: int
    rng: np.random.Generator
    rest: np.ndarray
    wait: np.ndarray
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

    #: Losses it knows, and what a user is told who has another one.
    solves: ClassVar[tuple[type, ...]] = (losses.Hinge,)
    refusal: ClassVar[str] = "solves the hinge loss, got {}: use KernelSDCA or SMO"

    def rule(self, problem: KernelProblem) -> Any:
        """The rule of a visit."""
        raise NotImplementedError

    def scale(self, problem: KernelProblem, state: State) -> float:
        """s."""
        return 1.0

    def coefficients(self, problem: KernelProblem, state: State) -> np.ndarray:
        """c, such that w = s Σ cᵢΦ(xᵢ)."""
        return problem.y * state.alpha

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        name, loss = type(self).__name__, losses.scalar_loss(problem.target)
        if not isinstance(loss, self.solves):
            raise ValueError(f"{name} {self.refusal.format(type(loss).__name__)}")
        if problem.has_free_bias:
            raise ValueError(f"{name} has no unregularised intercept: use intercept='regularized' or 'none', or SMO")
        if self.sampling not in ("permutation", "iid"):
            raise ValueError(f"sampling must be 'permutation' or 'iid', got {self.sampling!r}")

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> State:
        """α = 0."""
        self.check(problem)
        n, none = problem.n, np.empty(0, np.uint8)
        state = State(np.zeros(n), np.zeros(n), np.arange(n), n, 0, 0, rng, none, none)
        if self.sampling == "permutation":
            shuffle(state.order, rng)
        return state

    def first_slice(self, problem: KernelProblem) -> int:
        """Visits that compute a slice's kernel values, if each needs a row, or one."""
        return max(1, 2**22 // problem.n)

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """n."""
        return problem.n

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> None:
        """Take n_steps visits, in place. advance(a) then advance(b) is advance(a + b), bit for bit."""
        cache, diagonal, before = self._kept(problem)
        weight = problem.sample_weight if problem.sample_weight.size else np.ones(problem.n)
        rule = self.rule(problem)
        examples = Examples(
            problem.y, problem.caps, weight, diagonal, state.alpha, state.f, state.rest, state.wait
        )  # fmt: skip
        # no more rows ahead than a slice computes
        out = np.empty(max(1, min(AHEAD, cache.capacity, 2**23 // problem.n)), np.int64)
        while n_steps > 0:
            order = self._next_visits(state, n_steps)
            done = 0
            while done < order.size:
                taken, changes = visit(rule, order[done:], state.t, examples, cache.held, problem.constant)
                done += taken
                state.t += taken
                state.counters.updates += changes
                if done < order.size:
                    found = would_change(rule, order[done:], state.t, examples, cache.slot_of, out)
                    cache.fetch(out[:found])
            n_steps -= order.size
            state.counters.steps += order.size
            state.counters.visits += order.size
        state.counters.kernel_evals += cache.matrix.evaluations - before

    def _next_visits(self, state: State, most: int) -> np.ndarray:
        n = state.order.size
        if self.sampling == "iid":
            return (state.rng.random(min(most, 65536)) * n).astype(np.int64)
        if state.position == state.awake:
            self._next_pass(state)
        visits = state.order[state.position : min(state.position + most, state.awake)]
        state.position += visits.size
        return visits

    def _next_pass(self, state: State) -> None:
        """List the examples awake, in a new order."""
        if state.wait.size:
            state.awake = 0
            while state.awake == 0:  # all may rest; passes without a visit go by
                state.awake = int(list_awake(state.wait, state.order))
        shuffle(state.order[: state.awake], state.rng)
        state.position = 0

    def _kept(self, problem: KernelProblem) -> tuple[RowCache, np.ndarray, int]:
        """The problem's row cache, the diagonal of its kernel, and the kernel values that others have counted."""
        kept = getattr(problem, "_row_cache", None)
        if kept is not None:
            return *kept, kept[0].matrix.evaluations
        everything = np.arange(problem.n)
        matrix = problem.matrix(everything, everything)
        kept = RowCache(matrix, problem.cache_bytes), matrix.diagonal() + problem.constant
        problem._row_cache = kept  # type: ignore[attr-defined]
        return *kept, 0

    # -- output

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal, dual and gap in the λ-form."""
        scale = self.scale(problem, state)
        alpha, cap = scale * state.alpha, problem.caps
        margins = scale * problem.y * state.f
        norm2 = float(alpha @ margins)
        primal = 0.5 * norm2 + float(cap @ np.maximum(0.0, 1.0 - margins))
        used = alpha > 0.0
        limit = float(np.min(cap[used] / alpha[used])) if used.any() else 0.0
        share = min(limit, alpha.sum() / norm2) if norm2 > 0.0 else 0.0
        dual = float(share * alpha.sum() - 0.5 * share**2 * norm2)
        return Certificate(problem.lam * primal, problem.lam * dual, problem.lam * (primal - dual))

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel) -> dict[str, float]:
        """The objective; the gap of a point that is made feasible does not tend to 0."""
        return {"objective": self.certificate(problem, state).primal}

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """A finished copy."""
        support = np.flatnonzero(state.alpha)
        coefficients = self.scale(problem, state) * self.coefficients(problem, state)[support]
        return KernelModel(
            problem.kernel, support, problem.rows(support), coefficients[None, :], np.zeros(1), problem.constant
        )


@savable()
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


@savable()
@dataclass
class KernelSDCA(KernelSteps):
    """Stochastic dual coordinate ascent with a kernel, for every loss with a conjugate.

    Parameters
    ----------
    sampling : {"permutation", "iid"}
        A new permutation each pass, or independent draws.
    shrinking : bool
        Let idle examples rest for some passes; independent draws know no passes and no rests.
    """

    shrinking: bool = True

    solves: ClassVar[tuple[type, ...]] = tuple(dual_step.table)
    refusal: ClassVar[str] = "solves the losses of one score that have a conjugate, got {}: use one of them"

    @property
    def exact(self) -> bool:
        """It is."""
        return True

    def rule(self, problem: KernelProblem) -> SDCARule:
        """The loss."""
        return SDCARule(losses.scalar_loss(problem.target))

    def coefficients(self, problem: KernelProblem, state: State) -> np.ndarray:
        """α, which has its sign."""
        return state.alpha

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        super().check(problem)
        if not isinstance(self.shrinking, (bool, np.bool_)):
            raise TypeError(f"shrinking must be True or False, got {self.shrinking!r}")

    def init(self, problem: KernelProblem, rng: np.random.Generator, alpha: np.ndarray | None = None) -> State:
        """α = 0; or the α given, of shape (n,) and with the signs of w = Σ αᵢΦ(xᵢ), clipped into the box."""
        state = super().init(problem, rng)
        if self.shrinking and self.sampling == "permutation":
            state.rest, state.wait = np.zeros(problem.n, np.uint8), np.zeros(problem.n, np.uint8)
        if alpha is not None:
            alpha = np.asarray(alpha, np.float64)
            if alpha.shape != (problem.n,) or not np.isfinite(alpha).all():
                raise ValueError(f"alpha must be finite and of shape ({problem.n},), got the shape {alpha.shape}")
            state.alpha[:] = alpha
            column = state.alpha[:, None]
            fit_box(problem.target, problem.y, problem.sample_weight, problem.C, problem.C, column)
            self._respond(problem, state)
        return state

    def _respond(self, problem: KernelProblem, state: State) -> None:
        """f ← the responses of α; the rows, which the visits will need, stay in the cache."""
        cache, _, before = self._kept(problem)
        support = np.flatnonzero(state.alpha)
        height = min(BLOCK, cache.capacity)
        for first in range(0, support.size, height):
            some = support[first : first + height]
            add_rows(cache.rows, cache.fetch(some), state.alpha[some], state.f)
        state.f += problem.constant * state.alpha.sum()
        state.counters.kernel_evals += cache.matrix.evaluations - before

    def scale(self, problem: KernelProblem, state: State) -> float:
        """1 near the optimum; far from it the best multiple of w(α), since large C overshoots."""
        return self._point(problem, state)[0]

    def _point(self, problem: KernelProblem, state: State) -> tuple[float, float, float]:
        """(multiple of w(α), its primal value, the dual value of α), in the C-form."""
        norm2, dual = float(state.alpha @ state.f), np.zeros(1)
        add_conjugates(problem.target, problem.y, problem.sample_weight, problem.C, state.alpha[:, None], dual)
        loss, below = losses.scalar_loss(problem.target), float(dual[0]) - 0.5 * norm2
        primal = 0.5 * norm2 + weighted_losses(loss, state.f, 1.0, 0.0, problem.y, problem.caps)
        if primal - below > ROUGHLY * abs(primal):
            multiple, _, value = problem.best_multiple(state.f, norm2)
            if value < primal:
                return multiple, value, below
        return 1.0, primal, below

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal value of the model, dual value of α, and their difference, in the λ-form."""
        _, primal, dual = self._point(problem, state)
        return Certificate(problem.lam * primal, problem.lam * dual, problem.lam * (primal - dual))

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel) -> dict[str, float]:
        """Objective and gap of the current point."""
        certificate = self.certificate(problem, state)
        return {"objective": certificate.primal, "gap": certificate.gap}


@savable()
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
        """The multiple of Σ αᵢyᵢΦ(xᵢ) with the lowest objective."""
        return problem.best_multiple(state.f, float(state.alpha @ (problem.y * state.f)))[0]
