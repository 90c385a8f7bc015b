"""LIBSVM text: ``label index:value index:value …``, a line for each example.

One compiled loop parses a block of lines; several threads parse several blocks. At a line that it cannot take the loop
returns. Python reads that line again, finds a number that the loop could not round, or says what is wrong, and calls
the loop for the next line.

Accepted: blanks and tabs, Windows line ends, a last line without a line end, empty lines, ``# comments`` up to the end
of a line, ``qid:n`` after the label, indices that are not sorted. Refused with a sentence each: several labels, a
repeated index, numbers that are not finite or too large for the type, and all other lines.
"""

from __future__ import annotations

import codecs
import math
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arguments import one_of, threads, whole
from ..core.borrowing import borrow
from ..core.compiling.dispatch import compiled, inlined
from ..core.rows.rows import checked_sparse
from .chunks import COPIES, MAX_MEMORY, MIXED, ChunkedSource, Gathered, Piece, Summary
from .decimals import number
from .lines import blocks, compression_of, name_of, reading, writing

#: Bytes of text that are parsed at a time. Larger blocks take more memory; smaller ones cost a call each.
BLOCK = 2**20
#: The largest index: with 0 as the first, features are still counted by int32.
LARGEST = 2**31 - 2
#: Blocks that would fill ``max_memory``: a parsed block takes up to twenty times the bytes of its text, and several
#: blocks are in memory at a time.
OF_TEXT = 256
#: Sentences about bad lines that ``faults`` keeps.
NOTED = 256

#: A part of a line or the sign that ends it, a number, and the number of a query, as Python reads them.
PART, NUMBER = re.compile(rb"[^\s#]+|#"), re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
QUERY = re.compile(rb"qid:(-?0*\d{1,18})")

#: Bytes that the parser looks for.
LINE_END, HASH, MINUS, COLON = b"\n#-:"
ZERO, NINE = b"09"


class Parsed(NamedTuple):
    """Arrays for :func:`parse`: row r has the entries ends[r] to ends[r + 1] and stood on line[r] of the text."""

    data: np.ndarray
    indices: np.ndarray
    ends: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    line: np.ndarray


def room_for(size: int, dtype: Any) -> Parsed:
    """Arrays for a text of ``size`` bytes: an entry has at least four bytes, a row two."""
    entries, rows = size // 4 + 1, size // 2 + 1
    return Parsed(
        np.empty(entries, dtype), np.empty(entries, np.int32), np.zeros(rows + 1, np.int64), np.empty(rows),
        np.empty(rows, np.int64), np.empty(rows, np.int32),
    )  # fmt: skip


@inlined
def is_blank(c):
    """Whether a byte separates the parts of a line."""
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


@inlined
def ends(c):
    """Whether a part of a line ends before this byte."""
    return c in (LINE_END, HASH) or is_blank(c)


@inlined
def after_blanks(text, pos):
    """The next position that holds no blank."""
    while is_blank(text[pos]):
        pos += 1
    return pos


@inlined
def integer(text, pos):
    """(position after the digits, their value, at most 10¹⁸)."""
    value, c = 0, text[pos]
    while ZERO <= c <= NINE:
        if value < 10**17:
            value = 10 * value + (c - ZERO)
        else:
            value = 10**18
        pos += 1
        c = text[pos]
    return pos, value


@inlined
def example(text, pos, least, most, parsed, row):
    """Read the example on a line into ``parsed``, in place: (position where it ends, whether it is a good row)."""
    pos, parsed.y[row], good = number(text, pos)
    good = good and ends(text[pos])
    parsed.qid[row], k, pos = 0, parsed.ends[row], after_blanks(text, pos)
    if good and text[pos] == 113 and text[pos + 1] == 105 and text[pos + 2] == 100 and text[pos + 3] == COLON:  # "qid:"
        pos += 4
        sign = -1 if text[pos] == MINUS else 1
        pos += text[pos] == MINUS
        start = pos
        pos, value = integer(text, pos)
        parsed.qid[row], good = sign * value, pos > start and ends(text[pos]) and value < 10**18
        pos = after_blanks(text, pos)
    while good and not ends(text[pos]):
        start = pos
        pos, index = integer(text, pos)
        good = text[pos] == COLON and pos > start and least <= index <= most
        if good:
            pos, value, known = number(text, pos + 1)
            parsed.data[k], parsed.indices[k] = value, index
            good = known and ends(text[pos]) and not np.isinf(parsed.data[k])  # it may be too large for float32
            pos, k = after_blanks(text, pos), k + 1
    parsed.ends[row + 1] = k
    return pos, good


