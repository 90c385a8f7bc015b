"""Rounds of SMO, compiled: open a round, choose a working set, solve the dual on it, commit the change.

Problem: the dual of :mod:`.dual`, over the variables of one active set.

Given the kernel rows that a cache holds, a round

1. opens: it finds violations, bias and duality gap of the active set, and ends the episode if the gap is small;
2. chooses the working set: new variables and the free ones of the round before. New ones are the worst violators, half
   of them from either end of the interval of biases; or, while an episode still passes over its variables in random
   order for the first time, the violators that come next;
3. solves the dual on the working set by pairs chosen with second-order information (Fan, Chen and Lin 2005,
   Working Set Selection 2), or without a bias by single variables of the largest gain;
4. commits: it writes α back and adds the kernel rows of the changed variables to the responses.

:func:`work` makes many rounds in one call. It returns to Python for kernel rows that the cache lacks, and where several
threads are to look up kernel values or to add rows.

Cost of a round with Q variables of m, over n examples: O(m) to open and choose, O(Q) kernel values for each new
variable, O(Q) for each pair moved, O(Q n) to commit.

The paper moves two variables at a time, with a pass over two kernel rows of all examples for each move. Here a working
set of hundreds is moved thousands of times between passes.

Fan, Chen, Lin: Working set selection using second order information for training support vector machines.
JMLR 6 (2005). Chang, Lin: LIBSVM (2011).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.borrowing import borrow
from ...core.compiling.dispatch import apart, compiled, inlined
from ...core.intrinsics.atomics import claim
from ...core.intrinsics.extremes import larger, smaller
from ...core.intrinsics.hints import one_by_one, prefetch
from ...core.kernels.cache import RowCache
from ...core.sharing import share
from .dual import TAU, bars, excess, middle, violations

# Tuned numbers; docs/notes/smo.md has the measurements.
NEWCOMER = 7  # free variables that stay, for each new one. More: rounds with little news; fewer: rows of no use
CLEARLY = 0.05  # violation of a margin that counts in the random pass. Below: variables that come and go
FREQUENT = 0.5  # the random pass ends when fewer of the variables that it looks at violate than this share
MOVES = 10  # moves per variable after which a working set is left: other working sets would undo further precision
LEAST_MOVES = 2**14  # moves before which no working set is left, so that small problems take few rounds
REDUCED = 0.1  # share of its violation to which a working set is solved
ROUNDING = 1e-14  # violations this small are rounding
PIECE = 2048  # columns of kernel rows added at a stretch: the responses of a piece stay in the nearest cache
WORTH_A_THREAD = 2**18  # kernel values added, about 0.1 ms: the work that a second thread must have
WORTH_A_LOOK = 2**14  # kernel values looked up, about 0.1 ms: the work that a second thread must have
TOGETHER = 16  # variables whose kernel values a thread looks up at a time: their columns share cache lines
STRETCH = 64  # variables among which an extreme is looked for again, once it is known to be there

#: How a call of :func:`work` ends: all rounds made; the target reached; kernel rows missing, or kernel values to be
#: looked up by threads; patience at an end; kernel rows to be added by threads.
GOING_ON, REACHED, MISSING, TIRED, ADDING = 0, 1, 2, 3, 4

# ---------------------------------------------------------------- the dual on a working set


@inlined
def solve_pairs(K, diagonal, sigma, cap, alpha, e, up, down, tolerance, max_iter):
    """Maximise the dual over all variables given, pairs at a time, with Σ σα kept; changes alpha and e in place.

    K[v, w] is the kernel between the rows of v and w; ``up`` and ``down`` are working space: 0 where σα can rise
    (fall), else −∞ (+∞). Returns the number of pairs moved. Extremes are found for a stretch of variables at a time, so
    the variable that has one is looked for in one stretch.
    """
    m, i, j, t, step = alpha.size, 0, 0, 0.0, 0
    for v in range(m):
        up[v], down[v] = bars(sigma[v], cap[v], alpha[v])
    while True:
        # 1) take the last move into e; i has the largest e that can rise
        row, against, top, bottom, where = K[i], K[j], -np.inf, np.inf, 0
        for first in range(0, m, STRETCH):
            highest = -np.inf
            for v in range(first, min(first + STRETCH, m)):
                here = e[v] - t * (row[v] - against[v])
                e[v] = here
                highest, bottom = larger(highest, here + up[v]), smaller(bottom, here + down[v])
            if highest > top:
                top, where = highest, first
        if step == max_iter or not top - bottom > tolerance:
            return step
        i = where
        while i < m - 1 and e[i] + up[i] != top:
            i += 1
        # 2) j promises the largest gain with i
        row, own, best, where = K[i], diagonal[i], 0.0, 0
        for first in range(0, m, STRETCH):
            highest = 0.0
            for v in range(first, min(first + STRETCH, m)):
                difference = larger(top - (e[v] + down[v]), 0.0)
                highest = larger(highest, difference * difference / larger(own + diagonal[v] - 2.0 * row[v], TAU))
            if highest > best:
                best, where = highest, first
        j, best = where, best * (1.0 - 1e-12)
        while j < m - 1:
            difference = max(top - (e[j] + down[j]), 0.0)
            if difference * difference >= best * max(own + diagonal[j] - 2.0 * row[j], TAU):
                break
            j += 1
        if not e[j] + down[j] < top:
            return step
        # 3) move both as far as the dual rises and the bounds allow
        t = (top - e[j]) / max(own + diagonal[j] - 2.0 * row[j], TAU)
        t = move_pair(sigma, cap, alpha, i, j, t)
        up[i], down[i] = bars(sigma[i], cap[i], alpha[i])
        up[j], down[j] = bars(sigma[j], cap[j], alpha[j])
        step += 1


@inlined
def room_of(sigma, cap, alpha, i):
    """By how much σα of i can change: from the first number, which is ≤ 0, to the second, which is ≥ 0."""
    more, less = cap[i] - alpha[i], alpha[i]
    return (-less, more) if sigma[i] > 0.0 else (-more, less)


@inlined
def move(sigma, cap, alpha, i, t):
    """Change σα of i by t, in place; a variable that reaches its bound stands on it exactly."""
    low, high = room_of(sigma, cap, alpha, i)
    alpha[i] += sigma[i] * t
    if t == high:
        alpha[i] = cap[i] if sigma[i] > 0.0 else 0.0
    elif t == low:
        alpha[i] = 0.0 if sigma[i] > 0.0 else cap[i]


@inlined
def move_pair(sigma, cap, alpha, i, j, t):
    """Move σα of i up and that of j down by t, or as far as their bounds allow; returns by how much."""
    t = min(t, room_of(sigma, cap, alpha, i)[1], -room_of(sigma, cap, alpha, j)[0])
    move(sigma, cap, alpha, i, t)
    move(sigma, cap, alpha, j, -t)
    return t


@inlined
def solve_singles(K, diagonal, sigma, cap, alpha, e, tolerance, max_iter):
    """Maximise the dual over all variables given, one at a time, largest gain first; changes alpha and e in place."""
    m = alpha.size
    for step in range(max_iter):
        i, best, worst, step_of_best = -1, 0.0, 0.0, 0.0
        for v in range(m):
            low, high = room_of(sigma, cap, alpha, v)
            if (e[v] > 0.0 and high > 0.0) or (e[v] < 0.0 and low < 0.0):
                curvature = max(diagonal[v], TAU)
                t = min(max(e[v] / curvature, low), high)
                gain = t * e[v] - 0.5 * t * t * curvature
                worst = max(worst, abs(e[v]))
                if gain > best:
                    i, best, step_of_best = v, gain, t
        if i < 0 or worst <= tolerance:
            return step
        move(sigma, cap, alpha, i, step_of_best)
        for v in range(m):
            e[v] -= step_of_best * K[i, v]
    return max_iter


class WorkingSet(NamedTuple):
    """The variables of a working set: what their dual needs beside K, and space to work in.

    ``change`` has α before the round, until :func:`commit` turns it into the change of σα; ``up`` and ``down`` belong
    to :func:`solve_pairs`.
    """

    sigma: np.ndarray
    cap: np.ndarray
    alpha: np.ndarray
    e: np.ndarray
    change: np.ndarray
    diagonal: np.ndarray
    up: np.ndarray
    down: np.ndarray

    @classmethod
    def of(cls, largest: int) -> WorkingSet:
        """Arrays for at most this many variables."""
        return cls(*np.empty((8, largest)))


@inlined
def solve(free_bias, K, members, m, tolerance, max_iter):
    """Maximise the dual over the first m members, in place, with Σ σα kept if the bias is free; returns the moves."""
    diagonal, sigma, cap = members.diagonal[:m], members.sigma[:m], members.cap[:m]
    alpha, e, up, down = members.alpha[:m], members.e[:m], members.up[:m], members.down[:m]
    if free_bias:
        return solve_pairs(K, diagonal, sigma, cap, alpha, e, up, down, tolerance, max_iter)
    return solve_singles(K, diagonal, sigma, cap, alpha, e, tolerance, max_iter)


# ---------------------------------------------------------------- what a round works on


class Active(NamedTuple):
    """The variables of an episode, and what is known of their examples: views of an Episode's arrays."""

    sigma: np.ndarray
    h: np.ndarray
    cap: np.ndarray
    row: np.ndarray
    alpha: np.ndarray
    f: np.ndarray
    order: np.ndarray
    last: np.ndarray
    spent: np.ndarray


