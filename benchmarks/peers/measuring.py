"""What is measured of each contender: processor time of fits and predictions, peak memory, size, error, objective.

A contender is a name, a list of settings from quick to thorough, and a way to fit with one. Settings of all contenders
take turns, so that a busy moment hits all alike.
"""

import ctypes
import importlib.metadata
import platform
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.papers.frame import canvas, machine, markdown

#: Packages of the rivals.
PACKAGES = (
    "scikit-learn", "scikit-learn-intelex", "liblinear-official", "libsvm-official", "snapml",
    "sklearn-contrib-lightning", "river", "vowpalwabbit",
)  # fmt: skip


#: Kinds of machines → packages that have no distribution for them: pip finds none.
NOWHERE = {"aarch64": ("scikit-learn-intelex", "snapml")}


def versions():
    """The machine, and package → version, or why it is not here."""
    found, kind = {"machine": machine()}, platform.machine()
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = f"no distribution for {kind}" if name in NOWHERE.get(kind, ()) else "not installed"
    return found


def seconds_of(function):
    """(result, processor seconds) of a call."""
    since = time.process_time()
    result = function()
    return result, time.process_time() - since


def peak_of(function):
    """(result, megabytes by which the process grew at most) of a call; the latter None where the system cannot say."""
    status, marks = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not marks.exists():
        return function(), None
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before must not be used again unseen
    before = int(re.search(r"VmRSS:\s+(\d+)", status.read_text())[1])
    marks.write_text("5")
    result = function()
    return result, max(0, int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) - before) / 1024.0


class Stopped(Exception):
    """A fit took more processor time than it may."""


def within(limit, function):
    """The result of a call; raises Stopped if it takes more processor seconds than ``limit``."""

    def stop(*_):
        raise Stopped

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return function()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@dataclass
class Contender:
    """Somebody who can be fitted with several settings.

    ``fit(setting)`` returns what ``scores(fitted)``, of the test rows, ``size(fitted)`` and ``objective(fitted)`` take;
    scores above zero are the class +1, the size is in bytes, and an objective may be None.
    """

    name: str
    settings: list
    fit: object
    scores: object
    size: object
    objective: object = lambda fitted: None
    #: Whether its most thorough setting has to come near the optimum: it claims to solve the same problem.
    exact: bool = False

    @property
    def compiles(self):
        """Whether its first fit is no measure."""
        return self.name.startswith("widemargin")


def measured(contenders, t, repeats, most):
    """For each contender a list of what its settings came to.

    A setting that took a second or more has three turns, the first look among them. What takes more processor seconds
    than ``most`` is stopped, and later settings are left out.
    """
    found = {each.name: [] for each in contenders}
    for each in contenders:
        for setting in each.settings:
            try:
                row = first_look(each, setting, t, most)
            except Stopped:
                row = {"setting": str(setting), "stopped": most}
            found[each.name].append(row)
            if "stopped" in row:
                break
    for turn in range(repeats):
        for each in contenders:
            for setting, row in zip(each.settings, found[each.name], strict=False):
                if "stopped" in row or (row["first"] > 1.0 and turn >= 2):
                    continue
                # several at a time where a fit is shorter than the clock is fine
                times = max(1, int(0.05 / max(row["first"], 0.003)))
                took = seconds_of(lambda: [each.fit(setting) for _ in range(times)])[1]
                row.setdefault("all", [row["first"]] if row["first"] > 1.0 else []).append(took / times)
    for rows in found.values():
        for row in rows:
            if "all" in row:
                row["turns"], row["seconds"] = len(row["all"]), float(f"{np.median(row.pop('all')):.4g}")
    return found


