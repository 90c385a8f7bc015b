"""The compiled steps of SIMBA: draw rows, move w, answer with slack and bias, read columns, change importance.

All functions change the arrays of :class:`Game` in place. A step has three parts, between which data that Python has to
fetch is fetched: :func:`choose_rows`, :func:`move` with the rows, :func:`answer` with the columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...core.borrowing import borrow
from ...core.compiling.dispatch import apart, compiled, generic, inlined
from ...core.intrinsics.exp import exp_near_0
from ...core.intrinsics.extremes import larger, smaller
from ...core.rows.rows import CSRRows, DenseRows, row_size
from ...core.rows.sources import Remote
from ...core.sampling.cover import find_tops, take_sums
from ...core.sampling.importance import (
    EQUAL,
    LEAST,
    Examples,
    Scratch,
    draw_example,
    give_slack,
    mass_of,
    multiply_out,
    put,
    side_of,
)  # fmt: skip
from ...core.sampling.sampler import (
    Sampler,
    block_of,
    change_weight,
    draw_block,
    draw_index,
    settle,
    sum_all,
    sum_sums,
    total_weight,
)  # fmt: skip

#: Forms of the primal step, factors of importance, and rules by which columns are drawn, in the order of their numbers.
PRIMALS = ("adaptive", "averaging", "fixed")
DUALS = ("quadratic", "exponential")
RULES = ("squared", "absolute", "scaled")
ADAPTIVE, AVERAGING, FIXED = range(len(PRIMALS))
QUADRATIC = 0
SQUARED, ABSOLUTE, SCALED = range(len(RULES))

MANY = 8  # if the columns of a step have more than n/8 entries, update all examples in one sweep
LIFTED = 64  # steps along dense columns between two looks for importance below LEAST; a step takes e off it at most
SPREAD = 1e-40  # sums and scales beyond this and its inverse are multiplied out


class SimbaRule(NamedTuple):
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


class Seen(NamedTuple):
    """Which rows, or which columns, were read, and how many."""

    mask: np.ndarray
    total: np.ndarray


#: Entries read: stored ones; n or d for each line, whatever is stored; stored ones that were never read before.
READS = np.dtype([("stored", np.int64), ("dense", np.int64), ("first", np.int64)])
#: The scalars of a run: steps, ‖U‖², Σ a, Σ b, and the importance at which slack began.
COURSE = np.dtype([(name, np.float64) for name in ("t", "norm2", "total", "bias", "threshold")])


class Draws(NamedTuple):
    """The rows and the columns that a step draws, and what the columns are multiplied by."""

    rows: np.ndarray
    columns: np.ndarray
    shares: np.ndarray


class Game(NamedTuple):
    """All that steps of one output work with; ``counts`` and ``course`` are records."""

    rule: SimbaRule
    examples: Examples
    directions: Directions
    rows_seen: Seen
    columns_seen: Seen
    counts: np.ndarray
    course: np.ndarray
    draws: Draws
    scratch: Scratch


# ---------------------------------------------------------------- importance


@inlined
def factor_of(z, dual):
    """What importance is multiplied by for the value z, clipped to ±1: 1 − z + z², or exp(−z)."""
    z = min(max(z, -1.0), 1.0)
    return 1.0 - z + z * z if dual == QUADRATIC else exp_near_0(-z)


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
        if dual == QUADRATIC:  # each form in a loop of its own uses vectors
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
def reweigh(columns, places, shares, eta, b, count, game):
    """Multiply every qᵢ by its factor, for vᵢ = yᵢ (Σ shares × entries + b) + ξᵢ, with ``count`` ξᵢ > 0."""


@reweigh.case(DenseRows)
def reweigh_dense(columns, places, shares, eta, b, count, game):
    E, scratch, dual = game.examples, game.scratch, game.rule.dual
    S, touched, before, mixed = E.first, scratch.touched, scratch.keys, scratch.mixed
    for k in range(count):
        before[k] = S.q[touched[k]]
    lift = game.course[0].t % LIFTED == 0
    if places.size == 1:
        sweep(S, E.s, E.y, columns.values[places[0]], eta * shares[0], eta * b, dual, lift)
    else:
        mixed[:] = 0.0
        for r in range(places.size):
            column, share = columns.values[places[r]], mixed.dtype.type(shares[r])
            for i in range(mixed.size):
                mixed[i] += share * column[i]
        sweep(S, E.s, E.y, mixed, eta, eta * b, dual, lift)
    for k in range(count):  # examples with slack get another factor
        i = touched[k]
        x = shares[0] * columns.values[places[0], i] if places.size == 1 else mixed[i]
        put(S, E.s, i, max(before[k] * factor_of(eta * (E.y[i] * (x + b) + scratch.v[i]), dual), LEAST))
        scratch.v[i] = 0.0
        scratch.marked[i] = False


@reweigh.case(CSRRows)
def reweigh_sparse(columns, places, shares, eta, b, count, game):
    E, scratch, dual = game.examples, game.scratch, game.rule.dual
    entries, v, touched = count, scratch.v, scratch.touched
    for r in range(places.size):
        entries += row_size(columns, places[r])
    if MANY * entries < E.y.size:
        reweigh_few(columns, places, shares, eta, dual, b, E, scratch, count)
        return
    for k in range(count):
        v[touched[k]] *= E.y[touched[k]]  # the sweep multiplies by the label once more
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
def reweigh_few(columns, places, shares, eta, dual, b, E, scratch, count):
    """Reweigh where few examples have entries or slack; all others change by the factors of their sides."""
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
        factor = factor_of(eta * (v[i] + b * E.y[i]), dual) / (factors[0] if E.y[i] > 0.0 else factors[1])
        put(S, E.s, i, max(S.q[i] * factor, LEAST))
        v[i] = 0.0
        scratch.marked[i] = False
    settle(E.first.sampler)
    settle(E.second.sampler)


# ---------------------------------------------------------------- directions


@inlined
def column_weight(u, rms, j, rule):
    """What the chance of column j is in proportion to."""
    if rule == SQUARED:
        return u * u
    return abs(u) if rule == ABSOLUTE else abs(u) * rms[j]


@generic
def draw_column(rows, u, rule, D):
    """The column that the uniform number u chooses; −1 while all have the weight 0."""


@draw_column.case(DenseRows)
def draw_column_dense(rows, u, rule, D):
    k, _ = draw_block(D.sampler, u)
    if k < 0:
        return k
    # steps along dense rows keep the sums of blocks alone: weigh the block that was drawn
    shift = D.sampler.shift
    U, weights = block_of(D.sums, k, shift), block_of(D.sampler.weights, k, shift)
    for j in range(U.size):
        weights[j] = column_weight(U[j], D.rms, (k << shift) + j, rule)
    return draw_index(D.sampler, u)


@draw_column.case(CSRRows)
def draw_column_sparse(rows, u, rule, D):
    return draw_index(D.sampler, u)


@generic
def step_along(rows, place, c, before, norm2, rule, D):
    """U += c × a row, and the lag of its average; returns ‖U‖², which was ``norm2``."""


@step_along.case(DenseRows)
def step_along_dense(rows, place, c, before, norm2, rule, D):
    row, S, shift, late = rows.values[place], D.sampler, D.sampler.shift, before * c
    norm2 = 0.0
    for k in range(S.fine.size):
        x, U, lag = block_of(row, k, shift), block_of(D.sums, k, shift), block_of(D.lag, k, shift)
        squares, total = 0.0, 0.0
        for j in range(x.size):
            U[j] += c * x[j]
            lag[j] += late * x[j]
            squares += U[j] * U[j]
        if rule == SQUARED:
            total = squares
        else:
            for j in range(x.size):
                total += column_weight(U[j], D.rms, (k << shift) + j, rule)
        for j in range(x.size, U.size):  # the constant feature
            squares += U[j] * U[j]
            total += column_weight(U[j], D.rms, (k << shift) + j, rule)
        S.fine[k] = total
        norm2 += squares
    sum_sums(S)
    return norm2


@step_along.case(CSRRows)
def step_along_sparse(rows, place, c, before, norm2, rule, D):
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


@generic
def count_unread(lines, place, lines_across):
    """How many entries of a line lie in no line across that was read."""


@count_unread.case(DenseRows)
def count_unread_dense(lines, place, lines_across):
    return lines_across.mask.size - lines_across.total[0]


@count_unread.case(CSRRows)
def count_unread_sparse(lines, place, lines_across):
    unread = 0
    for p in range(lines.indptr[place], lines.indptr[place + 1]):
        unread += not lines_across.mask[lines.indices[p]]
    return unread


@inlined
def count_reads(lines, places, names, across, own, other, counts):
    """Count the entries of these rows, or columns, and mark the lines as read; ``other`` are the lines across."""
    for r in range(names.size):
        counts[0].stored += row_size(lines, places[r])
        counts[0].dense += across
        if not own.mask[names[r]]:
            own.mask[names[r]] = True
            own.total[0] += 1
            counts[0].first += count_unread(lines, places[r], other)


# ---------------------------------------------------------------- steps


@inlined
def primal_step(rows, places, game):
    """Take a step of w along the rows drawn; returns the multiple a of U that is w."""
    rule, E, D, course, drawn = game.rule, game.examples, game.directions, game.course[0], game.draws.rows
    t, c, norm2, total = course.t + 1.0, 1.0 / drawn.size, course.norm2, course.total
    if rule.primal == ADAPTIVE:
        c /= math.sqrt(2.0 * t)
    for r in range(drawn.size):
        i = drawn[r]
        share = c * E.y[i] * rule.inverse_size
        norm2 = step_along(rows, places[r], share, total, norm2, rule.columns, D)
        if rule.has_constant:
            norm2 += step_along_one(D.sums.size - 1, share, total, rule.columns, D)
        D.coefficients[i] += c
        D.coefficients_lag[i] += total * c
    if rule.columns == SQUARED:
        norm2 = total_weight(D.sampler)
    norm2 = max(norm2, 0.0)
    a = 1.0
    if rule.primal != ADAPTIVE:
        a = 1.0 / math.sqrt(2.0 * (t if rule.primal == AVERAGING else rule.horizon))
    a /= max(1.0, a * math.sqrt(norm2))
    course.t, course.norm2, course.total = t, norm2, total + a
    return a


@inlined
def bias_of(rule, E):
    """The best bias against p: the sign of Σ pᵢyᵢ, 0 where that is 0 up to rounding."""
    if not rule.has_bias:
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
def draw_columns(rows, uniforms, a, game):
    """Draw columns, and find what their entries are multiplied by: w_j/(R m P(j)); none while w = 0.

    Returns how many, and the share of the constant feature, which is no column to be read but adds to the bias.
    """
    rule, D, draws = game.rule, game.directions, game.draws
    total, count, constant = total_weight(D.sampler), 0, 0.0
    for r in range(uniforms.size):
        j = draw_column(rows, uniforms[r], rule.columns, D)
        if j >= 0:
            chance = D.sampler.weights[j] / total
            share = a * D.sums[j] * rule.inverse_size / (uniforms.size * chance)
            if rule.has_constant and j == D.sums.size - 1:
                constant += share
            else:
                draws.columns[count], draws.shares[count] = j, share
                count += 1
    return count, constant


@inlined
def keep_in_range(E, course):
    """Multiply sums and scales out where numbers grow large or small."""
    total = mass_of(E.first) + mass_of(E.second)
    scales = E.first.scale[0], E.second.scale[0]
    lowest, largest = min(total, scales[0], scales[1]), max(total, scales[0], scales[1])
    if lowest <= SPREAD or largest >= 1.0 / SPREAD:
        multiply_out(E.first, E.s, 1.0 / total)
        multiply_out(E.second, E.s, 1.0 / total)
        course.threshold /= total


@inlined
def choose_rows(uniforms, game):
    """Draw the examples whose rows the step reads."""
    for r in range(game.draws.rows.size):
        game.draws.rows[r] = draw_example(game.examples, uniforms[r])


@inlined
def move(rows, places, uniforms, game):
    """Find the best slack and bias against p, take the step of w along the rows at these places, and draw columns.

    Returns how many columns, how many examples have slack, and the bias with the share of a constant feature.
    """
    rule, E, course = game.rule, game.examples, game.course[0]
    across = game.directions.sums.size - rule.has_constant
    count_reads(rows, places, game.draws.rows, across, game.rows_seen, game.columns_seen, game.counts)
    touched, course.threshold = give_slack(E, rule.slack, course.threshold, game.scratch)
    bias = bias_of(rule, E)
    course.bias += bias
    a = primal_step(rows, places, game)
    n_columns, constant = draw_columns(rows, uniforms[game.draws.rows.size :], a, game)
    return n_columns, touched, bias + constant


@inlined
def answer(columns, places, touched, b, game):
    """Change importance by the columns at these places, and by what :func:`move` returned."""
    rule, draws, course = game.rule, game.draws, game.course[0]
    names, shares = draws.columns[: places.size], draws.shares[: places.size]
    count_reads(columns, places, names, game.examples.y.size, game.columns_seen, game.rows_seen, game.counts)
    eta = math.sqrt(rule.log_n / (rule.horizon if rule.fixed_rate else course.t))
    reweigh(columns, places, shares, eta, b, touched, game)
    keep_in_range(game.examples, course)


@compiled
def take_steps(rows, columns, uniforms, game):
    """Take as many steps as ``uniforms`` has rows; a row has a number for each row and each column of a step."""
    rows, columns, uniforms, game = borrow(rows), borrow(columns), borrow(uniforms), borrow(game)
    draws = game.draws
    for step in range(uniforms.shape[0]):
        choose_rows(uniforms[step], game)
        n_columns, touched, b = move(rows, draws.rows, uniforms[step], game)
        answer(columns, draws.columns[:n_columns], touched, b, game)


# the same three parts, one at a time, for data that Python has to fetch
choose_rows_now, move_now, answer_now = compiled(choose_rows), compiled(move), compiled(answer)


def take_remote_steps(remote: Remote, uniforms: np.ndarray, game: Game) -> None:
    """The steps of :func:`take_steps` on data that is fetched row by row and column by column."""
    draws = game.draws
    places = np.arange(max(draws.rows.size, draws.columns.size))
    for step in range(len(uniforms)):
        choose_rows_now(uniforms[step], game)
        rows = remote.rows(draws.rows)
        n_columns, touched, b = move_now(rows, places[: draws.rows.size], uniforms[step], game)
        answer_now(remote.columns(draws.columns[:n_columns]), places[:n_columns], touched, b, game)
