"""A comparison as one HTML page, without scripts and files of its own, readable on light and dark screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, TypeGuard

from .figures import Series, against, swatch
from .results import Result
from .table import COLUMNS, rows_of

#: Errors from HUGE on are not drawn, because the arithmetic of figures would overflow.
HUGE = 1e100
#: Colours of the series on a light and on a dark background.
LIGHT = (
    "#1769b5", "#c2324b", "#23804a", "#7d47a8", "#b86e00", "#0a8794", "#96451f", "#c22f8c", "#4d5663", "#7c6c12",
    "#3c5f8f", "#65743a",
)  # fmt: skip
DARK = (
    "#6cb4f5", "#ff8295", "#6fcf94", "#c79cf0", "#f2b04c", "#5fd3de", "#e39a74", "#f58ccb", "#b9c1cc", "#d9c65a",
    "#9bb9e6", "#b7c886",
)  # fmt: skip

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1c2128; --soft: #5b6470; --rule: #d9dde3; %(light)s }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171c; --ink: #e6e9ee; --soft: #9aa4b1; --rule: #333a44; %(dark)s }
}
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 3rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p, dd { overflow-wrap: anywhere; }
.soft, figcaption { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%%; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
td:nth-child(2) { white-space: normal; min-width: 7rem; max-width: 22rem; overflow-wrap: anywhere; }
td.best { font-weight: 700; }
figure { margin: 0; }
figure svg:not(.swatch) { display: block; width: 100%%; min-width: 32rem; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg text.axis { font-size: 13px; fill: var(--ink); }
svg text.label { fill: var(--ink); }
.grid { stroke: var(--rule); stroke-width: 1; }
.leader { stroke: var(--soft); stroke-width: .7; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.line.dashed { stroke-dasharray: 5 4; }
.mark { fill: var(--c); stroke: var(--c); stroke-width: 1.5; }
.mark.hollow { fill: var(--ground); }
.swatch { width: 30px; height: 16px; vertical-align: -3px; margin-right: .4rem; }
ul.legend { list-style: none; margin: .5rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem;
  font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--soft); }
dd { margin: 0; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; }
  table { font-size: .85rem; } th, td { padding: .25rem .35rem; } td:nth-child(2) { min-width: 6.2rem; } }
"""


def page(title: str, results: Sequence[Result], facts: Mapping[str, Any], labels: bool = True) -> str:
    """The page of a comparison. Every text in it is escaped here."""
    error = "test error" if labels else "root mean square error"
    numbered = list(enumerate(results))
    curves = [
        Series(each.name, k, [point for point in each.curve if _drawn(point[1])], each.is_rival) for k, each in numbered
    ]
    sizes = [
        Series(each.name, k, [(float(each.bytes), each.error)], each.is_rival)
        for k, each in numbered
        if each.bytes and _drawn(each.error)
    ]
    parts = [
        "<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>", f"<style>{_style()}</style>", "</head>", "<body>",
        f"<h1>{escape(title)}</h1>", f"<p>{escape(_sentence(results, error))}</p>",
    ]  # fmt: skip
    if sizes:
        parts += ["<h2>Error against time</h2>", _figure(against(curves, "seconds of training", error), _TIME)]
        parts.append(_legend([each for each in curves if each.points]))
        parts += ["<h2>Error against the size of the model</h2>"]
        parts.append(_figure(against(sizes, "bytes of the model", error, labelled=True), _SIZE))
    parts += ["<h2>Results</h2>", _table(results, labels), "<h2>What was run</h2>", _facts(facts), "</body>", "</html>"]
    return "\n".join(parts) + "\n"


def _drawn(error: float | None) -> TypeGuard[float]:
    """Whether an error can be drawn; that of a solver that diverged may be too large."""
    return error is not None and abs(error) < HUGE


_TIME = (
    "Down and to the left is better. Each point is the model at that time, measured on rows that training has not "
    "seen; dashed lines and hollow marks are scikit-learn’s. Points far above all the last ones are left out, and so "
    "are solvers without a model. Compilation and measuring are not on the clock."
)
_SIZE = (
    "Down and to the left is better. Bytes are those of the weights, or of the vectors and their coefficients. Errors "
    "far above the others are left out."
)


def _style() -> str:
    colours = {"light": LIGHT, "dark": DARK}
    return STYLE % {
        name: " ".join(f"--s{k}: {colour};" for k, colour in enumerate(found)) for name, found in colours.items()
    }


def _sentence(results: Sequence[Result], error: str) -> str:
    known = [each for each in results if _drawn(each.error)]
    if not known:
        return "No solver has ended with a model."
    best = min(known, key=lambda each: (each.error, each.seconds))
    return f"The lowest {error} is {best.error:.4g}, by {best.name} in {best.seconds:.3g} seconds."


def _figure(drawn: str, caption: str) -> str:
    return f'<figure><div class="wide">{drawn}</div><figcaption>{escape(caption)}</figcaption></figure>'


def _legend(series: Sequence[Series]) -> str:
    entries = (f"<li>{swatch(each.k, each.dashed)}{escape(each.name)}</li>" for each in series)
    return '<ul class="legend">' + "".join(entries) + "</ul>"


def _table(results: Sequence[Result], labels: bool) -> str:
    best = min((each.error for each in results if _drawn(each.error)), default=None)
    head = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS)
    body = []
    for result, row in zip(results, rows_of(results, labels)):
        marks = ["" if k != 3 or best is None or result.error != best else ' class="best"' for k in range(len(row))]
        body.append("<tr>" + "".join(f"<td{m}>{escape(cell)}</td>" for m, cell in zip(marks, row)) + "</tr>")
    rows = "\n".join(body)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def _facts(facts: Mapping[str, Any]) -> str:
    rows = "".join(f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items())
    return f"<dl>{rows}</dl>"
