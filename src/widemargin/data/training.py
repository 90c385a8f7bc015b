"""Training on data that does not fit in memory: chunk after chunk through ``partial_fit``, epoch after epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
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
    """Where training on a source stands; what callbacks of :func:`train` get after each chunk.

    Attributes
    ----------
    model : estimator
        The model, with what it has learnt by then.
    epochs : int
        The number of epochs begun.
    rows : int
        The number of examples seen in all of them.
    seconds : float
        The time since the beginning.

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

    The model goes on from where it is. Ctrl-C, or the time limit, ends training after the examples learnt by then;
    after Ctrl-C its ``stop_reason_`` is "interrupted".

    Parameters
    ----------
    model : estimator with ``partial_fit``
        The model, of this library or of scikit-learn. Where λ is 1/(C n), n is the number of rows of the source, and
        not of those seen so far, as it is in ``partial_fit``.
    source : ChunkedSource, or what :func:`open_data` takes
        The data.
    epochs : int, default=1
        The number of passes over the data.
    shuffle : bool, default=True
        Whether each epoch has its own random order, that of :meth:`ChunkedSource.shuffled`.
    classes : array or None, default=None
        All labels, of a classifier. If they are not given, a first pass over the source finds them.
    max_seconds : float or None, default=None
        A wall-clock limit, which is looked at after each chunk.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers, which makes the orders. The same integer makes the same orders again.
    callbacks : callable or None, default=None
        A function that is called with a :class:`Passed` after each chunk. A true answer ends training.

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
    whole("epochs", epochs)
    flag("shuffle", shuffle)
    limit = float("inf") if max_seconds is None else positive("max_seconds", max_seconds)
    source, rng, started = open_data(source), generator(random_state), time.perf_counter()
    _check(model, source, epochs)
    options, rows, lam = _options(model, source, classes), 0, None
    try:
        lam = _lam(model, source)
        if lam is not None:
            model.set_params(lam=lam)
        for epoch in range(epochs):
            for X, y, *_ in source.shuffled(rng) if shuffle else source:
                model.partial_fit(X, y, **options)
                rows += y.shape[0]
                passed = Passed(model, epoch + 1, rows, time.perf_counter() - started)
                if passed.seconds >= limit or (callbacks is not None and callbacks(passed)):
                    return model
    except KeyboardInterrupt:
        if rows == 0 and not _is_fitted(model):
            raise
        model.stop_reason_ = "interrupted"
        return model
    finally:
        if lam is not None:
            model.set_params(lam=None)
    if rows == 0:
        raise ValueError(f"{source.name} holds no examples")
    return model


def _is_fitted(model: Any) -> bool:
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError):
        return False
    return True


def _check(model: Any, source: ChunkedSource, epochs: int) -> None:
    """Refuse what cannot be trained so."""
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
    """What ``partial_fit`` is told beside the chunks: all classes, where it takes them."""
    if "classes" not in signature(model.partial_fit).parameters:
        return {}
    if classes is None:
        classes = getattr(model, "classes_", None)
    if classes is None:
        classes = source.summary().labels
        if classes is None:
            raise ValueError(f"{source.name} has more than ten thousand labels: are these numbers to be predicted?")
    return {"classes": np.asarray(classes)}


def _lam(model: Any, source: ChunkedSource) -> float | None:
    """λ of all rows, for models whose λ is 1/(C n) with n the examples seen so far."""
    known = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    if known.get("lam", 0) is not None or "C" not in known or hasattr(model, "unlearn") or not source.again:
        return None
    return 1.0 / (float(known["C"]) * source.summary().n_rows)
