"""Figs. 1 and 4 of the SBP paper: water over the responses, in one basin and in two, of a run of our own.

``widemargin reproduce sbp``. Sixty points of a checkerboard, γ = 1, responses after 200 steps of Algorithm 1. Settled
before the runs: ν = 0.02 for one basin, 0.05 for two; 3,000 directions for Lemma 3.1, a third each of length 0.1, 1 and
10; 2,001 biases between −1 and 1.
"""

import numpy as np

from benchmarks.papers.frame import Claim, Experiment, canvas, markdown, rounded
from widemargin import StochasticBatchPerceptron
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.losses.water_level import fill
from widemargin.core.rows.rows import as_rows
from widemargin.data.generators import checkerboard
from widemargin.problems.kernel import KernelProblem

N, STEPS = 60, 200
#: Rounding, of levels and masses about 1.
EXACT = 1e-9


def after_steps(nu, intercept):
    """The problem, the kernel matrix and the responses cᵢ = yᵢ⟨w, Φ(xᵢ)⟩ of the last iterate."""
    X, y = checkerboard(N, np.random.default_rng(0))
    y = np.where(y == 1, 1.0, -1.0)
    problem = KernelProblem(RBF(1.0), as_rows(X), y, losses.Single(losses.Hinge()), 1.0 / N, intercept=intercept)
    solver = StochasticBatchPerceptron(nu=nu, batch_size=1, average="uniform")
    state = solver.init(problem, np.random.default_rng(0))
    while state.t < STEPS:
        solver.advance(problem, state, STEPS - state.t)
    everything = np.arange(N)
    return y, problem.matrix(everything, everything).block(everything), y * state.scale[0] * state.f[0]


def columns(axis, heights, level, low, first=0, color="0.55"):
    """Sorted heights as columns from ``low`` on, and water over them up to the level."""
    places = first + np.arange(heights.size)
    axis.bar(places, heights - low, bottom=low, width=1.0, color=color)
    axis.bar(places, np.maximum(level - heights, 0.0), bottom=heights, width=1.0, color="lightblue")


class Figure1(Experiment):
    paper, name = "sbp", "Figure 1"
    shows = (
        "how ξ* and p* are found: nν of water stands over the lowest responses up to a common level γ, and p* is "
        "uniform on the points under water."
    )
    setting = (
        f"{N} points of a checkerboard, Gaussian kernel, γ = 1, ν = 0.02; responses after {STEPS} steps of Algorithm 1."
    )
    NU = 0.02

    def run(self, kept, quick):
        kept.get("water", self.water)

    def water(self):
        y, K, c = after_steps(self.NU, "none")
        found, rng = fill(c, N * self.NU), np.random.default_rng(1)
        worst = -np.inf
        for k in range(3000):
            beta = rng.normal(size=N)
            beta *= 10.0 ** (k % 3 - 1) / np.sqrt(beta @ K @ beta)
            moved = y * (K @ beta)
            worst = max(worst, fill(c + moved, N * self.NU).level - found.level - found.p @ moved)
        order = np.argsort(c)
        return {
            "responses": rounded(c[order], 8),
            "p": rounded(found.p[order], 8),
            "level": found.level,
            "volume": float(np.sum(np.maximum(found.level - c, 0.0))),
            "worst": worst,
        }

    def table(self, parts):
        water = parts["water"]
        covered = sum(each < water["level"] for each in water["responses"])
        rows = [[f"{water['level']:.4f}", f"{covered}", f"{water['volume']:.6f}", f"{max(water['p']):.6f}"]]
        return markdown(["level γ", "points under water", "volume poured (nν = 1.2)", "p* of each"], rows)

    def figure(self, parts):
        water = parts["water"]
        figure, ((upper,), (lower,)) = canvas(2, 1, 5.4, 2.0)
        heights = np.array(water["responses"])
        low = heights.min() - 0.05
        columns(upper, heights, water["level"], low)
        upper.axhline(water["level"], color="C0", linewidth=0.8)
        upper.set(ylim=(low, heights.max() + 0.05), ylabel="response $c_i$", title="γ is the level of nν of water")
        lower.bar(np.arange(N), water["p"], width=1.0, color="C1")
        lower.set(ylabel="$p^*_i$", xlabel="points, in the order of their responses")
        return figure

    def claims(self, parts):
        water = parts["water"]
        c, p = np.array(water["responses"]), np.array(water["p"])
        wet = c < water["level"]
        off = max(abs(p[wet] * wet.sum() - 1.0).max(), p[~wet].max(), abs(water["volume"] - N * self.NU))
        return [
            Claim(
                "p* is uniform on the points below the level of nν, and 0 above it",
                f"{wet.sum()} points under water; the largest deviation of p* and of the volume is {off:.0e}",
                bool(off <= 1e-6),
                "it is not",
            ),
            Claim(
                "Lemma 3.1: Σ pᵢyᵢΦ(xᵢ) is a supergradient of f",
                f"the largest f(w + v) − f(w) − ⟨v, Σ pᵢyᵢΦ(xᵢ)⟩ of 3,000 directions is {water['worst']:.1e}",
                water["worst"] <= EXACT,
                "some direction rises faster",
            ),
        ]


