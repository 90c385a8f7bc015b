"""Damaged files of every kind, used in child processes: nothing that is read may hurt one. Not a part of the suite.

    python tests/fuzz/fuzz_models.py 20000 --seed 0                # make fuzz N=20000 SEED=0
    python tests/fuzz/fuzz_models.py 1 --seed 0 --first 1234       # one file again, in this process, with tracebacks

Small estimators are fitted once: their files, the files of their models and the checkpoints of their fits are whole.
Then arrays are resized, refilled, permuted and changed in places, numbers, names and keys of headers are changed, and
the checksum is made anew, so that what lies behind it is reached. A child reads such files and does with what was read
all that can be done, until it dies; the next one is forked from a process that has compiled everything. With
``WIDEMARGIN_CHECKED=1``, as make has it unless told ``CHECKED=0``, loops test every index. The seed and the file of
every death are kept, and what is written at the end counts files by kind and by outcome:

- *refused*: by a sentence, on reading or in use; *accepted*: all worked, whatever was computed;
- *ugly*: an error that is no sentence of ours. It is listed, and no failure;
- *out of range* (a test of bounds in a loop), *killed* (by a signal) and *hung* (10 s of processor time): failures.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import json
import os
import re
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[2] / ".numba_cache"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import scipy.sparse as sp
from damage import change
from numba.core import event

import killing
import widemargin as wm
from widemargin import checkpoints, files
from widemargin.core.borrowing import OutOfRange

#: Processor seconds that a file may take, and seconds in all; compilation does not count.
LIMIT, WAIT = 10.0, 120.0
#: Bytes of address space, of which compiled libraries take one or two GiB.
MOST_MEMORY = 8 * 2**30
OUTCOMES = ("accepted", "refused on reading", "refused in use", "ugly", "out of range", "killed", "hung")
FAILURES = OUTCOMES[-3:]
HOMES = (os.path.dirname(wm.__file__), f"{os.sep}sklearn{os.sep}")

# ---------------------------------------------------------------- whole files

#: What is too slow here, has a function in it, or is another one's twin.
LEFT_OUT = {"SVC, 120 pairs", "SVC, few rounds", "SVC, a function", "LinearSVC, feature reads"}
CASES = {name: case for name, case in killing.CASES.items() if name not in LEFT_OUT} | {
    "LinearSVC, pegasos, sparse": (lambda: wm.LinearSVC(solver="pegasos", max_iter=5), 0, 3, {"sparse": True}),
    "LinearSVR, pegasos": (lambda: wm.LinearSVR(solver="pegasos", max_iter=5), 0, 2, {"regression": True}),
    "SVC, sparse": (lambda: wm.SVC(C=5.0, gamma=0.5), 0, 3, {"sparse": True}),
    "BudgetedSVC, sparse": (lambda: wm.BudgetedSVC(8, gamma=0.5, lam=1e-2), 0, 2, {"sparse": True}),
    "BudgetedSVC, project, sparse": (
        lambda: wm.BudgetedSVC(8, gamma=0.5, lam=1e-2, maintenance="project"), 0, 3, {"sparse": True},
    ),
    "IncrementalSVC, sparse": (lambda: wm.IncrementalSVC(gamma=0.5), 0, 2, {"sparse": True}),
    "IncrementalSVC, window": (lambda: wm.IncrementalSVC(gamma=0.5, window=16), 0, 3, {}),
    "IncrementalSVC, budget": (lambda: wm.IncrementalSVC(gamma=0.5, budget=8, memory="support"), 0, 2, {}),
}  # fmt: skip


@cache
def examples(name: str) -> tuple[Any, np.ndarray]:
    """(X, y) of a case, always the same."""
    _, _, classes, said = CASES[name]
    said = {key: value for key, value in said.items() if key in ("sparse", "regression")}
    X, y = killing.drawn(np.random.default_rng(zlib.crc32(name.encode())), 24, classes, **said)
    return (killing.rbf_of_half(X, X) if "table" in CASES[name][3] else X), y


def estimator(name: str) -> Any:
    """An estimator of a case, not fitted."""
    made = CASES[name][0]()
    if made.random_state is None and not hasattr(made, "cache_size"):
        made.set_params(random_state=np.random.RandomState(0))  # whose place in its block is in files
    return made.set_params(budget=8) if "Budgeted" in name else made


def fitted(name: str, **parameters: Any) -> Any:
    X, y = examples(name)
    X = killing.Measured(X) if "source" in CASES[name][3] else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(name).set_params(**parameters).fit(X, y)


def make_all(folder: Path) -> None:
    """Write the file of each estimator, of its model, and the checkpoint that lay there in the middle of its fit."""
    killing.cut_small()
    write, checkpoints.Checkpoint.end = checkpoints.Checkpoint.write, lambda self, stopped: None
    for name in CASES:
        fitted(name).save(folder / f"{name}; estimator")
        if isinstance(getattr(model := wm.load(folder / f"{name}; estimator"), "_model", None), files.Saved):
            files.dump(folder / f"{name}; model", model._model)
        path, written = folder / f"{name}; checkpoint", []

        def kept(self: Any, path: Path = path, written: list[bytes] = written) -> None:
            write(self)
            written.append(path.read_bytes())

        checkpoints.Checkpoint.write = kept
        fitted(name, checkpoint=path, checkpoint_every=0)
        if written:
            path.write_bytes(written[len(written) // 2])


# ---------------------------------------------------------------- damage


@cache
def whole(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    header, arrays = files.read_npz(path)
    header.pop("checksum")
    return header, arrays


def damaged(source: Path, path: Path, rng: np.random.Generator) -> str:
    """Write a file with one change, or some; returns what was done."""
    while True:
        header, arrays = copy.deepcopy(whole(source))
        with suppress(*files.UNREADABLE):  # of a change of a change
            said = [change(header, arrays, rng) for _ in range(1 + int(rng.integers(1, 3)) * int(rng.random() < 0.2))]
            files.write_npz(path, header, **arrays)
            return "; ".join(said)


# ---------------------------------------------------------------- use


def rows_of_width(width: Any) -> list[Any]:
    """Rows as wide as a file says, if that is nothing that takes memory."""
    if type(width) is not int or not 0 < width <= 10**6:
        return []
    some = sp.csr_matrix((np.ones(4), ([0, 1, 1, 2], [width - 1, 0, width // 2, 0])), (3, width))
    return [some, some.toarray()] if width <= 1000 else [some]


def uses(name: str, read: Any) -> Iterator[Callable[[], Any]]:
    """All that can be done with what was read."""
    X, y = examples(name)
    if not hasattr(read, "get_params"):
        if hasattr(read, "decision_function"):
            yield lambda: read.decision_function(X)
        return
    for rows in (X, *rows_of_width(getattr(read, "n_features_in_", None))):
        yield lambda rows=rows: read.predict(rows)
        if hasattr(type(read), "decision_function"):
            yield lambda rows=rows: read.decision_function(rows)
    for attribute in ("coef_", "support_", "support_vectors_", "dual_coef_", "online_error_", "gamma_", "n_support_"):
        yield lambda attribute=attribute: getattr(read, attribute, None)
    yield lambda: wm.compress(read, 4).predict(X) if "Linear" not in name and "table" not in name else None
    if hasattr(type(read), "partial_fit"):
        yield lambda: copy.deepcopy(read).partial_fit(X[:6], y[:6])
    if hasattr(type(read), "unlearn"):
        yield lambda: copy.deepcopy(read).finish(max_seconds=1.0)
        yield lambda: copy.deepcopy(read).unlearn([1, 20]).partial_fit(X, y)
        yield lambda: read.duality_gap()
    if hasattr(read, "warm_start"):
        yield lambda: copy.deepcopy(read).set_params(warm_start=True, max_iter=3, max_seconds=1.0).fit(X, y)
    yield lambda: read.set_params(max_iter=3, max_seconds=1.0).fit(X, y).predict(X)


def judged(error: BaseException) -> str:
    """What an error in use counts as: a sentence of ours was raised on purpose."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if isinstance(error, OutOfRange):
        return "out of range"
    purpose = (last.line or "").startswith("raise ") and any(home in last.filename for home in HOMES)
    return "refused in use" if purpose and isinstance(error, (ValueError, TypeError, AttributeError)) else "ugly"


