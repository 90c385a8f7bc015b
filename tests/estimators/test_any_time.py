"""A model whenever training stops: the best that was seen, no worse than w = 0, and no worse with more time.

Time is a clock that the test moves: it goes on by a step at each look at it, and so is the same on any machine.
"""

import math
import signal
import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numba.core import event
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from widemargin import SMO, SVC, SVR, LinearSVC, StochasticBatchPerceptron
from widemargin import history as history_module
from widemargin import running as running_module
from widemargin.core.compiling.notice import Compilations
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.estimators.fit import fitting, ladder, pairs
from widemargin.estimators.fit.ladder import Draws, Ladder, Rung
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.visits.sdca import KernelSDCA

GAMMA = 0.5


class Clock:
    """Seconds that pass by being asked for."""

    def __init__(self, step):
        self.step, self.seconds = step, 0.0

    def perf_counter(self):
        self.seconds += self.step
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock(0.1)  # a slice's time: so slices are of single steps
    for module in (running_module, fitting, history_module):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(ladder, "FIRST", 60)
    monkeypatch.setattr(SMO, "first_slice", lambda self, problem: 1)
    return clock


def overlapping(rng, n, classes=2):
    """Classes that overlap, so that a large C overshoots."""
    y = rng.integers(0, classes, n)
    y[:classes] = np.arange(classes)
    return rng.normal(size=(n, 3)) + 0.5 * np.eye(3)[y % 3], y


def at_zero(y, C):
    """The objective of w = 0 with its best bias, for labels ±1, in the λ-form."""
    return min(np.mean(np.maximum(0.0, 1.0 - y * b)) for b in (-1.0, 0.0, 1.0))


def objective(model, X, y, C):
    """The objective of a fitted two-class or regression machine by its definition, in the λ-form."""
    c = np.zeros(y.size)
    c[model.support_] = model.dual_coef_[0]
    K = rbf_kernel(X, gamma=GAMMA)
    norm2, scores = float(c @ K @ c), K @ c + model.intercept_[0]
    if isinstance(model, SVR):
        missed = np.abs(scores - y) - model.epsilon
    else:
        missed = 1.0 - np.where(y == model.classes_[1], 1.0, -1.0) * scores
    if model.intercept == "regularized":  # the weight of a constant feature
        norm2 += model.intercept_[0] ** 2
    return 0.5 * norm2 / (C * y.size) + float(np.mean(np.maximum(0.0, missed)))


LIMITS = (0.2, 2.0, 4.0, 7.0, 10.0, 20.0, 40.0, 1e3)


@pytest.mark.parametrize(("C", "intercept"), [(1.0, "regularized"), (1e3, "none")])
@pytest.mark.parametrize("solver", ["smo", "sdca", "sbp"])
def test_more_time_is_not_worse_and_nothing_is_worse_than_zero(solver, C, intercept, clock, rng):
    X, y = overlapping(rng, 100)
    reached = []
    for limit in LIMITS:
        clock.seconds = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(C, gamma=GAMMA, solver=solver, intercept=intercept, max_seconds=limit, random_state=0).fit(X, y)
        value = objective(model, X, y, C)
        reached.append(value)
        assert value <= 1.0 + 1e-6
        # kernel values are float32
        assert model.certificate_.primal == pytest.approx(value, rel=1e-4 * max(1.0, math.log10(C)))
        assert model.certificate_.gap >= -1e-6
    assert np.all(np.diff(reached) <= 1e-4 * np.array(reached[:-1]))
    assert reached[-1] < reached[0]


@pytest.mark.parametrize("solver", ["smo", "sbp"])
def test_a_free_bias_is_no_worse_than_the_best_constant(solver, clock, rng):
    X, y = overlapping(rng, 300)
    y[rng.random(y.size) < 0.6] = 0
    signs = np.where(y == 1, 1.0, -1.0)
    for limit in LIMITS[:6]:
        clock.seconds = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(1e3, gamma=GAMMA, solver=solver, max_seconds=limit, random_state=0).fit(X, y)
        assert objective(model, X, y, 1e3) <= at_zero(signs, 1e3) * (1.0 + 1e-6)


