"""The frame of the papers' experiments: run what is missing, draw it, and write the page that sets it beside the paper.

``widemargin reproduce pegasos`` runs this from a checkout. An experiment says which table or figure of a paper it is,
what the paper shows there, and has four functions: ``run`` computes its result, part by part; ``figure`` and ``table``
show it; ``claims`` sets what the paper claims beside what was measured. Results are small files of JSON, written after
each part, so that a run that was killed goes on; figures and page are made of them alone.

Full runs write ``benchmarks/results``, ``docs/images`` and ``docs/measurements/reproduction.md``; quick ones,
which are for trying, write the same under ``bench_output/reproduce``, or ``bench_output/reproduce_generated`` where
there is no data.
"""

import json
import os
import platform
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from benchmarks import datasets
from benchmarks.datasets import ROOT, has

#: Where the experiments of each paper are, and what the paper is.
PAPERS = {
    "pegasos": (
        ("pegasos_linear", "pegasos_kernel"),
        "Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos: Primal Estimated sub-GrAdient SOlver for SVM (2011)",
    ),
    "simba": (("simba_fig1",), "Hazan, Koren, Srebro: Beating SGD: Learning SVMs in Sublinear Time (2011)"),
    "sbp": (
        ("sbp_pictures", "sbp_fig2", "sbp_fig3", "sbp_seconds"),
        "Cotter, Shalev-Shwartz, Srebro: The Kernelized Stochastic Batch Perceptron (2012)",
    ),
    "bsgd": (
        ("bsgd_table3", "bsgd_table4", "bsgd_figures"),
        "Wang, Crammer, Vucetic: Breaking the Curse of Kernelization (2012)",
    ),
    "incremental": (("incremental",), "Usunier, Bordes, Bottou: Guarantees for Approximate Incremental SVMs (2010)"),
}


class Claim(NamedTuple):
    """What a paper says, what was measured, whether it holds here, and if not, why."""

    says: str
    measured: str
    holds: bool
    because: str = ""


class Experiment:
    """A table or figure of a paper; subclasses say what is in it."""

    paper = ""
    name = ""
    #: What the paper shows, in a sentence.
    shows = ""
    #: How it was done here: data, parameters, repetitions; what was cut.
    setting = ""
    #: What differs from the paper, a sentence each.
    differences: tuple[str, ...] = ()
    #: Files of data without which it cannot be run.
    needs: tuple[str, ...] = ()
    #: Whether there is a short trial of it.
    has_trial = True

    @property
    def stem(self):
        """The name of its files."""
        return (
            f"{self.paper}_{self.name.lower().replace('figure ', 'fig').replace('table ', 'table').replace(' ', '_')}"
        )

    def run(self, kept, quick):
        """Compute all parts that ``kept`` has not."""
        raise NotImplementedError

    def load(self, results):
        """The parts of a finished result in a folder, or None."""
        kept = Kept(results / f"{self.stem}.json")
        return kept.parts if kept.done else None

    def lacks(self, quick):
        """Why it cannot be run here, or nothing."""
        if quick and not self.has_trial:
            return "it has no quick run"
        missing = [name for name in self.needs if not has(name)]
        return f"{', '.join(missing)} {'are' if missing[1:] else 'is'} not among the data" if missing else ""

    def spent(self, results):
        """Processor seconds of a finished result, None where they were not kept, and the machines."""
        kept = Kept(results / f"{self.stem}.json")
        return kept.seconds, {kept.machine}

    def begin(self, results, quick, again):
        """Run it, unless it is done; ``again``, the old result stands until the new one is whole."""
        kept = Kept(results / f"{self.stem}.json", again)
        if not kept.done:
            self.run(kept, quick)
        kept.finish()

    def figure(self, parts):
        """A figure of matplotlib, or None."""
        return None

    def table(self, parts):
        """Markdown: the numbers, beside the paper's."""
        return ""

    def claims(self, parts):
        """The claims of the paper that this experiment is about."""
        return []


class Kept:
    """The parts of a result by name, in a file that is written whenever one is added.

    A result that is computed ``again`` has a file of its own beside the old one, whose place it takes when it is whole.
    """

    def __init__(self, path, again=False):
        self.path, self.parts, self.done, self.seconds, self.machine = path, {}, False, 0.0, ""
        self.file = path.with_suffix(".again") if again else path
        if self.file.exists():
            found = json.loads(self.file.read_text())
            self.parts, self.done, self.seconds = found["parts"], found["done"], found["seconds"]
            self.machine = found["machine"]

    def get(self, name, compute):
        """A part; computed, and written, if it is not there. Its processor time is added up."""
        if name not in self.parts:
            since = time.process_time()
            # as it will be read: keys are text, tuples are lists
            self.parts[name] = json.loads(json.dumps(compute(), allow_nan=False))
            self.machine = machine()
            if self.seconds is not None:  # some were not kept
                self.seconds += time.process_time() - since
            self._write()
            print(f"    {name}: {time.process_time() - since:.1f} s", flush=True)
        return self.parts[name]

    def finish(self):
        """Say that all parts are there, and take the old result's place, unless that was done before."""
        if not self.done:
            self.done = True
            self._write()
        os.replace(self.file, self.path)

    def _write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        head = {"done": self.done, "seconds": self.seconds and round(self.seconds, 1)}
        head["machine"] = self.machine or machine()
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(part)}" for name, part in self.parts.items())
        whole = f'{json.dumps(head)[:-1]}, "parts": {{\n{lines}\n}}}}\n'
        written = self.path.with_suffix(".part")
        written.write_text(whole)
        os.replace(written, self.file)


