"""Table 3 of the BSGD paper: accuracy of budgeted algorithms with B = 100 and 500, one pass, five shuffles.

``python -m benchmarks.papers.bsgd_table3 [--quick] [--kept] [--rules] [data set, algorithm or budget …]`` writes
bench_output/papers/bsgd_table3.md. Results are kept in bench_output/cache as they come: a run that was broken off goes
on where it stopped. ``--kept`` makes the table of what is kept, without computing anything; ``--rules``
adds BPegasos+merge under other rules for λ.

Protocol (see :mod:`benchmarks.papers.bsgd`): parameters by 3-fold cross-validation on at most 10,000 training rows, for
each data set, algorithm and budget. λ, chosen with n training rows in a fold, becomes λ√(n/N) for N rows.
Projectron++ projects each class onto its own vectors, as the paper describes it (Sec. 6.2), and has a threshold that
ends with about B vectors, at most. BPA is for two classes, as in the paper.
"""

import sys
import time

import numpy as np

from benchmarks.papers.bsgd import (
    DATA,
    FOLDS,
    METHODS,
    MOST_ROWS,
    OUTPUT,
    Kept,
    choose,
    examples,
    model,
    threshold,
    transferred,
)

BUDGETS = (100, 500)
SHUFFLES = 5
QUICK = ("banana", "satimage")

# Wang, Crammer, Vucetic (2012), Table 3 (a)-(c), the budgeted block without TVM: accuracy ± standard deviation in per
# cent; a line for B = 100, one for B = 500. "a9a" stands under their "Adult" (21K rows), and "Phoneme" is left out.
# The numbers of BPegasos+project on Checkerboard are those of BPegasos+merge on IJCNN, digit for digit, and disagree
# with Table 4 (99.25, 99.66): a slip in the paper.
PAPER = """
algorithm          banana     gauss      a9a        ijcnn1     checkerboard dna      satimage   usps       pendigits  letter     shuttle    covtype    waveform
BPA                90.35±0.37 80.75±0.24 83.38±0.56 93.01±0.53 99.01±0.04 -          -          -          -          -          -          -          -
BPA                91.30±1.18 81.67±0.42 83.58±0.30 96.20±0.35 99.70±0.01 -          -          -          -          -          -          -          -
Projectron++       88.36±1.52 76.06±2.25 77.86±3.45 92.36±1.15 96.92±0.45 82.94±3.73 84.47±1.75 81.40±1.26 93.33±0.96 47.23±0.99 99.55±0.16 62.54±3.14 80.75±0.81
Projectron++       86.76±1.27 75.17±4.02 79.80±2.11 94.73±1.95 98.24±0.34 90.11±2.11 88.66±0.66 92.02±0.59 95.78±0.75 75.90±0.76 99.85±0.08 67.32±2.93 83.56±0.54
MP+stop            88.07±1.38 74.10±3.00 80.00±1.61 91.13±0.18 86.39±1.12 73.56±7.59 82.34±2.43 79.11±2.15 88.27±1.56 41.89±1.16 99.39±0.35 56.96±1.59 81.04±2.61
MP+stop            89.77±0.25 79.68±1.19 81.68±0.90 94.60±0.96 95.43±0.43 91.23±0.78 88.68±0.60 90.78±0.58 97.78±0.20 67.32±1.53 99.90±0.01 61.93±1.56 83.76±0.71
MP+random          87.54±1.33 75.68±3.68 79.78±0.88 90.22±1.69 84.24±1.39 73.87±4.93 82.51±1.34 78.06±2.01 87.77±2.96 40.93±2.31 98.67±0.07 55.56±1.37 79.94±1.12
MP+random          88.36±0.99 77.26±1.16 80.40±1.03 91.86±1.39 93.12±0.56 87.84±4.84 87.25±1.07 90.10±0.97 97.20±0.68 68.23±1.14 99.90±0.01 60.47±1.70 81.61±1.51
BPegasos+remove    85.63±1.25 79.13±1.40 78.84±0.76 90.73±0.31 83.02±2.12 78.63±2.03 81.09±3.21 80.16±1.15 91.84±1.27 41.50±1.49 99.26±0.54 55.64±1.82 78.43±1.79
BPegasos+remove    89.92±0.66 80.70±0.61 81.67±0.44 93.30±0.57 91.82±0.22 91.48±1.65 86.77±1.01 89.44±1.05 97.60±0.21 71.97±1.04 99.89±0.02 62.97±0.55 84.38±0.53
BPegasos+project   90.21±1.61 81.25±0.34 83.88±0.33 96.48±0.44 97.27±0.72 86.53±2.03 87.69±0.62 89.67±0.42 96.19±0.85 74.49±1.89 99.81±0.05 70.84±0.59 85.63±0.07
BPegasos+project   90.40±0.47 81.33±0.40 83.84±0.07 97.52±0.62 98.08±0.27 92.26±1.20 88.86±0.20 92.61±0.32 97.58±0.49 87.85±0.49 99.89±0.02 74.94±0.22 86.18±0.06
BPegasos+merge     90.17±0.61 81.22±0.40 84.55±0.17 97.27±0.72 99.55±0.12 93.13±1.49 87.53±0.72 91.76±0.24 97.06±0.19 73.63±1.72 99.63±0.02 74.10±0.30 86.71±0.38
BPegasos+merge     89.46±0.81 81.34±0.38 83.93±0.41 98.08±0.27 99.83±0.08 92.42±1.24 89.77±0.14 92.91±0.19 97.63±0.14 89.68±0.61 99.89±0.02 76.89±0.51 86.63±0.28
BNorma+merge       91.53±1.14 81.27±0.37 84.11±0.25 92.69±0.19 99.16±0.23 75.72±0.25 85.61±0.54 87.44±0.45 90.82±0.42 61.79±1.58 99.48±0.01 71.54±0.53 86.60±0.12
BNorma+merge       90.65±1.28 81.37±0.25 83.80±0.21 91.35±0.13 99.72±0.05 76.25±3.27 86.33±0.40 89.51±0.24 94.60±0.22 75.84±0.35 99.80±0.01 72.81±0.46 82.03±0.53
BMP+merge          89.37±1.31 79.57±0.90 83.34±0.36 96.67±0.35 98.24±0.13 93.76±0.31 88.33±0.90 92.31±0.57 97.35±0.16 74.99±1.08 98.99±0.55 67.28±3.86 86.02±0.22
BMP+merge          89.46±0.50 79.38±0.82 82.97±0.26 98.10±0.41 98.79±0.08 93.84±0.64 90.41±0.22 93.10±0.36 97.86±0.33 88.22±0.36 99.91±0.01 72.31±0.75 86.03±0.17
"""  # noqa: E501


