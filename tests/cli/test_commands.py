"""The command, end to end: it prints and writes what the library computes, and what is wrong is one sentence."""

import json
import logging
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

import fresh
import widemargin
from widemargin.cli import main
from widemargin.cli.commands import COMMANDS
from widemargin.cli.options import ESTIMATORS, estimator_options, parameters_of, value_of
from widemargin.data import open_data, write_data

INSTALLED = shutil.which("widemargin", path=str(Path(sys.executable).parent))


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
    truth, said = open_data("test.svm").load()[1], model.predict(open_data("test.svm").load()[0])
    for label in (-1, 1):
        recall, precision = np.mean(said[truth == label] == label), np.mean(truth[said == label] == label)
        expected = {"examples": int(np.sum(truth == label)), "recall": recall, "precision": precision}
        assert told[f"class {label}"] == pytest.approx(expected)
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


def test_a_converted_model_remembers_its_columns(folder, capfd, rng):
    run(capfd, "train", "train.csv", "--target", "answer", "-q")
    run(capfd, "convert", "model.npz", "copy.npz")
    X = rng.normal(size=(50, 4))
    write_data("turned.csv", X[:, ::-1], np.where(X[:, 0] > 0, "yes", "no"), names=list("dcba"), target="answer")
    expected = widemargin.load("model.npz").predict(X).tolist()
    for model in ("model.npz", "copy.npz"):
        assert run(capfd, "predict", model, "turned.csv")[0].split() == expected
    _, err = run(capfd, "convert", "model.npz", "model.onnx")
    assert err == (
        "warning: model.onnx does not keep the names of columns: its features are, in this order, a, b, c, d\n"
    )


def test_a_target_may_be_a_place_counted_from_the_end(folder, capfd):
    run(capfd, "train", "train.csv", "--target", "-1", "-q")
    out, _ = run(capfd, "evaluate", "model.npz", "train.csv", "--target", "-1", "--json")
    assert json.loads(out)["error"] == pytest.approx(
        error_of(widemargin.load("model.npz"), "train.csv", target="answer"), abs=1e-6
    )


@pytest.mark.parametrize("epochs", [(), ("--epochs", "1")])
def test_a_model_remembers_whether_indices_began_with_0(folder, capfd, rng, epochs):
    X = rng.normal(size=(100, 3))
    write_data("zero.svm", X, np.where(X[:, 1] > 0, 1, -1), zero_based=True)
    X[:, 0] = 0.0  # no index 0 is written
    y = np.where(X[:, 1] > 0, 1, -1)
    write_data("new.svm", X, y, zero_based=True)
    assert " 0:" not in Path("new.svm").read_text()
    told = json.loads(run(capfd, "train", "zero.svm", "--test", "new.svm", "-q", "--json", *epochs)[0])
    run(capfd, "convert", "model.npz", "copy.npz")
    model = widemargin.load("model.npz")
    for name in ("model.npz", "copy.npz"):
        assert [int(v) for v in run(capfd, "predict", name, "new.svm")[0].split()] == model.predict(X).tolist()
    assert told["test error"] == pytest.approx(np.mean(model.predict(X) != y), abs=1e-6)
    _, err = run(capfd, "convert", "model.npz", "model.liblinear")
    assert err == "warning: model.liblinear does not keep that indices begin with 0: give --zero-based with it\n"
    out, _ = run(capfd, "predict", "model.liblinear", "new.svm", "--zero-based")
    assert [int(v) for v in out.split()] == model.predict(X).tolist()
    run(capfd, "train", "train.svm", "-q")
    _, err = run(capfd, "predict", "model.npz", "zero.svm", code=2)
    assert "has the index 0" in err


def test_labels_are_the_same_as_whole_numbers_and_as_floats(folder, capfd):
    X, y = open_data("train.svm").load()
    model = widemargin.LinearSVC(random_state=0).fit(X, y)
    assert model.classes_.dtype.kind == "f"
    model.save("floats.npz")
    told = json.loads(run(capfd, "evaluate", "floats.npz", "train.svm", "--json")[0])
    wrong = np.mean(model.predict(X) != y)
    assert told["error"] == pytest.approx(wrong, abs=1e-6)
    recall = np.mean(model.predict(X)[y > 0] == 1)
    assert told["class 1"]["recall"] == pytest.approx(recall)


