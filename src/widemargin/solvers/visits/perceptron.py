"""The kernel Perceptron, in the loop of :mod:`.loop` (SBP paper, Sec. 4.5).

Problem: few mistakes on the training set; no objective is minimised. The objective that a checkpoint shows is the
hinge's, of the best multiple of w, because the Perceptron does not determine the length of w.

Step: a visit adds δ = sᵢyᵢ to cᵢ where yᵢfᵢ ≤ 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...files import savable
from ...problems.kernel import KernelProblem
from ..protocol import Capabilities
from .loop import KernelVisits, VisitState, change


class PerceptronRule(NamedTuple):
    """Adds the examples that are misclassified."""


@change.case(PerceptronRule)
def add_mistake(rule, t, y, f, c, cap, weight, diagonal):
    delta = weight * y if y * f <= 0.0 else 0.0
    return c + delta, delta


@savable()
@dataclass
class KernelPerceptron(KernelVisits):
    """The kernel Perceptron, for comparison.

    One pass (``max_iter=1``) has a guarantee. More passes fit the training set without bound.

    Parameters
    ----------
    sampling : {"permutation", "iid"}, default="permutation"
        The order of visits: a new permutation each epoch, or independent draws.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, KernelPerceptron
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = SVC(solver=KernelPerceptron(sampling="iid"), max_iter=1, tol=0).fit(X, y)
    >>> model.stop_reason_
    'max_iter'
    """

    capabilities = Capabilities(aim="mistakes")

    def rule(self, problem: KernelProblem) -> PerceptronRule:
        """The rule that adds the examples that are misclassified."""
        return PerceptronRule()

    def scale(self, problem: KernelProblem, state: VisitState) -> float:
        """The multiple of Σ cᵢΦ(xᵢ) with the lowest objective."""
        return problem.best_multiple(state.f, float(state.beta[0] @ state.f))[0]
