"""Streams: ``partial_fit`` makes one pass over more examples, from the last state on.

A part is refused before anything has changed, or it is learnt: weights and vectors change in place, so that there is no
way back once the pass has begun. A machine that is whole after every step (:attr:`Streamed.divisible`) stops at Ctrl-C
or an error and says how far it came; another one makes Ctrl-C wait for the end of the part, and after an error it is an
unfitted estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

from .. import backends
from ..arguments import one_of
from ..core.distant import Distant
from ..core.interrupts import Interrupts
from ..core.kernel_matrix import largest_value
from ..core.kernels import as_kernel, class_of, names_of
from ..core.rows import as_rows
from ..history import History, Stopwatch
from ..models import KernelModel
from ..problems.layout import (
    Preparation,
    check_values,
    divided,
    finite,
    lengths,
    scaled_kernel,
    warn_if_unequal,
)
from .fitting import TrainedByRun, all_or_nothing, check_rows, check_sample_weight, predicts_on_device, rows_to_score
from .labels import Labelled, Numeric, class_weights, labels


def weights_of_part(sample_weight: Any, n: int) -> np.ndarray:
    """As :func:`check_sample_weight`, but all may be zero: a part of a stream may be one example of weight 0."""
    given = np.full(n, sample_weight) if isinstance(sample_weight, Real) else sample_weight
    return np.zeros(n) if np.array_equal(given, np.zeros(n)) else check_sample_weight(sample_weight, n)


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
            if interrupts.seen:
                raise KeyboardInterrupt  # nothing has been learnt
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


class KernelStream(Streamed):
    """Streams of a kernel machine, whose kernel is settled by the first rows.

    They are learnt on the CPU: a step is too short for a GPU, which only predicts.
    """

    never_matters = ("device",)

    device: str
    _trained_kernel: Any
    _exponent: int
    _gamma: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        backends.check(self.device)
        backends.resolved(self.device)

    def _to_score(self, X: Any, kernel: Any) -> tuple[Any, bool]:
        """Rows to predict, checked, and whether that is done on a GPU: if they stand there, or one is asked for."""
        on_device = predicts_on_device(self.device, kernel)
        X = rows_to_score(self, X, on_device)
        return X, on_device or isinstance(X, Distant)

    @staticmethod
    def _scored_there(model: KernelModel, X: Any, preparation: Preparation) -> np.ndarray:
        """Scores of rows as given, on a GPU."""
        from ..backends.scoring import scores

        return finite(scores(model, X, preparation, backends.GPU), X)

    def _check_kernel(self) -> None:
        """Refuse kernels that a stream cannot have."""
        if class_of(self.kernel).is_table or callable(self.kernel):
            raise ValueError(
                f"kernel must be one of {', '.join(map(repr, names_of('of_rows')))}, got {self.kernel!r}: a stream has "
                "no kernel matrix, and the compiled loop calls no Python; use one of these, or SVC"
            )
        one_of("kernel", self.kernel, names_of("of_rows"))

    def _kernel(self, X: Any) -> Any:
        """The kernel of the model, which is that of the first rows seen; refuses another one."""
        kept = getattr(self, "_trained_kernel", None)
        if kept is None:
            known = scaled_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
            self._trained_kernel, self._exponent, self._gamma = known
            rows = as_rows(divided(X, self._exponent))
            with np.errstate(over="ignore", invalid="ignore"):
                largest, (longest, _) = largest_value(self._trained_kernel, rows), lengths(self._trained_kernel, rows)
            check_values(self._trained_kernel, self._gamma, rows, largest, longest, X)
            warn_if_unequal(X, type(self).__name__)
            return self._trained_kernel
        # "scale" and "auto" were settled then
        gamma = self._gamma if isinstance(self.gamma, str) else self.gamma
        asked = as_kernel(self.kernel, gamma, self.degree, self.coef0)
        known = kept._replace(gamma=self._gamma) if hasattr(kept, "gamma") else kept
        if asked != known or type(asked) is not type(known):  # tuples of other classes may be equal
            raise ValueError(f"a running model keeps its kernel, {known}, got {asked}: set it back, or fit anew")
        return kept

    def _start_anew(self) -> None:
        for name in (*self.TRAINING, "_trained_kernel", "_exponent", "_gamma", "history_", "_only_predicts"):
            self.__dict__.pop(name, None)


class StreamedClassifier(Labelled, Streamed):
    """``partial_fit`` of classifiers."""

    @available_if(lambda estimator: estimator._can_stream())
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on more examples, from where the last call ended.

        The examples are visited once, in the order given. A call that is refused changes nothing.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The examples, dense or CSR, float32 or float64.
        y : array of shape (n,)
            The class labels, of any type.
        classes : array or None, default=None
            All the labels that will come, which the first call needs. :class:`BudgetedSVC` and
            :class:`IncrementalSVC` take new ones at a later call too, which names the old ones as well.
        sample_weight : array of shape (n,) or None, default=None
            The weights of the examples, numbers ≥ 0 that are not all zero. None is 1 for each.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a label is not among the classes that were announced.

        Examples
        --------
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC(random_state=0)
        >>> for part in ([[0.0], [3.0]], [[1.0], [2.0]]):
        ...     model = model.partial_fit(part, [0, 1], classes=[0, 1])
        >>> model.stop_reason_
        'partial_fit'
        """
        self._refuse_without_state("partial_fit")
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


