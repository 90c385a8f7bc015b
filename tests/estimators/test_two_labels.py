"""Labels and arrays that are taken without scikit-learn's checks are those that the checks would return."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.estimators.fitting import _is_plain
from widemargin.estimators.labels import two_labels


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, np.float64])
def test_two_labels_are_those_of_sorting(dtype):
    y = np.array([1, 0, 0, 1, 1]).astype(dtype)
    found, sorted_ones = two_labels(y), np.unique(y)
    assert found.dtype == sorted_ones.dtype
    np.testing.assert_array_equal(found, sorted_ones)


@pytest.mark.parametrize(
    "y", [[0, 0], [0, 1, 2], [0.0, 0.5], [0.0, np.nan], [0.0, np.inf], ["a", "b"], [], [[0, 1], [1, 0]]]
)
def test_other_targets_are_left_to_the_checks(y):
    assert two_labels(np.array(y)) is None


def test_plain_arrays_are_finite_canonical_and_of_one_length(rng):
    X, y = rng.normal(size=(6, 3)), np.arange(6) % 2
    for fine in (X, sp.csr_matrix(X), X.astype(np.float32)):
        assert _is_plain(fine, y)
    bad = X.copy()
    bad[2, 1] = np.nan
    for other in (
        bad,
        sp.csr_matrix(bad),
        X.T,
        np.asfortranarray(X),
        X[:5],
        X[:0],
        X[:, :0],
        X.tolist(),
        X.astype(int),
    ):
        assert not _is_plain(other, y)
    for targets in (y[:, None], y.tolist(), y.astype(str), np.where(y, np.inf, 0.0)):
        assert not _is_plain(X, targets)
