"""SVC on many classes: the pairs of one run are those of separate fits, in memory that grows with vectors × classes."""

import math
import signal
import tracemalloc
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC as RivalSVC

from widemargin import SMO, SVC, compress
from widemargin.core.kernels.kernels import RBF, Linear
from widemargin.core.losses import losses
from widemargin.core.rows.rows import DenseRows
from widemargin.estimators.fit import jobs, pairs, session
from widemargin.estimators.fit.session import Solved
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.objective import Certificate
from widemargin.solvers.smo.pairs import MOVES, MOVES_A_CALL, MOVES_EACH, PairsProblem, PairwiseSMO

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

K = 16  # 120 pairs: more than are run one by one


def data(rng, k=K, size=5, d=4):
    """Overlapping classes of different sizes, in any order."""
    y = np.repeat(np.arange(k), rng.integers(max(1, size - 2), size + 3, k))
    X = rng.normal(size=(k, d))[y] + 0.6 * rng.normal(size=(y.size, d))
    order = rng.permutation(y.size)
    return X[order], y[order]


def one_by_one(monkeypatch):
    monkeypatch.setattr(pairs, "SMALL_PAIRS", (0, 0))


def _seeing(method, look):
    def seen(self, state):
        look(state)
        return method(self, state)

    return seen


@pytest.mark.parametrize(
    ("k", "three", "more", "together"),
    [(2, 1, 1, False), (3, 1, 0, True), (3, 0, 1, False), (4, 0, 1, True), (4, 1, 0, False)],
)
def test_pairs_of_three_classes_and_of_more_have_bounds_of_their_own(k, three, more, together, rng, monkeypatch):
    monkeypatch.setattr(pairs, "SMALL_PAIRS", (2**18 * three, 2**18 * more))
    seen = []
    callback = {"callbacks": lambda progress: seen.append(isinstance(progress.problem, PairsProblem))}
    SVC(**callback).fit(rng.normal(size=(40, 3)), np.arange(40) % k)
    assert set(seen) == {together}


def first_rows(model):
    """The problems in the history, without those that went on in float64."""
    return np.array([row["problem"] for row in model.history_ if "bits" not in row])


def dual_values(model, X, y, gamma):
    """Σα − ½‖w‖² of every pair, from scikit-learn's attributes."""
    ends = np.cumsum(model.n_support_)
    for i, j in combinations(range(ends.size), 2):
        own, other = (np.arange(ends[c] - model.n_support_[c], ends[c]) for c in (i, j))
        c = np.r_[model.dual_coef_[j - 1, own], model.dual_coef_[i, other]]
        rows = model.support_[np.r_[own, other]]
        K = rbf_kernel(X[rows], gamma=gamma)
        yield np.abs(c).sum() - 0.5 * c @ K @ c


def test_many_classes_have_the_scores_of_scikit_learn(rng):
    X, y = data(rng)
    Z = rng.normal(size=(40, 4))
    for shape in ("ovo", "ovr"):
        ours = SVC(C=3.0, gamma=0.5, tol=1e-8, decision_function_shape=shape).fit(X, y)
        theirs = RivalSVC(C=3.0, gamma=0.5, tol=1e-8, decision_function_shape=shape).fit(X, y)
        # a bias is an interval where no vector is free; scores of such pairs differ by a constant
        a, b = ours.decision_function(Z), theirs.decision_function(Z)
        if shape == "ovo":
            np.testing.assert_allclose(a - a.mean(axis=0), b - b.mean(axis=0), atol=1e-4)
        assert a.shape == b.shape
    assert ours.dual_coef_.shape == (K - 1, ours.support_.size)
    duals = list(dual_values(ours, X, y, 0.5)), list(dual_values(theirs, X, y, 0.5))
    np.testing.assert_allclose(*duals, rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "sparse"),
    [
        ({"intercept": "none"}, False),
        ({"intercept": "regularized"}, True),
        ({"lam": 0.05}, False),
        ({"class_weight": "balanced"}, True),
        ({"kernel": "linear"}, False),
        ({"kernel": "poly", "gamma": 0.3, "coef0": 1.0}, True),
        ({"kernel": lambda A, B: np.asarray((A @ B.T).todense()) + 1.0}, True),
        ({"n_jobs": 2}, False),
    ],
    ids=lambda value: next(iter(value)) + str(next(iter(value.values())))[:12] if isinstance(value, dict) else None,
)
def test_pairs_of_one_run_are_the_pairs_of_separate_runs(parameters, sparse, rng, monkeypatch):
    X, y = data(rng, 7)
    X = sp.csr_matrix(X) if sparse else X
    weights = rng.uniform(0.2, 2.0, y.size)
    together = SVC(tol=1e-7, **parameters).fit(X, y, sample_weight=weights)
    one_by_one(monkeypatch)
    apart = SVC(tol=1e-7, **parameters).fit(X, y, sample_weight=weights)
    assert np.all(first_rows(together) == -1)
    assert apart.history_["problem"].max() == 20
    for one, other in zip(together.certificate_, apart.certificate_, strict=True):
        # both values of one bound the optimum of the other, but for float32 kernel values: roundings of sums whose
        # terms are as large as P(0), which is about 1
        np.testing.assert_allclose(one.primal, other.primal, rtol=1e-5, atol=2.0**-22)
        np.testing.assert_allclose(one.dual, other.dual, rtol=1e-5, atol=2.0**-22)
    scores = [model.set_params(decision_function_shape="ovo").decision_function(X) for model in (together, apart)]
    mean = np.mean(np.sign(scores[0]) == np.sign(scores[1]))
    assert mean > 0.99
    if parameters.get("kernel") == "linear":
        Xd = X.toarray() if sparse else X
        np.testing.assert_allclose(scores[0], Xd @ together.coef_.T + together.intercept_, rtol=1e-6, atol=1e-6)


