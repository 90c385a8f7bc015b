"""Importances of examples that change by factors: draws in proportion to them, and the largest ones.

The importance of example i is scale × qᵢ, with one scale for each class (a *side*). Multiplying all importances of a
class costs O(1). A draw costs O(n^{1/3}), by the sums of blocks (:mod:`.sampler`); the most important examples are
found by the tops of blocks (:mod:`.cover`).

For multiplicative updates of a distribution over examples, as in SIMBA: p ∝ importance × weight.
"""

from typing import NamedTuple

import numpy as np

from ..compiling.dispatch import apart, inlined
from .cover import Tops, find_tops, list_above, note_change
from .sampler import Sampler, change_weight, draw_index, sum_all, total_weight

LEAST = 1e-200  # smallest importance: from 0 no factor would bring it back
EQUAL = 1e-10  # relative difference of importances that count as equal: the order of factors changes their rounding
NOTHING = 1e-300  # threshold below every importance and above 0, which stands for examples of the other side


class Side(NamedTuple):
    """Importances scale × qᵢ of one class (0 for the other class), the sampler of sᵢqᵢ, and the tops of q."""

    q: np.ndarray
    scale: np.ndarray
    sampler: Sampler
    tops: Tops


class Examples(NamedTuple):
    """Labels ±1, weights (empty if all are 1), and the two sides: of each class, or one of all and one of nobody."""

    y: np.ndarray
    s: np.ndarray
    first: Side
    second: Side


class Scratch(NamedTuple):
    """Working memory of a step: values vᵢ, which examples were touched, and candidates for slack; 0 between steps.

    ``mixed`` is for sums of dense columns, in their precision.
    """

    v: np.ndarray
    marked: np.ndarray
    touched: np.ndarray
    found: np.ndarray
    keys: np.ndarray
    mixed: np.ndarray


@inlined
def side_of(E, i):
    """The side of example i."""
    return E.second if E.y[i] < 0.0 and E.second.q.size else E.first


@inlined
def mass_of(S):
    """Σ sᵢqᵢ of a side."""
    return S.scale[0] * total_weight(S.sampler)


@inlined
def draw_example(E, u):
    """An example, drawn with probability ∝ weight × importance by u in [0, 1); the first if all are 0.

    The sums of a side that was read from a file may be positive although its weights are all 0; then the other side is
    drawn from.
    """
    here, there = mass_of(E.first), mass_of(E.second)
    goal = u * (here + there)
    below_one = 1.0 - 2.0**-53
    i = -1
    if goal < here or there <= 0.0:
        i = draw_index(E.first.sampler, min(goal / here, below_one))
    if i < 0:
        i = draw_index(E.second.sampler, min(max((goal - here) / there, 0.0), below_one))
    return max(i, 0)


@inlined
def put(S, s, i, q):
    """Set qᵢ ← q, the importance without the scale, of example i of this side."""
    before = S.q[i]
    if s.size:
        S.q[i] = q
        change_weight(S.sampler, i, s[i] * q)
    else:  # the sampler's weights are q itself
        change_weight(S.sampler, i, q)
    note_change(S.tops, S.q, i, before)


@apart
def multiply_out(S, s, factor):
    """Multiply all importances by ``factor``, and set the scale to 1."""
    factor *= S.scale[0]
    S.scale[0] = 1.0
    for i in range(S.q.size):
        if S.q[i] > 0.0:
            S.q[i] = max(S.q[i] * factor, LEAST)
            S.sampler.weights[i] = s[i] * S.q[i] if s.size else S.q[i]
    sum_all(S.sampler)
    find_tops(S.tops, S.q)


@inlined
def partition(found, keys, begin, end, pivot):
    """Reorder ``found`` by keys: larger than the pivot, equal, smaller; returns (begin, end) of the equal ones."""
    larger, k, smaller = begin, begin, end
    above, below = pivot * (1.0 + EQUAL), pivot * (1.0 - EQUAL)
    while k < smaller:
        key = keys[k]
        if key > above:
            found[k], found[larger] = found[larger], found[k]
            keys[k], keys[larger] = keys[larger], key
            larger += 1
            k += 1
        elif key < below:
            smaller -= 1
            found[k], found[smaller] = found[smaller], found[k]
            keys[k], keys[smaller] = keys[smaller], key
        else:
            k += 1
    return larger, smaller


@inlined
def weight_among(s, found, begin, end):
    """The weight of these examples."""
    if s.size == 0:
        return float(end - begin)
    total = 0.0
    for k in range(begin, end):
        total += s[found[k]]
    return total


@inlined
def most_important(E, slack, count, scratch):
    """(examples with full slack 2, examples with any slack, slack of those between) of ``count`` candidates.

    Reorders ``found`` so that these examples come first. ``slack`` is the total Σ sᵢξᵢ. By quickselect: O(count).
    """
    found, keys = scratch.found, scratch.keys
    begin, end, left = 0, count, slack
    while begin < end:
        middle = (begin + end) // 2
        pivot = max(min(keys[begin], keys[middle]), min(max(keys[begin], keys[middle]), keys[end - 1]))
        larger, smaller = partition(found, keys, begin, end, pivot)
        of_larger = 2.0 * weight_among(E.s, found, begin, larger)
        if of_larger >= left:
            end = larger
            continue
        left -= of_larger
        equal = weight_among(E.s, found, larger, smaller)
        if 2.0 * equal >= left:
            return larger, smaller, left / equal
        left -= 2.0 * equal
        begin = smaller
    return begin, begin, 0.0


@inlined
def give_slack(E, slack, threshold, scratch):
    """v ← ξ: slack 2 on the most important examples until Σ sᵢξᵢ = slack; equally important ones share the rest.

    Returns (number of examples with slack, a threshold of importance at which the next search may start).
    """
    if slack <= 0.0:
        return 0, threshold
    while True:
        count = 0
        for k in range(2):
            S = E.first if k == 0 else E.second
            begin = count
            # 0 stands for examples of the other side
            count = list_above(S.tops, S.q, max(threshold / S.scale[0], NOTHING), scratch.found, count)
            for c in range(begin, count):
                scratch.keys[c] = S.scale[0] * S.q[scratch.found[c]]
        if threshold == 0.0 or 2.0 * weight_among(E.s, scratch.found, 0, count) >= slack:
            break
        threshold = 0.5 * threshold if threshold > LEAST else 0.0
    full, some, share = most_important(E, slack, count, scratch)
    for k in range(some):
        i = scratch.found[k]
        scratch.v[i] = 2.0 if k < full else share
        scratch.marked[i] = True
        scratch.touched[k] = i
    level = scratch.keys[some - 1] if some > 0 else 0.0
    for k in range(full, some):
        level = min(level, scratch.keys[k])
    return some, 0.7 * level
