"""The interior-point solver: its optimum against others' and by its conditions, on features of any size."""

import copy
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from tests.reference import interior as reference

from widemargin import SDCA, Interior, LinearSVC, LinearSVR
from widemargin.core.losses.losses import (
    EpsilonInsensitive,
    Hinge,
    Log,
    MulticlassHinge,
    OneVsRest,
    Single,
    SquaredEpsilon,
    SquaredHinge,
)
from widemargin.core.rows.rows import as_rows
from widemargin.core.threads.interrupts import Interrupts
from widemargin.problems.linear import Problem
from widemargin.problems.parts import in_parts
from widemargin.running import run
from widemargin.solvers import interior
from widemargin.solvers.interior import MEASURES, LocalParts, Part, Variables, some_of

#: Those that Mehrotra's steps solve, and all.
BOXED = [Hinge(), SquaredHinge(), EpsilonInsensitive(0.2), SquaredEpsilon(0.2)]
LOSSES = [*BOXED, Log()]
INTERCEPTS = ["none", "regularized", "unregularized"]
by_name = {"ids": lambda value: type(value).__name__ if hasattr(value, "_fields") else str(value)}


def make(rng, loss, n=60, d=4, *, C=3.0, intercept="none", weighted=False, sizes=1.0):
    X = rng.normal(size=(n, d)) + 1.0
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    if isinstance(loss, (Hinge, SquaredHinge, Log)):
        y = np.where(y > np.median(y), 1.0, -1.0)
    weights = rng.uniform(0.0, 2.0, n) * (rng.random(n) > 0.1) if weighted else np.empty(0)
    return Problem(as_rows(X * sizes), y, Single(loss), 1.0 / (C * n), weights, intercept)


def cut(problem, n_parts, variables=None):
    """The examples in so many consecutive parts, with these variables, changed in place, or with the first ones."""
    ends, parts = np.linspace(0, problem.n, n_parts + 1).astype(int).tolist(), []
    for rows in map(slice, ends[:-1], ends[1:]):
        own = None if variables is None else Variables(*(array[:, rows] for array in variables))
        parts.append(Part(some_of(problem, rows), problem.C, own, problem.scale))
    return LocalParts(parts)


def solved(problem, tol=1e-8):
    outcome = run(Interior(), problem, tol=tol, max_epochs=100)
    assert outcome.stop_reason == "tol"
    return outcome


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", ["none", "regularized"])
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_the_optimum_is_that_of_dual_ascent(loss, intercept, weighted, rng):
    problem = make(rng, loss, intercept=intercept, weighted=weighted)
    ours, theirs = solved(problem), run(SDCA(), problem, rng=rng, tol=1e-6, max_epochs=1e6)
    assert theirs.stop_reason == "tol"
    assert ours.objective == pytest.approx(theirs.objective, rel=2e-6)
    np.testing.assert_allclose(ours.W, theirs.W, atol=1e-2 * np.abs(theirs.W).max())


@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_with_a_free_intercept_no_step_in_any_direction_is_better(loss, rng):
    problem = make(rng, loss, intercept="unregularized", weighted=True)
    outcome = solved(problem)
    best = outcome.objective
    for _ in range(50):
        change = rng.normal(size=(problem.d + 1)) * 10.0 ** rng.uniform(-4, 0)
        W, b = outcome.W + change[:-1, None], outcome.b + change[-1]
        assert problem.primal(W, b) >= best * (1.0 - 1e-8)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_the_gap_bounds_the_distance_to_the_optimum_after_every_step(loss, intercept, rng):
    problem = make(rng, loss, intercept=intercept, weighted=True)
    best = solved(problem).objective
    solver = Interior()
    state = solver.init(problem)
    for _ in range(12):
        primal, dual, gap = solver.certificate(problem, state)
        assert dual <= best * (1.0 + 1e-9)
        assert gap >= primal - best - 1e-9 * best
        solver.advance(problem, state, 5)
    assert state.counters.steps == 12 or state.stalled


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", LOSSES, **by_name)
def test_features_of_very_different_sizes_are_no_hindrance(loss, intercept, rng):
    """Without regularisation to speak of, the objective does not depend on the units of the features."""
    seed = int(rng.integers(2**32))
    sizes = 10.0 ** np.array([0.0, 2.0, 4.0, 6.0])
    plain, raw = (
        solved(make(np.random.default_rng(seed), loss, n=300, C=1e4, intercept=intercept, sizes=size), 1e-6)
        for size in (1.0, sizes)
    )
    assert raw.history["steps"][-1] <= 60
    assert raw.objective <= plain.objective * (1.0 + 1e-4)


