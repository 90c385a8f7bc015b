"""Sizes of steps, in words and in numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.core.losses.step_sizes import StepSize, step_size


@given(st.floats(1e-6, 1e6), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1e6), st.integers(1, 10**9))
def test_a_step_is_its_scale_over_a_power_of_time_and_no_longer_than_its_cap(scale, power, offset, t):
    expected = scale * (offset + t) ** -power
    assert step_size(StepSize(scale, power, offset), t) == pytest.approx(expected, rel=1e-14)
    assert step_size(StepSize(scale, power, offset, expected / 2.0), t) == expected / 2.0
    assert step_size(StepSize(math.inf, 0.0), t) == math.inf
