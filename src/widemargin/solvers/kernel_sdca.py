"""SDCA with a kernel, in the loop of :mod:`.kernel_visits` (SBP paper, Sec. 4.4).

c = β is the dual variable itself, with its sign, for every loss with a conjugate, as in the linear :mod:`.sdca`, whose
step this is::

    D = λ (−C Σ sᵢ ℓ*(−βᵢ/(C sᵢ)) − ½ Σ βᵢfᵢ),
    βᵢ ← argmax over β of  −C sᵢ ℓ*(−β/(C sᵢ)) − (β − βᵢ) fᵢ − ½ K(xᵢ, xᵢ) (β − βᵢ)².

For the hinge yᵢβᵢ ← clip(yᵢβᵢ + (1 − yᵢfᵢ)/K(xᵢ, xᵢ), 0, C sᵢ). Each visit raises D or leaves it. Shrinking is that of
the linear solver, too: an example that a visit leaves where it was rests for some passes. β is feasible, and the gap
exact. Far from the optimum the model is the best multiple of w(β), since a large C overshoots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.losses import scalar_loss
from ..files import savable
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from . import protocol
from .kernel_visits import KernelVisits, State, Workspace, change
from .sdca import FLAT, dual_step, fit_box
from .smo import ROUGHLY, add_kernel_rows

#: Rows computed at a time for the responses of given dual variables.
ROWS_AT_ONCE = 256


class SDCARule(NamedTuple):
    """Exact maximisation of the dual over one coordinate, for this loss."""

    loss: Any


@change.case(SDCARule)
def _(rule, t, y, f, c, cap, weight, diagonal):
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
    >>> from widemargin.solvers.kernel_sdca import KernelSDCA
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = SVC(solver=KernelSDCA(shrinking=False), random_state=0).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= 1e-3)
    True
    """

    shrinking: bool = True

    solves: ClassVar[tuple[type, ...]] = tuple(dual_step.table)
    refusal: ClassVar[str] = "solves the losses of one score that have a conjugate, got {}: use one of them"
    warm = True
    exact = True
    evaluate = protocol.Solver.evaluate  # β is feasible, and the gap known

    def rule(self, problem: KernelProblem) -> SDCARule:
        """The loss whose dual is maximised."""
        return SDCARule(scalar_loss(problem.target))

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        super().check(problem)
        if not isinstance(self.shrinking, (bool, np.bool_)):
            raise TypeError(f"shrinking must be True or False, got {self.shrinking!r}")

    def init(self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None) -> State:
        """The state with β = 0, or with given dual variables of shape (1, n), clipped into the box."""
        state = super().init(problem, rng)
        if self.shrinking and self.sampling == "permutation":
            state.rest, state.wait = np.zeros(problem.n, np.uint8), np.zeros(problem.n, np.uint8)
        if duals is not None:
            state.beta[:] = protocol.checked_duals(duals, 1, problem.n)
            fit_box(problem.target, problem.y, problem.sample_weight, problem.C, problem.C, state.beta.T)
            self._respond(problem, state)
        return state

    def _respond(self, problem: KernelProblem, state: State) -> None:
        """f ← the responses of β; the rows, which the visits will need, stay in the cache."""
        cache = Workspace.of(problem, state).cache
        beta, before = state.beta[0], cache.matrix.evaluations
        support = np.flatnonzero(beta)
        height = min(ROWS_AT_ONCE, cache.capacity)
        for first in range(0, support.size, height):
            some = support[first : first + height]
            add_kernel_rows(cache.rows, cache.fetch(some), beta[some], state.f)
        state.f += problem.constant * beta.sum()
        state.counters.kernel_evals += support.size * problem.n
        state.counters.kernel_computed += cache.matrix.evaluations - before

    def _point(self, problem: KernelProblem, state: State) -> tuple[float, float, float]:
        """(multiple of w(β), its primal value, the dual value of β), in the C-form."""
        norm2 = np.array([float(state.beta[0] @ state.f)])
        primal, below = problem.value(state.f[None], norm2) / problem.lam, problem.dual(state.beta, norm2) / problem.lam
        if primal - below > ROUGHLY * abs(primal):
            multiple, _, value = problem.best_multiple(state.f, float(norm2[0]))
            if value < primal:
                return multiple, value, below
        return 1.0, primal, below

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal value of the model, dual value of β, and their difference, in the λ-form."""
        _, primal, dual = self._point(problem, state)
        return Certificate(problem.lam * primal, problem.lam * dual, problem.lam * (primal - dual))

    def scores(self, problem: KernelProblem, state: State) -> tuple[np.ndarray, float] | None:
        """Those of the best multiple of w(β)."""
        multiple = self._point(problem, state)[0]
        return multiple * state.f[None], 1.0 / max(multiple, FLAT)

    def duals(self, problem: KernelProblem, state: State) -> np.ndarray:
        """The dual variables β, of shape (1, n)."""
        return state.beta

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """The examples whose β is not 0, with the best multiple of w(β)."""
        return problem.model(self._point(problem, state)[0] * state.beta, np.zeros(1))
