"""Tracking: SVMs that follow the optimum of a growing set of examples (Usunier, Bordes, Bottou; AISTATS 2010).

The problem after t examples, in the C-form, and its dual for β = yα::

    P = ½‖w‖² + Σ Cᵢ [1 − yᵢ⟨w, Φ(xᵢ)⟩]₊,     D = Σ yᵢβᵢ − ½‖w(β)‖²,   0 ≤ yᵢβᵢ ≤ Cᵢ,   w = Σ βᵢΦ(xᵢ).

All that matters of the gradient is eᵢ = yᵢ − f(xᵢ): moving βᵢ by s raises D by s eᵢ − ½ s² K(xᵢ, xᵢ). A step moves one
βᵢ to the best place in its box (Eq. 3). For each example that arrives

    algorithm="random"     K steps on examples drawn from all that were seen (Algorithm 1);
    algorithm="process"    a step on the new example, PROCESS, then K of these, REPROCESS (Algorithm 2);
    algorithm="lasvm"      the same with e kept for the support vectors alone, among which steps are taken (Sec. 5).

The next vector is drawn, among all examples seen (one that is no vector takes no step), or it is the one whose step
gains most (``choose="greedy"``). The output is β, or the mean of
the iterates before each of the K steps, as in the proofs; the printed line 8 has it after the step.

Pairs. With a free bias Σ βᵢ = 0, and steps move two variables against each other: PROCESS the new example and the
partner with which it gains most, REPROCESS the variable with the largest e of those that can rise and its best partner.
An example with β = 0 stays while it violates: while y = 1 and e > min {e : β can fall}, or y = −1 and
e < max {e : β can rise} (Bordes, Ertekin, Weston, Bottou, JMLR 2005, without their removal of all β = 0), and while its
e is the extreme one that the bias depends on.

The gap of the vectors, P − D = Σ max((highᵢ − βᵢ) eᵢ, (lowᵢ − βᵢ) eᵢ) for boxes [lowᵢ, highᵢ] (Eq. 4; with a bias e − b
stands for e), over Σ Cᵢ of all examples, is what ``reprocess="auto"`` holds.

Forgetting, of an example that leaves a window, is the most vectors there may be, or is unlearnt: its β goes to 0, and
with a free bias the others take over what Σ β lacks, those with the best e first.

Costs: the kernel values of the new example and all vectors, and O(vectors) for each step; kernel values between
vectors are kept in :mod:`widemargin.core.panels`. Several outputs on the same examples share them. With a linear kernel
w is kept, each step adds to it, f of a new example is ⟨w, x⟩, and only examples that become vectors take kernel values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..arguments import flag, one_of, positive, whole
from ..core import losses
from ..core.borrowing import borrow
from ..core.dispatch import apart, compiled, inlined
from ..core.extremes import larger, smaller
from ..core.kernels import names_of
from ..core.panels import (
    Panels,
    Slots,
    enter,
    hold,
    leave,
    load_row,
    no_panels,
    own_values,
    reach_of,
    way_of,
    with_slots,
)
from ..core.rows import DenseRows, as_matrix, dtype_of, row_add, row_dot, row_scores, shape, some_rows, take_rows
from ..core.visits import STRIDE, uniform
from ..files import savable
from ..history import Counters
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from ..schemas import Array, Either, Text, Whole
from . import protocol
from .protocol import Solver
from .smo import add_kernel_rows

#: Rows that are held against the vectors together, and the share of the memory that their values may have.
BLOCK, BLOCK_SHARE = 256, 0.06
#: Most steps for one example under reprocess="auto".
MOST_STEPS = 200
#: Most steps for each vector in a call of :meth:`Tracker.repair`.
MOST_REPAIRS = 100
#: Slots there is room for at first.
FIRST_SLOTS = 256
#: Smallest curvature of a step; an indefinite kernel can have less.
TAU = 1e-12
#: Violations this small are rounding. So are such differences of e, which two variables have that moved against each
#: other, and such relative differences of gains: of equal ones the first slot counts.
ROUNDING, TIED = 1e-12, 1e-9

_compiled_for: set[tuple] = set()


class Rule(NamedTuple):
    """What the loop goes by, as values: see :class:`Tracker`. No gap is −1, no window and no budget 0."""

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


class Held(NamedTuple):
    """The vectors' part of a state, over outputs and slots; arrays are changed in place.

    beta, e, and the box low ≤ β ≤ high; up: 0 where β can rise, else −∞; down: 0 where it can fall, else +∞; example:
    that in a slot; live: whether there is one; spare: a stack of slots without; waiting: slots whose vectors may have
    become useless, and waits: whether a slot is among them; diagonal: K(x, x); top, bottom: the largest e of what can
    rise and the smallest of what can fall; owed: what Σ β lacks; mass: Σ C of all examples; losses: Σ C [1 − y f]₊ of
    all visits, each at its time; trail: the slots of an example's steps, trailed of them, with what was added to β
    times the number of iterates before; steps: iterates of the mean; numbers: see below; w: Σ β x of each output, of
    shape (outputs, features + 1, 1) with the constant's entry last, for a linear kernel, and no entries for others.
    """

    beta: np.ndarray
    e: np.ndarray
    low: np.ndarray
    high: np.ndarray
    up: np.ndarray
    down: np.ndarray
    example: np.ndarray
    live: np.ndarray
    spare: np.ndarray
    waits: np.ndarray
    waiting: np.ndarray
    diagonal: np.ndarray
    top: np.ndarray
    bottom: np.ndarray
    owed: np.ndarray
    mass: np.ndarray
    losses: np.ndarray
    trail_slot: np.ndarray
    trail: np.ndarray
    trailed: np.ndarray
    steps: np.ndarray
    numbers: np.ndarray
    w: np.ndarray


#: Its arrays, from a state.
HELD = attrgetter(*Held._fields)
#: Places in ``numbers``: slots ever used; spare ones; live ones; the next example; examples seen; examples kept; where
#: the loop stands (stage, output, step, slot of the new example); draws; visits; steps that moved; kernel values; slots
#: that wait; examples that ever came; those of them that were predicted wrongly then.
(
    COUNT,
    SPARE,
    LIVE,
    POSITION,
    KNOWN,
    KEPT,
    STAGE,
    OUTPUT,
    STEP,
    NEW,
    DRAWS,
    VISITS,
    UPDATES,
    EVALS,
    WAITING,
    CAME,
    WRONG,
) = range(17)
#: What has an entry for each slot.
BY_SLOT = ("beta", "e", "low", "high", "up", "down", "example", "live", "spare", "waits", "waiting", "diagonal")
#: Stages of an example.
ARRIVE, WORK, FORGET = 0, 1, 2
#: What :func:`track` returns: all is done, or the example that arrives is wanted and has no kernel values.
DONE, UNKNOWN = -1, -2


class Block(NamedTuple):
    """Examples that arrive: the first one's number, their kernel values with all slots and with each other, of those
    that ``has`` says; targets and bounds; the bounds of those that leave the window; their diagonal. ``came`` gets the
    slots they have come to.
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


