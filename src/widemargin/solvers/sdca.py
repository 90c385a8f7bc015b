"""SDCA: stochastic dual coordinate ascent for linear SVMs.

Problem, with the conventions of :mod:`widemargin.problems.objective`, for one output::

    min over w   P(w) = λ (½‖w‖² + C Σ sᵢ ℓ(⟨w, xᵢ⟩, yᵢ)),      C = 1/(λn),
    max over α   D(α) = λ (−C Σ sᵢ ℓ*(−αᵢ/(C sᵢ)) − ½‖w(α)‖²),    w(α) = Σ αᵢxᵢ.

For the hinge, yᵢαᵢ lies in [0, C sᵢ]. A regularised intercept is the weight of a constant feature, which belongs to w
and xᵢ below. Outputs are separate problems that share the reads of the rows.

Given: the rows, targets and weights of a :class:`widemargin.problems.linear.Problem`, and perhaps a first α.

State (:class:`SDCAState`): α, w = w(α), the random order of the current pass, which examples rest, and sums of w.

Step (Hsieh et al., Algorithm 1 and Sec. 3.2). Visit the examples one after another, in a new random order each pass.
A visit sees zᵢ = ⟨w, xᵢ⟩ and qᵢ = ‖xᵢ‖² and maximises D over αᵢ alone::

    αᵢ ← argmax over α of  −C sᵢ ℓ*(−α/(C sᵢ)) − (α − αᵢ) zᵢ − ½ qᵢ (α − αᵢ)²,      w ← w + (change of αᵢ) xᵢ.

The maximum has a closed form for all losses but the log-loss, where a safeguarded Newton iteration finds the maximum
(Yu, Huang and Lin).

Cost: a visit reads the non-zeros of one row, twice if αᵢ changes.

What differs from the paper, and why:

Shrinking. A visit that leaves αᵢ where it was sends the example to rest for 1 pass, a further idle visit for 3, then
7, 15, at most 31. The first change ends the rests. So no example is removed for good, and there is no threshold to
choose. Steps are visits, and an epoch is n visits, whatever number of passes they make.

The common direction. Rows that are not centred share a direction, the unit vector u of the mean row with the constant
feature (the constant feature alone on wide data). The direction adds mᵢ² with mᵢ = ⟨u, xᵢ⟩ to each qᵢ and shortens
every step, often several times. Yet no example can move far along u alone, because the other examples answer. Since
−½r² = min over v of ½v² − rv, the part of w along u, r = ⟨u, w⟩ = Σ αᵢmᵢ, may be answered late. Visits use::

    zᵢ + θ(v − r) mᵢ   for zᵢ,   qᵢ − θ(1 − η) mᵢ²   for qᵢ,      and then set   v ← v + η (r − v),

with θ = 0.95 and η = 4/n. At rest v = r, so the optimum is the same; η = 1 is plain ascent. The share 1 − θ that is
answered at once damps the swing of v about r. With late answers D may fall at a visit. So D is computed about once an
epoch; where D fell, η grows fourfold, which ends at plain ascent. Late answers gain nothing where the box shortens
steps more than the curvature along u does: they are used from a mean of C sᵢmᵢ² of 0.3 on.

A free intercept demands Σ αᵢ = 0, which the method of multipliers brings about: b = b₀ + κ²Σ αᵢ, as if κ were the
value of the constant feature, and b₀ were free. D then loses (b² − b₀²)/(2κ²). Once an epoch b₀ moves to b. κ² is the
mean ‖xᵢ‖², or 1/(C s̄) if that is more: one example out of balance then moves b by 1. The model has the best intercept
for its weights. Its dual value needs Σ αᵢ = 0: the sign with the larger sum is multiplied by a factor below 1.

Means of iterates. A visit satisfies one example and the others a little less, and P feels that noise more than D.
With no more features than examples, the weights of the model are the mean of w + θ(v − r)u over the last complete pass
and the current one, sampled every few visits. On wider data the weights are the current ones.

Rounding. The dual value is lowered by a bound on what rounding added to the gap: in scores, in sums, and in w(α). If
the part of w(α) could exceed 1 % of the gap, w(α) is recomputed.

C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan: A Dual Coordinate Descent Method for Large-scale
Linear SVM. ICML 2008. S. Shalev-Shwartz, T. Zhang: Stochastic Dual Coordinate Ascent Methods for Regularized Loss
Minimization. JMLR 14 (2013). H.-F. Yu, F.-L. Huang, C.-J. Lin: Dual Coordinate Descent Methods for Logistic Regression
and Maximum Entropy Models. Machine Learning 85 (2011).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..arguments import flag
from ..core.borrowing import borrow, flat
from ..core.compiling.dispatch import compiled, generic, inlined
from ..core.losses import losses
from ..core.rows.rows import (
    DenseRows,
    as_matrix,
    is_short,
    prefetch_rows,
    row_add,
    row_along,
    row_dot,
    row_norm2,
    row_scores,
    row_size,
    short_row_dots,
    take_rows,
    touch,
)
from ..core.sampling.visits import note_visit, order_of_pass
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Affine, Problem
from ..problems.objective import Certificate, add_conjugates, rounding_of_sum, sum_of_squares
from ..schemas import COUNT, FLOATS, INDICES, Array, Whole, Within
from . import protocol
from .protocol import Solver

# Tuned by `python -m benchmarks.micro.linear_costs` and the tables of docs/notes/sdca.md.
THETA = 0.95  # share of the common direction that is answered late; 1: nothing damps the swing of v about r
RATE = 4.0  # η = RATE/n; below: v lags behind r for epochs; above: steps are as short as in plain ascent
LATE_FROM = 0.3  # mean of C sᵢmᵢ²; below this mean the box shortens steps anyway, and late answers gain nothing
MEAN_ROWS = 1024  # rows, about, that estimate the mean row and κ²
WIDE_WEIGHTS = 2**20  # bytes; larger weights of float32 data are float32, because the cache holds twice as many
REFRESH = 64  # passes between two recomputations of float32 weights from α; more: rounding adds up
UNLOOKED = 2**19  # entries; while D grows, visits between two values of D double up to as many entries of the data
NEGLIGIBLE = 0.01  # share of the gap; if rounding of w(α) could exceed it, a certificate recomputes w(α)
FLAT = 1e-100  # least curvature; the step of a row of zeros runs to its bound
FAR = 1e12  # largest 1/(C s̄) for which κ² follows a small C

_compiled_for: set[tuple] = set()

# ---------------------------------------------------------------- one coordinate


@generic
def dual_step(loss, a, z, y, q, cap):
    """The new value of a dual variable a: argmax over α of −cap ℓ*(−α/cap) − (α − a) z − ½ q (α − a)², cap = C sᵢ."""


@dual_step.case(losses.Hinge)
def hinge_step(loss, a, z, y, q, cap):
    return y * min(max(y * a + (1.0 - y * z) / q, 0.0), cap)


@dual_step.case(losses.SquaredHinge)
def squared_hinge_step(loss, a, z, y, q, cap):
    flatness = 0.5 / cap
    return y * max(y * a + (1.0 - y * z - flatness * y * a) / (q + flatness), 0.0)


@dual_step.case(losses.EpsilonInsensitive)
def tube_step(loss, a, z, y, q, cap):
    free = a + (y - z) / q
    tube = loss.epsilon / q
    return min(max(min(max(0.0, free - tube), free + tube), -cap), cap)


@dual_step.case(losses.SquaredEpsilon)
def squared_tube_step(loss, a, z, y, q, cap):
    pull = q * a + y - z
    return min(max(0.0, pull - loss.epsilon), pull + loss.epsilon) / (q + 0.5 / cap)


@dual_step.case(losses.Log)
def log_step(loss, a, z, y, q, cap):
    # With ya = cap·p and p = 1/(1 + exp(−t)), the derivative is zero where h(t) = t + offset + q·cap·p is zero.
    # h grows at a rate between 1 and 1 + q·cap/4, so Newton's method takes a few rounds. A Newton step that leaves the
    # bracket [low, high], or is longer than half the step before (swinging between the flat ends of p), is replaced
    # by a bisection.
    start = y * a
    offset = y * z - q * start
    low = -offset - q * cap
    high = -offset
    t = -y * z
    if 0.0 < start < cap:
        t = math.log(start / (cap - start))
    t = min(max(t, low), high)
    p = 0.5
    moved = high - low
    for _ in range(100):
        if t > 0.0:
            p = 1.0 / (1.0 + math.exp(-t))
        else:
            e = math.exp(t)
            p = e / (1.0 + e)
        h = t + offset + q * cap * p
        if h > 0.0:
            high = t
        else:
            low = t
        newton = t - h / (1.0 + q * cap * p * (1.0 - p))
        if not low <= newton <= high or abs(newton - t) > 0.5 * moved:
            newton = 0.5 * (low + high)
        moved = abs(newton - t)
        t = newton
        if moved <= 1e-11 * (1.0 + abs(t)):
            break
    # p belongs to the t before the last round, which moved t by next to nothing
    return y * cap * p


@dual_step.case(losses.Huberized)
def huberized_step(loss, a, z, y, q, cap):
    # the derivative 1 − δ b/cap − yz − q (b − ya) in b = yα is zero at ``free``
    free = (1.0 - y * z + q * y * a) / (q + loss.delta / cap)
    return y * min(max(free, 0.0), cap)


@dual_step.case(losses.HuberizedEpsilon)
def huberized_epsilon_step(loss, a, z, y, q, cap):
    pull = q * a + y - z
    free = min(max(0.0, pull - loss.epsilon), pull + loss.epsilon) / (q + loss.delta / cap)
    return min(max(free, -cap), cap)


# ---------------------------------------------------------------- the compiled loops


PerOutput = Annotated[np.ndarray, Array("outputs")]
PerExample = Annotated[np.ndarray, Array("n")]
Passes = Annotated[np.ndarray, Array("n", dtype=np.uint8, high=31)]
Count = Annotated[int, COUNT]


@savable("SDCA.Examples")
class Examples(NamedTuple):
    """What a run keeps of each example.

    ``alpha`` (n × outputs) are the dual variables. q = ‖xᵢ‖² and m = ⟨u, xᵢ⟩ are computed at the first visit; q is −1
    before. An idle example rests for ``rest`` passes, of which ``wait`` are left.
    """

    alpha: Annotated[np.ndarray, Array("n", "outputs")]
    q: PerExample
    m: PerExample
    rest: Passes
    wait: Passes


@savable("SDCA.Weights")
class Weights(NamedTuple):
    """w = (W, b) with W of shape (d, outputs); for each output r = ⟨u, w⟩ and v, which follows r."""

    W: Annotated[np.ndarray, Array("d", "outputs", dtype=FLOATS)]
    b: PerOutput
    r: PerOutput
    v: PerOutput


@savable("SDCA.Sums")
class Sums(NamedTuple):
    """Sums of W, b and θ(v − r) over ``samples[0]`` samples; W is empty where weights are not averaged."""

    W: Annotated[np.ndarray, Array((0, "d"), "outputs")]
    b: PerOutput
    lag: PerOutput
    samples: Annotated[np.ndarray, Array(1, low=0.0)]


class Data(NamedTuple):
    """Rows, targets and weights (empty: all are 1), and u without its constant feature, as U (d × 1) or empty."""

    X: Any
    y: np.ndarray
    s: np.ndarray
    U: np.ndarray


class SDCARule(NamedTuple):
    """The numbers that shape a visit."""

    C: float
    eta: np.ndarray  # of each output
    constant: float = 0.0  # square of the constant feature
    along: float = 0.0  # product of the constant feature with u
    theta: float = 0.0
    stride: int = 0  # visits between two samples of the weights; 0: no samples


class Course(NamedTuple):
    """The next visits, and where the current pass stands."""

    order: np.ndarray
    awake: int  # examples in this pass, the first ones of ``order``
    position: int  # how many of them were visited
    passes: int  # completed passes
    seed: np.uint64  # gives the orders of all passes
    shrinking: bool
    visits: int  # visits to make
    before: int  # visits made earlier in the run
    checked: int  # the pass in which so many of the visits have been made is the last one


@generic
def read_row(target, data, i, rule, examples, W, z):
    """z ← the scores of example i; also fills q and m of the example at its first visit."""


@read_row.case(losses.Single)
def read_row_for_one_output(target, data, i, rule, examples, W, z):
    X, U, unit = data.X, data.U, W.dtype.type(1)
    if examples.q[i] < 0.0:
        if is_short(X, i):  # one loop instead of three
            score, product, norm2 = short_row_dots(X, i, W, U)
        else:
            score, product, norm2 = row_dot(X, i, W, unit), row_along(X, i, U), row_norm2(X, i)
        examples.q[i], examples.m[i] = norm2 + rule.constant, rule.along + product
    else:
        score = row_dot(X, i, W, unit)
    z[0] = score  # last: no store comes between this one and its use


@read_row.case(losses.OneVsRest)
def read_row_for_several_outputs(target, data, i, rule, examples, W, z):
    X, q, m = data.X, examples.q, examples.m
    if q[i] < 0.0:
        q[i], m[i] = row_norm2(X, i) + rule.constant, rule.along + row_along(X, i, data.U)
    row_scores(X, i, W, z)


@inlined
def add_sample(sums, W):
    """Add the weights to the sums of their samples, in place."""
    total, weights = flat(sums.W), flat(W)
    for j in range(weights.size):
        total[j] += weights[j]
    sums.samples[0] += 1.0


@inlined
def visit(data, target, order, made, rule, examples, w, sums, space):
    """Visit the examples of ``order`` after ``made`` visits, changing examples, w and sums in place.

    Returns (visits that changed a dual variable, entries of X read).
    """
    X, y, s, W, z, g = data.X, data.y, data.s, w.W, space[0], space[1]
    alpha, q, m, b, r, v = flat(examples.alpha), examples.q, examples.m, w.b, w.r, w.v
    loss, outputs, eta, theta = losses.output_loss(target), losses.output_count(target, z), rule.eta, rule.theta
    updates, reads = 0, 0
    until_sample = rule.stride - made % max(rule.stride, 1)
    for p in range(order.size):
        prefetch_rows(X, order, p, order.size)
        touch(y, s, order, p, order.size)
        touch(q, m, order, p, order.size)
        touch(alpha, examples.rest, order, p, order.size)
        # 1) read the row
        i = order[p]
        reads += row_size(X, i)
        read_row(target, data, i, rule, examples, W, z)
        # 2) maximise the dual over the variable of each output
        weight, m2, moved = rule.C * s[i] if s.size else rule.C, m[i] * m[i], False
        for c in range(outputs):
            before, after, late, along = alpha[i * outputs + c], 0.0, v[c], r[c]
            cap = weight * losses.output_weight(target, y[i], c)
            if cap > 0.0:
                score = z[c] + b[c] + theta * (late - along) * m[i]
                curvature = (q[i] - m2) + (1.0 - theta * (1.0 - eta[c])) * m2
                after = dual_step(loss, before, score, losses.output_label(target, y[i], c), max(curvature, FLAT), cap)
            change = after - before
            if change != 0.0:
                moved = True
                alpha[i * outputs + c] = after
                b[c] += rule.constant * change
                along += change * m[i]
                r[c] = along
            v[c] = late + eta[c] * (along - late)
            g[c] = change
        # 3) follow with the weights
        if moved:
            updates += 1
            row_add(X, i, g, W)
        note_visit(examples.rest, examples.wait, i, moved)
        until_sample -= 1
        if until_sample == 0:
            until_sample = rule.stride
            add_sample(sums, W)
            for c in range(outputs):
                sums.b[c] += b[c]
                sums.lag[c] += theta * (v[c] - r[c])
    return updates, reads


@compiled
def visit_passes(data, target, course, rule, examples, w, sums, previous, space):
    """Make the visits of a course, pass after pass, changing arrays in place; ``space`` is for z and the changes of α.

    Stops early at the end of a pass after which the caller has work: every REFRESH passes, and once ``checked`` visits
    were made. Returns (visits, visits that changed a dual variable, entries of X read, awake, position, passes).
    """
    data, course, rule, space = borrow(data), borrow(course), borrow(rule), borrow(space)
    examples, w, sums, previous = borrow(examples), borrow(w), borrow(sums), borrow(previous)
    order, awake, position, passes = course.order, course.awake, course.position, course.passes
    made, updates, reads = 0, 0, 0
    while made < course.visits:
        if position == awake:
            if made >= course.checked:
                break
            awake = order_of_pass(order, examples.wait, course.shrinking, course.seed, passes)
            position = 0
        stop = min(position + course.visits - made, awake)
        some, before = order[position:stop], course.before + made
        changed, read = visit(data, target, some, before, rule, examples, w, sums, space)
        made, updates, reads, position = made + stop - position, updates + changed, reads + read, stop
        if position == awake:
            end_pass(sums, previous)
            passes += 1
            if passes % REFRESH == 0:
                break
    return made, updates, reads, awake, position, passes


@inlined
def end_pass(sums, previous):
    """previous ← sums, sums ← 0, in place, at the end of a pass."""
    new, old = flat(sums.W), flat(previous.W)
    for j in range(new.size):
        old[j] = new[j]
        new[j] = 0.0
    for c in range(sums.b.size):
        previous.b[c], previous.lag[c] = sums.b[c], sums.lag[c]
        sums.b[c] = sums.lag[c] = 0.0
    previous.samples[0] = sums.samples[0]
    sums.samples[0] = 0.0


@compiled
def add_measures(X, target, y, s, C, alpha, at, z, out):
    """out += Σ sᵢ × loss at ``at``, −Σ C sᵢ ℓ*(−αᵢ/(C sᵢ)) and Σ αᵢ⟨w, xᵢ⟩ for each output, in one pass."""
    X, y, s, alpha, z, out = borrow(X), borrow(y), borrow(s), borrow(alpha), borrow(z), borrow(out)
    at = borrow(at)
    W, b = at.W, at.b
    loss = losses.output_loss(target)
    for i in range(y.size):
        if W.shape[1] == 1:
            z[0] = row_dot(X, i, W, 1.0)
        else:
            row_scores(X, i, W, z)
        weight = s[i] if s.size else 1.0
        for c in range(losses.output_count(target, z)):
            own = weight * losses.output_weight(target, y[i], c)
            label = losses.output_label(target, y[i], c)
            out[2, c] += alpha[i, c] * z[c]
            if own > 0.0:
                out[0, c] += own * losses.value(loss, z[c] + b[c], label)
                out[1, c] -= C * own * losses.conjugate(loss, -alpha[i, c] / (C * own), label)


def measures(problem: Problem, C: float, alpha: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The three sums of :func:`add_measures` for the dual variables α of shape (n, outputs), at (W, b)."""
    out, s, at = np.zeros((3, problem.n_outputs)), problem.sample_weight, Affine(W, b)
    add_measures(problem.X, problem.target, problem.y, s, C, alpha, at, np.empty(problem.n_outputs), out)
    return out


