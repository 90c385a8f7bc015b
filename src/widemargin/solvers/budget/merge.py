"""Merging: the smallest vector and its best partner (see :mod:`widemargin.core.kernels.merging`) become one.

Merging needs the Gaussian kernel. With ``vectors`` > 2 the smallest vector is merged with its several best partners,
one after the other, so one search makes room for several steps. Partners are left out, the worst first, as long as the
merge would lose more than the removal of the smallest vector. So no merge loses more than removal.

What differs from the paper: partners of opposite sign are tried too, at the end point h = 0.

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012), Sec. 6.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.compiling.dispatch import apart, inlined
from ...core.intrinsics.hints import use_wide_registers
from ...core.kernels.expansion import correlation, least, padded, vector_sums, write_column
from ...core.kernels.kernels import finish
from ...core.kernels.merging import JointSearch, MergeTable, best_place, choose_partners, merge_table
from .policy import Policy, drop, instead, kernel_row, maintain, register


class Merging(NamedTuple):
    """Merge, as the compiled loop sees it: the search for partners, and working space."""

    search: MergeTable | JointSearch
    vectors: int
    z: np.ndarray  # the merged vector, as a column of Z
    merged: np.ndarray  # its coefficients
    chosen: np.ndarray  # vectors to merge


@dataclass(frozen=True)
class Merge(Policy):
    """Merge the smallest vector with its best partners, under the Gaussian kernel.

    It is ``maintenance="merge"``. No merge loses more than the removal of the smallest vector would.

    Parameters
    ----------
    vectors : int, default=2
        The number of vectors that become one, from 2 to the budget and one more.
    table_size : int, default=400
        The number of rows and columns of the table in which the best places are looked up, at least 2.
        Models of several scores have no table.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import Merge
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, gamma=1.0, maintenance=Merge(vectors=3), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    vectors: int = 2
    table_size: int = 400

    def check(self, solver: Any, problem: Any, rule: Any) -> None:
        """Refuse other kernels, and more vectors to merge than there are."""
        if not problem.kernel.is_gaussian:
            raise ValueError(
                f"merging needs the Gaussian kernel 'rbf', got {type(problem.kernel).__name__}: use "
                f"maintenance={instead(problem)}"
            )
        if not isinstance(self.vectors, (int, np.integer)):
            raise TypeError(f"Merge takes a whole number of vectors, got {self.vectors!r}")
        if solver.budget < 2 or not 2 <= self.vectors <= solver.budget + 1:
            raise ValueError(
                f"merging {self.vectors} vectors needs a budget ≥ 2 and 2 ≤ vectors ≤ budget + 1, got "
                f"budget {solver.budget}: change one of them, or use maintenance='remove'"
            )
        if self.table_size < 2:
            raise ValueError(f"table_size must be ≥ 2, got {self.table_size}")

    def prepare(self, budget: Any, seed: int) -> Merging:
        """The tables of best places, which are made once, and working space."""
        (outputs, capacity), dtype = budget.A.shape, budget.A.dtype
        search: MergeTable | JointSearch = JointSearch(np.zeros(capacity, dtype), np.zeros((2, capacity), dtype))
        if outputs == 1:
            search = merge_table(self.table_size, dtype.name)
        return Merging(
            search, int(self.vectors), np.zeros(len(budget.vectors.Z), dtype), np.zeros(outputs),
            np.zeros(self.vectors + 1, np.int64),
        )  # fmt: skip


def MultiMerge(k: int = 4) -> Merge:
    """Merge k vectors into one at a time, under the Gaussian kernel.

    It is ``maintenance="multi_merge"``.

    Parameters
    ----------
    k : int, default=4
        The number of vectors that become one, from 2 to the budget and one more.

    Returns
    -------
    Merge
        The policy.

    Examples
    --------
    >>> from widemargin.solvers.budget import MultiMerge
    >>> MultiMerge(3)
    Merge(vectors=3, table_size=400)
    """
    return Merge(vectors=k)


@inlined
def distance2(Z, i, x):
    """The squared distance ‖z_i − x‖² of vector i from x."""
    total = 0.0
    for k in range(x.size):
        difference = np.float64(Z[k, i]) - np.float64(x[k])
        total += difference * difference
    return total


@inlined
def inner(A, i, coefficients):
    """The inner product ⟨α_i, coefficients⟩ over the outputs."""
    total = 0.0
    for c in range(A.shape[0]):
        total += np.float64(A[c, i]) * coefficients[c]
    return total


@apart
def lost_by_merging(Z, A, chosen, found, gamma, z, coefficients, x):
    """‖Σ Φ(z_i)α_i − Φ(z) coefficients‖² over the chosen vectors; ``x`` is overwritten."""
    total = 0.0
    for a in range(found):
        i = chosen[a]
        total -= 2.0 * inner(A, i, coefficients) * np.exp(-gamma * distance2(Z, i, z))
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
            total += cross * np.exp(-gamma * distance2(Z, chosen[b], x))
    return total


