"""Kernel values on a device, blocks of kernel rows, and a cache of kernel rows.

Data is laid out, centred and rounded as for the CPU (:class:`widemargin.problems.layout.Preparation`). On the device it
is one dense matrix; very sparse rows stay sparse, and each block of them is made dense. A block of kernel rows is one
matrix product in the precision of the data (no TF32), followed by :meth:`of_array` of the kernel. If γ max ‖z‖² exceeds
0.05/√ε, the sum ‖x‖² + ‖z‖² − 2⟨x, z⟩ would cancel too many digits; distances are then sums over differences, as in
:mod:`widemargin.core.kernels.matrix`.

All blocks have the same number of rows; the last one repeats some. cuBLAS chooses its order of summation by the shape,
and a kernel value must not depend on the other rows of its block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import Any

import numpy as np
import torch
import triton

from ..core.kernels.measures import Absolute
from ..core.rows.distant import Distant
from ..core.rows.rows import CSRRows, as_matrix, shape, unlocked
from ..problems.kernel import KernelProblem
from . import programs

#: Rows of a block of kernel rows.
BLOCK = 256
#: The most values of a block. For more columns blocks have fewer rows.
BLOCK_VALUES = 2**30
#: Data begins at multiples of ALIGNED bytes. cuBLAS chooses its order of summation by the alignment too.
ALIGNED = 256
#: The fewest rows that a cache holds.
LEAST_ROWS = 64
#: Rows with a smaller share of stored entries stay sparse: products with them are then faster.
SPARSE = 1.0 / 64.0
#: Sparse rows of one Triton program.
ROWS = 4
#: Columns of one Triton program.
WIDTH = 1024


@contextmanager
def exactly() -> Iterator[None]:
    """Compute matrix products in full float32, without gradients, whatever the caller has set in torch.

    A lack of memory becomes a sentence.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    wide = torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled() else nullcontext()
    try:
        with torch.inference_mode(), wide:
            yield
    except torch.cuda.OutOfMemoryError as error:
        free, total = (part / 2**30 for part in torch.cuda.mem_get_info())
        raise MemoryError(
            f"the data and cache_size do not fit into the GPU's memory, {free:.1f} of {total:.1f} GB of which are "
            "free: lower cache_size, train on fewer examples, or use device='cpu'"
        ) from error
    finally:
        torch.set_float32_matmul_precision(before)


