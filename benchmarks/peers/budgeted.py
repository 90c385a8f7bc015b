"""Kernel machines on a budget: against the cost of kernel values alone, and beside scikit-learn's SVC.

``python -m benchmarks.peers.budgeted [--quick] [checkerboard] [slopes] [a9a] [memory] [predict]``. One thread;
compilation and the choice of λ on a9a are off the clock. ``--quick`` takes a tenth of the examples.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys

import numpy as np
from sklearn.svm import SVC as RivalSVC

from benchmarks import datasets
from benchmarks.timing import clock, verdict
from widemargin import BudgetedSVC
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.rows.rows import DenseRows
from widemargin.data.generators import checkerboard

GAMMA, LAM = 20.0, 1e-4  # of the checkerboard with attributes of unit variance
A9A_GAMMA, A9A_LAMBDAS, A9A_FOLDS = 0.05, (1e-4, 1.7e-4, 3e-4, 5e-4, 1e-3), 5


def on_board(**parameters):
    return BudgetedSVC(**{"budget": 500, "gamma": GAMMA, "lam": LAM, "random_state": 0, **parameters})


def warm(X, y, **parameters):
    on_board(**parameters).partial_fit(X[:2000], y[:2000], classes=[0, 1]).predict(X[:10])


def board(n):
    rng = np.random.default_rng(0)
    X, y = checkerboard(n, rng)
    Z, t = checkerboard(200_000, rng)
    warm(X, y)
    model = on_board()
    seconds = clock(lambda: model.partial_fit(X, y, classes=[0, 1]))
    vectors = DenseRows(model.support_vectors_.astype(np.float32))
    values, out = KernelMatrix(RBF(GAMMA), DenseRows(X), vectors), np.empty((4096, 500), np.float32)
    values.block(np.arange(4096), out)
    share = min(n, 1_000_000) // 4096 * 4096
    block = clock(lambda: [values.block(np.arange(a, a + 4096), out) for a in range(0, share, 4096)]) * n / share
    row = model.history_.rows[-1]
    print(f"checkerboard, {n:,} examples, budget 500, merge, γ = {GAMMA:g}, λ = {LAM:g}")
    print(
        f"    training {seconds:.1f} s; N·B kernel values in blocks {block:.1f} s; ratio {verdict(seconds / block, 3)}"
    )
    error = 1 - model.score(Z, t)
    print(f"    error {verdict(error, 0.003)}; {row['maintenances']:,.0f} merges; mean ‖Δ‖/η {row['degradation']:.4f}")
    print(
        f"    model {model.model_bytes_:,} bytes; kernel values {row['kernel_evals'] / (500 * n):.3f} N·B", flush=True
    )


def slope(sizes, seconds):
    return np.polyfit(np.log(sizes), np.log(seconds), 1)[0]


def typical(work):
    """Median seconds of three runs."""
    return np.median([clock(work) for _ in range(3)])


def slopes(n):
    X, y = checkerboard(n, np.random.default_rng(0))
    warm(X, y)
    sizes = [n // 8, n // 4, n // 2, n]
    seconds = [typical(lambda: on_board().partial_fit(X[:k], y[:k], classes=[0, 1])) for k in sizes]
    print(
        "time over N  ", *(f"{k:,}: {s:.2f} s;" for k, s in zip(sizes, seconds)), f"slope {slope(sizes, seconds):.3f}"
    )
    budgets = [250, 500, 1000, 2000, 4000]
    seconds = []
    for b in budgets:
        warm(X, y, budget=b)
        seconds.append(typical(lambda: on_board(budget=b).partial_fit(X[: n // 2], y[: n // 2], classes=[0, 1])))
    print(
        "time over B  ",
        *(f"{b:,}: {s:.2f} s;" for b, s in zip(budgets, seconds)),
        f"slope {slope(budgets, seconds):.3f}, from 500 on {slope(budgets[1:], seconds[1:]):.3f}",
        flush=True,
    )


def on_a9a(lam, seed=0):
    return BudgetedSVC(budget=500, gamma=A9A_GAMMA, lam=lam, random_state=seed)


def cross_validated(X, y):
    """λ by cross-validation on training rows, in a random order of their own: {λ: error}."""
    parts = np.array_split(np.random.default_rng(0).permutation(y.size), A9A_FOLDS)
    errors = dict.fromkeys(A9A_LAMBDAS, 0.0)
    for part in parts:
        rest = np.setdiff1d(np.arange(y.size), part)
        for lam in A9A_LAMBDAS:
            errors[lam] += np.sum(on_a9a(lam).fit(X[rest], y[rest]).predict(X[part]) != y[part]) / y.size
    return errors


def a9a(rival):
    X, y, Z, t = datasets.a9a()
    validated = cross_validated(X, y)  # also compiles
    lam = min(validated, key=validated.get)
    errors, seconds = [], []
    for seed in range(5):
        model = on_a9a(lam, seed)
        seconds.append(clock(lambda: model.fit(X, y)))
        errors.append(1 - model.score(Z, t))
    print(f"a9a, one pass, budget 500, merge, γ = {A9A_GAMMA:g}")
    print(f"    λ = {lam:g}; errors in {A9A_FOLDS}-fold cross-validation",
          *(f"{e:.2%} ({v:g})" for v, e in validated.items()))  # fmt: skip
    print(f"    errors {' '.join(f'{e:.2%}' for e in errors)}; median {verdict(np.median(errors), 0.156)}")
    print(f"    training {np.median(seconds):.2f} s (five: {' '.join(f'{s:.2f}' for s in seconds)})")
    if rival:
        X64 = X.astype(np.float64)
        theirs = RivalSVC(gamma=0.05, C=1.0)
        full = clock(lambda: theirs.fit(X64, y))
        print(f"    SVC of scikit-learn {full:.1f} s, error {1 - theirs.score(Z.astype(np.float64), t):.2%}; ratio "
              f"{verdict(np.median(seconds) / full, 1 / 20)}", flush=True)  # fmt: skip


CHILD = """
import re
from pathlib import Path
import numpy as np
from benchmarks.peers.budgeted import on_board
from widemargin.data.generators import checkerboard
rng, model = np.random.default_rng(0), on_board(budget=100)
for first in range(0, {n}, 20000):
    model.partial_fit(*checkerboard(20000, rng), classes=[0, 1])