class Space(NamedTuple):
    """What steps work with: two rows of kernel values, gains, and the data where w is kept, else no rows."""

    one: np.ndarray
    other: np.ndarray
    gains: np.ndarray
    X: Any


# ---------------------------------------------------------------- choice


@apart
def find_extremes(held, q):
    """held.top[q], held.bottom[q] ← the largest e of what can rise, the smallest of what can fall."""
    count = held.numbers[COUNT]
    e, up, down = held.e[q, :count], held.up[q, :count], held.down[q, :count]
    top, bottom = -np.inf, np.inf
    for j in range(e.size):
        top, bottom = larger(top, e[j] + up[j]), smaller(bottom, e[j] + down[j])
    held.top[q], held.bottom[q] = top, bottom


@inlined
def best_single(rule, held, q, gains):
    """The slot whose step gains most, of a vector where not all are kept, the first of several; −1 if none gains."""
    count, best = held.numbers[COUNT], 0.0
    beta, e, low, high = held.beta[q, :count], held.e[q, :count], held.low[q, :count], held.high[q, :count]
    diagonal, gains = held.diagonal[:count], gains[:count]
    for j in range(e.size):
        move = smaller(larger(e[j] / diagonal[j], low[j] - beta[j]), high[j] - beta[j])
        gains[j] = move * (e[j] - 0.5 * move * diagonal[j])
        best = larger(best, gains[j])
    while best > 0.0:
        j = 0
        while gains[j] < best * (1.0 - TIED):
            j += 1
        if rule.keeps_all or not is_unused(held, j):
            return j
        gains[j], best = 0.0, 0.0  # the example at hand took no step, or its steps took this one's α
        for gain in gains:
            best = larger(best, gain)
    return -1


@inlined
def best_partner(held, q, i, rises, row, gains):
    """The slot that gains most by moving against slot i, which rises or falls and has this row; −1 for none."""
    count, sign = held.numbers[COUNT], 1.0 if rises else -1.0
    e, diagonal, row, gains = held.e[q, :count], held.diagonal[:count], row[:count], gains[:count]
    bar = held.down[q, :count] if rises else held.up[q, :count]
    here, own, best = e[i], diagonal[i], 0.0
    for j in range(e.size):
        apart = larger(sign * (here - (e[j] + bar[j])), 0.0)
        gains[j] = apart * apart / larger(own + diagonal[j] - 2.0 * row[j], TAU)
        best = larger(best, gains[j])
    if best <= 0.0:
        return -1
    j = 0
    while gains[j] < best * (1.0 - TIED):
        j += 1
    return j if sign * (here - e[j]) > ROUNDING else -1


@inlined
def draw(rule, held):
    """A slot drawn with probability 1/examples kept each; −1 for the examples that have none."""
    numbers = held.numbers
    u = uniform(rule.seed + STRIDE * np.uint64(numbers[DRAWS] + 1))
    i = int(u * max(numbers[KEPT], numbers[COUNT]))
    return i if i < numbers[COUNT] and held.live[i] else -1


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
    for j in range(held.numbers[COUNT]):
        total += larger((high[j] - beta[j]) * (e[j] - bias), (low[j] - beta[j]) * (e[j] - bias))
    return total / max(held.mass[q], 1e-300)


# ---------------------------------------------------------------- steps


@inlined
def note(held, q, i, change, before):
    """Write down that β of slot i was changed after ``before`` iterates of the mean, in place."""
    k = held.trailed[q]
    held.trail_slot[q, k], held.trail[q, k] = i, change * before
    held.trailed[q] += 1
    held.numbers[UPDATES] += 1


@inlined
def set_bars(held, q, i):
    """Where β of slot i can go, by its place in the box, in place."""
    held.up[q, i] = 0.0 if held.beta[q, i] < held.high[q, i] else -np.inf
    held.down[q, i] = 0.0 if held.beta[q, i] > held.low[q, i] else np.inf


@inlined
def let_wait(held, i):
    """The vector in slot i may be useless, in place: :func:`bury` looks at it."""
    if not held.waits[i]:
        held.waits[i] = True
        held.waiting[held.numbers[WAITING]] = i
        held.numbers[WAITING] += 1


@inlined
def add_to_w(held, X, constant, q, i, change):
    """w of output q changes with β of slot i, in place, where w is kept."""
    if held.w.size > 0:
        w = held.w[q]
        row_add(X, held.example[i], (change,), w)
        w[w.shape[0] - 1, 0] += change * constant


@apart
def move(rule, held, X, q, i, change):
    """β of slot i changes, and stands on a bound that it reaches up to rounding, in place; returns by how much."""
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
    """Whether all β of slot j are 0."""
    unused = True
    for q in range(held.beta.shape[0]):
        unused = unused and held.beta[q, j] == 0.0
    return unused


@inlined
def step_single(rule, panels, held, q, i, before, space):
    """The best step on slot i, in place; returns the slot whose row is missing, or −1."""
    e, count = held.e[q], held.numbers[COUNT]
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
    """Slot i and its best partner move against each other, in place; returns the slot whose row is missing, or −1."""
    e, diagonal, count = held.e[q], held.diagonal, held.numbers[COUNT]
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
    i = held.numbers[NEW]
    if i < 0 or not rule.process or (rule.pairs and held.low[q, i] == held.high[q, i]):
        return -1, True
    return i, held.high[q, i] > 0.0


@inlined
def choose_old(rule, held, q, gains):
    """(slot, whether it rises) of a REPROCESS step of output q; −1 for none."""
    if not rule.pairs:
        return best_single(rule, held, q, gains) if rule.greedy else draw(rule, held), True
    i, count, e = 0, held.numbers[COUNT], held.e[q]
    if count == 0 or not held.top[q] - held.bottom[q] > ROUNDING:
        return -1, True
    while i + 1 < count and e[i] + held.up[q, i] < held.top[q] - TIED:
        i += 1
    return i, True


@inlined
def step(rule, panels, held, q, before, space):
    """PROCESS if ``before`` is 0, else a REPROCESS step, of output q, in place; returns a missing row's slot, or −1.

    Both take the same steps, of which there is one copy in the machine code.
    """
    i, rises = choose_new(rule, held, q) if before == 0 else choose_old(rule, held, q, space.gains)
    missing = -1
    if i >= 0:
        if rule.pairs:
            missing = step_pair(rule, panels, held, q, i, rises, before, space)
        else:
            missing = step_single(rule, panels, held, q, i, before, space)
    if before > 0 and missing < 0 and not rule.pairs:
        held.numbers[DRAWS] += 1
    return missing


@inlined
def work(rule, panels, held, space):
    """What is left of PROCESS and REPROCESS for the example at hand, in place; returns a missing row's slot, or −1."""
    numbers = held.numbers
    while numbers[OUTPUT] < held.beta.shape[0]:
        q = numbers[OUTPUT]
        while numbers[STEP] <= rule.most:
            k = numbers[STEP]
            if k > 0 and rule.gap >= 0.0 and vectors_gap(rule, held, q) <= rule.gap:
                break
            missing = step(rule, panels, held, q, k, space)
            if missing >= 0:
                return missing
            held.steps[q] = k
            numbers[STEP] += 1
        numbers[STEP] = 0
        numbers[OUTPUT] += 1
    numbers[OUTPUT] = 0
    return -1


