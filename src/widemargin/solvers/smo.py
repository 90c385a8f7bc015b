"""SMO: the exact dual of kernel SVMs, by large working sets with second-order selection inside.

Dual in the C-form, for variables v = 1 … m over the rows of the data::

    max  Σ h_v σ_v α_v − ½ Σ_{v,w} σ_v σ_w α_v α_w K(row v, row w)     0 ≤ α_v ≤ C_v,
    Σ σ_v α_v = 0                                                     where the bias is free

with signs σ and offsets h. A classifier has one variable per row with σ = h = y; a regressor with an
ε-tube has two, σ = +1, h = y − ε and σ = −1, h = y + ε. With responses f_i = Σ σ_v α_v K(i, row v), all
that matters of the gradient is e_v = h_v − f(row v): moving σ_v α_v up by t raises the dual by
t e_v − ½ t² K_vv. With a free bias pairs move against each other, and at the optimum

    max {e_v : σ_v α_v can rise}  ≤  b  ≤  min {e_v : σ_v α_v can fall};

without one, e_v ≤ 0 where it can rise and e_v ≥ 0 where it can fall.

A round takes a working set of up to some thousand variables, gets the kernel rows it lacks in one block, solves the
problem restricted to them by pairs chosen with second-order information (Fan, Chen and Lin 2005; without a bias,
single coordinates of the largest gain), and adds the change to the responses in one pass. All of it is one compiled
loop, whatever the kernel and the layout; it is left for rows that are missing, for more room, and for several threads
to look up kernel values of new variables and to add rows to the responses. Rounds come in
*episodes* over an active set of variables; kernel rows, responses and cache are restricted to it, and the responses of
the others are brought up to date when it ends, from the variables that changed. This is shrinking with
gradient reconstruction, on a schedule:

1. a random eighth of the examples with eight times the bounds. Are most of its support vectors free, then their α are
   about those of the problem, and the next episode begins with them, clipped to the bounds. Do most stand at their
   bounds, then it begins with α over eight, which is feasible, and has the examples that violate their margin under
   the sample's solution;
2. where most are free, all variables. Kernel rows are then over all examples, and none is computed twice while they fit
   into the cache. A narrower set of variables would cost about one more row for each support vector, when it ends:
   as soon as that much has been spent on rows computed again, and on adding rows to f, it is narrowed. Before that
   an episode goes *ahead* over the third of the variables with the least to spare under the sample's solution, where
   these, and all that miss their margin, are few, and kernel values are cheap or good points wanted early. Its rows
   are short, and most variables that come and go do so here; at its end those of the variables that have changed are
   computed over all examples, and stay. Until then the value of its point on all examples is known by an estimate
   only;
3. from then on, all variables but those at a bound with a margin to spare, until the gap is closed.

An episode over few variables goes over them in random order and takes the violators it meets, as long as they are
frequent, which settles most bounded variables; then, and from the start where all variables are active, each round
takes the worst violators, half of them from either end, and the free variables of the last round, as many as memory of
an eighth of the cache has room for the kernel values between, or a thousand.

The duality gap costs O(m), since the responses are at hand:

    P − D = Σ_v (C_v [σ_v (e_v − b)]₊ − α_v σ_v (e_v − b)).

Fan, Chen, Lin: Working set selection using second order information for training support vector machines.
JMLR 6 (2005). Chang, Lin: LIBSVM (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core import losses
from ..core.borrowing import borrow
from ..core.dispatch import apart, compiled, generic, inlined
from ..core.extremes import larger, smaller
from ..core.kernel_cache import RowCache
from ..core.rows import one_by_one, prefetch
from ..core.sharing import claim, share
from ..core.visits import shuffle
from ..files import savable
from ..history import Counters
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from ..schemas import Array, Own, Whole, Within, maybe, permutation
from . import protocol
from .protocol import Solver

#: A round takes one in this many variables of a small episode, but no fewer than LEAST.
PORTION = 32
LEAST = 32
#: A round may take one new variable for so many free ones of the round before.
NEWCOMER = 7
#: A working set may be so large that the values between its variables take this part of the cache's bytes, beside it;
#: and four times as large as the variables it takes up, whatever the cache.
SET_SHARE = 0.125
#: Who wants good points early has working sets of twice the variables they take up until the gap is this share of the
#: dual value: large ones are solved better than the others' responses are known.
NEAR = 0.03
#: A violator that counts in the random pass misses its margin by this much.
CLEARLY = 0.05
#: The random pass ends when fewer of the variables it looks at violate than this share.
FREQUENT = 0.5
#: Ahead of the first episode over all examples there is one over this share of the variables, those with the least to
#: spare under the sample's solution, if these are of no more than so large a share of the examples …
AHEAD, AHEAD_MOST = 1 / 3, 0.4
#: … to this relative gap, or the smaller one where good points are wanted early. It has rows computed that would not
#: be, and saves adding long ones to f: where a kernel value costs more than so many additions, it only serves these.
AHEAD_TOL, AHEAD_TOL_EARLY, AHEAD_PRICE = 0.01, 0.003, 24.0
#: The value of its point is estimated from so many of the other examples.
PROBE = 512
#: What computing a kernel value costs, in additions to f, beside one for each entry of the data that it looks at.
PRICE = 10.0
#: Kernel matrices that cost no more than this, priced so, are computed at once: rounds that ask for rows cost more.
AT_ONCE = 2**22
#: Relative gap at which an episode that only finds out which examples matter may stop.
ROUGHLY = 0.05
#: Responses are brought up to date by blocks of rows of this part of the cache, which is empty then.
BLOCK_SHARE = 0.5
#: … and of about so many values, which take a tenth of a second.
BLOCK_VALUES = 2**23
#: A working set is left after so many moves for each of its variables, which would refine what the others undo, but
#: not before these: small problems are solved in few rounds, however many moves they take.
MOVES, LEAST_MOVES = 10, 2**14
#: Violations this small are rounding.
ROUNDING = 1e-14
#: The rows of a Space's values that have what is added to σα, and the diagonal of its K.
CHANGE, DIAGONAL = 4, 5
#: Columns that are added to at a stretch.
PIECE = 2048
#: Values to add, which take a tenth of a millisecond or more: what a second thread must have to do.
WORTH_A_THREAD = 2**18
#: Values that the rows of a working set have, from which on several threads look them up and add them.
FOR_THREADS = 2.0**19
#: Values to look up, which take as long.
WORTH_A_LOOK = 2**14
#: Variables whose kernel values a thread looks up, and then writes as columns: their numbers stand in few cache lines.
TOGETHER = 16
#: Variables among which the one that has an extreme is looked for.
STRETCH = 64
#: Smallest curvature of a direction; an indefinite kernel can have less.
TAU = 1e-12

_compiled_for: set[tuple] = set()


@inlined
def bars(sigma, cap, alpha):
    """0 where σα can rise, else −∞; 0 where it can fall, else +∞."""
    grows, shrinks = 0.0 if alpha < cap else np.inf, 0.0 if alpha > 0.0 else np.inf
    return (-grows, shrinks) if sigma > 0.0 else (-shrinks, grows)


@inlined
def solve_pairs(K, diagonal, sigma, cap, alpha, e, up, down, tolerance, max_iter):
    """Maximise the dual over all variables given, pairs at a time, with Σ σα kept; changes alpha and e in place.

    K[v, w] is the kernel between the rows of v and w; ``up`` and ``down`` are working space: 0 where σα can rise
    (fall), else −∞ (+∞). Returns the number of pairs moved. Extremes are found for a stretch of variables at a time, so
    that who has them is looked for in one stretch.
    """
    m, i, j, t, step = alpha.size, 0, 0, 0.0, 0
    for v in range(m):
        up[v], down[v] = bars(sigma[v], cap[v], alpha[v])
    while True:
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
        t = (top - e[j]) / max(own + diagonal[j] - 2.0 * row[j], TAU)
        room = cap[i] - alpha[i] if sigma[i] > 0.0 else alpha[i]
        other = alpha[j] if sigma[j] > 0.0 else cap[j] - alpha[j]
        t = min(t, room, other)
        alpha[i] += sigma[i] * t
        alpha[j] -= sigma[j] * t
        # a variable that reached its bound stands on it exactly
        if t == room:
            alpha[i] = cap[i] if sigma[i] > 0.0 else 0.0
        if t == other:
            alpha[j] = 0.0 if sigma[j] > 0.0 else cap[j]
        up[i], down[i] = bars(sigma[i], cap[i], alpha[i])
        up[j], down[j] = bars(sigma[j], cap[j], alpha[j])
        step += 1


@inlined
def solve_singles(K, diagonal, sigma, cap, alpha, e, tolerance, max_iter):
    """Maximise the dual over all variables given, one at a time, largest gain first; changes alpha and e in place."""
    m = alpha.size
    for step in range(max_iter):
        i, best, worst, move = -1, 0.0, 0.0, 0.0
        for v in range(m):
            low = -alpha[v] if sigma[v] > 0.0 else alpha[v] - cap[v]
            high = cap[v] - alpha[v] if sigma[v] > 0.0 else alpha[v]
            if (e[v] > 0.0 and high > 0.0) or (e[v] < 0.0 and low < 0.0):
                curvature = max(diagonal[v], TAU)
                t = min(max(e[v] / curvature, low), high)
                gain = t * e[v] - 0.5 * t * t * curvature
                worst = max(worst, abs(e[v]))
                if gain > best:
                    i, best, move = v, gain, t
        if i < 0 or worst <= tolerance:
            return step
        low = -alpha[i] if sigma[i] > 0.0 else alpha[i] - cap[i]
        high = cap[i] - alpha[i] if sigma[i] > 0.0 else alpha[i]
        alpha[i] += sigma[i] * move
        if move == high:
            alpha[i] = cap[i] if sigma[i] > 0.0 else 0.0
        elif move == low:
            alpha[i] = 0.0 if sigma[i] > 0.0 else cap[i]
        for v in range(m):
            e[v] -= move * K[i, v]
    return max_iter


class Pairs(NamedTuple):
    """Working sets are solved with Σ σα kept, for a free bias."""


class Singles(NamedTuple):
    """Working sets are solved one variable at a time."""


@inlined
def line(values, k, size):
    """The first numbers of a row."""
    return values[k, :size]


@generic
def solve(way, K, sigma, cap, alpha, e, values, tolerance, max_iter):
    """Maximise the dual over a working set, in place; ``values`` has K's diagonal, and two more rows to work in."""


