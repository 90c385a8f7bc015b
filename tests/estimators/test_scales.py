"""Data of every scale that float64 holds: a right model, or a sentence; never NaN, an OverflowError or a useless model
without a word."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, LinearSVC, LinearSVR
from widemargin.core.rows.rows import DenseRows, as_rows
from widemargin.problems.layout import check_features

X, LABELS = load_breast_cancer(return_X_y=True)
X, LABELS = StandardScaler().fit_transform(X)[::4], LABELS[::4]
TARGETS = X[:, 0] + 0.5 * X[:, 3]
SCALES = [1e-300, 1e-160, 1e-25, 1e-10, 1e10, 1e20, 1e160, 1e300]
#: Those of which float64 holds the variance and its inverse.
SQUARED = [1e-150, *SCALES[2:6], 1e150]


def product(A, B):
    """A black box."""
    return A @ B.T


#: Kernels that do not change with the scale of the data, and solvers.
INVARIANT = [
    SVC(),
    SVC(kernel="poly"),
    SVC(kernel="sigmoid"),
    SVC(solver="sbp"),
    SVC(solver="sdca"),
    SVC(solver="pegasos", max_iter=5),
    SVC(solver="perceptron", max_iter=1),
    SVR(),
    SVR(solver="sdca"),
    BudgetedSVC(budget=40, random_state=0),
    BudgetedSVC(budget=40, kernel="poly", maintenance="project", random_state=0),
    BudgetedSVR(budget=40, random_state=0),
]
#: Kernel values of every size.
OTHERS = [
    SVC(kernel="linear"),
    SVC(gamma=0.1),
    SVC(gamma=0.1, kernel="poly"),
    SVC(kernel="laplacian"),
    SVC(kernel=product),
    SVR(kernel="linear"),
    BudgetedSVC(budget=40, gamma=0.1, random_state=0),
    LinearSVC(max_iter=50),
    LinearSVC(solver="pegasos", max_iter=20, random_state=0),
    LinearSVC(loss="squared_hinge", max_iter=50),
    LinearSVC(solver="interior"),
    LinearSVR(max_iter=50),
    LinearSVR(solver="interior", max_iter=50),
]


def in_turn(estimators):
    """Each with dense or sparse data in turn; the first of its class with both."""
    for place, estimator in enumerate(estimators):
        first = type(estimator) not in map(type, estimators[:place])
        for layout in (np.asarray, sp.csr_matrix) if first else (sp.csr_matrix if place % 2 else np.asarray,):
            yield estimator, layout


def name_of(value):
    return getattr(value, "__name__", repr(value).split(" at 0x")[0])


def is_classifier(estimator):
    return estimator.__sklearn_tags__().estimator_type == "classifier"


def targets_for(estimator):
    return LABELS if is_classifier(estimator) else TARGETS


def scores_of(model, Z):
    return model.decision_function(Z) if hasattr(model, "decision_function") else model.predict(Z)


def fitted(estimator, Z):
    """(model, warnings); RuntimeWarnings of NumPy are errors."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("error", RuntimeWarning)
        return clone(estimator).fit(Z, targets_for(estimator)), [str(warning.message) for warning in said]


