"""Every estimator in a file: the same attributes, the same predictions, and the same way on."""

import functools
import warnings
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import widemargin
from widemargin import (
    SDCA,
    SMO,
    SVC,
    SVR,
    BudgetedSVC,
    BudgetedSVR,
    IncrementalSVC,
    LinearSVC,
    LinearSVR,
    Pegasos,
    StochasticBatchPerceptron,
    compress,
)
from widemargin.files import SCHEMAS, _Writer
from widemargin.solvers.budget import MarginPerceptronStep, Merge, NormaStep, Projectron
from widemargin.solvers.pegasos import Bottou

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NAMES = np.array(["ant", "bee", "cat"])


def data(rng, classes):
    X = rng.normal(size=(60, 3))
    t = X[:, 0] + 0.3 * rng.normal(size=60)
    codes = np.digitize(t, [-0.4, 0.4] if classes == 3 else [0.0])
    codes[:classes] = range(classes)
    return X, (t if classes == 0 else NAMES[codes])


CASES = {
    "linear classes by SDCA": (LinearSVC(warm_start=True, random_state=0), 3),
    "linear classes by Pegasos": (
        LinearSVC(solver=Pegasos(step=Bottou(0.1), batch_size=4, average="suffix"), max_iter=3, random_state=1),
        2,
    ),
    "joint loss with a cost matrix": (
        LinearSVC(multi_class="crammer_singer", cost_matrix=1.0 - np.eye(3), max_iter=2, random_state=1),
        3,
    ),
    "linear search": (LinearSVC(intercept="search", max_iter=2, random_state=np.random.default_rng(3)), 2),
    "linear by interior points": (LinearSVC(solver="interior", loss="squared_hinge", class_weight="balanced"), 2),
    "linear regression": (LinearSVR(epsilon=0.1, solver=SDCA(lag=False), random_state=0), 0),
    "linear stream": (LinearSVR(solver="pegasos", max_iter=1, random_state=np.random.RandomState(5)), 0),
    "kernel, two classes": (SVC(C=2.0, warm_start=True, solver=SMO(working_set=16)), 2),
    "kernel, pairs": (SVC(kernel="poly", degree=2, coef0=1.0, break_ties=True), 3),
    "kernel, against the rest, SBP": (SVC(solver=StochasticBatchPerceptron(batch_size=4), multi_class="ovr"), 3),
    "kernel, linear": (SVC(kernel="linear", early_stopping=True, random_state=3, class_weight={"ant": 2.0}), 2),
    "kernel, sdca": (SVC(kernel="laplacian", gamma=0.5, solver="sdca"), 2),
    "kernel regression": (SVR(C=5.0, epsilon=0.05), 0),
    "budgeted, two classes": (BudgetedSVC(12, gamma=0.5, lam=0.01, maintenance=Merge(table_size=50)), 2),
    "budgeted, three classes": (
        BudgetedSVC(12, gamma=0.5, step=MarginPerceptronStep(0.5), maintenance=Projectron(0.1, span="class")),
        3,
    ),
    "budgeted regression": (BudgetedSVR(12, gamma=0.5, lam=1e-3, step=NormaStep(0.5), random_state=0), 0),
}


def fitted(case, layout, rng):
    """(the estimator of a case, fitted; its data)."""
    template, classes = case
    X, y = data(rng, classes)
    X = sp.csr_matrix(X * (rng.random(X.shape) < 0.7)) if layout == "sparse" else X
    return type(template)(**template.get_params(deep=False)).fit(X, y), X, y


def train_further(model, X, y):
    """Go on from where the model is, if it can."""
    if getattr(model, "warm_start", False):
        model.set_params(max_iter=2, C=3.0).fit(X, y)
    elif hasattr(model, "partial_fit") and getattr(model, "intercept", "") != "search":
        model.partial_fit(X, y).partial_fit(X[:7], y[:7])


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def content(model):
    """All that a file of the model holds, as text and bytes."""
    writer = _Writer()
    tree = writer.tree(model, "", "model")
    return tree, writer.random, {name: (a.dtype, a.shape, a.tobytes()) for name, a in writer.arrays.items()}


def public(model):
    return [n for n in dir(model) if n.endswith("_") and n[0] != "_" and hasattr(model, n)]


#: All but one whose loop no other test needs, and whose vectors are written as those of the case before it.
SAVED = [pair for pair in product(CASES, ["dense", "sparse"]) if pair != ("budgeted, three classes", "sparse")]


