"""What the Pegasos paper proves, as inequalities that hold for every seed; and weak duality of the certificates.

Where a bound is not attained no tolerance is needed but that of rounding.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from reference import pegasos as textbook
from widemargin.core.losses.losses import Hinge, OneVsRest, Single
from widemargin.core.rows.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.problems.objective import NO_WEIGHTS
from widemargin.solvers.pegasos import Pegasos

#: Sums of a few dozen numbers in double precision.
ROUNDING = 1e-10

#: The optimum's objective is known to 1e-11 or better, hence by strong convexity its w to √(2e-11/λ).
KNOWN = 1e-5

BOUNDED_SLOPES = ("hinge", "log", "epsilon", "ovr_hinge", "multiclass_hinge", "multiclass_log")


def drawn(name, rng, intercept="none", weighted=False, lam=None, stretch=1.0, **size):
    """(problem, facts): a small problem for a loss by name, and the same for the textbook."""
    X, y, target, outputs = textbook.small_data(name, rng, **size)
    if name in textbook.REGRESSION:
        y = stretch * y
    s = rng.uniform(0.2, 3.0, len(y)) if weighted else np.ones(len(y))
    lam = 10.0 ** rng.uniform(-2.0, 0.5) if lam is None else lam
    problem = Problem(as_rows(X), y, target, lam, s if weighted else NO_WEIGHTS, intercept, outputs)
    return problem, {"X": X, "y": y, "target": target, "lam": lam, "s": s, "intercept": intercept}


def steepest(facts):
    """max ‖sᵢ xᵢgᵢᵀ‖, the G of a sub-gradient of the loss: GR with G = 1, √2 for joint losses (they move two classes).

    Under a regularised intercept x ends in a 1.
    """
    target = facts["target"]
    if isinstance(target, OneVsRest):
        slope = math.sqrt(np.sum(np.maximum(target.positive_weight, 1.0) ** 2))
    else:
        slope = 1.0 if isinstance(target, Single) else math.sqrt(2.0)
    norms2 = np.sum(facts["X"] ** 2, axis=1) + (facts["intercept"] == "regularized")
    return slope * np.max(facts["s"] * np.sqrt(norms2))


def norms(W, b, intercept, joint):
    """‖w‖ of each output, or of all together."""
    norm2 = np.sum(W**2, axis=0) + (b**2 if intercept == "regularized" else 0.0)
    return np.sqrt(norm2.sum(keepdims=True) if joint else norm2)


def trajectory(problem, solver, seed, T):
    """(w_1, b_1) … (w_{T+1}, b_{T+1}) of the compiled loop, and the batches A_1 … A_T."""
    state = solver.init(problem, np.random.default_rng(seed))
    draw, batches = solver._next_visits, []

    def noted(*args):
        batches.append(draw(*args).copy())
        return batches[-1]

    solver._next_visits = noted
    iterates = [solver._weights(state, "none")]
    for _ in range(T):
        solver.advance(problem, state, 1)
        iterates.append(solver._weights(state, "none"))
    return iterates, batches


# ---------------------------------------------------------------- norms


@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
@pytest.mark.parametrize("name", textbook.LOSSES)
def test_projected_weights_stay_in_the_ball(name, intercept, rng):
    for step, k in (("pegasos", 1), ("pegasos", 5), ("norma", 1)):
        problem, _ = drawn(name, rng, intercept, weighted=k == 5)
        radius = problem.norm_bound(np.zeros(problem.n_outputs))
        solver = Pegasos(step, "none", "iid", k, projection=True)
        iterates, _ = trajectory(problem, solver, rng.integers(2**32), 60)
        for W, b in iterates:
            assert (norms(W, b, intercept, problem.is_joint) <= radius * (1.0 + ROUNDING)).all()


@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("name", BOUNDED_SLOPES)
def test_without_projection_weights_are_bounded_by_the_steepest_slope_over_lambda(name, intercept, rng):
    # Eq. (13): w_{t+1} is the mean of t sub-gradients of the loss, over λ
    for k in (1, 5):
        problem, facts = drawn(name, rng, intercept, weighted=k == 5)
        iterates, _ = trajectory(problem, Pegasos("pegasos", "none", "iid", k), rng.integers(2**32), 60)
        bound = steepest(facts) / problem.lam
        longest = max(np.linalg.norm(norms(W, b, intercept, True)) for W, b in iterates)
        assert 0.0 < longest <= bound * (1.0 + ROUNDING)


def test_the_bounds_on_the_norm_are_attained(rng):
    # one example with ‖x‖² = λ: w_2 = x/λ is R/λ long and the optimum lies on the sphere of radius 1/√λ
    lam = rng.uniform(0.01, 10.0)
    x = rng.normal(size=(1, 4))
    x *= math.sqrt(lam) / np.linalg.norm(x)
    problem = Problem(as_rows(x), np.ones(1), Single(Hinge()), lam)
    (_, (W, _)), _ = trajectory(problem, Pegasos("pegasos", "none"), 0, 1)
    assert np.linalg.norm(W) == pytest.approx(np.linalg.norm(x) / lam, rel=1e-12)
    assert problem.norm_bound(np.zeros(1))[0] == pytest.approx(1.0 / math.sqrt(lam), rel=1e-12)
    # the optimum is a multiple of x; a search without derivatives finds it to the root of the rounding of P
    best = minimize_scalar(lambda a: problem.primal(a * x.T, np.zeros(1)), bounds=(0.0, 3.0 / lam), method="bounded")
    assert best.x * math.sqrt(lam) == pytest.approx(1.0 / math.sqrt(lam), rel=KNOWN)


@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
@pytest.mark.parametrize("name", textbook.LOSSES)
def test_the_optimum_lies_in_the_ball(name, intercept, rng):
    # also for targets far from zero, where a radius of 1/√λ would be far too small
    for stretch in (1.0, 30.0):
        problem, facts = drawn(name, rng, intercept, weighted=True, stretch=stretch)
        W, b = textbook.optimum(outputs=problem.n_outputs, **facts)
        radius = problem.norm_bound(np.zeros(problem.n_outputs))
        longest = norms(W, b, intercept, problem.is_joint)
        assert (longest <= radius * (1.0 + KNOWN)).all()
        # even λ‖w*‖² ≤ P(0), for P is strongly convex: P(0) ≥ P(w*) + λ/2 ‖w*‖² ≥ λ‖w*‖²
        at_zero = problem.output_losses(np.zeros_like(W), np.zeros_like(b))[: longest.size]
        assert (problem.lam * longest**2 <= at_zero * (1.0 + 2.0 * KNOWN)).all()


@pytest.mark.parametrize("name", [name for name in textbook.LOSSES if not name.startswith("multiclass")])
def test_the_optimum_for_a_fixed_bias_lies_in_its_ball(name, rng):
    problem, facts = drawn(name, rng, "search", weighted=True)
    b = rng.normal(0.0, 3.0, problem.n_outputs)
    W, _ = textbook.optimum(outputs=problem.n_outputs, b=b, **{**facts, "intercept": "none"})
    assert (norms(W, b, "search", False) <= problem.norm_bound(b) * (1.0 + KNOWN)).all()


# ---------------------------------------------------------------- Theorem 1 and Corollary 1


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("name", BOUNDED_SLOPES)
def test_theorem_1_bounds_the_average_regret_of_the_instantaneous_objectives(name, intercept, projection, rng):
    drawn_and_solved = []
    for weighted in (False, True):
        problem, facts = drawn(name, rng, intercept, weighted)
        drawn_and_solved.append((problem, facts, textbook.optimum(outputs=problem.n_outputs, **facts)))
    for k, sampling in ((1, "iid"), (1, "permutation"), (5, "fixed"), (17, "iid")):
        problem, facts, best = drawn_and_solved[sampling == "permutation"]
        iterates, batches = trajectory(
            problem, Pegasos("pegasos", "none", sampling, k, projection), rng.integers(2**32), 80
        )
        R = steepest(facts)
        ball = textbook.radius(outputs=problem.n_outputs, **facts)
        # ‖∇_t‖ ≤ λ‖w_t‖ + R: (√λ + R)² for the hinge without weights, 4R² without projection
        c = (problem.lam * np.linalg.norm(ball) + R) ** 2 if projection else 4.0 * R**2
        if projection and name == "hinge" and sampling != "permutation":
            assert c == pytest.approx((math.sqrt(problem.lam) + R) ** 2, rel=1e-12)

        def instantaneous(W, b, A, facts=facts):
            rows = {name: facts[name][A] for name in ("X", "y", "s")}
            return textbook.objective(W=W, b=b, **{**facts, **rows})

        regrets = [instantaneous(*w, A) - instantaneous(*best, A) for w, A in zip(iterates[:-1], batches, strict=True)]
        for T in (3, 10, 80):
            assert np.mean(regrets[:T]) <= c * (1.0 + math.log(T)) / (2.0 * problem.lam * T) + ROUNDING


@pytest.mark.parametrize("projection", [False, True])
@pytest.mark.parametrize("name", BOUNDED_SLOPES)
def test_corollary_1_bounds_the_mean_of_the_iterates_of_full_batches(name, projection, rng):
    problem, facts = drawn(name, rng, "regularized")
    minimum = textbook.objective(
        **facts, **dict(zip("Wb", textbook.optimum(outputs=problem.n_outputs, **facts), strict=True))
    )
    R = steepest(facts)
    radius = np.linalg.norm(problem.norm_bound(np.zeros(problem.n_outputs))[: 1 if problem.is_joint else None])
    c = (problem.lam * radius + R) ** 2 if projection else 4.0 * R**2
    solver = Pegasos("pegasos", "uniform", "iid", problem.n, projection)
    state = solver.init(problem, np.random.default_rng(rng.integers(2**32)))
    done = 0
    for T in (3, 30, 300, 3000):
        solver.advance(problem, state, T - done)
        done = T
        W, b = solver.weights(problem, state)
        excess = textbook.objective(W=W, b=b, **facts) - minimum
        assert -ROUNDING <= excess <= c * (1.0 + math.log(T)) / (2.0 * problem.lam * T) + ROUNDING


# ---------------------------------------------------------------- in high probability: Lemma 2, Corollary 2, Lemma 3

#: Steps, and runs. So many steps that the bounds say something: w = 0 has more suboptimality than they allow.
LONG, RUNS = 8000, 100
#: A claim that is true fails a test with at most this probability.
BAD_LUCK = 1e-9


def apart(rng):
    """(X, y, λ, the optimum's objective): unit rows well on their sides of a plane, so R = 1; λ = 1/4, the largest."""
    n, d, lam = 20, 4, 0.25
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    angle, aside = rng.uniform(0.0, 0.6, n), rng.normal(size=(n, d - 1))
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    X = y[:, None] * np.column_stack([np.cos(angle), np.sin(angle)[:, None] * aside])
    facts = {"X": X, "y": y, "target": Single(Hinge()), "lam": lam, "s": np.ones(n), "intercept": "none"}
    best = dict(zip("Wb", textbook.optimum(outputs=1, **facts), strict=True))
    return X, y, lam, textbook.objective(**facts, **best)


def objectives(W, X, y, lam):
    """f of weights of shape (…, d)."""
    return 0.5 * lam * np.sum(W**2, axis=-1) + np.maximum(0.0, 1.0 - y * (W @ X.T)).mean(axis=-1)


def bound(lam, projection, delta):
    """21 c log(T/δ)/(λT), with c = (√λ + R)² or 4R²."""
    c = (math.sqrt(lam) + 1.0) ** 2 if projection else 4.0
    return 21.0 * c * math.log(LONG / delta) / (lam * LONG)


def holds_so_often(excesses, minimum, lam, projection):
    """Whether for each δ at most a share δ of the runs, and what chance adds, is above the bound; and that w = 0 is."""
    for delta in (0.5, 0.1, 0.01):
        limit = bound(lam, projection, delta)
        assert limit < 1.0 - minimum
        assert np.sum(excesses > limit) <= binom.isf(BAD_LUCK, len(excesses), delta)


@pytest.mark.parametrize("projection", [False, True])
def test_lemma_2_bounds_the_mean_objective_of_the_iterates_in_high_probability(projection, rng):
    # the algorithm of Fig. 1, line by line, for all runs side by side
    X, y, lam, minimum = apart(rng)
    W, iterates, draws = np.zeros((RUNS, X.shape[1])), [], rng.integers(y.size, size=(LONG, RUNS))
    for t, i in enumerate(draws, 1):
        iterates.append(W)
        violated = y[i] * np.sum(W * X[i], axis=1) < 1.0
        W = (1.0 - 1.0 / t) * W + (violated * y[i] / (lam * t))[:, None] * X[i]
        if projection:
            W /= np.maximum(1.0, math.sqrt(lam) * np.linalg.norm(W, axis=1))[:, None]
    means = objectives(np.array(iterates), X, y, lam).mean(axis=0)
    holds_so_often(means - minimum, minimum, lam, projection)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("projection", [False, True])
def test_corollary_2_bounds_the_mean_iterate_in_high_probability(projection, k, rng):
    X, y, lam, minimum = apart(rng)
    problem, solver = Problem(as_rows(X), y, Single(Hinge()), lam), Pegasos("pegasos", "uniform", "iid", k, projection)
    found = []
    for _ in range(RUNS):
        state = solver.init(problem, np.random.default_rng(rng.integers(2**32)))
        solver.advance(problem, state, LONG)
        found.append(solver.weights(problem, state)[0][:, 0])
    excesses = objectives(np.array(found), X, y, lam) - minimum
    assert (excesses >= -KNOWN).all()
    holds_so_often(excesses, minimum, lam, projection)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("projection", [False, True])
def test_lemma_3_finds_half_of_the_iterates_good(projection, k, rng):
    # stop before a random step: with probability (1 − δ)/2 at least, w_t is within twice the bound of Lemma 2
    X, y, lam, minimum = apart(rng)
    problem, solver = Problem(as_rows(X), y, Single(Hinge()), lam), Pegasos("pegasos", "none", "iid", k, projection)
    found = []
    for t in rng.integers(1, LONG + 1, size=RUNS):
        state = solver.init(problem, np.random.default_rng(rng.integers(2**32)))
        solver.advance(problem, state, int(t) - 1)
        found.append(solver.weights(problem, state)[0][:, 0])
    excesses = objectives(np.array(found), X, y, lam) - minimum
    for delta in (0.5, 0.1, 0.01):
        good = np.sum(excesses <= 2.0 * bound(lam, projection, delta))
        assert good >= binom.ppf(BAD_LUCK, RUNS, 0.5 * (1.0 - delta))


# ---------------------------------------------------------------- duality

INTERCEPTS = ("none", "regularized", "unregularized")
SMOOTH = ("squared_hinge", "log", "squared_epsilon", "multiclass_log")


def gap_of_slopes(W, b, facts):
    """P(W, b) − D(slopes at W) by Fenchel and Young: ‖∇P‖²/(2λ), and what b loses against the best where b is free."""
    X, y, target, lam, s, intercept = (facts[name] for name in ("X", "y", "target", "lam", "s", "intercept"))
    lost = 0.0
    if intercept == "unregularized":
        G = textbook.balanced_slopes(target, X @ W, y, s)
        labels, weights = textbook.separate(target, y, W.shape[1])
        columns = [(X @ W[:, c], labels[:, c], s * weights[:, c]) for c in range(W.shape[1])]
        best = np.array([textbook.best_bias(target.loss, *column)[0] for column in columns])
        lost = textbook.objective(W=W, b=b, **facts) - textbook.objective(W=W, b=best, **facts)
    else:
        G = s[:, None] * textbook.slopes(target, X @ W + b, y)
    gradient = lam * W + X.T @ G / len(y)
    over_b = lam * b + G.mean(axis=0) if intercept == "regularized" else np.zeros(1)
    return lost + (np.sum(gradient**2) + np.sum(over_b**2)) / (2.0 * lam)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("name", textbook.LOSSES)
def test_a_certificate_encloses_the_optimum_wherever_it_is_asked(name, intercept, rng):
    for weighted in (False, True):
        problem, facts = drawn(name, rng, intercept, weighted)
        best_W, best_b = textbook.optimum(outputs=problem.n_outputs, **facts)
        minimum = textbook.objective(W=best_W, b=best_b, **facts)
        tolerance = 1e-9 * (1.0 + minimum)  # the optimum's own accuracy is a hundred times better
        for spread in (0.0, 1e-3, 0.1, 1.0, 10.0):
            W = best_W + spread * rng.normal(size=best_W.shape)
            b = best_b + (intercept != "none") * spread * rng.normal(size=best_b.shape)
            primal, dual, gap = problem.certificate(W, b)
            assert primal == pytest.approx(textbook.objective(W=W, b=b, **facts), rel=1e-12, abs=1e-12)
            assert primal >= minimum - tolerance
            assert dual <= minimum + tolerance
            assert gap == primal - dual
            if problem.is_joint and intercept == "unregularized":
                assert dual == 0.0  # no dual point is sought but the trivial one
            elif name in SMOOTH:
                expected = min(gap_of_slopes(W, b, facts), primal)  # zero is a dual value too
                assert gap == pytest.approx(expected, rel=1e-9, abs=ROUNDING * primal)
                assert spread > 0.0 or gap <= tolerance
            else:
                # smoothed slopes and multiples may only do better, and the multiple zero is always at hand
                assert gap <= gap_of_slopes(W, b, facts) * (1.0 + 1e-9) + ROUNDING * primal
                assert dual >= 0.0


@pytest.mark.parametrize("intercept", ["exact", "search"])
def test_every_free_intercept_has_the_same_certificate(intercept, rng):
    problem, _ = drawn("hinge", rng, intercept, weighted=True)
    free = Problem(problem.X, problem.y, problem.target, problem.lam, problem.sample_weight, "unregularized")
    W, b = rng.normal(size=(problem.d, 1)), rng.normal(size=1)
    assert problem.certificate(W, b) == free.certificate(W, b)
    assert math.isfinite(free.certificate(W, b).gap)


# ---------------------------------------------------------------- the dual point behind w


@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("name", BOUNDED_SLOPES)
def test_what_the_dual_point_lacks_is_the_regret_bound_of_the_steps(name, intercept, rng):
    # Shalev-Shwartz and Kakade (2008): T (A − λ/2 ‖w‖²) = Σ P_t(w_t) − Σ ‖∇_t‖²/(2λt), P_t that of the batch of step t
    for k in (1, 4):
        problem, facts = drawn(name, rng, intercept, weighted=k == 4)
        solver, T = Pegasos("pegasos", "none", "permutation", k), 50
        seed = rng.integers(2**32)
        iterates, batches = trajectory(problem, solver, seed, T)
        total, X, y, s = 0.0, facts["X"], facts["y"], facts["s"]
        for t, ((W, b), A) in enumerate(zip(iterates, batches, strict=False), 1):
            total += textbook.objective(X[A], y[A], problem.target, problem.lam, W, b, s[A], intercept)
            G = s[A, None] * textbook.slopes(problem.target, X[A] @ W + b, y[A]) / k
            slope = np.sum((X[A].T @ G + problem.lam * W) ** 2)
            if intercept == "regularized":
                slope += np.sum((G.sum(axis=0) + problem.lam * b) ** 2)
            total -= slope / (2.0 * problem.lam * t)
        state = Pegasos("pegasos", "none", "permutation", k).init(problem, np.random.default_rng(seed))
        solver.advance(problem, state, T)
        W, b = iterates[-1]
        norm2 = textbook.penalised(W, b, intercept)
        size = steepest(facts) ** 2 / problem.lam
        found = state.dual.A.sum() - 0.5 * problem.lam * norm2
        assert found == pytest.approx(total / T, rel=ROUNDING, abs=ROUNDING * (1.0 + size))


@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("name", BOUNDED_SLOPES)
def test_the_gap_of_the_average_falls_as_its_bound_does(name, intercept, rng):
    # with all examples in each batch every P_t is P, so by the identity above and ‖∇_t‖ ≤ 2G the proven gap of the
    # average is at most that of Corollary 1, 4G²(1 + log T)/(2λT)
    problem, facts = drawn(name, rng, intercept, weighted=True)
    solver = Pegasos("pegasos", "uniform", "permutation", problem.n)
    state = solver.init(problem, rng)
    for T in (1, 10, 100, 1000):
        solver.advance(problem, state, T - state.t)
        gap = solver.evaluate(problem, state, solver.model(problem, state))["gap"]
        bound = 4.0 * steepest(facts) ** 2 * (1.0 + math.log(T)) / (2.0 * problem.lam * T)
        assert gap <= bound * (1.0 + ROUNDING)
