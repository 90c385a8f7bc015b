"""Training on data that does not fit in memory: each chunk goes through ``partial_fit``, for one or more epochs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..arguments import flag, generator, positive, whole
from .chunks import ChunkedSource
from .opening import open_data


@dataclass
class Passed:
    """The progress of training on a source, which callbacks of :func:`train` get after each chunk.

    Attributes
    ----------
    model : estimator
        The model, trained so far.
    epochs : int
        The number of epochs begun.
    rows : int
        The number of examples seen in all epochs.
    seconds : float
        The time since training began.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVC
    >>> from widemargin.data import InMemory, train
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> source = InMemory(X, X[:, 0] > 0, max_memory="50 kB")
    >>> seen = []
    >>> _ = train(LinearSVC(random_state=0), source, random_state=0, callbacks=lambda passed: seen.append(passed.rows))
    >>> seen[-1]
    1000
    """

    model: Any
    epochs: int
    rows: int
    seconds: float


def train(
    model: Any,
    source: Any,
    *,
    epochs: int = 1,
    shuffle: bool = True,
    classes: Any = None,
    max_seconds: float | None = None,
    random_state: Any = None,
    callbacks: Callable[[Passed], Any] | None = None,
) -> Any:
    """Train a model with ``partial_fit`` on a source of chunks, in the memory that the source may take.

    A fitted model continues training. Ctrl-C keeps what was learnt, and ``stop_reason_`` is then "interrupted".

    Parameters
    ----------
    model : estimator with ``partial_fit``
        The model, of this library or of scikit-learn. In λ = 1/(C n), n is the number of rows of the whole source.
    source : ChunkedSource, or what :func:`open_data` takes
        The data.
    epochs : int, default=1
        The number of passes over the data.
    shuffle : bool, default=True
        Whether each epoch has a random order of its own, by :meth:`ChunkedSource.shuffled`.
    classes : array or None, default=None
        All labels of a classifier. If they are not given, a first pass over the source finds them.
    max_seconds : float or None, default=None
        A wall-clock limit, which is checked after each chunk.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers for the orders. The same integer gives the same orders again.
    callbacks : callable or None, default=None
        A function that is called with a :class:`Passed` after each chunk. It ends training by returning True.

    Returns
    -------
    estimator
        The model itself.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVC
    >>> from widemargin.data import InMemory, train
    >>> X = np.random.default_rng(0).normal(size=(2000, 5))
    >>> source = InMemory(X, X[:, 0] > 0, max_memory="50 kB")
    >>> model = train(LinearSVC(C=1.0, random_state=0), source, epochs=5, random_state=0)
    >>> bool(model.score(X, X[:, 0] > 0) > 0.95)
    True
    """
    limit = math.inf if max_seconds is None else positive("max_seconds", max_seconds)
    source, rng, started = open_data(source), generator(random_state), time.perf_counter()
    _check(model, source, epochs, shuffle)
    options = _options(model, source, classes)
    passes = _passes(model, source, epochs, rng if shuffle else None, options, started)
    _learn(model, source, passes, lambda passed: passed.seconds >= limit or (callbacks and callbacks(passed)))
    return model


def _learn(model: Any, source: ChunkedSource, passes: Iterator[Passed], end: Callable[[Passed], Any]) -> None:
    """Go through the passes until ``end`` says so. Ctrl-C is a stop reason, unless nothing is learnt yet."""
    passed = None
    try:
        with _with_lam_of(model, source):
            for passed in passes:
                if end(passed):
                    return
    except KeyboardInterrupt:
        if passed is None and not is_fitted(model):
            raise
        model.stop_reason_ = "interrupted"


def _passes(
    model: Any, source: ChunkedSource, epochs: int, rng: Any, options: dict[str, Any], started: float
) -> Iterator[Passed]:  # fmt: skip
    """Train on all chunks, in the order of the source if there is no ``rng``; yields after each chunk."""
    rows = 0
    for epoch in range(epochs):
        for X, y, *_ in source if rng is None else source.shuffled(rng):
            model.partial_fit(X, y, **options)
            rows += y.shape[0]
            yield Passed(model, epoch + 1, rows, time.perf_counter() - started)
    if rows == 0:
        raise ValueError(f"{source.name} holds no examples")


def is_fitted(model: Any) -> bool:
    """Whether a model has learnt anything."""
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return False
    return True


def _check(model: Any, source: ChunkedSource, epochs: int, shuffle: bool) -> None:
    """Refuse models and sources that chunks cannot be trained with."""
    whole("epochs", epochs)
    flag("shuffle", shuffle)
    if not hasattr(model, "partial_fit"):
        raise TypeError(
            f"{model!r} has no partial_fit, and cannot be trained on chunks: use LinearSVC (solver 'auto' or "
            "'pegasos'), BudgetedSVC or IncrementalSVC, or load the data whole"
        )
    if epochs > 1:
        if hasattr(model, "unlearn"):
            raise ValueError(
                f"epochs must be 1 for {type(model).__name__}, which counts each example once as it arrives, got "
                f"{epochs}: raise its solver's reprocess instead"
            )
        source.need_again("read for each epoch")


def _options(model: Any, source: ChunkedSource, classes: Any) -> dict[str, Any]:
    """The options of ``partial_fit``: all classes, if it takes them."""
    if "classes" not in signature(model.partial_fit).parameters:
        return {}
    if classes is None:
        classes = getattr(model, "classes_", None)
    if classes is None:
        classes = source.summary().labels
        if classes is None:
            raise ValueError(f"{source.name} has more than ten thousand labels: are these numbers to be predicted?")
    return {"classes": np.asarray(classes)}


@contextmanager
def _with_lam_of(model: Any, source: ChunkedSource) -> Iterator[None]:
    """Set λ = 1/(C n) with n the rows of the whole source, for models that would take the rows seen so far."""
    known = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    if known.get("lam", 0) is not None or "C" not in known or hasattr(model, "unlearn") or not source.again:
        yield
        return
    model.set_params(lam=1.0 / (float(known["C"]) * source.summary().n_rows))
    try:
        yield
    finally:
        model.set_params(lam=None)
