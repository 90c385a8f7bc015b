"""Rows: the primitives equal NumPy in every layout, and the door copies only what it must."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from widemargin.core.compiling.dispatch import compiled
from widemargin.core.rows import rows
from widemargin.core.rows.rows import CSRRows, DenseRows, as_matrix, as_rows, take_rows

LAYOUTS = ["dense", "csr"]


def sparse_matrix(rng, n, d, dtype):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    X[n // 2] = 0.0  # a row without entries
    return X.astype(dtype)


def wrapped(X, layout, index=np.int32):
    """The same matrix as rows over fresh arrays."""
    if layout == "dense":
        return DenseRows(X.copy())
    csr = sp.csr_matrix(X)
    return CSRRows(csr.data, csr.indices.astype(index), csr.indptr.astype(index), X.shape[1])


def locked(X, layout, folder=None):
    """The same matrix as rows over read-only arrays, or over memory maps of files in a folder, as the door has them."""
    csr = sp.csr_matrix(X)
    arrays = [X.copy()] if layout == "dense" else [csr.data, csr.indices, csr.indptr]
    for number, array in enumerate(arrays):
        if folder is None:
            array.flags.writeable = False
        else:
            np.save(folder / f"{number}.npy", array)
            arrays[number] = np.load(folder / f"{number}.npy", mmap_mode="r")
            assert isinstance(arrays[number], np.memmap)
    found = as_rows(arrays[0] if layout == "dense" else sp.csr_matrix(tuple(arrays), X.shape, copy=False))
    assert all(np.shares_memory(mine, array) for mine, array in zip(found, arrays))
    return found


@compiled
def _use_all(X, V, Z, sizes, norms2, G, A):
    """Every primitive on every row: scores into Z, sizes, squared norms, A += XᵀG."""
    order = np.arange(rows.n_rows(X))
    for i in range(rows.n_rows(X)):
        rows.prefetch_rows(X, order, i, order.size)
        rows.row_scores(X, i, V, Z[i])
        sizes[i] = rows.row_size(X, i)
        norms2[i] = rows.row_norm2(X, i)
        rows.row_add(X, i, G[i], A)


def check_all(X, matrix, outputs, rng):
    n, d = matrix.shape
    V = rng.normal(size=(d, outputs)).astype(matrix.dtype)
    G = rng.normal(size=(n, outputs))
    A = rng.normal(size=(d, outputs)).astype(matrix.dtype)
    expected = A + matrix.T.astype(float) @ G
    Z, sizes, norms2 = np.empty((n, outputs)), np.empty(n, np.int64), np.empty(n)
    _use_all(X, V, Z, sizes, norms2, G, A)
    rounding = d * np.finfo(matrix.dtype).eps  # of a sum of d terms of size about 1
    np.testing.assert_allclose(Z, matrix.astype(float) @ V, rtol=rounding, atol=10 * rounding)
    np.testing.assert_allclose(norms2, np.square(matrix, dtype=np.float64).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(A, expected, rtol=n * rounding, atol=10 * n * rounding)
    stored = np.full(n, d) if isinstance(X, DenseRows) else np.count_nonzero(matrix, axis=1)
    np.testing.assert_array_equal(sizes, stored)


#: Each is compiled anew.
COMBINATIONS = [
    *(("dense", None, dtype) for dtype in (np.float32, np.float64)),
    *(("csr", index, dtype) for index, dtype in ((np.int32, np.float64), (np.int64, np.float32))),
]


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(("layout", "index", "dtype"), COMBINATIONS)
def test_compiled_primitives_equal_numpy(layout, index, dtype, outputs, rng):
    matrix = sparse_matrix(rng, 30, 17, dtype)
    check_all(wrapped(matrix, layout, index), matrix, outputs, rng)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_read_only_arrays_and_memory_maps_are_rows_like_any_other(layout, mapped, tmp_path, rng):
    """Nothing is compiled for them either: read-only arrays are types of their own to Numba."""
    matrix = sparse_matrix(rng, 30, 17, np.float64)
    found = locked(matrix, layout, tmp_path if mapped else None)
    assert numba.typeof(found) == numba.typeof(wrapped(matrix, layout))
    check_all(found, matrix, 3, rng)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=30)
@given(
    matrix=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.sampled_from([0.0, 0.0, 1.0, -2.5, 1e-3]),
    ),
    outputs=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_primitives_equal_numpy_for_any_shape(layout, matrix, outputs, seed):
    check_all(wrapped(matrix, layout), matrix, outputs, np.random.default_rng(seed))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_norms_of_float32_rows_are_summed_in_float64(layout):
    matrix = np.full((2, 4), 1e30, np.float32)  # whose squares overflow float32
    out = np.empty(2)
    rows.row_norms2(wrapped(matrix, layout), out)
    np.testing.assert_allclose(out, 4e60, rtol=1e-6)  # 1e30 is rounded to float32


# ---------------------------------------------------------------- at the door


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_canonical_dense_matrix_is_not_copied(dtype, rng):
    X = rng.normal(size=(5, 4)).astype(dtype)
    X.flags.writeable = False
    wrap = as_rows(X)
    assert np.shares_memory(wrap.values, X)
    assert rows.dtype_of(wrap) == dtype
    assert rows.shape(wrap) == (5, 4)
    assert np.shares_memory(as_matrix(wrap), X)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_canonical_csr_matrix_is_not_copied(dtype, container, rng):
    X = container(sparse_matrix(rng, 8, 6, dtype))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    wrap = as_rows(X)
    for mine, theirs in ((wrap.data, X.data), (wrap.indices, X.indices), (wrap.indptr, X.indptr)):
        assert np.shares_memory(mine, theirs)
        assert not theirs.flags.writeable
    assert rows.dtype_of(wrap) == dtype
    assert rows.shape(wrap) == (8, 6)
    back = as_matrix(wrap)
    assert np.shares_memory(back.data, X.data)
    np.testing.assert_array_equal(back.toarray(), X.toarray())


@pytest.mark.parametrize(("width", "index"), [(2**31 - 1, np.int32), (2**31, np.int64)])
def test_indices_have_64_bits_only_where_32_do_not_do(width, index):
    entries, columns = np.ones(3), np.array([0, 5, width - 1])
    X = sp.csr_array((entries, columns.astype(np.int64), np.array([0, 1, 3], np.int64)), shape=(2, width))
    wrap = as_rows(X)
    assert (wrap.indices.dtype, wrap.indptr.dtype) == (index, np.int32)
    np.testing.assert_array_equal(wrap.indices, columns)
    assert X.indices.dtype == np.int64


def test_a_view_that_counts_as_writable_keeps_the_memory_alive(rng):
    X = rng.normal(size=1000)
    expected = X.copy()
    X.flags.writeable = False
    view = rows.unlocked(X)
    assert view.flags.writeable
    assert not X.flags.writeable
    del X
    np.testing.assert_array_equal(view, expected)
    assert rows.unlocked(view) is view


def _not_canonical(rng):
    dense = sparse_matrix(rng, 7, 5, np.float64)
    whole = np.rint(10 * dense)
    csr = sp.csr_matrix(dense)
    doubled = sp.csr_matrix((np.repeat(csr.data, 2) / 2, np.repeat(csr.indices, 2), csr.indptr * 2), shape=csr.shape)
    unsorted = csr.copy()
    for i in range(7):
        part = slice(csr.indptr[i], csr.indptr[i + 1])
        unsorted.indices[part], unsorted.data[part] = csr.indices[part][::-1], csr.data[part][::-1]
    unsorted.has_sorted_indices = False
    return {
        "Fortran order": (np.asfortranarray(dense), dense),
        "a view with strides": (np.repeat(dense, 2, axis=1)[:, ::2], dense),
        "integers": (whole.astype(np.int32), whole),
        "booleans": (whole > 0, (whole > 0).astype(float)),
        "float16": (whole.astype(np.float16), whole),
        "the other byte order": (dense.astype(">f8"), dense),
        "CSC": (sp.csc_matrix(dense), dense),
        "COO": (sp.coo_array(dense), dense),
        "CSR of integers": (sp.csr_matrix(whole.astype(np.int64)), whole),
        "CSR with duplicate entries": (doubled, dense),
        "CSR with unsorted columns": (unsorted, dense),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_begin_between_two_places_are_moved(dtype, rng):
    X = rng.normal(size=(5, 3)).astype(dtype)
    room = np.zeros(X.nbytes + 8, np.uint8)
    odd = room[1 : 1 + X.nbytes].view(dtype).reshape(X.shape)
    odd[:] = X
    assert not odd.flags.aligned
    dense, sparse = as_rows(odd), sp.csr_matrix(X)
    sparse.data = odd.ravel()
    for values in (dense.values, as_rows(sparse).data):
        assert values.flags.aligned
        np.testing.assert_array_equal(values.ravel(), X.ravel())


@pytest.mark.parametrize("what", list(_not_canonical(np.random.default_rng(0))))
def test_anything_else_becomes_canonical_and_is_left_as_it_was(what, rng):
    X, expected = _not_canonical(rng)[what]
    before = X.copy()
    wrap = as_rows(X)
    if isinstance(wrap, DenseRows):
        assert wrap.values.flags.c_contiguous
        assert wrap.values.dtype.isnative
        np.testing.assert_array_equal(X, before)
        np.testing.assert_array_equal(wrap.values, expected)
    else:
        assert as_matrix(wrap).has_canonical_format
        np.testing.assert_array_equal(X.toarray(), before.toarray())
        if hasattr(X, "indices"):
            np.testing.assert_array_equal(X.indices, before.indices)
            np.testing.assert_array_equal(X.data, before.data)
        # halves of duplicate entries add up exactly
        np.testing.assert_array_equal(as_matrix(wrap).toarray(), expected)
        assert wrap.indices.dtype in (np.int32, np.int64)
    assert rows.dtype_of(wrap) == np.float64


@pytest.mark.parametrize("layout", LAYOUTS)
def test_taken_rows_are_a_copy_in_the_order_asked_for(layout, rng):
    matrix = sparse_matrix(rng, 9, 4, np.float64)
    X, chosen = wrapped(matrix, layout), np.array([5, 0, 5, 8])
    taken = take_rows(X, chosen)
    assert type(taken) is type(X)
    got = as_matrix(taken)
    np.testing.assert_array_equal(got if layout == "dense" else got.toarray(), matrix[chosen])
    for mine, theirs in zip(taken, X):
        if isinstance(mine, np.ndarray):
            assert not np.shares_memory(mine, theirs)


@compiled
def _dots_and_norms(X, V, U, nothing, dots, own, norms2, along, fused):
    for i in range(rows.n_rows(X)):
        dots[i], own[i] = rows.row_dot(X, i, V, 1.0), rows.row_dot(X, i, V, V.dtype.type(1))
        norms2[i], along[i] = rows.row_norm2(X, i), rows.row_along(X, i, U)
        fused[0, i] = rows.row_along(X, i, nothing)
        if rows.is_short(X, i):
            fused[1, i], fused[2, i], fused[3, i] = rows.short_row_dots(X, i, V, U)
            fused[4, i], fused[0, i], fused[5, i] = rows.short_row_dots(X, i, V, nothing)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_inner_products_of_rows_of_any_length(layout, rng):
    """Short rows are read one by one, with several sums; what is left over counts as well."""
    lengths = np.array([*range(10), 63, 126, 127, 128, 129, 300])
    matrix = np.zeros((len(lengths), 400), np.float32)
    for row, length in zip(matrix, lengths, strict=True):
        row[rng.permutation(400)[:length]] = rng.normal(size=length)
    exact = matrix.astype(float)
    for dtype in (np.float64, np.float32):
        V, U = rng.normal(size=(2, 400, 1)).astype(dtype)
        dots, own, norms2, along = np.full((4, len(lengths)), np.nan)
        fused = np.full((6, len(lengths)), np.nan)
        _dots_and_norms(wrapped(matrix, layout), V, U, U[:0], dots, own, norms2, along, fused)
        np.testing.assert_allclose(dots, exact @ V[:, 0], rtol=1e-12, atol=1e-12)  # the unit is a float64
        rounding = 400 * np.finfo(dtype).eps  # of a sum of terms of size about 1
        for each, by in ((own, V), (along, U)):
            np.testing.assert_allclose(each, exact @ by[:, 0], rtol=rounding, atol=rounding)
        np.testing.assert_allclose(norms2, np.square(exact).sum(axis=1), rtol=1e-13)
        np.testing.assert_array_equal(fused[0], 0.0)
        # short sparse rows in one loop: a state that was let go visits rows as if for the first time, to the same bits
        short = lengths < (rows.SHORT_ROW if layout == "csr" else 0)
        for first, last in ((1, 3), (4, 5)):
            np.testing.assert_array_equal(fused[first, short], own[short])
            np.testing.assert_allclose(fused[last, short], norms2[short], rtol=1e-13)
        np.testing.assert_allclose(fused[2, short], along[short], rtol=rounding, atol=rounding)
        assert np.isnan(fused[1:, ~short]).all()
