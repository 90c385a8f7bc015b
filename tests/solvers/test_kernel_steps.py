"""Kernel Pegasos, SDCA and Perceptron against their textbook loops on the same visits."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.core.kernels import RBF, Linear
from widemargin.core.losses import EpsilonInsensitive, Hinge, Single
from widemargin.core.rows import as_rows
from widemargin.problem import KernelProblem
from widemargin.running import load_state, run, save_state
from widemargin.solvers.kernel_steps import KernelPegasos, KernelPerceptron, KernelSDCA, State
from widemargin.solvers.smo import SMO

SOLVERS = [KernelPegasos, KernelSDCA, KernelPerceptron]
KERNEL = RBF(0.5)


def make(rng, n=60, *, intercept="none", kernel=KERNEL, C=1.0, sparse=False, dtype=np.float64, weighted=False, **more):
    X = rng.normal(size=(n, 3)).astype(dtype)
    y = np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, n) if weighted else np.empty(0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return KernelProblem(kernel, rows, y, Single(Hinge()), 1.0 / (C * n), weights, intercept, **more)


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
    np.testing.assert_allclose(state.alpha, expected, atol=1e-10)
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
    assert states[0].alpha.tobytes() == states[1].alpha.tobytes()
    assert states[0].f.tobytes() == states[1].f.tobytes()
    assert states[0].t == states[1].t == 200


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_saved_state_goes_on_bit_for_bit(solver, rng, tmp_path):
    problem = make(rng)
    state = solver().init(problem, rng)
    solver().advance(problem, state, 77)
    save_state(tmp_path / "state.npz", state)
    other = load_state(tmp_path / "state.npz", State)
    for each in (state, other):
        solver().advance(problem, each, 100)
    assert state.alpha.tobytes() == other.alpha.tobytes()
    assert state.f.tobytes() == other.f.tobytes()


@pytest.mark.parametrize("solver", SOLVERS)
def test_neither_cache_nor_threads_change_a_bit(solver, rng):
    seed = int(rng.integers(2**32))
    results = []
    for more in ({}, {"cache_bytes": 1.0}, {"threads": 2}):
        problem = make(np.random.default_rng(seed), 100, **more)
        state = solver().init(problem, np.random.default_rng(seed))
        solver().advance(problem, state, 300)
        results.append((state.alpha.tobytes(), state.f.tobytes()))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("kernel", [RBF(0.5), Linear()])
@pytest.mark.parametrize("solver", SOLVERS)
def test_counters_are_exact(solver, kernel, rng, monkeypatch):
    made = []
    original = KernelProblem.matrix
    monkeypatch.setattr(KernelProblem, "matrix", lambda self, *sides: made.append(original(self, *sides)) or made[-1])
    problem = make(rng, kernel=kernel)
    state, visits = recorded(solver(), problem, rng, 150)
    assert (state.counters.steps, state.counters.visits) == (150, 150) == (visits.size, state.t)
    if solver is not KernelSDCA:  # there every update adds one
        assert state.counters.updates == state.alpha.sum()
    assert state.counters.kernel_evals == sum(matrix.evaluations for matrix in made)


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
        c = solver().scale(problem, state) * problem.y * state.alpha
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
    scale = solver().scale(problem, state)
    np.testing.assert_allclose(scores, scale * state.f, atol=1e-6 * scale * state.alpha.sum() + 1e-12)


def test_a_row_of_zeros_under_a_linear_kernel_goes_to_its_bound(rng):
    problem = make(rng, kernel=Linear())
    problem.X.values[3] = 0.0
    state = KernelSDCA().init(problem, rng)
    KernelSDCA().advance(problem, state, 2 * problem.n)
    assert state.alpha[3] == problem.caps[3]


def test_what_the_solvers_cannot_solve_is_refused_in_a_sentence(rng):
    for solver in SOLVERS:
        with pytest.raises(ValueError, match=f"{solver.__name__} has no unregularised intercept: use intercept="):
            solver().init(make(rng, intercept="unregularized"), rng)
        with pytest.raises(ValueError, match="sampling must be 'permutation' or 'iid', got 'cyclic'"):
            solver(sampling="cyclic").init(make(rng), rng)
        regression = make(rng)
        regression.target = Single(EpsilonInsensitive(0.1))
        with pytest.raises(ValueError, match=f"{solver.__name__} solves the hinge loss, got EpsilonInsensitive"):
            solver().init(regression, rng)
