"""LIBSVM text: ``label index:value index:value …``, a line for each example.

A block of lines is parsed by one compiled loop, blocks by several threads. What a line says wrongly is noted, with its
place, and the loop goes on with the next line; whether that is an error is decided outside.

Taken: blanks and tabs, Windows line ends, no line end at the end, empty lines, ``# comments`` to the end of a line,
``qid:n`` after the label, indices that are not sorted. Not taken, each with a sentence: several labels, a repeated
index, numbers that are not finite or beyond the type, and whatever else is no such line.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..arguments import one_of, threads, whole
from ..core.borrowing import borrow
from ..core.dispatch import compiled, inlined
from ..core.rows import checked_sparse
from .chunks import COPIES, MAX_MEMORY, MIXED, ChunkedSource, Gathered, Piece, Summary
from .decimals import HARD, LARGE, NO_NUMBER, number
from .lines import blocks, compression_of, name_of, reading, writing

#: Bytes of text that are parsed at a time, and the largest index.
BLOCK, LARGEST = 2**20, 2**31 - 2
#: Blocks of text that are as large as the memory there is; what is found in one takes up to twenty times its bytes.
OF_TEXT = 256
#: Bad lines, and numbers for Python, that are noted in one call.
NOTED = 256

#: What can be wrong with a line.
(
    FINE, NO_LABEL, BAD_LABEL, SEVERAL, BAD_PAIR, BAD_INDEX, ZERO_INDEX, LARGE_INDEX, BAD_VALUE, LARGE_VALUE, BAD_QID,
    REPEATED, BEYOND,
) = range(13)  # fmt: skip

SAID = {
    NO_LABEL: "begins with {0!r}, which is no number: the label comes first",
    BAD_LABEL: "has the label {0!r}, which is no finite number: number the labels",
    SEVERAL: "has several labels ({0!r}): give one label for each line (data with many labels is not taken)",
    BAD_PAIR: "has {0!r} where index:value should be",
    BAD_INDEX: "has {0!r}, whose index is no integer ≥ 0",
    ZERO_INDEX: "has the index 0 ({0!r}), and indices begin with 1 here: give zero_based=True if they begin with 0",
    LARGE_INDEX: f"has {{0!r}}, whose index is beyond {LARGEST}: hash the features into fewer",
    BAD_VALUE: "has {0!r}, whose value is no finite number",
    LARGE_VALUE: "has {0!r}, whose value is too large for {1}",
    BAD_QID: "has {0!r}, which is no qid:number",
    REPEATED: "has a feature twice (at {0!r}): give each once",
    BEYOND: "has {0!r}, whose index is beyond n_features={2}",
}  # fmt: skip

#: Places in ``Parsed.numbers``: rows, entries, lines, bad lines, numbers for Python, the smallest and largest index,
#: whether a row is not sorted, whether there was a qid.
ROWS, ENTRIES, LINES, BAD, HARDS, LEAST, MOST, UNSORTED, QUERIES = range(9)


class Parsed(NamedTuple):
    """Room for what is found in a block of text: see :func:`parse`."""

    data: np.ndarray
    indices: np.ndarray
    ends: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    line: np.ndarray
    bad: np.ndarray
    hard: np.ndarray
    numbers: np.ndarray


def room_for(size: int, dtype: Any) -> Parsed:
    """Room for a text of so many bytes: an entry has four at least, a row two."""
    entries, rows = size // 4 + 1, size // 2 + 1
    return Parsed(
        np.empty(entries, dtype), np.empty(entries, np.int32), np.zeros(rows + 1, np.int64), np.empty(rows),
        np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty((NOTED, 3), np.int64),
        np.empty((NOTED, 2), np.int64), np.zeros(9, np.int64),
    )  # fmt: skip


@inlined
def is_blank(c):
    """Whether a byte stands between things on a line."""
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


@inlined
def ends(c):
    """Whether a thing on a line ends before this byte."""
    return is_blank(c) or c == 10 or c == 35


@inlined
def integer(text, pos):
    """(where the digits at a place end, their value, at most 10¹⁸)."""
    value, c = 0, text[pos]
    while 48 <= c <= 57:
        if value < 10**17:
            value = 10 * value + (c - 48)
        else:
            value = 10**18
        pos += 1
        c = text[pos]
    return pos, value


@inlined
def head(text, pos, parsed, row):
    """The label at a place, and a qid: (where they end, FINE or what is wrong, where that stands, whether the label is
    for Python to read).
    """
    begin = pos
    pos, label, status = number(text, pos)
    c = text[pos]
    if c == 44 and status != NO_NUMBER:
        return pos, SEVERAL, begin, False
    if status == NO_NUMBER or not ends(c):
        return pos, BAD_LABEL if c == 58 or status != NO_NUMBER else NO_LABEL, begin, False
    if status == LARGE:
        return pos, BAD_LABEL, begin, False
    parsed.y[row], parsed.qid[row] = label, 0
    while is_blank(c):
        pos += 1
        c = text[pos]
    if c == 113 and text[pos + 1] == 105 and text[pos + 2] == 100 and text[pos + 3] == 58:
        begin, pos = pos, pos + 4
        sign = -1 if text[pos] == 45 else 1
        pos += text[pos] == 45
        start = pos
        pos, value = integer(text, pos)
        if pos == start or not ends(text[pos]) or value >= 10**18:
            return pos, BAD_QID, begin, False
        parsed.qid[row] = sign * value
        parsed.numbers[QUERIES] = 1
    return pos, FINE, begin, status == HARD


@inlined
def pair(text, pos, least, most):
    """index:value at a place: (where it ends, FINE or what is wrong, index, value, whether that is for Python)."""
    start, c = pos, text[pos]
    pos, index = integer(text, pos)
    c = text[pos]
    if c != 58:
        return pos, BAD_PAIR, 0, 0.0, False
    if pos == start:
        return pos, BAD_INDEX, 0, 0.0, False
    if index < least:
        return pos, ZERO_INDEX, 0, 0.0, False
    if index > most:
        return pos, LARGE_INDEX if index > LARGEST else BEYOND, 0, 0.0, False
    pos, value, status = number(text, pos + 1)
    if status == NO_NUMBER or not ends(text[pos]):
        return pos, BAD_VALUE, 0, 0.0, False
    return pos, LARGE_VALUE if status == LARGE else FINE, index, value, status == HARD


@compiled
def parse(text, pos, least, most, parsed):
    """Parse lines of a text that ends with a line end, from a place on; returns the place it has come to.

    Row r of the result has the entries from ends[r] to ends[r + 1], and stood on line[r] of the text, lines counted
    from 0. Line bad[k, 0] has the fault bad[k, 1] at bad[k, 2], and is no row. The number at hard[k, 0] is entry
    hard[k, 1] and not known yet, or the label of row −1 − hard[k, 1]. Indices go from ``least`` to ``most``. It stops
    before the end only where there is no room for more of the last two.
    """
    text, parsed = borrow(text), borrow(parsed)
    data, indices, numbers = parsed.data, parsed.indices, parsed.numbers
    k, row, line, lowest, highest = numbers[ENTRIES], numbers[ROWS], numbers[LINES], numbers[LEAST], numbers[MOST]
    while pos < text.size:
        begin, known = pos, numbers[HARDS]
        c = text[pos]
        while is_blank(c):
            pos += 1
            c = text[pos]
        fault, at, full = FINE, pos, False
        if c != 10 and c != 35:
            pos, fault, at, later = head(text, pos, parsed, row)
            if later:
                full = full or numbers[HARDS] == NOTED
                if not full:
                    parsed.hard[numbers[HARDS], 0], parsed.hard[numbers[HARDS], 1] = at, -1 - row
                    numbers[HARDS] += 1
            last, unsorted, small, large = -1, False, lowest, highest
            while fault == FINE and not full:
                c = text[pos]
                while is_blank(c):
                    pos += 1
                    c = text[pos]
                if c == 10 or c == 35:
                    break
                at = pos
                pos, fault, index, value, later = pair(text, pos, least, most)
                if later:
                    full = numbers[HARDS] == NOTED
                    if not full:
                        parsed.hard[numbers[HARDS], 0], parsed.hard[numbers[HARDS], 1] = at, k
                        numbers[HARDS] += 1
                data[k] = value
                if np.isinf(data[k]) and fault == FINE:
                    fault = LARGE_VALUE
                indices[k] = index
                if index == last and fault == FINE:
                    fault = REPEATED
                unsorted = unsorted or index < last
                last, small, large = index, min(small, index), max(large, index)
                k += 1
            if fault == FINE and not full:
                lowest, highest = small, large
                parsed.line[row] = line
                row += 1
                parsed.ends[row] = k
                if unsorted:
                    numbers[UNSORTED] = 1
            elif not full:
                full = numbers[BAD] == NOTED
                if not full:
                    parsed.bad[numbers[BAD], 0], parsed.bad[numbers[BAD], 1] = line, fault
                    parsed.bad[numbers[BAD], 2] = at
                    numbers[BAD] += 1
                k, numbers[HARDS] = parsed.ends[row], known
        if full:
            k, numbers[HARDS], pos = parsed.ends[row], known, begin
            break
        while text[pos] != 10:
            pos += 1
        pos += 1
        line += 1
    numbers[ENTRIES], numbers[ROWS], numbers[LINES], numbers[LEAST], numbers[MOST] = k, row, line, lowest, highest
    return pos


def _token(text: np.ndarray, at: int) -> str:
    """The thing at a place of a text, cut where it is long."""
    found = bytes(text[at : at + 60]).split(b"\n")[0].split()
    told = (found[0] if found else b"").decode("utf-8", "backslashreplace")
    return told if len(told) <= 40 else told[:40] + "…"


class Found(NamedTuple):
    """What a block holds: its rows, their least and largest index, lines, and faults as (line, sentence)."""

    data: np.ndarray
    indices: np.ndarray
    ends: np.ndarray
    y: np.ndarray
    qid: np.ndarray | None
    least: int
    most: int
    lines: int
    faults: list[tuple[int, str]]
    size: int


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
        self._widths: tuple[int, int] | None = None

    # -- parts: byte ranges of a plain file

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
        return [*zip(cuts, [*cuts[1:], size])]

    def _in_order(self) -> list[Any]:
        return [None]

    def _blocks(self, part: tuple[int, int] | None) -> Iterator[tuple[np.ndarray, float]]:
        """Blocks of text, and the share of the file that they end at."""
        if hasattr(self.path, "seek") and self.again:
            self.path.seek(self._begin)  # type: ignore[union-attr]
        size = os.stat(self.path).st_size if not hasattr(self.path, "read") else 0  # type: ignore[arg-type]
        with reading(self.path) as (file, raw):
            left = None
            if part is not None:  # of a plain file
                file.seek(part[0])
                left = part[1] - part[0]
            try:
                # small beside the result, and beside a chunk
                least, most = BLOCK // 1024, self.max_memory // (OF_TEXT * self.threads)
                block_size = max(1, min(BLOCK, max(BLOCK // 16, (size or BLOCK * 16) // 16), max(least, most)))
                begins = part is None or part[0] == 0
                for block in blocks(file, block_size, left):
                    if begins and block[:3].tobytes() == codecs.BOM_UTF8:
                        block = block[3:]
                    begins = False
                    yield block, min(1.0, raw.tell() / size) if size else np.nan
            except ValueError as bad:
                raise ValueError(f"{self.name}: {bad}") from bad

    # -- parsing

    def _limits(self) -> tuple[int, int]:
        """The least and largest index that a line may have."""
        if self._widths is not None:  # whatever has become of the file since they were found
            return self._widths[0], self._widths[0] + self._widths[1] - 1
        least = 1 if self.zero_based is False else 0
        if self.n_features is None:
            return least, LARGEST
        # with "auto" it is known at the end only whether indices begin with 0
        return least, self.n_features - (self.zero_based is True)

    def _parse(self, text: np.ndarray, room: list[Parsed]) -> Found:
        """What a block of text holds; arrays over memory from ``room``, to which the caller gives it back."""
        least, most = self._limits()
        known = self.n_features if self._widths is None else self._widths[1]
        parsed = room.pop() if room else room_for(text.size, self.dtype)
        if parsed.line.size < text.size // 2 + 1:
            parsed = room_for(text.size, self.dtype)
        numbers, pos, faults, wrong = parsed.numbers, 0, [], []
        numbers[:] = 0
        numbers[LEAST], numbers[MOST] = LARGEST, -1
        while pos < text.size:
            pos = int(parse(text, pos, least, most, parsed))
            for line, fault, at in parsed.bad[: numbers[BAD]].tolist():
                faults.append((line, SAID[fault].format(_token(text, at), self.dtype, known)))
            for at, place in parsed.hard[: numbers[HARDS]].tolist():
                if not self._read_hard(text, at, place, parsed):
                    row = (
                        -1 - place
                        if place < 0
                        else int(np.searchsorted(parsed.ends[: numbers[ROWS] + 1], place, "right")) - 1
                    )
                    wrong.append(row)
                    said = SAID[BAD_LABEL if place < 0 else LARGE_VALUE]
                    faults.append((int(parsed.line[row]), said.format(_token(text, at), self.dtype)))
            numbers[BAD] = numbers[HARDS] = 0
        rows, entries = int(numbers[ROWS]), int(numbers[ENTRIES])
        data, indices, ends_ = parsed.data[:entries], parsed.indices[:entries], parsed.ends[: rows + 1]
        y, qid = parsed.y[:rows], parsed.qid[:rows]
        if numbers[UNSORTED]:
            wrong += self._sort(data, indices, ends_, parsed, faults)
        if wrong:
            good = np.ones(rows, bool)
            good[wrong] = False
            kept = sp.csr_matrix((data, indices, ends_), (rows, LARGEST))[good]
            data, indices, ends_ = kept.data, kept.indices, kept.indptr
            y, qid = y[good], qid[good]
        room.append(parsed)
        faults.sort()
        return Found(
            data, indices, ends_, y, qid if numbers[QUERIES] else None, int(numbers[LEAST]), int(numbers[MOST]),
            int(numbers[LINES]), faults, text.size,
        )  # fmt: skip

    def _read_hard(self, text: np.ndarray, at: int, place: int, parsed: Parsed) -> bool:
        """Put a number in its place that the compiled loop could not decide; False if it is beyond the type."""
        size, found = 64, None
        while found is None:  # a number may have any length
            found = re.search(rb"[\s#]", text[at : at + size].tobytes())
            size *= 8
        token = text[at : at + found.start()].tobytes()
        if place < 0:
            parsed.y[-1 - place] = value = float(token)
        else:
            with np.errstate(over="ignore"):
                parsed.data[place] = value = self.dtype.type(float(token.partition(b":")[2]))
        return bool(np.isfinite(value))

    @staticmethod
    def _sort(data: np.ndarray, indices: np.ndarray, ends_: np.ndarray, parsed: Parsed, faults: list) -> list[int]:
        """Sort the entries of rows, in place; rows that have one twice."""
        X = sp.csr_matrix((data, indices, ends_), (ends_.size - 1, LARGEST + 1))
        X.has_sorted_indices = False
        X.sort_indices()
        data[:], indices[:] = X.data, X.indices
        same = np.flatnonzero(indices[1:] == indices[:-1])
        rows = np.searchsorted(ends_, same, "right") - 1
        twice = ends_[rows + 1] > same + 1
        found = dict(zip(rows[twice].tolist(), same[twice].tolist()))
        for row, place in found.items():
            faults.append((int(parsed.line[row]), SAID[REPEATED].format(f"{indices[place]}:")))
        return list(found)

    def _found(self, part: Any) -> Iterator[tuple[Found, float]]:
        """What blocks hold, in their order; parsed by several threads, some blocks ahead."""
        room: list[Parsed] = []
        if self.threads == 1:
            for text, share in self._blocks(part):
                found = self._parse(text, room)
                taken = room.pop()
                yield found, share
                room.append(taken)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            waiting: deque = deque()

            def parse_apart(text: np.ndarray) -> tuple[Found, Parsed]:
                mine: list[Parsed] = []
                with suppress(IndexError):  # another thread may have taken the last one
                    mine.append(room.pop())
                return self._parse(text, mine), mine[0]

            def results(most: int) -> Iterator[tuple[Found, float]]:
                while len(waiting) > most:
                    job, share = waiting.popleft()
                    found, taken = job.result()
                    yield found, share
                    room.append(taken)

            for text, share in self._blocks(part):
                waiting.append((pool.submit(parse_apart, text), share))
                # a short text takes room too
                ahead = self.max_memory // (OF_TEXT // 2 * max(text.size, BLOCK // 256))
                yield from results(min(2 * self.threads - 1, ahead))
            yield from results(0)

    def _pieces(self, part: tuple[int, int] | None) -> Iterator[tuple[Piece, float]]:
        line, before = 0, 0 if part is None or part[0] == 0 else -1  # lines before the part, counted when asked for
        for found, share in self._found(part):
            for inside, said in found.faults:
                if self.on_bad_line == "raise" or len(self.faults) < NOTED:
                    before = self._lines_before(part) if before < 0 else before
                    where = f"line {before + line + inside + 1}"
                    if self.on_bad_line == "raise":
                        raise ValueError(f"{self.name}, {where} {said} (on_bad_line='skip' leaves such lines out)")
                    self.faults.append(f"{where} {said}")
                self.skipped += 1
            line += found.lines
            if found.most >= 0:
                self._least = found.least if self._least < 0 else min(self._least, found.least)
                self._most = max(self._most, found.most)
            yield self._piece(found), share

    def _lines_before(self, part: Any) -> int:
        """Lines of the file before a part."""
        before, left = 0, part[0]
        with open(self.path, "rb") as file:  # type: ignore[arg-type]
            while left > 0:
                read = file.read(min(left, BLOCK))
                before, left = before + read.count(b"\n"), left - len(read)
        return before

    def _piece(self, found: Found) -> Piece:
        offset, width = 0, max(found.most, 0) + 1
        if self._widths is not None:  # chunks, whose width and first index are known
            offset, width = self._widths
            found.indices.__isub__(offset)
        X = sp.csr_matrix((found.data, found.indices, found.ends), (found.y.size, width))
        qid = found.qid
        if self.query_id and qid is None:
            qid = np.zeros(found.y.size, np.int64)
        return Piece(X, found.y, qid if self.query_id else None)

    def _first_index(self) -> int:
        """0 or 1: what indices begin with."""
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
        if self._widths is None:
            if self.n_features is None or (self.zero_based == "auto" and self.again):
                self.summary()
            offset = self._first_index()
            self._widths = offset, self._seen_width(0) if self._summary is not None else int(self.n_features)  # type: ignore[arg-type]
        return self._widths[1]

    def summary(self) -> Summary:
        """Look through all of it, once: rows, features, labels."""
        if self._summary is None:
            self._widths = None
            self._least = self._most = -1
        return super().summary()

    def load(self) -> tuple:
        """All of it, (X, y), in memory once; X is CSR."""
        self._widths, self._least, self._most = None, -1, -1
        return super().load()

    def like(self) -> dict[str, Any]:
        """Whether indices begin with 0, as far as what was read tells."""
        return {"zero_based": self._first_index() == 0}

    def _whole(self, gathered: Gathered) -> Piece:
        width = self._seen_width(0)
        return gathered.take(width, self._first_index())


# ---------------------------------------------------------------- writing


@inlined
def put_integer(out, pos, value):
    """Write digits, in place; returns where they end."""
    size, rest = 1, value // 10
    while rest > 0:
        size, rest = size + 1, rest // 10
    for k in range(pos + size - 1, pos - 1, -1):
        out[k] = 48 + value % 10
        value //= 10
    return pos + size


@inlined
def put_text(out, pos, pool, begin, end):
    """Write a text of the pool, in place; returns where it ends."""
    for k in range(begin, end):
        out[pos + k - begin] = pool[k]
    return pos + end - begin


@compiled
def write_rows(ends, indices, first, value, label, qid, pool, begin, end, out):
    """Lines of LIBSVM text of some rows, in place; returns how many bytes. ``value`` and ``label`` are numbers of texts
    in the pool, from ``begin`` to ``end``; ``first`` is added to indices, and an empty qid is none.
    """
    ends, indices, value, label, pool = borrow(ends), borrow(indices), borrow(value), borrow(label), borrow(pool)
    qid, begin, end, out, pos = borrow(qid), borrow(begin), borrow(end), borrow(out), 0
    for r in range(label.size):
        pos = put_text(out, pos, pool, begin[label[r]], end[label[r]])
        if qid.size:
            for c in b" qid:":
                out[pos] = c
                pos += 1
            if qid[r] < 0:
                out[pos] = 45
                pos += 1
            pos = put_integer(out, pos, abs(qid[r]))
        for k in range(ends[r] - ends[0], ends[r + 1] - ends[0]):
            out[pos] = 32
            pos = put_integer(out, pos + 1, np.int64(indices[k]) + first)
            out[pos] = 58
            pos = put_text(out, pos + 1, pool, begin[value[k]], end[value[k]])
        out[pos] = 10
        pos += 1
    return pos


def _texts(*numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(bytes, begins, ends) of numbers as the shortest texts that give them back."""
    told = (map(str, each) if each.dtype == np.float32 else map(repr, each.tolist()) for each in numbers)
    pool = np.frombuffer("".join(f"{text}\n" for each in told for text in each).encode(), np.uint8)
    end = np.flatnonzero(pool == 10)
    begin = np.concatenate([[0], end[:-1] + 1])
    whole_ones = (end >= begin + 3) & (pool[end - 1] == 48) & (pool[end - 2] == 46)
    return pool, begin, end - 2 * whole_ones


