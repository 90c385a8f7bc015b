"""Checkpoints of fits: a fit that was killed goes on to the same bits, and what is not its checkpoint is refused."""

import json
import os
import signal
import sys
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import fresh
import killing
import widemargin as wm
from widemargin import checkpoints, files, running
from widemargin.schemas import SCHEMAS, Damaged, Record, check

ESTIMATORS = (wm.LinearSVC, wm.LinearSVR, wm.SVC, wm.SVR, wm.BudgetedSVC, wm.BudgetedSVR, wm.IncrementalSVC)


class Killed(BaseException):
    """Ends a fit where it stands; nobody handles it."""


@pytest.fixture
def die_at(monkeypatch):
    """Have a fit end after its n-th write from now on; 0 for never."""
    whole = checkpoints.Checkpoint.write

    def at(number):
        left = [number]

        def write(self):
            whole(self)
            left[0] -= 1
            if left[0] == 0:
                raise Killed

        monkeypatch.setattr(checkpoints.Checkpoint, "write", write)
        monkeypatch.setattr(running, "SLICE", 2e-3)  # many slices

    return at


@pytest.fixture
def left(die_at, tmp_path, rng):
    """(a function that makes a fit leave a checkpoint, the data, the file)."""
    X, y = killing.drawn(rng, 400, 2)
    path = tmp_path / "fit.ckpt"

    def leave(model, number=2, **data):
        die_at(number)
        with pytest.raises(Killed):
            model.set_params(checkpoint=path, checkpoint_every=0).fit(data.get("X", X), y)
        die_at(0)
        assert path.exists()
        return model

    return leave, X, y, path


def same(ours, theirs):
    return killing.differences(killing.learnt(ours), killing.learnt(theirs)) == []


# ---------------------------------------------------------------- killed processes


#: Runs a file, as ``python`` does.
KILLING = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_fits_that_are_killed_again_and_again_come_to_the_same_bits():
    """Of every estimator, at counted writes, in processes of their own."""
    seed = int(os.environ.get("WIDEMARGIN_SEED", np.random.SeedSequence().entropy % 2**31))
    done = fresh.run(KILLING, killing.__file__, "counted", seed, limit=1800)  # loops of every estimator are compiled
    assert done.returncode == 0, f"WIDEMARGIN_SEED={seed}\n{done.stderr}"
    found = json.loads(done.stdout)
    assert found.keys() == killing.CASES.keys()
    assert [case for case, (kills, _) in found.items() if kills == 0] == []
    assert {case: different for case, (_, different) in found.items() if different} == {}, f"WIDEMARGIN_SEED={seed}"


def test_every_estimator_is_killed():
    names = {type(make()).__name__ for make, *_ in killing.CASES.values()}
    assert names == {cls.__name__ for cls in ESTIMATORS}


# ---------------------------------------------------------------- going on


def lines_of(capsys):
    """The lines on standard error that tell of going on."""
    return [line for line in capsys.readouterr().err.splitlines() if "goes on" in line]


@pytest.mark.parametrize("rich", [True, False])
def test_a_fit_that_goes_on_says_in_a_line_at_which_epoch(left, capsys, monkeypatch, caplog, rich):
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    leave, X, y, path = left
    model = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0, verbose=1), 3)
    assert lines_of(capsys) == []
    done = next(iter(files.load(path).runs.values()))["done"] / 400
    assert done > 0
    said = f"LinearSVC goes on from {path} at epoch {done:.4g}"
    with caplog.at_level("INFO", "widemargin"):
        model.fit(X, y)
    assert lines_of(capsys) == [said]
    assert caplog.messages == [said]
    # from the state of the last fit, too; and without a word where nobody asked for one, or nothing is gone on from
    model.set_params(warm_start=True, checkpoint=None, max_iter=2).fit(X, y)
    assert lines_of(capsys) == ["LinearSVC goes on from the last fit at epoch 20"]
    model.set_params(verbose=0).fit(X, y)
    model.set_params(verbose=1, warm_start=False, checkpoint=path).fit(X, y)
    assert lines_of(capsys) == []


