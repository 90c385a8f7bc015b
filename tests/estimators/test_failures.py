"""A call that fails leaves the old model whole, or none: never old weights with a new width, nor half a state."""

import signal

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, LinearSVC, LinearSVR
from widemargin.estimators import budgeted
from widemargin.estimators.fit import checking
from widemargin.problems.linear import Problem
from widemargin.solvers.budget import BudgetedSGD
from widemargin.solvers.pegasos import Pegasos
from widemargin.solvers.smo.smo import SMO

WIDE, NARROW = 30, 10

ESTIMATORS = {
    "LinearSVC": lambda **own: LinearSVC(**{"solver": "pegasos", "tol": 0, "max_iter": 2, "random_state": 0, **own}),
    "LinearSVR": lambda **own: LinearSVR(**{"solver": "pegasos", "tol": 0, "max_iter": 2, "random_state": 0, **own}),
    "SVC": lambda **own: SVC(random_state=0, **own),
    "SVR": lambda **own: SVR(random_state=0, **own),
    "BudgetedSVC": lambda **own: BudgetedSVC(10, random_state=0, **own),
    "BudgetedSVR": lambda **own: BudgetedSVR(10, random_state=0, **own),
}
STREAMS = ["LinearSVC", "LinearSVR", "BudgetedSVC", "BudgetedSVR"]
#: The solver of each, and what looks at its result when training is done.
SOLVERS = {"Linear": Pegasos, "SVC": SMO, "SVR": SMO, "Budget": BudgetedSGD}
LAST_LOOKS = {
    "Linear": (Problem, "certificate"),
    "SVC": (SMO, "certificate"),
    "SVR": (SMO, "certificate"),
    "Budget": (BudgetedSGD, "evaluate"),
}


def of(table, name):
    return next(value for start, value in table.items() if name.startswith(start))


def data(rng, width, n=60):
    """Rows; labels of two classes that are targets too."""
    X = rng.normal(size=(n, width))
    y = (X[:, 0] > 0).astype(int)
    y[:2] = 0, 1
    return X, y


def learn(name, method, model, X, y, **options):
    """Call fit or partial_fit."""
    if method == "partial_fit" and name.endswith("SVC"):
        options["classes"] = [0, 1]
    return getattr(model, method)(X, y, **options)


def raising(error, original=None):
    """A function that raises, after the work of the one it stands for."""

    def function(*args, **options):
        if original is not None:
            original(*args, **options)
        raise error

    return function


def break_at(place, name, method, model, monkeypatch):
    """Make a call of the method fail at a place; what to give the call beside the data."""
    if place == "weights":  # they are looked at when scikit-learn has set n_features_in_
        return {"sample_weight": -1.0}
    if place == "validation":
        monkeypatch.setattr(checking, "validate_data", raising(KeyboardInterrupt(), checking.validate_data))
    elif place == "init":
        monkeypatch.setattr(of(SOLVERS, name), "init", raising(KeyboardInterrupt(), of(SOLVERS, name).init))
    elif place == "callback":
        model.set_params(callbacks=raising(RuntimeError("mine")))
    elif place == "last look":
        owner, look = of(LAST_LOOKS, name)
        monkeypatch.setattr(owner, look, raising(RuntimeError("mine"), getattr(owner, look)))
    return {}


CALLS = [
    (name, "fit", place) for name in ESTIMATORS for place in ("weights", "validation", "init", "callback", "last look")
]
CALLS += [(name, "partial_fit", place) for name in STREAMS for place in ("weights", "validation", "init")]


@pytest.mark.parametrize(("name", "method", "place"), CALLS)
def test_a_first_call_that_fails_leaves_an_unfitted_estimator(name, method, place, rng, monkeypatch):
    model = ESTIMATORS[name]()
    options = break_at(place, name, method, model, monkeypatch)
    before = dict(vars(model))
    X, y = data(rng, NARROW)
    with pytest.raises((ValueError, RuntimeError, KeyboardInterrupt)):
        learn(name, method, model, X, y, **options)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize(("name", "method", "place"), [call for call in CALLS if call[1:] != ("partial_fit", "init")])
