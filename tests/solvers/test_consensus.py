"""Consensus ADMM: equals its textbook version, and finds the optimum however the examples are dealt out."""

import numpy as np
import pytest
import scipy.sparse as sp

from reference import consensus as reference
from widemargin import SDCA
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.problems.parts import in_parts
from widemargin.running import run
from widemargin.solvers import consensus
from widemargin.solvers.consensus import ConsensusADMM


def drawn(rng, loss, *, several=False, weighted=False, intercept="regularized", n=160, d=40):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3) / 3.0
    scores = 3.0 * X[:, 0] + X[:, 1] + 0.2 + 0.1 * rng.normal(size=n)
    y = scores if loss.is_regression else np.where(scores > 0.0, 1.0, -1.0)
    target = losses.Single(loss)
    if several:
        y, target = rng.integers(0, 3, n).astype(float), losses.OneVsRest(loss, np.array([1.0, 2.0, 0.5]))
    s = rng.integers(0, 3, n).astype(float) if weighted else np.empty(0)
    return Problem(as_rows(sp.csr_matrix(X)), y, target, 1.0 / n, s, intercept, 3 if several else 1)


def dealt(rng, problem, parts):
    return [np.sort(rows) for rows in np.array_split(rng.permutation(problem.n), parts)]


@pytest.mark.parametrize("theta", [1.0, 1.6])
def test_rounds_are_those_of_the_textbook(rng, monkeypatch, theta):
    monkeypatch.setattr(consensus, "UNLIKE", np.inf)  # ρ stays
    X, y = rng.normal(size=(30, 5)), rng.choice([-1.0, 1.0], 30)
    problem = Problem(as_rows(X), y, losses.Single(losses.Hinge()), 1.0 / 30)
    chosen = dealt(rng, problem, 3)
    parts = in_parts(problem, chosen)
    solver = ConsensusADMM(passes=2, relaxation=theta)
    state = solver.init(parts, rng)
    solver.advance(parts, state, 4)
    rows = [(X[k], y[k]) for k in chosen]
    z = reference.rounds(rows, problem.C, consensus.START, theta, 2, state.seed, 4)
    np.testing.assert_allclose(state.z[:, 0], z, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        (losses.Hinge(), {}),
        (losses.Hinge(), {"several": True, "weighted": True}),
        (losses.SquaredHinge(), {"weighted": True}),
        (losses.Log(), {"intercept": "none"}),
        (losses.EpsilonInsensitive(0.05), {}),
        (losses.SquaredEpsilon(0.05), {"weighted": True}),
    ],
)
def test_the_optimum_is_found_for_any_number_of_parts(rng, loss, kind):
    problem = drawn(rng, loss, **kind)
    best = run(SDCA(), problem, rng=rng, tol=1e-7, max_epochs=5000)
    lowest = best.objective - best.history.last("gap")
    for count in (1, 2, 5):
        parts = in_parts(problem, dealt(rng, problem, count))
        outcome = run(ConsensusADMM(), parts, rng=rng, tol=1e-3, max_epochs=3000)
        assert outcome.stop_reason == "tol"
        W, b = outcome.W, outcome.b
        value = problem.primal(np.ascontiguousarray(W), b)
        assert value == pytest.approx(outcome.objective, rel=1e-9)
        assert lowest * (1.0 - 1e-9) <= value <= best.objective * (1.0 + 2e-3)


def test_parts_that_were_let_go_come_back_as_they_were(rng):
    problem, seed = drawn(rng, losses.Hinge()), int(rng.integers(2**31))
    parts, solver, found = in_parts(problem, dealt(rng, problem, 3)), ConsensusADMM(), []
    for lets_go in (False, True):
        state = solver.init(parts, np.random.default_rng(seed))
        solver.advance(parts, state, 3)
        if lets_go:
            state.drop_workspace()
        solver.advance(parts, state, 2)
        found.append((state.z, state.v, solver.duals(parts, state)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_certificate_is_that_of_the_whole_problem(rng):
    problem = drawn(rng, losses.Hinge(), several=True, weighted=True)
    chosen = dealt(rng, problem, 3)
    parts, solver = in_parts(problem, chosen), ConsensusADMM()
    state = solver.init(parts, rng)
    for _ in range(5):
        solver.advance(parts, state, 3)
        beta = np.zeros((problem.n_outputs, problem.n))
        beta[:, np.concatenate(chosen)] = solver.duals(parts, state)
        X = sp.csr_matrix((problem.X.data, problem.X.indices, problem.X.indptr), (problem.n, problem.d))
        norm2 = np.square(beta @ X).sum(axis=1) + beta.sum(axis=1) ** 2
        certificate = solver.certificate(parts, state)
        assert certificate.dual >= max(0.0, problem.dual(beta, norm2)) * (1.0 - 1e-12)
        best = problem.dual_of_multiple(beta, problem.lam * norm2)  # output by output
        assert certificate.dual <= best + 1e-9 * abs(best)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"intercept": "unregularized"}, "has the intercepts 'regularized' and 'none', got 'unregularized'"), ({}, None)],
)
def test_what_cannot_be_is_a_sentence(rng, change, said):
    problem = drawn(rng, losses.Hinge(), **change)
    parts = in_parts(problem, dealt(rng, problem, 2))
    if said is not None:
        with pytest.raises(ValueError, match=said):
            ConsensusADMM().check(parts)
        return
    with pytest.raises(ValueError, match=r"passes ≥ 1 and 1 ≤ relaxation < 2, got 3 and 2\.5"):
        ConsensusADMM(relaxation=2.5).check(parts)


def test_changes_of_rho_fade(rng):
    """Rules that change it for ever may cycle; later ones change it by less."""
    problem = drawn(rng, losses.Hinge())
    parts = in_parts(problem, dealt(rng, problem, 4))
    solver = ConsensusADMM()
    for before in (0, 96):
        state = solver.init(parts, np.random.default_rng(0))
        state.rho, state.counters.steps = np.full(2, 1e-4), before  # so small that the copies disagree
        solver.advance(parts, state, 1)
        share = consensus.LASTING / (consensus.LASTING + before)
        assert state.rho[0] / state.rho[1] == pytest.approx(consensus.FACTOR**share)
