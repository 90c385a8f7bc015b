"""Fig. 2 of the SBP paper: test error against kernel values, without a bias, and the size of the models.

``widemargin reproduce sbp``. Gaussian kernels and λ of Table 2; usps, which that table has not, with γ = 1/128,
C = 10. ν is that of the known optimum, as in the paper.

Settled before the runs:

- Nobody has a cache. SBP is charged a row of n for each draw. Pegasos, SDCA and the Perceptron are charged a value per
  support vector and step, or a row for each step that changes a coefficient, whichever is less by then. SMO as in the
  paper moves the one variable of the largest gain, and is charged a row each time; the library's SMO a row for each
  variable of each of its working sets.
- Every method runs until its charge is that of its set, :class:`Set`, or until it has passed so often over the data.
- SBP is Algorithm 1 (one draw per step, uniform average), the same with weights t, and the defaults (16 draws, weights
  t). Pegasos and SDCA have their last iterate, which is the paper's, and the average with weights t, which costs
  nothing; SDCA draws independently, as in the paper, or visits permutations. The Perceptron has its last iterate, and
  the average of all, on which the guarantee of its first pass rests.
- Curves are means over the runs; an error is reached at the first checkpoint with at most this mean. Checkpoints stand
  at the same charges for all, a quarter apart.
- The claims' criteria are in :meth:`Figure2.claims`. They were written before the runs on a9a, reuters and mnist, and
  after the first one on usps.

The values themselves are computed once, and shared, so that it does not take days.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.papers.frame import Claim, Experiment, canvas, markdown, rounded
from benchmarks.papers.pegasos_kernel import board, eight, mnist
from widemargin import SMO, StochasticBatchPerceptron
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.kernels.cache import RowCache
from widemargin.core.kernels.kernels import RBF
from widemargin.core.kernels.matrix import KernelMatrix
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import run
from widemargin.solvers.sbp import sbp
from widemargin.solvers.smo.rounds import add_kernel_rows
from widemargin.solvers.visits import loop as kernel_visits
from widemargin.solvers.visits.pegasos import KernelPegasos
from widemargin.solvers.visits.perceptron import KernelPerceptron
from widemargin.solvers.visits.sdca import KernelSDCA

#: The errors at which they are compared, relative to the optimum's.
SHARES = (1.5, 1.2, 1.1, 1.05, 1.03, 1.02, 1.01, 1.0)
#: Bytes for the kernel values that are computed once.
MEMORY = 4.3e9
#: Kernel values between training and test rows at a time.
AT_ONCE = 2**25


def usps_8():
    return eight("usps", 256)


@dataclass(frozen=True)
class Set:
    """Data, γ and C; runs; kernel values in units of n² that SBP, and that the others are charged at most; passes over
    the data at most, and those of the Perceptron; the paper's ν.
    """

    name: str
    files: tuple
    get: Any
    gamma: float
    C: float
    runs: int
    draws: float
    budget: float
    passes: int
    perceptron: int
    nu: float | None = None


REUTERS = Set(
    "reuters-money-fx", ("reuters-money-fx", "reuters-money-fx.t"), datasets.reuters, 1.0, 1.0, 10, 4.0, 4.0, 40, 40,
    6.34e-4,
)  # fmt: skip
ADULT = Set("a9a", ("a9a", "a9a.t"), datasets.a9a, 0.05, 1.0, 10, 1.25, 4.0, 10, 100, 1.10e-2)
USPS = Set("usps, 8", ("usps", "usps.t"), usps_8, 1 / 128, 10.0, 10, 4.0, 4.0, 40, 40)
MNIST = Set("mnist, 8", ("mnist", "mnist.t"), mnist, 0.02, 1.0, 10, 0.5, 4.0, 10, 10, 2.21e-4)
BOARD = Set("checkerboard, generated", (), board, 1.0, 1.0, 10, 4.0, 4.0, 40, 40)
SETS = {each.name: each for each in (REUTERS, ADULT, MNIST, USPS, BOARD)}


def judged(names):
    """Those of these sets by which claims are judged: the paper's own, or the generated one where there are none."""
    return [name for name in names if name != USPS.name]


