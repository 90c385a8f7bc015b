"""SIMBA against Pegasos on dense data with rare groups, where the theory says that it must win.

- ``python -m benchmarks.papers.simba_groups``: reads to the same error. They do not depend on the machine.
- ``python -m benchmarks.papers.simba_groups clock``: processor seconds to the same error, with the parameters that the
  first command found.
- ``python -m benchmarks.papers.simba_groups mapped``: bytes from storage, and seconds, where the data is two files of
  4 GB whose pages are not in memory, three data sets. SIMBA finds its level on 50 rows. Needs 10 GB in the folder for
  temporary files.

n = d = 8,000, four rare groups with 8 rows each, B² ≈ 25 and 275 (:mod:`widemargin.data.generators`); float32, no label
noise, 8,000 test rows. Settled before the runs:

- The error to reach is that of Pegasos after eight passes, data set by data set. It is reached at the first point from
  which the error stays at or below it. Points are a factor of 2^(1/3) apart.
- Both methods have the parameters with the least reads on three other data sets. Pegasos: 1/(λt) or a first step of 1,
  and four λ, for its average and its last iterate, whichever needs less, data set by data set. SIMBA: the forms of its
  steps and ν; the defaults, with this ν, have a column of their own.
- The clock counts the steps alone, in one call, five times; the median counts. Compilation is off the clock, and
  laying the data out by columns has a line of its own. SIMBA has the form with the least reads, and as many columns a
  step as take the least seconds on the three other data sets; with one column a step it has a line of its own.

Writes ``benchmarks/results/simba_groups.json``, ``simba_groups_clock.json`` and ``simba_groups_mapped.json``.
"""

import gc
import itertools
import json
import mmap
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.papers.simba_curves import (
    DENSE,
    ERROR,
    HINGE,
    RESULTS,
    crossing,
    judge_of,
    keep,
    pegasos_curve,
    problem_of,
    simba_curve,
    stops,
)
from benchmarks.timing import verdict
from widemargin import SDCA, Pegasos, Simba, TwoWays
from widemargin.core.rows.columns import as_columns
from widemargin.core.rows.rows import as_rows
from widemargin.data.generators import RareGroups
from widemargin.problems.linear import Problem
from widemargin.solvers.pegasos import Bottou, InverseTime

N = D = 8000
NORMS2 = (25.0, 275.0)
PASSES = 8
#: Seeds of the data sets in files.
MAPPED = range(3)
TRIALS = range(1000, 1003)
PEGASOS = [
    {"lam": lam, "step": step, "iterate": which}
    for lam, step, which in itertools.product((1e-3, 1e-4, 1e-5, 1e-6), ("pegasos", "bottou"), ("average", "last"))
]
SIMBA = [
    {"nu": nu, "primal": primal, "dual": dual, "columns": columns, "rows_per_step": rows, "columns_per_step": width}
    for nu, primal, dual, columns, (rows, width) in itertools.product(
        (0.0, 3e-4), ("adaptive", "averaging"), ("quadratic", "exponential"), ("squared", "absolute"), ((1, 1), (4, 16))
    )
]
#: Columns a step that are tried for the least seconds: each of them takes a fraction of what the step takes.
WIDTHS = (1, 2, 4, 8, 16)
#: What is asked of SIMBA's reads, and of its seconds.
ASKED = {25.0: (1 / 8, 1 / 3), 275.0: (1 / 2, np.inf)}


def data(norm2, seed, n=N, d=D, n_test=N, **options):
    """(X, y, judge) of a data set."""
    rng = np.random.default_rng(seed)
    made = RareGroups(n, d, rng, norm2=norm2, **options)
    X, y = made.rows(made.members(n, rng), rng)
    made.flipped = 0.0  # what is right is asked for
    return X, y, judge_of(*made.rows(made.members(n_test, rng), rng))


def pegasos_of(setting):
    return Pegasos(Bottou(1.0) if setting["step"] == "bottou" else InverseTime())


def simba_of(setting):
    return Simba(size=1.0 + 1e-5, **setting)


def curves_of_pegasos(X, y, judge, seed, settings, passes=PASSES):
    """A curve for each of the settings."""
    found, runs = [], {}
    for setting in settings:
        key = setting["lam"], setting["step"]
        if key not in runs:
            problem, at = problem_of(X, y, setting["lam"]), stops(10, passes * y.size)
            runs[key] = pegasos_curve(pegasos_of(setting), problem, judge, np.random.default_rng(seed), at)
        found.append(runs[key][setting["iterate"] == "last"])
    return found


def curves_of_simba(X, y, judge, seed, settings, most):
    """The same for SIMBA, up to so many reads."""
    problem, found = problem_of(X, y), []
    for setting in settings:
        n_rows, n_columns = setting.get("rows_per_step", 1), setting.get("columns_per_step", 1)
        at = stops(4, most / (n_rows * X.shape[1] + n_columns * X.shape[0]))
        found.append(simba_curve(simba_of(setting), problem, judge, np.random.default_rng(seed), at))
    return found


