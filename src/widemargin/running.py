"""The one training loop: clock, checkpoints, callbacks, interrupts, resume; :mod:`.stopping` says when it ends.

``run`` advances a solver to the next checkpoint in slices of about a tenth of a second, stops the clock, evaluates,
records, calls the callbacks, decides whether to stop, and starts the clock again. Checkpoints stand at 1, 2, 4, 8 …
epochs and at the end. So evaluation stays a small part of the work, and ``tol`` compares objectives between which the
work doubled. A solver whose gap falls steadily has further checkpoints, where the gap should reach ``tol``.

An exact solver that is stopped before its end returns the best model seen, which is never worse than w = 0. Under a
time limit a run looks at its point between checkpoints too, and spends at most a twentieth of the time on looks.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field, replace
from typing import Any

import numpy as np

from .checkpoints import Record
from .core.threads.blas import one_blas_thread
from .core.threads.interrupts import Interrupts, at_once, limited, safe_place
from .files import dump, load, savable
from .history import History, Stopwatch
from .schemas import COUNT, Each, Field, Flag, Own, Pair, Random, Real, Row, Text, Whole, Within, check, maybe
from .solvers.protocol import Solver
from .stopping import Limits, Patience, foreseen, reason_to_stop

# Tuned numbers.
SLICE = 0.1  # seconds of a compiled slice, so that Ctrl-C and time limits are prompt
LOOKING = 0.05  # share of the time, and of the kernel values, for looks between checkpoints under a time limit
BEHIND = 0.25  # seconds; a step that should end later than this behind a time limit is not begun
PATIENCE = 0.1  # seconds that a look at the newest point may take after Ctrl-C
FOR_THE_FIRST = 10.0  # times PATIENCE if no earlier point is known, so that there is a model
FIRST_LOOK = 2**22  # kernel values that a first look may take when time is up
STEEPER = 16  # most times as many steps in a slice as in the one before

#: Reasons after which a checkpoint file keeps the point at which training was stopped, to go on from there.
STOPPED = ("interrupted", "max_seconds")


@dataclass
class Progress:
    """Where a training stands: what callbacks get at each checkpoint.

    A callback that returns ``True`` stops the training.

    Attributes
    ----------
    solver : Solver
        The solver at work.
    problem : object
        The problem that it solves.
    state : object
        Its state, to be looked at and not changed.
    history : History
        The checkpoints so far.
    steps : int
        The steps done in this run.
    epochs : float
        The epochs done in this run.
    max_epochs : float
        The epochs planned for this run.
    seconds : float
        The training time so far, evaluation not counted.
    row : dict
        The checkpoint's row of the history. It is empty between checkpoints.
    finish : callable or None
        What :meth:`model` does to a model, so that it takes the user's own rows.

    Examples
    --------
    >>> from widemargin import LinearSVC
    >>> def enough(progress):
    ...     return progress.epochs >= 2
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> LinearSVC(solver="pegasos", tol=0, callbacks=enough, random_state=0).fit(X, y).stop_reason_
    'callback'
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
        """Return a finished copy of the current model.

        Returns
        -------
        model
            A model whose ``decision_function`` takes what that of the estimator takes.

        Examples
        --------
        >>> from widemargin import LinearSVC
        >>> shapes = []
        >>> def look(progress):
        ...     shapes.append(progress.model().decision_function([[1.5]]).shape)
        >>> model = LinearSVC(callbacks=look, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> shapes[0]
        (1, 1)
        """
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
    doubt: str = ""  # what spoke against "tol" at the last checkpoint, if the solver can tell
    is_last: bool = True  # whether the model is that of the state, and not an earlier, better one
    dual: float = -math.inf  # the highest lower bound of the objective seen
    scores: Any = None  # the scores of the model, if the solver knows them: see Solver.scores

    @property
    def W(self) -> np.ndarray:
        """Weights of a linear model, of shape (n_features, n_outputs)."""
        return self.model.coef.T

    @property
    def b(self) -> np.ndarray:
        """Intercepts of a linear model, one for each output."""
        return self.model.intercept