def test_sparse_rows_several_classes_and_float32_have_the_same_optimum(rng):
    X, y = rng.normal(size=(90, 5)).astype(np.float32), rng.integers(0, 3, 90)
    X[rng.random(X.shape) < 0.5] = 0.0
    target, lam = OneVsRest(Hinge(), np.ones(3)), 1.0 / 90
    problems = [
        Problem(as_rows(rows), y.astype(float), target, lam, np.empty(0), "regularized", 3)
        for rows in (X, sp.csr_matrix(X), X.astype(np.float64))
    ]
    outcomes = [solved(problem, 1e-6) for problem in problems]
    apart = [
        solved(Problem(as_rows(X), np.where(y == c, 1.0, -1.0), Single(Hinge()), lam, np.empty(0), "regularized"), 1e-6)
        for c in range(3)
    ]
    for outcome in outcomes:
        assert outcome.objective == pytest.approx(sum(part.objective for part in apart), rel=1e-5)


def test_what_it_cannot_solve_is_a_sentence(rng):
    problem = make(rng, Hinge())
    with pytest.raises(ValueError, match="as many equations as there are features, at most 3, got 4"):
        Interior(max_features=3).init(problem)
    with pytest.raises(ValueError, match="the intercepts 'regularized', 'unregularized' and 'none', got 'exact'"):
        Interior().init(make(rng, Hinge(), intercept="exact"))
    y, joint = np.where(problem.y > 0, 1.0, 0.0), MulticlassHinge(1.0 - np.eye(2))
    with pytest.raises(ValueError, match="has the log-loss, the hinge, the ε-insensitive loss and their squares"):
        Interior().init(Problem(problem.X, y, joint, 0.1, np.empty(0), "none", 2))


def test_estimators_solve_raw_features_and_dual_ascent_names_the_solver_that_does(rng):
    X = rng.normal(size=(400, 3)) * [1.0, 1e3, 1e6] + [0.0, 1e4, 1e6]
    y = X @ [1.0, 1e-3, 1e-6] + 0.1 * rng.normal(size=400)
    with pytest.warns(ConvergenceWarning, match="solver='interior'"):
        LinearSVR(solver="sdca", max_iter=20).fit(X, y)
    model = LinearSVR(solver="interior", tol=1e-6).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert model.certificate_.relative_gap <= 1e-6
    assert model.score(X, y) > 0.9
    assert not hasattr(model, "partial_fit")
    labels = np.where(y > np.median(y), "yes", "no")
    classifier = LinearSVC(C=100.0, solver=Interior(), intercept="unregularized", warm_start=True)
    assert classifier.fit(X, labels).fit(X, labels).score(X, labels) > 0.9


# ---------------------------------------------------------------- the textbook


