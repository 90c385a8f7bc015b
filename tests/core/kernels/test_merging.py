"""Merging: the table against a search, what a merge loses against what a removal loses, one class and several."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.budgeted import merged
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.kernels import merging
from widemargin.core.kernels.merging import (
    ROUNDS,
    lookup,
    merge_table,
    merged_norm2,
    place_of_one,
    place_of_several,
)

best_partner, joint_degradations = compiled(merging.best_partner), compiled(merging.joint_degradations)

share = st.floats(0.0, 0.5)
similarity = st.floats(1e-6, 1.0)
SIZE = 400


def searched(mu, kappa):
    return merged(np.array([mu]), np.array([1.0 - mu]), kappa)


@given(share, similarity)
def test_the_table_knows_what_a_search_finds_to_1e_4(mu, kappa):
    table = merge_table(SIZE, "float64")
    lost = mu * mu * min(lookup(table.degradation, mu, kappa), 1.0 - kappa * kappa)
    assert lost == pytest.approx(searched(mu, kappa)[0], abs=1e-4)


@given(st.floats(-8.0, -2.0), similarity)
def test_the_table_knows_what_is_lost_of_a_vector_that_is_small_beside_its_partner(power, kappa):
    mu = 10.0**power
    share = lookup(merge_table(SIZE, "float64").degradation, mu, kappa)
    limit = 1.0 - kappa * kappa * (1.0 - 2.0 * np.log(kappa))
    assert share == pytest.approx(limit, abs=4.0 * mu + 1e-4)


@given(share, similarity)
def test_a_polished_place_is_as_good_as_a_searched_one(mu, kappa):
    p, q, r = mu * mu, mu * (1 - mu), (1 - mu) ** 2
    h = place_of_one(merge_table(SIZE, "float64").h, p, q, r, np.log(kappa))
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
    if a.size == 1:
        h = place_of_one(merge_table(SIZE, "float64").h, p, q, r, np.log(kappa))
    else:
        h = place_of_several(p, q, r, np.log(kappa))
    lost = p + r + 2 * kappa * q - merged_norm2(p, q, r, np.log(kappa), h)
    assert lost <= p * (1.0 - kappa**2) + 1e-12 * (1.0 + r)


@settings(max_examples=50)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from(["float32", "float64"]), st.floats(0.1, 4.0),
    st.sampled_from([0.0, 1.0, 5.0]),
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
    # the table is good for some 1e-3 of what removal loses; the search itself cancels
    assert lost(found) <= min(map(lost, others)) + 4e-3 * a[m] ** 2 + 1e-13 * np.max(a**2)


@pytest.mark.parametrize("near", np.linspace(0.3, 0.8, 6))
def test_an_equal_partner_farther_away_may_lose_less_than_a_heavy_one_nearby(near):
    """Equal coefficients lose 2(1 − √κ)² of what removal loses, the least there is for κ: none may be passed over."""
    heavy = merged(np.ones(1), np.full(1, 1e3), near)[0]
    far = (1.0 - np.sqrt(0.45 * heavy)) ** 2
    assert far < near
    for order in ([0, 1, 2], [0, 2, 1]):
        a, kappa = np.array([1.0, 1e3, 1.0])[order], np.array([1.0, near, far])[order]
        assert best_partner(merge_table(SIZE, "float64").degradation, a, 0, kappa, 3) == order.index(2)


def repeated(p, q, r, kappa, rounds):
    """The place to which the formula for h has come."""
    h = 0.0
    for _ in range(rounds):
        tau = kappa ** (1 - 2 * h)
        h = max(p * tau * tau + q * tau, 0.0) / (r + 2 * q * tau + p * tau * tau)
    return h


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 20), st.integers(2, 5), st.sampled_from([0, 4]))
def test_joint_degradations_are_those_of_the_place_that_the_formula_reaches(seed, count, classes, spread):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(classes, count)) * np.exp(spread * rng.uniform(-1.0, 1.0, size=count))
    m = int(np.argmin(np.sum(A**2, axis=0)))
    log_kappa = np.log(rng.uniform(1e-3, 1.0, size=count))
    log_kappa[m] = 0.0
    out, products = np.empty(count), np.empty((2, count))
    joint_degradations(A, m, log_kappa, count, products, out)
    single = np.empty(count, np.float32)
    joint_degradations(
        A.astype(np.float32), m, log_kappa.astype(np.float32), count, np.empty((2, count), np.float32), single
    )
    for j in set(range(count)) - {m}:
        p, q, r = A[:, m] @ A[:, m], A[:, m] @ A[:, j], A[:, j] @ A[:, j]
        kappa, rounding = np.exp(log_kappa[j]), 1e-8 * p + 1e-13 * r
        place = repeated(p, q, r, kappa, ROUNDS)
        lost = p + r + 2 * kappa * q - merged_norm2(p, q, r, log_kappa[j], place)
        assert out[j] == pytest.approx(min(lost, p * (1 - kappa**2)), abs=rounding)
        # float32 loses nothing beside p, however large r is
        assert single[j] == pytest.approx(out[j], abs=1e-4 * p)
        exact, _, _ = merged(A[:, m], A[:, j], kappa)
        assert exact <= out[j] + rounding
        last = repeated(p, q, r, kappa, 3000)
        assert merged_norm2(p, q, r, log_kappa[j], last) == pytest.approx(p + r + 2 * kappa * q - exact, abs=1e-3 * p)
        if r > 1e4 * p:
            assert out[j] == pytest.approx(exact, abs=0.01 * p + rounding)
        place = place_of_several(p, q, r, log_kappa[j])
        assert merged_norm2(p, q, r, log_kappa[j], place) >= p + r + 2 * kappa * q - out[j] - rounding


def test_one_class_is_the_case_of_several_with_parallel_coefficients(rng):
    mu, log_kappa = rng.uniform(0.05, 0.45), np.log(rng.uniform(0.2, 1.0))
    table = merge_table(SIZE, "float64").h
    one = place_of_one(table, mu**2, mu * (1 - mu), (1 - mu) ** 2, log_kappa)
    several = place_of_several(2 * mu**2, 2 * mu * (1 - mu), 2 * (1 - mu) ** 2, log_kappa)
    assert one == pytest.approx(several, abs=1e-5)


def test_equal_vectors_merge_without_loss():
    table = merge_table(SIZE, "float64")
    for mu in (0.0, 0.1, 0.5):
        assert lookup(table.degradation, mu, 1.0) == pytest.approx(0.0, abs=1e-12)
    assert lookup(table.degradation, 0.3, 0.0) == pytest.approx(1.0, abs=1e-5)
