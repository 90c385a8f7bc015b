"""Warnings that point at the line of the user's own program that led to them."""

from __future__ import annotations

import sys
import warnings

#: Packages whose lines are not the user's: this one, and those that call it, or are called by it, in between.
PASSED = frozenset({"widemargin", "sklearn", "joblib", "numba", "contextlib", "threadpoolctl"})


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn as of the innermost line outside of this package and scikit-learn; where there is none, of the outermost."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED:
        frame = frame.f_back
    known = frame.f_globals
    warnings.warn_explicit(
        text, category, frame.f_code.co_filename, frame.f_lineno, known.get("__name__", "sys"),
        known.setdefault("__warningregistry__", {}),
    )  # fmt: skip
