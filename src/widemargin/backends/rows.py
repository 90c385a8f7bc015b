"""Data on a device: checked, measured, scaled, centred and rounded there.

The results are those of :mod:`widemargin.problems.layout` for the same data on the host, up to the order of sums in
float64. Each costs one or two passes over the data at the speed of the device's memory, and one wait for the result.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..core.rows.distant import Distant
from ..problems.layout import times_power
from . import blocks
from .scoring import scores
from .sending import Change, Sender, extremes

#: Entries that are converted to float64 at a time.
WIDENED = 2**25


class DeviceRows(Distant):
    """A tensor of shape (n, n_features) on a device, float32 or float64; nothing changes it.

    ``host`` is the array that was copied, if there is one. Rows for the host are then read from it.
    """

    def __init__(self, values: torch.Tensor, host: np.ndarray | None = None) -> None:
        self.values, self.host = values, host
        self.shape = tuple(values.shape)
        self.dtype = np.dtype(np.float32 if values.dtype == torch.float32 else np.float64)
        self.place = str(values.device)
        self._sizes: dict[bool, tuple[float, float]] = {}

    @classmethod
    def of_host(cls, array: np.ndarray, device: str) -> DeviceRows:
        """A copy of a C-ordered array."""
        with blocks.exactly():
            return cls(Sender(device).send(array), array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.local(), dtype)

    def __getitem__(self, chosen: Any) -> DeviceRows:
        with blocks.exactly():
            places = chosen if isinstance(chosen, slice) else blocks.tensor_of(np.asarray(chosen), self.place)
            return DeviceRows(self.values[places], None if self.host is None else self.host[chosen])

    def local(self, chosen: Any = None) -> np.ndarray:
        """A copy of the chosen rows, or of all, on the host."""
        chosen = slice(None) if chosen is None else chosen
        if self.host is not None:
            return self.host[chosen]
        return self[chosen].values.cpu().numpy()

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """(least, largest) entry; NaN where one is."""
        with blocks.exactly():
            return tuple(extremes(self.values).tolist()) if self.values.numel() else (0.0, 0.0)

    def largest_entry(self) -> float:
        """The largest absolute value of an entry."""
        return max(map(abs, self.extremes))

    @cached_property
    def _mean(self) -> torch.Tensor:
        # in parts, because torch would copy all entries to float64
        sums = [part.sum(0, dtype=torch.float64) for part in self._parts()]
        return torch.stack(sums).sum(0) / self.shape[0]

    def mean(self, axis: int = 0, dtype: Any = np.float64) -> np.ndarray:
        """Means of the columns, in float64."""
        with blocks.exactly():
            return self._mean.cpu().numpy()

    def variance(self) -> float:
        """Variance of all entries, in float64."""
        if not self.values.numel():
            return 0.0
        with blocks.exactly():
            mean = self._mean.mean()
            squares = [(part.double() - mean).square_().sum() for part in self._parts()]
            return float(torch.stack(squares).sum()) / self.values.numel()

    def sizes(self, squared: bool, centre: np.ndarray | None = None) -> tuple[float, float]:
        """(least, largest) ‖x − centre‖², or ‖x − centre‖₁, of the rows."""
        if not self.shape[0]:
            return 0.0, 0.0
        if centre is not None or squared not in self._sizes:
            order = 2.0 if squared else 1.0
            with blocks.exactly():
                away = None if centre is None else blocks.tensor_of(centre, self.place)
                parts = (part if away is None else part.double() - away for part in self._parts())
                lengths = [torch.linalg.vector_norm(part, order, 1, dtype=torch.float64) for part in parts]
                of_rows = torch.cat(lengths)
                of_rows = of_rows.square_() if squared else of_rows
                found = float(of_rows.min()), float(of_rows.max())
            if centre is not None:
                return found
            self._sizes[squared] = found
        return self._sizes[squared]

    def prepared(self, exponent: int, far: float, centre: np.ndarray | None, dtype: Any) -> DeviceRows:
        """The rows divided by 2ᵉ, clipped to ±far, less a centre, in a dtype; the same rows if no bit changes."""
        cut = math.isfinite(far) and times_power(self.largest_entry(), -exponent) > far
        if exponent == 0 and not cut and centre is None and self.dtype == dtype:
            return self
        with blocks.exactly():
            change = Change(exponent, far if cut else math.inf, centre, dtype, self.place)
            out = torch.empty(self.shape, dtype=change.dtype, device=self.values.device)
            for here, part in zip(out.split(self._step), self._parts(), strict=True):
                here.copy_(change(part))
        return DeviceRows(out)

    def scores(self, model: Any) -> np.ndarray:
        """Scores of these rows, laid out as the vectors of a kernel model, of shape (n, n_outputs)."""
        return scores(model, self, device=self.place)

    @property
    def _step(self) -> int:
        return max(1, WIDENED // max(1, self.shape[1]))

    def _parts(self) -> Any:
        """Parts of the rows whose copies in float64 need little memory."""
        return self.values.split(self._step)
