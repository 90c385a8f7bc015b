"""One way to data: :func:`open_data` finds out what it is."""

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
from .archives import Archive, write_archive
from .chunks import MAX_MEMORY, ChunkedSource, Piece
from .libsvm import LibsvmText, write_libsvm
from .lines import MAGIC, compression_of
from .registry import DATASETS, find
from .tables import CSVTable, ParquetTable, write_csv, write_parquet

KINDS: dict[str, Any] = {"libsvm": LibsvmText, "csv": CSVTable, "parquet": ParquetTable, "npz": Archive}
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}


class InMemory(ChunkedSource):
    """Arrays as a source.

    Parameters
    ----------
    X, y : arrays
        Rows, dense or sparse, and targets.
    max_memory : int or str
        As in :func:`open_data`; what X and y take already is not counted.
    """

    def __init__(self, X: Any, y: Any, max_memory: Any = MAX_MEMORY) -> None:
        super().__init__(max_memory)
        self.X, self.y = X.tocsr() if sp.issparse(X) else np.asarray(X), np.asarray(y)
        if self.X.ndim != 2 or self.y.shape != (self.X.shape[0],):
            raise ValueError(f"X and y must have as many rows, got shapes {self.X.shape} and {self.y.shape}")
        self.n_features, self.name = self.X.shape[1], "the data"

    def _parts(self) -> list[Any]:
        step = max(1, min(4096, self.y.size // 64))
        return [slice(k, k + step) for k in range(0, self.y.size, step)]

    def _pieces(self, part: slice) -> Iterator[tuple[Piece, float]]:
        yield Piece(self.X[part], self.y[part]), math.nan


def format_of(path: Any, to_write: bool = False) -> str:
    """The format of a file: by its first bytes, then by the suffix; LIBSVM text where neither says anything."""
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
        A file of LIBSVM text, CSV, Parquet or ``.npz``; text may be compressed (gzip, bz2, xz, zstd). "-" is standard
        input. "sklearn:digits" is a data set of scikit-learn, "openml:adult" or "openml:adult:2" one of OpenML, and
        "a9a" one of the papers' (see :data:`widemargin.data.registry.DATASETS`), from ``$WIDEMARGIN_DATA`` where it is.
    format : {"auto", "libsvm", "csv", "parquet", "npz"}
        What the file is; "auto" looks at it.
    max_memory : int or str, default="256 MB"
        Memory that reading may take, chunks included.
    dtype : float32 or float64, default=float64
        The type of values.
    n_features, zero_based, query_id, n_jobs, on_bad_line : for LIBSVM text
        Number of features (found by a first pass if not given); whether indices begin with 0 (default "auto": if one is
        0); whether chunks have the queries' numbers as a third part; threads that parse; "raise" (default) or "skip",
        with ``skipped`` and ``faults`` of the source telling what was left out.
    target, columns, categories, on_bad_line : for CSV and Parquet
        The column to predict, by name or place (default: the one named target, label, class or y; "" for none); the
        columns to use (default: all others); "refuse" (default) or "onehot", or the values of each column of text.
    delimiter, header : for CSV
        What stands between values (default: a comma, a tab for .tsv); whether the first line has names.

    Returns
    -------
    ChunkedSource
        ``for X, y in source`` gives chunks, ``source.load()`` all, ``source.summary()`` rows, features and labels,
        ``source.shuffled(rng)`` chunks in random order.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "small.svm")
    >>> open(path, "w").write("+1 1:0.5 3:2  # a comment" + os.linesep + "-1 2:1e-3" + os.linesep) > 0
    True
    >>> X, y = open_data(path).load()
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, 0.001, 0.0]], [1.0, -1.0])
    """
    one_of("format", format, ("auto", *KINDS))
    if isinstance(path, str) and path == "-":
        path = sys.stdin.buffer
    if isinstance(path, str) and path.startswith(("sklearn:", "openml:")):
        return _of_service(path, **options)
    if isinstance(path, ChunkedSource):
        if options:
            raise TypeError(f"the source is open already, with its own options: leave out {', '.join(options)}")
        return path
    if not hasattr(path, "read") and not os.path.exists(path):
        if os.fspath(path) not in DATASETS:
            raise FileNotFoundError(
                f"there is no file {os.fspath(path)!r}, and no data set of that name: the known ones are "
                f"{', '.join(sorted(DATASETS))}"
            )
        known = DATASETS[os.fspath(path)]
        options = {"n_features": known.n_features, "zero_based": False, **options}
        path = find(os.fspath(path))
    if not hasattr(path, "read") and os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(path)} is a folder: name a file in it")
    kind = KINDS[format_of(path) if format == "auto" else format]
    known_options = _options(kind)
    for name in options:
        if name not in known_options:
            owners = [f"{key}" for key, each in KINDS.items() if name in _options(each)]
            said = f"is for {' and '.join(owners)}" if owners else "is no option of open_data"
            raise TypeError(f"{name} {said}, and {getattr(path, 'name', path)} is read as {_name(kind)}")
    return kind(path, **options)


def _name(kind: Any) -> str:
    return next(name for name, each in KINDS.items() if each is kind)


def _options(kind: Any) -> set[str]:
    found: set[str] = set()
    for cls in kind.__mro__:
        if "__init__" in vars(cls):
            found |= {p.name for p in inspect.signature(cls.__init__).parameters.values() if p.kind == p.KEYWORD_ONLY}
    return found | {"max_memory"}


def _of_service(path: str, max_memory: Any = MAX_MEMORY, dtype: Any = np.float64, **options: Any) -> ChunkedSource:
    """A data set of scikit-learn or OpenML."""
    from sklearn import datasets

    if options:
        raise TypeError(f"{path} takes max_memory and dtype only, got {', '.join(options)}")
    service, _, name = path.partition(":")
    if service == "sklearn":
        local = sorted(n.removeprefix("load_") for n in dir(datasets) if n.startswith("load_"))
        remote = sorted(n.removeprefix("fetch_") for n in dir(datasets) if n.startswith("fetch_"))
        if name not in (*local, *remote):
            raise ValueError(f"scikit-learn has no data set {name!r}; it has {', '.join(local + remote)}")
        get = getattr(datasets, f"load_{name}" if name in local else f"fetch_{name}")
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
    """Write data to a file that :func:`open_data` reads back exactly; text is compressed as the suffix says.

    Parameters
    ----------
    path : str or path
        The suffix chooses the format: .csv, .tsv, .parquet, .npz; else LIBSVM text. The old file stays until the new
        one is whole.
    X : array, sparse matrix, or iterable of chunks
        Rows; or (X, y), one after the other, as an open source gives them, and no y.
    y : array
        Targets: numbers, or text for CSV and Parquet.
    format : {"auto", "libsvm", "csv", "parquet", "npz"}
    zero_based : bool, for LIBSVM text
    names, target : for CSV and Parquet
        Names of the features, and of the column of targets.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "small.svm.gz")
    >>> write_data(path, [[0.5, 0.0], [0.0, 0.1]], [1, -1])
    >>> open_data(path).load()[0].toarray().tolist()
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
