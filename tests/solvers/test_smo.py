"""SMO: the optimum of tiny problems by a general method, KKT conditions, certificates, laws of states and caches."""

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from reference import smo as textbook
from widemargin.core.dispatch import compiled
from widemargin.core.kernel_cache import RowCache
from widemargin.core.kernels import RBF, Linear, Polynomial, as_kernel
from widemargin.core.losses import EpsilonInsensitive, Hinge, Single, SquaredHinge
from widemargin.core.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import load_state, run, save_state
from widemargin.solvers import sbp, smo
from widemargin.solvers.smo import SMO, Variables, balance, lightened, use_again

solve_pairs, solve_singles = compiled(smo.solve_pairs), compiled(smo.solve_singles)

INTERCEPTS = ["unregularized", "regularized", "none"]
KERNELS = [RBF(0.5), Linear(), Polynomial(0.5, 1.0, 2)]
EPSILON = 0.1


def make(
    rng, n=30, *, regression=False, intercept="unregularized", kernel=KERNELS[0], C=1.0, d=3, sparse=False, **more
):
    """A noisy problem with some structure."""
    X = rng.normal(size=(n, d))
    t = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    if not regression:
        t = np.where(t > 0, 1.0, -1.0)
        t[:2] = 1.0, -1.0  # both classes are there
    loss = EpsilonInsensitive(EPSILON) if regression else Hinge()
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return KernelProblem(kernel, rows, t, Single(loss), 1.0 / (C * n), intercept=intercept, **more)


def gram(problem):
    """The kernel values the solver sees, rounded to float32 as they are there, with the constant."""
    everything = np.arange(problem.n)
    return problem.matrix(everything, everything).block(everything).astype(np.float64) + problem.constant


def dual_problem(problem):
    """(K, σ, h, C) over the variables, for the textbook."""
    epsilon = None if isinstance(problem.target.loss, Hinge) else problem.target.loss.epsilon
    sigma, h, cap, row = textbook.variables(problem.y, epsilon, problem.caps)
    return gram(problem)[np.ix_(row, row)], sigma, h, cap


def solved(problem, rng, tol=1e-6, **parameters):
    return run(SMO(tol=tol, **parameters), problem, rng=rng, tol=tol, max_epochs=10000)


def random_feasible(rng, problem):
    v = Variables.of(problem)
    alpha = v.cap * rng.uniform(size=v.cap.size) * rng.integers(0, 2, v.cap.size)
    return balance(alpha, v.sigma, v.cap) if problem.has_free_bias else alpha


tiny = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "n": st.integers(2, 9),
        "regression": st.booleans(),
        "intercept": st.sampled_from(INTERCEPTS),
        "kernel": st.sampled_from(KERNELS),
        "C": st.sampled_from([0.01, 1.0, 20.0]),
    }
)


def from_seed(seed, **how):
    rng = np.random.default_rng(seed)
    problem = make(rng, **how)
    problem = replace(problem, sample_weight=rng.uniform(0.2, 2.0, problem.n))
    return problem, rng


# ---------------------------------------------------------------- the optimum


@given(tiny)
@settings(max_examples=60)
def test_the_inner_solvers_reach_the_optimum_of_a_general_method(how):
    problem, _ = from_seed(**how)
    K, sigma, h, cap = dual_problem(problem)
    primal, dual = textbook.optimal_values(K, sigma, h, cap, problem.has_free_bias)
    alpha, e, K32 = np.zeros(h.size), h.copy(), K.astype(np.float32)
    if problem.has_free_bias:
        up, down, diagonal = np.empty(h.size), np.empty(h.size), K32.diagonal().astype(np.float64)
        steps = solve_pairs(K32, diagonal, sigma, cap, alpha, e, up, down, 1e-9, 10**7)
    else:
        steps = solve_singles(K32, K32.diagonal().astype(np.float64), sigma, cap, alpha, e, 1e-9, 10**7)
    # the general method ends with a gap of its own; ours is between its dual and its primal value
    slack = 1e-7 * (1.0 + abs(primal))
    # and maximises a dual of K rounded with the constant: |D − D₃₂| ≤ ½ u Σ αα|K|, here and at the optimum
    rounding = 2.0**-24 * cap @ np.abs(K) @ cap
    assert dual - slack - rounding <= textbook.dual_value(K, sigma, h, alpha) <= primal + slack
    np.testing.assert_allclose(e, h - K @ (sigma * alpha), atol=1e-6 * (1.0 + np.abs(K).max() * cap.sum()))
    assert np.all((alpha >= 0.0) & (alpha <= cap))
    if problem.has_free_bias:
        # every step adds and subtracts the same t: rounding of as many additions
        assert abs(sigma @ alpha) <= 1e-15 * (steps + h.size) * cap.sum()