def as_box(problem):
    """(Z, D, σ, p, u, q) of the variables that have weight, as the header's table has them."""
    loss, y, X = problem.loss, problem.y, problem.X.values
    cap = problem.C * (problem.sample_weight if problem.sample_weight.size else np.ones(y.size))
    constant, signs = problem.intercept != "none", (1.0, -1.0) if loss.is_regression else (1.0,)
    Z = np.hstack([X, np.ones((y.size, 1))]) if constant else X
    D = np.ones(Z.shape[1])
    D[problem.d :] = problem.intercept == "regularized"
    sigma = np.stack([np.full(y.size, s) if loss.is_regression else y for s in signs], axis=1)
    p = sigma * y[:, None] - loss.epsilon if loss.is_regression else np.ones(sigma.shape)
    squared = isinstance(loss, (SquaredHinge, SquaredEpsilon))
    keep = cap > 0.0
    caps = np.repeat(cap[keep], len(signs))
    u, q = (np.full(caps.size, np.inf), 0.5 / caps) if squared else (caps, np.zeros(caps.size))
    return np.repeat(Z[keep], len(signs), axis=0), D, sigma[keep].ravel(), p[keep].ravel(), u, q


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("loss", BOXED, **by_name)
def test_steps_are_those_of_the_textbook_which_eliminates_nothing(loss, intercept, rng):
    problem, solver = make(rng, loss, n=14, d=3, intercept=intercept, weighted=True), Interior()
    state = solver.init(problem)
    for _ in range(6):
        solver.advance(problem, state, 1)
    scale = np.abs(problem.y[problem.sample_weight > 0.0]).max()  # 1 for labels
    w, alpha = reference.steps(*as_box(problem), state.counters.steps, scale)  # fewer where the gap is closed
    own = state.variables.alpha[0, problem.sample_weight > 0.0].ravel()
    np.testing.assert_allclose(state.w[0], w, rtol=1e-6, atol=1e-8 * np.abs(w).max())
    np.testing.assert_allclose(own, alpha, rtol=1e-6, atol=1e-8 * alpha.max())


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_steps_on_the_log_loss_are_newtons_and_never_raise_the_objective(intercept, rng):
    problem, solver = make(rng, Log(), n=30, d=3, intercept=intercept, weighted=True), Interior()
    Z = np.hstack([problem.X.values, np.ones((30, 1))]) if intercept != "none" else problem.X.values
    D, cap, y = np.ones(Z.shape[1]), problem.C * problem.sample_weight, problem.y
    D[3:] = intercept == "regularized"
    state = solver.init(problem)
    before = solver.certificate(problem, state).primal
    while not state.stalled:
        w, p = state.w[0].copy(), 1.0 / (1.0 + np.exp(y * (Z @ state.w[0])))
        newton = np.linalg.solve(np.diag(D) + (Z.T * (cap * p * (1.0 - p))) @ Z, Z.T @ (cap * p * y) - D * w)
        solver.advance(problem, state, 1)
        moved, now = state.w[0] - w, solver.certificate(problem, state)
        length, rounding = (moved @ newton) / (newton @ newton), 1e-12 * np.abs(w).max()  # of w, in the last steps
        assert length * np.abs(newton).max() <= (1.0 + 1e-6) * np.abs(newton).max() + rounding
        np.testing.assert_allclose(moved, length * newton, atol=1e-6 * np.abs(newton).max() + rounding)
        assert now.primal <= before * (1.0 + 1e-13)
        before = now.primal
    assert now.relative_gap <= 1e-12


class InParts(Interior):
    """Data cut into parts of equal size."""

    n_parts = 1

    def parts(self, problem, variables):
        return cut(problem, self.n_parts, variables)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(-40, 40), st.booleans(), st.sampled_from([1, 3]))
def test_targets_of_any_size_take_the_same_steps(seed, power, squared, n_parts):
    """t·y has the weights t·w with t·ε, and t·C where the loss is not squared; a power of 2 rounds nothing."""
    rng, t = np.random.default_rng(seed), 2.0**power
    kind = SquaredEpsilon if squared else EpsilonInsensitive
    problem = make(rng, kind(0.2), intercept="regularized")
    C = problem.C * (1.0 if squared else t)
    larger = replace(problem, y=t * problem.y, target=Single(kind(0.2 * t)), lam=1.0 / (C * problem.n))
    solver = InParts()
    solver.n_parts = n_parts
    states = [solver.init(each) for each in (problem, larger)]
    for _ in range(8):
        for each, state in zip((problem, larger), states):
            solver.advance(each, state, 1)
        np.testing.assert_allclose(states[1].w / t, states[0].w, rtol=1e-9)