def combination(problem: Problem, alpha: np.ndarray) -> tuple[np.ndarray, int]:
    """Σ xᵢαᵢᵀ for α of shape (n, outputs), of shape (d, outputs), and the entries of X read."""
    W = np.zeros((problem.d, problem.n_outputs))
    return W, int(add_combination(problem.X, np.ascontiguousarray(alpha), np.empty(problem.n_outputs), W))


@compiled
def add_combination(X, alpha, g, W):
    """W += Σ xᵢαᵢᵀ for α of shape (n, outputs); returns the entries of X read."""
    X, alpha, g, W = borrow(X), borrow(alpha), borrow(g), borrow(W)
    reads = 0
    for i in range(alpha.shape[0]):
        some = False
        for c in range(g.size):
            g[c] = alpha[i, c]
            some = some or g[c] != 0.0
        if some:
            reads += row_size(X, i)
            row_add(X, i, g, W)
    return reads


@compiled
def fit_box(target, y, s, C, old_C, alpha):
    """Move α from the box of old_C into the box of C, in place; a variable at its bound moves to the new bound."""
    loss = losses.output_loss(target)
    for i in range(alpha.shape[0]):
        for c in range(alpha.shape[1]):
            cap = losses.output_weight(target, y[i], c) * (s[i] if s.size else 1.0)
            label = losses.output_label(target, y[i], c)
            alpha[i, c] = boxed(loss, alpha[i, c], label, cap * C, cap * old_C)


