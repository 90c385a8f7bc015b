"""The SIMBA paper on runs of the solver: estimates without bias, Lemmas 2.1, 4.2, A.1 to A.4, B.1 and C.1, Theorem 4.3.

Where draws decide, a test's bound is one that they break with a chance below 1e-9, whatever the seed.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from reference.simba import chances, slack
from widemargin import Simba
from widemargin.core.losses.losses import Hinge, Single
from widemargin.core.rows.rows import as_matrix, as_rows
from widemargin.problems.linear import Problem

RULES = ("squared", "absolute", "scaled")
FORMS = [("fixed", "fixed"), ("averaging", "adaptive"), ("adaptive", "adaptive")]


def problem_of(X, y, sparse=False, intercept="none"):
    return Problem(as_rows(sp.csr_matrix(X) if sparse else X), y, Single(Hinge()), 0.01, intercept=intercept)


def groups(rng, n=60, d=5, flipped=0, shift=0.0):
    """A common group and a rare one of six: the mean of all rows is far from the best w, which has to serve both."""
    y = rng.permutation(np.where(np.arange(n) % 3 == 0, 1.0, -1.0))
    Z = rng.uniform(-0.15, 0.15, (n, d))
    Z[:, :2] += np.where(np.arange(n)[:, None] < 6, [-0.3, 0.8], [0.8, -0.3])
    Z[:flipped] *= -1.0
    X = y[:, None] * Z
    X[:, 0] += shift
    return X / np.linalg.norm(X, axis=1).max(), y


def folded(problem, state):
    """Rows zᵢ = yᵢxᵢ/R, with the constant feature if there is one."""
    X = sp.csr_matrix(as_matrix(problem.X)).toarray()
    constant = np.ones((problem.n, int(problem.intercept == "regularized")))
    return problem.y[:, None] * np.hstack([X, constant]) / state.size


def importance(state):
    return np.sum(state.q[0] * state.scale[0][:, None], axis=0)


# ---------------------------------------------------------------- estimates without bias


def positive_parts(rng, n=200, d=10):
    """Rows whose parts agree in sign with one w, so that no w_j of a run is near 0 and no estimate is huge.

    Columns have from all rows to one in 14: sparse steps touch many examples or few.
    """
    Z = rng.uniform(0.3, 1.0, (n, d))
    for j, share in enumerate(np.linspace(1.0, 0.07, d)):
        Z[rng.permutation(n)[round(share * n) :], j] = 0.0
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return 3.0 * y[:, None] * Z * rng.choice([-1.0, 1.0], d), y


def second_moment(Z, rule, rms):
    """What E[(zᵢ(j) w_j/P(j))²] is at most, for any w of the ball."""
    if rule == "squared":
        return np.sum(Z * Z, axis=1)
    if rule == "absolute":
        return Z.shape[1] * np.max(Z * Z, axis=1)
    return math.sqrt(Z.shape[1]) * np.linalg.norm(rms) * np.max(Z * Z / rms, axis=1)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("intercept", "k", "m"), [("none", 1, 1), ("unregularized", 1, 1), ("regularized", 3, 2)])
def test_draws_of_rows_and_columns_have_no_bias(rng, sparse, rule, intercept, k, m):
    """Many steps at a rate so small that p stays what it is: log q adds the estimates up, and U the rows drawn.

    Σ ṽᵢ − (⟨Σ w, zᵢ⟩ + T ξᵢ + yᵢ Σ b) is a martingale. Its increments have second moments that are known and are far
    below √T, so that by Bernstein's inequality eight standard errors are left once in 1e11 tests.
    """
    X, y = positive_parts(rng)
    problem = problem_of(X, y, sparse, intercept)
    n, T = y.size, 30_000
    nu = 15.3 / n  # seven have all of 2, the eighth what is left
    settings = {
        "primal": "averaging",
        "dual": "exponential",
        "columns": rule,
        "rows_per_step": k,
        "columns_per_step": m,
    }
    solver = Simba(nu, **settings)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 200)
    while True:  # until it is clear who has slack
        first = np.sort(importance(state))[::-1][6:9]
        if (first[:-1] > 1.001 * first[1:]).all():
            break
        solver.advance(problem, state, 1)
    slow = Simba(nu, **settings, rate="fixed", horizon=10**20)
    eta = math.sqrt(math.log(n) / 1e20)

    def sums():
        t, (w, b, _) = state.course[0, 0], solver.averages(state)
        return np.log(importance(state)), t * w[0], t * b[0], state.sums[0].copy(), state.coefficients[0].copy()

    before, p = sums(), importance(state) / importance(state).sum()
    slow.advance(problem, state, T)
    logs, w, b, rows, counts = (after - was for after, was in zip(sums(), before, strict=True))
    Z, xi = folded(problem, state), slack(p, n * nu)
    assert xi.sum() == pytest.approx(n * nu)
    assert (b != 0.0) == (intercept == "unregularized")
    estimate, expected = -logs / (eta * T), (Z @ w + b * y) / T + xi
    rms = np.sqrt(np.mean(Z * Z, axis=0))
    error = np.sqrt(second_moment(Z, rule, rms) / (m * T))
    assert (np.abs(estimate - expected) <= 8.0 * error).all()
    assert (np.abs(counts / T - p) <= 8.0 * np.sqrt(p / (k * T)) + 30.0 / (k * T)).all()
    deviation = np.sqrt(p @ Z**2 - (p @ Z) ** 2)
    assert (np.abs(rows / T - p @ Z) <= 8.0 * deviation / math.sqrt(k * T)).all()
    # far enough from what uniform draws, or p instead of the counts, would look like
    assert np.abs(p @ Z - Z.mean(axis=0)).max() > 16.0 * np.max(deviation) / math.sqrt(k * T)


# ---------------------------------------------------------------- recorded runs


class Run(NamedTuple):
    """A run step by step: the rows drawn, p, w before and after, ξ + by, η; all ṽ that columns could have given, with
    the chances of these, and v, the one that was drawn, clipped.
    """

    Z: np.ndarray
    drawn: np.ndarray
    p: np.ndarray
    before: np.ndarray
    w: np.ndarray
    xi: np.ndarray
    eta: np.ndarray
    all: list
    P: list
    v: np.ndarray

    @property
    def mean(self):
        """What ṽ estimates, for each step and each example."""
        return self.w @ self.Z.T + self.xi


def recorded(problem, solver, T, rng):
    """Take T steps one by one, and find out from the state which row and which column each of them drew."""
    state, steps = solver.init(problem, rng), []
    Z, y, n, primal = folded(problem, state), problem.y, problem.n, solver.primal
    rms, before = np.sqrt(np.mean(Z * Z, axis=0)), np.zeros(Z.shape[1])
    for t in range(1, T + 1):
        q, U, bias = importance(state), state.sums[0].copy(), state.course[0, 3]
        solver.advance(problem, state, 1)
        row = (state.sums[0] - U) * (math.sqrt(2.0 * t) if primal == "adaptive" else 1.0)
        i = np.argmin(np.sum((Z - row) ** 2, axis=1))
        np.testing.assert_allclose(row, Z[i], atol=1e-9)
        divisor = {"adaptive": 1.0, "averaging": math.sqrt(2.0 * t), "fixed": math.sqrt(2.0 * (solver.horizon or 1))}
        u, p, b = state.sums[0] / divisor[primal], q / q.sum(), state.course[0, 3] - bias
        w = u / max(1.0, np.linalg.norm(u))
        eta = math.sqrt(math.log(n) / (t if solver.rate == "adaptive" else solver.horizon))
        xi, P = slack(p, n * solver.nu) + b * y, chances(w, solver.columns, rms)
        columns = np.flatnonzero(P > 0.0)
        values = (Z[:, columns] * (w[columns] / P[columns])).T + xi
        clipped = eta * np.clip(values, -1.0 / eta, 1.0 / eta)
        factors = 1.0 - clipped + clipped**2 if solver.dual == "quadratic" else np.exp(-clipped)
        j = np.argmin(np.max(np.abs(factors - importance(state) / q), axis=1))
        np.testing.assert_allclose(importance(state), q * factors[j], rtol=1e-9)
        steps.append((row, p, before, w, xi, eta, values, P[columns], clipped[j] / eta))
        before = w
    drawn, p, was, w, xi, eta, values, P, v = zip(*steps, strict=True)
    arrays = (np.array(each) for each in (drawn, p, was, w, xi, eta))
    return Run(Z, *arrays, list(values), list(P), np.array(v))


@pytest.mark.parametrize("dual", ["quadratic", "exponential"])
@pytest.mark.parametrize(("primal", "rate"), [*FORMS, ("fixed", "adaptive"), ("adaptive", "fixed")])
def test_every_run_is_within_the_regret_bounds(rng, primal, rate, dual):
    """Lemma 4.2, weighted by the rates where they change, Lemma B.1, and the best answer to p by ξ and b.

    The proof of Lemma 4.2 asks of a factor f(z) that exp(−z) ≤ f(z) ≤ 1 − z + z² for |z| ≤ 1, which holds for both.
    """
    X, y = groups(rng, flipped=2, shift=0.3)
    sparse, intercept = bool(rng.integers(2)), rng.choice(["none", "unregularized", "regularized"])
    problem, T, nu = problem_of(X, y, sparse, intercept), 200, float(rng.choice([0.0, 0.03]))
    rule = str(rng.choice(RULES))
    run = recorded(problem, Simba(nu, primal, dual, rate, rule, horizon=T), T, rng)
    eta, n = run.eta, y.size
    assert np.sqrt(np.sum(run.w**2, axis=1)).max() <= 1.0 + 1e-9
    # Lemma 4.2
    paid = np.sum(eta * np.sum(run.p * run.v, axis=1))
    best = np.min(eta @ np.maximum(run.v, -1.0 / eta[:, None]))
    assert paid <= best + math.log(n) + np.sum(eta**2 * np.sum(run.p * run.v**2, axis=1)) + 1e-9
    # Lemma B.1 for the w that is one row behind, and a quarter of it for the w that has seen the row; steps that
    # themselves shrink bound the regret that is weighted by them
    g = 1.0 / np.sqrt(2.0 * np.arange(1, T + 1)) if primal == "adaptive" else np.full(T, 1.0 / math.sqrt(2.0 * T))
    most = np.linalg.norm(g @ run.drawn)
    assert most - g @ np.sum(run.drawn * run.w, axis=1) <= 0.5 + 1e-9
    behind = 0.5 + 0.5 * np.sum(g**2) if primal == "adaptive" else 2.0
    assert most - g @ np.sum(run.drawn * run.before, axis=1) <= behind + 1e-9
    # p · (ξ + by) is as large as any allowed answer makes it
    top = np.sort(run.p, axis=1)[:, ::-1]
    shares = np.clip(n * nu - 2.0 * np.arange(n), 0.0, 2.0)
    answers = top @ shares + (np.abs(run.p @ y) if intercept == "unregularized" else 0.0)
    np.testing.assert_allclose(np.sum(run.p * run.xi, axis=1), answers, atol=1e-8)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("intercept", ["none", "unregularized"])
def test_clipping_has_no_more_bias_than_the_paper_allows(rng, rule, intercept):
    """Lemma C.1 over all columns that a step could have drawn: |E[clip(ṽ, 1/η)] − E[ṽ]| ≤ 2 η Var[ṽ], if |E[ṽ]| ≤ 1/2η.

    For columns drawn ∝ w_j², E[ṽ²] is at most 1 + (E[ṽ])², by which Lemma A.4 bounds Σ p·v² in the mean.
    """
    X, y = groups(rng, n=30, d=20, flipped=2)
    run = recorded(problem_of(X, y, bool(rng.integers(2)), intercept), Simba(0.05, columns=rule), 100, rng)
    clippings = 0
    for eta, values, P, expected in zip(run.eta, run.all, run.P, run.mean, strict=True):
        clipped = np.clip(values, -1.0 / eta, 1.0 / eta)
        np.testing.assert_allclose(P @ values, expected, atol=1e-9)
        variance = np.maximum(P @ values**2 - expected**2, 0.0)
        small = np.abs(expected) <= 0.5 / eta
        bias = np.abs(P @ clipped - expected)
        assert (bias[small] <= 2.0 * eta * variance[small] + 1e-9).all()
        clippings += np.count_nonzero(bias[small] > 1e-6)
        if rule == "squared":
            assert variance.max() <= 1.0 + 1e-9
            most = 1.0 + 2.0 + (intercept == "unregularized")
            assert (P @ clipped**2).max() <= 1.0 + most**2
    assert clippings > 0


def test_sums_along_a_run_are_near_their_means(rng):
    """Lemmas A.1, A.2 and A.3, at a rate at which draws break them with a chance below 1e-15 by the paper's own proof.

    Clipping adds up to 2ηT by Lemma C.1, which leaves 2ηT of the 4ηT to chance: exp(−(6/7) η²T), η = 1/6, T = 2000.
    Lemma A.3 holds of the w before the row was drawn; Azuma's inequality is closer than its 12ηT.
    """
    X, y = groups(rng, flipped=2)
    n, T = y.size, 2000
    horizon = round(36.0 * math.log(n))
    run = recorded(problem_of(X, y), Simba(0.02, "adaptive", rate="fixed", horizon=horizon), T, rng)
    eta = run.eta[0]
    assert eta == pytest.approx(1.0 / 6.0, abs=1e-3)
    assert np.sum(run.v - run.mean, axis=0).max() <= 4.0 * eta * T
    assert abs(np.sum(run.p * (run.v - run.mean))) <= 4.0 * eta * T
    star = rng.normal(size=run.Z.shape[1])
    for w in (run.before, np.tile(star / np.linalg.norm(star), (T, 1))):
        seen, expected = np.sum(run.drawn * w, axis=1), np.sum((run.p @ run.Z) * w, axis=1)
        assert abs(np.sum(seen - expected)) <= math.sqrt(2.0 * T * math.log(2e12))


# ---------------------------------------------------------------- the theorem


def level(c, nu):
    """The largest minimum of c + ξ over slack of mass nν, at most 2 each, by bisection."""
    low, high = c.min(), c.min() + 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(middle - c, 0.0).sum() <= c.size * nu else (low, middle)
    return low


def game_value(Z, y, nu, bias, gap=1e-3):
    """An upper bound of the value of the game, and no further than ``gap`` from a value that is reached.

    A linear program with more and more planes that the ball lies behind; its variables are w, b, ξ and the value.
    """
    n, d = Z.shape
    rows = [*np.hstack([-Z, -y[:, None], -np.eye(n), np.ones((n, 1))]), np.r_[np.zeros(d + 1), np.ones(n), 0.0]]
    right = [0.0] * n + [n * nu]
    bounds = [(-1.0, 1.0)] * d + [(-float(bias), float(bias))] + [(0.0, 2.0)] * n + [(None, None)]
    reached = -np.inf
    while True:
        found = linprog(-np.eye(d + n + 2)[-1], np.array(rows), right, bounds=bounds)
        w, norm = found.x[:d], max(1.0, np.linalg.norm(found.x[:d]))
        reached = max(reached, level(Z @ w / norm + found.x[d] * y, nu))
        if -found.fun - reached <= gap:
            return -found.fun
        rows.append(np.r_[w / norm, np.zeros(n + 2)])
        right.append(1.0)


@pytest.mark.parametrize("dual", ["quadratic", "exponential"])
@pytest.mark.parametrize(("primal", "rate"), FORMS)
@pytest.mark.parametrize(("intercept", "nu"), [
    ("none", 0.0), ("unregularized", 0.0), ("none", 0.04), ("unregularized", 0.04),
])  # fmt: skip
def test_the_average_is_within_epsilon_after_the_steps_of_the_theorem(rng, intercept, nu, primal, rate, dual):
    """Theorem 4.3 with the constant 20 in T = 20 log n/ε², where the paper proves 10⁴, and with its chance of 1/2.

    A run's error is below ε/3 in the mean, and one of hundreds is near ε: five of nine do not fail together.
    """
    bias, n, epsilon = intercept == "unregularized", 60, 0.1
    X, y = groups(rng, n, flipped=2 if nu else 0, shift=0.4 if bias else 0.0)
    Z, T = y[:, None] * X, math.ceil(20.0 * math.log(n) / epsilon**2)
    value = game_value(Z, y, nu, bias)
    problem, errors = problem_of(X, y, bool(rng.integers(2)), intercept), []
    solver = Simba(nu, primal, dual, rate, horizon=T, size=1.0)
    for _ in range(9):
        state = solver.init(problem, rng)
        solver.advance(problem, state, T)
        w, b, _ = solver.averages(state)
        assert np.linalg.norm(w) <= 1.0 + 1e-9
        assert abs(b[0]) <= bias
        errors.append(value - level(Z @ w[0] + b[0] * y, nu))
    assert min(errors) >= -1e-6  # nothing is better than the best
    assert np.median(errors) <= epsilon
    # neither the mean of all rows would do, nor, if there is one, going without the bias
    mean = Z.mean(axis=0) / np.linalg.norm(Z.mean(axis=0))
    assert value - level(Z @ mean + bias * np.sign(y.sum()) * y, nu) > epsilon
    if bias:
        assert value - game_value(Z, y, nu, False) > 0.5 * epsilon


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("intercept", ["none", "unregularized", "regularized"])
def test_the_rescaled_predictor_is_near_the_front_of_norm_and_loss(rng, intercept, sparse):
    """Lemma 2.1: at ν = mean hinge/‖w‖, what is ε below the value 1/‖w‖ that w reaches has norm and loss at most
    1/(1 − ‖w‖ε) times those of w. Both sides are seen in rows of size 1.
    """
    X, y = groups(rng, flipped=2)
    problem = problem_of(5.0 * X, y, sparse, intercept)
    best, free = np.r_[1.0, 1.0, 0.0, 0.0, 0.0], 0.05 if intercept != "none" else 0.0
    for size in (2.0, 4.0):
        w, b = size * best, size * free
        R = math.sqrt(np.max(np.sum(25.0 * X * X, axis=1)) + (intercept == "regularized"))
        norm = math.hypot(np.linalg.norm(w), b if intercept == "regularized" else 0.0)
        # w and b are those of rows of size 1, with the constant divided by R as they are
        share = 1.0 / R if intercept == "regularized" else 1.0
        hinge = np.maximum(0.0, 1.0 - y * (5.0 * X @ w / R + b * share)).mean()
        solver = Simba(hinge / norm)
        state = solver.init(problem, rng)
        solver.advance(problem, state, 3000)
        W, own_b, reached, multiple = solver.predictor(problem, state)
        assert reached[0] > 0.0
        assert multiple[0] == pytest.approx(1.0 / reached[0])
        epsilon = max(0.0, 1.0 / norm - reached[0])
        own_norm = R * math.hypot(np.linalg.norm(W), own_b[0] if intercept == "regularized" else 0.0)
        own_hinge = np.maximum(0.0, 1.0 - y * (5.0 * X @ W[:, 0] + own_b[0])).mean()
        assert own_norm <= norm / (1.0 - norm * epsilon) + 1e-9
        assert own_hinge <= hinge / (1.0 - norm * epsilon) + 1e-9
        assert epsilon * norm < 0.5
