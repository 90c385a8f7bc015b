"""Which step size and average should be Pegasos' default: the objective after 1, 2, 4, 8, 16 epochs.

``python -m benchmarks.micro.pegasos_defaults`` prints the table of docs/notes/pegasos.md.
"""

import numpy as np

from benchmarks import datasets
from widemargin import Pegasos
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.running import run


def one_class(name, n_features, label, scale=1.0):
    """(X, y) with dense rows and ``label`` against the rest."""
    X, y = datasets.load(name, n_features)
    return X.toarray() / np.float32(scale), np.where(y == label, 1.0, -1.0)


def sets():
    yield "a9a", *datasets.a9a()[:2], None
    yield "cov1", *datasets.cov1()[:2], 1e-6
    yield "news20-bigram", *datasets.news20()[:2], 1e-4
    yield "reuters", *datasets.load("reuters-money-fx", 15257), None
    yield "ijcnn1", *datasets.load("ijcnn1", 22), None
    yield "mnist 8", *one_class("mnist", 784, 8, 255), None
    yield "usps 3", *one_class("usps", 256, 3), None


def main():
    contenders = {
        "bottou, weighted": Pegasos("bottou", "weighted"),
        "bottou, suffix": Pegasos("bottou", "suffix"),
        "bottou, uniform": Pegasos("bottou", "uniform"),
        "bottou, none": Pegasos("bottou", "none"),
        "paper, weighted": Pegasos("pegasos", "weighted"),
        "paper, none": Pegasos("pegasos", "none"),
    }
    for name, X, y, lam in sets():
        lam = 1 / y.size if lam is None else lam
        problem = Problem(as_rows(X), y, losses.Single(losses.Hinge()), lam, intercept="regularized")
        for contender, solver in contenders.items():
            objectives = [
                run(solver, problem, rng=np.random.default_rng(seed), max_epochs=16).history["objective"]
                for seed in range(3)
            ]
            print(f"{name:16}{contender:20}", *(f"{value:9.4f}" for value in np.median(objectives, axis=0)), flush=True)


if __name__ == "__main__":
    main()
