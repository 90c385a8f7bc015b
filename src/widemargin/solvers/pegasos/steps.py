"""The compiled steps of Pegasos, and the iterate, average and dual point that they change in place."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...core.borrowing import borrow
from ...core.compiling.dispatch import apart, compiled, generic, inlined
from ...core.losses import losses
from ...core.losses.bias import balanced_slopes
from ...core.losses.step_sizes import StepSize, step_size
from ...core.rows.rows import prefetch_rows, row_add, row_norm2, row_scores, row_size, touch
from ...files import savable
from ...schemas import FLOATS, Array

SMALLEST_SCALE = 1e-3  # a smaller scale of v is folded into v

PerOutput = Annotated[np.ndarray, Array("outputs")]
#: Sums of ω_t: since the last restart of the average, of the span before; and the step of the next restart.
SPANS = np.dtype([("now", float), ("before", float), ("restart", float)])
#: Weights ρ of visits: the sum over past epochs of their largest, the largest of this epoch, that of the last step.
VISITS = np.dtype([("past", float), ("epoch", float), ("last", float)])


@savable("Pegasos.Iterate")
class Iterate(NamedTuple):
    """w_c = scale[c]·V[:, c] with bias b[c]; norm2[c] = ‖w_c‖² (with b_c² if regularised) if projected."""

    V: Annotated[np.ndarray, Array("d", "outputs", dtype=FLOATS)]
    scale: PerOutput
    b: PerOutput
    norm2: PerOutput


@savable("Pegasos.Average")
class Average(NamedTuple):
    """Σ ω_t w_t = S·V + U since the last restart; ``previous``: the span before; :data:`SPANS` names the weights."""

    U: Annotated[np.ndarray, Array((0, "d"), "outputs", dtype=FLOATS)]
    S: PerOutput
    b: PerOutput
    previous: Annotated[np.ndarray, Array((0, "d"), "outputs", dtype=FLOATS)]
    previous_b: PerOutput
    weights: Annotated[np.ndarray, Array(3)]

    def _to_parts(self) -> dict[str, Any]:
        return {**self._asdict(), "weights": self.weights.view(float)}

    @classmethod
    def _from_parts(cls, **parts: Any) -> Average:
        return cls(**{**parts, "weights": parts["weights"].view(SPANS)})


@savable("Pegasos.Dual")
class Dual(NamedTuple):
    """The dual point behind w: A for each output (a joint loss has it in the first); :data:`VISITS` names the weights.

    The weight of past epochs is NaN where w is not made of such visits alone.
    """

    A: Annotated[np.ndarray, Array("outputs", finite=False)]
    weights: Annotated[np.ndarray, Array(3, finite=False)]

    @classmethod
    def of(cls, outputs: int, known: bool = True) -> Dual:
        """The dual point of w = 0, or of any w."""
        return cls(np.zeros(outputs), np.array([(0.0 if known else math.nan, 0.0, 0.0)], VISITS))

    def _to_parts(self) -> dict[str, Any]:
        return {"A": self.A, "weights": self.weights.view(float)}

    @classmethod
    def _from_parts(cls, A: np.ndarray, weights: np.ndarray) -> Dual:
        return cls(A, weights.view(VISITS))

    @property
    def most(self) -> np.float64:
        """Bound of an example's weight in all, 0 before the first step; NaN where there is no bound."""
        return self.weights[0]["past"] + self.weights[0]["epoch"]

    def end_epoch(self, largest: float) -> None:
        """Begin an epoch whose largest weight is the given one, in place."""
        self.weights[0]["past"], self.weights[0]["epoch"] = self.most, largest


class PegasosRule(NamedTuple):
    """The values that shape a step, constant through a call of the loop.

    A bias may be there, be a constant feature, or be the best one of each batch. Averages have weights of 1, or of t.
    """

    lam: float
    step: StepSize
    smoothness: float
    projected: bool
    tied: bool
    has_bias: bool
    regularized: bool
    exact: bool
    balance: AsFound | Balanced
    averaged: bool
    suffix: bool
    weighted: bool


@apart
def _fold(w, average, c, averaged):
    """Make scale[c] = 1 and S[c] = 0, in place; neither w nor the average changes."""
    for j in range(w.V.shape[0]):
        if averaged:
            average.U[j, c] += average.S[c] * w.V[j, c]
        w.V[j, c] *= w.scale[c]
    average.S[c] = 0.0
    w.scale[c] = 1.0


