"""Projectrons: the textbook's steps, by one span or by one for each class."""

from dataclasses import replace

import numpy as np
import pytest

from budgets import bytes_of, dense, gauss, make, scores_at, slope_of, solver_of, trained, vectors_of
from reference import budgeted as textbook
from widemargin.core.losses.losses import MulticlassHinge
from widemargin.running import load_state, save_state
from widemargin.solvers.budget import BudgetedSGD, MarginPerceptronStep, Project, Projectron, sgd
from widemargin.solvers.budget.policy import TALLY


@pytest.mark.parametrize("policy", [Project, Projectron])
def test_a_projectron_grows_only_by_what_is_far_from_its_span(policy, rng):
    problem = make(rng, n=300)
    sizes = [
        trained(solver_of(policy(threshold), 300, MarginPerceptronStep()), problem).support
        for threshold in (0.05, 0.3, 0.8)
    ]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("eta", [1.0, 0.4])
def test_projectrons_take_the_textbook_s_steps_and_grow_by_mistakes_only(classes, eta, rng):
    problem, threshold = make(rng, n=300, classes=classes), rng.uniform(0.2, 0.6)
    solver = solver_of(Projectron(threshold), 300, MarginPerceptronStep(eta))
    state, points, slope = solver.init(problem, rng), rng.normal(size=(40, 3)), slope_of(problem)
    kinds = set()
    for i, x in enumerate(dense(problem)):
        V, A, lost, before = (
            vectors_of(state),
            state.coefficients.T,
            state.amounts.lost,
            state.counts.copy().view(TALLY)[0],
        )
        scores, importance = A.T @ gauss(V, x[None])[:, 0], problem.sample_weight[i]
        g = slope(i, scores) / importance
        own = int(problem.y[i])
        loss = 1 - problem.y[i] * scores[0] if classes == 2 else 1 + np.delete(scores, own).max() - scores[own]
        expected, W, C = textbook.projectron(V, A, x, g, loss, importance, gauss, eta, threshold)
        solver.advance(problem, state, 1)
        size = 1 + np.abs(A).max(initial=0.0)
        np.testing.assert_allclose(scores_at(state, points), gauss(points, W) @ C, atol=1e-5 * size)
        assert state.amounts.lost - lost == pytest.approx(expected or 0.0, abs=1e-5)
        assert state.tally.maintained - before.maintained == (expected is not None)
        assert state.tally.updates - before.updates == (expected is not None or len(W) > len(V))
        kinds.add((loss >= 1, len(W) > len(V), expected is not None))
    # mistakes that bring vectors or are projected, margin errors that move the model or do not
    assert {(True, True, False), (True, False, True), (False, False, True), (False, False, False)} <= kinds


@pytest.mark.parametrize(("eta", "budget"), [(1.0, 300), (0.4, 300), (1.0, 30)])
def test_a_projectron_by_class_projects_each_class_onto_its_own_vectors(eta, budget, rng, monkeypatch, tmp_path):
    monkeypatch.setattr(sgd, "FIRST_VECTORS", 5)  # room comes with the vectors
    problem, threshold = make(rng, n=300, classes=4), rng.uniform(0.3, 0.6)
    solver = solver_of(Projectron(threshold, "class"), budget, MarginPerceptronStep(eta))
    state, points = solver.init(problem, rng), rng.normal(size=(40, 3))
    sets, kinds = [[] for _ in range(4)], set()
    for i, x in enumerate(dense(problem)):
        if i % 100 == 50:
            save_state(tmp_path / "state.npz", state)
            state = load_state(tmp_path / "state.npz")
        V, A, lost, before = (
            vectors_of(state),
            state.coefficients.T,
            state.amounts.lost,
            state.counts.copy().view(TALLY)[0],
        )
        scores, own = A.T @ gauss(V, x[None])[:, 0], int(problem.y[i])
        other = int(np.argmax(np.where(np.arange(4) == own, -np.inf, scores)))
        loss, importance = 1 + scores[other] - scores[own], problem.sample_weight[i]
        expected, W, C, sets = textbook.projectron_by_class(
            V, A, sets, x, own, other, loss, importance, gauss, eta, threshold, len(V) == budget
        )
        solver.advance(problem, state, 1)
        size = 1 + np.abs(A).max(initial=0.0)
        np.testing.assert_allclose(scores_at(state, points), gauss(points, W) @ C, atol=1e-5 * size)
        assert state.amounts.lost - lost == pytest.approx(expected or 0.0, abs=1e-5)
        assert state.tally.maintained - before.maintained == (expected is not None)
        assert state.tally.updates - before.updates == (expected is not None or len(W) > len(V))
        kinds.add((loss >= 1, len(W) > len(V), expected is not None))
    moved = {(True, True, False), (True, False, True)}
    # a machine with few vectors may have no margin error that is projected
    assert (moved if budget == 30 else moved | {(False, False, True), (False, False, False)}) <= kinds
    assert state.support == budget if budget == 30 else 30 < state.support < budget


@pytest.mark.parametrize("sparse", [False, True])
def test_a_projectron_by_class_stays_within_its_bytes(sparse, rng):
    problem = make(rng, classes=4, sparse=sparse)
    solver = BudgetedSGD(10_000, MarginPerceptronStep(), Projectron(0.3, "class")).within(1e6, 3, 4, 8, sparse)
    held = bytes_of(solver.init(problem, rng))
    # a budget goes in jumps of two registers
    assert 0.5e6 < held <= 1e6


@pytest.mark.parametrize("joint", [False, True])
def test_for_two_classes_the_span_of_each_class_is_that_of_all(joint, rng):
    problem = make(rng, n=300)
    if joint:
        target = MulticlassHinge(1.0 - np.eye(2))
        problem = replace(problem, target=target, outputs=2, y=(problem.y + 1) / 2)
    spans = (
        trained(solver_of(Projectron(0.3, span), 300, MarginPerceptronStep()), problem) for span in ("all", "class")
    )
    points = rng.normal(size=(40, 3))
    whole, apart = (scores_at(state, points) for state in spans)
    np.testing.assert_allclose(apart, whole, atol=1e-5 * np.abs(whole).max())
