"""Checkpoint files: a killed fit continues from its file and gives the same bits as a fit that was never killed.

A fit consists of one or several runs of a solver, one after the other, each with a name. The file holds the *journal*
of the fit: the random generator at its beginning, the outcome of each run that has ended, and for the run under way all
that the loop in :mod:`.running` knows between two slices. A new fit of the same problem repeats the steps of the killed
one, but takes runs from the journal instead of computing them. The laws of solvers (:mod:`.solvers.protocol`) guarantee
the same bits: results do not depend on slices, and a saved state continues like the original.

The file is replaced atomically, and removed when the fit has ended by itself.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .files import UNREADABLE, check_savable, dump, load, packed, remove_leftovers, savable, unpacked
from .schemas import ANYTHING, Array, Each, Either, Field, Random, Row, Text, Whole, maybe
from .version import __version__
from .warning import warn

SHARE = 0.05  # share of the time that writing may take; the file is written less often if it is large


def _law(journal: Any, sizes: dict[str, int]) -> str | None:
    taken, held = sum(max(size, 0) for size in journal.sizes), journal.ended.size
    odd = [run for run in journal.runs if list(map(type, run)) != [str, dict]]
    if odd:
        return f"a run is {odd[0]!r:.60}, and no name with what is kept of it"
    if len(journal.runs) != len(journal.sizes) or taken != held:
        return f"its {len(journal.runs)} runs take {taken} bytes, and it has {held}"
    return None


@savable(
    "Checkpoint", problem=Each(Text(), dict), start=maybe(Random()), sizes=Each(Whole(-1), list),
    runs=Each(Each(Either(Text(), Row({}, rest=ANYTHING)))), ended=Array(None, dtype=np.uint8), law=_law,
)  # fmt: skip
@dataclass
class Journal:
    """The content of the file.

    Attributes
    ----------
    problem : digests of data and parameters, by name
    start : the random generator at the beginning of the fit; None before that
    runs : the record of each run by name, in order: its solver as ``key``, and its state, or for a run that has ended
        everything else as bytes in ``ended``
    """

    problem: dict[str, str]
    start: np.random.Generator | None = None
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def _to_parts(self) -> dict[str, Any]:
        """The parts of the file; all ended runs, perhaps thousands, are one array."""
        ended = [run["ended"] for run in self.runs.values() if "ended" in run]
        return {
            "problem": self.problem, "start": self.start,
            "runs": [[name, {k: v for k, v in run.items() if k != "ended"}] for name, run in self.runs.items()],
            "sizes": [run["ended"].size if "ended" in run else -1 for run in self.runs.values()],
            "ended": np.concatenate([np.empty(0, np.uint8), *ended]),
        }  # fmt: skip

    @classmethod
    def _from_parts(cls, problem: Any, start: Any, runs: Any, sizes: list[int], ended: np.ndarray) -> Journal:
        found, at = {}, 0
        for (name, run), size in zip(runs, sizes, strict=True):
            found[name] = run if size < 0 else {**run, "ended": ended[at : at + size]}
            at += max(size, 0)
        return cls(problem, start, found)


class Checkpoint:
    """The checkpoint file of a fit: what it held, and when to write it again.

    Parameters
    ----------
    path : path of the file; an existing file must be a checkpoint of the same problem
    every : least number of seconds between two writes; 0 writes after each slice, whatever that costs
    problem : as in :class:`Journal`
    """

    def __init__(self, path: Path, every: float, problem: dict[str, str]) -> None:
        self.path, self.every = path, every
        # states are for the version that wrote them
        problem = {"the version of widemargin": __version__, **problem}
        if not path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint {path} cannot be written: {path.parent} is no folder; make it first")
        if path.is_dir():
            raise IsADirectoryError(f"checkpoint {path} is a folder: name a file in it")
        remove_leftovers(path)
        self.journal = self._found(problem) if path.exists() else Journal(problem)
        self.written, self.took = time.perf_counter(), 0.0
        self.failed = self.stopped = self.closed = False
        self.passed, self.told = 0, False  # number of runs taken from the journal; whether the user was told

    def _found(self, problem: dict[str, str]) -> Journal:
        try:
            journal = load(self.path)
        except ValueError as bad:
            raise ValueError(f"checkpoint {bad}; delete the file to start anew") from bad
        if not isinstance(journal, Journal):
            raise ValueError(
                f"checkpoint {self.path} holds a {type(journal).__name__} and no checkpoint: give the checkpoint "
                "another name"
            )
        names = dict.fromkeys([*problem, *journal.problem])
        other = [name for name in names if problem.get(name) != journal.problem.get(name)]
        if other:
            was, now = (each.get(other[0], "nothing") for each in (journal.problem, problem))
            raise ValueError(
                f"checkpoint {self.path} is that of another problem: {other[0]} was {was} and is {now}; delete the "
                "file to start anew, or give this fit a file of its own"
            )
        return journal

    def generator(self, rng: np.random.Generator) -> np.random.Generator:
        """Return the generator of the fit, set to its state at the beginning of the killed fit."""
        if self.journal.start is None:
            self.journal.start = copy.deepcopy(rng)
        else:
            rng.bit_generator.state = self.journal.start.bit_generator.state
        return rng

    def record(self, name: str, key: str) -> Record | None:
        """The record of the run of this name, whose solver is ``key``. None after Ctrl-C, when no more is recorded."""
        return None if self.closed else Record(self, name, key)

    def due(self) -> bool:
        """Whether it is time to write again."""
        wait = max(self.every, self.took / SHARE) if self.every > 0.0 else 0.0
        return time.perf_counter() - self.written >= wait

    def write(self) -> None:
        """Replace the file. If that fails, the old file stays and training continues with a warning."""
        since = time.perf_counter()
        try:
            dump(self.path, self.journal)
        except (OSError, MemoryError, ValueError) as error:
            if not self.failed:
                warn(
                    f"the checkpoint {self.path} could not be written ({error}); training goes on, and tries again "
                    "later: make room on the disk, or stop and name another file"
                )
            self.failed = True
        self.written = time.perf_counter()
        self.took = self.written - since

    def end(self, stopped: bool) -> None:
        """Remove the file at the end of the fit, or keep it if a time limit or Ctrl-C stopped the fit."""
        if stopped and not self.stopped:
            self.write()
        elif not self.stopped:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                warn(f"the checkpoint {self.path} could not be removed ({error}): delete it")


class Record:
    """The part of a checkpoint that belongs to one run."""

    def __init__(self, owner: Checkpoint, name: str, key: str) -> None:
        self.owner, self.name, self.key = owner, name, key
        self.due = owner.due

    @property
    def has_own(self) -> bool:
        """Whether the journal has a record of this run by the same solver."""
        return self.owner.journal.runs.get(self.name, {}).get("key") == self.key

    def found(self, parts: Field, ended: Field, sizes: dict[str, int]) -> dict[str, Any] | None:
        """The record that an earlier process left of this run; None if there is none.

        It is checked against the schema ``parts`` of a run under way, or ``ended`` of one that has ended, for a problem
        of these sizes. A record of another solver is dropped.
        """
        if self.name in self.owner.journal.runs and not self.has_own:
            self.forget()
        kept = self.owner.journal.runs.get(self.name)
        if kept is None:
            return None
        try:
            known = unpacked(kept["ended"]) if "ended" in kept else kept
            (ended if "ended" in kept else parts).hold(known, self.name, **sizes)
        except UNREADABLE as bad:
            raise ValueError(f"checkpoint {self.owner.path} is damaged: {bad}; delete the file to start anew") from bad
        return known

    def forget(self) -> None:
        """Drop the records of this run and of all later ones."""
        runs = self.owner.journal.runs
        names = list(runs)
        for name in names[names.index(self.name) :]:
            del runs[name]

    def check(self, parts: dict[str, Any]) -> None:
        """Refuse a run whose state cannot be saved, before it begins."""
        try:
            check_savable(parts)
        except TypeError as error:
            raise TypeError(f"checkpoint needs a run that can be saved: {error}") from error

    def keep(self, parts: dict[str, Any]) -> None:
        """Record the run as it is now, and write the file."""
        self.owner.journal.runs[self.name] = {"key": self.key, **parts}
        self.owner.write()

    def end(self, parts: dict[str, Any]) -> None:
        """Record a run that has ended; the file is written with the next run."""
        self.owner.journal.runs[self.name] = {"key": self.key, "ended": packed(parts)}

    def stop(self, parts: dict[str, Any], *, interrupted: bool) -> None:
        """Record a run to be continued by a later process, and write the file; after Ctrl-C record no further run."""
        self.keep(parts)
        self.owner.stopped, self.owner.closed = True, interrupted
