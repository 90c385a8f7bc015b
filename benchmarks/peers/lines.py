"""Before, now and the rival, in one run: exact kernel machines, SBP, linear machines, first fits.

    python -m benchmarks.peers.lines --before REV [--idle] [--ours TURNS] [lines]    lines by how names begin, or all

*Before* is the package as it was at a revision of this repository, measured by this same file. Each contender has a
process of its own; they take turns, so that a busy moment hits all alike. Processor seconds of one thread, medians over
the turns; with --idle also lines on two threads, by the wall clock; with --ours only before and now, with so many turns
each, which are kept nowhere but in the table. Compilation, reading and evaluation are off the
clock, except for first fits, where compilation is all there is. Where contenders minimise the same function, their
objectives are asserted to agree. Rivals: scikit-learn's SVC (LIBSVM), LinearSVC (LIBLINEAR) and SGDClassifier;
scikit-learn-intelex where it is installed, in the place of scikit-learn's SVC, with the data as it is fastest with.
The table goes to bench_output/lines.md, the numbers to benchmarks/results/lines.json, where those of lines that are
measured again take the places of their earlier ones.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC as LibSVC
from sklearn.svm import SVR as LibSVR
from sklearn.svm import LinearSVC as LibLinearSVC

import widemargin
from benchmarks import datasets
from benchmarks.micro import smo_rows
from benchmarks.micro.startup import FIRST_OF_KIND, python
from benchmarks.peers.libsvm import dual_value
from benchmarks.peers.sbp import errors_along_time, limit, prepared, test_error
from benchmarks.timing import Twin, clock
from benchmarks.timing import turns as in_turns
from widemargin.running import run

try:
    from sklearnex.svm import SVC as RivalSVC
    from sklearnex.svm import SVR as RivalSVR
except ImportError:
    RivalSVC, RivalSVR = LibSVC, LibSVR

FOLDER = datasets.ROOT / "bench_output" / "lines"
SVC_NAME = "scikit-learn's SVC" if RivalSVC is LibSVC else "scikit-learn-intelex"
SVR_NAME = SVC_NAME.replace("SVC", "SVR")
HALF = None if RivalSVC is LibSVC else 0.5  # what was asked for is a share of the time of scikit-learn-intelex
OURS = ("before", "now")


def seconds_of(function):
    since = time.process_time()
    function()
    return time.process_time() - since


# Kernel machines.


def rival_machine(parameters, X, y):
    """The rival, and the data in the form in which it is fastest: scikit-learn-intelex takes float32 and CSR as they
    are, but is faster with dense rows where they are narrow; LIBSVM would convert all to float64.
    """
    if RivalSVC is LibSVC:
        return LibSVC(**parameters), X.astype(np.float64)
    model, forms = RivalSVC(**parameters, n_jobs=1), [X]
    if sp.issparse(X) and X.shape[0] * X.shape[1] <= 2**25:
        forms.append(X.toarray())
    return model, min(forms, key=lambda form: seconds_of(lambda: model.fit(form, y))) if len(forms) > 1 else X


def exact(get, gamma, C, predicted=0):
    """Fits of an exact RBF machine, and predictions of some rows."""

    def make(contender, _):
        X, y = get()
        y = np.asarray(y, int)
        parameters = {"gamma": gamma, "C": C, "cache_size": 200}
        if contender in OURS:
            model = widemargin.SVC(**parameters, random_state=0)
            widemargin.SVC(**parameters, max_iter=2).fit(X[:3000], y[:3000])  # compiles
            widemargin.SVC(**parameters).fit(X[:600], y[:600]).predict(X[:600])
        else:
            model, X = rival_machine(parameters, X, y)
        values = []

        def turn():
            found = {"seconds": seconds_of(lambda: model.fit(X, y))}
            if predicted:
                found["predict"] = seconds_of(lambda: model.predict(X[:predicted]))
            if not values:
                values.append(dual_value(model, X.astype(np.float64)))
            return {**found, "value": values[0], "said": f"{model.support_.size} vectors"}

        return turn

    return make


def regression(get, gamma, C, epsilon):
    """Fits of an exact RBF regressor."""

    def make(contender, _):
        X, y = get()
        parameters = {"gamma": gamma, "C": C, "epsilon": epsilon, "cache_size": 200}
        if contender in OURS:
            model = widemargin.SVR(**parameters, random_state=0)
            widemargin.SVR(**parameters, max_iter=2).fit(X[:3000], y[:3000])  # compiles
        elif RivalSVR is LibSVR:
            model, X = LibSVR(**parameters), X.astype(np.float64)
        else:
            model = RivalSVR(**parameters, n_jobs=1)
        values = []

        def value():
            """Σ yβ − ε Σ |β| − ½ ‖w‖²."""
            beta, vectors = np.ravel(model.dual_coef_), X[model.support_].astype(np.float64)
            blocks = [slice(i, i + 1024) for i in range(0, beta.size, 1024)]
            norm2 = sum(float(beta[b] @ rbf_kernel(vectors[b], vectors, gamma=gamma) @ beta) for b in blocks)
            return float(y[model.support_] @ beta) - epsilon * float(np.abs(beta).sum()) - 0.5 * norm2

        def turn():
            found = {"seconds": seconds_of(lambda: model.fit(X, y))}
            if not values:
                values.append(value())
            return {**found, "value": values[0], "said": f"{model.support_.size} vectors"}

        return turn

    return make


def two_threads(get, gamma, C):
    """Wall clock with two threads, over that with one."""

    def make(_, __):
        X, y = get()
        one, two = (widemargin.SVC(C, gamma=gamma, n_jobs=jobs, random_state=0) for jobs in (1, 2))
        for model in (one, two):
            model.fit(X[:600], y[:600]).predict(X[:600])

        def alternating(work):
            """Medians of five turns of two threads, of one, and of two processes with one thread each: the clock of a
            shared machine goes up and down.
            """
            twin = Twin(lambda: work(one))
            taken = in_turns(
                {"two": lambda: clock(lambda: work(two)), "one": lambda: clock(lambda: work(one)), "both": twin.clock},
                5,
            )
            twin.end()
            return [float(np.median(seconds)) for seconds in taken.values()]

        def turn():
            fits = alternating(lambda model: model.fit(X, y))
            scores = alternating(lambda model: model.decision_function(X[:5000]))
            said = f"two processes {fits[2] / fits[1] / 2:.2f}, predicting {scores[2] / scores[1] / 2:.2f}"
            return {
                "seconds": fits[0], "beside": fits[1], "predict": scores[0], "predict beside": scores[1], "said": said,
            }  # fmt: skip

        return turn

    return make


def sbp(get, gamma, C):
    """SBP until its test errors are 1.02 times those of our own SMO, to whole examples, beside SMO to the end.

    Each turn has a seed of its own: where few examples are wrong, one or two decide at which look SBP is there.
    """

    def make(_, __):
        problem, Z, t, preparing = prepared(get, gamma, C)
        exact, solver = widemargin.SMO(), widemargin.StochasticBatchPerceptron()
        for each in (exact, solver):
            run(each, problem.take(np.arange(2500)), rng=np.random.default_rng(0), tol=1e-2, max_epochs=5)
        seeds = itertools.count()

        def turn():
            # the model alone: kernel rows that SMO still had would leave SBP with memory nobody has touched
            found, seed = [], next(seeds)
            rng = np.random.default_rng(seed)
            smo = preparing + seconds_of(
                lambda: found.append(run(exact, problem, rng=rng, tol=1e-3, max_epochs=1e9).model)
            )
            error = test_error(found[0], Z, t)
            most = limit(error, t)
            rows, _ = errors_along_time(solver, problem, Z, t, most, 4 * smo, seed, preparing)
            reached = len(rows) > 1 and max(rows[-1].error, rows[-2].error) <= most
            at = rows[-2] if reached else rows[-1]
            said = f"{'' if reached else 'not reached: '}{at.error:.2%} in {at.part}, exact {error:.2%}"
            return {"seconds": at.seconds, "beside": smo, "said": said}

        return turn

    return make


# Linear machines: ½‖w‖² + ½b² + C Σ hinge with C = 1, the bias a constant feature.

LINEAR = {
    "a9a": datasets.a9a,
    "reuters": datasets.reuters,
    "words": lambda: datasets.split(*smo_rows.frequent_words(), 0.25),
    "news20": datasets.news20,
}


def objective(model, X, y):
    w, b = np.ravel(model.coef_).astype(np.float64), float(np.ravel(model.intercept_)[0])
    return 0.5 * (w @ w + b * b) + np.maximum(0.0, 1.0 - y * (X @ w + b)).sum()


def optimum(name):
    """The best objective, a bound below it, and the test error there: what all contenders are held against."""
    X, y, Z, t = LINEAR[name](np.float64) if name != "words" else LINEAR[name]()
    model = widemargin.LinearSVC(tol=1e-5, max_iter=5000, random_state=0).fit(X.astype(np.float64), y)
    best, gap = objective(model, X, y), model.certificate_.relative_gap
    return {"best": best, "bound": best * (1.0 - gap), "error": 1.0 - model.score(Z.astype(np.float64), t)}


def fits(model, X, y, Z, t):
    def turn():
        found = {"seconds": seconds_of(lambda: model.fit(X, y))}
        error = float(np.mean(model.predict(Z) != t))
        return {**found, "value": objective(model, X.astype(np.float64), y), "error": error}

    return turn


def to_error(name):
    """Whole fits with the fewest epochs that have 1.1 times the error of the optimum, by the fastest way there is."""

    def make(contender, reference):
        X, y, Z, t = LINEAR[name]()

        def machine(kind, epochs):
            if contender in OURS:
                return widemargin.LinearSVC(solver=kind, max_iter=epochs, tol=0, random_state=0), X, y, Z, t
            rival = SGDClassifier(alpha=1 / y.size, average=True, tol=None, max_iter=epochs, random_state=0)
            return rival, X.astype(kind), y, Z.astype(kind), t

        ways = []
        for kind in ("sdca", "pegasos") if contender in OURS else ("float32", "float64"):
            for epochs in (1, 2, 3, 5, 10, 20):
                turn = fits(*machine(kind, epochs))
                error = turn()["error"]
                if error <= 1.1 * reference["error"]:
                    ways.append((min(turn()["seconds"] for _ in range(3)), turn, f"{kind}, {epochs} ep., {error:.2%}"))
                    break
        _, turn, said = min(ways, key=lambda way: way[0])
        return lambda: {"seconds": np.median([turn()["seconds"] for _ in range(7)]), "said": said}

    return make


def to_excess(name, excess, **parameters):
    """Whole fits that end by themselves, beside LIBLINEAR with the loosest tolerance that has the same excess."""

    def make(contender, reference):
        data = LINEAR[name]()
        if contender in OURS:
            turn = fits(widemargin.LinearSVC(**parameters, random_state=0), *data)
            turn()  # compiles
        else:
            X, y, Z, t = data
            X = X.astype(np.float64)
            for tol in 64.0 * 2.0 ** -np.arange(30):
                rival = LibLinearSVC(loss="hinge", tol=tol, max_iter=10**6, random_state=0)
                turn = fits(rival, X, y, Z, t)
                if turn()["value"] <= (1.0 + excess) * reference["best"]:
                    break

        def measured():
            found = turn()
            assert found["value"] >= (1.0 - 1e-6) * reference["bound"], "another problem was solved"
            reached = found["value"] / reference["best"] - 1.0
            assert reached <= excess, f"{contender} ended {reached:.1e} above the optimum"
            found["said"] = f"excess {max(reached, 0.0):.1e}"
            return {key: found[key] for key in ("seconds", "said")}

        return measured

    return make


def epochs(name, count, average):
    """Whole fits of a fixed number of epochs."""

    def make(contender, _):
        X, y, Z, t = LINEAR[name]()
        model = SGDClassifier(alpha=1 / y.size, average=average, tol=None, max_iter=count, random_state=0)
        if contender in OURS:
            model = widemargin.LinearSVC(solver="pegasos", max_iter=count, tol=0, random_state=0)
        turn = fits(model, X, y, Z, t)
        turn()
        return lambda: (lambda found: {"seconds": found["seconds"], "said": f"error {found['error']:.2%}"})(turn())

    return make


def first_fit(model):
    """A first fit with nothing on disk: 200 × 5 in float32."""

    def make(_, __):
        def turn():
            with tempfile.TemporaryDirectory() as folder:
                script = FIRST_OF_KIND.format(model=model, dtype="float32", sparse=False)
                return {"seconds": float(python(script, NUMBA_CACHE_DIR=folder))}

        return turn

    return make


class Line(NamedTuple):
    """What is measured, and beside whom; how often; the data whose optimum it needs; the ratio asked for, or the most
    seconds; and whether it means anything on an idle machine only.
    """

    make: Callable
    rival: str
    turns: int = 3
    rival_turns: int = 3
    optimum: str = ""
    asked: float | None = None
    most: float | None = None
    idle: bool = False


def kernel_set(name):
    return smo_rows.SETS[name]


SGD, LIBLINEAR, SMO = "SGDClassifier averaged", "LIBLINEAR (scikit-learn)", "own SMO to the end"
images = kernel_set("images")
LINES = {
    "exact: sparse binary, a9a with pairs, 8,000 × 300": Line(
        exact(lambda: smo_rows.feature_pairs(8000), 0.05, 1.0), SVC_NAME, rival_turns=1, asked=HALF
    ),
    "exact: a9a, 32,561 × 123": Line(exact(*kernel_set("a9a")), SVC_NAME, rival_turns=1),
    "exact: text, frequent words of reuters, present or not": Line(exact(*kernel_set("words")), SVC_NAME, asked=HALF),
    "exact: text, reuters": Line(exact(*kernel_set("reuters")), SVC_NAME, rival_turns=1, asked=HALF),
    "exact: images, mnist 3 vs rest, 15,000 × 784": Line(exact(*images), SVC_NAME, asked=HALF),
    "exact: images, usps 3 vs rest, 7,291 × 256": Line(exact(*kernel_set("usps")), SVC_NAME, asked=HALF),
    "exact: images, mnist 8 vs rest, 20,000 × 784": Line(
        exact(lambda: smo_rows.one_class("mnist", 784, 255, 8, 20000), 0.02, 1.0), SVC_NAME, asked=HALF
    ),
    "exact: images, mnist 8 vs rest, 12,000 × 784, C = 10": Line(
        exact(lambda: smo_rows.one_class("mnist", 784, 255, 8, 12000), 0.02, 10.0), SVC_NAME, rival_turns=1
    ),
    "exact: shuttle, 43,500 × 9": Line(exact(*kernel_set("shuttle")), SVC_NAME, rival_turns=1),
    "exact: covtype's first ten features, 10,000 rows": Line(
        exact(lambda: smo_rows.standardised("covtype", 54, 2, 10000, 10), 1.0, 1.0), SVC_NAME, rival_turns=1
    ),
    "exact: generated, 30,000 × 3": Line(exact(*kernel_set("noisy")), SVC_NAME, rival_turns=1),
    "exact: generated, 300 × 3": Line(exact(lambda: smo_rows.noisy(300, 3, 0.1), 1.0, 1.0), SVC_NAME, turns=15),
    "exact: regression, cpusmall, 8,192 × 12": Line(regression(*smo_rows.REGRESSIONS["cpusmall"]), SVR_NAME),
    "exact: regression, mnist's digits, 6,000 × 784": Line(
        regression(lambda: smo_rows.digits(6000), 0.02, 10.0, 0.5), SVR_NAME, rival_turns=1
    ),
    "ten classes, one-vs-one: mnist, 6,000": Line(
        exact(lambda: smo_rows.digits(6000), 0.02, 10.0, 5000), SVC_NAME, rival_turns=1
    ),
    "two threads (wall clock): images": Line(two_threads(*images), "one thread", asked=1 / 1.6, idle=True),
    "SBP to 1.02 × the exact error: a9a": Line(sbp(*kernel_set("a9a")), SMO, turns=5, asked=1.2),
    "SBP: frequent words": Line(sbp(*kernel_set("words")), SMO, turns=5, asked=1.2),
    "SBP: images": Line(sbp(*images), SMO, turns=5, asked=1.2),
    "SBP: shuttle": Line(sbp(*kernel_set("shuttle")), SMO, turns=5, asked=1.2),
    "SBP: covtype's first ten features, 10,000 rows": Line(
        sbp(lambda: smo_rows.standardised("covtype", 54, 2, 10000, 10), 1.0, 1.0), SMO, turns=5, asked=1.2
    ),
    "SBP: generated, 100,000 × 3": Line(
        sbp(lambda: smo_rows.noisy(100_000, 3, 0.0), 1.0, 10.0), SMO, turns=5, asked=1.2
    ),
    **{
        f"linear to 1.1 × the best error: {name}": Line(to_error(name), SGD, optimum=name, asked=0.8)
        for name in ("a9a", "reuters", "news20")
    },
    **{
        f"LinearSVC() until it stops: {name}": Line(to_excess(name, 1e-3), LIBLINEAR, optimum=name, asked=1.0)
        for name in LINEAR
    },
    **{
        f"sdca to 1e-2: {name}": Line(
            to_excess(name, 1e-2, solver="sdca", tol=1e-2), LIBLINEAR, optimum=name, asked=1.0
        )
        for name in ("reuters", "news20")
    },
    "five epochs: news20, averaged": Line(epochs("news20", 5, True), SGD),
    "five epochs: news20, rival's last iterate": Line(epochs("news20", 5, False), "SGDClassifier"),
    **{
        f"first fit, cold: {model}": Line(first_fit(model), "", turns=1, most=most)
        for model, most in (
            ("LinearSVC(solver='pegasos')", 4.0),
            ("LinearSVC(solver='sdca')", 3.0),
            ("SVC()", 6.0),
            ("SVC(solver='sbp')", 10.0),
            ("BudgetedSVC()", 8.0),
        )
    },
}


# The run.


def commit(revision):
    """The short name of a revision."""
    command = ["git", "rev-parse", "--short", f"{revision}^{{commit}}"]
    return subprocess.run(command, cwd=datasets.ROOT, check=True, capture_output=True, text=True).stdout.strip()


def unpacked(revision):
    """The folder of the sources at a revision; their times are the commit's, so that compiled code stays valid."""
    name = commit(revision)
    folder = FOLDER / name
    if not (folder / "src").exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", name, "src"], cwd=datasets.ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
    return folder


