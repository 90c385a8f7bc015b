"""SVC and SVR: scikit-learn's contract, attributes, certificates, paths, and problems at the edge."""

import pickle
import signal
import tracemalloc
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm as libsvm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, rbf_kernel, sigmoid_kernel
from sklearn.svm import SVC as RivalSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import SMO, SVC, SVR, StochasticBatchPerceptron, solvers, svm_path
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.estimators.fit import jobs, pairs, proof
from widemargin.models import KernelModel

try:
    import sklearn.callback as sklearn_callback
except ImportError:
    sklearn_callback = None

BOTH = [SVC, SVR]


class Recorder:
    """A callback of scikit-learn's protocol that keeps the rows and the models of all checkpoints."""

    def __init__(self):
        self.rows, self.models = [], []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata=None, fitted_estimator=None):
        if context.parent is not None:
            self.rows.append(metadata)
            self.models.append(fitted_estimator)
        return False


def data(rng, n=80, d=3, classes=2):
    """Rows, labels of as many classes as asked for, real targets."""
    X = rng.normal(size=(n, d))
    t = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n)
    y = np.digitize(t, np.quantile(t, np.arange(1, classes) / classes))
    return X, y, t


def targets_for(estimator, y, t):
    return y if issubclass(estimator, SVC) else t


def scores_of(model, X):
    return model.decision_function(X) if isinstance(model, SVC) else model.predict(X)


