"""SDCA: the textbook's iterates, a true gap, optimality, exact counters, and the laws of states."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC as RivalSVC

from reference import sdca as textbook
from reference.pegasos import scalar_values, separate
from widemargin import SDCA, LinearSVC, LinearSVR
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_matrix, as_rows
from widemargin.problems.linear import Problem
from widemargin.running import load_state, run, save_state
from widemargin.solvers import sdca
from widemargin.solvers.sdca import dual_step

LOSSES = [
    losses.Hinge(),
    losses.SquaredHinge(),
    losses.Log(),
    losses.EpsilonInsensitive(0.2),
    losses.SquaredEpsilon(0.2),
    losses.Huberized(0.5),
    losses.HuberizedEpsilon(0.2, 0.5),
]
PLAIN = SDCA(shrinking=False, lag=False)
by_name = {"ids": lambda loss: type(loss).__name__}


def drawn(
    rng, loss, sparse=False, n=120, d=5, intercept="none", C=1.0, weighted=False, classes=2, density=0.7, dtype=float
):
    """A noisy problem with some structure; more than two classes are one-vs-rest."""
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < density)).astype(dtype)
    t = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n)
    target, outputs = losses.Single(loss), 1
    if not isinstance(loss, textbook.TUBES):
        t = np.digitize(t, np.quantile(t, np.arange(1, classes) / classes)).astype(float)
        if classes > 2:
            target, outputs = losses.OneVsRest(loss, rng.uniform(0.5, 2.0, classes)), classes
        else:
            t = 2.0 * t - 1.0
    s = rng.uniform(0.2, 2.0, n) * (rng.random(n) < 0.9) if weighted else np.empty(0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    return Problem(rows, t, target, 1.0 / (C * n), s, intercept, outputs)


def extended(problem):
    """(X with the constant feature, labels and caps of each output), in float64."""
    X = as_matrix(problem.X)
    X = np.asarray(X.toarray() if sp.issparse(X) else X, float)
    if problem.intercept == "regularized":
        X = np.column_stack([X, np.ones(problem.n)])
    labels, weights = separate(problem.target, problem.y, problem.n_outputs)
    s = problem.sample_weight if problem.sample_weight.size else np.ones(problem.n)
    return X, labels, problem.C * s[:, None] * weights


def started(solver, problem, seed=0, **more):
    return solver.init(problem, np.random.default_rng(seed), **more)


def one_visit(solver, problem, state):
    """Make a visit and tell whose it was."""
    solver.advance(problem, state, 1)
    return int(state.order[state.position - 1])


# ---------------------------------------------------------------- the textbook's iterates


@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize(
    ("loss", "sparse", "dtype", "classes"),
    [
        *((loss, sparse, float, 2) for loss in LOSSES for sparse in (False, True)),
        (losses.Hinge(), True, float, 3),
        (losses.Log(), False, float, 3),
        (losses.Hinge(), False, np.float32, 2),
    ],
)
def test_iterates_are_those_of_the_textbook(loss, intercept, sparse, dtype, classes, rng):
    problem = drawn(rng, loss, sparse, 25, 4, intercept, weighted=True, classes=classes, dtype=dtype)
    X, labels, caps = extended(problem)
    state, visits, ours = started(PLAIN, problem), [], []
    for _ in range(4 * problem.n):
        visits.append(one_visit(PLAIN, problem, state))
        ours.append((state.alpha.copy(), np.vstack([state.w.W, state.w.b])))
    for start in range(0, len(visits), problem.n):
        np.testing.assert_array_equal(np.sort(visits[start : start + problem.n]), np.arange(problem.n))
    for c in range(problem.n_outputs):
        theirs = textbook.sdca(losses.scalar_loss(problem.target), X, labels[:, c], caps[:, c], visits)
        for (alpha, W), (their_alpha, their_w) in zip(ours, theirs, strict=True):
            # both find the maximum to some 1e-14, and a step passes an error on by at most a few times itself
            close = {"rtol": 0.0, "atol": 1e-9 * (1.0 + np.abs(their_alpha).max())}
            np.testing.assert_allclose(alpha[:, c], their_alpha, **close)
            np.testing.assert_allclose(W[: X.shape[1], c], their_w, **close)


@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_a_step_is_the_maximum_in_its_coordinate(loss, rng):
    """Also from far away, where Newton's method for the log-loss would swing from end to end."""
    for _ in range(500):
        cap, q, z = rng.uniform(0.05, 4.0), rng.exponential(4.0) + 1e-3, rng.normal() * rng.choice([0.1, 1.0, 6.0])
        y = rng.normal() if isinstance(loss, textbook.TUBES) else rng.choice([-1.0, 1.0])
        a = np.copysign(cap, y) * rng.choice([0.0, 1e-3, rng.random()])
        expected = textbook.maximum(loss, a, z, y, q, cap)
        assert dual_step(loss, a, z, y, q, cap) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_averaged_weights_are_the_mean_of_those_at_every_eighth_visit(rng):
    """Of rows with a common direction: what is late in it belongs to the weights."""
    problem = drawn(rng, losses.Hinge(), n=120, d=5, intercept="regularized", C=100.0, density=1.0)
    problem = replace(problem, X=as_rows(problem.X.values + 5.0))
    solver = SDCA()
    state, seen = solver.init(problem, rng), []
    for visit in range(1, 81):
        solver.advance(problem, state, 1)
        if visit % 8 == 0:
            late = state.theta * (state.w.v - state.w.r)
            seen.append(np.append(state.w.W + state.U * late, state.w.b + state.along * late))
    assert state.theta > 0.0
    W, b = solver.weights(problem, state)
    np.testing.assert_allclose(np.append(W, b), np.mean(seen, axis=0), rtol=1e-9, atol=1e-9)
    assert np.abs(late).max() > 1e-6 * np.abs(W).max()


