"""Figures show the columns they are asked for."""

import numpy as np
import pytest

from widemargin import plots
from widemargin.history import History

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def history(**columns):
    made = History()
    for row in zip(*columns.values(), strict=True):
        made.append(**dict(zip(columns, row, strict=True)))
    return made


def test_convergence_draws_columns_of_integers_and_of_floats():
    first = history(labels=[10, 20, 40], test_error=[0.5, 0.25, 0.125])
    second = history(labels=[10, 20], test_error=[0.4, np.nan])
    axes = plots.convergence({"one": first, "two": second}, x="labels", y="test_error")
    lines = axes.get_lines()
    np.testing.assert_array_equal(lines[0].get_xydata(), [[10, 0.5], [20, 0.25], [40, 0.125]])
    np.testing.assert_array_equal(lines[1].get_xydata(), [[10, 0.4]])  # what is unknown is not drawn
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("labels", "test error", "log")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    above = plots.convergence(history(steps=[0, 1], objective=[2.0, 1.5]), x="steps", optimum=1.5)
    assert above.get_yscale() == "log"
    assert above.get_xscale() == "linear"
    with pytest.raises(TypeError, match="call fit first"):
        plots.convergence(3)
