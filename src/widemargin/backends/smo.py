"""SMO on a GPU: the dual of :mod:`widemargin.solvers.smo`, solved in working sets of some thousand variables.

A round takes the worst violators, half of them from either end, and those of the last round that are free or changed
most; it gets the kernel rows it lacks in blocks, by matrix products. One Triton program solves the problem restricted
to the working set, to a tenth of its violation, by pairs chosen with second-order information (Fan, Chen and Lin 2005;
single variables where there is no free bias), and the change is added to all responses in float64. The first round
takes variables at random. All variables stay active.

A round of Q variables reads Q n kernel values, computes those that the cache has lost, and looks at n numbers to
choose; the duality gap costs O(n) more, every few rounds:

    P − D = Σ_v (C_v [σ_v (e_v − b)]₊ − α_v σ_v (e_v − b)).

α and the responses of the examples are the state, in float64 on the host; all else, and their copies on the device, can
be made again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton

from ..files import savable
from ..history import Counters
from ..problems.kernel import KernelProblem
from ..solvers import protocol
from ..solvers.smo import DualSolver, Point, Variables
from . import programs
from .blocks import Blocks, RowCache, exactly, tensor_of

#: Rounds between two looks at the gap.
LOOK = 4
#: A working set is solved to this share of its violation, in this many moves for each variable at most.
SHARE, MOVES = 0.1, 4
#: Progress of the dual between two looks, as a share of it, that is rounding.
ROUNDING = 1e-13
#: Lower than any violation.
LOW = -3e38
#: Warps of the program for a working set; rows and columns that are added at once.
WARPS, HEIGHT, WIDTH = 16, 32, 128


@savable("DeviceSMO.State")
@dataclass
class State(protocol.State):
    """α and the responses f of all examples; ``previous`` are variables of the last working set to be taken again.

    ``primal`` and ``dual`` are the values of w(α) with ``bias``, and of α; ``point`` is the best primal point that can
    be made of α. ``due``: whether it is one to be looked at. ``before`` is the dual value of the last look at the gap.
    """

    alpha: np.ndarray
    f: np.ndarray
    rng: np.random.Generator
    previous: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    before: float = -np.inf
    due: bool = False
    stalled: bool = False
    bias: float = 0.0
    primal: float = np.inf
    dual: float = 0.0
    point: Point = field(default_factory=lambda: Point(1.0, 0.0, np.inf))
    counters: Counters = field(default_factory=Counters)


def power_of_two(number: int) -> int:
    """The smallest power of two that is no less, 16 at least."""
    return max(16, 1 << max(0, int(number) - 1).bit_length())


class Workspace:
    """A problem, a cache of its kernel rows, and the point of a state, on a device."""

    def __init__(self, problem: KernelProblem, state: State, device: str, working_set: int) -> None:
        v = Variables.of(problem)
        self.variables, self.device, self.n, self.m = v, device, problem.n, v.h.size
        self.constant, self.free_bias = problem.constant, problem.has_free_bias
        self.program = programs.pairs if self.free_bias else programs.singles
        self.cache = RowCache(Blocks(problem, device), problem.cache_bytes)
        self.Q = min(power_of_two(working_set), power_of_two(self.m))
        while min(self.Q, self.n) > self.cache.capacity:
            self.Q //= 2
        self.h, self.row = self.tensor(v.h), self.tensor(v.row)
        self.low, self.high = (
            self.tensor(np.where(v.sigma > 0, 0.0, -v.cap)),
            self.tensor(np.where(v.sigma > 0, v.cap, 0.0)),
        )
        self.beta, self.f = self.tensor(v.sigma * state.alpha), self.tensor(state.f)
        self.previous = self.tensor(state.previous)
        self.moved = torch.zeros(1, dtype=torch.int64, device=device)

    def tensor(self, values: np.ndarray) -> torch.Tensor:
        """A copy on the device."""
        return tensor_of(np.asarray(values), self.device)

    def compile(self) -> None:
        """Compile the programs, by letting them do nothing."""
        nothing, wide = (
            torch.zeros(self.Q, device=self.device),
            torch.zeros(self.Q, dtype=torch.float64, device=self.device),
        )
        K = torch.zeros((self.Q, self.Q), device=self.device)
        self._solve(K, nothing, nothing, wide, wide, wide)
        self.add(torch.zeros(self.Q, dtype=torch.int64, device=self.device), wide)
        self.moved.zero_()

    def _solve(self, K: Any, diagonal: Any, e: Any, low: Any, high: Any, beta: Any) -> None:
        """Solve a working set, in place."""
        self.program[(1,)](
            K, diagonal, e, low, high, beta, self.moved, SHARE, MOVES * self.Q, Q=self.Q, num_warps=WARPS
        )  # fmt: skip

    def add(self, slots: torch.Tensor, change: torch.Tensor) -> None:
        """f += Σ change × row over the slots, in place."""
        grid = (triton.cdiv(self.n, WIDTH),)
        programs.add_rows[grid](
            self.cache.rows, slots, change, self.f, self.n, Q=self.Q, HEIGHT=min(HEIGHT, self.Q),
            WIDTH=WIDTH,
        )  # fmt: skip
        if self.constant:
            self.f += self.constant * change.sum()

    def respond(self) -> None:
        """f ← the responses to β, from kernel rows."""
        beta = self.variables.signed(np.abs(self._host(self.beta)))[0]
        support = np.flatnonzero(beta)
        self.f.zero_()
        for first in range(0, support.size, self.Q):
            rows = support[first : first + self.Q]
            change = np.zeros(self.Q)
            change[: rows.size] = beta[rows]
            self.add(self.tensor(self.cache.fetch(np.resize(rows, self.Q))), self.tensor(change))

    @staticmethod
    def _host(tensor: torch.Tensor) -> np.ndarray:
        return tensor.cpu().numpy().copy()

    def _violations(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """(e less the bias, whether β can rise, whether it can fall, the bias, the largest violation)."""
        e = self.h - (self.f if self.m == self.n else self.f[self.row])
        up, down = self.beta < self.high, self.beta > self.low
        top = torch.where(up, e, -torch.inf).max()
        bottom = torch.where(down, e, torch.inf).min()
        if not self.free_bias:
            return e, up, down, torch.zeros_like(top), torch.maximum(top, -bottom)
        # the middle of the interval of optimal biases; its finite end where it has only one
        bias = torch.where(top.isinf(), bottom, torch.where(bottom.isinf(), top, 0.5 * (top + bottom)))
        bias = torch.where(bias.isinf(), 0.0, bias)
        return e - bias, up, down, bias, top - bottom

    def _choose(self, keys: np.ndarray | None, e: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        """The next working set: all variables if they are few, else by violation, or by random keys."""
        if self.m <= self.Q:
            return torch.arange(self.m, device=self.device)
        score = e.float() if keys is None else self.tensor(keys)
        rises = torch.where(up, score, LOW)
        falls = torch.where(down, -score if keys is None else score, LOW)
        rises[self.previous] = falls[self.previous] = -torch.inf
        left = self.Q - self.previous.numel()
        first = rises.topk(left // 2, sorted=False).indices
        falls[first] = -torch.inf
        second = falls.topk(left - left // 2, sorted=False).indices
        return torch.cat([self.previous, first, second])

    def round(self, keys: np.ndarray | None) -> int:
        """One working set, in place; returns its size."""
        e, up, down, _, _ = self._violations()
        chosen = self._choose(keys, e, up, down)
        size = chosen.numel()
        rows = self.row[chosen]
        slots = self.tensor(np.resize(self.cache.fetch(rows.cpu().numpy()), self.Q))
        padded = torch.zeros(self.Q, dtype=torch.int64, device=self.device)
        padded[:size] = chosen
        columns = self.row[padded]
        K = self.cache.rows[slots[:, None], columns[None, :]] + self.constant
        part = [torch.zeros(self.Q, dtype=torch.float64, device=self.device) for _ in range(3)]
        for own, whole in zip(part, (self.low, self.high, self.beta), strict=True):
            own[:size] = whole[chosen]
        low, high, beta = part
        before = beta.clone()
        self._solve(K, K.diagonal().contiguous(), e[padded].float(), low, high, beta)
        change = beta - before
        self.add(slots, change)
        self.beta[chosen] = beta[:size]
        if self.m > self.Q:
            size_of = change.abs()
            size_of /= size_of.max().clamp(min=1e-300)
            keep = torch.where((beta > low) & (beta < high), 1.0 + size_of, size_of)
            self.previous = chosen[keep.float().topk(self.Q // 2, sorted=False).indices]
        return size

    def look(self) -> tuple[float, float, float]:
        """(duality gap, dual value, largest violation), summed in float64."""
        e, _, _, bias, violation = self._violations()
        beta = self.beta
        # C[σs]₊ is what β at the bound that s pushes to would have of s
        gap = (torch.where(e > 0, self.high, self.low) * e - beta * e).sum()
        dual = (beta * (self.h - 0.5 * (self.h - e - bias))).sum()
        return tuple(torch.stack([gap, dual, violation]).tolist())  # type: ignore[return-value]

    def store(self, state: State) -> None:
        """Copy the point to the state."""
        state.alpha[:], state.f[:] = np.abs(self._host(self.beta)), self._host(self.f)
        state.previous = self._host(self.previous)
        state.counters.updates += int(self.moved)
        self.moved.zero_()


@savable()
@dataclass
class DeviceSMO(DualSolver):
    """Exact dual solver for kernel classification and regression on a GPU.

    Parameters
    ----------
    working_set : int
        Variables of a round, a power of two; fewer where the cache has no room for their rows.
    tol : float
        Relative duality gap at which it asks to be looked at; the run stops at its own ``tol``.
    device : str
        torch's name of the device; on "cpu" Triton's interpreter must be on.
    """

    working_set: int = 2048
    tol: float = 1e-3
    device: str = "cuda"

    state_class = State
    on_device = True

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self._check_loss(problem)
        size = self.working_set
        if not (isinstance(size, (int, np.integer)) and size >= 16 and size & (size - 1) == 0):
            raise ValueError(f"working_set must be a power of two ≥ 16, got {size!r}")

    def init(self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None) -> State:
        """α = 0, or given dual variables of shape (1, n), made feasible."""
        self.check(problem)
        variables = Variables.of(problem)
        state = State(np.zeros(variables.h.size), np.zeros(problem.n), rng)
        if duals is not None:
            state.alpha[:] = self._nearest(problem, variables, duals)
            with exactly():
                space = self._space(problem, state)
                space.respond()
                state.f[:] = space._host(space.f)
        self._close(problem, variables, state)
        return state

    def _space(self, problem: KernelProblem, state: State) -> Workspace:
        return state.work(problem, lambda: Workspace(problem, state, self.device, self.working_set))

    def first_slice(self, problem: KernelProblem) -> int:
        """Rounds until the first look."""
        return 2 * LOOK

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """Take up to n_steps rounds, up to the next look that wants a checkpoint; returns the number taken."""
        taken, counters, state.due = 0, state.counters, False
        with exactly():
            space = self._space(problem, state)
            if n_steps == 0:
                space.compile()
                return 0
            computed = space.cache.computed
            while taken < n_steps and not state.due:
                untouched = counters.steps == 0 and not state.alpha.any()
                keys = state.rng.random(space.m, np.float32) if untouched and space.m > space.Q else None
                size = space.round(keys)
                taken += 1
                counters.steps += 1
                counters.visits += size
                counters.kernel_evals += size * problem.n
                if counters.steps % LOOK == 0:
                    self._look(space, state)
            space.store(state)
            counters.kernel_computed += space.cache.computed - computed
        self._close(problem, space.variables, state)
        return taken

    def _look(self, space: Workspace, state: State) -> None:
        """Whether the state is due: its gap is closed, the dual no longer rises, or it is the time of a checkpoint."""
        gap, dual, violation = space.look()
        reached = gap <= 0.95 * self.tol * abs(gap + dual)
        state.stalled = not reached and (violation <= 0.0 or dual - state.before <= ROUNDING * abs(dual))
        state.before, steps = dual, state.counters.steps
        state.due = bool(
            reached or state.stalled or not np.isfinite(gap) or (steps > LOOK and steps & (steps - 1) == 0)
        )

    def at_checkpoint(self, state: State) -> bool:
        """Whether the last round wants to be looked at."""
        return state.due

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """Rounds that visit as many variables as there are examples."""
        return max(1, -(-problem.n // self.working_set))
