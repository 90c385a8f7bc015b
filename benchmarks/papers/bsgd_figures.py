"""Figures 2 to 7 of the BSGD paper. γ, λ and the rest are those that Table 3 chose, or are chosen here in its way.

Criteria of the claims were worded before the runs.
"""

import time
from itertools import pairwise

import numpy as np

from benchmarks.datasets import has
from benchmarks.papers.bsgd import DATA, OFFLINE, Chosen, choose, examples, protocol
from benchmarks.papers.frame import Claim, Experiment, Kept, canvas, markdown, rounded

THREE = ("checkerboard", "covtype", "waveform")
POLICIES = ("merge", "project", "remove")
#: Rows that those without a budget get to.
WITHOUT_BUDGET = 20_000


def chosen(kept, name, method, budget, quick, passes=1):
    """Parameters of Table 3, if they are there, or else by cross-validation, kept here."""
    table = Kept(kept.path.with_name("bsgd_table3.json")).parts
    key = f"chosen, {name}, {method}, {budget}"
    if key in table and passes == 1:
        return Chosen(*table[key])

    def search():
        cut = protocol(method, quick)
        X, y, _, _ = examples(name, 0, cut.rows)
        start = chosen(kept, name, "BPegasos+merge", 500, quick) if method == "Pegasos" else None
        return choose(X, y, method, budget, y.size, cut, start, **({"max_iter": passes} if passes > 1 else {}))

    return Chosen(*kept.get(key + (f", {passes} passes" if passes > 1 else ""), search))


def curves_of(parts):
    """The parts that are drawn: no choices of parameters, and nothing that only a sentence is about."""
    return {name: part for name, part in parts.items() if not name.startswith(("chosen", "also"))}


def nearest(curve, seen):
    """(examples, accuracy) at the look nearest to so many examples."""
    x, y = np.array(curve).T
    j = np.abs(np.log(x) - np.log(seen)).argmin()
    return int(x[j]), float(y[j])


class Figure2(Experiment):
    paper, name, needs = "bsgd", "Figure 2", ("letter", "letter.t", "covtype")
    shows = (
        "the accuracy of BPegasos+merge over the budget comes up to that of Pegasos on Letter, not yet on Covertype."
    )
    setting = "Letter, and 50,000 rows of Covertype; one shuffle. Parameters are those chosen for B = 500 throughout."
    differences = (
        "Pegasos without a budget has 20,000 rows of Covertype here, and 136,000 in the paper.",
        "γ of B = 500 is half of what Pegasos chooses on both sets, at the same λ, so that the largest budgets have a "
        "wider kernel than they could use: on Letter 3,200 vectors with the γ of Pegasos have 94.47, 1,600 have 92.73.",
    )
    THEIRS = {"letter": 96.28, "covtype": 87.73}

    def run(self, kept, quick):
        for name, most in (("letter", None), ("covtype", 50_000)):
            rows = 2000 if quick else most
            budgets = [50, 100, 200, 400] if quick else [50, 100, 200, 400, 800, 1600, 3200]
            with_budget = chosen(kept, name, "BPegasos+merge", 500, quick)
            without = chosen(kept, name, "Pegasos", None, quick)
            for budget in budgets:
                kept.get(f"{name}, {budget}", lambda: self.accuracy(with_budget, name, "BPegasos+merge", budget, rows))
            few = min(rows or WITHOUT_BUDGET, WITHOUT_BUDGET)
            kept.get(f"{name}, Pegasos", lambda: self.accuracy(without, name, "Pegasos", None, few))

    def accuracy(self, found, name, method, budget, rows):
        """Accuracy, vectors and rows."""
        X, y, Z, t = examples(name, 0, rows)
        trained = found.model(method, budget, y.size, random_state=0).fit(X, y)
        return [100 * float(trained.score(Z, t)), len(trained.support_vectors_), int(y.size)]

    def read(self, parts):
        """{data set: ([(B, accuracy)], (accuracy, vectors, rows) of Pegasos)}."""
        cells = {tuple(name.split(", ")): part for name, part in curves_of(parts).items()}
        names = dict.fromkeys(name for name, _ in cells)
        return {
            name: ([(int(b), part[0]) for (n, b), part in cells.items() if n == name and b != "Pegasos"],
                   cells[name, "Pegasos"])
            for name in names
        }  # fmt: skip

    def figure(self, parts):
        figure, (axes,) = canvas(1, 2)
        for axis, (name, (curve, (accuracy, vectors, rows))) in zip(axes, self.read(parts).items()):
            axis.semilogx(*zip(*curve), "o-", markersize=3, label="BPegasos+merge")
            axis.axhline(accuracy, color="k", ls="--", lw=0.8, label=f"Pegasos, {rows:,} rows: {vectors:,} vectors")
            axis.axhline(self.THEIRS[name], color="0.6", ls=":", label="Pegasos in the paper")
            axis.set(title=name, xlabel="budget B", ylabel="test accuracy, %")
            axis.legend(frameon=False)
        return figure

    def table(self, parts):
        rows = []
        for name, (curve, (accuracy, vectors, n)) in self.read(parts).items():
            cells = [f"{value:.2f}" for _, value in curve]
            rows.append([name, *cells, f"{accuracy:.2f} ({vectors:,} of {n:,})", f"{self.THEIRS[name]}"])
        budgets = [f"B = {b:,}" for b, _ in curve]
        return markdown(["accuracy, %", *budgets, "Pegasos (vectors of rows)", "*Pegasos in the paper*"], rows)

    def claims(self, parts):
        """Within a point of Pegasos at the largest budget; rising to it."""
        found = self.read(parts)
        letter, (pegasos, *_) = found["letter"]
        cover, _ = found["covtype"]
        rising = [b - a for (_, a), (_, b) in pairwise(cover)]
        return [
            Claim(
                "on Letter the accuracy comes up to that of Pegasos as the budget grows",
                f"{letter[0][1]:.1f} % with B = {letter[0][0]}, {letter[-1][1]:.2f} with {letter[-1][0]:,}; Pegasos "
                f"{pegasos:.2f}",
                letter[-1][1] >= pegasos - 1.0,
                "it stays more than a point below, at the γ of B = 500; at that of Pegasos it would not",
            ),
            Claim(
                "on Covertype it goes on rising with the budget to the end",
                f"gains from budget to budget: {', '.join(f'{gain:+.1f}' for gain in rising)}",
                min(rising) > 0.0,
                "not with every budget",
            ),
        ]


