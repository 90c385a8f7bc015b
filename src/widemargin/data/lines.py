"""Files of text lines, compressed or not, read in blocks that end with a line.

>>> import io
>>> [bytes(block).decode() for block in blocks(io.BytesIO(b"1 2:3" + bytes([10]) + b"0"), 4)]
['1 2:3\\n', '0\\n']
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..files import replacing

#: The first bytes of compressed files.
MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00", "zst": b"\x28\xb5\x2f\xfd"}
#: Errors of the decompressors on damaged files. Their OSErrors have no ``errno``; those of a failing disk have one.
DAMAGE = EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, OSError
#: The most bytes that a line may have.
LONGEST = 2**30


def compression_of(file: BinaryIO) -> str:
    """How a file is compressed, by its first bytes: "gz", "bz2", "xz", "zst" or "". Does not move in the file."""
    start = file.peek(6)[:6] if hasattr(file, "peek") else b""
    return next((name for name, magic in MAGIC.items() if start.startswith(magic)), "")


def _zstd() -> Any:
    for name in ("compression.zstd", "zstandard"):
        try:
            return import_module(name)
        except ImportError:
            pass
    raise ImportError("reading and writing .zst needs the package zstandard: pip install 'widemargin[files]'")


def _opened(file: Any, how: str, mode: Any) -> Any:
    """Open a compressed file over its bytes."""
    if how == "gz":
        return gzip.GzipFile(fileobj=file, mode=mode, **({"compresslevel": 6, "mtime": 0} if mode == "wb" else {}))
    if how == "bz2":
        return bz2.BZ2File(file, mode)
    if how == "xz":
        return lzma.LZMAFile(file, mode)
    zstd = _zstd()
    if zstd.__name__ == "zstandard" and mode == "rb":
        return io.BufferedReader(_Frames(file, zstd))
    return zstd.open(file, mode, **({"closefd": False} if zstd.__name__ == "zstandard" else {}))


class _Frames(io.RawIOBase):
    """The frames of a zstd file, one after the other. A cut file is an EOFError; ``zstandard`` would not notice it."""

    def __init__(self, file: Any, zstd: Any) -> None:
        self.file, self.zstd, self.ready = file, zstd, b""
        self.frame: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            packed = b"" if self.frame is None else self.frame.unused_data
            packed = packed or self.file.read(2**17)
            if not packed:
                if self.frame is not None and not self.frame.eof:
                    raise EOFError("the file ends within a frame")
                return 0
            if self.frame is None or self.frame.eof:
                self.frame = self.zstd.ZstdDecompressor().decompressobj()
            self.ready = self.frame.decompress(packed)
        size = min(len(self.ready), len(buffer))
        buffer[:size], self.ready = self.ready[:size], self.ready[size:]
        return size


@contextmanager
def reading(path: str | os.PathLike[str] | BinaryIO) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file: (its decompressed bytes, its raw bytes, whose position says how much was read).

    A file that is open already stays open. A compressed file that is damaged or cut is a ValueError that names it.
    """
    given = hasattr(path, "read")
    raw: Any = path if given else open(os.fspath(path), "rb")  # type: ignore[arg-type]  # noqa: SIM115
    if isinstance(raw, io.TextIOBase):
        if not hasattr(raw, "buffer"):
            raise TypeError(f"{name_of(path)} is open as text: open it with mode 'rb'")
        raw = raw.buffer
    wrapped = not hasattr(raw, "peek")
    if wrapped:
        raw = io.BufferedReader(raw)
    try:
        how = compression_of(raw)
        try:
            yield _opened(raw, how, "rb") if how else raw, raw
        except Exception as bad:
            of_zstd = type(bad).__module__ in ("zstd", "compression.zstd", "_zstd")
            if how and (of_zstd or (isinstance(bad, DAMAGE) and getattr(bad, "errno", None) is None)):
                raise ValueError(f"{name_of(path)} is damaged or cut off ({how}): {bad}") from bad
            raise
    finally:
        if not given:
            raw.close()
        elif wrapped:
            raw.detach()


def name_of(path: Any) -> str:
    """The name of a file for sentences."""
    if hasattr(path, "read"):
        return str(getattr(path, "name", "") or "the data")
    return os.fspath(path)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing, compressed as its suffix says. It replaces the old file when it is complete."""
    how = Path(path).suffix[1:] if Path(path).suffix[1:] in MAGIC else ""
    with replacing(path) as raw:
        file: Any = _opened(raw, how, "wb") if how else raw
        yield file
        if how:
            file.close()


def blocks(file: BinaryIO, size: int, left: int | None = None) -> Iterator[np.ndarray]:
    """Yield the bytes of a file in blocks of about ``size`` that end with a line end; a last line without one gets it.

    ``left`` is the number of bytes to read, if that is not the whole file.
    """
    rest = b""
    while True:
        want = size if left is None else min(size, left)
        read = file.read(want) if want else b""
        if left is not None:
            left -= len(read)
        if not read:
            if rest:
                yield np.frombuffer(rest + b"\n", np.uint8)
            return
        end = read.rfind(b"\n") + 1
        if end == 0:
            rest += read
            size = min(2 * size, LONGEST)
            if len(rest) > LONGEST:
                raise ValueError(f"a line is longer than {LONGEST} bytes: this is no text of examples")
            continue
        block = rest + read[:end] if rest else read[:end] if end < len(read) else read
        rest = read[end:]
        yield np.frombuffer(block, np.uint8)
