"""Several classes as binary problems: which examples, labels, weights and places of coefficients each one has."""

from itertools import combinations

import numpy as np
import pytest

from widemargin import SVC
from widemargin.core import losses
from widemargin.estimators.multiclass import Binaries, target_of, targets_of

CODES = np.array([2, 0, 1, 2, 0, 1, 2])
WEIGHTS, OF_CLASS = np.arange(1.0, 8.0), np.array([1.0, 10.0, 100.0])


def test_two_classes_are_one_problem_whose_positive_class_is_the_second():
    binaries = Binaries(CODES % 2, WEIGHTS, OF_CLASS[:2], True, False)
    chosen, y, s = binaries.binary(0)
    assert len(binaries) == 1
    np.testing.assert_array_equal(chosen, np.arange(7))
    np.testing.assert_array_equal(y, np.where(CODES % 2 == 1, 1.0, -1.0))
    np.testing.assert_array_equal(s, WEIGHTS * OF_CLASS[CODES % 2])


def test_against_the_rest_a_class_weighs_its_own_examples_only():
    binaries = Binaries(CODES, WEIGHTS, OF_CLASS, True, False)
    assert len(binaries) == 3
    for k in range(3):
        chosen, y, s = binaries.binary(k)
        np.testing.assert_array_equal(chosen, np.arange(7))
        np.testing.assert_array_equal(y == 1.0, k == CODES)
        np.testing.assert_array_equal(s, WEIGHTS * np.where(k == CODES, OF_CLASS[k], 1.0))
        assert binaries.rows_of(k, chosen) == k


def test_a_pair_has_its_own_examples_the_first_class_first_and_libsvm_s_places():
    binaries = Binaries(CODES, np.empty(0), OF_CLASS, True, True)
    assert len(binaries) == 3
    for k, (i, j) in enumerate(combinations(range(3), 2)):
        chosen, y, s = binaries.binary(k)
        np.testing.assert_array_equal(CODES[chosen], np.sort(CODES[(i == CODES) | (j == CODES)]))
        np.testing.assert_array_equal(y, np.where(CODES[chosen] == i, 1.0, -1.0))
        np.testing.assert_array_equal(s, OF_CLASS[CODES[chosen]])
        # the coefficient of a vector of class c against class d stands in row d − (d > c)
        others = np.where(CODES[chosen] == i, j, i)
        np.testing.assert_array_equal(binaries.rows_of(k, chosen), others - (others > CODES[chosen]))


def test_some_of_the_examples_keep_their_weights():
    some = Binaries(CODES, WEIGHTS, OF_CLASS, True, True).take(np.array([0, 2, 5]))
    np.testing.assert_array_equal(some.codes, [2, 1, 1])
    np.testing.assert_array_equal(some.weights, [1.0, 3.0, 6.0])


def test_targets_are_signs_for_one_output_and_codes_for_several():
    np.testing.assert_array_equal(targets_of(np.array([0, 1]), 1), [-1.0, 1.0])
    np.testing.assert_array_equal(targets_of(CODES, 3), CODES)


@pytest.mark.parametrize(
    ("classes", "multi_class", "target", "outputs"),
    [(2, "ovr", losses.Single, 1), (3, "ovr", losses.OneVsRest, 3), (2, "crammer_singer", losses.MulticlassHinge, 2)],
)
def test_a_target_has_an_output_for_each_class_except_for_two_apart(classes, multi_class, target, outputs):
    found = target_of(classes, "hinge", multi_class, np.ones(classes))
    assert (type(found[0]), found[1]) == (target, outputs)


def test_scores_of_pairs_decide_between_equal_votes_and_never_against_more_of_them(rng):
    X, y = rng.normal(size=(90, 2)), rng.integers(0, 4, 90)
    model = SVC(100.0, gamma=5.0).fit(X, y)
    Z = 3.0 * rng.normal(size=(200, 2))
    votes, scores = model._votes(Z)
    assert (votes.sum(axis=1) == 6).all()
    assert (np.abs(scores - votes) < 1.0 / 3.0).all()
    assert (np.round(scores) == votes).all()
