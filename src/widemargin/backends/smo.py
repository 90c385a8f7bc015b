"""SMO on a GPU: the dual of :mod:`widemargin.solvers.smo`, in working sets of some thousand variables, for one problem
or for many side by side.

A round takes the worst violators, half of them from either end, and those of the last round that are free or changed
most; it gets the kernel rows it lacks in blocks, by matrix products. One Triton program solves the problem restricted
to the working set, to a tenth of its violation, by pairs chosen with second-order information (Fan, Chen and Lin 2005;
single variables where there is no free bias), and the change is added to all responses in float64. The first round
takes variables at random. All variables stay active.

Of many examples a sample is solved first, with bounds as much larger, roughly. Its machine says for every example
whether it is on the wrong side of the margin, and there its variables start at their bound: most of those that end
there are so moved at once, and not by working sets.

A round of Q variables reads Q n kernel values, computes those that the cache has lost, and looks at n numbers to
choose; the duality gap costs O(n) more, every few rounds:

    P − D = Σ_v (C_v [σ_v (e_v − b)]₊ − α_v σ_v (e_v − b)).

Problems on examples of the same data (classes, folds, values of C) go through their rounds together: a launch has a
program for each of them, and a kernel row that several want is computed once. Their arrays stand below each other,
filled up with variables that cannot move. Each leaves when its gap is closed, and one that waits takes its place.

α and the responses of the examples are the state, in float64 on the host; all else, and their copies on the device, can
be made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
import triton

from ..core.distant import Distant
from ..files import savable
from ..history import Counters
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from ..solvers import protocol
from ..solvers.smo import DualSolver, Point, Variables
from . import programs
from .blocks import Blocks, RowCache, exactly, tensor_of
from .scoring import scores

#: Rounds after which the dual must have risen.
LOOK = 4
#: A working set is solved to this share of its violation, and to the square of that while moves are fewer than this
#: share of its variables, since a round costs as much as some hundred moves; this many for each variable at most.
SHARE, LEAST, MOVES = 0.1, 0.25, 4
#: Progress of the dual between two looks, as a share of it, that is rounding.
ROUNDING = 1e-13
#: Warps of the program for a working set; rows and columns that are added at once; variables that one program looks
#: at; rows that one program collects.
WARPS, HEIGHT, WIDTH, SPAN, COLLECTED = 16, 32, 128, 1024, 4
#: The fewest examples of which a sample is solved first, to this relative gap.
LARGE, ROUGHLY = 2**17, 0.02
#: The kinds of work that this process has compiled programs for.
COMPILED: set[Any] = set()
#: The share of the cache's bytes that kernel values among the variables of working sets may have.
AMONG = 0.25


@savable("DeviceSMO.State")
@dataclass
class State(protocol.State):
    """α and the responses f of all examples; ``previous`` are variables of the last working set to be taken again.

    ``bias``, ``primal`` and ``dual`` are those of w(α). ``before`` is the dual value after ``looked`` rounds, ``due``
    whether there is something to be looked at, ``reached`` whether the gap is closed, which was said after ``said``
    rounds. ``seed`` orders the variables for the first round. ``sample`` is the state of the sample's problem, while
    that is worked on.
    """

    #: What was made of the sample, once it was asked for.
    lifted: ClassVar[Any] = None

    #: The best primal point that can be made of α, once it was asked for.
    point: ClassVar[Point | None] = None

    alpha: np.ndarray
    f: np.ndarray
    seed: int
    previous: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    before: float = -np.inf
    looked: int = 0
    said: int = -1
    due: bool = False
    reached: bool = False
    stalled: bool = False
    bias: float = 0.0
    primal: float = np.inf
    dual: float = 0.0
    sample: State | None = None
    counters: Counters = field(default_factory=Counters)

    @property
    def ended(self) -> bool:
        """Whether there is no more to do."""
        return self.reached or self.stalled


@dataclass(frozen=True, eq=False)
class Problems:
    """Binary problems on examples of the same data: ``whole`` has the kernel, the rows and the memory for kernel rows,
    ``parts`` have targets, weights and λ of their own, and ``rows`` says which examples are theirs.
    """

    whole: KernelProblem
    parts: Sequence[KernelProblem]
    rows: Sequence[np.ndarray]

    overflow = KernelProblem.overflow

    @property
    def n(self) -> int:
        """Number of examples of the data."""
        return self.whole.n

    @property
    def n_outputs(self) -> int:
        """Number of problems."""
        return len(self.parts)

    @classmethod
    def of(cls, problem: KernelProblem) -> Problems:
        """A single problem."""
        return cls(problem, [problem], [np.arange(problem.n)])


def power_of_two(number: int) -> int:
    """The smallest power of two that is no less, 16 at least."""
    return max(16, 1 << max(0, int(number) - 1).bit_length())


def _padded(size: int) -> int:
    """A multiple of 128 that is no less: programs are compiled for sizes that are multiples of 16, and others."""
    return -(-size // 128) * 128


class Workspace:
    """Problems, a cache of kernel rows that they share, and the points of those that are worked on, on a device.

    The arrays of the latter have a line for each: h, bounds and β of its variables, at least as many as a working set
    has; the example of the data for each of its examples, and their responses; where the variables have theirs.
    """

    def __init__(self, problems: Problems, device: str, working_set: int) -> None:
        whole = problems.whole
        self.problems, self.device, self.n = problems, device, whole.n
        self.constant, self.free_bias = whole.constant, whole.has_free_bias
        self.program = programs.pairs if self.free_bias else programs.singles
        self.variables = [Variables.of(part) for part in problems.parts]
        self.cache = RowCache(Blocks(whole, device), whole.cache_bytes)
        largest = max(v.h.size for v in self.variables)
        self.Q = min(power_of_two(working_set), power_of_two(largest))
        while min(self.Q, self.n) > self.cache.capacity:
            self.Q //= 2
        among = int(AMONG * whole.cache_bytes / (4.0 * self.Q**2 + 64.0 * largest))
        held = among if self.cache.capacity == self.n else min(among, self.cache.capacity // self.Q)
        #: The most problems that are worked on at once.
        self.most = max(1, held)
        self.parts_of_line = triton.next_power_of_2(triton.cdiv(_padded(max(largest, self.Q)), SPAN))
        self.lines: list[int] = []

    def tensor(self, values: Any) -> torch.Tensor:
        """A copy on the device."""
        return tensor_of(np.asarray(values), self.device)

    def load(self, lines: list[int], states: Sequence[State]) -> None:
        """Work on these problems from now on, from their states."""
        self.lines = lines
        parts, rows = [self.variables[k] for k in lines], [self.problems.rows[k] for k in lines]
        largest = max(v.h.size for v in parts)
        self.width = _padded(largest) if largest > self.Q else self.Q
        # where each example has one variable, they stand in the same places
        self.twice = any(v.h.size > r.size for v, r in zip(parts, rows, strict=True))
        self.tall = _padded(max(r.size for r in rows)) if self.twice else self.width

        def filled(values: list[np.ndarray], size: int, dtype: Any = np.float64) -> torch.Tensor:
            whole = np.zeros((len(lines), size), dtype)
            for line, own in zip(whole, values, strict=True):
                line[: own.size] = own
            return self.tensor(whole)

        self.h = filled([v.h for v in parts], self.width)
        self.low = filled([np.where(v.sigma > 0, 0.0, -v.cap) for v in parts], self.width)
        self.high = filled([np.where(v.sigma > 0, v.cap, 0.0) for v in parts], self.width)
        self.beta = filled([v.sigma * states[k].alpha for k, v in zip(lines, parts, strict=True)], self.width)
        self.f = filled([states[k].f for k in lines], self.tall)
        self.row = filled(rows, self.tall, np.int64)
        self.at = filled([v.row for v in parts], self.width, np.int64) if self.twice else self.row
        count, programs_of_line = len(lines), triton.cdiv(self.width, SPAN)
        self.e, self.rises, self.falls = (self._empty(count, self.width) for _ in range(3))
        self.ends, self.sums = (self._empty(count, programs_of_line, each, dtype=torch.float64) for each in (2, 4))
        self.age = self._empty(count, self.width, dtype=torch.int32).zero_()
        self.change = self._empty(count, self.Q, dtype=torch.float64)
        self.slots, self.keep = self._empty(count, self.Q, dtype=torch.int64), self._empty(count, self.Q)
        self.K = self._empty(count, self.Q, self.Q)
        self.moved, self.clock = torch.zeros(count, dtype=torch.int64, device=self.device), 1
        self._order(states)

    def _empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=self.device)

    def _order(self, states: Sequence[State]) -> None:
        """What the first round of each goes by: keys of the examples, the same for all problems."""
        kept, own = self.Q // 2, [states[k] for k in self.lines]
        fresh = np.array([state.previous.size == 0 and not state.alpha.any() for state in own])
        self.first, self.fresh, self.keys = bool(fresh.any()), self.tensor(fresh.astype(np.int8)), self.e
        self.previous = self._empty(len(own), kept, dtype=torch.int64).zero_()
        if self.width == self.Q:
            self.first = False
            return
        # none of a working set of another size, as of a run that had more memory, or of longer lines
        usable = [state.previous.size == kept and bool((state.previous < self.width).all()) for state in own]
        if not all(usable):
            keys = self.tensor(np.random.default_rng(own[0].seed).random(self.n, np.float32))
            of_variables = self.row.gather(1, self.at) if self.twice else self.row
            self.keys = torch.where(self.low < self.high, keys[of_variables], programs.LOW.value)
            self.previous = self.keys.topk(kept, dim=1).indices
        for line, state in enumerate(own):
            if usable[line]:
                self.previous[line] = self.tensor(state.previous)
        self.age.scatter_(1, self.previous, self.clock)

    def compile(self, states: Sequence[State]) -> None:
        """Compile the programs, by letting them work on variables that cannot move; once in a process for each kind."""
        columns = self.cache.blocks.columns
        kind = (
            self.Q, self.n % 16, self.parts_of_line, self.program, max(v.h.size for v in self.variables) > self.n,
            self.device, type(columns.Z) if columns is not None and columns.gaussian else None,
        )  # fmt: skip
        if kind in COMPILED:
            return
        COMPILED.add(kind)
        self.load([0], states)
        self.high, self.low, self.beta = (torch.zeros_like(self.beta) for _ in range(3))
        for _ in range(2):
            self.measure()
            self.chosen = torch.zeros((1, self.Q), dtype=torch.int64, device=self.device)
            self.examples = self.chosen
            self.cache.fetch(self.examples)
            self.round()
        self.cache.clear()
        self.lines = []

    def measure(self) -> None:
        """Look at all variables: what the next round and :meth:`look` go by."""
        grid = (self.sums.shape[1], len(self.lines))
        of_lines = self.h, self.f, self.at, self.low, self.high, self.beta, self.ends
        programs.extremes[grid](*of_lines, self.width, self.tall, TWICE=self.twice, WIDTH=SPAN)
        programs.ranks[grid](
            *of_lines, self.keys, self.fresh, self.age, self.clock, self.e, self.rises, self.falls, self.sums,
            self.width, self.tall, FREE_BIAS=self.free_bias, TWICE=self.twice, KEYS=self.first, WIDTH=SPAN,
            PARTS=self.parts_of_line,
        )  # fmt: skip

    def look(self) -> np.ndarray:
        """Of each line the duality gap, the dual value, the bias and the largest violation, when it was measured."""
        parts = self.sums.cpu().numpy()
        return np.concatenate([parts[:, :, :2].sum(axis=1), parts[:, 0, 2:]], axis=1)

    def choose(self) -> None:
        """The next working sets, all variables if they are few, else by violation; asks for their kernel rows."""
        count, left = len(self.lines), self.Q - self.previous.shape[1]
        if self.width == self.Q:
            self.chosen = torch.arange(self.Q, device=self.device).repeat(count, 1)
        else:
            one = self.rises.topk(left // 2, dim=1, sorted=False).indices
            self.falls.scatter_(1, one, -torch.inf)
            other = self.falls.topk(left - left // 2, dim=1, sorted=False).indices
            self.chosen = torch.cat([self.previous, one, other], dim=1)
        self.examples = self._examples(self.chosen)
        self.cache.fetch(self.examples)

    def round(self) -> None:
        """Solve the chosen working set of each problem, in place."""
        count = len(self.lines)
        programs.collect[(self.Q // COLLECTED, count)](
            self.cache.rows, self.cache.slot_of, self.examples, float(self.constant), self.n, self.slots, self.K,
            Q=self.Q, HEIGHT=COLLECTED,
        )  # fmt: skip
        self.program[(count,)](
            self.K, self.chosen, self.e, self.low, self.high, self.beta, self.change, self.keep, self.moved,
            self.width, SHARE, int(LEAST * self.Q), MOVES * self.Q, Q=self.Q, num_warps=WARPS,
        )  # fmt: skip
        self._add()
        if self.width > self.Q:
            again = self.keep.topk(self.previous.shape[1], dim=1, sorted=False).indices
            self.previous, self.clock = self.chosen.gather(1, again), self.clock + 1
            self.age.scatter_(1, self.previous, self.clock)
        self.first = False

    def _add(self) -> None:
        """f += Σ change × kernel row over the slots of each line, in place."""
        programs.add_rows[(triton.cdiv(self.tall, WIDTH), len(self.lines))](
            self.cache.rows, self.slots, self.change, self.row, self.f, self.n, self.tall, Q=self.Q,
            HEIGHT=min(HEIGHT, self.Q), WIDTH=WIDTH,
        )  # fmt: skip
        if self.constant:
            self.f += self.constant * self.change.sum(1, keepdim=True)

    def respond(self) -> None:
        """f ← the responses to β, from kernel rows."""
        self.f.zero_()
        for first in range(0, self.width, self.Q):
            places = torch.arange(first, first + self.Q, device=self.device)
            inside = places < self.width
            places = places.clamp(max=self.width - 1).repeat(len(self.lines), 1)
            self.change = torch.where(inside, self.beta.gather(1, places), 0.0)
            examples, used = self._examples(places), self.change != 0.0
            if used.any():  # any rows stand in for those of variables at 0
                examples = torch.where(used, examples, examples[used][0])
                self.cache.fetch(examples)
                self.slots = self.cache.slot_of[examples]
                self._add()

    def _examples(self, chosen: torch.Tensor) -> torch.Tensor:
        """The examples of variables."""
        return self.row.gather(1, self.at.gather(1, chosen) if self.twice else chosen)

    def store(self, states: Sequence[State]) -> None:
        """Copy the points to their states."""
        self.measure()
        beta, f, previous, moved = (t.cpu().numpy() for t in (self.beta, self.f, self.previous, self.moved))
        for line, (k, (gap, dual, bias, _)) in enumerate(zip(self.lines, self.look().tolist(), strict=True)):
            state = states[k]
            state.alpha[:], state.f[:] = np.abs(beta[line, : state.alpha.size]), f[line, : state.f.size]
            if not self.first and self.width > self.Q:
                state.previous = previous[line].copy()
            state.bias, state.primal, state.dual = bias, gap + dual, dual
            state.point = None  # type: ignore[misc]
            state.counters.updates += int(moved[line])
        self.moved.zero_()


def thinned(alpha: np.ndarray, sigma: np.ndarray, order: np.ndarray) -> np.ndarray:
    """α with Σ σα = 0: of the heavier side, those that come first in an order become 0, the last of them in part."""
    excess = float(sigma @ alpha)
    heavier = np.flatnonzero((alpha > 0.0) & (sigma * excess > 0.0))
    heavier = heavier[np.argsort(order[heavier], kind="stable")]
    before = np.cumsum(alpha[heavier]) - alpha[heavier]
    out = alpha.copy()
    out[heavier] -= np.clip(abs(excess) - before, 0.0, alpha[heavier])
    return out


class OnDevice(DualSolver):
    """What the solvers for one and for many problems share: parameters, starts, rounds and looks."""

    working_set: int
    tol: float
    device: str

    on_device = True

    def _check_parameters(self) -> None:
        size = self.working_set
        if not (isinstance(size, (int, np.integer)) and size >= 16 and size & (size - 1) == 0):
            raise ValueError(f"working_set must be a power of two ≥ 16, got {size!r}: use 2048")

    def _starts(self, problems: Problems, seed: int, duals: Sequence[np.ndarray | None]) -> list[State]:
        """α = 0 for each problem, or given dual variables of shape (1, n), made feasible."""
        states = []
        for part, start in zip(problems.parts, duals, strict=True):
            variables = Variables.of(part)
            state = State(np.zeros(variables.h.size), np.zeros(part.n), seed)
            if start is not None:
                state.alpha[:] = self._nearest(part, variables, start)
            states.append(state)
        with exactly():
            given = [k for k, state in enumerate(states) if state.alpha.any()]
            if given:
                space = Workspace(problems, self.device, self.working_set)
                for first in range(0, len(given), space.most):
                    space.load(given[first : first + space.most], states)
                    space.respond()
                    for line, k in enumerate(space.lines):
                        states[k].f[:] = space.f[line, : states[k].f.size].cpu().numpy()
        for part, state in zip(problems.parts, states, strict=True):
            self._close(part, Variables.of(part), state)
        return states

    def _settled(self, problem: KernelProblem, state: State) -> Point:
        """The best primal point that can be made of α."""
        if state.point is None:
            values = state.bias, state.primal, state.dual
            found = self._point(problem, Variables.of(problem), state.alpha, state.f, *values)
            state.point = found  # type: ignore[misc]
        return state.point  # type: ignore[return-value]

    def _rounds(self, space: Workspace, states: Sequence[State], counters: Counters, n_steps: int) -> int:
        """Up to n_steps rounds of the problems that have not ended, up to one that wants a checkpoint."""
        taken, computed = 0, space.cache.computed
        if all(state.ended for state in states):  # asked to go on
            for state in states:
                state.reached = state.stalled = False
        if not space.lines:
            self._enter(space, states)
        while taken < n_steps and space.lines:
            space.measure()
            space.choose()  # waits for the device, which a look at the gap need not do again
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
            if self._is_mark(counters.steps):
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
    def _enter(space: Workspace, states: Sequence[State]) -> None:
        """Work on as many problems as there is room for, those that are worked on first."""
        stay = [k for k in space.lines if not states[k].ended]
        waiting = [k for k, state in enumerate(states) if not state.ended and k not in stay]
        space.lines = (stay + waiting)[: space.most]
        if space.lines:
            space.load(space.lines, states)

    def _look(self, space: Workspace, states: Sequence[State]) -> bool:
        """Whether problems have ended; they leave, and others enter."""
        found = False
        for k, (gap, dual, _, violation) in zip(space.lines, space.look().tolist(), strict=True):
            state = states[k]
            steps = state.counters.steps
            if steps == state.said:
                continue
            state.reached = gap <= 0.95 * self.tol * abs(gap + dual)
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
        Relative duality gap at which it asks to be looked at; the run stops at its own ``tol``.
    device : str
        torch's name of the device; on "cpu" Triton's interpreter must be on.
    sample : int
        Of many examples one in this many is solved first; 1 starts with all.
    """

    working_set: int = 2048
    tol: float = 1e-3
    device: str = "cuda"
    sample: int = 16

    state_class = State
    for_many = "smo"

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self._check_loss(problem)
        self._check_parameters()
        if not (isinstance(self.sample, (int, np.integer)) and self.sample >= 1):
            raise ValueError(f"sample must be a whole number ≥ 1, got {self.sample!r}: 1 starts with all examples")

    def init(self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None) -> State:
        """α = 0, or given dual variables of shape (1, n), made feasible."""
        self.check(problem)
        state = self._starts(Problems.of(problem), int(rng.integers(2**63)), [duals])[0]
        if duals is None and problem.n >= LARGE and self.sample > 1 and problem.kernel.of_rows:
            part = self._sampled(problem, state)
            state.sample = self._roughly().init(part, np.random.default_rng(state.seed))
        return state

    def _roughly(self) -> DeviceSMO:
        """The solver of the sample."""
        return replace(self, tol=max(self.tol, ROUGHLY), sample=1)

    def _sampled(self, problem: KernelProblem, state: State) -> KernelProblem:
        """The problem of the sample, with the same λ."""

        def taken() -> KernelProblem:
            chosen, s = self._chosen(problem, state), problem.sample_weight
            X = problem.X[chosen] if isinstance(problem.X, Distant) else problem.rows(chosen)
            return replace(problem, X=X, y=problem.y[chosen], sample_weight=s[chosen] if s.size else s, shared=None)

        return state.work(problem, taken)

    def _chosen(self, problem: KernelProblem, state: State) -> np.ndarray:
        """The examples of the sample."""
        order = np.random.default_rng(state.seed).permutation(problem.n)
        return np.sort(order[: problem.n // self.sample])

    def _lifted(self, problem: KernelProblem, state: State) -> State:
        """The state that the sample's machine makes of one whose sample is worked on; that one stays as it is."""
        if state.lifted is None:
            part, own = self._sampled(problem, state), state.sample
            assert own is not None
            own.drop_workspace()  # the rows of all examples want its memory
            model = self._roughly().model(part, own)
            away = scores(model, problem.X, device=self.device)[:, 0]
            v, inner, chosen = Variables.of(problem), Variables.of(part), self._chosen(problem, state)
            wrong = v.sigma * (v.h - away[v.row])
            alpha = np.where(wrong > 0.0, v.cap, 0.0)
            free = np.flatnonzero((own.alpha > 0.0) & (own.alpha < inner.cap))
            places = chosen[inner.row[free]] + (free // part.n) * problem.n
            alpha[places] = np.minimum(own.alpha[free], v.cap[places])
            if problem.has_free_bias:
                alpha = thinned(alpha, v.sigma, wrong)
            # of the two variables of an example in a regression only one is above 0, so β has both
            lifted = self._starts(Problems.of(problem), state.seed, [v.signed(alpha)])[0]
            lifted.counters = replace(own.counters)
            state.lifted = lifted  # type: ignore[misc]
        return state.lifted

    def _work_on_sample(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """Up to n_steps rounds of the sample's problem; at its end its machine is the start of the whole problem."""
        part, solver, own = self._sampled(problem, state), self._roughly(), state.sample
        assert own is not None
        state.lifted = None  # type: ignore[misc]
        taken = solver.advance(part, own, n_steps)
        state.counters = replace(own.counters)
        if n_steps and own.ended:
            lifted = self._lifted(problem, state)
            for name in ("alpha", "f", "bias", "primal", "dual", "sample", "counters"):
                setattr(state, name, getattr(lifted, name))
            state.looked = state.counters.steps
            state.lifted = state.point = None  # type: ignore[misc]
            state.drop_workspace()
        return taken

    def first_slice(self, problem: KernelProblem) -> int:
        """Rounds until the first look."""
        return 2 * LOOK

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """Take up to n_steps rounds, up to the next look that wants a checkpoint; returns the number taken."""
        if state.sample is not None:
            return self._work_on_sample(problem, state, n_steps)
        with exactly():
            space = state.work(problem, lambda: Workspace(Problems.of(problem), self.device, self.working_set))
            if n_steps == 0:
                space.compile([state])
                return 0
            taken = self._rounds(space, [state], state.counters, n_steps)
            state.due = state.ended or self._is_mark(state.counters.steps)
        return taken

    def at_checkpoint(self, state: State) -> bool:
        """Whether the last round wants to be looked at."""
        return state.due

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """Rounds that visit as many variables as there are examples."""
        return max(1, -(-problem.n // self.working_set))

    def knows(self, state: State) -> bool:
        """Whether the value of the present point takes no further kernel values: not while a sample is worked on."""
        return state.sample is None

    def glimpse(self, problem: KernelProblem, state: State, most: float) -> Any:
        """What is known of the present point and its model; None while a sample is worked on."""
        return super().glimpse(problem, state, most) if state.sample is None else None

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal value of the model, dual value of α, and their difference, in the λ-form."""
        state = state if state.sample is None else self._lifted(problem, state)
        return self._certificate(problem, self._settled(problem, state), state.dual)

    def duals(self, problem: KernelProblem, state: State) -> np.ndarray:
        """Σ σα over the variables of an example, of shape (1, n)."""
        return super().duals(problem, state if state.sample is None else self._lifted(problem, state))

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """Support vectors, coefficients and bias of the best point that can be made of α."""
        state = state if state.sample is None else self._lifted(problem, state)
        return self._model(problem, self.duals(problem, state), self._settled(problem, state))


@savable("SideBySide.State")
@dataclass
class States(protocol.State):
    """The states of problems that are worked on side by side."""

    states: list[State]
    due: bool = False
    counters: Counters = field(default_factory=Counters)

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether no problem is left to work on."""
        return all(state.ended for state in self.states)


@savable()
@dataclass
class SideBySide(OnDevice):
    """:class:`DeviceSMO` on many problems with the same data; a step is a round of all that are worked on.

    Each goes to its own ``tol``, so a run ends when no problem is left, or at a limit. The model has an output for
    each problem.

    Parameters
    ----------
    working_set, tol, device : as of :class:`DeviceSMO`
    """

    working_set: int = 2048
    tol: float = 1e-3
    device: str = "cuda"

    state_class = States
    exact = False  # the best model seen would be one for all problems; each has its own

    def check(self, problem: Problems) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        for part in problem.parts:
            self._check_loss(part)
        self._check_parameters()

    def init(self, problem: Problems, rng: np.random.Generator, duals: np.ndarray | None = None) -> States:
        """α = 0, or given dual variables of shape (n_problems, n), made feasible."""
        self.check(problem)
        given = [None if duals is None else duals[k, rows][None] for k, rows in enumerate(problem.rows)]
        return States(self._starts(problem, int(rng.integers(2**63)), given))

    def first_slice(self, problem: Problems) -> int:
        """Rounds until the first look."""
        return LOOK

    def advance(self, problem: Problems, state: States, n_steps: int) -> int:
        """Take up to n_steps rounds, up to the next look that wants a checkpoint; returns the number taken."""
        with exactly():
            space = state.work(problem, lambda: Workspace(problem, self.device, self.working_set))
            if n_steps == 0:
                space.compile(state.states)
                return 0
            taken = self._rounds(space, state.states, state.counters, n_steps)
            state.due = state.stalled or self._is_mark(state.counters.steps)
        state.counters.updates = sum(own.counters.updates for own in state.states)
        return taken

    def at_checkpoint(self, state: States) -> bool:
        """Whether the last round wants to be looked at."""
        return state.due

    def steps_per_epoch(self, problem: Problems) -> int:
        """Rounds that visit as many variables as the largest problem has examples."""
        return max(1, -(-max(part.n for part in problem.parts) // self.working_set))

    def certificates(self, problem: Problems, state: States) -> list[Certificate]:
        """The certificate of each problem."""
        return [
            self._certificate(part, self._settled(part, own), own.dual)
            for part, own in zip(problem.parts, state.states, strict=True)
        ]

    def certificate(self, problem: Problems, state: States) -> Certificate:  # type: ignore[override]
        """Primal and dual values of w(α), summed over the problems."""
        both = zip(problem.parts, state.states, strict=True)
        primal, dual = np.sum([(part.lam * own.primal, part.lam * own.dual) for part, own in both], axis=0).tolist()
        return Certificate(primal, dual, primal - dual)

    def points(self, problem: Problems, state: States, which: slice) -> list[tuple[Point, State]]:
        """The best primal point, and the state, of some of the problems."""
        both = zip(problem.parts[which], state.states[which], strict=True)
        return [(self._settled(part, own), own) for part, own in both]

    def machines(self, problem: Problems, state: States) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """(support, coefficients, bias) of the machine of each problem."""
        found = []
        for part, own in zip(problem.parts, state.states, strict=True):
            point, beta = self._settled(part, own), Variables.of(part).signed(own.alpha)[0]
            support = np.flatnonzero(beta)
            found.append((support, point.multiple * beta[support], point.bias))
        return found

    def duals(self, problem: Problems, state: States) -> np.ndarray:  # type: ignore[override]
        """β of each problem, of shape (n_problems, n)."""
        beta = np.zeros((len(problem.parts), problem.n))
        for line, part, own, rows in zip(beta, problem.parts, state.states, problem.rows, strict=True):
            line[rows] = Variables.of(part).signed(own.alpha)[0]
        return beta

    def model(self, problem: Problems, state: States) -> KernelModel:  # type: ignore[override]
        """The machines of all problems, as one with an output for each."""
        whole, beta, biases = problem.whole, np.zeros((len(problem.parts), problem.whole.n)), []
        machines = zip(self.machines(problem, state), problem.rows, strict=True)
        for line, ((support, coef, bias), rows) in zip(beta, machines, strict=True):
            line[rows[support]] = coef
            biases.append(bias)
        return whole.model(beta, np.array(biases))
