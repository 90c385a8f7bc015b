"""Interior point: exact linear machines on narrow data, in some thirty passes whatever C and the features' sizes.

With rows zᵢ (xᵢ, and a constant 1 where there is an intercept), weights w of as many entries, and D = I but for a 0 at
the place of a free intercept, the problem in the C-form is a sum over one or two *variables* v of each example::

    min over w   ½ wᵀDw + Σ cap_v max(0, p_v − σ_v⟨w, z_v⟩)^(1 or 2).

Its dual, with the coefficients β = Σ σ_vα_v of the examples, is::

    max over α   Σ (p_vα_v − q_vα_v²/2) − ½ wᵀDw,      0 ≤ α_v ≤ u_v,      Dw = Zᵀβ, so that Σ β = 0 if b is free.

==================  ==========================  =================  ==================  ========
loss                variables                   p_v                upper bound u_v     q_v
==================  ==========================  =================  ==================  ========
hinge               σ = y                       1                  C sᵢ                0
squared hinge       σ = y                       1                  none                1/(2C sᵢ)
ε-insensitive       σ = ±1                      σy − ε             C sᵢ                0
its square          σ = ±1                      σy − ε             none                1/(2C sᵢ)
==================  ==========================  =================  ==================  ========

A step is one of Mehrotra's for the conditions, with multipliers l of α ≥ 0 and m of the room r = u − α ≥ 0::

    σ⟨w, z⟩ + qα − p = l − m,      Dw = Zᵀβ,      αl = τ,      rm = τ → 0.

With Θ = q + l/α + m/r and ρ = p − σ⟨w, z⟩ − qα its equations reduce to as many as w has entries (Ferris, Munson)::

    (D + ZᵀΘ̄⁻¹Z) Δw = Zᵀβ − Dw + Σ σ_vz_v(ρ_v + δ_v)/Θ_v,      Θ̄⁻¹ᵢ = Σ 1/Θ_v over the variables of example i,
    Δα = (ρ + δ − σ⟨Δw, z⟩)/Θ,      Δl = −l − (e_l − τ + lΔα)/α,      Δm = −m − (e_m − τ − mΔα)/r.

The *predictor* has δ = e = τ = 0. The share of Σ αl + rm that it would leave, to the third power and at most 0.4, says
which share of their mean τ is. The *corrector* has e_l = ΔαΔl and e_m = −ΔαΔm of the predictor, and
δ = (τ − e_l)/α − (τ − e_m)/r; far from the optimum such products mislead, and e is kept within six times that mean. The
corrector is followed 0.995 of the way to the nearest bound. w and r are variables of their own: sums Σ βᵢzᵢ of large
features, and u − α next to a bound, would cancel all their digits.

Parts. What is said of single examples is said by *parts*, which hold some rows and their variables and reply with sums.
A step is three trips to all parts, and the certificate of the new point comes with the last::

    predict(Δw, bound of e)   → shortest way to a bound, two sums, Zᵀ of two vectors: δ without τ, and what τ stands by
    correct(Δw, τ)            → shortest way to a bound
    move(length, w)           → ZᵀΘ̄⁻¹Z (one triangle), Zᵀ of three vectors, seven sums

A step costs O(nd²), or O(nk²) for sparse rows of k entries, and O(d³) where replies are put together.

Ferris, Munson: Interior-point methods for massive support vector machines. SIAM J. Optimization 13 (2002).
Mehrotra: On the implementation of a primal-dual interior point method. SIAM J. Optimization 2 (1992).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from ..core import losses
from ..core.blas import all_blas_threads
from ..core.borrowing import borrow
from ..core.dispatch import compiled, inlined
from ..core.rows import CSRRows, DenseRows, as_matrix, row_add, row_norms2, row_scores
from ..files import savable
from ..history import Counters
from ..models import LinearModel
from ..problems.linear import Problem
from ..problems.objective import Certificate, rounding_of_sum
from ..problems.parts import LocalParts
from ..schemas import Array, Each, Either, Own, Row, Within
from . import protocol
from .parts import HeldByParts
from .protocol import Solver

#: What the parts' replies say of each output: the seven sums of :func:`weigh_rows`, what rounding may have done to the
#: loss, and Σ |β|‖z‖.
MEASURES = 9
#: Most features, since a step solves as many equations; and from how many on its products are worth BLAS's threads.
WIDEST, WIDE = 2000, 400
#: A step goes this share of the way to the nearest bound.
TO_THE_BOUND = 0.995
#: The corrector's products are kept within so many times the mean of αl and rm.
TRUSTED = 6.0
#: Share of its box at which α starts.
START = 0.25
#: τ is at most this share of that mean: on degenerate data a short predictor says little.
MOST_CENTRED = 0.4
#: Entries of the data that are weighted at a time.
ENTRIES_AT_ONCE = 2**17
#: Sparse rows with a larger share of non-zeros are made dense, some at a time: their products are cheaper.
DENSE_FROM = 0.25
#: A shorter step is none.
SHORTEST = 1e-10
#: An output whose gap is this share of its objective goes no further.
CLOSED = 1e-13

# ---------------------------------------------------------------- the variables of an example


class Rule(NamedTuple):
    """What the loss makes of an example: as many variables as it has sides, with bounds, or squared without; and ε."""

    sides: int
    squared: bool
    epsilon: float


class Rows(NamedTuple):
    """Targets, caps C sᵢ and scores ⟨w, zᵢ⟩ of some examples."""

    y: np.ndarray
    cap: np.ndarray
    z: np.ndarray


_OF_SIDES = Either(Array("outputs", "n", "sides"), Array("n", "sides"))
_BOUNDED = Either(Array("outputs", "n", "bounds"), Array("n", "bounds"))


@savable("Interior.Variables", alpha=_OF_SIDES, room=_BOUNDED, lower=_OF_SIDES, upper=_BOUNDED)
class Variables(NamedTuple):
    """α, the room r = u − α, and the multipliers l and m of the two, of shape (outputs, n, sides), or (n, sides) for
    rows of one output. Without bounds ``room`` and ``upper`` have no sides.
    """

    alpha: np.ndarray
    room: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


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
    """How far the variable k of example i can follow its changes, at most ``most``; most examples take no division."""
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
    """out ← (√Θ̄⁻¹, Σ σρ/Θ, the part of β with σ > 0, that with σ < 0) of each row; sums += the loss at the scores
    ``shown``, Σ pα and Σ qα² for each sign of σ, and Σ αl + rm with the number of its terms.
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
                    sums[1] += p * a
                    sums[3] += q * a * a
                else:
                    down -= a
                    sums[2] += p * a
                    sums[4] += q * a * a
        out[0, i] = math.sqrt(weight)
        out[1, i] = pull
        out[2, i] = up
        out[3, i] = down
    sums[0] += loss
    sums[5] += complementarity
    sums[6] += terms