def strictly(fit, *given, **named):
    """Call with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fit(*given, **named)


# ---------------------------------------------------------------- the contract


WITHIN_TOL = (
    "a weight of 2 and a repeated example are the same problem, but both runs stop within tol of its optimum, not at "
    "it; see the next test"
)


@parametrize_with_checks(
    [SVC(), SVR()],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": WITHIN_TOL,
        "check_sample_weight_equivalence_on_sparse_data": WITHIN_TOL,
    },
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("estimator", BOTH)
def test_a_weight_of_two_is_an_example_twice_and_of_zero_none(estimator, sparse, rng):
    """w is within √(2 tol P) of w*, P ≤ Σ C s: 1e-6 leaves √(2e-6 · 80) ≈ 0.013 for each, and the bias follows."""
    X, y, t = data(rng, 40)
    y, weights = targets_for(estimator, y, t), rng.integers(0, 3, 40)
    rows = sp.csr_matrix if sparse else np.asarray
    tight = {"tol": 1e-6, "gamma": 0.5}
    weighted = estimator(**tight).fit(rows(X), y, sample_weight=weights)
    repeated = estimator(**tight).fit(rows(np.repeat(X, weights, axis=0)), np.repeat(y, weights))
    bound = 4 * np.sqrt(2 * 1e-6 * weights.sum())
    np.testing.assert_allclose(scores_of(weighted, X), scores_of(repeated, X), atol=bound)
    # an example of weight 0 has the bound 0
    assert not np.isin(np.flatnonzero(weights == 0), weighted.support_).any()


# ---------------------------------------------------------------- attributes


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_attributes_have_scikit_learns_shapes(classes, shape, rng):
    X, y, _ = data(rng, 120, classes=classes)
    ours = SVC(decision_function_shape=shape, tol=1e-6).fit(X, y)
    theirs = libsvm.SVC(decision_function_shape=shape, tol=1e-6).fit(X, y)
    for name in ("classes_", "n_support_", "intercept_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
    n_support = ours.support_.size
    assert ours.support_.shape == (n_support,)
    assert ours.support_vectors_.shape == (n_support, X.shape[1])
    assert ours.dual_coef_.shape == (classes - 1, n_support)
    assert ours.n_support_.sum() == n_support
    # by class, as theirs
    np.testing.assert_array_equal(y[ours.support_], np.sort(y[ours.support_]))
    np.testing.assert_array_equal(np.bincount(y[ours.support_], minlength=classes), ours.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    scores = ours.decision_function(X)
    assert scores.shape == theirs.decision_function(X).shape
    assert np.corrcoef(scores.ravel(), theirs.decision_function(X).ravel())[0, 1] > 0.999
    # the same optimum: the same coefficients, to √tol
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=0.05)
    mine, other = np.zeros((classes - 1, y.size)), np.zeros((classes - 1, y.size))
    mine[:, ours.support_], other[:, theirs.support_] = ours.dual_coef_, theirs.dual_coef_
    np.testing.assert_allclose(mine, other, atol=0.1)


def test_attributes_of_regression(rng):
    X, _, t = data(rng)
    ours, theirs = SVR(tol=1e-6).fit(X, t), libsvm.SVR(tol=1e-6).fit(X, t)
    assert ours.dual_coef_.shape == (1, ours.support_.size)
    assert ours.intercept_.shape == theirs.intercept_.shape == (1,)
    assert ours.n_support_.tolist() == [ours.support_.size]
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    kernel = rbf_kernel(X, ours.support_vectors_, 1.0 / (X.shape[1] * X.var()))
    # predictions are made with float32 data
    np.testing.assert_allclose(kernel @ ours.dual_coef_[0] + ours.intercept_, ours.predict(X), atol=1e-4)


def test_one_versus_rest_has_one_column_per_class(rng):
    X, y, _ = data(rng, classes=4)
    model = SVC(multi_class="ovr").fit(X, y)
    assert model.decision_function(X).shape == (y.size, 4)
    assert model.dual_coef_.shape == (4, model.support_.size)
    assert len(model.certificate_) == model.intercept_.size == 4


@pytest.mark.parametrize("solver", list(solvers.REGISTRY["kernel"]))
def test_every_solver_gives_a_certificate_and_a_history(solver, rng):
    X, y, _ = data(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(solver=solver, max_iter=200, tol=1e-2, random_state=0).fit(X, y)
    certificate = model.certificate_
    assert 0.0 <= certificate.dual <= certificate.primal
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual)
    for column in ("problem", "seconds", "epochs", "steps", "visits", "updates", "kernel_evals", "objective"):
        assert np.isfinite(model.history_[column]).all(), column
    # the history has the values of float32 kernel values; training goes on in float64 where these hide more of the
    # certificate than this share of tol, or of the gap
    allowed = proof.SHARE * max(1e-2 * certificate.primal, certificate.gap)
    assert model.history_["objective"][-1] == pytest.approx(certificate.primal, abs=allowed)
    if solver in ("smo", "sdca"):
        assert model.stop_reason_ == "tol"
        assert certificate.relative_gap <= 1e-2
        # the certificate is of exact kernel values
        assert model.history_["gap"][-1] == pytest.approx(certificate.gap, abs=1e-4 * certificate.primal)


def test_each_binary_problem_has_its_certificate_and_its_number_in_the_history(rng, monkeypatch):
    X, y, _ = data(rng, 120, classes=4)
    together = SVC(tol=1e-3).fit(X, y)  # so many and so small pairs have one run
    assert set(together.history_["problem"]) == {-1}
    assert [c.primal for c in together.certificate_] == pytest.approx(
        [c.primal for c in SVC(tol=1e-6).fit(X, y).certificate_], rel=1.1e-3
    )
    monkeypatch.setattr(pairs, "SMALL_PAIRS", (0, 0))
    model = SVC(tol=1e-3).fit(X, y)
    assert len(model.certificate_) == 6
    assert all(0.0 <= c.gap <= 1e-3 * c.primal for c in model.certificate_)
    assert set(model.history_["problem"]) == set(range(6))


# ---------------------------------------------------------------- data, kernels and weights


@pytest.mark.parametrize("fitted", [np.float32, np.float64])
def test_sparse_rows_to_predict_may_have_another_precision(fitted, rng):
    X = sp.random(80, 6, 0.5, format="csr", rng=rng)
    model = SVC(gamma=0.5).fit(X.astype(fitted), rng.integers(0, 2, 80))
    scores = [model.decision_function(X.astype(dtype)) for dtype in (np.float32, np.float64)]
    np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
@pytest.mark.parametrize("estimator", BOTH)
def test_dense_and_sparse_rows_are_interchangeable(estimator, kernel, rng):
    X, y, t = data(rng, d=6)
    X[rng.uniform(size=X.shape) < 0.5] = 0.0
    y = targets_for(estimator, y, t)
    dense = estimator(kernel=kernel, gamma=0.2, tol=1e-6).fit(X, y)
    sparse = estimator(kernel=kernel, gamma=0.2, tol=1e-6).fit(sp.csr_matrix(X), y)
    # a model's own predictions do not depend on the layout beyond the rounding of float32 data
    for model in (dense, sparse):
        np.testing.assert_allclose(scores_of(model, X), scores_of(model, sp.csr_matrix(X)), atol=1e-5)
    # two models of the same problem are √(2 tol P) apart
    bound = 8 * np.sqrt(2e-6 * y.size) * max(1.0, np.abs(scores_of(dense, X)).max())
    np.testing.assert_allclose(scores_of(dense, X), scores_of(sparse, X), atol=bound)


@pytest.mark.parametrize("estimator", BOTH)
def test_callable_precomputed_and_named_kernels_agree(estimator, rng):
    X, y, t = data(rng)
    Z, y = rng.normal(size=(20, 3)), targets_for(estimator, y, t)
    named = estimator(kernel="rbf", gamma=0.5, tol=1e-6).fit(X, y)
    called = estimator(kernel=lambda A, B: rbf_kernel(A, B, 0.5), tol=1e-6).fit(X, y)
    given = estimator(kernel="precomputed", tol=1e-6).fit(rbf_kernel(X, X, 0.5), y)
    expected = scores_of(named, Z)
    bound = 4 * np.sqrt(2e-6 * y.size)  # √(2 tol P) for each model, and the bias
    np.testing.assert_allclose(scores_of(called, Z), expected, atol=bound)
    np.testing.assert_allclose(scores_of(given, rbf_kernel(Z, X, 0.5)), expected, atol=bound)


def test_class_weights_are_sample_weights(rng):
    X, y, _ = data(rng)
    by_class = SVC(class_weight={0: 3.0, 1: 0.5}, tol=1e-6, random_state=0).fit(X, y)
    by_example = SVC(tol=1e-6, random_state=0).fit(X, y, sample_weight=np.where(y == 0, 3.0, 0.5))
    np.testing.assert_array_equal(by_class.decision_function(X), by_example.decision_function(X))
    balanced = SVC(class_weight="balanced", tol=1e-6, random_state=0).fit(X[20:], y[20:])
    counts = np.bincount(y[20:])
    same = SVC(class_weight=dict(enumerate(60 / (2 * counts))), tol=1e-6, random_state=0).fit(X[20:], y[20:])
    np.testing.assert_array_equal(balanced.decision_function(X), same.decision_function(X))


def test_ties_of_votes_go_to_the_first_class_or_to_the_scores_as_in_scikit_learn(rng):
    X, y, _ = data(rng, 200, classes=5)
    Z = 3.0 * rng.normal(size=(2000, 3))
    for break_ties in (False, True):
        model = SVC(C=0.5, break_ties=break_ties, tol=1e-6).fit(X, y)
        rival = RivalSVC(C=0.5, gamma=model._gamma, break_ties=break_ties, tol=1e-6).fit(X, y)
        expected, best = rival.predict(Z), np.sort(rival.decision_function(Z), axis=1)[:, -2:]
        near = np.abs(rival.set_params(decision_function_shape="ovo").decision_function(Z)).min(axis=1) < 1e-3
        near |= best[:, 1] - best[:, 0] < 1e-3
        np.testing.assert_array_equal(model.predict(Z)[~near], expected[~near])
    np.testing.assert_array_equal(model.predict(Z), model.decision_function(Z).argmax(axis=1))
    with pytest.raises(ValueError, match="break_ties decides by scores of classes"):
        SVC(break_ties=True, decision_function_shape="ovo").fit(X, y)


def test_lam_overrides_C(rng):
    X, y, _ = data(rng)
    model = SVC(C=123.0, lam=1.0 / (2.0 * y.size), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), SVC(C=2.0, random_state=0).fit(X, y).decision_function(X))


def test_labels_may_be_words(rng):
    X, y, _ = data(rng, classes=3)
    words = np.array(["low", "mid", "top"])[y]
    numbered = SVC(random_state=0).fit(X, y).predict(X)
    np.testing.assert_array_equal(
        SVC(random_state=0).fit(X, words).predict(X), np.array(["low", "mid", "top"])[numbered]
    )


def test_threads_and_repetition_do_not_change_a_bit(rng):
    X, y, _ = data(rng, 300, d=5, classes=3)
    first = SVC(random_state=3).fit(X, y)
    for more in ({}, {"n_jobs": 2}, {"n_jobs": -1}):
        other = SVC(random_state=3, **more).fit(X, y)
        np.testing.assert_array_equal(first.dual_coef_, other.dual_coef_)
        np.testing.assert_array_equal(first.intercept_, other.intercept_)
        np.testing.assert_array_equal(first.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("cache_size", [1e-6, 0.05, 500])
def test_any_cache_size_is_safe(cache_size, rng):
    X, y, _ = data(rng, 500, classes=3)
    model = strictly(SVC(cache_size=cache_size, random_state=0).fit, X, y)
    best = SVC(tol=1e-5, random_state=0).fit(X, y)
    for own, other in zip(model.certificate_, best.certificate_):
        assert own.primal <= other.primal * (1 + 1e-3)


def test_probabilities_come_from_calibration(rng):
    X, y, _ = data(rng, 120)
    shares = CalibratedClassifierCV(SVC(), cv=2).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


# ---------------------------------------------------------------- paths, limits, memory, copies


@pytest.mark.parametrize("intercept", ["unregularized", "regularized", "none"])
def test_a_path_is_the_separate_fits(intercept, rng):
    X, y, _ = data(rng, 120)
    Cs = [10.0, 0.1, 1.0, 0.1]
    models = svm_path(X, y, Cs, intercept=intercept, tol=1e-4)
    assert [model.C for model in models] == Cs
    for model in models:
        separate = SVC(C=model.C, intercept=intercept, tol=1e-4).fit(X, y)
        assert model.certificate_.relative_gap <= 1e-4
        assert model.certificate_.primal == pytest.approx(separate.certificate_.primal, rel=1e-4)


def test_a_path_takes_weights(rng):
    X, y, _ = data(rng)
    weights = rng.uniform(0.5, 2.0, y.size)
    for model in svm_path(X, y, [0.5, 5.0], sample_weight=weights, tol=1e-4):
        separate = SVC(C=model.C, tol=1e-4).fit(X, y, sample_weight=weights)
        assert model.certificate_.primal == pytest.approx(separate.certificate_.primal, rel=1e-4)


def test_a_path_refuses_what_it_cannot_do(rng):
    X, y, _ = data(rng, classes=3)
    with pytest.raises(ValueError, match="a path needs two classes, got 3"):
        svm_path(X, y, [1.0])
    with pytest.raises(ValueError, match=r"each of Cs must be > 0 and finite, got 0\.0"):
        svm_path(X, y, [1.0, 0.0])


@pytest.mark.parametrize("intercept", ["regularized", "none"])
def test_a_path_of_sdca_is_the_separate_fits_of_smo(intercept, rng):
    X, y, _ = data(rng)
    weights = rng.uniform(0.5, 2.0, y.size)
    for model in svm_path(X, y, [0.1, 1.0, 10.0], sample_weight=weights, solver="sdca", intercept=intercept):
        separate = SVC(C=model.C, intercept=intercept).fit(X, y, sample_weight=weights)
        assert model.certificate_.relative_gap <= 1e-3
        # each is above the optimum by its gap at most
        assert model.certificate_.primal == pytest.approx(separate.certificate_.primal, rel=2e-3)


def test_a_path_of_a_solver_without_warm_starts_is_trained(rng):
    X, y, _ = data(rng)
    assert all(model.certificate_.relative_gap <= 1e-3 for model in svm_path(X, y, [0.1, 1.0], solver="sbp"))


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("intercept", ["regularized", "none"])
def test_regression_by_sdca_has_the_optimum_of_smo(intercept, kernel, rng):
    X, _, t = data(rng, 80)
    weights = rng.uniform(0.5, 2.0, t.size)
    options = {"kernel": kernel, "intercept": intercept, "max_iter": 100000}
    ours, exact = (SVR(solver=name, **options).fit(X, t, sample_weight=weights) for name in ("sdca", "smo"))
    assert ours.stop_reason_ == "tol"
    assert ours.certificate_.relative_gap <= 1e-3
    assert ours.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=2e-3)
    # what is minimised is strongly convex in w, so scores differ by √(2 × gap × (K(x, x) + 1)/λ) each at most
    scale = 1.0 if kernel == "rbf" else np.sum(X**2, axis=1).max()
    gaps = [model.certificate_.gap for model in (ours, exact)]
    apart = sum(np.sqrt(2.0 * gap * (scale + 1.0) * t.size) for gap in gaps)
    assert np.abs(ours.predict(X) - exact.predict(X)).max() <= apart + 1e-5


def test_a_fitted_member_of_a_path_starts_afresh_when_it_is_fitted_to_other_data(rng):
    X, y, _ = data(rng)
    model = svm_path(X, y, [0.1, 1.0])[1]
    X, y, _ = data(rng, 50)
    assert model.fit(X, y).certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize("estimator", BOTH)
def test_too_few_epochs_warn_with_the_gap(estimator, rng):
    X, y, t = data(rng, 600)
    model = estimator(C=100.0, max_iter=1, tol=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped with a relative duality gap of ") as seen:
        model.fit(X, targets_for(estimator, y, t))
    assert model.stop_reason_ == "max_iter"
    assert f"{model.certificate_.relative_gap:.1e}" in str(seen[0].message)
    # tol=0 says that the number of epochs is what is wanted
    strictly(estimator(C=100.0, max_iter=1, tol=0, random_state=0).fit, X, targets_for(estimator, y, t))


@pytest.mark.parametrize("estimator", BOTH)
def test_a_time_limit_leaves_a_model_with_its_certificate(estimator, rng):
    X, y, t = data(rng, 1500)
    y = targets_for(estimator, y, t)
    model = estimator(C=1e3, tol=1e-8, max_seconds=1e-3).fit(X, y)
    assert model.stop_reason_ == "max_seconds"
    assert model.certificate_.gap >= 0.0
    assert scores_of(model, X).shape == (1500,)


def test_a_callback_stops_a_fit(rng):
    X, y, _ = data(rng, 300)
    rows = []
    model = SVC(tol=1e-9, callbacks=lambda progress: rows.append(progress.row) or True).fit(X, y)
    assert model.stop_reason_ == "callback"
    assert len(rows) == 1


def test_a_fit_that_stalls_short_of_its_tolerance_warns_with_the_gap(rng):
    X, y, _ = data(rng)
    # no float64 sum is this exact
    model = SVC(tol=1e-15, C=100.0)
    with pytest.warns(ConvergenceWarning, match="relative duality gap of .*: raise tol"):
        model.fit(X, y)
    assert model.stop_reason_ == "precision"


def test_ctrl_c_leaves_a_model(rng):
    X, y, t = data(rng)
    for estimator in BOTH:
        model = estimator(tol=1e-12, callbacks=lambda progress: signal.raise_signal(signal.SIGINT))
        model.fit(X, targets_for(estimator, y, t))
        assert model.stop_reason_ == "interrupted"
        assert np.isfinite(scores_of(model, X)).all()


def test_one_ctrl_c_ends_the_training_of_all_pairs(rng, monkeypatch):
    """Either no further pair is begun (and none is without a model), or the interrupt is passed on."""
    monkeypatch.setattr(pairs, "SMALL_PAIRS", (0, 0))
    X, y, _ = data(rng, 200, classes=5)
    seen = []

    def interrupt(progress):
        seen.append(progress.problem)
        if len(seen) == 2:
            signal.raise_signal(signal.SIGINT)

    try:
        model = SVC(callbacks=interrupt, random_state=0).fit(X, y)
    except KeyboardInterrupt:
        pass
    else:
        assert model.stop_reason_ == "interrupted"
    assert len(seen) <= 3, "training went on after Ctrl-C"


@pytest.mark.skipif(sklearn_callback is None, reason="this scikit-learn has no callbacks of its own")
@pytest.mark.parametrize("estimator", BOTH)
def test_callbacks_of_scikit_learn_hear_of_every_checkpoint(estimator, rng):
    X, y, t = data(rng)
    recorder = Recorder()
    model = estimator(random_state=0).set_callbacks(recorder).fit(X, targets_for(estimator, y, t))
    assert len(recorder.rows) == len(model.history_)
    # the same sums, but the final model lists its vectors by class
    np.testing.assert_allclose(scores_of(recorder.models[-1], X), scores_of(model, X), rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(sklearn_callback is None, reason="this scikit-learn has no callbacks of its own")
def test_callbacks_of_scikit_learn_hear_of_pairs_one_by_one(rng, monkeypatch):
    X, y, _ = data(rng, 600, classes=3)
    monkeypatch.setattr(jobs, "in_turn", None)  # nobody would be told
    recorder = Recorder()
    model = SVC(n_jobs=2).set_callbacks(recorder).fit(X, y)
    assert np.sort(np.bincount(y))[-2:].sum() >= jobs.LARGE_PAIR
    assert len(recorder.rows) == len(model.history_)


def test_predictions_keep_to_their_memory(rng, monkeypatch):
    X, y, _ = data(rng, 400)
    model = SVC(C=1e-2).fit(X, y)
    largest, original = [0], KernelMatrix.block

    def watched(self, rows, out=None):
        block = original(self, rows, out)
        largest.append(block.nbytes)
        return block

    Z = model._preparation.rows(model._model.kernel, rng.normal(size=(3000, 3)))
    monkeypatch.setattr(KernelModel, "VALUES", 10**7)
    whole = model._model.decision_function(Z)
    monkeypatch.setattr(KernelMatrix, "block", watched)
    monkeypatch.setattr(KernelModel, "VALUES", 100 * model.support_.size)
    parts = model._model.decision_function(Z)
    assert 0 < max(largest) <= KernelModel.VALUES * 8
    np.testing.assert_array_equal(whole, model._model.decision_function(Z, threads=3))
    # the sum of a row does not depend on the rows it is computed with
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("estimator", BOTH)
def test_clones_and_pickles(estimator, rng):
    X, y, t = data(rng)
    model = estimator(C=3.0, solver=SMO(working_set=64)).fit(X, targets_for(estimator, y, t))
    other = clone(model)
    assert other.solver == model.solver
    assert other.solver is not model.solver
    assert not [name for name in vars(other) if name.endswith("_")]
    np.testing.assert_array_equal(scores_of(pickle.loads(pickle.dumps(model)), X), scores_of(model, X))


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("parameters", "error", "sentence"),
    [
        ({"C": 0.0}, ValueError, "C must be > 0 and finite, got 0.0"),
        ({"C": "1"}, TypeError, "C must be a number > 0, got '1'"),
        ({"lam": -1.0}, ValueError, "lam must be > 0 and finite, got -1.0"),
        ({"cache_size": 0}, ValueError, "cache_size must be > 0 and finite, got 0"),
        ({"kernel": "cubic"}, ValueError, "kernel"),
        ({"gamma": -1.0}, ValueError, "gamma"),
        ({"degree": -1, "kernel": "poly"}, ValueError, "degree"),
        ({"solver": "newton"}, ValueError, "solver must be one of 'auto', 'smo'"),
        ({"solver": 3}, TypeError, "solver must be one of"),
        ({"intercept": "maybe"}, ValueError, "intercept must be one of 'auto'"),
        ({"tol": -1.0}, ValueError, "tol must be ≥ 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be ≥ 1, got 0"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0: give a number of threads, or -1"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be None or an integer, got 1.5"),
        ({"kernel": "linear", "gamma": "wide"}, ValueError, "gamma must be one of 'scale', 'auto', got 'wide'"),
        ({"kernel": "poly", "coef0": "a"}, ValueError, "coef0 must be a number, got 'a'"),
        ({"max_seconds": 0.0}, ValueError, "max_seconds must be > 0"),
        ({"solver": "sdca", "intercept": "unregularized"}, ValueError, "KernelSDCA has no unregularised intercept"),
    ],
)
@pytest.mark.parametrize("estimator", BOTH)
def test_bad_parameters_are_refused_in_a_sentence(estimator, parameters, error, sentence, rng):
    X, y, t = data(rng, 20)
    with pytest.raises(error, match=sentence):
        estimator(**parameters).fit(X, targets_for(estimator, y, t))


def test_bad_parameters_of_one_of_them(rng):
    X, y, t = data(rng, 20)
    for parameters in ({"multi_class": "all"}, {"decision_function_shape": "flat"}):
        with pytest.raises(ValueError, match=f"{next(iter(parameters))} must be one of"):
            SVC(**parameters).fit(X, y)
    with pytest.raises(ValueError, match="multi_class='ovr' trains none: use multi_class='ovo'"):
        SVC(multi_class="ovr", decision_function_shape="ovo").fit(X, y)
    with pytest.raises(ValueError, match="solver__nu sets a parameter of a configured solver, and solver is the name"):
        SVC(solver="sbp").set_params(solver__nu=0.1)
    assert SVC(solver="sbp").set_params(solver=StochasticBatchPerceptron(), solver__nu=0.1).solver.nu == 0.1
    with pytest.raises(ValueError, match=r"epsilon must be ≥ 0 and finite, got -0\.1"):
        SVR(epsilon=-0.1).fit(X, t)
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        SVC().fit(X, np.zeros(20))


def test_bad_precomputed_kernels_are_refused_in_a_sentence(rng):
    X, y, _ = data(rng, 20)
    K = rbf_kernel(X)
    crooked = K.copy()
    crooked[3, 5] += 0.5
    with pytest.raises(ValueError, match="must be symmetric and this matrix is not: give K"):
        SVC(kernel="precomputed").fit(crooked, y)
    with pytest.raises(ValueError, match=r"must be square, got shape \(20, 19\)"):
        SVC(kernel="precomputed").fit(K[:, :19], y)
    with pytest.raises(TypeError, match="dense"):
        SVC(kernel="precomputed").fit(sp.csr_matrix(K), y)
    with pytest.raises(ValueError, match="19 features"):
        SVC(kernel="precomputed").fit(K, y).predict(K[:, :19])


def test_bad_callables_are_refused_in_a_sentence(rng):
    X, y, _ = data(rng, 20)
    with pytest.raises(ValueError, match="must return an array of shape"):
        SVC(kernel=lambda A, B: np.zeros(3)).fit(X, y)
    with pytest.raises(ValueError, match="NaN or infinity"):
        SVC(kernel=lambda A, B: np.full((A.shape[0], B.shape[0]), np.nan)).fit(X, y)


# ---------------------------------------------------------------- problems at the edge
#
# Each ends with a result whose certificate is true or with a warning or an error that says what is wrong.


def ends(model, X, y):
    """Fit within max_iter epochs; returns (model, whether it warned)."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert model.history_["epochs"].max() <= model.max_iter
    return model, any(issubclass(w.category, ConvergenceWarning) for w in seen)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("C", [1e-8, 1e8])
