"""The best bias for given scores: minimise Σ sᵢ ℓ(zᵢ + b, yᵢ) over the scalar b.

The derivative D(b) = Σ sᵢ ℓ'(zᵢ + b, yᵢ) grows with b. Bisection on its sign ends when two neighbouring float64 numbers
enclose its zero: about sixty halvings for any loss, O(k) each for k examples.

For a piecewise-linear loss D may jump across zero at a break point. A sub-gradient of min_b Σ sᵢ ℓ(zᵢ + b) in z must
sum to zero (Pegasos Eq. 24), and a mixture of the slopes on both sides of the jump does. The result is therefore not b
alone but two neighbours lo ≤ hi and the share of lo's slopes in the mixture. For example, of two examples with opposite
labels at z = 0 under the hinge any b in [−1, 1] is optimal.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..borrowing import borrow
from ..compiling.dispatch import apart, compiled, generic, inlined
from ..sampling.visits import spread
from .losses import (
    MulticlassHinge,
    MulticlassLog,
    OneVsRest,
    Single,
    output_count,
    output_label,
    output_loss,
    output_weight,
    slope,
    slopes,
    value,
)

SMOOTHING = 8  # points over which a slope is averaged when it is smoothed


@inlined
def smoothed_slope(loss, z, y, width):
    """The mean of sub-gradients over [z − width, z + width], which is in the domain of ℓ* like each of them."""
    if width == 0.0:
        return slope(loss, z, y)
    total = 0.0
    for k in range(SMOOTHING):
        total += slope(loss, z + width * ((2 * k + 1) / SMOOTHING - 1.0), y)
    return total / SMOOTHING


@generic
def smoothed_slopes(target, z, y, width, g):
    """g ← the slopes of one row, each averaged over ±width about its score; joint losses are not smoothed."""


@smoothed_slopes.case(Single)
@smoothed_slopes.case(OneVsRest)
def smoothed_slopes_separate(target, z, y, width, g):
    for c in range(output_count(target, z)):
        label = output_label(target, y, c)
        g[c] = output_weight(target, y, c) * smoothed_slope(target.loss, z[c], label, width)


@smoothed_slopes.case(MulticlassHinge)
@smoothed_slopes.case(MulticlassLog)
def smoothed_slopes_joint(target, z, y, width, g):
    slopes(target, z, y, g)


@apart
def _derivative(loss, z, y, s, width, b):
    total = 0.0
    for i in range(z.size):
        total += s[i] * smoothed_slope(loss, z[i] + b, y[i], width)
    return total


class BestBias(NamedTuple):
    """Neighbours lo ≤ hi about the best bias, and the share of lo's slopes in the mixture that sums to zero."""

    lo: float
    hi: float
    share: float


@apart
def find_bias(loss, z, y, s, width, near):
    """The :class:`BestBias`: D(lo) ≤ 0 ≤ D(hi) for neighbours lo ≤ hi, and share·D(lo) + (1 − share)·D(hi) = 0.

    Any b in [lo, hi] is optimal to rounding. If D never reaches zero, as for a batch of one class under the log-loss,
    lo = hi is a far point. With ``near`` > 0 bisection already ends once D(hi) − D(lo) ≤ near.
    """
    lo, hi = np.inf, -np.inf
    for i in range(z.size):
        lo = min(lo, y[i] - z[i])
        hi = max(hi, y[i] - z[i])
    reach = 1.0 + width + 1e-3 * max(abs(lo), abs(hi))
    lo -= reach
    hi += reach
    below, above = _derivative(loss, z, y, s, width, lo), _derivative(loss, z, y, s, width, hi)
    for _ in range(20):
        if below > 0.0:
            lo -= reach
            below = _derivative(loss, z, y, s, width, lo)
        elif above < 0.0:
            hi += reach
            above = _derivative(loss, z, y, s, width, hi)
        else:
            break
        reach *= 2.0
    for _ in range(200):
        middle = 0.5 * (lo + hi)
        if middle <= lo or middle >= hi or above - below <= near:
            break
        derivative = _derivative(loss, z, y, s, width, middle)
        if derivative == 0.0:
            return BestBias(middle, middle, 1.0)
        if derivative < 0.0:
            lo, below = middle, derivative
        else:
            hi, above = middle, derivative
    if below >= 0.0:
        return BestBias(lo, lo, 1.0)
    if above <= 0.0:
        return BestBias(hi, hi, 1.0)
    return BestBias(lo, hi, above / (above - below))


@compiled
def best_bias(loss, z, y, s, width, near):
    """:func:`find_bias`, for Python; returns the fields of :class:`BestBias`."""
    best = find_bias(loss, borrow(z), borrow(y), borrow(s), width, near)
    return best.lo, best.hi, best.share


