"""Kernel Pegasos, SDCA and Perceptron against their textbook loops on the same visits."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.core.kernels.kernels import RBF, Linear
from widemargin.core.losses.losses import (
    EpsilonInsensitive,
    Hinge,
    Huberized,
    HuberizedEpsilon,
    Log,
    MulticlassLog,
    Single,
    SquaredEpsilon,
    SquaredHinge,
    conjugate,
    value,
)
from widemargin.core.rows.rows import as_rows
from widemargin.core.sampling.visits import LONGEST_REST
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.linear import Problem
from widemargin.running import load_state, run, save_state
from widemargin.solvers.sdca import SDCA
from widemargin.solvers.smo.smo import SMO
from widemargin.solvers.visits.pegasos import KernelPegasos
from widemargin.solvers.visits.perceptron import KernelPerceptron
from widemargin.solvers.visits.sdca import KernelSDCA

SOLVERS = [KernelPegasos, KernelSDCA, KernelPerceptron]
LOSSES = [
    Hinge(),
    SquaredHinge(),
    Log(),
    EpsilonInsensitive(0.2),
    SquaredEpsilon(0.2),
    Huberized(0.5),
    HuberizedEpsilon(0.2, 0.5),
]
KERNEL = RBF(0.5)
by_name = {"ids": lambda loss: type(loss).__name__}


def make(
    rng, n=60, *, loss=LOSSES[0], intercept="none", kernel=KERNEL, C=1.0, sparse=False, dtype=np.float64,
    weighted=False, **more,
):  # fmt: skip
    X = rng.normal(size=(n, 3)).astype(dtype)
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    if not loss.is_regression:
        y = np.where(y > 0, 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, n) if weighted else np.empty(0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return KernelProblem(kernel, rows, y, Single(loss), 1.0 / (C * n), weights, intercept, **more)


def gram(problem):
    """The kernel values the solver sees: float32, plus the constant."""
    everything = np.arange(problem.n)
    return problem.matrix(everything, everything).block(everything).astype(np.float64) + problem.constant


def recorded(solver, problem, rng, n_steps):
    """(final state, the examples visited, in order)."""
    visits = []
    original = solver._next_visits
    solver._next_visits = lambda state, most: visits.append(original(state, most).copy()) or visits[-1]
    state = solver.init(problem, rng)
    solver.advance(problem, state, n_steps)
    return state, np.concatenate(visits)


# ---------------------------------------------------------------- textbooks


def textbook_pegasos(K, y, s, lam, visits):
    """Fig. 3 of the Pegasos paper: α[i] counts how often i violated its margin under w_t = 1/(λ(t−1)) Σ αyΦ."""
    alpha = np.zeros(y.size)
    for t, i in enumerate(visits, start=1):
        score = (alpha * y) @ K[:, i] / (lam * (t - 1)) if t > 1 else 0.0
        if y[i] * score < 1.0:
            alpha[i] += s[i]
    return alpha


def textbook_sdca(K, y, caps, visits):
    """Maximise D over one coordinate at a time, exactly."""
    alpha = np.zeros(y.size)
    for i in visits:
        slope = 1.0 - y[i] * ((alpha * y) @ K[:, i])
        alpha[i] = np.clip(alpha[i] + slope / K[i, i], 0.0, caps[i])
    return alpha


def textbook_perceptron(K, y, s, visits):
    alpha = np.zeros(y.size)
    for i in visits:
        if y[i] * ((alpha * y) @ K[:, i]) <= 0.0:
            alpha[i] += s[i]
    return alpha


LAYOUTS = [(False, np.float64), (False, np.float32), (True, np.float64), (True, np.float32)]


@pytest.mark.parametrize(("sparse", "dtype"), LAYOUTS)
@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_equals_its_textbook_on_the_same_visits(solver, weighted, intercept, sparse, dtype, rng):
    problem = make(rng, intercept=intercept, sparse=sparse, dtype=dtype, weighted=weighted)
    state, visits = recorded(solver(), problem, rng, 150)
    K, y, caps = gram(problem), problem.y, problem.caps
    s = problem.sample_weight if weighted else np.ones(y.size)
    if solver is KernelPegasos:
        expected = textbook_pegasos(K, y, s, problem.lam, visits)
    elif solver is KernelSDCA:
        expected = textbook_sdca(K, y, caps, visits)
    else:
        expected = textbook_perceptron(K, y, s, visits)
    # same numbers, sums in another order: float64 rounding of 150 additions
    np.testing.assert_allclose(state.beta[0], y * expected, atol=1e-10)
    np.testing.assert_allclose(state.f, K @ (y * expected), atol=1e-10 * (1.0 + expected.sum()))


@pytest.mark.parametrize("intercept", ["none", "regularized"])
def test_sdca_converges_to_the_optimum_of_smo(intercept, rng):
    problem = make(rng, 150, intercept=intercept, weighted=True)
    sdca = run(KernelSDCA(), problem, rng=rng, tol=1e-5, max_epochs=100000)
    exact = run(SMO(tol=1e-6), problem, rng=rng, tol=1e-6, max_epochs=10000)
    assert sdca.stop_reason == "tol"
    # each is above the optimum by its gap at most
    assert sdca.objective == pytest.approx(exact.objective, rel=2e-5)


def test_pegasos_comes_near_the_optimum(rng):
    """After T steps the excess is O(log T/(λT)); T = 200 n and λ = 1/n leave (1 + ln T)/200, and a factor for luck."""
    problem = make(rng, 100)
    pegasos = run(KernelPegasos(), problem, rng=rng, max_epochs=200)
    exact = run(SMO(tol=1e-6), problem, rng=rng, tol=1e-6, max_epochs=10000)
    assert exact.objective * (1 - 1e-5) <= pegasos.objective
    assert pegasos.objective - exact.objective <= 2 * (1 + math.log(20000)) / 200


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("sampling", ["permutation", "iid"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_steps_may_be_taken_in_any_portions(solver, sampling, rng):
    seed, problem = int(rng.integers(2**32)), make(rng)
    states = [solver(sampling=sampling).init(problem, np.random.default_rng(seed)) for _ in range(2)]
    solver(sampling=sampling).advance(problem, states[0], 200)
    for portion in (1, 0, 70, 129):
        solver(sampling=sampling).advance(problem, states[1], portion)
    assert states[0].beta[0].tobytes() == states[1].beta[0].tobytes()
    assert states[0].f.tobytes() == states[1].f.tobytes()
    assert states[0].t == states[1].t == 200


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_saved_state_goes_on_bit_for_bit(solver, rng, tmp_path):
    problem = make(rng)
    state = solver().init(problem, rng)
    solver().advance(problem, state, 77)
    save_state(tmp_path / "state.npz", state)
    other = load_state(tmp_path / "state.npz")
    for each in (state, other):
        solver().advance(problem, each, 100)
    assert state.beta[0].tobytes() == other.beta[0].tobytes()
    assert state.f.tobytes() == other.f.tobytes()


@pytest.mark.parametrize("solver", SOLVERS)
def test_neither_cache_nor_threads_change_a_bit(solver, rng):
    seed = int(rng.integers(2**32))
    results = []
    for more in ({}, {"cache_bytes": 1.0}, {"threads": 2}):
        problem = make(np.random.default_rng(seed), 100, **more)
        state = solver().init(problem, np.random.default_rng(seed))
        solver().advance(problem, state, 300)
        results.append((state.beta[0].tobytes(), state.f.tobytes()))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("kernel", [RBF(0.5), Linear()])
@pytest.mark.parametrize("solver", SOLVERS)
def test_counters_are_exact(solver, kernel, rng, matrices):
    problem = make(rng, kernel=kernel)
    state, visits = recorded(solver(), problem, rng, 150)
    assert (state.counters.steps, state.counters.visits) == (150, 150) == (visits.size, state.t)
    if solver is not KernelSDCA:  # there every update adds one
        assert state.counters.updates == np.abs(state.beta).sum()
    assert state.counters.kernel_evals == state.counters.updates * problem.n
    assert state.counters.kernel_computed == sum(matrix.evaluations for matrix in matrices)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("intercept", ["none", "regularized"])
def test_certificates_keep_weak_duality(solver, intercept, rng):
    problem = make(rng, intercept=intercept, weighted=True, C=3.0)
    best = run(SMO(tol=1e-7), problem, rng=rng, tol=1e-7, max_epochs=10000).objective
    state, K = solver().init(problem, rng), gram(problem)
    for portion in (0, 1, 10, 100, 1000):
        solver().advance(problem, state, portion)
        primal, dual, gap = solver().certificate(problem, state)
        # best is within 1e-7 of the optimum, and values are float32 kernels'
        assert dual <= best * (1 + 1e-6)
        assert primal >= best * (1 - 1e-6)
        assert gap == pytest.approx(primal - dual)
        model = solver().model(problem, state)
        c = np.zeros(problem.n)
        c[model.support] = model.coef[0]
        f = K @ c
        expected = problem.lam * (0.5 * c @ f + problem.caps @ np.maximum(0.0, 1.0 - problem.y * f))
        assert primal == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_model_scores_as_the_state_does(solver, rng):
    problem = make(rng, intercept="regularized")
    state = solver().init(problem, rng)
    solver().advance(problem, state, 100)
    scores = solver().model(problem, state).decision_function(problem.X)[:, 0]
    # the model's kernel values are float64 here, the state's are float32
    f = state.f * (scores @ state.f) / max(state.f @ state.f, 1e-300)  # a multiple
    size = np.abs(solver().model(problem, state).coef).sum()
    np.testing.assert_allclose(scores, f, atol=1e-6 * size + 1e-12)
    if solver is not KernelSDCA:
        np.testing.assert_allclose(scores, solver().scale(problem, state) * state.f, atol=1e-6 * size + 1e-12)


def test_a_row_of_zeros_under_a_linear_kernel_goes_to_its_bound(rng):
    problem = make(rng, kernel=Linear())
    problem.X.values[3] = 0.0
    state = KernelSDCA().init(problem, rng)
    KernelSDCA().advance(problem, state, 2 * problem.n)
    assert state.beta[0][3] == problem.y[3] * problem.caps[3]


def test_what_the_solvers_cannot_solve_is_refused_in_a_sentence(rng):
    for solver in SOLVERS:
        with pytest.raises(ValueError, match=f"{solver.__name__} has no unregularised intercept: use intercept="):
            solver().init(make(rng, intercept="unregularized"), rng)
        with pytest.raises(ValueError, match="sampling must be 'permutation' or 'iid', got 'cyclic'"):
            solver(sampling="cyclic").init(make(rng), rng)
    for solver in (KernelPegasos, KernelPerceptron):
        with pytest.raises(
            ValueError, match=f"{solver.__name__} solves the hinge loss, got Log: use the solver 'sdca'"
        ):
            solver().init(make(rng, loss=Log()), rng)
    joint = replace(make(rng), target=MulticlassLog())
    with pytest.raises(
        ValueError, match="KernelSDCA solves the losses of one score that have a conjugate, got MulticlassLog"
    ):
        KernelSDCA().init(joint, rng)
    with pytest.raises(TypeError, match="shrinking must be True or False, got 'often'"):
        KernelSDCA(shrinking="often").init(make(rng), rng)
    for alpha in (np.zeros(3), np.full(60, np.nan)):
        with pytest.raises(ValueError, match=r"duals must be finite and of shape \(1, 60\), got the shape"):
            KernelSDCA().init(make(rng), rng, alpha)


# ---------------------------------------------------------------- SDCA for every loss


def solved(problem, rng, tol=1e-6, solver=None, alpha=None):
    """The outcome of a run to a relative gap."""
    solver = solver or KernelSDCA()
    state = solver.init(problem, rng, alpha)
    return run(solver, problem, state=state, rng=rng, tol=tol, max_epochs=1e6)


@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_every_loss_reaches_the_optimum_of_linear_sdca(loss, weighted, intercept, rng):
    problem = make(rng, 80, loss=loss, kernel=Linear(), intercept=intercept, weighted=weighted)
    same = Problem(problem.X, problem.y, problem.target, problem.lam, problem.sample_weight, intercept)
    ours = solved(problem, rng, 1e-5)
    linear = run(SDCA(), same, rng=rng, tol=1e-5, max_epochs=1e6)
    assert ours.stop_reason == linear.stop_reason == "tol"
    # each is above the optimum by its gap at most, and kernel values are float32
    assert ours.objective == pytest.approx(linear.objective, rel=3e-5)
    w = problem.X.values.T @ ours.state.beta[0]
    b = ours.state.beta[0].sum() if intercept == "regularized" else 0.0
    assert same.primal(w[:, None], np.array([b])) == pytest.approx(ours.objective, rel=1e-5)


@pytest.mark.parametrize("shrinking", [False, True])
@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_the_dual_never_falls_and_the_gap_is_above_the_suboptimality(loss, intercept, shrinking, rng):
    problem = make(rng, loss=loss, intercept=intercept, weighted=True, C=3.0)
    best = solved(problem, rng, 1e-7)
    solver, K, y, caps = KernelSDCA(shrinking=shrinking), gram(problem), problem.y, problem.caps
    state, before = solver.init(problem, rng), -math.inf
    for portion in (0, 1, 1, 7, 51, 60, 333, 1000):
        solver.advance(problem, state, portion)
        primal, dual, gap = solver.certificate(problem, state)
        rounding = 1e-9 * primal
        assert dual >= before - rounding
        assert gap >= -rounding
        # the optimum lies between the best known dual and primal values
        assert gap >= primal - best.objective - rounding
        assert dual <= best.objective + rounding
        a, f, before = state.beta[0], K @ state.beta[0], dual
        total = sum(c * value(loss, z, t) for c, z, t in zip(caps, f, y, strict=True))
        conjugates = sum(c * conjugate(loss, -v / c, t) for c, v, t in zip(caps, a, y, strict=True))
        own = problem.lam * (0.5 * a @ f + total)
        # the model is w(α) near the optimum, and elsewhere a multiple of it that is no worse
        assert primal <= own * (1.0 + 1e-9)
        if own - dual <= 0.05 * own:
            assert primal == pytest.approx(own, rel=1e-9)
        s = solver._point(problem, state)[0]
        total = sum(c * value(loss, s * z, t) for c, z, t in zip(caps, f, y, strict=True))
        assert primal == pytest.approx(problem.lam * (0.5 * s * s * a @ f + total), rel=1e-9)
        assert dual == pytest.approx(problem.lam * (-conjugates - 0.5 * a @ f), rel=1e-9, abs=rounding)


@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_a_visit_maximises_the_dual_over_its_example(loss, intercept, rng):
    problem, solver = make(rng, loss=loss, intercept=intercept, weighted=True), KernelSDCA()
    state = solver.init(problem, rng)
    for _ in range(20):
        solver.advance(problem, state, 7)
        i = state.order[state.position - 1]  # visited last
        dual, kept = solver.certificate(problem, state).dual, state.beta[0][i]
        row = gram(problem)[i]
        for move in rng.normal(size=8) * problem.caps[i] * 10.0 ** rng.uniform(-3, 0, 8):
            other = KernelSDCA().init(problem, rng)
            other.beta[0][:], other.f[:] = state.beta[0], state.f + move * row
            other.beta[0][i] = kept + move
            # a move out of the box has the dual value −∞
            assert solver.certificate(problem, other).dual <= dual + 1e-9 * abs(dual)


@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_a_start_at_the_optimum_ends_at_once(loss, intercept, rng):
    problem = make(rng, 80, loss=loss, intercept=intercept, weighted=True, cache_bytes=4.0 * 80 * 20)
    first = solved(problem, rng, 1e-7)
    fresh = replace(problem)
    state = KernelSDCA().init(fresh, rng, first.state.beta[0])
    np.testing.assert_allclose(state.beta[0], first.state.beta[0], rtol=1e-14)
    # rows of the support; the diagonal of this kernel is known
    assert state.counters.kernel_evals == 80 * np.count_nonzero(state.beta[0])
    np.testing.assert_allclose(state.f, gram(problem) @ state.beta[0], atol=1e-9 * (1.0 + np.abs(state.beta[0]).sum()))
    # the responses of the first run are sums of all its changes, these of one for each example
    assert KernelSDCA().certificate(fresh, state).relative_gap <= 1.01e-7
    # visits raise the dual, but the primal value may tremble
    again = run(KernelSDCA(), fresh, state=state, rng=rng, tol=1e-4, max_epochs=1000)
    assert (again.stop_reason, again.state.counters.visits) == ("tol", 80)


@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_a_start_out_of_the_box_is_clipped_into_it(loss, rng):
    problem = make(rng, loss=loss, weighted=True)
    problem.sample_weight[5] = 0.0
    state = KernelSDCA().init(problem, rng, 10.0 * rng.normal(size=problem.n))
    assert math.isfinite(KernelSDCA().certificate(problem, state).dual)
    assert state.beta[0][5] == 0.0


@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_an_example_of_weight_zero_is_as_absent(loss, rng):
    problem = make(rng, loss=loss, weighted=True)
    problem.sample_weight[:20] = 0.0
    kept = np.arange(20, 60)
    part = replace(problem.take(kept), lam=problem.lam * problem.n / kept.size)  # the same C
    ours, theirs = solved(problem, rng), solved(part, rng)
    assert not ours.state.beta[0][:20].any()
    assert problem.n * ours.objective == pytest.approx(kept.size * theirs.objective, rel=3e-6)


@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_every_loss_may_be_advanced_in_any_portions_with_any_cache(loss, rng, tmp_path):
    seed, results = int(rng.integers(2**32)), []
    for portions, cache in (([700], 1e6), ([1, 0, 300, 18, 381], 1e6), ([333, 367], 1.0)):
        problem = make(np.random.default_rng(seed), loss=loss, cache_bytes=cache)
        state = KernelSDCA().init(problem, np.random.default_rng(seed))
        for portion in portions:
            KernelSDCA().advance(problem, state, portion)
            save_state(tmp_path / "state.npz", state)
            state = load_state(tmp_path / "state.npz")
        assert state.t == state.counters.visits == 700
        arrays = (state.beta[0], state.f, state.order, state.rest, state.wait)
        results.append((*(array.tobytes() for array in arrays), state.awake, state.position, state.counters.updates))
    assert results[0] == results[1] == results[2]


def test_idle_examples_rest_ever_longer_and_are_visited_again(rng):
    problem = make(rng, 100, C=0.1)
    state, visits = recorded(KernelSDCA(), problem, rng, 20000)
    rested = np.flatnonzero(state.rest == LONGEST_REST)
    counts = np.bincount(visits, minlength=100)
    assert set(np.unique(state.rest)) <= {0, 1, 3, 7, 15, LONGEST_REST}
    assert (state.wait <= state.rest).all()
    # at this C most examples stand at a bound and their visits change nothing; who moves is visited in each pass
    assert rested.size > 0
    assert counts.min() > 0
    assert counts[rested].max() < counts.max() or rested.size == 100
    plain, visits = recorded(KernelSDCA(shrinking=False), problem, rng, 1000)
    assert (np.bincount(visits) == 10).all()
    assert plain.rest.size == plain.wait.size == 0


def test_rows_in_use_stay_in_the_cache(rng):
    """Least recently used: of two caches' worth of rows, those that the last visits used are held."""
    problem = make(rng, 64, cache_bytes=4.0 * 64 * 16)
    solver = KernelSDCA(shrinking=False)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 640)
    held = state.workspace[1].cache.held
    before, alpha = held.clock[0], state.beta[0].copy()
    solver.advance(problem, state, 1)
    i = state.order[state.position - 1]
    if state.beta[0][i] != alpha[i]:
        assert held.used[held.slot_of[i]] == held.clock[0] > before
    else:
        assert held.clock[0] == before
