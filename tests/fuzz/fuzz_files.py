"""Coverage-guided fuzzing of everything that reads model files; not a part of the suite.

    python tests/fuzz/fuzz_files.py --minutes 10 --seed 0

Files that were written whole are changed at random: bytes and words, whole lines, entries of the archive, the JSON tree
of a header (whose checksum is then made right again, so that what lies behind it is reached), types and shapes of
arrays. A change that makes the readers run lines that no earlier one did is kept and changed further. A file must be
read, or refused with a ValueError that names it, in little memory and time; what was read and is a model must predict,
or refuse to, without a crash. Lines are followed by ``sys.settrace`` in the files of this library alone.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import sys
import tempfile
import time
import warnings
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np

import widemargin
from widemargin import files

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOME = str(Path(widemargin.__file__).parent)
#: Files whose lines guide the search.
WATCHED = tuple(os.path.join(HOME, name) for name in ("files.py", "models.py", "formats", "estimators/fit/saving.py"))
#: What a value of a header is changed into.
ODD = [
    None, True, -1, 0, 3, 2**31, 2**63, 10**40, 1e308, "x", "", [], {}, [[]], {"float": "nan"}, {"float": "1e999"},
    {"scalar": "<f8", "value": 1}, {"scalar": "V9", "value": 10**12}, {"tuple": [1, 2]}, {"dict": [[1, 2]]},
    {"array": "header"}, {"objects": [1, "a"], "shape": [2]}, {"objects": [], "shape": [0, 10**12]},
    {"class": "LinearModel", "parts": {}}, {"class": "CSRRows", "parts": {}}, {"random": "x"},
    {"class": "SVC", "parts": {"parameters": {"dict": []}, "fitted": {"dict": []}}},
    {"csr": "csr_matrix", "shape": [1, 1]},
]  # fmt: skip
WORDS = (
    b"0|1|-1|nan|inf|1e999|1e308|99999999999|:|1:1|2147483647:1|SV|w|label|rho|nr_sv|total_sv|\n|\n\n| |\0|\xff".split(
        b"|"
    )
)
#: Bytes of address space, of which compiled libraries take one or two GiB.
MOST_MEMORY = 6 * 2**30
TYPES = ["<f8", ">f8", "<f4", "<i4", "<i8", "|b1", "<U3", "<c16", "|S2", "<M8[s]"]


def seeds() -> list[bytes]:
    """Whole files of all formats."""
    found = [path.read_bytes() for path in sorted(FIXTURES.glob("peers/*.lib*"))]
    npz = [*sorted((FIXTURES / "format2").glob("*.npz")), *sorted((FIXTURES / "v0.1").glob("*.npz"))]
    for path in npz:
        if ".expected" in path.name:
            continue
        found.append(path.read_bytes())
        model = widemargin.load(path)
        for state in (True, False) if hasattr(model, "predict") else ():
            with tempfile.TemporaryDirectory() as folder:
                model.save(os.path.join(folder, "model.npz"), state=state)
                found.append(Path(folder, "model.npz").read_bytes())
    return found


# ---------------------------------------------------------------- changes


def change_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes replaced, cut out, doubled, or a word put in."""
    content, at = bytearray(content), int(rng.integers(len(content) + 1))
    kind, size = int(rng.integers(5)), int(2 ** rng.integers(0, 10))
    if kind == 0:
        content[at : at + 1] = bytes([int(rng.integers(256))])
    elif kind == 1:
        del content[at : at + size]
    elif kind == 2:
        content[at:at] = content[at : at + size]
    elif kind == 3:
        content[at : at + int(rng.integers(4))] = WORDS[int(rng.integers(len(WORDS)))]
    else:
        content[at : at + 4] = int(rng.choice([0, 1, 0xFFFF, 2**31 - 1, 2**32 - 1])).to_bytes(4, "little")
    return bytes(content)


def change_words(content: bytes, rng: np.random.Generator) -> bytes:
    """A word or a line of a text replaced, doubled or moved."""
    lines = content.split(b"\n")
    at = int(rng.integers(len(lines)))
    kind = int(rng.integers(4))
    if kind == 0:
        lines.insert(int(rng.integers(len(lines) + 1)), lines[at])
    elif kind == 1:
        lines.insert(int(rng.integers(len(lines))), lines.pop(at))
    elif words := lines[at].split(b" "):
        words[int(rng.integers(len(words)))] = WORDS[int(rng.integers(len(WORDS)))]
        lines[at] = b" ".join(words)
    return b"\n".join(lines)


def change_tree(tree: object, rng: np.random.Generator) -> object:
    """A tree of JSON with one value replaced, dropped or put elsewhere."""
    if rng.random() < 0.15 or not isinstance(tree, (dict, list)) or not tree:
        return ODD[int(rng.integers(len(ODD)))]
    if isinstance(tree, list):
        at, found = int(rng.integers(len(tree))), list(tree)
        if rng.random() < 0.1:
            del found[at]
        else:
            found[at] = change_tree(tree[at], rng)
        return found
    key, found = list(tree)[int(rng.integers(len(tree)))], dict(tree)
    if rng.random() < 0.1:
        del found[key]
    elif rng.random() < 0.1:
        found[key] = found[list(tree)[int(rng.integers(len(tree)))]]
    else:
        found[key] = change_tree(tree[key], rng)
    return found