class LibsvmWriter:
    """Writes pieces to an open file as LIBSVM text."""

    def __init__(self, file: BinaryIO, zero_based: bool = False) -> None:
        self.file, self.first = file, 0 if zero_based else 1

    def write(self, X: Any, y: Any, qid: Any = None) -> None:
        """Append examples."""
        X = checked_sparse(X)
        X = sp.csr_matrix(X) if not sp.issparse(X) or X.format != "csr" else X
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if X.nnz and int(X.indices.max()) + self.first > LARGEST:
            raise ValueError(
                f"X has the index {int(X.indices.max()) + self.first}, and LIBSVM text has them up to {LARGEST}: hash "
                "the features into fewer"
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
            some = slice(start, min(start + step, X.shape[0]))
            self._write_some(X[some], y[some], qid[some])

    def _write_some(self, X: Any, y: np.ndarray, qid: np.ndarray) -> None:
        values, value = X.data, np.arange(X.nnz)
        if np.unique(values[:4096]).size < min(values.size, 4096) // 2:  # many are the same
            values, value = np.unique(values, return_inverse=True)
        labels, label = np.unique(y, return_inverse=True)
        pool, begin, end = _texts(values, labels)
        label = label + values.size
        room = int((end - begin)[value].sum() + (end - begin)[label].sum()) + 13 * X.nnz + 32 * y.size
        out = np.empty(room, np.uint8)
        size = write_rows(X.indptr.astype(np.int64), X.indices, self.first, value, label, qid, pool, begin, end, out)
        self.file.write(out[:size].data)


def write_libsvm(path: str | os.PathLike[str], pieces: Iterable[tuple], *, zero_based: bool = False) -> None:
    """Write (X, y) or (X, y, qid), one after the other, as LIBSVM text; see :func:`write_data`."""
    with writing(Path(path)) as file:
        writer = LibsvmWriter(file, zero_based)
        for piece in pieces:
            writer.write(*piece)
