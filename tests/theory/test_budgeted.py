"""Theorems 1 to 3 of the BSGD paper on recorded runs: the mean degradation pays for regret against the optimum."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from widemargin.core.kernels import RBF
from widemargin.core.losses import Hinge, Single
from widemargin.core.rows import as_rows
from widemargin.problem import KernelProblem
from widemargin.solvers import budgeted
from widemargin.solvers.budgeted import BudgetedSGD, MarginPerceptronStep, NormaStep, PegasosStep
from widemargin.solvers.maintenance import Merge, Project, Remove

N, LAM, RADIUS = 150, 0.05, 2.0


def make(rng):
    X = rng.normal(size=(N, 2))
    y = np.where(np.sin(3 * X[:, 0]) + 0.5 * rng.normal(size=N) > 0, 1.0, -1.0)
    return KernelProblem(RBF(1.0), as_rows(X), y, Single(Hinge()), LAM, intercept="none")


def optimum(problem, radius=math.inf, lam=LAM):
    """(multiple, margins, norm) of the optimum, or of the multiple of it that lies in the ball."""
    K = problem.matrix(np.arange(N), np.arange(N)).block(np.arange(N)).astype(np.float64)
    Q = K * np.outer(problem.y, problem.y)
    C = 1.0 / (lam * N)
    best = minimize(
        lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - 1.0), np.zeros(N), jac=True, bounds=[(0.0, C)] * N,
        method="L-BFGS-B",
    ).x  # fmt: skip
    margins, norm = Q @ best, math.sqrt(best @ Q @ best)
    shrink = min(1.0, radius / norm)
    return shrink, margins, norm


@pytest.mark.parametrize("maintenance", [Remove("smallest"), Remove("random"), Project(), Merge()], ids=str)
@pytest.mark.parametrize("step", [PegasosStep(), NormaStep(1.0), MarginPerceptronStep(0.3, RADIUS)], ids=str)
def test_the_regret_of_a_budgeted_run_is_within_the_paper_s_bound(step, maintenance, rng):
    problem = make(rng)
    solver = BudgetedSGD(15, step, maintenance, sampling="fixed", precision="float64")
    state = solver.init(problem, rng)
    perceptron = isinstance(step, MarginPerceptronStep)
    lam = 0.0 if perceptron else LAM
    objectives, degradation, largest = 0.0, 0.0, 0.0
    for _ in range(N):
        norm2, loss, lost = solver.norm2(problem, state), state.values[budgeted.LOSS], state.values[budgeted.LOST]
        solver.advance(problem, state, 1)
        objectives += 0.5 * lam * norm2 + state.values[budgeted.LOSS] - loss
        largest = max(largest, state.values[budgeted.LOST] - lost)
        degradation += state.values[budgeted.LOST] - lost
    if maintenance != Remove("random"):
        assert largest <= 1.0 + 1e-9  # ‖E‖ ≤ 1, as the theorems ask
    elif largest > 1.0:
        pytest.skip("a random vector may be larger than the step, and the theorems then say nothing")
    shrink, margins, norm = optimum(problem, RADIUS if perceptron else math.inf)
    # any w of the ball may stand for w*: it only makes the bound harder where it is better
    best = 0.5 * lam * (shrink * norm) ** 2 + np.mean(np.maximum(0.0, 1.0 - shrink * margins))
    mean = degradation / N
    if perceptron:
        bound = 2 * RADIUS**2 / (N * step.eta) + 2 * step.eta + 2 * RADIUS * mean
    else:
        U = 2.0 / LAM if LAM <= 4 else 1.0 / math.sqrt(LAM)
        if isinstance(step, PegasosStep):
            bound = (LAM * U + 2) ** 2 * (math.log(N) + 1) / (2 * LAM * N) + 2 * U * mean
        else:
            bound = (2 * U**2 / step.eta + step.eta * (LAM * U + 2) ** 2) / math.sqrt(N) + 2 * U * mean
    assert objectives / N - best <= bound


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
