"""Work that is shared out to threads: compiled loops let go of Python's lock.

A thread that sleeps takes long to wake, on a virtual machine longer than a block of kernel rows takes. So one that has
done its part looks out for the next for a moment, in a compiled loop without Python's lock, before it sleeps; and so
does the caller who waits for the others. With each look it lets others have the processor, who may be those it waits
for.
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
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .borrowing import borrow, check_index
from .dispatch import compiled
from .interrupts import safe_place

#: Seconds for which a thread looks out for work before it sleeps: a round of a solver between two blocks of rows.
AWAKE = 0.005
#: Whether there is a function by which a thread lets others have the processor; Windows has another one.
YIELDS = hasattr(os, "sched_yield")
#: Seconds after which a thread that sleeps looks whether there was a Ctrl-C.
HEARING = 0.1


@intrinsic
def _look(typingctx, number):
    """What stands in the first place of an array, whoever writes it, when others had the processor."""

    def codegen(context, builder, sig, args):
        array = context.make_array(sig.args[0])(context, builder, args[0])
        check_index(context, builder, array.nitems, array.nitems.type(0))
        if YIELDS:
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return builder.load_atomic(array.data, "acquire", 8)

    return number.dtype(number), codegen


@intrinsic
def claim(typingctx, counts, k):
    """counts[k], which is one more from then on: no two threads are told the same number."""

    def codegen(context, builder, sig, args):
        array = context.make_array(sig.args[0])(context, builder, args[0])
        check_index(context, builder, array.nitems, args[1])
        place, one = builder.gep(array.data, [args[1]]), ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", place, one, "monotonic")

    return types.int64(counts, types.int64), codegen


@compiled
def _changes(number, before, looks):
    """Whether number[0] is found to be another than ``before`` at one of so many looks."""
    number, left = borrow(number), looks
    while left > 0 and _look(number) == before:
        left -= 1
    return left > 0


@cache
def _looks() -> int:
    """Looks that take as long as a thread stays awake, none where it cannot let others have the processor.

    They are counted: who looks at a clock needs Python's lock.
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
    """Tells another thread, once for each time that it is waited for."""

    def __init__(self) -> None:
        self._told, self._lock = np.zeros(1, np.int64), threading.Lock()
        self._lock.acquire()
        self._heard = 0

    def tell(self) -> None:
        self._told[0] += 1
        self._lock.release()

    def wait(self) -> None:
        """Return when told; the thread sleeps only when it has waited for a moment."""
        _changes(self._told, self._heard, _looks())
        self._lock.acquire()
        self._heard += 1


class _Helper:
    """A thread beside the caller's, which works for one caller at a time."""

    def __init__(self) -> None:
        self._begin, self._end = _Signal(), _Signal()
        self._error: BaseException | None = None
        _looks()  # compiles here: a process that is forked while another thread does would wait for it forever
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
        """What the work raised, when it has ended."""
        self._end.wait()
        error, self._error = self._error, None
        return error


@cache
def _idle(process: int) -> list[_Helper]:
    """Helpers without work; a forked process has none of its parent's."""
    return []


def share(call: Callable[..., Any], pieces: Sequence[tuple]) -> None:
    """call(*piece) for each piece, the first on this thread and the others on others; returns when all are done.

    There may be none. An error of any of them is raised when all have ended.

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
            helpers.append(helper)  # now: whoever has not begun would be waited for forever after a Ctrl-C
        for piece in pieces[:1]:
            call(*piece)
    finally:
        errors = [helper.end() for helper in helpers]  # they write to the caller's arrays
        idle += helpers
    for error in errors:
        if error is not None:
            raise error


def share_out(call: Callable[..., Any], pieces: Iterable[tuple], threads: int) -> None:
    """call(*piece) for each piece; of so many threads who is done with one takes the next that nobody has.

    For pieces that are many more than threads, since one may get less done than another. After an error none is begun.

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
    """A helper that nobody else has; as many are made as were ever at work at once."""
    try:
        return idle.pop()
    except IndexError:
        return _Helper()


def _result(future: Future) -> Any:
    """What a call returned or raised, when it has ended; Python hears of a Ctrl-C that another thread got meanwhile."""
    while not wait([future], HEARING).done:
        safe_place()
    return future.result()


def in_turn(call: Callable[..., Any], pieces: Iterable[tuple], threads: int) -> Generator[Any]:
    """call(*piece) for each piece, in their order, while so many threads are at work on those that come next.

    Two more have been taken from ``pieces`` and wait. An error is raised where its piece's turn is. When the caller
    wants no more, those that were taken are waited for.

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
