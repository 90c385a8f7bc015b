"""The Stochastic Batch Perceptron: kernel SVMs in the slack-constrained form.

Problem, the ν-form. Over ‖w‖ ≤ 1 maximise the margin that all examples reach after nν of slack was handed out::

    f(w) = max {γ : Σ sᵢ max(0, γ − cᵢ − yᵢb) ≤ nν},     cᵢ = yᵢ⟨w, Φ(xᵢ)⟩,

the water level of the responses (:mod:`widemargin.core.losses.water_level`); b is 0 or the best bias. The predictor is
w/γ. Every point of the Pareto front of (‖w‖, mean hinge) is that of some ν (Lemma 2.1).

Given are ν, a batch size and η₀. The state is w = Σ αᵢyᵢΦ(xᵢ) with c, and lazy sums for averages.

Step, Algorithm 1. f is concave, and yᵢΦ(xᵢ) with i drawn from the minimax-optimal p* is a supergradient in expectation
(Lemma 3.1). Step t with a batch of k draws is::

    γ, p* from c;   i₁ … i_k ~ p*;   α_i += η_t/k for each,   c_j += (η_t/k) Σ y_i y_j K(x_i, x_j),
    r² = ‖w‖²;   if r > 1: divide α, c, r by r

with η_t = η₀/√t, η₀ = 1/√max K(x, x). With a free bias p* has half its mass on each class, and so has a batch. The
output is w̄/γ(w̄) for an average w̄ of the iterates. Where γ ≤ 0 (in the first steps, or at ν = 0 on data that cannot be
separated) dividing would turn the classifier round, and the multiple of w̄ with the lowest primal value is the output.

Cost of a step beside the kernel rows: one pass over n that adds the rows to c and to the sum for c̄, one for the water
level, and another if the level left its window. Scaling is a scalar, c = σa, and averages are lazy: Σ σ_t a_t = S a_T −
Σ (updates × S before them) with S = Σ σ_t. Rows are float32 through the problem's cache, those that a batch lacks in
one block; sums are float64. Several binary problems on the same examples (one-vs-rest) are trained together, and share
kernel rows.

The paper has batches of one and uniform averages; here 16 draws and weights t are the defaults. The paper ends with the
ν-form. Without ``nu`` the solver here minimises the C-form, in three parts:

1. ν from a sample. With ν = mean hinge / ‖w‖ of the optimum of the C-form the two forms are one. SMO solves the C-form
   on a sample. The hinge of its solution is too low on the sample and too high off it; ν is their geometric mean over
   ‖w‖. The sample comes after the first step, which is the same for every ν > 0 (at w = 0 all responses are equal), so
   a run stopped in it has a model. One binary problem has a sample of an eighth of the examples, as SMO's own. Its
   kernel rows over all examples stay in the cache, and its solution is the model until the draws have a lower primal
   value. Several problems share samples of 500, 1,000, 2,000 and 4,000 examples, as long as these are easy.
2. Draws of the ν-form. They end after one draw for four examples with a margin below 1, or n/5: then the examples that
   matter are known. They end sooner if they have taken a quarter of the kernel rows that the sample's solution took (an
   eighth if most of its vectors are free) and their primal value is not below its value.
3. SMO goes on from the sample's solution; if most vectors are free it has the draws' kernel rows. Until SMO has a point
   of a lower primal value, the model is that of the draws. While SMO works on all examples, all responses are known,
   and there are checkpoints between its rounds.

Cotter, Shalev-Shwartz, Srebro: The Kernelized Stochastic Batch Perceptron. ICML 2012.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from ...core.borrowing import borrow
from ...core.compiling.dispatch import compiled
from ...core.kernels.cache import RowCache
from ...core.losses import losses
from ...core.losses.water_level import Room, draw, pour, room
from ...files import savable
from ...history import Counters
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate
from ...problems.parts import masses_of
from ...schemas import COUNT, Array, Own, Whole, blank, maybe
from .. import make, protocol
from ..protocol import Solver
from ..smo.smo import Episode, SMOState, Solved

# Tuned numbers; docs/notes/sbp.md has the measurements.
SAMPLED = 8  # the sample has one in so many examples
SAMPLE, FIRST_SAMPLE = 4000, 500  # for several classes: examples of the largest sample and of the first
SMALLEST_SAMPLE = 16  # examples; below, ν stays at its default
SAMPLE_TOL, SAMPLE_ROUNDS = 0.05, 6400  # relative gap to which a sample is solved, and most rounds of SMO on it
EASY = 10  # moves of SMO per example; a sample that took more is not doubled
SAMPLE_SHARE = 0.4  # part of the cache for a sample's rows against itself, and as much against others, for classes
SHARE, WET_SHARE = 5, 4  # draws end after one for so many examples, or for so many with a margin below 1
PAR, PAR_FREE = 4, 8  # or after one for so many kernel rows of the sample's solution, if its value is the lower one
FEWEST = 32  # draws before the values are compared: fewer draws tell too little
MATTERS = 1.3  # margin below which examples are in SMO's first episode, where it finishes one of several classes
USED_ONCE = 64  # kernel rows computed at a time where they are used once
FIRST_CHECKPOINT = 32  # first step at which a run stops for a checkpoint; then at its doubles
FIRST_LOOK = 8  # first round of SMO over all examples at which a run stops; then 5/4, 3/2, 7/4, 2, 5/2 … times as many
SMALLEST_SCALE = 1e-2  # scales below are multiplied out: lazy sums lose as many digits as the scale has zeros


@compiled
def add_block(rows, slots, coefficients, constant, before, f, f_sum):
    """f += Σ coefficient × row and f_sum += S × the same, for each binary problem, in place; one pass over n."""
    rows, slots, f, f_sum = borrow(rows), borrow(slots), borrow(f), borrow(f_sum)
    change = np.empty(1024)
    for first in range(0, f.shape[1], 1024):
        size = min(1024, f.shape[1] - first)
        for q in range(f.shape[0]):
            shift = 0.0
            for r in range(slots.size):
                shift += coefficients[q, r]
            for j in range(size):
                change[j] = constant * shift
            for r in range(slots.size):
                c, slot = coefficients[q, r], slots[r]
                if c != 0.0:
                    for j in range(size):
                        change[j] += c * rows[slot, first + j]
            s = before[q]
            for j in range(size):
                f[q, first + j] += change[j]
                f_sum[q, first + j] += s * change[j]


def law_of_windows(state: Any, sizes: dict[str, int]) -> str | None:
    """What is wrong with the windows and scales of a state, in words."""
    if not (state.scale > 0.0).all():
        return f"scale has {state.scale.min()}, and must be above 0"
    fits = np.isfinite(state.window[:, :2]).all() and (state.window[:, 2] > 0.0).all()
    return None if fits else "a window has no place, or no width"


PerOutput = Annotated[np.ndarray, Array("outputs")]
PerExample = Annotated[np.ndarray, Array("outputs", "n")]


@dataclass(kw_only=True)
class StepsState(protocol.State):
    """What steps over examples in one place and in parts share, for each binary problem: w = scale × Σ alpha y Φ.

    The sum of the iterates of α is total × alpha − alpha_sum, and so for f. Without ν, ``sought`` binary problems have
    theirs. ``passes`` over n, beside computing kernel rows, are summed over the binary problems.
    """

    scale: PerOutput
    norm2: PerOutput
    total: PerOutput
    weight: float
    nu: PerOutput
    level: PerOutput
    bias: PerOutput
    window: Annotated[np.ndarray, Array("outputs", 3, finite="inf")]
    t: Annotated[int, COUNT]
    rng: np.random.Generator
    passes: int = 0
    sought: Annotated[int, Whole(0, "outputs")] = 0
    counters: Counters = field(default_factory=Counters)


@savable("StochasticBatchPerceptron.State", law=law_of_windows)
@dataclass(kw_only=True)
class BatchState(StepsState):
    """Iterates and lazy sums of all binary problems, of shape (n_problems, n).

    ``marks`` hold sums of iterates, and their weights, as of the last two powers of 2, for the suffix average. The ν of
    the next binary problem comes from the first ``sample_size`` examples of ``order``, and ``trial`` is SMO's state on
    them. ``start`` is SMO's state with the sample's solution, and ``polish`` that state once SMO goes on from it;
    ``reached`` is the primal value before that. ``wet`` examples had a margin below 1 when the draws were last counted;
    ``late`` says whether SMO is to take over. ``sampled`` has ‖w‖ of the sample's solution and its mean hinge on the
    sample.
    """

    alpha: PerExample
    f: PerExample
    alpha_sum: PerExample
    f_sum: PerExample
    marks: Annotated[np.ndarray, Array(2, 2, "outputs", (0, "n"))]
    mark_weights: Annotated[np.ndarray, Array(2)]
    drawn: Annotated[np.ndarray, Array("outputs", "batch", dtype=np.int64, low=0, high="n-1")]
    wet: float = math.inf
    sample_size: Annotated[int, COUNT] = FIRST_SAMPLE
    order: Annotated[np.ndarray, Array((0, "n"), dtype=np.int64, low=0, high="n-1", distinct=True)] = field(
        default_factory=lambda: np.empty(0, np.int64)
    )
    trial: Annotated[SMOState | None, maybe(Own(protocol.State))] = None
    start: Annotated[SMOState | None, maybe(Own(protocol.State, n="n"))] = None
    sampled: tuple[float, float] = (0.0, 0.0)
    late: bool = False
    polish: Annotated[SMOState | None, maybe(Own(protocol.State, n="n"))] = None
    reached: float = math.inf

    def drop_workspace(self) -> None:
        """Give the memory of this workspace and of SMO's back."""
        super().drop_workspace()
        for state in (self.trial, self.start, self.polish):
            if state is not None:
                state.drop_workspace()

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether SMO cannot make progress."""
        return self.polish is not None and self.polish.stalled


class Sample:
    """The examples of the largest sample in the order of a state, as many others, and the kernel between both once it
    is needed; the binary problem ``part`` on ``rows``, the first examples of the sample, which are at ``places`` of it.

    Several binary problems share kernel rows of the sample: one that has been fetched is there for all.
    """

    part: KernelProblem
    rows: np.ndarray
    places: np.ndarray

    def __init__(self, problem: KernelProblem, order: np.ndarray, size: int) -> None:
        self.order, self.chosen, self.others = order, order[:size], np.sort(order[size : 2 * size])
        self.across: Any = None
        self.shared: RowCache | None = None
        if problem.n_outputs > 1:
            everything = np.arange(size)
            matrix = problem.take(self.chosen).matrix(everything, everything)
            self.shared = RowCache(matrix, SAMPLE_SHARE * problem.cache_bytes)
        self.at: tuple[int, int] | None = None

    def go_to(self, problem: KernelProblem, q: int, size: int) -> None:
        """``part`` ← binary problem q on so many examples, unless it is that."""
        if self.at == (q, size):
            return
        self.at, self.places = (q, size), np.argsort(self.chosen[:size])
        self.rows = self.chosen[self.places]
        self.part = problem.take(self.rows, q)
        if self.shared is not None:
            n_bytes = (1.0 - 2.0 * SAMPLE_SHARE) * problem.cache_bytes
            self.part = replace(self.part, shared=(self.shared, self.places), cache_bytes=n_bytes)


class HostResponses:
    """Part of a workspace: responses stand in the state, and loops on the CPU pour over and draw from them."""

    room: Room | None = None

    def draw(self, problem: KernelProblem, state: BatchState, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Levels, biases and k draws of each binary problem: (points, how often each was drawn, their labels)."""
        signs, two, m = problem.signs, problem.has_free_bias, problem.n_outputs
        if self.room is None:
            self.room = room(problem.n)
        for q in range(m):
            scale, window, s = state.scale[q], state.window[q], problem.weights_of(q)
            window /= scale  # an infinite width stays so
            found = pour(state.f[q], signs[q], s, problem.n * state.nu[q] / scale, two, window, self.room)
            window *= scale
            state.level[q], state.bias[q] = scale * found.level, scale * found.bias
            state.passes += found.passes
            uniforms, first = uniforms_of(state.rng, k, two)
            draw(state.f[q], signs[q], s, two, self.room, 0, uniforms[:first], state.drawn[q, :first])
            draw(state.f[q], signs[q], s, two, self.room, 1, uniforms[first:k], state.drawn[q, first:k])
        points, place = np.unique(state.drawn, return_inverse=True)
        place = place.reshape(m, k)
        times = np.stack([np.bincount(place[q], minlength=points.size) for q in range(m)])
        return points, times, signs[:, points]

    @staticmethod
    def responses(state: BatchState, points: np.ndarray) -> np.ndarray:
        """Responses of points, of shape (n_problems, points)."""
        return state.f[:, points]

    @staticmethod
    def multiply_out(state: BatchState, q: int) -> None:
        """Multiply the responses of problem q with the scale, with the same sums."""
        state.f_sum[q] -= state.total[q] * state.f[q]
        state.f[q] *= state.scale[q]

    def end(self, state: BatchState) -> None:
        """A step is over."""


