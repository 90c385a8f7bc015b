"""Tables: by ``rich`` on a terminal, as plain columns elsewhere. The command has ``rich`` by typer, too."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from .results import Result

#: The columns of a comparison.
COLUMNS = "name", "stopped by", "seconds", "test error", "relative gap", "vectors", "bytes"


def rows_of(results: Iterable[Result], labels: bool = True) -> list[list[str]]:
    """The rows of a comparison, with cells in the order of ``COLUMNS``."""
    return [
        [
            result.name, result.stop_reason, f"{result.seconds:.3g}",
            _cell(result.error, ".4f" if labels else ".4g"), _cell(result.relative_gap, ".1e"),
            _cell(result.vectors, "d"), _cell(result.bytes, "d"),
        ]
        for result in results
    ]  # fmt: skip


def _cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Print a table whose first ``left`` columns are texts, and the others numbers."""
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0))
        for k, column in enumerate(columns):
            table.add_column(column, justify="left" if k < left else "right")
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(len(row[k]) for row in (columns, *rows)) for k in range(len(columns))]
    for row in (columns, *rows):
        cells = [
            cell.ljust(width) if k < left else cell.rjust(width) for k, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip())