@generic
def boxed(loss, a, y, cap, old_cap):
    """The nearest value to a in the domain of the conjugate for ``cap``; the bound if a is at the bound old_cap."""


@boxed.case(losses.Hinge)
@boxed.case(losses.Huberized)
def boxed_hinge(loss, a, y, cap, old_cap):
    if y * a >= old_cap:
        return y * cap
    return y * min(max(y * a, 0.0), cap)


@boxed.case(losses.SquaredHinge)
def boxed_squared_hinge(loss, a, y, cap, old_cap):
    if cap > 0.0:
        return y * max(y * a, 0.0)
    return 0.0


@boxed.case(losses.Log)
def boxed_log(loss, a, y, cap, old_cap):
    if old_cap > 0.0:
        return y * min(max(y * a * cap / old_cap, 0.0), cap)
    return 0.0


@boxed.case(losses.EpsilonInsensitive)
@boxed.case(losses.HuberizedEpsilon)
def boxed_tube(loss, a, y, cap, old_cap):
    if abs(a) >= old_cap:
        return math.copysign(cap, a) if a != 0.0 else 0.0
    return min(max(a, -cap), cap)


@boxed.case(losses.SquaredEpsilon)
def boxed_squared_tube(loss, a, y, cap, old_cap):
    if cap > 0.0:
        return a
    return 0.0