class Sparse:
    """Sparse rows on a device, with dense copies of blocks."""

    def __init__(self, rows: CSRRows, device: str) -> None:
        first, last = int(rows.indptr[0]), int(rows.indptr[-1])
        self.shape = shape(rows)
        self.starts = tensor_of(rows.indptr, device).long() - first
        self.indices = tensor_of(rows.indices[first:last], device)
        self.data = tensor_of(rows.data[first:last], device)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the stored numbers."""
        return self.data.dtype

    def double(self) -> Sparse:
        """The same rows in float64."""
        wide = copy(self)
        wide.data = self.data.double()
        return wide

    def sizes(self, of_entries: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """The sum of a function of the entries over each row, in float64."""
        return torch.segment_reduce(of_entries(self.data.double()), "sum", offsets=self.starts, initial=0.0)

    def __getitem__(self, chosen: torch.Tensor) -> torch.Tensor:
        """The chosen rows, dense."""
        starts, lengths = self.starts[chosen], self.starts[chosen + 1] - self.starts[chosen]
        out = torch.zeros((chosen.numel(), self.shape[1]), dtype=self.dtype, device=self.data.device)
        line = torch.repeat_interleave(torch.arange(chosen.numel(), device=chosen.device), lengths)
        place = torch.arange(line.numel(), device=chosen.device) - (lengths.cumsum(0) - lengths)[line] + starts[line]
        out[line, self.indices[place].long()] = self.data[place]
        return out

    def products(self, A: torch.Tensor) -> torch.Tensor:
        """⟨a, z⟩ of dense rows a with all rows z. The number of rows a is a power of two."""
        n, height = self.shape[0], A.shape[0]
        out = torch.empty((n, height), dtype=self.dtype, device=A.device)
        programs.sparse_products[(triton.cdiv(n, ROWS),)](
            self.starts, self.indices, self.data, A.T.contiguous(), out, n, ROWS=ROWS, HEIGHT=height
        )
        return out.T


def on_device(rows: Any, device: str) -> torch.Tensor | Sparse:
    """The rows of a layout on a device: dense, or sparse if products are then faster. Rows from the host are copied."""
    if isinstance(rows, Distant):
        values: torch.Tensor = rows.values.to(device).contiguous()  # type: ignore[attr-defined]
        return values.clone() if values.data_ptr() % ALIGNED else values
    if not isinstance(rows, CSRRows):
        return tensor_of(np.asarray(as_matrix(rows)), device)
    stored, (n, d) = Sparse(rows, device), shape(rows)
    if stored.data.numel() < SPARSE * n * d:
        return stored
    return stored[torch.arange(n, device=device)]


def tensor_of(values: np.ndarray, device: str) -> torch.Tensor:
    """A copy of an array on a device."""
    return view_of(values).to(device, copy=True)


def view_of(values: np.ndarray) -> torch.Tensor:
    """A tensor over the memory of an array. It must not be changed."""
    return torch.from_numpy(unlocked(np.ascontiguousarray(values)))


class Columns:
    """The kernel between any rows and the rows Z, on a device."""

    def __init__(self, kernel: Any, Z: torch.Tensor | Sparse) -> None:
        self.kernel, self.Z = kernel, Z
        self.differences = kernel.measure is Absolute
        self.norms2 = torch.empty(0)
        if kernel.of_distances:
            self._guard()
        #: Whether a Triton program computes kernel values from products.
        self.gaussian = kernel.is_gaussian and not self.differences and self.Z.dtype == torch.float32

    def _guard(self) -> None:
        """Choose the precision and the formula of distances, by Z and γ alone, as on the CPU."""
        Z, gamma = self.Z, self.kernel.gamma
        sizes = row_sums(Z, torch.abs if self.differences else torch.square)
        largest = float(sizes.max()) if sizes.numel() else 0.0
        most = float(torch.finfo(Z.dtype).max) ** 0.75
        if largest > most or not (gamma == 0 or 1 / most < gamma < most):
            self.Z = Z = Z.double()
        limits = torch.finfo(Z.dtype)
        if not (largest < limits.max and gamma * largest * math.sqrt(limits.eps) <= 0.05):
            self.differences = True
        if self.differences and isinstance(Z, Sparse):
            self.Z = Z[torch.arange(Z.shape[0], device=Z.data.device)]
        self.norms2 = sizes.to(Z.dtype)

    def products(self, A: torch.Tensor) -> torch.Tensor:
        """⟨a, z⟩ between the rows of A and all of Z."""
        return self.Z.products(A) if isinstance(self.Z, Sparse) else A @ self.Z.T

    def sums(self, A: torch.Tensor) -> torch.Tensor:
        """The kernel's measure (product or distance) between the rows of A and all of Z."""
        A = A.to(self.Z.dtype)
        if self.differences:
            if self.kernel.measure is Absolute:
                return torch.cdist(A, self.Z, p=1.0)
            return torch.cdist(A, self.Z, compute_mode="donot_use_mm_for_euclid_dist").square_()
        if not self.kernel.of_distances:
            return self.products(A)
        own = row_sums(A, torch.square).to(A.dtype)[:, None]
        return self.products(-2.0 * A).add_(self.norms2).add_(own).clamp_(min=0.0)

    def values(self, sums: torch.Tensor) -> torch.Tensor:
        """Kernel values from sums of the kernel's measure, in float32. Changes ``sums``."""
        return self.kernel.of_array(torch, sums.clamp_(max=torch.finfo(sums.dtype).max)).float()


