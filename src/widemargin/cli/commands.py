"""The commands, put together."""

from __future__ import annotations

from typing import Any

import typer

from . import about, comparing, converting, predicting, training, tuning

HELP = """Support vector machines at any scale.

Train on a file, and look at what came out:

\b
  widemargin train train.svm -o model.npz --C 1 --max-seconds 60
  widemargin evaluate model.npz test.svm
  widemargin predict model.npz new.svm > labels.txt

Files are LIBSVM text (compressed or not), CSV, Parquet or .npz; "-" is standard input.
"""


def command() -> Any:
    """All of it, as a click command."""
    app = typer.Typer(
        help=HELP, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    for function in (
        training.train, predicting.predict, predicting.evaluate, comparing.compare, tuning.tune, converting.convert,
        about.info, about.warmup,
    ):  # fmt: skip
        app.command(no_args_is_help=function is not about.info and function is not about.warmup)(function)
    app.callback(invoke_without_command=True)(_version)
    return typer.main.get_command(app)


def _version(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Say the version and end.")
) -> None:
    if version:
        from .. import __version__

        print(f"widemargin {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


_version.__doc__ = HELP
