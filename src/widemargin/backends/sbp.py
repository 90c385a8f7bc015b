"""The Stochastic Batch Perceptron with kernel rows on a GPU; problem and steps: :mod:`widemargin.solvers.sbp.sbp`.

The device computes one thing for a step: Σ coefficient × kernel row over the points drawn. Missing rows are computed by
one matrix product and stay in a cache on the device. One program sums them in float64, and n numbers for each binary
problem go to the host. The responses are on the host, where the CPU's loops find the water level and draw points: the
same random numbers give the same draws, up to the rounding of float32 kernel values.

Cost of a step beside the product: about twenty launches, 8n bytes to the host, and there the water level and three
passes over n numbers.

The C-form finds its ν by :class:`.smo.DeviceSMO` on a sample. DeviceSMO also continues from the draws' coefficients,
clipped to the box. For a given ν several classes are trained together.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import triton

from ..core.kernels.matrix import largest_value
from ..files import savable
from ..problems.kernel import KernelProblem
from ..solvers import make
from ..solvers.protocol import Capabilities
from ..solvers.sbp.sbp import USED_ONCE, BatchPerceptron, BatchState, HostResponses, Sample
from ..solvers.smo.dual import lightened
from . import programs
from .blocks import Blocks, Columns, RowCache, exactly, on_device, tensor_of
from .workspace import HEIGHT, WIDTH, power_of_two

#: A slice computes FASTER times as many kernel values as on the CPU.
FASTER = 64


class DeviceBatchWorkspace(HostResponses):
    """The cache of kernel rows on a device, arrays for their sums, and the sample while ν is sought."""

    def __init__(self, problem: KernelProblem, device: str, batch_size: int) -> None:
        self.device, self.shape = device, (problem.n_outputs, problem.n)
        self.constant, self.n_bytes, self.evaluated = problem.constant, problem.cache_bytes, 0
        self.sample: Sample | None = None
        #: Points of a launch. If there are fewer, some are repeated.
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
        """The number of kernel values computed since the last call."""
        found, self.evaluated = self.evaluated, 0
        return found

    def add(self, state: BatchState, points: np.ndarray, coefficients: np.ndarray) -> None:
        """f += Σ coefficient × kernel row of a point, f_sum += S × the same, for each binary problem, in place."""
        self.sums.zero_()
        most = min(self.points, self._rows().capacity)
        for start in range(0, points.size, most):
            self._add(points[start : start + most], coefficients[:, start : start + most])
        self.here.copy_(self.sums)
        change = self.here.numpy()
        if self.constant:
            change += self.constant * coefficients.sum(axis=1, keepdims=True)
        state.f += change
        change *= state.total[:, None]
        state.f_sum += change
        state.passes += len(state.f)

    def _add(self, points: np.ndarray, coefficients: np.ndarray) -> None:
        """sums += Σ coefficient × kernel row of a point, in place."""
        (lines, n), Q, cache = self.shape, self.points, self._rows()
        before = cache.computed
        change = np.zeros((lines, Q))
        change[:, : points.size] = coefficients
        wanted = tensor_of(np.resize(points, Q), self.device)  # repeated points have the coefficient 0
        cache.fetch(wanted)
        self.evaluated += cache.computed - before
        slots = cache.slot_of[wanted].repeat(lines, 1)
        programs.add_rows[(triton.cdiv(n, WIDTH), lines)](
            cache.rows, slots, tensor_of(change, self.device), self.everywhere, self.sums, n, n, Q=Q,
            HEIGHT=min(HEIGHT, Q), WIDTH=WIDTH,
        )  # fmt: skip

    def _rows(self) -> RowCache:
        """The cache, which is made when it is first needed."""
        if self.cache is None:
            self.cache = RowCache(self.blocks, self.n_bytes)
        return self.cache

    def forget_rows(self) -> None:
        """Free the memory of the cache."""
        self.cache = None

    def compile(self) -> None:
        """Compile the programs by a step that adds 0."""
        self.sums.zero_()
        self._add(np.zeros(1, np.int64), np.zeros((self.shape[0], 1)))
        self._rows().clear()
        self.evaluated = 0


class Across:
    """The kernel between two sets of rows: blocks are computed on a device and sent to the host."""

    def __init__(self, kernel: Any, rows: Any, columns: Any, device: str) -> None:
        self.rows, self.columns = on_device(rows, device), Columns(kernel, on_device(columns, device))
        self.device, self.evaluations = device, 0

    def block(self, chosen: np.ndarray) -> np.ndarray:
        """Kernel values of the chosen rows, at most :data:`USED_ONCE`, with all columns."""
        padded = tensor_of(np.resize(chosen, USED_ONCE), self.device)
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

    _always = replace(BatchPerceptron._always, on_device=True)

    @property
    def capabilities(self) -> Capabilities:
        """Several classes share kernel rows at a given ν. The C-form ends with SMO for each class."""
        return replace(super().capabilities, joins=self.nu is not None)

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

    def _workspace(self, problem: KernelProblem, state: BatchState) -> DeviceBatchWorkspace:
        return state.work(problem, lambda: DeviceBatchWorkspace(problem, self.device, self.batch_size))

    def _exact(self, tol: float) -> Any:
        return make("device", "smo", tol=tol, device=self.device, sample=1)  # a sample has no sample of its own

    def _seek_nu(self, problem: KernelProblem, state: BatchState, most: int) -> int:
        self._workspace(problem, state).forget_rows()  # SMO needs their memory
        return super()._seek_nu(problem, state, most)

    def _across(self, problem: KernelProblem, chosen: np.ndarray, others: np.ndarray) -> Any:
        if not problem.kernel.of_rows:
            return problem.matrix(chosen, others)
        return Across(problem.kernel, problem.rows(chosen), problem.rows(others), self.device)

    def _start(self, problem: KernelProblem, state: BatchState, sample: Sample, trial: Any) -> None:
        """Do nothing: the draws' model stays until SMO, which continues from them, has a better one."""

    def _hand_over(self, problem: KernelProblem, state: BatchState, alpha: np.ndarray) -> None:
        """Let SMO continue from the draws' coefficients."""
        drawn = problem.signs * lightened(alpha[0], problem.y, problem.caps, problem.has_free_bias)
        self._workspace(problem, state).forget_rows()
        state.drop_workspace()
        polish = self._smo.init(problem, deepcopy(state.rng), drawn)
        state.counters.kernel_evals += int(np.count_nonzero(drawn)) * problem.n
        state.polish, polish.counters = polish, state.counters