@pytest.mark.parametrize("estimator", BOTH)
def test_extreme_C(estimator, C, kernel, rng):
    X, y, t = data(rng, 50)
    model, warned = ends(estimator(C=C, kernel=kernel, max_iter=200), X, targets_for(estimator, y, t))
    certificate = model.certificate_
    # where it was computed anew in float64, up to twice tol goes without a warning
    assert certificate.relative_gap <= (2e-3 if C == 1e8 else 1e-3) or warned
    assert np.isfinite(scores_of(model, X)).all()
    if C == 1e-8 and estimator is SVC:
        # the loss of a constant: the smaller class pays
        assert certificate.primal == pytest.approx(2 * np.bincount(y).min() / y.size, rel=1e-3)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_duplicated_points_with_opposite_labels(kernel, rng):
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    y = np.tile([0, 1], 20)
    model, warned = ends(SVC(kernel=kernel, C=10.0), X, y)
    assert not warned
    # each pair pays 2 whatever its score, and w = 0 pays no more
    assert model.certificate_.primal == pytest.approx(1.0, rel=1e-3)
    same, _ = ends(SVC(kernel=kernel), np.ones((10, 2)), np.tile([0, 1], 5))
    assert same.certificate_.primal == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("convert", [np.asarray, np.float32, sp.csr_matrix])
