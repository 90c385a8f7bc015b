"""The command ``widemargin``: train, predict, and look at models and data without writing Python.

Exit codes: 0 if all is well; 1 if training did not converge and ``--strict`` was given; 2 for bad input, with one
sentence on standard error; 130 if Ctrl-C ended training and the model so far was saved. ``WIDEMARGIN_DEBUG=1`` shows
the traceback of an error.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

#: Exit codes.
FINE, UNFINISHED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def say(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    try:
        import typer  # noqa: F401
    except ImportError:
        say("widemargin: the command needs the package typer: pip install 'widemargin[command]'")
        return BAD_INPUT
    from .commands import command, flags
    from .speaking import spoken

    before, given = warnings.showwarning, list(sys.argv[1:] if arguments is None else arguments)

    def show(message: Any, category: Any, *rest: Any, **named: Any) -> None:
        say(f"warning: {spoken(str(message), flags(given))}")

    try:
        warnings.showwarning = show
        return int(command(given).main(args=given, prog_name="widemargin", standalone_mode=False) or FINE)
    except KeyboardInterrupt:
        say("widemargin: interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as bad:
        if os.environ.get("WIDEMARGIN_DEBUG"):
            raise
        said = " ".join(str(bad).split()) or type(bad).__name__
        say(f"widemargin: {spoken(said, flags(given))}")
        return BAD_INPUT
    except Exception as bad:
        # errors of the parser of the command line, which are in different packages in different versions of typer
        if type(bad).__name__ == "Abort":
            return INTERRUPTED
        if not hasattr(bad, "exit_code"):
            raise
        if hasattr(bad, "show"):
            bad.show()
        return int(bad.exit_code)
    finally:
        warnings.showwarning = before


def run() -> None:
    """The entry point of the installed command."""
    code = main()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    if "pyarrow" in sys.modules:
        os._exit(code)  # its thread that reads ahead may still need the interpreter while that shuts down
    sys.exit(code)
