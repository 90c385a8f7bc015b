"""``widemargin predict`` and ``widemargin evaluate``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from sklearn.base import is_classifier

from .options import DATA_OPTIONS, JSON, argument, opened_like, option, with_options
from .training import show

READ = [
    argument("model", str, "The model's file: .npz, or model text of LIBSVM or LIBLINEAR."),
    argument("data", str, "The file of examples; '-' is standard input."),
]


def loaded(path: str, n_features: int | None) -> tuple[Any, dict[str, Any]]:
    """(model of a file, options to open data for it). ``n_features`` is for LIBSVM's text, which does not say it."""
    from ..estimators.fit.fitting import TrainedByRun
    from ..files import read_header
    from ..formats import load

    if not Path(path).exists():
        raise FileNotFoundError(f"there is no model {path!r}: name the file that widemargin train wrote")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a model's file in it")
    model = load(path, TrainedByRun, n_features=n_features)
    header = read_header(path) if is_zipfile(path) else {}
    if header.get("columns"):
        return model, header["columns"]
    return model, {"zero_based": header["zero_based"]} if isinstance(header.get("zero_based"), bool) else {}


def chunks_of(model: Any, like: dict[str, Any], given: dict[str, Any], labelled: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the data as chunks (X, y) with the columns that the model was trained on."""
    source = opened_like(given["data"], given, like, model.n_features_in_)
    source.optional = not labelled
    for chunk in source:
        yield chunk[0], chunk[1]
    if source.skipped:
        print(f"skipped lines: {source.skipped}", file=sys.stderr)


@with_options(
    READ,
    [
        option("output", str, None, "A file for the predictions (default: standard output).", short="-o"),
        option("scores", bool, False, "Scores after each prediction, with tabs between."),
        option("proba", bool, False, "Probabilities instead (models of the log-loss)."),
    ],
    DATA_OPTIONS,
)  # fmt: skip
def predict(**given: Any) -> None:
    """Predict the examples of a file, a line each.

    Labels of LIBSVM text are read and not used; a table need not have the target's column.

    \b
      widemargin predict model.npz new.svm > labels.txt
      zcat new.svm.gz | widemargin predict model.npz - --scores
    """
    from ..files import replacing

    model, like = loaded(given["model"], given["n_features"])
    if given["proba"] and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"--proba needs a model of the log-loss, and {given['model']} holds {model!r:.80}: "
            "train one with --loss log, or leave --proba out"
        )
    with replacing(given["output"]) if given["output"] else nullcontext(sys.stdout.buffer) as file:
        for X, _ in chunks_of(model, like, given, labelled=False):
            predicted = model.predict(X)
            numbers: Any = np.empty((X.shape[0], 0))
            if given["proba"]:
                numbers = model.predict_proba(X)
            elif given["scores"]:
                numbers = model.decision_function(X) if is_classifier(model) else predicted
            rows = zip(predicted.tolist(), np.asarray(numbers).reshape(X.shape[0], -1).tolist())
            lines = ("\t".join([str(label), *map(repr, row)]) for label, row in rows)
            file.write(("\n".join(lines) + "\n").encode())


@with_options(READ, [JSON], DATA_OPTIONS)
def evaluate(**given: Any) -> None:
    """Measure a model on a file with labels.

    widemargin evaluate model.npz test.svm
    widemargin evaluate model.npz test.csv --target income --json
    """
    model, like = loaded(given["model"], given["n_features"])
    labels = is_classifier(model)
    counts: Counter[tuple[str, str]] = Counter()
    n, squares, absolute, mean, spread = 0, 0.0, 0.0, 0.0, 0.0
    for X, y in chunks_of(model, like, given, labelled=True):
        predicted = model.predict(X)
        if labels:
            counts.update(zip(_names(y), _names(predicted)))
        else:
            wrong = predicted - y
            squares, absolute = squares + float(wrong @ wrong), absolute + float(np.abs(wrong).sum())
            later = mean + float(np.sum(y - mean)) / (n + y.size)
            spread += float(np.sum((y - mean) * (y - later)))
            mean = later
        n += y.size
    if n == 0:
        raise ValueError(f"{given['data']} holds no examples")
    found: dict[str, Any] = {"examples": n}
    if labels:
        known, there = _names(model.classes_), sorted({true for true, _ in counts})
        if not set(known).intersection(there):
            raise ValueError(
                f"{given['data']} has the labels {_listed(there)}, and the model tells {_listed(known)} apart: give "
                "data with the labels that it was trained on"
            )
        right = sum(counts[label, label] for label in there)
        found |= {"accuracy": round(right / n, 6), "error": round(1.0 - right / n, 6), "wrong": n - right}
        found |= _by_class(counts, there)
    else:
        found |= {"R²": 1.0 - squares / spread if spread > 0.0 else float("nan"), "mean absolute error": absolute / n}
        found["root mean square error"] = float(np.sqrt(squares / n))
    show(found, given["json"])


def _names(labels: Any) -> list[str]:
    """Labels as texts. 1, 1.0 and True are the same label, in the model and in the file."""
    found = np.asarray(labels).tolist()
    return [str(int(v) if isinstance(v, (bool, float)) and float(v).is_integer() else v) for v in found]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def _by_class(counts: Counter[tuple[str, str]], there: list[str]) -> dict[str, dict[str, Any]]:
    """Recall and precision of at most twenty classes. A class that is never predicted has no precision."""
    found = {}
    for label in there[:20]:
        own = counts[label, label]
        true = sum(count for (t, _), count in counts.items() if t == label)
        said = sum(count for (_, p), count in counts.items() if p == label)
        precision = own / said if said else None
        found[f"class {label}"] = {"examples": true, "recall": own / true, "precision": precision}
    return found
