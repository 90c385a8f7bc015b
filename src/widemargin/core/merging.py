"""Merging two Gaussian support vectors into one: where to put it, and what is lost.

Replace α_mΦ(x_m) + α_nΦ(x_n), with coefficients that are numbers or vectors over classes, by α_zΦ(z) with
z = h x_m + (1 − h) x_n (the best place lies on the line through both; BSGD paper, Sec. 6.3). With κ = k(x_m, x_n),

    k(x_m, z) = κ^{(1−h)²},    k(x_n, z) = κ^{h²},    α_z = α_m κ^{(1−h)²} + α_n κ^{h²},
    ‖Δ‖² = ‖α_m‖² + ‖α_n‖² + 2κ⟨α_m, α_n⟩ − ‖α_z‖²,

so the best h maximises

    ‖α_z‖² = p A² + 2q AB + r B²,    A = κ^{(1−h)²}, B = κ^{h²}, p = ‖α_m‖², q = ⟨α_m, α_n⟩, r = ‖α_n‖².

At h = 0 this is the projection of x_m onto x_n alone, with ‖Δ‖² = ‖α_m‖²(1 − κ²): never worse than removing x_m.

After many merges the smallest vector is far smaller than its partners, r ≫ p. Then h ≈ κq/r, and what is gained over
h = 0 is nothing beside r but much beside p: ‖Δ‖²/p → 1 − κ²(1 − 2c² log κ) with c² = q²/(pr), which is how the search
tells partners of the same class from others. So losses are kept as shares ‖Δ‖²/p of what removal loses, summed as

    ‖Δ‖² = p (1 − A²) + r (1 − B²) + 2q (κ − AB),

in which nothing cancels.

One class, equal signs. h and ‖Δ‖²/α_m² depend on the share μ = α_m/(α_m + α_n) and on κ alone, and are tabulated for
μ ≤ ½ (x_m is the smaller one) and interpolated, bilinearly. For κ < e⁻² the best h jumps at μ = ½ from
one vector to the other, so only one side may be tabulated, and interpolated values are compared with the end point
h = 0. Near (½, e⁻²) h has the slope of a root, and no grid is fine enough; so the table chooses the partner, and the h
of the one pair chosen is polished.

The search. At equal κ a larger partner loses more, and the equal one loses 2α_m²(1 − √κ)² (h = ½, for κ ≥ e⁻²). So once
a partner with ‖Δ‖² = v α_m², v < 2(1 − e⁻¹)², is known, only those with κ > (1 − √(v/2))² need to be looked up: few.

Opposite signs, of one class, merge badly: the maximum of |α_z| lies at an end point or outside of [0, 1]. There the
end point h = 0 is taken.

Several classes. Where the slope of ‖α_z‖² is zero,

    h = (pτ² + qτ) / (r + 2qτ + pτ²),    τ = A/B = κ^{1−2h},

and for p ≤ r this, repeated from h = 0 and cut off there, rises to the nearest such place, which is the best one of
[0, 1]. Two repetitions choose the partner; the h of the one pair chosen is polished.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .borrowing import borrow
from .dispatch import apart, inlined
from .exp import exp

#: Steps of the grid of h from which the place of a pair with several classes is polished.
GRID = 10
#: Repetitions of the formula for h in the search for a partner.
ROUNDS = 2
#: Relative width of the bracket at which the golden section stops.
POLISHED = 1e-7
_SHRINK = 0.5 * (np.sqrt(5.0) - 1.0)
#: ‖Δ‖²/α² of the merge of two equal vectors with κ = e⁻².
_EVEN = 2.0 * (1.0 - np.exp(-1.0)) ** 2


class MergeTable(NamedTuple):
    """The best h, and its loss ‖Δ‖²/α_m², over shares μ = 0 … ½ (rows) and κ = 0 … 1 (columns)."""

    h: np.ndarray
    degradation: np.ndarray


@inlined
def merged_norm2(p, q, r, log_kappa, h):
    """The squared norm ‖α_z‖² of the merged coefficients at the place h between two vectors."""
    A, B = np.exp(log_kappa * (1.0 - h) * (1.0 - h)), np.exp(log_kappa * h * h)
    return p * A * A + 2.0 * q * A * B + r * B * B


@apart
def polish(p, q, r, log_kappa, low, high):
    """The h of the largest ‖α_z‖² from low to high, where it has one hump, by golden section; 0 if that is better."""
    first, second = high - _SHRINK * (high - low), low + _SHRINK * (high - low)
    f, s = merged_norm2(p, q, r, log_kappa, first), merged_norm2(p, q, r, log_kappa, second)
    while high - low > POLISHED:
        if f > s:
            high, second, s = second, first, f
            first = high - _SHRINK * (high - low)
            f = merged_norm2(p, q, r, log_kappa, first)
        else:
            low, first, f = first, second, s
            second = low + _SHRINK * (high - low)
            s = merged_norm2(p, q, r, log_kappa, second)
    h = 0.5 * (low + high)
    if merged_norm2(p, q, r, log_kappa, 0.0) >= merged_norm2(p, q, r, log_kappa, h):
        return 0.0
    return h


@inlined
def growth(x):
    """exp(x) − 1, to 1e-8 of itself for small x too."""
    series = x * type(x)(1 / 5040)
    for c in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0):
        series = x * (type(x)(c) + series)
    return series if abs(x) < type(x)(0.25) else exp(x) - type(x)(1)


@inlined
def merge_lost(p, q, r, kappa, log_kappa, h):
    """‖Δ‖² at h, as the sum in which nothing cancels."""
    one, two = type(h)(1), type(h)(2)
    rise, fall = growth(two * log_kappa * h * (h - one)), growth(log_kappa * h * h)  # AB = κ(1 + rise), B = 1 + fall
    A = kappa * (one + rise) / (one + fall)
    return p * (one - A * A) - r * fall * (two + fall) - two * q * kappa * rise


@lru_cache(maxsize=4)
def merge_table(size: int, dtype: str) -> MergeTable:
    """The table with size × size entries; made once. κ = 0 is two vectors that do not see each other: keep the larger.

    A golden section as in :func:`polish` and Newton's method within what it leaves, for all entries at once.
    """
    mu, kappa = np.linspace(0.0, 0.5, size)[:, None], np.linspace(0.0, 1.0, size)[1:]
    log_kappa, odds = np.log(kappa), (1.0 - mu) / np.maximum(mu, 1e-300)

    def norm(h: np.ndarray) -> np.ndarray:
        """|α_z|, whose square is largest where it is."""
        return mu * np.exp(log_kappa * (1.0 - h) ** 2) + (1.0 - mu) * np.exp(log_kappa * h * h)

    low, width = np.zeros((size, size - 1)), 0.5
    first, second = norm(low + (1.0 - _SHRINK) * width), norm(low + _SHRINK * width)
    while width > 0.01:
        left = first > second
        low += np.where(left, 0.0, (1.0 - _SHRINK) * width)
        width *= _SHRINK
        new = norm(low + np.where(left, 1.0 - _SHRINK, _SHRINK) * width)
        first, second = np.where(left, new, second), np.where(left, first, new)
    h = low + 0.5 * width
    for _ in range(3):  # 1e-2, 1e-4, 1e-8
        far = 1.0 - h
        A, B = mu * np.exp(log_kappa * far * far), (1.0 - mu) * np.exp(log_kappa * h * h)
        bend = A + B + 2.0 * log_kappa * (far * far * A + h * h * B)
        h = np.clip(h + (far * A - h * B) / np.where(bend > 0.0, bend, np.inf), low, low + width)
    h[norm(np.zeros_like(h)) >= norm(h)] = 0.0
    # the sum in which nothing cancels, over p = μ²: AB = κ(1 + rise), B = 1 + fall
    rise, fall = np.expm1(2.0 * log_kappa * h * (h - 1.0)), np.expm1(log_kappa * h * h)
    A = kappa * (1.0 + rise) / (1.0 + fall)
    lost = 1.0 - A * A - odds * (odds * fall * (2.0 + fall) + 2.0 * kappa * rise)
    lost[0] = 1.0 - kappa * kappa * (1.0 - 2.0 * log_kappa)
    places, degradation = np.zeros((size, size)), np.ones((size, size))
    places[:, 1:], degradation[:, 1:] = h, np.maximum(lost, 0.0)
    return MergeTable(places.astype(dtype), degradation.astype(dtype))


@inlined
def lookup(table, mu, kappa):
    """A table at (μ, κ), 0 ≤ μ ≤ ½, 0 ≤ κ ≤ 1, by bilinear interpolation."""
    rows, columns = table.shape
    a, b = mu * table.dtype.type(2 * (rows - 1)), kappa * table.dtype.type(columns - 1)
    i, j = np.uint32(min(np.int32(a), np.int32(rows - 2))), np.uint32(min(np.int32(b), np.int32(columns - 2)))
    s, t = a - table.dtype.type(np.int32(i)), b - table.dtype.type(np.int32(j))
    one, next_ = table.dtype.type(1), np.uint32(1)
    above = (one - t) * table[i, j] + t * table[i, j + next_]
    below = (one - t) * table[i + next_, j] + t * table[i + next_, j + next_]
    return (one - s) * above + s * below


@inlined
def best_partner(table, a, m, kappa, count):
    """The vector j < count with which merging vector m, of the smallest |a|, loses least; one class.

    ``table`` is that of degradations, ``a`` are coefficients, ``kappa`` the kernel values between vector m and all;
    those with κ < 0 are passed over.
    """
    a, kappa = borrow(a), borrow(kappa)
    own, number = a[m], a.dtype.type
    zero, half, one = number(0), number(0.5), number(1)
    lost, place, seen = number(np.inf), m, -half
    for j in range(count):
        if kappa[j] > seen and j != m:
            k = min(kappa[j], one)
            share = one - k * k
            if own * a[j] > zero:
                share = min(share, lookup(table, min(own / (own + a[j]), half), k))
            if share < lost:
                lost, place = share, j
                if lost < number(_EVEN):
                    root = one - np.sqrt(half * lost)
                    seen = root * root
    return place


@inlined
def joint_degradations(A, m, log_kappa, count, products, out):
    """out[j] ← ‖Δ‖² of merging vector m, of the smallest ‖α‖, with vector j < count, in place; several classes.

    ``A`` are coefficients (classes × vectors), ``log_kappa`` the logarithms of the kernel values between m and all;
    ``products``, of two rows, is overwritten.
    """
    A, log_kappa, products, out = borrow(A), borrow(log_kappa), borrow(products), borrow(out)
    number = out.dtype.type
    zero, one, two, p = number(0), number(1), number(2), number(0)
    q, r = products[0], products[1]
    for j in range(count):
        q[j] = 0
        r[j] = 0
    for c in range(A.shape[0]):
        row, own = A[c], A[c, m]
        p += own * own
        for j in range(count):
            q[j] += own * row[j]
            r[j] += row[j] * row[j]
    for j in range(count):
        kappa, h = exp(log_kappa[j]), zero
        tau = kappa
        for repetition in range(ROUNDS):
            if repetition:
                tau = kappa * exp(-two * log_kappa[j] * h)
            up, down = max((p * tau + q[j]) * tau, zero), r[j] + two * q[j] * tau + p * tau * tau
            h = up / down if up < down else zero
        lost = merge_lost(p, q[j], r[j], kappa, log_kappa[j], h)
        out[j] = max(min(lost, p * (one - kappa * kappa)), zero)
    out[m] = np.inf


@inlined
def _newton(mu, log_kappa, h):
    """The zero in [0, ½] of the slope of μA + (1 − μ)B, near h, by Newton's method; −1 where that fails.

    The slope is −2 log κ times φ(h) = μ(1 − h)A − (1 − μ)hB.
    """
    for _ in range(8):
        far = 1.0 - h
        A, B = mu * np.exp(log_kappa * far * far), (1.0 - mu) * np.exp(log_kappa * h * h)
        bend = A + B + 2.0 * log_kappa * (far * far * A + h * h * B)
        if bend <= 0.0:
            return -1.0
        step = (far * A - h * B) / bend
        h += step
        if not 0.0 <= h <= 0.5:
            return -1.0
        if abs(step) < POLISHED:
            return h
    return -1.0


@apart
def place_of_one(table, p, q, r, log_kappa):
    """The h at which to merge two vectors of one class, the first the smaller: never worse than h = 0."""
    if q <= 0.0:
        return 0.0
    mu, number = np.sqrt(p) / (np.sqrt(p) + np.sqrt(r)), table.dtype.type
    h = np.float64(lookup(table, number(min(mu, 0.5)), number(min(np.exp(log_kappa), 1.0))))
    h = _newton(mu, log_kappa, h)
    if h >= 0.0:
        return 0.0 if merged_norm2(p, q, r, log_kappa, 0.0) >= merged_norm2(p, q, r, log_kappa, h) else h
    return polish(p, q, r, log_kappa, 0.0, 0.5)


@apart
def place_of_several(p, q, r, log_kappa):
    """The h at which to merge two vectors of several classes, the first the smaller: never worse than h = 0."""
    best, place = -1.0, 0
    for i in range(GRID + 1):
        reached = merged_norm2(p, q, r, log_kappa, i / GRID)
        if reached > best:
            best, place = reached, i
    return polish(p, q, r, log_kappa, max(0.0, (place - 1) / GRID), min(1.0, (place + 1) / GRID))
