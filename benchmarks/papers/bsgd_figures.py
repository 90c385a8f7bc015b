"""Figures 2, 3, 5, 6 and 7 of the BSGD paper, as PNG in bench_output/papers.

``python -m benchmarks.papers.bsgd_figures [--quick] [2] [3] [5] [6] [7] [merge] [project] [remove]``. Numbers are kept
in bench_output/cache; γ and λ are those that cross-validation chose for Table 3 (computed here if they are missing).
Names of policies choose among the curves of Figure 5. Figure 6 measures time.

2. Accuracy of BPegasos+merge over the budget, on Letter and Covertype, beside Pegasos without a budget.
3. What five passes gain over one, BPegasos+merge, B = 500.
5. Accuracy over the number of examples seen for the three ways of maintenance, B = 100.
6. Training time over the number of examples, checkerboard.
7. The ten support vectors that are left of USPS with B = 10: projection keeps examples, merging makes prototypes.
   Projected vectors are named by the example they are, merged ones by their largest coefficient; both counts are
   printed.
"""

import sys
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.papers.bsgd import DATA, FOLDS, MOST_ROWS, OUTPUT, Kept, choose, examples, model, transferred

THREE = ("checkerboard", "covtype", "waveform")
POLICIES = ("merge", "project", "remove")