def uniforms_of(rng: np.random.Generator, k: int, two: bool) -> tuple[np.ndarray, int]:
    """Random numbers for k draws, and how many of them are of the first basin: half where there are two."""
    uniforms = rng.random(k + 1)
    return uniforms, k // 2 + (k % 2 == 1 and uniforms[k] < 0.5) if two else k


class SBPWorkspace(HostResponses):
    """The cache of kernel rows, the kernel's largest value, and the sample for ν while it is needed."""

    def __init__(self, problem: KernelProblem) -> None:
        everything = np.arange(problem.n)
        matrix = problem.matrix(everything, everything)
        self.cache, self.constant = RowCache(matrix, problem.cache_bytes), problem.constant
        self.largest = float(matrix.diagonal().max()) + problem.constant
        self.evaluated = 0
        self.sample: Sample | None = None

    def computed(self) -> int:
        """Kernel values computed for the cache since the last call."""
        before, self.evaluated = self.evaluated, self.cache.matrix.evaluations
        return self.evaluated - before

    def add(self, state: BatchState, points: np.ndarray, coefficients: np.ndarray) -> None:
        """f += Σ coefficient × kernel row of a point, f_sum += S × the same, for each binary problem, in place."""
        cache = self.cache
        for start in range(0, points.size, cache.capacity):
            part = slice(start, start + cache.capacity)
            slots = cache.fetch(points[part])
            add_block(cache.rows, slots, coefficients[:, part], self.constant, state.total, state.f, state.f_sum)
            state.passes += len(state.f)