# ---------------------------------------------------------------- vectors that come and go


@inlined
def lack(rule, held, q, y, cap, e):
    """By how much an example with this e misses what output q has use for; below 0 where it has use for it."""
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
    """f of example r of a block for output q: by w where it is kept, else by its kernel values."""
    beta, total = held.beta[q], 0.0
    if held.w.size > 0:
        w = held.w[q]
        return w[w.shape[0] - 1, 0] + row_dot(X, block.first + r, w, 1.0)
    row = block.rows[r]
    for j in range(held.numbers[COUNT]):
        total += beta[j] * (row[j] + rule.constant)
    return total


@compiled
def look_ahead(rule, held, block, X, first, lacks):
    """lacks[r] ← by how much example r of a block misses use, as things are, from first on, where it has no values yet
    and ∞ elsewhere, in place.
    """
    held, block, X = borrow(held), borrow(block), borrow(X)
    for r in range(lacks.size):
        lacks[r] = np.inf
        if r >= first and not block.has[r]:
            for q in range(held.beta.shape[0]):
                y = block.y[q, r]
                e = y - respond(rule, held, block, X, q, r)
                lacks[r] = min(lacks[r], lack(rule, held, q, y, block.cap[q, r], e))


@inlined
def is_known(held, example):
    """Whether an example that is seen again is a vector."""
    found = False
    for j in range(held.numbers[COUNT]):
        found = found or (held.live[j] and held.example[j] == example)
    return found


@compiled
def write_within(block, chosen, others, values):
    """Kernel values of chosen examples of a block, in their places, with others ← those given, in place; of each pair
    that of the later one is looked at.
    """
    within, values = borrow(block.within), borrow(values)
    for r in chosen:
        for k in range(others.size):
            if others[k] < r:
                within[r, others[k]] = values[r, k]
            else:
                within[others[k], r] = values[r, k]


@inlined
def arrive(rule, panels, held, block, r, X):
    """Example r of a block arrives, and gets a slot where some output has use for it, in place; False, and nothing has
    changed, if its kernel values must be computed first.
    """
    numbers, outputs, row = held.numbers, held.beta.shape[0], block.rows[r]
    count, example = numbers[COUNT], block.first + r
    again = example < numbers[KNOWN]
    slot, fresh = count, True
    if numbers[SPARE] > 0:
        slot, fresh = held.spare[numbers[SPARE] - 1], False
    wants = False
    for q in range(outputs):
        y = block.y[q, r]
        # the slot is nobody's: what stands in it is not looked at unless the example comes
        held.e[q, slot] = y - respond(rule, held, block, X, q, r)
        wants = lack(rule, held, q, y, block.cap[q, r], held.e[q, slot]) < 0.0 or wants
    wants = wants and not (again and is_known(held, example))
    if wants and not block.has[r]:
        return False
    held.trailed[:] = 0
    held.steps[:] = 0
    numbers[NEW] = -1
    if wants or held.w.size == 0:
        numbers[EVALS] += numbers[LIVE]
    if not again:
        numbers[KNOWN] += 1
        numbers[KEPT] += 1
        numbers[CAME] += 1
    highest, right = 0.0 if outputs == 1 else -np.inf, outputs == 1 and block.y[0, r] < 0.0
    for q in range(outputs):
        y, cap = block.y[q, r], block.cap[q, r]
        if not again:
            held.mass[q] += cap
        score = y - held.e[q, slot] + (middle(held.top[q], held.bottom[q]) if rule.pairs else 0.0)
        held.losses[q] += cap * max(0.0, 1.0 - y * score)
        if score > highest:
            highest, right = score, y > 0.0
    numbers[WRONG] += not (right or again)
    if not wants:
        return True
    numbers[LIVE] += 1
    if fresh:
        numbers[COUNT] += 1
    else:
        numbers[SPARE] -= 1
    held.example[slot], held.live[slot], numbers[NEW] = example, True, slot
    held.diagonal[slot] = max(block.diagonal[r] + rule.constant, TAU)
    for q in range(outputs):
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
    enter(panels, slot, row, numbers[COUNT])
    block.came[r] = slot
    return True


@inlined
def vacate(panels, held, slot):
    """A slot becomes free, its β being 0, in place."""
    numbers = held.numbers
    held.live[slot] = False
    for q in range(held.beta.shape[0]):
        held.low[q, slot], held.high[q, slot] = 0.0, 0.0
        set_bars(held, q, slot)
    leave(panels, slot)
    held.spare[numbers[SPARE]] = slot
    numbers[SPARE] += 1
    numbers[LIVE] -= 1


@inlined
def is_idle(rule, held, j):
    """Whether no output has use for the vector in slot j, whose β are 0."""
    for q in range(held.beta.shape[0] if rule.pairs else 0):
        top, bottom, e = held.top[q], held.bottom[q], held.e[q, j]
        if held.high[q, j] > 0.0 and (e > bottom + TIED or bottom == np.inf or e >= top - TIED):
            return False
        if held.low[q, j] < 0.0 and (e < top - TIED or top == -np.inf or e <= bottom + TIED):
            return False
    return True


@inlined
def bury(rule, panels, held):
    """Vectors that no output has use for leave their slots, in place: with one variable a step those of β = 0."""
    numbers, waiting = held.numbers, held.waiting
    if rule.keeps_all:
        return
    left = 0
    for k in range(numbers[WAITING]):
        j = waiting[k]
        still = held.live[j] and is_unused(held, j)
        if still and is_idle(rule, held, j):
            vacate(panels, held, j)
            still = False
        held.waits[j] = still
        if still:
            waiting[left] = j
            left += 1
    numbers[WAITING] = left


@inlined
def remove(rule, panels, held, slot, space):
    """The vector in a slot is forgotten, in place; returns the slot if its row is missing, or −1."""
    count, row, outputs = held.numbers[COUNT], space.one, held.beta.shape[0]
    moves = False
    for q in range(outputs):
        moves = moves or held.beta[q, slot] != 0.0
    if moves and not load_row(panels, slot, count, row):
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
    """Others take over what Σ β lacks, those with the best e first, in place; returns a missing row's slot, or −1."""
    count, e, row = held.numbers[COUNT], held.e[q], space.one
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
        if owed > 0.0:
            change = min(owed, held.high[q, i] - held.beta[q, i])
        else:
            change = max(owed, held.low[q, i] - held.beta[q, i])
        held.owed[q] = owed - change
        move(rule, held, space.X, q, i, change)
        for j in range(count):
            e[j] -= change * row[j]
        find_extremes(held, q)
    return -1


