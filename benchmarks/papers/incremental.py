"""The figures of the tracking paper: Usunier, Bordes, Bottou, Guarantees for Approximate Incremental SVMs (2010).

``python -m benchmarks.papers.incremental [fig2] [fig2_mnist] [fig3] … [fig6] [--runs=10] [--rows=N]`` runs what is
missing in ``benchmarks/results/incremental_fig*.json``, which are written after each run. ``… draw`` makes
``docs/incremental.svg`` of them and prints the tables. Fig. 1 is no experiment: one example, of which all is known.

Settled before the runs:

- The paper's Table 1: a9a (its ADULT) with C = 1 and γ = 0.005; mnist scaled to [0, 1], 8 against the rest, with
  C = 1000 and γ = 0.005. No bias. REPROCESS draws its steps, and the output is the mean of the K iterates before them.
- Run r of ten has shuffle r of the training rows, the same one for all set-ups. Curves are means over the runs, tables
  have means and standard deviations.
- The streams are cut: the first 10,000 examples of a shuffle of a9a for Figs. 2 and 4, 5,000 for Fig. 3, 5,000
  examples of mnist for Fig. 2 and 2,500 labels for Figs. 5 and 6. Active selection draws its 50 from all training rows
  that are left, cut or not.
  ``--rows=N`` cuts elsewhere and ``--rows=0`` takes all, which needs hours.
- Figs. 2 to 4: the gap (P − D)/(Ct) of the output, a hundred times along the stream. Its mean over the stream is that
  of these hundred. The tables have that of the last iterate, too.
- Fig. 3 has, added after the first runs to see why the gap did not fall as in the paper, active selection from 5,000
  rows only, those of the random stream, until all are taken.
- Figs. 5 and 6 are of the same runs.
- Fig. 6 charges Algorithm 1 for each kernel value once, as if all were kept: those between the examples seen and those
  that ever had α > 0, which its responses take. The values by which active selection scores its pool are charged in
  three ways: not at all, which seems to be the paper's; once, for each training row that was ever in a pool and
  each example that ever had α > 0; or in each round anew, for the support vectors of the output.
- The batch counterpart, updates on examples drawn from all 60,000, is ``KernelSDCA`` with such draws. It is charged a
  value per support vector and step, or a row of 60,000 for each example that ever had α > 0, whichever is less by then,
  and stops at 600 times 60,000. Its output is the last iterate.

Added when the batch runs were seen, in which single runs jump to errors of up to 58 %: their median over the runs, and
the error of the last iterate of Algorithm 1. A trial run of Fig. 5 with 3,000 labels took too long and set its cut.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import sys
import time
from functools import partial

import numpy as np

from benchmarks import datasets
from widemargin import Tracker
from widemargin.core import losses
from widemargin.core.kernels import RBF
from widemargin.core.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.kernel_sdca import KernelSDCA
from widemargin.teaching import Pool

GAMMA = 0.005
CACHE = 2.5 * 2**30
RESULTS = datasets.ROOT / "benchmarks" / "results"
HINGE = losses.Single(losses.Hinge())
#: Looks along a stream.
LOOKS = 100
POOL = 50
#: Kernel values at which the batch method stops, in units of the 60,000 rows.
BATCH_BUDGET = 600.0


def a9a():
    X, y, _, _ = datasets.a9a()
    return X.toarray(), y


def mnist_8():
    (X, y), (Z, t) = datasets.load("mnist", 784), datasets.load("mnist.t", 784)
    return X.toarray() / 255, np.where(y == 8, 1.0, -1.0), Z.toarray() / 255, np.where(t == 8, 1.0, -1.0)


def problem_of(X, y, C):
    """The problem of these rows, for a C that does not depend on their number."""
    return KernelProblem(RBF(GAMMA), as_rows(X), y, HINGE, 1.0 / (C * y.size), intercept="none", cache_bytes=CACHE)


def tracker(algorithm, K):
    return Tracker(algorithm, "random", K, average=True)


# ---------------------------------------------------------------- gaps


def gap(beta, e, y, C):
    """Eq. (4) over C t."""
    return float(
        np.sum(np.maximum((np.maximum(C * y, 0) - beta) * e, (np.minimum(C * y, 0) - beta) * e)) / (C * y.size)
    )


def gaps(solver, problem, state, C):
    """The normalised gaps of the output and of the last iterate, for the examples seen."""
    t = state.known
    beta, e, y = state.beta[0, :t], state.e[0, :t], problem.signs[0, :t]
    mean = solver.duals(problem, state)[0, :t]
    moved = np.flatnonzero(mean != beta)
    found = e.copy()
    if moved.size:
        values = problem.matrix(moved, np.arange(t)).block(np.arange(moved.size))
        found -= (mean - beta)[moved] @ values
    return gap(mean, found, y, C), gap(beta, e, y, C)


def gap_curve(X, y, C, algorithm, K, T, run):
    """(examples, gap of the output, gap of the last iterate) along a stream in random order."""
    rng, solver = np.random.default_rng(run), tracker(algorithm, K)
    order = rng.permutation(y.size)[:T]
    problem = problem_of(X[order], y[order], C)
    state, found = solver.init(problem, rng), []
    for stop in looks(order.size):
        solver.advance(problem, state, stop - state.known)
        found.append((stop, *gaps(solver, problem, state, C)))
    return found


def looks(T):
    return sorted({max(1, round(T * k / LOOKS)) for k in range(1, LOOKS + 1)})


def brief(values):
    return [float(f"{value:.4g}") for value in values]


def of_gaps(found):
    t, output, last = zip(*found, strict=True)
    return {"t": list(t), "gap": brief(output), "mean": float(np.mean(output)), "mean_last": float(np.mean(last))}


# ---------------------------------------------------------------- streams that a teacher chooses


class Learner:
    """Algorithm 1 on examples that are chosen one by one, with the kernel values it is charged."""

    def __init__(self, X, y, C, K, T, rng):
        self.X, self.y, self.C, self.rng, self.solver = X, y, C, rng, tracker("random", K)
        self.rows, self.labels, self.chosen = np.empty((T, X.shape[1]), X.dtype), np.empty(T), np.empty(T, int)
        self.ever, self.state, self.t = np.zeros(T, bool), None, 0
        self.pool_values = self.pool_once = 0
        self.scored = np.zeros(y.size, int)

    def learn(self, i):
        t = self.t
        self.rows[t], self.labels[t], self.chosen[t] = self.X[i], self.y[i], i
        self.t = t + 1
        self.problem = problem_of(self.rows[: t + 1], self.labels[: t + 1], self.C)
        if self.state is None:
            self.state = self.solver.init(self.problem, self.rng)
        self.solver.bind(self.problem, self.state)
        self.solver.advance(self.problem, self.state, 1)
        self.ever[self.state.trail_slot[0, : self.state.trailed[0]]] = True

    @property
    def values(self):
        """Pairs of examples seen of which one ever had α > 0."""
        S = int(self.ever.sum())
        return S * (self.t - S) + S * (S - 1) // 2

    def margins(self, places):
        """|f| of some training rows, whose kernel values are charged."""
        if self.state is None:
            return np.zeros(places.size)
        examples, coefficients = self.solver.coefficients(self.state)
        S = int(self.ever.sum())
        self.pool_values += places.size * examples.size
        self.pool_once += int(np.sum(S - self.scored[places]))
        self.scored[places] = S
        return np.abs(coefficients[0] @ rbf(self.rows[examples], self.X[places]))


def rbf(A, B):
    squares = np.einsum("ij,ij->i", A, A)[:, None] + np.einsum("ij,ij->i", B, B) - 2.0 * A @ B.T
    return np.exp(-GAMMA * np.maximum(squares, 0.0))


def lesson(X, y, C, K, active, T, run):
    """Yields the learner after each example."""
    rng = np.random.default_rng(run)
    pool, order = Pool(X, rng), rng.permutation(y.size)
    learner = Learner(X, y, C, K, T, rng)
    for t in range(T):
        if active:
            drawn = pool.draw(POOL)
            i = int(drawn[np.argmin(learner.margins(drawn))])
            pool.remove(i)
        else:
            i = int(order[t])
        learner.learn(i)
        yield learner


class Judge:
    """Test errors, with kernel values between vectors and test rows kept."""

    def __init__(self, X, Z, t):
        self.X, self.Z, self.t = X, Z, t
        self.kept = {}

    def error(self, examples, coefficients):
        new = np.array([i for i in examples.tolist() if i not in self.kept], int)
        for part in np.array_split(new, max(1, new.size // 64)):
            if part.size:
                self.kept.update(zip(part.tolist(), rbf(self.X[part], self.Z), strict=True))
        scores = np.zeros(self.t.size)
        for i, c in zip(examples.tolist(), coefficients, strict=True):
            scores += c * self.kept[i]
        return float(np.mean(np.where(scores > 0, 1.0, -1.0) != self.t))


def test_curve(X, y, Z, z, C, K, active, T, run):
    """(labels, error of the output, of the last iterate, kernel values, the pool's once, the pool's, vectors)."""
    stops = sorted({min(T, int(10 * 1.25**k)) for k in range(60)})
    judge, found = Judge(X, Z, z), []
    for learner in lesson(X, y, C, K, active, T, run):
        if learner.t in stops:
            examples, coefficients = learner.solver.coefficients(learner.state)
            beta = learner.state.beta[0, : learner.t]
            error = judge.error(learner.chosen[examples], coefficients[0])
            last = judge.error(learner.chosen[: learner.t][beta != 0], beta[beta != 0])
            spent = learner.values, learner.pool_once, learner.pool_values
            found.append((learner.t, error, last, *spent, examples.size))
    return found


def batch_curve(X, y, Z, z, C, run):
    """(steps, error, kernel values, support vectors) of the batch method."""
    rng, solver = np.random.default_rng(run), KernelSDCA(sampling="iid", shrinking=False)
    problem, judge, found = problem_of(X, y, C), Judge(X, Z, z), []
    state, by_vectors, charged, ever = solver.init(problem, rng), 0, 0, np.zeros(y.size, bool)
    for stop in 1e4 * 1.5 ** np.arange(60):
        while charged < min(stop, BATCH_BUDGET * y.size):
            portion = max(1, state.t // 64)
            by_vectors += portion * int(np.count_nonzero(state.beta))
            solver.advance(problem, state, portion)
            ever |= state.beta[0] != 0
            charged = min(by_vectors, int(ever.sum()) * y.size)
        examples = np.flatnonzero(state.beta[0])
        found.append((int(state.t), judge.error(examples, state.beta[0, examples]), charged, examples.size))
        if charged >= BATCH_BUDGET * y.size:
            return found


# ---------------------------------------------------------------- figures


def fig2(rows, get=a9a, C=1.0):
    X, y = get()[:2]

    def one(algorithm, K, run):
        return of_gaps(gap_curve(X, y, C, algorithm, K, rows or y.size, run))

    for number, algorithm in ((1, "random"), (2, "process")):
        for K in (1, 5, 10, 20):
            yield f"Algorithm {number}, K = {K}", partial(one, algorithm, K)


def fig3(rows):
    X, y = a9a()
    T = rows or y.size
    stops = set(looks(T))

    def one(K, active, cut, run):
        among = np.random.default_rng(run).permutation(y.size)[:T] if cut else slice(None)
        return of_gaps(
            [
                (learner.t, *gaps(learner.solver, learner.problem, learner.state, 1.0))
                for learner in lesson(X[among], y[among], 1.0, K, active, T, run)
                if learner.t in stops
            ]
        )

    for K in (10, 100):
        yield f"random, K = {K}", partial(one, K, False, False)
        yield f"active, K = {K}", partial(one, K, True, False)
    yield f"active of {T:,}, K = 10", partial(one, 10, True, True)


def fig4(rows):
    X, y = a9a()

    def one(K, run):
        found = of_gaps(gap_curve(X, y, 1.0, "random", K, rows or y.size, run))
        return {name: found[name] for name in ("mean", "mean_last")}

    for K in (1, 2, 5, 10, 20, 50, 100, 200):
        yield f"K = {K}", partial(one, K)


def fig5(rows):
    X, y, Z, z = mnist_8()
    names = ("labels", "error", "last", "values", "pool_once", "pool", "vectors")

    def one(K, active, run):
        found = test_curve(X, y, Z, z, 1000.0, K, active, rows or y.size, run)
        return dict(zip(names, map(list, zip(*found, strict=True)), strict=True))

    for K in (10, 100):
        for active in (False, True):
            yield f"{'active' if active else 'random'}, K = {K}", partial(one, K, active)


def fig6(rows):
    X, y, Z, z = mnist_8()

    def one(run):
        found = batch_curve(X, y, Z, z, 1000.0, run)
        return dict(zip(("steps", "error", "values", "vectors"), map(list, zip(*found, strict=True)), strict=True))

    yield "batch", one


#: What is run, and where its stream is cut; the batch method of Fig. 6 has all rows.
FIGURES = {
    "fig2": (fig2, 10_000),
    "fig2_mnist": (partial(fig2, get=mnist_8, C=1000.0), 5_000),
    "fig3": (fig3, 5_000),
    "fig4": (fig4, 10_000),
    "fig5": (fig5, 2_500),
    "fig6": (fig6, 0),
}


def held(figure):
    path = RESULTS / f"incremental_{figure}.json"
    return path, json.loads(path.read_text()) if path.exists() else None


def execute(figure, runs, rows):
    """Run what is missing of a figure."""
    set_ups, cut = FIGURES[figure]
    rows = cut if rows is None or figure == "fig6" else rows
    path, known = held(figure)
    known = known or {"rows": rows, "runs": []}
    if known["rows"] != rows:
        sys.exit(f"{path} has runs of {known['rows']} rows, not {rows}: move it away first")
    done = {(each["name"], each["run"]) for each in known["runs"]}
    names = list(set_ups(rows))
    for run in range(runs):
        for name, one in names:
            if (name, run) in done:
                continue
            since = time.perf_counter()
            known["runs"].append({"name": name, "run": run, **one(run)})
            RESULTS.mkdir(exist_ok=True)
            lines = ",\n".join(map(json.dumps, known["runs"]))
            path.write_text(f'{{"rows": {rows}, "runs": [\n{lines}\n]}}\n')
            print(f"{figure}: {name}, run {run}, {time.perf_counter() - since:.1f} s", flush=True)


# ---------------------------------------------------------------- drawing and tables


def grouped(figure):
    """The runs of each set-up."""
    path, known = held(figure)
    if known is None:
        sys.exit(f"{path} is missing: run {figure} first")
    groups = {}
    for each in known["runs"]:
        groups.setdefault(each["name"], []).append(each)
    return groups


def stacked(runs, name):
    return np.array([each[name] for each in runs], float)


def plus_minus(values, form):
    return f"{np.mean(values):{form}} ± {np.std(values):{form}}"


def table(title, head, rows):
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def style_of(name):
    """How the curve of a set-up is drawn."""
    styles = (("median", "k:"), ("batch", "k-"), ("pool", ":"), ("active of", ":"), ("active", "--"), ("", "-"))
    return next(style for part, style in styles if part in name)


def draw_lemma(axis, C):
    """Fig. 1: gap, bound and primal suboptimality for one example x = 1, y = 1."""
    alpha = np.linspace(0.0, C, 101)
    g = 1.0 - alpha
    step = np.clip(g, -alpha, C - alpha)
    gain, P = step * g - 0.5 * step**2, 0.5 * alpha**2 + C * np.maximum(g, 0.0)
    axis.plot(alpha, np.maximum((C - alpha) * g, -alpha * g), "C2", label="P − D")
    axis.plot(alpha, C * np.sqrt(2.0 * gain) + gain, "C3--", label="bound of Lemma 1")
    axis.plot(alpha, P - P[np.argmin(np.abs(alpha - min(C, 1.0)))], "C9:", label="P − P*")
    axis.set(title=f"Fig. 1: one example, C = {C}", xlabel="α")


def draw_gaps(axes):
    """Figs. 2 and 3, and their tables."""
    titles = {"fig2": "Fig. 2: a9a", "fig2_mnist": "Fig. 2: mnist", "fig3": "Fig. 3: a9a"}
    for figure, title in titles.items():
        rows = []
        for name, runs in grouped(figure).items():
            gaps, t = stacked(runs, "gap"), runs[0]["t"]
            axis = axes[figure] if figure == "fig3" else axes[figure, name[:11]]
            label = name if figure == "fig3" else name[13:]
            axis.plot(t, gaps.mean(axis=0), style_of(name), label=label, linewidth=1)
            fifth = len(t) // 5
            parts = [plus_minus(part.mean(axis=1), ".4f") for part in (gaps, gaps[:, :fifth], gaps[:, -fifth:])]
            rows.append([name, *parts, plus_minus(stacked(runs, "mean_last"), ".4f"), f"{len(runs)}"])
        head = ["set-up", "mean gap", "first fifth", "last fifth", "last iterate's", "runs"]
        table(f"{title}, normalised gap", head, rows)
    for key, axis in axes.items():
        name = f"{titles[key[0]]}, {key[1]}" if isinstance(key, tuple) else f"{titles[key]}, Algorithm 1"
        axis.set(title=name, xlabel="examples", ylabel="(P − D)/(Ct)", yscale="log")


def draw_steps(axis):
    """Fig. 4 and its table."""
    groups, rows = grouped("fig4"), []
    K = np.array([int(name[4:]) for name in groups])
    for kind, label in (("mean", "output"), ("mean_last", "last iterate")):
        values = np.array([stacked(runs, kind).mean() for runs in groups.values()])
        slopes = [np.polyfit(np.log(K[part]), np.log(values[part]), 1) for part in (slice(None), K >= 10)]
        print(f"\nFig. 4, {label}: slope of log gap against log K {slopes[0][0]:.3f}; for K ≥ 10 {slopes[1][0]:.3f}")
        axis.plot(K, values, "o", markersize=4, label=f"{label}, slope {slopes[0][0]:.2f}")
        axis.plot(K, np.exp(np.polyval(slopes[0], np.log(K))), "0.5", linewidth=0.8)
    for name, runs in groups.items():
        rows.append([name, *(plus_minus(stacked(runs, kind), ".4f") for kind in ("mean", "mean_last")), f"{len(runs)}"])
    table("Fig. 4: mean normalised gap", ["set-up", "output", "last iterate", "runs"], rows)
    axis.set(title="Fig. 4: a9a, Algorithm 1", xlabel="K", ylabel="mean gap", xscale="log", yscale="log")


def draw_errors(axis, wanted=(47, 116, 284, 555, 1084, 2500)):
    """Fig. 5 and its table."""
    rows = []
    for name, runs in grouped("fig5").items():
        labels, errors = runs[0]["labels"], 100 * stacked(runs, "error")
        axis.plot(labels, errors.mean(axis=0), "--" if "active" in name else "-", label=name, linewidth=1)
        cells = [plus_minus(errors[:, labels.index(t)], ".2f") for t in wanted if t in labels]
        rows.append([name, *cells, f"{stacked(runs, 'vectors')[:, -1].mean():.0f}", f"{len(runs)}"])
    head = ["set-up", *(f"{t} labels" for t in wanted if t in labels), "vectors at the end", "runs"]
    table("Fig. 5: test error, %", head, rows)
    axis.set(title="Fig. 5: mnist, Algorithm 1", xlabel="labels", ylabel="test error, %", xscale="log", yscale="log")


def draw_charges(axis, wanted=(5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.8)):
    """Fig. 6 and its table."""
    curves = {}
    for name, runs in [*grouped("fig5").items(), *grouped("fig6").items()]:
        values, error = stacked(runs, "values").mean(axis=0), 100 * stacked(runs, "error").mean(axis=0)
        curves[name] = values, error
        if "last" in runs[0]:
            curves[f"{name}, last iterate"] = values, 100 * stacked(runs, "last").mean(axis=0)
        if "active" in name:
            curves[f"{name}, pool once"] = values + stacked(runs, "pool_once").mean(axis=0), error
            curves[f"{name}, pool"] = values + stacked(runs, "pool").mean(axis=0), error
    curves["batch, median"] = values, 100 * np.median(stacked(runs, "error"), axis=0)
    rows = []
    for name, (values, error) in curves.items():
        if not name.endswith(("once", "iterate")):
            axis.plot(values, error, style_of(name), label=name, linewidth=1)
        at = [next((v for v, e in zip(values, error, strict=True) if e <= least), np.inf) for least in wanted]
        rows.append([name, *("never" if np.isinf(v) else f"{v:.2e}" for v in at), f"{error[-1]:.2f}"])
    head = ["set-up", *(f"{least:g} %" for least in wanted), "error at the end, %"]
    table("Fig. 6: kernel values at the first look with at most this test error", head, rows)
    axis.set(title="Fig. 6: mnist", xlabel="kernel values", ylabel="test error, %", xscale="log", yscale="log")
    axis.set_xlim(1e3)


def draw():
    """All figures, and their tables."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "widemargin", "svg.fonttype": "none", "font.size": 7})
    figure, axes = plt.subplots(2, 5, figsize=(16, 6), layout="constrained")
    draw_lemma(axes[0, 0], 1.5)
    draw_lemma(axes[1, 0], 0.7)
    along = {
        (name, f"Algorithm {k}"): axes[k - 1, 1 + j] for j, name in enumerate(("fig2", "fig2_mnist")) for k in (1, 2)
    }
    draw_gaps({**along, "fig3": axes[0, 3]})
    for draw_one, axis in zip((draw_steps, draw_errors, draw_charges), axes.T.flat[7:], strict=True):
        draw_one(axis)
    for axis in axes[:, 1]:
        axis.set_ylim(0.01, 0.6)
    for axis in axes.flat:
        axis.legend(fontsize=6, frameon=False, ncols=2 if axis in axes[:, 1:3] else 1)
    path = datasets.ROOT / "docs" / "incremental.svg"
    figure.savefig(path, metadata={"Date": None})
    print(f"\n{path}")


def main(arguments):
    options = dict(argument[2:].split("=") for argument in arguments if argument.startswith("--"))
    rows = int(options["rows"]) if "rows" in options else None
    names = [argument for argument in arguments if not argument.startswith("--")] or [*FIGURES, "draw"]
    for name in names:
        if name == "draw":
            draw()
        else:
            execute(name, int(options.get("runs", 10)), rows)


if __name__ == "__main__":
    main(sys.argv[1:])