@inlined
def _restart_average(w, average):
    """Close the span of a suffix average at this step, in place."""
    for c in range(w.b.size):
        _fold(w, average, c, True)
        average.previous_b[c] = average.b[c]
        average.b[c] = 0.0
        for j in range(w.V.shape[0]):
            average.previous[j, c] = average.U[j, c]
            average.U[j, c] = 0.0
    spans = average.weights[0]
    spans["before"] = spans["now"]
    spans["now"] = 0.0
    spans["restart"] *= 2.0


@apart
def _norm2(w, c, regularized_bias):
    total = 0.0
    for j in range(w.V.shape[0]):
        entry = np.float64(w.V[j, c])
        total += entry * entry
    total *= w.scale[c] * w.scale[c]
    if regularized_bias:
        total += w.b[c] * w.b[c]
    return total


@inlined
def _fold_small_scales(rule, w, average):
    """Fold the scales that have become small, in place, and compute the norms anew."""
    for c in range(w.b.size):
        if w.scale[c] < SMALLEST_SCALE:
            _fold(w, average, c, rule.averaged)
            if rule.projected:
                w.norm2[c] = _norm2(w, c, rule.regularized)


class Visits(NamedTuple):
    """The examples that a call visits: rows, targets, weights (empty: all ones) and their order, ``batch`` a step."""

    X: Any
    y: np.ndarray
    s: np.ndarray
    order: np.ndarray
    batch: int


class PegasosScratch(NamedTuple):
    """Working space: scores z and slopes g of one row; Σ sᵢℓ*(gᵢ) of a batch for each output; Z, G, targets y and
    weights s of a batch; and what :func:`balanced_slopes` works with.
    """

    z: np.ndarray
    g: np.ndarray
    conjugates: np.ndarray
    Z: np.ndarray
    G: np.ndarray
    y: np.ndarray
    s: np.ndarray
    scores: np.ndarray
    own: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, batch: int, outputs: int) -> PegasosScratch:
        """Room for a batch."""
        return cls(*np.empty((3, outputs)), *np.empty((2, batch, outputs)), *np.empty((5, batch)))


@inlined
def _find_slopes(visits, first, target, rule, w, space):
    """space.G ← weighted slopes at w of the batch at places ``first`` and on, and space.conjugates ← their conjugates;
    with an exact bias, its scores instead.

    Returns (Σ weight × ‖x‖² of the batch if the loss is not Lipschitz, entries of X read).
    """
    X, y, s, order, batch = visits.X, visits.y, visits.s, visits.order, visits.batch
    z, Y, weight = space.z, space.y, space.s
    outputs, V = losses.output_count(target, z), losses.output_columns(target, w.V)
    curvature, reads = 0.0, 0
    for c in range(outputs):
        space.conjugates[c] = 0.0
    for r in range(batch):
        prefetch_rows(X, order, first + r, order.size)
        touch(y, s, order, first + r, order.size)
        i = order[first + r]
        reads += row_size(X, i)
        row_scores(X, i, V, z)
        weight[r] = s[i] if s.size else 1.0
        for c in range(outputs):
            z[c] = w.scale[c] * z[c]
            if not rule.exact:
                z[c] += w.b[c]
        if rule.smoothness > 0.0:
            heaviest = 0.0
            for c in range(outputs):
                heaviest = max(heaviest, losses.output_weight(target, y[i], c))
            curvature += weight[r] * heaviest * (row_norm2(X, i) + rule.has_bias)
        if rule.exact:
            Y[r] = y[i]
            for c in range(outputs):
                space.Z[r, c] = z[c]
        else:
            losses.slopes(target, z, y[i], space.g)
            losses.output_conjugates(target, space.g, y[i], weight[r], space.conjugates)
            for c in range(outputs):
                space.G[r, c] = weight[r] * space.g[c]
    return curvature, reads


class AsFound(NamedTuple):
    """Slopes of a batch are those at w and b."""


class Balanced(NamedTuple):
    """b is the best bias of each batch, and the slopes are those there."""


@generic
def balance(how, target, b, space):
    """space.G, b ← the slopes of a batch and its bias, in place."""


@balance.case(AsFound)
def keep_as_found(how, target, b, space):
    pass


@balance.case(Balanced)
def balance_batch(how, target, b, space):
    balanced_slopes(target, space.Z, space.y, space.s, b, space.G, space.scores, space.own, space.weight)


