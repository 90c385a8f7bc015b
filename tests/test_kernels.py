"""Kernels as objects: the same machines as by name, and what is refused."""

import doctest
import math

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from widemargin import SVC, SVR, BudgetedSVC, IncrementalSVC, kernels
from widemargin.core.kernels.kernels import KERNELS, BlackBox
from widemargin.formats import export, load


def data(rng, n=60):
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] * X[:, 1] > 0.0).astype(int)


def test_the_examples_of_the_module_run():
    assert doctest.testmod(kernels).failed == 0


def test_all_kernels_are_in_the_module():
    assert {*KERNELS.values(), BlackBox} == {each for each in vars(kernels).values() if isinstance(each, type)}


@pytest.mark.parametrize(
    ("by_name", "kernel"),
    [
        ({"kernel": "rbf", "gamma": 0.3}, kernels.RBF(0.3)),
        ({"kernel": "rbf"}, kernels.RBF()),
        ({"kernel": "laplacian", "gamma": "auto"}, kernels.Laplacian("auto")),
        ({"kernel": "linear"}, kernels.Linear()),
        ({"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}, kernels.Polynomial(0.5, 1.0, 2)),
        ({"kernel": "poly"}, kernels.Polynomial()),
    ],
)
def test_an_object_is_the_kernel_of_its_name(by_name, kernel, rng):
    X, y = data(rng)
    named, given = SVC(**by_name).fit(X, y), SVC(kernel=kernel).fit(X, y)
    np.testing.assert_array_equal(named.dual_coef_, given.dual_coef_)
    np.testing.assert_array_equal(named.decision_function(X), given.decision_function(X))
    for name in ("coef_", "gamma_"):
        assert np.array_equal(getattr(named, name, None), getattr(given, name, None))


def test_an_object_has_the_gamma_of_rows_of_any_size(rng):
    """Rows of this size are divided by a power of two, and γ is multiplied by its square."""
    X, y = data(rng)
    for gamma in ("scale", 1e-60):
        named, given = SVC(gamma=gamma).fit(1e30 * X, y), SVC(kernel=kernels.RBF(gamma)).fit(1e30 * X, y)
        np.testing.assert_array_equal(named.dual_coef_, given.dual_coef_)
        assert named.gamma_ == given.gamma_


def test_tables_and_functions_are_objects_too(rng):
    X, y = data(rng)
    K = rbf_kernel(X, gamma=0.5)
    expected = SVC(kernel="precomputed").fit(K, y).dual_coef_
    np.testing.assert_array_equal(SVC(kernel=kernels.Precomputed()).fit(K, y).dual_coef_, expected)
    many = SVC(kernel=kernels.BlackBox(lambda A, B: rbf_kernel(A, B, gamma=0.5), 16), tol=1e-8).fit(X, y)
    same = SVC(gamma=0.5, tol=1e-8).fit(X, y)
    # ½‖w − w*‖² is at most the gap, 1e-8 of at most C n = 60 for each; the bias follows the scores
    np.testing.assert_allclose(many.decision_function(X), same.decision_function(X), atol=1e-2)


def test_streams_take_objects_and_keep_their_kernel(rng):
    X, y = data(rng)
    for kernel, options in ((kernels.RBF(), {}), (kernels.Linear(), {"kernel": "linear"})):
        for estimator in (BudgetedSVC, IncrementalSVC):
            own = {"random_state": 0, "maintenance": "remove"} if estimator is BudgetedSVC else {}
            named, given = estimator(**options, **own), estimator(kernel=kernel, **own)
            for part in (slice(0, 30), slice(30, 60)):
                for model in (named, given):
                    model.partial_fit(X[part], y[part], classes=[0, 1])
            np.testing.assert_array_equal(named.decision_function(X), given.decision_function(X))
    model = BudgetedSVC(kernel=kernels.RBF(0.5), random_state=0).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"keeps its kernel, RBF\(gamma=0.5\), got RBF\(gamma=0.25\)"):
        model.set_params(kernel__gamma=0.25).partial_fit(X, y)


def test_models_of_objects_go_to_files_of_every_kind(rng, tmp_path):
    X, y = data(rng)
    model = SVC(kernel=kernels.RBF()).fit(X, y)
    model.save(tmp_path / "model.npz")
    loaded = SVC.load(tmp_path / "model.npz")
    assert type(loaded.kernel) is kernels.RBF
    assert loaded.kernel.gamma == "scale"
    np.testing.assert_array_equal(loaded.fit(X, y).dual_coef_, model.dual_coef_)
    export(model, tmp_path / "model.libsvm")
    read = load(tmp_path / "model.libsvm").decision_function(X)
    scores = model.decision_function(X)
    np.testing.assert_allclose(read, scores, rtol=0.0, atol=2e-6 * np.ptp(scores))  # either is exact to 1e-6 of that


@pytest.mark.parametrize("estimator", [SVC, SVR, BudgetedSVC, IncrementalSVC])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"kernel": kernels.RBF(0.1), "gamma": 0.2},
            r"gamma is given twice, as gamma=0.2 and in kernel=RBF.gamma=0.1",
        ),
        (
            {"kernel": kernels.Polynomial(degree=2), "degree": 4},
            "degree is given twice, as degree=4 and in kernel=Poly",
        ),
        ({"kernel": kernels.RBF(-1.0)}, "gamma must be >= 0, got -1.0"),
        ({"kernel": kernels.RBF(math.nan)}, "gamma must be finite, got nan"),
        ({"kernel": kernels.RBF("scael")}, "gamma must be 'scale', 'auto' or a number >= 0, got 'scael'"),
        ({"kernel": kernels.RBF}, "kernel must be one of 'linear', .*got <class"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(estimator, given, said, rng):
    X, y = data(rng, 20)
    with pytest.raises(ValueError, match=said):
        estimator(**given).fit(X, y)


def test_parameters_that_a_kernel_does_not_have_are_not_looked_at(rng):
    X, y = data(rng)
    expected = SVC(kernel="rbf", gamma=0.1, degree=7).fit(X, y)
    np.testing.assert_array_equal(SVC(kernel=kernels.RBF(0.1), degree=7).fit(X, y).dual_coef_, expected.dual_coef_)
