"""``widemargin compare``: numbers are those of models, limits and interrupts are told, pages are harmless."""

import json
import multiprocessing
import os
import re
import threading
from html.parser import HTMLParser
from multiprocessing.connection import Connection
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import svm

pytest.importorskip("typer")

import fresh
import widemargin
from endless import Endless
from widemargin.cli import main
from widemargin.data import write_data
from widemargin.report import comparison, rivals
from widemargin.report.page import page
from widemargin.report.results import RIVAL, Examples, Result

#: More than any solver needs here.
LONG = ["--max-seconds", "1000", "--quiet"]


@pytest.fixture
def classes(rng):
    """(X, y) of 300 rows, two classes that overlap."""
    X = rng.normal(size=(300, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0.0, 1, -1)


@pytest.fixture
def files(classes, tmp_path):
    """The paths of rows to train on, and of rows to measure on."""
    X, y = classes
    write_data(tmp_path / "train.npz", X[:200], y[:200])
    write_data(tmp_path / "test.npz", X[200:], y[200:])
    return [str(tmp_path / "train.npz"), "--test", str(tmp_path / "test.npz")]


def results_of(capsys, *arguments):
    assert main(["compare", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {each["name"]: each for each in found["results"]}, found["facts"]


def test_errors_sizes_and_gaps_are_those_of_models_fitted_again(files, classes, capsys):
    found, facts = results_of(capsys, *files, *LONG, "--C", "0.5", "--gamma", "0.3", "--only", "sdca,smo,svc 100")
    X, y = classes
    models = {
        "LinearSVC sdca": widemargin.LinearSVC(0.5, solver="sdca", random_state=0),
        "SVC smo": widemargin.SVC(0.5, gamma=0.3, solver="smo", random_state=0),
        "BudgetedSVC 100": widemargin.BudgetedSVC(
            100, lam=1 / (0.5 * 200), gamma=0.3, max_iter=comparison.PASSES, random_state=0
        ),
    }
    assert list(found) == list(models)
    for name, model in models.items():
        model.fit(X[:200], y[:200])
        assert found[name]["error"] == np.mean(model.predict(X[200:]) != y[200:])
        assert found[name]["stop_reason"] == model.stop_reason_
        assert found[name]["curve"][-1] == [found[name]["seconds"], found[name]["error"]]
        seconds = [point[0] for point in found[name]["curve"]]
        assert seconds == sorted(seconds)
    linear = found["LinearSVC sdca"]
    assert linear["bytes"] == 4 * 8
    assert linear["vectors"] is None
    assert linear["relative_gap"] <= 1e-3
    assert found["SVC smo"]["vectors"] == models["SVC smo"].support_.size
    assert found["BudgetedSVC 100"]["relative_gap"] is None
    assert facts["training rows"] == 200
    assert "--C 0.5" in facts["command"]


class AsAThread(threading.Thread):
    """A thread in the place of a process, which would import for seconds what is here."""

    exitcode = 0

    def __init__(self, target, args, daemon):
        pipe, *rest = args
        own = Connection(os.dup(pipe.fileno()))  # as a process has
        super().__init__(target=target, args=(own, *rest), daemon=daemon)

    def kill(self):
        """Rivals here end by themselves."""


@pytest.fixture
def in_threads(monkeypatch):
    """Rivals run in threads; in processes they do where one is killed, and where the command is one of its own."""
    context = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=AsAThread)
    monkeypatch.setattr(rivals.multiprocessing, "get_context", lambda way: context)


@pytest.mark.usefixtures("in_threads")
def test_rivals_solve_the_same_problem(files, classes, capsys):
    found, _ = results_of(capsys, *files, *LONG, "--gamma", "0.3", "--only", "scikit-learn")
    X, y = classes
    asked = comparison.contenders(Examples(X[:200], y[:200], X[200:], y[200:]), comparison.Setting(gamma=0.3))
    for name, model in {
        "scikit-learn LinearSVC": svm.LinearSVC(loss="hinge", random_state=0),
        "scikit-learn SVC": svm.SVC(gamma=0.3),
    }.items():
        assert asked[name].get_params() == model.get_params()
        model.fit(X[:200], y[:200])
        assert found[name]["error"] == np.mean(model.predict(X[200:]) != y[200:])
        assert found[name]["stop_reason"] in ("tol", "max_iter")  # LIBLINEAR's epochs may not do
    sgd = found["scikit-learn SGDClassifier"]
    assert sgd["stop_reason"] == "max_iter"
    assert len(sgd["curve"]) == 8  # after 1, 2, 4, … 64 and 100 epochs


def test_a_rival_that_does_not_end_is_killed_and_said_to_be_unfinished(files, classes):
    X, y = classes
    name = RIVAL + "Endless"
    results = list(comparison.compare({name: Endless()}, Examples(X, y, X, y), 0.01))
    assert [(each.name, each.stop_reason, each.error) for each in results] == [(name, "not finished", None)]
    assert results[0].seconds == 0.01


@pytest.mark.usefixtures("in_threads")
def test_a_contender_that_fails_says_why_and_the_others_go_on(classes):
    X, y = classes
    estimators = {
        "bad": widemargin.LinearSVC(-1.0), RIVAL + "bad": svm.LinearSVC(C=-1.0),
        "good": widemargin.LinearSVC(solver="sdca", random_state=0),
    }  # fmt: skip
    bad, rival, good = comparison.compare(estimators, Examples(X, y, X, y), 1000.0)
    assert bad.stop_reason.startswith("failed: C must be")
    assert rival.stop_reason.startswith("failed: The 'C' parameter of LinearSVC must be")
    assert good.stop_reason == "tol"


def test_ctrl_c_shows_what_has_ended(files, capsys, monkeypatch):
    def run(result, estimator, examples):
        if result.name != "LinearSVC sdca":
            raise KeyboardInterrupt
        result.error, result.stop_reason = 0.25, "tol"

    monkeypatch.setattr(comparison, "_run", run)
    assert main(["compare", *files, *LONG]) == 130
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == ["LinearSVC sdca", "LinearSVC pegasos"]
    assert "interrupted" in lines[2]
    assert "interrupted" in said.err


def test_ctrl_c_in_the_fit_that_compiles_stops_all(classes):
    class Interrupted(widemargin.LinearSVC):
        def fit(self, X, y):
            super().fit(X, y)
            self.stop_reason_ = "interrupted"  # as after Ctrl-C, which fit takes for itself
            return self

    X, y = classes
    estimators = {"first": Interrupted(), "second": widemargin.LinearSVC()}
    (result,) = comparison.compare(estimators, Examples(X, y, X, y), 1000.0)
    assert (result.name, result.stop_reason, result.error) == ("first", "interrupted", None)


def test_the_table_is_there_and_the_old_page_stays_where_the_page_fails(files, capsys, tmp_path, monkeypatch):
    def fails(*given):
        raise ValueError("no page")

    html = tmp_path / "page.html"
    html.write_text("old")
    monkeypatch.setattr("widemargin.report.page.page", fails)
    assert main(["compare", *files, *LONG, "--only", "sdca", "--html", str(html)]) == 2
    told = capsys.readouterr()
    assert told.out.splitlines()[1].startswith("LinearSVC sdca")
    assert told.err == "widemargin: no page\n"
    assert html.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("page")] == ["page.html"]


def test_numbers_are_predicted_and_their_error_is_the_root_mean_square(rng, tmp_path, capsys):
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=200)
    write_data(tmp_path / "train.npz", X[:150], y[:150])
    write_data(tmp_path / "test.npz", X[150:], y[150:])
    given = [str(tmp_path / "train.npz"), "--test", str(tmp_path / "test.npz"), *LONG, "--regression"]
    found, _ = results_of(capsys, *given, "--only", "linearsvr sdca", "--epsilon", "0.2")
    model = widemargin.LinearSVR(epsilon=0.2, solver="sdca", random_state=0).fit(X[:150], y[:150])
    expected = np.sqrt(np.mean((model.predict(X[150:]) - y[150:]) ** 2))
    assert found["LinearSVR sdca"]["error"] == pytest.approx(expected, rel=1e-12)


