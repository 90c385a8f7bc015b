"""Options of the commands: for data, and for estimators, which come from their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import widemargin

from .speaking import flag_of

#: The estimators that commands can train.
ESTIMATORS = ("LinearSVC", "LinearSVR", "SVC", "SVR", "BudgetedSVC", "BudgetedSVR", "IncrementalSVC")
#: Parameters of estimators that are no options.
OWN = ("callbacks", "verbose", "warm_start", "cost_matrix", "decision_function_shape")
#: Headings of groups of options in the help.
DATA, MODEL = "Data", "Parameters of the estimator"


def option(
    name: str, kind: Any, default: Any, help: str, panel: str | None = None, short: str | None = None
) -> inspect.Parameter:  # fmt: skip
    """An option of a command, as a parameter of its function. A switch whose default is None may be on or off."""
    flag = flag_of(name)
    flags = [f"{flag}/--no-{flag[2:]}" if kind is bool and default is None else flag, *filter(None, [short])]
    told = typer.Option(*flags, help=help, rich_help_panel=panel, show_default=default not in (None, False))
    return _parameter(name, inspect.Parameter.KEYWORD_ONLY, kind, default, told)


def argument(name: str, kind: Any, help: str, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """A positional argument of a command, as a parameter of its function."""
    told = typer.Argument(help=help, metavar=name.upper())
    return _parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, kind, default, told)


def _parameter(name: str, way: Any, kind: Any, default: Any, told: Any) -> inspect.Parameter:
    kind = kind | None if default is None else kind
    return inspect.Parameter(name, way, default=default, annotation=Annotated[kind, told])


def with_options(*groups: list[inspect.Parameter]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function of ``**given`` the signature of these parameters."""

    def give(function: Callable[..., Any]) -> Callable[..., Any]:
        found = sorted(chain(*groups), key=lambda p: (p.kind, p.default is not inspect.Parameter.empty))
        function.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
        function.__annotations__ = {p.name: p.annotation for p in found}
        return function

    return give


# ---------------------------------------------------------------- data

DATA_OPTIONS = [
    option("format", str, "auto", "libsvm, csv, parquet or npz; by default what the file looks like.", DATA),
    option("target", str, None, "CSV, Parquet: the column to predict (default: target, label, class or y).", DATA),
    option("columns", str, None, "CSV, Parquet: the columns to use, with commas between (default: all).", DATA),
    option("categories", str, None, "CSV, Parquet: 'onehot' makes a feature of each value of columns of text.", DATA),
    option("delimiter", str, None, "CSV: what stands between values.", DATA),
    option("header", bool, None, "CSV: whether the first line has the names of columns.", DATA),
    option("n_features", int, None, "LIBSVM text: number of features, where the last ones may be absent.", DATA),
    option("zero_based", bool, None, "LIBSVM text: indices begin with 0 (default: if one is 0).", DATA),
    option("on_bad_line", str, None, "LIBSVM text, CSV: 'raise' (default), or 'skip', which counts them.", DATA),
    option("dtype", str, "float64", "float64 or float32.", DATA),
    option("max_memory", str, "256 MB", "Memory that reading in chunks may take.", DATA),
]  # fmt: skip
#: Options of several commands.
OUTPUT = option("output", str, "model.npz", "The model: .npz, .libsvm, .liblinear or .onnx.", short="-o")
JSON = option("json", bool, False, "Print the result as JSON.")


def opened(path: str, given: dict[str, Any], **more: Any) -> Any:
    """Open data with the data options that were given."""
    from ..data import open_data

    options = {p.name: given[p.name] for p in DATA_OPTIONS if given.get(p.name) is not None}
    if "dtype" in options and options["dtype"] not in ("float32", "float64"):
        raise ValueError(f"--dtype must be float32 or float64, got {options['dtype']!r}")
    if "columns" in options:
        options["columns"] = words(options["columns"])
    if re.fullmatch(r"-?\d+", options.get("target", "")):
        options["target"] = int(options["target"])
    if path.startswith(("sklearn:", "openml:")):
        options.pop("format")
    return open_data(path, **{**options, **more})


def opened_like(path: str, given: dict[str, Any], like: dict[str, Any], n_features: int) -> Any:
    """Open other data with the columns or the features that a model was trained on; see ``source.like``."""
    from ..data.libsvm import LibsvmText

    if "columns" in like:
        return opened(path, given, **{k: v for k, v in like.items() if k != "target" or given.get("target") is None})
    source = opened(path, given)
    if isinstance(source, LibsvmText):  # other files say their number of features
        if source.n_features is None:
            source.n_features = n_features
        if source.zero_based == "auto":
            source.zero_based = like.get("zero_based", "auto")
    return source


def words(given: str | None) -> list[str]:
    """The parts of a text that are separated by commas."""
    return [word.strip() for word in (given or "").split(",") if word.strip()]