@pytest.mark.parametrize("under_way", [True, False])
def test_a_fit_of_several_machines_says_once_how_many_runs_are_done(tmp_path, rng, capsys, monkeypatch, under_way):
    X, y = killing.drawn(rng, 90, 3)
    path = tmp_path / "file"
    model = wm.SVC(gamma=0.5, solver="pegasos", tol=0, max_iter=2, verbose=1, checkpoint=path, checkpoint_every=0)
    write, runs = checkpoints.Checkpoint.write, {}

    def until_the_third(self):
        write(self)
        runs.update(self.journal.runs)
        if len(runs) == 3:
            raise Killed

    monkeypatch.setattr(checkpoints.Checkpoint, "write", until_the_third)
    with pytest.raises(Killed):
        model.fit(X, y)
    monkeypatch.setattr(checkpoints.Checkpoint, "write", write)
    journal = files.load(path)
    done = list(journal.runs.values())[2]["done"] / np.sum(y != y.min()) if under_way else 0.0
    if not under_way:  # killed between two of them
        journal.runs.popitem()
        files.dump(path, journal)
    capsys.readouterr()
    model.fit(X, y)
    assert lines_of(capsys) == [f"SVC goes on from {path} after 2 runs, at epoch {done:.4g}"]


def test_a_fit_without_a_seed_goes_on_with_its_own_random_numbers(left, rng):
    leave, X, y, _ = left
    numbers = np.random.default_rng(7)
    plain = wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, early_stopping=True, random_state=numbers).fit(X, y)
    after = numbers.bit_generator.state
    model = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, early_stopping=True), 1)
    start = files.load(model.checkpoint).start
    other = wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, early_stopping=True, random_state=start).fit(X, y)
    assert same(model.fit(X, y), other)
    # a generator of the user's is left where it would be
    theirs = leave(clone(plain).set_params(random_state=np.random.default_rng(7)), 1)
    theirs.set_params(random_state=np.random.default_rng(8)).fit(X, y)
    assert same(theirs, plain)
    assert theirs.random_state.bit_generator.state == after


@pytest.mark.parametrize("parameters", [{"max_iter": 40}, {"verbose": 0, "n_jobs": 2}, {"checkpoint_every": 5.0}])
def test_limits_and_threads_may_change_when_a_fit_goes_on(parameters, left):
    leave, X, y, path = left
    known = {"C": 1e3, "gamma": 0.5, "tol": 1e-9, "max_iter": 20}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = wm.SVC(**known).set_params(**parameters).fit(X, y)
        model = leave(wm.SVC(**known)).set_params(**parameters).fit(X, y)
    assert same(model, plain)
    assert not path.exists()


def test_more_epochs_for_a_fit_of_several_machines_are_as_if_asked_for_at_once(die_at, tmp_path, rng):
    X, y = killing.drawn(rng, 300, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = wm.SVC(C=1e3, gamma=0.5, tol=1e-9, max_iter=2).fit(X, y)
        for number in (1, 2, 4, 8):  # some machines may have ended by max_iter, and one is under way
            model = wm.SVC(C=1e3, gamma=0.5, tol=1e-9, max_iter=1, checkpoint=tmp_path / "file", checkpoint_every=0)
            die_at(number)
            with suppress(Killed):
                model.fit(X, y)
            die_at(0)
            assert same(model.set_params(max_iter=2).fit(X, y), plain)


def test_ctrl_c_leaves_a_checkpoint_and_the_next_fit_goes_on_as_if_nothing_had_been(left):
    _, X, y, path = left

    def interrupt(progress):
        os.kill(os.getpid(), signal.SIGINT)

    known = {"solver": "pegasos", "tol": 1e-7, "max_iter": 50, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = wm.LinearSVC(**known).fit(X, y)
        model = wm.LinearSVC(**known, checkpoint=path, callbacks=interrupt).fit(X, y)
        assert model.stop_reason_ == "interrupted"
        assert path.exists()
        model.set_params(callbacks=None).fit(X, y)
    assert same(model, plain)
    assert not path.exists()


def test_a_second_ctrl_c_at_the_end_throws_the_model_away_and_not_the_checkpoint(left):
    leave, X, y, path = left
    plain = wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0).fit(X, y)
    model, twice = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0)), []

    class Late(wm.LinearSVC):
        def _adopt(self, *given):
            super()._adopt(*given)
            for _ in range(2 * (not twice)):
                signal.raise_signal(signal.SIGINT)

    model.__class__ = type("LinearSVC", (Late,), {})
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    assert path.exists()
    twice.append("not again")
    assert same(model.fit(X, y), plain)
    assert not path.exists()


def test_a_time_limit_leaves_a_checkpoint_and_the_next_fit_goes_on(left):
    _, X, y, path = left
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = {"solver": "pegasos", "tol": 0, "max_iter": 30, "random_state": 0}
        plain = wm.LinearSVC(**known).fit(X, y)
        model = wm.LinearSVC(**known, checkpoint=path, max_seconds=1e-9).fit(X, y)
        assert model.stop_reason_ == "max_seconds"
        seen = files.load(path).runs["all"]["done"]
        assert seen > 0
        model.set_params(max_seconds=None).fit(X, y)
    assert same(model, plain)


