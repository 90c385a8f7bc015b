"""BLAS has one thread while a machine is trained, whoever else trains one, and its own number before and after."""

import os
import signal
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

from widemargin import (
    SVC,
    BudgetedSGD,
    BudgetedSVC,
    IncrementalSVC,
    LinearSVC,
    Pegasos,
    svm_grid,
    svm_path,
)  # fmt: skip
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses.losses import Hinge, Single
from widemargin.core.rows.rows import as_rows
from widemargin.core.threads import blas
from widemargin.core.threads.blas import all_blas_threads, one_blas_thread
from widemargin.problems.kernel import KernelProblem
from widemargin.running import run
from widemargin.solvers import interior

THREADS, begin = 2, SVC._begin


def counts():
    """The threads of each library."""
    return {library.get_num_threads() for library in blas._libraries()}


@pytest.fixture(autouse=True)
def several():
    """The libraries have several threads."""
    before = [(library, library.get_num_threads()) for library in blas._libraries()]
    for library, _ in before:
        library.set_num_threads(THREADS)
    if counts() != {THREADS}:
        pytest.skip("there is no BLAS whose threads can be told")
    yield
    assert counts() == {THREADS}
    for library, threads in before:
        library.set_num_threads(threads)


@pytest.mark.parametrize("model", [SVC(), LinearSVC(), LinearSVC(solver=Pegasos())])
def test_a_fit_has_one_thread_of_blas(model, rng):
    seen = []
    model.set_params(callbacks=lambda progress: seen.append(counts())).fit(rng.normal(size=(40, 3)), np.arange(40) % 2)
    assert seen
    assert all(found == {1} for found in seen)


@pytest.mark.parametrize("model", [LinearSVC(), IncrementalSVC(), BudgetedSVC()])
def test_so_has_a_part_of_a_stream(model, rng, monkeypatch):
    given, give = [], blas._give
    monkeypatch.setattr(blas, "_give", lambda threads: given.append(threads) or give(threads))
    model.partial_fit(rng.normal(size=(4, 3)), np.arange(4) % 2, classes=[0, 1])
    assert given == [1, None]


def test_paths_and_grids_have_one_thread_from_the_start(rng, monkeypatch):
    seen, X, y = [], rng.normal(size=(40, 3)), np.arange(40) % 2
    monkeypatch.setattr(SVC, "_begin", lambda *given: seen.append(counts()) or begin(*given))
    for call in (lambda: svm_path(X, y, [1.0]), lambda: svm_grid(X, y, [1.0], gammas=[1.0], cv=2)):
        call()
    assert len(seen) == 3
    assert all(found == {1} for found in seen)


def test_a_run_without_an_estimator_has_one_thread_too(rng):
    seen, rows, y = [], as_rows(rng.normal(size=(40, 3))), np.where(np.arange(40) % 2, 1.0, -1.0)
    problem = KernelProblem(RBF(1.0), rows, y, Single(Hinge()), 1e-3, intercept="none")
    run(BudgetedSGD(budget=20), problem, rng=rng, max_epochs=1, callbacks=[lambda progress: seen.append(counts())])
    assert seen
    assert all(found == {1} for found in seen)


def test_a_step_that_fails_leaves_one_thread_to_the_fits_under_way():
    with one_blas_thread():
        with pytest.raises(OSError, match="full"), all_blas_threads():
            raise OSError("full")
        assert counts() == {1}


def test_a_fit_that_fails_leaves_the_threads_as_they_were(rng):
    def fail(progress):
        assert counts() == {1}
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        SVC(callbacks=fail).fit(rng.normal(size=(40, 3)), np.arange(40) % 2)


def test_many_equations_are_worth_all_threads(rng, monkeypatch):
    seen, equations = [], interior.Equations
    monkeypatch.setattr(interior, "Equations", lambda *given: seen.append(counts()) or equations(*given))
    for wide, found in ((2, {THREADS}), (5, {1})):  # w has a bias, too
        monkeypatch.setattr(interior, "WIDE", wide)
        seen.clear()
        LinearSVC(solver="interior").fit(rng.normal(size=(40, 3)), np.arange(40) % 2)
        assert seen
        assert all(each == found for each in seen)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_whoever_leaves_last_gives_the_threads_back(order):
    fits = [ExitStack(), ExitStack()]
    for each in fits:
        each.enter_context(one_blas_thread())
        assert counts() == {1}
    fits[order[0]].close()
    assert counts() == {1}
    with all_blas_threads():
        assert counts() == {THREADS}
    assert counts() == {1}
    fits[order[1]].close()
    assert counts() == {THREADS}


def test_outside_of_a_fit_nothing_is_given_or_taken():
    with all_blas_threads():
        assert counts() == {THREADS}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_process_forked_while_another_thread_has_the_lock_can_train():
    taken, leave = threading.Event(), threading.Event()

    def hold():
        with blas._lock:
            taken.set()
            leave.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # or it would wait for ever
        with one_blas_thread():
            os._exit(0)
    leave.set()
    holder.join()
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        time.sleep(0.01)
    assert ended[1] == 0
