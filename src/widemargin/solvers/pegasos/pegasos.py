"""Pegasos: primal stochastic sub-gradient steps for linear SVMs.

Problem (see :mod:`widemargin.problems.objective`)::

    min  P(w, b) = λ/2 ‖w‖² + (1/n) Σ sᵢ ℓ(⟨w, xᵢ⟩ + b, yᵢ)

Given: rows xᵢ, labels yᵢ, weights sᵢ, λ, a batch size k, a rule for the step sizes.

State: w = a·v with a scalar a (Sec. 2.4), the average of the iterates, the order of visits (:class:`PegasosState`).

Step, for a mini-batch A_t of k examples (Fig. 2)::

    w ← (1 − η_t λ) w − (η_t / k) Σ_{i ∈ A_t} sᵢ ℓ'(⟨w, xᵢ⟩ + b, yᵢ) xᵢ,     η_t = 1/(λt),

then, as an option, the projection onto a ball that holds the optimum (Eq. 6).

Cost: O(non-zeros of the batch). ‖w‖ is kept up to date where projections need it, and averages are lazy: with
S = Σ_t ω_t a_t, an update δ of v made when the sum stood at S enters Σ_t ω_t w_t as (S_T − S) δ, so the numerator of
the average is S·v + u, where u collects −S δ. When a has shrunk a thousandfold, S·v is folded into u and a into v:
O(d), seldom.

Losses of Sec. 5 are targets of the problem. The four treatments of the bias of Sec. 6 are (1) a constant feature; (2) a
sub-gradient step on b; (3) the best b for each batch; (4) an outer search for the b with the least
J(b) = min over w of P(w, b). J is convex, but a run of finite length finds J(b) with an error. So a stage of the search
compares three runs that share their error, at b − ρ, b and b + ρ, from the same w and step on, over the same visits. If
b has the least value, b moves to the vertex of the parabola through the three, ρ is quartered and runs become twice as
long; else b moves to the least and ρ is doubled. The next stage goes on from the best run. With exact values
J(b) − min J ≤ max(J(b − ρ), J(b + ρ)) − J(b), by convexity.

Dual point. λw is a mean of the −sᵢgᵢxᵢ of all visits, with the slope gᵢ of the time, and of zero: visit i of step t has
the weight ρ_t = η_tλ/k Π_{r>t} (1 − η_rλ), which is 1/(k(t₀ + T)) for all visits where η_t = 1/(λ(t₀ + t)). Let no
example have a weight of more than M/n in all. Then θw = w(α) for slopes ḡᵢ = θn Σ ρ_t gᵢ in the domain of ℓ* and any
θ ≤ 1/M, and since ℓ* is convex and ℓ*(0) ≤ 0, for such θ

    min P  ≥  D(ḡ)  ≥  θA − θ² λ/2 ‖w‖²,        A = −Σ ρ_t sᵢ ℓ*(gᵢ),

with equality for the hinge, of several classes too. A shrinks and grows as w does: one number for each output. Orders
that visit each example once an epoch have M/n ≤ Σ over epochs of the largest ρ_t; M is 1 after whole epochs of
η_t = 1/(λt). Independent draws have no such M, and a free b needs Σ sᵢḡᵢ = 0. (Dual ascent by such steps:
Shalev-Shwartz and Kakade, Mind the duality gap, 2008.)

Sampling is i.i.d. (subsets without repetition for k > 1, so that k = n is the deterministic method), a new permutation
each epoch, or one fixed permutation (Sec. 7.5); mini-batches run on across the ends of epochs.

Different from the paper: the radius of the projection is that of ``Problem.norm_bound``, which equals 1/√λ for the
unweighted hinge and holds for the other losses too. Squared losses have no bounded slope; their η_t is at most the
inverse smoothness of the batch. Averages are over w_1 … w_T, the points at which sub-gradients were taken
(Corollary 1). "suffix" restarts when t reaches a power of two and returns the mean over the last completed span and the
current one, which are the last half to three quarters of the iterates at any time.

Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: Primal Estimated sub-GrAdient SOlver for SVM. Mathematical Programming
127 (2011).
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from ...arguments import flag, one_of
from ...core.losses import losses
from ...core.losses.step_sizes import StepSize
from ...core.rows.rows import CSRRows, row_norms2
from ...core.sampling.visits import draw_subsets, shuffle
from ...files import savable
from ...history import Counters
from ...models import LinearModel
from ...problems.linear import Problem
from ...problems.objective import Certificate, rounding_of_sum, sum_of_squares
from ...problems.structured import StructuredProblem
from ...schemas import COUNT, FLOATS, INDICES, Array, Either, Own, Text, Whole, Within, blank, maybe
from .. import protocol
from ..protocol import Capabilities, Solver
from . import steps
from .steps import Average, Dual, Iterate, PegasosRule, PegasosScratch, PerOutput

# ---------------------------------------------------------------- step sizes


@savable()
@dataclass
class InverseTime:
    """The step size η_t = 1/(λt), the paper's own.

    It is ``step="pegasos"``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Pegasos
    >>> from widemargin.solvers.pegasos import InverseTime
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> solver = Pegasos(step=InverseTime(), batch_size=4)
    >>> LinearSVC(solver=solver, tol=0, max_iter=5, random_state=0).fit(X, y).n_iter_
    5
    """


@savable()
@dataclass
class Norma:
    """The step size η_t = p/(λ√t), Kivinen, Smola and Williamson's.

    It is ``step="norma"``. The budgeted ``NormaStep(eta)`` has η for p/λ.

    Parameters
    ----------
    p : float or None, default=None
        The factor p, a number > 0. None is 0.5(2 + 0.5 T^−½)^½, the bound's optimum, with the number of examples for
        T: training may end at any time, and p is between 0.707 and 0.79 whatever T is.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Pegasos
    >>> from widemargin.solvers.pegasos import Norma
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> solver = Pegasos(step=Norma(p=0.5), batch_size=4)
    >>> LinearSVC(solver=solver, tol=0, max_iter=5, random_state=0).fit(X, y).n_iter_
    5
    """

    p: float | None = None


@savable()
@dataclass
class Constant:
    """The step size η_t = η, Zhang's.

    It is ``step="constant"``.

    Parameters
    ----------
    eta : float, default=0.01
        The size η of all steps, a number > 0.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Pegasos
    >>> from widemargin.solvers.pegasos import Constant
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> solver = Pegasos(step=Constant(eta=0.1), batch_size=4)
    >>> LinearSVC(solver=solver, tol=0, max_iter=5, random_state=0).fit(X, y).n_iter_
    5
    """

    eta: float = 0.01


@savable()
@dataclass
class Bottou:
    """The step size η_t = η₀/(1 + λη₀t) = 1/(λ(1/(λη₀) + t)), Bottou's.

    It is ``step="bottou"``, the default.

    Parameters
    ----------
    eta0 : float or None, default=None
        The size η₀ at which steps begin, a number > 0. None finds it by trial runs on a sample.
    sample : int, default=1000
        The largest number of examples of the trial runs.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Pegasos
    >>> from widemargin.solvers.pegasos import Bottou
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> solver = Pegasos(step=Bottou(eta0=0.1), batch_size=4)
    >>> LinearSVC(solver=solver, tol=0, max_iter=5, random_state=0).fit(X, y).n_iter_
    5
    """

    eta0: float | None = None
    sample: int = 1000


#: Step sizes by the names that users give.
STEPS = {"pegasos": InverseTime, "norma": Norma, "constant": Constant, "bottou": Bottou}
SAMPLINGS = ("iid", "permutation", "fixed")


# ---------------------------------------------------------------- state and solver

AVERAGES = ("none", "uniform", "suffix", "weighted")

FLOAT32_LIMIT = 1e20  # mean square of rows; larger ones are refused in float32, where steps times rows would overflow
OUT_OF_REACH = 32.0  # ratio of features' sizes; a feature r times smaller than the largest is learnt r² times as slowly
TRIAL_ENTRIES = 2**16  # entries of the data that each trial run for η₀ reads, ...
FEW_ROWS = 128  # ... of so many rows at least

AnyProblem = Problem | StructuredProblem
Ends = Annotated[np.ndarray, Array("outputs", finite="inf")]


@savable("Pegasos.Search")
@dataclass
class Search:
    """The outer search over b, for each output."""

    #: b and ρ of the current stage.
    centre: PerOutput
    reach: PerOutput
    #: What all runs of the stage begin with: the iterate, the step, the visits.
    start: Annotated[Iterate, Within(Iterate)]
    begun: Annotated[int, COUNT]
    order: Annotated[np.ndarray, Array("n", dtype=INDICES, low=0, high="n-1")]
    position: Annotated[int, Whole(0, "n")]
    rng: np.random.Generator
    #: Epochs of each run.
    length: Annotated[int, Whole(1, 2**53)]
    #: Objectives that the stage's runs reached, and the last iterate of the best of them.
    values: Annotated[np.ndarray, Array(3, "outputs", finite="inf")]
    kept: Annotated[Iterate, Within(Iterate)]
    #: By how much J of the last stage's b may exceed the least J; infinite where b moved.
    excess: Ends
    #: The best result of all runs.
    best_coef: Annotated[np.ndarray, Array("d", "outputs", dtype=FLOATS, order=False)]
    best_b: PerOutput
    best_objective: Ends
    #: Which of the runs is under way: at b, b − ρ or b + ρ; and how many are completed.
    place: Annotated[int, Whole(0, 2)] = 0
    rounds: Annotated[int, COUNT] = 0


#: Where a stage's runs stand, in units of ρ from b.
PLACES = (0.0, -1.0, 1.0)


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    size = state.order.size
    return None if state.position <= size else f"position is {state.position} in an order of {size} examples"


@savable("Pegasos.State", law=_law)
@dataclass
class PegasosState(protocol.State):
    """All that a run of Pegasos knows; see :class:`Iterate`, :class:`Average` and :class:`Dual` for the arrays."""

    w: Annotated[Iterate, Within(Iterate)]
    average: Annotated[Average, Within(Average)]
    order: Annotated[np.ndarray, Array((0, "n"), dtype=INDICES, low=0, high="n-1")]
    position: Annotated[int, COUNT]
    t: Annotated[int, COUNT]
    eta0: float
    radius2: Ends
    rng: np.random.Generator
    search: Annotated[Search | None, maybe(Within(Search))] = None
    counters: Counters = field(default_factory=Counters)
    dual: Annotated[Dual, maybe(Within(Dual))] = None  # type: ignore[assignment]

    tight = False

    def __post_init__(self) -> None:
        if self.dual is None:  # as in files that have none
            self.dual = Dual.of(self.w.b.size, known=False)


@savable(step=Either(Text(), Own()))
@dataclass
class Pegasos(Solver):
    """Primal stochastic sub-gradient descent, with all the options of its paper.

    It is the solver of linear machines that learns from streams and has every intercept and loss.

    Parameters
    ----------
    step : {"bottou", "pegasos", "norma", "constant"} or a policy object, default="bottou"
        The sizes of the steps. "bottou" is η₀/(1 + λη₀t) with η₀ found by trial runs on a sample,
        "pegasos" the paper's 1/(λt), "norma" p/(λ√t), "constant" 0.01. The policies :class:`Bottou`,
        :class:`InverseTime`, :class:`Norma` and :class:`Constant` have parameters.
    average : {"weighted", "suffix", "uniform", "none"}, default="weighted"
        What is returned: the mean of all iterates with weights ∝ t, the mean of the last half to three
        quarters of them, the mean of all, or the last iterate.
    sampling : {"permutation", "iid", "fixed"}, default="permutation"
        The order of visits: a new permutation each epoch, independent draws, or one permutation.
    batch_size : int, default=1
        The number of examples of a step.
    projection : bool, default=False
        Whether each step is followed by a projection onto a ball that holds the optimum.
    search_epochs : int, default=1
        The epochs of the first runs of ``intercept="search"``. Later ones are longer.

    Notes
    -----
    ``Pegasos(step="pegasos", average="none", sampling="iid")`` is Fig. 1 of the paper to the letter.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Pegasos
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> model = LinearSVC(solver=Pegasos(batch_size=4), tol=0, max_iter=20, random_state=0).fit(X, y)
    >>> model.stop_reason_, model.n_iter_
    ('max_iter', 20)
    """

    step: Any = "bottou"
    average: str = "weighted"
    sampling: str = "permutation"
    batch_size: int = 1
    projection: bool = False
    search_epochs: int = 1

    capabilities = Capabilities(streams=True)
    state_class = PegasosState

    def check(self, problem: AnyProblem) -> None:
        """Refuse parameters that make no sense, in one sentence each."""
        if isinstance(self.step, str) and self.step not in STEPS:
            raise ValueError(f"step must be one of {', '.join(STEPS)} or a step-size policy, got {self.step!r}")
        if not isinstance(self.step, str) and not isinstance(self.step, tuple(STEPS.values())):
            names = ", ".join(policy.__name__ for policy in STEPS.values())
            raise TypeError(f"step must be a name or one of {names}, got {self.step!r}")
        one_of("average", self.average, AVERAGES)
        one_of("sampling", self.sampling, SAMPLINGS)
        self.check_batch_size()
        if self.batch_size > problem.n:
            raise ValueError(f"batch_size must be at most the number of examples {problem.n}, got {self.batch_size}")
        if not (isinstance(self.search_epochs, (int, np.integer)) and self.search_epochs >= 1):
            raise ValueError(f"search_epochs must be an integer ≥ 1, got {self.search_epochs!r}")
        policy = self.policy
        flag("projection", self.projection)
        if isinstance(policy, Bottou) and not isinstance(policy.sample, (int, np.integer)):
            raise TypeError(f"sample of Bottou must be an integer > 0, got {policy.sample!r}")
        for name, value in vars(policy).items():
            if value is not None and not (isinstance(value, (int, float, np.number)) and 0 < value < math.inf):
                raise ValueError(f"{name} of {type(policy).__name__} must be a finite number > 0, got {value!r}")

    def check_batch_size(self) -> None:
        """Refuse a ``batch_size`` that is no integer ≥ 1."""
        k = self.batch_size
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"batch_size must be an integer ≥ 1, got {k!r}")

    @property
    def policy(self) -> InverseTime | Norma | Constant | Bottou:
        """The policy of step sizes as an object, where ``step`` is its name too."""
        return STEPS[self.step]() if isinstance(self.step, str) else self.step

    def first_slice(self, problem: AnyProblem) -> int:
        """Steps that certainly take less than a slice; those of structured outputs may take any time."""
        if not (isinstance(problem, Problem) and problem.is_open):
            return super().first_slice(problem)
        return max(1, int(protocol.ENTRIES / (problem.mean_entries * problem.n_outputs * self.batch_size)))

    def steps_per_epoch(self, problem: AnyProblem) -> int:
        """Steps of k examples that visit n: n/k, rounded up."""
        return -(-problem.n // self.batch_size)

    def init(
        self, problem: AnyProblem, rng: np.random.Generator, start: LinearModel | None = None,
        counters: Counters | None = None,
    ) -> PegasosState:  # fmt: skip
        """The state before the first step: w = 0.

        Or at the weights of ``start``, found by other means with as much work as ``counters`` tell: steps and averages
        go on as if all visits so far had been steps that stayed there.
        """
        self.check(problem)
        d, outputs, dtype = problem.d, problem.n_outputs, problem.dtype
        sizes = {"outputs": outputs, "d": d}
        average = Average(**blank(Average, sizes, dtype))._replace(
            U=np.zeros((d * (self.average != "none"), outputs), dtype),
            previous=np.zeros((d * (self.average == "suffix"), outputs), dtype),
            weights=np.array([(0.0, 0.0, 2.0)], steps.SPANS),
        )
        state = PegasosState(
            Iterate(**blank(Iterate, sizes, dtype))._replace(scale=np.ones(outputs)), average, np.empty(0, np.int32),
            position=0, t=0, eta0=math.nan, radius2=np.full(outputs, np.inf), rng=rng,
            dual=Dual.of(outputs, known=start is None),
        )  # fmt: skip
        if start is not None:
            self._stay_at(state, start, counters or Counters())
        self.bind(problem, state)
        return state

    def _stay_at(self, state: PegasosState, start: LinearModel, counters: Counters) -> None:
        """Make a new state one that has made ``counters.visits`` visits at the weights of ``start``, in place."""
        state.counters, state.t = counters, -(-counters.visits // self.batch_size)
        state.w.V[:], state.w.b[:] = start.coef.T, start.intercept
        if self.average == "none":
            return
        total = state.t * (state.t + 1) / 2 if self.average == "weighted" else float(state.t)
        state.average.weights[0] = total, 0.0, _next_restart(state.t)
        state.average.S[:], state.average.b[:] = total, total * state.w.b

    def bind(self, problem: AnyProblem, state: PegasosState, in_order: bool = False) -> None:
        """Point a state at a problem's examples: a new order to visit them in, or the order they stand in."""
        if state.order.size and (state.search is None) == (problem.intercept == "search"):
            raise ValueError("warm_start cannot change intercept to or from 'search': set warm_start=False")
        index = np.int32 if problem.n < 2**31 else np.int64
        if state.t > 0 or self.sampling == "iid" or problem.intercept not in ("none", "regularized"):
            # visits are of other examples, or of some too often, or slopes have a sum that is not 0
            state.dual.weights[0]["past"] = math.nan
        state.order = np.arange(problem.n, dtype=index)
        state.position = 0
        if not in_order and self.sampling != "iid":
            shuffle(state.order, state.rng)
        if problem.intercept == "search":
            state.search = self._new_search(problem, state)
        if self.projection:
            fixed = state.w.b if problem.intercept == "search" else np.zeros_like(state.w.b)
            # a stream's later parts must not shrink the ball that earlier ones needed
            known = np.where(np.isfinite(state.radius2), state.radius2, 0.0)
            state.radius2 = np.maximum(known, problem.norm_bound(fixed) ** 2)
            w = state.w
            w.norm2[:] = np.square(w.V, dtype=np.float64).sum(axis=0) * w.scale**2
            if problem.intercept == "regularized":
                w.norm2[:] += w.b**2
        if isinstance(self.policy, Bottou) and math.isnan(state.eta0):
            state.eta0 = self.policy.eta0 or self._find_eta0(problem, state)

    def fits(self, problem: AnyProblem, state: PegasosState) -> None:
        """Refuse a state that was made for another solver or problem: compiled loops check no bounds."""
        d, shape, n, average = problem.d, state.w.V.shape, state.order.size, state.average
        wanted = (d, problem.n_outputs)
        averages = (average.U.shape[0], average.previous.shape[0])
        fit = averages == (d * (self.average != "none"), d * (self.average == "suffix"))
        if (shape, n) != (wanted, problem.n) or not fit or (state.search is not None and problem.intercept != "search"):
            raise ValueError(
                f"the state was made for another problem, average or intercept: weights of shape {shape} and "
                f"{n} examples, wanted {wanted} and {problem.n} with average={self.average!r}, "
                f"intercept={problem.intercept!r}: start anew, or bind the state to the problem"
            )

    def doubt(self, problem: AnyProblem, state: PegasosState, tol: float) -> str:
        """What speaks against convergence where the objective no longer changes, in words; empty if nothing does."""
        if isinstance(problem, StructuredProblem):
            return ""
        search = state.search
        if search is not None and not search.excess.sum() <= tol * search.best_objective.sum():
            return "the search over b has not closed"
        gain = problem.gain_of_scaled_step(*self.weights(problem, state), tol)
        if gain <= tol:
            return ""
        said = f"one step that moves each weight by its feature's own size still lowers it by {gain:.1e} of itself"
        ratio = problem.ratio_of_sizes()
        if ratio > OUT_OF_REACH:
            said += (
                f", and the largest feature is {ratio:.0f} times the size of the median one, for which steps of one "
                "size are too short: scale the features (StandardScaler, MaxAbsScaler)"
            )
        return said

    # -- stepping

    def rule(self, problem: AnyProblem, state: PegasosState) -> PegasosRule:
        """The values the compiled loop runs on."""
        lam, policy = problem.lam, self.policy
        if isinstance(policy, InverseTime):
            step = StepSize(1.0 / lam, 1.0, cap=1.0 / lam)
        elif isinstance(policy, Norma):
            p = policy.p if policy.p is not None else 0.5 * math.sqrt(2.0 + 0.5 / math.sqrt(problem.n))
            step = StepSize(p / lam, 0.5, cap=1.0 / lam)
        elif isinstance(policy, Constant):
            step = StepSize(float(policy.eta), 0.0, cap=1.0 / lam)
        else:
            step = StepSize(1.0 / lam, 1.0, 1.0 / (lam * state.eta0), 1.0 / lam)
        loss = losses.scalar_loss(problem.target)
        smoothness = loss.smoothness if loss.lipschitz == math.inf else 0.0
        free, exact = problem.intercept == "unregularized", problem.intercept == "exact"
        regularized, averaged = problem.intercept == "regularized", self.average != "none"
        return PegasosRule(
            lam, step, smoothness, bool(self.projection), problem.is_joint, free or exact or regularized, regularized,
            exact, steps.Balanced() if exact else steps.AsFound(), averaged, self.average == "suffix",
            self.average == "weighted",
        )  # fmt: skip

    def advance(self, problem: AnyProblem, state: PegasosState, n_steps: int) -> int:
        """Take n_steps steps, in place."""
        self.fits(problem, state)
        if state.search is None or n_steps == 0:
            self._advance(problem, state, n_steps)
            return n_steps
        search, per_epoch, left = state.search, self.steps_per_epoch(problem), n_steps
        while left > 0:
            end = search.begun + search.length * per_epoch
            inner = min(left, max(0, end - state.t))
            self._advance(problem, state, inner)
            left -= inner
            if state.t >= end:
                self._end_run(problem, state, search)
        return n_steps

    def _advance(self, problem: AnyProblem, state: PegasosState, n_steps: int) -> None:
        rule, k = self.rule(problem, state), int(self.batch_size)
        space = PegasosScratch.of(k, problem.n_outputs)

        def take(X: Any, y: np.ndarray, order: np.ndarray) -> None:
            visits = steps.Visits(X, y, problem.sample_weight, order, k)
            updates, reads = steps.take_steps(
                visits, problem.target, state.t, state.w, state.average, state.dual, rule, state.radius2, space
            )
            counters = state.counters
            state.t += order.size // k
            counters.steps += order.size // k
            counters.visits += order.size
            counters.updates += int(updates)
            counters.feature_reads += int(reads)
            if order.size and 0 < state.position < k:  # a batch of two epochs, which counts for both
                state.dual.end_epoch(state.dual.weights[0]["last"])

        if isinstance(problem, StructuredProblem):
            if n_steps == 0:
                take(*problem.answers(np.zeros(problem.d), state.order[:0]), state.order[:0])  # compiles
            for _ in range(n_steps):
                w = self._weights(state, "none")[0][:, 0]
                take(*problem.answers(w, self._next_visits(problem.n, state, k)), np.arange(k, dtype=np.int32))
            return
        if n_steps == 0:  # compiles
            take(problem.X, problem.y, state.order[:0])
            if self.sampling == "iid" and k > 1:
                draw_subsets(state.order[:0], np.empty(0), k, state.order[:0])
        while n_steps > 0:
            visits = self._next_visits(problem.n, state, n_steps * k)
            take(problem.X, problem.y, visits)
            n_steps -= visits.size // k

    def _next_visits(self, n: int, state: PegasosState, most: int) -> np.ndarray:
        """The next examples to visit, a multiple of the batch size and at most ``most``; advances the order.

        They may be a view of it, to be used before the next call.
        """
        k = int(self.batch_size)
        if self.sampling == "iid":
            count = min(most, max(k, 65536 // k * k))
            visits = np.empty(count, state.order.dtype)
            uniforms = state.rng.random(count)
            if k == 1:
                np.multiply(uniforms, n, out=uniforms)
                visits[:] = uniforms
            else:
                draw_subsets(state.order, uniforms, k, visits)
            return visits
        if state.position == n:
            self._new_epoch(state)
            state.dual.end_epoch(0.0)
        whole = min(most, (n - state.position) // k * k)
        if whole > 0:
            visits = state.order[state.position : state.position + whole]
            state.position += whole
            return visits
        # a batch that runs on across the end of the epoch
        head = state.order[state.position :].copy()
        self._new_epoch(state)
        state.position = k - head.size
        return np.concatenate([head, state.order[: state.position]])

    def _new_epoch(self, state: PegasosState) -> None:
        if self.sampling == "permutation":
            shuffle(state.order, state.rng)
        state.position = 0

    # -- the search over b

    def _new_search(self, problem: Any, state: PegasosState) -> Search:
        """A search that begins at the best weights so far; what they were worth in another problem is forgotten."""
        old, outputs = state.search, problem.n_outputs
        if old is not None and old.rounds:
            state.w.V[:], state.w.scale[:], state.w.b[:] = old.best_coef, 1.0, old.best_b
            self._forget_average(state)
        arrays: dict[str, Any] = blank(Search, {"outputs": outputs, "d": problem.d, "n": problem.n}, problem.dtype)
        for name in ("values", "excess", "best_objective"):
            arrays[name][:] = np.inf
        arrays.update(centre=state.w.b.copy(), reach=np.ones(outputs), order=state.order.copy())
        return Search(
            start=deepcopy(state.w), begun=state.t, position=state.position, rng=deepcopy(state.rng),
            length=int(self.search_epochs), kept=deepcopy(state.w), **arrays,
        )  # fmt: skip

    def _end_run(self, problem: Any, state: PegasosState, search: Search) -> None:
        """Close a run at one b: note its value, keep what is best, and go on with the next run or stage."""
        W, b = self._weights(state, self.average)
        norms2 = [sum_of_squares(W[:, c]) for c in range(problem.n_outputs)]
        values = problem.output_losses(W, b) + 0.5 * problem.lam * np.array(norms2)
        leads = values < search.values.min(axis=0)
        best = values < search.best_objective
        search.values[search.place] = values
        for kept, own in zip(search.kept, state.w, strict=True):
            kept[..., leads] = own[..., leads]
        search.best_objective[best] = values[best]
        search.best_b[best] = b[best]
        search.best_coef[:, best] = W[:, best]
        search.rounds += 1
        search.place += 1
        if search.place == len(PLACES):
            self._next_stage(state, search)
        for own, start in zip(state.w, search.start, strict=True):
            own[:] = start
        state.w.b[:] = search.centre + PLACES[search.place] * search.reach
        state.t, state.position, state.rng = search.begun, search.position, deepcopy(search.rng)
        state.order[:] = search.order
        self._forget_average(state)
        if self.projection:
            state.radius2 = problem.norm_bound(state.w.b) ** 2

    def _next_stage(self, state: PegasosState, search: Search) -> None:
        """Move b and change ρ, output by output, and begin the next stage where the best run ended."""
        middle, low, high = search.values
        closes = (middle <= low) & (middle <= high)
        search.excess[:] = np.where(closes, np.maximum(low, high) - middle, np.inf)
        bend = low + high - 2.0 * middle
        vertex = 0.5 * (low - high) / np.where(bend > 0.0, bend, np.inf)  # of the parabola, in [−½, ½] where it closes
        search.centre += np.where(closes, vertex, np.where(low < high, -1.0, 1.0)) * search.reach
        search.reach *= np.where(closes, 0.25, 2.0)
        if closes.mean() >= 0.5:  # most are as near as runs of this length can tell
            search.length *= 2
        for start, kept in zip(search.start, search.kept, strict=True):
            start[:] = kept
        search.values[:] = np.inf
        search.place = 0
        search.begun, search.position, search.rng = state.t, state.position, deepcopy(state.rng)
        search.order[:] = state.order

    def _forget_average(self, state: PegasosState) -> None:
        """Let the average begin anew at the next step."""
        for part in state.average:
            part[:] = 0.0
        state.average.weights[0]["restart"] = _next_restart(state.t)

    # -- trial runs

    def _find_eta0(self, problem: Any, state: PegasosState) -> float:
        """η₀ by trial: one pass over a sample from a copy of the state for each candidate; the lowest objective wins.

        Candidates are powers of 16 times 1/mean ‖x‖², then the neighbours of the best by factors
        of 4 and 2, so the search does not depend on the scale of the data.
        """
        if isinstance(problem, StructuredProblem):
            return min(1.0, 1.0 / problem.lam)
        policy = self.policy
        size = min(problem.n, policy.sample if isinstance(policy, Bottou) else problem.n)
        if problem.is_open:
            size = min(size, max(self.batch_size, FEW_ROWS, int(TRIAL_ENTRIES / problem.mean_entries)))
        rng = np.random.default_rng(state.rng.integers(2**63))
        sample = problem.take(np.sort(rng.choice(problem.n, size, replace=False))) if size < problem.n else problem
        norms2 = np.empty(size)
        row_norms2(sample.X, norms2)
        weights = sample.sample_weight if sample.sample_weight.size else np.ones(size)
        typical = float(np.mean(weights * (norms2 + (problem.intercept != "none"))))
        if not (0.0 < typical < math.inf):
            return 1.0 / problem.lam
        if sample.dtype == np.float32 and typical > FLOAT32_LIMIT:
            raise ValueError(
                f"the rows have a mean square of {typical:.1e}, and products with them leave the range of float32: "
                "scale the features to about unit size, or use float64"
            )
        k = min(self.batch_size, size)
        solver = Pegasos(Bottou(1.0), "none", "fixed", k, False)
        order = rng.permutation(size).astype(np.int32)
        start = state.w
        if isinstance(sample.X, CSRRows) and sample.X.indices.size < problem.d and not start.V.any():
            # features that the sample lacks stay at zero
            features, places = np.unique(sample.X.indices, return_inverse=True)
            width = max(1, features.size)
            X = sample.X._replace(indices=places.astype(sample.X.indices.dtype), n_features=width)
            sample, start = replace(sample, X=X, columns=None), start._replace(V=start.V[:width])
        no_average = Average(*(part[:0] if part.ndim == 2 else part.copy() for part in state.average))
        results: dict[int, float] = {}

        def objective(power: int) -> float:
            if power not in results:
                trial = PegasosState(
                    w=deepcopy(start), average=no_average, order=order, position=0, t=0,
                    eta0=2.0**power / typical, radius2=state.radius2, rng=rng,
                )  # fmt: skip
                solver._advance(sample, trial, size // k)
                W, b = solver._weights(trial, "none")
                value = sample.primal(W, sample.best_intercept(W) if problem.intercept == "exact" else b)
                results[power] = value if math.isfinite(value) else math.inf
            return results[power]

        best, stride = 0, 4
        largest = math.floor(math.log2(max(typical / problem.lam, 2.0**-1000)))
        while stride >= 1:
            while best + stride <= largest and objective(best + stride) < objective(best):
                best += stride
            while best - stride >= -60 and objective(best - stride) < objective(best):
                best -= stride
            stride //= 2
        return min(2.0**best / typical, 1.0 / problem.lam)

    # -- output

    def _weights(self, state: PegasosState, average: str) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) of the last iterate ("none") or of the average, as fresh arrays."""
        w, mean = state.w, state.average
        weight = mean.weights[0]["now"] + mean.weights[0]["before"]
        if average == "none" or weight == 0.0:
            return w.V * w.scale.astype(w.V.dtype), w.b.copy()
        W = w.V * (mean.S / weight).astype(w.V.dtype)
        for part in (mean.U, mean.previous):
            if part.shape[0]:
                W += part / part.dtype.type(weight)
        return W, (mean.b + mean.previous_b) / weight

    def weights(self, problem: AnyProblem, state: PegasosState) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) that the solver stands for now: of shape (d, n_outputs) and (n_outputs,)."""
        if state.search is not None and state.search.rounds:
            return state.search.best_coef.copy(), state.search.best_b.copy()
        W, b = self._weights(state, self.average)
        if isinstance(problem, Problem) and problem.intercept == "exact":
            b = problem.best_intercept(W)
        return W, b

    def model(self, problem: AnyProblem, state: PegasosState) -> LinearModel:
        """A finished copy of the current model."""
        W, b = self.weights(problem, state)
        return LinearModel(W.T, b)

    def evaluate(self, problem: AnyProblem, state: PegasosState, model: LinearModel) -> dict[str, float]:
        """The objective, and the gap where the visits so far tell one."""
        objective, dual = problem.primal(model.coef.T, model.intercept), self.dual_of_visits(problem, state)
        return {"objective": objective} if math.isnan(dual) else {"objective": objective, "gap": objective - dual}

    def certificate(self, problem: AnyProblem, state: PegasosState) -> Certificate | None:
        """Primal, dual and gap of the current model; none for structured outputs.

        The dual value is that of the visits or, if it is higher or the only one, that of the slopes at the weights.
        """
        if isinstance(problem, StructuredProblem):
            return None
        dual = self.dual_of_visits(problem, state)
        return problem.certificate(*self.weights(problem, state), -math.inf if math.isnan(dual) else dual)

    def dual_of_visits(self, problem: AnyProblem, state: PegasosState) -> float:
        """The best θA − θ² λ/2 ‖w‖² with θ ≤ 1/M of the last iterate; NaN where there is no M."""
        A, w, most = state.dual.A, state.w, problem.n * state.dual.most
        if isinstance(problem, StructuredProblem) or math.isnan(most):
            return math.nan
        blocks = np.array_split(w.V, 1 + w.V.size // 65536)
        norms2 = w.scale**2 * sum(np.square(block, dtype=np.float64).sum(axis=0) for block in blocks)
        if problem.intercept == "regularized":
            norms2 += w.b**2
        # w is α's but for rounding: t roundings of a sum of t terms, each of which may go either way
        norms2 *= (1.0 + np.finfo(problem.dtype).eps * math.sqrt(state.t)) ** 2
        A = A * (1.0 - rounding_of_sum(state.t))
        if problem.is_joint:
            A, norms2 = A[:1], norms2.sum(keepdims=True)
        A, norms2 = A[A > 0.0], norms2[A > 0.0]  # θ = 0 is best for the others
        with np.errstate(divide="ignore", over="ignore"):
            theta = np.minimum(1.0 / most, A / (problem.lam * norms2))
            return float(np.sum(theta * (A - 0.5 * np.minimum(A, problem.lam * norms2 / most))))


def _next_restart(t: int) -> float:
    """The step after t at which a suffix average restarts: a power of two."""
    return 2.0 ** max(1, t.bit_length())
