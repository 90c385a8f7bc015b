"""Shared by all tests: a folder for machine code, and small problems."""

import atexit
import gc
import os
import signal
import time
from pathlib import Path

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba_cache"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# compiled code makes the first example slow; deadlines would measure the compiler
settings.register_profile("widemargin", deadline=None, print_blob=True)
settings.load_profile("widemargin")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell that starts the suite behind it with & says so
    signal.signal(signal.SIGINT, signal.default_int_handler)


def leave(process: int = os.getpid()) -> None:
    """End this process, but not its children, at once: to take a heap full of machine code apart takes seconds."""
    if os.getpid() == process:
        os._exit(0)


if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(leave)
    # what is imported and collected stays to the end: Python's collector of garbage would walk over all of it in vain
    gc.disable()

#: Benchmark data in LIBSVM text: the folder that WIDEMARGIN_DATA names, or one beside the checkout.
DATA = Path(os.environ.get("WIDEMARGIN_DATA", Path(__file__).parents[2] / "shared" / "data"))


class Backwards(pytest.Dir):
    """A folder whose last file is collected first."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        return [*super().collect()][::-1]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Of two processes that collect at once, one begins at the end. Half of what collecting takes is pytest's rewriting
    of assertions, whose result is kept beside the tests: so each file is rewritten by one of them, not by both.
    """
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        return None
    return Backwards.from_parent(parent, path=path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All processes have one order.

    Two checks of scikit-learn cannot hold wherever they are expected to fail, and take longest: they are not run.
    """
    items.sort(key=lambda item: item.path)
    for item in items:
        reasons = [mark.kwargs.get("reason") for mark in item.iter_markers("xfail")]
        if reasons and "check_sample_weight_equivalence_on_" in item.name:
            item.add_marker(pytest.mark.xfail(reason=reasons[0], run=False), append=False)


def pytest_collection_finish() -> None:
    """From here on there is garbage; what is there by now is none."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh random numbers in every run: tests must pass for any seed. The seed is shown when one fails."""
    seed = int(os.environ.get("WIDEMARGIN_SEED", np.random.SeedSequence().entropy % 2**32))
    request.node.user_properties.append(("seed", seed))
    print(f"WIDEMARGIN_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def each_press_is_a_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C in one fit does not make the next one, in another, a second one, however soon that comes."""
    from widemargin.core.threads import interrupts

    monkeypatch.setattr(interrupts, "AGAIN", -1.0)


class Clock:
    """Stands in for ``time.perf_counter``: time passes when a test says so, and ``tick`` seconds at each look."""

    def __init__(self) -> None:
        self.now, self.tick = 1000.0, 0.0

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that everything is measured by during a test; it does not know how busy the machine is."""
    fake = Clock()
    monkeypatch.setattr(time, "perf_counter", fake)
    return fake


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of benchmark data; tests that need it skip where it is absent."""
    if not DATA.is_dir():
        pytest.skip("there is no benchmark data: set WIDEMARGIN_DATA to its folder")
    return DATA


@pytest.fixture
def matrices(monkeypatch: pytest.MonkeyPatch) -> list:
    """The kernel matrices that problems make during a test, as they are made."""
    from widemargin.problems.kernel import KernelProblem

    made, original = [], KernelProblem.matrix

    def recorded(self, *sides):
        made.append(original(self, *sides))
        return made[-1]

    monkeypatch.setattr(KernelProblem, "matrix", recorded)
    return made
