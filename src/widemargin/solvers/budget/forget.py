"""The self-tuned Forgetron: shrink by the largest factor φ that its bound allows, and drop the oldest vector.

Δ = (1 − φ)W + φ Φ(z_p)α_pᵀ for the oldest vector p, with the largest φ ≤ 1 for which Q + Ψ(φ) ≤ (15/32) M. Here
Ψ(φ) = (φσ)² + 2φσ(1 − φμ), σ is the size of the oldest coefficient and μ its margin, M is the number of updates, and Q
the sum of all Ψ so far.

Dekel, Shalev-Shwartz, Singer: The Forgetron. SIAM J. Comput. 37 (2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.kernels.expansion import correlation, least, padded
from .policy import Policy, drop, kernel_row, maintain, register


class Forgetting(NamedTuple):
    """Forget, as the compiled loop sees it; the sum Q is ``amounts.own``."""


@dataclass(frozen=True)
class Forget(Policy):
    """Shrink the model as the self-tuned Forgetron does, and remove the oldest vector.

    It is ``maintenance="forget"``, for every kernel and ``step="margin_perceptron"`` alone.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import Forget
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, gamma=1.0, step="margin_perceptron", maintenance=Forget(), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    follows_norm: ClassVar[bool] = True

    def check(self, solver: Any, problem: Any, rule: Any) -> None:
        """Refuse step rules whose sizes vary."""
        if not rule.is_constant:
            raise ValueError(
                f"Forget shrinks the steps of step='margin_perceptron' only, got {solver.step!r}: use that"
            )

    def prepare(self, budget: Any, seed: int) -> Forgetting:
        """A tuple without fields: there are no parameters."""
        return Forgetting()


@maintain.case(Forgetting)
def forget(policy, machine):
    """Shrink by the largest φ and remove the oldest vector, in place; returns ‖Δ‖² in units of the new scale."""
    expansion, amounts, tally = machine.expansion, machine.amounts, machine.tally
    count = tally.vectors
    if count <= machine.limit:
        return -1.0
    j = least(expansion.age, count)
    if j != count - 1:
        kernel_row(machine, j)
        tally.evals += count
    scale = amounts.scale
    lost = np.float64(expansion.norm2[j])
    sigma = scale * np.sqrt(lost)
    inner = scale * scale * correlation(expansion.A, j, machine.work.k, padded(count))
    mu = inner / sigma if sigma > 0.0 else 0.0
    room = 15.0 / 32.0 * tally.updates - amounts.own
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
    amounts.own += a * phi * phi + b * phi
    # Δ = (1 − φ)W + φ Φ(z)αᵀ, in units of the new scale
    shrunk = (1.0 - phi) / phi
    inner /= scale * scale
    degradation = shrunk * shrunk * max(amounts.norm2, 0.0) + 2.0 * shrunk * inner + lost
    amounts.scale = phi * scale
    amounts.norm2 += lost - 2.0 * inner
    drop(machine, j)
    return max(degradation, 0.0)


register("forget", Forget())
