"""Several classes as binary problems: which examples, labels, weights and places of coefficients each one has."""

import itertools
import signal
import threading

import numpy as np
import pytest

from widemargin import SMO, SVC
from widemargin.core import losses
from widemargin.core.interrupts import Interrupts
from widemargin.estimators import multiclass
from widemargin.estimators.multiclass import LARGE_PAIR, Binaries, target_of, targets_of

CODES = np.array([2, 0, 1, 2, 0, 1, 2])


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch):
    """Pairs have a run each, however small they are."""
    monkeypatch.setattr(multiclass, "SMALL_PAIRS", (0, 0))


WEIGHTS, OF_CLASS = np.arange(1.0, 8.0), np.array([1.0, 10.0, 100.0])


def test_two_classes_are_one_problem_whose_positive_class_is_the_second():
    binaries = Binaries(CODES % 2, WEIGHTS, OF_CLASS[:2], True, False)
    chosen, y, s = binaries.binary(0)
    assert len(binaries) == 1
    np.testing.assert_array_equal(chosen, np.arange(7))
    np.testing.assert_array_equal(y, np.where(CODES % 2 == 1, 1.0, -1.0))
    np.testing.assert_array_equal(s, WEIGHTS * OF_CLASS[CODES % 2])


def test_against_the_rest_a_class_weighs_its_own_examples_only():
    binaries = Binaries(CODES, WEIGHTS, OF_CLASS, True, False)
    assert len(binaries) == 3
    for k in range(3):
        chosen, y, s = binaries.binary(k)
        np.testing.assert_array_equal(chosen, np.arange(7))
        np.testing.assert_array_equal(y == 1.0, k == CODES)
        np.testing.assert_array_equal(s, WEIGHTS * np.where(k == CODES, OF_CLASS[k], 1.0))
        assert binaries.rows_of(k, chosen) == k


def test_a_pair_has_its_own_examples_the_first_class_first_and_libsvm_s_places():
    binaries = Binaries(CODES, np.empty(0), OF_CLASS, True, True)
    assert len(binaries) == 3
    for k, (i, j) in enumerate(itertools.combinations(range(3), 2)):
        chosen, y, s = binaries.binary(k)
        np.testing.assert_array_equal(CODES[chosen], np.sort(CODES[(i == CODES) | (j == CODES)]))
        np.testing.assert_array_equal(y, np.where(CODES[chosen] == i, 1.0, -1.0))
        np.testing.assert_array_equal(s, OF_CLASS[CODES[chosen]])
        # the coefficient of a vector of class c against class d stands in row d − (d > c)
        others = np.where(CODES[chosen] == i, j, i)
        np.testing.assert_array_equal(binaries.rows_of(k, chosen), others - (others > CODES[chosen]))


def test_some_of_the_examples_keep_their_weights():
    some = Binaries(CODES, WEIGHTS, OF_CLASS, True, True).take(np.array([0, 2, 5]))
    np.testing.assert_array_equal(some.codes, [2, 1, 1])
    np.testing.assert_array_equal(some.weights, [1.0, 3.0, 6.0])


def test_targets_are_signs_for_one_output_and_codes_for_several():
    np.testing.assert_array_equal(targets_of(np.array([0, 1]), 1), [-1.0, 1.0])
    np.testing.assert_array_equal(targets_of(CODES, 3), CODES)


@pytest.mark.parametrize(
    ("classes", "multi_class", "target", "outputs"),
    [(2, "ovr", losses.Single, 1), (3, "ovr", losses.OneVsRest, 3), (2, "crammer_singer", losses.MulticlassHinge, 2)],
)
def test_a_target_has_an_output_for_each_class_except_for_two_apart(classes, multi_class, target, outputs):
    found = target_of(classes, "hinge", multi_class, np.ones(classes))
    assert (type(found[0]), found[1]) == (target, outputs)


def test_scores_of_pairs_decide_between_equal_votes_and_never_against_more_of_them(rng):
    X, y = rng.normal(size=(90, 2)), rng.integers(0, 4, 90)
    model = SVC(100.0, gamma=5.0).fit(X, y)
    Z = 3.0 * rng.normal(size=(200, 2))
    votes, scores = model._votes(Z)
    assert (votes.sum(axis=1) == 6).all()
    assert (np.abs(scores - votes) < 1.0 / 3.0).all()
    assert (np.round(scores) == votes).all()


# ---------------------------------------------------------------- pairs side by side