@one_blas_thread()
def run(
    solver: Solver,
    problem: Any,
    *,
    state: Any = None,
    rng: np.random.Generator | None = None,
    validation: Any = None,
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    on_slice: Callable[[Progress], Any] | None = None,
    on_resume: Callable[[float, bool], Any] | None = None,
    history: History | None = None,
    checkpoint: Record | None = None,
    **limits: Any,
) -> Outcome:
    """Train until a limit, a tolerance, a callback or Ctrl-C says stop; whatever it is, a model comes back.

    Parameters
    ----------
    solver, problem : the solver and what it minimises
    state : the solver's State to go on from; ``None`` starts anew with ``rng``
    validation : a Problem on held-out examples; its error is recorded, and after ``patience`` checkpoints
        without improvement (with a gap, where there is one, of half the objective or less) the run stops and the best
        model seen is returned
    callbacks : called with a :class:`Progress` at each checkpoint; a true answer stops the run
    on_slice : called with a :class:`Progress` after each slice of work
    on_resume : called with the epochs done before and whether the run had ended, where it goes on from a checkpoint, or
        from a state with its history
    history : the table to go on with
    checkpoint : where the run is kept between slices, and found again after the process was killed
    limits : ``max_epochs``, ``max_seconds``, ``max_feature_reads``, ``tol``, ``patience``, ``checkpoints``,
        ``started``, ``interrupts``, as in :class:`widemargin.stopping.Limits`
    """
    until = Limits(**limits)
    kept = None if checkpoint is None else _kept(checkpoint, solver, problem, until, rng)
    if on_resume is not None and kept is not None:
        on_resume(kept["done"] / solver.steps_per_epoch(problem), "outcome" in kept)
    elif on_resume is not None and state is not None and history:
        on_resume(history.last("epochs"), False)
    if kept is not None:
        if "outcome" in kept:
            return _ended(solver, problem, kept)
        state, history = kept["state"], kept["history"]
        until.max_feature_reads = kept["max_feature_reads"]
    elif state is not None and until.max_feature_reads is not None:
        until.max_feature_reads += state.counters.feature_reads  # what was read before does not count
    if state is None:
        state = solver.init(problem, np.random.default_rng() if rng is None else rng)
    elif kept is None:
        check(state, "state", **solver.sizes(problem))  # it may come from a file of another problem
    history = History() if history is None else history
    solver.advance(problem, state, 0)  # compiles, off the clock
    given = solver, problem, state, until, history, validation, tuple(callbacks), on_slice
    return _Run(*given, checkpoint, rng, kept).go()


def _kept(
    checkpoint: Record, solver: Any, problem: Any, until: Limits, rng: np.random.Generator | None
) -> dict[str, Any] | None:  # fmt: skip
    """The parts of a run in a checkpoint file, with the caller's generator set to its state of then.

    Work done under another limit counts if the run would have come there under the present limit too.
    """
    last = until.steps(solver.steps_per_epoch(problem))
    under_way, ended = (Row({"state": Within(solver.state_class), **parts}) for parts in (UNDER_WAY, ENDED))
    kept = checkpoint.found(under_way, ended, solver.sizes(problem))
    if kept is None:
        return None
    cut = "outcome" in kept and kept["last"] != last and kept["done"] >= min(last, kept["last"])
    if cut or kept["done"] > last:
        checkpoint.forget()
        return None
    own = kept["rng"]
    if rng is not None and own is not None:
        rng.bit_generator.state = own.bit_generator.state
        if getattr(kept["state"], "rng", None) is own:
            kept["state"].rng = kept["rng"] = rng
    return kept


def _ended(solver: Any, problem: Any, kept: dict[str, Any]) -> Outcome:
    """The outcome of a run that had ended when its process was killed."""
    state, model = kept["state"], kept["model"]
    model = solver.model(problem, state) if model is None else model.on(problem)
    return Outcome(state, model, kept["history"], **kept["outcome"])


