"""The Stochastic Batch Perceptron with its kernel rows on a GPU: :mod:`widemargin.solvers.sbp`, whose steps, water
levels, draws and averages these are.

A step asks the device for one thing, Σ coefficient × kernel row over the points drawn. Rows come by one matrix product,
from a cache in the device's memory; their sum is in float64, by one program, and n numbers for each binary problem
travel back. Responses stay on the host, where the CPU's own loops pour and draw: the same random numbers are the same
draws, as far as float32 kernel values are the same.

Cost of a step beside the product: some twenty launches, the way of 8n bytes to the host, and there the water level and
three passes over n.

The C-form finds its ν with :class:`.smo.DeviceSMO` on a sample, and hands over to it: it goes on from the draws'
coefficients, clipped into the box. Several classes are trained together for a given ν.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton

from ..core.kernel_matrix import largest_value
from ..files import savable
from ..problems.kernel import KernelProblem
from ..solvers import make
from ..solvers.sbp import USED_ONCE, BatchPerceptron, BatchState, Here, Sample
from ..solvers.smo import lightened
from . import programs
from .blocks import Blocks, Columns, RowCache, exactly, on_device, tensor_of
from .workspace import HEIGHT, WIDTH, power_of_two

#: Times as many kernel values in a slice as on the CPU.
FASTER = 64


class Workspace(Here):
    """Kernel rows on a device, and room for sums of them; and the sample that ν is sought on, while it is needed."""

    def __init__(self, problem: KernelProblem, device: str, batch_size: int) -> None:
        self.device, self.shape = device, (problem.n_outputs, problem.n)
        self.constant, self.n_bytes, self.evaluated = problem.constant, problem.cache_bytes, 0
        self.sample: Sample | None = None
        #: Points of a launch, some of them repeated.
        self.points = power_of_two(min(batch_size * problem.n_outputs, problem.n))
        self.cache: RowCache | None = None
        self.blocks = blocks = Blocks(problem, device)
        blocks.height = min(blocks.height, self.points)
        own = largest_value(problem.kernel, problem.X) if blocks.matrix is None else blocks.matrix.diagonal().max()
        self.largest = float(own) + problem.constant
        self.everywhere = torch.arange(problem.n, device=device).repeat(problem.n_outputs, 1)
        self.sums = torch.empty(self.shape, dtype=torch.float64, device=device)
        self.here = torch.empty(self.shape, dtype=torch.float64, device="cpu", pin_memory=self.sums.is_cuda)

    def computed(self) -> int:
        """Kernel values that were computed for the cache since this was last asked."""
        found, self.evaluated = self.evaluated, 0
        return found

    def add(
        self, points: np.ndarray, coefficients: np.ndarray, before: np.ndarray, f: np.ndarray, f_sum: np.ndarray
    ) -> int:
        """f += Σ coefficient × kernel row of a point, f_sum += S × the same, for each binary problem, in place;
        returns the passes over n."""
        self.sums.zero_()
        most = min(self.points, self._rows().capacity)
        for start in range(0, points.size, most):
            self._add(points[start : start + most], coefficients[:, start : start + most])
        self.here.copy_(self.sums)
        change = self.here.numpy()
        if self.constant:
            change += self.constant * coefficients.sum(axis=1, keepdims=True)
        f += change
        change *= before[:, None]
        f_sum += change
        return f.shape[0]

    def _add(self, points: np.ndarray, coefficients: np.ndarray) -> None:
        """sums += Σ coefficient × kernel row of a point, in place."""
        (lines, n), Q, cache = self.shape, self.points, self._rows()
        before = cache.computed
        change = np.zeros((lines, Q))
        change[:, : points.size] = coefficients
        wanted = tensor_of(np.resize(points, Q), self.device)  # repeats them, which then count for nothing
        cache.fetch(wanted)
        self.evaluated += cache.computed - before
        slots = cache.slot_of[wanted].repeat(lines, 1)
        programs.add_rows[(triton.cdiv(n, WIDTH), lines)](
            cache.rows, slots, tensor_of(change, self.device), self.everywhere, self.sums, n, n, Q=Q,
            HEIGHT=min(HEIGHT, Q), WIDTH=WIDTH,
        )  # fmt: skip

    def _rows(self) -> RowCache:
        """The cache, made if there is none."""
        if self.cache is None:
            self.cache = RowCache(self.blocks, self.n_bytes)
        return self.cache

    def forget_rows(self) -> None:
        """Give the cache's memory back."""
        self.cache = None

    def compile(self) -> None:
        """Compile the programs, by adding nothing."""
        self.sums.zero_()
        self._add(np.zeros(1, np.int64), np.zeros((self.shape[0], 1)))
        self._rows().clear()
        self.evaluated = 0


