"""Signals such as Ctrl-C during training and prediction: recorded at once, delivered at safe places.

Python may call a signal's handler between any two steps of interpreted code. An exception raised there may be lost (in
a callback of the compiler) or end the process (while Python makes an object of a compiled result). Therefore:

* Within :class:`heeded`, our handler replaces the user's. It raises nothing and records the signal.
* At the next :func:`safe_place` the user's handler is called, which raises ``KeyboardInterrupt`` or does what the user
  wants. Safe places are at most a tenth of a second apart, except while loops are compiled.
* Within :class:`Interrupts`, which training uses, the first Ctrl-C only sets a flag: training ends with a model. A
  second Ctrl-C is delivered; so is one within :data:`AGAIN` seconds of another, and any one in a worker process of a
  pool, whose owner waits for the process to end.
* Work that has no such flag at hand asks :func:`told`, or runs within :func:`unless_told`, which abandons it at a safe
  place.

A recorded signal that nobody acted on is delivered when the outermost context ends. Python delivers signals to the main
thread only; in other threads these contexts do nothing, except for limits of time. For example::

    with Interrupts() as pressed:
        while not pressed.seen:
            ...                        # one slice of training
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ContextDecorator
from multiprocessing import parent_process
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN = 3.0  # seconds within which a second Ctrl-C is delivered, even if the first one ended another fit
PROMPT = 2**27  # terms of sums, such as kernel values' products, between two safe places: a twentieth of a second
#: Signals by which programs stop what they do, where the system has them; Ctrl-C first.
SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
]

#: The user's handlers, while ours replaces them.
_theirs: dict[int, Any] = {}
#: Signals to deliver at the next safe place, in order.
_due: list[int] = []
#: Open contexts, the newest last: True where the user's code runs, which signals may interrupt anywhere.
_open: list[bool] = []
#: Open :class:`Interrupts`, the newest last; the first Ctrl-C sets their flags.
_listeners: list[Interrupts] = []
_last_press = -math.inf
#: Ctrl-C that :func:`_note` was called for.
_presses = 0


class _Own(threading.local):
    """For each thread: when its time is up, and whether its work is abandoned then."""

    until, leaves = math.inf, False


_own = _Own()


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def safe_place() -> None:
    """Deliver recorded signals, and abandon work whose time is up or that Ctrl-C ends."""
    if _own.leaves and time.perf_counter() >= _own.until:
        raise _LeftOff
    if not (_due or _listeners) or not _is_main():
        return
    while _due:
        number = _due.pop(0)
        handler = _theirs.get(number) or signal.getsignal(number)
        if callable(handler):
            handler(number, sys._getframe(1))
    if _listeners and _listeners[-1]._leaves and told():
        raise _LeftOff


def _note(number: int, frame: FrameType | None) -> None:
    """Our handler of all signals within a context: record the signal."""
    global _presses
    _presses += number == signal.SIGINT
    if (number != signal.SIGINT or _is_for_all()) and number not in _due:
        _due.append(number)
    if _open and _open[-1]:
        safe_place()


def _is_for_all() -> bool:
    """Whether this Ctrl-C goes to the user's handler, not only to the training under way; sets all flags."""
    global _last_press
    now = time.monotonic()
    again, _last_press = now - _last_press <= AGAIN, now
    taken = bool(_listeners) and not any(each._seen for each in _listeners)
    is_for_all = again or not taken or parent_process() is not None
    for each in _listeners:
        each.end()
        each._is_known = each._is_known or is_for_all
    return is_for_all


def _enter(is_users: bool) -> None:
    if not _open:
        try:
            for number in SIGNALS:
                before = signal.getsignal(number)
                if callable(before) and before is not _note:
                    _theirs[number] = before
                    signal.signal(number, _note)
        except BaseException:  # raised by the user's handler before ours replaced it
            _restore()
            raise
    _open.append(is_users)


def _leave() -> None:
    _open.pop()
    if not _open:
        _restore()
        safe_place()


