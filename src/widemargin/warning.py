"""Warnings that name the line of the user's program that caused them."""

from __future__ import annotations

import sys
import warnings

#: Packages whose lines are not the user's: this one, and those between the user's program and this one.
PASSED = frozenset({"widemargin", "sklearn", "joblib", "numba", "contextlib", "threadpoolctl"})


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside the packages in ``PASSED``; if there is none, at the outermost line."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in PASSED:
        frame = frame.f_back
    known = frame.f_globals
    warnings.warn_explicit(
        text, category, frame.f_code.co_filename, frame.f_lineno, known.get("__name__", "sys"),
        known.setdefault("__warningregistry__", {}),
    )  # fmt: skip
