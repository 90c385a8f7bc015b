"""Removal: Δ = Φ(z_p)α_pᵀ for the smallest (‖α_p‖² k(z_p, z_p)), a random, the oldest or the newest p.

Of several vectors that are smallest up to rounding, as all are after Pegasos steps under a Gaussian kernel, the oldest
goes. "smallest" is also the truncation of Norma and SILK. "newest" keeps the first vectors (Stoptron).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.kernels.expansion import least, smallest
from ...core.sampling.visits import STRIDE, uniform
from .policy import Policy, maintain, register, remove

#: The vectors that Remove may remove; the loop knows them by their places in this list.
WHICH = ("smallest", "random", "oldest", "newest")
SMALLEST, RANDOM, OLDEST, NEWEST = range(len(WHICH))


class Removing(NamedTuple):
    """Remove, as the compiled loop sees it."""

    which: int
    seed: int


@dataclass(frozen=True)
class Remove(Policy):
    """Remove a vector, under any kernel.

    It is ``maintenance="remove"``, "random" and "oldest".

    Parameters
    ----------
    which : {"smallest", "random", "oldest", "newest"}, default="smallest"
        The vector that goes. The "smallest" has the least ‖α‖² k(z, z); of several equal ones the oldest goes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import Remove
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, gamma=1.0, maintenance=Remove("oldest"), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    which: str = "smallest"

    def check(self, solver: Any, problem: Any, rule: Any) -> None:
        """Refuse a ``which`` that is not in the list."""
        if self.which not in WHICH:
            raise ValueError(f"Remove takes {', '.join(map(repr, WHICH))}, got {self.which!r}")

    def prepare(self, budget: Any, seed: int) -> Removing:
        """The choice by its place in WHICH, and the seed of random choices."""
        return Removing(WHICH.index(self.which), seed)


def Stop() -> Remove:
    """Keep the first B vectors, as the Stoptron does, under any kernel.

    It is ``maintenance="stop"``.

    Returns
    -------
    Remove
        The policy.

    Examples
    --------
    >>> from widemargin.solvers.budget import Stop
    >>> Stop()
    Remove(which='newest')
    """
    return Remove("newest")


@maintain.case(Removing)
def maintain_by_removing(policy, machine):
    count = machine.tally.vectors
    if count <= machine.limit:
        return -1.0
    if policy.which == SMALLEST:
        j = smallest(machine.expansion, count)
    elif policy.which == RANDOM:
        # a hash of the number of maintenances, so that a resumed run makes the same choices
        j = int(uniform(np.uint64(policy.seed) + np.uint64(machine.tally.maintained) * STRIDE) * count)
    elif policy.which == OLDEST:
        j = least(machine.expansion.age, count)
    else:
        j = count - 1
    return remove(machine, j, j == count - 1)


register("remove", Remove("smallest"))
register("random", Remove("random"))
register("oldest", Remove("oldest"))
register("stop", Stop())
