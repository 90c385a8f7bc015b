"""Tables with named columns, CSV and Parquet, read by pyarrow.

A column of numbers or truth values is one feature. A column of text is a category: each of its values is a feature
(``categories="onehot"``), or the column is refused. The target is a column, which is chosen by its name.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..arguments import one_of
from ..core.rows.rows import checked_sparse
from .chunks import COPIES, MAX_MEMORY, ChunkedSource, Piece
from .lines import name_of, reading, writing

#: Names that the column of targets may have if ``target`` is not given.
TARGETS = ("target", "label", "class", "y")
#: The most values that a category may have.
MOST_VALUES = 10_000
#: Bytes of text that are read at a time.
BLOCK = 2**20
#: Rows that are read at a time.
ROWS = 2**14
#: Blocks of text that would fill ``max_memory``. pyarrow reads 32 blocks ahead.
OF_TEXT = 256
#: The smallest block of text, in bytes.
LEAST_BLOCK = 2**12


def arrow(part: str = "") -> Any:
    """Import pyarrow, or a module of it."""
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError as missing:
        raise ImportError(
            "reading and writing CSV and Parquet needs the package pyarrow: pip install 'widemargin[files]'"
        ) from missing


class TableSource(ChunkedSource):
    """A table of named columns, see :func:`open_data`.

    After the first look at the file, ``feature_names`` are the names of the features, and ``categories`` has the values
    of each column of text. A second file with the same columns is opened with these categories.
    """

    #: Whether the column of targets may be missing, as in data to be predicted.
    optional = False
    #: Whether the first targets are whole numbers.
    _whole_targets = False

    def __init__(
        self,
        path: Any,
        *,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        categories: Any = "refuse",
        dtype: Any = np.float64,
        max_memory: Any = MAX_MEMORY,
    ) -> None:
        super().__init__(max_memory)
        self.path, self.name, self.dtype = path, name_of(path), np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        if not isinstance(categories, dict):
            one_of("categories", categories, ("refuse", "onehot"))
        self.target, self.columns, self.categories = target, columns, categories
        self.again = not hasattr(path, "read") or (hasattr(path, "seekable") and path.seekable())
        self._features: list[tuple[str, Any]] | None = None

    # -- for subclasses

    def _schema(self) -> Any:
        """The names and types of all columns."""
        raise NotImplementedError

    def _batches(self, part: Any, names: list[str]) -> Iterator[tuple[Any, float]]:
        """Yield (batch of these columns, share of the data read so far)."""
        raise NotImplementedError

    # -- columns

    def _settle(self) -> None:
        """Find the target, the features and the values of categories; one pass over the table if it has categories."""
        if self._features is not None:
            return
        pa, schema = arrow(), self._schema()
        names = list(schema.names)
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"{self.name} has the column {min(twice)!r} twice: give each another name")
        self._target = self._find_target(names)
        chosen = [name for name in names if name != self._target] if self.columns is None else list(self.columns)
        for name in chosen:
            if name not in names:
                raise ValueError(f"{self.name} has no column {name!r}; it has {_listed(names)}")
            if name == self._target:
                raise ValueError(f"{self.name}: the target {name!r} cannot be a feature too: take it out of columns=")
        if not chosen:
            raise ValueError(f"{self.name} has no column beside the target {self._target!r}: nothing can be learnt")
        texts = []
        for name in chosen:
            kind = schema.field(name).type
            if _is_text(pa, kind):
                texts.append(name)
            elif not _is_number(pa, kind):
                remedy = "make one, or name the others with columns="
                raise self._bad(name, f"has the type {kind}, of which no number is made here: {remedy}")
        values = self._values_of(texts)
        self._features = [(name, values.get(name)) for name in chosen]
        self.feature_names = []
        for name, held in self._features:
            self.feature_names += [name] if held is None else [f"{name}={value}" for value in held]
        self.n_features = len(self.feature_names)
        self._sparse = sum(len(v) for v in values.values()) > len(chosen) - len(texts)

    def _bad(self, column: str, said: str, where: str = "") -> ValueError:
        """An error about a column, and about one of its rows if ``where`` names it."""
        return ValueError(f"{self.name}{', ' if where else ''}{where}: the column {column!r} {said}")

    def _find_target(self, names: list[str]) -> str | None:
        if isinstance(self.target, (int, np.integer)) and not isinstance(self.target, bool):
            if not -len(names) <= self.target < len(names):
                raise ValueError(f"{self.name} has {len(names)} columns, and target={self.target} is none of them")
            return names[self.target]
        if self.target is None:
            found = [name for name in names if name.lower() in TARGETS]
            if len(found) == 1 or self.optional:
                return found[0] if len(found) == 1 else None
            raise ValueError(f"{self.name}: which column is the target? Give target=, one of {_listed(names)}")
        if self.target == "" or self.target is False:
            return None
        if self.target in names or self.optional:
            return self.target if self.target in names else None
        raise ValueError(
            f"{self.name} has no column {self.target!r} for the target: give target=, one of {_listed(names)}"
        )

    def _values_of(self, texts: list[str]) -> dict[str, list[Any]]:
        """The sorted values of each column of text."""
        if not texts:
            return {}
        if isinstance(self.categories, dict):
            for name in texts:
                if name not in self.categories:
                    remedy = "name them in categories, or make numbers of it"
                    raise self._bad(name, f"is text, and none of its values are known: {remedy}")
            return {name: list(self.categories[name]) for name in texts}
        if self.categories == "refuse":
            remedy = "make a feature of each of its values, or name the other columns with columns="
            raise self._bad(texts[0], f"is text: give categories='onehot' to {remedy}")
        self.need_again("looked through for categories")
        compute, found = arrow("compute"), {name: set() for name in texts}  # type: ignore[var-annotated]
        for part in self._parts():
            for batch, _ in self._batches(part, texts):
                for name in texts:
                    found[name].update(v for v in compute.unique(batch.column(name)).to_pylist() if v is not None)
                    if len(found[name]) > MOST_VALUES:
                        remedy = "hash it, or name the other columns with columns="
                        raise self._bad(name, f"has more than {MOST_VALUES} values: {remedy}")
        self.categories = {name: sorted(values) for name, values in found.items()}
        return self.categories

    def like(self) -> dict[str, Any]:
        """The columns, their categories and the target: the options with which another table is opened."""
        self._settle()
        assert self._features is not None
        held = dict(self.categories) if isinstance(self.categories, dict) else {}
        return {"columns": [name for name, _ in self._features], "categories": held, "target": self._target}

    # -- pieces

    def _width(self) -> int | None:
        self._settle()
        return self.n_features

    def _pieces(self, part: Any) -> Iterator[tuple[Piece, float]]:
        self._settle()
        assert self._features is not None
        names = [name for name, _ in self._features] + ([self._target] if self._target is not None else [])
        row, told = 0, part is None or part == 0
        for batch, share in self._batches(part, names):
            if batch.num_rows:
                where = partial(_place, row if told else None)
                yield Piece(self._rows(batch, where), self._targets(batch, where)), share
            row += batch.num_rows

    def _rows(self, batch: Any, where: Any) -> Any:
        columns: list[Any] = []
        assert self._features is not None
        for name, values in self._features:
            array = batch.column(name)
            self._refuse_missing(name, array, where)
            if values is None:
                columns.append(self._numbers(name, array, where)[:, None])
            elif self._sparse:
                ones = np.ones(batch.num_rows, self.dtype)
                codes = self._codes(name, array, values, where)
                columns.append(sp.csr_matrix((ones, codes, np.arange(ones.size + 1)), (ones.size, len(values))))
            else:
                columns.append(self._codes(name, array, values, where)[:, None] == np.arange(len(values)))
        if self._sparse:
            return sp.hstack([sp.csc_matrix(column) for column in columns], format="csr", dtype=self.dtype)
        return np.hstack(columns, dtype=self.dtype, casting="unsafe")

    def _refuse_missing(self, name: str, array: Any, where: Any) -> None:
        if array.null_count:
            remedy = "fill it in, or name the other columns with columns="
            raise self._bad(name, f"has no value: {remedy}", where(_first_null(array)))

    def _numbers(self, name: str, array: Any, where: Any) -> np.ndarray:
        values = array.cast(arrow().float64(), safe=False).to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            values = values.astype(self.dtype, copy=False)
        if not np.isfinite(values).all():
            k = int(np.flatnonzero(~np.isfinite(values))[0])
            raise self._bad(name, f"has {array[k].as_py()!r}, which is no finite {self.dtype}", where(k))
        return values

    def _codes(self, name: str, array: Any, values: list[Any], where: Any) -> np.ndarray:
        array = _decoded(array)
        codes = arrow("compute").index_in(array, value_set=arrow().array(values, array.type))
        if codes.null_count:
            k = _first_null(codes)
            known = f"which is none of those known, {_listed(values)}"
            raise self._bad(name, f"has the value {array[k].as_py()!r}, {known}", where(k))
        return codes.to_numpy(zero_copy_only=False).astype(np.int32)

    def _targets(self, batch: Any, where: Any) -> np.ndarray:
        if self._target is None:
            return np.zeros(batch.num_rows)
        pa, array = arrow(), _decoded(batch.column(self._target))
        self._refuse_missing(self._target, array, where)
        kind = array.type
        if _is_text(pa, kind):
            return np.array(array.to_pylist(), dtype=np.str_)
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return array.to_numpy(zero_copy_only=False)
        if not _is_number(pa, kind):
            raise ValueError(f"{self.name}: the target {self._target!r} has the type {kind}: give numbers or text")
        values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        # a later target need not be whole, although the first ones were
        return values.astype(np.int64) if self._whole_targets and np.all(values == np.round(values)) else values


def _place(first: int | None, k: int) -> str:
    """Name row k of a batch in a sentence. ``first`` is the number of the batch's first row, None if it is unknown."""
    return f"row {first + k + 1}" if first is not None else f"row {k + 1} of a later part"


