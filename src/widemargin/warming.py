"""Compiling ahead: small fits of the real estimators, in processes of their own, fill the folder of machine code."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.spawn import get_executable
from typing import Any, NamedTuple

import joblib
import numpy as np
import scipy.sparse as sp
from numba import config
from sklearn.base import BaseEstimator, clone, is_classifier

from .arguments import one_of, threads
from .core.compiling.machine_code import folders
from .core.compiling.notice import compilations
from .estimators.budgeted import BudgetedSVC, BudgetedSVR
from .estimators.incremental import IncrementalSVC
from .estimators.kernel import SVC, SVR
from .estimators.linear import LinearSVC, LinearSVR

#: What is compiled by name; those that take longest come first.
NAMED: dict[str, Callable[[], Any]] = {
    "BudgetedSVC": BudgetedSVC,
    "IncrementalSVC": IncrementalSVC,
    "LinearSVC": LinearSVC,
    "SVC": SVC,
    "BudgetedSVR": BudgetedSVR,
    "LinearSVR": LinearSVR,
    "StochasticBatchPerceptron": lambda: SVC(solver="sbp"),
    "SVR": SVR,
}
DTYPES = "float64", "float32"
LAYOUTS = "dense", "sparse"

#: Fits that end early, kernel rows that find no room, and threads take other loops than fits that go well on one.
VARIANTS: tuple[dict[str, Any], ...] = ({}, {"max_iter": 1}, {"cache_size": 1e-3, "n_jobs": 2})
#: What solver="auto" of a linear machine may be, beside what it is on little data.
ELSEWHERE: dict[str, Any] = {"solver": "interior"}


class Warmed(NamedTuple):
    """What one part of a warm-up took, which :func:`widemargin.warmup` returns for each of them.

    Attributes
    ----------
    compiled : int
        The number of loops that were not on disk.
    seconds : float
        The time that the part took.

    Examples
    --------
    >>> from widemargin.warming import Warmed
    >>> done = {"SVC, float64, dense": Warmed(compiled=12, seconds=20.5)}
    >>> sum(part.compiled for part in done.values())
    12
    """

    compiled: int
    seconds: float


class _Part(NamedTuple):
    """An estimator on one kind of data."""

    title: str
    estimator: Any
    dtype: str
    layout: str


def warmup(
    estimators: Any = None,
    *,
    dtypes: str | Iterable[str] = DTYPES,
    layouts: str | Iterable[str] = LAYOUTS,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> dict[str, Warmed]:
    """Compile what fits and predictions need, so that later processes start at once.

    Processes of their own fit the estimators to a few examples. What is on disk already is not compiled
    again. Of kernels, losses and solvers those by default are compiled; give an estimator with other
    parameters for others.

    Parameters
    ----------
    estimators : str, estimator, several of them or None, default=None
        Names of estimators or "StochasticBatchPerceptron", for default parameters, or estimators such
        as ``SVC(kernel="poly")``, which are not changed. None takes all names.
    dtypes : str or several of them, default=("float64", "float32")
        The types of the data.
    layouts : str or several of them, default=("dense", "sparse")
        The layouts of the data.
    n_jobs : int or None, default=None
        The number of processes at a time, each of up to 0.8 GB. None and −1 take as many as there are
        processors.
    verbose : int, default=0
        1 writes a line to standard error for each part.

    Returns
    -------
    dict of str to Warmed
        For each estimator and kind of data ``compiled``, how many loops were not on disk, and
        ``seconds``.

    Examples
    --------
    >>> import widemargin
    >>> done = widemargin.warmup("LinearSVC", dtypes="float64", layouts="dense")
    >>> list(done)
    ['LinearSVC, float64, dense']
    """
    parts = _parts(NAMED if estimators is None else estimators, dtypes, layouts)
    processes = min(joblib.cpu_count() if n_jobs is None else threads(n_jobs), len(parts))
    if not parts:
        raise ValueError("warmup has nothing to compile: name estimators, dtypes and layouts, or leave them out")
    if folders(config.CACHE_DIR).written is None:
        advice = "set NUMBA_CACHE_DIR to a folder that can be written"
        raise RuntimeError(f"warmup finds no folder to keep machine code in: {advice}")
    done: dict[str, Warmed] = {}
    for part, warmed in _run(parts, processes):
        done[part.title] = warmed
        if verbose:
            loops = f"{warmed.compiled} loops compiled" if warmed.compiled else "nothing to compile"
            print(
                f"widemargin.warmup: {part.title}: {loops}, {warmed.seconds:.1f} s ({len(done)} of {len(parts)})",
                file=sys.stderr,
                flush=True,
            )
    return {part.title: done[part.title] for part in parts}


def _parts(estimators: Any, dtypes: str | Iterable[str], layouts: str | Iterable[str]) -> list[_Part]:
    """Each estimator on each kind of data. Neighbours are of one kind: their loops have less in common than those of
    one estimator, so that two processes seldom compile the same loop.
    """
    kinds = [
        (one_of("dtypes", dtype, DTYPES), one_of("layouts", layout, LAYOUTS))
        for layout in _several(layouts)
        for dtype in _several(dtypes)
    ]
    titled = [_titled(each) for each in _several(estimators)]
    return [
        _Part(f"{title}, {dtype}, {layout}", estimator, dtype, layout)
        for dtype, layout in kinds
        for title, estimator in titled
    ]


def _several(given: Any) -> list[Any]:
    """One thing or several, as a list."""
    return [given] if isinstance(given, (str, BaseEstimator)) or not isinstance(given, Iterable) else list(given)


def _titled(given: Any) -> tuple[str, Any]:
    """An estimator, and what it is called, from a name or an estimator."""
    if isinstance(given, BaseEstimator) and type(given).__module__.startswith("widemargin."):
        return repr(given), clone(given)
    if not isinstance(given, str) or given not in NAMED:
        known = ", ".join(map(repr, sorted(NAMED)))
        raise ValueError(f"estimators must be among {known}, or estimators of widemargin, got {given!r}")
    return given, NAMED[given]()


# ---------------------------------------------------------------- processes


def _run(parts: list[_Part], processes: int) -> Iterator[tuple[_Part, Warmed]]:
    """The parts as they are done, shared out to processes."""
    if getattr(sys, "frozen", False) or not get_executable():
        yield from ((part, _warm(part)) for part in parts)  # no interpreter of its own that could be started
        return
    done: queue.SimpleQueue[tuple[_Part, Warmed | str]] = queue.SimpleQueue()
    children = []
    try:
        for k in range(processes):
            children.append(_started())
            threading.Thread(target=_ask, args=(children[-1], parts[k::processes], done), daemon=True).start()
        for _ in parts:
            part, warmed = done.get()
            if isinstance(warmed, str):
                raise RuntimeError(f"warmup of {part.title}{warmed}")
            yield part, warmed
    finally:
        for child in children:
            child.kill()
            child.wait()


def _started() -> subprocess.Popen[bytes]:
    """A Python process that warms parts.

    It is started as a program of its own, for those of :mod:`multiprocessing` need a main module that can be imported,
    which prompts, notebooks and scripts without a guard have not.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.Popen(
        [os.fsdecode(get_executable()), "-P", "-W", "ignore", "-c", f"from {__name__} import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **one_thread, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": config.CACHE_DIR},
    )