def check_share(share: float) -> None:
    """Refuse a share of the rows that leaves none to train on or to measure on."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"--validation must be between 0 and 1, got {share}")


def with_whole_labels(y: np.ndarray) -> np.ndarray:
    """Labels as integers if all are whole numbers: 1 instead of 1.0."""
    if y.dtype.kind == "f" and np.all(y == np.round(y)) and np.all(np.abs(y) < 2**53):
        return y.astype(np.int64)
    return y


# ---------------------------------------------------------------- estimators


def estimator_class(name: str) -> Any:
    """The estimator of a name, in upper or lower case, with or without hyphens."""
    plain = name.replace("-", "").replace("_", "").lower()
    found = [each for each in ESTIMATORS if each.lower() == plain]
    if not found:
        raise ValueError(f"--estimator must be one of {', '.join(ESTIMATORS)}, got {name!r}")
    return getattr(widemargin, found[0])


def parameters_of(cls: Any) -> dict[str, inspect.Parameter]:
    """The parameters of an estimator that are options."""
    return {name: p for name, p in inspect.signature(cls.__init__).parameters.items() if name not in ("self", *OWN)}


def described(cls: Any) -> dict[str, tuple[list[str], str]]:
    """(values that are names, first sentence) of each parameter, from an estimator's docstring."""
    text = inspect.getdoc(cls) or ""
    part = re.search(r"Parameters\n-+\n(.*?)(\n\n?[A-Z]\w+\n-+\n|\Z)", text, re.DOTALL)
    found = {}
    entry = r"^(\w[\w, ]*?) ?: ?([^\n]*)\n((?:    [^\n]*\n?|\n)*)"
    for names, kind, body in re.findall(entry, f"{part[1]}\n" if part else "", re.MULTILINE):
        sentence = re.split(r"(?<=[.;])\s", " ".join(body.split()), maxsplit=1)[0].rstrip(";.")
        sentence = "" if sentence.startswith("As in ") else re.sub(r"[`*]|:\w+:", "", sentence)
        for name in names.split(","):
            found[name.strip()] = re.findall(r'"([\w-]+)"', kind.split("default")[0]), sentence
    return found


def estimator_options() -> list[inspect.Parameter]:
    """An option for each parameter that some estimator has."""
    classes = {name: getattr(widemargin, name) for name in ESTIMATORS}
    said = {name: described(cls) for name, cls in classes.items()}
    had = {name: parameters_of(cls) for name, cls in classes.items()}
    options = []
    for name in dict.fromkeys(name for own in had.values() for name in own):
        owners = [each for each in ESTIMATORS if name in had[each]]
        texts = [said[each][name] for each in owners if name in said[each]]
        told = " | ".join(dict.fromkeys(word for taken, _ in texts for word in taken))
        sentence = next((sentence for _, sentence in texts if sentence), "")
        told = ". ".join(filter(None, (told, sentence)))
        told += "." * bool(told)
        if len(owners) < len(ESTIMATORS):
            told += f" ({', '.join(owners)})"
        defaults = [had[each][name].default for each in owners]
        switch = all(isinstance(default, bool) for default in defaults)
        values = set(map(repr, defaults))
        if len(values) == 1 and not switch and defaults[0] is not None and len(*values) < 20:
            told += f" (default: {defaults[0]})"
        options.append(option(name, bool if switch else str, None, told, MODEL))
    return options


def value_of(text: str) -> Any:
    """The value of a typed text: a number, None, a list, a dictionary, a configured solver, or the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    part = re.fullmatch(r"([A-Z]\w*)\((.*)\)", text.strip(), re.DOTALL)
    return configured(part[1], text) if part else text


def configured(name: str, text: str) -> Any:
    """A solver, loss or kernel written as in Python, ``Pegasos(batch_size=16)``; its arguments are numbers and text."""
    known = {each for each in widemargin.__all__ if isinstance(getattr(widemargin, each), type)} - set(ESTIMATORS)
    home: Any = next(
        (module for module in (widemargin.losses, widemargin.kernels) if hasattr(module, name)), widemargin
    )
    if home is widemargin and name not in known:
        raise ValueError(
            f"{text!r} names no solver: the known ones are {', '.join(sorted(known))}; nor a loss or kernel"
        )
    try:
        call = ast.parse(text.strip(), mode="eval").body
        assert isinstance(call, ast.Call)
        given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        return getattr(home, name)(*map(ast.literal_eval, call.args), **given)
    except (ValueError, SyntaxError, AssertionError) as bad:
        raise ValueError(f"{text!r} is no solver with numbers and text as its arguments: {bad}") from bad


def made(name: str, given: dict[str, Any], **more: Any) -> Any:
    """Make the estimator of a name with the parameters that were given."""
    cls, asked = estimator_class(name), {}
    for parameter, text in given.items():
        owners = [each for each in ESTIMATORS if parameter in parameters_of(getattr(widemargin, each))]
        if not owners or text is None:
            continue
        if cls.__name__ not in owners:
            raise ValueError(
                f"{flag_of(parameter)} is an option of {', '.join(owners)}, and the estimator is {cls.__name__}"
            )
        value = text if isinstance(text, bool) else value_of(text)
        asked[parameter] = str(text) if parameter == "checkpoint" else value
    return cls(**{**asked, **more})


def is_model(path: str) -> bool:
    """Whether a file holds a model, of this library or of LIBSVM or LIBLINEAR."""
    import zipfile

    from ..formats.text import format_of

    if not Path(path).is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "header.npy" in archive.namelist()
    except zipfile.BadZipFile:
        return format_of(path) is not None
