"""What examples are labelled with: classes and their weights, or numbers.

A classifier's ``classes_`` are sorted, and the code of a label is its place among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..backends.tensors import as_given, hosted, taken
from .fitting import TrainedByRun, check_sample_weight

#: Whole numbers below this are the same as float64. Labels are counted that are so far apart, or one more an example.
LARGEST_LABEL, LABELS_APART = 2.0**53, 1000


def class_weights(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """A weight for each class from ``None``, "balanced" or a dictionary; ``counts`` are the examples seen per class.

    As in scikit-learn a dictionary may name classes that are not there, as in a fold that lacks a rare one, if it names
    all that are; if it does not, the odd name is a slip.
    """
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}")
        return counts.sum() / (np.count_nonzero(counts) * np.where(counts > 0, counts, 1.0))
    if not isinstance(class_weight, dict):
        raise TypeError(f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}")
    labels = classes.tolist()
    unnamed = [label for label in labels if label not in class_weight]
    for label, weight in class_weight.items():
        if label not in labels and unnamed:
            raise ValueError(
                f"class_weight names the class {label!r}, which is not among the classes {labels}, and does not name "
                f"{unnamed[0]!r}: name them all, or only those that are there"
            )
        if not (isinstance(weight, Real) and math.isfinite(weight) and float(weight) >= 0):
            raise ValueError(f"class_weight of class {label!r} must be a number ≥ 0, got {weight!r}")
    weights = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    if not weights.any():
        raise ValueError(f"class_weight must leave some class a weight > 0, not zero for all, got {class_weight!r}")
    return weights


def weights_that_tell_apart(estimator: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The weights of the classes, two of which at least have examples with a weight; ``counts`` are by weight."""
    of_class = class_weights(estimator.class_weight, classes, counts)
    there = classes[counts * of_class > 0.0]
    if there.size < 2:
        said = f"only {there.tolist()[0]!r} has one" if there.size else "none has one"
        raise ValueError(
            f"{type(estimator).__name__} needs examples of at least 2 classes with a weight > 0, and {said}: look at "
            "sample_weight and class_weight"
        )
    return of_class


def labels(classes: Any) -> np.ndarray:
    """Labels given as ``classes``, sorted; refuses what are no labels."""
    try:
        found = np.unique(list(classes) if isinstance(classes, (set, frozenset)) else classes)
        if found.dtype.kind != "f" or np.isfinite(found).all():
            check_classification_targets(found)
            return found
    except (TypeError, ValueError):
        pass
    raise ValueError(f"classes must be labels of one kind, numbers or strings, without NaN, got {classes!r}")


