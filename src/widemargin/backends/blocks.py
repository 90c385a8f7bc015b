"""Rows of the data on a device, blocks of kernel rows, and a cache of them.

Data is laid out, centred and rounded as for the CPU (:class:`widemargin.problems.layout.Preparation`), and stands on
the device as one dense matrix; sparse rows are scattered there. A block is one matrix product in the precision of the
data (no TF32), and what :meth:`of_array` of the kernel makes of it. ‖x‖² + ‖z‖² − 2⟨x, z⟩ cancels where γ max ‖z‖²
exceeds 0.05/√ε; distances are then sums over differences, as :mod:`widemargin.core.kernel_matrix` has it.

Blocks have always as many rows, some of them repeated: cuBLAS chooses its order of summation by shape, and a kernel
value must not depend on the rows it is computed with.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..core.measures import Absolute
from ..core.rows import CSRRows, as_matrix, shape
from ..models import KernelModel
from ..problems.kernel import KernelProblem

#: Rows of a block, and the most values that it has.
BLOCK, BLOCK_VALUES = 256, 2**28
#: Rows that are scored at once.
HEIGHT = 4096
#: The fewest rows that a cache holds.
LEAST_ROWS = 64


@contextmanager
def exactly() -> Iterator[None]:
    """Matrix products in float32 and no less, without gradients; memory that is short is told in a sentence."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.inference_mode():
            yield
    except torch.cuda.OutOfMemoryError as error:
        free, total = (part / 2**30 for part in torch.cuda.mem_get_info())
        raise MemoryError(
            f"the data and cache_size do not fit into the GPU's memory, {free:.1f} of {total:.1f} GB of which are "
            "free: lower cache_size, train on fewer examples, or use device='cpu'"
        ) from error
    finally:
        torch.set_float32_matmul_precision(before)


def on_device(rows: Any, device: str) -> torch.Tensor:
    """A copy of the rows of a layout as a dense matrix on a device."""
    if isinstance(rows, CSRRows):
        lengths, where = np.diff(rows.indptr), torch.device(device)
        out = torch.zeros(shape(rows), dtype=tensor_of(rows.data[:0], device).dtype, device=where)
        line = torch.repeat_interleave(torch.arange(lengths.size, device=where), tensor_of(lengths, device).long())
        stored = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
        out[line, tensor_of(rows.indices[stored], device).long()] = tensor_of(rows.data[stored], device)
        return out
    return tensor_of(np.asarray(as_matrix(rows)), device)