@pytest.mark.parametrize(("estimator", "layout"), in_turn(INVARIANT), ids=name_of)
def test_scores_do_not_change_with_the_scale_of_the_data(estimator, layout):
    model, _ = fitted(estimator, layout(X))
    expected = scores_of(model, layout(X))
    for scale in SQUARED:
        power = 2.0 ** np.round(np.log2(scale))
        scaled, _ = fitted(estimator, layout(X * power))
        np.testing.assert_allclose(scores_of(scaled, layout(X * power)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [scale for scale in SCALES if scale not in SQUARED])
@pytest.mark.parametrize(("estimator", "layout"), in_turn(INVARIANT), ids=name_of)
def test_gamma_of_a_scale_that_float64_cannot_hold_is_refused(estimator, layout, scale):
    Z, y = layout(X * scale), targets_for(estimator)
    parts = [{"classes": [0, 1]} if is_classifier(estimator) else {}] if hasattr(estimator, "partial_fit") else []
    largest = rf"{np.abs(Z).max():.1e}".replace("+", r"\+")
    with pytest.raises(ValueError, match=f"gamma='scale' is .* entries up to {largest}.*: scale the data"):
        clone(estimator).fit(Z, y)
    for known in parts:
        with pytest.raises(ValueError, match=f"gamma='scale' is .* entries up to {largest}.*: scale the data"):
            clone(estimator).partial_fit(Z, y, **known)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("estimator", [SVC(), BudgetedSVC(budget=40, random_state=0)], ids=repr)
def test_scores_of_float32_data_do_not_change_with_its_scale(estimator, scale):
    power = 2.0 ** np.round(np.log2(scale))
    model, scaled = (fitted(estimator, (X * s).astype(np.float32))[0] for s in (1.0, power))
    found, expected = scores_of(scaled, (X * power).astype(np.float32)), scores_of(model, X.astype(np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize(("estimator", "layout"), in_turn(INVARIANT + OTHERS), ids=name_of)
def test_a_model_of_any_scale_is_useful_or_there_is_a_sentence(estimator, layout, column):
    sentences = []
    for scale in SCALES[1::2] if column else SCALES:
        Z = X.copy()
        Z[:, 2 if column else slice(None)] *= scale
        Z = layout(Z)
        try:
            model, said = fitted(estimator, Z)
        except ValueError as refused:
            sentences.append(str(refused))
            continue
        scores = scores_of(model, Z)
        assert np.isfinite(scores).all()
        told = any("scale the" in text for text in said)
        if is_classifier(estimator):
            assert told or np.unique(model.predict(Z)).size == 2
            assert told or model.score(Z, LABELS) > 0.8
        else:
            assert told or model.score(Z, TARGETS) > 0.0
    assert all("scale the" in sentence for sentence in sentences)


@pytest.mark.parametrize("estimator", [LinearSVC(), LinearSVC(solver="pegasos"), LinearSVR()], ids=repr)
def test_linear_features_that_cannot_be_computed_with_or_used_are_named(estimator):
    with pytest.raises(ValueError, match=r"entries up to 1\.\de\+161, and sums of their squares overflow: scale the f"):
        clone(estimator).fit(X * 1e160, targets_for(estimator))
    with pytest.warns(UserWarning, match=r"features up to 1\.\de-09 move no score by more than .*: scale the features"):
        clone(estimator).fit(X * 1e-10, targets_for(estimator))
    if hasattr(estimator, "partial_fit") and is_classifier(estimator):
        with pytest.raises(ValueError, match="sums of their squares overflow"):
            clone(estimator).partial_fit(X * 1e160, LABELS, classes=[0, 1])


def test_unscaled_features_need_many_moves_and_few_rounds():
    """A linear kernel of features from 0.01 to 1000 ends at tol, not at the default limit of epochs."""
    model = SVC(kernel="linear").fit(*load_breast_cancer(return_X_y=True))
    assert model.stop_reason_ == "tol"
    assert model.certificate_.relative_gap <= model.tol


@pytest.mark.parametrize("layout", [DenseRows, lambda data: as_rows(sp.csr_matrix(data))])
@pytest.mark.parametrize("entries", ["equal", "one large"])
@pytest.mark.parametrize(("times", "told"), [(0.9, True), (1.1, False)])
def test_features_are_too_small_by_the_largest_of_their_entries(layout, entries, times, told):
    """Where the slope of the loss times C n d max x² < 2⁻²⁴, however large the others are."""
    n, d, C, slope = 500, 4, 0.5, 2.0
    data = np.full((n, d), math.sqrt(times * 2.0**-24 / (C * slope * n * d)))
    if entries == "one large":
        data[1:] *= 1e-3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_features(layout(data), C, "unregularized", slope)
    assert bool(caught) == told
    assert all(f"with C={C:g} " in str(each.message) for each in caught)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("estimator", [BudgetedSVC(budget=20), BudgetedSVR(budget=20)], ids=repr)
def test_budgeted_machines_name_features_of_very_different_sizes(estimator, layout):
    raw = X * 10.0 ** (np.arange(X.shape[1]) % 7)
    with pytest.warns(ConvergenceWarning, match=r"features differ in size.*scale the features, for example with Stand"):
        clone(estimator).fit(layout(raw), targets_for(estimator))
    binary = (X > 1.0).astype(float)  # rare features are not small ones
    for data in (X, binary):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clone(estimator).fit(layout(data), targets_for(estimator))
