"""``widemargin reproduce``: what is finished is not run again, what was killed goes on, and the page is made of it."""

import json
import os
import re
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("typer")

from widemargin.cli import main, reproducing

ROOT = Path(__file__).parents[2]


@pytest.fixture
def frame(monkeypatch, tmp_path):
    """The frame, with results of its own and a paper of one experiment whose runs are counted."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import datasets
    from benchmarks.papers import frame

    class Toy(frame.Experiment):
        paper, name, shows = "toy", "Figure 1", "that numbers grow."
        fails_at, runs = None, []

        def run(self, kept, quick):
            for k in range(3):
                kept.get(f"part {k}", lambda k=k: self.compute(k))

        def compute(self, k):
            if k == self.fails_at:
                raise KeyboardInterrupt
            self.runs.append(k)
            return (k, {"square": k * k})

        def table(self, parts):
            return frame.markdown(["k", "square"], [[str(k), str(part["square"])] for k, part in parts.values()])

        def claims(self, parts):
            last = parts["part 2"][1]["square"]
            grows = frame.Claim("numbers grow", f"{last} at the end", last > 0)
            return [grows, frame.Claim("they shrink", f"{last}", last < 0, "they grow")]

    toy = Toy()
    toy.runs = []
    place = frame.Place(tmp_path / "results", tmp_path / "images", tmp_path / "page.md")
    monkeypatch.setattr(frame, "PAPERS", {"toy": ((), "A toy (2012)")})
    monkeypatch.setattr(frame, "experiments", lambda paper: [toy])
    monkeypatch.setattr(frame, "place_of", lambda quick: place)
    monkeypatch.setattr(datasets, "DATA", ROOT)
    frame.toy, frame.place = toy, place
    yield frame
    del frame.toy, frame.place


def test_finished_experiments_are_run_again_only_if_asked(frame, capsys):
    assert main(["reproduce", "toy"]) == 0
    assert frame.toy.runs == [0, 1, 2]
    assert str(frame.place.page) in capsys.readouterr().out
    assert main(["reproduce", "all"]) == 0
    assert frame.toy.runs == [0, 1, 2]
    assert main(["reproduce", "all", "--again"]) == 0
    assert frame.toy.runs == [0, 1, 2] * 2


def test_an_experiment_that_was_stopped_goes_on_where_it_was(frame):
    frame.toy.fails_at = 2
    assert main(["reproduce", "toy"]) == 130
    kept = json.loads((frame.place.results / "toy_fig1.json").read_text())
    assert (kept["done"], list(kept["parts"])) == (False, ["part 0", "part 1"])
    assert not frame.place.page.exists()
    frame.toy.fails_at = None
    assert main(["reproduce", "toy"]) == 0
    assert frame.toy.runs == [0, 1, 2]


def test_a_result_stands_until_one_that_is_computed_again_is_whole(frame, capsys):
    main(["reproduce", "toy"])
    result = frame.place.results / "toy_fig1.json"
    before, frame.toy.fails_at = result.read_text(), 1
    assert main(["reproduce", "toy", "--again"]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert result.read_text() == before
    frame.toy.fails_at = None
    assert main(["reproduce", "toy", "--again"]) == 0
    assert frame.toy.runs == [0, 1, 2, 0, 1, 2]
    assert [path.name for path in frame.place.results.iterdir()] == ["toy_fig1.json"]


def before_it_is_written(patch, frame):
    """Kill runs when all parts are there."""

    def killed(kept):
        raise KeyboardInterrupt

    patch.setattr(frame.Kept, "finish", killed)


def before_it_has_its_place(patch, frame):
    """Kill runs that are written as done, beside the old result."""
    replace = os.replace

    def killed(source, target):
        if source.suffix == ".again":
            raise KeyboardInterrupt
        replace(source, target)

    patch.setattr(os, "replace", killed)


@pytest.mark.parametrize("kill", [before_it_is_written, before_it_has_its_place])
def test_a_whole_run_that_was_killed_takes_the_old_results_place_and_is_not_run_again(kill, frame, monkeypatch):
    main(["reproduce", "toy"])
    with monkeypatch.context() as patch:
        kill(patch, frame)
        patch.setattr(frame, "machine", lambda: "that of the run; versions")
        assert main(["reproduce", "toy", "--again"]) == 130
    assert main(["reproduce", "toy", "--again"]) == 0
    assert frame.toy.runs == [0, 1, 2, 0, 1, 2]
    assert [path.name for path in frame.place.results.iterdir()] == ["toy_fig1.json"]
    kept = frame.Kept(frame.place.results / "toy_fig1.json")
    assert (kept.done, kept.machine) == (True, "that of the run; versions")


@pytest.mark.parametrize("kill", [before_it_is_written, before_it_has_its_place])
def test_so_do_runs_of_the_tracker(kill, frame, monkeypatch, tmp_path):
    from benchmarks.papers import incremental

    ran, folder = [], tmp_path / "tracked"
    set_ups = [("one", lambda run: ran.append(run) or run)]
    monkeypatch.setattr(incremental, "FIGURES", {"toy": (lambda rows: set_ups, 5, len(set_ups))})
    incremental.execute("toy", 2, None, folder)
    with monkeypatch.context() as patch:
        kill(patch, frame)
        with pytest.raises(KeyboardInterrupt):
            incremental.execute("toy", 2, None, folder, again=True)
    incremental.execute("toy", 2, None, folder, again=True)
    assert ran == [0, 1, 0, 1]
    assert incremental.held("toy", folder).done
    assert [path.name for path in folder.iterdir()] == ["incremental_toy.json"]


def test_what_a_figure_of_several_files_took_tells_of_all_machines_and_of_seconds_that_were_not_kept(frame, tmp_path):
    from benchmarks.papers import incremental

    figure = incremental.Figure2()
    for name, seconds in zip(figure.figures, (1.5, 2.0)):
        kept = incremental.held(name, tmp_path)
        kept.seconds, kept.machine = seconds, f"machine of {name}; version"
        kept.finish()
    assert figure.spent(tmp_path) == (3.5, {"machine of fig2; version", "machine of fig2_mnist; version"})
    place = frame.Place(tmp_path, tmp_path, tmp_path / "page.md")
    text = frame.spent(place, [("incremental", figure, {})], "By a clock.")
    assert "By a clock." in text
    assert "| in all | 4 |" in text
    assert all(f"machine of {name}" in text for name in figure.figures)
    kept.done, kept.seconds = False, None
    kept.finish()
    text = frame.spent(place, [("incremental", figure, {})], "By a clock.")
    assert "| incremental, Figure 2 | not kept |" in text
    assert "| in all that is known | 0 |" in text


def test_trials_without_data_are_apart(frame, monkeypatch, tmp_path):
    """An empty folder is none."""
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import datasets
    from benchmarks.peers import auto
    from benchmarks.peers import frame as peers

    (tmp_path / "empty").mkdir()
    for place_of in (frame.place_of, partial(peers.place_of, "auto")):
        trials, full = [], []
        for folder in (ROOT, tmp_path / "empty", tmp_path / "none"):
            monkeypatch.setattr(datasets, "DATA", folder)
            trials.append(place_of(quick=True))
            full.append(place_of(quick=False))
            assert [each.lacks(quick=False) for each in auto.EXPERIMENTS] == [
                "" if folder == ROOT else f"{folder} has no data"
            ] * len(auto.EXPERIMENTS)
        assert full[0] == full[1] == full[2]
        assert trials[1] == trials[2]
        assert not set(vars(trials[0]).values()) & set(vars(trials[1]).values())


def test_without_data_no_result_of_a_full_run_is_replaced(frame, capsys, monkeypatch, tmp_path):
    from benchmarks import datasets

    main(["reproduce", "toy"])
    monkeypatch.setattr(datasets, "DATA", tmp_path / "none")
    assert main(["reproduce", "toy", "--again"]) == 2
    assert "set WIDEMARGIN_DATA" in capsys.readouterr().err
    assert frame.toy.runs == [0, 1, 2]
    assert main(["reproduce", "toy", "--again", "--quick"]) == 0
    assert frame.toy.runs == [0, 1, 2, 0, 1, 2]


def test_a_quick_page_gives_no_reasons(frame):
    main(["reproduce", "toy", "--quick"])
    page = frame.place.page.read_text()
    assert "**differs**" in page
    assert "*Why:*" not in page


def test_the_page_has_what_the_paper_shows_the_numbers_and_the_claims(frame):
    main(["reproduce", "toy"])
    page = frame.place.page.read_text()
    assert "*The paper:* that numbers grow." in page
    assert "| 2 | 4 |" in page
    assert "2 claims, of which 1 hold." in page
    assert re.search(r"^\| holds \| [^|]*: numbers grow \| 4 at the end \|$", page, re.MULTILINE)
    assert re.search(r"^\| \*\*differs\*\* \| [^|]*: they shrink \| 4<br>\*Why:\* they grow \|$", page, re.MULTILINE)


def test_a_paper_that_is_not_known_and_a_place_without_experiments_are_told(frame, capsys, monkeypatch, tmp_path):
    assert main(["reproduce", "euclid"]) == 2
    assert "papers are toy or all, got 'euclid'" in capsys.readouterr().err
    monkeypatch.setattr(reproducing, "FRAME", Path("no") / "such.py")
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "all"]) == 2
    assert "run this from a checkout" in capsys.readouterr().err


def test_the_page_in_the_repository_is_that_of_its_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.papers import frame

    place = frame.place_of(quick=False)
    assert place.page.read_text() == frame.page(place)
