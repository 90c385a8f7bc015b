"""LinearSVC and LinearSVR: the problem of their rivals, any-time training, parts, and data that are hard."""

import warnings

import numpy as np
import pytest
import scipy.optimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as RivalSVC
from sklearn.svm import LinearSVR as RivalSVR

import fresh
from widemargin import SDCA, LinearSVC, LinearSVR, Pegasos
from widemargin.estimators.fit import fitting
from widemargin.problems.objective import Certificate
from widemargin.running import Progress
from widemargin.solvers import sdca
from widemargin.solvers.pegasos.pegasos import Bottou, PegasosState
from widemargin.stopping import TELLING

BOTH = [LinearSVC, LinearSVR]


def data(rng, n=120, d=5, classes=2):
    """Rows, labels of as many classes as asked for, real targets."""
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, classes)) + rng.normal(size=(n, classes))
    y = scores.argmax(axis=1)
    y[:classes] = np.arange(classes)  # all classes are there
    return X, y, scores[:, 0]


def targets_for(estimator, y, t):
    return y if issubclass(estimator, LinearSVC) else t


def quick(estimator, **parameters):
    return estimator(**{"tol": 0, "max_iter": 5, "random_state": 0, **parameters})


# ---------------------------------------------------------------- the problem of the rivals
#
# 2000 epochs of 120 examples are T = 2.4e5 steps. The suboptimality of the t-weighted average is of the order of
# G²/(λT) with λ = 1/(Cn) and G² ≈ ‖x‖² ≈ d: some 2e-3 in units of the mean loss, and measured at most 0.4 % of the
# optimum over 250 seeds. A wrong problem (a weight, a λ or an intercept off) misses by far more than CLOSE.
# Dual ascent, the default where it can solve the problem, is far closer than CLOSE after 300 epochs.
CLOSE = 0.01
LONG = {"tol": 0, "max_iter": 2000}
EXACT = {"tol": 0, "max_iter": 300}


def half_square(*parts):
    return 0.5 * sum(float(np.sum(np.square(part))) for part in parts)


def hinge_objective(w, b, X, y, s):
    """½(‖w‖² + b²) + Σ sᵢ max(0, 1 − yᵢzᵢ), LIBLINEAR's; s has C in it."""
    return half_square(w, b) + np.sum(s * np.maximum(0, 1 - y * (X @ w + b)))


def assert_same_minimum(ours, theirs, model=None, scale=1.0):
    """Neither lies below the other by more than the accuracy of the runs, and the certificate brackets the minimum."""
    assert ours <= theirs * (1 + CLOSE)
    assert ours >= theirs * (1 - 1e-4)  # they stop at a tiny tolerance
    if model is not None:
        assert model.certificate_.primal * scale == pytest.approx(ours, rel=1e-9)
        assert model.certificate_.dual * scale <= theirs * (1 + 1e-4)


@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
@pytest.mark.parametrize("class_weight", [None, {0: 0.3, 1: 2.0}, "balanced"], ids=str)
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_binary_hinge_has_the_minimum_of_scikit_learn(C, class_weight, solver, rng):
    X, y, _ = data(rng)
    weights = np.ones(y.size) if class_weight == "balanced" else rng.uniform(0.5, 2.0, y.size)
    fixed = {
        "class_weight": class_weight,
        "solver": solver,
        "random_state": 0,
        **(LONG if solver == "pegasos" else EXACT),
    }
    ours = LinearSVC(C=C, **fixed).fit(X, y, sample_weight=weights)
    options = {"loss": "hinge", "tol": 1e-10, "max_iter": 10**6}
    theirs = RivalSVC(C=C, class_weight=class_weight, **options).fit(X, y, sample_weight=weights)
    of_class = balanced(y, weights) if class_weight == "balanced" else class_weight or {0: 1.0, 1: 1.0}
    s = C * weights * np.where(y, of_class[1], of_class[0])
    mine, yours = (hinge_objective(m.coef_[0], m.intercept_[0], X, 2 * y - 1, s) for m in (ours, theirs))
    assert_same_minimum(mine, yours, ours, scale=C * y.size)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape


def balanced(y, weights):
    return {c: weights.sum() / (np.unique(y).size * weights[y == c].sum()) for c in np.unique(y).tolist()}


def test_balanced_classes_count_examples_by_their_weight(rng):
    """As scikit-learn does: ten examples and one of weight ten are the same, so they balance in the same way."""
    X, y, _ = data(rng)
    weights = np.where(y == 1, 8.0, 1.0)
    ours = LinearSVC(class_weight="balanced", random_state=0, **EXACT).fit(X, y, sample_weight=weights)
    s = weights * np.where(y, balanced(y, weights)[1], balanced(y, weights)[0])
    theirs = RivalSVC(loss="hinge", tol=1e-10, max_iter=10**6).fit(X, y, sample_weight=s)
    mine, yours = (hinge_objective(m.coef_[0], m.intercept_[0], X, 2 * y - 1, s) for m in (ours, theirs))
    assert_same_minimum(mine, yours)


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 2.0, 2: 3.0}], ids=str)
def test_one_against_the_rest_has_the_minimum_of_scikit_learn(class_weight, rng):
    X, y, _ = data(rng, classes=3)
    weights = rng.uniform(0.5, 2.0, y.size)
    ours = LinearSVC(class_weight=class_weight, random_state=0, **EXACT).fit(X, y, sample_weight=weights)
    options = {"loss": "hinge", "tol": 1e-10, "max_iter": 10**6}
    theirs = RivalSVC(class_weight=class_weight, **options).fit(X, y, sample_weight=weights)

    def objective(model):
        total = 0.0
        for c in range(3):
            own = y == c
            s = weights * np.where(own, (class_weight or {c: 1.0})[c], 1.0)
            total += hinge_objective(model.coef_[c], model.intercept_[c], X, np.where(own, 1, -1), s)
        return total

    assert_same_minimum(objective(ours), objective(theirs), ours, scale=y.size)


