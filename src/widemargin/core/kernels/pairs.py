"""Coefficients of the models of all pairs of k classes, in LIBSVM's layout.

Vectors are ordered by class; ``ends[c]`` is the end of class c. A vector of class i has k − 1 coefficients: row
j − (j > i) of ``coef`` has the one of the pair with class j. Pairs (i, j), i < j, are numbered in that order: of three
classes (0, 1), (0, 2), (1, 2). Scores of all pairs cost O(k · vectors) for each row.
"""

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import compiled


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

    ``offsets`` has one number for each pair. If ``table`` holds kernel values, the sums are scores of the pairs; if it
    holds the vectors, the sums are weights w.
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
        for r in range(0, count, 4):  # four vectors at a time: total is read and written once for all four
            a, b, c, d = factors[r], factors[r + 1], factors[r + 2], factors[r + 3]
            A, B, C, D = table[used[r]], table[used[r + 1]], table[used[r + 2]], table[used[r + 3]]
            for x in range(total.size):
                total[x] += a * A[x] + b * B[x] + c * C[x] + d * D[x]


@compiled
def add_votes(scores, i, votes, sums):
    """votes[class, row] += votes of the pairs (i, j), j > i; sums[class, row] += their scores, with sign.

    ``scores`` is the output of :func:`combine`; a score > 0 is a vote for class i, else for class j.
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
