"""The water level against linear programs, sorting and selection; p* and b are optimal; windows change nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import water_level as textbook
from widemargin.core.losses.water_level import draw, fill, pour, room

VOLUMES = [0.0, 1e-6, 0.01, 0.5, 2.0, 30.0]

cases = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.integers(2, 25),
        "decimals": st.sampled_from([0, 1, 12]),  # 0 and 1 make ties
        "volume": st.sampled_from(VOLUMES),
        "positives": st.floats(0.0, 1.0),
        "weighted": st.booleans(),
    }
)


def make(seed, n, decimals, volume, positives, weighted):
    rng = np.random.default_rng(seed)
    c = rng.normal(size=n).round(decimals)
    y = np.where(rng.random(n) < positives, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    s = rng.choice([0.5, 1.0, 3.0, rng.uniform(0.1, 2.0)], n) if weighted else np.ones(n)
    return c, y, s, volume


def is_minimax(p, c, s, volume, level):
    """p is a distribution, and against it no slack gains: max over ξ of Σ p(c + ξ) is the level itself."""
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert p.min() >= 0.0
    # the best ξ puts all the volume where p/s is largest
    assert p @ c + volume * np.max(p / s) == pytest.approx(level, abs=1e-9)


def distribution(space, c, y, s, two):
    """p* from what ``pour`` leaves behind: all below its lows, and the points listed."""
    p, weights = np.zeros(c.size), s if s.size else np.ones(c.size)
    for a in range(2 if two else 1):
        own = y == (1.0, -1.0)[a] if two else np.ones(c.size, bool)
        covered = np.where(own & (c < space.low[a]), weights, 0.0)
        assert space.below[a] == pytest.approx(covered.sum(), abs=1e-9)
        listed = space.order[a, : space.taken[a]]
        covered[space.places[a, listed]] += space.weights[a, listed]
        p += covered / covered.sum() * (0.5 if two else 1.0)
    return p


#: The linear program's own tolerance: it may overstep each of its n constraints by so much.
FEASIBLE = 1e-7


@given(cases)
@settings(max_examples=150)
def test_one_basin_is_that_of_the_linear_program(case):
    c, _, s, volume = make(**case)
    expected = textbook.by_linear_program(c, volume, s)
    level, bias, p = fill(c, volume, s=s)
    assert level == pytest.approx(expected, abs=FEASIBLE * max(1, c.size))
    assert bias == 0.0
    is_minimax(p, c, s, volume, level)


@given(cases)
@settings(max_examples=150)
def test_two_basins_are_those_of_the_linear_program(case):
    c, y, s, volume = make(**case)
    expected = textbook.by_linear_program(c, volume, s, y)
    level, bias, p = fill(c, volume, y=y, s=s)
    assert level == pytest.approx(expected, abs=FEASIBLE * max(1, c.size))
    # b is optimal: with it, one basin has the same level
    assert fill(c + bias * y, volume, s=s).level == pytest.approx(level, abs=1e-9)
    # p* has half its mass on each class, so no b gains against it
    assert p[y > 0].sum() == pytest.approx(0.5, abs=1e-12)
    is_minimax(p, c, s, volume, level)


@given(cases)
@settings(max_examples=60)
def test_the_bias_is_the_middle_of_the_optimal_interval(case):
    c, y, s, volume = make(**case)
    level, bias, _ = fill(c, volume, y=y, s=s)

    def reach(direction):
        """How far b can go before the level falls; the level is concave and piecewise linear in b."""
        near, far = 0.0, 100.0
        for _ in range(60):
            middle = 0.5 * (near + far)
            lowered = fill(c + (bias + direction * middle) * y, volume, s=s).level < level - 1e-11
            near, far = (near, middle) if lowered else (middle, far)
        return near

    # near the end of the interval the level falls as slowly as 1 in 2n, so 1e-11 of level are 50e-11 n of b
    assert reach(1.0) == pytest.approx(reach(-1.0), abs=1e-6)


@given(cases, st.floats(-50.0, 50.0))
@settings(max_examples=150)
def test_newton_from_anywhere_ends_at_the_level(case, start):
    c, _, s, volume = make(**case)
    if volume > 0.0:
        assert textbook.by_newton(c, volume, s, start) == pytest.approx(fill(c, volume, s=s).level, abs=1e-9)


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("volume", [0.0, 0.01, 500.0])
def test_draws_follow_the_minimax_optimal_distribution(two, weighted, volume, rng):
    """Numbers evenly over [0, 1) meet each point as often as p* says, but for one at each end of its interval."""
    n, many = 3000, 20_000
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    s = rng.choice([0.0, 0.5, 1.0, 3.0], n) if weighted else np.empty(0)
    s[:2] = 1.0 if weighted else s[:2]
    f, window, space = rng.normal(size=n), np.array([0.0, 0.0, np.inf]), room(n)
    for _ in range(3):  # the first time over everything, then through windows
        f += 0.01 * rng.normal(size=n)
        pour(f, y, s, volume, two, window, space)
        p = fill(y * f, volume, y=y if two else None, s=s if weighted else None).p
        for basin in range(2 if two else 1):
            out = np.empty(many, np.int64)
            draw(f, y, s, two, space, basin, (np.arange(many) + 0.5) / many, out)
            own = p if not two else np.where(y == (1.0, -1.0)[basin], 2.0 * p, 0.0)
            np.testing.assert_allclose(np.bincount(out, minlength=n) / many, own, atol=2.001 / many)


@given(cases)
@settings(max_examples=100)
def test_sorting_selection_and_pairwise_sums_agree(case):
    c, y, _, volume = make(**{**case, "weighted": False})
    expected = textbook.by_sorting(c, volume)
    assert textbook.by_selection(c, volume, np.random.default_rng(case["seed"])) == pytest.approx(expected, abs=1e-9)
    assert fill(c, volume).level == pytest.approx(expected, abs=1e-9)
    assert fill(c, volume, y=y).level == pytest.approx(textbook.by_sorting_with_bias(c, y, volume), abs=1e-9)


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_window_changes_the_way_but_not_the_answer(two, weighted, rng):
    n = 6000
    y = np.where(rng.random(n) < 0.1, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    s = rng.uniform(0.1, 2.0, n) if weighted else np.empty(0)
    f, window, space = rng.normal(size=n), np.array([0.0, 0.0, np.inf]), room(n)
    fewest = 9
    for volume in (50.0, 50.0, 0.0, 1e-9, 400.0, 399.0, 398.0, 1e4):
        f = f + 0.003 * rng.normal(size=n)
        found = pour(f, y, s, volume, two, window, space)
        c, weights = y * f, s if weighted else None
        expected = fill(c, volume, y=y if two else None, s=weights)
        assert found.level == pytest.approx(expected.level, abs=1e-9)
        assert found.bias == pytest.approx(expected.bias, abs=1e-9)
        np.testing.assert_allclose(distribution(space, c, y, s, two), expected.p, atol=1e-12)
        fewest = min(fewest, found.passes)
    assert fewest == 1


@given(st.integers(0, 2**32 - 1), st.integers(257, 2000), st.floats(0.0, 1e4), st.booleans())
@settings(max_examples=100)
def test_where_no_level_is_known_one_pass_finds_it_all_the_same(seed, n, volume, two):
    """All heights are sorted to lay the window: points of equal weight are then found in it at once."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    f, window, space = rng.standard_t(2.0, n), np.array([0.0, 0.0, np.inf]), room(n)
    found = pour(f, y, np.empty(0), volume, two, window, space)
    expected = fill(y * f, volume, y=y if two else None)
    assert found.level == pytest.approx(expected.level, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(distribution(space, y * f, y, np.empty(0), two), expected.p, atol=1e-12)
    assert found.passes == 1


@pytest.mark.parametrize("two", [False, True])
def test_where_no_level_is_known_the_window_holds_few_points_all_the_same(two, rng):
    n = 4000
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    window, space = np.array([0.0, 0.0, np.inf]), room(n)
    pour(rng.normal(size=n), y, np.empty(0), 10.0, two, window, space)
    assert space.seen.sum() < n / 2


def test_one_covered_point_and_one_of_each_class():
    assert fill(np.array([-1.0, 5.0, 6.0]), 2.0).level == pytest.approx(1.0)
    np.testing.assert_array_equal(fill(np.array([-1.0, 5.0, 6.0]), 2.0).p, [1.0, 0.0, 0.0])
    level, bias, p = fill(np.array([-1.0, 3.0, 9.0]), 1.0, y=np.array([1.0, -1.0, -1.0]))
    assert level == pytest.approx(1.5)
    np.testing.assert_array_equal(p, [0.5, 0.5, 0.0])
    # one basin holds a height of 1 − x, the other of x: b may lie between 1.5 and 2.5, and 2 is the middle
    assert bias == pytest.approx(2.0)


def test_a_volume_of_zero_is_exact_and_takes_all_minimisers():
    c = np.array([0.3, 0.1, 0.1, 0.7, 0.1])
    assert fill(c, 0.0).level == 0.1
    np.testing.assert_allclose(fill(c, 0.0).p, [0.0, 1 / 3, 1 / 3, 0.0, 1 / 3])
    # a point of no weight is no minimiser
    assert fill(c, 0.0, s=np.array([1.0, 0.0, 0.0, 1.0, 0.0])).level == 0.3


@pytest.mark.parametrize("two", [False, True])
def test_weights_that_add_nothing_do_not_keep_it_for_ever(two, rng):
    """Weights of 1e-20 are below the rounding of the mass: they are passed over, and the level is that without them."""
    c, s = rng.normal(size=40), np.ones(40)
    y = np.where(np.arange(40) % 2 == 0, 1.0, -1.0) if two else None
    s[rng.choice(40, 24, replace=False)] = 1e-20
    s[:2] = 1.0
    heavy = s == 1.0
    with_them = fill(c, 3.0, y=y, s=s)
    without = fill(c[heavy], 3.0, y=y[heavy] if two else None, s=s[heavy])
    assert with_them.level == pytest.approx(without.level, abs=1e-9)
