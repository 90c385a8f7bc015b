"""What half and twice each tuned constant does to the time of fits: one table.

    python -m benchmarks.micro.constants [--jobs 2] [--turns 5] [names]      constants whose names have such a part

Each constant is halved and doubled in a copy of the package, which compiles its own loops. A process fits the data sets
of the constant's room, in turn, after a first fit of each; times are processor seconds of one thread, and the least of
the turns counts, because other processes run beside. "as it is" is measured as often as all others, so that its spread
shows what is noise. A ratio below 1 means that the changed constant is faster. Fits that end with another reason than
that of the constant as it is are marked with "!".
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
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


def fitted(kind, turns):
    """{data: (least processor seconds, reason)} of one kind of fit."""
    import widemargin

    warnings.simplefilter("ignore")
    words, names = FITS[kind]
    sets, found = _sets(), {}
    models = {name: eval(words, vars(widemargin).copy() | {k: getattr(widemargin, k) for k in widemargin.__all__})
              for name in names}  # fmt: skip
    for name in names:
        models[name].set_params(random_state=0).fit(*sets[name])
    for _ in range(turns):
        for name in names:
            since = time.process_time()
            models[name].fit(*sets[name])
            took = time.process_time() - since
            found[name] = min(took, found.get(name, (np.inf,))[0]), str(models[name].stop_reason_)
    return found


def measured(job, turns):
    """What a process of its own finds for (constant, kind, factor)."""
    place, kind, factor = job
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder, "src")
        if factor == 1.0:
            sources.symlink_to(SOURCES)
        else:
            copied(sources, *place.split(), factor)
        environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{datasets.ROOT}"}
        if factor != 1.0:
            environment["NUMBA_CACHE_DIR"] = folder
        command = [sys.executable, "-m", "benchmarks.micro.constants", "--fit", kind, "--turns", str(turns)]
        done = subprocess.run(command, env=environment, cwd=datasets.ROOT, capture_output=True, text=True)
    if done.returncode:
        return {"failed": " ".join(done.stderr.split())[-200:]}
    return json.loads(done.stdout.splitlines()[-1])


def ratios(found, base):
    """For example ".98 to 1.12 (mnist 8)": the least and the most of the ratios, and where the most was."""
    if "failed" in found:
        return found["failed"]
    each = {name: seconds / np.median([one[name][0] for one in base]) for name, (seconds, _) in found.items()}
    other = any(reason != base[0][name][1] for name, (_, reason) in found.items())
    least, most = min(each, key=each.get), max(each, key=each.get)
    return f"{each[least]:.2f} ({least}) to {each[most]:.2f} ({most}){' !' * other}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--fit", help="what a child does")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.fit:
        print(json.dumps(fitted(given.fit, given.turns)))
        return
    _sets()  # the text of data sets is read once
    chosen = [(p, kind) for p, kind in CONSTANTS if not given.names or any(n in p for n in given.names)]
    kinds = sorted({kind for _, kind in chosen})
    jobs = [("", kind, 1.0) for kind in kinds for _ in range(3)]
    jobs += [(place, kind, factor) for place, kind in chosen for factor in (0.5, 2.0)]
    measured(jobs[0], 1)  # so that each kind is compiled once
    with ThreadPoolExecutor(given.jobs) as pool:
        results = list(pool.map(lambda job: measured(job, given.turns), jobs))
    base = {kind: [r for job, r in zip(jobs, results, strict=True) if job[:2] == ("", kind)] for kind in kinds}
    print("| constant | fits | halved | doubled |\n|---|---|---|---|")
    for kind in kinds:
        print(f"| as it is | {kind} | {' ; '.join(ratios(one, base[kind]) for one in base[kind])} | |")
    by_job = dict(zip(jobs, results, strict=True))
    for place, kind in chosen:
        half, twice = (ratios(by_job[place, kind, factor], base[kind]) for factor in (0.5, 2.0))
        print(f"| `{place}` | {kind} | {half} | {twice} |", flush=True)


if __name__ == "__main__":
    main()