#: Processors of ARM by their part numbers, where the system does not name them.
ARM = {"0xd0c": "Neoverse N1", "0xd40": "Neoverse V1", "0xd49": "Neoverse N2", "0xd4f": "Neoverse V2"}


def machine():
    """Processor and versions, for the page's head."""
    import numba
    import numpy
    import sklearn

    name = platform.machine()
    cpus, memory = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if cpus.exists():
        said = dict(line.split(":", 1) for line in cpus.read_text().replace("\t", "").splitlines() if ":" in line)
        model, part = said.get("model name", "").strip(), said.get("CPU part", "").strip()
        name = model or f"{ARM.get(part, f'CPU part {part}' if part else 'processor')}, {name}"
    size = f", {int(memory.read_text().split()[1]) / 2**20:.0f} GiB" if memory.exists() else ""
    name = f"{name}, {os.cpu_count()} cores{size}"
    parts = (("NumPy", numpy), ("Numba", numba), ("scikit-learn", sklearn))
    versions = ", ".join(f"{part} {module.__version__}" for part, module in parts)
    return f"{name}, one thread; Python {platform.python_version()}, {versions}"


# ---------------------------------------------------------------- numbers and pictures


def rounded(values, digits=5):
    """Numbers with so many significant digits, for small files."""
    return [float(f"{value:.{digits}g}") for value in values]


def markdown(head, rows):
    """A table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def canvas(rows, columns, width=3.6, height=2.9):
    """(figure, array of axes) in the frame's style."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "widemargin", "svg.fonttype": "none", "font.size": 8, "path.simplify": True})
    return plt.subplots(rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False)


def save(figure, path):
    """Write a figure as SVG: the same bits for the same figure, no spaces at the ends of lines."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


# ---------------------------------------------------------------- the command


@dataclass(frozen=True)
class Place:
    """Where results, figures and the page are written."""

    results: Path
    images: Path
    page: Path


def placed(page, trials, quick):
    """The repository's own files with this page, or those of a trial, in the folder of this name."""
    if quick:  # trials on generated data alone are apart, lest they stand for those on all
        folder = ROOT / "bench_output" / (trials if datasets.there_is_data() else f"{trials}_generated")
        return Place(folder / "results", folder / "images", folder / f"{page}.md")
    docs = ROOT / "docs"
    return Place(ROOT / "benchmarks" / "results", docs / "images", docs / "measurements" / f"{page}.md")


def place_of(quick):
    """Where the papers' experiments are."""
    return placed("reproduction", "reproduce", quick)


def say_if_there_is_no_data():
    """Print what is run without data."""
    if not datasets.there_is_data():
        print(f"{datasets.DATA} has no data: generated data only (set WIDEMARGIN_DATA to the folder of benchmark data)")


def experiments(paper):
    """The experiments of a paper."""
    modules, _ = PAPERS[paper]
    return [each for name in modules for each in import_module(f"benchmarks.papers.{name}").EXPERIMENTS]


def complete(experiment, place, quick, again):
    """Run an experiment if it is not done, with one thread, and draw it."""
    from threadpoolctl import threadpool_limits

    lacks = experiment.lacks(quick)
    print(f"{experiment.paper}, {experiment.name}{': left out, ' * bool(lacks)}{lacks}", flush=True)
    if not lacks:
        with threadpool_limits(1):  # variables of the environment come too late for what is loaded
            experiment.begin(place.results, quick, again)
    parts = experiment.load(place.results)
    figure = experiment.figure(parts) if parts else None
    if figure is not None:
        save(figure, place.images / f"{experiment.stem}.svg")


