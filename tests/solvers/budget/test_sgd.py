"""Budgeted SGD: laws of states and streams."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from budgets import (
    GAUSS,
    POLICIES,
    bytes_of,
    check_rows_of,
    dense,
    gauss,
    make,
    scores_at,
    solver_of,
    sparse_problem,
    trained,
    vectors_of,
)
from widemargin.core.kernels.kernels import RBF, Laplacian, Polynomial
from widemargin.core.losses.losses import Hinge, OneVsRest, Single
from widemargin.core.rows.rows import as_matrix, as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import load_state, run, save_state
from widemargin.solvers.budget import BudgetedSGD, Merge, Project, Remove, sgd
from widemargin.solvers.budget.sgd import scores


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_steps_in_parts_saved_and_loaded_are_the_steps_in_one(policy, rng, tmp_path):
    problem = make(rng)
    solver = solver_of(policy, sampling="permutation")
    whole, parts = (solver.init(problem, np.random.default_rng(7)) for _ in range(2))
    solver.advance(problem, whole, 250)
    for k, steps in enumerate((1, 99, 0, 60, 90)):
        solver.advance(problem, parts, steps)
        save_state(tmp_path / f"{k}.npz", parts)
        parts = load_state(tmp_path / f"{k}.npz")
    for one, other in zip((*parts.budget[1:], *parts.budget.vectors), (*whole.budget[1:], *whole.budget.vectors)):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(parts.values, whole.values)
    np.testing.assert_array_equal(parts.counts, whole.counts)
    assert parts.counters == whole.counters


def test_sparse_and_dense_rows_make_the_same_model(rng):
    problem = make(rng, sparse=True)
    sparse, full = (
        trained(solver_of(Merge()), each) for each in (problem, replace(problem, X=as_rows(dense(problem))))
    )
    points = rng.normal(size=(40, 3))
    expected = scores_at(sparse, points)
    np.testing.assert_allclose(scores_at(full, points), expected, atol=1e-3 * np.abs(expected).max())
    assert full.tally.updates == sparse.tally.updates


def test_rows_in_both_precisions_make_the_same_model_bit_for_bit(rng):
    """Vectors are in single precision: numbers that it has are the same ones wherever they come from."""
    problem = make(rng, dtype=np.float32)
    wide = replace(problem, X=as_rows(dense(problem).astype(np.float64)))
    narrow, same = (trained(solver_of(Merge(), precision="float32"), each) for each in (problem, wide))
    np.testing.assert_array_equal(narrow.coefficients, same.coefficients)
    np.testing.assert_array_equal(vectors_of(narrow), vectors_of(same))
    assert narrow.tally.updates == same.tally.updates


@pytest.mark.parametrize(
    ("kernel", "policy", "sparse"),
    # one by inner products, one by distances, in the precisions that estimators have for them; two losses, as others
    # compile them
    [(Polynomial(0.5, 1.0, 2), Project(), False), (Laplacian(0.5), Remove("smallest"), True)],
    ids=str,
)
def test_steps_see_the_scores_of_other_kernels(kernel, policy, sparse, rng):
    problem = make(rng, kernel=kernel, sparse=sparse, regression=sparse)
    solver = solver_of(policy, 200, precision="auto")
    state = trained(solver, problem, 60)
    # a sum over at most 60 vectors, of which each kernel value, product and sum is rounded by some ε of the largest
    largest = 1.0 if sparse else (0.5 * np.sum(dense(problem) ** 2, axis=1).max() + 1.0) ** 2
    close = 1e2 * np.finfo(state.budget.A.dtype).eps * largest * np.abs(state.coefficients).sum()
    model = solver.model(problem, state)
    found = model.decision_function(problem.X)[:, 0]
    # the next step must see these scores: its loss is added to the sum
    before = state.amounts.loss
    solver.advance(problem, state, 1)
    own = abs(problem.y[60] - found[60]) - 0.1 if sparse else 1.0 - problem.y[60] * found[60]
    loss = problem.sample_weight[60] * max(0.0, own)
    assert state.amounts.loss - before == pytest.approx(loss, abs=2.0 * close)
    np.testing.assert_allclose(scores(kernel, problem.X, trained(solver, problem, 60))[:, 0], found, atol=close)


def test_counters_are_exact(rng):
    problem = make(rng)
    solver = solver_of(Remove("smallest"), 10)
    state = solver.init(problem, rng)
    evals = updates = 0
    for _ in range(problem.n):
        evals += state.support
        loss = state.amounts.loss
        solver.advance(problem, state, 1)
        updates += state.amounts.loss > loss
    assert state.counters.steps == state.counters.visits == problem.n
    assert state.counters.kernel_evals == evals
    assert state.counters.updates == updates
    assert state.counters.feature_reads == 3 * problem.n
    assert state.tally.maintained == updates - 10


def test_data_far_from_the_origin_is_learnt_like_data_at_it(rng):
    problem = make(rng)
    far = replace(problem, X=as_rows(problem.X.values + 1e6))
    near, moved = (trained(solver_of(Merge(), precision="float32"), p) for p in (problem, far))
    points = rng.normal(size=(40, 3))
    expected = gauss(points, vectors_of(near)) @ near.coefficients.T
    # 1e6 in float64 leaves 1e-10
    np.testing.assert_allclose(
        gauss(points + 1e6, vectors_of(moved)) @ moved.coefficients.T, expected, atol=1e-3 * np.abs(expected).max()
    )


def test_a_first_row_far_from_all_others_does_no_harm(rng):
    # one first row a million away, of points whose distances single precision cannot see from there
    side = rng.choice([-1.0, 1.0], 400)
    X = 0.03 * side[:, None] * np.array([1.0, 0.0, 0.0]) + 0.003 * rng.normal(size=(400, 3))
    first = np.vstack([[1e6, -1e6, 1e6], X])
    problem = KernelProblem(
        RBF(500.0), as_rows(first), np.append(1.0, side), Single(Hinge()), 0.02, intercept="none", outputs=1
    )
    state = trained(solver_of(Merge(), precision="float32"), problem)
    assert np.abs(state.budget.vectors.centre).max() < 1.0
    found = scores(problem.kernel, as_rows(X), state)[:, 0]
    assert np.mean(side * found > 0) == 1.0


def test_vectors_of_sparse_data_have_rows_for_their_own_features_and_are_those_of_dense_data(rng):
    problem = sparse_problem(rng, 250, 6000, 30)
    other = replace(problem, X=as_rows(as_matrix(problem.X).toarray()))
    solver = solver_of(Merge(), 40)
    state, expected = (trained(solver, one, steps=500) for one in (problem, other))
    check_rows_of(state.budget.vectors)
    assert len(state.budget.vectors.Z) < 6000
    assert state.tally.updates == expected.tally.updates
    found, wanted = (scores(one.kernel, one.X, s) for one, s in ((problem, state), (other, expected)))
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())
    again = solver.init(problem, np.random.default_rng(0))
    for steps in (1, 3, 196, 300):
        solver.advance(problem, again, steps)
    for one, two in zip(again.budget.vectors, state.budget.vectors):
        np.testing.assert_array_equal(one, two)


def test_a_million_features_take_the_memory_of_those_that_occur_and_no_more_than_allowed(rng):
    n = 350
    problem = sparse_problem(rng, n, 1_000_000, 100)
    problem = replace(problem, y=rng.choice([-1.0, 1.0], n))  # noise: almost every example violates its margin
    state = trained(solver_of(Merge(), 240), problem)
    assert state.support == 240
    # no more rows than the examples have features, grown by half at a time; and a number for each feature
    occur = np.unique(problem.X.indices).size + 1
    assert state.budget.vectors.rows[0] <= occur
    assert bytes_of(state) <= 8 * 272 * (1.5 * occur + 200) + 5e6
    limited = solver_of(Merge(), 240).within(20e6, 1_000_000, 1, 8, True)
    state = trained(limited, problem)
    check_rows_of(state.budget.vectors)
    assert bytes_of(state) <= 20e6
    assert 10 < state.support <= limited.budget
    with pytest.raises(ValueError, match="a row has"):
        replace(limited, max_bytes=8e6).init(sparse_problem(rng, 20, 1_000_000, 3000), rng)


def test_one_against_the_rest_is_a_binary_run_for_each_class_while_the_budget_lasts(rng):
    problem = make(rng, classes=3)
    problem = replace(problem, sample_weight=np.empty(0))
    joint = replace(problem, target=OneVsRest(Hinge(), np.ones(3)))
    state = trained(solver_of(Remove("smallest"), 500), joint)
    points = rng.normal(size=(40, 3))
    for c in range(3):
        alone = replace(problem, target=Single(Hinge()), outputs=1, y=np.where(problem.y == c, 1.0, -1.0))
        own = trained(solver_of(Remove("smallest"), 500), alone)
        np.testing.assert_allclose(scores_at(state, points)[:, c], scores_at(own, points)[:, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dtype", "classes"), [(np.float32, 2), (np.float64, 4)])
def test_scores_do_not_depend_on_the_rows_they_are_asked_for_with(dtype, classes, rng):
    problem = make(rng, classes=classes)
    state = trained(solver_of(Merge(), precision=np.dtype(dtype).name), problem)
    X = rng.normal(size=(45, 3)).astype(dtype)
    together = scores(problem.kernel, as_rows(X), state)
    for rows in (slice(0, 1), slice(3, 20), slice(44, 45), slice(None, None, -1)):
        np.testing.assert_array_equal(scores(problem.kernel, as_rows(X[rows]), state), together[rows])
    exact = gauss(X.astype(float), vectors_of(state)) @ state.coefficients.T
    np.testing.assert_allclose(together, exact, atol=1e-4 * np.abs(state.coefficients).sum())
    if dtype == np.float64:
        return
    far, vectors = copy.copy(state), state.budget.vectors
    # differences are taken where norms would cancel
    moved = vectors._replace(centre=vectors.centre + 1e5, size=vectors.size + np.dtype(dtype).type(1e20))
    far.budget = state.budget._replace(vectors=moved)
    np.testing.assert_allclose(
        scores(problem.kernel, as_rows(X.astype(float) + 1e5), far), exact, atol=1e-4 * np.abs(state.coefficients).sum()
    )


def test_a_run_records_degradation_maintenances_and_bytes(rng):
    problem = make(rng)
    outcome = run(BudgetedSGD(10), problem, rng=rng, max_epochs=2)
    row = outcome.history.rows[-1]
    assert row["support_vectors"] == 10
    assert row["model_bytes"] == 10 * (3 + 1) * 4
    assert row["maintenances"] == row["updates"] - 10
    assert 0 < row["degradation_per_step"] < row["degradation"] <= 1.5
    assert problem.errors(outcome.model) < 0.5


def test_sparse_data_far_from_the_origin_is_learnt_like_data_at_it(rng):
    """Distances of sparse rows are made of sizes: those of far ones cancel in float32."""
    near, away = make(rng), np.array([3e4, 0.0, 0.0])
    far = dense(near) + away
    rows = as_rows(sp.csr_matrix(far))
    state = trained(solver_of(Merge(), precision="auto"), replace(near, X=rows))
    expected = trained(solver_of(Merge()), replace(near, X=as_rows(far)))
    points = near.X.values[:20] + away
    found = scores(GAUSS, as_rows(sp.csr_matrix(points)), state)
    np.testing.assert_allclose(found, scores(GAUSS, as_rows(points), expected), atol=1e-3 * np.abs(found).max())


@pytest.mark.parametrize(
    ("policy", "sparse", "batch_size"),
    [(Merge(), True, 1), (Project(), False, 1), (Remove("smallest"), False, 7)],
    ids=str,
)
def test_room_for_vectors_grows_with_them_and_changes_nothing(policy, sparse, batch_size, rng, monkeypatch):
    problem = make(rng, sparse=sparse)
    solver = solver_of(policy, 70, batch_size=batch_size)
    at_once = trained(solver, problem)
    monkeypatch.setattr(sgd, "FIRST_VECTORS", 5)
    grown = solver.init(problem, np.random.default_rng(0))
    assert grown.budget.A.shape[1] < 70
    for part in (10, 1, problem.n - 11):
        solver.advance(problem, grown, part)
    points = rng.normal(size=(20, 3))
    assert grown.support == at_once.support > grown.budget.A.shape[1] // 8
    np.testing.assert_allclose(scores_at(grown, points), scores_at(at_once, points), atol=1e-9)
    # a running model may be given a larger budget
    larger = replace(solver, budget=90)
    larger.bind(problem, grown)
    larger.advance(problem, grown, -(-problem.n // batch_size))
    assert grown.support <= 90
    assert np.isfinite(grown.coefficients).all()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_looking_changes_nothing_and_steps_are_counted(policy, rng):
    problem = make(rng)
    solver = solver_of(policy, sampling="permutation")
    seen, unseen = (solver.init(problem, np.random.default_rng(7)) for _ in range(2))
    assert solver.advance(problem, unseen, 230) == 230
    for steps in (0, 1, 99, 130):
        assert solver.advance(problem, seen, steps) == steps
        before = copy.deepcopy(seen)
        assert solver.certificate(problem, seen) is None
        solver.evaluate(problem, seen, solver.model(problem, seen))
        scores(problem.kernel, problem.X, seen)
        for one, other in zip((*seen.budget[1:], *seen.budget.vectors), (*before.budget[1:], *before.budget.vectors)):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(seen.values, before.values)
        np.testing.assert_array_equal(seen.counts, before.counts)
        np.testing.assert_array_equal(seen.order, before.order)
        assert seen.rng.bit_generator.state == before.rng.bit_generator.state
        assert seen.counters == before.counters
    np.testing.assert_array_equal(seen.values, unseen.values)
    np.testing.assert_array_equal(seen.counts, unseen.counts)
    np.testing.assert_array_equal(seen.budget.vectors.Z, unseen.budget.vectors.Z)
    assert seen.counters == unseen.counters
