"""Sentences of the library in the words of whoever typed a command: no name of Python's where a flag was typed."""

import re

import numpy as np
import pytest

pytest.importorskip("typer")

from widemargin.cli import main
from widemargin.cli.commands import flags
from widemargin.cli.options import DATA_OPTIONS, estimator_options
from widemargin.cli.speaking import PLAIN, spoken
from widemargin.data import write_data

NAMES = {"C", "budget", "categories", "checkpoint", "columns", "kernel", "max_iter", "solver", "target", "tol"}


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("give target=, one of 'a', 'b'", "give --target, one of 'a', 'b'"),
        ("give categories='onehot' to make", "give --categories onehot to make"),
        ("take it out of columns=", "take it out of --columns"),
        ("all max_iter=20 epochs: raise max_iter or tol", "all --max-iter 20 epochs: raise --max-iter or --tol"),
        ("use solver=Pegasos(tol=1) or more", "use --solver 'Pegasos(tol=1)' or more"),
        ("warmup=True, checkpoint=True or checkpoint=None", "warmup=True, --checkpoint or no --checkpoint"),
        ("checkpoint=False", "--no-checkpoint"),
        ("budget must be ≥ 1: kernel must be", "--budget must be ≥ 1: --kernel must be"),
        ("with C=1e-05 rows are small: raise C", "with --C 1e-05 rows are small: raise --C"),
        ("Input X contains NaN", "the data contains NaN"),
        ("y holds the label 3", "the target holds the label 3"),
        ("short of tol=0.1 (stop_reason_='max_iter')", "short of --tol 0.1 (stop_reason: 'max_iter')"),
        # words, what somebody typed, files, Python and flags stay
        ("the target 'tol' of the kernel must be", "the target 'tol' of the kernel must be"),
        ("a precomputed kernel must be square", "a precomputed kernel must be square"),
        ("max_iter.csv and /max_iter/tol.csv: no columns", "max_iter.csv and /max_iter/tol.csv: no columns"),
        ("LinearSVC(C=0.5, tol=1) in C order", "LinearSVC(C=0.5, tol=1) in C order"),
        ("scikit-learn's tol isn't this", "scikit-learn's --tol isn't this"),
        ("n_features=3 is no option here", "n_features=3 is no option here"),
        ("--max-iter 3 and --tol", "--max-iter 3 and --tol"),
    ],
)  # fmt: skip
def test_arguments_become_flags_and_all_else_stays(python, command):
    assert spoken(python, NAMES) == command
    assert spoken(command, NAMES) == command


def test_options_are_those_of_the_command_and_not_what_is_typed_within_brackets():
    assert {"max_iter", "target", "batch_size"} <= flags(["train", "a.svm"])
    assert "batch_size" not in flags(["train", "a.svm", "--solver", "Pegasos(step='norma', batch_size = 16)"])
    assert "gammas" in flags(["tune", "a.svm"])
    assert "C" not in flags(["tune", "a.svm"])
    assert {"multi_class", "n_features"} <= flags(["convert", "a.npz", "b.libsvm"])
    assert flags([]) == set()


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    """A folder with small files, some of them with faults."""
    monkeypatch.chdir(tmp_path)
    X = rng.normal(size=(40, 3))
    X[:, 0] += np.arange(40) % 2
    write_data("a.svm", X, np.arange(40) % 2)
    write_data("a.npz", X, np.arange(40) % 2)
    write_data("c.svm", X, np.arange(40) % 3)
    write_data("a.csv", X, np.where(np.arange(40) % 2, "yes", "no"), names=list("abc"), target="answer")
    write_data("a.parquet", X, np.arange(40) % 2)
    np.savez("z.npz", X=X, z=np.zeros(40))
    np.savez("nan.npz", X=np.full((40, 3), np.nan), y=np.arange(40) % 2)
    for name, text in [("text", "red,1,0\nblue,2,1\n"), ("hole", "1,1,0\n,2,1\n"), ("one", "1,1,0\n")]:
        (tmp_path / f"{name}.csv").write_text("x,size,label\n" + text)
    (tmp_path / "bad.svm").write_text("1 1:x\n")
    return tmp_path


