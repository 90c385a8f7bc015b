"""What kernel machines say of themselves is so: certificates, and the reason why training ended."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from certificates import ALLOWED, values
from widemargin import SVC, SVR


def relative_gaps(model):
    found = model.certificate_
    return [c.relative_gap for c in ([found] if hasattr(found, "gap") else found)]


def is_true(model, X, y, weights=None):
    """Whether the certificate holds for the data in longdouble, and the reason for the certificate."""
    primal, dual = values(model, X, y, weights)
    certificate, slack = model.certificate_, ALLOWED * float(primal)
    assert certificate.primal >= primal - slack
    assert certificate.dual <= max(dual, 0.0) + slack
    assert model.stop_reason_ != "tol" or certificate.relative_gap <= model.tol


@pytest.mark.parametrize("solver", ["smo", "sbp", "sdca", "pegasos", "perceptron"])
def test_no_reason_is_tol_above_tol_and_no_certificate_claims_too_much(solver, rng):
    free = ["unregularized"] if solver in ("smo", "sbp") else []
    for _ in range(12):
        X, weights = rng.normal(size=(40, 3)), 10.0 ** rng.uniform(-1, 1, 40)
        t = X[:, 0] + rng.normal(size=40)
        estimator = SVR if solver in ("smo", "sdca") and rng.random() < 0.3 else SVC
        y = t if estimator is SVR else np.where(t > 0, 1.0, -1.0)
        model = estimator(
            C=10.0 ** rng.uniform(-4, 12), tol=10.0 ** rng.uniform(-12, -2), solver=solver, max_iter=100, gamma=0.3,
            intercept=str(rng.choice([*free, "none"])),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y, weights)
        primal, _ = values(model, X, y, weights)
        assert model.certificate_.primal >= float(primal) * (1.0 - ALLOWED)
        assert model.stop_reason_ != "tol" or model.certificate_.relative_gap <= model.tol
        if solver in ("pegasos", "perceptron"):
            is_true(model, X, y, weights)


def test_a_gap_that_float32_does_not_allow_is_closed_in_float64_and_the_history_says_so():
    X, y = load_iris(return_X_y=True)
    model = SVC(tol=1e-9).fit(X[50:], y[50:])
    assert model.stop_reason_ == "tol"
    assert model.certificate_.relative_gap <= 1e-9
    assert model.history_.rows[-1]["bits"] == 64
    is_true(model, X[50:], np.where(y[50:] == 2, 1.0, -1.0))
    assert max(relative_gaps(SVC(tol=1e-9).fit(X, y))) <= 1e-9


@pytest.mark.parametrize("C", [1e8, 1e12])
def test_a_gap_that_no_arithmetic_here_allows_is_precision_with_one_sentence(C, rng):
    X = rng.normal(size=(200, 5))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0, 1.0, -1.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = SVC(C=C, gamma=0.5).fit(X, y)
    is_true(model, X, y)
    if model.stop_reason_ == "precision":
        assert len(said) == 1
        assert f"{model.certificate_.relative_gap:.1e}" in str(said[0].message)
    assert C < 1e12 or model.stop_reason_ == "precision"


def test_weighted_data_under_a_linear_kernel_certifies_no_dual_value_above_the_optimum(rng):
    for _ in range(5):
        X, weights = rng.normal(size=(60, 3)), 10.0 ** rng.uniform(-2, 2, 60)
        y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0)
        model, tight = (
            SVC(kernel="linear", intercept="none", tol=tol).fit(X, y, weights) for tol in (1e-5, 1e-8)
        )  # fmt: skip
        is_true(model, X, y, weights)
        assert model.certificate_.dual <= tight.certificate_.primal
        assert tight.certificate_.dual <= model.certificate_.primal


def test_all_pairs_of_many_classes_reach_a_small_tol(rng):
    y = np.repeat(np.arange(10), 12)
    X = rng.normal(size=(10, 4))[y] + rng.normal(size=(y.size, 4))
    model = SVC(C=10.0, gamma=0.5, tol=1e-6).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert max(relative_gaps(model)) <= 1e-6
    for p, (i, j) in enumerate(combinations(range(10), 2)):
        if p % 9 == 0:
            own = (y == i) | (y == j)
            alone = SVC(C=10.0, gamma=0.5, tol=1e-6).fit(X[own], y[own])
            assert model.certificate_[p].dual <= alone.certificate_.primal * (1.0 + ALLOWED)


def test_a_certificate_by_a_sample_is_one_of_the_data(rng, monkeypatch):
    X = rng.normal(size=(900, 3))
    y = np.where(X[:, 0] + rng.normal(size=900) > 0, 1.0, -1.0)
    model = SVC(gamma=0.5).fit(X, y)
    is_true(model, X, y)
    monkeypatch.setattr("widemargin.estimators.proof.FEW", 10**6)
    whole = SVC(gamma=0.5).fit(X, y).certificate_
    assert whole.primal < model.certificate_.primal < whole.primal * (1.0 + 1e-4)
    assert whole.dual > model.certificate_.dual > whole.dual * (1.0 - 2e-4)
