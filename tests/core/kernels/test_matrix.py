"""Kernel matrices against scikit-learn, against single pairs, and as far as numbers go."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from reference.kernels import (
    COMBINATIONS,
    EXAMPLES,
    LAYOUTS,
    REFERENCES,
    USUAL,
    as_rows,
    every_combination,
    few,
    matrices,
    tolerance,
)
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.kernels import matrix as kernel_matrix
from widemargin.core.kernels import measures
from widemargin.core.kernels.kernels import (
    RBF,
    BlackBox,
    Laplacian,
    Linear,
    Precomputed,
    as_kernel,
    between,
    resolve_gamma,
)
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.kernels.tiles import DEPTH
from widemargin.core.rows import rows as layouts
from widemargin.core.rows.rows import DenseRows


@compiled
def pair(kernel, X, i, j):
    """k(xᵢ, xⱼ) in float64."""
    return between(kernel, X, i, X, j)


#: Sparse rows with many entries stand in tiles, which know nothing of indices, nor do kernels of the rows that inner
#: products come from: that loop is compiled for others.
NARROW = [("rbf", "CSR float64 int64"), ("poly", "CSR float64 int32")]


@every_combination
@few
@given(D=matrices())
def test_a_block_equals_the_pairs_and_scikit_learn(name, layout, D):
    kernel = EXAMPLES[name]
    X, A = as_rows(D[:, :31] if (name, layout) in NARROW else D, layout)
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
def test_columns_may_be_other_rows_than_the_data(name, layout):
    rng = np.random.default_rng(1)
    (X, A), (Z, B) = as_rows(rng.standard_normal((30, 9)), layout), as_rows(rng.standard_normal((200, 9)), layout)
    K = KernelMatrix(EXAMPLES[name], X, Z)
    assert K.shape == (30, 200)
    I = [4, 29, 0]
    limit = tolerance(EXAMPLES[name], A[I], B, np.finfo(K.dtype).eps)
    assert (np.abs(K.block(I) - REFERENCES[name](EXAMPLES[name], A[I], B)) <= limit).all()


@pytest.mark.parametrize("layout", ["dense {}", "CSR {} int32"])
def test_rows_and_columns_may_have_different_precision(layout):
    rng = np.random.default_rng(1)
    (X, A), (Z, B) = (as_rows(rng.standard_normal((20, 9)), layout.format(dtype)) for dtype in ("float64", "float32"))
    K = KernelMatrix(RBF(0.1), X, Z)
    assert K.dtype == np.float32
    np.testing.assert_array_equal(KernelMatrix(RBF(0.1), Z).facing(X).block(range(20)), K.block(range(20)))
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


@pytest.mark.parametrize(
    ("layout", "gamma"),
    [
        # beyond float32 sums are in float64, which differences of 1e30 need not be where γ is that small
        *(("dense float32", gamma) for gamma in (0.0, 1e-55)),
        *((layout, gamma) for layout in ("dense float64", "CSR float64 int32") for gamma in (0.0, 1.0)),
    ],
)
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


@pytest.mark.parametrize("layout", USUAL)
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


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1.0, 1e18, 1e25])
def test_the_largest_size_of_float32_rows_is_right_where_their_squares_leave_float32(scale, rng):
    X = (scale * rng.uniform(0.5, 1.0, (600, 5))).astype(np.float32)
    own = np.sum(X.astype(np.float64) ** 2, axis=1)
    assert measures.largest_size(measures.Squared(), layouts.as_rows(X)) == pytest.approx(own.max(), rel=1e-5)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("measure", [measures.Squared(), measures.Absolute()])
def test_the_largest_size_is_that_of_all_rows_in_whichever_blocks(layout, measure, rng, monkeypatch):
    monkeypatch.setattr(measures, "SOME_ENTRIES", 40)
    X = rng.normal(size=(37, 6)) * rng.exponential(size=(37, 1)) * (rng.random((37, 6)) < 0.5)
    X[rng.integers(37, size=5)] = 0.0  # rows of nothing
    own = (X**2 if isinstance(measure, measures.Squared) else np.abs(X)).sum(axis=1)
    rows = layouts.as_rows(layout(X))
    found = measures.largest_size(measure, rows)
    assert found == pytest.approx(own.max(), rel=1e-12)
    assert all(measures.largest_size(measure, rows, threads) == found for threads in (2, 3, 50))


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_many_rows_are_filled_in_with_a_safe_place_before_each_few_of_them(layout, rng, monkeypatch):
    places = []
    monkeypatch.setattr(kernel_matrix, "safe_place", lambda: places.append(1))
    X = layouts.as_rows(layout(rng.normal(size=(500, 5))))
    whole, rows, order = KernelMatrix(RBF(0.3), X).block(np.arange(500)), rng.permutation(500), rng.permutation(500)
    assert len(places) == 1
    monkeypatch.setattr(kernel_matrix, "PROMPT", 1)
    matrix, filled = KernelMatrix(RBF(0.3), X), np.empty_like(whole)
    matrix.fill(rows, order, filled)
    np.testing.assert_array_equal(filled[order], whole[rows])
    assert matrix.evaluations == 500**2
    assert len(places) > 4


@pytest.mark.parametrize("shape", [(40, 2000), (300, 150), (33, 450)])  # by columns, by rows, unevenly
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_threads_change_no_bit(layout, shape, rng, monkeypatch):
    monkeypatch.setattr(kernel_matrix, "WORTH_A_THREAD", 1)
    rows, columns = shape
    X, Z = layouts.as_rows(layout(rng.normal(size=(rows, 5)))), layouts.as_rows(layout(rng.normal(size=(columns, 5))))
    one, two, three = (KernelMatrix(RBF(0.3), X, Z, threads=threads).block(np.arange(rows)) for threads in (1, 2, 3))
    assert np.array_equal(one, two)
    assert np.array_equal(one, three)


@pytest.mark.parametrize(("entries", "gamma"), [(40, 0.02), (DEPTH, 0.004), (40, 4.0)])
def test_short_sparse_rows_are_summed_in_float32_as_precisely_as_they_may(entries, gamma, rng):
    """Each of s terms adds at most u of a partial sum of ⟨x, z⟩ ≤ ‖x‖‖z‖, and so do sizes; γ times that moves a value.

    Not where γ‖z‖² is beyond 0.05/√ε, nor where a row is longer and does not stand in tiles.
    """
    d, n = 6 * entries, 50
    D = rng.uniform(0.5, 1.5, (n, d)).astype(np.float32)
    D[np.argsort(rng.random((n, d)), axis=1) >= entries] = 0.0
    norms = (D.astype(np.float64) ** 2).sum(1)
    precise = gamma * norms.max() <= 0.05 / np.sqrt(np.finfo(np.float32).eps)
    K = KernelMatrix(RBF(gamma), layouts.as_rows(sp.csr_matrix(D)))
    assert K.recipe.z_size.dtype == (np.float32 if precise else np.float64)
    exact = np.exp(-gamma * cdist(D.astype(np.float64), D.astype(np.float64), "sqeuclidean"))
    u, moved = 2.0**-24, np.abs(K.block(np.arange(n)) - exact)
    assert (moved <= 4.0 * u * (1.0 + gamma * (entries + 4.0) * np.sqrt(np.outer(norms, norms)))).all()
    # roundings are as good as independent: the root of as many terms, on the average
    assert np.sqrt(np.mean(moved**2)) <= u * (1.0 + gamma * np.sqrt(entries) * norms.mean())
    D[0, :] = 1.0  # longer than the others
    wider = sp.csr_matrix(np.hstack([D, np.zeros((n, 14 * entries), np.float32)]))  # too wide for tiles
    longer = KernelMatrix(RBF(gamma / 100), layouts.as_rows(wider))
    assert longer.recipe.z_size.dtype == (np.float32 if d <= DEPTH else np.float64)
    wide = KernelMatrix(RBF(gamma / 100), layouts.as_rows(sp.csr_matrix(D)), dtype=np.float64)
    assert wide.recipe.z_size.dtype == np.float64
