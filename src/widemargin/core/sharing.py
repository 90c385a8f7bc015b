"""Work on pieces of arrays, shared out to threads: compiled loops let go of Python's lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads beside the caller's; a forked process has none of its parent's."""
    return ThreadPoolExecutor(threads - 1)


def share(call: Callable[..., Any], pieces: Sequence[tuple]) -> None:
    """call(*piece) for each piece, the first on this thread and each other one on its own; returns when all are done.

    There may be none.

    >>> found = []
    >>> share(found.append, [(1,), (2,)])
    >>> sorted(found)
    [1, 2]
    """
    futures = [_pool(len(pieces), os.getpid()).submit(call, *piece) for piece in pieces[1:]]
    try:
        for piece in pieces[:1]:
            call(*piece)
    finally:
        wait(futures)  # they write to the caller's arrays
    for future in futures:
        future.result()