def used(name: str, what: str, path: Path, show: bool = False) -> tuple[str, list[str]]:
    """(the worst outcome, errors that are no sentences) of all that is done with a file."""
    outcome, odd = "accepted", []

    def tried(step: Callable[[], Any], refused: str | None = None) -> Any:
        nonlocal outcome
        try:
            return step()
        except Exception as error:
            found = judged(error)
            found = refused if refused and found == "refused in use" else found
            outcome = max(outcome, found, key=OUTCOMES.index)
            if show:
                traceback.print_exc()
            if found in ("ugly", "out of range"):
                last = traceback.extract_tb(error.__traceback__)[-1]
                odd.append(f"{type(error).__name__}: {error!s:.90} ({Path(last.filename).name}:{last.lineno})")
            return None

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if what == "checkpoint":
            X, _ = examples(name)
            tried(lambda: fitted(name, checkpoint=path).predict(X), "refused on reading")
            return outcome, odd
        read = tried(lambda: wm.load(path), "refused on reading")
        for step in uses(name, read) if read is not None else ():
            tried(step)
    return outcome, odd


# ---------------------------------------------------------------- children


class OwnTime(event.Listener):
    """Ends this process when a file takes longer than it may; time of compilation is not counted."""

    def __init__(self) -> None:
        self.depth, self.on = 0, False
        event.register("numba:compile", self)

    def limit(self, on: bool) -> None:
        self.on = on
        signal.setitimer(signal.ITIMER_PROF, LIMIT if on else 0.0)
        signal.setitimer(signal.ITIMER_REAL, WAIT if on else 0.0)

    def on_start(self, event: Any) -> None:
        self.depth += 1
        if self.on and self.depth == 1:
            self.limit(False)
            self.on = True

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.on and self.depth == 0:
            self.limit(True)


