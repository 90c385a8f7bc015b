"""The kernel matrix K[i, j] = k(xᵢ, zⱼ), computed by blocks of rows on demand.

    K = KernelMatrix(kernel, X)
    K.block([3, 7])                # two rows of K, of shape (2, n)

Cost: rows × columns × entries of a row; :mod:`.tiles` does the work, :mod:`.cache` keeps rows.

Cancellation. ‖x‖² + ‖z‖² − 2⟨x, z⟩ has an error near ε max(‖x‖², ‖z‖²). Times γ this is the relative error of the
kernel value, which is too large where γ max ‖zⱼ‖² exceeds 0.05/√ε (data far from the origin, or a large γ). How
distances are computed then depends on the layout:

    dense       Squared, Σ (x − z)²: no cancellation, up to twice the cost, no centred copy of the data
    CSR         sums in float32 up to the limit of float32, where float32 values are wanted and rows are in tiles or
                short; else sums in float64, for which the limit is 3e6; beyond that, pair by pair

The choice depends on Z, γ and the dtype alone, so that a prediction does not depend on the other rows of its batch.
"""

import copy
import math
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..borrowing import borrow
from ..compiling.dispatch import compiled
from ..intrinsics.tiles import NEON
from ..rows.distant import Distant, local_rows
from ..rows.rows import CSRRows, DenseRows, as_matrix, shape, some_rows, take_rows, unlocked
from ..sharing import share
from ..threads.interrupts import PROMPT, at_once, safe_place
from .kernels import as_kernel, between, is_kernel
from .measures import Absolute, Inner, Overlap, Squared, largest_size
from .tiles import (
    BESIDE,
    CHUNK,
    DEPTH,
    HEIGHT,
    LANES,
    SPARSE_BYTES,
    Packed,
    PairByPair,
    Scattered,
    aligned,
    compute_rows,
    group_of,
    pack,
    packed_sums,
    scattered_sums,
)

PER_ENTRY = 3.0 if BESIDE > 1 else 2.5 if NEON else 1.5  # time of a term by entries of sparse rows / time by tiles
DENSER = 8.0  # memory that tiles of sparse rows may take / memory of the rows
ENOUGH = 64  # entries of a row; tiles do not pay for shorter rows
SAMPLE = 16  # groups of rows that are inspected for the choice
WORTH_A_THREAD = 2**22  # products for one more thread: about 0.05 ms; with less, waking the thread takes longer


@compiled
def _self_values(kernel, X, out):
    """out[i] ← k(xᵢ, xᵢ)."""
    X, out = borrow(X), borrow(out)
    for i in range(out.size):
        out[i] = between(kernel, X, i, X, i)


def largest_value(kernel: Any, X: Any) -> float:
    """The largest |k(x, x)|, which bounds all values of a definite kernel; for a user's function, of 64 rows."""
    if kernel.unit_diagonal:
        return 1.0
    if kernel.is_function:
        matrix = as_matrix(X)
        n = matrix.shape[0]
        some = np.unique(np.linspace(0, n - 1, min(n, 64)).astype(np.int64))
        values = KernelMatrix(kernel, matrix[some]).diagonal()
    elif kernel.is_table:
        values = as_matrix(X).diagonal()
    elif isinstance(X, Distant):  # |k(x, x)| as a function of ‖x‖² is largest at an end
        values = kernel.of_array(np, np.array(X.sizes(squared=True)))
    else:
        values = np.empty(shape(X)[0])
        _self_values(kernel, X, values)
    return float(np.abs(values).max(initial=0.0))


def _of_data(dtype: Any) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _check_layout(name: str, rows: Any) -> None:
    if not isinstance(rows, DenseRows | CSRRows):
        raise TypeError(f"{name} must be DenseRows or CSRRows, got {type(rows).__name__}.")
    arrays = [rows.values] if isinstance(rows, DenseRows) else [rows.data, rows.indices, rows.indptr]
    if arrays[0].dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must hold float32 or float64 numbers, got {arrays[0].dtype}; use astype(np.float64).")
    if not all(array.flags.c_contiguous for array in arrays):
        raise ValueError(f"{name} must be C-ordered; use np.ascontiguousarray.")


