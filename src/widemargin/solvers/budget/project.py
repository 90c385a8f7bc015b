"""Projection of the smallest vector onto the span of the others.

Δα = −(column p of K⁻¹)/(K⁻¹)_pp and ‖Δ‖² = ‖α_p‖²/(K⁻¹)_pp for the smallest vector p. K⁻¹ is kept, O(B²) for a
vector that comes or goes, and recomputed when K K⁻¹ = I fails in the one row that is checked each time. A new Φ(x)
whose distance δ from the span is at most ``threshold`` is projected at once. So is a Φ(x) that nearly lies in the span,
which would make K singular, unless the budget is full and the projection would lose more than the removal of the
smallest vector. With ``mistakes_only`` the policy is Projectron++ (see :mod:`.projectron`).

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012), Sec. 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.compiling.dispatch import inlined
from ...core.kernels.expansion import least, size2
from ...core.kernels.inverse import SPAN, mended, projected, ridge_of, with_one_more, without
from .policy import Budget, Policy, drop, maintain, register
from .projectron import ProjectingByClass, check_mistakes_only, shorten

RIDGE = 1e-8  # least ridge as a share of the diagonal of K; below: K is singular where vectors repeat
SPANS = ("all", "class")  # the spans that Project knows


class Projecting(NamedTuple):
    """Project, as the compiled loop sees it. ``tally.own`` counts the recomputed inverses."""

    threshold: float
    mistakes_only: bool
    ridge: float
    K: np.ndarray
    inverse: np.ndarray
    onto: np.ndarray  # working space, as ``others``
    others: np.ndarray


@dataclass(frozen=True)
class Project(Policy):
    """Project the smallest vector onto the span of the others, under a positive definite kernel.

    It is ``maintenance="project"``. Time and memory are quadratic in the budget.

    Parameters
    ----------
    threshold : float, default=0.0
        The distance from the span up to which a new Φ(x) is projected at once, a number ≥ 0 and < 1.
    mistakes_only : bool, default=False
        Whether only mistakes bring vectors, as in :func:`Projectron`. Examples that are right, but inside the margin,
        then bring none.
    span : {"all", "class"}, default="all"
        The span that is projected to: that of all vectors, or of those of a class. "class" needs ``mistakes_only``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import Project
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, gamma=1.0, maintenance=Project(threshold=0.1), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    inverts: ClassVar[bool] = True

    threshold: float = 0.0
    mistakes_only: bool = False
    span: str = "all"

    def places(self, outputs: int) -> int:
        """Two for each vector where several classes have spans of their own, else one."""
        return 2 if self.span == "class" and outputs > 1 else 1

    def check(self, solver: Any, problem: Any, rule: Any) -> None:
        """Refuse indefinite kernels, and wrong thresholds and spans."""
        if not problem.kernel.is_definite:
            raise ValueError(
                f"projection needs a positive definite kernel, and {problem.kernel.name!r} is none: use 'remove'"
            )
        if not (isinstance(self.threshold, Real) and 0.0 <= self.threshold < 1.0):
            raise ValueError(
                f"threshold is a distance from the span, of vectors of length 1 or so: 0 ≤ threshold < 1, got "
                f"{self.threshold!r}"
            )
        if self.span not in SPANS:
            raise ValueError(f"span must be 'all' or 'class', got {self.span!r}")
        if self.span == "class" and not self.mistakes_only:
            raise ValueError("span='class' is Projectron's: use Projectron(threshold, 'class'), or span='all'")
        if self.mistakes_only:
            check_mistakes_only(self.threshold, solver, problem, rule)

    def prepare(self, budget: Budget, seed: int) -> Projecting | ProjectingByClass:
        """The kernel matrix and its inverse, which the machine keeps, and working space."""
        ridge, K, inverse = max(RIDGE, 100.0 * float(np.finfo(budget.A.dtype).eps)), budget.K, budget.inverse
        threshold, ridge, (onto, others) = float(self.threshold), ridge / (1.0 + ridge), np.zeros((2, len(K)))
        projecting = Projecting(threshold, bool(self.mistakes_only), ridge, K, inverse, onto, others)
        return ProjectingByClass(projecting, budget.classes) if budget.classes.size else projecting

    def divide(self, budget: Budget) -> Budget:
        """Double K and its inverse, because every vector came with a step for both classes."""
        if self.places(2) == 1:
            return budget
        twice = np.eye(2, dtype=np.int64)
        K, inverse = np.kron(budget.K, twice), np.kron(budget.inverse, twice)
        return budget._replace(K=K, inverse=inverse, classes=np.tile(np.arange(2), budget.A.shape[1]))