def reads_to_level(curves, level):
    return np.array([crossing(curve, level, DENSE) for curve in curves])


def choose(norm2, **options):
    """The settings with the least reads on the trial data sets, by their geometric means, and the best forms of SIMBA.

    A run that does not get there counts as eight passes.
    """
    of_pegasos, of_simba = [], []
    for seed in TRIALS:
        X, y, judge = data(norm2, seed, **options)
        own, most = curves_of_pegasos(X, y, judge, seed, PEGASOS), PASSES * X.size
        level = min(curve[-1, ERROR] for curve in own)
        of_pegasos.append(np.minimum(reads_to_level(own, level), most))
        best = of_pegasos[-1].min()
        of_simba.append(np.minimum(reads_to_level(curves_of_simba(X, y, judge, seed, SIMBA, 2 * best), level), most))
    pegasos, simba = np.exp(np.mean(np.log(of_pegasos), axis=0)), np.exp(np.mean(np.log(of_simba), axis=0))
    ranks = [{**SIMBA[k], "passes": simba[k] / (N * D)} for k in np.argsort(simba)]
    rivals = [
        PEGASOS[min((k for k, own in enumerate(PEGASOS) if own["iterate"] == which), key=lambda k: pegasos[k])]
        for which in ("average", "last")
    ]
    return rivals, SIMBA[int(np.argmin(simba))], ranks


def finite(reads):
    """As lists, None where a run did not get there."""
    return [[float(each) if np.isfinite(each) else None for each in row] for row in reads]


def measure(norm2, runs):
    since = time.perf_counter()
    rivals, own, ranks = choose(norm2)
    print(f"B² = {norm2:g}: Pegasos {rivals}, SIMBA {own}", flush=True)
    rows = []
    for seed in range(runs):
        X, y, judge = data(norm2, seed)
        pegasos = curves_of_pegasos(X, y, judge, seed, rivals)
        level = min(curve[-1, ERROR] for curve in pegasos)
        theirs = reads_to_level(pegasos, level)
        simba = curves_of_simba(X, y, judge, seed, [own, {"nu": own["nu"]}], 4 * theirs.min())
        rows.append([*theirs, *reads_to_level(simba, level), level])
        print(
            f"    seed {seed}: reads / 10⁶ {np.round(np.array(rows[-1][:4]) / 1e6, 2)}, error {level:.3%}", flush=True
        )
        del X, y, judge
    reads = np.array(rows)
    least = reads[:, :2].min(axis=1)
    ratio, plain = reads[:, 2] / least, reads[:, 3] / least
    for name, values in (("SIMBA", ratio), ("SIMBA, defaults", plain)):
        low, middle, high = np.percentile(values, [25, 50, 75])
        print(f"    {name:16s} reads over Pegasos': median {middle:.3f} [{low:.3f}, {high:.3f}]")
    print(f"    reads asked for: {verdict(float(np.median(ratio)), ASKED[norm2][0])}", flush=True)
    return {
        "pegasos": rivals, "simba": own, "runs": runs, "levels": reads[:, 4].tolist(), "reads": finite(reads[:, :4]),
        "ratio": float(np.median(ratio)), "quartiles": np.percentile(ratio, [25, 75]).tolist(),
        "of_sums": float(reads[:, 2].sum() / least.sum()), "defaults": float(np.median(plain)),
        "best_forms": ranks[:6], "seconds": round(time.perf_counter() - since),
    }  # fmt: skip


# ---------------------------------------------------------------- the clock


def seconds_of(solver, problem, steps, seed):
    """Processor seconds of so many steps in one call, the median of five."""
    found = []
    for _ in range(5):
        state = solver.init(problem, np.random.default_rng(seed))
        solver.advance(problem, state, 0)  # compiles, and lays out
        since = time.process_time()
        solver.advance(problem, state, steps)
        found.append(time.process_time() - since)
    return float(np.median(found))


def steps_to_level(X, y, judge, seed, own, level, most):
    """Steps of SIMBA to an error, infinite if that takes more reads than ``most``."""
    reads = reads_to_level(curves_of_simba(X, y, judge, seed, [own], most), level)[0]
    return reads / (own["rows_per_step"] * X.shape[1] + own["columns_per_step"] * X.shape[0])