def test_a_model_in_libsvm_text_is_told_its_number_of_features(folder, capfd):
    Path("narrow.svm").write_text("".join(f"{1 if k % 2 else -1} {1 + k % 2}:1\n" for k in range(20)))
    run(capfd, "train", "narrow.svm", "-e", "SVC", "-q", "-o", "m.libsvm")
    Path("wide.svm").write_text("1 2:1 5:0.1\n")
    _, err = run(capfd, "predict", "m.libsvm", "wide.svm", code=2)
    assert "beyond --n-features 2" in err
    assert run(capfd, "predict", "m.libsvm", "wide.svm", "--n-features", "5")[0] == "1\n"


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


def test_a_run_that_fails_leaves_the_old_history(folder, capfd):
    Path("h.jsonl").write_text("old\n")
    run(capfd, "train", "nothing.svm", "--history", "h.jsonl", "-q", code=2)
    assert Path("h.jsonl").read_text() == "old\n"


def test_a_model_is_saved_before_it_is_measured(folder, capfd, monkeypatch):
    Path("bad.svm").write_text("1 1:x\n")
    _, err = run(capfd, "train", "train.svm", "--test", "bad.svm", "-q", code=2)
    assert "bad.svm, line 1 has '1:x'" in err
    assert "; the trained model is in model.npz" in err
    assert error_of(widemargin.load("model.npz"), "train.svm") < 0.5

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("widemargin.cli.training.measured", interrupted)
    _, err = run(capfd, "train", "train.svm", "-o", "other.npz", "-q", code=130)
    assert err == "widemargin: interrupted; the model is in other.npz\n"
    assert widemargin.load("other.npz").stop_reason_ == "tol"


def test_a_model_that_its_format_does_not_have_is_saved_beside(folder, capfd):
    out, err = run(capfd, "train", "train.csv", "--target", "answer", "-o", "m.liblinear", "-q", "--json", code=2)
    assert "; the trained model is in m.liblinear.npz" in err
    assert json.loads(out)["output"] == "m.liblinear.npz"
    assert not Path("m.liblinear").exists()
    assert error_of(widemargin.load("m.liblinear.npz"), "train.csv", target="answer") < 0.5


def test_ctrl_c_between_chunks_ends_with_130_and_tells_the_epochs_begun(folder, capfd, monkeypatch):
    from widemargin.data.libsvm import LibsvmText

    whole = LibsvmText.shuffled

    def shuffled(self, rng):
        yield from whole(self, rng)
        self.passes = getattr(self, "passes", 0) + 1
        if self.passes == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(LibsvmText, "shuffled", shuffled)
    out, err = run(capfd, "train", "train.svm", "--epochs", "9", "-q", "--json", code=130)
    told = json.loads(out)
    assert (told["epochs"], told["rows"], told["stop_reason"]) == (2, 400, "interrupted")
    assert "interrupted; the model so far is in model.npz" in err
    assert widemargin.load("model.npz").stop_reason_ == "interrupted"


def test_a_pipe_is_trained_on_in_chunks(folder):
    command = ["train", "-", "--epochs", "1", "--n-features", "4", "-q", "--json", "--classes=-1,1"]
    done = fresh.run(fresh.COMMAND, *command, input=Path("train.svm").read_bytes())
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["classes"]) == (200, [-1, 1])


def test_standard_input(folder):
    done = fresh.run(fresh.COMMAND, "train", "-", "-q", "-o", "m.npz", input=Path("train.svm").read_bytes())
    assert done.returncode == 0, done.stderr
    done = fresh.run(fresh.COMMAND, "predict", "m.npz", "-", input=Path("test.svm").read_bytes())
    assert done.returncode == 0, done.stderr
    Z, _ = open_data("test.svm").load()
    assert [int(v) for v in done.stdout.split()] == widemargin.load("m.npz").predict(Z).tolist()