class GrowingClassifier(StreamedClassifier):
    """``partial_fit`` of classifiers that take new labels later, and weigh examples by the counts up to each."""

    grows = True

    #: Make room for new classes, of so many, among which the old ones have these places.
    _with_classes: Callable[[np.ndarray, int], None]

    def _announce(self, classes: np.ndarray) -> None:
        """Make room for labels that are new; what is known of the old ones follows them."""
        missing = np.setdiff1d(self.classes_, classes)
        if missing.size:
            raise ValueError(
                f"classes must hold those of the earlier calls, {self.classes_.tolist()}; {missing.tolist()[0]!r} is "
                "missing: add it, or leave classes out"
            )
        if classes.size == self.classes_.size:
            return
        places = np.searchsorted(classes, self.classes_)
        counts = np.zeros(classes.size)
        counts[places] = self._counts
        self._with_classes(places, classes.size)
        self.classes_, self._counts = classes, counts

    def _count_part(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray | None:  # type: ignore[override]
        """The class weight of each example, "balanced" by the counts up to and including it; counts the examples.

        Sums run from the first example on, one by one, so that it does not matter how a stream is cut.
        """
        s = weights if weights.size else np.ones(codes.size)
        total, own, present = np.zeros(codes.size), np.empty(codes.size), np.zeros(codes.size)
        counts = self._counts.copy()
        for c in range(self.classes_.size):
            mine = codes == c
            seen = np.cumsum(np.concatenate([counts[c : c + 1], np.where(mine, s, 0.0)]))
            counts[c] = seen[-1]
            own[mine] = seen[1:][mine]
            total += seen[1:]
            present += seen[1:] > 0
        self._counts = counts
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return total / (np.maximum(present, 1.0) * np.where(own > 0, own, 1.0))
        return class_weights(self.class_weight, self.classes_, self._counts)[codes]


class StreamedRegressor(Numeric, Streamed):
    """``partial_fit`` of regressors."""

    @available_if(lambda estimator: estimator._can_stream())
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on more examples, from where the last call ended.

        The examples are visited once, in the order given. A call that is refused changes nothing.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The examples, dense or CSR, float32 or float64.
        y : array of shape (n,)
            The targets, numbers.
        sample_weight : array of shape (n,) or None, default=None
            The weights of the examples, numbers ≥ 0 that are not all zero. None is 1 for each.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from widemargin import LinearSVR
        >>> LinearSVR(random_state=0).partial_fit([[0.0], [1.0]], [0.0, 1.0]).stop_reason_
        'partial_fit'
        """
        self._refuse_without_state("partial_fit")
        self._check_parameters()
        first = not hasattr(self, "_state")
        X, y, weights = self._examples(X, y, sample_weight, self._weights_of_part, reset=first)
        if first:
            self._start_anew()
        self._learn_part(self._problem_of_part(X, y, weights))
        return self
