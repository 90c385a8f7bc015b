"""Columns of a data matrix: the rows of its transpose, so that everything that is done with a row serves them too."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from .rows import CSRRows, DenseRows, as_matrix, as_rows


def as_columns(X: Any) -> DenseRows | CSRRows:
    """The columns of a matrix as rows of its transpose: Fortran order and CSC as they are, other layouts in a copy."""
    X = as_matrix(X)
    if sp.issparse(X):
        return as_rows(X.tocsc().T)
    return as_rows(X.T if X.flags.f_contiguous else np.ascontiguousarray(X.T))