def printed():
    """{(data set, algorithm, B): (accuracy, standard deviation)} of the paper."""
    heads, *lines = (line.split() for line in PAPER.strip().splitlines())
    found = {}
    for number, (algorithm, *cells) in enumerate(lines):
        for name, cell in zip(heads[1:], cells):
            if cell != "-":
                accuracy, deviation = map(float, cell.split("±"))
                found[name, algorithm, BUDGETS[number % 2]] = accuracy, deviation
    return found


def parameters(kept, name, method, budget, X, y, n_train):
    """γ and the second parameter for n_train rows, and what cross-validation on the rows (X, y) said of them."""
    gamma, second, accuracy = kept.get(f"cv {method} {budget}", lambda: choose(X, y, method, budget))
    n = y.size - y.size // FOLDS
    return gamma, transferred(method, second, n, n_train), accuracy


def measure(kept, name, method, budget, shuffles):
    """Accuracies of one cell of the table, and what they were reached with."""
    accuracies, degradations, seconds, started = [], [], [], time.perf_counter()
    for repetition in range(shuffles):
        X, y, Z, t = examples(name, repetition)
        if repetition == 0:
            rows = slice(MOST_ROWS)
            gamma, second, validated = parameters(kept, name, method, budget, X[rows], y[rows], y.size)
            if method == "Projectron++":
                second = threshold(X, y, gamma, budget)
                if second is None:
                    return {}
        since = time.perf_counter()
        trained = model(method, budget, gamma, second, random_state=repetition).fit(X, y)
        seconds.append(time.perf_counter() - since)
        accuracies.append(100 * trained.score(Z, t))
        degradations.append(trained.history_.rows[-1]["degradation"])
    return {
        "accuracies": accuracies, "gamma": gamma, "second": second, "validated": validated, "rows": int(y.size),
        "degradation": float(np.mean(degradations)), "vectors": len(trained.support_vectors_),
        "seconds": float(np.median(seconds)), "total seconds": time.perf_counter() - started,
    }  # fmt: skip


def rules(names, paper, only_kept):
    """How much the verdicts hang on the rule that takes λ from the folds to all rows: λ kept, λ ∝ 1/√n, C kept."""
    powers = (0.0, 0.5, 1.0)
    lines = ["| data set | B | λ kept | λ√(n/N) | C kept | asked |", "|---|---|---|---|---|---|"]
    met = np.zeros(len(powers), int)
    for name in names:
        for budget in BUDGETS:
            kept = Kept(f"table3-{name}")
            found = []
            for power in powers:
                compute = None if only_kept else lambda: with_rule(kept, name, budget, power)
                table = kept.get(f"BPegasos+merge {budget} {SHUFFLES}", None) if power == 0.5 else None
                found.append(table["accuracies"] if table else kept.get(f"rule {power} {budget}", compute))
            if all(found):
                accuracy, deviation = paper[name, "BPegasos+merge", budget]
                asked = accuracy - deviation - 1
                good = np.array([np.mean(a) >= asked for a in found])
                met += good
                cells = [cell(a) + ("" if g else " MISSED") for a, g in zip(found, good)]
                lines.append(f"| {name} | {budget} | {' | '.join(cells)} | ≥ {asked:.2f} |")
                print(lines[-1], flush=True)
    return [*lines, f"| met | | {' | '.join(map(str, met))} | of {len(lines) - 2} |"]