@given(st.integers(0, 2**32 - 1), st.sampled_from([63, 64, 65, 128, 200]), st.integers(0, 15))
@settings(max_examples=60)
def test_the_pairs_that_move_are_the_textbook_s_however_many_variables_there_are(seed, m, most):
    rng = np.random.default_rng(seed)
    K = np.exp(-cdist(*2 * [rng.normal(size=(m, 3))], "sqeuclidean")).astype(np.float32)
    h, cap = np.round(rng.normal(size=m)), rng.uniform(0.1, 1.0, m)  # of equal ones the first counts
    sigma = np.where(np.arange(m) % 2, 1.0, -1.0)
    (alpha, e), (expected, responses) = ((np.zeros(m), h.copy()) for _ in range(2))
    up, down, diagonal = np.empty(m), np.empty(m), K.diagonal().astype(np.float64)
    moved = solve_pairs(K, diagonal, sigma, cap, alpha, e, up, down, 0.0, most)
    assert moved == textbook.move_pairs(K, sigma, cap, expected, responses, most)
    np.testing.assert_allclose(alpha, expected, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(e, responses, rtol=0.0, atol=1e-9)


@given(tiny)
@example({"seed": 284, "n": 7, "regression": False, "intercept": "unregularized", "kernel": KERNELS[1], "C": 20.0})
@settings(max_examples=60)
def test_smo_ends_at_the_optimum_of_a_general_method(how):
    problem, rng = from_seed(**how)
    K, sigma, h, cap = dual_problem(problem)
    primal, dual = textbook.optimal_values(K, sigma, h, cap, problem.has_free_bias)
    outcome = solved(problem, rng)
    certificate = SMO().certificate(problem, outcome.state)
    slack = 1e-7 * (1.0 + abs(primal))
    # a few singular kernels take millions of moves, and end at the limit of epochs: their gap must say so
    assert certificate.primal / problem.lam <= primal + certificate.gap / problem.lam + slack
    assume(outcome.stop_reason == "tol")
    assert certificate.primal / problem.lam <= primal * (1.0 + 1e-6) + slack
    assert dual * (1.0 - 1e-6) - slack <= certificate.dual / problem.lam <= primal + slack


@given(tiny, st.integers(0, 3))
@settings(max_examples=60)
def test_the_gap_of_any_feasible_point_bounds_its_suboptimality(how, rounds):
    """Weak duality: D ≤ D* = P* ≤ P, so P − P* ≤ P − D; and primal and dual are those of the textbook."""
    problem, rng = from_seed(**how)
    K, sigma, h, cap = dual_problem(problem)
    best_primal, best_dual = textbook.optimal_values(K, sigma, h, cap, problem.has_free_bias)
    solver = SMO()
    state = solver.init(problem, rng, Variables.of(problem).signed(random_feasible(rng, problem)))
    solver.advance(problem, state, 1 + rounds)
    primal, dual, gap = (value / problem.lam for value in solver.certificate(problem, state))
    # kernel values are float64 sums rounded to float32, so they are the same numbers here and there, but for rare
    # cases of a last bit
    slack = 1e-7 * (1.0 + abs(primal) + np.abs(K).max() * state.alpha.sum() * 2.0 * cap.sum())
    own = textbook.primal_value(K, sigma, h, cap, state.alpha, state.bias)
    assert primal <= own + slack  # the model is w(α), or a multiple of it that is better
    multiple, bias, _ = state.point
    assert primal == pytest.approx(textbook.primal_value(K, sigma, h, cap, multiple * state.alpha, bias), abs=slack)
    assert dual == pytest.approx(textbook.dual_value(K, sigma, h, state.alpha), abs=slack)
    assert dual <= best_primal + slack
    assert primal >= best_dual - slack
    assert gap >= primal - best_primal - slack


@pytest.mark.parametrize("weightless", [0.0, 0.97])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("few", [1, 3])
def test_every_round_moves_however_few_examples_one_class_has(few, sign, weightless, rng):
    """Variables of one class alone cannot: their sum with signs is kept."""
    for n in (400, 700, 1000, 1800):
        X, y = rng.normal(size=(n, 2)), np.full(n, -sign)
        y[rng.choice(n, few, replace=False)] = sign
        weights = np.where(y == sign, n / few, rng.random(n) >= weightless)
        problem = KernelProblem(RBF(0.1), as_rows(X), y, Single(Hinge()), 1.0 / n, sample_weight=weights)
        solver = SMO(sample=1)
        state = solver.init(problem, rng)
        assert solver.advance(problem, state, 1) == 1
        assert state.counters.updates > 0
        outcome = run(SMO(), problem, rng=rng, tol=1e-3, max_epochs=10000)
        assert outcome.stop_reason == "tol"


def test_without_a_free_bias_nobody_needs_a_partner(rng):
    """The first working set is the first of the order, of whatever class."""
    n = 1000
    y = np.where(np.arange(n) < 3, 1.0, -1.0)
    problem = KernelProblem(RBF(0.1), as_rows(rng.normal(size=(n, 2))), y, Single(Hinge()), 1.0 / n, intercept="none")
    solver = SMO(sample=1)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 1)
    moved = np.flatnonzero(state.episode.alpha)
    assert moved.size > 0
    assert set(moved) <= set(state.episode.order[: state.episode.position].tolist())


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_certificate_of_a_warm_start_holds_before_any_round(intercept, rng):
    problem = make(rng, intercept=intercept)
    K, sigma, h, _ = dual_problem(problem)
    alpha = random_feasible(rng, problem)
    solver = SMO()
    certificate = solver.certificate(problem, solver.init(problem, rng, Variables.of(problem).signed(alpha)))
    dual = problem.lam * textbook.dual_value(K, sigma, h, alpha)
    assert certificate.dual == pytest.approx(dual, rel=1e-6)
    assert np.isfinite(certificate.primal)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_karush_kuhn_tucker_conditions_hold_at_the_end(intercept, regression, sparse, rng):
    problem = make(rng, 500, intercept=intercept, regression=regression, C=3.0, sparse=sparse)
    outcome = solved(problem, rng)
    assert outcome.stop_reason == "tol"
    K, sigma, h, cap = dual_problem(problem)
    alpha = outcome.state.alpha
    assert np.all((alpha >= 0.0) & (alpha <= cap))
    if problem.has_free_bias:
        # an addition rounds by 1e-16 of a bound; there are a few thousand
        assert abs(sigma @ alpha) <= 1e-11 * cap.max()
    # each term of the gap is non-negative: (C − α)[s]₊ + α[−s]₊, so none is above the whole
    s = sigma * (h - K @ (sigma * alpha) - outcome.state.bias)
    gap = 1e-6 * outcome.objective / problem.lam
    rounding = 1e-6 * np.abs(s).max()
    assert ((cap - alpha) * np.maximum(s, 0.0)).max() <= gap + rounding
    assert (alpha * np.maximum(-s, 0.0)).max() <= gap + rounding


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_the_dual_never_falls_from_round_to_round_of_an_episode(intercept, regression, rng):
    problem = make(rng, 450, intercept=intercept, regression=regression, C=2.0)
    solver = SMO(working_set=32, tol=1e-5)
    state = solver.init(problem, rng)
    K, sigma, h, cap = dual_problem(problem)
    previous, alpha, rounds = 0.0, np.zeros(h.size), 0
    for _ in range(60):
        solver.advance(problem, state, 1)
        if state.episode is None:
            break
        alpha = state.alpha.copy()
        alpha[state.episode.active] = state.episode.alpha
        assert np.all((alpha >= 0.0) & (alpha <= cap))
        value = textbook.dual_value(K, sigma, h, alpha)
        # the float32 rows are the same numbers here and there; only float64 sums are rounded
        assert value >= previous - 1e-10 * abs(value)
        previous, rounds = value, rounds + 1
    assert rounds > 5


def test_the_dual_never_falls_from_checkpoint_to_checkpoint(rng):
    outcome = solved(make(rng, 700, C=10.0), rng, tol=1e-7, working_set=32)
    duals = outcome.history["objective"] - outcome.history["gap"]
    assert np.all(np.diff(duals) >= -1e-9 * np.abs(duals[1:]))


# ---------------------------------------------------------------- episodes


@pytest.mark.parametrize("intercept", ["unregularized", "none"])
@pytest.mark.parametrize("regression", [False, True])
def test_a_start_from_a_sample_ends_at_the_same_optimum(intercept, regression, rng):
    problem = make(rng, 2100, d=2, intercept=intercept, regression=regression)
    outcomes = [solved(problem, rng, tol=1e-4, sample=sample) for sample in (8, 1)]
    assert outcomes[0].state.episodes > outcomes[1].state.episodes
    assert outcomes[0].objective == pytest.approx(outcomes[1].objective, rel=1e-4)
    for outcome in outcomes:
        assert outcome.stop_reason == "tol"
        assert np.all(outcome.state.alpha <= Variables.of(problem).cap)


def test_responses_are_up_to_date_at_a_checkpoint(rng):
    problem = make(rng, 2100, d=2)
    solver = SMO()
    state = solver.init(problem, rng)
    K, checked = gram(problem), 0
    for _ in range(100):
        solver.advance(problem, state, 5)
        if solver.at_checkpoint(state):
            expected = K @ (problem.y * state.alpha)
            # the values are the same float32 numbers; sums of n of them in another order
            np.testing.assert_allclose(state.f, expected, atol=1e-9 * state.alpha.sum())
            checked += 1
    assert checked


