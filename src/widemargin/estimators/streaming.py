"""Streams: ``partial_fit`` makes one pass over more examples, from the last state on.

A part is refused before anything has changed, or it is learnt: weights and vectors change in place, so that there is no
way back once the pass has begun. A machine that is whole after every step (:attr:`Streamed.divisible`) stops at Ctrl-C
or an error and says how far it came; another one makes Ctrl-C wait for the end of the part, and after an error it is an
unfitted estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

from ..history import History, Stopwatch
from ..running import Interrupts
from .fitting import TrainedByRun, all_or_nothing, check_rows, check_sample_weight
from .labels import Labelled, Numeric, labels


class Streamed(TrainedByRun):
    """Base of the estimators that learn from streams; ``_state`` is where the last call, or ``fit``, ended."""

    #: Whether the model is whole after every slice of a pass, which may then end there.
    divisible = False

    history_: Any
    certificate_: Any
    _state: Any

    # -- what a machine says of itself

    #: Weights of a part's examples, checked.
    _weights_of_part = staticmethod(check_sample_weight)
    #: The problem of a part: of (X, codes, weights, class weights) of a classifier, (X, y, weights) of a regressor.
    _problem_of_part: Callable[..., Any]
    #: (solver, state) for a part, in the order given; the state is a copy of the last one, if there is one.
    _begin_part: Callable[[Any], tuple[Any, Any]]
    #: (solver, steps) that make a pass, one after the other, of a solver and a problem.
    _slices: Callable[[Any, Any], Iterable[tuple[Any, int]]]
    #: Set what was learnt by now, from solver, problem, state, number of passes and seconds.
    _adopt_part: Callable[[Any, Any, Any, float, float], None]

    def _can_stream(self) -> bool:
        """Whether there is a ``partial_fit``; raises an AttributeError that says why not."""
        return True

    def _start_anew(self) -> None:
        """Forget what belongs to an earlier model."""

    def _measured(self, solver: Any, problem: Any, state: Any, stopped: bool) -> dict[str, float] | None:
        """What the history says of the state beside its counters; None where there is no row yet."""
        return {}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- a part

    def _learn_part(self, problem: Any, recount: Callable[[int], Any] = lambda seen: None) -> None:
        """One pass over the examples in the order given; ``recount`` is told how many were seen if not all were."""
        solver, state = self._begin_part(problem)
        solver.bind(problem, state, in_order=True)
        solver.advance(problem, state, 0)
        before, failure = state.counters.visits, None
        with Interrupts() as interrupts:
            self._undo = "forget"  # weights and vectors change in place
            with Stopwatch() as watch:
                try:
                    for part, steps in self._slices(solver, problem):
                        if not (interrupts.seen and self.divisible):
                            part.advance(problem, state, steps)
                except BaseException as error:  # a second Ctrl-C, or no memory: what was learnt by then is whole
                    if not self.divisible:
                        raise
                    failure = error
                    solver.advance(problem, state, 0)  # brings the counters up to date
            self.history_ = getattr(self, "history_", None) or History()
            passes = getattr(self, "_passes", self.history_.last("epochs")) + 1.0
            seconds = getattr(self, "_seconds", self.history_.last("seconds")) + watch.seconds
            self._state = state
            self._adopt_part(solver, problem, state, passes, seconds)
            stopped = interrupts.seen or failure is not None
            self.n_iter_ = 1
            self.stop_reason_ = "interrupted" if stopped else "partial_fit"
            self.certificate_ = None  # what was proven of older weights does not hold for these
            if stopped and self.divisible:
                recount(int(state.counters.visits - before))
            self._undo = "keep"
        measured = self._measured(solver, problem, state, stopped)
        if measured is not None:
            self.history_.append(state.counters, epochs=passes, seconds=seconds, **measured)
        if stopped:
            far = f"seen {int(state.counters.visits)} examples by now"
            said = far if self.divisible else f"learnt these {problem.n} examples too"
            raise failure or KeyboardInterrupt(f"partial_fit: the model has {said}")


class StreamedClassifier(Labelled, Streamed):
    """``partial_fit`` of classifiers."""

    @available_if(lambda estimator: estimator._can_stream())
    @all_or_nothing
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train on more examples: one pass over them, in the order given. A call that is refused changes nothing.

        Parameters
        ----------
        X, y : as in :meth:`fit`
        classes : array
            All the labels that will come, needed at the first call. :class:`BudgetedSVC` takes new ones at a later
            call too, which names the old ones as well.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        first = not hasattr(self, "_state")
        X, y = check_rows(self, X, y, reset=first)
        y = column_or_1d(y)
        weights = self._weights_of_part(sample_weight, y.size)
        if first:
            self._start_anew()
            self._announce_first(classes)
        elif classes is not None:
            self._announce(labels(classes) if self.grows else np.unique(classes))
        codes, counted = self._codes(y), self._counts
        problem = self._problem_of_part(X, codes, weights, self._count_part(codes, weights))

        def recount(seen: int) -> None:
            self._counts = counted
            self._count_part(codes[:seen], weights[:seen])

        self._learn_part(problem, recount)
        return self


class StreamedRegressor(Numeric, Streamed):
    """``partial_fit`` of regressors."""

    @available_if(lambda estimator: estimator._can_stream())
    @all_or_nothing
    def partial_fit(self, X, y, sample_weight=None):
        """Train on more examples: one pass over them, in the order given. A call that is refused changes nothing.

        Parameters
        ----------
        X, y : as in :meth:`fit`
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        first = not hasattr(self, "_state")
        X, y, weights = self._examples(X, y, sample_weight, self._weights_of_part, reset=first)
        if first:
            self._start_anew()
        self._learn_part(self._problem_of_part(X, y, weights))
        return self
