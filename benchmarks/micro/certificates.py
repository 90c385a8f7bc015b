"""What exact certificates of kernel machines cost: processor seconds of fits, and of the check at their end, over C.

python -m benchmarks.micro.certificates [name rows C ...]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
import warnings

import numpy as np

from benchmarks import datasets
from widemargin import SVC
from widemargin.estimators.fit import pairs, session

#: name → (features, label of one class against the rest or None)
SETS = {"a9a": (123, None), "mnist": (784, 8), "covtype": (54, 2)}


def timed(method, spent):
    def call(*args, **more):
        since = time.process_time()
        try:
            return method(*args, **more)
        finally:
            spent.append(time.process_time() - since)

    return call


def main(name="a9a", rows=32561, *values):
    width, label = SETS[name]
    X, y = datasets.load(name, width)
    chosen = np.random.default_rng(0).permutation(X.shape[0])[: int(rows)]
    X, y = X[chosen], y[chosen] if label is None else y[chosen] == label
    spent = []
    session.checked = timed(session.checked, spent)
    session.refined = pairs.refined = timed(session.refined, refined := [])
    warnings.simplefilter("ignore")
    SVC().fit(X[:2500], y[:2500])  # compiles
    print("| C | fit, s | certificate, s | share | in float64, s | vectors | reason | gap |")
    print("|---" * 8 + "|")
    for C in map(float, values or (1e-2, 1e-1, 1, 10, 1e2, 1e3, 1e4, 1e5, 1e6)):
        spent.clear(), refined.clear()
        since = time.process_time()
        model = SVC(C=C).fit(X, y)
        fit, gap = time.process_time() - since, model.certificate_.relative_gap
        check, again = sum(spent), sum(refined)
        print(
            f"| {C:g} | {fit:.2f} | {check:.3f} | {check / (fit - check):.1%} | {again:.2f} | {model.support_.size} | "
            f"{model.stop_reason_} | {gap:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