@dataclass(eq=False)
class _Run:
    """One run under way: what :func:`run` was given, and where it stands."""

    solver: Any
    problem: Any
    state: Any
    limits: Limits
    history: History
    validation: Any
    callbacks: tuple
    on_slice: Any
    checkpoint: Record | None
    rng: np.random.Generator | None
    kept: InitVar[dict[str, Any] | None]

    def __post_init__(self, kept: dict[str, Any] | None) -> None:
        solver, problem, limits, history = self.solver, self.problem, self.limits, self.history
        self.per_epoch = solver.steps_per_epoch(problem)
        self.last, self.deadline = limits.steps(self.per_epoch), limits.deadline
        self.earlier, self.watch = history.last("epochs"), Stopwatch()
        self.watch.seconds = history.last("seconds")
        self.progress = Progress(solver, problem, self.state, history, max_epochs=self.last / self.per_epoch)
        self.interrupts, self.best = Interrupts(limits.interrupts), Best()
        self.patience = Patience(limits.patience)
        # looks between checkpoints: whether there are any, when the last one ended, what it took, and the work so far
        self.looks = self.deadline < math.inf and self.validation is None and solver.capabilities.exact
        self.looked, self.took, self.evaluations = time.perf_counter(), 0.0, self.state.counters.kernel_computed
        # the first slice finds out how fast steps are
        self.done, self.rate, self.previous = 0, solver.first_slice(problem) / SLICE, math.nan
        self.reason = self.doubt = ""
        # (steps, relative gap) at the checkpoints so far, and the step at which the gap should be closed
        self.gaps: list[tuple[float, float]] = [(0.0, math.inf)]
        self.foreseen = self.last
        self.foresees = solver.capabilities.steady and self.validation is None and limits.checkpoints is None
        self.most_reads = 1 if limits.max_feature_reads is None else solver.most_reads(problem)
        # the parts of a checkpoint file as of the present point, before a look at it
        self.unseen: dict[str, Any] = {}
        self.begun, self.goes_on = 0, False  # stops begun; whether this run goes on in the middle of one
        if kept is not None:
            self._go_on_from(kept)
        elif self.checkpoint is not None:
            self.checkpoint.check(self._parts())

    def _go_on_from(self, kept: dict[str, Any]) -> None:
        """Continue where the run in a checkpoint file stood."""
        self.done, self.begun, self.goes_on = kept["done"], kept["begun"], True
        self.earlier, self.watch.seconds, self.previous = kept["earlier"], kept["seconds"], kept["previous"]
        self.patience, self.gaps = replace(kept["patience"], most=self.limits.patience), list(kept["gaps"])
        self.best = kept["best"].on(self.problem)
        self._foresee()

    def _parts(self) -> dict[str, Any]:
        """All that a checkpoint file needs to go on from the present point."""
        # models of solvers that return the last one are never asked for
        returned = self.solver.capabilities.exact or self.validation is not None
        best = self.best.light() if returned else replace(self.best, model=None)
        return {
            "state": self.state, "rng": self.rng, "history": History(list(self.history.rows)), "done": self.done,
            "last": self.last, "begun": self.begun, "earlier": self.earlier, "seconds": self.watch.seconds,
            "previous": self.previous, "gaps": list(self.gaps), "patience": replace(self.patience), "best": best,
            "max_feature_reads": self.limits.max_feature_reads,
        }  # fmt: skip

    def _keep_end(self, outcome: Outcome) -> None:
        """Keep the outcome; or, where the run was only stopped, the point that it goes on from."""
        assert self.checkpoint is not None
        if self.reason in STOPPED:
            self.checkpoint.stop(self.unseen, interrupted=self.reason == "interrupted")
            return
        said = {name: getattr(outcome, name) for name in _OUTCOME}
        model = None if outcome.is_last else outcome.model.light()
        kept = {"state": self.state, "rng": self.rng, "done": self.done, "last": self.last}
        self.checkpoint.end({**kept, "history": outcome.history, "model": model, "outcome": said})

    def go(self) -> Outcome:
        """Train until there is a reason to stop, and return the outcome."""
        chooses = self.solver.at_checkpoint(self.state) is not None
        stops, stop = iter(()) if chooses else self.limits.stops(self.per_epoch), 0
        for _ in range(self.begun):
            stop = next(stops, self.last)
        with self.interrupts:
            while not self.reason:
                if stop <= self.done and not self.goes_on:
                    stop, self.begun = next(stops, self.last), self.begun + 1
                self._work(min(stop, self.foreseen, self.last))
                model, measured, is_last = self._record()
                self._decide(measured)
        if self.reason == "max_iter" and self.limits.tol > 0.0 and not self.doubt:
            self.doubt = self.solver.doubt(self.problem, self.state, self.limits.tol)
        outcome = self._outcome(model, measured, is_last)
        if self.checkpoint is not None:
            self._keep_end(outcome)
        return outcome

    def _work(self, target: int) -> None:
        """Take steps until there are as many as ``target``, the solver wants to be looked at, or time is up."""
        progress = self.progress
        at_checkpoint = self.goes_on and bool(self.solver.at_checkpoint(self.state))
        self.goes_on = False
        while self.done < target and not self.reason and not at_checkpoint:
            # steps that certainly read no more than is left, so that the end of a run does not depend on the clock
            part = max(1, min(target - self.done, int(min(self.rate * SLICE, self._reads_left() / self.most_reads))))
            since = time.perf_counter()
            with self.watch, limited(self.deadline):
                steps = self.solver.advance(self.problem, self.state, part)
            took = max(time.perf_counter() - since, 1e-6)
            safe_place()
            self.rate = min(max(1, steps) / took, STEEPER * part / SLICE)
            self.done += steps
            progress.steps, progress.seconds = self.done, self.watch.seconds
            progress.epochs = self.done / self.per_epoch
            if self.on_slice is not None:
                progress.row = {}
                self.on_slice(progress)
            if self.checkpoint is not None and self.checkpoint.due():
                self.checkpoint.keep(self._parts())
            if self.interrupts.seen:
                self.reason = "interrupted"
            # a step that would end well behind the limit is not begun
            elif time.perf_counter() + max(0.5 / self.rate, 1.0 / self.rate - BEHIND) >= self.deadline:
                self.reason = "max_seconds"
            elif self._reads_left() <= 0:
                self.reason = "max_feature_reads"
            at_checkpoint = bool(self.solver.at_checkpoint(self.state))
            if self.looks and not self.reason and self.done < target and not at_checkpoint:
                self._look()
        if self.checkpoint is not None:
            self.unseen = self._parts()

    def _reads_left(self) -> float:
        """Entries of the data that may still be read."""
        most = self.limits.max_feature_reads
        return math.inf if most is None else most - self.state.counters.feature_reads

    def _look(self) -> None:
        """Look at the present point, unless the work since the last look is too little for the cost of another."""
        if LOOKING * (time.perf_counter() - self.looked) < self.took:
            return
        since, counters = time.perf_counter(), self.state.counters
        most = LOOKING * (counters.kernel_computed - self.evaluations)
        found = self.solver.glimpse(self.problem, self.state, most)
        if found is not None:
            self.best.offer(*found)
            self.looked, self.evaluations = time.perf_counter(), counters.kernel_computed
            self.took = self.looked - since

    def _measure(self) -> tuple[dict[str, float], Any, bool]:
        """(measures, model, whether it is the model of the state) at a checkpoint, or where the run was stopped.

        When time is up, the best point seen counts. After Ctrl-C the present point counts if its value takes no more
        than ``PATIENCE``, or a second if no other point is known.
        """
        solver, problem, state, best = self.solver, self.problem, self.state, self.best
        known = solver.knows(state)
        if self.reason == "max_seconds" and solver.capabilities.exact and self.validation is None:
            most = -1.0 if best.model is not None else FIRST_LOOK
        elif known:
            most = 0.0
        else:
            pace = state.counters.kernel_computed / max(self.watch.seconds, 1e-6)
            patience = PATIENCE * (FOR_THE_FIRST if best.model is None else 1.0)
            most = patience * pace if self.reason == "interrupted" else math.inf
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

    def _record(self) -> tuple[Any, dict[str, float], bool]:
        """Measure the present point, and note it: (model, measures, whether the model is that of the state)."""
        measured, model, is_last = self._measure()
        objective = measured["objective"]
        if not math.isfinite(objective):
            remedy = getattr(self.problem, "overflow", None) or (
                f"the weights overflowed {self.problem.dtype}; scale the features to about unit size, use float64 data "
                "or a smaller step size"
            )
            raise ValueError(f"the objective became {objective} after {self.done} steps: {remedy}")
        row = {"epochs": self.earlier + self.done / self.per_epoch, "seconds": self.watch.seconds, **measured}
        if self.validation is not None:
            row["validation_error"] = self.validation.errors(model)
            known = measured if self.state.tight else {"objective": objective}
            if self.patience.improves(row["validation_error"], known):
                self.best.validated, self.best.validated_objective = model, objective
        self.history.append(self.state.counters, **row)
        self.progress.row = self.history.rows[-1]
        return model, measured, is_last

    def _decide(self, measured: dict[str, float]) -> None:
        """Whether this checkpoint was the last, and why."""
        with at_once():
            answers = [callback(self.progress) for callback in self.callbacks]  # each is called
        gap, tol = measured.get("gap", math.inf), self.limits.tol
        if self.reason == "max_seconds" and tol > 0.0 and abs(gap) <= tol * abs(measured["objective"]):
            self.reason = "tol"  # time was up, but so was the work
        if not self.reason and self.interrupts.seen:
            self.reason = "interrupted"
        elif not self.reason and any(answers):
            self.reason = "callback"
        if not self.reason:
            over = self.done >= self.last
            stalled, tight = self.state.stalled, self.state.tight
            self.reason = reason_to_stop(measured, self.previous, tol, over, self.patience, stalled, tight)
            if self.reason == "tol":
                self.doubt = self.solver.doubt(self.problem, self.state, tol)
                self.reason = "tol" if not self.doubt else "max_iter" if over else ""
        self.previous = measured["objective"]
        if self.foresees and "gap" in measured:
            self.gaps.append((float(self.done), gap / max(abs(measured["objective"]), math.ulp(0.0))))
            self._foresee()

    def _foresee(self) -> None:
        """Set the step at which the gap should be closed."""
        self.foreseen = math.ceil(min(foreseen(self.gaps, self.limits.tol), self.last))

    def _outcome(self, model: Any, measured: dict[str, float], is_last: bool) -> Outcome:
        """The model at the end, or a better one that was seen."""
        best, reason, objective = self.best, self.reason, measured["objective"]
        if self.validation is not None:
            is_last, model, objective = is_last and best.validated is model, best.validated, best.validated_objective
        elif self.solver.capabilities.exact and reason != "tol":
            if best.objective < objective:
                model, objective, is_last = best.model, best.objective, False
            at_zero, nothing = self.problem.at_zero()
            if at_zero < objective:
                model, objective, is_last = nothing, at_zero, False
        return Outcome(self.state, model, self.history, reason, objective, self.doubt, is_last, best.dual)


