"""The sampler against a sum-tree, its chances, and what rounding does to its sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.sum_tree import SumTree
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.sampling.sampler import change_weight, draw_index, sampler_of, settle, sum_all


@compiled
def draw_indices(S, uniforms, out):
    """out ← an index for each uniform number."""
    for k in range(out.size):
        out[k] = draw_index(S, uniforms[k])


@compiled
def change_weights(S, indices, weights):
    """weights[indices[k]] ← weights[k], one after another."""
    for k in range(indices.size):
        change_weight(S, indices[k], weights[k])
        settle(S)


def drawn(sampler, uniforms):
    out = np.empty(len(uniforms), np.int64)
    draw_indices(sampler, np.asarray(uniforms, float), out)
    return out


@given(st.data())
def test_draws_are_those_of_a_sum_tree_while_weights_change(data):
    """Whole numbers add up without rounding, so the two must agree on every single draw."""
    n = data.draw(st.integers(1, 400))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    weights = rng.integers(0, 5, n).astype(float)
    weights[rng.integers(n)] += 1.0
    tree, sampler = SumTree(weights), sampler_of(weights.copy())
    for _ in range(data.draw(st.integers(1, 12))):
        chosen = rng.integers(0, n, rng.integers(1, 2 * n))
        new = rng.integers(0, 5, chosen.size).astype(float)
        change_weights(sampler, chosen, new)
        for i, weight in zip(chosen, new, strict=True):
            tree.change(i, weight)
        if tree.node[1] > 0.0:
            uniforms = rng.random(20)
            assert drawn(sampler, uniforms).tolist() == [tree.draw(u) for u in uniforms]
        else:
            assert drawn(sampler, [0.3]) == [-1]


@pytest.mark.parametrize("n", [1, 7, 300, 40_000])
def test_each_index_is_drawn_in_proportion_to_its_weight(rng, n):
    weights = rng.exponential(size=n) ** 3
    weights[rng.random(n) < 0.3] = 0.0
    weights[0] = 1.0
    counts = np.bincount(drawn(sampler_of(weights), rng.random(200_000)), minlength=n)
    share = weights / weights.sum()
    assert not counts[weights == 0.0].any()
    # sums over a few groups, so that each has many draws; six standard deviations
    group = rng.integers(0, 10, n)
    expected, seen = np.bincount(group, share, 10) * 200_000, np.bincount(group, counts, 10)
    assert (np.abs(seen - expected) <= 6.0 * np.sqrt(expected + 1.0)).all()


@pytest.mark.parametrize("n", [500, 20_000])
def test_sums_do_not_drift_in_millions_of_changes(rng, n):
    sampler = sampler_of(rng.random(n))
    for _ in range(30):
        chosen = rng.integers(0, n, 100_000)
        change_weights(sampler, chosen, rng.random(chosen.size) * 10.0 ** rng.uniform(-12, 3, chosen.size))
        truth = sampler_of(sampler.weights.copy())
        # a change rounds by half a unit of the sum it enters, and at most n of them come between two summations
        bound = 2.0 * n * np.finfo(float).eps * 1e3 * n
        assert np.abs(sampler.fine - truth.fine).max() <= bound
        assert np.abs(sampler.coarse - truth.coarse).max() <= bound
        assert sampler.changes[0] < n


def test_what_rounding_leaves_of_sums_is_not_drawn():
    """Weights that went to 0 leave rounding errors in the sums, larger than the weight that is left."""
    weights = np.full(1000, 1e17)
    sampler = sampler_of(weights)
    change_weights(sampler, np.arange(900), np.full(900, 0.1))
    change_weights(sampler, np.arange(99), np.zeros(99))
    weights[:] = 0.0  # not told of, so every sum is of weights that have gone
    weights[123] = 1e-9
    assert (drawn(sampler, np.linspace(0.0, 0.999, 50)) == 123).all()
    sum_all(sampler)
    assert sampler.coarse.sum() == 1e-9
