"""Which solver ``solver="auto"`` is for a linear machine, by what is known before a fit.

Dual coordinate ascent ("sdca") takes some κ epochs, where κ is C times the mean of sᵢ‖xᵢ‖², the constant feature
counted where there is one; more to a smaller gap, and more for squared losses. The interior point ("interior") takes
some twenty steps whatever κ is, each of which costs as much as several epochs: the more entries a row has the more, as
a step multiplies each with each other, and it solves as many equations as there are features; and there is a
millisecond of Python in each. So the smaller ``tol``, the more often it is the interior point; so it is,
too, where dual ascent might need more epochs than are allowed and would end short of ``tol``. What that comes to on
many data sets, and how the constants were chosen, is in docs/measurements/auto.md; ``widemargin bench auto`` measures
it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..core import losses

#: Steps of the interior point that are to be reckoned with, and operations a second that are certainly made.
STEPS, PER_SECOND = 40, 1e9
#: Operations at most for the sake of a certificate alone, some minutes' work.
MOST_WORK = 1e12
#: Dual ascent may take so many times the epochs that are reckoned with.
UNSURE = 2.0
#: Fewest epochs allowed in which the interior point arrives.
MANY_EPOCHS = 100


class Facts(NamedTuple):
    """What the choice looks at: sizes, entries of a row, κ, the gap asked for, whether losses are squared, how many
    machines there are, and the size of the largest feature over that of the median one.
    """

    n: int
    d: int
    entries: float
    kappa: float
    tol: float
    squared: bool
    outputs: int = 1
    ratio: float = 1.0

    @classmethod
    def of(cls, problem: Any, tol: float) -> Facts:
        """The facts of a linear problem; a pass over the data."""
        squares = problem.column_squares()
        constant = problem.mean_weight if problem.intercept == "regularized" else 0.0
        kappa = problem.C * (float(squares.sum()) + constant)
        squared = losses.scalar_loss(problem.target).lipschitz == float("inf")
        ratio = problem.ratio_of_sizes(squares)
        return cls(problem.n, problem.d, problem.mean_entries, kappa, tol, squared, problem.n_outputs, ratio)

    @property
    def work(self) -> float:
        """Operations of the interior point, about."""
        return STEPS * self.outputs * (self.n * (200.0 + self.entries**2) + self.d**3)


class Rule(NamedTuple):
    """Constants of the choice.

    Dual ascent takes κ (10⁻³/tol)^``power`` epochs, ``squared`` times as many for squared losses; the interior point
    as long as ``epochs`` + ``per_entry`` k + (``equations`` d³ + ``calls``)/(n k) of them, for k entries a row: on
    small data it is calls that take its time.
    """

    power: float = 0.2
    squared: float = 2.0
    epochs: float = 5.0
    per_entry: float = 0.4
    equations: float = 2.0
    calls: float = 1e6

    def prefers_interior(self, facts: Facts, epochs: float = math.inf) -> bool:
        """Whether dual ascent should take longer to a gap of ``tol`` than the interior point, or perhaps more than so
        many epochs.
        """
        ascent = facts.kappa * (1e-3 / facts.tol) ** self.power * (self.squared if facts.squared else 1.0)
        fixed = (self.equations * facts.d**3 + self.calls) / (facts.n * facts.entries)
        if UNSURE * ascent > epochs and facts.work <= MOST_WORK:
            return True
        return ascent > self.epochs + self.per_entry * facts.entries + fixed


RULE = Rule()


def goes_to_the_end(estimator: Any) -> bool:
    """Whether nothing but ``tol`` and a time limit should end a fit, from which no other goes on."""
    limited = estimator.early_stopping or estimator.max_feature_reads is not None or estimator.warm_start
    return not limited and estimator.max_iter >= MANY_EPOCHS and estimator.tol > 0.0


def has_time(estimator: Any, facts: Facts) -> bool:
    """Whether the interior point should arrive long before a time limit."""
    return estimator.max_seconds is None or 2.0 * facts.work <= PER_SECOND * estimator.max_seconds
