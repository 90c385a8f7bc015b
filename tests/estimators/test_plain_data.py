"""Labels that are taken without scikit-learn's checks are those that the checks would return."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import from_dtype

from widemargin.estimators.fit.labels import two_labels

DTYPES = [bool, np.int8, np.uint8, np.int16, np.uint16, np.int64, np.uint64, np.float16, np.float32,
          np.float64]  # fmt: skip


@given(st.sampled_from(DTYPES), st.data())
def test_two_whole_numbers_are_the_labels_that_sorting_finds(dtype, data):
    whole = np.dtype(dtype).kind != "f"
    reach = st.integers(0, 1) if dtype is bool else from_dtype(np.dtype(dtype)) if whole else st.integers(-300, 300)
    labels = np.array(data.draw(st.lists(reach, min_size=1, max_size=4)), dtype)
    y = np.repeat(labels, 3)[data.draw(st.permutations(range(3 * labels.size)))]
    found, (classes, codes) = two_labels(y), np.unique(y, return_inverse=True)
    below = all(abs(int(each)) < 2**53 for each in classes)
    assert (found is not None) == (below and classes.size == 2)
    if found is not None:
        assert found[0].dtype == classes.dtype
        np.testing.assert_array_equal(found[0], classes)
        np.testing.assert_array_equal(found[1], codes)


@pytest.mark.parametrize(
    "y",
    [[0, 0], [0, 1, 2], [0.0, 0.5], [0.0, 0.5, 1.0] * 3, [0.0, np.nan], [0.0, np.inf], ["a", "b"], [], [[0, 1], [1, 0]],
     [0, 1, 2000] * 3, [0, 2**60], [0.5, 1.0], [-(2**60), 0], [0, 2**53]],
    ids=str,
)  # fmt: skip
def test_other_targets_are_left_to_the_checks(y):
    assert two_labels(np.array(y)) is None


@pytest.mark.filterwarnings("error")
def test_small_numbers_are_compared_without_a_warning():
    classes, codes = two_labels(np.array([1.0, 0.0, 1.0], np.float16))
    assert classes.dtype == np.float16
    np.testing.assert_array_equal(codes, [1, 0, 1])