def row_sums(A: torch.Tensor | Sparse, of_entries: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """The sum of a function of the entries over each row in float64, in parts, without a float64 copy of all rows."""
    if isinstance(A, Sparse):
        return A.sizes(of_entries)
    step = max(1, 2**25 // max(1, A.shape[1]))
    parts = [of_entries(A[first : first + step].double()).sum(1) for first in range(0, A.shape[0], step)]
    return torch.cat(parts) if parts else A.new_empty(0, dtype=torch.float64)


class Blocks:
    """Blocks of rows of the kernel matrix of a problem's examples.

    For precomputed kernels and kernels that are Python functions, the host computes the rows and sends them.
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

    def fill(self, chosen: torch.Tensor, slots: torch.Tensor, out: torch.Tensor) -> None:
        """out[slots] ← the chosen rows, in place."""
        for first in range(0, chosen.numel(), self.height):
            rows, here = chosen[first : first + self.height], slots[first : first + self.height]
            if self.matrix is not None:
                out[here] = tensor_of(self.matrix.block(rows.cpu().numpy()), self.device)
            else:
                self._fill(rows, here, out)

    def _fill(self, rows: torch.Tensor, slots: torch.Tensor, out: torch.Tensor) -> None:
        columns, count = self.columns, rows.numel()
        assert columns is not None
        padded = rows if count == self.height else torch.cat([rows, rows[:1].expand(self.height - count)])
        A = columns.Z[padded]
        if columns.gaussian:
            products = columns.products(A)
            programs.gaussian_rows[(triton.cdiv(self.n, WIDTH), count)](
                products, *products.stride(), columns.norms2, rows, slots, out, self.n, float(columns.kernel.gamma),
                WIDTH=WIDTH,
            )  # fmt: skip
            return
        sums = columns.sums(A)
        if columns.kernel.unit_diagonal:
            sums[torch.arange(self.height, device=sums.device), padded] = 0.0
        out[slots] = columns.values(sums)[:count]


class RowCache:
    """A cache of kernel rows on a device. New rows replace those that were used longest ago.

    Row i is ``rows[slot_of[i]]`` if slot_of[i] ≥ 0.
    """

    def __init__(self, blocks: Blocks, n_bytes: float) -> None:
        n, device = blocks.n, blocks.device
        self.blocks, self.capacity = blocks, min(n, max(LEAST_ROWS, int(n_bytes // (4 * n))))
        self.rows = torch.empty((self.capacity, n), dtype=torch.float32, device=device)
        self.slot_of = torch.empty(n + 1, dtype=torch.int64, device=device)
        self.asked = torch.zeros(n, dtype=torch.int64, device=device)
        self.owner, self.used = (torch.empty(self.capacity, dtype=torch.int64, device=device) for _ in range(2))
        self.clock = 0
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self.slot_of.fill_(-1)
        self.owner.fill_(self.blocks.n)  # nobody
        self.used.zero_()
        self.filled = self.computed = 0

    def fetch(self, wanted: torch.Tensor) -> None:
        """Put the wanted rows into the cache, at most as many as it holds. Missing rows are computed."""
        self.clock += 1
        count = wanted.numel()
        programs.request[(triton.cdiv(count, WIDTH),)](
            wanted, self.slot_of, self.used, self.asked, self.clock, count, WIDTH=WIDTH
        )
        missing = (self.asked == self.clock).nonzero()[:, 0]
        if missing.numel():
            slots = self._placed(missing)
            self.blocks.fill(missing, slots, self.rows)
            self.computed += missing.numel() * self.blocks.n

    def _placed(self, rows: torch.Tensor) -> torch.Tensor:
        """Assign slots to some rows: slots that were never used, else those that were used longest ago."""
        count = rows.numel()
        if self.filled + count <= self.capacity:
            part = slice(self.filled, self.filled + count)
            slots = torch.arange(part.start, part.stop, device=self.rows.device)
            self.filled, self.owner[part], self.used[part] = part.stop, rows, self.clock
        else:
            self.filled = self.capacity  # slots that were never used count as used longest ago
            slots = self.used.topk(count, largest=False, sorted=False).indices
            self.slot_of[self.owner[slots]] = -1
            self.owner[slots], self.used[slots] = rows, self.clock
        self.slot_of[rows] = slots
        return slots
