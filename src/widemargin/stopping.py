"""When a run ends: its limits, and the verdict at a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .files import savable

# Tuned numbers, as shares of the objective.
TELLING = 0.5  # gap at which early stopping begins to count: the errors of earlier models say nothing
ROUNDED = 1e-9  # gap below minus this: dual values are wrong by rounding
LEAST_AHEAD = 1 / 8  # share of the steps so far before a gap is foreseen to close, so that looks stay few
LATE = 1.05  # times the steps foreseen: a look that is a little late costs less than one that is early

STOP_REASONS = {
    "tol": "the duality gap is at most tol of the objective; of a solver without a gap: the objective changed by less "
    "while the work doubled and the solver knows no better point",
    "settled": "the objective changed by less than tol of itself while the work doubled; the proven gap is above tol",
    "max_iter": "all epochs done",
    "precision": "the gap that can be reached in this arithmetic is above tol",
    "stalled": "rounding allows no further progress",
    "max_seconds": "the time limit was reached",
    "max_feature_reads": "as many entries of the data as allowed were read",
    "early_stopping": "the validation error stopped improving",
    "callback": "a callback asked to stop",
    "interrupted": "Ctrl-C",
}


@dataclass
class Limits:
    """What ends a run.

    Parameters
    ----------
    max_epochs : work of this run, in passes over the examples
    max_seconds : wall clock since ``started`` (by default since the call), everything included
    max_feature_reads : stored entries of the data read, by the counter of that name; the run ends with the step that
        reaches them
    tol : stop when the duality gap, where the solver knows it, is at most this share of the objective, and
        where it knows none that is tight when the objective changes by less than this share between checkpoints; 0 is
        never
    patience : checkpoints without an improvement of the validation error
    checkpoints : numbers of steps at which to evaluate, instead of 1, 2, 4, 8 … epochs
    interrupts : who sees Ctrl-C for this run, where it is one of several on threads
    """

    max_epochs: float = 10
    max_seconds: float | None = None
    max_feature_reads: float | None = None
    tol: float = 0.0
    patience: int = 3
    checkpoints: Iterable[int] | None = None
    started: float | None = None
    interrupts: Any = None
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        started = time.perf_counter() if self.started is None else self.started
        self.deadline = math.inf if self.max_seconds is None else started + self.max_seconds

    def steps(self, per_epoch: int) -> int:
        """Most steps of the run."""
        return max(1, math.ceil(self.max_epochs * per_epoch))

    def stops(self, per_epoch: int) -> Iterator[int]:
        """The numbers of steps at which the run is looked at, in order."""
        if self.checkpoints is not None:
            yield from sorted(self.checkpoints)
            return
        epochs = 1
        while True:
            yield epochs * per_epoch
            epochs *= 2


def certified(reason: str, gap: float, tol: float, tight: bool) -> str:
    """The reason for which a run ended, corrected by the certificate of its model: ``gap`` is its relative gap, and
    ``tight`` says whether the run was to close the gap.

    >>> certified("tol", 0.2, 1e-3, tight=True), certified("tol", 0.2, 1e-3, tight=False)
    ('precision', 'settled')
    >>> certified("stalled", 0.2, 1e-3, tight=True), certified("max_iter", 1e-4, 1e-3, tight=True)
    ('precision', 'tol')
    """
    if not tol > 0.0 or reason not in ("tol", "stalled", "max_iter"):
        return reason
    if gap <= tol:
        return "tol"
    return reason if reason == "max_iter" else "precision" if tight else "settled"


def short_of_tol(name: str, gap: float, tol: float, remedy: str) -> str:
    """The sentence of the reason "precision": the relative gap that was reached, and what to do.

    >>> short_of_tol("SVC", 3.9e-8, 1e-9, "raise tol")
    "SVC reached a relative duality gap of 3.9e-08, and rounding allows none of tol=1e-09 (stop_reason_='precision'): \
raise tol"
    """
    return (
        f"{name} reached a relative duality gap of {gap:.1e}, and rounding allows none of tol={tol:g} "
        f"(stop_reason_='precision'): {remedy}"
    )


def without_proof(name: str, interrupted: bool) -> str:
    """The sentence of a model that was not scored in float64, whose certificate is None.

    >>> without_proof("SVC", interrupted=True)
    'SVC was interrupted before it computed the scores of its certificate in float64, and there is none: let it go on \
for one'
    """
    ended, remedy = (
        ("was interrupted before it computed", "let it go on") if interrupted
        else ("had no time to compute", "raise max_seconds")
    )  # fmt: skip
    return f"{name} {ended} the scores of its certificate in float64, and there is none: {remedy} for one"


@savable()
@dataclass
class Patience:
    """Counts checkpoints without an improvement of the validation error."""

    most: int
    error: float = math.inf
    unimproved: int = 0

    def improves(self, error: float, measured: dict[str, float]) -> bool:
        """Whether the error is the lowest so far; if not, and the gap is small enough, count the checkpoint."""
        if error < self.error or self.error == math.inf:
            self.error, self.unimproved = error, 0
            return True
        if measured.get("gap", 0.0) <= TELLING * abs(measured["objective"]):
            self.unimproved += 1
        return False


def foreseen(gaps: list[tuple[float, float]], tol: float) -> float:
    """The step at which a gap that falls as evenly as in the last half of the work reaches tol; infinite if it rose.

    ``gaps`` are (steps, relative gap) in order.

    >>> foreseen([(100.0, 1e-1), (200.0, 1e-2)], 1e-3)
    305.0
    """
    steps, gap = gaps[-1]
    earlier, wide = next((look for look in reversed(gaps) if 2.0 * look[0] <= steps), gaps[0])
    if not 0.0 < tol < gap < wide < math.inf:
        return math.inf
    ahead = (steps - earlier) * math.log(gap / tol) / math.log(wide / gap)
    return steps + max(LATE * ahead, LEAST_AHEAD * steps)


def reason_to_stop(
    measured: dict[str, float], previous: float, tol: float, over: bool, patience: Patience, stalled: bool,
    tight: bool = True,
) -> str:  # fmt: skip
    """Why the run ends at a checkpoint; "" if it goes on. ``over``: all epochs are done.

    A closed gap counts for more than the end of the epochs. A dual value above the primal value is rounding. A gap that
    is not ``tight`` does not keep a run going whose objective no longer changes.
    """
    share, gap = abs(measured["objective"]), measured.get("gap", math.inf)
    if over and not gap <= tol * share:
        return "max_iter"
    if patience.unimproved >= patience.most:
        return "early_stopping"
    if (stalled and not (tol > 0.0 and gap <= tol * share)) or (tol > 0.0 and gap < -max(tol, ROUNDED) * share):
        return "stalled"
    change = gap if "gap" in measured and tight else min(gap, abs(previous - measured["objective"]))
    if tol > 0.0 and change <= tol * share:
        return "tol"
    return "max_iter" if over else ""
