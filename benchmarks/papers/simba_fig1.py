"""Figure 1 of the SIMBA paper: test error against feature reads, beside Pegasos, on text.

``widemargin reproduce simba``. reuters is money-fx against the rest; news20 has 8,000 rows for training, as in the
paper, with words and bigrams of another edition. Rows have size 1. No intercept.

Settled before the runs:

- Pegasos makes ten passes, in permutations. SIMBA stops when it has read as many stored entries.
- Parameters are chosen on the test error, as in the paper, but on other seeds than those of the curves. Pegasos'
  optimum is the least error at the end of a run. SIMBA has the parameters with the least stored reads to this error.
  Each has a second set, with the least stored reads to 1.25 times this error.
- Pegasos of 2007 is the paper's rival as it was printed then: 1/(λt), projection, draws with repetition, the last
  iterate. It is compared apart, at its own optimum.
- Pegasos may have 1/(λt) or a first step of 1, 4 or 16, seven λ, its last iterate or its average with weights t. On
  news20, where a run takes seconds, it has five λ and two of the steps, and SIMBA six of its forms.
- An error is reached at the first point from which the mean over the runs stays at or below it. Points are a factor of
  2^(1/3) apart. Where Pegasos has two curves, the one that needs less counts.
- Reads are counted as stored entries, as d for a row and n for a column, and as entries read for the first time.

``python -m benchmarks.papers.simba_fig1`` looks for the paper's factor of 100: the error that the best machine reaches
on a share of the rows, Pegasos as it was in 2007 with small λ, entries that say only whether a word is there, and
larger ν. Writes ``benchmarks/results/simba_why.json``.
"""

import itertools

import numpy as np

from benchmarks import datasets
from benchmarks.papers.frame import Claim, Experiment, Kept, canvas, markdown
from benchmarks.papers.simba_curves import (
    DENSE,
    ERROR,
    FIRST,
    RESULTS,
    STORED,
    crossing,
    judge_of,
    pegasos_curve,
    problem_of,
    simba_curve,
    stops,
    table_of_ratios,
)
from widemargin import LinearSVC, Pegasos, Simba
from widemargin.solvers.pegasos import Bottou, InverseTime

PASSES = 10
LAMBDAS = (3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7)
STEPS = (InverseTime(), Bottou(1.0), Bottou(4.0), Bottou(16.0))
FORMS = [
    {"primal": primal, "dual": dual, "columns": columns, "rows_per_step": rows, "columns_per_step": width}
    for primal, dual, columns, (rows, width) in itertools.product(
        ("adaptive", "averaging"),
        ("quadratic", "exponential"),
        ("squared", "absolute", "scaled"),
        ((1, 1), (1, 4), (4, 16)),
    )
]
#: The paper's form, and what its pseudo-code prints.
OWN = FORMS[0]
PRINTED = {**OWN, "primal": "fixed", "rate": "fixed"}
#: On news20 a run takes seconds: the paper's form, and one change of it at a time but for the batches.
FEW = [
    OWN, {**OWN, "primal": "averaging"}, {**OWN, "dual": "exponential"}, {**OWN, "columns": "absolute"},
    {**OWN, "primal": "averaging", "columns": "absolute"},
    {**OWN, "primal": "averaging", "columns": "absolute", "rows_per_step": 4, "columns_per_step": 16},
]  # fmt: skip
#: λ and steps of Pegasos, ν and forms of SIMBA that are tried, and on how many runs.
TRIALS = {
    "reuters": (LAMBDAS, STEPS, (0.0, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3), FORMS, 4),
    "news20": (LAMBDAS[1:6], (InverseTime(), Bottou(4.0)), (1e-4, 2e-4, 5e-4), FEW, 2),
}
#: Pegasos of 2007.
OLD = {"sampling": "iid", "projection": True}
LEVELS = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)


def reuters():
    return *datasets.load("reuters-money-fx", 15257), *datasets.load("reuters-money-fx.t", 15257)


def news20():
    X, y, Z, t = datasets.news20()
    chosen = np.random.default_rng(0).permutation(y.size)[:8000]
    return X[chosen], y[chosen], Z, t