def chosen(name, method, budget, n_train, passes=1):
    """γ and λ by cross-validation, as in Table 3; for more than one pass if asked."""
    kept = Kept(f"table3-{name}")

    def search():
        X, y, _, _ = examples(name, 0)
        return choose(X[:MOST_ROWS], y[:MOST_ROWS], method, budget, max_iter=passes)

    gamma, second, _ = kept.get(f"cv {method} {budget}" + (f" {passes} passes" if passes > 1 else ""), search)
    X, _, _, _ = examples(name, 0)
    n = min(MOST_ROWS, len(X))
    return gamma, transferred(method, second, n - n // FOLDS, n_train)


def save(figure, name):
    OUTPUT.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(OUTPUT / f"{name}.png", dpi=120)
    plt.close(figure)
    print(OUTPUT / f"{name}.png", flush=True)


# ---------------------------------------------------------------- figure 2


def over_budgets(name, rows, budgets):
    """Accuracies for each budget, and without one (None)."""
    X, y, Z, t = examples(name, 0, rows)
    gamma, lam = chosen(name, "BPegasos+merge", 500, y.size)
    found = []
    for budget in budgets:
        trained = model("BPegasos+merge", budget, gamma, lam, random_state=0).fit(X, y)
        found.append((budget, 100 * trained.score(Z, t)))
        print(name, *found[-1], flush=True)
    few = min(y.size, 50_000)
    unlimited = model("BPegasos+remove", few, gamma, lam * np.sqrt(y.size / few), random_state=0).fit(X[:few], y[:few])
    return {"curve": found, "pegasos": [few, 100 * unlimited.score(Z, t), len(unlimited.support_vectors_)]}


def figure2(kept, quick):
    budgets = [50, 100, 200, 400, 800] + ([] if quick else [1600, 3200, 6400])
    plans = {"letter": (None, 96.28), "covtype": (20_000 if quick else 200_000, 87.73)}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    for axis, (name, (rows, theirs)) in zip(axes, plans.items()):
        found = kept.get(f"figure2 {name} {rows} {budgets}", lambda: over_budgets(name, rows, budgets))
        few, accuracy, vectors = found["pegasos"]
        axis.semilogx(*zip(*found["curve"]), "o-", label="BPegasos+merge")
        axis.axhline(accuracy, color="k", ls="--", label=f"Pegasos, {few:,} rows: {vectors:,} vectors")
        axis.axhline(theirs, color="0.6", ls=":", label="Pegasos in the paper")
        axis.set(title=name, xlabel="budget B", ylabel="test accuracy, %")
        axis.legend(fontsize=8)
    save(figure, "bsgd_figure2")


# ---------------------------------------------------------------- figure 3


def passes(name, rows, shuffles, chosen_for):
    """Accuracies after one pass and after five, for each shuffle."""
    found = []
    for repetition in range(shuffles):
        X, y, Z, t = examples(name, repetition, rows)
        gamma, lam = chosen(name, "BPegasos+merge", 500, y.size, chosen_for)
        found.append(
            [
                100
                * model("BPegasos+merge", 500, gamma, lam, random_state=repetition, max_iter=n).fit(X, y).score(Z, t)
                for n in (1, 5)
            ]
        )
    print(name, "chosen for", chosen_for, np.mean(found, axis=0), np.std(found, axis=0, ddof=1), flush=True)
    return found


def figure3(kept, quick):
    names = ["banana", "satimage"] if quick else list(DATA)
    rows, shuffles = (5000, 1) if quick else (100_000, 3)
    gains, labels = [], []
    for name in names:
        for chosen_for in (1, 5) if name == "dna" else (1,):
            key = f"figure3 {name} {rows} {shuffles}" + (f" for {chosen_for}" if chosen_for > 1 else "")
            found = np.array(kept.get(key, lambda: passes(name, rows, shuffles, chosen_for)))
            gains.append(found[:, 1] - found[:, 0])
            labels.append(name if chosen_for == 1 else f"{name}, λ and γ\nfor {chosen_for} passes")
    figure, axis = plt.subplots(figsize=(9, 3.6))
    axis.bar(labels, [g.mean() for g in gains], yerr=[g.std() for g in gains], color="tab:blue")
    axis.axhline(0, color="k", lw=0.8)
    axis.set_ylabel("accuracy of 5 passes − 1 pass, points")
    axis.set_title(f"BPegasos+merge, B = 500, {shuffles} shuffles, at most {rows:,} rows")
    axis.tick_params(axis="x", rotation=45)
    save(figure, "bsgd_figure3")


# ---------------------------------------------------------------- figure 5


def evolution(name, policy, rows):
    """(examples seen, accuracy) and the seconds of training, B = 100."""
    X, y, Z, t = examples(name, 0, rows)
    method = f"BPegasos+{policy}"
    gamma, lam = chosen(name, method, 100, y.size)
    model(method, 100, gamma, lam).partial_fit(X[:500], y[:500], classes=np.unique(y))  # compilation is off the clock
    trained, first, seconds, curve = model(method, 100, gamma, lam, random_state=0), 0, 0.0, []
    for last in np.unique(np.geomspace(100, y.size, 25).astype(int)):
        since = time.perf_counter()
        trained.partial_fit(X[first:last], y[first:last], classes=np.unique(y))
        seconds += time.perf_counter() - since
        curve.append((int(last), 100 * trained.score(Z, t)))
        first = last
    print(name, policy, curve[-1], f"{seconds:.1f} s", flush=True)
    return {"curve": curve, "seconds": seconds}


def figure5(kept, quick, policies):
    rows = 5000 if quick else 200_000
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6))
    for axis, name in zip(axes, THREE):
        for policy in policies:
            found = kept.get(f"figure5 {name} {policy} {rows}", lambda: evolution(name, policy, rows))
            axis.semilogx(*zip(*found["curve"]), label=f"BPegasos+{policy}: {found['seconds']:.1f} s")
        axis.set(title=f"{name}, B = 100", xlabel="examples seen", ylabel="test accuracy, %")
        axis.legend(fontsize=8)
    save(figure, "bsgd_figure5")


# ---------------------------------------------------------------- figure 6


def training_times(method, budget, largest):
    """(examples, seconds) of training; a budget of all examples is none."""
    X, y, _, _ = examples("checkerboard", 0, generated=largest)
    model(method, budget or 5000, 8.0, 5e-5, random_state=0).partial_fit(X[:5000], y[:5000], classes=[0, 1])
    curve, trained, seconds, first = [], model(method, budget or largest, 8.0, 5e-5, random_state=0), 0.0, 0
    for last in np.geomspace(1000, largest, 13).astype(int):
        since = time.perf_counter()
        trained.partial_fit(X[first:last], y[first:last], classes=[0, 1])
        seconds += time.perf_counter() - since
        curve.append((int(last), seconds))
        first = last
    print(method, budget, curve[-1], flush=True)
    return curve


