"""Errors and warnings of the library in the words of the command line: ``--max-iter`` for ``max_iter``.

The library's sentences name arguments as Python does, and :func:`spoken` turns their names into flags. A name is an
argument if it

- is followed by a value, or by nothing: ``categories='onehot'``, ``target=``;
- has an underscore, or is one of a few words that mean nothing else: ``max_iter``, ``tol``;
- begins a rule, or is to be changed: ``budget must be``, ``target is for``, ``raise C``.

Texts in quotes and calls with brackets stay as they are.

>>> spoken("the column 'tol' is text: give categories='onehot', or raise max_iter", {"categories", "max_iter", "tol"})
"the column 'tol' is text: give --categories onehot, or raise --max-iter"
"""

from __future__ import annotations

import re
from collections.abc import Collection
from inspect import Parameter
from typing import Any

#: Words without an underscore that are always names of arguments.
PLAIN = ("coef0", "dtype", "gamma", "gammas", "lam", "tol")
#: The words for the arguments X and y, in rules about them.
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
    """A sentence with flags instead of the names of these options."""

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