class OpenRound(NamedTuple):
    """A round that has been opened; each field is an array of one number.

    ``size`` of the working set (0: no round is open); ``listed``, the number of its distinct kernel rows; ``position``
    in the episode's order after the round; ``violation`` before it; ``fresh``, the number of variables whose kernel
    values are not in K yet. ``known`` is the size of the last working set, if K still has its kernel values, else −1.
    """

    size: np.ndarray
    listed: np.ndarray
    position: np.ndarray
    violation: np.ndarray
    fresh: np.ndarray
    known: np.ndarray


class Space(NamedTuple):
    """Working space of rounds.

    Over the variables: ``up``, ``down``, ``taken``. Over rounds: ``ages``, the number of rows last used in each. Over
    the working set: ``chosen`` variables, the ``columns`` of their rows, the distinct rows ``wanted``, ``slots`` of
    the rows in the cache, variables ``picked`` to come in, the places of ``fresh`` variables, whose kernel values are
    not in K yet; the ``members`` with their kernel matrix ``K``.
    """

    up: np.ndarray
    down: np.ndarray
    taken: np.ndarray
    ages: np.ndarray
    chosen: np.ndarray
    columns: np.ndarray
    wanted: np.ndarray
    slots: np.ndarray
    picked: np.ndarray
    fresh: np.ndarray
    members: WorkingSet
    K: np.ndarray
    open: OpenRound

    @classmethod
    def of(cls, variables: int, K: np.ndarray, rounds: int) -> Space:
        """For so many variables and rounds, and working sets with at most as many variables as K has rows."""
        largest = K.shape[0]
        chosen, columns, wanted, slots, picked, fresh = np.empty((6, largest), np.int64)
        size, listed, position, fresh_ones, known = np.zeros((5, 1), np.int64)
        return cls(
            np.empty(variables), np.empty(variables), np.zeros(variables, np.bool_), np.empty(rounds + 1, np.int64),
            chosen, columns, wanted, slots, picked, fresh, WorkingSet.of(largest), K,
            OpenRound(size, listed, position, np.zeros(1), fresh_ones, known),
        )  # fmt: skip


