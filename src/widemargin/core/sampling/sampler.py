"""Draws of an index with probability proportional to its weight, while weights change.

Three levels: the weights, the sums of blocks of weights (``fine``), the sums of blocks of these (``coarse``)::

    sampler = sampler_of(weights)
    i = draw_index(sampler, u)                  # u uniform in [0, 1)
    change_weight(sampler, i, 0.5)

Cost. A draw walks along all coarse sums, one block of fine sums and one block of weights: about 3 n^{1/3} numbers. A
change adds its difference to two sums. Blocks are a power of two wide, so that an index finds its block by a shift.

Rounding. Each added difference rounds, so :func:`settle` sums everything anew after n changes. Between two such sums
the error is at most n ε times the largest total. A weight of exactly 0 is never drawn.
"""

import math
from typing import NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import apart, compiled, inlined


class Sampler(NamedTuple):
    """Weights, sums of blocks, sums of blocks of blocks, and the number of changes since all were summed.

    Blocks are 2^shift wide.
    """

    weights: np.ndarray
    fine: np.ndarray
    coarse: np.ndarray
    changes: np.ndarray
    shift: int


NARROW, WIDE = 4, 8  # smallest shift: if weights change one by one, and if passes change all of them


def blocks(n: int, least: int = NARROW) -> tuple[int, int, int]:
    """(shift, number of blocks, number of blocks of blocks) for n numbers in three levels."""
    shift = max(least, round(math.log2(max(1.0, np.cbrt(n)))))
    n_fine = -(-n >> shift)
    return shift, n_fine, -(-n_fine >> shift)


def sampler_of(weights: np.ndarray, least: int = NARROW) -> Sampler:
    """A sampler of these weights ≥ 0; it owns the array and changes it."""
    shift, n_fine, n_coarse = blocks(weights.size, least)
    made = Sampler(weights, np.empty(n_fine), np.empty(n_coarse), np.zeros(1, np.int64), shift)
    sum_all(made)
    return made


@inlined
def block_of(values, k, shift):
    """Block k of these numbers, as a slice: loops that begin at 0 become vector instructions."""
    return values[k << shift : min((k + 1) << shift, values.size)]


@inlined
def _sum_blocks(values, shift, sums):
    for k in range(sums.size):
        block, total = block_of(values, k, shift), 0.0
        for i in range(block.size):
            total += block[i]
        sums[k] = total


@inlined
def sum_sums(S):
    """Compute the coarse sums from the fine ones, which are exact."""
    _sum_blocks(S.fine, S.shift, S.coarse)
    S.changes[0] = 0


@compiled
def sum_all(sampler):
    """Compute all sums from the weights."""
    S = borrow(sampler)
    _sum_blocks(S.weights, S.shift, S.fine)
    sum_sums(S)


@inlined
def total_weight(S):
    """The sum of all weights."""
    total = 0.0
    for k in range(S.coarse.size):
        total += S.coarse[k]
    return total


@inlined
def change_weight(S, i, weight):
    """weights[i] ← weight, with the sums."""
    difference = weight - S.weights[i]
    S.weights[i] = weight
    S.fine[i >> S.shift] += difference
    S.coarse[i >> (2 * S.shift)] += difference
    S.changes[0] += 1


@apart
def settle(S):
    """Compute all sums anew if there were n changes; to be called between draws."""
    if S.changes[0] >= S.weights.size:
        sum_all(S)


@inlined
def _walk(values, begin, end, goal):
    """(k, rest): the first index at which the sum from ``begin`` on exceeds ``goal``, and the goal less the sum before.

    If rounding left the goal above the total, the last positive entry and an infinite rest; −1 if there is none.
    """
    found = -1
    for k in range(begin, end):
        if values[k] > 0.0:
            found = k
            if goal < values[k]:
                return k, goal
            goal -= values[k]
    return found, np.inf


@inlined
def draw_block(S, u):
    """(block, goal within the block) of the index that u chooses; −1 if no sum is positive."""
    block, goal = _walk(S.coarse, 0, S.coarse.size, u * total_weight(S))
    if block >= 0:
        block, goal = _walk(S.fine, block << S.shift, min((block + 1) << S.shift, S.fine.size), goal)
    return block, goal


@inlined
def draw_index(S, u):
    """The index that u, uniform in [0, 1), chooses with probability ∝ weight; −1 if no weight is positive.

    Sums that are too large by rounding may lead beyond the last positive weight of a block; then that weight is
    chosen. If the block has none, all sums are computed anew and the draw walks along all weights.
    """
    block, goal = draw_block(S, u)
    if block >= 0:
        i, _ = _walk(S.weights, block << S.shift, min((block + 1) << S.shift, S.weights.size), goal)
        if i >= 0:
            return i
    # the sums on the way were positive by rounding only: their weights are all 0
    sum_all(S)
    total = total_weight(S)
    i, _ = _walk(S.weights, 0, S.weights.size, u * total)
    return i
