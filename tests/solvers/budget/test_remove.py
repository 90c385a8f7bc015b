"""Removal: what goes is what was asked for."""

from dataclasses import replace

import numpy as np
import pytest

from budgets import GAUSS, dense, make, solver_of, trained, vectors_of
from widemargin.core.losses.losses import Hinge, Single
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.budget import MarginPerceptronStep, Remove
from widemargin.solvers.budget.sgd import scores


def test_random_removal_takes_every_vector_as_often(rng):
    n, budget = 4500, 8
    X = rng.normal(size=(n, 3))
    # labels are noise and coefficients small: every example violates its margin
    problem = KernelProblem(GAUSS, as_rows(X), rng.choice([-1.0, 1.0], n), Single(Hinge()), 0.02, intercept="none")
    solver = solver_of(Remove("random"), budget, MarginPerceptronStep(0.05))
    state, gone = solver.init(problem, rng), np.zeros(budget + 1)
    for t in range(1, n + 1):
        ages = np.append(state.budget.age[: state.support], t)
        solver.advance(problem, state, 1)
        if t > budget:
            gone[np.flatnonzero(np.isin(ages, state.budget.age[: state.support], invert=True))] += 1
    assert gone.sum() == n - budget
    # six standard deviations of a binomial number: nine of them leave these bounds once in 5e7 runs
    mean = (n - budget) / (budget + 1)
    assert np.abs(gone - mean).max() <= 6 * np.sqrt(mean)


def test_the_oldest_the_newest_and_random_ones_go_as_they_are_told(rng):
    problem = make(rng)
    for which in ("oldest", "newest"):
        state = trained(solver_of(Remove(which), 8, MarginPerceptronStep()), problem)
        # all vectors that ever came, in their order
        every = trained(solver_of(Remove(which), 200, MarginPerceptronStep()), problem)
        came = vectors_of(state)[np.argsort(state.budget.age[: state.support])]
        if which == "newest":
            np.testing.assert_allclose(came, vectors_of(every)[:8], atol=1e-12)
        else:
            assert state.budget.age[: state.support].min() > 8
    first, second, other = (trained(solver_of(Remove("random"), 8), problem, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.budget.vectors.Z, second.budget.vectors.Z)
    assert not np.array_equal(first.budget.vectors.Z, other.budget.vectors.Z)


#: What is equal up to rounding is told by one function, from coefficients of either precision: single precision once.
@pytest.mark.parametrize(
    ("classes", "batch_size", "precision"),
    [(2, 1, "float32"), (2, 1, "float64"), (4, 1, "float64"), (2, 25, "float64")],
)
def test_of_vectors_that_are_equal_up_to_rounding_the_oldest_goes(classes, batch_size, precision, rng):
    """Pegasos steps make all coefficients 1/(λt): those that stay are the newest, not the first ones for ever."""
    problem = make(rng, n=400, classes=classes, lam=rng.uniform(0.01, 0.03))
    problem = replace(problem, sample_weight=np.empty(0))
    solver = solver_of(Remove("smallest"), 12, batch_size=batch_size, precision=precision)
    state, came, maintained = solver.init(problem, rng), [], 0
    for i in range(0, problem.n, batch_size):
        rows = np.arange(i, i + batch_size)
        z = scores(problem.kernel, problem.X, state)[rows]
        if classes == 2:
            loss = 1 - problem.y[rows] * z[:, 0]
        else:
            own = problem.y[rows].astype(int)
            others = np.where(np.arange(classes) == own[:, None], -np.inf, z)
            loss = 1 + others.max(axis=1) - z[np.arange(batch_size), own]
        updates = state.tally.updates
        solver.advance(problem, state, 1)
        updates = state.tally.updates - updates
        came.extend(np.sort(np.argsort(-loss, kind="stable")[:updates]) + i)  # scores near the margin are rounded
        apart = np.abs(vectors_of(state)[:, None] - dense(problem)[None]).max(axis=2)
        assert set(apart.argmin(axis=1)) == set(came[-12:])
        maintained = state.tally.maintained
    assert maintained > 50


def test_a_vector_that_is_smaller_by_more_than_rounding_goes_before_older_ones(rng):
    problem = make(rng)
    problem = replace(
        problem, sample_weight=1.0 + 1e-3 * rng.permutation(problem.n)
    )  # coefficients are weights over λt
    solver = solver_of(Remove("smallest"), 12, precision="float32")
    state, came = solver.init(problem, rng), []
    for i in range(problem.n):
        updates = state.tally.updates
        solver.advance(problem, state, 1)
        if state.tally.updates > updates:
            came.append(problem.sample_weight[i])
        kept = np.abs(state.coefficients[0]) * problem.lam * (i + 1)
        np.testing.assert_allclose(np.sort(kept), np.sort(came)[-12:], rtol=1e-5)
    assert len(came) > 40
