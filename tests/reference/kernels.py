"""Kernels by scikit-learn, bounds on the rounding of ours, and rows that make trouble.

Tolerances are first-order rounding bounds: a sum of d products x z is wrong by at most (d + 2) ε Σ|x z|, and the bound
is carried through each kernel's formula. They are doubled because the reference rounds too.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.metrics import pairwise

from widemargin.core.kernels.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid
from widemargin.core.rows.rows import CSRRows, DenseRows

EXAMPLES = {
    "linear": Linear(),
    "rbf": RBF(0.3),
    "poly": Polynomial(0.5, 1.0, 3),
    "sigmoid": Sigmoid(0.2, 0.1),
    "laplacian": Laplacian(0.2),
}

REFERENCES = {
    "linear": lambda k, A, B: A @ B.T,
    "rbf": lambda k, A, B: pairwise.rbf_kernel(A, B, k.gamma),
    "poly": lambda k, A, B: pairwise.polynomial_kernel(A, B, k.degree, k.gamma, k.coef0),
    "sigmoid": lambda k, A, B: pairwise.sigmoid_kernel(A, B, k.gamma, k.coef0),
    "laplacian": lambda k, A, B: pairwise.laplacian_kernel(A, B, k.gamma),
}

# Every kernel on dense and sparse rows, in both precisions, with both kinds of indices; all of it for RBF, and for
# each other kernel the layouts that machines have, because each combination is compiled. What a kernel makes of inner
# products knows nothing of the rows they come from: the sigmoid has dense ones only.
LAYOUTS = {
    "dense float32": (np.float32, None),
    "dense float64": (np.float64, None),
    "CSR float32 int32": (np.float32, np.int32),
    "CSR float64 int32": (np.float64, np.int32),
    "CSR float64 int64": (np.float64, np.int64),
}
USUAL = [layout for layout in LAYOUTS if "int64" not in layout]
COMBINATIONS = [
    *(("rbf", layout) for layout in LAYOUTS),
    *(("linear", layout) for layout in ("dense float64", "CSR float64 int32")),
    *(("poly", layout) for layout in ("dense float64", "dense float32", "CSR float64 int32")),
    ("sigmoid", "dense float64"),
    *(("laplacian", layout) for layout in ("dense float32", "CSR float32 int32")),
]
every_combination = pytest.mark.parametrize(("name", "layout"), COMBINATIONS)
few = settings(max_examples=12, deadline=None)


def as_rows(D, layout):
    """D as a layout, and as the float64 matrix that the layout holds."""
    dtype, index = LAYOUTS[layout]
    D = np.ascontiguousarray(D, dtype)
    if index is None:
        return DenseRows(D), D.astype(np.float64)
    S = sp.csr_matrix(D)
    return CSRRows(S.data, S.indices.astype(index), S.indptr.astype(index), D.shape[1]), D.astype(np.float64)


def tolerance(kernel, A, B, eps):
    a, b = np.abs(A), np.abs(B)
    inner, terms = a @ b.T, A.shape[1] + 4
    if isinstance(kernel, Linear):
        bound = terms * inner
    elif isinstance(kernel, Polynomial):
        bound = (kernel.degree * terms + 2) * (kernel.gamma * inner + abs(kernel.coef0)) ** kernel.degree
    elif isinstance(kernel, Sigmoid):
        bound = terms * (kernel.gamma * inner + abs(kernel.coef0)) + 4
    elif isinstance(kernel, RBF):
        bound = kernel.gamma * terms * ((a**2).sum(1)[:, None] + (b**2).sum(1) + 2 * inner) + 4
    else:
        bound = kernel.gamma * terms * (a.sum(1)[:, None] + b.sum(1)) + 4
    return 2 * eps * bound


@st.composite
def matrices(draw):
    """Sparse matrices with the rows that make trouble: zero, constant and repeated ones."""
    n, d = draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 3, 16, 31, 300]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    D = rng.standard_normal((n, d)) * draw(st.sampled_from([0.1, 1.0, 3.0])) / np.sqrt(d)
    D[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0.0
    for row in rng.integers(n, size=3):
        D[row] = (0.0, 1 / d, D[0])[rng.integers(3)]
    return D
