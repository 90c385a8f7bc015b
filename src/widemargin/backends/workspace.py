"""State and workspace of SMO on a device: problems, their cache of kernel rows, their points, and a round.

The mathematics is in :mod:`widemargin.backends.smo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
import triton

from ..files import savable
from ..history import Counters
from ..problems.kernel import KernelProblem
from ..schemas import FLOATS, Array, Own
from ..solvers import protocol
from ..solvers.smo.dual import Point, Variables
from . import programs
from .blocks import Blocks, RowCache, tensor_of

#: A working set is solved until its violation has fallen to this share.
SHARE = 0.1
#: Before LEAST moves per variable of the working set, it is solved to SHARE²: a round costs as much as some hundred
#: moves.
LEAST = 0.25
#: The most moves per variable of a working set.
MOVES = 4
#: Warps of the program that solves a working set.
WARPS = 16
#: Kernel rows and columns that one program adds to the responses at a time.
HEIGHT, WIDTH = 32, 128
#: Variables that one program ranks.
SPAN = 1024
#: Rows of a working set whose kernel values one program collects.
COLLECTED = 4
#: The kinds of work that this process has compiled programs for.
COMPILED: set[Any] = set()
#: The share of the cache's bytes for kernel values within working sets.
AMONG = 0.25


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    episode = state.episode
    if episode is not None and episode.rows.size and episode.rows.max() >= sizes["n"]:
        return f"the episode has row {episode.rows.max()}, of {sizes['n']} examples"
    return None


@savable(
    "DeviceSMO.State", alpha=Array("variables", dtype=FLOATS, low=0.0), f=Array("n", dtype=FLOATS), law=_law,
    previous=Array(None, dtype=np.int64, low=-1, high="variables-1"),
)  # fmt: skip
@dataclass
class DeviceSMOState(protocol.State):
    """α, the responses f of all examples, and ``previous``: variables to be in the next working set again.

    ``bias``, ``primal`` and ``dual`` belong to w(α). ``before`` is the dual value after ``looked`` rounds. ``due`` says
    whether the gap must be measured, ``reached`` whether it was small enough, which was found after ``said`` rounds.
    ``seed`` orders the variables for the first round. ``sample`` is the state of the sample's problem while it is
    solved, ``episode`` the active set while it is solved, and ``fresh`` says whether an active set may be chosen now.
    An active set is left when its gap is at most ``target``; 0 is a share of the objective.
    """

    #: A cache: the point that the sample or the active set gives for all examples.
    lifted: ClassVar[Any] = None

    #: A cache: the best primal point for α.
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
    sample: DeviceSMOState | None = None
    episode: Episode | None = None
    fresh: bool = False
    target: float = 0.0
    counters: Counters = field(default_factory=Counters)

    @property
    def ended(self) -> bool:
        """Whether training has ended."""
        return self.reached or self.stalled


@savable(
    "DeviceSMO.Episode", rows=Array("rows", dtype=np.int64, low=0), rest=Array("rows", dtype=FLOATS),
    state=Own(DeviceSMOState, n="rows"),
)  # fmt: skip
@dataclass
class Episode:
    """An active set: its examples, the part of their responses by all other examples, and the state of its problem."""

    rows: np.ndarray
    rest: np.ndarray
    state: DeviceSMOState


@dataclass(frozen=True, eq=False)
class Problems:
    """Binary problems on examples of the same data.

    ``whole`` has the kernel, the rows and the memory for kernel rows. ``parts`` have targets, weights and λ of their
    own, and ``rows`` are the places of their examples. ``variables`` are the dual variables, if they are not all.
    """

    whole: KernelProblem
    parts: Sequence[KernelProblem]
    rows: Sequence[np.ndarray]
    variables: Sequence[Variables] | None = None

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
    def of(cls, problem: KernelProblem, variables: Variables | None = None) -> Problems:
        """A single problem."""
        return cls(problem, [problem], [np.arange(problem.n)], None if variables is None else [variables])


def power_of_two(number: int) -> int:
    """The least power of two that is at least ``number`` and at least 16."""
    return max(16, 1 << max(0, int(number) - 1).bit_length())


def _padded(size: int) -> int:
    """The least multiple of 128 that is at least ``size``: Triton compiles anew for sizes that 16 does not divide."""
    return -(-size // 128) * 128


class DeviceSMOWorkspace:
    """Problems on a device with a shared cache of kernel rows, and the points of the problems that are solved now.

    The arrays have a line for each of these problems: h, bounds and β of its variables (at least as many as a working
    set has), the places of its examples in the data, their responses, and the example of each variable.
    """

    def __init__(self, problems: Problems, device: str, working_set: int) -> None:
        whole = problems.whole
        self.problems, self.device, self.n = problems, device, whole.n
        self.constant, self.free_bias = whole.constant, whole.has_free_bias
        self.program = programs.pairs if self.free_bias else programs.singles
        self.variables = problems.variables or [Variables.of(part) for part in problems.parts]
        self.cache = RowCache(Blocks(whole, device), whole.cache_bytes)
        largest = max(v.h.size for v in self.variables)
        self.Q = min(power_of_two(working_set), power_of_two(largest))
        while min(self.Q, self.n) > self.cache.capacity:
            self.Q //= 2
        among = int(AMONG * whole.cache_bytes / (4.0 * self.Q**2 + 64.0 * largest))
        held = among if self.cache.capacity == self.n else min(among, self.cache.capacity // self.Q)
        #: The most problems that are solved at a time.
        self.most = max(1, held)
        self.parts_of_line = triton.next_power_of_2(triton.cdiv(_padded(max(largest, self.Q)), SPAN))
        self.lines: list[int] = []

    def load(self, lines: list[int], states: Sequence[DeviceSMOState]) -> None:
        """Solve these problems from now on, starting at their states."""
        self.lines = lines
        parts, rows = [self.variables[k] for k in lines], [self.problems.rows[k] for k in lines]
        largest = max(v.h.size for v in parts)
        self.width = _padded(largest) if largest > self.Q else self.Q
        # if each example has one variable, both have the same place
        self.twice = any(v.h.size > r.size for v, r in zip(parts, rows, strict=True))
        self.tall = _padded(max(r.size for r in rows)) if self.twice else self.width

        def filled(values: list[np.ndarray], size: int, dtype: Any = np.float64) -> torch.Tensor:
            whole = np.zeros((len(lines), size), dtype)
            for line, own in zip(whole, values, strict=True):
                line[: own.size] = own
            return tensor_of(whole, self.device)

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

    def _order(self, states: Sequence[DeviceSMOState]) -> None:
        """Order the variables for the first round by random keys of the examples, the same keys for all problems."""
        kept, own = self.Q // 2, [states[k] for k in self.lines]
        fresh = np.array([state.previous.size == 0 and not state.alpha.any() for state in own])
        self.first, self.fresh, self.keys = bool(fresh.any()), tensor_of(fresh.astype(np.int8), self.device), self.e
        self.previous = self._empty(len(own), kept, dtype=torch.int64).zero_()
        if self.width == self.Q:
            self.first = False
            return
        # drop the variables of working sets of another size, for example from a run with more memory
        usable = [state.previous.size == kept and bool((state.previous < self.width).all()) for state in own]
        if not all(usable):
            keys = tensor_of(np.random.default_rng(own[0].seed).random(self.n, np.float32), self.device)
            of_variables = self.row.gather(1, self.at) if self.twice else self.row
            self.keys = torch.where(self.low < self.high, keys[of_variables], programs.LOW.value)
            self.previous = self.keys.topk(kept, dim=1).indices
        for line, state in enumerate(own):
            if usable[line]:
                self.previous[line] = tensor_of(state.previous, self.device)
        self.age.scatter_(1, self.previous, self.clock)

    def compile(self, states: Sequence[DeviceSMOState]) -> None:
        """Compile the programs on variables that cannot move, once in a process for each kind of work."""
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
        """Rank all variables, for the next round, and sum up certificates, for :meth:`look`."""
        grid = (self.sums.shape[1], len(self.lines))
        of_lines = self.h, self.f, self.at, self.low, self.high, self.beta, self.ends
        programs.extremes[grid](*of_lines, self.width, self.tall, TWICE=self.twice, WIDTH=SPAN)
        programs.ranks[grid](
            *of_lines, self.keys, self.fresh, self.age, self.clock, self.e, self.rises, self.falls, self.sums,
            self.width, self.tall, FREE_BIAS=self.free_bias, TWICE=self.twice, KEYS=self.first, WIDTH=SPAN,
            PARTS=self.parts_of_line,
        )  # fmt: skip

    def look(self) -> np.ndarray:
        """(duality gap, dual value, bias, largest violation) of each line at the last :meth:`measure`."""
        parts = self.sums.cpu().numpy()
        return np.concatenate([parts[:, :, :2].sum(axis=1), parts[:, 0, 2:]], axis=1)

    def choose(self) -> None:
        """Choose the next working sets, all variables if they are few, and fetch their kernel rows."""
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
            if used.any():  # rows of other variables replace those of variables at 0
                examples = torch.where(used, examples, examples[used][0])
                self.cache.fetch(examples)
                self.slots = self.cache.slot_of[examples]
                self._add()

    def _examples(self, chosen: torch.Tensor) -> torch.Tensor:
        """The examples of variables."""
        return self.row.gather(1, self.at.gather(1, chosen) if self.twice else chosen)

    def store(self, states: Sequence[DeviceSMOState]) -> None:
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
