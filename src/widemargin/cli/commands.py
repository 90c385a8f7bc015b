"""The commands, put together; only the one that is asked for is imported, so that help and completion are quick."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from .speaking import options_of

HELP = """Support vector machines at any scale.

Train on a file, and look at what came out:

\b
  widemargin train train.svm -o model.npz --C 1 --max-seconds 60
  widemargin evaluate model.npz test.svm
  widemargin predict model.npz new.svm > labels.txt

Files are LIBSVM text (compressed or not), CSV, Parquet or .npz; "-" is standard input.
"""

#: Where each command stands, and what it does.
COMMANDS = {
    "train": ("training", "Train a model on a file."),
    "predict": ("predicting", "Predict the examples of a file, a line each."),
    "evaluate": ("predicting", "Measure a model on a file with labels."),
    "compare": ("comparing", "Compare every fitting solver, and scikit-learn's, on a file."),
    "tune": ("tuning", "Choose C and gamma by successive halving, and train."),
    "convert": ("converting", "Write data or a model in another format."),
    "reproduce": ("reproducing", "Run the papers' experiments again, from a checkout."),
    "bench": ("reproducing", "Measure this library beside others, from a checkout."),
    "info": ("about", "Say what a file holds, or what is installed."),
    "warmup": ("about", "Compile ahead, so that first fits start at once."),
}
#: Commands on models that were trained before.
TRAINED = ("predict", "evaluate", "convert", "info")


def command(arguments: Sequence[str]) -> Any:
    """All of it, with the options of the command among the arguments."""
    app = typer.Typer(
        help=HELP, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    words = [*arguments, *os.environ.get("COMP_WORDS", "").split(), *_completed()]
    asked = chosen(words)
    for name, (_, short) in COMMANDS.items():
        function = function_of(name) if name == asked else _named(short)
        app.command(name, no_args_is_help=name not in ("bench", "info", "warmup"))(function)
    app.callback(invoke_without_command=True)(_version)
    return typer.main.get_command(app)


def chosen(words: Sequence[str]) -> str | None:
    """The command among these words."""
    return next((word for word in words if word in COMMANDS), None)


def function_of(name: str) -> Any:
    """What a command runs."""
    return getattr(import_module(f"{__package__}.{COMMANDS[name][0]}"), name)


def flags(arguments: Sequence[str]) -> set[str]:
    """The names of the options that sentences can tell whoever typed these arguments to use."""
    name = chosen(arguments)
    if name is None:
        return set()
    found = set(options_of(function_of(name)))
    if name in TRAINED:  # their models were made with these
        found |= set(options_of(function_of("train")))
    # what was typed within brackets, --solver 'Pegasos(batch_size=16)', is no option
    return found - set(re.findall(r"[(,]\s*(\w+)\s*=", " ".join(arguments)))


def _completed() -> list[str]:
    """The words that zsh and fish complete."""
    return os.environ.get("_TYPER_COMPLETE_ARGS", "").split()


def _named(short: str) -> Any:
    def stub() -> None: ...

    stub.__doc__ = short
    return stub


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
