"""Opening and writing data of any kind: :func:`open_data` finds out which kind a file is."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..arguments import one_of
from ..core.rows.rows import checked_sparse
from .archives import Archive, write_archive
from .chunks import MAX_MEMORY, ChunkedSource, Piece
from .libsvm import LibsvmText, write_libsvm
from .lines import MAGIC, compression_of
from .registry import DATASETS, find
from .tables import CSVTable, ParquetTable, write_csv, write_parquet

#: The class that reads each format.
KINDS: dict[str, Any] = {"libsvm": LibsvmText, "csv": CSVTable, "parquet": ParquetTable, "npz": Archive}
#: The format that each suffix names.
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}


class InMemory(ChunkedSource):
    """Arrays as a source.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features)
        The rows.
    y : array of shape (n,)
        The targets.
    max_memory : int or str, default=268435456
        The memory that chunks may take, as in :func:`open_data`. What X and y take already is not counted.

    See Also
    --------
    Generated : Examples that are made when they are asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data import InMemory
    >>> source = InMemory(np.zeros((100, 4)), np.arange(100) % 2, max_memory="4 kB")
    >>> [X.shape for X, y in source]
    [(25, 4), (25, 4), (25, 4), (25, 4)]
    """

    def __init__(self, X: Any, y: Any, max_memory: Any = MAX_MEMORY) -> None:
        super().__init__(max_memory)
        self.X, self.y = checked_sparse(X).tocsr() if sp.issparse(X) else np.asarray(X), np.asarray(y)
        if self.X.ndim != 2 or self.y.shape != (self.X.shape[0],):
            raise ValueError(f"X and y must have as many rows, got shapes {self.X.shape} and {self.y.shape}")
        self.n_features, self.name = self.X.shape[1], "the data"

    def _parts(self) -> list[Any]:
        step = max(1, min(4096, self.y.size // 64))
        return [slice(k, k + step) for k in range(0, self.y.size, step)]

    def _pieces(self, part: slice) -> Iterator[tuple[Piece, float]]:
        yield Piece(self.X[part], self.y[part]), math.nan


def format_of(path: Any, to_write: bool = False) -> str:
    """The format of a file: by its first bytes, then by its suffix; LIBSVM text if neither decides."""
    named = "libsvm"
    if not hasattr(path, "read"):
        suffixes = [suffix for suffix in Path(path).suffixes if suffix[1:] not in MAGIC]
        named = SUFFIXES.get(suffixes[-1].lower() if suffixes else "", "libsvm")
        if to_write:
            return named
        with open(path, "rb") as file:
            start = file.peek(4)[:4]
            if start == b"PAR1":
                return "parquet"
            if start == b"PK\x03\x04":
                return "npz"
            if named in ("parquet", "npz") and not compression_of(file):
                return named
    return named


def open_data(path: Any, format: str = "auto", **options: Any) -> ChunkedSource:
    """Open data of any kind: as chunks that fit in memory, or as a whole.

    Parameters
    ----------
    path : str, path or file
        The data. It is a file of LIBSVM text, CSV, Parquet or ``.npz``; text may be compressed (gzip, bz2, xz, zstd).
        "-" is standard input. "sklearn:digits" is a data set of scikit-learn, "openml:adult" or "openml:adult:2" one of
        OpenML, and "a9a" one of the papers' (see :data:`widemargin.data.registry.DATASETS`), from ``$WIDEMARGIN_DATA``
        or downloaded. A source that is open already is returned as it is.
    format : {"auto", "libsvm", "csv", "parquet", "npz"}, default="auto"
        The format of the file. "auto" finds it out from the first bytes and the suffix.
    **options : values
        Options of the format, here with their defaults in brackets.

        - For all formats, ``max_memory`` [256 MB] is the memory that reading may take, chunks included, in bytes or as
          text, and ``dtype`` [float64; for ``.npz``, that of the file] the type of values, float32 or float64.
        - For LIBSVM text, ``n_features`` [found by a first pass] is the number of features. ``zero_based`` ["auto": if
          one is 0] says whether indices begin with 0, and ``query_id`` [False] whether chunks have the queries' numbers
          as a third part. ``n_jobs`` is the number of threads that parse.
        - For CSV and Parquet, ``target`` [the one named target, label, class or y] is the column to predict, by name or
          place, or "" for none. ``columns`` [all others] are the columns to use. ``categories`` ["refuse"] says what is
          done about columns of text: "refuse", "onehot", or the values of each column.
        - For ``.npz``, ``target`` [the one named y, target or labels] is the array to predict.
        - For CSV, ``delimiter`` [a comma, a tab for .tsv] stands between values, and ``header`` [True] says whether the
          first line has names.
        - For LIBSVM text and CSV, ``on_bad_line`` ["raise"] is "raise" or "skip". ``skipped`` and ``faults`` of the
          source tell what was left out.

    Returns
    -------
    ChunkedSource
        The open source. ``for X, y in source`` gives chunks, ``source.load()`` all, ``source.summary()`` rows, features
        and labels, ``source.shuffled(rng)`` chunks in random order.

    See Also
    --------
    write_data : Writes such files.

    Examples
    --------
    >>> import os, tempfile
    >>> from widemargin.data import open_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.svm")
    ...     with open(path, "w") as file:
    ...         print("+1 1:0.5 3:2  # a comment", file=file)
    ...         print("-1 2:1e-3", file=file)
    ...     X, y = open_data(path).load()
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 0.001, 0.0]], [1.0, -1.0])
    """
    one_of("format", format, ("auto", *KINDS))
    if isinstance(path, ChunkedSource):
        if options:
            raise TypeError(f"the source is open already, with its own options: leave out {', '.join(options)}")
        return path
    if isinstance(path, str) and path.startswith(("sklearn:", "openml:")):
        return _of_service(path, **options)
    return _of_file(*_file_of(path, options), format)


def _file_of(path: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """(file, options with those of a named data set): standard input, an open file, a path or a data set's file."""
    if isinstance(path, str) and path == "-":
        return sys.stdin.buffer, options
    if hasattr(path, "read"):
        return path, options
    name = os.fspath(path)
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name} is a folder: name a file in it")
    if os.path.exists(name):
        return path, options
    if name not in DATASETS:
        raise FileNotFoundError(
            f"there is no file {name!r}, and no data set of that name: the known ones are {', '.join(sorted(DATASETS))}"
        )
    return find(name), {"n_features": DATASETS[name].n_features, "zero_based": False, **options}


