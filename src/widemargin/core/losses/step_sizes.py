"""Sizes of sub-gradient steps that fall with a power of time; every named rule of a solver is one of these."""

import math
from typing import NamedTuple

from ..compiling.dispatch import inlined


class StepSize(NamedTuple):
    """η_t = scale/(offset + t)^power, at most ``cap``; the power is 0, ½ or 1."""

    scale: float
    power: float
    offset: float = 0.0
    cap: float = math.inf


@inlined
def step_size(step, t):
    """The size of step t, counted from 1."""
    eta = step.scale
    if step.power == 1.0:
        eta /= step.offset + t
    elif step.power == 0.5:
        eta /= math.sqrt(step.offset + t)
    return min(eta, step.cap)
