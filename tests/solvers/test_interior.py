"""The interior-point solver: its optimum against others' and by its conditions, on features of any size."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from widemargin import SDCA, Interior, LinearSVC, LinearSVR
from widemargin.core.losses import (
    EpsilonInsensitive,
    Hinge,
    Log,
    MulticlassHinge,
    OneVsRest,
    Single,
    SquaredEpsilon,
    SquaredHinge,
)
from widemargin.core.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.running import load_state, run, save_state

LOSSES = [Hinge(), SquaredHinge(), EpsilonInsensitive(0.2), SquaredEpsilon(0.2)]
INTERCEPTS = ["none", "regularized", "unregularized"]
by_name = {"ids": lambda value: type(value).__name__ if hasattr(value, "_fields") else str(value)}


def make(rng, loss, n=60, d=4, *, C=3.0, intercept="none", weighted=False, sizes=1.0):
    X = rng.normal(size=(n, d)) + 1.0
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    if isinstance(loss, (Hinge, SquaredHinge)):
        y = np.where(y > np.median(y), 1.0, -1.0)
    weights = rng.uniform(0.0, 2.0, n) * (rng.random(n) > 0.1) if weighted else np.empty(0)
    return Problem(as_rows(X * sizes), y, Single(loss), 1.0 / (C * n), weights, intercept)


def solved(problem, tol=1e-8):
    outcome = run(Interior(), problem, tol=tol, max_epochs=100)
    assert outcome.stop_reason == "tol"
    return outcome


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_the_optimum_is_that_of_dual_ascent(loss, intercept, weighted, rng):
    problem = make(rng, loss, intercept=intercept, weighted=weighted)
    ours, theirs = solved(problem), run(SDCA(), problem, rng=rng, tol=1e-6, max_epochs=1e6)
    assert theirs.stop_reason == "tol"
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)
    np.testing.assert_allclose(ours.W, theirs.W, atol=1e-2 * np.abs(theirs.W).max())


@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_with_a_free_intercept_no_step_in_any_direction_is_better(loss, rng):
    problem = make(rng, loss, intercept="unregularized", weighted=True)
    outcome = solved(problem)
    best = outcome.objective
    for _ in range(50):
        change = rng.normal(size=(problem.d + 1)) * 10.0 ** rng.uniform(-4, 0)
        W, b = outcome.W + change[:-1, None], outcome.b + change[-1]
        assert problem.primal(W, b) >= best * (1.0 - 1e-8)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_the_gap_bounds_the_distance_to_the_optimum_after_every_step(loss, intercept, rng):
    problem = make(rng, loss, intercept=intercept, weighted=True)
    best = solved(problem).objective
    solver = Interior()
    state = solver.init(problem)
    for _ in range(12):
        primal, dual, gap = solver.certificate(problem, state)
        assert dual <= best * (1.0 + 1e-9)
        assert gap >= primal - best - 1e-9 * best
        solver.advance(problem, state, 5)
    assert state.counters.steps == 12


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_features_of_very_different_sizes_are_no_hindrance(loss, intercept, rng):
    """Without regularisation to speak of, the objective does not depend on the units of the features."""
    seed = int(rng.integers(2**32))
    sizes = 10.0 ** np.array([0.0, 2.0, 4.0, 6.0])
    plain, raw = (
        solved(make(np.random.default_rng(seed), loss, n=300, C=1e4, intercept=intercept, sizes=size), 1e-6)
        for size in (1.0, sizes)
    )
    assert raw.history["steps"][-1] <= 60
    assert raw.objective <= plain.objective * (1.0 + 1e-4)


def test_sparse_rows_several_classes_and_float32_have_the_same_optimum(rng):
    X, y = rng.normal(size=(90, 5)).astype(np.float32), rng.integers(0, 3, 90)
    X[rng.random(X.shape) < 0.5] = 0.0
    target, lam = OneVsRest(Hinge(), np.ones(3)), 1.0 / 90
    problems = [
        Problem(as_rows(rows), y.astype(float), target, lam, np.empty(0), "regularized", 3)
        for rows in (X, sp.csr_matrix(X), X.astype(np.float64))
    ]
    outcomes = [solved(problem, 1e-6) for problem in problems]
    apart = [
        solved(Problem(as_rows(X), np.where(y == c, 1.0, -1.0), Single(Hinge()), lam, np.empty(0), "regularized"), 1e-6)
        for c in range(3)
    ]
    for outcome in outcomes:
        assert outcome.objective == pytest.approx(sum(part.objective for part in apart), rel=1e-5)


def test_a_saved_state_goes_on_as_if_nothing_had_happened(rng, tmp_path):
    problem, solver = make(rng, Hinge(), intercept="unregularized"), Interior()
    whole, halted = solver.init(problem), solver.init(problem)
    for _ in range(3):
        solver.advance(problem, halted, 1)
    save_state(tmp_path / "state.npz", halted)
    halted = load_state(tmp_path / "state.npz")
    for _ in range(8):
        solver.advance(problem, whole, 1)
    for _ in range(5):
        solver.advance(problem, halted, 1)
    assert whole.alpha.tobytes() == halted.alpha.tobytes()
    assert whole.w.tobytes() == halted.w.tobytes()
    assert whole.counters == halted.counters


def test_looking_changes_nothing(rng):
    problem, solver = make(rng, Hinge(), intercept="unregularized"), Interior()
    state = solver.init(problem)
    solver.advance(problem, state, 1)
    before = [np.copy(part) for part in (state.alpha, state.lower, state.upper, state.w, state.b)]
    solver.evaluate(problem, state, solver.model(problem, state))
    for old, new in zip(before, (state.alpha, state.lower, state.upper, state.w, state.b), strict=True):
        np.testing.assert_array_equal(old, new)


def test_what_it_cannot_solve_is_a_sentence(rng):
    problem = make(rng, Hinge())
    with pytest.raises(ValueError, match="as many equations as there are features, at most 3, got 4"):
        Interior(max_features=3).init(problem)
    with pytest.raises(ValueError, match="the intercepts 'regularized', 'unregularized' and 'none', got 'exact'"):
        Interior().init(make(rng, Hinge(), intercept="exact"))
    for target, outputs in ((Single(Log()), 1), (MulticlassHinge(1.0 - np.eye(2)), 2)):
        y = np.where(problem.y > 0, 1.0, 0.0 if outputs == 2 else -1.0)
        with pytest.raises(ValueError, match="has the hinge, the ε-insensitive loss and their squares"):
            Interior().init(Problem(problem.X, y, target, 0.1, np.empty(0), "none", outputs))


def test_estimators_solve_raw_features_and_dual_ascent_names_the_solver_that_does(rng):
    X = rng.normal(size=(400, 3)) * [1.0, 1e3, 1e6] + [0.0, 1e4, 1e6]
    y = X @ [1.0, 1e-3, 1e-6] + 0.1 * rng.normal(size=400)
    with pytest.warns(ConvergenceWarning, match="solver='interior'"):
        LinearSVR(solver="sdca", max_iter=20).fit(X, y)
    model = LinearSVR(solver="interior", tol=1e-6).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert model.certificate_.relative_gap <= 1e-6
    assert model.score(X, y) > 0.9
    assert not hasattr(model, "partial_fit")
    labels = np.where(y > np.median(y), "yes", "no")
    classifier = LinearSVC(C=100.0, solver=Interior(), intercept="unregularized", warm_start=True)
    assert classifier.fit(X, labels).fit(X, labels).score(X, labels) > 0.9
