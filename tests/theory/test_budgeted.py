"""Lemma 1 and Theorems 1 to 3 of the BSGD paper on recorded runs: degradation pays for regret against the optimum."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from reference import budgeted as textbook
from widemargin.core.kernels import RBF
from widemargin.core.losses import Hinge, Single
from widemargin.core.rows import as_matrix, as_rows
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


def make(rng):
    X = rng.normal(size=(N, 2))
    y = np.where(np.sin(3 * X[:, 0]) + 0.5 * rng.normal(size=N) > 0, 1.0, -1.0)
    return KernelProblem(RBF(1.0), as_rows(X), y, Single(Hinge()), LAM, intercept="none")


def gauss(V, W):
    return np.exp(-np.sum((V[:, None] - W[None]) ** 2, axis=2))


def optimum(problem, radius=math.inf, lam=LAM):
    """Coefficients of the optimum over the examples, or of the multiple of it that lies in the ball."""
    X = as_matrix(problem.X)
    Q = gauss(X, X) * np.outer(problem.y, problem.y)
    C = 1.0 / (lam * N)
    best = minimize(
        lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - 1.0), np.zeros(N), jac=True, bounds=[(0.0, C)] * N,
        method="L-BFGS-B",
    ).x  # fmt: skip
    return min(1.0, radius / math.sqrt(best @ Q @ best)) * best * problem.y


@pytest.mark.parametrize("maintenance", [Remove("smallest"), Project(), Merge()], ids=str)
@pytest.mark.parametrize("step", [PegasosStep(), NormaStep(1.0), MarginPerceptronStep(0.3, RADIUS)], ids=str)
def test_every_step_and_the_regret_of_a_run_are_within_the_paper_s_bounds(step, maintenance, rng):
    problem = make(rng)
    X, y = as_matrix(problem.X), problem.y
    solver = BudgetedSGD(15, step, maintenance, sampling="fixed", precision="float64")
    state = solver.init(problem, rng)
    perceptron = isinstance(step, MarginPerceptronStep)
    lam = 0.0 if perceptron else LAM
    # any u of the ball may stand for w*: it only makes the bounds harder where it is better
    u = optimum(problem, RADIUS if perceptron else math.inf)
    u_norm2, u_margins = u @ gauss(X, X) @ u, y * (gauss(X, X) @ u)

    def known():
        """‖w‖², ‖w − u‖² and the scores of all examples."""
        V, a = as_matrix(state.vectors()), state.coefficients[0]
        norm2 = a @ gauss(V, V) @ a
        return norm2, norm2 - 2 * a @ gauss(V, X) @ u + u_norm2, gauss(X, V) @ a

    regret, degradation = 0.0, 0.0
    norm2, apart2, scores = known()
    for t in range(1, N + 1):
        before, margin = state.amounts.lost, y[t - 1] * scores[t - 1]
        solver.advance(problem, state, 1)
        E, violated = state.amounts.lost - before, float(margin < 1.0)
        eta, _ = textbook.step_size(step, LAM, t)
        assert E <= 1.0 + 1e-9  # ‖E‖ ≤ 1, as the theorems ask
        gained = 0.5 * lam * (norm2 - u_norm2) + max(0.0, 1.0 - margin) - max(0.0, 1.0 - u_margins[t - 1])
        slope = math.sqrt(max(lam**2 * norm2 - 2 * lam * violated * margin + violated, 0.0))
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
        bound = 2 * RADIUS**2 / (N * step.eta) + 2 * step.eta + 2 * RADIUS * mean
    else:
        U = 2.0 / LAM if LAM <= 4 else 1.0 / math.sqrt(LAM)
        if isinstance(step, PegasosStep):
            bound = (LAM * U + 2) ** 2 * (math.log(N) + 1) / (2 * LAM * N) + 2 * U * mean
        else:
            bound = (2 * U**2 / step.eta + step.eta * (LAM * U + 2) ** 2) / math.sqrt(N) + 2 * U * mean
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