@compiled
def parse(text, pos, line, row, least, most, parsed):
    """Parse lines of a text from a position on, in place, until it ends or a line needs Python.

    The text ends with a line end; ``line`` and ``row`` are the next ones; indices go from ``least`` to ``most``.
    Returns (position, line and row to go on from, position where the last line begins if Python must read it, else −1).
    """
    text, parsed = borrow(text), borrow(parsed)
    odd = -1
    while pos < text.size and odd < 0:
        pos = after_blanks(text, pos)
        if not ends(text[pos]):
            begin = pos
            pos, good = example(text, pos, least, most, parsed, row)
            if good:
                parsed.line[row] = line
                row += 1
            else:
                odd = begin
        while text[pos] != LINE_END:
            pos += 1
        pos, line = pos + 1, line + 1
    return pos, line, row, odd


class Limits(NamedTuple):
    """The least and largest index that a line may have, and the number of features if it is known."""

    least: int
    most: int
    n_features: int | None


def as_number(text: bytes) -> float:
    """The number that a text stands for; NaN if it is none, and infinite if it is too large."""
    return float(text) if NUMBER.fullmatch(text) else math.nan


def read_slowly(text: bytes, row: int, limits: Limits, parsed: Parsed) -> str:
    """Read the example on a line into ``parsed``, in place, as :func:`example` does; returns what is wrong, or ""."""
    parts = takewhile(lambda part: part != b"#", (found[0] for found in PART.finditer(text)))
    label = next(parts)
    parsed.y[row], parsed.qid[row], k = as_number(label), 0, parsed.ends[row]
    if not math.isfinite(parsed.y[row]):
        begins, told = NUMBER.match(label), _shortened(label)
        if begins and label[begins.end() :].startswith(b","):
            return f"has several labels ({told!r}): give one label for each line (data with many labels is not taken)"
        if begins or label.lstrip(b"+-").startswith(b":"):
            return f"has the label {told!r}, which is no finite number: number the labels"
        return f"begins with {told!r}, which is no number: the label comes first"
    for place, part in enumerate(parts):
        told = _shortened(part)
        if place == 0 and part.startswith(b"qid:"):
            query = QUERY.fullmatch(part)
            if query is None:
                return f"has {told!r}, which is no qid:number"
            parsed.qid[row] = int(query[1])
            continue
        digits, colon, value = part.partition(b":")
        if not colon or (digits and not digits.isdigit()):
            return f"has {told!r} where index:value should be"
        if not digits:
            return f"has {told!r}, whose index is no integer ≥ 0"
        index = float(digits)
        if index < limits.least:
            return (
                f"has the index 0 ({told!r}), and indices begin with 1 here: give zero_based=True if they begin with 0"
            )
        if index > LARGEST:
            return f"has {told!r}, whose index is beyond {LARGEST}: hash the features into fewer"
        if index > limits.most:
            return f"has {told!r}, whose index is beyond n_features={limits.n_features}"
        with np.errstate(over="ignore"):
            parsed.data[k], parsed.indices[k] = as_number(value), index
        if np.isnan(parsed.data[k]):
            return f"has {told!r}, whose value is no finite number"
        if np.isinf(parsed.data[k]):
            return f"has {told!r}, whose value is too large for {parsed.data.dtype}"
        k += 1
    parsed.ends[row + 1] = k
    return ""


def _shortened(part: bytes) -> str:
    """A part of a line for a sentence, cut where it is long."""
    told = part[:60].decode("utf-8", "backslashreplace")
    return told if len(told) <= 40 else told[:40] + "…"


class Found(NamedTuple):
    """What a block of text holds: rows over the arrays of ``room``, the number of lines, and faults by line."""

    X: sp.csr_matrix
    y: np.ndarray
    qid: np.ndarray
    lines: int
    faults: dict[int, str]
    room: Parsed


