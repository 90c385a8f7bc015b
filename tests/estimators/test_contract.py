"""The contract of scikit-learn: its own checks, and the company an estimator keeps there."""

import pickle
import re

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from checks import without
from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, LinearSVC, LinearSVR, Pegasos
from widemargin.solvers.pegasos import Bottou

try:
    import sklearn.callback as sklearn_callback
except ImportError:
    sklearn_callback = None

BOTH = [LinearSVC, LinearSVR]


def data(rng, n=60, d=4, classes=2):
    """Rows, labels of as many classes as asked for, real targets."""
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, classes)) + 0.5 * rng.normal(size=(n, classes))
    y = scores.argmax(axis=1)
    y[:classes] = np.arange(classes)  # all classes are there
    return X, y, scores[:, 0]


def targets_for(estimator, y, t):
    return y if issubclass(estimator, LinearSVC) else t


def quick(estimator, **parameters):
    """A few epochs, with a random state, so that two fits on the same data are the same fit."""
    return estimator(**{"tol": 0, "max_iter": 5, "random_state": 0, **parameters})


STOCHASTIC = (
    "steps are stochastic: an example of weight 2 is visited once an epoch with a step twice as long, a repeated one "
    "is visited twice, in other places of the order; they share the minimum (see test_linear.py), not the path"
)


#: Two classes of float32 rows are in check_estimators_dtypes; other losses see scores, which are float64 always.
OTHER_LOSSES_OF_FLOAT32 = re.compile("pegasos.*_train.*float32|SVR.*pegasos.*check_estimators_dtypes")


@without(
    OTHER_LOSSES_OF_FLOAT32,
    parametrize_with_checks(
        [LinearSVC(), LinearSVR(), *(estimator(solver="pegasos", tol=1e-2) for estimator in BOTH)],
        expected_failed_checks=lambda estimator: {
            "check_sample_weight_equivalence_on_dense_data": STOCHASTIC,
            "check_sample_weight_equivalence_on_sparse_data": STOCHASTIC,
        },
    ),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [LinearSVC, LinearSVR, SVC, SVR, BudgetedSVC, BudgetedSVR])
def test_the_public_methods_are_those_that_users_need(estimator):
    """What a base class adds for its own use is none of them."""
    theirs = set(dir(BaseEstimator)) | {name for name in dir(estimator) if name.startswith("set_")}
    methods = {name for name in dir(estimator) if name[0] != "_" and callable(getattr(estimator, name))} - theirs
    probabilities = {"predict_proba", "predict_log_proba"} if estimator is LinearSVC else set()
    usual = {"fit", "partial_fit", "decision_function", "predict", "score", "save", "load"}
    assert methods <= usual | probabilities


# ---------------------------------------------------------------- parameters


def test_a_clone_has_its_own_solver_with_the_same_parameters():
    model = LinearSVC(C=3.0, solver=Pegasos(step=Bottou(0.1), batch_size=4))
    other = clone(model)
    assert other.solver == model.solver
    assert other.solver is not model.solver
    assert other.solver.step is not model.solver.step
    other.set_params(solver__batch_size=8, C=1.0)
    assert (model.solver.batch_size, model.C) == (4, 3.0)
    assert other.get_params()["solver__batch_size"] == 8


def test_a_clone_of_a_fitted_model_is_not_fitted(rng):
    X, y, _ = data(rng)
    assert not [name for name in vars(clone(quick(LinearSVC).fit(X, y))) if name.endswith("_") and name[0] != "_"]


def test_fitting_changes_no_parameter(rng):
    X, y, _ = data(rng)
    model = quick(LinearSVC, solver=Pegasos(batch_size=2), class_weight={0: 2.0})
    before = repr(model.get_params())
    model.fit(X, y)
    assert repr(model.get_params()) == before


