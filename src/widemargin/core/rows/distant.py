"""Rows in other memory, such as that of a GPU: their statistics and scores are computed there.

Compiled code cannot read such rows; :func:`local` copies some of them to the host.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .rows import DenseRows


class Distant(ABC):
    """A matrix of float32 or float64 in other memory. Results depend on its numbers only, bit for bit."""

    shape: tuple[int, int]
    dtype: np.dtype
    #: The name of the memory, such as "cuda:0".
    place: str
    #: Whether the rows are sparse.
    is_sparse: bool = False

    @abstractmethod
    def __getitem__(self, chosen: Any) -> Distant:
        """The chosen rows, in the same memory."""

    @abstractmethod
    def local(self, chosen: Any = None) -> np.ndarray:
        """A copy of the chosen rows, or of all, on the host."""

    def rows(self, chosen: Any) -> DenseRows:
        """The chosen rows in a layout that compiled code reads."""
        return DenseRows(self.local(chosen))

    @abstractmethod
    def largest_entry(self) -> float:
        """The largest absolute value of an entry; NaN or infinity if an entry is."""

    @abstractmethod
    def variance(self) -> float:
        """Variance of all entries, in float64."""

    @abstractmethod
    def mean(self, axis: int, dtype: Any) -> np.ndarray:
        """Means of the columns (axis 0), summed in float64."""

    @abstractmethod
    def sizes(self, squared: bool, centre: np.ndarray | None = None) -> tuple[float, float]:
        """(least, largest) ‖x − centre‖², or ‖x − centre‖₁, of the rows, summed in float64."""

    @abstractmethod
    def prepared(self, exponent: int, far: float, centre: np.ndarray | None, dtype: Any) -> Distant:
        """The rows divided by 2ᵉ, cut off at ±far, less a centre, rounded to a dtype; themselves if no bit changes."""

    def astype(self, dtype: Any, copy: bool = True) -> Distant:
        """The rows rounded to a dtype, or widened; themselves if no bit changes."""
        return self.prepared(0, math.inf, None, dtype)

    @abstractmethod
    def scores(self, model: Any) -> np.ndarray:
        """Scores of these rows, laid out as the vectors of a kernel model, of shape (n, n_outputs)."""


def local_rows(X: Any) -> Any:
    """Rows in a layout that compiled code reads: X itself, or a copy of rows in other memory."""
    return X.rows(None) if isinstance(X, Distant) else X


def local(X: Any, chosen: Any = None) -> Any:
    """The chosen rows of a matrix, or X itself; a copy of rows in other memory."""
    if isinstance(X, Distant):
        return X.local(chosen)
    return X if chosen is None else X[chosen]
