"""Kernelised Pegasos: Fig. 3 of the paper, in the loop of :mod:`.loop`.

Problem: λ/2 ‖w‖² + (1/n) Σ sᵢ max(0, 1 − yᵢ⟨w, Φ(xᵢ)⟩).

Step: w_t = 1/(λ(t − 1)) Σ αᵢyᵢΦ(xᵢ), where αᵢ counts the violations of example i, weighted by sᵢ. The visit at step t
adds δ = sᵢyᵢ to cᵢ if yᵢfᵢ < λ(t − 1), or if t = 1.

What differs from the paper: the printed test has y of the visited example inside the sum, and 1/(λt) where w_t has
1/(λ(t − 1)). Here the test is of the margin of w_t.

S. Shalev-Shwartz, Y. Singer, N. Srebro, A. Cotter: Pegasos: Primal Estimated sub-GrAdient SOlver for SVM.
Mathematical Programming 127 (2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...files import savable
from ...problems.kernel import KernelProblem
from .loop import KernelVisits, VisitState, change


class PegasosRule(NamedTuple):
    """Adds the examples whose margin w_t violates, for this λ."""

    lam: float


@change.case(PegasosRule)
def add_violation(rule, t, y, f, c, cap, weight, diagonal):
    delta = weight * y if t == 1 or y * f < rule.lam * (t - 1) else 0.0
    return c + delta, delta


@savable()
@dataclass
class KernelPegasos(KernelVisits):
    """Kernelised Pegasos, Fig. 3 of the paper.

    It is ``solver="pegasos"`` of kernel machines.

    Parameters
    ----------
    sampling : {"iid", "permutation"}, default="iid"
        The order of visits: independent draws, as in the paper, or a new permutation each epoch.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC
    >>> from widemargin.solvers.visits.pegasos import KernelPegasos
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = SVC(solver=KernelPegasos(sampling="permutation"), max_iter=5, tol=0).fit(X, y)
    >>> model.stop_reason_
    'max_iter'
    """

    sampling: str = "iid"

    def rule(self, problem: KernelProblem) -> PegasosRule:
        """The rule that adds examples whose margin is violated, with this problem's λ."""
        return PegasosRule(problem.lam)

    def scale(self, problem: KernelProblem, state: VisitState) -> float:
        """The scale 1/(λt) of w after t steps."""
        return 1.0 / (problem.lam * max(state.t, 1))
