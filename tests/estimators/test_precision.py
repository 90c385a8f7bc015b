"""Machines predict as exactly as the data is given: fresh ones, those from files, and those from model texts."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import manhattan_distances

import widemargin
from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, IncrementalSVC
from widemargin.core.rows.rows import DenseRows
from widemargin.estimators.fit.proof import Exact, Late
from widemargin.problems import precision
from widemargin.problems.precision import settled

#: Errors of scores as a share of their spread.
PROMISED = {np.float64: 1e-6, np.float32: 1e-4}
KERNELS = {
    "rbf": lambda sums, gamma: np.exp(-gamma * sums),
    "laplacian": lambda sums, gamma: np.exp(-gamma * sums),
    "poly": lambda sums, gamma: (gamma * sums) ** 3,
    "linear": lambda sums, gamma: sums,
}


def problem(rng, estimator, n=150, d=4):
    """Rows of some size, half of them zeros or so, with labels or targets that no machine fits well."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    f = X[:, 0] - np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=n)
    if estimator.__sklearn_tags__().estimator_type == "regressor":
        return X, f
    several = getattr(estimator, "decision_function_shape", "") == "ovo"
    return X, np.digitize(f, [-0.7, 0.7]) if several else (f > 0).astype(int)


def fitted(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not all of them end at tol
        return clone(estimator).fit(X, y)


def plain(X):
    return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)


def textbook(model, X):
    """Scores in float64 from what the estimator shows."""
    A, Z, kernel = plain(X), plain(model.support_vectors_), model.kernel
    if kernel == "laplacian":
        sums = manhattan_distances(A, Z)
    elif kernel == "rbf":
        sums = np.sum((A[:, None] - Z) ** 2, axis=2)
    else:
        sums = A @ Z.T
    K, coef = KERNELS[kernel](sums, getattr(model, "gamma_", 1.0)), model.dual_coef_
    intercept = getattr(model, "intercept_", 0.0)
    if getattr(model, "decision_function_shape", "") != "ovo":
        return K @ coef.T + intercept
    ends = np.cumsum([0, *model.n_support_])
    own = [slice(*pair) for pair in pairwise(ends)]
    pairs = [(i, j) for i in range(len(own)) for j in range(i + 1, len(own))]
    found = [K[:, own[i]] @ coef[j - 1, own[i]] + K[:, own[j]] @ coef[i, own[j]] for i, j in pairs]
    return np.transpose(found) + intercept


def scores(model, X):
    found = model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
    return found.reshape(X.shape[0], -1)


def is_exact(model, X, promised):
    """Whether the error of each score is at most a share of the spread of its output."""
    expected = textbook(model, X)
    return bool((np.abs(scores(model, X) - expected) <= promised * np.ptp(expected, axis=0)).all())


MACHINES = [
    (SVC(C=1e5, max_iter=30), np.asarray),
    (SVC(C=1e5, max_iter=30), sp.csr_matrix),
    (SVC(C=100.0, kernel="laplacian", max_iter=30), np.asarray),
    (SVC(C=1e4, decision_function_shape="ovo", max_iter=30), np.asarray),
    (SVC(kernel="linear"), sp.csr_matrix),
    (SVR(C=100.0, max_iter=30), np.asarray),
    (SVR(C=100.0, kernel="poly", max_iter=30), np.asarray),
    (IncrementalSVC(C=1e4), np.asarray),
    (BudgetedSVC(budget=20, lam=1e-6, random_state=0), np.asarray),
    (BudgetedSVC(budget=40, lam=0.1, random_state=0), sp.csr_matrix),
    (BudgetedSVR(budget=20, lam=1e-5, random_state=0), np.asarray),
]


@pytest.mark.parametrize(("estimator", "layout"), MACHINES, ids=str)
def test_scores_keep_what_is_promised_for_the_precision_of_the_data(estimator, layout, rng):
    X, y = problem(rng, estimator)
    for trained in PROMISED:
        model = fitted(estimator, layout(X[:100].astype(trained)), y[:100])
        for given, promised in PROMISED.items():
            assert is_exact(model, layout(X.astype(given)), promised)


@pytest.mark.parametrize("estimator", [SVR(C=1e4), SVC(C=1e6, decision_function_shape="ovo")], ids=repr)
def test_machines_of_large_coefficients_are_exact_to_rounding_of_float64(estimator, rng):
    """Each kernel value has some roundings of 2⁻⁵³, which its coefficient multiplies."""
    X, y = problem(rng, estimator)
    model = fitted(clone(estimator).set_params(max_iter=30), X, y)
    most = np.abs(model.dual_coef_).sum() * 100 * np.finfo(float).eps
    np.testing.assert_allclose(scores(model, X), textbook(model, X), rtol=0, atol=most)


