"""Importing the package is nearly free, and the first fit starts from the cache on disk."""

import os
import statistics
import subprocess
import sys
import time

import pytest

import widemargin


def python(script):
    """What the script prints in a process of its own, with the cache of machine code that this one has."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def seconds_of(script):
    began = time.perf_counter()
    python(script)
    return time.perf_counter() - began


def test_importing_the_package_loads_no_heavy_library():
    loaded = python("import sys, widemargin; print(*{name.split('.')[0] for name in sys.modules})")
    assert "widemargin" in loaded
    assert not {"numba", "sklearn", "scipy", "numpy", "pandas", "matplotlib", "rich"} & set(loaded)


def test_importing_the_package_takes_under_150_milliseconds():
    """Beyond Python itself; alternated, so that a busy moment of the machine hits both, and the median taken."""
    extra = [seconds_of("import widemargin") - seconds_of("pass") for _ in range(7)]
    assert statistics.median(extra) < 0.15


def test_public_names_come_on_first_use_and_are_listed():
    assert set(widemargin.__all__) <= set(dir(widemargin))
    for name in widemargin.__all__:
        assert getattr(widemargin, name) is getattr(widemargin, name)
    assert widemargin.LinearSVC.__module__ == "widemargin.estimators.linear"


def test_an_unknown_name_is_a_sentence_with_the_names_there_are():
    with pytest.raises(AttributeError, match=r"widemargin has no 'SVMC'; it has .*LinearSVC.*Pegasos"):
        _ = widemargin.SVMC
    with pytest.raises(ImportError):
        exec("from widemargin import SVMC", {})


FIRST_FIT = """
import sys, time
import numpy, scipy.sparse, numba, sklearn.linear_model
from widemargin import LinearSVC
began = time.perf_counter()
X = numpy.random.default_rng(0).normal(size=(100, 5))
LinearSVC(random_state=0).fit(X, X[:, 0] > 0)
print(time.perf_counter() - began)
"""


def test_the_first_fit_of_a_second_process_takes_under_a_second():
    python(FIRST_FIT)  # fills the cache
    seconds = [float(python(FIRST_FIT)[0]) for _ in range(3)]
    assert statistics.median(seconds) < 1.0
