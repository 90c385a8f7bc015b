"""Merging: the table against a search, what a merge loses against what a removal loses, one class and several."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.budgeted import merged
from widemargin.core.merging import (
    GRID,
    best_partner,
    best_place,
    joint_degradations,
    lookup,
    merge_table,
    merged_norm2,
)

share = st.floats(0.0, 0.5)
similarity = st.floats(1e-6, 1.0)
SIZE = 400


def searched(mu, kappa):
    return merged(np.array([mu]), np.array([1.0 - mu]), kappa)


@given(share, similarity)
def test_the_table_knows_what_a_search_finds_to_1e_4(mu, kappa):
    table = merge_table(SIZE, "float64")
    lost = min(lookup(table.degradation, mu, kappa), mu * mu * (1.0 - kappa * kappa))
    assert lost == pytest.approx(searched(mu, kappa)[0], abs=1e-4)


@given(share, similarity)
def test_a_polished_place_is_as_good_as_a_searched_one(mu, kappa):
    p, q, r = mu * mu, mu * (1 - mu), (1 - mu) ** 2
    h = best_place(merge_table(SIZE, "float64").h, p, q, r, np.log(kappa), False)
    best = p + r + 2 * kappa * q - searched(mu, kappa)[0]
    assert 0.0 <= h <= 0.5
    # the objective is flat at its maximum: an error of 1e-7 in h is one of 1e-14 in it
    assert merged_norm2(p, q, r, np.log(kappa), h) == pytest.approx(best, abs=1e-10)
    if mu < 0.49 and kappa < 0.999:  # elsewhere two places are equally good, or all
        assert h == pytest.approx(searched(mu, kappa)[1], abs=1e-4)


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=4), st.lists(st.floats(-3, 3), min_size=1, max_size=4), similarity
)
def test_a_merge_never_loses_more_than_a_removal(a, b, kappa):
    a, b = np.array(a), np.resize(np.array(b), len(a))
    if a @ a > b @ b:
        a, b = b, a
    p, q, r = a @ a, a @ b, b @ b
    h = best_place(merge_table(SIZE, "float64").h, p, q, r, np.log(kappa), a.size > 1)
    lost = p + r + 2 * kappa * q - merged_norm2(p, q, r, np.log(kappa), h)
    assert lost <= p * (1.0 - kappa**2) + 1e-12 * (1.0 + r)


@settings(max_examples=50)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from(["float32", "float64"]), st.floats(0.1, 4.0),
    st.sampled_from([0.0, 1.0]),
)  # fmt: skip
def test_no_partner_is_better_than_the_best_one(seed, count, dtype, nearness, spread):
    rng = np.random.default_rng(seed)
    a = rng.choice([-1.0, 1.0], count) * np.exp(spread * rng.normal(size=count))
    m = int(np.argmin(np.abs(a)))
    kappa = rng.uniform(size=count) ** nearness
    passed = rng.random(count) < 0.2
    passed[(m + 1) % count] = False

    def lost(j):
        if a[m] * a[j] > 0:
            return merged(a[[m]], a[[j]], kappa[j])[0]
        return a[m] ** 2 * (1 - kappa[j] ** 2)  # the end point

    given = np.where(passed, -1.0, kappa).astype(dtype)
    found = best_partner(merge_table(SIZE, dtype).degradation, a.astype(dtype), m, given, count)
    others = [j for j in range(count) if j != m and not passed[j]]
    assert found in others
    # the table is good for 1e-4 of the sum of both coefficients, squared
    slack = 1e-4 * max((abs(a[m]) + abs(a[j])) ** 2 for j in others)
    assert lost(found) <= min(map(lost, others)) + 2 * slack


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 20), st.integers(2, 5))
def test_joint_degradations_are_those_of_the_best_place_on_a_grid(seed, count, classes):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(classes, count))
    m = int(np.argmin(np.sum(A**2, axis=0)))
    log_kappa = np.log(rng.uniform(1e-3, 1.0, size=count))
    log_kappa[m] = 0.0
    out, powers = np.empty(count), np.empty((GRID + 3, count))
    joint_degradations(A, m, log_kappa, count, powers, out)
    h = np.linspace(0.0, 1.0, GRID + 1)
    for j in set(range(count)) - {m}:
        p, q, r = A[:, m] @ A[:, m], A[:, m] @ A[:, j], A[:, j] @ A[:, j]
        norms = [merged_norm2(p, q, r, log_kappa[j], place) for place in h]
        lost = p + r + 2 * np.exp(log_kappa[j]) * q - max(norms)
        # u^{100} from products of u: a hundred roundings
        assert out[j] == pytest.approx(lost, abs=1e-12 * (1 + p + r))
        exact, _, _ = merged(A[:, m], A[:, j], np.exp(log_kappa[j]))
        assert exact <= out[j] + 1e-12 * (1 + p + r)
        place = best_place(merge_table(SIZE, "float64").h, p, q, r, log_kappa[j], True)
        # two humps of almost the same height may be told apart by the grid the wrong way round
        assert merged_norm2(p, q, r, log_kappa[j], place) >= max(norms) - 1e-12 * (1 + p + r)


def test_one_class_is_the_case_of_several_with_parallel_coefficients(rng):
    mu, log_kappa = rng.uniform(0.05, 0.45), np.log(rng.uniform(0.2, 1.0))
    table = merge_table(SIZE, "float64").h
    one = best_place(table, mu**2, mu * (1 - mu), (1 - mu) ** 2, log_kappa, False)
    several = best_place(table, 2 * mu**2, 2 * mu * (1 - mu), 2 * (1 - mu) ** 2, log_kappa, True)
    assert one == pytest.approx(several, abs=1e-5)


def test_equal_vectors_merge_without_loss():
    table = merge_table(SIZE, "float64")
    for mu in (0.0, 0.1, 0.5):
        assert lookup(table.degradation, mu, 1.0) == pytest.approx(0.0, abs=1e-12)
    assert lookup(table.degradation, 0.3, 0.0) == pytest.approx(0.09, abs=1e-5)
