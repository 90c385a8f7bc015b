"""What the experiments of the SBP paper compute by themselves: an average, SMO's steps, features, test errors."""

from pathlib import Path

import numpy as np
import pytest

from widemargin import StochasticBatchPerceptron
from widemargin.core.kernels.kernels import RBF

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fig2(monkeypatch):
    """The experiment's module."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.papers import sbp_fig2

    return sbp_fig2


@pytest.fixture
def task(fig2, rng):
    """Thirty rows for training, and as many for the test."""
    X, y = rng.normal(size=(60, 3)), np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
    data = X[:30], y[:30], X[30:], y[30:]
    return fig2.Task(fig2.Set("noise", (), lambda: data, 0.5, 1.0, 1, 1.0, 1.0, 2, 2))


def test_the_uniform_average_kept_beside_a_run_is_that_of_the_solver(fig2, task, rng):
    seed, nu, found = rng.integers(2**32), float(rng.uniform(0.0, 0.5)), {}
    for average in ("t", "uniform"):
        solver, beside = StochasticBatchPerceptron(nu=nu, batch_size=1, average=average), fig2.UniformAverage(task.n)
        state = task.begin(solver, np.random.default_rng(seed))
        for t in range(1, 301):
            solver.advance(task.problem, state, 1)
            beside.note(1.0 / np.sqrt(t), state)
        found[average] = solver.averages(state)[0][0], beside.sum
    own, beside = found["uniform"][0], found["t"][1]
    # lazy sums lose as many digits as the scale has zeros: two, and those of 300 additions
    np.testing.assert_allclose(beside / beside.sum(), own / own.sum(), atol=1e-10)


def test_smo_moves_the_variable_that_raises_the_dual_most(fig2, task, rng):
    n, C, y = task.n, 1.0, task.y
    everything = np.arange(n)
    K = task.problem.matrix(everything, everything).block(everything).astype(float)
    alpha = rng.uniform(-C, 2 * C, n).clip(0.0, C)

    def dual(alpha):
        return alpha.sum() - 0.5 * (y * alpha) @ K @ (y * alpha)

    i, move = fig2.best_move(y, K @ (y * alpha), alpha, C)
    after = alpha.copy()
    after[i] += y[i] * move
    assert -1e-12 <= after[i] <= C + 1e-12
    for v in range(n):
        for value in np.linspace(0.0, C, 21):
            other = alpha.copy()
            other[v] = value
            assert dual(other) <= dual(after) + 1e-9


def test_errors_of_coefficients_are_those_of_their_scores(task, rng):
    coefficients = rng.normal(size=(3, task.n)) * (rng.random((3, task.n)) < 0.5)
    squares = np.sum((task.Z[:, None] - task.X[None]) ** 2, axis=2)
    scores = coefficients @ np.exp(-0.5 * squares).T
    wrong = np.where(scores > 0.0, 1.0, -1.0) != task.t
    sure = np.all(np.abs(scores) > 1e-5, axis=0)  # the experiment's values are float32
    assert isinstance(task.kernel, RBF)
    np.testing.assert_allclose(task.errors(coefficients), wrong.mean(axis=1), atol=np.mean(~sure) + 1e-12)


def test_fourier_features_have_length_one_and_the_kernel_for_inner_product(monkeypatch, rng):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.papers.sbp_fig3 import fourier

    X, k = rng.normal(size=(5, 3)), 20_000
    F = fourier(X, rng.normal(size=(3, k)).astype(np.float32), 0.5)
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    np.testing.assert_allclose(np.sum(F * F, axis=1), 1.0, atol=1e-4)
    # Hoeffding: a mean of k cosines is off by 0.06 with probability 2 exp(−k 0.06²/2) = 5e-16
    np.testing.assert_allclose(F @ F.T, K, atol=0.06)
