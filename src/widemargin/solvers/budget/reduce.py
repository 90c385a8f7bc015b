"""Smaller models: project a machine with many vectors onto few vectors, which are merged ones or some of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...core.kernels.expansion import whole_rows, with_rows
from ...core.kernels.matrix import KernelMatrix
from ...core.kernels.measures import Absolute
from ...core.rows.rows import CSRRows, DenseRows, as_matrix, as_rows, shape
from ...core.threads.interrupts import PROMPT, safe_place
from .merge import Merge
from .policy import columns, no_budget, shrink
from .sgd import BudgetedState, new_state


def holding(kernel: Any, rows: DenseRows | CSRRows, coefficients: np.ndarray) -> BudgetedState:
    """A state with these vectors and coefficients (outputs × vectors), for predictions."""
    V = as_matrix(rows).astype(np.float64)
    (n, d), outputs, sparse = V.shape, coefficients.shape[0], sp.issparse(V)
    held = no_budget(Merge(), d, outputs, columns(n), np.float64, sparse)
    vectors = held.vectors
    if sparse:
        V.eliminate_zeros()
        used, place = np.unique(V.indices, return_inverse=True)
        vectors = with_rows(vectors, max(len(vectors.Z), whole_rows(used.size + 1)))
        vectors.slot[used], vectors.feature[1 : used.size + 1] = np.arange(1, used.size + 1), used
        vectors.held[1 : used.size + 1], vectors.rows[0] = np.bincount(place, minlength=used.size), used.size + 1
        vectors.Z[1 + place, np.repeat(np.arange(n), np.diff(V.indptr))] = V.data
    else:
        vectors.Z[:, :n] = V.T
    Z = vectors.Z[:, :n]
    vectors.size[:n] = np.sum(np.abs(Z) if kernel.measure is Absolute else Z**2, axis=0)
    held.A[:, :n] = coefficients
    held.norm2[:n] = np.sum(coefficients**2, axis=0) * KernelMatrix(kernel, rows).diagonal()
    state = new_state(held._replace(vectors=vectors), 0, np.random.default_rng(0))
    state.tally.vectors = n
    return state


def merged_vectors(kernel: Any, vectors: np.ndarray, coefficients: np.ndarray, budget: int) -> np.ndarray:
    """The ``budget`` vectors left after merging the smallest vector with its best partner again and again."""
    n, d = vectors.shape
    state = holding(kernel, as_rows(vectors), coefficients)
    prepared, machine = Merge().prepare(state.budget, 0), state.machine(kernel, budget, False)
    at_once = max(1, PROMPT // (n * (64 + d)))  # each vector is compared with all
    while state.tally.vectors > budget:
        safe_place()
        shrink(prepared, machine, at_once)
    return as_matrix(state.vectors())


def spanning(matrix: KernelMatrix, scores: np.ndarray, budget: int) -> np.ndarray:
    """Rows chosen one after the other, each the one that takes most of the rest of w (orthogonal matching pursuit).

    ``scores`` are those of w (outputs × n). With L the rows of a Cholesky factor of the kernel matrix, of the rows
    taken first, what is left of Φ(x_i) has the square d_i = k_ii − Σ_t L_ti², and of w at x_i the score f_i; taking
    row i lessens ‖w‖² by Σ_c f_ci²/d_i.
    """
    left, own, f, taken = matrix.diagonal().astype(np.float64), matrix.diagonal(), scores.copy(), []
    L = np.empty((budget, left.size))
    for t in range(budget):
        gain = np.where(left > 1e-8 * own, np.sum(f * f, axis=0) / np.maximum(left, 1e-300), 0.0)
        i = int(gain.argmax())
        if gain[i] == 0.0:
            break
        L[t] = (matrix.block(np.array([i]))[0] - L[:t, i] @ L[:t]) / math.sqrt(left[i])
        f -= np.outer(f[:, i] / math.sqrt(left[i]), L[t])
        left = left - L[t] ** 2
        left[i] = 0.0
        taken.append(i)
    return np.array(taken, np.intp)


def reduced(
    kernel: Any, rows: DenseRows | CSRRows, coefficients: np.ndarray, budget: int, ways: tuple[str, ...]
) -> tuple[DenseRows | CSRRows, np.ndarray, np.ndarray, np.ndarray]:
    """(rows, coefficients, ‖w − w′‖², ‖w‖²): w = Σ_j coefficients[:, j] Φ(row j), and w′ of ``budget`` rows.

    The norms are those of each output. ``ways`` to choose rows are "merge" and "project" (see :func:`spanning`); both
    see outputs of norm 1. Then w is projected onto the span of those rows, with a ridge that keeps their kernel matrix
    regular; of several ways the one that loses least is taken.
    """
    if not kernel.is_definite:
        raise ValueError(
            f"compress projects onto a span, and {kernel.name!r} is no positive definite kernel: use another"
        )
    matrix, n = as_matrix(rows).astype(np.float64), shape(rows)[0]
    rows = as_rows(matrix)
    whole, scores = KernelMatrix(kernel, rows), np.empty_like(coefficients, dtype=np.float64)
    blocks = [np.arange(first, min(first + 1024, n)) for first in range(0, n, 1024)]
    for some in blocks:
        scores[:, some] = coefficients @ whole.block(some).T
    norm2 = np.sum(scores * coefficients, axis=1)
    unit = np.where(norm2 > 0.0, 1.0 / np.sqrt(np.maximum(norm2, 1e-300)), 0.0)[:, None]
    found = []
    for way in ways:
        if way == "project":
            kept = matrix[spanning(whole, unit * scores, budget)]
        elif isinstance(rows, DenseRows):
            kept = merged_vectors(kernel, matrix, unit * coefficients, budget)
        else:  # features that no vector has stay zero
            used = np.unique(rows.indices)
            few = sp.csr_matrix(merged_vectors(kernel, matrix[:, used].toarray(), unit * coefficients, budget))
            kept = sp.csr_matrix((few.data, used[few.indices], few.indptr), (few.shape[0], matrix.shape[1]))
        chosen = as_rows(kept)
        count = shape(chosen)[0]
        K, across = KernelMatrix(kernel, chosen).block(np.arange(count)), KernelMatrix(kernel, rows, chosen)
        onto = sum((coefficients[:, some] @ across.block(some) for some in blocks), np.zeros((len(norm2), count)))
        ridge = 1e-10 * max(float(np.trace(K)) / max(count, 1), 1e-300)
        best = np.linalg.solve(K + ridge * np.eye(count), onto.T).T
        lost = norm2 - 2.0 * np.sum(best * onto, axis=1) + np.sum((best @ K) * best, axis=1)
        found.append((chosen, best, np.maximum(lost, 0.0), norm2))
    return min(found, key=lambda one: float(np.sum(one[2] * unit[:, 0] ** 2)))
