"""Loops and their parts; functions of others are compiled as ever; the inside of Numba is known in one room."""

import re
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import widemargin
from widemargin.core import sharing
from widemargin.core.borrowing import borrow
from widemargin.core.compiling.dispatch import apart, compiled, inlined

SOURCES = Path(widemargin.__file__).parent

#: What may be imported of Numba and llvmlite beside the manual's names, and where.
INSIDE = {"core/borrowing/undocumented.py", "core/intrinsics/emitting.py", "core/compiling/notice.py"}
UNDOCUMENTED = re.compile(
    r"^\s*(from|import) (numba\.(core|np|misc|cpython)|numba\._|llvmlite)|^\s*from numba\S* import .*\b_\w"
    r"|\bnumba\.(core|np|misc|_\w+)\.",
    re.MULTILINE,
)


def test_what_the_manual_of_numba_does_not_name_is_imported_in_one_room():
    found = {str(file.relative_to(SOURCES)) for file in SOURCES.rglob("*.py") if UNDOCUMENTED.search(file.read_text())}
    assert found == INSIDE


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
