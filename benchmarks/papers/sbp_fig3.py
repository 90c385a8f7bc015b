"""Fig. 3 of the SBP paper: kernel SBP beside random Fourier features, by inner products of rows.

``widemargin reproduce sbp``, after Fig. 2, whose curves of SBP and whose optima it takes. Settled before the runs:

- The sets, γ, C and numbers of runs are those of Fig. 2. k pairs of features cost k n inner products of rows, and k
  draws of SBP as many; training on the features is free, as in the paper.
- The features' optimum is that of SDCA at a relative gap of 1e-3. Beside it are Pegasos over the features after ten
  passes, and SBP over the features after 512 draws (a linear kernel, ν of the features' optimum, weights t).
- k = 1, 2, 4 … 1,024.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.papers.frame import Claim, Experiment, Kept, canvas, markdown, rounded
from benchmarks.papers.sbp_fig2 import SETS, Figure2, Task, error_at, sets_here
from widemargin import SDCA, Pegasos, StochasticBatchPerceptron
from widemargin.core.kernels.kernels import Linear
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.linear import Problem
from widemargin.running import run

PAIRS = tuple(2**k for k in range(11))
#: Draws of SBP over the features.
DRAWS = 512
OUTPUTS = ("the features' optimum", "Pegasos over the features", "SBP over the features")


def fourier(X, directions, gamma):
    """cos and sin of √(2γ)⟨v, x⟩ over √k for k directions v ~ N(0, I), whose inner products are near exp(−γ‖x − z‖²).

    Rahimi and Recht, as in App. A of the paper: 1/σ = √(2γ).
    """
    k = directions.shape[1]
    angles = np.asarray(X @ (np.float32(np.sqrt(2.0 * gamma)) * directions))
    features = np.empty((angles.shape[0], 2 * k), np.float32)
    features[:, :k], features[:, k:] = np.cos(angles), np.sin(angles)
    features /= np.float32(np.sqrt(k))
    return features


def errors_with(task, k, seed):
    """Test errors over k pairs of features: of the optimum, of Pegasos, of SBP; and the mean |error| of the kernel."""
    rng, which = np.random.default_rng(seed), task.which
    directions = rng.normal(size=(task.X.shape[1], k)).astype(np.float32)
    F, G = fourier(task.X, directions, which.gamma), fourier(task.Z, directions, which.gamma)
    target, lam = losses.Single(losses.Hinge()), 1.0 / (which.C * task.n)
    problem = Problem(as_rows(F), task.y, target, lam, intercept="none")
    optimum = run(SDCA(), problem, rng=rng, tol=1e-3, max_epochs=300).model.coef.ravel()
    walked = run(Pegasos(), problem, rng=rng, max_epochs=10).model.coef.ravel()
    hinge = np.mean(np.maximum(0.0, 1.0 - task.y * (F @ optimum)))
    nu = float(hinge / max(np.linalg.norm(optimum), 1e-12))
    solver = StochasticBatchPerceptron(nu=nu, batch_size=1)
    drawn = KernelProblem(Linear(), as_rows(F), task.y, target, lam, intercept="none")
    state = solver.init(drawn, rng)
    while state.t < DRAWS:
        solver.advance(drawn, state, DRAWS - state.t)
    alpha = solver.averages(state)[0][0]
    used = np.flatnonzero(alpha)
    batch = (task.y * alpha)[used] @ F[used]
    errors = [float(np.mean(np.where(G @ w > 0, 1.0, -1.0) != task.t)) for w in (optimum, walked, batch)]
    return [*errors, kernel_error(task, F, rng)]


def kernel_error(task, F, rng):
    """Mean |⟨P(x), P(z)⟩ − K(x, z)| over a thousand pairs of training rows."""
    x, z = rng.integers(task.n, size=(2, 1000))
    apart = task.X[x] - task.X[z]
    squares = apart.multiply(apart).sum(axis=1) if hasattr(apart, "multiply") else np.sum(apart * apart, axis=1)
    exact = np.exp(-task.which.gamma * np.asarray(squares).ravel())
    return float(np.mean(np.abs(np.sum(F[x] * F[z], axis=1) - exact)))


class Figure3(Experiment):
    paper, name = "sbp", "Figure 3"
    shows = (
        "test error against inner products of rows: random Fourier features, with the best classifier over them, "
        "beside SBP with the kernel. At least on Reuters and MNIST SBP is preferable."
    )
    setting = (
        "the sets and runs of Figure 2. k pairs of features cost k n inner products, and so do k draws; training over "
        f"the features is free. Pegasos makes ten passes over them, SBP {DRAWS} draws."
    )
    differences = (
        "With few draws SBP is behind on every set, and ahead for good from 32 (reuters-money-fx), 64 (mnist) and 128 "
        "(usps) on; the paper's claim is about its whole curve.",
        "On a9a the features are the better choice throughout: 256 pairs are within 2 % of the kernel's optimum.",
        "Ten passes of Pegasos over the features are within 0.3 points of their optimum everywhere, and mostly below "
        "it; 512 draws of SBP over them are not enough on a9a and mnist.",
    )

    def run(self, kept, quick):
        known = Kept(kept.path.with_name(f"{Figure2().stem}.json")).parts
        for which in sets_here(quick):
            made = []

            def task():
                if not made:
                    made.append(Task(which, 1000 if quick else None))
                return made[0]

            kept.get(
                f"{which.name}: kernel",
                lambda: {
                    **{name: known[f"{which.name}: optimum"][name] for name in ("n", "error")},
                    "curve": known[f"{which.name}: SBP"]["curves"]["SBP, Algorithm 1"],
                },
            )
            for k in PAIRS[:7:2] if quick else PAIRS:
                kept.get(
                    f"{which.name}: {k}",
                    lambda: rounded(np.mean([errors_with(task(), k, seed) for seed in range(which.runs)], axis=0)),
                )

    def read(self, parts):
        """{set: (kernel, numbers of pairs, errors by pairs and output)}."""
        found = {}
        for name in SETS:
            if f"{name}: kernel" in parts:
                ks = [k for k in PAIRS if f"{name}: {k}" in parts]
                found[name] = parts[f"{name}: kernel"], ks, np.array([parts[f"{name}: {k}"] for k in ks])
        return found

    @staticmethod
    def beside(kernel, k):
        """The error of SBP with the kernel after k draws; its first checkpoint is at 16."""
        return error_at(kernel["curve"], k * kernel["n"]) if k >= 16 else np.nan

    def table(self, parts):
        rows = []
        for name, (kernel, ks, errors) in self.read(parts).items():
            for k, row in zip(ks, errors):
                if k in PAIRS[::2]:
                    own = self.beside(kernel, k)
                    cells = [f"{100 * each:.2f}" for each in row[:3]]
                    rows.append([name, f"{k:,}", *cells, "" if np.isnan(own) else f"{100 * own:.2f}", f"{row[3]:.4f}"])
        head = ["data", "pairs k, or draws", *OUTPUTS, "SBP with the kernel, k draws", "mean error of K"]
        finals = "; ".join(f"{name} {100 * kernel['error']:.2f} %" for name, (kernel, _, _) in self.read(parts).items())
        return f"Test errors in %, at k n inner products.\n\n{markdown(head, rows)}\n\nThe kernel's optimum: {finals}."

    def figure(self, parts):
        read = self.read(parts)
        figure, (axes,) = canvas(1, len(read), 3.2, 2.9)
        for axis, (name, (kernel, ks, errors)) in zip(axes, read.items()):
            curve = np.array(kernel["curve"])
            axis.plot(curve[:, 0] / kernel["n"], 100 * curve[:, 1], "k", label="SBP, Algorithm 1", linewidth=1.1)
            for column, label, style in zip(errors.T, OUTPUTS, ("C0o-", "C1s--", "C2^:")):
                axis.plot(ks, 100 * column, style, label=label, linewidth=1, markersize=2.5)
            axis.axhline(100 * kernel["error"], color="0.7", linewidth=0.7)
            axis.set(xscale="log", title=name, xlabel="inner products / n")
            axis.set_ylim(80 * kernel["error"], min(45.0, 500 * kernel["error"]))
        axes[0].set_ylabel("test error, %")
        axes[-1].legend(frameon=False, fontsize=6)
        return figure

    def claims(self, parts):
        """From k = 16 on, where SBP has its first checkpoint."""
        read, told, holds, slopes = self.read(parts), [], True, {}
        for name, (kernel, ks, errors) in read.items():
            compared = [(k, self.beside(kernel, k), row[0]) for k, row in zip(ks, errors) if k >= 16]
            lost = [k for k, own, other in compared if not own < other]
            later = [k for k, _, _ in compared if k > max(lost, default=0)]
            told.append(f"{name} {f'from {later[0]} on' if later else 'not in the end'}")
            holds &= not lost or name in ("a9a", "usps, 8")
            slopes[name] = float(np.polyfit(np.log(ks), np.log(errors[:, 3]), 1)[0])
        return [
            Claim(
                "at least on Reuters and MNIST SBP is preferable to random Fourier features",
                "a lower error after k draws than the optimum over k pairs, asked for all k from 16 to 1,024: "
                + "; ".join(told),
                holds,
                "after its first draws SBP is behind",
            ),
            Claim(
                "the approximation improves with k (the theory: as 1/√k)",
                "slope of the logarithm of the mean distance of ⟨P(x), P(z)⟩ from K(x, z) against log k: "
                + ", ".join(f"{name} {slope:.2f}" for name, slope in slopes.items()),
                all(-0.6 <= slope <= -0.4 for slope in slopes.values()),
                "the slope is another",
            ),
        ]


EXPERIMENTS = [Figure3()]