def test_repeating_an_example_is_weighting_it(rng):
    """The minimum is the same, though the steps are not (the reason for two expected failures in test_contract.py)."""
    X, y, _ = data(rng)
    times = rng.integers(0, 4, y.size)
    times[:2] = 1
    weighted = LinearSVC(random_state=0, **EXACT).fit(X, y, sample_weight=times)
    repeated = LinearSVC(random_state=0, **EXACT).fit(X.repeat(times, axis=0), y.repeat(times))
    one, other = (hinge_objective(m.coef_[0], m.intercept_[0], X, 2 * y - 1, times) for m in (weighted, repeated))
    assert one == pytest.approx(other, rel=CLOSE)
    # weights of zero are no examples at all, whatever stands there
    X[times == 0] = 1e3
    ignored = LinearSVC(random_state=0, **EXACT).fit(X, y, sample_weight=times)
    without = hinge_objective(ignored.coef_[0], ignored.intercept_[0], X, 2 * y - 1, times)
    assert without == pytest.approx(one, rel=CLOSE)


@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression_has_the_minimum_of_scikit_learn(loss, solver, rng):
    X, _, t = data(rng)
    weights = rng.uniform(0.5, 2.0, t.size)
    ours = LinearSVR(
        loss=loss, epsilon=0.1, solver=solver, random_state=0, **(LONG if solver == "pegasos" else EXACT)
    ).fit(X, t, sample_weight=weights)
    theirs = RivalSVR(loss=loss, epsilon=0.1, tol=1e-10, max_iter=10**6).fit(X, t, sample_weight=weights)
    power = 1 if loss == "epsilon_insensitive" else 2

    def objective(model):
        miss = np.maximum(0, np.abs(model.predict(X) - t) - 0.1)
        return half_square(model.coef_, model.intercept_) + np.sum(weights * miss**power)

    assert_same_minimum(objective(ours), objective(theirs), ours, scale=t.size)
    assert ours.coef_.shape == theirs.coef_.shape
    assert ours.intercept_.shape == theirs.intercept_.shape


def test_crammer_and_singer_have_the_minimum_of_scikit_learn(rng):
    X, y, _ = data(rng, classes=3)
    weights = rng.uniform(0.5, 2.0, y.size)
    ours = LinearSVC(multi_class="crammer_singer", random_state=0, **LONG).fit(X, y, sample_weight=weights)
    theirs = RivalSVC(multi_class="crammer_singer", tol=1e-8, max_iter=10**6).fit(X, y, sample_weight=weights)

    def objective(model):
        scores = X @ model.coef_.T + model.intercept_
        margins = scores + 1 - np.eye(3)[y] - scores[np.arange(y.size), y][:, None]
        return half_square(model.coef_, model.intercept_) + np.sum(weights * margins.max(axis=1))

    assert_same_minimum(objective(ours), objective(theirs), ours, scale=y.size)


def test_the_joint_log_loss_has_the_minimum_of_multinomial_logistic_regression(rng):
    X, y, _ = data(rng, classes=3)
    joint = {"loss": "log", "multi_class": "crammer_singer", "intercept": "none"}
    ours = LinearSVC(C=2.0, random_state=0, **joint, **LONG).fit(X, y)
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)

    def objective(model):
        scores = X @ model.coef_.T
        losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(y.size), y]
        return half_square(model.coef_) + 2.0 * np.sum(losses)

    assert_same_minimum(objective(ours), objective(theirs), ours, scale=2.0 * y.size)
    np.testing.assert_array_equal(ours.intercept_, 0.0)


def test_lam_overrides_C(rng):
    X, y, _ = data(rng)
    by_C = quick(LinearSVC, C=0.5).fit(X, y)
    by_lam = quick(LinearSVC, C=123.0, lam=1 / (0.5 * y.size)).fit(X, y)
    np.testing.assert_array_equal(by_lam.coef_, by_C.coef_)


# ---------------------------------------------------------------- predictions


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_predictions_are_the_labels_of_the_highest_scores(classes, multi_class, rng):
    X, y, _ = data(rng, classes=classes)
    model = quick(LinearSVC, multi_class=multi_class).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == ((y.size,) if classes == 2 else (y.size, 3))
    if classes == 2:
        scores = np.c_[-scores, scores]
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    raw = X @ model.coef_.T + model.intercept_
    expected = raw[:, 0] if raw.shape[1] == 1 else raw[:, 1] - raw[:, 0] if classes == 2 else raw
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12, atol=1e-12)


def test_a_cost_matrix_is_read_as_prediction_by_truth(rng):
    X, y, _ = data(rng, classes=3)
    cost = rng.uniform(0.5, 5.0, (3, 3))
    np.fill_diagonal(cost, 0.0)
    model = quick(LinearSVC, multi_class="crammer_singer", cost_matrix=cost).fit(X, y)
    scores = model.decision_function(X)
    worst = (cost[:, y].T + scores - scores[np.arange(y.size), y][:, None]).max(axis=1)
    expected = half_square(model.coef_, model.intercept_) / y.size + worst.mean()
    assert model.certificate_.primal == pytest.approx(expected, rel=1e-12)
    assert cost.tolist() == model.cost_matrix.tolist()