def test_duplicated_points_with_opposite_labels_are_not_separated_by_rounding(convert, rng):
    X, y = convert(np.repeat(rng.normal(size=(20, 30)), 2, axis=0)), np.tile([0, 1], 20)
    model, warned = ends(SVC(C=1e5), X, y)
    assert not warned
    # P* = 1 whatever the float32 kernel is, and a certificate in float64 knows it
    assert model.certificate_.dual <= 1.0 + 1e-9
    assert model.certificate_.primal == pytest.approx(1.0, rel=1e-3)
    assert model.certificate_.primal >= 1.0 - 1e-9


@pytest.mark.parametrize("reason", ["tol", "max_iter"])
@pytest.mark.parametrize("C", [1e4, 1e6])
def test_a_certificate_holds_for_the_true_kernel_however_large_C_is(C, reason, rng):
    """Of random labels; the kernel of these rows is nearly singular, and float32 cannot tell its small eigenvalues."""
    X, y = rng.normal(size=(120, 5)), rng.permutation(np.repeat([-1.0, 1.0], 60))
    K, more = rbf_kernel(X, gamma=0.01), {"max_iter": 2} if reason == "max_iter" else {}

    def primal(model):
        c = np.zeros(y.size)
        c[model.support_] = model.dual_coef_[0]
        return (0.5 * c @ K @ c / C + np.maximum(0.0, 1.0 - y * (K @ c + model.intercept_[0])).sum()) / y.size

    model, warned = ends(SVC(C=C, gamma=0.01, **more), X, y)
    certificate = model.certificate_
    allowed = 1e-13 * C * y.size  # kernel values in float64: n terms of size C
    assert primal(model) == pytest.approx(certificate.primal, abs=allowed)
    others = [libsvm.SVC(C=C, gamma=0.01, max_iter=50000), libsvm.SVC(C=C / 10, gamma=0.01, max_iter=50000)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert all(certificate.dual <= primal(other.fit(X, y)) + allowed for other in others)
    assert certificate.relative_gap <= 1e-3 or warned
    assert model.stop_reason_ != "tol" or certificate.relative_gap <= 1e-3


def test_without_time_for_exact_scores_there_is_a_certificate_where_the_solver_knows_its_own(monkeypatch, rng):
    X, y, _ = data(rng, 700)
    y[::2] = rng.integers(0, 2, 350)  # so that many examples matter
    full, _ = ends(SVC(), X, y)
    looks = []

    def too_late(_, values):
        if values:  # which sizes of rows have none of
            looks.append(1)
        if len(looks) > 1:
            raise proof.Late

    monkeypatch.setattr("widemargin.estimators.fit.proof.SHARE", 0.0)
    monkeypatch.setattr(proof.Exact, "_check_time", too_late)
    some, warned = ends(SVC(), X, y)
    assert not warned
    assert full.certificate_.primal <= some.certificate_.primal * (1 + 1e-4)
    assert some.certificate_.dual <= full.certificate_.primal
    monkeypatch.setattr(
        "widemargin.solvers.smo.smo.SMO.scores", lambda *_: None
    )  # as of a model that is not the last one
    none, warned = ends(SVC(), X, y)
    assert warned
    assert none.certificate_ is None


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("sparse", [False, True])
def test_one_column_far_from_the_origin_leaves_the_certificate_true(sparse, kernel, rng):
    """Few non-zeros, so that dense data would be handled as CSR, which cannot be centred."""
    t = rng.normal(size=150)
    X = np.zeros((150, 10))
    X[:, 0], X[np.arange(150), rng.integers(1, 10, 150)] = t, 0.01
    y = np.where(np.sin(3 * t) + 0.3 * rng.normal(size=150) > 0, 1.0, -1.0)
    X[:, 0] += 2.0**20
    model = SVC(C=10.0, kernel=kernel, gamma=1.0).fit(sp.csr_matrix(X) if sparse else X, y)
    X[:, 0] -= 2.0**20
    K, c = (rbf_kernel if kernel == "rbf" else laplacian_kernel)(X, gamma=1.0), np.zeros(150)
    c[model.support_] = model.dual_coef_[0]
    primal = (0.05 * c @ K @ c + np.maximum(0.0, 1.0 - y * (K @ c + model.intercept_[0])).sum()) / 150
    # a value of float32 data centred first, or of float64 data, is off by at most 2e-6; so is a score per unit of |c|
    assert model.certificate_.primal == pytest.approx(primal, abs=2 * 2e-6 * np.abs(c).sum())
    assert model.certificate_.dual <= primal * (1 + 1e-4)


@pytest.mark.parametrize("scale", [1e39, 1e-39])
@pytest.mark.parametrize("sparse", [False, True])
def test_data_beyond_float32_is_not_rounded_to_it(scale, sparse, rng):
    X, y, _ = data(rng)
    rows = sp.csr_matrix if sparse else np.asarray
    model, near = SVC(random_state=0).fit(rows(X * scale), y), SVC(random_state=0).fit(rows(X), y)
    assert model.certificate_.dual <= near.certificate_.primal * (1 + 1e-4)
    assert near.certificate_.dual <= model.certificate_.primal * (1 + 1e-4)
    np.testing.assert_allclose(
        scores_of(model, rows(X * scale)), scores_of(near, rows(X)), atol=4 * np.sqrt(2e-3 * y.size)
    )


def test_kernel_values_beyond_float32_are_refused_before_training(rng):
    X, y, t = data(rng, 60)
    K = linear_kernel(X)
    K[3, 5] = K[5, 3] = 1e39
    for model, rows, targets in (
        (SVC(kernel="poly", degree=9, gamma=1.0), 1e5 * X, y),
        (SVR(kernel="poly", degree=9, gamma=1.0), 1e5 * X, t),
        (SVC(kernel="linear"), 1e20 * X, y),
        (SVC(kernel="precomputed"), K, y),
    ):
        with pytest.raises(ValueError, match="kernel values exceed float32: scale the data, or lower degree or gamma"):
            model.fit(rows, targets)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_kernel_values_beyond_float32_off_the_diagonal_end_training(rng):
    X, y, _ = data(rng, 60)

    with pytest.raises(ValueError, match="kernel values exceed float32"):
        SVC(kernel=lambda A, B: np.where(A[:, :1] == B[:, 0], 1.0, 1e39)).fit(X, y)
    # one value that no sample may see: training itself meets it, and ends
    K = np.eye(300)
    K[:2, :2] = [[1.0, 1e39], [1e39, 1.0]]
    places = np.arange(300.0)[:, None]
    with pytest.raises(ValueError, match="kernel values exceed float32"):
        SVC(kernel=lambda A, B: K[np.ix_(A[:, 0].astype(int), B[:, 0].astype(int))]).fit(places, places[:, 0] > 150)


@pytest.mark.parametrize("kernel", [RBF, (1.0,), None, 3])
@pytest.mark.parametrize("estimator", BOTH)
def test_kernels_are_names_objects_or_functions(estimator, kernel, rng):
    X, y, t = data(rng, 20)
    with pytest.raises(ValueError, match=r"kernel must be one of 'linear', .* or a function f\(A, B\), got"):
        estimator(kernel=kernel).fit(X, targets_for(estimator, y, t))


def test_the_labels_of_all_rows_of_a_kind_agree_and_data_is_separable(rng):
    X, y = np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0), np.repeat([0, 1], 5)
    model, warned = ends(SVC(kernel="linear", C=1e3), X, y)
    assert not warned
    np.testing.assert_array_equal(model.predict(X), y)
    assert abs(model.decision_function(X)) == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize("estimator", BOTH)
