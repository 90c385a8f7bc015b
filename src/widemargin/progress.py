"""A progress line for long fits: objective, gap or validation error, rate and time left."""

from __future__ import annotations

import sys
from typing import Any

from .running import Progress


class ProgressBar:
    """A progress bar on standard error, or in the output of a notebook's cell.

    Without ``rich``, and in notebooks without ``ipywidgets``, a line is printed at each checkpoint instead.

    It is a context manager, whose ``on_slice`` and ``on_checkpoint`` are arguments of
    :func:`widemargin.running.run`.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> ProgressBar:
        try:
            from rich import progress as rich
            from rich.console import Console

            console = Console(file=sys.stderr)
            if console.is_jupyter:  # where rich needs these
                from IPython.display import display  # noqa: F401
                from ipywidgets import Output  # noqa: F401
        except ImportError:
            return self
        self._bar = rich.Progress(
            rich.TextColumn("[bold]{task.description}"),
            rich.BarColumn(bar_width=24),
            rich.TextColumn("{task.fields[status]}"),
            rich.TimeElapsedColumn(),
            rich.TextColumn("left"),
            rich.TimeRemainingColumn(),
            console=console,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=None, status="")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            if self._bar.console.is_jupyter:
                self._bar.refresh()  # rich does not draw the last state in a notebook
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr)

    def on_slice(self, progress: Progress) -> None:
        """Update the bar."""
        if self._bar is not None:
            self._bar.update(
                self._task, completed=progress.epochs, total=progress.max_epochs, status=self._status(progress)
            )

    def on_checkpoint(self, progress: Progress) -> None:
        """Show the measurements of a checkpoint."""
        if self._bar is not None:
            self.on_slice(progress)
        else:
            print(f"{self.title}: {self._status(progress)}", file=sys.stderr)

    def _status(self, progress: Progress) -> str:
        row = progress.history.rows[-1] if len(progress.history) else {}
        labels = {"objective": "objective", "gap": "gap", "validation_error": "validation"}
        measured = [f"{label} {row[name]:.5g}" for name, label in labels.items() if name in row]
        rate = progress.steps / max(progress.seconds, 1e-9)
        epochs = f"epoch {progress.epochs:.4g}/{progress.max_epochs:.4g}"
        return " · ".join([epochs, *measured, f"{rate:.3g} steps/s"])
