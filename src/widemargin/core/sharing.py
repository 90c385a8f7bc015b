"""Work shared among threads; compiled loops release Python's lock while they run.

    share(compute, [(rows, 0, 500), (rows, 500, 1000)])        # two pieces at the same time
    share_out(compute, pieces, threads=2)                      # many pieces, taken one by one
    for result in in_turn(read, pieces, threads=2): ...        # results in the order of the pieces

Waking a sleeping thread takes long, on a virtual machine longer than computing a block of kernel rows. A thread that
has finished therefore waits actively for a moment, in a compiled loop without Python's lock, before it sleeps; so does
the caller that waits for the others. At each turn of this loop the thread yields the processor to other threads.
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import numpy as np

from .borrowing import borrow
from .compiling.dispatch import compiled
from .intrinsics.atomics import YIELDS, look
from .threads.interrupts import safe_place

AWAKE = 0.005  # seconds of active waiting before a thread sleeps: a solver's round between two blocks of rows
HEARING = 0.1  # seconds after which a sleeping main thread checks for Ctrl-C


@compiled
def _changes(number, before, looks):
    """Whether number[0] differs from ``before`` at one of so many looks."""
    number, left = borrow(number), looks
    while left > 0 and look(number) == before:
        left -= 1
    return left > 0


@cache
def _looks() -> int:
    """The number of looks that take AWAKE seconds; 0 where a thread cannot yield the processor.

    Active waiting counts looks, because reading a clock needs Python's lock.
    """
    if not YIELDS:
        return 0
    number, taken = np.zeros(1, np.int64), math.inf
    for _ in range(3):
        since = time.monotonic()
        _changes(number, 0, 1000)
        taken = min(taken, time.monotonic() - since)
    return int(1000 * AWAKE / max(taken, 1e-6))


class _Signal:
    """Wakes another thread: one call of ``tell`` for each call of ``wait``."""

    def __init__(self) -> None:
        self._told, self._lock = np.zeros(1, np.int64), threading.Lock()
        self._lock.acquire()
        self._heard = 0

    def tell(self) -> None:
        self._told[0] += 1
        self._lock.release()

    def wait(self) -> None:
        """Return after ``tell``; wait actively first, then sleep."""
        _changes(self._told, self._heard, _looks())
        self._lock.acquire()
        self._heard += 1


class _Helper:
    """A thread that works for one caller at a time."""

    def __init__(self) -> None:
        self._begin, self._end = _Signal(), _Signal()
        self._error: BaseException | None = None
        _looks()  # compile here: a process forked while another thread compiles would wait for it forever
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._begin.wait()
            try:
                self._call(*self._piece)
            except BaseException as error:
                self._error = error
            del self._call, self._piece
            self._end.tell()

    def begin(self, call: Callable[..., Any], piece: tuple) -> None:
        self._call, self._piece = call, piece
        self._begin.tell()

    def end(self) -> BaseException | None:
        """Wait for the end of the work; returns what it raised."""
        self._end.wait()
        error, self._error = self._error, None
        return error


@cache
def _idle(process: int) -> list[_Helper]:
    """Helpers without work; a forked process has none of its parent's."""
    return []


def share(call: Callable[..., Any], pieces: Sequence[tuple]) -> None:
    """call(*piece) for each piece, the first one on this thread and each other one on a thread of its own.

    Returns when all have ended, and raises the first error among them. ``pieces`` may be empty.

    >>> found = []
    >>> share(found.append, [(1,), (2,)])
    >>> sorted(found)
    [1, 2]
    """
    safe_place()
    idle, helpers, errors = _idle(os.getpid()), [], []
    try:
        for piece in pieces[1:]:
            helper = _taken(idle)
            helper.begin(call, piece)
            helpers.append(helper)  # only after begin: after a Ctrl-C the finally clause waits for each of these
        for piece in pieces[:1]:
            call(*piece)
    finally:
        errors = [helper.end() for helper in helpers]  # they write to the caller's arrays
        idle += helpers
    for error in errors:
        if error is not None:
            raise error


def share_out(call: Callable[..., Any], pieces: Iterable[tuple], threads: int) -> None:
    """call(*piece) for each piece, by so many threads; a thread that has finished one takes the next.

    For many more pieces than threads, which may differ in length. After an error no further piece is begun.

    >>> found = []
    >>> share_out(found.append, [(1,), (2,), (3,)], 2)
    >>> sorted(found)
    [1, 2, 3]
    """
    left = deque(pieces)

    def work() -> None:
        while True:
            try:
                piece = left.popleft()
            except IndexError:
                return
            try:
                call(*piece)
            except BaseException:
                left.clear()
                raise

    share(work, [()] * min(threads, len(left)))


def _taken(idle: list[_Helper]) -> _Helper:
    """An idle helper, or a new one."""
    try:
        return idle.pop()
    except IndexError:
        return _Helper()


def _result(future: Future) -> Any:
    """Wait for a call's result or error; a Ctrl-C is delivered meanwhile."""
    while not wait([future], HEARING).done:
        safe_place()
    return future.result()


def in_turn(call: Callable[..., Any], pieces: Iterable[tuple], threads: int) -> Generator[Any]:
    """Results of call(*piece) in the order of the pieces, while so many threads work on the next ones.

    Up to two pieces more than threads are taken from ``pieces`` ahead. An error is raised at its piece's turn. When
    the caller stops early, pieces that were taken are still finished.

    >>> list(in_turn(max, [(1, 2), (4, 3), (5, 6)], 2))
    [2, 4, 6]
    """
    coming: deque[Future] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for piece in pieces:
            coming.append(pool.submit(call, *piece))
            if len(coming) == threads + 2:
                yield _result(coming.popleft())
        while coming:
            yield _result(coming.popleft())
