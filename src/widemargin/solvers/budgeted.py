"""Budgeted SGD: kernel machines that never hold more than B support vectors.

The problem is λ/2 ‖W‖² + (1/n) Σ sᵢ ℓ(Wᵀ Φ(xᵢ), yᵢ) without intercept, for one score (hinge, ε-insensitive) or one per
class (the joint hinge of Crammer and Singer, or a hinge per class against the rest), with W = Σ_j Φ(z_j) α_jᵀ over
at most B vectors z_j with rows α_j of coefficients. Step t, on the example (x, y) (Algorithm 1 of the paper)::

    g   ← sub-gradient of ℓ at the scores Σ_j α_j k(z_j, x)
    W   ← (1 − η_t λ) W
    if g ≠ 0:  add the vector x with coefficients −η_t s g;  if there are more than B vectors, W ← W − Δ_t
    W   ← W min(1, U/‖W‖)                                     (where there is a radius U)

=====================  =====  ==============  =====
step                   λ      η_t             U
=====================  =====  ==============  =====
PegasosStep            > 0    1/(λt)          –
NormaStep              > 0    η/√t            –
MarginPerceptronStep   0      η               U
PassiveAggressive      0      min(C, ℓ/‖gΦ‖²) –
=====================  =====  ==============  =====

Maintenance, Δ_t, keeps the number of vectors:

* Remove: Δ = Φ(z_p)α_pᵀ for the smallest (‖α_p‖² k(z_p, z_p)), a random or the oldest p. "smallest" is also the
  truncation of Norma and SILK. ``Stop`` removes the newest, so that the budget's first vectors stay (Stoptron).
* Project: the smallest onto the span of the others, Δα = −(column p of K⁻¹)/(K⁻¹)_pp, ‖Δ‖² = ‖α_p‖²/(K⁻¹)_pp.
  K⁻¹ is kept, O(B²) for a vector that comes or goes, and computed anew when K K⁻¹ = I fails in a row that is
  looked at. A new vector whose distance from the span is at most ``threshold`` is projected at once, which keeps K
  regular; with a large threshold and margin perceptron steps this is the Projectron++, which grows only as it must.
* Merge: the smallest and its best partner (see :mod:`widemargin.core.merging`) into one; Gaussian kernel only. With
  ``vectors`` > 2 the smallest is merged with its several best partners, one after the other, and the search is
  shared among as many later steps.
* Nearest: α_rΦ(z_r) is projected onto the newest vector x and the nearest one of z_r, for the r that loses least. Δ is
  orthogonal to Φ(x), so a passive-aggressive step followed by this is the joint optimum that BPA-NN asks for.
* Forget: the oldest, after the whole model shrank by the largest factor that the bound of the self-tuned Forgetron
  allows.

Theorem 1: with ‖Φ‖ ≤ 1 and E_t = Δ_t/η_t, ‖E_t‖ ≤ 1, the mean instantaneous objective of Pegasos steps is within
(λU + 2)²(ln N + 1)/(2λN) + 2U Ē of the optimum's, Ē = Σ ‖E_t‖/N. The solver records Ē over steps and over
maintenances.

Deviations. The paper keeps two-class coefficients as Crammer-Singer pairs, which is the one-score problem here with
λ/2. Merging also tries partners of opposite sign, at the end point h = 0. Scores are computed in the precision of
the buffer, float32 by default.

Cost of a step: k kernel values for k vectors, O(kd) or O(k nnz), and nothing else for examples that lie outside of the
margin. Vectors are kept feature by feature (feature × vector), so that every loop over vectors is vector code.
W is kept as a scalar times coefficients, so decay costs O(1).

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.dispatch import borrow, compiled, flat, generic, use_wide_registers
from ..core.exp import exp
from ..core.kernels import (
    CHUNK,
    LANES,
    RBF,
    Absolute,
    Inner,
    KernelMatrix,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
    Squared,
    accumulate,
)
from ..core.losses import output_count, slopes, total_value
from ..core.merging import GRID, best_place, degradations, joint_degradations, merge_table
from ..core.rows import CSRRows, DenseRows, as_rows, borrowed, dtype_of, row_size, shape
from ..core.shuffling import shuffle
from ..history import Counters
from ..models import KernelModel
from ..problem import KernelProblem
from ..running import Solver

#: Coefficients are brought to scale 1 when their scale has become this small.
SMALLEST_SCALE = 1e-9
#: Largest error of a row of K K⁻¹ − I, and the least squared distance from the span at which a vector is new.
INVERSE_ERROR, SPAN = 1e-5, 1e-4
#: γ‖z‖²√ε up to which squared distances may be made of norms and products when rows are scored (see core.kernels).
CANCELS = 0.05
#: Tiles of rows scored together, which share the reading of vectors.
TILES = 8


# ---------------------------------------------------------------- step rules


class PegasosStep(NamedTuple):
    """η_t = 1/(λt)."""


class NormaStep(NamedTuple):
    """η_t = η/√t."""

    eta: float = 1.0


class MarginPerceptronStep(NamedTuple):
    """η_t = η, without regularisation, and a projection to the ball of radius U."""

    eta: float = 1.0
    radius: float = math.inf


class PassiveAggressiveStep(NamedTuple):
    """The shortest step that makes the loss zero, but at most C (PA-I); without regularisation."""

    C: float = 1.0


STEPS: dict[str, type] = {
    "pegasos": PegasosStep,
    "norma": NormaStep,
    "margin_perceptron": MarginPerceptronStep,
    "passive_aggressive": PassiveAggressiveStep,
}


class Schedule(NamedTuple):
    """What the loop sees of a step rule: η_t = eta/t^power, at most loss/‖gΦ‖² if ``passive``."""

    lam: float
    eta: float
    power: float
    radius: float
    passive: bool


def schedule(step: Any, lam: float) -> Schedule:
    """The schedule of a step rule."""
    if isinstance(step, PegasosStep):
        return Schedule(lam, 1.0 / lam, 1.0, math.inf, False)
    if isinstance(step, NormaStep):
        if step.eta * lam >= 1.0:
            raise ValueError(f"eta · lam must be < 1 for Norma steps, got {step.eta} · {lam}: choose a smaller eta")
        return Schedule(lam, float(step.eta), 0.5, math.inf, False)
    if isinstance(step, MarginPerceptronStep):
        return Schedule(0.0, float(step.eta), 0.0, float(step.radius), False)
    if isinstance(step, PassiveAggressiveStep):
        return Schedule(0.0, float(step.C), 0.0, math.inf, True)
    raise TypeError(f"step must be one of {', '.join(c.__name__ for c in STEPS.values())}, got {step!r}")


# ---------------------------------------------------------------- maintenance policies


class Remove(NamedTuple):
    """Remove the "smallest", a "random", the "oldest" or the "newest" vector."""

    which: str = "smallest"


class Project(NamedTuple):
    """Project the smallest vector onto the others; a new one within ``threshold`` (in ‖Δ‖/η) of their span at once."""

    threshold: float = 0.0


class Merge(NamedTuple):
    """Merge the smallest vector with its ``vectors`` − 1 best partners (Gaussian kernel)."""

    vectors: int = 2
    table_size: int = 400


class Forget(NamedTuple):
    """Shrink the model as the self-tuned Forgetron does, and remove the oldest vector."""


class Nearest(NamedTuple):
    """Project one vector onto the newest and its own nearest, the one that loses least (BPA-NN)."""


def MultiMerge(k: int = 4) -> Merge:
    """Merge k vectors into one at a time."""
    return Merge(vectors=k)


def Stop() -> Remove:
    """Keep the first B vectors (Stoptron)."""
    return Remove("newest")


MAINTENANCES: dict[str, Any] = {
    "merge": Merge(),
    "multi_merge": MultiMerge(),
    "project": Project(),
    "remove": Remove("smallest"),
    "random": Remove("random"),
    "oldest": Remove("oldest"),
    "forget": Forget(),
    "nearest": Nearest(),
    "stop": Stop(),
}


class Removing(NamedTuple):
    """Remove at work: which = 0 smallest, 1 random, 2 oldest, 3 newest."""

    which: int
    seed: int


class Projecting(NamedTuple):
    """Project at work."""

    threshold: float


class Merging(NamedTuple):
    """Merge at work."""

    h: np.ndarray
    degradation: np.ndarray
    vectors: int


class Forgetting(NamedTuple):
    """Forget at work."""


class Nearing(NamedTuple):
    """Nearest at work."""


# ---------------------------------------------------------------- the buffer


class Budget(NamedTuple):
    """The vectors, in columns 0 … count − 1; what stands behind is zero.

    Z (features × capacity) vectors; size: ‖z‖², or ‖z‖₁ for the Laplacian kernel; A (outputs × capacity) coefficients
    without their common scale; norm2: ‖α_j‖² k(z_j, z_j); age: the step at which a vector came; K, inverse: the
    kernel matrix and its inverse, of size 0 where not needed.
    """

    Z: np.ndarray
    size: np.ndarray
    A: np.ndarray
    norm2: np.ndarray
    age: np.ndarray
    K: np.ndarray
    inverse: np.ndarray


class Scratch(NamedTuple):
    """Memory that the loop overwrites."""

    x: np.ndarray  # a vector
    other: np.ndarray  # another
    sums: np.ndarray  # distances or inner products to all vectors; −γ‖x − z‖² once kernel values are made of them
    k: np.ndarray  # kernel values with all vectors
    out: np.ndarray  # one number for each vector
    powers: np.ndarray
    z: np.ndarray  # scores
    g: np.ndarray  # slopes of each example of a step
    losses: np.ndarray  # of each example of a step
    merged: np.ndarray  # coefficients of a merged vector
    column: np.ndarray  # float64, one number for each vector
    chosen: np.ndarray  # vectors to merge


# places in the arrays of scalars
SCALE, NORM2, LOSS, LOST, FORGOTTEN = range(5)
STEP, COUNT, MAINTAINED, UPDATES, EVALS, READS, REFRESHED, VISITS = range(8)


class SquaredBeyond(NamedTuple):
    """(x − z)² − z²: only features with x ≠ 0 count, on top of ‖z‖²."""


class AbsoluteBeyond(NamedTuple):
    """|x − z| − |z|."""


@generic
def term(measure, x, z):
    """The measure of one feature."""


@term.case(Squared)
def _(measure, x, z):
    return (x - z) * (x - z)


@term.case(SquaredBeyond)
def _(measure, x, z):
    return x * (x - (z + z))


@term.case(Absolute)
def _(measure, x, z):
    return abs(x - z)


@term.case(AbsoluteBeyond)
def _(measure, x, z):
    return abs(x - z) - abs(z)


@term.case(Inner)
def _(measure, x, z):
    return x * z


@generic
def alone(measure, x):
    """What one feature adds to the size of a vector."""


for _square in (Squared, SquaredBeyond, Inner):

    @alone.case(_square)
    def _(measure, x):
        return x * x


for _absolute in (Absolute, AbsoluteBeyond):

    @alone.case(_absolute)
    def _(measure, x):
        return abs(x)


@generic
def base(measure, size):
    """What the sum over a sparse row starts with, for a vector of this size."""


for _beyond in (SquaredBeyond, AbsoluteBeyond):

    @base.case(_beyond)
    def _(measure, size):
        return size


@base.case(Inner)
def _(measure, size):
    return 0.0 * size


@generic
def finish(kernel, sums, m, k):
    """k[j] ← the kernel value of sums[j] for j < m, in place; Gaussian sums become −γ‖x − z‖²."""


def _exponential(kernel, sums, m, k):
    gamma, zero, largest = sums.dtype.type(kernel.gamma), sums.dtype.type(0), np.finfo(sums.dtype).max
    for j in range(m):
        s = sums[j]
        s = s if s <= largest else largest
        s = s if s > zero else zero
        sums[j] = -gamma * s
        k[j] = exp(-gamma * s)


finish.case(RBF)(_exponential)
finish.case(Laplacian)(_exponential)


@finish.case(Linear)
def _(kernel, sums, m, k):
    for j in range(m):
        k[j] = sums[j]


@finish.case(Polynomial)
def _(kernel, sums, m, k):
    gamma, coef0 = sums.dtype.type(kernel.gamma), sums.dtype.type(kernel.coef0)
    for j in range(m):
        k[j] = (gamma * sums[j] + coef0) ** kernel.degree


@finish.case(Sigmoid)
def _(kernel, sums, m, k):
    gamma, coef0 = sums.dtype.type(kernel.gamma), sums.dtype.type(kernel.coef0)
    for j in range(m):
        k[j] = np.tanh(gamma * sums[j] + coef0)


@generic
def self_value(kernel, size):
    """k(x, x) from the size of x."""


for _distance in (RBF, Laplacian):

    @self_value.case(_distance)
    def _(kernel, size):
        return 1.0


@self_value.case(Linear)
def _(kernel, size):
    return size


@self_value.case(Polynomial)
def _(kernel, size):
    return (kernel.gamma * size + kernel.coef0) ** kernel.degree


@self_value.case(Sigmoid)
def _(kernel, size):
    return np.tanh(kernel.gamma * size + kernel.coef0)


@compiled
def add_terms(measure, a, b, c, d, za, zb, zc, zd, m, sums):
    """sums[j] += the measures of four features, in place: one pass over the sums for four features."""
    for j in range(m):
        sums[j] += (term(measure, a, za[j]) + term(measure, b, zb[j])) + (
            term(measure, c, zc[j]) + term(measure, d, zd[j])
        )


@compiled
def vector_sums(measure, x, Z, m, sums):
    """sums[j] ← the measure of a vector x and column j of Z, j < m, in place."""
    d = x.size
    for j in range(m):
        sums[j] = 0
    k = 0
    while k + 4 <= d:
        add_terms(measure, x[k], x[k + 1], x[k + 2], x[k + 3], Z[k], Z[k + 1], Z[k + 2], Z[k + 3], m, sums)
        k += 4
    while k < d:
        a, za = x[k], Z[k]
        for j in range(m):
            sums[j] += term(measure, a, za[j])
        k += 1


@generic
def row_sums(X, i, centre, measure, beyond, Z, size, m, x, sums):
    """sums[j] ← the measure of row i (less the centre) and column j of Z, j < m; x ← the row; returns its size."""


@row_sums.case(DenseRows)
def _(X, i, centre, measure, beyond, Z, size, m, x, sums):
    row = X.values[i]
    own = 0.0
    for k in range(x.size):
        x[k] = row[k] - centre[k]
        own += alone(measure, np.float64(x[k]))
    vector_sums(measure, x, Z, m, sums)
    return own


@row_sums.case(CSRRows)
def _(X, i, centre, measure, beyond, Z, size, m, x, sums):
    number = x.dtype.type
    start, end = X.indptr[i], X.indptr[i + 1]
    own = 0.0
    for p in range(start, end):
        own += alone(measure, np.float64(number(X.data[p])))
    for j in range(m):
        sums[j] = base(beyond, size[j])
    p = start
    while p + 4 <= end:
        a, b, c, d = X.data[p], X.data[p + 1], X.data[p + 2], X.data[p + 3]
        add_terms(
            beyond, number(a), number(b), number(c), number(d),
            Z[X.indices[p]], Z[X.indices[p + 1]], Z[X.indices[p + 2]], Z[X.indices[p + 3]], m, sums,
        )  # fmt: skip
        p += 4
    while p < end:
        a, za = number(X.data[p]), Z[X.indices[p]]
        for j in range(m):
            sums[j] += term(beyond, a, za[j])
        p += 1
    return own


@generic
def write_row(X, i, x, Z, j):
    """Column j of Z, which is zero, ← row i, that row_sums has seen."""


@write_row.case(DenseRows)
def _(X, i, x, Z, j):
    for k in range(x.size):
        Z[k, j] = x[k]


@write_row.case(CSRRows)
def _(X, i, x, Z, j):
    for p in range(X.indptr[i], X.indptr[i + 1]):
        Z[X.indices[p], j] = X.data[p]


@compiled
def padded(count):
    """Vectors to compute with: whole registers."""
    return (count + LANES - 1) // LANES * LANES


@compiled
def kernel_row(kernel, measure, budget, j, count, work):
    """work.k ← the kernel values of vector j and all, in place; work.x ← vector j."""
    Z, x = budget.Z, work.x
    for k in range(x.size):
        x[k] = Z[k, j]
    vector_sums(measure, x, Z, padded(count), work.sums)
    finish(kernel, work.sums, padded(count), work.k)
    work.sums[j] = 0 if work.sums[j] != work.sums[j] else work.sums[j]


@compiled
def smallest(norm2, count):
    """The vector whose removal costs least; the first of several."""
    best, place = norm2[0], 0
    for j in range(1, count):
        if norm2[j] < best:
            best, place = norm2[j], j
    return place


@compiled
def least(out, count):
    """The place of the least entry; the first of several."""
    best, place = out[0], 0
    for j in range(1, count):
        if out[j] < best:
            best, place = out[j], j
    return place


@compiled
def drop(budget, counts, j):
    """Take vector j out, in place: the last one moves to its column, and the last column becomes zero."""
    Z, A = budget.Z, budget.A
    last = counts[COUNT] - 1
    for k in range(Z.shape[0]):
        Z[k, j] = Z[k, last]
        Z[k, last] = 0
    for c in range(A.shape[0]):
        A[c, j] = A[c, last]
        A[c, last] = 0
    budget.size[j], budget.norm2[j], budget.age[j] = budget.size[last], budget.norm2[last], budget.age[last]
    budget.size[last], budget.norm2[last], budget.age[last] = 0, 0, 0
    counts[COUNT] = last


@compiled
def correlation(A, j, k, m):
    """⟨W, Φ(z_j)α_jᵀ⟩ without scales, from the kernel row k of vector j."""
    total = 0.0
    for c in range(A.shape[0]):
        row, f = A[c], A.dtype.type(0)
        for i in range(m):
            f += row[i] * k[i]
        total += np.float64(A[c, j]) * np.float64(f)
    return total


# ---------------------------------------------------------------- maintenance at work


@generic
def maintain(policy, kernel, measure, budget, limit, counts, values, work, track):
    """Keep the budget after a vector came, whose kernel row is work.k; returns ‖Δ‖² without scales, −1 if Δ = 0.

    Changes the budget and its scalars in place; ``track`` says whether ‖W‖² must be kept up to date.
    """


@compiled
def remove(which, seed, kernel, measure, budget, counts, values, work, track):
    """Remove one vector, in place."""
    count = counts[COUNT]
    if which == 0:
        j = smallest(budget.norm2, count)
    elif which == 1:
        # a hash of the number of maintenances: as good as a generator, and a resumed run goes on with the same
        u = np.uint64(seed) + np.uint64(counts[MAINTAINED]) * np.uint64(0x9E3779B97F4A7C15)
        u = (u ^ (u >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        u = (u ^ (u >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        u = u ^ (u >> np.uint64(31))
        j = int(np.float64(u >> np.uint64(11)) * 2.0**-53 * count)
    elif which == 2:
        j = least(budget.age, count)
    else:
        j = count - 1
    lost = np.float64(budget.norm2[j])
    if track:
        if j != count - 1:
            kernel_row(kernel, measure, budget, j, count, work)
            counts[EVALS] += count
        values[NORM2] += lost - 2.0 * correlation(budget.A, j, work.k, padded(count))
    drop(budget, counts, j)
    return lost


@maintain.case(Removing)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    if counts[COUNT] <= limit:
        return -1.0
    return remove(policy.which, policy.seed, kernel, measure, budget, counts, values, work, track)


@compiled
def forget(kernel, measure, budget, counts, values, work):
    """Shrink by the largest φ ≤ 1 with Q + Ψ(φ) ≤ (15/32) M, and remove the oldest, in place.

    Ψ(φ) = (φσ)² + 2φσ(1 − φμ) with σ the size of the oldest coefficient and μ its margin (Dekel, Shalev-Shwartz and
    Singer: The Forgetron, 2008); M is the number of updates, Q the sum of the Ψ so far.
    """
    count = counts[COUNT]
    j = least(budget.age, count)
    if j != count - 1:
        kernel_row(kernel, measure, budget, j, count, work)
        counts[EVALS] += count
    scale = values[SCALE]
    lost = np.float64(budget.norm2[j])
    sigma = scale * np.sqrt(lost)
    inner = scale * scale * correlation(budget.A, j, work.k, padded(count))
    mu = inner / sigma if sigma > 0.0 else 0.0
    room = 15.0 / 32.0 * counts[UPDATES] - values[FORGOTTEN]
    # (σ² − 2σμ) φ² + 2σ φ − room ≤ 0
    a, b = sigma * sigma - 2.0 * sigma * mu, 2.0 * sigma
    phi = 1.0
    if a + b > room:
        inside = b * b + 4.0 * a * room
        if abs(a) < 1e-12:
            phi = room / b
        elif a > 0.0:
            phi = (-b + np.sqrt(inside)) / (2.0 * a)
        elif inside > 0.0:
            phi = 2.0 * room / (b + np.sqrt(inside))
        phi = min(max(phi, 1e-6), 1.0)
    values[FORGOTTEN] += a * phi * phi + b * phi
    values[SCALE] = phi * scale
    values[NORM2] += lost - 2.0 * inner / (scale * scale)
    drop(budget, counts, j)
    return lost


@maintain.case(Forgetting)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    if counts[COUNT] <= limit:
        return -1.0
    return forget(kernel, measure, budget, counts, values, work)


@compiled
def apart(Z, i, x):
    """‖z_i − x‖²."""
    total = 0.0
    for k in range(x.size):
        difference = np.float64(Z[k, i]) - np.float64(x[k])
        total += difference * difference
    return total


@compiled
def inner(A, i, coefficients):
    """⟨α_i, coefficients⟩."""
    total = 0.0
    for c in range(A.shape[0]):
        total += np.float64(A[c, i]) * coefficients[c]
    return total


@compiled
def lost_by_merging(Z, A, chosen, found, gamma, x, coefficients, other):
    """‖Σ Φ(z_i)α_i − Φ(x) coefficients‖² over the chosen vectors; ``other`` is overwritten."""
    total = 0.0
    for a in range(found):
        i = chosen[a]
        total -= 2.0 * inner(A, i, coefficients) * np.exp(-gamma * apart(Z, i, x))
    for c in range(A.shape[0]):
        total += coefficients[c] * coefficients[c]
    for a in range(found):
        i = chosen[a]
        for k in range(x.size):
            other[k] = Z[k, i]
        for b in range(found):
            cross = 0.0
            for c in range(A.shape[0]):
                cross += np.float64(A[c, i]) * np.float64(A[c, chosen[b]])
            total += cross * np.exp(-gamma * apart(Z, chosen[b], other))
    return max(total, 0.0)


@compiled
def merge(table, lost_table, vectors, gamma, kernel, measure, budget, counts, values, work, track):
    """Merge the smallest vector with its best partners, in place; returns ‖Δ‖² without scales."""
    Z, A, out, chosen, x, merged = budget.Z, budget.A, work.out, work.chosen, work.x, work.merged
    count, outputs = counts[COUNT], A.shape[0]
    m = smallest(budget.norm2, count)
    if m != count - 1:
        kernel_row(kernel, measure, budget, m, count, work)
        counts[EVALS] += count
    if outputs == 1:
        degradations(lost_table, A[0], m, work.k, count, out)
    else:
        joint_degradations(A, m, work.sums, padded(count), work.powers, out)
    chosen[0] = m
    found = 1
    while found < min(vectors, count):
        n = least(out, count)
        out[n] = np.inf
        chosen[found] = n
        found += 1
    first_log = np.float64(work.sums[chosen[1]])
    correlated = 0.0
    if track:
        for a in range(found):
            kernel_row(kernel, measure, budget, chosen[a], count, work)
            correlated += correlation(A, chosen[a], work.k, padded(count))
        counts[EVALS] += found * count
    for k in range(x.size):
        x[k] = Z[k, m]
    for c in range(outputs):
        merged[c] = A[c, m]
    lost = 0.0
    for a in range(1, found):
        n = chosen[a]
        log_kappa = first_log if a == 1 else -gamma * apart(Z, n, x)
        p, q, r = 0.0, inner(A, n, merged), 0.0
        for c in range(outputs):
            p += merged[c] * merged[c]
            r += np.float64(A[c, n]) * np.float64(A[c, n])
        if p <= r:
            h = best_place(table, p, q, r, log_kappa, outputs > 1)
        else:
            h = 1.0 - best_place(table, r, q, p, log_kappa, outputs > 1)
        near, far = np.exp(log_kappa * (1.0 - h) * (1.0 - h)), np.exp(log_kappa * h * h)
        lost = p + r + 2.0 * np.exp(log_kappa) * q
        for k in range(x.size):
            x[k] = h * x[k] + (1.0 - h) * Z[k, n]
        for c in range(outputs):
            merged[c] = merged[c] * near + A[c, n] * far
            lost -= merged[c] * merged[c]
    if found > 2:
        lost = lost_by_merging(Z, A, chosen, found, gamma, x, merged, work.other)
    lost = max(lost, 0.0)
    if track:
        vector_sums(measure, x, Z, padded(count), work.sums)
        finish(kernel, work.sums, padded(count), work.k)
        counts[EVALS] += count
        for c in range(outputs):
            row, f = A[c], 0.0
            for j in range(count):
                f += np.float64(row[j]) * np.float64(work.k[j])
            correlated -= merged[c] * f
        values[NORM2] += lost - 2.0 * correlated
    # the last of the partners gets the merged vector; the others leave, those with the largest numbers first,
    # so that the vectors which move into their columns are not among them
    keep = chosen[1]
    norm2, size = 0.0, 0.0
    for c in range(outputs):
        A[c, keep] = merged[c]
        norm2 += merged[c] * merged[c]
    for k in range(x.size):
        Z[k, keep] = x[k]
        size += np.float64(x[k]) * np.float64(x[k])
    budget.norm2[keep], budget.size[keep], budget.age[keep] = norm2, size, counts[STEP]
    chosen[1] = chosen[found - 1]
    for _ in range(found - 1):
        largest = 0
        for a in range(found - 1):
            if chosen[a] > chosen[largest]:
                largest = a
        drop(budget, counts, chosen[largest])
        chosen[largest] = -1
    return lost


@maintain.case(Merging)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    if counts[COUNT] <= limit:
        return -1.0
    return merge(
        policy.h, policy.degradation, policy.vectors, kernel.gamma, kernel, measure, budget, counts, values, work, track
    )


@compiled
def invert(K, inverse, count):
    """inverse ← K⁻¹ of the leading count × count block, in place, by Gauss-Jordan elimination on the diagonal.

    K is positive definite, so that pivots need no search.
    """
    for i in range(count):
        for j in range(count):
            inverse[i, j] = K[i, j]
    for p in range(count):
        pivot = 1.0 / max(inverse[p, p], 1e-12)
        inverse[p, p] = 1.0
        row = inverse[p]
        for j in range(count):
            row[j] *= pivot
        for i in range(count):
            if i != p:
                other = inverse[i]
                f = other[p]
                other[p] = 0.0
                for j in range(count):
                    other[j] -= f * row[j]


@compiled
def project(threshold, limit, kernel, budget, counts, values, work):
    """Take the newest vector into K and K⁻¹, and project it or the smallest if it must be, in place."""
    K, inverse, A, column = budget.K, budget.inverse, budget.A, work.column
    new = counts[COUNT] - 1
    own = np.float64(work.k[new])
    for j in range(new):
        K[new, j] = K[j, new] = work.k[j]
    K[new, new] = own
    # one row of K K⁻¹ = I is looked at for each vector that comes
    if new > 0:
        i = counts[UPDATES] % new
        for j in range(new):
            column[j] = 0.0
        for l in range(new):
            f, row = K[i, l], inverse[l]
            for j in range(new):
                column[j] += f * row[j]
        column[i] -= 1.0
        worst = 0.0
        for j in range(new):
            worst = max(worst, abs(column[j]))
        if not worst <= INVERSE_ERROR:
            invert(K, inverse, new)
            counts[REFRESHED] += 1
    # column ← K⁻¹k, and the squared distance of the new vector from the span of the others
    distance2 = own
    for i in range(new):
        row, f = inverse[i], 0.0
        for j in range(new):
            f += row[j] * K[new, j]
        column[i] = f
        distance2 -= f * K[new, i]
    norm2 = 0.0
    for c in range(A.shape[0]):
        norm2 += np.float64(A[c, new]) * np.float64(A[c, new])
    near = max(distance2, 0.0) * norm2 <= threshold * threshold * norm2
    if near or distance2 <= SPAN * own:
        p, lost = new, max(distance2, 0.0) * norm2
    else:
        # K⁻¹ of one more: [[E + ccᵀ/δ, −c/δ], [−cᵀ/δ, 1/δ]]
        for i in range(new):
            row, f = inverse[i], column[i] / distance2
            for j in range(new):
                row[j] += f * column[j]
            row[new] = -f
            inverse[new, i] = -f
        inverse[new, new] = 1.0 / distance2
        if new + 1 <= limit:
            return -1.0
        p = smallest(budget.norm2, new + 1)
        norm2 = 0.0
        for c in range(A.shape[0]):
            norm2 += np.float64(A[c, p]) * np.float64(A[c, p])
        g = inverse[p, p]
        lost = norm2 / g
        for i in range(new + 1):
            column[i] = -inverse[i, p] / g
        # K⁻¹ of one less: E − ffᵀ/g
        for i in range(new + 1):
            if i != p:
                row, f = inverse[i], column[i] * g
                for j in range(new + 1):
                    row[j] -= f * column[j]
    for c in range(A.shape[0]):
        a, row = np.float64(A[c, p]), A[c]
        for j in range(new + 1):
            if j != p:
                row[j] += a * column[j]
    values[NORM2] -= lost
    for j in range(new):  # the last moves to the column of p
        if j != p:
            K[p, j] = K[j, p] = K[new, j]
            inverse[p, j] = inverse[j, p] = inverse[new, j]
    if p != new:
        K[p, p], inverse[p, p] = K[new, new], inverse[new, new]
    drop(budget, counts, p)
    for j in range(new):
        norm2 = 0.0
        for c in range(A.shape[0]):
            norm2 += np.float64(A[c, j]) * np.float64(A[c, j])
        budget.norm2[j] = norm2 * K[j, j]
    return lost


@maintain.case(Projecting)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    return project(policy.threshold, limit, kernel, budget, counts, values, work)


@compiled
def project_one(budget, counts, work):
    """Project the vector that loses least onto the newest and its nearest neighbour, and take it out, in place."""
    K, A = budget.K, budget.A
    new = counts[COUNT] - 1
    for j in range(new + 1):
        K[new, j] = K[j, new] = work.k[j]
    lost, gone, near, onto_new, onto_near = np.inf, 0, new, 0.0, 0.0
    for r in range(new):
        n, row, norm2 = new, K[r], 0.0
        for j in range(new):
            if j != r and row[j] > row[n]:
                n = j
        for c in range(A.shape[0]):
            norm2 += np.float64(A[c, r]) * np.float64(A[c, r])
        determinant = K[new, new] * K[n, n] - K[new, n] * K[new, n]
        if n == new or determinant <= SPAN * K[new, new] * K[n, n]:
            a, b = (row[new] / K[new, new], 0.0) if n == new else (0.0, row[n] / K[n, n])
        else:
            a = (row[new] * K[n, n] - row[n] * K[new, n]) / determinant
            b = (row[n] * K[new, new] - row[new] * K[new, n]) / determinant
        rest = norm2 * max(row[r] - a * row[new] - b * row[n], 0.0)
        if rest < lost:
            lost, gone, near, onto_new, onto_near = rest, r, n, a, b
    for c in range(A.shape[0]):
        A[c, new] += A[c, gone] * onto_new
        A[c, near] += A[c, gone] * onto_near
    for j in (new, near):
        norm2 = 0.0
        for c in range(A.shape[0]):
            norm2 += np.float64(A[c, j]) * np.float64(A[c, j])
        budget.norm2[j] = norm2 * K[j, j]
    for j in range(new):  # the last moves to the column of the one that goes
        K[gone, j] = K[j, gone] = K[new, j]
    K[gone, gone] = K[new, new]
    drop(budget, counts, gone)
    return lost


@maintain.case(Nearing)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    if counts[COUNT] <= limit:
        for j in range(counts[COUNT]):
            budget.K[counts[COUNT] - 1, j] = budget.K[j, counts[COUNT] - 1] = work.k[j]
        return -1.0
    return project_one(budget, counts, work)


# ---------------------------------------------------------------- the loop


class OneByOne(NamedTuple):
    """A step for each example."""


class Batch(NamedTuple):
    """A step for ``size`` examples, whose scores come from one matrix product of their rows with the vectors."""

    size: int
    most: float  # largest ‖x‖² of a row whose distances may be made of norms and products
    rows: np.ndarray
    own: np.ndarray
    products: np.ndarray


@generic
def examples_per_step(batch):
    """Number of examples of a step: the constant 1 where the class says so."""


@examples_per_step.case(OneByOne)
def _(batch):
    return 1


@examples_per_step.case(Batch)
def _(batch):
    return batch.size


@generic
def gather(X, i, centre, x):
    """x ← row i, less the centre, in place."""


@gather.case(DenseRows)
def _(X, i, centre, x):
    for k in range(x.size):
        x[k] = X.values[i, k] - centre[k]


@gather.case(CSRRows)
def _(X, i, centre, x):
    for k in range(x.size):
        x[k] = 0
    for p in range(X.indptr[i], X.indptr[i + 1]):
        x[X.indices[p]] = X.data[p]


@generic
def multiply(batch, X, measure, centre, order, first, count, budget):
    """batch.products ← inner products of ``count`` examples with all vectors, in place."""


@multiply.case(OneByOne)
def _(batch, X, measure, centre, order, first, count, budget):
    pass


@multiply.case(Batch)
def _(batch, X, measure, centre, order, first, count, budget):
    rows, own = borrow(batch.rows), borrow(batch.own)
    for r in range(count):
        x, total = rows[r], 0.0
        gather(X, order[first + r], centre, x)
        for k in range(x.size):
            total += alone(measure, np.float64(x[k]))
        own[r] = total
    np.dot(batch.rows, budget.Z, batch.products)


@generic
def from_product(measure, own, size, product):
    """The measure of two vectors from their sizes and their inner product."""


@from_product.case(Squared)
def _(measure, own, size, product):
    return own + size - (product + product)


@from_product.case(Inner)
def _(measure, own, size, product):
    return product


@generic
def sums_of(batch, X, i, r, centre, measure, beyond, budget, m, work):
    """work.sums ← the measure of example r of a batch, row i, and all vectors, in place; returns its size."""


@sums_of.case(OneByOne)
def _(batch, X, i, r, centre, measure, beyond, budget, m, work):
    return row_sums(X, i, centre, measure, beyond, budget.Z, budget.size, m, work.x, work.sums)


@sums_of.case(Batch)
def _(batch, X, i, r, centre, measure, beyond, budget, m, work):
    own, products, size, sums = batch.own[r], batch.products[r], budget.size, work.sums
    if own > batch.most:
        return row_sums(X, i, centre, measure, beyond, budget.Z, size, m, work.x, sums)
    for j in range(m):
        sums[j] = from_product(measure, own, size[j], products[j])
    return np.float64(own)


@generic
def again(batch, X, i, own, centre, kernel, measure, beyond, budget, counts, work):
    """work.k ← the kernel values of row i and all vectors, in place, where vectors may have changed since its score.

    Returns the size of the row; ``own`` is that of the row seen last.
    """


@again.case(OneByOne)
def _(batch, X, i, own, centre, kernel, measure, beyond, budget, counts, work):
    return own


@again.case(Batch)
def _(batch, X, i, own, centre, kernel, measure, beyond, budget, counts, work):
    m = padded(counts[COUNT])
    own = row_sums(X, i, centre, measure, beyond, budget.Z, budget.size, m, work.x, work.sums)
    finish(kernel, work.sums, m, work.k)
    counts[EVALS] += counts[COUNT]
    return own


@compiled
def learn(
    kernel,
    measure,
    beyond,
    X,
    target,
    y,
    weight,
    order,
    rule,
    batch,
    policy,
    budget,
    limit,
    centre,
    counts,
    values,
    work,
):
    """Algorithm 1 over the examples in order; changes the budget and its scalars in place."""
    use_wide_registers()
    X, y, weight, order, centre = borrowed(X), borrow(y), borrow(weight), borrow(order), borrow(centre)
    counts, values = borrow(counts), borrow(values)
    budget = Budget(
        borrow(budget.Z), borrow(budget.size), borrow(budget.A), borrow(budget.norm2), borrow(budget.age),
        borrow(budget.K), borrow(budget.inverse),
    )  # fmt: skip
    work = Scratch(
        borrow(work.x), borrow(work.other), borrow(work.sums), borrow(work.k), borrow(work.out), borrow(work.powers),
        borrow(work.z), borrow(work.g), borrow(work.losses), borrow(work.merged), borrow(work.column),
        borrow(work.chosen),
    )  # fmt: skip
    A, z, k, losses = budget.A, work.z, work.k, work.losses
    outputs = output_count(target, z)
    track = rule.radius < np.inf
    together = examples_per_step(batch)
    for first in range(0, order.size, together):
        examples = min(together, order.size - first)
        counts[STEP] += 1
        t, count, scale = counts[STEP], counts[COUNT], values[SCALE]
        m = padded(count)
        multiply(batch, X, measure, centre, order, first, examples, budget)
        counts[EVALS] += count * examples
        counts[VISITS] += examples
        violated, own = False, 0.0
        for r in range(examples):
            i, g = order[first + r], work.g[r]
            own = sums_of(batch, X, i, r, centre, measure, beyond, budget, m, work)
            finish(kernel, work.sums, m, k)
            counts[READS] += row_size(X, i)
            for c in range(outputs):
                row, f = A[c], A.dtype.type(0)
                for j in range(m):
                    f += row[j] * k[j]
                z[c] = scale * f
            importance = weight[i] if weight.size else 1.0
            losses[r] = importance * total_value(target, z, y[i])
            values[LOSS] += losses[r]
            slopes(target, z, y[i], g)
            for c in range(outputs):
                g[c] *= importance / examples
                violated |= g[c] != 0.0

        eta = rule.eta
        if rule.power == 1.0:
            eta /= t
            scale = 1.0 / t  # the product of all 1 − 1/t, without its roundings: equal coefficients stay equal
        elif rule.power == 0.5:
            eta /= np.sqrt(t)
            scale *= 1.0 - eta * rule.lam
        if scale < SMALLEST_SCALE and rule.power != 1.0:
            for c in range(outputs):
                for j in range(m):
                    A[c, j] *= scale
            for j in range(m):
                budget.norm2[j] *= scale * scale
            values[NORM2] *= scale * scale
            scale = 1.0
        values[SCALE] = scale
        if not violated:
            continue

        for r in range(examples):
            i, g, slope2 = order[first + r], work.g[r], 0.0
            for c in range(outputs):
                slope2 += g[c] * g[c]
            if slope2 == 0.0:
                continue
            own = again(batch, X, i, own, centre, kernel, measure, beyond, budget, counts, work)
            count, scale = counts[COUNT], values[SCALE]
            counts[UPDATES] += 1
            self_k = self_value(kernel, own)
            step = eta
            if rule.passive:
                room = slope2 * self_k
                step = min(eta, losses[r] / room) if room > 0.0 else eta
            added = 0.0
            for c in range(outputs):
                a = -step * g[c] / scale
                A[c, count] = a
                added += a * a
            if track:
                values[NORM2] += added * self_k
                for c in range(outputs):
                    f, row = 0.0, A[c]
                    for j in range(count):
                        f += np.float64(row[j]) * np.float64(k[j])
                    values[NORM2] += 2.0 * row[count] * f
            write_row(X, i, work.x, budget.Z, count)
            budget.size[count], budget.norm2[count], budget.age[count] = own, added * self_k, t
            counts[COUNT] = count + 1
            k[count] = self_k
            work.sums[count] = 0
            lost = maintain(policy, kernel, measure, budget, limit, counts, values, work, track)
            if lost >= 0.0:
                counts[MAINTAINED] += 1
                values[LOST] += np.sqrt(lost) * values[SCALE] / step
            if track:
                norm = values[SCALE] * np.sqrt(max(values[NORM2], 0.0))
                if norm > rule.radius:
                    values[SCALE] *= rule.radius / norm


@generic
def score(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """out[i] ← the scores of row i, in place; no row depends on the others."""


@score.case(CSRRows)
def _(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """Row by row, as in training."""
    Z, size, A, m = borrow(budget.Z), borrow(budget.size), borrow(budget.A), padded(count)
    X, centre, out = borrowed(X), borrow(centre), borrow(out)
    x, sums, k = np.empty(Z.shape[0], Z.dtype), np.empty(m, Z.dtype), np.empty(m, Z.dtype)
    for i in range(out.shape[0]):
        row_sums(X, i, centre, measure, beyond, Z, size, m, x, sums)
        finish(kernel, sums, m, k)
        for c in range(A.shape[0]):
            row, f = A[c], A.dtype.type(0)
            for j in range(m):
                f += row[j] * k[j]
            out[i, c] = scale * f


@score.case(DenseRows)
def _(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """A tile of rows at a time (see core.kernels), against the vectors as rows V; the last tile repeats its last row.

    V has two columns more where squared distances are made of norms: (−2z, 1, ‖z‖²)·(x, ‖x‖², 1) is ‖x − z‖².
    """
    V, A = borrow(V), borrow(budget.A)
    X, centre, out = borrowed(X), borrow(centre), borrow(out)
    d, width = centre.size, V.shape[1]
    tiles, total = np.ones((TILES, width, LANES), A.dtype), np.empty((TILES, A.shape[0], LANES), A.dtype)
    S, K = np.empty((CHUNK, LANES), A.dtype), np.empty((CHUNK, LANES), A.dtype)
    sums, k = flat(S), flat(K)
    for first in range(0, out.shape[0], TILES * LANES):
        used = min(TILES, (out.shape[0] - first + LANES - 1) // LANES)
        for r in range(used * LANES):
            row, tile, t, norm2 = X.values[min(first + r, out.shape[0] - 1)], tiles[r // LANES], r % LANES, 0.0
            for q in range(d):
                tile[q, t] = row[q] - centre[q]
                norm2 += np.float64(tile[q, t]) * np.float64(tile[q, t])
            if width > d:
                tile[d, t] = norm2
        total[:] = 0
        for a in range(0, count, CHUNK):
            b = min(a + CHUNK, count)
            for u in range(used):
                accumulate(V[a:b], measure, tiles[u], S)
                finish(kernel, sums, (b - a) * LANES, k)
                weigh(A, a, b, K, total[u])
        for r in range(min(used * LANES, out.shape[0] - first)):
            for c in range(A.shape[0]):
                out[first + r, c] = scale * total[r // LANES, c, r % LANES]


@compiled
def weigh(A, a, b, K, total):
    """total[c, t] += Σ_j A[c, j] K[j − a, t] for a ≤ j < b, in place."""
    for c in range(A.shape[0]):
        row, sums = A[c], total[c]
        j = a
        while j + 4 <= b:
            p, q, r, s = row[j], row[j + 1], row[j + 2], row[j + 3]
            kp, kq, kr, ks = K[j - a], K[j - a + 1], K[j - a + 2], K[j - a + 3]
            for t in range(LANES):
                sums[t] += (p * kp[t] + q * kq[t]) + (r * kr[t] + s * ks[t])
            j += 4
        while j < b:
            p, kp = row[j], K[j - a]
            for t in range(LANES):
                sums[t] += p * kp[t]
            j += 1


@compiled
def score_rows(X, kernel, measure, beyond, V, budget, count, scale, centre, out):
    """out[i] ← the scores of row i, in place."""
    use_wide_registers()
    score(X, kernel, measure, beyond, V, budget, count, scale, centre, out)


# ---------------------------------------------------------------- state and solver


@dataclass
class State:
    """Everything a run goes on from.

    Attributes
    ----------
    budget : Budget
    values, counts : the scalars of the loop
    centre : what is subtracted from dense rows before they are rounded to the buffer's precision: the first row seen
    order, position : of the visits of this epoch
    """

    budget: Budget
    values: np.ndarray
    counts: np.ndarray
    centre: np.ndarray
    seed: int
    order: np.ndarray
    position: int
    rng: np.random.Generator
    counters: Counters = field(default_factory=Counters)

    @property
    def support(self) -> int:
        """Number of vectors."""
        return int(self.counts[COUNT])

    @property
    def model_bytes(self) -> int:
        """Bytes of the vectors and coefficients in use."""
        budget, n = self.budget, self.support
        return n * (budget.Z.shape[0] + budget.A.shape[0]) * budget.Z.itemsize

    @property
    def vectors(self) -> np.ndarray:
        """The vectors as rows, less the centre."""
        return np.ascontiguousarray(self.budget.Z[:, : self.support].T)

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients with their scale (outputs × vectors), in float64."""
        return self.values[SCALE] * self.budget.A[:, : self.support].astype(np.float64)


