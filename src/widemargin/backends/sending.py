"""Arrays on their way to a device: sent in parts, scaled, centred and rounded there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from . import blocks

#: Bytes of a buffer in pinned memory. There are two: one is filled while the other is sent.
STAGED = 2**25


class Change:
    """Rows divided by 2ᵉ, cut off at ±far and less a centre, in float64, then rounded to a dtype: a callable."""

    def __init__(self, exponent: int, far: float, centre: np.ndarray | None, dtype: Any, device: str) -> None:
        self.far, self.dtype = far, torch.float32 if np.dtype(dtype) == np.float32 else torch.float64
        # two factors, of which neither overflows
        self.factors = [2.0 ** (-exponent // 2), 2.0 ** (-exponent - -exponent // 2)] if exponent else []
        self.centre = None if centre is None else blocks.tensor_of(centre, device)

    def __call__(self, part: torch.Tensor) -> torch.Tensor:
        if self.factors or self.centre is not None:
            part = part.double()
        for factor in self.factors:
            part = part * factor
        if math.isfinite(self.far):
            part = part.clamp(-self.far, self.far)
        return (part if self.centre is None else part - self.centre).to(self.dtype)


def extremes(values: torch.Tensor) -> torch.Tensor:
    """(least, largest) entry, as a tensor; NaN where one is."""
    return torch.stack(torch.aminmax(values))


class Sender:
    """Sends arrays to a device in the order of the work there: the host goes on to the next when one is on its way.

    Two buffers in pinned memory take turns: the device reads by itself from pinned memory only.
    """

    def __init__(self, device: str) -> None:
        self.device, self.turn = torch.device(device), 0
        self.staged: list[Any] = []

    def send(self, array: np.ndarray) -> torch.Tensor:
        """A copy of a C-ordered array on the device."""
        given = blocks.view_of(array)
        if self.device.type != "cuda":
            return given.clone()
        out = torch.empty(given.shape, dtype=given.dtype, device=self.device)
        source, target = given.view(-1), out.view(-1)
        step = STAGED // source.element_size()
        for first in range(0, source.numel(), step):
            part = source[first : first + step]
            buffer = self._buffer()[: part.numel() * part.element_size()].view(part.dtype)
            buffer.copy_(part)
            target[first : first + step].copy_(buffer, non_blocking=True)
            self.staged[self.turn][1].record()
        return out

    def _buffer(self) -> torch.Tensor:
        """The buffer whose turn it is, when what it held has been sent."""
        self.turn = (self.turn + 1) % 2
        if not self.staged:
            self.staged = [
                (torch.empty(STAGED, dtype=torch.uint8, device="cpu", pin_memory=True), torch.cuda.Event())
                for _ in range(2)
            ]
        buffer, sent = self.staged[self.turn]
        sent.synchronize()  # returns at once where nothing was recorded yet
        return buffer
