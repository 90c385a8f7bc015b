"""Other coordinates are the same problem: scores and the size of the weights are what they were."""

from dataclasses import replace

import numpy as np
import pytest

from widemargin.core.losses.losses import Hinge, Single
from widemargin.core.rows.rows import DenseRows
from widemargin.models import LinearModel
from widemargin.problems.coordinates import FAR_OUT, Coordinates
from widemargin.problems.linear import Problem


@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
def test_scores_and_norms_of_models_are_those_of_the_rows_as_they_were_given(intercept, rng):
    """Near the constant feature of an intercept, of a smaller size, and of a larger one."""
    for size in (1e-2, 1.0, 1e2):
        X = size * (rng.choice([-1.0, 1.0], 3) + rng.normal(size=(40, 3)) / (10.0 * FAR_OUT))
        problem = Problem(DenseRows(X), rng.choice([-1.0, 1.0], 40), Single(Hinge()), 0.1, intercept=intercept)
        coordinates = Coordinates.of(problem)
        inner = coordinates.inner(problem)
        rows, bias = inner.X.values, rng.normal(size=1) if inner.has_free_bias else np.zeros(1)
        weights = rng.normal(size=(1, rows.shape[1]))
        model = coordinates.outer(LinearModel(weights, bias))
        found, expected = X @ model.coef.T + model.intercept, rows @ weights.T + bias
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * (1.0 + size))
        norm2 = np.sum(model.coef**2) + (model.intercept[0] ** 2 if intercept == "regularized" else 0.0)
        assert norm2 == pytest.approx(np.sum(weights**2), rel=1e-12)
        assert intercept != "none" or not model.intercept.any()


def test_rows_that_are_not_far_out_stay_where_they_are(rng):
    X = 1.0 + rng.normal(size=(40, 3)) * 10.0 / FAR_OUT
    problem = Problem(DenseRows(X), rng.choice([-1.0, 1.0], 40), Single(Hinge()), 0.1)
    assert Coordinates.of(problem) is None
    X[:, 1] = 1e9  # a constant feature has no spread to lose
    assert Coordinates.of(replace(problem, X=DenseRows(X))) is None