@inlined
def forget(rule, panels, held, slot, space):
    """The vector in a slot, if it is one and not −1, is forgotten and Σ β settled, in place; returns a missing row's
    slot, or −1.
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
    """The slot of the vector that must go after this example: that which leaves the window, or the oldest; or −1."""
    count, index, live, oldest = held.numbers[COUNT], held.example, held.live, -1
    if rule.window > 0 and held.numbers[POSITION] == held.numbers[KNOWN] - 1:
        for j in range(count):
            if live[j] and index[j] == example - rule.window:
                return j
    if rule.budget > 0 and held.numbers[LIVE] > rule.budget:
        for j in range(count):
            if live[j] and (oldest < 0 or index[j] < index[oldest]):
                oldest = j
    return oldest


@inlined
def let_go(rule, panels, held, block, r, space):
    """Forget what must go after example r of a block, in place; returns a missing row's slot, or −1."""
    if rule.window == 0 and rule.budget == 0:
        return -1
    numbers, example = held.numbers, block.first + r
    slot, missing = 0, -1
    while slot >= 0 and missing < 0:  # the last of them is none: what Σ β lacks is settled
        slot = slot_to_forget(rule, held, example)
        missing = forget(rule, panels, held, slot, space)
    if missing < 0 and rule.window > 0 and numbers[KEPT] > rule.window:
        numbers[KEPT] -= 1
        for q in range(held.beta.shape[0]):
            held.mass[q] -= block.gone[q, r]
    return missing


@compiled
def track(rule, panels, held, block, space):
    """Go on with the examples of a block, in place; returns DONE, UNKNOWN, or the slot of a row that is missing."""
    panels, held, space, block = borrow(panels), borrow(held), borrow(space), borrow(block)
    numbers = held.numbers
    while numbers[POSITION] < block.first + block.rows.shape[0]:
        r = numbers[POSITION] - block.first
        if numbers[STAGE] == ARRIVE:
            if not arrive(rule, panels, held, block, r, space.X):
                return UNKNOWN
            numbers[STAGE] = WORK
        if numbers[STAGE] == WORK:
            missing = work(rule, panels, held, space)
            if missing >= 0:
                return missing
            numbers[STAGE] = FORGET
        missing = let_go(rule, panels, held, block, r, space)
        if missing >= 0:
            return missing
        bury(rule, panels, held)
        numbers[STAGE] = ARRIVE
        numbers[VISITS] += 1
        numbers[POSITION] += 1
    return DONE


@compiled
def unlearn(rule, panels, held, slot, space):
    """Forget the vector in a slot, in place; returns the slot whose row is missing, or −1."""
    return forget(rule, borrow(panels), borrow(held), slot, borrow(space))


@compiled
def rework(rule, panels, held, space):
    """REPROCESS steps of all outputs without a new example, in place; returns the slot whose row is missing, or −1."""
    panels, held, space = borrow(panels), borrow(held), borrow(space)
    missing = work(rule, panels, held, space)
    if missing < 0:
        bury(rule, panels, held)
    return missing


@compiled
def sum_up(held, X, constant):
    """w ← Σ β x, in place."""
    held, X = borrow(held), borrow(X)
    held.w[:] = 0.0
    for q in range(held.beta.shape[0]):
        for i in range(held.numbers[COUNT]):
            if held.beta[q, i] != 0.0:
                add_to_w(held, X, constant, q, i, held.beta[q, i])


@compiled
def add_scores(X, V, f):
    """f[q, i] += ⟨row i, column q of V⟩, in place."""
    X, scores = borrow(X), np.empty(V.shape[1])
    for i in range(f.shape[1]):
        row_scores(X, i, V, scores)
        for q in range(scores.size):
            f[q, i] += scores[q]


# ---------------------------------------------------------------- state and solver


_SLOTS, _PLACES, _EACH = Array("outputs", "slots"), Array("slots", dtype=np.int64, low=0), Array("outputs")
_FLAGS, _BARS, _ENDS = (
    Array("slots", dtype=np.bool_), Array("outputs", "slots", finite="inf"), Array("outputs", finite="inf")
)  # fmt: skip


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    """What slots, lists of slots and numbers must say of each other: loops go by all of them."""
    numbers, slots, outputs = state.numbers, sizes["slots"], sizes["outputs"]
    count, known, spare, waiting = (int(numbers[k]) for k in (COUNT, KNOWN, SPARE, WAITING))
    live = state.live[:count]
    if slots and (slots < FIRST_SLOTS or slots & (slots - 1)):
        return f"it has {slots} slots, and not a power of 2 from {FIRST_SLOTS} on"
    if not (0 <= count <= slots and 0 <= numbers[POSITION] <= known <= sizes.get("n", known)):
        return f"numbers say {count} slots of {slots} and {known} examples of {sizes.get('n', known)}"
    if not (0 <= spare == count - live.sum() and not state.live[count:].any() and numbers[LIVE] == live.sum()):
        return f"numbers say {numbers[LIVE]} vectors and {spare} free slots, and live {live.sum()} of {count}"
    if not np.array_equal(np.sort(state.spare[:spare]), np.flatnonzero(~live)):
        return "spare lists other slots than those without a vector"
    if not (0 <= waiting <= slots) or not np.array_equal(np.sort(state.waiting[:waiting]), np.flatnonzero(state.waits)):
        return "waiting lists other slots than waits"
    if waiting and state.waiting[:waiting].max() >= count:
        return "waiting lists slots that were never used"
    if (state.example[:count] >= max(known, 1)).any():
        return f"example has {state.example[:count].max()}, and {known} examples are known"
    at_rest = int(numbers[STAGE] == ARRIVE)  # no example is at hand
    if not (-1 <= numbers[NEW] < max(count, at_rest) and 0 <= numbers[STAGE] <= FORGET):
        return f"numbers say slot {numbers[NEW]} is new, at stage {numbers[STAGE]}"
    if not (0 <= numbers[OUTPUT] < outputs and 0 <= numbers[STEP] <= state.trail.shape[1]):
        return f"numbers say output {numbers[OUTPUT]} at step {numbers[STEP]}"
    shares = np.append(state.beta[:, :count] * live, state.owed[:, None], axis=1)
    if state.owed.any() and (np.abs(shares.sum(axis=1)) > 1e-6 * np.abs(shares).sum(axis=1)).any():
        return f"owed holds {state.owed.max():.6g}, which the coefficients do not lack"
    q, last = int(numbers[OUTPUT]), state.trailed
    if numbers[STAGE] == WORK and (last[q] > 2 * numbers[STEP] or last[q + 1 :].any()):
        return "trailed counts more steps than were taken"
    return None


