"""Step rules of budgeted SGD: the λ they use, their step sizes, and the radius U of a ball that W is projected to.

=====================  =====  =================  =====
step                   λ      η_t                U
=====================  =====  =================  =====
PegasosStep            > 0    1/(λt)             –
NormaStep              > 0    η/√t               –
ImplicitStep           > 0    min(η/√t, ℓ/‖gΦ‖²) –
MarginPerceptronStep   0      η                  U
PassiveAggressiveStep  0      min(C, ℓ/‖gΦ‖²)    –
=====================  =====  =================  =====
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

from ...core.losses.step_sizes import StepSize
from ...files import savable

SMALLEST_LAM = 1e-12  # below: squares of coefficients, which are multiples of 1/λ, could overflow single precision


class Schedule(NamedTuple):
    """A step rule, as the loop sees it: λ, η_t, the radius, and whether η_t is at most ℓ/‖gΦ‖² (``passive``).

    Passive steps use the loss ℓ after W has decayed.
    """

    lam: float
    step: StepSize
    radius: float = math.inf
    passive: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether all steps have the same size, as the steps of the Perceptron."""
        return self.step.power == 0.0 and not self.passive


@dataclass(frozen=True)
class Step:
    """Base of the step rules, whose fields are numbers."""

    def __init_subclass__(cls) -> None:
        savable()(cls)

    def schedule(self, lam: float) -> Schedule:
        """The schedule of this rule for a λ; refuses values that are no sizes or radii."""
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, Real) or value != value:
                raise TypeError(f"{name} of {type(self).__name__} must be a number, got {value!r}")
        rule = self._schedule(lam)
        if not (rule.step.scale > 0.0 and (math.isfinite(rule.step.scale) or rule.passive) and rule.radius > 0.0):
            raise ValueError(f"step sizes must be > 0 and finite, and a radius > 0, got {self!r}")
        return rule

    def _schedule(self, lam: float) -> Schedule:
        raise NotImplementedError


@dataclass(frozen=True)
class PegasosStep(Step):
    """The step η_t = 1/(λt) of Pegasos.

    It is ``step="pegasos"``, and wants λ ≥ 1e-12.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import PegasosStep
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, lam=1e-3, step=PegasosStep(), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    def _schedule(self, lam: float) -> Schedule:
        if lam < SMALLEST_LAM:
            raise ValueError(f"Pegasos steps, 1/(lam t), need lam ≥ {SMALLEST_LAM:g}, got {lam}: use NormaStep(eta)")
        return Schedule(lam, StepSize(1.0 / lam, 1.0))


@dataclass(frozen=True)
class NormaStep(Step):
    """The step η_t = η/√t of Norma.

    It is ``step="norma"``. The linear solver's ``Norma(p)`` has p/λ for η.

    Parameters
    ----------
    eta : float, default=1.0
        The size η of the first step, a number > 0 with ηλ < 1.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import NormaStep
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, step=NormaStep(eta=0.5), random_state=0).fit(X, y)
    >>> model.get_params()["step__eta"]
    0.5
    """

    eta: float = 1.0

    def _schedule(self, lam: float) -> Schedule:
        if self.eta * lam >= 1.0:
            raise ValueError(f"eta · lam must be < 1 for Norma steps, got {self.eta} · {lam}: choose a smaller eta")
        return Schedule(lam, StepSize(float(self.eta), 0.5))


@dataclass(frozen=True)
class ImplicitStep(Step):
    """The implicit step of ILK: the minimiser of ½‖W − W_t‖² + η̂_t (λ/2 ‖W‖² + ℓ(W)) for a hinge.

    It is ``step="implicit"``: W ← (1 − η_t λ) W_t, then the shortest step that makes the loss of that zero, but at most
    η_t = η/√t, which is η̂_t/(1 + η̂_t λ): the gradient is taken where the step ends. With
    ``Remove("smallest")`` it is SILK.

    Cheng, Vishwanathan, Schuurmans, Wang, Caelli: Implicit online learning with kernels. NIPS (2006).

    Parameters
    ----------
    eta : float, default=1.0
        The largest size η of the first step, a number > 0 with ηλ < 1.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import ImplicitStep, Remove
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, step=ImplicitStep(eta=0.5), maintenance=Remove("smallest"), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    eta: float = 1.0

    def _schedule(self, lam: float) -> Schedule:
        if self.eta * lam >= 1.0:
            raise ValueError(f"eta · lam must be < 1 for implicit steps, got {self.eta} · {lam}: choose a smaller eta")
        return Schedule(lam, StepSize(float(self.eta), 0.5), passive=True)


@dataclass(frozen=True)
class MarginPerceptronStep(Step):
    """The step η_t = η of the Perceptron with a margin, without regularisation.

    It is ``step="margin_perceptron"``. λ is not looked at.

    Parameters
    ----------
    eta : float, default=1.0
        The size η of all steps, a number > 0.
    radius : float, default=inf
        The radius U of a ball that W is projected to after each step, a number > 0.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import MarginPerceptronStep
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, step=MarginPerceptronStep(eta=0.5, radius=10.0), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    eta: float = 1.0
    radius: float = math.inf

    def _schedule(self, lam: float) -> Schedule:
        return Schedule(0.0, StepSize(float(self.eta), 0.0), float(self.radius))


@dataclass(frozen=True)
class PassiveAggressiveStep(Step):
    """The shortest step that makes the loss zero, but at most C, without regularisation.

    It is ``step="passive_aggressive"``. λ is not looked at.

    Parameters
    ----------
    C : float, default=1.0
        The largest size of a step, a number > 0. This is PA-I, and PA for C = ∞.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.solvers.budget import PassiveAggressiveStep
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(10, step=PassiveAggressiveStep(C=0.5), random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 10
    True
    """

    C: float = 1.0

    def _schedule(self, lam: float) -> Schedule:
        return Schedule(0.0, StepSize(float(self.C), 0.0), passive=True)


#: Step rules by the names that users give.
STEPS: dict[str, type[Step]] = {
    "pegasos": PegasosStep,
    "norma": NormaStep,
    "implicit": ImplicitStep,
    "margin_perceptron": MarginPerceptronStep,
    "passive_aggressive": PassiveAggressiveStep,
}
