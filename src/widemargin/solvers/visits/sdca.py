"""SDCA with a kernel, in the loop of :mod:`.loop` (SBP paper, Sec. 4.4).

Problem, for every loss with a conjugate; the coefficients c are the dual variables β, with their signs::

    max over β   D(β) = λ (−C Σ sᵢ ℓ*(−βᵢ/(C sᵢ)) − ½ Σ βᵢfᵢ).

Step: a visit maximises D over βᵢ alone, as in the linear :mod:`widemargin.solvers.sdca`::

    βᵢ ← argmax over β of  −C sᵢ ℓ*(−β/(C sᵢ)) − (β − βᵢ) fᵢ − ½ K(xᵢ, xᵢ) (β − βᵢ)².

For the hinge yᵢβᵢ ← clip(yᵢβᵢ + (1 − yᵢfᵢ)/K(xᵢ, xᵢ), 0, C sᵢ). D falls at no visit. β is feasible, so the gap is that
of a dual point.

What differs from the paper: examples rest as in the linear solver, because a visit that changes nothing gains nothing.
Far from the optimum the model is the best multiple of w(β), because a large C overshoots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...arguments import flag
from ...core.losses.losses import scalar_loss
from ...files import savable
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate
from .. import protocol
from ..sdca import FLAT, dual_step, fit_box
from ..smo.dual import ROUGHLY
from ..smo.rounds import add_kernel_rows
from .loop import KernelVisits, VisitState, VisitWorkspace, change

ROWS_AT_ONCE = 256  # kernel rows computed at a time for the responses of given dual variables


class KernelSDCARule(NamedTuple):
    """Exact maximisation of the dual over one variable."""

    loss: Any


@change.case(KernelSDCARule)
def maximise_dual(rule, t, y, f, c, cap, weight, diagonal):
    after = 0.0
    if cap > 0.0:
        after = dual_step(rule.loss, c, f, y, max(diagonal, FLAT), cap)
    return after, after - c


@savable()
@dataclass
class KernelSDCA(KernelVisits):
    """Stochastic dual coordinate ascent with a kernel, for every loss with a conjugate.

    It is ``solver="sdca"`` of kernel machines.

    Parameters
    ----------
    sampling : {"permutation", "iid"}, default="permutation"
        The order of visits: a new permutation each pass, or independent draws.
    shrinking : bool, default=True
        Whether idle examples rest for some passes. Independent draws know no passes and no rests.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC
    >>> from widemargin.solvers.visits.sdca import KernelSDCA
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = SVC(solver=KernelSDCA(shrinking=False), random_state=0).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= 1e-3)
    True
    """

    shrinking: bool = True

    solves: ClassVar[tuple[type, ...]] = tuple(dual_step.table)
    refusal: ClassVar[str] = "solves the losses of one score that have a conjugate, got {}: use one of them"
    capabilities = protocol.Capabilities(aim="optimum", starts_from_duals=True)
    evaluate = protocol.Solver.evaluate  # the gap is known, because β is feasible

    def rule(self, problem: KernelProblem) -> KernelSDCARule:
        """The loss whose dual is maximised."""
        return KernelSDCARule(scalar_loss(problem.target))

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        super().check(problem)
        flag("shrinking", self.shrinking)

    def init(self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None) -> VisitState:
        """The state with β = 0, or with given dual variables of shape (1, n), clipped into the box."""
        state = super().init(problem, rng)
        if self.shrinking and self.sampling == "permutation":
            state.rest, state.wait = np.zeros(problem.n, np.uint8), np.zeros(problem.n, np.uint8)
        if duals is not None:
            state.beta[:] = protocol.checked_duals(duals, 1, problem.n)
            fit_box(problem.target, problem.y, problem.sample_weight, problem.C, problem.C, state.beta.T)
            self._respond(problem, state)
        return state

    def _respond(self, problem: KernelProblem, state: VisitState) -> None:
        """f ← the responses of β; the rows stay in the cache, because visits will need them."""
        cache = VisitWorkspace.of(problem, state).cache
        beta, before = state.beta[0], cache.matrix.evaluations
        support = np.flatnonzero(beta)
        height = min(ROWS_AT_ONCE, cache.capacity)
        for first in range(0, support.size, height):
            some = support[first : first + height]
            add_kernel_rows(cache.rows, cache.fetch(some), beta[some], state.f)
        state.f += problem.constant * beta.sum()
        state.counters.kernel_evals += support.size * problem.n
        state.counters.kernel_computed += cache.matrix.evaluations - before

    def _point(self, problem: KernelProblem, state: VisitState) -> tuple[float, float, float]:
        """(multiple of w(β), its primal value, the dual value of β), in the C-form."""
        norm2 = np.array([float(state.beta[0] @ state.f)])
        primal, below = problem.value(state.f[None], norm2) / problem.lam, problem.dual(state.beta, norm2) / problem.lam
        if primal - below > ROUGHLY * abs(primal):
            multiple, _, value = problem.best_multiple(state.f, float(norm2[0]))
            if value < primal:
                return multiple, value, below
        return 1.0, primal, below

    def certificate(self, problem: KernelProblem, state: VisitState) -> Certificate:
        """Primal value of the model, dual value of β, and their difference, in the λ-form."""
        _, primal, dual = self._point(problem, state)
        return Certificate(problem.lam * primal, problem.lam * dual, problem.lam * (primal - dual))

    def scores(self, problem: KernelProblem, state: VisitState) -> tuple[np.ndarray, float] | None:
        """The scores of the best multiple of w(β)."""
        multiple = self._point(problem, state)[0]
        return multiple * state.f[None], 1.0 / max(multiple, FLAT)

    def duals(self, problem: KernelProblem, state: VisitState) -> np.ndarray:
        """The dual variables β, of shape (1, n)."""
        return state.beta

    def model(self, problem: KernelProblem, state: VisitState) -> KernelModel:
        """The examples whose β is not 0, with the best multiple of w(β)."""
        return problem.model(self._point(problem, state)[0] * state.beta, np.zeros(1))
