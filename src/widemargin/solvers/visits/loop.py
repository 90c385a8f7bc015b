"""Kernel solvers that visit one example at a time: the loop that Pegasos, SDCA and the Perceptron share.

Problem: a kernel machine of one output, with a regularised intercept (the kernel + 1) or none.

Given: a :class:`widemargin.problems.kernel.KernelProblem`.

State (:class:`VisitState`): the coefficients c of w = s Σ cᵢΦ(xᵢ) with a scalar s, the responses fⱼ = Σ cᵢK(xᵢ, xⱼ) of
all examples, and the order of visits.

Step. A visit of example i uses fᵢ alone. Only if the visit changes cᵢ, by δ, is row i of the kernel needed::

    cᵢ ← cᵢ + δ,    fⱼ ← fⱼ + δ K(xᵢ, xⱼ)   for all j.

δ and s belong to the solver: see :mod:`.pegasos`, :mod:`.sdca`, :mod:`.perceptron`.

Cost: O(1) for a visit that changes nothing, else O(n) and a kernel row. The compiled loop runs until a row is missing;
then Python computes, in one block, the rows of the next examples that would change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ...core.borrowing import borrow
from ...core.compiling.dispatch import compiled, generic
from ...core.kernels.cache import RowCache
from ...core.losses import losses
from ...core.sampling.visits import next_pass, note_visit, shuffle
from ...files import savable
from ...history import Counters
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate
from ...schemas import COUNT, Array, Whole
from .. import protocol
from ..protocol import Solver

ROWS_AHEAD = 64  # rows computed when one is missing; fewer: small blocks; more: rows that no visit uses


@generic
def change(rule, t, y, f, c, cap, weight, diagonal):
    """(The new c, its change δ) of the example visited at step t; ``rule`` is the NamedTuple of a solver."""


class Examples(NamedTuple):
    """The examples as the loop sees them; c, f, rest and wait (see :class:`VisitState`) change in place."""

    y: np.ndarray
    cap: np.ndarray
    weight: np.ndarray
    diagonal: np.ndarray
    c: np.ndarray
    f: np.ndarray
    rest: np.ndarray
    wait: np.ndarray


@compiled
def visit(rule, order, t, examples, held, constant):
    """Visit examples in order until the cache ``held`` lacks a row; returns (visits, changes)."""
    order, held, examples = borrow(order), borrow(held), borrow(examples)
    y, cap, weight, diagonal = examples.y, examples.cap, examples.weight, examples.diagonal
    c, f, rest, wait = examples.c, examples.f, examples.rest, examples.wait
    rows, slot_of, used, clock = held.rows, held.slot_of, held.used, held.clock
    changes = 0
    for s in range(order.size):
        i = order[s]
        after, delta = change(rule, t + s + 1, y[i], f[i], c[i], cap[i], weight[i], diagonal[i])
        slot = slot_of[i]
        if delta != 0.0 and slot < 0:
            return s, changes
        if rest.size:
            note_visit(rest, wait, i, delta != 0.0)
        if delta == 0.0:
            continue
        clock[0] += 1
        used[slot] = clock[0]
        changes += 1
        c[i] = after
        for j in range(f.size):
            f[j] += delta * (rows[slot, j] + constant)
    return order.size, changes


@compiled
def would_change(rule, order, t, examples, slot_of, out):
    """out ← the first example of order, and later ones that would change now and have no row; returns how many."""
    examples = borrow(examples)
    y, f, c, cap = examples.y, examples.f, examples.c, examples.cap
    weight, diagonal = examples.weight, examples.diagonal
    out[0] = order[0]
    found = 1
    for s in range(1, order.size):
        if found == out.size:
            break
        i = order[s]
        if slot_of[i] < 0:
            _, delta = change(rule, t + s + 1, y[i], f[i], c[i], cap[i], weight[i], diagonal[i])
            fresh = delta != 0.0
            for k in range(found):
                if out[k] == i:
                    fresh = False
            if fresh:
                out[found] = i
                found += 1
    return found


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    rest, wait = state.rest.size, state.wait.size
    return None if rest == wait else f"rest is of {rest} examples, and wait of {wait}"


Passes = Annotated[np.ndarray, Array((0, "n"), dtype=np.uint8, high=31)]


@savable("KernelSteps.State", law=_law)
@dataclass
class VisitState(protocol.State):
    """All that a run knows.

    Attributes
    ----------
    beta, f : the coefficients c, of shape (1, n), and the responses
    order, awake, position : the examples of this pass, how many there are, and how many of them were visited
    t : visits made
    rest, wait : passes for which an idle example rests, and how many of them are left; both are empty without shrinking
    """

    beta: Annotated[np.ndarray, Array(1, "n")]
    f: Annotated[np.ndarray, Array("n")]
    order: Annotated[np.ndarray, Array("n", dtype=np.int64, low=0, high="n-1")]
    awake: Annotated[int, Whole(0, "n", size="awake")]
    position: Annotated[int, Whole(0, "awake")]
    t: Annotated[int, COUNT]
    rng: np.random.Generator
    rest: Passes
    wait: Passes
    counters: Counters = field(default_factory=Counters)


class VisitWorkspace(NamedTuple):
    """The cache of kernel rows, and the diagonal of the kernel matrix."""

    cache: RowCache
    diagonal: np.ndarray

    @classmethod
    def of(cls, problem: KernelProblem, state: VisitState) -> VisitWorkspace:
        """The workspace of a run, made if there is none."""

        def make() -> VisitWorkspace:
            everything = np.arange(problem.n)
            matrix = problem.matrix(everything, everything)
            diagonal = matrix.diagonal() + problem.constant
            state.counters.kernel_computed += matrix.evaluations
            return cls(RowCache(matrix, problem.cache_bytes), diagonal)

        return state.work(problem, make)


@dataclass
class KernelVisits(Solver):
    """Base of the solvers that visit one example at a time.

    Parameters
    ----------
    sampling : {"permutation", "iid"}
        A new permutation each epoch, or independent draws.
    """

    sampling: str = "permutation"

    state_class = VisitState
    #: The losses that the solver minimises, and the sentence for other losses.
    solves: ClassVar[tuple[type, ...]] = (losses.Hinge,)
    refusal: ClassVar[str] = "solves the hinge loss, got {}: use the solver 'sdca' or 'smo'"

    def rule(self, problem: KernelProblem) -> Any:
        """The solver's NamedTuple, for which :func:`change` has a case."""
        raise NotImplementedError

    def scale(self, problem: KernelProblem, state: VisitState) -> float:
        """The scalar s of the model."""
        return 1.0

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        name, loss = type(self).__name__, losses.scalar_loss(problem.target)
        if not isinstance(loss, self.solves):
            raise ValueError(f"{name} {self.refusal.format(type(loss).__name__)}")
        if problem.has_free_bias:
            raise ValueError(
                f"{name} has no unregularised intercept: use intercept='regularized' or 'none', or the solver 'smo'"
            )
        if self.sampling not in ("permutation", "iid"):
            raise ValueError(f"sampling must be 'permutation' or 'iid', got {self.sampling!r}")

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> VisitState:
        """The state before the first visit, with w = 0."""
        self.check(problem)
        n, none = problem.n, np.empty(0, np.uint8)
        state = VisitState(np.zeros((1, n)), np.zeros(n), np.arange(n), n, 0, 0, rng, none, none)
        if self.sampling == "permutation":
            shuffle(state.order, rng)
        return state

    def first_slice(self, problem: KernelProblem) -> int:
        """As many visits as compute the kernel values of a slice if each needs a row; at least one."""
        return max(1, 2**22 // problem.n)

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """A step is a visit."""
        return problem.n

    def advance(self, problem: KernelProblem, state: VisitState, n_steps: int) -> int:
        """Take n_steps visits, in place."""
        space, counters = VisitWorkspace.of(problem, state), state.counters
        cache, before = space.cache, space.cache.matrix.evaluations
        weight = problem.sample_weight if problem.sample_weight.size else np.ones(problem.n)
        rule, left = self.rule(problem), n_steps
        examples = Examples(
            problem.y, problem.caps, weight, space.diagonal, state.beta[0], state.f, state.rest, state.wait
        )  # fmt: skip
        # at most as many rows ahead as a slice may compute
        out = np.empty(max(1, min(ROWS_AHEAD, cache.capacity, 2**23 // problem.n)), np.int64)
        while left > 0:
            order = self._next_visits(state, left)
            done = 0
            while done < order.size:
                taken, changes = visit(rule, order[done:], state.t, examples, cache.held, problem.constant)
                done += taken
                state.t += taken
                counters.updates += changes
                counters.kernel_evals += changes * problem.n
                if done < order.size:
                    found = would_change(rule, order[done:], state.t, examples, cache.slot_of, out)
                    cache.fetch(out[:found])
            left -= order.size
            counters.steps += order.size
            counters.visits += order.size
        counters.kernel_computed += cache.matrix.evaluations - before
        return n_steps

    def _next_visits(self, state: VisitState, most: int) -> np.ndarray:
        if self.sampling == "iid":
            return (state.rng.random(min(most, 65536)) * state.order.size).astype(np.int64)
        if state.position == state.awake:
            state.awake, state.position = next_pass(state.order, state.wait, state.rng), 0
        visits = state.order[state.position : min(state.position + most, state.awake)]
        state.position += visits.size
        return visits

    # -- output

    def duals(self, problem: KernelProblem, state: VisitState) -> np.ndarray:
        """The dual variables s·c, of shape (1, n)."""
        return self.scale(problem, state) * state.beta

    def certificate(self, problem: KernelProblem, state: VisitState) -> Certificate:
        """Primal value of the model, dual value of the best multiple of β in the box, and their difference."""
        scale = self.scale(problem, state)
        return problem.certificate(scale * state.beta, scale * state.f[None], np.zeros(1))

    def scores(self, problem: KernelProblem, state: VisitState) -> tuple[np.ndarray, float] | None:
        """The scores of w = s Σ cᵢΦ(xᵢ); the certificate is of the best multiple of w."""
        return self.scale(problem, state) * state.f[None], 1.0

    def evaluate(self, problem: KernelProblem, state: VisitState, model: KernelModel) -> dict[str, float]:
        """The objective alone: the dual value is of a point moved into the box, so the gap does not tend to 0."""
        return {"objective": self.certificate(problem, state).primal}

    def model(self, problem: KernelProblem, state: VisitState) -> KernelModel:
        """The model of the examples whose c is not 0."""
        return problem.model(self.duals(problem, state), np.zeros(1))
