"""Slopes averaged over an interval, as certificates use them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.core.bias import SMOOTHING, smoothed_slope
from widemargin.core.losses import EpsilonInsensitive, Hinge, Log


@given(st.floats(-4.0, 4.0), st.sampled_from([-1.0, 1.0]), st.floats(0.05, 1.0))
def test_a_smoothed_slope_is_the_mean_slope_of_the_interval(z, y, width):
    exact = (np.logaddexp(0.0, -y * (z + width)) - np.logaddexp(0.0, -y * (z - width))) / (2.0 * width)
    # the midpoint rule, with |ℓ‴| ≤ 1/8 for the log-loss
    error = (2.0 * width / SMOOTHING) ** 2 / 24.0 / 8.0
    assert smoothed_slope(Log(), z, y, width) == pytest.approx(exact, abs=error + 1e-12)


@given(st.floats(0.0, 2.0), st.sampled_from([-1.0, 1.0]), st.floats(0.05, 1.0))
def test_a_kink_is_smoothed_to_both_sides_alike(away, y, width):
    # points of the rule that fall on the kink belong to one side
    if np.min(np.abs(away - width * (np.arange(1, SMOOTHING, 2) / SMOOTHING))) < 1e-9:
        return
    both = [smoothed_slope(Hinge(), y * (1.0 + side * away), y, width) for side in (-1, 1)]
    assert sum(both) == pytest.approx(-y, abs=1e-12)
    tube = [smoothed_slope(EpsilonInsensitive(10.0), 10.0 + side * away, 0.0, width) for side in (-1, 1)]
    assert sum(tube) == pytest.approx(1.0, abs=1e-12)


def test_without_a_width_a_slope_is_the_slope():
    assert smoothed_slope(Hinge(), 0.5, 1.0, 0.0) == -1.0
    assert smoothed_slope(Hinge(), 1.5, 1.0, 0.0) == 0.0
