"""The best bias and multiple of given responses, and slopes averaged over an interval, as certificates use them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.core.losses import bias as module
from widemargin.core.losses.bias import SMOOTHING, best_on_ray, lowest_on_ray, smoothed_slope
from widemargin.core.losses.losses import EpsilonInsensitive, Hinge, Log, SquaredEpsilon, SquaredHinge


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


def loss_of(name, z, y):
    """The losses by their textbook formulas; ε = 0.1."""
    return {
        "hinge": lambda: np.maximum(0.0, 1.0 - y * z),
        "squared_hinge": lambda: np.maximum(0.0, 1.0 - y * z) ** 2,
        "log": lambda: np.logaddexp(0.0, -y * z),
        "tube": lambda: np.maximum(0.0, np.abs(z - y) - 0.1),
        "squared_tube": lambda: np.maximum(0.0, np.abs(z - y) - 0.1) ** 2,
    }[name]()


LOSSES = {
    "hinge": Hinge(), "squared_hinge": SquaredHinge(), "log": Log(), "tube": EpsilonInsensitive(0.1),
    "squared_tube": SquaredEpsilon(0.1),
}  # fmt: skip


@pytest.mark.parametrize(("name", "free"), [("hinge", True), ("tube", True), *((name, False) for name in LOSSES)])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), C=st.floats(0.01, 100.0))
def test_the_scale_is_the_lowest_point_of_the_ray(name, free, seed, C):
    """No multiple, with its own best bias, has a lower primal value; b by trying every kink."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 40))
    f, cap, norm2 = rng.normal(size=n) * rng.exponential(), C * rng.uniform(0.1, 2.0, n), rng.exponential()
    y = rng.normal(size=n) if "tube" in name else np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    kinks = (0.1, -0.1) if "tube" in name else (0.0,)

    def value(s, b):
        return 0.5 * s * s * norm2 + cap @ loss_of(name, s * f + b, y)

    def lowest(s):
        return min(value(s, b) for b in (np.concatenate([y - s * f + k for k in kinks]) if free else [0.0]))

    multiple, bias = best_on_ray(LOSSES[name], f, y, cap, norm2, free)
    assert multiple > 0.0
    reached = value(multiple, bias)
    # the multiple is off by no more than 1e-8 of itself for each example, and slopes by no more than those of all
    near = 1e-8 * n * multiple * (cap @ np.abs(f)) + 1e-9
    for s in np.concatenate([[0.0], multiple * np.geomspace(0.01, 100.0, 60), multiple * np.linspace(0.95, 1.05, 41)]):
        assert reached <= lowest(s) * (1.0 + 1e-6) + near
    s, b, stated = lowest_on_ray(LOSSES[name], f, y, cap, norm2, free)
    assert stated == pytest.approx(value(s, b), rel=1e-12)
    assert stated <= min(reached, lowest(0.0)) * (1.0 + 1e-6) + 1e-9


@pytest.mark.parametrize("free", [True, False])
def test_a_thinned_search_states_the_value_over_all_examples_and_is_no_worse_than_nothing(free, rng, monkeypatch):
    monkeypatch.setattr(module, "RAY_EXAMPLES", 50)
    for _ in range(20):
        n = int(rng.integers(60, 400))
        f, y = rng.normal(size=n), np.where(rng.random(n) < 0.2, 1.0, -1.0)
        cap, norm2 = rng.exponential(size=n), rng.exponential()
        s, b, stated = lowest_on_ray(Hinge(), f, y, cap, norm2, free)
        assert stated == pytest.approx(0.5 * s * s * norm2 + cap @ np.maximum(0.0, 1.0 - y * (s * f + b)), rel=1e-12)
        thin = (np.arange(50) * 0.6180339887498949 % 1.0 * n).astype(int)
        biases = (1.0, -1.0) if free else (0.0,)
        best = min(biases, key=lambda b: cap[thin] @ np.maximum(0.0, 1.0 - y[thin] * b))
        assert stated <= cap @ np.maximum(0.0, 1.0 - y * best) * (1.0 + 1e-9)


def test_a_thinned_search_is_not_misled_by_labels_that_alternate(rng, monkeypatch):
    monkeypatch.setattr(module, "RAY_EXAMPLES", 500)
    for period in (2, 3, 4):
        y = np.where(np.arange(1000) % period == 0, 1.0, -1.0)
        f, cap = y + 0.1 * rng.normal(size=y.size), np.full(y.size, 10.0)
        multiple, _, stated = lowest_on_ray(Hinge(), f, y, cap, 1.0, True)
        nothing = 20.0 * min(np.sum(y > 0.0), np.sum(y < 0.0))
        assert multiple > 0.5
        assert stated < 0.1 * nothing


def test_a_thinned_search_weighs_the_norm_with_as_many_examples_as_it_looks_at(monkeypatch):
    """½s²‖w‖² + Σ C (1 − s/2) over 1000 equal examples is least at s = 500 C/‖w‖²."""
    monkeypatch.setattr(module, "RAY_EXAMPLES", 100)
    y = np.where(np.arange(1000) % 2 == 0, 1.0, -1.0)
    multiple, _, _ = lowest_on_ray(Hinge(), 0.5 * y, y, np.full(1000, 1e-3), 0.5, False)
    assert multiple == pytest.approx(1.0, rel=1e-3)