def test_certificates_of_many_pairs_are_true(rng):
    X, y = data(rng)
    model = SVC(C=2.0, gamma=0.5).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert len(model.certificate_) == model.n_iter_.size == K * (K - 1) // 2
    scores = model.set_params(decision_function_shape="ovo").decision_function(X)
    for p, ((i, j), dual) in enumerate(zip(combinations(range(K), 2), dual_values(model, X, y, 0.5), strict=True)):
        own = (y == i) | (y == j)
        lam = 1 / (2.0 * own.sum())
        certificate = model.certificate_[p]
        assert certificate.gap <= 1e-3 * certificate.primal
        np.testing.assert_allclose(certificate.dual, lam * dual, rtol=1e-4)
        losses_ = np.maximum(0, 1 - np.where(y[own] == i, 1, -1) * scores[own, p]).sum()
        # P = ½‖w‖² + C Σ loss, and ½‖w‖² = Σα − D
        ends = np.cumsum(model.n_support_)
        alphas = np.abs(np.r_[model.dual_coef_[j - 1, ends[i] - model.n_support_[i] : ends[i]],
                              model.dual_coef_[i, ends[j] - model.n_support_[j] : ends[j]]]).sum()  # fmt: skip
        np.testing.assert_allclose(certificate.primal, lam * (alphas - dual + 2.0 * losses_), rtol=1e-4)


def test_certificates_of_many_pairs_are_made_anew_where_float32_is_too_coarse(rng):
    X, y = data(rng)
    with pytest.warns(ConvergenceWarning, match="precision") as said:
        model = SVC(C=1e9, gamma=0.05, tol=1e-6).fit(X + 100.0, y)
    assert sum("precision" in str(warning.message) for warning in said) == 1  # for all pairs together
    assert model.stop_reason_ != "tol"
    for certificate in model.certificate_:
        assert certificate.gap >= -1e-9 * abs(certificate.primal)


def test_memory_of_many_classes_grows_with_vectors_and_classes_not_pairs(rng):
    k = 150
    X, y = data(rng, k, size=3)
    SVC().fit(X[np.isin(y, range(K))], y[np.isin(y, range(K))])  # compiles
    layout = 8 * (k - 1) * y.size
    tracemalloc.start()
    try:
        model = SVC().fit(X, y)
        fitting = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        model.predict(X)
        model.decision_function(X)
        predicting = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    dense = 8 * k * (k - 1) // 2 * model.support_.size
    # β, scores that are known and exact ones, their errors and what is missed, two models' coefficients while one is
    # replaced; the cache's share for a class; numbers for each pair
    assert fitting < 10 * layout + 64 * k * k + 2**21 < dense / 4
    assert predicting < 6 * layout + 64 * k * k + 2**21