def test_a_later_call_that_fails_leaves_the_old_model_whole(name, method, place, rng, monkeypatch):
    """The new data has other features, so that a mixture of old and new would show, or other rows where it may not."""
    old, new = data(rng, WIDE), data(rng, NARROW if method == "fit" else WIDE, n=50)
    first = "fit" if name in ("SVC", "SVR") else method
    model = learn(name, first, ESTIMATORS[name](), *old)
    predictions, before = model.predict(old[0]), dict(vars(model))
    with monkeypatch.context() as patches:
        options = break_at(place, name, method, model, patches)
        with pytest.raises((ValueError, RuntimeError, KeyboardInterrupt)):
            learn(name, method, model, *new, **options)
    model.set_params(callbacks=None)
    assert vars(model) == before
    np.testing.assert_array_equal(model.predict(old[0]), predictions)
    with pytest.raises(ValueError, match=f"{NARROW} features"):
        model.predict(data(rng, NARROW)[0])


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (name, place)
        for name in STREAMS
        for place in ("weights", "validation", "label")
        if place != "label" or "SVC" in name
    ],
)
def test_a_stream_goes_on_as_if_a_part_that_failed_had_not_been(name, place, rng, monkeypatch):
    parts = [data(rng, 5) for _ in range(3)]
    model, other = (learn(name, "partial_fit", ESTIMATORS[name](), *parts[0]) for _ in range(2))
    with monkeypatch.context() as patches:
        options = break_at(place, name, "partial_fit", model, patches)
        y = parts[1][1] + 1 if place == "label" else parts[1][1]
        with pytest.raises((ValueError, KeyboardInterrupt)):
            learn(name, "partial_fit", model, parts[1][0], y, **options)
    for one in (model, other):
        learn(name, "partial_fit", one, *parts[2])
    np.testing.assert_array_equal(model.predict(parts[0][0]), other.predict(parts[0][0]))
    assert model.history_["visits"].tolist() == other.history_["visits"].tolist()


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
@pytest.mark.parametrize("solver", ["pegasos", "sdca"])
def test_a_warm_start_goes_on_as_if_a_fit_that_failed_had_not_been(name, solver, rng):
    X, y = data(rng, 5)
    model, other = (ESTIMATORS[name](warm_start=True, solver=solver).fit(X, y) for _ in range(2))
    with pytest.raises(RuntimeError, match="mine"):
        model.set_params(callbacks=raising(RuntimeError("mine"))).fit(X, y)
    model.set_params(callbacks=None).fit(X, y)
    other.fit(X, y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert model.history_["visits"].tolist() == other.history_["visits"].tolist()


def during(monkeypatch, solver, what, calls=1):
    """Do something after the given number of calls that take steps; solvers change their state in place."""
    advance, steps = solver.advance, []

    def watched(self, problem, state, n_steps):
        advance(self, problem, state, n_steps)
        steps.append(n_steps)
        if n_steps and np.count_nonzero(steps) == calls:
            what()

    monkeypatch.setattr(solver, "advance", watched)


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
def test_ctrl_c_in_a_linear_stream_raises_when_the_part_is_learnt(name, rng, monkeypatch):
    parts = [data(rng, 5) for _ in range(3)]
    model, other = (learn(name, "partial_fit", ESTIMATORS[name](), *parts[0]) for _ in range(2))
    with monkeypatch.context() as patches:
        during(patches, Pegasos, lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt, match="has learnt these 60 examples"):
            learn(name, "partial_fit", model, *parts[1])
    assert model.stop_reason_ == "interrupted"
    learn(name, "partial_fit", other, *parts[1])
    for one in (model, other):
        learn(name, "partial_fit", one, *parts[2])
    np.testing.assert_array_equal(model.coef_, other.coef_)


@pytest.mark.parametrize("name", ["LinearSVC", "LinearSVR"])
def test_weights_that_a_failure_left_half_changed_are_no_model(name, rng, monkeypatch):
    X, y = data(rng, 5)
    model = learn(name, "partial_fit", ESTIMATORS[name](C=2.0), X, y)
    with monkeypatch.context() as patches:
        during(patches, Pegasos, raising(MemoryError("mine")))
        with pytest.raises(MemoryError, match="mine"):
            learn(name, "partial_fit", model, X, y)
    assert vars(model) == vars(ESTIMATORS[name](C=2.0))
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("name", ["BudgetedSVC", "BudgetedSVR"])
def test_a_budgeted_stream_that_fails_on_the_way_says_how_far_it_came(name, rng, monkeypatch):
    """A second Ctrl-C, for example: what was learnt by then stays, whole and counted."""
    X, y = data(rng, 5, n=200)
    monkeypatch.setattr(budgeted, "SLICE", 10)
    model, other = ESTIMATORS[name](), ESTIMATORS[name]()
    with monkeypatch.context() as patches:
        during(patches, BudgetedSGD, raising(KeyboardInterrupt()), calls=3)
        with pytest.raises(KeyboardInterrupt):
            learn(name, "partial_fit", model, X, y)
    assert model.n_samples_seen_ == 30 == model.history_.last("visits")
    model.partial_fit(X[30:], y[30:])
    learn(name, "partial_fit", other, X, y)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
