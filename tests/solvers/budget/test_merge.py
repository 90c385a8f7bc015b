"""Merging: the textbook's merges of several classes, and of several vectors."""

from dataclasses import replace

import numpy as np

from budgets import advanced, gauss, make, scores_at, solver_of, trained, vectors_of
from reference import budgeted as textbook
from widemargin.core.rows.rows import as_rows
from widemargin.solvers.budget import Merge, MultiMerge


def test_steps_of_several_classes_are_the_textbook_s_with_one_merge(rng):
    problem = make(rng, classes=4)
    solver = solver_of(Merge())
    state = solver.init(problem, rng)
    for _ in range(problem.n):
        maintained = state.tally.maintained
        V, A, _ = advanced(solver, problem, state)
        W, C = vectors_of(state), state.coefficients
        size = np.abs(A).max()
        if state.tally.maintained > maintained:
            apart = np.sum((V[:, None] - W[None]) ** 2, axis=2)
            gone = np.flatnonzero(apart.min(axis=1) > 1e-20)
            m = textbook.smallest(V, A.T, gauss)
            # all but two stand as they did, or, at the end point, all but one, and its partner has another coefficient
            assert m in gone
            kept = [j for j in range(len(V)) if j not in gone]
            rest = np.abs(C[:, apart[kept].argmin(axis=1)] - A[:, kept]).max(axis=0) > 1e-9 * size
            pair = [*gone, *np.array(kept)[rest]]
            assert len(pair) == 2
            merged = [j for j in range(len(W)) if j not in apart[kept].argmin(axis=1)[~rest]]
            assert len(merged) == 1
            z = W[merged]
            # z is on the line between both, and its coefficients are the best there are for it
            line, along = V[pair[1]] - V[pair[0]], z[0] - V[pair[0]]
            assert np.linalg.norm(along - line * (along @ line) / (line @ line)) <= 1e-9
            assert -1e-9 <= along @ line / (line @ line) <= 1 + 1e-9
            np.testing.assert_allclose(C[:, merged[0]], A[:, pair] @ gauss(V[pair], z)[:, 0], atol=1e-9 * size)
        else:
            points = rng.normal(size=(5, 3))
            np.testing.assert_allclose(scores_at(state, points), gauss(points, V) @ A.T, atol=1e-9 * size)
    assert state.tally.maintained > 10


def test_several_vectors_merge_into_one_at_a_time_where_that_loses_no_more_than_removal(rng):
    problem = make(rng)
    problem = replace(problem, X=as_rows(0.01 * problem.X.values))  # so near to each other that every merge is good
    pairs, groups = (trained(solver_of(policy), problem) for policy in (Merge(), MultiMerge(5)))
    # five become one: room for four more
    assert groups.tally.maintained == -(-(groups.tally.updates - 10) // 4)
    assert pairs.tally.maintained == pairs.tally.updates - 10