@pytest.fixture
def at_once(monkeypatch):
    """How many threads pairs were trained on, for each fit in which they were trained side by side."""
    found, original = [], multiclass.in_turn

    def recorded(call, pieces, threads):
        found.append(threads)
        return original(call, pieces, threads)

    monkeypatch.setattr(multiclass, "in_turn", recorded)
    return found


def four_classes(rng, per_class=LARGE_PAIR // 2):
    y = np.repeat(np.arange(4), per_class)
    return rng.normal(size=(y.size, 3)) + 1.5 * np.eye(4)[y, :3], y


def told(model):
    """What a fit says of itself, but for the clock."""
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in model.history_]
    return rows, model.certificate_, model.stop_reason_, model.n_iter_.tolist()


@pytest.mark.parametrize("given", [{}, {"class_weight": "balanced", "intercept": "none"}, {"cache_size": 0.02}])
def test_pairs_trained_side_by_side_are_those_trained_in_turn(given, at_once, rng):
    X, y = four_classes(rng)
    one = SVC(random_state=0, **given).fit(X, y)
    for jobs in (2, 3):
        several = SVC(random_state=0, n_jobs=jobs, **given).fit(X, y)
        np.testing.assert_array_equal(several.support_, one.support_)
        np.testing.assert_array_equal(several.dual_coef_, one.dual_coef_)
        np.testing.assert_array_equal(several.intercept_, one.intercept_)
        assert told(several) == told(one)
    # kernel rows of two have room in any cache, of three where the whole matrices do
    assert at_once == [2, 2 if "cache_size" in given else 3]


