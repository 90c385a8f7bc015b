"""Triton programs of the SMO solver on a GPU, and of kernel rows.

A round of the solver (see :mod:`.smo`) runs

1. :func:`extremes` and :func:`ranks` over all variables, to rank them by violation;
2. :func:`collect`, which gathers the kernel values of the working set;
3. :func:`pairs` or :func:`singles`, which solves the working set;
4. :func:`add_rows`, which adds the change to all responses.

The arrays have a line for each problem, and a program works on one line. The variables are β = σα between ``low`` and
``high``, one of which is 0, so the bounds imply the sign σ. e is the gradient of the dual minus the bias, in float32,
which suffices to compare violations. β, the responses and the terms of certificates are float64, so that rounding
errors do not add up over rounds. Padding has low = high = 0 and never moves.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Moves between two looks at the largest violation. A look costs about as much as a move.
MOVES: tl.constexpr = tl.constexpr(8)
#: The least curvature of a direction. Indefinite kernels may have smaller ones.
TAU: tl.constexpr = tl.constexpr(1e-12)
#: Larger than any gradient of a variable.
FAR: tl.constexpr = tl.constexpr(1e38)
#: Less than any violation: the rank of variables that are at their bound.
LOW: tl.constexpr = tl.constexpr(-3e38)
INFINITY: tl.constexpr = tl.constexpr(float("inf"))


@triton.jit
def gradients(h, f, at, line, own, inside, width, tall, TWICE: tl.constexpr):
    """h − f of some variables of a line. If examples have two variables, ``at`` is the example of a variable."""
    place = own
    if TWICE:
        place = tl.load(at + line * width + own, mask=inside, other=0)
    return tl.load(h + line * width + own, mask=inside, other=0.0) - tl.load(f + line * tall + place, mask=inside)


@triton.jit
def extremes(h, f, at, low, high, beta, ends, width, tall, TWICE: tl.constexpr, WIDTH: tl.constexpr):
    """ends ← (largest gradient of variables that can rise, smallest of those that can fall), for a part of a line."""
    line, own = tl.program_id(1).to(tl.int64), tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside, here = own < width, line * width + own
    e = gradients(h, f, at, line, own, inside, width, tall, TWICE)
    b, l, u = (
        tl.load(beta + here, mask=inside, other=0.0),
        tl.load(low + here, mask=inside, other=0.0),
        tl.load(high + here, mask=inside, other=0.0),
    )
    out = ends + (line * tl.num_programs(0) + tl.program_id(0)) * 2
    tl.store(out, tl.max(tl.where(b < u, e, -INFINITY), 0))
    tl.store(out + 1, tl.min(tl.where(b > l, e, INFINITY), 0))


@triton.jit(do_not_specialize=["clock"])
def ranks(
    h, f, at, low, high, beta, ends, keys, fresh, age, clock, e32, rises, falls, sums, width, tall,
    FREE_BIAS: tl.constexpr, TWICE: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Rank the variables of a line by violation, and sum up its certificate.

    e32 ← the gradient minus the bias, which is the middle of the line's extremes. rises, falls ← the violations, or the
    keys in the first round; −∞ for variables that are in the working set anyway. sums ← (gap, dual value, bias, largest
    violation) of each part of the line.
    """
    line, own = tl.program_id(1).to(tl.int64), tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside, here, part, count = own < width, line * width + own, tl.arange(0, PARTS), tl.num_programs(0)
    known = ends + (line * count + part) * 2
    top = tl.max(tl.load(known, mask=part < count, other=-INFINITY), 0)
    bottom = tl.min(tl.load(known + 1, mask=part < count, other=INFINITY), 0)
    bias, violation = 0.0 * tl.load(f + line * tall), tl.maximum(top, -bottom)
    if FREE_BIAS:
        violation = top - bottom
        # the finite end where the interval has only one
        middle = tl.where(top == -INFINITY, bottom, tl.where(bottom == INFINITY, top, 0.5 * (top + bottom)))
        bias = tl.where(tl.abs(middle) == INFINITY, bias, middle)
    e = gradients(h, f, at, line, own, inside, width, tall, TWICE) - bias
    b, l, u = (
        tl.load(beta + here, mask=inside, other=0.0),
        tl.load(low + here, mask=inside, other=0.0),
        tl.load(high + here, mask=inside, other=0.0),
    )
    # C[σe]₊ is e times β at the bound in the direction of e
    gap = tl.sum(tl.where(inside, tl.where(e > 0.0, u, l) * e - b * e, 0.0), 0)
    hv = tl.load(h + here, mask=inside, other=0.0)
    dual = tl.sum(tl.where(inside, b * (hv - 0.5 * (hv - e - bias)), 0.0), 0)
    out = sums + (line * count + tl.program_id(0)) * 4
    tl.store(out, gap)
    tl.store(out + 1, dual)
    tl.store(out + 2, bias)
    tl.store(out + 3, violation)
    near = e.to(tl.float32)
    tl.store(e32 + here, near, mask=inside)
    rise, fall = near, -near
    if KEYS:
        key, first = tl.load(keys + here, mask=inside), tl.load(fresh + line) != 0
        rise, fall = tl.where(first, key, rise), tl.where(first, key, fall)
    taken = tl.load(age + here, mask=inside, other=0) == clock
    tl.store(rises + here, tl.where(taken, -INFINITY, tl.where(b < u, rise, LOW)), mask=inside)
    tl.store(falls + here, tl.where(taken, -INFINITY, tl.where(b > l, fall, LOW)), mask=inside)


