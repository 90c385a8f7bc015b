"""What experiments compute beside the library: objectives of a neutral party, averages, moves, thresholds."""

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("threadpoolctl")

from widemargin import SVC, LinearSVC

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def checkout(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def some(rng, n=40, d=3):
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def test_the_objectives_of_the_peers_are_those_that_fits_certify(rng):
    from benchmarks.peers import kernel_peers, linear_peers

    X, y = some(rng)
    model = LinearSVC(linear_peers.C, random_state=0).fit(X, y)
    shared = linear_peers.Shared(sp.csr_matrix(X), y, X)
    assert shared.value(model.coef_[0], model.intercept_[0]) == pytest.approx(model.certificate_.primal, rel=1e-9)
    C, gamma = 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-1, 1)
    machine = SVC(C, gamma=gamma).fit(X, y)
    value = kernel_peers.Expansion(X, y, X, gamma, C).objective(machine)
    assert value == pytest.approx(C * y.size * machine.certificate_.primal, rel=1e-5)


def test_only_lambda_is_carried_to_more_examples(rng):
    from benchmarks.papers import bsgd

    value, n, N = rng.uniform(0.1, 1.0), *rng.integers(100, 9999, 2)
    for method in bsgd.METHODS:
        kept = bsgd.transferred(method, value, n, N)
        has_lambda = "egasos" in method or "orma" in method
        assert kept == pytest.approx(value * math.sqrt(n / N) if has_lambda else value)


def test_the_uniform_average_of_sbp_is_that_of_its_iterates(rng):
    from benchmarks.papers.sbp_fig2 import UniformAverage

    from widemargin import StochasticBatchPerceptron
    from widemargin.core.kernels.kernels import RBF
    from widemargin.core.losses import losses
    from widemargin.core.rows.rows import as_rows
    from widemargin.problems.kernel import KernelProblem

    X, y = some(rng)
    hinge = losses.Single(losses.Hinge())
    problem = KernelProblem(RBF(0.5), as_rows(X), y, hinge, 0.1, intercept="none")
    solver, mean, total = StochasticBatchPerceptron(nu=0.2, batch_size=1), UniformAverage(y.size), np.zeros(y.size)
    state = solver.init(problem, rng)
    for _ in range(60):
        solver.advance(problem, state, 1)
        mean.note(1.0 / np.sqrt(state.t), state)
        total += state.scale[0] * state.alpha[0]
    np.testing.assert_allclose(mean.sum, total, rtol=1e-9, atol=1e-12)


def test_smo_without_a_cache_makes_the_move_that_raises_the_dual_most(rng):
    from benchmarks.papers.sbp_fig2 import best_move

    X, y = some(rng, 20)
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))

    def dual(alpha):
        return alpha.sum() - 0.5 * (alpha * y) @ K @ (alpha * y)

    def moved(alpha, v, value):
        return np.where(np.arange(y.size) == v, value, alpha)

    for _ in range(40):  # bounds must matter in some
        C = rng.uniform(0.2, 1.0)
        alpha = C * rng.choice([0.0, 0.3, 1.0], y.size)
        i, move = best_move(y, K @ (alpha * y), alpha, C)
        best = max(dual(moved(alpha, v, value)) for v in range(y.size) for value in np.linspace(0.0, C, 21))
        own = alpha[i] + y[i] * move
        assert -1e-12 <= own <= C + 1e-12
        assert dual(moved(alpha, i, own)) >= best - 1e-9


def test_a_threshold_of_projectron_keeps_its_budget(rng):
    from benchmarks.papers import bsgd

    X, y = some(rng, 200, 2)
    found = bsgd.threshold(X, y, 1.0, 20)
    model = bsgd.model("Projectron++", 200, 1.0, found, random_state=0).fit(X, y)
    assert 0 < len(model.support_vectors_) <= 20