class Figure4(Experiment):
    paper, name = "sbp", "Figure 4"
    shows = (
        "an unregularised bias: two basins, one of each class, whose relative height is the bias; at the best one the "
        "water covers as many points in each."
    )
    setting = (
        f"{N} points of a checkerboard, Gaussian kernel, γ = 1, ν = 0.05; responses after {STEPS} steps. Below: the "
        "level that the same water reaches at other biases."
    )
    NU = 0.05

    def run(self, kept, quick):
        kept.get("water", self.water)

    def water(self):
        y, _, c = after_steps(self.NU, "unregularized")
        found, biases = fill(c, N * self.NU, y=y), np.linspace(-1.0, 1.0, 2001)
        levels = [fill(c + y * b, N * self.NU).level for b in biases]
        heights = c + y * found.bias
        return {
            "positive": rounded(np.sort(heights[y > 0]), 8),
            "negative": rounded(np.sort(heights[y < 0]), 8),
            "masses": [float(found.p[y > 0].sum()), float(found.p[y < 0].sum())],
            "level": found.level,
            "bias": found.bias,
            "highest": max(levels),
            "levels": [rounded(biases[::40]), rounded(levels[::40])],
        }

    def covered(self, water):
        """Points under water of each class."""
        return [int(np.sum(np.array(water[side]) < water["level"] - EXACT)) for side in ("positive", "negative")]

    def table(self, parts):
        water = parts["water"]
        masses = " and ".join(f"{each:.4f}" for each in water["masses"])
        counts = " and ".join(str(each) for each in self.covered(water))
        rows = [[f"{water['level']:.4f}", f"{water['bias']:.4f}", counts, masses]]
        return markdown(["level γ", "bias b", "points under water, + and −", "p* of each class"], rows)

    def figure(self, parts):
        water = parts["water"]
        figure, ((upper,), (lower,)) = canvas(2, 1, 5.4, 2.2)
        positive, negative = np.array(water["positive"]), np.array(water["negative"])
        low, high = min(positive.min(), negative.min()) - 0.05, max(positive.max(), negative.max()) + 0.05
        columns(upper, positive, water["level"], low, 0, "indianred")
        columns(upper, negative, water["level"], low, positive.size + 3)
        upper.axhline(water["level"], color="C0", linewidth=0.8)
        upper.set(
            ylim=(low, high),
            ylabel="$c_i + y_i b$",
            title="positive points, and negative ones, at the best bias",
            xticks=[],
        )
        lower.plot(*water["levels"], color="C0", linewidth=1)
        lower.plot(water["bias"], water["level"], "ko", markersize=3)
        lower.set(xlabel="bias b", ylabel="level γ")
        return figure

    def claims(self, parts):
        water = parts["water"]
        counts, masses = self.covered(water), water["masses"]
        return [
            Claim(
                "at the best bias the water covers as many points of each class, and p* has half its mass on each",
                f"{counts[0]} and {counts[1]} points; masses {masses[0]:.6f} and {masses[1]:.6f}; the level is "
                f"{water['level'] - water['highest']:.1e} above the highest of 2,001 biases",
                abs(counts[0] - counts[1]) <= 1
                and abs(masses[0] - 0.5) <= EXACT
                and water["level"] >= water["highest"] - EXACT,
                "it does not",
            )
        ]


EXPERIMENTS = [Figure1(), Figure4()]
