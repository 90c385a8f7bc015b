"""Projectron++: projection with steps for margin errors, and with a span for each class.

An example with 0 < ℓ < 1 makes the step −τ g PΦ(x) along its projection onto the span of the vectors, with
τ = min(η, ℓ/‖g PΦ‖², 2(ℓ − δ/threshold)/‖g PΦ‖²) and δ the distance of Φ(x) from the span, or none if that is negative.
So only mistakes bring vectors. With spans by class the steps −τ g_c Φ(x) of the two classes in g are projected apart,
each onto the Φ(z_j) that came with a step for that class; δ² is the mean of their two squared distances, and a mistake
is projected if both are within the threshold, or if the budget is full.

The policy is ``Projectron`` of :mod:`.project`.

Orabona, Keshet, Caputo: Bounded kernel-based online learning. JMLR 10 (2009), Sec. 5.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.compiling.dispatch import inlined
from ...core.kernels.expansion import size2
from ...core.kernels.inverse import SPAN, mended, projected, with_one_more
from ...core.losses.losses import Hinge, MulticlassHinge, Single
from .policy import drop, maintain


class ProjectingByClass(NamedTuple):
    """Projectron++ with a span for each class, as the compiled loop sees it."""

    projecting: Any  # as without classes, but with two rows of K for each vector
    classes: np.ndarray


def check_mistakes_only(threshold: float, solver: Any, problem: Any, rule: Any) -> None:
    """Refuse step rules, batches and losses for which Projectron++ has no steps."""
    target = problem.target
    if not rule.is_constant or math.isfinite(rule.radius):
        raise ValueError(
            f"Projectron needs step='margin_perceptron' (MarginPerceptronStep without a radius), got {solver.step!r}"
        )
    if threshold == 0.0:
        raise ValueError("Projectron with threshold 0 would make no step for margin errors: use a threshold > 0")
    if solver.batch_size > 1:
        raise ValueError("Projectron settles one example at a time: use batch_size=1")
    joint = isinstance(target, MulticlassHinge) and np.array_equal(target.cost, 1.0 - np.eye(problem.n_outputs))
    if not joint and not (isinstance(target, Single) and isinstance(target.loss, Hinge)):
        raise ValueError(
            "Projectron tells mistakes from margin errors by one hinge, of two classes or joint (multi_class="
            f"'crammer_singer'), got {type(target).__name__}: use Project(threshold)"
        )


@inlined
def shorten(threshold, distance2, own, A, new, work):
    """Make the newest coefficients those of Projectron++'s step for a margin error, in place; False for a mistake.

    ``work`` has the weighted loss sℓ and its slopes sg, which are ±s for a hinge.
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


@inlined
def onto_class(policy, place, c, new, k, onto):
    """onto ← the projection of the newest vector onto those of class c; K ← its row at ``place``, in place.

    Returns its squared distance from them, and the same with ridges.
    """
    K, inverse, ridge, classes = policy.projecting.K, policy.projecting.inverse, policy.projecting.ridge, policy.classes
    classes[place] = c
    for i in range(2 * new):
        K[place, i] = K[i, place] = k[i // 2] if classes[i] == c else 0.0
    K[place, place] = k[new] / (1.0 - ridge)
    return projected(K, inverse, ridge, place, 2 * new, onto)


@maintain.case(ProjectingByClass)
def project_by_class(policy, machine):
    """Take the newest vector into K and K⁻¹, or project its steps for two classes, each onto that class, in place."""
    own = policy.projecting
    threshold, ridge, K, inverse, onto, others = own.threshold, own.ridge, own.K, own.inverse, own.onto, own.others
    A, norm2, work, tally = machine.expansion.A, machine.expansion.norm2, machine.work, machine.tally
    new, c, other = tally.vectors - 1, 0, 0
    for j in range(A.shape[0]):  # the step adds to its own class and takes from the runner-up
        c = j if A[j, new] > A[c, new] else c
        other = j if A[j, new] < A[other, new] else other
    own_k = np.float64(work.k[new])
    distance2, pivot = onto_class(policy, 2 * new, c, new, work.k, onto)
    distance2_other, pivot_other = onto_class(policy, 2 * new + 1, other, new, work.k, others)
    inside = shorten(threshold, 0.5 * (distance2 + distance2_other), own_k, A, new, work)
    if size2(A, new) == 0.0:  # no step
        drop(machine, new)
        tally.updates -= 1
        return -1.0
    near = max(distance2, distance2_other) <= max(threshold * threshold, SPAN * own_k)
    if not (inside or near) and new < machine.limit:
        with_one_more(inverse, 2 * new, onto, max(pivot, ridge * K[2 * new, 2 * new]))
        others[2 * new] = 0.0
        with_one_more(inverse, 2 * new + 1, others, max(pivot_other, ridge * K[2 * new, 2 * new]))
        tally.own += mended(K, inverse, 2 * new + 2, tally.updates % (2 * new + 2), onto)
        return -1.0
    a, b = np.float64(A[c, new]), np.float64(A[other, new])
    for j in range(2 * new):  # zero for vectors of other classes
        A[c, j // 2] += a * onto[j]
        A[other, j // 2] += b * others[j]
    drop(machine, new)
    for j in range(new):
        norm2[j] = size2(A, j) * K[2 * j, 2 * j] * (1.0 - ridge)
    return a * a * distance2 + b * b * distance2_other