PROBLEMS = {"reuters": reuters, "news20": news20}


class Task:
    """A data set, and curves of methods on it; a curve is an array over runs, points and columns."""

    def __init__(self, X, y, Z, t):
        self.X, self.y, self.Z, self.t, self.judge = X, y, Z, t, judge_of(Z, t)
        self.budget = PASSES * X.nnz

    def pegasos(self, lam, step, seeds, passes=PASSES, **options):
        """Curves of the average and of the last iterate."""
        problem, at = problem_of(self.X, self.y, lam), stops(50, passes * self.y.size)
        solver = Pegasos(step, **options)
        runs = [pegasos_curve(solver, problem, self.judge, np.random.default_rng(seed), at) for seed in seeds]
        return np.array([run[0] for run in runs]), np.array([run[1] for run in runs])

    def simba(self, nu, form, seeds):
        """Curves of the average, up to the stored reads of Pegasos."""
        problem = problem_of(self.X, self.y)
        if form["primal"] == "fixed":
            form = {**form, "horizon": self.steps_of({**form, "primal": "adaptive", "rate": "adaptive"}, nu)}
        solver = Simba(nu, size=1.0 + 1e-4, **form)
        at = stops(20, PASSES * self.y.size)
        rngs = map(np.random.default_rng, seeds)
        runs = [simba_curve(solver, problem, self.judge, rng, at, self.budget) for rng in rngs]
        shortest = min(map(len, runs))
        return np.array([run[:shortest] for run in runs])

    def steps_of(self, form, nu):
        """Steps that a run takes."""
        return int(self.simba(nu, form, [0])[0, -1, DENSE] / sum(self.X.shape))


def end_of(curves):
    """The mean error at the end of the runs."""
    return float(curves[:, -1, ERROR].mean())


def soonest(means, level):
    """The name of the curve with the least stored reads to an error; of those that do not reach it, the least error."""
    return min(means, key=lambda name: (crossing(means[name], level, STORED), means[name][-1, ERROR]))


def finite(reads):
    """None where an error is not reached."""
    return reads if np.isfinite(reads) else None


def say(form):
    return ", ".join(str(value) for value in form.values())


def contenders(task, lambdas, steps, nus, forms, trials, runs):
    """Choose parameters on some seeds, draw curves on others: {name: (parameters, curves)}."""
    trial, seeds, found, means = range(1000, 1000 + trials), range(runs), {}, {}
    for lam, step in itertools.product(lambdas, steps):
        for which, curves in zip(("average", "last"), task.pegasos(lam, step, trial)):
            means[lam, str(step), which] = curves.mean(axis=0)
    best = min(means, key=lambda name: means[name][-1, ERROR])
    optimum = means[best][-1, ERROR]
    for name, chosen in (("Pegasos", best), ("Pegasos, early", soonest(means, 1.25 * optimum))):
        lam, step, which = chosen
        pair = task.pegasos(lam, next(each for each in STEPS if str(each) == step), seeds)
        found[name] = {"lam": lam, "step": step, "iterate": which}, pair[which == "last"]
        print(f"    {name}: λ = {lam:g}, {step}, {which}", flush=True)
    forms = [*forms, PRINTED]
    means = {
        (k, nu): task.simba(nu, forms[k], trial).mean(axis=0) for k, nu in itertools.product(range(len(forms)), nus)
    }
    picks = {"SIMBA": soonest(means, optimum), "SIMBA, early": soonest(means, 1.25 * optimum)}
    for name, form in (("SIMBA, paper's form", 0), ("SIMBA, as printed", len(forms) - 1)):
        picks[name] = soonest({key: mean for key, mean in means.items() if key[0] == form}, optimum)
    for name, (k, nu) in picks.items():
        found[name] = {"nu": nu, **forms[k]}, task.simba(nu, forms[k], seeds)
        print(f"    {name}: ν = {nu:g}, {say(forms[k])}", flush=True)
    reached = [(crossing(mean, optimum, STORED), nu, say(forms[k]), mean[-1, ERROR]) for (k, nu), mean in means.items()]
    return found, [(finite(reads), *rest) for reads, *rest in sorted(reached)]


