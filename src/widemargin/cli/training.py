"""``widemargin train``, and what commands that train share."""

from __future__ import annotations

import json
import logging
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import train_test_split

from . import BAD_INPUT, FINE, INTERRUPTED, UNFINISHED, say
from .options import (
    DATA_OPTIONS,
    JSON,
    OUTPUT,
    argument,
    check_share,
    estimator_options,
    made,
    opened,
    opened_like,
    option,
    with_options,
    with_whole_labels,
    words,
)
from .speaking import options_of, spoken

LOGGER = logging.getLogger("widemargin")
#: Stop reasons without convergence.
UNMET = (
    "max_iter", "precision", "stalled", "max_seconds", "max_feature_reads", "interrupted", "partial_fit", "callback",
)  # fmt: skip

OPTIONS = [
    argument("data", str, "The file to train on; '-' is standard input."),
    OUTPUT,
    option(
        "estimator", str, "LinearSVC", "LinearSVC, SVC, BudgetedSVC, IncrementalSVC, LinearSVR, SVR …", short="-e"
    ),
    option("validation", float, None, "The share of the rows that is held out to measure the error, such as 0.2."),
    option("test", str, None, "A file to measure the error on."),
    option("history", str, None, "A file that gets a line of JSON at each look at the run."),
    option("epochs", int, None, "Train in chunks of --max-memory, so many passes: for files larger than memory."),
    option("classes", str, None, "With --epochs: all labels, with commas between, for a pipe, which is read once."),
    option("strict", bool, False, "End with 1 if training did not converge."),
    option("quiet", bool, False, "No progress.", short="-q"),
    JSON,
]  # fmt: skip


@with_options(OPTIONS, DATA_OPTIONS, estimator_options())
def train(**given: Any) -> int:
    """Train a model on a file.

    The last options are the parameters of the estimator, under their names in Python. Ctrl-C saves the model so far.

    \b
      widemargin train a9a.bz2 --C 0.1
      widemargin train a9a.bz2 -e SVC --gamma 0.05 --max-seconds 20
      widemargin train huge.svm -e BudgetedSVC --epochs 3 -o small.npz
      widemargin train people.csv --target income --categories onehot
      widemargin train a9a.bz2 --solver 'Pegasos(batch_size=16)'
    """
    # check all options before reading a long file and training for a long time
    model = made(given["estimator"], given, verbose=int(not given["quiet"] and sys.stderr.isatty()))
    check_model(model, given["output"])
    _check(model, given)
    started = time.perf_counter()
    with Journal(given["history"], plain=not given["quiet"] and not sys.stderr.isatty()) as journal:
        learn = _learn_in_chunks if given["epochs"] is not None else _learn_whole
        found, source, sets = learn(model, given, journal)
    seconds = round(time.perf_counter() - started, 3)
    # save the model before measuring its errors
    written, reason = save_trained(model, given["output"], source.like()), found["stop_reason"]
    try:
        found |= _measures(model, given, source, sets)
    except KeyboardInterrupt:
        reason = "interrupted"
    except (ValueError, TypeError, OSError) as bad:
        raise ValueError(f"{bad}; the trained model is in {written}") from bad
    found |= {"seconds": seconds, "output": written}
    show(found, given["json"])
    if reason == "interrupted":
        so_far = " so far" if found["stop_reason"] == "interrupted" else ""
        say(f"widemargin: interrupted; the model{so_far} is in {written}")
        return INTERRUPTED
    if written != given["output"]:
        return BAD_INPUT
    return UNFINISHED if given["strict"] and reason in UNMET else FINE


def _check(model: Any, given: dict[str, Any]) -> None:
    """Refuse options that exclude each other, and files that do not exist."""
    if given["history"] is not None:
        check_output(given["history"])
    if given["test"] == "-" and given["data"] == "-":
        raise ValueError("'-' is given for the data and for --test, and standard input is read once: name a file")
    if given["test"] not in (None, "-"):
        opened(given["test"], given)
    if given["epochs"] is None:
        if given["classes"] is not None:
            raise ValueError("--classes is for --epochs: data that is loaded whole says its classes; leave it out")
        return
    if given["validation"] is not None:
        raise ValueError("--validation holds rows out of a file that is loaded whole: give --test with --epochs")
    if given["checkpoint"] is not None:
        raise ValueError("--checkpoint is of runs on data that is loaded whole: leave it out, or --epochs")
    if given["strict"]:
        raise ValueError("--strict asks whether training converged, which --epochs does not find out: leave one out")
    if not hasattr(model, "partial_fit"):
        raise ValueError(
            f"--epochs trains chunk after chunk, which {model!r} does not: use LinearSVC (--solver auto or pegasos), "
            "BudgetedSVC or IncrementalSVC, or leave --epochs out"
        )
    if given["classes"] is not None and not is_classifier(model):
        raise ValueError(f"--classes is for classifiers, and the estimator is {type(model).__name__}: leave it out")


