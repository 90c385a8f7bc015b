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


class _Outermost(Listener):  # type: ignore[misc]
    """Hears of the loops that are compiled, and not of what is compiled within them."""

    _depth = 0

    def on_start(self, found: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self.begin(found.data["dispatcher"])

    def on_end(self, found: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.end()


class Compilations(_Outermost):
    """Counts loops that are compiled, not their parts, and the seconds that they take."""

    def __init__(self) -> None:
        self.loops, self.seconds, self._since = 0, 0.0, 0.0

    def begin(self, dispatcher: Any) -> None:
        self.loops, self._since = self.loops + 1, time.perf_counter()

    def end(self) -> None:
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


class _Notice(_Outermost):
    """Says once in a process, on the logger "widemargin", that a wait is compilation, and where its result is kept.

    Signals wait while a loop is compiled: an exception that is raised in a callback of LLVM would be lost.
    """

    def __init__(self) -> None:
        self.said, self.subject, self.spent, self.since = False, "", 0.0, 0.0
        self.heeded = each_press()
        self.timer: threading.Timer | None = None

    def begin(self, dispatcher: Any) -> None:
        self.heeded = each_press()
        self.heeded.__enter__()
        self.since, self.timer = time.perf_counter(), None
        function = getattr(dispatcher, "py_func", None)  # other libraries compile too
        if not self.said and str(getattr(function, "__module__", "")).startswith("widemargin."):
            folder = dispatcher.stats.cache_path
            self.timer = threading.Timer(max(0.0, SILENCE - self.spent), self.say, [folder])
            self.timer.daemon = True
            self.timer.start()

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.spent += time.perf_counter() - self.since
        self.heeded.__exit__()

    def say(self, folder: str | None) -> None:
        """The line; a logger that nobody has configured writes warnings to standard error."""
        self.said = True
        often = f"once per machine: kept in {folder}" if folder else "in every process: no machine code is kept"
        logging.getLogger("widemargin").warning(
            "Compiling %s, %s (widemargin.warmup() compiles ahead)",
            self.subject or "loops of widemargin for this kind of data",
            often,
        )


_notice = _Notice()
if event is not None:
    event.register("numba:compile", _notice)
