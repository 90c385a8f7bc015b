"""The water level over all points at once: what windows and parts must come to."""

from typing import NamedTuple

import numpy as np

from widemargin.core.losses.water_level import Window, _pour, room


class Poured(NamedTuple):
    """The result of :func:`fill`: the level γ, the bias b and the minimax-optimal distribution p."""

    level: float
    bias: float
    p: np.ndarray


def fill(c, volume, *, y=None, s=None):
    """Pour ``volume`` over responses c: with labels y into two basins, without them into one. All points are listed."""
    n, two = c.size, y is not None
    signs, weights = (y if two else np.ones(n)), (np.empty(0) if s is None else s)
    space = room(n)
    u, v, _, _ = _pour(signs * c, signs, weights, float(volume), two, Window(np.zeros(2), np.array([np.inf])), space)
    p = np.zeros(n)
    for a in range(2 if two else 1):
        listed = space.order[a, : space.taken[a]]
        own = space.weights[a, listed]
        p[space.places[a, listed]] = own / own.sum() * (0.5 if two else 1.0)
    return Poured(0.5 * (u + v), 0.5 * (v - u) if two else 0.0, p)
