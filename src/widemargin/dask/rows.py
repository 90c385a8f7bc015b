"""Rows on the workers of a cluster: sums over all rows, and copies of some rows, for the fit of a kernel machine."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.rows.distant import Distant
from ..core.rows.rows import as_rows
from ..problems.layout import divided, largest_entry
from .examples import Examples


def _largest(examples: tuple) -> float:
    return largest_entry(examples[0])


def _column_sums(examples: tuple) -> np.ndarray:
    X = examples[0]
    if sp.issparse(X):
        return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
    return X.sum(axis=0, dtype=np.float64)


def _sizes(examples: tuple, exponent: int, squared: bool, centre: np.ndarray | None) -> np.ndarray:
    """(least, largest) ‖x − centre‖², or ‖x − centre‖₁, of a part's rows divided by 2ᵉ."""
    X, found = examples[0], np.array([math.inf, 0.0])
    step = max(1, 2**20 // max(1, X.shape[1]))
    with np.errstate(over="ignore"):
        for first in range(0, X.shape[0], step):
            part = divided(X[first : first + step].astype(np.float64), exponent)
            part = abs(part if centre is None else (part.toarray() if sp.issparse(part) else part) - centre)
            if squared:
                part = part.multiply(part) if sp.issparse(part) else part * part
            of_rows = np.asarray(part.sum(axis=1)).ravel()
            found = np.array([min(found[0], of_rows.min()), max(found[1], of_rows.max())])
    return found


def _moments(examples: tuple, mean: float) -> np.ndarray:
    """(number, sum, sum of squares) of the entries of a part's rows minus ``mean``."""
    X = examples[0]
    values = (X.data if sp.issparse(X) else X).astype(np.float64, copy=False) - mean
    zeros = X.shape[0] * X.shape[1] - values.size
    squares = float(np.sum(values**2)) + zeros * mean**2
    return np.array([float(values.size + zeros), float(values.sum()) - zeros * mean, squares])


def _rows_at(examples: tuple, places: np.ndarray) -> Any:
    return examples[0][places]


class ClusterRows(Distant):
    """The rows of all parts. After :meth:`prepared`, sums are those of prepared rows."""

    place = "a Dask cluster"

    def __init__(self, examples: Examples) -> None:
        self.examples, self.shape, self.dtype = examples, (examples.n, examples.d), examples.dtype
        self.exponent = 0
        self.centre: np.ndarray | None = None
        sizes = [each.n for each in examples.summaries]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.is_sparse = any(each.sparse for each in examples.summaries)

    def __getitem__(self, chosen: Any) -> Any:
        """A copy of the chosen rows on this machine, for kernels that are Python functions."""
        return self.local(chosen)

    def local(self, chosen: Any = None) -> Any:
        """A copy of the chosen rows, as they were given."""
        chosen = np.arange(self.shape[0]) if chosen is None else np.asarray(chosen, np.int64)
        part = np.searchsorted(self.starts, chosen, side="right") - 1
        client, used = self.examples.client, np.unique(part).tolist() or [0]
        order = np.argsort(part, kind="stable")
        inside = [chosen[part == k] - self.starts[k] for k in used]
        blocks = client.gather(client.map(_rows_at, [self.examples.parts[k] for k in used], inside, pure=False))
        back = np.argsort(order, kind="stable")
        whole = sp.vstack(blocks, format="csr") if any(map(sp.issparse, blocks)) else np.concatenate(blocks)
        return whole[back]

    def rows(self, chosen: Any) -> Any:
        """The chosen rows in a layout that compiled code reads."""
        return as_rows(self.local(chosen))

    def largest_entry(self) -> float:
        """The largest absolute value of an entry."""
        return math.ldexp(max(self.examples.asked(_largest)), -self.exponent)

    def variance(self) -> float:
        """Variance of all entries."""
        mean = variance = 0.0
        for _ in range(2):  # the second time about the mean, so that squares do not cancel
            number, total, squares = sum(self.examples.asked(_moments, mean=mean))
            variance = squares / number - (total / number) ** 2
            mean += total / number
        return math.ldexp(variance, -2 * self.exponent)

    def mean(self, axis: int, dtype: Any) -> np.ndarray:
        """Means of the columns."""
        sums = np.sum(self.examples.asked(_column_sums), axis=0)
        return np.ldexp(sums / self.shape[0], -self.exponent).astype(dtype)

    def sizes(self, squared: bool, centre: np.ndarray | None = None) -> tuple[float, float]:
        """(least, largest) ‖x − centre‖², or ‖x − centre‖₁, of the rows."""
        centre = self.centre if centre is None else centre
        found = self.examples.asked(_sizes, exponent=self.exponent, squared=squared, centre=centre)
        least, largest = zip(*found, strict=True)
        return float(min(least)), float(max(largest))

    def prepared(self, exponent: int, far: float, centre: np.ndarray | None, dtype: Any) -> ClusterRows:
        """The rows divided by 2ᵉ, less a centre, in a dtype; training data has no entries beyond ``far``."""
        other = copy.copy(self)
        other.exponent, other.centre, other.dtype = self.exponent + exponent, centre, np.dtype(dtype)
        return other

    def scores(self, model: Any) -> np.ndarray:
        """Refused: estimators predict lazily, block by block."""
        raise TypeError("rows on a cluster are scored block by block: use the estimator's decision_function")
