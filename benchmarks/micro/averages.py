"""Budgeted machines of parts, averaged, compressed and refitted, beside one stream: test errors in per cent.

``python -m benchmarks.micro.averages [--parts 4,16] [--seeds 3]``: checkerboard (50,000 rows for training), and class
1 of covtype against the rest (100,000 rows); one pass each. The mean of all parts' machines has parts × budget vectors,
and the others ``budget``.
"""

import argparse

import numpy as np

from widemargin import BudgetedSVC
from widemargin.dask.budgeted import refitted, root_of, trained
from widemargin.data.generators import checkerboard
from widemargin.estimators.budgeted import average
from widemargin.solvers.budget.reduce import holding

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


def errors(X, y, Z, t, options, parts, seed):
    """Test errors of the mean of the parts' machines, compressed, and refitted; of one part, of one stream."""
    cut = [(X[rows], y[rows], np.empty(0)) for rows in np.array_split(np.arange(len(y)), parts)]
    machine, classes = BudgetedSVC(**options), np.unique(y)
    machines = [trained(part, k, machine, classes, seed, 1) for k, part in enumerate(cut)]
    scores = sum(each.decision_function(Z) for each in machines)
    said = [classes[(scores > 0).astype(int)]]
    model = average(machines)
    said.append(model.predict(Z))
    root = root_of(model)
    found = [refitted(part, k, model, root, np.ones(2), seed) for k, part in enumerate(cut)]
    mean = np.average(found, axis=0, weights=[len(part[1]) for part in cut])
    model._state = holding(model._trained_kernel, model._state.vectors(), mean @ root.T)
    said.append(model.predict(Z))
    return [100.0 * float(np.mean(labels != t)) for labels in said]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", default=["checkerboard", "covtype"])
    parser.add_argument("--parts", default="4,16")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print("| set | budget | parts | mean, all vectors | compressed | refitted |\n|---|---|---|---|---|---|")
    for name in given.sets:
        for k in [1, *map(int, given.parts.split(","))]:
            rows = []
            for seed in range(given.seeds):
                *data, options = {"checkerboard": board, "covtype": forest}[name](seed)
                rows.append(errors(*data, options, k, seed))
            cells = [f"{mean:.2f} ± {std:.2f}" for mean, std in zip(np.mean(rows, 0), np.std(rows, 0), strict=True)]
            label = "one stream" if k == 1 else str(k)
            print(f"| {name} | {options['budget']} | {label} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
