"""Signals within our loops: none is raised but at a safe place, and none is lost."""

# ruff: noqa: PT012 – how far a block comes is what is tested

import ctypes
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import numba
import pytest
from numba import types

import widemargin as wm
from widemargin.core.compiling import dispatch
from widemargin.core.threads import interrupts
from widemargin.core.threads.interrupts import (
    Interrupts,
    at_once,
    each_press,
    heeded,
    limited,
    safe_place,
    told,
    unless_told,
)  # fmt: skip
from widemargin.models import KernelModel


def press(times=1):
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_waits_for_a_safe_place():
    with pytest.raises(KeyboardInterrupt), heeded():
        press()
        reached = True
        safe_place()
        reached = False
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_nobody_looked_at_is_delivered_at_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt), heeded():
        with heeded():
            press()
        done.append("inner")
    assert done == ["inner"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGALRM", "SIGPROF", "SIGUSR1"])
def test_a_handler_of_the_user_s_that_raises_is_called_at_a_safe_place_and_comes_back(name):
    number, done = getattr(signal, name), []

    def mine(told, frame):
        done.append(told)
        raise TimeoutError(name)

    before = signal.signal(number, mine)
    try:
        with pytest.raises(TimeoutError, match=name), heeded():
            signal.raise_signal(number)
            assert not done
            safe_place()
        assert done == [number]
        assert signal.getsignal(number) is mine
    finally:
        signal.signal(number, before)


def test_signals_that_are_ignored_or_end_the_process_are_left_alone():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with heeded():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            press()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_is_set_meanwhile_stays():
    mine = lambda number, frame: None  # noqa: E731
    try:
        with heeded():
            signal.signal(signal.SIGINT, mine)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_handler_that_raises_while_ours_are_put_in_place_leaves_all_as_they_were(monkeypatch):
    def put(number, handler):
        before = set_one(number, handler)
        if number == signal.SIGTERM and handler is interrupts._note:
            raise KeyboardInterrupt  # as by the user's own handler of another signal
        return before

    mine, set_one = lambda number, frame: None, signal.signal
    signal.signal(signal.SIGTERM, mine)
    try:
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(signal, "signal", put)
            with pytest.raises(KeyboardInterrupt), heeded():
                pytest.fail("nobody heard")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_code_of_the_user_s_is_interrupted_where_it_is():
    beyond = []  # what is due in the end would hide a failure here
    with pytest.raises(KeyboardInterrupt), heeded(), at_once():
        press()
        beyond.append("nobody heard")
    with pytest.raises(KeyboardInterrupt), heeded():
        press()
        with at_once():
            beyond.append("what was due was not delivered")
    assert beyond == []


def test_what_a_callback_calls_of_ours_is_not():
    with pytest.raises(KeyboardInterrupt), heeded(), at_once():
        reached = False
        with heeded():
            press()
            reached = True
        assert reached
        safe_place()


def test_who_trains_takes_the_first_ctrl_c_and_not_the_second():
    with Interrupts() as own:
        press()
        safe_place()
        assert own.seen
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press(2)
        safe_place()


def test_a_second_ctrl_c_in_another_fit_raises_if_it_comes_soon(monkeypatch):
    for soon in (False, True):
        monkeypatch.setattr(interrupts, "AGAIN", math.inf if soon else -1.0)
        with pytest.raises(KeyboardInterrupt) if soon else nullcontext(), Interrupts() as own:
            press()
            safe_place()
            assert own.seen


def test_ctrl_c_before_a_part_of_the_work_begins_ends_that_too():
    with Interrupts() as whole:
        press()
        with Interrupts() as part:
            assert part.seen
        with Interrupts(anew=True) as other:
            assert not other.seen
        assert whole.seen


def test_a_ctrl_c_that_came_too_late_to_be_seen_raises():
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()


def test_the_first_ctrl_c_raises_in_a_process_of_a_pool(monkeypatch):
    beyond = []
    monkeypatch.setattr(interrupts, "parent_process", multiprocessing.current_process)
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()
        safe_place()
        beyond.append("it was taken for the training's own")
    assert beyond == []


def test_work_that_changes_nothing_is_left_off_at_the_first_ctrl_c_and_raises_at_the_second():
    def work(presses):
        press(presses)
        done.append("pressed")
        safe_place()
        done.append("at its end")
        return "all"

    done = []
    with Interrupts() as own:
        assert unless_told(lambda: work(0)) == "all"
        assert not told()
        assert unless_told(lambda: work(1)) is None
        assert told()
        assert own.seen
        assert unless_told(lambda: work(0)) is None  # not begun
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        unless_told(lambda: work(2))
    assert done == ["pressed", "at its end", "pressed", "pressed"]


def test_what_a_work_that_may_be_left_off_trains_hears_of_it_by_its_flag():
    def work():
        with Interrupts() as own:
            press()
            safe_place()
            seen.append(own.seen)
        safe_place()
        pytest.fail("who is around has heard it, too")

    seen = []
    with Interrupts():
        assert unless_told(work) is None
    assert seen == [True]


@pytest.mark.parametrize("thread", [False, True])
def test_work_is_left_off_when_its_time_is_up_in_each_thread(thread, monkeypatch):
    def work(until):
        for _ in range(5):
            clock.append(0)
            safe_place()
        return until

    def each():
        safe_place()  # out of time, and nothing that may be left off
        seen.append(unless_told(lambda: work(0)))
        with limited(len(clock) + 3):
            seen.extend((unless_told(lambda: work(1)), unless_told(lambda: work(2))))
            with limited(math.inf):  # another's, within
                seen.append(unless_told(lambda: work(3)))
            seen.append(unless_told(lambda: work(5)))  # the limit around is there again
        seen.append(unless_told(lambda: work(4)))

    clock, seen = [], []
    monkeypatch.setattr(time, "perf_counter", lambda: len(clock))
    if thread:
        other = threading.Thread(target=each)
        other.start()
        other.join()
    else:
        each()
    assert seen == [0, None, None, 3, None, 4]
    assert len(clock) == 5 + 3 + 5 + 5


def test_other_threads_leave_signals_alone():
    found, before = [], signal.getsignal(signal.SIGINT)

    def work():
        with Interrupts() as own, at_once():
            safe_place()
            found.append((own.seen, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, True)]


def test_ctrl_c_in_a_callback_of_the_compiler_is_not_lost():
    @dispatch.compiled
    def doubled(x):
        return x + x

    class Press(numba.core.event.Listener):
        def on_start(self, event):
            press()

        def on_end(self, event):
            pass

    with pytest.raises(KeyboardInterrupt), numba.core.event.install_listener("numba:llvm_lock", Press()):
        doubled(1.0)
    assert doubled(2.0) == 4.0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a descriptor that gets a byte for each signal")
def test_each_ctrl_c_counts_while_no_python_code_runs(monkeypatch):
    monkeypatch.setattr(interrupts, "AGAIN", 3.0)
    raise_signal = ctypes.CDLL(None)["raise"]

    def presses(times):
        with each_press(), each_press():  # loops are compiled within others
            list(map(raise_signal, [signal.SIGINT] * times))  # no step of Python between two presses

    monkeypatch.setattr(interrupts, "_last_press", -math.inf)
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    try:
        with Interrupts() as pressed:
            presses(1)
            assert pressed.seen
        monkeypatch.setattr(interrupts, "_last_press", -math.inf)
        with pytest.raises(KeyboardInterrupt), Interrupts() as pressed:
            presses(2)
            safe_place()
        assert pressed.seen
        assert signal.set_wakeup_fd(before) == write
        assert os.read(read, 9) == bytes([signal.SIGINT] * 3)  # who else counts signals gets them too
    finally:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


def returned(kind):
    """All types in what a loop returns."""
    yield kind
    for part in kind if isinstance(kind, types.BaseTuple) else ():
        yield from returned(part)


def test_no_loop_returns_what_python_code_makes_an_object_of(rng):
    """Numba calls a NamedTuple's class: a handler that raises there would end the process."""
    X, y = rng.normal(size=(80, 3)), rng.integers(2, size=80)
    for model in (wm.SVC(), wm.LinearSVC(random_state=0), wm.LinearSVC(solver="simba", max_iter=2, random_state=0)):
        model.fit(X, y)
    modules = [module for name, module in sys.modules.items() if name.startswith("widemargin.")]
    loops = [each for module in modules for each in vars(module).values() if hasattr(each, "nopython_signatures")]
    kinds = [kind for loop in loops for made in loop.nopython_signatures for kind in returned(made.return_type)]
    assert kinds
    assert not [kind for kind in kinds if isinstance(kind, types.BaseNamedTuple)]


def test_ctrl_c_after_the_loop_still_says_so(rng):
    """What comes after the loop, such as the certificate, is a part of the fit."""
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)

    class Late(wm.SVC):
        def _adopt(self, *given):
            super()._adopt(*given)
            press()

    model = Late().fit(X, y)
    assert model.stop_reason_ == "interrupted"
    assert model.support_.size