@pytest.mark.parametrize("loss", LOSSES, **by_name)
@pytest.mark.parametrize("intercept", ["none", "regularized"])
def test_the_dual_falls_at_no_visit_of_plain_ascent(loss, intercept, rng):
    problem = drawn(rng, loss, n=40, intercept=intercept, weighted=True, C=5.0)
    X, labels, caps = extended(problem)
    state, previous = started(PLAIN, problem), -np.inf
    for _ in range(6 * problem.n):
        one_visit(PLAIN, problem, state)
        value = textbook.dual(loss, X, labels[:, 0], caps[:, 0], state.alpha[:, 0])
        assert value >= previous - 1e-12 * (1.0 + abs(value))
        previous = value
    assert PLAIN.certificate(problem, state).dual == pytest.approx(problem.lam * value, rel=1e-10)


# ---------------------------------------------------------------- gap and optimality

small = st.fixed_dictionaries(
    {
        "loss": st.sampled_from(LOSSES),
        "sparse": st.booleans(),
        "n": st.integers(3, 40),
        "d": st.integers(2, 60),
        "intercept": st.sampled_from(["none", "regularized"]),
        "C": st.sampled_from([0.01, 1.0, 20.0]),
        "weighted": st.booleans(),
    }
)


@given(small, st.integers(0, 2**32 - 1), st.integers(0, 500), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_the_gap_bounds_the_suboptimality_at_any_visit(how, seed, visits, shrinking, lag):
    rng = np.random.default_rng(seed)
    problem, solver = drawn(rng, **how), SDCA(shrinking, lag)
    state = started(solver, problem)
    solver.advance(problem, state, visits)
    primal, dual, gap = solver.certificate(problem, state)
    best = PLAIN.certificate(problem, run(PLAIN, problem, rng=rng, max_epochs=200, tol=1e-9).state)
    rounding = 1e-12 * (1.0 + abs(primal))
    assert gap == primal - dual
    assert gap >= -rounding
    assert gap >= primal - best.primal - rounding
    assert dual <= best.primal + rounding
    assert best.dual <= primal + rounding
    assert dual <= problem.primal(rng.normal(size=(problem.d, 1)), np.zeros(1)) + rounding


@pytest.mark.parametrize("loss", LOSSES, **by_name)
@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_karush_kuhn_tucker_conditions_hold_at_the_end(loss, intercept, sparse, rng):
    """gap/λ = Σ (cap ℓ(z) + cap ℓ*(−α/cap) + αz) + ½‖w − w(α)‖², and each term is zero where (z, α) is optimal only."""
    problem, tol = drawn(rng, loss, sparse, 80, intercept=intercept, weighted=True, C=2.0), 1e-7
    # one drawn problem in some hundreds takes 20,000 to 100,000 epochs
    outcome = run(SDCA(), problem, rng=rng, max_epochs=10**6, tol=tol)
    assert outcome.stop_reason == "tol"
    X, labels, caps = extended(problem)
    y, cap, a = labels[:, 0], caps[:, 0], outcome.state.alpha[:, 0]
    w = np.append(outcome.W[:, 0], outcome.b)[: X.shape[1]]
    used = cap > 0.0
    assert not a[~used].any()
    z = X @ w
    charges = np.array([textbook.charge(loss, *of)[0] for of in zip(a[used], y[used], cap[used])])
    terms = cap[used] * scalar_values(loss, z[used], y[used]) + charges + a[used] * z[used]
    rounding = 1e-12 * (1.0 + cap.sum() * np.abs(z).max())
    gap = SDCA().certificate(problem, outcome.state).gap / problem.lam
    assert terms.min() >= -rounding
    assert gap == pytest.approx(terms.sum() + 0.5 * np.sum((w - a @ X) ** 2), abs=100 * rounding)
    assert terms.max() <= tol * outcome.objective / problem.lam + rounding
    if isinstance(loss, losses.Hinge):  # the same in the usual words
        bound = tol * outcome.objective / problem.lam + rounding
        slack = 1.0 - y * z
        assert np.all((y * a >= 0.0) & (y * a <= cap))
        assert ((cap - y * a) * np.maximum(slack, 0.0)).max() <= bound
        assert (y * a * np.maximum(-slack, 0.0)).max() <= bound


@pytest.mark.parametrize("sparse", [False, True])
def test_the_hinge_has_the_optimum_of_liblinear(sparse, rng):
    problem = drawn(rng, losses.Hinge(), sparse, intercept="regularized")
    outcome = run(SDCA(), problem, rng=rng, max_epochs=2000, tol=1e-6)
    assert outcome.stop_reason == "tol"
    rival = RivalSVC(loss="hinge", tol=1e-10, max_iter=10**6).fit(as_matrix(problem.X), problem.y)
    theirs = problem.primal(rival.coef_.T, rival.intercept_)
    # ours is within its gap of the optimum, and so is not above theirs by more
    assert outcome.objective <= theirs * (1 + 1e-6)
    assert SDCA().certificate(problem, outcome.state).dual <= theirs * (1 + 1e-9)


def test_the_log_loss_has_the_optimum_of_logistic_regression(rng):
    problem = drawn(rng, losses.Log())
    outcome = run(SDCA(), problem, rng=rng, max_epochs=2000, tol=1e-6)
    rival = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10**5).fit(as_matrix(problem.X), problem.y)
    assert outcome.objective <= problem.primal(rival.coef_.T, np.zeros(1)) * (1 + 1e-6)