# ---------------------------------------------------------------- what a fit leaves


@pytest.mark.parametrize("estimator", BOTH)
def test_a_fit_leaves_its_history_certificate_and_reason(estimator, rng):
    X, y, t = data(rng)
    model = quick(estimator, solver="pegasos", max_iter=6).fit(X, targets_for(estimator, y, t))
    np.testing.assert_array_equal(model.history_["epochs"], [1, 2, 4, 6])
    np.testing.assert_array_equal(model.history_["steps"], 120 * model.history_["epochs"])
    np.testing.assert_array_equal(model.history_["visits"], model.history_["steps"])
    np.testing.assert_array_equal(model.history_["feature_reads"], 5 * model.history_["visits"])
    assert np.all(model.history_["updates"] <= model.history_["visits"])
    assert np.all(model.history_["kernel_evals"] == 0)
    assert (model.stop_reason_, model.n_iter_) == ("max_iter", 6)
    assert isinstance(model.certificate_, Certificate)
    assert model.certificate_.primal == pytest.approx(model.history_["objective"][-1], rel=1e-12)
    assert model.certificate_.gap >= -1e-12
    frame = pytest.importorskip("pandas") and model.history_.to_frame()
    assert len(frame) == 4


def test_tol_ends_a_fit_without_a_warning(rng, recwarn):
    X, y, _ = data(rng)
    model = LinearSVC(tol=0.5, random_state=0).fit(X, y)
    assert model.stop_reason_ == "tol"
    assert model.n_iter_ == model.history_["epochs"][-1] < 100
    assert 0.0 <= model.certificate_.gap <= 0.5 * model.certificate_.primal
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]


@pytest.mark.parametrize("estimator", BOTH)
def test_max_seconds_ends_a_fit_promptly(estimator, rng, clock):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    began, clock.tick = clock.now, 0.01
    model = quick(estimator, max_iter=10**9, max_seconds=0.3).fit(X, y)
    elapsed = clock.now - began
    assert model.stop_reason_ == "max_seconds"
    assert 0.3 <= elapsed <= 0.3 + 10 * clock.tick  # a slice looks at the clock a few times
    assert np.isfinite(model.coef_).all()
    # no time for a dual value: the trivial one, zero, stands at least
    assert model.certificate_.primal == pytest.approx(model.history_["objective"][-1], rel=1e-12)
    assert 0.0 <= model.certificate_.relative_gap <= 1.0


@pytest.mark.parametrize("estimator", BOTH)
def test_early_stopping_watches_examples_it_does_not_train_on(estimator, rng):
    X, y, t = data(rng, n=200)
    y = targets_for(estimator, y, t)
    held = {"early_stopping": True, "validation_fraction": 0.25}
    model = quick(estimator, n_iter_no_change=2, max_iter=1000, **held).fit(X, y)
    errors = model.history_["validation_error"]
    # checkpoints after the first of the lowest count where the gap tells something
    telling = model.history_["gap"] <= TELLING * model.history_["objective"]
    counted = telling[np.argmin(errors) + 1 :]
    if model.stop_reason_ == "early_stopping":
        assert counted.sum() == 2
        assert counted[-1]
    else:  # it went on improving up to the end or nearly, as one seed in twenty does
        assert model.stop_reason_ == "max_iter"
        assert counted[:-1].sum() < 2  # at the last of all epochs both ended it
    per_epoch = model.history_["steps"][0]
    assert per_epoch == pytest.approx(150, abs=2)  # a class gives its share, rounded
    # the weights kept are those of the best checkpoint: the same run, ended there, has them too
    best = int(model.history_["epochs"][np.argmin(errors)])
    same = quick(estimator, n_iter_no_change=99, max_iter=best, **held).fit(X, y)
    np.testing.assert_array_equal(same.history_["validation_error"], errors[: np.argmin(errors) + 1])
    np.testing.assert_array_equal(same.coef_, model.coef_)


def test_plain_callbacks_receive_the_progress(rng):
    X, y, _ = data(rng)
    seen = []

    def look(progress):
        assert isinstance(progress, Progress)
        seen.append(progress.row["objective"])
        model = progress.model()
        assert model.coef.shape == (1, 5)
        assert progress.problem.primal(model.coef.T, model.intercept) == pytest.approx(seen[-1], rel=1e-12)
        return progress.epochs >= 4

    model = quick(LinearSVC, max_iter=100, callbacks=look).fit(X, y)
    assert model.stop_reason_ == "callback"
    np.testing.assert_array_equal(seen, model.history_["objective"])
    several = quick(LinearSVC, callbacks=[seen.append, seen.append]).fit(X, y)
    assert sum(isinstance(entry, Progress) for entry in seen) == 2 * len(several.history_)


# ---------------------------------------------------------------- going on