@compiled
def predict_rows(rule, rows, v, move, out, sums):
    """out ← Σ σδ/Θ of each row without τ, and what τ is multiplied with in it; sums[0] ← the shortest way to a bound,
    sums[1:] += the coefficients of t and t² in Σ αl + rm after the share t of the predictor.
    """
    rule, rows, v, move, out, sums = borrow(rule), borrow(rows), borrow(v), borrow(move), borrow(out), borrow(sums)
    most, linear, square = sums[0], 0.0, 0.0
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
    sums[0] = most
    sums[1] += linear
    sums[2] += square


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
def sparse_sums(X, G, g, out):
    """out += Σ xᵢgᵢᵀ for the columns gᵢ of G; g is working space."""
    X, G, g, out = borrow(X), borrow(G), borrow(g), borrow(out)
    for i in range(G.shape[1]):
        for c in range(g.size):
            g[c] = G[c, i]
        row_add(X, i, g, out)


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


class DenseBlock:
    """Some rows as float64."""

    def __init__(self, values: np.ndarray, constant: bool) -> None:
        self.values, self.constant = values, constant

    def scores(self, W: np.ndarray) -> np.ndarray:
        """⟨w, zᵢ⟩ of all rows, for each row w of W."""
        d = self.values.shape[1]
        found = W[:, :d] @ self.values.T
        return found + W[:, d:] if self.constant else found

    def squares(self) -> np.ndarray:
        """‖zᵢ‖² of all rows."""
        return np.einsum("ij,ij->i", self.values, self.values) + self.constant

    def sums(self, G: np.ndarray) -> np.ndarray:
        """Σ gᵢzᵢ for each row g of G."""
        found = G @ self.values
        return np.hstack([found, G.sum(axis=1, keepdims=True)]) if self.constant else found

    def add_products(self, root: np.ndarray, A: np.ndarray) -> None:
        """The lower triangle of A += Σ root² zᵢzᵢᵀ."""
        n, d = self.values.shape
        scaled = np.empty((n, len(A)))
        np.multiply(self.values, root[:, None], out=scaled[:, :d])
        if self.constant:
            scaled[:, d] = root
        blas.dsyrk(1.0, scaled.T, beta=1.0, c=A.T, overwrite_c=True)  # A.T is in Fortran's order


