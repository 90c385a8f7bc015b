"""Training on data that memory does not hold: the peak of a stream of 20 GB, and what chunks cost in accuracy.

``python -m benchmarks.micro.out_of_core [memory] [accuracy]``. "memory": rows are made as they are asked for, 20 GB in
one epoch; the peak is that of the process (resident), above what it had when all was imported and compiled. "accuracy":
a9a and covtype, in memory and in chunks of a small source, the same number of epochs.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import sys
import time

import numpy as np
from sklearn.base import clone

from benchmarks import datasets
from widemargin import BudgetedSVC, LinearSVC
from widemargin.data import Generated, InMemory, train

TOTAL, D, ROWS = 20 * 2**30, 1000, 4096


def part(k):
    """Rows of two clouds; a block of noise is shifted, so that making them costs little."""
    y = np.random.default_rng(k).integers(2, size=ROWS)
    X = np.roll(BASE, k * 7919 % BASE.size) if k else BASE.copy()
    X[:, 0] += np.where(y > 0, 0.5, -0.5).astype(np.float32)
    return X, y


BASE = np.random.default_rng(0).standard_normal((ROWS, D), dtype=np.float32)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def memory():
    parts = TOTAL // (ROWS * D * 4)
    print(f"{parts * ROWS:,} rows of {D} features, {parts * ROWS * D * 4 / 2**30:.1f} GB, max_memory 256 MB")
    for model in (LinearSVC(C=1.0, random_state=0), BudgetedSVC(50, gamma=1.0 / D, random_state=0)):
        few = Generated(part, 1)
        train(clone(model), few, classes=[0, 1])
        before, since = peak(), time.perf_counter()
        train(model, Generated(part, parts), classes=[0, 1], random_state=0)
        took = time.perf_counter() - since
        X, y = part(parts + 1)
        print(
            f"{type(model).__name__}: {took:.0f} s, peak {peak() - before:.0f} MB above {before:.0f} MB; "
            f"error on new rows {100 * np.mean(model.predict(X) != y):.2f} % (the best rule: 30.85 %)"
        )


def accuracy():
    print("| data | model | epochs | in memory, fit | in memory, partial_fit | chunks |")
    for name, load in (("a9a", datasets.a9a), ("cov1", datasets.cov1)):
        X, y, Z, t = load()
        if name == "cov1":
            X, Z = X.toarray(), Z.toarray()
        size = (X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes) / 2**20
        gamma = 0.05 if name == "a9a" else 2.0
        for make, epochs in (
            (lambda: LinearSVC(C=1.0, tol=0.0, max_iter=5, random_state=0, solver="pegasos"), 5),
            (lambda: BudgetedSVC(200, gamma=gamma, lam=1e-4, random_state=0), 1),
        ):
            errors = []
            fitted = make().fit(X, y)
            errors.append(np.mean(fitted.predict(Z) != t))
            runs = []
            for memory_ in ("1 GB", f"{size / 2:.2f} MB"):
                source = InMemory(X, y, max_memory=memory_)
                runs.append(train(make(), source, epochs=epochs, random_state=0))
                errors.append(np.mean(runs[-1].predict(Z) != t))
            told = " | ".join(f"{100 * e:.2f} %" for e in errors)
            print(
                f"| {name} ({size:.0f} MB; chunks of {size / 8:.2f} MB) | {type(make()).__name__} | {epochs} | {told} |"
            )


if __name__ == "__main__":
    for asked in sys.argv[1:] or ["memory", "accuracy"]:
        {"memory": memory, "accuracy": accuracy}[asked]()
