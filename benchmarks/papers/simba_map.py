"""Where SIMBA needs fewer feature reads than Pegasos: a map over rows, features, B² and label noise.

``python -m benchmarks.papers.simba_map [--runs=5]``. Dense data with rare groups
(:mod:`widemargin.data.generators`), each with 0.4 % of the rows. The error to reach: a quarter of the rare rows is
wrong, by the true labels, from this point on. Each cell has the parameters that need the least reads, out of a few for
both: Pegasos three λ, last iterate or average; SIMBA ν from the share of wrong labels, two forms of its primal and
dual steps. Medians over the runs. Where only one of the two gets there, within eight passes of reads, the cell says so.

Writes ``benchmarks/results/simba_map.json`` and ``docs/images/simba_map.svg``.
"""

import itertools
import math
import sys
import time

import numpy as np

from benchmarks.datasets import ROOT
from benchmarks.papers.simba_curves import DENSE, crossing, keep
from benchmarks.papers.simba_groups import curves_of_pegasos, curves_of_simba, data

SIZES = ((1000, 1000), (1000, 4000), (4000, 1000), (4000, 4000))
NORMS2 = (10.0, 40.0, 160.0, 640.0)
FLIPPED = (0.0, 0.01, 0.05)
SHARE, GROUPS, PASSES = 0.004, 4, 8
LEVEL = 0.25 * GROUPS * SHARE
PEGASOS = [
    {"lam": lam, "step": "pegasos", "iterate": which}
    for lam, which in itertools.product((1e-3, 1e-4, 1e-5), ("average", "last"))
]


def settings_of_simba(norm2, flipped):
    """ν is the mean slack: a wrong label costs about 2/B."""
    nus = {0.0} if flipped == 0.0 else {flipped / math.sqrt(norm2), 2.0 * flipped / math.sqrt(norm2)}
    return [
        {"nu": nu, "primal": primal, "dual": dual}
        for nu, primal, dual in itertools.product(sorted(nus), ("adaptive", "averaging"), ("quadratic", "exponential"))
    ]


def least(curves):
    """Median reads of the setting that needs the least; ``curves`` by run and setting."""
    reads = np.array([[crossing(curve, LEVEL, DENSE) for curve in run] for run in curves])
    return float(np.min(np.median(reads, axis=0)))


def cell(n, d, norm2, flipped, runs):
    """(reads of SIMBA, reads of Pegasos), in passes over the data."""
    of_pegasos, of_simba = [], []
    for seed in range(runs):
        X, y, judge = data(norm2, seed, n, d, 1000, groups=GROUPS, share=SHARE, flipped=flipped)
        of_pegasos.append(curves_of_pegasos(X, y, judge, seed, PEGASOS, PASSES))
        of_simba.append(curves_of_simba(X, y, judge, seed, settings_of_simba(norm2, flipped), PASSES * n * d))
    return least(of_simba) / (n * d), least(of_pegasos) / (n * d)


def draw(cells):
    """A panel for each share of wrong labels: the ratio in colour and in words."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "widemargin"
    figure, axes = plt.subplots(1, len(FLIPPED), figsize=(10.5, 3.3), layout="constrained", sharey=True)
    for axis, flipped in zip(axes, FLIPPED):
        found = np.array([[cells[n, d, norm2, flipped] for norm2 in NORMS2] for n, d in SIZES])
        with np.errstate(invalid="ignore"):
            ratio = found[:, :, 0] / found[:, :, 1]
        colour = np.where(np.isnan(ratio), 1.0, np.clip(ratio, 0.1, 10.0))
        image = axis.imshow(np.log10(colour), cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
        for row, column in np.ndindex(ratio.shape):
            own, rival = found[row, column]
            if np.isinf(own) and np.isinf(rival):
                word = "neither"
            elif np.isinf(own) or np.isinf(rival):
                word = "Pegasos\nonly" if np.isinf(own) else "SIMBA\nonly"
            else:
                word = f"{ratio[row, column]:.2f}"
            dark = abs(math.log10(colour[row, column])) > 0.7
            axis.text(column, row, word, ha="center", va="center", fontsize=8, color="white" if dark else "black")
        axis.set(title=f"{flipped:.1%} wrong labels", xlabel="B²")
        axis.set_xticks(range(len(NORMS2)), [f"{norm2:g}" for norm2 in NORMS2])
        axis.set_yticks(range(len(SIZES)), [f"{n:,} × {d:,}" for n, d in SIZES])
    bar = figure.colorbar(image, ax=axes, ticks=[-1, 0, 1])
    bar.ax.set_yticklabels(["0.1", "1", "10"])
    bar.set_label("reads of SIMBA / Pegasos")
    axes[0].set_ylabel("rows × features")
    (ROOT / "docs" / "images").mkdir(exist_ok=True)
    figure.savefig(ROOT / "docs" / "images" / "simba_map.svg", metadata={"Date": None})


def main(arguments):
    runs = next((int(argument[7:]) for argument in arguments if argument.startswith("--runs=")), 5)
    cells, since = {}, time.perf_counter()
    for (n, d), norm2, flipped in itertools.product(SIZES, NORMS2, FLIPPED):
        cells[n, d, norm2, flipped] = own, rival = cell(n, d, norm2, flipped, runs)
        print(
            f"n = {n}, d = {d}, B² = {norm2:g}, {flipped:.1%} wrong: SIMBA {own:.3f} passes, Pegasos {rival:.3f}, "
            f"ratio {own / rival if math.isfinite(own) or math.isfinite(rival) else math.nan:.3f}",
            flush=True,
        )
    keep("simba_map", {
        "runs": runs, "level": LEVEL, "share": SHARE, "seconds": round(time.perf_counter() - since),
        "cells": [[*key, *(None if math.isinf(value) else value for value in found)] for key, found in cells.items()],
    })  # fmt: skip
    draw(cells)


if __name__ == "__main__":
    main(sys.argv[1:])
