"""Pegasos' experiments with Gaussian kernels: Tables 2 and 3 with Fig. 5, and Fig. 6.

Settled before the runs:

- reuters-money-fx, a9a, usps and mnist with the paper's γ and λ: (1, 1.29e-4), (0.05, 3.07e-5), (2, 1.36e-4),
  (0.02, 1.67e-5). usps and mnist are 8 against the rest. Pixels of mnist are in [0, 1]; rows of usps are scaled to
  size 1, for which γ = 2 is neither a constant nor the identity (the paper does not say how its usps was scaled).
  No intercept.
- Pegasos is Fig. 3 of the paper, SDCA plain dual ascent, both with independent draws and their last iterate. SMO has
  SVM-Light's place, the incremental machine with the defaults of Tracker that of LASVM: it sees the examples in random
  order, once and again.
- Pegasos and SDCA here keep the responses of all examples and add a row of the kernel to them with each change; rows
  are kept in a cache of 1 GB, as those of SMO and of the incremental machine are.
- Suboptimality is the objective less the dual value of SMO at a relative gap of 1e-5; of mnist 1e-4. ε is found as in
  Table 1.
- Looks are off the clock. Runs end when their time is up, or within 1e-4 of the optimum, relatively.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.papers.frame import Claim, Experiment, canvas, markdown, rounded
from benchmarks.papers.pegasos_linear import NEAR, excess, first_below, looks, medians, threshold, times
from widemargin import SMO, Tracker
from widemargin.core.kernels.cache import RowCache
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.data.generators import checkerboard
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.smo.rounds import add_kernel_rows
from widemargin.solvers.visits.pegasos import KernelPegasos
from widemargin.solvers.visits.sdca import KernelSDCA

HINGE = losses.Single(losses.Hinge())
CACHE = 2**30
#: A suboptimality that is reasonably low; all begin at one near 1.
LOW = 0.1


# ---------------------------------------------------------------- data


def eight(name, features):
    """8 against the rest, training and test rows."""
    (X, y), (Z, t) = datasets.load(name, features), datasets.load(f"{name}.t", features)
    label = np.unique(y)[8]
    return X.toarray(), np.where(y == label, 1.0, -1.0), Z.toarray(), np.where(t == label, 1.0, -1.0)


def usps():
    X, y, Z, t = eight("usps", 256)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y, Z / np.linalg.norm(Z, axis=1, keepdims=True), t


def mnist():
    X, y, Z, t = eight("mnist", 784)
    return X / np.float32(255), y, Z / np.float32(255), t


def board():
    """A checkerboard, for want of other data."""
    X, y = checkerboard(8000, np.random.default_rng(0))
    y = np.where(y == 1, 1.0, -1.0)
    return X[:4000], y[:4000], X[4000:], y[4000:]


@dataclass(frozen=True)
class Set:
    """Data, γ and λ, seconds for a run, and what the paper's tables have: times, throughputs."""

    name: str
    file: str
    get: Any
    gamma: float
    lam: float
    seconds: float
    paper: tuple = ()
    rates: tuple = ()


REUTERS = Set(
    "reuters-money-fx", "reuters-money-fx", datasets.reuters, 1.0, 1.29e-4, 20.0,
    ("15 s (2.91 %)", "13 s (3.15 %)", "4.1 s (2.82 %)", "4.7 s (3.03 %)"), ("1", "1.03", "1.14", "0.88"),
)  # fmt: skip
ADULT = Set(
    "a9a", "a9a", datasets.a9a, 0.05, 3.07e-5, 40.0,
    ("30 s (15.5 %)", "4.8 s (15.5 %)", "59 s (15.1 %)", "1.5 s (15.6 %)"), ("1", "0.90", "0.94", "0.60"),
)  # fmt: skip
USPS = Set(
    "usps", "usps", usps, 2.0, 1.36e-4, 20.0,
    ("120 s (0.457 %)", "21 s (0.508 %)", "3.3 s (0.457 %)", "1.8 s (0.457 %)"), ("1", "0.97", "0.69", "0.81"),
)  # fmt: skip
MNIST = Set(
    "mnist", "mnist", mnist, 0.02, 1.67e-5, 60.0,
    ("4,200 s (0.6 %)", "1,800 s (0.56 %)", "290 s (0.58 %)", "280 s (0.56 %)"), ("1", "0.94", "0.99", "0.61"),
)  # fmt: skip
BOARD = Set("checkerboard, generated", "", board, 1.0, 1e-4, 5.0)
SETS = {each.name: each for each in (REUTERS, ADULT, USPS, MNIST, BOARD)}
#: Rows of a quick run.
QUICK = 2000


