"""SIMBA: a linear SVM learnt from single rows and columns, for features that are expensive to look at.

The slack-constrained form. With labels folded into unit rows, zᵢ = yᵢxᵢ/R where R = max ‖xᵢ‖,

    max over ‖w‖ ≤ 1, |b| ≤ 1, ξ ∈ Ξ of min over i of ⟨w, zᵢ⟩ + yᵢb + ξᵢ,      Ξ = {0 ≤ ξ ≤ 2, Σ sᵢξᵢ ≤ nν},

is a game between (w, b, ξ) and a distribution p over the examples (Hazan, Koren and Srebro, 2011, Algorithm 1). A step

1. draws i ∝ p, *reads row i* and takes a step of w along zᵢ; w goes back to the ball, u keeps what it was:
   u += zᵢ/√(2t) ("adaptive"), u = Σ z/√(2t) ("averaging") or u = Σ z/√(2T) ("fixed", as printed), w = u/max(1, ‖u‖);
2. answers p by the best slack, 2 on the largest p until the mass nν is spent, where equal ones share what is left for
   them, and the best bias, the sign of Σ pᵢyᵢ;
3. draws j ∝ w_j² (or |w_j|, or |w_j| times the root mean square of feature j), *reads column j*, and multiplies every
   qᵢ by 1 − η vᵢ + η² vᵢ² (or exp(−η vᵢ)), where vᵢ = zᵢ(j) w_j/P(j) + ξᵢ + yᵢb, clipped to ±1/η, estimates the value
   of example i without bias but for the clipping; η = √(log n/t), or √(log n/T). p is q over its sum.

The predictor is the average of (w, b), divided by its water level at nν, as in the Stochastic Batch Perceptron.

Work. Dense: one sweep over a row, which sums the weights of columns by blocks as it goes, and one over a column, which
sums importance; the factors of importance have the precision of the data, importance and weights that of float64.
Sparse: entries of the row and the column, and the examples with slack; any other example changes by the factor of its
class alone, which is kept aside (two sides, one for each class). Examples and columns are drawn by three levels of
blocks (:mod:`widemargin.core.sampler`), slack finds the largest q by the tops of blocks (:mod:`widemargin.core.cover`).
A regularised intercept is a constant feature, which nobody has to read. Averages are lazy: with w_t = a_t U_t,
U_t = U_{t−1} + g_t and A_t = a_1 + … + a_t, Σ w = A_T U_T − Σ A_{t−1} g_t.

E. Hazan, T. Koren, N. Srebro: Beating SGD: Learning SVMs in Sublinear Time. NIPS 24 (2011).
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..arguments import not_negative, positive, whole
from ..core import losses
from ..core.borrowing import borrow
from ..core.columns import as_columns
from ..core.cover import find_tops, take_sums, tops_of
from ..core.dispatch import apart, compiled, generic, inlined
from ..core.exp import exp_near_0
from ..core.extremes import larger, smaller
from ..core.importance import (
    EQUAL,
    LEAST,
    Examples,
    Scratch,
    Side,
    draw_example,
    give_slack,
    mass_of,
    multiply_out,
    put,
    side_of,
)
from ..core.rows import CSRRows, DenseRows, row_norms2, row_size
from ..core.sampler import (
    NARROW,
    WIDE,
    Sampler,
    block_of,
    blocks,
    change_weight,
    draw_block,
    draw_index,
    sampler_of,
    settle,
    sum_all,
    sum_sums,
    total_weight,
)
from ..core.sources import Remote
from ..core.water_level import pour, room
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Problem
from ..problems.objective import Certificate, sum_of_squares
from ..schemas import Array, Own, maybe
from . import make, protocol
from .protocol import Solver

#: Forms of the primal step.
PRIMALS = ("adaptive", "averaging", "fixed")
#: Factors of importance.
DUALS = ("quadratic", "exponential")
#: Rules by which columns are drawn.
RULES = ("squared", "absolute", "scaled")
#: Columns with more than one entry for so many examples are followed by a sweep over all of them.
MANY = 8
#: Steps along dense columns between two looks for importance below its least; a step takes a factor e off it at most.
LIFTED = 64
#: Sums and scales beyond this and its inverse are multiplied out.
SPREAD = 1e-40


class Rules(NamedTuple):
    """Parameters as numbers: places in PRIMALS, DUALS and RULES, T, what is fixed, two intercepts, nν, 1/R, log n."""

    primal: int
    dual: int
    columns: int
    horizon: float
    fixed_rate: bool
    has_bias: bool
    has_constant: bool
    slack: float
    inverse_size: float
    log_n: float


class Directions(NamedTuple):
    """U and what its lazy average lags behind, the same in coefficients of the examples; draws of columns; rms."""

    sums: np.ndarray
    lag: np.ndarray
    coefficients: np.ndarray
    coefficients_lag: np.ndarray
    sampler: Sampler
    rms: np.ndarray


class Reads(NamedTuple):
    """Which rows and columns were read; counts of stored entries, of n + d, of entries read for the first time, and of
    the rows and the columns read.
    """

    rows: np.ndarray
    columns: np.ndarray
    counts: np.ndarray


class Course(NamedTuple):
    """The scalars of a run: steps, ‖U‖², Σ a, Σ b, and the importance at which slack began."""

    t: int
    norm2: float
    total: float
    bias: float
    threshold: float


# ---------------------------------------------------------------- importance


@inlined
def factor_of(z, dual):
    """What importance is multiplied by for the value z, clipped to ±1: 1 − z + z², or exp(−z)."""
    z = min(max(z, -1.0), 1.0)
    return 1.0 - z + z * z if dual == 0 else exp_near_0(-z)


@apart
def sweep(S, s, y, values, share, shift, dual, lift):
    """Multiply all importance of a side by its factors for y (share × values + shift), and sum it by blocks.

    Factors have the precision of the values. ``lift`` first brings importance to its least, where it is lower.
    """
    number, sampler = values.dtype.type, S.sampler
    if lift:
        for i in range(S.q.size):
            if 0.0 < S.q[i] < LEAST:  # 0 stands for examples of the other side
                S.q[i] = LEAST
    share, shift, one = number(share), number(shift), number(1.0)
    for k in range(sampler.fine.size):
        q, x, signs = block_of(S.q, k, sampler.shift), block_of(values, k, sampler.shift), block_of(y, k, sampler.shift)
        total = 0.0
        if dual == 0:  # each form in a loop of its own uses vectors
            for i in range(q.size):
                z = smaller(larger(signs[i] * (share * x[i] + shift), -one), one)
                q[i] *= z * z - z + one
                total += q[i]
        else:
            for i in range(q.size):
                q[i] *= exp_near_0(smaller(larger(signs[i] * (-share * x[i] - shift), -one), one))
                total += q[i]
        sampler.fine[k] = total
    if s.size:
        for i in range(S.q.size):
            sampler.weights[i] = s[i] * S.q[i]
        sum_all(sampler)
        find_tops(S.tops, S.q)
    else:
        sum_sums(sampler)
        take_sums(S.tops, sampler)


@generic
def reweigh(columns, places, shares, eta, dual, b, E, scratch, count, t):
    """Multiply every qᵢ by its factor, for vᵢ = yᵢ (Σ shares × the columns' entries + b) + ξᵢ."""


@reweigh.case(DenseRows)
def _(columns, places, shares, eta, dual, b, E, scratch, count, t):
    S, touched, before, mixed = E.first, scratch.touched, scratch.keys, scratch.mixed
    for k in range(count):
        before[k] = S.q[touched[k]]
    lift = t % LIFTED == 0
    if places.size == 1:
        sweep(S, E.s, E.y, columns.values[places[0]], eta * shares[0], eta * b, dual, lift)
    else:
        mix_columns(columns, places, shares, mixed)
        sweep(S, E.s, E.y, mixed, eta, eta * b, dual, lift)
    for k in range(count):  # those with slack once more
        i = touched[k]
        x = shares[0] * columns.values[places[0], i] if places.size == 1 else mixed[i]
        put(S, E.s, i, max(before[k] * factor_of(eta * (E.y[i] * (x + b) + scratch.v[i]), dual), LEAST))
        scratch.v[i] = 0.0
        scratch.marked[i] = False


@reweigh.case(CSRRows)
def _(columns, places, shares, eta, dual, b, E, scratch, count, t):
    entries, v, touched = count, scratch.v, scratch.touched
    for r in range(places.size):
        entries += row_size(columns, places[r])
    if MANY * entries < E.y.size:
        reweigh_few(columns, places, shares, eta, dual, b, E, scratch, count)
        return
    for k in range(count):
        v[touched[k]] *= E.y[touched[k]]  # the sweep multiplies by it once more
        scratch.marked[touched[k]] = False
    for r in range(places.size):
        for p in range(columns.indptr[places[r]], columns.indptr[places[r] + 1]):
            v[columns.indices[p]] += shares[r] * columns.data[p]
    for k in range(2):
        S = E.first if k == 0 else E.second
        sweep(S, E.s, E.y, v, eta, eta * b, dual, True)
    for i in range(v.size):
        v[i] = 0.0


@inlined
def mix_columns(columns, places, shares, mixed):
    """mixed ← Σ shares × columns."""
    mixed[:] = 0.0
    for r in range(places.size):
        column, share = columns.values[places[r]], mixed.dtype.type(shares[r])
        for i in range(mixed.size):
            mixed[i] += share * column[i]


@inlined
def reweigh_few(columns, places, shares, eta, dual, b, E, scratch, count):
    """The same where few examples have entries or slack; the others change by the factors of their sides."""
    v, touched = scratch.v, scratch.touched
    for r in range(places.size):
        j = places[r]
        for p in range(columns.indptr[j], columns.indptr[j + 1]):
            i = columns.indices[p]
            if not scratch.marked[i]:
                scratch.marked[i] = True
                touched[count] = i
                count += 1
            v[i] += shares[r] * E.y[i] * columns.data[p]
    # what an intercept alone does to an example of the first side (y = 1, if there is one) and of the second
    factors = (factor_of(eta * b, dual), factor_of(-eta * b, dual))
    E.first.scale[0] *= factors[0]
    E.second.scale[0] *= factors[1]
    for k in range(count):
        i = touched[k]
        S = side_of(E, i)
        factor = factor_of(eta * (v[i] + b * E.y[i]), dual) / factors[E.side[i]]
        put(S, E.s, i, max(S.q[i] * factor, LEAST))
        v[i] = 0.0
        scratch.marked[i] = False
    settle(E.first.sampler)
    settle(E.second.sampler)


# ---------------------------------------------------------------- directions


@inlined
def column_weight(u, rms, j, rule):
    """What the chance of column j is in proportion to."""
    if rule == 0:
        return u * u
    return abs(u) if rule == 1 else abs(u) * rms[j]


@inlined
def weigh_block(D, k, rule):
    """Let the sampler have the weights of block k of the columns."""
    U, weights = block_of(D.sums, k, D.sampler.shift), block_of(D.sampler.weights, k, D.sampler.shift)
    first = k << D.sampler.shift
    for j in range(U.size):
        weights[j] = column_weight(U[j], D.rms, first + j, rule)


@generic
def draw_column(rows, u, rule, D):
    """The column that the uniform number u chooses; −1 while all have the weight 0."""


@draw_column.case(DenseRows)
def _(rows, u, rule, D):
    block, _ = draw_block(D.sampler, u)
    if block >= 0:  # steps along dense rows keep the sums alone
        weigh_block(D, block, rule)
        block = draw_index(D.sampler, u)
    return block


@draw_column.case(CSRRows)
def _(rows, u, rule, D):
    return draw_index(D.sampler, u)


@generic
def step_along(rows, place, c, before, norm2, rule, D):
    """U += c × a row, and the lag of its average; returns ‖U‖², which was ``norm2``."""


@step_along.case(DenseRows)
def _(rows, place, c, before, norm2, rule, D):
    row, S, shift, late = rows.values[place], D.sampler, D.sampler.shift, before * c
    norm2 = 0.0
    for k in range(S.fine.size):
        x, U, lag = block_of(row, k, shift), block_of(D.sums, k, shift), block_of(D.lag, k, shift)
        squares, total = 0.0, 0.0
        if rule == 0:  # each rule in a loop of its own uses vectors
            for j in range(x.size):
                U[j] += c * x[j]
                lag[j] += late * x[j]
                squares += U[j] * U[j]
            total = squares
        elif rule == 1:
            for j in range(x.size):
                U[j] += c * x[j]
                lag[j] += late * x[j]
                squares += U[j] * U[j]
                total += abs(U[j])
        else:
            rms = block_of(D.rms, k, shift)
            for j in range(x.size):
                U[j] += c * x[j]
                lag[j] += late * x[j]
                squares += U[j] * U[j]
                total += abs(U[j]) * rms[j]
        for j in range(x.size, U.size):  # the constant feature
            squares += U[j] * U[j]
            total += column_weight(U[j], D.rms, (k << shift) + j, rule)
        S.fine[k] = total
        norm2 += squares
    sum_sums(S)
    return norm2


@step_along.case(CSRRows)
def _(rows, place, c, before, norm2, rule, D):
    for p in range(rows.indptr[place], rows.indptr[place + 1]):
        norm2 += step_along_one(rows.indices[p], c * rows.data[p], before, rule, D)
    settle(D.sampler)
    return norm2


@inlined
def step_along_one(j, x, before, rule, D):
    """U_j += x, and the lag of its average; returns by how much ‖U‖² grew."""
    grown = x * (2.0 * D.sums[j] + x)
    D.sums[j] += x
    D.lag[j] += before * x
    change_weight(D.sampler, j, column_weight(D.sums[j], D.rms, j, rule))
    return grown


#: Places in the counts of reads.
STORED, DENSE, FIRST, ROWS, COLUMNS = range(5)


@generic
def count_reads(lines, places, names, across, seen, others, counts, own):
    """Count the stored entries of these rows or columns, and those that were not read before in any way.

    ``own`` is the place where rows, or columns, are counted that were read.
    """


@count_reads.case(DenseRows)
def _(lines, places, names, across, seen, others, counts, own):
    for name in names:
        counts[STORED] += lines.values.shape[1]
        counts[DENSE] += across
        if not seen[name]:
            seen[name] = True
            counts[own] += 1
            counts[FIRST] += others.size - counts[ROWS + COLUMNS - own]


@count_reads.case(CSRRows)
def _(lines, places, names, across, seen, others, counts, own):
    for r in range(names.size):
        place = places[r]
        counts[STORED] += row_size(lines, place)
        counts[DENSE] += across
        if not seen[names[r]]:
            seen[names[r]] = True
            counts[own] += 1
            for p in range(lines.indptr[place], lines.indptr[place + 1]):
                counts[FIRST] += not others[lines.indices[p]]


# ---------------------------------------------------------------- steps


@inlined
def primal_step(rows, places, drawn, rules, E, D, course):
    """A step of w along the rows drawn; returns the course and the multiple a of U that is w."""
    t = course.t + 1
    c = 1.0 / drawn.size
    if rules.primal == 0:
        c /= math.sqrt(2.0 * t)
    norm2 = course.norm2
    for r in range(drawn.size):
        i = drawn[r]
        share = c * E.y[i] * rules.inverse_size
        norm2 = step_along(rows, places[r], share, course.total, norm2, rules.columns, D)
        if rules.has_constant:
            norm2 += step_along_one(D.sums.size - 1, share, course.total, rules.columns, D)
        D.coefficients[i] += c
        D.coefficients_lag[i] += course.total * c
    if rules.columns == 0:
        norm2 = total_weight(D.sampler)
    norm2 = max(norm2, 0.0)
    a = 1.0
    if rules.primal > 0:
        a = 1.0 / math.sqrt(2.0 * (t if rules.primal == 1 else rules.horizon))
    a /= max(1.0, a * math.sqrt(norm2))
    return Course(t, norm2, course.total + a, course.bias, course.threshold), a


@inlined
def bias_of(rules, E):
    """The best bias against p: the sign of Σ pᵢyᵢ, 0 where that is 0 up to rounding."""
    if not rules.has_bias:
        return 0.0
    if E.second.q.size:
        balance = mass_of(E.first) - mass_of(E.second)
    else:
        balance = 0.0
        for i in range(E.y.size):
            balance += E.first.sampler.weights[i] * E.y[i]
    if abs(balance) <= EQUAL * (mass_of(E.first) + mass_of(E.second)):
        return 0.0
    return 1.0 if balance > 0.0 else -1.0


@inlined
def draw_columns(rows, uniforms, a, rules, D, places, shares):
    """Columns and what their entries are multiplied by: w_j/(R m P(j)); none while w = 0.

    Returns how many, and the share of the constant feature, which is no column to be read but adds to the bias.
    """
    total, count, constant = total_weight(D.sampler), 0, 0.0
    for r in range(uniforms.size):
        j = draw_column(rows, uniforms[r], rules.columns, D)
        if j >= 0:
            chance = D.sampler.weights[j] / total
            share = a * D.sums[j] * rules.inverse_size / (uniforms.size * chance)
            if rules.has_constant and j == D.sums.size - 1:
                constant += share
            else:
                places[count], shares[count] = j, share
                count += 1
    return count, constant


@inlined
def rate(rules, t):
    """η."""
    return math.sqrt(rules.log_n / (rules.horizon if rules.fixed_rate else t))


@inlined
def keep_in_range(E, course):
    """Multiply sums and scales out where numbers grow large or small."""
    total = mass_of(E.first) + mass_of(E.second)
    scales = E.first.scale[0], E.second.scale[0]
    lowest, largest = min(total, scales[0], scales[1]), max(total, scales[0], scales[1])
    if lowest > SPREAD and largest < 1.0 / SPREAD:
        return course
    multiply_out(E.first, E.s, 1.0 / total)
    multiply_out(E.second, E.s, 1.0 / total)
    return Course(course.t, course.norm2, course.total, course.bias, course.threshold / total)


class Reply(NamedTuple):
    """What a step has found before it reads columns: how many have slack, where that begins, the bias and what a
    constant feature adds to it, and how many columns to read.
    """

    touched: int
    threshold: float
    bias: float
    constant: float
    n_columns: int


@inlined
def choose_rows(E, uniforms, drawn):
    """Draw examples, whose rows the step reads."""
    for r in range(drawn.size):
        drawn[r] = draw_example(E, uniforms[r])


@inlined
def move(rows, places, drawn, rules, E, D, reads, course, choice, scratch):
    """The best slack and bias against p, the step of w along the rows at these places, and a choice of columns."""
    count_reads(rows, places, drawn, D.sums.size - rules.has_constant, reads.rows, reads.columns, reads.counts, ROWS)
    touched, threshold = give_slack(E, rules.slack, course.threshold, scratch)
    b = bias_of(rules, E)
    course, a = primal_step(rows, places, drawn, rules, E, D, course)
    n_columns, constant = draw_columns(rows, choice.uniforms, a, rules, D, choice.columns, choice.shares)
    return course, Reply(touched, threshold, b, constant, n_columns)


@inlined
def answer(columns, places, choice, rules, E, reads, course, reply, scratch):
    """The change of importance by the columns at these places."""
    names, shares = choice.columns[: reply.n_columns], choice.shares[: reply.n_columns]
    count_reads(columns, places, names, E.y.size, reads.columns, reads.rows, reads.counts, COLUMNS)
    eta, b = rate(rules, course.t), reply.bias + reply.constant
    reweigh(columns, places, shares, eta, rules.dual, b, E, scratch, reply.touched, course.t)
    return keep_in_range(E, Course(course.t, course.norm2, course.total, course.bias + reply.bias, reply.threshold))


class Choice(NamedTuple):
    """Random numbers for the columns of a step, the columns that they choose, and what these are multiplied by."""

    uniforms: np.ndarray
    columns: np.ndarray
    shares: np.ndarray


@compiled
def take_steps(rows, columns, rules, E, D, reads, course, uniforms, n_rows, scratch):
    """As many steps as ``uniforms`` has rows, each with ``n_rows`` rows and the others columns."""
    rows, columns, E, D, reads, scratch = (
        borrow(rows), borrow(columns), borrow(E), borrow(D), borrow(reads), borrow(scratch),
    )  # fmt: skip
    drawn, n_columns = np.empty(n_rows, np.int64), uniforms.shape[1] - n_rows
    chosen, shares = np.empty(n_columns, np.int64), np.empty(n_columns)
    for step in range(uniforms.shape[0]):
        choice = Choice(uniforms[step, n_rows:], chosen, shares)
        choose_rows(E, uniforms[step], drawn)
        course, reply = move(rows, drawn, drawn, rules, E, D, reads, course, choice, scratch)
        places = chosen[: reply.n_columns]
        course = answer(columns, places, choice, rules, E, reads, course, reply, scratch)
    return course.t, course.norm2, course.total, course.bias, course.threshold


# the same three, one at a time, for data that Python has to fetch; they return plain tuples
choose_rows_now = compiled(choose_rows)


@compiled
def move_now(rows, places, drawn, rules, E, D, reads, course, choice, scratch):
    """:func:`move`, which returns the fields of :class:`Course` and of :class:`Reply`."""
    new, reply = move(rows, places, drawn, rules, E, D, reads, course, choice, scratch)
    found = (reply.touched, reply.threshold, reply.bias, reply.constant, reply.n_columns)
    return (new.t, new.norm2, new.total, new.bias, new.threshold), found


@compiled
def answer_now(columns, places, choice, rules, E, reads, course, reply, scratch):
    """:func:`answer`, which returns the fields of :class:`Course`."""
    new = answer(columns, places, choice, rules, E, reads, course, reply, scratch)
    return new.t, new.norm2, new.total, new.bias, new.threshold


def take_remote_steps(
    remote: Remote, rules: Rules, E: Examples, D: Directions, reads: Reads, course: Course, uniforms: np.ndarray,
    n_rows: int, scratch: Scratch,
) -> Course:  # fmt: skip
    """The steps of :func:`take_steps` on data that is fetched row by row and column by column."""
    n_columns = uniforms.shape[1] - n_rows
    drawn, places = np.empty(n_rows, np.int64), np.arange(max(n_rows, n_columns))
    for step in range(len(uniforms)):
        choice = Choice(uniforms[step, n_rows:], np.empty(n_columns, np.int64), np.empty(n_columns))
        choose_rows_now(E, uniforms[step], drawn)
        rows = remote.rows(drawn)
        moved, found = move_now(rows, places[:n_rows], drawn, rules, E, D, reads, course, choice, scratch)
        course, reply = Course(*moved), Reply(*found)
        columns = remote.columns(choice.columns[: reply.n_columns])
        course = Course(
            *answer_now(columns, places[: reply.n_columns], choice, rules, E, reads, course, reply, scratch)
        )
    return course


# ---------------------------------------------------------------- the solver

#: Examples of the sample that finds ν, half of them to train on, and passes over it.
SAMPLE = 2000
SAMPLE_EPOCHS = 50
#: Rows that are read to find sizes, ν and the level where a pass over the data is not to be had.
LOOKED_AT = 1000
#: Steps whose random numbers are drawn at a time.
AT_ONCE = 4096
ONE = losses.Single(losses.Hinge())


def stored_entries(X: DenseRows | CSRRows) -> int:
    """How many entries of a matrix are stored."""
    return X.data.size if isinstance(X, CSRRows) else X.values.size


def longest(lines: DenseRows | CSRRows) -> int:
    """The largest number of stored entries in a row."""
    return int(np.diff(lines.indptr).max(initial=0)) if isinstance(lines, CSRRows) else lines.values.shape[1]


@savable()
@dataclass
class ReadCounters(Counters):
    """Counters of a solver that reads single rows and columns.

    Attributes
    ----------
    feature_reads_dense : int
        The other way to count: d for each row and n for each column, whatever is stored.
    first_reads : int
        Stored entries that steps read for the first time, by row or by column.
    preparation_reads : int
        Stored entries read to find the size of the rows, ν, the size of the columns and the final level. Evaluation at
        checkpoints is not counted, as in all solvers.
    """

    feature_reads_dense: int = 0
    first_reads: int = 0
    preparation_reads: int = 0


_OF_SIDE, _EXAMPLES, _COLUMNS = Array("outputs", "sides"), Array("outputs", "n"), Array("outputs", "width")


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    with np.errstate(over="ignore", invalid="ignore"):
        importance = (state.scale[:, :, None] * state.q).sum(axis=(1, 2))
    wrong = importance[~((importance > 0.0) & (importance < np.inf))]
    return f"the importance of all examples is {wrong[0]}" if wrong.size else None


@savable(
    "Simba.State", q=Array("outputs", "sides", "n", low=0.0), scale=_OF_SIDE, law=_law,
    fine=Array("outputs", "sides", "blocks"), coarse=Array("outputs", "sides", "upper"),
    changes=Array("outputs", "sides", 1, dtype=np.int64, low=0), sums=_COLUMNS, lag=_COLUMNS,
    coefficients=_EXAMPLES, coefficients_lag=_EXAMPLES,
    column_fine=Array("outputs", "column_blocks"), column_coarse=Array("outputs", "column_upper"),
    column_changes=Array("outputs", 1, dtype=np.int64, low=0), course=Array("outputs", 5),
    rows_read=Array("n", dtype=np.bool_), columns_read=Array("d", dtype=np.bool_), nu=Array("outputs"),
    rms=Array((0, "width")), level_rows=Array(None, dtype=np.int64, low=0, high="n-1", distinct=True),
    counters=Own(Counters), ascent=maybe(Own(protocol.State, n="n", d="d", outputs="outputs")),
)  # fmt: skip
@dataclass
class State(protocol.State):
    """A run; the first axis is that of the outputs, the second of the importance that of the sides."""

    #: Importance, its scale, and the sums that draws go by; weights are apart only where examples have some.
    q: np.ndarray
    scale: np.ndarray
    fine: np.ndarray
    coarse: np.ndarray
    changes: np.ndarray
    #: U, the lag of its average, the same in coefficients of the examples, and the sums that draws of columns go by.
    sums: np.ndarray
    lag: np.ndarray
    coefficients: np.ndarray
    coefficients_lag: np.ndarray
    column_fine: np.ndarray
    column_coarse: np.ndarray
    column_changes: np.ndarray
    #: Steps, ‖U‖², Σ a, Σ b and the importance at which slack began, by output.
    course: np.ndarray
    #: Rows and columns that were read.
    rows_read: np.ndarray
    columns_read: np.ndarray
    #: R, ν and the root mean squares of the columns.
    size: float
    nu: np.ndarray
    rms: np.ndarray
    #: The examples that are looked at as a whole, all if there are none.
    level_rows: np.ndarray
    rng: np.random.Generator
    counters: Any = field(default_factory=ReadCounters)
    #: SDCA's state, once it has taken over.
    ascent: Any = None

    resumes = False

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether rounding allows no further progress."""
        return self.ascent is not None and self.ascent.stalled

    def drop_workspace(self) -> None:
        """Give the workspace's memory back."""
        super().drop_workspace()
        if self.ascent is not None:
            self.ascent.drop_workspace()


@dataclass
class Workspace:
    """The columns of the data, the problem of the examples looked at, and what compiled steps see, by output."""

    columns: DenseRows | CSRRows | None
    part: Problem
    examples: list[Examples]
    directions: list[Directions]
    scratch: Scratch


@savable()
@dataclass
class Simba(Solver):
    """SIMBA: linear classifiers learnt from one row and one column per step.

    It solves the slack-constrained form. Use it where looking at a feature is what costs, with a
    :class:`Source`.

    Parameters
    ----------
    nu : float or None, default=None
        The mean slack per example, for a margin of rows of size 1. None finds the ν of the problem's C
        on a sample.
    primal : {"adaptive", "averaging", "fixed"}, default="adaptive"
        The step of w. zᵢ/√(2t) is added, or the sum of all z is divided by √(2t), or by √(2T) as
        printed in the paper.
    dual : {"quadratic", "exponential"}, default="quadratic"
        The factor of an example's importance: 1 − ηv + η²v², or exp(−ηv).
    rate : {"adaptive", "fixed"}, default="adaptive"
        The rate η: √(log n/t), or √(log n/T).
    columns : {"squared", "absolute", "scaled"}, default="squared"
        How columns are drawn: in proportion to wⱼ², to the size of wⱼ, or to the size of wⱼ times the
        root mean square of feature j, which takes a pass over the data.
    horizon : int or None, default=None
        The number of steps T, for what is "fixed".
    rows_per_step : int, default=1
        The number of rows drawn in each step; w takes their mean.
    columns_per_step : int, default=1
        The number of columns drawn in each step; v takes their mean.
    size : float or None, default=None
        An upper bound of the norms of the rows, with the constant 1 of a regularised intercept. None
        takes a pass to find it.
    level_sample : int or None, default=None
        The number of examples on which the final level and the objective are found. Nothing else is
        read then, and nothing is certified. None takes all, or 1,000 of data that is not in memory.
    ascent_after : int or None, default=None
        The number of steps after which dual ascent (SDCA) goes on from the rows drawn, to a proven gap.
        An epoch of it reads all rows. None never does.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Simba
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> solver = Simba(nu=1e-3, rows_per_step=4)
    >>> model = LinearSVC(solver=solver, tol=0, max_iter=5, random_state=0).fit(X, y)
    >>> model.stop_reason_
    'max_iter'
    """

    nu: float | None = None
    primal: str = "adaptive"
    dual: str = "quadratic"
    rate: str = "adaptive"
    columns: str = "squared"
    horizon: int | None = None
    rows_per_step: int = 1
    columns_per_step: int = 1
    size: float | None = None
    level_sample: int | None = None
    ascent_after: int | None = None

    state_class = State
    remote = True

    @property
    def form(self) -> str:  # type: ignore[override]
        """With a ν of its own it does not look at C."""
        return "C" if self.nu is None or self.ascent_after is not None else "nu"

    @property
    def minimises(self) -> bool:  # type: ignore[override]
        """Whether its aim is the objective: that of dual ascent is."""
        return self.ascent_after is not None

    @property
    def _sdca(self) -> Any:
        return make("linear", "sdca")

    def certifies(self, problem: Problem) -> bool:
        """What is not looked at as a whole is not certified."""
        return self._looked_at(problem) == problem.n

    def _looked_at(self, problem: Problem) -> int:
        """How many examples are looked at as a whole."""
        if self.level_sample is not None:
            return min(self.level_sample, problem.n)
        return problem.n if problem.is_open else min(LOOKED_AT, problem.n)

    def most_reads(self, problem: Problem) -> int:
        """Stored entries that a step may read."""
        if isinstance(problem.X, Remote):
            row, column = problem.d, problem.n
        else:
            row = longest(problem.X)
            # a column of sparse rows may have them all
            column = longest(problem.columns) if problem.columns is not None else problem.n
        return problem.n_outputs * (self.rows_per_step * row + self.columns_per_step * column)

    def check(self, problem: Problem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        if problem.is_joint or not isinstance(losses.scalar_loss(problem.target), losses.Hinge):
            raise ValueError(
                "Simba solves the hinge loss, each output apart: use loss='hinge' with multi_class='ovr', or SDCA"
            )
        if problem.intercept not in ("none", "regularized", "unregularized"):
            raise ValueError(
                "Simba has the intercepts 'regularized', 'unregularized' and 'none', "
                f"got {problem.intercept!r}: use one of them, or Pegasos"
            )
        for name, known in (("primal", PRIMALS), ("dual", DUALS), ("columns", RULES), ("rate", ("adaptive", "fixed"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if "fixed" in (self.primal, self.rate) and not (
            isinstance(self.horizon, (int, np.integer)) and self.horizon > 0
        ):
            raise ValueError(
                "primal='fixed' and rate='fixed' need the number of steps: set horizon to an integer ≥ 1, "
                f"got {self.horizon!r}"
            )
        if self.nu is not None and not_negative("nu", self.nu) > 1.0:
            raise ValueError(f"nu must be a number from 0 to 1, got {self.nu!r}")
        for name in ("rows_per_step", "columns_per_step"):
            whole(name, getattr(self, name))
        if self.size is not None:
            positive("size", self.size)
        for name in ("level_sample", "ascent_after"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.ascent_after is not None:
            self._check_ascent(problem)

    def _check_ascent(self, problem: Problem) -> None:
        """Refuse dual ascent where it cannot go."""
        if isinstance(problem.X, Remote):
            raise ValueError(
                "ascent_after needs whole passes over the rows, and X is reached by row and by column only: "
                "set ascent_after=None"
            )
        if not self.certifies(problem):
            raise ValueError(
                f"ascent_after reads all rows, and {self._looked_at(problem)} of {problem.n} are looked at: set "
                f"level_sample={problem.n}, or drop ascent_after"
            )
        if isinstance(problem.X, DenseRows) and not problem.X.values.flags.c_contiguous:
            raise ValueError("ascent_after needs rows in C order, got Fortran order: give TwoWays such rows too")
        self._sdca.check(problem)

    def sizes(self, problem: Problem) -> dict[str, int]:
        """With the sides of an intercept, and the blocks of the sums that draws go by."""
        width, least = problem.d + (problem.intercept == "regularized"), self._least_blocks(problem)
        sides = 2 if self._has_sides(problem) else 1
        of_examples, of_columns = blocks(problem.n, least), blocks(width, least)
        return {
            **super().sizes(problem), "sides": sides, "width": width, "blocks": of_examples[1],
            "upper": of_examples[2], "column_blocks": of_columns[1], "column_upper": of_columns[2],
        }  # fmt: skip

    def first_slice(self, problem: Problem) -> int:
        """One step where a row may take any time to come."""
        return 1 if isinstance(problem.X, Remote) else super().first_slice(problem)

    def doubt(self, problem: Problem, state: State, tol: float) -> str:
        """Before dual ascent a value that stands still proves nothing."""
        waits = self.ascent_after is not None and state.ascent is None
        return f"dual ascent begins after {self.ascent_after} steps" if waits else ""

    def steps_per_epoch(self, problem: Problem) -> int:
        """Steps that draw as many rows as there are examples."""
        return max(1, -(-problem.n // self.rows_per_step))

    # -- beginning

    def init(self, problem: Problem, rng: np.random.Generator) -> State:
        """w = 0, and every example as important as every other."""
        self.check(problem)
        outputs, n, width = problem.n_outputs, problem.n, problem.d + (problem.intercept == "regularized")
        sides = 2 if self._has_sides(problem) else 1
        level_rows = np.empty(0, np.int64)
        if self._looked_at(problem) < n:
            level_rows = np.sort(rng.choice(n, self._looked_at(problem), replace=False))
        part, counters = self._part(problem, level_rows), ReadCounters()
        sides = 2 if self._has_sides(part) else 1
        least = self._least_blocks(problem)
        of_examples, of_columns = sampler_of(np.ones(n), least), sampler_of(np.zeros(width), least)
        # a sample is read once, and all of the data once for each purpose
        purposes = 1 + (self.size is None) + (self.columns == "scaled") if part is problem else 1
        counters.preparation_reads += purposes * stored_entries(part.X)
        rms = np.empty(0)
        if self.columns == "scaled":
            squares = part.column_squares()
            if part is not problem:  # what a sample has not seen may be there
                squares = np.maximum(squares, squares.mean() / part.n)
            rms = np.sqrt(np.append(squares, part.mean_weight)[:width])
        state = State(
            q=np.ones((outputs, sides, n)), scale=np.ones((outputs, sides)),
            fine=np.zeros((outputs, sides, of_examples.fine.size)),
            coarse=np.zeros((outputs, sides, of_examples.coarse.size)), changes=np.zeros((outputs, sides, 1), np.int64),
            sums=np.zeros((outputs, width)), lag=np.zeros((outputs, width)), coefficients=np.zeros((outputs, n)),
            coefficients_lag=np.zeros((outputs, n)), column_fine=np.zeros((outputs, of_columns.fine.size)),
            column_coarse=np.zeros((outputs, of_columns.coarse.size)), column_changes=np.zeros((outputs, 1), np.int64),
            course=np.zeros((outputs, 5)), rows_read=np.zeros(n, bool), columns_read=np.zeros(problem.d, bool),
            size=self._size(part), nu=np.full(outputs, 0.0 if self.nu is None else float(self.nu)), rms=rms,
            level_rows=level_rows, rng=rng, counters=counters,
        )  # fmt: skip
        for c in range(outputs):
            y, s = self._labels(problem, c)
            for g in range(sides):
                state.q[c, g] = (self._sides(y, sides) == g).astype(np.float64)
                sampler = sampler_of(state.q[c, g] * s if s.size else state.q[c, g], least)
                state.fine[c, g], state.coarse[c, g] = sampler.fine, sampler.coarse
            if self.nu is None:
                state.nu[c] = self._nu_of_sample(part, state, c, part is problem)
        state.work(problem, lambda: self._workspace(problem, state, part))
        return state

    @staticmethod
    def _least_blocks(problem: Problem) -> int:
        """Sweeps over all that is dense go along wide blocks."""
        return NARROW if isinstance(problem.X, CSRRows) else WIDE

    @staticmethod
    def _has_sides(problem: Problem) -> bool:
        """Whether what an intercept does to examples is kept aside, by class: where steps do not touch them all."""
        return isinstance(problem.X, CSRRows) and problem.intercept != "none"

    @staticmethod
    def _sides(y: np.ndarray, sides: int) -> np.ndarray:
        return (y < 0.0).astype(np.int8) if sides == 2 else np.zeros(y.size, np.int8)

    @staticmethod
    def _labels(problem: Problem, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels ±1 and weights of output c, which are empty if all are 1."""
        _, y, s = problem.binary_part(c)
        return y, np.empty(0) if np.all(s == 1.0) else s

    def _size(self, problem: Problem) -> float:
        """R, which no row exceeds."""
        if self.size is not None:
            return float(self.size)
        norms2 = np.empty(problem.n)
        row_norms2(problem.X, norms2)
        largest = float(norms2.max(initial=0.0)) + (problem.intercept == "regularized")
        return math.sqrt(largest) if largest > 0.0 else 1.0

    def _nu_of_sample(self, problem: Problem, state: State, c: int, counted: bool) -> float:
        """ν = mean hinge/‖w‖ on unit rows, of the optimum of a sample: the mean of its loss inside and outside.

        The rows of the sample are counted as read, unless they were before.
        """
        size = min(SAMPLE, problem.n // 2)
        if size < 2:
            return 1e-3
        order = state.rng.permutation(problem.n)[: 2 * size]
        _, y, s = problem.binary_part(c)
        parts = []
        for chosen in (np.sort(order[:size]), np.sort(order[size:])):
            parts.append(replace(problem.take(chosen), y=y[chosen], sample_weight=s[chosen], target=ONE, n_outputs=1))
            state.counters.preparation_reads += stored_entries(parts[-1].X) if counted else 0
        solver, free = make("linear", "sdca"), problem.intercept == "unregularized"
        train = replace(parts[0], intercept="regularized") if free else parts[0]
        trial = solver.init(train, np.random.default_rng(state.rng.integers(2**63)))
        solver.advance(train, trial, SAMPLE_EPOCHS * solver.steps_per_epoch(train))
        W, b = solver.weights(train, trial)
        b = parts[0].best_intercept(W) if free else b
        norm = math.sqrt(sum_of_squares(W) + (sum_of_squares(b) if problem.intercept == "regularized" else 0.0))
        inside, outside = (float(each.output_losses(W, b).sum()) for each in parts)
        return min(1.0, math.sqrt(inside * outside) / (norm * state.size)) if norm > 0.0 else 1e-3

    # -- steps

    def _rules(self, problem: Problem, state: State, c: int) -> Rules:
        """The numbers that steps of output c go by."""
        weight = float(problem.binary_part(c)[2].sum())
        return Rules(
            PRIMALS.index(self.primal), DUALS.index(self.dual), RULES.index(self.columns), float(self.horizon or 0),
            self.rate == "fixed", problem.intercept == "unregularized", problem.intercept == "regularized",
            problem.n * float(state.nu[c]), 1.0 / state.size, math.log(max(2.0, weight)),
        )  # fmt: skip

    @staticmethod
    def _part(problem: Problem, chosen: np.ndarray) -> Problem:
        """The problem of the examples that are looked at as a whole, all if none are chosen, fetched if need be."""
        if chosen.size:
            return problem.take(chosen)
        return problem.take(np.arange(problem.n)) if isinstance(problem.X, Remote) else problem

    def _space(self, problem: Problem, state: State) -> Workspace:
        return state.work(problem, lambda: self._workspace(problem, state, self._part(problem, state.level_rows)))

    def _workspace(self, problem: Problem, state: State, part: Problem) -> Workspace:
        """The columns, and the state's arrays as compiled steps see them; what is not kept follows from what is."""
        n, outputs = problem.n, problem.n_outputs
        examples, directions, rule = [], [], RULES.index(self.columns)
        least = self._least_blocks(problem)
        nobody = Side(np.empty(0), np.ones(1), sampler_of(np.empty(0)), tops_of(np.empty(0)))
        for c in range(outputs):
            (y, s), sides = self._labels(problem, c), []
            for g in range(state.q.shape[1]):
                q = state.q[c, g]
                sampler = sampler_of(s * q if s.size else q, least)._replace(
                    fine=state.fine[c, g], coarse=state.coarse[c, g], changes=state.changes[c, g]
                )
                sides.append(Side(q, state.scale[c, g : g + 1], sampler, tops_of(q, least)))
            examples.append(Examples(y.astype(problem.dtype), s, self._sides(y, len(sides)), *(*sides, nobody)[:2]))
            U = state.sums[c]
            weights = U * U if rule == 0 else np.abs(U) if rule == 1 else np.abs(U) * state.rms
            sampler = sampler_of(weights, least)._replace(
                fine=state.column_fine[c], coarse=state.column_coarse[c], changes=state.column_changes[c]
            )
            of_examples = state.coefficients[c], state.coefficients_lag[c]
            directions.append(Directions(U, state.lag[c], *of_examples, sampler, state.rms))
        mixed = np.empty(0 if isinstance(problem.X, CSRRows) else n, problem.dtype)
        scratch = Scratch(
            np.zeros(n), np.zeros(n, bool), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), mixed
        )
        columns = problem.columns
        if columns is None and not isinstance(problem.X, Remote):
            columns = as_columns(problem.X)
        return Workspace(columns, part, examples, directions, scratch)

    def advance(self, problem: Problem, state: State, n_steps: int) -> int:
        """Take n_steps steps of every output, in place; where dual ascent has taken over, as many visits as rows."""
        before = n_steps if self.ascent_after is None else min(n_steps, self.ascent_after - state.counters.steps)
        if state.ascent is None:
            self._take_steps(problem, state, before)
            if self.ascent_after is not None and state.counters.steps >= self.ascent_after:
                self._hand_over(problem, state)
        else:
            before = 0
        if state.ascent is not None:
            state.counters = state.ascent.counters  # one account for both
            self._sdca.advance(problem, state.ascent, (n_steps - before) * self.rows_per_step)
        return n_steps

    def _hand_over(self, problem: Problem, state: State) -> None:
        """Start dual ascent at the coefficients of the rows drawn, which reads all of them from now on."""
        state.ascent = self._sdca.init(problem, deepcopy(state.rng), self.duals(problem, state))
        state.counters.first_reads = stored_entries(problem.X)
        state.ascent.counters = state.counters
        state.workspace = problem, None  # type: ignore[misc]

    def _take_steps(self, problem: Problem, state: State, n_steps: int) -> None:
        space = self._space(problem, state)
        drawn, left = self.rows_per_step + self.columns_per_step, n_steps
        first = not isinstance(problem.X, Remote)  # no steps compile
        counts = np.array([0, 0, 0, np.count_nonzero(state.rows_read), np.count_nonzero(state.columns_read)])
        reads = Reads(state.rows_read, state.columns_read, counts)
        while left > 0 or first:
            uniforms = state.rng.random((min(left, AT_ONCE), problem.n_outputs, drawn))
            for c in range(problem.n_outputs):
                course = Course(int(state.course[c, 0]), *state.course[c, 1:].tolist())
                rest = (
                    self._rules(problem, state, c), space.examples[c], space.directions[c], reads, course,
                    np.ascontiguousarray(uniforms[:, c]), self.rows_per_step, space.scratch,
                )  # fmt: skip
                if isinstance(problem.X, Remote):
                    state.course[c] = take_remote_steps(problem.X, *rest)
                else:
                    state.course[c] = take_steps(problem.X, space.columns, *rest)
            left, first = left - len(uniforms), False
        counters = state.counters
        counters.steps += n_steps
        counters.visits += n_steps * self.rows_per_step
        counters.updates += n_steps * self.rows_per_step
        counters.feature_reads += int(counts[STORED])
        counters.feature_reads_dense += int(counts[DENSE])
        counters.first_reads += int(counts[FIRST])

    # -- output

    def averages(self, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(w̄, b̄, ᾱ) over the steps: weights and coefficients of rows of size 1, of shape (outputs, …)."""
        t, total, bias = np.maximum(state.course[:, :1], 1.0), state.course[:, 2:3], state.course[:, 3]
        w, alpha = (total * state.sums - state.lag) / t, (total * state.coefficients - state.coefficients_lag) / t
        return w, bias / t[:, 0], alpha

    def predictor(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(W, b, level, multiple): the average over its water level at nν; without ``nu``, or where that is not above
        0, the best multiple of it.
        """
        w, bias, _ = self.averages(state)
        W, d = (w / state.size).astype(np.float64), problem.d
        part = self._space(problem, state).part
        b, level, multiple = np.zeros(problem.n_outputs), np.zeros(problem.n_outputs), np.zeros(problem.n_outputs)
        for c in range(problem.n_outputs):
            y, s = self._labels(part, c)
            f = part.column_scores(np.ascontiguousarray(W[c : c + 1, :d].T), 0) + (W[c, d] if W.shape[1] > d else 0.0)
            window = np.array([0.0, 0.0, np.inf])
            level[c] = pour(f + bias[c], y, s, part.n * state.nu[c], False, window, room(part.n)).level
            if level[c] > 0.0 and self.nu is not None:
                multiple[c], b[c] = 1.0 / level[c], bias[c] / level[c]
            else:
                multiple[c], b[c], _ = part.best_multiple(f, sum_of_squares(W[c]), c)
            W[c] *= multiple[c]
            if W.shape[1] > d:
                b[c] = W[c, d]
        return W[:, :d].T.copy(), b, level, multiple

    def model(self, problem: Problem, state: State) -> LinearModel:
        """A finished copy of the current model."""
        if state.ascent is not None:
            return self._sdca.model(problem, state.ascent)
        W, b, _, _ = self.predictor(problem, state)
        return LinearModel(W.T.astype(problem.dtype), b)

    def certificate(self, problem: Problem, state: State) -> Certificate | None:
        """Primal value of the model, and the better of two dual values: from its slopes, and of the rows drawn.

        None where the objective is known on a sample only.
        """
        if state.ascent is not None:
            return self._sdca.certificate(problem, state.ascent)
        if state.level_rows.size:
            return None
        W, b, _, _ = self.predictor(problem, state)
        problem = self._space(problem, state).part
        W = W.astype(problem.dtype)
        known = -math.inf
        if problem.intercept != "unregularized":
            w, _, alpha = self.averages(state)
            beta = np.stack([self._labels(problem, c)[0] for c in range(problem.n_outputs)]) * alpha / state.size**2
            norm2 = np.array([sum_of_squares(each) for each in w]) / state.size**2
            known = problem.dual_of_multiple(beta, norm2 * (1.0 + 1e-9))
        return problem.certificate(W, b, known)

    def evaluate(self, problem: Problem, state: State, model: LinearModel) -> dict[str, float]:
        """Objective in the λ-form, and where the predictor stands: level, norm, mean hinge (means over outputs)."""
        if state.ascent is not None:
            return self._sdca.evaluate(problem, state.ascent, model)
        W, b, level, _ = self.predictor(problem, state)
        part = self._space(problem, state).part
        hinge = part.output_losses(W.astype(part.dtype), b)
        norms = np.sqrt([sum_of_squares(each) for each in W.T])
        return {
            "objective": part.primal(W.astype(part.dtype), b), "level": float(level.mean()),
            "norm": float(norms.mean()), "hinge": float(hinge.mean()), "nu": float(state.nu.mean()),
        }  # fmt: skip

    def duals(self, problem: Problem, state: State) -> np.ndarray:
        """The largest multiple of the coefficients of the rows drawn that lies in the box, of shape (outputs, n)."""
        if state.ascent is not None:
            return self._sdca.duals(problem, state.ascent)
        _, _, alpha = self.averages(state)
        beta = np.stack([self._labels(problem, c)[0] for c in range(problem.n_outputs)]) * np.maximum(alpha, 0.0)
        caps = np.stack([problem.caps_of(c) for c in range(problem.n_outputs)])
        with np.errstate(divide="ignore"):
            share = np.min(caps / np.abs(beta), axis=1, initial=np.inf, where=beta != 0.0)
        multiple = self.predictor(problem, state)[3] / state.size**2
        return beta * np.minimum(share, multiple)[:, None]
