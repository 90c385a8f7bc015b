"""Maintenance: how a model of more than B vectors becomes one of B, W ← W − Δ, and what that loses, ‖Δ‖.

* Remove: Δ = Φ(z_p)α_pᵀ for the smallest (‖α_p‖² k(z_p, z_p)), a random or the oldest p. Of several that are
  smallest up to rounding, as all are after Pegasos steps under a Gaussian kernel, the oldest goes. "smallest" is also
  the truncation of Norma and SILK. ``Stop`` removes the newest, so that the budget's first vectors stay (Stoptron).
* Project: the smallest onto the span of the others, Δα = −(column p of K⁻¹)/(K⁻¹)_pp, ‖Δ‖² = ‖α_p‖²/(K⁻¹)_pp.
  K⁻¹ is kept, O(B²) for a vector that comes or goes, and computed anew when K K⁻¹ = I fails in a row that is
  then looked at. A new Φ(x) whose distance δ from the span is at most ``threshold`` is projected at once; so is one
  that nearly lies in it, lest K become singular, unless the budget is full and that loses more than the removal of
  the smallest would. With ``mistakes_only`` (Projectron++) an example with 0 < ℓ < 1 makes the step −τ g PΦ(x) along
  the projection, τ = min(η, ℓ/‖g PΦ‖², 2(ℓ − δ/threshold)/‖g PΦ‖²), or none if that is negative: only mistakes
  bring vectors. With ``span="class"`` the steps −τ g_c Φ(x) of the two classes in g are projected apart, each
  onto the Φ(z_j) that came with a step for that class; δ² is the mean of their two squared distances, and a mistake
  is projected if both are within the threshold, or if the budget is full.
* Merge: the smallest and its best partner (see :mod:`widemargin.core.merging`) into one; Gaussian kernel only. With
  ``vectors`` > 2 the smallest is merged with its several best partners, one after the other, and the search is
  shared among as many later steps; the worst of them are left out as long as all together would lose more than the
  removal of the smallest. So no merge loses more than that.
* Nearest: α_rΦ(z_r) is projected onto the newest vector x and the nearest one of z_r, for the r that loses least. Δ is
  orthogonal to Φ(x), so a passive-aggressive step followed by this is the joint optimum that BPA-NN asks for.
* Forget: the oldest, after the whole model shrank by the largest factor φ that the bound of the self-tuned Forgetron
  allows: Δ = (1 − φ)W + φ Φ(z_p)α_pᵀ.

Merging also tries partners of opposite sign, which the paper does not, at the end point h = 0.

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012), Sec. 6. Orabona, Keshet, Caputo: Bounded
kernel-based online learning. JMLR 10 (2009), Sec. 5 (Projectron++).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.dispatch import compiled, generic, use_wide_registers
from ..core.kernels import finish
from ..core.merging import best_partner, best_place, joint_degradations, merge_table
from ..core.vectors import Vectors, drop_column, padded, vector_sums, write_column
from ..files import savable

#: Squared sizes that differ by less than this many units of the buffer's rounding are equal. Those of Pegasos steps,
#: (η_t/scale_t)² with both rounded, differ by twelve at most.
TIED = 16
#: Largest error of a row of K K⁻¹ − I.
INVERSE_ERROR = 1e-5
#: The squared distance from the span, as a share of k(x, x), up to which a vector nearly lies in it.
SPAN = 1e-4
#: The ridge of K, as a share of its diagonal, is this or what rounding makes of kernel values: K is regular, whatever
#: the vectors are.
RIDGE = 1e-8


# ---------------------------------------------------------------- maintenance policies


@savable()
class Remove(NamedTuple):
    """Remove the "smallest", a "random", the "oldest" or the "newest" vector."""

    which: str = "smallest"


@savable()
class Project(NamedTuple):
    """Project the smallest vector onto the others; a new Φ(x) within ``threshold`` of their span at once.

    With ``mistakes_only`` examples that are right, but inside the margin, bring no vectors (see :func:`Projectron`,
    which alone has the ``span`` "class").
    """

    threshold: float = 0.0
    mistakes_only: bool = False
    span: str = "all"


@savable()
class Merge(NamedTuple):
    """Merge the smallest vector with its ``vectors`` − 1 best partners (Gaussian kernel)."""

    vectors: int = 2
    table_size: int = 400


@savable()
class Forget(NamedTuple):
    """Shrink the model as the self-tuned Forgetron does, and remove the oldest vector."""


@savable()
class Nearest(NamedTuple):
    """Project one vector onto the newest and its own nearest, the one that loses least (BPA-NN)."""


def MultiMerge(k: int = 4) -> Merge:
    """Merge k vectors into one at a time."""
    return Merge(vectors=k)


def Projectron(threshold: float = 0.1, span: str = "all") -> Project:
    """Grow by mistakes farther than ``threshold`` from the span, and step within it else (Projectron++).

    ``span`` is that of "all" vectors, or for each "class" that of the vectors which came with a step for it; for two
    classes these are the same.
    """
    return Project(threshold, True, span)


def Stop() -> Remove:
    """Keep the first B vectors (Stoptron)."""
    return Remove("newest")


MAINTENANCES: dict[str, Any] = {
    "merge": Merge(),
    "multi_merge": MultiMerge(),
    "project": Project(),
    "projectron": Projectron(),
    "remove": Remove("smallest"),
    "random": Remove("random"),
    "oldest": Remove("oldest"),
    "forget": Forget(),
    "nearest": Nearest(),
    "stop": Stop(),
}


#: The spans that Project knows.
SPANS = ("all", "class")
#: What Remove may remove; the loop sees the place in this list.
WHICH = ("smallest", "random", "oldest", "newest")


class Removing(NamedTuple):
    """Remove at work."""

    which: int
    seed: int


class Projecting(NamedTuple):
    """Project at work."""

    threshold: float
    mistakes_only: bool
    ridge: float


class ProjectingByClass(NamedTuple):
    """Projectron++ at work, with a span for each of several classes."""

    threshold: float
    ridge: float


class Merging(NamedTuple):
    """Merge at work."""

    h: np.ndarray
    degradation: np.ndarray
    vectors: int


class Forgetting(NamedTuple):
    """Forget at work."""


class Nearing(NamedTuple):
    """Nearest at work."""


def at_work(maintenance: Any, dtype: str, seed: int, outputs: int) -> Any:
    """What the loop sees of a policy: tables in the precision of the buffer, names as numbers."""
    if isinstance(maintenance, Merge):
        table = merge_table(maintenance.table_size, dtype)
        return Merging(table.h, table.degradation, int(maintenance.vectors))
    if isinstance(maintenance, Project):
        ridge = max(RIDGE, 100.0 * float(np.finfo(dtype).eps))
        threshold, ridge = float(maintenance.threshold), ridge / (1.0 + ridge)
        if by_class(maintenance, outputs):
            return ProjectingByClass(threshold, ridge)
        return Projecting(threshold, bool(maintenance.mistakes_only), ridge)
    if isinstance(maintenance, Forget):
        return Forgetting()
    if isinstance(maintenance, Nearest):
        return Nearing()
    return Removing(WHICH.index(maintenance.which), seed)


def by_class(maintenance: Any, outputs: int) -> bool:
    """Whether each class has its own span: of one score, the two classes have the same."""
    return isinstance(maintenance, Project) and maintenance.span == "class" and outputs > 1


# ---------------------------------------------------------------- the buffer


@savable()
class Budget(NamedTuple):
    """The vectors with their coefficients; what stands behind the last one is zero.

    A (outputs × capacity) coefficients without their common scale; norm2: ‖α_j‖² k(z_j, z_j); age: the number of
    the update that brought a vector; K, inverse: the kernel matrix and its inverse, of size 0 where not needed.
    Where classes have spans of their own, vector j stands in K twice, at 2j for its own class and at 2j + 1 for the
    runner-up, K is 0 between classes, and ``classes`` says which those are; else that is of size 0.
    """

    vectors: Vectors
    A: np.ndarray
    norm2: np.ndarray
    age: np.ndarray
    K: np.ndarray
    inverse: np.ndarray
    classes: np.ndarray


class Scratch(NamedTuple):
    """Memory that the loop overwrites."""

    x: np.ndarray  # a vector, as a column of Z
    other: np.ndarray  # another
    sums: np.ndarray  # distances or inner products to all vectors; −γ‖x − z‖² once kernel values are made of them
    k: np.ndarray  # kernel values with all vectors
    out: np.ndarray  # one number for each vector
    products: np.ndarray  # ⟨α_m, α_j⟩ and ‖α_j‖² for each vector
    z: np.ndarray  # scores
    g: np.ndarray  # slopes of each example of a step
    losses: np.ndarray  # of each example of a step
    merged: np.ndarray  # coefficients of a merged vector
    column: np.ndarray  # float64, one number for each vector
    others: np.ndarray  # another
    chosen: np.ndarray  # vectors to merge


# places in the arrays of scalars
SCALE, NORM2, LOSS, LOST, FORGOTTEN = range(5)
STEP, COUNT, MAINTAINED, UPDATES, EVALS, READS, REFRESHED, VISITS = range(8)


@compiled
def kernel_row(kernel, measure, budget, j, count, work):
    """work.k ← the kernel values of vector j and all, in place; work.x ← vector j."""
    Z, x = budget.vectors.Z, work.x
    for k in range(x.size):
        x[k] = Z[k, j]
    vector_sums(measure, x, Z, padded(count), work.sums)
    finish(kernel, work.sums, padded(count), work.k)
    work.sums[j] = 0 if work.sums[j] != work.sums[j] else work.sums[j]


@compiled
def least(values, count):
    """The place of the least entry; the first of several."""
    best, place = values[0], 0
    for j in range(1, count):
        if values[j] < best:
            best, place = values[j], j
    return place


@compiled
def smallest(budget, count):
    """The place of the vector with the least ‖α_j‖² k(z_j, z_j); the oldest of those that share it up to rounding."""
    norm2, age = budget.norm2, budget.age
    place = least(norm2, count)
    most = norm2[place] * (1.0 + TIED * np.finfo(norm2.dtype).eps)
    for j in range(count):
        if norm2[j] <= most and age[j] < age[place]:
            place = j
    return place


@compiled
def drop(budget, counts, j):
    """Take vector j out, in place: the last one moves to its column, and the last column becomes zero."""
    A, last = budget.A, counts[COUNT] - 1
    drop_column(budget.vectors, j, last)
    for c in range(A.shape[0]):
        A[c, j] = A[c, last]
        A[c, last] = 0
    budget.norm2[j], budget.age[j] = budget.norm2[last], budget.age[last]
    budget.norm2[last], budget.age[last] = 0, 0
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
def remove(j, known, kernel, measure, budget, counts, values, work, track):
    """Remove vector j, in place; ``known`` says whether work.k is its kernel row. Returns ‖Δ‖² without scales."""
    lost = np.float64(budget.norm2[j])
    if track:
        count = counts[COUNT]
        if not known:
            kernel_row(kernel, measure, budget, j, count, work)
            counts[EVALS] += count
        values[NORM2] += lost - 2.0 * correlation(budget.A, j, work.k, padded(count))
    drop(budget, counts, j)
    return lost


@maintain.case(Removing)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    count = counts[COUNT]
    if count <= limit:
        return -1.0
    if policy.which == 0:
        j = smallest(budget, count)
    elif policy.which == 1:
        # a hash of the number of maintenances: as good as a generator, and a resumed run goes on with the same
        u = np.uint64(policy.seed) + np.uint64(counts[MAINTAINED]) * np.uint64(0x9E3779B97F4A7C15)
        u = (u ^ (u >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        u = (u ^ (u >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        u = u ^ (u >> np.uint64(31))
        j = int(np.float64(u >> np.uint64(11)) * 2.0**-53 * count)
    elif policy.which == 2:
        j = least(budget.age, count)
    else:
        j = count - 1
    return remove(j, j == count - 1, kernel, measure, budget, counts, values, work, track)


@compiled
def forget(kernel, measure, budget, counts, values, work):
    """Shrink by the largest φ ≤ 1 with Q + Ψ(φ) ≤ (15/32) M, and remove the oldest, in place; returns ‖Δ‖².

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
    # Δ = (1 − φ)W + φ Φ(z)αᵀ, in units of the scale that follows
    shrunk = (1.0 - phi) / phi
    inner /= scale * scale
    degradation = shrunk * shrunk * max(values[NORM2], 0.0) + 2.0 * shrunk * inner + lost
    values[SCALE] = phi * scale
    values[NORM2] += lost - 2.0 * inner
    drop(budget, counts, j)
    return max(degradation, 0.0)


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
def size2(A, j):
    """‖α_j‖²."""
    total = 0.0
    for c in range(A.shape[0]):
        total += np.float64(A[c, j]) * np.float64(A[c, j])
    return total