def pays_to_pack(Z: CSRRows, itemsize: int) -> bool:
    """Whether tiles of Z, of numbers of ``itemsize`` bytes, are faster than its entries and not too large.

    With tiles, a row of Z costs one term for each feature that a group of rows has. With entries it costs one term for
    each of its entries, and such a term takes PER_ENTRY times as long, or twice that where long rows need sums in
    float64 and tiles do not.
    """
    n, width = shape(Z)
    entries, group = Z.data.size / max(1, n), group_of(itemsize)
    if entries < ENOUGH or width * itemsize > DENSER * entries * (Z.data.itemsize + Z.indices.itemsize):
        return False
    some: Any = take_rows(Z, np.linspace(0, n - 1, min(n, SAMPLE * group)).astype(np.int64))
    ends = [*some.indptr[:-1:group], some.indptr[-1]]
    features = [np.unique(some.indices[a:b]).size for a, b in pairwise(ends)]
    price = 2.0 * PER_ENTRY if itemsize == 4 and np.diff(Z.indptr).max() > DEPTH else PER_ENTRY
    return float(np.mean(features)) <= price * entries


def _facing(recipe: Any, X: Any) -> Any:
    """The recipe for other rows with the same columns."""
    if isinstance(recipe, PairByPair):
        return recipe._replace(X=X, same=False)
    x_size = np.zeros(shape(X)[0], recipe.z_size.dtype)
    if recipe.weight < 0.0:
        (scattered_sums if isinstance(recipe, Scattered) else packed_sums)(recipe.measure, X, x_size)
    return recipe._replace(X=X, x_size=x_size, same=False)