# ---------------------------------------------------------------- conditions of the optimum


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), d=st.integers(1, 12), power=st.floats(-3.0, 3.0),
    which=st.integers(0, 4), intercept=st.sampled_from(INTERCEPTS), weighted=st.booleans(),
)  # fmt: skip
def test_the_optimum_meets_its_conditions(seed, n, d, power, which, intercept, weighted):
    """w = Σ βz, α in its box, and no example adds to the gap more than the gap is."""
    rng = np.random.default_rng(seed)
    problem = make(rng, LOSSES[which], n, d, C=10.0**power, intercept=intercept, weighted=weighted)
    outcome = run(Interior(), problem, tol=1e-9, max_epochs=200)
    gap = outcome.history["gap"][-1] / problem.lam  # in the C-form
    beta, scores = Interior().duals(problem, outcome.state)[0], problem.X.values @ outcome.W[:, 0] + outcome.b[0]
    # what each example adds to the gap by Fenchel and Young is at least 0, and together with ½‖w − w(β)‖² it is the gap
    at_most = gap + 1e-9 * max(1.0, problem.at_zero()[0] / problem.lam)
    sums = np.array([beta @ (beta > 0.0), -beta @ (beta < 0.0)])
    factors = np.divide(sums.min(), sums, out=np.ones(2), where=sums > 0.0) if intercept == "unregularized" else (1, 1)
    w = problem.X.values.T @ (beta * np.where(beta > 0.0, *factors))  # the gap is that of a sum of 0
    assert np.sum((w - outcome.W[:, 0]) ** 2) <= 2.0 * at_most + 1e-6 * np.sum(w**2)
    cap = problem.C * (problem.sample_weight if problem.sample_weight.size else np.ones(n))
    squared, hinge = isinstance(problem.loss, (SquaredHinge, SquaredEpsilon)), isinstance(problem.loss, Hinge)
    assert squared or (np.abs(beta) <= cap * (1.0 + 1e-12)).all()
    if hinge and intercept != "unregularized":
        margins, alpha = problem.y * scores, problem.y * beta
        added = cap * np.maximum(0.0, 1.0 - margins) - alpha * (1.0 - margins)
        assert (added >= -1e-9 * cap * (1.0 + np.abs(margins))).all()
        assert added.sum() <= at_most + 1e-6 * np.abs(alpha).sum()
    if intercept == "unregularized":
        assert abs(beta.sum()) <= 1e-6 * np.abs(beta).sum() + 1e-9 * cap.sum()


