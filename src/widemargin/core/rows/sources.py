"""Data that is reached by single rows and columns: what a source must offer, and how solvers read one.

A source is any object with ``shape``, ``row(i)`` and ``column(j)``. Rows and columns are one-dimensional arrays of
numbers, or SciPy's sparse arrays with one row or one column. Reading may be expensive, for example a measurement or a
request over a network, so nothing here reads more than a solver needs.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from ..threads.interrupts import at_once
from .columns import as_columns
from .rows import CSRRows, DenseRows, as_rows, checked_sparse, unlocked


@runtime_checkable
class Source(Protocol):
    """Data that is reached by single rows and columns: the methods that it must have.

    ``shape`` is (examples, features); ``row(i)`` has all features of example i, ``column(j)`` feature j of all
    examples, as an array of numbers or a sparse array with one row or one column.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVC, Simba
    >>> class Measured:
    ...     def __init__(self, X):
    ...         self.X, self.shape = X, X.shape
    ...     def row(self, i):
    ...         return self.X[i]
    ...     def column(self, j):
    ...         return self.X[:, j]
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 20))
    >>> y = X @ rng.normal(size=20) > 0.0
    >>> model = LinearSVC(solver=Simba(nu=1e-3), max_iter=5, tol=0, random_state=0).fit(Measured(X), y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(number of examples, number of features)."""

    def row(self, i: int) -> Any:
        """Return the features of example i.

        Parameters
        ----------
        i : int
            The index of the example.

        Returns
        -------
        array or sparse array
            As many values as there are features.
        """

    def column(self, j: int) -> Any:
        """Return feature j of all examples.

        Parameters
        ----------
        j : int
            The index of the feature.

        Returns
        -------
        array or sparse array
            As many values as there are examples.
        """


class TwoWays:
    """A matrix that is read by row and by column where it is stored, for example a memory map.

    SIMBA neither copies the matrix nor makes a pass over it. Other solvers read ``rows``, and copy them if they are in
    Fortran order.

    Parameters
    ----------
    rows : array or sparse matrix of shape (n, d)
        The matrix: float32 or float64, in C or Fortran order, or CSR.
    columns : array, sparse matrix or None, default=None
        The same matrix, laid out for reading columns: in Fortran order, or CSC. Without it columns are
        read from ``rows``, which takes a memory access (on disk, a page) for each entry. Sparse rows need it.

    See Also
    --------
    Source : What data must offer to be read so.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVC, Simba, TwoWays
    >>> X = np.random.default_rng(0).normal(size=(60, 10))
    >>> data = TwoWays(X, np.asfortranarray(X))
    >>> model = LinearSVC(solver=Simba(nu=1e-3), max_iter=1, tol=0, random_state=0)
    >>> model.fit(data, X[:, 0] > 0.0).coef_.shape
    (1, 10)
    """

    def __init__(self, rows: Any, columns: Any = None) -> None:
        for name, given in (("rows", rows), ("columns", columns)):
            if given is not None:
                self._check(name, given)
        if columns is None and sp.issparse(rows):
            raise ValueError("sparse rows have no columns to read: give columns, such as rows.tocsc()")
        if columns is not None and sp.issparse(rows) != sp.issparse(columns):
            raise ValueError("rows and columns must both be sparse or both be arrays, got one of each: convert one")
        if columns is not None and (columns.shape != rows.shape or columns.dtype != rows.dtype):
            raise ValueError(
                f"rows and columns must be the same matrix, got {rows.shape} of {rows.dtype} and {columns.shape} of "
                f"{columns.dtype}: give both with one shape and one dtype"
            )
        self.shape = tuple(rows.shape)
        if sp.issparse(rows):
            self.by_rows: DenseRows | CSRRows = as_rows(rows)
            self.by_columns: DenseRows | CSRRows = as_columns(columns)
        else:
            self.by_rows = DenseRows(unlocked(np.asarray(rows)))
            self.by_columns = DenseRows(unlocked(np.asarray(rows if columns is None else columns).T))

    @staticmethod
    def _check(name: str, given: Any) -> None:
        if sp.issparse(given):
            checked_sparse(given, name)
            wanted = "csr" if name == "rows" else "csc"
            if given.format != wanted or not given.has_canonical_format:
                raise ValueError(
                    f"sparse {name} must be {wanted.upper()} with sorted and summed indices, got "
                    f"{given.format.upper()}: convert them with .to{wanted}() and .sum_duplicates()"
                )
        elif not isinstance(given, np.ndarray) or given.ndim != 2:
            raise TypeError(f"{name} must be an array of two dimensions or a sparse matrix, got {type(given).__name__}")
        elif not (given.flags.c_contiguous or given.flags.f_contiguous):
            raise ValueError(f"{name} must be in C or Fortran order, got an array that is in neither: copy it")
        if given.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} must be float32 or float64, got {given.dtype}: convert them")

    def row(self, i: int) -> Any:
        """Return the features of example i.

        Parameters
        ----------
        i : int
            The index of the example.

        Returns
        -------
        array or sparse array
            As many values as there are features.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin import TwoWays
        >>> data = TwoWays(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> data.row(1).tolist()
        [3.0, 4.0]
        """
        return _line(self.by_rows, i)

    def column(self, j: int) -> Any:
        """Return feature j of all examples.

        Parameters
        ----------
        j : int
            The index of the feature.

        Returns
        -------
        array or sparse array
            As many values as there are examples.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin import TwoWays
        >>> data = TwoWays(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> data.column(1).tolist()
        [2.0, 4.0]
        """
        return _line(self.by_columns, j)


def _line(lines: DenseRows | CSRRows, k: int) -> Any:
    """Row k of ``lines``, as an array or a sparse array of one row."""
    if isinstance(lines, DenseRows):
        return lines.values[k]
    part = slice(lines.indptr[k], lines.indptr[k + 1])
    return sp.csr_array(
        (lines.data[part], lines.indices[part], np.array([0, part.stop - part.start])), shape=(1, lines.n_features)
    )


class Remote:
    """A source as solvers read it: chosen rows and columns, checked, as small matrices in memory."""

    dtype = np.dtype(np.float64)

    def __init__(self, source: Source) -> None:
        self.source, self.shape = source, _checked_shape(source)
        self.is_sparse: bool | None = None

    def rows(self, chosen: np.ndarray) -> DenseRows | CSRRows:
        """The chosen rows, in their order."""
        return self._fetched("row", self.source.row, chosen, self.shape[1])

    def columns(self, chosen: np.ndarray) -> DenseRows | CSRRows:
        """The chosen columns, as the rows of a matrix."""
        return self._fetched("column", self.source.column, chosen, self.shape[0])

    def _fetched(self, kind: str, ask: Any, chosen: np.ndarray, length: int) -> DenseRows | CSRRows:
        with at_once():  # a second Ctrl-C ends a call that waits
            lines = [self._checked(kind, int(k), ask(int(k)), length) for k in chosen]
        if self.is_sparse is None and lines:
            self.is_sparse = sp.issparse(lines[0])
        if self.is_sparse:
            return as_rows(
                sp.vstack([sp.csr_array(line.reshape(1, -1)) for line in lines] or [sp.csr_array((0, length))], "csr")
            )
        found = np.empty((len(lines), length))
        for place, line in enumerate(lines):
            found[place] = line.toarray()[0] if sp.issparse(line) else line
        return DenseRows(found)

    def _checked(self, kind: str, k: int, line: Any, length: int) -> Any:
        """A row or column as float64, flat or a sparse array of one row; refuses anything else."""
        name = f"{type(self.source).__name__}.{kind}({k})"
        try:
            if sp.issparse(line):
                line = checked_sparse(line, "the line")
                line = sp.csr_array(line.reshape(1, -1) if line.ndim == 1 or line.shape[0] != 1 else line).astype(
                    np.float64
                )
                line.sum_duplicates()
                size, values = line.shape[1], line.data
            else:
                line = values = np.asarray(line, np.float64).reshape(-1)
                size = line.size
        except (ValueError, TypeError) as error:
            raise type(error)(f"{name} must return an array of numbers: {error}") from error
        if size != length:
            raise ValueError(f"{name} must have {length} entries, got {size}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds {values[~np.isfinite(values)][0]}: replace what is missing with a number")
        return line


def _checked_shape(source: Any) -> tuple[int, int]:
    """(examples, features) of a source."""
    name, given = type(source).__name__, source.shape
    try:
        n, d = (int(size) for size in given)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}.shape must be two integers, (examples, features), got {given!r}") from error
    if n < 1 or d < 1:
        raise ValueError(f"{name}.shape must have at least one example and one feature, got {given!r}")
    return n, d


def is_source(X: Any) -> bool:
    """Whether X is a source and not a matrix."""
    return not isinstance(X, np.ndarray) and not sp.issparse(X) and isinstance(X, Source)