class Journal:
    """Writes the history of a run: lines of JSON to a file, and plain lines if there is no terminal."""

    def __init__(self, path: str | None, plain: bool) -> None:
        self.path, self.plain = path, plain
        self.file: Any = None

    def __enter__(self) -> Journal:
        # the log says which checkpoint a fit continues; on a terminal the progress bar does
        self.level, self.heard = LOGGER.level, logging.StreamHandler(sys.stderr)
        if self.plain:
            LOGGER.addHandler(self.heard)
            LOGGER.setLevel(min(self.level or logging.INFO, logging.INFO))
        return self

    def __exit__(self, *exc: object) -> None:
        LOGGER.removeHandler(self.heard)
        LOGGER.setLevel(self.level)
        if self.file is not None:
            self.file.close()

    def write(self, row: dict[str, Any]) -> None:
        """Write one row of the history."""
        row = {name: value for name, value in row.items() if value is not None and value == value}
        if self.path is not None:
            # replace the history of an earlier run only when there is a new row
            self.file = self.file or open(self.path, "w", encoding="utf-8")  # noqa: SIM115
            self.file.write(json.dumps(row, default=float) + "\n")
            self.file.flush()
        if self.plain:
            names = ("epochs", "rows", "objective", "gap", "validation_error", "seconds")
            say(", ".join(f"{name} {row[name]:.4g}" for name in names if name in row))

    def __call__(self, progress: Any) -> None:
        self.write(progress.row)


def _learn_whole(model: Any, given: dict[str, Any], journal: Journal) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Train on the whole file: (facts of the model, source, sets (X, y) to measure the error on, by name)."""
    source = opened(given["data"], given)
    X, y = source.load()[:2]
    labels = is_classifier(model)
    y = with_whole_labels(y) if labels else y
    sets: dict[str, Any] = {}
    share = given["validation"]
    if share is not None:
        check_share(share)
        X, held, y, held_y = train_test_split(X, y, test_size=share, random_state=0, stratify=y if labels else None)
        sets["validation"] = held, held_y
    model.set_params(callbacks=journal)
    try:
        model.fit(X, y)
    finally:
        model.set_params(callbacks=None)
    return facts(model, X.shape[0], source.skipped), source, {"training": (X, y), **sets}


def _learn_in_chunks(model: Any, given: dict[str, Any], journal: Journal) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Train on chunks of the file; returns the same as :func:`_learn_whole`."""
    from ..data import train as train_on

    source, last = opened(given["data"], given), {"rows": 0, "epochs": 0}

    def noted(passed: Any) -> None:
        last.update(epochs=passed.epochs, rows=passed.rows)
        journal.write({**last, "seconds": passed.seconds})

    # as after training on the whole file, labels that are whole numbers are integers in the model
    classes = None if given["classes"] is None else _classes(given["classes"])
    if classes is None and is_classifier(model) and source.again:
        classes = source.summary().labels
        classes = None if classes is None else with_whole_labels(classes)  # None: too many, which train_on refuses
    train_on(
        model, source, epochs=given["epochs"], classes=classes, max_seconds=model.max_seconds,
        random_state=model.random_state, callbacks=noted,
    )  # fmt: skip
    return {**facts(model, last["rows"], source.skipped), "epochs": last["epochs"]}, source, {}


def _classes(text: str) -> np.ndarray:
    """The labels of a text, separated by commas: numbers if all are numbers."""
    try:
        return with_whole_labels(np.array([float(word) for word in words(text)]))
    except ValueError:
        return np.array(words(text))


