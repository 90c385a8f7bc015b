"""Projection: its inverse, and what it loses."""

from dataclasses import replace

import numpy as np
import pytest

from budgets import degradation_of_next, dense, gauss, make, slope_of, solver_of, vectors_of
from widemargin.core.kernels.inverse import INVERSE_ERROR
from widemargin.core.kernels.kernels import RBF, Polynomial
from widemargin.core.losses.losses import Hinge, Single
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.budget import BudgetedSGD, MarginPerceptronStep, Project


def test_the_inverse_stays_accurate_over_a_million_updates(rng):
    n = 50_000
    X = rng.uniform(-1, 1, size=(n, 2))
    problem = KernelProblem(RBF(1.0), as_rows(X), rng.choice([-1.0, 1.0], n), Single(Hinge()), 1e-3, intercept="none")
    solver = BudgetedSGD(12, MarginPerceptronStep(1.0, radius=0.5), Project(), sampling="fixed")
    state = solver.init(problem, rng)
    while state.tally.updates < 1_000_000:
        solver.advance(problem, state, n)
        k = state.support
        K, inverse = state.budget.K[:k, :k], state.budget.inverse[:k, :k]
        V = vectors_of(state)
        np.testing.assert_allclose(K, np.exp(-np.sum((V[:, None] - V[None]) ** 2, axis=2)), atol=1e-12)
        # a row is found out at 1e-5 when it is looked at, which each is in turn: until then errors may grow
        assert np.abs(K @ inverse - np.eye(k)).max() <= 100 * INVERSE_ERROR
    assert state.amounts.lost / state.tally.maintained < 1.0


def test_projection_onto_a_span_that_holds_everything_loses_nothing(rng):
    # inner products, by the kernel whose loop other tests have
    problem, solver = make(rng, kernel=Polynomial(1.0, 0.0, 1)), solver_of(Project(), 10)
    state = solver.init(problem, rng)
    for t, x in enumerate(dense(problem), 1):
        w, whole = (state.coefficients @ vectors_of(state))[0], state.support == 3
        g = slope_of(problem)(t - 1, [w @ x])[0]
        solver.advance(problem, state, 1)
        expected = (1 - 1 / t) * w - g * x / (problem.lam * t)
        assert state.support <= 3
        if whole:  # three vectors of three features; fewer may lose a hundredth of one that is almost in their span
            found = (state.coefficients @ vectors_of(state))[0]
            # the inverse of K is good for 1e-5 of it
            np.testing.assert_allclose(found, expected, atol=1e-3 * np.linalg.norm(x) / (problem.lam * t))
    assert state.support == 3


@pytest.mark.parametrize("classes", [2, 4])
def test_what_nearly_lies_in_the_span_is_not_projected_at_more_than_removal_costs(classes, rng):
    """A wide kernel and a radius of half a step: most old vectors weigh nothing, and new ones are near their span."""
    problem = make(rng, n=300, classes=classes)
    problem = replace(problem, X=as_rows(0.3 * problem.X.values))
    solver = solver_of(Project(), 20, MarginPerceptronStep(1.0, radius=0.5))
    state, tempted = solver.init(problem, rng), 0
    for i in range(problem.n):
        full, V, x = state.support == solver.budget, vectors_of(state), dense(problem)[[i]]
        found = degradation_of_next(solver, problem, state)
        if found is None or not full:
            continue
        exact, recorded, removal, _, A, _ = found
        scale = np.max(np.sum(A**2, axis=0))
        assert max(exact, recorded) <= removal + 1e-7 * scale
        onto = np.linalg.lstsq(gauss(V, V), gauss(V, x)[:, 0], rcond=1e-12)[0]
        distance2 = 1.0 - onto @ gauss(V, x)[:, 0]
        tempted += distance2 <= 1e-4 and distance2 * np.sum(A[:, -1] ** 2) > removal + 1e-6 * scale
    assert tempted > 0
