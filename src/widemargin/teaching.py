"""Active learning: teachers choose the examples that are labelled next, when labels cost something.

A teacher is a callable ``teacher(learner, pool)`` that returns the place of the example to label next, or None to end
the lesson. :func:`teach` runs the loop with any estimator that has ``partial_fit``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arguments import generator, not_negative, positive, whole
from .core.rows.rows import as_matrix, checked_sparse
from .core.threads.interrupts import Interrupts, at_once
from .data.training import is_fitted
from .history import History

__all__ = ["ActiveTeacher", "Lesson", "Pool", "RandomTeacher", "StreamTeacher", "teach"]


class Pool:
    """Examples without labels. Those that a teacher has chosen or passed over are removed.

    :func:`teach` makes the pool and gives it to the teacher. Its length is the number of examples left.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features)
        The examples.
    rng : numpy.random.Generator
        The source of random numbers.

    Attributes
    ----------
    X : array or sparse matrix
        The examples.
    rng : numpy.random.Generator
        The source of random numbers, also for teachers.
    unseen : ndarray of bool
        Which examples are left.
    kernel_evals : int
        The number of kernel values computed to score examples.
    seconds : float
        The time spent on scores.

    See Also
    --------
    teach : The lesson.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.teaching import Pool
    >>> pool = Pool([[0.0], [1.0], [2.0]], np.random.default_rng(0))
    >>> pool.remove(1)
    >>> len(pool), pool.unseen.tolist()
    (2, [True, False, True])
    """

    def __init__(self, X: Any, rng: np.random.Generator) -> None:
        self.X, self.rng = as_matrix(checked_sparse(X)) if sp.issparse(X) else np.asarray(X), rng
        self.unseen = np.ones(self.X.shape[0], bool)
        self.kernel_evals, self.seconds = 0, 0.0
        # _order begins with the places of the examples left; _place[i] is where example i stands in _order
        self._order, self._place = np.arange(self.unseen.size), np.arange(self.unseen.size)
        self._left, self._next = self.unseen.size, 0

    def __len__(self) -> int:
        return self._left

    def remove(self, i: int) -> None:
        """Remove an example, so that it is not drawn again.

        Parameters
        ----------
        i : int
            The place of the example.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.teaching import Pool
        >>> pool = Pool([[0.0], [1.0], [2.0]], np.random.default_rng(0))
        >>> pool.remove(0)
        >>> len(pool)
        2
        """
        if not self.unseen[i]:
            raise ValueError(f"the teacher chose example {i} of the pool, which was chosen or passed over before")
        last, place = self._order[self._left - 1], self._place[i]
        self._order[place], self._order[self._left - 1] = last, i
        self._place[last], self._place[i] = place, self._left - 1
        self._left -= 1
        self.unseen[i] = False

    def draw(self, size: int) -> np.ndarray:
        """Return the places of some examples that are left, at random.

        Parameters
        ----------
        size : int
            The number of examples. If fewer are left, all of them are drawn.

        Returns
        -------
        ndarray of int
            Their places, all different.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.teaching import Pool
        >>> pool = Pool([[0.0], [1.0], [2.0]], np.random.default_rng(0))
        >>> sorted(pool.draw(10).tolist())
        [0, 1, 2]
        """
        return self._order[self.rng.choice(self._left, min(size, self._left), replace=False)]

    def upcoming(self, size: int) -> np.ndarray:
        """Return the places of the next examples that are left, in the order of the pool.

        Parameters
        ----------
        size : int
            The number of examples. If fewer are left, all of them are returned.

        Returns
        -------
        ndarray of int
            Their places.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.teaching import Pool
        >>> pool = Pool([[0.0], [1.0], [2.0]], np.random.default_rng(0))
        >>> pool.remove(1)
        >>> pool.upcoming(2).tolist()
        [0, 2]
        """
        left = (i for i in range(self._next, self.unseen.size) if self.unseen[i])
        found = np.fromiter(islice(left, size), np.int64)
        self._next = int(found[0]) if found.size else self._next
        return found

    def margins(self, learner: Any, places: np.ndarray) -> np.ndarray:
        """Return the margins of some examples: how sure the learner is of them.

        Parameters
        ----------
        learner : classifier with ``decision_function`` or ``predict_proba``
            The fitted learner.
        places : array of int
            The places of the examples.

        Returns
        -------
        ndarray of shape (len(places),)
            ``|f|`` for two classes with the score f; for more, the highest score minus the second highest.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin import LinearSVC
        >>> from widemargin.teaching import Pool
        >>> learner = LinearSVC(random_state=0).fit([[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1])
        >>> pool = Pool([[0.1], [3.0]], np.random.default_rng(0))
        >>> unsure, sure = pool.margins(learner, np.array([0, 1]))
        >>> bool(unsure < sure)
        True
        """
        since = time.perf_counter()
        score = getattr(learner, "decision_function", None) or getattr(learner, "predict_proba", None)
        if score is None:
            raise TypeError(
                f"{type(learner).__name__} has neither decision_function nor predict_proba: use RandomTeacher"
            )
        scores = np.asarray(score(self.X[places]))
        if scores.ndim == 2 and scores.shape[1] > 1:
            best = np.partition(scores, -2, axis=1)
            scores = best[:, -1] - best[:, -2]
        self.kernel_evals += len(places) * np.shape(getattr(learner, "dual_coef_", ((),)))[-1]
        self.seconds += time.perf_counter() - since
        return np.abs(scores.reshape(-1))


class RandomTeacher:
    """Chooses an example at random, as a baseline for other teachers.

    See Also
    --------
    ActiveTeacher : Chooses what the learner is least sure of.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.teaching import Pool, RandomTeacher
    >>> pool = Pool([[0.0], [1.0], [2.0]], np.random.default_rng(0))
    >>> RandomTeacher()(None, pool) in (0, 1, 2)
    True
    """

    def __call__(self, learner: Any, pool: Pool) -> int | None:
        return int(pool.draw(1)[0]) if len(pool) else None


class ActiveTeacher:
    """Draws some examples at random and chooses the one that the learner is least sure of (smallest ``|f|``).

    Parameters
    ----------
    pool : int, default=50
        The number of examples that are drawn. The default is the paper's number.

    See Also
    --------
    RandomTeacher : Chooses at random.
    StreamTeacher : Takes examples as they come.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVC
    >>> from widemargin.teaching import ActiveTeacher, Pool
    >>> learner = LinearSVC(random_state=0).fit([[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1])
    >>> pool = Pool([[5.0], [0.1], [-5.0]], np.random.default_rng(0))
    >>> ActiveTeacher(pool=3)(learner, pool)
    1
    """

    def __init__(self, pool: int = 50) -> None:
        self.pool = whole("pool", pool)

    def __call__(self, learner: Any, pool: Pool) -> int | None:
        drawn = pool.draw(self.pool)
        return int(drawn[np.argmin(pool.margins(learner, drawn))]) if drawn.size else None


class StreamTeacher:
    """Takes examples in their order and asks for labels only if the learner is unsure, within a budget.

    An example is worth a label if ``|f|`` is at most a threshold. The threshold falls with every such example and rises
    with every other one, so that the given share of recent examples is worth a label.

    Parameters
    ----------
    share : float, default=0.1
        The largest share of the examples seen that may be labelled, at most 1.
    explore : float, default=0.05
        The share of the examples that are labelled, within the budget, however sure the learner is. Only these can show
        that the data has changed where the learner is sure.
    step : float, default=0.1
        The largest relative change of the threshold by one example, below 1.

    Attributes
    ----------
    threshold : float
        The current threshold; NaN before the first example.
    seen : int
        The number of examples seen.
    asked : int
        The number of labels that were asked for.

    See Also
    --------
    ActiveTeacher : Chooses from the whole pool.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.teaching import StreamTeacher, teach
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> learner, teacher = BudgetedSVC(budget=20, random_state=0), StreamTeacher(share=0.2)
    >>> lesson = teach(learner, X, teacher, X[:, 0] > 0.0, random_state=0)
    >>> lesson.stop_reason, bool(teacher.asked <= 0.2 * teacher.seen)
    ('teacher', True)
    """

    #: Examples that are scored at once. The learner does not change between two labels.
    BLOCK = 32

    def __init__(self, share: float = 0.1, explore: float = 0.05, step: float = 0.1) -> None:
        self.share, self.explore = positive("share", share), not_negative("explore", explore)
        self.step = positive("step", step)
        for name, value in (("share", self.share), ("explore", self.explore)):
            if value > 1.0:
                raise ValueError(f"{name} must be at most 1, got {value!r}")
        if self.step >= 1.0:
            raise ValueError(f"step must be below 1, got {step!r}")
        self.threshold, self.seen, self.asked = math.nan, 0, 0

    def __call__(self, learner: Any, pool: Pool) -> int | None:
        while (block := pool.upcoming(self.BLOCK)).size:
            margins = pool.margins(learner, block)
            if not self.threshold > 0.0:  # the first scores
                self.threshold = float(np.quantile(margins, self.share))
            for i, margin in zip(block.tolist(), margins.tolist(), strict=True):
                self.seen += 1
                worth = margin <= self.threshold
                # on average the threshold does not move if the share of margins below it is ``share``
                self.threshold *= 1.0 + self.step * (self.share - worth)
                if self.asked < self.share * self.seen and (worth or pool.rng.random() < self.explore):
                    self.asked += 1
                    return i
                pool.remove(i)
        return None


@dataclass
class Lesson:
    """The result of :func:`teach`: which labels were asked for, and how good the learner was on the way.

    Attributes
    ----------
    history_ : History
        Columns ``labels``, ``test_error`` (if there are test examples), ``kernel_evals`` of the learner and
        ``pool_kernel_evals`` of the teacher, ``seconds`` of learning and ``pool_seconds`` of choosing.
    indices : list of int
        The places of the labelled examples, in order.
    labels : list
        Their labels.
    stop_reason : str
        "labels" (all are given), "pool" (it is empty), "teacher" (it returned None), "interrupted" or "error".

    See Also
    --------
    widemargin.plots.convergence : A picture of the lesson's history, ``x="labels"``, ``y="test_error"``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.teaching import RandomTeacher, teach
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> learner = BudgetedSVC(budget=20, random_state=0)
    >>> lesson = teach(learner, X, RandomTeacher(), X[:, 0] > 0.0, random_state=0)
    >>> len(lesson.indices), lesson.stop_reason, int(lesson.history_.last("labels"))
    (50, 'pool', 50)
    """

    history_: History = field(default_factory=History)
    indices: list[int] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    stop_reason: str = ""


def teach(
    learner: Any,
    pool: Any,
    teacher: Callable[[Any, Pool], int | None],
    oracle: Any,
    *,
    labels: int = 500,
    start: int = 10,
    classes: Any = None,
    test: tuple[Any, Any] | None = None,
    every: int | None = None,
    random_state: Any = None,
) -> Lesson:
    """Let a teacher choose examples, ask an oracle for their labels, and train the learner on them one by one.

    Parameters
    ----------
    learner : classifier with ``partial_fit``
        The learner, which is trained in place. A fitted learner continues training.
    pool : array or sparse matrix of shape (n, n_features)
        The examples without labels.
    teacher : RandomTeacher, ActiveTeacher, StreamTeacher or callable
        The teacher. ``teacher(learner, pool)`` returns the place of an example in the :class:`Pool`, or None to end.
    oracle : array of shape (n,), or callable
        The labels, or a function that returns the label of the example at a place.
    labels : int, default=500
        The number of labels to ask for in all.
    start : int, default=10
        The number of labels for the first examples, which are drawn at random and learnt together.
    classes : array or None, default=None
        All labels. They are needed if ``oracle`` is a callable and the learner is not fitted.
    test : (X, y) or None, default=None
        Examples to measure the error on, and their labels.
    every : int or None, default=None
        The number of labels between two measurements. None measures ever more rarely, about thirty times in all.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers. The same integer gives the same lesson again.

    Returns
    -------
    Lesson
        The lesson, also after Ctrl-C. An error of oracle, teacher or learner has it as the attribute ``lesson``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import BudgetedSVC
    >>> from widemargin.teaching import ActiveTeacher, teach
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = BudgetedSVC(budget=100, gamma=0.001, lam=1e-3, random_state=0)
    >>> test = X[1000:], y[1000:]
    >>> lesson = teach(learner, X[:1000], ActiveTeacher(), y[:1000], labels=30, test=test, random_state=0)
    >>> len(lesson.labels), lesson.stop_reason
    (30, 'labels')
    """
    if not callable(getattr(learner, "partial_fit", None)):
        raise TypeError(f"{type(learner).__name__} has no partial_fit: use an estimator that learns one by one")
    course = _Course(learner, Pool(pool, generator(random_state)), oracle, test, every)
    return course.held(teacher, labels, start, classes)


class _Course:
    """A lesson in progress, and those who take part in it."""

    def __init__(self, learner: Any, pool: Pool, oracle: Any, test: Any, every: int | None) -> None:
        self.learner, self.pool, self.oracle, self.test = learner, pool, oracle, _checked_test(test)
        self.ask = oracle if callable(oracle) else _checked_labels(oracle, len(pool)).__getitem__
        self.every = every if every is None else whole("every", every)
        self.lesson = Lesson()
        #: The number of labels at which the learner is measured next, and the seconds of learning.
        self.next, self.seconds = 0, 0.0

    def held(self, teacher: Any, labels: int, start: int, classes: Any) -> Lesson:
        """Hold the lesson: learn some examples drawn at random, then those that the teacher chooses."""
        if not callable(teacher) or isinstance(teacher, type):
            raise TypeError(f"teacher must be a callable of (learner, pool), such as ActiveTeacher(), got {teacher!r}")
        whole("labels", labels)
        whole("start", start, least=0)
        known = {} if is_fitted(self.learner) else {"classes": _all_classes(classes, self.oracle, start)}
        with Interrupts() as interrupts:
            try:
                first = self.pool.draw(min(start, labels))
                if first.size:
                    self.learn(first.tolist(), known)
                self.follow(teacher, labels, interrupts)
            except KeyboardInterrupt:  # in the oracle or the teacher
                self.lesson.stop_reason = "interrupted"
            except Exception as error:
                self.lesson.stop_reason = "error"
                error.lesson = self.lesson  # type: ignore[attr-defined]
                raise
            self.measure(last=True)
        return self.lesson

    def follow(self, teacher: Any, labels: int, interrupts: Interrupts) -> None:
        """Learn what the teacher chooses, until there is a reason to stop."""
        lesson = self.lesson
        while not lesson.stop_reason:
            if len(lesson.labels) >= labels:
                lesson.stop_reason = "labels"
            elif interrupts.seen:
                lesson.stop_reason = "interrupted"
            elif not len(self.pool):
                lesson.stop_reason = "pool"
            elif (chosen := at_once()(teacher)(self.learner, self.pool)) is None:
                lesson.stop_reason = "teacher"
            else:
                self.learn([_checked_place(chosen, self.pool.unseen.size)], {})

    def learn(self, places: list[int], options: dict[str, Any]) -> None:
        """Ask for the labels of these examples, and learn them. If the oracle fails, learn those that it has given."""
        answers: list[Any] = []
        for i in places:
            self.pool.remove(i)
        try:
            with at_once():
                for i in places:
                    answer = self.ask(i)
                    if answer is None:
                        raise TypeError(f"the oracle must say the label of example {i} of the pool, got None")
                    answers.append(answer)
        finally:
            if answers:
                self._learn(places[: len(answers)], answers, options)

    def _learn(self, places: list[int], answers: list[Any], options: dict[str, Any]) -> None:
        self.lesson.indices += places
        self.lesson.labels += answers
        since = time.perf_counter()
        try:
            self.learner.partial_fit(self.pool.X[places], np.array(answers), **options)
        except KeyboardInterrupt:  # estimators raise it after they have learnt the examples
            self.lesson.stop_reason = "interrupted"
        self.seconds += time.perf_counter() - since
        self.measure()

    def measure(self, last: bool = False) -> None:
        """Add a row to the history, if it is time to."""
        history, count = self.lesson.history_, len(self.lesson.labels)
        if count == 0 or (count < self.next and not last) or count == history.last("labels"):
            return
        self.next = count + (self.every or max(1, count // 6))
        row: dict[str, Any] = {"labels": count}
        if self.test is not None:
            X, y = self.test
            row["test_error"] = float(np.mean(np.asarray(self.learner.predict(X)) != np.asarray(y)))
        counters = getattr(getattr(self.learner, "_state", None), "counters", None)
        row["kernel_evals"] = getattr(counters, "kernel_evals", 0)
        row["pool_kernel_evals"] = self.pool.kernel_evals
        history.append(seconds=self.seconds, pool_seconds=self.pool.seconds, **row)


def _all_classes(classes: Any, oracle: Any, start: int) -> Any:
    """All labels, for a learner that is not fitted."""
    if start == 0:
        raise ValueError("start must be at least 1 for a learner that knows nothing yet, got 0")
    if classes is None and callable(oracle):
        raise ValueError("classes must name all labels there are, where oracle is a callable")
    return np.unique(oracle) if classes is None else classes


def _checked_labels(oracle: Any, n: int) -> np.ndarray:
    known = np.asarray(oracle)
    if known.shape != (n,):
        raise ValueError(f"oracle must have one label for each of {n} examples, got an array of shape {known.shape}")
    return known


def _checked_test(test: Any) -> Any:
    """The test examples and their labels, or None."""
    if test is None:
        return None
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise TypeError(f"test must be a pair (X, y) of examples and their labels, got {type(test).__name__}")
    rows, labels = np.shape(test[0])[0], np.shape(test[1])
    if labels != (rows,):
        raise ValueError(f"test must have one label for each of {rows} examples, got an array of shape {labels}")
    return test


def _checked_place(chosen: Any, n: int) -> int:
    """The place that a teacher has chosen, as an integer."""
    try:
        place = int(chosen)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"a teacher returns the place of an example, or None, got {chosen!r}") from error
    if place != chosen:  # a fraction, or a string of digits
        raise TypeError(f"a teacher returns the place of an example, or None, got {chosen!r}")
    if not 0 <= place < n:
        raise ValueError(f"a teacher returns the place of an example, from 0 to {n - 1}, got {place}")
    return place
