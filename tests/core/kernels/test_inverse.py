"""The inverse of a matrix follows its rows as they come and go."""

import numpy as np

from widemargin.core.kernels.inverse import (
    INVERSE_ERROR,
    invert,
    mended,
    product,
    projected,
    ridge_of,
    with_one_more,
    without,
)


def definite(rng, n):
    half = rng.normal(size=(n, n))
    return half @ half.T + np.eye(n)


def test_a_row_that_comes_and_one_that_goes_leave_the_inverse_of_what_is_there(rng):
    K, inverse, onto = definite(rng, 6), np.zeros((8, 8)), np.zeros(8)
    invert(K, inverse, 5)
    np.testing.assert_allclose(inverse[:5, :5], np.linalg.inv(K[:5, :5]), rtol=1e-9)
    product(K[5], inverse, 5, onto)
    expected = np.linalg.solve(K[:5, :5], K[5, :5])
    np.testing.assert_allclose(onto[:5], expected, rtol=1e-9)
    distance2 = K[5, 5] - expected @ K[5, :5]
    found = projected(K, inverse, 0.0, 5, 5, onto)
    np.testing.assert_allclose(onto[:5], expected, rtol=1e-9)
    np.testing.assert_allclose(found, [distance2, distance2], rtol=1e-7)
    with_one_more(inverse, 5, onto, distance2)
    np.testing.assert_allclose(inverse[:6, :6], np.linalg.inv(K), rtol=1e-7, atol=1e-9)
    left = [0, 1, 3, 4, 5]
    apart = without(inverse, 6, 2, onto)
    np.testing.assert_allclose(inverse[np.ix_(left, left)], np.linalg.inv(K[np.ix_(left, left)]), rtol=1e-7, atol=1e-9)
    assert not inverse[2].any()
    c = np.linalg.solve(K[np.ix_(left, left)], K[left, 2])
    np.testing.assert_allclose(onto[left], c, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(apart, K[2, 2] - c @ K[left, 2], rtol=1e-7)
    np.testing.assert_allclose(ridge_of(0.1, K, 6, onto[:6]), 0.1 * np.sum(onto[:6] ** 2 * np.diag(K)), rtol=1e-12)


def test_an_inverse_that_is_wrong_where_it_is_looked_at_is_computed_anew(rng):
    K, inverse, column = definite(rng, 4), np.zeros((4, 4)), np.zeros(4)
    invert(K, inverse, 4)
    assert not mended(K, inverse, 4, 1, column)
    inverse[1] += 1e3 * INVERSE_ERROR
    assert mended(K, inverse, 4, 1, column)
    np.testing.assert_allclose(K @ inverse, np.eye(4), atol=1e-9)


def test_numbers_that_overflowed_leave_the_inverse_as_it_is():
    inverse = np.eye(2)
    invert(np.array([[1.0, np.inf], [np.inf, 1.0]]), inverse, 2)
    np.testing.assert_array_equal(inverse, np.eye(2))
