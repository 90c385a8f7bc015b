"""The frame of what is measured beside others: run what is missing, draw it, and write a page for each kind.

``widemargin bench`` runs this from a checkout. Experiments, their files and figures are those of
:mod:`benchmarks.papers.frame`; a page here has a head, what it took, and a section for each experiment. Full runs write
``benchmarks/results``, ``docs/images`` and pages in ``docs/measurements``; quick ones, which are for trying, write the
same under ``bench_output/bench``, without data under ``bench_output/bench_generated``.
"""

import os
from importlib import import_module

from benchmarks.papers.frame import Experiment, complete, placed, say_if_there_is_no_data, spent

#: Page → where its experiments are.
PAGES = {"peers": ("linear_peers", "kernel_peers"), "auto": ("auto",), "scaling": ("scaling",)}


#: Whether nobody else uses the machine, so that the wall clock tells something.
IDLE = False


class Measurement(Experiment):
    """An experiment that no paper has; ``paper`` is the name of its page."""

    #: The heading of its section.
    title = ""
    #: What stands below the machine at the end of the page.
    footnote = ""

    def header(self, parts):
        """What it adds to the page's head."""
        return ""

    def notes(self, parts, quick=False):
        """Sentences on what is seen; reasons that were found for a full run are not those of a quick one."""
        return []


def place_of(page, quick):
    """Where the experiments of a page are."""
    return placed(page, "bench", quick)


def modules(page):
    """The modules of a page."""
    return [import_module(f"benchmarks.peers.{name}") for name in PAGES[page]]


def experiments(page):
    """The experiments of a page."""
    return [each for module in modules(page) for each in module.EXPERIMENTS]


def bench(names=("all",), quick=False, again=False, idle=False):
    """Run what is missing of the pages named, draw it, and write them; returns their paths."""
    global IDLE
    unknown = [name for name in names if name not in (*PAGES, "all")]
    if unknown:
        raise ValueError(f"pages are {', '.join(PAGES)} or all, got {unknown[0]!r}")
    say_if_there_is_no_data()
    IDLE, written = idle, []
    for name in PAGES if "all" in names else names:
        place = place_of(name, quick)
        for experiment in experiments(name):
            complete(experiment, place, quick, again)
        place.page.parent.mkdir(parents=True, exist_ok=True)
        place.page.write_text(text(name, place, quick))
        written.append(place.page)
    return written


def text(name, place, quick=False):
    """A page of all results that are there."""
    there = [(name, each, parts) for each in experiments(name) if (parts := each.load(place.results))]
    lines = [modules(name)[0].HEAD, *(f"{said}\n" for _, each, parts in there if (said := each.header(parts)))]
    if quick:
        lines.append("**A quick run: less data and fewer repetitions. It shows that everything runs, not more.**\n")
    for _, experiment, parts in there:
        lines.append(f"## {experiment.title}\n")
        if experiment.setting:
            lines.append(f"{experiment.setting}\n")
        image = place.images / f"{experiment.stem}.svg"
        if image.exists():
            link = os.path.relpath(image, place.page.parent).replace(os.sep, "/")
            lines.append(f"![{experiment.title}]({link})\n")
        lines.append(f"{experiment.table(parts)}\n")
        if notes := [*experiment.notes(parts, quick), *experiment.differences]:
            lines.append("\n".join(f"- {each}" for each in notes) + "\n")
    clock = "Processor time of whole runs, with compilation, data and all that is off the clocks above."
    others = "".join(f"\n{each.footnote}\n" for _, each, _ in there if each.footnote)
    return "\n".join([*lines, spent(place, there, clock) + others])
