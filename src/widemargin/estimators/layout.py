"""How rows are laid out and rounded for kernel values, and by how much at most that moves one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.measures import Absolute, sizes
from ..core.rows import as_rows, dtype_of
from ..files import savable
from .scaling import FLOAT32_LARGEST, new_rows

#: Dense data with a smaller share of non-zeros is handled as CSR: its products are cheaper.
SPARSE_BELOW = 0.25
#: Data is rounded to float32 where no kernel value changes by more than this many times 2⁻²⁴.
MOVED = 32.0
#: u: the relative error of a number rounded to float32.
FLOAT32_ROUNDING = 2.0**-24


def moved_by_float32(kernel: Any, X: Any, centre: np.ndarray | None = None) -> float:
    """By how much at most a kernel value changes when rows are rounded to float32, in units of u = 2⁻²⁴.

    Rounding moves a row by at most u times its length, so a distance by at most 2uR, where R is the largest
    length of a row (less the centre), and a value by the kernel's steepness times that. Infinite where an entry is
    beyond float32.
    """
    most, tiny = FLOAT32_LARGEST, float(np.finfo(np.float32).tiny)
    squared, largest = kernel.measure is not Absolute, 0.0
    n, width = X.shape
    step = max(1, 2**20 // max(1, width))
    for first in range(0, n, step):
        part = X[first : first + step].astype(np.float64)
        part = abs(part if centre is None else part - centre)
        if part.max() > most:
            return math.inf
        if squared:
            part = part.multiply(part) if sp.issparse(part) else part * part
        largest = max(largest, float(np.max(part.sum(axis=1))))
    # entries too small for float32 to keep their relative precision are moved by u times its smallest normal number
    if squared:
        return 2.0 * kernel.steepness * (math.sqrt(largest) + math.sqrt(width) * tiny)
    return 2.0 * kernel.steepness * (largest + width * tiny)


@savable()
@dataclass
class Preparation:
    """How rows are laid out for kernel values: what keeps their precision and costs least.

    Kernels of distances do not change when a vector is subtracted from all rows, so dense float64 data is centred
    before it is rounded to float32; that halves memory and doubles speed. Sparse data cannot be centred. Data is
    rounded only where no kernel value changes by more than :data:`MOVED` roundings of float32, that is where √γ times
    the largest ‖x‖ is below 18 (Laplacian: γ times the largest ‖x‖₁ below 16; see :func:`moved_by_float32`). Other data
    stays float64, and dense data with few non-zeros is made CSR only where the same holds. Under a linear kernel a free
    bias takes up the shift, and dense data is centred too, since kernel rows are kept in float32. Other kernels keep
    the data.
    """

    centre: np.ndarray | None
    as_float32: bool
    as_csr: bool
    #: Rows are divided by two to this power first.
    exponent: int = 0

    @classmethod
    def of(cls, kernel: Any, X: Any, free_bias: bool) -> Preparation:
        """The preparation that suits the training data."""
        if not kernel.of_rows:
            return cls(None, False, False)
        of_distances, wide = kernel.of_distances, X.dtype == np.float64
        if sp.issparse(X):
            return cls(None, of_distances and wide and moved_by_float32(kernel, X) <= MOVED, True)
        if np.count_nonzero(X) < SPARSE_BELOW * X.size:
            if not of_distances:
                return cls(None, False, True)
            if moved_by_float32(kernel, X) <= MOVED:
                return cls(None, wide, True)
        if of_distances and wide:
            centre = X.mean(axis=0, dtype=np.float64)
            return cls(centre, moved_by_float32(kernel, X, centre) <= MOVED, False)
        shiftable = kernel.is_linear and free_bias
        return cls(X.mean(axis=0, dtype=np.float64) if shiftable else None, False, False)

    def rows(self, kernel: Any, X: Any) -> Any:
        """Return X as the rows that the kernel takes."""
        if kernel.is_function:
            return X
        X = new_rows(kernel, X, self.exponent)
        if self.as_csr and not sp.issparse(X):
            X = sp.csr_matrix(X)
        elif sp.issparse(X) and not self.as_csr:
            X = X.toarray()
        if self.centre is not None:
            centred = np.empty(X.shape, np.float32 if self.as_float32 else X.dtype)
            step = max(1, 2**18 // max(1, X.shape[1]))
            with np.errstate(over="ignore"):
                for first in range(0, X.shape[0], step):  # in blocks that stay in cache
                    part = slice(first, first + step)
                    np.subtract(X[part], self.centre, out=centred[part], casting="same_kind")
            X = centred
        if self.as_float32 and X.dtype != np.float32:
            with np.errstate(over="ignore"):  # a new row beyond float32 is far from all that were trained on
                X = X.astype(np.float32)
        return as_rows(X)


def rounding(kernel: Any, rows: Any, largest: float) -> float:
    """The typical error of a kernel value kept in float32: its rounding, and that of a distance of float32 rows.

    ‖x‖² + ‖z‖² − 2⟨x, z⟩ has an error near 2u‖x‖² in float32, and is used up to γ max ‖x‖² = 145.
    """
    error = largest
    if kernel.of_distances and dtype_of(rows) == np.float32:
        most = MOVED if kernel.measure is Absolute else 2.0 * 145.0
        error += min(2.0 * kernel.gamma * sizes(kernel.measure(), rows)[1], most)
    return FLOAT32_ROUNDING * error
