"""Orders in which examples are visited: permutations, subsets, and examples that rest.

Permutations and subsets use a splitmix64 generator with one seed from NumPy's, which is faster than NumPy's own for
large orders. An example whose visit changes nothing rests for 1 pass, after the next idle visit for 3, then 7, 15 and
31; it is always visited again. O(n) for each pass.
"""

import numpy as np

from ..borrowing import borrow
from ..compiling.dispatch import compiled, inlined

#: Difference of two successive states of the splitmix64 generator.
STRIDE = np.uint64(0x9E3779B97F4A7C15)


@inlined
def mixed(state):
    """The 64-bit output of splitmix64 for a state: a hash of the state."""
    u = state
    u = (u ^ (u >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    u = (u ^ (u >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return u ^ (u >> np.uint64(31))


@inlined
def uniform(state):
    """The output of splitmix64 for a state as a number in [0, 1) with 53 random bits."""
    return np.float64(mixed(state) >> np.uint64(11)) * 2.0**-53


@compiled
def _shuffle(order, seed):
    shuffled(borrow(order), order.size, seed)


@inlined
def shuffled(order, count, seed):
    """Permute the first ``count`` entries of ``order`` uniformly, in place (Fisher and Yates)."""
    state = seed
    for i in range(count - 1, 0, -1):
        state += STRIDE
        j = int(uniform(state) * (i + 1))
        order[i], order[j] = order[j], order[i]


def shuffle(order: np.ndarray, rng: np.random.Generator) -> None:
    """Permute ``order`` uniformly in place (Fisher and Yates), seeded by one draw from ``rng``."""
    _shuffle(order, rng.integers(2**64, dtype=np.uint64))


def spread(n: int, count: int) -> np.ndarray:
    """``count`` indices spread over 0 … n − 1, in golden-section steps, so that no period of the rows matters."""
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


LONGEST_REST = 31  # passes; longer rests would find changed optimality conditions too late


@inlined
def note_visit(rest, wait, i, moved):
    """Set how long example i rests: longer after each idle visit, not at all after a visit that moved it."""
    rest[i] = 0 if moved else min(2 * rest[i] + 1, LONGEST_REST)
    wait[i] = rest[i]


@inlined
def order_of_pass(order, wait, shrinking, seed, number):
    """order[:k] ← the examples that do not rest, or all without ``shrinking``, in random order; returns k.

    The order depends on the seed and the number of the pass. Resting examples wait one pass less.
    """
    awake = 0
    while awake == 0 and order.size:  # if all rest, count passes until one wakes
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
    """order[:k] ← the examples that do not rest, in a new random order; returns k. If ``wait`` is empty, none rests."""
    if wait.size == 0:
        shuffle(order, rng)
        return order.size
    return int(next_order(order, wait, True, rng.integers(2**64, dtype=np.uint64), 0))
