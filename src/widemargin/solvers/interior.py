"""Interior point: exact linear machines on narrow data, in about thirty passes for any C and any sizes of features.

Problem, in the C-form: rows zᵢ (xᵢ, and a constant 1 for an intercept), weights w of as many entries, D = I but for a 0
at the place of a free intercept (which demands Σ β = 0), and one or two *variables* v of each example::

    min over w   ½ wᵀDw + Σ cap_v max(0, p_v − σ_v⟨w, z_v⟩)^(1 or 2),
    max over α   Σ (p_vα_v − q_vα_v²/2) − ½ wᵀDw,      0 ≤ α_v ≤ u_v,      Dw = Zᵀβ with β = Σ σ_vα_v of an example.

==================  ==========================  =================  ==================  ========
loss                variables                   p_v                upper bound u_v     q_v
==================  ==========================  =================  ==================  ========
hinge               σ = y                       1                  C sᵢ                0
squared hinge       σ = y                       1                  none                1/(2C sᵢ)
ε-insensitive       σ = ±1                      σy − ε             C sᵢ                0
its square          σ = ±1                      σy − ε             none                1/(2C sᵢ)
==================  ==========================  =================  ==================  ========

Given: a linear problem whose examples lie in one part or in several (:class:`Part`).

State (:class:`InteriorState`): w, and for each variable α, the room r = u − α, and multipliers l and m of the two. w
and r are kept, because sums Σ βᵢzᵢ of large features, and u − α next to a bound, would cancel their digits.

Step (Mehrotra; Ferris and Munson): a predictor and a corrector for the conditions ::

    σ⟨w, z⟩ + qα − p = l − m,      Dw = Zᵀβ,      αl = τ,      rm = τ → 0.

With Θ = q + l/α + m/r and ρ = p − σ⟨w, z⟩ − qα the equations reduce to as many as w has entries::

    (D + ZᵀΘ̄⁻¹Z) Δw = Zᵀβ − Dw + Σ σ_vz_v(ρ_v + δ_v)/Θ_v,      Θ̄⁻¹ᵢ = Σ 1/Θ_v over the variables of example i,
    Δα = (ρ + δ − σ⟨Δw, z⟩)/Θ,      Δl = −l − (e_l − τ + lΔα)/α,      Δm = −m − (e_m − τ − mΔα)/r.

The predictor has δ = e = τ = 0. τ of the corrector is a share of the mean of all αl and rm: the share of Σ αl + rm that
the predictor would leave, to the third power and at most 0.4. The corrector has e_l = ΔαΔl and e_m = −ΔαΔm of the
predictor, kept within six times that mean because such products mislead far from the optimum, and
δ = (τ − e_l)/α − (τ − e_m)/r. The corrector is followed 0.995 of the way to the nearest bound.

The log-loss needs no multipliers: α = C s/(1 + exp(y⟨w, z⟩)) follows from w. So ρ = 0 and Θ̄⁻¹ = αr/u, and the equations
are Newton's. From 1, the length of their step is shortened by the rule of false position until the slope is at most a
tenth of the first slope. In the dual value the entropy −u((α/u) log(α/u) + (r/u) log(r/u)) takes the place of pα. For
0 ≤ θ ≤ 1 the entropy of θα is at least θ times that of α, so bounds stay bounds.

Parts hold some rows with their variables, and reply with sums. A step is three messages to all parts (predict, correct,
move), and the reply to the last one has the certificate of the new point. For the log-loss ``slope`` takes the place of
the first two, once for each length that is tried.

Cost of a step: O(nd²), or O(nk²) for sparse rows of k entries, and O(d³) to solve the equations.

Ferris, Munson: Interior-point methods for massive support vector machines. SIAM J. Optimization 13 (2002).
Mehrotra: On the implementation of a primal-dual interior point method. SIAM J. Optimization 2 (1992).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import expit

from ..core.borrowing import borrow
from ..core.compiling.dispatch import compiled, inlined
from ..core.losses import losses
from ..core.rows.rows import CSRRows, DenseRows, as_matrix, row_scores, some_rows
from ..core.threads.blas import all_blas_threads
from ..core.threads.interrupts import safe_place, unless_told
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Problem
from ..problems.objective import Certificate, rounding_of_sum
from ..problems.parts import LocalParts
from ..schemas import SCHEMAS, Array, Each, Either, Own, Row, Within, blank
from . import protocol
from .parts import HeldByParts
from .protocol import Solver
from .sdca import add_combination

#: The sums of a certificate for each output: the loss; Σ pα and Σ qα² of the variables with σ > 0 (up) and with σ < 0
#: (down); Σ αl + rm and the number of its terms; the rounding of the loss; Σ |β|‖z‖.
_SUMS = ("loss", "up", "down", "up2", "down2", "complementarity", "terms", "rounding", "pulled")
MEASURED = np.dtype((np.record, [(name, np.float64) for name in _SUMS]))
MEASURES = len(_SUMS)

# Measured by `python -m benchmarks.micro.interior`.
WIDEST = 2000  # most features by default, because a step solves as many equations
WIDE = 400  # features from which products are worth BLAS's threads
TO_THE_BOUND = 0.995  # share of the way to the nearest bound that a step takes
TRUSTED = 6.0  # the corrector's products are kept within so many times the mean of αl and rm
START = 0.25  # share of its box at which α starts
MOST_CENTRED = 0.4  # largest τ as a share of that mean; on degenerate data a short predictor says little
ENTRIES_AT_ONCE = 2**17  # entries of the data that are weighted at a time
LONG = 2**31  # operations of a step from which Ctrl-C and limits of time end the step itself
DENSE_FROM = 0.25  # share of non-zeros from which blocks of sparse rows are made dense, whose products are cheaper
SHORTEST = 1e-10  # a shorter step is no step
FLATTER = 0.1  # slope after a step on the log-loss, as a share of the slope before
LENGTHS = 10  # lengths that are tried for such a step
CLOSED = 1e-13  # gap as a share of the objective at which an output is finished

# ---------------------------------------------------------------- the variables of an example


class InteriorRule(NamedTuple):
    """The loss: one variable of an example for each side, with upper bounds or, if ``squared``, without; and ε."""

    sides: int
    squared: bool
    epsilon: float

    @classmethod
    def of(cls, loss: Any) -> InteriorRule:
        """The rule of a loss."""
        return cls(2 if loss.is_regression else 1, loss.smoothness < math.inf, float(getattr(loss, "epsilon", 0.0)))


class Rows(NamedTuple):
    """Targets, caps C sᵢ and scores ⟨w, zᵢ⟩ of some examples."""

    y: np.ndarray
    cap: np.ndarray
    z: np.ndarray


OfSides = Annotated[np.ndarray, Either(Array("outputs", "n", "sides"), Array("n", "sides"))]
Bounded = Annotated[np.ndarray, Either(Array("outputs", "n", "bounds"), Array("n", "bounds"))]


@savable("Interior.Variables")
class Variables(NamedTuple):
    """α, the room r, and the multipliers l and m, of shape (outputs, n, sides), or (n, sides) for one output.

    Without upper bounds ``room`` and ``upper`` have no sides.
    """

    alpha: OfSides
    room: Bounded
    lower: OfSides
    upper: Bounded


class Move(NamedTuple):
    """The predictor's and the corrector's changes of the scores, the bound of e, and τ."""

    first: np.ndarray
    second: np.ndarray
    bound: float
    tau: float


@inlined
def side(rule, y, k):
    """(σ, p) of the variable k of an example."""
    if rule.sides == 1:
        return y, 1.0
    sigma = 1.0 - 2.0 * k
    return sigma, sigma * y - rule.epsilon


@inlined
def at(rule, rows, v, i, k):
    """(σ, ρ, 1/Θ, 1/α, 1/r) of the variable k of example i; 1/r is 0 without bounds."""
    sigma, p = side(rule, rows.y[i], k)
    a = v.alpha[i, k]
    over_a, over_r, q = 1.0 / a, 0.0, 0.0
    curvature = v.lower[i, k] * over_a
    if rule.squared:
        q = 0.5 / rows.cap[i]
        curvature += q
    else:
        over_r = 1.0 / v.room[i, k]
        curvature += v.upper[i, k] * over_r
    return sigma, p - sigma * rows.z[i] - q * a, 1.0 / curvature, over_a, over_r


@inlined
def predicted(rule, v, i, k, da, over_a, over_r, bound):
    """(Δl, Δm, e_l, e_m) of the predictor, for its Δα."""
    dl, dm = -v.lower[i, k] * (1.0 + da * over_a), 0.0
    if not rule.squared:
        dm = -v.upper[i, k] * (1.0 - da * over_r)
    return dl, dm, min(max(da * dl, -bound), bound), min(max(-da * dm, -bound), bound)


@inlined
def corrected(rule, rows, v, move, i, k):
    """(Δα, Δl, Δm) of the corrector."""
    sigma, rho, inverse, over_a, over_r = at(rule, rows, v, i, k)
    da = inverse * (rho - sigma * move.first[i])
    _, _, of_lower, of_upper = predicted(rule, v, i, k, da, over_a, over_r, move.bound)
    of_lower -= move.tau
    of_upper -= move.tau
    da = inverse * (rho - of_lower * over_a + of_upper * over_r - sigma * move.second[i])
    dl = -v.lower[i, k] - (of_lower + v.lower[i, k] * da) * over_a
    dm = 0.0
    if not rule.squared:
        dm = -v.upper[i, k] - (of_upper - v.upper[i, k] * da) * over_r
    return da, dl, dm


@inlined
def way(rule, v, i, k, da, dl, dm, most):
    """How far variable k of example i can follow its changes, at most ``most``."""
    if v.alpha[i, k] + most * da < 0.0:
        most = -v.alpha[i, k] / da
    if v.lower[i, k] + most * dl < 0.0:
        most = -v.lower[i, k] / dl
    if not rule.squared:
        if v.room[i, k] - most * da < 0.0:
            most = v.room[i, k] / da
        if v.upper[i, k] + most * dm < 0.0:
            most = -v.upper[i, k] / dm
    return most


@compiled
def weigh_rows(rule, rows, v, shown, out, sums):
    """out ← (√Θ̄⁻¹, Σ σρ/Θ, the part of β with σ > 0, the part with σ < 0) of each row; adds to the sums of MEASURED.

    The loss is the loss at the scores ``shown``.
    """
    rule, rows, v, shown, out, sums = borrow(rule), borrow(rows), borrow(v), borrow(shown), borrow(out), borrow(sums)
    loss, complementarity, terms = 0.0, 0.0, 0.0
    for i in range(shown.size):
        weight, pull, up, down = 0.0, 0.0, 0.0, 0.0
        cap = rows.cap[i]
        if cap > 0.0:
            for k in range(rule.sides):
                sigma, rho, inverse, _, _ = at(rule, rows, v, i, k)
                _, p = side(rule, rows.y[i], k)
                a = v.alpha[i, k]
                weight += inverse
                pull += sigma * inverse * rho
                excess = max(0.0, p - sigma * shown[i])
                complementarity += a * v.lower[i, k]
                terms += 1.0
                q = 0.0
                if rule.squared:
                    excess *= excess
                    q = 0.5 / cap
                else:
                    complementarity += v.room[i, k] * v.upper[i, k]
                    terms += 1.0
                    a = min(a, cap)
                loss += cap * excess
                if sigma > 0.0:
                    up += a
                    sums.up += p * a
                    sums.up2 += q * a * a
                else:
                    down -= a
                    sums.down += p * a
                    sums.down2 += q * a * a
        out[0, i] = math.sqrt(weight)
        out[1, i] = pull
        out[2, i] = up
        out[3, i] = down
    sums.loss += loss
    sums.complementarity += complementarity
    sums.terms += terms


def weigh_logistic(rows: Rows, alpha: np.ndarray, shown: np.ndarray, out: np.ndarray, sums: Any) -> None:
    """As :func:`weigh_rows`, for the log-loss; sets α to its values at the scores, in place."""
    margin, up = rows.y * rows.z, rows.y > 0.0
    size = np.abs(margin)
    less = np.exp(-size)
    larger = 1.0 / (1.0 + less)  # of p = α/u and 1 − p
    smaller = less * larger
    alpha[:, 0] = rows.cap * np.where(margin > 0.0, smaller, larger)
    out[0], out[1] = np.sqrt(rows.cap * larger * smaller), 0.0
    out[2], out[3] = np.where(up, alpha[:, 0], 0.0), np.where(up, 0.0, -alpha[:, 0])
    entropy = rows.cap * (np.log1p(less) + smaller * size)
    sums.loss += rows.cap @ np.logaddexp(0.0, -rows.y * shown)
    sums.up += entropy[up].sum()
    sums.down += entropy[~up].sum()


@compiled
def predict_rows(rule, rows, v, move, out, most):
    """out ← Σ σδ/Θ of each row without τ, and the factor of τ in that sum.

    Returns the shortest way to a bound, at most ``most``, and the coefficients of t and t² in Σ αl + rm after the share
    t of the predictor.
    """
    rule, rows, v, move, out = borrow(rule), borrow(rows), borrow(v), borrow(move), borrow(out)
    linear, square = 0.0, 0.0
    for i in range(rows.y.size):
        second, centre = 0.0, 0.0
        if rows.cap[i] > 0.0:
            for k in range(rule.sides):
                sigma, rho, inverse, over_a, over_r = at(rule, rows, v, i, k)
                da = inverse * (rho - sigma * move.first[i])
                dl, dm, of_lower, of_upper = predicted(rule, v, i, k, da, over_a, over_r, move.bound)
                most = way(rule, v, i, k, da, dl, dm, most)
                linear += v.alpha[i, k] * dl + v.lower[i, k] * da
                if not rule.squared:
                    linear += v.room[i, k] * dm - v.upper[i, k] * da
                square += da * (dl - dm)
                second -= sigma * inverse * (of_lower * over_a - of_upper * over_r)
                centre += sigma * inverse * (over_a - over_r)
        out[0, i] = second
        out[1, i] = centre
    return most, linear, square


@compiled
def correct_rows(rule, rows, v, move, most):
    """The shortest way to a bound of the corrector, at most ``most``."""
    rule, rows, v, move = borrow(rule), borrow(rows), borrow(v), borrow(move)
    for i in range(rows.y.size):
        if rows.cap[i] > 0.0:
            for k in range(rule.sides):
                da, dl, dm = corrected(rule, rows, v, move, i, k)
                most = way(rule, v, i, k, da, dl, dm, most)
    return most


@compiled
def move_rows(rule, rows, v, move, length):
    """Follow the corrector, in place."""
    rule, rows, v, move = borrow(rule), borrow(rows), borrow(v), borrow(move)
    for i in range(rows.y.size):
        if rows.cap[i] > 0.0:
            for k in range(rule.sides):
                da, dl, dm = corrected(rule, rows, v, move, i, k)
                v.alpha[i, k] += length * da
                v.lower[i, k] += length * dl
                if not rule.squared:
                    v.room[i, k] -= length * da
                    v.upper[i, k] += length * dm


# ---------------------------------------------------------------- products with some rows of the data


@compiled
def sparse_scores(X, V, z, out):
    """out[:, i] ← ⟨v, xᵢ⟩ for the columns v of V; z is working space."""
    X, V, z, out = borrow(X), borrow(V), borrow(z), borrow(out)
    for i in range(out.shape[1]):
        row_scores(X, i, V, z)
        for c in range(z.size):
            out[c, i] = z[c]


@compiled
def sparse_products(X, root, A):
    """The lower triangle of A += Σ root² zᵢzᵢᵀ, where A may have a place for a constant feature, the last."""
    X, root, A = borrow(X), borrow(root), borrow(A)
    indptr, indices, data, d = X.indptr, X.indices, X.data, X.n_features
    for i in range(root.size):
        weight = root[i] * root[i]
        start, stop = indptr[i], indptr[i + 1]
        for p in range(start, stop):
            row = indices[p]
            factor = weight * data[p]
            for r in range(start, p + 1):  # indices are sorted
                A[row, indices[r]] += factor * data[r]
            if A.shape[0] > d:
                A[d, row] += factor
        if A.shape[0] > d:
            A[d, d] += weight


class Block:
    """Some rows zᵢ, as a float64 matrix or CSR, perhaps with a constant 1 at the end."""

    def __init__(self, rows: Any, constant: bool) -> None:
        self.rows, self.constant, self.is_sparse = rows, constant, isinstance(rows, CSRRows)

    def scores(self, W: np.ndarray) -> np.ndarray:
        """⟨w, zᵢ⟩ of all rows, for each row w of W."""
        d = W.shape[1] - self.constant
        if self.is_sparse:
            found = np.empty((len(W), self.rows.indptr.size - 1))
            sparse_scores(self.rows, np.ascontiguousarray(W[:, :d].T), np.empty(len(W)), found)
        else:
            found = W[:, :d] @ self.rows.T
        return found + W[:, d:] if self.constant else found

    def sums(self, G: np.ndarray) -> np.ndarray:
        """Σ gᵢzᵢ for each row g of G."""
        if self.is_sparse:
            columns = np.zeros((self.rows.n_features, len(G)))
            add_combination(self.rows, np.ascontiguousarray(G.T), np.empty(len(G)), columns)
            found = columns.T
        else:
            found = G @ self.rows
        return np.hstack([found, G.sum(axis=1, keepdims=True)]) if self.constant else found

    def add_products(self, root: np.ndarray, A: np.ndarray) -> None:
        """The lower triangle of A += Σ root² zᵢzᵢᵀ."""
        if self.is_sparse:
            sparse_products(self.rows, root, A)
            return
        n, d = self.rows.shape
        scaled = np.empty((n, len(A)))
        np.multiply(self.rows, root[:, None], out=scaled[:, :d])
        if self.constant:
            scaled[:, d] = root
        blas.dsyrk(1.0, scaled.T, beta=1.0, c=A.T, overwrite_c=True)  # A.T is in Fortran's order


# ---------------------------------------------------------------- parts


def some_of(problem: Problem, rows: slice) -> Problem:
    """The problem on some of its examples, over the same memory."""
    X = some_rows(problem.X, rows.start, rows.stop)
    if isinstance(X, CSRRows):
        first, last = X.indptr[0], X.indptr[-1]
        X = CSRRows(X.data[first:last], X.indices[first:last], X.indptr - first, X.n_features)
    return replace(problem, X=X, y=problem.y[rows], sample_weight=problem.sample_weight[rows])


def start(problem: Problem, C: float, scale: float) -> Variables:
    """The first variables, START of the way into their boxes; without bounds they grow with the targets."""
    outputs, rule = range(problem.n_outputs), InteriorRule.of(problem.loss)
    alpha = np.stack([np.repeat(problem.binary_part(c)[2][:, None], rule.sides, axis=1) for c in outputs])
    room = alpha[:, :, :0].copy() if rule.squared else (1.0 - START) * C * alpha
    alpha *= (2.0 * scale if rule.squared else 1.0) * START * C  # without bounds, of 1/q
    return Variables(alpha, room, np.full_like(alpha, scale), np.full_like(room, scale))


def sizes_of(problem: Any) -> dict[str, int]:
    """Numbers of outputs, examples, variables of an example, how many of them have an upper bound, and entries of w."""
    rule, width = InteriorRule.of(problem.loss), problem.d + (problem.intercept != "none")
    bounds = 0 if rule.squared else rule.sides
    return {"outputs": problem.n_outputs, "n": problem.n, "sides": rule.sides, "bounds": bounds, "width": width}


class Part:
    """Some of the examples with their variables, changed in place; replies to messages with sums over the examples.

    Messages begin with ``which``, the outputs that are meant; replies are tuples of float64 arrays whose first axis has
    these outputs. Replies depend on messages and variables alone, so a part that was lost can be made again from
    :meth:`state` and the later messages. :meth:`move` ends a step, and :meth:`weigh` repeats the reply of :meth:`move`.
    """

    def __init__(self, problem: Problem, C: float, variables: Variables | None = None, scale: float = 1.0) -> None:
        self.problem, self.C = problem, C
        self.rule = InteriorRule.of(problem.loss)
        self.constant = problem.intercept != "none"
        self.logistic = isinstance(problem.loss, losses.Log)
        self.variables = start(problem, C, scale) if variables is None else variables
        self.scores, self.first, self.second = np.zeros((3, problem.n_outputs, problem.n))
        self.bound, self.tau = np.zeros((2, problem.n_outputs))
        self.lengths = np.sqrt(problem.squared_lengths() + self.constant)  # ‖zᵢ‖
        height = max(1, ENTRIES_AT_ONCE // max(1, problem.d))
        slices = [slice(i, min(i + height, problem.n)) for i in range(0, problem.n, height)]
        self._pieces = [(rows, some_of(problem, rows)) for rows in slices]
        X = problem.X
        self._stays_sparse = isinstance(X, CSRRows) and X.data.size < DENSE_FROM * problem.n * problem.d

    def state(self) -> dict[str, np.ndarray]:
        """A copy of the variables, between two steps."""
        return {name: array.copy() for name, array in self.variables._asdict().items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to a :meth:`state`."""
        KEPT.hold(state, "part", **sizes_of(self.problem))
        self.variables = Variables(**{name: np.array(array) for name, array in state.items()})

    # -- messages

    def coefficients(self) -> np.ndarray:
        """β = Σ σα over the variables of an example, of shape (outputs, n)."""
        alpha, problem = self.variables.alpha, self.problem
        if problem.loss.is_regression:
            return alpha[:, :, 0] - alpha[:, :, 1]
        return np.stack([problem.binary_part(c)[1] * alpha[c, :, 0] for c in range(len(alpha))])

    def weigh(self, which: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, ...]:
        """(Lower triangle of ZᵀΘ̄⁻¹Z by rows, Zᵀ of Σ σρ/Θ and of β for each sign of σ, the sums of MEASURED)."""
        problem, width = self.problem, self.problem.d + self.constant
        systems, vectors = np.zeros((which.size, width, width)), np.zeros((which.size, 3, width))
        sums = np.zeros((which.size, MEASURES))
        measures = [row.view(MEASURED)[0] for row in sums]
        shown = as_shown(problem, W)
        for rows, piece, block in self._blocks():
            self.scores[which, rows] = block.scores(W)
            seen = self.scores[which, rows] if problem.dtype == np.float64 else block.scores(shown)
            for k, c in enumerate(which):
                safe_place()  # the products below take longest
                out = np.empty((4, seen.shape[1]))
                rule, own, variables, _ = self._of(c, rows, piece)
                if self.logistic:
                    weigh_logistic(own, variables.alpha, seen[k], out, measures[k])
                else:
                    weigh_rows(rule, own, variables, seen[k], out, measures[k])
                lengths = self.lengths[rows]
                error = rounding_of_sum(width + 1) * math.sqrt(shown[k] @ shown[k]) * lengths
                measures[k].rounding += lost(piece.loss, own, seen[k], error)
                measures[k].pulled += (out[2] - out[3]) @ lengths
                block.add_products(out[0], systems[k])
                vectors[k] += block.sums(out[1:])
        return np.stack([lapack.dtrttp(A.T)[0] for A in systems]), vectors, sums

    def predict(self, which: np.ndarray, change: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, ...]:
        """(Shortest way to a bound, coefficients of t and t² in Σ αl + rm, Zᵀ of δ/Θ without τ and of the factor of τ),
        for the predictor's changes of w and the bound of e.
        """
        shortest, sums = np.ones(which.size), np.zeros((which.size, 2))
        vectors, self.bound[which] = np.zeros((which.size, 2, change.shape[1])), bound
        for rows, piece, block in self._blocks():
            self.first[which, rows] = block.scores(change)
            for k, c in enumerate(which):
                out = np.empty((2, rows.stop - rows.start))
                shortest[k], *found = predict_rows(*self._of(c, rows, piece), out, shortest[k])
                sums[k] += found
                vectors[k] += block.sums(out)
        return shortest, sums, vectors

    def correct(self, which: np.ndarray, change: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, ...]:
        """(Shortest way to a bound,) for the corrector's changes of w."""
        shortest = np.full(which.size, 1.0 / TO_THE_BOUND)
        self.tau[which] = tau
        for rows, piece, block in self._blocks():
            self.second[which, rows] = block.scores(change)
            for k, c in enumerate(which):
                shortest[k] = correct_rows(*self._of(c, rows, piece), shortest[k])
        return (shortest,)

    def slope(self, which: np.ndarray, change: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, ...]:
        """(Derivative of the sum of log-losses,) along a change of w, after this length of it."""
        slopes = np.zeros(which.size)
        for rows, piece, block in self._blocks():
            moved = block.scores(change)
            for k, c in enumerate(which):
                own = self._of(c, rows, piece)[1]
                slopes[k] -= (own.cap * expit(-own.y * (own.z + length[k] * moved[k]))) @ (own.y * moved[k])
        return (slopes,)

    def move(self, which: np.ndarray, length: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, ...]:
        """Follow the corrector for this length to the weights W; replies as :meth:`weigh`."""
        for rows, piece in [] if self.logistic else self._pieces:
            for k, c in enumerate(which):
                if length[k] > 0.0:
                    move_rows(*self._of(c, rows, piece), length[k])
        return self.weigh(which, W)

    def _blocks(self) -> Iterator[tuple[slice, Problem, Block]]:
        """(Slice of the examples, their problem, their rows), some at a time."""
        for rows, piece in self._pieces:
            safe_place()
            values = piece.X
            if not self._stays_sparse:
                values = values.values if isinstance(values, DenseRows) else as_matrix(values).toarray()
                values = values.astype(np.float64, copy=False)
            yield rows, piece, Block(values, self.constant)

    def _of(self, c: int, rows: slice, piece: Problem) -> tuple[InteriorRule, Rows, Variables, Move]:
        """The examples of a slice as output c sees them, their variables, and the changes that messages bring."""
        _, y, s = piece.binary_part(c)
        own, variables = Rows(y, self.C * s, self.scores[c, rows]), Variables(*(v[c, rows] for v in self.variables))
        move = Move(self.first[c, rows], self.second[c, rows], float(self.bound[c]), float(self.tau[c]))
        return self.rule, own, variables, move


