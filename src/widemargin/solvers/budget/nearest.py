"""Projection of one vector onto the newest and its nearest vector, for the vector that loses least.

α_rΦ(z_r) is projected onto Φ(x) of the newest vector x and Φ(z_n) of the nearest one to z_r. Δ is orthogonal to Φ(x),
so a passive-aggressive step followed by this projection is the joint optimum that BPA-NN asks for.

Wang, Vucetic: Online passive-aggressive algorithms on a budget. AISTATS (2010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.kernels.expansion import size2
from ...core.kernels.inverse import SPAN
from .policy import Policy, drop, instead, maintain, register


class Nearing(NamedTuple):
    """Nearest, as the compiled loop sees it; K is the kernel matrix of the vectors."""

    K: np.ndarray


@dataclass(frozen=True)
class Nearest(Policy):
    """Project the vector that loses least onto the newest and its own nearest one.

    It is ``maintenance="nearest"``, for the kernels "rbf" and "laplacian" and steps without a radius. With
    passive-aggressive steps it is BPA-NN.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import Nearest
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, gamma=1.0, step="passive_aggressive", maintenance=Nearest(), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    def places(self, outputs: int) -> int:
        """One row of K for each vector."""
        return 1

    def check(self, solver: Any, problem: Any, rule: Any) -> None:
        """Refuse kernels without distances, and steps with a radius."""
        if not problem.kernel.of_distances:
            raise ValueError(
                f"Nearest needs a kernel of distances, 'rbf' or 'laplacian', got {type(problem.kernel).__name__}: use "
                f"maintenance={instead(problem)}"
            )
        if math.isfinite(rule.radius):
            raise ValueError("Nearest does not follow ‖w‖: use a step without a radius")

    def prepare(self, budget: Any, seed: int) -> Nearing:
        """The kernel matrix of the vectors, which is kept for this policy."""
        return Nearing(budget.K)


@maintain.case(Nearing)
def project_one(policy, machine):
    """Project the vector that loses least onto the newest and its nearest vector, and drop it, in place."""
    A, K, k, new = machine.expansion.A, policy.K, machine.work.k, machine.tally.vectors - 1
    for j in range(new + 1):
        K[new, j] = K[j, new] = k[j]
    if new < machine.limit:
        return -1.0
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
        machine.expansion.norm2[j] = size2(A, j) * K[j, j]
    for j in range(new):  # the last vector moves to the free column
        K[gone, j] = K[j, gone] = K[new, j]
    K[gone, gone] = K[new, new]
    drop(machine, gone)
    return lost


register("nearest", Nearest())