def facts(model: Any, rows: int | None = None, skipped: int = 0) -> dict[str, Any]:
    """What commands print about a trained model."""
    found: dict[str, Any] = {"estimator": type(model).__name__, **({} if rows is None else {"rows": rows})}
    found |= {"features": int(model.n_features_in_), "stop_reason": getattr(model, "stop_reason_", "")}
    gap = getattr(getattr(model, "certificate_", None), "relative_gap", None)
    if gap is not None and np.isfinite(gap):
        found["relative_gap"] = float(gap)
    if hasattr(model, "classes_"):
        found["classes"] = model.classes_.tolist()
    if hasattr(model, "support_vectors_"):
        found["vectors"] = int(model.support_vectors_.shape[0])
    if skipped:
        found["skipped lines"] = skipped
    return found


def measured(model: Any, X: Any, y: Any) -> float:
    """The error of a classifier, or R² of a regressor."""
    score = float(model.score(X, y))
    return round(1.0 - score if is_classifier(model) else score, 6)


def _measures(model: Any, given: dict[str, Any], source: Any, sets: dict[str, Any]) -> dict[str, float]:
    """The errors on these sets, and on --test."""
    labels = is_classifier(model)
    if given["test"] is not None:
        X, y = opened_like(given["test"], given, source.like(), model.n_features_in_).load()[:2]
        sets = {**sets, "test": (X, with_whole_labels(y) if labels else y)}
    return {f"{name} {'error' if labels else 'R²'}": measured(model, *rows) for name, rows in sets.items()}


def check_output(path: str) -> None:
    """Refuse a path that cannot be written to."""
    parent = Path(path).parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {parent} is no folder; make it first")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} cannot be written: it is a folder; name a file in it")


def check_model(model: Any, path: str) -> None:
    """Before training, refuse a path without a known format, and a format that cannot hold the model."""
    from ..core.kernels.kernels import class_of
    from ..formats import FORMATS

    check_output(path)
    ending, name = Path(path).suffix.lower(), type(model).__name__
    if ending not in ("", *FORMATS.values()):
        raise ValueError(f"{path} ends in {ending}, which is no format of models: end it in {_ENDINGS}")
    kernel = getattr(model, "kernel", None)
    if ending == ".libsvm" and kernel is None:
        raise ValueError(f"{path}: LIBSVM's text is of kernel machines, and {name} is linear: end it in .liblinear")
    if ending == ".liblinear" and kernel is not None and not class_of(kernel).is_linear:
        raise ValueError(
            f"{path}: LIBLINEAR's text is of linear machines, and {name} has the kernel {kernel!r}: end it in .libsvm"
        )
    if ending == ".onnx" and find_spec("onnx") is None:
        raise ImportError(f"{path} needs the package onnx: pip install 'widemargin[onnx]'")


_ENDINGS = ".npz, .libsvm, .liblinear or .onnx"


def save(model: Any, path: str, like: dict[str, Any], format: str | None = None) -> None:
    """Write a model with the options to open its data; warn if the format cannot hold these."""
    from ..formats import OF_SUFFIX, export

    format = format or OF_SUFFIX.get(Path(path).suffix.lower())
    if format == "npz":
        model.save(path, **({"columns": like} if "columns" in like else like))
        return
    export(model, path, format)
    if "columns" in like:
        named = ", ".join(map(str, like["columns"]))
        say(f"warning: {path} does not keep the names of columns: its features are, in this order, {named}")
    elif like.get("zero_based"):
        say(f"warning: {path} does not keep that indices begin with 0: give --zero-based with it")


def save_trained(model: Any, path: str, like: dict[str, Any]) -> str:
    """Write a trained model and return the path: that of an .npz file if the format cannot hold the model."""
    try:
        save(model, path, like, None if Path(path).suffix else "npz")
        return path
    except (ValueError, TypeError, ImportError) as bad:
        if Path(path).suffix.lower() in ("", ".npz"):
            raise
        beside = f"{path}.npz"
        save(model, beside, like)
        said = spoken(str(bad), options_of(train))
        say(f"widemargin: {said}; the trained model is in {beside}: widemargin convert writes others")
        return beside


def show(found: dict[str, Any], as_json: bool) -> None:
    """Print facts, one per line or as JSON."""
    if as_json:
        print(json.dumps(found, default=str))
        return
    for name, value in found.items():
        if isinstance(value, list):
            value = ", ".join(map(str, value[:20])) + (" …" if len(value) > 20 else "")
        elif isinstance(value, dict):
            value = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in value.items())
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
