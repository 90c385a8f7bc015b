"""SMO: the optimum of tiny problems by a general method, KKT conditions, certificates, laws of states and caches."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from reference import smo as textbook
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.kernels.cache import RowCache
from widemargin.core.kernels.kernels import RBF, Linear, Polynomial
from widemargin.core.losses.losses import EpsilonInsensitive, Hinge, Single, SquaredHinge
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import load_state, run, save_state
from widemargin.solvers.smo import rounds, smo
from widemargin.solvers.smo.dual import Variables, balance
from widemargin.solvers.smo.smo import SMO

solve_pairs, solve_singles = compiled(rounds.solve_pairs), compiled(rounds.solve_singles)

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

    def share(call, pieces):
        shared.append(len(pieces))
        calls.append(call)
        for piece in pieces[::-1]:
            call(*piece)

    def outcome(threads):
        problem = make(np.random.default_rng(seed), 4500, intercept=intercept, kernel=RBF(3.0), threads=threads)
        solver, rng = SMO(tol=1e-2, working_set=64, sample=1), np.random.default_rng(seed)
        return run(solver, problem, rng=rng, tol=1e-2, max_epochs=10000).state

    one = outcome(1)
    monkeypatch.setattr(smo, "FOR_THREADS", 1.0)
    monkeypatch.setattr(rounds, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(rounds, "WORTH_A_LOOK", 1)
    monkeypatch.setattr(rounds, "share", share)
    for threads, pieces in ((2, 2), (3, 3)):
        shared.clear()
        calls.clear()
        state = outcome(threads)
        assert max(shared) == pieces
        assert calls.count(rounds._gather_pieces) >= state.counters.steps
        assert state.alpha.tobytes() == one.alpha.tobytes()
        assert state.f.tobytes() == one.f.tobytes()
        assert state.counters == one.counters
    assert len(shared) > one.counters.steps // 2


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


def test_the_parameter_early_is_accepted_and_does_nothing():
    with pytest.warns(FutureWarning, match="early=True.* does nothing"):
        solver = SMO(early=True, tol=1e-4)
    assert solver == SMO(tol=1e-4)


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


def test_a_glimpse_of_a_sample_has_the_value_of_its_model(rng):
    problem = make(rng, 2100, C=5.0)
    solver, K = SMO(working_set=32), gram(problem)
    state = solver.init(problem, rng)
    for _ in range(3):
        solver.advance(problem, state, 1)
        assert state.episode.bound > 1.0
        measured, made = solver.glimpse(problem, state, np.inf)
        model, beta = made(), np.zeros(problem.n)
        beta[model.support] = model.coef[0]
        losses = np.maximum(0.0, 1.0 - problem.y * (K @ beta + model.intercept[0]))
        assert measured["objective"] == pytest.approx(0.5 * problem.lam * beta @ K @ beta + losses.mean(), rel=1e-6)


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
    from widemargin.solvers.smo import smo as module

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
        kept = smo.SMOWorkspace.of(problem, state).kept
        if kept is None:  # the episode is at its end
            break
        held, space = kept.cache.held, kept.space
        rows = space.wanted[: int(space.open.listed[0])]
        assert rows.size
        assert np.all(held.used[held.slot_of[rows]] == held.clock[0])


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
            used.append(int(kept.space.open.known[0]))
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
        kept = smo.SMOWorkspace.of(problem, state).kept
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


def test_there_is_room_for_all_places_of_the_working_set_before(rng):
    """Of a state that was loaded, where most of them are empty."""
    problem = make(rng, 400)
    solver = SMO(working_set=8)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 3)
    state.drop_workspace()
    state.episode.previous = np.concatenate([np.full(101, -1), state.episode.previous])
    solver.advance(problem, state, 1)
    assert smo.SMOWorkspace.of(problem, state).kept.space.K.shape[0] > 101