def first_look(contender, setting, t, most):
    """What is the same in all turns."""
    if contender.compiles:
        contender.scores(within(most, lambda: contender.fit(setting)))
    (fitted, took), grown = within(most, lambda: peak_of(lambda: seconds_of(lambda: contender.fit(setting))))
    scores, predicting = seconds_of(lambda: contender.scores(fitted))
    times = max(1, int(0.05 / max(predicting, 0.001)))
    if predicting < 1.0:
        predicting = seconds_of(lambda: [contender.scores(fitted) for _ in range(times)])[1] / times
    error = float(np.mean(np.where(np.ravel(scores) > 0.0, 1.0, -1.0) != t))
    objective = contender.objective(fitted)
    return {
        "setting": str(setting), "first": took, "error": error, "bytes": int(contender.size(fitted)),
        "predicting": float(f"{predicting:.3g}"), "megabytes": grown,
        "objective": None if objective is None else float(objective),
    }  # fmt: skip


# ---------------------------------------------------------------- tables and figures


def quickest(rows, good):
    """The row of the least time among those that are good, or None."""
    rows = [row for row in rows if "seconds" in row and good(row)]
    return min(rows, key=lambda row: row["seconds"]) if rows else None


def least(found, key):
    """The least value of a column over all contenders."""
    values = [row[key] for rows in found.values() for row in rows if row.get(key) is not None]
    return min(values) if values else None


def last_goal(found):
    """(heading, test of a row): at most 1.1 times the least test error of all contenders and settings."""
    error = 1.1 * least(found, "error")
    return f"to a test error of {error:.2%}", lambda row: row["error"] <= error


def time_said(row, best):
    """A time, bold where nobody is quicker."""
    if row is None:
        return "–"
    text = f"{1e3 * row['seconds']:,.0f} ({row['setting']})" if row["seconds"] >= 0.01 else (
        f"{1e3 * row['seconds']:.1f} ({row['setting']})")  # fmt: skip
    return f"**{text}**" if row is best else text


def size_said(count):
    """Bytes."""
    for unit in ("B", "KB", "MB"):
        if count < 1000.0:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000.0
    return f"{count:.1f} GB"


def side_by_side(found, goals):
    """The table of one data set; ``goals`` are (heading, test of a row).

    The last columns are those of the setting that is the quickest to the last goal, else of the best error.
    """
    bests = []
    for _, good in goals:
        each = [row for rows in found.values() if (row := quickest(rows, good)) is not None]
        bests.append(min(each, key=lambda row: row["seconds"]) if each else None)
    rows = []
    for name, own in found.items():
        finished = [row for row in own if "seconds" in row]
        if not finished:
            rows.append([name, *["–"] * (len(goals) + 4)])
            continue
        reached = [quickest(own, good) for _, good in goals]
        shown = reached[-1] or min(finished, key=lambda row: row["error"])
        grown = "–" if shown["megabytes"] is None else f"{shown['megabytes']:.0f}"
        rows.append([
            name, *(time_said(row, best) for row, best in zip(reached, bests, strict=True)), f"{shown['error']:.2%}",
            size_said(shown["bytes"]), f"{1e3 * shown['predicting']:.1f}", grown,
        ])  # fmt: skip
    head = ["", *(f"{heading}, ms" for heading, _ in goals), "test error", "model", "prediction, ms", "memory, MB"]
    return markdown(head, rows)


#: What a row comes to beside its time: heading, key, and how it is said, as in the columns of the tables.
BESIDE_TIME = (
    ("test error", "error", lambda value: f"{value:.2%}"),
    ("model", "bytes", lambda value: size_said(value)),
    ("prediction", "predicting", lambda value: f"{1e3 * value:.1f} ms"),
    ("memory", "megabytes", lambda value: f"{value:.0f} MB"),
)
#: The end of a contender's name, which says what its settings are.
OF_SETTINGS = re.compile(r"(, (tol|epochs|passes|three passes|step|vectors|components|hinge|text read))+$")


