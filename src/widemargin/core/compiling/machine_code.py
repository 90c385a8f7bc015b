"""Where the machine code of loops is kept, under which name, and when it is out of date.

Each loop has one file for each kind of arguments: types, processor and version of Python. Numba's own cache has a list
of files instead, which two processes that write at the same time spoil. Here whole files are replaced at a stroke.

Numba's cache looks at the source of the loop alone. Here machine code is current while all sources of this package are
what they were, all sources of the packages of the user's classes among the arguments and of their cases, and the
versions of Numba, llvmlite and NumPy. What is out of date is removed when its successor is written; so is what no
process has asked for in :data:`UNUSED` days.

The folder is the first of these that can be written: ``NUMBA_CACHE_DIR``, beside the sources, the user's cache folder,
and a folder of the user's own among the temporary files. Code in the first two is read even where they cannot be
written, as in an image that was built by somebody else.
"""

import hashlib
import logging
import os
import pickle
import re
import stat
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import config, types

from ...warning import warn
from ..borrowing import CHECKED

PACKAGE = Path(__file__).parents[2]

#: Days after which machine code that no process asked for is removed.
UNUSED = 90

#: Sources that changed after this moment are not those that this process runs.
_BEGINNING = time.time()

#: All generic functions, for the cases of a user's class belong to the loops that are given it.
GENERICS: list[Any] = []

# ---------------------------------------------------------------- out of date or not


@cache
def _files(name: str) -> list[Path]:
    """The sources of a package, or of a module; none for a prompt, a notebook or the script that runs."""
    module: Any = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return []
    folders = getattr(module, "__path__", None)
    if folders is None:
        return [Path(spec.origin)] if spec.has_location else []
    return sorted(file for folder in folders for file in Path(folder).rglob("*.py"))


@cache
def _content(name: str) -> bytes:
    """A digest of the sources of a package or module."""
    texts = (file.name.encode() + hashlib.sha256(file.read_bytes()).digest() for file in _files(name))
    return hashlib.sha256(b"".join(texts)).digest()


def _digest(names: set[str]) -> str | None:
    """A name for all sources of a loop that is made of these modules, and for the compiler.

    None if a source is not known, or is not what this process has imported.
    """
    tops = {name: name.split(".")[0] for name in names | {"widemargin"}}
    roots = {top if hasattr(sys.modules.get(top), "__path__") else name for name, top in tops.items()}
    whole = hashlib.sha256(f"{numba.__version__} {version('llvmlite')} {np.__version__}".encode())
    for root in sorted(roots):
        try:
            found = [os.stat(file) for file in _files(root)]
            if not found or max(max(each.st_mtime, each.st_ctime) for each in found) > _BEGINNING:
                return None
            whole.update(root.encode() + _content(root))
        except OSError:
            return None
    return whole.hexdigest()[:16]


def _classes(kinds: Any) -> Iterator[type]:
    """The NamedTuple classes among the types of arguments."""
    for kind in kinds:
        if isinstance(kind, types.BaseNamedTuple):
            yield kind.instance_class
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind)
        elif isinstance(kind, types.Optional):
            yield from _classes([kind.type])


# ---------------------------------------------------------------- folders


class Folders(NamedTuple):
    """Where machine code is looked for, in this order, and where it is written."""

    read: list[Path]
    written: Path | None


@cache
def folders(chosen: str) -> Folders:
    """The folders of this process, where ``chosen`` is ``NUMBA_CACHE_DIR``; a warning if none can be written."""
    read: list[Path] = []
    for folder, is_shared in _candidates(chosen):
        if _can_be_written(folder):
            return Folders([*read, folder], folder)
        if is_shared and folder.is_dir():
            read.append(folder)
    warn(
        "widemargin finds no folder to keep machine code in, so every process compiles anew: set NUMBA_CACHE_DIR to "
        "a folder that can be written",
        RuntimeWarning,
    )
    return Folders(read, None)


def _candidates(chosen: str) -> Iterator[tuple[Path, bool]]:
    """Folders in order of preference, and whether what others wrote there is trusted, as the sources are."""
    own = "widemargin-" + hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:16]
    if chosen:
        yield Path(chosen) / own, True
    yield PACKAGE / "__pycache__" / "machine_code", True
    yield _users_cache() / own, False
    temporary = _temporary_folder(own)
    if temporary is not None:
        yield temporary, False


