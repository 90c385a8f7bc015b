"""``widemargin compare``."""

from __future__ import annotations

from typing import Any

from .options import argument, with_options


@with_options([argument("data", str, "The file.")])
def compare(**given: Any) -> None:
    """Compare every fitting solver, and scikit-learn's, on a file."""
