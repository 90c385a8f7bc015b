"""Where the machine code of loops is kept, under which name, and when it is out of date.

Each loop has one file for each kind of arguments: types, processor and version of Python. Numba's own cache has a list
of files instead, which two processes that write at the same time spoil: an entry is lost, or names the code of other
types. Here nothing is shared but whole files, which are replaced at a stroke.

Machine code is made of sources in many files; Numba looks at that of the loop alone. Here it is current if the sources
of the loop's module, of the modules of the classes among its arguments, of all that these import within their packages,
and of the cases of generic functions among them are what they were, and so are the versions of Numba, llvmlite and
NumPy. What is out of date is removed when its successor is written; so is what no process has asked for in
:data:`UNUSED` days.

The folder is the first of these that can be written: ``NUMBA_CACHE_DIR``, beside the sources, the user's cache folder,
and a folder of the user's own among the temporary files. Code in the first two is read even where they cannot be
written, as in an image that was built by somebody else.
"""

import hashlib
import importlib.util
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
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from numba import config, types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from ..warning import warn
from .borrowing import CHECKED
from .interrupts import heeded

PACKAGE = Path(__file__).parents[1]

#: Days after which machine code that no process asked for is removed.
UNUSED = 90

#: Sources that changed after this moment are not those that this process runs.
_BEGINNING = time.time()

#: All generic functions, for their cases belong to the loops that call them.
GENERICS: list[Any] = []

#: Imports of a module itself; those within functions bring no names that compiled code sees.
_IMPORT = re.compile(r"^from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|^import[ \t]+([^\n]+)", re.MULTILINE)


# ---------------------------------------------------------------- out of date or not


class _Source(NamedTuple):
    """What a module's file holds, and the modules of its own package and of this one that it imports."""

    digest: bytes
    imported: frozenset[str]


@cache
def _source(name: str) -> _Source | None:
    """The source of a module that has been imported; None where there is none, or it is not what was imported."""
    module: Any = sys.modules.get(name)
    try:
        file = module.__file__
        data = module.__spec__.loader.get_data(file)
    except (AttributeError, OSError):  # a prompt, a notebook
        return None
    with suppress(OSError):  # in an archive
        found = os.stat(file)
        if max(found.st_mtime, found.st_ctime) > _BEGINNING:
            return None
    package, own = module.__package__ or name, {name.split(".")[0], "widemargin"}
    imported: set[str] = set()
    for origin, parts, plain in _IMPORT.findall(data.decode("utf-8", "replace")):
        if plain:
            imported.update(word.split()[0] for word in plain.split(",") if word.split())
        else:
            base = importlib.util.resolve_name(origin, package) if origin.startswith(".") else origin
            imported.update([base], (f"{base}.{part}" for part in re.findall(r"\w+", parts)))
    followed = (each for each in imported if each.split(".")[0] in own and each in sys.modules)
    return _Source(hashlib.sha256(data).digest(), frozenset(followed))


def modules_of(names: set[str]) -> set[str]:
    """The modules whose sources may be part of a loop that is made of those named."""
    found, new = set(), set(names)
    while new:
        while new:
            name = new.pop()
            found.add(name)
            source = _source(name)
            new |= (source.imported if source else frozenset()) - found
        for generic in GENERICS:
            if generic.__module__ in found:
                new.update(case.__module__ for cls, case in generic.table.items() if cls.__module__ in found)
        new -= found
    return found


def _digest(names: set[str]) -> str | None:
    """A name for the sources of these modules and the versions of the compiler; None if a source is not known."""
    versions = f"{numba.__version__} {llvmlite.__version__} {np.__version__}"
    whole = hashlib.sha256(versions.encode())
    for name in sorted(modules_of(names)):
        source = _source(name)
        if source is None:
            return None
        whole.update(name.encode() + source.digest)
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
    yield Path(AppDirs("numba", appauthor=False).user_cache_dir) / own, False
    temporary = _temporary_folder(own)
    if temporary is not None:
        yield temporary, False


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


class MachineCode(_Cache):
    """The machine code of one loop on disk, as Numba's dispatchers ask for it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._loop, self._module = f"{function.__module__}.{function.__qualname__}", function.__module__
        self._in_use = True

    @property
    def cache_path(self) -> str | None:
        """The folder that is written."""
        folder = folders(config.CACHE_DIR).written
        return None if folder is None else str(folder)

    def enable(self) -> None:
        self._in_use = True

    def disable(self) -> None:
        self._in_use = False

    def flush(self) -> None:
        """Remove what is kept of this loop."""
        for folder in folders(config.CACHE_DIR).read:
            _remove(folder.glob(f"{self._file_name()}-*"))

    def _file_name(self) -> str:
        return re.sub(r"[^\w.]", "", self._loop.removeprefix("widemargin."))

    def _names(self, kinds: tuple[Any, ...], codegen: Any) -> tuple[str, str, str] | None:
        """The kind in words, the beginning of the file's name, which says the kind, and its end, the sources."""
        classes = list(_classes(kinds))
        sources = _digest({self._module, *(each.__module__ for each in classes)})
        if sources is None or not self._in_use:
            return None
        named = [f"{each.__module__}.{each.__qualname__}" for each in classes]
        made_with = (sys.implementation.cache_tag, config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT, CHECKED)
        words = repr((self._loop, kinds, named, codegen.magic_tuple(), made_with))
        return words, f"{self._file_name()}-{hashlib.sha256(words.encode()).hexdigest()[:16]}", f"{sources}.nbc"

    @heeded()  # an exception that a handler raises in one of the callbacks of LLVM would be lost
    def load_overload(self, sig: tuple[Any, ...], target_context: Any) -> Any:
        """What is kept for these types, or None."""
        rtsys.initialize(target_context)  # all that running it needs; what compiling needs, Numba imports for that
        names = self._names(sig, target_context.codegen())
        if names is None:
            return None
        words, kind, sources = names
        for folder in folders(config.CACHE_DIR).read:
            file = folder / f"{kind}.{sources}"
            try:
                # whatever is wrong with a file, such as a class that cannot be imported, the loop can be compiled
                found, data = pickle.loads(file.read_bytes())
                result = CompileResult._rebuild(target_context, *pickle.loads(data)) if found == words else None
            except Exception:
                continue
            if result is not None and tuple(result.signature.args) == tuple(sig):
                with suppress(OSError):
                    if time.time() - file.stat().st_mtime > 86400:
                        os.utime(file)  # asked for today
                return result
        return None

    @heeded()
    def save_overload(self, sig: tuple[Any, ...], data: Any) -> None:
        """Keep what was compiled for these types, and remove what it replaces."""
        names, folder = self._names(sig, data.codegen), folders(config.CACHE_DIR).written
        if names is None or folder is None or data.lifted or data.library.has_dynamic_globals:
            return
        words, kind, sources = names
        file, unfinished = folder / f"{kind}.{sources}", folder / f"{uuid.uuid4().hex}.unfinished"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(pickle.dumps((words, dumps(data._reduce()))))
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