class Across:
    """The kernel between two sets of rows on a device, by blocks of rows that come to the host."""

    def __init__(self, kernel: Any, rows: Any, columns: Any, device: str) -> None:
        self.rows, self.columns = on_device(rows, device), Columns(kernel, on_device(columns, device))
        self.device, self.evaluations = device, 0

    def block(self, chosen: np.ndarray) -> np.ndarray:
        """The chosen rows, over all columns; at most :data:`USED_ONCE`."""
        padded = tensor_of(np.resize(chosen, USED_ONCE), self.device)  # repeats them
        values = self.columns.values(self.columns.sums(self.rows[padded]))[: chosen.size]
        self.evaluations += values.numel()
        return values.cpu().numpy()


@savable()
@dataclass
class DeviceSBP(BatchPerceptron):
    """Kernel classification in the slack-constrained form, with kernel rows on a GPU.

    Parameters
    ----------
    nu, batch_size, average, step, tol : as of the solver on the CPU
    device : str
        torch's name of the device; on "cpu" Triton's interpreter must be on.
    """

    device: str = "cuda"

    on_device = True

    @property
    def joins(self) -> bool:  # type: ignore[override]
        """Several classes share rows at a given ν; for the C-form each is SMO's in the end."""
        return self.nu is not None

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        super().check(problem)
        if self.nu is None and problem.n_outputs > 1:
            raise ValueError(
                f"DeviceSBP trains several binary problems together at a given nu, got {problem.n_outputs} and "
                "nu=None: give nu, or train them one after the other"
            )

    def first_slice(self, problem: KernelProblem) -> int:
        """The number of steps that compute a slice's kernel values, at least 1."""
        return FASTER * super().first_slice(problem)

    def advance(self, problem: KernelProblem, state: BatchState, n_steps: int) -> int:
        """Take up to n_steps steps, in place, stopping at a checkpoint; returns the number taken."""
        with exactly():
            if n_steps == 0 and state.polish is None:
                self._workspace(problem, state).compile()
                return 0
            return super().advance(problem, state, n_steps)

    def _workspace(self, problem: KernelProblem, state: BatchState) -> Workspace:
        return state.work(problem, lambda: Workspace(problem, self.device, self.batch_size))

    def _exact(self, tol: float) -> Any:
        return make("device", "smo", tol=tol, device=self.device, sample=1)  # whose own sample would be one too many

    def _seek_nu(self, problem: KernelProblem, state: BatchState, most: int) -> int:
        self._workspace(problem, state).forget_rows()  # few by then, and SMO has use for their memory
        return super()._seek_nu(problem, state, most)

    def _across(self, problem: KernelProblem, chosen: np.ndarray, others: np.ndarray) -> Any:
        if not problem.kernel.of_rows:
            return problem.matrix(chosen, others)
        return Across(problem.kernel, problem.rows(chosen), problem.rows(others), self.device)

    def _start(self, problem: KernelProblem, state: BatchState, sample: Sample, trial: Any) -> None:
        """None: the model is that of the draws until SMO, which goes on from them, has a better one."""

    def _hand_over(self, problem: KernelProblem, state: BatchState, alpha: np.ndarray) -> None:
        """SMO goes on from the draws' coefficients."""
        drawn = problem.signs * lightened(alpha[0], problem.y, problem.caps, problem.has_free_bias)
        self._workspace(problem, state).forget_rows()
        state.drop_workspace()
        polish = self._smo.init(problem, deepcopy(state.rng), drawn)
        state.counters.kernel_evals += int(np.count_nonzero(drawn)) * problem.n
        state.polish, polish.counters = polish, state.counters
