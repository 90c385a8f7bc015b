"""The Forgetron: the textbook's factors."""

from dataclasses import replace

import numpy as np
import pytest

from budgets import degradation_of_next, dense, gauss, make, scores_at, solver_of
from reference import budgeted as textbook
from widemargin.solvers.budget import Forget, MarginPerceptronStep


def test_the_forgetron_records_what_it_shrinks_and_what_it_removes(rng):
    problem = make(rng)
    solver = solver_of(Forget(), 10, MarginPerceptronStep(1.0))
    state, shrunk = solver.init(problem, rng), 0
    for _ in range(problem.n):
        found = degradation_of_next(solver, problem, state)
        if found is None:
            continue
        exact, recorded, _, _, A, _ = found
        assert recorded == pytest.approx(exact, rel=1e-6, abs=1e-9 * np.max(A**2))
        shrunk += np.abs(state.coefficients).max() < 0.999 * np.abs(A).max()
    assert shrunk > 0


@pytest.mark.parametrize("eta", [1.0, 0.3])
def test_the_forgetron_shrinks_by_the_largest_factor_that_its_bound_allows(eta, rng):
    problem = make(rng, n=200)
    problem = replace(problem, sample_weight=np.empty(0))
    solver = solver_of(Forget(), 10, MarginPerceptronStep(eta))
    state, points, shrunk = solver.init(problem, rng), rng.normal(size=(20, 3)), 0
    V, A, updates, forgotten = np.empty((0, 3)), np.empty(0), 0, 0.0
    for x, y in zip(dense(problem), problem.y):
        V, A, updates, forgotten = textbook.forgetron(V, A, x, y, gauss, eta, 10, updates, forgotten)
        solver.advance(problem, state, 1)
        np.testing.assert_allclose(scores_at(state, points)[:, 0], gauss(points, V) @ A, rtol=1e-6, atol=1e-8)
        shrunk += abs(A[-1]) < 0.99 * eta
    assert updates > 50
    assert shrunk > 0 or eta < 1.0  # short steps are forgotten without a loss