# ---------------------------------------------------------------- counters, states


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("solver", [PLAIN, SDCA()], ids=["plain", "default"])
def test_counters_are_exact(sparse, solver, rng):
    problem = drawn(rng, losses.Hinge(), sparse, 50, classes=3, intercept="regularized", C=10.0)
    X = as_matrix(problem.X)
    sizes = np.diff(X.indptr) if sparse else np.full(problem.n, problem.d)
    state = started(solver, problem)
    # the common direction reads all rows twice: for their mean, and for their products with it
    reads, updates = 2 * int(sizes.sum()) * solver.lag, 0
    assert state.counters.feature_reads == reads
    for visits in range(1, 400):
        before = state.alpha.copy()
        i = one_visit(solver, problem, state)
        reads += int(sizes[i])
        updates += bool((state.alpha != before).any())
        np.testing.assert_array_equal(np.delete(state.alpha, i, 0), np.delete(before, i, 0))
        assert (state.counters.steps, state.counters.visits) == (visits, visits)
        assert (state.counters.updates, state.counters.feature_reads) == (updates, reads)
    solver.certificate(problem, state)  # no part of the training
    assert state.counters.feature_reads == reads


def test_an_idle_example_rests_for_1_3_7_passes(rng):
    """Shrinking: the rest grows with each idle visit, ends with a change, and nobody is left out for good."""
    problem, solver = drawn(rng, losses.Hinge(), n=60), SDCA(lag=False)
    state, idle, due = started(solver, problem), np.zeros(60, int), np.zeros(60, int)
    for _ in range(3000):
        now = state.passes
        before = state.alpha.copy()
        i = one_visit(solver, problem, state)
        assert now >= due[i]
        idle[i] = 0 if state.alpha[i] != before[i] else min(2 * idle[i] + 1, 31)
        # passes that nobody visits are not counted, so a rest may seem shorter, never longer
        due[i] = 0 if not idle[i] else now + 1
        assert state.examples.rest[i] == idle[i]
    assert idle.max() == 31


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("cut", [1, 37, 333])
def test_steps_can_be_cut_anywhere_and_a_state_goes_on_from_disk(classes, cut, rng, tmp_path):
    problem = drawn(rng, losses.Hinge(), True, intercept="regularized", classes=classes)
    solver, seed = SDCA(), int(rng.integers(2**32))
    whole, part = started(solver, problem, seed), started(solver, problem, seed)
    solver.advance(problem, whole, 1000)
    solver.advance(problem, part, cut)
    save_state(tmp_path / "sdca.npz", part)
    part = load_state(tmp_path / "sdca.npz")
    solver.advance(problem, part, 1000 - cut)
    np.testing.assert_array_equal(part.alpha, whole.alpha)
    for ours, theirs in zip(solver.weights(problem, part), solver.weights(problem, whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert part.counters == whole.counters


def test_the_number_of_jobs_changes_nothing(rng):
    problem = drawn(rng, losses.Hinge(), True, n=60, d=150, density=0.1)
    one, two = (run(SDCA(n_jobs=jobs), problem, rng=np.random.default_rng(0), max_epochs=5) for jobs in (1, 2))
    np.testing.assert_array_equal(one.W, two.W)


def test_looks_at_the_dual_become_rarer_while_it_grows_and_frequent_when_it_fell(rng):
    problem, solver = drawn(rng, losses.Hinge()), SDCA()
    state = solver.init(problem, np.random.default_rng(0))
    state.theta, last = 0.95, 0
    most = max(problem.n, int(sdca.UNLOOKED / (problem.mean_entries * problem.n_outputs)))
    for k in range(1, 30):
        state.dual[:], state.checked = -np.inf, state.counters.visits - solver._unlooked(problem, state)
        solver._look(problem, state)
        assert solver._unlooked(problem, state) == min(2**k * problem.n, most) >= last
        last = solver._unlooked(problem, state)
    solver.bind(replace(problem, lam=2.0 * problem.lam), state)  # of which nothing is known
    assert solver._unlooked(problem, state) == problem.n
    state.theta, state.unlooked, state.dual[:], state.checked = 0.95, last, 1e9, state.counters.visits - last
    solver._look(problem, state)
    assert solver._unlooked(problem, state) == problem.n


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge()], ids=["hinge", "squared"])
def test_a_few_rows_of_very_different_sizes_do_not_diverge(loss, rng):
    """Late answers may let D fall on such data, which is seen before it has fallen far."""
    for _ in range(10):
        n, d = int(rng.integers(30, 200)), int(rng.integers(1, 6))
        X = rng.normal(size=(n, d)) * np.exp(2.0 * rng.normal(size=(n, 1)))
        y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
        problem = Problem(as_rows(X), y, losses.Single(loss), 1.0 / n)
        outcome = run(SDCA(), problem, rng=rng, max_epochs=2000, tol=1e-3)
        assert outcome.objective <= problem.at_zero()[0]
        assert 0.0 < outcome.dual <= outcome.objective * (1.0 + 1e-9)


