"""Orders in which examples are visited: permutations, subsets, and who rests.

Permutations and subsets come from few random numbers, faster than a generator's own for large 32-bit orders. An example
whose visits change nothing rests for 1 pass, then 3, 7, 15, at most 31; nothing is ever left out for good.
"""

import numpy as np

from .borrowing import borrow
from .dispatch import compiled, inlined

#: Between the states of the splitmix64 generator.
STRIDE = np.uint64(0x9E3779B97F4A7C15)


@inlined
def mixed(state):
    """The number of 64 bits that splitmix64 makes of a state: a hash of it."""
    u = state
    u = (u ^ (u >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    u = (u ^ (u >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return u ^ (u >> np.uint64(31))


@inlined
def uniform(state):
    """The uniform number in [0, 1), of 53 bits, that splitmix64 makes of a state."""
    return np.float64(mixed(state) >> np.uint64(11)) * 2.0**-53


@compiled
def _shuffle(order, seed):
    shuffled(borrow(order), order.size, seed)


@inlined
def shuffled(order, count, seed):
    """Permute the first entries of ``order`` uniformly in place (Fisher and Yates)."""
    state = seed
    for i in range(count - 1, 0, -1):
        state += STRIDE
        j = int(uniform(state) * (i + 1))
        order[i], order[j] = order[j], order[i]


def shuffle(order: np.ndarray, rng: np.random.Generator) -> None:
    """Permute ``order`` uniformly in place (Fisher and Yates), seeded by one draw from ``rng``."""
    _shuffle(order, rng.integers(2**64, dtype=np.uint64))


def spread(n: int, count: int) -> np.ndarray:
    """``count`` places among n, all over them, at steps of a golden section, which no period of the rows meets."""
    return (np.arange(count) * 0.6180339887498949 % 1.0 * n).astype(np.int64)


@compiled
def draw_subsets(order, uniforms, size, out):
    """out ← consecutive uniform subsets of ``size`` distinct entries of ``order``, which is permuted in place."""
    n = order.size
    for first in range(0, out.size, size):
        for r in range(size):
            j = r + int(uniforms[first + r] * (n - r))
            order[r], order[j] = order[j], order[r]
            out[first + r] = order[r]


#: Most passes an example rests.
LONGEST_REST = 31


@inlined
def note_visit(rest, wait, i, moved):
    """An idle visit of example i sends it to rest, each time for longer; one that moved it ends that."""
    rest[i] = 0 if moved else min(2 * rest[i] + 1, LONGEST_REST)
    wait[i] = rest[i]


@inlined
def order_of_pass(order, wait, shrinking, seed, number):
    """order[:k] ← the examples that wait no more, or all, in the order that a seed has for a pass; returns k.

    The others wait one pass less.
    """
    awake = 0
    while awake == 0 and order.size:  # all may rest; passes without a visit go by
        for i in range(wait.size):
            order[awake] = i
            if wait[i] == 0 or not shrinking:
                awake += 1
            else:
                wait[i] -= 1
    shuffled(order, awake, mixed(seed + np.uint64(number) * STRIDE))
    return awake


@compiled
def next_order(order, wait, shrinking, seed, number):
    """:func:`order_of_pass`, for Python."""
    return order_of_pass(borrow(order), borrow(wait), shrinking, seed, number)


def next_pass(order: np.ndarray, wait: np.ndarray, rng: np.random.Generator) -> int:
    """order[:k] ← the examples awake, in a new random order; returns k. An empty ``wait`` lets nobody rest."""
    if wait.size == 0:
        shuffle(order, rng)
        return order.size
    return int(next_order(order, wait, True, rng.integers(2**64, dtype=np.uint64), 0))
