"""Kernel machines on a cluster: the solver's own machine over the chunks, whatever they look like."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import widemargin

da = pytest.importorskip("dask.array")

from distributed import Client  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from certificates import ALLOWED, values  # noqa: E402
from widemargin import dask as on_dask  # noqa: E402
from widemargin.core.losses import losses  # noqa: E402
from widemargin.dask.rows import _sizes  # noqa: E402
from widemargin.estimators.fit.jobs import Binaries  # noqa: E402
from widemargin.problems.kernel import KernelProblem  # noqa: E402
from widemargin.problems.parts import kernel_in_parts  # noqa: E402
from widemargin.running import run  # noqa: E402
from widemargin.solvers.sbp.parts import SBPOnParts  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
NU = {"solver": widemargin.StochasticBatchPerceptron(nu=0.02)}


def drawn(rng, n=200, classes=2):
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    if classes == 3:
        y[X[:, 2] > 0.5] = 2
    return X, np.array(["ant", "bee", "cat"])[y]


def chunked(X, y, size=60):
    return da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)


def same_on_one_machine(model, X, y, weights, size=60):
    """(The solver's model of the same problem in parts of one process, the steps it took)."""
    local, codes = model._machine(), np.searchsorted(model.classes_, y)
    local.fit(X, y, weights)  # for kernel and rows
    of_class = np.ones(model.classes_.size)
    if model.class_weight == "balanced":
        counts = np.bincount(codes, weights)
        of_class = counts.sum() / (counts.size * counts)
    binaries = Binaries(codes, np.empty(0) if weights is None else weights, of_class, True, False)
    _, signs, s = map(np.stack, zip(*map(binaries.binary, range(len(binaries))), strict=True))
    kernel = local._model.kernel
    rows = local._preparation.rows(kernel, X)
    hinge, lam = losses.Single(losses.Hinge()), 1.0 / (model.C * len(y))
    problem = KernelProblem(kernel, rows, signs, hinge, lam, s, local._intercept())
    cuts = np.split(np.arange(len(y)), np.arange(size, len(y), size))
    parts, solver = kernel_in_parts(problem, cuts), model._solver()
    assert isinstance(solver, SBPOnParts)
    return run(solver, parts, rng=np.random.default_rng(model.random_state), max_epochs=model.max_iter, tol=0.0)


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (2, NU),
        (3, {**NU, "class_weight": "balanced"}),
        (2, {"C": 2.0}),
        (2, {**NU, "kernel": "poly", "intercept": "none"}),
    ],
)
def test_the_machine_is_that_of_the_solver_over_parts(client, rng, classes, options):
    X, y = drawn(rng, classes=classes)
    weights = rng.integers(1, 3, len(y)).astype(float)
    given = *chunked(X, y), da.from_array(weights, chunks=70)
    model = on_dask.SVC(max_iter=1, tol=0, random_state=5, **options).fit(*given)
    one = same_on_one_machine(model, X, y, weights)
    mine, theirs = np.zeros((2, len(one.model.intercept), len(y)))
    mine[:, model.support_], theirs[:, one.model.support] = model.dual_coef_, one.model.coef
    np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
    assert model.certificate_.primal == pytest.approx(one.objective, rel=1e-4)
    assert 0.0 <= model.certificate_.dual <= model.certificate_.primal


@pytest.mark.parametrize("tol", [1e-3, 0.9])
def test_no_reason_is_tol_above_tol_and_the_certificate_is_of_the_kernel_that_was_asked_for(client, rng, tol):
    X, y = drawn(rng)
    C = 10.0 ** rng.uniform(0, 6)
    model = on_dask.SVC(C=C, gamma=0.5, tol=tol, max_iter=20).fit(*chunked(X, y))
    primal, dual = values(model.to_local(), X, y, None)
    found, slack = model.certificate_, ALLOWED * float(primal)
    assert primal - slack <= found.primal <= primal * (1.0 + 1e-6)
    assert dual * (1.0 - 1e-6) - slack <= found.dual <= dual + slack
    assert (model.stop_reason_ == "tol") == (found.relative_gap <= tol)


@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_are_lazy_and_those_of_the_local_estimator(client, rng, tmp_path, classes):
    X, y = drawn(rng, classes=classes)
    D, labels = chunked(X, y)
    model = on_dask.SVC(max_iter=1, tol=0, **NU).fit(D, labels)
    local = model.to_local()
    assert type(local) is widemargin.SVC
    assert isinstance(model.predict(D), da.Array)
    np.testing.assert_array_equal(model.predict(D).compute(), local.predict(X))
    np.testing.assert_array_equal(model.decision_function(D).compute(), local.decision_function(X))
    assert float(model.score(D, labels)) == pytest.approx(local.score(X, y))
    np.testing.assert_array_equal(local.support_vectors_, X[local.support_])
    assert y[local.support_].tolist() == sorted(y[local.support_])
    assert local.n_support_.tolist() == [int((y[local.support_] == name).sum()) for name in local.classes_]
    assert model.gamma_ == pytest.approx(1.0 / (4 * X.var()))
    K = np.exp(-model.gamma_ * ((X[:, None] - X[local.support_][None]) ** 2).sum(axis=2))
    scores = local.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(K @ local.dual_coef_.T + local.intercept_, scores, atol=1e-3)
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(widemargin.load(tmp_path / "model.npz").predict(X), local.predict(X))


