"""Problems and machines that the tests of budgeted SGD share."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from reference import budgeted as textbook
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.merging import ROUNDS
from widemargin.core.losses.losses import EpsilonInsensitive, Hinge, MulticlassHinge, Single
from widemargin.core.rows.rows import as_matrix, as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.budget import (
    BudgetedSGD,
    Forget,
    MarginPerceptronStep,
    Merge,
    MultiMerge,
    Nearest,
    PegasosStep,
    Project,
    Remove,
    Stop,
    sgd,
)

GAMMA = 0.7


GAUSS = RBF(GAMMA)


POLICIES = [
    Remove("smallest"),
    Remove("random"),
    Remove("oldest"),
    Stop(),
    Project(),
    Merge(),
    MultiMerge(3),
    Forget(),
    Nearest(),
]


def make(rng, n=120, *, classes=2, regression=False, kernel=GAUSS, lam=0.02, sparse=False, dtype=np.float64):
    """A noisy problem in three dimensions, with weights that make all coefficients differ."""
    X = rng.normal(size=(n, 3)).astype(dtype)
    if sparse:
        X[rng.random(X.shape) < 0.4] = 0.0
    heights = np.sin(2 * X @ rng.normal(size=(3, max(classes, 2)))) + 0.3 * rng.normal(size=(n, max(classes, 2)))
    codes = heights.argmax(axis=1)
    target, y, outputs = Single(Hinge()), 2.0 * codes - 1.0, 1
    if regression:
        target, y = Single(EpsilonInsensitive(0.1)), heights[:, 0].copy()
    elif classes > 2:
        target, y, outputs = MulticlassHinge(1.0 - np.eye(classes)), codes.astype(float), classes
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return KernelProblem(kernel, rows, y, target, lam, rng.uniform(0.5, 1.5, n), "none", outputs=outputs)


def solver_of(policy, budget=10, step=None, **parameters):
    step = step or (MarginPerceptronStep() if isinstance(policy, Forget) else PegasosStep())
    return BudgetedSGD(budget, step, policy, **{"sampling": "fixed", "precision": "float64", **parameters})


def trained(solver, problem, steps=None, seed=0):
    state = solver.init(problem, np.random.default_rng(seed))
    solver.advance(problem, state, problem.n if steps is None else steps)
    return state


def gauss(V, W):
    return np.exp(-GAMMA * np.sum((V[:, None] - W[None]) ** 2, axis=2))


def dense(problem):
    X = problem.X
    return X.values if hasattr(X, "values") else sp.csr_matrix((X.data, X.indices, X.indptr), (problem.n, 3)).toarray()


def vectors_of(state):
    V = as_matrix(state.vectors())
    return V.toarray() if sp.issparse(V) else V


def scores_at(state, points):
    return gauss(points, vectors_of(state)) @ state.coefficients.T


def slope_of(problem):
    """The weighted sub-gradient of the paper: −y for the hinge, e_r − e_y for the joint one, ±1 outside the tube."""

    def slope(i, scores):
        g = np.zeros(problem.n_outputs)
        if problem.n_outputs > 1:
            own = int(problem.y[i])
            others = np.where(np.arange(g.size) == own, -np.inf, scores)
            if 1.0 + others.max() - scores[own] > 0:
                g[others.argmax()], g[own] = 1.0, -1.0
        elif isinstance(problem.target.loss, Hinge):
            g[0] = -problem.y[i] if problem.y[i] * scores[0] < 1 else 0.0
        else:
            error = scores[0] - problem.y[i]
            g[0] = np.sign(error) if abs(error) > problem.target.loss.epsilon else 0.0
        return problem.sample_weight[i] * g

    return slope


REMOVE, PROJECT = (Remove("smallest"), textbook.remove), (Project(), textbook.project)


MERGE = (Merge(table_size=1500), textbook.merge)


def check_each_step(solver, problem, rng, maintain, radius=np.inf):
    """Every step is one that the textbook may take from the same state, and loses no more than its best one.

    Whole runs are not compared: an example at the margin within rounding of 1 is a vector in one run and none in the
    other, and they part.
    """
    state, points, slope = solver.init(problem, rng), rng.normal(size=(40, 3)), slope_of(problem)
    for i, x in enumerate(dense(problem)):
        V, A, lost = vectors_of(state), state.coefficients.T, state.amounts.lost
        steps, lam = textbook.step_size(solver.step, problem.lam, i + 1)
        outcomes = textbook.step(V, A, x, partial(slope, i), gauss, lam, steps, solver.budget, maintain, radius)
        solver.advance(problem, state, 1)
        lost = state.amounts.lost - lost
        distances = [np.abs(gauss(points, W) @ C - scores_at(state, points)).max() for _, W, C in outcomes]
        nearest = int(np.argmin(distances))
        assert distances[nearest] <= 1e-5 * (steps + np.abs(A).max(initial=0.0))
        assert lost == pytest.approx(outcomes[nearest][0], rel=1e-3, abs=1e-4)
        if maintain is not textbook.project:
            assert lost <= min(outcome[0] for outcome in outcomes) * (1 + 1e-3) + 1e-4


def promised(a, b, kappa):
    """‖Δ‖² of merging a with b, which is larger, at the h that two repetitions of the formula reach, or at 0."""
    p, q, r, h = a @ a, a @ b, b @ b, 0.0
    for _ in range(ROUNDS):
        tau = kappa ** (1 - 2 * h)
        h = max(p * tau * tau + q * tau, 0.0) / (r + 2 * q * tau + p * tau * tau)
    places = np.array([[0.0], [h]])
    z = a * kappa ** ((1 - places) ** 2) + b * kappa ** (places**2)
    return p + r + 2 * kappa * q - np.sum(z**2, axis=1).max()


def advanced(solver, problem, state):
    """Take a step, in place; returns the vectors and coefficients it had before maintenance, by the textbook, and η."""
    i, V, A = state.position, vectors_of(state), state.coefficients
    g = slope_of(problem)(i, A @ gauss(V, dense(problem)[[i]])[:, 0])
    solver.advance(problem, state, 1)
    eta, lam = textbook.step_size(solver.step, problem.lam, state.tally.steps)
    A = A * (1 - eta * lam)
    if g.any():
        V, A = np.vstack([V, dense(problem)[[i]]]), np.hstack([A, -eta * g[:, None]])
    return V, A, eta


def degradation_of_next(solver, problem, state):
    """‖Δ‖² of the next step by definition, and by the solver's record; what removal would lose; before and after."""
    lost, maintained = state.amounts.lost, state.tally.maintained
    scale = state.amounts.scale
    scale = scale if scale >= sgd.SMALLEST_SCALE else 1.0
    V, A, eta = advanced(solver, problem, state)
    if state.tally.maintained == maintained:
        return None
    after = state.coefficients
    if np.isfinite(getattr(solver.step, "radius", np.inf)):  # before it went back to its ball
        after = after * scale / state.amounts.scale
    both, signed = np.vstack([V, vectors_of(state)]), np.hstack([A, -after])
    exact = np.sum(gauss(both, both) * (signed.T @ signed))
    return exact, ((state.amounts.lost - lost) * eta) ** 2, np.min(np.sum(A**2, axis=0)), V, A, after