@solve.case(Pairs)
def _(way, K, sigma, cap, alpha, e, values, tolerance, max_iter):
    m = alpha.size
    diagonal, up, down = line(values, DIAGONAL, m), line(values, DIAGONAL + 1, m), line(values, DIAGONAL + 2, m)
    return solve_pairs(K, diagonal, sigma, cap, alpha, e, up, down, tolerance, max_iter)


@solve.case(Singles)
def _(way, K, sigma, cap, alpha, e, values, tolerance, max_iter):
    return solve_singles(K, line(values, DIAGONAL, alpha.size), sigma, cap, alpha, e, tolerance, max_iter)


def way_of(problem: KernelProblem) -> Pairs | Singles:
    """How working sets of a problem are solved."""
    return Pairs() if problem.has_free_bias else Singles()


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
    """The same over pieces of so many columns that no other thread takes; begun[0] of them have been taken."""
    begun, size = borrow(begun), borrow(f).size
    first = claim(begun, 0) * width
    while first < size:
        add_rows(rows, slots, coefficients, f, first, min(first + width, size))
        first = claim(begun, 0) * width


def add_kernel_rows(
    rows: np.ndarray, slots: np.ndarray, coefficients: np.ndarray, f: np.ndarray, threads: int = 1
) -> None:  # fmt: skip
    """f += Σ coefficient × row, in place; the columns are shared out to threads, which changes no bit."""
    threads = max(1, min(threads, coefficients.size * f.size // WORTH_A_THREAD))
    width = min(PIECE, 16 * max(1, f.size // (32 * threads)))  # two pieces for each thread, or more
    share(_add_pieces, [(rows, slots, coefficients, f, width, np.zeros(1, np.int64))] * threads)


@apart
def violations(sigma, h, cap, row, alpha, f, up, down):
    """up[v] ← e_v where σ_vα_v can rise, else −∞; down[v] ← e_v where it can fall, else +∞; returns their extremes."""
    top, bottom = -np.inf, np.inf
    for v in range(alpha.size):
        e = h[v] - f[row[v]]
        rises, falls = bars(sigma[v], cap[v], alpha[v])
        up[v], down[v] = e + rises, e + falls
        top, bottom = larger(top, up[v]), smaller(bottom, down[v])
    return top, bottom


@apart
def excess(sigma, h, cap, row, alpha, f, b):
    """(duality gap Σ (C_v [σ_v(e_v − b)]₊ − α_vσ_v(e_v − b)), dual value) of the variables given, as if all."""
    gap, dual = 0.0, 0.0
    for v in range(alpha.size):
        s = sigma[v] * (h[v] - f[row[v]] - b)
        gap += cap[v] * larger(0.0, s) - alpha[v] * s
        dual += sigma[v] * alpha[v] * (h[v] - 0.5 * f[row[v]])
    return gap, dual


class Part(NamedTuple):
    """The variables of an episode, and what is known of their examples: views of an Episode."""

    sigma: np.ndarray
    h: np.ndarray
    cap: np.ndarray
    row: np.ndarray
    alpha: np.ndarray
    f: np.ndarray
    order: np.ndarray
    last: np.ndarray
    spent: np.ndarray


class Space(NamedTuple):
    """Working space of a round: over variables ``up``, ``down`` and ``taken``; over rounds ``ages``, how many rows were
    last used in each; ``begun``, what is known of a round whose rows are awaited, and whether the one before has left
    its kernel values; ``K``, these values, made larger when a working set needs it; ``fresh``, the places in the
    working set of variables that were not in the one before; over the working set the rest.
    """

    up: np.ndarray
    down: np.ndarray
    taken: np.ndarray
    chosen: np.ndarray
    wanted: np.ndarray
    slots: np.ndarray
    columns: np.ndarray
    K: np.ndarray
    values: np.ndarray
    ages: np.ndarray
    begun: np.ndarray
    picked: np.ndarray
    fresh: np.ndarray

    @classmethod
    def of(cls, variables: int, largest: int, rounds: int, dtype: Any = np.float32) -> Space:
        """For so many variables and rounds, working sets of at most ``largest``, and kernel values of this dtype."""
        return cls(
            np.empty(variables), np.empty(variables), np.zeros(variables, np.bool_),
            np.empty(largest, np.int64), np.empty(largest, np.int64), np.empty(largest, np.int64),
            np.empty(largest, np.int64), np.empty((0, 0), dtype), np.empty((8, largest)),
            np.empty(rounds + 1, np.int64), np.zeros(6), np.empty(largest, np.int64), np.empty(largest, np.int64),
        )  # fmt: skip


def apart_by(width: int) -> int:
    """float32 numbers from one row of a matrix to the next, an odd number of cache lines: a column then stands in all
    parts of a cache.
    """
    return 16 * (-(-width // 16) | 1)


class Rule(NamedTuple):
    """What a round goes by: new variables it takes if few stay, the largest working set far from the optimum and near
    it, the way to solve it, the kernel's constant; whether K(v, w) and K(w, v) are the same bits; the values in its
    rows from which on the caller, on several threads, looks up those of new variables and adds rows to f.
    """

    most: int
    early: int
    room: int
    way: Pairs | Singles
    free_bias: bool
    constant: float
    symmetric: bool
    shared: float


#: Of a round that has begun: its variables (0: it has not), their distinct rows, the position after it, the violation,
#: how many fresh ones are to be looked up. Of the one before: its variables, if their kernel values can be used.
SIZE, ROWS, AFTER, VIOLATION, FRESH, KNOWN = 0, 1, 2, 3, 4, 5
#: How rounds end: as many as allowed were made; the target is reached; rows are missing, or the caller has to look up
#: values; patience is at an end; rows are to be added; K is too small.
GOING_ON, REACHED, MISSING, TIRED, ADDING, CROWDED = 0, 1, 2, 3, 4, 5


@inlined
def middle(top, bottom):
    """The middle of the interval of optimal biases; its finite end where it has only one."""
    if np.isfinite(top) and np.isfinite(bottom):
        return 0.5 * (top + bottom)
    if np.isfinite(top):
        return top
    return bottom if np.isfinite(bottom) else 0.0


@inlined
def use_again(last, ages, wanted, count, now, capacity):
    """Note that wanted[:count] are used in round ``now``; returns how many a cache of this capacity has let go before.

    ``last`` has the round of each row's last use, 0 if there was none, and ``ages`` the rows of each round. The cache
    holds the rows used last, so the answer is the same whether it was made anew in between or not.
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
def take_extremes(values, sign, limit, count, space, found):
    """Append to picked[:found] the ``count`` largest sign × values above the limit; returns the new number found.

    The best so far are kept in order, which most values do not disturb.
    """
    taken, picked, best, where = space.taken, space.picked, space.values[0], space.columns
    edge, held = limit, 0
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
    """Where nobody in picked[:found] has a finite value, append who has the extreme, or put it in the last of ``most``
    places; returns the new number.

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

    Of variables that no round has touched and that are all 0, those that come first in the order are as good as any.
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
    if found < most // 2:
        floor, ceiling = 0.0, 0.0
        if rule.free_bias and np.isfinite(top) and np.isfinite(bottom):
            floor, ceiling = bottom, top
        half = max(1, (most - found) // 2)
        found = take_extremes(space.up, 1.0, floor, half, space, found)
        found = take_extremes(space.down, -1.0, -ceiling, half, space, found)
    elif rule.free_bias and np.isfinite(top) and np.isfinite(bottom):
        found = take_partner(space.up, top, most, space, found)  # all that are picked can rise or fall
        found = take_partner(space.down, bottom, most, space, found)
    return found, position


@apart
def seat(space, previous, most, count):
    """space.chosen ← the next working set; returns its size, and how many of it are fresh.

    Variables of the round before stay in their places, ``most`` of them at most, and so do their kernel values. Those
    picked, ``count`` of them, take places of others that have left, or new ones; the last variables come into places
    that are left over. A state may come from a run with room for larger working sets.
    """
    chosen, taken, fresh, K = space.chosen, space.taken, space.fresh, space.K
    size, staying, new, place = min(previous.size, chosen.size), 0, 0, 0
    for k in range(size):
        v, chosen[k] = previous[k], -1
        if v >= 0 and staying < most:
            chosen[k], taken[v] = v, False
            staying += 1
    for k in range(count):
        v = space.picked[k]
        if taken[v]:
            while place < size and chosen[place] >= 0:
                place += 1
            size = max(size, place + 1)
            chosen[place], fresh[new] = v, place
            new += 1
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
    if space.begun[KNOWN] != previous.size:
        new = size
        for k in range(size):
            fresh[k] = k
    return size, new


@apart
def list_rows(row, chosen, taken, columns, wanted):
    """columns ← the rows of the chosen variables; wanted ← these, once each; returns how many they are.

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


@apart
def gather(rows, slot_of, columns, fresh, constant, K, start, end):
    """Rows and columns fresh[start:end] of K ← the kernel between variables with these rows.

    Kernel values stand far apart in memory, and each is read once; vector code would take longer to compile alone.
    Where all are fresh, values below the diagonal are read, and the others are theirs.
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
            one_by_one()
            row[fresh[place]] = K[fresh[place], other]


@compiled
def _gather_pieces(rows, slot_of, columns, fresh, constant, K, begun):
    """The same for all that is fresh, a few at a time that no other thread takes; begun[0] times some were taken."""
    rows, slot_of, columns, fresh, K, begun = (
        borrow(rows), borrow(slot_of), borrow(columns), borrow(fresh), borrow(K), borrow(begun),
    )  # fmt: skip
    start = claim(begun, 0) * TOGETHER
    while start < fresh.size:
        gather(rows, slot_of, columns, fresh, constant, K, start, min(start + TOGETHER, fresh.size))
        start = claim(begun, 0) * TOGETHER


def gather_shared(cache: RowCache, rule: Rule, space: Space) -> None:
    """The kernel values that a round which has begun needs, looked up by all threads; then it finds none missing."""
    size, new = int(space.begun[SIZE]), int(space.begun[FRESH])
    piece = (
        cache.rows, cache.slot_of, space.columns[:size], space.fresh[:new], space.K.dtype.type(rule.constant), space.K,
        np.zeros(1, np.int64),
    )  # fmt: skip
    share(_gather_pieces, [piece] * max(1, min(cache.matrix.threads, new * size // WORTH_A_LOOK)))
    space.begun[FRESH] = 0


@apart
def keep(alpha, cap, chosen):
    """A working set with −1 in the place of variables that are not free."""
    previous = np.empty(alpha.size, np.int64)
    for k in range(alpha.size):
        previous[k] = chosen[k] if 0.0 < alpha[k] < cap[k] else -1
    return previous


class Goal(NamedTuple):
    """A part is done when its gap is at most ``target``, or ``share`` of its dual value if there is no target.

    It is given up where more was spent than ``patience`` for each support vector, in additions of a row to f; rows
    that were computed again cost ``price``.
    """

    target: float
    share: float
    price: float
    patience: float


class Worked(NamedTuple):
    """What :func:`work` has done.

    How it ended, rounds made, their working sets' sizes, pairs or variables moved; the position and the last working
    set to go on with, −1 for variables that are not free; how many rows are awaited: those of the working set, which
    stand in ``Space.wanted``, or those to be added, by ``Space.slots`` and ``Space.values``; or the variables for which
    there must be room.
    """

    end: int
    made: int
    visits: int
    moves: int
    position: int
    previous: np.ndarray
    awaited: int


@compiled
def work(held, part, rule, space, goal, previous, position, rounds, n_rounds):
    """Up to n_rounds rounds on a part after ``rounds`` others, in place; returns the fields of :class:`Worked`."""
    held, part, space = borrow(held), borrow(part), borrow(space)
    sigma, h, cap, row, alpha, f = part.sigma, part.h, part.cap, part.row, part.alpha, part.f
    chosen, wanted, slots, ages, begun = space.chosen, space.wanted, space.slots, space.ages, space.begun
    rows, slot_of, columns = held.rows, held.slot_of, space.columns
    visits, moves = 0, 0
    if begun[SIZE] == 0.0:
        for r in range(ages.size):
            ages[r] = 0
        for r in range(part.last.size):
            ages[part.last[r]] += 1
    for made in range(n_rounds):
        if begun[SIZE] == 0.0:
            top, bottom = violations(sigma, h, cap, row, alpha, f, space.up, space.down)
            bias, violation = 0.0, max(top, -bottom, 0.0)
            if rule.free_bias:
                violation = top - bottom
                bias = middle(top, bottom)
            gap, dual = excess(sigma, h, cap, row, alpha, f, bias)
            enough = goal.target if goal.target > 0.0 else goal.share * abs(dual)
            used = 0
            for v in range(alpha.size):
                used += alpha[v] > 0.0
            tired = part.spent[0] > goal.patience * max(used, rule.most)
            if (gap <= enough and rounds + made > 0) or tired or violation <= ROUNDING or not np.isfinite(gap):
                return TIRED if tired else REACHED, made, visits, moves, position, previous, 0
            untouched = rounds + made == 0 and used == 0
            staying = 0
            for k in range(previous.size):
                one_by_one()
                staying += previous[k] >= 0
            room = rule.room if gap <= NEAR * abs(dual) else rule.early
            most = max(rule.most, min(staying, room) // NEWCOMER)
            needed = min(max(staying + most, previous.size), rule.room)
            if needed > space.K.shape[0]:
                return CROWDED, made, visits, moves, position, previous, needed
            picked, after = choose(part, rule, most, space, bias, top, bottom, position, untouched)
            size, new = seat(space, previous, room - most, picked)
            listed = list_rows(row, chosen[:size], space.taken, columns, wanted)
            begun[SIZE], begun[ROWS], begun[AFTER], begun[VIOLATION], begun[FRESH] = size, listed, after, violation, new
            if size * f.size >= rule.shared:
                return MISSING, made, visits, moves, position, previous, listed
        size, listed, violation = int(begun[SIZE]), int(begun[ROWS]), begun[VIOLATION]
        for k in range(listed):
            if slot_of[wanted[k]] < 0:
                return MISSING, made, visits, moves, position, previous, listed
        begun[SIZE], position = 0.0, int(begun[AFTER])
        held.counts[0] += 1
        for k in range(listed):
            held.used[slot_of[wanted[k]]] = held.counts[0]
        again = use_again(part.last, ages, wanted, listed, rounds + made + 1, rows.shape[0])
        part.spent[0] += goal.price * again + size
        values = space.values
        s, c, a, e = line(values, 0, size), line(values, 1, size), line(values, 2, size), line(values, 3, size)
        start, diagonal = line(values, CHANGE, size), line(values, DIAGONAL, size)
        K, new = space.K, int(begun[FRESH])
        for k in range(size):
            v = chosen[k]
            s[k], c[k], a[k], e[k], start[k] = sigma[v], cap[v], alpha[v], h[v] - f[row[v]], alpha[v]
            slots[k] = slot_of[row[v]]
        gather(rows, slot_of, columns[:size], space.fresh[:new], K.dtype.type(rule.constant), K, 0, new)
        for k in range(size):
            diagonal[k] = K[k, k]
        tolerance = max(0.1 * violation, ROUNDING)
        moves += solve(rule.way, K, s, c, a, e, values, tolerance, max(MOVES * size, LEAST_MOVES))
        shift = 0.0
        for k in range(size):
            alpha[chosen[k]] = a[k]
            start[k] = s[k] * (a[k] - start[k])
            shift += start[k]
        if rule.constant != 0.0:
            for r in range(f.size):
                f[r] += rule.constant * shift
        previous, begun[KNOWN] = keep(a, c, chosen), size if rule.symmetric else -1
        visits += size
        if size * f.size >= rule.shared:
            return ADDING, made + 1, visits, moves, position, previous, size
        add_rows(rows, slots, start, f, 0, f.size)
    return GOING_ON, n_rounds, visits, moves, position, previous, 0


# ---------------------------------------------------------------- variables, state and solver


@dataclass
class Variables:
    """Signs, offsets, bounds and rows of the dual variables."""

    sigma: np.ndarray
    h: np.ndarray
    cap: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, problem: KernelProblem) -> Variables:
        """One variable per example for the hinge, two for the ε-insensitive loss."""
        loss, caps = losses.scalar_loss(problem.target), problem.caps
        rows = np.arange(problem.n)
        if not loss.is_regression:
            return cls(problem.y, problem.y, caps, rows)
        ones = np.ones(problem.n)
        h = np.concatenate([problem.y - loss.epsilon, problem.y + loss.epsilon])
        return cls(np.concatenate([ones, -ones]), h, np.tile(caps, 2), np.tile(rows, 2))

    def signed(self, alpha: np.ndarray) -> np.ndarray:
        """β = Σ σα over the variables of each row, of shape (1, n)."""
        return np.bincount(self.row, self.sigma * alpha, int(self.row[-1]) + 1)[None, :]

    def split(self, beta: np.ndarray) -> np.ndarray:
        """The α of a β of shape (1, n), within their bounds."""
        return np.clip(self.sigma * beta[0, self.row], 0.0, self.cap)


@savable(
    "SMO.Episode", active=Array("active", dtype=np.int64, low=0, high="variables-1"),
    rows=Array("rows", dtype=np.int64, low=0, high="n-1"), row=Array("active", dtype=np.int64, low=0, high="rows-1"),
    alpha=Array("active"), f=Array("rows"), order=permutation("active", np.int64), position=Whole(0, "active"),
    previous=Array(None, dtype=np.int64, low=-1, high="active-1"), spent=Array(1),
    last=Array("rows", dtype=np.int32, low=0, high="rounds"), rounds=Whole(0, "most_rounds", size="rounds"),
)  # fmt: skip
@dataclass
class Episode:
    """An active set being worked on; arrays are over its variables, ``rows``, ``f`` and ``last`` over their examples.

    ``last`` is the round in which a row was used last, and ``spent`` what rows that a cache has let go and additions
    to f have cost. ``ahead``: one over all examples comes next, whose kernel rows are kept in the meantime.
    """

    active: np.ndarray
    rows: np.ndarray
    row: np.ndarray
    bound: float
    target: float
    alpha: np.ndarray
    f: np.ndarray
    order: np.ndarray
    position: int
    previous: np.ndarray
    last: np.ndarray
    spent: np.ndarray
    rounds: int = 0
    gave_up: bool = False
    ahead: bool = False


@dataclass
class Kept:
    """What belongs to an episode and can be made again: its cache, and arrays made from the problem."""

    episode: Episode
    cache: RowCache
    part: Part
    rule: Rule
    space: Space
    memory: np.ndarray

    def make_room(self, needed: int) -> None:
        """Let K have values between so many variables, and more soon.

        It stays where it is: memory that is touched first is dear. The last rows go first, as many as have their new
        places where no row was, or one.
        """
        before, known, size, begun = self.space.K, self.space.K.shape[0], self.rule.room, self.space.begun
        while size // 2 >= needed:
            size //= 2
        width, last = apart_by(size), known
        K = self.memory[: size * width].reshape(size, width)
        kept, begun[KNOWN] = begun[KNOWN], -1  # should this be interrupted
        while last > 1:
            first = min(-(-last * before.shape[1] // width), last - 1)
            K[first:last, :known] = before[first:last, :known]
            last = first
        self.space = self.space._replace(K=K)
        begun[KNOWN] = kept


class Seen(NamedTuple):
    """What a glimpse of an episode has found after so many rounds, and the kernel values that it took."""

    episode: Episode
    rounds: int
    values: int
    measured: dict[str, float]
    model: Callable[[], KernelModel]


@dataclass
class Workspace:
    """The variables of the problem; what the episode under way works with, or the kernel matrix that its end takes;
    kernel rows over all examples, where an episode had or will have them, none in a ``passing`` workspace; memory for
    the values between variables of a working set; what was seen last, and what was estimated.
    """

    variables: Variables
    kept: Kept | None = None
    matrix: Any = None
    whole: RowCache | None = None
    passing: bool = False
    memory: np.ndarray = field(default_factory=lambda: np.empty(0))
    seen: Seen | None = None
    foreseen: Seen | None = None

    @classmethod
    def of(cls, problem: KernelProblem, state: State) -> Workspace:
        """The workspace of a run, made if there is none."""
        return state.work(problem, lambda: cls(Variables.of(problem)))


@savable(
    "SMO.Closing", rows=Array((0, "changed"), dtype=np.int64, low=0, high="n-1"), per_row=Array("points", "changed"),
    others=Array("others", dtype=np.int64, low=0, high="n-1"), f=Array("points", "others"),
    position=Whole(0, "changed"),
)  # fmt: skip
@dataclass
class Closing:
    """The end of an episode under way: what the changed rows, ``position`` of them so far, add to the other examples'
    responses; after a sample, the responses of all to its own point and to the feasible one.
    """

    rows: np.ndarray
    per_row: np.ndarray
    others: np.ndarray
    f: np.ndarray
    position: int = 0

    @property
    def values(self) -> int:
        """The number of kernel values that it takes in all."""
        return self.rows.size * self.others.size


@savable("SMO.Point")
class Point(NamedTuple):
    """A primal point: a multiple of w(α), a bias and the value, in the C-form."""

    multiple: float
    bias: float
    primal: float


class Solved(NamedTuple):
    """Examples, ascending, the α of their problem with n over their number times the bounds, and their responses."""

    rows: np.ndarray
    alpha: np.ndarray
    f: np.ndarray


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    if sizes["variables"] not in (sizes["n"], 2 * sizes["n"]):
        return f"alpha has {sizes['variables']} variables of {sizes['n']} examples"
    closing, episode = state.closing, state.episode
    if closing is not None and (episode is None or closing.position > closing.rows.size or not len(closing.f)):
        return "closing is that of no episode"
    return None


@savable(
    "SMO.State", alpha=Array("variables", low=0.0), f=Array("n"), episode=maybe(Within(Episode)),
    closing=maybe(Within(Closing)), episodes=Whole(0), point=Own(Point), law=_law,
    promising=maybe(Array(None, dtype=np.int64, low=0, high="variables-1", distinct=True)),
)  # fmt: skip
@dataclass
class State(protocol.State):
    """α and the responses f of all examples as of the last episode's end, and the episode under way.

    ``ahead``: the next episode is one, over the ``promising``; ``narrow``: rows over all examples have become too dear.
    ``loss_of_sample``: the mean loss of the sample's own solution on all examples.
    ``primal`` and ``dual`` are the values of w(α) with ``bias``, and of α; ``point`` is the best primal point that can
    be made of α, which is the model.
    """

    alpha: np.ndarray
    f: np.ndarray
    rng: np.random.Generator
    episode: Episode | None = None
    closing: Closing | None = None
    episodes: int = 0
    promising: np.ndarray | None = None
    ahead: bool = False
    narrow: bool = False
    loss_of_sample: float = np.inf
    stalled: bool = False
    bias: float = 0.0
    primal: float = np.inf
    dual: float = 0.0
    point: Point = field(default_factory=lambda: Point(1.0, 0.0, np.inf))
    counters: Counters = field(default_factory=Counters)


class DualSolver(Solver):
    """What the exact solvers of this dual share: the values of an α with its responses, and the best primal point,
    model and certificate made of them. Their states have ``alpha``, ``f``, ``bias``, ``primal``, ``dual``,
    ``point``.
    """

    #: Whether the model is w(α) itself, no multiple of it.
    onward: Any = False

    free_bias = True
    warm = True
    exact = True
    for_pairs = "smo"

    @staticmethod
    def _check_loss(problem: KernelProblem) -> None:
        loss = losses.scalar_loss(problem.target)
        if not isinstance(loss, (losses.Hinge, losses.EpsilonInsensitive)):
            raise ValueError(
                f"SMO solves the hinge and the ε-insensitive loss, got {type(loss).__name__}: choose one of them "
                "or another solver"
            )

    @staticmethod
    def _nearest(problem: KernelProblem, variables: Variables, duals: np.ndarray) -> np.ndarray:
        """Feasible α for dual variables of shape (1, n)."""
        alpha = variables.split(protocol.checked_duals(duals, 1, problem.n))
        return balance(alpha, variables.sigma, variables.cap) if problem.has_free_bias else alpha

    def _close(self, problem: KernelProblem, variables: Variables, state: Any) -> None:
        """Bias, primal, dual and the best point from the responses."""
        state.bias, state.primal, state.dual = self._values(problem, variables, state.alpha, state.f)
        state.point = self._point(problem, variables, state.alpha, state.f, state.bias, state.primal, state.dual)

    def _values(
        self, problem: KernelProblem, variables: Variables, alpha: np.ndarray, f: np.ndarray
    ) -> tuple[float, float, float]:
        """The bias, the primal and the dual value of α with the responses f."""
        v, bias = variables, 0.0
        if problem.has_free_bias:
            bias = free_bias(v.sigma, v.h - f[v.row], v.cap, alpha)
        signed = v.sigma * alpha
        norm2 = float(signed @ f[v.row])
        primal = problem.value(f[None] + bias, np.array([norm2])) / problem.lam
        return bias, primal, float(v.h @ signed) - 0.5 * norm2

    def _point(
        self, problem: KernelProblem, variables: Variables, alpha: np.ndarray, f: np.ndarray, bias: float,
        primal: float, dual: float,
    ) -> Point:  # fmt: skip
        """The best primal point on the ray of w(α), which far from the optimum is not w(α): large C overshoots."""
        own = Point(1.0, bias, primal)
        if self.onward or primal - dual <= ROUGHLY * abs(primal) or not alpha.any():
            return own
        norm2 = float(np.sum(variables.sigma * alpha * f[variables.row]))
        ray = Point(*problem.best_multiple(f, norm2))
        return ray if ray.primal < primal else own

    def certificate(self, problem: KernelProblem, state: Any) -> Certificate:
        """Primal value of the model, dual value of α, and their difference, in the λ-form."""
        return self._certificate(problem, state.point, state.dual)

    def _certificate(self, problem: KernelProblem, point: Point, dual: float) -> Certificate:
        return Certificate(problem.lam * point.primal, problem.lam * dual, problem.lam * (point.primal - dual))

    def duals(self, problem: KernelProblem, state: Any) -> np.ndarray:
        """Σ σα over the variables of an example, of shape (1, n)."""
        return Variables.of(problem).signed(state.alpha)

    def model(self, problem: KernelProblem, state: Any) -> KernelModel:
        """Support vectors, their coefficients σα summed over the variables of a row, and the bias: the best point that
        can be made of the state's α.
        """
        return self._model(problem, self.duals(problem, state), state.point)

    def scores(self, problem: KernelProblem, state: Any) -> tuple[np.ndarray, float] | None:
        """Those of the best point, a multiple of w(α)."""
        multiple, bias, _ = state.point
        return multiple * state.f[None] + bias, 1.0 / max(multiple, TAU)

    def _model(self, problem: KernelProblem, beta: np.ndarray, point: Point) -> KernelModel:
        return problem.model(point.multiple * beta, np.array([point.bias]))


@savable()
@dataclass
class SMO(DualSolver):
    """Sequential minimal optimisation: the exact solver of kernel machines.

    It is what :class:`SVC` and :class:`SVR` use by default.

    Parameters
    ----------
    working_set : int, default=256
        The largest number of new variables that a round takes up, half as many where all variables are
        active. The free ones of the round before stay in, up to four times this number, or as many as
        memory of an eighth of the cache has room for the kernel values between. Where many stay, new
        ones are up to a seventh of them.
    tol : float, default=1e-3
        The relative duality gap at which episodes stop refining. Estimators put their own ``tol`` here.
    slack : float, default=0.3
        How far a variable at its bound must be from violating its margin to leave the active set.
    first_slack : float, default=0.1
        The same for the active set that the sample chooses.
    sample : int, default=8
        The first episode takes one in this many examples. 1 starts with all.
    max_rounds : int, default=2000
        The largest number of rounds of one episode.
    onward : bool, default=False
        Whether the start is near the solution, so that episodes go to ``tol`` at once. The model is
        then w(α) and no multiple of it.
    early : bool, default=False
        Whether good points on the way matter more than a soon end. An episode then goes ahead over the
        examples that matter whatever kernel values cost, to a gap of 0.3 % and not 1 %, and no more than
        twice ``working_set`` variables are at work until the gap is 3 % of the dual value.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, SMO
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> bool(SVC(solver=SMO(working_set=64)).fit(X, y).certificate_.relative_gap <= 1e-3)
    True
    """

    working_set: int = 256
    tol: float = 1e-3
    slack: float = 0.3
    first_slack: float = 0.1
    sample: int = 8
    max_rounds: int = 2000
    onward: bool = False
    early: bool = False

    state_class = State
    for_device = "smo"

    def sizes(self, problem: KernelProblem) -> dict[str, int]:
        """With the variables, and the rounds that an episode may have."""
        variables = problem.n * (2 if losses.scalar_loss(problem.target).is_regression else 1)
        return {**super().sizes(problem), "variables": variables, "most_rounds": int(self.max_rounds)}

    def first_slice(self, problem: KernelProblem) -> int:
        """Rounds: one on a large problem, where it may compute as much as a slice, all of a small one."""
        return max(1, 2**15 // max(1, problem.n))

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self._check_loss(problem)
        for name, least in (("working_set", 2), ("sample", 1), ("max_rounds", 1)):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise ValueError(f"{name} must be an integer ≥ {least}, got {value!r}")

    def init(
        self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None,
        promising: np.ndarray | None = None, responses: np.ndarray | None = None, solved: Solved | None = None,
    ) -> State:  # fmt: skip
        """α = 0, or given dual variables of shape (1, n), made feasible; the first episode's variables may be given,
        the responses of feasible dual variables, if they are known, and a solved sample as the first episode.
        """
        self.check(problem)
        variables = Variables.of(problem)
        state = State(np.zeros(variables.h.size), np.zeros(problem.n), rng)
        if duals is not None:
            state.alpha[:] = self._nearest(problem, variables, duals)
            if responses is not None and np.array_equal(variables.signed(state.alpha)[0], np.ravel(duals)):
                state.f[:] = responses
            else:
                state.f[:] = self._responses(problem, state, variables, state.alpha)
            state.episodes = 2
            whole = problem.dtype.itemsize * problem.n * np.count_nonzero(state.alpha)
            state.narrow = bool(whole > problem.cache_bytes)
        if promising is not None:
            state.promising, state.episodes = promising, 1
        if solved is None:
            self._close(problem, variables, state)
        else:  # nothing of it is known until its responses are
            active = np.flatnonzero(among(solved.rows, problem.n)[variables.row])
            bound = problem.n / solved.rows.size
            cap = variables.cap[active] * bound  # up to rounding those that it was solved with
            at_bound = solved.alpha >= cap * (1.0 - 1e-12)
            state.episode = Episode(
                active=active, rows=solved.rows, row=np.searchsorted(solved.rows, variables.row[active]),
                bound=bound, target=0.0, alpha=np.where(at_bound, cap, solved.alpha), f=solved.f.copy(),
                order=np.arange(active.size), position=active.size, previous=np.empty(0, np.int64),
                last=np.zeros(solved.rows.size, np.int32), spent=np.zeros(1),
            )  # fmt: skip
            state.closing = self._closing(problem, variables, state)
        return state

    def lend(self, problem: KernelProblem, state: State, cache: RowCache) -> None:
        """Kernel rows over all examples, to be used and added to for as long as such rows are wanted."""
        Workspace.of(problem, state).whole = cache

    def _responses(
        self, problem: KernelProblem, state: State, variables: Variables, alpha: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """The responses of all examples to α."""
        support, f = np.flatnonzero(alpha), np.zeros(problem.n)
        closing = self._to_add(variables, support, alpha[None, support], np.arange(problem.n))
        self._add_all(problem, state.counters, closing, Workspace.of(problem, state))
        self._add(problem, f, closing)
        return f

    # -- rounds

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """Take up to n_steps rounds, stopping where an episode has ended, and for good points early where one ahead has
        come to its goal; returns the number taken.

        The blocks of kernel rows that end an episode use up n_steps like rounds, but are not among those returned.
        Many kernel values end the call sooner, within a round too, since rounds take more or less of them.
        """
        space, taken, left = Workspace.of(problem, state), 0, n_steps
        variables, enough = space.variables, state.counters.kernel_computed + problem.values_at_once
        if n_steps == 0:
            self._compile(problem)
        while left > 0 and state.counters.kernel_computed < enough:
            if state.closing is not None:
                left -= 1
                self._add_block(problem, state.counters, state.closing, space)
                if state.closing.position == state.closing.rows.size:
                    assert state.episode is not None
                    rounds = state.episode.rounds
                    self._end(problem, space, state)
                    return taken if rounds else 1  # an episode without a round counts, or a run might never end
                continue
            if state.episode is None:
                self._open(problem, variables, state)
            episode = state.episode
            assert episode is not None
            allowed = min(left, self.max_rounds - episode.rounds)
            kept, values = self._kept(problem, space, episode), enough - state.counters.kernel_computed
            made, reached = self._work(state, episode, kept, allowed, values)
            taken += made
            left -= made
            if reached or episode.rounds >= self.max_rounds:
                space.kept = None  # its memory is the closing's now
                state.closing = self._closing(problem, variables, state)
                if self.early and episode.ahead:
                    return taken  # there is a good point to be looked at
                left = max(left, 1)
        return taken

    def _compile(self, problem: KernelProblem) -> None:
        """Compile the rounds for this kind of problem, if that has not been done."""
        kind = type(problem.kernel), type(problem.X), problem.has_free_bias, problem.threads > 1, problem.dtype
        if kind not in _compiled_for:
            rows = np.arange(min(2, problem.n))
            cache = RowCache(problem.matrix(rows, rows), 0.0)
            cache.fetch(rows)
            two, places = np.zeros(2), np.zeros(2, np.int64)
            part = Part(two, two, two, places, two, two, places, np.zeros(2, np.int32), two)
            rule = Rule(2, 2, 2, way_of(problem), problem.has_free_bias, problem.constant, True, np.inf)
            previous, space = np.empty(0, np.int64), Space.of(2, 2, 0, problem.dtype)
            work(cache.held, part, rule, space, Goal(0.0, 0.0, 1.0, 1.0), previous, 0, 0, 0)
            add_kernel_rows(cache.rows, places[:0], two[:0], two)
            if problem.threads > 1:
                gather_shared(cache, rule, space)
            _compiled_for.add(kind)

    def at_checkpoint(self, state: State) -> bool:
        """Whether an episode has just ended."""
        return self.knows(state)

    def knows(self, state: State) -> bool:
        """Whether all responses are up to date."""
        return state.episode is None

    def _open(self, problem: KernelProblem, variables: Variables, state: State) -> None:
        """Begin an episode: choose its active set."""
        n = problem.n
        target, bound = 0.0, 1.0  # a target of 0 means ROUGHLY of the dual value reached
        if state.episodes == 0 and self.sample > 1 and n > 1000 * self.sample // 4:
            chosen = np.sort(state.rng.choice(n, n // self.sample, replace=False))
            active = np.flatnonzero(among(chosen, n)[variables.row])
            bound = n / chosen.size
        elif state.promising is not None:
            active = state.promising
        elif state.episodes == 0:
            active = np.arange(variables.h.size)
            target = -1.0  # to the end, since the gap is that of the problem
        elif not state.narrow:
            active, target = np.arange(variables.h.size), -1.0
        else:
            s = variables.sigma * (variables.h - state.f[variables.row] - state.bias)
            idle = np.where(state.alpha >= variables.cap, s >= self.slack, (state.alpha <= 0.0) & (s <= -self.slack))
            active = np.flatnonzero(~idle)
            target = 0.4 * self.tol * abs(state.dual if self.onward else state.primal)
            target = target if self.onward else max(0.03 * (state.primal - state.dual), target)
        if active.size < 2 or active.size == variables.h.size:
            active, rows, row = np.arange(variables.h.size), np.arange(n), variables.row
        else:
            rows = np.flatnonzero(among(variables.row[active], n))
            row = np.empty(n, np.int64)
            row[rows] = np.arange(rows.size)
            row = row[variables.row[active]]
        order = np.arange(active.size)
        shuffle(order, state.rng)
        passed = order.size if (target < 0.0 and state.episodes) or state.ahead else 0
        state.episode = Episode(
            active=active, rows=rows, row=row, bound=bound, target=target, alpha=state.alpha[active],
            f=state.f[rows], order=order, position=passed, previous=np.empty(0, np.int64),
            last=np.zeros(rows.size, np.int32), spent=np.zeros(1), ahead=state.ahead,
        )  # fmt: skip

    def _kept(self, problem: KernelProblem, space: Workspace, episode: Episode) -> Kept:
        """What belongs to an episode and is no part of its state: the rows of its examples against each other, as many
        as fit, the bounds of its variables, working space.
        """
        if space.kept is not None and space.kept.episode is episode:
            return space.kept
        variables, whole = space.variables, space.whole
        if episode.rows.size == problem.n and whole is not None:
            cache = whole
        else:
            n_bytes = problem.cache_bytes
            if episode.ahead:
                n_bytes *= 0.5
            if not episode.ahead or (whole is not None and whole.filled_bytes > n_bytes):
                whole = space.whole = None  # its memory is the new one's
            cache = RowCache(problem.matrix(episode.rows, episode.rows), n_bytes)
            space.whole = cache if episode.rows.size == problem.n else whole
        m = episode.active.size
        part = Part(
            variables.sigma[episode.active], variables.h[episode.active], variables.cap[episode.active] * episode.bound,
            episode.row, episode.alpha, episode.f, episode.order, episode.last, episode.spent,
        )  # fmt: skip
        # fewer new ones where rows are dear, being over all examples, or soon will be
        few = m == variables.h.size or episode.ahead
        most = max(2, self.working_set // 2) if few else self.working_set
        # a working set must fit into the cache
        most = max(2, min(most, cache.capacity * 4 // 5, m if episode.ahead else max(LEAST, m // PORTION)))
        room = max(4 * self.working_set, int(np.sqrt(SET_SHARE * problem.cache_bytes / problem.dtype.itemsize)))
        room = max(most, min(room, m, cache.capacity))
        way, symmetric = way_of(problem), problem.kernel.of_rows
        shared = FOR_THREADS if cache.matrix.threads > 1 else np.inf
        early = max(most, min(room, 2 * self.working_set)) if self.early else room
        rule = Rule(most, early, room, way, problem.has_free_bias, problem.constant, symmetric, shared)
        if space.memory.size < room * apart_by(room):
            space.memory = np.empty(room * apart_by(room), problem.dtype)
        arrays = Space.of(m, room, max(self.max_rounds, episode.rounds), problem.dtype)
        space.kept = Kept(episode, cache, part, rule, arrays, space.memory)
        space.kept.make_room(2 * self.working_set)
        return space.kept

    def _work(self, state: State, episode: Episode, kept: Kept, n_rounds: int, values: int) -> tuple[int, bool]:
        """Up to n_rounds rounds of an episode, or until so many kernel values were computed; returns the number of
        rounds, and whether the episode has reached its target.
        """
        cache, counters = kept.cache, state.counters
        before = cache.matrix.evaluations
        price = PRICE + getattr(cache.matrix, "entries_per_row", 0)
        patience = price if episode.target < 0.0 else np.inf
        tol = 0.95 * self.tol
        ahead = max(AHEAD_TOL_EARLY if self.early else AHEAD_TOL, tol)
        share = tol if episode.target != 0.0 else ahead if episode.ahead else ROUGHLY
        goal = Goal(episode.target, share, price, patience)
        if cache.misses == 0 and cache.capacity == episode.rows.size and episode.rows.size**2 * price <= AT_ONCE:
            cache.fetch(np.arange(episode.rows.size))
        total, end = 0, MISSING
        most = before + values
        while end in (MISSING, ADDING, CROWDED) and total < n_rounds and cache.matrix.evaluations < most:
            space = kept.space
            worked = Worked(*work(
                cache.held, kept.part, kept.rule, space, goal, episode.previous, episode.position,
                episode.rounds, n_rounds - total,
            ))  # fmt: skip
            end = worked.end
            episode.position, episode.previous = worked.position, worked.previous
            episode.rounds += worked.made
            total += worked.made
            counters.steps += worked.made
            counters.updates += int(worked.moves)
            counters.visits += int(worked.visits)
            counters.kernel_evals += int(worked.visits) * episode.rows.size
            if end == MISSING:
                cache.fetch(space.wanted[: worked.awaited])
                if kept.rule.shared < np.inf:
                    gather_shared(cache, kept.rule, space)
            elif end == ADDING:
                change, slots = space.values[CHANGE, : worked.awaited], space.slots[: worked.awaited]
                add_kernel_rows(cache.rows, slots, change, episode.f, cache.matrix.threads)
            elif end == CROWDED:
                kept.make_room(worked.awaited)
        counters.kernel_computed += cache.matrix.evaluations - before
        episode.gave_up = end == TIRED
        return total, end in (REACHED, TIRED)

    # -- the end of an episode

    def finish(self, problem: KernelProblem, state: State) -> None:
        """End the episode under way: bring all responses, the bias and the gap up to date."""
        if state.episode is None:
            return
        space = Workspace.of(problem, state)
        if state.closing is None:
            space.kept = None
            state.closing = self._closing(problem, space.variables, state)
        self._add_all(problem, state.counters, state.closing, space)
        self._end(problem, space, state)

    def _closing(self, problem: KernelProblem, variables: Variables, state: State) -> Closing:
        """What the changes of the episode under way will add to the responses of the examples outside of it."""
        episode = state.episode
        assert episode is not None
        if episode.bound != 1.0:  # a sample: all of its point, and of the one that the next episode begins with
            points = np.stack([episode.alpha, self._feasible(problem, variables, episode)])
            changed = np.flatnonzero(points.any(axis=0))
            return self._to_add(variables, episode.active[changed], points[:, changed], np.arange(problem.n))
        change = episode.alpha - state.alpha[episode.active]
        changed = np.flatnonzero(change)
        others = np.arange(problem.n) if episode.ahead else others_than(episode.rows, problem.n)
        return self._to_add(variables, episode.active[changed], change[None, changed], others)

    def _goes_ahead(self, problem: KernelProblem, rows: np.ndarray, alpha: np.ndarray) -> bool:
        """Whether an episode over examples in these rows, which a sample's α promises, comes ahead of one over all."""
        # bytes of rows that are at hand, and kept in the meantime
        whole = problem.dtype.itemsize * problem.n * np.count_nonzero(alpha)
        few = np.count_nonzero(among(rows, problem.n)) <= AHEAD_MOST * problem.n
        own = problem.shared is None and not (problem.kernel.is_table or problem.kernel.is_function)
        wanted = self.early or PRICE + problem.entries_per_row <= AHEAD_PRICE
        return bool(own and few and wanted and rows.size >= 2 and 2 * whole <= problem.cache_bytes)

    @staticmethod
    def _is_mostly_free(variables: Variables, episode: Episode) -> bool:
        """Whether most support vectors of an episode are free."""
        used = episode.alpha > 0.0
        free = used & (episode.alpha < variables.cap[episode.active] * episode.bound)
        return bool(2 * np.count_nonzero(free) > np.count_nonzero(used))

    def _feasible(self, problem: KernelProblem, variables: Variables, episode: Episode) -> np.ndarray:
        """A sample's point within the bounds of the problem.

        Where most α of the support vectors are free they are about those of the problem, and are clipped. Where most
        stand at their bounds the examples that are not in the sample will share their weight.
        """
        if not self._is_mostly_free(variables, episode):
            return episode.alpha / episode.bound
        cap = variables.cap[episode.active]
        return lightened(episode.alpha, variables.sigma[episode.active], cap, problem.has_free_bias)

    def _to_add(
        self, variables: Variables, chosen: np.ndarray, change: np.ndarray, others: np.ndarray
    ) -> Closing:  # fmt: skip
        """f[others] += Σ σ_v change_v K(row v, ·) over the chosen variables for each of the changes, to be done."""
        rows, place = np.unique(variables.row[chosen], return_inverse=True)
        per_row = np.stack([np.bincount(place, variables.sigma[chosen] * some, rows.size) for some in change])
        return Closing(rows if others.size else rows[:0], per_row, others, np.zeros((len(change), others.size)))

    def _add_block(self, problem: KernelProblem, counters: Counters, closing: Closing, space: Workspace) -> None:
        """The next rows of a closing, a tenth of a second's work or so, in place.

        Rows over all examples are kept for the episode that comes next.
        """
        left, width = closing.rows.size - closing.position, closing.others.size
        room = int(BLOCK_SHARE * problem.cache_bytes) // problem.dtype.itemsize
        at_once = max(64 * width, problem.values_at_once)
        most = min(256, min(BLOCK_VALUES, at_once, room) // max(1, width))
        count = min(left, max(16, most // 16 * 16))
        if count == 0:
            return
        some = np.arange(closing.position, closing.position + count)
        if width == problem.n and not space.passing:
            if space.whole is None:
                everything = np.arange(problem.n)
                space.whole = RowCache(problem.matrix(everything, everything), problem.cache_bytes)
            matrix, before = space.whole.matrix, space.whole.matrix.evaluations
            block, here = space.whole.rows, space.whole.fetch(closing.rows[some])
        else:
            if space.matrix is None:
                space.matrix = problem.matrix(closing.rows, closing.others)
            matrix, before = space.matrix, space.matrix.evaluations
            block, here = np.empty((count, width), problem.dtype), np.arange(count)
            matrix.fill(some, here, block)
        for coefficients, f in zip(closing.per_row, closing.f, strict=True):
            add_kernel_rows(block, here, coefficients[some], f, problem.threads)
        counters.kernel_evals += count * width
        counters.kernel_computed += matrix.evaluations - before
        closing.position += count

    def _add_all(self, problem: KernelProblem, counters: Counters, closing: Closing, space: Workspace) -> None:
        """All rows of a closing that are left, in place."""
        while closing.position < closing.rows.size:
            self._add_block(problem, counters, closing, space)

    def _add(self, problem: KernelProblem, f: np.ndarray, closing: Closing) -> None:
        """f ← f with all that a closing adds, the last change of it, in place."""
        f[closing.others] += closing.f[-1] + problem.constant * closing.per_row[-1].sum()

    def _end(self, problem: KernelProblem, space: Workspace, state: State) -> None:
        """Take over the episode's α and responses, now that the closing has all of its rows."""
        episode, closing, variables = state.episode, state.closing, space.variables
        space.matrix = space.seen = space.foreseen = None
        assert episode is not None
        assert closing is not None
        is_last = episode.bound == 1.0 and not episode.ahead
        state.stalled = is_last and np.array_equal(episode.alpha, state.alpha[episode.active])
        state.promising, state.ahead = None, False
        if episode.bound != 1.0:
            state.narrow = not self._is_mostly_free(variables, episode)
            # which examples matter is known now
            state.alpha[episode.active] = episode.alpha
            f = closing.f[0] + problem.constant * closing.per_row[0].sum()
            part = variables.sigma[episode.active], variables.h[episode.active] - episode.f[episode.row]
            # the sample's own bias: the ends of an interval over all examples are two wrong labels
            bias = free_bias(*part, variables.cap[episode.active] * episode.bound, episode.alpha)
            bias = bias if problem.has_free_bias else 0.0
            state.loss_of_sample = float(problem.mean_losses(f[None] + bias)[0])
            s = variables.sigma * (variables.h - f[variables.row] - bias)
            slack = self.first_slack if state.narrow else max(self.first_slack, -float(np.quantile(s, 1.0 - AHEAD)))
            state.promising = np.flatnonzero((s > -slack) | (state.alpha > 0.0))
            if not state.narrow:
                state.ahead = self._goes_ahead(problem, variables.row[state.promising], episode.alpha)
                state.promising = state.promising if state.ahead else None
            state.alpha[episode.active] = self._feasible(problem, variables, episode)
            state.f[:] = 0.0
            self._add(problem, state.f, closing)
        else:
            state.narrow |= episode.gave_up
            state.alpha[episode.active] = episode.alpha
            self._add(problem, state.f, closing)
            state.f[episode.rows] = episode.f
        state.episode = state.closing = None
        state.episodes += 1
        self._close(problem, variables, state)

    # -- output

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """Rounds that take up as many new variables as there are examples."""
        return max(1, -(-problem.n // self.working_set))

    def glimpse(
        self, problem: KernelProblem, state: State, most: float
    ) -> tuple[dict[str, float], Callable[[], KernelModel]] | None:
        """Measures and model of the point that the episode under way has come to, which is left as it is; None if
        the responses of the examples outside of it take more than ``most`` kernel values.
        """
        episode = state.episode
        if episode is None:
            return self.evaluate(problem, state, None), lambda: self.model(problem, state)
        space = Workspace.of(problem, state)
        variables, seen = space.variables, space.seen
        if seen is not None and seen.episode is episode and seen.rounds == episode.rounds and seen.values <= most:
            return seen.measured, seen.model
        closing = self._closing(problem, variables, state)
        if closing.values > most:
            probed = PROBE * np.count_nonzero(alpha_of(state))
            return self.estimate(problem, state) if episode.ahead and probed <= most else None
        # what is done for a look is neither counted nor kept
        self._add_all(problem, Counters(), closing, Workspace(variables, passing=True))
        alpha, f = alpha_of(state), state.f.copy()
        self._add(problem, f, closing)
        f[episode.rows] = episode.f
        bias, primal, dual = self._values(problem, variables, alpha, f)
        if episode.bound != 1.0:
            dual = -np.inf  # beyond the bounds
        point = self._point(problem, variables, alpha, f, bias, primal, dual)
        certificate = self._certificate(problem, point, max(dual, state.dual))
        measured = {"objective": certificate.primal, "gap": certificate.gap}
        space.seen = Seen(
            episode, episode.rounds, closing.values, measured,
            lambda: self._model(problem, variables.signed(alpha), point),
        )  # fmt: skip
        return measured, space.seen.model

    def estimate(self, problem: KernelProblem, state: State) -> tuple[dict[str, float], Callable[[], KernelModel]]:
        """As :meth:`glimpse` in an episode ahead, with the best multiple of its point, and the value, by the losses of
        its examples and of some others, which stand for all others. Nothing is proven: the gap is infinite.
        """
        episode, space = state.episode, Workspace.of(problem, state)
        assert episode is not None
        seen = space.foreseen
        if seen is not None and seen.episode is episode and seen.rounds == episode.rounds:
            return seen.measured, seen.model
        beta = space.variables.signed(alpha_of(state))[0]
        others, support = others_than(episode.rows, problem.n), np.flatnonzero(beta)
        probe = np.sort(np.random.default_rng(0).choice(others, min(PROBE, others.size), replace=False))
        matrix, f = problem.matrix(support, probe), np.full(probe.size, problem.constant * beta.sum())
        for first in range(0, support.size, PROBE):
            rows = np.arange(first, min(first + PROBE, support.size))
            f += beta[support[rows]] @ matrix.block(rows)
        chosen, f = np.concatenate([episode.rows, probe]), np.concatenate([episode.f, f])
        weights = np.repeat([1.0, others.size / max(1, probe.size)], [episode.rows.size, probe.size])
        s = problem.weights_of(0)
        weights *= chosen.size / problem.n * (s[chosen] if s.size else 1.0)
        there = replace(problem, y=problem.signs[0, chosen], sample_weight=weights, shared=None)
        norm2, bias, v, active = float(beta[episode.rows] @ episode.f), 0.0, space.variables, episode.active
        if problem.has_free_bias:
            bias = free_bias(v.sigma[active], v.h[active] - episode.f[episode.row], v.cap[active], episode.alpha)
        own = Point(1.0, bias, there.value(f[None] + bias, np.array([norm2])) / problem.lam)
        ray = Point(*there.best_multiple(f, norm2))
        point = own if self.onward or own.primal <= ray.primal else ray
        measured = {"objective": problem.lam * point.primal, "gap": np.inf, "examples": float(episode.rows.size)}
        model = partial(self._model, problem, beta[None], point)
        space.foreseen = Seen(episode, episode.rounds, 0, measured, model)
        return measured, model


def alpha_of(state: State) -> np.ndarray:
    """α with that of the episode under way."""
    alpha = state.alpha.copy()
    if state.episode is not None:
        alpha[state.episode.active] = state.episode.alpha
    return alpha


def among(rows: np.ndarray, n: int) -> np.ndarray:
    """Which of the numbers below n are among these."""
    here = np.zeros(n, bool)
    here[rows] = True
    return here


def others_than(rows: np.ndarray, n: int) -> np.ndarray:
    """The numbers below n that are not among these."""
    return np.flatnonzero(~among(rows, n))


def free_bias(sigma: np.ndarray, e: np.ndarray, cap: np.ndarray, alpha: np.ndarray) -> float:
    """The middle of the interval of biases that α allows."""
    more, less = alpha < cap, alpha > 0.0
    rises, falls = np.where(sigma > 0.0, more, less), np.where(sigma > 0.0, less, more)
    return middle(e[rises].max(initial=-np.inf), e[falls].min(initial=np.inf))


def lightened(alpha: np.ndarray, sigma: np.ndarray, cap: np.ndarray, balanced: bool) -> np.ndarray:
    """α within the box and, if asked, with Σ σα = 0: clipped, and the heavier side made lighter; what is 0 stays so."""
    alpha, rises = np.minimum(alpha, cap), sigma > 0.0
    if balanced:
        up, down = alpha[rises].sum(), alpha[~rises].sum()
        alpha[rises] *= min(1.0, down / max(up, TAU))
        alpha[~rises] *= min(1.0, up / max(down, TAU))
    return alpha


def balance(alpha: np.ndarray, sigma: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """The nearest point of the box with Σ σα = 0: α − σt clipped, t found by bisection; α itself if it is one.

    A t of rounding would take variables off their bounds.
    """
    if abs(float(sigma @ alpha)) <= 1e-12 * float(alpha.sum()):
        return np.clip(alpha, 0.0, cap)
    low, high = -float(cap.max()), float(cap.max())
    for _ in range(100):
        t = 0.5 * (low + high)
        if np.sum(sigma * np.clip(alpha - sigma * t, 0.0, cap)) > 0:
            low = t
        else:
            high = t
    return np.clip(alpha - sigma * high, 0.0, cap)