@triton.jit(do_not_specialize=["clock", "count"])
def request(wanted, slot_of, used, asked, clock, count, WIDTH: tl.constexpr):
    """Mark wanted rows of a cache as used now, or as missing."""
    own = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = own < count
    row = tl.load(wanted + own, mask=inside, other=0)
    slot = tl.load(slot_of + row, mask=inside, other=-1)
    tl.store(used + slot, clock, mask=inside & (slot >= 0))
    tl.store(asked + row, clock, mask=inside & (slot < 0))


@triton.jit
def collect(rows, slot_of, examples, constant, n, slots, K, Q: tl.constexpr, HEIGHT: tl.constexpr):
    """K ← kernel values plus a constant among the examples of a line's working set; slots ← their slots."""
    line, own, lane = tl.program_id(1).to(tl.int64), tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT), tl.arange(0, Q)
    slot = tl.load(slot_of + tl.load(examples + line * Q + own))
    tl.store(slots + line * Q + own, slot)
    columns = tl.load(examples + line * Q + lane)
    values = tl.load(rows + slot[:, None] * n + columns[None, :])
    tl.store(K + line * Q * Q + own[:, None] * Q + lane[None, :], values + constant)


@triton.jit
def pairs(
    K, chosen, e, low, high, beta, change, keep, moved, width, share, least, most, Q: tl.constexpr
):  # fmt: skip
    """Maximise the dual over the Q chosen variables of a line, by pairs of second-order selection that keep Σβ.

    Stops when the violation has fallen to a share of its first value, or, before ``least`` moves, to the square of that
    share. Changes beta and moved; the variables with the largest ``keep`` are in the next working set again.
    """
    line, lane = tl.program_id(0).to(tl.int64), tl.arange(0, Q)
    K, whole = K + line * Q * Q, line * width + tl.load(chosen + line * Q + lane)
    ev, dv = tl.load(e + whole), tl.load(K + lane * Q + lane)
    lv, hv, start = tl.load(low + whole), tl.load(high + whole), tl.load(beta + whole)
    bv = start
    violation = tl.max(tl.where(bv < hv, ev, -FAR), 0) - tl.min(tl.where(bv > lv, ev, FAR), 0)
    stop = tl.maximum(share * violation, 0.0)
    done = 0
    while violation > tl.where(done < least, share * stop, stop):
        for _ in range(MOVES):
            top, i = tl.max(tl.where(bv < hv, ev, -FAR), 0, return_indices=True)
            Ki, Kii = tl.load(K + i * Q + lane), tl.load(K + i * Q + i)
            d = top - ev
            gain = tl.where((bv > lv) & (d > 0), d * d / tl.maximum(Kii + dv - 2.0 * Ki, TAU), 0.0)
            best, j = tl.max(gain, 0, return_indices=True)
            Kj = tl.load(K + j * Q + lane)
            curvature = tl.maximum(Kii + tl.load(K + j * Q + j) - 2.0 * tl.load(K + i * Q + j), TAU)
            up, down = hv - bv, bv - lv
            room = tl.min(tl.where(lane == i, up, tl.where(lane == j, down, FAR)), 0)
            # two roots, because best / curvature would be 0 in float32 for kernel values above 1e22
            t = tl.where(best > 0.0, tl.minimum((tl.sqrt(best) / tl.sqrt(curvature)).to(tl.float64), room), 0.0)
            # a variable that reaches its bound is set to it exactly
            risen, fallen = tl.where(t >= up, hv, bv + t), tl.where(t >= down, lv, bv - t)
            bv = tl.where(t > 0.0, tl.where(lane == i, risen, tl.where(lane == j, fallen, bv)), bv)
            ev -= t.to(tl.float32) * (Ki - Kj)
        violation = tl.max(tl.where(bv < hv, ev, -FAR), 0) - tl.min(tl.where(bv > lv, ev, FAR), 0)
        done += MOVES
        violation = tl.where(done < most, violation, 0.0)
    finish(beta, change, keep, moved, line, lane, whole, start, bv, lv, hv, done, Q)


