"""The exponential against NumPy's in extended precision."""

import numpy as np
import pytest

from widemargin.core.dispatch import compiled
from widemargin.core.exp import exp, exp_near_0


@compiled
def _exp_of(x, out):
    for i in range(x.size):
        out[i] = exp(x[i])


@compiled
def _exp_near_0_of(x, out):
    for i in range(x.size):
        out[i] = exp_near_0(x[i])


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 6e-7), (np.float64, 1e-15)])
def test_exp_near_0_is_accurate_between_minus_1_and_1(dtype, limit):
    x = np.linspace(-1, 1, 10_001).astype(dtype)
    out = np.empty_like(x)
    _exp_near_0_of(x, out)
    truth = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(out - truth) / truth) <= limit
    assert exp_near_0(dtype(0.5)) == pytest.approx(np.exp(0.5), rel=limit)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "limit"), [(np.float32, -87, 88, 2e-7), (np.float64, -708, 709, 1e-15)]
)
def test_exp_is_accurate_over_its_range(dtype, low, high, limit):
    x = np.concatenate([np.linspace(low, high, 100_003), np.linspace(-1, 1, 10_001)]).astype(dtype)
    out = np.empty_like(x)
    _exp_of(x, out)
    truth = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(out - truth) / truth) <= limit
    ends = np.tile(np.array([-np.inf, -1e30, -800, 0, -0.0, 1e30, np.inf, np.nan], dtype), 9)
    out = np.empty_like(ends)
    _exp_of(ends, out)
    np.testing.assert_array_equal(out, np.tile(np.array([0, 0, 0, 1, 1, np.inf, np.inf, np.nan], dtype), 9))