def test_the_dual_value_that_is_looked_at_has_the_multiplier_of_a_free_intercept(rng):
    """D/λ = Σ yα − ½‖Σ αx‖² − b₀Σα − ½κ²(Σα)², at any b₀."""
    X, y = rng.normal(size=(30, 3)), rng.choice([-1.0, 1.0], 30)
    problem, solver = Problem(as_rows(X), y, losses.Single(losses.Hinge()), 0.1, intercept="unregularized"), SDCA()
    state = solver.init(problem, rng)
    state.alpha[:, 0], state.base[:] = y * problem.C * rng.random(30), rng.normal()
    for _ in range(2):
        W, b, _ = solver._combined(problem, state)
        total = state.alpha.sum()
        found = solver._dual(problem, state.alpha, W, solver._charge(state, b))
        quadratic = np.sum(W**2) + state.constant * total**2
        np.testing.assert_allclose(found, y @ state.alpha[:, 0] - 0.5 * quadratic - state.base * total, rtol=1e-10)
        state.base[:] = b


# ---------------------------------------------------------------- degenerate problems


@pytest.mark.parametrize("loss", LOSSES, **by_name)
@pytest.mark.parametrize("C", [1e-8, 1e8])
@pytest.mark.parametrize("intercept", ["none", "regularized"])
def test_degenerate_problems_end_with_a_true_gap(loss, C, intercept, rng):
    problem = drawn(rng, loss, n=30, intercept=intercept, weighted=True)
    X = as_matrix(problem.X).copy()
    X[:3] = 0.0  # rows of zeros
    X[3:6] = X[6:9]  # the same row with opposite labels
    problem.y[3:6] = -problem.y[6:9]
    problem = Problem(as_rows(X), problem.y, problem.target, 1.0 / (C * 30), problem.sample_weight, intercept)
    for solver in (SDCA(), PLAIN):
        outcome = run(solver, problem, rng=rng, max_epochs=64, tol=1e-3)
        primal, dual, gap = solver.certificate(problem, outcome.state)
        assert np.isfinite([primal, dual]).all()
        assert gap >= -1e-9 * abs(primal)
        assert not outcome.state.alpha[problem.sample_weight == 0.0].any()
        if C < 1.0:  # hardly any coupling: a pass or two solve it
            assert outcome.stop_reason == "tol"
            assert primal <= problem.primal(np.zeros((problem.d, 1)), np.zeros(1)) * (1.0 + 1e-3)


