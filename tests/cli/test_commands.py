"""The command, end to end: it prints and writes what the library computes, and what is wrong is one sentence."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer")

import widemargin
from widemargin.cli import main
from widemargin.cli.commands import COMMANDS
from widemargin.cli.options import ESTIMATORS, estimator_options, parameters_of, value_of
from widemargin.data import open_data, write_data

INSTALLED = shutil.which("widemargin", path=str(Path(sys.executable).parent))
COMMAND = [INSTALLED] if INSTALLED else [sys.executable, "-m", "widemargin.cli"]


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    """A folder with data to train and to test on, in which commands run."""
    monkeypatch.chdir(tmp_path)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=300) > 0, 1, -1)
    write_data("train.svm", X[:200], y[:200])
    write_data("test.svm", X[200:], y[200:])
    write_data("train.csv", X[:200], np.where(y[:200] > 0, "yes", "no"), names=list("abcd"), target="answer")
    write_data("numbers.svm", X[:200], X[:200] @ [1.0, 2.0, 0.0, 0.0])
    return tmp_path


def run(capfd, *arguments, code=0):
    """(standard output, standard error) of a command that ends with this code."""
    got = main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    assert got == code, err
    return out, err


def error_of(model, path, **options):
    X, y = open_data(path, **options).load()
    return float(np.mean(model.predict(X) != y))


# ---------------------------------------------------------------- train, evaluate, predict


def test_a_model_is_trained_measured_and_used(folder, capfd):
    out, _ = run(capfd, "train", "train.svm", "-o", "m.npz", "--C", "0.5", "--random-state", "0", "-q", "--json")
    told = json.loads(out)
    model = widemargin.load("m.npz")
    X, y = open_data("train.svm").load()
    same = widemargin.LinearSVC(C=0.5, random_state=0).fit(X, y.astype(int))
    np.testing.assert_array_equal(model.coef_, same.coef_)
    assert told["training error"] == pytest.approx(error_of(model, "train.svm"), abs=1e-6)
    assert (told["rows"], told["features"], told["classes"], told["stop_reason"]) == (200, 4, [-1, 1], "tol")
    assert told["relative_gap"] <= 1e-3
    out, _ = run(capfd, "evaluate", "m.npz", "test.svm", "--json")
    wrong = error_of(model, "test.svm")
    told = json.loads(out)
    assert (told["examples"], told["error"]) == (100, pytest.approx(wrong, abs=1e-6))
    assert told["wrong"] == round(100 * wrong)
    out, _ = run(capfd, "predict", "m.npz", "test.svm", "--scores")
    Z, _ = open_data("test.svm").load()
    lines = [line.split("\t") for line in out.splitlines()]
    assert [int(label) for label, _ in lines] == model.predict(Z).tolist()
    np.testing.assert_array_equal([float(score) for _, score in lines], model.decision_function(Z))
    run(capfd, "predict", "m.npz", "test.svm", "-o", "labels.txt")
    assert [int(label) for label in Path("labels.txt").read_text().split()] == model.predict(Z).tolist()


def test_rows_are_held_out_or_in_another_file(folder, capfd):
    out, _ = run(capfd, "train", "train.svm", "--validation", "0.25", "--test", "test.svm", "-q", "--json")
    told = json.loads(out)
    assert told["rows"] == 150
    assert told["test error"] == pytest.approx(error_of(widemargin.load("model.npz"), "test.svm"), abs=1e-6)
    assert 0.0 <= told["validation error"] <= 1.0
    write_data("test.npz", *open_data("test.svm", n_features=4).load())
    told = json.loads(run(capfd, "train", "train.svm", "--test", "test.npz", "-q", "--json")[0])
    assert told["test error"] == pytest.approx(error_of(widemargin.load("model.npz"), "test.svm"), abs=1e-6)


def test_tables_remember_their_columns(folder, capfd):
    rows = [f"{20 + k % 40},{'NW'[k % 2]},{'true' if k % 3 else 'false'},{'ab'[k % 2]}" for k in range(60)]
    Path("people.csv").write_text("\n".join(["age,town,ill,answer", *rows, ""]))
    run(capfd, "train", "people.csv", "--target", "answer", "--categories", "onehot", "-q")
    Path("new.csv").write_text("town,age,ill,other\nN,30,true,9\nW,50,false,9\n")
    out, _ = run(capfd, "predict", "model.npz", "new.csv")
    assert out.split() == ["a", "b"]
    out, _ = run(capfd, "evaluate", "model.npz", "people.csv", "--json")
    assert json.loads(out)["error"] == 0.0
    _, err = run(capfd, "evaluate", "model.npz", "new.csv", code=2)
    assert "has no column 'answer' for the target" in err
    Path("new.csv").write_text("town,age,ill\nS,30,true\n")
    _, err = run(capfd, "predict", "model.npz", "new.csv", code=2)
    assert "has the value 'S', which is none of those known, 'N', 'W'" in err


def test_regression(folder, capfd):
    run(capfd, "train", "numbers.svm", "-e", "linear-svr", "-q")
    out, _ = run(capfd, "evaluate", "model.npz", "numbers.svm", "--json")
    told, model = json.loads(out), widemargin.load("model.npz")
    X, y = open_data("numbers.svm").load()
    wrong = model.predict(X) - y
    assert told["R²"] == pytest.approx(model.score(X, y))
    assert told["mean absolute error"] == pytest.approx(np.mean(np.abs(wrong)))
    assert told["root mean square error"] == pytest.approx(np.sqrt(np.mean(wrong**2)))


def test_chunks_and_history(folder, capfd):
    arguments = (
        "train",
        "train.svm",
        "--epochs",
        "3",
        "--max-memory",
        "8 kB",
        "--test",
        "test.svm",
        "--history",
        "h.jsonl",
    )
    out, err = run(capfd, *arguments, "--json")
    told = json.loads(out)
    assert (told["rows"], told["classes"]) == (600, [-1, 1])
    assert told["test error"] == pytest.approx(error_of(widemargin.load("model.npz"), "test.svm"), abs=1e-6)
    rows = [json.loads(line) for line in Path("h.jsonl").read_text().splitlines()]
    assert [row["rows"] for row in rows] == sorted(row["rows"] for row in rows)
    assert len(rows) == len(err.splitlines()) > 3
    _, err = run(capfd, *arguments, "--validation", "0.1", code=2)
    assert "--validation holds rows out of a file that is loaded whole" in err


def test_the_history_of_a_fit_is_that_of_the_model(folder, capfd):
    run(capfd, "train", "train.svm", "--history", "h.jsonl", "-q")
    rows = [json.loads(line) for line in Path("h.jsonl").read_text().splitlines()]
    history = widemargin.load("model.npz").history_
    assert [row["objective"] for row in rows] == list(history["objective"])


def test_standard_input(folder):
    data = Path("train.svm").read_bytes()
    done = subprocess.run([*COMMAND, "train", "-", "-q", "-o", "m.npz"], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    test = Path("test.svm").read_bytes()
    done = subprocess.run([*COMMAND, "predict", "m.npz", "-"], input=test, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    Z, _ = open_data("test.svm").load()
    assert [int(v) for v in done.stdout.split()] == widemargin.load("m.npz").predict(Z).tolist()


def test_ctrl_c_saves_the_model_and_ends_with_130(folder):
    # a fit that ends by Ctrl-C alone, sent when the first line of the history is there
    command = [*COMMAND, "train", "train.svm", "--tol", "0", "--max-iter", "1000000000", "--history", "h.jsonl", "-q"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        while process.poll() is None and not (os.path.exists("h.jsonl") and os.path.getsize("h.jsonl")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert b"interrupted; the model so far is in model.npz" in err
    assert widemargin.load("model.npz").stop_reason_ == "interrupted"


def test_strict_ends_with_1_where_tol_was_not_reached(folder, capfd):
    run(capfd, "train", "train.svm", "--max-iter", "1", "--tol", "1e-12", "--strict", "-q", code=1)
    run(capfd, "train", "train.svm", "--max-iter", "1", "--tol", "1e-12", "-q")
    run(capfd, "train", "train.svm", "--strict", "-q")


def test_bad_lines_are_skipped_and_counted(folder, capfd):
    with open("train.svm", "a") as file:
        file.write("bad line\n1 1:x\n")
    _, err = run(capfd, "train", "train.svm", "-q", code=2)
    assert err == (
        "widemargin: train.svm, line 201 begins with 'bad', which is no number: the label comes first "
        "(on_bad_line='skip' leaves such lines out)\n"
    )
    out, _ = run(capfd, "train", "train.svm", "-q", "--on-bad-line", "skip")
    assert "skipped lines: 2" in out


# ---------------------------------------------------------------- convert, info


@pytest.mark.parametrize("suffix", ["svm.gz", "csv", "parquet", "npz"])
def test_data_is_converted(folder, capfd, suffix):
    run(capfd, "convert", "train.svm", f"copy.{suffix}")
    X, y = open_data("train.svm").load()
    A, b = open_data(f"copy.{suffix}").load()
    np.testing.assert_array_equal(A if isinstance(A, np.ndarray) else A.toarray(), X.toarray())
    np.testing.assert_array_equal(b, y)
    out, _ = run(capfd, "info", f"copy.{suffix}", "--json")
    told = json.loads(out)
    assert (told["rows"], told["features"], told["labels"]) == (200, 4, [-1, 1])


def test_names_of_columns_survive(folder, capfd):
    run(capfd, "convert", "train.csv", "copy.parquet", "--target", "answer")
    opened = open_data("copy.parquet", target="answer")
    opened.load()
    assert opened.feature_names == list("abcd")


def test_models_are_converted(folder, capfd):
    run(capfd, "train", "train.svm", "-q", "--random-state", "0")
    run(capfd, "convert", "model.npz", "model.liblinear")
    run(capfd, "convert", "model.liblinear", "back.npz")
    X, _ = open_data("test.svm").load()
    np.testing.assert_array_equal(widemargin.load("back.npz").predict(X), widemargin.load("model.npz").predict(X))
    out, _ = run(capfd, "info", "model.npz", "--json")
    told = json.loads(out)
    assert (told["estimator"], told["features"], told["classes"]) == ("LinearSVC", 4, [-1, 1])
    assert "C=1.0" in told["parameters"]
    _, err = run(capfd, "convert", "model.npz", "model.xyz", code=2)
    assert "does not say which format" in err
    run(capfd, "train", "train.svm", "-q", "--random-state", "0", "-o", "direct.liblinear")
    assert Path("direct.liblinear").read_text() == Path("model.liblinear").read_text()


def test_what_is_installed(capfd):
    out, _ = run(capfd, "info")
    assert f"widemargin: {widemargin.__version__}" in out
    assert "numba: " in out


# ---------------------------------------------------------------- what is wrong, and help


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "nothing.svm"], "there is no file 'nothing.svm'"),
        (["train", "train.svm", "--C", "-1"], "C must be > 0 and finite, got -1"),
        (["train", "train.svm", "--C", "much"], "C must be a number > 0, got 'much'"),
        (["train", "train.svm", "--budget", "5"], "--budget is an option of BudgetedSVC, BudgetedSVR, IncrementalSVC"),
        (["train", "train.svm", "-e", "Tree"], "--estimator must be one of LinearSVC"),
        (["train", "train.svm", "--solver", "Magic(1)"], "names no solver: the known ones are"),
        (["train", "train.svm", "--solver", "Pegasos(x=y)"], "is no solver with numbers and text as its arguments"),
        (["train", "train.svm", "--dtype", "int8"], "--dtype must be float32 or float64, got 'int8'"),
        (["train", "train.svm", "--validation", "2"], "--validation must be between 0 and 1, got 2"),
        (["train", "train.svm", "--target", "y"], "target is for csv and parquet and npz"),
        (["train", "train.svm", "-o", "no/model.npz"], "no is no folder; make it first"),
        (["train", "train.csv"], "which column is the target"),
        (["train", "train.svm", "--wrong"], "No such option"),
        (["train"], ""),
        (["nothing"], "No such command"),
        (["predict", "train.svm", "test.svm"], "train.svm is not a whole widemargin file"),
        (["evaluate", "missing.npz", "test.svm"], "missing.npz"),
        (["predict", "model.npz", "test.svm", "--proba"], "--proba needs a model of the log-loss"),
        (["predict", "model.npz", "wide.svm"], "line 1 has '9:1', whose index is beyond n_features=4"),
        (["evaluate", "model.npz", "empty.svm"], "empty.svm holds no examples"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_2(folder, capfd, arguments, said):
    if arguments[:1] in (["predict"], ["evaluate"]):
        run(capfd, "train", "train.svm", "-q")
    Path("wide.svm").write_text("1 9:1\n")
    Path("empty.svm").write_text("")
    out, err = run(capfd, *arguments, code=2)
    assert said in re.sub(r"\s+", " ", err + out)
    if said and "No such" not in said:
        assert err.count("\n") == 1
        assert err.startswith("widemargin: ")


def test_a_failed_training_leaves_the_old_model(folder, capfd):
    run(capfd, "train", "train.svm", "-q")
    before = Path("model.npz").read_bytes()
    run(capfd, "train", "train.svm", "-q", "--C", "0", code=2)
    assert Path("model.npz").read_bytes() == before


def test_an_error_of_ours_is_shown_whole_when_asked(folder, monkeypatch):
    monkeypatch.setenv("WIDEMARGIN_DEBUG", "1")
    with pytest.raises(FileNotFoundError):
        main(["train", "nothing.svm"])


def test_help_names_every_command_and_parameter(capfd):
    out, _ = run(capfd, "--help")
    for name, (_, short) in COMMANDS.items():
        assert name in out
        assert short.split()[0] in out
    plain = " ".join(run(capfd, "train", "--help")[0].split())
    for estimator in ESTIMATORS:
        for name in parameters_of(getattr(widemargin, estimator)):
            assert "--" + name.replace("_", "-") in plain, name
    out, _ = run(capfd, "--version")
    assert out == f"widemargin {widemargin.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    from importlib import import_module

    module, short = COMMANDS[name]
    assert getattr(import_module(f"widemargin.cli.{module}"), name).__doc__.splitlines()[0] == short


def test_help_of_the_whole_needs_no_compiler():
    code = "import sys; from widemargin.cli import main; main(['--help']); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_values_on_the_command_line():
    assert [value_of(text) for text in ("1", "1e-3", "None", "auto", "{1: 2.0}", "balanced")] == [
        1, 1e-3, None, "auto", {1: 2.0}, "balanced",
    ]  # fmt: skip
    assert value_of("Pegasos(batch_size=16)") == widemargin.Pegasos(batch_size=16)
    assert value_of("__import__('os')") == "__import__('os')"


def test_every_option_of_an_estimator_has_a_help_or_a_default():
    for parameter in estimator_options():
        assert len(parameter.annotation.__metadata__[0].help) > 3, parameter.name


def test_the_installed_command_completes_words():
    if INSTALLED is None:
        pytest.skip("the command is not installed")
    asked = {**os.environ, "_WIDEMARGIN_COMPLETE": "complete_bash", "COMP_WORDS": "widemargin tr", "COMP_CWORD": "1"}
    done = subprocess.run([INSTALLED], env=asked, capture_output=True, text=True, check=False)
    assert "train" in done.stdout
    asked |= {"COMP_WORDS": "widemargin train --max-s", "COMP_CWORD": "2"}
    done = subprocess.run([INSTALLED], env=asked, capture_output=True, text=True, check=False)
    assert "--max-seconds" in done.stdout


def test_a_checkpoint_is_gone_on_from_and_belongs_to_one_problem(folder, capfd):
    same = ("train", "train.svm", "-q", "--random-state", "0", "--solver", "pegasos", "--checkpoint", "run.npz")
    run(capfd, *same, "--max-seconds", "1e-6")
    assert Path("run.npz").exists()
    _, err = run(capfd, *same, "--C", "2", code=2)
    assert "C was 1.0 and is 2" in err
    run(capfd, *same)
    assert not Path("run.npz").exists()
    resumed = widemargin.load("model.npz")
    X, y = open_data("train.svm").load()
    whole = widemargin.LinearSVC(solver="pegasos", random_state=0).fit(X, y.astype(int))
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