def _restore() -> None:
    """Put the user's handlers back, Ctrl-C's last, even if one of them raises meanwhile."""
    try:
        while _theirs:
            number, before = next(reversed(_theirs.items()))
            if signal.getsignal(number) is _note:  # unless a callback set another handler
                signal.signal(number, before)
            del _theirs[number]
    finally:
        if _theirs:
            _restore()


class heeded(ContextDecorator):
    """Within this context signals wait for a safe place. The end of the outermost context is one."""

    _is_users = False

    def __enter__(self) -> heeded:
        if _is_main():
            _enter(self._is_users)
        return self

    def __exit__(self, *exc: object) -> None:
        if _is_main():
            _leave()


class each_press(heeded):
    """As :class:`heeded`, and Ctrl-C counts as often as it was pressed, also while no Python code runs for seconds.

    Python calls a handler once for all signals of a number that came since it last looked. The file descriptor of
    ``signal.set_wakeup_fd`` gets a byte for each.
    """

    def __enter__(self) -> each_press:
        super().__enter__()
        self._counts = sys.platform != "win32" and _is_main()
        if self._counts:
            self._read, self._write = os.pipe()
            for end in (self._read, self._write):
                os.set_blocking(end, False)
            self._known, self._outer = _presses, signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._counts:
            signal.set_wakeup_fd(self._outer)
            os.close(self._write)
            with os.fdopen(self._read, "rb") as pipe:
                numbers = pipe.read() or b""
            if self._outer >= 0:
                os.write(self._outer, numbers)
            for _ in range(numbers.count(signal.SIGINT) - (_presses - self._known)):
                _note(signal.SIGINT, None)
        super().__exit__(*exc)


class at_once(heeded):
    """Within :class:`heeded`, around the user's code: signals are delivered at once, wherever that code is."""

    _is_users = True

    def __enter__(self) -> heeded:
        safe_place()
        return super().__enter__()


class Interrupts:
    """Within this context, which is :class:`heeded`, the first Ctrl-C sets the flag ``seen``; in the main thread only.

    With ``told``, another context, this one shares its flag and leaves Ctrl-C to it. A context within another starts
    with the outer flag, unless ``anew``.
    """

    def __init__(self, told: Interrupts | None = None, *, anew: bool = False) -> None:
        self._told, self._anew, self._seen, self._is_known = told, anew, False, False
        self._leaves = False  # whether the first Ctrl-C abandons the work within, at a safe place

    @property
    def seen(self) -> bool:
        """Whether work should end; asking counts as having acted on the signal."""
        if self._told is not None:
            return self._told.seen
        if self._seen:
            for each in _listeners:
                each._is_known = True
        return self._seen

    def end(self) -> None:
        """Set the flag, as the first Ctrl-C does."""
        self._seen = True

    def __enter__(self) -> Interrupts:
        if self._told is None and _is_main():
            _enter(False)
            self._seen = self._seen or (bool(_listeners) and not self._anew and _listeners[-1]._seen)
            _listeners.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._told is None and _is_main():
            _listeners.remove(self)
            if self._seen and not self._is_known and not _listeners and exc[0] is None:
                _due.append(signal.SIGINT)  # nobody acted on it
            _leave()


def told() -> bool:
    """Whether Ctrl-C asked the current training to end."""
    return bool(_listeners) and _is_main() and _listeners[-1].seen


class limited:
    """Within this context, work in :func:`unless_told` is also abandoned at a time of ``time.perf_counter``."""

    def __init__(self, until: float) -> None:
        self._until = until

    def __enter__(self) -> limited:
        self._before = _own.until, _own.leaves
        _own.until, _own.leaves = self._until, False
        return self

    def __exit__(self, *exc: object) -> None:
        _own.until, _own.leaves = self._before


class _LeftOff(BaseException):
    """Ends work in :func:`unless_told`."""


def unless_told(work: Callable[[], T]) -> T | None:
    """The result of ``work``, which has no side effects; None if Ctrl-C or the time of :class:`limited` ends it."""
    own, before = Interrupts(), _own.leaves
    own._leaves = _own.leaves = True
    try:
        with own:
            safe_place()
            return work()
    except _LeftOff:
        return None
    finally:
        _own.leaves = before
