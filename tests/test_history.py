"""History, counters and the stopwatch."""

import sys

import numpy as np
import pytest

from widemargin import files
from widemargin.history import Counters, History, Stopwatch


def test_counters_become_columns_beside_what_was_measured():
    history = History()
    history.append(Counters(steps=10, visits=20, updates=5, feature_reads=100), seconds=0.5, objective=1.25)
    assert history.columns == [
        "steps", "visits", "updates", "feature_reads", "kernel_evals", "kernel_computed", "seconds", "objective",
    ]  # fmt: skip
    assert [list(row.values()) for row in history] == [[10, 20, 5, 100, 0, 0, 0.5, 1.25]]


def test_a_row_keeps_the_counters_of_its_moment():
    history, counters = History(), Counters(steps=1)
    history.append(counters)
    counters.steps = 2
    history.append(counters)
    np.testing.assert_array_equal(history["steps"], [1, 2])


def test_what_a_row_lacks_is_nan():
    history = History()
    history.append(objective=2.0)
    history.append(objective=1.0, gap=0.5)
    np.testing.assert_array_equal(history["gap"], [np.nan, 0.5])
    assert history.columns == ["objective", "gap"]
    assert len(history) == 2
    assert [row["objective"] for row in history] == [2.0, 1.0]


def test_an_unknown_column_is_named_with_those_there_are():
    history = History()
    with pytest.raises(KeyError, match="no column 'gap'; it has none"):
        history["gap"]
    history.append(objective=1.0, seconds=0.1)
    with pytest.raises(KeyError, match="no column 'gap'; it has objective, seconds"):
        history["gap"]


def test_a_history_becomes_a_data_frame():
    pytest.importorskip("pandas")
    history = History()
    history.append(Counters(steps=3), objective=2.0)
    history.append(Counters(steps=6), objective=1.0, validation_error=0.25)
    frame = history.to_frame()
    assert list(frame.columns) == history.columns
    for name in history.columns:
        np.testing.assert_array_equal(frame[name].to_numpy(), history[name])
    assert list(History().to_frame().columns) == []


def test_a_frame_without_pandas_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame needs pandas: pip install pandas, or .*history\["):
        History().to_frame()


def test_a_stopwatch_counts_only_while_it_runs(clock):
    watch = Stopwatch()
    assert watch.seconds == 0.0
    for _ in range(2):
        with watch:
            clock.sleep(2.0)
        clock.sleep(5.0)
    assert watch.seconds == 4.0
    clock.tick = 1.0  # at the look when it starts, and at the look when it ends
    with pytest.raises(RuntimeError), watch:
        raise RuntimeError
    clock.sleep(5.0)
    assert watch.seconds == 5.0


def test_a_history_of_gaps_that_are_not_proven_yet_is_saved(tmp_path):
    history = History()
    for gap in (np.inf, np.nan, 0.5):
        history.append(seconds=0.1, gap=gap)
    files.dump(tmp_path / "history.npz", history)
    np.testing.assert_array_equal(files.load(tmp_path / "history.npz")["gap"], history["gap"])
