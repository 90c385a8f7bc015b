"""Kernel problems: parts of several binary ones, values at zero, and the charge of a bias."""

import numpy as np
import pytest

from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.models import KernelModel
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.layout import share_of_nonzeros
from widemargin.problems.objective import NO_WEIGHTS, Certificate
from widemargin.running import run
from widemargin.solvers.smo.smo import SMO

N, D = 40, 6


@pytest.mark.parametrize("weighted", [True, False])
def test_a_binary_problem_taken_from_several_has_its_own_labels_and_weights(weighted, rng):
    signs, X = rng.choice([-1.0, 1.0], (3, N)), rng.normal(size=(N, D))
    s = rng.uniform(0.1, 3.0, (3, N)) if weighted else NO_WEIGHTS
    problem = KernelProblem(RBF(1.0), as_rows(X), signs, losses.Single(losses.Hinge()), 0.1, s)
    chosen = np.array([3, 0, 17])
    for q in range(3):
        part = problem.take(chosen, q)
        assert part.n_outputs == 1
        np.testing.assert_array_equal(part.y, signs[q, chosen])
        np.testing.assert_array_equal(part.sample_weight, s[q, chosen] if weighted else NO_WEIGHTS)
        np.testing.assert_array_equal(part.X.values, X[chosen])
        assert part.lam == problem.lam


def test_a_model_of_the_freed_problem_is_one_of_the_problem_with_its_bias_charged(rng):
    X, y = rng.normal(size=(30, 3)), np.where(rng.random(30) < 0.3, 1.0, -1.0)
    problem = KernelProblem(RBF(0.4), as_rows(X), y, losses.Single(losses.Hinge()), 0.02, intercept="regularized")
    free = problem.freed()
    assert free.intercept == "unregularized"
    assert free.freed() is free
    K = np.exp(-0.4 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    support = rng.choice(30, 8, replace=False)
    c, b = rng.uniform(0.0, 1.0, 8) * y[support] / (0.02 * 30), rng.normal()
    model = KernelModel(free.kernel, support, free.rows(support), c[None], np.array([b]), 0.0)
    adopted, charge = problem.adopted(model)
    np.testing.assert_allclose(adopted.decision_function(problem.X), model.decision_function(free.X), atol=1e-5)
    # the textbook's objective of the weights (w, b) of (Φ(x), 1)
    f = K[:, support] @ c
    primal = 0.01 * (c @ f[support] + b * b) + np.mean(np.maximum(0.0, 1.0 - y * (f + b)))
    beta, scores = np.zeros(30), f + b
    beta[support] = c
    exactly = beta[None], scores[None]
    found = Certificate(*problem.as_binary().bounds(*exactly, adopted.intercept, np.zeros((1, 30)), 2.0), 0.0)
    assert found.primal == pytest.approx(primal, rel=1e-12)
    there = free.as_binary().bounds(*exactly, np.array([b]), np.zeros((1, 30)), 1.0)
    assert there[0] + charge == pytest.approx(primal, rel=1e-12)
    exact = run(SMO(tol=1e-9), problem, tol=1e-9, rng=rng)
    assert found.dual <= exact.objective + 1e-6
    assert run(SMO(tol=1e-9), free, tol=1e-9, rng=rng).dual <= exact.objective + 1e-6


@pytest.mark.parametrize("empty", [slice(0, 1024), slice(0, None, 4), slice(1, None, 2)])
def test_the_share_of_nonzeros_is_told_by_rows_from_everywhere(empty):
    """Empty rows at the start, or at regular places."""
    X = np.ones((4096, 2))
    X[empty] = 0.0
    assert share_of_nonzeros(X) == pytest.approx(np.count_nonzero(X) / X.size, abs=0.02)
    assert share_of_nonzeros(X[:0]) == 1.0
