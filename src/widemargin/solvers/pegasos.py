"""Pegasos: primal stochastic sub-gradient steps for linear SVMs.

Problem (see :mod:`widemargin.problems.objective`)::

    min  λ/2 ‖w‖² + (1/n) Σ sᵢ ℓ(⟨w, xᵢ⟩ + b, yᵢ)

Update, for a mini-batch A_t of k examples (Fig. 2)::

    w ← (1 − η_t λ) w − (η_t / k) Σ_{i ∈ A_t} sᵢ ℓ'(⟨w, xᵢ⟩ + b, yᵢ) xᵢ,     η_t = 1/(λt),

then, as an option, the projection onto a ball that holds the optimum (Eq. 6).
The cost of a step is O(non-zeros of the batch): w = a·v with a scalar a
(Sec. 2.4), ‖w‖ kept up to date where it is needed, and the averages kept
lazily. With S = Σ_t ω_t a_t, an update δ of v made when the sum stood at S
enters Σ_t ω_t w_t as (S_T − S) δ, so the numerator of the average is S·v + u
where u collects −S δ. When a has shrunk a thousandfold, S·v is folded into u
and a into v: O(d), seldom.

Sec. 5's losses come as targets, Sec. 6's four treatments of the bias as values:
(1) a constant feature; (2) a sub-gradient step on b; (3) b minimised inside each
batch; (4) an outer search over b for the least J(b) = min over w of P(w, b). J is
convex, and runs of finite length know it up to an error only, so values are compared
that share their error: a stage of the search makes three runs, at b − ρ, b and b + ρ,
from the same w and step on, over the same visits. If b has the least value, it moves to
the vertex of the parabola through the three, ρ is quartered and runs become twice as
long; if not, b moves to the least and ρ is doubled: nothing is ever excluded for good.
The next stage goes on from the best run. With exact values J(b) − min J ≤
max(J(b − ρ), J(b + ρ)) − J(b), by convexity.

Steps leave a dual point behind. λw is a mean of the −sᵢgᵢxᵢ of all visits, gᵢ a slope at the time, and of
zero: visit i of step t has the weight ρ_t = η_tλ/k Π_{r>t} (1 − η_rλ), which is 1/(k(t₀ + T)) for all of them where
η_t = 1/(λ(t₀ + t)). Let no example have a weight of more than M/n in all. Then θw = w(α) for slopes ḡᵢ = θn Σ ρ_t gᵢ
in the domain of ℓ* and any θ ≤ 1/M, and since ℓ* is convex and ℓ*(0) ≤ 0, for such θ

    min P  ≥  D(ḡ)  ≥  θA − θ² λ/2 ‖w‖²,        A = −Σ ρ_t sᵢ ℓ*(gᵢ),

with equality for the hinge, of several classes too. A shrinks and grows as w does, so it is one number for each output.
Orders that visit each example once an epoch have M/n ≤ Σ over epochs of the largest ρ_t, two numbers more; M is 1 after
whole epochs of η_t = 1/(λt). Independent draws have no such M, and a free b wants Σ sᵢḡᵢ = 0. How steps of this kind
ascend in the dual: Shalev-Shwartz and Kakade, Mind the duality gap (2008).

Sampling is i.i.d. (subsets without repetition for k > 1, so that k = n is the
deterministic method), a new permutation each epoch, or one fixed permutation
(Sec. 7.5); mini-batches run on across the ends of epochs.

Where this differs from the paper: the radius of the projection is that of
``Problem.norm_bound``, which equals 1/√λ for the unweighted hinge and holds for
the other losses too; squared losses have no bounded slope, and there η_t is
capped by the inverse smoothness of the batch. Averages are over w_1 … w_T, the
points at which sub-gradients were taken (Corollary 1); "suffix" restarts when t
reaches a power of two and outputs the mean over the last completed span and
the current one, which are the last half to three quarters of the iterates at any time.

Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: Primal Estimated sub-GrAdient
SOlver for SVM. Mathematical Programming 127 (2011).
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..core import losses
from ..core.bias import balanced_slopes
from ..core.borrowing import borrow
from ..core.dispatch import apart, compiled, generic, inlined
from ..core.rows import CSRRows, prefetch_rows, row_add, row_norm2, row_norms2, row_scores, row_size, touch
from ..core.step_sizes import StepSize, step_size
from ..core.visits import draw_subsets, shuffle
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Problem
from ..problems.objective import Certificate, rounding_of_sum, sum_of_squares
from ..problems.structured import StructuredProblem
from ..schemas import FLOATS, INDICES, Array, Either, Own, Text, Whole, Within, maybe
from . import protocol
from .protocol import Solver

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


# ---------------------------------------------------------------- the compiled loop

FIXED_BIAS, REGULARIZED_BIAS, FREE_BIAS, EXACT_BIAS = 0, 1, 2, 3
BIAS = {
    "none": FIXED_BIAS,
    "regularized": REGULARIZED_BIAS,
    "unregularized": FREE_BIAS,
    "exact": EXACT_BIAS,
    "search": FIXED_BIAS,
}
NO_AVERAGE, UNIFORM, SUFFIX, WEIGHTED = 0, 1, 2, 3
AVERAGE = {"none": NO_AVERAGE, "uniform": UNIFORM, "suffix": SUFFIX, "weighted": WEIGHTED}
AVERAGES = tuple(AVERAGE)

#: A larger mean square of rows is refused in float32, where steps times rows would leave its range.
FLOAT32_LIMIT = 1e20
#: A feature r times smaller than the largest is learnt r² times more slowly: beyond this in thousands of epochs.
OUT_OF_REACH = 32.0
#: The trials that find η₀ read so many entries of the data each, of so many rows at least.
TRIAL_ENTRIES, FEW_ROWS = 2**16, 128
#: A scale of v below this is folded into v.
SMALLEST_SCALE = 1e-3


@savable(
    "Pegasos.Iterate", V=Array("d", "outputs", dtype=FLOATS), scale=Array("outputs"), b=Array("outputs"),
    norm2=Array("outputs"),
)  # fmt: skip
class Iterate(NamedTuple):
    """w_c = scale[c]·V[:, c] with bias b[c]; norm2[c] = ‖w_c‖² (with b_c² if regularised) if projected."""

    V: np.ndarray
    scale: np.ndarray
    b: np.ndarray
    norm2: np.ndarray


@savable(
    "Pegasos.Average", U=Array((0, "d"), "outputs", dtype=FLOATS), S=Array("outputs"), b=Array("outputs"),
    previous=Array((0, "d"), "outputs", dtype=FLOATS), previous_b=Array("outputs"), weights=Array(3),
)  # fmt: skip
class Average(NamedTuple):
    """Σ ω_t w_t = S·V + U since the last restart; ``previous`` holds the span before it.

    ``weights`` is (Σ ω_t since the restart, Σ ω_t of the span before, the step of the next restart).
    """

    U: np.ndarray
    S: np.ndarray
    b: np.ndarray
    previous: np.ndarray
    previous_b: np.ndarray
    weights: np.ndarray


@savable("Pegasos.Dual", A=Array("outputs", finite=False), weights=Array(3, finite=False))
class Dual(NamedTuple):
    """The dual point behind w: A for each output (a joint loss has it in the first), and the weights of its visits.

    ``weights`` is (Σ over past epochs of their largest ρ_t, the largest ρ_t of this epoch, that of the last step); the
    first is NaN where w is not of such visits alone.
    """

    A: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, outputs: int, known: bool = True) -> Dual:
        """That of w = 0, or of any w."""
        return cls(np.zeros(outputs), np.array([0.0 if known else math.nan, 0.0, 0.0]))

    def end_epoch(self, largest: float) -> None:
        """Begin an epoch whose largest weight is the given one, in place."""
        self.weights[0] += self.weights[1]
        self.weights[1] = largest


class Rule(NamedTuple):
    """The values that shape a step, constant through a call of the loop."""

    lam: float
    step: StepSize
    smoothness: float
    projected: bool
    tied: bool
    bias: int
    balance: AsFound | Balanced
    average: int


@apart
def _fold(w, average, c, averaged):
    """Make scale[c] = 1 and S[c] = 0, in place; neither w nor the average changes."""
    for j in range(w.V.shape[0]):
        if averaged:
            average.U[j, c] += average.S[c] * w.V[j, c]
        w.V[j, c] *= w.scale[c]
    average.S[c] = 0.0
    w.scale[c] = 1.0


@inlined
def _restart_average(w, average):
    """Close the span of a suffix average at this step, in place."""
    for c in range(w.b.size):
        _fold(w, average, c, True)
        average.previous_b[c] = average.b[c]
        average.b[c] = 0.0
        for j in range(w.V.shape[0]):
            average.previous[j, c] = average.U[j, c]
            average.U[j, c] = 0.0
    average.weights[1] = average.weights[0]
    average.weights[0] = 0.0
    average.weights[2] *= 2.0


@apart
def _norm2(w, c, regularized_bias):
    total = 0.0
    for j in range(w.V.shape[0]):
        entry = np.float64(w.V[j, c])
        total += entry * entry
    total *= w.scale[c] * w.scale[c]
    if regularized_bias:
        total += w.b[c] * w.b[c]
    return total


@inlined
def _fold_small_scales(rule, w, average):
    """Fold the scales that have become small, in place, and compute the norms anew."""
    for c in range(w.b.size):
        if w.scale[c] < SMALLEST_SCALE:
            _fold(w, average, c, rule.average != NO_AVERAGE)
            if rule.projected:
                w.norm2[c] = _norm2(w, c, rule.bias == REGULARIZED_BIAS)


class Visits(NamedTuple):
    """The examples that a call visits: rows, targets, weights (empty: all ones) and their order, ``batch`` a step."""

    X: Any
    y: np.ndarray
    s: np.ndarray
    order: np.ndarray
    batch: int


class Scratch(NamedTuple):
    """Working space: scores z and slopes g of one row, Z and G of a batch, and five more lines of a batch's length;
    ``conjugates`` is Σ sᵢℓ*(gᵢ) of the batch, for each output.

    The first two lines are the targets and weights of the batch, the others are for its best bias.
    """

    z: np.ndarray
    g: np.ndarray
    Z: np.ndarray
    G: np.ndarray
    lines: np.ndarray
    conjugates: np.ndarray

    @classmethod
    def of(cls, batch: int, outputs: int) -> Scratch:
        """Room for a batch."""
        z, g, Z, G = np.empty(outputs), np.empty(outputs), np.empty((batch, outputs)), np.empty((batch, outputs))
        return cls(z, g, Z, G, np.empty((5, batch)), np.empty(outputs))


@inlined
def _find_slopes(visits, first, target, rule, w, space):
    """space.G ← weighted slopes at w of the batch at places ``first`` and on, and space.conjugates ← their conjugates;
    with an exact bias, its scores instead.

    Returns (Σ weight × ‖x‖² of the batch if the loss is not Lipschitz, entries of X read).
    """
    X, y, s, order, batch = visits.X, visits.y, visits.s, visits.order, visits.batch
    z, Y, weight = space.z, space.lines[0], space.lines[1]
    outputs, V = losses.output_count(target, z), losses.output_columns(target, w.V)
    curvature, reads = 0.0, 0
    for c in range(outputs):
        space.conjugates[c] = 0.0
    for r in range(batch):
        prefetch_rows(X, order, first + r, order.size)
        touch(y, s, order, first + r, order.size)
        i = order[first + r]
        reads += row_size(X, i)
        row_scores(X, i, V, z)
        weight[r] = s[i] if s.size else 1.0
        for c in range(outputs):
            z[c] = w.scale[c] * z[c]
            if rule.bias != EXACT_BIAS:
                z[c] += w.b[c]
        if rule.smoothness > 0.0:
            heaviest = 0.0
            for c in range(outputs):
                heaviest = max(heaviest, losses.output_weight(target, y[i], c))
            curvature += weight[r] * heaviest * (row_norm2(X, i) + (rule.bias != FIXED_BIAS))
        if rule.bias == EXACT_BIAS:
            Y[r] = y[i]
            for c in range(outputs):
                space.Z[r, c] = z[c]
        else:
            losses.slopes(target, z, y[i], space.g)
            losses.output_conjugates(target, space.g, y[i], weight[r], space.conjugates)
            for c in range(outputs):
                space.G[r, c] = weight[r] * space.g[c]
    return curvature, reads


class AsFound(NamedTuple):
    """Slopes of a batch are those at w and b."""


class Balanced(NamedTuple):
    """b is the best bias of each batch, and the slopes are those there."""


@generic
def balance(how, target, b, space):
    """space.G, b ← the slopes of a batch and its bias, in place."""


@balance.case(AsFound)
def _(how, target, b, space):
    pass


@balance.case(Balanced)
def _(how, target, b, space):
    lines = space.lines
    balanced_slopes(target, space.Z, lines[0], lines[1], b, space.G, lines[2], lines[3], lines[4])


@inlined
def _step_size(rule, t, curvature, batch):
    """η_t, no longer than a smooth loss of this curvature allows."""
    eta = step_size(rule.step, t)
    if curvature > 0.0:
        eta = min(eta, batch / (rule.smoothness * curvature))
    return eta


@inlined
def _add_to_average(rule, t, outputs, w, average):
    """Add w_t to the average, in place."""
    omega = float(t) if rule.average == WEIGHTED else 1.0
    average.weights[0] += omega
    for c in range(outputs):
        average.S[c] += omega * w.scale[c]
        average.b[c] += omega * w.b[c]


@inlined
def _shrink(rule, by, outputs, w):
    """w ← by·w, in place; returns the smallest scale."""
    smallest = 1.0
    for c in range(outputs):
        w.scale[c] *= by
        w.norm2[c] *= by * by
        if rule.bias == REGULARIZED_BIAS:
            w.b[c] *= by
        smallest = min(smallest, w.scale[c])
    return smallest


@inlined
def _add_row(X, i, target, rule, w, average, space):
    """w ← w + xᵢgᵀ for g = space.g, in place; the average does not change."""
    z, g, V = space.z, space.g, losses.output_columns(target, w.V)
    outputs = losses.output_count(target, z)
    if rule.projected:
        row_scores(X, i, V, z)
        x2 = row_norm2(X, i)
        for c in range(outputs):
            w.norm2[c] += g[c] * (2.0 * w.scale[c] * z[c] + g[c] * x2)
            if rule.bias == REGULARIZED_BIAS:
                w.norm2[c] += g[c] * (2.0 * w.b[c] + g[c])
    if rule.bias == REGULARIZED_BIAS or rule.bias == FREE_BIAS:
        for c in range(outputs):
            w.b[c] += g[c]
    for c in range(outputs):
        g[c] /= w.scale[c]
    row_add(X, i, g, V)
    if rule.average != NO_AVERAGE:
        for c in range(outputs):
            g[c] *= -average.S[c]
        row_add(X, i, g, losses.output_columns(target, average.U))


@inlined
def _project(rule, radius2, outputs, w, dual):
    """Scale w back onto the ball of each output, or of all of them where a joint loss ties them, and A, in place."""
    total = 0.0
    for c in range(outputs):
        total += w.norm2[c]
    for c in range(outputs):
        norm2 = total if rule.tied else w.norm2[c]
        if norm2 > radius2[c]:
            onto = math.sqrt(radius2[c] / norm2)
            w.scale[c] *= onto
            w.norm2[c] *= onto * onto
            dual.A[c] *= onto
            if rule.bias == REGULARIZED_BIAS:
                w.b[c] *= onto


@compiled
def take_steps(visits, target, t, w, average, dual, rule, radius2, space):
    """Take a Pegasos step after step t for each batch of the visits, changing w, average and dual in place.

    Returns (visits with a non-zero slope, entries of X read).
    """
    visits, w, average, dual, space = borrow(visits), borrow(w), borrow(average), borrow(dual), borrow(space)
    order, batch, g = visits.order, visits.batch, space.g
    outputs = losses.output_count(target, g)
    updates, reads = 0, 0
    past, present, rho = dual.weights[0], dual.weights[1], dual.weights[2]
    for first in range(0, order.size - batch + 1, batch):
        t += 1
        # slopes at w_t for the whole batch, before anything moves
        curvature, read = _find_slopes(visits, first, target, rule, w, space)
        reads += read
        balance(rule.balance, target, w.b, space)
        eta = _step_size(rule, t, curvature, batch)
        if rule.average == SUFFIX and t >= average.weights[2]:
            _restart_average(w, average)
        if rule.average != NO_AVERAGE:
            _add_to_average(rule, t, outputs, w, average)
        by, share = 1.0 - eta * rule.lam, eta / batch
        if _shrink(rule, by, outputs, w) < SMALLEST_SCALE:
            _fold_small_scales(rule, w, average)
        rho = rule.lam * share
        past, present = by * past, max(by * present, rho)
        for c in range(outputs):
            dual.A[c] = by * dual.A[c] - rho * space.conjugates[c]
        for r in range(batch):
            moved = False
            for c in range(outputs):
                g[c] = -share * space.G[r, c]
                moved = moved or g[c] != 0.0
            if moved:
                updates += 1
                _add_row(visits.X, order[first + r], target, rule, w, average, space)
        if rule.projected:
            _project(rule, radius2, outputs, w, dual)
    dual.weights[0], dual.weights[1], dual.weights[2] = past, present, rho
    return updates, reads


# ---------------------------------------------------------------- state and solver


@savable(
    "Pegasos.Search", centre=Array("outputs"), reach=Array("outputs"), start=Within(Iterate), kept=Within(Iterate),
    begun=Whole(0), order=Array("n", dtype=INDICES, low=0, high="n-1"), position=Whole(0, "n"), length=Whole(1),
    values=Array(3, "outputs", finite="inf"), excess=Array("outputs", finite="inf"), best_b=Array("outputs"),
    best_coef=Array("d", "outputs", dtype=FLOATS, order=False), best_objective=Array("outputs", finite="inf"),
    place=Whole(0, 2), rounds=Whole(0),
)  # fmt: skip
@dataclass
class Search:
    """The outer search over b, for each output.

    Attributes
    ----------
    centre, reach : b and ρ of the current stage
    start, begun, order, position, rng : what all runs of the stage begin with: the iterate, the step, the visits
    length : epochs of each run
    place : which of the runs is under way: at b, b − ρ or b + ρ
    values : the objectives that the stage's runs reached, of shape (3, outputs)
    kept : the last iterate of the stage's best run so far
    excess : by how much the last stage's b may miss the best one; infinite where it moved
    best_coef, best_b, best_objective : the best result of all runs
    rounds : runs completed
    """

    centre: np.ndarray
    reach: np.ndarray
    start: Iterate
    begun: int
    order: np.ndarray
    position: int
    rng: np.random.Generator
    length: int
    values: np.ndarray
    kept: Iterate
    excess: np.ndarray
    best_coef: np.ndarray
    best_b: np.ndarray
    best_objective: np.ndarray
    place: int = 0
    rounds: int = 0


#: Where a stage's runs stand, in units of ρ from b.
PLACES = (0.0, -1.0, 1.0)


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    size = state.order.size
    return None if state.position <= size else f"position is {state.position} in an order of {size} examples"


@savable(
    "Pegasos.State", w=Within(Iterate), average=Within(Average), dual=maybe(Within(Dual)), search=maybe(Within(Search)),
    order=Array((0, "n"), dtype=INDICES, low=0, high="n-1"), position=Whole(0), t=Whole(0),
    radius2=Array("outputs", finite="inf"), law=_law,
)  # fmt: skip
@dataclass
class State(protocol.State):
    """All that a run of Pegasos knows; see :class:`Iterate`, :class:`Average` and :class:`Dual` for the arrays."""

    w: Iterate
    average: Average
    order: np.ndarray
    position: int
    t: int
    eta0: float
    radius2: np.ndarray
    rng: np.random.Generator
    search: Search | None = None
    counters: Counters = field(default_factory=Counters)
    dual: Dual = None  # type: ignore[assignment]

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

    streams = True
    state_class = State

    def check(self, problem: Problem | StructuredProblem) -> None:
        """Refuse parameters that make no sense, in one sentence each."""
        if isinstance(self.step, str) and self.step not in STEPS:
            raise ValueError(f"step must be one of {', '.join(STEPS)} or a step-size policy, got {self.step!r}")
        if not isinstance(self.step, str) and not isinstance(self.step, tuple(STEPS.values())):
            names = ", ".join(policy.__name__ for policy in STEPS.values())
            raise TypeError(f"step must be a name or one of {names}, got {self.step!r}")
        if self.average not in AVERAGES:
            raise ValueError(f"average must be one of {', '.join(AVERAGES)}, got {self.average!r}")
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling must be one of {', '.join(SAMPLINGS)}, got {self.sampling!r}")
        self.check_batch_size()
        if self.batch_size > problem.n:
            raise ValueError(f"batch_size must be at most the number of examples {problem.n}, got {self.batch_size}")
        if not (isinstance(self.search_epochs, (int, np.integer)) and self.search_epochs >= 1):
            raise ValueError(f"search_epochs must be an integer ≥ 1, got {self.search_epochs!r}")
        policy = self.policy
        if not isinstance(self.projection, (bool, np.bool_)):
            raise TypeError(f"projection must be True or False, got {self.projection!r}")
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

    def first_slice(self, problem: Problem | StructuredProblem) -> int:
        """Steps that certainly take less than a slice; those of structured outputs may take any time."""
        if not (isinstance(problem, Problem) and problem.is_open):
            return super().first_slice(problem)
        return max(1, int(protocol.ENTRIES / (problem.mean_entries * problem.n_outputs * self.batch_size)))

    def steps_per_epoch(self, problem: Problem | StructuredProblem) -> int:
        """Steps of k examples that visit n: n/k, rounded up."""
        return -(-problem.n // self.batch_size)

    def init(
        self,
        problem: Problem | StructuredProblem,
        rng: np.random.Generator,
        start: LinearModel | None = None,
        counters: Counters | None = None,
    ) -> State:
        """The state before the first step: w = 0.

        Or at the weights of ``start``, found by other means with as much work as ``counters`` tell: steps and averages
        go on as if all visits so far had been steps that stayed there.
        """
        self.check(problem)
        d, outputs, dtype = problem.d, problem.n_outputs, problem.dtype
        averaged, suffix = self.average != "none", self.average == "suffix"
        state = State(
            w=Iterate(np.zeros((d, outputs), dtype), np.ones(outputs), np.zeros(outputs), np.zeros(outputs)),
            average=Average(
                np.zeros((d if averaged else 0, outputs), dtype),
                np.zeros(outputs),
                np.zeros(outputs),
                np.zeros((d if suffix else 0, outputs), dtype),
                np.zeros(outputs),
                np.array([0.0, 0.0, 2.0]),
            ),
            order=np.empty(0, np.int32),
            position=0,
            t=0,
            eta0=math.nan,
            radius2=np.full(outputs, np.inf),
            rng=rng,
            dual=Dual.of(outputs, known=start is None),
        )
        if start is not None:
            self._stay_at(state, start, counters or Counters())
        self.bind(problem, state)
        return state

    def _stay_at(self, state: State, start: LinearModel, counters: Counters) -> None:
        """Make a new state one that has made ``counters.visits`` visits at the weights of ``start``, in place."""
        state.counters, state.t = counters, -(-counters.visits // self.batch_size)
        state.w.V[:], state.w.b[:] = start.coef.T, start.intercept
        if self.average == "none":
            return
        total = state.t * (state.t + 1) / 2 if self.average == "weighted" else float(state.t)
        state.average.weights[0] = total
        state.average.S[:], state.average.b[:] = total, total * state.w.b
        state.average.weights[2] = _next_restart(state.t)

    def bind(self, problem: Problem | StructuredProblem, state: State, in_order: bool = False) -> None:
        """Point a state at a problem's examples: a new order to visit them in, or the order they stand in."""
        if state.order.size and (state.search is None) == (problem.intercept == "search"):
            raise ValueError("warm_start cannot change intercept to or from 'search': set warm_start=False")
        index = np.int32 if problem.n < 2**31 else np.int64
        if state.t > 0 or self.sampling == "iid" or problem.intercept not in ("none", "regularized"):
            state.dual.weights[0] = math.nan  # visits of other examples, of some too often, or of a sum that is not 0
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

    def fits(self, problem: Problem | StructuredProblem, state: State) -> None:
        """Refuse a state that was made for another solver or problem: compiled loops check no bounds."""
        d = problem.d
        found = (state.w.V.shape, state.average.U.shape[0], state.average.previous.shape[0], state.order.size)
        averaged, suffix = self.average != "none", self.average == "suffix"
        wanted = ((d, problem.n_outputs), d * averaged, d * suffix, problem.n)
        if found != wanted or (state.search is not None and problem.intercept != "search"):
            raise ValueError(
                f"the state was made for another problem, average or intercept: weights of shape {found[0]} and "
                f"{found[3]} examples, wanted {wanted[0]} and {wanted[3]} with average={self.average!r}, "
                f"intercept={problem.intercept!r}: start anew, or bind the state to the problem"
            )

    def doubt(self, problem: Problem | StructuredProblem, state: State, tol: float) -> str:
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

    def rule(self, problem: Problem | StructuredProblem, state: State) -> Rule:
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
        bias, average = BIAS[problem.intercept], AVERAGE[self.average]
        how = Balanced() if bias == EXACT_BIAS else AsFound()
        return Rule(lam, step, smoothness, bool(self.projection), problem.is_joint, bias, how, average)

    def advance(self, problem: Problem | StructuredProblem, state: State, n_steps: int) -> int:
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

    def _advance(self, problem: Problem | StructuredProblem, state: State, n_steps: int) -> None:
        rule, k = self.rule(problem, state), int(self.batch_size)
        space = Scratch.of(k, problem.n_outputs)

        def take(X: Any, y: np.ndarray, order: np.ndarray) -> None:
            visits = Visits(X, y, problem.sample_weight, order, k)
            updates, reads = take_steps(
                visits, problem.target, state.t, state.w, state.average, state.dual, rule, state.radius2, space
            )
            counters = state.counters
            state.t += order.size // k
            counters.steps += order.size // k
            counters.visits += order.size
            counters.updates += int(updates)
            counters.feature_reads += int(reads)
            if order.size and 0 < state.position < k:  # a batch of two epochs, which counts for both
                state.dual.end_epoch(state.dual.weights[2])

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

    def _next_visits(self, n: int, state: State, most: int) -> np.ndarray:
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

    def _new_epoch(self, state: State) -> None:
        if self.sampling == "permutation":
            shuffle(state.order, state.rng)
        state.position = 0

    # -- the search over b

    def _new_search(self, problem: Any, state: State) -> Search:
        """A search that begins at the best weights so far; what they were worth in another problem is forgotten."""
        old, outputs = state.search, problem.n_outputs
        if old is not None and old.rounds:
            state.w.V[:], state.w.scale[:], state.w.b[:] = old.best_coef, 1.0, old.best_b
            self._forget_average(state)
        return Search(
            centre=state.w.b.copy(),
            reach=np.ones(outputs),
            start=deepcopy(state.w),
            begun=state.t,
            order=state.order.copy(),
            position=state.position,
            rng=deepcopy(state.rng),
            length=int(self.search_epochs),
            values=np.full((3, outputs), np.inf),
            kept=deepcopy(state.w),
            excess=np.full(outputs, np.inf),
            best_coef=np.zeros_like(state.w.V),
            best_b=np.zeros(outputs),
            best_objective=np.full(outputs, np.inf),
        )

    def _end_run(self, problem: Any, state: State, search: Search) -> None:
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

    def _next_stage(self, state: State, search: Search) -> None:
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

    def _forget_average(self, state: State) -> None:
        """Let the average begin anew at the next step."""
        for part in state.average:
            part[:] = 0.0
        state.average.weights[2] = _next_restart(state.t)

    # -- trial runs

    def _find_eta0(self, problem: Any, state: State) -> float:
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
                trial = State(
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

    def _weights(self, state: State, average: str) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) of the last iterate ("none") or of the average, as fresh arrays."""
        w, mean = state.w, state.average
        weight = mean.weights[0] + mean.weights[1]
        if average == "none" or weight == 0.0:
            return w.V * w.scale.astype(w.V.dtype), w.b.copy()
        W = w.V * (mean.S / weight).astype(w.V.dtype)
        for part in (mean.U, mean.previous):
            if part.shape[0]:
                W += part / part.dtype.type(weight)
        return W, (mean.b + mean.previous_b) / weight

    def weights(self, problem: Problem | StructuredProblem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) that the solver stands for now: of shape (d, n_outputs) and (n_outputs,)."""
        if state.search is not None and state.search.rounds:
            return state.search.best_coef.copy(), state.search.best_b.copy()
        W, b = self._weights(state, self.average)
        if isinstance(problem, Problem) and problem.intercept == "exact":
            b = problem.best_intercept(W)
        return W, b

    def model(self, problem: Problem | StructuredProblem, state: State) -> LinearModel:
        """A finished copy of the current model."""
        W, b = self.weights(problem, state)
        return LinearModel(W.T, b)

    def evaluate(self, problem: Problem | StructuredProblem, state: State, model: LinearModel) -> dict[str, float]:
        """The objective, and the gap where the visits so far tell one."""
        objective, dual = problem.primal(model.coef.T, model.intercept), self.dual_of_visits(problem, state)
        return {"objective": objective} if math.isnan(dual) else {"objective": objective, "gap": objective - dual}

    def certificate(self, problem: Problem | StructuredProblem, state: State) -> Certificate | None:
        """Primal, dual and gap of the current model; none for structured outputs.

        The dual value is that of the visits or, if it is higher or the only one, that of the slopes at the weights.
        """
        if isinstance(problem, StructuredProblem):
            return None
        dual = self.dual_of_visits(problem, state)
        return problem.certificate(*self.weights(problem, state), -math.inf if math.isnan(dual) else dual)

    def dual_of_visits(self, problem: Problem | StructuredProblem, state: State) -> float:
        """The best θA − θ² λ/2 ‖w‖² with θ ≤ 1/M of the last iterate; NaN where there is no M."""
        A, w, most = state.dual.A, state.w, problem.n * (state.dual.weights[0] + state.dual.weights[1])
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
