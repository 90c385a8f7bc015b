"""``warmup``: what it compiles is what fits need, a second call compiles nothing, and errors are sentences."""

import shutil

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fresh
import widemargin
from widemargin import SVC, LinearSVC, warming, warmup
from widemargin.core.borrowing import KNOWN
from widemargin.core.compiling.machine_code import Folders

#: No main module that a child could import, as at a prompt or in a notebook. The second warm-up runs in this process,
#: which has compiled nothing.
PROMPT = """
import sys
import warnings
import numpy as np
import widemargin
kind = {"dtypes": "float64", "layouts": "dense", "n_jobs": 1, "verbose": 1}
try:
    widemargin.warmup(["LinearSVC", widemargin.SVC(kernel="precomputed")], **kind)
except RuntimeError as failure:
    print(failure)
sys.frozen = True
again = widemargin.warmup("LinearSVC", **kind)
print(list(again), sum(each.compiled for each in again.values()))

from numba.core import event
warnings.simplefilter("ignore")
rng = np.random.default_rng(1)
X = rng.normal(size=(3000, 20))
y = X[:, 0] + rng.normal(size=3000)
with event.install_recorder("numba:compile") as compilations:
    for target in (y > 0, np.digitize(y, [-0.5, 0.5])):
        for more in ({}, {"max_iter": 1}, {"intercept": "regularized"}):
            model = widemargin.LinearSVC(**more).fit(X, target, sample_weight=rng.random(3000))
            model.partial_fit(X[:10], target[:10]).decision_function(X)
print(len(compilations.buffer))
"""


@pytest.mark.skipif(not KNOWN, reason="with everyday Numba alone no machine code is kept on disk")
def test_fits_compile_nothing_after_a_warmup_nor_does_a_second_one_and_what_cannot_be_fitted_is_named():
    done = fresh.run(PROMPT)
    assert done.returncode == 0, done.stderr
    failure, *told = done.stdout.splitlines()
    assert failure.startswith("warmup of SVC(kernel='precomputed'), float64, dense failed: ValueError: ")
    assert told == ["['LinearSVC, float64, dense'] 0", "0"]
    lines = [line for line in done.stderr.splitlines() if line.startswith("widemargin.warmup: LinearSVC")]
    assert [line[-8:] for line in lines] == ["(1 of 2)", "(1 of 1)"]
    assert "nothing to compile" in lines[1]


def test_both_solvers_that_auto_may_be_are_warmed_and_pairs_of_classes(monkeypatch):
    used = []
    monkeypatch.setattr(warming, "_use", lambda estimator, X, y, variant: used.append((variant, np.unique(y).size)))
    for estimator, is_auto in ((LinearSVC(), True), (LinearSVC(solver="sdca"), False), (SVC(), False)):
        used.clear()
        warming._warm(warming._Part("", estimator, "float64", "dense"))
        assert ({"solver": "interior"} in [variant for variant, _ in used]) is is_auto
        assert {classes for _, classes in used} == {2, 3}


def test_options_that_only_fit_has_are_warmed_too():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    estimator = LinearSVC(intercept="search")
    with pytest.raises(ValueError, match="fit"):
        estimator.fit(X, y).partial_fit(X, y)
    warming._use(estimator, X, y, {"max_iter": 1})


def test_every_estimator_has_a_name():
    estimators = {name for name in widemargin.__all__ if hasattr(getattr(widemargin, name), "fit")}
    assert estimators <= set(warming.NAMED) <= set(widemargin.__all__)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"estimators": "SVMC"}, ValueError, "'BudgetedSVC', .*'SVR'.*, got 'SVMC'"),
        (
            {"estimators": ["SVC", LogisticRegression()]},
            ValueError,
            "of widemargin, got LogisticRegression",
        ),
        ({"estimators": 3}, ValueError, "got 3"),
        ({"estimators": []}, ValueError, "nothing to compile"),
        ({"dtypes": "float16"}, ValueError, "dtypes must be one of 'float64', 'float32', got 'float16'"),
        ({"layouts": ["dense", "csc"]}, ValueError, "layouts must be one of 'dense', 'sparse', got 'csc'"),
        ({"n_jobs": 0}, ValueError, "n_jobs must not be 0"),
        ({"n_jobs": 1.5}, TypeError, "n_jobs must be None or an integer, got 1.5"),
    ],
)
def test_arguments_are_refused_in_a_sentence(arguments, error, words):
    with pytest.raises(error, match=words):
        warmup(**arguments)


@pytest.mark.skipif(shutil.which("false") is None, reason="there is no program that ends at once")
def test_a_process_that_ends_is_an_error_and_not_a_wait(monkeypatch):
    monkeypatch.setattr(warming, "get_executable", lambda: shutil.which("false"))
    with pytest.raises(RuntimeError, match="the process ended with status 1"):
        warmup("SVC", n_jobs=2)


def test_where_nothing_can_be_kept_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr(warming, "folders", lambda chosen: Folders([], None))
    with pytest.raises(RuntimeError, match="set NUMBA_CACHE_DIR"):
        warmup()
