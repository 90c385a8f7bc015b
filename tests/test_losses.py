"""Losses as objects: what they solve, and what is refused."""

import doctest
import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV

from reference.pegasos import objective
from widemargin import SMO, LinearSVC, LinearSVR, losses
from widemargin.core.losses.losses import BINARY, REGRESSION, Single
from widemargin.formats import export


class Point(NamedTuple):
    """A tuple that is no loss."""

    x: float


def data(rng, n=60, d=4):
    X = rng.normal(size=(n, d))
    t = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n)
    return X, t, np.where(t > 0.0, 1.0, -1.0)


def test_the_examples_of_the_module_run():
    assert doctest.testmod(losses).failed == 0


def test_all_losses_of_one_score_are_in_the_module():
    assert {*BINARY.values(), *REGRESSION.values()} == {
        each for each in vars(losses).values() if isinstance(each, type)
    }


@pytest.mark.parametrize(
    ("name", "loss"), [("hinge", losses.Hinge()), ("log", losses.Log()), ("huberized", losses.Huberized())]
)
def test_an_object_is_the_loss_of_its_name(name, loss, rng):
    X, _, y = data(rng)
    named, given = (LinearSVC(loss=each, random_state=0).fit(X, y) for each in (name, loss))
    np.testing.assert_array_equal(named.coef_, given.coef_)
    assert hasattr(given, "predict_proba") == (name == "log")


@pytest.mark.parametrize("solver", ["auto", "pegasos"])
@pytest.mark.parametrize("loss", [losses.Huberized(0.5), losses.HuberizedEpsilon(0.2, 0.5)])
def test_huberised_losses_are_minimised(loss, solver, rng):
    X, t, y = data(rng)
    estimator, y = (LinearSVR, t) if loss.is_regression else (LinearSVC, y)
    tol = 1e-5 if solver == "auto" else 0.0
    options = {"lam": 0.1, "intercept": "none", "tol": tol, "max_iter": 300, "random_state": 0}
    model = estimator(loss=loss, solver=solver, **options).fit(X, y)

    def primal(w):
        return objective(X, y, Single(loss), 0.1, w[:, None], np.zeros(1))

    least = minimize(primal, np.zeros(X.shape[1]), options={"gtol": 1e-9}).fun
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(primal(np.ravel(model.coef_)), rel=1e-9)
    assert certificate.dual <= least * (1.0 + 1e-9)
    # Pegasos is above the minimum by 10/(λT) at most, on the average (Theorem 1), and here by far less
    assert certificate.primal <= least * (1.0 + (1e-5 if solver == "auto" else 1e-2))
    assert model.stop_reason_ == "tol" if solver == "auto" else certificate.relative_gap < 0.5


def test_a_narrow_parabola_is_nearly_the_corner(rng):
    """H_δ is below the hinge by δ/2 at most, and never above."""
    X, _, y = data(rng)
    values = [
        LinearSVC(loss=loss, tol=1e-6, max_iter=10_000).fit(X, y).certificate_.primal
        for loss in (losses.Huberized(1e-3), losses.Hinge())
    ]
    assert -2e-6 * values[1] <= values[1] - values[0] <= 5e-4 + 2e-6 * values[1]


def test_three_classes_and_a_free_intercept_have_a_proven_gap(rng):
    X, t, _ = data(rng, 90)
    y = np.digitize(t, [-0.5, 0.5])
    model = LinearSVC(loss=losses.Huberized(0.3), intercept="unregularized", random_state=0).fit(X, y)
    assert (model.stop_reason_, model.coef_.shape) == ("tol", (3, 4))
    assert model.certificate_.relative_gap <= 1e-3


def test_a_stream_takes_objects(rng):
    X, t, y = data(rng)
    for model, target in ((LinearSVC(loss=losses.Huberized(0.5)), y), (LinearSVR(loss=losses.HuberizedEpsilon()), t)):
        more = {"classes": [-1.0, 1.0]} if target is y else {}
        assert np.isfinite(model.partial_fit(X, target, **more).coef_).all()