@pytest.mark.parametrize("estimator", BOTH)
def test_a_warm_start_goes_on_from_the_last_fit(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    model = quick(estimator, max_iter=20, warm_start=True).fit(X, y)
    first = model.history_["objective"][-1]
    model.set_params(max_iter=200).fit(X, y)
    assert np.all(np.diff(model.history_["steps"]) > 0)
    assert model.history_["steps"][-1] == 120 * 220
    assert np.all(np.diff(model.history_["seconds"]) >= 0)
    # ten times the work; what noise there is is far below the suboptimality of the first
    assert model.history_["objective"][-1] <= first * (1 + 1e-3)
    assert model.n_iter_ in (200, 220)


def test_without_warm_start_a_fit_begins_anew(rng):
    X, y, _ = data(rng)
    model = quick(LinearSVC).fit(X, y)
    first = model.coef_.copy()
    np.testing.assert_array_equal(model.fit(X, y).coef_, first)
    assert model.history_["steps"][-1] == 5 * 120
    model.partial_fit(X, y)
    np.testing.assert_array_equal(model.fit(X, y).coef_, first)


CHANGE_THE_AVERAGE = """
import numpy as np
from widemargin import LinearSVC, Pegasos
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 6))
y = X[:, 0] > 0
for average, method in ("weighted", "fit"), ("suffix", "partial_fit"):
    model = LinearSVC(solver=Pegasos(average="none"), warm_start=True, tol=0, max_iter=2, random_state=0).fit(X, y)
    model.set_params(solver__average=average)
    try:
        getattr(model, method)(X, y)
    except ValueError as refusal:
        print("refused", refusal)
    else:
        average = model._state.average
        print("went on", average.U.shape, average.previous.shape)
"""


def test_a_change_of_the_average_between_fits_never_writes_outside_its_arrays():
    """In a process of its own: compiled loops do not check bounds, and what they destroy is anybody's."""
    done = fresh.run(CHANGE_THE_AVERAGE)
    assert done.returncode == 0, done.stderr
    for said, previous in zip(done.stdout.splitlines(), ("(0, 1)", "(6, 1)"), strict=True):
        assert "average" in said if said.startswith("refused") else said == f"went on (6, 1) {previous}"


@pytest.mark.parametrize("size", [1, 7, 50])
@pytest.mark.parametrize("estimator", BOTH)
def test_parts_of_any_size_give_the_model_of_one_call(estimator, size, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    fixed = {"lam": 0.01, "solver": Pegasos(step=Bottou(0.1)), "random_state": 0}
    first = {"classes": [0, 1]} if estimator is LinearSVC else {}
    whole = estimator(**fixed).partial_fit(X, y, **first)
    parts = estimator(**fixed)
    for start in range(0, y.size, size):
        parts.partial_fit(X[start : start + size], y[start : start + size], **first)
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(parts.intercept_, whole.intercept_)
    assert whole.stop_reason_ == "partial_fit"


def test_parts_visit_examples_in_their_order(rng):
    """One pass in the order given, so a reversed part is another one; the seed has no say once η₀ is fixed."""
    X, y, _ = data(rng)
    fixed = {"lam": 0.01, "solver": Pegasos(step=Bottou(0.1))}
    one, same = (LinearSVC(random_state=r, **fixed).partial_fit(X, y, classes=[0, 1]) for r in (1, 2))
    np.testing.assert_array_equal(one.coef_, same.coef_)
    backwards = LinearSVC(random_state=1, **fixed).partial_fit(X[::-1], y[::-1], classes=[0, 1])
    assert not np.array_equal(backwards.coef_, one.coef_)


def test_lambda_in_parts_is_that_of_the_examples_seen_so_far(rng):
    X, y, _ = data(rng)
    by_C = LinearSVC(C=2.0, solver=Pegasos(step=Bottou(0.1)))
    by_lam = LinearSVC(solver=Pegasos(step=Bottou(0.1)))
    seen = 0
    for part in (slice(0, 40), slice(40, 120)):
        seen += part.stop - part.start
        by_C.partial_fit(X[part], y[part], classes=[0, 1])
        by_lam.set_params(lam=1 / (2.0 * seen)).partial_fit(X[part], y[part], classes=[0, 1])
    np.testing.assert_array_equal(by_C.coef_, by_lam.coef_)


@pytest.mark.parametrize("classes", [2, 3])
def test_balanced_parts_use_the_counts_so_far(classes, rng):
    X, y, _ = data(rng, classes=classes)
    order = np.argsort(y, kind="stable")
    order = np.concatenate([np.arange(classes), order[~np.isin(order, np.arange(classes))]])  # each class, then sorted
    X, y = X[order], y[order]
    fixed = {"lam": 0.01, "solver": Pegasos(step=Bottou(0.1))}
    balanced_model, given = LinearSVC(class_weight="balanced", **fixed), LinearSVC(**fixed)
    for part in (slice(0, 30), slice(30, 80), slice(80, 120)):
        counts = np.bincount(y[: part.stop], minlength=classes)
        here = counts > 0
        weights = {c: counts.sum() / (here.sum() * counts[c]) for c in range(classes)}
        balanced_model.partial_fit(X[part], y[part], classes=np.arange(classes))
        given.set_params(class_weight=weights).partial_fit(X[part], y[part], classes=np.arange(classes))
        np.testing.assert_array_equal(balanced_model.coef_, given.coef_)


def test_balanced_parts_may_begin_with_one_class(rng):
    X, y, _ = data(rng)
    model = LinearSVC(class_weight="balanced", random_state=0)
    model.partial_fit(X[y == 0], y[y == 0], classes=[0, 1]).partial_fit(X[y == 1], y[y == 1])
    assert np.isfinite(model.coef_).all()


def test_weights_in_parts_are_those_of_the_fit(rng):
    X, y, t = data(rng)
    weights = rng.uniform(0.5, 2.0, y.size)
    fixed = {"lam": 0.01, "solver": Pegasos(step=Bottou(0.1))}
    whole = LinearSVR(**fixed).partial_fit(X, t, sample_weight=weights)
    parts = LinearSVR(**fixed).partial_fit(X[:50], t[:50], sample_weight=weights[:50])
    parts.partial_fit(X[50:], t[50:], sample_weight=weights[50:])
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    assert not np.array_equal(LinearSVR(**fixed).partial_fit(X, t).coef_, whole.coef_)


@pytest.mark.parametrize("n", [16, 20, 31])
def test_every_example_of_a_part_is_visited_whatever_the_batch(n, rng):
    """``partial_fit`` is one pass over the examples: none is left out because batches do not divide them."""
    X, y, _ = data(rng, n=n)
    model = LinearSVC(solver=Pegasos(batch_size=8), random_state=0).partial_fit(X, y, classes=[0, 1])
    assert model._state.counters.visits >= n


def test_a_part_smaller_than_the_batch_is_taken(rng):
    """A stream's last part has the size it has."""
    X, y, _ = data(rng, n=19)
    model = LinearSVC(solver=Pegasos(batch_size=8), random_state=0)
    for part in (slice(0, 8), slice(8, 16), slice(16, 19)):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    assert model._state.counters.visits >= 19


def test_parts_leave_a_history_of_their_counters(rng):
    """Every fitted estimator has ``history_``."""
    X, y, _ = data(rng)
    model = LinearSVC(random_state=0).partial_fit(X, y, classes=[0, 1]).partial_fit(X[:30], y[:30])
    np.testing.assert_array_equal(model.history_["visits"], [120, 150])


def test_a_part_after_a_fit_leaves_no_certificate_of_older_weights(rng):
    X, y, _ = data(rng)
    model = quick(LinearSVC).fit(X, y)
    before = model.certificate_
    model.partial_fit(X, y)
    assert model._state.counters.steps == 5 * 120 + 120
    assert getattr(model, "certificate_", None) != before


def test_parts_after_a_fit_by_the_default_solver_go_on_from_its_weights(rng):
    """The default fits by SDCA and streams by Pegasos: a part moves the weights no further than its steps reach."""
    X, y, _ = data(rng)
    model = LinearSVC(random_state=0).fit(X, y)
    W, b, visits = model.coef_.copy(), model.intercept_.copy(), model._state.counters.visits
    assert type(model._state) is sdca.SDCAState
    model.partial_fit(X[:10], y[:10])
    assert type(model._state) is PegasosState
    assert model._state.t == visits + 10
    assert not np.array_equal(model.coef_, W)
    # ten steps of at most 1/(λt), and means with weights ∝ t of which ten in t are new
    lam, longest = 1 / 130, np.sqrt(1 + np.sum(X[:10] ** 2, axis=1).max())
    reach = 10 / (lam * visits) * (longest + lam * np.hypot(np.linalg.norm(W), np.linalg.norm(b)))
    assert np.linalg.norm(model.coef_ - W) <= reach
    assert np.abs(model.intercept_ - b) <= reach


def test_the_default_solver_warm_starts_on_any_number_of_examples(rng):
    X, y, _ = data(rng)
    model = LinearSVC(warm_start=True, tol=0, max_iter=30, random_state=0).fit(X, y)
    assert type(model._state) is sdca.SDCAState
    first = model.history_["objective"][-1]
    again = model.set_params(max_iter=2).fit(X, y)
    assert type(again._state) is sdca.SDCAState
    assert again.history_["objective"][-1] <= first * (1 + CLOSE)
    fewer = model.fit(X[:100], y[:100])  # a dual variable for each of 120 examples is of no use here
    assert type(fewer._state) is PegasosState
    assert np.isfinite(fewer.coef_).all()
    assert fewer.history_["visits"][-1] == 120 * 32 + 100 * 2


# ---------------------------------------------------------------- the default solver


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_digits, load_iris], ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_the_defaults_solve_easy_data_to_a_proven_gap(load, rng):
    X, y = load(return_X_y=True)
    model = LinearSVC(random_state=int(rng.integers(2**31))).fit(StandardScaler().fit_transform(X), y)
    assert model.stop_reason_ == "tol"
    assert -1e-9 <= model.certificate_.relative_gap <= 1e-3


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_the_default_regression_solves_easy_data_to_a_proven_gap(rng):
    X, y = load_diabetes(return_X_y=True)
    model = LinearSVR(random_state=int(rng.integers(2**31))).fit(StandardScaler().fit_transform(X), y)
    assert model.stop_reason_ == "tol"
    assert -1e-9 <= model.certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, sdca.SDCAState),
        ({"loss": "log"}, sdca.SDCAState),
        ({"intercept": "none", "loss": "squared_hinge"}, sdca.SDCAState),
        ({"intercept": "unregularized"}, sdca.SDCAState),
        ({"intercept": "search"}, PegasosState),
        ({"multi_class": "crammer_singer"}, PegasosState),
    ],
    ids=str,
)
def test_the_default_solver_is_exact_where_it_can_be(parameters, expected, rng):
    X, y, _ = data(rng)
    assert type(quick(LinearSVC, **parameters).fit(X, y)._state) is expected


