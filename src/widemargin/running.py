"""The one training loop: clock, checkpoints, callbacks, stopping, interrupts, resume.

``run`` advances a solver to the next checkpoint in slices of about a tenth of a
second, stops the clock, evaluates, records, calls the callbacks, decides whether
to stop, and starts the clock again. Checkpoints stand at 1, 2, 4, 8 … epochs and
at the end, so that evaluation stays a small part of the work however long it
lasts, and ``tol`` compares objectives between which the work doubled.

An exact solver that is stopped before its end returns the best model it has seen, never a worse one than w = 0. Under
a time limit it is looked at between checkpoints too, as often as that costs a twentieth of the time.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from .files import dump, load
from .history import History, Stopwatch

#: Seconds a compiled slice should take, so that Ctrl-C and time limits are prompt.
SLICE = 0.1
#: Steps of the first slice, where a solver with long steps does not say otherwise.
FIRST_SLICE = 64
#: Under a time limit, the share of the time and of the kernel values that looks between checkpoints may take.
LOOKING = 0.05
#: Early stopping counts checkpoints without an improvement once the gap, where it is known, is this share of the
#: objective: what comes before is no machine yet, and its error says nothing.
TELLING = 0.5
#: Seconds that someone who pressed Ctrl-C waits for the value of the newest point.
PATIENCE = 1.0
#: A gap below minus this share of the objective says that dual values are wrong by rounding.
ROUNDED = 1e-9
#: Kernel values for a first look at a run out of time.
FIRST_LOOK = 2**22

STOP_REASONS = {
    "tol": "the duality gap is at most tol of the objective, or the objective changed by less while the work doubled "
    "and the solver knows no better point",
    "max_iter": "all epochs done",
    "stalled": "rounding allows no further progress",
    "max_seconds": "the time limit was reached",
    "early_stopping": "the validation error stopped improving",
    "callback": "a callback asked to stop",
    "interrupted": "Ctrl-C",
}


class Solver:
    """Base of the solvers, which are dataclasses of hyper-parameters.

    A solver has ``init(problem, rng) → State``, ``advance(problem, state, n_steps)``
    in place, ``weights``/``model(problem, state)`` and ``certificate(problem, state)``.
    """

    @property
    def exact(self) -> bool:
        """Whether it goes to the optimum of an objective it knows, so that the model with the lowest one is the best.

        Pegasos' last iterate is its paper's choice, budgeted SGD only estimates its objective, and the Perceptron and
        the ν-form have another aim.
        """
        return False

    def first_slice(self, problem: Any) -> int:
        """Steps that certainly take less than a slice."""
        return FIRST_SLICE

    def knows(self, state: Any) -> bool:
        """Whether the value of the present point takes no further kernel values."""
        return True

    def glimpse(self, problem: Any, state: Any, most: float) -> tuple[dict[str, float], Callable[[], Any]] | None:
        """What :meth:`evaluate` says of the present point, and how to get its model; None if that takes more than
        ``most`` kernel values.
        """
        model = self.model(problem, state)  # type: ignore[attr-defined]
        return self.evaluate(problem, state, model), lambda: model

    def evaluate(self, problem: Any, state: Any, model: Any) -> dict[str, float]:
        """What a checkpoint records of a linear model: its objective."""
        return {"objective": problem.primal(model.coef.T, model.intercept)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Hyper-parameters by name, as scikit-learn's searches want them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Solver:
        """Set hyper-parameters by name."""
        names = list(self.get_params())
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(names)}")
            setattr(self, name, value)
        return self


class RunnableSolver(Protocol):
    """What ``run`` asks of a solver.

    ``advance`` may stop before n_steps and then returns the steps it took. ``evaluate`` returns the columns of a
    checkpoint: "objective", and "gap" if the solver knows it. A solver whose ``at_checkpoint(state)`` exists says
    itself when it can be evaluated cheaply. One whose ``doubt(problem, state, tol)`` exists says in words what speaks
    against convergence where the objective has stopped changing, or "".
    """

    @property
    def exact(self) -> bool: ...

    def init(self, problem: Any, rng: np.random.Generator) -> Any: ...
    def advance(self, problem: Any, state: Any, n_steps: int) -> int | None: ...
    def model(self, problem: Any, state: Any) -> Any: ...
    def evaluate(self, problem: Any, state: Any, model: Any) -> dict[str, float]: ...
    def knows(self, state: Any) -> bool: ...
    def glimpse(self, problem: Any, state: Any, most: float) -> tuple[dict[str, float], Callable[[], Any]] | None: ...
    def steps_per_epoch(self, problem: Any) -> int: ...
    def first_slice(self, problem: Any) -> int: ...


@dataclass
class Progress:
    """Where a run stands; what callbacks get.

    Attributes
    ----------
    steps, epochs : int, float
        Work done in this run.
    max_epochs : float
        Work planned for this run.
    seconds : float
        Training time so far, evaluation not counted.
    row : dict
        The checkpoint's row of the history; empty between checkpoints.
    history : History
    """

    solver: Any
    problem: Any
    state: Any
    history: History
    steps: int = 0
    epochs: float = 0.0
    max_epochs: float = math.inf
    seconds: float = 0.0
    row: dict[str, float] = field(default_factory=dict)
    finish: Callable[[Any], Any] | None = None

    def model(self) -> Any:
        """A finished copy of the current model; its ``decision_function`` takes what that of the estimator takes."""
        model = self.solver.model(self.problem, self.state)
        return model if self.finish is None else self.finish(model)


@dataclass
class Outcome:
    """What a run returns."""

    state: Any
    model: Any
    history: History
    stop_reason: str
    objective: float
    doubt: str = ""  # what spoke against "tol" when the run was looked at last, where its solver can tell
    is_last: bool = True  # whether the model is that of the state, and not an earlier, better one
    dual: float = -math.inf  # the highest lower bound of the objective seen

    @property
    def W(self) -> np.ndarray:
        """Weights of a linear model, of shape (n_features, n_outputs)."""
        return self.model.coef.T

    @property
    def b(self) -> np.ndarray:
        """Intercepts."""
        return self.model.intercept


class Interrupts:
    """Within this context the first Ctrl-C sets a flag and the second raises; only in the main thread."""

    def __init__(self) -> None:
        self.seen = False
        self._previous: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: Any) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True

    def __exit__(self, *exc: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


def run(
    solver: RunnableSolver,
    problem: Any,
    *,
    state: Any = None,
    rng: np.random.Generator | None = None,
    max_epochs: float = 10,
    max_seconds: float | None = None,
    tol: float = 0.0,
    validation: Any = None,
    patience: int = 3,
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    on_slice: Callable[[Progress], Any] | None = None,
    history: History | None = None,
    checkpoints: Iterable[int] | None = None,
    started: float | None = None,
) -> Outcome:
    """Train until a limit, a tolerance, a callback or Ctrl-C says stop; whatever it is, a model comes back.

    Parameters
    ----------
    solver, problem : the solver and what it minimises
    state : the solver's State to go on from; ``None`` starts anew with ``rng``
    max_epochs : work of this run, in passes over the examples
    max_seconds : wall clock since ``started`` (by default since the call), everything included
    tol : stop when the duality gap, where the solver knows it, is at most this share of the objective, and
        elsewhere when the objective changes by less than this share between checkpoints; 0 is never
    validation : a Problem on held-out examples; its error is recorded, and after ``patience`` checkpoints
        without improvement (with a gap, where there is one, of half the objective or less) the run stops and the best
        model seen is returned
    callbacks : called with a :class:`Progress` at each checkpoint; a true answer stops the run
    on_slice : called with a :class:`Progress` after each slice of work
    checkpoints : numbers of steps at which to evaluate, instead of 1, 2, 4, 8 … epochs
    """
    started = time.perf_counter() if started is None else started
    deadline = math.inf if max_seconds is None else started + max_seconds
    history = History() if history is None else history
    if state is None:
        state = solver.init(problem, np.random.default_rng() if rng is None else rng)
    per_epoch = solver.steps_per_epoch(problem)
    last = max(1, math.ceil(max_epochs * per_epoch))
    solver.advance(problem, state, 0)  # compiles, off the clock
    watch = Stopwatch()
    watch.seconds = history.last("seconds")
    progress = Progress(solver, problem, state, history, max_epochs=last / per_epoch)
    chooses = getattr(solver, "at_checkpoint", None)
    stops = iter(()) if chooses else iter(sorted(checkpoints)) if checkpoints is not None else _doubling(per_epoch)
    callbacks = tuple(callbacks)

    best = Best()
    looks = Looks(solver, problem, state, best) if deadline < math.inf and validation is None else None
    # the first slice feels out how fast steps are; no slice is more than 16 times the one before
    unimproved, previous, done, rate = 0, math.nan, 0, solver.first_slice(problem) / SLICE
    earlier = history.last("epochs")
    doubts = getattr(solver, "doubt", lambda problem, state, tol: "")
    reason = doubt = ""
    with Interrupts() as interrupts:
        while not reason:
            target = min(next(stops, last), last)
            while done < target and not reason:
                part = max(1, min(target - done, int(rate * SLICE)))
                since = time.perf_counter()
                with watch:
                    taken = solver.advance(problem, state, part)
                took = max(time.perf_counter() - since, 1e-6)
                steps = part if taken is None else taken
                rate = min(max(1, steps) / took, 16 * part / SLICE)
                done += steps
                progress.steps, progress.epochs, progress.seconds = done, done / per_epoch, watch.seconds
                if on_slice is not None:
                    progress.row = {}
                    on_slice(progress)
                if interrupts.seen:
                    reason = "interrupted"
                # a step that would end well behind the limit is not begun
                elif time.perf_counter() + 0.5 / rate >= deadline:
                    reason = "max_seconds"
                if chooses is not None and chooses(state):
                    break
                if looks is not None and not reason and done < target:
                    looks.look()

            measured, model, is_last = _measure(solver, problem, state, reason, best, validation, watch.seconds)
            objective = measured["objective"]
            if not math.isfinite(objective):
                remedy = getattr(problem, "overflow", None) or (
                    f"the weights overflowed {problem.dtype}; scale the features to about unit size, use float64 data "
                    "or a smaller step size"
                )
                raise ValueError(f"the objective became {objective} after {done} steps: {remedy}")
            row = {"epochs": earlier + done / per_epoch, "seconds": watch.seconds, **measured}
            if validation is not None:
                row["validation_error"] = validation.errors(model)
                if best.error is None or row["validation_error"] < best.error:
                    best.error, best.validated, best.validated_objective = row["validation_error"], model, objective
                    unimproved = 0
                elif measured.get("gap", 0.0) <= TELLING * abs(objective):
                    unimproved += 1
            history.append(state.counters, **row)
            progress.row = history.rows[-1]
            stop = [callback(progress) for callback in callbacks]

            if reason:
                pass
            elif interrupts.seen:
                reason = "interrupted"
            elif any(stop):
                reason = "callback"
            elif done >= last and not measured.get("gap", math.inf) <= tol * abs(objective):
                reason = "max_iter"
            elif unimproved >= patience:
                reason = "early_stopping"
            elif _is_stalled(state, measured, tol):
                reason = "stalled"
            elif tol > 0.0 and measured.get("gap", abs(previous - objective)) <= tol * abs(objective):
                doubt = doubts(problem, state, tol)
                reason = "" if doubt else "tol"
            if not reason and done >= last:
                reason = "max_iter"
            previous = objective
    if reason == "max_iter" and tol > 0.0 and not doubt:
        doubt = doubts(problem, state, tol)
    if validation is not None:
        is_last, model, objective = best.validated is model, best.validated, best.validated_objective
        return Outcome(state, model, history, reason, objective, doubt, is_last, best.dual)
    if solver.exact and reason != "tol":
        if best.objective < objective:
            model, objective, is_last = best.model, best.objective, False
        at_zero, nothing = problem.at_zero()
        if at_zero < objective:
            model, objective, is_last = nothing, at_zero, False
    return Outcome(state, model, history, reason, objective, doubt, is_last, best.dual)


@dataclass
class Best:
    """The best point that a run has seen: what was measured of it, and its model; and the highest dual value."""

    objective: float = math.inf
    measured: dict[str, float] = field(default_factory=dict)
    model: Any = None
    dual: float = -math.inf
    error: float | None = None
    validated: Any = None
    validated_objective: float = math.inf

    def offer(self, measured: dict[str, float], model: Callable[[], Any]) -> None:
        """Keep a point if it is better; its model is made only then."""
        self.dual = max(self.dual, measured["objective"] - measured.get("gap", math.inf))
        if measured["objective"] < self.objective:
            self.objective, self.measured, self.model = measured["objective"], measured, model()


class Looks:
    """Looks at the point of a run between its checkpoints, as often as a small share of the time allows."""

    def __init__(self, solver: Any, problem: Any, state: Any, best: Best) -> None:
        self.solver, self.problem, self.state, self.best = solver, problem, state, best
        self.ended, self.took, self.evaluations = time.perf_counter(), 0.0, state.counters.kernel_evals

    def look(self) -> None:
        """Look, unless the last look was too short a time ago for what a look costs."""
        if not self.solver.exact or LOOKING * (time.perf_counter() - self.ended) < self.took:
            return
        since, evaluations = time.perf_counter(), self.state.counters.kernel_evals
        found = self.solver.glimpse(self.problem, self.state, LOOKING * (evaluations - self.evaluations))
        if found is not None:
            self.best.offer(*found)
            self.ended, self.evaluations = time.perf_counter(), self.state.counters.kernel_evals
            self.took = self.ended - since


def _measure(
    solver: RunnableSolver, problem: Any, state: Any, reason: str, best: Best, validation: Any, seconds: float
) -> tuple[dict[str, float], Any, bool]:
    """(measures, model, whether it is that of the state) at a checkpoint, or where a run was stopped for a reason.

    Out of time, what was seen last counts; after Ctrl-C the present point does if its value takes no more than a
    second.
    """
    known = solver.knows(state)
    if reason == "max_seconds" and solver.exact and validation is None:
        most = -1.0 if best.model is not None else FIRST_LOOK
    elif known:
        most = 0.0
    else:
        pace = state.counters.kernel_evals / max(seconds, 1e-6)
        most = PATIENCE * pace if reason == "interrupted" else math.inf
    if not known or most < 0.0:
        found = solver.glimpse(problem, state, most) if most >= 0.0 else None
        if found is not None:
            model = found[1]()
            best.offer(found[0], lambda: model)
            return found[0], model, False
        if best.model is not None:
            return best.measured, best.model, False
    model = solver.model(problem, state)
    measured = solver.evaluate(problem, state, model)
    best.offer(measured, lambda: model)
    return measured, model, True


def _is_stalled(state: Any, measured: dict[str, float], tol: float) -> bool:
    """Whether rounding ends the run: the solver says so, or the dual value is above the primal one."""
    gap, share = measured.get("gap", math.inf), abs(measured["objective"])
    return (getattr(state, "stalled", False) and not gap <= tol * share) or (
        tol > 0.0 and gap < -max(tol, ROUNDED) * share
    )


def _doubling(per_epoch: int) -> Iterator[int]:
    epochs = 1
    while True:
        yield epochs * per_epoch
        epochs *= 2


# ---------------------------------------------------------------- states on disk


def save_state(path: str | os.PathLike[str], state: Any, **header: Any) -> None:
    """Write a solver's state to a file from which :func:`load_state` goes on, bit for bit."""
    dump(path, state, **header)


def load_state(path: str | os.PathLike[str]) -> Any:
    """Read a state written by :func:`save_state`; the file knows which solver's it is."""
    state = load(path)
    if not hasattr(state, "counters"):
        raise ValueError(f"{os.fspath(path)} holds a {type(state).__name__}, not a solver's state")
    return state