def choose_width(norm2, kept):
    """SIMBA's setting with as many columns a step as take the least seconds on the trial data sets."""
    settings = [{**kept["simba"], "columns_per_step": width} for width in WIDTHS]
    rows = []
    for seed in TRIALS:
        X, y, judge = data(norm2, seed)
        curves = curves_of_pegasos(X, y, judge, seed, kept["pegasos"])
        level = min(curve[-1, ERROR] for curve in curves)
        most = reads_to_level(curves, level).min()
        problem = Problem(as_rows(X), y, HINGE, 1.0, columns=as_columns(X))
        steps = [min(steps_to_level(X, y, judge, seed, own, level, most), most / (2 * N)) for own in settings]
        rows.append([count * seconds_of(simba_of(own), problem, 100, 0) for own, count in zip(settings, steps)])
    means = np.exp(np.mean(np.log(rows), axis=0))
    print("    milliseconds for so many columns a step:", dict(zip(WIDTHS, np.round(10.0 * means, 2))))
    return settings[int(np.argmin(means))]


def clock(norm2, kept):
    """Seconds of the steps to the same error, and of laying the data out by columns."""
    own, rows = choose_width(norm2, kept), []
    for seed, (*of_rivals, ours, _) in enumerate(kept["reads"]):
        theirs, rival = min((reads, k) for k, reads in enumerate(of_rivals) if reads is not None)
        rival = kept["pegasos"][rival]
        X, y, judge = data(norm2, seed)
        since = time.process_time()
        columns = as_columns(X)
        layout = time.process_time() - since
        pegasos = seconds_of(pegasos_of(rival), problem_of(X, y, rival["lam"]), int(theirs / D), seed)
        problem = Problem(as_rows(X), y, HINGE, 1.0, columns=columns)
        steps = steps_to_level(X, y, judge, seed, own, kept["levels"][seed], 4 * theirs)
        simba = seconds_of(simba_of(own), problem, int(steps), seed) if np.isfinite(steps) else np.inf
        single = np.inf if ours is None else seconds_of(simba_of(kept["simba"]), problem, int(ours / (N + D)), seed)
        reads = steps * (own["rows_per_step"] * D + own["columns_per_step"] * N) / theirs
        rows.append((pegasos, simba, single, layout, reads))
        print(
            f"    seed {seed}: Pegasos {pegasos * 1e3:.2f} ms, SIMBA {simba * 1e3:.2f} ({reads:.2f} of the reads), "
            f"one column a step {single * 1e3:.2f}, columns laid out in {layout:.2f} s", flush=True,
        )  # fmt: skip
        del X, problem, columns, judge
    found = np.array(rows)
    ratio, single = (float(np.median(found[:, k] / found[:, 0])) for k in (1, 2))
    print(f"B² = {norm2:g}, {own['columns_per_step']} columns a step, one: {single:.3f}")
    print(f"    seconds asked for: {verdict(ratio, ASKED[norm2][1])}", flush=True)
    return {
        "simba": own, "seconds": finite(found[:, :4]), "ratio": ratio, "one_column": single,
        "quartiles": np.percentile(found[:, 1] / found[:, 0], [25, 75]).tolist(),
        "reads": float(np.median(found[:, 4])), "layout": float(np.median(found[:, 3])),
    }  # fmt: skip


# ---------------------------------------------------------------- files larger than memory would like


def write_files(folder, made, group, rng):
    """The rows of these groups in two files, by rows and by columns; returns the labels."""
    n, d = group.size, made.directions.shape[1]
    by_rows = np.lib.format.open_memmap(folder / "rows.npy", "w+", np.float32, (n, d))
    by_columns = np.lib.format.open_memmap(folder / "columns.npy", "w+", np.float32, (n, d), fortran_order=True)
    y = np.empty(n)
    for first in range(0, n, 1000):
        part = slice(first, first + 1000)
        by_rows[part], y[part] = made.rows(group[part], rng)
        by_columns[part] = by_rows[part]
    by_rows.flush(), by_columns.flush()
    return y