def summary(curves):
    """Means over the runs, and the standard deviation of the error, point by point."""
    return np.round(np.hstack([curves.mean(axis=0), curves[:, :, ERROR].std(axis=0)[:, None]]), 6).tolist()


def squares(task, lams):
    """‖w‖² of the optimum for each λ, and for C = 100, where all rows have nearly margin 1; hinge and error of it."""
    rows = {}
    for lam in (*lams, 0.01 / task.y.size):
        model = LinearSVC(lam=lam, intercept="none", tol=0.02, max_iter=3000, random_state=0).fit(task.X, task.y)
        margins = task.y * model.decision_function(task.X)
        rows[f"{lam:.3g}"] = {
            "norm2": float(np.sum(model.coef_**2)), "hinge": float(np.mean(np.maximum(0.0, 1.0 - margins))),
            "error": task.judge(model.coef_[0]),
        }  # fmt: skip
    return rows


def compare(name, runs, plan=None):
    task, plan = Task(*PROBLEMS[name]()), plan or TRIALS[name]
    n, d = task.X.shape
    print(f"{name}: n = {n}, d = {d}, {task.X.nnz / n:.0f} entries a row", flush=True)
    found, soon = contenders(task, *plan, runs)
    curves = {method: own for method, (_, own) in found.items()}
    optimum = end_of(curves["Pegasos"])
    of_weights = squares(task, [found["Pegasos"][0]["lam"]])
    ratios = table_of_ratios(curves, optimum, LEVELS)
    lambdas, *_, trials = plan
    trial = range(1000, 1000 + trials)
    lam = min(lambdas, key=lambda lam: end_of(task.pegasos(lam, InverseTime(), trial, **OLD)[1]))
    old = task.pegasos(lam, InverseTime(), range(runs), **OLD)[1]
    print(f"    and Pegasos of 2007, λ = {lam:g}:")
    ours = {method: own for method, own in curves.items() if method.startswith("SIMBA")}
    old_ratios = table_of_ratios({"Pegasos, 2007": old, **ours}, end_of(old), LEVELS)
    curves["Pegasos, 2007"] = old
    pairs = curves.items()
    return {
        "n": n, "d": d, "entries_per_row": task.X.nnz / n, "runs": runs, "optimum": optimum, "weights": of_weights,
        "parameters": {method: parameters for method, (parameters, _) in found.items()}, "ratios": ratios,
        "optimum_2007": end_of(old), "lam_2007": lam, "ratios_2007": old_ratios,
        "ends": {method: [float(own[:, -1, ERROR].mean()), float(own[:, -1, ERROR].std())] for method, own in pairs},
        "curves": {method: summary(own) for method, own in pairs}, "trials": soon,
    }  # fmt: skip


