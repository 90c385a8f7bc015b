"""All commands in one parser. Only the command that is run is imported, so that help and completion are fast."""

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

#: The module of each command, and a sentence about it.
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
#: Commands that read a trained model.
TRAINED = ("predict", "evaluate", "convert", "info")


def command(arguments: Sequence[str]) -> Any:
    """The parser of all commands, with the options of the one that the arguments name."""
    app = typer.Typer(
        help=HELP, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    # bash completes the words of one variable, zsh and fish those of another
    typed = (os.environ.get(name, "") for name in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS"))
    asked = chosen([*arguments, *" ".join(typed).split()])
    for name, (_, short) in COMMANDS.items():
        function, said = (function_of(name), None) if name == asked else (lambda: None, short)
        app.command(name, help=said, no_args_is_help=name not in ("bench", "info", "warmup"))(function)
    app.callback(invoke_without_command=True)(_version)
    return typer.main.get_command(app)


def chosen(words: Sequence[str]) -> str | None:
    """The first command among these words."""
    return next((word for word in words if word in COMMANDS), None)


def function_of(name: str) -> Any:
    """The function that a command runs."""
    return getattr(import_module(f"{__package__}.{COMMANDS[name][0]}"), name)


def flags(arguments: Sequence[str]) -> set[str]:
    """The options that errors may name to a user who typed these arguments."""
    name = chosen(arguments)
    if name is None:
        return set()
    found = set(options_of(function_of(name)))
    if name in TRAINED:  # the model was trained with these options
        found |= set(options_of(function_of("train")))
    # names in brackets are no options, as in --solver 'Pegasos(batch_size=16)'
    return found - set(re.findall(r"[(,]\s*(\w+)\s*=", " ".join(arguments)))


def _version(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Say the version and end.")
) -> None:
    if version:
        from ..version import __version__

        print(f"widemargin {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


_version.__doc__ = HELP