def test_an_indefinite_kernel_has_no_certificate_and_says_so(estimator, rng):
    X, y, t = data(rng, 60)
    y = targets_for(estimator, y, t)
    for model, rows in (
        (estimator(kernel="sigmoid", gamma=2.0, coef0=-1.0, max_iter=100), X),
        (estimator(kernel="precomputed", max_iter=100), sigmoid_kernel(X, X, 2.0, -1.0)),
        (estimator(kernel=lambda A, B: -linear_kernel(A, B), max_iter=100), X),
    ):
        with pytest.warns(ConvergenceWarning, match="not positive semi-definite"):
            model.fit(rows, y)
        assert model.certificate_ is None
        assert np.isfinite(scores_of(model, rows)).all()


@pytest.mark.parametrize("solver", ["smo", "sdca"])
@pytest.mark.parametrize("intercept", ["regularized", "none"])
def test_a_row_of_zeros_under_a_linear_kernel(solver, intercept, rng):
    X, y, _ = data(rng, 40)
    X[[0, 7]] = 0.0
    model, warned = ends(SVC(kernel="linear", solver=solver, intercept=intercept), X, y)
    assert not warned
    assert model.certificate_.relative_gap <= 1e-3
    if intercept == "none":
        np.testing.assert_array_equal(model.decision_function(X[[0, 7]]), 0.0)
        # its score is 0 whatever w is: it violates its margin for good
        assert np.isin([0, 7], model.support_).all()


