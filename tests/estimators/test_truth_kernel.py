"""What kernel machines say of themselves is so: certificates, and the reason why training ended."""

import warnings
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from certificates import ALLOWED, values
from widemargin import SVC, SVR
from widemargin.estimators.fit.proof import Exact
from widemargin.estimators.fit.session import at_least_nothing
from widemargin.problems.objective import Certificate


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
    is_true(model, X[50:], y[50:])
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


def test_problems_that_end_for_other_reasons_than_the_worst_one_say_theirs():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = SVC(C=1e60).fit(*load_iris(return_X_y=True))
    for sentence in (str(each.message) for each in said):
        if "short of tol" in sentence:  # not by rounding
            assert "'precision'" not in sentence
            assert f"stop_reason_={model.stop_reason_!r}" in sentence or "of 3 binary problems, 'max_iter'" in sentence


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
    monkeypatch.setattr("widemargin.estimators.fit.proof.SAMPLES", ())
    whole = SVC(gamma=0.5).fit(X, y).certificate_
    assert whole.primal < model.certificate_.primal < whole.primal * (1.0 + 1e-4)
    assert whole.dual > model.certificate_.dual > whole.dual * (1.0 - 2e-4)


@pytest.mark.parametrize(("share", "suffices"), [(0.09, True), (0.11, False)])
def test_a_sample_suffices_where_what_it_leaves_open_is_a_tenth_of_tol(share, suffices, rng, monkeypatch):
    model, gap = SVC(gamma=0.5, tol=1e-2), 1.0
    while gap > 0.85 * model.tol:  # with what the sample leaves open it is to stay below tol
        X = rng.normal(size=(700, 3))
        y = np.where(X[:, 0] + rng.normal(size=700) > 0, 1.0, -1.0)
        with monkeypatch.context() as all_of_them:
            all_of_them.setattr("widemargin.estimators.fit.proof.SAMPLES", ())
            exact = model.fit(X, y).certificate_
        gap = exact.relative_gap
    off = share * model.tol * exact.primal
    monkeypatch.setattr(Exact, "_sampled", lambda *_: [np.array([off, 0.0])])
    assert (model.fit(X, y).certificate_.primal > exact.primal + 0.5 * off) == suffices


def test_a_sample_that_would_leave_the_gap_above_tol_does_not_suffice(rng, monkeypatch):
    X = rng.normal(size=(700, 3))
    y = np.where(X[:, 0] + rng.normal(size=700) > 0, 1.0, -1.0)
    with monkeypatch.context() as all_of_them:
        all_of_them.setattr("widemargin.estimators.fit.proof.SAMPLES", ())
        exact = SVC(gamma=0.5).fit(X, y).certificate_
    monkeypatch.setattr("widemargin.estimators.fit.proof.SHARE", 10.0)  # so that this alone decides
    monkeypatch.setattr(Exact, "_sampled", lambda *_: [np.array([1e-3 * exact.primal, 0.0])])
    model = SVC(gamma=0.5).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert model.certificate_.primal == exact.primal


def test_where_no_model_at_all_is_better_that_is_what_an_exact_solver_gives():
    zero = SimpleNamespace(at_zero=lambda: (1.0, "nothing"))
    for primal, dual, reason, expected in (
        (1.5, 0.2, "max_iter", ("nothing", 1.0, "max_iter")), (0.9, 0.2, "max_iter", ("own", 0.9, "max_iter")),
        (5.0, 1.0 - 1e-4, "precision", ("nothing", 1.0, "tol")), (0.9, 0.2, "precision", ("own", 0.9, "precision")),
    ):  # fmt: skip
        outcome = SimpleNamespace(model="own", stop_reason=reason)
        found = at_least_nothing(1e-3, True, zero, outcome, Certificate(primal, dual, primal - dual))
        assert (outcome.model, found.primal, outcome.stop_reason) == expected
        assert found.dual == dual
        assert found.gap == found.primal - dual


@pytest.mark.parametrize("n", [40, 512])
def test_of_few_examples_all_scores_are_computed(n, rng, monkeypatch):
    X, scored, scores = rng.normal(size=(n, 3)), [], Exact.scores
    monkeypatch.setattr(Exact, "scores", lambda exact, model, rows: scored.append(rows) or scores(exact, model, rows))
    SVC(C=1e-3).fit(X, np.where(X[:, 0] > 1.0, 1.0, -1.0))
    np.testing.assert_array_equal(np.sort(np.concatenate(scored)), np.arange(n))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("intercept", ["unregularized", "regularized", "none"])
def test_certificates_of_small_pairs_are_those_of_each_pair_alone(intercept, kernel, rng):
    """The textbook's primal value and that of the best multiple of β, of each pair's own examples and weights."""
    y = np.repeat(np.arange(6), rng.integers(3, 30, 6))
    X, s = rng.normal(size=(6, 4))[y] + rng.normal(size=(y.size, 4)), rng.uniform(0.1, 10.0, y.size)
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2)) if kernel == "rbf" else X @ X.T
    model = SVC(C=10.0 ** rng.uniform(-2, 2), kernel=kernel, gamma=0.5, intercept=intercept)
    model.fit(K if kernel == "precomputed" else X, y, s)
    machines, constant = model._model.whole(), float(intercept == "regularized")
    for p, (i, j) in enumerate(combinations(range(6), 2)):
        own, beta = np.isin(y, (i, j)), np.zeros(y.size)
        beta[machines.support] = machines.coef[p]
        beta, cap, sign = beta[own], model.C * s[own], np.where(y[own] == i, 1.0, -1.0)
        f = (K[np.ix_(own, own)] + constant) @ beta
        bias = model.intercept_[p]
        norm2 = beta @ f + (bias - constant * beta.sum()) * (bias + constant * beta.sum()) * constant
        losses = cap @ np.maximum(0.0, 1.0 - sign * (f - constant * beta.sum() + bias))
        lam = 1.0 / (model.C * own.sum())
        primal = lam * (0.5 * norm2 + losses)
        assert primal * (1.0 - 1e-12) <= model.certificate_[p].primal <= primal * (1.0 + 1e-6)
        used = beta != 0.0
        theta = min((cap[used] / np.abs(beta[used])).min(), np.abs(beta).sum() / (beta @ f)) if used.any() else 0.0
        dual = lam * (theta * np.abs(beta).sum() - 0.5 * theta**2 * (beta @ f))
        most = dual if used.any() else primal  # w = 0 has the dual value of the machine whose place it takes
        assert dual - 1e-6 * primal <= model.certificate_[p].dual <= most + 1e-12 * primal


@pytest.mark.parametrize("solver", ["smo", "sbp", "pegasos"])
def test_no_finite_C_is_refused_or_overflows(solver, rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        model = SVC(C=1e300, solver=solver, intercept="none", max_iter=5, random_state=0).fit(X, y)
    assert np.isfinite(model.history_["objective"]).all()
    assert model.stop_reason_ != "tol" or model.certificate_.relative_gap <= model.tol
