"""The number of BLAS threads during a fit: one, unless a solver asks for all.

NumPy's and SciPy's BLAS have threads of their own and wake them even for a product of two vectors of 10,000 numbers,
which one thread computes in microseconds. Awake threads spin (OpenBLAS's for about 30 ms) on the processors that the
threads of :mod:`..sharing` need, and their time counts as the fit's. A solver with large products asks for all::

    with one_blas_thread():                 # around a fit
        with all_blas_threads(d > 400):     # around large products within it
            ...
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
#: (library, number of threads) of the libraries that had several threads before the first of these fits.
_had: list[tuple[Any, int]] = []


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # a thread that does not exist in the new process may hold it
    os.register_at_fork(after_in_child=_renew_lock)


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries that this process has loaded; finding them takes 10 ms."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _give(threads: int | None) -> None:
    """Give the libraries so many threads, or all that they had."""
    for library, had in _had:
        library.set_num_threads(had if threads is None else threads)


@contextmanager
def one_blas_thread() -> Generator[None]:
    """Within this context BLAS has one thread; with several contexts, until the last one ends."""
    global _fits
    counted = False
    try:  # Ctrl-C may come at any point
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
    """Within :func:`one_blas_thread`, give BLAS all its threads back if ``worth`` is true."""
    if worth:
        with _lock:
            _give(None)
    try:
        yield
    finally:
        if worth:
            with _lock:
                _give(1)
