"""Dask collections as the examples of parts: blocks of rows on the workers, and a summary of each.

A part is one chunk, or several neighbouring chunks. The parts depend on the chunks of the data and not on the cluster,
and so does the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import scipy.sparse as sp

from ..core.rows.rows import checked_sparse, unlocked
from ..core.threads.interrupts import at_once
from ..estimators.fit.labels import weights_that_tell_apart
from ..files import digest
from ..problems.layout import largest_entry

#: Data with at most so many features is narrow: its number of steps does not grow with the number of parts.
NARROW = 1000
#: The most parts of narrow data.
MOST_NARROW_PARTS = 2048
#: The most parts of wide data, whose number of rounds grows with the number of parts.
MOST_PARTS = 64


def client_of(client: Any) -> Any:
    """The client given, or the current one."""
    if client is not None:
        if not hasattr(client, "scheduler_info"):
            raise TypeError(f"client must be a distributed.Client, got {client!r}: give distributed.Client(address)")
        return client
    try:
        return distributed.get_client()
    except ValueError as error:
        raise ValueError(
            "there is no Dask client: make one, such as client = distributed.Client(), or give one as client="
        ) from error


def columns_of(X: Any) -> list[str] | None:
    """The names of the features of a frame, if all are texts."""
    names = list(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def as_array(values: Any, name: str) -> Any:
    """A Dask array of a collection; frames become arrays with chunks of unknown sizes."""
    if hasattr(values, "to_dask_array"):
        values = values.to_dask_array()
    if not isinstance(values, da.Array):
        raise TypeError(
            f"{name} must be a Dask array or frame, got {type(values).__name__}: use dask.array.from_array or "
            "dask.dataframe.from_pandas, or the estimators of widemargin itself, which are faster where data fits into "
            "memory"
        )
    return values


def rows_of(X: Any) -> Any:
    """X as a Dask array without chunks of columns."""
    X = as_array(X, "X")
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions, got {X.ndim}")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def blocks_of(values: Any, X: Any, name: str) -> list[Any]:
    """The chunks of targets or weights that belong to those of X, as delayed objects."""
    values = as_array(values, name)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must have one number for each row, got {values.ndim} dimensions")
    known = not (np.isnan(X.shape[0]) or np.isnan(values.shape[0]))
    if known:
        if values.shape[0] != X.shape[0]:
            raise ValueError(f"X and {name} must have as many rows, got {X.shape[0]} and {values.shape[0]}")
        values = values.rechunk((X.chunks[0],))
    elif values.numblocks[0] != X.numblocks[0]:
        raise ValueError(
            f"X has {X.numblocks[0]} chunks and {name} {values.numblocks[0]}, of unknown sizes: call "
            "compute_chunk_sizes() on both, or make them of one frame"
        )
    return list(values.to_delayed().ravel())


def assembled(xs: list, ys: list, weights: list, numeric: bool) -> tuple[Any, np.ndarray, np.ndarray]:
    """(X, y, weights) of a part: its chunks joined, in the layout of solvers."""
    for x, y, s in zip(xs, ys, weights or [None] * len(xs), strict=True):
        for name, values in (("y", y), ("sample_weight", s)):
            if values is not None and len(values) != x.shape[0]:
                raise ValueError(f"a chunk of X has {x.shape[0]} rows and that of {name} {len(values)}: align them")
    X = in_one([checked_sparse(x) if sp.issparse(x) else x for x in xs])
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, got {X.dtype}: encode text or categories as numbers first")
    X = X.astype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64, copy=False)
    if not sp.issparse(X):
        X = np.ascontiguousarray(X)
    elif not X.has_canonical_format:
        X = X.copy()  # the chunk may be another's
        X.sum_duplicates()
    y, s = in_one(ys), in_one(weights or [np.empty(0)])
    return X, y.astype(np.float64, copy=False) if numeric else y, unlocked(s.astype(np.float64, copy=False))


def in_one(chunks: list) -> Any:
    """Join chunks. A single one is not copied, so that a persisted collection is not in memory twice."""
    if any(map(sp.issparse, chunks)):
        return chunks[0].tocsr() if len(chunks) == 1 else sp.vstack(chunks, format="csr")
    arrays = [np.asarray(chunk) for chunk in chunks]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


@dataclass
class Summary:
    """Facts of a part: its size and type; its labels with their counts, or its largest target; its largest entry."""

    n: int
    d: int
    dtype: str
    labels: np.ndarray
    counts: np.ndarray
    largest: float
    weight: float
    entries: int
    digest: str
    sparse: bool
    weighted: bool
    entry: float


def labels_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(labels of a part, place of each example's label among them); refuses targets that are no labels."""
    try:
        labels, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError("y has labels of several kinds, or none for some rows: make all numbers, or texts") from error
    if labels.dtype.kind == "f" and np.any(labels != np.floor(labels)):
        odd = labels[labels != np.floor(labels)][0]
        raise ValueError(f"y must hold labels, got the number {odd}: use a regressor, or whole numbers")
    return labels, codes