def said_of(found, words):
    """What is said of each set, and beside that of those which are not the paper's."""
    own = judged(found)
    texts = {name: f"{name} {words(*found[name])}" for name in found}
    beside = [text for name, text in texts.items() if name not in own]
    return ", ".join(texts[name] for name in own) + "".join(f" (beside, not judged: {text})" for text in beside)


def sets_here(quick):
    """The sets whose files are there; a generated one if there are none. A trial has a thousand rows of each."""
    here = [each for each in (REUTERS, ADULT, MNIST, USPS) if datasets.has(*each.files)] or [BOARD]
    return [replace(each, runs=2, draws=1.0, budget=1.0, passes=5, perceptron=5) for each in here] if quick else here


class Task:
    """A set: its problem, the kernel rows that all runs share, and test errors."""

    def __init__(self, which, rows=None):
        self.which = which
        self.X, self.y, self.Z, self.t = (part[:rows] for part in which.get())
        self.kernel, self.n = RBF(which.gamma), self.y.size

    @cached_property
    def problem(self):
        hinge = losses.Single(losses.Hinge())
        return KernelProblem(
            self.kernel, as_rows(self.X), self.y, hinge, 1.0 / (self.which.C * self.n), intercept="none"
        )

    @cached_property
    def rows(self):
        """Kernel rows, as many as fit."""
        everything = np.arange(self.n)
        return RowCache(self.problem.matrix(everything, everything), MEMORY)

    def begin(self, solver, rng):
        """A state whose kernel rows are the shared ones."""
        state = solver.init(self.problem, rng)
        if isinstance(solver, StochasticBatchPerceptron):
            space = sbp.SBPWorkspace(replace(self.problem, cache_bytes=0))
            space.cache = self.rows
        else:
            space = kernel_visits.VisitWorkspace(self.rows, np.ones(self.n))  # K(x, x) = 1
        state.workspace = self.problem, space
        return state

    def errors(self, coefficients):
        """Test errors of Σ cᵢΦ(xᵢ) for each row of coefficients."""
        used = np.flatnonzero(np.any(coefficients != 0.0, axis=0))
        Z, scores = as_rows(self.Z), np.zeros((len(coefficients), self.t.size))
        height = max(16, AT_ONCE // self.t.size)
        for first in range(0, used.size, height):
            some = used[first : first + height]
            matrix = KernelMatrix(self.kernel, as_rows(self.X[some]), Z, dtype=np.float32)
            scores += coefficients[:, some].astype(np.float32) @ matrix.block(np.arange(some.size))
        return np.mean(np.where(scores > 0.0, 1.0, -1.0) != self.t, axis=1)


def charges(n, budget):
    """The charges of the checkpoints."""
    stops = n * 16.0 * 1.25 ** np.arange(200)
    return [*stops[stops < budget * n * n], budget * n * n]


# ---------------------------------------------------------------- runs: (charges, passes, coefficients) by output


class UniformAverage:
    """Σ α of the iterates of a run with one draw per step, kept lazily beside the solver's own average.

    α = scale × a, and the sum is total × a − late.
    """

    def __init__(self, n):
        self.a, self.late, self.scale, self.total = np.zeros(n), np.zeros(n), 1.0, 0.0

    def note(self, step, state):
        """A step of this size was made."""
        i = state.drawn[0, 0]
        delta = step / self.scale
        self.a[i] += delta
        self.late[i] += self.total * delta
        self.scale = state.scale[0] * state.alpha[0, i] / self.a[i]
        self.total += self.scale
        if self.scale < 1e-2:  # a small scale costs digits
            self.late -= self.total * self.a
            self.a *= self.scale
            self.scale, self.total = 1.0, 0.0

    @property
    def sum(self):
        return sbp.without_rounding((self.total * self.a - self.late)[None])[0]


def draws_run(task, solver, rng, also_uniform=False):
    """SBP, with the solver's average, and perhaps with the uniform one."""
    state, uniform = task.begin(solver, rng), UniformAverage(task.n)
    found = {"own": [], "uniform": []} if also_uniform else {"own": []}
    for stop in charges(task.n, task.which.draws):
        target = max(1, int(stop / (task.n * solver.batch_size)))
        while state.t < target:
            if also_uniform:
                solver.advance(task.problem, state, 1)
                uniform.note(1.0 / np.sqrt(state.t), state)
            else:
                solver.advance(task.problem, state, target - state.t)
        draws = state.t * solver.batch_size
        outputs = solver.averages(state)[0][0], uniform.sum if also_uniform else None
        for kept, alpha in zip(found.values(), outputs):
            kept.append((draws * task.n, draws / task.n, (task.y * alpha).astype(np.float32)))
    return found


def visits_run(task, solver, rng, weight):
    """Methods that visit one example at a time: the last iterate, and the average with weights weight(t)."""
    state, found, n = task.begin(solver, rng), {"last": [], "mean": []}, task.n
    passes = task.which.perceptron if isinstance(solver, KernelPerceptron) else task.which.passes
    # the Perceptron's hundred passes are not cut; a pass is charged n² at most
    budget = passes if passes > task.which.passes else task.which.budget
    by_vectors, by_changes, charged, total = 0, 0, 0, np.zeros(n)
    for stop in charges(n, budget):
        while charged < stop and state.t < passes * n:
            # between checkpoints the number of support vectors is followed in small portions
            portion, before, updates = max(8, state.t // 128), np.count_nonzero(state.beta), state.counters.updates
            solver.advance(task.problem, state, portion)
            by_vectors += portion * (before + np.count_nonzero(state.beta)) // 2
            by_changes += n * (state.counters.updates - updates)
            charged = min(by_vectors, by_changes)
            total += portion * weight(state.t) * state.beta[0]
        for kept, coefficients in zip(found.values(), (state.beta[0], total / max(1.0, np.abs(total).max()))):
            kept.append((charged, state.t / n, coefficients.astype(np.float32)))
    return found


@compiled
def best_move(y, f, alpha, C):
    """The variable whose exact move raises the dual most, and that move of yα; K(x, x) = 1."""
    best, i, move = 0.0, 0, 0.0
    for v in range(y.size):
        e = y[v] - f[v]
        t = min(max(alpha[v] + y[v] * e, 0.0), C) - alpha[v]
        gain = t * y[v] * e - 0.5 * t * t
        if gain > best:
            best, i, move = gain, v, y[v] * t
    return i, move


def smo_run(task):
    """SMO without a bias as in the paper: one variable at a time, and no cache."""
    n, C, rows = task.n, task.which.C, task.rows
    f, alpha, steps, found = np.zeros(n), np.zeros(n), 0, []
    for stop in charges(n, task.which.draws):
        while steps < stop / n:
            i, move = best_move(task.y, f, alpha, C)
            alpha[i] = min(max(alpha[i] + task.y[i] * move, 0.0), C)
            add_kernel_rows(rows.rows, rows.fetch(np.array([i])), np.array([move]), f)
            steps += 1
        found.append((steps * n, steps / n, (task.y * alpha).astype(np.float32)))
    return {"last": found}


def equal(t):
    return 1.0


#: (name, its runs, what the outputs are called): runs(task, ν, generator).
RUNS = {
    "SBP": (
        lambda task, nu, rng: draws_run(task, StochasticBatchPerceptron(nu=nu, batch_size=1), rng, True),
        ("SBP, weights t", "SBP, Algorithm 1"),
    ),
    "SBP, 16 draws": (
        lambda task, nu, rng: draws_run(task, StochasticBatchPerceptron(nu=nu), rng),
        ("SBP, 16 draws",),
    ),
    # w = β/(λt), so that weights t are equal ones for β
    "Pegasos": (
        lambda task, nu, rng: visits_run(task, KernelPegasos(), rng, equal),
        ("Pegasos", "Pegasos, mean"),
    ),
    "SDCA": (
        lambda task, nu, rng: visits_run(task, KernelSDCA("iid", shrinking=False), rng, float),
        ("SDCA", "SDCA, mean"),
    ),
    "SDCA, permutations": (
        lambda task, nu, rng: visits_run(task, KernelSDCA(shrinking=False), rng, float),
        ("SDCA, permutations", "SDCA, permutations, mean"),
    ),
    "Perceptron": (
        lambda task, nu, rng: visits_run(task, KernelPerceptron(), rng, equal),
        ("Perceptron", "Perceptron, mean"),
    ),
    "SMO": (lambda task, nu, rng: smo_run(task), ("SMO",)),
}

#: What each row of the table draws or visits, and what it outputs; those of the paper's figure come first.
ROWS = {
    "SBP, Algorithm 1": ("1 draw", "uniform average"),
    "Pegasos": ("i.i.d.", "last iterate"),
    "SDCA": ("i.i.d.", "last iterate"),
    "Perceptron": ("permutations", "last iterate"),
    "SMO": ("largest gain", "last iterate"),
    "SBP, weights t": ("1 draw", "average, weights t"),
    "SBP, 16 draws": ("16 draws", "average, weights t"),
    "Pegasos, mean": ("i.i.d.", "average, weights t"),
    "SDCA, mean": ("i.i.d.", "average, weights t"),
    "SDCA, permutations": ("permutations", "last iterate"),
    "SDCA, permutations, mean": ("permutations", "average, weights t"),
    "Perceptron, mean": ("permutations", "uniform average"),
    "SMO, working sets": ("the library's", "last iterate"),
}
#: Rows of the upper pictures.
AS_PRINTED = tuple(ROWS)[:5]


def curves_of(task, method, nu):
    """For each output: rows of (charge, error, vectors, passes), means over the runs; mean and deviation at the end."""
    once, names = RUNS[method]
    runs = 1 if method == "SMO" else task.which.runs
    found = [once(task, nu, np.random.default_rng(seed)) for seed in range(runs)]
    curves, ends = {}, {}
    for name, output in zip(names, found[0]):
        own = [each[output] for each in found]
        errors = task.errors(np.stack([row[2] for each in own for row in each])).reshape(runs, -1)
        sizes = [[np.count_nonzero(row[2]) for row in each] for each in own]
        spent = [[row[:2] for row in each] for each in own]
        means = np.mean(spent, axis=0), errors.mean(axis=0), np.mean(sizes, axis=0)
        curves[name] = [rounded((c, e, s, p)) for (c, p), e, s in zip(*means)]
        ends[name] = rounded((errors[:, -1].mean(), errors[:, -1].std()))
    return {"runs": runs, "curves": curves, "ends": ends}


def optimum_of(task):
    """ν, error and vectors of the optimum, by the library's SMO, and its curve as if it had no cache."""
    kept = []

    def coefficients(model):
        c = np.zeros(task.n, np.float32)
        c[model.support] = model.coef[0]
        return c

    def keep(progress):
        model = progress.model()
        kept.append((progress.row["kernel_evals"], model.support.size, coefficients(model)))

    problem = replace(task.problem, cache_bytes=2**30)
    outcome = run(SMO(tol=1e-4), problem, rng=np.random.default_rng(0), tol=1e-4, max_epochs=1000, callbacks=[keep])
    state = outcome.state
    margins = task.y * state.f
    norm, hinge = np.sqrt(state.alpha @ margins), np.mean(np.maximum(0.0, 1.0 - margins))
    errors = task.errors(np.stack([*(row[2] for row in kept), coefficients(outcome.model)]))
    smo = [rounded((values, error, size, 0.0)) for (values, size, _), error in zip(kept, errors)]
    found = {"n": task.n, "nu": float(hinge / norm), "error": float(errors[-1]), "vectors": outcome.model.support.size}
    return {**found, "smo": smo}


# ---------------------------------------------------------------- the figure


def first_at(rows, error):
    """Kernel values, and vectors, at the first checkpoint with at most this error; five digits of errors are kept."""
    most = error * (1.0 + 5e-5)
    return next(((values, size) for values, found, size, _ in rows if found <= most), (np.inf, np.inf))


def error_at(rows, values):
    """The error at the last checkpoint with at most this charge, or at the first one."""
    return ([rows[0][1]] + [found for charge, found, _, _ in rows if charge <= values * (1.0 + 1e-9)])[-1]


class Figure2(Experiment):
    paper, name = "sbp", "Figure 2"
    shows = (
        "test error against kernel values without a bias, on Reuters, Adult and MNIST: SBP needs fewer than Pegasos "
        "and SDCA, SMO makes little progress until it converges rapidly, and the Perceptron overfits on Adult."
    )
    setting = (
        "reuters-money-fx, a9a and mnist (8 against the rest) with γ and λ of Table 2, by which claims are judged, and "
        "beside them usps (8, γ = 1/128, C = 10), which the paper has not; all rows; ten runs; ν of the known optimum. "
        "Nobody has a cache: SBP pays a row for each draw, and so does SMO for each move; Pegasos, SDCA and the "
        "Perceptron a value for a vector and step, or a row for each change, whichever is less. They stop at 4 n² "
        "values (SBP and SMO on a9a 1.25 n², on mnist 0.5 n²), or after 40 passes (a9a, mnist: 10; the Perceptron on "
        "a9a: 100). Upper row: the methods as in the paper, the Perceptron dashed after its first pass. "
        "Lower row: their other forms."
    )
    differences = (
        "The claims are of errors within 3 % above the optimum's. Further out Pegasos or SDCA often need fewer values "
        "than Algorithm 1, whose draws cost n each. To 50 % above they need, over n, 16 against 31 on "
        "reuters-money-fx, 16 against 39 on a9a, 1,120 against 1,734 on mnist; to 20 % above SDCA needs 20 against 186 "
        "on a9a.",
        "SMO without a cache needs fewer values than Algorithm 1 to the optimum's error on a9a, usps and mnist: its "
        "late, rapid convergence is the paper's, too.",
        "On a9a the averages of Pegasos and SDCA, which the paper does not show, are within 3 % of the optimum for as "
        "many values as 120 draws of SBP, which needs 2,160 to 4,235.",
        "On a9a the Perceptron's last iterate is noisy: with five runs its mean ended a tenth above the best one, and "
        "was said to overfit; with ten it ends within a tenth.",
        "The default's 16 draws a step lose to one on reuters-money-fx, usps and mnist, where few points are under "
        "water and a batch repeats them, and win on a9a.",
        "On reuters-money-fx SBP is below the optimum's error after 149 or 186 draws, and ends above it; the "
        "Perceptron goes further below.",
        "On mnist 3 % of the optimum's error are two test images.",
        "The library's SMO moves hundreds of variables at a time and counts on a cache; without one it pays for the "
        "rows of each working set again.",
        "Since the first version of this page Pegasos and the Perceptron, too, may pay by the change, and SDCA and SMO "
        "have forms nearer to the paper's.",
    )

    def run(self, kept, quick):
        for which in sets_here(quick):
            made = []

            def task():
                if not made:
                    made.append(Task(which, 1000 if quick else None))
                return made[0]

            optimum = kept.get(f"{which.name}: optimum", lambda: optimum_of(task()))
            for method in RUNS:
                kept.get(f"{which.name}: {method}", lambda: curves_of(task(), method, optimum["nu"]))

    def read(self, parts):
        """{set: (optimum, curves by row, ends by row, runs)}."""
        found = {}
        for name in SETS:
            if f"{name}: optimum" in parts:
                optimum, curves, ends = parts[f"{name}: optimum"], {}, {}
                for method in RUNS:
                    part = parts[f"{name}: {method}"]
                    curves.update(part["curves"])
                    ends.update(part["ends"])
                curves["SMO, working sets"] = optimum["smo"]
                ends["SMO, working sets"] = (optimum["error"], 0.0)
                found[name] = optimum, curves, ends, parts[f"{name}: SBP"]["runs"]
        return found

    def table(self, parts):
        rows, told = [], []
        for name, (optimum, curves, ends, runs) in self.read(parts).items():
            n, final = optimum["n"], optimum["error"]
            for label, (drawn, output) in ROWS.items():
                needed = [first_at(curves[label], share * final)[0] / n for share in SHARES]
                cells = ["–" if np.isinf(each) else f"{each:,.0f}" for each in needed]
                size = first_at(curves[label], final)[1] / optimum["vectors"]
                mean, spread = (100 * each for each in ends[label])
                end = f"{mean:.2f} ± {spread:.2f} %" if not label.startswith("SMO") else f"{mean:.2f} %"
                method = label.split(",")[0]
                size = "–" if np.isinf(size) else f"{size:.2f}"
                rows.append([name, method, drawn, output, *cells, size, end])
            size = f"{n:,} rows, {runs} runs, ν = {optimum['nu']:.3g}, {optimum['vectors']:,} vectors"
            told.append(f"{name}: {size}, {100 * final:.2f} %")
        above = [f"{100 * (share - 1):.0f} % above" for share in SHARES[:-1]]
        head = [
            "data",
            "method",
            "draws or visits",
            "output",
            *above,
            "the optimum's",
            "vectors there / optimum's",
            "at the end",
        ]
        below = "Kernel values / n to a test error relative to the optimum's. – : not within the budget."
        return f"{markdown(head, rows)}\n\n{below} The optimum: {'; '.join(told)}."

    def figure(self, parts):
        read = self.read(parts)
        figure, axes = canvas(2, len(read), 3.6, 3.2)
        for column, (name, (optimum, curves, _, _)) in zip(axes.T, read.items()):
            for label in ROWS:
                axis, points = column[0 if label in AS_PRINTED else 1], np.array(curves[label])
                first = points[:, 3] <= 1.0 if label == "Perceptron" else np.ones(len(points), bool)
                (line,) = axis.plot(*points[first, :2].T / [[optimum["n"]], [0.01]], label=label, linewidth=1.1)
                if not first.all():
                    later = points[max(0, first.sum() - 1) :, :2].T / [[optimum["n"]], [0.01]]
                    axis.plot(*later, "--", color=line.get_color(), linewidth=1.1)
            final = 100 * optimum["error"]
            for axis in column:
                axis.axhspan(final, 1.03 * final, color="0.9")
                axis.set(xscale="log", ylim=(0.9 * final, min(3.0, 1.0 + 12 / final) * final))
            column[0].set_title(name)
            column[1].set_xlabel("kernel values / n")
        for axis in axes[:, 0]:
            axis.set_ylabel("test error, %")
        for axis in axes[:, -1]:
            axis.legend(frameon=False, fontsize=6)
        return figure

    def claims(self, parts):
        """Criteria: see the texts. Errors within 3 % above the optimum's are looked at in 61 steps."""
        read = self.read(parts)

        def beaten(ours, rivals):
            """What is told of each set, and whether ``ours`` needs fewer everywhere."""
            told, everywhere = {}, True
            for name, (optimum, curves, _, _) in read.items():
                errors = optimum["error"] * np.linspace(1.0, 1.03, 61)
                own = np.array([first_at(curves[ours], error)[0] for error in errors])
                more, undecided = [], []
                for rival in rivals:
                    other = np.array([first_at(curves[rival], error)[0] for error in errors])
                    if np.any((other <= own) & np.isfinite(other)):
                        more.append(f"“{rival}”")
                    elif not np.all(own < other):
                        undecided.append(f"“{rival}”")
                everywhere &= name not in judged(read) or not more + undecided
                found = "all" if not more else f"all but {', '.join(more)}"
                found += f", where neither it nor {', '.join(undecided)} reach all of them" * bool(undecided)
                told[name] = (found,)
            return said_of(told, str), everywhere

        pair = "SBP, Algorithm 1", ("Pegasos", "SDCA")
        told, printed = beaten(*pair)
        told += f". Further out, which is not judged, who needs fewer: {self.further(read, *pair)}"
        forms = [label for label in ROWS if label.startswith(("Pegasos", "SDCA"))]
        told_best, best = beaten("SBP, weights t", forms)
        sizes = {
            name: (first_at(curves["SBP, weights t"], optimum["error"])[1] / optimum["vectors"],)
            for name, (optimum, curves, _, _) in read.items()
        }
        return [
            Claim(
                "SBP outperforms Pegasos and SDCA, in kernel values",
                "to every error within 3 % above the optimum's Algorithm 1 needs fewer than their last iterates, with "
                f"independent draws: {told}",
                printed,
                "SDCA has the optimum's error sooner on mnist",
            ),
            Claim(
                "the same, each at its best (our question)",
                f"the same with weights t, and all {len(forms)} forms of Pegasos and SDCA: {told_best}",
                best,
                "on a9a averages of a few thousand visits are near the optimum, where a draw of SBP costs 32,561 "
                "values; on mnist SBP ends a test image or two above it",
            ),
            *self.claims_about_rivals(read),
            Claim(
                "dual feasibility is not maintained, which may make its models sparser",
                "vectors at the optimum's error over the optimum's, weights t: "
                + said_of(sizes, lambda size: "never there" if np.isinf(size) else f"{size:.3f}"),
                max(sizes[name][0] for name in judged(read)) < 1.0,
                "on a9a there are as many, and on mnist the mean of the runs does not get there",
            ),
        ]

    def further(self, read, ours, rivals):
        """Who needs no more than ``ours`` to the errors of the table that are not judged."""
        told = []
        for share in (each for each in SHARES if each > 1.03):
            sooner = []
            for name, (optimum, curves, _, _) in read.items():
                own, *others = (first_at(curves[label], share * optimum["error"])[0] for label in (ours, *rivals))
                who = [f"“{rival}”" for rival, other in zip(rivals, others) if other <= own and np.isfinite(other)]
                sooner += [f"{name} {', '.join(who)}"] * bool(who)
            told.append(f"{100 * (share - 1):.0f} % above: {'; '.join(sooner) or 'nobody'}")
        return ". ".join(told)

    def claims_about_rivals(self, read):
        """SMO, the Perceptron, and ν."""
        early, similar, improved, nus = {}, {}, {}, []
        for name, (optimum, curves, _, _) in read.items():
            final = optimum["error"]
            quarter = first_at(curves["SMO"], 1.03 * final)[0] / 4
            early[name] = [error_at(curves[label], quarter) / final for label in ("SMO", "SBP, Algorithm 1")]
            ends = []
            for label in ("Perceptron", "Perceptron, mean"):
                once = [row for row in curves[label] if row[3] <= 1.0][-1]
                ends.append(once[1] / error_at(curves["SBP, Algorithm 1"], once[0]))
            similar[name] = ends
            improved[name] = [curves[label][-1][1] for label in ("SBP, Algorithm 1", "Perceptron", "Perceptron, mean")]
            if SETS[name].nu:
                nus.append((name, optimum["nu"], SETS[name].nu))
        ahead = [name for name in judged(read) if not early[name][0] > max(1.5, early[name][1])]
        apart = [name for name in judged(read) if min(abs(end - 1.0) for end in similar[name]) > 0.2]
        lower = [name for name in judged(read) if not improved[name][0] < min(improved[name][1:])]
        claims = [
            Claim(
                "SMO makes little progress until a critical point, and should not be stopped early",
                "error over the optimum's at a quarter of the values that bring SMO within 3 % of it, SMO and SBP: "
                + said_of(early, lambda own, ours: f"{own:.2f} and {ours:.2f}"),
                not ahead,
                f"on {' and '.join(ahead)} SBP is no nearer by then",
            ),
            Claim(
                "the Perceptron's error is similar to that of SBP for the first pass",
                "its error after a pass over that of Algorithm 1 for as many values, last iterate and average: "
                + said_of(similar, lambda last, mean: f"{last:.2f} and {mean:.2f}")
                + "; similar is within a fifth, for one of the two",
                not apart,
                f"on {' and '.join(apart)} both are further from it",
            ),
            Claim(
                "SBP goes on improving, and ends below the Perceptron",
                "errors in the end, Algorithm 1, Perceptron, its average: "
                + said_of(improved, lambda *ends: " / ".join(f"{100 * each:.2f}" for each in ends) + " %"),
                not lower,
                f"on {' and '.join(lower)} the Perceptron's average ends below the SVM's own optimum",
            ),
        ]
        if "a9a" in read:
            curves, (_, spread) = read["a9a"][1], read["a9a"][2]["Perceptron"]
            rows, mean = curves["Perceptron"], curves["Perceptron, mean"]
            lowest, once = min(row[1] for row in rows), [row for row in rows if row[3] <= 1.0][-1][1]
            claims.append(
                Claim(
                    "the Perceptron overfits on Adult",
                    f"a9a: {100 * once:.2f} % after a pass, at best {100 * lowest:.2f} %, {100 * rows[-1][1]:.2f} % "
                    f"after {rows[-1][3]:.0f} passes; its average {100 * min(row[1] for row in mean):.2f} % at best, "
                    f"{100 * mean[-1][1]:.2f} % in the end. To overfit is to end a tenth above the best last iterate",
                    rows[-1][1] >= 1.1 * lowest,
                    f"its last iterate is noisy, ±{100 * spread:.2f} at the end; its average ends at "
                    f"{mean[-1][1] / min(row[1] for row in mean):.2f} times its best",
                )
            )
        if nus:
            claims.append(
                Claim(
                    "Table 2: ν of the optimum",
                    ", ".join(f"{name} {own:.3g} ({paper:.3g} in the paper)" for name, own, paper in nus)
                    + "; equal is within 5 %",
                    all(abs(own / paper - 1.0) <= 0.05 for _, own, paper in nus),
                    "another set of documents and weights than the paper's Reuters",
                )
            )
        return claims


EXPERIMENTS = [Figure2()]
