"""Jobs: which examples, labels, weights and places of coefficients each binary problem has, and pairs on threads."""

import itertools
import signal
import threading

import numpy as np
import pytest

from widemargin import SMO, SVC
from widemargin.core.threads.interrupts import Interrupts
from widemargin.estimators.fit import jobs, pairs
from widemargin.estimators.fit.fitting import Turn
from widemargin.estimators.fit.jobs import LARGE_PAIR, Binaries, worst_reason
from widemargin.problems.objective import Certificates

CODES = np.array([2, 0, 1, 2, 0, 1, 2])


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch):
    """Pairs have a run each, however small they are."""
    monkeypatch.setattr(pairs, "SMALL_PAIRS", (0, 0))


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


def test_the_reason_of_many_problems_is_that_of_the_one_furthest_from_its_optimum():
    def worst(reasons, gaps):
        primal = np.array([1.0, 10.0, 2.0])
        return worst_reason(reasons, Certificates(primal, primal - primal * np.array(gaps)))

    assert worst(["tol", "tol", "tol"], [1e-4, 1e-5, 0.0]) == "tol"
    assert worst(["max_iter", "precision", "tol"], [1e-2, 5e-3, 0.9]) == "max_iter"  # by shares of the objective
    assert worst(["max_iter", "precision", "tol"], [1e-2, 2e-2, 0.0]) == "precision"
    assert worst(["max_iter", "max_seconds", "tol"], [1e-2, np.nan, 0.0]) == "max_seconds"  # nothing is known of it


# ---------------------------------------------------------------- pairs side by side


@pytest.fixture
def at_once(monkeypatch):
    """How many threads pairs were trained on, for each fit in which they were trained side by side."""
    found, original = [], jobs.in_turn

    def recorded(call, pieces, threads):
        found.append(threads)
        return original(call, pieces, threads)

    monkeypatch.setattr(jobs, "in_turn", recorded)
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
    for n_jobs in (2, 3):
        several = SVC(random_state=0, n_jobs=n_jobs, **given).fit(X, y)
        np.testing.assert_array_equal(several.support_, one.support_)
        np.testing.assert_array_equal(several.dual_coef_, one.dual_coef_)
        np.testing.assert_array_equal(several.intercept_, one.intercept_)
        assert told(several) == told(one)
    # kernel rows of two have room in any cache, of three where the whole matrices do
    assert at_once == [2, 2 if "cache_size" in given else 3]


def test_a_second_fit_goes_on_from_the_first_side_by_side_too(at_once, rng):
    X, y = four_classes(rng)
    first, again = (SVC(random_state=0, warm_start=True, n_jobs=n).fit(X, y).fit(X, y) for n in (1, 2))
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


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_an_executor_of_ones_own_gives_the_same_bits(multi_class, monkeypatch, rng):
    """A job has its own generator, problem and start, so that it does not matter when it is run."""
    X, y = four_classes(rng, 30)
    own = SVC(random_state=0, multi_class=multi_class).fit(X, y)

    def backwards(session, several, count):
        several = list(several)[::-1]
        limits = Turn(session.started)
        found = [(job, jobs.solve(session, session.solver, job, limits, None)) for job in several]
        for job, solved in found[::-1]:
            yield job, jobs.prove(session, job, solved)

    monkeypatch.setattr(jobs, "one_by_one", backwards)
    other = SVC(random_state=0, multi_class=multi_class).fit(X, y)
    np.testing.assert_array_equal(other.support_, own.support_)
    np.testing.assert_array_equal(other.dual_coef_, own.dual_coef_)
    np.testing.assert_array_equal(other.intercept_, own.intercept_)
    assert other.certificate_ == own.certificate_


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


@pytest.mark.parametrize(("cache", "n"), [(0.02, 4), (0.9, 3), (100.0, 3)])
def test_pairs_at_work_together_have_no_more_memory_and_threads_than_asked_for(cache, n, monkeypatch, at_once, rng):
    found, advance = set(), SMO.advance

    def work(self, problem, state, n_steps):
        found.add((min(problem.cache_bytes, 4.0 * problem.n**2), problem.threads))
        return advance(self, problem, state, n_steps)

    monkeypatch.setattr(SMO, "advance", work)
    SVC(n_jobs=n, cache_size=cache).fit(*four_classes(rng))
    assert at_once[0] > 1
    for n_bytes, threads in found:
        assert at_once[0] * n_bytes <= cache * 2**20
        assert 1 <= threads <= n / at_once[0]


def test_kernel_rows_of_a_pair_are_let_go_of_when_it_is_done(monkeypatch, at_once, rng):
    held, original = [], jobs.in_turn

    def looked_at(*given):
        for each in original(*given):
            held.append(each[1].outcome.state.workspace)
            yield each

    monkeypatch.setattr(jobs, "in_turn", looked_at)
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
    proofs, original = itertools.count(1), jobs.prove

    def look(*given):
        if next(proofs) == 6:  # the last one
            signal.raise_signal(signal.SIGINT)
        return original(*given)

    monkeypatch.setattr(jobs, "prove", look)
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
    monkeypatch.setattr(jobs, "prove", fail)
    with pytest.raises(OSError, match="no room") as _kept:  # and its frames, as a notebook does
        SVC(n_jobs=2).fit(*four_classes(rng))
    assert at_once == [2]
    assert heard.is_set()
    assert signal.getsignal(signal.SIGINT) is before
    assert not [thread for thread in set(threading.enumerate()) - threads if thread.is_alive()]