def test_ctrl_c_between_the_machines_of_a_path_ends_the_path(rng):
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    pressed = []

    def once(progress):
        if not pressed:
            pressed.append(press())

    models = wm.svm_path(X, y, [0.1, 1.0, 10.0], callbacks=once)
    assert [model.stop_reason_ for model in models] == ["interrupted"]


def test_ctrl_c_while_predicting_raises(rng, monkeypatch):
    X = rng.normal(size=(60, 3))
    model = wm.SVC().fit(X, rng.integers(2, size=60))
    scored = KernelModel.decision_function

    def pressed(self, rows, **options):
        press()
        return scored(self, rows, **options)

    monkeypatch.setattr(KernelModel, "decision_function", pressed)
    with pytest.raises(KeyboardInterrupt):
        model.predict(X)


class Waiting:
    """Rows of a matrix; the third one never comes, but for a Ctrl-C that ends the wait."""

    def __init__(self, X, presses):
        self.X, self.shape, self.presses, self.asked = X, X.shape, presses, 0

    def row(self, i):
        self.asked += 1
        if self.asked == 3:
            press(self.presses)
            pytest.fail("nobody heard")
        return self.X[i]

    def column(self, j):
        return self.X[:, j]


@pytest.mark.parametrize("made", ["fit", "predict"])
def test_a_source_that_hangs_is_ended_by_ctrl_c(made, rng):
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    if made == "fit":
        with pytest.raises(KeyboardInterrupt):
            wm.LinearSVC(solver="simba", random_state=0).fit(Waiting(X, 2), y)
    else:
        model = wm.LinearSVC(random_state=0).fit(X, y)
        with pytest.raises(KeyboardInterrupt):
            model.predict(Waiting(X, 1))