def as_shown(problem: Any, W: np.ndarray) -> np.ndarray:
    """The weights as the model rounds them, with the intercepts as they are."""
    shown = W.copy()
    shown[:, : problem.d] = W[:, : problem.d].astype(problem.dtype)
    return shown


def lost(loss: Any, rows: Rows, z: np.ndarray, error: np.ndarray) -> float:
    """By how much the sum of losses at scores z can be wrong, if the scores are wrong by ``error``."""
    if isinstance(loss, losses.Log):
        margin = rows.y * z
        return float(rows.cap @ (np.logaddexp(0.0, error - margin) - np.logaddexp(0.0, -margin)))
    excess = np.abs(rows.y - z) - loss.epsilon if loss.is_regression else 1.0 - rows.y * z
    before, after = np.maximum(0.0, excess), np.maximum(0.0, excess + error)
    more = after - before
    return float(rows.cap @ (more * (after + before) if loss.smoothness < math.inf else more))


def _measured(measures: np.ndarray) -> Any:
    """The sums of each output by the names of MEASURED."""
    return measures.view(MEASURED, np.recarray)[:, 0]


class Equations:
    """(D + ZᵀΘ̄⁻¹Z) x = right, from one triangle of ZᵀΘ̄⁻¹Z, by Cholesky's method."""

    def __init__(self, triangle: np.ndarray, diagonal: np.ndarray) -> None:
        safe_place()
        self.triangle, self.diagonal, places = triangle, diagonal, np.arange(diagonal.size)
        matrix = lapack.dtpttr(diagonal.size, triangle)[0]
        matrix[places, places] += diagonal
        # without this, rounding may leave a pivot that is not positive; refined() corrects the change
        matrix[places, places] *= 1.0 + 4.0 * np.finfo(float).eps * diagonal.size
        self.factor, self.failed = lapack.dpotrf(matrix, overwrite_a=True, clean=False)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The solution, but for rounding; NaN where there is none."""
        if self.failed:
            return np.full(right.size, math.nan)
        return blas.dtrsv(self.factor, blas.dtrsv(self.factor, right, trans=1))

    def refined(self, right: np.ndarray) -> np.ndarray:
        """The solution with one step of iterative refinement."""
        found = self.solve(right)
        product = blas.dspmv(right.size, 1.0, self.triangle, found) + self.diagonal * found
        return found + self.solve(right - product)


# ---------------------------------------------------------------- the solver

OfOutputs = Annotated[np.ndarray, Array("outputs", dtype=np.bool_)]


@savable("Interior.State")
@dataclass
class InteriorState(protocol.State):
    """For each output w with the intercept last, Zᵀβ for each sign of σ, the sums of MEASURED, whether the output moved
    last, and whether it is finished; the variables, if they are in this process; the messages to all parts (``trips``).
    """

    w: Annotated[np.ndarray, Array("outputs", "width")]
    combined: Annotated[np.ndarray, Array("outputs", 2, "width")]
    measures: Annotated[np.ndarray, Array("outputs", MEASURES)]
    moved: OfOutputs
    ended: OfOutputs
    variables: Annotated[Variables, Within(Variables)]
    trips: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    counters: Counters = field(default_factory=Counters)

    resumes = False

    @staticmethod
    def _renewed(parts: dict[str, Any]) -> dict[str, Any]:
        """States of the first version lack the sums of rounding, the last ones."""
        measures = parts["measures"]
        lacking = ((0, 0), (0, MEASURES - measures.shape[1]))
        return {**parts, "measures": np.pad(measures, lacking)} if lacking[1][1] == 2 else parts

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether rounding allows no further step of any output."""
        return bool(self.ended.all())