# ---------------------------------------------------------------- state and solver


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    if state.position > state.awake:
        return f"position is {state.position}, and {state.awake} examples are awake"
    if state.sums.W.shape != state.previous.W.shape:
        return f"one of two passes has sums of weights: {state.sums.W.shape} and {state.previous.W.shape}"
    return None


@savable("SDCA.State", law=_law)
@dataclass
class SDCAState(protocol.State):
    """All that a run of SDCA knows; see :class:`Examples`, :class:`Weights` and :class:`Sums`.

    Attributes
    ----------
    sums, previous : samples of the weights in the current pass, and in the pass before
    C : the box of α
    constant, base : κ² of the constant feature (0: there is none), and b₀ of each output
    U, along, theta : u without its constant feature; the product of u with the constant feature; θ, 0 if there is no u
    eta : η of each output
    order, awake, position : the examples of this pass, how many there are, and how many of them were visited
    seed : the number that gives the orders of all passes
    passes : completed passes
    dual, checked : D/λ of each output when last computed, and the visits made by then
    unlooked : visits from one value of D to the next, where they are more than n
    """

    examples: Annotated[Examples, Within(Examples)]
    w: Annotated[Weights, Within(Weights)]
    sums: Annotated[Sums, Within(Sums)]
    previous: Annotated[Sums, Within(Sums)]
    C: float
    U: Annotated[np.ndarray, Array((0, "d"), 1, dtype=FLOATS)]
    eta: PerOutput
    order: Annotated[np.ndarray, Array("n", dtype=INDICES, low=0, high="n-1")]
    dual: Annotated[np.ndarray, Array("outputs", finite="inf")]
    base: PerOutput
    rng: np.random.Generator
    constant: float = 0.0
    along: float = 0.0
    theta: float = 0.0
    awake: Annotated[int, Whole(0, "n")] = 0
    position: Count = 0
    passes: Count = 0
    checked: Count = 0
    unlooked: Count = 0
    seed: Annotated[int, Whole(0, 2**63)] = 0
    counters: Counters = field(default_factory=Counters)

    @staticmethod
    def _renewed(parts: dict[str, Any]) -> dict[str, Any]:
        """Before intercepts could be free, states had no b₀; later, some shared features between threads."""
        parts = {name: part for name, part in parts.items() if name not in ("split", "scores", "sigma")}
        return {"base": np.zeros(parts["dual"].shape), **parts}

    @property
    def alpha(self) -> np.ndarray:
        """The dual variables, of shape (n, outputs)."""
        return self.examples.alpha


