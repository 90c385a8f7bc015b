"""Test error against the time limit, for every kernel solver: a9a and MNIST 8 against the rest, C = 1 and 100.

``python -m benchmarks.peers.time_limit`` prints the table and draws docs/images/time_limit.svg;
:mod:`.limits` measures how far behind their limits fits end.

Compilation is off the clock, everything else on it. The last row of each block is the exact machine without a limit.
"""

import time
import warnings

import numpy as np

from benchmarks.datasets import ROOT, a9a, load
from widemargin import SVC

LIMITS = (1.0, 2.0, 4.0, 8.0)
SOLVERS = ("auto", "sbp", "sdca", "pegasos")


def mnist():
    (X, y), (Z, t) = load("mnist", 784), load("mnist.t", 784)
    return X * np.float32(1 / 255), np.where(y == 8, 1, -1), Z * np.float32(1 / 255), np.where(t == 8, 1, -1)


PROBLEMS = {"a9a": (a9a, 0.05), "mnist 8 against the rest": (mnist, 0.02)}


def objective(model, X, y, C):
    """That of the model on all examples, off the clock; what a history has may be an estimate."""
    scores = model.decision_function(X)
    free = model.intercept == "auto" and model._configured().capabilities.free_intercept
    norm2 = model.dual_coef_[0] @ (scores[model.support_] - (model.intercept_[0] if free else 0.0))
    return 0.5 * norm2 / (C * y.size) + np.mean(np.maximum(0.0, 1.0 - y * scores))


def errors():
    """The table; returns {(data, C): {solver: errors}} and the exact machines' (seconds, error)."""
    curves, exact = {}, {}
    for name, (get, gamma) in PROBLEMS.items():
        X, y, Z, t = get()
        for solver in SOLVERS:
            SVC(gamma=gamma, solver=solver, max_seconds=0.5).fit(X[:3000], y[:3000])
            SVC(gamma=gamma, solver=solver, max_iter=1).fit(X[:3000], y[:3000])
        for C in (1.0, 100.0):
            print(f"{name}, γ = {gamma}, C = {C:g}: test error in % by time limit (objective; the fit's seconds)")
            print("    solver    " + "".join(f"{limit:>22g} s" for limit in LIMITS))
            rows = curves[name, C] = {}
            for solver in SOLVERS:
                cells = []
                for limit in LIMITS:
                    since = time.perf_counter()
                    model = SVC(C, gamma=gamma, solver=solver, max_seconds=limit, random_state=0).fit(X, y)
                    seconds = time.perf_counter() - since
                    error = 100.0 * (1.0 - model.score(Z, t))
                    rows.setdefault(solver, []).append(error)
                    cells.append(f"{error:9.2f} ({objective(model, X, y, C):.3f}; {seconds:5.2f})")
                print(f"    {solver:10s}" + " ".join(cells), flush=True)
            since = time.perf_counter()
            model = SVC(C, gamma=gamma, random_state=0).fit(X, y)
            exact[name, C] = time.perf_counter() - since, 100.0 * (1.0 - model.score(Z, t))
            print(
                f"    {'no limit':10s} {exact[name, C][1]:8.2f} ({objective(model, X, y, C):.3f}) after "
                f"{exact[name, C][0]:.1f} s, {model.stop_reason_}",
                flush=True,
            )
    return curves, exact


def draw(curves, exact):
    """One panel for each problem."""
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "widemargin"
    figure, axes = plt.subplots(1, len(curves), figsize=(3.4 * len(curves), 3.2))
    for axis, ((name, C), rows) in zip(axes, curves.items(), strict=True):
        for solver, values in rows.items():
            axis.plot(LIMITS, values, "o-", label=solver, markersize=3)
        axis.axhline(exact[name, C][1], color="0.6", linewidth=0.8, label="no limit")
        axis.set(xscale="log", yscale="log", xlabel="time limit, s", title=f"{name}, C = {C:g}")
        axis.title.set_fontsize(8)
        axis.set_xticks(LIMITS, [f"{limit:g}" for limit in LIMITS])
    axes[0].set_ylabel("test error, %")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "images" / "time_limit.svg", metadata={"Date": None})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    draw(*errors())
