"""How far behind ``max_seconds`` fits end: 60 fits of all estimators on three sizes of data, with two limits.

    python -m benchmarks.peers.limits                 the table
    python -m benchmarks.peers.limits --quick         data of a tenth of the size, one limit
    python -m benchmarks.peers.limits --processor     on a machine that others use: processor time is the clock
    python -m benchmarks.peers.limits --only sbp      fits whose name has "sbp"

A fit may take half a second more than its limit, or two passes over the data where these take longer. Compilation is
off the clock: each fit has a short one before it, on the same data.
"""

import argparse
import time
import warnings

import numpy as np

from widemargin import SVC, SVR, BudgetedSVC, IncrementalSVC, LinearSVC, LinearSVR

#: Examples, features and precision.
SIZES = ((20_000, 20, np.float64), (300_000, 50, np.float64), (60_000, 784, np.float32))
LIMITS = (1.0, 4.0)
#: Seconds that a fit may take more, unless two passes over the data are more.
OVER = 0.5
FITS = {
    "LinearSVC": (LinearSVC(C=1e3, tol=1e-9), "labels"),
    "LinearSVC(solver='interior')": (LinearSVC(solver="interior", C=1e3, tol=1e-12), "labels"),
    "LinearSVC(solver='pegasos')": (LinearSVC(solver="pegasos", max_iter=10**6), "labels"),
    "LinearSVR": (LinearSVR(C=1e3, tol=1e-9), "numbers"),
    "SVC": (SVC(C=10.0), "labels"),
    "SVC(solver='sbp')": (SVC(C=10.0, solver="sbp"), "labels"),
    "SVC, 5 classes": (SVC(C=10.0), "classes"),
    "SVR": (SVR(C=10.0), "numbers"),
    "BudgetedSVC": (BudgetedSVC(budget=500, max_iter=1000), "labels"),
    "IncrementalSVC": (IncrementalSVC(max_iter=1000), "labels"),
}


def data(n, d, dtype):
    """Rows, and what is to be learnt of them, by its name."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype)
    z = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
    classes = np.digitize(z, np.quantile(z, [0.2, 0.4, 0.6, 0.8]))
    return X, {"labels": np.where(z > 0, 1, -1), "numbers": z, "classes": classes}


def seconds(call):
    """How long a call takes."""
    since = time.perf_counter()
    call()
    return time.perf_counter() - since


def measured(n, d, dtype, limits, only):
    """(name, limit, seconds over it, seconds allowed, why the fit ended) of each fit on one size of data."""
    X, targets = data(n, d, dtype)
    a_pass = min(seconds(lambda: X @ np.ones(d, dtype)) for _ in range(3))
    for name, (model, target) in FITS.items():
        if only not in name:
            continue
        y = targets[target]
        model.set_params(random_state=0, max_seconds=0.1)
        for rows in (3000, n):
            model.fit(X[:rows], y[:rows])
        for limit in limits:
            took = seconds(lambda: model.set_params(max_seconds=limit).fit(X, y))
            yield name, limit, took - limit, max(OVER, 2.0 * a_pass), model.stop_reason_


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--size", type=int, default=None, help="one size only: 0, 1 or 2")
    given = parser.parse_args()
    if given.processor:
        time.perf_counter = time.process_time
    print("seconds behind the limit, and those allowed")
    overs, missed = [], 0
    for n, d, dtype in SIZES if given.size is None else SIZES[given.size : given.size + 1]:
        n //= 10 if given.quick else 1
        for name, limit, over, allowed, reason in measured(n, d, dtype, LIMITS[: 1 if given.quick else 2], given.only):
            overs.append(over)
            missed += over > allowed
            verdict = "MISSED" if over > allowed else "met"
            print(f"{n:>7,} × {d:<4}{name:32}{limit:5g} s{over:8.2f}{allowed:7.2f}  {verdict:7} {reason}", flush=True)
    if overs:
        print(f"{len(overs)} fits, {missed} missed; over: median {np.median(overs):.2f} s, most {max(overs):.2f} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
