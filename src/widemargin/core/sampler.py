"""Draws of an index with a chance in proportion to its weight, while the weights change.

Weights stand in blocks, the sums of blocks in blocks, and the sums of those in a line: a draw walks along one line, one
block of sums and one block of weights, about 3 n^{1/3} numbers in all, and a change adds its difference to two sums.
A difference rounds, so after as many changes as there are weights all sums are computed anew; between two of these the
sums are those of the weights up to n ε times the largest total that they had. Weights of exactly 0 are never drawn.
Blocks are a power of two wide, so that finding one's own takes no division.
"""

import math
from typing import NamedTuple

import numpy as np

from .borrowing import borrow
from .dispatch import apart, compiled, inlined


class Sampler(NamedTuple):
    """Weights, the sums of their blocks, the sums of blocks of blocks; how many changes since all were summed.

    Blocks are 2^shift wide.
    """

    weights: np.ndarray
    fine: np.ndarray
    coarse: np.ndarray
    changes: np.ndarray
    shift: int


#: The least logarithm of a block's width: where weights change one by one, and where sweeps change them all.
NARROW, WIDE = 4, 8


def blocks(n: int, least: int = NARROW) -> tuple[int, int, int]:
    """(logarithm of the width, number of blocks, number of blocks of blocks) for n numbers in three levels."""
    shift = max(least, round(math.log2(max(1.0, np.cbrt(n)))))
    n_fine = -(-n >> shift)
    return shift, n_fine, -(-n_fine >> shift)


def sampler_of(weights: np.ndarray, least: int = NARROW) -> Sampler:
    """A sampler of these weights, which are not negative; it keeps the array and changes it."""
    shift, n_fine, n_coarse = blocks(weights.size, least)
    made = Sampler(weights, np.empty(n_fine), np.empty(n_coarse), np.zeros(1, np.int64), shift)
    sum_all(made)
    return made


@inlined
def block_of(values, k, shift):
    """Block k of these numbers. Loops over it begin at 0, which lets the compiler use vectors."""
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
    """Sum the sums of blocks, which are those of the weights."""
    _sum_blocks(S.fine, S.shift, S.coarse)
    S.changes[0] = 0


@compiled
def sum_all(sampler):
    """Compute all sums from the weights, as after changes that were not told of."""
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
    """Give index i another weight."""
    difference = weight - S.weights[i]
    S.weights[i] = weight
    S.fine[i >> S.shift] += difference
    S.coarse[i >> (2 * S.shift)] += difference
    S.changes[0] += 1


@apart
def settle(S):
    """Sum all weights if as many were changed as there are; for every so often, between draws."""
    if S.changes[0] >= S.weights.size:
        sum_all(S)


@inlined
def _walk(values, begin, end, goal):
    """The first place where the sum from ``begin`` on passes ``goal``, and what is left of it; or the last > 0."""
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
    """The block of the index that u chooses, and where in its sum; −1 if no sum is positive."""
    block, goal = _walk(S.coarse, 0, S.coarse.size, u * total_weight(S))
    if block >= 0:
        block, goal = _walk(S.fine, block << S.shift, min((block + 1) << S.shift, S.fine.size), goal)
    return block, goal


@inlined
def draw_index(S, u):
    """The index that the uniform number u in [0, 1) chooses, each with a chance in proportion to its weight.

    Sums that rounding left a little too large may lead beyond the last weight of a block: then it is that one, or,
    in a block without any, the next one drawn among all weights by hand. −1 if there is no positive weight.
    """
    block, goal = draw_block(S, u)
    if block >= 0:
        i, _ = _walk(S.weights, block << S.shift, min((block + 1) << S.shift, S.weights.size), goal)
        if i >= 0:
            return i
    # every sum that was walked along is of weights that have gone: rounding is all that was left of it
    sum_all(S)
    total = total_weight(S)
    i, _ = _walk(S.weights, 0, S.weights.size, u * total)
    return i


@compiled
def draw_indices(sampler, uniforms, out):
    """out ← an index for each uniform number."""
    S, uniforms, out = borrow(sampler), borrow(uniforms), borrow(out)
    for k in range(out.size):
        out[k] = draw_index(S, uniforms[k])


@compiled
def change_weights(sampler, indices, weights):
    """Give these indices other weights, one after another."""
    S, indices, weights = borrow(sampler), borrow(indices), borrow(weights)
    for k in range(indices.size):
        change_weight(S, indices[k], weights[k])
        settle(S)
