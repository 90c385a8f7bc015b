"""What users of scikit-learn expect works, or a sentence says what to do."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from sklearn import svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from widemargin import SVC, SVR, BudgetedSVC, IncrementalSVC, LinearSVC

CLASSIFIERS = [LinearSVC(random_state=0), SVC(), BudgetedSVC(10, random_state=0), IncrementalSVC()]


def named(each):
    return type(each).__name__


@pytest.fixture
def data(rng):
    X = rng.normal(size=(90, 4))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=90) > np.median(X[:, 0]), "yes", "no")


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=named)
def test_probabilities_come_in_two_lines(estimator, data):
    X, y = data
    model = CalibratedClassifierCV(estimator, ensemble=False, cv=3).fit(X, y)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    scores = clone(estimator).fit(X, y).decision_function(X)  # which a sigmoid maps, with or against their order
    ranks = np.argsort(np.argsort(scores, kind="stable"))
    apart = np.abs(np.subtract.outer(scores, scores)) > 1e-9 * np.abs(scores).max()
    rising = np.subtract.outer(found[:, 1], found[:, 1]) * np.sign(np.subtract.outer(ranks, ranks))
    assert (rising[apart] >= -1e-12).all() or (rising[apart] <= 1e-12).all()  # which is rounding


@pytest.mark.parametrize("estimator", CLASSIFIERS[1:], ids=named)
@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba"])
def test_who_asks_a_classifier_for_probabilities_reads_what_to_do(estimator, name, data):
    for model in (estimator, clone(estimator).fit(*data)):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=rf"{named(model)} has no {name}, .* CalibratedClassifierCV\(model\)"):
            getattr(model, name)


def test_an_attribute_that_nobody_expects_is_told_as_ever(data):
    model = SVC().fit(*data)
    with pytest.raises(AttributeError, match="object has no attribute 'colour'"):
        model.colour  # noqa: B018
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        model.predict_proba  # noqa: B018
    with pytest.raises(AttributeError, match="object has no attribute 'predict_proba'"):
        SVR().predict_proba  # noqa: B018
    with pytest.raises(AttributeError):  # a property that refuses
        model.coef_  # noqa: B018
    assert not hasattr(LinearSVC(), "predict_proba")
    assert hasattr(LinearSVC(loss="log"), "predict_proba")
    for same in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(same.predict(data[0]), model.predict(data[0]))


def test_set_output_is_of_the_transformers_before(data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data[0], columns=list("abcd"))
    with pytest.raises(AttributeError, match="set_output of the pipeline"):
        SVC().set_output(transform="pandas")
    model = make_pipeline(StandardScaler(), SVC()).set_output(transform="pandas").fit(frame, data[1])
    assert model[-1].feature_names_in_.tolist() == list("abcd")


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=named)
def test_features_keep_their_names_and_others_are_refused(estimator, data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data[0], columns=list("abcd"))
    model = clone(estimator).fit(frame, data[1])
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match=r"same order as they were in fit"):
        model.predict(frame[list("badc")])
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- z\n.*now missing:\n- a"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(data[0])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_without_numbers_are_named(library, data):
    frame = pytest.importorskip(library).DataFrame
    columns = {**dict(zip("abcd", data[0].T)), "town": ["Graz", "Wels"] * 45}
    with pytest.raises(ValueError, match=r"its column 'town' does not: encode .*OneHotEncoder"):
        SVC().fit(frame(columns), data[1])
    columns["day"] = np.arange(90).astype("datetime64[D]")
    with pytest.raises(ValueError, match=r"its columns 'town', 'day' do not: encode .*OneHotEncoder"):
        SVC().fit(frame(columns), data[1])


def test_categories_are_named_and_what_the_sentence_says_works(data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data[0], columns=list("abcd"))
    frame["town"] = pandas.Categorical(["Graz", "Wels"] * 45)
    with pytest.raises(ValueError, match="its column 'town' does not"):
        SVC().fit(frame, data[1])
    encoded = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(encoded, SVC()).fit(frame, data[1])
    assert model[-1].n_features_in_ == 6


def test_weights_are_routed_through_a_search_and_a_pipeline(data, rng):
    X, y = data
    weights = rng.uniform(0.1, 2.0, size=y.size)

    def searched(machine):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        machine.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        return GridSearchCV(make_pipeline(scaler, machine), {"svc__C": [1.0]}, cv=3).fit(X, y, sample_weight=weights)

    with sklearn.config_context(enable_metadata_routing=True):
        try:
            searched(svm.SVC())
        except UnsetMetadataPassedError:
            pytest.skip("this scikit-learn routes nothing to the score of a pipeline, with its own SVC either")
        search = searched(SVC())
    alone = SVC().fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
    scaled = search.best_estimator_[0].transform(X)
    np.testing.assert_array_equal(search.best_estimator_[-1].decision_function(scaled), alone.decision_function(scaled))
    without = SVC().fit(scaled, y)
    assert not np.array_equal(without.decision_function(scaled), alone.decision_function(scaled))


class Elsewhere:
    """An array of another library: it has a shape and speaks DLPack, and is no NumPy array."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __len__(self):
        return len(self.values)

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=named)
def test_arrays_of_other_libraries_are_taken_by_dlpack(estimator, data):
    X, y = data[0], (data[1] == "yes").astype(np.int64)
    model, same = clone(estimator).fit(X, y), clone(estimator).fit(Elsewhere(X), Elsewhere(y))
    np.testing.assert_array_equal(np.asarray(same.decision_function(Elsewhere(X))), model.decision_function(X))
