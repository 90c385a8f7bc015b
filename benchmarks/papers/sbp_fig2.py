"""Fig. 2 of the SBP paper: test error against kernel values, without a bias, and the size of the models.

``widemargin reproduce sbp``. usps with γ = 1/128, C = 10, class 8 against the rest; ``measured("a9a", runs)`` has a9a
with γ = 0.05, C = 1 (the paper's Adult, σ² = 10). ν is that of the known optimum, as in the paper.

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

The values themselves are computed once, and shared, so that it does not take days.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import replace

import numpy as np

from benchmarks import datasets
from benchmarks.papers.frame import Claim, Experiment, canvas, markdown, rounded
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


def contenders(nu):
    """The solvers by name."""
    return {
        "SBP, Algorithm 1": StochasticBatchPerceptron(nu=nu, batch_size=1, average="uniform"),
        "SBP, weights t": StochasticBatchPerceptron(nu=nu, batch_size=1),
        "SBP, 16 draws": StochasticBatchPerceptron(nu=nu),
        "Pegasos": KernelPegasos(),
        "SDCA": KernelSDCA(shrinking=False),
        "Perceptron": KernelPerceptron(),
    }


def measured(name, runs, rows=None):
    """ν, error and vectors of the optimum, the curve of SMO, and means over the runs of the others' curves."""
    get, gamma, C = PROBLEMS[name]
    X, y, Z, t = get()
    X, y, Z, t = X[:rows], y[:rows], Z[:rows], t[:rows]
    kernel, laid = RBF(gamma), as_rows(X)
    n = y.size

    def problem_with(n_bytes):
        return KernelProblem(
            kernel, laid, y, losses.Single(losses.Hinge()), 1.0 / (C * n), intercept="none", cache_bytes=n_bytes
        )

    judge, problem, everything = Judge(kernel, laid, as_rows(Z), t), problem_with(4.1 * n * n), np.arange(n)
    smo, nu, final, vectors = smo_curve(problem_with(200 * 2**20), judge, np.random.default_rng(0))
    shared = RowCache(problem.matrix(everything, everything), problem.cache_bytes)
    for first in range(0, n, 256):
        shared.fetch(everything[first : first + 256])
    problem = replace(problem, shared=(shared, everything))
    curves, ends = {}, {}
    for method, solver in contenders(nu).items():
        is_sbp = isinstance(solver, StochasticBatchPerceptron)
        curve = sbp_curve if is_sbp else steps_curve
        found = [curve(solver, problem, judge, np.random.default_rng(seed)) for seed in range(runs)]
        pair = {method: found}
        if not is_sbp:
            pair = {method: [last for last, _ in found], f"{method}, mean": [averaged for _, averaged in found]}
        for each, own in pair.items():
            curves[each] = [rounded(row) for row in np.mean(own, axis=0)]
            last = np.array(own)[:, -1, 1]
            ends[each] = rounded((last.mean(), last.std()))
    found = {"n": n, "nu": nu, "error": final, "vectors": vectors, "runs": runs, "smo": smo}
    return {**found, "curves": curves, "ends": ends}


