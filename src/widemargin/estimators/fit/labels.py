"""Labels: the classes of a classifier and their weights, or the numbers of a regressor.

A classifier's ``classes_`` are sorted. The code of a label is its place among them.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ...backends.tensors import as_given, hosted, taken
from .checking import check_sample_weight
from .fitting import TrainedByRun

LARGEST_LABEL = 2.0**53  # whole numbers below are exact in float64


def class_weights(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The weight of each class from ``None``, "balanced" or a dictionary; ``counts`` are the examples seen per class.

    As in scikit-learn, a dictionary may name classes that are not there, because a fold may lack a rare one. But then
    it must name all classes that are there: otherwise the name is probably a slip, and is refused.
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
    """The weights of the classes. Fewer than two classes with a weight > 0 are refused; ``counts`` are by weight."""
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
    """The labels of the argument ``classes``, sorted. NaN and mixtures of numbers and texts are refused."""
    try:
        found = np.unique(list(classes) if isinstance(classes, (set, frozenset)) else classes)
        if found.dtype.kind != "f" or np.isfinite(found).all():
            check_classification_targets(found)
            return found
    except (TypeError, ValueError):
        pass
    raise ValueError(f"classes must be labels of one kind, numbers or strings, without NaN, got {classes!r}")


def weighted(of_example: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weights of examples times the weights of their classes, ``of_example``. Empty weights are all ones."""
    return of_example * weights if weights.size else of_example


def two_labels(y: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """(both labels in order, the code of each example) of an array of two different whole numbers.

    The answer is None for any other array. Others are sorted, and checked by scikit-learn, at many times the cost.

    >>> two_labels(np.array([3, -1, 3]))
    (array([-1,  3]), array([1, 0, 1]))
    """
    if type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "biuf" or y.size == 0:
        return None
    low, high = y.min().item(), y.max().item()
    if not -LARGEST_LABEL < low < high < LARGEST_LABEL or low != int(low) or high != int(high):
        return None
    second = y == high
    return (np.array([low, high], y.dtype), second.astype(np.intp)) if (second | (y == low)).all() else None


class Labelled(ClassifierMixin, TrainedByRun):
    """What all classifiers do with labels: encode, weigh, predict."""

    classes_: np.ndarray

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """(X, labels, weights) to fit, checked."""
        X, y = self._check_data(X, y)
        if two_labels(y) is None:
            check_classification_targets(y)
            y = column_or_1d(y)
        return X, y, check_sample_weight(sample_weight, y.size)

    def _encode(self, y: np.ndarray, goes_on: bool = False) -> np.ndarray:
        """Set ``classes_`` to the labels of y and return their codes. Where training goes on, they must be the same."""
        classes, codes = two_labels(y) or np.unique(y, return_inverse=True)
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

    def _check_weights(self, codes: np.ndarray, weights: np.ndarray) -> None:
        """Refuse weights, of examples or of classes, that leave fewer than two classes to learn."""
        if weights.size == 0 and self.class_weight is None:
            return
        weights_that_tell_apart(self, self.classes_, self._count(codes, weights))

    def _count(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The number of examples of each class, each counted with its weight."""
        return np.bincount(codes, weights if weights.size else None, self.classes_.size).astype(float)

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
