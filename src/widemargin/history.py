"""The record of a run: exact counters, a clock that counts training only, and a table of checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .files import savable
from .schemas import COUNT, Array, Each, Pair, Whole, maybe


@savable(
    steps=COUNT, visits=COUNT, updates=COUNT, feature_reads=COUNT, kernel_evals=COUNT, kernel_computed=COUNT
)  # fmt: skip
@dataclass
class Counters:
    """The work that a solver has done, counted exactly.

    The state of every solver has them as ``counters``, and ``history_`` has a column of each.

    Parameters
    ----------
    steps : int, default=0
        The number of iterations of the algorithm.
    visits : int, default=0
        The number of examples looked at. With mini-batches of k examples it is k per step.
    updates : int, default=0
        The number of visits with a non-zero sub-gradient, which changed the weights.
    feature_reads : int, default=0
        The number of stored entries of the data matrix read, each row once per visit. Trial runs that find a step size
        are not counted, nor is evaluation.
    kernel_evals : int, default=0
        The number of kernel values that the algorithm asked for, the x-axis of the papers.
    kernel_computed : int, default=0
        The number of kernel values that were computed. They are fewer where a cache still held some. Alone of all
        counters it depends on what was held.

    See Also
    --------
    History : The counters at each checkpoint.

    Examples
    --------
    >>> from widemargin import LinearSVC
    >>> seen = []
    >>> def look(progress):
    ...     seen.append(progress.state.counters.visits)
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> model = LinearSVC(solver="pegasos", max_iter=2, tol=0, callbacks=look, random_state=0).fit(X, y)
    >>> seen, model.history_["visits"].tolist()
    ([4, 8], [4, 8])
    """

    steps: int = 0
    visits: int = 0
    updates: int = 0
    feature_reads: int = 0
    kernel_evals: int = 0
    kernel_computed: int = 0


class Stopwatch:
    """A clock that counts training; it is stopped during evaluation and compilation.

    >>> watch = Stopwatch()
    >>> with watch:
    ...     pass
    >>> watch.seconds > 0.0
    True
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since = 0.0

    def __enter__(self) -> Stopwatch:
        self._since = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds += time.perf_counter() - self._since


def _law(history: Any, sizes: dict[str, int]) -> str | None:
    if history.length > sum(values.size for _, values in history.columns.values()):
        return f"it has {history.length} rows, more than values"
    sizes_of = {name: history.length if rows is None else rows.size for name, (rows, _) in history.columns.items()}
    wrong = [name for name, (_, values) in history.columns.items() if values.size != sizes_of[name]]
    return f"column {wrong[0]} has other rows than values" if wrong else None


_ROWS = maybe(Array(None, dtype=np.int64, low=0, high="length-1"))
#: Not all finite: a gap is infinite as long as nothing is proven.
_NUMBERS = Array(None, dtype=None, finite=False)


@savable(length=Whole(0, size="length"), columns=Each(Pair(_ROWS, _NUMBERS), dict), law=_law)
@dataclass
class History:
    """The course of a training: one row per checkpoint, read by column.

    Every fitted estimator has one as ``history_``. The columns are ``seconds`` (training only),
    ``epochs``, the counters of work, ``objective`` and, where they were measured, ``gap``,
    ``validation_error`` and others. A value that a row lacks is NaN.

    Parameters
    ----------
    rows : list of dict, default=[]
        The rows, each with its values by column.

    Attributes
    ----------
    columns : list of str
        The names of the columns, in order of appearance.

    See Also
    --------
    widemargin.plots.convergence : A picture of a history.

    Examples
    --------
    >>> from widemargin.history import History
    >>> history = History()
    >>> history.append(seconds=0.1, steps=10, objective=0.5)
    >>> history.append(seconds=0.2, steps=20, objective=0.4)
    >>> history["objective"].tolist(), len(history)
    ([0.5, 0.4], 2)
    """

    rows: list[dict[str, float]] = field(default_factory=list)

    def append(self, counters: Counters | None = None, **columns: float) -> None:
        """Add a checkpoint.

        Parameters
        ----------
        counters : Counters or None, default=None
            The work done so far, whose counters become columns of their own names.
        **columns : float
            Further values, by column.

        Examples
        --------
        >>> from widemargin.history import History
        >>> history = History()
        >>> history.append(seconds=0.1, steps=10, objective=0.5)
        """
        if counters is not None:
            columns = {**vars(counters), **columns}
        self.rows.append(columns)

    def followed_by(self, later: History) -> History:
        """Return the rows of two runs, one after the other.

        Seconds and counters of the later run continue those of the first.

        Parameters
        ----------
        later : History
            The rows that come after these.

        Returns
        -------
        History
            The rows of both.

        Examples
        --------
        >>> from widemargin.history import History
        >>> history = History()
        >>> history.append(seconds=0.1, steps=10, objective=0.5)
        >>> history.followed_by(history)["steps"].tolist()
        [10.0, 20.0]
        """
        names = ("seconds", *vars(Counters()))
        before = {name: self.last(name) for name in names}
        rows = [{k: v + before[k] if k in before else v for k, v in row.items()} for row in later.rows]
        return History([*self.rows, *rows])

    def _to_parts(self) -> dict[str, Any]:
        """The number of rows, and for each column (indices of the rows that have it, its values); None is all rows."""
        places = {name: [i for i, row in enumerate(self.rows) if name in row] for name in self.columns}
        values = {name: np.array([self.rows[i][name] for i in found]) for name, found in places.items()}
        some = {name: None if len(found) == len(self) else np.array(found) for name, found in places.items()}
        return {"length": len(self), "columns": {name: (some[name], values[name]) for name in places}}

    @classmethod
    def _from_parts(cls, length: int, columns: dict[str, Any]) -> History:
        rows: list[dict[str, float]] = [{} for _ in range(length)]
        for name, (places, values) in columns.items():
            for i, value in zip(range(length) if places is None else places.tolist(), values.tolist(), strict=True):
                rows[i][name] = value
        return cls(rows)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order of appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def __getitem__(self, column: str) -> np.ndarray:
        if column not in self.columns:
            raise KeyError(f"history has no column {column!r}; it has {', '.join(self.columns) or 'none'}")
        return np.array([row.get(column, np.nan) for row in self.rows])

    def last(self, column: str) -> float:
        """Return the last number in a column, or 0 if there is none.

        Parameters
        ----------
        column : str
            The name of the column.

        Returns
        -------
        float
            The number.

        Examples
        --------
        >>> from widemargin.history import History
        >>> history = History()
        >>> history.append(seconds=0.1, steps=10, objective=0.5)
        >>> history.last("steps")
        10.0
        """
        found = [row[column] for row in self.rows if column in row]
        return float(found[-1]) if found else 0.0

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return iter(self.rows)

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            A row per checkpoint.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> from widemargin.history import History
        >>> history = History()
        >>> history.append(seconds=0.1, steps=10, objective=0.5)
        >>> history.to_frame().shape
        (1, 3)
        """
        try:
            import pandas as pd
        except ImportError as missing:
            raise ImportError(
                "History.to_frame needs pandas: pip install pandas, or read columns with history['name']"
            ) from missing
        return pd.DataFrame(self.rows, columns=self.columns)
