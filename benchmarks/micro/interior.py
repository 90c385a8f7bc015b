"""The interior point: parts of the data, and dual ascent beside it. Processor seconds of one thread.

``python -m benchmarks.micro.interior parts [a9a] [covtype] [--parts 1 2 4 8 16]``: steps, trips and bytes to relative
gaps of 1e-3, the default, and 1e-6 (hinge, C = 1), how far the weights are from those of one part, and what it takes
where replies are put together. ``python -m benchmarks.micro.interior equal``: objectives and weights beside those of
dual ascent.
``python -m benchmarks.micro.interior driver``: what it takes where replies are put together, for data of many features.
``python -m benchmarks.micro.interior sdca [names]``: processor seconds of both solvers by C and tol.
"""

import argparse
import time
from itertools import product

import numpy as np
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from benchmarks import datasets
from widemargin import SDCA, Interior
from widemargin.core.losses.losses import Hinge, OneVsRest, Single
from widemargin.core.rows.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.problems.parts import LocalParts
from widemargin.running import run
from widemargin.solvers.interior import Part, Variables, some_of

#: Rows beside dual ascent.
MOST_ROWS = 50_000


class Timed(LocalParts):
    """Parts, and the processor seconds that their replies took."""

    def __init__(self, parts):
        super().__init__(parts)
        self.seconds = 0.0

    def each(self, method, *message):
        """The replies of all parts."""
        since = time.process_time()
        replies = list(super().each(method, *message))
        self.seconds += time.process_time() - since
        return replies


class InParts(Interior):
    """The interior point on data in several parts."""

    def __init__(self, n_parts):
        super().__init__()
        self.n_parts, self.asked = n_parts, None

    def parts(self, problem, variables):
        """Parts of equal size."""
        ends, parts = np.linspace(0, problem.n, self.n_parts + 1).astype(int), []
        for rows in map(slice, ends[:-1].tolist(), ends[1:].tolist()):
            own = Variables(*(array[:, rows] for array in variables))
            parts.append(Part(some_of(problem, rows), problem.C, own, problem.scale))
        self.asked = Timed(parts)
        return self.asked


def a9a():
    """As it is: sparse."""
    return datasets.load("a9a", 123, np.float64)


def covtype():
    """Class 2 against the rest, all rows, scaled to unit maximum, dense."""
    X, y = datasets.load("covtype", 54, np.float64)
    return MaxAbsScaler().fit_transform(X).toarray(), np.where(y == 2, 1.0, -1.0)


def ijcnn1():
    """As it is, dense."""
    X, y = datasets.load("ijcnn1", 22, np.float64)
    return X.toarray(), y


def shuttle():
    """Standardised, seven classes."""
    X, y = datasets.load("shuttle", 9, np.float64)
    return StandardScaler().fit_transform(X.toarray()), y


def letter():
    """As it is, 26 classes."""
    X, y = datasets.load("letter", 16, np.float64)
    return X.toarray(), y


def correlated(n=20_000, d=50):
    """Features that are sums of five, and a little noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) @ rng.normal(size=(5, d)) + 0.1 * rng.normal(size=(n, d)) + 1.0
    scores = X @ rng.normal(size=d)
    return X, np.where(scores - np.median(scores) + rng.normal(size=n) > 0.0, 1.0, -1.0)


def independent(n=20_000, d=50):
    """Features that know nothing of each other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0.0, 1.0, -1.0)