def beside_time(parts, goals_of, ours):
    """The table of who is best in what is not training time, a row for each data set; rivals that win are bold.

    The least test error is that of all settings. The others are those of the tables' columns, of whoever reaches the
    last goal: a model that has learnt nothing is small. What is the same as it is written is even.
    """
    rows = []
    for name, found in parts.items():
        good = goals_of(found)[-1][1]
        shown = {who: [row] for who, own in found.items() if (row := quickest(own, good)) is not None}
        every = {who: [row for row in own if "seconds" in row] for who, own in found.items()}
        rows.append([name, *(
            best_of(every if key == "error" else shown, key, said, ours) for _, key, said in BESIDE_TIME
        )])  # fmt: skip
    return markdown(["", *(heading for heading, _, _ in BESIDE_TIME)], rows)


def best_of(found, key, said, ours):
    """Whoever has the least value of a key, and the best of the other side: ours, or a rival."""
    known = {who: [row[key] for row in rows if row.get(key) is not None] for who, rows in found.items()}
    least_of = {who: min(values) for who, values in known.items() if values}
    sides = [[who for who in least_of if who.startswith(ours) == own] for own in (True, False)]
    firsts = [min(side, key=least_of.get, default=None) for side in sides]
    texts = [None if who is None else f"{OF_SETTINGS.sub('', who)} {said(least_of[who])}" for who in firsts]
    own, rival = texts
    if own is None or rival is None:
        return "–" if own is rival else own or f"**{rival}**; ours –"
    values = [said(least_of[who]) for who in firsts]
    if values[0] == values[1]:
        return f"even, {values[0]}"
    return f"{own}; {rival}" if least_of[firsts[0]] < least_of[firsts[1]] else f"**{rival}**; {own}"


def verdicts(parts, goals_of, ours):
    """A sentence for each data set and goal: who is first, and how far we are behind where it is a rival."""
    lines = []
    for name, found in parts.items():
        for heading, good in goals_of(found):
            each = {who: row["seconds"] for who, rows in found.items() if (row := quickest(rows, good)) is not None}
            own = {who: took for who, took in each.items() if who.startswith(ours)}
            if not each:
                lines.append(f"{name}, {heading}: nobody.")
                continue
            first = min(each, key=each.get)
            said = f"{name}, {heading}: {first}"
            rivals = {who: took for who, took in each.items() if who not in own}
            if first in own:
                second = min(rivals, key=rivals.get, default=None)
                faster = (
                    f"{rivals[second] / each[first]:.2g} times as fast as {second}, the best rival" if second else ""
                )
                said += f", {faster}" if second else "; no rival gets there"
            elif own:
                said += f" wins; {min(own, key=own.get)} takes {min(own.values()) / each[first]:.2g} times as long"
            else:
                said += " wins; none of ours gets there"
            lines.append(said + ".")
    return lines


def fronts(parts, ours="widemargin"):
    """Error against time and against size of the model, a row of axes for each data set; ours are drawn thick."""
    figure, axes = canvas(len(parts), 2, 4.6, 3.0)
    names = list(dict.fromkeys(who for found in parts.values() for who in found))
    colours = {who: f"C{k % 10}" for k, who in enumerate(names)}
    marks = dict(zip(names, "osD^v<>pPX*hHd8" * 3, strict=False))
    for (name, found), pair in zip(parts.items(), axes, strict=True):
        for ax, key, label in zip(pair, ("seconds", "bytes"), ("processor seconds", "bytes of the model"), strict=True):
            for who, rows in found.items():
                rows = sorted((row for row in rows if "seconds" in row), key=lambda row: row[key])
                if rows:
                    style = {"lw": 1.6, "ms": 4} if who.startswith(ours) else {"lw": 0.7, "ms": 3, "ls": "--"}
                    x, y = [row[key] for row in rows], [100.0 * row["error"] for row in rows]
                    ax.plot(x, y, color=colours[who], marker=marks[who], label=who, **style)
            best = 100.0 * least(found, "error")
            ax.axhline(1.1 * best, color="0.6", lw=0.6, ls=":")
            ax.set(xscale="log", xlabel=label, ylabel="test error, %", title=name, ylim=(0.9 * best, 2.2 * best))
            ax.grid(alpha=0.3)
    drawn = {label: handle for ax in axes.flat for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=3, frameon=False)
    return figure