@triton.jit
def singles(
    K, chosen, e, low, high, beta, change, keep, moved, width, share, least, most, Q: tl.constexpr
):  # fmt: skip
    """As :func:`pairs`, but one variable at a time, largest gain first: for problems without a free bias."""
    line, lane = tl.program_id(0).to(tl.int64), tl.arange(0, Q)
    K, whole = K + line * Q * Q, line * width + tl.load(chosen + line * Q + lane)
    ev, dv = tl.load(e + whole), tl.maximum(tl.load(K + lane * Q + lane), TAU)
    lv, hv, start = tl.load(low + whole), tl.load(high + whole), tl.load(beta + whole)
    bv = start
    violation = tl.max(tl.where(((ev > 0) & (bv < hv)) | ((ev < 0) & (bv > lv)), tl.abs(ev), 0.0), 0)
    stop = share * violation
    done = 0
    while violation > tl.where(done < least, share * stop, stop):
        for _ in range(MOVES):
            t = tl.minimum(tl.maximum((ev / dv).to(tl.float64), lv - bv), hv - bv)
            t32 = t.to(tl.float32)
            best, i = tl.max(t32 * (ev - 0.5 * (t32 * dv)), 0, return_indices=True)
            t = tl.where(lane == i, tl.where(best > 0.0, t, 0.0), 0.0)
            moves = tl.sum(t, 0)
            bv = tl.where(t == 0.0, bv, tl.where(t >= hv - bv, hv, tl.where(t <= lv - bv, lv, bv + t)))
            ev -= moves.to(tl.float32) * tl.load(K + i * Q + lane)
        violation = tl.max(tl.where(((ev > 0) & (bv < hv)) | ((ev < 0) & (bv > lv)), tl.abs(ev), 0.0), 0)
        done += MOVES
        violation = tl.where(done < most, violation, 0.0)
    finish(beta, change, keep, moved, line, lane, whole, start, bv, lv, hv, done, Q)


@triton.jit
def finish(beta, change, keep, moved, line, lane, whole, start, bv, lv, hv, done, Q: tl.constexpr):
    """Store the solution of a working set. Free variables are kept first, then those that changed most."""
    delta = bv - start
    size = tl.abs(delta) / tl.maximum(tl.max(tl.abs(delta), 0), 1e-300)
    tl.store(beta + whole, bv)
    tl.store(change + line * Q + lane, delta)
    tl.store(keep + line * Q + lane, tl.where((bv > lv) & (bv < hv), 1.0 + size, size).to(tl.float32))
    tl.store(moved + line, tl.load(moved + line) + done)