def test_under_a_time_limit_a_kernel_machine_goes_on_where_it_was(left, rng):
    _, _, _, path = left
    X, y = killing.drawn(rng, 2000, 3)
    model = wm.SVC(C=10.0, gamma=0.5, checkpoint=path, max_seconds=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            model.fit(X, y)
        model.set_params(max_seconds=None).fit(X, y)
        plain = wm.SVC(C=10.0, gamma=0.5).fit(X, y)
    assert not path.exists()
    for ours, theirs in zip(model.certificate_, plain.certificate_, strict=True):
        assert ours.relative_gap <= model.tol
        assert ours.dual <= theirs.primal * (1.0 + 1e-9)
        assert theirs.dual <= ours.primal * (1.0 + 1e-9)


def test_warm_starts_go_on_from_their_own_start(left):
    leave, X, y, path = left
    known = {"solver": "pegasos", "tol": 0, "max_iter": 10, "warm_start": True, "random_state": 0}
    plain = wm.LinearSVC(**known).fit(X, y).fit(X, y)
    first = wm.LinearSVC(**known).fit(X, y)
    first.save(path.with_name("first.npz"))
    leave(first)
    again = wm.load(path.with_name("first.npz")).set_params(checkpoint=path)
    assert same(again.fit(X, y), plain)
    leave(wm.load(path.with_name("first.npz")))
    with pytest.raises(ValueError, match="is that of another problem: the start was _state"):
        wm.LinearSVC(**known, checkpoint=path).fit(X, y)


def test_callbacks_are_told_the_history_from_the_start(left):
    leave, X, y, _ = left
    rows = []
    model = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0), 4)
    model.set_params(callbacks=lambda progress: rows.append((progress.epochs, len(progress.history)))).fit(X, y)
    plain = wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0).fit(X, y)
    assert rows[-1] == (20.0, len(plain.history_))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"C": 2.0}, r"C was 1\.0 and is 2\.0"),
        ({"tol": 1e-8}, "tol was 0 and is 1e-08"),
        ({"random_state": 1}, "random_state was 0 and is 1"),
    ],
)
def test_other_parameters_are_another_problem(change, said, left):
    leave, X, y, path = left
    model = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0))
    with pytest.raises(ValueError, match=f"fit.ckpt is that of another problem: {said}; delete the file to start anew"):
        model.set_params(**change).fit(X, y)
    assert path.exists()


def test_other_data_is_another_problem(left):
    leave, X, y, path = left
    model = leave(wm.SVC(gamma=0.5, C=50.0, tol=1e-6), 1)
    other = X.copy()
    other[-1, -1] = np.nextafter(other[-1, -1], 0.0)
    for data, name in (((other, y), "X"), ((X, 1 - y), "y"), ((X, y, np.ones(y.size)), "sample_weight")):
        with pytest.raises(ValueError, match=f"is that of another problem: {name} was data of shape"):
            model.fit(*data)
    with pytest.raises(ValueError, match="the estimator was SVC and is LinearSVC"):
        wm.LinearSVC(checkpoint=path).fit(X, y)


def test_a_damaged_checkpoint_is_refused_and_stays(left):
    leave, X, y, path = left
    model = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0))
    whole = path.read_bytes()
    for damaged in (whole[:-100], whole[:200], b"", b"something else", whole[:500] + b"\0\1\2" + whole[503:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"fit\.ckpt .*; delete the file to start anew"):
            model.fit(X, y)
        assert path.read_bytes() == damaged


def test_a_state_of_another_solver_is_refused(left):
    leave, X, y, path = left
    model = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0))
    journal = files.load(path)
    (run,) = journal.runs.values()
    run["state"] = wm.LinearSVC(random_state=0).fit(X, y)._state
    files.dump(path, journal)
    with pytest.raises(ValueError, match=r"holds 'sdca\.SDCAState', but must be a pegasos\.PegasosState; delete"):
        model.fit(X, y)


