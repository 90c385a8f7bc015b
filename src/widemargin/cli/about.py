"""``widemargin info`` and ``widemargin warmup``."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from numba import config

from .options import DATA_OPTIONS, JSON, argument, is_model, opened, option, with_options
from .predicting import loaded
from .training import facts, show


@with_options(
    [
        argument("file", str, "A model, or data; without one: this installation.", None),
        JSON,
    ],
    DATA_OPTIONS,
)
def info(**given: Any) -> None:
    """Say what a file holds, or what is installed.

    widemargin info model.npz
    widemargin info train.svm
    widemargin info
    """
    path = given["file"]
    if path is None:
        found = _installation()
    else:
        found = _model(path, given["n_features"]) if is_model(path) else _data(path, given)
    show(found, given["json"])


def _model(path: str, n_features: int | None) -> dict[str, Any]:
    model, like = loaded(path, n_features)

    found = facts(model)
    given = {name: value for name, value in model.get_params(deep=False).items() if value is not None}
    found["parameters"] = {k: v if isinstance(v, (str, bool, int, float)) else repr(v) for k, v in given.items()}
    if "columns" in like:
        found["columns"] = like["columns"]
    elif like.get("zero_based"):
        found["indices"] = "from 0 on"
    found["bytes"] = os.stat(path).st_size
    return found


def _data(path: str, given: dict[str, Any]) -> dict[str, Any]:
    source = opened(path, given)
    told = source.summary()
    found: dict[str, Any] = {"kind": type(source).__name__, "rows": told.n_rows, "features": told.n_features}
    found["entries"] = told.n_entries
    if told.labels is not None:
        found["labels"] = told.labels.tolist() if told.labels.size <= 100 else f"{told.labels.size} different"
    if told.skipped:
        found["skipped lines"] = told.skipped
    return found


def _installation() -> dict[str, Any]:
    from ..core.compiling.machine_code import folders
    from ..data.registry import DATASETS, local
    from ..version import __version__

    found: dict[str, Any] = {"widemargin": __version__, "Python": platform.python_version()}
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} processors"
    for package in ("numpy", "scipy", "numba", "scikit-learn", "pyarrow", "onnx"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    found["machine code"] = str(folders(config.CACHE_DIR).written or "not kept")
    found["data sets here"] = [name for name in DATASETS if local(name) is not None]
    return found


@with_options(
    [
        argument("estimators", list[str], "LinearSVC, SVC, BudgetedSVC …; all if none is named.", None),
        option("n_jobs", int, None, "Processes at a time (default: as many as processors)."),
    ]
)
def warmup(**given: Any) -> None:
    """Compile ahead, so that first fits start at once.

    widemargin warmup
    widemargin warmup SVC BudgetedSVC
    """
    from ..warming import warmup as compile_ahead

    done = compile_ahead(given["estimators"] or None, n_jobs=given["n_jobs"], verbose=1)
    print(f"compiled {sum(part.compiled for part in done.values())} loops in {len(done)} parts")
