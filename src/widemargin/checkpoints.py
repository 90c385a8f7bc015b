"""Checkpoints: a fit that was killed goes on from a file as if it had never stopped.

A fit is one run of a solver, or several, one after the other, each with a name. The file is the journal of the fit: of
each run that has ended its outcome, of the one under way all that the loop in :mod:`.running` knows between two slices
of work, and the generator that the fit began with. A fit of the same problem does what it did before, and is handed the
runs of the journal instead of running them; so it comes to the same bits. The laws of solvers make that true: where
work is cut does not matter, and a state that was saved goes on alike.

The file is replaced at once or not at all, and removed when the fit has ended by its own rules.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .files import UNREADABLE, check_savable, dump, load, packed, remove_leftovers, savable, unpacked
from .schemas import ANYTHING, Array, Each, Field, Random, Text, Whole, maybe
from .warning import warn

#: The file is written no more often than costs this share of the time.
SHARE = 0.05


def _law(journal: Any, sizes: dict[str, int]) -> str | None:
    taken, held = sum(max(size, 0) for size in journal.sizes), journal.ended.size
    if len(journal.runs) != len(journal.sizes) or taken != held:
        return f"its {len(journal.runs)} runs take {taken} bytes, and it has {held}"
    return None


@savable(
    "Checkpoint", problem=Each(Text(), dict), start=maybe(Random()), sizes=Each(Whole(-1), list),
    runs=Each(ANYTHING), ended=Array(None, dtype=np.uint8), law=_law,
)  # fmt: skip
@dataclass
class Journal:
    """What the file holds.

    Attributes
    ----------
    problem : data and parameters by name, each as a text that is the same for the same bits
    start : the generator as it was when the fit began; None before that
    runs : what is kept of each run, by its name, in their order: its solver as ``key`` and, of a run that has ended,
        the rest as bytes
    """

    problem: dict[str, str]
    start: np.random.Generator | None = None
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def _to_parts(self) -> dict[str, Any]:
        """All ended runs as one array, of which there may be thousands."""
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
    """The file of a fit to one problem: what was found in it, and when it is written again.

    Parameters
    ----------
    path : of the file; what is there must be a checkpoint of the same problem
    every : seconds between two writes, at least; 0 writes after each slice, whatever that costs
    problem : as in :class:`Journal`
    """

    def __init__(self, path: Path, every: float, problem: dict[str, str]) -> None:
        self.path, self.every = path, every
        # states go on in the version that wrote them
        problem = {"the version of widemargin": sys.modules[__package__].__version__, **problem}
        if not path.parent.is_dir():
            raise FileNotFoundError(f"checkpoint {path} cannot be written: {path.parent} is no folder; make it first")
        if path.is_dir():
            raise IsADirectoryError(f"checkpoint {path} is a folder: name a file in it")
        remove_leftovers(path)
        self.journal = self._found(problem) if path.exists() else Journal(problem)
        self.written, self.took = time.perf_counter(), 0.0
        self.failed = self.stopped = self.closed = False
        self.passed, self.told = 0, False  # runs that had ended; whether the user knows what was found

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
        """The generator of the fit, set to where it was when the fit began."""
        if self.journal.start is None:
            self.journal.start = _copied(rng)
        else:
            rng.bit_generator.state = self.journal.start.bit_generator.state
        return rng

    def record(self, name: str, key: str) -> Record | None:
        """What is kept of the run of this name; ``key`` says what runs. None after Ctrl-C: nothing more is kept."""
        return None if self.closed else Record(self, name, key)

    def due(self) -> bool:
        """Whether it is time to write again."""
        wait = max(self.every, self.took / SHARE) if self.every > 0.0 else 0.0
        return time.perf_counter() - self.written >= wait

    def write(self) -> None:
        """Replace the file. Where that fails, the old one stays, and training goes on with a warning."""
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
        """Remove the file, as the fit has ended; or keep it, where time or Ctrl-C stopped some of it."""
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

    @property
    def has_own(self) -> bool:
        """Whether something was kept of this run, and not of another solver's under its name."""
        return self.owner.journal.runs.get(self.name, {}).get("key") == self.key

    def found(self, parts: Field, ended: Field, sizes: dict[str, int]) -> dict[str, Any] | None:
        """What was kept of this run by an earlier process, as the schema of a run under way, or of one that has ended,
        allows it for a problem of these sizes; None where there is nothing. Another solver's is dropped.
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
        """Drop what was kept of this run, and of those that came after it."""
        runs = self.owner.journal.runs
        names = list(runs)
        for name in names[names.index(self.name) :]:
            del runs[name]

    def check(self, parts: dict[str, Any]) -> None:
        """Refuse a run that cannot be kept, before it has begun."""
        try:
            check_savable(parts)
        except TypeError as error:
            raise TypeError(f"checkpoint needs a run that can be saved: {error}") from error

    def due(self) -> bool:
        """Whether it is time to write again."""
        return self.owner.due()

    def keep(self, parts: dict[str, Any]) -> None:
        """Write the run as it is now."""
        self.owner.journal.runs[self.name] = {"key": self.key, **parts}
        self.owner.write()

    def end(self, parts: dict[str, Any]) -> None:
        """Keep a run that has ended, as it is now; the file is written with the next one."""
        self.owner.journal.runs[self.name] = {"key": self.key, "ended": packed(parts)}

    def stop(self, parts: dict[str, Any], *, interrupted: bool) -> None:
        """Write a run that is to go on another time; after Ctrl-C nothing is kept of the runs behind it."""
        self.keep(parts)
        self.owner.stopped, self.owner.closed = True, interrupted


def _copied(rng: np.random.Generator) -> np.random.Generator:
    """A generator of its own at the same place."""
    bits = type(rng.bit_generator)()
    bits.state = rng.bit_generator.state
    return np.random.Generator(bits)