def measures(kernel: Any) -> tuple[Any, Any]:
    """The measure of a kernel, and the same beyond the size of the vector, for sparse rows."""
    if isinstance(kernel, RBF):
        return Squared(), SquaredBeyond()
    if isinstance(kernel, Laplacian):
        return Absolute(), AbsoluteBeyond()
    return Inner(), Inner()


@dataclass
class BudgetedSGD(Solver):
    """Stochastic gradient descent for kernel machines on a budget of support vectors (see the module).

    Parameters
    ----------
    budget : int
        Most vectors kept.
    step : PegasosStep, NormaStep, MarginPerceptronStep or PassiveAggressiveStep
    maintenance : Merge, Project, Remove, Forget or Nearest
        Merge takes the Gaussian kernel only.
    sampling : {"permutation", "fixed"}
        A new order of the examples in each epoch, or always the order given.
    precision : {"auto", "float32", "float64"}
        Of vectors, coefficients and kernel values. "auto": float64 for projection and where a kernel of float64 data
        is no function of distances, else float32.
    batch_size : int
        Examples of a step, which is then made with the mean of their sub-gradients; their scores come from one matrix
        product.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.core.kernels import RBF
    >>> from widemargin.core.losses import Hinge, Single
    >>> from widemargin.core.rows import as_rows
    >>> from widemargin.problem import KernelProblem
    >>> from widemargin.running import run
    >>> from widemargin.solvers.budgeted import BudgetedSGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    >>> problem = KernelProblem(RBF(2.0), as_rows(X), y, Single(Hinge()), 1e-3, intercept="none")
    >>> outcome = run(BudgetedSGD(budget=20), problem, rng=rng, max_epochs=1)
    >>> bool(problem.errors(outcome.model) < 0.1), outcome.state.support
    (True, 20)
    """

    budget: int = 500
    step: Any = field(default_factory=PegasosStep)
    maintenance: Any = field(default_factory=Merge)
    sampling: str = "permutation"
    precision: str = "auto"
    batch_size: int = 1

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        kernel = problem.kernel
        if self.budget < 1:
            raise ValueError(f"budget must be ≥ 1, got {self.budget}")
        if not isinstance(kernel, (RBF, Laplacian, Linear, Polynomial, Sigmoid)):
            raise ValueError(
                f"BudgetedSGD computes kernels of vectors, and {type(kernel).__name__} is none of 'rbf', 'laplacian', "
                "'linear', 'poly', 'sigmoid': choose one of them"
            )
        if not isinstance(self.maintenance, (Merge, Project, Remove, Forget, Nearest)):
            raise TypeError(f"maintenance must be Merge, Project, Remove, Forget or Nearest, got {self.maintenance!r}")
        if isinstance(self.maintenance, Merge):
            if not isinstance(kernel, RBF):
                raise ValueError(
                    f"merging needs the Gaussian kernel 'rbf', got {type(kernel).__name__}: use maintenance='project' "
                    "or 'remove'"
                )
            if self.budget < 2 or not 2 <= self.maintenance.vectors <= self.budget + 1:
                raise ValueError(
                    f"merging {self.maintenance.vectors} vectors needs a budget ≥ 2 and 2 ≤ vectors ≤ budget + 1, got "
                    f"budget {self.budget}"
                )
            if self.maintenance.table_size < 2:
                raise ValueError(f"table_size must be ≥ 2, got {self.maintenance.table_size}")
        if isinstance(self.maintenance, Remove):
            _which(self.maintenance.which)
        if isinstance(self.maintenance, Project) and isinstance(kernel, Sigmoid):
            raise ValueError("projection needs a positive definite kernel, and 'sigmoid' is none: use 'remove'")
        rule = schedule(self.step, problem.lam)
        if isinstance(self.maintenance, Nearest):
            if not isinstance(kernel, (RBF, Laplacian)):
                raise ValueError("Nearest needs a kernel of distances, 'rbf' or 'laplacian': use 'project' or 'remove'")
            if math.isfinite(rule.radius):
                raise ValueError("Nearest does not follow ‖w‖: use a step without a radius")
        if isinstance(self.maintenance, Forget) and rule.power != 0.0:
            raise ValueError("Forget shrinks the model itself: use it with MarginPerceptronStep()")
        if self.batch_size > 1 and isinstance(self.step, PassiveAggressiveStep):
            raise ValueError("PassiveAggressiveStep settles one example at a time: use batch_size=1")
        if not (rule.eta > 0.0 and math.isfinite(rule.eta) and rule.radius > 0.0):
            raise ValueError(f"step sizes and radius must be > 0, got {self.step!r}")
        if problem.intercept != "none":
            raise ValueError(f"BudgetedSGD has no intercept, got {problem.intercept!r}: use intercept='none'")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be ≥ 1, got {self.batch_size}")
        if self.batch_size > 1 and isinstance(kernel, Laplacian):
            raise ValueError("batches come from a matrix product, and the Laplacian kernel has none: use batch_size=1")
        if self.sampling not in ("permutation", "fixed"):
            raise ValueError(f"sampling must be 'permutation' or 'fixed', got {self.sampling!r}")
        if self.precision not in ("auto", "float32", "float64"):
            raise ValueError(f"precision must be 'auto', 'float32' or 'float64', got {self.precision!r}")

    def dtype(self, problem: KernelProblem) -> np.dtype:
        """Of the buffer."""
        if self.precision != "auto":
            return np.dtype(self.precision)
        if isinstance(self.maintenance, Project):
            return np.dtype(np.float64)
        return np.dtype(np.float32) if isinstance(problem.kernel, (RBF, Laplacian)) else dtype_of(problem.X)

    def affordable(self, n_bytes: float, d: int, outputs: int, itemsize: int = 4) -> int:
        """The largest budget whose buffers, with the one vector above it and the padding, stay within n_bytes."""
        square = 16 if isinstance(self.maintenance, (Project, Nearest)) else 0
        itemsize = 8 if square else itemsize
        row = (d + outputs + 2) * itemsize + 8
        # row · c + square · c² ≤ n_bytes for the capacity c
        capacity = n_bytes / row if not square else (math.sqrt(row * row + 4 * square * n_bytes) - row) / (2 * square)
        return int(capacity) // (2 * LANES) * 2 * LANES - LANES - 1

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> State:
        """No vectors."""
        self.check(problem)
        d, outputs, dtype = shape(problem.X)[1], problem.n_outputs, self.dtype(problem)
        # an odd number of registers, lest the features of a vector share a set of the cache
        lanes = -(-(self.budget + 1) // LANES)
        capacity = LANES * (lanes + (lanes + 1) % 2)
        square = capacity if isinstance(self.maintenance, (Project, Nearest)) else 0
        inverse = capacity if isinstance(self.maintenance, Project) else 0
        budget = Budget(
            np.zeros((d, capacity), dtype), np.zeros(capacity, dtype), np.zeros((outputs, capacity), dtype),
            np.zeros(capacity, dtype), np.zeros(capacity, np.int64), np.zeros((square, square)),
            np.zeros((inverse, inverse)),
        )  # fmt: skip
        centre = np.zeros(d)
        if isinstance(problem.X, DenseRows) and isinstance(problem.kernel, (RBF, Laplacian)) and problem.n:
            centre += problem.X.values[0]
        values, counts = np.zeros(5), np.zeros(8, np.int64)
        values[SCALE] = 1.0
        seed = int(rng.integers(2**62))
        state = State(budget, values, counts, centre, seed, np.empty(0, np.int64), 0, rng)
        self.bind(problem, state)
        return state

    def bind(self, problem: KernelProblem, state: State) -> None:
        """Begin with the examples of a (new) problem, from the state as it is."""
        self.check(problem)
        expected = (shape(problem.X)[1], problem.n_outputs)
        got = (state.budget.Z.shape[0], state.budget.A.shape[0])
        if expected != got:
            raise ValueError(f"the state is of {got} features and outputs, the problem of {expected}")
        if self.budget + 1 > state.budget.Z.shape[1]:
            raise ValueError(f"the state has room for {state.budget.Z.shape[1] - 1} vectors, budget is {self.budget}")
        needs = isinstance(self.maintenance, (Project, Nearest)), isinstance(self.maintenance, Project)
        if needs != (state.budget.K.size > 0, state.budget.inverse.size > 0):
            raise ValueError("states of projection and of other maintenance cannot go on as each other: start anew")
        if state.support > self.budget:
            raise ValueError(
                f"the model has {state.support} vectors and budget is {self.budget}: a running model does not shrink; "
                "use compress, or fit anew"
            )
        state.order, state.position = np.empty(0, np.int64), 0

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """n, or as many batches as hold n examples."""
        return -(-problem.n // self.batch_size)

    def _policy(self, state: State) -> Any:
        maintenance = self.maintenance
        if isinstance(maintenance, Merge):
            table = merge_table(maintenance.table_size, state.budget.Z.dtype.name)
            return Merging(table.h, table.degradation, int(maintenance.vectors))
        if isinstance(maintenance, Project):
            return Projecting(float(maintenance.threshold))
        if isinstance(maintenance, Forget):
            return Forgetting()
        if isinstance(maintenance, Nearest):
            return Nearing()
        return Removing(_which(maintenance.which), state.seed)

    def _scratch(self, state: State) -> Scratch:
        (d, capacity), outputs, dtype = state.budget.Z.shape, state.budget.A.shape[0], state.budget.Z.dtype
        joint = outputs > 1 and isinstance(self.maintenance, Merge)
        vectors = self.maintenance.vectors if isinstance(self.maintenance, Merge) else 1
        return Scratch(
            np.zeros(d, dtype), np.zeros(d, dtype), np.zeros(capacity, dtype), np.zeros(capacity, dtype),
            np.zeros(capacity, dtype), np.zeros((GRID + 3 if joint else 0, capacity), dtype), np.zeros(outputs),
            np.zeros((self.batch_size, outputs)), np.zeros(self.batch_size), np.zeros(outputs), np.zeros(capacity),
            np.zeros(vectors + 1, np.int64),
        )  # fmt: skip

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> None:
        """Take n_steps steps, in place. advance(a) then advance(b) is advance(a + b), bit for bit."""
        measure, beyond = measures(problem.kernel)
        rule, policy, work = schedule(self.step, problem.lam), self._policy(state), self._scratch(state)
        batch = self._batch(problem, state)
        while True:
            order = self._next_visits(problem, state, n_steps * self.batch_size)
            learn(
                problem.kernel, measure, beyond, problem.X, problem.target, problem.y, problem.sample_weight, order,
                rule, batch, policy, state.budget, self.budget, state.centre, state.counts, state.values, work,
            )  # fmt: skip
            n_steps -= -(-order.size // self.batch_size)
            if n_steps <= 0:
                break
        c = state.counts
        state.counters = Counters(int(c[STEP]), int(c[VISITS]), int(c[UPDATES]), int(c[READS]), int(c[EVALS]))

    def _batch(self, problem: KernelProblem, state: State) -> OneByOne | Batch:
        if self.batch_size == 1:
            return OneByOne()
        (d, capacity), dtype, most = state.budget.Z.shape, state.budget.Z.dtype, math.inf
        if isinstance(problem.kernel, RBF):
            most = CANCELS / max(problem.kernel.gamma * math.sqrt(np.finfo(dtype).eps), 1e-300)
        k = self.batch_size
        return Batch(k, most, np.zeros((k, d), dtype), np.zeros(k, dtype), np.zeros((k, capacity), dtype))

    def _next_visits(self, problem: KernelProblem, state: State, most: int) -> np.ndarray:
        """The next examples, at most so many and at most to the end of the epoch, where a batch may be short."""
        n = problem.n
        if most == 0:
            return np.empty(0, np.int64)
        if state.position == n:
            state.position, state.order = 0, np.empty(0, np.int64)
        first, last = state.position, min(state.position + most, n)
        if self.sampling == "fixed":
            last = min(last, first + self.batch_size * max(65536 // self.batch_size, 1))
            visits = np.arange(first, last)
        else:
            if state.order.size != n:
                state.order = np.arange(n)
                shuffle(state.order, state.rng)
            visits = state.order[first:last]
        state.position = last
        return visits

    # -- output

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel | None = None) -> dict[str, float]:
        """What a checkpoint records.

        ``objective`` is λ/2 ‖W‖² plus the mean loss of the examples at the time of their visit: an estimate that costs
        nothing. ``degradation`` is the mean of ‖Δ‖/η over maintenances, ``degradation_per_step`` (Ē of Theorem 1) over
        all steps.
        """
        steps, maintained = max(int(state.counts[STEP]), 1), int(state.counts[MAINTAINED])
        visits = max(int(state.counts[VISITS]), 1)
        return {
            "objective": 0.5 * problem.lam * self.norm2(problem, state) + state.values[LOSS] / visits,
            "degradation": state.values[LOST] / max(maintained, 1),
            "degradation_per_step": state.values[LOST] / steps,
            "maintenances": float(maintained),
            "support_vectors": float(state.support),
            "model_bytes": float(state.model_bytes),
        }

    def norm2(self, problem: KernelProblem, state: State) -> float:
        """‖W‖², from all pairs of vectors."""
        if state.support == 0:
            return 0.0
        coefficients = state.coefficients
        K = KernelMatrix(problem.kernel, DenseRows(state.vectors.astype(np.float64)))
        return float(
            np.einsum("ci,ij,cj->", coefficients, K.block(np.arange(state.support)), coefficients, optimize=True)
        )

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """A finished copy, whose vectors stand where the data does."""
        dtype = dtype_of(problem.X)
        vectors = (state.vectors.astype(np.float64) + state.centre).astype(dtype)
        rows = as_rows(sp.csr_matrix(vectors)) if isinstance(problem.X, CSRRows) else DenseRows(vectors)
        return KernelModel(
            problem.kernel, np.arange(state.support), rows, state.coefficients, np.zeros(problem.n_outputs), 0.0
        )


def _which(name: str) -> int:
    names = ("smallest", "random", "oldest", "newest")
    if name not in names:
        raise ValueError(f"Remove takes {', '.join(map(repr, names))}, got {name!r}")
    return names.index(name)


def scores(kernel: Any, X: Any, state: State) -> np.ndarray:
    """Scores of rows X (a layout), of shape (n, n_outputs), straight from the buffer of vectors."""
    out = np.empty((shape(X)[0], state.budget.A.shape[0]))
    measure, beyond = measures(kernel)
    V = state.vectors if isinstance(X, DenseRows) else np.empty((0, 0), state.budget.Z.dtype)
    if isinstance(kernel, RBF) and V.size:
        size = state.budget.size[: state.support]
        if kernel.gamma * float(size.max()) * math.sqrt(np.finfo(V.dtype).eps) <= CANCELS:
            measure, V = Inner(), np.column_stack([-2.0 * V, np.ones_like(size), size]).astype(V.dtype)
    score_rows(X, kernel, measure, beyond, V, state.budget, state.support, state.values[SCALE], state.centre, out)
    return out


# ---------------------------------------------------------------- models made smaller


@compiled
def shrink(kernel, measure, policy, budget, limit, counts, values, work):
    """Maintain until there are at most ``limit`` vectors, in place."""
    use_wide_registers()
    while counts[COUNT] > limit:
        kernel_row(kernel, measure, budget, counts[COUNT] - 1, counts[COUNT], work)
        maintain(policy, kernel, measure, budget, limit, counts, values, work, False)


def reduced(
    kernel: Any, vectors: np.ndarray, coefficients: np.ndarray, budget: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """(vectors, coefficients, ‖w − w′‖², ‖w‖²): w = Σ_j coefficients[:, j] Φ(vectors[j]), and w′ of ``budget`` vectors.

    Gaussian vectors are merged, others removed, the smallest first; then w is projected onto the span of those that
    are left, with a ridge that keeps the kernel matrix regular.
    """
    n, d = vectors.shape
    outputs = coefficients.shape[0]
    merging = isinstance(kernel, RBF) and budget > 1
    solver = BudgetedSGD(budget, maintenance=Merge() if merging else Remove(), precision="float64")
    capacity = -(-(n + 1) // LANES) * LANES
    nothing = np.zeros((0, 0))
    held = Budget(
        np.zeros((d, capacity)), np.zeros(capacity), np.zeros((outputs, capacity)), np.zeros(capacity),
        np.zeros(capacity, np.int64), nothing, nothing,
    )  # fmt: skip
    vectors = np.ascontiguousarray(vectors, dtype=np.float64)
    matrix = KernelMatrix(kernel, DenseRows(vectors))
    held.Z[:, :n], held.A[:, :n] = vectors.T, coefficients
    held.size[:n] = np.sum(np.abs(vectors) if isinstance(kernel, Laplacian) else vectors**2, axis=1)
    held.norm2[:n] = np.sum(coefficients**2, axis=0) * matrix.diagonal()
    counts, values = np.zeros(8, np.int64), np.zeros(5)
    counts[COUNT], values[SCALE] = n, 1.0
    state = State(held, values, counts, np.zeros(d), 0, np.empty(0, np.int64), 0, np.random.default_rng(0))
    shrink(kernel, measures(kernel)[0], solver._policy(state), held, budget, counts, values, solver._scratch(state))
    chosen = state.vectors
    K = KernelMatrix(kernel, DenseRows(chosen)).block(np.arange(len(chosen)))
    onto, norm2 = np.zeros((outputs, len(chosen))), 0.0
    across = KernelMatrix(kernel, DenseRows(vectors), DenseRows(chosen))
    for first in range(0, n, 1024):
        rows = np.arange(first, min(first + 1024, n))
        onto += coefficients[:, rows] @ across.block(rows)
        norm2 += float(np.sum((coefficients[:, rows] @ matrix.block(rows)) * coefficients))
    ridge = 1e-10 * max(float(np.trace(K)) / max(len(K), 1), 1e-300)
    best = np.linalg.solve(K + ridge * np.eye(len(K)), onto.T).T
    lost = norm2 - 2.0 * float(np.sum(best * onto)) + float(np.sum((best @ K) * best))
    return chosen, best, max(lost, 0.0), norm2
