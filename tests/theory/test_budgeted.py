"""Lemma 1 and Theorems 1 to 3 of the BSGD paper on recorded runs: degradation pays for regret against the optimum."""

import math

import numpy as np
import pytest

from reference import budgeted as textbook
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses.losses import Hinge, MulticlassHinge, Single
from widemargin.core.rows.rows import as_matrix, as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.budget import (
    BudgetedSGD,
    MarginPerceptronStep,
    Merge,
    NormaStep,
    PegasosStep,
    Project,
    Remove,
)

N, LAM, RADIUS = 150, 0.3, 2.0


def make(rng, classes):
    """Two classes of one score, or several of as many, the middle one between the others."""
    X = rng.normal(size=(N, 2))
    height = np.sin(3 * X[:, 0]) + 0.5 * rng.normal(size=N)
    y, target, outputs = np.where(height > 0, 1.0, -1.0), Single(Hinge()), 1
    if classes == 3:
        y, target, outputs = np.digitize(height, [-0.5, 0.5]).astype(float), MulticlassHinge(1.0 - np.eye(3)), 3
    return KernelProblem(RBF(1.0), as_rows(X), y, target, LAM, intercept="none", outputs=outputs)


def gauss(V, W):
    return np.exp(-np.sum((V[:, None] - W[None]) ** 2, axis=2))


def loss_and_slope(f, y):
    """The hinge of one score, or Crammer and Singer's of several, at scores f, and a sub-gradient in them."""
    g = np.zeros(f.size)
    if f.size == 1:
        if y * f[0] < 1.0:
            g[0] = -y
        return max(0.0, 1.0 - y * f[0]), g
    others = np.where(np.arange(f.size) == y, -np.inf, f)
    runner_up = int(np.argmax(others))
    loss = max(0.0, 1.0 + f[runner_up] - f[int(y)])
    if loss > 0.0:
        g[runner_up], g[int(y)] = 1.0, -1.0
    return loss, g


def near_optimum(problem, K, outputs, radius):
    """Coefficients (N, outputs) near the optimum over the examples: a mean of sub-gradient steps, inside the ball."""
    A, mean = np.zeros((N, outputs)), np.zeros((N, outputs))
    for t in range(1, 201):
        F = K @ A
        G = np.array([loss_and_slope(F[i], problem.y[i])[1] for i in range(N)])
        A = (1.0 - 1.0 / t) * A - G / (LAM * t * N)
        mean += (2.0 * t / (200 * 201)) * A
    return min(1.0, radius / math.sqrt(np.sum(mean * (K @ mean)))) * mean


STEPS = [PegasosStep(), NormaStep(1.0), MarginPerceptronStep(0.3, RADIUS)]
POLICIES = [Merge(), Remove("smallest"), Project()]


@pytest.mark.parametrize(
    ("step", "maintenance", "classes"),
    [(step, policy, 2) for step in STEPS for policy in POLICIES] + list(zip(STEPS, POLICIES, (3, 3, 3), strict=True)),
    ids=str,
)
def test_every_step_and_the_regret_of_a_run_are_within_the_paper_s_bounds(step, maintenance, classes, rng):
    """Several classes: Sec. 5 asks for ‖Φ(x)‖² ≤ ½, so that no slope is longer than 1; here they are as long as √2."""
    problem = make(rng, classes)
    X, y, outputs = as_matrix(problem.X), problem.y, problem.n_outputs
    longest = math.sqrt(min(2, outputs))
    solver = BudgetedSGD(15, step, maintenance, sampling="fixed", precision="float64")
    state = solver.init(problem, rng)
    perceptron = isinstance(step, MarginPerceptronStep)
    lam = 0.0 if perceptron else LAM
    # any u of the ball may stand for w*: it only makes the bounds harder where it is better
    K = gauss(X, X)
    u = near_optimum(problem, K, outputs, RADIUS if perceptron else math.inf)
    u_norm2, u_scores = np.sum(u * (K @ u)), K @ u

    def known():
        """‖w‖², ‖w − u‖² and the scores of all examples."""
        V, A = as_matrix(state.vectors()), np.asarray(state.coefficients).T
        norm2 = np.sum(A * (gauss(V, V) @ A))
        return norm2, norm2 - 2 * np.sum(A * (gauss(V, X) @ u)) + u_norm2, gauss(X, V) @ A

    regret, degradation = 0.0, 0.0
    norm2, apart2, scores = known()
    for t in range(1, N + 1):
        before = state.amounts.lost
        loss, g = loss_and_slope(scores[t - 1], y[t - 1])
        solver.advance(problem, state, 1)
        E = state.amounts.lost - before
        eta, _ = textbook.step_size(step, LAM, t)
        assert longest + 1e-9 >= E  # as the theorems ask
        gained = 0.5 * lam * (norm2 - u_norm2) + loss - loss_and_slope(u_scores[t - 1], y[t - 1])[0]
        slope = math.sqrt(max(lam**2 * norm2 + 2 * lam * (g @ scores[t - 1]) + g @ g, 0.0))
        was2 = apart2
        norm2, apart2, scores = known()
        # Lemma 1 of the paper's appendix, with the norms themselves instead of what bounds them
        allowed = (was2 - apart2) / (2 * eta) - 0.5 * lam * was2 + 0.5 * eta * (slope + E) ** 2
        allowed += E * math.sqrt(max(was2, 0.0))
        assert gained <= allowed + 1e-6 * (1.0 + was2 / eta)
        regret += gained
        degradation += E
    # the theorems follow from the steps above, with bounds that are far from tight on a run this short
    mean = degradation / N
    if perceptron:
        bound = 2 * RADIUS**2 / (N * step.eta) + 2 * longest**2 * step.eta + 2 * RADIUS * mean
    else:
        U = max(2.0 * longest / LAM, 1.0 / math.sqrt(LAM))
        steepest = LAM * U + 2 * longest
        if isinstance(step, PegasosStep):
            bound = steepest**2 * (math.log(N) + 1) / (2 * LAM * N) + 2 * U * mean
        else:
            bound = (2 * U**2 / step.eta + step.eta * steepest**2) / math.sqrt(N) + 2 * U * mean
    assert regret / N <= bound


def test_a_larger_budget_and_a_better_policy_degrade_less():
    # the order is that of Table 4, and it is the mean of many random choices: one seed, so that chance has no say
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = np.where(np.sin(3 * X[:, 0]) * np.sin(3 * X[:, 1]) > 0, 1.0, -1.0)
    problem = KernelProblem(RBF(2.0), as_rows(X), y, Single(Hinge()), 1e-3, intercept="none")
    found = {}
    for policy in (Remove("smallest"), Project(), Merge()):
        for budget in (20, 80):
            solver = BudgetedSGD(budget, PegasosStep(), policy, sampling="fixed", precision="float64")
            state = solver.init(problem, rng)
            solver.advance(problem, state, problem.n)
            found[type(policy).__name__, budget] = solver.evaluate(problem, state)["degradation"]
    for budget in (20, 80):
        assert found["Remove", budget] == pytest.approx(1.0)
        assert found["Merge", budget] < found["Remove", budget]
        assert found["Project", budget] < found["Remove", budget]
    assert found["Merge", 80] < found["Merge", 20]
    assert found["Project", 80] < found["Project", 20]