@pytest.mark.parametrize(("case", "layout"), SAVED)
def test_a_saved_estimator_is_the_same_and_goes_on_alike(case, layout, rng, tmp_path):
    model, X, y = fitted(CASES[case], layout, rng)
    model.save(tmp_path / "model.npz")
    loaded = type(model).load(tmp_path / "model.npz")
    assert type(loaded) is type(widemargin.load(tmp_path / "model.npz")) is type(model)
    assert content(loaded) == content(model)
    assert repr(loaded.get_params()) == repr(model.get_params()) or "at 0x" in repr(model.get_params())
    np.testing.assert_array_equal(scores(loaded, X), scores(model, X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert public(loaded) == public(model)
    for name in ("coef_", "intercept_", "support_", "dual_coef_", "n_support_", "n_iter_", "classes_"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name), strict=True)
    assert loaded.history_ == model.history_
    assert loaded.stop_reason_ == model.stop_reason_
    for one in (model, loaded):
        train_further(one, X, y)
    np.testing.assert_array_equal(scores(loaded, X), scores(model, X))


@pytest.mark.parametrize(("case", "layout"), [*SAVED, ("incremental", "dense"), ("incremental", "sparse")])
def test_an_estimator_on_memory_maps_predicts_and_goes_on_alike(case, layout, rng, tmp_path):
    cases = CASES | {"incremental": (IncrementalSVC(gamma=0.5, random_state=0), 2)}
    model, X, y = fitted(cases[case], layout, rng)
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(scores(mapped, X), scores(model, X))
    for one in (model, mapped):
        train_further(one, X, y)
    np.testing.assert_array_equal(scores(mapped, X), scores(model, X))


@pytest.mark.parametrize("cls", [LinearSVC, LinearSVR, SVC, SVR, BudgetedSVC, BudgetedSVR])
def test_every_estimator_is_registered_under_its_name_and_saved_only_when_fitted(cls, tmp_path):
    assert SCHEMAS[cls].name == cls.__name__
    with pytest.raises(NotFittedError):
        cls().save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "labels",
    [np.array([3, 7]), np.array([3, 7], np.uint8), np.array(["a", "bc"]), np.array(["ä", "b"], object),
     np.array([False, True]), np.array([-1.0, 2.0])],
    ids=["int", "uint8", "str", "object", "bool", "float"],
)  # fmt: skip
@pytest.mark.parametrize("cls", [LinearSVC, SVC, BudgetedSVC])
def test_labels_come_back_with_their_type(cls, labels, rng, tmp_path):
    X, y = data(rng, 2)
    model = cls().fit(X, labels[(y == NAMES[1]).astype(int)])
    model.save(tmp_path / "model.npz")
    found = cls.load(tmp_path / "model.npz").predict(X)
    np.testing.assert_array_equal(found, model.predict(X))
    assert found.dtype == labels.dtype


@pytest.mark.parametrize("cls", [LinearSVC, SVC, BudgetedSVC])
def test_names_of_features_come_back(cls, rng, tmp_path):
    X, y = data(rng, 2)
    frame = pd.DataFrame(X, columns=["length", "width", "height"])
    cls().fit(frame, y).save(tmp_path / "model.npz")
    model = cls.load(tmp_path / "model.npz")
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.n_features_in_ == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)


def test_a_file_of_another_estimator_is_refused(rng, tmp_path):
    X, y = data(rng, 2)
    SVC().fit(X, y).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"model\.npz holds no LinearSVC but a SVC: load it as what it is"):
        LinearSVC.load(tmp_path / "model.npz")


def test_callbacks_are_left_out_with_a_warning(rng, tmp_path):
    X, y = data(rng, 2)
    model = LinearSVC(callbacks=lambda progress: None).fit(X, y)
    with pytest.warns(UserWarning, match="LinearSVC is saved without callbacks, which are functions: set them again"):
        model.save(tmp_path / "model.npz")
    assert LinearSVC.load(tmp_path / "model.npz").callbacks is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(callbacks=None).save(tmp_path / "model.npz")


def test_what_is_a_function_or_unknown_is_refused_by_name(rng, tmp_path):
    X, y = data(rng, 2)
    for kernel in (lambda A, B: A @ B.T, functools.partial(np.inner)):
        with pytest.raises(TypeError, match=r"SVC with kernel=.* cannot be saved: a file holds no functions"):
            SVC(kernel=kernel).fit(X, y).save(tmp_path / "model.npz")
    model = SVC().fit(X, y)
    model.note_ = object()
    with pytest.raises(TypeError, match=r"SVC\.fitted\['note_'\] is <object .*, and a file holds no object"):
        model.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_a_machine_of_a_precomputed_kernel_and_a_compressed_one_are_saved(rng, tmp_path):
    X, y = data(rng, 3)
    table = SVC(kernel="precomputed").fit(X @ X.T, y)
    small = compress(SVC(gamma=0.5).fit(X, y), 5)
    for model, rows in ((table, X @ X.T), (small, X)):
        model.save(tmp_path / "model.npz")
        np.testing.assert_array_equal(scores(widemargin.load(tmp_path / "model.npz"), rows), scores(model, rows))