@pytest.mark.parametrize("estimator", BOTH)
def test_no_gap_of_the_history_is_below_that_of_the_certificate_however_a_fit_ends(estimator, rng, clock):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    clock.tick = 0.01
    model = estimator(solver="sdca", tol=0, max_iter=10**9, max_seconds=0.3, random_state=0).fit(X, y)
    assert model.stop_reason_ == "max_seconds"
    # the model is the best that was seen, and so is the dual point: late answers may have left both since
    objective, gap = model.history_["objective"], model.history_["gap"]
    certificate, rounding = model.certificate_, 1e-12 * objective.max()
    assert certificate.primal <= objective.min()
    assert certificate.dual >= (objective - gap).max() - rounding
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, abs=rounding)


@pytest.mark.parametrize("estimator", BOTH)
def test_a_fit_by_pegasos_has_a_gap_that_is_told_and_stops_it(estimator, rng):
    X, y, t = data(rng)
    y = targets_for(estimator, y, t)
    long = estimator(solver="pegasos", C=0.1, tol=0, max_iter=256, random_state=0).fit(X, y)
    exact = estimator(solver="sdca", C=0.1, tol=1e-8, max_iter=10**5, random_state=0).fit(X, y).certificate_
    assert np.all(long.history_["objective"] - long.history_["gap"] <= exact.primal * (1.0 + 1e-8))
    assert long.certificate_.gap <= long.history_["gap"].min()
    assert long.certificate_.gap >= long.certificate_.primal - exact.primal * (1.0 + 1e-8)
    assert long.certificate_.relative_gap <= 0.2  # not the whole objective

    # the first checkpoint at which a fit is that close by its own gap is the last one that it needs
    shares = long.history_["gap"] / long.history_["objective"]
    tol = 1.001 * shares[-1]
    model = estimator(solver="pegasos", C=0.1, tol=tol, max_iter=10**4, random_state=0).fit(X, y)
    assert model.stop_reason_ == ("tol" if model.certificate_.relative_gap <= tol else "settled")
    assert model.n_iter_ <= 256


