"""Importing the package is nearly free."""

import os
import subprocess
import sys

import pytest

import widemargin


def python(script):
    """What the script prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_importing_the_package_loads_no_heavy_library():
    loaded = python("import sys, widemargin; print(*{name.split('.')[0] for name in sys.modules})")
    assert "widemargin" in loaded
    heavy = {"numba", "sklearn", "scipy", "numpy", "pandas", "matplotlib", "rich", "dask", "distributed"}
    assert not heavy & set(loaded)


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