# not ru_maxrss, which a process inherits from the one that started it
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def memory(n):
    for count in (n // 100, n // 10, n):
        script = CHILD.format(n=count)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        print(f"most memory of a stream of {count:>10,} examples: {int(done.stdout) / 1024:.1f} MiB", flush=True)


def predict(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 50)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = BudgetedSVC(budget=500, gamma=0.02, lam=1e-3).partial_fit(X[:5000], y[:5000], classes=[0, 1])
    model.predict(X[:10])
    vectors, out = (
        np.ascontiguousarray(model.support_vectors_.T.astype(np.float32)),
        np.empty((n // 10, 500), np.float32),
    )
    np.matmul(X[: n // 10], vectors, out=out)
    ours, product = [], []
    for _ in range(3):
        ours.append(clock(lambda: model.predict(X)))
        product.append(clock(lambda: [np.matmul(X[a : a + n // 10], vectors, out=out) for a in range(0, n, n // 10)]))
    print(f"predict, {n:,} × 50, {vectors.shape[1]} vectors: {min(ours):.2f} s; the matrix product alone, float32 "
          f"{min(product):.2f} s; ratio {verdict(min(ours) / min(product), 2)}", flush=True)  # fmt: skip


def main(arguments):
    quick = "--quick" in arguments
    names = [name for name in arguments if name != "--quick"] or ["checkerboard", "slopes", "a9a", "memory", "predict"]
    n = 1_000_000 if quick else 10_000_000
    parts = {
        "checkerboard": lambda: board(n), "slopes": lambda: slopes(n // 10 if not quick else n // 2),
        "a9a": lambda: a9a(not quick), "memory": lambda: memory(n), "predict": lambda: predict(n // 10),
    }  # fmt: skip
    for name in names:
        parts[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
