"""Estimators in notebooks: scikit-learn's diagram, and a line on how training ended."""

import re

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, SVR, BudgetedSVC, IncrementalSVC, LinearSVC, LinearSVR
from widemargin.estimators.fit.notebooks import how_it_went

EVERY = [LinearSVC(), LinearSVR(), SVC(), SVR(), BudgetedSVC(5), IncrementalSVC()]


def line_of(estimator):
    """The texts of the line under the diagram; None if there is none."""
    shown = {estimator._repr_html_(), estimator._repr_mimebundle_()["text/html"]}
    lines = {tuple(re.findall(r'<div class="widemargin-training"[^>]*>(.*?)</div>', each, re.DOTALL)) for each in shown}
    assert len(lines) == 1  # both ways show the same, once
    (line,) = lines
    assert len(line) <= 1
    return re.sub("<.*?>", "", line[0]) if line else None


@pytest.fixture
def data(rng):
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] > np.median(X[:, 0])


@pytest.mark.parametrize("estimator", EVERY, ids=lambda each: type(each).__name__)
def test_an_unfitted_estimator_is_shown_as_scikit_learn_does(estimator):
    assert line_of(estimator) is None
    assert type(estimator).__name__ in estimator._repr_html_()
    assert estimator._repr_mimebundle_()["text/plain"] == repr(estimator)


@pytest.mark.parametrize("estimator", EVERY, ids=lambda each: type(each).__name__)
def test_a_fitted_one_says_why_it_stopped_what_is_proven_and_how_large_it_is(estimator, data):
    model = sklearn.base.clone(estimator).fit(data[0], data[1].astype(float))
    line = line_of(model)
    assert f"stopped: {model.stop_reason_} (" in line
    known = model.certificate_ is not None
    assert f"relative gap: {f'{model.certificate_.relative_gap:.1e}' if known else 'not known'}" in line
    vectors = getattr(model, "support_vectors_", None)
    size = f"{model.coef_.size} weights" if vectors is None else f"{len(vectors)} support vectors"
    assert f"size: {size}" in line
    assert f"{model.history_.last('epochs'):.4g} epochs" in line


def test_of_several_problems_the_largest_gap_is_told(rng):
    X = rng.normal(size=(60, 3))
    model = SVC().fit(X, rng.permutation(60) % 3)
    gaps = [each.relative_gap for each in model.certificate_]
    assert how_it_went(model)["relative gap"] == f"at most {max(gaps):.1e} in 3 of 3 problems"


def test_a_precomputed_kernel_counts_its_support(data):
    X, y = data
    model = SVC(kernel="precomputed").fit(X @ X.T, y)
    assert how_it_went(model)["size"] == f"{model.support_.size} support vectors"


def test_what_is_configured_is_kept(data):
    with sklearn.config_context(display="text"):
        assert "text/html" not in SVC().fit(*data)._repr_mimebundle_()
        assert not hasattr(SVC(), "_repr_html_")
    model = make_pipeline(StandardScaler(), SVC()).fit(*data)
    assert "SVC" in model._repr_html_()


def test_words_of_users_are_escaped(data):
    model = SVC().fit(*data)
    model.stop_reason_ = "<script>"
    assert "<script>" not in model._repr_html_().rpartition("widemargin-training")[2]