def change_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An array of another type, shape, or with an odd value."""
    kind = int(rng.integers(5))
    if kind == 0:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return array.astype(TYPES[int(rng.integers(len(TYPES)))])
    if kind == 1:
        return array.reshape(-1)
    if kind == 2:
        return array[: int(rng.integers(len(array) + 1))] if array.ndim else array
    if kind == 3:
        return np.asfortranarray(array.T)
    found = array.copy()
    if found.size and found.dtype.kind in "biuf":
        odd = [0, 1, 7, 127] if found.dtype.kind in ("b", "u") else [-1, 0, 1, 7, 2**31 - 1]
        odd += [np.nan, np.inf, 1e300] if found.dtype.kind == "f" else []
        with np.errstate(all="ignore"):
            found.reshape(-1)[int(rng.integers(found.size))] = odd[int(rng.integers(len(odd)))]
    return found


def change_archive(content: bytes, rng: np.random.Generator) -> bytes:
    """The header or an array of an archive changed, with a checksum that is right again."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        arrays = {name: np.load(BytesIO(archive.read(name)), allow_pickle=False) for name in archive.namelist()}
    written = arrays.pop("header.npy")
    header = json.loads(bytes(written).decode() if written.dtype == np.uint8 else str(written))
    arrays = {name.removesuffix(".npy"): array for name, array in arrays.items()}
    for _ in range(int(rng.integers(1, 4))):
        if arrays and rng.random() < 0.5:
            name = list(arrays)[int(rng.integers(len(arrays)))]
            arrays[name] = change_array(arrays[name], rng)
        elif isinstance(header, dict):
            header = change_tree(header, rng)
    if not isinstance(header, dict):
        return content[: len(content) // 2]
    header.pop("checksum", None)
    with tempfile.TemporaryDirectory() as folder:
        files.write_npz(os.path.join(folder, "x.npz"), header, **arrays)
        return Path(folder, "x.npz").read_bytes()


def changed(content: bytes, rng: np.random.Generator) -> bytes:
    """A file with some change."""
    if content[:2] == b"PK" and rng.random() < 0.8:
        try:
            return change_archive(content, rng)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, zipfile.BadZipFile):
            pass
    elif content[:2] != b"PK" and rng.random() < 0.6:
        return change_words(content, rng)
    return change_bytes(content, rng)


# ---------------------------------------------------------------- the search


class Lines:
    """The lines that are run of the files that are watched."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int, int]] = set()
        self.new = 0

    def trace(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(WATCHED):
            return None
        last = [frame.f_lineno]

        def local(frame, event, argument):
            if event == "line":
                edge = frame.f_code.co_filename, last[0], frame.f_lineno
                last[0] = frame.f_lineno
                if edge not in self.seen:
                    self.seen.add(edge)
                    self.new += 1
            return local

        return local


def used(model: object) -> None:
    """Predict with what was read; only sentences may be raised, by whoever finds the parts odd."""
    rows = getattr(model, "n_features_in_", None)
    if not hasattr(model, "predict") or not isinstance(rows, int) or not 0 < rows < 1000:
        return
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.predict(np.ones((3, rows)))
        except Exception as error:
            USED[type(error).__name__] = USED.get(type(error).__name__, 0) + 1


USED: dict[str, int] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--predict", action="store_true", help="also predict with what was read")
    parser.add_argument("--keep", default="", help="folder for files that fail")
    asked = parser.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))  # beyond it is a MemoryError, and a finding
    rng, lines = np.random.default_rng(asked.seed), Lines()
    corpus = seeds()
    folder = Path(asked.keep or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fuzzed.file"
    read = refused = 0
    findings: dict[str, int] = {}
    longest, most, started, said = 0.0, 0, time.process_time(), 0.0
    ready = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while time.process_time() - started < 60.0 * asked.minutes:
        content = changed(corpus[int(rng.integers(len(corpus)))], rng)
        path.write_bytes(content)
        lines.new, clock = 0, time.process_time()
        sys.settrace(lines.trace)
        model = None
        try:
            model = widemargin.load(path)
            read += 1
        except ValueError as error:
            refused += 1
            if path.name not in str(error):
                findings[f"unnamed: {error}"] = findings.get(f"unnamed: {error}", 0) + 1
        except Exception as error:
            name = f"{type(error).__name__}: {error}"
            if name not in findings:
                (folder / f"finding_{len(findings)}").write_bytes(content)
            findings[name] = findings.get(name, 0) + 1
        finally:
            sys.settrace(None)
        longest = max(longest, time.process_time() - clock)
        if asked.predict and model is not None:
            used(model)
        if lines.new and len(content) < 2**20:
            corpus.append(content)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if time.process_time() - said > 60.0:
            said = time.process_time()
            print(
                f"{said - started:.0f} s: {read} read, {refused} refused, corpus {len(corpus)}, edges {len(lines.seen)}"
            )
    print(
        f"{time.process_time() - started:.0f} processor seconds: {read} read, {refused} refused, {len(corpus)} files "
        f"kept, {len(lines.seen)} steps between lines; the longest took {longest:.2f} s, memory grew by "
        f"{(most - ready) / 1024:.0f} MiB; predictions raised {USED}"
    )
    for finding, count in findings.items():
        print(f"  {count} times {finding:.300}")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
