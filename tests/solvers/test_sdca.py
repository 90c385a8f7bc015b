"""SDCA: the optimum of LIBLINEAR, a true gap, and a state that can be saved."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC as RivalSVC

from widemargin import SDCA, LinearSVC
from widemargin.core import losses
from widemargin.core.rows import as_rows
from widemargin.problem import Problem
from widemargin.running import load_state, run, save_state
from widemargin.solvers.sdca import State


def drawn(rng, loss, sparse=False, n=120, d=5, intercept="none", C=1.0):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return Problem(rows, y, losses.Single(loss), 1.0 / (C * n), intercept=intercept), X


@pytest.mark.parametrize("sparse", [False, True])
def test_the_hinge_has_the_optimum_of_liblinear(sparse, rng):
    problem, X = drawn(rng, losses.Hinge(), sparse, intercept="regularized")
    outcome = run(SDCA(), problem, rng=rng, max_epochs=2000, tol=1e-6)
    assert outcome.stop_reason == "tol"
    rival = RivalSVC(loss="hinge", tol=1e-10, max_iter=10**6).fit(X, problem.y)
    theirs = problem.primal(rival.coef_.T, rival.intercept_)
    # ours is within its gap of the optimum, and so is not above theirs by more
    assert outcome.objective <= theirs * (1 + 1e-6)
    certificate = SDCA().certificate(problem, outcome.state)
    assert certificate.dual <= theirs * (1 + 1e-9)


def test_the_log_loss_has_the_optimum_of_logistic_regression(rng):
    problem, X = drawn(rng, losses.Log())
    outcome = run(SDCA(), problem, rng=rng, max_epochs=2000, tol=1e-6)
    rival = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10**5).fit(X, problem.y)
    theirs = problem.primal(rival.coef_.T, np.zeros(1))
    assert outcome.objective <= theirs * (1 + 1e-6)


def test_the_dual_is_never_above_any_primal_value(rng):
    problem, _ = drawn(rng, losses.Hinge(), intercept="regularized")
    solver = SDCA()
    state = solver.init(problem, rng)
    for _ in range(10):
        solver.advance(problem, state, problem.n // 3)
        certificate = solver.certificate(problem, state)
        W, b = rng.normal(size=(problem.d, 1)), rng.normal(size=1)
        assert certificate.gap >= -1e-12
        assert certificate.dual <= problem.primal(W, b) + 1e-12


def test_steps_can_be_cut_anywhere_and_a_state_goes_on_from_disk(rng, tmp_path):
    problem, _ = drawn(rng, losses.Hinge(), sparse=True, intercept="regularized")
    solver, seed = SDCA(), int(rng.integers(2**32))
    whole = solver.init(problem, np.random.default_rng(seed))
    solver.advance(problem, whole, 1000)
    part = solver.init(problem, np.random.default_rng(seed))
    solver.advance(problem, part, 333)
    save_state(tmp_path / "sdca.npz", part)
    part = load_state(tmp_path / "sdca.npz", State)
    solver.advance(problem, part, 667)
    np.testing.assert_array_equal(part.alpha, whole.alpha)
    for ours, theirs in zip(solver.weights(problem, part), solver.weights(problem, whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert part.counters == whole.counters


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_svc_stops_at_a_proven_gap(classes, rng):
    X = rng.normal(size=(150, 4))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=150), [0.0, 0.7][: classes - 1])
    model = LinearSVC(solver="sdca", tol=1e-4, max_iter=2000, random_state=0).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert 0.0 <= model.certificate_.relative_gap <= 1e-4
    rival = RivalSVC(loss="hinge", tol=1e-10, max_iter=10**6).fit(X, y)
    # both are near the optimum, so they disagree next to the boundary only
    assert np.mean(model.predict(X) == rival.predict(X)) > 0.97


def test_linear_svc_goes_on_from_its_dual_variables(rng):
    X = rng.normal(size=(150, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=150) > 0
    model = LinearSVC(solver="sdca", tol=0, max_iter=2, warm_start=True, random_state=0).fit(X, y)
    before = model.certificate_.dual
    assert model.fit(X, y).certificate_.dual >= before - 1e-9
    with pytest.raises(ValueError, match="pegasos"):
        model.partial_fit(X, y)


def test_a_free_intercept_is_refused(rng):
    problem, _ = drawn(rng, losses.Hinge(), intercept="unregularized")
    with pytest.raises(ValueError, match=r"'regularized' and 'none', got 'unregularized'"):
        SDCA().init(problem, rng)
