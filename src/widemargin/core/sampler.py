"""Draws of an index with a chance in proportion to its weight, while the weights change.

Weights stand in blocks, the sums of blocks in blocks, and the sums of those in a line: a draw walks along one line, one
block of sums and one block of weights, about 3 n^{1/3} numbers in all, and a change adds its difference to two sums.
A difference rounds, so after as many changes as there are weights all sums are computed anew; between two of these the
sums are those of the weights up to n ε times the largest total that they had. Weights of exactly 0 are never drawn.
"""

from typing import NamedTuple

import numpy as np

from .dispatch import borrow, compiled, inlined


class Sampler(NamedTuple):
    """Weights, the sums of their blocks, the sums of blocks of blocks; how many changes since all were summed."""

    weights: np.ndarray
    fine: np.ndarray
    coarse: np.ndarray
    changes: np.ndarray
    width: int


def blocks(n: int) -> tuple[int, int, int]:
    """(width, number of blocks, number of blocks of blocks) for n numbers in three levels."""
    width = max(16, -(-round(np.cbrt(n)) // 16) * 16)
    n_fine = -(-n // width)
    return width, n_fine, -(-n_fine // width)


def sampler_of(weights: np.ndarray) -> Sampler:
    """A sampler of these weights, which are not negative; it keeps the array and changes it."""
    width, n_fine, n_coarse = blocks(weights.size)
    made = Sampler(weights, np.empty(n_fine), np.empty(n_coarse), np.zeros(1, np.int64), width)
    sum_all(made)
    return made


@compiled
def sum_all(sampler):
    """Compute all sums from the weights, as after changes that were not told of."""
    S = borrow(sampler)
    for k in range(S.fine.size):
        total = 0.0
        for i in range(k * S.width, min((k + 1) * S.width, S.weights.size)):
            total += S.weights[i]
        S.fine[k] = total
    sum_coarse(S)


@inlined
def sum_coarse(S):
    """Compute the upper sums from those of blocks."""
    for k in range(S.coarse.size):
        total = 0.0
        for i in range(k * S.width, min((k + 1) * S.width, S.fine.size)):
            total += S.fine[i]
        S.coarse[k] = total
    S.changes[0] = 0


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
    S.fine[i // S.width] += difference
    S.coarse[i // (S.width * S.width)] += difference
    S.changes[0] += 1


@inlined
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
def draw_index(S, u):
    """The index that the uniform number u in [0, 1) chooses, each with a chance in proportion to its weight.

    Sums that rounding left a little too large may lead beyond the last weight of a block: then it is that one, or,
    in a block without any, the next one drawn among all weights by hand. −1 if there is no positive weight.
    """
    block, goal = _walk(S.coarse, 0, S.coarse.size, u * total_weight(S))
    if block >= 0:
        block, goal = _walk(S.fine, block * S.width, min((block + 1) * S.width, S.fine.size), goal)
    if block >= 0:
        i, _ = _walk(S.weights, block * S.width, min((block + 1) * S.width, S.weights.size), goal)
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