class Figure3(Experiment):
    paper, name = "bsgd", "Figure 3"
    shows = "five passes of BPegasos+merge, B = 500, are more accurate than one on most sets."
    setting = "three shuffles, at most 10,000 rows, parameters chosen for one pass."

    def run(self, kept, quick):
        rows, shuffles = (1500, 1) if quick else (10_000, 3)
        for name in ("gauss", "waveform") if quick else DATA:
            if DATA[name].generator or has(name):
                for passes in (1, 5) if name == "dna" else (1,):
                    found = chosen(kept, name, "BPegasos+merge", 500, quick, passes)
                    kept.get(
                        name + (f", chosen for {passes}" if passes > 1 else ""),
                        lambda: self.accuracies(found, name, rows, shuffles),
                    )

    def accuracies(self, found, name, rows, shuffles):
        """Accuracies after one pass, and after five, for each shuffle."""
        both = []
        for repetition in range(shuffles):
            X, y, Z, t = examples(name, repetition, rows)
            for passes in (1, 5):
                trained = found.model("BPegasos+merge", 500, y.size, random_state=repetition, max_iter=passes)
                both.append(100 * trained.fit(X, y).score(Z, t))
        return [rounded(both[::2]), rounded(both[1::2])]

    def figure(self, parts):
        figure, ((axis,),) = canvas(1, 1, 6.5)
        cells = curves_of(parts)
        gains = [np.subtract(five, one) for one, five in cells.values()]
        axis.bar(range(len(cells)), [g.mean() for g in gains], yerr=[g.std() for g in gains])
        axis.set_xticks(range(len(cells)), [name.replace(", ", "\n") for name in cells], rotation=60)
        axis.axhline(0, color="k", lw=0.8)
        axis.set(ylabel="accuracy of 5 passes − 1 pass, points", title="BPegasos+merge, B = 500")
        return figure

    def table(self, parts):
        rows = [
            [name, f"{np.mean(one):.2f}", f"{np.mean(five):.2f}", f"{np.mean(five) - np.mean(one):+.2f}"]
            for name, (one, five) in curves_of(parts).items()
        ]
        return markdown(["accuracy, %", "one pass", "five", "gain"], rows)

    def claims(self, parts):
        """More than half of the sets gain."""
        gains = {n: np.mean(b) - np.mean(a) for n, (a, b) in curves_of(parts).items() if "chosen" not in n}
        lost = [f"{name} {gain:+.2f}" for name, gain in gains.items() if gain < 0]
        better = sum(gain > 0 for gain in gains.values())
        return [
            Claim(
                "five passes improve the accuracy on most sets",
                f"on {better} of {len(gains)}; lower on {', '.join(lost) or 'none'}",
                better > len(gains) / 2,
                "not on most",
            )
        ]


