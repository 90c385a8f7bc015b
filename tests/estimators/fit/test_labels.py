"""Labels: codes, classes that are announced, and weights of classes."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from widemargin import BudgetedSVC, LinearSVC
from widemargin.estimators.fit.labels import Labelled, class_weights, labels, weighted


def test_classes_that_have_not_come_yet_do_not_count_in_the_balance():
    found = class_weights("balanced", np.arange(3), np.array([2.0, 0.0, 6.0]))
    expected = compute_class_weight("balanced", classes=np.array([0, 2]), y=np.array([0] * 2 + [2] * 6))
    np.testing.assert_allclose(found[[0, 2]], expected)


def test_labels_are_sorted_and_of_one_kind():
    assert labels({"b", "a"}).tolist() == ["a", "b"]
    assert labels([3, 1, 3]).tolist() == [1, 3]
    for wrong in ([1.0, np.nan], [0.5, 1.2], [1, None]):
        with pytest.raises(ValueError, match="classes must be labels of one kind"):
            labels(wrong)


def test_weights_of_examples_and_of_their_classes_are_multiplied():
    of_example = np.array([2.0, 3.0])
    np.testing.assert_array_equal(weighted(of_example, np.array([0.5, 2.0])), [1.0, 6.0])
    assert weighted(of_example, np.empty(0)) is of_example


@pytest.mark.parametrize("estimator", [LinearSVC, BudgetedSVC])
def test_codes_are_places_among_the_sorted_classes(estimator):
    model = estimator()
    y = np.array(["c", "a", "c", "b"])
    codes = model._encode(y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(codes, [2, 0, 2, 1])
    np.testing.assert_array_equal(model._codes(y), codes)
    np.testing.assert_array_equal(model._count(codes, np.array([1.0, 2.0, 3.0, 4.0])), [2.0, 4.0, 4.0])
    with pytest.raises(ValueError, match="y holds the label 'd', which is not among the classes"):
        model._codes(np.array(["a", "d"]))


@pytest.mark.parametrize(("estimator", "words"), [(LinearSVC, "those of the first call"), (BudgetedSVC, "is missing")])
def test_a_later_call_keeps_the_labels_of_the_first(estimator, words, rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    model = estimator().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, y, classes=[0, 1])


def test_two_outputs_of_two_classes_are_one_score_by_their_difference():
    class Joint(Labelled):
        classes_ = np.array(["no", "yes"])

        def _scores(self, X):
            return np.asarray(X, float)

    scores = [[1.0, 3.0], [2.0, 1.5], [-1.0, -2.0]]
    assert Joint().decision_function(scores).tolist() == [2.0, -0.5, -1.0]
    assert Joint().predict(scores).tolist() == ["yes", "no", "no"]
