"""What fits do and how long they take: counters and seconds of every solver, to hold two versions against each other.

``python -m benchmarks.micro.work 3 > now.jsonl`` in each of two checkouts, in turns; then
``python -m benchmarks.micro.work compare before.jsonl now.jsonl``. Counters must agree; ``kernel_computed`` of solvers
with a cache may differ a little, since it depends on what the cache still held.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.datasets import a9a, load
from widemargin import SVC, SVR, BudgetedSVC, LinearSVC

COUNTERS = ("steps", "visits", "updates", "feature_reads", "kernel_evals", "kernel_computed")


def fits():
    """(name, estimator, X, y), each of a fraction of a second to a few."""
    X, y, _, _ = a9a()
    X, y = X[:6000], y[:6000]
    U, v = (part[:3000] for part in load("usps", 256))
    L, l = (part[:4000] for part in load("letter", 16))
    L = L.toarray()
    yield "SVC smo", SVC(gamma=0.05), X, y
    yield "SVC smo, C = 100", SVC(100, gamma=0.05), X, y
    yield "SVC sbp", SVC(gamma=0.05, solver="sbp"), X, y
    yield "SVC sdca", SVC(gamma=0.05, solver="sdca"), X, y
    yield "SVC pegasos", SVC(gamma=0.05, solver="pegasos", max_iter=3), X, y
    yield "SVC perceptron", SVC(gamma=0.05, solver="perceptron", max_iter=1), X, y
    yield "SVC usps, one-vs-one", SVC(10, gamma=1 / 128), U, v
    yield "SVC usps, one-vs-rest", SVC(10, gamma=1 / 128, multi_class="ovr"), U, v
    yield "SVC letter, one-vs-one", SVC(10, gamma=1 / 16), L, l
    yield "SVR", SVR(gamma=0.05), X, y + np.arange(6000) / 6000
    yield "LinearSVC sdca", LinearSVC(random_state=0), X, y
    yield "LinearSVC pegasos", LinearSVC(solver="pegasos", random_state=0, max_iter=10), X, y
    yield "BudgetedSVC merge", BudgetedSVC(100, gamma=0.05, random_state=0), X, y
    yield "BudgetedSVC project", BudgetedSVC(60, gamma=0.05, maintenance="project", random_state=0), X, y


def measure():
    """A dict by name: counters summed over binary problems, and the median of the seconds of processor time."""
    found = {}
    for name, model, X, y in fits():
        model.fit(X, y)  # compiles
        seconds = []
        while len(seconds) < 3 or (sum(seconds) < 0.5 and len(seconds) < 15):
            since = time.process_time()
            model.fit(X, y)
            seconds.append(time.process_time() - since)
        last = {row.get("problem", 0): row for row in model.history_.rows}
        counters = {c: int(sum(row.get(c, 0) for row in last.values())) for c in COUNTERS}
        found[name] = {**counters, "seconds": float(np.median(seconds))}
    return found


def compare(before, now):
    """A table: medians over the runs of a file, their range, the ratio, and counters that differ."""
    runs = [[json.loads(line) for line in Path(path).read_text().splitlines()] for path in (before, now)]
    print("| | before, s | now, s | ratio | counters that differ |\n|---|---|---|---|---|")
    for name in runs[0][0]:
        seconds = [np.array([run[name]["seconds"] for run in side]) for side in runs]
        old, new = (side[-1][name] for side in runs)
        shown = [f"{np.median(s):.3f} ({s.min():.3f}–{s.max():.3f})" for s in seconds]
        # before kernel_computed had a name of its own, kernel_evals was it
        own = [c for c in COUNTERS if c != "kernel_evals"]
        counts = [{**side, "kernel_computed": side["kernel_computed"] or side["kernel_evals"]} for side in (old, new)]
        differ = ", ".join(f"{c} {counts[0][c]} {counts[1][c]}" for c in own if counts[0][c] != counts[1][c])
        print(f"| {name} | {shown[0]} | {shown[1]} | {np.median(seconds[1]) / np.median(seconds[0]):.2f} | {differ} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["compare"]:
        compare(*sys.argv[2:])
    else:
        for _ in range(int(sys.argv[1]) if sys.argv[1:] else 1):
            print(json.dumps(measure()), flush=True)
