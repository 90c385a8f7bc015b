"""Test error against the time limit, for every kernel solver: a9a and MNIST 8 against the rest, C = 1 and 100.

    python -m benchmarks.peers.time_limit            the table, and docs/images/time_limit.svg
    python -m benchmarks.peers.time_limit promptly   how far behind their limit of 2 s fits end, on large data

Compilation is off the clock, everything else on it. The last row of each block is the exact machine without a limit.
"""

import sys
import time
import warnings

import numpy as np

from benchmarks.datasets import ROOT, a9a, load
from widemargin import SVC, SVR

LIMITS = (1.0, 2.0, 4.0, 8.0)
SOLVERS = ("auto", "sbp", "sdca", "pegasos")


def mnist():
    (X, y), (Z, t) = load("mnist", 784), load("mnist.t", 784)
    return X * np.float32(1 / 255), np.where(y == 8, 1, -1), Z * np.float32(1 / 255), np.where(t == 8, 1, -1)


PROBLEMS = {"a9a": (a9a, 0.05), "mnist 8 against the rest": (mnist, 0.02)}


def objective(model, X, y, C):
    """That of the model on all examples, off the clock; what a history has may be an estimate."""
    scores = model.decision_function(X)
    free = model.intercept == "auto" and model._configured().free_bias
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


def promptly(limit=2.0):
    """Seconds of whole fits with a limit, preparation and certificate included."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500_000, 50))
    z = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=500_000)
    y = np.where(z > 0, 1, -1)
    (M, t), small = load("mnist", 784, np.float64), slice(0, 3000)
    M = M.multiply(1 / 255).tocsr()
    fits = {
        "SVC, 500,000 × 50": (SVC(), X, y),
        "SVR, 500,000 × 50": (SVR(), X, z),
        "SVC(solver='sbp'), 500,000 × 50": (SVC(solver="sbp"), X, y),
        "SVC(solver='sdca'), 500,000 × 50": (SVC(solver="sdca"), X, y),
        "SVC(solver='pegasos'), 500,000 × 50": (SVC(solver="pegasos"), X, y),
        "SVC(multi_class='ovr'), mnist": (SVC(gamma=0.02, multi_class="ovr"), M, t),
        "SVC(multi_class='ovo'), mnist": (SVC(gamma=0.02), M, t),
        "SVC(solver='sbp', multi_class='ovr'), mnist": (SVC(gamma=0.02, solver="sbp", multi_class="ovr"), M, t),
    }
    print(f"seconds of a fit with max_seconds={limit:g}, three times; asked: at most {limit + 0.5:g}")
    for name, (model, data, target) in fits.items():
        model.set_params(max_seconds=limit).fit(data[small], target[small])
        seconds = []
        for _ in range(3):
            since = time.perf_counter()
            model.fit(data, target)
            seconds.append(time.perf_counter() - since)
        score = model.score(data[small], target[small])
        met = "met" if max(seconds) <= limit + 0.5 else "MISSED"
        print(f"    {name:45s} {' '.join(f'{s:.2f}' for s in seconds)}  {met}, score {score:.3f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "promptly" in sys.argv[1:]:
        promptly()
    else:
        draw(*errors())
