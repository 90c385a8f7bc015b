"""Models: what training leaves, able to predict, be saved and be loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from .core.distant import Distant
from .core.kernel_matrix import KernelMatrix
from .core.kernels import KERNELS
from .core.pairs import all_combined, combine, first_pair
from .core.rows import CSRRows, DenseRows, as_rows, checked_sparse, dtype_of, shape, some_rows, unlocked
from .core.sharing import share_out
from .files import Saved, savable
from .schemas import FLOATS, INDICES, Array, Nothing, Own, Real, class_of, maybe

#: Pieces of the rows to score for each thread, where they are large enough: one may get less done than another.
PIECES = 8


def _blocks_in_piece(blocks: int, several: int, threads: int) -> int:
    """How many blocks of rows a thread scores before it takes more: ``several`` at least, if all threads have some."""
    each = -(-blocks // threads)
    return max(1, min(several, each), -(-each // PIECES)) if threads > 1 else max(1, blocks)


#: Kernels, and rows of vectors, that a file may hold.
KERNEL, ROWS = Own(*KERNELS.values()), Own(DenseRows, CSRRows, n="support", d="d")


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
        """Scores of rows that were checked and prepared."""
        return np.asarray(X @ self.coef.T) + self.intercept

    def _to_parts(self) -> dict[str, Any]:
        return {"coef": self.coef, "intercept": self.intercept}

    def light(self) -> LinearModel:
        """The model without what :meth:`on` a problem gives back."""
        return self

    def on(self, problem: Any) -> LinearModel:
        """The model of :meth:`light`, whole again."""
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
    """X as the rows that a kernel model takes, and their number."""
    if not isinstance(X, (DenseRows, CSRRows, Distant)):
        if model.prepare is not None:
            X = model.prepare(X)
        elif not model.kernel.is_function:
            X = as_rows(checked_sparse(X))
    return X, X.shape[0] if hasattr(X, "shape") else shape(X)[0]


def widened(rows: Any) -> Any:
    """The same rows in float64."""
    if dtype_of(rows) == np.float64:
        return rows
    return type(rows)(rows[0].astype(np.float64), *rows[1:])


def alike(X: Any, vectors: Any) -> tuple[Any, Any]:
    """Rows and vectors in the wider of their precisions."""
    return (X, vectors) if dtype_of(X) == dtype_of(vectors) else (widened(X), widened(vectors))


@savable(
    "KernelModel.Light", support=Array("support", dtype=INDICES, low=0), coef=Array("outputs", "support"),
    intercept=Array("outputs"), constant=Real(finite=True),
)  # fmt: skip
@dataclass
class LightModel:
    """What a kernel model has beside its problem, whose examples its vectors are; see :class:`KernelModel`."""

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
    kernel : a kernel of :mod:`widemargin.core.kernels`
    support : ndarray of shape (n_support,)
        Rows of the training set.
    vectors : rows of the support vectors
    coef : ndarray of shape (n_outputs, n_support)
    intercept : ndarray of shape (n_outputs,)
    constant : float
        Added to every kernel value: 1 where the intercept was regularised, else 0.
    prepare : callable, optional
        Makes rows as ``vectors`` are, perhaps centred and rounded, of what a user gives.
    """

    kernel: Any
    support: np.ndarray
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    constant: float = 0.0
    prepare: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    #: Kernel values that a thread computes at once, or those of sixteen rows.
    VALUES = 2**18

    def light(self) -> LightModel:
        """The model without rows of its problem's data, and without its kernel, which may be a function."""
        return LightModel(self.support, self.coef, self.intercept, self.constant)

    def decision_function(self, X: Any, *, threads: int = 1) -> np.ndarray:
        """Scores of shape (n, n_outputs) of rows X: a layout, a matrix, or what a black-box kernel takes.

        Threads have rows of their own.
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
        if self.kernel.is_function:
            self._add_scores(KernelMatrix(self.kernel, X, self.vectors), weights, scores)
            return scores
        X, vectors = alike(X, self.vectors)
        matrix = KernelMatrix(self.kernel, some_rows(X, 0, 0), vectors)
        step = 16 * _blocks_in_piece(-(-n // 16), self.VALUES // (16 * self.support.size), threads)

        def add(first: int) -> None:
            last = min(first + step, n)
            self._add_scores(matrix.facing(some_rows(X, first, last)), weights, scores[first:last])

        share_out(add, [(first,) for first in range(0, n, step)], threads)
        return scores

    def combined(self, table: np.ndarray) -> np.ndarray:
        """Σ_v coefficient × table[v] for each output, of shape (n_outputs, columns)."""
        return np.asarray(self.coef @ table)

    def _add_scores(self, matrix: KernelMatrix, weights: np.ndarray, scores: np.ndarray) -> None:
        """Add to the scores of the matrix' rows, in place."""
        n, m = matrix.shape
        height = min(-(-n // 16), max(1, self.VALUES // (16 * m))) * 16
        values, wide = np.empty((height, m), matrix.dtype), np.zeros((height, m))
        for first in range(0, n, height):
            count = min(height, n - first)
            wide[:count] = matrix.block(np.arange(first, first + count), values[:count])
            # the sum of a row must not depend on the rows beside it: in float64, and of sixteen rows always
            found = np.matmul(wide.reshape(-1, 16, m)[: -(-count // 16)], weights)
            scores[first : first + count] += found.reshape(-1, weights.shape[1])[:count]


@savable(
    kernel=KERNEL, support=Array("support", dtype=INDICES, low=0), vectors=maybe(ROWS), law=_law_of_vectors,
    ends=Array("classes", dtype=np.int64, low=0, rising=True), coef=Array("classes-1", "support"),
    intercept=Array(None), constant=Real(finite=True), prepare=Nothing(),
)  # fmt: skip
@dataclass
class PairsModel(Saved):
    """Scores of the machines of all pairs of classes, each over the vectors of its own two.

    Attributes
    ----------
    kernel, support, vectors, constant, prepare : as in :class:`KernelModel`; vectors stand by class
    coef : ndarray of shape (n_classes − 1, n_support)
        As in :mod:`widemargin.core.pairs`: memory for each vector and class, not for each vector and pair.
    intercept : ndarray of shape (n_pairs,)
    ends : ndarray of shape (n_classes,)
        Where the vectors of each class end.
    """

    kernel: Any
    support: np.ndarray
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    ends: np.ndarray
    constant: float = 0.0
    prepare: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    #: Rows that are scored together, always as many, so that a score does not depend on the rows beside it.
    HEIGHT = 32
    #: Kernel values that a thread computes at once.
    VALUES = 2**19

    def pieces(self, X: Any, *, threads: int = 1) -> list[tuple[Iterator[tuple[slice, int, np.ndarray]]]]:
        """Iterators over (rows, i, scores of the pairs (i, j) for all j > i, as (pairs, HEIGHT)), by blocks of rows,
        class by class: one, or some for each thread.

        The array is used again for the next; its columns behind the last row mean nothing.
        """
        X, n = _rows_for(self, X)
        matrix, step = None, max(1, n)
        if self.support.size and self.kernel.is_function:
            matrix = KernelMatrix(self.kernel, X, self.vectors)
        elif self.support.size and not self.kernel.is_table:
            X, vectors = alike(X, self.vectors)
            matrix = KernelMatrix(self.kernel, some_rows(X, 0, 0), vectors)
            several = self.VALUES // (self.HEIGHT * self.support.size)
            step = self.HEIGHT * _blocks_in_piece(-(-step // self.HEIGHT), several, threads)
        offsets = self.intercept + self.constant * self.combined(np.ones((self.support.size, 1)))[:, 0]
        return [(self._parts(X, matrix, offsets, first, min(first + step, n)),) for first in range(0, n, step)]

    def _parts(
        self, X: Any, matrix: KernelMatrix | None, offsets: np.ndarray, start: int, end: int
    ) -> Iterator[tuple[slice, int, np.ndarray]]:  # fmt: skip
        """The iterator of :meth:`pieces` over some rows."""
        coef, ends, k, height = unlocked(self.coef), unlocked(self.ends), self.ends.size, self.HEIGHT
        if matrix is not None and not self.kernel.is_function:
            matrix = matrix.facing(some_rows(X, start, end))
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
        """The same machines with a coefficient for each pair and vector."""
        coef, k = np.zeros((self.intercept.size, self.support.size)), self.ends.size
        own = [slice(start, end) for start, end in zip((0, *self.ends[:-1]), self.ends, strict=True)]
        for pair, (i, j) in enumerate(combinations(range(k), 2)):
            coef[pair, own[i]], coef[pair, own[j]] = self.coef[j - 1, own[i]], self.coef[i, own[j]]
        return KernelModel(self.kernel, self.support, self.vectors, coef, self.intercept, self.constant, self.prepare)
