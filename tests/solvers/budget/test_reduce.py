"""Models made smaller are projections onto what they keep."""

import numpy as np
import pytest
import scipy.sparse as sp

from budgets import GAUSS, gauss
from widemargin.core.kernels.kernels import Polynomial, Sigmoid
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.rows.rows import as_matrix, as_rows
from widemargin.solvers.budget.reduce import reduced, spanning


def test_an_indefinite_kernel_has_no_projection():
    with pytest.raises(ValueError, match="'sigmoid' is no positive definite kernel"):
        reduced(Sigmoid(0.5, 0.0), as_rows(np.eye(3)), np.ones((1, 3)), 2, ("project",))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("kernel", "way"), [(GAUSS, "merge"), (GAUSS, "project"), (Polynomial(0.5, 1.0, 2), "project")]
)
def test_a_reduced_model_is_the_projection_onto_the_vectors_it_keeps(kernel, way, sparse, rng):
    V, A = rng.normal(size=(40, 3)), rng.normal(size=(2, 40))
    if sparse:
        V[rng.random(V.shape) < 0.4] = 0.0
    given = as_rows(sp.csr_matrix(V) if sparse else V)
    rows, coefficients, lost, norm2 = reduced(kernel, given, A, 8, (way,))
    kept = as_matrix(rows)
    assert sp.issparse(kept) == sparse
    kept = kept.toarray() if sparse else kept
    assert kept.shape == (8, 3)

    def values(P, Q):
        return gauss(P, Q) if kernel is GAUSS else (0.5 * P @ Q.T + 1.0) ** 2

    np.testing.assert_allclose(norm2, np.sum((A @ values(V, V)) * A, axis=1))
    both, signed = np.vstack([V, kept]), np.hstack([A, -coefficients])
    np.testing.assert_allclose(lost, np.sum((signed @ values(both, both)) * signed, axis=1), atol=1e-6 * norm2.max())
    # what is lost is orthogonal to what is kept; the ridge lets 1e-10 through
    assert np.abs(signed @ values(both, kept)).max() <= 1e-6 * np.sqrt(norm2.max())
    assert (lost <= norm2 * (1 + 1e-9)).all()
    if kernel is GAUSS:  # of both ways the better one
        other = reduced(kernel, given, A, 8, ("merge", "project"))[2]
        assert np.sum(other / norm2) <= np.sum(lost / norm2) * (1 + 1e-9)


def test_vectors_are_taken_that_leave_least_of_the_model(rng):
    V, A = rng.normal(size=(30, 3)), rng.normal(size=(2, 30))
    K = gauss(V, V)
    scores, taken = A @ K, []
    for _ in range(6):  # by trying all
        left = [
            np.trace(scores @ A.T)
            - np.trace(scores[:, some] @ np.linalg.solve(K[np.ix_(some, some)], scores[:, some].T))
            for some in ([*taken, i] for i in range(30) if i not in taken)
        ]
        taken.append([i for i in range(30) if i not in taken][int(np.argmin(left))])
    found = spanning(KernelMatrix(GAUSS, as_rows(V)), scores, 6)
    np.testing.assert_array_equal(found, taken)