def tensor_of(values: np.ndarray, device: str) -> torch.Tensor:
    """A copy of an array on a device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # read-only arrays are only read
        tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor.to(device, copy=True)


class Columns:
    """The kernel of any rows with the rows Z, on a device."""

    def __init__(self, kernel: Any, Z: torch.Tensor) -> None:
        self.kernel, self.Z = kernel, Z
        self.differences = kernel.measure is Absolute
        self.norms2 = torch.empty(0)
        if kernel.of_distances:
            self._guard()

    def _guard(self) -> None:
        """Choose precision and way of the distances by Z and γ alone, as the CPU does."""
        Z, gamma = self.Z, self.kernel.gamma
        sizes = Z.abs().sum(1, dtype=torch.float64) if self.differences else _norms2(Z)
        largest = float(sizes.max()) if sizes.numel() else 0.0
        most = float(torch.finfo(Z.dtype).max) ** 0.75
        if largest > most or not (gamma == 0 or 1 / most < gamma < most):
            self.Z = Z = Z.double()
        limits = torch.finfo(Z.dtype)
        if not (largest < limits.max and gamma * largest * math.sqrt(limits.eps) <= 0.05):
            self.differences = True
        self.norms2 = sizes.to(Z.dtype)

    def sums(self, A: torch.Tensor) -> torch.Tensor:
        """The measure of the kernel between the rows of A and all of Z."""
        A = A.to(self.Z.dtype)
        if self.differences:
            if self.kernel.measure is Absolute:
                return torch.cdist(A, self.Z, p=1.0)
            return torch.cdist(A, self.Z, compute_mode="donot_use_mm_for_euclid_dist").square_()
        sums = A @ self.Z.T
        if self.kernel.of_distances:
            sums.mul_(-2.0).add_(self.norms2).add_(_norms2(A).to(A.dtype)[:, None]).clamp_(min=0.0)
        return sums

    def values(self, sums: torch.Tensor) -> torch.Tensor:
        """Kernel values of measures, in float32."""
        return self.kernel.of_array(torch, sums.clamp_(max=torch.finfo(sums.dtype).max)).float()


def _norms2(A: torch.Tensor) -> torch.Tensor:
    """‖row‖² in float64, by parts, so that no wide copy of the whole is made."""
    step = max(1, 2**25 // max(1, A.shape[1]))
    parts = [A[first : first + step].double().square().sum(1) for first in range(0, A.shape[0], step)]
    return torch.cat(parts) if parts else A.new_empty(0, dtype=torch.float64)


class Blocks:
    """Rows of the kernel matrix of a problem's examples, by blocks.

    Tables of kernel values and users' functions stay on the host, and their rows are sent.
    """

    def __init__(self, problem: KernelProblem, device: str) -> None:
        self.n, self.device = problem.n, device
        self.height = max(16, min(BLOCK, 2 ** int(math.log2(BLOCK_VALUES / max(1, self.n)))))
        self.columns = self.matrix = None
        if problem.kernel.of_rows:
            self.columns = Columns(problem.kernel, on_device(problem.X, device))
        else:
            everything = np.arange(self.n)
            self.matrix = problem.matrix(everything, everything)

    def fill(self, chosen: np.ndarray, places: np.ndarray, out: torch.Tensor) -> None:
        """out[places] ← the chosen rows, in place."""
        for first in range(0, chosen.size, self.height):
            rows, here = chosen[first : first + self.height], places[first : first + self.height]
            out[tensor_of(here, self.device)] = self._block(rows)

    def _block(self, rows: np.ndarray) -> torch.Tensor:
        if self.matrix is not None:
            return tensor_of(self.matrix.block(rows), self.device)
        assert self.columns is not None
        chosen = tensor_of(np.resize(rows, self.height), self.device)  # repeats them
        sums = self.columns.sums(self.columns.Z[chosen])
        if self.columns.kernel.unit_diagonal:
            sums[torch.arange(self.height, device=sums.device), chosen] = 0.0
        return self.columns.values(sums)[: rows.size]


class RowCache:
    """Kernel rows on a device, as many as fit; those that were used longest ago give way."""

    def __init__(self, blocks: Blocks, n_bytes: float) -> None:
        n = blocks.n
        self.blocks, self.capacity = blocks, min(n, max(LEAST_ROWS, int(n_bytes // (4 * n))))
        self.rows = torch.empty((self.capacity, n), device=blocks.device)
        self.slot_of, self.owner = np.full(n, -1), np.full(self.capacity, -1)
        self.used, self.filled, self.clock, self.computed = np.zeros(self.capacity, np.int64), 0, 0, 0

    def fetch(self, wanted: np.ndarray) -> np.ndarray:
        """The slots of the wanted rows, at most as many as the cache holds; computes what it lacks."""
        self.clock += 1
        held = self.slot_of[wanted]
        self.used[held[held >= 0]] = self.clock
        missing = np.unique(wanted[held < 0])
        if missing.size:
            slots = self._freed(missing.size)
            gone = self.owner[slots]
            self.slot_of[gone[gone >= 0]] = -1
            self.slot_of[missing], self.owner[slots], self.used[slots] = slots, missing, self.clock
            self.blocks.fill(missing, slots, self.rows)
            self.computed += missing.size * self.blocks.n
        return self.slot_of[wanted]

    def _freed(self, count: int) -> np.ndarray:
        """Slots for so many rows: those never used, or else those used longest ago."""
        if self.filled + count <= self.capacity:
            self.filled += count
            return np.arange(self.filled - count, self.filled)
        self.filled = self.capacity  # the rest of those never used are among these
        return np.argpartition(self.used, count - 1)[:count]


def scores(model: KernelModel, X: Any, device: str = "cuda") -> np.ndarray:
    """Scores of shape (n, n_outputs) of rows X, laid out as the vectors of the model, in float64.

    Rows are scored in parts of the same size, so that a score does not depend on the rows beside it.
    """
    n = shape(X)[0]
    out = np.tile(model.intercept + model.constant * model.coef.sum(axis=1), (n, 1))
    if model.support.size == 0 or n == 0:
        return out
    with exactly():
        columns = Columns(model.kernel, on_device(model.vectors, device))
        weights = tensor_of(np.ascontiguousarray(model.coef.T, dtype=np.float64), device)
        matrix = as_matrix(X)
        for first in range(0, n, HEIGHT):
            part = matrix[first : first + HEIGHT]
            part = part.toarray() if hasattr(part, "toarray") else part
            padded = torch.zeros((HEIGHT, part.shape[1]), dtype=columns.Z.dtype, device=device)
            padded[: part.shape[0]] = tensor_of(part, device)
            found = columns.values(columns.sums(padded)).double() @ weights
            out[first : first + HEIGHT] += found[: part.shape[0]].cpu().numpy()
    return out
