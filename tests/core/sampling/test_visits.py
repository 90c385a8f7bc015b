"""Orders and subsets of examples: every one as often as any other."""

from itertools import combinations, permutations

import numpy as np

from widemargin.core.sampling.visits import draw_subsets, shuffle


def check_even(counts, n):
    """Binomial numbers with the same mean: six standard deviations, which one of thirty leaves once in 10⁷ runs."""
    mean = n / len(counts)
    assert max(abs(count - mean) for count in counts.values()) <= 6 * np.sqrt(mean)


def test_all_orders_are_equally_likely(rng):
    n, counts = 12_000, dict.fromkeys(permutations(range(4)), 0)
    for _ in range(n):
        order = np.arange(4)
        shuffle(order, rng)
        counts[tuple(order.tolist())] += 1
    check_even(counts, n)


def test_all_subsets_are_equally_likely_and_leave_a_permutation(rng):
    n, size, counts = 10_000, 3, dict.fromkeys(combinations(range(5), 3), 0)
    order, out = np.arange(5), np.empty(n * size, np.int64)
    draw_subsets(order, rng.random(n * size), size, out)
    for subset in np.sort(out.reshape(n, size), axis=1):
        counts[tuple(subset.tolist())] += 1
    check_even(counts, n)
    np.testing.assert_array_equal(np.sort(order), np.arange(5))
