"""Functions whose LLVM is written by hand and their plain versions in everyday Numba: the same bits, or nearly."""

import numpy as np
import pytest

import fresh

SCRIPT = """
import sys
import warnings
import numpy as np
import scipy.sparse as sp
warnings.simplefilter("ignore")
from widemargin.core.borrowing import KNOWN, borrow
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.intrinsics.emitting import EMITS
from widemargin.core.intrinsics.exp import exp, exp_many, exp_near_0
from widemargin.core.intrinsics.extremes import larger, smaller
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.kernels.measures import Absolute, Inner, Overlap, Squared
from widemargin.core.kernels.tiles import packed_sums
from widemargin.core.rows.rows import as_rows, row_dot

@compiled
def exponentials(x, alone, near):
    x, alone, near = borrow(x), borrow(alone), borrow(near)
    for i in range(x.size):
        alone[i], near[i] = exp(x[i]), exp_near_0(x[i] / 90)
    exp_many(x, x.size)

@compiled
def extremes(x, out):
    for i in range(x.size):
        out[0, i], out[1, i] = larger(x[i], 0.5), smaller(x[i], 0.5)

@compiled
def products(X, V, out):
    X, V, out = borrow(X), borrow(V), borrow(out)
    for i in range(out.size):
        out[i] = row_dot(X, i, V, 1.0)

rng, found = np.random.default_rng(0), {}
for dtype in (np.float32, np.float64):
    x = rng.uniform(-90, 90, 64).astype(dtype)
    alone, near, two = np.empty_like(x), np.empty_like(x), np.empty((2, 64), dtype)
    extremes(x, two)
    exponentials(x, alone, near)
    found[f"exponentials {x.dtype}"], found[f"extremes {x.dtype}"] = np.array([x, alone, near]), two
D = rng.normal(size=(70, 300)) * (rng.random((70, 300)) < 0.5)
for measure in (Inner(), Squared(), Absolute(), Overlap()):
    found[f"sums {type(measure).__name__}"] = sums = np.empty(70, np.float32)
    packed_sums(measure, as_rows(D.astype(np.float32)), sums)
for name, X in ("dense", D.astype(np.float32)), ("sparse", sp.csr_matrix(D)):
    found[f"nearly, {name} rows of a kernel"] = KernelMatrix(RBF(0.01), as_rows(X)).block(np.arange(70))
found["nearly, products"] = out = np.empty(70)
products(as_rows(sp.csr_matrix(D)), rng.normal(size=(300, 1)), out)
assert KNOWN == EMITS == (sys.argv[1] == "0")
np.savez(sys.argv[2], **found)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    both = {}
    for plain in "01":
        file = folder / f"{plain}.npz"
        done = fresh.run(SCRIPT, plain, file, WIDEMARGIN_PLAIN=plain, WIDEMARGIN_CHECKED="")
        assert done.returncode == 0, done.stderr
        both[plain] = dict(np.load(file))
    return both


def test_plain_versions_have_the_same_bits(found):
    assert found["0"].keys() == found["1"].keys()
    for name, emitted in found["0"].items():
        if not name.startswith("nearly"):
            np.testing.assert_array_equal(found["1"][name], emitted, err_msg=name)


def test_loops_that_may_reorder_sums_differ_by_rounding(found):
    """Without borrowed arrays and hints, LLVM orders them in another way."""
    for name, emitted in found["0"].items():
        if name.startswith("nearly"):
            limit = 1e-5 if "dense" in name else 1e-12
            np.testing.assert_allclose(found["1"][name], emitted, rtol=limit, atol=limit)
