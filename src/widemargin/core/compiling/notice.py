"""What Numba tells of compilations: a line for the user, seconds and counts, and signals that wait meanwhile.

Numba's events are not in its manual. Where a Numba has none, nothing is told and nothing is counted.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..threads.interrupts import each_press

try:
    from numba.core import event

    Listener: type = event.Listener
except (ImportError, AttributeError):
    event, Listener = None, object

#: Seconds of compilation in silence; then a line says what takes so long.
SILENCE = 1.0

#: Seconds that a first fit compiles, measured by ``python -m benchmarks.micro.startup cold``.
SECONDS = {
    "LinearSVC": 4, "LinearSVR": 4, "SVC": 9, "SVR": 9, "BudgetedSVC": 8, "BudgetedSVR": 8, "IncrementalSVC": 12,
}  # fmt: skip


class Compilations(Listener):  # type: ignore[misc]
    """Counts loops that are compiled, not their parts, and the seconds that they take."""

    def __init__(self) -> None:
        self.loops, self.seconds, self._depth, self._since = 0, 0.0, 0, 0.0

    def on_start(self, found: Any) -> None:
        if self._depth == 0:
            self.loops, self._since = self.loops + 1, time.perf_counter()
        self._depth += 1

    def on_end(self, found: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._since


@contextmanager
def compilations(estimator: Any = None, X: Any = None) -> Iterator[Compilations]:
    """Within this context compilations are counted; the line to the user names the estimator and its data."""
    count, before = Compilations(), _notice.subject
    _notice.subject = before or (_subject(estimator, X) if estimator is not None else "")
    try:
        if event is None:
            yield count
        else:
            with event.install_listener("numba:compile", count):
                yield count
    finally:
        _notice.subject = before


def _subject(estimator: Any, X: Any) -> str:
    """For example "SVC for sparse float32 data, about 9 s"."""
    name = type(estimator).__name__
    known = next((SECONDS[each.__name__] for each in type(estimator).__mro__ if each.__name__ in SECONDS), None)
    dtype = getattr(X, "dtype", None)
    if dtype is not None:
        layout = "sparse" if hasattr(X, "nnz") else "dense"
        name += f" for {layout} {'float32' if dtype == 'float32' else 'float64'} data"
    return name + ("" if known is None else f", about {known} s")


class _Notice(Listener):  # type: ignore[misc]
    """Says once in a process, on the logger "widemargin", that a wait is compilation, and where its result is kept."""

    def __init__(self) -> None:
        self.said, self.subject, self.spent, self.since, self.depth = False, "", 0.0, 0.0, 0
        self.timer: threading.Timer | None = None

    @staticmethod
    def _is_ours(found: Any) -> bool:
        function = getattr(found.data["dispatcher"], "py_func", None)  # other libraries compile too
        return str(getattr(function, "__module__", "")).startswith("widemargin.")

    def on_start(self, found: Any) -> None:
        if self.said or not self._is_ours(found):
            return
        self.depth += 1
        if self.depth == 1:
            self.since = time.perf_counter()
            folder = found.data["dispatcher"].stats.cache_path
            self.timer = threading.Timer(max(0.0, SILENCE - self.spent), self.say, [folder])
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, found: Any) -> None:
        if self.depth == 0 or not self._is_ours(found):
            return
        self.depth -= 1
        if self.depth == 0 and self.timer is not None:
            self.timer.cancel()
            self.spent += time.perf_counter() - self.since

    def say(self, folder: str | None) -> None:
        """The line; a logger that nobody has configured writes warnings to standard error."""
        self.said = True
        often = f"once per machine: kept in {folder}" if folder else "in every process: no machine code is kept"
        logging.getLogger("widemargin").warning(
            "Compiling %s, %s (widemargin.warmup() compiles ahead)",
            self.subject or "loops of widemargin for this kind of data",
            often,
        )


class _Heeded(Listener):  # type: ignore[misc]
    """Lets signals wait while a loop is compiled: an exception that is raised in a callback of LLVM would be lost."""

    def __init__(self) -> None:
        self._open: list[each_press] = []  # loops that are compiled within others come last

    def on_start(self, found: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            self._open.append(each_press())
            self._open[-1].__enter__()

    def on_end(self, found: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            self._open.pop().__exit__()


_notice = _Notice()
if event is not None:
    event.register("numba:compile", _notice)
    event.register("numba:compile", _Heeded())