@dataclass
class InteriorWorkspace:
    """The parts of a problem, and their last replies about the current point."""

    problem: Any
    parts: Any
    said: list[np.ndarray] | None = None

    def ask(self, state: InteriorState, method: str, which: np.ndarray, *message: np.ndarray) -> list[np.ndarray]:
        """The replies of all parts in one, with the shortest way to a bound first; counts messages and reads."""
        totals = self.parts.sums(method, which, *message, least=int(method in ("predict", "correct")))
        state.trips += 1
        state.counters.feature_reads += round(self.problem.mean_entries * self.problem.n)
        state.bytes_sent += len(self.parts) * sum(array.nbytes for array in (which, *message))
        state.bytes_received += len(self.parts) * sum(array.nbytes for array in totals)
        return totals

    def hear(self, state: InteriorState, method: str, which: np.ndarray, *message: np.ndarray) -> None:
        """Ask the parts about the current point, and keep their replies."""
        self.said = self.ask(state, method, which, *message)
        state.combined[which], state.measures[which] = self.said[1][:, 1:], self.said[2]


class System(NamedTuple):
    """The equations of one step: the outputs, their matrices and right sides, and the sums of MEASURED."""

    which: np.ndarray
    equations: list[Equations]
    right: np.ndarray
    measures: np.ndarray

    def solved(self, right: np.ndarray) -> np.ndarray:
        """The solutions for these right sides, refined."""
        return np.stack([each.refined(r) for each, r in zip(self.equations, right, strict=True)])


