"""Columns of a data matrix, as rows of its transpose: every primitive for rows then works on columns."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .rows import CSRRows, DenseRows, as_matrix, as_rows


def as_columns(X: Any) -> DenseRows | CSRRows:
    """The columns of a matrix as rows of its transpose; without a copy for Fortran order and CSC."""
    X = as_matrix(X)
    if sp.issparse(X):
        return as_rows(X.tocsc().T)
    return as_rows(X.T if X.flags.f_contiguous else np.ascontiguousarray(X.T))
