"""What half and twice each tuned constant does to the time of fits: one table.

    python -m benchmarks.micro.constants [--jobs 2] [--turns 5] [names]      constants whose names have such a part

Each constant is halved and doubled in a copy of the package, which compiles its own loops. Two processes on one core,
one with the copy and one with the package as it is, take turns at fits of the data sets that reach the constant, after
a first fit of each. A ratio is that of the least processor seconds of the turns; below 1 the changed constant is
faster. The first rows compare the package with itself, which shows what is noise. "!" marks fits that end for another
reason than those of the package as it is.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks import datasets
from benchmarks.micro.smo_rows import frequent_words, noisy, one_class, standardised

SOURCES = datasets.ROOT / "src"


def _sets():
    """Data by name: few rows, so that a fit takes some tenths of a second."""
    a9a, text = datasets.a9a(), datasets.reuters()
    rng = np.random.default_rng(0)
    return {
        "a9a": (a9a[0][:8000], a9a[1][:8000]),
        "reuters": (text[0], text[1]),
        "words": frequent_words(),
        "mnist 8": one_class("mnist", 784, 255, 8, 5000),
        "covtype 2": standardised("covtype", 54, 2, 6000),
        "generated": noisy(8000, 3, 0.05),
        "ten classes": (rng.normal(size=(3000, 16)).astype(np.float32), rng.integers(10, size=3000)),
    }


#: Kinds of fits: estimators by the data they take.
FITS = {
    "sdca": ("LinearSVC(solver='sdca', tol=1e-4)", ("a9a", "reuters", "mnist 8", "covtype 2")),
    "interior": ("LinearSVC(solver='interior', tol=1e-6, C=10)", ("a9a", "covtype 2", "generated")),
    "auto": ("LinearSVC(tol=1e-4)", ("a9a", "reuters", "mnist 8", "covtype 2", "generated", "ten classes")),
    "smo": ("SVC(C=10)", ("a9a", "words", "mnist 8", "covtype 2", "generated", "ten classes")),
    "limited": ("SVC(C=10, max_seconds=0.3)", ("a9a", "mnist 8", "covtype 2")),
    "sbp": ("SVC(solver='sbp', C=1)", ("a9a", "mnist 8", "covtype 2", "generated")),
    "budgeted": ("BudgetedSVC(budget=200, max_iter=2)", ("a9a", "mnist 8", "covtype 2", "generated")),
    "tracker": ("IncrementalSVC(C=1)", ("a9a", "mnist 8", "covtype 2", "generated")),
    "simba": ("LinearSVC(solver='simba', max_iter=5)", ("a9a", "mnist 8", "covtype 2")),
}

#: Constants that decide speed: file, name, and the fits that reach them.
CONSTANTS = [
    *((f"solvers/smo/rounds.py {name}", "smo") for name in (
        "NEWCOMER", "CLEARLY", "FREQUENT", "MOVES", "LEAST_MOVES", "REDUCED", "PIECE", "STRETCH",
    )),
    *((f"solvers/smo/smo.py {name}", "smo") for name in (
        "ROOM", "SET_SHARE", "HELD_SHARE", "LEAST_SAMPLED", "PRICE", "AT_ONCE",
    )),
    ("solvers/smo/pairs.py MOVES_A_CALL", "smo"),
    ("estimators/fit/pairs.py PAIR_SHARE", "smo"),
    *((f"estimators/fit/ladder.py {name}", "limited") for name in ("FIRST", "PROBE", "GROWTH", "SHARE")),
    *((f"solvers/sdca.py {name}", "sdca") for name in (
        "RATE", "LATE_FROM", "MEAN_ROWS", "UNLOOKED", "NEGLIGIBLE",
    )),
    ("core/sampling/visits.py LONGEST_REST", "sdca"),
    *((f"core/rows/rows.py {name}", "sdca") for name in ("AHEAD", "ENTRIES_AHEAD")),
    *((f"solvers/interior.py {name}", "interior") for name in (
        "TRUSTED", "START", "MOST_CENTRED", "ENTRIES_AT_ONCE", "DENSE_FROM",
    )),
    ("estimators/fit/choosing.py UNSURE", "auto"),
    ("estimators/linear.py UNLIKE", "auto"),
    *((f"solvers/sbp/sbp.py {name}", "sbp") for name in ("SAMPLED", "EASY", "FEWEST", "USED_ONCE")),
    ("core/losses/water_level.py NEAR", "sbp"),
    ("core/losses/water_level.py FEW", "sbp"),
    *((f"core/kernels/matrix.py {name}", "smo") for name in ("DENSER", "ENOUGH")),
    *((f"core/kernels/tiles.py {name}", "smo") for name in ("CHUNK", "DEPTH", "HEIGHT")),
    ("core/kernels/expansion.py TILES", "budgeted"),
    ("core/kernels/merging.py GRID", "budgeted"),
    ("core/kernels/panels.py WIDTH", "tracker"),
    ("solvers/tracking/tracker.py BLOCK", "tracker"),
    ("solvers/simba/steps.py MANY", "simba"),
]  # fmt: skip


def changed(line, factor):
    """A constant's line with its value times a factor; whole numbers stay whole, and 1 at least."""
    name, value, rest = re.fullmatch(r"(\w+ = )([^#]*?)(\s*(?:#.*)?)", line).groups()
    found = eval(value)  # a line of our own sources
    new = found * factor if isinstance(found, float) else max(1, int(found * factor))
    return f"{name}{new!r}{rest}"