@inlined
def mixed_slope(loss, z, y, width, best):
    """The slope of one example under the mixture of a :class:`BestBias`."""
    low, high = smoothed_slope(loss, z + best.lo, y, width), smoothed_slope(loss, z + best.hi, y, width)
    return best.share * low + (1.0 - best.share) * high


@inlined
def balanced_slopes(target, Z, y, s, b, G, scores, own, weight):
    """b ← the best bias of a batch with scores Z (without bias), G ← the weighted slopes there, for each output.

    ``scores``, ``own`` and ``weight`` are working memory of the batch's length. Joint losses couple the outputs, so
    there is no problem in one variable; a ``Problem`` refuses this combination.
    """
    loss = output_loss(target)
    for c in range(b.size):
        for r in range(y.size):
            scores[r] = Z[r, c]
            own[r] = output_label(target, y[r], c)
            weight[r] = s[r] * output_weight(target, y[r], c)
        best = find_bias(loss, scores, own, weight, 0.0, 0.0)
        for r in range(y.size):
            G[r, c] = weight[r] * mixed_slope(loss, scores[r], own[r], 0.0, best)
        b[c] = 0.5 * (best.lo + best.hi)


# ---------------------------------------------------------------- the best multiple of given responses

NEAR = 1e-4  # share of all slopes to which the bias is balanced during the search for the multiple
NEARLY = 1e-8  # relative error of the multiple, times the number of examples and at most NEAR; its square is in P
RAY_EXAMPLES = 2**12  # examples that the search uses at most; the value is then computed on all


@compiled
def weighted_losses(loss, f, multiple, bias, y, cap):
    """Σ Cᵢ ℓ(s fᵢ + b, yᵢ)."""
    f, y, cap = borrow(f), borrow(y), borrow(cap)
    total = 0.0
    for i in range(f.size):
        total += cap[i] * value(loss, multiple * f[i] + bias, y[i])
    return total


@compiled
def _slope_on_ray(loss, f, y, cap, multiple, best):
    """Σ C ℓ'(sf + b, y) f, with the mixture of slopes at the best bias."""
    f, y, cap = borrow(f), borrow(y), borrow(cap)
    total = 0.0
    for i in range(f.size):
        total += cap[i] * f[i] * mixed_slope(loss, multiple * f[i], y[i], 0.0, best)
    return total


def best_on_ray(loss, f, y, cap, norm2, free):
    """The multiple s ≥ 0 of w, and the bias b (0 if not free), that minimise ½s²‖w‖² + Σ C ℓ(sf + b, y).

    The minimum over b is convex in s, with the slope s‖w‖² + Σ C ℓ'(sf + b, y) f, where ℓ' is the mixture of slopes at
    the best bias. Brent's method finds its zero.
    """

    def bias_of(multiple, near):
        return BestBias(*best_bias(loss, multiple * f, y, cap, 0.0, near)) if free else BestBias(0.0, 0.0, 1.0)

    @cache
    def slope_at(multiple):
        return multiple * norm2 + _slope_on_ray(loss, f, y, cap, multiple, bias_of(multiple, near))

    multiple, near = 1.0, NEAR * float(cap.sum())
    if norm2 > 0.0:
        # ½s²‖w‖² is at most the value at w = 0, which bounds s
        multiple = math.sqrt(2.0 * weighted_losses(loss, f, 0.0, 0.0, y, cap) / norm2)
        if multiple > 0.0 and slope_at(multiple) > 0.0:
            least = 1e-12 * multiple  # not 0, so that w keeps its direction
            nearly = min(NEAR, NEARLY * f.size)
            if slope_at(least) < 0.0:
                multiple = brentq(slope_at, least, multiple, xtol=least, rtol=nearly, disp=False)
            else:
                multiple = least
    best = bias_of(multiple, 0.0)
    return multiple, 0.5 * (best.lo + best.hi)


def lowest_on_ray(loss, f, y, cap, norm2, free):
    """(s, b, value) of :func:`best_on_ray`, or of w = 0 with its best bias if that is lower.

    Of more than RAY_EXAMPLES examples a sample chooses s and b, and all give the value.
    """
    n, thin = f.size, (f, y, cap)
    if n > RAY_EXAMPLES:
        some = spread(n, RAY_EXAMPLES)
        thin = f[some], y[some], cap[some]
    points = [best_on_ray(loss, *thin, norm2 * thin[0].size / n, free), (0.0, 0.0)]
    if free:
        low, high, _ = best_bias(loss, np.zeros(thin[0].size), *thin[1:], 0.0, 0.0)
        points[1] = 0.0, 0.5 * (low + high)
    values = [0.5 * s * s * norm2 + weighted_losses(loss, f, s, b, y, cap) for s, b in points]
    best = int(np.argmin(values))
    return *points[best], values[best]
