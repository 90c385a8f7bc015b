"""The parts of a round: pairs that move, rows that are added, places in a working set and the values between them."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from reference import smo as textbook
from widemargin.core.compiling.dispatch import compiled
from widemargin.solvers.smo import rounds
from widemargin.solvers.smo.rounds import use_again

solve_pairs = compiled(rounds.solve_pairs)


@given(st.integers(0, 2**32 - 1), st.sampled_from([63, 64, 65, 128, 200]), st.integers(0, 15))
@settings(max_examples=60)
def test_the_pairs_that_move_are_the_textbook_s_however_many_variables_there_are(seed, m, most):
    rng = np.random.default_rng(seed)
    K = np.exp(-cdist(*2 * [rng.normal(size=(m, 3))], "sqeuclidean")).astype(np.float32)
    h, cap = np.round(rng.normal(size=m)), rng.uniform(0.1, 1.0, m)  # of equal ones the first counts
    sigma = np.where(np.arange(m) % 2, 1.0, -1.0)
    (alpha, e), (expected, responses) = ((np.zeros(m), h.copy()) for _ in range(2))
    up, down, diagonal = np.empty(m), np.empty(m), K.diagonal().astype(np.float64)
    moved = solve_pairs(K, diagonal, sigma, cap, alpha, e, up, down, 0.0, most)
    assert moved == textbook.move_pairs(K, sigma, cap, expected, responses, most)
    np.testing.assert_allclose(alpha, expected, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(e, responses, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("n", [1, 17, 3001, 9000])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_all_columns_of_rows_are_added_once_by_however_many_threads(n, threads, rng, monkeypatch):
    """Whoever comes first may take all pieces."""
    shared = []

    def share(call, pieces):
        shared.append(len(pieces))
        for piece in pieces[::-1]:
            call(*piece)

    monkeypatch.setattr(rounds, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(rounds, "share", share)
    rows, slots, change = rng.random((9, n), np.float32), np.array([7, 0, 3, 8, 2]), rng.normal(size=5)
    change[2], f = 0.0, rng.normal(size=n)
    expected = f + change @ rows[slots].astype(float)
    rounds.add_kernel_rows(rows, slots, change, f, threads)
    np.testing.assert_allclose(f, expected, rtol=1e-12, atol=1e-12)
    assert shared == [threads]


@given(st.lists(st.sets(st.integers(0, 11), min_size=1, max_size=4), max_size=30), st.integers(4, 12))
@settings(max_examples=60)
def test_rows_used_again_are_those_that_a_cache_has_let_go(uses_of_rounds, capacity):
    """Beside a list of rows by their last use: a row of the round that fits only in part counts as let go."""
    last, ages, uses = np.zeros(12, np.int32), np.zeros(len(uses_of_rounds) + 1, np.int64), []
    ages[0] = 12
    for now, rows in enumerate(uses_of_rounds, 1):
        resident = {r for r in range(12) if r in uses and len(set(uses[len(uses) - uses[::-1].index(r) :])) < capacity}
        seen, wanted = set(uses), np.array(sorted(rows))
        again = use_again(last, ages, wanted, wanted.size, now, capacity)
        assert len((rows & seen) - resident) <= again <= len(rows & seen)
        assert again == 0 or len(seen) > capacity
        assert np.array_equal(np.bincount(last, minlength=ages.size), ages)
        uses += sorted(rows)


def space_of(variables, largest):
    """Working space with room for kernel values between as many variables as it can have."""
    return rounds.Space.of(variables, np.empty((largest, largest + 3), np.float32), 1)


@compiled
def gather(rows, slot_of, columns, fresh, constant, K, start, end):
    rounds.gather(rows, slot_of, columns, fresh, constant, K, start, end)


@compiled
def list_rows(row, chosen, taken, columns, wanted):
    return rounds.list_rows(row, chosen, taken, columns, wanted)


@pytest.mark.parametrize("all_fresh", [False, True])
def test_a_thread_looks_up_the_values_of_its_own_variables_only(all_fresh, rng):
    values = rng.random((12, 12), np.float32)
    values += values.T
    fresh, K = np.arange(12) if all_fresh else np.array([1, 4, 5, 8, 11]), np.full((12, 12), np.nan, np.float32)
    gather(values, np.arange(12), np.arange(12), fresh, np.float32(0.0), K, 1, 3)
    own = np.isin(np.arange(12), fresh[1:3])
    own = own[:, None] | own
    if all_fresh:  # up to the diagonal, and what mirrors it
        at = np.arange(12)
        own &= np.maximum(at[:, None], at) < 3
    np.testing.assert_array_equal(K, np.where(own, values, np.nan))


def test_a_row_of_two_variables_is_wanted_once():
    row, wanted, columns = np.array([3, 1, 3, 0, 1]), np.full(5, -1), np.full(5, -1)
    assert list_rows(row, np.arange(5), np.ones(5, np.bool_), columns, wanted) == 3
    assert wanted.tolist() == [3, 1, 0, -1, -1]
    assert columns.tolist() == row.tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.floats(0, 1), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_kernel_values_of_fresh_variables_are_looked_up_by_however_many_threads(seed, size, share, threads):
    """Rows and columns of those that are fresh, with the constant, and nothing else."""
    rng = np.random.default_rng(seed)
    values = rng.random((90, 90), np.float32)
    values += values.T
    row = rng.integers(90, size=size)  # two variables may have one row
    space, fresh = space_of(90, 60), np.flatnonzero(rng.random(size) < share)
    order = rng.permutation(90)
    cache = SimpleNamespace(rows=values[order], slot_of=np.argsort(order), matrix=SimpleNamespace(threads=threads))
    space.K[:], space.columns[:size], space.fresh[: fresh.size] = np.nan, row, fresh
    space.open.size[0], space.open.fresh[0] = size, fresh.size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "WORTH_A_LOOK", 1)
        rounds.gather_shared(cache, SimpleNamespace(constant=0.25), space)
    touched = np.isin(np.arange(size), fresh)
    touched = touched[:, None] | touched
    expected = np.where(touched, values[np.ix_(row, row)] + np.float32(0.25), np.nan)
    np.testing.assert_array_equal(space.K[:size, :size], expected)
    assert np.isnan(space.K[size:]).all()
    assert space.open.fresh[0] == 0


@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.booleans())
@settings(max_examples=200)
def test_variables_that_stay_keep_their_kernel_values_and_the_others_are_fresh(seed, before, count, most, known):
    """Through any round: who is in the next working set, once each, and which kernel values have to be looked up."""
    rng, largest = np.random.default_rng(seed), max(before, most + count) if known else most + count
    values = rng.normal(size=(30, 30)).astype(np.float32)
    previous = np.where(rng.random(before) < 0.6, rng.permutation(30)[:before], -1)
    picked = rng.permutation(30)[:count]
    space = space_of(30, largest)
    space.K[:] = np.nan
    held = previous[:largest]  # a state may come from where there was more room
    space.K[: held.size, : held.size] = values[np.ix_(held, held)]
    space.picked[:count], space.taken[picked] = picked, True
    space.open.known[0] = before if known else -1
    size, fresh = rounds.seat(space, previous, most, count)
    chosen, stay = space.chosen[:size], held[held >= 0][:most]
    assert sorted(chosen) == sorted({*picked, *stay})
    new = space.fresh[:fresh]
    if not known and before:
        assert sorted(new) == list(range(size))
        return
    assert sorted(chosen[new]) == sorted({*picked} - {*stay})
    old = np.setdiff1d(np.arange(size), new)
    np.testing.assert_array_equal(space.K[np.ix_(old, old)], values[np.ix_(chosen[old], chosen[old])])
