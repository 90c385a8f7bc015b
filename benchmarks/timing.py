"""Clocks and tables for benchmarks: contenders take turns, medians with their spread, ratios."""

import time

import numpy as np


def turns(contenders, repeats):
    """Seconds of each contender, called in turn ``repeats`` times so that noise hits all alike.

    A contender is a function that does its own set-up and returns the seconds it wants counted.
    """
    seconds = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            seconds[name].append(contender())
    return {name: np.array(values) for name, values in seconds.items()}


def clock(function):
    """Seconds a call takes."""
    since = time.perf_counter()
    function()
    return time.perf_counter() - since


def spread(seconds, scale=1e3):
    """Median and quartiles in milliseconds."""
    low, middle, high = np.percentile(seconds, [25, 50, 75]) * scale
    return f"{middle:9.1f} [{low:.1f}, {high:.1f}]"


def verdict(value, limit):
    """Whether a figure asked for was met."""
    return f"{value:8.3f}  asked ≤ {limit:<6g} {'met' if value <= limit else 'MISSED'}"
