"""Tiles: how rows are grouped, packed or shared out to threads never changes a bit of a kernel value."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise

from reference.kernels import EXAMPLES, USUAL, as_rows, every_combination
from widemargin.core.kernels import matrix as kernel_matrix
from widemargin.core.kernels.kernels import RBF, Linear
from widemargin.core.kernels.matrix import PER_ENTRY, KernelMatrix
from widemargin.core.kernels.measures import Inner, Squared
from widemargin.core.kernels.tiles import (
    AHEAD,
    BESIDE,
    CHUNK,
    DEPTH,
    HEIGHT,
    LANES,
    TILE_ENTRIES,
    Packed,
    PairByPair,
    Scattered,
    compute_rows,
    group_of,
    pack,
    write_group,
)
from widemargin.core.rows import rows as layouts
from widemargin.core.rows.rows import CSRRows, DenseRows


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


@pytest.mark.parametrize(
    ("d", "name", "layout"),
    [
        *itertools.product([1, 7], ["rbf", "laplacian"], USUAL),
        # these are long enough for tiles if they are sparse, which is a loop in each precision: of one kernel in both
        *((300, "rbf", layout) for layout in USUAL),
        *((300, "laplacian", layout) for layout in USUAL if layout != "CSR float64 int32"),
    ],
)
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


@pytest.mark.parametrize(
    ("kernel", "layout", "recipe"),
    [
        (RBF(0.1), "dense float32", Packed),
        (RBF(0.1), "CSR float32 int32", Scattered),
        (RBF(1e12), "CSR float64 int32", PairByPair),
    ],
)
def test_columns_that_another_thread_has_taken_are_left_to_it(kernel, layout, recipe, rng):
    X, _ = as_rows(rng.standard_normal((3 * CHUNK + 5, 7)), layout)
    K = KernelMatrix(kernel, X)
    assert isinstance(K.recipe, recipe)
    I, out = np.arange(HEIGHT + 1), np.full((HEIGHT + 1, 3 * CHUNK + 5), np.nan, K.dtype)
    compute_rows(K.recipe, I, I, np.full(len(I), 2), 3 * CHUNK + 5, out)
    assert np.isnan(out[:, : 2 * CHUNK]).all()
    np.testing.assert_array_equal(out[:, 2 * CHUNK :], K.block(I)[:, 2 * CHUNK :])


@pytest.mark.parametrize("layout", ["dense float32", "CSR float64 int64"])
def test_threads_do_not_change_a_bit(layout):
    rng = np.random.default_rng(0)
    X, _ = as_rows(rng.standard_normal((900, 40)) * (rng.random((900, 40)) < 0.7), layout)
    one, three = (KernelMatrix(EXAMPLES["rbf"], X, threads=threads) for threads in (1, 3))
    I = np.arange(900)
    assert len(I) * 900 * 20 > 3 * kernel_matrix.WORTH_A_THREAD  # enough work to be shared out
    np.testing.assert_array_equal(one.block(I), three.block(I))


def pictures(rng, rows=150, width=700):
    """Rows with an empty margin, features that few of them have, and one row of nothing, in float32."""
    often = np.where(rng.random(width) < 0.4, 0.9, 0.02) * (np.arange(width) % 100 < 70)
    D = rng.random((rows, width)) * (rng.random((rows, width)) < often)
    D[rows // 2] = 0.0
    return D.astype(np.float32)


@pytest.mark.parametrize("m", [1, 16, 17, 31, 33, 100])
@pytest.mark.parametrize("layout", ["dense float32", "CSR float32 int32"])
def test_tiles_are_the_same_whoever_writes_them(layout, m, rng, monkeypatch):
    monkeypatch.setattr(kernel_matrix, "WORTH_A_THREAD", 1)
    X, _ = as_rows(rng.standard_normal((m, 80)) / 9.0, layout)
    one, *more = (KernelMatrix(EXAMPLES["rbf"], X, threads=threads).recipe for threads in (1, 2, 3, 16))
    assert isinstance(one, Packed)
    for other in more:
        np.testing.assert_array_equal(other.tiles, one.tiles)
        np.testing.assert_array_equal(other.z_size, one.z_size)


@pytest.mark.parametrize("width", [1, 5, 80])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 47, 100])
def test_tiles_hold_the_rows_and_zeros_behind_the_last_one(n, width, rng):
    rows = rng.normal(size=(n + 1, width)).astype(np.float32)  # one more stands in memory
    tiles = np.full((-(-n // LANES), width, LANES), np.nan, np.float32)
    pack(DenseRows(rows[:n]), tiles)
    found = tiles.transpose(0, 2, 1).reshape(-1, width)
    np.testing.assert_array_equal(found[:n], rows[:n])
    np.testing.assert_array_equal(found[n:], 0.0)


@pytest.mark.parametrize("measure", [Inner(), Squared()])
def test_the_features_of_a_group_are_listed_stretch_by_stretch_and_those_that_come_next_behind_them(measure, rng):
    width, few, rows = 2 * DEPTH + 40, 4, 10
    D = rng.normal(size=(20, width)) * (rng.random(width) < 0.3) * (rng.random((20, width)) < 0.5)
    I, stretches = rng.permutation(20)[:rows], 3
    V, listed = np.full((6, width, few), np.nan), np.full((6 * stretches, 2 + DEPTH + AHEAD), -1)
    write_group(measure, DenseRows(D), I, 0, rows, V, 3, listed, np.empty(width), np.empty(width))
    for s in range(stretches):
        features = np.arange(s * DEPTH, min((s + 1) * DEPTH, width))
        if isinstance(measure, Inner):
            features = features[D[I][:, features].any(axis=0)]
        start, end, *places = listed[3 * stretches + s]
        assert (start, end) == (s * DEPTH, s * DEPTH + features.size)
        np.testing.assert_array_equal(places[: features.size], features * LANES)
        # while the last ones are summed, the first of the tiles beside come near
        ahead = min(AHEAD, features.size)
        behind = places[features.size : features.size + ahead]
        np.testing.assert_array_equal(behind, (features[:ahead] + BESIDE * width) * LANES)
        for r in range(rows):
            np.testing.assert_array_equal(V[3 + r // few, start:end, r % few], D[I[r], features])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_that_no_row_of_a_group_has_are_left_out_of_its_sums_and_change_no_bit(dtype, rng):
    """Where all features count, as in a group that has them all, the sums have the same bits."""
    D = pictures(rng).astype(dtype)
    K = KernelMatrix(RBF(0.02), as_rows(D, f"dense {np.dtype(dtype).name}")[0])
    whole = K.block(np.arange(150))
    np.testing.assert_allclose(whole, pairwise.rbf_kernel(D.astype(np.float64), gamma=0.02), atol=1e-6)
    D[149] = 1.0
    full = KernelMatrix(RBF(0.02), as_rows(D, f"dense {np.dtype(dtype).name}")[0])
    for i in (0, 7, 75, 148):
        np.testing.assert_array_equal(full.block([i, 149])[0, :149], whole[i, :149])
        np.testing.assert_array_equal(K.block([i])[0], whole[i])


def test_sparse_rows_that_share_their_features_stand_in_tiles_and_have_the_bits_of_dense_ones(rng):
    D = pictures(rng)
    dense, sparse = (KernelMatrix(RBF(0.02), as_rows(D, name)[0]) for name in ("dense float32", "CSR float32 int32"))
    assert isinstance(sparse.recipe, Packed)
    I = np.arange(150)
    np.testing.assert_array_equal(sparse.block(I), dense.block(I))
    few, _ = as_rows(D[:20], "CSR float32 int32")
    np.testing.assert_array_equal(sparse.facing(few).block(I[:20]), dense.block(I[:20]))


@pytest.mark.parametrize(("width", "entries"), [(80, 10), (700, 100), (20_000, 100)])
def test_sparse_rows_that_are_short_or_share_little_are_compared_by_their_entries(width, entries, rng):
    """Tiles would gain nothing, take more terms, or more memory than eight times that of the data."""
    S = sp.random(60, width, density=entries / width, format="csr", dtype=np.float32, rng=rng)
    assert isinstance(KernelMatrix(RBF(0.02), layouts.as_rows(S)).recipe, Scattered)


def test_tiles_pay_sooner_where_long_rows_would_need_sums_in_float64(rng):
    """A group of rows has 1.5 PER_ENTRY times as many features as a row has entries: too many if all rows are short."""
    group, entries = group_of(4), 100
    common = round((group * entries - 1.5 * PER_ENTRY * entries) / (group - 1))
    own = entries - common
    D = np.zeros((4 * group, common + group * own + DEPTH + 1), np.float32)
    D[:, :common] = 0.1
    for i in range(len(D)):
        first = common + i % group * own
        D[i, first : first + own] = rng.uniform(0.1, 0.2, own)
    assert isinstance(KernelMatrix(RBF(0.02), layouts.as_rows(sp.csr_matrix(D))).recipe, Scattered)
    D[0, -DEPTH - 1 :] = 0.1
    K = KernelMatrix(RBF(0.02), layouts.as_rows(sp.csr_matrix(D)))
    assert isinstance(K.recipe, Packed)
    assert K.recipe.z_size.dtype == np.float32


@pytest.mark.parametrize(
    ("width", "entries", "kernel", "recipe"),
    [(50, 40, RBF(0.02), Scattered), (1_500, 100, RBF(0.02), Packed), (1_700, 100, RBF(0.02), Scattered),
     (700, 100, Linear(), Packed), (1_500, 100, Linear(), Scattered)],
)  # fmt: skip
def test_tiles_of_sparse_rows_take_at_most_eight_times_their_memory(width, entries, kernel, recipe, rng):
    """All rows have the same features, so that only their number and the width matter."""
    D = np.zeros((30, width), np.float32)
    D[:, :entries] = rng.uniform(0.5, 1.0, (30, entries))
    K = KernelMatrix(kernel, layouts.as_rows(sp.csr_matrix(D)))
    assert isinstance(K.recipe, recipe)
    if recipe is Packed:
        assert K.recipe.tiles.nbytes <= 8.0 * 32 * entries * 8


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
    assert S.nnz > 3 * TILE_ENTRIES
    K = KernelMatrix(RBF(1e-4), X)
    whole = K.block(range(36))
    np.testing.assert_allclose(whole, pairwise.rbf_kernel(S, S, 1e-4), atol=1e-6)
    np.testing.assert_array_equal(K.block([30, 2, 35]), whole[[30, 2, 35]])
