"""SMO on a GPU, for one problem or for many side by side.

Problem: the dual of :mod:`widemargin.solvers.smo.dual`. Given are a kernel problem, or several on the same data, and a
relative duality gap. The state is α with the responses of the examples, in float64 on the host; all else, and the
copies on the device, can be made again.

A step is a round with a working set of some thousand variables:

1. Choose the worst violators, half of them from either end of the interval of biases, and those of the last round that
   are free or changed most. The first round takes variables at random.
2. Compute the kernel rows that the cache lacks in blocks, by matrix products.
3. Solve the dual on the working set to a tenth of its violation: one Triton program, by pairs chosen with second-order
   information (Fan, Chen and Lin 2005; single variables if there is no free bias).
4. Add the change to all responses in float64.

Cost of a round of Q variables: Q n kernel values are read, those that the cache has lost are computed, and n numbers
are looked at to choose. The duality gap costs O(n) more, every few rounds.

What differs from :mod:`widemargin.solvers.smo.smo`:

- Of many examples a sample is solved first, with larger bounds, to a rough gap. Its dual variables are the start. What
  they have beyond the bounds of the whole problem goes to the examples that are furthest on the wrong side of its
  margin, up to their bounds. This moves most variables that end at a bound at once, and not by working sets.
- Then come active sets: the variables that are free or violate, and as many of those at a bound that are next to
  violating, unless these are more than half. With r for the responses of all other variables, the active ones have the
  dual of h − r, whose kernel rows are short. At a tenth of the gap the change is added to the responses of all
  examples, which gives the gap of the whole, and the next set is chosen.
- Problems on examples of the same data (classes, folds, values of C) go through their rounds together: a launch has a
  program for each of them, and a kernel row that several want is computed once. Their arrays stand below each other,
  filled up with variables that cannot move. A problem leaves when its gap is closed, and a waiting one takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ..files import savable
from ..history import Counters
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from ..solvers import protocol
from ..solvers.smo.dual import DualSolver, Point, Variables
from .blocks import exactly
from .scoring import scores
from .workspace import DeviceSMOState, DeviceSMOWorkspace, Episode, Problems

# Tuned numbers; docs/notes/gpu.md has the measurements.
LOOK = 4  # rounds after which the dual must have risen
ROUNDING = 1e-13  # progress of the dual between two looks, as a share of it, that is rounding
LARGE = 2**17  # examples from which on a sample is solved first, and then active sets
ROUGHLY = 0.02  # relative gap to which a sample is solved
REST, CLOSER = 0.1, 0.4  # an active set is solved to this share of the gap, but not below this share of tol
PAUSE = 32  # rounds over all examples after which an active set is asked for
REACHED = 0.95  # share of tol at which a problem leaves: the certificate in float64 is slightly another number


def spread(alpha: np.ndarray, mass: dict[float, float], v: Variables, wrong: np.ndarray) -> np.ndarray:
    """α with the given mass of each sign added: up to the bounds, the most wrong variables first."""
    alpha = alpha.copy()
    for sign, more in mass.items():
        own = np.flatnonzero(v.sigma == sign)
        own = own[np.argsort(-wrong[own], kind="stable")]
        room = v.cap[own] - alpha[own]
        alpha[own] += np.clip(more - (np.cumsum(room) - room), 0.0, room)
    return alpha


class OnDevice(DualSolver):
    """Base of the solvers for one and for many problems: parameters, starts, rounds and looks."""

    working_set: int
    tol: float
    device: str

    capabilities = replace(DualSolver.capabilities, on_device=True)

    def scores(self, problem: Any, state: Any) -> None:
        """None: exact scores are cheap on the device."""
        return None

    def at_checkpoint(self, state: Any) -> bool:
        """Whether the last round wants to be looked at."""
        return state.due

    def _check_parameters(self) -> None:
        size = self.working_set
        if not (isinstance(size, (int, np.integer)) and size >= 16 and size & (size - 1) == 0):
            raise ValueError(f"working_set must be a power of two ≥ 16, got {size!r}: use 2048")

    def _starts(self, problems: Problems, seed: int, duals: Sequence[np.ndarray | None]) -> list[DeviceSMOState]:
        """α = 0 for each problem, or given dual variables of shape (1, n), made feasible."""
        states = []
        for part, start in zip(problems.parts, duals, strict=True):
            variables = Variables.of(part)
            state = DeviceSMOState(np.zeros(variables.h.size), np.zeros(part.n), seed)
            if start is not None:
                state.alpha[:] = self._nearest(part, variables, start)
            states.append(state)
        with exactly():
            given = [k for k, state in enumerate(states) if state.alpha.any()]
            alone = len(states) == 1 and problems.parts[0] is problems.whole
            if alone and problems.n >= LARGE and problems.whole.kernel.of_rows:  # no cache for rows used once
                states[0].f[:] = self._responses(problems.whole, Variables.of(problems.whole).signed(states[0].alpha))
            elif given:
                space = DeviceSMOWorkspace(problems, self.device, self.working_set)
                for first in range(0, len(given), space.most):
                    space.load(given[first : first + space.most], states)
                    space.respond()
                    for line, k in enumerate(space.lines):
                        states[k].f[:] = space.f[line, : states[k].f.size].cpu().numpy()
        for part, state in zip(problems.parts, states, strict=True):
            self._close(part, Variables.of(part), state)
        return states

    def _responses(self, problem: KernelProblem, beta: np.ndarray) -> np.ndarray:
        """The responses of all examples to β of shape (1, n)."""
        if not beta.any():
            return np.zeros(problem.n)
        return scores(problem.model(beta, np.zeros(1)), problem.X, device=self.device)[:, 0]

    def _settled(self, problem: KernelProblem, state: DeviceSMOState) -> Point:
        """The best primal point that can be made of α."""
        if state.point is None:
            values = state.bias, state.primal, state.dual
            found = self._point(problem, Variables.of(problem), state.alpha, state.f, *values)
            state.point = found  # type: ignore[misc]
        return state.point  # type: ignore[return-value]

    def _rounds(
        self, space: DeviceSMOWorkspace, states: Sequence[DeviceSMOState], counters: Counters, n_steps: int
    ) -> int:
        """Take up to n_steps rounds of the problems that have not ended, stopping at a checkpoint; returns how many."""
        taken, computed = 0, space.cache.computed
        if all(state.ended for state in states):  # asked to go on
            for state in states:
                state.reached = state.stalled = False
        if not space.lines:
            self._enter(space, states)
        while taken < n_steps and space.lines:
            space.measure()
            space.choose()  # waits for the device; the look at the gap then need not wait
            if self._look(space, states):
                continue
            space.round()
            taken += 1
            counters.steps += 1
            counters.visits += len(space.lines) * space.Q
            counters.kernel_evals += len(space.lines) * space.Q * space.n
            for k in space.lines:
                if states[k].counters is not counters:
                    states[k].counters.steps += 1
            if self._is_mark(counters.steps) or self._is_pause(space.n, counters.steps):
                break
        if space.lines:
            space.store(states)
        counters.kernel_computed += space.cache.computed - computed
        return taken

    @staticmethod
    def _is_mark(steps: int) -> bool:
        """Whether it is time for a checkpoint: after 64, 256, 1024 … rounds."""
        return steps >= 64 and steps & (steps - 1) == 0 and steps.bit_length() % 2 == 1

    @staticmethod
    def _is_pause(n: int, steps: int) -> bool:
        """Whether it is time to ask for an active set."""
        return n >= LARGE and steps % PAUSE == 0

    @staticmethod
    def _enter(space: DeviceSMOWorkspace, states: Sequence[DeviceSMOState]) -> None:
        """Load as many problems as there is room for; those under way come first."""
        stay = [k for k in space.lines if not states[k].ended]
        waiting = [k for k, state in enumerate(states) if not state.ended and k not in stay]
        space.lines = (stay + waiting)[: space.most]
        if space.lines:
            space.load(space.lines, states)

    def _look(self, space: DeviceSMOWorkspace, states: Sequence[DeviceSMOState]) -> bool:
        """Whether problems have ended; these leave, and others enter."""
        found = False
        for k, (gap, dual, _, violation) in zip(space.lines, space.look().tolist(), strict=True):
            state = states[k]
            steps = state.counters.steps
            if steps == state.said:
                continue
            state.reached = gap <= (state.target or REACHED * self.tol * abs(gap + dual))
            if not state.reached and steps >= state.looked + LOOK:
                state.stalled = violation <= 0.0 or dual - state.before <= ROUNDING * abs(dual)
                state.before, state.looked = dual, steps
            state.stalled = state.stalled or not (state.reached or np.isfinite(gap))
            if state.ended:
                found, state.said = True, steps
        if found:
            space.store(states)
            self._enter(space, states)
        return found


@savable()
@dataclass
class DeviceSMO(OnDevice):
    """Exact dual solver for kernel classification and regression on a GPU.

    Parameters
    ----------
    working_set : int
        Variables of a round, a power of two; fewer where the cache has no room for their rows.
    tol : float
        Relative duality gap at which it asks for a checkpoint; the run stops at its own ``tol``.
    device : str
        torch's name of the device; on "cpu" Triton's interpreter must be on.
    sample : int
        Of many examples one in this many is solved first; 1 starts with all.
    """

    working_set: int = 2048
    tol: float = 1e-3
    device: str = "cuda"
    sample: int = 16

    state_class = DeviceSMOState
    capabilities = replace(OnDevice.capabilities, for_many="smo")

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self._check_loss(problem)
        self._check_parameters()
        if not (isinstance(self.sample, (int, np.integer)) and self.sample >= 1):
            raise ValueError(f"sample must be a whole number ≥ 1, got {self.sample!r}: 1 starts with all examples")

    def init(self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None) -> DeviceSMOState:
        """α = 0, or given dual variables of shape (1, n), made feasible."""
        self.check(problem)
        state = self._starts(Problems.of(problem), int(rng.integers(2**63)), [duals])[0]
        state.fresh = bool(state.alpha.any())
        if duals is None and problem.n >= LARGE and self.sample > 1 and problem.kernel.of_rows:
            part = self._sampled(problem, state)
            state.sample = self._roughly().init(part, np.random.default_rng(state.seed))
        return state

    def _roughly(self) -> DeviceSMO:
        """The solver of the sample."""
        return replace(self, tol=max(self.tol, ROUGHLY), sample=1)

    def _sampled(self, problem: KernelProblem, state: DeviceSMOState) -> KernelProblem:
        """The problem of the sample, with the same λ."""
        return state.work(problem, lambda: problem.take(self._chosen(problem, state)))

    def _chosen(self, problem: KernelProblem, state: DeviceSMOState) -> np.ndarray:
        """The examples of the sample."""
        order = np.random.default_rng(state.seed).permutation(problem.n)
        return np.sort(order[: max(1, problem.n // self.sample)])

    def _lifted(self, problem: KernelProblem, state: DeviceSMOState) -> DeviceSMOState:
        """The state of the whole problem that the sample's model leads to; the given state stays as it is."""
        if state.lifted is None:
            part, own = self._sampled(problem, state), state.sample
            assert own is not None
            own = self._roughly()._whole(part, own)
            model = self._roughly().model(part, own)
            away = scores(model, problem.X, device=self.device)[:, 0]
            v, signs = Variables.of(problem), Variables.of(part).sigma
            places = self._places(problem, self._chosen(problem, state))
            alpha = np.zeros(v.h.size)
            alpha[places] = np.minimum(own.alpha, v.cap[places])
            over = own.alpha - alpha[places]
            mass = {sign: float(over[signs == sign].sum()) for sign in (1.0, -1.0)}
            alpha = spread(alpha, mass, v, v.sigma * (v.h - away[v.row]))
            # of the two variables of an example in a regression only one should be above 0, so β has both
            lifted = self._starts(Problems.of(problem), state.seed, [v.signed(alpha)])[0]
            computed = (model.support.size + np.count_nonzero(lifted.alpha)) * problem.n
            lifted.counters = self._counted(own.counters, computed)
            state.lifted = lifted  # type: ignore[misc]
        return state.lifted

    @staticmethod
    def _counted(counters: Counters, computed: Any) -> Counters:
        """A copy of counters, with kernel values that were computed beside rounds."""
        more = {name: getattr(counters, name) + int(computed) for name in ("kernel_evals", "kernel_computed")}
        return replace(counters, **more)

    def _work_on_sample(self, problem: KernelProblem, state: DeviceSMOState, n_steps: int) -> int:
        """Up to n_steps rounds of the sample's problem; at its end its model is the start of the whole problem."""
        part, solver, own = self._sampled(problem, state), self._roughly(), state.sample
        assert own is not None
        state.lifted = None  # type: ignore[misc]
        taken = solver.advance(part, own, n_steps)
        state.counters = replace(own.counters)
        if n_steps and own.ended:
            own.drop_workspace()
            self._become(state, self._lifted(problem, state))
            state.sample, state.fresh = None, True
        return taken

    def _become(self, state: DeviceSMOState, lifted: DeviceSMOState) -> None:
        """Take over the point that a sample or an active set led to."""
        for name in ("alpha", "f", "bias", "primal", "dual", "counters"):
            setattr(state, name, getattr(lifted, name))
        state.looked, state.before, state.previous = state.counters.steps, -np.inf, np.empty(0, np.int64)
        state.lifted = state.point = None  # type: ignore[misc]
        self._give_back(state)

    @staticmethod
    def _give_back(state: DeviceSMOState) -> None:
        """Free the memory of kernel rows as a whole: small parts in use would be in the way of the next cache."""
        state.drop_workspace()
        torch.cuda.empty_cache()

    # -- active sets

    def _narrow(self, problem: KernelProblem, state: DeviceSMOState) -> None:
        """Choose the active set, unless it would have more than half of the examples, or those are few."""
        state.fresh = state.reached = False
        v, n = Variables.of(problem), problem.n
        if n < LARGE or not problem.kernel.of_rows:
            return
        s = v.sigma * (v.h - state.f[v.row] - state.bias)
        # distance of a variable at a bound from violating, negative if it violates; one with no weight cannot
        away = np.where(state.alpha <= 0.0, -s, np.where(state.alpha >= v.cap, s, -np.inf))
        away = np.where(v.cap > 0.0, away, np.inf).reshape(-1, n).min(axis=0)
        size = max(2 * int(np.count_nonzero(away < 0.0)), 2 * self.working_set)
        if size > n // 2:
            return
        rows = np.sort(np.argpartition(away, size)[:size])
        part, alpha = problem.take(rows), state.alpha[self._places(problem, rows)]
        with exactly():
            own = self._responses(part, Variables.of(part).signed(alpha))
        target = max(REST * (state.primal - state.dual), CLOSER * self.tol * abs(state.primal))
        counters = self._counted(state.counters, np.count_nonzero(alpha) * rows.size)
        inner = DeviceSMOState(alpha, own, state.seed, target=target, counters=counters)
        state.episode = Episode(rows, state.f[rows] - own, inner)
        self._give_back(state)

    @staticmethod
    def _places(problem: KernelProblem, rows: np.ndarray) -> np.ndarray:
        """The variables of some examples."""
        return (rows + problem.n * np.arange(Variables.of(problem).h.size // problem.n)[:, None]).ravel()

    def _work_on_active(self, problem: KernelProblem, state: DeviceSMOState, n_steps: int) -> int:
        """Up to n_steps rounds of the active set; at its end the responses of all examples are updated."""
        episode = state.episode
        assert episode is not None
        own, rows = episode.state, episode.rows
        state.lifted = None  # type: ignore[misc]

        def made() -> DeviceSMOWorkspace:
            v, places, part = Variables.of(problem), self._places(problem, rows), problem.take(rows)
            row = np.tile(np.arange(rows.size), places.size // rows.size)
            given = Variables(v.sigma[places], v.h[places] - episode.rest[row], v.cap[places], row)
            return DeviceSMOWorkspace(Problems.of(part, given), self.device, self.working_set)

        with exactly():
            space = state.work(problem, made)
            if n_steps == 0:
                space.compile([own])
                return 0
            taken = self._rounds(space, [own], own.counters, n_steps)
        state.counters, state.due = replace(own.counters), False
        if own.ended:
            before = state.dual
            self._become(state, self._widened(problem, state))
            state.episode, gap = None, state.primal - state.dual
            state.reached = gap <= REACHED * self.tol * abs(state.primal)
            state.due, state.fresh = True, state.dual - before > ROUNDING * abs(state.dual)
        return taken

    def _widened(self, problem: KernelProblem, state: DeviceSMOState) -> DeviceSMOState:
        """The state of the whole problem that the active set has led to so far; the given state stays as it is."""
        if state.lifted is None:
            episode, v = state.episode, Variables.of(problem)
            assert episode is not None
            alpha = state.alpha.copy()
            alpha[self._places(problem, episode.rows)] = episode.state.alpha
            change = v.signed(alpha) - v.signed(state.alpha)
            with exactly():
                f = state.f + self._responses(problem, change)
            counters = self._counted(episode.state.counters, np.count_nonzero(change) * problem.n)
            lifted = DeviceSMOState(alpha, f, state.seed, counters=counters)
            self._close(problem, v, lifted)
            state.lifted = lifted  # type: ignore[misc]
        return state.lifted

    def _whole(self, problem: KernelProblem, state: DeviceSMOState) -> DeviceSMOState:
        """A state of the whole problem: the given one, or the one that its sample or active set leads to."""
        if state.sample is not None:
            return self._lifted(problem, state)
        return state if state.episode is None else self._widened(problem, state)

    def first_slice(self, problem: KernelProblem) -> int:
        """Rounds until the first look."""
        return 2 * LOOK

    def advance(self, problem: KernelProblem, state: DeviceSMOState, n_steps: int) -> int:
        """Take up to n_steps rounds, stopping at a checkpoint; returns the number taken."""
        if state.sample is not None:
            return self._work_on_sample(problem, state, n_steps)
        if state.fresh and n_steps:
            self._narrow(problem, state)
        if state.episode is not None:
            return self._work_on_active(problem, state, n_steps)
        with exactly():
            space = state.work(problem, lambda: DeviceSMOWorkspace(Problems.of(problem), self.device, self.working_set))
            if n_steps == 0:
                space.compile([state])
                return 0
            taken = self._rounds(space, [state], state.counters, n_steps)
            state.fresh = self._is_pause(problem.n, state.counters.steps) and not state.ended
            state.due = state.ended or self._is_mark(state.counters.steps)
        return taken

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """Rounds that visit as many variables as there are examples."""
        return max(1, -(-problem.n // self.working_set))

    def knows(self, state: DeviceSMOState) -> bool:
        """Whether all responses are known: not while a sample or an active set is worked on."""
        return state.sample is None and state.episode is None

    def glimpse(self, problem: KernelProblem, state: DeviceSMOState, most: float) -> Any:
        """Measures and model of the present point; None while a sample or an active set is worked on."""
        return super().glimpse(problem, state, most) if self.knows(state) else None

    def certificate(self, problem: KernelProblem, state: DeviceSMOState) -> Certificate:
        """Primal value of the model, dual value of α, and their difference, in the λ-form."""
        state = self._whole(problem, state)
        return self._certificate(problem, self._settled(problem, state), state.dual)

    def duals(self, problem: KernelProblem, state: DeviceSMOState) -> np.ndarray:
        """Σ σα over the variables of an example, of shape (1, n)."""
        return super().duals(problem, self._whole(problem, state))

    def model(self, problem: KernelProblem, state: DeviceSMOState) -> KernelModel:
        """Support vectors, coefficients and bias of the best point that can be made of α."""
        state = self._whole(problem, state)
        return self._model(problem, self.duals(problem, state), self._settled(problem, state))


@savable("SideBySide.State")
@dataclass
class SideBySideState(protocol.State):
    """The states of problems that are solved side by side."""

    states: list[DeviceSMOState]
    due: bool = False
    counters: Counters = field(default_factory=Counters)

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether no problem is left to work on."""
        return all(state.ended for state in self.states)


@savable()
@dataclass
class SideBySide(OnDevice):
    """:class:`DeviceSMO` on many problems with the same data; a step is a round of all problems that are loaded.

    Each goes to its own ``tol``, so a run ends when no problem is left, or at a limit. The model has an output for
    each problem.

    Parameters
    ----------
    working_set, tol, device : as of :class:`DeviceSMO`
    """

    working_set: int = 2048
    tol: float = 1e-3
    device: str = "cuda"

    state_class = SideBySideState
    #: No single model is the best one of all problems.
    capabilities = replace(OnDevice.capabilities, aim="objective")

    def check(self, problem: Problems) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        for part in problem.parts:
            self._check_loss(part)
        self._check_parameters()

    def init(self, problem: Problems, rng: np.random.Generator, duals: np.ndarray | None = None) -> SideBySideState:
        """α = 0, or given dual variables of shape (n_problems, n), made feasible."""
        self.check(problem)
        given = [None if duals is None else duals[k, rows][None] for k, rows in enumerate(problem.rows)]
        return SideBySideState(self._starts(problem, int(rng.integers(2**63)), given))

    def first_slice(self, problem: Problems) -> int:
        """Rounds until the first look."""
        return LOOK

    def advance(self, problem: Problems, state: SideBySideState, n_steps: int) -> int:
        """Take up to n_steps rounds, stopping at a checkpoint; returns the number taken."""
        with exactly():
            space = state.work(problem, lambda: DeviceSMOWorkspace(problem, self.device, self.working_set))
            if n_steps == 0:
                space.compile(state.states)
                return 0
            taken = self._rounds(space, state.states, state.counters, n_steps)
            state.due = state.stalled or self._is_mark(state.counters.steps)
        state.counters.updates = sum(own.counters.updates for own in state.states)
        return taken

    def steps_per_epoch(self, problem: Problems) -> int:
        """Rounds that visit as many variables as the largest problem has examples."""
        return max(1, -(-max(part.n for part in problem.parts) // self.working_set))

    def certificates(self, problem: Problems, state: SideBySideState) -> list[Certificate]:
        """The certificate of each problem."""
        points = zip(problem.parts, self.points(problem, state), strict=True)
        return [self._certificate(part, point, own.dual) for part, (point, own) in points]

    def certificate(self, problem: Problems, state: SideBySideState) -> Certificate:  # type: ignore[override]
        """Primal and dual values of w(α), summed over the problems."""
        both = zip(problem.parts, state.states, strict=True)
        primal, dual = np.sum([(part.lam * own.primal, part.lam * own.dual) for part, own in both], axis=0).tolist()
        return Certificate(primal, dual, primal - dual)

    def points(
        self, problem: Problems, state: SideBySideState, which: slice = slice(None)
    ) -> list[tuple[Point, DeviceSMOState]]:
        """The best primal point, and the state, of some of the problems."""
        both = zip(problem.parts[which], state.states[which], strict=True)
        return [(self._settled(part, own), own) for part, own in both]

    def machines(self, problem: Problems, state: SideBySideState) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """(support, coefficients, bias) of the machine of each problem."""
        found = []
        for part, (point, own) in zip(problem.parts, self.points(problem, state), strict=True):
            beta = Variables.of(part).signed(own.alpha)[0]
            support = np.flatnonzero(beta)
            found.append((support, point.multiple * beta[support], point.bias))
        return found

    def duals(self, problem: Problems, state: SideBySideState) -> np.ndarray:  # type: ignore[override]
        """β of each problem, of shape (n_problems, n)."""
        beta = np.zeros((len(problem.parts), problem.n))
        for line, part, own, rows in zip(beta, problem.parts, state.states, problem.rows, strict=True):
            line[rows] = Variables.of(part).signed(own.alpha)[0]
        return beta

    def model(self, problem: Problems, state: SideBySideState) -> KernelModel:  # type: ignore[override]
        """The machines of all problems, as one with an output for each."""
        points = [point for point, _ in self.points(problem, state)]
        multiples, biases = np.array([[point.multiple] for point in points]), np.array([point.bias for point in points])
        return problem.whole.model(multiples * self.duals(problem, state), biases)
