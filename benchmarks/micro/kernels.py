"""Kernel values per second, by the number of rows asked for at once, beside scikit-learn and beside bare products by
BLAS, and the price of one exp.

Two data sets of 20 000 rows: dense with 784 features, and sparse with 123 features of
which 14 are 1, as in the Adult data. The peer is ``sklearn.metrics.pairwise.rbf_kernel`` on the same
rows and dtype; the values are compared before the clock starts. Each figure is the
median of the repetitions, ± half the distance between the quartiles. widemargin runs on one thread; set
OPENBLAS_NUM_THREADS=1 to hold the peer to one as well.
"""

import time

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from widemargin.core.compiling.dispatch import compiled
from widemargin.core.intrinsics.exp import exp
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.rows.rows import CSRRows, DenseRows

N = 20_000
HEIGHTS = (1, 16, 64, 256)


def timings(function, least=5, budget=1.0):
    """Seconds of each call, after one that does not count: at least ``least`` calls, for about ``budget`` seconds."""
    function()
    seconds = []
    while len(seconds) < least or sum(seconds) < budget:
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return np.array(seconds)


def rate(count, function):
    """Median and half the interquartile range of count / seconds, in millions."""
    low, median, high = np.percentile(count / timings(function) / 1e6, (25, 50, 75))
    return median, (high - low) / 2


def data_sets(rng):
    """Yield name, matrix, layout and gamma."""
    for dtype in (np.float32, np.float64):
        X = rng.standard_normal((N, 784)).astype(dtype)
        yield f"dense 784 {np.dtype(dtype).name}", X, DenseRows(X), 1 / 784
    for dtype in (np.float32, np.float64):
        indices = np.sort(np.argsort(rng.random((N, 123)), axis=1)[:, :14], axis=1).astype(np.int32).ravel()
        X = sp.csr_matrix((np.ones(14 * N, dtype), indices, np.arange(0, 14 * N + 1, 14, dtype=np.int32)), (N, 123))
        yield f"sparse 123 {np.dtype(dtype).name}", X, CSRRows(X.data, X.indices, X.indptr, 123), 0.05


def blocks(rng):
    print(f"RBF kernel values, millions a second, {N} columns")
    print(f"{'data':<20}{'rows':>6}{'widemargin':>18}{'scikit-learn':>18}{'ratio':>8}")
    for name, X, rows, gamma in data_sets(rng):
        K = KernelMatrix(RBF(gamma), rows)
        for height in HEIGHTS:
            I = rng.choice(N, height, replace=False)
            out = np.empty((height, N), K.dtype)
            np.testing.assert_allclose(K.block(I), rbf_kernel(X[I], X, gamma), rtol=0, atol=2e-6)
            ours, spread = rate(out.size, lambda I=I, K=K, out=out: K.block(I, out))
            peer, peer_spread = rate(out.size, lambda I=I, X=X, gamma=gamma: rbf_kernel(X[I], X, gamma))
            print(
                f"{name:<20}{height:>6}{f'{ours:.1f} ± {spread:.1f}':>18}"
                f"{f'{peer:.1f} ± {peer_spread:.1f}':>18}{ours / peer:>8.1f}"
            )


def beside_blas(rng, turns=12):
    """Rows of a dense RBF kernel, exponentials and all, in turns with V Xᵀ alone by NumPy's BLAS; medians."""
    print(f"\nmultiply-adds, billions a second, {N} columns, float32: kernel rows, and 256 rows of a product by BLAS")
    print(f"{'features':<10}" + "".join(f"{f'{height} rows':>10}" for height in HEIGHTS) + f"{'BLAS':>10}{'ratio':>8}")
    for d in (64, 256, 784):
        X = rng.standard_normal((N, d)).astype(np.float32)
        K, V = KernelMatrix(RBF(1 / d), DenseRows(X)), X[rng.choice(N, HEIGHTS[-1], replace=False)]
        out = np.empty((HEIGHTS[-1], N), np.float32)
        seconds = {height: [] for height in (*HEIGHTS, 0)}
        for _ in range(turns + 1):
            for height in HEIGHTS:
                I = rng.choice(N, height, replace=False)
                seconds[height].append(once(lambda I=I, K=K, out=out: K.block(I, out[: len(I)])) / height)
            seconds[0].append(once(lambda V=V, X=X, out=out: np.dot(V, X.T, out=out)) / len(V))
        *ours, blas = (N * d / np.median(each[1:]) / 1e9 for each in seconds.values())
        print(f"{d:<10}" + "".join(f"{rate:>10.1f}" for rate in (*ours, blas)) + f"{ours[-1] / blas:>8.2f}")


def once(function):
    """Processor seconds of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


@compiled
def ours_of(x, out):
    for i in range(x.size):
        out[i] = exp(x[i])


@compiled
def library_of(x, out):
    for i in range(x.size):
        out[i] = np.exp(x[i])


def exponentials(rng):
    print("\nexp, nanoseconds an element, and largest relative error on [-80, 0]")
    print(f"{'dtype':<10}{'widemargin':>12}{'np.exp in Numba':>18}{'np.exp':>10}{'error':>12}")
    for dtype in (np.float32, np.float64):
        x = (-80 * rng.random(10**6)).astype(dtype)
        out = np.empty_like(x)
        nanoseconds = [
            np.median(timings(f)) / x.size * 1e9
            for f in (lambda: library_of(x, out), lambda: np.exp(x, out=out), lambda: ours_of(x, out))
        ]
        truth = np.exp(x.astype(np.longdouble))
        error = float(np.max(np.abs(out - truth) / truth))
        library, numpy, ours = nanoseconds
        print(f"{np.dtype(dtype).name:<10}{ours:>12.2f}{library:>18.2f}{numpy:>10.2f}{error:>12.1e}")


if __name__ == "__main__":
    blocks(np.random.default_rng(0))
    beside_blas(np.random.default_rng(2))
    exponentials(np.random.default_rng(1))