def with_rule(kept, name, budget, power):
    """Accuracies of BPegasos+merge in five shuffles under one rule."""
    accuracies = []
    for repetition in range(SHUFFLES):
        X, y, Z, t = examples(name, repetition)
        rows = min(MOST_ROWS, y.size)
        gamma, second, _ = kept.get(f"cv BPegasos+merge {budget}", None)
        lam = transferred("BPegasos+merge", second, rows - rows // FOLDS, y.size, power)
        trained = model("BPegasos+merge", budget, gamma, lam, random_state=repetition).fit(X, y)
        accuracies.append(100 * trained.score(Z, t))
    return accuracies


def cell(accuracies):
    return f"{np.mean(accuracies):.2f}±{np.std(accuracies, ddof=min(1, len(accuracies) - 1)):.2f}"


def table(names, results, paper):
    """Ours over the paper's, a line for each algorithm and budget."""
    lines = ["| algorithm | B | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for method in METHODS:
        for budget in BUDGETS:
            mine = [results.get((name, method, budget)) for name in names]
            if any(mine):
                cells = [
                    (cell(r["accuracies"]) if r else "–")
                    + "<br>"
                    + ("{:.2f}±{:.2f}".format(*paper[name, method, budget]) if (name, method, budget) in paper else "–")
                    for name, r in zip(names, mine)
                ]
                lines.append(f"| {method} | {budget} | " + " | ".join(cells) + " |")
    return lines


def verdicts(names, results, paper):
    """BPegasos+merge is to come within one standard deviation and one point of the paper, or better."""
    lines = ["| data set | B | rows | γ | λ | ours | paper | asked | |", "|---|---|---|---|---|---|---|---|---|"]
    for name in names:
        for budget in BUDGETS:
            r = results.get((name, "BPegasos+merge", budget))
            if r:
                accuracy, deviation = paper[name, "BPegasos+merge", budget]
                asked = accuracy - deviation - 1
                lines.append(
                    f"| {name} | {budget} | {r['rows']:,} | {r['gamma']:.3g} | {r['second']:.2g} "
                    f"| {cell(r['accuracies'])} | {accuracy:.2f}±{deviation:.2f} | ≥ {asked:.2f} "
                    f"| {'met' if np.mean(r['accuracies']) >= asked else 'MISSED'} |"
                )
    return lines


def main(arguments):
    quick, only_kept = "--quick" in arguments, "--kept" in arguments
    names = [name for name in arguments if name in DATA] or list(QUICK if quick else DATA)
    methods = [name for name in arguments if name in METHODS] or list(METHODS)
    budgets = [budget for budget in BUDGETS if str(budget) in arguments] or BUDGETS
    shuffles = 1 if quick else SHUFFLES
    paper, results = printed(), {}
    for method in methods:
        for name in names:
            for budget in budgets if (name, method, BUDGETS[0]) in paper else ():
                kept = Kept(f"table3-{name}")
                known = f"{method} {budget} {shuffles}"
                r = kept.get(known, None if only_kept else lambda: measure(kept, name, method, budget, shuffles))
                if not r:
                    continue
                results[name, method, budget] = r
                theirs = "{:.2f}±{:.2f}".format(*paper.get((name, method, budget), (np.nan, np.nan)))
                print(
                    f"{method:18} {name:12} {budget:4} {cell(r['accuracies']):12} paper {theirs:12} γd "
                    f"{r['gamma'] * DATA[name].d:<7.3g} second {r['second']} cv {100 * r['validated']:.2f} "
                    f"Ē {r['degradation']:.3f} {r['vectors']} vectors {r['rows']} rows {r['seconds']:.2f} s of "
                    f"{r['total seconds']:.1f}",
                    flush=True,
                )
    lines = [
        "# BSGD, Table 3: test accuracy in per cent, one pass", "",
        f"Ours (mean ± standard deviation of {shuffles} shuffles) over the paper's.", "",
        *table(names, results, paper), "", "## BPegasos+merge", "", *verdicts(names, results, paper),
    ]  # fmt: skip
    if "--rules" in arguments:
        lines += ["", "## Rules for λ", "", *rules(names, paper, only_kept)]
    OUTPUT.mkdir(parents=True, exist_ok=True)
    target = OUTPUT / ("bsgd_table3_quick.md" if quick else "bsgd_table3.md")
    target.write_text("\n".join(lines) + "\n")
    print(target)


if __name__ == "__main__":
    main(sys.argv[1:])
