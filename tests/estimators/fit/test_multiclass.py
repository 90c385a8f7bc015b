"""Several classes: what solvers minimise, and what a target compares scores with."""

import numpy as np
import pytest

from widemargin.core.losses import losses
from widemargin.estimators.fit.multiclass import target_of, targets_of

CODES = np.array([2, 0, 1, 2, 0, 1, 2])


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