def evolution(found, name, method, budget, rows, quick):
    """Accuracy over the number of examples seen, and processor time of training."""
    X, y, Z, t = examples(name, 0, rows)
    Z, t = (Z[:2000], t[:2000]) if quick else (Z[:10_000], t[:10_000])
    curve, first, seconds, trained = [], 0, 0.0, found.model(method, budget, y.size)
    for last in np.unique(np.geomspace(100, y.size, 10 if method in OFFLINE else 22).astype(int)):
        since = time.process_time()
        if method in OFFLINE:
            trained.fit(X[:last], y[:last])
        else:
            trained.partial_fit(X[first:last], y[first:last], classes=np.unique(y))
        seconds += time.process_time() - since
        curve.append((int(last), round(100 * float(trained.score(Z, t)), 3)))
        first = last
    return {"curve": curve, "seconds": seconds}


class Evolution(Experiment):
    """Accuracy over the examples seen, on the three largest sets."""

    paper, needs = "bsgd", ("covtype",)
    plans: tuple = ()
    #: Numbers of examples in the table.
    SHOWN = (1000, 10_000)

    def run(self, kept, quick):
        rows = 3000 if quick else 100_000
        for name in THREE:
            for method, budget, most in self.plans:
                found = chosen(kept, name, method, budget, quick)
                limit = min(rows, most or rows)
                kept.get(f"{name}, {method}, {budget}", lambda: evolution(found, name, method, budget, limit, quick))

    def read(self, parts):
        """{data set: {algorithm: {"curve", "seconds"}}}."""
        found = {}
        for key, part in curves_of(parts).items():
            name, method, _ = key.split(", ")
            found.setdefault(name, {})[method] = part
        return found

    def figure(self, parts):
        figure, (axes,) = canvas(1, 3)
        for axis, (name, curves) in zip(axes, self.read(parts).items()):
            for method, part in curves.items():
                axis.semilogx(*zip(*part["curve"]), lw=1, label=f"{self.label(method)}: {part['seconds']:.1f} s")
            axis.set(title=name, xlabel="examples seen", ylabel="test accuracy, %")
            axis.legend(frameon=False, fontsize=6)
        return figure

    def label(self, method):
        return "exact (LIBSVM anew)" if method in OFFLINE else method

    def table(self, parts):
        rows, elsewhere = [], False
        for name, curves in self.read(parts).items():
            for method, part in curves.items():
                last, end = part["curve"][-1]
                looked = {seen: nearest(part["curve"], seen) for seen in self.SHOWN if seen <= last}
                cells = [
                    f"{looked[seen][1]:.2f}" + f" ({looked[seen][0]:,})" * (looked[seen][0] != seen)
                    if seen in looked
                    else "–"
                    for seen in self.SHOWN
                ]
                elsewhere |= any(seen != there for seen, (there, _) in looked.items())
                rows.append([name, self.label(method), *cells, f"{end:.2f}", f"{last:,}", f"{part['seconds']:.1f}"])
        head = ["", "accuracy, % after", *(f"{seen:,} examples" for seen in self.SHOWN), "all", "rows", "seconds"]
        below = "\n\nIn brackets: how many examples the nearest look has, where it is not that many."
        return markdown(head, rows) + below * elsewhere


def with_one_lambda(merged, whole, rows, shuffles):
    """Accuracies on waveform after 5,000 examples: merging with λ for all, and for as few as Pegasos has; Pegasos."""
    found = []
    for repetition in range(shuffles):
        X, y, Z, t = examples("waveform", repetition, WITHOUT_BUDGET)
        plans = ((merged, "BPegasos+merge", rows), (merged, "BPegasos+merge", WITHOUT_BUDGET))
        models = [chosen.model(method, 500, n) for chosen, method, n in plans]
        models.append(whole.model("Pegasos", None, WITHOUT_BUDGET))
        for model in models:  # in the order of the stream, as the curves
            model.partial_fit(X[:5000], y[:5000], classes=np.unique(y))
        found.append(rounded([100 * model.score(Z[:10_000], t[:10_000]) for model in models]))
    return found


