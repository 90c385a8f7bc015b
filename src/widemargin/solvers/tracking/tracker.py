"""The tracker: SVMs that follow the optimum of a growing set of examples (Usunier, Bordes, Bottou; AISTATS 2010).

Problem. After t examples, in the C-form, and its dual for β = yα::

    P = ½‖w‖² + Σ Cᵢ [1 − yᵢ⟨w, Φ(xᵢ)⟩]₊,     D = Σ yᵢβᵢ − ½‖w(β)‖²,   0 ≤ yᵢβᵢ ≤ Cᵢ,   w = Σ βᵢΦ(xᵢ).

Given: examples one by one, a kernel K, C. Several outputs on the same examples share kernel values.

State: the vectors in slots, with β, e = y − f and the box of each (:class:`.state.TrackerState`). e is the gradient of
D: moving βᵢ by s raises D by s eᵢ − ½ s² K(xᵢ, xᵢ).

Step. One βᵢ moves to the best place in its box (Eq. 3). For each example that arrives

    algorithm="random"     K steps on examples drawn from all that were seen (Algorithm 1);
    algorithm="process"    PROCESS, a step on the new example, then REPROCESS, K steps as above (Algorithm 2);
    algorithm="lasvm"      PROCESS and REPROCESS among the support vectors, the only examples whose e is kept (Sec. 5).

REPROCESS draws an example among all that were seen (one that is no vector takes no step), or takes the vector whose
step gains most (``choose="greedy"``). ``reprocess="auto"`` takes steps until the normalised gap of the vectors,
(P − D)/Σ Cᵢ with P − D = Σ max((highᵢ − βᵢ) eᵢ, (lowᵢ − βᵢ) eᵢ) for boxes [lowᵢ, highᵢ] (Eq. 4), is small enough; with
a bias b, e − b stands for e. The output is β, or the mean of the iterates before each of the K steps.

Pairs. With a free bias Σ βᵢ = 0, and a step moves two variables against each other. PROCESS takes the new example and
the partner with which the example gains most; REPROCESS the variable with the largest e among those that can rise, and
its best partner. An example with β = 0 stays a vector while it violates its condition, that is, while y = 1 and
e > min {e : β can fall}, or y = −1 and e < max {e : β can rise}, and while its e is an extreme one, on which the bias
depends (Bordes, Ertekin, Weston, Bottou: LASVM, JMLR 2005).

Forgetting. An example that leaves a window or exceeds the budget, or is unlearnt, gets β = 0. With a free bias other
vectors take over what Σ β lacks, those with the best e first.

Cost: for each example, its kernel values with all vectors, and O(vectors) a step. Kernel values between vectors are
kept in :mod:`widemargin.core.kernels.panels`. With a linear kernel w is kept, f of a new example is ⟨w, x⟩, and only
examples that become vectors take kernel values.

Different from the papers: the mean has the iterates before each step, as the proofs have; the printed line 8 has those
after. LASVM's removal of all vectors with β = 0 is left out, because such vectors may violate their conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...arguments import flag, one_of, positive, whole
from ...core.kernels.kernels import names_of
from ...core.kernels.panels import Panels, Slots, hold, no_panels, own_values, reach_of, way_of, with_slots
from ...core.losses import losses
from ...core.rows.rows import DenseRows, as_matrix, dtype_of, shape, some_rows, take_rows
from ...core.threads.interrupts import told
from ...files import savable
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.linear import add_scores
from ...problems.objective import Certificate
from ...schemas import Either, Text, Whole
from ..protocol import Capabilities, Solver
from ..smo.rounds import add_kernel_rows
from . import steps
from .state import ARRAYS, ARRIVE, FIRST_SLOTS, TrackerState
from .steps import ROUNDING, Arrivals, Scratch, TrackerRule

BLOCK = 256  # examples whose kernel values are computed together, at most
BLOCK_SHARE = 0.06  # of the memory for kernel values: the values of a block
MOST_STEPS = 200  # REPROCESS steps for one example under reprocess="auto"
MOST_REPAIRS = 100  # steps for each vector in a call of Tracker.repair
#: What becomes of the state of an output for the opposite labels: each array is minus this one.
OPPOSITE = {
    "beta": "beta", "e": "e", "trail": "trail", "w": "w", "low": "high", "high": "low", "up": "down", "down": "up",
    "top": "bottom", "bottom": "top",
}  # fmt: skip

_compiled_for: set[tuple] = set()


@dataclass
class TrackerWorkspace:
    """What can be made again: the vectors laid out, kernel values between vectors, scratch memory for ``room`` slots.

    ``rows`` has the kernel values of arriving examples, ``sizes`` their sizes (:meth:`.panels.Slots.own_sums`).
    """

    slots: Slots
    panels: Panels
    room: int
    space: Scratch = field(init=False)
    rows: np.ndarray = field(init=False)
    sizes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        one, other = np.empty((2, self.room), np.float32)
        self.space = Scratch(one, other, np.empty(self.room), DenseRows(np.empty((0, 0))))
        self.rows = np.empty((0, self.room), np.float32)

    def grow(self, room: int, count: int, n_bytes: float) -> None:
        """Have room for more slots, of which ``count`` are used."""
        self.slots.grow(room)
        self.panels, self.room = with_slots(self.panels, room, count, n_bytes), room
        self.__post_init__()


@savable(reprocess=Either(Whole(0), Text("auto")))
@dataclass
class Tracker(Solver):
    """Approximate incremental SVMs: PROCESS and REPROCESS steps for each example that arrives.

    It is the method of :class:`IncrementalSVC`. What a run counts as a step is an example with all its steps.

    Parameters
    ----------
    algorithm : {"lasvm", "process", "random"}, default="lasvm"
        "lasvm" keeps the support vectors alone. "random" is Algorithm 1 of the paper and "process" its
        Algorithm 2, which know the responses of all examples. A free intercept makes it work in pairs.
    choose : {"greedy", "random"}, default="greedy"
        Which vector REPROCESS takes: the one that gains most, or one that is drawn among all examples
        seen, where a draw that is no vector takes no step. The paper's theorems are about "random".
    reprocess : int or "auto", default=1
        The number of REPROCESS steps for each example. "auto" takes as many as hold ``gap``.
    average : bool, default=False
        Whether the model is the mean over the REPROCESS steps of the last example.
    gap : float, default=0.01
        The largest normalised gap (P − D)/ΣC of the vectors, for ``reprocess="auto"``.
    window : int or None, default=None
        The number of examples that are remembered. Older ones are forgotten.
    budget : int or None, default=None
        The largest number of vectors. The oldest one is forgotten first.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import IncrementalSVC, Tracker
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = IncrementalSVC(C=10.0, gamma=1.0, solver=Tracker(reprocess=3)).fit(X, y)
    >>> model.n_samples_seen_
    60
    """

    algorithm: str = "lasvm"
    choose: str = "greedy"
    reprocess: Any = 1
    average: bool = False
    gap: float = 0.01
    window: int | None = None
    budget: int | None = None

    state_class = TrackerState

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """A free intercept needs steps in pairs."""
        pairs = self.algorithm == "lasvm" and self.choose == "greedy"
        return Capabilities(free_intercept=pairs, streams=True, joins=True)

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense."""
        one_of("algorithm", self.algorithm, ("lasvm", "process", "random"))
        one_of("choose", self.choose, ("greedy", "random"))
        if self.reprocess != "auto":
            if isinstance(self.reprocess, str):
                raise ValueError(f"reprocess must be a number of steps or 'auto', got {self.reprocess!r}")
            whole("reprocess", self.reprocess, 0 if self.algorithm != "random" else 1)
        flag("average", self.average)
        positive("gap", self.gap)
        for name in ("window", "budget"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self.check_parameters()
        loss = losses.scalar_loss(problem.target)
        if not isinstance(loss, losses.Hinge):
            raise ValueError(f"Tracker follows the hinge loss, got {type(loss).__name__}: use the hinge")
        if not problem.kernel.of_rows:
            raise ValueError(
                f"Tracker computes kernels of vectors, and {type(problem.kernel).__name__} is none of "
                f"{', '.join(map(repr, names_of('of_rows')))}: choose one of them"
            )
        if problem.has_free_bias and not self.capabilities.free_intercept:
            raise ValueError(
                "an unregularised intercept needs pairs, which algorithm='lasvm' takes with choose='greedy': use them, "
                "or intercept='regularized' or 'none'"
            )

    def _rule(self, problem: KernelProblem, state: TrackerState) -> TrackerRule:
        auto = self.reprocess == "auto"
        return TrackerRule(
            self.algorithm != "lasvm", problem.has_free_bias, self.choose == "greedy", self.algorithm != "random",
            self._most_steps, float(self.gap) if auto else -1.0, problem.constant,
            int(self.window or 0), int(self.budget or 0), np.uint64(state.seed),
        )  # fmt: skip

    @property
    def _most_steps(self) -> int:
        """The largest number of REPROCESS steps for one example."""
        return MOST_STEPS if self.reprocess == "auto" else int(self.reprocess)

    # -- work

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> TrackerState:
        """The state before the first example, with w = 0."""
        self.check(problem)
        state = TrackerState.empty(problem.n_outputs, int(rng.integers(2**62)))
        self.bind(problem, state)
        return state

    def bind(self, problem: KernelProblem, state: TrackerState, in_order: bool = True) -> None:
        """Go on with a problem whose first examples are those that were seen; the next ones are new."""
        self.check(problem)
        if state.beta.shape[0] != problem.n_outputs:
            raise ValueError(f"the state has {state.beta.shape[0]} outputs, the problem {problem.n_outputs}")
        progress = state.progress
        if progress["known"] > problem.n:
            raise ValueError(f"the state is of {progress['known']} examples, the problem has {problem.n}")
        if problem.n > progress["known"] and progress["stage"] == ARRIVE:  # else an example is at hand still
            progress["position"] = progress["known"]
        state.make_room(FIRST_SLOTS, self._most_steps)
        if problem.kernel.is_linear and state.w.size == 0:
            state.w = np.zeros((problem.n_outputs, shape(problem.X)[1] + 1, 1))
            steps.sum_up(state.held, problem.X, problem.constant)
        if state.workspace is not None:  # kernel values belong to the vectors, whatever their examples' numbers
            state.workspace = problem, state.workspace[1]  # type: ignore[misc]

    def _workspace(self, problem: KernelProblem, state: TrackerState) -> TrackerWorkspace:
        """The workspace, with room for all slots, for the way to compute that the state has come to."""
        room, count, n_bytes = state.example.size, state.count, (1.0 - BLOCK_SHARE) * problem.cache_bytes
        way = way_of(problem.kernel, problem.X, state.reach)
        if state.workspace is not None and state.workspace[1].slots.way.number != way.number:
            state.drop_workspace()  # a row has reached further than all before

        def make() -> TrackerWorkspace:
            slots = Slots(problem.kernel, problem.X, way, room)
            slots.put(problem.X, state.example[:count], np.arange(count))
            if problem.has_free_bias and count:  # loops end by top and bottom, so a file's values are not trusted
                e, up, down = (table[:, :count] for table in (state.e, state.up, state.down))
                state.top[:], state.bottom[:] = (e + up).max(axis=1), (e + down).min(axis=1)
            return TrackerWorkspace(slots, no_panels(room, n_bytes), room)

        found: TrackerWorkspace = state.work(problem, make)
        if found.room < room:
            found.grow(room, count, n_bytes)
        if problem.kernel.is_linear:
            found.space = found.space._replace(X=problem.X)  # the data may have grown
        return found

    def sizes(self, problem: KernelProblem) -> dict[str, int]:
        """With the features of the rows."""
        return {**super().sizes(problem), "d": shape(problem.X)[1]}

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """A step is an example."""
        return problem.n

    def first_slice(self, problem: KernelProblem) -> int:
        """As many examples as make a slice's kernel values, if all are vectors, or one."""
        return max(1, 2**22 // problem.n)

    def advance(self, problem: KernelProblem, state: TrackerState, n_steps: int) -> int:
        """See the next n_steps examples, in place; after the last one, the first again."""
        left, kind = n_steps, (type(problem.kernel), type(problem.X), dtype_of(problem.X).char)
        if n_steps == 0 and kind in _compiled_for:
            return 0
        _compiled_for.add(kind)
        while True:
            left -= self._see(problem, state, left)
            if left <= 0:
                return n_steps

    def _see(self, problem: KernelProblem, state: TrackerState, most: int) -> int:
        """See the next examples, at most so many, in place; returns how many."""
        block, space = self._block(problem, state, most)
        laid_out = 0

        def track(*given: Any) -> int:
            nonlocal laid_out
            missing = int(steps.track(*given))
            end = int(state.progress["position"]) - block.first + int(missing >= 0)
            came = laid_out + (block.came[laid_out:end] >= 0).nonzero()[0]
            # of two in a slot the later one stays
            space.slots.put(problem.X, block.first + came, block.came[came], space.sizes[came])
            laid_out = end
            if missing == steps.UNKNOWN:
                self._compute(problem, state, block, space, end)
            return missing

        self._go(problem, state, track, block)
        return block.came.size

    def _go(
        self, problem: KernelProblem, state: TrackerState, loop: Callable[..., int], *given: Any, **changed: Any
    ) -> None:
        """Call a compiled loop until it is done; compute the rows that it lacks; bring the counters up to date.

        The loop takes the rule with what is ``changed`` of it. After an error the next call goes on with the example at
        hand.
        """
        space, held, rule = self._workspace(problem, state), state.held, self._rule(problem, state)._replace(**changed)
        try:
            while (missing := loop(rule, space.panels, held, *given, space.space)) != steps.DONE:
                if missing != steps.UNKNOWN:
                    self._fetch(problem, state, space, missing)
        except BaseException:
            state.drop_workspace()  # vectors may have come that are not laid out
            raise
        finally:
            progress, counters = state.progress, state.counters
            counters.steps = counters.visits = int(progress["visits"])
            counters.updates, counters.kernel_evals = int(progress["updates"]), int(progress["evals"])
            counters.kernel_computed += space.slots.evaluations
            space.slots.evaluations = 0

    def _fetch(self, problem: KernelProblem, state: TrackerState, space: TrackerWorkspace, missing: int) -> None:
        """Compute the kernel values of the vector in a slot with all vectors, for the panels to hold."""
        example, index = int(state.example[missing]), state.example[: state.count]
        row = np.empty((1, index.size), np.float32)
        alone = some_rows(problem.X, example, example + 1)
        space.slots.against(problem.X, index, alone, row, space.slots.own_sums(alone))
        row[0, missing] = self._diagonal(problem, alone)[0]  # as when the example came
        hold(space.panels, missing, row[0], state.count)

    def _block(self, problem: KernelProblem, state: TrackerState, most: int) -> tuple[Arrivals, TrackerWorkspace]:
        """The next examples, at most so many, with their kernel values; and the workspace that they take."""
        progress, X = state.progress, problem.X
        if progress["position"] >= problem.n and most > 0:
            progress["position"] = 0
        first = int(progress["position"])
        height = min(max(int(BLOCK_SHARE * problem.cache_bytes) // (4 * state.example.size), 16), BLOCK)
        last = min(first + min(most, height), problem.n)
        rows = some_rows(X, first, last)
        if last > first:
            reach = np.maximum.accumulate(np.maximum(reach_of(problem.kernel, rows), state.reach))
            if reach[0] != reach[-1]:  # a row that takes another way to compute begins another block
                ways = np.array([way_of(problem.kernel, X, far).number for far in reach])
                last = first + int(np.count_nonzero(ways == ways[0]))
                rows = some_rows(X, first, last)
            state.reach = float(reach[last - first - 1])
        h = last - first
        state.make_room(state.count + h, self._most_steps)
        space = self._workspace(problem, state)
        if space.rows.shape[0] < h:
            space.rows = np.empty((h if h < 16 else height, state.example.size), np.float32)
        arriving = np.arange(first, last)
        caps, gone = (self._caps(problem, np.maximum(arriving - ago, 0)) for ago in (0, self.window or 0))
        block = Arrivals(
            first, np.zeros(h, bool), space.rows[:h], np.empty((h, h), np.float32),
            np.ascontiguousarray(problem.signs[:, first:last]), caps, gone, self._diagonal(problem, rows),
            np.full(h, -1),
        )  # fmt: skip
        space.sizes = space.slots.own_sums(rows)
        self._compute(problem, state, block, space)
        return block, space

    def _compute(
        self, problem: KernelProblem, state: TrackerState, block: Arrivals, space: TrackerWorkspace, asked: int = -1
    ) -> None:
        """Compute kernel values of examples of a block, in place: of all; with a linear kernel only of the example
        asked for and of those that would become vectors at the present w. The choice changes no bit of the model.
        """
        X, h, at = problem.X, block.has.size, max(asked, 0)
        rows, chosen = some_rows(X, block.first, block.first + h), np.arange(h)
        if problem.kernel.is_linear:
            slacks = np.empty(h)
            steps.look_ahead(self._rule(problem, state), state.held, block, X, at, slacks)
            if asked >= 0:
                slacks[asked] = -np.inf  # whatever rounding says here
            chosen = np.flatnonzero(slacks < 0.0)
        space.slots.against(X, state.example[: state.count], rows, block.rows, space.sizes, chosen)
        block.has[chosen] = True
        if h > 1 and chosen.size:
            index, others = np.arange(block.first, block.first + h), at + np.flatnonzero(block.has[at:])
            steps.write_within(block, chosen, others, space.slots.among(X, index, rows, space.sizes, chosen, others))

    @staticmethod
    def _diagonal(problem: KernelProblem, rows: Any) -> np.ndarray:
        """k(x, x) of some rows, without the constant."""
        found = np.ones(shape(rows)[0])
        if not problem.kernel.unit_diagonal:
            own_values(problem.kernel, rows, found)
        return found

    @staticmethod
    def _caps(problem: KernelProblem, chosen: np.ndarray) -> np.ndarray:
        """The bounds C s of some examples, of shape (outputs, examples)."""
        weights = problem.sample_weight if problem.sample_weight.size else 1.0
        return problem.C * np.broadcast_to(weights, problem.signs.shape).take(chosen, axis=-1)

    # -- what is done with a model at rest

    def forget(self, problem: KernelProblem, state: TrackerState, examples: np.ndarray) -> None:
        """Unlearn some examples that were seen, in place, and take as many steps for each as for one that arrives,
        until Ctrl-C is heard.

        The caller takes the examples out of the problem, see :meth:`renumbered`.
        """
        slots = state.vectors[np.isin(state.example[state.vectors], examples)]
        state.trailed[:] = 0
        for slot in slots:
            self._go(problem, state, steps.unlearn, int(slot))
        state.progress["kept"] -= len(examples)
        state.mass -= self._caps(problem, examples).sum(axis=1)
        state.progress["new"] = -1
        for _ in slots:
            if told():
                break
            state.trailed[:] = 0
            self._go(problem, state, steps.rework)

    def renumbered(self, state: TrackerState, kept: np.ndarray) -> TrackerState:
        """The state where only the examples ``kept`` remain, numbered in their order; all vectors are among them.

        The mean loses its share of other examples.
        """
        new, known = state.again(), int(np.searchsorted(kept, state.progress["known"]))
        new.example, new.numbers, new.trail = np.zeros_like(state.example), state.numbers.copy(), state.trail.copy()
        slots = np.flatnonzero(np.isin(state.example[: state.count], kept))
        new.example[slots] = np.searchsorted(kept, state.example[slots])
        new.trail[~np.isin(state.trail_slot, slots)] = 0.0
        new.progress["known"] = new.progress["position"] = known
        if new.workspace is not None:
            new.workspace[1].slots.renumbered()
        return new

    def repair(self, problem: KernelProblem, state: TrackerState, gap: float) -> None:
        """REPROCESS until the gap of the vectors, over ΣC of the problem's examples, is at most ``gap``, in place; by
        the best steps, never by drawn ones.

        The repair also ends where no step gains anything, after :data:`MOST_REPAIRS` steps for each vector, and at
        Ctrl-C. The trail must be empty, as :meth:`adopt` leaves it.
        """
        progress = state.progress
        state.make_room(0, MOST_STEPS)
        gap *= float(np.min(self._caps(problem, np.arange(problem.n)).sum(axis=1) / np.maximum(state.mass, 1e-300)))
        progress["new"], before = -1, -1
        for _ in range(1 + MOST_REPAIRS * int(progress["live"]) // MOST_STEPS):
            if progress["updates"] == before or told():
                break
            before = int(progress["updates"])
            # vectors with β = 0 take steps, too
            self._go(problem, state, steps.rework, most=MOST_STEPS, gap=gap, keeps_all=True, greedy=True)
            state.trailed[:], state.steps[:] = 0, 0
        self._go(problem, state, steps.rework, most=0)

    def adopt(
        self, problem: KernelProblem, state: TrackerState, beta: np.ndarray, f: np.ndarray,
        wanted: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Go on from other dual variables, with their responses, both of shape (outputs, n), in place.

        The vectors are the examples whose variables are not 0, and those ``wanted``, a mask.
        """
        caps = self._caps(problem, np.arange(problem.n))
        e, low, high = problem.signs - f, np.minimum(problem.signs * caps, 0.0), np.maximum(problem.signs * caps, 0.0)
        near = ROUNDING * caps
        beta = np.where(beta >= high - near, high, np.where(beta <= low + near, low, beta))
        up, down = np.where(beta < high, 0.0, -np.inf), np.where(beta > low, 0.0, np.inf)
        state.top, state.bottom = (e + up).max(axis=1), (e + down).min(axis=1)
        chosen = np.arange(problem.n)
        if self.algorithm == "lasvm":
            used = np.any(beta != 0.0, axis=0) if wanted is None else np.any(beta != 0.0, axis=0) | wanted
            if problem.has_free_bias:  # the bias depends on the extremes
                used[(e + up).argmax(axis=1)] = used[(e + down).argmin(axis=1)] = True
            chosen = np.flatnonzero(used)
        k, progress = chosen.size, state.progress
        state.make_room(k, self._most_steps)
        state.drop_workspace()
        for name, array in ARRAYS.items():
            if array.shape[-1] == "slots":
                getattr(state, name)[...] = 0
        for own, given in zip((state.beta, state.e, state.low, state.high), (beta, e, low, high), strict=True):
            own[:, :k] = given[:, chosen]
        state.up[:, :k], state.down[:, :k] = up[:, chosen], down[:, chosen]
        state.example[:k], state.live[:k] = chosen, True
        diagonal = self._diagonal(problem, take_rows(problem.X, chosen))
        state.diagonal[:k] = np.maximum(diagonal + problem.constant, steps.TAU)
        state.owed[:], state.trailed[:], state.steps[:] = 0.0, 0, 0
        progress["count"] = progress["live"] = k
        progress["spare"], progress["new"], progress["waiting"] = 0, -1, 0
        if problem.kernel.is_linear:
            steps.sum_up(state.held, problem.X, problem.constant)
        if self.algorithm == "lasvm":
            unused = np.flatnonzero(~np.any(state.beta[:, :k], axis=0))
            state.waiting[: unused.size], state.waits[unused], progress["waiting"] = unused, True, unused.size

    def with_outputs(self, state: TrackerState, sources: np.ndarray) -> TrackerState:
        """The state for more outputs: output q is the old one sources[q] if that is ≥ 0, the opposite of the first if
        it is −2, and a new one, of which all examples are negative, if it is −1.
        """
        old = {name: getattr(state, name) for name, array in ARRAYS.items() if array.shape[0] == "outputs"}
        if state.w.size:
            old["w"] = state.w
        copied = np.maximum(sources, 0)
        new: dict[str, Any] = {name: array[copied] for name, array in old.items()}
        new["owed"][:] = 0.0
        for q, source in enumerate(sources):
            if source == -2:
                for name in OPPOSITE.keys() & new.keys():
                    new[name][q] = -old[OPPOSITE[name]][0]
            elif source == -1:
                cap = old["high"][0] - old["low"][0]
                for name in {"beta", "w"} & new.keys():
                    new[name][q] = 0.0
                new["e"][q], new["low"][q], new["high"][q] = -1.0, -cap, 0.0
                new["up"][q], new["down"][q] = -np.inf, np.where(cap > 0.0, 0.0, np.inf)
                new["top"][q], new["bottom"][q] = -np.inf, -1.0 if cap.any() else np.inf
                new["trailed"][q] = new["steps"][q] = 0
        return replace(state, **new)

    # -- looks

    def bias(self, problem: KernelProblem, state: TrackerState) -> np.ndarray:
        """The intercepts: in the middle of what the vectors leave room for, where they are free, else 0."""
        if not problem.has_free_bias:
            return np.zeros(problem.n_outputs)
        return np.array([steps.middle(*ends) for ends in zip(state.top, state.bottom, strict=True)])

    def coefficients(self, state: TrackerState) -> tuple[np.ndarray, np.ndarray]:
        """(examples, their β of shape (outputs, examples)) of the model, by number: those of the vectors, or the mean
        over the last example's steps.
        """
        count = state.count
        beta = state.beta[:, :count].copy()
        if self.average:
            for q in range(beta.shape[0]):
                taken = slice(0, int(state.trailed[q]))
                np.subtract.at(beta[q], state.trail_slot[q, taken], state.trail[q, taken] / max(int(state.steps[q]), 1))
        slots = np.flatnonzero(np.any(beta != 0.0, axis=0))
        slots = slots[np.argsort(state.example[slots], kind="stable")]
        return state.example[slots], beta[:, slots]

    def duals(self, problem: KernelProblem, state: TrackerState) -> np.ndarray:
        """The dual variables of the model, of shape (outputs, n)."""
        examples, coefficients = self.coefficients(state)
        beta = np.zeros((problem.n_outputs, problem.n))
        beta[:, examples] = coefficients
        return beta

    def model(self, problem: KernelProblem, state: TrackerState) -> KernelModel:
        """The vectors whose β is not 0, and the intercepts."""
        examples, coefficients = self.coefficients(state)
        return KernelModel(
            problem.kernel, examples, problem.rows(examples), coefficients, self.bias(problem, state), problem.constant
        )  # fmt: skip

    def responses(
        self, problem: KernelProblem, state: TrackerState, start: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """The responses of all examples to the model, without intercept, of shape (outputs, n).

        The responses of vectors are known, unless the model is a mean. ``start`` has other dual variables with their
        responses: then only examples whose variables differ take kernel values.
        """
        examples, coefficients = self.coefficients(state)
        f: Any = 0.0
        if start is not None:
            change, f = self.duals(problem, state) - start[0], start[1]
            examples = np.flatnonzero(np.any(change != 0.0, axis=0))
            coefficients = change[:, examples]
        f = f + np.tile(problem.constant * coefficients.sum(axis=1)[:, None], (1, problem.n))
        slots = state.vectors[:0] if self.average else state.vectors
        others = np.setdiff1d(np.arange(problem.n), state.example[slots], assume_unique=True)
        if problem.kernel.is_linear:
            w = np.asarray(coefficients @ as_matrix(problem.rows(examples)))
            add_scores(problem.X, np.ascontiguousarray(w.T, np.float64), np.empty(len(w)), f)
        elif examples.size and others.size:
            matrix, found = problem.matrix(examples, others), np.zeros((problem.n_outputs, others.size))
            height = max(16, 2**22 // others.size // 16 * 16)
            for first in range(0, examples.size, height):
                part = np.arange(first, min(first + height, examples.size))
                block = matrix.block(part)
                for q in range(problem.n_outputs):
                    add_kernel_rows(block, part - first, coefficients[q, part], found[q])
            f[:, others] += found
        known = state.example[slots]
        f[:, known] = problem.signs[:, known] - state.e[:, slots]
        return f

    def evaluate(self, problem: KernelProblem, state: TrackerState, model: KernelModel | None) -> dict[str, float]:
        """What a checkpoint records: ``objective`` is λ/2 ‖w‖² plus the mean loss of the examples at the time of their
        visit, an estimate that costs no kernel values.
        """
        beta, visits = state.beta[:, : state.count], max(1, int(state.progress["visits"]))
        signs = np.sign(state.low + state.high)[:, : state.count]
        norm2 = float(np.sum(beta * (signs - state.e[:, : state.count])))
        loss = float(state.losses.sum()) / (problem.C * visits)
        return {
            "objective": 0.5 * problem.lam * norm2 + loss, "support_vectors": float(state.progress["live"]),
            "online_error": state.online_error,
        }  # fmt: skip

    def certificate(self, problem: KernelProblem, state: TrackerState) -> Certificate:
        """Primal and dual value of the model for all examples of the problem, seen or not."""
        return problem.certificate(
            self.duals(problem, state), self.responses(problem, state), self.bias(problem, state)
        )