@compiled
def lost_by_merging(Z, A, chosen, found, gamma, z, coefficients, x):
    """‖Σ Φ(z_i)α_i − Φ(z) coefficients‖² over the chosen vectors; ``x`` is overwritten."""
    total = 0.0
    for a in range(found):
        i = chosen[a]
        total -= 2.0 * inner(A, i, coefficients) * np.exp(-gamma * apart(Z, i, z))
    for c in range(A.shape[0]):
        total += coefficients[c] * coefficients[c]
    for a in range(found):
        i = chosen[a]
        for k in range(x.size):
            x[k] = Z[k, i]
        for b in range(found):
            cross = 0.0
            for c in range(A.shape[0]):
                cross += np.float64(A[c, i]) * np.float64(A[c, chosen[b]])
            total += cross * np.exp(-gamma * apart(Z, chosen[b], x))
    return total


@compiled
def merge_chosen(table, Z, A, chosen, found, log_kappa, gamma, z, merged):
    """z, merged ← the chosen vectors merged one after the other, in place; returns what the last one lost.

    ``log_kappa`` is that of the first two.
    """
    outputs = A.shape[0]
    for k in range(z.size):
        z[k] = Z[k, chosen[0]]
    for c in range(outputs):
        merged[c] = A[c, chosen[0]]
    lost = 0.0
    for a in range(1, found):
        n = chosen[a]
        if a > 1:
            log_kappa = -gamma * apart(Z, n, z)
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
        for k in range(z.size):
            z[k] = h * z[k] + (1.0 - h) * Z[k, n]
        for c in range(outputs):
            merged[c] = merged[c] * near + A[c, n] * far
            lost -= merged[c] * merged[c]
    return lost