def test_errors_that_were_seen_decide_with_a_factor_of_two_to_spare(rng):
    X, y = problem(rng, SVC())
    model = fitted(SVC(C=1e5, max_iter=30), X, y)
    rough = replace(model._model, vectors=DenseRows(model._model.vectors.values.astype(np.float32)))
    narrow = replace(model._preparation, as_float32=True)
    for seen, suffices in (([], False), ([0.4e-6], True), ([0.6e-6], False), ([0.0, 0.0], False)):
        assert (settled(rough, narrow, seen=seen)[0] is rough) == suffices


def test_errors_that_were_seen_say_nothing_of_a_machine_that_was_trained_further(rng, monkeypatch):
    monkeypatch.setattr("widemargin.estimators.fit.proof.largest_error", lambda found, exact: 0.0)
    X, y = problem(rng, SVC())
    model = fitted(SVC(C=1e5, tol=1e-7), X, y)
    assert model.history_.rows[-1]["bits"] == 64
    assert is_exact(model, X, 1e-6)


def test_where_there_was_no_time_for_a_proof_predictions_are_as_exact(rng, monkeypatch):
    def too_late(*_):
        raise Late

    monkeypatch.setattr(Exact, "_check_time", too_late)
    X, y = problem(rng, SVC())
    model = fitted(SVC(C=1e5, max_iter=30), X, y)
    assert model.certificate_ is None
    assert is_exact(model, X, 1e-6)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_a_machine_on_a_budget_keeps_a_promise_that_its_buffer_does_not(layout, rng, monkeypatch):
    monkeypatch.setitem(precision.PROMISED, np.dtype(np.float64), 1e-9)  # float32 keeps none of it
    X, y = problem(rng, BudgetedSVC())
    model = fitted(BudgetedSVC(20, lam=1e-3, random_state=0), layout(X), y)
    assert is_exact(model, layout(X), 1e-9)


@pytest.mark.parametrize("copies", [1, 40])
def test_errors_of_equal_vectors_add_up_and_are_seen(copies, rng):
    X, y = problem(rng, SVC(), n=40)
    X, y = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    y[::3] = 1 - y[::3]  # equal rows with unlike labels, most of which end at the bound
    assert is_exact(fitted(SVC(C=1.0), X, y), X, 1e-6)


@pytest.mark.parametrize("estimator", [SVC(C=1e4, max_iter=30), SVC(), SVR(C=1e3), BudgetedSVC(20, lam=1e-5)], ids=repr)
def test_files_and_model_texts_predict_as_the_machine_that_was_fitted(estimator, tmp_path, rng):
    X, y = problem(rng, estimator)
    model = fitted(estimator, X, y)
    model.save(tmp_path / "model.npz")
    same = widemargin.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(scores(same, X), scores(model, X))
    widemargin.export(model, tmp_path / "model.txt", "libsvm")
    like, expected = widemargin.load(tmp_path / "model.txt"), scores(model, X)
    np.testing.assert_allclose(scores(like, X), expected, rtol=0, atol=1e-6 * np.ptp(expected))


def test_a_stream_is_asked_anew_after_each_part(rng):
    X, y = problem(rng, BudgetedSVC())
    model = BudgetedSVC(20, lam=1e-5, random_state=0)
    for part in np.array_split(np.arange(150), 5):
        model.partial_fit(X[part], y[part], classes=[0, 1])
        assert is_exact(model, X, 1e-6)


@pytest.mark.parametrize("estimator", [SVC(C=1e4, max_iter=30), BudgetedSVC(20, lam=1e-5)], ids=repr)
def test_a_score_does_not_depend_on_the_rows_beside_it(estimator, rng):
    X, y = problem(rng, estimator)
    model = fitted(estimator, X, y)
    chosen = rng.permutation(150)[:37]
    np.testing.assert_array_equal(scores(model, X)[chosen], scores(model, X[chosen]))


@pytest.mark.parametrize("estimator", [SVC(kernel="poly"), SVC(kernel="poly", decision_function_shape="ovo"),
                                       IncrementalSVC(kernel="poly")], ids=repr)  # fmt: skip
def test_rows_whose_scores_leave_float32_are_scored_in_float64(estimator, rng):
    X, y = (part.astype(np.float32) if part.dtype == float else part for part in problem(rng, estimator))
    model = fitted(estimator, X, y)
    near = scores(model, X)
    far = X.copy()
    far[3] = 1e20
    found = scores(model, far)
    np.testing.assert_allclose(found[3], textbook(model, far[3:4])[0], rtol=1e-3)
    np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(near, 3, axis=0))
    with pytest.raises(ValueError, match=r"scores overflow for rows of X with entries up to 1\.0e\+200: scale them"):
        model.predict(far.astype(np.float64) * 1e180)
