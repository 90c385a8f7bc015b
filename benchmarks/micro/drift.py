"""Which vector a budgeted machine should give up on streams that drift: ``python -m benchmarks.micro.drift``.

Prequential error in per cent, of blocks of 50 that are predicted before they are learnt; mean of three seeds, 10,000
examples, γ = 2, and of elec2 with features scaled by the first 500 examples, γ = ½. λ is the better of 1e-2, 1e-3 and
1e-4 for each machine, by the error itself.

- turns: a boundary through the origin of the square turns once about itself.
- flips: each 2,000 examples all labels are exchanged.
- moves: a checkerboard of four fields moves along, and never comes back.
- stays: the checkerboard stays where it is.
"""

import sys
import warnings

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks import datasets
from widemargin import BudgetedSVC, IncrementalSVC

N, BLOCK = 10_000, 50


def turns(rng):
    X, angle = rng.uniform(-1.0, 1.0, (N, 2)), 2.0 * np.pi * np.arange(N) / N
    return X, X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0.0


def board(X):
    return (np.floor(X[:, 0]) + np.floor(X[:, 1])) % 2 > 0


def flips(rng):
    X = rng.uniform(-1.0, 1.0, (N, 2))
    return X, board(X) ^ (np.arange(N) // 2000 % 2 > 0)


def moves(rng):
    X = rng.uniform(-1.0, 1.0, (N, 2))
    away = np.stack([20.0 * np.arange(N) / N, np.zeros(N)], axis=1)
    return X + away, board(X)


def stays(rng):
    X = rng.uniform(-1.0, 1.0, (N, 2))
    return X, board(X)


def elec2(rng):
    X, y = datasets.load("elec2")
    X = X.toarray()
    return StandardScaler().fit(X[:500]).transform(X)[:N], (y == y.max())[:N]


STREAMS = {each.__name__: each for each in (turns, flips, moves, stays, elec2)}


def budgeted(maintenance, lam):
    return lambda gamma: BudgetedSVC(100, gamma=gamma, lam=lam, maintenance=maintenance, random_state=0)


MACHINES = {
    **{name: [budgeted(name, lam) for lam in (1e-2, 1e-3, 1e-4)] for name in ("merge", "oldest")},
    "IncrementalSVC(budget=100)": [lambda gamma: IncrementalSVC(10.0, gamma=gamma, budget=100)],
    "IncrementalSVC(window=500)": [lambda gamma: IncrementalSVC(10.0, gamma=gamma, window=500)],
}


def prequential(make, gamma, X, y):
    """Share of the examples that are predicted wrongly before they are learnt, in per cent."""
    model, wrong = make(gamma), 0
    for first in range(0, y.size, BLOCK):
        rows = slice(first, first + BLOCK)
        wrong += np.count_nonzero(model.predict(X[rows]) != y[rows]) if first else 0
        model.partial_fit(X[rows], y[rows], classes=[False, True])
    return 100.0 * wrong / (y.size - BLOCK)


def main(names):
    warnings.simplefilter("ignore")
    print("| stream | " + " | ".join(MACHINES) + " |\n|" + "---|" * (1 + len(MACHINES)))
    for name in names:
        cells = []
        for makes in MACHINES.values():
            found = []
            for seed in range(1 if name == "elec2" else 3):
                X, y = STREAMS[name](np.random.default_rng(seed))
                found.append([prequential(make, 0.5 if name == "elec2" else 2.0, X, y) for make in makes])
            errors = np.array(found)
            best = errors[:, errors.mean(axis=0).argmin()]
            cells.append(f"{best.mean():.1f} ± {best.std():.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main([word for word in sys.argv[1:] if word in STREAMS] or list(STREAMS))
