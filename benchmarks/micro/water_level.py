"""Ways to the water level inside the Stochastic Batch Perceptron: nanoseconds per example and step, and passes over n.

``python -m benchmarks.micro.water_level``. Real runs without a bias (a9a, 100,000 rows of covtype, usps); at every step
each way is timed on the responses of that step, from where the step before has left it:

- pour: the solver's own; one pass that lists the points below a window about the last level, and a small sort inside it
- Newton from the last level, then a pass that lists the points below the level, from which the draws come
- Newton, then draws by rejection: an example at random until one is below the level, and no list
- fused: the pass that adds the rows to the responses also counts and sums those below the last level, so that Newton's
  first pass is free. The time is what this adds to the pass, and the other passes of Newton, and the list.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np

from benchmarks import datasets
from benchmarks.papers.sbp_fig2 import usps_8
from benchmarks.peers.sbp import covtype_2
from widemargin import StochasticBatchPerceptron
from widemargin.core.borrowing import borrow
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.losses.water_level import draw, pour, room
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.sbp.sbp import add_block

#: data, γ, ν, steps of 16 draws
PROBLEMS = {
    "a9a": (datasets.a9a, 0.05, 1.10e-2, 400),
    "covtype": (covtype_2, 2.0, 1e-2, 200),
    "usps": (usps_8, 1 / 128, 4e-6, 400),
}


@compiled
def below(f, y, level):
    """(count, sum) of the heights below the level: Newton's pass."""
    f, y = borrow(f), borrow(y)
    count, total = 0, 0.0
    for i in range(f.size):
        height = y[i] * f[i]
        covered = height < level
        total += height if covered else 0.0
        count += 1 if covered else 0
    return count, total


@compiled
def newton(f, y, volume, level, count, total):
    """(level, passes) from a level that covers something, and from the count and sum below it where they are known."""
    passes = 0
    if count < 0:
        count, total = below(f, y, level)
        passes += 1
    if count == 0:
        low = np.inf
        for i in range(f.size):
            low = min(low, y[i] * f[i])
        level = low + volume / f.size
        count, total = below(f, y, level)
        passes += 2
    while True:
        level = (volume + total) / count
        now, total = below(f, y, level)
        passes += 1
        if now == count:
            return level, passes
        count = now


@compiled
def listed(f, y, level, out):
    """out ← the points below the level; returns how many."""
    f, y, out = borrow(f), borrow(y), borrow(out)
    count = 0
    for i in range(f.size):
        out[count] = i
        count += 1 if y[i] * f[i] < level else 0
    return count


@compiled
def rejected(f, y, level, uniforms, out):
    """out ← points below the level, each the first of a sequence of random ones; (draws made, tries)."""
    tries, made = 0, 0
    while made < out.size and tries < uniforms.size:
        i = int(uniforms[tries] * f.size)
        tries += 1
        if y[i] * f[i] < level:
            out[made] = i
            made += 1
    return made, tries


@compiled
def add_and_count(rows, slots, coefficients, before, f, f_sum, y, level):
    """add_block of one binary problem, which also returns (count, sum) of the heights below the level."""
    rows, slots, f, f_sum, y = borrow(rows), borrow(slots), borrow(f), borrow(f_sum), borrow(y)
    change = np.empty(1024)
    count, total = 0, 0.0
    for first in range(0, f.size, 1024):
        size = min(1024, f.size - first)
        for j in range(size):
            change[j] = 0.0
        for r in range(slots.size):
            c, slot = coefficients[r], slots[r]
            if c != 0.0:
                for j in range(size):
                    change[j] += c * rows[slot, first + j]
        for j in range(size):
            response = f[first + j] + change[j]
            f[first + j] = response
            f_sum[first + j] += before * change[j]
            height = y[first + j] * response
            covered = height < level
            total += height if covered else 0.0
            count += 1 if covered else 0
    return count, total


def seconds(call, repeats=5):
    """The least of some calls."""
    best = np.inf
    for _ in range(repeats):
        since = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - since)
    return best


def measure(name):
    get, gamma, nu, steps = PROBLEMS[name]
    X, y = get()[:2]
    problem = KernelProblem(
        RBF(gamma), as_rows(X), y, losses.Single(losses.Hinge()), 1.0 / y.size, intercept="none", cache_bytes=2e9
    )
    n, solver = problem.n, StochasticBatchPerceptron(nu=nu)
    state = solver.init(problem, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    points, space, out = np.empty(n, np.int64), room(n), np.empty(16, np.int64)
    block, slots = rng.random((16, n), dtype=np.float32), np.arange(16)
    coefficients = np.full(16, 1e-300)  # rows are added as ever and change nothing
    f_sum, none = np.zeros((1, n)), np.empty(0)
    found, passes, covered_share = {}, {"pour": [], "Newton": []}, []
    for step in range(steps):
        f, scale, level = state.f[0].copy(), state.scale[0], state.level[0] / state.scale[0]
        window, volume = state.window[0] / scale, n * nu / scale
        uniforms = rng.random(16)
        cold = step < 8  # windows and levels find their size
        times = {
            "pour and draw": seconds(
                lambda: (
                    pour(f, y, none, volume, False, window.copy(), space),
                    draw(f, y, none, False, space, 0, uniforms, out),
                )
            ),
            "Newton and a list": 0.0, "Newton and rejection": 0.0, "fused": 0.0, "add the rows": 0.0,
        }  # fmt: skip
        poured = pour(f, y, none, volume, False, window.copy(), space)
        at, turns = newton(f, y, volume, level, -1, 0.0)
        assert abs(at - poured.level) <= 1e-9 * max(1.0, abs(at)) / scale
        search = seconds(lambda: newton(f, y, volume, level, -1, 0.0))
        times["Newton and a list"] = search + seconds(lambda: listed(f, y, at, points))
        many = rng.random(10 * n)
        times["Newton and rejection"] = search + seconds(lambda: rejected(f, y, at, many, out))
        g = f.copy()
        plain = seconds(lambda: add_block(block, slots, coefficients[None, :], 0.0, np.zeros(1), g[None, :], f_sum))
        first = add_and_count(block, slots, coefficients, 0.0, g, f_sum[0], y, level)
        extra = seconds(lambda: add_and_count(block, slots, coefficients, 0.0, g, f_sum[0], y, level)) - plain
        times["fused"] = extra + seconds(lambda: newton(f, y, volume, level, *first)) + seconds(
            lambda: listed(f, y, at, points)
        )  # fmt: skip
        times["add the rows"] = plain
        if not cold:
            for way, value in times.items():
                found.setdefault(way, []).append(value)
            passes["pour"].append(poured.passes)
            passes["Newton"].append(turns)
            covered_share.append(np.count_nonzero(y * f < at) / n)
        solver.advance(problem, state, 1)
    print(f"{name}: n = {n}, ν = {nu:g}, {steps} steps of 16 draws, {np.mean(covered_share):.1%} of the points covered")
    for way, values in found.items():
        print(f"    {way:22s} {np.mean(values) * 1e9 / n:6.2f} ns per example and step")
    print("    passes: " + ", ".join(f"{way} {np.mean(counts):.2f}" for way, counts in passes.items()), flush=True)


if __name__ == "__main__":
    for name in PROBLEMS:
        measure(name)
