"""Rounds that consensus methods take to a relative gap, with parts simulated in one process.

``python -m benchmarks.micro.consensus [news20-bigram] [a9a] [--parts 1,4,16] [--rounds 100]``: hinge, C = 1, a regular
intercept, rows dealt out at random. "CoCoA+" and "ADMM" have copies of the intercept in all parts, as the papers have
them; CoCoA+ is ADMM without relaxation and with ρ = 1/parts.
"""

import argparse
import sys
import time

import numpy as np
import scipy.sparse as sp

from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.problems.parts import in_parts
from widemargin.solvers import consensus

from .. import datasets

SETS = {"news20-bigram": datasets.news20, "a9a": datasets.a9a}
TOLERANCES = (1e-2, 1e-3)


def problem_of(name, copied):
    """The problem of a set; with copies of the intercept it is a feature like others."""
    X, y = SETS[name]()[:2]
    if copied:
        X = sp.hstack([sp.csr_matrix(X), np.ones((len(y), 1), X.dtype)], format="csr")
    intercept = "none" if copied else "regularized"
    return Problem(as_rows(X), y.astype(float), losses.Single(losses.Hinge()), 1.0 / len(y), intercept=intercept)


def rounds(problem, parts, passes, theta, rho, most):
    """(rounds to each tolerance or None, processor seconds); a fixed ρ, or None for the solver's own."""
    rows = np.array_split(np.random.default_rng(1).permutation(problem.n), parts)
    dealt = in_parts(problem, [np.sort(k) for k in rows])
    solver = consensus.ConsensusADMM(passes, theta)
    state = solver.init(dealt, np.random.default_rng(0))
    found, best, bound, since = {}, np.inf, 0.0, time.process_time()
    for number in range(1, most + 1):
        if rho is not None:
            state.rho = np.full(2, rho)
        solver.advance(dealt, state, 1)
        certificate = solver.certificate(dealt, state)
        best, bound = min(best, certificate.primal), max(bound, certificate.dual)
        for tol in TOLERANCES:
            if best - bound <= tol * best:
                found.setdefault(tol, number)
        if len(found) == len(TOLERANCES):
            break
    return [found.get(tol) for tol in TOLERANCES], time.process_time() - since


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--parts", default="1,4,16")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    counts = [int(k) for k in given.parts.split(",")]
    print("| set | method |", " | ".join(f"{k} parts" for k in counts), "|")
    print("|---|---|" + "---|" * len(counts))
    for name in given.sets:
        shared, copied = problem_of(name, False), problem_of(name, True)
        methods = {
            "CoCoA+": lambda k, copied=copied: (copied, k, 5, 1.0, 1.0 / k),
            "ADMM, ρ = 1": lambda k, copied=copied: (copied, k, 5, 1.0, 1.0),
            "this, 1 pass": lambda k, shared=shared: (shared, k, 1, 1.6, None),
            "this": lambda k, shared=shared: (shared, k, 3, 1.6, None),
        }
        for label, method in methods.items():
            cells = []
            for k in counts:
                found, seconds = rounds(*method(k), given.rounds)
                said = " / ".join(str(each) if each else f">{given.rounds}" for each in found)
                cells.append(f"{said} ({seconds:.1f} s)")
                sys.stderr.write(f"{name} {label} {k}: {cells[-1]}\n")
            print(f"| {name} | {label} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
