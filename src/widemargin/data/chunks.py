"""Data in chunks: examples that need not fit in memory, from files or from a function.

A source yields *pieces* of a few examples. Pieces are gathered into chunks of ``max_memory``, or into the whole. A
source may have *parts* (byte ranges of a text, groups of rows) that can be read in any order. An epoch in random order
reads the parts in random order: each chunk holds several parts from all over the file, and its rows are shuffled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arguments import positive

#: Bytes that reading may take by default.
MAX_MEMORY = 256 * 2**20
#: The least number of bytes that can be asked for.
LEAST_MEMORY = 1024
#: Chunks in memory at a time, at most: the one in use, the next one, its rows in another order, its pieces. Everything
#: that belongs to an example counts: its row, its target, its query, the end of its row in CSR.
COPIES = 4
#: Parts per chunk, at least, if there are so many. Fewer would mix the rows less.
MIXED = 8
#: Distinct targets that a summary lists. Data with more is taken for a regression.
MOST_LABELS = 10_000
#: Bytes per unit of text such as "512 MB".
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def memory(name: str, value: Any) -> int:
    """Return the number of bytes of an amount, which is a number or text such as "512 MB"."""
    if isinstance(value, Real):
        return int(positive(name, value))
    found = re.fullmatch(r"\s*(?P<amount>[0-9.]+)\s*(?P<unit>[kmgt]?)i?b?\s*", str(value).lower())
    try:
        return int(positive(name, float(found["amount"]) * UNITS[found["unit"]]))  # type: ignore[index]
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number of bytes or text such as '512 MB', got {value!r}") from None


class Piece(NamedTuple):
    """Some examples: rows, targets, and the numbers of their queries if the data has queries."""

    X: Any
    y: np.ndarray
    qid: np.ndarray | None = None


@dataclass(frozen=True)
class Summary:
    """What one look through all the data found, which :meth:`ChunkedSource.summary` returns.

    Attributes
    ----------
    n_rows : int
        The number of examples.
    n_features : int
        The number of features.
    n_entries : int
        The number of stored values of X.
    labels : ndarray or None
        The distinct targets, sorted. None where there are more than ten thousand.
    skipped : int
        The number of lines left out, of text with ``on_bad_line="skip"``.

    Examples
    --------
    >>> from widemargin.data import InMemory
    >>> found = InMemory([[0.5, 1.0], [0.0, 2.0], [1.5, 0.0]], [1, 0, 1]).summary()
    >>> found.n_rows, found.n_features, found.labels.tolist()
    (3, 2, [0, 1])
    """

    n_rows: int
    n_features: int
    n_entries: int
    labels: np.ndarray | None
    skipped: int = 0


class Gathered:
    """Pieces joined in arrays that grow, so that all examples are in memory about once."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.rows = self.entries = self._width = 0
        self.share = math.nan  # share of the data gathered so far, NaN if unknown
        self._arrays: dict[str, np.ndarray] = {}
        self._used: dict[str, int] = {}

    def _append(self, name: str, values: np.ndarray) -> None:
        used = self._used.get(name, 0)
        kept = self._arrays.get(name)
        if kept is None:
            kept = self._arrays[name] = np.empty((0, *values.shape[1:]), values.dtype)
        if values.dtype != kept.dtype:  # for example, longer text
            kind = np.result_type(values.dtype, kept.dtype)
            kept = self._arrays[name] = kept.astype(kind)
        need = used + values.shape[0]
        if need > kept.shape[0]:
            # estimate the final size from the share read; memory that is never written to costs nothing
            guess = min(1.25 * need / self.share, 64.0 * need) if 0.0 < self.share <= 1.0 else 0.0
            more = np.empty((max(int(guess), need + need // 2), *kept.shape[1:]), kept.dtype)
            more[:used] = kept[:used]
            kept = self._arrays[name] = more
        kept[used:need] = values
        self._used[name] = need

    def add(self, piece: Piece, share: float = math.nan) -> None:
        """Append a piece. ``share`` is the share of the data gathered so far, if it is known."""
        self.share = share
        for name, values in self._parts_of(piece).items():
            self._append(name, values)
        self.entries += piece.X.data.size if sp.issparse(piece.X) else piece.X.size
        self._width = piece.X.shape[1]
        self.rows += piece.y.shape[0]

    def _parts_of(self, piece: Piece) -> dict[str, np.ndarray]:
        """The arrays of a piece, by the names of the arrays that they are appended to."""
        X, parts = piece.X, {"y": piece.y} if piece.qid is None else {"y": piece.y, "qid": piece.qid}
        if not sp.issparse(X):
            return {"X": X, **parts}
        ends = X.indptr[1:].astype(np.int64) + (self.entries - X.indptr[0])
        return {"data": X.data, "indices": X.indices, "ends": ends, **parts}

    def bytes_with(self, piece: Piece) -> int:
        """Bytes in use if a piece were added. Longer text makes all targets longer."""
        total = 0
        for name, values in self._parts_of(piece).items():
            kept = self._arrays.get(name)
            width = values.itemsize if kept is None else np.result_type(values.dtype, kept.dtype).itemsize
            total += (self._used.get(name, 0) + values.shape[0]) * width * math.prod(values.shape[1:])
        return total

    def take(self, n_features: int | None = None, first: int = 0) -> Piece:
        """Return everything as one piece, with ``first`` subtracted from its indices, and begin anew."""
        found = {}
        for name, array in self._arrays.items():
            array.resize((self._used[name], *array.shape[1:]), refcheck=False)
            found[name] = array
        if "X" in found:
            X: Any = found["X"]
        else:
            width = self._width if n_features is None else n_features
            found["indices"] -= first
            kind = np.int32 if max(self.entries, width) < 2**31 else np.int64
            indptr = np.zeros(self.rows + 1, kind)
            indptr[1:] = found.pop("ends")
            X = sp.csr_matrix((found["data"], found["indices"].astype(kind, copy=False), indptr), (self.rows, width))
        self._clear()
        return Piece(X, found["y"], found.get("qid"))


class ChunkedSource:
    """Examples that are read in chunks, or as a whole.

    :func:`open_data` gives such a source; :class:`InMemory` and :class:`Generated` are others. Each loop over it begins
    with the first example. Chunks are (X, y), with the queries' numbers as a third where they were asked for; X is
    dense or CSR. Together with what is needed to read the next one, a chunk takes no more than ``max_memory``, unless
    one row does.

    Parameters
    ----------
    max_memory : int or str, default=268435456
        The memory that reading may take, chunks included: a number of bytes, or text such as "512 MB".

    Attributes
    ----------
    name : str
        What the source is called in sentences.
    again : bool
        Whether it can be read again from the beginning.
    n_features : int or None
        The number of features, where it is known.
    skipped : int
        The number of lines left out in the last pass.
    faults : list of str
        What was wrong with the first of them.

    See Also
    --------
    open_data : Opens a file as a source.
    train : Trains a model chunk after chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data import Generated
    >>> source = Generated(lambda k: (np.full((100, 3), float(k)), np.full(100, k % 2)), 5, max_memory="8 kB")
    >>> sizes = [y.size for X, y in source]
    >>> len(sizes) > 1, sum(sizes)
    (True, 500)
    >>> X, y = source.load()
    >>> X.shape, source.summary().labels.tolist()
    ((500, 3), [0, 1])
    """

    #: What it is called in sentences.
    name = "the data"
    #: Whether it can be read again from the beginning.
    again = True
    #: Features, where they are known.
    n_features: int | None = None
    #: Whether chunks have the numbers of queries.
    query_id = False
    #: Lines that were left out in the last pass, and what was wrong with the first of them.
    skipped = 0
    faults: list[str]

    def __init__(self, max_memory: Any = MAX_MEMORY) -> None:
        self.max_memory = memory("max_memory", max_memory)
        if self.max_memory < LEAST_MEMORY:
            raise ValueError(f"max_memory must be at least {LEAST_MEMORY} bytes, got {max_memory!r}")
        self._begin_pass()
        self._summary: Summary | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, max_memory={self.max_memory})"

    # -- for subclasses

    def _parts(self) -> list[Any]:
        """Parts that can be read in any order; a single one if the source can only be read from its beginning."""
        return [None]

    def _in_order(self) -> list[Any]:
        """Parts of a pass in the source's own order; the part None is the whole source."""
        return self._parts()

    def _pieces(self, part: Any) -> Iterator[tuple[Piece, float]]:
        """Yield (piece, share of the data read so far or NaN) of a part."""
        raise NotImplementedError

    # -- for users

    def _width(self) -> int | None:
        """The number of features of all chunks, which a first pass finds if it was not given."""
        return self.n_features

    def _given(self, piece: Piece) -> tuple:
        if self.query_id:
            if piece.qid is None:
                raise ValueError(f"{self.name} has no qid: leave query_id out")
            return tuple(piece)
        return piece.X, piece.y

    def _chunks(self, parts: list[Any], bytes_in_chunk: float, width: int | None) -> Iterator[Piece]:
        gathered, used = Gathered(), 0
        for part in parts:
            for piece, _ in self._pieces(part):
                start, n, some = 0, piece.y.size, piece
                of_row = max(1.0, Gathered().bytes_with(piece) / max(1, n))
                while start < n:
                    count = min(n - start, max(1, int((bytes_in_chunk - used) / of_row)))
                    some = _rows(piece, slice(start, start + count)) if count < n else piece
                    # rows differ in size: halve the piece until it fits
                    while (more := gathered.bytes_with(some)) > bytes_in_chunk and count > 1:
                        count //= 2
                        some = _rows(piece, slice(start, start + count))
                    if gathered.rows and more > bytes_in_chunk:
                        yield gathered.take(width)
                        used = 0
                        continue
                    gathered.add(some, more / bytes_in_chunk)
                    start, used = start + count, more
                del piece, some  # free their memory before the next one is read
        if gathered.rows:
            yield gathered.take(width)

    def _begin_pass(self) -> None:
        """Reset the counts of what was left out."""
        self.skipped, self.faults = 0, []

    def __iter__(self) -> Iterator[tuple]:
        width = self._width()
        self._begin_pass()
        for piece in self._chunks(self._in_order(), self.max_memory / COPIES, width):
            yield self._given(piece)

    def shuffled(self, rng: np.random.Generator) -> Iterator[tuple]:
        """Yield all examples once, in chunks and in random order.

        Parts from all over the source are shuffled together. A source without parts (compressed text, standard input)
        is read in order, and rows are exchanged between neighbouring chunks only.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of random numbers. Each call goes on with it, so that each epoch has its own order.

        Returns
        -------
        iterator of tuples
            The chunks (X, y), as a loop over the source gives them.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.data import InMemory
        >>> source = InMemory(np.arange(6.0)[:, None], np.arange(6))
        >>> sorted(float(x) for X, y in source.shuffled(np.random.default_rng(0)) for x in X[:, 0])
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        """
        width, size = self._width(), self.max_memory / COPIES
        self._begin_pass()
        parts = self._parts()
        if len(parts) > 1:
            rng.shuffle(parts)
            for piece in self._chunks(parts, size, width):
                mixed = _rows(piece, rng.permutation(piece.y.size))
                del piece  # free its memory before the next one is gathered
                yield self._given(mixed)
            return
        kept: Piece | None = None
        for piece in self._chunks(parts, size / 2, width):
            both = piece if kept is None else _joined(kept, piece)
            kept = None
            del piece
            order = rng.permutation(both.y.size)
            half = both.y.size // 2
            kept, given = _rows(both, order[half:]), _rows(both, order[:half])
            del both, order
            if half:
                yield self._given(given)
        if kept is not None:
            yield self._given(kept)

    def load(self) -> tuple:
        """Return all examples at once, which are in memory only once.

        Returns
        -------
        X : array or CSR matrix of shape (n, n_features)
            The rows.
        y : array of shape (n,)
            The targets. The queries' numbers follow as a third where they were asked for.

        Examples
        --------
        >>> from widemargin.data import InMemory
        >>> X, y = InMemory([[0.5, 1.0], [0.0, 2.0]], [1, 0]).load()
        >>> X.tolist(), y.tolist()
        ([[0.5, 1.0], [0.0, 2.0]], [1, 0])
        """
        gathered = Gathered()
        self._begin_pass()
        for part in self._in_order():
            for piece, share in self._pieces(part):
                gathered.add(piece, share)
        if gathered.rows == 0:
            raise ValueError(f"{self.name} holds no examples")
        return self._given(self._whole(gathered))

    def _whole(self, gathered: Gathered) -> Piece:
        return gathered.take(self.n_features)

    def summary(self) -> Summary:
        """Count rows, features and labels in one pass over all the data, which is kept for the next call.

        Returns
        -------
        Summary
            The numbers, and the labels as ``labels``.

        Examples
        --------
        >>> from widemargin.data import InMemory
        >>> InMemory([[0.5, 1.0], [0.0, 2.0]], [1, 0]).summary().n_rows
        2
        """
        if self._summary is None:
            self.need_again("looked through first", "give n_features=, and classes= to train")
            self._begin_pass()
            rows = entries = width = 0
            labels: Any = np.empty(0)
            for part in self._in_order():
                for piece, _ in self._pieces(part):
                    rows, width = rows + piece.y.size, max(width, piece.X.shape[1])
                    entries += piece.X.nnz if sp.issparse(piece.X) else piece.X.size
                    if labels is not None:
                        labels = np.union1d(labels, piece.y) if labels.size else np.unique(piece.y)
                        labels = labels if labels.size <= MOST_LABELS else None
            self._summary = Summary(rows, self._seen_width(width), entries, labels, self.skipped)
        return self._summary

    def like(self) -> dict[str, Any]:
        """Return the options with which other data is opened for the same features.

        Ask a source that was read: test data is then opened as the training data was understood.

        Returns
        -------
        dict
            Options of :func:`open_data`. There are none where rows are taken as they are.

        Examples
        --------
        >>> from widemargin.data import InMemory
        >>> InMemory([[0.5, 1.0], [0.0, 2.0]], [1, 0]).like()
        {}
        """
        return {}

    def _seen_width(self, width: int) -> int:
        return width if self.n_features is None else self.n_features

    def need_again(self, what: str, instead: str = "") -> None:
        """Refuse a second pass over what can be read only once, such as a pipe.

        Parameters
        ----------
        what : str
            What the pass is for, as the end of the sentence "and must be …".
        instead : str, default=""
            What else can be done, in the words "give n_features=". A file can always be stored.

        Examples
        --------
        >>> from widemargin.data import InMemory
        >>> source = InMemory([[0.5, 1.0], [0.0, 2.0]], [1, 0])
        >>> source.need_again("read for each epoch")
        >>> source.again = False
        >>> source.need_again("read for each epoch")
        Traceback (most recent call last):
        ValueError: the data can be read only once, and must be read for each epoch: store it in a file
        """
        if not self.again:
            remedy = f"{instead}, or store it in a file" if instead else "store it in a file"
            raise ValueError(f"{self.name} can be read only once, and must be {what}: {remedy}")


def _rows(piece: Piece, chosen: Any) -> Piece:
    return Piece(piece.X[chosen], piece.y[chosen], None if piece.qid is None else piece.qid[chosen])


def _joined(one: Piece, other: Piece) -> Piece:
    X = sp.vstack([one.X, other.X], "csr") if sp.issparse(one.X) else np.concatenate([one.X, other.X])
    qid = None if one.qid is None or other.qid is None else np.concatenate([one.qid, other.qid])
    return Piece(X, np.concatenate([one.y, other.y]), qid)


class Generated(ChunkedSource):
    """Examples that are made when they are asked for.

    Parameters
    ----------
    make : callable
        The maker of examples. ``make(k)`` returns (X, y) of part k, the same whenever it is asked.
    parts : int
        The number of parts.
    max_memory : int or str, default=268435456
        The memory that reading may take, chunks included: a number of bytes, or text such as "512 MB".

    See Also
    --------
    InMemory : Arrays as a source.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data import Generated
    >>> def make(k):
    ...     X = np.random.default_rng(k).normal(size=(50, 2))
    ...     return X, X[:, 0] > 0.0
    >>> source = Generated(make, parts=4)
    >>> source.summary().n_rows
    200
    """

    def __init__(self, make: Callable[[int], tuple], parts: int, max_memory: Any = MAX_MEMORY) -> None:
        super().__init__(max_memory)
        self.make, self.parts, self.name = make, parts, "the generated data"

    def _parts(self) -> list[Any]:
        return list(range(self.parts))

    def _pieces(self, part: Any) -> Iterator[tuple[Piece, float]]:
        X, y = self.make(part)
        yield Piece(X, np.asarray(y)), (part + 1) / self.parts
