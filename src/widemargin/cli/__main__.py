"""``python -m widemargin.cli``: the same as the command."""

from . import run

run()
