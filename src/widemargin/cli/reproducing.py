"""``widemargin reproduce`` and ``widemargin bench``: experiments, which only a checkout of the repository has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import widemargin

from .options import argument, option, with_options

#: A file that shows that a folder is a checkout.
FRAME = Path("benchmarks") / "papers" / "frame.py"

OPTIONS = [
    option("quick", bool, False, "A short trial, which leaves the repository's results alone."),
    option("again", bool, False, "Run what was finished, too."),
]


def checkout() -> Path:
    """The checkout that this code is in, or else the working directory."""
    for root in (Path(widemargin.__file__).parent.parent.parent, Path.cwd()):
        if (root / FRAME).exists():
            return root
    raise ValueError("the experiments are not installed with the package: run this from a checkout of the repository")


def _frame(name: str) -> Any:
    """A module of the checkout's experiments."""
    root = str(checkout())
    if root not in sys.path:
        sys.path.insert(0, root)
    return import_module(f"benchmarks.{name}.frame")


@contextmanager
def _that_goes_on() -> Iterator[None]:
    """After Ctrl-C, say that finished experiments are kept."""
    try:
        yield
    except KeyboardInterrupt:
        print("stopped: what is finished is kept, and the same command goes on from there", file=sys.stderr)
        raise


@with_options([argument("papers", list[str], "pegasos, simba, sbp, bsgd, incremental, or all.")], OPTIONS)
def reproduce(**given: Any) -> None:
    """Run the papers' experiments again, from a checkout.

    A page sets what came out beside the papers. $WIDEMARGIN_DATA names the folder of benchmark data.

    widemargin reproduce pegasos --quick
    widemargin reproduce all
    """
    with _that_goes_on():
        print(_frame("papers").reproduce(given["papers"], given["quick"], given["again"]))


@with_options(
    [
        argument("pages", list[str], "peers, auto, scaling, or all, which is the default.", None),
        option("idle", bool, False, "Nobody else uses the machine: measure threads, too."),
    ],
    OPTIONS,
)
def bench(**given: Any) -> None:
    """Measure this library beside others, from a checkout.

    The pages docs/measurements/peers.md, docs/measurements/auto.md and docs/measurements/scaling.md are what came out.

    widemargin bench --quick
    widemargin bench peers
    """
    with _that_goes_on():
        pages = _frame("peers").bench(given["pages"] or ["all"], given["quick"], given["again"], given["idle"])
    print("\n".join(map(str, pages)))
