"""Coverage-guided fuzzing of the parser of LIBSVM text; not a part of the suite.

    python tests/fuzz/fuzz_data.py --minutes 10 --seed 0

Texts are changed at random. The compiled loop cannot be followed, but its source can: it is interpreted under
``sys.settrace``, and a text with which it runs a line, or goes from one line to another, as none did before is kept and
changed further. Each text is also parsed by the compiled loop, in small blocks and by threads, and what is found must
be what a plain reader finds: the same rows, labels, queries and bad lines.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
sys.path.insert(0, str(Path(__file__).parent))

from fuzz_files import change_bytes, change_words
from test_libsvm import slowly

from widemargin.data import decimals, libsvm
from widemargin.data.libsvm import LibsvmText, parse, room_for

SEEDS = [
    b"+1 1:0.5 3:2 # c\n-1 2:1e-3\r\n",
    b"1 qid:7 1:1 2:2\n0 qid:-3 5:1.5e10\n",
    b"2.5 3:3 1:1 2:2\n\n# x:y\n-0 7:-.5e-300\n",
    b"1 1:12345678901234567890.123 2:1e400 3:4.9e-324\n1 1:9007199254740993 2:0.1\n",
    b"1,2 1:1\nx 1:1\n1 1\n1 a:1\n1 1:\n1 0:1\n1 3000000000:1\n1 1:1 1:2\n1 2:1 1:1 2:2\nnan 1:1\n",
    b"1 1:1.00000000000000011102230246251565404236316680908203125\n",
]
WATCHED = (libsvm.__file__, decimals.__file__)


class Text(list):
    """Bytes as Python's own integers, whose arithmetic is that of the compiled loop."""

    @property
    def size(self):
        return len(self)


def lines_of(text: bytes) -> set:
    """The steps from line to line that the loop takes over a text, interpreted."""
    seen: set = set()
    last = [0]

    def trace(frame, event, value):
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line":
            here = (frame.f_code.co_filename == libsvm.__file__, frame.f_lineno)
            seen.add((last[0], here))
            last[0] = here
        return trace

    array = np.frombuffer(text + (b"" if text.endswith(b"\n") else b"\n"), np.uint8)
    parsed = room_for(array.size, np.float64)
    borrow, libsvm.borrow = libsvm.borrow, lambda value: value  # which only compiled code knows
    sys.settrace(trace)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            pos = line = row = 0
            while pos < array.size:
                pos, line, row, *_ = parse.py_func(Text(array.tolist()), pos, line, row, 0, libsvm.LARGEST, parsed)
    finally:
        sys.settrace(None)
        libsvm.borrow = borrow
    return seen


def check(text: bytes, block: int, n_jobs: int) -> None:
    """What the library finds is what a plain reader finds."""
    plain = text.replace(b"\x0b", b" ").replace(b"\x0c", b" ").replace(b"\x1c", b"?").replace(b"\x1d", b"?")
    plain = plain.replace(b"\x1e", b"?").replace(b"\x1f", b"?").replace(b"\x85", b"?").replace(b"\xa0", b"?")
    rows, labels, queries, bad = slowly(plain.decode("latin-1"))
    libsvm.BLOCK = block
    opened = LibsvmText(io.BytesIO(text), on_bad_line="skip", zero_based=True, query_id=True, n_jobs=n_jobs)
    try:
        X, y, qid = opened.load()
    except ValueError as told:
        if "holds no examples" not in str(told) or rows:
            raise AssertionError(told) from told
        y = qid = np.empty(0)
        X = None
    finally:
        libsvm.BLOCK = 2**20
    assert [int(line.split()[1]) for line in opened.faults] == bad[: libsvm.NOTED], (opened.faults, bad)
    assert y.tolist() == labels, (y, labels)
    assert qid.tolist() == queries
    for r, row in enumerate(rows):
        got = dict(zip(X[r].indices.tolist(), X[r].data.tolist()))
        assert got == row, (got, row)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    corpus, seen, tried, slowest = list(SEEDS), set(), 0, 0.0
    for text in corpus:
        check(text, 64, 1)
        seen |= lines_of(text)
    while time.process_time() < 60.0 * asked.minutes:
        text = corpus[int(rng.integers(len(corpus)))]
        for _ in range(int(rng.integers(1, 5))):
            text = (change_bytes if rng.random() < 0.5 else change_words)(text, rng) if text else b"1 1:1"
        text = text[:2000]
        since = time.process_time()
        try:
            check(text, int(rng.integers(4, 300)), 1 + int(rng.random() < 0.05))
        except BaseException:
            print(f"FOUND, seed {asked.seed}, text {tried}: {text!r}", flush=True)
            raise
        slowest = max(slowest, time.process_time() - since)
        tried += 1
        new = lines_of(text) - seen if tried % 2 else set()
        if new:
            seen |= new
            corpus.append(text)
    print(f"{tried} texts, {len(corpus)} kept, {len(seen)} steps of the loop, slowest {slowest:.2f} s: nothing found")


if __name__ == "__main__":
    main()
