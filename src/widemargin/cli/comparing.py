"""``widemargin compare``: all fitting solvers on one file."""

from __future__ import annotations

import json
import os
import platform
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import not_negative, positive
from ..version import __version__
from . import FINE, INTERRUPTED, say
from .options import (
    DATA_OPTIONS,
    JSON,
    argument,
    check_share,
    opened,
    opened_like,
    option,
    value_of,
    with_options,
    with_whole_labels,
    words,
)
from .speaking import flag_of
from .training import check_output

OPTIONS = [
    argument("data", str, "The file to train on."),
    option("test", str, None, "A file to measure the error on."),
    option("validation", float, 0.2, "Without --test: the share of the rows to measure the error on."),
    option("max_seconds", float, 30.0, "The time limit of each solver."),
    option("C", float, 1.0, "C of all of them."),
    option("gamma", str, "scale", "γ of the RBF kernel: a number, scale or auto."),
    option("regression", bool, False, "The targets are numbers, not classes."),
    option("epsilon", float, 0.1, "ε of the loss of regression."),
    option("only", str, None, "Solvers whose names have one of these words, with commas between: 'svc smo,sgd'."),
    option("skip", str, None, "Solvers to leave out, likewise: 'incremental,scikit-learn'."),
    option("html", str, None, "A page with the figures and the table."),
    JSON,
    option("quiet", bool, False, "No word of what is going on.", short="-q"),
]  # fmt: skip


@with_options(OPTIONS, DATA_OPTIONS)
def compare(**given: Any) -> int:
    """Compare every fitting solver, and scikit-learn's, on a file.

    Each trains on the same rows until it is done or --max-seconds are over. Ctrl-C shows what has ended.

    \b
      widemargin compare a9a.bz2 --test a9a.t.bz2 --gamma 0.05 --html a9a.html
      widemargin compare prices.csv --target price --regression --max-seconds 10
      widemargin compare a9a.bz2 --only linear
    """
    from ..report import comparison
    from ..report.table import COLUMNS, rows_of, show_table

    setting = _setting(given)
    if given["html"] is not None:
        check_output(given["html"])
    examples, source = read(given, not given["regression"])
    setting = comparison.settled(setting, examples.X)
    estimators = comparison.chosen(comparison.contenders(examples, setting), words(given["only"]), words(given["skip"]))
    results, interrupted = [], False
    begins = (lambda name: None) if given["quiet"] else (lambda name: say(f"{name} …"))
    try:
        for result in comparison.compare(estimators, examples, setting.max_seconds, begins):
            results.append(result)
            interrupted = result.stop_reason == "interrupted"
    except KeyboardInterrupt:
        interrupted = True
    facts = _facts(given, examples, source, setting)
    if given["json"]:
        print(json.dumps({"facts": facts, "results": [vars(each) for each in results]}, default=str))
    else:
        show_table(COLUMNS, rows_of(results, examples.labels), left=2)
    if given["html"] is not None:
        from ..files import replacing
        from ..report.page import page

        title = f"Solvers on {Path(given['data']).name}"
        with replacing(given["html"]) as file:
            file.write(page(title, results, facts, examples.labels).encode())
    if interrupted:
        say("widemargin: interrupted; these have ended")
        return INTERRUPTED
    failed = [each.stop_reason for each in results if each.stop_reason.startswith("failed")]
    if failed and all(each.error is None for each in results):
        raise ValueError(f"no solver could train on this: {failed[0].removeprefix('failed: ')}")
    return FINE


def _setting(given: dict[str, Any]) -> Any:
    from ..report.comparison import Setting

    gamma = value_of(given["gamma"])
    if gamma not in ("scale", "auto"):
        gamma = positive("--gamma", gamma)
    return Setting(
        positive("--C", given["C"]), gamma, not_negative("--epsilon", given["epsilon"]),
        positive("--max-seconds", given["max_seconds"]),
    )  # fmt: skip