@inlined
def _step_size(rule, t, curvature, batch):
    """η_t, no longer than a smooth loss of this curvature allows."""
    eta = step_size(rule.step, t)
    if curvature > 0.0:
        eta = min(eta, batch / (rule.smoothness * curvature))
    return eta


@inlined
def _add_to_average(rule, t, outputs, w, average):
    """Add w_t to the average, in place."""
    omega = float(t) if rule.weighted else 1.0
    average.weights[0]["now"] += omega
    for c in range(outputs):
        average.S[c] += omega * w.scale[c]
        average.b[c] += omega * w.b[c]


@inlined
def _shrink(rule, by, outputs, w):
    """w ← by·w, in place; returns the smallest scale."""
    smallest = 1.0
    for c in range(outputs):
        w.scale[c] *= by
        w.norm2[c] *= by * by
        if rule.regularized:
            w.b[c] *= by
        smallest = min(smallest, w.scale[c])
    return smallest


@inlined
def _add_row(X, i, target, rule, w, average, space):
    """w ← w + xᵢgᵀ for g = space.g, in place; the average does not change."""
    z, g, V = space.z, space.g, losses.output_columns(target, w.V)
    outputs = losses.output_count(target, z)
    if rule.projected:
        row_scores(X, i, V, z)
        x2 = row_norm2(X, i)
        for c in range(outputs):
            w.norm2[c] += g[c] * (2.0 * w.scale[c] * z[c] + g[c] * x2)
            if rule.regularized:
                w.norm2[c] += g[c] * (2.0 * w.b[c] + g[c])
    if rule.has_bias and not rule.exact:
        for c in range(outputs):
            w.b[c] += g[c]
    for c in range(outputs):
        g[c] /= w.scale[c]
    row_add(X, i, g, V)
    if rule.averaged:
        for c in range(outputs):
            g[c] *= -average.S[c]
        row_add(X, i, g, losses.output_columns(target, average.U))


@inlined
def _project(rule, radius2, outputs, w, dual):
    """Scale w back onto the ball of each output, or of all of them where a joint loss ties them, and A, in place."""
    total = 0.0
    for c in range(outputs):
        total += w.norm2[c]
    for c in range(outputs):
        norm2 = total if rule.tied else w.norm2[c]
        if norm2 > radius2[c]:
            onto = math.sqrt(radius2[c] / norm2)
            w.scale[c] *= onto
            w.norm2[c] *= onto * onto
            dual.A[c] *= onto
            if rule.regularized:
                w.b[c] *= onto


@compiled
def take_steps(visits, target, t, w, average, dual, rule, radius2, space):
    """Take a Pegasos step after step t for each batch of the visits, changing w, average and dual in place.

    Returns (visits with a non-zero slope, entries of X read).
    """
    visits, w, average, dual, space = borrow(visits), borrow(w), borrow(average), borrow(dual), borrow(space)
    order, batch, g = visits.order, visits.batch, space.g
    outputs = losses.output_count(target, g)
    updates, reads = 0, 0
    seen = dual.weights[0]
    past, present, rho = seen["past"], seen["epoch"], seen["last"]
    for first in range(0, order.size - batch + 1, batch):
        t += 1
        # slopes at w_t for the whole batch, before anything moves
        curvature, read = _find_slopes(visits, first, target, rule, w, space)
        reads += read
        balance(rule.balance, target, w.b, space)
        eta = _step_size(rule, t, curvature, batch)
        if rule.suffix and t >= average.weights[0]["restart"]:
            _restart_average(w, average)
        if rule.averaged:
            _add_to_average(rule, t, outputs, w, average)
        by, share = 1.0 - eta * rule.lam, eta / batch
        if _shrink(rule, by, outputs, w) < SMALLEST_SCALE:
            _fold_small_scales(rule, w, average)
        rho = rule.lam * share
        past, present = by * past, max(by * present, rho)
        for c in range(outputs):
            dual.A[c] = by * dual.A[c] - rho * space.conjugates[c]
        for r in range(batch):
            moved = False
            for c in range(outputs):
                g[c] = -share * space.G[r, c]
                moved = moved or g[c] != 0.0
            if moved:
                updates += 1
                _add_row(visits.X, order[first + r], target, rule, w, average, space)
        if rule.projected:
            _project(rule, radius2, outputs, w, dual)
    seen["past"], seen["epoch"], seen["last"] = past, present, rho
    return updates, reads
