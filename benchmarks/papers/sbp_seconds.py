"""The seconds of the SBP paper's Sec. 5: LIBSVM to its end, and SBP in a quarter of its time, with a bias.

``widemargin reproduce sbp``. Kernels, λ and ν of Table 2, with bias. Settled before the runs:

- LIBSVM is scikit-learn's ``SVC`` on dense rows of float64; both have a cache of 200 MB and one thread. Times are
  processor times.
- SBP's ν-form has the paper's ν and the defaults, 16 draws and weights t; its C-form is what ``SVC(solver="sbp")``
  does, with ν from a sample and SMO after the draws. One run each; looks are off the clock, and so is compilation.
- All of a9a; mnist, 8 against the rest, with 15,000 rows for training; covtype (Forest), class 2 against the rest, raw
  values, with 20,000 rows for training and 20,000 for the test.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.svm import SVC as LIBSVM

from benchmarks import datasets
from benchmarks.papers.frame import Claim, Experiment, markdown, rounded
from benchmarks.papers.pegasos_kernel import mnist
from widemargin import StochasticBatchPerceptron
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem

CACHE_MB = 200
#: Parts of LIBSVM's time after which SBP is looked at.
PARTS = (1 / 32, 1 / 16, 1 / 8, 1 / 4)


def forest():
    X, y = datasets.load("covtype", 54)
    order = np.random.default_rng(0).permutation(y.size)
    labels, train, test = np.where(y == 2, 1.0, -1.0), order[20_000:], order[:20_000]
    return X[train[:20_000]], labels[train[:20_000]], X[test], labels[test]


@dataclass(frozen=True)
class Case:
    """Data, its files, γ, C and ν; rows for training, and what the paper has: rows, errors of LIBSVM and SBP in %."""

    name: str
    files: tuple
    get: Any
    gamma: float
    C: float
    nu: float
    rows: int
    paper: tuple


CASES = (
    Case("a9a", ("a9a", "a9a.t"), datasets.a9a, 1 / 200, 100.0, 5.79e-4, 32_561, ("31,562", "14.9", "15.0")),
    Case("mnist, 8", ("mnist", "mnist.t"), mnist, 0.02, 1000.0, 6.42e-11, 15_000, ("60,000", "0.44", "0.46")),
    Case("covtype, 2", ("covtype",), forest, 1e-4, 10_000.0, 7.62e-10, 20_000, ("522,910", "1.8", "1.6")),
)


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else X


def libsvm(X, y, Z, t, case):
    """Its seconds, error and vectors."""
    X, Z = dense(X).astype(np.float64), dense(Z).astype(np.float64)
    since = time.process_time()
    model = LIBSVM(gamma=case.gamma, C=case.C, cache_size=CACHE_MB).fit(X, y)
    seconds = time.process_time() - since
    return {"seconds": seconds, "error": float(np.mean(model.predict(Z) != t)), "vectors": int(model.support_.size)}


def errors_in_time(problem, Z, t, solver, stops):
    """Test errors after so many seconds of training, and the vectors in the end."""
    few = problem.take(np.arange(600))  # all that is compiled is compiled here
    state = solver.init(few, np.random.default_rng(0))
    for _ in range(100):
        solver.advance(few, state, 16)
    solver.model(few, state).decision_function(Z[:16])
    state, errors, seconds, done = solver.init(problem, np.random.default_rng(0)), [], 0.0, False
    for stop in stops:
        while seconds < stop and not done:
            since = time.process_time()
            solver.advance(problem, state, 4)
            if state.polish is not None and solver.at_checkpoint(state) and solver.knows(state):
                found = solver.certificate(problem, state)
                done = state.stalled or found.gap <= solver.tol * found.primal
            seconds += time.process_time() - since
        model = solver.model(problem, state)
        scores = model.decision_function(Z)[:, 0]
        errors.append(float(np.mean(np.where(scores > 0, 1.0, -1.0) != t)))
    return {"errors": rounded(errors), "seconds": seconds, "vectors": int(model.support.size), "done": bool(done)}


class Section5(Experiment):
    paper, name = "sbp", "Section 5"
    shows = (
        "LIBSVM's error and time on Adult (14.9 %), MNIST (0.44 %) and Forest (1.8 %, 35 hours), and SBP's error in a "
        "quarter of each time: 15.0 %, 0.46 % and 1.6 %."
    )
    setting = (
        "kernels, λ and ν of Table 2, with bias, one run each; all rows of a9a, 15,000 of mnist (8 against the rest), "
        "20,000 of covtype (class 2 against the rest, raw values). The ν-form is the paper's, with 16 draws a step; "
        "the C-form finds ν on a sample and ends with SMO."
    )
    differences = (
        "mnist and covtype are cut to what LIBSVM does in minutes; the paper's errors are those of all rows.",
        "On mnist, of which LIBSVM solves 15,000 rows in 16 s, the ν-form is seven test images above it in a quarter "
        "of that; the C-form is at its error on all three.",
        "With σ² = 5,000 on raw values nearly all of the 20,000 rows of covtype are support vectors.",
        "Other programs ran on the machine; the times are processor times.",
    )

    def cases(self, quick):
        return [each for each in CASES if datasets.has(*each.files) and not (quick and each.name == "mnist, 8")]

    def lacks(self, quick):
        return super().lacks(quick) or ("" if self.cases(quick) else "none of its sets is among the data")

    def run(self, kept, quick):
        for case in self.cases(quick):
            made = []

            def data():
                if not made:
                    X, y, Z, t = case.get()
                    rows, tested = (1500, 1000) if quick else (case.rows, None)
                    made.append((X[:rows], y[:rows], Z[:tested], t[:tested]))
                return made[0]

            theirs = kept.get(f"{case.name}: LIBSVM", lambda: {**libsvm(*data(), case), "rows": data()[1].size})
            for form, nu in (("ν", case.nu), ("C", None)):
                kept.get(f"{case.name}: {form}", lambda: self.ours(data(), case, nu, theirs["seconds"]))

    @staticmethod
    def ours(data, case, nu, seconds):
        X, y, Z, t = data
        problem = KernelProblem(
            RBF(case.gamma), as_rows(dense(X)), y, losses.Single(losses.Hinge()), 1.0 / (case.C * y.size),
            intercept="unregularized", cache_bytes=CACHE_MB * 2**20,
        )  # fmt: skip
        stops = [part * seconds for part in PARTS]
        return errors_in_time(problem, dense(Z), t, StochasticBatchPerceptron(nu=nu), stops)

    def table(self, parts):
        rows = []
        for case in CASES:
            if f"{case.name}: LIBSVM" in parts:
                theirs = parts[f"{case.name}: LIBSVM"]
                told = [f"{100 * theirs['error']:.2f} % in {theirs['seconds']:.1f} s", f"{theirs['vectors']:,}"]
                for form in ("ν", "C"):
                    own = parts[f"{case.name}: {form}"]
                    cells = [f"{100 * each:.2f}" for each in own["errors"]]
                    rows.append(
                        [case.name, f"{theirs['rows']:,}", *told, f"{form}-form", *cells, f"{own['vectors']:,}"]
                    )
                paper = [f"*{each}*" for each in case.paper]
                rows.append(["*the paper*", paper[0], f"{paper[1]} %", "", "*ν-form*", "", "", "", paper[2], ""])
        within = [f"in 1/{round(1 / part)} of it" for part in PARTS]
        return markdown(["data", "rows", "LIBSVM", "its vectors", "SBP", *within, "vectors"], rows)

    def claims(self, parts):
        """The paper's own SBP was at most 4.6 % above LIBSVM: 0.46 against 0.44."""
        ratios = {}
        for case in CASES:
            if f"{case.name}: LIBSVM" in parts:
                error = parts[f"{case.name}: LIBSVM"]["error"]
                ratios[case.name] = [parts[f"{case.name}: {form}"]["errors"][-1] / error for form in ("ν", "C")]
        return [
            Claim(
                "in a quarter of LIBSVM's time SBP has its error, or nearly (at most 1.05 times as large)",
                "error over LIBSVM's, ν-form and C-form: "
                + ", ".join(f"{name} {nu:.3f} and {C:.3f}" for name, (nu, C) in ratios.items()),
                all(nu <= 1.05 for nu, _ in ratios.values()),
                f"the ν-form is further above on {' and '.join(name for name, (nu, _) in ratios.items() if nu > 1.05)}",
            )
        ]


EXPERIMENTS = [Section5()]