class Figure4(Evolution):
    name = "Figure 4"
    shows = (
        "the accuracy of BPegasos+merge rises with the stream; exact online machines rise faster at first, and are "
        "overtaken; on Covertype it trails Pegasos without a budget."
    )
    setting = (
        "100,000 examples of each set, B = 500, one shuffle, 10,000 test rows. Pegasos and the exact machine end after "
        "20,000 and 10,000 examples, as the paper's were stopped after 10,000 seconds."
    )
    differences = (
        "IDSVM keeps the optimum of all examples seen: in its place LIBSVM is trained anew on the first t. Its seconds "
        "are of those fits.",
        "TVM is left out, see Table 3.",
        "On Checkerboard the lead over the exact machine at the ends, of ten times as many examples, is six of 10,000 "
        "test rows of one shuffle; in Table 3, with a million examples and 20,000, they have 99.55 and 99.47. On "
        "Covertype and Waveform the exact machine is ahead at the ends: it is not overtaken there.",
        "On Covertype BPegasos+merge is 2.65 points behind Pegasos here, and 0.3 in Table 3, where the claim that it "
        "stays far below differs. There it has 561,012 examples, 76.64 in the mean of five shuffles; here 100,000 "
        "of one. Pegasos has 20,000 in both, and three shuffles there, 75.97 to 77.41.",
    )
    plans = (
        ("BPegasos+merge", 500, None), ("BNorma+merge", 500, None), ("BPegasos+remove", 500, None),
        ("Pegasos", None, WITHOUT_BUDGET), ("LIBSVM", None, 10_000),
    )  # fmt: skip

    def run(self, kept, quick):
        super().run(kept, quick)
        merged, whole = (
            chosen(kept, "waveform", *plan, quick) for plan in (("BPegasos+merge", 500), ("Pegasos", None))
        )
        kept.get("also, waveform", lambda: with_one_lambda(merged, whole, 100_000, 1 if quick else 20))

    def claims(self, parts):
        """Ends, and where both have seen as much."""
        found = self.read(parts)
        merged = {n: c["BPegasos+merge"]["curve"] for n, c in found.items()}
        rise = {
            n: [nearest(curve, share * curve[-1][0])[1] for share in (0.001, 0.01, 0.1, 1.0)]
            for n, curve in merged.items()
        }
        ends = {n: {m: part["curve"][-1][1] for m, part in curves.items()} for n, curves in found.items()}
        board = found["checkerboard"]
        early = [nearest(board[m]["curve"], 1000) for m in ("LIBSVM", "BPegasos+merge")]
        fewer = max(look for look in board["LIBSVM"]["curve"] if look[0] <= early[1][0])
        exact = [f"{n} {each['LIBSVM']:.2f} and {each['BPegasos+merge']:.2f}" for n, each in ends.items()]
        both = [nearest(found["waveform"][m]["curve"], 5000) for m in ("BPegasos+merge", "Pegasos")]
        shuffles = len(parts["also, waveform"])
        means = np.mean(parts["also, waveform"], axis=0)
        return [
            Claim(
                "the accuracy of BPegasos+merge rises with the stream",
                "; ".join(f"{n} {', '.join(f'{v:.1f}' for v in values)}" for n, values in rise.items())
                + " after 0.1, 1, 10 and 100 %",
                all(values == sorted(values) for values in rise.values()),
                "not at every look",
            ),
            Claim(
                "on Checkerboard it overtakes Pegasos, which is stopped early",
                f"{ends['checkerboard']['BPegasos+merge']:.2f} and {ends['checkerboard']['Pegasos']:.2f} at their ends",
                ends["checkerboard"]["BPegasos+merge"] > ends["checkerboard"]["Pegasos"],
                "it does not",
            ),
            Claim(
                "the exact machine rises faster at first, and is overtaken as more examples come (Checkerboard)",
                f"after {early[0][0]:,} and {early[1][0]:,} examples, the looks nearest to 1,000, {early[0][1]:.1f} "
                f"and {early[1][1]:.1f} (the exact machine has {fewer[1]:.1f} after {fewer[0]:,}); at the ends "
                f"{exact[0]}; the others are not judged: {', '.join(exact[1:])}",
                early[0][1] > early[1][1] and ends["checkerboard"]["LIBSVM"] < ends["checkerboard"]["BPegasos+merge"],
                "it is not overtaken"
                if ends["checkerboard"]["LIBSVM"] >= ends["checkerboard"]["BPegasos+merge"]
                else "it does not rise faster",
            ),
            Claim(
                "on Waveform the budgeted machine rises faster than Pegasos without a budget",
                f"after {both[0][0]:,} and {both[1][0]:,} examples, the looks nearest to 5,000, {both[0][1]:.2f} and "
                f"{both[1][1]:.2f} %; means of {shuffles} shuffles after 5,000 with λ for {100_000:,} "
                f"examples and with λ for {WITHOUT_BUDGET:,}, which Pegasos has: {means[0]:.2f} and {means[1]:.2f}, "
                f"Pegasos {means[2]:.2f}",
                both[0][1] > both[1][1],
                "λ is that for the whole stream, and too small for its beginning; with the λ of Pegasos it is ahead",
            ),
            Claim(
                "on Covertype it trails Pegasos without a budget far behind",
                f"{ends['covtype']['BPegasos+merge']:.2f} after 100,000 examples, Pegasos "
                f"{ends['covtype']['Pegasos']:.2f} after 20,000, one shuffle; far behind is by more than a point. "
                "Table 3 has it with all rows",
                ends["covtype"]["BPegasos+merge"] < ends["covtype"]["Pegasos"] - 1.0,
                "Pegasos is cut at 20,000 rows here, and had 136,000 in the paper",
            ),
        ]