@pytest.mark.parametrize("C", [1.0, 1e3])
@pytest.mark.parametrize("solver", ["smo", "sdca"])
def test_a_regression_with_more_time_is_not_worse(solver, C, clock, rng):
    X = rng.normal(size=(100, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=100)
    zero = min(np.mean(np.maximum(0.0, np.abs(y - b) - 0.1)) for b in ([0.0] if solver == "sdca" else y))
    reached = []
    for limit in LIMITS:
        clock.seconds = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            intercept = "none" if solver == "sdca" else "auto"
            model = SVR(C=C, gamma=GAMMA, solver=solver, intercept=intercept, max_seconds=limit, random_state=0)
            reached.append(objective(model.fit(X, y), X, y, C))
        assert reached[-1] <= zero * (1.0 + 1e-6)
    assert np.all(np.diff(reached) <= 1e-4 * np.array(reached[:-1]))


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("solver", ["smo", "sbp"])
def test_pairs_and_classes_share_the_time_and_none_is_worse_than_zero(multi_class, solver, clock, rng):
    X, y = overlapping(rng, 400, classes=3)
    reached = []
    for limit in LIMITS[::2]:
        clock.seconds = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SVC(
                1e3, gamma=GAMMA, solver=solver, multi_class=multi_class, max_seconds=limit, random_state=0
            ).fit(X, y)  # fmt: skip
        primals = [certificate.primal for certificate in model.certificate_]
        assert max(primals) <= 1.0 + 1e-6
        reached.append(sum(primals))
    # every problem has its share: with more time the sum does not rise
    assert np.all(np.diff(reached) <= 1e-3 * np.array(reached[:-1]))


def test_of_many_small_pairs_that_are_out_of_time_none_is_worse_than_zero(clock, rng):
    y = np.repeat(np.arange(20), 12)
    X = rng.normal(size=(y.size, 2))  # nothing to learn, so a large C overshoots
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(1e6, gamma=GAMMA, max_seconds=0.1).fit(X, y)
    assert model.stop_reason_ == "max_seconds"
    assert model.history_["problem"][0] == -1  # all pairs in one run
    primals = np.array([certificate.primal for certificate in model.certificate_])
    assert primals.size == 190
    assert primals.max() <= 1.0 + 1e-6
    assert primals.min() < 1.0
    scores = SVC.decision_function(model.set_params(decision_function_shape="ovo"), X)
    for p, (i, j) in enumerate(combinations(range(20), 2)):
        if primals[p] == 1.0:
            assert np.all(scores[(y == i) | (y == j), p] == 0.0)


@pytest.mark.parametrize("after", [1, 5])
@pytest.mark.parametrize(("kind", "solver"), [(SVC, "smo"), (SVC, "sdca"), (SVC, "sbp"), (SVR, "smo")])
def test_after_an_interrupt_the_model_is_no_worse_than_zero(kind, solver, after, rng, monkeypatch):
    X, y = overlapping(rng, 300)
    y = np.where(y == 1, 1.0, -1.0)
    cls = {"smo": SMO, "sdca": KernelSDCA, "sbp": StochasticBatchPerceptron}[solver]
    advance, calls = cls.advance, []

    def interrupted(self, problem, state, n_steps):
        calls.append(n_steps)
        if len(calls) == after + 1:
            signal.raise_signal(signal.SIGINT)
        return advance(self, problem, state, n_steps)

    monkeypatch.setattr(cls, "advance", interrupted)
    monkeypatch.setattr(running_module, "SLICE", 1e-9)  # slices of single steps
    model = kind(C=1e3, gamma=GAMMA, solver=solver, intercept="none", tol=1e-9, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.stop_reason_ == "interrupted"
    zero = np.mean(np.maximum(0.0, np.abs(y) - model.epsilon)) if kind is SVR else 1.0
    assert objective(model, X, y, 1e3) <= zero * (1.0 + 1e-6)


def test_linear_dual_ascent_that_is_stopped_is_no_worse_than_zero(clock, rng):
    X, y = overlapping(rng, 400)
    X[:, 0] *= 100.0
    for limit in (0.2, 1.0, 3.0):
        clock.seconds = 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LinearSVC(
                1e3, solver="sdca", intercept="none", max_iter=10**6, tol=1e-9, max_seconds=limit, random_state=0
            ).fit(X, y)  # fmt: skip
        scores = X @ model.coef_[0]
        hinge = np.mean(np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * scores))
        assert 0.5 * float(model.coef_[0] @ model.coef_[0]) / (1e3 * 400) + hinge <= 1.0 + 1e-6


# ---------------------------------------------------------------- samples


def kernel_problem(rng, n, C=10.0):
    X, y = overlapping(rng, n)
    y = np.where(y == 1, 1.0, -1.0)
    return X, KernelProblem(RBF(GAMMA), as_rows(X), y, losses.Single(losses.Hinge()), 1.0 / (C * n))


def test_a_rung_of_a_small_problem_states_its_objective_on_all_examples(clock, rng):
    X, problem = kernel_problem(rng, 500)
    rungs = Ladder(problem, rng, 1e-3, clock.perf_counter)
    assert rungs.climb(math.inf, math.inf)
    found = rungs.best
    assert found.examples == ladder.FIRST == 60
    assert found.is_exact
    c, vectors = found.model.coef[0], X[found.model.support]
    scores = rbf_kernel(X, vectors, gamma=GAMMA) @ c + found.model.intercept[0]
    norm2 = c @ rbf_kernel(vectors, vectors, gamma=GAMMA) @ c
    expected = 0.5 * problem.lam * norm2 + np.mean(np.maximum(0.0, 1.0 - problem.y * scores))
    assert found.objective == pytest.approx(expected, rel=1e-4)
    assert rungs.history["examples"].tolist() == [ladder.FIRST]
    assert rungs.history["kernel_evals"][-1] == rungs.counters.kernel_evals > 0


def test_rungs_grow_while_time_allows_and_the_first_comes_whatever_the_time(rng, monkeypatch):
    monkeypatch.setattr(ladder, "PROBE", 300)
    monkeypatch.setattr(ladder, "FIRST", 60)
    _, problem = kernel_problem(rng, 3000)
    sizes = []
    for limit in (0.0, 1e9):
        clock = Clock(0.01)
        rungs = Ladder(problem, np.random.default_rng(0), 1e-3, clock.perf_counter)
        fits = rungs.climb(limit, limit)
        sizes.append(rungs.history["examples"].tolist())
        assert fits == (limit > 0.0)
        assert not rungs.best.is_exact
    assert sizes[0] == [60]
    # time enough for all examples: no further rung is needed; too little for them, but plenty for samples: they grow
    assert sizes[1] == [60]
    clock = Clock(0.01)
    rungs = Ladder(problem, np.random.default_rng(0), 1e-3, clock.perf_counter)
    assert not rungs.climb(20.0, 0.0)
    grown = rungs.history["examples"]
    assert grown.size > 1
    assert np.all(np.diff(grown) > 0)
    assert grown[-1] <= problem.n // 2


def test_samples_have_the_bounds_of_the_problem(rng, monkeypatch):
    solved, seen = ladder.run, []

    def watched(solver, part, **options):
        seen.append(part)
        return solved(solver, part, **options)

    monkeypatch.setattr(ladder, "run", watched)
    monkeypatch.setattr(ladder, "FIRST", 60)
    _, problem = kernel_problem(rng, 500)
    Ladder(problem, rng, 1e-3, Clock(0.01).perf_counter).climb(math.inf, math.inf)
    (sample,) = seen
    assert sample.n == 60
    assert 1.0 / (sample.lam * sample.n) == pytest.approx(1.0 / (problem.lam * problem.n), rel=1e-12)


def test_every_sample_has_both_classes(rng):
    _, problem = kernel_problem(rng, 1000)
    problem.y[:] = -1.0
    problem.y[rng.integers(1000)] = 1.0
    draws = Draws(problem, rng)
    for drawn in (draws.rung(20), draws.probe(20)):
        assert set(problem.y[drawn.chosen]) == {-1.0, 1.0}


def test_draws_keep_the_heavy_examples_and_stand_for_all_weights(rng):
    _, problem = kernel_problem(rng, 2000)
    s = rng.uniform(0.5, 1.5, 2000)
    heavy = rng.choice(2000, 10, replace=False)
    s[heavy], s[rng.choice(2000, 5, replace=False)] = 1e4, 0.0
    problem = replace(problem, sample_weight=s)
    draws = Draws(problem, rng)
    for drawn in (draws.rung(200), draws.probe(200), draws.rung(50)):
        assert np.isin(heavy[s[heavy] > 0.0], drawn.chosen).all()
        assert (s[drawn.chosen] > 0.0).all()
        assert drawn.weights.sum() == pytest.approx(s.sum())
    assert np.isin(draws.rung(50).chosen, draws.rung(200).chosen).all()  # rungs grow
    whole = draws.probe(2000)
    np.testing.assert_array_equal(whole.chosen, np.arange(2000) if (s > 0.0).all() else np.flatnonzero(s))


def test_sums_over_draws_are_those_over_all_examples_on_the_average(rng):
    """Priority sampling is unbiased; that the weights are made to sum to those of all adds a bias of order 1/size."""
    _, problem = kernel_problem(rng, 1000)
    problem = replace(problem, sample_weight=rng.exponential(size=1000) ** 2)
    values = rng.normal(size=1000) + problem.y
    truth = problem.sample_weight @ values
    for kind in ("rung", "probe"):
        found = []
        for _ in range(300):
            drawn = getattr(Draws(problem, rng), kind)(200)
            found.append(drawn.weights @ values[drawn.chosen])
        # the mean of 300 has a standard error of std/√300; six of them, and the bias
        assert abs(np.mean(found) - truth) <= 6.0 * np.std(found) / math.sqrt(300) + np.std(found) / math.sqrt(200)


def test_values_are_exact_where_all_that_has_weight_is_looked_at_and_only_there(clock, rng, monkeypatch):
    problem = kernel_problem(rng, 500)[1]
    s = rng.uniform(0.5, 2.0, 500)
    s[:40] = 0.0
    problem = replace(problem, sample_weight=s)
    rungs = Ladder(problem, rng, 1e-3, clock.perf_counter)
    rungs.climb(math.inf, math.inf)
    scores, model = rungs.best.model.decision_function(problem.X)[:, 0], rungs.best.model
    own = model.decision_function(model.vectors)[:, 0] - model.intercept[0]
    truth = 0.5 * problem.lam * float(model.coef[0] @ own)
    truth += float(np.mean(s * np.maximum(0.0, 1.0 - problem.y * scores)))
    assert rungs.best.is_exact
    assert rungs.best.objective == pytest.approx(truth, rel=1e-5)
    # a rung and a probe that are all examples together are still a sample and a probe
    monkeypatch.setattr(ladder, "PROBE", 480)
    problem = replace(problem, sample_weight=np.ones(500))
    draws = Draws(problem, rng)
    assert draws.among(draws.rung(240), draws.probe(480)).chosen.size == 500
    below = Ladder(problem, rng, 1e-3, clock.perf_counter)
    below._solve(draws, 240, draws.probe(480), math.inf, 0.0)
    assert not below.best.is_exact


def test_a_rung_s_own_examples_count_by_their_share(rng, monkeypatch):
    """A tube that is fitted closely has small losses on half of all examples, and others elsewhere."""
    monkeypatch.setattr(ladder, "PROBE", 600)
    n = 3000
    X = rng.normal(size=(n, 4))
    y = np.sin(2.0 * X[:, 0]) + rng.normal(size=n)
    problem = KernelProblem(RBF(1.0), as_rows(X), y, losses.Single(losses.EpsilonInsensitive(0.1)), 1.0 / (100.0 * n))
    draws = Draws(problem, rng)
    rungs = Ladder(problem, rng, 1e-3, Clock(0.0).perf_counter)
    rungs._solve(draws, n // 2, draws.probe(600), math.inf, 0.0)
    found = rungs.best
    scores = found.model.decision_function(problem.X)[:, 0]
    own = found.model.decision_function(found.model.vectors)[:, 0] - found.model.intercept[0]
    truth = 0.5 * problem.lam * float(found.model.coef[0] @ own)
    truth += float(np.mean(np.maximum(0.0, np.abs(scores - y) - 0.1)))
    assert abs(found.objective - truth) <= 5.0 * found.error
    assert found.error <= 0.1 * truth


def test_w_0_is_the_model_where_no_more_is_known_of_a_rung(clock, rng, monkeypatch):
    X, y = overlapping(rng, 1200)
    climb = Ladder.climb

    def doubtful(self, until, deadline):
        climb(self, until, deadline)
        self.best.error = 10.0
        clock.seconds = deadline + 1.0
        return False

    monkeypatch.setattr(Ladder, "climb", doubtful)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(gamma=GAMMA, max_seconds=5.0).fit(X, y)
    assert model.support_.size == 0
    assert model.certificate_.primal == pytest.approx(at_zero(np.where(y == 1, 1.0, -1.0), 1.0), rel=1e-9)


def test_pairs_for_which_there_is_no_time_are_constant(clock, rng, monkeypatch):
    monkeypatch.setattr(pairs, "SMALL_PAIRS", (0, 0))  # or they are trained together, roughly first
    X, y = overlapping(rng, 90, classes=5)
    clock.step = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(gamma=GAMMA, max_seconds=2.0).fit(X, y)
    assert model.stop_reason_ == "max_seconds"
    certificates = list(model.certificate_)
    assert len(certificates) == 10
    assert all(c.primal <= 1.0 + 1e-6 for c in certificates)
    assert certificates[-1].dual == 0.0
    assert np.isfinite(model.decision_function(X)).all()


def test_an_estimate_does_not_win_over_a_value_that_is_known(rng):
    """Few heavy examples: an estimate without them would be far too low, and the constant model is much better."""
    n = 6000
    X, y = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.5, 1, 0)
    s = np.ones(n)
    heavy = rng.choice(n, 12, replace=False)
    y[heavy], s[heavy] = 1, 1e4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(1e-3, gamma=GAMMA, max_seconds=1e-3, random_state=0).fit(X, y, sample_weight=s)
    hinge = np.mean(s * np.maximum(0.0, 1.0 - (2 * y - 1) * model.decision_function(X)))
    constant = min(np.mean(s * np.maximum(0.0, 1.0 - (2 * y - 1) * b)) for b in (-1.0, 0.0, 1.0))
    # an estimate may be wrong by more than twice its standard error once in a while, but not by much
    assert hinge <= 1.2 * constant


@pytest.mark.parametrize("targets", [(0.0, 5.0), (0.0, 0.0), (1.0, -1.0)])
def test_a_regression_is_one_whatever_its_targets(targets, rng):
    X = rng.normal(size=(1200, 3))
    y = np.where(X[:, 0] > 0.0, *targets)
    model = SVR(gamma=GAMMA, max_seconds=60.0).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert np.mean(np.abs(model.predict(X) - y)) <= np.mean(np.abs(y - np.median(y))) + 0.2


def test_a_regression_uses_the_time_that_samples_leave(clock, rng, monkeypatch):
    """No Perceptron takes over, so the exact solver has what is left, however little the samples promise."""
    monkeypatch.setattr(ladder, "PROBE", 100)
    monkeypatch.setattr(ladder, "FITS", 0.0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=400)
    free = SVR(gamma=GAMMA).fit(X, y)
    clock.seconds = 0.0
    limited = SVR(gamma=GAMMA, max_seconds=1e6).fit(X, y)
    assert limited.stop_reason_ == "tol"
    np.testing.assert_array_equal(limited.dual_coef_, free.dual_coef_)


def test_a_machine_of_a_sample_has_no_certificate_and_says_so(clock, rng, monkeypatch):
    monkeypatch.setattr(ladder, "PROBE", 300)
    monkeypatch.setattr(ladder, "FIRST", 200)
    X = rng.normal(size=(1500, 3))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=1500)
    with pytest.warns(ConvergenceWarning, match="the machine of a sample"):
        model = SVR(C=1.0, gamma=GAMMA, max_seconds=0.5).fit(X, y)
    assert model.certificate_ is None
    assert model.stop_reason_ == "max_seconds"
    assert model.history_["examples"][0] == 200
    assert np.isfinite(model.predict(X)).all()


