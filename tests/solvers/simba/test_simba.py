"""SIMBA against the textbook, its estimates without bias, its sums after many steps, and its counts."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from reference.simba import chances, simba, slack
from reference.water_level import by_sorting
from widemargin.core.losses import losses
from widemargin.core.rows.columns import as_columns
from widemargin.core.rows.rows import as_rows
from widemargin.core.sampling.importance import Scratch, give_slack
from widemargin.problems.linear import Problem
from widemargin.running import run
from widemargin.solvers import make
from widemargin.solvers.simba.simba import Simba
from widemargin.solvers.simba.steps import DUALS, PRIMALS, RULES

HINGE = losses.Single(losses.Hinge())
#: Examples, features, and how many of them are not zero.
SMALL, WIDE = (60, 25, 0.4), (700, 256, 0.02)


def data(rng, n=60, d=25, density=0.4):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[:, 0] += 0.1
    return X, np.where(X @ rng.normal(size=d) + 0.2 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def problem_of(X, y, sparse=False, intercept="none", lam=0.01, **more):
    return Problem(as_rows(sp.csr_matrix(X) if sparse else X), y, HINGE, lam, intercept=intercept, **more)


def distribution(state):
    q = np.sum(state.q[0] * state.scale[0][:, None], axis=0)
    return q / q.sum()


INTERCEPTS = ["none", "unregularized", "regularized"]
OPTIONS = [
    ("adaptive", "quadratic", "squared", "adaptive"), ("averaging", "exponential", "absolute", "adaptive"),
    ("fixed", "quadratic", "scaled", "fixed"), ("fixed", "exponential", "squared", "adaptive"),
    ("averaging", "quadratic", "scaled", "fixed"), ("adaptive", "exponential", "absolute", "fixed"),
]  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("shape", "intercept", "options"),
    [
        *((SMALL, *pair) for pair in itertools.product(INTERCEPTS, OPTIONS)),
        *((WIDE, INTERCEPTS[place % 3], options) for place, options in enumerate(OPTIONS)),  # textbooks take their time
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) and not isinstance(value, str) else None,
)
def test_steps_are_those_of_the_textbook(rng, sparse, intercept, options, shape):
    """The small one touches a large part of all examples in each step, the wide one a few in most; blocks of blocks,
    and a block of its own for the constant feature of dense rows.
    """
    primal, dual, rule, rate = options
    X, y = data(rng, *shape)
    T, nu = 300 if shape == SMALL else 150, float(rng.choice([0.0, 0.01, 0.1]))
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


def test_sums_of_importance_without_importance_lead_to_the_first_example(rng):
    X, y = rng.normal(size=(24, 3)), np.where(np.arange(24) % 2, 1.0, -1.0)
    problem, solver = problem_of(X, y), Simba(0.02, rows_per_step=3, columns_per_step=2)
    state = solver.init(problem, np.random.default_rng(0))
    state.q[:] = 0.0
    solver.advance(problem, state, 1)
    np.testing.assert_array_equal(np.flatnonzero(state.rows_read), [0])


@pytest.mark.parametrize("columns_per_step", [1, 3])
@pytest.mark.parametrize("dual", DUALS)
def test_float32_takes_the_steps_of_float64(rng, dual, columns_per_step):
    """Factors have the precision of the data. Few steps: each may draw another row with a chance of that size."""
    X, y = data(rng, 600, 300)
    seed, found = int(rng.integers(2**32)), []
    for dtype in (np.float32, np.float64):
        problem = problem_of(X.astype(np.float32).astype(dtype), y)
        solver = Simba(0.01, dual=dual, columns_per_step=columns_per_step, size=30.0)
        state = solver.init(problem, np.random.default_rng(seed))
        solver.advance(problem, state, 5)
        found.append((solver.averages(state)[0], distribution(state)))
    for short, long in zip(*found, strict=True):
        np.testing.assert_allclose(short, long, atol=1e-6 * np.abs(long).max())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("intercept", "rule"),
    [
        ("none", "scaled"),
        ("unregularized", "squared"),
        ("regularized", "absolute"),
        ("regularized", "scaled"),
    ],
)
@pytest.mark.parametrize("shape", [(40, 15, 0.5), (400, 200, 0.02)], ids=["small", "wide"])
def test_a_weight_counts_as_so_many_copies(rng, sparse, intercept, rule, shape):
    """Copies stand side by side, so that the same random numbers draw them where they draw the one with the weight."""
    X, y = data(rng, *shape)
    s = rng.integers(1, 4, y.size)
    copies = np.repeat(np.arange(y.size), s)
    seed, mass, found = int(rng.integers(2**32)), float(rng.uniform(5.0, 15.0)), []
    for X_, y_, more in ((X, y, {"sample_weight": s.astype(float)}), (X[copies], y[copies], {})):
        problem = problem_of(X_, y_, sparse, intercept, **more)
        solver = Simba(mass / problem.n, columns=rule, rows_per_step=2, columns_per_step=2)
        state = solver.init(problem, np.random.default_rng(seed))
        solver.advance(problem, state, 200)
        q = np.sum(state.q[0] * state.scale[0][:, None], axis=0)
        found.append((*solver.averages(state)[:2], (q if more else q[np.cumsum(s) - 1]) / q.max()))
    for weighted, copied in zip(*found, strict=True):
        np.testing.assert_allclose(weighted, copied, atol=1e-9)


def test_every_output_is_a_run_of_its_own(rng):
    X, _ = data(rng)
    classes, T, seed = rng.integers(0, 3, len(X)).astype(float), 200, int(rng.integers(2**32))
    target = losses.OneVsRest(losses.Hinge(), np.ones(3))
    for sparse in (False, True):
        rows = as_rows(sp.csr_matrix(X) if sparse else X)
        problem = Problem(rows, classes, target, 0.01, intercept="none", n_outputs=3)
        solver = Simba(0.02)
        state = solver.init(problem, np.random.default_rng(seed))
        solver.advance(problem, state, T)
        uniforms = np.random.default_rng(seed).random((T, 3, 2))
        for c in range(3):
            y = np.where(classes == c, 1.0, -1.0)
            w, _, _ = simba(X / state.size, y, 0.02, uniforms[:, c])
            np.testing.assert_allclose(solver.averages(state)[0][c], w, atol=1e-9)


@pytest.mark.parametrize("intercept", ["none", "unregularized"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("total", [5e-41, 2e40])
def test_importance_may_be_any_multiple_of_itself(rng, sparse, intercept, total):
    """Sums and scales that leave the range of numbers are multiplied out on the way, and nobody notices."""
    X, y = data(rng, 700, 300, 0.02)
    problem, seed, found = problem_of(X, y, sparse, intercept), int(rng.integers(2**32)), []
    solver = Simba(0.02, dual="exponential")
    for multiple in (1.0, total / y.size):
        state = solver.init(problem, np.random.default_rng(seed))
        for part in (state.q, state.fine, state.coarse):
            part *= multiple
        solver.advance(problem, state, 400)
        found.append((*solver.averages(state)[:2], distribution(state)))
        assert 1e-35 < np.sum(state.q[0] * state.scale[0][:, None]) < 1e35
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("intercept", ["none", "unregularized"])
def test_the_predictor_is_the_average_over_its_level(rng, intercept):
    """On all examples, or on the sample that was asked for, where the mass of slack is ν for each of these."""
    X, y = data(rng, 200, 10, 1.0)
    problem = problem_of(3.0 * X, y, bool(rng.integers(2)), intercept)
    for sample in (None, 50):
        solver = Simba(0.1, level_sample=sample)
        state = solver.init(problem, rng)
        solver.advance(problem, state, 2000)
        chosen = np.arange(y.size) if sample is None else state.level_rows
        assert np.unique(chosen).size == (sample or y.size)
        (w,), (b,), _ = solver.averages(state)
        level = by_sorting(y[chosen] * (3.0 * X[chosen] @ w / state.size + b), 0.1 * chosen.size)
        assert level > 0.0
        W, own_b, own_level, _ = solver.predictor(problem, state)
        assert own_level[0] == pytest.approx(level)
        np.testing.assert_allclose(W[:, 0], w / (state.size * level))
        assert own_b[0] == pytest.approx(b / level)


def test_nu_is_that_of_the_optimum_and_has_no_unit(rng):
    """Mean hinge/(‖w‖ R) at the optimum for C; rows ten times as long, with λ to match, have the same."""
    X, y = data(rng, 3000, 5, 1.0)
    seed, found = int(rng.integers(2**32)), []
    for unit in (1.0, 10.0):
        problem = problem_of(unit * X, y, lam=0.01 * unit**2)
        found.append(Simba().init(problem, np.random.default_rng(seed)).nu[0])
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    exact = make("linear", "sdca")
    W = run(exact, problem, rng=rng, tol=1e-6, max_epochs=500).model.coef[0]
    hinge = np.maximum(0.0, 1.0 - y * (10.0 * X @ W)).mean()
    expected = hinge / (np.linalg.norm(W) * 10.0 * np.linalg.norm(X, axis=1).max())
    assert 0.5 * expected <= found[0] <= 2.0 * expected


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
        space = solver._workspace(problem, state, problem)
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
        # all of w, if the box has room for it
        if np.abs(duals).max() < problem.C * (1.0 - 1e-9):
            np.testing.assert_allclose(shared, W, rtol=1e-6)
        assert np.linalg.norm(shared) <= np.linalg.norm(W) * (1.0 + 1e-6)
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