def test_a_time_limit_leaves_every_pair_a_machine_with_a_true_certificate(rng):
    X, y = data(rng, size=8)
    with pytest.warns(ConvergenceWarning, match="max_seconds"):
        model = SVC(max_seconds=1e-9, tol=1e-9).fit(X, y)
    assert model.stop_reason_ == "max_seconds"
    assert all(c.gap >= -1e-9 for c in model.certificate_)
    # no pair is worse than nothing, the objective of w = 0 with its best bias, and those with a few moves are better
    counts = np.bincount(y)
    for c, (i, j) in zip(model.certificate_, combinations(range(K), 2), strict=True):
        assert c.primal <= 2.0 * min(counts[i], counts[j]) / (counts[i] + counts[j]) + 1e-9
    assert np.mean([c.primal < 0.9 for c in model.certificate_]) > 0.4


def test_callbacks_see_a_model_of_all_pairs_and_can_stop(rng):
    X, y = data(rng)
    seen = []
    model = SVC(callbacks=lambda progress: seen.append(progress.model())).fit(X, y)
    assert len(seen) == len(model.history_) == 1
    np.testing.assert_array_equal(seen[-1].coef, model.dual_coef_)


def test_slices_of_pairs_make_the_same_machines(rng):
    X, y = data(rng)
    order = np.argsort(y, kind="stable")
    ends = np.cumsum(np.bincount(y))
    whole = KernelProblem(RBF(0.5), DenseRows(X[order]), y[order].astype(float), losses.Single(losses.Hinge()), 1.0)
    solver = PairwiseSMO(tol=1e-4)
    states = []
    for slices in ([120], [1, 7, 50, 62], [119, 1]):
        problem = PairsProblem(replace(whole), ends, 2.0, 0.0)
        state = solver.init(problem)
        for count in slices:
            taken = 0
            while taken < count:
                taken += solver.advance(problem, state, count - taken)
            solver.model(problem, state)
            solver.evaluate(problem, state, None)
            state.drop_workspace()  # what is kept may be dropped at any time
        assert state.done == problem.n_pairs
        states.append(state)
    for state in states[1:]:
        for one, other in zip(state.results, states[0].results, strict=True):
            np.testing.assert_array_equal(one, other)
        assert state.counters.updates == states[0].counters.updates
        assert state.counters.steps == states[0].counters.steps


def overlapping(rng, k, size):
    """Classes that differ in nothing: with a large C and a linear kernel, pairs take thousands of moves an example."""
    y = np.repeat(np.arange(k), size)
    return rng.normal(size=(y.size, 4)), y