def on_shares(task, runs):
    """The error of the best of three machines on a share of the rows."""
    n, rng, found = task.y.size, np.random.default_rng(0), {}
    for m in (n // 30, n // 10, n // 3, n):
        errors = []
        for _ in range(runs if m < n else 1):
            chosen = rng.permutation(n)[:m]
            fits = [
                LinearSVC(C, intercept="none", tol=1e-2, random_state=0).fit(task.X[chosen], task.y[chosen])
                for C in (0.3, 1.0, 10.0)
            ]
            errors.append(min(task.judge(model.coef_[0]) for model in fits))
        found[m] = float(np.mean(errors))
    return found


def binary(task):
    """The task with entries that say only whether a word is there, rows of size 1."""

    def plain(X):
        X = X.copy()
        X.data = np.repeat(1.0 / np.sqrt(np.maximum(np.diff(X.indptr), 1)), np.diff(X.indptr)).astype(X.dtype)
        return X

    return Task(plain(task.X), task.y, plain(task.Z), task.t)


def why(name, kept, runs=2):
    """The best machine on a share of the rows, Pegasos of 2007 over thirty passes, other entries, other ν."""
    task, (lambdas, _, nus, _, _) = Task(*PROBLEMS[name]()), TRIALS[name]
    old = {}
    for lam in (1e-4, 1e-5, 1e-6):
        mean = task.pegasos(lam, InverseTime(), range(runs), 30, **OLD)[1].mean(axis=0)
        reads = {f"{level:g}": crossing(mean, level * kept["optimum"], STORED) / task.X.nnz for level in LEVELS}
        passes = {level: finite(number) for level, number in reads.items()}
        old[f"{lam:g}"] = {"end": float(mean[-1, ERROR]), "passes": passes}
    other = binary(task)
    rivals = {lam: other.pegasos(lam, Bottou(4.0), range(runs))[0] for lam in lambdas}
    lam = min(rivals, key=lambda lam: end_of(rivals[lam]))
    print(f"    {name}, binary entries, λ = {lam:g}:")
    forms = {f"SIMBA, ν = {nu:g}": other.simba(nu, OWN, range(runs)) for nu in nus}
    ratios = table_of_ratios({"Pegasos": rivals[lam], **forms}, end_of(rivals[lam]), LEVELS)
    print(f"    {name}, other ν:")
    rival = np.array(kept["curves"]["Pegasos"])[None, :, :4]
    forms = {f"SIMBA, ν = {nu:g}": task.simba(nu, OWN, range(runs)) for nu in (5e-4, 1e-3, 2e-3, 4e-3)}
    return {
        "error_on_rows": on_shares(task, runs), "pegasos_2007": old,
        "nu": table_of_ratios({"Pegasos": rival, **forms}, end_of(rival), LEVELS),
        "binary": {"optimum": end_of(rivals[lam]), "lam": lam, "ratios": ratios},
    }  # fmt: skip


#: What a short trial of the whole tries.
TRIAL = ((3e-5, 1e-5), (InverseTime(), Bottou(4.0)), (5e-4, 2e-3), FEW[:2], 1)
#: The forms of SIMBA that are judged.
OURS = ("SIMBA, paper's form", "SIMBA, early")
#: The form of the paper's pseudo-code: its steps are constant.
CONSTANT = "SIMBA, as printed"


class Figure1(Experiment):
    paper, name, needs = "simba", "Figure 1", ("reuters-money-fx", "reuters-money-fx.t")
    shows = (
        "test error against feature accesses on real-sim and news20: SIMBA gets to the error of Pegasos' optimum with "
        "about a hundred times fewer."
    )
    setting = (
        "ten runs on reuters-money-fx, in the place of real-sim, and on 8,000 rows of news20-bigram; both methods "
        "tuned on the test error, as in the paper. Bars are standard deviations. What was found about the factor is "
        "told in [docs/notes/simba.md](../notes/simba.md)."
    )
    differences = (
        "Neither set is the paper's, and on both B² is above the entries of a row, and the theory wants it far below.",
        "Pegasos has better steps, averages and orders than that of 2007, which stands beside it.",
        "Reads are counted in three ways: stored entries, n + d for a step (the paper's), first reads of entries.",
        "The paper's form has adaptive steps, as in its experiments; “as printed” has the constant steps of its "
        "pseudo-code, for as many steps as the runs take, and a ν of its own.",
        "What “almost equivalent” is was set when the runs were done: within 5 %, as in the claim on Pegasos' error.",
    )

    def run(self, kept, quick):
        for name in ("reuters",) if quick else PROBLEMS:
            kept.get(name, lambda name=name: compare(name, 1, TRIAL) if quick else compare(name, 10))

    def table(self, parts):
        rows = []
        for name, found in parts.items():
            for title, key in (("Pegasos'", "ratios"), ("those of Pegasos of 2007", "ratios_2007")):
                for form in (*OURS, CONSTANT):
                    for by, way in enumerate(("stored", "n + d", "first")):
                        cells = [found[key][form][f"{level:g}"][by] for level in LEVELS]
                        told = ["–" if cell is None else f"{cell:.2f}" for cell in cells]
                        rows.append([name, f"{form}, over {title}", way, *told])
        head = ["data", "reads at multiples of the optimum's error", "counted", *(f"{level:g}" for level in LEVELS)]
        return markdown(head, rows)

    def figure(self, parts):
        """A row of panels for each data set, one for each way to count."""
        figure, axes = canvas(len(parts), 3)
        labels = {STORED: "stored entries", DENSE: "n + d (Pegasos: d)", FIRST: "first reads"}
        for (name, found), row in zip(parts.items(), axes):
            for axis, (by, label) in zip(row, labels.items()):
                for method, curve in found["curves"].items():
                    points, style = np.array(curve), "--" if method.startswith("Pegasos") else "-"
                    x, y, bars = points[:, by], points[:, 3], points[:, 4]
                    axis.errorbar(x, y, bars, ls=style, lw=1.1, elinewidth=0.5, label=method)
                axis.axhline(found["optimum"], color="0.7", linewidth=0.7)
                axis.set(xscale="log", xlabel=label, title=name, ylim=(0.8 * found["optimum"], 5 * found["optimum"]))
            row[0].set_ylabel("test error")
        axes[0, 0].legend(frameon=False, fontsize="x-small")
        return figure

    def claims(self, parts):
        """Ratios at the optimum's error, in the paper's way of counting."""

        def told(key, form):
            ratios = {name: found[key][form]["1"][DENSE] for name, found in parts.items()}
            cells = [f"{name} {'never' if ratio is None else format(ratio, '.2f')}" for name, ratio in ratios.items()]
            return ", ".join(cells)

        def best(found):
            return min(found["ratios_2007"][form]["1"][DENSE] or np.inf for form in OURS)

        ends = {
            name: min(found["ends"][form][0] for form in OURS) / found["ends"]["Pegasos"][0]
            for name, found in parts.items()
        }
        return [
            Claim(
                "SIMBA gets to the test error of Pegasos' optimum with about 100 times fewer feature accesses",
                f"accesses over those of Pegasos, paper's form: {told('ratios', OURS[0])}; best early form: "
                f"{told('ratios', OURS[1])}; paper's form over Pegasos of 2007: {told('ratios_2007', OURS[0])}",
                all(best(found) <= 0.02 for found in parts.values()),
                "B² is 490 and 2,380 where rows have 48 and 416 entries; the theory wants it far below them",
            ),
            Claim(
                "SIMBA ends at the test error of Pegasos",
                "its error over that of Pegasos at the end of the runs, the better of two forms: "
                + ", ".join(f"{name} {ratio:.2f}" for name, ratio in ends.items()),
                max(ends.values()) <= 1.05,
                "it ends above",
            ),
            self.claim_of_constant_steps(parts),
        ]

    def claim_of_constant_steps(self, parts):
        """Section 6: errors at the end within 5 % of each other on every set."""
        cells, ratios, reads = [], [], []
        for name, found in parts.items():
            (own, own_spread), (other, other_spread) = (found["ends"][form] for form in (OURS[0], CONSTANT))
            cells.append(
                f"{name} {100 * own:.2f} ± {100 * own_spread:.2f} and {100 * other:.2f} ± {100 * other_spread:.2f} %"
            )
            ratios.append(other / own)
            needs = [found["ratios"][form]["1.25"][DENSE] for form in (CONSTANT, OURS[0])]
            reads.append("never" if needs[0] is None else "–" if needs[1] is None else f"{needs[0] / needs[1]:.1f}")
        return Claim(
            "Section 6: with adaptive steps SIMBA is almost equivalent to the form that is printed, with constant ones",
            f"test errors at the end, adaptive and printed: {', '.join(cells)}; the printed form's over the other's "
            f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}; equivalent is within 5 %",
            all(1 / 1.05 <= ratio <= 1.05 for ratio in ratios),
            f"constant steps, set for the whole run, take {' and '.join(reads)} times as many accesses to 1.25 times "
            "the optimum's error, and end above",
        )


EXPERIMENTS = [Figure1()]


def main():
    figure, kept = EXPERIMENTS[0].load(RESULTS), Kept(RESULTS / "simba_why.json", again=True)
    for name in PROBLEMS:
        found = kept.get(name, lambda name=name: why(name, figure[name]))
        print(found["error_on_rows"], found["pegasos_2007"])
    kept.finish()


if __name__ == "__main__":
    main()
