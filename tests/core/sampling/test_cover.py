"""The largest numbers of blocks are right while numbers change one by one, and what reaches a threshold is found."""

import numpy as np
import pytest

from widemargin.core.sampling.cover import find_tops, list_above, note_change, take_sums, tops_of
from widemargin.core.sampling.sampler import sampler_of


def largest(values, width):
    return [values[k : k + width].max() for k in range(0, values.size, width)]


@pytest.mark.parametrize("n", [1, 16, 17, 300, 900])
def test_tops_are_right_while_numbers_change_and_lead_to_all_that_reach_a_threshold(rng, n):
    values = rng.choice([0.0, 1.0, 2.0, 3.0], n)  # many are equal
    tops = tops_of(values)
    for _ in range(300):
        i = rng.integers(n)
        before, values[i] = values[i], rng.choice([0.0, 1.0, 2.0, 3.0, rng.random(), 10.0 * rng.random()])
        note_change(tops, values, i, before)
        np.testing.assert_array_equal(tops.fine, largest(values, 1 << tops.shift))
        np.testing.assert_array_equal(tops.coarse, largest(tops.fine, 1 << tops.shift))
    out = np.full(n + 2, -1)
    for threshold in (0.0, 1.0, 2.5, 9.0, values.max(), 100.0):
        count = list_above(tops, values, threshold, out, 2)
        assert out[:2].tolist() == [-1, -1]
        assert out[2:count].tolist() == np.flatnonzero(values >= threshold).tolist()
    values *= rng.random(n)
    find_tops(tops, values)
    np.testing.assert_array_equal(tops.fine, largest(values, 1 << tops.shift))
    np.testing.assert_array_equal(tops.coarse, largest(tops.fine, 1 << tops.shift))


def test_sums_of_blocks_may_stand_for_the_largest_numbers(rng):
    values = rng.random(700)
    tops = tops_of(values)
    values *= rng.random(700)
    take_sums(tops, sampler_of(values))
    out = np.empty(700, np.int64)
    for _ in range(200):
        i = rng.integers(700)
        before, values[i] = values[i], rng.choice([0.0, 0.5, 1.0, 2.0]) * rng.random()
        note_change(tops, values, i, before)
        threshold = rng.random()
        count = list_above(tops, values, threshold, out, 0)
        assert out[:count].tolist() == np.flatnonzero(values >= threshold).tolist()
