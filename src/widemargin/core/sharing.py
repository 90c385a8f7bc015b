"""Work that is shared out to threads: compiled loops let go of Python's lock."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

#: The most threads of a process; there are as many as were ever at work at once.
MOST = 1024


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads beside the caller's; a forked process has none of its parent's."""
    return ThreadPoolExecutor(MOST)


def share(call: Callable[..., Any], pieces: Sequence[tuple]) -> None:
    """call(*piece) for each piece, the first on this thread and the others on others; returns when all are done.

    There may be none. An error of any of them is raised when all have ended.

    >>> found = []
    >>> share(found.append, [(1,), (2,)])
    >>> sorted(found)
    [1, 2]
    """
    futures: list[Future] = []
    try:
        futures.extend(_pool(os.getpid()).submit(call, *piece) for piece in pieces[1:])
        for piece in pieces[:1]:
            call(*piece)
    finally:
        wait(futures)  # they write to the caller's arrays
    for future in futures:
        future.result()


def in_turn(call: Callable[..., Any], pieces: Iterable[tuple], threads: int) -> Iterator[Any]:
    """call(*piece) for each piece, in their order, while so many threads are at work on those that come next.

    As many again have been taken from ``pieces`` and wait. An error is raised where its piece's turn is. When the
    caller wants no more, those that have begun are waited for.

    >>> list(in_turn(max, [(1, 2), (4, 3), (5, 6)], 2))
    [2, 4, 6]
    """
    coming: deque[Future] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for piece in pieces:
                coming.append(pool.submit(call, *piece))
                if len(coming) == 2 * threads:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for each in coming:
                each.cancel()