def test_a_model_in_the_middle_of_an_episode_is_feasible_and_certified(rng):
    problem = make(rng, 2100, d=2)
    solver = SMO()
    state = solver.init(problem, rng)
    for _ in range(4):
        solver.advance(problem, state, 1)
        certificate = solver.certificate(problem, state)
        assert certificate.gap >= 0.0
        assert np.all(state.alpha <= problem.caps)
        assert abs(problem.y @ state.alpha) <= 1e-10 * problem.caps.sum()


def separable(rng, n=2400, C=1000.0, **more):
    """Few support vectors, most of them free, and margins of all sizes."""
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.3 * np.sin(3 * X[:, 1]) > 0.0, 1.0, -1.0)
    return KernelProblem(
        RBF(2.0), as_rows(X), y, Single(Hinge()), 1.0 / (C * n), intercept="unregularized", **more
    )  # fmt: skip


def ahead_of_all(problem, solver, rng):
    """A state in the first rounds of an episode that goes ahead."""
    state = solver.init(problem, rng)
    while state.episode is None or not state.episode.ahead or state.episode.rounds < 2:
        assert state.episodes < 2
        solver.advance(problem, state, 1)
    return state


def test_an_episode_goes_ahead_over_the_third_with_the_least_to_spare(rng):
    problem, solver, before = separable(rng), SMO(), None
    state = solver.init(problem, rng)
    while state.episodes == 0:
        before = deepcopy(state)
        solver.advance(problem, state, 1)
    assert state.ahead
    # under the sample's own solution, with its bias
    sample, K, y = before.episode, gram(problem), problem.y
    f = K[:, sample.rows] @ (y[sample.rows] * sample.alpha)
    part = y[sample.rows], (y - f)[sample.rows], problem.caps[sample.rows] * sample.bound, sample.alpha
    missed = 1.0 - y * (f + smo.free_bias(*part))
    chosen = np.isin(np.arange(problem.n), state.promising)
    left = ~chosen
    assert problem.n / 3 - 1 <= chosen.sum() <= 0.4 * problem.n
    assert missed[left].max() <= 1e-4 - solver.first_slack  # kernel values are in float32
    assert np.all(missed[left].max() <= missed[chosen & ~np.isin(np.arange(problem.n), sample.rows)] + 1e-4)
    assert np.all(chosen[sample.rows[sample.alpha > 0.0]])


def test_an_episode_ahead_leaves_the_rows_of_support_vectors_over_all_examples_and_the_same_optimum(rng):
    problem, solver = separable(rng), SMO(tol=1e-5)
    state = ahead_of_all(problem, solver, rng)
    while state.episodes < 2:
        before = deepcopy(state.episode)
        solver.advance(problem, state, 1)
    assert not state.ahead
    support = np.flatnonzero(state.alpha)
    assert np.all(np.isin(support, before.rows))
    whole = smo.Workspace.of(problem, state).whole
    assert np.all(whole.slot_of[support] >= 0)
    np.testing.assert_allclose(state.f, gram(problem) @ (problem.y * state.alpha), atol=1e-9 * state.alpha.sum())
    ends = run(solver, problem, state=state, tol=1e-5, max_epochs=10000), solved(problem, rng, tol=1e-5, sample=1)
    assert ends[0].stop_reason == ends[1].stop_reason == "tol"
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-5)


@pytest.mark.parametrize("early", [False, True])
def test_an_episode_ahead_comes_to_the_same_bits_however_it_is_cut_looked_at_or_saved(early, rng, tmp_path):
    seed, problem, solver = int(rng.integers(2**32)), separable(rng), SMO(tol=1e-5, early=early)
    whole, halted = (solver.init(problem, np.random.default_rng(seed)) for _ in range(2))
    seen = 0
    while whole.episodes < 3:
        solver.advance(problem, whole, 1000)
    while halted.episodes < 3:
        solver.advance(problem, halted, int(rng.integers(1, 4)))
        if halted.episode is not None and halted.episode.ahead:
            seen += 1
            solver.estimate(problem, halted)
            solver.glimpse(problem, halted, np.inf)
        if rng.random() < 0.2:
            halted.drop_workspace()
        elif rng.random() < 0.2:
            save_state(tmp_path / "state.npz", halted)
            halted = load_state(tmp_path / "state.npz")
    assert seen > 0
    assert whole.alpha.tobytes() == halted.alpha.tobytes()
    assert whole.f.tobytes() == halted.f.tobytes()
    assert replace(whole.counters, kernel_computed=0) == replace(halted.counters, kernel_computed=0)


@pytest.mark.parametrize("early", [False, True])
def test_the_end_of_an_episode_ahead_can_be_looked_at_once_where_good_points_are_wanted_early(early, rng, monkeypatch):
    monkeypatch.setattr(smo, "BLOCK_VALUES", 1)  # so that the closing has several blocks
    problem, solver = separable(rng), SMO(early=early, tol=1e-5)
    state = ahead_of_all(problem, solver, rng)
    while state.closing is None and state.episode is not None:
        solver.advance(problem, state, 1)
    assert sbp.is_ahead(state) is early
    rounds = state.episode.rounds
    for other in range(8, 13):  # not again at 8, 10 and 12 rounds, where it was looked at before it had ended
        state.episode.rounds = other
        assert sbp.at_look(state) is (early and other in (9, 11))
    state.episode.rounds = rounds
    if early:  # solved further than for a soon end
        at, y = state.episode, problem.y[state.episode.rows]
        bias = smo.free_bias(y, y - at.f, problem.caps[at.active], at.alpha)
        missed = 1.0 - y * (at.f + bias)
        gap = problem.caps[at.active] @ np.maximum(0.0, missed) - at.alpha @ missed
        assert gap <= 0.003 * (at.alpha.sum() - 0.5 * (y * at.alpha) @ at.f) * (1.0 + 1e-9)
        assert solver.estimate(problem, state)[0]["objective"] < solver.certificate(problem, state).primal
        assert state.closing.position == 0
        solver.advance(problem, state, 1)
    assert 0 < state.closing.position < state.closing.rows.size
    assert not sbp.is_ahead(state)
    assert not sbp.at_look(state)