def test_a_second_fit_goes_on_from_the_first_side_by_side_too(at_once, rng):
    X, y = four_classes(rng)
    first, again = (SVC(random_state=0, warm_start=True, n_jobs=jobs).fit(X, y).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(again.dual_coef_, first.dual_coef_)
    assert told(again) == told(first)
    assert at_once == [2, 2]


@pytest.mark.parametrize(
    "given",
    [
        {"callbacks": lambda progress: False}, {"verbose": 1}, {"max_seconds": 60.0}, {"early_stopping": True},
        {"multi_class": "ovr"}, {"kernel": lambda A, B: A @ B.T}, {"n_jobs": 1},
    ],
)  # fmt: skip
def test_pairs_are_trained_in_turn_where_somebody_looks_on_or_python_is_called(given, at_once, rng):
    SVC(**{"n_jobs": 2, "max_iter": 3, "tol": 0.0, **given}).fit(*four_classes(rng, LARGE_PAIR))
    assert at_once == []


def test_small_pairs_and_kept_ones_are_trained_in_turn(at_once, rng, tmp_path):
    SVC(n_jobs=2).fit(*four_classes(rng, LARGE_PAIR // 2 - 1))
    SVC(n_jobs=2, checkpoint=tmp_path / "kept").fit(*four_classes(rng))
    assert at_once == []


def interrupted_at(monkeypatch, times, calls=3):
    """Let the third slice of work of all pairs send Ctrl-C so many times, the second when the first was heard."""
    heard, slices, advance, end = threading.Event(), itertools.count(1), SMO.advance, Interrupts.end

    def hear(self):
        end(self)
        heard.set()

    def work(self, problem, state, n_steps):
        if n_steps > 0 and next(slices) == calls:  # of several threads, one
            for _ in range(times):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                heard.wait(60)
        return advance(self, problem, state, n_steps)

    monkeypatch.setattr(Interrupts, "end", hear)
    monkeypatch.setattr(SMO, "advance", work)
    monkeypatch.setattr(SMO, "first_slice", lambda self, problem: 1)


@pytest.mark.filterwarnings("ignore:SVC stopped with a relative duality gap", "ignore:SVC had no time")
def test_ctrl_c_leaves_a_model_of_every_pair(monkeypatch, at_once, rng):
    X, y = four_classes(rng)
    before = signal.getsignal(signal.SIGINT)
    interrupted_at(monkeypatch, 1)
    model = SVC(n_jobs=2).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is before
    assert at_once == [2]
    assert model.stop_reason_ == "interrupted"
    assert model.dual_coef_.shape[0] == 3
    assert model.decision_function(X).shape == (y.size, 4)
    assert len(model.certificate_) == 6


def test_a_second_ctrl_c_raises_and_leaves_nothing_at_work(monkeypatch, at_once, rng):
    before, threads = signal.getsignal(signal.SIGINT), set(threading.enumerate())
    interrupted_at(monkeypatch, 2)
    model = SVC(n_jobs=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*four_classes(rng))
    assert signal.getsignal(signal.SIGINT) is before
    assert at_once == [2]
    assert not hasattr(model, "dual_coef_")
    for thread in set(threading.enumerate()) - threads:
        if thread.is_alive():  # Ctrl-C may come before it begins
            thread.join(60)  # it ends by itself, wherever the caller was when he lost his patience
        assert not thread.is_alive()


def test_an_error_in_one_pair_ends_the_others_and_is_raised(monkeypatch, at_once, rng):
    before, advance, calls = signal.getsignal(signal.SIGINT), SMO.advance, itertools.count(1)

    def fail(self, problem, state, n_steps):
        if next(calls) == 4:
            raise OSError("no room")
        return advance(self, problem, state, n_steps)

    monkeypatch.setattr(SMO, "advance", fail)
    with pytest.raises(OSError, match="no room"):
        SVC(n_jobs=2).fit(*four_classes(rng))
    assert at_once == [2]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("cache", "jobs"), [(0.02, 4), (0.9, 3), (100.0, 3)])
def test_pairs_at_work_together_have_no_more_memory_and_threads_than_asked_for(cache, jobs, monkeypatch, at_once, rng):
    found, advance = set(), SMO.advance

    def work(self, problem, state, n_steps):
        found.add((min(problem.cache_bytes, 4.0 * problem.n**2), problem.threads))
        return advance(self, problem, state, n_steps)

    monkeypatch.setattr(SMO, "advance", work)
    SVC(n_jobs=jobs, cache_size=cache).fit(*four_classes(rng))
    assert at_once[0] > 1
    for n_bytes, threads in found:
        assert at_once[0] * n_bytes <= cache * 2**20
        assert 1 <= threads <= jobs / at_once[0]


def test_kernel_rows_of_a_pair_are_let_go_of_when_it_is_done(monkeypatch, at_once, rng):
    held, original = [], multiclass.in_turn

    def looked_at(*given):
        for each in original(*given):
            held.append(each[2][0].state.workspace)
            yield each

    monkeypatch.setattr(multiclass, "in_turn", looked_at)
    SVC(n_jobs=2).fit(*four_classes(rng))
    assert held == [None] * 6


def test_an_error_in_one_pair_ends_others_at_once(monkeypatch, rng):
    advance, end, calls, heard, ended = SMO.advance, Interrupts.end, itertools.count(), threading.Event(), []

    def hear(self):
        end(self)
        heard.set()

    def work(self, problem, state, n_steps):
        if next(calls) == 0:
            raise OSError("no room")
        ended.append(heard.wait(10))
        return advance(self, problem, state, n_steps)

    monkeypatch.setattr(Interrupts, "end", hear)
    monkeypatch.setattr(SMO, "advance", work)
    with pytest.raises(OSError, match="no room"):
        SVC(n_jobs=2).fit(*four_classes(rng))
    assert all(ended)


def test_a_ctrl_c_when_all_pairs_are_trained_is_told(monkeypatch, at_once, rng):
    proofs, original = itertools.count(1), SVC._with_proof

    def look(self, *given):
        if next(proofs) == 6:  # the last one
            signal.raise_signal(signal.SIGINT)
        return original(self, *given)

    monkeypatch.setattr(SVC, "_with_proof", look)
    model = SVC(n_jobs=2).fit(*four_classes(rng))
    assert at_once == [2]
    assert model.stop_reason_ == "interrupted"
    assert all(certificate.relative_gap <= 2e-3 for certificate in model.certificate_)


def test_those_who_are_told_of_ctrl_c_leave_it_to_who_tells_them():
    with Interrupts() as first:
        before = signal.getsignal(signal.SIGINT)
        with Interrupts(first) as told:
            assert signal.getsignal(signal.SIGINT) == before
            first.end()
            assert told.seen


def test_an_error_between_two_pairs_ends_those_at_work_and_gives_ctrl_c_back(monkeypatch, at_once, rng):
    before, threads = signal.getsignal(signal.SIGINT), set(threading.enumerate())
    end, heard = Interrupts.end, threading.Event()

    def hear(self):
        end(self)
        heard.set()

    def fail(*given):
        raise OSError("no room")

    monkeypatch.setattr(Interrupts, "end", hear)
    monkeypatch.setattr(SVC, "_with_proof", fail)
    with pytest.raises(OSError, match="no room") as _kept:  # and its frames, as a notebook does
        SVC(n_jobs=2).fit(*four_classes(rng))
    assert at_once == [2]
    assert heard.is_set()
    assert signal.getsignal(signal.SIGINT) is before
    assert not [thread for thread in set(threading.enumerate()) - threads if thread.is_alive()]
