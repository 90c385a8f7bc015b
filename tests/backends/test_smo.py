"""The exact solver on a device finds the optimum that the CPU's finds, with a true certificate."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import solvers
from widemargin.core.kernels.kernels import as_kernel
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_matrix, as_rows, take_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import load_state, run, save_state

HINGE, TUBE = losses.Single(losses.Hinge()), losses.Single(losses.EpsilonInsensitive(0.1))
#: Triton's interpreter takes milliseconds for a move.
N, TOL = 90, 1e-2


def problem(rng, kernel="rbf", *, target=HINGE, intercept="unregularized", dtype=np.float64, sparse=False, offset=0.0):
    X = rng.normal(size=(N, 3)).astype(dtype) + dtype(offset)
    scores = X[:, 0] - X[:, 1] + 0.2 * rng.normal(size=N)
    y = scores if target is TUBE else np.where(scores > 0.0, 1.0, -1.0)
    rows = as_rows(sp.csr_matrix(X * (np.abs(X) > 0.5)) if sparse else X)
    s = rng.uniform(0.5, 2.0, N)
    made = as_kernel(kernel, 0.5, 2, 1.0)
    return KernelProblem(made, rows, y, target, 1.0 / N, s, intercept, cache_bytes=70 * 4.0 * N)


def solved(kind, problem, **parameters):
    solver = solvers.make(kind, "smo", tol=TOL, **parameters)
    outcome = run(solver, problem, rng=np.random.default_rng(0), max_epochs=500, tol=TOL)
    return outcome, solver.certificate(problem, outcome.state)


CASES = {
    "rbf": {},
    "float32, far from the origin": {"dtype": np.float32, "offset": 1e3},
    "sparse": {"sparse": True, "intercept": "none"},
    "linear, a regularised intercept": {"kernel": "linear", "intercept": "regularized"},
    "poly": {"kernel": "poly"},
    "laplacian": {"kernel": "laplacian"},
    "regression": {"target": TUBE},
}


def primal_in_float64(given, model):
    """The objective of a model from its scores of float64 rows."""
    rows = as_rows(as_matrix(given.X).astype(np.float64))
    scores = replace(model, vectors=take_rows(rows, model.support)).decision_function(rows)[:, 0]
    f = scores[model.support] - model.intercept[0]
    return given.value(scores[None], model.coef @ f)


@pytest.mark.interpreted
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("working_set", [32, 256])
def test_it_reaches_the_optimum_of_the_cpu_with_a_true_certificate(case, working_set, rng, device):
    given = problem(rng, **CASES[case])
    outcome, certificate = solved("device", given, device=device, working_set=working_set)
    ours, exact = solved("kernel", given)
    assert outcome.stop_reason == ours.stop_reason == "tol"
    # each dual value is a lower bound of each primal one, up to errors of float32 kernel values
    slack = 1e-5 * exact.primal
    assert max(certificate.dual, exact.dual) <= min(certificate.primal, exact.primal) + slack
    assert certificate.gap <= TOL * certificate.primal
    # the certificate from kernel values in float64, with no part of the solver
    model = outcome.model
    primal = primal_in_float64(given, model)
    assert primal == pytest.approx(certificate.primal, rel=1e-5)
    assert certificate.dual <= primal + slack


def test_scores_are_those_of_the_cpu_and_do_not_depend_on_the_rows_beside_them(rng, device):
    from widemargin.backends.scoring import scores

    for kernel in ("rbf", "laplacian", "poly", "sigmoid", "linear"):
        given = problem(rng, kernel)
        beta = rng.normal(size=(2, N)) * (rng.random(N) < 0.5)
        model = given.model(beta, np.array([0.5, -0.5]))
        found, own = scores(model, given.X, device=device), model.decision_function(given.X)
        np.testing.assert_allclose(found, own, atol=1e-5 * (1.0 + np.abs(own).max()))
        np.testing.assert_array_equal(scores(model, as_rows(given.X.values[3:4]), device=device)[0], found[3])


@pytest.mark.parametrize("sparse", [False, True])
def test_scores_of_one_gaussian_machine_are_summed_as_they_are_made(sparse, rng, device, monkeypatch):
    from widemargin.backends import scoring

    # more vectors than one program has, and blocks that an interpreter gets through
    for name, size in (("WIDE", 32), ("MOST", 128), ("BLOCK", 128)):
        monkeypatch.setattr(scoring, name, size)
    given = problem(rng, dtype=np.float32, sparse=sparse, intercept="regularized")
    model = given.model(rng.normal(size=(1, N)) * (rng.random(N) < 0.9), np.array([0.5]))
    assert scoring.Block(model, given.X, None, device).summed
    found, own = scoring.scores(model, given.X, device=device), model.decision_function(given.X)
    np.testing.assert_allclose(found, own, atol=1e-5 * np.abs(model.coef).sum())
    wide = given.X._replace(**{"data" if sparse else "values": given.X[0].astype(np.float64)})  # as rows may be given
    np.testing.assert_allclose(scoring.scores(model, wide, device=device), own, atol=1e-5 * np.abs(model.coef).sum())


def test_a_working_set_is_a_power_of_two(rng, device):
    with pytest.raises(ValueError, match="working_set must be a power of two ≥ 16, got 100"):
        solvers.make("device", "smo", working_set=100, device=device).init(problem(rng), rng)


@pytest.mark.interpreted
@pytest.mark.parametrize("case", ["rbf", "regression", "sparse"])
def test_of_many_examples_a_sample_is_solved_first(case, rng, device, monkeypatch):
    from widemargin.backends import smo

    monkeypatch.setattr(smo, "LARGE", N)
    given = problem(rng, **CASES[case])
    exact = solved("kernel", given)[1]
    solver = solvers.make("device", "smo", tol=TOL, device=device, working_set=32, sample=2)
    ends = []
    for step in (1, 1000):
        state = solver.init(given, np.random.default_rng(0))
        assert state.sample is not None
        assert not solver.knows(state)
        assert solver.glimpse(given, state, np.inf) is None
        seen = []
        while state.sample is not None:  # a stop in the middle has a model with a true certificate
            seen.append(solver.certificate(given, state) if step == 1 else exact)
            solver.advance(given, state, step)
            state.drop_workspace()
        assert all(
            each.dual <= exact.primal * (1.0 + 1e-5) and each.primal >= exact.dual * (1.0 - 1e-5) for each in seen
        )
        before = state.dual
        while not state.ended:
            solver.advance(given, state, step)
        assert state.dual >= before
        assert solver.certificate(given, state).gap <= TOL * exact.primal
        ends.append(state.alpha)
    np.testing.assert_array_equal(*ends)


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", ["classes", "regression"])
def test_active_sets_lead_to_the_optimum_of_the_whole(kind, device, monkeypatch, tmp_path):
    from widemargin.backends import smo

    rng = np.random.default_rng(4)  # of some other draws all examples stay active

    monkeypatch.setattr(smo, "LARGE", 60)
    monkeypatch.setattr(smo, "PAUSE", 1)
    n, bias = 120, "unregularized" if rng.random() < 0.5 else "regularized"
    # most examples are far from the margin, or well inside the tube
    X, few = rng.normal(size=(n, 2)), np.arange(n) < 20
    X[:, 0] = np.where(few, X[:, 0], 10.0 * np.sign(X[:, 0]) + 0.2 * X[:, 0])
    y, target = np.sign(X[:, 0] + few * 0.5 * rng.normal(size=n)), HINGE
    if kind == "regression":
        y, target = 0.1 * X[:, 0] + few * rng.normal(size=n), losses.Single(losses.EpsilonInsensitive(0.3))
    given = KernelProblem(
        as_kernel("linear", 0.5, 2, 1.0), as_rows(X), y, target, 0.5 / n, rng.uniform(0.5, 2.0, n), bias,
        cache_bytes=100 * 4.0 * n,
    )  # fmt: skip
    exact = solved("kernel", given)[1]
    start = solvers.make("kernel", "smo", tol=TOL)
    near = start.duals(given, run(start, given, rng=np.random.default_rng(0), max_epochs=500, tol=TOL).state)
    near = near * rng.uniform(0.95, 1.0, n)
    solver = solvers.make("device", "smo", tol=TOL, device=device, working_set=16)
    ends, episodes = [], []
    for step in (1, 1000):
        state, count = solver.init(given, np.random.default_rng(0), near), 0
        while not state.ended:
            before, known = state.dual, state.episode
            solver.advance(given, state, step)
            assert known is None or state.episode is not None or solver.at_checkpoint(state)  # all responses are known
            if state.episode is not None:
                count += state.episode is not known
                rows = state.episode.rows
                assert np.unique(rows).size == rows.size <= n // 2
                assert not solver.knows(state)
                assert solver.glimpse(given, state, np.inf) is None
                if step == 1:  # a stop in the middle: a model with the certificate of its own responses
                    whole = solver.certificate(given, state)
                    assert whole.dual >= given.lam * before * (1.0 - 1e-6)
                    assert whole.dual <= exact.primal * (1.0 + 1e-5)
                    model = solver.model(given, state)
                    assert primal_in_float64(given, model) == pytest.approx(whole.primal, rel=1e-5)
                save_state(tmp_path / "state", state)
                state = load_state(tmp_path / "state")
        assert solver.certificate(given, state).gap <= TOL * exact.primal
        ends.append((state.alpha, state.f, state.counters))
        episodes.append(count)
    np.testing.assert_array_equal(ends[0][0], ends[1][0])
    np.testing.assert_array_equal(ends[0][1], ends[1][1])
    assert ends[0][2].kernel_evals == ends[1][2].kernel_evals
    assert episodes[0] >= 1


def narrowed(solver, given, beta):
    """A state with a start whose active set was chosen, if there is one."""
    state = solver.init(given, np.random.default_rng(0), beta)
    assert state.fresh
    solver._narrow(given, state)
    return state


@pytest.mark.parametrize("case", ["rbf", "linear, a regularised intercept", "regression"])
def test_an_active_set_has_all_that_are_free_or_violate_and_its_own_responses(case, rng, device, monkeypatch):
    from widemargin.backends import smo
    from widemargin.solvers.smo.dual import Variables

    monkeypatch.setattr(smo, "LARGE", N)
    given = problem(rng, **CASES[case])
    # most examples have no weight, and cannot move, however wrong they are
    given = replace(given, sample_weight=given.sample_weight * (np.arange(N) < N // 4))
    solver = solvers.make("device", "smo", tol=TOL, device=device, working_set=16)
    state = narrowed(solver, given, (given.y * rng.random(N))[None])
    v, (rows, own) = Variables.of(given), (state.episode.rows, state.episode.state)
    s = v.sigma * (v.h - state.f[v.row] - state.bias)
    violates = (state.alpha < v.cap) & (s > 0.0) | (state.alpha > 0.0) & (s < 0.0)
    wanted = np.unique(v.row[violates | (state.alpha > 0.0) & (state.alpha < v.cap)])
    assert np.isin(wanted, rows).all()
    assert rows.size == max(2 * wanted.size, 32)
    active = v.signed(state.alpha * np.isin(v.row, rows))
    responses = given.model(active, np.zeros(1)).decision_function(given.X)[rows, 0]
    slack = 1e-5 * (1.0 + np.abs(state.f).max())
    np.testing.assert_allclose(own.f, responses, atol=slack)
    np.testing.assert_allclose(state.episode.rest + own.f, state.f[rows], atol=slack)
    assert own.target >= 0.1 * (state.primal - state.dual)
    # what it changes does not change the state that it was chosen for
    before = state.alpha.copy()
    own.alpha += 1.0
    np.testing.assert_array_equal(state.alpha, before)


def test_what_a_sample_comes_to_counts_the_active_set_that_it_works_on(rng, device, monkeypatch):
    from widemargin.backends import smo

    monkeypatch.setattr(smo, "LARGE", N)
    given = problem(rng)
    solver = solvers.make("device", "smo", tol=TOL, device=device, working_set=16, sample=2)
    state = solver.init(given, np.random.default_rng(0))
    part = solver._sampled(given, state)
    own = state.sample
    rows = np.arange(0, part.n, 2)
    inner = smo.DeviceSMOState(0.5 * part.caps[rows] / N, np.zeros(rows.size), 0)
    own.episode = smo.Episode(rows, np.zeros(rows.size), inner)
    found = solver.duals(given, state)
    assert found.any()
    state.sample, state.lifted = solver._roughly()._whole(part, own), None
    np.testing.assert_array_equal(solver.duals(given, state), found)


def test_what_is_beyond_the_bounds_goes_to_those_whom_the_machine_of_the_sample_has_most_wrong(
    rng, device, monkeypatch
):
    from widemargin.backends import smo

    monkeypatch.setattr(smo, "LARGE", N)
    given = problem(rng, intercept="none")
    solver = solvers.make("device", "smo", tol=TOL, device=device, working_set=16, sample=2)
    state = solver.init(given, np.random.default_rng(0))
    part, rows, rough = solver._sampled(given, state), solver._chosen(given, state), solver._roughly()
    # some of the sample at its bounds, which are twice as large as those of the whole
    state.sample = rough.init(part, rng, (part.y * part.caps * (rng.random(part.n) < 0.5))[None])
    wrong = 1.0 - given.y * rough.model(part, state.sample).decision_function(given.X)[:, 0]
    alpha = given.y * solver.duals(given, state)[0]
    for sign in (1.0, -1.0):
        others = (given.y == sign) & ~np.isin(np.arange(N), rows)
        got, without = wrong[others & (alpha > 0.0)], wrong[others & (alpha == 0.0)]
        assert got.min(initial=np.inf) >= without.max(initial=-np.inf) - 1e-4


def test_a_sample_is_never_empty(rng, device, monkeypatch):
    from widemargin.backends import smo

    monkeypatch.setattr(smo, "LARGE", N)
    state = solvers.make("device", "smo", device=device, sample=N + 1).init(problem(rng), rng)
    assert state.sample.alpha.size == 1


def test_what_a_sample_has_beyond_the_bounds_goes_to_those_most_wrong(rng):
    pytest.importorskip("triton")
    from widemargin.backends.smo import spread
    from widemargin.solvers.smo.dual import Variables

    sigma, cap, wrong = rng.choice([-1.0, 1.0], 50), rng.uniform(0.5, 2.0, 50), rng.normal(size=50)
    start = cap * rng.choice([0.0, 0.5, 1.0], 50)
    mass = {sign: rng.uniform(0.0, 1.2) * (cap - start)[sigma == sign].sum() for sign in (1.0, -1.0)}
    alpha = spread(start, mass, Variables(sigma, sigma, cap, np.arange(50)), wrong)
    assert ((alpha >= start) & (alpha <= cap + 1e-12)).all()
    for sign, more in mass.items():
        own = sigma == sign
        assert (alpha - start)[own].sum() == pytest.approx(min(more, (cap - start)[own].sum()))
        changed, kept = own & (alpha > start), own & (alpha == start) & (start < cap)
        assert wrong[changed].min(initial=np.inf) >= wrong[kept].max(initial=-np.inf)
        assert np.count_nonzero(alpha[changed] < cap[changed] - 1e-12) <= 1


@pytest.mark.interpreted
def test_rounds_are_counted_once(rng, device):
    given = problem(rng)
    solver = solvers.make("device", "smo", tol=1e-9, device=device, working_set=32)
    state = solver.init(given, np.random.default_rng(0))
    taken = solver.advance(given, state, 2)
    assert taken == state.counters.steps == 2
    assert state.counters.visits == 2 * 32


def degenerate(rng, case):
    """(kernel, X, y, weights, C) of a problem that is at an edge."""
    X, s, C, kernel = rng.normal(size=(24, 2)), np.ones(24), 1.0, as_kernel("rbf", 0.5, 2, 1.0)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=24) > 0.0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    if case == "rows twice, with either label":
        X, y = np.repeat(X[:12], 2, axis=0), np.tile([-1.0, 1.0], 12)
    elif case == "all rows the same":
        X = np.repeat(X[:1], 24, axis=0)
    elif case == "weights of zero":
        s = rng.integers(0, 2, 24).astype(float)
        s[:2] = 1.0
    elif case == "one example of a class":
        y[:] = -1.0
        y[3] = 1.0
    elif case == "an indefinite kernel":
        kernel = as_kernel("sigmoid", 1.0, 2, -1.0)
    elif case == "a large C":
        C = 1e4
    elif case == "a small C":
        C = 1e-6
    return kernel, X, y, s, C


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "case",
    [
        "rows twice, with either label", "all rows the same", "weights of zero", "one example of a class",
        "an indefinite kernel", "a large C", "a small C",
    ],
)  # fmt: skip
def test_edges_end_at_points_that_are_optimal_up_to_their_gap(case, rng, device):
    kernel, X, y, s, C = degenerate(rng, case)
    given = KernelProblem(kernel, as_rows(X), y, HINGE, 1.0 / (C * y.size), s, "unregularized", cache_bytes=1e6)
    solver = solvers.make("device", "smo", tol=TOL, device=device, working_set=16)
    outcome = run(solver, given, rng=np.random.default_rng(0), max_epochs=200, tol=TOL)
    state, certificate = outcome.state, solver.certificate(given, outcome.state)
    alpha, cap = state.alpha, given.caps
    assert ((alpha >= 0.0) & (alpha <= cap)).all()
    assert abs(y @ alpha) <= 1e-9 * (1.0 + alpha.sum())
    if case == "an indefinite kernel":  # which has no dual; a point of rest is all that can be asked
        assert outcome.stop_reason in ("tol", "stalled", "max_iter")
        return
    assert outcome.stop_reason == "tol"
    assert certificate.gap <= TOL * certificate.primal
    # what each variable lacks of complementary slackness is no less than 0, and adds up to the gap
    f = kernel.of_array(np, np.square(X[:, None] - X[None]).sum(-1)) @ (y * alpha)
    slack = y * (y - f - state.bias)
    lacks = cap * np.maximum(slack, 0.0) - alpha * slack
    noise = 1e-5 * (1.0 + cap.max() * (1.0 + np.abs(f).max()))
    assert lacks.min() >= -noise
    assert lacks.sum() == pytest.approx(state.primal - state.dual, abs=noise * y.size)