def figure6(kept, quick):
    n = 20_000 if quick else 1_000_000
    plans = [
        ("BPegasos+remove", 0, n // 5, "Pegasos, no budget"),
        *(("BPegasos+merge", b, n, f"merge, B = {b}") for b in (100, 500)),
        *(("BPegasos+project", b, n if b == 100 else n // 4, f"project, B = {b}") for b in (100, 500)),
    ]
    figure, axis = plt.subplots(figsize=(6, 4.4))
    for method, budget, largest, label in plans:
        curve = np.array(
            kept.get(f"figure6 {method} {budget} {largest}", lambda: training_times(method, budget, largest))
        )
        late = curve[len(curve) // 2 :]
        slope = np.polyfit(np.log(late[:, 0]), np.log(late[:, 1]), 1)[0]
        axis.loglog(*curve.T, "o-", ms=3, label=f"{label} (slope {slope:.2f})")
        print(f"{label}: {curve[-1, 1]:.2f} s for {curve[-1, 0]:,.0f} examples, slope of the later half {slope:.2f}")
    axis.set(title="checkerboard, γ = 8, λ = 5e-5", xlabel="examples", ylabel="training time, s")
    axis.legend(fontsize=8)
    save(figure, "bsgd_figure6")


# ---------------------------------------------------------------- figure 7


def figure7(kept, quick):
    X, y, Z, t = examples("usps", 0)
    raw, *_ = examples("usps", 0, scaled=False)
    mean, deviation = raw.mean(0), np.where(raw.std(0) > 0, raw.std(0), 1)
    runs = 1 if quick else 3
    figure = plt.figure(figsize=(11, 0.7 + 0.8 * runs))
    parts = figure.subfigures(1, 2)
    for part, policy in zip(parts, ("project", "merge")):
        gamma, lam = chosen("usps", f"BPegasos+{policy}", 10, y.size)
        axes = part.subplots(runs, 10, squeeze=False)
        part.suptitle(f"BPegasos+{policy}, B = 10")
        for run in range(runs):
            trained = model(f"BPegasos+{policy}", 10, gamma, lam, random_state=run).fit(X, y)
            vectors = trained.support_vectors_
            nearest = [np.square(X - vector).sum(1).argmin() for vector in vectors.astype(np.float32)]
            by_example = y[nearest].astype(int)
            by_coefficient = trained.classes_[trained.dual_coef_.argmax(axis=0)].astype(int)
            digits = by_example if policy == "project" else by_coefficient
            order = np.argsort(digits, kind="stable")
            print(
                f"{policy}, run {run + 1}: {' '.join(map(str, digits[order]))}: "
                f"{np.unique(by_example).size} of ten by the nearest examples, {np.unique(by_coefficient).size} by the "
                f"largest coefficients, "
                f"accuracy {100 * trained.score(Z, t):.2f} %",
                flush=True,
            )
            for axis, vector, digit in zip(axes[run], vectors[order], digits[order]):
                axis.imshow((vector * deviation + mean).reshape(16, 16), cmap="gray_r", vmin=-1, vmax=1)
                axis.set_title(digit, fontsize=8, pad=2)
            for axis in axes[run]:
                axis.axis("off")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUTPUT / "bsgd_figure7.png", dpi=120)
    print(OUTPUT / "bsgd_figure7.png")


def main(arguments):
    figures = {"2": figure2, "3": figure3, "5": figure5, "6": figure6, "7": figure7}
    quick = "--quick" in arguments
    for number in [a for a in arguments if a in figures] or figures:
        if number == "5":
            figure5(Kept("figures"), quick, [a for a in arguments if a in POLICIES] or POLICIES)
        else:
            figures[number](Kept("figures"), quick)


if __name__ == "__main__":
    main(sys.argv[1:])
