"""Feasible points of the dual: the nearest one, and one with no new support vectors."""

import numpy as np
import pytest

from widemargin.solvers.smo.dual import balance, lightened


def test_balance_gives_the_nearest_feasible_point(rng):
    cap, sigma = rng.uniform(0.5, 2.0, 20), np.where(rng.uniform(size=20) < 0.4, 1.0, -1.0)
    sigma[:2] = 1.0, -1.0
    alpha = rng.uniform(0.0, 1.0, 20) * cap
    near = balance(alpha, sigma, cap)
    assert abs(sigma @ near) <= 1e-12 * cap.sum()
    assert np.all((near >= 0.0) & (near <= cap))
    # no other feasible point is nearer: the way there makes no acute angle with the way to any other
    for _ in range(20):
        other = balance(rng.uniform(0.0, 1.0, 20) * cap, sigma, cap)
        assert (alpha - near) @ (other - near) <= 1e-10


@pytest.mark.parametrize("balanced", [True, False])
def test_a_lightened_point_is_feasible_and_has_no_new_support(balanced, rng):
    for _ in range(20):
        n = int(rng.integers(2, 30))
        sigma, cap = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.uniform(0.1, 2.0, n)
        alpha = rng.uniform(0.0, 4.0, n) * rng.integers(0, 2, n)
        found = lightened(alpha, sigma, cap, balanced)
        assert np.all((found >= 0.0) & (found <= np.minimum(alpha, cap)))
        assert (
            abs(sigma @ found) <= 1e-12 * (1.0 + found.sum()) if balanced else np.all(found == np.minimum(alpha, cap))
        )