@savable()
@dataclass
class Interior(Solver):
    """Interior-point method for linear machines on data with few features.

    It needs about thirty passes to a gap of 1e-6, whatever the sizes of the features and of C. A pass
    takes n × d² operations.

    Parameters
    ----------
    max_features : int, default=2000
        The largest number of features. Data with more is refused.

    Notes
    -----
    It has the losses hinge, squared hinge, log and (squared) ε-insensitive, and the intercepts
    "regularized", "unregularized" and "none".

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Interior
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> model = LinearSVC(C=1e3, solver=Interior(), tol=1e-6).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= 1e-6)
    True
    """

    max_features: int = WIDEST

    state_class = InteriorState
    capabilities = protocol.Capabilities(aim="optimum")
    #: Whether a step can be undone: all that it changes is in this process.
    leaves_off: ClassVar[bool] = True

    def first_slice(self, problem: Any) -> int:
        """One step: a few passes over the data."""
        return 1

    def check(self, problem: Any) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        loss = losses.scalar_loss(problem.target)
        known = (losses.Hinge, losses.SquaredHinge, losses.Log, losses.EpsilonInsensitive, losses.SquaredEpsilon)
        if losses.is_joint(problem.target) or not isinstance(loss, known):
            raise ValueError(
                "the solver 'interior' has the log-loss, the hinge, the ε-insensitive loss and their squares, each "
                "output apart: choose one of them with multi_class='ovr', or another solver"
            )
        if problem.intercept not in ("none", "regularized", "unregularized"):
            raise ValueError(
                f"the solver 'interior' has the intercepts 'regularized', 'unregularized' and 'none', got "
                f"{problem.intercept!r}: use one of them, or the solver 'pegasos'"
            )
        if problem.d > self.max_features:
            raise ValueError(
                f"the solver 'interior' solves as many equations as there are features, at most {self.max_features}, "
                f"got {problem.d}: use the solver 'sdca'"
            )

    def sizes(self, problem: Any) -> dict[str, int]:
        """The sizes of the schema, with the sizes of the variables."""
        return sizes_of(problem)

    def steps_per_epoch(self, problem: Any) -> int:
        """A step passes over the data."""
        return 1

    def at_checkpoint(self, state: InteriorState) -> bool:
        """True after each step, because the certificate of the new point comes with the step."""
        return True

    def parts(self, problem: Any, variables: Variables) -> Any:
        """The parts: here one part of all examples, which changes the variables in place."""
        return LocalParts([Part(problem, problem.C, variables)])

    def init(self, problem: Any, rng: Any = None) -> InteriorState:
        """The state with w = 0 and α inside its box."""
        self.check(problem)
        zeros: dict[str, Any] = blank(self.state_class, self.sizes(problem))
        state = self.state_class(**zeros, variables=self.start(problem))
        state.moved[:] = True
        # until the first step asks
        _measured(state.measures).loss[:] = problem.at_zero()[0] / problem.lam / problem.n_outputs
        return state

    def start(self, problem: Any) -> Variables:
        """The variables of all examples before the first step."""
        return start(problem, problem.C, problem.scale)

    def _work(self, problem: Any, state: InteriorState) -> InteriorWorkspace:
        return state.work(problem, lambda: InteriorWorkspace(problem, self.parts(problem, state.variables)))

    # -- steps

    def advance(self, problem: Any, state: InteriorState, n_steps: int) -> int:
        """Take one step of every output, in place; returns 1, or 0 if Ctrl-C or a limit of time undid a long step."""
        if n_steps < 1 or state.ended.all():
            return min(n_steps, 1)
        if not self.leaves_off or problem.n * state.w.size * state.w.shape[1] < LONG:
            return self._advance(problem, state)
        before = copy.deepcopy(state)
        done = unless_told(lambda: self._advance(problem, state))
        if done is None:
            vars(state).update(vars(before))
            state.drop_workspace()  # parts hold the variables that have moved
        return done or 0

    def _advance(self, problem: Any, state: InteriorState) -> int:
        work = self._work(problem, state)
        with all_blas_threads(worth=state.w.shape[1] >= WIDE):
            if state.trips == 0:
                work.hear(state, "weigh", np.arange(len(state.w)), state.w)
            elif work.said is None:  # the parts repeat their last replies
                work.said = work.parts.sums("weigh", np.flatnonzero(state.moved), state.w[state.moved])
            self._step(problem, state, work)
        state.counters.steps += 1
        state.counters.visits += problem.n
        state.counters.updates += problem.n
        return 1

    def _step(self, problem: Any, state: InteriorState, work: InteriorWorkspace) -> None:
        """A step of all outputs that are not finished."""
        assert work.said is not None
        goes_on = ~state.ended[state.moved]
        which = np.flatnonzero(state.moved)[goes_on]
        triangles, vectors, measures = work.said if goes_on.all() else (said[goes_on] for said in work.said)
        diagonal, W, logistic = self._diagonal(problem), state.w[which], isinstance(problem.loss, losses.Log)
        right = vectors.sum(axis=1) - diagonal * W
        system = System(which, [Equations(triangle, diagonal) for triangle in triangles], right, measures)
        before, bound = self._values(problem, state)
        length, change = (self._newton if logistic else self._mehrotra)(state, work, system)
        lost = ~np.isfinite(change).all(axis=1) | ~(length > SHORTEST)
        length[lost], change[lost] = 0.0, 0.0
        state.w[which] = W + length[:, None] * change
        state.moved[:] = False
        state.moved[which] = True
        work.hear(state, "move", which, length, state.w[which])
        state.ended[which[lost]] = True
        primal, dual = self._values(problem, state)
        state.ended |= primal - dual <= CLOSED * primal
        if logistic:  # the objective falls, and the last steps square the gap
            state.ended |= (primal >= before) & (primal - dual > 0.5 * (before - bound))

    @staticmethod
    def _mehrotra(state: InteriorState, work: InteriorWorkspace, system: System) -> tuple[np.ndarray, np.ndarray]:
        """(Lengths, changes of w) of Mehrotra's steps."""
        which, right = system.which, system.right
        change = np.stack([each.solve(r) for each, r in zip(system.equations, right, strict=True)])
        measured = _measured(system.measures)
        before = measured.complementarity
        mean = before / np.maximum(measured.terms, 1.0)
        shortest, sums, more = work.ask(state, "predict", which, change, TRUSTED * mean)
        after = before + shortest * (sums[:, 0] + shortest * sums[:, 1])
        share = np.divide(after, before, out=np.zeros_like(after), where=before > 0.0)
        tau = mean * np.minimum(np.clip(share, 0.0, 1.0) ** 3, MOST_CENTRED)
        change = system.solved(right + more[:, 0] + tau[:, None] * more[:, 1])
        (shortest,) = work.ask(state, "correct", which, change, tau)
        return TO_THE_BOUND * shortest, change

    def _newton(self, state: InteriorState, work: InteriorWorkspace, system: System) -> tuple[np.ndarray, np.ndarray]:
        """(Lengths, changes of w) of Newton's steps on the log-loss; the length is 0 where rounding hides the slope."""
        change = system.solved(system.right)
        W, diagonal = state.w[system.which], self._diagonal(work.problem)
        descent, length = np.sum(system.right * change, axis=1), np.ones(system.which.size)
        steep = descent > 0.0
        for _ in range(LENGTHS):
            (slope,) = work.ask(state, "slope", system.which, change, length)
            slope += np.sum(diagonal * (W + length[:, None] * change) * change, axis=1)
            steep = slope > FLATTER * descent
            if not steep.any():
                break
            length[steep] *= np.maximum(FLATTER, descent / (descent + slope))[steep]
        length[steep | ~(descent > 0.0)] = 0.0
        return length, change

    @staticmethod
    def _diagonal(problem: Any) -> np.ndarray:
        """The diagonal of D: a free intercept costs nothing."""
        free = problem.intercept == "unregularized"
        return np.append(np.ones(problem.d), [] if problem.intercept == "none" else [0.0 if free else 1.0])

    # -- output

    def model(self, problem: Any, state: InteriorState) -> LinearModel:
        """A finished copy."""
        d = problem.d
        b = np.zeros(problem.n_outputs) if problem.intercept == "none" else state.w[:, d].copy()
        return LinearModel(state.w[:, :d].astype(problem.dtype), b)

    def certificate(self, problem: Any, state: InteriorState) -> Certificate:
        """Primal value of the model, dual value of α made feasible, and their difference."""
        primal, dual = (problem.lam * float(values.sum()) for values in self._values(problem, state))
        return Certificate(primal, dual, primal - dual)

    def _values(self, problem: Any, state: InteriorState) -> tuple[np.ndarray, np.ndarray]:
        """The primal and the dual value of each output in the C-form, at the current point.

        The dual value is lowered by a bound on what rounding added to their difference.
        """
        diagonal, free, sums = self._diagonal(problem), problem.has_free_bias, _measured(state.measures)
        primal = 0.5 * np.sum(diagonal * as_shown(problem, state.w) ** 2, axis=1) + sums.loss
        linear, quadratic = np.stack([sums.up, sums.down], axis=1), np.stack([sums.up2, sums.down2], axis=1)
        factors = np.ones_like(linear)
        if free:  # the sign of β with the larger sum is scaled down
            sizes = np.abs(state.combined[:, :, -1])
            factors = np.divide(sizes.min(axis=1, keepdims=True), sizes, out=factors, where=sizes > 0.0)
        w = np.sum(factors[:, :, None] * state.combined, axis=1)
        linear = np.sum(factors * linear, axis=1)
        quadratic = np.sum(factors**2 * quadratic, axis=1) + np.sum(diagonal * w**2, axis=1)
        share = np.divide(linear, quadratic, out=np.ones_like(linear), where=quadratic > 0.0)
        share = np.clip(share, 0.0, 1.0)  # the best multiple in the box
        lost = self._lost(problem, state, w)
        return primal, np.maximum(0.0, share * linear - 0.5 * share**2 * quadratic - lost)

    @staticmethod
    def _lost(problem: Any, state: InteriorState, w: np.ndarray) -> np.ndarray:
        """A bound on what rounding of the scores, of Zᵀβ and of the sums added to the gap of each output."""
        of_sum, sums = rounding_of_sum(problem.n), _measured(state.measures)
        of_combined = of_sum * sums.pulled
        of_combined = of_combined * (np.linalg.norm(w, axis=1) + 0.5 * of_combined)
        of_losses_and_duals = of_sum * np.abs(state.measures[:, :5]).sum(axis=1)
        return sums.rounding + of_combined + of_losses_and_duals

    def duals(self, problem: Any, state: InteriorState) -> np.ndarray:
        """The dual variables β, of shape (outputs, n), part after part."""
        return np.concatenate(self._work(problem, state).parts.ask("coefficients"), axis=1)