_MODEL = maybe(Own(n="n", d="d", outputs="outputs"))


@savable("Run.Best", model=_MODEL, validated=_MODEL)
@dataclass
class Best:
    """The best point that a run has seen: what was measured of it, and its model; and the highest dual value."""

    objective: float = math.inf
    measured: dict[str, float] = field(default_factory=dict)
    model: Any = None
    dual: float = -math.inf
    validated: Any = None
    validated_objective: float = math.inf

    def offer(self, measured: dict[str, float], model: Callable[[], Any]) -> None:
        """Keep a point if it is better; its model is made only then."""
        self.dual = max(self.dual, measured["objective"] - measured.get("gap", math.inf))
        if measured["objective"] < self.objective:
            self.objective, self.measured, self.model = measured["objective"], measured, model()

    def light(self) -> Best:
        """With models as small as a file wants them."""
        return self._each(lambda model: model.light())

    def on(self, problem: Any) -> Best:
        """What :meth:`light` left, with whole models of the problem."""
        return self._each(lambda model: model.on(problem))

    def _each(self, change: Callable[[Any], Any]) -> Best:
        model, validated = (None if each is None else change(each) for each in (self.model, self.validated))
        return replace(self, model=model, validated=validated)


_EVERY_RUN: dict[str, Field] = {
    "rng": maybe(Random()), "done": COUNT, "last": Real(0.0), "history": Own(History),
}  # fmt: skip
#: The parts of a checkpoint file of a run under way, and of one that has ended.
UNDER_WAY: dict[str, Field] = {
    **_EVERY_RUN, "key": Text(), "begun": Whole(0, 2**20), "earlier": Real(0.0), "seconds": Real(0.0),
    "previous": Real(), "gaps": Each(Pair(Real(), Real())), "patience": Own(Patience), "best": Within(Best),
    "max_feature_reads": maybe(Real()),
}  # fmt: skip
_OUTCOME: dict[str, Field] = {
    "stop_reason": Text(), "objective": Real(), "doubt": Text(), "is_last": Flag(), "dual": Real()
}  # fmt: skip
ENDED: dict[str, Field] = {**_EVERY_RUN, "model": _MODEL, "outcome": Row(_OUTCOME)}


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