@compiled
def merge(table, lost_table, vectors, gamma, kernel, measure, budget, counts, values, work, track):
    """Merge the smallest vector with its best partners, in place; returns ‖Δ‖² without scales.

    As many as asked for, or as can be merged without losing more than the removal of the smallest; two always can.
    """
    Z, A, out, chosen, z, merged = budget.vectors.Z, budget.A, work.out, work.chosen, work.other, work.merged
    count, outputs = counts[COUNT], A.shape[0]
    m = least(budget.norm2, count)
    if m != count - 1:
        kernel_row(kernel, measure, budget, m, count, work)
        counts[EVALS] += count
    if outputs > 1:
        joint_degradations(A, m, work.sums, padded(count), work.products, out)
    chosen[0] = m
    found = 1
    while found < min(vectors, count):
        n = best_partner(lost_table, A[0], m, work.k, count) if outputs == 1 else least(out, count)
        work.k[n], out[n] = -1, np.inf  # taken
        chosen[found] = n
        found += 1
    log_kappa = np.float64(work.sums[chosen[1]])
    lost = merge_chosen(table, Z, A, chosen, found, log_kappa, gamma, z, merged)
    while found > 2:
        lost = lost_by_merging(Z, A, chosen, found, gamma, z, merged, work.x)
        if lost <= budget.norm2[m]:
            break
        found -= 1
        lost = merge_chosen(table, Z, A, chosen, found, log_kappa, gamma, z, merged)
    lost = max(lost, 0.0)
    if track:
        correlated = 0.0
        for a in range(found):
            kernel_row(kernel, measure, budget, chosen[a], count, work)
            correlated += correlation(A, chosen[a], work.k, padded(count))
        vector_sums(measure, z, Z, padded(count), work.sums)
        finish(kernel, work.sums, padded(count), work.k)
        counts[EVALS] += (found + 1) * count
        for c in range(outputs):
            row, f = A[c], 0.0
            for j in range(count):
                f += np.float64(row[j]) * np.float64(work.k[j])
            correlated -= merged[c] * f
        values[NORM2] += lost - 2.0 * correlated
    # the first of the partners gets the merged vector; the others leave, those with the largest numbers first,
    # so that the vectors which move into their columns are not among them
    keep = chosen[1]
    norm2, size = 0.0, 0.0
    for c in range(outputs):
        A[c, keep] = merged[c]
        norm2 += merged[c] * merged[c]
    for k in range(z.size):
        size += np.float64(z[k]) * np.float64(z[k])
    write_column(budget.vectors, z, keep)
    budget.norm2[keep], budget.vectors.size[keep], budget.age[keep] = norm2, size, counts[UPDATES]
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
    """inverse ← K⁻¹ of the leading count × count block, in place; kernel values that overflowed stay as they are."""
    for i in range(count):
        for j in range(count):
            if not np.isfinite(K[i, j]):
                return
    whole = np.linalg.inv(np.ascontiguousarray(K[:count, :count]))
    for i in range(count):
        for j in range(count):
            inverse[i, j] = 0.5 * (whole[i, j] + whole[j, i])


