"""SVC with the Stochastic Batch Perceptron, and the Pareto front."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from widemargin import SVC, StochasticBatchPerceptron, pareto_path, plots, svm_path

NU = StochasticBatchPerceptron(nu=0.05)


@pytest.fixture
def moons(rng):
    return make_moons(500, noise=0.25, random_state=int(rng.integers(2**32)))


@pytest.mark.parametrize("intercept", ["auto", "regularized", "none"])
def test_sbp_and_smo_end_at_the_same_optimum(intercept, moons):
    X, y = moons
    ours, exact = (SVC(C=5.0, solver=name, intercept=intercept, tol=1e-4).fit(X, y) for name in ("sbp", "smo"))
    assert ours.stop_reason_ == "tol"
    assert ours.certificate_.relative_gap <= 1e-4
    assert ours.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-4)


def test_weights_reach_the_solver(moons):
    X, y = moons
    weights = np.where(y == 1, 3.0, 0.5)
    for solver in ("sbp", StochasticBatchPerceptron(nu=0.05, average="suffix")):
        by_class = SVC(solver=solver, class_weight={0: 0.5, 1: 3.0}, random_state=0).fit(X, y)
        by_sample = SVC(solver=solver, random_state=0).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(by_class.dual_coef_, by_sample.dual_coef_)
        plain = SVC(solver=solver, random_state=0).fit(X, y)
        assert np.mean(by_class.predict(X) == 1) > np.mean(plain.predict(X) == 1)


def test_a_given_nu_takes_no_notice_of_c(moons):
    X, y = moons
    small, large = (SVC(C=C, solver=NU, random_state=0, tol=0.0, max_iter=3).fit(X, y) for C in (0.1, 10.0))
    np.testing.assert_array_equal(small.dual_coef_, large.dual_coef_)
    # Lemma 2.1: the mean hinge of the predictor is ν times its norm at the optimum, and never more by the level
    row = small.history_.rows[-1]
    assert row["hinge"] == pytest.approx(0.05 / row["level"], rel=1e-6)


def test_classes_against_the_rest_share_kernel_rows(rng):
    X, y = load_digits(return_X_y=True)
    together = SVC(solver="sbp", multi_class="ovr", tol=1e-3, random_state=0, cache_size=2).fit(X, y)
    exact = SVC(multi_class="ovr", tol=1e-3, cache_size=2).fit(X, y)
    assert np.mean(together.predict(X) != exact.predict(X)) <= 0.01
    for ours, theirs in zip(together.certificate_, exact.certificate_):
        assert ours.primal == pytest.approx(theirs.primal, rel=2e-3)
    # the sample's rows, with itself and with others, and the draws' rows are computed once for all ten classes
    common = together.history_["kernel_computed"][together.history_["problem"] == -1]
    n, half = X.shape[0], X.shape[0] // 2
    wide = SVC(solver="sbp", multi_class="ovr", tol=1e-3, random_state=0, cache_size=200).fit(X, y).history_
    assert wide["kernel_computed"][wide["problem"] == -1].max() <= n * n + 2 * half * half
    assert common.max() >= wide["kernel_computed"][wide["problem"] == -1].max()
    # the common part comes first, as problem −1
    assert together.history_["problem"][0] == -1
    assert set(together.history_["problem"]) == {-1, *range(10)}


def test_nu_given_trains_all_classes_in_one_run(rng):
    X, y = load_digits(return_X_y=True)
    solver = StochasticBatchPerceptron(nu=1e-3, batch_size=4)
    model = SVC(solver=solver, multi_class="ovr", max_iter=1, tol=0.0, gamma=0.001).fit(X, y)
    assert model.dual_coef_.shape == (10, model.support_.size)
    assert model.score(X, y) > 0.9
    # each of n rows at most once, for ten classes
    assert model.history_.last("kernel_computed") <= X.shape[0] ** 2


@pytest.mark.parametrize("parameters", [{}, {"multi_class": "ovr"}, {"solver": NU}, {"solver": "smo"}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_early_stopping_holds_out_and_keeps_the_best(parameters, n_classes, rng):
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X = X + rng.normal(size=X.shape)
    model = SVC(**{"solver": "sbp", **parameters}, early_stopping=True, validation_fraction=0.3, random_state=0)
    model.fit(X, y)
    assert "validation_error" in model.history_.columns
    assert model.support_.max() < X.shape[0]
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.score(X, y) > 0.8


def test_early_stopping_refuses_what_it_cannot_do(moons):
    X, y = moons
    with pytest.raises(ValueError, match="a precomputed kernel has none"):
        SVC(kernel="precomputed", early_stopping=True).fit(X @ X.T, y)
    with pytest.raises(TypeError, match="early_stopping must be True or False, got 1"):
        SVC(early_stopping=1).fit(X, y)


def test_a_time_limit_leaves_a_model(moons):
    X, y = moons
    SVC(solver="sbp").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="stop_reason_='max_seconds'"):
        model = SVC(solver="sbp", max_seconds=1e-3, tol=1e-9).fit(X, y)
    assert model.stop_reason_ == "max_seconds"
    assert model.certificate_.primal <= 1.0 + 1e-6  # no worse than w = 0
    assert set(model.predict(X)) <= set(model.classes_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_given_nu_that_is_still_moving_at_max_iter_warns(n_classes, rng):
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    solver, options = StochasticBatchPerceptron(nu=0.0), {"multi_class": "ovr", "gamma": 0.001}
    with pytest.warns(ConvergenceWarning, match="used all max_iter=2 epochs and its objective still changed"):
        SVC(solver=solver, max_iter=2, tol=1e-12, **options).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC(solver=solver, max_iter=2, tol=0.0, **options).fit(X, y)


def test_the_certificate_of_classes_trained_together_is_checked_too():
    """Recomputed in float64 it is that of the sum of all classes, and a bound on each side of the optimum's."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X = X / 16.0
    solver = StochasticBatchPerceptron(nu=0.01)
    options = {"multi_class": "ovr", "random_state": 0, "max_iter": 1, "tol": 0.0}
    checked = SVC(solver=solver, **options).fit(X, y).certificate_
    exact = SVC(multi_class="ovr", tol=1e-5).fit(X, y).certificate_
    assert checked.primal >= sum(c.dual for c in exact) * (1 - 1e-6)
    assert checked.dual <= sum(c.primal for c in exact) * (1 + 1e-6)


