"""Models, the results of training: they predict, are saved and are loaded.

    LinearModel    XWᵀ + b
    KernelModel    Σ_j coef[c, j] k(x, vector_j) + b_c
    PairsModel     the same for all pairs of classes, with k − 1 coefficients for each vector instead of k(k − 1)/2

A score has the same bits with whichever other rows it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from .core.kernels.kernels import KERNELS
from .core.kernels.matrix import KernelMatrix
from .core.kernels.pairs import all_combined, combine, first_pair
from .core.rows.distant import Distant
from .core.rows.rows import CSRRows, DenseRows, as_rows, checked_sparse, dtype_of, shape, some_rows, unlocked
from .core.sharing import share_out
from .files import Saved, savable
from .schemas import FLOATS, INDICES, Array, Nothing, Own, Real, Record, Scope, class_of, maybe

PIECES = 8  # pieces of the rows for each thread, because threads may differ in speed


def _blocks_in_piece(blocks: int, several: int, threads: int) -> int:
    """Blocks of rows in a piece of work: at least ``several``, unless threads would then have nothing to do."""
    each = -(-blocks // threads)
    return max(1, min(several, each), -(-each // PIECES)) if threads > 1 else max(1, blocks)


class TrainedKernel(Own):
    """A registered kernel, also of a user's own class, whose parameters are numbers."""

    def check(self, value: Any, place: str, scope: Scope) -> None:
        self.classes = tuple(KERNELS.values())
        super().check(value, place, scope)
        parts = value.parts if isinstance(value, Record) else value._asdict()
        for name, part in parts.items():
            Real().check(part, f"{place}/{name}", scope)


#: Fields of files: a kernel, and rows of support vectors.
KERNEL, ROWS = TrainedKernel(), Own(DenseRows, CSRRows, n="support", d="d")


