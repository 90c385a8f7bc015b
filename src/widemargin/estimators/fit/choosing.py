"""Which solver ``solver="auto"`` stands for in a linear machine, by what is known before a fit.

Dual coordinate ascent ("sdca") takes about κ epochs, where κ is C times the mean of sᵢ‖xᵢ‖², with the constant feature
if there is one. A smaller gap takes more epochs, and so do squared losses.

The interior point ("interior") takes about twenty steps, whatever κ is. A step costs as much as several epochs: it
multiplies each entry of a row with each other entry, solves as many equations as there are features, and spends a
millisecond in Python.

So "auto" is the interior point where ``tol`` is small, or where dual ascent might need more epochs than ``max_iter``
allows. The constants, and what they lead to on many data sets, are in docs/measurements/auto.md;
``widemargin bench auto`` measures them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.losses import losses

STEPS = 40  # steps of the interior point at most, on nearly all data
PER_SECOND = 1e9  # operations a second that any machine makes
MOST_WORK = 1e12  # operations, some minutes: no more are spent only because dual ascent proves nothing
UNSURE = 2.0  # dual ascent may take so many times the epochs that are expected
ENTRIES = 2**17  # entries of the data that the choice looks at; more change κ by less than its own error
MANY_EPOCHS = 100  # the interior point needs no more; with a smaller max_iter it might not arrive


class Facts(NamedTuple):
    """What the choice looks at.

    ``entries`` are those of a row, ``kappa`` is κ, ``squared`` whether losses are squared, ``outputs`` the number of
    machines, and ``ratio`` the size of the largest feature over that of the median feature.
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
        """The facts of a linear problem, from evenly spaced rows: a pass over all data may be a tenth of a fit."""
        step = int(problem.n * problem.mean_entries) // ENTRIES
        squares = (problem.take(np.arange(0, problem.n, step)) if step > 1 else problem).column_squares()
        constant = problem.mean_weight if problem.intercept == "regularized" else 0.0
        kappa = problem.C * (float(squares.sum()) + constant)
        squared = losses.scalar_loss(problem.target).lipschitz == float("inf")
        ratio = problem.ratio_of_sizes(squares)
        return cls(problem.n, problem.d, problem.mean_entries, kappa, tol, squared, problem.n_outputs, ratio)

    @property
    def work(self) -> float:
        """About how many operations the interior point takes."""
        return STEPS * self.outputs * (self.n * (200.0 + self.entries**2) + self.d**3)


class ChoiceRule(NamedTuple):
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
        """Whether dual ascent should take longer than the interior point, or perhaps more than ``epochs`` epochs."""
        ascent = facts.kappa * (1e-3 / facts.tol) ** self.power * (self.squared if facts.squared else 1.0)
        fixed = (self.equations * facts.d**3 + self.calls) / (facts.n * facts.entries)
        unsure = UNSURE * min(max(1.0, 1e-3 / facts.tol), 10.0)  # the last digits of some data take far more epochs
        if unsure * ascent > epochs and facts.work <= MOST_WORK:
            return True
        return ascent > self.epochs + self.per_entry * facts.entries + fixed


RULE = ChoiceRule()


def has_time(estimator: Any, facts: Facts) -> bool:
    """Whether the interior point should arrive before any limit, and no later fit goes on from this one."""
    limited = estimator.early_stopping or estimator.max_feature_reads is not None or estimator.warm_start
    if limited or estimator.max_iter < MANY_EPOCHS or not estimator.tol > 0.0:
        return False
    return estimator.max_seconds is None or 2.0 * facts.work <= PER_SECOND * estimator.max_seconds