def degenerate(rng, name):
    X, y = rng.normal(size=(40, 3)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    C, s = 1.0, np.empty(0)
    if name == "one feature":
        X = X[:, :1]
    elif name == "constant columns":
        X[:, 1:] = 2.0
    elif name == "features of zeros":
        X[:, 1:] = 0.0
    elif name == "rows twice":
        X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    elif name == "rows twice with both labels":
        X, y = np.repeat(X, 2, axis=0), np.tile([1.0, -1.0], 40)
    elif name == "tiny C":
        C = 1e-9
    elif name == "separable, huge C":
        X[:, 0], C = y * (1.0 + np.abs(X[:, 0])), 1e8
    elif name == "more features than rows":
        X = rng.normal(size=(40, 90))
    elif name == "one row of weight":
        s = np.zeros(40)
        s[7] = 3.0
    return Problem(as_rows(X), y, Single(Hinge()), 1.0 / (C * y.size), s, "regularized")


@pytest.mark.parametrize(
    "name",
    ["one feature", "constant columns", "features of zeros", "rows twice", "rows twice with both labels", "tiny C",
     "separable, huge C", "more features than rows", "one row of weight"],
)  # fmt: skip
def test_degenerate_data_has_the_optimum_of_dual_ascent(name, rng):
    problem = degenerate(rng, name)
    ours, theirs = solved(problem), run(SDCA(), problem, rng=rng, tol=1e-7, max_epochs=1e5)
    apart = ours.objective - theirs.objective
    assert abs(apart) <= 1e-8 * ours.objective + max(0.0, theirs.history["gap"][-1]) + 1e-14


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_nobody_has_weight_or_all_have_one_label(intercept, rng):
    X = rng.normal(size=(20, 2))
    for y, s in ((np.ones(20), np.empty(0)), (np.where(X[:, 0] > 0, 1.0, -1.0), np.zeros(20))):
        outcome = run(Interior(), Problem(as_rows(X), y, Single(Hinge()), 0.05, s, intercept), tol=1e-6, max_epochs=60)
        assert np.isfinite(outcome.W).all()
        assert np.isfinite(outcome.b).all()
        if not s.size and intercept == "unregularized":
            assert outcome.objective <= 1e-6


@pytest.mark.parametrize("at", ["predict", "correct", "weigh"])
def test_ctrl_c_within_a_long_step_leaves_the_point_before_it(at, rng, monkeypatch):
    problem, kept, pressed = make(rng, Hinge(), intercept="unregularized"), getattr(interior.Part, at), []

    def interrupted(self, *given):
        if not pressed:
            pressed.append(signal.raise_signal(signal.SIGINT))
        return kept(self, *given)

    plain = solved(problem)
    monkeypatch.setattr(interior, "LONG", 0)
    state = Interior().init(problem)
    Interior().advance(problem, state, 2)
    before = copy.deepcopy(state)
    monkeypatch.setattr(interior.Part, at, interrupted)
    with Interrupts() as own:
        assert Interior().advance(problem, state, 1) == 0
        assert own.seen
    assert state.counters == before.counters
    for name in ("w", "combined", "measures"):
        np.testing.assert_array_equal(getattr(state, name), getattr(before, name))
    for each in (state, before):
        Interior().advance(problem, each, 2)
    np.testing.assert_array_equal(state.w, before.w)
    assert run(Interior(), problem, state=state, tol=1e-8, max_epochs=100).objective == pytest.approx(
        plain.objective, rel=1e-7
    )


@pytest.mark.parametrize("blocks", [0, 7, 100])
def test_a_limit_of_time_within_a_long_step_gives_the_point_before_it(blocks, rng, monkeypatch):
    """The clock is the number of blocks of rows that were read, of which the first step reads 240."""
    problem, read, of_part = make(rng, Hinge(), intercept="unregularized"), [0.0], interior.Part._blocks

    def counted(part):
        for block in of_part(part):
            yield block
            read[0] += 1.0

    monkeypatch.setattr(interior, "LONG", 0)
    monkeypatch.setattr(interior, "ENTRIES_AT_ONCE", 1)  # a row at a time
    monkeypatch.setattr(interior.Part, "_blocks", counted)
    monkeypatch.setattr(time, "perf_counter", lambda: read[0])
    outcome = run(Interior(), problem, tol=1e-8, max_epochs=100, max_seconds=blocks)
    assert outcome.stop_reason == "max_seconds"
    assert read[0] == blocks
    assert outcome.state.counters.steps == 0
    assert outcome.objective == pytest.approx(problem.at_zero()[0], rel=1e-12)
    assert 0.0 <= outcome.dual <= outcome.objective
    assert not outcome.W.any()
    monkeypatch.undo()
    assert run(Interior(), problem, state=outcome.state, tol=1e-8, max_epochs=100).stop_reason == "tol"


# ---------------------------------------------------------------- parts


@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.2), SquaredEpsilon(0.2)], **by_name)
def test_parts_start_at_the_scale_of_all_targets_that_have_weight(loss, rng):
    problem = make(rng, loss, n=60, intercept="regularized", weighted=True)
    problem.y[0], problem.sample_weight[0] = 1e4, 1.0  # in the first part alone
    problem.y[-1], problem.sample_weight[-1] = 1e30, 0.0
    assert problem.scale == 1e4
    chosen = np.array_split(np.arange(60), 3)
    elsewhere, cut_up = in_parts(problem, chosen), InParts()
    cut_up.n_parts = 3
    assert elsewhere.scale == 1e4
    for part in cut(problem, 3).parts:
        np.testing.assert_array_equal(part.variables.lower, 1e4)
    runs = [(Interior(), problem), (cut_up, problem), (interior.InteriorOnParts(), elsewhere)]
    states = [solver.init(each) for solver, each in runs]
    for _ in range(5):
        for (solver, each), state in zip(runs, states):
            solver.advance(each, state, 1)
        for state in states[1:]:
            np.testing.assert_allclose(state.w, states[0].w, rtol=1e-6, atol=1e-9 * np.abs(states[0].w).max())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), SquaredEpsilon(0.1)], **by_name)
