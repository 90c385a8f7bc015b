"""Clocks and tables for benchmarks: contenders take turns, medians with their spread, ratios."""

import multiprocessing
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


class Twin:
    """Another process that makes the same call: two that share nothing say what two processors give at that moment."""

    def __init__(self, function):
        forks = multiprocessing.get_context("fork")
        self._function, self._meet = function, forks.Barrier(2)
        self._process = forks.Process(target=self._work, daemon=True)
        self._process.start()
        self.clock()  # the first call of a process touches its memory

    def _work(self):
        while True:
            self._meet.wait()
            self._function()
            self._meet.wait()

    def clock(self):
        """Seconds until both have made the call."""
        self._meet.wait()
        since = time.perf_counter()
        self._function()
        self._meet.wait()
        return time.perf_counter() - since

    def end(self):
        self._process.kill()


def spread(seconds, scale=1e3):
    """Median and quartiles in milliseconds."""
    low, middle, high = np.percentile(seconds, [25, 50, 75]) * scale
    return f"{middle:9.1f} [{low:.1f}, {high:.1f}]"


def verdict(value, limit):
    """Whether a figure asked for was met."""
    return f"{value:8.3f}  asked ≤ {limit:<6g} {'met' if value <= limit else 'MISSED'}"