@pytest.mark.parametrize("k", [3, 5])
def test_hard_pairs_have_runs_of_their_own(k, rng, monkeypatch):
    X, y = overlapping(rng, k, 20)
    X[y == 0] += 10.0  # its pairs are easy
    parameters = {"kernel": "linear", "C": 1e4, "tol": 1e-2, "max_iter": 10**6}
    together = SVC(**parameters).fit(X, y)
    rows = first_rows(together)
    hard = set(range(k - 1, k * (k - 1) // 2))
    assert rows[0] == -1
    assert set(rows.tolist()) == {-1, *hard}
    assert together.stop_reason_ == "tol"
    one_by_one(monkeypatch)
    apart = SVC(**parameters).fit(X, y)
    for one, other in zip(together.certificate_, apart.certificate_, strict=True):
        assert max(one.dual, other.dual) <= min(one.primal, other.primal) * (1.0 + 1e-6)
    are_certified(together, X, y)


def are_certified(model, X, y):
    """The primal values of certificates are those of the model of a linear kernel, up to float32 with large α."""
    scores = model.set_params(decision_function_shape="ovo").decision_function(X)
    for p, (i, j) in enumerate(combinations(range(y.max() + 1), 2)):
        chosen = (y == i) | (y == j)
        losses_there = np.maximum(0.0, 1.0 - np.where(y[chosen] == i, 1.0, -1.0) * scores[chosen, p])
        penalty = model.coef_[p] @ model.coef_[p] / (2.0 * model.C * chosen.sum())
        assert model.certificate_[p].primal == pytest.approx(losses_there.mean() + penalty, rel=1e-2, abs=1e-7)


def test_a_call_ends_after_so_many_moves_and_calls_after_it_go_on(rng):
    X, y = overlapping(rng, 30, 20)
    whole = KernelProblem(Linear(), DenseRows(X), y.astype(float), losses.Single(losses.Hinge()), 1.0)
    problem, solver = PairsProblem(whole, np.cumsum(np.bincount(y)), 1e4, 0.0), PairwiseSMO(tol=1e-4)
    state, calls = solver.init(problem), 0
    solver.advance(problem, state, 0)
    while state.done < problem.n_pairs:
        before, done = state.counters.updates, state.done
        taken = solver.advance(problem, state, 10**6)
        assert taken == state.done - done > 0
        assert state.counters.updates - before < 2 * MOVES_A_CALL + MOVES + MOVES_EACH * 40
        calls += 1
    assert calls > 1
    np.testing.assert_array_equal(solver.hard(state), np.arange(problem.n_pairs))


def test_known_scores_are_those_of_the_coefficients_that_pairs_end_with(rng):
    """Those that are set to zero have their bias alone."""
    X, y = overlapping(rng, 4, 20)
    whole = KernelProblem(Linear(), DenseRows(X), y.astype(float), losses.Single(losses.Hinge()), 1.0)
    problem, solver = PairsProblem(whole, np.cumsum(np.bincount(y)), 1.0, 0.0), PairwiseSMO(tol=1e-2)
    state = solver.init(problem)
    while state.done < problem.n_pairs:
        solver.advance(problem, state, 10**6)
    worse = rng.permutation(problem.n_pairs)[:3]
    state.results.primal[worse] = np.inf
    solver.settle(problem, state)
    known, beta = solver.known(problem, state), state.results.beta
    for p, (i, j) in enumerate(combinations(range(4), 2)):
        own, rows = np.concatenate([y == i, y == j]), np.repeat([j - 1, i], y.size)
        places = np.tile(np.arange(y.size), 2)[own]
        coefficients, found = (table[rows[own], places] for table in (beta, known))
        f = X[places] @ (X[places].T @ coefficients) + state.results.bias[p]
        np.testing.assert_allclose(found, f, rtol=1e-4, atol=1e-4)
        assert coefficients.any() == (p not in worse)


def test_no_pair_is_worse_than_nothing(rng):
    X, y = overlapping(rng, 4, 50)
    model = SVC(kernel="linear", C=1e9, max_iter=1).fit(X, y)
    for certificate in model.certificate_:
        assert certificate.primal <= 1.0 + 1e-6  # of w = 0 and b = ±1


def test_a_hard_pair_keeps_the_better_model(rng, monkeypatch):
    """Whose own run finds nothing has the moves that were made before it."""
    X, y = overlapping(rng, 3, 40)
    X[y == 0, 0] += 1.5
    X[y == 1, 1] += 1.5
    states, solve = [], jobs.solve
    monkeypatch.setattr(PairwiseSMO, "hard", _seeing(PairwiseSMO.hard, lambda state: states.append(
        state.results.primal.copy()
    )))  # fmt: skip

    def nothing(own, solver, job, *given):
        outcome, _, of_sample = solve(own, solver, job, *given)
        value, outcome.model = job.problem.at_zero()
        return Solved(outcome, Certificate(value, 0.0, value), of_sample)

    for module in (jobs, session):
        monkeypatch.setattr(module, "solve", nothing)
    model = SVC(kernel="linear", C=1e4).fit(X, y)
    primal, lams = states[0], 1.0 / (1e4 * 80)
    for p, certificate in enumerate(model.certificate_):
        assert certificate.primal <= min(lams * primal[p], 1.0) * (1.0 + 1e-3)
        assert certificate.dual <= certificate.primal
    are_certified(model, X, y)


@pytest.mark.parametrize("is_guess", [False, True])
def test_a_hard_pair_whose_model_has_no_certificate_has_the_value_of_its_model(is_guess, rng, monkeypatch):
    """Under a time limit it may be the model of a sample, of which no value is known: then it is not taken."""
    X, y = overlapping(rng, 3, 40)
    parameters = {"kernel": "linear", "C": 1e4, "tol": 1e-2, "max_iter": 10**6}
    solve, known = jobs.solve, SVC(**parameters).fit(X, y)

    def unproven(*given, **more):
        return Solved(solve(*given, **more).outcome, None, is_guess)

    for module in (jobs, session):
        monkeypatch.setattr(module, "solve", unproven)
    model = SVC(**parameters).fit(X, y)
    are_certified(model, X, y)
    for one, other in zip(model.certificate_, known.certificate_, strict=True):
        assert (one.primal > 1.005 * other.primal) or not is_guess
        assert one.primal <= 1.02 * other.primal or is_guess
        assert one.dual <= other.primal * (1.0 + 1e-6)


def test_a_hard_pair_begins_where_the_fit_began(rng, monkeypatch):
    X, y = overlapping(rng, 3, 40)
    X[y == 0] += 10.0  # the last pair alone is hard
    starts, init = [], SMO.init

    def seen(self, problem, rng=None, duals=None, **more):
        if problem.dtype == np.float32:
            starts.append(duals)
        return init(self, problem, rng, duals=duals, **more)

    monkeypatch.setattr(SMO, "init", seen)
    model = SVC(kernel="linear", C=1e4, tol=1e-2, warm_start=True).fit(X, y)
    assert starts == [None]
    starts.clear()
    beta = np.zeros((2, 120))
    beta[:, model.support_] = model.dual_coef_
    model.set_params(tol=1e-6, max_iter=5).fit(X, y)
    assert len(starts) == 1
    np.testing.assert_allclose(starts[0], np.concatenate([beta[1, y == 1], beta[1, y == 2]]), rtol=1e-6)


def test_pairs_are_treated_roughly_first_and_then_to_the_end(rng):
    X, y = data(rng, size=8)
    order, ends = np.argsort(y, kind="stable"), np.cumsum(np.bincount(y))
    weights = rng.uniform(0.5, 2.0, y.size)
    whole = KernelProblem(
        RBF(0.5), DenseRows(X[order]), np.zeros(y.size), losses.Single(losses.Hinge()), 1.0, weights
    )  # fmt: skip
    problem, solver = PairsProblem(whole, ends, 50.0, 0.0), PairwiseSMO(tol=1e-6)
    state = solver.init(problem)
    at_zero = state.results.primal.copy()
    sums = np.add.reduceat(weights, ends - np.diff(ends, prepend=0))
    for p, (i, j) in enumerate(combinations(range(K), 2)):
        least = min(sums[i] * max(0.0, 1.0 - b) + sums[j] * max(0.0, 1.0 + b) for b in (-1.0, 0.0, 1.0))
        assert at_zero[p] == pytest.approx(50.0 * least)
    while state.done < problem.n_pairs:
        solver.rough().advance(problem, state, 10**6)
    rough, spent = state.results.primal.copy(), state.counters.kernel_evals
    np.testing.assert_array_equal(solver.init(problem).results.bias, [
        np.sign(sums[i] - sums[j]) for i, j in combinations(range(K), 2)
    ])  # fmt: skip
    state = solver.again(state)
    assert state.counters.kernel_evals == spent > 0
    while state.done < problem.n_pairs // 2:
        solver.advance(problem, state, 13)
    solver.settle(problem, state)
    assert (state.results.primal <= at_zero * (1.0 + 1e-9)).all()
    done = np.zeros(problem.n_pairs, bool)
    for k in range(state.done):  # pairs come by their second class
        j = int((1 + math.isqrt(8 * k + 1)) // 2)
        i = k - j * (j - 1) // 2
        done[list(combinations(range(K), 2)).index((i, j))] = True
    assert (state.results.primal[done] <= np.minimum(rough, at_zero)[done] * (1.0 + 1e-5)).all()
    np.testing.assert_allclose(state.results.primal[~done], np.minimum(rough, at_zero)[~done], rtol=1e-9)


def test_ctrl_c_after_training_does_not_lose_the_pairs(rng, monkeypatch):
    X, y = data(rng)
    monkeypatch.setattr(SVC, "_adopt", _after(SVC._adopt, lambda: signal.raise_signal(signal.SIGINT)))
    model = SVC().fit(X, y)
    assert model.stop_reason_ == "interrupted"
    assert model.score(X, y) > 2 / K


def _after(method, first):
    def call(self, *args):
        first()
        return method(self, *args)

    return call


def test_a_pair_is_the_problem_of_smo(rng):
    X, y = data(rng)
    i, j = 3, 11
    own = (y == i) | (y == j)
    model = SVC(gamma=0.5, tol=1e-8).fit(X, y)
    p = list(combinations(range(K), 2)).index((i, j))
    alone = SVC(gamma=0.5, tol=1e-8, solver=SMO()).fit(X[own], y[own] == i)
    np.testing.assert_allclose(model.certificate_[p].primal, alone.certificate_.primal, rtol=1e-6)


def test_machines_of_many_classes_can_be_compressed(rng):
    X, y = data(rng)
    model = SVC(gamma=0.5).fit(X, y)
    small = compress(model, model.support_.size // 2)
    assert small.support_vectors_.shape[0] == model.support_.size // 2
    assert np.mean(small.predict(X) == model.predict(X)) > 0.5


def test_too_few_rounds_are_said(rng):
    X, y = data(rng)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = SVC(C=100.0, tol=1e-9, max_iter=1).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    assert model.n_iter_.max() == 1