def copied(folder, file, name, factor):
    """A copy of the package in a folder, with one constant changed."""
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = Path(folder, "widemargin", file)
    path.write_text(
        re.sub(rf"^{name} = .*$", lambda found: changed(found[0], factor), path.read_text("utf-8"), flags=re.M), "utf-8"
    )


def fit_in_turns(kind):
    """A child: fits the data of a kind of fits once for each line that comes in, and says seconds and reasons."""
    import widemargin

    warnings.simplefilter("ignore")
    words, names = FITS[kind]
    sets = _sets()
    model = eval(
        words, {name: getattr(widemargin, name) for name in ("LinearSVC", "SVC", "BudgetedSVC", "IncrementalSVC")}
    )
    models = {name: model.__sklearn_clone__().set_params(random_state=0) for name in names}
    for name in names:
        models[name].fit(*sets[name])
    print("ready", flush=True)
    for _ in sys.stdin:
        found = {}
        for name in names:
            since = time.process_time()
            models[name].fit(*sets[name])
            found[name] = time.process_time() - since, str(models[name].stop_reason_)
        print(json.dumps(found), flush=True)


def child(kind, sources, cache):
    """A process that waits for its turns."""
    environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{datasets.ROOT}"}
    if cache:
        environment["NUMBA_CACHE_DIR"] = cache
    command = [sys.executable, "-m", "benchmarks.micro.constants", "--fit", kind]
    return subprocess.Popen(
        command, env=environment, cwd=datasets.ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def measured(place, kind, factor, turns, cores):
    """For example "0.98 (a9a) to 1.12 (mnist 8)": the least and the greatest ratio, and where they were."""
    core, least, reasons = cores.get(), ({}, {}), ({}, {})
    with tempfile.TemporaryDirectory() as folder:
        if place:
            copied(Path(folder, "src"), *place.split(), factor)
        pair = child(kind, SOURCES, None), child(kind, Path(folder, "src") if place else SOURCES, place and folder)
        try:
            for process in pair:
                if hasattr(os, "sched_setaffinity"):
                    os.sched_setaffinity(process.pid, {core})
                if not process.stdout.readline():
                    return "failed"
            for turn in range(2 * turns):
                which = (turn + turn // 2) % 2  # each is first as often as the other
                pair[which].stdin.write("\n")
                pair[which].stdin.flush()
                for name, (seconds, reason) in json.loads(pair[which].stdout.readline()).items():
                    least[which][name] = min(seconds, least[which].get(name, seconds))
                    reasons[which][name] = reason
        finally:
            for process in pair:
                process.stdin.close()
                process.wait()
            cores.put(core)
    ratios = {name: least[1][name] / least[0][name] for name in least[0]}
    low, high = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    return f"{ratios[low]:.2f} ({low}) to {ratios[high]:.2f} ({high}){' !' * (reasons[0] != reasons[1])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="pairs of processes at a time, each pair on its own core")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--fit", help="what a child does")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.fit:
        fit_in_turns(given.fit)
        return
    _sets()  # the text of data sets is read once
    chosen = [(p, kind) for p, kind in CONSTANTS if not given.names or any(n in p for n in given.names)]
    cores = queue.Queue()
    for core in range(given.jobs):
        cores.put(core)
    print("| constant | fits | halved | doubled |\n|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        kinds = sorted({kind for _, kind in chosen})
        same = list(pool.map(lambda kind: measured("", kind, 1.0, given.turns, cores), kinds))  # compiles, too
        for kind, found in zip(kinds, same, strict=True):
            print(f"| as it is | {kind} | {found} | |", flush=True)
        jobs = [
            [pool.submit(measured, place, kind, factor, given.turns, cores) for factor in (0.5, 2.0)]
            for place, kind in chosen
        ]
        for (place, kind), both in zip(chosen, jobs, strict=True):
            print(f"| `{place}` | {kind} | {both[0].result()} | {both[1].result()} |", flush=True)


if __name__ == "__main__":
    main()