@apart
def merge_chosen(search, Z, A, chosen, found, log_kappa, gamma, z, merged):
    """z, merged ← the chosen vectors merged one after the other, in place; returns the loss of the last merge.

    ``log_kappa`` is log k of the first two.
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
            log_kappa = -gamma * distance2(Z, n, z)
        p, q, r = 0.0, inner(A, n, merged), 0.0
        for c in range(outputs):
            p += merged[c] * merged[c]
            r += np.float64(A[c, n]) * np.float64(A[c, n])
        if p <= r:
            h = best_place(search, p, q, r, log_kappa)
        else:
            h = 1.0 - best_place(search, r, q, p, log_kappa)
        near, far = np.exp(log_kappa * (1.0 - h) * (1.0 - h)), np.exp(log_kappa * h * h)
        lost = p + r + 2.0 * np.exp(log_kappa) * q
        for k in range(z.size):
            z[k] = h * z[k] + (1.0 - h) * Z[k, n]
        for c in range(outputs):
            merged[c] = merged[c] * near + A[c, n] * far
            lost -= merged[c] * merged[c]
    return lost


@apart
def follow_norm(policy, machine, found, lost):
    """Update ‖W‖², in place, for the chosen vectors that become the merged one; work.k is overwritten."""
    use_wide_registers()
    A, work, tally, chosen, merged = machine.expansion.A, machine.work, machine.tally, policy.chosen, policy.merged
    count, correlated = tally.vectors, 0.0
    for a in range(found):
        kernel_row(machine, chosen[a])
        correlated += correlation(A, chosen[a], work.k, padded(count))
    vector_sums(machine.metric.measure, policy.z, machine.expansion.vectors.Z, padded(count), work.sums)
    finish(machine.metric.kernel, work.sums, padded(count), work.k)
    tally.evals += (found + 1) * count
    for c in range(A.shape[0]):
        row, f = A[c], 0.0
        for j in range(count):
            f += np.float64(row[j]) * np.float64(work.k[j])
        correlated -= merged[c] * f
    machine.amounts.norm2 += lost - 2.0 * correlated


@inlined
def put_merged(policy, machine, found):
    """Put the merged vector in the place of the first partner and drop the other chosen vectors, in place.

    Vectors with larger numbers leave first, so that no vector that moves into a free column is to leave itself.
    """
    expansion, chosen, z, merged = machine.expansion, policy.chosen, policy.z, policy.merged
    keep = chosen[1]
    norm2, size = 0.0, 0.0
    for c in range(merged.size):
        expansion.A[c, keep] = merged[c]
        norm2 += merged[c] * merged[c]
    for k in range(z.size):
        size += np.float64(z[k]) * np.float64(z[k])
    write_column(expansion.vectors, z, keep)
    expansion.norm2[keep], expansion.vectors.size[keep], expansion.age[keep] = norm2, size, machine.tally.updates
    chosen[1] = chosen[found - 1]
    for _ in range(found - 1):
        largest = 0
        for a in range(found - 1):
            if chosen[a] > chosen[largest]:
                largest = a
        drop(machine, chosen[largest])
        chosen[largest] = -1


@maintain.case(Merging)
def merge(policy, machine):
    """Merge the smallest vector with its best partners, in place; returns ‖Δ‖² without scales.

    Merges as many vectors as asked for, or fewer if the loss would exceed the removal of the smallest; at least two.
    """
    expansion, work, tally, gamma = machine.expansion, machine.work, machine.tally, machine.metric.kernel.gamma
    Z, A, chosen, z, merged = expansion.vectors.Z, expansion.A, policy.chosen, policy.z, policy.merged
    count = tally.vectors
    if count <= machine.limit:
        return -1.0
    m = least(expansion.norm2, count)
    if m != count - 1:
        kernel_row(machine, m)
        tally.evals += count
    chosen[0], found = m, min(policy.vectors, count)
    choose_partners(policy.search, A, m, work.sums, work.k, count, chosen, found)
    log_kappa = np.float64(work.sums[chosen[1]])
    lost = merge_chosen(policy.search, Z, A, chosen, found, log_kappa, gamma, z, merged)
    while found > 2:
        lost = lost_by_merging(Z, A, chosen, found, gamma, z, merged, work.x)
        if lost <= expansion.norm2[m]:
            break
        found -= 1
        lost = merge_chosen(policy.search, Z, A, chosen, found, log_kappa, gamma, z, merged)
    lost = max(lost, 0.0)
    if machine.track:
        follow_norm(policy, machine, found, lost)
    put_merged(policy, machine, found)
    return lost


register("merge", Merge())
register("multi_merge", MultiMerge())
