"""The Stochastic Batch Perceptron over parts: levels, draws and predictors of one machine, however rows are dealt."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.core.kernels.kernels import RBF, as_kernel
from widemargin.core.losses import losses
from widemargin.core.losses.water_level import fill
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.parts import kernel_in_parts
from widemargin.solvers.sbp import parts as sbp_parts
from widemargin.solvers.sbp import sbp
from widemargin.solvers.sbp.parts import SBPOnParts
from widemargin.solvers.sbp.sbp import StochasticBatchPerceptron

HINGE = losses.Single(losses.Hinge())


def drawn(rng, n=300, *, intercept="unregularized", several=False, weighted=False, sparse=False, kernel=None):
    X = rng.normal(size=(n, 4))
    scores = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
    y = np.where(scores > 0.0, 1.0, -1.0)
    if several:
        y = np.stack([y, np.where(X[:, 2] > 0.3, 1.0, -1.0)])
    s = rng.integers(0, 3, y.shape).astype(float) if weighted else np.empty(0)
    rows = as_rows(sp.csr_matrix(X * (np.abs(X) > 0.5)) if sparse else X)
    return KernelProblem(kernel or RBF(0.5), rows, y, HINGE, 1.0 / (2.0 * n), s, intercept)


def dealt(problem, parts):
    return kernel_in_parts(problem, np.array_split(np.arange(problem.n), parts))


def responses(state):
    return np.concatenate([each["f"] for each in state.gathered()], axis=1)


CASES = [
    {}, {"intercept": "none", "weighted": True}, {"several": True, "weighted": True}, {"sparse": True},
    {"intercept": "regularized", "kernel": as_kernel("poly", 0.3, 2, 1.0)},
]  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_levels_and_responses_are_those_of_all_examples(rng, kind):
    problem = drawn(rng, **kind)
    parts = dealt(problem, 5)
    solver = SBPOnParts(nu=float(rng.choice([0.0, 0.003, 0.05])), batch_size=6)
    state, two = solver.init(parts, rng), problem.has_free_bias
    for t in range(12):
        before = responses(state) * state.scale[:, None] if t else np.zeros((problem.n_outputs, problem.n))
        solver.advance(parts, state, 1)
        for q, y in enumerate(problem.signs):
            _, _, s = problem.binary_part(q)
            wanted = fill(y * before[q], problem.n * solver.nu, y=y if two else None, s=s)
            assert state.level[q] == pytest.approx(wanted.level, abs=1e-9)
            assert state.bias[q] == pytest.approx(wanted.bias, abs=1e-9)
    beta = np.zeros((problem.n_outputs, problem.n))
    beta[:, state.ids] = state.alpha * state.signs
    K = kernel_values(problem)
    size = np.abs(beta).sum(axis=1, keepdims=True) * np.abs(K).max()
    assert np.all(np.abs(responses(state) - beta @ K) <= 1e-5 * size)
    np.testing.assert_allclose(state.norm2, state.scale**2 * np.sum(beta * (beta @ K), axis=1), rtol=1e-4, atol=1e-5)
    assert np.all(state.norm2 <= 1.0 + 1e-9)
    if two:  # each class has half of the draws
        np.testing.assert_allclose(beta.sum(axis=1), 0.0, atol=1e-9)


def test_masses_are_sums_of_weights_and_a_class_without_is_none(rng):
    problem = drawn(rng, several=True, weighted=True)
    s, y = problem.sample_weight, problem.signs
    wanted = np.stack([(s * (y > 0.0)).sum(axis=1), (s * (y < 0.0)).sum(axis=1)], axis=1)
    np.testing.assert_allclose(dealt(problem, 4).masses, wanted, rtol=1e-12)
    weightless = replace(problem, sample_weight=s * (y > 0.0))
    with pytest.raises(ValueError, match="needs examples of both classes with a weight > 0"):
        SBPOnParts(nu=0.01).init(dealt(weightless, 4), rng)


def test_draws_come_from_the_points_under_water(rng):
    problem = drawn(rng)
    parts, solver = dealt(problem, 4), SBPOnParts(nu=0.02, batch_size=8)
    state = solver.init(parts, rng)
    solver.advance(parts, state, 20)
    c = problem.signs * responses(state) * state.scale[:, None]
    p = fill(c[0], problem.n * solver.nu, y=problem.y).p
    alpha = np.zeros(problem.n)
    alpha[state.ids] = state.alpha[0]
    solver.advance(parts, state, 1)
    assert state.t == 21
    now = np.zeros(problem.n)
    now[state.ids] = state.alpha[0]
    assert (p[np.flatnonzero(now > alpha)] > 0.0).all()


def test_draws_have_the_distribution_p(rng):
    problem = drawn(rng, 40, weighted=True)
    parts, solver = dealt(problem, 3), SBPOnParts(nu=0.01, batch_size=8)
    state = solver.init(parts, rng)
    solver.advance(parts, state, 6)
    c = problem.signs[0] * responses(state)[0] * state.scale[0]
    p, kept, n_draws = fill(c, problem.n * solver.nu, y=problem.y, s=problem.weights_of(0)).p, state.workspace[1], 4000
    kept.seen = None
    points, times, _ = kept.draw(parts, state, n_draws)
    counts = np.zeros(problem.n)
    counts[state.ids[points]] = times[0]
    assert counts.sum() == n_draws
    # Bernstein: no count is so far off but once in 1e9
    far = 22.0
    assert np.all(np.abs(counts - n_draws * p) <= np.sqrt(2.0 * far * n_draws * p) + far * (p > 0.0))


@pytest.mark.parametrize("nu", [0.02, None])
def test_any_number_of_parts_is_one_machine(rng, nu):
    problem, seed = drawn(rng, 200), int(rng.integers(2**31))
    found = []
    for parts in (1, 3, 30):
        whole, solver = dealt(problem, parts), SBPOnParts(nu=nu, batch_size=8)
        state = solver.init(whole, np.random.default_rng(seed))
        while state.t < 32:
            solver.advance(whole, state, 32 - state.t)
        found.append((state.ids, solver.evaluate(whole, state, None), solver.certificate(whole, state)))
    for ids, measured, certificate in found[1:]:
        np.testing.assert_array_equal(ids, found[0][0])
        assert measured == pytest.approx(found[0][1], rel=1e-6)
        assert certificate == pytest.approx(found[0][2], rel=1e-6)


@pytest.mark.parametrize(("nu", "smallest"), [(0.02, 0.0), (0.02, 1.0), (None, 0.01)])
def test_the_predictor_is_what_its_certificate_says(rng, monkeypatch, nu, smallest):
    monkeypatch.setattr(sbp, "SMALLEST_SCALE", smallest)  # responses are multiplied out never, always, now and then
    problem = drawn(rng, several=True, weighted=True)
    parts, solver = dealt(problem, 4), SBPOnParts(nu=nu)
    state = solver.init(parts, rng)
    while state.t < 32:
        solver.advance(parts, state, 32)
    model, said = solver.model(parts, state), solver.certificate(parts, state)
    beta = np.zeros((2, problem.n))
    beta[:, model.support] = model.coef
    truth = problem.certificate(beta, model.decision_function(problem.X).T - model.intercept[:, None], model.intercept)
    assert said == pytest.approx(truth, rel=1e-4, abs=1e-5)
    assert said.dual <= said.primal
    look, K = solver._look(parts, state), kernel_values(problem)
    if nu is not None and np.all(look.level > 0.0):  # all of the slack is handed out
        np.testing.assert_allclose(look.hinge, nu / look.level, rtol=1e-6)
    else:  # the multiple is nearly the best
        best = sum(problem.lam * problem.best_multiple(b @ K, float(b @ K @ b), q)[2] for q, b in enumerate(beta))
        assert said.primal <= 1.02 * best


def kernel_values(problem):
    everything = np.arange(problem.n)
    return problem.matrix(everything, everything).block(everything).astype(float) + problem.constant


def test_nu_for_C_is_about_that_of_one_machine(rng):
    problem = drawn(rng, 1600)
    parts, solver = dealt(problem, 4), SBPOnParts()
    state = solver.init(parts, rng)
    solver.advance(parts, state, 1)
    while state.sought == 0:
        solver.advance(parts, state, 1)
    one = StochasticBatchPerceptron()
    local = one.init(problem, rng)
    while local.sought == 0:
        one.advance(problem, local, 1)
    assert 0.5 <= state.nu[0] / local.nu[0] <= 2.0


def test_lists_that_do_not_show_the_level_grow(rng, monkeypatch):
    """Grids that are too coarse or elsewhere cost trips and change nothing."""
    problem, levels = drawn(rng), []
    for most, reach in ((4096, 4.0), (2, 4.0), (4096, 1e-3)):
        monkeypatch.setattr(sbp_parts, "MOST_LISTED", most)
        monkeypatch.setattr(sbp_parts, "REACH", reach)
        parts, solver = dealt(problem, 3), SBPOnParts(nu=0.02, batch_size=4)
        state = solver.init(parts, np.random.default_rng(0))
        solver.advance(parts, state, 1)
        levels.append(state.level[0])
        for _ in range(8):
            before = responses(state)[0] * state.scale[0]
            solver.advance(parts, state, 1)
            wanted = fill(problem.y * before, problem.n * 0.02, y=problem.y)
            assert state.level[0] == pytest.approx(wanted.level, abs=1e-9)
    assert max(levels) == min(levels)


@pytest.mark.parametrize("several", [False, True])
def test_what_travels_is_what_the_formula_says(rng, several):
    problem = drawn(rng, several=several)
    parts, solver, told = dealt(problem, 4), SBPOnParts(nu=0.02, batch_size=8), []
    state, d, m, cells = solver.init(parts, rng), 4, problem.n_outputs, 64
    made = solver._workspace(parts, state).parts
    ask = made.ask

    def heard(method, *message):
        replies = ask(method, *message)
        told.append((method, message, replies))
        return replies

    made.ask = heard
    solver.advance(parts, state, 30)
    assert len(told) <= 1 + 3 * 30
    for method, message, replies in told:
        if method == "step":
            points = message[1].shape[1]
            assert points <= m * 8
            assert numbers(message) == points * (d + m) + 7 * m
            assert [numbers(reply) for reply in replies] == [(6 * cells + 4) * m] * 4
        if method == "find":
            candidates, heights = len(message[-1]), sum(each[0].size for reply in replies for each in reply[0])
            assert numbers(message) == 4 * candidates + 10 * m + 1
            assert sum(map(numbers, replies)) == 2 * heights + candidates * (d + 3 * m + 2)


def numbers(value):
    """How many there are in a message."""
    if isinstance(value, np.ndarray):
        return value.size
    return sum(map(numbers, value)) if isinstance(value, (tuple, list)) else 1


def test_what_cannot_be_is_a_sentence(rng):
    problem = drawn(rng)
    with pytest.raises(ValueError, match="average must be 't' or 'uniform' over parts"):
        SBPOnParts(average="suffix").init(dealt(problem, 2), rng)
    one_class = KernelProblem(RBF(1.0), problem.X, np.ones(problem.n), HINGE, 0.1)
    with pytest.raises(ValueError, match="needs examples of both classes"):
        SBPOnParts().init(dealt(one_class, 2), rng)