def test_a_grid_search_reaches_the_solver(rng):
    X, y, _ = data(rng)
    search = GridSearchCV(
        quick(LinearSVC, solver=Pegasos(average="uniform")),
        {"C": [0.1, 1.0], "solver__batch_size": [1, 4], "solver__average": ["none", "weighted"]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert len(search.cv_results_["params"]) == 8
    best = search.best_estimator_
    assert best.solver.batch_size == search.best_params_["solver__batch_size"]
    # an epoch of batches of k examples is n/k steps
    assert best.history_["steps"][-1] == 5 * -(-60 // best.solver.batch_size)


@pytest.mark.parametrize("estimator", BOTH)
def test_a_pipeline_equals_its_parts(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    piped = make_pipeline(StandardScaler(), quick(estimator)).fit(100 * X + 7, y)
    scaled = StandardScaler().fit_transform(100 * X + 7)
    np.testing.assert_array_equal(piped[-1].coef_, quick(estimator).fit(scaled, y).coef_)
    assert cross_val_score(piped, 100 * X, y, cv=3, error_score="raise").shape == (3,)


def test_random_states_of_every_kind_are_taken(rng):
    X, y, _ = data(rng)
    seed = int(rng.integers(2**31))
    makers = (
        lambda: seed,
        lambda: np.int64(seed),
        lambda: np.random.RandomState(seed),
        lambda: np.random.default_rng(seed),
    )
    for make in makers:
        first, second = (quick(LinearSVC, random_state=make()).fit(X, y).coef_ for _ in range(2))
        np.testing.assert_array_equal(first, second)
    global_state = np.random.get_state()[1].copy()  # noqa: NPY002 (nothing may touch it)
    free = [quick(LinearSVC, random_state=None).fit(X, y).coef_ for _ in range(2)]
    assert not np.array_equal(*free)
    np.testing.assert_array_equal(np.random.get_state()[1], global_state)  # noqa: NPY002


# ---------------------------------------------------------------- data of other kinds


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", BOTH)
def test_data_frames_keep_their_feature_names(estimator, library, rng):
    frames = pytest.importorskip(library)
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    names = ["age", "height", "weight", "income"]
    frame = frames.DataFrame(dict(zip(names, X.T)))
    model = quick(estimator).fit(frame, frames.Series(y))
    assert list(model.feature_names_in_) == names
    np.testing.assert_array_equal(model.coef_, quick(estimator).fit(X, y).coef_)
    np.testing.assert_array_equal(model.predict(frame), quick(estimator).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_labels_may_be_strings_booleans_or_numbers(rng):
    X, y, _ = data(rng)
    expected = quick(LinearSVC).fit(X, y).predict(X)
    for names in (["no", "yes"], [False, True], [-7, 3], np.array(["a", "b"], dtype=object)):
        names = np.asarray(names)
        model = quick(LinearSVC).fit(X, names[y])
        np.testing.assert_array_equal(model.classes_, names)
        np.testing.assert_array_equal(model.predict(X), names[expected])


@pytest.mark.parametrize("estimator", BOTH)
def test_sparse_data_of_any_format_and_index_type_give_the_same_model(estimator, rng):
    X, y, t = data(rng, classes=3)
    y = targets_for(estimator, y, t)
    X[rng.random(X.shape) < 0.5] = 0.0
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    expected = quick(estimator).fit(sp.csr_matrix(X), y).coef_
    for other in (wide, sp.csr_array(X), sp.csc_matrix(X), sp.coo_array(X)):
        np.testing.assert_array_equal(quick(estimator).fit(other, y).coef_, expected)
    assert wide.indices.dtype == np.int64
    # the same steps in another order of summation: roundings of 300 steps
    np.testing.assert_allclose(quick(estimator).fit(X, y).coef_, expected, rtol=1e-9, atol=1e-9)


def test_float32_data_make_a_float32_model(rng):
    X, y, _ = data(rng)
    X = X.astype(np.float32)
    model = quick(LinearSVC).fit(X, y)
    assert model.coef_.dtype == np.float32
    exact = quick(LinearSVC).fit(X.astype(np.float64), y)
    # the same 300 steps, each with a rounding of 6e-8 of weights of size 1
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-3 * np.abs(exact.coef_).max())
    assert model.history_["steps"][-1] == exact.history_["steps"][-1]


@pytest.mark.parametrize("estimator", BOTH)
def test_read_only_memory_maps_are_fitted_in_place(estimator, rng, tmp_path):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    joblib.dump((X, y), tmp_path / "data")
    mapped_X, mapped_y = joblib.load(tmp_path / "data", mmap_mode="r")
    assert not mapped_X.flags.writeable
    model = quick(estimator).fit(mapped_X, mapped_y)
    np.testing.assert_array_equal(model.coef_, quick(estimator).fit(X, y).coef_)
    np.testing.assert_array_equal(model.predict(mapped_X), model.predict(X))


def test_joblib_workers_fit_the_memory_maps_they_get(rng):
    X, y, _ = data(rng)
    grid = {"C": [0.5, 2.0]}
    here = GridSearchCV(quick(LinearSVC), grid, cv=2, error_score="raise").fit(X, y)
    with joblib.parallel_config("loky", n_jobs=2, max_nbytes=1):
        coefs = joblib.Parallel()(joblib.delayed(_fitted_coef)(X, y, C) for C in grid["C"])
        there = GridSearchCV(quick(LinearSVC), grid, cv=2, error_score="raise").fit(X, y)
    for C, coef in zip(grid["C"], coefs):
        np.testing.assert_array_equal(coef, quick(LinearSVC, C=C).fit(X, y).coef_)
    np.testing.assert_array_equal(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"])


def _fitted_coef(X, y, C):
    assert isinstance(X, np.memmap)
    assert not X.flags.writeable
    return quick(LinearSVC, C=C).fit(X, y).coef_


# ---------------------------------------------------------------- metadata


def test_sample_weights_are_routed_through_a_pipeline(rng):
    X, y, _ = data(rng)
    weights = rng.uniform(0.1, 5.0, y.size)
    expected = quick(LinearSVC).fit(StandardScaler().fit_transform(X), y, sample_weight=weights).coef_
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick(LinearSVC).set_fit_request(sample_weight=True)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        piped.fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(piped[-1].coef_, expected)
        unasked = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), quick(LinearSVC))
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
            unasked.fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("estimator", BOTH)
def test_sample_weights_are_routed_through_a_grid_search(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    weights = rng.uniform(0.1, 5.0, y.size)
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick(estimator).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2, error_score="raise").fit(X, y, sample_weight=weights)
        expected = quick(estimator, **search.best_params_).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(search.best_estimator_.coef_, expected.coef_)
    assert not np.array_equal(expected.coef_, quick(estimator, **search.best_params_).fit(X, y).coef_)


def test_partial_fit_can_ask_for_its_metadata():
    with sklearn.config_context(enable_metadata_routing=True):
        LinearSVC().set_partial_fit_request(sample_weight=True, classes=True)
        LinearSVR().set_partial_fit_request(sample_weight=True)


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("estimator", BOTH)
def test_a_pickled_model_predicts_and_goes_on_like_the_one_it_came_from(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    model = quick(estimator, warm_start=True, solver=Pegasos(average="suffix")).fit(X, y)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert other.history_ == model.history_
    assert other.certificate_ == model.certificate_
    model.fit(X, y)
    other.fit(X, y)
    np.testing.assert_array_equal(other.coef_, model.coef_)
    assert not np.array_equal(quick(estimator, solver=Pegasos(average="suffix")).fit(X, y).coef_, model.coef_)


# ---------------------------------------------------------------- scikit-learn's callbacks


class Recorder:
    """A callback of scikit-learn's protocol that writes down what it is told, and stops after ``stop_after`` tasks."""

    def __init__(self, stop_after=None):
        self.events, self.rows, self.models, self.stop_after = [], [], [], stop_after

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        if context.parent is not None:
            self.rows.append(metadata)
            self.models.append((fitted_estimator, fitted_estimator.score(X, y)))
        return self.stop_after is not None and len(self.rows) >= self.stop_after


needs_callbacks = pytest.mark.skipif(sklearn_callback is None, reason="this scikit-learn has no callbacks of its own")


@needs_callbacks
@pytest.mark.parametrize("estimator", BOTH)
def test_callbacks_of_scikit_learn_hear_of_every_checkpoint(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    recorder = Recorder()
    assert isinstance(recorder, sklearn_callback.FitCallback)
    # (an exact solver that is stopped returns its best checkpoint, not its last)
    model = quick(estimator, solver="pegasos").set_callbacks(recorder).fit(X, y)
    kinds = [kind for kind, _ in recorder.events]
    checkpoints = len(model.history_)
    assert kinds == ["setup", "begin", *["begin", "end"] * checkpoints, "end", "teardown"]
    assert recorder.rows == model.history_.rows
    last, score = recorder.models[-1]
    np.testing.assert_array_equal(last.coef_, model.coef_)
    assert score == model.score(X, y)
    # a callback that only listens changes nothing
    np.testing.assert_array_equal(model.coef_, quick(estimator, solver="pegasos").fit(X, y).coef_)


@needs_callbacks
def test_a_callback_of_scikit_learn_can_stop_the_training(rng):
    X, y, _ = data(rng)
    model = quick(LinearSVC, max_iter=1000).set_callbacks(Recorder(stop_after=2)).fit(X, y)
    assert model.stop_reason_ == "callback"
    np.testing.assert_array_equal(model.history_["epochs"], [1, 2])


@needs_callbacks
def test_a_callback_of_scikit_learn_is_torn_down_when_a_fit_fails(rng):
    X, y, _ = data(rng)

    def fail(progress):
        raise RuntimeError("mine")

    recorder = Recorder()
    with pytest.raises(RuntimeError, match="mine"):
        quick(LinearSVC, callbacks=fail).set_callbacks(recorder).fit(X, y)
    assert recorder.events[-1] == ("teardown", "fit")


@needs_callbacks
def test_a_model_with_callbacks_can_be_fitted_inside_a_search(rng):
    X, y, _ = data(rng)
    search = GridSearchCV(quick(LinearSVC).set_callbacks(Recorder()), {"C": [0.1, 1.0]}, cv=2, error_score="raise")
    assert search.fit(X, y).best_estimator_.coef_.shape == (1, 4)


def test_a_fit_that_has_not_settled_warns_and_says_what_to_do(rng):
    X, y, _ = data(rng)
    with pytest.warns(ConvergenceWarning, match=r"LinearSVC used all max_iter=2 epochs.*raise max_iter"):
        LinearSVC(solver="pegasos", max_iter=2, tol=1e-12, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"LinearSVC stopped with a relative duality gap of .*raise max_iter"):
        LinearSVC(max_iter=2, tol=1e-12, random_state=0).fit(X, y)
