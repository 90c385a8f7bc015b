"""Triton programs of the solver on a GPU: one program solves a working set, others add its change to the responses.

Variables are β = σα between ``low`` and ``high``, of which one is 0: what matters of the signs is in the bounds. e is
the gradient of the dual less a bias, in float32, which tells violations within a working set apart; β and the responses
are float64, so that nothing adds up over rounds. Padding has low = high = 0 and never moves.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Pairs or variables that are moved between two looks at the largest violation.
MOVES: tl.constexpr = tl.constexpr(8)
#: Smallest curvature of a direction; an indefinite kernel can have less.
TAU: tl.constexpr = tl.constexpr(1e-12)
FAR: tl.constexpr = tl.constexpr(1e38)


@triton.jit
def pairs(K, diagonal, e, low, high, beta, moved, share, most, Q: tl.constexpr):
    """Maximise the dual over Q variables by pairs of second-order selection with Σβ kept; changes beta and moved."""
    lane = tl.arange(0, Q)
    ev, dv = tl.load(e + lane), tl.load(diagonal + lane)
    lv, hv, bv = tl.load(low + lane), tl.load(high + lane), tl.load(beta + lane)
    violation = tl.max(tl.where(bv < hv, ev, -FAR), 0) - tl.min(tl.where(bv > lv, ev, FAR), 0)
    stop = tl.maximum(share * violation, 0.0)
    left = most
    while violation > stop:
        for _ in range(MOVES):
            top, i = tl.max(tl.where(bv < hv, ev, -FAR), 0, return_indices=True)
            Ki, own = tl.load(K + i * Q + lane), tl.load(diagonal + i)
            d = top - ev
            gain = tl.where((bv > lv) & (d > 0), d * d / tl.maximum(own + dv - 2.0 * Ki, TAU), 0.0)
            best, j = tl.max(gain, 0, return_indices=True)
            Kj = tl.load(K + j * Q + lane)
            curvature = tl.maximum(own + tl.load(diagonal + j) - 2.0 * tl.load(K + i * Q + j), TAU)
            up, down = hv - bv, bv - lv
            room = tl.min(tl.where(lane == i, up, tl.where(lane == j, down, FAR)), 0)
            t = tl.where(best > 0.0, tl.minimum(tl.sqrt(best / curvature).to(tl.float64), room), 0.0)
            # a variable that reached its bound stands on it exactly
            risen, fallen = tl.where(t >= up, hv, bv + t), tl.where(t >= down, lv, bv - t)
            bv = tl.where(t > 0.0, tl.where(lane == i, risen, tl.where(lane == j, fallen, bv)), bv)
            ev -= t.to(tl.float32) * (Ki - Kj)
        violation = tl.max(tl.where(bv < hv, ev, -FAR), 0) - tl.min(tl.where(bv > lv, ev, FAR), 0)
        left -= MOVES
        violation = tl.where(left > 0, violation, stop)
    tl.store(beta + lane, bv)
    tl.store(moved, tl.load(moved) + most - left)


@triton.jit
def singles(K, diagonal, e, low, high, beta, moved, share, most, Q: tl.constexpr):
    """Maximise the dual over Q variables one at a time, largest gain first; changes beta and moved."""
    lane = tl.arange(0, Q)
    ev, dv = tl.load(e + lane), tl.maximum(tl.load(diagonal + lane), TAU)
    lv, hv, bv = tl.load(low + lane), tl.load(high + lane), tl.load(beta + lane)
    violation = tl.max(tl.where(((ev > 0) & (bv < hv)) | ((ev < 0) & (bv > lv)), tl.abs(ev), 0.0), 0)
    stop = share * violation
    left = most
    while violation > stop:
        for _ in range(MOVES):
            t = tl.minimum(tl.maximum((ev / dv).to(tl.float64), lv - bv), hv - bv)
            t32 = t.to(tl.float32)
            best, i = tl.max(t32 * ev - 0.5 * t32 * t32 * dv, 0, return_indices=True)
            t = tl.where(lane == i, tl.where(best > 0.0, t, 0.0), 0.0)
            moves = tl.sum(t, 0)
            bv = tl.where(t == 0.0, bv, tl.where(t >= hv - bv, hv, tl.where(t <= lv - bv, lv, bv + t)))
            ev -= moves.to(tl.float32) * tl.load(K + i * Q + lane)
        violation = tl.max(tl.where(((ev > 0) & (bv < hv)) | ((ev < 0) & (bv > lv)), tl.abs(ev), 0.0), 0)
        left -= MOVES
        violation = tl.where(left > 0, violation, stop)
    tl.store(beta + lane, bv)
    tl.store(moved, tl.load(moved) + most - left)


@triton.jit
def add_rows(rows, slots, change, f, n, Q: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """f += Σ change × row over Q slots of a cache, in float64, in place; WIDTH columns by each program."""
    columns = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = columns < n
    total = tl.zeros((HEIGHT, WIDTH), tl.float64)
    for first in range(0, Q, HEIGHT):
        some = first + tl.arange(0, HEIGHT)
        slot, factor = tl.load(slots + some), tl.load(change + some)
        used = (factor != 0.0)[:, None] & inside[None, :]
        values = tl.load(rows + slot[:, None] * n + columns[None, :], mask=used, other=0.0)
        total += factor[:, None] * values.to(tl.float64)
    tl.store(f + columns, tl.load(f + columns, mask=inside) + tl.sum(total, 0), mask=inside)