def test_all_rows_zero(rng):
    y = np.array([0, 1, 1, 1, 0])
    model, _ = ends(SVC(kernel="linear"), np.zeros((5, 2)), y)
    np.testing.assert_array_equal(model.predict(np.zeros((1, 2))), [1])
    model, _ = ends(SVC(kernel="linear", intercept="none"), np.zeros((5, 2)), y)
    assert model.certificate_.primal == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("offset", "dtype", "kernel"),
    [
        *product([1e4, 1e6], [np.float64], ["rbf", "linear", "poly"]),
        *product([1e4], [np.float32], ["rbf", "linear"]),
    ],
)
def test_data_far_from_the_origin_ends_with_a_true_certificate_or_says_why_not(offset, dtype, kernel, rng):
    X, labels, _ = data(rng, 60)
    X = (X + offset).astype(dtype)
    try:
        model, warned = ends(SVC(kernel=kernel, gamma=0.5, max_iter=200), X, labels)
    except ValueError as error:
        assert "float32" in str(error) or "scale" in str(error) or "cent" in str(error)  # noqa: PT017
        return
    if warned:
        return
    y, exact = np.where(labels == 1, 1.0, -1.0), X.astype(np.float64)
    if kernel == "linear":  # with a free bias the kernel of centred rows is the same problem, and exact
        w = exact[model.support_].T @ model.dual_coef_[0]
        # float64 products of this size are exact to 1e-16 · offset²
        scores = model.decision_function(X)
        primal = (0.5 * w @ w + np.maximum(0.0, 1.0 - y * scores).sum()) / y.size
        assert primal == pytest.approx(model.certificate_.primal, rel=0.05)
    # w = 0 is feasible: its objective is at most 1, and a true gap puts the model's near it
    assert model.certificate_.primal <= 1.0 + 1e-3
    scores = model.decision_function(X)
    assert np.maximum(0.0, 1.0 - y * scores).mean() <= model.certificate_.primal * (1 + 1e-2)


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e3])
def test_a_shift_of_the_rows_is_taken_by_a_free_bias(offset, rng):
    X, y, _ = data(rng, 60)
    X -= X.mean(axis=0)
    # both are within tol of the same optimum, so neither's dual is above the other's primal
    here, there = SVC(kernel="linear").fit(X, y).certificate_, SVC(kernel="linear").fit(X + offset, y).certificate_
    rounding = 1e-5  # a float32 kernel of centred rows
    assert there.dual <= here.primal * (1 + rounding)
    assert here.dual <= there.primal * (1 + rounding)


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_two_examples(estimator, kernel):
    X, y = np.array([[0.0], [2.0]]), np.array([0.0, 1.0])
    model, warned = ends(estimator(kernel=kernel, C=100.0, gamma=1.0), X, y)
    assert not warned
    assert model.certificate_.relative_gap <= 1e-3
    if estimator is SVC:
        np.testing.assert_array_equal(model.predict(X), y)
        np.testing.assert_allclose(model.decision_function(X), [-1.0, 1.0], atol=0.05)  # √tol
    else:
        # the flattest function through the tubes of half-width 0.1
        np.testing.assert_allclose(model.predict(X), [0.1, 0.9], atol=0.05)


