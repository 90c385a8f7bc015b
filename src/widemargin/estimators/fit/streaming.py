"""Streams: ``partial_fit`` makes one pass over more examples, from the last state on.

A part of a stream is refused before anything has changed, or it is learnt. Weights and vectors change in place, so that
there is no way back once the pass has begun. A machine whose model is whole after every step (``divisible``) stops at
Ctrl-C or at an error and says how many examples it has seen. For any other machine Ctrl-C waits for the end of the
part, and an error leaves an unfitted estimator. A part whose result may be refused is learnt by a copy.

What a machine says of itself, for :func:`learn_part`:

- ``divisible``: whether the model is whole after every slice of a pass.
- ``grows``: of a classifier, whether labels may be announced at a later call of ``partial_fit``, too.
- ``_problem_of_part(…)``: the problem of a part, from (X, codes, weights, class weights) or (X, y, weights).
- ``_begin_part(problem)``: (solver, state) for a part in the order given; the state is a copy of the last one, if any.
- ``_slices(solver, problem)``: the (solver, steps) that make a pass, one after the other.
- ``_adopt_part(solver, problem, state, passes, seconds)``: set the attributes that were learnt.
- ``_measured(solver, problem, state, stopped)``: the columns of the history beside the counters; None for no row.
- ``_has_way_back(state)``: whether the last state stays as it is while a pass changes this one.
- ``_weights_of_part(sample_weight, n)``: the weights of a part's examples, checked.
- ``_can_stream()``: True, or an AttributeError that says why there is no ``partial_fit``.
- ``_start_anew()``: forget what belongs to an earlier model.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ... import backends
from ...arguments import one_of
from ...core.kernels.kernels import as_kernel, class_of, is_kernel, names_of, with_gamma
from ...core.kernels.matrix import largest_value
from ...core.rows.distant import Distant
from ...core.rows.rows import as_rows
from ...core.threads.interrupts import Interrupts
from ...history import History, Stopwatch
from ...models import KernelModel
from ...problems.layout import (
    Preparation,
    check_values,
    divided,
    finite,
    longest_row,
    scaled_kernel,
    warn_if_unequal,
)
from .checking import check_rows, check_sample_weight, predicts_on_device, rows_to_score
from .fitting import TrainedByRun, all_or_nothing, settled_gamma
from .labels import Labelled, Numeric, class_weights, labels
from .nested import refuse_twice


def learn_part(machine: Any, problem: Any, recount: Callable[[int], Any] = lambda seen: None) -> None:
    """Make one pass over the examples in the order given.

    ``recount`` is called with the number of examples that were seen, if the pass was stopped before its end.
    """
    solver, state = machine._begin_part(problem)
    solver.bind(problem, state, in_order=True)
    solver.advance(problem, state, 0)
    before = state.counters.visits
    with Interrupts() as interrupts:
        if interrupts.seen:
            raise KeyboardInterrupt  # nothing has been learnt
        machine._undo = "restore" if machine._has_way_back(state) else "forget"
        with Stopwatch() as watch:
            failure = _pass(machine, solver, problem, state, interrupts)
        machine.history_ = getattr(machine, "history_", None) or History()
        passes = getattr(machine, "_passes", machine.history_.last("epochs")) + 1.0
        seconds = getattr(machine, "_seconds", machine.history_.last("seconds")) + watch.seconds
        machine._state = state
        machine._adopt_part(solver, problem, state, passes, seconds)
        stopped = interrupts.seen or failure is not None
        machine.n_iter_, machine.stop_reason_ = 1, "interrupted" if stopped else "partial_fit"
        machine.certificate_ = None  # a certificate of older weights does not hold for the new ones
        if stopped and machine.divisible:
            recount(int(state.counters.visits - before))
        machine._undo = "keep"
    measured = machine._measured(solver, problem, state, stopped)
    if measured is not None:
        machine.history_.append(state.counters, epochs=passes, seconds=seconds, **measured)
    if stopped:
        far = f"seen {int(state.counters.visits)} examples by now"
        said = far if machine.divisible else f"learnt these {problem.n} examples too"
        raise failure or KeyboardInterrupt(f"partial_fit: the model has {said}")


def _pass(machine: Any, solver: Any, problem: Any, state: Any, interrupts: Interrupts) -> BaseException | None:
    """Advance the state slice by slice; returns the error that ended the pass of a divisible machine, if any."""
    try:
        for part, steps in machine._slices(solver, problem):
            if not (interrupts.seen and machine.divisible):
                part.advance(problem, state, steps)
    except BaseException as error:  # a second Ctrl-C, or no memory: what was learnt by then is whole
        if not machine.divisible:
            raise
        solver.advance(problem, state, 0)  # brings the counters up to date
        return error
    return None


class KernelStream(TrainedByRun):
    """Streams of a kernel machine. The first rows decide the kernel.

    Streams are learnt on the CPU, because a step is too short for a GPU. Predictions may be computed on a GPU.
    """

    never_matters = ("device",)
    divisible = True
    grows = True
    gamma_ = property(settled_gamma)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        backends.check(self.device)
        backends.resolved(self.device)

    def _to_score(self, X: Any, kernel: Any) -> tuple[Any, bool]:
        """(rows to predict, checked; whether a GPU predicts, because the rows stand there or one is asked for)."""
        on_device = predicts_on_device(self.device, kernel)
        X = rows_to_score(self, X, on_device)
        return X, on_device or isinstance(X, Distant)

    @staticmethod
    def _scored_there(model: KernelModel, X: Any, preparation: Preparation) -> np.ndarray:
        """The scores of rows as given, computed on a GPU."""
        from ...backends.scoring import scores

        return finite(scores(model, X, preparation, backends.GPU), X)

    @staticmethod
    def _weights_of_part(sample_weight: Any, n: int) -> np.ndarray:
        """Weights as :func:`check_sample_weight` has them; all may be zero, because a part may be one example."""
        given = np.full(n, sample_weight) if isinstance(sample_weight, Real) else sample_weight
        return np.zeros(n) if np.array_equal(given, np.zeros(n)) else check_sample_weight(sample_weight, n)

    def _can_stream(self) -> bool:
        return True

    def _has_way_back(self, state: Any) -> bool:
        return False

    def _measured(self, solver: Any, problem: Any, state: Any, stopped: bool) -> dict[str, float] | None:
        # rows are kept, and may cost B² kernel values: a stream of single examples gets one at each doubling
        due = stopped or state.counters.visits >= 2 * self.history_.last("visits")
        return solver.evaluate(problem, state, None) if due else None

    def _check_kernel(self) -> None:
        """Refuse tables and functions, which a stream cannot have as a kernel."""
        if class_of(self.kernel).is_table or callable(self.kernel):
            raise ValueError(
                f"kernel must be one of {', '.join(map(repr, names_of('of_rows')))}, got {self.kernel!r}: a stream has "
                "no kernel matrix, and the compiled loop calls no Python; use one of these, or SVC"
            )
        if not (is_kernel(self.kernel) and class_of(self.kernel).of_rows):
            one_of("kernel", self.kernel, names_of("of_rows"))
        refuse_twice(self, "kernel", "gamma", "degree", "coef0")

    def _kernel(self, X: Any) -> Any:
        """The kernel of the model, which the first rows decide. Parameters of another kernel are refused later."""
        kept = getattr(self, "_trained_kernel", None)
        if kept is None:
            known = scaled_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
            self._trained_kernel, self._exponent, self._gamma = known
            rows = as_rows(divided(X, self._exponent))
            with np.errstate(over="ignore", invalid="ignore"):
                largest, longest = largest_value(self._trained_kernel, rows), longest_row(self._trained_kernel, rows)
            check_values(self._trained_kernel, self._gamma, rows, largest, longest, X)
            warn_if_unequal(X, type(self).__name__)
            return self._trained_kernel
        # the first rows have settled "scale" and "auto"
        gamma = getattr(self.kernel, "gamma", self.gamma)
        gamma = self._gamma if isinstance(gamma, str) else gamma
        asked = as_kernel(with_gamma(self.kernel, gamma), gamma, self.degree, self.coef0)
        known = with_gamma(kept, self._gamma)
        if asked != known or type(asked) is not type(known):  # tuples of other classes may be equal
            raise ValueError(f"a running model keeps its kernel, {known}, got {asked}: set it back, or fit anew")
        return kept

    def _start_anew(self) -> None:
        for name in (*self.TRAINING, "_trained_kernel", "_exponent", "_gamma", "history_", "_only_predicts"):
            self.__dict__.pop(name, None)


class StreamedClassifier(Labelled):
    """``partial_fit`` of classifiers.

    Where the machine ``grows``, a later call may bring new labels, and "balanced" weighs each example by the counts up
    to and including it. Otherwise the first call names all labels, and the classes have one weight each in a part.
    """

    _counts: np.ndarray

    @available_if(lambda estimator: estimator._can_stream())
    @all_or_nothing(raises=True)
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

        learn_part(self, problem, recount)
        return self

    def _codes(self, y: np.ndarray) -> np.ndarray:
        """The codes of labels; a label that was not announced is refused."""
        places = np.minimum(np.searchsorted(self.classes_, y), self.classes_.size - 1)
        unknown = self.classes_[places] != y
        if unknown.any():
            remedy = "it with classes=" if self.grows else "all labels with classes= at the first call of partial_fit"
            raise ValueError(
                f"y holds the label {y[unknown].tolist()[0]!r}, which is not among the classes "
                f"{self.classes_.tolist()}: announce {remedy}"
            )
        return places

    def _announce_first(self, classes: Any) -> None:
        """Set ``classes_`` to the labels that the first call names, before any example is seen."""
        if classes is None:
            which = "the labels that may come" if self.grows else "all labels that will come"
            raise ValueError(f"classes must be given at the first call of partial_fit: {which}")
        self.classes_ = labels(classes) if self.grows else np.unique(classes)
        check_classification_targets(self.classes_)
        if self.classes_.size < 2:
            needs = "classes must name at least 2 labels, got"
            if not self.grows:
                needs = f"{type(self).__name__} needs at least 2 classes, got 1 class only:"
            raise ValueError(f"{needs} {self.classes_.tolist()}: name the others that may come")
        self._counts = np.zeros(self.classes_.size)

    def _announce(self, classes: np.ndarray) -> None:
        """Check the labels that a later call names; where the machine grows, make room for new ones."""
        if np.array_equal(classes, self.classes_):
            return
        if not self.grows:
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got {classes.tolist()}: name "
                "all labels at the first call, or use BudgetedSVC or IncrementalSVC, which take new ones later"
            )
        missing = np.setdiff1d(self.classes_, classes)
        if missing.size:
            raise ValueError(
                f"classes must hold those of the earlier calls, {self.classes_.tolist()}; {missing.tolist()[0]!r} is "
                "missing: add it, or leave classes out"
            )
        places = np.searchsorted(classes, self.classes_)
        counts = np.zeros(classes.size)
        counts[places] = self._counts
        self._with_classes(places, classes.size)
        self.classes_, self._counts = classes, counts

    def _count_part(self, codes: np.ndarray, weights: np.ndarray) -> Any:
        """Count the examples of a part.

        Returns the weights of the classes by the counts so far; or, where the machine grows, the class weight of each
        example by the counts up to and including it, None for ones.
        """
        if not self.grows:
            self._counts = self._counts + self._count(codes, weights)
            return class_weights(self.class_weight, self.classes_, self._counts)
        own, total, present = self._running_counts(codes, weights)
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return total / (np.maximum(present, 1.0) * np.where(own > 0, own, 1.0))
        return class_weights(self.class_weight, self.classes_, self._counts)[codes]

    def _running_counts(self, codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each example, with it counted: examples of its class by weight, of all classes, and classes present.

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
        return own, total, present


class StreamedRegressor(Numeric):
    """``partial_fit`` of regressors."""

    @available_if(lambda estimator: estimator._can_stream())
    @all_or_nothing(raises=True)
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
        learn_part(self, self._problem_of_part(X, y, weights))
        return self