@savable(
    coef=Array("outputs", "d", dtype=FLOATS, order=False), intercept=Array("outputs", dtype=FLOATS), prepare=Nothing()
)
@dataclass
class LinearModel(Saved):
    """Scores XWᵀ + b for ``coef`` of shape (n_outputs, n_features) and ``intercept`` of shape (n_outputs,).

    >>> model = LinearModel(np.array([[1.0, -1.0]]), np.array([0.5]))
    >>> model.decision_function(np.array([[2.0, 1.0]]))
    array([[1.5]])
    """

    coef: np.ndarray
    intercept: np.ndarray
    prepare: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the rows, of shape (n, n_outputs)."""
        return self.scores(checked_sparse(X) if self.prepare is None else self.prepare(X))

    def scores(self, X: Any) -> np.ndarray:
        """Scores of rows that are already checked and prepared."""
        return np.asarray(X @ self.coef.T) + self.intercept

    def _to_parts(self) -> dict[str, Any]:
        return {"coef": self.coef, "intercept": self.intercept}

    def light(self) -> LinearModel:
        """The model without what its problem knows; :meth:`on` restores it."""
        return self

    def on(self, problem: Any) -> LinearModel:
        """The whole model, from :meth:`light` and its problem."""
        return self


def _law_of_vectors(model: Any, sizes: dict[str, int]) -> str | None:
    is_table = class_of(model.kernel).is_table
    if not is_table and model.vectors is None:
        return "it has no support vectors, which its kernel needs"
    if is_table and (model.support >= sizes.get("d", np.inf)).any():
        return f"support has {model.support.max()}, and the kernel matrix {sizes['d']} columns"
    ends = getattr(model, "ends", None)
    if ends is not None and ends[-1] != sizes["support"]:
        return f"vectors of classes end at {ends[-1]}, and there are {sizes['support']}"
    pairs = sizes["classes"] * (sizes["classes"] - 1) // 2 if ends is not None else sizes["outputs"]
    found = model.intercept.size
    return None if found == pairs else f"it has {found} intercepts for {pairs} problems"


def _rows_for(model: Any, X: Any) -> tuple[Any, int]:
    """(X as the rows that a kernel model takes, number of rows)."""
    if not isinstance(X, (DenseRows, CSRRows, Distant)):
        if model.prepare is not None:
            X = model.prepare(X)
        elif not model.kernel.is_function:
            X = as_rows(checked_sparse(X))
    sizes = X.shape if hasattr(X, "shape") else shape(X)
    last = int(model.support.max(initial=-1))
    if model.kernel.is_table and last >= sizes[1]:
        raise ValueError(
            f"the model has the example {last}, and the kernel matrix {sizes[1]} columns: give K(X, Z) for all "
            "examples Z of training"
        )
    return X, sizes[0]


def widened(rows: Any) -> Any:
    """The same rows in float64."""
    if dtype_of(rows) == np.float64:
        return rows
    return type(rows)(rows[0].astype(np.float64), *rows[1:])


def alike(X: Any, vectors: Any) -> tuple[Any, Any]:
    """Rows and vectors, both in the higher of their precisions."""
    return (X, vectors) if dtype_of(X) == dtype_of(vectors) else (widened(X), widened(vectors))


def _facing_vectors(model: Any, X: Any, n: int, height: int, threads: int) -> tuple[Any, int]:
    """(function of two ends of rows that gives their kernel matrix with a model's vectors, rows of a piece of work).

    Pieces are whole blocks of ``height`` rows. A kernel that is the user's function gets all rows at once.
    """
    if model.kernel.is_function:
        return (lambda first, last: KernelMatrix(model.kernel, X, model.vectors)), n
    X, vectors = alike(X, model.vectors)
    matrix = KernelMatrix(model.kernel, some_rows(X, 0, 0), vectors)
    step = height * _blocks_in_piece(-(-n // height), model.VALUES // (height * model.support.size), threads)
    return (lambda first, last: matrix.facing(some_rows(X, first, last))), step


@savable(
    "KernelModel.Light", support=Array("support", dtype=INDICES, low=0, high="n-1"), coef=Array("outputs", "support"),
    intercept=Array("outputs"), constant=Real(finite=True),
)  # fmt: skip
@dataclass
class LightModel:
    """A :class:`KernelModel` without kernel and vectors, which its problem has."""

    support: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    constant: float

    def on(self, problem: Any) -> KernelModel:
        """The whole model."""
        vectors = problem.rows(self.support)
        return KernelModel(problem.kernel, self.support, vectors, self.coef, self.intercept, self.constant)


@savable(
    kernel=KERNEL, support=Array("support", dtype=INDICES, low=0), vectors=maybe(ROWS), law=_law_of_vectors,
    coef=Array("outputs", "support", dtype=FLOATS, order=False), intercept=Array(None, dtype=FLOATS),
    constant=Real(finite=True), prepare=Nothing(),
)  # fmt: skip
@dataclass
class KernelModel(Saved):
    """Scores Σ_j coef[c, j] k(x, vector_j) + b_c over support vectors.

    Attributes
    ----------
    kernel : a kernel of :mod:`widemargin.core.kernels.kernels`
    support : ndarray of shape (n_support,)
        Indices of the support vectors in the training set.
    vectors : rows of the support vectors
    coef : ndarray of shape (n_outputs, n_support)
    intercept : ndarray of shape (n_outputs,)
    constant : float
        The constant that is added to every kernel value: 1 for a regularised intercept, else 0.
    prepare : callable, optional
        Converts the user's rows to rows like ``vectors``, for example centred and rounded.
    """

    kernel: Any
    support: np.ndarray
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    constant: float = 0.0
    prepare: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    VALUES = 2**18  # kernel values that a thread computes at once; at least those of sixteen rows

    def light(self) -> LightModel:
        """The model without kernel and vectors, which the problem has; a user's kernel function cannot be saved."""
        return LightModel(self.support, self.coef, self.intercept, self.constant)

    def decision_function(self, X: Any, *, threads: int = 1) -> np.ndarray:
        """Scores of shape (n, n_outputs) of rows X: a layout, a matrix, or what a user's kernel function takes.

        Threads share the rows.
        """
        X, n = _rows_for(self, X)
        if isinstance(X, Distant):
            return X.scores(self)
        scores = np.tile(self.intercept + self.constant * self.coef.sum(axis=1), (n, 1))
        if self.support.size == 0 or n == 0:
            return scores
        if self.kernel.is_table:
            return scores + X.values[:, self.support] @ self.coef.T
        weights = np.ascontiguousarray(self.coef.T, dtype=np.float64)
        some, step = _facing_vectors(self, X, n, 16, threads)

        def add(first: int) -> None:
            last = min(first + step, n)
            self._add_scores(some(first, last), weights, scores[first:last])

        share_out(add, [(first,) for first in range(0, n, step)], threads)
        return scores

    def combined(self, table: np.ndarray) -> np.ndarray:
        """Σ_v coefficient × table[v] for each output, of shape (n_outputs, columns)."""
        return np.asarray(self.coef @ table)

    def _add_scores(self, matrix: KernelMatrix, weights: np.ndarray, scores: np.ndarray) -> None:
        """Add to the scores of the matrix's rows, in place."""
        n, m = matrix.shape
        height = min(-(-n // 16), max(1, self.VALUES // (16 * m))) * 16
        values, wide = np.empty((height, m), matrix.dtype), np.zeros((height, m))
        for first in range(0, n, height):
            count = min(height, n - first)
            wide[:count] = matrix.block(np.arange(first, first + count), values[:count])
            # always sixteen rows, in float64, so that a score does not depend on the other rows
            found = np.matmul(wide.reshape(-1, 16, m)[: -(-count // 16)], weights)
            scores[first : first + count] += found.reshape(-1, weights.shape[1])[:count]


@savable(
    kernel=KERNEL, support=Array("support", dtype=INDICES, low=0), vectors=maybe(ROWS), law=_law_of_vectors,
    ends=Array("classes", dtype=np.int64, low=0, rising=True), coef=Array("classes-1", "support"),
    intercept=Array(None), constant=Real(finite=True), prepare=Nothing(),
)  # fmt: skip
@dataclass
class PairsModel(Saved):
    """Scores of one binary model for each pair of classes, each over the vectors of its two classes.

    Attributes
    ----------
    kernel, support, vectors, constant, prepare : as in :class:`KernelModel`; vectors are ordered by class
    coef : ndarray of shape (n_classes − 1, n_support)
        Coefficients in the layout of :mod:`widemargin.core.kernels.pairs`.
    intercept : ndarray of shape (n_pairs,)
    ends : ndarray of shape (n_classes,)
        The end of each class in ``vectors``.
    """

    kernel: Any
    support: np.ndarray
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    ends: np.ndarray
    constant: float = 0.0
    prepare: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    HEIGHT = 32  # rows that are scored together; always as many, so that a score does not depend on the other rows
    VALUES = 2**19  # kernel values that a thread computes at once

    def pieces(self, X: Any, *, threads: int = 1) -> list[tuple[Iterator[tuple[slice, int, np.ndarray]]]]:
        """Iterators over (rows, i, scores of the pairs (i, j) for all j > i), by blocks of rows and class by class.

        There is one iterator, or several for each thread. Scores have the shape (pairs, HEIGHT); columns after the last
        row are meaningless, and the next step overwrites the array.
        """
        X, n = _rows_for(self, X)
        some, step = None, max(1, n)
        if self.support.size and not self.kernel.is_table:
            some, step = _facing_vectors(self, X, step, self.HEIGHT, threads)
        offsets = self.intercept + self.constant * self.combined(np.ones((self.support.size, 1)))[:, 0]
        return [(self._parts(X, some, offsets, first, min(first + step, n)),) for first in range(0, n, step)]

    def _parts(
        self, X: Any, some: Any, offsets: np.ndarray, start: int, end: int
    ) -> Iterator[tuple[slice, int, np.ndarray]]:
        """The iterator of :meth:`pieces` over the rows from ``start`` to ``end``."""
        coef, ends, k, height = unlocked(self.coef), unlocked(self.ends), self.ends.size, self.HEIGHT
        matrix = None if some is None else some(start, end)
        table, scores = np.zeros((self.support.size, height)), np.empty((k - 1, height))
        several = height * max(1, self.VALUES // (height * max(1, self.support.size)))
        for first in range(0, end - start, height):
            rows = slice(start + first, min(start + first + height, end))
            count = rows.stop - rows.start
            if matrix is not None:
                if first % several == 0:
                    values = matrix.block(np.arange(first, min(first + several, end - start)))
                table[:, :count] = values[first % several : first % several + count].T
            elif self.support.size:
                table[:, :count] = X.values[rows, self.support].T
            for i in range(k - 1):
                part = scores[: k - 1 - i]
                combine(coef, ends, offsets, table, i, part)
                yield rows, i, part

    def decision_function(self, X: Any, *, threads: int = 1) -> np.ndarray:
        """Scores of the rows, of shape (n, n_pairs)."""
        X, n = _rows_for(self, X)
        scores, k = np.empty((n, self.intercept.size)), self.ends.size

        def fill(parts: Iterator[tuple[slice, int, np.ndarray]]) -> None:
            for rows, i, part in parts:
                scores[rows, first_pair(i, k) : first_pair(i + 1, k)] = part[:, : rows.stop - rows.start].T

        share_out(fill, self.pieces(X, threads=threads), threads)
        return scores

    def combined(self, table: np.ndarray) -> np.ndarray:
        """Σ_v coefficient × table[v] for each pair, of shape (n_pairs, columns)."""
        table = unlocked(np.ascontiguousarray(table, np.float64))
        return all_combined(unlocked(self.coef), unlocked(self.ends), table)

    def whole(self) -> KernelModel:
        """The same model with one coefficient for each pair and vector."""
        coef, k = np.zeros((self.intercept.size, self.support.size)), self.ends.size
        own = [slice(start, end) for start, end in zip((0, *self.ends[:-1]), self.ends, strict=True)]
        for pair, (i, j) in enumerate(combinations(range(k), 2)):
            coef[pair, own[i]], coef[pair, own[j]] = self.coef[j - 1, own[i]], self.coef[i, own[j]]
        return KernelModel(self.kernel, self.support, self.vectors, coef, self.intercept, self.constant, self.prepare)
