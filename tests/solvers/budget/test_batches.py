"""Batches are steps along the mean sub-gradient."""

from dataclasses import replace

import numpy as np
import pytest

from budgets import dense, gauss, make, scores_at, slope_of, solver_of
from reference import budgeted as textbook
from widemargin.solvers.budget import MarginPerceptronStep, Remove


def test_a_batch_is_one_step_along_the_mean_sub_gradient_and_a_short_one_a_short_step(rng):
    problem = make(rng, n=130)
    solver = solver_of(Remove("smallest"), 500, batch_size=30)
    state = solver.init(problem, rng)
    expected = np.zeros(problem.n)
    X, slope = dense(problem), slope_of(problem)
    for t in range(1, 6):
        rows = np.arange(30 * (t - 1), min(30 * t, problem.n))
        g = [slope(i, gauss(X[[i]], X) @ expected)[0] for i in rows]
        expected *= 1 - 1 / t
        expected[rows] -= np.array(g) / (30 * problem.lam * t)
        solver.advance(problem, state, 1)
        points = rng.normal(size=(20, 3))
        np.testing.assert_allclose(scores_at(state, points)[:, 0], gauss(points, X) @ expected, rtol=1e-8, atol=1e-8)
    assert solver.steps_per_epoch(problem) == 5
    assert state.counters.steps == 5
    assert state.counters.visits == problem.n


@pytest.mark.parametrize("budget", [500, 25])
def test_a_batch_of_margin_perceptron_steps_goes_back_to_its_ball_once(budget, rng):
    problem = make(rng, n=130)
    problem = replace(problem, sample_weight=np.empty(0))
    solver = solver_of(Remove("oldest"), budget, MarginPerceptronStep(6.0, radius=1.5), batch_size=13)
    state, points, outside = solver.init(problem, rng), rng.normal(size=(20, 3)), 0
    V, A = np.empty((0, 3)), np.empty(0)
    for rows in np.arange(problem.n).reshape(-1, 13):
        x, y = dense(problem)[rows], problem.y[rows]
        W, C = textbook.perceptron_batch(V, A, x, y, gauss, 6.0, budget, np.inf)
        outside += textbook.norm(W, C[:, None], gauss) > 1.5
        V, A = textbook.perceptron_batch(V, A, x, y, gauss, 6.0, budget, 1.5)
        solver.advance(problem, state, 1)
        np.testing.assert_allclose(scores_at(state, points)[:, 0], gauss(points, V) @ A, rtol=1e-8, atol=1e-8)
    assert outside > 5


def test_batches_in_parts_are_batches_in_one_and_the_last_may_be_short(rng):
    problem = make(rng, n=100)
    solver = solver_of(Remove("smallest"), batch_size=16, sampling="permutation")
    whole, parts = (solver.init(problem, np.random.default_rng(3)) for _ in range(2))
    solver.advance(problem, whole, 14)
    for steps in (3, 4, 0, 1, 6):
        solver.advance(problem, parts, steps)
    assert whole.counters.visits == 200
    np.testing.assert_array_equal(parts.budget.vectors.Z, whole.budget.vectors.Z)
    np.testing.assert_array_equal(parts.values, whole.values)
    assert whole.support == 10
