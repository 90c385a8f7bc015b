"""The compiled steps of the tracker: an example arrives, β are moved, vectors leave.

All functions change the arrays of :class:`.state.Held` in place. β and e = y − f are arrays over outputs q and slots.
A step that needs a row of kernel values that nobody holds changes nothing and returns the row's slot; Python computes
the row and calls again. Steps taken before it in the same call stand, and the call that follows does not repeat them.
−1 means that no row is missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.borrowing import borrow
from ...core.compiling.dispatch import apart, compiled, inlined
from ...core.intrinsics.extremes import larger, smaller
from ...core.kernels.panels import enter, leave, load_row
from ...core.rows.rows import row_add, row_dot
from ...core.sampling.visits import STRIDE, uniform
from .state import ARRIVE, FORGET, WORK

#: What :func:`track` returns: all is done; or the example that arrives needs kernel values that are not computed yet.
DONE, UNKNOWN = -1, -2

TAU = 1e-12  # curvature; a step divides by at least this: an indefinite kernel can have less
ROUNDING = 1e-12  # violations, and distances to a bound as a share of the box, up to this are rounding
TIED = 1e-9  # gains that differ by this share are equal, e by this amount: the first of equal slots is taken


class TrackerRule(NamedTuple):
    """The parameters of :class:`.tracker.Tracker` as numbers: without gap −1, without window or budget 0.

    ``most`` is the largest number of REPROCESS steps; ``constant`` is what a regularised intercept adds to K.
    """

    keeps_all: bool
    pairs: bool
    greedy: bool
    process: bool
    most: int
    gap: float
    constant: float
    window: int
    budget: int
    seed: np.uint64


class Arrivals(NamedTuple):
    """A block of examples that arrive, from the number ``first`` on.

    rows, within: kernel values with all slots, and with the other examples of the block, of the examples in ``has``.
    y, cap: labels and upper bounds of |β|; gone: the bounds of the examples that leave the window for them.
    came: gets the slot of each example, −1 if it becomes no vector.
    """

    first: int
    has: np.ndarray
    rows: np.ndarray
    within: np.ndarray
    y: np.ndarray
    cap: np.ndarray
    gone: np.ndarray
    diagonal: np.ndarray
    came: np.ndarray


class Scratch(NamedTuple):
    """Two rows of kernel values, the gains of steps, and the data where w is kept, else no rows."""

    one: np.ndarray
    other: np.ndarray
    gains: np.ndarray
    X: Any


# ---------------------------------------------------------------- choice


@apart
def find_extremes(held, q):
    """held.top[q], held.bottom[q] ← the largest e of what can rise, the smallest of what can fall."""
    count = held.progress[0].count
    e, up, down = held.e[q, :count], held.up[q, :count], held.down[q, :count]
    top, bottom = -np.inf, np.inf
    for j in range(e.size):
        top, bottom = larger(top, e[j] + up[j]), smaller(bottom, e[j] + down[j])
    held.top[q], held.bottom[q] = top, bottom


@inlined
def first_of_best(gains, best):
    """The first slot whose gain is the best one, up to rounding."""
    j = 0
    while gains[j] < best * (1.0 - TIED):
        j += 1
    return j


@inlined
def best_single(rule, held, q, gains):
    """The slot whose step gains most; −1 if no step gains anything. Unless all examples are kept, it is one with β ≠ 0
    in some output.
    """
    count, best = held.progress[0].count, 0.0
    beta, e, low, high = held.beta[q, :count], held.e[q, :count], held.low[q, :count], held.high[q, :count]
    diagonal, gains = held.diagonal[:count], gains[:count]
    for j in range(e.size):
        move = smaller(larger(e[j] / diagonal[j], low[j] - beta[j]), high[j] - beta[j])
        gains[j] = move * (e[j] - 0.5 * move * diagonal[j])
        best = larger(best, gains[j])
    while best > 0.0:
        j = first_of_best(gains, best)
        if rule.keeps_all or not is_unused(held, j):
            return j
        gains[j], best = 0.0, 0.0  # the new example took no step, or later steps brought its β back to 0
        for gain in gains:
            best = larger(best, gain)
    return -1


@inlined
def best_partner(held, q, i, rises, row, gains):
    """The slot that gains most by moving against slot i, which rises or falls and has this row; −1 for none."""
    count, sign = held.progress[0].count, 1.0 if rises else -1.0
    e, diagonal, row, gains = held.e[q, :count], held.diagonal[:count], row[:count], gains[:count]
    bar = held.down[q, :count] if rises else held.up[q, :count]
    here, own, best = e[i], diagonal[i], 0.0
    for j in range(e.size):
        apart = larger(sign * (here - (e[j] + bar[j])), 0.0)
        gains[j] = apart * apart / larger(own + diagonal[j] - 2.0 * row[j], TAU)
        best = larger(best, gains[j])
    if best <= 0.0:
        return -1
    j = first_of_best(gains, best)
    return j if sign * (here - e[j]) > ROUNDING else -1


@inlined
def draw(rule, held):
    """The slot of an example that is drawn among all examples kept, each with the same chance; −1 if it has none."""
    progress = held.progress[0]
    u = uniform(rule.seed + STRIDE * np.uint64(progress.draws + 1))
    i = int(u * max(progress.kept, progress.count))
    return i if i < progress.count and held.live[i] else -1


@inlined
def middle(top, bottom):
    """The middle of the interval of optimal biases; its finite end where it has only one, 0 where it has none."""
    if np.isfinite(top) and np.isfinite(bottom):
        return 0.5 * (top + bottom)
    if np.isfinite(top):
        return top
    return bottom if np.isfinite(bottom) else 0.0


@inlined
def vectors_gap(rule, held, q):
    """P − D of the vectors, Eq. (4), over the sum of all bounds."""
    beta, e, low, high = held.beta[q], held.e[q], held.low[q], held.high[q]
    bias, total = 0.0, 0.0
    if rule.pairs:
        bias = middle(held.top[q], held.bottom[q])
    for j in range(held.progress[0].count):
        total += larger((high[j] - beta[j]) * (e[j] - bias), (low[j] - beta[j]) * (e[j] - bias))
    return total / max(held.mass[q], 1e-300)


# ---------------------------------------------------------------- steps


@inlined
def note(held, q, i, change, before):
    """Write on the trail that β of slot i changed after ``before`` iterates of the mean."""
    k = held.trailed[q]
    held.trail_slot[q, k], held.trail[q, k] = i, change * before
    held.trailed[q] += 1
    held.progress[0].updates += 1


@inlined
def set_bars(held, q, i):
    """Set whether β of slot i can rise and fall, by its place in the box."""
    held.up[q, i] = 0.0 if held.beta[q, i] < held.high[q, i] else -np.inf
    held.down[q, i] = 0.0 if held.beta[q, i] > held.low[q, i] else np.inf


@inlined
def let_wait(held, i):
    """Put slot i on the list of vectors that may have become useless, which :func:`bury` goes through."""
    if not held.waits[i]:
        progress = held.progress[0]
        held.waits[i] = True
        held.waiting[progress.waiting] = i
        progress.waiting += 1


@inlined
def add_to_w(held, X, constant, q, i, change):
    """Add change × the row of slot i to w of output q, where w is kept."""
    if held.w.size > 0:
        w = held.w[q]
        row_add(X, held.example[i], (change,), w)
        w[w.shape[0] - 1, 0] += change * constant


@apart
def move(rule, held, X, q, i, change):
    """Change β of slot i, which stands on a bound that it reaches up to rounding; returns by how much it changed."""
    before, low, high = held.beta[q, i], held.low[q, i], held.high[q, i]
    after, near = before + change, ROUNDING * (high - low)
    if after >= high - near:
        after = high
    elif after <= low + near:
        after = low
    held.beta[q, i] = after
    set_bars(held, q, i)
    if after == 0.0:
        let_wait(held, i)
    add_to_w(held, X, rule.constant, q, i, after - before)
    return after - before


@inlined
def is_unused(held, j):
    """Whether β of slot j is 0 in all outputs."""
    unused = True
    for q in range(held.beta.shape[0]):
        unused = unused and held.beta[q, j] == 0.0
    return unused


@inlined
def step_single(rule, panels, held, q, i, before, space):
    """Move β of slot i to its best place, Eq. (3); returns the slot whose row is missing, or −1."""
    e, count = held.e[q], held.progress[0].count
    change = min(max(e[i] / held.diagonal[i], held.low[q, i] - held.beta[q, i]), held.high[q, i] - held.beta[q, i])
    if change == 0.0 or (not rule.keeps_all and before > 0 and is_unused(held, i)):
        return -1
    row = space.one
    if not load_row(panels, i, count, row):
        return i
    change = move(rule, held, space.X, q, i, change)
    for j in range(count):
        e[j] -= change * (row[j] + rule.constant)
    note(held, q, i, change, before)
    return -1


@inlined
def step_pair(rule, panels, held, q, i, rises, before, space):
    """Move slot i and its best partner against each other; returns the slot whose row is missing, or −1."""
    e, diagonal, count = held.e[q], held.diagonal, held.progress[0].count
    one, other = space.one, space.other
    if not load_row(panels, i, count, one):
        return i
    j = best_partner(held, q, i, rises, one, space.gains)
    if j < 0:
        return -1
    if not load_row(panels, j, count, other):
        return j
    up, down = (i, j) if rises else (j, i)
    change = (e[up] - e[down]) / max(diagonal[i] + diagonal[j] - 2.0 * one[j], TAU)
    change = min(change, held.high[q, up] - held.beta[q, up], held.beta[q, down] - held.low[q, down])
    for rising in (True, False):
        move(rule, held, space.X, q, up if rising else down, change if rising else -change)
    sign = change if rises else -change
    e, ups, downs, one, other = held.e[q, :count], held.up[q, :count], held.down[q, :count], one[:count], other[:count]
    top, bottom = -np.inf, np.inf
    for k in range(e.size):
        here = e[k] - sign * (one[k] - other[k])
        e[k] = here
        top, bottom = larger(top, here + ups[k]), smaller(bottom, here + downs[k])
    held.top[q], held.bottom[q] = top, bottom
    note(held, q, up, change, before)
    note(held, q, down, -change, before)
    return -1


@inlined
def choose_new(rule, held, q):
    """(slot, whether it rises) of the PROCESS step of output q: the new example, if there is one; −1 for none."""
    i = held.progress[0].new
    if i < 0 or not rule.process or (rule.pairs and held.low[q, i] == held.high[q, i]):
        return -1, True
    return i, held.high[q, i] > 0.0


@inlined
def choose_old(rule, held, q, gains):
    """(slot, whether it rises) of a REPROCESS step of output q; −1 for none."""
    if not rule.pairs:
        return best_single(rule, held, q, gains) if rule.greedy else draw(rule, held), True
    i, count, e = 0, held.progress[0].count, held.e[q]
    if count == 0 or not held.top[q] - held.bottom[q] > ROUNDING:
        return -1, True
    while i + 1 < count and e[i] + held.up[q, i] < held.top[q] - TIED:
        i += 1
    return i, True


@inlined
def step(rule, panels, held, q, before, space):
    """PROCESS if ``before`` is 0, else a REPROCESS step, of output q; returns the slot whose row is missing, or −1.

    The two share the code of a step, so that it is compiled once.
    """
    i, rises = choose_new(rule, held, q) if before == 0 else choose_old(rule, held, q, space.gains)
    missing = -1
    if i >= 0:
        if rule.pairs:
            missing = step_pair(rule, panels, held, q, i, rises, before, space)
        else:
            missing = step_single(rule, panels, held, q, i, before, space)
    if before > 0 and missing < 0 and not rule.pairs:
        held.progress[0].draws += 1
    return missing


@inlined
def work(rule, panels, held, space):
    """What is left of PROCESS and REPROCESS for the example at hand; returns the slot whose row is missing, or −1."""
    progress = held.progress[0]
    while progress.output < held.beta.shape[0]:
        q = progress.output
        while progress.step <= rule.most:
            k = progress.step
            if k > 0 and rule.gap >= 0.0 and vectors_gap(rule, held, q) <= rule.gap:
                break
            missing = step(rule, panels, held, q, k, space)
            if missing >= 0:
                return missing
            held.steps[q] = k
            progress.step += 1
        progress.step = 0
        progress.output += 1
    progress.output = 0
    return -1


# ---------------------------------------------------------------- examples that arrive


@inlined
def slack(rule, held, q, y, cap, e):
    """Distance by which an example satisfies output q's optimality condition; negative: the example violates the
    condition and may become a support vector.
    """
    if rule.keeps_all:
        return -np.inf
    if cap <= 0.0:
        return np.inf
    if not rule.pairs:
        return -y * e
    top, bottom = held.top[q], held.bottom[q]
    if y > 0.0:
        return (top if bottom == np.inf else bottom) - e
    return e - (bottom if top == -np.inf else top)


@inlined
def respond(rule, held, block, X, q, r):
    """f of example r of a block for output q: by w where w is kept, else by the kernel values of the example."""
    beta, total = held.beta[q], 0.0
    if held.w.size > 0:
        w = held.w[q]
        return w[w.shape[0] - 1, 0] + row_dot(X, block.first + r, w, 1.0)
    row = block.rows[r]
    for j in range(held.progress[0].count):
        total += beta[j] * (row[j] + rule.constant)
    return total


@compiled
def look_ahead(rule, held, block, X, first, slacks):
    """slacks[r] ← the least :func:`slack` of example r at the present β, from example ``first`` on; ∞ for examples
    before, and for those that have kernel values.
    """
    held, block, X = borrow(held), borrow(block), borrow(X)
    for r in range(slacks.size):
        slacks[r] = np.inf
        if r >= first and not block.has[r]:
            for q in range(held.beta.shape[0]):
                y = block.y[q, r]
                e = y - respond(rule, held, block, X, q, r)
                slacks[r] = min(slacks[r], slack(rule, held, q, y, block.cap[q, r], e))


@compiled
def write_within(block, chosen, others, values):
    """Write the kernel values between chosen examples of a block and others in their places, in place.

    Of each pair, the later example's row has the value.
    """
    within, values = borrow(block.within), borrow(values)
    for r in chosen:
        for k in range(others.size):
            if others[k] < r:
                within[r, others[k]] = values[r, k]
            else:
                within[others[k], r] = values[r, k]


@inlined
def is_known(held, example):
    """Whether an example that is seen again is a vector."""
    found = False
    for j in range(held.progress[0].count):
        found = found or (held.live[j] and held.example[j] == example)
    return found


@inlined
def account(rule, held, block, r, slot, again):
    """Add example r, whose e stand in this slot, to the losses and, at its first visit, to the counts of examples."""
    progress, outputs = held.progress[0], held.beta.shape[0]
    if not again:
        progress.known += 1
        progress.kept += 1
        progress.came += 1
    highest, right = 0.0 if outputs == 1 else -np.inf, outputs == 1 and block.y[0, r] < 0.0
    for q in range(outputs):
        y, cap = block.y[q, r], block.cap[q, r]
        if not again:
            held.mass[q] += cap
        score = y - held.e[q, slot] + (middle(held.top[q], held.bottom[q]) if rule.pairs else 0.0)
        held.losses[q] += cap * max(0.0, 1.0 - y * score)
        if score > highest:
            highest, right = score, y > 0.0
    progress.wrong += not (right or again)


@inlined
def occupy(rule, panels, held, block, r, slot):
    """Example r of a block, whose e stand in this slot, becomes the vector of the slot, with β = 0."""
    progress, row = held.progress[0], block.rows[r]
    progress.live += 1
    if slot == progress.count:
        progress.count += 1
    else:
        progress.spare -= 1
    held.example[slot], held.live[slot], progress.new = block.first + r, True, slot
    held.diagonal[slot] = max(block.diagonal[r] + rule.constant, TAU)
    for q in range(held.beta.shape[0]):
        y, cap = block.y[q, r], block.cap[q, r]
        held.beta[q, slot] = 0.0
        held.low[q, slot], held.high[q, slot] = min(0.0, y * cap), max(0.0, y * cap)
        set_bars(held, q, slot)
        held.top[q] = max(held.top[q], held.e[q, slot] + held.up[q, slot])
        held.bottom[q] = min(held.bottom[q], held.e[q, slot] + held.down[q, slot])
    let_wait(held, slot)
    row[slot] = block.diagonal[r]
    for later in range(r + 1, block.rows.shape[0]):
        block.rows[later, slot] = block.within[later, r]
    enter(panels, slot, row, progress.count)
    block.came[r] = slot


@inlined
def arrive(rule, panels, held, block, r, X):
    """Example r of a block arrives, and gets a slot if it violates an output's condition; False, and nothing has
    changed, if its kernel values must be computed first.
    """
    progress, example = held.progress[0], block.first + r
    again = example < progress.known
    slot = held.spare[progress.spare - 1] if progress.spare > 0 else progress.count
    wanted = False
    for q in range(held.beta.shape[0]):
        y = block.y[q, r]
        # nobody reads a free slot, so its e may be written before it is clear whether the example comes
        held.e[q, slot] = y - respond(rule, held, block, X, q, r)
        wanted = slack(rule, held, q, y, block.cap[q, r], held.e[q, slot]) < 0.0 or wanted
    wanted = wanted and not (again and is_known(held, example))
    if wanted and not block.has[r]:
        return False
    held.trailed[:] = 0
    held.steps[:] = 0
    progress.new = -1
    if wanted or held.w.size == 0:
        progress.evals += progress.live
    account(rule, held, block, r, slot, again)
    if wanted:
        occupy(rule, panels, held, block, r, slot)
    return True


# ---------------------------------------------------------------- vectors that leave


@inlined
def vacate(panels, held, slot):
    """Free a slot, whose β is 0."""
    progress = held.progress[0]
    held.live[slot] = False
    for q in range(held.beta.shape[0]):
        held.low[q, slot], held.high[q, slot] = 0.0, 0.0
        set_bars(held, q, slot)
    leave(panels, slot)
    held.spare[progress.spare] = slot
    progress.spare += 1
    progress.live -= 1


@inlined
def is_idle(rule, held, j):
    """Whether the vector in slot j, whose β are 0, satisfies the optimality conditions of all outputs.

    A vector with an extreme e is not idle, because the bias depends on it.
    """
    for q in range(held.beta.shape[0] if rule.pairs else 0):
        top, bottom, e = held.top[q], held.bottom[q], held.e[q, j]
        if held.high[q, j] > 0.0 and (e > bottom + TIED or bottom == np.inf or e >= top - TIED):
            return False
        if held.low[q, j] < 0.0 and (e < top - TIED or top == -np.inf or e <= bottom + TIED):
            return False
    return True


@inlined
def bury(rule, panels, held):
    """Remove the waiting vectors that are idle. Without pairs, each vector with β = 0 is."""
    progress, waiting = held.progress[0], held.waiting
    if rule.keeps_all:
        return
    left = 0
    for k in range(progress.waiting):
        j = waiting[k]
        still = held.live[j] and is_unused(held, j)
        if still and is_idle(rule, held, j):
            vacate(panels, held, j)
            still = False
        held.waits[j] = still
        if still:
            waiting[left] = j
            left += 1
    progress.waiting = left


@inlined
def remove(rule, panels, held, slot, space):
    """Set β of a slot to 0 and free the slot; returns the slot if its row is missing, or −1."""
    count, row, outputs = held.progress[0].count, space.one, held.beta.shape[0]
    if not is_unused(held, slot) and not load_row(panels, slot, count, row):
        return slot
    for q in range(outputs):
        own, e = held.beta[q, slot], held.e[q]
        if own != 0.0:
            for j in range(count):
                e[j] += own * (row[j] + rule.constant)
            held.beta[q, slot] = 0.0
            add_to_w(held, space.X, rule.constant, q, slot, -own)
            if rule.pairs:
                held.owed[q] += own
        for k in range(held.trailed[q]):
            if held.trail_slot[q, k] == slot:
                held.trail[q, k] = 0.0
    vacate(panels, held, slot)
    for q in range(outputs):
        if rule.pairs:
            find_extremes(held, q)
    return -1


@inlined
def settle(rule, panels, held, q, space):
    """Give other vectors what Σ β lacks, those with the best e first; returns the slot whose row is missing, or −1."""
    count, e, row = held.progress[0].count, held.e[q], space.one
    while held.owed[q] != 0.0:
        owed, i = held.owed[q], -1
        for j in range(count):
            if owed > 0.0 and held.beta[q, j] < held.high[q, j] and (i < 0 or e[j] > e[i]):
                i = j
            if owed < 0.0 and held.beta[q, j] > held.low[q, j] and (i < 0 or e[j] < e[i]):
                i = j
        if i < 0:
            held.owed[q] = 0.0
            break
        if not load_row(panels, i, count, row):
            return i
        change = min(max(owed, held.low[q, i] - held.beta[q, i]), held.high[q, i] - held.beta[q, i])
        held.owed[q] = owed - change
        move(rule, held, space.X, q, i, change)
        for j in range(count):
            e[j] -= change * row[j]
        find_extremes(held, q)
    return -1


@inlined
def forget(rule, panels, held, slot, space):
    """Remove the vector of a slot, if there is one (the slot may be −1), and settle Σ β; returns the slot whose row is
    missing, or −1.
    """
    if slot >= 0 and held.live[slot]:
        missing = remove(rule, panels, held, slot, space)
        if missing >= 0:
            return missing
    for q in range(held.beta.shape[0]):
        missing = settle(rule, panels, held, q, space)
        if missing >= 0:
            return missing
    return -1


@inlined
def slot_to_forget(rule, held, example):
    """The slot of the vector that leaves the window after this example, or the oldest one over budget; −1 for none."""
    progress, index, live, oldest = held.progress[0], held.example, held.live, -1
    if rule.window > 0 and progress.position == progress.known - 1:
        for j in range(progress.count):
            if live[j] and index[j] == example - rule.window:
                return j
    if rule.budget > 0 and progress.live > rule.budget:
        for j in range(progress.count):
            if live[j] and (oldest < 0 or index[j] < index[oldest]):
                oldest = j
    return oldest


@inlined
def let_go(rule, panels, held, block, r, space):
    """Forget what must go after example r of a block; returns the slot whose row is missing, or −1."""
    if rule.window == 0 and rule.budget == 0:
        return -1
    progress, example = held.progress[0], block.first + r
    slot, missing = 0, -1
    while slot >= 0 and missing < 0:  # the last slot is −1, for which Σ β is settled
        slot = slot_to_forget(rule, held, example)
        missing = forget(rule, panels, held, slot, space)
    if missing < 0 and rule.window > 0 and progress.kept > rule.window:
        progress.kept -= 1
        for q in range(held.beta.shape[0]):
            held.mass[q] -= block.gone[q, r]
    return missing


# ---------------------------------------------------------------- what Python calls


@compiled
def track(rule, panels, held, block, space):
    """Go on with the examples of a block; returns DONE, UNKNOWN, or the slot whose row is missing."""
    panels, held, space, block = borrow(panels), borrow(held), borrow(space), borrow(block)
    progress = held.progress[0]
    while progress.position < block.first + block.rows.shape[0]:
        r = progress.position - block.first
        if progress.stage == ARRIVE:
            if not arrive(rule, panels, held, block, r, space.X):
                return UNKNOWN
            progress.stage = WORK
        if progress.stage == WORK:
            missing = work(rule, panels, held, space)
            if missing >= 0:
                return missing
            progress.stage = FORGET
        missing = let_go(rule, panels, held, block, r, space)
        if missing >= 0:
            return missing
        bury(rule, panels, held)
        progress.stage = ARRIVE
        progress.visits += 1
        progress.position += 1
    return DONE


@compiled
def unlearn(rule, panels, held, slot, space):
    """Forget the vector in a slot; returns the slot whose row is missing, or −1."""
    return forget(rule, borrow(panels), borrow(held), slot, borrow(space))


@compiled
def rework(rule, panels, held, space):
    """REPROCESS steps of all outputs without a new example; returns the slot whose row is missing, or −1."""
    panels, held, space = borrow(panels), borrow(held), borrow(space)
    missing = work(rule, panels, held, space)
    if missing < 0:
        bury(rule, panels, held)
    return missing


@compiled
def sum_up(held, X, constant):
    """w ← Σ β x."""
    held, X = borrow(held), borrow(X)
    held.w[:] = 0.0
    for q in range(held.beta.shape[0]):
        for i in range(held.progress[0].count):
            if held.beta[q, i] != 0.0:
                add_to_w(held, X, constant, q, i, held.beta[q, i])