def test_a_certificate_has_no_negative_gap(rng):
    """SMO's dual value and the primal one of the ν-form are of different α, and rounding could cross them."""
    for _ in range(20):
        X = rng.normal(size=(60, 2))
        y = np.where(X @ rng.normal(size=2) + rng.normal(size=60) > 0, 1, -1)
        C = 10.0 ** rng.uniform(-2.0, 3.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            primal, _, gap = SVC(solver="sbp", kernel="linear", C=C).fit(X, y).certificate_
        assert gap >= -1e-9 * primal


# ---------------------------------------------------------------- the Pareto front


@pytest.mark.parametrize(
    "how",
    [
        {"Cs": [1.0, 10.0]},
        {"Cs": [1.0, 10.0], "solver": "sbp", "max_seconds": 1e-3},
        {"nus": [0.1, 0.05]},
        {"nus": [0.1], "solver": StochasticBatchPerceptron(batch_size=3)},  # coefficients that do not sum to zero
    ],
)
def test_points_are_those_of_their_models(how, rng):
    X, y = make_moons(150, noise=0.2, random_state=0)
    weights = rng.uniform(0.5, 2.0, 150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = pareto_path(X, y, sample_weight=weights, gamma=1.0, class_weight={0: 2.0}, **how)
    weights = weights * np.where(y == 0, 2.0, 1.0)
    for model, norm, hinge in zip(path.models, path.norms, path.hinges):
        c = model.dual_coef_[0]
        assert norm == pytest.approx(np.sqrt(c @ rbf_kernel(X[model.support_], gamma=1.0) @ c), rel=1e-4)
        slack = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * model.decision_function(X))
        assert hinge == pytest.approx(np.mean(weights * slack), rel=1e-6)


def test_the_front_by_c_falls_and_is_convex(moons):
    X, y = moons
    path = pareto_path(X, y, Cs=[0.01, 0.1, 1.0, 10.0], tol=1e-6)
    assert np.all(np.diff(path.norms) > 0.0)
    assert np.all(np.diff(path.hinges) < 0.0)
    slopes = np.diff(path.hinges) / np.diff(path.norms)
    assert np.all(np.diff(slopes) >= -1e-6)


def test_points_by_nu_lie_on_or_above_the_front_by_c(moons):
    """A point of the front minimises ½λ‖w‖² + mean hinge for its λ, so no other point has less."""
    X, y = moons
    n = len(y)
    path = pareto_path(X, y, nus=[0.05, 0.3, 0.15], max_iter=64, tol=0.0, random_state=0)
    for C in (0.1, 1.0, 10.0):
        exact = SVC(C=C, tol=1e-6).fit(X, y).certificate_
        for norm, hinge in zip(path.norms, path.hinges):
            assert 0.5 * norm**2 / (C * n) + hinge >= exact.dual - 1e-9
    # more slack, smaller norm
    assert path.norms[1] < path.norms[2] < path.norms[0]
    np.testing.assert_allclose(path.nus, path.hinges / path.norms)


def test_pareto_refuses_bad_input_in_a_sentence(moons):
    X, y = moons
    with pytest.raises(ValueError, match="either nus or Cs"):
        pareto_path(X, y)
    with pytest.raises(ValueError, match="each of nus must be ≥ 0"):
        pareto_path(X, y, nus=[-1.0])
    with pytest.raises(TypeError, match="must be a StochasticBatchPerceptron"):
        pareto_path(X, y, nus=[0.1], solver="smo")


def test_what_is_no_front_is_not_drawn():
    with pytest.raises(TypeError, match="pareto draws what pareto_path returns, got 1: call pareto_path first"):
        plots.pareto([1, 2])


def test_the_front_is_drawn(moons):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    path = pareto_path(*moons, Cs=[0.1, 1.0])
    ax = plots.pareto({"by C": path, "again": path})
    assert len(ax.lines) == 2
    np.testing.assert_allclose(ax.lines[0].get_xdata(), np.sort(path.norms))


def test_paths_refuse_what_would_mix_examples(rng):
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    with pytest.raises(ValueError, match="pareto_path takes no early_stopping"):
        pareto_path(X, y, nus=[0.1], early_stopping=True)
    with pytest.raises(ValueError, match="a path takes no early_stopping"):
        svm_path(X, y, [1.0], early_stopping=True)
    with pytest.raises(ValueError, match=r"Cs must be a sequence of numbers > 0, got 1\.0"):
        svm_path(X, y, 1.0)
    with pytest.raises(ValueError, match="nus must be a sequence of numbers"):
        pareto_path(X, y, nus=[])


def test_a_fitted_model_keeps_no_state_of_its_path(rng):
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    path = pareto_path(X, y, nus=[0.2, 0.1])
    assert not any(hasattr(model, "_next_start") for model in path.models)
