"""``widemargin bench``: what is finished is not run again, and pages are made of results."""

from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("threadpoolctl")

from widemargin.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def frame(monkeypatch, tmp_path):
    """The frame, with results of its own and a page of one experiment whose runs are counted."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.papers.frame import Place, markdown
    from benchmarks.peers import frame

    class Toy(frame.Measurement):
        paper, name, title = "toy", "squares", "Squares"
        HEAD = "# A toy\n"

        def run(self, kept, quick):
            kept.get("square", lambda: self.runs.append(quick) or 9)

        def table(self, parts):
            return markdown(["square"], [[str(parts["square"])]])

    toy = Toy()
    toy.runs, toy.EXPERIMENTS = [], [toy]
    place = Place(tmp_path / "results", tmp_path / "images", tmp_path / "toy.md")
    monkeypatch.setattr(frame, "PAGES", {"toy": ()})
    monkeypatch.setattr(frame, "modules", lambda page: [toy])
    monkeypatch.setattr(frame, "place_of", lambda page, quick: place)
    monkeypatch.setattr(frame, "IDLE", False)
    frame.toy, frame.place = toy, place
    yield frame
    del frame.toy, frame.place


def test_pages_are_made_of_what_is_there_and_run_again_only_if_asked(frame, capsys):
    assert main(["bench", "toy", "--quick"]) == 0
    assert main(["bench", "--quick"]) == 0
    assert frame.toy.runs == [True]
    assert main(["bench", "all", "--again", "--idle"]) == 0
    assert frame.toy.runs == [True, False]
    assert frame.IDLE
    page = frame.place.page.read_text()
    assert page.startswith("# A toy\n")
    assert "## Squares" in page
    assert "| 9 |" in page
    assert str(frame.place.page) in capsys.readouterr().out


def test_a_page_that_is_not_known_is_told(frame, capsys):
    assert main(["bench", "everything"]) == 2
    assert "pages are toy or all, got 'everything'" in capsys.readouterr().err


def test_the_pages_in_the_repository_are_those_of_their_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.peers import frame

    for name in frame.PAGES:
        place = frame.place_of(name, quick=False)
        assert place.page.read_text() == frame.text(name, place)


def test_constants_for_a_data_set_are_chosen_without_it(monkeypatch, rng):
    """Its own times exchanged, the choice for it stays: what was right is wrong then."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.peers import auto

    def case(group, slow, fast):
        run = {"proven": True, "reason": "tol", "gap": 0.0}
        facts = {"n": 10_000, "d": 20, "entries": 20.0, "squares": 10.0 ** rng.uniform(0, 3), "classes": 2}
        runs = {"sdca": {**run, "seconds": slow}, "interior": {**run, "seconds": fast}}
        return {f"LinearSVC; {group}; C={C}": (runs, facts) for C in (1.0, 10.0)}

    others = {name: each for k in range(4) for name, each in case(f"set {k}, raw", *rng.uniform(1.0, 5.0, 2)).items()}
    own = case("own", 1.0, 4.0)
    exchanged = {name: ({"sdca": runs["interior"], "interior": runs["sdca"]}, facts)
                 for name, (runs, facts) in own.items()}  # fmt: skip
    best, one, _ = auto.left_out({**others, **own})
    _, other, _ = auto.left_out({**others, **exchanged})
    assert best in auto.RULES
    for name in own:
        assert {one[name], other[name]} == {1.0, 4.0}
    assert auto.group_of("LinearSVC; set 1, raw; C=1.0") == "set 1"
