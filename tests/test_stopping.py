"""When a run ends: limits, patience, and the verdict at a checkpoint."""

import math
from itertools import islice

import pytest

from widemargin.stopping import STOP_REASONS, TELLING, Limits, Patience, certified, foreseen, reason_to_stop


def test_every_stop_reason_has_its_explanation():
    assert {"tol", "max_iter", "max_seconds", "max_feature_reads", "early_stopping", "callback", "interrupted"} <= set(
        STOP_REASONS
    )
    assert all(STOP_REASONS.values())


def test_a_run_without_a_time_limit_has_no_deadline():
    assert Limits().deadline == math.inf


def test_a_deadline_counts_from_the_call_or_from_the_time_given(clock):
    assert Limits(max_seconds=2.0).deadline == clock.now + 2.0
    assert Limits(max_seconds=2.0, started=7.0).deadline == 9.0


def test_a_run_is_looked_at_whenever_its_work_has_doubled_or_where_the_user_says():
    assert list(islice(Limits().stops(10), 5)) == [10, 20, 40, 80, 160]
    assert list(Limits(checkpoints=[30, 5, 12]).stops(10)) == [5, 12, 30]


def test_patience_counts_checkpoints_since_the_lowest_error():
    patience = Patience(3)
    found = [(patience.improves(error, {"objective": 1.0}), patience.unimproved) for error in (0.3, 0.3, 0.4, 0.2, 0.5)]
    assert found == [(True, 0), (False, 1), (False, 2), (True, 0), (False, 1)]
    assert patience.error == 0.2


@pytest.mark.parametrize(("gap", "counts"), [(0.9 * TELLING, True), (TELLING, True), (1.1 * TELLING, False)])
def test_patience_counts_no_checkpoint_whose_gap_says_that_there_is_no_machine_yet(gap, counts):
    patience = Patience(3)
    patience.improves(0.3, {"objective": -1.0, "gap": gap})
    assert not patience.improves(0.4, {"objective": -1.0, "gap": gap})
    assert patience.unimproved == counts


def test_an_infinite_error_is_an_improvement_on_none():
    patience = Patience(1)
    assert patience.improves(math.inf, {"objective": 1.0})
    assert patience.unimproved == 0


@pytest.mark.parametrize("tight", [True, False])
@pytest.mark.parametrize("reason", STOP_REASONS)
def test_a_certificate_has_the_last_word_on_the_tolerance_and_on_nothing_else(reason, tight):
    short = {"tol": "precision" if tight else "settled", "stalled": "precision" if tight else "settled"}
    met = {"tol": "tol", "stalled": "tol", "max_iter": "tol"}
    assert certified(reason, 0.2, 0.1, tight) == short.get(reason, reason)
    assert certified(reason, 0.1, 0.1, tight) == met.get(reason, reason)
    assert certified(reason, 0.0, 0.0, tight) == reason  # no tolerance was asked for


#: (gap or None, change of the objective, tol, over, out of patience, stalled) → reason, for an objective of 2.
VERDICTS = {
    # nothing has happened
    (None, 0.5, 0.1, False, False, False): "",
    (0.5, 0.0, 0.1, False, False, False): "",  # a gap counts instead of a change
    (0.0, 0.0, 0.0, False, False, False): "",  # a tol of 0 never stops
    # the tolerance is met
    (None, 0.1, 0.1, False, False, False): "tol",
    (0.2, 9.0, 0.1, False, False, False): "tol",
    (0.2, 9.0, 0.1, True, False, False): "tol",  # a gap closed counts for more than the end of the epochs
    (0.2, 9.0, 0.1, False, False, True): "tol",
    # all epochs are done
    (0.5, 0.0, 0.1, True, False, False): "max_iter",
    (None, 0.0, 0.1, True, False, False): "max_iter",
    (0.5, 0.0, 0.1, True, True, True): "max_iter",
    (0.0, 0.0, 0.0, True, False, False): "max_iter",
    # the validation error stopped improving
    (None, 0.5, 0.1, False, True, False): "early_stopping",
    (0.2, 0.0, 0.1, False, True, False): "early_stopping",
    (0.5, 0.0, 0.1, False, True, True): "early_stopping",
    # rounding allows no more
    (0.5, 0.5, 0.1, False, False, True): "stalled",
    (None, 0.5, 0.0, False, False, True): "stalled",
    (0.0, 0.0, 0.0, False, False, True): "stalled",  # many problems, all solved, that have a tol of their own
    (-0.5, 0.0, 0.1, False, False, False): "stalled",
    (-0.1, 0.0, 0.1, False, False, False): "tol",  # no further below 0 than tol
}


@pytest.mark.parametrize(("given", "reason"), VERDICTS.items())
def test_the_verdict_at_a_checkpoint(given, reason):
    gap, change, tol, over, impatient, stalled = given
    measured = {"objective": 2.0} if gap is None else {"objective": 2.0, "gap": gap}
    patience = Patience(3, unimproved=3 if impatient else 2)
    assert reason_to_stop(measured, 2.0 + change, tol, over, patience, stalled) == reason
    assert reason in ("", *STOP_REASONS)


@pytest.mark.parametrize(
    ("gap", "change", "over", "reason"),
    [
        (0.2, 9.0, False, "tol"),
        (0.2, 9.0, True, "tol"),
        (1.9, 0.1, False, "tol"),
        (1.9, 0.5, False, ""),
        (1.9, 0.1, True, "max_iter"),
        (1.9, math.nan, False, ""),  # at the first checkpoint
        (0.2, math.nan, False, "tol"),
    ],
)
def test_a_gap_that_is_not_tight_stops_a_run_and_keeps_none_going(gap, change, over, reason):
    measured = {"objective": 2.0, "gap": gap}
    assert reason_to_stop(measured, 2.0 + change, 0.1, over, Patience(3), False, tight=False) == reason


def test_a_gap_that_falls_evenly_is_foreseen_to_close():
    gaps = [(0.0, math.inf)]
    assert foreseen([*gaps, (100.0, 0.5)], 1e-3) == math.inf  # one look tells no rate
    looks = [(100.0 * k, 0.5**k) for k in (1, 2, 4)]
    due = foreseen([*gaps, *looks], 2.0**-12)
    assert 1200.0 < due <= 1.05 * 1200.0
    assert foreseen([*gaps, *looks, (450.0, 0.07)], 0.06) == pytest.approx(450.0 * 1.125)  # looks stay few
    assert foreseen([*gaps, *looks[:2], (400.0, 0.3)], 1e-3) == math.inf  # it rose
    assert foreseen([*gaps, *looks], 0.0) == math.inf