class SparseBlock:
    """Some rows as CSR."""

    def __init__(self, rows: CSRRows, constant: bool) -> None:
        self.rows, self.constant = rows, constant

    def scores(self, W: np.ndarray) -> np.ndarray:
        """⟨w, zᵢ⟩ of all rows, for each row w of W."""
        d, found = self.rows.n_features, np.empty((len(W), self.rows.indptr.size - 1))
        sparse_scores(self.rows, np.ascontiguousarray(W[:, :d].T), np.empty(len(W)), found)
        return found + W[:, d:] if self.constant else found

    def squares(self) -> np.ndarray:
        """‖zᵢ‖² of all rows."""
        out = np.empty(self.rows.indptr.size - 1)
        row_norms2(self.rows, out)
        return out + self.constant

    def sums(self, G: np.ndarray) -> np.ndarray:
        """Σ gᵢzᵢ for each row g of G."""
        found = np.zeros((self.rows.n_features, len(G)))
        sparse_sums(self.rows, G, np.empty(len(G)), found)
        return np.hstack([found.T, G.sum(axis=1, keepdims=True)]) if self.constant else found.T

    def add_products(self, root: np.ndarray, A: np.ndarray) -> None:
        """The lower triangle of A += Σ root² zᵢzᵢᵀ."""
        sparse_products(self.rows, root, A)


# ---------------------------------------------------------------- parts


def some_of(problem: Problem, rows: slice) -> Problem:
    """The problem on some of its examples, over the same memory."""
    X = problem.X
    if isinstance(X, CSRRows):
        indptr = X.indptr[rows.start : rows.stop + 1]
        places = slice(indptr[0], indptr[-1])
        X = CSRRows(X.data[places], X.indices[places], indptr - indptr[0], X.n_features)
    else:
        X = DenseRows(X.values[rows])
    return replace(problem, X=X, y=problem.y[rows], sample_weight=problem.sample_weight[rows])


def start(problem: Problem, C: float, scale: float) -> Variables:
    """Variables a quarter of the way into their boxes; multipliers and, without bounds, variables are as large as the
    targets: all that follows grows with them.
    """
    outputs, n, loss = problem.n_outputs, problem.n, problem.loss
    squared = loss.smoothness < math.inf
    alpha = np.empty((outputs, n, 2 if loss.is_regression else 1))
    for c in range(outputs):
        alpha[c] = problem.binary_part(c)[2][:, None]
    room = np.empty((outputs, n, 0)) if squared else (1.0 - START) * C * alpha
    alpha *= (2.0 * scale if squared else 1.0) * START * C  # without bounds, of 1/q
    return Variables(alpha, room, np.full_like(alpha, scale), np.full_like(room, scale))


def sizes_of(problem: Any) -> dict[str, int]:
    """Outputs, examples, variables of each and how many of them have an upper bound, and entries of w."""
    loss = problem.loss
    sides = 2 if loss.is_regression else 1
    width = problem.d + (problem.intercept != "none")
    bounds = 0 if loss.smoothness < math.inf else sides
    return {"outputs": problem.n_outputs, "n": problem.n, "sides": sides, "bounds": bounds, "width": width}


