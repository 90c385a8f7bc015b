"""Budgeted machines on a cluster: the mean of the parts' machines, as small as one of them, and refitted."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import widemargin
from widemargin.estimators.budgeted import average

da = pytest.importorskip("dask.array")

from widemargin import dask as on_dask  # noqa: E402
from widemargin.dask import budgeted  # noqa: E402
from widemargin.dask.budgeted import trained  # noqa: E402


def test_the_machine_is_the_mean_of_those_of_the_parts(client, rng):
    X, y = rng.uniform(-1.0, 1.0, size=(600, 2)), rng.integers(0, 3, 600)
    given = da.from_array(X, chunks=(200, 1)), da.from_array(y, chunks=300)
    options = {"budget": 20, "lam": 1e-3, "max_iter": 2, "random_state": 7, "refit": False}
    model = on_dask.BudgetedSVC(**options).fit(*given)
    assert model.support_vectors_.shape == (20, 2)
    seed = int(np.random.default_rng(7).integers(2**63))
    machine = widemargin.BudgetedSVC(budget=20, lam=1e-3, gamma=1.0 / (2.0 * X.var()))
    cut = [(X[k : k + 200], y[k : k + 200], np.empty(0)) for k in (0, 200, 400)]
    machines = [trained(part, k, machine, np.arange(3), seed, 2) for k, part in enumerate(cut)]
    assert model.to_local()._gamma == pytest.approx(machine.gamma, rel=1e-12)
    np.testing.assert_allclose(model.dual_coef_, average(machines).dual_coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(model.predict(given[0]).compute(), model.to_local().predict(X))
    again = on_dask.BudgetedSVC(**options).fit(*given)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("kind", [on_dask.BudgetedSVC, on_dask.SVC])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gamma_is_that_of_all_entries_of_sparse_chunks(client, rng, kind):
    X, y = (3.0 + rng.normal(size=(60, 3))) * (rng.random((60, 3)) < 0.4), np.arange(60) % 2
    rows = da.from_array(X, chunks=(25, 3)).map_blocks(sp.csr_matrix, dtype=float)
    model = kind(max_iter=1, random_state=0).fit(rows, da.from_array(y, chunks=25)).to_local()
    assert model._gamma == pytest.approx(1.0 / (3 * X.var()), rel=1e-9)


def test_examples_without_weight_teach_a_part_nothing(rng):
    X, y, s = rng.normal(size=(80, 2)), np.arange(80) % 2, (rng.random(80) < 0.5).astype(float)
    machine = widemargin.BudgetedSVC(budget=100, gamma=1.0, lam=1e-2)
    one, other = (
        trained((X, labels, s), 0, machine, np.arange(2), 3, 1) for labels in (y, np.where(s > 0.0, y, 1 - y))
    )
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-9, atol=1e-12)


def objective(model, X, y, lam, epsilon=None):
    """λ/2 ‖w‖² and the mean loss of a machine with one output."""
    V, a = model.support_vectors_, model.dual_coef_[0]
    norm2 = a @ np.exp(-np.square(V[:, None] - V[None]).sum(axis=2)) @ a
    scores = np.exp(-np.square(X[:, None] - V[None]).sum(axis=2)) @ a
    losses = 1.0 - (2 * y - 1) * scores if epsilon is None else np.abs(scores - y) - epsilon
    return 0.5 * lam * norm2 + np.maximum(0.0, losses).mean()


@pytest.mark.parametrize(("regression", "sparse"), [(False, True), (True, False)])
def test_one_part_refits_to_the_best_machine_of_its_vectors(client, rng, monkeypatch, regression, sparse):
    monkeypatch.setattr(budgeted, "EPOCHS", 10_000)  # on to the gap
    X = rng.uniform(-2.0, 2.0, size=(300, 2))
    y = np.sin(X[:, 0]) if regression else (X[:, 0] * X[:, 1] > 0).astype(int)
    given = da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300)
    given = (given[0].map_blocks(sp.csr_matrix, dtype=float), given[1]) if sparse else given
    kind = on_dask.BudgetedSVR if regression else on_dask.BudgetedSVC
    options = {"budget": 15, "gamma": 1.0, "lam": 1e-2, "random_state": int(rng.integers(100))}
    values = []
    for refit in (False, True):
        model = kind(**options, refit=refit).fit(*given)
        local = model.to_local()
        V = local.support_vectors_
        found = type("Machine", (), {"support_vectors_": V.toarray() if sparse else V, "dual_coef_": local.dual_coef_})
        values.append(objective(found, X, y, 1e-2, 0.1 if regression else None))
    # the value of the best machine is at least 0.99 of that found, and at most that of any other of these vectors;
    # directions of the span that are left out may cost 1e-4
    assert 0.99 * values[1] <= values[0] * (1.0 + 1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_refitted_machine_is_the_mean_of_what_parts_find_by_rows(client, rng, classes):
    X = rng.uniform(-1.0, 1.0, size=(250, 2))
    y = np.arange(250) % classes
    given = da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)
    options = {"budget": 10, "gamma": 1.0, "lam": 1e-2, "class_weight": "balanced", "random_state": 3}
    model = on_dask.BudgetedSVC(**options).fit(*given)
    plain = on_dask.BudgetedSVC(**options, refit=False).fit(*given).to_local()
    seed, root = int(np.random.default_rng(3).integers(2**63)), budgeted.root_of(plain)
    weights = len(y) / (classes * np.bincount(y))
    cut = [(X[k : k + 100], y[k : k + 100], np.empty(0)) for k in (0, 100, 200)]
    found = [budgeted.refitted(part, k, plain, root, weights, seed) for k, part in enumerate(cut)]
    mean = (100 * found[0] + 100 * found[1] + 50 * found[2]) / 250
    np.testing.assert_array_equal(model.support_vectors_, plain.support_vectors_)
    np.testing.assert_allclose(model.dual_coef_, mean @ root.T, rtol=1e-6, atol=1e-6 * np.abs(mean @ root.T).max())
    again = on_dask.BudgetedSVC(**options).fit(*given)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)


def test_parts_without_weight_have_no_say_in_the_refitted_machine(client, rng):
    X, y = rng.uniform(-1.0, 1.0, size=(300, 2)), np.arange(300) % 2
    weights = np.repeat([1.0, 0.0, 3.0], 100)
    given = (da.from_array(a, chunks=(100, 2)[: a.ndim]) for a in (X, y, weights))
    options = {"budget": 10, "gamma": 1.0, "lam": 1e-2, "random_state": 3}
    model = on_dask.BudgetedSVC(**options).fit(*given).to_local()
    seed, root = int(np.random.default_rng(3).integers(2**63)), budgeted.root_of(model)
    cut = [(X[k : k + 100], y[k : k + 100], weights[k : k + 100]) for k in (0, 100, 200)]
    found = [budgeted.refitted(part, k, model, root, np.ones(2), seed) for k, part in enumerate(cut)]
    wanted = (found[0] + 3.0 * found[2]) / 4.0 @ root.T
    np.testing.assert_allclose(model.dual_coef_, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_parts_that_lack_a_class_are_told_of_and_mixed_ones_are_not(client, rng):
    X, y = rng.normal(size=(240, 2)), np.sort(np.arange(240) % 3)
    options = {"budget": 5, "gamma": 1.0, "refit": False, "random_state": 0}
    with pytest.warns(UserWarning, match=r"4 of 4 parts have no row of some class \(part 0 none of 1\)"):
        on_dask.BudgetedSVC(**options).fit(da.from_array(X, chunks=(60, 2)), da.from_array(np.roll(y, 20), chunks=60))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        order = rng.permutation(240)
        on_dask.BudgetedSVC(**options).fit(da.from_array(X, chunks=(60, 2)), da.from_array(y[order], chunks=60))


@pytest.mark.parametrize(("rare", "warns"), [(3, False), (70, True)])
def test_a_rare_class_may_lack_in_a_part_by_chance(rare, warns):
    """A part of a third of the rows has 1 or 23 of them on average, and here none."""
    kept = [(np.arange(2), [80 - rare, 0.0 + rare]), (np.arange(1), [80.0]), (np.arange(1), [80.0])]
    parts = [SimpleNamespace(labels=labels, counts=counts, n=80) for labels, counts in kept]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        budgeted.warn_of_missing_classes(SimpleNamespace(summaries=parts), np.arange(2))
    assert [str(each.message)[:44] for each in said] == ["2 of 3 parts have no row of some class (part"] * warns


def test_refit_is_true_or_false(client):
    with pytest.raises(TypeError, match="refit must be True or False, got 'no'"):
        on_dask.BudgetedSVC(refit="no").fit(da.zeros((4, 2)), da.zeros(4))


def test_a_regressor_follows_a_curve(client, rng):
    X = rng.uniform(-3.0, 3.0, size=(1500, 1))
    t = np.sin(X[:, 0])
    given = da.from_array(X, chunks=(500, 1)), da.from_array(t, chunks=500)
    model = on_dask.BudgetedSVR(budget=30, gamma=1.0, epsilon=0.01, lam=1e-5, random_state=0).fit(*given)
    assert np.abs(model.predict(given[0]).compute() - t).mean() < np.abs(t).mean() / 2.0
    assert float(model.score(*given)) == pytest.approx(model.to_local().score(X, t), abs=1e-9)
