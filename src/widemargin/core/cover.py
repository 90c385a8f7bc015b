"""The largest of many numbers that change one by one, found without looking at the others.

Numbers stand in blocks and each block keeps its largest one, as the sampler's blocks keep their sums. Those that reach
a threshold are in blocks whose largest one does, and the threshold of the last time is near that of the next: a few
blocks are looked at, not all numbers. After a sweep over all numbers the sums of blocks, which are no smaller, stand
in for the largest.
"""

from typing import NamedTuple

import numpy as np

from .borrowing import borrow
from .dispatch import compiled, inlined
from .sampler import NARROW, block_of, blocks


class Tops(NamedTuple):
    """The largest number of each block of 2^shift numbers, and of each block of blocks, or something larger."""

    fine: np.ndarray
    coarse: np.ndarray
    shift: int


def tops_of(values: np.ndarray, least: int = NARROW) -> Tops:
    """The tops of these numbers, none of which is negative."""
    shift, n_fine, n_coarse = blocks(values.size, least)
    made = Tops(np.empty(n_fine), np.empty(n_coarse), shift)
    find_tops(made, values)
    return made


@inlined
def _largest(values):
    largest = 0.0
    for k in range(values.size):
        largest = values[k] if values[k] > largest else largest
    return largest


@compiled
def find_tops(tops, values):
    """Find all tops anew, as after changes that were not told of."""
    tops, values = borrow(tops), borrow(values)
    for k in range(tops.fine.size):
        tops.fine[k] = _largest(block_of(values, k, tops.shift))
    for k in range(tops.coarse.size):
        tops.coarse[k] = _largest(block_of(tops.fine, k, tops.shift))


@inlined
def take_sums(tops, sampler):
    """Let the sums of a sampler of the same numbers stand for the tops."""
    for k in range(tops.fine.size):
        tops.fine[k] = sampler.fine[k]
    for k in range(tops.coarse.size):
        tops.coarse[k] = sampler.coarse[k]


@inlined
def note_change(tops, values, i, before):
    """Number i is not what it was before: keep the tops right."""
    k = i >> tops.shift
    old = tops.fine[k]
    if values[i] >= old:
        tops.fine[k] = values[i]
    elif before == old:
        tops.fine[k] = _largest(block_of(values, k, tops.shift))
    K = k >> tops.shift
    if tops.fine[k] >= tops.coarse[K]:
        tops.coarse[K] = tops.fine[k]
    elif old == tops.coarse[K]:
        tops.coarse[K] = _largest(block_of(tops.fine, K, tops.shift))


@inlined
def list_above(tops, values, threshold, out, count):
    """Append the places of numbers ≥ threshold to ``out``, which has ``count``; returns how many it has then."""
    for K in range(tops.coarse.size):
        if tops.coarse[K] >= threshold:
            for k in range(K << tops.shift, min((K + 1) << tops.shift, tops.fine.size)):
                if tops.fine[k] >= threshold:
                    for i in range(k << tops.shift, min((k + 1) << tops.shift, values.size)):
                        if values[i] >= threshold:
                            out[count] = i
                            count += 1
    return count
