"""Model text of other programs: lines with a key and values; errors name the line."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

#: Formats by the first word of the text.
READERS = {b"svm_type": "libsvm", b"solver_type": "liblinear"}
LARGEST = 2**31 - 1  # these programs have 32-bit integers


def format_of(path: str | os.PathLike[str]) -> str | None:
    """The format of a model text; None if the file is none."""
    with open(path, "rb") as file:
        words = file.read(64).split()
    return READERS.get(words[0]) if words else None


def number(value: Any) -> str:
    """The shortest text that reads back as the same float64."""
    return repr(float(value))


class Wrong(ValueError):
    """What is wrong with a line, as the rest of a sentence that begins with the line's number."""


class Header(dict[str, list[str]]):
    """The values of the keys above a model. Asking for a key that is not there refuses the text."""

    def __missing__(self, key: str) -> list[str]:
        raise Wrong(f"the lines above it lack {key!r}")

    def single(self, key: str) -> str:
        """The only value of a key."""
        if len(self[key]) != 1:
            raise Wrong(f"{key!r} must have one value, got {len(self[key])}")
        return self[key][0]

    def several(self, key: str, count: int) -> list[str]:
        """The values of a key, which must be so many."""
        if len(self[key]) != count:
            raise Wrong(f"{key!r} must have {count} values, got {len(self[key])}")
        return self[key]

    def integer(self, key: str, least: int = 0) -> int:
        """The only value of a key, a whole number."""
        return integer(self.single(key), key, least)


class Text:
    """The lines of a model text; an error within this context names the last line that was read."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.place = os.fspath(path), 0
        with open(path, "rb") as file:
            self.lines = file.read().split(b"\n")
        if self.lines[-1].strip() == b"":
            self.lines.pop()

    def __enter__(self) -> Text:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Wrong):
            raise ValueError(f"{self.path}, line {self.place}: {error}") from error

    def __iter__(self) -> Iterator[list[str]]:
        """The words of each remaining line."""
        while self.place < len(self.lines):
            line = self.lines[self.place]
            self.place += 1
            try:
                yield line.decode("ascii").split()
            except UnicodeDecodeError as error:
                raise Wrong(f"it is no text, but has the byte {line[error.start]:#04x}") from error

    def header(self, known: tuple[str, ...], last: str) -> Header:
        """The values of all keys before the line ``last``; refuses unknown and repeated keys."""
        found = Header()
        for words in self:
            if not words:
                raise Wrong("it is empty, where a key and its value should be")
            key, *values = words
            if key == last:
                return found
            if key not in known:
                raise Wrong(f"the key {key!r:.50} is none of {', '.join(known)}, {last}")
            if key in found:
                raise Wrong(f"the key {key!r} is there twice")
            if not values:
                raise Wrong(f"the key {key!r} has no value")
            found[key] = values
        raise Wrong(f"the file ends before {last!r}: it was cut off")


def real(word: str, name: str) -> float:
    """A finite number."""
    try:
        value = float(word)
    except ValueError as error:
        raise Wrong(f"{name} must be a number, got {word!r:.50}") from error
    if not math.isfinite(value) or "_" in word:
        raise Wrong(f"{name} must be a finite number, got {word!r:.50}")
    return value


def integer(word: str, name: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number in a range."""
    try:
        value = int(word)
    except ValueError as error:
        raise Wrong(f"{name} must be a whole number, got {word!r:.50}") from error
    if not least <= value <= most or "_" in word:
        raise Wrong(f"{name} must be from {least} to {most}, got {word!r:.50}")
    return value


def written_labels(classes: np.ndarray, program: str) -> list[str]:
    """Labels as 32-bit integers, as text; refuses other labels."""
    values = classes.tolist()
    odd = [v for v in values if not isinstance(v, (bool, int, float)) or v != int(v) or abs(v) > LARGEST]
    if odd:
        raise ValueError(
            f"{program} has labels that are whole numbers of 32 bits, and this model has {odd[0]!r}: train on numbers "
            "instead, for example those of LabelEncoder, or export to .npz or .onnx"
        )
    return [str(int(v)) for v in values]


def read_labels(words: list[str]) -> np.ndarray:
    """The labels of a file; refuses repeated ones."""
    found = [integer(word, "a label", -LARGEST - 1) for word in words]
    if len(set(found)) < len(found):
        raise Wrong("a label is there twice")
    return np.array(found)
