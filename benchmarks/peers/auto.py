"""What ``solver="auto"`` costs beside the best solver: its regret on every data set; see :mod:`.frame`.

A case is a machine, a data set and parameters. Each solver that can prove the machine optimal is run to a relative
duality gap of ``tol``, and so is "auto"; the regret is the processor time of the latter over that of the quickest.
"""

import contextlib
import itertools
import signal
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn import datasets as toys
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from benchmarks import datasets
from benchmarks.micro.interior import correlated, independent, words
from benchmarks.papers.frame import markdown
from benchmarks.peers.frame import Measurement
from widemargin import SVC, SVR, LinearSVC, LinearSVR
from widemargin.data.generators import checkerboard, waveform
from widemargin.estimators.fit.choosing import RULE, ChoiceRule, Facts

HEAD = """# What `solver="auto"` costs

`widemargin bench auto` writes this page and the results behind it (`benchmarks/results/auto_*.json`); `--quick` tries
it out in `bench_output/bench`. Do not edit it: the texts are in `benchmarks/peers/auto.py`. The *regret* is the
processor time of a whole fit with `solver="auto"` over that of the quickest solver that reaches the same certificate, a
relative duality gap of at most `tol`. One thread, medians of three where a fit takes less than half a second. Whoever
takes longer than twice the quickest is stopped, then or later, and ">" stands before its time; so it does where nobody
arrived in eight seconds, and where "pegasos" ended by its own rule with a larger gap.
"""
#: Rows of data sets that would take too long.
MOST_ROWS = 50_000
#: Seconds that solvers are given in turn until one arrives; then the others have so many times its time.
PATIENCE, LATER = (0.5, 2.0, 8.0), 2.0
#: The goal: at most so many times the best solver's time, in this share of the cases.
ALLOWED, SHARE = 1.5, 0.9


# ---------------------------------------------------------------- data


def read(name, width, rows=MOST_ROWS, scaled="", dense=True):
    """(X, y) of a file: some of its rows, as they are or scaled."""
    X, y = datasets.load(name, width, np.float64)
    some = np.random.default_rng(0).permutation(y.size)[:rows]
    X, y = X[some], y[some]
    X = MaxAbsScaler().fit_transform(X) if scaled == "unit" else X
    X = X.toarray() if dense else X.tocsr()
    return (StandardScaler().fit_transform(X) if scaled == "standard" else X), y


def covtype(rows, scaled="unit"):
    """Class 2 against the rest."""
    X, y = read("covtype", 54, rows, scaled)
    return X, np.where(y == 2, 1.0, -1.0)


def eights(rows):
    """The digit 8 of mnist against the others."""
    X, y = read("mnist", 784, rows, "unit", dense=False)
    return X, np.where(y == 8, 1.0, -1.0)


def targets(name, width, rows=MOST_ROWS):
    """A regression, standardised."""
    X, y = read(name, width, rows, "standard")
    return X, (y - y.mean()) / y.std()


def apart(n=20_000, d=40):
    """Classes that a margin separates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d)
    keep = np.abs(scores) > 0.5
    return X[keep], np.sign(scores[keep])


def wide(n=500, d=20_000):
    """More features than examples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def uneven(n=10_000, d=40):
    """Correlated features in units from 1e-3 to 1e3."""
    X, y = correlated(n, d)
    return X * np.logspace(-3, 3, d), y


def numbers(rows):
    """Targets that are a linear function of the features, and noise."""
    X, rng = rows()[0], np.random.default_rng(1)
    y = X @ rng.normal(size=X.shape[1]) + rng.normal(size=X.shape[0])
    return X, (y - y.mean()) / y.std()


def included(name):
    """Data that comes with scikit-learn, standardised; targets of a regression too."""
    X, y = getattr(toys, f"load_{name}")(return_X_y=True)
    return StandardScaler().fit_transform(X), (y - y.mean()) / y.std() if name == "diabetes" else y


def board(n=10_000):
    return checkerboard(n, np.random.default_rng(0), dtype=np.float64)


def waves(n=5000):
    return waveform(n, np.random.default_rng(0), dtype=np.float64)