def test_rows_of_zeros_alone_have_the_trivial_solution():
    problem = Problem(as_rows(np.zeros((5, 2))), np.ones(5), losses.Single(losses.Hinge()), 0.2)
    outcome = run(SDCA(), problem, rng=np.random.default_rng(0), max_epochs=4, tol=1e-9)
    assert outcome.stop_reason == "tol"
    assert not outcome.W.any()
    assert outcome.objective == 1.0


def test_what_it_cannot_do_is_refused_in_a_sentence(rng):
    problem = drawn(rng, losses.Hinge(), intercept="search")
    with pytest.raises(ValueError, match=r"'unregularized' and 'none', got 'search'"):
        started(SDCA(), problem)
    joint = Problem(as_rows(np.eye(3)), np.arange(3.0), losses.MulticlassLog(), 1.0, n_outputs=3)
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        started(SDCA(), joint)
    problem = drawn(rng, losses.Hinge())
    for n_jobs in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_jobs must be an integer ≥ 1"):
            started(SDCA(n_jobs=n_jobs), problem)
    with pytest.raises(TypeError, match="lag must be True or False"):
        started(SDCA(lag="no"), problem)
    with pytest.raises(ValueError, match=r"shape \(1, 120\)"):
        started(SDCA(), problem, duals=np.full(120, np.nan))
    with pytest.raises(ValueError, match="the same examples only"):
        SDCA().bind(drawn(rng, losses.Hinge(), n=121), started(SDCA(), problem))