class Task:
    """A set, and measures of coefficients on it."""

    def __init__(self, which, quick=False):
        self.X, self.y, self.Z, self.t = which.get()
        if quick:
            self.X, self.y, self.Z, self.t = self.X[:QUICK], self.y[:QUICK], self.Z[:QUICK], self.t[:QUICK]
        self.kernel, self.lam = RBF(which.gamma), which.lam
        self.rows = as_rows(self.X)

    @property
    def n(self):
        return self.y.size

    def problem(self, lam=None, order=None):
        """The problem, perhaps of the rows in another order."""
        rows, y = (self.rows, self.y) if order is None else (as_rows(self.X[order]), self.y[order])
        return KernelProblem(self.kernel, rows, y, HINGE, lam or self.lam, intercept="none", cache_bytes=CACHE)

    @cached_property
    def values(self):
        """The kernel between the training and the test rows."""
        matrix = KernelMatrix(self.kernel, self.rows, as_rows(self.Z), dtype=np.float32)
        return matrix.block(np.arange(self.n))

    def error(self, coefficients):
        """The test error of Σ cᵢΦ(xᵢ)."""
        used, scores = np.flatnonzero(coefficients), np.zeros(self.t.size)
        add_kernel_rows(self.values, used, coefficients[used], scores)
        return float(np.mean(np.where(scores > 0, 1.0, -1.0) != self.t))


# ---------------------------------------------------------------- runs

#: What is seen at a look, and with how many digits it is kept.
LOOKS = {"seconds": 4, "steps": 9, "objective": 7, "error": 5, "values": 5, "vectors": 6}


def as_columns(rows):
    """Looks by column."""
    return {name: rounded(column, digits) for (name, digits), column in zip(LOOKS.items(), zip(*rows, strict=True))}


def value_of(solver, problem, state):
    """The objective of the iterate itself."""
    scale = solver.scale(problem, state)
    return problem.value(scale * state.f[None], np.array([scale**2 * float(state.beta[0] @ state.f)]))


def visits_run(task, solver, seed, most, least):
    """Looks at a solver that visits an example at a step."""
    problem, rows, seconds = task.problem(), [], 0.0
    solver.advance(problem, solver.init(problem, np.random.default_rng(seed)), 1)
    state = solver.init(problem, np.random.default_rng(seed))
    for stop in looks(256, 1000 * task.n):
        while state.t < stop and seconds <= most:
            since = time.process_time()
            solver.advance(problem, state, min(stop - state.t, 1024))
            seconds += time.process_time() - since
        found = value_of(solver, problem, state), task.error(state.beta[0])
        rows.append((seconds, state.t, *found, state.counters.kernel_computed, np.count_nonzero(state.beta)))
        if seconds > most or found[0] < least:
            return as_columns(rows)
    return as_columns(rows)


def smo_run(task, seed, most, least):
    """Looks at SMO; a step is one of its rounds."""
    problem, solver, rows, seconds = task.problem(), SMO(), [], 0.0
    solver.advance(problem, solver.init(problem, np.random.default_rng(seed)), 0)
    state, taken, portion = solver.init(problem, np.random.default_rng(seed)), 0, 1
    while True:  # a call that ends an episode takes no steps
        since = time.process_time()
        steps = solver.advance(problem, state, portion)
        seconds += time.process_time() - since
        taken, portion = taken + steps, max(1, math.ceil(0.4 * taken))
        if rows and seconds < 1.05 * rows[-1][0] and not state.stalled:
            continue
        measured, model = solver.glimpse(problem, state, math.inf)
        made, coefficients = model(), np.zeros(task.n)
        coefficients[made.support] = made.coef[0]
        found = measured["objective"], task.error(coefficients)
        rows.append((seconds, taken, *found, state.counters.kernel_computed, made.support.size))
        if seconds > most or found[0] < least or state.stalled:
            return as_columns(rows)


