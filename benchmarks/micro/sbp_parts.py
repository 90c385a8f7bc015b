"""The Stochastic Batch Perceptron over parts, simulated in one process, beside one machine at equal draws.

``python -m benchmarks.micro.sbp_parts [a9a] [usps] [--parts 1,4,16,64] [--seeds 5] [--steps 256]``: test errors in per
cent at a given ν after as many steps of 16 draws for each binary problem, what a step sends and receives, and trips a
step, looks at the predictor not counted. The rows are dealt out in their order.
"""

import argparse
import sys
import time

import numpy as np

from widemargin.core import losses
from widemargin.core.kernels import RBF
from widemargin.core.rows import as_rows
from widemargin.dask.actors import size_of
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.parts import Here, LocalParts, kernel_in_parts
from widemargin.solvers import make

from .. import datasets


def a9a():
    """The ν of C = 1 (docs/sbp.md)."""
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

    def ask(self, method, *message):
        replies = super().ask(method, *message)
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--parts", default="1,4,16")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=256)
    given = parser.parse_args()
    counts = [int(k) for k in given.parts.split(",")]
    print("| set | seed | one machine |", " | ".join(f"{k} parts" for k in counts), "| trips | KB out / in a step |")
    print("|---|---|---|" + "---|" * len(counts) + "---|---|")
    for name in given.sets:
        X, y, Z, t, kernel, nu = SETS[name]()
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