@savable(
    "Tracker.State", beta=_SLOTS, e=_SLOTS, low=Array("outputs", "slots", high=0.0),
    high=Array("outputs", "slots", low=0.0), up=_BARS,
    down=_BARS, example=_PLACES, live=_FLAGS, waits=_FLAGS,
    spare=Array("slots", dtype=np.int64, low=0, high="slots-1"), diagonal=Array("slots"),
    waiting=Array("slots", dtype=np.int64, low=0, high="slots-1"), top=_ENDS,
    bottom=_ENDS, owed=_EACH, mass=_EACH, losses=_EACH,
    trail_slot=Array("outputs", "steps", dtype=np.int64, low=0, high="slots-1"), trail=Array("outputs", "steps"),
    trailed=Array("outputs", dtype=np.int64, low=0, high="steps"), steps=Array("outputs", dtype=np.int64, low=0),
    numbers=Array(WRONG + 1, dtype=np.int64, low=-1, high=2**53), seed=Whole(0, 2**63),
    w=Array((1, "outputs"), (0, "d+1"), 1), law=_law,
)  # fmt: skip
@dataclass
class State(protocol.State):
    """Where a stream stands: arrays over outputs and slots, see :class:`Held`, with room for more.

    ``reach`` says how far the rows have reached, on which the way to compute distances depends; ``seed`` makes the
    draws.
    """

    beta: np.ndarray
    e: np.ndarray
    low: np.ndarray
    high: np.ndarray
    up: np.ndarray
    down: np.ndarray
    example: np.ndarray
    live: np.ndarray
    spare: np.ndarray
    waits: np.ndarray
    waiting: np.ndarray
    diagonal: np.ndarray
    top: np.ndarray
    bottom: np.ndarray
    owed: np.ndarray
    mass: np.ndarray
    losses: np.ndarray
    trail_slot: np.ndarray
    trail: np.ndarray
    trailed: np.ndarray
    steps: np.ndarray
    numbers: np.ndarray
    seed: int
    reach: float = 0.0
    w: np.ndarray = field(default_factory=lambda: np.zeros((1, 0, 1)))
    counters: Counters = field(default_factory=Counters)

    @property
    def held(self) -> Held:
        """The arrays, for compiled loops."""
        return Held(*HELD(self))

    @property
    def count(self) -> int:
        """Slots that were ever used."""
        return int(self.numbers[COUNT])

    @property
    def known(self) -> int:
        """Examples of the problem that were seen."""
        return int(self.numbers[KNOWN])

    def again(self) -> State:
        """Another object over the same arrays and workspace."""
        new = replace(self, counters=replace(self.counters))
        if self.workspace is not None:
            new.workspace = self.workspace  # type: ignore[misc]
        return new

    @property
    def came(self) -> int:
        """Examples that ever came."""
        return int(self.numbers[CAME])

    @property
    def online_error(self) -> float:
        """The share of the examples that were predicted wrongly when they came."""
        return float(self.numbers[WRONG]) / max(1, int(self.numbers[CAME]))

    @property
    def vectors(self) -> np.ndarray:
        """The slots of the vectors, by the numbers of their examples."""
        slots = np.flatnonzero(self.live[: self.count])
        return slots[np.argsort(self.example[slots], kind="stable")]


@dataclass
class Workspace:
    """What can be made again: the vectors laid out, kernel values between them, working space.

    ``number`` is that of the way to compute (:func:`.panels.way_of`), ``rows`` has the values of arriving examples,
    ``fetched`` those of a missing row; ``counted`` kernel values are among the counters.
    """

    slots: Slots
    panels: Panels
    space: Space
    number: int
    rows: np.ndarray
    fetched: np.ndarray
    counted: int = 0


