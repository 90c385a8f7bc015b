"""Data in NumPy's ``.npz``: ``X`` and ``y``, or ``y`` and the arrays of a CSR matrix as SciPy saves it.

A few rows at a time are read from the archive, compressed or not. Arrays of Python objects (pickles) are refused.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.rows.rows import checked_sparse
from ..files import UNREADABLE
from .chunks import COPIES, MAX_MEMORY, ChunkedSource, Piece
from .lines import name_of, writing

#: Names that the array of targets may have.
TARGETS = ("y", "target", "labels")


class _Rows:
    """An array in an archive, whose rows are read in order."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self.name, self.file = name, archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(self.file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, self.dtype = read(self.file)
        if self.dtype.hasobject:
            raise ValueError(f"{name} holds Python objects, which are not read")
        if fortran and len(shape) > 1:
            raise ValueError(f"{name} stands in Fortran's order: save np.ascontiguousarray({name})")
        if any(length < 0 for length in shape):
            raise ValueError(f"{name} has the shape {shape}")
        self.shape, self.row = shape, int(np.prod(shape[1:], dtype=np.int64)) * self.dtype.itemsize

    def take(self, count: int) -> np.ndarray:
        """Read the next rows."""
        got = self.file.read(count * self.row)
        if len(got) < count * self.row:
            raise EOFError(f"{self.name} ends before its {self.shape[0]} rows")
        return np.frombuffer(got, self.dtype).reshape(count, *self.shape[1:])


class Archive(ChunkedSource):
    """A ``.npz`` file of data, see :func:`open_data`."""

    def __init__(
        self, path: Any, *, target: str | None = None, dtype: Any = None, max_memory: Any = MAX_MEMORY
    ) -> None:
        super().__init__(max_memory)
        self.path, self.name, self.target = path, name_of(path), target
        self.dtype = None if dtype is None else np.dtype(dtype)

    def _pieces(self, part: Any) -> Iterator[tuple[Piece, float]]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield from self._of(archive)
        except FileNotFoundError:
            raise
        except UNREADABLE as bad:
            raise ValueError(f"{self.name} is no whole archive of data: {bad}") from bad

    def _of(self, archive: zipfile.ZipFile) -> Iterator[tuple[Piece, float]]:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        target = self.target or next((name for name in TARGETS if name in names), None)
        if "header" in names and "X" not in names:
            raise ValueError("it holds a model, not data")
        if target not in names:
            listed = ", ".join(map(repr, names[:12]))
            raise ValueError(f"it has no {self.target or 'y'!r} for the target: give target=, one of {listed}")
        y = _Rows(archive, str(target))
        n = y.shape[0] if len(y.shape) == 1 else -1
        if n < 0:
            raise ValueError(f"{target} has {len(y.shape)} dimensions, not one")
        if "X" in names:
            yield from self._dense(_Rows(archive, "X"), y, n)
        elif {"data", "indices", "indptr", "shape"} <= set(names):
            kind = _Rows(archive, "format") if "format" in names else None
            if kind is not None and (told := kind.file.read(kind.dtype.itemsize).rstrip(b"\0")) != b"csr":
                raise ValueError(f"its matrix has the format {told.decode('latin-1')!r}: save X.tocsr()")
            yield from self._csr(archive, y, n)
        else:
            raise ValueError(f"it has neither X nor data, indices, indptr and shape; it has {', '.join(names[:12])}")

    def _kind(self, dtype: np.dtype) -> np.dtype:
        if self.dtype is not None:
            return self.dtype
        return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)

    def _dense(self, X: _Rows, y: _Rows, n: int) -> Iterator[tuple[Piece, float]]:
        if len(X.shape) != 2 or X.shape[0] != n:
            raise ValueError(f"X has the shape {X.shape} and y {n} entries")
        self.n_features = X.shape[1]
        step = max(1, int(self.max_memory / COPIES / 4 / max(1, X.row + y.row)))
        for start in range(0, n, step):
            count = min(step, n - start)
            rows = np.ascontiguousarray(X.take(count), self._kind(X.dtype))
            yield Piece(rows, y.take(count)), (start + count) / n

    def _csr(self, archive: zipfile.ZipFile, y: _Rows, n: int) -> Iterator[tuple[Piece, float]]:
        shape = _Rows(archive, "shape")
        sizes = shape.take(shape.shape[0]).tolist()
        starts, indices, data = (_Rows(archive, name) for name in ("indptr", "indices", "data"))
        if len(sizes) != 2 or sizes[0] != n or starts.shape != (n + 1,) or data.shape != indices.shape:
            raise ValueError(f"its CSR matrix has the shape {tuple(sizes)}, and y {n} entries")
        self.n_features = int(sizes[1])
        last = int(starts.take(1)[0])
        mean = max(1.0, data.shape[0] / max(1, n)) * (data.row + indices.row) + starts.row + y.row
        step = max(1, int(self.max_memory / COPIES / 4 / mean))
        for start in range(0, n, step):
            count = min(step, n - start)
            ends = np.concatenate([[last], starts.take(count).astype(np.int64)])
            entries = int(ends[-1] - ends[0])
            if entries < 0 or np.any(np.diff(ends) < 0):
                raise ValueError("indptr falls")
            found, at = data.take(entries).astype(self._kind(data.dtype)), indices.take(entries).astype(np.int64)
            if at.size and not (at.min() >= 0 and at.max() < sizes[1]):
                raise ValueError(f"an index is not below {sizes[1]}")
            X = sp.csr_matrix(
                (found, at.astype(np.int32 if sizes[1] < 2**31 else np.int64), ends - last), (count, sizes[1])
            )
            last = int(ends[-1])
            yield Piece(X, y.take(count)), (start + count) / n

    def _width(self) -> int | None:
        if self.n_features is None:
            next(iter(self._pieces(None)), None)
        return self.n_features


def write_archive(path: str | os.PathLike[str], X: Any, y: Any) -> None:
    """Write X and y as ``.npz``."""
    with writing(path) as file:
        if sp.issparse(X):
            X = checked_sparse(X).tocsr()
            arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "format": b"csr"}
            np.savez(file, y=y, **arrays)
        else:
            np.savez(file, X=np.ascontiguousarray(X), y=y)
