"""The exponential against NumPy's in extended precision."""

import math
from fractions import Fraction

import numpy as np
import pytest

from widemargin.core.borrowing import borrow
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.intrinsics.exp import SERIES, exp, exp_many, exp_near_0


@compiled
def _exp_of(x, out):
    for i in range(x.size):
        out[i] = exp(x[i])


@compiled
def _many_of(x):
    exp_many(borrow(x), x.size)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_at_once_have_the_bits_of_each_alone(dtype, rng):
    x = np.concatenate([rng.uniform(-90, 90, 48), [-np.inf, np.inf, np.nan, 0, -800, 800], np.zeros(10)]).astype(dtype)
    alone, interpreted = np.array([exp(some) for some in x]), x.copy()
    exp_many(interpreted, x.size)
    _many_of(x)
    np.testing.assert_array_equal(x, alone)
    np.testing.assert_array_equal(interpreted, alone)


@pytest.mark.parametrize("series", SERIES.values(), ids=["float32", "float64"])
def test_the_polynomial_leaves_what_its_header_says(series):
    a = Fraction(math.log(2) / 2)
    left = 0.0
    for r in (a * k / 50 for k in range(-50, 51)):
        rest = sum(r**k / math.factorial(k + 2) for k in range(20))
        q = sum(Fraction(c) * r**k for k, c in enumerate(series.coefficients))
        left = max(left, abs(float((q - rest) * r * r)))
    bound = math.sqrt(2) * float(a) ** (series.order + 1) * 2.0 ** (2 - series.order) / math.factorial(series.order + 1)
    assert left <= bound + 2.0**-56  # coefficients in float64 are rounded
