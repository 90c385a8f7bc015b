"""Successive halving: the laws of its rungs, on machines whose errors are known, and on real ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from widemargin import SVC, LinearSVC
from widemargin.estimators import halving
from widemargin.estimators.halving import nested, sizes, successive_halving


class Known(ClassifierMixin, BaseEstimator):
    """Is wrong on as many of 1000 rows as ``wrong`` says of (C, rows)."""

    def __init__(self, wrong=None, C=1.0, warm_start=False, max_seconds=None):
        self.wrong, self.C, self.warm_start, self.max_seconds = wrong, C, warm_start, max_seconds

    def fit(self, X, y):
        self.errors_, self.stop_reason_ = self.wrong(self.C, y.size), "tol"
        return self

    def predict(self, X):
        return np.arange(X.shape[0]) < self.errors_


HELD = np.zeros((1000, 1)), np.zeros(1000, bool)
CS = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]


def search(wrong, n=900, **options):
    return successive_halving(
        Known(wrong), (np.zeros((n, 1)), np.arange(n) % 2 == 0), HELD, Cs=CS, **{"min_rows": 100, **options}
    )


@given(st.integers(2, 10**7), st.integers(1, 500), st.integers(2, 5), st.integers(1, 5000))
def test_rungs_grow_by_the_factor_up_to_all_rows(n, candidates, factor, min_rows):
    found = sizes(n, candidates, factor, min_rows)
    assert found[-1] == n
    assert all(small == math.ceil(n / factor**k) for k, small in enumerate(reversed(found)))
    assert len(found) == 1 or found[0] >= min_rows
    left = candidates
    for _ in found[1:]:
        left = math.ceil(left / factor)
    assert left > 1 or candidates == 1 or len(found) == 1  # the last rung has something to compare


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200), st.integers(0, 2**32 - 1))
def test_every_beginning_has_each_class_in_its_proportion(y, seed):
    y = np.array(y)
    order = nested(y, True, np.random.default_rng(seed))
    assert np.array_equal(np.sort(order), np.arange(y.size))
    classes, counts = np.unique(y, return_counts=True)
    assert np.unique(y[order[: classes.size]]).size == classes.size
    for label, count in zip(classes, counts):
        so_far = np.cumsum(y[order] == label)
        expected = np.arange(1, y.size + 1) * count / y.size
        assert np.abs(so_far - expected).max() <= classes.size


@given(st.lists(st.integers(0, 1000), min_size=27, max_size=27))
def test_the_best_of_each_rung_go_on_and_the_best_of_the_last_wins(errors):
    table = {(C, rows): errors[3 * i + k] for i, C in enumerate(CS) for k, rows in enumerate((100, 300, 900))}
    found = search(lambda C, rows: table[C, rows])
    assert found.stop_reason == "done"
    assert [(rung.rows, len(rung.tried), rung.whole) for rung in found.rungs] == [(300, 9, True), (900, 3, True)]
    first, last = found.rungs
    for rung in found.rungs:
        assert all(each.error == table[each.C, rung.rows] / 1000 for each in rung.tried)
        assert [each.C for each in rung.tried] == sorted(each.C for each in rung.tried)
    ranked = sorted(CS, key=lambda C: (table[C, 300], C))
    assert {each.C for each in last.tried} == set(ranked[:3])
    assert min((each.C for each in last.tried), key=lambda C: (table[C, 900], C)) == found.best.C
    assert ranked[0] == first.best()[0].C


def test_of_equal_errors_the_smallest_C_wins():
    assert CS[0] == search(lambda C, rows: 7).best.C


def test_a_candidate_that_fails_is_the_worst_and_not_the_end():
    def wrong(C, rows):
        if C < 8.0:
            raise ValueError("C is too\nsmall")
        return int(C)

    found = search(wrong)
    assert found.best.C == 8.0
    failed = found.rungs[0].tried[0]
    assert (failed.error, failed.stop_reason) == (math.inf, "failed: C is too small")


def test_where_all_fail_the_first_sentence_is_raised():
    def wrong(C, rows):
        raise ValueError(f"no machine has C={C}")

    with pytest.raises(ValueError, match=r"no machine has C=0\.25"):
        search(wrong)


@pytest.mark.parametrize(("calls", "best"), [(4, 0.25), (9, 4.0), (11, 4.0)])
def test_an_interrupt_leaves_the_best_of_the_last_whole_rung(calls, best):
    seen = []

    def wrong(C, rows):
        seen.append(C)
        if len(seen) > calls:
            raise KeyboardInterrupt
        return 10 + CS.index(C) if calls < 9 else abs(CS.index(C) - CS.index(best))

    found = search(wrong)
    assert found.stop_reason == "interrupted"
    assert best == found.best.C
    assert sum(len(rung.tried) for rung in found.rungs) == calls


def test_an_interrupt_before_anything_was_tried_leaves_nothing():
    def wrong(C, rows):
        raise KeyboardInterrupt

    assert search(wrong).best is None


def test_time_that_is_up_ends_the_search_with_the_best_of_the_last_whole_rung(monkeypatch):
    looks = iter(range(10**6))
    monkeypatch.setattr(halving, "now", lambda: float(next(looks)))
    found = search(lambda C, rows: abs(int(C) - 4), max_seconds=21.0)  # two looks a candidate: ten and a half
    assert found.stop_reason == "max_seconds"
    assert [(rung.whole, len(rung.tried)) for rung in found.rungs] == [(True, 9), (False, 2)]
    assert found.best.C == 4.0
    assert search(lambda C, rows: 0, max_seconds=0.5).rungs[0].tried  # one at least


@pytest.mark.parametrize(
    "machine",
    # kernel values are float32, and a gap of 1e-6 would be one of their rounding
    [LinearSVC(tol=1e-6, max_iter=50_000, random_state=0), SVC(tol=1e-4, gamma=0.5, intercept="none")],
)
def test_warm_starts_change_no_error(machine, rng):
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] + 0.4 * rng.normal(size=400) > 0, 1, -1)
    held, n = (X[300:], y[300:]), 300
    lengths = np.sqrt(1.0 + (held[0] ** 2).sum(1)) if isinstance(machine, LinearSVC) else np.ones(100)  # K(x, x) = 1
    found = successive_halving(machine, (X[:n], y[:n]), held, Cs=[0.1, 1.0, 10.0], min_rows=n)
    for tried in found.rungs[-1].tried:
        assert tried.relative_gap <= machine.tol
        alone = clone(machine).set_params(C=tried.C).fit(X[:n], y[:n])
        # P is 1/(C n)-strongly convex: either machine is within √(2 C n gap) of the optimum, in the norm of w
        apart = 2.0 * math.sqrt(2.0 * tried.C * n * machine.tol * alone.certificate_.primal)
        near = np.abs(alone.decision_function(held[0])) <= apart * lengths
        assert abs(round(100 * tried.error) - np.sum(alone.predict(held[0]) != held[1])) <= near.sum()


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(ValueError, match="factor must be 2 or more"):
        search(lambda C, rows: 0, factor=1)
    with pytest.raises(ValueError, match="no candidates"):
        search(lambda C, rows: 0, gammas=())
    with pytest.raises(ValueError, match="each of Cs must be"):
        successive_halving(Known(), HELD, HELD, Cs=[-1.0])
