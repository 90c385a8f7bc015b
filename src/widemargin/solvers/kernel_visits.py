"""Kernel solvers that visit one example at a time: the loop that Pegasos, SDCA and the Perceptron share.

Each keeps w = s Σ cᵢΦ(xᵢ) with a scalar s, and the responses fⱼ = Σ cᵢK(xᵢ, xⱼ) of all examples. A visit of example i
looks at fᵢ alone; only if it changes cᵢ, by δ, is row i of the kernel needed::

    cᵢ ← cᵢ + δ,    fⱼ ← fⱼ + δ K(xᵢ, xⱼ)   for all j.

What δ and s are is the solver's own: :mod:`.kernel_pegasos`, :mod:`.kernel_sdca`, :mod:`.perceptron`.

A step costs O(1), and O(n) when it changes c, beside the kernel row. The compiled loop runs until a row it
needs is missing; then the rows of the next examples that would change are computed in one block.
The intercept is regularised (kernel + 1) or absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import losses
from ..core.borrowing import borrow
from ..core.dispatch import compiled, generic
from ..core.kernel_cache import RowCache
from ..core.visits import next_pass, note_visit, shuffle
from ..files import savable
from ..history import Counters
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from ..schemas import Array, Whole
from . import protocol
from .protocol import Solver

#: Rows computed at a time when one is missing.
ROWS_AHEAD = 64


@generic
def change(rule, t, y, f, c, cap, weight, diagonal):
    """Return the new c, and what was added to it, δ, for the example visited at step t."""


class Examples(NamedTuple):
    """What belongs to the examples: what is given, and c, f and the rests (see :class:`State`), changed in place."""

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
    """Visit examples in order until a row is missing in the cache ``held``; returns (visits, changes)."""
    order, held, examples = borrow(order), borrow(held), borrow(examples)
    y, cap, weight, diagonal = examples.y, examples.cap, examples.weight, examples.diagonal
    c, f, rest, wait = examples.c, examples.f, examples.rest, examples.wait
    rows, slot_of, used, counts = held.rows, held.slot_of, held.used, held.counts
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
        counts[0] += 1
        used[slot] = counts[0]
        changes += 1
        c[i] = after
        for j in range(f.size):
            f[j] += delta * (rows[slot, j] + constant)
    return order.size, changes


@compiled
def would_change(rule, order, t, examples, slot_of, out):
    """out ← the first of order, and those after it that would change now, where they have no row; returns how many."""
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


@savable(
    "KernelSteps.State", beta=Array(1, "n"), f=Array("n"), order=Array("n", dtype=np.int64, low=0, high="n-1"),
    awake=Whole(0, "n"), position=Whole(0, "n"), t=Whole(0), rest=Array((0, "n"), dtype=np.uint8, high=31),
    wait=Array((0, "n"), dtype=np.uint8, high=31),
)  # fmt: skip
@dataclass
class State(protocol.State):
    """c, the responses f, the order of visits and where it stands.

    ``beta`` are the c, of shape (1, n). The first ``awake`` entries of ``order`` are the examples of this pass. An idle
    example rests for ``rest`` passes, ``wait`` of them still to come; both are empty where there is no shrinking.
    """

    beta: np.ndarray
    f: np.ndarray
    order: np.ndarray
    awake: int
    position: int
    t: int
    rng: np.random.Generator
    rest: np.ndarray
    wait: np.ndarray
    counters: Counters = field(default_factory=Counters)


class Workspace(NamedTuple):
    """The cache of kernel rows, and the diagonal of the kernel matrix."""

    cache: RowCache
    diagonal: np.ndarray

    @classmethod
    def of(cls, problem: KernelProblem, state: State) -> Workspace:
        """The workspace of a run, made if there is none."""

        def make() -> Workspace:
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

    state_class = State
    #: Losses it knows, and what a user is told who has another one.
    solves: ClassVar[tuple[type, ...]] = (losses.Hinge,)
    refusal: ClassVar[str] = "solves the hinge loss, got {}: use the solver 'sdca' or 'smo'"

    def rule(self, problem: KernelProblem) -> Any:
        """The NamedTuple for whose class :func:`change` has a case."""
        raise NotImplementedError

    def scale(self, problem: KernelProblem, state: State) -> float:
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

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> State:
        """The state before the first visit, with w = 0."""
        self.check(problem)
        n, none = problem.n, np.empty(0, np.uint8)
        state = State(np.zeros((1, n)), np.zeros(n), np.arange(n), n, 0, 0, rng, none, none)
        if self.sampling == "permutation":
            shuffle(state.order, rng)
        return state

    def first_slice(self, problem: KernelProblem) -> int:
        """Visits that compute a slice's kernel values, if each needs a row, or one."""
        return max(1, 2**22 // problem.n)

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """A step is a visit."""
        return problem.n

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """Take n_steps visits, in place."""
        space, counters = Workspace.of(problem, state), state.counters
        cache, before = space.cache, space.cache.matrix.evaluations
        weight = problem.sample_weight if problem.sample_weight.size else np.ones(problem.n)
        rule, left = self.rule(problem), n_steps
        examples = Examples(
            problem.y, problem.caps, weight, space.diagonal, state.beta[0], state.f, state.rest, state.wait
        )  # fmt: skip
        # no more rows ahead than a slice computes
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

    def _next_visits(self, state: State, most: int) -> np.ndarray:
        if self.sampling == "iid":
            return (state.rng.random(min(most, 65536)) * state.order.size).astype(np.int64)
        if state.position == state.awake:
            state.awake, state.position = next_pass(state.order, state.wait, state.rng), 0
        visits = state.order[state.position : min(state.position + most, state.awake)]
        state.position += visits.size
        return visits

    # -- output

    def duals(self, problem: KernelProblem, state: State) -> np.ndarray:
        """The dual variables s·c, of shape (1, n)."""
        return self.scale(problem, state) * state.beta

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal value of the model, dual value of the best multiple of β in the box, and their difference."""
        scale = self.scale(problem, state)
        return problem.certificate(scale * state.beta, scale * state.f[None], np.zeros(1))

    def scores(self, problem: KernelProblem, state: State) -> tuple[np.ndarray, float] | None:
        """Those of s Σ cᵢΦ(xᵢ), whose multiple is certified."""
        return self.scale(problem, state) * state.f[None], 1.0

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel) -> dict[str, float]:
        """The objective; the gap of a point that is made feasible does not tend to 0."""
        return {"objective": self.certificate(problem, state).primal}

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """The model of the examples whose c is not 0."""
        return problem.model(self.duals(problem, state), np.zeros(1))
