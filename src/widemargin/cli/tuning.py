"""``widemargin tune``: choose C and γ by successive halving."""

from __future__ import annotations

import json
import math
import time
from typing import Any

from sklearn.base import clone, is_classifier

from ..arguments import positive
from . import BAD_INPUT, FINE, INTERRUPTED, say
from .comparing import command_line, parts, rows_of_file
from .options import (
    DATA_OPTIONS,
    JSON,
    OUTPUT,
    argument,
    estimator_class,
    estimator_options,
    made,
    option,
    with_options,
    words,
)
from .training import check_model, facts, save_trained, show

#: The estimators that can be tuned.
TUNED = ("LinearSVC", "SVC", "LinearSVR", "SVR")
#: Parameters of estimators that are no options of ``tune``: the search sets them, or cannot use them.
SEARCHED = ("C", "gamma", "lam", "max_seconds", "early_stopping", "checkpoint", "checkpoint_every")
#: The default grids: C of linear machines, C of kernel machines, and γ as multiples of 'scale'.
LINEAR_CS = tuple(float(f"{10 ** (k / 2):.3g}") for k in range(-6, 5))
KERNEL_CS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
GAMMAS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)
#: The candidates of each rung that the table shows.
SHOWN = 5

OPTIONS = [
    argument("data", str, "The file to train on."),
    OUTPUT,
    option("estimator", str, "LinearSVC", f"{', '.join(TUNED)}.", short="-e"),
    option("Cs", str, None, "Values of C, with commas between (default: a logarithmic grid)."),
    option("gammas", str, None, "Values of γ, likewise (default: 1/64 to 16 times 'scale')."),
    option("validation", float, 0.2, "The share of the rows that errors are measured on."),
    option("factor", int, 3, "By how much rungs grow, and candidates become fewer."),
    option("min_rows", int, 500, "The least number of rows to compare candidates on."),
    option("max_seconds", float, None, "A limit for all of it, training the best included."),
    JSON,
    option("quiet", bool, False, "No word of what is going on.", short="-q"),
]  # fmt: skip


@with_options(OPTIONS, DATA_OPTIONS, [p for p in estimator_options() if p.name not in SEARCHED])
def tune(**given: Any) -> int:
    """Choose C and gamma by successive halving, and train.

    Many candidates are compared on few rows and the best of them on more, by their errors on rows that are held out;
    the best of all is trained on all rows and saved. Ctrl-C trains the best so far.

    \b
      widemargin tune a9a.bz2
      widemargin tune a9a.bz2 -e SVC --max-seconds 120 -o a9a.npz
      widemargin tune a9a.bz2 -e SVC --Cs 0.5,1,2 --gammas 0.02,0.05
    """
    from ..estimators.halving import FOR_SEARCH, successive_halving

    started = time.perf_counter()
    name = estimator_class(given["estimator"]).__name__
    if name not in TUNED:
        raise ValueError(f"tune has {', '.join(TUNED)}, got --estimator {given['estimator']}")
    limit = None if given["max_seconds"] is None else positive("--max-seconds", given["max_seconds"])
    model = made(name, {key: value for key, value in given.items() if key not in SEARCHED}, random_state=0)
    Cs, gammas = _numbers("--Cs", given["Cs"]), _numbers("--gammas", given["gammas"])
    check_model(model, given["output"])
    labels = is_classifier(model)
    X, y, source = rows_of_file(given, labels)
    kept, held = parts(y, given, labels)
    gammas_tried = _gammas(model, gammas, X[kept])
    if Cs is None:
        Cs = list(LINEAR_CS if gammas_tried == [None] and not hasattr(model, "kernel") else KERNEL_CS)
    search = successive_halving(
        model, (X[kept], y[kept]), (X[held], y[held]), Cs=Cs, gammas=gammas_tried, factor=given["factor"],
        min_rows=given["min_rows"], max_seconds=None if limit is None else FOR_SEARCH * limit,
        said=(lambda rows, tried: None) if given["quiet"] else _say,
    )  # fmt: skip
    best = search.best
    if best is None:
        say("widemargin: interrupted before anything was tried; there is no model")
        return INTERRUPTED
    if search.stop_reason == "interrupted":
        say("widemargin: interrupted; now the best so far is trained on all rows (Ctrl-C again to stop that)")
    left = None if limit is None else max(limit - (time.perf_counter() - started), 0.05 * limit)
    chosen = {"C": best.C} if best.gamma is None else {"C": best.C, "gamma": best.gamma}
    model = clone(model).set_params(max_seconds=left, **chosen).fit(X, y)
    found = facts(model, X.shape[0], source.skipped) | chosen
    written = save_trained(model, given["output"], source.like())
    found |= {"validation error": best.error, "search": search.stop_reason, "output": written}
    found["seconds"] = round(time.perf_counter() - started, 3)
    _tell(search, best, found, given)
    interrupted = "interrupted" in (search.stop_reason, model.stop_reason_)
    if interrupted:
        say(f"widemargin: interrupted; the model is in {written}")
    return INTERRUPTED if interrupted else FINE if written == given["output"] else BAD_INPUT