@compiled
def shorten(threshold, distance2, own, A, new, work):
    """Make the newest coefficients those of Projectron++'s step for a margin error, in place; False for a mistake.

    ``work`` has the weighted loss sℓ and its slopes sg; those of a hinge are ±s.
    """
    importance, eta, norm2 = 0.0, 0.0, 0.0
    for c in range(A.shape[0]):
        a = np.float64(A[c, new])
        importance, eta = max(importance, abs(work.g[0, c])), max(eta, abs(a))
        norm2 += a * a
    loss = work.losses[0] / importance
    if loss >= 1.0:
        return False
    room = min(loss, 2.0 * (loss - np.sqrt(max(distance2, 0.0)) / threshold))
    length2 = norm2 * (own - max(distance2, 0.0))
    share = min(1.0, eta * room / length2) if room > 0.0 and length2 > 0.0 else 0.0
    for c in range(A.shape[0]):
        A[c, new] *= share
    return True


@compiled
def product(row, inverse, count, out):
    """out ← the first ``count`` of row · K⁻¹, in place."""
    for j in range(count):
        out[j] = 0.0
    for l in range(count):
        f, other = row[l], inverse[l]
        if f != 0.0:
            for j in range(count):
                out[j] += f * other[j]


@compiled
def check_inverse(K, inverse, count, counts, column):
    """Look at one row of K K⁻¹ = I, another one each time; if it is wrong, compute K⁻¹ anew, in place.

    Errors are those of vectors of length 1.
    """
    row, right = counts[UPDATES] % count, True
    product(K[row], inverse, count, column)
    column[row] -= 1.0
    for j in range(count):
        right &= abs(column[j]) * np.sqrt(K[j, j] / K[row, row]) <= INVERSE_ERROR
    if not right:
        invert(K, inverse, count)
        counts[REFRESHED] += 1