@pytest.mark.parametrize("estimator", BOTH)
def test_constant_features_and_constant_targets(estimator, rng):
    X, y, t = data(rng, 50)
    X[:, 1] = 7.0
    model, warned = ends(estimator(), X, targets_for(estimator, y, t))
    assert not warned
    model, warned = ends(estimator(gamma="scale"), np.ones((20, 2)), np.arange(20) % 2)
    assert not warned
    model, warned = ends(SVR(), X, np.full(50, 3.0))
    assert model.predict(X) == pytest.approx(3.0, abs=0.1 + 1e-9)  # the tube
    assert not warned


@pytest.mark.parametrize("shift", [1e6, -1e6])
def test_targets_far_from_zero(shift, rng):
    X, _, t = data(rng, 60)
    near, far = SVR().fit(X, t), SVR().fit(X, t + shift)
    # the bias takes the shift; √(2 tol P) and the bias, for each
    np.testing.assert_allclose(far.predict(X) - shift, near.predict(X), atol=4 * np.sqrt(2e-3 * 60))


def test_one_example_of_a_class(rng):
    X, y, _ = data(rng, 30)
    y[:], y[4] = 0, 1
    model, warned = ends(SVC(C=100.0), X, y)
    assert not warned
    assert 4 in model.support_


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_kernel_values_beyond_float32_end_with_a_warning_or_an_error(rng):
    X, y, _ = data(rng, 40)
    try:
        _, warned = ends(SVC(kernel="poly", degree=8, gamma=10.0, max_iter=20), 100 * X, y)
    except ValueError as error:
        assert "float32" in str(error) or "scale" in str(error)  # noqa: PT017
    else:
        assert warned


def test_one_class_of_three_whose_examples_all_weigh_nothing_is_never_predicted(rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    for parameters, weights in (({"class_weight": {0: 0.0, 1: 1.0, 2: 1.0}}, None), ({}, (y > 0).astype(float))):
        model = SVC(**parameters).fit(X, y, sample_weight=weights)
        assert not np.isin(np.flatnonzero(y == 0), model.support_).any()
        assert set(model.predict(X)) <= {1, 2}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", ["unregularized", "regularized", "none"])
def test_the_weights_of_a_linear_kernel_are_the_decisions(intercept, sparse, rng):
    X = rng.normal(size=(90, 4)) + 3.0
    y = rng.integers(0, 3, 90)
    data = sp.csr_matrix(X) if sparse else X
    model = SVC(kernel="linear", intercept=intercept, decision_function_shape="ovo", random_state=0).fit(data, y)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, model.decision_function(data), atol=1e-3)
    regressor = SVR(kernel="linear", intercept=intercept).fit(data, X[:, 0])
    np.testing.assert_allclose(X @ regressor.coef_[0] + regressor.intercept_, regressor.predict(data), atol=1e-3)
    with pytest.raises(AttributeError, match="coef_ exists for kernel='linear' only, and the kernel is 'rbf'"):
        SVC().fit(X, y).coef_  # noqa: B018


@pytest.mark.parametrize("solver", ["smo", "sdca"])
def test_without_a_tolerance_training_ends_at_max_iter(solver):
    """Two points whose optimum is exact in floating point: the gap is 0, and 0 ≤ 0·P must not go on for ever."""
    X, y = np.array([[0.0, -1.0], [0.0, 1.0]]), [0, 1]
    model = SVC(kernel="linear", intercept="none", solver=solver, tol=0, max_iter=20).fit(X, y)
    assert model.stop_reason_ in ("max_iter", "stalled")
    assert model.certificate_.gap <= 1e-12


def test_threads_and_callables_count_what_one_thread_counts(rng):
    X, y = rng.normal(size=(700, 3)), rng.integers(0, 2, 700)
    rows = []
    for how in ({}, {"n_jobs": 2}, {"kernel": lambda A, B: rbf_kernel(A, B, gamma=0.5)}):
        model = SVC(**{"gamma": 0.5, **how}, tol=1e-2, random_state=0).fit(X, y)
        rows.append(model.history_.rows[-1])
    assert rows[0]["visits"] == rows[1]["visits"]
    assert rows[0]["kernel_evals"] == rows[1]["kernel_evals"]
    assert rows[2]["visits"] > 0.5 * rows[0]["visits"]


