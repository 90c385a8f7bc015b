"""``python -m widemargin``: the same as the command."""

from .cli import run

run()