@pytest.mark.parametrize("estimator", BOTH)
def test_time_that_is_up_leaves_the_gap_of_pegasos_that_was_told(estimator, rng, clock):
    X, y, t = data(rng)
    clock.tick = 0.01
    model = estimator(solver="pegasos", tol=0, max_iter=10**9, max_seconds=0.3, random_state=0)
    model.fit(X, targets_for(estimator, y, t))
    assert model.stop_reason_ == "max_seconds"
    assert model.certificate_.dual == max(0.0, np.max(model.history_["objective"] - model.history_["gap"]))
    assert model.certificate_.dual > 0.0


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("solver", ["auto", "pegasos", "sdca", Pegasos(), SDCA()], ids=str)
def test_only_solvers_that_stream_have_partial_fit(estimator, solver, rng):
    model = estimator(solver=solver)
    streams = not (solver == "sdca" or isinstance(solver, SDCA))
    assert hasattr(model, "partial_fit") == streams
    if not streams:
        with pytest.raises(AttributeError, match="partial_fit") as refusal:
            model.partial_fit(*data(rng)[:2])
        assert "needs the solver 'pegasos'" in str(refusal.value.__cause__)


# ---------------------------------------------------------------- threads


def test_the_number_of_jobs_changes_nothing(rng):
    X, y, _ = data(rng, classes=3)
    one, two, same = (
        LinearSVC(n_jobs=jobs, solver=solver, random_state=0).fit(X, y)
        for jobs, solver in ((1, "auto"), (2, "auto"), (None, SDCA(n_jobs=2)))
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(same.coef_, two.coef_)


# ---------------------------------------------------------------- probabilities


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_probabilities_are_those_of_the_log_loss(classes, multi_class, rng):
    X, y, _ = data(rng, classes=classes)
    model = quick(LinearSVC, loss="log", multi_class=multi_class).fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    if multi_class == "crammer_singer":
        expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    elif classes == 2:
        expected = np.c_[1 / (1 + np.exp(scores)), 1 / (1 + np.exp(-scores))]
    else:
        expected = 1 / (1 + np.exp(-scores))
        expected /= expected.sum(axis=1, keepdims=True)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(expected), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_probabilities_of_far_scores_are_finite(multi_class, rng):
    X, y, _ = data(rng, classes=3)
    model = quick(LinearSVC, loss="log", multi_class=multi_class).fit(X, y)
    far = model.predict_proba(1e6 * X)
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_other_losses_have_no_probabilities(loss):
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(LinearSVC(loss=loss), name)
        assert hasattr(LinearSVC(loss="log"), name)


# ---------------------------------------------------------------- features of very different sizes


def uneven(rng, ratio, n=300):
    """What can be learnt is in four features of unit size; the fifth is noise, and as large as asked for."""
    X = rng.normal(size=(n, 5))
    t = X[:, :4] @ np.array([2.0, -1.0, 1.0, 3.0]) + 0.3 * rng.normal(size=n)
    X[:, 4] *= ratio
    return X, (t > 0).astype(int), t


@pytest.mark.parametrize("estimator", BOTH)
def test_features_out_of_reach_are_told_of_with_the_remedy(estimator, rng):
    X, y, t = uneven(rng, 1e4)
    y = targets_for(estimator, y, t)
    with pytest.warns(ConvergenceWarning, match="scale the features.*StandardScaler"):
        model = estimator(solver="pegasos", random_state=0).fit(X, y)
    assert model.stop_reason_ == "max_iter"


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("ratio", [1.0, 10.0, 1e4])
def test_a_claim_of_convergence_is_near_the_optimum_whatever_the_sizes(estimator, ratio, rng):
    """No better point is known by a share of tol, even by steps that fit each feature."""
    X, y, t = uneven(rng, ratio)
    y = targets_for(estimator, y, t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = estimator(solver="pegasos", C=0.1, random_state=0).fit(X, y)
        exact = estimator(C=0.1, random_state=0, max_iter=3000).fit(X / X.std(axis=0), y)
    if ratio == 1.0:
        assert model.stop_reason_ in ("settled", "tol")
    if model.stop_reason_ in ("settled", "tol"):
        assert model.score(X, y) >= exact.score(X / X.std(axis=0), y) - 0.1


@pytest.mark.parametrize(("width", "ratio", "solver"), [(200, 1e3, "Interior"), (201, 1e3, "SDCA"), (20, 10.0, "SDCA")])
def test_auto_turns_to_the_interior_point_where_few_features_differ_much(width, ratio, solver, rng, monkeypatch):
    used = []
    monkeypatch.setattr(fitting, "run", lambda solver, problem, **options: used.append(type(solver).__name__) or 1 / 0)
    X = rng.normal(size=(30, width))
    X[:, 0] *= ratio
    with pytest.raises(ZeroDivisionError):
        LinearSVC(C=1e-6).fit(X, np.arange(30) % 2)  # C is no reason
    assert used == [solver]


@pytest.mark.parametrize(
    ("change", "solver"),
    [({}, "Interior"), ({"C": 0.01}, "SDCA"), ({"C": 0.1, "tol": 1e-6}, "Interior"), ({"tol": 0.0}, "SDCA"),
     ({"C": 0.1}, "SDCA"), ({"C": 0.1, "loss": "squared_hinge"}, "Interior"), ({"warm_start": True}, "SDCA"),
     ({"max_iter": 50}, "SDCA"), ({"max_seconds": 9.0}, "Interior"), ({"max_seconds": 0.1}, "SDCA"),
     ({"rows": 400}, "SDCA"), ({"rows": 400, "C": 10.0}, "Interior"), ({"loss": "log"}, "Interior"),
     ({"early_stopping": True}, "SDCA"), ({"max_feature_reads": 10**9}, "SDCA"),
     ({"C": 0.01, "intercept": "unregularized"}, "SDCA"), ({"intercept": "search"}, "Pegasos"),
     ({"intercept": "unregularized", "early_stopping": True}, "SDCA")],
)  # fmt: skip
def test_auto_turns_to_the_interior_point_where_dual_ascent_would_take_longer(change, solver, rng, monkeypatch):
    used, change = [], dict(change)
    monkeypatch.setattr(fitting, "run", lambda solver, problem, **options: used.append(type(solver).__name__) or 1 / 0)
    rows = change.pop("rows", 5000)
    with pytest.raises(ZeroDivisionError):
        LinearSVC(**change).fit(4.0 * rng.normal(size=(rows, 10)), np.arange(rows) % 2)
    assert used == [solver]


# ---------------------------------------------------------------- data that are hard: they work, or it is said why not


def separated(rng, n=60, d=4):
    """Two classes with a gap between them along the first feature."""
    X = rng.normal(size=(n, d))
    y = np.arange(n) % 2
    X[:, 0] = (2 * y - 1) * (0.5 + np.abs(X[:, 0]))
    return X, y


def test_a_row_of_zeros_and_a_constant_feature_are_data_like_any(rng):
    X, y, _ = data(rng)
    X[3] = 0.0
    X[:, 2] = 3.0
    model = LinearSVC(random_state=0, **EXACT).fit(X, y)
    theirs = RivalSVC(loss="hinge", tol=1e-10, max_iter=10**6).fit(X, y)
    mine, yours = (hinge_objective(m.coef_[0], m.intercept_[0], X, 2 * y - 1, 1.0) for m in (model, theirs))
    assert_same_minimum(mine, yours, model, scale=y.size)


def test_nothing_but_zeros_gives_the_majority(rng):
    X, y = np.zeros((30, 3)), np.array([1] * 20 + [0] * 10)
    model = LinearSVC(random_state=0, **EXACT).fit(X, y)
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert np.all(model.predict(X) == 1)
    assert LinearSVC(intercept="none", random_state=0, **EXACT).fit(X, y).certificate_.primal == 1.0


def test_duplicate_rows_with_opposite_labels_are_no_trouble(rng):
    X, y = separated(rng)
    model = LinearSVC(random_state=0, **EXACT).fit(np.vstack([X, X]), np.concatenate([y, 1 - y]))
    # every margin is both right and wrong: nothing beats the zero vector, whose mean loss is 1
    assert model.certificate_.primal == pytest.approx(1.0, rel=CLOSE)
    copies = LinearSVC(C=0.5, random_state=0, **EXACT).fit(np.vstack([X, X]), np.concatenate([y, y]))
    single = LinearSVC(C=1.0, random_state=0, **EXACT).fit(X, y)
    one, other = (hinge_objective(m.coef_[0], m.intercept_[0], X, 2 * y - 1, 1.0) for m in (copies, single))
    assert one == pytest.approx(other, rel=2 * CLOSE)


def test_far_more_features_than_examples_are_separated(rng):
    X = rng.normal(size=(12, 4000))
    y = np.arange(12) % 2
    model = LinearSVC(random_state=0, **EXACT).fit(X, y)
    assert model.score(X, y) == 1.0
    t = rng.normal(size=12)
    # rows of unit length, for which n·epochs steps are enough
    regression = LinearSVR(random_state=0, **EXACT).fit(X / 4000**0.5, t)
    theirs = RivalSVR(epsilon=0.0, tol=1e-8, max_iter=10**6).fit(X / 4000**0.5, t)
    mine, yours = (
        half_square(m.coef_, m.intercept_) + np.sum(np.abs(m.predict(X / 4000**0.5) - t)) for m in (regression, theirs)
    )
    assert_same_minimum(mine, yours)


def test_two_examples_are_enough(rng):
    X, _ = separated(rng)
    for labels in ([0, 1], ["b", "a"]):
        model = LinearSVC(C=100.0, random_state=0, **EXACT).fit(X[:2], labels)
        assert list(model.predict(X[:2])) == labels
    regression = LinearSVR(C=100.0, random_state=0, **EXACT).fit(X[:2], [3.0, -1.0])
    assert regression.predict(X[:2]) == pytest.approx([3.0, -1.0], abs=1.0)  # a thousand steps towards a spread of 4
    one = LinearSVR(random_state=0, **EXACT).fit(X[:1], [2.0])
    assert np.isfinite(one.predict(X[:1])).all()


def works_or_says_why(fit):
    """The fitted model, or None where the features are refused in a sentence that tells to scale them."""
    try:
        return fit()
    except ValueError as refusal:
        if "scale" not in str(refusal):
            raise
        return None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e30, 1e-30])
