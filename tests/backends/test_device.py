"""``device=`` on the kernel machines: what it refuses, and that a machine of the GPU is one of the CPU."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

import fresh
from widemargin import SMO, SVC, SVR, backends, load, svm_grid, svm_path
from widemargin.estimators.fit import voting

X, Y = make_moons(120, noise=0.2, random_state=0)


def test_a_gpu_that_is_not_there_is_a_sentence_with_the_remedy_and_auto_does_without(monkeypatch):
    monkeypatch.setattr(backends, "lacking", lambda: "torch, and it is not installed: pip install 'widemargin[gpu]'")
    with pytest.raises(ValueError, match=r"device='cuda' needs torch.*pip install.*device='cpu'"):
        SVC(device="cuda").fit(X, Y)
    own, same = SVC().fit(X, Y), SVC(device="auto").fit(X, Y)
    np.testing.assert_array_equal(own.dual_coef_, same.dual_coef_)
    np.testing.assert_array_equal(own.decision_function(X), same.decision_function(X))


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "pip install 'widemargin[gpu]'" in backends.lacking()
    assert backends.resolved("cpu") == backends.resolved("auto") == "cpu"


def test_a_torch_that_cannot_be_imported_is_as_none(monkeypatch):
    class Broken:
        def find_spec(self, name, *_):
            if name.split(".")[0] == "torch":
                raise OSError("libcublas.so.12: cannot open shared object file")

    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert "importing them fails (libcublas.so.12" in backends.lacking()
    assert backends.resolved("auto") == "cpu"


def test_pairs_with_too_many_coefficients_for_a_gpu_are_scored_here_and_rows_are_looked_at(monkeypatch):
    model = SVC(decision_function_shape="ovo").fit(X, np.arange(120) % 3)
    own = model.decision_function(X)
    monkeypatch.setattr(backends, "lacking", lambda: "")
    monkeypatch.setattr(voting, "ON_DEVICE", 0)
    model.set_params(device="auto")
    np.testing.assert_array_equal(model.decision_function(X), own)
    wrong = X.copy()
    wrong[3, 1] = np.nan
    for call in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match="X contains NaN"):
            call(wrong)


def test_paths_and_grids_refuse_solvers_that_are_none():
    for call in (svm_path, svm_grid):
        with pytest.raises(ValueError, match=r"solver must be one of .* got 'smoo'"):
            call(X, Y, [1.0], solver="smoo")
        with pytest.raises(TypeError, match=r"solver must be one of .* got 3"):
            call(X, Y, [1.0], solver=3)


@pytest.mark.parametrize("solver", ["pegasos", "sdca", SMO()])
def test_other_solvers_stay_on_the_cpu(solver):
    with pytest.raises(
        ValueError, match=r"device='cuda' trains with solver='smo' and 'sbp', given by name.*got solver="
    ):
        SVC(device="cuda", solver=solver).fit(X, Y)
    with pytest.raises(ValueError, match="device must be one of 'cpu', 'cuda', 'auto', got 'tpu'"):
        SVR(device="tpu").fit(X, Y)


def test_nothing_imports_torch_unless_a_device_is_asked_for():
    script = "import sys, numpy as np; from widemargin import SVC; X = np.eye(4)\n"
    script += "SVC().fit(X, [0, 1, 0, 1]).predict(X); print('torch' in sys.modules)"
    done = fresh.run(script)
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.usefixtures("gpu")
class TestOnAGPU:
    @pytest.mark.parametrize(
        "parameters",
        [{}, {"kernel": "linear"}, {"kernel": "poly"}, {"intercept": "none"}, {"class_weight": "balanced"},
         {"cache_size": 0.1}, {"kernel": "laplacian"}, {"multi_class": "ovr"}, {"max_seconds": 100.0}],
        ids=str,
    )  # fmt: skip
    @pytest.mark.parametrize("classes", [2, 3])
    def test_a_machine_is_that_of_the_cpu(self, parameters, classes, rng):
        seed = int(rng.integers(1000))
        X, y = make_classification(900, 6, n_informative=5, n_redundant=0, n_classes=classes, random_state=seed)
        weights = rng.uniform(0.5, 2.0, y.size)
        theirs = SVC(tol=1e-4, **{**parameters, "max_seconds": None}).fit(X, y, weights)
        ours = SVC(tol=1e-4, device="cuda", **parameters).fit(X, y, weights)
        assert ours.stop_reason_ == "tol"
        own = [ours.certificate_] if classes == 2 else ours.certificate_
        for mine, other in zip(own, [theirs.certificate_] if classes == 2 else theirs.certificate_, strict=True):
            assert mine.gap <= 1e-4 * mine.primal
            assert max(mine.dual, other.dual) <= min(mine.primal, other.primal) * (1.0 + 1e-6)
        scores = ours.decision_function(X)
        on_cpu = clone(ours).set_params(device="cpu")
        on_cpu.__dict__.update({**ours.__dict__, "device": "cpu"})
        np.testing.assert_allclose(on_cpu.decision_function(X), scores, atol=1e-4)
        assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.97

    def test_regression_precomputed_kernels_and_functions(self, rng):
        X = rng.normal(size=(500, 3)).astype(np.float32)
        y = np.sin(X[:, 0]) + 1e4
        ours, theirs = (SVR(C=10.0, tol=1e-4, device=device).fit(X, y) for device in ("cuda", "cpu"))
        assert ours.certificate_.primal == pytest.approx(theirs.certificate_.primal, rel=2e-4)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=0.2)
        labels = np.sin(2.0 * X[:, 0]) > 0.0
        K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))
        one = SVC(kernel="precomputed", device="cuda").fit(K, labels)
        two = SVC(kernel=lambda A, B: np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1)), device="cuda").fit(
            X, labels
        )
        three = SVC(gamma=0.5).fit(X, labels)
        for model in (one, two):
            assert model.certificate_.primal == pytest.approx(three.certificate_.primal, rel=2e-3)

    def test_two_fits_are_the_same_bits_and_files_need_no_torch(self, tmp_path, rng):
        X = rng.normal(size=(3000, 5))
        y = X[:, 0] * X[:, 1] > 0.0
        one, two = (SVC(device="cuda", C=3.0).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
        one.save(tmp_path / "machine.npz")
        (tmp_path / "machine.pickle").write_bytes(pickle.dumps(one))
        np.testing.assert_array_equal(load(tmp_path / "machine.npz").decision_function(X), one.decision_function(X))
        np.save(tmp_path / "X.npy", X)
        script = "import sys, pickle, numpy as np; from widemargin import load\n"
        script += "class Without:\n def find_spec(self, name, *_):\n"
        script += "  if name.split('.')[0] in ('torch', 'triton'): raise ModuleNotFoundError(name, name=name)\n"
        script += "sys.meta_path.insert(0, Without())\n"
        script += f"X = np.load(r'{tmp_path}/X.npy')\n"
        script += f"a, b = load(r'{tmp_path}/machine.npz'), pickle.load(open(r'{tmp_path}/machine.pickle', 'rb'))\n"
        script += "print((a.predict(X) == b.predict(X)).all())"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
        assert done.stdout.split() == ["True"], done.stderr

    def test_memory_that_is_short_is_told_in_a_sentence(self, rng):
        X = rng.normal(size=(10**6, 2)).astype(np.float32)
        with pytest.raises(MemoryError, match=r"do not fit into the GPU's memory.*lower cache_size"):
            SVC(device="cuda", cache_size=4e6).fit(X, X[:, 0] > 0.0)

    def test_a_fit_that_was_stopped_goes_on_from_its_checkpoint_to_the_same_bits(self, tmp_path, rng):
        X = rng.normal(size=(5000, 5))
        y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=5000) > 0.0
        np.savez(tmp_path / "data.npz", X=X, y=y)
        whole = SVC(device="cuda", C=100.0, cache_size=20).fit(X, y)

        def stop(progress):
            raise RuntimeError("stopped")

        path = tmp_path / "checkpoint.npz"
        with pytest.raises(RuntimeError, match="stopped"):
            SVC(device="cuda", C=100.0, cache_size=20, checkpoint=path, checkpoint_every=1e-6, callbacks=stop).fit(X, y)
        script = "import numpy as np; from widemargin import SVC\n"
        script += f"d = np.load(r'{tmp_path}/data.npz')\n"
        script += f"m = SVC(device='cuda', C=100.0, cache_size=20, checkpoint=r'{path}').fit(d['X'], d['y'])\n"
        script += f"np.save(r'{tmp_path}/coef.npy', m.dual_coef_)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "coef.npy"), whole.dual_coef_)

    def test_warm_starts_time_limits_and_callbacks(self, rng):
        X = rng.normal(size=(2000, 5))
        y = X[:, 0] * X[:, 1] > 0.0
        cold = SVC(device="cuda", warm_start=True, C=10.0).fit(X, y)
        rounds = cold.n_iter_.sum()
        assert cold.fit(X, y).n_iter_.sum() <= rounds
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            short = SVC(device="cuda", tol=1e-9, C=1e4, callbacks=lambda p: seen.append(p.epochs) or len(seen) > 1)
            assert short.fit(X, y).stop_reason_ in ("callback", "stalled", "precision")
            assert SVC(device="cuda", tol=1e-9, C=1e4, max_seconds=1e-3).fit(X, y).stop_reason_ == "max_seconds"
        assert seen

    def test_paths_and_grids_are_trained_side_by_side(self, rng):
        for classes in (2, 3):
            X, y = make_classification(
                300, 5, n_informative=5, n_redundant=0, n_classes=classes, random_state=int(rng.integers(1000))
            )
            balanced = {"sample_weight": np.where(y == 0, 20.0, 1.0), "class_weight": "balanced"}
            for tol, weights in ((1e-5, {}), (1e-4, balanced)):
                ours, theirs = (
                    svm_grid(X, y, [10.0, 0.1], gammas=[0.1, 0.5], cv=3, tol=tol, device=device, **weights)
                    for device in ("cuda", "cpu")
                )
                assert ours.gaps.max() <= tol
                assert np.abs(ours.scores - theirs.scores).max() <= 2.0 / 100
        one, two = (svm_path(X, y > 0, [10.0, 0.1, 1.0], tol=1e-5, device=device) for device in ("cuda", "cpu"))
        for mine, other in zip(one, two, strict=True):
            assert mine.C == other.C
            assert mine.stop_reason_ == "tol"
            assert mine.certificate_.primal == pytest.approx(other.certificate_.primal, rel=2e-5)
            np.testing.assert_allclose(mine.decision_function(X), other.decision_function(X), atol=0.05)
