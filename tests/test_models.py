"""Models score rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.models import LinearModel


@pytest.fixture
def model(rng):
    return LinearModel(rng.normal(size=(3, 5)), rng.normal(size=3))


def test_scores_are_the_matrix_product_plus_the_intercept(model, rng):
    X = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.5)
    expected = X @ model.coef.T + model.intercept
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-13, atol=1e-13)
    for container in (sp.csr_matrix, sp.csr_array):
        scores = model.decision_function(container(X))
        assert type(scores) is np.ndarray
        np.testing.assert_allclose(scores, expected, rtol=1e-13, atol=1e-13)
