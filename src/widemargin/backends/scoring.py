"""Scores of kernel models on a device: for each block of rows one matrix product, the kernel function and a sum.

A block has about :data:`VALUES` kernel values, so that they stay in the device's cache between the product and the sum
over the vectors. The sum is in float64, so the error of a score comes from its kernel values alone. For a Gaussian
machine with one output, one program computes and sums kernel values, and blocks are larger. All blocks of a model have
the same shape, with zeros at the end of the last one: cuBLAS chooses its order of summation by shape and alignment, and
a score must not depend on the other rows. Arrays of the host are sent in parts while the device works on the last part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import triton

from ..core.rows.distant import Distant
from ..core.rows.rows import as_matrix, as_rows, dtype_of, shape
from ..models import KernelModel, widened
from ..problems.layout import Preparation, refuse_unless_finite, times_power
from . import programs
from .blocks import ALIGNED, BLOCK, Columns, Sparse, exactly, on_device, row_sums, tensor_of
from .sending import STAGED, Change, Sender, extremes

#: Kernel values of a block.
VALUES = 2**22
#: The fewest and the most rows of a block.
LEAST, MOST = 128, 8192
#: The most entries of a block, unless it has the fewest rows.
ENTRIES = 2**27
#: Kernel values of a block if one program computes and sums them.
SUMMED = 2**26
#: Rows and vectors of that program.
HIGH, WIDE = 4, 1024


def scores(model: KernelModel, X: Any, preparation: Preparation | None = None, device: str = "cuda") -> np.ndarray:
    """Scores of shape (n, n_outputs) of rows X, in float64. Refuses entries that are not finite.

    Without a preparation, X is laid out as the vectors of the model are.
    """
    n = shape(X)[0]
    given = np.float32 if preparation is not None and preparation.as_float32 else dtype_of(X)
    if given == np.float64 and not isinstance(model.vectors, Distant):
        model = replace(model, vectors=widened(model.vectors))
    with exactly():
        block = Block(model, X, preparation, device)
        found = torch.zeros((n, model.coef.shape[0]), dtype=torch.float64, device=device)
        seen = []
        for first, part in _parts(X, device, block.height):
            if not isinstance(X, Distant):
                seen.append(extremes(part))
            for start in range(0, part.shape[0] if model.support.size else 0, block.height):
                rows = part[start : start + block.height]
                found[first + start : first + start + rows.shape[0]] = block(rows)
        if seen:
            refuse_unless_finite(float(torch.stack(seen).abs().max()))
        return found.cpu().numpy() + (model.intercept + model.constant * model.coef.sum(axis=1))


class Block:
    """Scores of a block of rows, without the intercepts."""

    def __init__(self, model: KernelModel, X: Any, preparation: Preparation | None, device: str) -> None:
        self.columns = Columns(model.kernel, on_device(model.vectors, device))
        self.weights = tensor_of(np.ascontiguousarray(model.coef.T, dtype=np.float64), device)
        self.summed = self.columns.gaussian and model.coef.shape[0] == 1
        power = math.log2((SUMMED if self.summed else VALUES) / max(1, model.support.size))
        most = BLOCK if isinstance(self.columns.Z, Sparse) else MOST
        self.height, self.change = min(most, max(LEAST, 2 ** max(0, int(power)))), None
        while self.height > LEAST and self.height * shape(X)[1] > ENTRIES:
            self.height //= 2
        if preparation is not None:
            exponent, far, centre, dtype = preparation.steps(model.kernel, dtype_of(X))
            if isinstance(X, Distant) and times_power(X.largest_entry(), -exponent) <= far:
                far = math.inf
            self.change = Change(exponent, far, centre, dtype, device)

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        A, n = rows if self.change is None else self.change(rows), rows.shape[0]
        if n < self.height or not A.is_contiguous() or A.data_ptr() % ALIGNED:
            A, filled = A.new_zeros((self.height, A.shape[1])), A
            A[:n] = filled
        if self.summed:
            return self._sums(A)[:n, None]
        values = self.columns.kernel.of_array(torch, self.columns.sums(A))
        return (values.double() @ self.weights)[:n]

    def _sums(self, A: torch.Tensor) -> torch.Tensor:
        """Scores of a Gaussian machine with one output, without storing kernel values."""
        columns, count = self.columns, self.weights.shape[0]
        A = A.to(columns.Z.dtype)
        products, parts = columns.products(A), triton.cdiv(count, WIDE)
        out = torch.empty((parts, self.height), dtype=torch.float64, device=A.device)
        programs.gaussian_sums[(self.height // HIGH, parts)](
            products, *products.stride(), row_sums(A, torch.square).to(A.dtype), columns.norms2, self.weights, out,
            count, float(columns.kernel.gamma), HEIGHT=HIGH, WIDTH=WIDE,
        )  # fmt: skip
        return out.sum(0)


def _parts(X: Any, device: str, height: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (place of the first row, rows on the device): all rows if they are there, else parts of whole blocks."""
    if isinstance(X, Distant):
        yield 0, X.values.to(device)  # type: ignore[attr-defined]
        return
    matrix, (n, width) = as_matrix(X), shape(X)
    step = height * max(1, STAGED // (8 * max(1, width) * height))
    sender = Sender(device)
    for first in range(0, n, step):
        part: Any = matrix[first : first + step]
        if hasattr(part, "toarray"):
            rows: Any = as_rows(part)
            yield first, Sparse(rows, device)[torch.arange(part.shape[0], device=device)]
        else:
            yield first, sender.send(part)
