"""The library's sentences in the words of the command line: ``--max-iter`` for ``max_iter``, ``--tol 0`` for ``tol=0``.

Sentences of the library name an argument as Python does. This is the one place that turns such names into flags, in
errors and in warnings alike. A name is an argument where it

- is followed by a value, or by nothing: ``categories='onehot'``, ``target=``;
- has an underscore, or is one of a few words that mean nothing else: ``max_iter``, ``tol``;
- begins what must be so, or is to be changed: ``budget must be``, ``target is for``, ``raise C``.

What stands in quotes is somebody's own text, and what has brackets is Python's: both are left alone.

>>> spoken("the column 'tol' is text: give categories='onehot', or raise max_iter", {"categories", "max_iter", "tol"})
"the column 'tol' is text: give --categories onehot, or raise --max-iter"
"""

from __future__ import annotations

import re
from collections.abc import Collection
from inspect import Parameter
from typing import Any

#: Words without an underscore that are names of arguments wherever they stand.
PLAIN = ("coef0", "dtype", "gamma", "gammas", "lam", "tol")
#: What Python calls the examples, where they must be something.
EXAMPLES = {"X": "the data", "y": "the target"}

QUOTED = r"""(?<!\w)'[^']*'|"[^"]*\""""
CALL = r"[A-Za-z_][\w.]*\((?:[^()]|\([^()]*\))*\)"
VALUE = rf"{QUOTED}|{CALL}|-?[\w.+]*\w|"
PARTS = re.compile(
    rf"(?P<kept>{QUOTED}|{CALL})"
    rf"|(?<![\w./-])(?P<name>[A-Za-z]\w*)=(?P<value>{VALUE})"
    r"|(?<![\w./-])(?:Input )?(?P<examples>[Xy])(?= must | holds | contains )"
    r"|(?:^|(?<=: )|(?<=; ))(?P<first>[A-Za-z]\w*)(?= (?:must|is for|is no option) )"
    r"|(?<=raise )(?P<raised>[A-Za-z]\w*)|(?<=lower )(?P<lowered>[A-Za-z]\w*)"
    r"|(?<![\w./-])(?P<word>[A-Za-z]\w*)(?![\w/=(]|\.\w)"
)


def flag_of(name: str) -> str:
    """The flag of an option."""
    return "--" + name.strip("_").replace("_", "-")


def spoken(text: str, names: Collection[str]) -> str:
    """A sentence of the library with the flags of these options instead of their names in Python."""

    def told(part: re.Match[str]) -> str:
        if part["kept"]:
            return part[0]
        if part["examples"]:
            return EXAMPLES[part["examples"]]
        name = part["name"] or part["first"] or part["raised"] or part["lowered"] or part["word"]
        if name == "stop_reason_":
            return f"stop_reason: {part['value']}"
        if name not in names or (part["word"] and "_" not in name and name not in PLAIN):
            return part[0]
        flag, value = flag_of(name), part["value"]
        if value in ("True", "False"):
            return flag if value == "True" else f"--no-{flag[2:]}"
        if value == "None":
            return f"no {flag}"
        if not value:
            return flag
        return f"{flag} '{value}'" if "(" in value else f"{flag} {value.strip(chr(39))}"

    return PARTS.sub(told, text)


def options_of(function: Any) -> list[str]:
    """The names of the options of a command."""
    return [p.name for p in function.__signature__.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
