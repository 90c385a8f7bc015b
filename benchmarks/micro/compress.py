"""Kernel machines made small: what merging and projection lose, and what that does to test accuracy.

``python -m benchmarks.micro.compress``. Relative degradation ‖w − w′‖/‖w‖, test accuracy and seconds. Features of
pendigits are divided by 100; a third of its training rows, and of reuters' rows, is held out for the test.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

from sklearn.datasets import make_moons

from benchmarks import datasets
from widemargin import SVC, compress


def moons():
    return (*make_moons(1500, noise=0.25, random_state=0), *make_moons(5000, noise=0.25, random_state=1))


def held_out(name, d, scale):
    X, y = datasets.load(name, d)
    return datasets.split(X * scale, y, 1 / 3)


MACHINES = {
    "moons, γ = 1, C = 10": (moons, {"gamma": 1.0, "C": 10.0}, (20, 80)),
    "pendigits, 45 pairs, γ = 2, C = 10": (
        lambda: held_out("pendigits", 16, 0.01), {"gamma": 2.0, "C": 10.0}, (60, 200),
    ),
    "reuters, sparse, γ = 0.5, C = 10": (
        lambda: held_out("reuters-money-fx", None, 1.0), {"gamma": 0.5, "C": 10.0}, (50, 200),
    ),
    "a9a, sparse, γ = 0.05, C = 1": (datasets.a9a, {"gamma": 0.05, "C": 1.0}, (100, 500, 2000)),
}  # fmt: skip


def main():
    compress(SVC(gamma=1.0).fit(*make_moons(100, noise=0.3, random_state=0)), 5)  # compiles
    print("| machine | vectors, accuracy | B | merge | project |\n|---|---|---|---|---|")
    for name, (data, parameters, budgets) in MACHINES.items():
        X, y, Z, t = data()
        full = SVC(random_state=0, **parameters).fit(X, y)
        for budget in budgets:
            cells = []
            for maintenance in ("merge", "project"):
                since = time.perf_counter()
                small = compress(full, budget, maintenance=maintenance)
                seconds = time.perf_counter() - since
                cells.append(f"{small.relative_degradation_:.3f}, {100 * small.score(Z, t):.2f} %, {seconds:.1f} s")
            whole = f"{full.support_vectors_.shape[0]:,}, {100 * full.score(Z, t):.2f} %"
            print(f"| {name} | {whole} | {budget} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
