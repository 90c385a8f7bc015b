"""Sparse rows with repeated or unsorted entries mean what SciPy says they mean: the sum."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, LinearSVC, LinearSVR

ESTIMATORS = [
    LinearSVC(random_state=0, max_iter=3, tol=0),
    LinearSVC(solver="sdca", random_state=0, max_iter=3, tol=0),
    LinearSVR(random_state=0, max_iter=3, tol=0),
    LinearSVR(solver="sdca", random_state=0, max_iter=3, tol=0),
    *(SVC(kernel=kernel, random_state=0) for kernel in ("rbf", "linear", "poly", "laplacian")),
    SVC(solver="sbp", random_state=0),
    SVR(random_state=0),
    BudgetedSVC(budget=20, random_state=0),
    BudgetedSVR(budget=20, random_state=0),
]


def torn(rng, S):
    """The matrix S as CSR with each entry in two parts, the parts of a row in any order."""
    S = S.tocoo()
    share = rng.choice([0.25, 0.5, 2.0], S.nnz)  # of powers of two, so that the parts sum to the bits of the whole
    row, col = np.tile(S.row, 2), np.tile(S.col, 2)
    data = np.concatenate([share * S.data, (1.0 - share) * S.data])
    order = rng.permutation(row.size)
    order = order[np.argsort(row[order], kind="stable")]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=S.shape[0]))])
    X = sp.csr_matrix((data[order], col[order], indptr), shape=S.shape)
    assert not X.has_canonical_format
    assert not X.has_sorted_indices
    return X


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_repeated_and_unsorted_entries_of_sparse_rows_are_summed(estimator, rng):
    values = np.ldexp(np.round(np.ldexp(rng.normal(size=(80, 6)), 20)), -20)  # sums of their parts are exact
    whole = sp.csr_matrix(values * (rng.random((80, 6)) < 0.5))
    weights = rng.normal(size=6)
    t = whole @ weights
    y = (t > np.median(t)).astype(int) if estimator.__sklearn_tags__().estimator_type == "classifier" else t
    X = torn(rng, whole)
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    here, there = estimator.fit(X, y), type(estimator)(**estimator.get_params(deep=False)).fit(whole, y)
    for name in ("gamma_", "_gamma", "coef_", "intercept_", "dual_coef_"):
        if hasattr(there, name) and not (
            name == "coef_" and isinstance(there, (SVC, SVR)) and there.kernel != "linear"
        ):
            one, other = getattr(here, name), getattr(there, name)
            one, other = (m.toarray() if sp.issparse(m) else m for m in (one, other))
            np.testing.assert_array_equal(one, other, err_msg=name)
    score = "decision_function" if hasattr(there, "decision_function") else "predict"
    np.testing.assert_allclose(getattr(here, score)(X), getattr(there, score)(whole), rtol=1e-9, atol=1e-9)
    for array, old in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old, err_msg="the user's matrix was changed")


def test_repeated_entries_whose_sum_overflows_are_refused_in_a_sentence():
    X = sp.csr_matrix((np.full(4, 1.5e308), [0, 0, 1, 0], [0, 3, 4]), shape=(2, 2))
    with pytest.raises(ValueError, match="repeated entries of X sum to inf"):
        SVC().fit(X, [0, 1])
