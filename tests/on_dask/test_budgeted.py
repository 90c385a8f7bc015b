"""Budgeted machines on a cluster: the mean of the parts' machines, as small as one of them."""

import numpy as np
import pytest

import widemargin
from widemargin.estimators.budgeted import average

da = pytest.importorskip("dask.array")

from widemargin import dask as on_dask  # noqa: E402
from widemargin.dask.budgeted import trained  # noqa: E402


def test_the_machine_is_the_mean_of_those_of_the_parts(client, rng):
    X, y = rng.uniform(-1.0, 1.0, size=(600, 2)), rng.integers(0, 3, 600)
    given = da.from_array(X, chunks=(200, 1)), da.from_array(y, chunks=300)
    model = on_dask.BudgetedSVC(budget=20, lam=1e-3, max_iter=2, random_state=7).fit(*given)
    assert model.support_vectors_.shape == (20, 2)
    seed = int(np.random.default_rng(7).integers(2**63))
    machine = widemargin.BudgetedSVC(budget=20, lam=1e-3, gamma=1.0 / (2.0 * X.var()))
    cut = [(X[k : k + 200], y[k : k + 200], np.empty(0)) for k in (0, 200, 400)]
    machines = [trained(part, k, machine, np.arange(3), seed, 2) for k, part in enumerate(cut)]
    assert model.to_local()._gamma == pytest.approx(machine.gamma, rel=1e-12)
    np.testing.assert_allclose(model.dual_coef_, average(machines).dual_coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(model.predict(given[0]).compute(), model.to_local().predict(X))
    again = on_dask.BudgetedSVC(budget=20, lam=1e-3, max_iter=2, random_state=7).fit(*given)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)


def test_a_regressor_follows_a_curve(client, rng):
    X = rng.uniform(-3.0, 3.0, size=(1500, 1))
    t = np.sin(X[:, 0])
    given = da.from_array(X, chunks=(500, 1)), da.from_array(t, chunks=500)
    model = on_dask.BudgetedSVR(budget=30, gamma=1.0, epsilon=0.01, lam=1e-5, random_state=0).fit(*given)
    assert np.abs(model.predict(given[0]).compute() - t).mean() < np.abs(t).mean() / 2.0
    assert float(model.score(*given)) == pytest.approx(model.to_local().score(X, t), abs=1e-9)
