"""Loops are compiled with less than Numba does for each function, and functions of others are compiled as ever."""

import operator

import numpy as np
import pytest
from numba import njit, types
from numba.core.compiler import Flags
from numba.core.registry import cpu_target

from widemargin.core import compiling
from widemargin.core.dispatch import apart, compiled

NUMBERS = (types.int64, types.int32, types.float32, types.float64, types.boolean)


@apart
def heights(values):
    made = np.empty(max(values.size, 1))
    for i in range(values.size):
        made[i] = max(values[i], 0.5)
    return made


@compiled
def tallest(values):
    made, found = heights(values), 0.0
    again = np.empty(max(values.size, 1))
    for i in range(values.size):
        again[i] = made[i]
        found = max(found, again[i])
    return found, again


def theirs(values):
    made = np.empty(max(values.size, 1))
    for i in range(values.size):
        made[i] = max(values[i], 0.5)
    return made


def test_functions_of_numba_are_parts_of_our_loops_and_whole_for_others(rng):
    """The same calls of np.empty and max, in our loops first, then in a function of somebody else, and the reverse."""
    for kind in (np.float32, np.float64):
        values = rng.normal(size=7).astype(kind)
        found, made = tallest(values)
        np.testing.assert_array_equal(njit(theirs)(values), np.maximum(values, kind(0.5)))
        np.testing.assert_array_equal(made, np.maximum(values, kind(0.5)))
        assert found == made.max()
    whole = njit(lambda n: max(n, 3))
    assert whole(1) == whole(np.int32(1)) == 3
    assert compiled(lambda n: max(n, 3))(1) == 3


@pytest.mark.parametrize("operation", [operator.add, operator.iadd, operator.truediv, operator.lt, operator.getitem])
def test_what_is_remembered_of_an_operator_is_what_numba_says(operation):
    context = cpu_target.typing_context
    context.refresh()
    ours = compiling._typing(context)
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    if operation is operator.getitem:
        pairs = [(types.Array(a, n, "C"), types.int64) for a in NUMBERS for n in (1, 2)]
    for args in pairs:
        expected = context.resolve_function_type(operation, args, {})
        for _ in range(2):
            assert ours.resolve_function_type(operation, args, {}) == expected


def test_options_that_calls_have_no_part_in_are_not_compared():
    loop, part, other = (compiling._Options() for _ in range(3))
    part.no_cpython_wrapper, other.error_model = True, "numpy"
    assert loop == part
    assert hash(loop) == hash(part)
    assert loop != other
    assert loop != Flags()  # others never take what is ours