class _FromRows:
    """Rows of K, computed from rows of the data."""

    def __init__(self, kernel: Any, X: Any, Z: Any, dtype: Any, threads: int):
        X = local_rows(X)
        Z = X if Z is None else local_rows(Z)
        _check_layout("X", X)
        _check_layout("Z", Z)
        X, Z = (unlocked(X),) * 2 if Z is X else (unlocked(X), unlocked(Z))
        if type(X) is not type(Z):
            raise TypeError(f"X is {type(X).__name__} and Z is {type(Z).__name__}; give both the same layout.")
        (n, width), (m, z_width) = shape(X), shape(Z)
        if width != z_width:
            raise ValueError(f"X has {width} features and Z has {z_width}; they must have the same features.")
        self.kernel, self.X, self.Z, self.threads = kernel, X, Z, threads
        self.shape = (n, m)
        data = Z.values if isinstance(Z, DenseRows) else Z.data
        self.dtype = np.dtype(data.dtype if dtype is None else dtype)
        self.entries_per_row = data.size // max(1, m)
        own = self._choose()
        self.recipe = own if Z is X else _facing(own, X)
        # working memory for sparse rows, one array for each thread that ever needed one
        self._slots = [self.recipe.slot] if isinstance(self.recipe, Scattered) else []

    def _choose(self) -> Packed | Scattered | PairByPair:
        """How Z's rows are compared with themselves: measure, dtype and sizes depend on Z and the kernel alone."""
        kernel, Z, m = self.kernel, self.Z, self.shape[1]
        sparse, same = isinstance(Z, CSRRows), kernel.unit_diagonal
        accumulator = np.dtype(np.float64) if sparse else Z.values.dtype
        largest = largest_size(kernel.measure(), Z, self.threads) if kernel.of_distances else 0.0
        narrow = sparse and kernel.measure is Squared and self._fits_float32(largest)
        packed = not sparse or pays_to_pack(Z, 4 if narrow else 8)
        measure: Any = Inner()
        weight = 1.0
        if kernel.of_distances:
            # long rows need tiles, which sum by parts of DEPTH features
            if narrow and (packed or np.diff(Z.indptr).max(initial=0) <= DEPTH):
                accumulator = np.dtype(np.float32)
            # γ and the distances must both be well within the range of the sums
            most = float(np.finfo(accumulator).max) ** 0.75
            if largest > most or not (kernel.gamma == 0 or 1 / most < kernel.gamma < most):
                accumulator = np.dtype(np.float64)
            cancels = self._cancels(largest, accumulator)
            if sparse and cancels:
                return PairByPair(kernel, Z, Z, same)
            if sparse:
                measure, weight = (Overlap() if kernel.measure is Absolute else Inner()), -2.0
            elif kernel.measure is Squared and not cancels:
                weight = -2.0
            else:
                measure = kernel.measure()
        z_size = np.zeros(-(-m // CHUNK) * CHUNK, accumulator)
        if not packed:
            if weight < 0.0:
                scattered_sums(measure, Z, z_size)
            return Scattered(kernel, measure, weight, Z, Z, z_size, z_size, same, np.zeros(Z.n_features, np.int32))
        tiles = aligned((-(-m // (2 * LANES)) * 2, shape(Z)[1], LANES), accumulator)

        def write(first: int, last: int) -> None:
            part, rows = tiles[first:last], some_rows(Z, first * LANES, min(last * LANES, m))
            if weight < 0.0:
                pack(rows, part, measure, z_size[first * LANES : last * LANES])
            else:
                pack(rows, part)

        step = max(1, -(-len(tiles) // min(self.threads, 1 + tiles.size // WORTH_A_THREAD)))
        share(write, [(first, min(first + step, len(tiles))) for first in range(0, len(tiles), step)])
        return Packed(kernel, measure, weight, Z, tiles, z_size, z_size, same)

    def _fits_float32(self, largest: float) -> bool:
        """Whether float32 is wanted and precise enough for sums of CSR rows with ‖z‖² ≤ ``largest``."""
        return self.dtype == self.Z.data.dtype == np.float32 and not self._cancels(largest, np.float32)

    def _cancels(self, largest: float, dtype: Any) -> bool:
        """Whether the error of ‖x‖² + ‖z‖² − 2⟨x, z⟩ is too large in sums of this dtype."""
        limits = np.finfo(dtype)
        return not (largest < float(limits.max) and self.kernel.gamma * largest * math.sqrt(limits.eps) <= 0.05)

    def facing(self, X: Any) -> "_FromRows":
        """The matrix of other rows with the same columns."""
        _check_layout("X", X)
        other = copy.copy(self)
        other.X, other.shape, other.recipe = X, (shape(X)[0], self.shape[1]), _facing(self.recipe, X)
        return other

    def _piece(self, I: np.ndarray, places: np.ndarray, begun: np.ndarray, out: np.ndarray) -> None:
        """Compute the columns of ``out`` that no other thread takes; ``begun`` as in :func:`compute_rows`."""
        recipe = self.recipe
        if isinstance(recipe, Scattered):
            try:
                slot = self._slots.pop()
            except IndexError:
                slot = np.zeros(recipe.slot.size, np.int32)
            recipe = recipe._replace(slot=slot)
        compute_rows(recipe, I, places, begun, self.shape[1], out)
        if isinstance(recipe, Scattered):
            self._slots.append(recipe.slot)

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        m = self.shape[1]
        lanes = SPARSE_BYTES // self.recipe.z_size.itemsize if isinstance(self.recipe, Scattered) else LANES
        chunks, groups = -(-m // CHUNK), -(-len(I) // lanes)
        pieces = min(self.threads, max(chunks, groups), len(I) * m * self.entries_per_row // WORTH_A_THREAD)
        begun = np.zeros(len(I), np.int64)
        # threads share the columns, or the rows where columns would divide the work less evenly
        if pieces <= 1 or chunks % pieces == 0 or chunks >= 8 * pieces or groups < pieces:
            parts = [(I, places, begun, out)] * max(1, pieces)
        else:
            step = -(-groups // pieces) * lanes
            ends = [(a, a + step) for a in range(0, len(I), step)]
            parts = [(I[a:b], places[a:b], begun[a:b], out) for a, b in ends]
        share(self._piece, parts)

    def diagonal(self) -> tuple[np.ndarray, int]:
        out = np.ones(self.shape[0])
        if self.kernel.unit_diagonal:
            return out, 0
        _self_values(self.kernel, self.X, out)
        return out, len(out)


class _FromTable:
    """Rows of K, read from a given matrix."""

    def __init__(self, X: Any, Z: Any, dtype: Any):
        if isinstance(X, CSRRows) or sp.issparse(X):
            raise TypeError("a precomputed kernel must be a dense matrix, got a sparse one; use X.toarray().")
        if Z is not None:
            raise ValueError("a precomputed kernel has its columns in X; leave Z out.")
        self.table = as_matrix(X)
        self.shape = self.table.shape
        self.dtype = _of_data(self.table.dtype) if dtype is None else np.dtype(dtype)

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        out[places] = self.table[I]

    def diagonal(self) -> tuple[np.ndarray, int]:
        n, m = self.shape
        if n != m:
            raise ValueError(f"the diagonal of a precomputed kernel needs a square matrix, got shape ({n}, {m}).")
        return np.asarray(self.table.diagonal(), dtype=np.float64), n


class _FromFunction:
    """Rows of K, returned by a user's function."""

    def __init__(self, kernel: Any, X: Any, Z: Any, dtype: Any):
        self.kernel = kernel
        self.A = as_matrix(X)
        self.B = self.A if Z is None else as_matrix(Z)
        self.shape = (self.A.shape[0], self.B.shape[0])
        self.dtype = _of_data(getattr(self.B, "dtype", None)) if dtype is None else np.dtype(dtype)

    def call(self, A: Any, B: Any) -> np.ndarray:
        expected = (A.shape[0], B.shape[0])
        with at_once():  # a second Ctrl-C ends a call that waits
            values = self.kernel.function(A, B)
        values = values.toarray() if sp.issparse(values) else np.asarray(values)
        if values.shape != expected:
            raise ValueError(
                f"the kernel function must return an array of shape {expected} for {expected[0]} rows against "
                f"{expected[1]}, got shape {values.shape}."
            )
        if values.dtype.kind not in "biuf":
            raise ValueError(f"the kernel function must return real numbers, got dtype {values.dtype}.")
        if not np.isfinite(values).all():
            raise ValueError(
                "the kernel function returned NaN or infinity, and its values must be finite: scale the data, or mend "
                "the function"
            )
        return values

    def facing(self, X: Any) -> "_FromFunction":
        """The matrix of other rows with the same columns."""
        return _FromFunction(self.kernel, X, self.B, self.dtype)

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        step = self.kernel.rows_per_call
        for start in range(0, len(I), step):
            safe_place()
            out[places[start : start + step]] = self.call(self.A[I[start : start + step]], self.B)

    def diagonal(self) -> tuple[np.ndarray, int]:
        n = self.shape[0]
        return np.array([self.call(self.A[[i]], self.A[[i]])[0, 0] for i in range(n)], dtype=np.float64), n


class KernelMatrix:
    """The matrix K[i, j] = k(xᵢ, zⱼ), computed by blocks of rows on demand.

    Parameters
    ----------
    kernel : a kernel of :mod:`.kernels`
        The kernel function k.
    X : DenseRows or CSRRows
        Row i of K belongs to row i of X. CSR rows have sorted indices without duplicates. For a user's function X may
        be any matrix that can be sliced by rows.
    Z : same layout as X, optional
        Column j of K belongs to row j of Z. Default: X itself.
    dtype : float32 or float64, optional
        The dtype of the values. Default: the dtype of Z. Sums are at least as precise as Z.
    threads : int
        Threads that share the columns or rows of a block. Their number does not change the values.

    Attributes
    ----------
    shape : (rows of X, rows of Z)
    dtype : dtype of the values
    evaluations : int
        Kernel values computed so far: len(I) · shape[1] for each block, and n for a diagonal that is not known to be 1.

    Examples
    --------
    >>> K = KernelMatrix(as_kernel("linear"), DenseRows(np.array([[1.0, 0.0], [1.0, 2.0]])))
    >>> K.block([1])
    array([[1., 5.]])
    >>> K.evaluations
    2
    """

    kernel: Any
    shape: tuple[int, int]
    dtype: np.dtype
    threads: int
    evaluations: int

    def __init__(self, kernel: Any, X: Any, Z: Any = None, *, dtype: Any = None, threads: int = 1):
        if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
        if not isinstance(threads, Integral) or threads < 1:
            raise ValueError(f"threads must be an integer >= 1, got {threads!r}.")
        if not is_kernel(kernel):
            raise TypeError(f"kernel must be a kernel object (as_kernel makes one), got {kernel!r}.")
        self.kernel, self.threads = as_kernel(kernel), int(threads)
        self._source: _FromRows | _FromTable | _FromFunction
        if kernel.is_function:
            self._source = _FromFunction(kernel, X, Z, dtype)
        elif kernel.is_table:
            self._source = _FromTable(X, Z, dtype)
        else:
            self._source = _FromRows(self.kernel, X, Z, dtype, self.threads)
        n, m = self._source.shape
        self.shape = (int(n), int(m))
        self.dtype = self._source.dtype
        self.evaluations = 0

    def block(self, I: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Rows I of the matrix, written into ``out`` if given.

        The bits of a row depend on neither the other rows of I nor its position.
        """
        I = self._indices(I)
        expected = (len(I), self.shape[1])
        if out is None:
            out = np.empty(expected, self.dtype)
        elif out.shape != expected or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be a C-ordered {self.dtype} array of shape {expected}, got {out.dtype} of shape {out.shape}."
            )
        self.fill(I, np.arange(len(I)), out)
        return out

    def facing(self, X: Any) -> "KernelMatrix":
        """The matrix of other rows with the same columns, which are not laid out again; not for a given matrix.

        >>> K = KernelMatrix(as_kernel("linear"), DenseRows(np.array([[1.0, 0.0], [1.0, 2.0]])))
        >>> K.facing(DenseRows(np.array([[3.0, 1.0]]))).block([0])
        array([[3., 5.]])
        """
        assert not isinstance(self._source, _FromTable)
        other = copy.copy(self)
        other._source, other.evaluations = self._source.facing(X), 0
        other.shape = (int(other._source.shape[0]), self.shape[1])
        return other

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        """out[places] ← rows I of the matrix, both as int64 arrays; nothing is checked."""
        terms = PROMPT * (64 if isinstance(self.recipe, Packed) else 1)  # tiles use vector instructions
        step = max(64, terms // max(1, self.shape[1] * max(16, self.entries_per_row)))
        step = max(step // HEIGHT * HEIGHT, min(step, HEIGHT))  # HEIGHT rows share one reading of the tiles
        for first in range(0, len(I) if self.shape[1] else 0, step):
            safe_place()
            self._source.fill(I[first : first + step], places[first : first + step], out)
        self.evaluations += len(I) * self.shape[1]

    @property
    def entries_per_row(self) -> int:
        """Average number of entries behind a kernel value; 0 for a given matrix and a user's function."""
        return getattr(self._source, "entries_per_row", 0)

    @property
    def recipe(self) -> Any:
        """The argument of :func:`compute_rows` for these rows; None where only Python can compute them."""
        return getattr(self._source, "recipe", None)

    @property
    def differences(self) -> bool:
        """Whether distances are sums of differences, without cancellation."""
        recipe = self.recipe
        return self.kernel.of_distances and (isinstance(recipe, PairByPair) or recipe.weight > 0.0)

    def diagonal(self) -> np.ndarray:
        """k(xᵢ, xᵢ) for every row of X, in float64."""
        values, evaluations = self._source.diagonal()
        self.evaluations += evaluations
        return values

    def _indices(self, I: Any) -> np.ndarray:
        I = np.atleast_1d(np.asarray(I))
        if I.size == 0:
            return np.empty(0, np.int64)
        if I.ndim != 1 or I.dtype.kind not in "iu":
            raise TypeError(f"rows must be given as a list of integers, got {I.dtype} of shape {I.shape}.")
        low, high = int(I.min()), int(I.max())
        if low < 0 or high >= self.shape[0]:
            bad = low if low < 0 else high
            raise IndexError(f"row {bad} does not exist: the matrix has {self.shape[0]} rows, counted from 0.")
        return np.ascontiguousarray(I, dtype=np.int64)
