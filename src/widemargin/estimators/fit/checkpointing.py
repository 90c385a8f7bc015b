"""When two fits are the same, so that one can go on from the checkpoint of the other.

Two fits are the same if the estimator, its parameters (but for :data:`FREE`), the data, and what ``warm_start`` begins
with are the same. Each is kept as a text: its value, or a digest of it.
"""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from ...checkpoints import Checkpoint
from ...core.rows.distant import local
from ...core.rows.sources import Remote, TwoWays
from ...files import digest

#: Parameters that may change when a fit goes on. They end it, show it or keep it, and are no part of its problem.
FREE = ("max_iter", "max_seconds", "callbacks", "verbose", "checkpoint", "checkpoint_every")
#: Attributes of an earlier fit from which ``warm_start`` goes on.
LEARNT = ("_state", "coef_", "support_", "dual_coef_", "intercept_")


def opened(estimator: Any, X: Any, y: np.ndarray, weights: np.ndarray) -> Checkpoint:
    """The checkpoint of a fit to these examples, with what an earlier process has left in its file."""
    data = {"X": _said_of_data(X), "y": _said_of_data(y), "sample_weight": _said_of_data(weights)}
    return opened_for(estimator, data)


def opened_for(estimator: Any, data: dict[str, str]) -> Checkpoint:
    """The checkpoint of a fit to the examples that these texts identify."""
    problem = {"the estimator": type(estimator).__name__}
    for name, value in estimator.get_params(deep=False).items():
        if name not in (*FREE, *estimator.never_matters):
            problem[name] = _said(value)
    problem |= data
    if getattr(estimator, "warm_start", False):
        learnt = {name: value for name, value in vars(estimator).items() if name in LEARNT}
        problem["the start"] = " ".join(f"{name} {digest(value)[:16]}" for name, value in learnt.items())
    return Checkpoint(Path(estimator.checkpoint), float(estimator.checkpoint_every), problem)


def _said(value: Any) -> str:
    """A parameter as a text: its value, or a digest of it."""
    if value is None or isinstance(value, (str, bool, Real)):
        return repr(value)
    if isinstance(value, np.random.Generator):  # where it stood is in the checkpoint
        return f"a generator of {type(value.bit_generator).__name__}"
    if isinstance(value, np.random.RandomState) or value is np.random:
        return "a RandomState"
    if callable(value):  # a function is known by its name
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    try:
        return f"{type(value).__name__} {digest(value)[:16]}"
    except TypeError:
        return repr(value)


def _said_of_data(data: Any) -> str:
    """Examples as a text; only their shape where they are reached by row and by column, for nobody reads them all."""
    if isinstance(data, (Remote, TwoWays)):
        return f"data of shape {data.shape}"
    data = local(data)
    return f"data of shape {data.shape} and type {data.dtype} ({digest(data)[:16]})"