@compiled
def with_one_more(inverse, count, onto, pivot):
    """K⁻¹ ← [[E + ccᵀ/δ, −c/δ], [−cᵀ/δ, 1/δ]], in place: c = ``onto`` is what others have of it."""
    for i in range(count):
        row, f = inverse[i], onto[i] / pivot
        if f != 0.0:
            for j in range(count):
                row[j] += f * onto[j]
        row[count] = -f
        inverse[count, i] = -f
    inverse[count, count] = 1.0 / pivot


@compiled
def without(inverse, count, p, onto):
    """K⁻¹ ← E − ffᵀ/g, with zeros for vector p, in place; onto ← the projection of p onto the others. Returns 1/g."""
    g = inverse[p, p]
    for i in range(count):
        onto[i] = -inverse[i, p] / g
    for i in range(count):
        row, f = inverse[i], onto[i] * g
        for j in range(count):
            row[j] -= f * onto[j]
    for i in range(count):
        inverse[i, p] = inverse[p, i] = 0.0
    onto[p] = 0.0
    return 1.0 / g


@compiled
def ridge_of(ridge, K, count, onto):
    """The ridges of the others, as the projection has them: ridge Σ c_j² K_jj."""
    total = 0.0
    for j in range(count):
        total += onto[j] * onto[j] * K[j, j]
    return ridge * total