def test_many_pairs_of_classes_keep_their_certificates(rng, tmp_path):
    X, y = rng.normal(size=(150, 2)), np.arange(150) % 15
    model = SVC().fit(X, y)
    model.save(tmp_path / "model.npz")
    loaded = widemargin.load(tmp_path / "model.npz")
    assert type(loaded.certificate_) is type(model.certificate_)
    assert list(loaded.certificate_) == list(model.certificate_)
    np.testing.assert_array_equal(scores(loaded, X), scores(model, X))


def test_a_generator_given_as_random_state_goes_on_where_it_was(rng, tmp_path):
    X, y = data(rng, 2)
    model = LinearSVC(random_state=np.random.default_rng(4)).partial_fit(X, y, classes=np.unique(y))
    model.save(tmp_path / "model.npz")
    loaded = LinearSVC.load(tmp_path / "model.npz")
    assert loaded.random_state is loaded._state.rng
    assert loaded.random_state.random() == model.random_state.random()


@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
def test_a_fit_in_two_halves_does_not_notice_a_file_between_them(solver, rng, tmp_path):
    X, y = data(rng, 2)
    model = LinearSVC(max_iter=10, solver=solver, tol=0, random_state=0, warm_start=True).fit(X, y)
    model.save(tmp_path / "model.npz")
    loaded = widemargin.load(tmp_path / "model.npz").fit(X, y)
    np.testing.assert_array_equal(loaded.coef_, model.fit(X, y).coef_)
    assert loaded.history_["visits"].tolist() == model.history_["visits"].tolist()


# ---------------------------------------------------------------- without training state

GOING_ON = {
    "linear": (LinearSVC(random_state=0), ("partial_fit", "warm_start")),
    "kernel": (SVC(C=2.0), ("warm_start",)),
    "budgeted": (BudgetedSVC(12, gamma=0.5, lam=0.01), ("partial_fit",)),
    "incremental": (IncrementalSVC(gamma=0.5), ("partial_fit", "finish", "unlearn", "duality_gap")),
}


def go_on(model, what, X, y):
    if what == "warm_start":
        return model.set_params(warm_start=True).fit(X, y)
    return getattr(model, what)(*{"partial_fit": (X, y), "unlearn": ([0],)}.get(what, ()))


@pytest.mark.parametrize("case", GOING_ON)
def test_a_file_without_state_predicts_the_same_and_says_that_it_does_not_go_on(case, rng, tmp_path):
    X, y = data(rng, 2)
    template, ways = GOING_ON[case]
    model = type(template)(**template.get_params(deep=False)).fit(X, y)
    model.save(tmp_path / "whole.npz")
    model.save(tmp_path / "small.npz", state=False)
    if case != "kernel":  # whose state is its support vectors
        assert (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    small = widemargin.load(tmp_path / "small.npz")
    np.testing.assert_array_equal(scores(small, X), scores(model, X))
    np.testing.assert_array_equal(small.predict(X), model.predict(X))
    for name in ("coef_", "intercept_", "support_", "dual_coef_", "support_vectors_", "n_support_"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(small, name), getattr(model, name), strict=True)
    small.save(tmp_path / "again.npz")  # whole or not, there is no more
    for found in (small, widemargin.load(tmp_path / "again.npz")):
        for what in ways:
            with pytest.raises(
                ValueError, match=rf"{what} goes on from .* saved with state=False.*: use .* or call fit"
            ):
                go_on(found, what, X, y)
        np.testing.assert_array_equal(scores(found, X), scores(model, X))
    if "warm_start" in ways:
        small.set_params(warm_start=False)
    small.fit(X, y)
    for what in ways:
        go_on(small, what, X, y)
    for what in ways:  # saving left the model as it was
        go_on(model, what, X, y)


def test_a_header_says_what_is_in_a_file(rng, tmp_path):
    X, y = data(rng, 3)
    LinearSVC().fit(X, y).save(tmp_path / "model.npz", state=False, note="free words")
    header = widemargin.files.read_header(tmp_path / "model.npz")
    known = {"kind": "LinearSVC", "features": 3, "classes": NAMES.tolist(), "state": False, "note": "free words"}
    assert {name: header[name] for name in known} == known
    assert header["content"]["parts"]["parameters"]["dict"][0] == ["C", 1.0]