def _users_cache() -> Path:
    """The user's folder for what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")) / "numba" / "Cache"
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches/numba"))
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "numba"


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _temporary_folder(own: str) -> Path | None:
    """A folder that nobody else can write to, for machine code is run as it is found."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        folder = Path(tempfile.gettempdir()) / f"widemargin-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    mine = user == "user" or (found.st_uid == user and not found.st_mode & 0o022)
    return folder / own if stat.S_ISDIR(found.st_mode) and mine else None


# ---------------------------------------------------------------- the files of a loop


class Shelf:
    """The machine code of one loop on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._loop, self._module = f"{function.__module__}.{function.__qualname__}", function.__module__

    @property
    def folder(self) -> str | None:
        """The folder that is written."""
        folder = folders(config.CACHE_DIR).written
        return None if folder is None else str(folder)

    def _names(self, kinds: tuple[Any, ...], machine: Any) -> tuple[str, str, str] | None:
        """The kind in words, the beginning of the file's name, which says the kind, and its end, the sources."""
        classes = list(_classes(kinds))
        cases = [generic.table[cls] for generic in GENERICS for cls in classes if cls in generic.table]
        sources = _digest({self._module, *(each.__module__ for each in (*classes, *cases))})
        if sources is None:
            return None
        named = [f"{each.__module__}.{each.__qualname__}" for each in classes]
        made_with = (sys.implementation.cache_tag, config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT, CHECKED)
        words = repr((self._loop, kinds, named, machine, made_with))
        name = re.sub(r"[^\w.]", "", self._loop.removeprefix("widemargin."))
        return words, f"{name}-{hashlib.sha256(words.encode()).hexdigest()[:16]}", f"{sources}.nbc"

    def load(self, kinds: tuple[Any, ...], machine: Any, rebuilt: Callable[[bytes], Any]) -> Any:
        """What ``rebuilt`` makes of the bytes that are kept for arguments of these types and a machine, or None."""
        names = self._names(kinds, machine)
        if names is None:
            return None
        words, kind, sources = names
        for folder in folders(config.CACHE_DIR).read:
            file = folder / f"{kind}.{sources}"
            try:
                # whatever is wrong with a file, such as a class that cannot be imported, the loop can be compiled
                found, data = pickle.loads(file.read_bytes())
                result = rebuilt(data) if found == words else None
            except Exception:
                continue
            if result is not None and tuple(result.signature.args) == tuple(kinds):
                with suppress(OSError):
                    if time.time() - file.stat().st_mtime > 86400:
                        os.utime(file)  # asked for today
                return result
        return None

    def save(self, kinds: tuple[Any, ...], machine: Any, made: Callable[[], bytes]) -> None:
        """Keep the bytes that ``made`` returns for these types, and remove what they replace."""
        names, folder = self._names(kinds, machine), folders(config.CACHE_DIR).written
        if names is None or folder is None:
            return
        words, kind, sources = names
        file, unfinished = folder / f"{kind}.{sources}", folder / f"{uuid.uuid4().hex}.unfinished"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(pickle.dumps((words, made())))
            os.replace(unfinished, file)
        except (OSError, RuntimeError) as failure:  # no room, or a library without an object to keep
            _remove([unfinished])
            _say_that_it_is_lost(folder, str(failure))
        else:
            _remove(each for each in folder.glob(f"{kind}.*") if each.name != file.name)
            _remove_unused(folder)


@cache
def _say_that_it_is_lost(folder: Path, why: str) -> None:
    logging.getLogger("widemargin").warning(
        "widemargin cannot keep machine code in %s (%s), so that other processes compile it again: make room there, or "
        "set NUMBA_CACHE_DIR to another folder",
        folder,
        why,
    )


@cache
def _remove_unused(folder: Path) -> None:
    """Remove what no process has asked for in many days, once in a process."""
    for file in folder.iterdir():
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > UNUSED * 86400:
                file.unlink()


def _remove(files: Any) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink()