class Figure2(Experiment):
    paper, name, needs = "sbp", "Figure 2", ("usps", "usps.t")
    shows = (
        "test error against kernel values on Reuters, Adult, USPS and MNIST: SBP needs fewer than Pegasos and SDCA at "
        "every error, and its models have fewer vectors than the optimum."
    )
    setting = (
        "usps, 8 against the rest, γ = 1/128, C = 10, ten runs, ν of the known optimum, 4 n² kernel values each. "
        "Nobody has a cache; SBP pays a row for each draw, Pegasos and the Perceptron a value for a vector and step, "
        "SDCA the same or a row for each change, whichever is less, SMO what it computes with 200 MB."
    )
    differences = (
        "Only usps is here yet; docs/sbp.md has a9a with three runs, whose shared kernel matrix takes 7 GB.",
        "SMO, which has a cache here and none in the paper, needs the fewest values from 10 % above the optimum on.",
        "Each row says which average it has; the paper's Pegasos and SDCA output their last iterate.",
    )

    def run(self, kept, quick):
        kept.get("usps", lambda: measured("usps", 2, 1500) if quick else measured("usps", 10))

    def table(self, parts):
        rows = []
        for name, found in parts.items():
            n, final = found["n"], found["error"]
            for method, curve in [*found["curves"].items(), ("SMO", found["smo"])]:
                needed = [first_at(curve, share * final)[0] / n for share in SHARES]
                cells = ["–" if np.isinf(each) else f"{each:,.0f}" for each in needed]
                size = first_at(curve, final)[1] / found["vectors"]
                mean, spread = found["ends"].get(method, (final, 0.0))
                told = "–" if np.isinf(size) else f"{size:.2f}"
                rows.append([name, method, *cells, told, f"{100 * mean:.2f} ± {100 * spread:.2f} %"])
        above = [f"{100 * (share - 1):.0f} % above" for share in SHARES[:-1]]
        head = ["data", "kernel values / n to an error", *above, "the optimum's", "vectors there / SMO's", "at the end"]
        told = ", ".join(f"{name} {100 * found['error']:.2f} %" for name, found in parts.items())
        return f"{markdown(head, rows)}\n\nError at the optimum: {told}. – : not within the budget."

    def figure(self, parts):
        figure, (axes,) = canvas(1, len(parts), 5.4, 4.0)
        for axis, (name, found) in zip(axes, parts.items()):
            n, final = found["n"], found["error"]
            for method, curve in found["curves"].items():
                style = {"SBP": "-", "Pegasos": "--", "SDCA": "-.", "Perceptron": ":"}[method.split(",")[0]]
                points = np.array(curve)
                axis.plot(points[:, 0] / n, points[:, 1], style, label=method, linewidth=1.1)
            smo = np.array(found["smo"])
            axis.plot(smo[:, 0] / n, smo[:, 1], "k.:", linewidth=0.8, label="SMO")
            axis.axhspan(final, 1.03 * final, color="0.9")
            axis.set(xscale="log", xlabel="kernel values / n", title=name, ylim=(0.9 * final, 3 * final))
            axis.legend(frameon=False, fontsize=6)
        axes[0].set_ylabel("test error")
        return figure

    def claims(self, parts):
        """SBP with weights t and as printed, against the last iterates of its rivals, near the optimum's error."""

        def fewer(found, ours, rival):
            shares = np.linspace(1.0, 1.03, 61)
            pairs = [
                [first_at(found["curves"][each], share * found["error"])[0] for each in (ours, rival)]
                for share in shares
            ]
            return all(own < other for own, other in pairs)

        def told(form):
            return ", ".join(
                f"{rival} {'yes' if all(fewer(found, form, rival) for found in parts.values()) else 'no'}"
                for rival in ("Pegasos", "SDCA", "Perceptron", "Pegasos, mean", "SDCA, mean")
            )

        best = "SBP, weights t"
        sizes = {
            name: first_at(found["curves"][best], found["error"])[1] / found["vectors"] for name, found in parts.items()
        }
        return [
            Claim(
                "SBP needs fewer kernel values than Pegasos, SDCA and the Perceptron at every error near the optimum's",
                f"fewer than … to every error within 3 % of the optimum's: with weights t {told(best)}; Algorithm 1 "
                f"{told('SBP, Algorithm 1')}",
                all(
                    fewer(found, best, rival) for found in parts.values() for rival in ("Pegasos", "SDCA", "Perceptron")
                ),
                "a rival needs fewer somewhere",
            ),
            Claim(
                "its models are sparser than the optimum",
                "vectors at the optimum's error over SMO's, weights t: "
                + ", ".join(
                    f"{name} {'never' if np.isinf(size) else format(size, '.2f')}" for name, size in sizes.items()
                ),
                max(sizes.values()) < 1.0,
                "they are not, or the error is not reached",
            ),
        ]


EXPERIMENTS = [Figure2()]