@compiled
def project(policy, limit, budget, counts, values, work):
    """Take the newest vector into K and K⁻¹, and project it or the smallest if it must be, in place.

    K has ridges on its diagonal, each the share ``ridge`` of it. The projection of Φ(z_p) onto the others minimises
    ‖Φ(z_p) − Σ c_j Φ(z_j)‖² + ridge Σ c_j² K_jj, which is k_pp for c = 0: it never loses more than removal. Where one
    vector comes and one goes, it goes first, since K is never worse conditioned for that.
    """
    threshold, ridge = policy.threshold, policy.ridge
    K, inverse, A, onto, others = budget.K, budget.inverse, budget.A, work.column, work.others
    new = counts[COUNT] - 1
    own = np.float64(work.k[new])
    for j in range(new):
        K[new, j] = K[j, new] = work.k[j]
    K[new, new] = own / (1.0 - ridge)
    # the projection of the new vector onto the others; pivot is its squared distance from them, ridges included
    pivot = K[new, new]
    product(K[new], inverse, new, onto)
    onto[new] = 0.0
    for i in range(new):
        pivot -= onto[i] * K[new, i]
    distance2 = max(pivot - ridge * K[new, new] - ridge_of(ridge, K, new, onto), 0.0)
    inside = policy.mistakes_only and shorten(threshold, distance2, own, A, new, work)
    if size2(A, new) == 0.0:  # no step
        drop(budget, counts, new)
        counts[UPDATES] -= 1
        return -1.0
    p, light, lost = new, least(budget.norm2, new + 1), distance2 * size2(A, new)
    near = distance2 <= SPAN * own and (new < limit or lost <= budget.norm2[light])
    if not (inside or near or distance2 <= threshold * threshold):
        pivot = max(pivot, ridge * K[new, new])
        if new < limit:
            with_one_more(inverse, new, onto, pivot)
            check_inverse(K, inverse, new + 1, counts, onto)
            return -1.0
        p = light
    if p != new:
        left = without(inverse, new, p, others)
        # what the new vector had of p, it now has of p's projection
        had = onto[p]
        pivot += had * had * left
        for i in range(new):
            onto[i] += had * others[i]
        onto[p] = 0.0
        with_one_more(inverse, new, onto, pivot)
        # the projection of p onto the others, and onto what is new in the new one
        share = K[p, new]
        for i in range(new):
            share -= others[i] * K[new, i]
        share /= pivot
        for i in range(new):
            onto[i] = others[i] - share * onto[i]
        onto[new] = share
        distance2 = left - share * share * pivot - ridge * K[p, p] - ridge_of(ridge, K, new + 1, onto)
        lost = max(distance2, 0.0) * size2(A, p)
    # Δ is orthogonal to what stays, but for the ridge: ⟨Φ(z_j), Φ(z_p) − Σ c Φ⟩ = ridge c_j K_jj
    crossed = 0.0
    for c in range(A.shape[0]):
        a, row = np.float64(A[c, p]), A[c]
        for j in range(new + 1):
            row[j] += a * onto[j]
            crossed += a * onto[j] * np.float64(row[j]) * K[j, j]
    values[NORM2] -= lost + 2.0 * ridge * crossed
    for j in range(new):  # the last moves to the column of p
        if j != p:
            K[p, j] = K[j, p] = K[new, j]
            inverse[p, j] = inverse[j, p] = inverse[new, j]
    if p != new:
        K[p, p], inverse[p, p] = K[new, new], inverse[new, new]
        check_inverse(K, inverse, new, counts, onto)
    drop(budget, counts, p)
    for j in range(new):
        budget.norm2[j] = size2(A, j) * K[j, j] * (1.0 - ridge)
    return lost