def test_nothing_goes_ahead_where_rows_are_given_or_shared_or_have_no_room_or_most_examples_matter(rng):
    problem = separable(rng)
    rows, alpha = np.arange(problem.n // 3), np.ones(100)
    goes = SMO()._goes_ahead
    assert goes(problem, rows, alpha)
    wide = replace(problem, X=as_rows(np.zeros((problem.n, 15))))
    assert not goes(wide, rows, alpha)
    assert SMO(early=True)._goes_ahead(wide, rows, alpha)
    assert goes(replace(problem, X=as_rows(np.zeros((problem.n, 14)))), rows, alpha)
    assert goes(replace(problem, X=as_rows(sp.csr_matrix(np.eye(problem.n, 15)))), rows, alpha)
    assert not goes(problem, np.arange(problem.n // 2), alpha)
    assert not goes(replace(problem, cache_bytes=7 * problem.n * alpha.size), rows, alpha)
    assert goes(replace(problem, cache_bytes=8 * problem.n * alpha.size), rows, alpha)
    everything = np.arange(problem.n)
    assert not goes(replace(problem, shared=(None, everything)), rows, alpha)
    for kernel in (as_kernel("precomputed"), as_kernel(lambda A, B: A @ B.T)):
        assert not goes(replace(problem, kernel=kernel), rows, alpha)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_estimate_by_all_other_examples_is_the_value_of_the_best_multiple(weighted, rng, monkeypatch):
    monkeypatch.setattr(smo, "PROBE", 10**6)
    problem = separable(rng)
    if weighted:
        problem = replace(problem, sample_weight=rng.uniform(0.5, 1.5, problem.n))
    solver = SMO(working_set=16)
    state = ahead_of_all(problem, solver, rng)
    measured, model = solver.estimate(problem, state)
    assert measured["gap"] == np.inf
    assert measured["examples"] == state.episode.rows.size
    model, (true, own) = model(), solver.glimpse(problem, state, np.inf)
    margins = problem.y * model.decision_function(problem.X)[:, 0]
    K, s = gram(problem)[np.ix_(model.support, model.support)], problem.sample_weight
    losses = np.maximum(0.0, 1.0 - margins) * (s if weighted else 1.0)
    value = 0.5 * problem.lam * float(model.coef[0] @ K @ model.coef[0]) + np.mean(losses)
    assert measured["objective"] == pytest.approx(value, rel=1e-5)
    # the same ray: a look that proves something finds about the same multiple (from thousands of examples each)
    assert measured["objective"] == pytest.approx(true["objective"], rel=1e-2)
    ratio = model.coef[0] / own().coef[0]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


def test_the_examples_of_an_estimate_stand_for_all(rng, monkeypatch):
    problem, solver, seen, value = separable(rng), SMO(working_set=16), [], KernelProblem.value

    def recorded(self, *arguments):
        seen.append(self)
        return value(self, *arguments)

    state = ahead_of_all(problem, solver, rng)
    with monkeypatch.context() as patch:
        patch.setattr(KernelProblem, "value", recorded)
        solver.estimate(problem, state)
    (there,) = seen
    assert there.n == state.episode.rows.size + smo.PROBE < problem.n
    assert there.sample_weight.sum() == pytest.approx(there.n)
    own = there.sample_weight[: state.episode.rows.size]
    np.testing.assert_allclose(own, there.n / problem.n)


def test_a_glimpse_ahead_is_an_estimate_where_a_proof_takes_more_than_is_allowed(rng):
    problem, solver = separable(rng), SMO()
    state = ahead_of_all(problem, solver, rng)
    support = np.count_nonzero(smo.alpha_of(state))
    assert "examples" not in solver.glimpse(problem, state, np.inf)[0]
    state = deepcopy(state)  # nothing has been seen of it
    assert solver.glimpse(problem, state, 0.0) is None
    estimated, _ = solver.glimpse(problem, state, smo.PROBE * support)
    assert estimated == solver.estimate(problem, state)[0]
    assert "examples" in estimated
    assert "examples" not in solver.glimpse(problem, state, np.inf)[0]


# ---------------------------------------------------------------- caches, threads, states, counters


def bits(outcome):
    return outcome.state.alpha.tobytes(), outcome.state.f.tobytes(), outcome.state.bias


def test_the_size_of_the_cache_does_not_change_the_model_while_a_working_set_fits(rng):
    seed, n, kept = int(rng.integers(2**32)), 600, []
    for rows in (n // 2, 10 * n):
        problem = make(np.random.default_rng(seed), n, cache_bytes=4 * n * rows)
        outcome = solved(problem, np.random.default_rng(seed), tol=1e-4, working_set=64)
        assert outcome.state.counters.visits < 4 * 64 * outcome.state.counters.steps  # the room that there is always
        kept.append(bits(outcome))
    assert kept[0] == kept[1]


@pytest.mark.parametrize("n_bytes", [1.0, 4e4, 4e6])
def test_any_cache_leads_to_the_same_optimum(n_bytes, rng):
    problem = make(rng, 450, C=5.0)
    best = solved(problem, rng, tol=1e-5).objective
    problem = replace(problem, cache_bytes=n_bytes)
    assert solved(problem, rng, tol=1e-4).objective <= best * (1.0 + 1e-4)


def test_threads_do_not_change_a_bit(rng):
    seed = int(rng.integers(2**32))
    # large enough for a block to be shared between threads: rows × columns × features > 2²⁴
    results = [
        bits(solved(make(np.random.default_rng(seed), 1000, d=80, kernel=RBF(0.01), threads=threads),
                    np.random.default_rng(seed), tol=1e-3))
        for threads in (1, 2)
    ]  # fmt: skip
    assert results[0] == results[1]


@pytest.mark.parametrize("intercept", ["unregularized", "regularized"])
def test_threads_that_add_rows_do_not_change_a_bit(intercept, rng, monkeypatch):
    seed, shared, calls = int(rng.integers(2**32)), [], []
    grown, make_room = [], smo.Kept.make_room

    def share(call, pieces):
        shared.append(len(pieces))
        calls.append(call)
        for piece in pieces[::-1]:
            call(*piece)

    def watched(kept, needed):
        make_room(kept, needed)
        grown.append(kept.space.K.shape[0])

    def outcome(threads):
        grown.clear()
        problem = make(np.random.default_rng(seed), 4500, intercept=intercept, kernel=RBF(3.0), threads=threads)
        solver, rng = SMO(tol=1e-2, working_set=64, sample=1), np.random.default_rng(seed)
        return run(solver, problem, rng=rng, tol=1e-2, max_epochs=10000).state

    monkeypatch.setattr(smo.Kept, "make_room", watched)
    one = outcome(1)
    assert len(set(grown)) > 1  # working sets with more variables than there was room for at first
    monkeypatch.setattr(smo, "FOR_THREADS", 1.0)
    monkeypatch.setattr(smo, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(smo, "WORTH_A_LOOK", 1)
    monkeypatch.setattr(smo, "share", share)
    for threads, pieces in ((2, 2), (3, 3)):
        shared.clear()
        calls.clear()
        state = outcome(threads)
        assert max(shared) == pieces
        assert calls.count(smo._gather_pieces) >= state.counters.steps
        assert state.alpha.tobytes() == one.alpha.tobytes()
        assert state.f.tobytes() == one.f.tobytes()
        assert state.counters == one.counters
        assert len(set(grown)) > 1
    assert len(shared) > one.counters.steps // 2


@pytest.mark.parametrize("n", [1, 17, 3001, 9000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_all_columns_of_rows_are_added_once_by_however_many_threads(n, threads, rng, monkeypatch):
    """Whoever comes first may take all pieces."""
    shared = []

    def share(call, pieces):
        shared.append(len(pieces))
        for piece in pieces[::-1]:
            call(*piece)

    monkeypatch.setattr(smo, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(smo, "share", share)
    rows, slots, change = rng.random((9, n), np.float32), np.array([7, 0, 3, 8, 2]), rng.normal(size=5)
    change[2], f = 0.0, rng.normal(size=n)
    expected = f + change @ rows[slots].astype(float)
    smo.add_kernel_rows(rows, slots, change, f, threads)
    np.testing.assert_allclose(f, expected, rtol=1e-12, atol=1e-12)
    assert shared == [threads]


@pytest.mark.parametrize("n", [450, 2100])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(n, rng, tmp_path):
    seed = int(rng.integers(2**32))
    problem = make(rng, n, C=5.0)
    solver = SMO(working_set=32, tol=1e-6)
    whole = solver.init(problem, np.random.default_rng(seed))
    halted = solver.init(problem, np.random.default_rng(seed))
    for state in (whole, halted):
        for _ in range(3):
            solver.advance(problem, state, 1)
    save_state(tmp_path / "state.npz", halted)
    halted = load_state(tmp_path / "state.npz")
    assert halted.episode is not None
    for state in (whole, halted):
        for _ in range(30):
            solver.advance(problem, state, 1)
        solver.finish(problem, state)
    assert whole.alpha.tobytes() == halted.alpha.tobytes()
    assert whole.f.tobytes() == halted.f.tobytes()
    assert (whole.bias, whole.primal, whole.dual) == (halted.bias, halted.primal, halted.dual)
    assert whole.counters.updates == halted.counters.updates


def test_rounds_may_be_asked_for_in_any_portions(rng):
    seed = int(rng.integers(2**32))
    problem = make(rng, 450, C=5.0)
    solver = SMO(working_set=32, tol=1e-6)
    states = [solver.init(problem, np.random.default_rng(seed)) for _ in range(2)]
    assert solver.advance(problem, states[0], 12) == 12
    for portion in (5, 1, 6):
        solver.advance(problem, states[1], portion)
    for state in states:
        solver.finish(problem, state)
    assert states[0].alpha.tobytes() == states[1].alpha.tobytes()


@pytest.mark.parametrize("n", [300, 600, 2100])
@pytest.mark.parametrize("rows", [20, 10000])
def test_kernel_values_are_counted_exactly(n, rows, rng, matrices):
    problem = make(rng, n, cache_bytes=4 * n * rows)
    SMO()._compile(problem)  # computes a few values, once in a process
    matrices.clear()
    outcome = solved(problem, rng, tol=1e-2)
    assert outcome.state.counters.kernel_computed == sum(matrix.evaluations for matrix in matrices)
    assert outcome.history["kernel_evals"][-1] == outcome.state.counters.kernel_evals


@pytest.mark.parametrize("rows", [20, 150, 1000])
def test_shared_rows_change_nothing_but_the_count(rows, rng):
    """Whole rows are computed once, by whichever problem asks first; a cache too small for them computes more."""
    seed = int(rng.integers(2**32))
    problem = make(rng, 600)
    plain = solved(problem, np.random.default_rng(seed), tol=1e-4)
    everything = np.arange(600)
    shared = RowCache(problem.matrix(everything, everything), 4 * 600 * rows)
    problem = replace(problem, shared=(shared, everything))
    first = solved(problem, np.random.default_rng(seed), tol=1e-4)
    assert first.state.alpha.tobytes() == plain.state.alpha.tobytes()
    assert first.state.counters.kernel_computed == shared.matrix.evaluations == 600 * shared.misses
    again = solved(problem, np.random.default_rng(seed), tol=1e-4)
    assert again.state.alpha.tobytes() == plain.state.alpha.tobytes()
    if rows >= 600:
        assert again.state.counters.kernel_computed == 0
    half = everything[::2]
    part = shared.part(half, half[:50])
    np.testing.assert_array_equal(part.block(np.arange(300)), gram(problem)[np.ix_(half, half[:50])].astype(np.float32))


# ---------------------------------------------------------------- warm starts and bad input


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_a_warm_start_at_the_optimum_is_soon_done(intercept, regression, rng):
    problem = make(rng, 450, intercept=intercept, regression=regression)
    solver = SMO(tol=1e-5, working_set=32)
    cold = run(solver, problem, rng=rng, tol=1e-5, max_epochs=10000)
    warm = run(
        solver,
        problem,
        state=solver.init(problem, rng, solver.duals(problem, cold.state)),
        rng=rng,
        tol=1e-5,
        max_epochs=10000,
    )
    assert warm.objective <= cold.objective * (1.0 + 1e-5)
    assert warm.state.counters.visits <= 0.5 * cold.state.counters.visits


def test_balance_gives_the_nearest_feasible_point(rng):
    cap, sigma = rng.uniform(0.5, 2.0, 20), np.where(rng.uniform(size=20) < 0.4, 1.0, -1.0)
    sigma[:2] = 1.0, -1.0
    alpha = rng.uniform(0.0, 1.0, 20) * cap
    near = balance(alpha, sigma, cap)
    assert abs(sigma @ near) <= 1e-12 * cap.sum()
    assert np.all((near >= 0.0) & (near <= cap))
    # no other feasible point is nearer: the way there makes no acute angle with the way to any other
    for _ in range(20):
        other = balance(rng.uniform(0.0, 1.0, 20) * cap, sigma, cap)
        assert (alpha - near) @ (other - near) <= 1e-10


@pytest.mark.parametrize("balanced", [True, False])
def test_a_lightened_point_is_feasible_and_has_no_new_support(balanced, rng):
    for _ in range(20):
        n = int(rng.integers(2, 30))
        sigma, cap = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.uniform(0.1, 2.0, n)
        alpha = rng.uniform(0.0, 4.0, n) * rng.integers(0, 2, n)
        found = lightened(alpha, sigma, cap, balanced)
        assert np.all((found >= 0.0) & (found <= np.minimum(alpha, cap)))
        assert (
            abs(sigma @ found) <= 1e-12 * (1.0 + found.sum()) if balanced else np.all(found == np.minimum(alpha, cap))
        )


@given(st.lists(st.sets(st.integers(0, 11), min_size=1, max_size=4), max_size=30), st.integers(4, 12))
@settings(max_examples=60)
def test_rows_used_again_are_those_that_a_cache_has_let_go(rounds, capacity):
    """Beside a list of rows by their last use: a row of the round that fits only in part counts as let go."""
    last, ages, uses = np.zeros(12, np.int32), np.zeros(len(rounds) + 1, np.int64), []
    ages[0] = 12
    for now, rows in enumerate(rounds, 1):
        resident = {r for r in range(12) if r in uses and len(set(uses[len(uses) - uses[::-1].index(r) :])) < capacity}
        seen, wanted = set(uses), np.array(sorted(rows))
        again = use_again(last, ages, wanted, wanted.size, now, capacity)
        assert len((rows & seen) - resident) <= again <= len(rows & seen)
        assert again == 0 or len(seen) > capacity
        assert np.array_equal(np.bincount(last, minlength=ages.size), ages)
        uses += sorted(rows)


@pytest.mark.parametrize("C", [0.05, 1000.0])  # nearly all support vectors at their bounds, and many free
@pytest.mark.parametrize(
    "rows", [50, 2400]
)  # a cache that rows of all examples do not fit into, and one that holds all
def test_narrow_and_whole_sets_of_variables_lead_to_the_same_optimum(C, rows, rng):
    n = 2400
    problem = make(rng, n, kernel=RBF(2.0), C=C, cache_bytes=4.0 * n * rows)
    outcome = solved(problem, rng, tol=1e-4)
    state = outcome.state
    everything = np.arange(n)
    beta = SMO().duals(problem, state)[0]
    f = problem.matrix(everything, everything).block(everything).astype(np.float64) @ beta
    np.testing.assert_allclose(state.f, f, atol=1e-5 * (1.0 + np.abs(beta).sum()))
    certificate = SMO().certificate(problem, state)
    assert certificate.gap <= 1e-4 * certificate.primal


def after_the_sample(problem, rng):
    """(state with the second episode open, workspace-free) of a run whose first episode was a sample."""
    solver = SMO()
    state = solver.init(problem, rng)
    while state.episodes < 1:
        solver.advance(problem, state, 1)
    first = state.alpha.copy(), state.narrow
    solver.advance(problem, state, 1)
    return state, *first


def clean(rng, n, C, d=100, **more):
    """Examples that can be separated, so that with a large C most support vectors are free; wide, so rows are dear."""
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    return KernelProblem(RBF(1.0 / d), as_rows(X), y, Single(Hinge()), 1.0 / (C * n), intercept="unregularized", **more)


def test_a_free_sample_is_followed_by_all_variables_and_a_bounded_one_by_those_that_matter(rng):
    n = 2400
    state, alpha, narrow = after_the_sample(clean(rng, n, 1000.0), rng)
    assert not narrow
    assert np.count_nonzero(alpha) > 0
    assert alpha.max() <= 1000.0
    assert state.episode.active.size == n
    assert state.episode.position == n  # the worst violators from the start
    problem = clean(rng, n, 1e-3)
    state, alpha, narrow = after_the_sample(problem, rng)
    assert narrow
    assert alpha.max() <= 1e-3 * (1.0 + 1e-12)  # the sample's bound over eight
    assert state.episode.active.size < n or np.all(problem.y * state.f < 1.1)


def test_the_set_is_narrowed_when_rows_that_were_let_go_have_cost_too_much(rng):
    n, seed = 2400, int(rng.integers(2**32))
    small, large = (
        solved(clean(np.random.default_rng(seed), n, 1000.0, cache_bytes=4.0 * n * rows), rng, tol=1e-5).state
        for rows in (40, n)
    )
    assert small.narrow
    assert not large.narrow
    # each row of all examples at most once, and the sample's own
    assert large.counters.kernel_computed <= n * n + (n // 8) ** 2
    assert small.primal == pytest.approx(large.primal, rel=2e-5)


def test_additions_to_the_responses_are_among_what_is_spent(rng):
    problem = clean(rng, 600, 1000.0)  # no sample: the first episode has all variables
    solver = SMO()
    state = solver.init(problem, rng)
    solver.advance(problem, state, 3)
    assert state.episode.spent[0] >= state.counters.visits > 0
    state.episode.spent[0] = 1e12
    solver.advance(problem, state, 1)
    assert state.narrow


def test_what_smo_cannot_solve_is_refused_in_a_sentence(rng):
    problem = make(rng)
    problem = replace(problem, target=Single(SquaredHinge()))
    with pytest.raises(ValueError, match="SMO solves the hinge and the ε-insensitive loss, got SquaredHinge"):
        SMO().init(problem, rng)
    for name, value in [("working_set", 1), ("sample", 0), ("max_rounds", 0), ("working_set", 2.5)]:
        with pytest.raises(ValueError, match=f"{name} must be an integer ≥ ., got {value}"):
            SMO(**{name: value}).init(make(rng), rng)


# ---------------------------------------------------------------- looking


def test_a_glimpse_is_the_point_that_the_end_of_the_episode_would_have(rng):
    seed = int(rng.integers(2**32))
    problem = make(rng, 2100, C=50.0)
    solver = SMO(working_set=32, tol=1e-6)
    state = solver.init(problem, np.random.default_rng(seed))
    compared = 0
    while compared < 3:
        solver.advance(problem, state, 2)
        if state.episode is None or state.episode.bound != 1.0:
            continue
        measured, model = solver.glimpse(problem, state, np.inf)
        assert solver.glimpse(problem, state, -1.0) is None
        glimpsed = model()
        solver.finish(problem, state)
        certificate = solver.certificate(problem, state)
        assert measured["objective"] == pytest.approx(certificate.primal, rel=1e-12)
        assert measured["gap"] == pytest.approx(certificate.gap, rel=1e-9, abs=1e-12)
        np.testing.assert_array_equal(glimpsed.coef, solver.model(problem, state).coef)
        compared += 1


def test_a_second_glimpse_is_the_first_until_a_round_was_made(rng, monkeypatch):
    problem = make(rng, 300, C=50.0)
    solver, looks, values = SMO(working_set=16, tol=1e-6), [], SMO._values

    def counted(self, *arguments):
        looks.append(len(looks))
        return values(self, *arguments)

    state = solver.init(problem, rng)
    for _ in range(4):
        solver.advance(problem, state, 1)
        with monkeypatch.context() as patch:
            patch.setattr(SMO, "_values", counted)
            (measured, model), again = (solver.glimpse(problem, state, np.inf) for _ in range(2))
        assert again[0] == measured
        fresh, made = solver.glimpse(problem, deepcopy(state), np.inf)
        assert fresh == measured
        np.testing.assert_array_equal(model().coef, made().coef)
    assert len(looks) == 4


def test_a_glimpse_of_a_sample_proves_no_more_than_was_proven_before(rng):
    """α of the sample is beyond the bounds of the problem, so its dual value is no bound."""
    problem = make(rng, 2100, C=5.0)
    solver = SMO(working_set=32)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 3)
    assert state.episode.bound > 1.0
    measured, _ = solver.glimpse(problem, state, np.inf)
    assert measured["objective"] - measured["gap"] == pytest.approx(problem.lam * state.dual, abs=1e-12)


def test_a_closing_in_any_portions_ends_at_the_same_bits(rng, tmp_path, monkeypatch):
    """The end of an episode is made of steps; it can be stopped, saved and gone on with."""
    from widemargin.solvers import smo as module

    monkeypatch.setattr(module, "BLOCK_VALUES", 16 * 2100)
    seed = int(rng.integers(2**32))
    problem = make(rng, 2100, C=5.0)
    solver = SMO(working_set=64, tol=1e-6)
    whole, halted = (solver.init(problem, np.random.default_rng(seed)) for _ in range(2))
    halts = 0
    for _ in range(400):
        solver.advance(problem, halted, 1)
        if halted.closing is not None:
            save_state(tmp_path / "state.npz", halted)
            halted = load_state(tmp_path / "state.npz")
            halts += 1
        if halted.episodes == 2:
            break
    while whole.episodes < 2:
        solver.advance(problem, whole, 10**6)
    assert halts > 1
    assert whole.alpha.tobytes() == halted.alpha.tobytes()
    assert whole.f.tobytes() == halted.f.tobytes()
    assert whole.point == halted.point


def test_rows_that_a_round_uses_are_the_last_that_its_cache_lets_go(rng):
    problem = make(rng, 200, cache_bytes=4.0 * 200 * 100)
    solver = SMO(working_set=20)
    state = solver.init(problem, rng)
    for _ in range(8):
        solver.advance(problem, state, 1)
        kept = smo.Workspace.of(problem, state).kept
        if kept is None:  # the episode is at its end
            break
        held, space = kept.cache.held, kept.space
        rows = space.wanted[: int(space.begun[smo.ROWS])]
        assert rows.size
        assert np.all(held.used[held.slot_of[rows]] == held.counts[0])


def after_sample(problem, seed, monkeypatch):
    """SMO's state after its sample, and the sample's rows, α, responses and bounds."""
    seen, end = [], SMO._end

    def watched(self, problem, space, state):
        episode = state.episode
        cap = space.variables.cap[episode.active] * episode.bound
        seen.append((smo.Solved(episode.rows, episode.alpha.copy(), episode.f.copy()), cap))
        end(self, problem, space, state)

    monkeypatch.setattr(SMO, "_end", watched)
    state = SMO().init(problem, np.random.default_rng(seed))
    while state.episodes == 0:
        SMO().advance(problem, state, 1)
    return state, *seen[0]


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("C", [0.05, 100.0])
def test_a_solved_sample_is_as_good_as_the_first_episode(regression, C, rng, monkeypatch):
    """The state after SMO's own sample, from nothing but that sample's rows, α and responses."""
    problem, seed = make(rng, 2400, regression=regression, C=C), int(rng.integers(2**32))
    own, given, _ = after_sample(problem, seed, monkeypatch)
    other = SMO().init(problem, np.random.default_rng(seed), solved=given)
    while other.episodes == 0:
        SMO().advance(problem, other, 1)
    assert own.narrow == other.narrow
    np.testing.assert_allclose(own.alpha, other.alpha, rtol=1e-14)  # as α at a bound is rounded
    np.testing.assert_array_equal(own.f, other.f)
    assert (own.promising is None) == (other.promising is None)
    if own.promising is not None:
        np.testing.assert_array_equal(own.promising, other.promising)


def test_the_bias_of_a_sample_is_not_that_of_two_wrong_labels(rng, monkeypatch):
    """The examples that the episode after a sample begins with violate their margin under the sample's own bias."""
    problem = make(rng, 2400, C=0.02)
    state, (rows, alpha, _), cap = after_sample(problem, int(rng.integers(2**32)), monkeypatch)
    assert state.narrow  # most vectors of the sample stand at their bounds
    y, beta = problem.y, np.zeros(problem.n)
    beta[rows] = y[rows] * alpha
    f = gram(problem) @ beta
    e, up, more, less = (y - f)[rows], y[rows] > 0.0, alpha < cap, alpha > 0.0
    bias = 0.5 * (e[np.where(up, more, less)].max() + e[np.where(up, less, more)].min())
    margins = y * (f + bias)
    left_out = np.setdiff1d(np.arange(problem.n), state.promising)
    assert margins[left_out].min(initial=np.inf) >= 1.1 - 1e-4
    others = np.setdiff1d(state.promising, rows[alpha > 0.0])
    assert margins[others].max(initial=-np.inf) <= 1.1 + 1e-4


@pytest.mark.parametrize(
    ("regression", "intercept", "cached"),
    [(False, "unregularized", 700), (True, "unregularized", 700), (False, "regularized", 60)],
)
def test_kernel_values_kept_from_the_last_round_change_no_bit(regression, intercept, cached, rng, monkeypatch):
    """Of black boxes, whose K(v, w) and K(w, v) may differ in a bit, none are kept; so can it be with any kernel."""
    problem = make(rng, 700, regression=regression, intercept=intercept, C=20.0, cache_bytes=4 * 700 * cached)
    seed, choose = int(rng.integers(2**32)), SMO._kept

    def fitted(**rule):
        used = []

        def watched(self, *arguments):
            kept = choose(self, *arguments)
            used.append(kept.space.begun[smo.KNOWN])
            kept.rule = kept.rule._replace(**rule)
            return kept

        monkeypatch.setattr(SMO, "_kept", watched)
        solver = SMO(working_set=48)
        state = solver.init(problem, np.random.default_rng(seed))
        for _ in range(40):
            solver.advance(problem, state, 1)
        solver.finish(problem, state)
        return (state.alpha, state.f, state.counters.visits), max(used)

    (first, most), (second, none) = fitted(), fitted(symmetric=False)
    assert most > 0 >= none
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("room", [40, 400])
def test_free_variables_stay_while_there_is_room(room, rng, monkeypatch, tmp_path):
    """However many they are, and new ones are a seventh of them. A state that was saved and loaded goes on alike."""
    problem = make(rng, 400, regression=True, C=30.0, kernel=RBF(10.0))
    monkeypatch.setattr(smo, "SET_SHARE", 4.01 * room**2 / problem.cache_bytes)
    solver, seed = SMO(working_set=8, tol=1e-9), int(rng.integers(2**32))
    state, copy = (solver.init(problem, np.random.default_rng(seed)) for _ in range(2))
    sizes, stayed, new = [], 0, 0
    for _ in range(60):
        free = state.episode.previous[state.episode.previous >= 0] if state.episode else np.empty(0, int)
        solver.advance(problem, state, 1)
        kept = smo.Workspace.of(problem, state).kept
        if kept is None:  # the episode is at its end
            break
        assert kept.rule.room == room
        chosen = kept.space.chosen[: state.episode.previous.size]
        sizes.append(chosen.size)
        assert np.unique(chosen).size == chosen.size <= min(room, kept.space.K.shape[0])
        if free.size + max(kept.rule.most, free.size // 7) <= room:
            assert np.isin(free, chosen).all()
            stayed, coming = max(stayed, free.size), chosen.size - free.size
            assert coming <= max(kept.rule.most, free.size // 7)
            new = max(new, coming)
        else:  # as many as leave room for new ones
            most = max(kept.rule.most, min(free.size, room) // 7)
            assert np.isin(free, chosen).sum() >= room - most
        solver.advance(problem, copy, 1)
        save_state(tmp_path / "state.npz", copy)
        copy = load_state(tmp_path / "state.npz")
        assert state.episode.alpha.tobytes() == copy.episode.alpha.tobytes()
    assert max(sizes) > 0.9 * room if room == 40 else stayed > 100 and new > 10


def test_who_wants_good_points_early_has_small_working_sets_until_the_gap_is_small(rng):
    """And comes to the same optimum."""
    problem = make(rng, 400, regression=True, C=3.0, kernel=RBF(10.0))
    solver = SMO(working_set=8, tol=1e-6, early=True)
    state, excess, far, near = solver.init(problem, rng), None, [], []
    while state.episode or solver.certificate(problem, state).relative_gap > 1e-6:
        solver.advance(problem, state, 1)
        kept = smo.Workspace.of(problem, state).kept
        if kept is None:  # the episode is at its end
            excess = None
            continue
        if excess is not None and abs(excess) > 1e-9:
            (far if excess > 0.0 else near).append(state.episode.previous.size)
        sigma, h, cap, row, alpha, f = kept.part[:6]
        e = h - f[row]
        rises, falls = np.where(sigma > 0, alpha < cap, alpha > 0), np.where(sigma > 0, alpha > 0, alpha < cap)
        s = sigma * (e - 0.5 * (e[rises].max() + e[falls].min()))
        excess = cap @ np.maximum(s, 0.0) - alpha @ s - 0.03 * abs((sigma * alpha) @ (h - 0.5 * f[row]))
    assert max(far) <= 16
    assert max(near) > 50


@given(st.integers(0, 2**32 - 1), st.integers(1, 90), st.lists(st.integers(1, 90), max_size=4))
@settings(max_examples=100)
def test_kernel_values_of_a_working_set_are_kept_when_it_is_given_more_room(seed, room, needs):
    rng = np.random.default_rng(seed)
    memory = np.full(room * smo.apart_by(room), np.nan, np.float32)
    rule = SimpleNamespace(room=room)
    kept = smo.Kept(None, None, None, rule, smo.Space.of(room, room, 1), memory)
    kept.space.begun[smo.KNOWN] = 7.0
    known = np.empty((0, 0), np.float32)
    for needed in sorted({min(needed, room) for needed in needs}):
        if needed <= kept.space.K.shape[0]:
            continue
        kept.make_room(needed)
        size = known.shape[0]
        assert needed <= kept.space.K.shape[0] <= room
        assert np.shares_memory(kept.space.K, memory)
        np.testing.assert_array_equal(kept.space.K[:size, :size], known)
        assert kept.space.begun[smo.KNOWN] == 7.0
        kept.space.K[:] = np.nan
        known = rng.random((kept.space.K.shape[0],) * 2, np.float32)
        kept.space.K[:, : known.shape[0]] = known


def test_there_is_room_for_all_places_of_the_working_set_before(rng):
    """Of a state that was loaded, where most of them are empty."""
    problem = make(rng, 400)
    solver = SMO(working_set=8)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 3)
    state.drop_workspace()
    state.episode.previous = np.concatenate([np.full(101, -1), state.episode.previous])
    solver.advance(problem, state, 1)
    assert smo.Workspace.of(problem, state).kept.space.K.shape[0] > 101


def test_kernel_values_that_an_interrupt_left_half_way_count_as_unknown():
    space = smo.Space.of(90, 90, 1)
    space.begun[smo.KNOWN] = 40.0
    kept = smo.Kept(None, None, None, SimpleNamespace(room=90), space, np.zeros(90 * smo.apart_by(90), np.float32))
    kept.make_room(40)
    kept.memory.flags.writeable = False  # stands for whatever happens on the way
    with pytest.raises(ValueError, match="read-only"):
        kept.make_room(90)
    assert kept.space.begun[smo.KNOWN] == -1.0


def space_of(variables, largest):
    """Working space with room for kernel values between as many variables as it can have."""
    return smo.Space.of(variables, largest, 1)._replace(K=np.empty((largest, largest + 3), np.float32))


@compiled
def gather(rows, slot_of, columns, fresh, constant, K, start, end):
    smo.gather(rows, slot_of, columns, fresh, constant, K, start, end)


@compiled
def list_rows(row, chosen, taken, columns, wanted):
    return smo.list_rows(row, chosen, taken, columns, wanted)


@pytest.mark.parametrize("all_fresh", [False, True])
def test_a_thread_looks_up_the_values_of_its_own_variables_only(all_fresh, rng):
    values = rng.random((12, 12), np.float32)
    values += values.T
    fresh, K = np.arange(12) if all_fresh else np.array([1, 4, 5, 8, 11]), np.full((12, 12), np.nan, np.float32)
    gather(values, np.arange(12), np.arange(12), fresh, np.float32(0.0), K, 1, 3)
    own = np.isin(np.arange(12), fresh[1:3])
    own = own[:, None] | own
    if all_fresh:  # up to the diagonal, and what mirrors it
        at = np.arange(12)
        own &= np.maximum(at[:, None], at) < 3
    np.testing.assert_array_equal(K, np.where(own, values, np.nan))


def test_a_row_of_two_variables_is_wanted_once():
    row, wanted, columns = np.array([3, 1, 3, 0, 1]), np.full(5, -1), np.full(5, -1)
    assert list_rows(row, np.arange(5), np.ones(5, np.bool_), columns, wanted) == 3
    assert wanted.tolist() == [3, 1, 0, -1, -1]
    assert columns.tolist() == row.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.floats(0, 1), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_kernel_values_of_fresh_variables_are_looked_up_by_however_many_threads(seed, size, share, threads):
    """Rows and columns of those that are fresh, with the constant, and nothing else."""
    rng = np.random.default_rng(seed)
    values = rng.random((90, 90), np.float32)
    values += values.T
    row = rng.integers(90, size=size)  # two variables may have one row
    space, fresh = space_of(90, 60), np.flatnonzero(rng.random(size) < share)
    order = rng.permutation(90)
    cache = SimpleNamespace(rows=values[order], slot_of=np.argsort(order), matrix=SimpleNamespace(threads=threads))
    space.K[:], space.columns[:size], space.fresh[: fresh.size] = np.nan, row, fresh
    space.begun[[smo.SIZE, smo.FRESH]] = size, fresh.size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smo, "WORTH_A_LOOK", 1)
        smo.gather_shared(cache, SimpleNamespace(constant=0.25), space)
    touched = np.isin(np.arange(size), fresh)
    touched = touched[:, None] | touched
    expected = np.where(touched, values[np.ix_(row, row)] + np.float32(0.25), np.nan)
    np.testing.assert_array_equal(space.K[:size, :size], expected)
    assert np.isnan(space.K[size:]).all()
    assert space.begun[smo.FRESH] == 0.0


@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.booleans())
@settings(max_examples=200)
def test_variables_that_stay_keep_their_kernel_values_and_the_others_are_fresh(seed, before, count, most, known):
    """Through any round: who is in the next working set, once each, and which kernel values have to be looked up."""
    rng, largest = np.random.default_rng(seed), max(before, most + count) if known else most + count
    values = rng.normal(size=(30, 30)).astype(np.float32)
    previous = np.where(rng.random(before) < 0.6, rng.permutation(30)[:before], -1)
    picked = rng.permutation(30)[:count]
    space = space_of(30, largest)
    space.K[:] = np.nan
    held = previous[:largest]  # a state may come from where there was more room
    space.K[: held.size, : held.size] = values[np.ix_(held, held)]
    space.picked[:count], space.taken[picked] = picked, True
    space.begun[smo.KNOWN] = before if known else -1
    size, fresh = smo.seat(space, previous, most, count)
    chosen, stay = space.chosen[:size], held[held >= 0][:most]
    assert sorted(chosen) == sorted({*picked, *stay})
    new = space.fresh[:fresh]
    if not known and before:
        assert sorted(new) == list(range(size))
        return
    assert sorted(chosen[new]) == sorted({*picked} - {*stay})
    old = np.setdiff1d(np.arange(size), new)
    np.testing.assert_array_equal(space.K[np.ix_(old, old)], values[np.ix_(chosen[old], chosen[old])])
