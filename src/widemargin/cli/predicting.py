"""``widemargin predict`` and ``widemargin evaluate``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .options import DATA_OPTIONS, TEXT, argument, opened_like, option, with_options, with_whole_labels
from .training import show

READ = [
    argument("model", str, "The model's file: .npz, or model text of LIBSVM or LIBLINEAR."),
    argument("data", str, "The file of examples; '-' is standard input."),
]


def loaded(path: str) -> tuple[Any, dict[str, Any]]:
    """(the model of a file, what its tables must have)."""
    from ..estimators.saving import SavedEstimator
    from ..files import read_header
    from ..formats import load

    model = load(path, SavedEstimator)
    with open(path, "rb") as file:
        named = file.read(2) == b"PK"
    return model, (read_header(path).get("columns") or {}) if named else {}


def chunks_of(model: Any, columns: dict[str, Any], given: dict[str, Any], labelled: bool) -> Iterator[tuple[Any, Any]]:
    """(X, y) of the data, chunk after chunk, with the columns that the model was trained on."""
    source = opened_like(given["data"], given, columns, model.n_features_in_)
    source.optional = not labelled
    for chunk in source:
        yield chunk[0], chunk[1]
    if source.skipped:
        print(f"skipped lines: {source.skipped}", file=sys.stderr)


@with_options(
    READ,
    [
        option("output", TEXT, None, "A file for the predictions (default: standard output).", None, "--output", "-o"),
        option("scores", bool, False, "Scores after each prediction, with tabs between.", None, "--scores"),
        option("proba", bool, False, "Probabilities instead (models of the log-loss).", None, "--proba"),
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

    model, columns = loaded(given["model"])
    if given["proba"] and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"--proba needs a model of the log-loss, and {given['model']} holds {model!r:.80}: leave it out"
        )
    with replacing(given["output"]) if given["output"] else nullcontext(sys.stdout.buffer) as file:
        for X, _ in chunks_of(model, columns, given, labelled=False):
            parts = [[str(label) for label in model.predict(X).tolist()]]
            numbers = None
            if given["proba"]:
                numbers = model.predict_proba(X)
            elif given["scores"]:
                numbers = model.decision_function(X) if is_classifier(model) else model.predict(X)
            if numbers is not None:
                rows = np.asarray(numbers).reshape(X.shape[0], -1).tolist()
                parts.append(["\t".join(map(repr, row)) for row in rows])
            file.write(("\n".join("\t".join(row) for row in zip(*parts)) + "\n").encode())


@with_options(READ, [option("json", bool, False, "Print the result as JSON.", None, "--json")], DATA_OPTIONS)
def evaluate(**given: Any) -> None:
    """Measure a model on a file with labels.

    widemargin evaluate model.npz test.svm
    widemargin evaluate model.npz test.csv --target income --json
    """
    model, columns = loaded(given["model"])
    labels = is_classifier(model)
    counts: dict[tuple[str, str], int] = {}
    n, total, squares, absolute, mean, spread = 0, 0, 0.0, 0.0, 0.0, 0.0
    for X, y in chunks_of(model, columns, given, labelled=True):
        predicted = model.predict(X)
        if labels:
            total += int(np.sum(predicted == with_whole_labels(y)))
            for pair in zip(map(str, with_whole_labels(y).tolist()), map(str, predicted.tolist())):
                counts[pair] = counts.get(pair, 0) + 1
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
        found |= {"accuracy": round(total / n, 6), "error": round(1.0 - total / n, 6), "wrong": n - total}
        found |= _by_class(counts)
    else:
        found |= {"R²": 1.0 - squares / spread if spread > 0.0 else float("nan"), "mean absolute error": absolute / n}
        found["root mean square error"] = float(np.sqrt(squares / n))
    show(found, given["json"])


def _by_class(counts: dict[tuple[str, str], int]) -> dict[str, str]:
    """Recall and precision of each class, of twenty at most."""
    found = {}
    for label in sorted({true for true, _ in counts})[:20]:
        own = counts.get((label, label), 0)
        true = sum(count for (t, _), count in counts.items() if t == label)
        said = sum(count for (_, p), count in counts.items() if p == label)
        precision = f"{own / said:.4f}" if said else "none predicted"
        found[f"class {label}"] = f"{true} examples, recall {own / true:.4f}, precision {precision}"
    return found
