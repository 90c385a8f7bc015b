"""Borrowed arrays are cut as NumPy's are, but do not wrap; checked loops say which index is out of range."""

import json
from functools import cache

import numba
import numpy as np
import pytest

from fresh import run
from widemargin.core.borrowing import CHECKED, KNOWN, borrow, flat
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.intrinsics.tiles import group_of


@compiled
def cut(cube, i, first, last):
    cube = borrow(cube)
    row, piece = cube[i], cube[i, first:last]
    line = flat(cube)[first:]
    return row[-1][0], row.size, piece.shape[0], piece.shape[1], piece[0, 1], line[0], line.size, cube[i, first][1]


@compiled
def cut_columns(matrix, i, first, last):
    matrix = borrow(matrix)
    row, rest = matrix[i], matrix[i, first:last]
    return row[first], row.size, rest.size, rest[0] if rest.size else row[0], matrix[-1][-2]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.bool_])
def test_borrowed_arrays_are_cut_as_arrays_of_numpy_are(rng, kind):
    cube = rng.integers(0, 2 if kind is np.bool_ else 100, size=(3, 4, 5)).astype(kind)
    for first, last in ((0, 4), (1, 2), (2, 9)):
        piece, line = cube[1, first:last], cube.ravel()[first:]
        whole = cube[1, -1, 0], 20, piece.shape[0], 5, piece[0, 1], line[0], line.size, cube[1, first, 1]
        assert cut(cube, 1, first, last) == whole
        for matrix in (cube[0], cube[0].T, cube[:, ::2, 1]):  # in order of rows, of columns, and in none
            rest = matrix[1, first:last]
            if rest.size:
                expected = matrix[1, first], matrix.shape[1], rest.size, rest[0], matrix[-1][-2]
                assert cut_columns(matrix, 1, first, last) == expected
    assert cut_columns(cube[0], 1, 3, 2)[2] == 0


WRAPS = ", and borrowed arrays do not wrap"


def beyond(function, index, size, axis=""):
    return f"{function}, line: index {index} is out of range for {size} entries{axis}"


#: Parts that stand for LLVM where indices are tested, and the rows of a third of a group in float64.
ADDED = "widemargin.core.intrinsics.tiles._adder.<locals>.plain"
SUMMED = "widemargin.core.intrinsics.tiles._plain_sum_sparse"
few = group_of(8) // 3

