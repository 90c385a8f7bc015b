"""What a fitted linear machine says of itself is so: its certificate, recomputed from its weights with more digits, and
the reason why training ended.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import SVC, LinearSVC, LinearSVR

CLASSES, REGRESSION = ("hinge", "squared_hinge", "log"), ("epsilon_insensitive", "squared_epsilon_insensitive")
INTERCEPTS = ("regularized", "unregularized", "none")
DATA = ("plain", "offset", "scaled", "weights")
EPSILON = 0.1
Exact = np.longdouble


def drawn(rng, data, regression, n=40, d=3):
    """(X, y, weights or None) of a problem that is noisy."""
    X = rng.normal(size=(n, d))
    z = X @ rng.normal(size=d) + 0.7 * rng.normal(size=n)
    y = z if regression else np.where(z > np.quantile(z, rng.uniform(0.3, 0.7)), 1.0, -1.0)
    if data == "offset":
        X += 1e8
    if data == "scaled":
        X *= np.logspace(-6, 6, d)
    if data == "sparse":
        X = sp.csr_matrix(X * (rng.random((n, d)) < 0.5))
    return X, y, rng.integers(0, 3, n) + 0.5 if data == "weights" else None


def exact_objective(model, X, y, weights):
    """The objective as the page defines it, at the model's coefficients, in extended precision."""
    X = (X.toarray() if sp.issparse(X) else X).astype(Exact)
    w, b, n = np.ravel(model.coef_).astype(Exact), Exact(model.intercept_[0]), y.size
    z, y = X @ w + b, y.astype(Exact)
    if model.loss == "log":
        loss = np.logaddexp(Exact(0), -y * z)
    else:
        excess = np.abs(z - y) - Exact(EPSILON) if model.loss in REGRESSION else 1 - y * z
        loss = np.maximum(0, excess) ** (2 if "squared" in model.loss else 1)
    norm2 = w @ w + (b * b if model.intercept == "regularized" else 0)
    s = np.ones(n) if weights is None else weights
    return norm2 / (2 * Exact(model.C) * n) + (s * loss).sum() / n


def fits(solver, loss, intercept):
    """Whether the solver has the loss and the intercept."""
    return solver != "simba" or (loss == "hinge" and intercept != "exact")


@pytest.mark.parametrize("data", [*DATA, "sparse"])
@pytest.mark.parametrize("loss", [*CLASSES, *REGRESSION])
def test_tol_means_a_true_gap_of_at_most_tol(loss, data, rng):
    """No fit of any solver says "tol" above tol, and no dual value is above the objective of another solver's model."""
    if data == "sparse" and loss not in ("hinge", "squared_epsilon_insensitive"):
        data = "weights"  # kinds of loops cost seconds each
    estimator = LinearSVR if loss in REGRESSION else LinearSVC
    options = {"epsilon": EPSILON} if loss in REGRESSION else {}
    for intercept in INTERCEPTS:
        X, y, weights = drawn(rng, data, loss in REGRESSION)
        C, found = 10.0 ** rng.uniform(-4, 12), []
        for solver in filter(
            lambda name: fits(name, loss, intercept), ("auto", "sdca", "interior", "pegasos", "simba")
        ):
            tol = 10.0 ** rng.uniform(-12, -2)
            model = estimator(
                C=C, loss=loss, intercept=intercept, solver=solver, tol=tol, max_iter=50, random_state=0, **options
            )
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                model.fit(X, y, weights)
            primal, certificate = exact_objective(model, X, y, weights), model.certificate_
            found.append((primal, certificate.dual))
            if model.stop_reason_ == "tol":
                assert primal - certificate.dual <= tol * primal
                assert certificate.relative_gap <= tol
            elif certificate.relative_gap > (0.5 if solver in ("pegasos", "simba") else tol):
                assert told, model.stop_reason_  # never silently
        assert max(dual for _, dual in found) <= min(primal for primal, _ in found)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", [*CLASSES, *REGRESSION])
def test_rows_far_from_the_origin_are_learnt_as_those_at_it(loss, intercept, rng):
    """Where the intercept is free the optimum is that of centred rows."""
    estimator = LinearSVR if loss in REGRESSION else LinearSVC
    X, y, _ = drawn(rng, "plain", loss in REGRESSION)
    far = X + 1e8
    X = far - 1e8  # as far keeps them
    options = {"C": 10.0 ** rng.uniform(-1, 1), "loss": loss, "tol": 1e-4, "max_iter": 10**6, "random_state": 0}
    model = estimator(intercept=intercept, **options).fit(far, y)
    near = estimator(intercept="unregularized", **options).fit(X, y)
    assert model.stop_reason_ == near.stop_reason_ == "tol"
    slack = 1e-7 * near.certificate_.primal  # far-out rows have eight digits less behind the point
    assert model.certificate_.primal >= near.certificate_.dual - slack
    if intercept == "unregularized":
        assert near.certificate_.primal >= model.certificate_.dual - slack


def test_a_gap_that_rounding_does_not_allow_is_called_precision_in_a_sentence(rng):
    X, y, _ = drawn(rng, "offset", False)
    with pytest.warns(UserWarning, match=r"rounding allows none of tol=1e-14 \(stop_reason_='precision'\)"):
        model = LinearSVC(tol=1e-14, solver="interior", random_state=0).fit(X, y)
    assert model.stop_reason_ == "precision"
    assert model.certificate_.relative_gap > 1e-14