class Figure5(Evolution):
    name = "Figure 5"
    shows = (
        "removal stays far below projection and merging, and falls on Checkerboard after a first rise; merging beats "
        "projection on Waveform."
    )
    setting = "100,000 examples of each set, B = 100, one shuffle, 10,000 test rows, parameters chosen for each policy."
    plans = tuple((f"BPegasos+{policy}", 100, None) for policy in POLICIES)

    def claims(self, parts):
        """Ends of the curves."""
        found = self.read(parts)
        ends = {n: [c[f"BPegasos+{policy}"]["curve"][-1][1] for policy in POLICIES] for n, c in found.items()}
        seconds = np.array([[c[f"BPegasos+{p}"]["seconds"] for p in POLICIES] for c in found.values()]).sum(axis=0)
        removal = np.array(found["checkerboard"]["BPegasos+remove"]["curve"])[:, 1]
        merge, project, _ = ends["waveform"]
        return [
            Claim(
                "removal is worse than projection and merging on all three sets",
                "; ".join(f"{n} {', '.join(f'{v:.1f}' for v in values)}" for n, values in ends.items())
                + " % by merging, projection, removal",
                all(values[2] < min(values[:2]) for values in ends.values()),
                "not on all",
            ),
            Claim(
                "on Checkerboard removal falls after a first rise",
                f"at most {removal[:-6].max():.1f} %, mean of the last six looks {removal[-6:].mean():.1f}",
                removal[-6:].mean() < removal[:-6].max(),
                "cross-validation lets the newest of equal coefficients go, so that the first 100 vectors stay",
            ),
            Claim(
                "on Waveform merging is far better than projection",
                f"{merge:.2f} and {project:.2f} % at the end",
                merge > project + 0.5,
                "our projection is more accurate than the paper's (85.63 in its Table 3), and near what the set allows",
            ),
            Claim(
                "merging and projection cost about as much time as removal",
                f"seconds of the three sets together: {', '.join(f'{s:.1f}' for s in seconds)}; about as much is at "
                "most three times",
                max(seconds[:2]) <= 3.0 * seconds[2],
                "more than three times as much",
            ),
        ]