# ---------------------------------------------------------------- warm starts


def visits_to(solver, problem, state, tol):
    since = state.counters.visits
    while solver.certificate(problem, state).relative_gap > tol:
        solver.advance(problem, state, problem.n // 4)
    return state.counters.visits - since


@pytest.mark.parametrize("solver", [PLAIN, SDCA()], ids=["plain", "default"])
@pytest.mark.parametrize("other", [0.7, 1.4])
def test_a_solution_is_a_head_start_for_another_c(solver, other):
    """One fixed problem: the claim is about typical ones."""
    rng, tol = np.random.default_rng(5), 1e-4
    near, problem = (drawn(np.random.default_rng(3), losses.Hinge(), n=200, C=C) for C in (1.0, other))
    state = solver.init(near, rng)
    visits_to(solver, near, state, tol)
    solver.bind(problem, state)
    assert np.all(np.abs(state.alpha) <= problem.C)
    warm = visits_to(solver, problem, state, tol)
    assert warm < visits_to(solver, problem, started(solver, problem), tol)


@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_a_start_from_any_alpha_is_feasible_and_certified(loss, rng):
    problem = drawn(rng, loss, intercept="regularized", weighted=True)
    state = started(SDCA(), problem, duals=rng.normal(size=problem.n) * 10.0)
    primal, dual, gap = SDCA().certificate(problem, state)
    assert np.isfinite([primal, dual]).all()
    assert gap >= 0.0


# ---------------------------------------------------------------- the estimators


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_svc_stops_at_a_proven_gap(classes, rng):
    X = rng.normal(size=(150, 4))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=150), [0.0, 0.7][: classes - 1])
    model = LinearSVC(solver="sdca", tol=1e-4, max_iter=2000, random_state=0).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert -1e-12 <= model.certificate_.relative_gap <= 1e-4


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("sparse", [False, True])
def test_linear_svr_stops_at_a_proven_gap(loss, sparse, rng):
    X = rng.normal(size=(150, 4))
    y = X @ rng.normal(size=4) + 0.3 * rng.normal(size=150) + 2.0
    X = sp.csr_matrix(X) if sparse else X
    model = LinearSVR(solver="sdca", loss=loss, epsilon=0.1, tol=1e-4, max_iter=2000, random_state=0).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert -1e-12 <= model.certificate_.relative_gap <= 1e-4
    residuals = np.maximum(0.0, np.abs(model.predict(X) - y) - 0.1) ** (2 if loss.startswith("sq") else 1)
    norm2 = np.sum(model.coef_**2) + model.intercept_[0] ** 2
    assert model.certificate_.primal == pytest.approx(norm2 / (2 * 150) + residuals.mean(), rel=1e-10)


def test_a_fit_that_ends_before_its_tolerance_warns_with_the_gap(rng):
    X = rng.normal(size=(150, 4))
    y = X[:, 0] + rng.normal(size=150) > 0
    with pytest.warns(ConvergenceWarning, match="gap"):
        model = LinearSVC(solver="sdca", C=1e6, tol=1e-12, max_iter=2, random_state=0).fit(X, y)
    assert model.stop_reason_ == "max_iter"


