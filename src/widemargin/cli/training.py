"""``widemargin train``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import train_test_split

from . import FINE, INTERRUPTED, UNFINISHED, say
from .options import (
    DATA_OPTIONS,
    NUMBER,
    TEXT,
    WHOLE,
    argument,
    estimator_options,
    made,
    opened,
    opened_like,
    option,
    with_options,
    with_whole_labels,
)

#: Reasons to stop that are no convergence.
UNMET = ("max_iter", "stalled", "max_seconds", "max_feature_reads", "interrupted", "partial_fit", "callback")

OPTIONS = [
    argument("data", str, "The file to train on; '-' is standard input."),
    option("output", str, "model.npz", "The model: .npz, .libsvm, .liblinear or .onnx.", None, "--output", "-o"),
    option(
        "estimator", str, "LinearSVC", "LinearSVC, SVC, BudgetedSVC, IncrementalSVC, LinearSVR, SVR …", None,
        "--estimator", "-e",
    ),
    option("validation", NUMBER, None, "The share of the rows that is held out to measure the error, such as 0.2."),
    option("test", TEXT, None, "A file to measure the error on."),
    option("history", TEXT, None, "A file that gets a line of JSON at each look at the run."),
    option("epochs", WHOLE, None, "Train in chunks of --max-memory, so many passes: for files larger than memory."),
    option("strict", bool, False, "End with 1 if training did not converge.", None, "--strict"),
    option("quiet", bool, False, "No progress.", None, "--quiet", "-q"),
    option("json", bool, False, "Print the result as JSON.", None, "--json"),
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
    # what can be wrong is looked at before a long file is read and a long time spent
    check_output(given["output"])
    model = made(given["estimator"], given, verbose=int(not given["quiet"] and sys.stderr.isatty()))
    started = time.perf_counter()
    with Journal(given["history"], plain=not given["quiet"] and not sys.stderr.isatty()) as journal:
        learn = _learn_in_chunks if given["epochs"] is not None else _learn_whole
        found = learn(model, given, journal)
    found["seconds"] = round(time.perf_counter() - started, 3)
    save(model, given["output"], found.pop("columns"))
    found["output"] = given["output"]
    show(found, given["json"])
    reason = found["stop_reason"]
    if reason == "interrupted":
        say(f"widemargin: interrupted; the model so far is in {given['output']}")
        return INTERRUPTED
    return UNFINISHED if given["strict"] and reason in UNMET else FINE


class Journal:
    """The history of a run as it goes: lines of JSON in a file, and plain lines where there is no terminal."""

    def __init__(self, path: str | None, plain: bool) -> None:
        self.path, self.plain = path, plain
        self.file: Any = None

    def __enter__(self) -> Journal:
        if self.path is not None:
            self.file = open(self.path, "w", encoding="utf-8")
        return self

    def __exit__(self, *exc: object) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, row: dict[str, Any]) -> None:
        """Note where a run stands."""
        row = {name: value for name, value in row.items() if value is not None and value == value}
        if self.file is not None:
            self.file.write(json.dumps(row, default=float) + "\n")
            self.file.flush()
        if self.plain:
            names = ("epochs", "rows", "objective", "gap", "validation_error", "seconds")
            say(", ".join(f"{name} {row[name]:.4g}" for name in names if name in row))

    def __call__(self, progress: Any) -> None:
        self.write(progress.row)


def _learn_whole(model: Any, given: dict[str, Any], journal: Journal) -> dict[str, Any]:
    source = opened(given["data"], given)
    X, y = source.load()[:2]
    labels = is_classifier(model)
    y = with_whole_labels(y) if labels else y
    held: Any = None
    share = given["validation"]
    if share is not None:
        if not 0.0 < share < 1.0:
            raise ValueError(f"--validation must be between 0 and 1, got {share}")
        split = train_test_split(X, y, test_size=share, random_state=0, stratify=y if labels else None)
        X, held_X, y, held_y = split
        held = held_X, held_y
    model.set_params(callbacks=journal)
    try:
        model.fit(X, y)
    finally:
        model.set_params(callbacks=None)
    found = facts(model, X.shape[0], source)
    found["training error" if labels else "training R²"] = measured(model, X, y)
    if held is not None:
        found["validation error" if labels else "validation R²"] = measured(model, *held)
    return _with_test(model, given, found, labels)


def _learn_in_chunks(model: Any, given: dict[str, Any], journal: Journal) -> dict[str, Any]:
    from ..data import train as train_on

    if given["validation"] is not None:
        raise ValueError("--validation holds rows out of a file that is loaded whole: give --test with --epochs")
    source, labels, last = opened(given["data"], given), is_classifier(model), {"rows": 0}

    def noted(passed: Any) -> None:
        last["rows"] = passed.rows
        journal.write({"epochs": passed.epochs, "rows": passed.rows, "seconds": passed.seconds})

    limit = getattr(model, "max_seconds", None)
    # labels that are whole numbers are integers in a model that was trained whole: so here
    classes = with_whole_labels(source.summary().labels) if labels and source.again else None
    train_on(
        model, source, epochs=given["epochs"], classes=classes, max_seconds=limit, random_state=model.random_state,
        callbacks=noted,
    )  # fmt: skip
    found = facts(model, last["rows"], source)
    found["epochs"] = given["epochs"]
    return _with_test(model, given, found, labels)


def facts(model: Any, rows: int, source: Any) -> dict[str, Any]:
    """What is told of a trained model."""
    found: dict[str, Any] = {
        "estimator": type(model).__name__, "rows": rows, "features": int(model.n_features_in_),
        "stop_reason": getattr(model, "stop_reason_", ""),
    }  # fmt: skip
    if isinstance(found["stop_reason"], np.ndarray):
        found["stop_reason"] = str(found["stop_reason"].ravel()[0])
    certificate = getattr(model, "certificate_", None)
    gap = getattr(certificate, "relative_gap", None)
    if gap is not None and np.ndim(gap) == 0 and np.isfinite(gap):
        found["relative_gap"] = float(gap)
    if hasattr(model, "classes_"):
        found["classes"] = model.classes_.tolist()
    if hasattr(model, "support_vectors_"):
        found["vectors"] = int(model.support_vectors_.shape[0])
    if source.skipped:
        found["skipped lines"] = source.skipped
    found["columns"] = columns_of(source)
    return found


def columns_of(source: Any) -> dict[str, Any] | None:
    """What another table must have for the same features."""
    if not hasattr(source, "feature_names"):
        return None
    held = dict(source.categories) if isinstance(source.categories, dict) else {}
    return {"columns": [name for name, _ in source._features], "categories": held, "target": source._target}


def measured(model: Any, X: Any, y: Any) -> float:
    """The error of a classifier, or R² of a regressor."""
    score = float(model.score(X, y))
    return round(1.0 - score if is_classifier(model) else score, 6)


def _with_test(model: Any, given: dict[str, Any], found: dict[str, Any], labels: bool) -> dict[str, Any]:
    if given["test"] is not None:
        X, y = opened_like(given["test"], given, found["columns"], model.n_features_in_).load()[:2]
        found["test error" if labels else "test R²"] = measured(model, X, with_whole_labels(y) if labels else y)
    return found


def check_output(path: str) -> None:
    """Refuse a place that nothing can be written to."""
    parent = Path(path).parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {parent} is no folder; make it first")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} cannot be written: it is a folder; name a file in it")


def save(model: Any, path: str, columns: dict[str, Any] | None) -> None:
    """Write a model in the format that its name says, with what its tables must have."""
    from ..formats import FORMATS, export

    if Path(path).suffix.lower() in set(FORMATS.values()) - {".npz"}:
        export(model, path)
    else:
        model.save(path, **({"columns": columns} if columns else {}))


def show(found: dict[str, Any], as_json: bool) -> None:
    """Print what was found, a line each or as JSON."""
    if as_json:
        print(json.dumps(found, default=str))
        return
    for name, value in found.items():
        if isinstance(value, list):
            value = ", ".join(map(str, value[:20])) + (" …" if len(value) > 20 else "")
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