def words(n=20_000, d=500):
    """Some twenty words of 500 in each row."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.04, 1.0, 0.0)
    return datasets.sp.csr_matrix(X), np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0.0, 1.0, -1.0)


SETS = {f.__name__: f for f in (a9a, covtype, ijcnn1, shuttle, letter, correlated, independent, words)}


def problem_of(X, y, C):
    """The hinge with a regularised intercept, as LinearSVC has it."""
    classes, codes = np.unique(y, return_inverse=True)
    lam = 1.0 / (C * y.size)
    if classes.size == 2:
        return Problem(as_rows(X), np.where(codes == 1, 1.0, -1.0), Single(Hinge()), lam, intercept="regularized")
    target = OneVsRest(Hinge(), np.ones(classes.size))
    return Problem(as_rows(X), codes.astype(float), target, lam, intercept="regularized", n_outputs=classes.size)


def timed(solver, problem, **limits):
    """(Outcome, processor seconds) of a run, compilation before it."""
    run(solver, problem, rng=np.random.default_rng(0), max_epochs=1)
    since = time.process_time()
    outcome = run(solver, problem, rng=np.random.default_rng(0), **limits)
    return outcome, time.process_time() - since


def parts(names, counts):
    """Steps, trips and bytes by the tolerance and the number of parts."""
    head = (
        "data | tol | parts | steps | relative gap | weights apart | trips | KB out | KB back | s | driver, ms a trip"
    )
    print(f"| {head} |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, tol in product(names, (1e-3, 1e-6)):
        problem, first = problem_of(*SETS[name](), 1.0), None
        for count in counts:
            solver = InParts(count)
            outcome, seconds = timed(solver, problem, tol=tol, max_epochs=100)
            state, gap = outcome.state, outcome.history["gap"][-1] / outcome.objective
            first = outcome.W if first is None else first
            apart = np.abs(outcome.W - first).max() / np.abs(first).max()
            own = 1e3 * (seconds - solver.asked.seconds) / state.trips
            print(
                f"| {name} | {tol:g} | {count} | {state.counters.steps} | {gap:.1e} | {apart:.0e} | {state.trips} | "
                f"{state.bytes_sent / 1e3:.0f} | {state.bytes_received / 1e3:.0f} | {seconds:.2f} | {own:.2f} |"
            )


def equal(names, counts):
    """Objectives and weights by the number of parts beside those of dual ascent, both to a relative gap of 1e-6.

    λ/2 ‖w − w*‖² ≤ P(w) − P*, so that two machines with gaps g and h are at most √(2g/λ) + √(2h/λ) apart.
    """
    print("| data | solver | objective | dual value | apart from one part | apart from sdca | at most |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        problem, first = problem_of(*SETS[name](), 1.0), None
        theirs = run(SDCA(), problem, rng=np.random.default_rng(0), tol=1e-6, max_epochs=10_000)
        size = np.linalg.norm(theirs.W)
        for count in (None, *counts):
            found = theirs if count is None else run(InParts(count), problem, tol=1e-6, max_epochs=100)
            first = found.W if count == counts[0] else first
            gaps = [max(each.objective - each.dual, 0.0) for each in (theirs, found)]
            bound = sum(np.sqrt(2.0 * gap / problem.lam) for gap in gaps) / size
            apart = "" if first is None else f"{np.abs(found.W - first).max() / np.abs(first).max():.0e}"
            other = "" if count is None else f"{np.linalg.norm(found.W - theirs.W) / size:.1e}"
            most = "" if count is None else f"{bound:.1e}"
            label = "sdca" if count is None else f"interior, {count} parts"
            cells = f"{found.objective:.10f} | {found.dual:.10f} | {apart} | {other} | {most}"
            print(f"| {name} | {label} | {cells} |", flush=True)


def driver():
    """Processor milliseconds a trip where replies are put together, by the number of features, with 16 parts."""
    print("| features | steps | driver, ms a trip | ms a step |\n|---|---|---|---|")
    for d in (54, 123, 300, 500, 700, 850, 1000):
        solver, problem = InParts(16), problem_of(*independent(4000, d), 1.0)
        outcome, seconds = timed(solver, problem, max_epochs=8, tol=0.0)
        own, trips = 1e3 * (seconds - solver.asked.seconds), outcome.state.trips
        print(f"| {d} | {outcome.state.counters.steps} | {own / trips:.1f} | {3 * own / trips:.1f} |")


def ascent(names, most):
    """Both solvers by C and tol; a run of dual ascent ends after ``most`` seconds."""
    print("| data | C | tol | sdca, s | epochs | interior, s | steps |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        X, y = SETS[name]()
        some = slice(None, None, -(-y.size // MOST_ROWS))
        for C in (0.01, 1.0, 100.0):
            problem = problem_of(X[some], y[some], C)
            for tol in (1e-3, 1e-6):
                theirs, slow = timed(SDCA(), problem, tol=tol, max_epochs=1e6, max_seconds=most)
                ours, seconds = timed(Interior(), problem, tol=tol, max_epochs=100)
                mark = "" if theirs.stop_reason == "tol" else "> "
                epochs = theirs.history["epochs"][-1]
                print(
                    f"| {name} | {C:g} | {tol:g} | {mark}{slow:.2f} | {epochs:.0f} | {seconds:.2f} | "
                    f"{ours.state.counters.steps} |{'' if ours.stop_reason == 'tol' else ' ' + ours.stop_reason}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("parts", "equal", "driver", "sdca"))
    parser.add_argument("names", nargs="*", choices=[*SETS, []])
    parser.add_argument("--parts", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--most", type=float, default=20.0, help="seconds of a run of dual ascent")
    given = parser.parse_args()
    if given.what == "parts":
        parts(given.names or ["a9a", "covtype"], given.parts)
    elif given.what == "equal":
        equal(given.names or ["a9a", "covtype"], given.parts)
    elif given.what == "driver":
        driver()
    else:
        ascent(given.names or list(SETS), given.most)
