"""Fits that are killed and go on from their checkpoints: what is fitted, how it is killed, and what must be the same.

A fit runs in a forked process, which nothing but a file outlives. As a program this kills fits of every estimator:
``python tests/killing.py random 2`` at random moments, each twice (``make test-kill``), and
``python tests/killing.py counted 1`` at counted writes, with the result as JSON.
"""

import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import fields, replace
from pathlib import Path

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba_cache"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp

import widemargin as wm
from widemargin import checkpoints, files, running
from widemargin.history import History
from widemargin.solvers.tracking.state import TrackerState

#: Columns of a history that tell of the clock and of the cache, which a killed process takes with it.
FLEETING = ("seconds", "kernel_computed")


def rbf_of_half(A, B):
    """A kernel that is a function."""
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=-1))


def drawn(rng, n, classes, *, features=4, sparse=False, regression=False):
    """Examples that overlap, so that no fit is over at once."""
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    X = rng.normal(size=(n, features)) + 0.7 * rng.normal(size=(classes, features))[y]
    if regression:
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    return (sp.csr_matrix(X * (np.abs(X) > 0.5)) if sparse else X), y


class Measured:
    """Data that is reached by row and by column."""

    def __init__(self, X):
        self.X, self.shape = X, X.shape

    def row(self, i):
        return self.X[i]

    def column(self, j):
        return self.X[:, j]


#: An estimator, how many examples and classes it is fitted to, and what else is said of them.
CASES = {
    "LinearSVC": (lambda: wm.LinearSVC(tol=1e-9, max_iter=60, random_state=0), 400, 2, {}),
    "LinearSVC, sparse, 3 classes": (lambda: wm.LinearSVC(tol=1e-9, max_iter=60), 300, 3, {"sparse": True}),
    "LinearSVC, early stopping": (
        lambda: wm.LinearSVC(solver="pegasos", early_stopping=True, max_iter=60, tol=0, n_iter_no_change=9),
        400, 2, {},
    ),
    "LinearSVC, pegasos, search": (
        lambda: wm.LinearSVC(solver="pegasos", intercept="search", max_iter=40, tol=1e-5, random_state=0), 300, 2, {},
    ),
    "LinearSVC, interior": (lambda: wm.LinearSVC(solver="interior", tol=1e-10), 300, 2, {}),
    "LinearSVC, simba": (lambda: wm.LinearSVC(solver="simba", max_iter=6, tol=0, random_state=0), 300, 2, {}),
    "LinearSVC, simba, a source": (
        lambda: wm.LinearSVC(solver=wm.Simba(nu=1e-3), max_iter=4, tol=0, random_state=0), 300, 2, {"source": True},
    ),
    "LinearSVC, feature reads": (
        lambda: wm.LinearSVC(solver="pegasos", tol=0, max_feature_reads=20_000, random_state=0), 300, 2, {},
    ),
    "LinearSVR": (lambda: wm.LinearSVR(C=5.0, tol=1e-9, max_iter=60), 300, 2, {"regression": True}),
    "SVC, 2 classes": (lambda: wm.SVC(C=50.0, gamma=0.5, tol=1e-6), 400, 2, {}),
    "SVC, 3 pairs": (lambda: wm.SVC(C=50.0, gamma=0.5, tol=1e-6), 300, 3, {}),
    "SVC, 120 pairs": (lambda: wm.SVC(C=50.0, gamma=0.5, tol=1e-6), 480, 16, {}),
    "SVC, few rounds": (lambda: wm.SVC(C=1e3, gamma=0.5, tol=1e-9, max_iter=3), 400, 2, {}),
    "SVC, early stopping": (lambda: wm.SVC(C=50.0, gamma=0.5, early_stopping=True, tol=1e-6), 400, 3, {}),
    "SVC, sbp": (lambda: wm.SVC(C=50.0, gamma=0.5, solver="sbp", tol=1e-5), 400, 2, {}),
    "SVC, sbp, together": (lambda: wm.SVC(C=50.0, gamma=0.5, solver="sbp", multi_class="ovr", tol=1e-5), 300, 3, {}),
    "SVC, sbp, nu": (
        lambda: wm.SVC(gamma=0.5, solver=wm.StochasticBatchPerceptron(nu=0.05), multi_class="ovr", max_iter=6),
        300, 3, {},
    ),
    "SVC, sdca": (lambda: wm.SVC(C=5.0, gamma=0.5, solver="sdca", tol=1e-5), 300, 2, {}),
    "SVC, pegasos": (lambda: wm.SVC(C=5.0, gamma=0.5, solver="pegasos", max_iter=8), 300, 2, {}),
    "SVC, perceptron": (lambda: wm.SVC(gamma=0.5, solver="perceptron", max_iter=4), 300, 2, {}),
    "SVC, a function": (lambda: wm.SVC(C=50.0, kernel=rbf_of_half, tol=1e-6), 150, 2, {}),
    "SVC, a table": (lambda: wm.SVC(C=50.0, kernel="precomputed", tol=1e-6), 300, 2, {"table": True}),
    "SVR": (lambda: wm.SVR(C=50.0, gamma=0.5, tol=1e-6), 400, 2, {"regression": True}),
    "SVR, sdca": (lambda: wm.SVR(C=5.0, gamma=0.5, solver="sdca", tol=1e-4), 300, 2, {"regression": True}),
    "BudgetedSVC": (lambda: wm.BudgetedSVC(20, gamma=0.5, lam=1e-3, max_iter=4), 400, 2, {}),
    "BudgetedSVC, 3 classes, project": (
        lambda: wm.BudgetedSVC(20, gamma=0.5, lam=1e-3, maintenance="project", max_iter=3), 300, 3, {},
    ),
    "BudgetedSVR": (
        lambda: wm.BudgetedSVR(20, gamma=0.5, lam=1e-4, max_iter=4, random_state=0), 300, 2, {"regression": True},
    ),
    "IncrementalSVC": (lambda: wm.IncrementalSVC(C=5.0, gamma=0.5, max_iter=2), 400, 2, {}),
    "IncrementalSVC, 3 classes": (lambda: wm.IncrementalSVC(C=5.0, gamma=0.5, random_state=0), 300, 3, {}),
}  # fmt: skip


