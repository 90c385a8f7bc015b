"""Linear machines beside scikit-learn: epochs, memory, start-up. ``make bench`` runs this.

Whole fits, beside more libraries, are in :mod:`.linear_peers`; here is what an epoch, a start and memory cost.

One thread; compilation and evaluation off the clock; contenders take turns; the same λ, loss and regularised
intercept for all (asserted where it matters by the objective reached).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import time
import tracemalloc
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC as RivalSVC

from benchmarks import datasets
from benchmarks.timing import clock, spread, turns, verdict
from widemargin import LinearSVC, Pegasos
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows, row_scores
from widemargin.problems.linear import Problem
from widemargin.solvers.pegasos import Bottou

warnings.simplefilter("ignore", ConvergenceWarning)


def hinge_problem(X, y, lam):
    return Problem(as_rows(X), y, losses.Single(losses.Hinge()), lam, intercept="regularized")


@compiled
def scores_in_order(X, W, order, z, out):
    """Inner products of all rows with W, in a given order: what any such method must read."""
    for s in range(order.size):
        row_scores(X, order[s], W, z)
        out[s] = z[0]


def orders(n, count=9):
    rng = np.random.default_rng(0)
    return [rng.permutation(n).astype(np.int32) for _ in range(count)]


def epochs(repeats=15, few=2, many=8):
    """The cost of an epoch: (time of ``many`` epochs − time of ``few``)/(many − few), which drops the cost of a call.

    Both run η₀/(1 + λη₀t) with the rival's own η₀, so that they make the same number of updates.
    """
    print(f"\nAn epoch, in ms: ({many} epochs − {few} epochs)/{many - few}, median [quartiles] of {repeats} turns")
    sets = {"news20-bigram": (datasets.news20, 1e-4), "covtype": (datasets.cov1, 1e-6)}
    for dtype in (np.float32, np.float64):
        for name, (get, lam) in sets.items():
            X, y, *_ = get(dtype)
            problem = hinge_problem(X, y, lam)
            eta0 = float(np.sqrt(1 / np.sqrt(lam)))

            def ours(average, problem=problem, eta0=eta0):
                solver = Pegasos(step=Bottou(eta0), average=average)

                def go(count):
                    state = solver.init(problem, np.random.default_rng(0))
                    solver.advance(problem, state, 0)
                    return clock(lambda: solver.advance(problem, state, count * problem.n))

                return lambda: (go(many) - go(few)) / (many - few)

            def rival(average, X=X, y=y, lam=lam):
                def go(count):
                    model = SGDClassifier(alpha=lam, tol=None, max_iter=count, average=average, random_state=0)
                    return clock(lambda: model.fit(X, y))

                return lambda: (go(many) - go(few)) / (many - few)

            seconds = turns(
                {
                    "Pegasos, last iterate": ours("none"),
                    "SGDClassifier": rival(False),
                    "Pegasos, weighted average": ours("weighted"),
                    "SGDClassifier, average": rival(True),
                },
                repeats,
            )
            scores, z = np.empty(problem.n), np.empty(1)
            W = np.zeros((problem.d, 1), dtype)
            floor = [clock(lambda: scores_in_order(problem.X, W, order, z, scores)) for order in orders(problem.n)]
            print(f"  {name}, {np.dtype(dtype)}")
            print(f"    inner products alone        {spread(floor)}   (the least an epoch can cost)")
            for contender, values in seconds.items():
                print(f"    {contender:28}{spread(values)}")
            plain = np.median(seconds["Pegasos, last iterate"]) / np.median(seconds["SGDClassifier"])
            averaged = np.median(seconds["Pegasos, weighted average"]) / np.median(seconds["SGDClassifier, average"])
            print(f"    ratio, last iterate        {verdict(plain, 0.7)}")
            print(f"    ratio, averaged            {verdict(averaged, 0.7)}")


def a9a_in_one_epoch(seeds=11):
    """Test error of a whole fit in the time of one averaged epoch of the rival."""
    X, y, X_test, y_test = datasets.a9a()
    LinearSVC(solver="pegasos", max_iter=1, tol=0).fit(X[:100], y[:100])
    errors, seconds, whole, rival, rival_errors = [], [], [], [], []
    for seed in range(seeds):
        model = LinearSVC(C=1.0, solver="pegasos", tol=0, max_iter=1, random_state=seed)
        problem = hinge_problem(X, y, 1 / y.size)
        solver = Pegasos()

        def train(problem=problem, solver=solver, seed=seed):
            state = solver.init(problem, np.random.default_rng(seed))
            solver.advance(problem, state, problem.n)

        seconds.append(clock(train))
        whole.append(clock(lambda model=model: model.fit(X, y)))
        errors.append(1 - model.score(X_test, y_test))
        other = SGDClassifier(alpha=1 / y.size, average=True, tol=None, max_iter=1, random_state=seed)
        rival.append(clock(lambda other=other: other.fit(X, y)))
        rival_errors.append(1 - other.score(X_test, y_test))
    print(f"\na9a, C = 1: one epoch of Pegasos, η₀ found on the way, {seeds} seeds")
    print(f"    training, ms                {spread(seconds)}   with evaluation and certificate {spread(whole)}")
    print(f"    SGDClassifier(average=True) {spread(rival)}   one epoch, test error {np.median(rival_errors):.2%}")
    print(f"    test error, % (median)      {verdict(100 * np.median(errors), 15.1)}")
    print(f"    time / rival's              {verdict(np.median(seconds) / np.median(rival), 1.0)}")


def time_to_good_model(seeds=5, per_epoch=16, most=16):
    """Training time until the test error is within 1.1× of the optimum's and stays there, against the rival's fit."""
    print("\nTime until the test error is ≤ 1.1 × that of the optimum, and stays so")
    sets = {"a9a": (datasets.a9a, None), "cov1": (datasets.cov1, 1e-6), "news20-bigram": (datasets.news20, 1e-4)}
    for name, (get, lam) in sets.items():
        X, y, X_test, y_test = get()
        lam = 1 / y.size if lam is None else lam
        start = LinearSVC(lam=lam, solver="pegasos", tol=0, max_iter=100, random_state=0).fit(X, y)
        limit = 1.1 * (1 - start.score(X_test, y_test))
        problem = hinge_problem(X, y, lam)
        solver = Pegasos()
        step = max(1, y.size // per_epoch)
        seconds, used = [], []
        for seed in range(seeds):
            state = solver.init(problem, np.random.default_rng(seed))  # compiled by now
            clocked = clock(lambda seed=seed: solver.init(problem, np.random.default_rng(seed)))
            times, good = [], []
            for _ in range(most * per_epoch):
                clocked += clock(lambda state=state: solver.advance(problem, state, step))
                W, b = solver.weights(problem, state)
                labels = np.where(np.asarray(X_test @ W)[:, 0] + b[0] > 0, 1.0, -1.0)
                times.append(clocked)
                good.append(np.mean(labels != y_test) <= limit)
            first = len(good) - int(np.argmin(good[::-1])) if not all(good) else 0
            seconds.append(times[first] if first < len(good) else np.inf)
            used.append((first + 1) * step / y.size)
        rival = [
            clock(lambda: RivalSVC(C=1 / (lam * y.size), loss="hinge", random_state=0).fit(X, y))
            for _ in range(1 if name == "cov1" else 3)
        ]
        print(f"  {name}, λ = {lam:.2g}: test error of the optimum {limit / 1.1:.2%}, asked for {limit:.2%}")
        print(f"    Pegasos, ms                 {spread(seconds)}   after {np.median(used):.2f} epochs")
        print(f"    LinearSVC's default run, ms {spread(rival)}")
        print(f"    ratio                       {verdict(np.median(seconds) / np.median(rival), 0.2)}")


def memory():
    """Peak of allocations while fitting CSR float32 data, beyond the data."""
    print("\nPeak memory of fit beyond the data (tracemalloc), float32 CSR")
    rng = np.random.default_rng(0)
    for n, d, wide in ((1_000_000, 1_000, False), (20_000, 1_000_000, False), (1_000_000, 1_000, True)):
        X = sp.random(n, d, density=10 / d, format="csr", dtype=np.float32, random_state=rng)
        if wide:
            X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
        y = rng.integers(0, 2, n)
        LinearSVC(solver="pegasos", max_iter=1, tol=0).fit(X[:100], y[:100])
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        LinearSVC(solver="pegasos", max_iter=2, tol=0, random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        allowed = 48 * n + 32 * d
        share = verdict(peak / allowed, 1)
        kind = f"{n:>9,} rows {d:>9,} features, {X.indices.dtype}"
        print(f"    {kind}: {peak / 2**20:7.1f} MiB, share of 48 n + 32 d {share}")


def start_up(repeats=5):
    """``import widemargin``, and the first fit of a process whose cache is warm."""
    importing = "import time; t = time.perf_counter(); import widemargin; print(time.perf_counter() - t)"
    fitting = (
        "import time, numpy as np, sklearn.svm\n"
        "from widemargin import LinearSVC\n"
        "X = np.random.default_rng(0).normal(size=(200, 5)); y = X[:, 0] > 0\n"
        "t = time.perf_counter(); LinearSVC(solver='pegasos').fit(X, y); print(time.perf_counter() - t)"
    )

    def seconds(code):
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    seconds(fitting)
    print("\nStart-up")
    print(f"    import widemargin, s        {verdict(np.median([seconds(importing) for _ in range(repeats)]), 0.15)}")
    print(f"    first fit, warm cache, s    {verdict(np.median([seconds(fitting) for _ in range(repeats)]), 1.0)}")


def main():
    since = time.perf_counter()
    start_up()
    memory()
    a9a_in_one_epoch()
    time_to_good_model()
    epochs()
    print(f"\n{time.perf_counter() - since:.0f} s in all")


if __name__ == "__main__":
    main()