def in_a_process(work: Callable[[], Any]) -> int:
    """The number of a process that does some work, and says why it could not."""

    def tried() -> None:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            raise

    return killing.in_a_process(tried)


def take_files(folder: Path, asked: argparse.Namespace, child: int, first: int, pipe: int) -> None:
    """Damage and use every so many-th file, and tell of each on the pipe; never returns."""
    errors = os.open(folder / f"errors {child}", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(errors, 2)
    os.dup2(errors, 1)
    faulthandler.enable()
    for number in (signal.SIGPROF, signal.SIGALRM):
        faulthandler.register(number, chain=True)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    path, timer = folder / f"damaged {child}", OwnTime()
    for k in range(first, asked.first + asked.number, asked.jobs):
        os.ftruncate(errors, 0)
        kind, said = prepared(folder, asked, k, path)
        os.write(pipe, (json.dumps({"file": k, "kind": kind, "damage": said}) + "\n").encode())
        timer.limit(True)
        outcome, odd = used(*kind.split("; "), path)
        timer.limit(False)
        os.write(pipe, (json.dumps({"file": k, "kind": kind, "outcome": outcome, "odd": odd}) + "\n").encode())
    os._exit(0)


def prepared(folder: Path, asked: argparse.Namespace, k: int, path: Path) -> tuple[str, str]:
    """(kind, what was done) of file k, which is written."""
    rng = np.random.default_rng([asked.seed, k])
    kinds = sorted(p.name for p in folder.glob("*; *") if asked.kind in p.name)
    kind = kinds[int(rng.integers(len(kinds)))]
    return kind, damaged(folder / kind, path, rng)


class Results:
    """What children told, and how they died."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked, self.keep, self.counts = asked, Path(asked.keep), Counter[tuple[str, str]]()
        self.deaths: list[str] = []
        self.odd: dict[str, list[int]] = {}

    def tell(self, said: dict) -> None:
        self.counts[said["kind"], said["outcome"]] += 1
        for error in set(said["odd"]):
            self.odd.setdefault(error, []).append(said["file"])
        if said["outcome"] == "out of range":
            self.deaths.append(f"file {said['file']}, {said['kind']}, out of range: {said['odd']}")

    def died(self, last: dict, status: int, folder: Path, child: int) -> None:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        hung = number in (signal.SIGPROF, signal.SIGALRM)
        self.counts[last["kind"], "hung" if hung else "killed"] += 1
        self.keep.mkdir(parents=True, exist_ok=True)
        prepared(folder, self.asked, last["file"], self.keep / f"{last['file']}.npz")
        stack = (folder / f"errors {child}").read_text(errors="replace")
        (self.keep / f"{last['file']}.txt").write_text(f"{last['kind']}\n{last['damage']}\n{stack}")
        where = re.findall(r'File ".*?/(\w+\.py)", line (\d+) in (\w+)', stack)[:2]
        how = "hung" if hung else signal.Signals(number).name if number else f"ended with {status}"
        self.deaths.append(f"file {last['file']}, {last['kind']}, {how} in {where}: {last['damage']}")

    def show(self, seconds: float) -> None:
        kinds = sorted({kind for kind, _ in self.counts})
        width = max(map(len, kinds))
        print(f"{'':{width}} " + " ".join(f"{outcome:>{len(outcome)}}" for outcome in OUTCOMES))
        for kind in (*kinds, "all"):
            row = [sum(n for (k, o), n in self.counts.items() if o == of and kind in (k, "all")) for of in OUTCOMES]
            print(f"{kind:{width}} " + " ".join(f"{n:>{len(of)}}" for n, of in zip(row, OUTCOMES)))
        print(f"\n{self.counts.total()} files in {seconds:.0f} s")
        for error, found in sorted(self.odd.items(), key=lambda item: -len(item[1]))[:40]:
            print(f"  ugly, {len(found)} times, first in file {found[0]}: {error}")
        for death in self.deaths:
            print(f"  DEATH {death}")


def run(folder: Path, asked: argparse.Namespace) -> Results:
    """All files, in children that are forked anew when they have died."""
    results, waiting = Results(asked), selectors.DefaultSelector()

    def begin(child: int, first: int) -> None:
        read, write = os.pipe()
        number = in_a_process(lambda: take_files(folder, asked, child, first, write))
        os.close(write)
        waiting.register(os.fdopen(read), selectors.EVENT_READ, [child, number, {}])

    for child in range(asked.jobs):
        begin(child, asked.first + child)
    while waiting.get_map():
        for ready, _ in waiting.select():
            (child, number, last), line = ready.data, ready.fileobj.readline()
            if line:
                ready.data[2] = said = json.loads(line)
                if "outcome" in said:
                    results.tell(said)
                continue
            waiting.unregister(ready.fileobj)
            ready.fileobj.close()
            _, status = os.waitpid(number, 0)
            if status:
                if "damage" not in last:
                    raise RuntimeError((folder / f"errors {child}").read_text())
                results.died(last, status, folder, child)
                if last["file"] + asked.jobs < asked.first + asked.number:
                    begin(child, last["file"] + asked.jobs)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("number", type=int, nargs="?", default=1000, help="of files")
    parser.add_argument("--seed", type=int, default=None, help="of the damage; a new one by default")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kind", default="", help="part of the name of the kinds of files")
    parser.add_argument("--keep", default="fuzz_deaths", help="folder for the files of deaths")
    asked = parser.parse_args()
    asked.seed = int(time.time()) if asked.seed is None else asked.seed
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, started = Path(name), time.perf_counter()
        if os.waitpid(in_a_process(lambda: make_all(folder)), 0)[1]:
            return 2
        for path in sorted(folder.glob("*; *")):
            shutil.copy(path, folder / "one")  # a checkpoint goes when its fit has ended
            outcome, odd = used(*path.name.split("; "), folder / "one")  # compiles all that the children need
            if odd or outcome in FAILURES:
                print(f"{path.name}, whole: {outcome} {odd}")
        print(
            f"seed {asked.seed}, {len(list(folder.glob('*; *')))} kinds, ready in {time.perf_counter() - started:.0f} s"
        )
        if asked.number == 1:
            kind, said = prepared(folder, asked, asked.first, folder / "one")
            print(kind, said, sep="\n", flush=True)
            print(*used(*kind.split("; "), folder / "one", show=True))
            return 0
        started = time.perf_counter()
        results = run(folder, asked)
    results.show(time.perf_counter() - started)
    return int(any(outcome in FAILURES for _, outcome in results.counts))


if __name__ == "__main__":
    sys.exit(main())
