"""How many threads BLAS has while a machine is trained.

NumPy's and SciPy's BLAS have threads of their own, and wake them for the product of two vectors of 10,000 numbers
already, which one thread does in microseconds. Once awake they look out for more work in a loop that does not rest,
OpenBLAS's for some 30 ms: so long they take the processors that the threads of :mod:`.sharing` would have, and what
they take is counted as the fit's. So a fit has one thread of BLAS. A solver whose products are worth more asks for all.
"""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
#: Fits under way, in all threads.
_fits = 0
#: The libraries that had several threads before the first of these fits, and how many.
_had: list[tuple[Any, int]] = []


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # who has it may be a thread that the new process is without
    os.register_at_fork(after_in_child=_renew_lock)


@cache
def _libraries() -> list[Any]:
    """The libraries of BLAS that this process has loaded: finding them takes 10 ms."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _give(threads: int | None) -> None:
    """Give the libraries so many threads, or all that they had."""
    for library, had in _had:
        library.set_num_threads(had if threads is None else threads)


@contextmanager
def one_blas_thread() -> Generator[None]:
    """BLAS has one thread until the last of those who asked for it leaves."""
    global _fits
    counted = False
    try:  # Ctrl-C may come anywhere
        with _lock:
            if _fits == 0:
                there = [(library, library.get_num_threads() or 1) for library in _libraries()]
                _had[:] = [(library, threads) for library, threads in there if threads > 1]
            _fits, counted = _fits + 1, True
            if _fits == 1:
                _give(1)
        yield
    finally:
        if counted:
            with _lock:
                _fits -= 1
                if _fits == 0:
                    _give(None)
                    _had.clear()


@contextmanager
def all_blas_threads(worth: bool = True) -> Generator[None]:
    """Within :func:`one_blas_thread`, where it is worth it, BLAS has all threads that it had before."""
    if worth:
        with _lock:
            _give(None)
    try:
        yield
    finally:
        if worth:
            with _lock:
                _give(1)