class Figure6(Experiment):
    paper, name = "bsgd", "Figure 6"
    shows = (
        "training time over the number of examples: O(N²) for Pegasos, linear on a budget; the cost of projection "
        "grows with B², that of merging with B."
    )
    setting = "checkerboard, the parameters of Table 4 (γ = 8, λ = 5e-5 for one score), processor time."
    differences = (
        "A million examples (ten in the paper), 100,000 for Pegasos and 250,000 for projection with B = 500.",
    )
    PLANS = (
        ("Pegasos", None, 100_000), ("BPegasos+merge", 100, 1_000_000), ("BPegasos+merge", 500, 1_000_000),
        ("BPegasos+project", 100, 1_000_000), ("BPegasos+project", 500, 250_000),
    )  # fmt: skip

    def run(self, kept, quick):
        for method, budget, largest in self.PLANS:
            n = largest // 50 if quick else largest
            kept.get(f"{method}, {budget}", lambda: self.times(method, budget, n))

    def times(self, method, budget, largest):
        """(examples, seconds of training)."""
        found = Chosen(8.0, 5e-5, "", largest)
        X, y, _, _ = examples("checkerboard", 0, generated=largest)
        found.model(method, budget and min(budget, 100), 2000).partial_fit(X[:2000], y[:2000], classes=[0, 1])
        curve, trained, seconds, first = [], found.model(method, budget, largest), 0.0, 0
        for last in np.geomspace(1000, largest, 13).astype(int):
            since = time.process_time()
            trained.partial_fit(X[first:last], y[first:last], classes=[0, 1])
            seconds += time.process_time() - since
            curve.append((int(last), seconds))
            first = last
        return curve

    def read(self, parts):
        """{algorithm: (curve, slope of its later half, microseconds for an example at the end)}."""
        found = {}
        for name, curve in parts.items():
            curve = np.array(curve)
            late = curve[len(curve) // 2 :]
            slope = np.polyfit(*np.log(late.T), 1)[0]
            (n, s), (m, r) = curve[-1], curve[-3]
            found[name.replace(", None", "").replace(", ", ", B = ")] = curve, slope, 1e6 * (s - r) / (n - m)
        return found

    def figure(self, parts):
        figure, ((axis,),) = canvas(1, 1, 4.5)
        for name, (curve, slope, _) in self.read(parts).items():
            axis.loglog(*curve.T, "o-", ms=2, lw=1, label=f"{name} (slope {slope:.2f})")
        axis.set(title="checkerboard", xlabel="examples", ylabel="training time, s")
        axis.legend(frameon=False)
        return figure

    def table(self, parts):
        rows = [
            [name, f"{curve[-1, 0]:,.0f}", f"{curve[-1, 1]:.2f}", f"{slope:.2f}", f"{last:.2f}"]
            for name, (curve, slope, last) in self.read(parts).items()
        ]
        return markdown(["", "examples", "seconds", "slope of the later half", "µs for an example at the end"], rows)

    def claims(self, parts):
        """Slopes, and costs of an example with 500 and 100 vectors."""
        found = self.read(parts)
        slopes = {name: slope for name, (_, slope, _) in found.items()}
        ratio = {p: found[f"BPegasos+{p}, B = 500"][2] / found[f"BPegasos+{p}, B = 100"][2] for p in POLICIES[:2]}
        return [
            Claim(
                "Pegasos takes O(N²), machines on a budget O(N)",
                "; ".join(f"{name} {slope:.2f}" for name, slope in slopes.items()) + " (slopes)",
                slopes["Pegasos"] >= 1.6 and all(s <= 1.25 for n, s in slopes.items() if n != "Pegasos"),
                "the slopes are others",
            ),
            Claim(
                "the cost of projection grows much faster with B than that of merging",
                f"an example with B = 500 costs {ratio['merge']:.1f} times that with B = 100 by merging, "
                f"{ratio['project']:.1f} times by projection",
                ratio["project"] > ratio["merge"],
                "it grows as fast",
            ),
        ]


class Figure7(Experiment):
    paper, name, needs = "bsgd", "Figure 7", ("usps", "usps.t")
    shows = (
        "the ten vectors left of USPS with B = 10, in three runs: projection keeps examples and misses digits, merging "
        "makes blurred prototypes of all ten."
    )
    setting = (
        "γ and λ by cross-validation for each policy, as the paper names none. Projected vectors are named by the "
        "example they are, merged ones by their largest coefficient."
    )

    def run(self, kept, quick):
        for policy in ("project", "merge"):
            found = chosen(kept, "usps", f"BPegasos+{policy}", 10, quick)
            for number in range(1 if quick else 3):
                kept.get(
                    f"{policy}, {number + 1}", lambda: self.vectors(found, policy, number, 1500 if quick else None)
                )
            more = 2 if quick else 20
            kept.get(f"also, {policy}", lambda: [self.digits(found, policy, k, quick) for k in range(more)])

    def digits(self, found, policy, number, quick):
        """How many different digits a run shows, as the caption names them."""
        return len(set(self.named(policy, self.vectors(found, policy, number, 1500 if quick else None))))

    def vectors(self, found, policy, number, rows):
        """Digits by nearest example and by coefficient, accuracy, and pictures in sixteen greys, a text each."""
        X, y, Z, t = examples("usps", 0, rows)
        raw, *_ = examples("usps", 0, rows, scaled=False)
        mean, deviation = raw.mean(0), np.where(raw.std(0) > 0, raw.std(0), 1)
        trained = found.model(f"BPegasos+{policy}", 10, y.size, random_state=number).fit(X, y)
        vectors = trained.support_vectors_
        nearest = [int(np.square(X - vector).sum(1).argmin()) for vector in vectors.astype(np.float32)]
        greys = np.clip((vectors * deviation + mean + 1) * 7.5, 0, 15).round().astype(int)
        return {
            "by example": y[nearest].astype(int).tolist(),
            "by coefficient": trained.classes_[trained.dual_coef_.argmax(axis=0)].astype(int).tolist(),
            "accuracy": 100 * float(trained.score(Z, t)),
            "pictures": ["".join(f"{grey:x}" for grey in row) for row in greys],
        }

    def named(self, key, part):
        """Digits of the vectors, as the caption names them."""
        return part["by example" if key.startswith("project") else "by coefficient"]

    def figure(self, parts):
        cells = curves_of(parts)
        figure, axes = canvas(len(cells), 10, 0.62, 0.75)
        for row, (key, part) in zip(axes, cells.items()):
            digits = self.named(key, part)
            for axis in row:
                axis.axis("off")
            for axis, j in zip(row, np.argsort(digits, kind="stable")):
                picture = np.array([int(grey, 16) for grey in part["pictures"][j]]).reshape(16, 16)
                axis.imshow(picture, cmap="gray_r", vmin=0, vmax=15)
                axis.set_title(digits[j], fontsize=7, pad=1)
            row[0].set_title(f"{key.replace(', ', ' ')}: {digits[np.argmin(digits)]}", fontsize=7, pad=1)
        return figure

    def table(self, parts):
        rows = [
            [
                key, " ".join(map(str, sorted(self.named(key, part)))), f"{len(set(part['by example']))}",
                f"{len(set(part['by coefficient']))}", f"{part['accuracy']:.1f}",
            ]
            for key, part in curves_of(parts).items()
        ]  # fmt: skip
        head = ["run", "digits", "different by nearest example", "by largest coefficient", "accuracy, %"]
        return markdown(head, rows)

    def claims(self, parts):
        """How many digits are there."""
        count = {p: [len(set(self.named(k, v))) for k, v in curves_of(parts).items() if k.startswith(p)]
                 for p in ("project", "merge")}  # fmt: skip
        told = "; ".join(f"{policy} {', '.join(map(str, counts))}" for policy, counts in count.items())
        same = {
            measure: " and ".join(
                ", ".join(f"{len(set(v[measure]))}" for k, v in curves_of(parts).items() if k.startswith(p))
                for p in count
            )
            for measure in ("by example", "by coefficient")
        }
        more = {policy: parts[f"also, {policy}"] for policy in count}
        whole = {policy: sum(digits == 10 for digits in counts) for policy, counts in more.items()}
        return [
            Claim(
                "ten projected vectors miss digits, ten merged ones show all ten in every run",
                "different digits, projected vectors named by the nearest example, merged ones by the largest "
                f"coefficient: {told}. By one measure, projection and merging: by example {same['by example']}; by "
                f"coefficient {same['by coefficient']}. Named as at first, of "
                f"{len(more['merge'])} runs all ten in {whole['merge']} by merging "
                f"({min(more['merge'])} or more in the others), in {whole['project']} by projection (at most "
                f"{max(more['project'])})",
                max(count["project"]) < 10 and min(count["merge"]) == 10,
                f"so it is in {whole['merge']} of {len(more['merge'])} runs; in the others some digit has two vectors "
                "and another none, which three runs may well not show",
            )
        ]


EXPERIMENTS = [Figure2(), Figure3(), Figure4(), Figure5(), Figure6(), Figure7()]