def test_bits_depend_on_chunks_alone_and_not_on_workers(client, rng):
    given = chunked(*drawn(rng))
    options = {"max_iter": 1, "tol": 0, "random_state": 3}
    one = on_dask.SVC(**options, client=client).fit(*given)
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None, set_as_default=False
    ) as other:
        two = on_dask.SVC(**options, client=other).fit(*given)
    np.testing.assert_array_equal(one.support_, two.support_)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    assert (one.traffic_, one.certificate_) == (two.traffic_, two.certificate_)


def test_sparse_chunks_are_the_same_examples(client, rng):
    X, y = drawn(rng)
    X[np.abs(X) < 0.5] = 0.0
    D, labels = chunked(X, y)
    options = {"max_iter": 1, "tol": 0, "gamma": 0.5, **NU}
    plain = on_dask.SVC(**options).fit(D, labels)
    model = on_dask.SVC(**options).fit(D.map_blocks(sp.csr_matrix, dtype=X.dtype), labels)
    np.testing.assert_array_equal(model.support_, plain.support_)
    np.testing.assert_allclose(
        model.dual_coef_, plain.dual_coef_, rtol=1e-4, atol=1e-4 * np.abs(plain.dual_coef_).max()
    )


def test_sizes_of_rows_are_those_of_all_blocks_of_a_part(rng):
    X = sp.random(7, 2**19, density=1e-5, format="csr", random_state=rng)  # two rows at a time
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    found = _sizes((X,), 1, True, None)  # of the rows divided by 2
    np.testing.assert_allclose(found, np.array([norms.min(), norms.max()]) / 4.0, rtol=1e-12)


def test_a_driver_that_is_restarted_goes_on_to_the_same_bits(client, rng, tmp_path):
    given = chunked(*drawn(rng, 300), 75)
    options = {"random_state": 5, "tol": 0, "max_iter": 2}
    whole = on_dask.SVC(**options).fit(*given)

    def dies(progress):
        if progress.row["steps"] == 32:
            raise MemoryError("the driver is gone")

    kept = {**options, "checkpoint": tmp_path / "fit.npz", "checkpoint_every": 0}
    with pytest.raises(MemoryError):
        on_dask.SVC(**kept, callbacks=dies).fit(*given)
    seen = []
    again = on_dask.SVC(**kept, callbacks=lambda progress: seen.append(progress.row["steps"])).fit(*given)
    assert min(seen) >= 32
    np.testing.assert_array_equal(again.dual_coef_, whole.dual_coef_)
    assert not (tmp_path / "fit.npz").exists()


def test_limits_and_callbacks_end_a_fit_with_the_model_so_far(client, rng):
    X, y = drawn(rng, 300)
    given, models = chunked(X, y, 75), []

    def stops(progress):
        models.append(progress.model().decision_function(X))
        return True

    model = on_dask.SVC(tol=0, callbacks=stops, **NU).fit(*given)
    assert model.stop_reason_ == "callback"
    assert model.history_.last("steps") == 32
    np.testing.assert_allclose(models[0][:, 0], model.decision_function(X), rtol=1e-6, atol=1e-6)
    model = on_dask.SVC(tol=0, max_seconds=1e-3, **NU).fit(*given)
    assert model.stop_reason_ == "max_seconds"
    assert model.history_.last("steps") >= 1
    model = on_dask.SVC(tol=0.5).fit(*given)
    assert model.stop_reason_ == ("tol" if model.certificate_.relative_gap <= 0.5 else "settled")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kernel": "precomputed"}, "a precomputed kernel has no rows that could be sent"),
        ({"solver": "smo"}, "solver must be 'auto', 'sbp' or a configured StochasticBatchPerceptron"),
        ({"solver": widemargin.StochasticBatchPerceptron(average="suffix")}, "average must be 't' or 'uniform'"),
        ({"gamma": "wide"}, "gamma must be"),
    ],
)
def test_what_cannot_be_is_a_sentence(client, rng, options, said):
    with pytest.raises(ValueError, match=said):
        on_dask.SVC(**options).fit(*chunked(*drawn(rng)))


def test_a_fit_that_ends_early_says_so(client, rng):
    given = chunked(*drawn(rng, 300), 75)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning, match="still changed"):
            on_dask.SVC(tol=1e-9, max_iter=2, **NU).fit(*given)