@savable(reprocess=Either(Whole(0), Text("auto")))
@dataclass
class Tracker(Solver):
    """Approximate incremental SVMs: PROCESS and REPROCESS steps for each example that arrives.

    It is the method of :class:`IncrementalSVC`. A step is an example.

    Parameters
    ----------
    algorithm : {"lasvm", "process", "random"}, default="lasvm"
        "lasvm" keeps the support vectors alone. "random" is Algorithm 1 of the paper and "process" its
        Algorithm 2, which know the responses of all examples. A free intercept makes it work in pairs.
    choose : {"greedy", "random"}, default="greedy"
        Which vector REPROCESS takes: the one that gains most, or one that is drawn among all examples
        seen, where a draw that is no vector takes no step. The paper's theorems are about "random".
    reprocess : int or "auto", default=1
        The number of REPROCESS steps for each example. "auto" takes as many as hold ``gap``.
    average : bool, default=False
        Whether the model is the mean over the REPROCESS steps of the last example.
    gap : float, default=0.01
        The largest normalised gap (P − D)/ΣC of the vectors, for ``reprocess="auto"``.
    window : int or None, default=None
        The number of examples that are remembered. Older ones are forgotten.
    budget : int or None, default=None
        The largest number of vectors. The oldest one is forgotten first.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import IncrementalSVC, Tracker
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = IncrementalSVC(C=10.0, gamma=1.0, solver=Tracker(reprocess=3)).fit(X, y)
    >>> model.n_samples_seen_
    60
    """

    algorithm: str = "lasvm"
    choose: str = "greedy"
    reprocess: Any = 1
    average: bool = False
    gap: float = 0.01
    window: int | None = None
    budget: int | None = None

    streams = True
    joins = True
    state_class = State

    @property
    def free_bias(self) -> bool:  # type: ignore[override]
        """Whether it works in pairs."""
        return self.algorithm == "lasvm" and self.choose == "greedy"

    # -- work

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense."""
        one_of("algorithm", self.algorithm, ("lasvm", "process", "random"))
        one_of("choose", self.choose, ("greedy", "random"))
        if self.reprocess != "auto":
            if isinstance(self.reprocess, str):
                raise ValueError(f"reprocess must be a number of steps or 'auto', got {self.reprocess!r}")
            whole("reprocess", self.reprocess, 0 if self.algorithm != "random" else 1)
        flag("average", self.average)
        positive("gap", self.gap)
        for name in ("window", "budget"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self.check_parameters()
        loss = losses.scalar_loss(problem.target)
        if not isinstance(loss, losses.Hinge):
            raise ValueError(f"Tracker follows the hinge loss, got {type(loss).__name__}: use the hinge")
        if not problem.kernel.of_rows:
            raise ValueError(
                f"Tracker computes kernels of vectors, and {type(problem.kernel).__name__} is none of "
                f"{', '.join(map(repr, names_of('of_rows')))}: choose one of them"
            )
        if problem.has_free_bias and not self.free_bias:
            raise ValueError(
                "an unregularised intercept needs pairs, which algorithm='lasvm' takes with choose='greedy': use them, "
                "or intercept='regularized' or 'none'"
            )

    def _rule(self, problem: KernelProblem, state: State) -> Rule:
        auto = self.reprocess == "auto"
        return Rule(
            self.algorithm != "lasvm", problem.has_free_bias, self.choose == "greedy", self.algorithm != "random",
            MOST_STEPS if auto else int(self.reprocess), float(self.gap) if auto else -1.0, problem.constant,
            int(self.window or 0), int(self.budget or 0), np.uint64(state.seed),
        )  # fmt: skip

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> State:
        """The state before the first example, with w = 0."""
        self.check(problem)
        outputs = problem.n_outputs

        def wide(kind: Any = np.float64) -> np.ndarray:
            return np.zeros((outputs, 0), kind)

        def slots(kind: Any = np.int64) -> np.ndarray:
            return np.zeros(0, kind)

        def each(kind: Any = np.float64) -> np.ndarray:
            return np.zeros(outputs, kind)

        state = State(
            wide(), wide(), wide(), wide(), wide(), wide(), slots(), slots(np.bool_), slots(), slots(np.bool_), slots(),
            slots(np.float64), each() - np.inf,
            each() + np.inf, each(), each(), each(), wide(np.int64), wide(), each(np.int64), each(np.int64),
            np.zeros(WRONG + 1, np.int64), int(rng.integers(2**62)),
        )  # fmt: skip
        self.bind(problem, state)
        return state

    def bind(self, problem: KernelProblem, state: State, in_order: bool = True) -> None:
        """Go on with a problem whose first examples are those that were seen; the next ones are new."""
        self.check(problem)
        if state.beta.shape[0] != problem.n_outputs:
            raise ValueError(f"the state has {state.beta.shape[0]} outputs, the problem {problem.n_outputs}")
        if state.known > problem.n:
            raise ValueError(f"the state is of {state.known} examples, the problem has {problem.n}")
        if problem.n > state.known and state.numbers[STAGE] == ARRIVE:  # else an example is at hand still
            state.numbers[POSITION] = state.numbers[KNOWN]
        self._make_room(state, FIRST_SLOTS)
        if problem.kernel.is_linear and state.w.size == 0:
            state.w = np.zeros((problem.n_outputs, shape(problem.X)[1] + 1, 1))
            sum_up(state.held, problem.X, problem.constant)
        if state.workspace is not None:  # kernel values are those of the vectors, whatever their examples' numbers
            state.workspace = problem, state.workspace[1]  # type: ignore[misc]

    def _make_room(self, state: State, most: int) -> None:
        """Slots for so many vectors, and a trail for the steps of one example."""
        if most > state.example.size:
            room = max(FIRST_SLOTS, 1 << (most - 1).bit_length())
            for name in BY_SLOT:
                old = getattr(state, name)
                new = np.zeros((*old.shape[:-1], room), old.dtype)
                new[..., : old.shape[-1]] = old
                setattr(state, name, new)
        steps = 2 * (1 + (MOST_STEPS if self.reprocess == "auto" else int(self.reprocess)))
        if steps > state.trail.shape[1]:
            for name in ("trail_slot", "trail"):
                old = getattr(state, name)
                setattr(state, name, np.pad(old, [(0, 0), (0, steps - old.shape[1])]))

    def _workspace(self, problem: KernelProblem, state: State) -> Workspace:
        """The workspace, with room for all slots and the way to compute that the state has come to."""
        room, count, n_bytes = state.example.size, state.count, (1.0 - BLOCK_SHARE) * problem.cache_bytes
        number, way = way_of(problem.kernel, problem.X, state.reach)
        if state.workspace is not None and state.workspace[1].number != number:
            state.drop_workspace()  # a row has reached further than all before

        def make() -> Workspace:
            slots = Slots(problem.kernel, problem.X, way, room)
            slots.put(problem.X, state.example[:count], np.arange(count))
            nothing = np.empty((0, room), np.float32)
            return Workspace(
                slots, no_panels(room, n_bytes), of(room), number, nothing, np.empty((1, room), np.float32)
            )

        def of(room: int) -> Space:
            X = problem.X if problem.kernel.is_linear else DenseRows(np.empty((0, 0)))
            return Space(np.empty(room, np.float32), np.empty(room, np.float32), np.empty(room), X)

        found = state.work(problem, make)
        if found.fetched.size < room:
            found.slots.grow(room)
            found.panels = with_slots(found.panels, room, count, n_bytes)
            found.space = of(room)
            found.rows, found.fetched = np.empty((0, room), np.float32), np.empty((1, room), np.float32)
        if problem.kernel.is_linear:
            found.space = found.space._replace(X=problem.X)  # it may have grown
        return found

    def sizes(self, problem: KernelProblem) -> dict[str, int]:
        """With the features of the rows."""
        return {**super().sizes(problem), "d": shape(problem.X)[1]}

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """A step is an example."""
        return problem.n

    def first_slice(self, problem: KernelProblem) -> int:
        """As many examples as make a slice's kernel values, if all are vectors, or one."""
        return max(1, 2**22 // problem.n)

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """See the next n_steps examples, in place; after the last one, the first again."""
        left, kind = n_steps, (type(problem.kernel), type(problem.X), dtype_of(problem.X).char)
        if n_steps == 0 and kind in _compiled_for:
            return 0
        _compiled_for.add(kind)
        while True:
            block, sizes, space = self._block(problem, state, left)
            rule, held = self._rule(problem, state), state.held
            laid_out = 0

            def lay_out(
                missing: int, block: Block = block, sizes: np.ndarray = sizes, space: Workspace = space
            ) -> None:
                nonlocal laid_out
                end = int(state.numbers[POSITION]) - block.first + int(missing >= 0)
                came = laid_out + (block.came[laid_out:end] >= 0).nonzero()[0]
                # of two in a slot the later one stays
                space.slots.put(problem.X, block.first + came, block.came[came], sizes[came])
                laid_out = end
                if missing == UNKNOWN:
                    self._compute(problem, state, block, sizes, space, end)

            self._go(problem, state, space, lambda: track(rule, space.panels, held, block, space.space), lay_out)  # noqa: B023
            left -= block.came.size
            if left <= 0:
                return n_steps

    def _go(self, problem: KernelProblem, state: State, space: Workspace, loop: Any, lay_out: Any = None) -> None:
        """Call a loop until it is done, computing the rows it lacks; brings the counters up to date.

        After an error the example at hand is gone on with the next time.
        """
        try:
            self._call(problem, state, space, loop, lay_out)
        except BaseException:
            state.drop_workspace()  # vectors may have come that are not laid out
            raise
        finally:
            numbers, counters = state.numbers, state.counters
            counters.steps = counters.visits = int(numbers[VISITS])
            counters.updates, counters.kernel_evals = int(numbers[UPDATES]), int(numbers[EVALS])
            counters.kernel_computed += space.slots.evaluations - space.counted
            space.counted = space.slots.evaluations

    def _call(self, problem: KernelProblem, state: State, space: Workspace, loop: Any, lay_out: Any) -> None:
        while True:
            missing = int(loop())
            if lay_out is not None:
                lay_out(missing)
            if missing == DONE:
                break
            if missing == UNKNOWN:
                continue
            row, example, index = space.fetched, int(state.example[missing]), state.example[: state.count]
            alone = some_rows(problem.X, example, example + 1)
            space.slots.against(problem.X, index, alone, row, space.slots.own_sums(alone))
            row[0, missing] = self._diagonal(problem, alone)[0]  # as it was when the example came
            hold(space.panels, missing, row[0], state.count)

    def _block(self, problem: KernelProblem, state: State, most: int) -> tuple[Block, np.ndarray, Workspace]:
        """The next examples, at most so many, with their kernel values; their sizes (:meth:`.panels.Slots.own_sums`);
        and the workspace that they take.
        """
        numbers, X = state.numbers, problem.X
        if numbers[POSITION] >= problem.n and most > 0:
            numbers[POSITION] = 0
        first = int(numbers[POSITION])
        height = min(max(int(BLOCK_SHARE * problem.cache_bytes) // (4 * state.example.size), 16), BLOCK)
        last = min(first + min(most, height), problem.n)
        rows = some_rows(X, first, last)
        if last > first:
            # a row that reaches further than all before begins a block, since another way to compute may begin with it
            reach = np.maximum.accumulate(np.maximum(reach_of(problem.kernel, rows), state.reach))
            if reach[0] != reach[-1]:
                ways = [way_of(problem.kernel, X, far)[0] for far in (reach[0], reach[-1])]
                if ways[0] != ways[1]:
                    other = (k for k, far in enumerate(reach) if way_of(problem.kernel, X, far)[0] != ways[0])
                    last = first + next(other)
                    rows = some_rows(X, first, last)
            state.reach = float(reach[last - first - 1])
        h, count = last - first, state.count
        self._make_room(state, count + h)
        space = self._workspace(problem, state)
        if space.rows.shape[0] < h:
            space.rows = np.empty((h if h < 16 else height, state.example.size), np.float32)
        arriving = np.arange(first, last)
        caps = gone = self._caps(problem, arriving)
        if self.window is not None:
            gone = self._caps(problem, np.maximum(arriving - self.window, 0))
        block, sizes = Block(
            first, np.zeros(h, bool), space.rows[:h], np.empty((h, h), np.float32),
            np.ascontiguousarray(problem.signs[:, first:last]), caps, gone, self._diagonal(problem, rows),
            np.full(h, -1),
        ), space.slots.own_sums(rows)  # fmt: skip
        self._compute(problem, state, block, sizes, space)
        return block, sizes, space

    def _compute(
        self, problem: KernelProblem, state: State, block: Block, sizes: np.ndarray, space: Workspace, asked: int = -1
    ) -> None:  # fmt: skip
        """Compute kernel values of examples of a block, in place: of all, or, where responses are known without, of the
        one asked for and those that are wanted as things are. Which ones changes no bit of the model.
        """
        X, h, at = problem.X, block.has.size, max(asked, 0)
        rows, chosen = some_rows(X, block.first, block.first + h), np.arange(h)
        if problem.kernel.is_linear:
            lacks = np.empty(h)
            look_ahead(self._rule(problem, state), state.held, block, X, at, lacks)
            if asked >= 0:
                lacks[asked] = -np.inf  # whatever rounding says here
            chosen = np.flatnonzero(lacks < 0.0)
        space.slots.against(X, state.example[: state.count], rows, block.rows, sizes, chosen)
        block.has[chosen] = True
        if h > 1:
            index, others = np.arange(block.first, block.first + h), at + np.flatnonzero(block.has[at:])
            write_within(block, chosen, others, space.slots.among(X, index, rows, sizes, chosen, others))

    @staticmethod
    def _diagonal(problem: KernelProblem, rows: Any) -> np.ndarray:
        """k(x, x) of some rows, without the constant."""
        found = np.ones(shape(rows)[0])
        if not problem.kernel.unit_diagonal:
            own_values(problem.kernel, rows, found)
        return found

    @staticmethod
    def _caps(problem: KernelProblem, chosen: np.ndarray) -> np.ndarray:
        """The bounds C s of some examples, of shape (outputs, examples)."""
        caps = np.full((problem.n_outputs, chosen.size), float(problem.C))
        if problem.sample_weight.size:
            caps *= problem.sample_weight.take(chosen, axis=-1)
        return caps

    # -- what is done with a model at rest

    def forget(self, problem: KernelProblem, state: State, examples: np.ndarray) -> None:
        """Unlearn some examples that were seen, in place; each makes room for as many steps as one that arrives.

        The caller takes them out of the problem, see :meth:`renumbered`.
        """
        space, held = self._workspace(problem, state), state.held
        rule = self._rule(problem, state)
        own = {int(example): slot for slot, example in enumerate(state.example[: state.count]) if state.live[slot]}
        slots = [own[int(example)] for example in examples if int(example) in own]
        held.trailed[:] = 0
        for slot in slots:
            self._go(problem, state, space, lambda: unlearn(rule, space.panels, held, slot, space.space))  # noqa: B023
        state.numbers[KEPT] -= len(examples)
        state.mass -= self._caps(problem, examples).sum(axis=1)
        state.numbers[NEW] = -1
        for _ in slots:
            held.trailed[:] = 0
            self._go(problem, state, space, lambda: rework(rule, space.panels, held, space.space))

    def renumbered(self, state: State, kept: np.ndarray) -> State:
        """The state where the examples are those kept of the old ones, whose numbers stand in order; vectors are among
        them. What the mean has of others is lost.
        """
        new, known = state.again(), int(np.searchsorted(kept, state.known))
        new.example, new.numbers, new.trail = np.zeros_like(state.example), state.numbers.copy(), state.trail.copy()
        slots = np.flatnonzero(np.isin(state.example[: state.count], kept))
        new.example[slots] = np.searchsorted(kept, state.example[slots])
        for q in range(new.trail.shape[0]):
            new.trail[q, ~np.isin(state.trail_slot[q], slots)] = 0.0
        new.numbers[KNOWN] = new.numbers[POSITION] = known
        if new.workspace is not None:
            new.workspace[1].slots.renumbered()
        return new

    def repair(self, problem: KernelProblem, state: State, gap: float) -> None:
        """REPROCESS until the gap of the vectors, over ΣC of the problem's examples, is at most ``gap``, in place; by
        the best steps, never by drawn ones.

        It ends, too, where no step gains anything, and after :data:`MOST_REPAIRS` steps for each vector.
        """
        space, numbers, room = self._workspace(problem, state), state.numbers, (state.top.size, 2 * (1 + MOST_STEPS))
        held = state.held._replace(trail_slot=np.zeros(room, np.int64), trail=np.zeros(room))
        rule = self._rule(problem, state)
        gap *= float(np.min(self._caps(problem, np.arange(problem.n)).sum(axis=1) / np.maximum(state.mass, 1e-300)))
        # vectors with β = 0 take steps, too
        steps = rule._replace(most=MOST_STEPS, gap=gap, keeps_all=True, greedy=True)
        numbers[NEW], before = -1, -1
        for _ in range(1 + MOST_REPAIRS * int(numbers[LIVE]) // MOST_STEPS):
            if numbers[UPDATES] == before:
                break
            before = int(numbers[UPDATES])
            self._go(problem, state, space, lambda: rework(steps, space.panels, held, space.space))
            state.trailed[:], state.steps[:] = 0, 0
        self._go(problem, state, space, lambda: rework(rule._replace(most=0), space.panels, held, space.space))

    def adopt(
        self, problem: KernelProblem, state: State, beta: np.ndarray, f: np.ndarray, wanted: np.ndarray | None = None
    ) -> None:
        """Go on from other dual variables, with their responses, both of shape (outputs, n), in place.

        The vectors are the examples whose variables are not 0, and those ``wanted``, a mask.
        """
        caps = self._caps(problem, np.arange(problem.n))
        e, low, high = problem.signs - f, np.minimum(problem.signs * caps, 0.0), np.maximum(problem.signs * caps, 0.0)
        near = ROUNDING * caps
        beta = np.where(beta >= high - near, high, np.where(beta <= low + near, low, beta))
        ups, downs = np.where(beta < high, e, -np.inf), np.where(beta > low, e, np.inf)
        if self.algorithm != "lasvm":
            chosen = np.arange(problem.n)
        else:
            used = np.any(beta != 0.0, axis=0) if wanted is None else np.any(beta != 0.0, axis=0) | wanted
            if problem.has_free_bias:  # the bias depends on the extremes
                used[ups.argmax(axis=1)] = used[downs.argmin(axis=1)] = True
            chosen = np.flatnonzero(used)
        self._make_room(state, chosen.size)
        state.drop_workspace()
        k = chosen.size
        for name in BY_SLOT:
            getattr(state, name)[...] = 0
        state.up[:], state.down[:] = -np.inf, np.inf
        state.beta[:, :k], state.e[:, :k] = beta[:, chosen], e[:, chosen]
        state.low[:, :k], state.high[:, :k] = low[:, chosen], high[:, chosen]
        state.up[:, :k] = np.where(state.beta < state.high, 0.0, -np.inf)[:, :k]
        state.down[:, :k] = np.where(state.beta > state.low, 0.0, np.inf)[:, :k]
        state.example[:k], state.live[:k] = chosen, True
        diagonal = self._diagonal(problem, take_rows(problem.X, chosen))
        state.diagonal[:k] = np.maximum(diagonal + problem.constant, TAU)
        state.top, state.bottom = ups.max(axis=1), downs.min(axis=1)
        state.owed[:], state.trailed[:], state.steps[:] = 0.0, 0, 0
        state.numbers[[COUNT, SPARE, LIVE, NEW, WAITING]] = k, 0, k, -1, 0
        if problem.kernel.is_linear:
            sum_up(state.held, problem.X, problem.constant)
        unused = np.flatnonzero(~np.any(state.beta[:, :k], axis=0))
        if self.algorithm == "lasvm":
            state.waiting[: unused.size], state.waits[unused], state.numbers[WAITING] = unused, True, unused.size

    def with_outputs(self, state: State, sources: np.ndarray) -> State:
        """The state for more outputs: output q is the old one sources[q] if that is ≥ 0, the opposite of the first if
        it is −2, and a new one, of which all examples are negative, if it is −1.
        """
        old = {name: getattr(state, name) for name in Held._fields}
        new = dict(old)
        for name in Held._fields:
            if old[name].shape[:1] == state.top.shape and name not in (
                "example",
                "live",
                "spare",
                "waits",
                "waiting",
                "diagonal",
                "numbers",
            ):
                new[name] = np.stack([old[name][max(source, 0)] for source in sources])
        new["owed"] = np.zeros(sources.size)
        for q, source in enumerate(sources):
            if source == -2:
                for name in ("beta", "e", "trail", "w"):
                    new[name][q] *= -1.0
                new["low"][q], new["high"][q] = -old["high"][0], -old["low"][0]
                new["up"][q], new["down"][q] = -old["down"][0], -old["up"][0]
                new["top"][q], new["bottom"][q] = -old["bottom"][0], -old["top"][0]
            elif source == -1:
                cap = old["high"][0] - old["low"][0]
                new["beta"][q], new["e"][q], new["low"][q], new["high"][q] = 0.0, -1.0, -cap, 0.0
                new["up"][q], new["down"][q] = -np.inf, np.where(cap > 0.0, 0.0, np.inf)
                new["top"][q], new["bottom"][q] = -np.inf, -1.0 if cap.any() else np.inf
                new["trailed"][q] = new["steps"][q] = 0
                new["w"][q] = 0.0
        return replace(state, **new)

    # -- looks

    def bias(self, problem: KernelProblem, state: State) -> np.ndarray:
        """The intercepts: in the middle of what the vectors leave room for, where they are free, else 0."""
        if not problem.has_free_bias:
            return np.zeros(problem.n_outputs)
        return np.array([middle(*ends) for ends in zip(state.top, state.bottom, strict=True)])

    def coefficients(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(examples, their β of shape (outputs, examples)) of the model, by number: those of the vectors, or the mean
        over the last example's steps.
        """
        count = state.count
        beta = state.beta[:, :count].copy()
        if self.average:
            for q in range(beta.shape[0]):
                taken = slice(0, int(state.trailed[q]))
                np.subtract.at(beta[q], state.trail_slot[q, taken], state.trail[q, taken] / max(int(state.steps[q]), 1))
        slots = np.flatnonzero(np.any(beta != 0.0, axis=0))
        slots = slots[np.argsort(state.example[slots], kind="stable")]
        return state.example[slots], beta[:, slots]

    def duals(self, problem: KernelProblem, state: State) -> np.ndarray:
        """The dual variables of the model, of shape (outputs, n)."""
        examples, coefficients = self.coefficients(state)
        beta = np.zeros((problem.n_outputs, problem.n))
        beta[:, examples] = coefficients
        return beta

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """The vectors whose β is not 0, and the intercepts."""
        examples, coefficients = self.coefficients(state)
        return KernelModel(
            problem.kernel, examples, problem.rows(examples), coefficients, self.bias(problem, state), problem.constant
        )  # fmt: skip

    def responses(
        self, problem: KernelProblem, state: State, start: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """The responses of all examples to the model, without intercept, of shape (outputs, n).

        Those of the vectors are known, unless the model is a mean. ``start`` has other dual variables with their
        responses: only examples whose variables differ then take kernel values.
        """
        examples, coefficients = self.coefficients(state)
        f: Any = 0.0
        if start is not None:
            change, f = self.duals(problem, state) - start[0], start[1]
            examples = np.flatnonzero(np.any(change != 0.0, axis=0))
            coefficients = change[:, examples]
        f = f + np.tile(problem.constant * coefficients.sum(axis=1)[:, None], (1, problem.n))
        slots = state.vectors[:0] if self.average else state.vectors
        others = np.setdiff1d(np.arange(problem.n), state.example[slots], assume_unique=True)
        if problem.kernel.is_linear:
            w = np.asarray(coefficients @ as_matrix(problem.rows(examples)))
            add_scores(problem.X, np.ascontiguousarray(w.T, np.float64), f)
        elif examples.size and others.size:
            matrix, found = problem.matrix(examples, others), np.zeros((problem.n_outputs, others.size))
            height = max(16, 2**22 // others.size // 16 * 16)
            for first in range(0, examples.size, height):
                part = np.arange(first, min(first + height, examples.size))
                block = matrix.block(part)
                for q in range(problem.n_outputs):
                    add_kernel_rows(block, part - first, coefficients[q, part], found[q])
            f[:, others] += found
        known = state.example[slots]
        f[:, known] = problem.signs[:, known] - state.e[:, slots]
        return f

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel | None) -> dict[str, float]:
        """What a checkpoint records: ``objective`` is λ/2 ‖w‖² plus the mean loss of the examples at the time of their
        visit, an estimate that costs no kernel values.
        """
        beta, visits = state.beta[:, : state.count], max(1, int(state.numbers[VISITS]))
        signs = np.sign(state.low + state.high)[:, : state.count]
        norm2 = float(np.sum(beta * (signs - state.e[:, : state.count])))
        loss = float(state.losses.sum()) / (problem.C * visits)
        return {
            "objective": 0.5 * problem.lam * norm2 + loss, "support_vectors": float(state.numbers[LIVE]),
            "online_error": state.online_error,
        }  # fmt: skip

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal and dual value of the model for all examples of the problem, seen or not."""
        return problem.certificate(
            self.duals(problem, state), self.responses(problem, state), self.bias(problem, state)
        )  # fmt: skip