def test_models_of_a_part_of_the_classes_are_no_points(rng):
    X = rng.normal(size=(150, 2))
    examples = Examples(X, np.digitize(X[:, 0], [-0.4, 0.4]), X, np.digitize(X[:, 0], [-0.4, 0.4]))
    (result,) = comparison.compare({"SVC smo": widemargin.SVC(solver="smo", random_state=0)}, examples, 1000.0)
    assert result.curve == [(result.seconds, result.error)]
    assert result.relative_gap <= 1e-3  # the largest of three


def test_the_held_out_share_is_of_each_class(classes, tmp_path, capsys):
    write_data(tmp_path / "all.npz", *classes)
    found, facts = results_of(capsys, str(tmp_path / "all.npz"), *LONG, "--validation", "0.3", "--only", "sdca")
    counts = [np.sum(classes[1] == label) for label in (-1, 1)]
    held = sum(round(0.3 * count) for count in counts)
    assert facts["training rows"] == 300 - held
    assert facts["test rows"].startswith(f"{held}, ")
    assert list(found) == ["LinearSVC sdca"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--only", "liblinear"], "--only 'liblinear' is part of no name here"),
        (["--only", "sdca", "--skip", "linear"], "leave nothing to compare"),
        (["--C", "-1"], "--C must be"),
        (["--gamma", "wide"], "--gamma must be"),
        (["--max-seconds", "0"], "--max-seconds must be"),
        (["--html", "no/such/folder/page.html"], "no/such/folder is no folder"),
        (["--test", "none.npz"], "none.npz"),
    ],
)
def test_bad_input_is_one_sentence(given, said, files, capsys):
    assert main(["compare", *files, *given]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_rows_of_one_class_are_refused(rng, tmp_path, capsys):
    write_data(tmp_path / "one.npz", rng.normal(size=(20, 2)), np.ones(20))
    assert main(["compare", str(tmp_path / "one.npz")]) == 2
    assert "one class only" in capsys.readouterr().err


# ---------------------------------------------------------------- the page


class Checked(HTMLParser):
    """Tags that are opened and closed in order, and the texts outside of the style sheet."""

    EMPTY = ("meta", "circle", "polygon", "polyline", "line")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


NASTY = "<script>alert('&amp;')</script>"


def test_names_and_labels_do_no_harm_on_the_page(rng, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X = rng.normal(size=(120, 2))
    labels = np.where(X[:, 0] > 0.0, "<img src=x onerror=alert(1)>", "a & b")
    name = "<b>&x.npz"
    write_data(name, X, labels)
    assert main(["compare", name, *LONG, "--only", "sdca", "--html", "page.html"]) == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    found = Checked(text)
    assert "img" not in found.tags
    assert "b" not in found.tags
    assert f"Solvers on {name}" in found.texts
    assert any("<img src=x onerror=alert(1)>" in each and "a & b" in each for each in found.texts)
    assert capsys.readouterr().out.startswith("name ")


def test_a_page_fetches_nothing_and_runs_nothing(rng):
    points = [(float(k + 1), float(error)) for k, error in enumerate(rng.uniform(0.1, 0.4, size=6))]
    results = [Result(NASTY + str(k), NASTY, 1.0, 0.2, 1e-3, 10, 1000 * (k + 1), points) for k in range(12)]
    results += [Result(RIVAL + "x", "not finished", 5.0), Result("no points", "failed: " + NASTY)]
    text = page(NASTY, results, {NASTY: NASTY})
    found = Checked(text)
    assert set(found.tags).isdisjoint({"script", "link", "img", "iframe", "object"})
    assert {name for name, _ in found.attributes}.isdisjoint({"src", "href", "onload", "onclick"})
    assert not re.search(r"https?:|url\(|@import", text)
    assert found.tags.count("svg") == 2 + 12
    assert sum(NASTY in each for each in found.texts) >= 12
    assert "prefers-color-scheme: dark" in text


def test_the_test_file_counts_features_as_the_other(rng, tmp_path, capsys):
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 1] > 0.0, 1, -1)
    X[100:, 0] = 0.0  # the index 0 is in the first file alone
    write_data(tmp_path / "a.svm", X[:100], y[:100], zero_based=True)
    write_data(tmp_path / "b.svm", X[100:], y[100:], zero_based=True)
    given = [str(tmp_path / "a.svm"), "--test", str(tmp_path / "b.svm"), *LONG, "--only", "sdca"]
    found, _ = results_of(capsys, *given)
    model = widemargin.LinearSVC(solver="sdca", random_state=0).fit(X[:100], y[:100])
    assert found["LinearSVC sdca"]["error"] <= np.mean(model.predict(X[100:]) != y[100:]) + 0.1


@pytest.mark.parametrize("error", [np.inf, np.nan, 1e308])
def test_errors_without_a_place_are_left_out_of_figures(error):
    good = [Result(f"good {k}", "tol", 1.0, 0.5 + k, None, None, 100, [(0.5, 2.0), (1.0, 0.5 + k)]) for k in range(2)]
    astray = Result("astray", "tol", 1.0, error, None, None, 100, [(0.5, error), (1.0, error)])
    text = page("numbers", [astray, *good], {}, False)
    drawn = text.split("<h2>Results</h2>")[0]
    assert "astray" not in drawn
    assert not re.search(r"\b(nan|inf)\b", drawn)
    assert "by good 0 in" in text
    assert "No solver has ended with a model." in page("numbers", [astray], {}, False)


def test_a_page_without_results_says_so():
    assert "No solver has ended with a model." in Checked(page("nothing", [], {})).texts


def test_as_a_command_of_its_own(files, tmp_path):
    html = tmp_path / "page.html"
    done = fresh.run(fresh.COMMAND, "compare", *files, *LONG, "--only", "scikit-learn svc,sdca", "--html", html)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["name", "LinearSVC sdca", "scikit-learn SVC"]
    Checked(html.read_text(encoding="utf-8"))
