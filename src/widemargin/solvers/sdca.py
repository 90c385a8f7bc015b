"""SDCA: stochastic dual coordinate ascent for linear SVMs.

Problem, with the conventions of :mod:`widemargin.problems.objective` and C = 1/(λn); a regularised intercept is the
weight of a constant feature, which belongs to w and xᵢ in what follows. Outputs share the reads of
the rows; for one::

    P = λ (½‖w‖² + C Σ sᵢ ℓ(⟨w, xᵢ⟩, yᵢ))  ≥  D = λ (−C Σ sᵢ ℓ*(−αᵢ/(C sᵢ)) − ½‖w(α)‖²),     w(α) = Σ αᵢxᵢ.

αᵢ = −C sᵢ gᵢ for a slope gᵢ in the domain of ℓ*: for the hinge, yᵢαᵢ lies in [0, C sᵢ].

Update, for one example after another in a new random order each pass (Hsieh et al., Algorithm 1 and Sec. 3.2)::

    αᵢ ← argmax over α of  −C sᵢ ℓ*(−α/(C sᵢ)) − (α − αᵢ) zᵢ − ½ qᵢ (α − αᵢ)²,     zᵢ = ⟨w, xᵢ⟩,  qᵢ = ‖xᵢ‖²,

and w ← w + (change of αᵢ) xᵢ: O(non-zeros of the row). The maximum has a closed form for all losses but the log-loss,
where a safeguarded Newton iteration finds it (Yu, Huang and Lin).

Shrinking. A visit that leaves an example where it was (at a bound, or inside the tube of a regression loss) sends it to
rest for 1 pass, a further idle visit for 3, then 7, 15, at most 31; the first change ends that. So nothing is ever
removed for good, and no threshold has to be right. Steps are visits, and an epoch is n of them, whatever number of
passes over the examples awake they make.

The common direction. Rows that are not centred share a direction, the unit vector u: the constant feature alone, or
with it the mean row. It adds mᵢ² with mᵢ = ⟨u, xᵢ⟩ to each qᵢ and so shortens every step, often several times, though
no example can move far along u alone: as one moves, the others answer. Since −½r² = min over v of ½v² − rv, the part of
w along u, r = ⟨u, w⟩ = Σ αᵢmᵢ, can be answered late. Visits see the scores and the curvature

    zᵢ + θ(v − r) mᵢ   and   qᵢ − θ(1 − η) mᵢ²,      and then   v ← v + η (r − v),

with θ = 0.95 and η = 4/n. At rest v = r, so the optimum is the same; η = 1 is plain coordinate ascent. The share 1 − θ
that is answered at once damps the swing of v about r. Late answers give up that D grows at every single visit; D is
looked at once an epoch (on small data less often while it grows), and where it has fallen η grows fourfold, so that a
problem which this does not suit ends with plain ascent. Where the box shortens steps more than the curvature along u
does, there is nothing to gain: they begin at a mean of C sᵢmᵢ² of 0.3.

A free intercept demands Σ αᵢ = 0. The method of multipliers brings that about: b = b₀ + κ²Σ αᵢ, as if κ were the value
of the constant feature and b₀ the intercept that costs nothing. D then loses (b² − b₀²)/(2κ²). Once an epoch b₀ moves
to b, until there is nothing left to balance. κ² is the mean ‖xᵢ‖², or 1/(C s̄) if that is more: one example out of
balance then moves b by 1. What is output has the best intercept for its weights. Its dual value wants Σ αᵢ = 0: the
sign that has too much is made lighter by one factor.

Rounding. The dual value is lowered by what rounding can have added to the gap: the errors of scores, of the sums, and
of w(α). Where that of w, after so many updates, exceeds 1 % of the gap, w(α) is computed anew.

What is output. Each visit leaves one example satisfied and the others a little less so, and P feels that noise more
than D does. Where features are no more than examples, the weights are therefore the mean over the last completed pass
and the current one of w + θ(v − r)u, sampled every few visits; else they are those of now.

Threads. On wide sparse data each of K threads owns a share of the features: its part of every row and of w. For blocks
of 32 visits the threads compute their parts of the scores, exchange them, and take the same steps, each changing its
part of w. The visits of a block thus do not see each other's changes (except along u); where that lets D fall,
curvatures are doubled, up to 32-fold, which is safe for any data (Ma et al., with as many workers). Sums are taken in
a fixed order, so nothing depends on timing.

C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan: A Dual Coordinate Descent Method for Large-scale
Linear SVM. ICML 2008. S. Shalev-Shwartz, T. Zhang: Stochastic Dual Coordinate Ascent Methods for Regularized Loss
Minimization. JMLR 14 (2013). H.-F. Yu, F.-L. Huang, C.-J. Lin: Dual Coordinate Descent Methods for Logistic Regression
and Maximum Entropy Models. Machine Learning 85 (2011). C. Ma et al.: Adding vs. Averaging in Distributed Primal-Dual
Optimization. ICML 2015.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from ..core import losses
from ..core.borrowing import borrow, check_index, flat
from ..core.dispatch import compiled, generic, inlined
from ..core.losses import EpsilonInsensitive, Hinge, Log, SquaredEpsilon, SquaredHinge
from ..core.rows import (
    CSRRows,
    DenseRows,
    is_short,
    prefetch_rows,
    row_add,
    row_along,
    row_dot,
    row_norm2,
    row_scores,
    row_size,
    short_row_dots,
    touch,
)
from ..core.visits import next_order, note_visit, order_of_pass
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Affine, Problem
from ..problems.objective import Certificate, add_conjugates, rounding_of_sum, sum_of_squares
from ..schemas import FLOATS, INDICES, Array, Whole, Within
from . import protocol
from .protocol import Solver

#: Share of the common direction that is answered late.
THETA = 0.95
#: v follows r within about a quarter of an epoch: η = RATE/n.
RATE = 4.0
#: Late answers pay where curvature shortens steps more than the box does: for a mean of C sᵢmᵢ² from this on.
LATE_FROM = 0.3
#: About as many rows give the mean row.
MEAN_ROWS = 1024
#: Weights of float32 data are kept in float64 up to this many bytes; beyond, the cache holds twice as many in float32.
WIDE_WEIGHTS = 2**20
#: float32 weights are computed anew from α once in this many passes.
REFRESH = 64
#: Visits whose scores threads exchange at once.
EXCHANGED = 32
#: Looks at an exchange before a waiting thread offers its processor to others.
LOOKS = 3000
#: D is looked at once an epoch; where it has not fallen, after twice as many visits as the last time, up to so many
#: entries of the data, which take no longer than some looks.
UNLOOKED = 2**19
#: Rounding that may have made this share of a gap is not left in it.
NEGLIGIBLE = 0.01
#: What stands where in Course.at.
AWAKE, POSITION, PASSES = range(3)
#: The least curvature: the step of a row of zeros then runs to the bound.
FLAT = 1e-100
#: κ² is not more for the sake of a small C.
FAR = 1e12

_compiled_for: set[tuple] = set()

# ---------------------------------------------------------------- one coordinate


@generic
def dual_step(loss, a, z, y, q, cap):
    """argmax over α of −cap ℓ*(−α/cap) − (α − a) z − ½ q (α − a)²: the new value of a dual variable a; cap = C sᵢ."""


@dual_step.case(Hinge)
def _(loss, a, z, y, q, cap):
    return y * min(max(y * a + (1.0 - y * z) / q, 0.0), cap)


@dual_step.case(SquaredHinge)
def _(loss, a, z, y, q, cap):
    flatness = 0.5 / cap
    return y * max(y * a + (1.0 - y * z - flatness * y * a) / (q + flatness), 0.0)


@dual_step.case(EpsilonInsensitive)
def _(loss, a, z, y, q, cap):
    free = a + (y - z) / q
    tube = loss.epsilon / q
    return min(max(min(max(0.0, free - tube), free + tube), -cap), cap)


@dual_step.case(SquaredEpsilon)
def _(loss, a, z, y, q, cap):
    pull = q * a + y - z
    return min(max(0.0, pull - loss.epsilon), pull + loss.epsilon) / (q + 0.5 / cap)


@dual_step.case(Log)
def _(loss, a, z, y, q, cap):
    # with ya = cap·p and p = 1/(1 + exp(−t)) the derivative vanishes where h(t) = t + offset + q·cap·p is zero;
    # h grows at a rate between 1 and 1 + q·cap/4, so Newton steps find it in a few rounds; one that leaves the bracket
    # or is more than half the step before, as when it swings between the flat ends of p, is replaced by a bisection
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
    # the last round moved t by next to nothing, and p with it
    return y * cap * p


# ---------------------------------------------------------------- threads


@intrinsic
def _publish(typingctx, array, index, value):
    """array[index] ← value, after all that this thread wrote before."""

    def codegen(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        check_index(context, builder, view.nitems, args[1])
        builder.store_atomic(args[2], builder.gep(view.data, [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen


@intrinsic
def _published(typingctx, array, index):
    """array[index], before all that this thread reads after."""

    def codegen(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        check_index(context, builder, view.nitems, args[1])
        return builder.load_atomic(builder.gep(view.data, [args[1]]), "acquire", 8)

    return array.dtype(array, types.intp), codegen


_offer_processor = types.ExternalFunction("SwitchToThread" if os.name == "nt" else "sched_yield", types.int32())


@inlined
def exchange(board, thread, number, parts, totals, size):
    """totals[:size] ← Σ over threads of their parts[:size], the same bits for all; False if a thread gave up.

    ``board`` (threads × 2 × length) has a place for even and one for odd numbers, which count from 1: a thread that
    writes number k + 2 has seen all of k + 1, and who wrote k + 1 has read all of k.
    """
    threads, length = board.shape[0], board.shape[2]
    line = flat(board)
    place = (number & 1) * length
    mine = thread * 2 * length + place
    for k in range(size):
        line[mine + 1 + k] = parts[k]
        totals[k] = 0.0
    _publish(line, mine, float(number))
    for other in range(threads):
        theirs = other * 2 * length + place
        looks = 0
        while True:
            seen = _published(line, theirs)
            if seen == number:
                break
            if seen < 0.0:
                return False
            looks += 1
            if looks == LOOKS:
                looks = 0
                _offer_processor()
        for k in range(size):
            totals[k] += line[theirs + 1 + k]
    return True


# ---------------------------------------------------------------- the compiled loops


@savable(
    "SDCA.Examples", alpha=Array("n", "outputs"), q=Array("n"), m=Array("n"), rest=Array("n", dtype=np.uint8, high=31),
    wait=Array("n", dtype=np.uint8, high=31),
)  # fmt: skip
class Examples(NamedTuple):
    """What belongs to the examples.

    ``alpha`` (n × outputs) are the dual variables; q = ‖xᵢ‖² and m = ⟨u, xᵢ⟩ are filled at the first visit and q is
    −1 before; an idle example rests for ``rest`` passes, ``wait`` of them still to come.
    """

    alpha: np.ndarray
    q: np.ndarray
    m: np.ndarray
    rest: np.ndarray
    wait: np.ndarray


@savable(
    "SDCA.Weights", W=Array("d", "outputs", dtype=FLOATS), b=Array("outputs"), r=Array("outputs"), v=Array("outputs")
)
class Weights(NamedTuple):
    """w = (W, b) with W of shape (d, outputs); r = ⟨u, w⟩ and the late answer v, for each output."""

    W: np.ndarray
    b: np.ndarray
    r: np.ndarray
    v: np.ndarray


@savable("SDCA.Sums", W=Array((0, "d"), "outputs"), b=Array("outputs"), lag=Array("outputs"), samples=Array(1, low=0.0))
class Sums(NamedTuple):
    """Sums of W, b and θ(v − r) over ``samples[0]`` samples; W is empty where weights are not averaged."""

    W: np.ndarray
    b: np.ndarray
    lag: np.ndarray
    samples: np.ndarray


class Rule(NamedTuple):
    """The values that shape a visit.

    The box C; the squared constant feature, and its product with u; θ; the factor of curvatures; visits between
    samples of the weights (0: never); η of each output.
    """

    C: float
    constant: float
    along: float
    theta: float
    sigma: float
    stride: int
    eta: np.ndarray


class Data(NamedTuple):
    """Rows, targets and weights (empty: all ones), and u without its constant feature, as U (d × 1) or empty."""

    X: Any
    y: np.ndarray
    s: np.ndarray
    U: np.ndarray


class Span(NamedTuple):
    """The places start … stop − 1 of the order of a pass, before which ``before`` visits were made."""

    order: np.ndarray
    start: int
    stop: int
    before: int


class Course(NamedTuple):
    """The visits to come: so many, after ``before``, in passes whose orders come from a seed.

    ``at`` holds how many examples are awake, how many of them were visited, and the completed passes. A pass that ends
    after ``checked`` of the visits or later is the last one.
    """

    order: np.ndarray
    at: np.ndarray
    seed: np.uint64
    shrinking: bool
    visits: int
    before: int
    checked: int


class Scratch(NamedTuple):
    """Working space for one example, by output: scores z, changes g and dual variables a."""

    z: np.ndarray
    g: np.ndarray
    a: np.ndarray


class Alone(NamedTuple):
    """One thread makes all visits."""


class Team(NamedTuple):
    """One of several threads that visit together, in blocks.

    ``rows[p]`` is the row of the split matrix that is its part of the example at place p of the order. ``scores`` and
    ``alpha`` (block × outputs) and ``q`` (block) hold what it knows of the current block: the values before any of
    the block's steps. ``parts`` is working space, ``turn[0]`` counts the meetings at the ``board``.
    """

    thread: int
    rows: np.ndarray
    scores: np.ndarray
    alpha: np.ndarray
    q: np.ndarray
    parts: np.ndarray
    board: np.ndarray
    turn: np.ndarray


@generic
def look(team, data, span, p, rule, examples, W, space):
    """space.z, space.a ← scores and dual variables of the example at place p; returns q and m.

    q < 0 says that a thread gave up.
    """


@generic
def part_of(team, order, p):
    """The row that this thread reads for the example at place p."""


@generic
def leads(team):
    """Whether this thread writes what belongs to the examples."""


@part_of.case(Alone)
def _(team, order, p):
    return order[p]


@leads.case(Alone)
def _(team):
    return True


@part_of.case(Team)
def _(team, order, p):
    return team.rows[p]


@leads.case(Team)
def _(team):
    return team.thread == 0


@look.case(Alone)
def _(team, data, span, p, rule, examples, W, space):
    X, U, order, z, a = data.X, data.U, span.order, space.z, space.a
    q, m, alpha = examples.q, examples.m, flat(examples.alpha)
    prefetch_rows(X, order, p, order.size)
    touch(q, m, order, p, order.size)
    i = order[p]
    if q[i] < 0.0:
        q[i], m[i] = row_norm2(X, i) + rule.constant, rule.along + row_along(X, i, U)
    row_scores(X, i, W, z)
    for c in range(a.size):
        a[c] = alpha[i * a.size + c]
    return q[i], m[i]


@look.case(Team)
def _(team, data, span, p, rule, examples, W, space):
    X, order, z, a = data.X, span.order, space.z, space.a
    size, outputs, threads = team.q.size, a.size, team.board.shape[0]
    place = p % size
    fresh = place == 0
    if fresh or p == span.start:
        end = min(p - place + size, order.size)
        # all that the leading thread will write is read before the exchange
        for k in range(p, end):
            prefetch_rows(X, team.rows, k, order.size)
            i, at = order[k], k - p + place
            team.q[at] = examples.q[i]
            if examples.q[i] < 0.0:
                team.q[at] = rule.constant
                for part in range(threads):
                    team.q[at] += row_norm2(X, threads * i + part)
            for c in range(outputs):
                team.alpha[at, c] = examples.alpha[i, c]
            if fresh:
                row_scores(X, team.rows[k], W, z)
                for c in range(outputs):
                    team.parts[at * outputs + c] = z[c]
        team.turn[0] += 1
        known = end - p if fresh else 0  # a call that goes on inside a block has its scores from the one before
        if not exchange(team.board, team.thread, team.turn[0], team.parts, flat(team.scores), known * outputs):
            return -1.0, 0.0
    for c in range(outputs):
        z[c] = team.scores[place, c]
        a[c] = team.alpha[place, c]
    if team.thread == 0:
        examples.q[order[p]] = team.q[place]
        examples.m[order[p]] = rule.along
    return team.q[place], rule.along


@inlined
def add_sample(sums, W):
    """Add the weights to the sums of their samples, in place."""
    total, weights = flat(sums.W), flat(W)
    for j in range(weights.size):
        total[j] += weights[j]
    sums.samples[0] += 1.0


@inlined
def visit_outputs(data, target, span, rule, team, examples, w, sums, space):
    """:func:`visit` for any number of outputs and threads.

    Of several threads the first changes the examples and all change their part of W.
    """
    X, y, s, order, eta = data.X, data.y, data.s, span.order, rule.eta
    alpha, W, b, r, v = flat(examples.alpha), w.W, w.b, w.r, w.v
    z, g, a = space.z, space.g, space.a
    outputs = losses.output_count(target, z)
    loss = losses.output_loss(target)
    updates, reads = 0, 0
    until_sample = rule.stride - (span.before + span.start) % max(rule.stride, 1)
    for p in range(span.start, span.stop):
        touch(y, s, order, p, order.size)
        q, m = look(team, data, span, p, rule, examples, W, space)
        if q < 0.0:
            break
        i, part = order[p], part_of(team, order, p)
        reads += row_size(X, part)
        weight = rule.C * s[i] if s.size else rule.C
        moved = False
        for c in range(outputs):
            cap = weight * losses.output_weight(target, y[i], c)
            label = losses.output_label(target, y[i], c)
            score = z[c] + b[c] + rule.theta * (v[c] - r[c]) * m
            curvature = rule.sigma * (q - m * m) + (1.0 - rule.theta * (1.0 - eta[c])) * m * m
            after = 0.0
            if cap > 0.0:
                after = dual_step(loss, a[c], score, label, max(curvature, FLAT), cap)
            g[c] = after - a[c]
            if g[c] != 0.0:
                moved = True
                b[c] += rule.constant * g[c]
                r[c] += g[c] * m
                if leads(team):
                    alpha[i * outputs + c] = after
            v[c] += eta[c] * (r[c] - v[c])
        if moved:
            updates += 1
            row_add(X, part, g, W)
        if leads(team):
            note_visit(examples.rest, examples.wait, i, moved)
        until_sample -= 1
        if until_sample == 0:
            until_sample = rule.stride
            add_sample(sums, W)
            for c in range(outputs):
                sums.b[c] += b[c]
                sums.lag[c] += rule.theta * (v[c] - r[c])
    return updates, reads


@compiled
def visit_in_a_team(data, target, span, rule, team, examples, w, sums, space):
    """:func:`visit` as one of several threads."""
    data, span, rule, space = borrow(data), borrow(span), borrow(rule), borrow(space)
    examples, w, sums, team = borrow(examples), borrow(w), borrow(sums), borrow(team)
    return visit_outputs(data, target, span, rule, team, examples, w, sums, space)


@generic
def visit(target, data, span, rule, examples, w, sums, space):
    """Visit the examples of a span of a pass, changing examples, w and sums in place.

    Returns (visits that changed something, entries of X read).
    """


@visit.case(losses.OneVsRest)
def _(target, data, span, rule, examples, w, sums, space):
    return visit_outputs(data, target, span, rule, Alone(), examples, w, sums, space)


@visit.case(losses.Single)
def _(target, data, span, rule, examples, w, sums, space):
    # as visit_outputs; what is an array by outputs there stays in registers here
    X, y, s, order, W, g = data.X, data.y, data.s, span.order, w.W, space.g
    alpha, q, m, U = flat(examples.alpha), examples.q, examples.m, data.U
    loss, unit = losses.output_loss(target), W.dtype.type(1)
    b, r, v, eta, theta = w.b[0], w.r[0], w.v[0], rule.eta[0], rule.theta
    updates, reads = 0, 0
    until_sample = rule.stride - (span.before + span.start) % max(rule.stride, 1)
    for p in range(span.start, span.stop):
        prefetch_rows(X, order, p, order.size)
        touch(y, s, order, p, order.size)
        touch(q, m, order, p, order.size)
        touch(alpha, examples.rest, order, p, order.size)
        i = order[p]
        reads += row_size(X, i)
        first = q[i] < 0.0
        if first and is_short(X, i):
            z, along, norm2 = short_row_dots(X, i, W, U)
        else:
            z, along, norm2 = row_dot(X, i, W, unit), W.dtype.type(0), 0.0
            if first:
                along, norm2 = row_along(X, i, U), row_norm2(X, i)
        if first:
            q[i], m[i] = norm2 + rule.constant, rule.along + along
        before, m2, after = alpha[i], m[i] * m[i], 0.0
        cap = (rule.C * s[i] if s.size else rule.C) * losses.output_weight(target, y[i], 0)
        if cap > 0.0:
            score = z + b + theta * (v - r) * m[i]
            curvature = rule.sigma * (q[i] - m2) + (1.0 - theta * (1.0 - eta)) * m2
            after = dual_step(loss, before, score, losses.output_label(target, y[i], 0), max(curvature, FLAT), cap)
        change = after - before
        if change != 0.0:
            updates += 1
            alpha[i] = after
            b += rule.constant * change
            r += change * m[i]
            g[0] = change
            row_add(X, i, g, W)
        v += eta * (r - v)
        note_visit(examples.rest, examples.wait, i, change != 0.0)
        until_sample -= 1
        if until_sample == 0:
            until_sample = rule.stride
            add_sample(sums, W)
            sums.b[0] += b
            sums.lag[0] += theta * (v - r)
    w.b[0], w.r[0], w.v[0] = b, r, v
    return updates, reads


@compiled
def visit_passes(data, target, course, rule, examples, w, sums, previous, space):
    """Make the visits of a course, pass after pass, changing all that is given in place.

    Ends before that where a pass ends and there is something to look at: REFRESH passes are over, or
    ``checked`` visits were made. Returns (visits, visits that changed something, entries of X read).
    """
    data, course, rule, space = borrow(data), borrow(course), borrow(rule), borrow(space)
    examples, w, sums, previous = borrow(examples), borrow(w), borrow(sums), borrow(previous)
    order, at = course.order, course.at
    made, updates, reads = 0, 0, 0
    while made < course.visits:
        if at[POSITION] == at[AWAKE]:
            if made >= course.checked:
                break
            at[AWAKE] = order_of_pass(order, examples.wait, course.shrinking, course.seed, at[PASSES])
            at[POSITION] = 0
        start = at[POSITION]
        stop = min(start + course.visits - made, at[AWAKE])
        span = Span(order, start, stop, course.before + made - start)
        changed, read = visit(target, data, span, rule, examples, w, sums, space)
        made, updates, reads = made + stop - start, updates + changed, reads + read
        at[POSITION] = stop
        if stop == at[AWAKE]:
            end_pass(sums, previous)
            at[PASSES] += 1
            if at[PASSES] % REFRESH == 0:
                break
    return made, updates, reads


@inlined
def end_pass(sums, previous):
    """previous ← sums ← 0: the mean of a pass that ends becomes the one before, in place."""
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


@compiled
def split_rows(indices, indptr, cuts, out):
    """out ← the indptr of a matrix with a row for each thread's part of a row: the columns between two of the cuts."""
    indices, indptr, cuts, out = borrow(indices), borrow(indptr), borrow(cuts), borrow(out)
    threads = cuts.size + 1
    for i in range(indptr.size - 1):
        low = indptr[i]
        out[threads * i] = low
        for k in range(cuts.size):
            high = indptr[i + 1]
            while low < high:
                middle = (low + high) // 2
                if indices[middle] < cuts[k]:
                    low = middle + 1
                else:
                    high = middle
            out[threads * i + k + 1] = low
    out[threads * (indptr.size - 1)] = indptr[indptr.size - 1]


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
    """Take α from the box of old_C to that of C, in place: what stood at a bound stands at the new one."""
    loss = losses.output_loss(target)
    for i in range(alpha.shape[0]):
        for c in range(alpha.shape[1]):
            cap = losses.output_weight(target, y[i], c) * (s[i] if s.size else 1.0)
            label = losses.output_label(target, y[i], c)
            alpha[i, c] = boxed(loss, alpha[i, c], label, cap * C, cap * old_C)