class Contender:
    """A process that waits for its turns."""

    def __init__(self, line, who, before, reference=None):
        sources = before / "src" if who == "before" else datasets.ROOT / "src"
        environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{datasets.ROOT}"}
        if who == "before":
            environment["NUMBA_CACHE_DIR"] = str(before / "cache")
        command = [sys.executable, "-m", "benchmarks.peers.lines", "--contend", line, who, json.dumps(reference)]
        self.process = subprocess.Popen(
            command, cwd=datasets.ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        package = self.answer()
        assert Path(package).is_relative_to(sources), f"{who} would measure {package}"

    def answer(self):
        text = self.process.stdout.readline()
        if not text:
            sys.exit(f"a contender ended with {self.process.wait()}")
        return json.loads(text)

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def contend(line, who, reference):
    """Says which package it measures, then takes a turn for each line that comes in."""
    warnings.simplefilter("ignore")
    turn = (lambda: optimum(line)) if who == "optimum" else LINES[line].make(who, json.loads(reference))
    print(json.dumps(str(Path(widemargin.__file__).resolve())), flush=True)
    for _ in sys.stdin:
        print(json.dumps(turn()), flush=True)


def measure(name, before, optima, ours):
    """What each contender's turns gave, by its name; with ``ours``, of so many turns of our own."""
    line = LINES[name]._replace(**({"turns": ours} if ours else {}))
    if line.optimum and line.optimum not in optima:
        judge = Contender(line.optimum, "optimum", before)
        optima[line.optimum] = judge.turn()
        judge.end()
    in_process = line.rival in ("", "one thread", SMO)
    who = OURS if in_process or ours else (*OURS, "rival")
    contenders = {each: Contender(name, each, before, optima.get(line.optimum)) for each in who}
    found = {each: [] for each in who}
    for k in range(line.turns):
        for each, contender in list(contenders.items())[:: 1 if k % 2 else -1]:
            if each in OURS or k < line.rival_turns:
                found[each].append(contender.turn())
    for contender in contenders.values():
        contender.end()
    values = [turns[0]["value"] for turns in found.values() if "value" in turns[0]]
    assert not values or np.ptp(values) <= 2e-3 * abs(values[0]), (name, values)
    return found


def rows(name, found):
    """The table's rows: one for fits, one for predictions where there are any."""
    line = LINES[name]

    def median(who, key):
        return float(np.median([turn[key] for turn in found[who]])) if who in found and key in found[who][0] else None

    for key, what in (("seconds", name), ("predict", f"{name}: prediction")):
        old, new = median("before", key), median("now", key)
        if new is None:
            continue
        beside = "beside" if key == "seconds" else "predict beside"
        theirs = [median(who, beside) or median("rival", key) for who in OURS]
        ratios = [None if t is None else own / t for own, t in zip((old, new), theirs, strict=True)]
        has_goal = line.asked is not None and ratios[1] is not None
        asked = f"≤ {line.asked:.3g}" if has_goal else ""
        met = not has_goal or ratios[1] <= line.asked
        if line.most is not None:
            asked, met = f"≤ {line.most:g} s", new <= line.most
        said = {who: turns[-1]["said"] for who, turns in found.items() if "said" in turns[-1]}
        said = "; ".join(f"{who} {text}" for who, text in said.items()) if key == "seconds" else ""
        rival = "" if theirs[1] is None else f"{line.rival} {theirs[1]:.3g}"
        if theirs[0] != theirs[1]:
            rival += f" (before {theirs[0]:.3g})"
        ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        best = min(turn[key] for turn in found["now"]) / min(turn[key] for turn in found["before"])
        verdict = asked and f"{asked} {'met' if met else 'missed'}"
        cells = what, rival, f"{old:.3g}", f"{new:.3g}", *ratios, f"{new / old:.2f}, {best:.2f}", verdict, said
        yield f"| {' | '.join(cells)} |"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lines", nargs="*", help="how their names begin")
    parser.add_argument("--before", required=True, help="the revision to hold this one against")
    parser.add_argument("--idle", action="store_true", help="nothing else runs: lines on the wall clock too")
    parser.add_argument("--ours", type=int, metavar="TURNS", help="before and now alone, so many turns each")
    chosen = parser.parse_args(arguments)
    before, optima, all_found = unpacked(chosen.before), {}, {}
    names = [name for name, line in LINES.items() if chosen.idle or not line.idle]
    whole = not chosen.lines
    names = [name for name in names if whole or name.startswith(tuple(chosen.lines))]
    table = [
        "| line | rival, s | before, s | now, s | before/rival | now/rival | now/before: medians, least | asked | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(table))
    for name in names:
        all_found[name] = measure(name, before, optima, chosen.ours)
        for row in rows(name, all_found[name]):
            table.append(row)
            print(row, flush=True)
    FOLDER.with_suffix(".md").write_text("\n".join(table) + "\n", encoding="utf-8")
    if chosen.ours:
        return
    kept = datasets.ROOT / "benchmarks" / "results" / "lines.json"
    now, runs = commit("HEAD"), {} if whole else json.loads(kept.read_text(encoding="utf-8"))
    lines = {name: {"now at": now, **found} for name, found in all_found.items()}
    found = {"before": before.name, "now": runs.get("now", now), "lines": runs.get("lines", {}) | lines}
    kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--contend"]:
        contend(*sys.argv[2:])
    else:
        main(sys.argv[1:])