# ---------------------------------------------------------------- parts elsewhere


#: The arrays of a part.
KEPT = Row(SCHEMAS[Variables].fields())  # type: ignore[arg-type]


@savable("InteriorOnParts.State", variables=Own(Variables), kept=Each(KEPT, alone=True))
@dataclass
class InteriorPartsState(HeldByParts, InteriorState):
    """A state whose variables are with the parts."""

    def live(self) -> Any:
        """The parts in the workspace."""
        return self.workspace[1].parts


@dataclass(frozen=True)
class PartMaker:
    """Makes a part of its problem, in whatever process the examples are."""

    C: float
    scale: float

    #: The state of a part lacks what it keeps from one message of a step to the next.
    complete = False

    def __call__(self, problem: Problem, number: int) -> Part:
        return Part(problem, self.C, scale=self.scale)


@savable()
@dataclass
class InteriorOnParts(Interior):
    """The same method on a problem whose examples are in parts, perhaps elsewhere."""

    state_class = InteriorPartsState
    leaves_off = False

    def start(self, problem: Any) -> Variables:
        """No variables: the parts have them."""
        return Variables(*np.empty((4, problem.n_outputs, 0, 0)))

    def _work(self, problem: Any, state: Any) -> InteriorWorkspace:
        maker = PartMaker(problem.C, problem.scale)
        found = state.work(problem, lambda: InteriorWorkspace(problem, state.made(problem.place, maker)))
        vars(state).pop("kept", None)
        return found