def _of_file(path: Any, options: dict[str, Any], format: str) -> ChunkedSource:
    """Open a file; refuse options that its format does not have."""
    own = format_of(path) if format == "auto" else format
    for name in options:
        if name not in _options(KINDS[own]):
            owners = [key for key, each in KINDS.items() if name in _options(each)]
            said = f"is for {' and '.join(owners)}" if owners else "is no option of open_data"
            read = f"{getattr(path, 'name', path)} is read as {own}"
            raise TypeError(f"{name} {said}, and {read}: leave it out, or say with format= what the file is")
    return KINDS[own](path, **options)


def _options(kind: Any) -> set[str]:
    """The names of the options of a kind of source."""
    found: set[str] = set()
    for cls in kind.__mro__:
        if "__init__" in vars(cls):
            found |= {p.name for p in inspect.signature(cls.__init__).parameters.values() if p.kind == p.KEYWORD_ONLY}
    return found | {"max_memory"}


def _of_service(path: str, max_memory: Any = MAX_MEMORY, dtype: Any = np.float64, **options: Any) -> ChunkedSource:
    """Load a data set of scikit-learn or OpenML."""
    from sklearn import datasets

    if options:
        raise TypeError(f"{path} takes max_memory= and dtype= only, got {', '.join(f'{name}=' for name in options)}")
    service, _, name = path.partition(":")
    if service == "sklearn":
        found = {n.removeprefix(way): n for way in ("load_", "fetch_") for n in dir(datasets) if n.startswith(way)}
        if name not in found:
            raise ValueError(f"scikit-learn has no data set {name!r}; it has {', '.join(found)}")
        get = getattr(datasets, found[name])
        if "return_X_y" not in inspect.signature(get).parameters:
            raise ValueError(f"scikit-learn's {name!r} is no table of rows and targets: load it with scikit-learn")
        X, y = get(return_X_y=True)
    else:
        name, _, version = name.partition(":")
        bunch = datasets.fetch_openml(
            name, version=int(version) if version else "active", as_frame=False, parser="auto"
        )
        X, y = bunch.data, bunch.target
    if np.asarray(X if not sp.issparse(X) else X.data).dtype.kind not in "biuf":
        raise ValueError(f"{path} has columns that are no numbers: load it with scikit-learn and encode them")
    source = InMemory(X.astype(dtype), y, max_memory)
    source.name = path
    return source


def write_data(path: str | os.PathLike[str], X: Any, y: Any = None, *, format: str = "auto", **options: Any) -> None:
    """Write data to a file that :func:`open_data` reads back exactly. Text is compressed as the suffix says.

    Parameters
    ----------
    path : str or path
        The file. Its suffix chooses the format: .csv, .tsv, .parquet, .npz; else LIBSVM text. The old file stays until
        the new one is whole.
    X : array, sparse matrix, or iterable of chunks
        The rows. Chunks are (X, y), one after the other, as an open source gives them; then there is no ``y``.
    y : array of shape (n,) or None, default=None
        The targets: numbers, or text for CSV and Parquet.
    format : {"auto", "libsvm", "csv", "parquet", "npz"}, default="auto"
        The format. "auto" is that of the suffix.
    **options : values
        Options of the format. ``zero_based`` says whether indices of LIBSVM text begin with 0 (False). ``names`` are
        the features of CSV and Parquet, and ``target`` is the name of the column of targets ("target").

    See Also
    --------
    open_data : Reads such files.

    Examples
    --------
    >>> import os, tempfile
    >>> from widemargin.data import open_data, write_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "small.svm.gz")
    ...     write_data(path, [[0.5, 0.0], [0.0, 0.1]], [1, -1])
    ...     X, y = open_data(path).load()
    >>> X.toarray().tolist()
    [[0.5, 0.0], [0.0, 0.1]]
    """
    one_of("format", format, ("auto", *KINDS))
    kind = format_of(path, to_write=True) if format == "auto" else format
    pieces: Iterable[tuple] = X if y is None else [(X if sp.issparse(X) else np.asarray(X), np.asarray(y))]
    if y is None and (isinstance(X, np.ndarray) or sp.issparse(X) or not isinstance(X, Iterable)):
        raise TypeError("y is missing: give targets, or an iterable of (X, y)")
    if kind == "libsvm":
        write_libsvm(path, pieces, **options)
    elif kind == "npz":
        if isinstance(pieces, ChunkedSource):
            X, y = pieces.load()
        elif y is None:
            raise TypeError("an archive is written from X and y, not from chunks: give both, or an open source")
        write_archive(path, X if sp.issparse(X) else np.asarray(X), np.asarray(y), **options)
    else:
        (write_csv if kind == "csv" else write_parquet)(path, pieces, **options)