#: Wrong commands, and the flag that their sentence must name.
WRONG = {
    "train a.csv": "--target",
    "train a.csv --target b4": "--target",
    "train a.csv --target 9": "--target 9",
    "train a.csv --target a --columns a,b": "--columns",
    "train text.csv": "--categories onehot",
    "train text.csv --categories one": "--categories must be one of",
    "train hole.csv": "--columns",
    "train bad.svm": "--on-bad-line skip",
    "train a.svm --on-bad-line drop": "--on-bad-line must be one of",
    "train a.svm --target y": "--target is for",
    "train a.parquet --on-bad-line skip": "--on-bad-line is for",
    "train a.svm --format text": "--format must be one of",
    "train a.svm --max-memory 10": "--max-memory must be",
    "train a.svm --n-features 2": "--n-features 2",
    "train a.svm --n-features 0": "--n-features must be",
    "train z.npz": "--target",
    "train nan.npz": "the data contains NaN",
    "train sklearn:iris --target x": "--max-memory and --dtype only, got --target",
    "train a.csv -e LinearSVR --target answer": "the target must hold numbers for a regression, and has such as 'no'",
    "train a.svm --C 0": "--C must be",
    "train a.svm --tol x": "--tol must be",
    "train a.svm --loss bad": "--loss must be one of",
    "train a.svm --n-jobs 0": "--n-jobs must not be 0",
    "train a.svm --random-state x": "--random-state must be",
    "train a.svm --class-weight {3:1}": "--class-weight names the class",
    "train a.svm --intercept exact": "--solver 'Pegasos(batch_size=100)'",
    "train a.svm -e SVC --kernel 3": "--gamma, --degree and --coef0",
    "train a.svm -e SVC --epochs 2": "--epochs trains chunk after chunk",
    "train a.svm -e SVC --device gpu": "--device must be one of",
    "train a.svm -e BudgetedSVC --budget 0": "--budget must be",
    "train a.svm -e BudgetedSVC --max-bytes 10": "--max-bytes 10 is too little",
    "train a.svm -e BudgetedSVC --kernel linear --maintenance merge": "--maintenance project",
    "train a.svm -e IncrementalSVC --window 10 --max-iter 3": "--window 10 has forgotten: set --max-iter 1",
    "train a.svm -e IncrementalSVC --epochs 2": "--epochs must be 1",
    "compare a.csv": "--target",
    "compare nan.npz --only linear --skip scikit -q": "no solver could train on this: the data contains NaN",
    "tune a.svm --factor 1": "--factor must be",
    "convert a.svm b.csv --to text": "--to must be one of",
}  # fmt: skip


def faults(err):
    """What in a sentence is Python's name of an option, quotes and brackets left out."""
    bare = re.sub(r"(?<!\w)'[^']*'|\w+\([^()]*\)", "", err)
    names = {parameter.name for parameter in [*DATA_OPTIONS, *estimator_options()]}
    plain = [name for name in names if "_" in name or name in PLAIN]
    return re.findall(rf"(?<![\w-])(?:(?:{'|'.join(plain)})\b|(?:{'|'.join(names)})=)", bare)


@pytest.mark.parametrize("line", WRONG)
def test_errors_of_the_command_speak_of_its_flags(folder, capfd, line):
    assert main(line.split()) == 2
    err = capfd.readouterr().err
    assert WRONG[line] in err
    assert err.count("\n") == 1, err
    assert not faults(err), err


def test_models_that_a_format_has_not_are_told_of_by_endings_and_flags(folder, capfd):
    assert main(["train", "a.svm", "-q", "-o", "m.npz"]) == 0
    capfd.readouterr()
    for line, said in {
        "convert m.npz m.libsvm": "export to .liblinear, or train SVC with --kernel linear",
        "train c.svm -q -e SVC --kernel linear -o c.liblinear": "train with --multi-class ovr, or export to .libsvm",
        "convert m.npz m.text": "end it in .npz, .libsvm, .liblinear, .onnx, or give --to",
        "convert m.npz m --to text": "--to must be one of 'npz'",
    }.items():
        assert main(line.split()) == 2
        err = capfd.readouterr().err
        assert said in err
        assert not faults(err)


def test_warnings_of_the_command_speak_of_its_flags(folder, capfd):
    assert main(["train", "a.svm", "--solver", "pegasos", "--max-iter", "2", "--tol", "1e-9", "-q"]) == 0
    err = capfd.readouterr().err
    assert "warning: LinearSVC used all --max-iter 2 epochs" in err
    assert "set --tol 0" in err
    assert not faults(err)
