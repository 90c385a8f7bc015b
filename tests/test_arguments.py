"""Arguments of users: numbers as they are meant, and a sentence for all else."""

import os

import numpy as np
import pytest

from widemargin.arguments import flag, threads


def test_jobs_are_counted_as_in_scikit_learn(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert [threads(n_jobs) for n_jobs in (None, 1, 3, -1, -2, -8, -20)] == [1, 1, 3, 8, 7, 1, 1]


@pytest.mark.parametrize("value", [None, 0, 1, "yes", []])
def test_a_flag_is_true_or_false(value):
    flag("shrinking", True)
    flag("shrinking", np.False_)
    with pytest.raises(TypeError, match="shrinking must be True or False, got"):
        flag("shrinking", value)