@generic
def boxed(loss, a, y, cap, old_cap):
    """a in the domain of the conjugate for ``cap``; an a at the bound old_cap goes to the bound."""


@boxed.case(Hinge)
def _(loss, a, y, cap, old_cap):
    if y * a >= old_cap:
        return y * cap
    return y * min(max(y * a, 0.0), cap)


@boxed.case(SquaredHinge)
def _(loss, a, y, cap, old_cap):
    if cap > 0.0:
        return y * max(y * a, 0.0)
    return 0.0


@boxed.case(Log)
def _(loss, a, y, cap, old_cap):
    if old_cap > 0.0:
        return y * min(max(y * a * cap / old_cap, 0.0), cap)
    return 0.0


@boxed.case(EpsilonInsensitive)
def _(loss, a, y, cap, old_cap):
    if abs(a) >= old_cap:
        return math.copysign(cap, a) if a != 0.0 else 0.0
    return min(max(a, -cap), cap)


@boxed.case(SquaredEpsilon)
def _(loss, a, y, cap, old_cap):
    if cap > 0.0:
        return a
    return 0.0


def unshared(values: np.ndarray) -> np.ndarray:
    """A copy with a margin of two cache lines, so that a thread that writes here does not slow down another."""
    room = np.empty(values.size + 32, values.dtype)[16 : 16 + values.size].reshape(values.shape)
    room[:] = values
    return room