def _repeated(X: sp.csr_matrix) -> Iterator[tuple[int, int]]:
    """(row, index) of indices that stand twice in a row; sorts the entries of all rows, in place."""
    X.sort_indices()
    same = np.flatnonzero(X.indices[1:] == X.indices[:-1])
    rows = np.searchsorted(X.indptr, same, "right") - 1
    inside = X.indptr[rows + 1] > same + 1
    yield from zip(rows[inside].tolist(), X.indices[same[inside]].tolist())


class LibsvmText(ChunkedSource):
    """A file of LIBSVM text, see :func:`open_data`."""

    def __init__(
        self,
        path: str | os.PathLike[str] | BinaryIO,
        *,
        n_features: int | None = None,
        zero_based: bool | str = "auto",
        query_id: bool = False,
        on_bad_line: str = "raise",
        dtype: Any = np.float64,
        n_jobs: int | None = None,
        max_memory: Any = MAX_MEMORY,
    ) -> None:
        super().__init__(max_memory)
        self.path, self.name = path, name_of(path)
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        if n_features is not None:
            whole("n_features", n_features)
        if zero_based not in (True, False, "auto"):
            raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")
        one_of("on_bad_line", on_bad_line, ("raise", "skip"))
        self.n_features, self.zero_based, self.query_id = n_features, zero_based, query_id
        self.on_bad_line, self.threads = on_bad_line, threads(n_jobs)
        self.again = not hasattr(path, "read") or (hasattr(path, "seekable") and path.seekable())
        self._begin = path.tell() if self.again and hasattr(path, "tell") else 0
        self._least = self._most = -1  # the indices seen
        self._known: Limits | None = None  # the features, once they are known

    # -- parts: byte ranges of a file that is not compressed

    def _parts(self) -> list[Any]:
        if hasattr(self.path, "read"):
            return [None]
        size = os.stat(self.path).st_size
        count = int(size // max(BLOCK, self.max_memory / (COPIES * 2 * MIXED)))
        if count < 2:
            return [None]
        with open(self.path, "rb") as file:
            if compression_of(file):
                return [None]
            cuts = [0]
            for k in range(1, count):
                file.seek(k * size // count)
                while (line := file.readline(BLOCK)) and not line.endswith(b"\n"):
                    pass
                if file.tell() > cuts[-1]:
                    cuts.append(file.tell())
        return [slice(*each) for each in pairwise([*cuts, size])]

    def _in_order(self) -> list[Any]:
        return [None]

    def _blocks(self, part: slice | None) -> Iterator[tuple[np.ndarray, float]]:
        """Yield (block of text, share of the file read so far)."""
        if hasattr(self.path, "seek") and self.again:
            self.path.seek(self._begin)  # type: ignore[union-attr]
        size = os.stat(self.path).st_size if not hasattr(self.path, "read") else 0  # type: ignore[arg-type]
        with reading(self.path) as (file, raw):
            left = None
            if part is not None:  # of a plain file
                file.seek(part.start)
                left = part.stop - part.start
            try:
                # blocks are small beside the whole text, and beside a chunk
                least, most = BLOCK // 1024, self.max_memory // (OF_TEXT * self.threads)
                block_size = max(1, min(BLOCK, max(BLOCK // 16, (size or BLOCK * 16) // 16), max(least, most)))
                begins = part is None or part.start == 0
                for block in blocks(file, block_size, left):
                    if begins and block[:3].tobytes() == codecs.BOM_UTF8:
                        block = block[3:]
                    begins = False
                    yield block, min(1.0, raw.tell() / size) if size else np.nan
            except ValueError as bad:
                raise ValueError(f"{self.name}: {bad}") from bad

    # -- parsing

    def _limits(self) -> Limits:
        if self._known is not None:  # the file may have changed since they were found
            return self._known
        least = 1 if self.zero_based is False else 0
        if self.n_features is None:
            return Limits(least, LARGEST, None)
        # "auto" knows only at the end whether indices begin with 0
        return Limits(least, self.n_features - (self.zero_based is True), self.n_features)

    def _parse(self, text: np.ndarray, free: list[Parsed]) -> Found:
        """Parse a block of text into arrays of ``free``, or new ones. Whoever is done with ``room`` puts it back."""
        limits, parsed = self._limits(), None
        with suppress(IndexError):  # there is none left, or another thread takes the last one
            parsed = free.pop()
        if parsed is None or parsed.line.size < text.size // 2 + 1:
            parsed = room_for(text.size, self.dtype)
        faults: dict[int, str] = {}
        pos = line = row = 0
        while pos < text.size:
            pos, line, row, odd = parse(text, pos, line, row, limits.least, limits.most, parsed)
            if odd >= 0:
                wrong = read_slowly(text[odd:pos].tobytes(), row, limits, parsed)
                if wrong:
                    faults[line - 1] = wrong
                else:
                    parsed.line[row] = line - 1
                    row += 1
        stored = slice(parsed.ends[row])
        X = sp.csr_matrix((parsed.data[stored], parsed.indices[stored], parsed.ends[: row + 1]), (row, LARGEST + 1))
        y, qid = parsed.y[:row], parsed.qid[:row]
        if not X.has_canonical_format:
            good = np.ones(row, bool)
            for k, index in _repeated(X):
                good[k] = False
                faults[int(parsed.line[k])] = f"has a feature twice (at '{index}:'): give each once"
            if not good.all():
                X, y, qid = X[good], y[good], qid[good]
        return Found(X, y, qid, line, faults, parsed)

    def _found(self, part: Any) -> Iterator[tuple[Found, float]]:
        """Yield (parsed block, share of the file read so far) in order; several threads parse some blocks ahead."""
        free: list[Parsed] = []
        if self.threads == 1:
            for text, share in self._blocks(part):
                found = self._parse(text, free)
                yield found, share
                free.append(found.room)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            waiting: deque = deque()

            def results(most: int) -> Iterator[tuple[Found, float]]:
                while len(waiting) > most:
                    job, share = waiting.popleft()
                    found = job.result()
                    yield found, share
                    free.append(found.room)

            for text, share in self._blocks(part):
                waiting.append((pool.submit(self._parse, text, free), share))
                # a short block takes memory too
                ahead = self.max_memory // (OF_TEXT // 2 * max(text.size, BLOCK // 256))
                yield from results(min(2 * self.threads - 1, ahead))
            yield from results(0)

    def _pieces(self, part: slice | None) -> Iterator[tuple[Piece, float]]:
        # the lines before the part are counted only when a fault must be told
        line, before = 0, 0 if part is None or part.start == 0 else -1
        for found, share in self._found(part):
            for inside, said in sorted(found.faults.items()):
                if self.on_bad_line == "raise" or len(self.faults) < NOTED:
                    before = self._lines_before(part) if before < 0 else before
                    where = f"line {before + line + inside + 1}"
                    if self.on_bad_line == "raise":
                        raise ValueError(f"{self.name}, {where} {said} (on_bad_line='skip' leaves such lines out)")
                    self.faults.append(f"{where} {said}")
                self.skipped += 1
            line += found.lines
            if found.X.nnz:
                least = int(found.X.indices.min())
                self._least = least if self._least < 0 else min(self._least, least)
                self._most = max(self._most, int(found.X.indices.max()))
            yield self._piece(found), share

    def _lines_before(self, part: Any) -> int:
        """The number of lines before a part."""
        before, left = 0, part.start
        with open(self.path, "rb") as file:  # type: ignore[arg-type]
            while left > 0:
                read = file.read(min(left, BLOCK))
                before, left = before + read.count(b"\n"), left - len(read)
        return before

    def _piece(self, found: Found) -> Piece:
        X, offset, width = found.X, 0, max(self._most, 0) + 1
        if self._known is not None:  # a chunk, whose features are known
            offset, width = self._known.least, self._known.most + 1 - self._known.least
            X.indices -= offset
        X = sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], width))
        return Piece(X, found.y, found.qid if self.query_id else None)

    def _first_index(self) -> int:
        """The first index, 0 or 1."""
        if self.zero_based == "auto":
            return 0 if self._least == 0 else 1
        return 0 if self.zero_based else 1

    def _seen_width(self, width: int) -> int:
        offset = self._first_index()
        seen = self._most + 1 - offset
        if self.n_features is None:
            return max(seen, 1)
        if seen > self.n_features:
            raise ValueError(
                f"{self.name} has the index {self._most}, with indices from 0 on, beyond n_features={self.n_features}"
            )
        return self.n_features

    def _width(self) -> int | None:
        if self._known is None:
            if self.n_features is None or (self.zero_based == "auto" and self.again):
                self.summary()
            width = int(self.n_features or 0) if self._summary is None else self._seen_width(0)
            first = self._first_index()
            self._known = Limits(first, first + width - 1, width)
        return self._known.n_features

    def summary(self) -> Summary:
        """Count rows, features and labels in one pass; see :meth:`ChunkedSource.summary`."""
        if self._summary is None:
            self._known, self._least, self._most = None, -1, -1
        return super().summary()

    def load(self) -> tuple:
        """Return all examples, (X, y), with X in CSR; see :meth:`ChunkedSource.load`."""
        self._known, self._least, self._most = None, -1, -1
        return super().load()

    def like(self) -> dict[str, Any]:
        """Whether indices begin with 0, judged by what was read."""
        return {"zero_based": self._first_index() == 0}

    def _whole(self, gathered: Gathered) -> Piece:
        return gathered.take(self._seen_width(0), self._first_index())


# ---------------------------------------------------------------- writing


def text_of(X: sp.csr_matrix, y: np.ndarray, qid: np.ndarray, first: int) -> bytes:
    """Rows as lines of LIBSVM text; ``first`` is added to the indices, and an empty qid is left out.

    A line is put together of texts that stand once for all equal numbers.
    """
    heads = [f"\n{label}" for label in _shortest(y)]
    if qid.size:
        heads = [f"{head} qid:{query}" for head, query in zip(heads, qid.tolist())]
    indices, index = np.unique(X.indices, return_inverse=True)
    names = np.array([f" {k + first}:" for k in indices.tolist()], object)[index]
    pairs = np.stack([names, _shortest(X.data)], axis=1).ravel()
    parts = np.insert(pairs, 2 * (X.indptr[:-1] - X.indptr[0]), np.array(heads, object))
    return ("".join(parts)[1:] + "\n").encode()


def _shortest(numbers: np.ndarray) -> np.ndarray:
    """The shortest texts that are read as the same numbers, 1 instead of 1.0, as an array of objects."""
    different, place = np.unique(numbers, return_inverse=True)
    texts = map(str, different if numbers.dtype == np.float32 else different.tolist())
    return np.array([text.removesuffix(".0") for text in texts], object)[place]


def lines_of(X: Any, y: Any, qid: Any, first: int) -> Iterator[bytes]:
    """Yield examples as LIBSVM text, some lines at a time; ``first`` is added to the indices."""
    X = checked_sparse(X)
    X = sp.csr_matrix(X) if not sp.issparse(X) or X.format != "csr" else X
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    most = int(X.indices.max(initial=0)) + first
    if most > LARGEST:
        raise ValueError(
            f"X has the index {most}, and LIBSVM text has them up to {LARGEST}: hash the features into fewer"
        )
    y = np.asarray(y)
    y = y.astype(np.int64) if y.dtype.kind == "b" else y
    if y.dtype.kind not in "biuf" or y.shape != (X.shape[0],):
        raise ValueError(
            f"y must hold a number for each of {X.shape[0]} rows in LIBSVM text, got {y.dtype} of shape {y.shape}: "
            "number the labels, or write CSV or Parquet"
        )
    for name, values in (("X", X.data), ("y", y)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite in LIBSVM text, got {values[~np.isfinite(values)][0]}")
    qid = np.empty(0, np.int64) if qid is None else np.ascontiguousarray(qid, np.int64)
    step = max(1, int(BLOCK / max(1.0, X.nnz / max(1, X.shape[0])) / 8))
    for start in range(0, X.shape[0], step):
        some = slice(start, start + step)
        yield text_of(X[some], y[some], qid[some], first)


def write_libsvm(path: str | os.PathLike[str], pieces: Iterable[tuple], *, zero_based: bool = False) -> None:
    """Write (X, y) or (X, y, qid), one after the other, as LIBSVM text; see :func:`write_data`."""
    with writing(path) as file:
        for piece in pieces:
            X, y, qid = piece if len(piece) > 2 else (*piece, None)
            file.writelines(lines_of(X, y, qid, 0 if zero_based else 1))