def some_rows(problem: Problem) -> tuple[Any, np.ndarray]:
    """At most MEAN_ROWS rows at equal distances, as a matrix, and their entries; no copy where they are dense."""
    step = -(-problem.n // MEAN_ROWS)
    if isinstance(problem.X, DenseRows):
        rows = problem.X.values[::step]
        return rows, rows
    rows = as_matrix(take_rows(problem.X, np.arange(0, problem.n, step)))
    return rows, rows.data


@savable()
@dataclass
class SDCA(Solver):
    """Stochastic dual coordinate ascent, exact and with a proven duality gap.

    It maximises the dual exactly over one variable at a time. Linear machines use it by default, unless C
    times the mean of ‖xᵢ‖², about the number of epochs, is so large that the interior point is faster.

    Parameters
    ----------
    shrinking : bool, default=True
        Whether examples rest whose visits change nothing.
    lag : bool, default=True
        Whether changes along the direction that all rows share are answered late, which is faster.
        ``False`` is plain ascent.
    n_jobs : int, default=1
        Accepted, and without effect: one thread makes all visits.

    Notes
    -----
    ``SDCA(shrinking=False, lag=False)`` is Algorithm 1 of Hsieh et al. with random permutations: the
    dual value never falls. It has the losses hinge, squared hinge, log, (squared) ε-insensitive and the
    Huberised ones, and the intercepts "regularized", "unregularized" and "none".

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, SDCA
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> model = LinearSVC(solver=SDCA(shrinking=False), random_state=0).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= 1e-3)
    True
    """

    shrinking: bool = True
    lag: bool = True
    n_jobs: int = 1

    intercepts = ("regularized", "unregularized", "none")
    state_class = SDCAState
    capabilities = protocol.Capabilities(aim="optimum", starts_from_duals=True, steady=True)

    def check(self, problem: Problem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        if not isinstance(problem, Problem) or problem.is_joint:
            raise ValueError(
                "SDCA moves the dual variables of separate outputs and this loss ties them: "
                "use multi_class='ovr', or the solver 'pegasos'"
            )
        if type(problem.target.loss) not in dual_step.table:
            name = type(problem.target.loss).__name__
            raise ValueError(f"SDCA has no dual step of the loss {name}: use the solver 'pegasos'")
        if problem.intercept not in self.intercepts:
            raise ValueError(
                f"SDCA has the intercepts 'regularized', 'unregularized' and 'none', got {problem.intercept!r}: "
                "use one of them, or the solver 'pegasos'"
            )
        if isinstance(self.n_jobs, bool) or not isinstance(self.n_jobs, (int, np.integer)) or self.n_jobs < 1:
            raise ValueError(f"n_jobs must be an integer ≥ 1, got {self.n_jobs!r}")
        flag("shrinking", self.shrinking)
        flag("lag", self.lag)

    def can_go_on(self, problem: Problem, state: object) -> bool:
        """Whether training can continue from a state: SDCA's own, with as many examples and outputs."""
        return isinstance(state, SDCAState) and state.alpha.shape == (problem.n, problem.n_outputs)

    def first_slice(self, problem: Problem) -> int:
        """Visits that certainly take less than a slice."""
        return max(1, int(protocol.ENTRIES / (problem.mean_entries * problem.n_outputs)))

    def steps_per_epoch(self, problem: Problem) -> int:
        """A step is a visit."""
        return problem.n

    # -- starting

    def init(self, problem: Problem, rng: np.random.Generator, duals: np.ndarray | None = None) -> SDCAState:
        """The state before the first visit: α = 0, or dual variables of shape (outputs, n), clipped into the box."""
        self.check(problem)
        n, d, outputs = problem.n, problem.d, problem.n_outputs
        dtype = problem.dtype if 8 * d * outputs > WIDE_WEIGHTS else np.dtype(np.float64)
        averaged = d if d <= n else 0
        sums, previous = (
            Sums(np.zeros((averaged, outputs)), np.zeros(outputs), np.zeros(outputs), np.zeros(1)) for _ in range(2)
        )
        rest, wait = np.zeros((2, n), np.uint8)
        state = SDCAState(
            examples=Examples(np.zeros((n, outputs)), np.full(n, -1.0), np.zeros(n), rest, wait),
            w=Weights(np.zeros((d, outputs), dtype), *np.zeros((3, outputs))),
            sums=sums,
            previous=previous,
            C=problem.C,
            U=np.empty((0, 1), dtype),
            eta=np.ones(outputs),
            order=np.arange(n, dtype=np.int32 if n < 2**31 else np.int64),
            dual=np.full(outputs, -math.inf),
            base=problem.best_intercept(None) if problem.has_free_bias else np.zeros(outputs),
            rng=rng,
            seed=int(rng.integers(2**63)),
        )
        if duals is not None:
            state.alpha[:] = protocol.checked_duals(duals, outputs, n).T
        self.bind(problem, state)
        return state

    def bind(self, problem: Problem, state: SDCAState, in_order: bool = False) -> None:
        """Point a state at a problem with the same examples, perhaps with another λ: keep α and compute w from α.

        α moves into the new box; a variable at its bound C sᵢ moves to the new bound.
        """
        shape, known = (problem.n, problem.d, problem.n_outputs), (len(state.alpha), *state.w.W.shape)
        if in_order or shape != known:
            raise ValueError(
                "SDCA keeps a dual variable for each example and goes on with the same examples only: the state has "
                f"{known} (examples, features, outputs), the data {shape}; fit anew, or use the solver 'pegasos'"
            )
        if state.alpha.any():
            fit_box(problem.target, problem.y, problem.sample_weight, problem.C, state.C, state.alpha)
        state.C = problem.C
        state.examples.q[:] = -1.0
        self._find_constant(problem, state)
        for part in (state.examples.rest, state.examples.wait, *state.sums, *state.previous):
            part[:] = 0
        self._find_common_direction(problem, state)
        state.eta[:] = min(1.0, RATE / problem.n) if state.theta else 1.0
        state.awake = state.position = 0
        state.dual[:] = -math.inf
        state.checked, state.unlooked = state.counters.visits, 0
        self._refresh(problem, state)
        state.w.v[:] = state.w.r

    def _find_constant(self, problem: Problem, state: SDCAState) -> None:
        """Set κ²."""
        state.constant = float(problem.intercept == "regularized")
        if not problem.has_free_bias:
            return
        rows, entries = some_rows(problem)
        box = problem.C * problem.mean_weight
        state.constant = max(sum_of_squares(entries) / rows.shape[0], min(1.0 / box, FAR), FLAT)
        state.counters.feature_reads += entries.size

    def _find_common_direction(self, problem: Problem, state: SDCAState) -> None:
        """Set u: the direction of the mean row with the constant feature, or of that feature alone on wide data."""
        constant = state.constant
        mean = np.zeros((0, 1), state.w.W.dtype)
        if self.lag and problem.d <= problem.n:
            rows, entries = some_rows(problem)
            if isinstance(problem.X, DenseRows):
                found = rows.mean(axis=0, dtype=np.float64)
            else:
                found = np.bincount(rows.indices, entries, problem.d) / rows.shape[0]
            mean = found.astype(mean.dtype)[:, None]
            state.counters.feature_reads += 2 * entries.size
        length = math.sqrt(sum_of_squares(mean) + constant)
        state.U, state.along, state.theta = mean[:0], 0.0, 0.0
        if not (self.lag and length > 0.0):
            return
        U, along = mean / mean.dtype.type(length), constant / length
        square = float(np.mean((rows @ U[:, 0] + along) ** 2)) if U.size else along**2
        if problem.C * problem.mean_weight * square >= LATE_FROM:
            state.U, state.along, state.theta = U, along, THETA

    def _refresh(self, problem: Problem, state: SDCAState) -> None:
        """Compute w(α) anew, in place."""
        if state.alpha.any():
            W, b, reads = self._combined(problem, state)
            state.counters.feature_reads += reads
            state.w.W[:], state.w.b[:] = W, b
            state.w.r[:] = state.along * state.alpha.sum(axis=0)
            if state.U.size:
                state.w.r[:] += state.U[:, 0].astype(np.float64) @ W
        else:
            for part in state.w:
                part[:] = 0.0
            state.w.b[:] = state.base

    def _combined(
        self, problem: Problem, state: SDCAState, alpha: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """(W, b) = (Σ αᵢxᵢ, b₀ + κ²Σ αᵢ) in float64, and the entries of X read."""
        alpha = state.alpha if alpha is None else alpha
        W, reads = combination(problem, alpha)
        return W, state.base + state.constant * alpha.sum(axis=0), reads

    # -- stepping

    def advance(self, problem: Problem, state: SDCAState, n_steps: int) -> int:
        """Make n_steps visits, in place."""
        if n_steps == 0:
            self._compile(problem, state)
        left = n_steps
        while left > 0:
            if state.position == state.awake:
                self._look(problem, state)
            left -= self._visit(problem, state, left)
            if state.position == state.awake and state.passes % REFRESH == 0 and state.w.W.dtype == np.float32:
                self._refresh(problem, state)
        return n_steps

    def _compile(self, problem: Problem, state: SDCAState) -> None:
        """Compile all that :meth:`advance` calls on data of this kind, if that has not been done; no visit is made."""
        target, looked_at = problem.target, self._is_looked_at(problem, state)
        dtypes = [part.dtype for part in (*problem.X, state.order, state.w.W) if isinstance(part, np.ndarray)]
        kind = type(problem.X), *dtypes, type(target), type(target.loss), looked_at
        if kind in _compiled_for:
            return
        _compiled_for.add(kind)
        self._visit(problem, state, 0)
        nobody = state.alpha[:0]
        if looked_at:
            self._dual(problem, nobody, state.w.W[:0], np.zeros(problem.n_outputs))
        if state.w.W.dtype == np.float32:
            add_combination(problem.X, nobody, np.empty(problem.n_outputs), np.zeros((1, problem.n_outputs)))

    def _visit(self, problem: Problem, state: SDCAState, count: int) -> int:
        """Make ``count`` visits, or fewer if D or the weights are due to be computed; returns how many."""
        counters = state.counters
        looked_at = self._is_looked_at(problem, state)
        unchecked = state.checked + self._unlooked(problem, state) - counters.visits if looked_at else count
        course = Course(
            state.order, state.awake, state.position, state.passes, np.uint64(state.seed), bool(self.shrinking),
            count, counters.visits, unchecked,
        )  # fmt: skip
        stride = max(8, problem.d // 4) if len(state.sums.W) else 0
        rule = SDCARule(problem.C, state.eta, state.constant, state.along, state.theta, stride)
        data = Data(problem.X, problem.y, problem.sample_weight, state.U)
        made, updates, reads, state.awake, state.position, state.passes = visit_passes(
            data, problem.target, course, rule, state.examples, state.w, state.sums, state.previous,
            np.zeros((2, problem.n_outputs)),
        )  # fmt: skip
        counters.steps += made
        counters.visits += made
        counters.updates += updates
        counters.feature_reads += reads
        return made

    def _look(self, problem: Problem, state: SDCAState) -> None:
        """Once in so many visits, compute D, raise η where D fell, and move the b₀ of a free intercept."""
        looked_at = self._is_looked_at(problem, state)
        if not looked_at or state.counters.visits - state.checked < self._unlooked(problem, state):
            return
        state.checked = state.counters.visits
        dual = self._dual(problem, state.alpha, state.w.W, self._charge(state, state.w.b))
        fell = dual < state.dual - 1e-10 * np.abs(state.dual)  # beyond rounding
        state.eta[fell] = np.minimum(1.0, 4.0 * state.eta[fell])
        state.dual[:] = dual
        few = int(UNLOOKED / (problem.mean_entries * problem.n_outputs))
        careful = fell.any() or problem.has_free_bias
        state.unlooked = 0 if careful else min(2 * self._unlooked(problem, state), few)
        if problem.has_free_bias:
            ahead = state.w.b - state.base
            state.base += ahead
            state.w.b[:] += ahead
            state.dual -= ahead**2 / state.constant

    @staticmethod
    def _unlooked(problem: Problem, state: SDCAState) -> int:
        """Visits from one value of D to the next."""
        return max(problem.n, state.unlooked)

    @staticmethod
    def _is_looked_at(problem: Problem, state: SDCAState) -> bool:
        """Whether D is computed during the run: late answers may lower D, and a free intercept moves its b₀."""
        return state.theta > 0.0 or problem.has_free_bias

    @staticmethod
    def _charge(state: SDCAState, b: np.ndarray) -> np.ndarray:
        """The amount (b² − b₀²)/κ² that intercepts add to ‖w‖² in the dual value."""
        base = state.base
        return (b - base) * ((b + base) / state.constant) if state.constant else 0.0 * b

    @staticmethod
    def _dual(problem: Problem, alpha: np.ndarray, W: np.ndarray, charge: Any) -> np.ndarray:
        """The dual value D/λ of each output for w(α) = W, with an intercept that adds ``charge`` to ‖w‖²."""
        out = np.zeros(problem.n_outputs)
        add_conjugates(problem.target, problem.y, problem.sample_weight, problem.C, alpha, out)
        return out - 0.5 * (charge + np.einsum("jc,jc->c", W, W, dtype=np.float64))

    # -- output

    def weights(self, problem: Problem, state: SDCAState) -> tuple[np.ndarray, np.ndarray]:
        """The current (W, b), of shape (d, n_outputs) and (n_outputs,)."""
        W, b, lag = state.w.W, state.w.b, state.theta * (state.w.v - state.w.r)
        count = state.sums.samples[0] + state.previous.samples[0]
        if count > 0.0:
            W, b, lag = ((new + old) / count for new, old in zip(state.sums[:3], state.previous[:3], strict=True))
        W = W + state.U * lag if state.U.size else W.copy()
        W = W.astype(problem.dtype, copy=False)
        if problem.has_free_bias:
            return W, problem.best_intercept(W.astype(np.float64, copy=False))
        return W, b + state.along * lag

    def model(self, problem: Problem, state: SDCAState) -> LinearModel:
        """A finished copy of the current model."""
        W, b = self.weights(problem, state)
        return LinearModel(W.T, b)

    def duals(self, problem: Problem, state: SDCAState) -> np.ndarray:
        """The dual variables α, of shape (outputs, n); they sum to 0 where the intercept is free."""
        return (balanced(state.alpha) if problem.has_free_bias else state.alpha).T

    def certificate(self, problem: Problem, state: SDCAState) -> Certificate:
        """Primal value of the weights, dual value of α or of zero, whichever is larger, and their difference.

        The dual value is lowered by a bound on what rounding added to the difference.
        """
        W, b = self.weights(problem, state)
        alpha, free = self.duals(problem, state).T, problem.has_free_bias
        # scores are computed in float64; large float32 weights of a single output are read as they are
        W = W.astype(np.float64 if problem.n_outputs > 1 else state.w.W.dtype, copy=False)
        loss, gain, inner = measures(problem, problem.C, alpha, W, b).sum(axis=1)
        penalty = problem.penalty(W, b)
        primal = penalty + float(loss) / problem.n
        # to first order in the rounding of w, which is at most one unit in the last place for each update
        norm2, drift = sum_of_squares(state.w.W), np.finfo(state.w.W.dtype).eps * (1 + state.counters.updates)
        doubt = 2.0 * drift * norm2
        if not len(state.sums.W):  # the scores are the scores of w, so the error of ‖w(α)‖² is of second order
            norm2, doubt = 2.0 * float(inner) - norm2, drift**2 * norm2
        lost = problem.lost_by_rounding(penalty, b, float(loss) / problem.n, self._lengths(problem, state))
        lost += problem.lam * rounding_of_sum(problem.n) * abs(float(gain))
        norm2 += float(self._charge(state, state.w.b).sum())
        dual, doubt = problem.lam * (float(gain) - 0.5 * norm2), 0.5 * problem.lam * doubt
        if free or not doubt <= NEGLIGIBLE * (primal - dual):
            A, b, _ = self._combined(problem, state, alpha)
            dual = problem.lam * float(self._dual(problem, alpha, A, 0.0 if free else self._charge(state, b)).sum())
            doubt = problem.lam * self._drift(problem, state, alpha, A)
        # losses are not negative, so 0 is a dual value; late answers may lower D(α) below 0 for a while
        dual = max(0.0, dual - doubt - lost)
        return Certificate(primal, dual, primal - dual)

    @staticmethod
    def _lengths(problem: Problem, state: SDCAState) -> np.ndarray:
        """‖xᵢ‖² of all rows, or a little more (κ² is added to known ones)."""
        q = state.examples.q
        return q if q.min() >= 0.0 else problem.squared_lengths()

    def _drift(self, problem: Problem, state: SDCAState, alpha: np.ndarray, A: np.ndarray) -> float:
        """A bound on what rounding took from ½‖w(α)‖², where w(α) = A was just summed up."""
        most = rounding_of_sum(problem.n) * float(np.abs(alpha).sum(axis=1) @ np.sqrt(self._lengths(problem, state)))
        return most * (math.sqrt(sum_of_squares(A)) + 0.5 * most)


def balanced(alpha: np.ndarray) -> np.ndarray:
    """α of shape (n, outputs) with the sign of the larger sum scaled down, so that the sum of each output is 0."""
    sums = np.stack([np.maximum(alpha, 0.0).sum(axis=0), -np.minimum(alpha, 0.0).sum(axis=0)])
    up, down = np.divide(sums.min(axis=0), sums, out=np.ones_like(sums), where=sums > 0.0)
    return alpha * np.where(alpha > 0.0, up, down)
