"""Kernels against scikit-learn, against each other, and against the law that a block's grouping never changes a bit.

Tolerances are first-order rounding bounds: a sum of d products x z is wrong by at most (d + 2) ε Σ|x z|, and the bound
is carried through each kernel's formula. They are doubled because the reference rounds too.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise
from sklearn.svm import SVC

from widemargin.core import kernels
from widemargin.core.dispatch import compiled
from widemargin.core.exp import exp
from widemargin.core.kernels import (
    KERNELS,
    RBF,
    BlackBox,
    KernelMatrix,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
    as_kernel,
    between,
    pair,
    resolve_gamma,
)
from widemargin.core.rows import CSRRows, DenseRows

EXAMPLES = {
    "linear": Linear(),
    "rbf": RBF(0.3),
    "poly": Polynomial(0.5, 1.0, 3),
    "sigmoid": Sigmoid(0.2, 0.1),
    "laplacian": Laplacian(0.2),
}

REFERENCES = {
    "linear": lambda k, A, B: A @ B.T,
    "rbf": lambda k, A, B: pairwise.rbf_kernel(A, B, k.gamma),
    "poly": lambda k, A, B: pairwise.polynomial_kernel(A, B, k.degree, k.gamma, k.coef0),
    "sigmoid": lambda k, A, B: pairwise.sigmoid_kernel(A, B, k.gamma, k.coef0),
    "laplacian": lambda k, A, B: pairwise.laplacian_kernel(A, B, k.gamma),
}

# Every kernel on dense and sparse rows, in both precisions, with both kinds of indices; all of it for RBF, and
# half of it for each other kernel, because each combination is compiled.
LAYOUTS = {
    "dense float32": (np.float32, None),
    "dense float64": (np.float64, None),
    "CSR float32 int32": (np.float32, np.int32),
    "CSR float64 int64": (np.float64, np.int64),
}
COMBINATIONS = [("rbf", layout) for layout in LAYOUTS] + [
    (name, layout)
    for names, layouts in (
        (("linear", "sigmoid"), ("dense float64", "CSR float64 int64")),
        (("poly", "laplacian"), ("dense float32", "CSR float32 int32")),
    )
    for name in names
    for layout in layouts
]
every_combination = pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
few = settings(max_examples=12, deadline=None)


def as_rows(D, layout):
    """D as a layout, and as the float64 matrix that the layout holds."""
    dtype, index = LAYOUTS[layout]
    D = np.ascontiguousarray(D, dtype)
    if index is None:
        return DenseRows(D), D.astype(np.float64)
    S = sp.csr_matrix(D)
    return CSRRows(S.data, S.indices.astype(index), S.indptr.astype(index), D.shape[1]), D.astype(np.float64)


def tolerance(kernel, A, B, eps):
    a, b = np.abs(A), np.abs(B)
    inner, terms = a @ b.T, A.shape[1] + 4
    if isinstance(kernel, Linear):
        bound = terms * inner
    elif isinstance(kernel, Polynomial):
        bound = (kernel.degree * terms + 2) * (kernel.gamma * inner + abs(kernel.coef0)) ** kernel.degree
    elif isinstance(kernel, Sigmoid):
        bound = terms * (kernel.gamma * inner + abs(kernel.coef0)) + 4
    elif isinstance(kernel, RBF):
        bound = kernel.gamma * terms * ((a**2).sum(1)[:, None] + (b**2).sum(1) + 2 * inner) + 4
    else:
        bound = kernel.gamma * terms * (a.sum(1)[:, None] + b.sum(1)) + 4
    return 2 * eps * bound


@st.composite
def matrices(draw):
    """Sparse matrices with the rows that make trouble: zero, constant and repeated ones."""
    n, d = draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 3, 16, 31, 300]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    D = rng.standard_normal((n, d)) * draw(st.sampled_from([0.1, 1.0, 3.0])) / np.sqrt(d)
    D[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0.0
    for row in rng.integers(n, size=3):
        D[row] = (0.0, 1 / d, D[0])[rng.integers(3)]
    return D


def test_every_named_kernel_is_tested():
    assert set(EXAMPLES) | {"precomputed"} == set(KERNELS)
    assert all(type(kernel) is KERNELS[name] for name, kernel in EXAMPLES.items())


@every_combination
@few
@given(D=matrices())
def test_a_block_equals_the_pairs_and_scikit_learn(name, layout, D):
    kernel = EXAMPLES[name]
    X, A = as_rows(D, layout)
    K = KernelMatrix(kernel, X).block(np.arange(len(D)))
    assert K.dtype == LAYOUTS[layout][0]
    reference = REFERENCES[name](kernel, A, A)
    limit = tolerance(kernel, A, A, np.finfo(K.dtype).eps)
    assert (np.abs(K - reference) <= limit).all()
    pairs = np.array([[pair(kernel, X, i, j) for j in range(min(4, len(D)))] for i in range(len(D))])
    assert (np.abs(pairs - K[:, :4]) <= limit[:, :4]).all()
    np.testing.assert_array_equal(K, K.T)
    if name in ("rbf", "laplacian"):
        assert (np.diag(K) == 1).all()
        assert (np.diag(pairs) == 1).all()


@every_combination
def test_a_row_has_the_same_bits_whatever_it_is_asked_for_with(name, layout):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((421, 77)) / 8
    D[rng.random(D.shape) < 0.6] = 0.0
    X, _ = as_rows(D, layout)
    K = KernelMatrix(EXAMPLES[name], X)
    whole = K.block(np.arange(421))
    for height in (1, 2, 3, 15, 16, 17, 40, 300):
        I = rng.integers(421, size=height)
        np.testing.assert_array_equal(K.block(I), whole[I])
    np.testing.assert_array_equal(K.block(np.arange(421)[::-1]), whole[::-1])
    np.testing.assert_array_equal([K.block([i])[0] for i in range(0, 421, 20)], whole[::20])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("d", [1, 7, 300])
def test_equal_rows_have_the_kernel_value_one(d, name, layout, rng):
    D = rng.standard_normal((40, d)) * 2.0 / np.sqrt(d)
    D[rng.random(D.shape) < 0.3] = 0.0
    X, _ = as_rows(np.concatenate([D, D]), layout)
    Z, _ = as_rows(D, layout)
    I = np.arange(40)
    K = KernelMatrix(EXAMPLES[name], X)
    np.testing.assert_array_equal(K.block(I)[I, I + 40], 1.0)
    np.testing.assert_array_equal([K.block([i])[0, (i + 40) % 80] for i in range(0, 80, 9)], 1.0)
    # and where rows and columns are two matrices
    np.testing.assert_array_equal(KernelMatrix(EXAMPLES[name], X, Z).block(I + 40)[I, I], 1.0)
    np.testing.assert_array_equal(KernelMatrix(EXAMPLES[name], X, Z).block(I), K.block(I)[:, :40])


@pytest.mark.parametrize("layout", ["dense float32", "CSR float64 int64"])
def test_threads_do_not_change_a_bit(layout):
    rng = np.random.default_rng(0)
    X, _ = as_rows(rng.standard_normal((900, 40)) * (rng.random((900, 40)) < 0.7), layout)
    one, three = (KernelMatrix(EXAMPLES["rbf"], X, threads=threads) for threads in (1, 3))
    I = np.arange(900)
    assert len(I) * 900 * 20 > 2**23  # enough work to be shared out
    np.testing.assert_array_equal(one.block(I), three.block(I))


@every_combination
def test_columns_may_be_other_rows_than_the_data(name, layout):
    rng = np.random.default_rng(1)
    (X, A), (Z, B) = as_rows(rng.standard_normal((30, 9)), layout), as_rows(rng.standard_normal((200, 9)), layout)
    K = KernelMatrix(EXAMPLES[name], X, Z)
    assert K.shape == (30, 200)
    I = [4, 29, 0]
    limit = tolerance(EXAMPLES[name], A[I], B, np.finfo(K.dtype).eps)
    assert (np.abs(K.block(I) - REFERENCES[name](EXAMPLES[name], A[I], B)) <= limit).all()


def test_rows_and_columns_may_have_different_precision():
    rng = np.random.default_rng(1)
    (X, A), (Z, B) = (as_rows(rng.standard_normal((20, 9)), f"dense {dtype}") for dtype in ("float64", "float32"))
    K = KernelMatrix(RBF(0.1), X, Z)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K.block(range(20)), pairwise.rbf_kernel(A, B, 0.1), atol=1e-6)
    assert between(RBF(0.1), X, 3, Z, 5) == pytest.approx(pairwise.rbf_kernel(A, B, 0.1)[3, 5], rel=1e-14)


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "laplacian"])
@few
@given(D=matrices())
def test_gram_matrices_of_positive_definite_kernels_have_no_negative_eigenvalue(name, D):
    layout = next(layout for n, layout in COMBINATIONS if n == name and "dense" in layout)
    X, A = as_rows(D, layout)
    K = KernelMatrix(EXAMPLES[name], X).block(np.arange(len(D)))
    # An error E of the entries moves no eigenvalue by more than its Frobenius norm.
    allowed = np.linalg.norm(tolerance(EXAMPLES[name], A, A, np.finfo(K.dtype).eps)) + 1e-14 * np.trace(K)
    assert np.linalg.eigvalsh(K.astype(np.float64)).min() >= -allowed


@pytest.mark.parametrize("layout", ["dense float32", "CSR float32 int32"])
@pytest.mark.parametrize("centres", [[1e4], [-1e4, 1e4]])
def test_rbf_far_from_the_origin_keeps_its_digits(layout, centres):
    rng = np.random.default_rng(2)
    D = rng.standard_normal((40, 10)) + rng.choice(centres, size=(40, 1))
    X, A = as_rows(D, layout)
    K = KernelMatrix(RBF(0.1), X)
    # The differences are exact; what is left is the rounding of ten squares and of exp.
    np.testing.assert_allclose(K.block(range(40)), np.exp(-0.1 * cdist(A, A, "sqeuclidean")), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(K.block([7, 3]), K.block(range(40))[[7, 3]])


@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize("layout", ["dense float32", "CSR float32 int32"])
def test_huge_and_tiny_data_give_true_values_with_gamma_scale(layout, scale):
    rng = np.random.default_rng(3)
    X, A = as_rows(rng.standard_normal((20, 5)) * scale, layout)
    kernel = RBF(resolve_gamma("scale", X))
    K = KernelMatrix(kernel, X).block(range(20))
    np.testing.assert_allclose(K, np.exp(-kernel.gamma * cdist(A, A, "sqeuclidean")), rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", ["dense float32", "dense float64", "CSR float64 int64"])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_huge_data_never_give_nan(layout, gamma):
    D = np.array([[1, 0], [1, 1], [-1, 0], [0, 0], [0, 0], [1, 0]]) * (1e30 if "32" in layout else 1e170)
    D[4] = 1.0
    X, _ = as_rows(D, layout)
    K = KernelMatrix(RBF(gamma), X).block(range(6))
    expected = np.eye(6) if gamma else np.ones((6, 6))
    expected[3, 4] = expected[4, 3] = np.exp(-2 * gamma)
    expected[0, 5] = expected[5, 0] = 1
    np.testing.assert_allclose(K, expected, atol=1e-6 if "32" in layout else 1e-15)
    # Ordinary columns and a huge row asked against them.
    Z, _ = as_rows(np.array([[1.0, 2.0], [-1.0, 0.0]]), layout)
    K = KernelMatrix(RBF(gamma), X, Z).block([0, 1, 2])
    np.testing.assert_array_equal(K, 0.0 if gamma else 1.0)


def test_laplacian_of_far_sparse_rows_is_computed_pair_by_pair():
    D = np.array([[2.0**60, 1.0], [2.0**60, 2.0], [2.0**60, 0.0]])
    X, A = as_rows(D, "CSR float32 int32")
    K = KernelMatrix(Laplacian(1.0), X).block(range(3))
    np.testing.assert_allclose(K, np.exp(-cdist(A, A, "cityblock")), rtol=1e-7)


def test_sparse_rows_with_millions_of_features_use_little_scratch():
    rng = np.random.default_rng(4)
    d = 2_000_000
    S = sp.random(40, d, density=2e-5, format="csr", dtype=np.float32, rng=rng)
    X = CSRRows(S.data, S.indices.astype(np.int32), S.indptr.astype(np.int32), d)
    K = KernelMatrix(RBF(0.05), X)
    np.testing.assert_allclose(K.block(range(40)), pairwise.rbf_kernel(S, S, 0.05), atol=1e-6)
    (slot,) = K._source._slots
    assert slot.nbytes == 4 * d
    assert not slot.any()


def test_long_sparse_rows_are_packed_fewer_at_a_time_and_keep_their_bits():
    rng = np.random.default_rng(5)
    S = sp.random(36, 20_000, density=0.6, format="csr", dtype=np.float32, rng=rng)
    X = CSRRows(S.data, S.indices.astype(np.int32), S.indptr.astype(np.int32), 20_000)
    assert S.nnz > 3 * kernels.TILE_ENTRIES
    K = KernelMatrix(RBF(1e-4), X)
    whole = K.block(range(36))
    np.testing.assert_allclose(whole, pairwise.rbf_kernel(S, S, 1e-4), atol=1e-6)
    np.testing.assert_array_equal(K.block([30, 2, 35]), whole[[30, 2, 35]])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_may_be_wanted_in_float32_from_any_data(layout):
    rng = np.random.default_rng(6)
    X, _ = as_rows(rng.standard_normal((50, 6)), layout)
    narrow = KernelMatrix(RBF(0.3), X, dtype=np.float32).block(range(50))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, KernelMatrix(RBF(0.3), X).block(range(50)), rtol=1e-5)


def test_a_block_is_written_into_the_array_given():
    X, _ = as_rows(np.eye(3), "dense float64")
    K, out = KernelMatrix(RBF(0.3), X), np.empty((2, 3))
    assert K.block([2, 0], out=out) is out
    np.testing.assert_array_equal(out, K.block([2, 0]))
    assert K.block([]).shape == (0, 3)


@pytest.mark.parametrize(("name", "layout"), dict(COMBINATIONS).items())
def test_the_diagonal_holds_each_row_against_itself(name, layout):
    rng = np.random.default_rng(7)
    X, A = as_rows(rng.standard_normal((25, 6)), layout)
    K = KernelMatrix(EXAMPLES[name], X)
    np.testing.assert_allclose(K.diagonal(), np.diag(REFERENCES[name](EXAMPLES[name], A, A)), rtol=1e-13)
    assert K.evaluations == (0 if name in ("rbf", "laplacian") else 25)


def test_the_counter_equals_the_number_of_values_that_the_function_was_asked_for():
    asked = []

    def function(A, B):
        asked.append(len(A) * len(B))
        return A @ B.T

    rng = np.random.default_rng(8)
    D = rng.standard_normal((30, 4))
    for kernel in (BlackBox(function), BlackBox(function, rows_per_call=7), Linear(), RBF(1.0), Precomputed()):
        asked.clear()
        X = DenseRows(D @ D.T if isinstance(kernel, Precomputed) else D)
        K = KernelMatrix(kernel, X)
        K.block([1, 2, 3])
        K.block(np.arange(30))
        K.block([5, 5])
        assert K.evaluations == 35 * 30
        assert not isinstance(kernel, BlackBox) or sum(asked) == 35 * 30
    K = KernelMatrix(BlackBox(function), D)
    asked.clear()
    K.diagonal()
    assert K.evaluations == sum(asked) == 30


def test_a_precomputed_kernel_is_taken_as_it_is():
    table = np.arange(12.0).reshape(4, 3)
    K = KernelMatrix(Precomputed(), DenseRows(table))
    assert K.shape == (4, 3)
    np.testing.assert_array_equal(K.block([2, 0]), table[[2, 0]])
    assert pair(Precomputed(), DenseRows(table), 1, 2) == table[1, 2]
    np.testing.assert_array_equal(KernelMatrix(Precomputed(), DenseRows(table[:3])).diagonal(), [0, 4, 8])


@pytest.mark.parametrize(
    "convert", [np.asarray, sp.csr_matrix, sp.csc_array, lambda D: as_rows(D, "CSR float64 int64")[0]]
)
@pytest.mark.parametrize("rows_per_call", [1, 4])
def test_a_black_box_sees_the_rows_of_the_users_matrix(convert, rows_per_call):
    rng = np.random.default_rng(9)
    D = rng.standard_normal((12, 3))
    X = convert(D)
    kernel = BlackBox(lambda A, B: pairwise.rbf_kernel(A, B, 0.5), rows_per_call)
    K = KernelMatrix(kernel, X)
    np.testing.assert_allclose(K.block([7, 1, 1, 2, 0]), pairwise.rbf_kernel(D, gamma=0.5)[[7, 1, 1, 2, 0]], rtol=1e-12)
    np.testing.assert_allclose(K.diagonal(), 1.0)


def test_a_black_box_may_compare_things_that_are_not_numbers():
    words = np.array(["margin", "marginal", "kernel"], dtype=object)
    kernel = as_kernel(lambda A, B: np.array([[len(set(a) & set(b)) for b in B] for a in A]))
    np.testing.assert_array_equal(KernelMatrix(kernel, words).block([1, 2]), [[6, 7, 3], [2, 3, 5]])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: np.zeros((len(B), len(A))), r"shape \(1, 5\) for 1 rows against 5, got shape \(5, 1\)"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "must be finite"),
        (lambda A, B: np.full((len(A), len(B)), "a"), "must return real numbers"),
    ],
)
def test_a_black_box_that_returns_nonsense_is_told_so(function, message):
    with pytest.raises(ValueError, match=message):
        KernelMatrix(BlackBox(function), np.zeros((5, 2))).block([0, 1])


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


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda X, S: KernelMatrix("rbf", X), TypeError, "as_kernel makes one.*got 'rbf'"),
        (lambda X, S: KernelMatrix(RBF(1.0), X.values), TypeError, "X must be DenseRows or CSRRows, got ndarray"),
        (lambda X, S: KernelMatrix(RBF(1.0), X, S), TypeError, "X is DenseRows and Z is CSRRows"),
        (
            lambda X, S: KernelMatrix(RBF(1.0), X, DenseRows(np.ones((2, 4)))),
            ValueError,
            "X has 3 features and Z has 4",
        ),
        (lambda X, S: KernelMatrix(RBF(1.0), DenseRows(np.ones((2, 3), int))), TypeError, "float32 or float64.*int64"),
        (lambda X, S: KernelMatrix(RBF(1.0), DenseRows(X.values.T)), ValueError, "X must be C-ordered"),
        (lambda X, S: KernelMatrix(RBF(1.0), X, dtype=int), ValueError, "dtype must be float32 or float64"),
        (lambda X, S: KernelMatrix(RBF(1.0), X, threads=0), ValueError, "threads must be an integer >= 1, got 0"),
        (lambda X, S: KernelMatrix(Precomputed(), S), TypeError, "must be a dense matrix"),
        (lambda X, S: KernelMatrix(Precomputed(), X, X), ValueError, "leave Z out"),
        (lambda X, S: KernelMatrix(Precomputed(), X).diagonal(), ValueError, r"square matrix, got shape \(5, 3\)"),
        (lambda X, S: KernelMatrix(RBF(1.0), X).block([5]), IndexError, "row 5 does not exist: the matrix has 5 rows"),
        (lambda X, S: KernelMatrix(RBF(1.0), X).block([-1]), IndexError, "row -1 does not exist"),
        (lambda X, S: KernelMatrix(RBF(1.0), X).block([0.5]), TypeError, "list of integers, got float64"),
        (lambda X, S: KernelMatrix(RBF(1.0), X).block([0], np.empty((1, 4))), ValueError, r"shape \(1, 5\), got"),
        (lambda X, S: BlackBox("f"), TypeError, "must be a function f.A, B., got 'f'"),
        (lambda X, S: BlackBox(len, 0), ValueError, "rows_per_call must be an integer >= 1, got 0"),
    ],
)
def test_a_matrix_that_cannot_be_is_refused_in_a_sentence(build, error, message):
    D = np.arange(15.0).reshape(5, 3)
    with pytest.raises(error, match=message):
        build(DenseRows(D), as_rows(D, "CSR float64 int64")[0])


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


@compiled
def _exp_of(x, out):
    for i in range(x.size):
        out[i] = exp(x[i])


@pytest.mark.parametrize(
    ("dtype", "low", "high", "limit"), [(np.float32, -87, 88, 2e-7), (np.float64, -708, 709, 1e-15)]
)
def test_exp_is_accurate_over_its_range(dtype, low, high, limit):
    x = np.concatenate([np.linspace(low, high, 100_003), np.linspace(-1, 1, 10_001)]).astype(dtype)
    out = np.empty_like(x)
    _exp_of(x, out)
    truth = np.exp(x.astype(np.longdouble))
    assert np.max(np.abs(out - truth) / truth) <= limit
    ends = np.tile(np.array([-np.inf, -1e30, -800, 0, -0.0, 1e30, np.inf, np.nan], dtype), 9)
    out = np.empty_like(ends)
    _exp_of(ends, out)
    np.testing.assert_array_equal(out, np.tile(np.array([0, 0, 0, 1, 1, np.inf, np.inf, np.nan], dtype), 9))