@dataclass
class BatchSteps(Solver):
    """Algorithm 1. A workspace pours, draws and adds kernel rows, wherever rows and responses are."""

    nu: float | None = None
    batch_size: int = 16
    average: str = "t"
    step: float = 1.0
    tol: float = 1e-3

    capabilities: ClassVar[Any] = protocol.Capabilities(free_intercept=True)

    def check_options(self) -> None:
        """Refuse parameters that cannot be, in one sentence each."""
        if self.nu is not None and not (isinstance(self.nu, (int, float, np.number)) and 0 <= self.nu < math.inf):
            raise ValueError(f"nu must be a number ≥ 0, got {self.nu!r}")
        if not (isinstance(self.batch_size, (int, np.integer)) and self.batch_size >= 1):
            raise ValueError(f"batch_size must be an integer ≥ 1, got {self.batch_size!r}")
        if self.average not in ("suffix", "t", "uniform"):
            raise ValueError(f"average must be 'suffix', 't' or 'uniform', got {self.average!r}")
        if not (math.isfinite(self.step) and self.step > 0):
            raise ValueError(f"step must be a number > 0, got {self.step!r}")

    def steps_per_epoch(self, problem: Any) -> int:
        """Steps that draw as many points as there are examples."""
        return max(1, -(-problem.n // self.batch_size))

    def at_checkpoint(self, state: Any) -> bool:
        """Whether this is a step to evaluate at."""
        return state.t >= FIRST_CHECKPOINT and state.t & (state.t - 1) == 0

    def init(self, problem: Any, rng: np.random.Generator) -> Any:
        """The state with w = 0."""
        self.check(problem)
        sizes = {**self.sizes(problem), "batch": self.batch_size, "points": 0, "sample": 0}
        state = self.state_class(**blank(self.state_class, sizes), weight=0.0, t=0, rng=rng)  # type: ignore[call-arg]
        state.scale[:], state.window[:, 2] = 1.0, np.inf
        state.nu[:] = 1e-3 if self.nu is None else float(self.nu)
        return state

    @staticmethod
    def _measures(
        state: Any, objective: float, level: np.ndarray, norm2: np.ndarray, hinge: np.ndarray
    ) -> dict[str, float]:
        """The columns of a checkpoint: objective in the λ-form, and where the predictor stands, in the mean."""
        return {
            "objective": objective, "level": float(level.mean()),
            "norm": float(np.sqrt(np.maximum(norm2, 0.0)).mean()), "hinge": float(hinge.mean()),
            "nu": float(state.nu.mean()), "passes": float(state.passes),
        }  # fmt: skip

    def _step(self, problem: Any, state: Any, kept: Any) -> None:
        """One step, in place."""
        m, k = problem.n_outputs, self.batch_size
        points, times, signs = kept.draw(problem, state, k)
        eta = self.step / math.sqrt(kept.largest if kept.largest > 0.0 else 1.0) / math.sqrt(state.t + 1)
        moves = eta / k * times
        delta = moves / state.scale[:, None]
        state.alpha[:, points] += delta
        state.alpha_sum[:, points] += state.total[:, None] * delta
        # ‖w + Δ‖² = ‖w‖² + ⟨Δ, w⟩ + ⟨Δ, w + Δ⟩, from the responses before and after
        state.norm2 += state.scale * np.sum(moves * signs * kept.responses(state, points), axis=1)
        kept.add(state, points, delta * signs)
        state.counters.kernel_evals += points.size * problem.n
        state.norm2 += state.scale * np.sum(moves * signs * kept.responses(state, points), axis=1)
        state.t += 1
        weight = float(state.t) if self.average == "t" else 1.0
        for q in range(m):
            if state.norm2[q] > 1.0:
                state.scale[q] /= math.sqrt(state.norm2[q])
                state.norm2[q] = 1.0
                if state.scale[q] < SMALLEST_SCALE:
                    kept.multiply_out(state, q)
                    state.alpha_sum[q] -= state.total[q] * state.alpha[q]
                    state.alpha[q] *= state.scale[q]
                    state.total[q], state.scale[q] = 0.0, 1.0  # the same iterate, and the same sums
        state.total += weight * state.scale
        state.weight += weight
        state.counters.steps += 1
        state.counters.visits += m * k
        state.counters.updates += m * k
        kept.end(state)


def without_rounding(alpha: np.ndarray) -> np.ndarray:
    """Averages of coefficients with 0, in place, where lazy sums have left rounding."""
    alpha[alpha < 1e-14 * alpha.max(axis=1, keepdims=True, initial=0.0)] = 0.0
    return alpha


@dataclass
class BatchPerceptron(BatchSteps):
    """The steps, and what comes before and after them, on the CPU; a GPU has kernel rows and SMO of its own."""

    state_class = BatchState

    #: The capabilities that do not depend on ``nu``.
    _always: ClassVar[protocol.Capabilities] = replace(BatchSteps.capabilities, joins=True)

    @property
    def capabilities(self) -> protocol.Capabilities:  # type: ignore[override]
        """Without ``nu`` the C-form is solved to its optimum; with ``nu`` C is not used, and the gap says nothing."""
        return replace(self._always, aim="optimum" if self.nu is None else "nu", starts_from_duals=self.nu is None)

    #: Epochs of the first part of the C-form, after which the examples that matter are known.
    first_part: ClassVar[float] = 1.0 / SHARE

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        loss = losses.scalar_loss(problem.target)
        if not isinstance(loss, losses.Hinge):
            raise ValueError(f"StochasticBatchPerceptron solves the hinge loss, got {type(loss).__name__}: use SMO")
        self.check_options()
        masses = masses_of(problem)
        if not np.all(masses.sum(axis=1) > 0.0):
            raise ValueError("StochasticBatchPerceptron needs examples with a weight > 0, and all weights are 0")
        if problem.has_free_bias and not np.all(masses > 0.0):
            raise ValueError(
                "StochasticBatchPerceptron needs examples of both classes with a weight > 0 for its bias: "
                "use intercept='none' or 'regularized', or SMO"
            )

    def init(
        self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None,
        promising: np.ndarray | None = None,
    ) -> BatchState:  # fmt: skip
        """w = 0; or, for the C-form, at its second part, with SMO at given dual variables or promising examples."""
        state = super().init(problem, rng)
        if self.average == "suffix":
            state.marks = np.zeros((2, 2, *state.alpha.shape))
        given = {"duals": duals, "promising": promising}
        start = {name: value for name, value in given.items() if value is not None}
        if start:
            state.polish = self._smo.init(problem, deepcopy(rng), **start)
            state.counters = state.polish.counters
        return state

    def again(self, problem: KernelProblem, rng: np.random.Generator, earlier: BatchState) -> BatchState:
        """Start from the average of an earlier run on the same examples, with steps as after a quarter of it."""
        state = self.init(problem, rng)
        state.alpha, state.f = self.averages(earlier)
        state.norm2 = np.sum(state.alpha * problem.signs * state.f, axis=1)
        state.t = earlier.t // 4
        if earlier.workspace is not None:  # kernel rows do not depend on ν
            state.workspace = problem, earlier.workspace[1]  # type: ignore[misc]
        return state

    def first_slice(self, problem: KernelProblem) -> int:
        """The number of steps that compute a slice's kernel values, at least 1."""
        return max(1, 2**22 // (problem.n * self.batch_size * problem.n_outputs))

    # -- steps

    def advance(self, problem: KernelProblem, state: BatchState, n_steps: int) -> int:
        """Take up to n_steps steps, in place, stopping at a checkpoint; returns the number taken.

        Rounds of SMO on the sample that finds ν use up n_steps like steps, but are not among those returned.
        advance(a) then advance(b) is advance(a + b), bit for bit, if both end at the same step.
        """
        if state.polish is not None:
            state.counters = state.polish.counters  # one account for both
            return self._smo.advance(problem, state.polish, int(min(n_steps, rounds_to_look(state.polish))))
        kept = self._workspace(problem, state)
        state.counters.kernel_computed += kept.computed()
        # rounds on a sample are short, and the steps after them are not: no more than some at a time
        taken, left, most, found = 0, n_steps, 4 * self.first_slice(problem), None
        enough = state.counters.kernel_computed + problem.values_at_once
        while left > 0 and taken < most and state.counters.kernel_computed < enough:
            # 1) the sample
            if state.start is not None and state.start.episode is not None:
                self._respond(problem, state, state.start, kept)
                left -= 1
                continue
            if self.nu is None and state.t > 0 and state.sought < problem.n_outputs:
                left -= self._seek_nu(problem, state, left)
                continue
            # 2) a step
            self._step(problem, state, kept)
            if self.average == "suffix" and state.t & (state.t - 1) == 0:
                state.marks[0], state.mark_weights[0] = state.marks[1], state.mark_weights[1]
                state.marks[1] = self._sums(state)
                state.mark_weights[1] = state.weight
            state.counters.kernel_computed += kept.computed()
            taken += 1
            left -= 1
            counts, found = state.sought > 0 and problem.n_outputs == 1, None
            if counts and state.t & (state.t - 1) == 0 and state.t * self.batch_size >= FEWEST:
                found = self._count(problem, state)
            if super().at_checkpoint(state) or self._is_last(problem, state):
                break
        if self._is_last(problem, state):
            alpha, state.reached, _ = found or self._draws(problem, state)
            self._hand_over(problem, state, alpha)
        return taken

    def _respond(self, problem: KernelProblem, state: BatchState, start: SMOState, kept: Any) -> None:
        """A block of the responses of all examples to the sample's solution; ν when all are known."""
        smo = self._smo
        smo.lend(problem, start, kept.cache)
        start.counters = state.counters
        smo.advance(problem, start, 1)
        kept.computed()  # SMO has counted them
        if start.episode is None:
            n, size, inside = problem.n, self._largest_sample(problem), state.sampled[1]
            self._set_nu(state, *state.sampled, (n * start.loss_of_sample - size * inside) / (n - size))

    def _draws(self, problem: KernelProblem, state: BatchState) -> tuple[np.ndarray, float, int]:
        """The draws' coefficients, their primal value and the number of examples with a margin below 1."""
        alpha, f = self.averages(state)
        y = problem.signs
        multiple, bias, value = problem.best_multiple(f[0], float(np.sum(alpha * y * f)))
        scores = multiple * f + bias
        return multiple * alpha, problem.lam * value, int(np.count_nonzero(y * scores < 1.0))

    def _count(self, problem: KernelProblem, state: BatchState) -> tuple[np.ndarray, float, int]:
        """Decide whether SMO is to take over; returns the answer of :meth:`_draws`."""
        found, draws = self._draws(problem, state), state.t * self.batch_size
        _, primal, state.wet = found
        if state.start is None:
            return found
        par = PAR if state.start.narrow else PAR_FREE
        spent = par * draws >= np.count_nonzero(state.start.alpha)
        state.late = bool(spent and primal > self._smo.certificate(problem, state.start).primal)
        return found

    def _is_last(self, problem: KernelProblem, state: BatchState) -> bool:
        """Whether SMO takes over after this step; several binary problems are left to the caller."""
        most = max(min(problem.n / SHARE, state.wet / WET_SHARE), 1.0)
        return self.nu is None and problem.n_outputs == 1 and (state.late or state.t * self.batch_size >= most)

    def at_checkpoint(self, state: BatchState) -> bool:
        """Whether this is a step to evaluate at."""
        if state.polish is not None:
            return self._smo.at_checkpoint(state.polish) or at_look(state.polish)
        return super().at_checkpoint(state)

    def knows(self, state: BatchState) -> bool:
        """Whether all responses are up to date: until SMO takes over, and while it works on all examples."""
        polish = state.polish
        return polish is None or self._smo.knows(polish) or is_wide(polish)

    @property
    def _smo(self) -> Any:
        return self._exact(self.tol)

    def promising(self, problem: KernelProblem, state: BatchState) -> list[np.ndarray]:
        """For each binary problem the examples that matter to the C-form: those with a small margin."""
        _, f, bias, _ = self.predictor(problem, state)
        margins = problem.signs * (f + bias[:, None])
        return [np.flatnonzero(row < MATTERS) for row in margins]

    def _largest_sample(self, problem: KernelProblem) -> int:
        return largest_sample(problem.n, problem.n_outputs)

    def _seek_nu(self, problem: KernelProblem, state: BatchState, most: int) -> int:
        """Up to ``most`` rounds of SMO on the sample of the next binary problem, whose ν is set when it is solved."""
        size = self._largest_sample(problem)
        if size < SMALLEST_SAMPLE:
            state.sought = problem.n_outputs
            return 0
        if state.order.size == 0:
            state.order = self._classes_first(problem, state.rng.permutation(problem.n), size)
            state.sample_size = size if problem.n_outputs == 1 else FIRST_SAMPLE
        space = self._workspace(problem, state)
        if space.sample is None or space.sample.order is not state.order:
            space.sample = Sample(problem, state.order, size)
        sample = space.sample
        sample.go_to(problem, state.sought, state.sample_size)
        part = sample.part
        # 1) rounds of SMO on the sample
        smo = self._exact(SAMPLE_TOL)
        if state.trial is None:
            state.trial = smo.init(part, np.random.default_rng(state.rng.integers(2**63)))
        trial, counters = state.trial, state.trial.counters
        asked, computed = counters.kernel_evals, counters.kernel_computed
        rounds = smo.advance(part, trial, min(most, SAMPLE_ROUNDS - trial.counters.steps))
        # 2) is it solved
        over = trial.counters.steps >= SAMPLE_ROUNDS
        if over and not smo.knows(trial):
            smo.finish(part, trial)
        if smo.at_checkpoint(trial):
            primal, _, gap = smo.certificate(part, trial)
            over = over or trial.stalled or gap <= SAMPLE_TOL * primal
        state.counters.kernel_evals += counters.kernel_evals - asked
        state.counters.kernel_computed += counters.kernel_computed - computed
        # 3) ν, or a larger sample
        if over:
            state.trial, size = None, state.sample_size
            norm = math.sqrt(max(float(trial.alpha @ (part.y * trial.f)), 0.0))
            state.sampled = norm, float(part.mean_losses(trial.f[None] + trial.bias)[0])
            if problem.n_outputs == 1:
                state.start = self._start(problem, state, sample, trial)
            if state.start is None:  # else its responses, which come next, tell the hinge on others
                if trial.counters.updates <= EASY * part.n and part.n < sample.chosen.size:
                    state.sample_size = 2 * size
                    return max(1, rounds)
                self._set_nu(state, *state.sampled, self._loss_elsewhere(problem, state, sample, trial))
                state.sample_size = FIRST_SAMPLE
            if state.sought == problem.n_outputs or state.start is not None:
                space.sample = None
        return max(1, rounds)

    @staticmethod
    def _classes_first(problem: KernelProblem, order: np.ndarray, size: int) -> np.ndarray:
        """The order with the first example of each class moved to its front, so that the sample has every class."""
        ends = []
        for q in range(problem.n_outputs):
            _, y, s = problem.binary_part(q)
            ends += [np.flatnonzero((y[order] == sign) & (s[order] > 0.0))[:1] for sign in (1.0, -1.0)]
        first = np.unique(np.concatenate(ends))[:size]
        return np.concatenate([order[first], np.delete(order, first)])

    @staticmethod
    def _set_nu(state: BatchState, norm: float, inside: float, outside: float) -> None:
        """Set the next ν, from ‖w‖ and the mean hinges of a sample's solution on the sample and off it."""
        if norm > 0.0:
            state.nu[state.sought] = math.sqrt(inside * max(outside, 0.0)) / norm
        state.sought += 1

    def _loss_elsewhere(self, problem: KernelProblem, state: BatchState, sample: Sample, solved: SMOState) -> float:
        """The mean hinge of the sample's solution on as many examples outside of the sample."""
        if sample.across is None:
            sample.across = self._across(problem, sample.chosen, sample.others)
            if sample.shared is not None:
                everything, columns = np.arange(sample.chosen.size), np.arange(sample.others.size)
                sample.across = RowCache(sample.across, SAMPLE_SHARE * problem.cache_bytes).part(everything, columns)
        part, others, across = sample.part, sample.others, sample.across
        support = np.flatnonzero(solved.alpha)
        before = across.evaluations
        weights = part.y[support] * solved.alpha[support]
        f = np.full(others.size, problem.constant * weights.sum())
        for first in range(0, support.size, USED_ONCE):
            rows = slice(first, first + USED_ONCE)
            f += weights[rows] @ across.block(sample.places[support[rows]]).astype(np.float64)
        state.counters.kernel_evals += support.size * others.size
        state.counters.kernel_computed += across.evaluations - before
        return float(problem.take(others, state.sought).mean_losses(f[None] + solved.bias)[0])

    # -- output

    def _sums(self, state: BatchState) -> np.ndarray:
        """Weighted sums of the iterates of α and of f, of shape (2, n_problems, n)."""
        total = state.total[:, None]
        return np.stack([total * state.alpha - state.alpha_sum, total * state.f - state.f_sum])

    def averages(self, state: BatchState) -> tuple[np.ndarray, np.ndarray]:
        """The averages ᾱ of the coefficients and f̄ of the responses over the steps."""
        if state.weight == 0.0:  # before the first step
            return state.alpha.copy(), state.f.copy()
        sums, weight = self._sums(state), state.weight
        if self.average == "suffix" and weight > state.mark_weights[0]:
            sums, weight = sums - state.marks[0], weight - state.mark_weights[0]
        alpha, f = sums / weight
        return without_rounding(alpha), f

    def predictor(
        self, problem: KernelProblem, state: BatchState
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(ᾱ, f̄, b, γ), scaled to the predictor: w̄/γ, or without ``nu`` and where γ ≤ 0 the best multiple of w̄."""
        alpha, f = self.averages(state)
        n, two, space = problem.n, problem.has_free_bias, room(problem.n)
        bias, level = np.zeros((2, problem.n_outputs))
        for q, y in enumerate(problem.signs):
            window = np.array([0.0, 0.0, np.inf])
            found = pour(f[q], y, problem.weights_of(q), n * state.nu[q], two, window, space)
            level[q] = found.level
            if level[q] > 0.0 and self.nu is not None:
                multiple, bias[q] = 1.0 / level[q], found.bias / level[q]
            else:
                multiple, bias[q], _ = problem.best_multiple(f[q], float(alpha[q] @ (y * f[q])), q)
            alpha[q] *= multiple
            f[q] *= multiple
        return alpha, f, bias, level

    def certificate(self, problem: KernelProblem, state: BatchState) -> Certificate:
        """Primal, dual and gap in the λ-form; until SMO has taken over, the dual value of the best multiple of ᾱ, or
        that of the sample's solution.
        """
        return self._known(problem, state)[0]

    def _known(self, problem: KernelProblem, state: BatchState) -> tuple[Certificate, Callable[[], KernelModel]]:
        """The certificate of the better one of the draws' point and SMO's, and a function that makes its model."""
        smo, made = self._smo_point(problem, state)
        own, point = Certificate(state.reached, -math.inf, math.inf), None
        if state.polish is None:
            point = self.predictor(problem, state)
            own = problem.certificate(problem.signs * point[0], point[1], point[2])
        primal, dual = min(own.primal, smo.primal), max(own.dual, smo.dual)
        if made is None or own.primal < smo.primal:

            def made() -> KernelModel:
                alpha, _, bias, _ = point or self.predictor(problem, state)
                return problem.model(problem.signs * alpha, bias)

        return Certificate(primal, dual, primal - dual), made

    def scores(self, problem: KernelProblem, state: BatchState) -> tuple[np.ndarray, float] | None:
        """The scores of SMO's point, if it is the model and all responses are known."""
        smo, polish = self._smo, state.polish
        if polish is None or not smo.knows(polish) or state.reached < smo.certificate(problem, polish).primal:
            return None
        return smo.scores(problem, polish)

    def _smo_point(
        self, problem: KernelProblem, state: BatchState
    ) -> tuple[Certificate, Callable[[], KernelModel] | None]:
        """The certificate of SMO's last point with known responses, and a function that makes its model."""
        at = state.polish if state.polish is not None else state.start
        if at is None:
            return Certificate(math.inf, -math.inf, math.inf), None
        if is_wide(at):
            measured, model = self._smo.glimpse(problem, at, 0.0)
            objective, gap = measured["objective"], measured["gap"]
            return Certificate(objective, objective - gap, gap), model
        return self._smo.certificate(problem, at), lambda: self._smo.model(problem, at)

    def evaluate(self, problem: KernelProblem, state: BatchState, model: KernelModel | None) -> dict[str, float]:
        """Objective in the λ-form, and where the predictor stands: level, norm, mean hinge (means over problems)."""
        if state.polish is not None:
            certificate, draws = self.certificate(problem, state), float(state.t * self.batch_size)
            return {"objective": certificate.primal, "gap": certificate.gap, "handed_over_after": draws}
        alpha, f, bias, level = self.predictor(problem, state)
        norm2 = np.sum(alpha * problem.signs * f, axis=1)
        hinge = problem.mean_losses(f + bias[:, None])
        certificate = self.certificate(problem, state)
        gap = {"gap": certificate.gap} if self.nu is None else {}
        return {**self._measures(state, certificate.primal, level, norm2, hinge), **gap}

    def glimpse(
        self, problem: KernelProblem, state: BatchState, most: float
    ) -> tuple[dict[str, float], Callable[[], KernelModel]] | None:
        """Measures and model of the present point; once SMO has begun, of its point or a better one of the draws."""
        if state.polish is None:
            return self.evaluate(problem, state, None), lambda: self.model(problem, state)
        found = self._smo.glimpse(problem, state.polish, most)
        if found is None:
            return None
        certificate, made = self._known(problem, state)
        if found[0]["objective"] <= certificate.primal:
            return found
        return {"objective": certificate.primal, "gap": certificate.gap}, made

    def model(self, problem: KernelProblem, state: BatchState) -> KernelModel:
        """A finished copy of the current model: the one of the draws or of SMO that has the lower value."""
        return self._known(problem, state)[1]()

    def duals(self, problem: KernelProblem, state: BatchState) -> np.ndarray:
        """Dual variables of shape (outputs, n): SMO's once it has begun, before a multiple of the predictor's."""
        if state.polish is not None:
            return self._smo.duals(problem, state.polish)
        beta = problem.signs * self.predictor(problem, state)[0]
        if self.nu is None:  # into the box
            caps = np.stack([problem.caps_of(q) for q in range(problem.n_outputs)])
            with np.errstate(divide="ignore"):
                beta *= np.minimum(1.0, np.min(caps / np.abs(beta), axis=1, initial=np.inf, where=beta != 0.0))[:, None]
        return beta

    # -- what a GPU does in another way

    def _workspace(self, problem: KernelProblem, state: BatchState) -> Any:
        return state.work(problem, lambda: SBPWorkspace(problem))

    def _exact(self, tol: float) -> Any:
        """SMO to a relative gap."""
        return make("kernel", "smo", tol=tol)

    def _across(self, problem: KernelProblem, chosen: np.ndarray, others: np.ndarray) -> Any:
        """The kernel between the sample and as many other examples, by blocks of rows."""
        return problem.matrix(chosen, others)

    def _start(self, problem: KernelProblem, state: BatchState, sample: Sample, trial: SMOState) -> SMOState | None:
        """SMO's state with the sample's solution."""
        solved = Solved(sample.rows, trial.alpha, trial.f)
        return self._smo.init(problem, deepcopy(state.rng), solved=solved)

    def _hand_over(self, problem: KernelProblem, state: BatchState, alpha: np.ndarray) -> None:
        """SMO takes over: it goes on from the sample's solution and, where most of its vectors are free, with the
        draws' kernel rows. Until it has a point of a lower primal value, the model is the better of both so far.
        """
        cache = self._workspace(problem, state).cache
        state.drop_workspace()  # its memory is SMO's now
        smo, state.polish, state.start = self._smo, state.start, None
        if state.polish is None:  # too few examples for a sample
            state.polish = smo.init(problem, deepcopy(state.rng))
        state.polish.counters = state.counters
        if not state.polish.narrow:
            smo.lend(problem, state.polish, cache)


@savable()
@dataclass
class StochasticBatchPerceptron(BatchPerceptron):
    """The Stochastic Batch Perceptron: a good kernel classifier from the fewest kernel values.

    With ``nu`` it solves the slack-constrained form. Without it, it finds the ν of C on a sample and
    later hands over to SMO, which goes on to the optimum.

    Parameters
    ----------
    nu : float or None, default=None
        The slack per example, in units of ‖w‖ = 1. None solves the C-form of the problem.
    batch_size : int, default=16
        The number of points drawn in each step. 1 is Algorithm 1 of the paper.
    average : {"t", "suffix", "uniform"}, default="t"
        The mean that is returned: of all iterates with weights t, of the last half to three quarters of
        them, or of all alike, as in the paper.
    step : float, default=1.0
        A factor of the paper's step size η₀.
    tol : float, default=1e-3
        The relative duality gap to which SMO refines, without ``nu``. Estimators put their own ``tol``
        here.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, StochasticBatchPerceptron
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = SVC(solver=StochasticBatchPerceptron(batch_size=4), C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _always = replace(BatchPerceptron._always, for_device="sbp", same_parameters=True)


class Seeker(BatchPerceptron):
    """The search for ν on examples of which the first half is the sample."""

    def _largest_sample(self, problem: KernelProblem) -> int:
        return problem.n // 2

    def _start(self, problem: KernelProblem, state: Any, sample: Any, trial: Any) -> None:
        """None: there are no other examples for SMO to go on with."""


def largest_sample(n: int, n_outputs: int) -> int:
    """Examples of the largest sample that ν is sought on."""
    size = max(n // SAMPLED, min(FIRST_SAMPLE, n // 2))
    return size if n_outputs == 1 else min(SAMPLE, size)


def episode_of(state: SMOState) -> Any:
    """SMO's work on a part of the examples; None between two of them, and on a GPU, where it is of another kind."""
    episode = getattr(state, "episode", None)
    return episode if isinstance(episode, Episode) else None


def is_wide(state: SMOState) -> bool:
    """Whether SMO is at work on all examples, whose responses are then known at any time."""
    episode = episode_of(state)
    return episode is not None and episode.bound == 1.0 and episode.rows.size == state.f.size and state.closing is None


def next_look(rounds: int) -> int:
    """The first number of rounds above this one at which SMO's point is looked at: 8, 10, 12, 14, 16, 20, 24 …"""
    power = max(FIRST_LOOK, 1 << max(rounds, 1).bit_length() - 1)
    return next(look for look in range(power, 2 * power + 1, power // 4) if look > rounds)


def rounds_to_look(state: SMOState) -> float:
    """Rounds that SMO may take before its point is to be looked at."""
    episode = episode_of(state)
    if episode is None:
        return FIRST_LOOK
    return next_look(episode.rounds) - episode.rounds if is_wide(state) else math.inf


def at_look(state: SMOState) -> bool:
    """Whether SMO is at work on all examples, and its point is to be looked at."""
    rounds = episode_of(state).rounds if is_wide(state) else 0
    return rounds > 0 and next_look(rounds - 1) == rounds
