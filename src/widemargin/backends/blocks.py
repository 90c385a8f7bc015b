"""Kernel values on a device, blocks of kernel rows, and a cache of them.

Data is laid out, centred and rounded as for the CPU (:class:`widemargin.problems.layout.Preparation`), and stands on
the device as one dense matrix; rows that are very sparse stay so, and each block of them is made dense. A block is one
matrix product in the precision of the data (no TF32), and what :meth:`of_array` of the kernel makes of it. ‖x‖² + ‖z‖²
− 2⟨x, z⟩ cancels where γ max ‖z‖² exceeds 0.05/√ε; distances are then sums over differences, as
:mod:`widemargin.core.kernel_matrix` has it.

Blocks have always as many rows, some of them repeated: cuBLAS chooses its order of summation by shape, and a kernel
value must not depend on the rows it is computed with.
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

from ..core.distant import Distant
from ..core.measures import Absolute
from ..core.rows import CSRRows, as_matrix, shape, unlocked
from ..problems.kernel import KernelProblem
from . import programs

#: Rows of a block, and the most values that it has.
BLOCK, BLOCK_VALUES = 256, 2**30
#: Bytes at multiples of which data begins: cuBLAS chooses by that too, and is slower where it is odd.
ALIGNED = 256
#: The fewest rows that a cache holds.
LEAST_ROWS = 64
#: The share of entries that are stored below which rows stay sparse, and the rows of one program for them.
SPARSE, ROWS = 1.0 / 64.0, 4
#: Columns that one program finishes.
WIDTH = 1024


@contextmanager
def exactly() -> Iterator[None]:
    """Matrix products in float32 and no less, whatever the caller has switched on, without gradients; memory that is
    short is told in a sentence."""
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
    """Sparse rows on a device, of which blocks are made dense."""

    def __init__(self, rows: CSRRows, device: str) -> None:
        first, last = int(rows.indptr[0]), int(rows.indptr[-1])
        self.shape = shape(rows)
        self.starts = tensor_of(rows.indptr, device).long() - first
        self.indices = tensor_of(rows.indices[first:last], device)
        self.data = tensor_of(rows.data[first:last], device)

    @property
    def dtype(self) -> torch.dtype:
        """Of the stored numbers."""
        return self.data.dtype

    def double(self) -> Sparse:
        """The same rows in float64."""
        wide = copy(self)
        wide.data = self.data.double()
        return wide

    def sizes(self, of_entries: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Sums of a function of the entries over each row, in float64."""
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
        """⟨a, z⟩ of dense rows a with all rows z; as many rows a as a power of two."""
        n, height = self.shape[0], A.shape[0]
        out = torch.empty((n, height), dtype=self.dtype, device=A.device)
        programs.sparse_products[(triton.cdiv(n, ROWS),)](
            self.starts, self.indices, self.data, A.T.contiguous(), out, n, ROWS=ROWS, HEIGHT=height
        )
        return out.T


def on_device(rows: Any, device: str) -> torch.Tensor | Sparse:
    """The rows of a layout on a device, a copy unless they stand there already: dense, unless they are so sparse that
    products are faster so."""
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
    """The memory of an array as a tensor, which nothing may change."""
    return torch.from_numpy(unlocked(np.ascontiguousarray(values)))


class Columns:
    """The kernel of any rows with the rows Z, on a device."""

    def __init__(self, kernel: Any, Z: torch.Tensor | Sparse) -> None:
        self.kernel, self.Z = kernel, Z
        self.differences = kernel.measure is Absolute
        self.norms2 = torch.empty(0)
        if kernel.of_distances:
            self._guard()
        #: Whether one program makes kernel values of products.
        self.gaussian = kernel.is_gaussian and not self.differences and self.Z.dtype == torch.float32

    def _guard(self) -> None:
        """Choose precision and way of the distances by Z and γ alone, as the CPU does."""
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

    def rows(self, chosen: torch.Tensor) -> torch.Tensor:
        """Some of the rows, dense."""
        return self.Z[chosen]

    def products(self, A: torch.Tensor) -> torch.Tensor:
        """⟨a, z⟩ between the rows of A and all of Z."""
        return self.Z.products(A) if isinstance(self.Z, Sparse) else A @ self.Z.T

    def sums(self, A: torch.Tensor) -> torch.Tensor:
        """The measure of the kernel between the rows of A and all of Z."""
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
        """Kernel values of measures, in float32; changes sums."""
        return self.kernel.of_array(torch, sums.clamp_(max=torch.finfo(sums.dtype).max)).float()


def row_sums(A: torch.Tensor | Sparse, of_entries: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Sums of a function of the entries over each row, in float64, by parts: no wide copy of the whole is made."""
    if isinstance(A, Sparse):
        return A.sizes(of_entries)
    step = max(1, 2**25 // max(1, A.shape[1]))
    parts = [of_entries(A[first : first + step].double()).sum(1) for first in range(0, A.shape[0], step)]
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
        A = columns.rows(padded)
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
    """Kernel rows on a device, as many as fit; those that were used longest ago give way.

    ``rows[slot_of[i]]`` is row i where slot_of[i] ≥ 0.
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
        """Forget all rows."""
        self.slot_of.fill_(-1)
        self.owner.fill_(self.blocks.n)  # nobody
        self.used.zero_()
        self.filled = self.computed = 0

    def fetch(self, wanted: torch.Tensor) -> None:
        """Have the wanted rows, at most as many as the cache holds; computes what it lacks."""
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
        """Slots for some rows, theirs from now on: those never used, or else those used longest ago."""
        count = rows.numel()
        if self.filled + count <= self.capacity:
            part = slice(self.filled, self.filled + count)
            slots = torch.arange(part.start, part.stop, device=self.rows.device)
            self.filled, self.owner[part], self.used[part] = part.stop, rows, self.clock
        else:
            self.filled = self.capacity  # the rest of those never used are among these
            slots = self.used.topk(count, largest=False, sorted=False).indices
            self.slot_of[self.owner[slots]] = -1
            self.owner[slots], self.used[slots] = rows, self.clock
        self.slot_of[rows] = slots
        return slots
