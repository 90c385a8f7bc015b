"""Processor time of the driver for a round, on a cluster of two processes: ``python -m benchmarks.micro.driver``.

4,000 rows in two parts. What a fit takes for more rounds less what it takes for few, by the process's own clock.
"""

import time
import warnings

import dask.array as da
import distributed
import numpy as np

from widemargin.dask import LinearSVC

#: Rounds of the short and of the long fit.
ROUNDS = {"admm": (8, 128), "interior": (4, 12)}


def taken(solver, X, y, rounds):
    """(Processor seconds, rounds, trips) of a fit."""
    since = time.process_time()
    model = LinearSVC(solver=solver, C=1e-3, tol=0, max_iter=rounds, random_state=0).fit(X, y)
    return np.array([time.process_time() - since, model.history_.last("steps"), model.traffic_["trips"]])


def main():
    warnings.simplefilter("ignore")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        print("| features | solver | ms a round | ms a trip |\n|---|---|---|---|")
        for d in (100, 1000):
            rng = np.random.default_rng(0)
            X, y = da.from_array(rng.normal(size=(4000, d)), chunks=(2000, d)), rng.integers(0, 2, 4000)
            y = da.from_array(y, chunks=2000)
            for solver, (few, many) in ROUNDS.items():
                taken(solver, X, y, few)  # compiles
                seconds, rounds, trips = taken(solver, X, y, many) - taken(solver, X, y, few)
                print(f"| {d} | {solver} | {1e3 * seconds / rounds:.1f} | {1e3 * seconds / trips:.1f} |", flush=True)


if __name__ == "__main__":
    main()