def built(case, seed, times=1):
    """(estimator, X, y, weights) of a case, with ``times`` as many examples."""
    make, n, classes, said = CASES[case]
    said, rng = dict(said), np.random.default_rng(seed)
    source, table = said.pop("source", False), said.pop("table", False)
    X, y = drawn(rng, n * times, classes, **said)
    weights = rng.uniform(0.5, 2.0, y.size) if seed % 2 else None
    if table:
        X = rbf_of_half(X, X)
    estimator = make()
    if estimator.random_state is None and not hasattr(estimator, "cache_size"):  # where None is no fixed seed
        estimator.set_params(random_state=np.random.default_rng(seed))
    return estimator, Measured(X) if source else X, y, weights


def bits(value):
    """A text of all that was learnt, without what the clock and the cache say."""
    if isinstance(value, History):
        # a row that was in a file has its columns in the order in which they first came
        value = [{name: float(row[name]) for name in sorted(row) if name not in FLEETING} for row in value]
    if hasattr(value, "counters"):
        value = replace(value, counters=replace(value.counters, kernel_computed=0))
    if isinstance(value, TrackerState):  # how much room is behind the vectors of a stream depends on its slices
        room, own = value.example.size, slice(value.count)
        arrays = {f.name: getattr(value, f.name) for f in fields(value)}
        value = {name: a[..., own] if np.shape(a)[-1:] == (room,) else a for name, a in arrays.items()}
    return files.digest(value)


def learnt(estimator):
    """The bits of every attribute that a fit has set, by name."""
    fitted = estimator._to_parts()["fitted"]
    if callable(getattr(estimator, "kernel", "")):  # a function is in no file
        fitted["_model"] = fitted["_model"].light()
        fitted = {name: value for name, value in fitted.items() if name != "_preparation"}
    return {name: bits(value) for name, value in fitted.items() if name != "_seconds"}


def fitted(case, seed, times=1, **parameters):
    """The estimator of a case, fitted."""
    estimator, X, y, weights = built(case, seed, times)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.set_params(**parameters).fit(X, y, weights)


def in_a_process(work):
    """Do some work in a process of its own; returns its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def end_of(child):
    """How a process ended: "done", "killed" or "failed"."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "killed"
    return "done" if status == 0 else "failed"


