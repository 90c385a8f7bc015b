"""The row cache: its rows are the matrix's rows, the least recently used give way, and the bytes are kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widemargin.core.kernels.cache import LEAST_ROWS, RowCache
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.rows.rows import DenseRows


def matrix(n=60, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)
    return KernelMatrix(RBF(0.5), DenseRows(X), dtype=np.float32)


def cache_of(rows, n=60):
    """A cache that holds so many rows."""
    for affordable in range(1, 3 * n):
        cache = RowCache(matrix(n), 4 * n * affordable)
        if cache.capacity >= rows:
            return cache
    raise AssertionError(f"no cache of {rows} rows")


@given(st.integers(1, 80), st.lists(st.sets(st.integers(0, 59), min_size=1, max_size=LEAST_ROWS), max_size=12))
@settings(max_examples=60)
def test_rows_are_the_matrix_rows_and_hits_and_misses_are_counted(affordable, fetches):
    cache = RowCache(matrix(), 4 * 60 * affordable)
    whole = matrix().block(np.arange(60))
    used = {}  # row → time of last use
    hits = misses = 0
    for time, wanted in enumerate(fetches):
        wanted = np.array(sorted(wanted))
        found = cache.slot_of[wanted] >= 0
        slots = cache.fetch(wanted)
        np.testing.assert_array_equal(cache.rows[slots], whole[wanted])
        np.testing.assert_array_equal(cache.slot_of[wanted], slots)
        assert np.unique(slots).size == wanted.size
        np.testing.assert_array_equal(found, [row in used for row in wanted])
        hits, misses = hits + found.sum(), misses + (~found).sum()
        assert (cache.hits, cache.misses) == (hits, misses)
        # exactly the most recently used rows are still there; within one fetch all are equally recent
        used.update(dict.fromkeys(wanted.tolist(), time))
        held = set(np.flatnonzero(cache.slot_of >= 0).tolist())
        assert len(held) == min(len(used), cache.capacity)
        assert min(used[row] for row in held) >= max((used[row] for row in used if row not in held), default=-1)
        used = {row: used[row] for row in held}
    assert cache.matrix.evaluations == 60 * cache.misses


def test_the_least_recently_used_row_gives_way():
    cache = cache_of(LEAST_ROWS)
    assert cache.capacity == LEAST_ROWS
    for row in range(LEAST_ROWS):
        cache.fetch(np.array([row]))
    cache.fetch(np.array([0]))  # row 0 is fresh again, row 1 is the oldest
    cache.fetch(np.array([40]))
    np.testing.assert_array_equal(cache.slot_of[[0, 1, 2, 40]] >= 0, [True, False, True, True])


def test_a_fetch_never_drops_a_row_it_asks_for():
    cache = cache_of(LEAST_ROWS)
    cache.fetch(np.arange(LEAST_ROWS))
    wanted = np.concatenate([np.arange(4), np.arange(30, 30 + LEAST_ROWS - 4)])
    slots = cache.fetch(wanted)
    np.testing.assert_array_equal(cache.rows[slots], matrix().block(wanted))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9, 1.0, 3.0])
def test_the_bytes_are_within_a_tenth_of_what_was_asked(share):
    n = 2000
    asked = share * 4 * n * n
    cache = RowCache(matrix(n), asked)
    assert cache.rows.nbytes <= 1.1 * asked
    if share <= 0.9:
        assert cache.rows.nbytes >= 0.9 * asked
    else:
        assert cache.capacity == n


@pytest.mark.parametrize("n_bytes", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("n", [1, 5, 60])
def test_a_tiny_cache_still_holds_a_few_rows(n_bytes, n):
    cache = RowCache(matrix(n), n_bytes)
    wanted = np.arange(min(n, LEAST_ROWS))
    slots = cache.fetch(wanted)
    np.testing.assert_array_equal(cache.rows[slots], matrix(n).block(wanted))
    assert cache.capacity == min(n, LEAST_ROWS)


def test_asking_for_nothing_computes_nothing():
    cache = cache_of(LEAST_ROWS)
    assert cache.fetch(np.empty(0, np.int64)).size == 0
    assert (cache.hits, cache.misses, cache.matrix.evaluations) == (0, 0, 0)


def test_rows_that_could_not_be_computed_are_not_held():
    cache = cache_of(LEAST_ROWS)
    cache.fetch(np.arange(3))
    cache.matrix = None
    with pytest.raises(AttributeError):
        cache.fetch(np.array([2, 30, 31]))
    np.testing.assert_array_equal(np.flatnonzero(cache.slot_of >= 0), np.arange(3))


def test_parts_of_a_cache_are_parts_of_its_matrix_and_share_its_rows():
    cache = cache_of(LEAST_ROWS)
    whole = matrix().block(np.arange(60))
    rows, columns = np.arange(20, 50), np.array([3, 1, 40])
    part, other = cache.part(rows, columns), cache.part(rows[:5], rows)
    np.testing.assert_array_equal(part.block(np.arange(30)), whole[np.ix_(rows, columns)])
    assert part.evaluations == 30 * 60
    part.block(np.arange(5))
    before = cache.misses
    np.testing.assert_array_equal(other.block(np.arange(5)), whole[np.ix_(rows[:5], rows)])
    assert (other.evaluations, cache.misses) == (0, before)
    np.testing.assert_array_equal(part.diagonal(), np.ones(30))