def _decoded(array: Any) -> Any:
    """The values of an array that is encoded by a dictionary; other arrays as they are."""
    return array.dictionary_decode() if arrow().types.is_dictionary(array.type) else array


def _first_null(array: Any) -> int:
    """The place of the first missing value."""
    return int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))


def _is_text(pa: Any, kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(pa, kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_number(pa: Any, kind: Any) -> bool:
    types = pa.types
    return types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def _listed(names: Iterable[Any]) -> str:
    """At most a dozen names for a sentence."""
    names = [repr(name) for name in names]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


# ---------------------------------------------------------------- Parquet


class ParquetTable(TableSource):
    """A Parquet file; its groups of rows can be read in any order."""

    def _file(self) -> Any:
        try:
            return arrow("parquet").ParquetFile(self.path)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as bad:
            raise ValueError(f"{self.name} is no whole Parquet file: {bad}") from bad

    def _schema(self) -> Any:
        with self._file() as file:
            return file.schema_arrow

    def _parts(self) -> list[Any]:
        with self._file() as file:
            held = [file.metadata.row_group(k).total_byte_size for k in range(file.num_row_groups)]
        if len(held) < 2 or sum(held) < self.max_memory / COPIES:
            return [None]
        return list(range(len(held)))

    def _in_order(self) -> list[Any]:
        return [None]

    def _batches(self, part: Any, names: list[str]) -> Iterator[tuple[Any, float]]:
        with self._file() as file:
            total, seen = max(1, file.metadata.num_rows), 0
            groups = None if part is None else [part]
            rows = int(min(ROWS, max(1, self.max_memory / COPIES / (16 * max(1, len(names))))))
            try:
                for batch in file.iter_batches(rows, row_groups=groups, columns=names):
                    seen += batch.num_rows
                    yield batch, seen / total if part is None else np.nan
            except OSError as bad:
                raise ValueError(f"{self.name} is no whole Parquet file: {bad}") from bad


# ---------------------------------------------------------------- CSV


class CSVTable(TableSource):
    """A CSV file, read from its beginning."""

    def __init__(
        self,
        path: Any,
        *,
        delimiter: str | None = None,
        header: bool = True,
        on_bad_line: str = "raise",
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        self.on_bad_line = one_of("on_bad_line", on_bad_line, ("raise", "skip"))
        suffixes = [] if hasattr(path, "read") else Path(path).suffixes
        self.delimiter = delimiter or ("\t" if ".tsv" in suffixes else ",")
        self.header = header
        self.again = True  # a stream is copied to disk
        self._types: Any = None
        self._block = self._smaller = BLOCK  # bytes at a time, in the first look at the file and after it

    def _open(self, file: Any, types: Any, invalid: Any = None, only: list[str] | None = None) -> Any:
        csv = arrow("csv")
        return csv.open_csv(
            file,
            csv.ReadOptions(use_threads=False, block_size=self._block, autogenerate_column_names=not self.header),
            csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=invalid),
            csv.ConvertOptions(column_types=types, include_columns=only, null_values=["", "NA", "NaN", "nan", "null"]),
        )

    def _rewound(self) -> Any:
        if hasattr(self.path, "read"):
            if not (hasattr(self.path, "seekable") and self.path.seekable()):  # copy to disk, to read it twice
                kept = tempfile.TemporaryFile()  # noqa: SIM115
                shutil.copyfileobj(self.path, kept)
                self.path = kept
            self.path.seek(0)
        return reading(self.path)

    def _schema(self) -> Any:
        pa = arrow()
        with (
            self._rewound() as (file, _),
            _named(self.name),
            self._open(self._beginning(file), None, lambda row: "skip") as table,
        ):
            schema = table.schema
        # a column that begins with whole numbers may hold others later
        self._types = {
            f.name: pa.float64() if pa.types.is_integer(f.type) else pa.string() if pa.types.is_null(f.type) else f.type
            for f in schema
        }
        self._block = self._smaller
        target = self._find_target(list(schema.names))
        self._whole_targets = target is not None and pa.types.is_integer(schema.field(target).type)
        return pa.schema([(f.name, self._types[f.name]) for f in schema])

    def _beginning(self, file: Any) -> Any:
        """The first lines, in memory, because pyarrow reads ahead beyond the lines that it is asked for."""
        data = file.read(BLOCK)
        while len(data) >= BLOCK and b"\n" not in data and (more := file.read(BLOCK)):
            data += more
        end = data.rfind(b"\n") + 1
        # a block must hold a row, and later rows may be longer
        longest = max(map(len, data.split(b"\n")))
        self._smaller = min(BLOCK, max(LEAST_BLOCK, 16 * longest, self.max_memory // OF_TEXT))
        return arrow().BufferReader(data[:end] if len(data) >= BLOCK and end else data)

    def _batches(self, part: Any, names: list[str]) -> Iterator[tuple[Any, float]]:
        if self._types is None:
            self._schema()

        def invalid(row: Any) -> str:
            said = f"has {row.actual_columns} columns, where the first has {row.expected_columns}"
            if self.on_bad_line == "raise":
                return "error"
            self.skipped += 1
            self.faults.append(f"line {row.number} {said}" if row.number else f"a line {said}: {row.text[:40]}")
            return "skip"

        with (
            self._rewound() as (file, _),
            _named(self.name),
            self._open(arrow().PythonFile(file, "r"), self._types, invalid, names) as table,
        ):
            for batch in table:
                yield batch, np.nan


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of the file to errors of pyarrow."""
    try:
        yield
    except arrow().ArrowInvalid as bad:
        said = re.sub(r"\s+", " ", str(bad))
        if "straddling object" in said:
            raise ValueError(f"{name} has a line that is too long for its blocks: raise max_memory=") from bad
        if "Empty CSV file" in said:
            raise ValueError(f"{name} holds no examples") from bad
        raise ValueError(f"{name} cannot be read as CSV: {said}") from bad


# ---------------------------------------------------------------- writing


def batches_of(pieces: Iterable[tuple], names: Sequence[str] | None, target: str) -> Iterator[Any]:
    """Yield (X, y) pieces as batches of pyarrow."""
    pa = arrow()
    for X, y, *_ in pieces:
        X, step = checked_sparse(X), max(1, ROWS * 64 // max(1, X.shape[1]))
        known = list(names) if names is not None else [f"x{k}" for k in range(X.shape[1])]
        if len(known) != X.shape[1]:
            raise ValueError(f"feature_names must name {X.shape[1]} features, got {len(known)}")
        if target in known:
            raise ValueError(f"a feature has the name of the target, {target!r}: give target another name")
        for start in range(0, X.shape[0], step):
            some = X[start : start + step]
            some = some.toarray() if sp.issparse(some) else np.asarray(some)
            arrays = [pa.array(np.ascontiguousarray(some[:, k])) for k in range(some.shape[1])]
            yield pa.record_batch([*arrays, pa.array(np.asarray(y[start : start + step]))], [*known, target])


def write_parquet(
    path: str | os.PathLike[str], pieces: Iterable[tuple], names: Any = None, target: str = "target"
) -> None:
    """Write (X, y) pieces as Parquet."""
    _write(path, pieces, names, target, arrow("parquet").ParquetWriter)


def write_csv(path: str | os.PathLike[str], pieces: Iterable[tuple], names: Any = None, target: str = "target") -> None:
    """Write (X, y) pieces as CSV, compressed as the suffix says."""
    delimiter = "\t" if ".tsv" in Path(path).suffixes else ","
    options = arrow("csv").WriteOptions(delimiter=delimiter)
    _write(path, pieces, names, target, lambda to, schema: arrow("csv").CSVWriter(to, schema, write_options=options))


def _write(path: Any, pieces: Iterable[tuple], names: Any, target: str, make: Any) -> None:
    """Write pieces by a writer of pyarrow, which ``make`` makes of a file and a schema."""
    with writing(path) as file, ExitStack() as closed:
        writer = None
        for batch in batches_of(pieces, names, target):
            writer = writer or closed.enter_context(make(file, batch.schema))
            writer.write_batch(batch)
        if writer is None:
            raise ValueError(f"{os.fspath(path)} would hold no examples")
