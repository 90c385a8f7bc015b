"""Curves of test error against feature reads, for SIMBA and its rivals, and what is read off them."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json

import numpy as np

from benchmarks.datasets import ROOT
from widemargin.core.losses import losses
from widemargin.core.rows.rows import CSRRows, as_rows
from widemargin.problems.linear import Problem

RESULTS = ROOT / "benchmarks" / "results"
HINGE = losses.Single(losses.Hinge())
#: Columns of a curve: stored entries read, d for a row and n for a column, entries read for the first time, error.
STORED, DENSE, FIRST, ERROR = range(4)


def problem_of(X, y, lam=1.0):
    """The hinge without an intercept."""
    return Problem(as_rows(X), y, HINGE, lam)


def judge_of(Z, t):
    """The test error of weights."""

    def error(w):
        return float(np.mean(np.where(Z @ w.astype(Z.dtype, copy=False) > 0, 1.0, -1.0) != t))

    return error


def stops(first, last, ratio=2.0 ** (1 / 3)):
    """Steps at which a run is looked at, a constant ratio apart."""
    count = int(np.ceil(np.log(last / first) / np.log(ratio))) + 1
    return np.unique(np.round(first * ratio ** np.arange(count)).astype(int))


def simba_curve(solver, problem, judge, rng, steps, most=np.inf):
    """Reads and error of the average at each of the steps, while no more than so many stored entries are read."""
    rows, state = [], solver.init(problem, rng)
    for stop in steps:
        solver.advance(problem, state, int(stop) - state.counters.steps)
        counters = state.counters
        reads = (counters.feature_reads, counters.feature_reads_dense, counters.first_reads)
        if reads[0] > most:
            break
        rows.append((*reads, judge(solver.averages(state)[0][0])))
    return np.array(rows)


def pegasos_curve(solver, problem, judge, rng, steps):
    """The same for Pegasos: (its average, its last iterate). Rows drawn with repetition are counted by their mean."""
    averaged, last, state = [], [], solver.init(problem, rng)
    n, stored = problem.n, problem.X.data.size if isinstance(problem.X, CSRRows) else problem.X.values.size
    for stop in steps:
        solver.advance(problem, state, int(stop) - state.counters.steps)
        visits, read = state.counters.visits, state.counters.feature_reads
        distinct = stored * -np.expm1(visits * np.log1p(-1.0 / n)) if solver.sampling == "iid" else min(read, stored)
        counts = (read, visits * problem.d, distinct)
        for rows, average in ((averaged, solver.average), (last, "none")):
            rows.append((*counts, judge(solver._weights(state, average)[0][:, 0])))
    return np.array(averaged), np.array(last)


def crossing(curve, level, by):
    """Reads at the first point from which the error stays at or below a level; infinite if it does not."""
    above = np.flatnonzero(curve[:, ERROR] > level + 1e-12)
    first = above[-1] + 1 if above.size else 0
    return float(curve[first, by]) if first < len(curve) else np.inf


def table_of_ratios(curves, optimum, levels):
    """Print and return reads of each SIMBA over those of Pegasos, whichever of its curves needs less, by level.

    ``curves`` has an array over runs, points and columns for each method; means over the runs are compared.
    """
    means, ratios = {method: own.mean(axis=0) for method, own in curves.items()}, {}
    print(f"    error at Pegasos' optimum {optimum:.3%}; reads over Pegasos': stored, dense, first")
    print(f"    {'':24s}" + "".join(f"{level:>21g}" for level in levels))
    for method, own in means.items():
        line = ""
        for level in levels:
            found = []
            for by in (STORED, DENSE, FIRST):
                rivals = [mean for name, mean in means.items() if name.startswith("Pegasos")]
                rival = min(crossing(mean, level * optimum, by) for mean in rivals)
                reads = crossing(own, level * optimum, by)
                found.append(reads / rival if np.isfinite(reads) and np.isfinite(rival) else None)
            line += "   " + "/".join("  –  " if ratio is None else f"{ratio:5.2f}" for ratio in found).rjust(18)
            ratios.setdefault(method, {})[f"{level:g}"] = found
        print(f"    {method:24s}{line}", flush=True)
    return ratios


def keep(name, found, results=RESULTS):
    """Write results as JSON."""
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{name}.json").write_text(json.dumps(found) + "\n")
