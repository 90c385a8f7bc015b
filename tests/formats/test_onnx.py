"""ONNX graphs: onnxruntime says what the estimator says."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import fresh
from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, IncrementalSVC, LinearSVC, LinearSVR, compress, export

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NAMES = np.array(["ant", "bée", "cat"])
JOINT = {"multi_class": "crammer_singer", "max_iter": 3}
CASES = {
    "weights, two": lambda X, t, y: LinearSVC().fit(X, y > 0),
    "weights, names": lambda X, t, y: LinearSVC(loss="log").fit(X, NAMES[y]),
    "weights, objects": lambda X, t, y: LinearSVC(loss="log").fit(X, NAMES[y].astype(object)),
    "weights, joint": lambda X, t, y: LinearSVC(**JOINT).fit(X, y.astype(np.uint8)),
    "weights, joint two": lambda X, t, y: LinearSVC(**JOINT).fit(X, 2.0 * (y > 0)),
    "weights, numbers": lambda X, t, y: LinearSVR(epsilon=0.05).fit(X, t),
    "rbf, two": lambda X, t, y: SVC(gamma=0.5).fit(X, NAMES[1 * (y > 0)]),
    "rbf, pairs": lambda X, t, y: SVC(gamma=0.5).fit(X, NAMES[y]),
    "rbf, scores of pairs": lambda X, t, y: SVC(gamma=0.5, decision_function_shape="ovo").fit(X, y),
    "rbf, ties": lambda X, t, y: SVC(gamma=0.5, break_ties=True).fit(X, y),
    "rbf, against the rest": lambda X, t, y: SVC(multi_class="ovr").fit(X, y),
    "rbf, numbers": lambda X, t, y: SVR(gamma=0.5).fit(X, t),
    "rbf, far away": lambda X, t, y: SVC(gamma=0.5).fit(X + 1e4, y),
    "rbf, sparse": lambda X, t, y: SVC(gamma=0.5).fit(sp.csr_matrix(X * (np.abs(X) > 0.7)), y),
    "rbf, compressed": lambda X, t, y: compress(SVC(gamma=0.5).fit(X, y), 6),
    "linear": lambda X, t, y: SVC(kernel="linear").fit(X, y > 0),
    "poly": lambda X, t, y: SVC(kernel="poly", degree=2, coef0=1.0).fit(X, y),
    "sigmoid": lambda X, t, y: SVC(kernel="sigmoid", gamma=0.1).fit(X, y > 0),
    "laplacian": lambda X, t, y: SVC(kernel="laplacian", gamma=0.5, solver="sdca").fit(X, y > 0),
    "precomputed": lambda X, t, y: SVC(kernel="precomputed").fit(X @ X.T, y),
    "budgeted, two": lambda X, t, y: BudgetedSVC(12, gamma=0.5, lam=0.01).fit(X, y > 0),
    "budgeted": lambda X, t, y: BudgetedSVC(12, gamma=0.5, lam=0.01).fit(X, NAMES[y]),
    "budgeted, numbers": lambda X, t, y: BudgetedSVR(12, gamma=0.5, lam=1e-3).fit(X, t),
    "incremental": lambda X, t, y: IncrementalSVC(gamma=0.5).fit(X, y > 0),
}


@pytest.mark.parametrize("case", CASES)
def test_a_runtime_of_graphs_says_what_the_estimator_says(case, rng, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X = rng.normal(size=(60, 3))
    t = X[:, 0] + 0.3 * X[:, 1] * X[:, 2]
    model = CASES[case](X, t, np.digitize(t, [-0.4, 0.4]))
    new = rng.normal(size=(40, 3))
    new = new + 1e4 if "far" in case else new @ X.T if case == "precomputed" else new
    export(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape[1]) == ("X", "tensor(double)", model.n_features_in_)
    found = dict(zip([output.name for output in session.get_outputs()], session.run(None, {"X": new}), strict=True))
    if not hasattr(model, "classes_"):
        assert list(found) == ["scores"]
        np.testing.assert_allclose(found["scores"], model.predict(new), rtol=1e-4, atol=1e-5)
        return
    assert list(found) == ["label", "scores"]
    expected = model.decision_function(new)
    raw = model._scores(new)  # of pairs, where they vote: one near zero, or near another, may fall on either side
    clear = (np.abs(raw).min(axis=1) > 1e-4) & (np.diff(np.sort(raw, axis=1)).min(axis=1, initial=1.0) > 1e-4)
    assert found["scores"].shape == expected.shape
    np.testing.assert_allclose(found["scores"][clear], expected[clear], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found["label"][clear], model.predict(new)[clear])
    assert session.run(None, {"X": new[:1]})[1].shape == expected[:1].shape


def test_a_missing_package_is_named_with_the_remedy(tmp_path, monkeypatch):
    model = LinearSVC().fit(np.array([[0.0], [1.0]]), [0, 1])
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"needs the package onnx: pip install 'widemargin\[onnx\]'"):
        export(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_nothing_but_an_export_imports_onnx():
    script = "import sys, widemargin; widemargin.load, widemargin.export; print('onnx' in sys.modules)"
    done = fresh.run(script)
    assert done.stdout.strip() == "False", done.stderr


def test_a_function_has_no_graph(rng, tmp_path):
    pytest.importorskip("onnx")
    model = SVC(kernel=lambda A, B: A @ B.T).fit(rng.normal(size=(20, 2)), np.arange(20) % 2)
    with pytest.raises(ValueError, match=r"SVC has a kernel that is a function, .*: use a kernel with a name"):
        export(model, tmp_path / "model.onnx")