# ---------------------------------------------------------------- state and solver


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    if state.position > state.awake:
        return f"position is {state.position}, and {state.awake} examples are awake"
    if state.sums.W.shape != state.previous.W.shape:
        return f"one of two passes has sums of weights: {state.sums.W.shape} and {state.previous.W.shape}"
    parts = state.split.size
    if parts % sizes["n"] != min(1, parts) or (parts > 0 and state.scores.size == 0):
        return f"split has {parts} entries for {sizes['n']} rows and {len(state.scores)} scores"
    return None


@savable(
    "SDCA.State", examples=Within(Examples), w=Within(Weights), sums=Within(Sums), previous=Within(Sums),
    scores=Array((0, EXCHANGED), "outputs"), U=Array((0, "d"), 1, dtype=FLOATS), eta=Array("outputs"),
    order=Array("n", dtype=INDICES, low=0, high="n-1"), dual=Array("outputs", finite="inf"), awake=Whole(0, "n"),
    split=Array(None, dtype=INDICES, low=0, high="entries", rising=True), position=Whole(0), passes=Whole(0),
    checked=Whole(0), unlooked=Whole(0), base=Array("outputs"), law=_law,
)  # fmt: skip
@dataclass
class State(protocol.State):
    """All that a run of SDCA knows; see :class:`Examples`, :class:`Weights` and :class:`Sums`.

    Attributes
    ----------
    C : the box that α lives in
    constant, base : κ² of the constant feature (0: there is none), and b₀ of each output
    U, along, theta : u without its constant feature; its product with that; θ, zero if there is no u
    eta : η of each output
    sigma : the factor of curvatures
    order, awake, position : the examples of this pass, how many, and how many of them were visited
    seed : what the orders of all passes come from
    split, scores : with threads, where their parts of the rows begin, as an indptr of n rows for each thread, and the
        scores of the current block
    passes : completed passes
    dual, checked, unlooked : D/λ of each output when last looked at, the visits made by then, and those until the next
        look where they are more than n
    """

    examples: Examples
    w: Weights
    sums: Sums
    previous: Sums
    scores: np.ndarray
    C: float
    U: np.ndarray
    eta: np.ndarray
    order: np.ndarray
    split: np.ndarray
    dual: np.ndarray
    base: np.ndarray
    rng: np.random.Generator
    constant: float = 0.0
    along: float = 0.0
    theta: float = 0.0
    sigma: float = 1.0
    awake: int = 0
    position: int = 0
    passes: int = 0
    checked: int = 0
    unlooked: int = 0
    seed: int = 0
    counters: Counters = field(default_factory=Counters)

    @property
    def alpha(self) -> np.ndarray:
        """The dual variables, of shape (n, outputs)."""
        return self.examples.alpha

    @property
    def threads(self) -> int:
        """The number of threads."""
        return max(1, (self.split.size - 1) // len(self.alpha))


class SomeRows(NamedTuple):
    """Entries of some rows, their columns and the rows they are of, from 0 on; dense rows need neither."""

    values: np.ndarray
    columns: np.ndarray | None
    row: np.ndarray | None
    n: int

    @classmethod
    def of(cls, X: Any, step: int) -> SomeRows:
        """Every so-manieth row of X."""
        if isinstance(X, DenseRows):
            values = X.values[::step]
            return cls(values, None, None, len(values))
        starts, ends = X.indptr[:-1:step].astype(np.int64), X.indptr[1::step].astype(np.int64)
        size = ends - starts
        row = np.repeat(np.arange(size.size), size)
        entries = np.arange(row.size) + np.repeat(starts - (np.cumsum(size) - size), size)
        return cls(X.data[entries], X.indices[entries], row, size.size)

    def mean(self, d: int) -> np.ndarray:
        """The mean row, in float64."""
        if self.columns is None:
            return self.values.mean(axis=0, dtype=np.float64)
        return np.bincount(self.columns, self.values, d) / self.n

    def scores(self, u: np.ndarray) -> np.ndarray:
        """The product of each row with u."""
        if self.columns is None or self.row is None:
            return self.values @ u
        return np.bincount(self.row, self.values * u[self.columns], self.n)


@savable()
@dataclass
class SDCA(Solver):
    """Stochastic dual coordinate ascent, exact and with a proven duality gap.

    It takes exact steps in one dual variable at a time. Linear machines use it by default unless C times
    the mean of ‖xᵢ‖², about the number of its epochs, is so large that the interior point is faster.

    Parameters
    ----------
    shrinking : bool, default=True
        Whether examples rest whose visits change nothing.
    lag : bool, default=True
        Whether changes along the direction that all rows share are answered late, which is faster.
        ``False`` is plain ascent.
    n_jobs : int, default=1
        The number of threads. They work on sparse data with more features than examples, in step with
        each other, and want a processor each. Other data is left to one.

    Notes
    -----
    ``SDCA(shrinking=False, lag=False)`` is Algorithm 1 of Hsieh et al. with random permutations: the
    dual value never falls. It has the losses hinge, squared hinge, log and (squared) ε-insensitive, and
    the intercepts "regularized", "unregularized" and "none".

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
    state_class = State
    warm = True
    exact = True
    steady = True

    def check(self, problem: Problem) -> None:
        """Refuse what this method cannot do, in one sentence each."""
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
        for name in ("shrinking", "lag"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")

    def can_go_on(self, problem: Problem, state: object) -> bool:
        """Whether the state is one of this method's, with a variable for each of as many examples and outputs."""
        return isinstance(state, State) and state.alpha.shape == (problem.n, problem.n_outputs)

    def first_slice(self, problem: Problem) -> int:
        """Visits that certainly take less than a slice."""
        return max(1, int(protocol.ENTRIES / (problem.mean_entries * problem.n_outputs)))

    def steps_per_epoch(self, problem: Problem) -> int:
        """A step is a visit."""
        return problem.n

    def sizes(self, problem: Problem) -> dict[str, int]:
        """With the entries that threads share; −1 for rows that they cannot."""
        X = problem.X
        return {**super().sizes(problem), "entries": X.indices.size if isinstance(X, CSRRows) else -1}

    # -- starting

    def init(self, problem: Problem, rng: np.random.Generator, duals: np.ndarray | None = None) -> State:
        """The state before the first visit: α = 0, or dual variables of shape (outputs, n), clipped into the box."""
        self.check(problem)
        n, d, outputs = problem.n, problem.d, problem.n_outputs
        wide = d > n
        threads = int(self.n_jobs) if wide and isinstance(problem.X, CSRRows) else 1
        dtype = problem.dtype if 8 * d * outputs > WIDE_WEIGHTS else np.dtype(np.float64)
        sums = [
            Sums(np.zeros((0 if wide else d, outputs)), np.zeros(outputs), np.zeros(outputs), np.zeros(1))
            for _ in range(2)
        ]
        state = State(
            examples=Examples(
                np.zeros((n, outputs)), np.full(n, -1.0), np.zeros(n), np.zeros(n, np.uint8), np.zeros(n, np.uint8)
            ),
            w=Weights(np.zeros((d, outputs), dtype), *np.zeros((3, outputs))),
            sums=sums[0],
            previous=sums[1],
            scores=np.zeros((EXCHANGED if threads > 1 else 0, outputs)),
            C=problem.C,
            U=np.empty((0, 1), dtype),
            eta=np.ones(outputs),
            order=np.arange(n, dtype=np.int32 if threads * n < 2**31 else np.int64),
            split=self._split(problem, threads),
            dual=np.full(outputs, -math.inf),
            base=problem.best_intercept(None) if problem.has_free_bias else np.zeros(outputs),
            rng=rng,
            seed=int(rng.integers(2**63)),
        )
        if duals is not None:
            state.alpha[:] = protocol.checked_duals(duals, outputs, n).T
        self.bind(problem, state)
        return state

    def _split(self, problem: Problem, threads: int) -> np.ndarray:
        """Where the threads' parts of the rows begin; they share the features evenly, by the entries of some rows."""
        X, n = problem.X, problem.n
        if threads == 1 or not isinstance(X, CSRRows):
            return np.empty(0, np.int64)
        some = [X.indices[X.indptr[i] : X.indptr[i + 1]] for i in range(0, n, -(-n // 64))]
        shares = np.arange(1, threads) / threads
        cuts = np.quantile(np.concatenate(some) if X.indices.size else [0.0], shares)
        split = np.empty(threads * n + 1, X.indptr.dtype)
        split_rows(X.indices, X.indptr, np.ceil(cuts).astype(X.indices.dtype), split)
        return split

    def bind(self, problem: Problem, state: State, in_order: bool = False) -> None:
        """Point a state at a problem with as many examples, perhaps of another λ: α is kept and w computed from it.

        α moves into the new box; what stood at the bound C sᵢ of the old one stands at the bound of the new one.
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
        state.sigma = 1.0
        state.split = self._split(problem, state.threads)
        state.awake = state.position = 0
        state.dual[:] = -math.inf
        state.checked, state.unlooked = state.counters.visits, 0
        self._refresh(problem, state)
        state.w.v[:] = state.w.r

    def _find_constant(self, problem: Problem, state: State) -> None:
        """Set κ²."""
        state.constant = float(problem.intercept == "regularized")
        if not problem.has_free_bias:
            return
        some = SomeRows.of(problem.X, -(-problem.n // MEAN_ROWS))
        box = problem.C * problem.mean_weight
        state.constant = max(sum_of_squares(some.values) / some.n, min(1.0 / box, FAR), FLAT)
        state.counters.feature_reads += some.values.size

    def _find_common_direction(self, problem: Problem, state: State) -> None:
        """Set u to the direction of the mean row with the constant feature, or of the latter alone on wide data."""
        constant = state.constant
        mean = np.zeros((0, 1), state.w.W.dtype)
        if self.lag and problem.d <= problem.n:
            some = SomeRows.of(problem.X, -(-problem.n // MEAN_ROWS))
            mean = some.mean(problem.d).astype(mean.dtype)[:, None]
            state.counters.feature_reads += 2 * some.values.size
        length = math.sqrt(sum_of_squares(mean) + constant)
        state.U, state.along, state.theta = mean[:0], 0.0, 0.0
        if not (self.lag and length > 0.0):
            return
        U, along = mean / mean.dtype.type(length), constant / length
        square = float(np.mean((some.scores(U[:, 0]) + along) ** 2)) if U.size else along**2
        if problem.C * problem.mean_weight * square >= LATE_FROM:
            state.U, state.along, state.theta = U, along, THETA

    def _refresh(self, problem: Problem, state: State) -> None:
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
        self, problem: Problem, state: State, alpha: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """(W, b) = (Σ αᵢxᵢ, b₀ + κ²Σ αᵢ) in float64, and the entries of X read."""
        W, alpha = np.zeros(state.w.W.shape), state.alpha if alpha is None else alpha
        reads = int(add_combination(problem.X, np.ascontiguousarray(alpha), np.empty(problem.n_outputs), W))
        return W, state.base + state.constant * alpha.sum(axis=0), reads

    # -- stepping

    def advance(self, problem: Problem, state: State, n_steps: int) -> int:
        """Make n_steps visits, in place."""
        if n_steps == 0:
            self._compile(problem, state)
            return 0
        left = n_steps
        with self._pool(state) as pool:
            while left > 0:
                if state.position == state.awake:
                    self._look(problem, state)
                left -= self._visit(problem, state, left) if pool is None else self._share(problem, state, left, pool)
                if state.position == state.awake and state.passes % REFRESH == 0 and state.w.W.dtype == np.float32:
                    self._refresh(problem, state)
        return n_steps

    @staticmethod
    def _pool(state: State) -> Any:
        """A context with the threads beside this one; none where it works alone."""
        return ThreadPoolExecutor(state.threads - 1) if state.threads > 1 else nullcontext()

    def _compile(self, problem: Problem, state: State) -> None:
        """Compile what a run on data of this kind calls, without a visit, if that has not been done."""
        X, target, late = problem.X, problem.target, self._is_looked_at(problem, state)
        dtypes = [part.dtype for part in (*X, state.order, state.w.W) if isinstance(part, np.ndarray)]
        kind = type(X), *dtypes, type(target), type(target.loss), problem.n_outputs > 1, state.threads > 1, late
        kind = *kind, problem.has_free_bias
        if kind in _compiled_for:
            return
        _compiled_for.add(kind)
        with self._pool(state) as pool:
            if pool is None:
                self._visit(problem, state, 0)
            else:
                self._visit_together(problem, state, 0, 0, pool)
                next_order(state.order[:0], state.examples.wait[:0], True, np.uint64(0), 0)
        nobody = state.alpha[:0]
        if late:
            self._dual(problem, nobody, state.w.W[:0], np.zeros(problem.n_outputs))
        if problem.has_free_bias:
            self.weights(problem, state)
        several = np.float64 if problem.n_outputs > 1 else state.w.W.dtype
        self._measures(problem, problem.y[:0], nobody, np.zeros((1, problem.n_outputs), several), state.w.b)
        if state.w.W.dtype == np.float32:
            add_combination(problem.X, nobody, np.empty(problem.n_outputs), np.zeros((1, problem.n_outputs)))

    def _rule(self, problem: Problem, state: State) -> Rule:
        """The values that shape visits now."""
        stride = max(8, problem.d // 4) if len(state.sums.W) else 0
        return Rule(problem.C, state.constant, state.along, state.theta, state.sigma, stride, state.eta)

    @staticmethod
    def _count(state: State, visits: int, updates: int, reads: int) -> None:
        """Add to the counters."""
        counters = state.counters
        counters.steps += visits
        counters.visits += visits
        counters.updates += updates
        counters.feature_reads += reads

    def _visit(self, problem: Problem, state: State, count: int) -> int:
        """Make ``count`` visits, or fewer if there is something to look at; returns how many."""
        at = np.array([state.awake, state.position, state.passes])
        visits = state.counters.visits
        looked_at = self._is_looked_at(problem, state)
        unchecked = state.checked + self._unlooked(problem, state) - visits if looked_at else count
        course = Course(state.order, at, np.uint64(state.seed), bool(self.shrinking), count, visits, unchecked)
        data = Data(problem.X, problem.y, problem.sample_weight, state.U)
        rule, space = self._rule(problem, state), Scratch(*np.zeros((3, problem.n_outputs)))
        examples, sums, previous = state.examples, state.sums, state.previous
        found = visit_passes(data, problem.target, course, rule, examples, state.w, sums, previous, space)
        state.awake, state.position, state.passes = at.tolist()
        self._count(state, *map(int, found))
        return int(found[0])

    def _share(self, problem: Problem, state: State, count: int, pool: Any) -> int:
        """:meth:`_visit` with all threads, up to the end of a pass."""
        if state.position == state.awake:
            wait, seed = state.examples.wait, np.uint64(state.seed)
            state.awake = int(next_order(state.order, wait, bool(self.shrinking), seed, state.passes))
            state.position = 0
        start, stop = state.position, min(state.position + count, state.awake)
        results = self._visit_together(problem, state, start, stop, pool)
        self._count(state, stop - start, int(results[0][0]), sum(int(reads) for _, reads in results))
        state.position = stop
        if stop == state.awake:
            state.passes += 1
        return stop - start

    def _visit_together(self, problem: Problem, state: State, start: int, stop: int, pool: Any) -> list:
        """(visits that changed something, entries read) by thread, for the places start … stop − 1 of the order."""
        X, order, w = problem.X, state.order[: state.awake], state.w
        outputs, threads, size = problem.n_outputs, state.threads, len(state.scores)
        X = CSRRows(X.data, X.indices, state.split, X.n_features)
        board = np.zeros((threads, 2, 8 * (1 + -(-size * outputs // 8))))
        data, rule = Data(X, problem.y, problem.sample_weight, state.U), self._rule(problem, state)
        span = Span(order, start, stop, state.counters.visits - start)
        calls, teams, copies = [], [], []
        for k in range(threads):
            parts = threads * order + order.dtype.type(k)
            alpha, q, own_parts = (unshared(np.zeros(shape)) for shape in ((size, outputs), size, size * outputs))
            turn = unshared(np.zeros(1, np.int64))
            teams.append(Team(k, parts, unshared(state.scores), alpha, q, own_parts, board, turn))
            copies.append(Weights(w.W, unshared(w.b), unshared(w.r), unshared(w.v)))
            space = Scratch(*unshared(np.zeros((3, outputs))))
            calls.append((data, problem.target, span, rule, teams[k], state.examples, copies[k], state.sums, space))
        results = self._together(calls, board, pool)
        # all threads have the same values
        for kept, new in zip(w[1:], copies[0][1:], strict=True):
            kept[:] = new
        state.scores[:] = teams[0].scores
        return results

    def _together(self, calls: list[tuple], board: np.ndarray, pool: ThreadPoolExecutor) -> list[tuple[int, int]]:
        """The results of all threads; this one is the first."""
        try:
            others = [pool.submit(visit_in_a_team, *call) for call in calls[1:]]
            return [visit_in_a_team(*calls[0]), *(other.result() for other in others)]
        except BaseException:
            board[:, :, 0] = -1.0  # or the others would wait for this thread for ever
            raise

    def _look(self, problem: Problem, state: State) -> None:
        """Look at D now and then, where it may fall; where it did, the next visits are more careful. A free intercept's
        b₀ moves.
        """
        looked_at = self._is_looked_at(problem, state)
        if not looked_at or state.counters.visits - state.checked < self._unlooked(problem, state):
            return
        state.checked = state.counters.visits
        dual = self._dual(problem, state.alpha, state.w.W, self._charge(state, state.w.b))
        fell = dual < state.dual - 1e-10 * np.abs(state.dual)  # beyond rounding
        state.eta[fell] = np.minimum(1.0, 4.0 * state.eta[fell])
        if fell.any():
            state.sigma = min(2.0 * state.sigma, float(max(1, len(state.scores))))
        state.dual[:] = dual
        few = int(UNLOOKED / (problem.mean_entries * problem.n_outputs))
        careful = state.threads > 1 or fell.any() or problem.has_free_bias
        state.unlooked = 0 if careful else min(2 * self._unlooked(problem, state), few)
        if problem.has_free_bias:
            ahead = state.w.b - state.base
            state.base += ahead
            state.w.b[:] += ahead
            state.dual -= ahead**2 / state.constant

    @staticmethod
    def _unlooked(problem: Problem, state: State) -> int:
        """Visits from one look at D to the next."""
        return max(problem.n, state.unlooked)

    @staticmethod
    def _may_fall(state: State) -> bool:
        """Whether a step may lower D: with late answers, or where several examples are answered at once."""
        return state.theta > 0.0 or state.threads > 1

    @classmethod
    def _is_looked_at(cls, problem: Problem, state: State) -> bool:
        """Whether something is to be done once an epoch."""
        return cls._may_fall(state) or problem.has_free_bias

    @staticmethod
    def _charge(state: State, b: np.ndarray) -> np.ndarray:
        """What intercepts add to ‖w‖² in the dual value: (b² − b₀²)/κ²."""
        base = state.base
        return (b - base) * ((b + base) / state.constant) if state.constant else 0.0 * b

    @staticmethod
    def _dual(problem: Problem, alpha: np.ndarray, W: np.ndarray, charge: Any) -> np.ndarray:
        """The dual value D/λ of each output, where w(α) = W beside an intercept that adds ``charge`` to ‖w‖²."""
        out = np.zeros(problem.n_outputs)
        add_conjugates(problem.target, problem.y, problem.sample_weight, problem.C, alpha, out)
        return out - 0.5 * (charge + np.einsum("jc,jc->c", W, W, dtype=np.float64))

    def _measures(self, problem: Problem, y: np.ndarray, alpha: np.ndarray, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """What :func:`add_measures` adds."""
        out, s, at = np.zeros((3, problem.n_outputs)), problem.sample_weight, Affine(W, b)
        add_measures(problem.X, problem.target, y, s, problem.C, alpha, at, np.empty(problem.n_outputs), out)
        return out

    # -- output

    def weights(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(W, b) that the solver stands for now: of shape (d, n_outputs) and (n_outputs,)."""
        W, b, lag = state.w.W, state.w.b, state.theta * (state.w.v - state.w.r)
        count = state.sums.samples[0] + state.previous.samples[0]
        if count > 0.0:
            W, b, lag = ((new + old) / count for new, old in zip(state.sums[:3], state.previous[:3], strict=True))
        W = W + state.U * lag if state.U.size else W.copy()
        W = W.astype(problem.dtype, copy=False)
        if problem.has_free_bias:
            return W, problem.best_intercept(W.astype(np.float64, copy=False))
        return W, b + state.along * lag

    def model(self, problem: Problem, state: State) -> LinearModel:
        """A finished copy of the current model."""
        W, b = self.weights(problem, state)
        return LinearModel(W.T, b)

    def duals(self, problem: Problem, state: State) -> np.ndarray:
        """The dual variables α, of shape (outputs, n); they sum to 0 where the intercept is free."""
        return (balanced(state.alpha) if problem.has_free_bias else state.alpha).T

    def certificate(self, problem: Problem, state: State) -> Certificate:
        """Primal value of the weights, dual value of α itself or of zero, whichever is larger, and their difference.

        The dual value is lowered by what rounding may have added to the difference.
        """
        W, b = self.weights(problem, state)
        alpha, free = self.duals(problem, state).T, problem.has_free_bias
        # scores are computed in float64; very many weights of a single output are read in float32 all the same
        W = W.astype(np.float64 if problem.n_outputs > 1 else state.w.W.dtype, copy=False)
        loss, gain, inner = self._measures(problem, problem.y, alpha, W, b).sum(axis=1)
        penalty = problem.penalty(W, b)
        primal = penalty + float(loss) / problem.n
        # ‖w(α)‖² to first order in what rounding has made of w: at most a unit of its last place with each update
        norm2, drift = sum_of_squares(state.w.W), np.finfo(state.w.W.dtype).eps * (1 + state.counters.updates)
        doubt = 2.0 * drift * norm2
        if not len(state.sums.W):  # the scores are those of w itself: what is left out is of second order
            norm2, doubt = 2.0 * float(inner) - norm2, drift**2 * norm2
        lost = problem.lost_by_rounding(penalty, b, float(loss) / problem.n, self._lengths(problem, state))
        lost += problem.lam * rounding_of_sum(problem.n) * abs(float(gain))
        norm2 += float(self._charge(state, state.w.b).sum())
        dual, doubt = problem.lam * (float(gain) - 0.5 * norm2), 0.5 * problem.lam * doubt
        if free or not doubt <= NEGLIGIBLE * (primal - dual):
            A, b, _ = self._combined(problem, state, alpha)
            dual = problem.lam * float(self._dual(problem, alpha, A, 0.0 if free else self._charge(state, b)).sum())
            doubt = problem.lam * self._drift(problem, state, alpha, A)
        # no loss is negative, so 0 is a dual value too; late answers may take α below it for a while
        dual = max(0.0, dual - doubt - lost)
        return Certificate(primal, dual, primal - dual)

    @staticmethod
    def _lengths(problem: Problem, state: State) -> np.ndarray:
        """‖xᵢ‖² of all rows, perhaps more by κ²."""
        q = state.examples.q
        return q if q.min() >= 0.0 else problem.squared_lengths()

    def _drift(self, problem: Problem, state: State, alpha: np.ndarray, A: np.ndarray) -> float:
        """What rounding may take from ½‖w(α)‖² for a w(α) = A that was just summed up."""
        most = rounding_of_sum(problem.n) * float(np.abs(alpha).sum(axis=1) @ np.sqrt(self._lengths(problem, state)))
        return most * (math.sqrt(sum_of_squares(A)) + 0.5 * most)


def balanced(alpha: np.ndarray) -> np.ndarray:
    """α of shape (n, outputs) whose heavier sign is made lighter by one factor, so that each output's sum is 0."""
    heavy, light = np.maximum(alpha, 0.0).sum(axis=0), -np.minimum(alpha, 0.0).sum(axis=0)
    least, alpha = np.minimum(heavy, light), alpha.copy()
    for side, total in ((alpha > 0.0, heavy), (alpha < 0.0, light)):
        factor = np.divide(least, total, out=np.ones_like(total), where=total > 0.0)
        alpha = np.where(side, alpha * factor, alpha)
    return alpha
