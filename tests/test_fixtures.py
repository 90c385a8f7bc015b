"""Files that older versions wrote still load, say the same, and go on."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import widemargin
from widemargin import BudgetedSVC, BudgetedSVR
from widemargin.models import LinearModel

FOLDER = Path(__file__).parent / "fixtures" / "v0.1"
FORMAT_2 = Path(__file__).parent / "fixtures" / "format2"
NAMES = sorted(path.name.removesuffix(".expected.npz") for path in FOLDER.glob("sv*.expected.npz"))
#: Those whose loop no other test needs, and whose state has nothing that another's has not: they need not go on.
#: What is projected goes on with dense rows, and what is sparse with removal.
FINISHED = (
    "svr_linear",
    "svr_merge",
    "svc_two_float32_poly",
    "svc_four_sparse_ovr",
    "svc_two_sparse_project_stream",
)
#: Vectors may be in float32, and other processors fuse other products.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def rows(name, X):
    if "frame" in name:
        return pd.DataFrame(X, columns=["length", "width", "height"])
    return sp.csr_matrix(X) if "sparse" in name else X


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def test_a_linear_model_of_version_01_scores_as_it_did():
    model, expected = LinearModel.load(FOLDER / "linear_model.npz"), np.load(FOLDER / "linear_model.expected.npz")
    np.testing.assert_array_equal(model.coef, expected["coef"])
    np.testing.assert_array_equal(model.intercept, expected["intercept"])
    np.testing.assert_allclose(model.decision_function(expected["X"]), expected["scores"], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_of_version_01_predicts_and_goes_on_as_it_did(name):
    expected = np.load(FOLDER / f"{name}.expected.npz")
    model = (BudgetedSVC if "svc" in name else BudgetedSVR).load(FOLDER / f"{name}.npz")
    X = rows(name, expected["X"])
    np.testing.assert_allclose(scores(model, X), expected["scores"], **CLOSE)
    if "svc" in name:
        np.testing.assert_array_equal(model.predict(X), expected["predicted"])
        assert model.classes_.dtype == expected["predicted"].dtype
    np.testing.assert_array_equal(model.dual_coef_, expected["dual_coef_"])
    assert model.n_samples_seen_ == expected["n_samples_seen_"]
    np.testing.assert_array_equal(model.history_["objective"], expected["objective"])
    saved = str(expected["parameters"])  # as a dictionary's text; later versions may have more of them
    parameters = {key: value for key, value in model.get_params().items() if f"{key!r}: " in saved}
    assert all(f"{key!r}: {value!r}" in saved for key, value in parameters.items())
    assert len(parameters) == saved.count("': ")
    if "frame" in name:
        assert model.feature_names_in_.tolist() == ["length", "width", "height"]
        assert model.feature_names_in_.dtype == object
    if name not in FINISHED:
        model.partial_fit(rows(name, expected["more_X"]), expected["more_y"])
        np.testing.assert_allclose(scores(model, X), expected["more_scores"], **CLOSE)


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in FORMAT_2.glob("*.expected.npz")))
def test_an_estimator_of_format_2_predicts_and_goes_on_as_it_did(name):
    expected, model = np.load(FORMAT_2 / f"{name}.expected.npz"), widemargin.load(FORMAT_2 / f"{name}.npz")
    np.testing.assert_allclose(scores(model, expected["X"]), expected["scores"], **CLOSE)
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(model.predict(expected["X"]), expected["predicted"])
    if "more_X" in expected:
        model.partial_fit(expected["more_X"], expected["more_y"])
        np.testing.assert_allclose(scores(model, expected["X"]), expected["more_scores"], **CLOSE)
