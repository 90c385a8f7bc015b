"""Early stopping: the error that is watched is that of the held-out examples, each with its weight."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score

from widemargin import SVC, LinearSVC, LinearSVR
from widemargin.estimators import linear
from widemargin.estimators.fit import multiclass

QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def holdouts(monkeypatch):
    """The held-out examples of each fit, as they are chosen."""
    chosen, original = [], linear.held_out

    def recorded(*arguments):
        training, others = original(*arguments)
        chosen.append(others)
        return training, others

    for module in (linear, multiclass):
        monkeypatch.setattr(module, "held_out", recorded)
    return chosen


def lopsided(rng, classes=2, n=300):
    """Overlapping classes, the first by far the largest, and weights of the examples."""
    y = rng.choice(classes, n, p=np.r_[0.8, np.full(classes - 1, 0.2 / (classes - 1))])
    y[: 10 * classes] = np.tile(np.arange(classes), 10)
    X = rng.normal(size=(n, 4)) + 0.8 * np.eye(classes, 4)[y]
    return X, y, rng.uniform(0.1, 3.0, n)


def balanced(y, weights):
    """Weights of the classes, with counts by weight."""
    counts = np.bincount(y, weights)
    return weights.sum() / (counts.size * counts)


WATCHED = {"early_stopping": True, "validation_fraction": 0.3, "class_weight": "balanced", "random_state": 0}


@QUIET
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
def test_a_linear_classifier_watches_the_weighted_error(solver, classes, rng, holdouts):
    X, y, weights = lopsided(rng, classes)
    model = LinearSVC(solver=solver, max_iter=16, **WATCHED).fit(X, y, sample_weight=weights)
    (held,) = holdouts
    s = weights[held] * balanced(y, weights)[y[held]]
    kept = np.average(model.predict(X[held]) != y[held], weights=s)
    assert min(model.history_["validation_error"]) == pytest.approx(kept, rel=1e-12)


@QUIET
@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
def test_a_linear_regression_watches_the_weighted_error(solver, rng, holdouts):
    X, y, weights = lopsided(rng)
    t = X @ np.arange(4.0) + rng.normal(size=y.size)
    model = LinearSVR(solver=solver, max_iter=16, early_stopping=True, random_state=0).fit(X, t, sample_weight=weights)
    (held,) = holdouts
    kept = np.average(np.abs(model.predict(X[held]) - t[held]), weights=weights[held])
    assert min(model.history_["validation_error"]) == pytest.approx(kept, rel=1e-12)


@QUIET
@pytest.mark.parametrize("solver", ["smo", "sbp", "sdca", "pegasos", "perceptron"])
def test_a_kernel_classifier_watches_the_weighted_error(solver, rng, holdouts):
    X, y, weights = lopsided(rng)
    model = SVC(solver=solver, max_iter=8, **WATCHED).fit(X, y, sample_weight=weights)
    (held,) = holdouts
    of_class = balanced(y, np.ones(y.size))
    kept = np.average(model.predict(X[held]) != y[held], weights=weights[held] * of_class[y[held]])
    # the first problem's best error, and float32 scores that leave no doubt about their sign
    assert min(model.history_["validation_error"]) == pytest.approx(kept, rel=1e-9)


@QUIET
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_each_binary_problem_of_a_kernel_classifier_watches_its_weighted_error(multi_class, rng, holdouts):
    X, y, weights = lopsided(rng, classes=3)
    model = SVC(solver="smo", multi_class=multi_class, decision_function_shape=multi_class, **WATCHED)
    model.fit(X, y, sample_weight=weights)
    (held,) = holdouts
    of_class = balanced(y, np.ones(y.size))
    scores, truth = model.decision_function(X[held]), y[held]
    pairs = [(0, 1), (0, 2), (1, 2)] if multi_class == "ovo" else [(c, None) for c in range(3)]
    for k, (own, other) in enumerate(pairs):
        chosen = np.isin(truth, (own, other)) if other is not None else np.full(truth.size, True)
        s = weights[held] * (of_class[truth] if other is not None else np.where(truth == own, of_class[own], 1.0))
        wrong = (scores[:, k] > 0) != (truth == own)
        expected = np.average(wrong[chosen], weights=s[chosen])
        errors = model.history_["validation_error"][np.equal(model.history_["problem"], k)]
        assert min(errors) == pytest.approx(expected, rel=1e-9)


@QUIET
def test_classes_trained_together_watch_the_weighted_error(rng, holdouts):
    X, y, weights = lopsided(rng, classes=3)
    errors = []
    model = SVC(solver="sbp", multi_class="ovr", max_iter=1, n_iter_no_change=1, **WATCHED)
    model.set_params(callbacks=lambda progress: errors.append((progress.row["validation_error"], progress.model())))
    model.fit(X, y, sample_weight=weights)
    (held,) = holdouts
    s = weights[held] * balanced(y, np.ones(y.size))[y[held]]
    told, first = errors[0]
    scores = first.decision_function(model._preparation.rows(first.kernel, X[held]))
    assert scores.shape == (held.size, 3)
    assert told == pytest.approx(np.average(scores.argmax(axis=1) != y[held], weights=s), rel=1e-9)


def test_examples_of_weight_zero_are_not_held_out(rng, holdouts):
    X, y, weights = lopsided(rng)
    weights[rng.permutation(y.size)[:200]] = 0.0
    weights[:4] = 1.0
    LinearSVC(solver="sdca", **WATCHED).fit(X, y, sample_weight=weights)
    (held,) = holdouts
    assert np.all(weights[held] > 0)


@QUIET
@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
def test_a_rare_class_that_is_weighted_up_is_not_given_up(solver, rng):
    """Two in a hundred are positive, two units apart: the constant answer has a weighted error of one half."""
    n = 4000
    y = (np.arange(n) % 50 == 0).astype(int)
    X = rng.normal(size=(n, 20))
    X[:, :4] += y[:, None]
    model = LinearSVC(
        solver=solver, class_weight="balanced", early_stopping=True, validation_fraction=0.25, random_state=0
    ).fit(X, y)
    # Φ(1) = 0.84 is the best there is; the 20 positives held out err by 0.08 in the mean of it
    assert balanced_accuracy_score(y, model.predict(X)) > 0.7
