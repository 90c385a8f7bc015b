"""The Stochastic Batch Perceptron over examples in parts.

Problem and steps are those of :mod:`.sbp`. Given are parts of the examples, which may be on other machines. Each part
keeps the responses f of its examples and their lazy sum. The driver keeps the points that were drawn, with their rows
and coefficients, and all scalars.

A step is two trips to the parts:

1. *step*: all parts get the rows that were drawn, at most m k of them, with their coefficients. Each computes as many
   kernel rows over its own examples and adds them to f. It replies with mass, Σ mass × height and number of its
   examples in the cells of a grid about the last water level (:mod:`widemargin.core.losses.shared_level`).
2. *find*: the sums over all parts tell which cells hold the new level. The parts list the heights in these cells, from
   which the level is exact (but for rounding). They also send candidates for the draws: examples drawn by weight from
   all that are not above the listed cells, with their rows.

Once the level is known, candidates that are not under water are dropped; the others are draws from p*. There are some
more candidates than draws. Another trip is made if they are too few, or if the level has left the grid. A candidate is
found by the mass of all examples before it, which does not depend on the parts: without weights the draws are the same
for any number of parts that follow each other, as long as rounding of sums decides nothing.

‖w‖² needs the responses of the drawn points before and after the step. Those before come with the candidates; what the
step adds is computed from the kernel between the points, m k × m k values. At powers of two of the steps the predictor
takes the level of the average responses in the same way, its norm from the β of all points drawn, and a last trip for
the hinge.

From C to ν: a sample of at most :data:`widemargin.solvers.sbp.sbp.SAMPLE` examples, and as many others, comes to the
driver after the first step, and the driver solves the C-form on it as :mod:`.sbp` does. SMO has no part in what
follows. The ν-form is the end, with the multiple of w̄ and the bias that have the lowest primal value on a grid which
is made finer :data:`ROUNDS` times.

Cost: numbers that travel in a step, with d features, m binary problems, P ≤ m k different points drawn, c candidates
and L heights listed: P (d + m) + 7 m and 4 c + 10 m + 1 to each part, (6 × 64 + 4) m from each part, and 2 L +
c (d + 3 m + 2) from all parts together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...core.borrowing import borrow
from ...core.compiling.dispatch import compiled
from ...core.kernels.matrix import KernelMatrix
from ...core.losses import losses
from ...core.losses.shared_level import CELLS, Basin, Cells, Level, covered, grid, sort_into, surface
from ...core.rows.rows import CSRRows, DenseRows, as_matrix, as_rows, take_rows
from ...files import savable
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate
from ...problems.parts import KernelPartsProblem
from ...schemas import Array, Each, Own, Row, maybe
from ..parts import HeldByParts
from . import sbp

# Tuned numbers.
MOST_LISTED = 4096  # heights listed; if more, a finer grid is tried: a trip costs less than a long list
MOST_GRIDS = 12  # grids tried for that
AT_ONCE = 2**24  # kernel values that a part computes at once, 64 MB
CANDIDATES, MOST_CANDIDATES = 1.2, 4.0  # candidates per draw over the share of them under water, and at most per draw
MORE = 4  # candidates beside these, for all draws together: so that a second trip is rare
REACH = 4.0  # the grid reaches so many times as far as the level has moved; less: more trips; more: longer lists
LEAST = 1e-6  # share of the spread of heights that the grid reaches at least
MULTIPLES, BIASES = 13, 9  # multiples and biases of w̄ that are tried at once
ROUNDS = 4  # grids of these, each between neighbours of the best


@compiled
def add_hinges(f, y, s, multiples, biases, out):
    """out[t, b] += Σ sᵢ max(0, 1 − θ yᵢ (fᵢ + β)) over examples, for θ = multiples[t] and β = biases[b], in place."""
    f, y, s, out = borrow(f), borrow(y), borrow(s), borrow(out)
    multiples, biases = borrow(multiples), borrow(biases)
    for i in range(f.size):
        weight = s[i] if s.size > 0 else 1.0
        for b in range(biases.size):
            height = y[i] * (f[i] + biases[b])
            for t in range(multiples.size):
                out[t, b] += weight * max(0.0, 1.0 - multiples[t] * height)


def taken(rows: Any, chosen: np.ndarray) -> Any:
    """Some rows, of a layout or of what a kernel's function takes."""
    return take_rows(rows, chosen) if isinstance(rows, (DenseRows, CSRRows)) else rows[chosen]


def joined(blocks: list[Any]) -> Any:
    """Rows one below the other, which may have come from elsewhere, as compiled code takes them."""
    matrices = [as_matrix(block) for block in blocks]
    if len(matrices) == 1:
        whole = matrices[0]
    else:
        whole = sp.vstack(matrices, format="csr") if sp.issparse(matrices[0]) else np.concatenate(matrices)
    return as_rows(whole) if isinstance(blocks[0], (DenseRows, CSRRows)) else whole