#: Data sets of linear classifiers; "raw" is as the file has it, and belongs to the same data set.
LINEAR = {
    "a9a": lambda: read("a9a", 123, dense=False),
    "covtype": lambda: covtype(MOST_ROWS),
    "covtype, raw": lambda: covtype(30_000, ""),
    "mnist": lambda: eights(5000),
    "usps": lambda: read("usps", 256, 3000),
    "letter": lambda: read("letter", 16, scaled="standard"),
    "letter, raw": lambda: read("letter", 16),
    "satimage": lambda: read("satimage", 36, scaled="standard"),
    "satimage, raw": lambda: read("satimage", 36),
    "shuttle": lambda: read("shuttle", 9, 20_000, scaled="standard"),
    "shuttle, raw": lambda: read("shuttle", 9, 20_000),
    "pendigits": lambda: read("pendigits", 16, scaled="standard"),
    "pendigits, raw": lambda: read("pendigits", 16),
    "dna": lambda: read("dna", 180, dense=False),
    "ijcnn1": lambda: read("ijcnn1", 22),
    "banana": lambda: read("banana", 2, scaled="standard"),
    "phoneme": lambda: read("phoneme", 5, scaled="standard"),
    "elec2": lambda: read("elec2", 6, scaled="standard"),
    "reuters-money-fx": lambda: read("reuters-money-fx", 15257, dense=False),
    "news20-bigram": lambda: read("news20-bigram", 1181833, dense=False),
    "correlated": correlated,
    "independent": independent,
    "words": words,
    "tall": lambda: independent(100_000, 10),
    "wide": wide,
    "apart": apart,
    "uneven": uneven,
    "a9a, 200 rows": lambda: read("a9a", 123, 200, dense=False),
    "usps, 300 rows": lambda: read("usps", 256, 300),
    "letter, 400 rows": lambda: read("letter", 16, 400, "standard"),
    "covtype, 400 rows": lambda: covtype(400),
    "banana, 100 rows": lambda: read("banana", 2, 100, "standard"),
    "reuters-money-fx, 300 rows": lambda: read("reuters-money-fx", 15257, 300, dense=False),
    "wine": lambda: included("wine"),
    "breast cancer": lambda: included("breast_cancer"),
    "digits": lambda: included("digits"),
}
REGRESSION = {
    "cadata": lambda: targets("cadata", 8),
    "cpusmall": lambda: targets("cpusmall", 12),
    "independent, numbers": lambda: numbers(independent),
    "words, numbers": lambda: numbers(words),
    "cadata, 300 rows": lambda: targets("cadata", 8, 300),
    "diabetes": lambda: included("diabetes"),
}
KERNEL = {
    "a9a": lambda: read("a9a", 123, 6000, dense=False),
    "usps": lambda: read("usps", 256, 5000),
    "letter": lambda: read("letter", 16, 4000, "standard"),
    "satimage": lambda: read("satimage", 36, scaled="standard"),
    "shuttle": lambda: read("shuttle", 9, 10_000, "standard"),
    "pendigits": lambda: read("pendigits", 16, 5000, "standard"),
    "dna": lambda: read("dna", 180, dense=False),
    "ijcnn1": lambda: read("ijcnn1", 22, 10_000),
    "banana": lambda: read("banana", 2, scaled="standard"),
    "phoneme": lambda: read("phoneme", 5, scaled="standard"),
    "elec2": lambda: read("elec2", 6, 8000, "standard"),
    "reuters-money-fx": lambda: read("reuters-money-fx", 15257, 4000, dense=False),
    "news20-bigram": lambda: read("news20-bigram", 1181833, 1000, dense=False),
    "mnist": lambda: read("mnist", 784, 2500, "unit", dense=False),
    "covtype": lambda: covtype(6000),
    "checkerboard": board,
    "waveform": waves,
    "correlated": lambda: correlated(4000, 50),
    "a9a, 200 rows": lambda: read("a9a", 123, 200, dense=False),
    "usps, 300 rows": lambda: read("usps", 256, 300),
    "banana, 100 rows": lambda: read("banana", 2, 100, "standard"),
}
TARGETS = {
    "cadata": lambda: targets("cadata", 8, 4000),
    "cpusmall": lambda: targets("cpusmall", 12, 4000),
}


# ---------------------------------------------------------------- cases


class Case(NamedTuple):
    """A machine, its data, its parameters, and the solvers that can prove it optimal."""

    machine: Callable
    data: str
    get: Callable
    parameters: dict
    solvers: tuple

    @property
    def name(self):
        """The key of its result."""
        said = ", ".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.machine.__name__}; {self.data}; {said}"

    def make(self, solver):
        """The estimator; only ``tol`` ends it."""
        seeded = {"random_state": 0} if self.machine in (LinearSVC, LinearSVR) else {}
        return self.machine(**self.parameters, solver=solver, max_iter=100_000, **seeded)