@pytest.mark.parametrize("cache_size", [4, 16])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_memory_of_a_whole_fit_is_that_of_the_cache(classes, cache_size, rng):
    """Beside rows: an eighth as much, or 4 MB, for the values between variables at work, arrays over the examples
    (some 40 numbers each) and the compiled code's first call.
    """
    X, y = rng.normal(size=(6000, 2)), rng.integers(0, classes, 6000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        SVC(max_iter=2, cache_size=1, multi_class="ovr").fit(X, y)  # compiles
        tracemalloc.start()
        SVC(max_iter=2, cache_size=cache_size, multi_class="ovr", random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 1.1 * (cache_size + max(cache_size / 8, 4)) * 2**20 + 40 * 8 * 6000 * classes


def test_ctrl_c_ends_a_path(rng):
    X, y = rng.normal(size=(3000, 5)), rng.integers(0, 2, 3000)
    seen = []

    def interrupt(progress):
        seen.append(progress)
        signal.raise_signal(signal.SIGINT)

    models = svm_path(X, y, [0.1, 1.0, 10.0], callbacks=[interrupt], tol=1e-6)
    assert [model.C for model in models] == [0.1]
    assert models[0].stop_reason_ == "interrupted"


@pytest.mark.parametrize("solver", list(solvers.REGISTRY["kernel"]))
def test_two_fits_without_a_random_state_are_the_same_to_the_bit(solver, rng):
    X = rng.normal(size=(2600, 3))  # more than 2,000: SMO starts with a random eighth of them
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=2600) > 1).astype(int)
    one, other = (
        SVC(solver=solver, max_iter=2, cache_size=50, early_stopping=solver == "sbp") for _ in range(2)
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one.fit(X, y), other.fit(X, y)
    np.testing.assert_array_equal(one.support_, other.support_)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)


@pytest.mark.parametrize("solver", ["smo", "sdca"])
def test_two_regressions_without_a_random_state_are_the_same_to_the_bit(solver, rng):
    X = rng.normal(size=(2600, 3))
    t = X[:, 0] + X[:, 1] ** 2
    one, other = SVR(solver=solver, max_iter=2), SVR(solver=solver, max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one.fit(X, t), other.fit(X, t)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)


@pytest.mark.parametrize("estimator", BOTH)
def test_the_gamma_in_use_is_an_attribute(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    assert not hasattr(estimator(), "gamma_")
    assert estimator(gamma=0.3).fit(X, y).gamma_ == 0.3
    np.testing.assert_allclose(estimator().fit(X, y).gamma_, 1 / (3 * X.var()))
    np.testing.assert_allclose(estimator(gamma="auto", kernel="poly").fit(X, y).gamma_, 1 / 3)
    with pytest.raises(AttributeError, match="the kernel is 'linear'"):
        estimator(kernel="linear").fit(X, y).gamma_  # noqa: B018


# ---------------------------------------------------------------- warm starts


def work_of(model):
    """Moves of a fit, summed over its binary problems."""
    problems = model.history_["problem"] if "problem" in model.history_.columns else np.zeros(len(model.history_))
    return sum(model.history_["updates"][problems == k][-1] for k in np.unique(problems))


@pytest.mark.parametrize(
    ("solver", "classes", "multi_class"),
    [(solver, *kind) for solver in ("smo", "sdca", "sbp") for kind in ((2, "ovo"), (3, "ovo"), (3, "ovr"))]
    + [("smo", 16, "ovo")],
)
def test_a_warm_start_has_the_same_optimum_in_less_work(solver, classes, multi_class, rng):
    X, y, _ = data(rng, 240, classes=classes)
    options = {"solver": solver, "multi_class": multi_class, "max_iter": 100000, "tol": 1e-3}
    model = SVC(C=5.0, warm_start=True, **options).fit(X, y)
    cold = work_of(model)
    again = model.fit(X, y)
    assert work_of(again) < cold
    # another C: the box is smaller, then larger
    for C in (1.0, 20.0):
        warm = model.set_params(C=C).fit(X, y)
        separate = SVC(C=C, **options).fit(X, y)
        pairs = zip(*(np.atleast_2d(np.array(m.certificate_)) for m in (warm, separate)), strict=True)
        for one, other in pairs:
            assert one[2] <= 1.01e-3 * one[0]
            assert one[0] == pytest.approx(other[0], rel=2.5e-3)
    assert work_of(model.set_params(warm_start=False, C=5.0).fit(X, y)) == cold


@pytest.mark.parametrize("solver", ["smo", "sdca"])
def test_a_warm_start_of_a_regression_has_the_same_optimum_in_less_work(solver, rng):
    X, _, t = data(rng, 240)
    options = {"solver": solver, "max_iter": 100000, "intercept": "regularized"}
    model = SVR(C=5.0, warm_start=True, **options).fit(X, t)
    cold = work_of(model)
    assert work_of(model.fit(X, t)) < cold
    for C in (1.0, 20.0):
        warm, separate = model.set_params(C=C).fit(X, t), SVR(C=C, **options).fit(X, t)
        assert warm.certificate_.relative_gap <= 1.01e-3
        assert warm.certificate_.primal == pytest.approx(separate.certificate_.primal, rel=2.5e-3)


def test_a_warm_start_survives_pickling_and_early_stopping(rng):
    X, y, _ = data(rng, 240)
    model = pickle.loads(pickle.dumps(SVC(warm_start=True, early_stopping=True, random_state=0).fit(X, y)))
    cold = work_of(model)
    assert work_of(model.fit(X, y)) < cold


@pytest.mark.parametrize("estimator", BOTH)
def test_a_warm_start_on_other_data_is_refused_in_a_sentence(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    model = estimator(warm_start=True).fit(X, y)
    before = model.dual_coef_
    with pytest.raises(ValueError, match=r"warm_start needs as many examples .* 80 and 1 .* got 60 and 1"):
        model.fit(X[:60], y[:60])
    assert model.dual_coef_ is before
    if estimator is SVC:
        with pytest.raises(ValueError, match="warm_start needs the classes of the last fit"):
            model.fit(X, y + 1)
        with pytest.raises(ValueError, match="which solver='pegasos' does not have"):
            SVC(warm_start=True, solver="pegasos").fit(X, y)
    with pytest.raises(TypeError, match="warm_start must be True or False, got 1"):
        estimator(warm_start=1).fit(X, y)
