"""Texts that docstrings share are put in at import, and none is left over."""

import re
import subprocess
import sys
from pathlib import Path

from widemargin.estimators.fit.parameters import ENTRIES, documented

SOURCES = Path(__file__).parents[3] / "src" / "widemargin"
MARKED = re.compile(r"(?m)^ +\{(\w+)(?::(\w+))?\}$")


def test_every_entry_is_used_and_every_marker_has_an_entry():
    text = "\n".join(path.read_text() for room in ("estimators", "dask") for path in (SOURCES / room).glob("*.py"))
    used = {f"{name} [{variant}]" if variant else name for name, variant in MARKED.findall(text)}
    assert used == set(ENTRIES)


def test_a_marker_becomes_its_entry_with_the_default_of_the_signature():
    @documented
    def train(C=2.5, budget=7, **parameters):
        """Train.

        Parameters
        ----------
        {C}
        {budget}
            More is slower.
        {parameters}
        """

    lines = train.__doc__.splitlines()
    assert lines[4] == "C : float, default=2.5"
    assert "budget : int, default=7" in lines
    assert lines[lines.index("    More is slower.") - 1] == "    Largest number of support vectors."
    assert "**parameters : values" in lines


def test_methods_that_decorators_wrap_are_filled_too():
    from widemargin import LinearSVC

    for method in (LinearSVC.fit, LinearSVC.predict_proba):
        assert "{X" not in method.__doc__
        assert "X : array" in method.__doc__


def test_without_docstrings_nothing_is_filled():
    script = "from widemargin import SVC; assert SVC.__doc__ is None and SVC.fit.__doc__ is None; print(SVC().C)"
    done = subprocess.run([sys.executable, "-OO", "-c", script], capture_output=True, text=True, timeout=300)
    assert done.stdout == "1.0\n", done.stderr