def Projectron(threshold: float = 0.1, span: str = "all") -> Project:
    """Grow by mistakes that are far from the span of the vectors, and step within it else: Projectron++.

    It is ``maintenance="projectron"``, for positive definite kernels and ``step="margin_perceptron"`` without
    a radius.

    Parameters
    ----------
    threshold : float, default=0.1
        The distance from the span up to which a mistake brings no vector, a number > 0 and < 1.
    span : {"all", "class"}, default="all"
        The span: that of all vectors, or for each class that of the vectors which came with a step for it. For two
        classes these are the same.

    Returns
    -------
    Project
        The policy.

    Examples
    --------
    >>> from widemargin.solvers.budget import Projectron
    >>> Projectron(0.2)
    Project(threshold=0.2, mistakes_only=True, span='all')
    """
    return Project(threshold, True, span)


@inlined
def exchange(policy, new, p, pivot):
    """K⁻¹ ← that of the vectors with the newest and without p, onto ← the projection of p, in place.

    Vector p leaves first, because K is never worse conditioned for that. Returns the squared distance of p from the
    others.
    """
    K, inverse, onto, others, ridge = policy.K, policy.inverse, policy.onto, policy.others, policy.ridge
    left = without(inverse, new, p, others)
    # the part of the new vector that lay along p now lies along the projection of p
    had = onto[p]
    pivot += had * had * left
    for i in range(new):
        onto[i] += had * others[i]
    onto[p] = 0.0
    with_one_more(inverse, new, onto, pivot)
    # p is projected onto the others, and onto the part of the new vector outside of their span
    share = K[p, new]
    for i in range(new):
        share -= others[i] * K[new, i]
    share /= pivot
    for i in range(new):
        onto[i] = others[i] - share * onto[i]
    onto[new] = share
    return left - share * share * pivot - ridge * K[p, p] - ridge_of(ridge, K, new + 1, onto)


@inlined
def move_coefficients(policy, machine, new, p):
    """Add the projection of α_pΦ(z_p) to the coefficients, in place; returns Σ_cj a_c onto_j A_cj K_jj."""
    A, K, onto, crossed = machine.expansion.A, policy.K, policy.onto, 0.0
    for c in range(A.shape[0]):
        a, row = np.float64(A[c, p]), A[c]
        for j in range(new + 1):
            row[j] += a * onto[j]
            crossed += a * onto[j] * np.float64(row[j]) * K[j, j]
    return crossed


@maintain.case(Projecting)
def project(policy, machine):
    """Take the newest vector into K and K⁻¹, and project it or the smallest vector if one must go, in place.

    K has ridges on its diagonal, the share ``ridge`` of each entry. The projection of Φ(z_p) onto the others minimises
    ‖Φ(z_p) − Σ c_j Φ(z_j)‖² + ridge Σ c_j² K_jj, which is k_pp for c = 0: projection never loses more than removal.
    """
    threshold, ridge, limit, K, inverse = policy.threshold, policy.ridge, machine.limit, policy.K, policy.inverse
    A, norm2, work, tally = machine.expansion.A, machine.expansion.norm2, machine.work, machine.tally
    new, k, onto = tally.vectors - 1, work.k, policy.onto
    own = np.float64(k[new])
    # 1) the newest vector: its row of K, its step, and whether the vector stays
    for j in range(new):
        K[new, j] = K[j, new] = k[j]
    K[new, new] = own / (1.0 - ridge)
    distance2, pivot = projected(K, inverse, ridge, new, new, onto)
    onto[new] = 0.0
    inside = policy.mistakes_only and shorten(threshold, distance2, own, A, new, work)
    if size2(A, new) == 0.0:  # no step
        drop(machine, new)
        tally.updates -= 1
        return -1.0
    p, light, lost = new, least(norm2, new + 1), distance2 * size2(A, new)
    near = distance2 <= SPAN * own and (new < limit or lost <= norm2[light])
    if not (inside or near or distance2 <= threshold * threshold):
        pivot = max(pivot, ridge * K[new, new])
        if new < limit:
            with_one_more(inverse, new, onto, pivot)
            tally.own += mended(K, inverse, new + 1, tally.updates % (new + 1), onto)
            return -1.0
        p = light
    # 2) the projection of the vector that goes
    if p != new:
        lost = max(exchange(policy, new, p, pivot), 0.0) * size2(A, p)
    # Δ is orthogonal to what stays, but for the ridge: ⟨Φ(z_j), Φ(z_p) − Σ c Φ⟩ = ridge c_j K_jj
    machine.amounts.norm2 -= lost + 2.0 * ridge * move_coefficients(policy, machine, new, p)
    # 3) the last vector moves to the column of p
    for j in range(new):
        if j != p:
            K[p, j] = K[j, p] = K[new, j]
            inverse[p, j] = inverse[j, p] = inverse[new, j]
    if p != new:
        K[p, p], inverse[p, p] = K[new, new], inverse[new, new]
        tally.own += mended(K, inverse, new, tally.updates % new, onto)
    drop(machine, p)
    for j in range(new):
        norm2[j] = size2(A, j) * K[j, j] * (1.0 - ridge)
    return lost


register("project", Project())
register("projectron", Projectron())
