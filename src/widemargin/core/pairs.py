"""Coefficients of the machines of all pairs of k classes, in LIBSVM's layout.

Vectors stand by class; ``ends[c]`` is where class c ends. Vector v of class i has k − 1 coefficients: the one
against class j stands in row j − (j > i). Pairs (i, j) with i < j are numbered in that order.
"""

import numpy as np

from .borrowing import borrow
from .dispatch import compiled


@compiled
def first_pair(i, k):
    """The number of the pair (i, i + 1)."""
    return i * (2 * k - i - 1) // 2


def pairs_of(k: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second class of each pair of k."""
    others = np.arange(k)[::-1]  # that each class comes before
    first = np.repeat(np.arange(k), others)
    return first, np.arange(first.size) - np.repeat(np.cumsum(others) - others, others) + first + 1


@compiled
def combine(coef, ends, offsets, table, i, out):
    """out[j − i − 1] ← offset + Σ_v coefficient of v × table[v] over the vectors of classes i and j, for all j > i.

    ``offsets`` are those of all pairs. With kernel values as ``table`` these are scores of the pairs; with the vectors
    themselves, weights.
    """
    coef, ends, offsets, table, out = borrow(coef), borrow(ends), borrow(offsets), borrow(table), borrow(out)
    start, pair, k, largest = ends[i - 1] if i > 0 else 0, first_pair(i, ends.size), ends.size, ends[0]
    for c in range(1, k):
        largest = max(largest, ends[c] - ends[c - 1])
    used, factors = np.empty(2 * largest + 3, np.int64), np.empty(2 * largest + 3, np.float64)
    for j in range(i + 1, k):
        count = 0
        for v in range(start, ends[i]):
            if coef[j - 1, v] != 0.0:
                used[count], factors[count] = v, coef[j - 1, v]
                count += 1
        for v in range(ends[j - 1], ends[j]):
            if coef[i, v] != 0.0:
                used[count], factors[count] = v, coef[i, v]
                count += 1
        used[count : count + 3], factors[count : count + 3] = 0, 0.0
        total = out[j - i - 1]
        total[:] = offsets[pair + j - i - 1]
        for r in range(0, count, 4):  # four vectors at a time: their sum is in memory once for all of them
            a, b, c, d = factors[r], factors[r + 1], factors[r + 2], factors[r + 3]
            A, B, C, D = table[used[r]], table[used[r + 1]], table[used[r + 2]], table[used[r + 3]]
            for x in range(total.size):
                total[x] += a * A[x] + b * B[x] + c * C[x] + d * D[x]


@compiled
def add_votes(scores, i, votes, sums):
    """Count the pairs (i, j) of all j > i in votes[class, row], and add their scores to sums[class, row]; in place.

    ``scores`` are as :func:`combine` leaves them; one > 0 is a vote for i.
    """
    scores, votes, sums = borrow(scores), borrow(votes), borrow(sums)
    for other in range(scores.shape[0]):
        j = i + 1 + other
        for x in range(scores.shape[1]):
            score = scores[other, x]
            first = 1.0 if score > 0.0 else 0.0
            votes[i, x] += first
            votes[j, x] += 1.0 - first
            sums[i, x] += score
            sums[j, x] -= score


def all_combined(coef: np.ndarray, ends: np.ndarray, table: np.ndarray) -> np.ndarray:
    """:func:`combine` for all pairs without offsets, of shape (pairs, columns of the table)."""
    k = ends.size
    out = np.empty((k * (k - 1) // 2, table.shape[1]))
    zeros = np.zeros(out.shape[0])
    for i in range(k - 1):
        combine(coef, ends, zeros, table, i, out[first_pair(i, k) : first_pair(i + 1, k)])
    return out