@triton.jit
def add_rows(rows, slots, change, examples, f, n, tall, Q: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """f += Σ change × row over Q slots of a cache, in float64, in place, at WIDTH examples of a line."""
    line, own = tl.program_id(1).to(tl.int64), tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside, slots, change = own < tall, slots + line * Q, change + line * Q
    here = line * tall + own
    columns = tl.load(examples + here, mask=inside, other=0)
    total = tl.zeros((HEIGHT, WIDTH), tl.float64)
    for first in range(0, Q, HEIGHT):
        some = first + tl.arange(0, HEIGHT)
        slot, factor = tl.load(slots + some), tl.load(change + some)
        used = (factor != 0.0)[:, None] & inside[None, :]
        values = tl.load(rows + slot[:, None] * n + columns[None, :], mask=used, other=0.0)
        total += factor[:, None] * values.to(tl.float64)
    tl.store(f + here, tl.load(f + here, mask=inside) + tl.sum(total, 0), mask=inside)


@triton.jit
def gaussian_rows(products, down, along, norms2, examples, slots, rows, n, gamma, WIDTH: tl.constexpr):
    """Rows of a cache ← exp(−γ‖x − z‖²) from products ⟨x, z⟩ of some examples with all n; exactly 1 for z = x.

    ``down`` and ``along`` are the strides of the products.
    """
    line, column = tl.program_id(1), tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside, slot, example = column < n, tl.load(slots + line), tl.load(examples + line)
    product = tl.load(products + line.to(tl.int64) * down + column.to(tl.int64) * along, mask=inside)
    distance = tl.load(norms2 + example) + tl.load(norms2 + column, mask=inside) - 2.0 * product
    distance = tl.where(column == example, 0.0, tl.maximum(distance, 0.0))
    tl.store(rows + slot * n + column, tl.exp(-gamma * distance), mask=inside)


@triton.jit
def gaussian_sums(
    products, down, along, own, norms2, weights, out, count, gamma, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """out ← Σ weight × exp(−γ‖x − z‖²) in float64, for HEIGHT rows x over WIDTH vectors z, from products ⟨x, z⟩.

    ``down`` and ``along`` are the strides of the products.
    """
    line, column = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT), tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside, rows = column < count, tl.num_programs(0) * HEIGHT
    places = line.to(tl.int64)[:, None] * down + column.to(tl.int64)[None, :] * along
    product = tl.load(products + places, mask=inside[None, :], other=0.0)
    near = tl.load(norms2 + column, mask=inside, other=0.0)
    distance = tl.maximum(tl.load(own + line)[:, None] + near[None, :] - 2.0 * product, 0.0)
    weight = tl.load(weights + column, mask=inside, other=0.0)
    values = tl.exp(-gamma * distance).to(tl.float64) * weight[None, :]
    tl.store(out + tl.program_id(1).to(tl.int64) * rows + line, tl.sum(values, 1))


@triton.jit
def sparse_products(starts, columns, data, block, out, n, ROWS: tl.constexpr, HEIGHT: tl.constexpr):
    """out[z, :] ← Σ z_c block[c, :] over the stored entries of ROWS sparse rows z, in order, for HEIGHT columns."""
    lane = tl.arange(0, HEIGHT)
    for own in range(ROWS):
        row = tl.program_id(0) * ROWS + own
        if row < n:
            total = tl.zeros((HEIGHT,), data.dtype.element_ty)
            for place in range(tl.load(starts + row), tl.load(starts + row + 1)):
                column = tl.load(columns + place).to(tl.int64)
                total += tl.load(data + place) * tl.load(block + column * HEIGHT + lane)
            tl.store(out + row.to(tl.int64) * HEIGHT + lane, total)