def sparse_problem(rng, n, d, entries):
    """Rows with few of many features, the first ones more often; each class has half of the features."""
    y = rng.choice([-1.0, 1.0], n)
    columns = (d * rng.random((n, entries)) ** 4).astype(np.int64) // 2 * 2 + (y[:, None] > 0)
    values = rng.uniform(0.5, 1.0, (n, entries)) / np.sqrt(entries)
    X = sp.csr_matrix((values.ravel(), columns.ravel(), np.arange(0, n * entries + 1, entries)), (n, d))
    X.sum_duplicates()
    weights = rng.uniform(0.5, 1.5, n)
    return KernelProblem(RBF(0.5), as_rows(X), y, Single(Hinge()), 0.005, weights, "none", outputs=1)


def check_rows_of(v):
    """Rows of Z are given to exactly the features that occur, one each."""
    occurs = np.count_nonzero(v.Z, axis=1)
    np.testing.assert_array_equal(v.held, occurs)
    given = np.flatnonzero(v.slot)
    np.testing.assert_array_equal(np.sort(v.slot[given]), np.flatnonzero(occurs))
    np.testing.assert_array_equal(v.feature[v.slot[given]], given)
    free = set(v.free[: v.rows[1]].tolist())
    assert free | set(v.slot[given].tolist()) == set(range(1, v.rows[0]))
    assert v.held[0] == 0


def bytes_of(state):
    """Bytes of all arrays of a state."""
    return sum(array.nbytes for array in (*state.budget[1:], *state.budget.vectors))
