"""Work on pieces of arrays, shared out to threads: compiled loops let go of Python's lock."""

import os
from collections.abc import Callable, Sequence
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
