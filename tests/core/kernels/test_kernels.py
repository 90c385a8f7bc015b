"""Kernels and their facts: what is known of each is true of its values, and users' arguments make the right one."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise
from sklearn.svm import SVC

import widemargin as wm
from reference.kernels import EXAMPLES, REFERENCES, as_rows, few, matrices
from widemargin.core.kernels.kernels import (
    KERNELS,
    RBF,
    BlackBox,
    Linear,
    as_kernel,
    between,
    class_of,
    finish,
    kernel_class,
    names_of,
    reach_of,
    resolve_gamma,
    value_of,
)
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.kernels.measures import Absolute, Squared
from widemargin.core.rows.rows import CSRRows, DenseRows, as_matrix


def test_every_named_kernel_is_tested():
    assert set(EXAMPLES) | {"precomputed"} == set(KERNELS)
    assert all(type(kernel) is KERNELS[name] for name, kernel in EXAMPLES.items())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("rfb",), ValueError, "kernel must be one of 'linear', .* or a function f.A, B., got 'rfb'"),
        ((None,), ValueError, "kernel must be one of .* got None"),
        (("rbf", -1.0), ValueError, "gamma must be >= 0, got -1.0"),
        (("rbf", np.inf), ValueError, "gamma must be finite, got inf"),
        (("rbf", "scale"), ValueError, "gamma must be a number, got 'scale'; resolve_gamma"),
        (("rbf", None), TypeError, "gamma must be a number, got None"),
        (("laplacian", np.nan), ValueError, "gamma must be finite, got nan"),
        (("poly", 1.0, -2), ValueError, "degree must be an integer >= 0, got -2"),
        (("poly", 1.0, 2.5), ValueError, "degree must be an integer >= 0, got 2.5"),
        (("sigmoid", 1.0, 3, np.inf), ValueError, "coef0 must be finite, got inf"),
        ((RBF(-2.0),), ValueError, "gamma must be >= 0, got -2.0"),
    ],
)
def test_bad_kernel_arguments_are_named_with_their_value(arguments, error, message):
    with pytest.raises(error, match=message):
        as_kernel(*arguments)


def test_kernels_are_built_from_scikit_learn_arguments():
    assert as_kernel("poly", gamma=np.float32(0.5), degree=np.int64(2), coef0=1) == (0.5, 1.0, 2)
    assert [type(value) for value in as_kernel("poly", np.float32(0.5), np.int64(2), 1)] == [float, float, int]
    assert type(as_kernel("linear", gamma=-1)) is Linear  # a parameter the kernel does not have is not looked at
    black_box = as_kernel(pairwise.rbf_kernel)
    assert isinstance(black_box, BlackBox)
    assert as_kernel(black_box) is black_box


@few
@given(D=matrices())
def test_gamma_is_resolved_as_scikit_learn_does(D):
    D = np.vstack([D, D[0] + 1])  # two classes need two rows
    y = np.arange(len(D)) % 2
    for gamma in ("scale", "auto", 0.7):
        expected = SVC(gamma=gamma).fit(D, y)._gamma
        sparse = sp.csr_matrix(D)
        layouts = [DenseRows(D), CSRRows(sparse.data, sparse.indices, sparse.indptr, D.shape[1])]
        for X in (D, np.asfortranarray(D), sparse, sp.coo_array(D), *layouts):
            assert resolve_gamma(gamma, X) == pytest.approx(expected, rel=1e-9)


def test_gamma_of_constant_data_is_one_and_bad_gamma_is_refused():
    assert resolve_gamma("scale", np.full((3, 2), 5.0)) == 1.0
    assert resolve_gamma("scale", sp.csr_matrix((3, 2))) == 1.0
    with pytest.raises(ValueError, match="gamma must be 'scale', 'auto' or a number >= 0, got 'sclae'"):
        resolve_gamma("sclae", np.ones((2, 2)))
    with pytest.raises(ValueError, match="gamma must be >= 0, got -1"):
        resolve_gamma(-1, np.ones((2, 2)))


def test_facts_agree_with_the_values_of_the_kernel(rng):
    D = rng.standard_normal((60, 4))
    for name, kernel in EXAMPLES.items():
        K = REFERENCES[name](kernel, D, D)
        cls = class_of(name)
        assert cls is class_of(kernel) is type(kernel)
        assert cls.name == name
        assert cls.of_rows
        assert cls.unit_diagonal == np.allclose(np.diag(K), 1.0, atol=1e-12)
        assert cls.of_distances == np.allclose(REFERENCES[name](kernel, D + 3.0, D + 3.0), K, atol=1e-9)
        assert cls.is_linear == np.allclose(REFERENCES[name](kernel, 2.0 * D, D), 2.0 * K)
        assert not cls.is_definite or np.linalg.eigvalsh(K)[0] > -1e-9
        assert cls.has_gamma == hasattr(kernel, "gamma")
        if cls.has_gamma:
            smaller = kernel._replace(gamma=kernel.gamma * 4.0**cls.power)
            np.testing.assert_allclose(REFERENCES[name](smaller, D / 4.0, D / 4.0), K, rtol=1e-9)
        if cls.of_distances:
            moved = cdist(D, D, "cityblock" if cls.measure is Absolute else "euclidean")
            changes = np.abs(K[:, None] - K[None]).max(axis=2)  # of k(x, z), for all z, when x moves
            assert (changes <= kernel.steepness * moved + 1e-12).all()
    np.testing.assert_allclose(EXAMPLES["rbf"].gamma * cdist(D, D) ** 2, -np.log(REFERENCES["rbf"](RBF(0.3), D, D)))
    assert names_of("is_gaussian") == ("rbf",)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not KERNELS[name].of_distances])
def test_the_reach_of_rows_bounds_what_rounded_sums_move_kernel_values_by(name, rng):
    """A sum of m products is off by mu‖x‖‖z‖ at most, here by that: most where z is a multiple of x."""
    m, u = 200, 1e-9
    for size in 10.0 ** rng.uniform(-2, 2, 10):
        x = size * rng.normal(size=m)
        z = x * rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-1, 1)
        off = m * u * np.sqrt((x @ x) * (z @ z))
        rooted = [np.sqrt(reach_of(EXAMPLES[name], row @ row)) for row in (x, z)]
        value, *others = EXAMPLES[name].of_array(np, np.array([x @ z, x @ z + off, x @ z - off]))
        assert np.abs(np.array(others) - value).max() <= (2 * m + 20) * u * np.prod(rooted) * (1.0 + 1e-3)
        assert abs(value) <= np.prod(rooted) * (1.0 + 1e-12)


def test_little_is_known_of_tables_functions_and_names_that_do_not_exist():
    assert class_of("precomputed").is_table
    for kernel in (len, BlackBox(len), "rfb", None):
        cls = class_of(kernel)
        assert cls.is_function
        assert not cls.is_table
    for cls in (class_of("precomputed"), BlackBox):
        known = [cls.of_rows, cls.of_distances, cls.is_definite, cls.has_gamma, cls.unit_diagonal, cls.is_linear]
        assert not any(known)


@pytest.fixture
def rational():
    """A kernel in the lines that one takes; it leaves the registry after the test."""

    @kernel_class("rational", Squared)
    class Rational(NamedTuple):
        """k(x, z) = 1 / (1 + gamma‖x − z‖²)."""

        gamma: float

    @value_of.case(Rational)
    def _(kernel, total):
        return 1.0 / (1.0 + kernel.gamma * total)

    @finish.case(Rational)
    def _(kernel, sums, count, values):
        gamma, zero = sums.dtype.type(kernel.gamma), sums.dtype.type(0)
        for j in range(count):
            values[j] = 1 / (1 + gamma * max(sums[j], zero))

    yield Rational
    del KERNELS["rational"]


def test_a_new_kernel_is_one_class_and_two_cases(rational, rng):
    X, A = as_rows(rng.standard_normal((50, 3)), "dense float64")
    expected = 1.0 / (1.0 + 0.7 * cdist(A, A, "sqeuclidean"))
    np.testing.assert_allclose(KernelMatrix(rational(0.7), X).block(np.arange(50)), expected, rtol=1e-12)
    assert between(rational(0.7), X, 3, X, 5) == pytest.approx(expected[3, 5], rel=1e-14)
    y = A[:, 0] * A[:, 1] > 0
    given = as_matrix(X)
    ours, theirs = wm.SVC(kernel="rational", gamma=0.7, tol=1e-6).fit(given, y), SVC(kernel="precomputed", tol=1e-6)
    scores = theirs.fit(expected, y).decision_function(expected)
    np.testing.assert_allclose(ours.decision_function(given), scores, atol=1e-3)
    assert ours.gamma_ == 0.7
    with pytest.raises(ValueError, match="'rational' or a function"):
        as_kernel("rfb")
