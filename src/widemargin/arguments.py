"""Checks of users' arguments; an error names the argument, the value and what it must be.

>>> positive("C", 0.0)
Traceback (most recent call last):
ValueError: C must be > 0 and finite, got 0.0
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def positive(name: str, value: Any) -> float:
    """Return the value as a float; refuse anything but a finite number > 0."""
    return _number(name, value, "> 0", operator.gt)


def not_negative(name: str, value: Any) -> float:
    """Return the value as a float; refuse anything but a finite number ≥ 0."""
    return _number(name, value, "≥ 0", operator.ge)


def _number(name: str, value: Any, must: str, fits: Callable[[float, float], bool]) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number {must}, got {value!r}")
    if not (math.isfinite(value) and fits(float(value), 0.0)):
        raise ValueError(f"{name} must be {must} and finite, got {value!r}")
    return float(value)


def whole(name: str, value: Any, least: int = 1) -> int:
    """Return the value as an int; refuse anything but an integer ≥ ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer ≥ {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be ≥ {least}, got {value!r}")
    return int(value)


def threads(n_jobs: Any) -> int:
    """The number of threads for scikit-learn's ``n_jobs``: None is 1, −1 all usable processors, −2 all but one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be None or an integer, got {n_jobs!r}")
    count = int(n_jobs)
    if count == 0:
        raise ValueError("n_jobs must not be 0: give a number of threads, or -1 for all processors")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return count if count > 0 else max(1, allowed + 1 + count)


def one_of(name: str, value: Any, allowed: Iterable[str]) -> Any:
    """Return the value; refuse anything but one of the allowed names."""
    allowed = list(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def flag(name: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def generator(random_state: Any) -> np.random.Generator:
    """A Generator from an int, a RandomState, a Generator or None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
    raise ValueError(
        f"random_state must be None, an integer ≥ 0, a numpy Generator or a RandomState, got {random_state!r}"
    )
