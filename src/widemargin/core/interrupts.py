"""Signals, such as Ctrl-C, while machines are trained or predict: noted at once, delivered at safe places.

Python calls a signal's handler between any two steps of interpreted code. An exception that it raises there may be lost
(in a callback of the compiler), or end the process (while the result of compiled code is made an object). So within
:class:`heeded` our handler stands in the place of the user's. It raises nothing and keeps the signal. At the next
:func:`safe_place` the user's own handler is called, which raises ``KeyboardInterrupt`` or does what the user wants.
Safe places are at most a tenth of a second apart, but where loops are compiled.

Who trains enters :class:`Interrupts`, for which the first Ctrl-C is a flag: training ends, and there is a model. A
second one is delivered, as is the first one within :data:`AGAIN` seconds of another, wherever that was heard, and each
one in a process of a pool, whose owner waits for it to end.

A signal that nobody has looked at is delivered when the outermost context ends. Signals belong to the main thread: in
others all this does nothing.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from contextlib import ContextDecorator
from multiprocessing import parent_process
from types import FrameType
from typing import Any

#: Seconds within which a second Ctrl-C is delivered, even if the first one has ended another fit.
AGAIN = 3.0
#: Terms of sums, such as those of kernel values, between two safe places at most: a twentieth of a second.
PROMPT = 2**27
#: Signals by which programs stop what they do, where the system has them; Ctrl-C first.
SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
]

#: The user's handlers, while ours stands in their place.
_theirs: dict[int, Any] = {}
#: Signals to be delivered at the next safe place, in order.
_due: list[int] = []
#: Contexts under way, the newest last: whether code of the user's runs there, which is interrupted where it is.
_open: list[bool] = []
#: Those who take the first Ctrl-C for themselves.
_listeners: list[Interrupts] = []
_last_press = -math.inf


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def safe_place() -> None:
    """A safe place: deliver the signals that are due."""
    if _due and _is_main():
        while _due:
            number = _due.pop(0)
            handler = _theirs.get(number) or signal.getsignal(number)
            if callable(handler):
                handler(number, sys._getframe(1))


def _note(number: int, frame: FrameType | None) -> None:
    """The handler of all signals within a context."""
    if (number != signal.SIGINT or _is_for_all()) and number not in _due:
        _due.append(number)
    if _open and _open[-1]:
        safe_place()


def _is_for_all() -> bool:
    """Whether a Ctrl-C ends the program, not the training under way alone; those who train are told of each."""
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
        except BaseException:  # a handler of the user's, before ours stood in its place
            _restore()
            raise
    _open.append(is_users)


def _leave() -> None:
    _open.pop()
    if not _open:
        _restore()
        safe_place()


def _restore() -> None:
    """Put the user's handlers back, Ctrl-C's at the end; those that are back may raise already."""
    try:
        while _theirs:
            number, before = next(reversed(_theirs.items()))
            if signal.getsignal(number) is _note:  # a callback may have set another one
                signal.signal(number, before)
            del _theirs[number]
    finally:
        if _theirs:
            _restore()


class heeded(ContextDecorator):
    """Within this context signals wait for a safe place; its end is one if it is the outermost."""

    def __enter__(self) -> heeded:
        if _is_main():
            _enter(False)
        return self

    def __exit__(self, *exc: object) -> None:
        if _is_main():
            _leave()


class at_once(ContextDecorator):
    """Within :class:`heeded`, around code of the user's: what is due is delivered wherever that code is."""

    def __enter__(self) -> at_once:
        safe_place()
        if _is_main():
            _enter(True)
        return self

    def __exit__(self, *exc: object) -> None:
        if _is_main():
            _leave()


class Interrupts:
    """Within this context, which is :class:`heeded`, the first Ctrl-C sets a flag; only in the main thread.

    One that is ``told`` by another sees what that one sees, and leaves Ctrl-C to it. One within another begins with
    what that one has heard, unless it begins ``anew``.
    """

    def __init__(self, told: Interrupts | None = None, *, anew: bool = False) -> None:
        self._told, self._anew, self._seen, self._is_known = told, anew, False, False

    @property
    def seen(self) -> bool:
        """Whether work is to end."""
        if self._told is not None:
            return self._told.seen
        if self._seen:
            for each in _listeners:
                each._is_known = True
        return self._seen

    def end(self) -> None:
        """End the work of all who look here, as the first Ctrl-C does."""
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
                _due.append(signal.SIGINT)  # it came too late for anybody to act on
            _leave()
