"""Importance of examples: draws in proportion to it, and the most important ones, while all of it changes by factors.

Importance is kept as scale × qᵢ in two sides, one for each class, so that a factor which a whole class shares costs
nothing. Each side has the sums of its blocks, which draws go by (:mod:`.sampler`), and their largest values, by which
the most important examples are found (:mod:`.cover`).
"""

from typing import NamedTuple

import numpy as np

from .cover import Tops, find_tops, list_above, note_change
from .dispatch import apart, inlined
from .sampler import Sampler, change_weight, draw_index, sum_all, total_weight

#: Importance stays above this: it may come back, and 0 never could.
LEAST = 1e-200
#: Importance that differs by this share is equal: factors that come in another order round differently.
EQUAL = 1e-10
#: Below any importance, and above that of examples of the other side.
NOTHING = 1e-300


class Side(NamedTuple):
    """Importance scale × qᵢ of the examples of one side, 0 for those of the other; draws ∝ sᵢqᵢ; the tops of q."""

    q: np.ndarray
    scale: np.ndarray
    sampler: Sampler
    tops: Tops


class Examples(NamedTuple):
    """Labels, weights (empty if all are 1), and the two sides; ``side`` says where an example stands."""

    y: np.ndarray
    s: np.ndarray
    side: np.ndarray
    first: Side
    second: Side


class Scratch(NamedTuple):
    """Values vᵢ of a step, who was touched, and the examples that may have slack; zeros between steps.

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
    return E.first if E.side[i] == 0 else E.second


@inlined
def mass_of(S):
    """Σ sᵢqᵢ of a side."""
    return S.scale[0] * total_weight(S.sampler)


@inlined
def draw_example(E, u):
    """An example with a chance in proportion to its weight times its importance."""
    here, there = mass_of(E.first), mass_of(E.second)
    goal = u * (here + there)
    below_one = 1.0 - 2.0**-53
    if goal < here or there <= 0.0:
        return draw_index(E.first.sampler, min(goal / here, below_one))
    return draw_index(E.second.sampler, min((goal - here) / there, below_one))


@inlined
def put(S, s, i, q):
    """Give example i of this side the importance q, without the scale."""
    before = S.q[i]
    if s.size:
        S.q[i] = q
        change_weight(S.sampler, i, s[i] * q)
    else:  # the sampler's weights are q itself
        change_weight(S.sampler, i, q)
    note_change(S.tops, S.q, i, before)


@apart
def multiply_out(S, s, factor):
    """Let the scale be 1, all importance multiplied by it and by ``factor``."""
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
    """Order places and keys: larger keys than the pivot come first, then equal ones; returns where these stand."""
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
    """(how many have all of 2, how many have some slack, what each of the others has) among ``count`` candidates.

    They come first among the places found, in this order. ``slack`` is Σ sᵢξᵢ.
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
    """v ← ξ, the best slack against p: 2 on the most important examples until Σ sᵢξᵢ is spent, shared by equal ones.

    Returns how many were touched, and a threshold for the next time.
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
