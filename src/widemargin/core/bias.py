"""The best bias for given scores: minimise Σ sᵢ ℓ(zᵢ + b, yᵢ) over the scalar b.

The derivative D(b) = Σ sᵢ ℓ'(zᵢ + b, yᵢ) grows with b, so its sign is bisected
until two neighbouring numbers enclose its zero: O(k) a halving, some sixty
halvings whatever the loss. For a piecewise-linear loss the zero may be a jump
of D, at a break point. A sub-gradient of min_b Σ sᵢ ℓ(zᵢ + b) in z must then
sum to zero (Pegasos Eq. 24), and the mixture of the slopes on both sides of the
jump that does so is one; hence two ends and a share are returned, not just b.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from .borrowing import borrow
from .dispatch import apart, compiled, generic, inlined
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
from .visits import spread

#: Points over which a slope is averaged when it is smoothed.
SMOOTHING = 8


@inlined
def smoothed_slope(loss, z, y, width):
    """The mean of sub-gradients over [z − width, z + width]: again in the domain of ℓ*."""
    if width == 0.0:
        return slope(loss, z, y)
    total = 0.0
    for k in range(SMOOTHING):
        total += slope(loss, z + width * ((2 * k + 1) / SMOOTHING - 1.0), y)
    return total / SMOOTHING


@generic
def smoothed_slopes(target, z, y, width, g):
    """g ← slopes of one row, each averaged over ±width around its score; joint losses are not smoothed."""


for _separate in (Single, OneVsRest):

    @smoothed_slopes.case(_separate)
    def _(target, z, y, width, g):
        for c in range(output_count(target, z)):
            label = output_label(target, y, c)
            g[c] = output_weight(target, y, c) * smoothed_slope(target.loss, z[c], label, width)


for _joint in (MulticlassHinge, MulticlassLog):

    @smoothed_slopes.case(_joint)
    def _(target, z, y, width, g):
        slopes(target, z, y, g)


@apart
def _derivative(loss, z, y, s, width, b):
    total = 0.0
    for i in range(z.size):
        total += s[i] * smoothed_slope(loss, z[i] + b, y[i], width)
    return total


class BestBias(NamedTuple):
    """Neighbours lo ≤ hi about the best bias, and the share of lo's slopes in a mixture that sums to zero."""

    lo: float
    hi: float
    share: float


@apart
def find_bias(loss, z, y, s, width, near):
    """The :class:`BestBias`: D(lo) ≤ 0 ≤ D(hi) for neighbours lo ≤ hi, and share·D(lo) + (1 − share)·D(hi) = 0.

    Any b in [lo, hi] is optimal to rounding. Where D never reaches zero, as in a
    batch of one class under the log-loss, lo = hi is a far point. With ``near`` > 0
    the two need not be neighbours once D(hi) − D(lo) is no more than that.
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
        if below <= 0.0:
            break
        lo -= reach
        reach *= 2.0
        below = _derivative(loss, z, y, s, width, lo)
    for _ in range(20):
        if above >= 0.0:
            break
        hi += reach
        reach *= 2.0
        above = _derivative(loss, z, y, s, width, hi)
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
    """The slope of one example under the mixture that :func:`best_bias` returns."""
    low, high = smoothed_slope(loss, z + best.lo, y, width), smoothed_slope(loss, z + best.hi, y, width)
    return best.share * low + (1.0 - best.share) * high


@inlined
def balanced_slopes(target, Z, y, s, b, G, scores, own, weight):
    """b ← the best bias of a batch with scores Z (no bias in them), G ← weighted slopes there, output by output.

    ``scores``, ``own`` and ``weight`` are scratch of the batch's length. Joint losses tie the
    outputs and have no such one-dimensional problem; a ``Problem`` refuses the combination.
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

#: While the multiple is looked for, the best bias need only balance all slopes up to this share of them. The multiple's
#: own relative error is at most NEARLY for each example, and NEAR: in value it counts squared, or as one example's.
NEAR, NEARLY = 1e-4, 1e-8
#: Of more examples than this some are looked at to find the multiple; its value is then taken over all of them.
RAY_EXAMPLES = 2**12


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

    The least value over b is convex in s, with the slope s‖w‖² + Σ C ℓ'(sf + b, y) f, where at a jump of the slope in
    b the slopes on both sides count in the shares that make it zero. Its zero is found by Brent's method.
    """

    def bias_of(multiple, near):
        return BestBias(*best_bias(loss, multiple * f, y, cap, 0.0, near)) if free else BestBias(0.0, 0.0, 1.0)

    @cache
    def slope_at(multiple):
        return multiple * norm2 + _slope_on_ray(loss, f, y, cap, multiple, bias_of(multiple, near))

    multiple, near = 1.0, NEAR * float(cap.sum())
    if norm2 > 0.0:
        # ½s²‖w‖² is no more than the value at w = 0
        multiple = math.sqrt(2.0 * weighted_losses(loss, f, 0.0, 0.0, y, cap) / norm2)
        if multiple > 0.0 and slope_at(multiple) > 0.0:
            least = 1e-12 * multiple  # w keeps its direction
            nearly = min(NEAR, NEARLY * f.size)
            if slope_at(least) < 0.0:
                multiple = brentq(slope_at, least, multiple, xtol=least, rtol=nearly, disp=False)
            else:
                multiple = least
    best = bias_of(multiple, 0.0)
    return multiple, 0.5 * (best.lo + best.hi)


def lowest_on_ray(loss, f, y, cap, norm2, free):
    """(s, b, value) of :func:`best_on_ray`, or of w = 0 with its best bias; of many examples nearly the best."""
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