def test_linear_svc_goes_on_from_its_dual_variables(rng):
    X = rng.normal(size=(150, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=150) > 0
    model = LinearSVC(solver="sdca", tol=0, max_iter=2, warm_start=True, random_state=0).fit(X, y)
    before = model.certificate_
    after = model.fit(X, y).certificate_
    assert after.dual <= before.primal
    assert before.dual <= after.primal
    assert model.history_.last("epochs") == 4.0
    assert not hasattr(model, "partial_fit")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("most", [37, 13, 1])
def test_the_common_direction_is_that_of_the_mean_of_some_rows_at_equal_distances(most, sparse, rng, monkeypatch):
    monkeypatch.setattr(sdca, "MEAN_ROWS", most)
    problem = drawn(rng, losses.Hinge(), sparse, 37, 6, "regularized", C=50.0, density=0.4)
    X, step = as_matrix(problem.X), -(-37 // most)
    some = (X.toarray() if sparse else X)[::step]
    state = started(SDCA(), problem)
    direction = np.append(some.mean(axis=0), 1.0)
    np.testing.assert_allclose(np.append(state.U, state.along), direction / np.linalg.norm(direction), rtol=1e-12)
    assert state.counters.feature_reads == 2 * (np.count_nonzero(some) if sparse else some.size)


def test_a_single_class_is_refused(rng):
    with pytest.raises(ValueError, match="class"):
        LinearSVC(solver="sdca").fit(rng.normal(size=(10, 2)), np.ones(10))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("sparse", "d"), [(False, 5), (True, 5), (True, 150)])
def test_first_visits_find_lengths_and_products_with_the_common_direction(classes, sparse, d, rng):
    """Rows shorter and longer than those that are read in one loop."""
    problem = drawn(rng, losses.Hinge(), sparse, 200, d, "regularized", 50.0, classes=classes, density=1.0)
    X = problem.X.data.reshape(200, d) if sparse else problem.X.values
    X += 2.0  # far from the origin, so that there is such a direction
    state = SDCA().init(problem, rng)
    assert state.theta > 0.0
    SDCA().advance(problem, state, problem.n)
    np.testing.assert_allclose(state.examples.q, np.square(X).sum(axis=1) + 1.0, rtol=1e-12)
    np.testing.assert_allclose(state.examples.m, X @ state.U[:, 0] + state.along, rtol=1e-12)


@pytest.mark.parametrize(
    ("classes", "d", "expected"), [(2, 5, float), (3, 5, float), (2, 140_000, "f4"), (3, 140_000, float)]
)
def test_scores_of_certificates_come_from_float64_weights_but_for_very_many(classes, d, expected, rng, monkeypatch):
    problem, found = drawn(rng, losses.Hinge(), True, 20, d, classes=classes, density=0.01, dtype=np.float32), []
    state, measures = SDCA().init(problem, rng), sdca.measures
    monkeypatch.setattr(sdca, "measures", lambda *given: (found.append(given[3].dtype), measures(*given))[1])
    SDCA().certificate(problem, state)
    assert found == [np.dtype(expected)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_certificate_of_rounded_weights_is_that_of_the_dual_variables(dtype, rng, monkeypatch):
    X = sp.random(60, 140_000, density=2e-4, format="csr", random_state=rng, dtype=np.float64)  # w in the data's dtype
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    target = losses.Single(losses.Hinge())
    problem = Problem(as_rows(X.astype(dtype)), y, target, 1 / 60, intercept="regularized")
    state = run(SDCA(), problem, rng=rng, max_epochs=3).state
    assert state.w.W.dtype == dtype
    quick = SDCA().certificate(problem, state)
    monkeypatch.setattr(sdca, "NEGLIGIBLE", -1.0)
    exact = SDCA().certificate(problem, state)
    assert quick.primal == exact.primal
    assert quick.dual == pytest.approx(exact.dual, rel=1e-9)