def test_a_limit_that_is_not_reached_changes_nothing(rng):
    X, y = overlapping(rng, 1100)
    models = [SVC(gamma=GAMMA, max_seconds=limit, random_state=0).fit(X, y) for limit in (None, 1e6)]
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)
    np.testing.assert_array_equal(models[0].support_, models[1].support_)
    assert [model.stop_reason_ for model in models] == ["tol", "tol"]


def test_compilation_that_took_the_time_is_named(rng):
    X, y = overlapping(rng, 100)

    def compile_for_long(progress):
        listener = next(each for each in event._registered["numba:compile"] if isinstance(each, Compilations))
        listener.begin(None)
        listener._since -= 12.0
        listener.end()

    model = SVC(1e3, gamma=GAMMA, tol=0, max_seconds=1e-3, callbacks=compile_for_long)
    with pytest.warns(ConvergenceWarning, match=r"compiling took 12\.\d s of max_seconds=0.001"):
        model.fit(X, y)


def test_what_is_known_of_a_rung_is_two_standard_errors_above_its_estimate():
    assert Rung(500, None, 1.0, False, 0.25).at_most == 1.5


@pytest.mark.parametrize(("took", "power"), [(2.0**1.9, 1.9), (2.0**1.5, 1.75), (1.0, 1.75), (16.0, 2.5), (None, 2.0)])
def test_the_time_of_all_examples_follows_the_power_law_of_the_last_two_rungs(took, power):
    """Most of the time of small rungs is not for kernel values, so what they promise has a bound on either side."""
    rungs = Ladder(None, None, 1e-3, None, paces=[(500, 1.0)] if took is None else [(500, 1.0), (1000, took)])
    size, seconds = rungs.paces[-1]
    assert rungs._predicted(4000) == pytest.approx(seconds * (4000 / size) ** power)