def tracker_run(task, seed, most, least):
    """Looks at the incremental machine; a step is an example."""
    rng, rows, seconds, solver, done = np.random.default_rng(seed), [], 0.0, Tracker(), 0
    order = rng.permutation(task.n)
    problem = task.problem(order=order)
    few = problem.take(np.arange(256))  # all that is compiled is compiled here
    solver.advance(few, solver.init(few, np.random.default_rng(0)), 512)
    state = solver.init(problem, rng)
    for stop in looks(max(256, task.n // 32), 64 * task.n):
        while done < stop and seconds <= most:
            portion = min(stop - done, 1024)
            since = time.process_time()
            solver.advance(problem, state, portion)
            seconds, done = seconds + time.process_time() - since, done + portion
        examples, beta = solver.coefficients(state)
        coefficients = np.zeros(task.n)
        coefficients[order[examples]] = beta[0]
        found = solver.certificate(problem, state).primal, task.error(coefficients)
        rows.append((seconds, done, *found, state.counters.kernel_computed, examples.size))
        if seconds > most or found[0] < least:
            break
    return as_columns(rows)


RUNS = {
    "Pegasos": lambda task, *rest: visits_run(task, KernelPegasos(), *rest),
    "SDCA": lambda task, *rest: visits_run(task, KernelSDCA("iid", shrinking=False), *rest),
    "SMO": smo_run,
    "incremental": tracker_run,
}


def solved(task, problem, tol):
    """(dual, objective, test error, vectors) of SMO at a relative gap."""
    solver = SMO(tol=tol)
    state = solver.init(problem, np.random.default_rng(0))
    while True:
        solver.advance(problem, state, 1)
        if solver.knows(state):
            certificate = solver.certificate(problem, state)
            if certificate.gap <= tol * certificate.primal or state.stalled:
                break
    made, coefficients = solver.model(problem, state), np.zeros(task.n)
    coefficients[made.support] = made.coef[0]
    error = task.error(coefficients)
    found = {"dual": certificate.dual, "objective": certificate.primal, "error": error, "vectors": made.support.size}
    return {name: float(value) for name, value in found.items()}


# ---------------------------------------------------------------- Tables 2 and 3, and Figure 5


class Table2(Experiment):
    paper, name = "pegasos", "Table 2"
    shows = (
        "as Table 1, with Gaussian kernels; Figure 5 has the traces behind it. Pegasos and SDCA get near the optimum "
        "soon, SVM-Light and LASVM win where a test error near the optimum's takes an accurate solution."
    )
    setting = (
        "one run each, as in the paper, on reuters-money-fx, a9a, usps and mnist. Runs end after 20 s, 40 s, 20 s and "
        "60 s."
    )
    differences = (
        "The library's SMO has SVM-Light's place, its incremental machine LASVM's.",
        "reuters-money-fx has 9,603 training rows where the paper has 7,770, usps 7,291 for 7,329; λ are the paper's.",
        "Our Pegasos and SDCA keep the responses of all examples: a visit costs nothing, a change a row of the kernel.",
        "Visits being free, Pegasos is nearer to SMO than in the paper, where it took 36 and 14 times as long on USPS "
        "and MNIST.",
        "A second here holds visits that change nothing and additions of rows that are kept, too, which compute no "
        "values. Until ε Pegasos makes 59 and 52 visits for a row computed on reuters-money-fx and mnist, SDCA 9 and "
        "12: that lowers the values a second of Pegasos. On a9a, with 3 and 2 visits for a row, the rates are alike.",
        "On mnist the incremental machine computes nearly as many values a second as SMO and SDCA, 1.17 beside 1.24, "
        "where LASVM had 0.61. What LASVM spent its time on is not known; the paper speaks of overhead and caching.",
        "What “a reasonably low objective” and “much faster” are, in the claim on them, was set when the runs were "
        "done: a suboptimality of 0.1, and half of the time.",
        "The test rows of usps are those of the standard split, on which the optimum errs three times as often.",
    )

    def sets(self, quick):
        here = [each for each in (REUTERS, ADULT, USPS, MNIST) if datasets.has(each.file, f"{each.file}.t")]
        return ([each for each in here if each is not MNIST] if quick else here) or [BOARD]

    def run(self, kept, quick):
        for which in self.sets(quick):
            made = []

            def task():
                if not made:
                    made.append(Task(which, quick))
                return made[0]

            tol = 1e-4 if which is MNIST else 1e-5
            optimum = kept.get(f"optimum, {which.name}", lambda: solved(task(), task().problem(), tol))
            least, most = (1.0 + 1e-4) * optimum["dual"], 3.0 if quick else which.seconds
            for method, run in RUNS.items():
                kept.get(f"{which.name}, {method}", lambda: run(task(), 0, most, least))

    def read(self, parts):
        """{set: (optimum, runs by method, ε)}."""
        found = {}
        for name in SETS:
            if f"optimum, {name}" in parts:
                optimum, runs = parts[f"optimum, {name}"], {each: [parts[f"{name}, {each}"]] for each in RUNS}
                found[name] = optimum, runs, threshold(runs, optimum)
        return found

    def rates(self, parts):
        """Kernel values computed a second until ε is reached, over those of Pegasos: {set: {method: rate}}."""
        rates = {}
        for name, (optimum, runs, epsilon) in self.read(parts).items():
            speeds = {}
            for method, (run,) in runs.items():
                found = first_below(run, optimum, epsilon)
                k = run["seconds"].index(found[0]) if found else -1
                speeds[method] = run["values"][k] / run["seconds"][k]
            rates[name] = {method: speed / speeds["Pegasos"] for method, speed in speeds.items()}
        return rates

    def table(self, parts):
        rows, rates, speeds = [], [], self.rates(parts)
        for name, (optimum, runs, epsilon) in self.read(parts).items():
            cells = []
            for (run,) in runs.values():
                found = first_below(run, optimum, epsilon)
                over = f"> {times(run['seconds'][-1])} ({100 * run['error'][-1]:.3g} %)"
                cells.append(f"{times(found[0])} ({100 * found[2]:.3g} %)" if found else over)
            rows.append([name, f"{epsilon:.3g}", f"{100 * optimum['error']:.3g} %", *cells])
            rates.append([name, *(f"{rate:.2f}" for rate in speeds[name].values())])
            if SETS[name].paper:
                rows.append(["*the paper*", "", "", *SETS[name].paper])
                rates.append(["*the paper*", *SETS[name].rates])
        head = ["data", "ε", "error at the optimum", *RUNS]
        told = "**Table 3**, kernel values computed a second over those of Pegasos, until ε is reached:"
        return f"{markdown(head, rows)}\n\n{told}\n\n{markdown(['data', *RUNS], rates)}"

    def figure(self, parts):
        read = self.read(parts)
        figure, axes = canvas(2, len(read), 3.2)
        for (name, (optimum, runs, epsilon)), (upper, lower) in zip(read.items(), axes.T):
            for method, (run,) in runs.items():
                upper.plot(run["seconds"], excess(run, optimum["dual"]), label=method, linewidth=1)
                lower.plot(run["seconds"], 100 * np.array(run["error"]), label=method, linewidth=1)
            upper.axhline(epsilon, color="0.6", linewidth=0.7)
            lower.axhline(100 * NEAR * optimum["error"], color="0.6", linewidth=0.7)
            upper.set(title=name, xscale="log", yscale="log", ylim=(1e-6, 2))
            lower.set(xlabel="seconds", xscale="log", ylim=(60 * optimum["error"], 300 * optimum["error"]))
        axes[0, 0].set_ylabel("suboptimality")
        axes[1, 0].set_ylabel("test error, %")
        axes[0, 0].legend(frameon=False, fontsize=6)
        return figure

    def claims(self, parts):
        """Who is first, and where it matters."""
        seconds = {}
        for name, (optimum, runs, epsilon) in self.read(parts).items():
            found = {method: medians(own, optimum, epsilon) for method, own in runs.items()}
            seconds[name] = {method: each[0] if each else math.inf for method, each in found.items()}

        def told(one, other):
            cells = []
            for name, each in seconds.items():
                never = [method for method in (one, other) if math.isinf(each[method])]
                cells.append(f"{name} {'–' if never else format(each[one] / each[other], '.2g')}")
            return ", ".join(cells)

        rates = [rate for each in self.rates(parts).values() for rate in each.values()]
        digits = [each for name, each in seconds.items() if name in ("usps", "mnist")] or list(seconds.values())
        return [
            Claim(
                "LASVM dominates Pegasos and SDCA with kernels on all four sets",
                f"time of the incremental machine over that of Pegasos: {told('incremental', 'Pegasos')}; over that of "
                f"SDCA: {told('incremental', 'SDCA')} (– where one never got there)",
                all(each["incremental"] < min(each["Pegasos"], each["SDCA"]) for each in seconds.values()),
                "one pass does not everywhere reach ε, and our SDCA keeps all responses",
            ),
            Claim(
                "on USPS and MNIST an accurate solution is needed, which decomposition reaches before Pegasos",
                f"time of SMO over that of Pegasos: {told('SMO', 'Pegasos')}",
                all(each["SMO"] < each["Pegasos"] for each in digits),
                "Pegasos is as fast there",
            ),
            Claim(
                "kernel values computed a second are about the same for all (0.60 to 1.14 of those of Pegasos)",
                f"{min(rates):.2f} to {max(rates):.2f}",
                min(rates) >= 0.5 and max(rates) <= 2.0,
                "0.40 is the incremental machine on a9a, which gets there within milliseconds, before its blocks are "
                "full; for the others see below the tables",
            ),
            Claim(
                "SDCA needs less time than Pegasos with kernels",
                f"SDCA over Pegasos: {told('SDCA', 'Pegasos')}",
                all(each["SDCA"] < each["Pegasos"] for each in seconds.values()),
                "visits without a change are free where responses are kept, and SDCA changes more often at first",
            ),
            self.claim_of_low_objectives(parts),
        ]

    def claim_of_low_objectives(self, parts):
        """Section 7.2, second paragraph: both stochastic methods in at most half of the time of SMO, on every set."""
        seconds, three = {}, ("Pegasos", "SDCA", "SMO")
        for name, (optimum, runs, _) in self.read(parts).items():
            found = {method: medians(runs[method], optimum, LOW) for method in three}
            seconds[name] = {method: each[0] if each else math.inf for method, each in found.items()}
        slow = {
            method: [name for name, each in seconds.items() if not each[method] <= 0.5 * each["SMO"]]
            for method in three[:2]
        }
        told = [f"{method} not on {', '.join(names)}" for method, names in slow.items() if names]
        cells = [f"{name} {' / '.join(f'{s:.2g}' for s in each.values())}" for name, each in seconds.items()]
        return Claim(
            "Section 7.2: Pegasos and SDCA reach a reasonably low objective much faster than SVM-Light",
            f"seconds to a suboptimality of {LOW:g}, {' / '.join(three)}: {', '.join(cells)}; much faster is at most "
            "half of the time of SMO, for both, on every set",
            not told,
            f"{'; '.join(told)}. A round of our SMO moves hundreds of variables, and the first one is enough on "
            "reuters-money-fx; the first steps of Pegasos, 1/(λt), are large for these λ",
        )


# ---------------------------------------------------------------- Figure 6


class Figure6(Experiment):
    paper, name = "pegasos", "Figure 6"
    shows = (
        "suboptimality after a fixed number of steps against λ on usps: that of Pegasos is inversely proportional to "
        "λ, SDCA does not suffer from a small λ."
    )
    setting = "usps, 8 against the rest, rows of size 1, γ = 2; means of five runs."
    LAMBDAS = (1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    SOLVERS = {"Pegasos": KernelPegasos, "SDCA": lambda: KernelSDCA("iid", shrinking=False)}

    def run(self, kept, quick):
        which, made = USPS if datasets.has("usps", "usps.t") else BOARD, []

        def shared():
            if not made:
                task = Task(which, quick)
                everything = np.arange(task.n)
                rows = RowCache(task.problem().matrix(everything, everything), 4.1 * task.n**2)
                for first in range(0, task.n, 256):
                    rows.fetch(everything[first : first + 256])
                made.append((task, rows, everything))
            return made[0]

        kept.get("set", lambda: which.name)
        for lam in self.LAMBDAS[:: 5 if quick else 1]:
            kept.get(f"{lam:g}", lambda: self.runs_of(*shared(), lam, quick))

    def runs_of(self, task, rows, everything, lam, quick):
        """Means of the suboptimality after each number of steps, by solver."""
        problem = replace(task.problem(lam), shared=(rows, everything))
        dual = solved(task, problem, 1e-6)["dual"]
        found = {"dual": dual}
        for name, make in self.SOLVERS.items():
            runs = []
            for seed in range(1 if quick else 5):
                solver, values = make(), []
                state = solver.init(problem, np.random.default_rng(seed))
                for stop in self.steps(task.n, quick):
                    solver.advance(problem, state, stop - state.t)
                    values.append(value_of(solver, problem, state) - dual)
                runs.append(values)
            found[name] = rounded(np.mean(runs, axis=0))
        return found

    def steps(self, n, quick):
        """One, four, sixteen and sixty-four times the examples, the latter not in a trial."""
        return [n * each for each in ((1, 4, 16) if quick else (1, 4, 16, 64))]

    def read(self, parts):
        lambdas = [float(key) for key in parts if key != "set"]
        return np.array(lambdas), {
            name: np.array([parts[key][name] for key in parts if key != "set"]) for name in self.SOLVERS
        }

    def table(self, parts):
        lambdas, found = self.read(parts)
        epochs = [4**k for k in range(next(iter(found.values())).shape[1])]
        head = ["λ", *(f"{name}, {epoch} n steps" for name in found for epoch in epochs)]
        rows = [
            [f"{lam:g}", *(f"{value:.1e}" for values in found.values() for value in values[k])]
            for k, lam in enumerate(lambdas)
        ]
        return markdown(head, rows)

    def figure(self, parts):
        lambdas, found = self.read(parts)
        figure, ((axis,),) = canvas(1, 1, 4.5)
        for (name, values), style in zip(found.items(), ("o-", "s--")):
            for k in range(values.shape[1]):
                own, label = np.maximum(values[:, k], 1e-9), f"{name}, {4**k} n steps"
                axis.plot(lambdas, own, style, color=f"C{k}", markersize=3, label=label, linewidth=1)
        axis.set(xscale="log", yscale="log", xlabel="λ", ylabel="suboptimality", title=parts["set"])
        axis.legend(frameon=False, fontsize=6)
        return figure

    def claims(self, parts):
        """Slopes in log-log over the λ up to 1e-4."""
        lambdas, found = self.read(parts)

        def slope(name, k=-1, most=1e-4):
            few = lambdas <= 1.01 * most
            return float(np.polyfit(np.log(lambdas[few]), np.log(np.maximum(found[name][few, k], 1e-12)), 1)[0])

        looked = range(found["Pegasos"].shape[1])
        slopes, smallest = [f"{slope('Pegasos', k):.2f}" for k in looked], ""
        if np.sum(lambdas <= 1.01e-6) > 1:
            own = ", ".join(f"{slope('Pegasos', k, 1e-6):.2f}" for k in looked)
            smallest = f"; for λ ≤ 1e-6 the slopes are {own}"
            if abs(slope("Pegasos", -1, 1e-6) + 1.0) > 0.1:
                smallest += ", so that after the most steps it is not −1 even there"
        worst = found["SDCA"][0, -1] / found["Pegasos"][0, -1]
        return [
            Claim(
                "the suboptimality of Pegasos after a fixed number of steps is inversely proportional to λ",
                f"slope of log suboptimality against log λ for λ ≤ 1e-4 after n, 4 n … steps: {', '.join(slopes)}",
                -1.3 <= slope("Pegasos") <= -0.7,
                "so it is while λ times the steps is small" + smallest,
            ),
            Claim(
                "SDCA does not suffer from a small λ",
                f"its slope {slope('SDCA'):.2f}; at λ = {lambdas[0]:g} it is {worst:.1e} times as far off as Pegasos",
                slope("SDCA") > -0.5 and worst < 0.1,
                "it grows as λ falls, too",
            ),
        ]


EXPERIMENTS = [Table2(), Figure6()]
