"""Machines of all pairs: sums over the vectors of two classes, and votes."""

from itertools import combinations

import numpy as np
import pytest

from widemargin.core.kernels.pairs import add_votes, all_combined, combine, first_pair, pairs_of


@pytest.mark.parametrize("k", [2, 3, 4, 9])
def test_pairs_are_numbered_by_their_first_class(k):
    assert list(zip(*(each.tolist() for each in pairs_of(k)), strict=True)) == list(combinations(range(k), 2))


def machines(rng, k):
    """Sizes of k classes, some without vectors, and coefficients with zeros among them."""
    sizes = rng.integers(0, 6, k)
    coef = rng.normal(size=(k - 1, sizes.sum())) * (rng.random((k - 1, sizes.sum())) < 0.7)
    return np.cumsum(sizes), coef


def test_a_pair_sums_over_the_vectors_of_its_two_classes(rng):
    k = int(rng.integers(3, 9))
    ends, coef = machines(rng, k)
    table = rng.normal(size=(int(ends[-1]), 7))
    found, starts = all_combined(coef, ends, table), np.concatenate([[0], ends])
    for p, (i, j) in enumerate(combinations(range(k), 2)):
        expected = np.zeros(7)
        for v in range(starts[i], ends[i]):
            expected += coef[j - 1, v] * table[v]
        for v in range(starts[j], ends[j]):
            expected += coef[i, v] * table[v]
        np.testing.assert_allclose(found[p], expected, rtol=1e-12, atol=1e-12)


def test_each_pair_votes_for_one_of_its_classes(rng):
    k, n = int(rng.integers(3, 9)), 5
    ends, coef = machines(rng, k)
    table, offsets = rng.normal(size=(int(ends[-1]), n)), rng.normal(size=k * (k - 1) // 2)
    votes, sums = np.zeros((k, n)), np.zeros((k, n))
    expected_votes, expected_sums = np.zeros((k, n)), np.zeros((k, n))
    for i in range(k - 1):
        scores = np.empty((k - 1 - i, n))
        combine(coef, ends, offsets, table, i, scores)
        add_votes(scores, i, votes, sums)
        for j in range(i + 1, k):
            score = (
                offsets[first_pair(i, k) + j - i - 1] + all_combined(coef, ends, table)[first_pair(i, k) + j - i - 1]
            )
            expected_votes[i] += score > 0
            expected_votes[j] += score <= 0
            expected_sums[i] += score
            expected_sums[j] -= score
    np.testing.assert_array_equal(votes, expected_votes)
    np.testing.assert_allclose(sums, expected_sums, atol=1e-9)
    assert votes.sum() == n * k * (k - 1) / 2
