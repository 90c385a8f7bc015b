"""Does it pay to shuffle the rows once in memory and visit contiguous blocks of them in random order?

``python -m benchmarks.micro.visiting_order`` times an epoch of Pegasos on rows visited one by one in random order
(with their memory asked for ahead), on a shuffled copy in blocks of 64 in random order, and in sequence.
"""

import numpy as np

from benchmarks import datasets
from benchmarks.peers.linear import hinge_problem
from benchmarks.timing import clock, spread, turns
from widemargin import Pegasos
from widemargin.solvers.pegasos import Bottou


def in_blocks(n, rng, size=64):
    """0 … n − 1 with contiguous blocks in random order."""
    starts = rng.permutation(np.arange(0, n, size))
    return np.concatenate([np.arange(s, min(s + size, n)) for s in starts]).astype(np.int32)


def main(repeats=15):
    rng = np.random.default_rng(0)
    for name, get, lam in (("covtype", datasets.cov1, 1e-6), ("news20-bigram", datasets.news20, 1e-4)):
        X, y, *_ = get()
        shuffled = rng.permutation(y.size)
        problems = {"given": hinge_problem(X, y, lam), "copy": hinge_problem(X[shuffled], y[shuffled], lam)}
        orders = {
            "single rows, random": ("given", lambda n: rng.permutation(n).astype(np.int32)),
            "shuffled copy, blocks of 64": ("copy", lambda n: in_blocks(n, rng)),
            "shuffled copy, in sequence": ("copy", lambda n: np.arange(n, dtype=np.int32)),
        }

        def epoch(which, order, problems=problems):
            def go():
                problem, solver = problems[which], Pegasos(step=Bottou(1.0), average="none", sampling="fixed")
                state = solver.init(problem, np.random.default_rng(0))
                state.order = order(problem.n)
                solver.advance(problem, state, 0)
                return clock(lambda: solver.advance(problem, state, problem.n))

            return go

        seconds = turns({label: epoch(*how) for label, how in orders.items()}, repeats)
        print(name)
        for label, values in seconds.items():
            print(f"    {label:30}{spread(values)}")


if __name__ == "__main__":
    main()
