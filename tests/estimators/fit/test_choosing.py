"""What "auto" is: by sizes, density, C and limits alone, and with a certificate where one can be had."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import LinearSVC, LinearSVR
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.estimators.fit.choosing import RULE, Facts
from widemargin.problems.linear import Problem


def some_facts(rng):
    n, d = int(rng.integers(10, 10**6)), int(rng.integers(1, 2001))
    kappa, tol = 10.0 ** rng.uniform(-3.0, 6.0), 10.0 ** rng.uniform(-9.0, -1.0)
    return Facts(n, d, rng.uniform(1.0, d), kappa, tol, bool(rng.integers(2)))


def test_what_makes_dual_ascent_slower_never_speaks_for_it(rng):
    """A larger κ, a smaller gap, squares; and more features for the interior point."""
    for _ in range(200):
        facts = some_facts(rng)
        more = rng.uniform(1.0, 100.0)
        if RULE.prefers_interior(facts):
            for harder in ({"kappa": more * facts.kappa}, {"tol": facts.tol / more}, {"squared": True}):
                assert RULE.prefers_interior(facts._replace(**harder))
        else:
            assert not RULE.prefers_interior(facts._replace(d=facts.d + int(more)))


def problem_of(X, y, C, weights=None, loss=losses.Hinge, intercept="regularized"):
    weights = np.empty(0) if weights is None else weights
    return Problem(as_rows(X), y, losses.Single(loss()), 1.0 / (C * y.size), sample_weight=weights, intercept=intercept)


def test_facts_are_those_of_the_data_however_it_is_laid_out(rng):
    n, d, C = 40, 6, rng.uniform(0.1, 9.0)
    X = np.where(rng.random((n, d)) < 0.4, rng.normal(size=(n, d)), 0.0)
    y, weights = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.uniform(0.5, 2.0, n)
    dense, sparse = (Facts.of(problem_of(rows, y, C, weights), 1e-3) for rows in (X, sp.csr_matrix(X)))
    kappa = C * np.mean(weights * (np.sum(X**2, axis=1) + 1.0))
    assert (dense.kappa, sparse.kappa) == (pytest.approx(kappa), pytest.approx(kappa))
    assert (dense.entries, sparse.entries) == (d, pytest.approx(max(1.0, np.count_nonzero(X) / n)))
    assert (dense.n, dense.d, dense.squared) == (n, d, False)
    assert Facts.of(problem_of(X, y, C, loss=losses.SquaredHinge), 1e-3).squared
    # c times the features and C/c² is the same problem, but for the constant feature
    c = rng.uniform(1.0, 10.0)
    longer = Facts.of(problem_of(c * X, y, C / c**2), 1e-3)
    assert longer.kappa - C / c**2 == pytest.approx(Facts.of(problem_of(X, y, C), 1e-3).kappa - C)
    # which is not there without an intercept
    bare, longer = (Facts.of(problem_of(k * X, y, C / k**2, intercept="none"), 1e-3) for k in (1.0, c))
    assert longer.kappa == pytest.approx(bare.kappa)


@pytest.mark.parametrize("estimator", [LinearSVC, LinearSVR])
@pytest.mark.parametrize("intercept", ["regularized", "none", "unregularized"])
def test_auto_has_a_certificate_where_one_can_be_had(estimator, intercept, rng):
    """Whatever C is: with a free intercept too, where dual ascent cannot go."""
    X = rng.normal(size=(600, 4)) + 2.0
    y = X @ rng.normal(size=4) + rng.normal(size=600)
    y = y if estimator is LinearSVR else np.where(y > np.median(y), 1, 0)
    model = estimator(C=10.0 ** rng.uniform(-2.0, 3.0), intercept=intercept, random_state=0).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert model.certificate_.relative_gap <= 1e-3 * (1.0 + 1e-9)
