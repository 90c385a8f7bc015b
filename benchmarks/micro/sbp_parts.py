"""The Stochastic Batch Perceptron over parts, simulated in one process, beside one machine at equal draws.

``python -m benchmarks.micro.sbp_parts [a9a] [usps] [--parts 1,4,16,64] [--seeds 5] [--steps 256]``: test errors in per
cent at a given ν after as many steps of 16 draws for each binary problem, what a step sends and receives, and trips a
step, looks at the predictor not counted. The rows are dealt out in their order.

``--driver``: instead, processor time of the driver for a step, on a cluster of two processes with 1,600 rows in two
parts, the scheduler in the same process; and that of a part of 100,000 rows × 100 features.
"""

import argparse
import sys
import time
import warnings

import dask.array as da
import distributed
import numpy as np

from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.losses.shared_level import grid
from widemargin.core.rows.rows import as_rows
from widemargin.dask import SVC
from widemargin.dask.actors import size_of
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.parts import Here, LocalParts, kernel_in_parts
from widemargin.solvers import make
from widemargin.solvers.sbp.parts import Part

from .. import datasets


def a9a():
    """The ν of C = 1 (docs/notes/sbp.md)."""
    X, y, Z, t = datasets.a9a()
    return X, y, Z, t, RBF(0.05), 0.011


def usps():
    """Ten classes, each against the rest."""
    X, y = datasets.load("usps", 256)
    Z, t = datasets.load("usps.t", 256)
    return X.toarray(), y, Z.toarray(), t, RBF(1.0 / 128.0), 1e-3


SETS = {"a9a": a9a, "usps": usps}


class Counted(LocalParts):
    """Parts that count what is told them."""

    def __init__(self, parts):
        super().__init__(parts)
        self.trips = self.sent = self.received = 0

    def each(self, method, *message):
        replies = list(super().each(method, *message))
        self.trips += 1
        self.sent += size_of(message)
        self.received += sum(map(size_of, replies))
        return replies


class Counting(Here):
    def parts(self, make):
        self.made = Counted(super().parts(make).parts)
        return self.made


def errors(scores, t, classes):
    found = classes[(scores[:, 0] > 0).astype(int)] if scores.shape[1] == 1 else classes[scores.argmax(axis=1)]
    return 100.0 * float(np.mean(found != t))


def trained(solver, problem, seed, steps):
    state = solver.init(problem, np.random.default_rng(seed))
    while state.t < steps:
        solver.advance(problem, state, steps - state.t)
    return state


def driver():
    """Print what a step takes of the driver, what it sends, and what it takes of a part."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)

    def taken(X, y, epochs):
        since = time.process_time()
        model = SVC(gamma=0.01, solver=make("kernel", "sbp", nu=0.05), tol=0, max_iter=epochs).fit(X, y)
        counts = [model.traffic_[name] for name in ("trips", "bytes_sent", "bytes_received")]
        return np.array([time.process_time() - since, model.history_.last("steps"), *counts])

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        print("| features | driver, ms a step | trips | KB sent / received |\n|---|---|---|---|")
        for d in (100, 1000):
            X = rng.normal(size=(1600, d))
            y = (X[:, 0] + 0.3 * rng.normal(size=1600) > 0.0).astype(int)
            given = da.from_array(X, chunks=(800, d)), da.from_array(y, chunks=800)
            taken(*given, 1)  # compiles
            seconds, steps, trips, sent, received = taken(*given, 3) - taken(*given, 1)
            cells = f"{1e3 * seconds / steps:.1f} | {trips / steps:.2f} | {sent / steps / 1e3:.0f}"
            print(f"| {d} | {cells} / {received / steps / 1e3:.0f} |", flush=True)
    X = rng.normal(size=(100_000, 100)).astype(np.float32)
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)[None]
    part = Part(KernelProblem(RBF(0.01), as_rows(X), y, losses.Single(losses.Hinge()), 1e-5), 0)
    lines, fold = np.tile(grid(-1.0, 1.0), (1, 2, 1)), np.array([[0.0, 1.0]])
    for _ in range(2):  # the first one compiles
        since = time.process_time()
        for _ in range(10):
            part.step(as_rows(X[:16]), np.ones((1, 16)), np.zeros(1), fold, lines)
    print(f"a part of 100,000 rows × 100 features: {1e2 * (time.process_time() - since):.1f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--parts", default="1,4,16")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--rows", type=int, help="so many rows for training, in random order")
    parser.add_argument("--driver", action="store_true")
    given = parser.parse_args()
    if given.driver:
        driver()
        return
    counts = [int(k) for k in given.parts.split(",")]
    print("| set | seed | one machine |", " | ".join(f"{k} parts" for k in counts), "| trips | KB out / in a step |")
    print("|---|---|---|" + "---|" * len(counts) + "---|---|")
    for name in given.sets:
        X, y, Z, t, kernel, nu = SETS[name]()
        if given.rows:
            some = np.random.default_rng(99).permutation(len(y))[: given.rows]
            X, y = X[some], y[some]
        classes = np.unique(y)
        which = classes[1:] if classes.size == 2 else classes
        signs = np.stack([np.where(y == c, 1.0, -1.0) for c in which])
        problem = KernelProblem(kernel, as_rows(X), signs, losses.Single(losses.Hinge()), 1.0 / len(y))
        Z, table = as_rows(Z), []
        for seed in range(given.seeds):
            since, row = time.process_time(), []
            solver = make("kernel", "sbp", nu=nu)
            state = trained(solver, problem, seed, given.steps)
            row.append(errors(solver.model(problem, state).decision_function(Z), t, classes))
            state.drop_workspace()
            for k in counts:
                dealt = kernel_in_parts(problem, np.array_split(np.arange(problem.n), k))
                place = Counting(dealt.place.problems)
                object.__setattr__(dealt, "place", place)
                solver = make("kernel_parts", "sbp", nu=nu)
                state = trained(solver, dealt, seed, given.steps)
                made = place.made
                said = made.trips / given.steps, made.sent / given.steps / 1e3, made.received / given.steps / 1e3
                row.append(errors(solver.model(dealt, state).decision_function(Z), t, classes))
            table.append(row)
            sys.stderr.write(f"{name} seed {seed}: {row} {said} {time.process_time() - since:.0f} s\n")
            cells = " | ".join(f"{error:.2f}" for error in row)
            print(f"| {name} | {seed} | {cells} | {said[0]:.2f} | {said[1]:.1f} / {said[2]:.1f} |", flush=True)
        means = " | ".join(f"{np.mean(column):.2f} ± {np.std(column):.2f}" for column in np.array(table).T)
        print(f"| {name} | mean | {means} | | |", flush=True)


if __name__ == "__main__":
    main()