@pytest.mark.parametrize("made", ["fit", "predict"])
def test_a_kernel_function_that_hangs_is_ended_by_ctrl_c(made, rng):
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    hangs = []

    def kernel(A, B):
        if hangs:
            press(hangs[0])
            pytest.fail("nobody heard")
        return A @ B.T

    model = wm.SVC(kernel=kernel)
    if made == "predict":
        model.fit(X, y)
    hangs.append(2 if made == "fit" else 1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y) if made == "fit" else model.predict(X)


def test_signals_wait_from_the_first_look_for_machine_code_to_the_last(monkeypatch):
    """One that raises while LLVM's lock is taken would leave it taken, and other threads would wait for good."""
    machine = pytest.importorskip("widemargin.core.borrowing.machine")
    own, seen = signal.getsignal(signal.SIGINT), []
    note = lambda *_: seen.append(signal.getsignal(signal.SIGINT))  # noqa: E731
    monkeypatch.setattr(machine.rtsys, "initialize", note)
    codegen = SimpleNamespace(magic_tuple=note)
    shelf = SimpleNamespace(load=note, save=note)
    cache = machine._Cache(shelf)
    cache.load_overload((), SimpleNamespace(codegen=lambda: codegen))
    library = SimpleNamespace(has_dynamic_globals=False)
    cache.save_overload((), SimpleNamespace(lifted=(), library=library, codegen=codegen))
    assert len(seen) == 5
    assert own not in seen
    assert signal.getsignal(signal.SIGINT) is own
