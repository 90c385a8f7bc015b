"""Budgeted machines of parts, averaged and compressed, beside one stream over all rows: test errors in per cent.

``python -m benchmarks.micro.averages [--parts 1,4,16] [--seeds 3]``: checkerboard (50,000 rows for training), and class
1 of covtype against the rest (100,000 rows); one pass each.
"""

import argparse

import numpy as np

from widemargin import BudgetedSVC
from widemargin.dask.budgeted import trained
from widemargin.data.generators import checkerboard
from widemargin.estimators.budgeted import average

from .. import datasets


def board(seed):
    X, y = checkerboard(70_000, np.random.default_rng(seed))
    return X[:50_000], y[:50_000], X[50_000:], y[50_000:], {"budget": 100, "gamma": 10.0, "lam": 2e-5}


def forest(seed):
    X, y, Z, t = datasets.cov1()
    rows = np.random.default_rng(seed).permutation(len(y))[:100_000]
    X = X.toarray() if hasattr(X, "toarray") else X
    Z = Z.toarray() if hasattr(Z, "toarray") else Z
    return X[rows], y[rows], Z[:20_000], t[:20_000], {"budget": 200, "gamma": 2.0, "lam": 1e-5}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default="1,4,16")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    counts = [int(k) for k in given.parts.split(",")]
    print("| set | budget |", " | ".join(f"{k} parts" for k in counts), "|")
    print("|---|---|" + "---|" * len(counts))
    for name, get in {"checkerboard": board, "covtype": forest}.items():
        errors = {k: [] for k in counts}
        for seed in range(given.seeds):
            X, y, Z, t, options = get(seed)
            for k in counts:
                parts = [(X[rows], y[rows], np.empty(0)) for rows in np.array_split(np.arange(len(y)), k)]
                machine, classes = BudgetedSVC(**options), np.unique(y)
                machines = [trained(part, j, machine, classes, seed, 1) for j, part in enumerate(parts)]
                model = machines[0] if k == 1 else average(machines)
                errors[k].append(100.0 * float(np.mean(model.predict(Z) != t)))
        cells = " | ".join(f"{np.mean(errors[k]):.2f} ± {np.std(errors[k]):.2f}" for k in counts)
        print(f"| {name} | {options['budget']} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
