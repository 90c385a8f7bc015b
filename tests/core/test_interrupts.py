"""Signals within our loops: none is raised but at a safe place, and none is lost."""

# ruff: noqa: PT012 – how far a block comes is what is tested

import math
import multiprocessing
import signal
import sys
import threading
from contextlib import nullcontext

import numba
import pytest
from numba import types

import widemargin as wm
from widemargin.core import dispatch, interrupts
from widemargin.core.interrupts import Interrupts, at_once, heeded, safe_place
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


def test_code_of_the_user_s_is_interrupted_where_it_is():
    with pytest.raises(KeyboardInterrupt), heeded(), at_once():
        press()
        pytest.fail("nobody heard")
    with pytest.raises(KeyboardInterrupt), heeded():
        press()
        with at_once():
            pytest.fail("what was due was not delivered")


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
    monkeypatch.setattr(interrupts, "parent_process", multiprocessing.current_process)
    with pytest.raises(KeyboardInterrupt), Interrupts():
        press()
        safe_place()


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