def die():
    """End this process as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_write(number, moment):
    """Have this process die at the write of that number (1, 2, …): before it, within it, or right after it."""
    whole, count = checkpoints.Checkpoint.write, [0]

    def write(self):
        count[0] += 1
        if count[0] == number and moment == "before":
            die()
        if count[0] == number and moment == "within":
            files.os.replace = lambda *paths: die()
        whole(self)
        if count[0] == number:
            die()

    checkpoints.Checkpoint.write = write


def cut_small():
    """Have this process work in small slices, the first ones of a step or two, and leave its files to the system."""
    begin = running._Run.__init__

    def __init__(self, *given):
        begin(self, *given)
        self.rate = 1.0 / running.SLICE

    running._Run.__init__ = __init__
    running.SLICE = 6e-3
    files.os.fsync = lambda number: None  # a killed process loses nothing that it has written


def killed_at_writes(case, seed, folder):
    """(bits of a fit that was killed again and again, number of kills): at its first write, then at its second and at
    its third, each at another moment, and later after twice as many each time.
    """
    path, out = Path(folder, "fit.ckpt"), Path(folder, "learnt.json")

    def go(number, moment):
        cut_small()
        kill_at_write(number, moment)
        files.dump(out, learnt(fitted(case, seed, checkpoint=path, checkpoint_every=0)))

    for kills in range(100):
        number = kills + 1 if kills < 3 else 3 * 2 ** (kills - 2)
        moment = ("after", "before", "within")[kills % 3]
        end = end_of(in_a_process(lambda number=number, moment=moment: go(number, moment)))
        if end == "done":
            assert not path.exists()
            assert not list(path.parent.glob("*.part"))
            return files.load(out), kills
        assert end == "killed", f"{case} ended otherwise: {end}"
    raise AssertionError(f"{case} never ended")


def differences(ours, theirs):
    """Names of what is not the same."""
    return [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]


def counted(seed):
    """Kill a fit of each case at counted writes; {case: (kills, what is not the same)}."""
    found = {}
    for case in CASES:
        plain = learnt(fitted(case, seed))
        with tempfile.TemporaryDirectory() as folder:
            ours, kills = killed_at_writes(case, seed, folder)
        found[case] = kills, differences(ours, plain)
    return found


def killed_at_random(case, rng, folder, seconds, seed):
    """(bits, kills, kills that left a file half written) of a fit that is killed at random moments, twice at most."""
    path, out = Path(folder, "fit.ckpt"), Path(folder, "learnt.json")

    def go():
        files.dump(out, learnt(fitted(case, seed, TIMES, checkpoint=path, checkpoint_every=0)))

    kills = within = 0
    while True:
        child = in_a_process(go)
        if kills < 2:
            time.sleep(rng.uniform(0.0, seconds))
            os.kill(child, signal.SIGKILL)  # until it is waited for, its number is no other's
        end = end_of(child)
        assert end != "failed", f"{case} failed"
        if out.exists():
            return files.load(out), kills, within
        kills += end == "killed"
        within += bool(list(path.parent.glob("*.part")))


#: Examples of fits that are killed at random, by those of the suite.
TIMES = 3


def at_random(each):
    """Kill fits of each case at random moments until there were so many kills; prints a table, returns failures."""
    rng, failures = np.random.default_rng(), []
    totals = np.zeros(3, int)
    print(f"{'fit':34} {'kills':>5} {'half written':>12} {'fits':>5}  result")
    for case in CASES:
        kills = within = fits = 0
        different = set()
        while kills < each:
            seed = int(rng.integers(2**31))
            plain = learnt(fitted(case, seed, TIMES))  # compiles, too
            with tempfile.TemporaryDirectory() as folder:
                since = time.perf_counter()
                fitted(case, seed, TIMES, checkpoint=Path(folder, "plain.ckpt"), checkpoint_every=0)
                seconds = time.perf_counter() - since
                ours, some, parts = killed_at_random(case, rng, folder, seconds, seed)
            kills, within, fits = kills + some, within + parts, fits + 1
            different |= set(differences(ours, plain))
        totals += kills, within, fits
        failures += [case] if different else []
        print(
            f"{case:34} {kills:5} {within:12} {fits:5}  {', '.join(sorted(different)) or 'the same bits'}", flush=True
        )
    print(f"{'all':34} {totals[0]:5} {totals[1]:12} {totals[2]:5}  {len(failures)} of {len(CASES)} differ")
    return failures


if __name__ == "__main__":
    how, number = sys.argv[1], int(sys.argv[2])
    if how == "counted":
        print(json.dumps(counted(number)))
    else:
        sys.exit(bool(at_random(number)))
