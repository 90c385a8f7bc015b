"""The objective: sums in float64, and errors of examples that have weight."""

import numpy as np
import pytest

from widemargin.core import losses
from widemargin.core.rows import DenseRows
from widemargin.models import LinearModel
from widemargin.problems.linear import Problem
from widemargin.problems.objective import sum_of_squares


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
