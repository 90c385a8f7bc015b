"""Loops are compiled with less than Numba does for each function, and functions of others are compiled as ever."""

import operator
import sys
import threading
from contextlib import nullcontext

import numpy as np
import pytest
from numba import njit, types
from numba.core.compiler import Flags
from numba.core.registry import cpu_target

from widemargin.core import compiling, sharing
from widemargin.core.borrowing import borrow
from widemargin.core.dispatch import apart, compiled, inlined

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


@inlined
def numbered(start, stop, step, out):
    count = 0
    for k in range(start, stop, step):
        out[count], count = k, count + 1
    return count


@compiled
def ranges(start, stop, step, out):
    count, whole, upper = numbered(start, stop, step, borrow(out)), 0, 0
    for k in range(stop):
        whole += k
    for k in range(start, stop):
        upper += k
    return count, whole, upper


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 5, 1), (2, 9, 3), (9, 2, -2), (4, 4, 1), (5, -3, 1), (-3, 2, 2)]
)
def test_ranges_are_those_of_python(start, stop, step):
    out, expected = np.empty(20, np.int64), list(range(start, stop, step))
    count, whole, upper = ranges(start, stop, step, out)
    assert out[:count].tolist() == expected
    assert (whole, upper) == (sum(range(stop)), sum(range(start, stop)))


def test_what_a_part_raises_the_loop_raises():
    with pytest.raises(ValueError, match="must not be zero"):
        ranges(0, 5, 0, np.empty(20, np.int64))


@compiled
def first_of(array, number, pair):
    return array[0] + number + pair[0][0] + pair[1]


@pytest.mark.parametrize(("number", "expected"), [(1.0, nullcontext()), ("one", pytest.raises(TypeError))])
def test_arrays_are_let_go_of_when_a_loop_has_ended_or_never_began(number, expected):
    """Of arguments that the loop was not compiled for, those before the wrong one were taken, those behind it not."""
    before, behind, alone = np.ones(2), np.ones(2), np.ones(2)
    pair = behind, 1.0
    first_of(before, 1.0, pair)  # compiles
    call = first_of.overloads[first_of.signatures[0]].entry_point
    for _ in range(20):
        call(before, 1.0, pair)  # what it leaves in memory is not taken for arrays
        with expected:
            call(before, number, pair)
    del pair
    assert sys.getrefcount(before) == sys.getrefcount(behind) == sys.getrefcount(alone)


def test_other_threads_run_beside_a_loop():
    found = []

    def look(number, begun):
        begun.set()
        found.append(sharing._changes(number, 0, 10**8))

    for _ in range(3):
        number, begun = np.zeros(1, np.int64), threading.Event()
        looks = threading.Thread(target=look, args=(number, begun))
        looks.start()
        begun.wait()
        number[0] = 1
        looks.join()
    assert found == [True] * 3