def weighted(of_example: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weights of examples, empty where they are 1, times those that their classes give them."""
    return of_example * weights if weights.size else of_example


def whole_labels(y: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """(The labels of an array of whole numbers near each other, in order, the place of each example's among them).

    None of any other array, which sorting and scikit-learn's checks tell: they take ten times as long.

    >>> whole_labels(np.array([3, -1, 3]))
    (array([-1,  3]), array([1, 0, 1]))
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "biuf" or y.size == 0:
        return None
    low, high = y.min().item(), y.max().item()
    if not -LARGEST_LABEL < low < high < LARGEST_LABEL or low != int(low) or high != int(high):
        return None
    second = y == high
    if (second | (y == low)).all():
        return np.array([low, high], y.dtype), second.astype(np.intp)
    if high - low > LABELS_APART + y.size:
        return None
    places = y.astype(np.intp)
    if y.dtype.kind == "f" and not (places == y).all():
        return None
    places -= int(low)
    there = np.bincount(places) > 0
    if 2 * np.count_nonzero(there) > y.size:
        return None  # scikit-learn warns of so many
    return (np.flatnonzero(there) + int(low)).astype(y.dtype), (np.cumsum(there) - 1)[places]


class Labelled(ClassifierMixin, TrainedByRun):
    """What all classifiers do with labels."""

    #: Whether labels may be announced at a later call of ``partial_fit`` too.
    grows = False

    class_weight: Any
    classes_: np.ndarray
    _counts: np.ndarray
    #: Scores of rows, of shape (n, n_outputs).
    _scores: Callable[[Any], np.ndarray]

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """(X, labels, weights) to fit, checked."""
        X, y = self._check_data(X, y)
        if whole_labels(y) is None:
            check_classification_targets(y)
            y = column_or_1d(y)
        return X, y, check_sample_weight(sample_weight, y.size)

    def _encode(self, y: np.ndarray, goes_on: bool = False) -> np.ndarray:
        """Set ``classes_`` to the labels there are, which are the old ones where training goes on; returns codes."""
        classes, codes = whole_labels(y) or np.unique(y, return_inverse=True)
        if classes.size < 2:
            name = type(self).__name__
            raise ValueError(
                f"{name} needs examples of at least 2 classes, got 1 class only: {classes.tolist()[0]!r}; add examples "
                "of another"
            )
        if goes_on and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start needs the classes of the last fit, {self.classes_.tolist()}, got {classes.tolist()}: "
                "set warm_start=False to start anew"
            )
        self.classes_ = classes
        return codes

    def _codes(self, y: np.ndarray) -> np.ndarray:
        """The codes of labels that must be known."""
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
        """Set ``classes_`` to the labels that will come, before any has."""
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
        """Look at the labels that a later call of ``partial_fit`` names."""
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got {classes.tolist()}: name "
                "all labels at the first call, or use BudgetedSVC or IncrementalSVC, which take new ones later"
            )

    def _check_weights(self, codes: np.ndarray, weights: np.ndarray) -> None:
        """Refuse weights, of examples or of classes, that leave less than two classes to learn."""
        if weights.size == 0 and self.class_weight is None:
            return
        weights_that_tell_apart(self, self.classes_, self._count(codes, weights))

    def _count(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Examples of each class, each counted with its weight."""
        return np.bincount(codes, weights if weights.size else None, self.classes_.size).astype(float)

    def _count_part(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Count the examples of a stream's next part; returns the weights of the classes."""
        self._counts = self._counts + self._count(codes, weights)
        return class_weights(self.class_weight, self.classes_, self._counts)

    @as_given
    def decision_function(self, X: Any) -> Any:
        """Return the scores of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            The scores: for two classes one per row, positive for ``classes_[1]``, else one per class.

        Examples
        --------
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.decision_function([[0.0], [3.0]]).shape
        (2,)
        """
        scores = self._scores(X)
        if self.classes_.size == 2:
            return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
        return scores

    @as_given
    def predict(self, X: Any) -> Any:
        """Return the predicted labels, those with the highest score.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n,)
            The labels, from ``classes_``.

        Examples
        --------
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.predict([[0.0], [3.0]]).tolist()
        [0, 1]
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose label is predicted, or of their weight.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.
        y : array of shape (n,)
            The true labels.
        sample_weight : array of shape (n,) or None, default=None
            The weights of the rows. None is 1 for each.

        Returns
        -------
        float
            The accuracy, from 0 to 1.

        Examples
        --------
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.score([[0.0], [3.0]], [0, 1])
        1.0
        """
        return super().score(taken(X), hosted(y), hosted(sample_weight, "sample_weight"))


class Numeric(RegressorMixin, TrainedByRun):
    """What all regressors do with targets."""

    def _examples(
        self, X: Any, y: Any, sample_weight: Any, check: Any = check_sample_weight, **options: Any
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """(X, targets, weights), checked."""
        X, y = self._check_data(X, y, y_numeric=True, **options)
        y = column_or_1d(y)
        try:
            y = np.asarray(y).astype(np.float64)
        except (ValueError, TypeError) as error:
            odd = np.asarray(y).tolist()[0]
            raise type(error)(
                f"y must hold numbers for a regression, and has such as {odd!r}: use a classifier, or encode it"
            ) from error
        return X, y, check(sample_weight, y.size)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R², the share of the variance of y that the predictions explain.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.
        y : array of shape (n,)
            The true targets.
        sample_weight : array of shape (n,) or None, default=None
            The weights of the rows. None is 1 for each.

        Returns
        -------
        float
            R², which is 1 for perfect predictions.

        Examples
        --------
        >>> from widemargin import LinearSVR
        >>> model = LinearSVR(C=100.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
        >>> bool(model.score([[0.5], [1.5]], [0.5, 1.5]) > 0.9)
        True
        """
        return super().score(taken(X), hosted(y), hosted(sample_weight, "sample_weight"))