class SMORule(NamedTuple):
    """The rule of an episode's rounds.

    ``most``: the largest number of new variables of a round, if few stay; ``room``: the largest working set;
    ``free_bias``: whether Σ σα is kept; ``constant`` of the kernel; ``symmetric``: K(v, w) and K(w, v) are the same
    bits; ``shared``: if the kernel rows of a working set have so many values or more, the caller looks up kernel values
    and adds rows to f, on several threads.

    The episode ends at a gap of ``target`` if that is above 0, else of ``share`` of its dual value. It is given up once
    ``spent`` is above ``patience`` times the support vectors. What counts there is rows added to f; a row that was
    dropped and is computed again counts ``price`` of them.
    """

    most: int
    room: int
    free_bias: bool
    constant: float
    symmetric: bool
    shared: float
    target: float
    share: float
    price: float
    patience: float


# ---------------------------------------------------------------- choose


@apart
def take_extremes(values, sign, limit, count, space, found):
    """Append to picked[:found] those of the ``count`` largest sign × values above the limit that are not taken yet;
    returns the new number found.

    The best so far are kept in order, which most values do not disturb.
    """
    taken, picked, edge, held = space.taken, space.picked, limit, 0
    best, where = np.empty(count), np.empty(count, np.int64)
    for v in range(values.size):
        value = sign * values[v]
        if value > edge:
            k = held if held < count else count - 1
            while k > 0 and best[k - 1] < value:
                best[k], where[k] = best[k - 1], where[k - 1]
                k -= 1
            best[k], where[k] = value, v
            held = min(held + 1, count)
            if held == count:
                edge = best[count - 1]
    for k in range(held):
        v = where[k]
        if not taken[v]:
            taken[v] = True
            picked[found] = v
            found += 1
    return found