@maintain.case(Projecting)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    return project(policy, limit, budget, counts, values, work)


@compiled
def onto_class(place, c, new, ridge, budget, k, onto):
    """onto ← the projection of the newest vector onto those of class c; K ← its row at ``place``, in place.

    Returns its squared distance from them, and the same with ridges.
    """
    K, classes = budget.K, budget.classes
    classes[place] = c
    for i in range(2 * new):
        K[place, i] = K[i, place] = k[i // 2] if classes[i] == c else 0.0
    K[place, place] = k[new] / (1.0 - ridge)
    pivot = K[place, place]
    product(K[place], budget.inverse, 2 * new, onto)
    for i in range(2 * new):
        pivot -= onto[i] * K[place, i]
    return max(pivot - ridge * K[place, place] - ridge_of(ridge, K, 2 * new, onto), 0.0), pivot


@compiled
def project_by_class(policy, limit, budget, counts, work):
    """Take the newest vector into K and K⁻¹, or project its steps for two classes, each onto that class, in place."""
    threshold, ridge = policy.threshold, policy.ridge
    K, inverse, A, onto, others = budget.K, budget.inverse, budget.A, work.column, work.others
    new, c, other = counts[COUNT] - 1, 0, 0
    for j in range(A.shape[0]):  # the step adds to its own class and takes from the runner-up
        c = j if A[j, new] > A[c, new] else c
        other = j if A[j, new] < A[other, new] else other
    own = np.float64(work.k[new])
    distance2, pivot = onto_class(2 * new, c, new, ridge, budget, work.k, onto)
    distance2_other, pivot_other = onto_class(2 * new + 1, other, new, ridge, budget, work.k, others)
    inside = shorten(threshold, 0.5 * (distance2 + distance2_other), own, A, new, work)
    if size2(A, new) == 0.0:  # no step
        drop(budget, counts, new)
        counts[UPDATES] -= 1
        return -1.0
    near = max(distance2, distance2_other) <= max(threshold * threshold, SPAN * own)
    if not (inside or near) and new < limit:
        with_one_more(inverse, 2 * new, onto, max(pivot, ridge * K[2 * new, 2 * new]))
        others[2 * new] = 0.0
        with_one_more(inverse, 2 * new + 1, others, max(pivot_other, ridge * K[2 * new, 2 * new]))
        check_inverse(K, inverse, 2 * new + 2, counts, onto)
        return -1.0
    a, b = np.float64(A[c, new]), np.float64(A[other, new])
    for j in range(2 * new):  # what is not of the class has a zero here
        A[c, j // 2] += a * onto[j]
        A[other, j // 2] += b * others[j]
    drop(budget, counts, new)
    for j in range(new):
        budget.norm2[j] = size2(A, j) * K[2 * j, 2 * j] * (1.0 - ridge)
    return a * a * distance2 + b * b * distance2_other


@maintain.case(ProjectingByClass)
def _(policy, kernel, measure, budget, limit, counts, values, work, track):
    return project_by_class(policy, limit, budget, counts, work)


@compiled
def project_one(budget, counts, work):
    """Project the vector that loses least onto the newest and its nearest neighbour, and take it out, in place."""
    K, A = budget.K, budget.A
    new = counts[COUNT] - 1
    for j in range(new + 1):
        K[new, j] = K[j, new] = work.k[j]
    lost, gone, near, onto_new, onto_near = np.inf, 0, new, 0.0, 0.0
    for r in range(new):
        n, row, norm2 = new, K[r], size2(A, r)
        for j in range(new):
            if j != r and row[j] > row[n]:
                n = j
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
        budget.norm2[j] = size2(A, j) * K[j, j]
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


@compiled
def shrink(kernel, measure, policy, budget, limit, counts, values, work):
    """Maintain until there are at most ``limit`` vectors, in place."""
    use_wide_registers()
    while counts[COUNT] > limit:
        kernel_row(kernel, measure, budget, counts[COUNT] - 1, counts[COUNT], work)
        maintain(policy, kernel, measure, budget, limit, counts, values, work, False)
