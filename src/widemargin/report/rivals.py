"""scikit-learn's estimators in a process of their own; they take no time limit, so it is killed at the limit."""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .results import Examples, Result, describe

#: The most epochs of SGD. Its own stopping rule needs the training loss, which ``partial_fit`` does not compute.
EPOCHS = 100


def run(result: Result, estimator: Any, examples: Examples, max_seconds: float) -> None:
    """Train a rival for at most ``max_seconds``, and fill in its result."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, max_seconds), daemon=True)
    with _children_ignore_ctrl_c():
        process.start()
    theirs.close()
    try:
        ours.send((estimator, examples))
        _listen(ours, result, max_seconds)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        process.join()
        result.stop_reason = f"failed: its process ended with status {process.exitcode}"
    finally:
        process.kill()
        process.join()
        ours.close()


def _listen(pipe: Any, result: Result, max_seconds: float) -> None:
    """Fill in the result from the messages of the process, until it is done or its training reaches the limit."""
    deadline: float | None = None
    while True:
        left = None if deadline is None else max(0.0, deadline - time.perf_counter())
        if not pipe.poll(left):
            result.stop_reason, result.seconds = "not finished", max_seconds
            return
        word, said = pipe.recv()
        if word == "begins":
            deadline = time.perf_counter() + max_seconds
        elif word == "trained":
            deadline = None  # the time to measure does not count
        elif word == "failed":
            raise ValueError(said)
        else:
            vars(result).update(said)
            return


def serve(pipe: Any, max_seconds: float) -> None:
    """The work of the process: receive an estimator, train it, and send back its result."""
    estimator, examples = pipe.recv()
    result = Result("")
    warnings.simplefilter("ignore")
    try:
        if hasattr(estimator, "partial_fit"):
            _in_epochs(result, estimator, examples, max_seconds)
        else:
            pipe.send(("begins", None))
            since = time.perf_counter()
            estimator.fit(examples.X, examples.y)
            result.seconds = time.perf_counter() - since
            pipe.send(("trained", None))
            most = getattr(estimator, "max_iter", -1)  # −1 where there is no limit
            result.stop_reason = "max_iter" if 0 < most <= np.max(getattr(estimator, "n_iter_", 0)) else "tol"
        describe(result, estimator, examples)
    except Exception as bad:
        pipe.send(("failed", " ".join(str(bad).split())))
        return
    said = {name: value for name, value in vars(result).items() if name != "name"}
    pipe.send(("done", said))


def _in_epochs(result: Result, estimator: Any, examples: Examples, max_seconds: float) -> None:
    """Train in epochs, each in a new order, and measure the error after 1, 2, 4, 8 … of them, off the clock."""
    rng, epochs, checkpoint = np.random.default_rng(0), 0, 1
    classes = {"classes": np.unique(examples.y)} if examples.labels else {}
    result.stop_reason = "max_iter"
    while epochs < EPOCHS:
        since = time.perf_counter()
        order = rng.permutation(examples.n)
        estimator.partial_fit(examples.X[order], examples.y[order], **classes)
        result.seconds += time.perf_counter() - since
        epochs += 1
        if result.seconds >= max_seconds:
            result.stop_reason = "max_seconds"
            return
        if epochs == checkpoint < EPOCHS:
            result.curve.append((result.seconds, examples.error(estimator.predict(examples.test_X))))
            checkpoint *= 2


@contextmanager
def _children_ignore_ctrl_c() -> Iterator[None]:
    """Let processes that start in this block ignore Ctrl-C, because the process that starts them ends them.

    The block is in the main thread, as the command is.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
