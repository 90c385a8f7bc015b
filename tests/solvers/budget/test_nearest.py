"""The nearest policy is the joint optimum of a passive-aggressive step."""

import copy

import numpy as np
import pytest

from budgets import dense, gauss, make, scores_at, solver_of, vectors_of
from widemargin.solvers.budget import Nearest, PassiveAggressiveStep


def test_the_nearest_policy_loses_the_least_that_two_neighbours_allow(rng):
    problem = make(rng)
    solver = solver_of(Nearest(), 10, PassiveAggressiveStep(C=0.5))
    state = solver.init(problem, rng)
    for _ in range(problem.n):
        before = copy.deepcopy(state)
        i = state.position
        solver.advance(problem, state, 1)
        if state.tally.maintained == before.tally.maintained:
            continue
        x = dense(problem)[[i]]
        eta = min(0.5, (state.amounts.loss - before.amounts.loss) / problem.sample_weight[i] ** 2)
        V = np.vstack([vectors_of(before), x])
        A = np.append(before.coefficients[0], eta * problem.sample_weight[i] * problem.y[i])
        K = gauss(V, V)
        losses = []
        for r in range(len(V) - 1):
            others = [j for j in range(len(V)) if j != r]
            near = sorted({len(V) - 1, others[int(np.argmax(K[r, others]))]})
            rest = K[r, r] - K[r, near] @ np.linalg.solve(K[np.ix_(near, near)], K[near, r])
            losses.append(A[r] ** 2 * rest)
        both, signed = np.vstack([V, vectors_of(state)]), np.append(A, -state.coefficients[0])
        exact = signed @ gauss(both, both) @ signed
        assert exact == pytest.approx(min(losses), rel=1e-5, abs=1e-8)
        # Δ is orthogonal to the new vector, whose margin is as the passive-aggressive step left it
        margin = problem.y[i] * scores_at(state, x)[0, 0]
        assert margin == pytest.approx(problem.y[i] * (K[-1] @ A), abs=1e-7)