def crossed(machine, sets, settings):
    """Cases of all data sets and settings; a setting is (solvers, parameters)."""
    return [
        Case(machine, name, get, parameters, solvers) for name, get in sets.items() for solvers, parameters in settings
    ]


EXACT, FREE = ("sdca", "interior"), ("interior", "pegasos")
LINEAR_CASES = crossed(
    LinearSVC, LINEAR,
    [
        (EXACT, {"C": 1.0}),
        (EXACT, {"C": 0.01}),
        (EXACT, {"C": 100.0}),
        (EXACT, {"C": 1.0, "tol": 1e-6}),
        (EXACT, {"C": 1.0, "loss": "squared_hinge"}),
        (FREE, {"C": 1.0, "intercept": "unregularized"}),
    ],
) + crossed(
    LinearSVR, REGRESSION,
    [
        (EXACT, {"C": 1.0, "epsilon": 0.1}),
        (EXACT, {"C": 0.01, "epsilon": 0.1}),
        (EXACT, {"C": 100.0, "epsilon": 0.1}),
        (EXACT, {"C": 1.0, "epsilon": 0.1, "tol": 1e-6}),
        (EXACT, {"C": 1.0, "epsilon": 0.1, "loss": "squared_epsilon_insensitive"}),
    ],
)  # fmt: skip
PAIRS, SINGLE = ("smo", "sbp"), ("smo", "sbp", "sdca")
KERNEL_CASES = crossed(
    SVC, KERNEL,
    [
        (PAIRS, {"C": 1.0}),
        (PAIRS, {"C": 100.0}),
        (PAIRS, {"C": 1.0, "multi_class": "ovr"}),
        (PAIRS, {"C": 1.0, "kernel": "linear"}),
        (SINGLE, {"C": 1.0, "intercept": "none"}),
    ],
) + crossed(
    SVR, TARGETS,
    [(("smo", "sdca"), {"C": C, "intercept": b}) for C in (1.0, 100.0) for b in ("none", "regularized")],
)  # fmt: skip


# ---------------------------------------------------------------- measuring


