"""Fig. 2 of the SBP paper: test error against kernel values, without a bias, and the size of the models.

``python -m benchmarks.papers.sbp_fig2 [a9a] [usps] [--runs=3]``. a9a with γ = 0.05, C = 1 (the paper's Adult, σ² = 10);
usps with γ = 1/128, C = 10, class 8 against the rest. ν is that of the known optimum, as in the paper.

Settled before the runs:

- Every method runs until it was charged 4 n² kernel values, about the paper's ten epochs for Pegasos and SDCA.
- Nobody has a cache. SBP is charged a row of n for each draw; Pegasos, and the Perceptron, a value per support vector
  and step; SDCA the same, or a row for each step that changes α, whichever is less by then; SMO what it
  computes with a cache of 200 MB.
- SBP is Algorithm 1 (one draw per step, uniform average), the same with weights t, and the defaults (16 draws,
  weights t).
- SDCA visits permutations. Pegasos and SDCA have two curves from the same runs: the last iterate (for Pegasos the
  paper's own, its Fig. 3), and the average with weights t, which costs nothing. (A first version drew the better of the
  two for Pegasos, which on a9a hid how much the average does.)
- Curves are means over the runs; an error is reached at the first checkpoint with at most this mean. Checkpoints stand
  at the same charges for all, a quarter apart.

The values themselves are computed once, and shared, so that it does not take days. Draws ``bench_output/sbp_fig2.svg``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks import datasets
from benchmarks.timing import verdict
from widemargin import SMO, StochasticBatchPerceptron
from widemargin.core import losses
from widemargin.core.kernel_cache import RowCache
from widemargin.core.kernel_matrix import KernelMatrix
from widemargin.core.kernels import RBF
from widemargin.core.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import run
from widemargin.solvers.kernel_pegasos import KernelPegasos
from widemargin.solvers.kernel_sdca import KernelSDCA
from widemargin.solvers.perceptron import KernelPerceptron
from widemargin.solvers.smo import add_kernel_rows

#: Kernel values each method is charged for before it stops, in units of n².
BUDGET = 4.0
#: The errors at which they are compared, relative to the optimum's.
SHARES = (1.5, 1.2, 1.1, 1.05, 1.03, 1.02, 1.01, 1.0)


def usps_8():
    (X, y), (Z, t) = datasets.load("usps", 256), datasets.load("usps.t", 256)
    eight = np.unique(y)[8]
    return X, np.where(y == eight, 1.0, -1.0), Z, np.where(t == eight, 1.0, -1.0)


PROBLEMS = {"a9a": (datasets.a9a, 0.05, 1.0), "usps": (usps_8, 1 / 128, 10.0)}


class Judge:
    """Test errors of Σ cᵢΦ(xᵢ), from the kernel between the training and the test rows."""

    def __init__(self, kernel, X, Z, t):
        self.t = t
        matrix = KernelMatrix(kernel, X, Z, dtype=np.float32)
        self.values = matrix.block(np.arange(matrix.shape[0]))

    def error(self, coefficients):
        used, scores = np.flatnonzero(coefficients), np.zeros(self.t.size)
        add_kernel_rows(self.values, used, coefficients[used], scores)
        return float(np.mean(np.where(scores > 0, 1.0, -1.0) != self.t))


def charges(n):
    """The charges of the checkpoints."""
    stops = n * 16.0 * 1.25 ** np.arange(200)
    return [*stops[stops < BUDGET * n * n], BUDGET * n * n]


def sbp_curve(solver, problem, judge, rng):
    """(kernel values, error, vectors) at each checkpoint."""
    rows, state = [], solver.init(problem, rng)
    for stop in charges(problem.n):
        target = max(1, int(stop / (problem.n * solver.batch_size)))
        while state.t < target:
            solver.advance(problem, state, target - state.t)
        alpha = solver.averages(state)[0][0]
        rows.append((state.t * solver.batch_size * problem.n, judge.error(problem.y * alpha), np.count_nonzero(alpha)))
    return rows


def steps_curve(solver, problem, judge, rng):
    """The same for the methods that visit one example at a time: (last iterate, average with weights t)."""
    last, averaged, state = [], [], solver.init(problem, rng)
    by_vectors, by_changes, charged, total = 0, 0, 0, np.zeros(problem.n)
    for stop in charges(problem.n):
        while charged < stop:
            # between checkpoints the number of support vectors is followed in small portions
            portion, before, updates = max(8, state.t // 128), np.count_nonzero(state.beta), state.counters.updates
            solver.advance(problem, state, portion)
            by_vectors += portion * (before + np.count_nonzero(state.beta)) // 2
            by_changes += problem.n * (state.counters.updates - updates)
            charged = min(by_vectors, by_changes) if isinstance(solver, KernelSDCA) else by_vectors
            coefficients = state.beta[0].copy()
            total += portion * state.t * solver.scale(problem, state) * coefficients
        size = np.count_nonzero(coefficients)
        last.append((charged, judge.error(coefficients), size))
        averaged.append((charged, judge.error(total), np.count_nonzero(total)))
    return last, averaged


def smo_curve(problem, judge, rng):
    rows = []

    def coefficients(model):
        c = np.zeros(problem.n)
        c[model.support] = model.coef[0]
        return c

    def keep(progress):
        model = progress.model()
        rows.append((progress.row["kernel_computed"], judge.error(coefficients(model)), model.support.size))

    outcome = run(SMO(tol=1e-4), problem, rng=rng, tol=1e-4, max_epochs=1000, callbacks=[keep])
    state = outcome.state
    margins = problem.y * state.f
    norm, hinge = np.sqrt(state.alpha @ margins), np.mean(np.maximum(0.0, 1.0 - margins))
    return rows, float(hinge / norm), judge.error(coefficients(outcome.model)), outcome.model.support.size


def first_at(rows, error):
    """Kernel values, and vectors, at the first checkpoint with at most this error."""
    return next(((values, size) for values, found, size in rows if found <= error + 1e-12), (np.inf, np.inf))


def compare(name, axis, runs):
    get, gamma, C = PROBLEMS[name]
    X, y, Z, t = get()
    kernel, rows = RBF(gamma), as_rows(X)
    n = y.size

    def problem_with(n_bytes):
        return KernelProblem(
            kernel, rows, y, losses.Single(losses.Hinge()), 1.0 / (C * n), intercept="none", cache_bytes=n_bytes
        )

    judge, problem, everything = Judge(kernel, rows, as_rows(Z), t), problem_with(4.1 * n * n), np.arange(n)
    smo, nu, final, vectors = smo_curve(problem_with(200 * 2**20), judge, np.random.default_rng(0))
    print(f"{name}: n = {n}, ν = {nu:.3g} of the optimum, error {final:.3%}, {vectors} support vectors", flush=True)
    shared = RowCache(problem.matrix(everything, everything), problem.cache_bytes)
    for first in range(0, n, 256):
        shared.fetch(everything[first : first + 256])
    problem = replace(problem, shared=(shared, everything))
    contenders = {
        "SBP, Algorithm 1": StochasticBatchPerceptron(nu=nu, batch_size=1, average="uniform"),
        "SBP, weights t": StochasticBatchPerceptron(nu=nu, batch_size=1),
        "SBP, 16 draws": StochasticBatchPerceptron(nu=nu),
        "Pegasos": KernelPegasos(),
        "SDCA": KernelSDCA(shrinking=False),
        "Perceptron": KernelPerceptron(),
    }
    means = {}
    for method, solver in contenders.items():
        since, is_sbp = time.perf_counter(), isinstance(solver, StochasticBatchPerceptron)
        curve = sbp_curve if is_sbp else steps_curve
        found = [curve(solver, problem, judge, np.random.default_rng(seed)) for seed in range(runs)]
        curves = {method: found}
        if not is_sbp:
            curves = {method: [last for last, _ in found], f"{method}, mean": [averaged for _, averaged in found]}
        for each, own in curves.items():
            means[each] = np.mean(own, axis=0)
            spent, last = means[each][-1, 0] / n**2, np.array(own)[:, -1, 1]
            print(
                f"    {each:17s} {runs} runs, {spent:.2f} n² values spent, error at the end {last.mean():.3%} "
                f"({last.min():.3%} to {last.max():.3%}), {time.perf_counter() - since:.0f} s",
                flush=True,
            )
            style = {"SBP": "-", "Pegasos": "--", "SDCA": "-.", "Perceptron": ":"}[each.split(",")[0]]
            if each != "Perceptron, mean":
                axis.plot(means[each][:, 0] / n, means[each][:, 1], style, label=each, linewidth=1.3)
    axis.plot([row[0] / n for row in smo], [row[1] for row in smo], "k.:", linewidth=0.8, label="SMO")
    axis.axhspan(final, 1.03 * final, color="0.9")
    axis.set(
        xscale="log", xlabel="kernel values / n", title=name, ylim=(0.9 * final, 3 * final if final < 0.1 else 0.25)
    )
    print("    kernel values / n at the first checkpoint with an error:")
    print("             " + "".join(f"{method:>17s}" for method in means))
    for share in SHARES:
        needed = [first_at(curve, share * final)[0] / n for curve in means.values()]
        print(f"    {share * final:8.3%} " + "".join(f"{values:17.0f}" for values in needed))
    for method, curve in means.items():
        if not method.startswith("SBP"):
            continue
        fewer = {}
        for rival in ("Pegasos", "Pegasos, mean", "SDCA", "SDCA, mean"):
            pairs = [
                (first_at(curve, share * final)[0], first_at(means[rival], share * final)[0])
                for share in np.linspace(1.0, 1.03, 61)
            ]
            fewer[rival] = all(own < other for own, other in pairs)
        print(f"    {method}: fewer values than … to every error within 3 % of the optimum's: {fewer}")
        for share in (1.03, 1.0):
            size = first_at(curve, share * final)[1]
            print(f"        vectors at {share:.2f} of the optimum's error: {verdict(size / vectors, 1.0)} of SMO's")
    sys.stdout.flush()


def main(arguments):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = next((int(argument[7:]) for argument in arguments if argument.startswith("--runs=")), 3)
    names = [argument for argument in arguments if not argument.startswith("--")] or list(PROBLEMS)
    figure, axes = plt.subplots(1, len(names), figsize=(5.4 * len(names), 4), layout="constrained", squeeze=False)
    for name, axis in zip(names, axes[0]):
        compare(name, axis, runs)
    axes[0, 0].set_ylabel("test error")
    axes[0, 0].legend(frameon=False, fontsize="small")
    path = datasets.ROOT / "bench_output" / "sbp_fig2.svg"
    figure.savefig(path)
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