class Part:
    """Some of the examples and their variables; what it is asked it answers with sums over them.

    Parameters
    ----------
    problem : Problem
        The examples, the loss and the intercept; its λ is not looked at.
    C : float
        The trade-off, that of all parts.
    variables : Variables, optional
        Where to start from, changed in place; by default where steps start.
    scale : float, default=1.0
        The size of the targets of all parts, for the start.

    Notes
    -----
    Messages begin with ``which``, the outputs meant; replies are tuples of float64 arrays whose first axis is theirs.
    Replies depend on messages and variables alone, so that a part which was lost is made again from
    :meth:`state` and the messages after it. :meth:`move` ends a step, and :meth:`weigh` says again what it said.
    """

    def __init__(self, problem: Problem, C: float, variables: Variables | None = None, scale: float = 1.0) -> None:
        self.problem, self.C = problem, C
        loss = problem.loss
        self.rule = Rule(
            2 if loss.is_regression else 1, loss.smoothness < math.inf, float(getattr(loss, "epsilon", 0.0))
        )
        self.constant = problem.intercept != "none"
        self.width = problem.d + self.constant
        self.variables = start(problem, C, scale) if variables is None else variables
        self.scores, self.first, self.second = np.zeros((3, problem.n_outputs, problem.n))
        self.bound, self.tau = np.zeros((2, problem.n_outputs))
        self.squares = np.full(problem.n, -1.0)  # ‖zᵢ‖², when they have been needed
        height = max(1, ENTRIES_AT_ONCE // max(1, problem.d))
        slices = [slice(i, min(i + height, problem.n)) for i in range(0, problem.n, height)]
        self._pieces = [(rows, some_of(problem, rows)) for rows in slices]
        X = problem.X
        self._stays_sparse = isinstance(X, CSRRows) and X.data.size < DENSE_FROM * problem.n * problem.d

    # -- checkpoints

    def state(self) -> dict[str, np.ndarray]:
        """The variables, as they are between two steps."""
        return {name: array.copy() for name, array in self.variables._asdict().items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to a :meth:`state`."""
        KEPT.hold(state, "part", **sizes_of(self.problem))
        self.variables = Variables(**{name: np.array(array) for name, array in state.items()})

    # -- what is asked

    def coefficients(self) -> np.ndarray:
        """β = Σ σα over the variables of an example, of shape (outputs, n)."""
        alpha, problem = self.variables.alpha, self.problem
        if problem.loss.is_regression:
            return alpha[:, :, 0] - alpha[:, :, 1]
        return np.stack([problem.binary_part(c)[1] * alpha[c, :, 0] for c in range(len(alpha))])

    def weigh(self, which: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, ...]:
        """(lower triangle of ZᵀΘ̄⁻¹Z by rows, Zᵀ of Σ σρ/Θ and of the two signs of β, the sums of a certificate)."""
        width, problem = self.width, self.problem
        systems, vectors = np.zeros((which.size, width, width)), np.zeros((which.size, 3, width))
        measures = np.zeros((which.size, MEASURES))
        shown = W.copy()
        shown[:, : problem.d] = W[:, : problem.d].astype(problem.dtype)  # as the model has them
        for rows, piece, block in self._blocks():
            self.scores[which, rows] = block.scores(W)
            if self.squares[rows.start] < 0.0:
                self.squares[rows] = block.squares()
            seen = self.scores[which, rows] if problem.dtype == np.float64 else block.scores(shown)
            for k, c in enumerate(which):
                out = np.empty((4, seen.shape[1]))
                rule, own, variables = self._of(c, rows, piece)
                weigh_rows(rule, own, variables, seen[k], out, measures[k])
                lengths = np.sqrt(self.squares[rows])
                error = rounding_of_sum(self.width + 1) * math.sqrt(shown[k] @ shown[k]) * lengths
                measures[k, 7:] += lost(rule, own, seen[k], error), (out[2] - out[3]) @ lengths
                block.add_products(out[0], systems[k])
                vectors[k] += block.sums(out[1:])
        return np.stack([packed(A) for A in systems]), vectors, measures

    def predict(self, which: np.ndarray, change: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, ...]:
        """(shortest way to a bound, coefficients of t and t² in Σ αl + rm, Zᵀ of the corrector's δ/Θ without τ and of
        what τ is multiplied with), for the predictor's changes of w and the bound of e.
        """
        sums, vectors = np.zeros((which.size, 3)), np.zeros((which.size, 2, self.width))
        sums[:, 0], self.bound[which] = 1.0, bound
        for rows, piece, block in self._blocks():
            self.first[which, rows] = block.scores(change)
            for k, c in enumerate(which):
                out = np.empty((2, rows.stop - rows.start))
                predict_rows(*self._of(c, rows, piece), self._move(c, rows), out, sums[k])
                vectors[k] += block.sums(out)
        return sums[:, 0], sums[:, 1:], vectors

    def correct(self, which: np.ndarray, change: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, ...]:
        """(Shortest way to a bound,) for the corrector's changes of w."""
        shortest = np.full(which.size, 1.0 / TO_THE_BOUND)
        self.tau[which] = tau
        for rows, piece, block in self._blocks():
            self.second[which, rows] = block.scores(change)
            for k, c in enumerate(which):
                shortest[k] = correct_rows(*self._of(c, rows, piece), self._move(c, rows), shortest[k])
        return (shortest,)

    def move(self, which: np.ndarray, length: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, ...]:
        """Follow the corrector for this length to the weights W; replies as :meth:`weigh`."""
        for rows, piece in self._pieces:
            for k, c in enumerate(which):
                if length[k] > 0.0:
                    move_rows(*self._of(c, rows, piece), self._move(c, rows), length[k])
        return self.weigh(which, W)

    # -- blocks of rows

    def _blocks(self) -> Iterator[tuple[slice, Problem, DenseBlock | SparseBlock]]:
        """(Slice of the examples, their problem, their rows), some at a time."""
        for rows, piece in self._pieces:
            block: DenseBlock | SparseBlock
            if self._stays_sparse:
                block = SparseBlock(piece.X, self.constant)
            else:
                values = piece.X.values if isinstance(piece.X, DenseRows) else as_matrix(piece.X).toarray()
                block = DenseBlock(values.astype(np.float64, copy=False), self.constant)
            yield rows, piece, block

    def _of(self, c: int, rows: slice, piece: Problem) -> tuple[Rule, Rows, Variables]:
        """The examples of a slice as output c sees them, and their variables."""
        _, y, s = piece.binary_part(c)
        return self.rule, Rows(y, self.C * s, self.scores[c, rows]), Variables(*(v[c, rows] for v in self.variables))

    def _move(self, c: int, rows: slice) -> Move:
        return Move(self.first[c, rows], self.second[c, rows], float(self.bound[c]), float(self.tau[c]))


def lost(rule: Rule, rows: Rows, z: np.ndarray, error: np.ndarray) -> float:
    """What the sum of the losses at scores z may be wrong by, if they are by ``error``: most examples have no loss."""
    excess = np.abs(rows.y - z) - rule.epsilon if rule.sides == 2 else 1.0 - rows.y * z
    before, after = np.maximum(0.0, excess), np.maximum(0.0, excess + error)
    more = after - before
    return float(rows.cap @ (more * (after + before) if rule.squared else more))


def cut(problem: Problem, n_parts: int, variables: Variables | None = None) -> LocalParts:
    """The examples in so many parts, one after the other, with these variables, changed in place, or at the start."""
    ends = np.linspace(0, problem.n, n_parts + 1).astype(int)
    parts = []
    for rows in (slice(*pair) for pair in pairwise(ends.tolist())):
        own = None if variables is None else Variables(*(array[:, rows] for array in variables))
        parts.append(Part(some_of(problem, rows), problem.C, own, problem.scale))
    return LocalParts(parts)


def packed(A: np.ndarray) -> np.ndarray:
    """The lower triangle of A, row after row."""
    return lapack.dtrttp(A.T)[0]


class Equations:
    """(D + ZᵀΘ̄⁻¹Z) x = right, from one triangle of ZᵀΘ̄⁻¹Z, by Cholesky's method."""

    def __init__(self, triangle: np.ndarray, diagonal: np.ndarray) -> None:
        self.triangle, self.diagonal, places = triangle, diagonal, np.arange(diagonal.size)
        matrix = lapack.dtpttr(diagonal.size, triangle)[0]
        matrix[places, places] += diagonal
        # rounding may leave no pivot without this; what it moves is put right by a second solution
        matrix[places, places] *= 1.0 + 4.0 * np.finfo(float).eps * diagonal.size
        self.factor, self.failed = lapack.dpotrf(matrix, overwrite_a=True, clean=False)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The solution, but for rounding; NaN where there is none."""
        if self.failed:
            return np.full(right.size, math.nan)
        return blas.dtrsv(self.factor, blas.dtrsv(self.factor, right, trans=1))

    def refined(self, right: np.ndarray) -> np.ndarray:
        """The solution, and what is left of the right side solved once more."""
        found = self.solve(right)
        product = blas.dspmv(right.size, 1.0, self.triangle, found) + self.diagonal * found
        return found + self.solve(right - product)


# ---------------------------------------------------------------- the solver


_PARTS: dict[str, Any] = {
    "w": Array("outputs", "width"), "combined": Array("outputs", 2, "width"), "measures": Array("outputs", MEASURES),
    "moved": Array("outputs", dtype=np.bool_), "ended": Array("outputs", dtype=np.bool_),
}  # fmt: skip


@savable("Interior.State", variables=Within(Variables), **_PARTS)
@dataclass
class State(protocol.State):
    """Where all outputs stand: w with the intercept last, Zᵀβ for each sign of β and the sums of the certificate, which
    of them moved last and which can go no further; the variables of the examples, where they are in this process; and
    what was sent.

    ``trips`` are messages to all parts, ``bytes_sent`` and ``bytes_received`` what they and the replies hold.
    """

    w: np.ndarray
    combined: np.ndarray
    measures: np.ndarray
    moved: np.ndarray
    ended: np.ndarray
    variables: Variables
    trips: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    counters: Counters = field(default_factory=Counters)

    resumes = False

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether rounding allows no further step of any output."""
        return bool(self.ended.all())


@dataclass
class Work:
    """The parts, and what they said of the present point."""

    parts: Any
    said: list[np.ndarray] | None = None


@savable()
@dataclass
class Interior(Solver):
    """Interior-point method for linear machines on data with few features.

    It needs some thirty passes to a gap of 1e-6, whatever the sizes of the features and of C. A pass
    takes n × d² operations.

    Parameters
    ----------
    max_features : int, default=2000
        The largest number of features. Data with more is refused.

    Notes
    -----
    It has the losses hinge, squared hinge and (squared) ε-insensitive, and the intercepts
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

    state_class = State
    exact = True

    def first_slice(self, problem: Any) -> int:
        """One step: a few passes over the data."""
        return 1

    def check(self, problem: Any) -> None:
        """Refuse what this method cannot do, in one sentence each."""
        loss = losses.scalar_loss(problem.target)
        known = (losses.Hinge, losses.SquaredHinge, losses.EpsilonInsensitive, losses.SquaredEpsilon)
        if losses.is_joint(problem.target) or not isinstance(loss, known):
            raise ValueError(
                "the solver 'interior' has the hinge, the ε-insensitive loss and their squares, each output apart: "
                "choose one of them with multi_class='ovr', or another solver"
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
        """Those of the variables."""
        return sizes_of(problem)

    def steps_per_epoch(self, problem: Any) -> int:
        """A step passes over the data."""
        return 1

    def at_checkpoint(self, state: State) -> bool:
        """After each step: what a look says of a point is known with the step."""
        return True

    def parts(self, problem: Any, variables: Variables) -> Any:
        """Whom steps ask: here one part of all examples, which changes the variables in place."""
        return LocalParts([Part(problem, problem.C, variables)])

    def init(self, problem: Any, rng: Any = None) -> State:
        """The state with w = 0 and α inside its box."""
        self.check(problem)
        outputs, width = problem.n_outputs, problem.d + (problem.intercept != "none")
        state = self.state_class(
            w=np.zeros((outputs, width)), combined=np.zeros((outputs, 2, width)),
            measures=np.zeros((outputs, MEASURES)),
            moved=np.ones(outputs, bool), ended=np.zeros(outputs, bool), variables=self.start(problem),
        )  # fmt: skip
        self._hear(problem, state, self._work(problem, state), "weigh", np.arange(outputs), state.w)
        return state

    def start(self, problem: Any) -> Variables:
        """The variables of all examples before the first step."""
        return start(problem, problem.C, problem.scale)

    def _work(self, problem: Any, state: State) -> Work:
        return state.work(problem, lambda: Work(self.parts(problem, state.variables)))

    # -- steps

    def advance(self, problem: Any, state: State, n_steps: int) -> int:
        """Take a step of every output, in place; returns 1, so that each is looked at."""
        if n_steps < 1 or state.ended.all():
            return min(n_steps, 1)
        work = self._work(problem, state)
        with all_blas_threads(worth=state.w.shape[1] >= WIDE):
            if work.said is None:  # a part says again what it said, and nothing is new
                work.said = work.parts.sums("weigh", np.flatnonzero(state.moved), state.w[state.moved])
            self._step(problem, state, work)
        state.counters.steps += 1
        state.counters.visits += problem.n
        state.counters.updates += problem.n
        return 1

    def _step(self, problem: Any, state: State, work: Work) -> None:
        """One of Mehrotra's steps of all outputs that go on."""
        assert work.said is not None
        goes_on = ~state.ended[state.moved]
        which = np.flatnonzero(state.moved)[goes_on]
        triangles, vectors, measures = work.said if goes_on.all() else (said[goes_on] for said in work.said)
        diagonal, W = self._diagonal(problem), state.w[which]
        equations = [Equations(triangle, diagonal) for triangle in triangles]
        right = vectors.sum(axis=1) - diagonal * W
        change = np.stack([e.solve(r) for e, r in zip(equations, right, strict=True)])
        before, mean = measures[:, 5], measures[:, 5] / np.maximum(measures[:, 6], 1.0)
        shortest, sums, more = self._ask(state, work, "predict", which, change, TRUSTED * mean)
        after = before + shortest * (sums[:, 0] + shortest * sums[:, 1])
        share = np.divide(after, before, out=np.zeros_like(after), where=before > 0.0)
        tau = mean * np.minimum(np.clip(share, 0.0, 1.0) ** 3, MOST_CENTRED)
        right += more[:, 0] + tau[:, None] * more[:, 1]
        change = np.stack([e.refined(r) for e, r in zip(equations, right, strict=True)])
        (shortest,) = self._ask(state, work, "correct", which, change, tau)
        length = TO_THE_BOUND * shortest
        lost = ~np.isfinite(change).all(axis=1) | ~(length > SHORTEST)
        length[lost], change[lost] = 0.0, 0.0
        state.w[which] = W + length[:, None] * change
        state.moved[:] = False
        state.moved[which] = True
        self._hear(problem, state, work, "move", which, length, state.w[which])
        state.ended[which[lost]] = True
        primal, dual = self._values(problem, state)
        state.ended |= primal - dual <= CLOSED * primal

    def _ask(self, state: State, work: Work, method: str, which: np.ndarray, *message: np.ndarray) -> list[np.ndarray]:
        """The parts' replies in one, with the shortest way to a bound first; what is sent is counted."""
        totals = work.parts.sums(method, which, *message, least=0 if method in ("weigh", "move") else 1)
        state.trips += 1
        state.bytes_sent += len(work.parts) * sum(array.nbytes for array in (which, *message))
        state.bytes_received += len(work.parts) * sum(array.nbytes for array in totals)
        return totals

    def _hear(self, problem: Any, state: State, work: Work, method: str, which: np.ndarray, *message: Any) -> None:
        """Ask the parts of a point, and note what they say of it."""
        work.said = self._ask(state, work, method, which, *message)
        state.combined[which], state.measures[which] = work.said[1][:, 1:], work.said[2]
        passes = 1 if method == "weigh" else 3  # with the predictor's and the corrector's
        state.counters.feature_reads += passes * round(problem.mean_entries * problem.n)

    @staticmethod
    def _diagonal(problem: Any) -> np.ndarray:
        """D: a free intercept costs nothing."""
        free = problem.intercept == "unregularized"
        return np.append(np.ones(problem.d), [] if problem.intercept == "none" else [0.0 if free else 1.0])

    # -- output

    def model(self, problem: Any, state: State) -> LinearModel:
        """A finished copy."""
        d = problem.d
        b = np.zeros(problem.n_outputs) if problem.intercept == "none" else state.w[:, d].copy()
        return LinearModel(state.w[:, :d].astype(problem.dtype), b)

    def certificate(self, problem: Any, state: State) -> Certificate:
        """Primal value of the model, dual value of α made feasible, and their difference."""
        primal, dual = (problem.lam * float(values.sum()) for values in self._values(problem, state))
        return Certificate(primal, dual, primal - dual)

    def _values(self, problem: Any, state: State) -> tuple[np.ndarray, np.ndarray]:
        """The primal and the dual value of each output in the C-form, of what the parts said last; the dual value is
        lowered by what rounding may have added to their difference.
        """
        diagonal, free = self._diagonal(problem), problem.intercept == "unregularized"
        shown = state.w.copy()
        shown[:, : problem.d] = state.w[:, : problem.d].astype(problem.dtype)
        primal = 0.5 * np.sum(diagonal * shown**2, axis=1) + state.measures[:, 0]
        linear, quadratic, factors = state.measures[:, 1:3], state.measures[:, 3:5], np.ones((len(shown), 2))
        if free:  # the sign of β that has too much is made lighter by one factor
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
    def _lost(problem: Any, state: State, w: np.ndarray) -> np.ndarray:
        """What rounding may have added to the gap of each output: by errors of the scores, of Zᵀβ, and of the sums."""
        of_sum, (of_scores, pulled) = rounding_of_sum(problem.n), state.measures[:, 7:].T
        of_combined = of_sum * pulled
        of_combined = of_combined * (np.linalg.norm(w, axis=1) + 0.5 * of_combined)
        return of_scores + of_combined + of_sum * np.abs(state.measures[:, :5]).sum(axis=1)

    def duals(self, problem: Any, state: State) -> np.ndarray:
        """The dual variables β, of shape (outputs, n), part after part."""
        return np.concatenate(self._work(problem, state).parts.ask("coefficients"), axis=1)


# ---------------------------------------------------------------- parts elsewhere


#: What a part keeps.
KEPT = Row({"alpha": _OF_SIDES, "room": _BOUNDED, "lower": _OF_SIDES, "upper": _BOUNDED})


@savable("InteriorOnParts.State", variables=Own(Variables), kept=Each(KEPT, alone=True), **_PARTS)
@dataclass
class PartsState(HeldByParts, State):
    """A state whose variables are with the parts."""

    def live(self) -> Any:
        """Whom to ask, out of the workspace."""
        return self.workspace[1].parts


@dataclass(frozen=True)
class PartMaker:
    """Makes a part of its problem; travels to where the examples are."""

    C: float
    scale: float

    #: What a part keeps from one message of a step to the next is not in its state.
    complete = False

    def __call__(self, problem: Problem, number: int) -> Part:
        return Part(problem, self.C, scale=self.scale)


@savable()
@dataclass
class InteriorOnParts(Interior):
    """The same method on a problem whose examples are in parts, perhaps elsewhere."""

    state_class = PartsState

    def start(self, problem: Any) -> Variables:
        """None here."""
        return Variables(*np.empty((4, problem.n_outputs, 0, 0)))

    def _work(self, problem: Any, state: Any) -> Work:
        found = state.work(problem, lambda: Work(state.made(problem.place, PartMaker(problem.C, problem.scale))))
        vars(state).pop("kept", None)
        return found
