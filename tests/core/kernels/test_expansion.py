"""Vectors that come and go, with their coefficients."""

import numpy as np
import pytest
import scipy.sparse as sp

from budgets import check_rows_of
from widemargin.core.kernels.expansion import (
    TIED,
    Expansion,
    as_data,
    drop_term,
    enlarged,
    metric_of,
    no_vectors,
    padded,
    row_sums,
    smallest,
    with_columns,
    with_rows,
    write_column,
    write_row,
)
from widemargin.core.kernels.kernels import RBF, Laplacian, Linear, finish
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.rows.rows import as_matrix, as_rows


def filled(rows, n, d, sparse, dtype=np.float64):
    """The first n rows as vectors, with coefficients that say which is which."""
    expansion = Expansion(
        no_vectors(d, 16, dtype, sparse), np.zeros((2, 16), dtype), np.zeros(16, dtype), np.zeros(16, np.int64)
    )
    for j in range(n):
        write_row(rows, j, np.empty(0, dtype) if sparse else rows.values[j], expansion.vectors, j)
        expansion.A[:, j], expansion.norm2[j], expansion.age[j] = (j + 1, -j - 1), 2.0 * (j + 1) ** 2, j + 1
    return expansion


def test_features_that_no_vector_has_any_more_give_their_rows_back():
    rows = as_rows(sp.csr_matrix([[1.0, 2.0, 0.0, 0.0], [0.0, 3.0, 4.0, 0.0]]))
    vectors = no_vectors(4, 16, np.float64, True)
    for j in range(2):
        write_row(rows, j, np.empty(0), vectors, j)
    check_rows_of(vectors)
    z = np.zeros(len(vectors.Z))
    z[vectors.slot[2]] = 5.0
    for j in range(2):  # both become a vector of the third feature
        write_column(vectors, z, j)
        check_rows_of(vectors)
    np.testing.assert_array_equal(vectors.slot > 0, [False, False, True, False])


@pytest.mark.parametrize("sparse", [False, True])
def test_the_last_term_takes_the_place_of_one_that_goes(sparse, rng):
    X = rng.normal(size=(5, 7))
    X[rng.random(X.shape) < 0.5] = 0.0
    expansion = filled(as_rows(sp.csr_matrix(X) if sparse else X), 5, 7, sparse)
    drop_term(expansion, 1, 4)
    kept = as_matrix(as_data(expansion.vectors, 4, np.float64))
    np.testing.assert_array_equal(kept.toarray() if sparse else kept, X[[0, 4, 2, 3]])
    np.testing.assert_array_equal(expansion.age[:5], [1, 5, 3, 4, 0])
    np.testing.assert_array_equal(expansion.A[0, :5], [1, 5, 3, 4, 0])
    assert not expansion.vectors.Z[:, 4:].any()
    if sparse:
        check_rows_of(expansion.vectors)


@pytest.mark.parametrize("kernel", [RBF(0.3), Laplacian(0.3), Linear()], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_has_its_kernel_values_with_all_vectors(kernel, sparse, rng):
    X = rng.normal(size=(6, 5))
    X[rng.random(X.shape) < 0.4] = 0.0
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    vectors = filled(rows, 5, 5, sparse).vectors
    vectors.size[:5] = np.sum(np.abs(X[:5]) if isinstance(kernel, Laplacian) else X[:5] ** 2, axis=1)
    sums, k = np.zeros(16), np.zeros(16)
    row_sums(rows, 5, metric_of(kernel), vectors, padded(5), np.zeros(len(vectors.Z)), sums)
    finish(kernel, sums, padded(5), k)
    np.testing.assert_allclose(k[:5], KernelMatrix(kernel, rows).block([5])[0, :5], rtol=1e-12)


def test_room_is_added_behind_what_is_there(rng):
    X = sp.csr_matrix(rng.normal(size=(3, 4)))
    vectors = filled(as_rows(X), 3, 4, True).vectors
    wider = with_rows(with_columns(vectors, 48), 12)
    assert wider.Z.shape == (12, 48)
    np.testing.assert_array_equal(as_matrix(as_data(wider, 3, np.float64)).toarray(), X.toarray())
    np.testing.assert_array_equal(enlarged(np.ones(2), 4), [1, 1, 0, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_vectors_that_are_smallest_up_to_rounding_the_oldest_is_found(dtype):
    expansion = filled(as_rows(np.eye(4)), 4, 4, False)
    expansion, eps = expansion._replace(norm2=expansion.norm2.astype(dtype)), np.finfo(dtype).eps
    expansion.norm2[:4], expansion.age[:4] = [3.0, 1.0 + 4 * eps, 1.0, 1.0 + 4 * TIED * eps], [1, 3, 4, 2]
    assert smallest(expansion, 4) == 1
