"""Tensors go in where they stand and come out there; data on a device is checked and prepared as on the host."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV

import fresh
from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, IncrementalSVC, LinearSVC, backends, svm_path
from widemargin.backends import tensors
from widemargin.core.kernels.matrix import largest_value
from widemargin.core.losses import losses
from widemargin.core.rows.distant import Distant, local
from widemargin.core.rows.rows import as_rows
from widemargin.estimators.fit.proof import Exact
from widemargin.models import KernelModel
from widemargin.problems import precision
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.layout import (
    Preparation,
    divided,
    largest_entry,
    longest_row,
    moved_by_float32,
    scaled_kernel,
)
from widemargin.problems.objective import Certificate

torch = pytest.importorskip("torch")
#: Triton's interpreter takes milliseconds for a move.
N, TOL = 60, 1e-2


def examples(rng, n=N, d=3, dtype=np.float64):
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=n) > 0.0


class Speaks:
    """An array of some library of which nothing is known but DLPack."""

    def __init__(self, tensor):
        self.tensor, self.shape = tensor, tuple(tensor.shape)

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


# ---------------------------------------------------------------- facts of data on a device


def rows_on(device, X):
    from widemargin.backends.rows import DeviceRows

    return DeviceRows.of_host(np.ascontiguousarray(X), device)


KINDS = {
    "as it comes": lambda X: X,
    "far from the origin": lambda X: X + 1e3,
    "huge": lambda X: X * 2.0**100,
    "tiny": lambda X: X * 2.0**-100,
    "one column": lambda X: X[:, :1],
    "one row": lambda X: X[:1],
    "zeros": lambda X: 0.0 * X,
}


@pytest.mark.parametrize("name", ["rbf", "laplacian", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_is_prepared_on_a_device_as_on_the_host(name, kind, dtype, rng, device, monkeypatch):
    from widemargin.backends import rows

    monkeypatch.setattr(rows, "WIDENED", 17)  # several parts
    X = KINDS[kind](rng.normal(size=(50, 3))).astype(dtype)
    there = rows_on(device, X)
    with np.errstate(over="ignore", invalid="ignore"):
        own, exponent, gamma = scaled_kernel(name, "scale", 3, 0.5, X)
        kernel, *found = scaled_kernel(name, "scale", 3, 0.5, there)
        assert found == [exponent, pytest.approx(gamma, rel=1e-12)]
        assert largest_entry(there) == largest_entry(X)
        expected = Preparation.of(own, divided(X, exponent), True, stays_dense=True)
        prepared = Preparation.of(kernel, divided(there, exponent), True, stays_dense=True)
        assert (prepared.as_float32, prepared.as_csr) == (expected.as_float32, expected.as_csr)
        assert (prepared.centre is None) == (expected.centre is None)
        if expected.centre is not None:
            np.testing.assert_allclose(prepared.centre, expected.centre, rtol=1e-12, atol=1e-12 * largest_entry(X))
        expected.exponent = exponent
        rows_here, rows_there = expected.rows(own, X), expected.rows(own, there)
        assert isinstance(rows_there, Distant)
        np.testing.assert_array_equal(rows_there.local(), rows_here.values)
        assert rows_there.dtype == rows_here.values.dtype
        largest = largest_value(own, rows_here)
        assert largest_value(own, rows_there) == pytest.approx(largest, rel=1e-12)
        there, here = longest_row(own, rows_there), longest_row(own, rows_here)
        assert there == pytest.approx(here, rel=1e-6)  # squares of float32 rows are summed in float32 here


def test_bounds_of_rounding_and_rows_far_away_are_those_of_the_host(rng, device):
    X = rng.normal(size=(40, 3)) * 10.0 ** rng.integers(-3, 4)
    there, centre = rows_on(device, X), X.mean(axis=0)
    for name in ("rbf", "laplacian"):
        kernel = scaled_kernel(name, 0.5, 3, 0.0, X)[0]
        for less in (None, centre):
            assert moved_by_float32(kernel, there, less) == pytest.approx(moved_by_float32(kernel, X, less), rel=1e-12)
        far = X.copy()
        far[3, 1] = 1e200
        cut = Preparation(None, False, False).rows(kernel, rows_on(device, far))
        np.testing.assert_array_equal(cut.local(), Preparation(None, False, False).rows(kernel, far).values)


def test_a_certificate_is_computed_anew_where_the_data_stands(rng, device):
    X, y = examples(rng)
    for name in ("rbf", "laplacian", "poly"):
        kernel = scaled_kernel(name, 0.5, 2, 1.0, X)[0]
        for intercept in ("unregularized", "regularized"):
            problem = KernelProblem(
                kernel, as_rows(X), np.where(y, 1.0, -1.0), losses.Single(losses.Hinge()), 0.1, intercept=intercept
            )
            support = np.flatnonzero(rng.random(N) < 0.4)
            c = rng.uniform(0.0, 0.1, support.size) * problem.y[support]
            model = KernelModel(kernel, support, None, c[None], np.array([0.3]), problem.constant)
            own, there = (
                Exact(Preparation(None, False, False), kernel, data, np.arange(N), 1e3).certificate(
                    [problem], model, Certificate(1.0, 0.0, 1.0), 1e-3, None
                )
                for data in (X, rows_on(device, X))
            )
            np.testing.assert_allclose(there[:2], own[:2], rtol=1e-9)


def test_some_rows_are_the_same_rows(rng, device):
    X, chosen = rng.normal(size=(30, 4)), rng.permutation(30)[:7]
    without_host = type(rows_on(device, X))(torch.tensor(X, device=device))
    for there in (rows_on(device, X), without_host):
        np.testing.assert_array_equal(local(there, chosen), X[chosen])
        np.testing.assert_array_equal(there[chosen].local(), X[chosen])
        np.testing.assert_array_equal(there[3:9].local(), X[3:9])
        np.testing.assert_array_equal(np.asarray(there), X)
        assert there[chosen].largest_entry() == np.abs(X[chosen]).max()


# ---------------------------------------------------------------- scores


@pytest.mark.parametrize("name", ["rbf", "laplacian", "linear", "poly"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_of_tensors_arrays_and_sparse_rows_are_those_of_the_cpu(name, dtype, rng, stand_in, monkeypatch):
    from widemargin.backends import scoring

    X, y = examples(rng, 200, dtype=dtype)
    model = SVC(kernel=name, coef0=1.0, gamma=0.5).fit(X, y)
    new = rng.normal(size=(700, 3)).astype(dtype)
    expected = model.decision_function(new)
    monkeypatch.setattr(scoring, "STAGED", 2**13)  # several parts, of several blocks
    monkeypatch.setattr(scoring, "MOST", 128)
    close = {"rtol": 2e-5, "atol": 2e-5 * (1.0 + np.abs(expected).max())}
    of_tensor = model.decision_function(torch.tensor(new, device=stand_in))
    assert of_tensor.device.type == stand_in
    assert of_tensor.dtype == torch.float64
    np.testing.assert_allclose(of_tensor.cpu(), expected, **close)
    model.set_params(device="cuda")
    np.testing.assert_array_equal(model.decision_function(new), of_tensor.cpu())
    np.testing.assert_array_equal(model.decision_function(sp.csr_matrix(new)), of_tensor.cpu())
    # neither the rows beside a row, nor where it stands in memory, nor the strides matter
    strided = torch.tensor(np.asfortranarray(new), device=stand_in)
    np.testing.assert_array_equal(model.decision_function(strided[5:300]).cpu(), of_tensor[5:300].cpu())
    np.testing.assert_array_equal(model.decision_function(new[411:412]), of_tensor[411:412].cpu())


def test_scores_of_pairs_are_those_of_the_cpu(rng, stand_in):
    X = rng.normal(size=(90, 3))
    for shape in ("ovo", "ovr"):
        model = SVC(gamma=0.5, decision_function_shape=shape).fit(X, np.arange(90) % 4)
        expected = model.decision_function(X)
        close = {"rtol": 2e-5, "atol": 2e-5 * (1.0 + np.abs(expected).max())}
        np.testing.assert_allclose(model.decision_function(torch.tensor(X, device=stand_in)).cpu(), expected, **close)
        np.testing.assert_allclose(model.set_params(device="cuda").decision_function(X), expected, **close)


def test_scores_over_sparse_vectors_are_those_of_the_cpu(rng, stand_in):
    X = sp.random(150, 300, 0.01, format="csr", random_state=int(rng.integers(1000)))
    y = rng.random(150) < 0.5
    for name in ("rbf", "linear"):
        model = SVC(kernel=name).fit(X, y)
        expected = model.decision_function(X)
        close = {"rtol": 2e-5, "atol": 2e-5 * (1.0 + np.abs(expected).max())}
        dense = model.decision_function(torch.tensor(X.toarray(), device=stand_in))
        np.testing.assert_allclose(dense.cpu(), expected, **close)
        np.testing.assert_array_equal(model.set_params(device="cuda").decision_function(X), dense.cpu())
        np.testing.assert_array_equal(model.decision_function(X[40:41]), dense[40:41].cpu())


def test_entries_that_are_not_finite_are_refused_wherever_they_stand(rng, stand_in, monkeypatch):
    from widemargin.backends import scoring

    monkeypatch.setattr(scoring, "MOST", 128)
    monkeypatch.setattr(scoring, "STAGED", 2**13)
    X, y = examples(rng, 300)
    model = SVC(device="auto", gamma=0.5).fit(*examples(rng))
    for bad, said in ((np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")):
        wrong = X.copy()
        wrong[rng.integers(300), rng.integers(3)] = bad
        for given in (wrong, torch.tensor(wrong, device=stand_in)):
            with pytest.raises(ValueError, match=f"X contains {said}"):
                model.predict(given)
            with pytest.raises(ValueError, match=f"X contains {said}"):
                SVC(device="cuda").fit(given, y)


def test_budgeted_and_incremental_machines_predict_where_tensors_stand(rng, stand_in):
    X, y = examples(rng, 200)
    there = torch.tensor(X, device=stand_in)
    for model in (BudgetedSVC(budget=20, random_state=0), IncrementalSVC(), BudgetedSVR(budget=20, random_state=0)):
        model.fit(X, X[:, 0] if isinstance(model, BudgetedSVR) else y)
        call = getattr(model, "decision_function", model.predict)
        own, found = call(X), call(there)
        assert found.device.type == stand_in
        np.testing.assert_allclose(found.cpu(), own, atol=1e-4 * (1.0 + np.abs(model.dual_coef_).sum()))
    with pytest.raises(TypeError, match=r"X stands on .*, and LinearSVC computes on the CPU: give X.cpu\(\)"):
        LinearSVC().fit(there, y)
    with pytest.raises(TypeError, match="IncrementalSVC computes on the CPU"):
        IncrementalSVC().fit(there, y)


def test_budgeted_and_incremental_machines_predict_on_the_gpu_that_is_asked_for(rng, stand_in):
    X, y = examples(rng, 200)
    for sparse in (False, True):
        own = sp.csr_matrix(X * (np.abs(X) > 1.0)) if sparse else X
        for model in (BudgetedSVC(budget=20, random_state=0), IncrementalSVC(), BudgetedSVR(budget=20, random_state=0)):
            model.fit(own, X[:, 0] if isinstance(model, BudgetedSVR) else y)
            size = 1.0 + np.abs(model.dual_coef_).sum()
            call = getattr(model, "decision_function", model.predict)
            here = call(own)
            model.set_params(device="cuda")
            there = call(own)
            assert isinstance(there, np.ndarray)
            np.testing.assert_allclose(there, here, atol=1e-5 * size)
            # a score does not depend on the rows beside it
            np.testing.assert_array_equal(call(own[3:5]), there[3:5])
            if not sparse:
                bad = X.copy()
                bad[1, 1] = np.nan
                with pytest.raises(ValueError, match="X contains NaN"):
                    model.predict(bad)
                with pytest.raises(ValueError, match="features"):
                    model.predict(X[:, :2])
                model.partial_fit(X[:10], X[:10, 0] if isinstance(model, BudgetedSVR) else y[:10])


def test_streams_refuse_a_gpu_that_is_not_there(rng, monkeypatch):
    monkeypatch.setattr(backends, "lacking", lambda: "torch, and it is not installed: pip install 'widemargin[gpu]'")
    X, y = examples(rng, 60)
    for model in (BudgetedSVC(device="cuda"), IncrementalSVC(device="cuda")):
        with pytest.raises(ValueError, match=r"device='cuda' needs torch.*pip install.*device='cpu'"):
            model.fit(X, y)
    machine = BudgetedSVC(budget=10, device="auto", random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        machine.set_params(device="cuda").predict(X), machine.set_params(device="cpu").predict(X)
    )
    with pytest.raises(ValueError, match="device must be one of 'cpu', 'cuda', 'auto', got 'tpu'"):
        IncrementalSVC(device="tpu").fit(X, y)


def test_pairs_of_many_classes_have_the_coefficients_of_their_model(rng):
    X = rng.normal(size=(80, 3))
    model = SVC().fit(X, np.arange(80) % 4)._model
    np.testing.assert_array_equal(model.whole().coef, model.combined(np.eye(model.support.size)))


# ---------------------------------------------------------------- training


@pytest.mark.interpreted
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_to_tensors_is_a_fit_to_arrays_and_only_support_vectors_travel(
    classes, dtype, rng, stand_in, monkeypatch
):
    from widemargin.backends.rows import DeviceRows
    from widemargin.estimators.fit import pairs

    monkeypatch.setattr(pairs, "SMALL_PAIRS", (0, 0))  # small pairs are solved on the CPU, where all rows go
    X = rng.normal(size=(N, 3)).astype(dtype)
    y, weights = np.arange(N) % classes, rng.uniform(0.5, 2.0, N)
    X[:, 0] += y
    fetched, fetch = [], DeviceRows.local
    monkeypatch.setattr(DeviceRows, "local", lambda self, chosen=None: fetched.append(chosen) or fetch(self, chosen))
    there = [torch.tensor(part, device=stand_in) for part in (X, y, weights)]
    given = there[0].clone()
    ours = SVC(device="cuda", tol=TOL, class_weight="balanced").fit(*there)
    assert torch.equal(given, there[0])
    np.testing.assert_array_equal(fetched[0], ours.support_)
    (looked_at,) = fetched[1:]  # what a machine must predict is measured on some examples
    assert len(looked_at) <= precision.SOME
    arrays = SVC(device="cuda", tol=TOL, class_weight="balanced").fit(X, y, weights)
    for name in ("support_", "dual_coef_", "intercept_", "support_vectors_", "n_support_", "classes_", "shape_fit_"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(arrays, name))
        assert not isinstance(getattr(ours, name), torch.Tensor)
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    assert ours.n_features_in_ == 3
    labels = ours.predict(there[0])
    assert (labels.dtype, labels.device.type) == (torch.int64, stand_in)
    np.testing.assert_array_equal(labels.cpu(), arrays.predict(X))
    assert ours.score(*there) == arrays.score(X, y, weights)
    on_cpu = ours.set_params(device="cpu").decision_function(X)
    np.testing.assert_allclose(arrays.decision_function(there[0]).cpu(), on_cpu, atol=1e-4)


@pytest.mark.interpreted
def test_the_certificate_of_a_fit_is_computed_anew_on_the_device(rng, stand_in):
    X, y = examples(rng, dtype=np.float32)
    own = SVC(device="cuda", tol=TOL).fit(X, y).certificate_
    again = SVC(device="cuda", tol=TOL).fit(torch.tensor(X, device=stand_in), y)
    np.testing.assert_allclose(again.certificate_[:2], own[:2], rtol=1e-5)


@pytest.mark.interpreted
def test_regression_early_stopping_paths_and_callbacks_take_tensors(rng, stand_in, tmp_path):
    X, y = examples(rng)
    there, numbers = torch.tensor(X, device=stand_in), X[:, 0] ** 2
    ours = SVR(device="cuda", tol=TOL).fit(there, torch.tensor(numbers, device=stand_in))
    np.testing.assert_array_equal(ours.dual_coef_, SVR(device="cuda", tol=TOL).fit(X, numbers).dual_coef_)
    assert ours.predict(there).device.type == stand_in
    assert ours.score(there, torch.tensor(numbers, device=stand_in)) == ours.score(X, numbers)
    labels = torch.tensor(y, device=stand_in)
    path = svm_path(there, labels, [0.1, 1.0], device="cuda", tol=TOL)
    assert all(model.certificate_.relative_gap <= TOL for model in path)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stopped = SVC(
            device="cuda", tol=TOL, early_stopping=True, checkpoint=tmp_path / "fit.npz",
            callbacks=lambda progress: seen.append(progress.model().decision_function(X)),
        ).fit(there, labels)  # fmt: skip
    assert "validation_error" in stopped.history_.columns
    assert seen[-1].shape == (N, 1)
    last = SVC(device="cuda", tol=TOL, callbacks=lambda p: seen.append(p.model().decision_function(there))).fit(
        there, y
    )
    np.testing.assert_allclose(seen[-1][:, 0], last.decision_function(X), atol=1e-5)


@pytest.mark.interpreted
def test_precomputed_kernels_and_functions_read_tensors_on_the_host(rng, stand_in):
    X, y = examples(rng)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
    table = SVC(kernel="precomputed", device="cuda", tol=TOL).fit(torch.tensor(K, device=stand_in), y)
    np.testing.assert_array_equal(table.predict(torch.tensor(K, device=stand_in)).cpu(), table.predict(K))
    function = SVC(kernel=lambda A, B: A @ B.T, device="cuda", tol=TOL).fit(torch.tensor(X, device=stand_in), y)
    np.testing.assert_array_equal(function.predict(torch.tensor(X, device=stand_in)).cpu(), function.predict(X))


def test_what_a_device_cannot_take_is_a_sentence_with_the_remedy(rng, stand_in):
    X, y = examples(rng)
    there = torch.tensor(X, device=stand_in)
    with pytest.raises(ValueError, match=r"X stands on .*, and device='cpu' .*use device='cuda'.*or give X.cpu\(\)"):
        SVC().fit(there, y)
    with pytest.raises(ValueError, match="device='auto' with solver='sdca' trains on the CPU"):
        SVC(device="auto", solver="sdca").fit(there, y)
    with pytest.raises(TypeError, match=r"sparse tensors are not taken: give X.to_dense\(\), or a matrix of scipy"):
        SVC(device="cuda").fit(there.to_sparse(), y)
    model = SVC(device="cuda", tol=TOL).fit(there, y)
    with pytest.raises(ValueError, match="X has 2 features, but SVC is expecting 3 features as input"):
        model.predict(there[:, :2])
    for wrong, said in (
        (there[:0], "0 sample"),
        (there[:, :0], "0 feature"),
        (there[0], "1D array"),
        (there + 0j, "real"),
    ):
        with pytest.raises(ValueError, match=said):
            SVC(device="cuda").fit(wrong, y[: len(wrong)])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVC(device="cuda").fit(there, y[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        SVC(device="cuda").fit(there, None)
    with pytest.raises(ValueError, match="sample_weight must be ≥ 0"):
        SVC(device="cuda").fit(there, y, torch.full((N,), -1.0, device=stand_in))
    with pytest.raises(ValueError, match="NaN"):
        SVR(device="cuda").fit(there, torch.full((N,), torch.nan, device=stand_in))


@pytest.mark.interpreted
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8", "bool"])
def test_other_numbers_are_converted(dtype, rng, stand_in):
    numbers = torch.tensor(rng.integers(0, 2 if dtype == "bool" else 9, size=(N, 3)), device=stand_in)
    given, y = numbers.to(getattr(torch, dtype)), np.arange(N) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SVC(device="cuda", tol=TOL).fit(given, y)
        wide = SVC(device="cuda", tol=TOL).fit(numbers.cpu().numpy().astype(model.support_vectors_.dtype), y)
    assert model.support_vectors_.dtype == (np.float32 if "float" in dtype else np.float64)
    np.testing.assert_allclose(model.decision_function(given).cpu(), wide.decision_function(numbers).cpu(), atol=1e-6)


# ---------------------------------------------------------------- tensors of the host


def test_tensors_of_the_host_are_arrays_over_the_same_memory_and_answered_with_tensors(rng):
    X, y = examples(rng)
    tensor = torch.tensor(X, requires_grad=True)
    assert np.shares_memory(tensors.taken(tensor), tensor.detach().numpy())
    for labels in (y, y.astype(np.int32), np.where(y, 2.0, -1.0)):
        model, own = SVC().fit(tensor, torch.tensor(labels)), SVC().fit(X, labels)
        np.testing.assert_array_equal(model.dual_coef_, own.dual_coef_)
        found = model.predict(tensor)
        assert isinstance(found, torch.Tensor)
        assert found.dtype == torch.tensor(labels).dtype
        np.testing.assert_array_equal(found, own.predict(X))
        scores = model.decision_function(tensor)
        assert isinstance(scores, torch.Tensor)
        np.testing.assert_array_equal(scores, own.decision_function(X))
        assert model.score(tensor, torch.tensor(labels)) == own.score(X, labels)
        assert isinstance(model.predict(X), np.ndarray)
    words = SVC().fit(tensor, np.where(y, "yes", "no"))
    assert isinstance(words.predict(tensor), np.ndarray)
    assert words.predict(tensor).tolist() == words.predict(X).tolist()
    assert isinstance(LinearSVC().fit(tensor, y).predict(tensor), torch.Tensor)
    for half in (torch.float16, torch.bfloat16):
        assert tensors.taken(tensor.to(half)).dtype == np.float32


def test_anything_that_speaks_dlpack_is_taken(rng):
    X, y = examples(rng)
    given = Speaks(torch.tensor(X))
    assert np.shares_memory(tensors.taken(given), given.tensor.numpy())
    model = SVC().fit(given, y)
    np.testing.assert_array_equal(model.dual_coef_, SVC().fit(X, y).dual_coef_)
    np.testing.assert_array_equal(np.asarray(model.predict(given)), model.predict(X))
    assert not tensors.is_tensor(X)
    assert not tensors.is_tensor(sp.csr_matrix(X))


@pytest.mark.interpreted
def test_searches_take_tensors(rng, stand_in):
    X, y = examples(rng)
    for given in (torch.tensor(X), torch.tensor(X, device=stand_in)):
        search = GridSearchCV(SVC(device="cuda", tol=TOL), {"C": [1.0]}, cv=2, error_score="raise").fit(given, y)
        arrays = GridSearchCV(SVC(device="cuda", tol=TOL), {"C": [1.0]}, cv=2, error_score="raise").fit(X, y)
        assert search.best_score_ == arrays.best_score_


def test_tensors_of_other_devices_are_refused(rng):
    with pytest.raises(TypeError, match=r"X stands on meta, neither on the host nor on a GPU of CUDA: give X.cpu\(\)"):
        SVC().fit(torch.empty((4, 2), device="meta"), [0, 1, 0, 1])


def test_arrays_of_other_libraries_on_the_host_need_no_torch():
    script = "import sys, numpy as np; from widemargin import SVC\n"
    script += "class Speaks:\n def __init__(self, a): self.a, self.shape = a, a.shape\n"
    script += " def __dlpack__(self, **options): return self.a.__dlpack__(**options)\n"
    script += " def __dlpack_device__(self): return self.a.__dlpack_device__()\n"
    script += "X = Speaks(np.eye(4)); SVC().fit(X, [0, 1, 0, 1]).predict(X); print('torch' in sys.modules)"
    done = fresh.run(script)
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.usefixtures("gpu")
class TestOnAGPU:
    def test_a_large_array_is_sent_in_parts(self, rng):
        from widemargin.backends.rows import DeviceRows
        from widemargin.backends.sending import STAGED

        X = rng.normal(size=(3 * STAGED // (4 * 50) + 7, 50)).astype(np.float32)
        there = DeviceRows.of_host(X, backends.GPU)
        np.testing.assert_array_equal(there.values.cpu().numpy(), X)
        again = X[::-1].copy()
        np.testing.assert_array_equal(DeviceRows.of_host(again, backends.GPU).values.cpu().numpy(), again)

    def test_scores_of_many_rows_are_the_same_from_the_host_and_the_device(self, rng):
        X, y = examples(rng, 2000, 20, np.float32)
        model = SVC(gamma=0.05, device="cuda").fit(torch.tensor(X, device="cuda"), y)
        new = rng.normal(size=(200_003, 20)).astype(np.float32)
        there = model.decision_function(torch.tensor(new, device="cuda"))
        assert there.is_cuda
        np.testing.assert_array_equal(model.decision_function(new), there.cpu())
        np.testing.assert_array_equal(model.decision_function(new[77_777:77_779]), there[77_777:77_779].cpu())
        shifted = torch.tensor(new, device="cuda")[1:]  # no longer aligned
        np.testing.assert_array_equal(model.decision_function(shifted).cpu(), there[1:].cpu())
        few = slice(0, 3000)
        on_cpu = model.set_params(device="cpu").decision_function(new[few])
        np.testing.assert_allclose(there[few].cpu(), on_cpu, atol=1e-4)

    def test_a_fit_waits_for_the_device_a_few_times_only_before_training(self, rng):
        X = torch.randn((20_000, 50), device="cuda")
        model = SVC(device="cuda", gamma="scale")
        given = tensors.taken(X)
        torch.cuda.synchronize()
        waits = []
        before = torch.Tensor.tolist, torch.Tensor.__float__, torch.Tensor.cpu
        try:
            torch.Tensor.tolist = lambda self: waits.append("tolist") or before[0](self)
            torch.Tensor.__float__ = lambda self: waits.append("float") or before[1](self)
            torch.Tensor.cpu = lambda self, *a, **k: waits.append("cpu") or before[2](self, *a, **k)
            model._check_data(given, np.arange(20_000) % 2)
            model._prepare(given)
        finally:
            torch.Tensor.tolist, torch.Tensor.__float__, torch.Tensor.cpu = before
        assert len(waits) <= 4, waits