#: Calls of loops in a process of their own: what they return, or where the error is and what it says.
CALLS = {
    "last_entry, a": 54.0,
    "last_entry, a[:0]": beyond("last_entry", -1, 0),
    "entry, a, 4": 54.0,
    "entry, a, 5": beyond("entry_of", 5, 5),
    "entry, a, -1": beyond("entry_of", -1, 5),
    "size_of_cut, a, 1, 9": 4,
    "size_of_cut, a, 1, -1": "size_between, line: a slice of 5 entries has the end -1" + WRAPS,
    "size_of_all_but_one, a": "size_of_all_but_one, line: a slice of 5 entries has the end -1" + WRAPS,
    "write, A, 2, 3": None,
    "write, A, 2, 4": beyond("write", 4, 4, " of axis 1"),
    "write, A, -1, 0": beyond("write", -1, 3),
    "write_cut, A, 2, 9": None,
    "write_cut, A, 3, 0": beyond("write_cut", 3, 3),
    "write_cut, A, 0, -1": "write_cut, line: a slice of 4 entries has the end -1" + WRAPS,
    "entry_made, 5, -1": 0.0,
    "entry_made, 5, 5": beyond("entry_made", 5, 5),
    "entry_made, 5, -6": beyond("entry_made", -6, 5),
    "size_of_square, a, 2": 4,
    "size_of_square, a, 3": beyond("size_of_square", 8, 5),
    "exponentials, whole, 96": None,
    "exponentials, a, 16": beyond("widemargin.core.intrinsics.exp._one_after_the_other", 5, 5),
    "claimed, counts, 2": 0,
    "claimed, counts, 3": beyond("widemargin.core.intrinsics.atomics.claim", 3, 3),
    "sums_of_rows, Inner(), tiles, thirds, 0, listed, S": None,
    "sums_of_rows, Inner(), tiles[:, :4].copy(), thirds, 0, listed, S": beyond(ADDED, 4, 4, " of axis 1"),
    "sums_of_rows, Inner(), tiles, thirds[:, :4].copy(), 0, listed, S": beyond(ADDED, 4, 4, " of axis 1"),
    "sums_of_rows, Inner(), tiles, thirds, 99, listed, S": beyond(ADDED, 99 // few, 3),
    "sums_of_sparse, Inner(), tile, slot, whole, indices, 1, narrow": None,
    "sums_of_sparse, Inner(), tile, slot, whole, indices, 2, narrow": beyond(SUMMED, 9, 7),
    "sums_of_sparse, Inner(), tile[:2], slot, whole, indices, 1, narrow": beyond(SUMMED, 2, 2),
    "sums_of_sparse, Inner(), tile, slot, whole, indices[:1].copy(), 2, narrow": beyond(SUMMED, 1, 1),
}

SCRIPT = """
import json, pickle, re, sys
import numpy as np
from widemargin.core.borrowing import OutOfRange, borrow, square
from widemargin.core.compiling.dispatch import apart, compiled, inlined
from widemargin.core.intrinsics.exp import exp_many
from widemargin.core.kernels.measures import Inner
from widemargin.core.intrinsics.atomics import claim
import widemargin.core.kernels.tiles
from widemargin.core.intrinsics.tiles import BESIDE, add_few, group_of, sum_sparse

@inlined
def entry_of(a, k):
    return a[k]

@apart
def size_between(a, first, last):
    return a[first:last].size

@compiled
def entry(a, k):
    return entry_of(borrow(a), k)

@compiled
def last_entry(a):
    return borrow(a)[-1]

@compiled
def size_of_cut(a, first, last):
    return size_between(borrow(a), first, last)

@compiled
def size_of_all_but_one(a):
    a = borrow(a)
    return a[:-1].size

@compiled
def write(A, i, k):
    A = borrow(A)
    A[i, k] = 1

@compiled
def write_cut(A, i, last):
    A = borrow(A)
    A[i, :last] = 1

@compiled
def entry_made(size, k):
    return np.zeros(size)[k]

@compiled
def size_of_square(a, size):
    return square(borrow(a), size).size

@compiled
def exponentials(a, count):
    exp_many(borrow(a), count)

@compiled
def claimed(counts, k):
    return claim(borrow(counts), k)

@compiled
def sums_of_rows(measure, tiles, V, j, listed, out):
    add_few(measure, tiles, 0, V, j, listed, 0, out, 0)

@compiled
def sums_of_sparse(measure, tile, slot, data, indices, end, out):
    sum_sparse(measure, tile, slot, data, indices, 0, end, out, 0)

whole, A, tile, S = np.arange(100.0), np.zeros((3, 4)), np.zeros((5, 16)), np.zeros((99, 32))
tiles, thirds = np.zeros((BESIDE, 5, 16)), np.zeros((3, 5, group_of(8) // 3))
narrow, listed = np.zeros((9, 16)), np.array([[0, 5, *range(0, 80, 16)]])
a, slot, indices, counts = whole[50:55], np.arange(7, dtype=np.int32), np.array([2, 9], np.int32), np.zeros(3, np.int64)
found = {}
for call in sys.argv[1:]:
    loop, *args = eval(call)
    try:
        found[call] = loop(*args)
    except OutOfRange as error:
        found[call] = re.sub("line [0-9]+", "line", str(pickle.loads(pickle.dumps(error))).removeprefix("__main__."))
print(json.dumps(found))
"""


@cache
def outcomes():
    done = run(SCRIPT, *CALLS, WIDEMARGIN_CHECKED="1")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not KNOWN, reason="with everyday Numba alone its own tests of indices are all there are")
@pytest.mark.parametrize("call", CALLS)
def test_loops_with_tests_say_which_index_is_out_of_range(call):
    assert outcomes()[call] == CALLS[call]


def test_loops_have_tests_only_where_they_are_asked_for():
    anew = numba.njit(cut_columns.py_func)  # of machine code from a disk there is no text
    anew(np.zeros((2, 2)), 0, 0, 1)
    (text,) = anew.inspect_llvm().values()
    assert ("OutOfRange" in text) is CHECKED


WITHOUT = """
import warnings
import numpy as np
import numba
from numba.core import caching
kept = caching.NullCache
del caching.NullCache
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from widemargin import LinearSVC
    from widemargin.core.borrowing import KNOWN
caching.NullCache = kept  # Numba needs it itself
X = np.random.default_rng(0).normal(size=(50, 3))
model = LinearSVC(random_state=0).fit(X, X[:, 0] > 0)
(line,) = [str(each.message) for each in said if issubclass(each.category, RuntimeWarning)]
print(KNOWN, model.stop_reason_, model.score(X, X[:, 0] > 0) > 0.9)
print(line)
"""


def test_a_numba_that_lacks_what_is_borrowed_with_trains_after_one_warning():
    done = run(WITHOUT, WIDEMARGIN_PLAIN="")
    assert done.returncode == 0, done.stderr
    found, line = done.stdout.splitlines()
    assert found == "False tol True"
    assert line.startswith(f"widemargin does not know Numba {numba.__version__} (")
    assert "loops are slower by up to 3 times" in line
