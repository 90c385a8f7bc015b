"""``widemargin tune``."""

from __future__ import annotations

from typing import Any

from .options import argument, with_options


@with_options([argument("data", str, "The file.")])
def tune(**given: Any) -> None:
    """Choose C and gamma by successive halving, and train."""