def test_a_file_that_is_no_checkpoint_is_never_overwritten(left):
    _, X, y, path = left
    wm.LinearSVC().fit(X, y).save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="holds a LinearSVC and no checkpoint: give the checkpoint another name"):
        wm.LinearSVC(checkpoint=path, checkpoint_every=0).fit(X, y)
    assert path.read_bytes() == before


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_bad_parameters_are_refused_in_a_sentence(cls, left):
    _, X, y, path = left
    for parameters, error, said in (
        ({"checkpoint": 3}, TypeError, "checkpoint must be the name of a file or None, got 3"),
        ({"checkpoint": path / "no" / "file"}, FileNotFoundError, "is no folder; make it first"),
        ({"checkpoint": path.parent}, IsADirectoryError, "is a folder: name a file in it"),
        ({"checkpoint": path, "checkpoint_every": -1}, ValueError, "checkpoint_every must be ≥ 0"),
    ):
        with pytest.raises(error, match=said):
            cls(**parameters).fit(X, y)


def test_a_path_takes_no_checkpoint(left):
    _, X, y, path = left
    for call in (
        lambda: wm.svm_path(X, y, [1.0], checkpoint=path),
        lambda: wm.pareto_path(X, y, nus=[0.1], checkpoint=path),
    ):
        with pytest.raises(ValueError, match="takes no checkpoint"):
            call()


# ---------------------------------------------------------------- files


def test_a_disk_that_is_full_costs_a_warning_and_not_the_fit(left, monkeypatch):
    leave, X, y, path = left
    model = leave(wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0))
    old = path.read_bytes()

    def full(number):
        assert path.read_bytes() == old
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.warns(UserWarning, match=r"could not be written \(.*No space left.*\); training goes on") as said:
        model.fit(X, y)
    monkeypatch.undo()
    assert len([each for each in said if "could not be written" in str(each.message)]) == 1
    assert same(model, wm.LinearSVC(solver="pegasos", tol=0, max_iter=20, random_state=0).fit(X, y))
    assert list(path.parent.iterdir()) == []


def test_what_a_killed_write_left_is_removed(left):
    _, X, y, path = left
    Path(f"{path}.123.0123abcd.part").touch()
    other = Path(f"{path}.txt.part")
    other.touch()
    wm.LinearSVC(checkpoint=path).fit(X, y)
    assert list(path.parent.iterdir()) == [other]


def test_no_write_comes_sooner_than_asked_for_and_none_costs_more_than_its_share(tmp_path, clock):
    kept = checkpoints.Checkpoint(tmp_path / "file", 60.0, {})
    assert not kept.due()
    clock.sleep(60.0)
    assert kept.due()
    kept.write()
    assert not kept.due()
    kept.took = 9.0
    clock.sleep(9.0 / checkpoints.SHARE - 1.0)
    assert not kept.due()
    clock.sleep(1.5)
    assert kept.due()


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_name_of_a_checkpoint_is_a_parameter_like_any_other(cls, left):
    _, X, y, path = left
    model = cls(checkpoint=str(path)).fit(X, y)
    assert not path.exists()
    model.save(path.with_name("model.npz"))
    loaded = wm.load(path.with_name("model.npz"))
    assert clone(loaded).get_params()["checkpoint"] == str(path)
    assert loaded.get_params()["checkpoint_every"] == 60
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_a_path_object_can_be_saved_with_an_estimator(left):
    _, X, y, path = left
    wm.LinearSVC(checkpoint=path).fit(X, y).save(path.with_name("model.npz"))
    assert wm.load(path.with_name("model.npz")).checkpoint == str(path)


def test_a_journal_whose_runs_do_not_share_its_bytes_is_refused():
    parts = {"problem": {}, "start": None, "runs": [["a", {}], ["b", {}], ["c", {}]], "ended": np.zeros(5, np.uint8)}
    for sizes, fits in (([2, -1, 3], True), ([2, -1, 4], False), ([2, 3], False), ([2, 2, 0], False)):
        record = Record(SCHEMAS[checkpoints.Journal], {**parts, "sizes": sizes})
        with nullcontext() if fits else pytest.raises(Damaged, match=r"its 3 runs take \d bytes, and it has 5"):
            check(record)


def test_a_journal_of_thousands_of_runs_comes_back(tmp_path, rng):
    ended = {f"run {k}": {"key": str(k), "ended": rng.integers(256, size=k % 7, dtype=np.uint8)} for k in range(6000)}
    runs = {**ended, "under way": {"key": "x", "state": rng.normal(size=3)}}
    files.dump(tmp_path / "journal.npz", checkpoints.Journal({"C": "1"}, None, runs))
    back = files.load(tmp_path / "journal.npz")
    assert list(back.runs) == list(runs)
    for name, run in runs.items():
        assert back.runs[name].keys() == run.keys()
        for part, value in run.items():
            np.testing.assert_array_equal(back.runs[name][part], value)
