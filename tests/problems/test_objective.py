"""The objective: sums in float64, and errors of examples that have weight."""

import math

import numpy as np
import pytest

from widemargin.core.losses import losses
from widemargin.core.rows.rows import DenseRows
from widemargin.models import LinearModel
from widemargin.problems.linear import Problem
from widemargin.problems.objective import UNIT, rounding_of_sum, sum_of_squares


def test_the_penalty_is_summed_in_float64():
    a = np.full((200_000, 1), 1e-4, np.float32)
    assert sum_of_squares(a) == pytest.approx(200_000 * float(np.float32(1e-4)) ** 2, rel=1e-12)
    assert sum_of_squares(np.full((3, 2), 1e30, np.float32)) == pytest.approx(6e60, rel=1e-6)  # float32 rounds 1e30
    assert sum_of_squares(np.empty((0, 1))) == 0.0


def test_the_error_of_a_binary_model_is_its_share_of_wrong_signs():
    X = np.array([[2.0], [-1.0], [1.0], [0.0]])
    problem = Problem(DenseRows(X), np.array([1.0, 1.0, -1.0, -1.0]), losses.Single(losses.Hinge()), 1.0)
    assert problem.errors(LinearModel(np.array([[1.0]]), np.array([0.0]))) == 0.5  # a score of 0 is negative
    assert problem.errors(LinearModel(np.array([[1.0]]), np.array([0.5]))) == 0.75


def test_where_no_example_has_weight_there_is_no_error():
    problem = Problem(DenseRows(np.ones((2, 1))), np.ones(2), losses.Single(losses.Hinge()), 1.0, np.zeros(2))
    assert problem.errors(LinearModel(np.array([[-1.0]]), np.array([0.0]))) == 0.0


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.EpsilonInsensitive(0.3)])
def test_the_dual_value_of_the_best_multiple_is_the_largest_on_the_ray(rng, loss):
    """A search along θβ finds no more, and no less; with signs that no dual variable of a hinge has, 0."""
    X, y = rng.normal(size=(12, 3)), rng.choice([-1.0, 1.0], 12)
    y = y if isinstance(loss, losses.Hinge) else rng.normal(size=12)
    problem = Problem(DenseRows(X), y, losses.Single(loss), 0.05, rng.uniform(0.5, 2.0, 12))
    beta = rng.uniform(0.1, 1.0, 12) * (y if isinstance(loss, losses.Hinge) else np.sign(y))
    norm2 = float(np.sum((X.T @ beta) ** 2))
    longest = float(np.min(problem.caps_of(0) / np.abs(beta)))
    theta = np.linspace(0.0, longest * (1.0 - 1e-12), 4001)
    searched = max(problem.dual(t * beta[None, :], np.array([t * t * norm2])) for t in theta)
    found = problem.dual_of_multiple(beta[None, :], np.array([problem.lam * norm2]))
    assert found >= searched - 1e-12
    # between two places of the search the value is within the curvature of what was found
    assert found <= searched + problem.lam * norm2 * (theta[1] - theta[0]) ** 2 + 1e-9 * (1.0 + abs(searched))
    if isinstance(loss, losses.Hinge):
        beta[0] *= -1.0
        assert problem.dual_of_multiple(beta[None, :], np.array([problem.lam * norm2])) == 0.0


def test_sums_are_off_by_no_more_than_their_number_allows(rng):
    """Each of the small numbers is lost beside 1; of many numbers, errors of both signs nearly cancel."""
    for k in (1, 5, 30, 100):
        small = np.full(k, 0.99 * UNIT)
        terms = np.append(1.0, small)
        assert np.cumsum(terms)[-1] == 1.0
        assert small.sum() <= rounding_of_sum(k + 1) * terms.sum()
    for k in (10, 1000, 100_000):
        terms = rng.random(k) * rng.choice([-1.0, 1.0], k)
        assert abs(np.cumsum(terms)[-1] - math.fsum(terms)) <= rounding_of_sum(k) * np.abs(terms).sum()
    assert rounding_of_sum(10**8) <= 1e-3 * 10**8 * UNIT * 1.1
