"""Water levels from sums and lists: those of all points, whatever is listed."""

import numpy as np
import pytest

from widemargin.core.losses.shared_level import CELLS, Basin, covered, grid, sort_into, surface
from widemargin.core.losses.water_level import fill


def points(rng, n, ties):
    c = np.round(rng.normal(size=n), 1) if ties else rng.normal(size=n)
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1.0, -1.0
    return c, y, rng.integers(1, 4, n).astype(float) if ties else rng.uniform(0.1, 2.0, n)


def basins_of(c, y, s, two, cut):
    """Basins whose points above ``cut`` of them are not listed below, and some not above."""
    found = []
    for sign in (1.0, -1.0) if two else (None,):
        own = slice(None) if sign is None else y == sign
        heights, group = np.unique(c[own], return_inverse=True)
        weights = np.bincount(group, s[own], heights.size)
        first = int(cut * heights.size)
        low = heights[first] if first else -np.inf
        mass, total = weights[:first].sum(), weights[:first] @ heights[:first]
        found.append(Basin(low, mass, total, heights[first:], weights[first:], False))
    return found


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_the_surface_is_that_of_all_points_or_there_is_none(rng, two, ties):
    for volume in (0.0, 0.01, 1.0, 30.0, 1e4):
        c, y, s = points(rng, 60, ties)
        wanted = fill(c, volume, y=y if two else None, s=s)
        for cut in (0.0, 0.2, 0.5, 0.9):
            basins = basins_of(c, y, s, two, cut)
            found = surface(volume, basins)
            assert found is not None or cut > 0.0
            if found is None:
                continue
            assert 0.5 * (found.u + found.v) == pytest.approx(wanted.level, abs=1e-9)
            if two:
                assert 0.5 * (found.v - found.u) == pytest.approx(wanted.bias, abs=1e-9)
            # p is optimal: Σ p c + volume × max p/s is the level
            own = [y == 1.0, y == -1.0] if two else [np.ones(c.size, bool)]
            p, mass = np.zeros(c.size), found.mass * len(own)
            for basin, mine in zip(basins, own, strict=True):
                p[mine] = covered(basin, found.mass, c[mine]) * s[mine] / mass
            assert p.sum() == pytest.approx(1.0)
            assert p @ c + volume * np.max(p / s) == pytest.approx(wanted.level, rel=1e-9, abs=1e-9)


def test_cells_hold_the_points_between_their_lines(rng):
    c, y, s = points(rng, 500, False)
    s[:3] = 0.0
    lines = np.stack([grid(-1.0, 0.5), grid(0.0, 2.0)])
    cells, sums, ends = np.empty(500, np.int32), np.zeros((2, CELLS, 3)), np.tile([np.inf, -np.inf], (2, 1))
    sort_into(c, y, s, True, lines, cells, sums, ends)
    assert (cells[:3] == -1).all()
    for a, (low, high) in enumerate([(-1.0, 0.5), (0.0, 2.0)]):
        own = (y == (1.0 if a == 0 else -1.0)) & (s > 0.0)
        heights = (y * c)[own]
        place = np.where(heights < low, 0, np.minimum(1 + (heights - low) * (CELLS - 2) / (high - low), CELLS - 1))
        assert (np.abs(cells[own] - a * CELLS - place.astype(int)) <= 1).all()  # rounding at the lines
        np.testing.assert_allclose(np.bincount(cells[own] - a * CELLS, s[own], CELLS), sums[a, :, 0])
        np.testing.assert_allclose(np.bincount(cells[own] - a * CELLS, s[own] * heights, CELLS), sums[a, :, 1])
        assert sums[a, :, 2].sum() == own.sum()
        assert ends[a].tolist() == [heights.min(), heights.max()]
