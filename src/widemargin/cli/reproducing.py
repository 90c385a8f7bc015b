"""``widemargin reproduce``: the papers' tables and figures again, from a checkout, where the experiments are."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from .options import TEXTS, argument, option, with_options

#: What a checkout has and an installed package has not.
FRAME = Path("benchmarks") / "papers" / "frame.py"


def checkout() -> Path:
    """The checkout that this code is in, or else the working directory."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        if (root / FRAME).exists():
            return root
    raise ValueError(
        "the papers' experiments are not installed with the package: run this from a checkout of the repository"
    )


@with_options(
    [
        argument("papers", TEXTS, "pegasos, simba, sbp, bsgd, incremental, or all."),
        option("quick", bool, False, "A short trial, which leaves the repository's results alone.", None, "--quick"),
        option("again", bool, False, "Run what was finished, too.", None, "--again"),
    ]
)
def reproduce(**given: Any) -> None:
    """Run the papers' experiments again, from a checkout.

    A page sets what came out beside the papers.

    widemargin reproduce pegasos --quick
    widemargin reproduce all
    """
    root = str(checkout())
    if root not in sys.path:
        sys.path.insert(0, root)
    frame = import_module("benchmarks.papers.frame")
    print(frame.reproduce(given["papers"], given["quick"], given["again"]))