def drop_pages(folder):
    """Let the files' pages leave memory."""
    gc.collect()  # maps that are still open would keep them
    for path in folder.glob("*.npy"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def opened(folder, name, advice):
    """A file as a memory map with this advice."""
    mapped = np.load(folder / f"{name}.npy", mmap_mode="r")
    base = mapped
    while not isinstance(base, mmap.mmap):
        base = base.base
    base.madvise(advice)
    return mapped


def from_storage():
    """Bytes that this process has had read from storage."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("read_bytes")).split()[1])


def cold(folder, solver, y, lam, advance, advice, seed):
    """(seconds, bytes from storage, state) of a run whose data is not in memory; ``advance`` returns seconds off it."""
    few = np.eye(8, dtype=np.float32)
    small = Problem(as_rows(few), np.where(np.arange(8) < 4, 1.0, -1.0), HINGE, lam, columns=as_columns(few))
    solver.advance(small, solver.init(small, np.random.default_rng(0)), 8)  # compiles
    drop_pages(folder)
    data = TwoWays(opened(folder, "rows", advice), opened(folder, "columns", advice))
    problem = Problem(data.by_rows, y, HINGE, lam, columns=data.by_columns)
    before, since = from_storage(), time.perf_counter()
    state = solver.init(problem, np.random.default_rng(seed))
    aside = advance(solver, problem, state)
    return time.perf_counter() - since - aside, from_storage() - before, state


def mapped(norm2, kept, n, d, seed):
    """Seconds and bytes to the same error from files: SIMBA, Pegasos, and SDCA pass by pass."""
    folder = Path(tempfile.mkdtemp(prefix="widemargin-"))
    try:
        rng = np.random.default_rng(seed)
        made = RareGroups(n, d, rng, norm2=norm2)
        group = made.members(n, rng)
        y = write_files(folder, made, group, rng)
        judge = judge_of(*made.rows(made.members(4000, rng), rng))
        rows, columns = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("rows", "columns"))
        own, curves = {**kept["simba"], "level_sample": 50}, curves_of_pegasos(rows, y, judge, seed, kept["pegasos"], 2)
        level = min(curve[-1, ERROR] for curve in curves)
        reads = reads_to_level(curves, level)
        theirs, rival = reads.min(), kept["pegasos"][int(np.argmin(reads))]
        both = TwoWays(rows, columns)
        problem = Problem(both.by_rows, y, HINGE, 1.0, columns=both.by_columns)
        per_step = own["rows_per_step"] * d + own["columns_per_step"] * n
        at = stops(4, 4 * theirs / per_step)
        ours = crossing(simba_curve(simba_of(own), problem, judge, np.random.default_rng(seed), at), level, DENSE)
        ours = min(ours, at[-1] * per_step)  # the error says whether it got there
        del rows, columns, both, problem
        found = {"level": level, "file_bytes": 4 * n * d, "n": n, "d": d}

        def report(name, seconds, n_bytes, state, error):
            counters = state.counters
            found[name] = {"seconds": seconds, "bytes": n_bytes, "steps": counters.steps, "error": error}
            print(
                f"    {name:10s} {seconds:8.2f} s, {n_bytes / 1e6:10.1f} MB from storage, {counters.steps} steps with "
                f"{4e-6 * counters.feature_reads:.1f} MB of reads, error {error:.3%}", flush=True,
            )  # fmt: skip

        def steps(count):
            return lambda solver, problem, state: 0.0 * solver.advance(problem, state, count)

        print(f"B² = {norm2:g}, seed {seed}, error to reach {level:.3%}", flush=True)
        solver = simba_of(own)
        seconds, n_bytes, state = cold(folder, solver, y, 1.0, steps(int(ours / per_step)), mmap.MADV_RANDOM, seed)
        report("SIMBA", seconds, n_bytes, state, judge(solver.averages(state)[0][0]))
        solver = pegasos_of(rival)
        seconds, n_bytes, state = cold(folder, solver, y, rival["lam"], steps(int(theirs / d)), mmap.MADV_RANDOM, seed)
        iterate = solver.average if rival["iterate"] == "average" else "none"
        report("Pegasos", seconds, n_bytes, state, judge(solver._weights(state, iterate)[0][:, 0]))
        errors = []

        def passes(solver, problem, state):
            aside = 0.0
            while len(errors) < 20 and not (errors and errors[-1] <= level):
                solver.advance(problem, state, solver.steps_per_epoch(problem))
                since = time.perf_counter()
                errors.append(judge(solver.weights(problem, state)[0][:, 0]))
                aside += time.perf_counter() - since
            return aside

        seconds, n_bytes, state = cold(folder, SDCA(), y, rival["lam"], passes, mmap.MADV_NORMAL, seed)
        report("SDCA", seconds, n_bytes, state, errors[-1])
        found["SDCA"]["passes"] = len(errors)
        return found
    finally:
        shutil.rmtree(folder)


def main(arguments):
    runs = next((int(argument[7:]) for argument in arguments if argument.startswith("--runs=")), 10)
    size = next((int(argument[7:]) for argument in arguments if argument.startswith("--size=")), 32_000)
    norms2 = [norm2 for norm2 in NORMS2 if f"{norm2:g}" in arguments] or NORMS2
    for part in ("clock", "mapped"):
        if part in arguments:
            kept, path = json.loads((RESULTS / "simba_groups.json").read_text()), RESULTS / f"simba_groups_{part}.json"
            found = json.loads(path.read_text()) if path.exists() else {}
            for norm2 in norms2:
                own = kept[f"{norm2:g}"]
                if part == "clock":
                    found[f"{norm2:g}"] = clock(norm2, own)
                else:
                    found[f"{norm2:g}"] = [mapped(norm2, own, size, size, seed) for seed in MAPPED]
                keep(path.stem, found)
            return
    keep("simba_groups", {f"{norm2:g}": measure(norm2, runs) for norm2 in norms2})


if __name__ == "__main__":
    main(sys.argv[1:])
