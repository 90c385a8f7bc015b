"""SIMBA against the textbook, its estimates without bias, its sums after many steps, and its counts."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from reference.simba import chances, simba, slack
from widemargin.core import losses
from widemargin.core.columns import as_columns
from widemargin.core.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.running import run
from widemargin.solvers import make
from widemargin.solvers.simba import DUALS, PRIMALS, RULES, Scratch, Simba, give_slack

HINGE = losses.Single(losses.Hinge())


def data(rng, n=60, d=25, density=0.4):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[:, 0] += 0.1
    return X, np.where(X @ rng.normal(size=d) + 0.2 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def problem_of(X, y, sparse=False, intercept="none", lam=0.01, **more):
    return Problem(as_rows(sp.csr_matrix(X) if sparse else X), y, HINGE, lam, intercept=intercept, **more)


def distribution(state):
    q = np.sum(state.q[0] * state.scale[0][:, None], axis=0)
    return q / q.sum()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", ["none", "unregularized", "regularized"])
@pytest.mark.parametrize(("primal", "dual", "rule", "rate"), [
    ("adaptive", "quadratic", "squared", "adaptive"), ("averaging", "exponential", "absolute", "adaptive"),
    ("fixed", "quadratic", "scaled", "fixed"), ("fixed", "exponential", "squared", "adaptive"),
    ("averaging", "quadratic", "scaled", "fixed"), ("adaptive", "exponential", "absolute", "fixed"),
])  # fmt: skip
def test_steps_are_those_of_the_textbook(rng, sparse, intercept, primal, dual, rule, rate):
    X, y = data(rng)
    T, nu = 300, float(rng.choice([0.0, 0.01, 0.1]))
    problem = problem_of(X, y, sparse, intercept)
    solver = Simba(nu, primal, dual, rate, rule, horizon=T)
    seed = int(rng.integers(2**32))
    state = solver.init(problem, np.random.default_rng(seed))
    solver.advance(problem, state, 100)
    solver.advance(problem, state, T - 100)
    constant = np.ones((y.size, int(intercept == "regularized")))
    Z = np.hstack([X, constant]) / state.size
    assert np.linalg.norm(Z, axis=1).max() == pytest.approx(1.0)
    order = np.argsort(y < 0, kind="stable") if sparse and intercept != "none" else np.arange(y.size)
    w, b, p = simba(
        Z[order], y[order], nu, np.random.default_rng(seed).random((T, 2)), primal=primal, dual=dual, rate=rate,
        rule=rule, bias=intercept == "unregularized", rms=np.sqrt(np.mean(np.hstack([X, constant]) ** 2, axis=0)),
    )  # fmt: skip
    own, own_b, alpha = solver.averages(state)
    np.testing.assert_allclose(own[0], w, atol=1e-9)
    assert own_b[0] == pytest.approx(b, abs=1e-12)
    np.testing.assert_allclose(distribution(state)[order], p, atol=1e-9)
    np.testing.assert_allclose(Z.T @ (alpha[0] * y), w, atol=1e-9)


@pytest.mark.parametrize(("primal", "dual", "rule"), list(itertools.product(PRIMALS, DUALS, RULES))[::4])
def test_dense_and_sparse_rows_take_the_same_steps(rng, primal, dual, rule):
    X, y = data(rng)
    seed, found = int(rng.integers(2**32)), []
    for sparse in (False, True):
        problem = problem_of(X, y, sparse)
        solver = Simba(0.02, primal, dual, columns=rule, horizon=500, rows_per_step=3, columns_per_step=2)
        state = solver.init(problem, np.random.default_rng(seed))
        solver.advance(problem, state, 500)
        found.append((*solver.averages(state)[:2], distribution(state)))
    for dense, thin in zip(*found, strict=True):
        np.testing.assert_allclose(dense, thin, atol=1e-9)


def test_a_weight_counts_as_so_many_copies(rng):
    """The mean over many runs of p after a few steps is the same for copies as for a weight."""
    X, y = data(rng, 12, 5, 1.0)
    s = rng.integers(1, 4, y.size)
    copies = np.repeat(np.arange(y.size), s)
    means = []
    for problem in (problem_of(X, y, sample_weight=s.astype(float)), problem_of(X[copies], y[copies])):
        solver = Simba(3.0 / problem.n, size=10.0)  # the same slack in all
        total = []
        for _ in range(400):
            state = solver.init(problem, rng)
            solver.advance(problem, state, 8)
            p = distribution(state)
            total.append(p * s / (p @ s) if p.size == y.size else np.bincount(copies, p))
        means.append((np.mean(total, axis=0), np.std(total, axis=0) / 20.0))
    (first, wide), (second, wide2) = means
    assert (np.abs(first - second) <= 6.0 * np.hypot(wide, wide2) + 1e-12).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_the_dual_estimate_has_no_bias_before_it_is_clipped(rng, rule, sparse):
    """E[zᵢ(j) w_j/P(j)] = ⟨w, zᵢ⟩, exactly, as a sum over the columns with the chances that draws have."""
    X, y = data(rng)
    problem = problem_of(X, y, sparse)
    solver = Simba(0.01, columns=rule)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 50)
    space = state.workspace[1]
    weights = space.directions[0].sampler.weights
    P = weights / weights.sum()
    np.testing.assert_allclose(P, chances(state.sums[0], rule, state.rms if state.rms.size else 1.0), rtol=1e-9)
    w = state.sums[0] / max(1.0, np.linalg.norm(state.sums[0]))
    Z = y[:, None] * X / state.size
    drawn = P > 0.0
    estimate = (Z[:, drawn] * (w[drawn] / P[drawn])) @ P[drawn]
    np.testing.assert_allclose(estimate, Z @ w, atol=1e-12)
    # a column that cannot be drawn adds nothing, and the second moment is what the rule promises
    if rule == "squared":
        second = ((Z[:, drawn] * (w[drawn] / P[drawn])) ** 2) @ P[drawn]
        assert (second <= (w @ w) * np.sum(Z * Z, axis=1) + 1e-12).all()


def test_slack_goes_to_the_most_important_and_equal_ones_share_it(rng):
    for _ in range(50):
        n = int(rng.integers(1, 40))
        q = rng.choice([0.5, 1.0, 2.0, *rng.random(3)], n)
        X, y = data(rng, n, 3)
        problem = problem_of(X, y)
        solver = Simba(0.1, size=100.0)
        state = solver.init(problem, rng)
        state.q[0, 0] = q
        space = solver._workspace(problem, state)
        mass, threshold = float(rng.uniform(0.0, n)), float(rng.choice([0.0, 0.3, 5.0]))
        scratch = Scratch(*(part.copy() for part in space.scratch))
        count, _ = give_slack(space.examples[0], mass, threshold, scratch)
        np.testing.assert_allclose(scratch.v, slack(q / q.sum(), mass), atol=1e-9)
        assert sorted(scratch.touched[:count]) == np.flatnonzero(scratch.v).tolist()


def test_importance_stays_a_distribution_for_a_million_steps(rng):
    X, y = data(rng, 40, 6)
    y[:4] *= -1.0
    for intercept, dual in (("none", "quadratic"), ("unregularized", "exponential")):
        problem = problem_of(X, y, True, intercept)
        solver = Simba(0.05, dual=dual)
        state = solver.init(problem, rng)
        solver.advance(problem, state, 500_000)
        space = state.workspace[1]
        p = distribution(state)
        assert np.isfinite(p).all()
        assert (p > 0.0).all()
        for g in range(state.q.shape[1]):
            sampler = (space.examples[0].first, space.examples[0].second)[g].sampler
            assert sampler.coarse.sum() == pytest.approx(state.q[0, g].sum(), rel=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_reads_are_counted(rng, sparse):
    X, y = data(rng)
    problem = problem_of(X, y, sparse)
    solver = Simba(0.01)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 25)
    n, d = X.shape
    counters = state.counters
    assert counters.feature_reads_dense == 25 * (n + d)
    stored = X != 0.0 if sparse else np.ones_like(X, bool)
    read = (state.rows_read[:, None] | state.columns_read[None, :]) & stored
    assert counters.first_reads == read.sum()
    assert counters.feature_reads >= counters.first_reads
    assert counters.preparation_reads == 2 * stored.sum()
    given = Simba(0.01, size=state.size, level_sample=10)
    assert given.init(problem, rng).counters.preparation_reads <= (10 * d)


def test_it_learns_and_its_certificate_is_true(rng):
    X, y = data(rng, 400, 30, 1.0)
    for intercept, sparse in (("none", False), ("regularized", True), ("unregularized", True)):
        problem = problem_of(X, y, sparse, intercept)
        solver = Simba()
        outcome = run(solver, problem, rng=rng, tol=0.0, max_epochs=20)
        certificate = solver.certificate(problem, outcome.state)
        assert certificate.primal < problem.at_zero()[0]
        assert certificate.primal == pytest.approx(problem.primal(outcome.model.coef.T, outcome.model.intercept))
        duals = solver.duals(problem, outcome.state)[0]
        assert (np.abs(duals) <= problem.C * (1.0 + 1e-9)).all()
        W = solver.predictor(problem, outcome.state)[0][:, 0]
        shared = X.T @ duals  # a multiple of w
        assert shared @ W == pytest.approx(np.linalg.norm(shared) * np.linalg.norm(W), rel=1e-6)
        if intercept != "unregularized":
            exact = make("linear", "sdca")
            best = exact.certificate(problem, run(exact, problem, rng=rng, tol=1e-6, max_epochs=2000).state)
            assert certificate.dual <= best.primal
            assert certificate.primal >= best.dual


@pytest.mark.parametrize(("parameters", "sentence"), [
    ({"primal": "x"}, "primal must be one of"), ({"primal": "fixed"}, "horizon"), ({"nu": 2.0}, "nu must be"),
    ({"rows_per_step": 0}, "rows_per_step must be"), ({"size": -1.0}, "size must be"), ({"nu": -0.1}, "nu must be"),
    ({"level_sample": 0}, "level_sample must be"), ({"columns": "all"}, "columns must be one of"),
])  # fmt: skip
def test_parameters_that_mean_nothing_are_refused(rng, parameters, sentence):
    X, y = data(rng)
    with pytest.raises(ValueError, match=sentence):
        Simba(**parameters).init(problem_of(X, y), rng)


def test_columns_of_fortran_order_and_csc_are_not_copied(rng):
    X = np.asfortranarray(rng.normal(size=(7, 5)))
    assert np.shares_memory(as_columns(X).values, X)
    np.testing.assert_array_equal(as_columns(np.ascontiguousarray(X)).values, X.T)
    thin = sp.csc_matrix(X)
    assert np.shares_memory(as_columns(thin).data, thin.data)