def read(given: dict[str, Any], labels: bool) -> tuple[Any, Any]:
    """(training and test rows by --test or --validation, source of the training rows)."""
    from ..report.results import Examples

    X, y, source = rows_of_file(given, labels)
    if given["test"] is None:
        kept, held = parts(y, given, labels)
        return Examples(X[kept], y[kept], X[held], y[held], labels), source
    test_X, test_y = opened_like(given["test"], given, source.like(), X.shape[1]).load()[:2]
    if test_X.shape[1] != X.shape[1]:
        raise ValueError(f"{given['test']} has {test_X.shape[1]} features, and {given['data']} has {X.shape[1]}")
    test_y = with_whole_labels(test_y) if labels else _numbers(test_y, given["test"])
    return Examples(X, y, test_X, test_y, labels), source


def rows_of_file(given: dict[str, Any], labels: bool) -> tuple[Any, np.ndarray, Any]:
    """(X, y, source) of the file, with labels of at least two classes, or with numbers."""
    if given.get("test") is None:
        check_share(given["validation"])
    source = opened(given["data"], given)
    X, y = source.load()[:2]
    y = with_whole_labels(y) if labels else _numbers(y, given["data"])
    if labels and np.unique(y).size < 2:
        raise ValueError(f"{given['data']} has rows of one class only, {y[0]}: there is nothing to tell apart")
    return X, y, source


def parts(y: np.ndarray, given: dict[str, Any], labels: bool) -> tuple[np.ndarray, np.ndarray]:
    """(places of training rows, places of test rows), with the same share of each class."""
    from ..estimators.fit.checking import held_out

    if y.size < 4:
        raise ValueError(f"{given['data']} has {y.size} rows, too few to hold some out")
    return held_out(np.random.default_rng(0), y.size, given["validation"], y if labels else None, np.empty(0))


def _numbers(y: np.ndarray, path: str) -> np.ndarray:
    if y.dtype.kind not in "biuf":
        raise ValueError(f"{path} has targets that are no numbers, such as {str(y[0])!r}: these are classes")
    return y.astype(np.float64)


def _facts(given: dict[str, Any], examples: Any, source: Any, setting: Any) -> dict[str, Any]:
    """The data, the parameters, the versions and the machine of a comparison."""
    facts: dict[str, Any] = {"file": given["data"], "training rows": examples.n}
    facts["test rows"] = f"{examples.test_y.size}, " + (given["test"] or f"held out of {given['data']}")
    facts["features"] = examples.X.shape[1]
    if hasattr(examples.X, "nnz"):
        facts["entries that are not zero"] = f"{examples.X.nnz / np.prod(examples.X.shape, dtype=float):.2%}"
    if examples.labels:
        classes, counts = np.unique(examples.y, return_counts=True)
        named = [f"{label} ({count} rows)" for label, count in zip(classes.tolist()[:20], counts.tolist())]
        facts["classes"] = f"{classes.size}: " + ", ".join(named) + (" …" if classes.size > 20 else "")
    if source.skipped:
        facts["skipped lines"] = source.skipped
    told = f"C = {setting.C:g}, γ = {setting.gamma:.4g}" + ("" if examples.labels else f", ε = {setting.epsilon:g}")
    facts["parameters"] = f"{told}, at most {setting.max_seconds:g} s each"
    others = ("scikit-learn", "numpy", "scipy", "numba")
    facts["versions"] = ", ".join([f"widemargin {__version__}", *(f"{name} {version(name)}" for name in others)])
    facts["machine"] = f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()}"
    facts["Python"] = platform.python_version()
    facts["command"] = command_line(compare, given)
    return facts


def command_line(function: Any, given: dict[str, Any]) -> str:
    """The command line with all values that are not defaults."""
    told = ["widemargin", function.__name__]
    for name, parameter in function.__signature__.parameters.items():
        value = given.get(name)
        if value == parameter.default or value is None:
            continue
        value = f"{value:g}" if isinstance(value, float) else value
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            told.append(str(value))
        else:
            flag = flag_of(name)
            told += [flag] if value is True else [f"--no-{flag[2:]}"] if value is False else [flag, str(value)]
    return shlex.join(told)
