"""Press Ctrl-C at random moments of all that takes long, and count what becomes of it.

``python tests/signalling.py 200`` sends 200 signals. Each must be heard: the call ends with ``stop_reason_``
"interrupted", or raises ``KeyboardInterrupt``. Children do the work, so that one that dies is counted and replaced.
They warm up first, but for those that start cold. How late a signal was heard is measured on the processor time of the
thread that it belongs to, since other processes may run.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

#: Seconds of the thread's own time, at most, from a signal to the end of the call, compilation apart.
PROMPT = 0.2
#: Seconds of that time between two presses.
BETWEEN = 0.3

WORKS = {}


def work(function):
    """A kind of work: a function that prepares data, and returns what is to be interrupted."""
    WORKS[function.__name__] = function
    return function


def _moons(n, d, seed=0, dtype="float64"):
    import numpy as np

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(int)


def _sparse(n, d, share, seed=0):
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    X = sp.random(n, d, share, format="csr", random_state=rng)
    return X, (X @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0).astype(int)


def _classes(n, d, k):
    import numpy as np

    X, _ = _moons(n, d)
    return X, np.random.default_rng(1).integers(k, size=n)


def _fit(name, data, **parameters):
    import widemargin

    model = getattr(widemargin, name)(**{"random_state": 0, **parameters})
    return lambda: model.fit(*data)


@work
def linear_sdca():
    return _fit("LinearSVC", _moons(60_000, 50), solver="sdca", C=10.0, tol=1e-9, max_iter=200)


@work
def linear_sdca_sparse():
    return _fit("LinearSVC", _sparse(30_000, 5_000, 0.01), solver="sdca", C=100.0, tol=1e-9)


@work
def linear_interior():
    return _fit("LinearSVC", _moons(100_000, 50), solver="interior", C=10.0, tol=1e-9)


@work
def linear_interior_wide():
    return _fit("LinearSVC", _moons(20_000, 600), solver="interior", C=10.0, tol=1e-9, max_iter=8)


@work
def linear_pegasos():
    return _fit("LinearSVC", _moons(60_000, 50), solver="pegasos", tol=0, max_iter=60)


@work
def linear_simba():
    return _fit("LinearSVC", _moons(20_000, 50), solver="simba", max_iter=5)


@work
def linear_regression():
    return _fit("LinearSVR", _moons(60_000, 50), C=10.0, tol=1e-9)


@work
def kernel_smo():
    return _fit("SVC", _moons(6_000, 20), C=10.0)


@work
def kernel_smo_sparse():
    return _fit("SVC", _sparse(5_000, 2_000, 0.02), C=10.0)


@work
def kernel_smo_threads():
    return _fit("SVC", _moons(6_000, 20), C=10.0, n_jobs=2)


@work
def kernel_limited():
    return _fit("SVC", _moons(20_000, 20), C=10.0, max_seconds=3)


@work
def kernel_sbp():
    return _fit("SVC", _moons(8_000, 20), C=10.0, solver="sbp")


@work
def kernel_pairs():
    return _fit("SVC", _classes(3_000, 10, 12), C=10.0)


@work
def kernel_classes():
    return _fit("SVC", _classes(4_000, 10, 3), C=10.0, n_jobs=2)


@work
def kernel_regression():
    return _fit("SVR", _moons(5_000, 20), C=10.0)


@work
def budgeted_fit():
    return _fit("BudgetedSVC", _moons(20_000, 20), budget=200, max_iter=5)


@work
def budgeted_stream():
    import widemargin

    X, y = _moons(20_000, 20)
    return lambda: widemargin.BudgetedSVC(budget=200, random_state=0).partial_fit(X, y, classes=[0, 1])


@work
def incremental_fit():
    return _fit("IncrementalSVC", _moons(4_000, 10), C=10.0)


@work
def incremental_finish():
    import copy

    import widemargin

    model = widemargin.IncrementalSVC(C=10.0, random_state=0).fit(*_moons(3_000, 10))
    return lambda: copy.deepcopy(model).finish(1e-6)


def _trained(name, *data, **parameters):
    return _fit(name, data, **parameters)()


@work
def predict_kernel():
    model, (X, _) = _trained("SVC", *_moons(3_000, 20), C=10.0), _moons(60_000, 20, seed=1)
    return lambda: model.decision_function(X)


@work
def predict_pairs():
    model, (X, _) = _trained("SVC", *_classes(2_000, 10, 8), C=1.0), _moons(40_000, 10, seed=1)
    return lambda: model.predict(X)


@work
def predict_budgeted():
    model, (X, _) = _trained("BudgetedSVC", *_moons(5_000, 20), budget=500), _moons(200_000, 20, seed=1)
    return lambda: model.predict(X)


@work
def incremental_unlearn():
    import copy

    model = _trained("IncrementalSVC", *_moons(3_000, 20))
    return lambda: copy.deepcopy(model).unlearn(model.support_[::5], repair=1e-6)


@work
def predict_incremental():
    model, (X, _) = _trained("IncrementalSVC", *_moons(3_000, 20)), _moons(100_000, 20, seed=1)
    return lambda: model.predict(X)


@work
def path():
    import widemargin

    X, y = _moons(3_000, 20)
    return lambda: widemargin.svm_path(X, y, [0.01, 0.1, 1.0, 10.0, 100.0])


@work
def pareto():
    import widemargin

    X, y = _moons(3_000, 10)
    return lambda: widemargin.pareto_path(X, y, nus=[0.3, 0.1, 0.03], max_iter=20)


@work
def grid():
    import widemargin

    X, y = _moons(1_500, 10)
    return lambda: widemargin.svm_grid(X, y, [0.1, 1.0, 10.0], gammas=[0.01, 0.1], cv=3)


@work
def compress_by_merging():
    import widemargin

    model = _trained("SVC", *_moons(4_000, 10), C=10.0)
    return lambda: widemargin.compress(model, 100, "merge")


@work
def compress_by_projecting():
    import widemargin

    model = _trained("SVC", *_moons(4_000, 10), C=10.0)
    return lambda: widemargin.compress(model, 100, "project")


@work
def grid_search():
    from sklearn.model_selection import GridSearchCV

    import widemargin

    X, y = _moons(1_500, 10)
    search = GridSearchCV(widemargin.SVC(), {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.03, 0.3]}, cv=3)
    return lambda: search.fit(X, y)


@work
def teaching():
    import widemargin
    from widemargin.teaching import teach

    X, y = _moons(4_000, 10)
    return lambda: teach(
        widemargin.IncrementalSVC(random_state=0), X, widemargin.teaching.ActiveTeacher(), y, labels=300
    )


# ---------------------------------------------------------------- the child


class Presser(threading.Thread):
    """Presses Ctrl-C when the main thread has used so much of the processor, and again later if it is to."""

    def __init__(self, at, presses):
        super().__init__(daemon=True)
        self.clock = time.pthread_getcpuclockid(threading.main_thread().ident)
        self.at, self.presses, self.sent, self.over = at, presses, [], threading.Event()
        self.lock = threading.Lock()

    def run(self):
        due = self.at
        while not self.over.wait(5e-4):
            used = time.clock_gettime(self.clock)
            if used >= due:
                with self.lock:  # so that none is sent when the call is over
                    if self.over.is_set():
                        return
                    self.sent.append(time.clock_gettime(self.clock))
                    os.kill(os.getpid(), signal.SIGINT)
                if len(self.sent) == self.presses:
                    return
                due = used + BETWEEN


def told(found, seconds):
    """Whether what a call returned says that it was interrupted."""
    if getattr(found, "stop_reason_", getattr(found, "stop_reason", "")) == "interrupted":
        return True
    models = found if isinstance(found, list) else getattr(found, "models", [])
    if any(model.stop_reason_ == "interrupted" for model in models):
        return True
    scores = getattr(found, "scores", None)
    return scores is not None and bool((scores != scores).any())  # a grid has NaN where nothing was trained


def press(run, at, presses):
    """What became of a call that is interrupted: ("raised", "ended", "lost" or "over", seconds from the last press)."""
    presser, found = Presser(time.thread_time() + at, presses), None
    outcome = ""
    try:
        presser.start()
        try:
            found = run()
        finally:
            with presser.lock:
                presser.over.set()
            heard = time.thread_time()
    except KeyboardInterrupt:
        outcome = "raised"
        heard = time.thread_time()
    presser.over.set()
    presser.join()
    if not presser.sent or (len(presser.sent) < presses and hasattr(found, "best_estimator_")):
        return "over", 0.0  # a search was over before the last press
    late = heard - presser.sent[-1]
    if not outcome:
        outcome = "ended" if told(found, late) else "lost"
    if len(presser.sent) == 2 and outcome != "raised":
        outcome = "lost"
    return outcome, late


def child(name, count, seed, cold):
    """Interrupt so many calls, and say of each what became of it."""
    import warnings

    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    run = WORKS[name]()
    lasts = 10.0
    if not cold:
        run()
        since = time.thread_time()
        run()
        lasts = time.thread_time() - since
    print(json.dumps(["lasts", lasts]), flush=True)
    left = count
    for _ in range(20 * count):
        if not left:
            break
        # one press ends a fit of a search, which goes on
        presses, at = 2 if name == "grid_search" else rng.choice([1, 1, 2]), lasts * rng.random()
        if presses == 1:
            time.sleep(3.1)  # so that it is a first one
        outcome, late = press(run, at, presses)
        if outcome == "over":
            continue
        left -= 1
        print(json.dumps([outcome, late, presses, at]), flush=True)
        if cold:
            break


# ---------------------------------------------------------------- the parent


def interrupted(name, count, seed, cold=False):
    """(outcome, seconds late, presses) of so many signals in children, which are replaced when they die."""
    found = []
    while len(found) < count:
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cold else {})}
            left = 1 if cold else count - len(found)
            words = [sys.executable, __file__, "--child", name, str(left), str(seed + len(found))]
            done = subprocess.run(
                words + ["--cold"] * cold, env=environment, capture_output=True, text=True, timeout=1800
            )
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        said = [each for each in said if each[0] != "lasts"]
        found += said
        if done.returncode < 0:
            found.append([f"died by {signal.Signals(-done.returncode).name}", 0.0, 0, 0.0])
        elif done.returncode or not said:
            found.append(["failed: " + " ".join(done.stderr.split())[-200:], 0.0, 0, 0.0])
    return found


def command(seed):
    """What becomes of ``widemargin train`` interrupted at a random moment, and the processor time until its end."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder) / "data.libsvm", Path(folder) / "model.npz"
        X, y = _moons(8_000, 20)
        data.write_text(
            "".join(
                f"{label} " + " ".join(f"{q + 1}:{value:.4f}" for q, value in enumerate(row)) + "\n"
                for row, label in zip(X, y, strict=True)
            )
        )
        words = [
            sys.executable,
            "-m",
            "widemargin",
            "train",
            str(data),
            "-o",
            str(model),
            "--kernel",
            "rbf",
            "-C",
            "100",
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "widemargin", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        clock = Path(f"/proc/{process.pid}/stat")
        until, ticks = rng.uniform(0.3, 6.0), os.sysconf("SC_CLK_TCK")

        def used():
            return sum(map(int, clock.read_text().rsplit(")", 1)[1].split()[11:13])) / ticks

        try:
            while used() < until:
                time.sleep(2e-3)
            sent = used()
            os.kill(process.pid, signal.SIGINT)
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            process.communicate()
            return ["over", 0.0, 1, until]
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
    late = usage.ru_utime + usage.ru_stime - sent
    if code in (130, -signal.SIGINT):
        return ["ended" if "the model" in said else "raised", late, 1, until]
    return [f"died by {signal.Signals(-code).name}" if code < 0 else "lost", late, 1, until]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("signals", type=int, nargs="?", default=200)
    parser.add_argument("--only", default="", help="kinds of work, by parts of their names with commas between")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--child", nargs=3)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    if given.child:
        name, count, seed = given.child
        return child(name, int(count), int(seed), given.cold)
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    names = [(name, False) for name in WORKS] + [("linear_sdca", True), ("kernel_smo", True), ("command", False)]
    names = [(name, cold) for name, cold in names if any(part in name for part in given.only.split(","))]
    each = -(-given.signals // len(names))
    print(f"seed {seed}: {each} signals for each of {len(names)} kinds of work; late: more than {PROMPT} s", flush=True)
    print(f"{'':24}{'ended':>7}{'raised':>8}{'lost':>6}{'died':>6}{'late':>6}{'median s':>10}{'most s':>8}", flush=True)
    total = Counter()
    for name, cold in names:
        found = [command(seed + k) for k in range(each)] if name == "command" else interrupted(name, each, seed, cold)
        found = [one for one in found if one[0] != "over"]
        counts = Counter(outcome.split(" by ")[0].split(":")[0] for outcome, *_ in found)
        delays = sorted(late for outcome, late, *_ in found if outcome in ("ended", "raised")) or [float("nan")]
        counts["late"] = 0 if cold or name == "command" else sum(late > PROMPT for late in delays)
        total += counts
        shown = f"{name}{' (cold)' if cold else ''}"
        row = "".join(
            f"{counts[word]:>{width}}"
            for word, width in (("ended", 7), ("raised", 8), ("lost", 6), ("died", 6), ("late", 6))
        )
        print(f"{shown:24}{row}{delays[len(delays) // 2]:>10.3f}{delays[-1]:>8.3f}", flush=True)
        for outcome, _, presses, at in found:
            if outcome not in ("ended", "raised"):
                print(f"    {outcome}: {presses} pressed at {at:.3f} s of its time", flush=True)
    print("in all: " + ", ".join(f"{count} {word}" for word, count in sorted(total.items())))
    return int(bool(total["lost"] + total["died"] + total["failed"]))


if __name__ == "__main__":
    sys.exit(main())
