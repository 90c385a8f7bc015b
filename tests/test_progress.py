"""The progress line: what it says, where it goes, and that it changes nothing."""

import builtins
import re
import sys
import types

import numpy as np
import pytest

from widemargin import LinearSVC
from widemargin.history import History
from widemargin.progress import ProgressBar
from widemargin.running import Progress

QUICK = {"solver": "pegasos", "tol": 0, "max_iter": 5, "random_state": 0}


def progress(rows=()):
    """A run half through its four epochs of 100 steps, a second each."""
    return Progress(None, None, None, History(list(rows)), steps=200, epochs=2.0, max_epochs=4.0, seconds=2.0)


def test_a_progress_bar_is_shown_on_standard_error_and_changes_nothing(rng, capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "200")  # a narrow terminal shortens the columns
    X = rng.normal(size=(200, 4))
    y = X[:, 0] > 0
    silent = LinearSVC(**QUICK).fit(X, y)
    assert capsys.readouterr() == ("", "")
    shown = LinearSVC(**QUICK, verbose=1).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    for part in ("LinearSVC", "epoch 5/5", "objective", "steps/s", "left"):
        assert part in err
    np.testing.assert_array_equal(shown.coef_, silent.coef_)
    np.testing.assert_array_equal(shown.history_["objective"], silent.history_["objective"])


@pytest.fixture
def without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)


@pytest.mark.usefixtures("without_rich")
def test_without_rich_each_checkpoint_is_a_line_and_a_slice_none(capsys):
    with ProgressBar("Title") as bar:
        bar.on_slice(progress())
        assert capsys.readouterr() == ("", "")
        bar.on_checkpoint(progress([{"objective": 0.25, "gap": 0.125}]))
    assert capsys.readouterr() == ("", "Title: epoch 2/4 · objective 0.25 · gap 0.125 · 100 steps/s\n")


@pytest.mark.usefixtures("without_rich")
def test_the_line_tells_the_newest_row_and_only_what_was_measured(capsys):
    with ProgressBar("Title") as bar:
        bar.on_checkpoint(progress())
        bar.on_checkpoint(progress([{"objective": 1.0}, {"objective": 0.5, "validation_error": 0.1}]))
    assert capsys.readouterr().err.splitlines() == [
        "Title: epoch 2/4 · 100 steps/s",
        "Title: epoch 2/4 · objective 0.5 · validation 0.1 · 100 steps/s",
    ]


def test_where_there_is_no_terminal_a_bar_writes_its_last_state_once(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "200")
    with ProgressBar("Title") as bar:
        bar.on_slice(progress())
        bar.on_checkpoint(progress([{"objective": 0.25}]))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("Title") == 1
    assert "epoch 2/4 · objective 0.25 · 100 steps/s" in err


def test_a_bar_is_taken_down_when_the_run_fails(capsys):
    pytest.importorskip("rich")
    bar = ProgressBar("Title")
    with pytest.raises(RuntimeError), bar:
        raise RuntimeError
    assert bar._bar.live.is_started is False


class Output:
    """A cell's output as ``ipywidgets`` has it: what was displayed since the last clearing."""

    made: list["Output"] = []

    def __init__(self):
        self.texts, self.clearings = [], 0
        Output.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None

    def clear_output(self, wait):
        self.clearings += 1
        self.texts.clear()


@pytest.fixture
def notebook(monkeypatch):
    """A notebook as ``rich`` looks for it: get_ipython of a kernel, IPython.display."""
    pytest.importorskip("rich")
    monkeypatch.setattr(Output, "made", [])
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    display = types.ModuleType("IPython.display")

    def show(thing, **options):
        if not isinstance(thing, Output):
            Output.made[-1].texts.append(thing.text)

    display.display = show
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    return monkeypatch


def test_a_notebook_with_widgets_shows_the_bar_in_the_cell(notebook, capsys):
    widgets = types.ModuleType("ipywidgets")
    widgets.Output = Output
    notebook.setenv("JUPYTER_COLUMNS", "200")
    notebook.setitem(sys.modules, "ipywidgets", widgets)
    with ProgressBar("Title") as bar:
        bar.on_slice(progress())
        bar.on_checkpoint(progress([{"objective": 0.25}]))
    assert capsys.readouterr() == ("", "")
    (cell,) = Output.made
    assert cell.clearings > 0  # the bar moves in its place
    shown = [text for text in cell.texts if text.strip()]
    assert len(shown) == 1, shown
    assert "epoch 2/4 · objective 0.25 · 100 steps/s" in re.sub(r"\x1b\[[\d;]*m", "", shown[0])


@pytest.mark.filterwarnings("error")
def test_a_notebook_without_widgets_has_a_line_at_each_checkpoint(notebook, capsys):
    with ProgressBar("Title") as bar:
        bar.on_slice(progress())
        bar.on_checkpoint(progress([{"objective": 0.25, "gap": 0.125}]))
    assert capsys.readouterr() == ("", "Title: epoch 2/4 · objective 0.25 · gap 0.125 · 100 steps/s\n")
