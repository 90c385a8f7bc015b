"""All numbers above a threshold, of many numbers that change one by one.

Numbers are grouped in blocks and each block stores its largest number (its *top*), as the blocks of :mod:`.sampler`
store their sums. A block whose top is below the threshold is skipped as a whole. With n numbers, blocks and blocks of
blocks are n^{1/3} wide, so a search costs about n^{1/3} plus the blocks that have a number above::

    tops = tops_of(values)
    count = list_above(tops, values, 0.9, out, 0)      # out[:count] are the indices of numbers ≥ 0.9

A top may be larger than all numbers of its block; the search then only takes longer. After a pass that changed all
numbers, the sums of blocks serve as tops, since sums of numbers ≥ 0 are no smaller.
"""

from typing import NamedTuple

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import compiled, inlined
from .sampler import NARROW, block_of, blocks


class Tops(NamedTuple):
    """Upper bounds of each block of 2^shift numbers, and of each block of blocks; normally the largest number."""

    fine: np.ndarray
    coarse: np.ndarray
    shift: int


def tops_of(values: np.ndarray, least: int = NARROW) -> Tops:
    """The tops of these numbers, which are ≥ 0."""
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
    """Compute all tops from the numbers."""
    tops, values = borrow(tops), borrow(values)
    for k in range(tops.fine.size):
        tops.fine[k] = _largest(block_of(values, k, tops.shift))
    for k in range(tops.coarse.size):
        tops.coarse[k] = _largest(block_of(tops.fine, k, tops.shift))


@inlined
def take_sums(tops, sampler):
    """tops ← the sums of a sampler of the same numbers, which are upper bounds."""
    for k in range(tops.fine.size):
        tops.fine[k] = sampler.fine[k]
    for k in range(tops.coarse.size):
        tops.coarse[k] = sampler.coarse[k]


@inlined
def note_change(tops, values, i, before):
    """Update the tops after number i changed; ``before`` is its old value."""
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
    """Append the indices of numbers ≥ threshold to ``out`` from position ``count`` on; returns the new count."""
    for K in range(tops.coarse.size):
        if tops.coarse[K] >= threshold:
            for k in range(K << tops.shift, min((K + 1) << tops.shift, tops.fine.size)):
                if tops.fine[k] >= threshold:
                    for i in range(k << tops.shift, min((k + 1) << tops.shift, values.size)):
                        if values[i] >= threshold:
                            out[count] = i
                            count += 1
    return count