def test_parts_change_nothing_but_roundings_and_what_is_sent_is_counted(loss, sparse, rng):
    problem = make(rng, loss, n=90, d=5, intercept="unregularized", weighted=True)
    if sparse:
        problem = Problem(
            as_rows(sp.csr_matrix(problem.X.values * (rng.random((90, 5)) < 0.2))), problem.y, problem.target,
            problem.lam, problem.sample_weight, "unregularized",
        )  # fmt: skip
    whole = None
    for n_parts in (1, 2, 16, 100):  # of the last, ten have no example
        solver = InParts()
        solver.n_parts = n_parts
        outcome = run(solver, problem, tol=1e-8, max_epochs=60)
        state = outcome.state
        whole = outcome if whole is None else whole
        assert state.counters == whole.state.counters
        np.testing.assert_allclose(state.w, whole.state.w, atol=1e-9 * np.abs(whole.state.w).max())
        steps, width = state.counters.steps, 6
        assert state.trips == 1 + 3 * steps
        out, back = width + 1, width * (width + 1) // 2 + 3 * width + MEASURES  # of weigh
        assert state.bytes_sent == 8 * n_parts * (out + steps * ((width + 2) + (width + 2) + (width + 2)))
        assert state.bytes_received == 8 * n_parts * (back + steps * ((3 + 2 * width) + 1 + back))


@pytest.mark.parametrize("loss", [Hinge(), SquaredEpsilon(0.1), Log()], **by_name)
def test_rows_at_a_time_change_nothing_but_roundings(loss, rng, monkeypatch):
    problem, found = make(rng, loss, intercept="regularized", weighted=True), []
    for entries, n_parts in ((10**6, 1), (12, 1), (10**6, 7)):  # all rows, three, and those of a part
        monkeypatch.setattr(interior, "ENTRIES_AT_ONCE", entries)
        solver = InParts()
        solver.n_parts = n_parts
        state = solver.init(problem)
        for _ in range(6):
            solver.advance(problem, state, 1)
        found.append(state.w)
    for w in found[1:]:
        np.testing.assert_allclose(w, found[0], rtol=1e-9, atol=1e-9 * np.abs(found[0]).max())


def test_a_part_that_was_lost_is_made_again_from_its_variables_and_the_messages_since(rng):
    problem = make(rng, Hinge(), n=60, intercept="unregularized", weighted=True)
    pieces = [some_of(problem, rows) for rows in (slice(0, 25), slice(25, 60))]
    said = []

    class Loses(LocalParts):
        """Loses its second part before every third message."""

        def each(self, method, *message):
            if method in ("weigh", "move"):
                replies = list(super().each(method, *message))
                self.kept, said[:] = self.parts[1].state(), [("weigh", (message[0], message[-1].copy()))]
                return replies
            self.parts[1] = Part(pieces[1], problem.C)
            self.parts[1].restore(self.kept)
            for each, words in said:
                getattr(self.parts[1], each)(*words)
            said.append((method, tuple(word.copy() for word in message)))
            return super().each(method, *message)

    class Elsewhere(Interior):
        """Parts that have their variables themselves."""

        kind = LocalParts

        def parts(self, problem, variables):
            return self.kind([Part(piece, problem.C) for piece in pieces])

    class Unsafe(Elsewhere):
        kind = Loses

    safe, unsafe = (run(solver, problem, tol=1e-8, max_epochs=60) for solver in (Elsewhere(), Unsafe()))
    assert safe.state.w.tobytes() == unsafe.state.w.tobytes()
    assert safe.history["gap"].tobytes() == unsafe.history["gap"].tobytes()


def test_rows_that_are_hardly_sparse_give_what_dense_ones_do(rng):
    problem = make(rng, Hinge(), n=50, d=6)
    both = (
        solved(Problem(as_rows(X), problem.y, problem.target, problem.lam)).state.w
        for X in (problem.X.values, sp.csr_matrix(problem.X.values))
    )
    np.testing.assert_allclose(*both, rtol=1e-12)