@pytest.mark.filterwarnings("ignore:invalid value encountered")  # before an overflow is refused
def test_the_unit_of_the_features_does_not_matter_when_C_follows(size, dtype, rng):
    """P(w/c) for data cX and C/c² is P(w) for X and C up to the factor c²; steps are found by trial in any unit."""
    X, y = separated(rng)
    unit = LinearSVC(intercept="none", random_state=0, **EXACT).fit(X, y).certificate_.primal
    scaled = LinearSVC(C=float(size) ** -2, intercept="none", random_state=0, **EXACT)
    model = works_or_says_why(lambda: scaled.fit((X * size).astype(dtype), y))
    if model is not None:
        assert model.certificate_.primal == pytest.approx(unit, rel=CLOSE)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_huge_features_are_separated(dtype, rng):
    X, y = separated(rng)
    model = works_or_says_why(lambda: LinearSVC(random_state=0, **EXACT).fit((X * 1e30).astype(dtype), y))
    if model is not None:
        assert model.score((X * 1e30).astype(dtype), y) == 1.0
    t = X[:, 0]
    model = works_or_says_why(lambda: LinearSVR(random_state=0, **EXACT).fit((X * 1e30).astype(dtype), t))
    if model is not None:
        assert model.certificate_.primal < 0.1 * np.mean(np.abs(t))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tiny_features_leave_little_to_learn_at_C_one(dtype, rng):
    """‖w‖ ≤ Cn‖x‖ = 6e-29, so the scores are 1e-57 at most and the intercept is all there is: nothing overflows."""
    X, y = separated(rng)
    model = works_or_says_why(lambda: LinearSVC(random_state=0, **EXACT).fit((X * 1e-30).astype(dtype), y))
    if model is not None:
        assert np.isfinite(model.coef_).all()
        assert np.abs(model.coef_).max() < 1e-27
        assert model.certificate_.primal == pytest.approx(1.0, rel=CLOSE)  # as many of one class as of the other