def timed(estimator, X, y, most):
    """What a fit came to that is stopped, as by Ctrl-C, after so many processor seconds."""
    before = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_PROF, most)
    since, gap, reason = time.process_time(), None, "interrupted"
    try:
        estimator.fit(X, y)
        found, reason = estimator.certificate_, estimator.stop_reason_
        found = [found] if found is None or hasattr(found, "relative_gap") else list(found)
        gap = None if None in found else max(float(each.relative_gap) for each in found)
    except KeyboardInterrupt:
        pass
    except ValueError as refusal:
        return {"seconds": None, "gap": None, "proven": False, "reason": str(refusal).split(",")[0]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    took = time.process_time() - since
    # rounding of float32 kernel values may stop a fit with its gap in sight of tol
    proven = gap is not None and gap <= 1.01 * estimator.tol
    return {"seconds": took, "gap": gap, "proven": proven, "reason": reason}


def facts(X, y):
    """What a rule may look at."""
    n, d = X.shape
    squares = np.asarray(X.multiply(X).mean(axis=0)).ravel() if sp.issparse(X) else np.mean(X * X, axis=0)
    entries = X.nnz / n if sp.issparse(X) else d
    sizes = squares[squares > 0.0]
    return {
        "n": n, "d": d, "entries": float(entries), "squares": float(squares.sum()), "sparse": bool(sp.issparse(X)),
        "ratio": float(np.sqrt(sizes.max() / np.median(sizes))), "classes": int(np.unique(y).size),
    }  # fmt: skip


def warmed(case, solver, X, y):
    """Compile: a few epochs, on all rows, as few of them may take another way."""
    with contextlib.suppress(ValueError):  # which is said in its turn
        case.make(solver).set_params(max_iter=3).fit(X, y)


def measure(case, X, y):
    """The solvers of a case: in turns of growing patience until one arrives, then the others."""
    runs, best = {}, np.inf
    for solver in case.solvers:
        warmed(case, solver, X, y)
    for patience in PATIENCE:
        for solver in case.solvers:
            if solver not in runs or not (runs[solver]["proven"] or runs[solver]["reason"] != "interrupted"):
                runs[solver] = timed(case.make(solver), X, y, min(patience, max(0.1, LATER * best)))
                if runs[solver]["proven"]:
                    best = min(best, runs[solver]["seconds"])
        if best < np.inf:
            break
    for solver, run in runs.items():
        if run["reason"] == "interrupted" and run["seconds"] < ALLOWED * best < np.inf:
            runs[solver] = timed(case.make(solver), X, y, max(0.1, LATER * best))
    repeated(case, runs, X, y)
    return {"facts": facts(X, y), "runs": runs}


def repeated(case, runs, X, y):
    """Medians of three where fits are short; several at a time where they are shorter than the clock is fine."""
    short = {solver: [] for solver, run in runs.items() if run["proven"] and run["seconds"] < 0.5}
    for _, solver in itertools.product(range(3), short):
        times = max(1, int(0.06 / max(runs[solver]["seconds"], 0.003)))
        since = time.process_time()
        for _ in range(times):
            case.make(solver).fit(X, y)
        short[solver].append((time.process_time() - since) / times)
    for solver, seconds in short.items():
        runs[solver]["seconds"] = float(f"{np.median(seconds):.4g}")


def measure_auto(case, X, y, runs):
    """ "auto" itself, with what it chose."""
    best = best_of(runs)
    most = max(1.0, 10.0 * runs[best]["seconds"]) if best else PATIENCE[-1]
    warmed(case, "auto", X, y)
    found = {"auto": timed(case.make("auto"), X, y, most)}
    repeated(case, found, X, y)
    return {**found["auto"], "chosen": chosen_by(case, X, y)}


def chosen_by(case, X, y):
    """The name of the solver that "auto" is; the fit is stopped when that is known."""
    seen = []

    class Known(Exception):
        pass

    def look(progress):
        seen.append(type(progress.solver).__module__.rsplit(".", 1)[1])
        raise Known

    with contextlib.suppress(Known):
        case.make("auto").set_params(callbacks=look).fit(X, y)
    return NAMES.get(seen[0], seen[0])


#: Solvers whose files have another name.
NAMES = {"pairs": "smo"}


# ---------------------------------------------------------------- regrets


def best_of(runs):
    """The quickest solver that arrived, or None."""
    arrived = [solver for solver, run in runs.items() if run["proven"]]
    return min(arrived, key=lambda solver: runs[solver]["seconds"]) if arrived else None


def regret(runs, solver):
    """How many times as long as the quickest a solver takes; at least LATER where it was stopped."""
    best, run = runs[best_of(runs)]["seconds"], runs[solver]
    return run["seconds"] / best if run["proven"] else max(LATER, (run["seconds"] or 0.0) / best)


def counted(parts):
    """Name → (runs, what "auto" did, facts) of the cases in which somebody arrived."""
    return {
        name: (part["runs"], parts[f"auto; {name}"], part["facts"])
        for name, part in parts.items()
        if not name.startswith("auto; ") and best_of(part["runs"])
    }


def group_of(name):
    """The data set of a case, however scaled."""
    return name.split("; ")[1].split(",")[0]


def parameters_of(name):
    """The parameters of a case, as text."""
    return dict(said.split("=") for said in name.split("; ")[2].split(", "))


def has_choice(name, runs):
    """Whether the constants have a say: both solvers take the problem."""
    return set(runs) == set(EXACT) and all(run["seconds"] is not None for run in runs.values())


def facts_of(name, found):
    """What the rule looks at."""
    given = parameters_of(name)
    kappa = float(given["C"]) * (found["squares"] + 1.0)
    outputs = found["classes"] if name.startswith("LinearSVC") and found["classes"] > 2 else 1
    squared = "squared" in given.get("loss", "")
    return Facts(
        found["n"], found["d"], found["entries"], kappa, float(given.get("tol", 1e-3)), squared, outputs
    )  # fmt: skip


#: Constants that the rule may have.
RULES = [
    ChoiceRule(*constants)
    for constants in itertools.product((0.2, 0.25, 0.33), (1.0, 2.0, 3.0, 4.0), (5.0, 10.0, 15.0, 20.0, 40.0),
                                       (0.0, 0.2, 0.4, 0.8), (0.0, 0.5, 1.0, 2.0),
                                       (0.0, 5e5, 1e6, 2e6, 4e6, 8e6))
]  # fmt: skip


def left_out(cases):
    """(the best constants for all, name → regret with those that are best for the other data sets, how many differ).

    Best is: the fewest cases above what is allowed; then the least mean of the logarithms. ``cases`` are name → (runs,
    facts). The regret of a solver that was stopped is at least what is told.
    """
    names = list(cases)
    groups = np.array([group_of(name) for name in names])
    both = np.array([[regret(runs, solver) for solver in EXACT] for runs, _ in cases.values()])
    known = [facts_of(name, found) for name, (_, found) in cases.items()]
    choices = np.array([[rule.prefers_interior(each) for each in known] for rule in RULES])
    regrets = np.where(choices, both[:, 1], both[:, 0])
    costs = (regrets > ALLOWED) + 0.5 * np.log(regrets)
    best = RULES[int(np.argmin(costs.sum(axis=1)))]
    found, others = {}, set()
    for group in dict.fromkeys(groups):
        own = groups == group
        k = int(np.argmin(costs[:, ~own].sum(axis=1)))
        others.add(RULES[k])
        found |= {names[i]: float(regrets[k, i]) for i in np.flatnonzero(own)}
    return best, found, len(others - {best})


def share_said(regrets):
    """How many of some regrets are allowed."""
    within = sum(each <= ALLOWED for each in regrets)
    verdict = "met" if within >= SHARE * len(regrets) else "missed"
    return f"{within} of {len(regrets)} cases ({within / len(regrets):.1%}; the goal is {SHARE:.0%}: {verdict})"


def seconds_said(run):
    """A time, with what ended it."""
    if run["seconds"] is None:
        return "refuses"
    return f"{'' if run['proven'] else '> '}{run['seconds']:.3g}"


def regret_said(runs, value):
    """A regret, which is more than is told where it is that of a solver that was stopped."""
    if value is None:
        return ""
    stopped = any(not run["proven"] and regret(runs, solver) == value for solver, run in runs.items())
    return f"{'> ' * stopped}{value:.2f}"


class Regret(Measurement):
    """The regret of "auto" in some cases."""

    paper, cases, quick_data = "auto", (), ()

    def lacks(self, quick):
        """Generated data is always there."""
        return "" if quick or datasets.there_is_data() else f"{datasets.DATA} has no data"

    def run(self, kept, quick):
        warnings.simplefilter("ignore", ConvergenceWarning)
        last = X = y = None
        for case in self.cases:
            if quick and case.data not in self.quick_data:
                continue
            if case.name in kept.parts and f"auto; {case.name}" in kept.parts:
                continue
            if last != (case.machine, case.data):
                last, (X, y) = (case.machine, case.data), case.get()
            if case.parameters.get("multi_class") == "ovr" and np.unique(y).size == 2:
                continue
            part = kept.get(case.name, lambda: measure(case, X, y))
            kept.get(f"auto; {case.name}", lambda: measure_auto(case, X, y, part["runs"]))

    def rows(self, parts, solvers, without=None):
        """Lines of the table; ``without`` are the regrets of constants chosen without the data set."""
        for name in (case.name for case in self.cases if case.name in parts):
            part = parts[name]
            machine, data, said = name.split("; ")
            auto, best, known = parts[f"auto; {name}"], best_of(part["runs"]), part["facts"]
            took = f"{auto['seconds'] / part['runs'][best]['seconds']:.2f}" if best and auto["proven"] else "–"
            cells = [seconds_said(part["runs"][each]) if each in part["runs"] else "" for each in solvers]
            row = [machine, data, said, f"{known['n']:,} × {known['d']:,}", *cells, auto["chosen"], seconds_said(auto)]
            yield [*row, took] if without is None else [*row, took, regret_said(part["runs"], without.get(name))]


def auto_regrets(parts):
    """Those that were measured; infinite where "auto" did not arrive."""
    return [
        auto["seconds"] / runs[best_of(runs)]["seconds"] if auto["proven"] else np.inf
        for runs, auto, _ in counted(parts).values()
    ]


def worst_of(regrets):
    """The largest regret, in words."""
    arrived = [each for each in regrets if each < np.inf]
    late = len(regrets) - len(arrived)
    more = f" of those that arrived; {late} had not after ten times as long" if late else ""
    return f"the worst {max(arrived):.2f}{more}"


def nobody(parts):
    """Cases in which no solver arrived."""
    names = [name for name, part in parts.items() if not name.startswith("auto; ") and not best_of(part["runs"])]
    return f" In {len(names)} more no solver arrived in time: {'; '.join(names)}." if names else ""


class LinearRegret(Regret):
    """Linear machines."""

    name, title, cases, quick_data = "linear", "Linear machines", LINEAR_CASES, ("apart", "uneven")
    setting = """`LinearSVC` and `LinearSVR` have two solvers that prove what they reach, "sdca" and "interior";
"pegasos" stops by its own rule before its gap is at `tol`, and "simba" is for data that is expensive to look at. With a
regularised intercept, a free one, or none, `solver="auto"` is "interior" where

κ (10⁻³/`tol`)^p × (q for squared losses) > a + b k + (c d³ + e)/(n k),

where κ is C times the mean of sᵢ‖xᵢ‖² with the constant feature of a regularised intercept counted (so many epochs
does "sdca" take, about), k is the mean number of entries of a row, and n × d are the sizes. It is "interior", too,
where twice the left side exceeds `max_iter`, so that "sdca" might end short of `tol`, while the interior point takes
10¹² operations or less. Else it is "sdca"; and "pegasos" where neither can go (joint losses,
`intercept="exact"` and `"search"`). All that is for fits that go on to `tol`: with `early_stopping`, `warm_start`,
`max_feature_reads`, `tol=0` or fewer than 100 epochs it is "sdca", or "pegasos" where that cannot go; with
`max_seconds` the interior point must be sure to take half of it or less, by its number of operations at 10⁹ a second.
Under any limit it is "interior" where there are at most 200 features and the largest is more than 100 times the size of
the median one, if "sdca" could go, too; these two bounds are older than this page, and so are the rows of the table
with `intercept="unregularized"`: they were measured when "sdca" had no free intercept.
Before sets of fewer than 500 rows were measured, the right side was 1,000 at least: of 30 such cases with a choice 7
took more than 1.5 times the best solver's time, the worst 64 times or more."""

    def table(self, parts):
        cases = {name: (runs, found) for name, (runs, _, found) in counted(parts).items() if has_choice(name, runs)}
        best, without, others = left_out(cases)
        regrets = auto_regrets(parts)
        said = ", ".join(f"{name} = {value:g}" for name, value in zip("pqabce", RULE, strict=True))
        text = [
            f"**Measured:** `solver=\"auto\"` takes at most {ALLOWED} times the best solver's time in "
            f"{share_said(regrets)}; the median is {np.median(regrets):.2f}, {worst_of(regrets)}."
            f"{nobody(parts)}\n",
            f"**Left out:** the constants are {said}. They are {'' if best == RULE else 'not '}the best of "
            f"{len(RULES):,} for all {len(cases)} cases in which there is a choice. With those that are the best for "
            f"the *other* data sets (raw and scaled ones count as one) it is at most {ALLOWED} times the best time in "
            f"{share_said(list(without.values()))}; {others} other sets of constants come out that way. The last "
            "column is that regret, from the times of the solvers; the rule for features of unlike size has no say in "
            "it.\n",
        ]  # fmt: skip
        head = ["machine", "data", "parameters", "size", "sdca, s", "interior, s", "pegasos, s", "auto is", "auto, s",
                "regret", "left out"]  # fmt: skip
        rows = self.rows(parts, ("sdca", "interior", "pegasos"), without)
        return "\n".join([*text, markdown(head, list(rows))])


class KernelRegret(Regret):
    """Kernel machines."""

    name, title, cases, quick_data = "kernel", "Kernel machines", KERNEL_CASES, ("waveform",)
    setting = """`SVC` and `SVR` have three solvers that prove what they reach: "smo"; "sbp", which has a good
classifier sooner and ends with "smo"; and "sdca", for machines with a regularised intercept or none. `solver="auto"` is
"smo", on the CPU and on a GPU. Under `max_seconds` "smo" has samples first, and leaves the hinge to "sbp" where all
examples would take too long ([the exact solver](../methods/smo.md)). The kernel is Gaussian with `gamma="scale"` if
nothing else is said."""

    def table(self, parts):
        regrets = auto_regrets(parts)
        text = (
            f'**Measured:** `solver="auto"` takes at most {ALLOWED} times the best solver\'s time in '
            f"{share_said(regrets)}; the median is {np.median(regrets):.2f}, {worst_of(regrets)}."
            f"{nobody(parts)} There is no threshold, so nothing was to be left out.\n\n"
        )
        head = ["machine", "data", "parameters", "size", "smo, s", "sbp, s", "sdca, s", "auto is", "auto, s", "regret"]
        return text + markdown(head, list(self.rows(parts, ("smo", "sbp", "sdca"))))


EXPERIMENTS = [LinearRegret(), KernelRegret()]