# ---------------------------------------------------------------- parts


class Part:
    """Some of the examples, their responses f of shape (n_problems, n), and the lazy sum of f.

    Replies depend on messages and :meth:`state` alone, so a part that was lost can be made again. ``of`` is None for
    the responses, or (total, weight) for their average; examples are numbered from ``start``.
    """

    def __init__(self, problem: KernelProblem, start: int) -> None:
        self.problem, self.start = problem, start
        everything = np.arange(problem.n)
        self.matrix = problem.matrix(everything, everything)
        self.f, self.f_sum = np.zeros((2, problem.n_outputs, problem.n))

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that the part cannot make again from its examples."""
        return {"f": self.f.copy(), "f_sum": self.f_sum.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to a :meth:`state`."""
        KEPT.hold(state, "part", n=self.problem.n, outputs=self.problem.n_outputs)
        self.f, self.f_sum = np.array(state["f"]), np.array(state["f_sum"])

    def largest(self) -> float:
        """The largest kernel value of an example with itself."""
        return float(self.matrix.diagonal().max()) + self.problem.constant

    def _responses(self, of: tuple | None) -> np.ndarray:
        if of is None:
            return self.f
        total, weight = of
        return (np.asarray(total)[:, None] * self.f - self.f_sum) / weight

    def step(
        self, rows: Any, coefficients: np.ndarray, before: np.ndarray, fold: np.ndarray, lines: np.ndarray
    ) -> tuple:
        """Add kernel rows to f, and S × the rows to its sum; multiply out where ``fold`` is not (0, 1); then
        :meth:`survey`.
        """
        facing, coefficients = self.matrix.facing(joined([rows])), np.array(coefficients)
        height = max(16, AT_ONCE // max(1, self.problem.n))
        for first in range(0, facing.shape[0], height):
            places = np.arange(first, min(first + height, facing.shape[0]))
            values, weights = facing.block(places), np.ascontiguousarray(coefficients[:, places])
            slots = np.arange(len(places))
            sbp.add_block(values, slots, weights, self.problem.constant, before, self.f, self.f_sum)
        for q, (total, scale) in enumerate(fold.tolist()):
            if (total, scale) != (0.0, 1.0):
                self.f_sum[q] -= total * self.f[q]
                self.f[q] *= scale
        return self.survey(lines, None)

    def _sorted(self, responses: np.ndarray, q: int, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(cells, sums, ends) of binary problem q; see :func:`sort_into`."""
        problem = self.problem
        cells, sums = np.empty(problem.n, np.int32), np.zeros((2, CELLS, 3))
        ends = np.tile([np.inf, -np.inf], (2, 1))
        s, two = problem.weights_of(q), problem.has_free_bias
        sort_into(responses[q], problem.signs[q], s, two, np.ascontiguousarray(lines[q]), cells, sums, ends)
        return cells, sums, ends

    def survey(self, lines: np.ndarray, of: tuple | None) -> tuple[np.ndarray, np.ndarray]:
        """(mass, Σ mass × height, number) by binary problem, basin and cell; (lowest, highest) by problem and basin."""
        responses = self._responses(of)
        found = [self._sorted(responses, q, lines) for q in range(self.problem.n_outputs)]
        _, sums, ends = map(np.stack, zip(*found, strict=True))
        return sums, ends

    def find(
        self, lines: np.ndarray, windows: np.ndarray, tops: np.ndarray, of: tuple | None, picks: np.ndarray
    ) -> tuple:
        """([(heights, weights) of the cells in each window], and of the examples picked, the numbers of the picks, of
        the examples, their responses, labels and weights, and their rows).

        ``windows`` are (first, last) cells by binary problem and basin. A pick is (part's start, binary problem, basin,
        mass before it in the part, of examples below the end of the window and not above the top).
        """
        problem, responses = self.problem, self._responses(of)
        here = np.flatnonzero(picks[:, 0] == self.start)
        listed, places = [], np.zeros(here.size, np.int64)
        for q in range(problem.n_outputs):
            cells, _, _ = self._sorted(responses, q, lines)
            _, y, s = problem.binary_part(q)
            heights = y * responses[q]
            for a in range(2 if problem.has_free_bias else 1):
                first, last = (a * CELLS + windows[q, a]).tolist()
                inside = np.flatnonzero((cells >= first) & (cells < last))
                distinct, group = np.unique(heights[inside], return_inverse=True)
                listed.append((distinct, np.bincount(group, s[inside], distinct.size)))
                mine = np.flatnonzero((picks[here, 1] == q) & (picks[here, 2] == a))
                if mine.size:
                    below = np.flatnonzero((cells >= a * CELLS) & (cells < last) & (heights <= tops[q, a]))
                    at = np.searchsorted(np.cumsum(s[below]), picks[here[mine], 3], side="right")
                    places[mine] = below[np.minimum(at, below.size - 1)]
        return listed, here, *self._shown(places, responses)

    def _shown(self, places: np.ndarray, responses: np.ndarray) -> tuple:
        problem = self.problem
        weights = np.stack([problem.binary_part(q)[2][places] for q in range(problem.n_outputs)])
        return self.start + places, responses[:, places], problem.signs[:, places], weights, problem.rows(places)

    def _mine(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the examples are here, and where."""
        here = np.flatnonzero((ids >= self.start) & (ids < self.start + self.problem.n))
        return here, ids[here] - self.start

    def show(self, ids: np.ndarray) -> tuple:
        """(Places of the examples asked for that are here, their numbers, responses, labels, weights and rows)."""
        here, places = self._mine(ids)
        return here, *self._shown(places, self.f)

    def norms(self, of: tuple | None, ids: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Σ βᵢfᵢ over the examples here, by binary problem."""
        (here, places), responses = self._mine(ids), self._responses(of)
        return np.array([float(beta[q, here] @ responses[q, places]) for q in range(len(beta))])

    def hinges(self, of: tuple | None, multiples: np.ndarray, biases: np.ndarray) -> np.ndarray:
        """Σ sᵢ × hinge at multiples of w and biases, as multiples of them, of shape (n_problems, multiples, biases)."""
        problem, responses = self.problem, self._responses(of)
        out = np.zeros((problem.n_outputs, multiples.shape[1], biases.shape[1]))
        for q in range(problem.n_outputs):
            s = problem.weights_of(q)
            add_hinges(responses[q], problem.signs[q], s, np.array(multiples[q]), np.array(biases[q]), out[q])
        return out


@dataclass(frozen=True)
class PartMaker:
    """Makes a part of its problem; travels to where the examples are."""

    starts: tuple[int, ...]

    #: A part's state is all that it needs between two messages; these messages do not change the state.
    complete = True
    looks = ("largest", "survey", "find", "show", "norms", "hinges")
    #: States are gathered only where the messages since the last gathering take more bytes.
    weighs = True

    def __call__(self, problem: KernelProblem, number: int) -> Part:
        return Part(problem, self.starts[number])


# ---------------------------------------------------------------- the driver


#: What a part keeps.
KEPT = Row({"f": Array("outputs", "n"), "f_sum": Array("outputs", "n")})


PerPoint = Annotated[np.ndarray, Array("outputs", "points")]


@savable("SBPOnParts.State", law=sbp.law_of_windows, kept=Each(KEPT, alone=True))
@dataclass(kw_only=True)
class SBPPartsState(sbp.StepsState, HeldByParts):
    """Points that were drawn, as numbers of examples in the order of their first draw, with labels, weights and lazy
    coefficients of shape (n_problems, points). The responses are with the parts.

    ``sample`` are the examples on which ν is sought, ``seek`` the state of the search.
    """

    ids: Annotated[np.ndarray, Array("points", dtype=np.int64, low=0, high="n-1", distinct=True)]
    signs: PerPoint
    weights: PerPoint
    alpha: PerPoint
    alpha_sum: PerPoint
    sample: Annotated[np.ndarray, Array("sample", dtype=np.int64, low=0, high="n-1", distinct=True)] = field(
        default_factory=lambda: np.empty(0, np.int64)
    )
    seek: Annotated[Any, maybe(Own(sbp.BatchState, n="sample"))] = None

    def live(self) -> Any:
        """The parts, from the workspace."""
        return self.workspace[1].parts

    def places(self, ids: np.ndarray) -> np.ndarray:
        """Where points that were drawn stand, by their numbers."""
        order = np.argsort(self.ids)
        return order[np.searchsorted(self.ids, ids, sorter=order)]

    def drop_workspace(self) -> None:
        """Let the parts go; their states stay."""
        super().drop_workspace()
        if self.seek is not None:
            self.seek.drop_workspace()


class Survey(NamedTuple):
    """A survey: its lines, (mass, Σ mass × height, number) by part, problem, basin and cell, and the ends."""

    lines: np.ndarray
    by_part: np.ndarray
    sums: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, lines: np.ndarray, replies: list[tuple]) -> Survey:
        """The survey that the parts reply with."""
        by_part, ends = map(np.stack, zip(*replies, strict=True))
        return cls(lines, by_part, by_part.sum(axis=0), np.stack([ends[..., 0].min(0), ends[..., 1].max(0)], axis=-1))

    def cells(self, q: int, a: int) -> Cells:
        """Of binary problem q and basin a."""
        line, inverse = self.lines[q, a].tolist()
        return Cells(line, inverse, self.sums[q, a], self.ends[q, a])


class Picked(NamedTuple):
    """Examples with their numbers, responses, labels and weights, and rows, in the order in which they were asked."""

    ids: np.ndarray
    responses: np.ndarray
    signs: np.ndarray
    weights: np.ndarray
    rows: Any

    def take(self, chosen: np.ndarray) -> Picked:
        """Some of them."""
        return Picked._make([*(each[..., chosen] for each in self[:4]), taken(self.rows, chosen)])


def in_one(shown: list[Picked]) -> Picked:
    """All of them together."""
    columns = [np.concatenate([each[c] for each in shown], axis=-1) for c in range(4)]
    return Picked._make([*columns, joined([each.rows for each in shown])])


def put_in_order(replies: list[tuple]) -> Picked:
    """The examples that the parts have shown, in the order in which they were asked for: the first entry of a reply."""
    some = [reply for reply in replies if reply[0].size] or replies[:1]
    order = np.argsort(np.concatenate([reply[0] for reply in some]), kind="stable")
    return in_one([Picked._make(reply[1:]) for reply in some]).take(order)


class Pools(NamedTuple):
    """The water in the basins of all binary problems: levels, and what was listed of each basin; heights of the highest
    points under water, and the masses of the parts up to these heights, by part, problem and basin.
    """

    levels: list[Level]
    basins: list[list[Basin]]
    tops: np.ndarray
    masses: np.ndarray
    seen: Survey


class SBPPartsWorkspace:
    """The parts, the rows of the points that were drawn, and the last survey of the responses."""

    def __init__(self, problem: KernelPartsProblem, parts: Any, starts: np.ndarray) -> None:
        self.problem, self.parts, self.starts = problem, parts, starts
        self.largest = max(parts.ask("largest"))
        self.slots: dict[int, int] = {}
        self.blocks: list[Any] = []
        self.near = np.empty((0, 0))
        self.seen: Survey | None = None
        self.looked: tuple[int, Any] | None = None
        self.sample: KernelProblem | None = None

    # -- a step

    def draw(
        self, problem: KernelPartsProblem, state: SBPPartsState, k: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Levels, biases and k draws of each binary problem: (points, how often each was drawn, their labels)."""
        m, volumes = problem.n_outputs, problem.n * state.nu / state.scale
        if self.seen is None:
            self.seen = self._survey(self._lines(state), None)
        firsts = np.array([sbp.uniforms_of(state.rng, k, problem.has_free_bias)[1] for _ in range(m)])
        wanted = np.stack([firsts, k - firsts], axis=1)
        pools, drawn = self._poured(volumes, self.seen, None, wanted, state.rng)
        picked, belongs = in_one([each for each, _ in drawn]), np.concatenate([owner for _, owner in drawn])
        u, v, _ = np.array(pools.levels).T
        state.level[:], state.bias[:] = state.scale * 0.5 * (u + v), state.scale * 0.5 * (v - u)
        self._lay_windows(state, state.scale[:, None] * np.stack([u, v], axis=1), pools.seen.ends)
        state.passes += 2 * m
        ids, first, place = np.unique(picked.ids, return_index=True, return_inverse=True)
        points = picked.take(first)
        times = np.stack([np.bincount(place[belongs == q], minlength=ids.size) for q in range(m)])
        self.near, self.rows = points.responses, points.rows
        return self._known(state, points), times, points.signs

    def _known(self, state: SBPPartsState, points: Picked) -> np.ndarray:
        """The places of points in the state; new points get places at its end."""
        if len(self.slots) != state.ids.size:
            self.slots = {each: place for place, each in enumerate(state.ids.tolist())}
        places = np.array([self.slots.setdefault(each, len(self.slots)) for each in points.ids.tolist()], np.int64)
        new = np.flatnonzero(places >= state.ids.size)
        if new.size:
            self._fetch(state)
            fresh, nothing = points.take(new), np.zeros((len(points.signs), new.size))
            state.ids = np.concatenate([state.ids, fresh.ids])
            added = {"signs": fresh.signs, "weights": fresh.weights, "alpha": nothing, "alpha_sum": nothing}
            for name, value in added.items():
                setattr(state, name, np.concatenate([getattr(state, name), value], axis=1))
            self.blocks.append(fresh.rows)
        return places

    def _fetch(self, state: SBPPartsState) -> None:
        """Fetch the rows of all points that were drawn, unless they are here."""
        if not self.blocks and state.ids.size:
            self.blocks = [self.show(state.ids).rows]

    def _rows(self, state: SBPPartsState) -> Any:
        """Rows of all points that were drawn."""
        self._fetch(state)
        if not self.blocks:
            return taken(self.show(np.zeros(1, np.int64)).rows, np.empty(0, np.int64))
        self.blocks = [joined(self.blocks)]
        return self.blocks[0]

    def show(self, ids: np.ndarray) -> Picked:
        """Examples by their numbers."""
        return put_in_order(self.parts.ask("show", ids))

    def responses(self, state: SBPPartsState, points: np.ndarray) -> np.ndarray:
        """Responses of the points of this step, of shape (n_problems, points)."""
        return self.near

    def add(self, state: SBPPartsState, points: np.ndarray, coefficients: np.ndarray) -> None:
        """Note kernel rows, to be added to the responses when the step ends."""
        matrix = KernelMatrix(self.problem.kernel, self.rows, dtype=np.float32)
        values = matrix.block(np.arange(matrix.shape[0])).astype(np.float64) + self.problem.constant
        self.near = self.near + coefficients @ values
        self.message = self.rows, coefficients, state.total.copy()
        self.fold = np.tile([0.0, 1.0], (len(coefficients), 1))
        state.passes += len(coefficients)

    def multiply_out(self, state: SBPPartsState, q: int) -> None:
        """Note that the responses of problem q are to be multiplied with the scale when the step ends."""
        self.fold[q] = state.total[q], state.scale[q]

    def end(self, state: SBPPartsState) -> None:
        """The first trip: add kernel rows, and survey the responses about the last level."""
        lines = self._lines(state)
        replies = self.parts.ask("step", *self.message, self.fold, lines)
        self.seen, self.looked = Survey.of(lines, replies), None

    # -- water

    @staticmethod
    def _lines(state: SBPPartsState, more: float = 1.0, scaled: bool = True) -> np.ndarray:
        """Grids about the last levels, of shape (n_problems, 2, 2)."""
        scale = state.scale[:, None] if scaled else 1.0
        middles, widths = state.window[:, :2] / scale, state.window[:, 2:]
        reach = np.where(np.isfinite(widths), widths, 1.0) * more / scale
        return grid(middles - reach, middles + reach)

    @staticmethod
    def _lay_windows(state: SBPPartsState, levels: np.ndarray, ends: np.ndarray) -> None:
        """Windows ← about the levels, as wide as they move; in place."""
        middles, widths = state.window[:, :2], state.window[:, 2]
        moved = np.abs(levels - middles).max(axis=1)
        spread = np.where(np.isfinite(ends[..., 0]), ends[..., 1] - ends[..., 0], 0.0).max(axis=1) * state.scale
        before = np.where(np.isfinite(widths), 0.7 * widths, 0.0)
        found = np.max([before, REACH * moved, LEAST * spread], axis=0)
        middles[:], widths[:] = levels, np.where(found > 0.0, found, 1.0)

    def _survey(self, lines: np.ndarray, of: tuple | None) -> Survey:
        return Survey.of(lines, self.parts.ask("survey", lines, of))

    def _poured(
        self, volumes: np.ndarray, seen: Survey, of: tuple | None, wanted: np.ndarray, rng: Any
    ) -> tuple[Pools, list[tuple[Picked, np.ndarray]]]:
        """(Water levels, the wanted number of draws from each basin with their binary problems, trip by trip)."""
        reach, pools, missing = 1, None, wanted.copy()
        drawn: list[tuple[Picked, np.ndarray]] = []
        while pools is None or missing.any():
            if pools is None:
                seen, windows, shares = self._windows(volumes, seen, of, reach)
                tops = np.full((volumes.size, 2), np.inf)
                inside = np.arange(CELLS) < windows[:, :, 1:]
                masses = np.where(inside, seen.by_part[..., 0], 0.0).sum(axis=-1)
            picks, owner = self._picks(masses, shares, missing, rng)
            replies = self.parts.ask("find", seen.lines, windows, tops, of, picks)
            if pools is None:
                pools = self._pools(volumes, seen, windows, replies)
                reach *= 4
                if pools is None:
                    continue
                # what candidates do not bring now is drawn from the points covered alone
                tops, masses, shares = pools.tops, pools.masses, np.ones_like(shares)
            if not missing.any():
                break
            picked = put_in_order([reply[1:] for reply in replies])
            lucky = self._lucky(pools, picked, owner, rng.random(len(owner)))
            of_basin = [np.flatnonzero(lucky & (owner == basin).all(axis=1)) for basin in np.argwhere(missing > 0)]
            chosen = np.concatenate([each[:most] for each, most in zip(of_basin, missing[missing > 0], strict=True)])
            drawn.append((picked.take(chosen), owner[chosen, 0]))
            np.subtract.at(missing, tuple(owner[chosen].T), 1)
        return pools, drawn

    def _windows(
        self, volumes: np.ndarray, seen: Survey, of: tuple | None, reach: int
    ) -> tuple[Survey, np.ndarray, np.ndarray]:
        """(A survey, cells that should hold the levels, the share of the mass below their ends that is under water)."""
        basins = 2 if self.problem.has_free_bias else 1
        for trial in range(MOST_GRIDS):
            windows = np.zeros((volumes.size, 2, 2), np.int64)
            shares, lines, again = np.ones((volumes.size, 2)), seen.lines.copy(), False
            for q, volume in enumerate(volumes.tolist()):
                cells = [seen.cells(q, a) for a in range(basins)]
                guess = surface(volume, [each.guess() for each in cells])
                assert guess is not None  # of all points
                for a, (each, height) in enumerate(zip(cells, guess[:2], strict=False)):
                    first, last = windows[q, a] = each.about(height, reach)
                    shares[q, a] = guess.mass / max(each.sums[:last, 0].sum(), guess.mass)
                    finer = self._finer(each, first, last)
                    if finer is not None and trial < MOST_GRIDS - 1:
                        lines[q, a], again = finer, True
            if not again:
                break
            seen = self._survey(lines, of)
        return seen, windows, shares

    @staticmethod
    def _finer(cells: Cells, first: int, last: int) -> np.ndarray | None:
        """A finer grid, if too many points would be listed; else None."""
        lowest, highest = cells.ends.tolist()
        if cells.sums[first:last, 2].sum() <= MOST_LISTED or not highest > lowest:
            return None
        low, high = max(cells.height(first), lowest), highest if last >= CELLS else min(cells.height(last), highest)
        finest = high - low <= 1e-12 * max(abs(low), abs(high))
        same = (cells.line, cells.inverse) == tuple(grid(low, high).tolist())
        return None if finest or same else grid(low, high)

    def _picks(
        self, all_masses: np.ndarray, shares: np.ndarray, missing: np.ndarray, rng: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Candidates: (part's start, problem, basin, mass before it in the part), and their problems and basins.

        ``all_masses`` are by part, problem and basin; ``shares`` of them are expected to be under water.
        """
        picks = []
        for q, a in np.argwhere(missing > 0).tolist():
            masses = all_masses[:, q, a]
            ends = np.cumsum(masses)
            count = math.ceil(min(CANDIDATES / shares[q, a], MOST_CANDIDATES) * missing[q, a]) + MORE
            targets = rng.random(count) * ends[-1]
            part = np.minimum(np.searchsorted(ends, targets, side="right"), np.flatnonzero(masses > 0.0)[-1])
            rest = targets - (ends - masses)[part]
            picks.append(np.column_stack([self.starts[part], np.full(count, q), np.full(count, a), rest]))
        found = np.concatenate(picks) if picks else np.empty((0, 4))
        return found, found[:, 1:3].astype(np.int64)

    def _pools(self, volumes: np.ndarray, seen: Survey, windows: np.ndarray, replies: list[tuple]) -> Pools | None:
        """The levels; None where one of them is not among the listed points."""
        n_basins = 2 if self.problem.has_free_bias else 1
        levels, basins = [], []
        tops, masses = np.full((volumes.size, 2), np.inf), np.zeros((len(replies), volumes.size, 2))
        for q, volume in enumerate(volumes.tolist()):
            lists = [[reply[0][q * n_basins + a] for reply in replies] for a in range(n_basins)]
            known = [seen.cells(q, a).basin(windows[q, a], each) for a, each in enumerate(lists)]
            level = surface(volume, known)
            if level is None:
                return None
            for a, basin in enumerate(known):
                reached = basin.heights[covered(basin, level.mass, basin.heights) > 0.0]
                tops[q, a] = reached[-1] if reached.size else basin.low
                masses[:, q, a] = seen.by_part[:, q, a, : windows[q, a, 0], 0].sum(axis=1)
                masses[:, q, a] += [weights[heights <= tops[q, a]].sum() for heights, weights in lists[a]]
            levels.append(level)
            basins.append(known)
        return Pools(levels, basins, tops, masses, seen)

    def _lucky(self, pools: Pools, picked: Picked, owner: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Which candidates are under water; at a height that is so in part, a random choice."""
        lucky = np.zeros(len(owner), bool)
        for q, known in enumerate(pools.basins):
            for a, basin in enumerate(known):
                mine = np.flatnonzero((owner[:, 0] == q) & (owner[:, 1] == a))
                heights = picked.signs[q, mine] * picked.responses[q, mine]
                lucky[mine] = uniforms[mine] < covered(basin, pools.levels[q].mass, heights)
        return lucky


class Predictor(NamedTuple):
    """The predictor: its scaled ᾱ, biases, levels; ‖w‖² and mean hinge by binary problem; its certificate."""

    alpha: np.ndarray
    bias: np.ndarray
    level: np.ndarray
    norm2: np.ndarray
    hinge: np.ndarray
    certificate: Certificate


@savable()
@dataclass
class SBPOnParts(sbp.BatchSteps):
    """Kernel classification in the slack-constrained form over parts of the examples.

    Parameters
    ----------
    nu, batch_size, average, step : as of :class:`widemargin.solvers.sbp.sbp.StochasticBatchPerceptron`, but for
    ``average="suffix"``
    tol : float
        Has no meaning here: training ends with the ν-form, for a given ν or the ν of C.
    """

    state_class = SBPPartsState
    capabilities = replace(sbp.BatchSteps.capabilities, aim="nu", joins=True)

    def check(self, problem: KernelPartsProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self.check_options()
        if not isinstance(losses.scalar_loss(problem.target), losses.Hinge):
            raise ValueError("StochasticBatchPerceptron solves the hinge loss: use another solver")
        if problem.kernel.is_table:
            raise ValueError("a precomputed kernel has no rows that could be sent to other parts: give the data itself")
        if self.average == "suffix":
            raise ValueError("average must be 't' or 'uniform' over parts, got 'suffix': use one of them")
        needs = problem.masses.min(axis=1) if problem.has_free_bias else problem.masses.sum(axis=1)
        if not np.all(needs > 0.0):
            raise ValueError(
                "StochasticBatchPerceptron needs examples of both classes with a weight > 0 for its bias: use "
                "intercept='none' or 'regularized'"
            )

    def first_slice(self, problem: KernelPartsProblem) -> int:
        """One step."""
        return 1

    def _workspace(self, problem: KernelPartsProblem, state: SBPPartsState) -> SBPPartsWorkspace:
        def made() -> SBPPartsWorkspace:
            starts = np.cumsum(problem.sizes) - problem.sizes
            return SBPPartsWorkspace(problem, state.made(problem.place, PartMaker(tuple(starts.tolist()))), starts)

        found = state.work(problem, made)
        vars(state).pop("kept", None)
        return found

    def advance(self, problem: KernelPartsProblem, state: SBPPartsState, n_steps: int) -> int:
        """Take up to n_steps steps, in place, stopping at a checkpoint; returns the number taken.

        Rounds of SMO on the sample that finds ν use up n_steps like steps, but are not among those returned.
        """
        kept, taken_, left = self._workspace(problem, state), 0, n_steps
        while left > 0:
            if self.nu is None and state.t > 0 and state.sought < problem.n_outputs:
                left -= self._seek_nu(problem, state, kept, left)
                continue
            self._step(problem, state, kept)
            state.counters.kernel_computed = state.counters.kernel_evals
            taken_, left = taken_ + 1, left - 1
            if self.at_checkpoint(state):
                break
        return taken_

    def _seek_nu(self, problem: KernelPartsProblem, state: SBPPartsState, kept: SBPPartsWorkspace, most: int) -> int:
        """Up to ``most`` rounds of SMO on the sample; sets ν when it is solved."""
        size = min(sbp.SAMPLE, sbp.largest_sample(problem.n, problem.n_outputs))
        if size < sbp.SMALLEST_SAMPLE:
            state.sought = problem.n_outputs
            return 0
        if state.sample.size == 0:  # with the points of the first step, which have both classes
            others = np.setdiff1d(state.rng.choice(problem.n, 2 * size, replace=False), state.ids, assume_unique=True)
            state.sample = np.sort(np.concatenate([state.ids, others])[: 2 * size])
        seeker = sbp.Seeker(batch_size=self.batch_size)
        if kept.sample is None:
            shown = kept.show(state.sample)
            weights = shown.weights if np.any(shown.weights != 1.0) else np.empty(0)
            kept.sample = KernelProblem(
                problem.kernel, shown.rows, shown.signs, problem.target, problem.lam, weights, problem.intercept,
                problem.cache_bytes,
            )  # fmt: skip
        if state.seek is None:
            state.seek = seeker.init(kept.sample, np.random.default_rng(state.rng.integers(2**63)))
            state.seek.t = 1
        seek = state.seek
        evals, rounds = seek.counters.kernel_evals, seeker._seek_nu(kept.sample, seek, most)
        state.counters.kernel_evals += seek.counters.kernel_evals - evals
        if seek.sought == problem.n_outputs:
            state.nu, state.sought, state.seek = seek.nu.copy(), seek.sought, None
            kept.sample = kept.looked = None
        return max(1, rounds)

    # -- output

    def _look(self, problem: KernelPartsProblem, state: SBPPartsState) -> Predictor:
        """The predictor of the present point, computed once."""
        kept = self._workspace(problem, state)
        if kept.looked is None or kept.looked[0] != state.t:
            kept.looked = state.t, self._predictor(problem, state, kept)
        return kept.looked[1]

    def _predictor(self, problem: KernelPartsProblem, state: SBPPartsState, kept: SBPPartsWorkspace) -> Predictor:
        m = problem.n_outputs
        of, alpha = None, state.alpha.copy()
        if state.weight > 0.0:
            of = state.total.copy(), state.weight
            alpha = sbp.without_rounding((state.total[:, None] * state.alpha - state.alpha_sum) / state.weight)
        norm2 = sum(kept.parts.ask("norms", of, state.ids, alpha * state.signs))
        seen = kept._survey(kept._lines(state, 8.0, scaled=False), of)
        pools, _ = kept._poured(problem.n * state.nu, seen, of, np.zeros((m, 2), np.int64), None)
        u, v, _ = np.array(pools.levels).T
        level, bias = 0.5 * (u + v), 0.5 * (v - u)
        with np.errstate(divide="ignore"):
            multiple = 1.0 / level
        if self.nu is None or not np.all(level > 0.0):
            best, best_bias = self._best_multiple(problem, kept, of, norm2, level, bias, pools.seen)
            instead = np.full(m, True) if self.nu is None else level <= 0.0
            multiple, bias = np.where(instead, best, multiple), np.where(instead, best_bias, bias)
        hinges = sum(kept.parts.ask("hinges", of, multiple[:, None], bias[:, None]))[:, 0, 0] / problem.n
        alpha, norm2 = alpha * multiple[:, None], norm2 * multiple**2
        proven = problem.certificate(alpha * state.signs, state.signs, state.weights, norm2, hinges)
        return Predictor(alpha, bias * multiple, level, norm2, hinges, proven)

    @staticmethod
    def _best_multiple(
        problem: KernelPartsProblem, kept: SBPPartsWorkspace, of: Any, norm2: np.ndarray, level: np.ndarray,
        bias: np.ndarray, seen: Survey,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Multiples of w̄, and biases over them, with the lowest primal values on finer and finer grids."""
        m, C = problem.n_outputs, problem.C
        ends = np.where(np.isfinite(seen.ends), seen.ends, 0.0)
        spread = np.maximum((ends[:, :, 1] - ends[:, :, 0]).max(axis=1), np.abs(ends).max(axis=(1, 2)))
        spread = np.where(spread > 0.0, spread, 1.0)
        multiple, bias = 1.0 / np.maximum(level, 0.25 * spread), bias.copy()
        ratio, width, left = 2.0, 0.5 * spread, ROUNDS
        powers, places = np.arange(MULTIPLES) - MULTIPLES // 2, np.linspace(-1.0, 1.0, BIASES)
        for _ in range(3 * ROUNDS):
            multiples = multiple[:, None] * ratio**powers
            biases = bias[:, None] + (width[:, None] * places if problem.has_free_bias else np.zeros(1))
            hinges = sum(kept.parts.ask("hinges", of, multiples, biases))
            values = 0.5 * multiples[:, :, None] ** 2 * norm2[:, None, None] + C * hinges
            at_edge = False
            for q in range(m):
                t, b = np.unravel_index(int(values[q].argmin()), values[q].shape)
                multiple[q], bias[q] = multiples[q, t], biases[q, b]
                at_edge = at_edge or t in (0, MULTIPLES - 1) or (b in (0, BIASES - 1) and biases.shape[1] > 1)
            if not at_edge:
                ratio, width, left = ratio ** (2.0 / MULTIPLES), width * (2.5 / BIASES), left - 1
            if left == 0:
                break
        return multiple, bias

    def certificate(self, problem: KernelPartsProblem, state: SBPPartsState) -> Certificate:
        """Primal and dual of the predictor and of the best multiple of ᾱ in the λ-form."""
        return self._look(problem, state).certificate

    def evaluate(self, problem: KernelPartsProblem, state: SBPPartsState, model: Any) -> dict[str, float]:
        """Objective in the λ-form, and where the predictor stands: level, norm, mean hinge (means over problems)."""
        look = self._look(problem, state)
        return self._measures(state, look.certificate.primal, look.level, look.norm2, look.hinge)

    def model(self, problem: KernelPartsProblem, state: SBPPartsState) -> KernelModel:
        """A finished copy of the predictor."""
        look, rows = self._look(problem, state), self._workspace(problem, state)._rows(state)
        beta = look.alpha * state.signs
        support = np.flatnonzero(np.any(beta != 0.0, axis=0))
        support = support[np.argsort(state.ids[support])]
        vectors = taken(rows, support)
        return KernelModel(problem.kernel, state.ids[support], vectors, beta[:, support], look.bias, problem.constant)

    def duals(self, problem: KernelPartsProblem, state: SBPPartsState) -> np.ndarray:
        """A multiple of the predictor's β, of shape (outputs, n)."""
        beta = np.zeros((problem.n_outputs, problem.n))
        beta[:, state.ids] = self._look(problem, state).alpha * state.signs
        return beta
