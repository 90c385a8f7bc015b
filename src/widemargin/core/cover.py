"""The largest of many numbers that change one by one, found without looking at the others.

Numbers stand in blocks and each block keeps its largest one, as the sampler's blocks keep their sums. Those that reach
a threshold are in blocks whose largest one does, and the threshold of the last time is near that of the next: a few
blocks are looked at, not all numbers.
"""

from typing import NamedTuple

import numpy as np

from .dispatch import borrow, compiled, inlined
from .sampler import blocks


class Tops(NamedTuple):
    """The largest number of each block of ``width`` numbers, and of each block of blocks."""

    fine: np.ndarray
    coarse: np.ndarray
    width: int


def tops_of(values: np.ndarray) -> Tops:
    """The tops of these numbers, none of which is negative."""
    width, n_fine, n_coarse = blocks(values.size)
    made = Tops(np.empty(n_fine), np.empty(n_coarse), width)
    find_tops(made, values)
    return made


@inlined
def _largest(values, begin, end):
    largest = 0.0
    for k in range(begin, end):
        largest = max(largest, values[k])
    return largest


@compiled
def find_tops(tops, values):
    """Find all tops anew, as after changes that were not told of."""
    tops, values = borrow(tops), borrow(values)
    for k in range(tops.fine.size):
        tops.fine[k] = _largest(values, k * tops.width, min((k + 1) * tops.width, values.size))
    lift_coarse(tops)


@inlined
def lift_coarse(tops):
    """Find the upper tops from those of blocks."""
    for k in range(tops.coarse.size):
        tops.coarse[k] = _largest(tops.fine, k * tops.width, min((k + 1) * tops.width, tops.fine.size))


@inlined
def note_change(tops, values, i, before):
    """Number i is not what it was before: keep the tops right."""
    k = i // tops.width
    old = tops.fine[k]
    if values[i] >= old:
        tops.fine[k] = values[i]
    elif before == old:
        tops.fine[k] = _largest(values, k * tops.width, min((k + 1) * tops.width, values.size))
    K = k // tops.width
    if tops.fine[k] >= tops.coarse[K]:
        tops.coarse[K] = tops.fine[k]
    elif old == tops.coarse[K]:
        tops.coarse[K] = _largest(tops.fine, K * tops.width, min((K + 1) * tops.width, tops.fine.size))


@inlined
def list_above(tops, values, threshold, out, count):
    """Append the places of numbers ≥ threshold to ``out``, which has ``count``; returns how many it has then."""
    for K in range(tops.coarse.size):
        if tops.coarse[K] >= threshold:
            for k in range(K * tops.width, min((K + 1) * tops.width, tops.fine.size)):
                if tops.fine[k] >= threshold:
                    for i in range(k * tops.width, min((k + 1) * tops.width, values.size)):
                        if values[i] >= threshold:
                            out[count] = i
                            count += 1
    return count
