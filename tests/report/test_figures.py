"""Figures: round ticks, frames around the points, labels that do not lie on each other."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.report.figures import HEIGHT, LETTER, WIDTH, Series, against, log_ticks, spread, ticks


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e6))
def test_ticks_lie_between_the_ends_and_are_few(low, factor):
    high = low * factor
    found = ticks(low, high)
    assert all(low * (1 - 1e-9) <= each <= high * (1 + 1e-9) for each in found)
    assert 2 <= len(found) <= 6
    assert all(low <= each <= high for each in log_ticks(low, high))


def test_points_far_above_the_last_ones_stay_outside():
    drawn = against([Series("a", 0, [(1.0, 50.0), (2.0, 0.2), (4.0, 0.1)]), Series("b", 1, [(1.0, 0.3)])], "x", "y")
    assert drawn.count("<circle") == 2
    places = [float(b) for points in re.findall(r'points="([^"]*)"', drawn) for b in re.findall(r",([-\d.]+)", points)]
    assert min(places) >= 0.0
    assert max(places) <= HEIGHT


def test_labels_do_not_lie_on_each_other_even_of_equal_points():
    series = [Series(f"machine {k}", k, [(1000.0, 0.25)]) for k in range(10)]
    drawn = against(series, "bytes", "error", labelled=True)
    heights = np.sort([float(y) for y in re.findall(r'class="label" x="[\d.]+" y="([\d.]+)"', drawn)])
    assert heights.size == 10
    assert np.diff(heights).min() >= LETTER[0] - 0.1
    assert heights.max() <= HEIGHT


@pytest.mark.parametrize("points", [[(1.0, 0.0)], [(0.0, 0.5)], [(1.0, 0.5), (1.0, 0.5)]])
def test_degenerate_points_are_drawn(points):
    drawn = against([Series("one", 0, points)], "x", "y", labelled=True)
    assert "nan" not in drawn
    assert all(0.0 <= float(a) <= WIDTH for a in re.findall(r'cx="([-\d.]+)"', drawn))
    assert against([Series("none", 0, [])], "x", "y") == ""


def test_a_line_that_leaves_the_frame_comes_in_again_as_another_piece():
    points = [(1.0, 0.2), (2.0, 50.0), (3.0, 60.0), (4.0, 0.1)]
    drawn = against([Series("a", 0, points), Series("b", 1, [(1.0, 0.3)])], "x", "y")
    assert drawn.count("<polyline") == 2


@given(st.lists(st.floats(20.0, 300.0), max_size=8))
def test_heights_keep_their_order_and_distance_and_those_far_apart_stay(wanted):
    wanted = sorted(wanted)
    found = spread(wanted)
    assert all(np.diff(found) >= LETTER[0] - 1e-9)
    if all(np.diff(wanted) >= LETTER[0]):
        assert found == pytest.approx(wanted)


def test_one_that_went_astray_does_not_hide_the_others():
    series = [Series(f"machine {k}", k, [(10.0 ** (k + 1), 0.1 + 0.01 * k)]) for k in range(5)]
    astray = Series("astray", 4, [(100.0, 1e8)])
    drawn = against([*series, astray], "bytes", "error", labelled=True)
    assert 'class="label"' in drawn
    assert drawn.count('class="label"') == 5
    assert drawn.count('class="mark') == 5