def summarised(examples: tuple, numeric: bool, digested: bool) -> Summary:
    """The summary of a part; refuses NaN, infinite numbers and negative weights."""
    X, y, s = examples
    values = X.data if sp.issparse(X) else X
    for name, found in (("X", values), ("y", y), ("sample_weight", s)):
        if found.dtype.kind == "f" and found.size and not np.isfinite(found).all():
            raise ValueError(f"{name} has values that are NaN or infinite: fill them in or drop their rows")
    if s.size and s.min() < 0.0:
        raise ValueError(f"sample_weight must be ≥ 0, got {s.min()}")
    labels: np.ndarray = np.empty(0)
    counts: np.ndarray = labels
    largest = float(np.abs(y).max(initial=0.0)) if numeric else 1.0
    if not numeric:
        labels, codes = labels_of(y)
        counts = np.bincount(codes, s if s.size else None, labels.size)
    said = digest([X, y, s]) if digested else ""
    weight = float(s.sum()) if s.size else float(len(y))
    kind = sp.issparse(X), s.size > 0, largest_entry(X) if values.size else 0.0
    return Summary(X.shape[0], X.shape[1], str(X.dtype), labels, counts, largest, weight, values.size, said, *kind)


class Examples:
    """The examples of a fit, in parts on the workers.

    Attributes
    ----------
    parts : futures of (X, y, weights)
    n, d, dtype, weight : rows, features, type of the numbers, sum of the weights
    summaries : a :class:`Summary` for each part
    """

    def __init__(self, client: Any, X: Any, y: Any, sample_weight: Any, *, numeric: bool, digested: bool) -> None:
        self.client = client
        X = rows_of(X)
        xs = list(X.to_delayed().ravel())
        ys = blocks_of(y, X, "y")
        weights = [] if sample_weight is None else blocks_of(sample_weight, X, "sample_weight")
        most = MOST_NARROW_PARTS if X.shape[1] <= NARROW else MOST_PARTS
        ends = np.linspace(0, len(xs), min(len(xs), most) + 1).astype(int)
        together = [slice(*pair) for pair in pairwise(ends)]
        made = [dask.delayed(assembled, pure=False)(xs[k], ys[k], weights[k], numeric) for k in together]
        parts = client.compute(made)
        looks = client.map(summarised, parts, numeric=numeric, digested=digested, pure=False)
        found: list[Summary] = client.gather(looks)
        kept = [k for k, each in enumerate(found) if each.n]
        if not kept:
            raise ValueError("X has no rows: give some examples")
        self.parts, self.summaries = [parts[k] for k in kept], [found[k] for k in kept]
        widths = sorted({each.d for each in self.summaries})
        if len(widths) > 1:
            raise ValueError(f"chunks of X have {widths[0]} and {widths[-1]} features: make them agree")
        self.n, self.d = sum(each.n for each in self.summaries), widths[0]
        self.dtype = np.dtype(np.result_type(*(each.dtype for each in self.summaries)))
        self.weight = sum(each.weight for each in self.summaries)
        if self.weight == 0.0:
            raise ValueError("sample_weight must not be all zero, got zeros only: give some example a positive weight")

    @property
    def entry(self) -> float:
        """The largest absolute value of an entry of X."""
        return max(each.entry for each in self.summaries)

    @property
    def largest(self) -> float:
        """The largest absolute target."""
        return max(each.largest for each in self.summaries)

    def classes_for(self, classifier: Any) -> tuple[np.ndarray, np.ndarray]:
        """(all labels, weights of their classes); refuses data of a single class."""
        classes = np.unique(np.concatenate([each.labels for each in self.summaries]))
        counts = np.zeros(classes.size)
        for each in self.summaries:
            counts[np.searchsorted(classes, each.labels)] += each.counts
        if classes.size < 2:
            name, only = type(classifier).__name__, classes.tolist()[0]
            raise ValueError(f"{name} needs examples of at least 2 classes, got 1 class only: {only!r}")
        return classes, weights_that_tell_apart(classifier, classes, counts)

    def mapped(self, function: Any, *of_parts: Any, **given: Any) -> list[Any]:
        """Futures of a function's values for the examples of each part, with what each part and what all are given."""
        return self.client.map(function, self.parts, *of_parts, **given, pure=False)

    def asked(self, function: Any, *of_parts: Any, **given: Any) -> list[Any]:
        """The values themselves."""
        with at_once():  # a second Ctrl-C ends the wait
            return self.client.gather(self.mapped(function, *of_parts, **given))
