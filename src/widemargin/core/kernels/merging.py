"""Merging two Gaussian support vectors into one: where the new vector lies, and what the merge loses.

The problem. Replace α_mΦ(x_m) + α_nΦ(x_n), with coefficients that are numbers or vectors over classes, by α_zΦ(z) with
z = h x_m + (1 − h) x_n (the best place lies on the line through both; BSGD paper, Sec. 6.3). With κ = k(x_m, x_n),

    k(x_m, z) = κ^{(1−h)²},    k(x_n, z) = κ^{h²},    α_z = α_m κ^{(1−h)²} + α_n κ^{h²},
    ‖Δ‖² = ‖α_m‖² + ‖α_n‖² + 2κ⟨α_m, α_n⟩ − ‖α_z‖²,

where Δ is the change of w = Σ αΦ. The best h therefore maximises

    ‖α_z‖² = p A² + 2q AB + r B²,    A = κ^{(1−h)²}, B = κ^{h²}, p = ‖α_m‖², q = ⟨α_m, α_n⟩, r = ‖α_n‖².

At h = 0 this is the projection of x_m onto x_n alone, with ‖Δ‖² = ‖α_m‖²(1 − κ²): never worse than removing x_m.

Rounding. After many merges the smallest vector is far smaller than its partners, r ≫ p. Then h ≈ κq/r, and the gain
over h = 0 is tiny relative to r but large relative to p: ‖Δ‖²/p → 1 − κ²(1 − 2c² log κ) with c² = q²/(pr). This
difference is what separates partners of the same class from others. Losses are therefore computed as shares ‖Δ‖²/p of
what removing x_m loses, by a sum without cancellation,

    ‖Δ‖² = p (1 − A²) + r (1 − B²) + 2q (κ − AB).

One class, equal signs. h and ‖Δ‖²/α_m² depend only on κ and on the share μ = α_m/(α_m + α_n). A table holds both for
μ ≤ ½ (x_m is the smaller vector), and values between are interpolated bilinearly. For κ < e⁻² the best h jumps at μ = ½
from one vector to the other. The table therefore covers one side only, and interpolated values are compared with those
at h = 0. Near (½, e⁻²) h changes like a square root and no grid is fine enough, so the table only chooses the
partner, and :func:`polish` computes the h of the chosen pair.

The search. At equal κ a larger partner loses more, and a partner of equal size loses 2α_m²(1 − √κ)² (h = ½, for
κ ≥ e⁻²). Once a partner with ‖Δ‖² = v α_m², v < 2(1 − e⁻¹)², is known, only the few vectors with κ > (1 − √(v/2))² need
a look into the table. Cost: O(vectors).

One class, opposite signs. The maximum of |α_z| lies at an end point or outside of [0, 1], so h = 0 is used.

Several classes. Where the slope of ‖α_z‖² is zero,

    h = (pτ² + qτ) / (r + 2qτ + pτ²),    τ = A/B = κ^{1−2h}.

For p ≤ r the repeated formula, from h = 0 on and never below 0, rises to the nearest zero, which is the best one in
[0, 1]. Two repetitions choose the partner, and :func:`polish` computes the h of the chosen pair. Cost:
O(vectors × classes).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import apart, generic, inlined
from ..intrinsics.exp import exp
from .expansion import least, padded

GRID = 10  # values of h that are tried before the search by golden section, for several classes
ROUNDS = 2  # repetitions of the formula for h in the search for a partner
POLISHED = 1e-7  # width of the bracket of h at which searches stop
_SHRINK = 0.5 * (np.sqrt(5.0) - 1.0)
#: ‖Δ‖²/α² of the merge of two equal vectors with κ = e⁻².
_EVEN = 2.0 * (1.0 - np.exp(-1.0)) ** 2


class MergeTable(NamedTuple):
    """Search among vectors with one coefficient: a table over shares μ = 0 … ½ (rows) and κ = 0 … 1 (columns).

    It has the best h, and its loss ‖Δ‖²/α_m², in the precision of the vectors.
    """

    h: np.ndarray
    degradation: np.ndarray


class JointSearch(NamedTuple):
    """Search among vectors with several coefficients: working memory."""

    out: np.ndarray  # loss of a merge with each vector
    products: np.ndarray  # ⟨α_m, α_j⟩ and ‖α_j‖² for each vector


@inlined
def merged_norm2(p, q, r, log_kappa, h):
    """The squared norm ‖α_z‖² of the merged coefficients at h."""
    A, B = np.exp(log_kappa * (1.0 - h) * (1.0 - h)), np.exp(log_kappa * h * h)
    return p * A * A + 2.0 * q * A * B + r * B * B


@apart
def polish(p, q, r, log_kappa, low, high):
    """The h in [low, high] with the largest ‖α_z‖², by golden section, or 0 if that is better.

    ‖α_z‖² must have a single maximum in [low, high].
    """
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
    """exp(x) − 1 with a relative error of 1e-8, for small x too."""
    series = x * type(x)(1 / 5040)
    for c in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0):
        series = x * (type(x)(c) + series)
    return series if abs(x) < type(x)(0.25) else exp(x) - type(x)(1)


@inlined
def merge_lost(p, q, r, kappa, log_kappa, h):
    """‖Δ‖² at h, by the sum without cancellation."""
    one, two = type(h)(1), type(h)(2)
    rise, fall = growth(two * log_kappa * h * (h - one)), growth(log_kappa * h * h)  # AB = κ(1 + rise), B = 1 + fall
    A = kappa * (one + rise) / (one + fall)
    return p * (one - A * A) - r * fall * (two + fall) - two * q * kappa * rise


@lru_cache(maxsize=4)
def merge_table(size: int, dtype: str) -> MergeTable:
    """The table with size × size entries, computed once. At κ = 0 the vectors are orthogonal: h = 0.

    All entries at once: golden section as in :func:`polish`, then Newton's method within the bracket.
    """
    mu, kappa = np.linspace(0.0, 0.5, size)[:, None], np.linspace(0.0, 1.0, size)[1:]
    log_kappa, odds = np.log(kappa), (1.0 - mu) / np.maximum(mu, 1e-300)

    def norm(h: np.ndarray) -> np.ndarray:
        """|α_z|, which is largest at the same h as its square."""
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
    # the sum without cancellation, divided by p = μ²: AB = κ(1 + rise), B = 1 + fall
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
    # what is no number becomes a huge index, and the last one that may be
    i, j = min(np.uint32(np.int32(a)), np.uint32(rows - 2)), min(np.uint32(np.int32(b)), np.uint32(columns - 2))
    s, t = a - table.dtype.type(np.int32(i)), b - table.dtype.type(np.int32(j))
    one, next_ = table.dtype.type(1), np.uint32(1)
    above = (one - t) * table[i, j] + t * table[i, j + next_]
    below = (one - t) * table[i + next_, j] + t * table[i + next_, j + next_]
    return (one - s) * above + s * below


@inlined
def best_partner(table, a, m, kappa, count):
    """The vector j < count whose merge with vector m, the one of the smallest |a|, loses least; one class.

    ``table`` holds degradations, ``a`` the coefficients and ``kappa`` the kernel values of vector m with all others.
    Vectors with κ < 0 are skipped.
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
    """out[j] ← ‖Δ‖² of merging vector m, the one of the smallest ‖α‖, with vector j < count; several classes.

    ``A`` holds the coefficients (classes × vectors), ``log_kappa`` the logarithms of the kernel values of vector m
    with all others. ``products`` is working memory of two rows.
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


@generic
def choose_partners(search, A, m, log_kappa, kappa, count, chosen, found):
    """chosen[1:found] ← the best partners of vector m, the one of the smallest ‖α‖, the best first.

    ``kappa`` and ``log_kappa`` are the kernel values of vector m with all ``count`` vectors; changes ``kappa``.
    """


@choose_partners.case(MergeTable)
def choose_partners_by_table(search, A, m, log_kappa, kappa, count, chosen, found):
    for a in range(1, found):
        chosen[a] = best_partner(search.degradation, A[0], m, kappa, count)
        kappa[chosen[a]] = -1


@choose_partners.case(JointSearch)
def choose_joint_partners(search, A, m, log_kappa, kappa, count, chosen, found):
    joint_degradations(A, m, log_kappa, padded(count), search.products, search.out)
    for a in range(1, found):
        chosen[a] = least(search.out, count)
        search.out[chosen[a]] = np.inf


@inlined
def _newton(mu, log_kappa, h):
    """The zero near h, in [0, ½], of the slope of μA + (1 − μ)B, by Newton's method; −1 if the method fails.

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
    """The h at which to merge two vectors of one class, the smaller one first; never worse than h = 0."""
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
    """The h at which to merge two vectors of several classes, the smaller one first; never worse than h = 0."""
    best, place = -1.0, 0
    for i in range(GRID + 1):
        reached = merged_norm2(p, q, r, log_kappa, i / GRID)
        if reached > best:
            best, place = reached, i
    return polish(p, q, r, log_kappa, max(0.0, (place - 1) / GRID), min(1.0, (place + 1) / GRID))


@generic
def best_place(search, p, q, r, log_kappa):
    """The h at which to merge two vectors, the smaller one first; never worse than h = 0."""


@best_place.case(MergeTable)
def best_place_of_one(search, p, q, r, log_kappa):
    return place_of_one(search.h, p, q, r, log_kappa)


@best_place.case(JointSearch)
def best_place_of_several(search, p, q, r, log_kappa):
    return place_of_several(p, q, r, log_kappa)
