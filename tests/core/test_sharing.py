"""Pieces of work on threads: all are done when the call returns, errors are raised, forked processes have their own."""

import os
import signal
import sys
import threading
import time

import numba
import numpy as np
import pytest

from widemargin.core import sharing
from widemargin.core.borrowing import borrow
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.intrinsics.atomics import claim
from widemargin.core.sharing import in_turn, share, share_out


@compiled
def _claim_all(counts, by):
    """by[k] ← one more for each number k that is claimed, until there are no more."""
    counts, by = borrow(counts), borrow(by)
    k = claim(counts, 1)
    while k < by.size:
        by[k] += 1
        k = claim(counts, 1)


def test_threads_that_claim_numbers_get_each_of_them_once():
    counts, by = np.zeros(3, np.int64), np.zeros((4, 200_000), np.int64)
    share(_claim_all, [(counts, each) for each in by])
    np.testing.assert_array_equal(by.sum(axis=0), 1)
    np.testing.assert_array_equal(counts, [0, by.shape[1] + len(by), 0])
    # threads seldom meet: that they may is not left to chance
    anew = numba.njit(_claim_all.py_func)  # of machine code from a disk there is no text
    anew(counts, by[0])
    assert all("atomicrmw add" in text for text in anew.inspect_llvm().values())


def test_no_more_threads_are_asked_for_than_there_are_pieces(monkeypatch):
    asked = []
    monkeypatch.setattr(sharing, "share", lambda call, pieces: asked.append(len(pieces)))
    share_out(max, [(1, 2), (3, 4)], 5)
    assert asked == [2]


def test_all_pieces_are_done_on_threads_of_their_own():
    together, found = threading.Barrier(4, timeout=60), []

    def work(k):
        together.wait()  # nobody goes on before all four are here
        found.append((k, threading.get_ident()))

    share(work, [(k,) for k in range(4)])
    assert sorted(k for k, _ in found) == [0, 1, 2, 3]
    assert len({thread for _, thread in found}) == 4
    assert dict(found)[0] == threading.get_ident()
    share(work, [])


def test_who_is_done_takes_the_next_piece_that_nobody_has():
    """One thread waits in its first piece until all others are done."""
    others, found = threading.Event(), []

    def work(k):
        if k == 0:
            assert others.wait(60)
        found.append((k, threading.get_ident()))
        if len(found) == 9:
            others.set()

    share_out(work, [(k,) for k in range(10)], 3)
    assert sorted(k for k, _ in found) == list(range(10))
    assert [k for k, thread in found if thread == dict(found)[0]] == [0]
    share_out(work, [], 3)


@pytest.mark.parametrize("threads", [1, 2])
def test_after_an_error_in_a_piece_no_other_is_begun(threads):
    begun, failed = [], threading.Event()

    def work(k):
        begun.append(k)
        if k == 0:
            failed.set()
            raise KeyboardInterrupt
        assert failed.wait(60)
        time.sleep(0.01)  # lets the other thread have Python's lock

    with pytest.raises(KeyboardInterrupt):
        share_out(work, [(k,) for k in range(100)], threads)
    assert len(begun) < 100


@pytest.mark.parametrize("looks", [0, 1, 10**6])
def test_a_thread_that_sleeps_is_woken_and_one_that_is_awake_finds_its_work(looks, monkeypatch):
    monkeypatch.setattr(sharing, "_looks", lambda: looks)
    for turn in range(30):
        found = []
        share(found.append, [(turn,), (-turn,), (7,)])
        assert sorted(found) == sorted([turn, -turn, 7])


def test_callers_on_several_threads_have_helpers_of_their_own():
    wrong = []

    def call(caller):
        for turn in range(50):
            found = []
            share(found.append, [((caller, turn, k),) for k in range(3)])
            wrong.extend([found] if sorted(found) != [(caller, turn, k) for k in range(3)] else [])

    callers = [threading.Thread(target=call, args=(caller,)) for caller in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert wrong == []


@pytest.mark.parametrize("bad", [0, 1])
def test_an_error_of_a_piece_is_raised_when_the_others_have_ended(bad):
    raised, found = threading.Event(), []

    def work(k):
        if k == bad:
            raised.set()
            raise OSError("no room")
        raised.wait(60)
        found.append(k)

    with pytest.raises(OSError, match="no room"):
        share(work, [(0,), (1,)])
    assert found == [1 - bad]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_has_threads_of_its_own():
    found = []
    share(found.append, [(0,), (1,)])
    child = os.fork()
    if child == 0:
        thread = threading.Thread(target=share, args=(found.append, [(2,), (3,)]), daemon=True)
        thread.start()
        thread.join(60)
        os._exit(0 if sorted(found) == [0, 1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0


# ---------------------------------------------------------------- in turn


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_the_order_of_the_pieces_and_no_more_threads_are_at_work_than_asked_for(threads):
    lock, at_work, most, taken = threading.Lock(), [0], [0], [0]

    def pieces():
        for k in range(20):
            taken[0] += 1
            yield (k,)

    def work(k):
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        for _ in range(10000 * ((20 - k) % 3)):  # later ones end sooner
            pass
        with lock:
            at_work[0] -= 1
        return k

    found = []
    for k in in_turn(work, pieces(), threads):
        found.append(k)
        assert taken[0] <= len(found) + threads + 1
    assert found == list(range(20))
    assert most[0] <= threads


def test_an_error_is_raised_in_its_turn_when_those_that_were_taken_have_ended():
    ended, goes_on = [], threading.Event()

    def work(k):
        if k == 1:
            raise OSError("no room")
        if k > 1:
            goes_on.wait(60)
        ended.append(k)
        return k

    results = in_turn(work, ((k,) for k in range(100)), 2)
    assert next(results) == 0
    goes_on.set()
    with pytest.raises(OSError, match="no room"):
        next(results)
    assert sorted(ended) == [0, 2, 3, 4]


def test_nothing_is_in_turn_where_there_is_nothing():
    assert list(in_turn(max, [], 2)) == []


def test_no_more_threads_are_made_than_were_ever_at_work_at_once():
    share(max, [(1, 2)] * 4)
    before = threading.active_count()
    for _ in range(5):
        share(max, [(1, 2)] * 4)
    assert threading.active_count() == before


def test_a_ctrl_c_that_another_thread_got_is_heard_while_the_caller_waits():
    begins, heard = threading.Event(), threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.set())

    def work(k):
        if k == 0:
            return True
        begins.wait(60)
        while sys._current_frames()[threading.main_thread().ident].f_code.co_name != "wait":
            time.sleep(0)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return heard.wait(20)

    try:
        results = in_turn(work, [(0,), (1,)], 1)
        assert next(results)
        begins.set()
        assert next(results)
    finally:
        signal.signal(signal.SIGINT, before)