def test_ctrl_c_saves_the_model_and_ends_with_130(folder):
    # a fit that ends by Ctrl-C alone, sent when the first line of the history is there
    command = ["train", "train.svm", "--tol", "0", "--max-iter", "1000000000", "--history", "h.jsonl", "-q"]
    process = fresh.Process(fresh.COMMAND, *command)
    try:
        while process.poll() is None and not (os.path.exists("h.jsonl") and os.path.getsize("h.jsonl")):
            time.sleep(0.05)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)  # until it is waited for, its number is no other's
        done = process.communicate()
    finally:
        process.kill()
    assert done.returncode == 130, done.stderr
    assert "interrupted; the model so far is in model.npz" in done.stderr
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
        "(--on-bad-line skip leaves such lines out)\n"
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
    assert told["parameters"]["C"] == 1.0
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
        (["train", "train.svm", "-o", "m.onx"], "m.onx ends in .onx, which is no format of models: end it in .npz"),
        (["train", "train.svm", "-o", "m.libsvm"], "LinearSVC is linear: end it in .liblinear"),
        (["train", "train.svm", "-e", "SVC", "-o", "m.liblinear"], "SVC has the kernel 'rbf': end it in .libsvm"),
        (["train", "train.svm", "--test", "nothing.svm"], "there is no file 'nothing.svm'"),
        (["train", "-", "--test", "-"], "standard input is read once: name a file"),
        (["train", "train.svm", "--history", "no/h.jsonl"], "no is no folder; make it first"),
        (["train", "train.svm", "--epochs", "1", "--checkpoint", "c.npz"], "--checkpoint is of runs on data"),
        (["train", "train.svm", "--epochs", "1", "--strict"], "--strict asks whether training converged"),
        (["train", "train.svm", "--classes", "0,1"], "--classes is for --epochs"),
        (["train", "train.svm", "-e", "LinearSVR", "--epochs", "1", "--classes", "0"], "--classes is for classifiers"),
        (["train", "train.csv"], "which column is the target"),
        (["train", "train.svm", "--wrong"], "No such option"),
        (["train"], ""),
        (["nothing"], "No such command"),
        (["predict", "train.svm", "test.svm"], "train.svm is not a whole widemargin file"),
        (["evaluate", "missing.npz", "test.svm"], "there is no model 'missing.npz': name the file"),
        (["predict", ".", "test.svm"], ". is a folder: name a model's file in it"),
        (["evaluate", "model.npz", "others.svm"], "has the labels 3, 4, and the model tells -1, 1 apart"),
        (["predict", "model.npz", "test.svm", "--proba"], "--proba needs a model of the log-loss"),
        (["predict", "model.npz", "wide.svm"], "line 1 has '9:1', whose index is beyond --n-features 4"),
        (["evaluate", "model.npz", "empty.svm"], "empty.svm holds no examples"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_2(folder, capfd, arguments, said):
    if arguments[:1] in (["predict"], ["evaluate"]):
        run(capfd, "train", "train.svm", "-q")
    Path("wide.svm").write_text("1 9:1\n")
    Path("empty.svm").write_text("")
    Path("others.svm").write_text("3 1:1\n4 2:1\n")
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
    assert repr(value_of("Huberized(delta=0.5)")) == "Huberized(delta=0.5)"
    assert repr(value_of("Polynomial(0.5, degree=2)")) == "Polynomial(gamma=0.5, coef0=0.0, degree=2)"
    assert value_of("__import__('os')") == "__import__('os')"


def test_every_option_of_an_estimator_has_a_help_or_a_default():
    for parameter in estimator_options():
        assert len(parameter.annotation.__metadata__[0].help) > 3, parameter.name


def test_the_installed_command_completes_words():
    if INSTALLED is None:
        pytest.skip("the command is not installed")
    asked = {"_WIDEMARGIN_COMPLETE": "complete_bash", "COMP_WORDS": "widemargin tr", "COMP_CWORD": "1"}
    done = subprocess.run([INSTALLED], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert "train" in done.stdout
    asked |= {"COMP_WORDS": "widemargin train --max-s", "COMP_CWORD": "2"}
    assert "--max-seconds" in fresh.run(fresh.COMMAND, **asked).stdout


def test_a_checkpoint_is_gone_on_from_and_belongs_to_one_problem(folder, capfd):
    same = ("train", "train.svm", "-q", "--random-state", "0", "--solver", "pegasos", "--checkpoint", "run.npz")
    run(capfd, *same, "--max-seconds", "1e-6")
    assert Path("run.npz").exists()
    _, err = run(capfd, *same, "--C", "2", code=2)
    assert "C was 1.0 and is 2" in err
    _, err = run(capfd, *[word for word in same if word != "-q"])
    assert len(re.findall(r"^LinearSVC goes on from run\.npz at epoch [0-9.e-]+$", err, re.MULTILINE)) == 1
    assert (logging.getLogger("widemargin").handlers, logging.getLogger("widemargin").level) == ([], 0)
    assert not Path("run.npz").exists()
    resumed = widemargin.load("model.npz")
    X, y = open_data("train.svm").load()
    whole = widemargin.LinearSVC(solver="pegasos", random_state=0).fit(X, y.astype(int))
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