def reproduce(names=("all",), quick=False, again=False):
    """Run what is missing of the papers named, draw it, and write the page of all that is there; returns its path."""
    unknown = [name for name in names if name not in (*PAPERS, "all")]
    if unknown:
        raise ValueError(f"papers are {', '.join(PAPERS)} or all, got {unknown[0]!r}")
    place = place_of(quick)
    if again and not quick and not datasets.there_is_data():
        raise ValueError(
            f"{datasets.DATA} has no data, and --again would put runs on generated data in the place of the "
            "repository's results: set WIDEMARGIN_DATA to the folder of benchmark data"
        )
    say_if_there_is_no_data()
    for paper in PAPERS if "all" in names else names:
        for experiment in experiments(paper):
            complete(experiment, place, quick, again)
    place.page.parent.mkdir(parents=True, exist_ok=True)
    place.page.write_text(page(place, quick))
    return place.page


# ---------------------------------------------------------------- the page

HEAD = """# The papers' experiments, run again

`widemargin reproduce all` writes this page, its figures and the results behind them (`benchmarks/results`); `--quick`
tries it out in `bench_output/reproduce`. Do not edit it: the texts are in `benchmarks/papers`. Times are processor time
of one thread, training alone; measuring is off the clock.
"""


def found_in(place):
    """(paper, experiment, parts) of all results that are there."""
    for paper in PAPERS:
        for experiment in experiments(paper):
            parts = experiment.load(place.results)
            if parts:
                yield paper, experiment, parts


def page(place, quick=False):
    """The page of all results that are there."""
    there = list(found_in(place))
    text = [HEAD]
    if quick:
        text.append("**A quick run: fewer steps, rows and repetitions. It shows that everything runs, not more.**\n")
    text += [summary(there, quick), spent(place, there, "Processor time, measuring included.")]
    before = None
    for paper, experiment, parts in there:
        if paper != before:
            text.append(f"## {PAPERS[paper][1]}\n")
            before = paper
        text.append(section(place, experiment, parts))
    return "\n".join(text)


def anchor(experiment):
    """The link to the section of an experiment."""
    return f"#{experiment.paper}-{experiment.name.lower().replace(' ', '-')}"


def summary(there, quick=False):
    """The claims, a table for each paper: three columns, as more are not to be read on a screen.

    Reasons are those of full runs: a quick one has none.
    """
    rows = {}
    for paper, experiment, parts in there:
        for claim in experiment.claims(parts):
            says = f"[{experiment.name}]({anchor(experiment)}): {claim.says}"
            verdict = ["holds", says, claim.measured]
            if not claim.holds:
                why = "" if quick else f"<br>*Why:* {claim.because}"
                verdict = ["**differs**", says, claim.measured + why]
            rows.setdefault(paper, []).append(verdict)
    holding = {paper: sum(row[0] == "holds" for row in found) for paper, found in rows.items()}
    text = f"## Claims\n\n{sum(map(len, rows.values()))} claims, of which {sum(holding.values())} hold.\n"
    for paper, found in rows.items():
        table = markdown(["", "the paper", "measured"], found)
        text += f"\n### {paper}: claims\n\n{holding[paper]} of {len(found)} hold.\n\n{table}\n"
    return text


def spent(place, there, clock):
    """What the runs took by some clock."""
    took = {f"{paper}, {experiment.name}": experiment.spent(place.results) for paper, experiment, _ in there}
    rows = [[name, "not kept" if seconds is None else f"{seconds:.0f}"] for name, (seconds, _) in took.items()]
    every = [seconds for seconds, _ in took.values()]
    total = "in all that is known" if None in every else "in all"
    rows.append([total, f"{sum(seconds or 0.0 for seconds in every):.0f}"])
    machines = set().union(*(own for _, own in took.values()))
    return f"## What it took\n\n{clock}\n\n{markdown(['', 'seconds'], rows)}\n\n{told(machines)}\n"


def told(machines):
    """The machines, a paragraph each; older results have the same one in fewer words."""
    read = {each: each.split("; ") for each in machines}
    lines, shorter = [], []
    for each, (machine, versions) in sorted(read.items()):
        words = set(machine.split(", "))
        fuller = any(words < set(other.split(", ")) and same == versions for other, same in read.values())
        if fuller:
            shorter.append(f"Of some runs only “{machine}” and the same versions were written down.")
        else:
            lines.append(each)
    return "\n\n".join(lines + shorter)


def section(place, experiment, parts):
    """An experiment: what the paper shows, ours, and how it differs."""
    text = [f"### {experiment.paper}: {experiment.name}\n", f"*The paper:* {experiment.shows}\n"]
    if experiment.setting:
        text.append(f"*Here:* {experiment.setting}\n")
    image = place.images / f"{experiment.stem}.svg"
    if image.exists():
        link = os.path.relpath(image, place.page.parent).replace(os.sep, "/")
        text.append(f"![{experiment.paper}, {experiment.name}]({link})\n")
    table = experiment.table(parts)
    if table:
        text.append(f"{table}\n")
    if experiment.differences:
        text.append("\n".join(f"- {each}" for each in experiment.differences) + "\n")
    return "\n".join(text)