def _ask(child: Any, parts: list[_Part], done: queue.SimpleQueue) -> None:
    """Put each part with what a process says of it: what the part took, or how it failed."""
    with contextlib.suppress(OSError):
        pickle.dump(parts, child.stdin)
        child.stdin.close()
    for part in parts:
        answer = child.stdout.readline()
        if not answer:
            last = (child.stderr.read().decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            status = f": the process ended with status {child.wait()} ({last})"
            done.put((part, f"{status}; fewer at a time, by n_jobs, take less memory"))
            return
        found = json.loads(answer)
        done.put((part, f" failed: {found['failed']}" if "failed" in found else Warmed(**found)))


def serve() -> None:
    """What a process does: it reads parts from standard input, and writes a line for each to standard output."""
    answers = sys.stdout
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 – estimators may print, and a pipe has an end
    for part in pickle.load(sys.stdin.buffer):
        try:
            answer = _warm(part)._asdict()
        except Exception as failure:
            answer = {"failed": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(answer), file=answers, flush=True)


# ---------------------------------------------------------------- small fits


def _warm(part: _Part) -> Warmed:
    """Fit, go on and predict, on little data of the kind, of two classes and of three, whose pairs have one run."""
    rng, since = np.random.default_rng(0), time.perf_counter()
    n = 240  # of fewer, buffers would not grow
    X = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.5)
    y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    classes = [np.digitize(y, np.quantile(y, cuts)) for cuts in ([0.5], [0.3, 0.6])]
    X = X.astype(part.dtype)
    if part.layout == "sparse":
        X = sp.csr_matrix(X)
    with compilations() as count:
        for target in classes if is_classifier(part.estimator) else [y]:
            for variant in VARIANTS:
                _use(part.estimator, X, target, variant)
            if isinstance(part.estimator, (LinearSVC, LinearSVR)) and part.estimator.solver == "auto":
                with contextlib.suppress(ValueError):  # where "auto" cannot be this one either
                    _use(part.estimator, X, target, ELSEWHERE)
    return Warmed(count.loops, time.perf_counter() - since)


def _use(estimator: Any, X: Any, y: np.ndarray, variant: dict[str, Any]) -> None:
    model = clone(estimator)
    known = model.get_params(deep=False)
    if not set(variant) <= set(known):
        return
    if known.get("budget") is not None:
        variant = {**variant, "budget": min(known["budget"], 20)}  # vectors are merged once there are more
    model.set_params(**variant, random_state=0).fit(X, y).predict(X)
    if hasattr(model, "partial_fit"):
        with contextlib.suppress(ValueError):  # some options are for fit alone
            model.partial_fit(X, y).predict(X)