@apart
def take_partner(values, extreme, most, space, found):
    """If no variable in picked[:found] has a finite value, append the one with the extreme, or put it in the last of
    ``most`` places; returns the new number.

    With Σ σα kept, variables that can only rise or only fall do not move: a class of few examples might be missed.
    """
    taken, picked, k = space.taken, space.picked, 0
    while k < found and not np.isfinite(values[picked[k]]):
        k += 1
    if k == found:
        v = 0
        while values[v] != extreme:
            v += 1
        found = min(found, most - 1)
        taken[v] = True
        picked[found] = v
        found += 1
    return found


@apart
def choose(part, rule, most, space, bias, top, bottom, position, untouched):
    """space.picked ← what the next working set takes up, ``most`` at most, ``taken`` marks it; returns the number and
    the new position in the order.

    ``untouched``: this is the first round, and all α are 0. Then those that come first in the order are as good as any.
    """
    alpha, cap, sigma, h, f, row, order = part.alpha, part.cap, part.sigma, part.h, part.f, part.row, part.order
    picked, taken, m = space.picked, space.taken, part.alpha.size
    for v in range(m):
        taken[v] = False
    found, looked = 0, 0
    while position < m and found < most:
        v = order[position]
        position += 1
        looked += 1
        s = sigma[v] * (h[v] - f[row[v]] - bias)
        misses = (s > CLEARLY and alpha[v] < cap[v]) or (s < -CLEARLY and alpha[v] > 0.0)
        if misses or (untouched and cap[v] > 0.0):
            picked[found] = v
            taken[v] = True
            found += 1
    if looked > 0 and found < FREQUENT * looked:
        position = m
    two_ends = rule.free_bias and np.isfinite(top) and np.isfinite(bottom)
    if found < most // 2:
        floor, ceiling = (bottom, top) if two_ends else (0.0, 0.0)
        half = max(1, (most - found) // 2)
        found = take_extremes(space.up, 1.0, floor, half, space, found)
        found = take_extremes(space.down, -1.0, -ceiling, half, space, found)
    elif two_ends:
        found = take_partner(space.up, top, most, space, found)  # else all might only rise, or only fall
        found = take_partner(space.down, bottom, most, space, found)
    return found, position


@apart
def seat(space, previous, most, count):
    """space.chosen ← the next working set; returns its size, and how many of it are fresh.

    Free variables of the round before stay in their places, ``most`` of them at most, and so do their kernel values.
    The ``count`` variables picked take the places of those that have left, then places at the end; if places are left
    empty, the last variables move there. ``previous`` may be longer than ``chosen``, in a state of a run that had room
    for larger working sets.
    """
    chosen, taken, fresh, K = space.chosen, space.taken, space.fresh, space.K
    size, staying, new, place = min(previous.size, chosen.size), 0, 0, 0
    # 1) who stays
    for k in range(size):
        v, chosen[k] = previous[k], -1
        if v >= 0 and staying < most:
            chosen[k], taken[v] = v, False
            staying += 1
    # 2) who comes
    for k in range(count):
        v = space.picked[k]
        if taken[v]:
            while place < size and chosen[place] >= 0:
                place += 1
            size = max(size, place + 1)
            chosen[place], fresh[new] = v, place
            new += 1
    # 3) no place is left empty
    while size > 0:
        if chosen[size - 1] >= 0:
            while place < size and chosen[place] >= 0:
                place += 1
            if place >= size:
                break
            chosen[place] = chosen[size - 1]
            for other in range(size):
                K[place, other] = K[size - 1, other]
            for other in range(size):
                K[other, place] = K[other, size - 1]
        size -= 1
    if space.open.known[0] != previous.size:
        new = size
        for k in range(size):
            fresh[k] = k
    return size, new


@apart
def list_rows(row, chosen, taken, columns, wanted):
    """columns ← the rows of the chosen variables; wanted ← the same rows, once each; returns the number wanted.

    Two variables may have one row.
    """
    count = 0
    for k in range(chosen.size):
        columns[k] = row[chosen[k]]
        taken[columns[k]] = False
    for k in range(chosen.size):
        if not taken[columns[k]]:
            taken[columns[k]] = True
            wanted[count] = columns[k]
            count += 1
    return count


# ---------------------------------------------------------------- open


@apart
def open_round(part, rule, space, previous, position, rounds):
    """Open a round after ``rounds`` others, unless the episode is at its end: space.chosen ← its working set; returns
    how :func:`work` goes on.
    """
    now, alpha = space.open, part.alpha
    # 1) violations, bias and gap
    top, bottom = violations(part.sigma, part.h, part.cap, part.row, alpha, part.f, space.up, space.down)
    bias, violation = 0.0, max(top, -bottom, 0.0)
    if rule.free_bias:
        bias, violation = middle(top, bottom), top - bottom
    gap, dual = excess(part.sigma, part.h, part.cap, part.row, alpha, part.f, bias)
    # 2) is this the end
    used, staying = 0, 0
    for v in range(alpha.size):
        used += alpha[v] > 0.0
    if part.spent[0] > rule.patience * max(used, rule.most):
        return TIRED
    enough = rule.target if rule.target > 0.0 else rule.share * abs(dual)
    if (gap <= enough and rounds > 0) or violation <= ROUNDING or not np.isfinite(gap):
        return REACHED
    # 3) choose the working set
    for k in range(previous.size):
        one_by_one()  # no vector code for this loop
        staying += previous[k] >= 0
    most = max(rule.most, min(staying, rule.room) // NEWCOMER)
    picked, after = choose(part, rule, most, space, bias, top, bottom, position, rounds == 0 and used == 0)
    size, fresh = seat(space, previous, rule.room - most, picked)
    listed = list_rows(part.row, space.chosen[:size], space.taken, space.columns, space.wanted)
    now.size[0], now.listed[0], now.fresh[0] = size, listed, fresh
    now.position[0], now.violation[0] = after, violation
    return MISSING if size * part.f.size >= rule.shared else GOING_ON


@inlined
def count_missing(slot_of, wanted):
    """The number of wanted rows that a cache does not hold."""
    missing = 0
    for k in range(wanted.size):
        missing += slot_of[wanted[k]] < 0
    return missing


@apart
def count_ages(last, ages):
    """ages ← the number of rows last used in each round."""
    for r in range(ages.size):
        ages[r] = 0
    for r in range(last.size):
        ages[last[r]] += 1


@inlined
def use_again(last, ages, wanted, count, now, capacity):
    """Note that wanted[:count] are used in round ``now``; returns how many a cache of this capacity has dropped.

    ``last`` has the round of each row's last use, 0 if there was none, and ``ages`` the rows of each round. The cache
    holds the rows used last, so the answer is the same if the cache was made anew in between.
    """
    gone, resident = now - 1, 0
    while gone > 0 and resident + ages[gone] <= capacity:
        resident += ages[gone]
        gone -= 1
    again = 0
    for k in range(count):
        before = last[wanted[k]]
        again += 0 < before <= gone
        ages[before] -= 1
        last[wanted[k]] = now
    ages[now] += count
    return again


@apart
def use_rows(held, part, space, price, now):
    """Note the use of the kernel rows of round ``now``, and add their cost, in place."""
    held.clock[0] += 1
    listed = space.open.listed[0]
    for k in range(listed):
        held.used[held.slot_of[space.wanted[k]]] = held.clock[0]
    again = use_again(part.last, space.ages, space.wanted, listed, now, held.rows.shape[0])
    part.spent[0] += price * again + space.open.size[0]


# ---------------------------------------------------------------- solve


@apart
def gather(rows, slot_of, columns, fresh, constant, K, start, end):
    """Rows and columns fresh[start:end] of K ← the kernel between variables with these rows.

    Kernel values stand far apart in memory, and each is read once; vector code would take longer to compile alone.
    Where all are fresh, values below the diagonal are read and mirrored.
    """
    size, all_fresh = columns.size, fresh.size == columns.size
    for place in range(start, end):
        k = fresh[place]
        known, coming, row = rows[slot_of[columns[k]]], rows[slot_of[columns[fresh[min(place + 1, end - 1)]]]], K[k]
        for other in range(k + 1 if all_fresh else size):
            prefetch(coming, columns[other])
            row[other] = known[columns[other]] + constant
    for other in range(end if all_fresh else size):
        row = K[other]
        for place in range(max(start, other) if all_fresh else start, end):
            one_by_one()  # no vector code for this loop
            row[fresh[place]] = K[fresh[place], other]


@compiled
def _gather_pieces(rows, slot_of, columns, fresh, constant, K, begun):
    """:func:`gather` for TOGETHER fresh variables after the other, each taken by one thread; begun[0] were taken."""
    rows, slot_of, columns, fresh, K, begun = (
        borrow(rows), borrow(slot_of), borrow(columns), borrow(fresh), borrow(K), borrow(begun),
    )  # fmt: skip
    start = claim(begun, 0) * TOGETHER
    while start < fresh.size:
        gather(rows, slot_of, columns, fresh, constant, K, start, min(start + TOGETHER, fresh.size))
        start = claim(begun, 0) * TOGETHER


def gather_shared(cache: RowCache, rule: SMORule, space: Space) -> None:
    """Look up the kernel values that the open round needs, by all threads; the round then has none to look up."""
    size, new = int(space.open.size[0]), int(space.open.fresh[0])
    piece = (
        cache.rows, cache.slot_of, space.columns[:size], space.fresh[:new], space.K.dtype.type(rule.constant), space.K,
        np.zeros(1, np.int64),
    )  # fmt: skip
    share(_gather_pieces, [piece] * max(1, min(cache.matrix.threads, new * size // WORTH_A_LOOK)))
    space.open.fresh[0] = 0


@apart
def take_up(held, part, constant, space, size):
    """space.members and space.K ← the dual on the working set, which has ``size`` variables."""
    here, K, chosen = space.members, space.K, space.chosen
    s, c, a, e, start, diagonal = here.sigma, here.cap, here.alpha, here.e, here.change, here.diagonal
    sigma, h, cap, row, alpha, f, slots = part.sigma, part.h, part.cap, part.row, part.alpha, part.f, space.slots
    for k in range(size):
        v = chosen[k]
        s[k], c[k], a[k], e[k], start[k] = sigma[v], cap[v], alpha[v], h[v] - f[row[v]], alpha[v]
        slots[k] = held.slot_of[row[v]]
    new = space.open.fresh[0]
    gather(held.rows, held.slot_of, space.columns[:size], space.fresh[:new], K.dtype.type(constant), K, 0, new)
    for k in range(size):
        diagonal[k] = K[k, k]


# ---------------------------------------------------------------- commit


@apart
def commit(part, rule, space, size):
    """Write α of the working set back; members.change ← the change of σα; returns the working set with −1 in the place
    of variables that are not free.
    """
    here, chosen, alpha, f = space.members, space.chosen, part.alpha, part.f
    s, c, a, change = here.sigma, here.cap, here.alpha, here.change
    previous, shift = np.empty(size, np.int64), 0.0
    for k in range(size):
        alpha[chosen[k]] = a[k]
        change[k] = s[k] * (a[k] - change[k])
        shift += change[k]
    for k in range(size):
        previous[k] = chosen[k] if 0.0 < a[k] < c[k] else -1
    if rule.constant != 0.0:
        for r in range(f.size):
            f[r] += rule.constant * shift
    space.open.known[0] = size if rule.symmetric else -1
    return previous


@apart
def add_rows(rows, slots, coefficients, f, start, end):
    """f += Σ coefficient × row from column ``start`` to ``end``, in place: four rows at a time, the columns in pieces
    that stay in cache.
    """
    rows, slots, coefficients, f = borrow(rows), borrow(slots), borrow(coefficients), borrow(f)
    size, count = coefficients.size, 0
    used, factors = np.empty(size + 3, np.int64), np.empty(size + 3)
    for r in range(size):
        if coefficients[r] != 0.0:
            used[count], factors[count] = slots[r], coefficients[r]
            count += 1
    for r in range(count, count + 3):
        used[r], factors[r] = used[0], 0.0
    for first in range(start, end, PIECE):
        part = slice(first, min(first + PIECE, end))
        piece = f[part]
        for r in range(0, count, 4):
            a, b, c, d = factors[r], factors[r + 1], factors[r + 2], factors[r + 3]
            A, B, C, D = rows[used[r], part], rows[used[r + 1], part], rows[used[r + 2], part], rows[used[r + 3], part]
            for x in range(piece.size):
                piece[x] += a * A[x] + b * B[x] + c * C[x] + d * D[x]


@compiled
def _add_pieces(rows, slots, coefficients, f, width, begun):
    """:func:`add_rows` to pieces of so many columns that no other thread takes; begun[0] of them have been taken."""
    begun, size = borrow(begun), borrow(f).size
    first = claim(begun, 0) * width
    while first < size:
        add_rows(rows, slots, coefficients, f, first, min(first + width, size))
        first = claim(begun, 0) * width


def add_kernel_rows(
    rows: np.ndarray, slots: np.ndarray, coefficients: np.ndarray, f: np.ndarray, threads: int = 1
) -> None:  # fmt: skip
    """f += Σ coefficient × row, in place; threads share the columns, which changes no bit."""
    threads = max(1, min(threads, coefficients.size * f.size // WORTH_A_THREAD))
    width = min(PIECE, 16 * max(1, f.size // (32 * threads)))  # two pieces for each thread, or more
    share(_add_pieces, [(rows, slots, coefficients, f, width, np.zeros(1, np.int64))] * threads)


# ---------------------------------------------------------------- rounds


@compiled
def work(held, part, rule, space, previous, position, rounds, n_rounds):
    """Up to n_rounds rounds on the active set after ``rounds`` others, in place.

    Returns (how it ended, rounds made, the sum of their working sets' sizes, pairs or variables moved, the position in
    the order and the last working set to go on with, −1 for variables that are not free). A round for which rows are
    missing stays open, and the next call goes on with it.
    """
    held, part, space = borrow(held), borrow(part), borrow(space)
    now, made, visits, moves, end = space.open, 0, 0, 0, GOING_ON
    if now.size[0] == 0:
        count_ages(part.last, space.ages)
    while made < n_rounds and end == GOING_ON:
        # 1) open, and choose
        if now.size[0] == 0:
            end = open_round(part, rule, space, previous, position, rounds + made)
        if end == GOING_ON and count_missing(held.slot_of, space.wanted[: now.listed[0]]) > 0:
            end = MISSING
        if end == GOING_ON:
            # 2) solve
            size, position = now.size[0], now.position[0]
            use_rows(held, part, space, rule.price, rounds + made + 1)
            take_up(held, part, rule.constant, space, size)
            tolerance = max(REDUCED * now.violation[0], ROUNDING)
            moves += solve(rule.free_bias, space.K, space.members, size, tolerance, max(MOVES * size, LEAST_MOVES))
            # 3) commit
            previous = commit(part, rule, space, size)
            now.size[0] = 0
            made += 1
            visits += size
            if size * part.f.size >= rule.shared:
                end = ADDING
            else:
                add_rows(held.rows, space.slots, space.members.change[:size], part.f, 0, part.f.size)
    return end, made, visits, moves, position, previous


def apart_by(width: int) -> int:
    """float32 numbers from one row of a matrix to the next: an odd number of cache lines, so that the entries of a
    column stand in all parts of a cache.
    """
    return 16 * (-(-width // 16) | 1)
