"""Water levels by sorting, by Newton's method, by a selection without sorting, and by a linear program, in NumPy."""

import itertools

import numpy as np
from scipy.optimize import linprog


def by_sorting(c, volume):
    """The level if the k lowest are covered, for the k at which it is not above the next response."""
    c = np.sort(c)
    levels = (volume + np.cumsum(c)) / np.arange(1, c.size + 1)
    return levels[np.argmax(levels <= np.append(c[1:], np.inf))]


def by_sorting_with_bias(c, y, volume):
    """Half the level of the sorted classes added pairwise."""
    return by_sorting(pairs(c, y), volume) / 2


def pairs(c, y):
    """The lowest of both classes added, the second lowest, and so on."""
    positive, negative = np.sort(c[y > 0]), np.sort(c[y < 0])
    k = min(positive.size, negative.size)
    return positive[:k] + negative[:k]


def by_selection(c, volume, rng):
    """Algorithm 2 of the SBP paper mended: discard, pivot by pivot, the half that the level cannot be in.

    ``mass`` and ``total`` are of points known to be covered. Filling up to the pivot takes pivot · mass − total; if
    that is less than the volume, all below the pivot, and those equal to it, are covered.
    """
    mass, total, rest = 0, 0.0, c
    while rest.size:
        pivot = rng.choice(rest)
        lower, equal, upper = rest[rest < pivot], rest[rest == pivot], rest[rest > pivot]
        to_pivot = pivot * (mass + lower.size) - (total + lower.sum())
        if to_pivot < volume or mass + lower.size == 0:
            mass, total, rest = mass + lower.size + equal.size, total + lower.sum() + equal.sum(), upper
        else:
            rest = lower
    return (volume + total) / mass


def by_newton(c, volume, s, start):
    """Newton's method on Σ s max(0, γ − c) = V > 0; from a start that covers nothing, from a level that is too low."""
    heavy = s > 0.0
    c, s = c[heavy], s[heavy]
    lower = start if np.any(c < start) else c.min() + volume / s.sum()
    level = np.inf  # from the first step on levels fall, until only rounding moves them
    for step in itertools.count():
        covered = c < lower
        if (step > 1 and lower >= level) or not covered.any():
            return lower
        level, lower = lower, (volume + s[covered] @ c[covered]) / s[covered].sum()


def by_linear_program(c, volume, s, y=None):
    """max γ over γ, b, ξ ≥ 0 with γ ≤ cᵢ + yᵢb + ξᵢ and Σ sᵢξᵢ ≤ V."""
    n = c.size
    A, b = np.zeros((n + 1, n + 2)), np.append(c, volume)
    A[:n, 0], A[:n, 1] = 1.0, 0.0 if y is None else -y
    A[np.arange(n), 2 + np.arange(n)] = -1.0
    A[n, 2:] = s
    free = (None, None)
    bounds = [free, free if y is not None else (0.0, 0.0)] + [(0.0, None)] * n
    return -linprog(np.append(-1.0, np.zeros(n + 1)), A_ub=A, b_ub=b, bounds=bounds).fun