@pytest.mark.parametrize(
    ("estimator", "given", "error", "said"),
    [
        (
            LinearSVC,
            {"loss": "nought"},
            ValueError,
            "loss must be one of 'hinge', .*Huberized.delta=0.5., got 'nought'",
        ),
        (LinearSVC, {"loss": losses.Huberized}, ValueError, "loss must be one of .* got <class"),
        (
            LinearSVC,
            {"loss": Point(1.0)},
            ValueError,
            "got Point.*, whose class is not registered in this",
        ),
        (
            LinearSVC,
            {"loss": "epsilon_insensitive"},
            ValueError,
            "got 'epsilon_insensitive', which is a loss for regr",
        ),
        (
            LinearSVC,
            {"loss": losses.SquaredEpsilon(0.1)},
            ValueError,
            "got SquaredEpsilon.*, which is a loss for regr",
        ),
        (LinearSVR, {"loss": losses.Huberized()}, ValueError, "got Huberized.*, which is a loss for classification"),
        (LinearSVC, {"loss": losses.Huberized(0.0)}, ValueError, "delta must be > 0 and finite, got 0.0"),
        (LinearSVC, {"loss": losses.Huberized(math.nan)}, ValueError, "delta must be > 0 and finite, got nan"),
        (LinearSVC, {"loss": losses.Huberized("1")}, TypeError, "delta must be a number > 0, got '1'"),
        (LinearSVR, {"loss": losses.HuberizedEpsilon(-1.0)}, ValueError, "epsilon must be ≥ 0 and finite, got -1.0"),
        (LinearSVR, {"loss": losses.EpsilonInsensitive(0.1), "epsilon": 0.2}, ValueError, "epsilon is given twice, as"),
        (
            LinearSVC,
            {"loss": losses.Huberized(), "multi_class": "crammer_singer"},
            ValueError,
            "multi_class='crammer_singer' has the losses 'hinge', 'log', got Huberized",
        ),
        (LinearSVC, {"loss": losses.Huberized(), "solver": "simba"}, ValueError, "Simba"),
        (
            LinearSVC,
            {"loss": losses.Huberized(), "solver": "interior"},
            ValueError,
            "'interior' has the log-loss, the hinge",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(estimator, given, error, said, rng):
    X, t, y = data(rng, 20)
    with pytest.raises(error, match=said):
        estimator(**given).fit(X, t if estimator is LinearSVR else y)


def test_probabilities_and_texts_of_other_losses_are_refused_in_a_sentence(rng, tmp_path):
    X, _, y = data(rng)
    model = LinearSVC(loss=losses.Huberized(0.5)).fit(X, y)
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'") as refused:
        _ = model.predict_proba
    assert "probabilities need loss='log', got Huberized(delta=0.5)" in str(refused.value.__cause__)
    assert CalibratedClassifierCV(model, cv=2).fit(X, y).predict_proba(X).shape == (60, 2)
    with pytest.raises(ValueError, match="LIBLINEAR has no loss 'huberized': train with another loss, or export"):
        export(model, tmp_path / "model.liblinear")
    export(LinearSVC(loss=losses.Log()).fit(X, y), tmp_path / "log.liblinear")
    assert "L2R_LR\n" in (tmp_path / "log.liblinear").read_text()


def test_smo_says_which_losses_it_takes(rng):
    from widemargin.core.kernels.kernels import as_kernel
    from widemargin.core.rows.rows import as_rows
    from widemargin.problems.kernel import KernelProblem

    X, _, y = data(rng, 20)
    problem = KernelProblem(as_kernel("linear"), as_rows(X), y, Single(losses.Huberized()), 0.1)
    with pytest.raises(ValueError, match="SMO solves the hinge and the ε-insensitive loss, got Huberized: choose one"):
        SMO().init(problem, rng)
