"""What a whole fit of one epoch consists of, in microseconds: checks, labels, set-up, visits, certificate, all else.

    python -m benchmarks.micro.linear_costs --before REV

*Before* is the package as it was at a revision of this repository, measured by this same file. Each has a process of
its own, and they take turns; processor time of one thread, medians of 5 × 40 fits. What a part calls that is a part
itself does not count as its own.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections import defaultdict

import numpy as np

from benchmarks import datasets
from widemargin import SDCA, LinearSVC, Pegasos

#: The class that a part belongs to, its method, and what it is called here.
PARTS = [
    (LinearSVC, "_check_data", "checks of X and y"),
    (LinearSVC, "_examples", "labels and weights"),
    (LinearSVC, "_check_features", "largest entry"),
    *((solver, "init", "state") for solver in (SDCA, Pegasos)),
    (Pegasos, "_find_eta0", "trials of η₀"),
    *((solver, "advance", "visits") for solver in (SDCA, Pegasos)),
    *((solver, "certificate", "certificate") for solver in (SDCA, Pegasos)),
    (LinearSVC, "fit", "all else"),
]
WHO = ("before", "now")
CASES = [(data, solver) for data in ("a9a", "reuters") for solver in ("sdca", "pegasos")]


class Clocks:
    """Processor seconds of parts that call each other, each without those that it calls."""

    def __init__(self):
        self.seconds, self.inside = defaultdict(float), [0.0]

    def around(self, method, name):
        def timed(*given, **named):
            since = time.process_time()
            self.inside.append(0.0)
            try:
                return method(*given, **named)
            finally:
                whole = time.process_time() - since
                self.seconds[name] += whole - self.inside.pop()
                self.inside[-1] += whole

        return timed


def measured(data, solver):
    """Microseconds of each part of a fit, and of the whole: medians of forty."""
    X, y = getattr(datasets, data)()[:2]
    model = LinearSVC(solver=solver, max_iter=1, tol=0, random_state=0)
    for _ in range(3):  # compiles
        model.fit(X, y)
    clocks, found = Clocks(), defaultdict(list)
    for owner, method, name in PARTS:
        setattr(owner, method, clocks.around(getattr(owner, method), name))
    for _ in range(40):
        clocks.seconds.clear()
        model.fit(X, y)
        for name, seconds in {**clocks.seconds, "whole": sum(clocks.seconds.values())}.items():
            found[name].append(1e6 * seconds)
    return {name: float(np.median(values)) for name, values in found.items()}


def table(found):
    """One row for each part, before and now."""
    names = list(dict.fromkeys([*(name for *_, name in PARTS), "whole"]))
    yield "| | " + " | ".join(f"{data}, {solver}, before | now" for data, solver in CASES) + " |"
    yield "|---" * (1 + 2 * len(CASES)) + "|"
    for name in names:
        cells = (np.median([each.get(name, 0.0) for each in found[case, who]]) for case in CASES for who in WHO)
        yield f"| {name} | " + " | ".join(f"{cell:,.0f}" for cell in cells) + " |"


def main(arguments):
    from benchmarks.peers.lines import unpacked

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", required=True, help="the revision to hold this one against")
    before, found = unpacked(parser.parse_args(arguments).before), defaultdict(list)
    for _ in range(5):
        for case in CASES:
            for who in WHO:
                sources = (before if who == "before" else datasets.ROOT) / "src"
                environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{datasets.ROOT}"}
                if who == "before":
                    environment["NUMBA_CACHE_DIR"] = str(before / "cache")
                command = [sys.executable, "-m", "benchmarks.micro.linear_costs", "--measure", *case]
                said = subprocess.run(command, env=environment, cwd=datasets.ROOT, check=True, stdout=subprocess.PIPE)
                found[case, who].append(json.loads(said.stdout))
    print("\n".join(table(found)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measured(*sys.argv[2:])))
    else:
        main(sys.argv[1:])
