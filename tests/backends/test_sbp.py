"""The Stochastic Batch Perceptron with kernel rows on a device takes the steps that the CPU's takes."""

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import SVC, StochasticBatchPerceptron, solvers
from widemargin.core.kernels.kernels import as_kernel
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import load_state, run, save_state

HINGE = losses.Single(losses.Hinge())
N, STEPS = 90, 24


def examples(rng, n=N):
    """Numbers of ten bits: inner products of a few are exact in float32, so that rounding cannot change a draw."""
    return rng.integers(-512, 513, size=(n, 4)) / 256.0


def problem(rng, kernel="linear", *, intercept="unregularized", sparse=False, several=False, weighted=False, n=N):
    X = examples(rng, n)
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    if several:
        y = np.stack([y, rng.choice([-1.0, 1.0], n)])
    y[..., :2] = 1.0, -1.0
    s = rng.integers(1, 4, y.shape).astype(float) if weighted else np.empty(0)
    rows = as_rows(sp.csr_matrix(X) if sparse else X)
    made = as_kernel(kernel, 0.5, 2, 1.0)
    if kernel == "precomputed":
        rows = as_rows(np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2)).astype(np.float32))
    return KernelProblem(made, rows, y, HINGE, 1.0 / n, s, intercept, cache_bytes=70 * 4.0 * n)


def both(device, **parameters):
    return solvers.make("device", "sbp", device=device, **parameters), solvers.make("kernel", "sbp", **parameters)


def advanced(solver, given, steps, seed=0):
    state = solver.init(given, np.random.default_rng(seed))
    while state.t < steps:
        solver.advance(given, state, steps - state.t)
    return state


CASES = {
    "free": {},
    "no intercept": {"intercept": "none"},
    "sparse, a regularised intercept": {"sparse": True, "intercept": "regularized"},
    "weighted": {"weighted": True},
    "several, weighted": {"several": True, "weighted": True},
    "several, regularised": {"several": True, "intercept": "regularized"},
    "a table": {"kernel": "precomputed"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("parameters", [{"batch_size": 16}, {"batch_size": 3, "average": "suffix", "step": 0.5}])
def test_the_same_random_numbers_are_the_same_draws_as_on_the_cpu(case, parameters, rng, device):
    given, (ours, theirs) = problem(rng, **CASES[case]), both(device, nu=0.05, **parameters)
    one, two = advanced(ours, given, STEPS), advanced(theirs, given, STEPS)
    np.testing.assert_array_equal(one.drawn, two.drawn)
    for name in ("alpha", "f", "alpha_sum", "f_sum", "level", "norm2", "scale", "total"):
        mine, other = getattr(one, name), getattr(two, name)
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9 * (1.0 + np.abs(other).max()), err_msg=name)
    mine, other = ours.evaluate(given, one, None), theirs.evaluate(given, two, None)
    assert mine == pytest.approx(other, rel=1e-6)
    assert (one.counters.kernel_evals, one.counters.visits) == (two.counters.kernel_evals, two.counters.visits)
    assert 0 < one.counters.kernel_computed <= one.counters.kernel_evals


def test_slices_files_and_a_lost_workspace_change_no_bit(rng, device, tmp_path):
    given, (ours, _) = problem(rng, "rbf", several=True), both(device, nu=0.05)
    whole = advanced(ours, given, STEPS)
    state = ours.init(given, np.random.default_rng(0))
    while state.t < STEPS:
        ours.advance(given, state, min(5, STEPS - state.t))
        ours.model(given, state)
        save_state(tmp_path / "state.npz", state)
        state = load_state(tmp_path / "state.npz")
    np.testing.assert_array_equal(state.f, whole.f)
    np.testing.assert_array_equal(state.alpha_sum, whole.alpha_sum)


def test_more_draws_than_rows_in_the_cache_come_in_parts(rng, device):
    given, (ours, theirs) = problem(rng, n=200), both(device, nu=0.05, batch_size=150)
    given = replace(given, cache_bytes=0.0)
    one, two = advanced(ours, given, 4), advanced(theirs, given, 4)
    np.testing.assert_array_equal(one.drawn, two.drawn)
    np.testing.assert_allclose(one.f, two.f, atol=1e-9 * np.abs(two.f).max())


@pytest.mark.interpreted
@pytest.mark.parametrize("case", ["free", "sparse, a regularised intercept", "weighted", "a table"])
def test_the_c_form_is_handed_over_and_reaches_the_optimum(case, rng, device):
    given, (ours, _) = problem(rng, **CASES[case]), both(device, tol=1e-2)
    outcome = run(ours, given, rng=np.random.default_rng(0), max_epochs=500, tol=1e-2)
    exact = solvers.make("kernel", "smo", tol=1e-3)
    best = run(exact, given, rng=np.random.default_rng(0), max_epochs=500, tol=1e-3)
    assert outcome.stop_reason == best.stop_reason == "tol"
    assert outcome.state.polish is not None
    found, optimum = ours.certificate(given, outcome.state), exact.certificate(given, best.state)
    assert found.gap <= 1e-2 * found.primal
    assert max(found.dual, optimum.dual) <= min(found.primal, optimum.primal) * (1.0 + 1e-5)


@pytest.mark.interpreted
def test_nu_comes_from_a_sample_and_the_first_step_is_that_of_the_cpu(rng, device):
    given, (ours, theirs) = problem(rng, n=160), both(device, batch_size=1)
    one, two = (solver.init(given, np.random.default_rng(0)) for solver in (ours, theirs))
    for solver, state in ((ours, one), (theirs, two)):
        while state.t < 2:
            solver.advance(given, state, 1)
    assert one.sought == two.sought == 1
    np.testing.assert_array_equal(one.order, two.order)
    # both samples are solved to 5 %, from different starts: of a small sum of slacks that leaves nothing
    assert min(one.nu[0], two.nu[0]) > 0.0


def test_several_problems_without_nu_are_refused(rng, device):
    with pytest.raises(ValueError, match="several binary problems together at a given nu, got 2 and nu=None"):
        both(device)[0].init(problem(rng, several=True), rng)


def test_svc_takes_it_by_name_or_configured_and_no_other(rng, stand_in):
    X = examples(rng)
    y = X[:, 0] + 0.5 * rng.normal(size=N) > 0.0
    y[:2] = False, True
    solver = StochasticBatchPerceptron(nu=0.05, batch_size=4)
    # a free intercept would centre the data
    model = SVC(solver=solver, kernel="linear", intercept="regularized", max_iter=2, tol=0.0)
    other = copy.deepcopy(model).fit(X, y)
    model.set_params(device="cuda").fit(X, y)
    assert model.stop_reason_ == other.stop_reason_
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(model.dual_coef_, other.dual_coef_, atol=1e-8 * np.abs(other.dual_coef_).max())
    assert model.history_.last("level") == pytest.approx(other.history_.last("level"), rel=1e-6)
    for refused in ("sdca", "pegasos", solvers.make("kernel", "smo")):
        with pytest.raises(ValueError, match="device='cuda' trains with solver='smo' and 'sbp'"):
            SVC(solver=refused, device="cuda").fit(X, y)


def test_classes_against_the_rest_are_trained_together_at_a_given_nu(rng, stand_in):
    X, y = examples(rng), np.arange(N) % 3
    parameters = {"kernel": "linear", "intercept": "regularized", "max_iter": 1, "tol": 0.0, "multi_class": "ovr"}
    solver = StochasticBatchPerceptron(nu=0.05)
    one, two = (SVC(solver=solver, device=place, **parameters).fit(X, y) for place in ("cuda", "cpu"))
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-5)