@pytest.mark.parametrize("solver", ["sdca", "interior"])
@pytest.mark.parametrize("limit", [{"max_iter": 4}, {"max_seconds": 0.05}])
def test_the_gap_that_a_warning_says_is_that_of_the_certificate(limit, solver, rng):
    X = rng.normal(size=(10_000, 20))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = LinearSVC(C=100.0, tol=1e-14, solver=solver, **limit).fit(X, X[:, 0] * X[:, 1] > 0.0)
    spoken = [str(each.message) for each in said if "relative duality gap" in str(each.message)]
    assert len(spoken) == 1
    assert f"gap of {model.certificate_.relative_gap:.1e}, short of tol=1e-14" in spoken[0]
    assert [type(value) for value in model.certificate_] == [float, float, float]


@pytest.mark.parametrize("solver", ["sdca", "interior"])
def test_no_digit_of_a_free_intercept_is_lost_to_the_targets_size(solver, rng):
    X, y, _ = drawn(rng, "plain", True)
    options = {
        "epsilon": EPSILON,
        "intercept": "unregularized",
        "solver": solver,
        "tol": 1e-4,
        "random_state": 0,
        "C": 0.1,
    }
    at_zero, far = (LinearSVR(**options).fit(X, y + shift) for shift in (0.0, 1e6))
    assert far.stop_reason_ == "tol"
    assert far.certificate_.primal == pytest.approx(at_zero.certificate_.primal, rel=2e-4)


def test_the_smaller_tol_the_smaller_the_gap_that_auto_reaches(rng):
    X, y, _ = drawn(rng, "plain", False, n=100)
    C, tols = 10.0 ** rng.uniform(-1, 2), 10.0 ** -np.arange(2.0, 13.0)
    gaps = [LinearSVC(C=C, tol=tol, random_state=0).fit(4.0 * X, y).certificate_.relative_gap for tol in tols]
    for k in range(1, tols.size):
        assert gaps[k] <= max(tols[k], min(gaps[:k]))


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_parts_go_on_from_a_fit_to_rows_far_from_the_origin(intercept, rng):
    """The fit was made in other coordinates; one more example is a small step from its weights."""
    X, y, _ = drawn(rng, "plain", False)
    model = LinearSVC(solver="pegasos", intercept=intercept, max_iter=50, random_state=0).fit(X + 1e6, y)
    before, coef = model.decision_function(X + 1e6), model.coef_.copy()
    model.partial_fit(X[:1] + 1e6, y[:1])
    assert np.abs(model.coef_ - coef).max() <= 0.1 * np.abs(coef).max()
    assert np.corrcoef(model.decision_function(X + 1e6), before)[0, 1] > 0.9


@pytest.mark.parametrize("estimator", [LinearSVC, LinearSVR])
def test_streams_and_warm_starts_of_rows_far_from_the_origin_are_not_silent(estimator, rng):
    X, y, _ = drawn(rng, "offset", estimator is LinearSVR)
    options = {"classes": [-1.0, 1.0]} if estimator is LinearSVC else {}
    with pytest.warns(UserWarning, match="subtract the same row"):
        estimator(random_state=0).partial_fit(X, y, **options)
    with pytest.warns(UserWarning, match="relative duality gap"):
        model = estimator(warm_start=True, max_iter=50, random_state=0).fit(X, y)
    assert model.stop_reason_ != "tol"


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_tol_of_three_classes_is_a_true_gap_of_their_sum(loss, intercept, rng):
    X, _, weights = drawn(rng, rng.choice(["plain", "weights"]), False)
    y = (X @ rng.normal(size=(3, 3)) + 0.7 * rng.normal(size=(len(X), 3))).argmax(axis=1)
    y[:3] = range(3)
    C, found = 10.0 ** rng.uniform(-4, 12), []
    for solver in ("auto", "sdca", "interior"):
        tol = 10.0 ** rng.uniform(-12, -2)
        model = LinearSVC(C=C, loss=loss, intercept=intercept, solver=solver, tol=tol, max_iter=50, random_state=0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(X, y, weights)
        primal = Exact(0)
        for c in range(3):
            own = LinearSVC(C=C, loss=loss, intercept=intercept)
            own.coef_, own.intercept_ = model.coef_[c], model.intercept_[c : c + 1]
            primal += exact_objective(own, X, np.where(y == c, 1.0, -1.0), weights)
        certificate = model.certificate_
        found.append((primal, certificate.dual))
        if model.stop_reason_ == "tol":
            assert primal - certificate.dual <= tol * primal
        else:
            assert told, model.stop_reason_
    assert max(dual for _, dual in found) <= min(primal for primal, _ in found)


@pytest.mark.parametrize("solver", ["smo", "sbp"])
def test_tol_of_a_kernel_machine_of_three_classes_is_that_of_each_of_its_problems(solver, rng):
    X = rng.normal(size=(45, 3))
    y = (X[:, :3] + 0.7 * rng.normal(size=(45, 3))).argmax(axis=1)
    y[:3] = range(3)
    C, tol = 10.0 ** rng.uniform(-4, 12), 10.0 ** rng.uniform(-12, -2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = SVC(C=C, tol=tol, solver=solver, max_iter=20, random_state=0).fit(X, y)
    if model.stop_reason_ == "tol":
        assert all(each.relative_gap <= tol for each in model.certificate_)
    else:
        assert told, model.stop_reason_
