"""The exact solver on a device finds the optimum that the CPU's finds, with a true certificate."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import solvers
from widemargin.core import losses
from widemargin.core.kernels import as_kernel
from widemargin.core.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import run

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
    again = given.certificate_of(given.X, model.support, model.coef[0], float(model.intercept[0]))
    assert again.primal == pytest.approx(certificate.primal, rel=1e-5)
    assert certificate.dual <= again.primal + slack


def test_scores_are_those_of_the_cpu_and_do_not_depend_on_the_rows_beside_them(rng, device):
    from widemargin.backends.scoring import scores

    for kernel in ("rbf", "laplacian", "poly", "sigmoid", "linear"):
        given = problem(rng, kernel)
        beta = rng.normal(size=(2, N)) * (rng.random(N) < 0.5)
        model = given.model(beta, np.array([0.5, -0.5]))
        found, own = scores(model, given.X, device=device), model.decision_function(given.X)
        np.testing.assert_allclose(found, own, atol=1e-5 * (1.0 + np.abs(own).max()))
        np.testing.assert_array_equal(scores(model, as_rows(given.X.values[3:4]), device=device)[0], found[3])


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


def test_the_heavier_side_becomes_lighter_from_one_end(rng):
    pytest.importorskip("triton")
    from widemargin.backends.smo import thinned

    alpha, sigma, order = rng.uniform(0.0, 2.0, 50), rng.choice([-1.0, 1.0], 50), rng.normal(size=50)
    alpha[rng.random(50) < 0.3] = 0.0
    thin = thinned(alpha, sigma, order)
    assert abs(sigma @ thin) <= 1e-12
    assert ((thin >= 0.0) & (thin <= alpha)).all()
    changed = np.flatnonzero(thin != alpha)
    assert len({*sigma[changed]}) <= 1
    if changed.size:
        kept = (sigma == sigma[changed[0]]) & (thin == alpha) & (alpha > 0.0)
        assert order[changed].max() <= order[kept].min(initial=np.inf)
        assert np.count_nonzero(thin[changed]) <= 1


@pytest.mark.interpreted
def test_rounds_are_counted_once(rng, device):
    given = problem(rng)
    solver = solvers.make("device", "smo", tol=1e-9, device=device, working_set=32)
    state = solver.init(given, np.random.default_rng(0))
    taken = solver.advance(given, state, 2)
    assert taken == state.counters.steps == 2
    assert state.counters.visits == 2 * 32
