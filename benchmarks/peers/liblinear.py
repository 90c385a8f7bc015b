"""Linear SDCA beside LIBLINEAR: time to a relative primal excess over the optimum, the same problem, hinge loss.

``python -m benchmarks.peers.liblinear [news20-bigram] [a9a] [covtype] [--repeats 5]``.

The optimum is the best objective of a long run. How much work each contender needs to come within 1e-2 and 1e-3 of it
is found off the clock: visits for SDCA, the loosest tolerance (to a factor of 2^½) for LIBLINEAR. Then they take turns
on the clock. A neutral party, ``Problem.primal``, computes all objectives; none may be below the certified bound, which
shows that all solve the same problem: the bias is a constant feature and regularised in all of them. Compilation,
evaluation and the conversion of data into LIBLINEAR's own format (scikit-learn's ``fit`` does that inside) are off the
clock. SDCA gets float32 data as it is stored, LIBLINEAR the same numbers in the float64 that it needs. The table is
printed and written to bench_output/liblinear.md.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import math
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as RivalSVC

from benchmarks import datasets
from benchmarks.timing import clock, spread, turns
from widemargin import SDCA
from widemargin.core import losses
from widemargin.core.rows import as_rows
from widemargin.problems.linear import Problem

try:
    from liblinear.liblinearutil import parameter, train
    from liblinear.liblinearutil import problem as their_problem
except ImportError:
    train = None

warnings.simplefilter("ignore", ConvergenceWarning)

#: Data and λ; None is C = 1.
PROBLEMS = {
    "news20-bigram": (datasets.news20, 1e-4),
    "a9a": (datasets.a9a, None),
    "covtype": (datasets.cov1, 1e-6),
}
EXCESSES = (1e-2, 1e-3)
ASKED, ASKED_OF_TWO = 0.6, 0.85


class Ours:
    """SDCA; its work is counted in visits."""

    def __init__(self, problem, threads):
        self.problem, self.solver = problem, SDCA(n_jobs=threads)
        state = self.solver.init(problem, np.random.default_rng(0))
        self.solver.advance(problem, state, 0)

    def search(self, limit):
        """The fewest visits, in eighths of an epoch, after which the objective is at most the limit."""
        state, step = self.solver.init(self.problem, np.random.default_rng(0)), max(1, self.problem.n // 8)
        while self.objective(state) > limit:
            self.solver.advance(self.problem, state, step)
        self.value = self.objective(state)
        return state.counters.visits

    def objective(self, state):
        return self.problem.primal(*self.solver.weights(self.problem, state))

    def seconds(self, visits):
        def fit():
            state = self.solver.init(self.problem, np.random.default_rng(0))
            self.solver.advance(self.problem, state, visits)
            self.solver.weights(self.problem, state)

        return clock(fit)

    def words(self, visits):
        return f"{visits / self.problem.n:.2f} epochs"


class Theirs:
    """A LIBLINEAR; its work is said by its tolerance."""

    def __init__(self, problem):
        self.problem = problem

    def search(self, limit):
        tol = loosest = 64.0
        while self.reached(tol) > limit:
            tol /= 2.0
            if tol < 1e-9:
                return None
        if tol < loosest and self.reached(tol * 2**0.5) <= limit:
            tol *= 2**0.5
        self.value = self.reached(tol)
        return tol

    def reached(self, tol):
        self.seconds(tol)
        return self.problem.primal(self.w[:, None], np.array([self.b]))

    def words(self, tol):
        return f"tolerance {tol:.2g}"


class Official(Theirs):
    """The package ``liblinear-official``."""

    def __init__(self, problem, X, y):
        super().__init__(problem)
        self.data = their_problem(y, X, bias=1)

    def seconds(self, tol):
        options = parameter(f"-s 3 -q -c {self.problem.C!r} -B 1 -e {tol!r}")
        found = []
        seconds = clock(lambda: found.append(train(self.data, options)))
        sign = 1.0 if found[0].get_labels()[0] > 0 else -1.0
        w, b = found[0].get_decfun()
        self.w, self.b = sign * np.array(w), sign * b
        return seconds


class ScikitLearn(Theirs):
    """``sklearn.svm.LinearSVC``."""

    def __init__(self, problem, X, y):
        super().__init__(problem)
        self.X, self.y = X, y

    def seconds(self, tol):
        model = RivalSVC(C=self.problem.C, loss="hinge", dual=True, tol=tol, max_iter=10**6, random_state=0)
        seconds = clock(lambda: model.fit(self.X, self.y))
        self.w, self.b = model.coef_[0], float(model.intercept_[0])
        return seconds


def optimum(problem, seconds):
    """(least objective, certified lower bound) of a long run."""
    solver, since, best, bound = SDCA(), time.perf_counter(), math.inf, 0.0
    state = solver.init(problem, np.random.default_rng(1))
    solver.advance(problem, state, 0)
    while best == math.inf or (time.perf_counter() - since < seconds and best - bound > 1e-6 * best):
        solver.advance(problem, state, 16 * problem.n)
        primal, dual, _ = solver.certificate(problem, state)
        best, bound = min(best, primal), max(bound, dual)
    return best, bound


def compare(name, repeats, optimum_seconds):
    """Lines of the table."""
    get, lam = PROBLEMS[name]
    X, y, *_ = get()
    problem = Problem(as_rows(X), y, losses.Single(losses.Hinge()), lam or 1.0 / y.size, intercept="regularized")
    best, bound = optimum(problem, optimum_seconds)
    doubles = X.astype(np.float64)
    contenders = {"SDCA": Ours(problem, 1)}
    if problem.d > problem.n:
        contenders["SDCA, two threads"] = Ours(problem, 2)
    if train is not None:
        contenders["liblinear-official"] = Official(problem, doubles, y)
    contenders["scikit-learn"] = ScikitLearn(problem, doubles, y)
    lines = []
    for excess in EXCESSES:
        work = {}
        for contender, it in contenders.items():
            amount = it.search(best * (1.0 + excess))
            if amount is None:
                print(f"{name}: {contender} did not reach an excess of {excess:g}")
                continue
            # nobody is below what is certified, so all minimise the same function
            assert it.value >= bound * (1.0 - 1e-6), (contender, it.value, bound)
            work[contender] = amount
        timed = turns({c: lambda c=c: contenders[c].seconds(work[c]) for c in work}, repeats)
        medians = {c: np.median(seconds) for c, seconds in timed.items()}
        for contender, seconds in timed.items():
            ratio = medians["SDCA"] / medians[contender]
            said = "" if contender == "SDCA" else f"{ratio:.2f}, asked ≤ {ASKED}"
            if contender == "SDCA, two threads":
                said = f"{1.0 / ratio:.2f} of one thread's, asked ≤ {ASKED_OF_TWO}"
            how = contenders[contender].words(work[contender])
            lines.append(f"| {name} | {excess:g} | {contender} | {spread(seconds).strip()} | {how} | {said} |")
            print(lines[-1], flush=True)
    print(f"{name}: n = {problem.n}, d = {problem.d}, λ = {problem.lam:.3g}, C = {problem.C:.3g}, optimum {best:.6f}, "
          f"certified within {1.0 - bound / best:.1e} of it")  # fmt: skip
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(PROBLEMS), help=", ".join(PROBLEMS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--optimum-seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    if train is None:
        print("liblinear-official is not installed (pip install '.[bench]', with a C++ compiler): scikit-learn alone")
    lines = [
        "| data | excess | contender | ms, median [quartiles] | work | SDCA/theirs |",
        "|---|---|---|---|---|---|",
    ]
    for name in chosen.names:
        if name not in PROBLEMS:
            parser.error(f"{name!r} is none of {', '.join(PROBLEMS)}")
        lines += compare(name, chosen.repeats, chosen.optimum_seconds)
    folder = datasets.ROOT / "bench_output"
    folder.mkdir(exist_ok=True)
    (folder / "liblinear.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