@pytest.mark.parametrize("lam", [1e-6, 1e-12, 1e-30, 1e-300])
def test_squared_losses_survive_a_tiny_lambda(lam, rng):
    """The paper's first steps 1/(λt) would throw them to infinity."""
    X, y, t = data(rng, d=3)
    A = np.c_[X, np.ones(t.size)]
    squared_hinge = lambda v: np.mean(np.maximum(0, 1 - (2 * y - 1) * (A @ v)) ** 2) + 0.5 * lam * v @ v  # noqa: E731
    best = scipy.optimize.minimize(squared_hinge, np.zeros(4)).fun
    least = np.mean((A @ np.linalg.lstsq(A, t)[0] - t) ** 2)
    for step in ("bottou", "pegasos"):
        options = {"lam": lam, "solver": Pegasos(step=step), "random_state": 0, **LONG}
        classifier = LinearSVC(loss="squared_hinge", **options).fit(X, y).history_["objective"][-1]
        regression = LinearSVR(loss="squared_epsilon_insensitive", **options).fit(X, t).history_["objective"][-1]
        zero = 1.0, np.mean(t**2)  # the objectives of the zero vector
        if step == "bottou":
            # with so small a λ the steps found by trial never shrink, and the average of what they do lies off the
            # minimum: by 1e-4 of the zero vector's objective in the median of 250 seeds, by 0.23 in the worst. The
            # bound is chosen from that, with room: it tells a run that works from one thrown off, not how well it works
            assert classifier <= best + 0.5 * zero[0]
            assert regression <= least + 0.1 * zero[1]
        else:  # 1/(λt), capped at the inverse curvature throughout, hovers about the minimum but is not thrown off
            assert classifier <= 2 * zero[0]
            assert regression <= 2 * zero[1]


@pytest.mark.parametrize("lam", [1e10, 1e300])
def test_a_huge_lambda_gives_nearly_nothing(lam, rng):
    X, y, _ = data(rng)
    model = quick(LinearSVC, lam=lam).fit(X, y)
    assert np.abs(model.coef_).max() < 10 / lam
    assert model.certificate_.primal == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("labels", [["u", "v"] * 3, [0, 1] * 3])
def test_texts_among_features_are_told_of_X_whatever_the_labels_are(labels):
    X = np.array([[1.0, "x"]] * 6, object)
    with pytest.raises(ValueError, match="X must hold numbers, got the string 'x'"):
        LinearSVC().fit(X, labels)