def _numbers(option: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        found = [positive(option, float(word)) for word in words(text)]
    except ValueError:
        found = []
    if not found:
        raise ValueError(f"{option} must be numbers > 0 with commas between, got {text!r}")
    return found


def _gammas(model: Any, given: list[float] | None, X: Any) -> list[float | None]:
    """The values of γ to try; [None] for machines without γ."""
    from ..core.kernels.kernels import class_of
    from ..problems.layout import scaled_kernel

    kernel = getattr(model, "kernel", None)
    if kernel is None or not class_of(kernel).has_gamma:
        if given is not None:
            raise ValueError(f"--gammas is for machines with a γ, and {model!r} has none: leave it out")
        return [None]
    if given is not None:
        return list(given)
    _, _, scale = scaled_kernel(kernel, "scale", 3, 0.0, X)
    return [float(f"{scale * factor:.4g}") for factor in GAMMAS]


def _say(rows: int, tried: Any) -> None:
    gamma = "" if tried.gamma is None else f", gamma {tried.gamma:.4g}"
    say(f"{rows} rows, C {tried.C:.4g}{gamma}: error {tried.error:.4f}")


def _told(tried: Any) -> dict[str, Any]:
    """A candidate for JSON. An infinite error is None, because JSON has no infinity."""
    return {**vars(tried), "error": tried.error if math.isfinite(tried.error) else None}


def _tell(search: Any, best: Any, found: dict[str, Any], given: dict[str, Any]) -> None:
    """Print the rungs and the model."""
    if given["json"]:
        rungs = [{**vars(rung), "tried": [_told(each) for each in rung.tried]} for rung in search.rungs]
        print(json.dumps({**found, "rungs": rungs, "command": command_line(tune, given)}, default=str))
        return
    from ..report.table import show_table

    rows = []
    for rung in search.rungs:
        for each in rung.best(SHOWN):
            gap = "–" if each.relative_gap is None else f"{each.relative_gap:.1e}"
            gamma = [] if each.gamma is None else [f"{each.gamma:.4g}"]
            mark = "best" if each is best else ""
            rows.append([str(rung.rows), f"{each.C:.4g}", *gamma, f"{each.error:.4f}", gap, each.stop_reason, mark])
        if len(rung.tried) > SHOWN:
            rows.append([f"… and {len(rung.tried) - SHOWN} more", *[""] * (len(rows[-1]) - 1)])
    columns = ["rows", "C", *([] if best.gamma is None else ["gamma"]), "error", "relative gap", "stopped by", ""]
    show_table(columns, rows)
    print()
    show(found, False)
    if not search.rungs[0].whole:
        return
    for name, grid in (("C", "--Cs"), ("gamma", "--gammas")):
        value, tried = getattr(best, name), {getattr(each, name) for each in search.rungs[0].tried}
        if len(tried) > 1 and value in (min(tried), max(tried)):  # γ is None in all of them, or in none
            print(f"The best {name} is at the end of those tried: {grid} can go on.")
