"""One picture for each method: what it does, drawn from a problem small enough to see.

``python -m benchmarks.pages.ideas`` writes docs/images/idea_*.svg; names after it draw those alone. Curves and paths
are those of the method itself on a toy problem, written out here in a few lines; matrices and parts are sketches.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

IMAGES = Path(__file__).parents[2] / "docs" / "images"
BLUE, RED, GREY, PALE, WATER = "#1f5f8b", "#c8553d", "#8a8a8a", "#dfe7ee", "#a9cfe6"


def bare(ax: Axes) -> None:
    """Takes ticks and frame away in place."""
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_visible(False)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], color: str = "black") -> None:
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, color=color, lw=1.6, zorder=5))


def two_clouds(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return rng.normal(size=(n, 2)) * [1.0, 0.8] + y[:, None] * [0.9, 0.5], y


def pegasos(ax: Axes) -> None:
    """Steps of η₀/(1 + λη₀t) on single examples, and their mean with weights t, over the contours of the objective."""
    rng, lam, eta0, n = np.random.default_rng(3), 0.05, 0.2, 200
    X, y = two_clouds(rng, n)
    grid = np.meshgrid(np.linspace(-0.3, 2.3, 80), np.linspace(-0.5, 1.5, 80))
    W = np.stack([g.ravel() for g in grid], 1)
    P = 0.5 * lam * np.sum(W**2, 1) + np.maximum(0.0, 1.0 - y * (W @ X.T)).mean(1)
    w, mean, path, means = np.zeros(2), np.zeros(2), [], []
    for t in range(1, 4 * n + 1):
        path.append(w)
        mean = mean + (2.0 / (t + 1)) * (w - mean)
        means.append(mean)
        i, eta = rng.integers(n), eta0 / (1.0 + lam * eta0 * t)
        w = (1.0 - eta * lam) * w + eta * (y[i] * (w @ X[i]) < 1.0) * y[i] * X[i]
    path, means, best = np.array(path), np.array(means), W[np.argmin(P)]
    ax.contour(*grid, P.reshape(80, 80), levels=P.min() + np.geomspace(0.004, 2.0, 9), colors=[PALE], linewidths=1.5)
    ax.plot(*path.T, color="#b5b5b5", lw=0.8)
    ax.plot(*means.T, color=BLUE, lw=2.6)
    ax.plot(*best, "*", color=RED, ms=14, zorder=6)
    ax.text(0.97, 0.93, "a step for each example", color="#6a6a6a", transform=ax.transAxes, ha="right")
    ax.text(0.97, 0.13, "their mean", color=BLUE, weight="bold", transform=ax.transAxes, ha="right")
    ax.text(0.97, 0.04, "the optimum (★)", color=RED, weight="bold", transform=ax.transAxes, ha="right")
    ax.set(xlabel="first weight", ylabel="second weight", xticks=[], yticks=[], xlim=(-0.3, 2.3), ylim=(-0.5, 1.5))


#: A dual of two variables: maximise ⟨p, α⟩ − ½ αᵀQα over the box [0, 1]².
Q = np.array([[2.0, 1.55], [1.55, 1.6]])
LINEAR = np.array([2.62, 2.1])


def box(ax: Axes, best: tuple[float, float]) -> None:
    a, b = np.meshgrid(np.linspace(-0.12, 1.25, 90), np.linspace(-0.12, 1.25, 90))
    D = LINEAR[0] * a + LINEAR[1] * b - 0.5 * (Q[0, 0] * a * a + 2 * Q[0, 1] * a * b + Q[1, 1] * b * b)
    ax.contour(a, b, D, levels=D.max() - np.geomspace(0.003, 2.0, 11)[::-1], colors=[PALE], linewidths=1.5)
    ax.add_patch(Rectangle((0, 0), 1, 1, fill=False, lw=2.0))
    ax.plot(*best, "*", color=RED, ms=15, zorder=6)
    ax.set(xlim=(-0.12, 1.25), ylim=(-0.12, 1.25), aspect="equal", xlabel="α₁", ylabel="α₂")
    ax.set(xticks=[0, 1], yticks=[0, 1], xticklabels=["0", "C"], yticklabels=["0", "C"])


def optimum_of_the_box() -> np.ndarray:
    alpha = np.zeros(2)
    for step in range(2000):
        i = step % 2
        alpha[i] = np.clip(alpha[i] + (LINEAR[i] - Q[i] @ alpha) / Q[i, i], 0.0, 1.0)
    return alpha


def sdca(ax: Axes) -> None:
    """Exact steps in one variable after the other, inside the box."""
    box(ax, tuple(optimum_of_the_box()))
    alpha, path = np.zeros(2), [np.zeros(2)]
    for step in range(10):
        i = (step + 1) % 2
        alpha[i] = np.clip(alpha[i] + (LINEAR[i] - Q[i] @ alpha) / Q[i, i], 0.0, 1.0)
        path.append(alpha.copy())
    path = np.array(path)
    ax.plot(*path.T, color=BLUE, lw=2.4, marker="o", ms=5)
    ax.text(0.05, 0.42, "one example:\nto its best place\nin the box", color=BLUE, weight="bold")
    ax.text(0.56, 1.07, "then the next", color=BLUE, weight="bold")
    ax.text(1.03, optimum_of_the_box()[1] - 0.16, "optimum", color=RED, weight="bold")


def interior(ax: Axes) -> None:
    """The path of the conditions for τ → 0 from the middle of the box, which steps follow, and points on it."""
    best = optimum_of_the_box()
    box(ax, tuple(best))

    def newton(alpha, low, high, tau, e_low=0.0, e_high=0.0):
        """A Newton step for Qα − p = l − m, αl = τ − e_l, (1 − α)m = τ − e_m."""
        room = 1.0 - alpha
        rest = LINEAR - Q @ alpha + (tau - e_low) / alpha - (tau - e_high) / room
        step = np.linalg.solve(Q + np.diag(low / alpha + high / room), rest)
        return step, (tau - e_low - low * step) / alpha - low, (tau - e_high + high * step) / room - high

    path = []
    for tau in np.geomspace(100.0, 1e-6, 400):
        alpha = path[-1] if path else np.full(2, 0.5)
        low, high = tau / alpha, tau / (1.0 - alpha)
        for _ in range(30):
            step, d_low, d_high = newton(alpha, low, high, tau)
            length = 1.0
            for value, change in ((alpha, step), (1.0 - alpha, -step), (low, d_low), (high, d_high)):
                falling = change < 0
                length = min(length, *(-0.9 * value[falling] / change[falling]), 1.0)
            alpha, low, high = alpha + length * step, low + length * d_low, high + length * d_high
        path.append(alpha)
    path = np.array(path)
    ax.plot(*path.T, color=GREY, lw=2.0, ls="--")
    stops = [path[0]]
    for alpha in path:
        left, gone = np.linalg.norm(alpha - best), np.linalg.norm(stops[-1] - best)
        if left < 0.45 * gone:
            stops.append(alpha)
    stops = np.array(stops[:6])
    ax.plot(*stops.T, "o", color=BLUE, ms=7, zorder=6)
    ax.text(0.10, 0.36, "start in\nthe middle", color=BLUE, weight="bold")
    ax.text(0.36, 0.70, "each step moves\nall variables", color=BLUE, weight="bold")
    ax.text(0.05, 0.07, "the walls push back,\nless and less", color="#555555")
    ax.text(1.03, best[1] - 0.16, "optimum", color=RED, weight="bold")


def smo(axes: list[Axes]) -> None:
    """e of variables that can rise and of those that can fall, early and at the optimum, of a small machine."""
    rng = np.random.default_rng(4)
    X, y = two_clouds(rng, 40)
    K, C, alpha = np.exp(-0.4 * ((X[:, None] - X) ** 2).sum(2)), 2.0, np.zeros(40)

    def sides():
        e = y - K @ (y * alpha)
        rise = np.where(y > 0, alpha < C - 1e-9, alpha > 1e-9)
        fall = np.where(y > 0, alpha > 1e-9, alpha < C - 1e-9)
        return e, rise, fall

    for moved in range(4001):
        e, rise, fall = sides()
        up, down = np.where(rise)[0], np.where(fall)[0]
        i, j = up[np.argmax(e[up])], down[np.argmin(e[down])]
        if moved in (8, 4000):
            ax = axes[0 if moved == 8 else 1]
            ax.plot(e[up], np.full(up.size, 1.0), "o", color=BLUE, alpha=0.75)
            ax.plot(e[down], np.full(down.size, 0.0), "o", color=RED, alpha=0.75)
            if moved == 8:
                ax.plot([e[i]], [1.0], "o", ms=13, mfc="none", mec="black", mew=1.6)
                ax.plot([e[j]], [0.0], "o", ms=13, mfc="none", mec="black", mew=1.6)
                ax.set_title("early: this pair is the most at odds", loc="left")
            else:
                ax.axvline(0.5 * (e[i] + e[j]), color="black", lw=1.6)
                ax.text(0.5 * (e[i] + e[j]) + 0.04, 0.42, "b")
                ax.set_title("at the optimum: b lies between them", loc="left")
            bare(ax)
            ax.set(ylim=(-0.5, 1.5), yticks=[0, 1], yticklabels=["can fall", "can rise"], xlim=(-1.75, 1.75))
            ax.axhline(-0.5, color="black", lw=1.0)
        t = (e[i] - e[j]) / max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12)
        t = min(t, C - alpha[i] if y[i] > 0 else alpha[i], alpha[j] if y[j] > 0 else C - alpha[j])
        alpha[i] += y[i] * t
        alpha[j] -= y[j] * t
    axes[1].set_xlabel("e: label less score")


def sbp(ax: Axes) -> None:
    """Responses in order of size, and water up to the level γ."""
    rng = np.random.default_rng(2)
    c = np.sort(np.r_[rng.normal(0.75, 0.28, 17), rng.normal(-0.2, 0.25, 7)])
    volume, level = 2.4, c[0]
    for k in range(1, c.size + 1):
        level = (volume + c[:k].sum()) / k
        if k == c.size or level <= c[k]:
            break
    floor = -0.85
    ax.bar(np.arange(c.size), c - floor, bottom=floor, width=0.86, color=np.where(c < level, BLUE, "#c9c9c9"))
    under = c < level
    ax.bar(np.arange(c.size)[under], (level - c)[under], bottom=c[under], width=1.0, color=WATER)
    ax.axhline(level, color=BLUE, lw=1.8)
    ax.text(c.size - 0.5, level + 0.05, "water level γ", color=BLUE, weight="bold", ha="right")
    ax.text(0.0, level + 0.07, "nν of water", color="#2f7fae", weight="bold")
    ax.annotate("drawn from\nthese alone", (3.0, -0.55), (8.6, 1.02), color=BLUE, weight="bold", ha="center")
    arrow(ax, (7.0, 0.98), (3.4, level - 0.12), BLUE)
    bare(ax)
    ax.set(xlabel="examples, the worst first", ylabel="response yᵢ⟨w, Φ(xᵢ)⟩", xlim=(-0.8, c.size - 0.2))


def simba(ax: Axes) -> None:
    """A matrix of which a step reads one row and one column."""
    rng, n, d = np.random.default_rng(5), 9, 14
    ax.add_patch(Rectangle((0, 0), d, n, color=PALE))
    for k in range(1, d):
        ax.plot([k, k], [0, n], color="white", lw=1.0)
    for k in range(1, n):
        ax.plot([0, d], [k, k], color="white", lw=1.0)
    row, column = 6, 9
    ax.add_patch(Rectangle((0, row), d, 1, color=BLUE))
    ax.add_patch(Rectangle((column, 0), 1, n, color=RED))
    p, w = rng.uniform(0.2, 1.0, n), rng.uniform(0.2, 1.0, d)
    p[row], w[column] = 1.9, 1.9
    ax.barh(np.arange(n) + 0.5, -p, left=-0.3, height=0.8, color=[BLUE if k == row else "#b9cfdf" for k in range(n)])
    ax.bar(np.arange(d) + 0.5, -w, bottom=-0.3, width=0.8, color=[RED if k == column else "#ecc4bb" for k in range(d)])
    ax.text(-2.3, n + 0.35, "importance", color=BLUE, weight="bold", ha="left")
    ax.text(d / 2, -2.95, "weights", color=RED, weight="bold", ha="center")
    ax.text(d / 2 + 1.2, n + 0.35, "read: one row, one column", ha="center")
    bare(ax)
    ax.set(xlim=(-2.6, d + 0.2), ylim=(-3.2, n + 1.3), aspect="equal")


def budgeted(ax: Axes) -> None:
    """Two Gaussian bumps, and the one that replaces them with the least loss."""
    x, a, b, heavy, light = np.linspace(-2.6, 3.4, 400), -0.35, 0.75, 1.0, 0.55
    bump = lambda centre: np.exp(-0.5 * (x - centre) ** 2)  # noqa: E731
    kappa, h = np.exp(-0.5 * (a - b) ** 2), np.linspace(0.0, 1.0, 2001)
    sizes = heavy * kappa ** ((1.0 - h) ** 2) + light * kappa ** (h**2)
    best = h[np.argmax(sizes)]
    z, size = best * a + (1.0 - best) * b, sizes.max()
    before, after = heavy * bump(a) + light * bump(b), size * bump(z)
    ax.fill_between(x, before, after, color="#f0c9bf", label="lost: Δ")
    ax.plot(x, heavy * bump(a), color=GREY, ls=":", lw=1.8)
    ax.plot(x, light * bump(b), color=GREY, ls=":", lw=1.8)
    ax.plot(x, before, color="black", lw=2.0)
    ax.plot(x, after, color=BLUE, lw=2.6)
    ax.annotate("two vectors", (-0.9, 0.99), (-2.55, 1.2), weight="bold")
    ax.annotate("one merged vector", (0.5, 1.25), (0.75, 1.4), color=BLUE, weight="bold")
    ax.annotate("what is lost", (1.75, 0.36), (1.75, 0.75), color=RED, weight="bold")
    arrow(ax, (2.1, 0.72), (1.72, 0.42), RED)
    bare(ax)
    ax.axhline(0.0, color="black", lw=1.0)
    for place, name, color in ((a, r"$x_n$", "black"), (b, r"$x_m$", "black"), (z, r"$z$", BLUE)):
        ax.plot([place], [0.0], "o", color=color, ms=6, clip_on=False, zorder=6)
        ax.text(place, -0.17, name, ha="center", color=color)
    ax.set(ylim=(-0.22, 1.62))


def ascend(Q: np.ndarray, alpha: np.ndarray, order: np.ndarray | list[int], C: float) -> None:
    """Moves one α after the other to its best place in [0, C], in place."""
    for i in order:
        alpha[i] = np.clip(alpha[i] + (1.0 - Q[i, : alpha.size] @ alpha) / Q[i, i], 0.0, C)


def incremental(ax: Axes) -> None:
    """The optimum of a growing set, and what Algorithm 2 with K = 3 has of it, over C t: the mean of eight streams."""
    rng, C, T, curves = np.random.default_rng(1), 1.0, 240, []
    for _ in range(8):
        X, y = two_clouds(rng, T)
        gram = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(2)) * (y[:, None] * y)
        alpha, exact, rows = np.zeros(0), np.zeros(0), []
        for t in range(1, T + 1):
            alpha, exact = np.append(alpha, 0.0), np.append(exact, 0.0)
            ascend(gram, alpha, [t - 1, *rng.integers(t, size=3)], C)
            if t % 8 == 0:
                for _ in range(40):
                    ascend(gram, exact, rng.permutation(t), C)
                G, best = gram[:t, :t] @ alpha, gram[:t, :t] @ exact
                P = 0.5 * alpha @ G + C * np.maximum(0.0, 1.0 - G).sum()
                values = np.array([P, exact.sum() - 0.5 * exact @ best, alpha.sum() - 0.5 * alpha @ G])
                rows.append([t, *(values / (C * t))])
        curves.append(rows)
    t, P, best, D = np.mean(curves, axis=0)[2:].T
    ax.fill_between(t, D, P, color=PALE)
    ax.plot(t, P, color=BLUE, lw=2.2)
    ax.plot(t, D, color=BLUE, lw=2.2)
    ax.plot(t, best, color=RED, lw=2.4, ls="--")
    right, high = t[-1] + 4, P.max() - D.min()
    ax.text(t[-1], P[-6:].max() + 0.06 * high, "objective of the machine", color=BLUE, weight="bold", ha="right")
    ax.text(t[-1], D[-6:].min() - 0.15 * high, "value that its α prove", color=BLUE, weight="bold", ha="right")
    ax.text(right, best[-1], "optimum\nof all\nso far", color=RED, weight="bold", va="center")
    ax.set(
        xlabel="examples seen", ylabel="value for each example", xlim=(t[0] - 4, t[-1] + 66), xticks=[50, 100, 150, 200]
    )
    ax.set_ylim(D.min() - 0.22 * high)
    ax.spines[["top", "right"]].set_visible(False)


def cluster(ax: Axes) -> None:
    """Parts that keep their rows, and a driver that sends weights and gets sums."""
    ax.add_patch(Rectangle((3.4, 3.5), 3.2, 1.1, color=BLUE))
    ax.text(5.0, 4.05, "driver: weights", color="white", weight="bold", ha="center", va="center")
    for k in range(4):
        left = 0.25 + 2.5 * k
        for line in range(5):
            ax.add_patch(Rectangle((left, 0.25 + 0.24 * line), 2.0, 0.17, color="#b9cfdf"))
        middle, top = left + 1.0, 5.0 + 0.75 * (k - 1.5)
        arrow(ax, (top - 0.12, 3.45), (middle - 0.18, 1.55), BLUE)
        arrow(ax, (middle + 0.22, 1.55), (top + 0.28, 3.45), RED)
    ax.text(1.0, 2.95, "weights out", color=BLUE, weight="bold", ha="center")
    ax.text(9.0, 2.95, "sums back", color=RED, weight="bold", ha="center")
    ax.text(5.0, -0.2, "rows stay where they are", ha="center", va="center", color="#555555")
    bare(ax)
    ax.set(xlim=(0.0, 10.0), ylim=(-0.5, 4.8))


#: name: how it is drawn, width and height in inches, panels one above the other
PICTURES = {
    "pegasos": (pegasos, 5.0, 3.6, 1),
    "simba": (simba, 5.0, 3.8, 1),
    "sbp": (sbp, 5.0, 3.3, 1),
    "budgeted": (budgeted, 5.0, 3.0, 1),
    "incremental": (incremental, 5.0, 3.2, 1),
    "sdca": (sdca, 4.4, 4.2, 1),
    "smo": (smo, 5.0, 3.2, 2),
    "interior": (interior, 4.4, 4.2, 1),
    "cluster": (cluster, 5.0, 2.8, 1),
}


def draw(name: str) -> Path:
    function, width, height, panels = PICTURES[name]
    style = {"svg.hashsalt": "widemargin", "svg.fonttype": "none", "font.size": 11, "font.family": "sans-serif"}
    with plt.rc_context(style):
        figure, axes = plt.subplots(panels, figsize=(width, height), sharex=panels > 1, layout="constrained")
        function(list(axes) if panels > 1 else axes)
        path = IMAGES / f"idea_{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
    return path


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PICTURES:
        print(draw(chosen))