@pytest.mark.interpreted
def test_svc_by_name_solves_the_c_form(rng, stand_in):
    X = rng.normal(size=(N, 3))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=N) > 0.0
    y[:2] = False, True
    model, other = SVC(solver="sbp", tol=1e-2, device="cuda").fit(X, y), SVC(tol=1e-2).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-2
    assert model.certificate_.dual <= other.certificate_.primal * (1.0 + 1e-5)
    assert other.certificate_.dual <= model.certificate_.primal * (1.0 + 1e-5)


@pytest.mark.usefixtures("gpu")
class TestOnAGPU:
    def drawn(self, rng, n=4000):
        X = rng.normal(size=(n, 5))
        return X, X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0

    @pytest.mark.parametrize("C", [1.0, 100.0])
    def test_the_c_form_has_the_optimum_of_the_cpu(self, C, rng):
        X, y = self.drawn(rng)
        model, other = (SVC(C, solver="sbp", device=device).fit(X, y) for device in ("cuda", "cpu"))
        assert model.stop_reason_ == "tol"
        assert model.certificate_.relative_gap <= 1e-3
        assert max(model.certificate_.dual, other.certificate_.dual) <= other.certificate_.primal * (1.0 + 1e-5)
        assert model.certificate_.primal <= other.certificate_.primal * (1.0 + 2e-3)

    def test_rows_of_the_gaussian_kernel_lead_to_the_level_of_the_cpu(self, rng):
        X, y = self.drawn(rng)
        solver = StochasticBatchPerceptron(nu=0.05)
        model, other = (
            SVC(solver=solver, gamma=0.3, max_iter=1, tol=0.0, device=device).fit(X, y) for device in ("cuda", "cpu")
        )
        # kernel values differ in their last digits, and a draw may be another one
        for name in ("level", "objective", "norm"):
            assert model.history_.last(name) == pytest.approx(other.history_.last(name), rel=0.02)

    def test_tensors_sparse_rows_and_classes(self, rng):
        import torch

        X, y = self.drawn(rng, 1500)
        solver = StochasticBatchPerceptron(nu=0.05)
        model = SVC(solver=solver, max_iter=1, tol=0.0, device="cuda").fit(X, y)
        tensor = torch.from_numpy(X).cuda()
        again = SVC(solver=solver, max_iter=1, tol=0.0, device="cuda").fit(tensor, y)
        np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
        assert again.predict(tensor).is_cuda
        thin = sp.csr_matrix(X * (np.abs(X) > 1.0))
        assert SVC(solver="sbp", device="cuda").fit(thin, y).certificate_.relative_gap <= 1e-3
        classes = SVC(solver="sbp", multi_class="ovr", device="cuda").fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
        assert all(certificate.relative_gap <= 1e-3 for certificate in classes.certificate_)

    def test_time_limits_and_checkpoints(self, rng, tmp_path):
        X, y = self.drawn(rng)
        whole = SVC(100.0, solver="sbp", device="cuda").fit(X, y)

        def stop(progress):
            raise RuntimeError("stopped")

        path = tmp_path / "checkpoint.npz"
        kept = SVC(100.0, solver="sbp", device="cuda", checkpoint=path, checkpoint_every=1e-6)
        with pytest.raises(RuntimeError, match="stopped"):
            copy.deepcopy(kept).set_params(callbacks=stop).fit(X, y)
        np.testing.assert_array_equal(kept.fit(X, y).dual_coef_, whole.dual_coef_)
        short = SVC(1e4, solver="sbp", device="cuda", tol=1e-9, max_seconds=0.3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert short.fit(X, y).stop_reason_ in ("max_seconds", "stalled")
        assert short.score(X, y) > 0.6
