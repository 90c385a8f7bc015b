"""Files of this library: arrays in an ``.npz`` archive with a JSON header, never pickle.

>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "kernel.npz")
...     dump(path, KERNELS["rbf"](0.5))
...     load(path)
RBF(gamma=0.5)

A file holds one object: a model, an estimator, a solver's state, or anything built of numbers, text, arrays, CSR
matrices, random generators, lists, tuples, dictionaries and :func:`savable` classes. The header names the class and
describes the object as a tree; an array is an entry of the archive, named by its path in the tree. An array or
generator that occurs twice in the object is written once, and is one object again after reading.

Reading is safe:

- It calls no code except the registered classes.
- It needs about as much memory as the file has bytes: entries are not compressed, arrays must have the sizes that they
  claim, and the header is limited.
- A checksum of the whole content detects damage.
- Everything is checked against the :mod:`.schemas` of its classes before an object is made.

A new file replaces an old one only when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from .core.kernels.expansion import Vectors
from .core.kernels.kernels import KERNELS
from .core.kernels.tiles import LANES
from .core.losses import losses
from .core.rows.rows import CSRRows, DenseRows
from .schemas import (
    BITS,
    FLOATS,
    INDICES,
    SCHEMAS,
    Array,
    Either,
    Field,
    Law,
    Own,
    Real,
    Record,
    Schema,
    Text,
    Whole,
    check,
    check_random,
    names_of,
)

FORMAT = 3  # version of the file format, from 3 on with a checksum; newer formats are refused
MOST_HEADER, MOST_ARRAYS = 2**25, 4096  # largest number of bytes of the header, and of arrays in a file
MOST_ITEM, MOST_DIMENSIONS = 2**20, 32  # largest number of bytes of one entry of an array, and of its dimensions
ARRAYS = "biufcSUmM"  # kinds of arrays, as NumPy's letters: numbers, text, dates
SCALARS = "biufU"  # kinds of single numbers of a NumPy type
CONTENT = "content"  # the key of the object in the header, and the first part of its arrays' names
#: Errors that reading raises where bytes are missing, changed or not ours.
UNREADABLE = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, OSError, EOFError, struct.error,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class Refusal(ValueError):
    """What is wrong with a file, as the rest of a sentence that begins with its name."""


# ---------------------------------------------------------------- what can be saved


#: The schema of each class that can be saved, by the name of the class in files.
_KINDS: dict[str, Schema] = {}


def savable(name: str = "", /, *, law: Law | None = None, **parts: Field) -> Callable[[Any], Any]:
    """Register a class, whose objects can then be saved.

    The parts of a dataclass or NamedTuple are its fields. Any class may instead have a method ``_to_parts()`` that
    returns a dictionary, and a class method ``_from_parts(**parts)``. If older files have other parts, a static method
    ``_renewed(parts)`` converts them to today's, before they are checked.

    Parameters
    ----------
    name : str, default=""
        The name of the class in files, its own name if "". A class may be moved or renamed if this name stays.
    law : callable or None, default=None
        A check of several parts together: a function of an object and the sizes of its schema that returns what is
        wrong, or None. The object may be a record that has only the parts as attributes.
    **parts : fields of :mod:`widemargin.schemas`
        What parts may hold, if their annotations do not say it. Everything that compiled loops rely on belongs here.

    Returns
    -------
    callable
        The decorator of the class.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from widemargin.files import packed, savable, unpacked
    >>> @savable("example of a place")
    ... class Place(NamedTuple):
    ...     name: str
    ...     height: float
    >>> unpacked(packed(Place("Chur", 593.0)))
    Place(name='Chur', height=593.0)
    """

    def register(cls: Any) -> Any:
        own = name or cls.__name__
        known = _KINDS.get(own)
        if known is not None and (known.cls.__module__, known.cls.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"files know {known.cls} as {own!r}, so {cls} needs another name")
        take, make = getattr(cls, "_to_parts", _fields), getattr(cls, "_from_parts", cls)
        _KINDS[own] = SCHEMAS[cls] = Schema(own, cls, take, make, parts, law)
        return cls

    return register


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names_of(value)}


def _register_tuples() -> None:
    """Register the NamedTuples of core: all kernels and losses that are known now, and layouts of rows."""
    named = (KERNELS, losses.BINARY, losses.REGRESSION, losses.JOINT)
    for cls in (*(cls for each in named for cls in each.values()), *TUPLES):
        if cls not in SCHEMAS:
            parts = {"gamma": GAMMA} if cls in KERNELS.values() and cls.has_gamma else TUPLES.get(cls, {})
            savable(**parts)(cls)


def _law_of_csr(rows: Any, sizes: dict[str, int]) -> str | None:
    size, (first, last) = rows.indices.size, rows.indptr[[0, -1]]
    if rows.data.size != size:
        return f"data has {rows.data.size} entries, and indices {size}"
    return None if first == 0 and last <= size else f"indptr goes from {first} to {last}, and there are {size} entries"


def _law_of_vectors(vectors: Any, sizes: dict[str, int]) -> str | None:
    height, capacity = vectors.Z.shape
    given, free = vectors.rows
    if capacity % LANES:
        return f"Z has {capacity} columns, and no multiple of {LANES}"
    if not 0 <= free <= given <= height:
        return f"rows are {given} and {free} of {height}"
    if vectors.slot.size == 0:
        centre = vectors.centre.size
        return None if centre == height else f"Z has {height} rows for {centre} features"
    if height % 4 or given < 1:
        return f"Z has {height} rows of which {given} were given out: it is a multiple of 4, and the first is always"
    taken = np.flatnonzero(vectors.slot)
    rows = np.sort(np.concatenate([vectors.slot[taken], vectors.free[:free]]))
    if not np.array_equal(rows, np.arange(1, given)):
        return f"slot and free do not share the {given} rows of Z"
    if not np.array_equal(vectors.feature[vectors.slot[taken]], taken):
        return "feature has other features than slot"
    held = np.count_nonzero(vectors.Z[:given], axis=1)
    return None if (vectors.held[:given] >= held).all() else "held counts fewer vectors than rows of Z have"


_ROW: dict[str, Any] = {"dtype": np.int32, "low": 0}
#: γ of a kernel that an estimator has as a parameter; a trained model has a number.
GAMMA = Either(Real(), Text("scale", "auto"))
#: Fields of core's NamedTuples that annotations do not describe.
TUPLES: dict[Any, dict[str, Any]] = {
    DenseRows: {"values": Array("n", "d", dtype=FLOATS)},
    CSRRows: {
        "n_features": Whole(0, size="d"), "indptr": Array("n+1", dtype=INDICES, low=0, rising=True),
        "indices": Array(None, dtype=INDICES, low=0, high="d-1"), "data": Array(None, dtype=FLOATS), "law": _law_of_csr,
    },
    Vectors: {
        "centre": Array((0, "d")), "slot": Array((0, "d"), **_ROW, high="height-1"),
        "Z": Array("height", "capacity", dtype=FLOATS), "size": Array("capacity", dtype=FLOATS),
        "feature": Array((0, "height"), **_ROW, high="d-1"), "held": Array((0, "height"), **_ROW, high="capacity"),
        "free": Array((0, "height"), **_ROW, high="height-1"), "rows": Array(2, dtype=np.int64, low=0),
        "law": _law_of_vectors,
    },
    losses.StructuredHinge: {},
    losses.Single: {"loss": Own()},
    losses.OneVsRest: {"loss": Own(), "positive_weight": Array("outputs", low=0.0)},
    losses.MulticlassHinge: {"cost": Array("outputs", "outputs")},
}  # fmt: skip


#: Beginnings of the names of classes that need a GPU; their modules need torch.
OF_A_GPU = ("DeviceSMO", "DeviceSBP", "SideBySide")


def _name(cls: type) -> str | None:
    """The name of a class in files; None if it is not registered."""
    if cls not in SCHEMAS:
        _register_tuples()
    return SCHEMAS[cls].name if cls in SCHEMAS else None


def _kind(name: Any) -> Schema:
    """The schema of the class of this name; imports the modules that register classes if it is not known yet."""
    if name not in _KINDS:
        _register_tuples()
        for home in sorted(set(sys.modules[__package__]._HOMES.values()) - {"data", "files", "plots"}):
            import_module(f"{__package__}.{home}")
        solvers = import_module(f"{__package__}.solvers")
        for kind in set(solvers.REGISTRY) - {"device", "devices"}:  # solvers of clusters have no public name
            solvers.classes(kind)
    if name not in _KINDS and str(name).startswith(OF_A_GPU):
        raise Refusal(f"holds a {name}, of a run on a GPU: go on where there is one, or fit anew to another file")
    if name not in _KINDS:
        raise Refusal(
            f"holds a {name}, which this version does not know: upgrade it, or import the file that registers the class"
        )
    return _KINDS[name]


class Saved:
    """Base of classes with ``save`` and ``load``."""

    def save(self, path: str | os.PathLike[str], **header: Any) -> None:
        """Write an ``.npz`` file with a JSON header; the old file stays until the new one is complete."""
        dump(path, self, **header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Read a file that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
            The name of the file.

        Returns
        -------
        object
            What was saved, of this class.

        Raises
        ------
        ValueError
            If the file holds something else, or is damaged.

        Examples
        --------
        >>> import os, tempfile
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.npz")
        ...     model.save(path)
        ...     LinearSVC.load(path).predict([[3.0]]).tolist()
        [1]
        """
        return load(path, cls)


# ---------------------------------------------------------------- objects


def dump(path: str | os.PathLike[str], value: Any, **header: Any) -> None:
    """Write an object to a file; :func:`load` restores it bit for bit.

    Parameters
    ----------
    path : str or path
        The name of the file.
    value : object
        Numbers, text, arrays, CSR matrices, random generators, lists, tuples, dictionaries, and objects of
        :func:`savable` classes.
    **header : values
        Further entries of the JSON header, which :func:`read_header` returns.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from widemargin.files import dump, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "file.npz")
    ...     dump(path, {"weights": np.arange(3.0)}, note="first try")
    ...     load(path)
    {'weights': array([0., 1., 2.])}
    """
    writer = _Writer()
    tree = writer.tree(value, CONTENT, type(value).__name__)
    kind = _name(type(value)) or type(value).__name__
    write_npz(path, {**header, "kind": kind, "random": writer.random, CONTENT: tree}, **writer.arrays)


def load(path: str | os.PathLike[str], cls: type = object) -> Any:
    """The object in a file: an estimator, a model, a solver's state or whatever else was saved.

    Parameters
    ----------
    path : str or path
        The name of the file.
    cls : type, default=object
        The class that the object must have.

    Returns
    -------
    object
        What was saved.

    Raises
    ------
    ValueError
        If the file holds something else, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from widemargin.files import dump, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "file.npz")
    ...     dump(path, [1, "two", np.arange(3)])
    ...     load(path, list)
    [1, 'two', array([0, 1, 2])]
    """
    header, arrays = read_npz(path)
    with _refused(path):
        if header["widemargin"] == 1:
            found = _of_format_1(header, arrays)
        else:
            found = _Reader(arrays, header["random"]).whole(header[CONTENT])
    if not isinstance(found, cls):
        held = _name(type(found)) or type(found).__name__
        raise ValueError(f"{os.fspath(path)} holds no {cls.__name__} but a {held}: load it as what it is")
    return found


def check_savable(value: Any) -> None:
    """Refuse an object that :func:`dump` cannot write.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, CSR matrices, random generators, lists, tuples, dictionaries, and objects of
        :func:`savable` classes.

    Raises
    ------
    TypeError
        If the object, or a part of it, cannot be saved.

    Examples
    --------
    >>> from widemargin.files import check_savable
    >>> check_savable({"C": 1.0})
    >>> check_savable({"C": {1.0}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: dict['C'] is {1.0}, and a file holds no set: only numbers, text, arrays ...
    """
    _Writer().tree(value, CONTENT, type(value).__name__)


def packed(value: Any) -> np.ndarray:
    """Convert an object to one array of bytes, like a file of :func:`dump`.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, CSR matrices, random generators, lists, tuples, dictionaries, and objects of
        :func:`savable` classes.

    Returns
    -------
    ndarray of uint8
        The bytes, from which :func:`unpacked` restores the object.

    Examples
    --------
    >>> from widemargin.files import packed
    >>> packed([1, 2]).dtype
    dtype('uint8')
    """
    writer, buffer = _Writer(), BytesIO()
    header = {CONTENT: writer.tree(value, CONTENT, type(value).__name__), "random": writer.random}
    np.savez(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **writer.arrays)  # type: ignore[arg-type]
    return np.frombuffer(buffer.getvalue(), np.uint8)


def unpacked(data: np.ndarray) -> Any:
    """Restore the object that :func:`packed` converted.

    Parameters
    ----------
    data : ndarray of uint8
        The bytes.

    Returns
    -------
    object
        The object.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.files import packed, unpacked
    >>> unpacked(packed([1, np.arange(3)]))
    [1, array([0, 1, 2])]
    """
    entries = _Entries(BytesIO(data.tobytes()))
    arrays = {name: entries.array(name) for name in entries.sizes}
    header = json.loads(bytes(arrays.pop("header")))
    return _Reader(arrays, header["random"]).whole(header[CONTENT])


def digest(value: Any) -> str:
    """Compute a checksum of an object that can be saved: the same text for the same bits.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, CSR matrices, random generators, lists, tuples, dictionaries, and objects of
        :func:`savable` classes.

    Returns
    -------
    str
        The SHA-256 of the bytes that a file would have.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.files import digest
    >>> digest(np.arange(3)) == digest(np.arange(3)), digest(1.0) == digest(2.0)
    (True, False)
    """
    writer = _Writer()
    tree = writer.tree(value, CONTENT, type(value).__name__)
    return checksum(json.dumps([tree, writer.random]), writer.arrays)


class _Writer:
    """Converts an object to a tree for JSON, arrays, and states of random generators."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.random: dict[str, Any] = {}
        self.seen: dict[int, tuple[Any, Any]] = {}

    def tree(self, value: Any, place: str, owner: str) -> Any:
        """The tree of a value. ``place`` is its path in the file, ``owner`` its name for error messages."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic) and value.dtype.kind in SCALARS:
            return {"scalar": value.dtype.str, "value": self.tree(value.item(), place, owner)}
        if type(value) is list:
            return self._each(value, place, owner)
        if type(value) is tuple:
            return {"tuple": self._each(value, place, owner)}
        if type(value) is dict:
            return {"dict": [self._pair(key, item, place, owner, k) for k, (key, item) in enumerate(value.items())]}
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        found = self._object(value, place, owner)
        self.seen[id(value)] = value, found  # kept, so that no other object gets its id
        return found

    def _each(self, values: Any, place: str, owner: str) -> list[Any]:
        return [self.tree(value, f"{place}/{k}", f"{owner}[{k}]") for k, value in enumerate(values)]

    def _pair(self, key: Any, item: Any, place: str, owner: str, k: int) -> list[Any]:
        own = key if isinstance(key, str) and key.isidentifier() else k
        return [self.tree(key, f"{place}/key {k}", owner), self.tree(item, f"{place}/{own}", f"{owner}[{key!r}]")]

    def _object(self, value: Any, place: str, owner: str) -> Any:
        name = _name(type(value))
        if name is not None:
            taken = SCHEMAS[type(value)].take(value).items()
            return {"class": name, "parts": {k: self.tree(v, f"{place}/{k}", f"{owner}.{k}") for k, v in taken}}
        if isinstance(value, np.ndarray):
            return self._array(value, place, owner)
        if sp.issparse(value) and value.format == "csr":
            parts = {k: self.tree(getattr(value, k), f"{place}/{k}", owner) for k in ("data", "indices", "indptr")}
            return {"csr": type(value).__name__, "shape": list(map(int, value.shape)), **parts}
        if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in BITS:
            self.random[place] = {"generator": self.tree(value.bit_generator.state, place, owner)}
            return {"random": place}
        if isinstance(value, np.random.RandomState):
            self.random[place] = {"legacy": self.tree(value.get_state(legacy=False), place, owner)}
            return {"random": place}
        raise TypeError(
            f"{owner} is {value!r:.100}, and a file holds no {type(value).__name__}: only numbers, text, arrays and "
            "what widemargin.files.savable has registered"
        )

    def _array(self, value: np.ndarray, place: str, owner: str) -> Any:
        if value.dtype.hasobject:
            plain = value.ravel().tolist() if value.dtype == object else [value]
            odd = [item for item in plain if not isinstance(item, (str, bool, int, float, np.generic))]
            if odd:
                raise TypeError(f"{owner} is an array of objects such as {odd[0]!r:.100}: only text and numbers go")
            return {"objects": self._each(plain, place, owner), "shape": list(value.shape)}
        if value.dtype.kind not in ARRAYS:
            raise TypeError(f"{owner} is an array of {value.dtype}, and a file holds arrays of numbers, text and dates")
        self.arrays[place] = value
        return {"array": place}


class _Reader:
    """Restores an object from a tree and arrays."""

    TAGS = ("float", "scalar", "tuple", "dict", "class", "array", "objects", "csr", "random")

    def __init__(self, arrays: dict[str, np.ndarray], random: dict[str, Any]) -> None:
        self.arrays, self.random = arrays, random
        self.made: dict[str, Any] = {}

    def whole(self, tree: Any) -> Any:
        """The object that a tree describes, made after its parts are checked."""
        return _checked(self.value(tree))

    def value(self, tree: Any) -> Any:
        """The value that a tree describes, with a :class:`.schemas.Record` in the place of each object."""
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        (tag, held), *_ = tree.items()
        if tag not in self.TAGS:
            raise ValueError(f"its header has {tag!r} where a value should be")
        return getattr(self, f"_{tag}")(held, tree)

    def _float(self, held: str, tree: Any) -> float:
        return float(held)

    def _scalar(self, held: str, tree: Any) -> Any:
        dtype = np.dtype(held)
        if dtype.kind not in SCALARS:
            raise ValueError(f"its header has a number of the type {held!r:.100}")
        return dtype.type(self.value(tree["value"]))

    def _tuple(self, held: list[Any], tree: Any) -> tuple[Any, ...]:
        return tuple(map(self.value, held))

    def _dict(self, held: list[Any], tree: Any) -> dict[Any, Any]:
        return {self.value(key): self.value(value) for key, value in held}

    def _class(self, held: str, tree: Any) -> Record:
        schema, parts = _kind(held), {name: self.value(part) for name, part in tree["parts"].items()}
        return Record(schema, getattr(schema.cls, "_renewed", dict)(parts))

    def _array(self, held: str, tree: Any) -> np.ndarray:
        return self.arrays[held]

    def _objects(self, held: list[Any], tree: Any) -> np.ndarray:
        found = np.empty(len(held), dtype=object)
        found[:] = [self.value(item) for item in held]
        return found.reshape(tree["shape"])

    def _csr(self, held: str, tree: Any) -> Any:
        cls = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}[held]
        parts = {name: self.value(tree[name]) for name in ("data", "indices", "indptr")}
        height, width = tree["shape"]
        _register_tuples()
        check(Record(SCHEMAS[CSRRows], {**parts, "n_features": width}), "sparse rows", n=height)
        return cls(tuple(parts.values()), shape=(height, width))

    def _random(self, held: str, tree: Any) -> Any:
        if held not in self.made:
            ((tag, state),) = self.random[held].items()
            state = self.value(state)
            bits = getattr(np.random, check_random(state, held, tag == "legacy"))()
            bits.state = state
            self.made[held] = np.random.Generator(bits) if tag == "generator" else np.random.RandomState(bits)
            if tag == "legacy":
                self.made[held].set_state(state)
        return self.made[held]


def _checked(value: Any) -> Any:
    """Check records against their schemas, and make objects of them."""
    check(value)
    return _made(value)


def _made(value: Any) -> Any:
    if isinstance(value, Record):
        return value.schema.make(**{name: _made(part) for name, part in value.parts.items()})
    if type(value) in (list, tuple):
        return type(value)(map(_made, value))
    return {_made(key): _made(part) for key, part in value.items()} if type(value) is dict else value


# ---------------------------------------------------------------- version 0.1


def _of_format_1(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """The object in a file of version 0.1: a linear model or a budgeted estimator."""
    if header.get("kind") == "LinearModel":
        return _checked(Record(_kind("LinearModel"), {"coef": arrays["coef"], "intercept": arrays["intercept"]}))
    if "estimator" not in header:
        raise Refusal("holds a solver's state of version 0.1, which does not go on in this one: train anew")
    random: dict[str, Any] = {}
    state = _Reader(arrays, random).value(_of_tree_1(header["state"], random))
    parameters = dict(header["parameters"])
    for name, value in parameters.items():
        if isinstance(value, dict):
            policy = {part: given for part, given in value.items() if part != "policy"}
            pairs = value.get("pairs")
            parameters[name] = Record(_kind(value["policy"]), policy) if pairs is None else dict(pairs)
    estimator = _kind(header["estimator"])
    fitted = estimator.cls._of_format_1(header, **state)  # type: ignore[attr-defined]
    return _checked(Record(estimator, {"parameters": parameters, "fitted": fitted}))


def _of_tree_1(tree: Any, random: dict[str, Any]) -> Any:
    """A tree of version 0.1 in today's format."""
    if "class" in tree:
        parts = {name: _of_tree_1(part, random) for name, part in tree["parts"].items()}
        if tree["class"] == "Saved":
            return {"dict": [list(part) for part in parts.items()]}
        return {"class": {"State": "BudgetedSGD.State"}.get(tree["class"], tree["class"]), "parts": parts}
    if "generator" in tree:
        state = {**tree["generator"], "state": {"dict": list(tree["generator"]["state"].items())}}
        random["rng"] = {"generator": {"dict": list(state.items())}}
        return {"random": "rng"}
    return tree.get("value", tree)


# ---------------------------------------------------------------- arrays and a header


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that replaces ``path`` at the end of this context; after a crash or a full disk the old file stays.

    Links are followed. A pipe or a device is written to directly.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb") as file:
            yield file
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: {path.parent} is no folder; make it first")
    part = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def checksum(text: str, arrays: dict[str, np.ndarray]) -> str:
    """The SHA-256 of a header's text and of the names, types, shapes and bytes of arrays."""
    found = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        if array.size and array.itemsize:
            found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


#: The text around the checksum, which comes first in a header.
BEFORE, AFTER = '{"checksum": "', '", '


def write_npz(path: str | os.PathLike[str], header: dict[str, Any], **arrays: np.ndarray) -> None:
    """Write arrays and a JSON header to a file, atomically, with a checksum and without compression.

    Parameters
    ----------
    path : str or path
        The name of the file.
    header : dict
        The entries of the header: text, numbers, lists and dictionaries. An entry "checksum" is ignored and computed
        anew.
    **arrays : ndarray
        The arrays, by their names in the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from widemargin.files import read_npz, write_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "file.npz")
    ...     write_npz(path, {"note": "first try"}, weights=np.arange(3.0))
    ...     header, arrays = read_npz(path)
    >>> header["note"], arrays["weights"].tolist()
    ('first try', [0.0, 1.0, 2.0])
    """
    entries = {name: value for name, value in header.items() if name != "checksum"}
    text = json.dumps({"widemargin": FORMAT, **entries})
    text = BEFORE + checksum(text, arrays) + AFTER + text[1:]
    if len(text) > MOST_HEADER or len(arrays) > MOST_ARRAYS:
        raise ValueError(
            f"{os.fspath(path)} would have {len(arrays)} arrays and {len(text)} bytes of other things, more than "
            f"{MOST_ARRAYS} and {MOST_HEADER}: keep numbers in arrays, and fewer of them"
        )
    with replacing(path) as file:
        np.savez(file, header=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove unfinished files of processes that were killed while they wrote ``path``."""
    path = Path(path)
    named = re.compile(re.escape(path.name) + r"\.\d+\.[0-9a-f]{8}\.part")
    for part in path.parent.iterdir():
        if named.fullmatch(part.name):
            part.unlink(missing_ok=True)


def read_npz(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the header and the arrays of a file, without making an object.

    Parameters
    ----------
    path : str or path
        The name of the file.

    Returns
    -------
    header : dict
        The entries of the header.
    arrays : dict of ndarray
        The arrays, by their names.

    Raises
    ------
    ValueError
        If the file was not written by this library, or is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from widemargin.files import dump, read_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "file.npz")
    ...     dump(path, {"weights": np.arange(3.0)})
    ...     header, arrays = read_npz(path)
    >>> header["kind"], list(arrays)
    ('dict', ['content/weights'])
    """
    with _opened(path) as (entries, text, header):
        arrays = {name: entries.array(name) for name in entries.sizes if name != "header"}
        if header["widemargin"] >= 3 and header["checksum"] != checksum(_unsigned(text), arrays):
            raise ValueError("its checksum is another, so that it was damaged: copy or save it again")
    return header, arrays


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the header of a file only; arrays are neither read nor checked.

    Parameters
    ----------
    path : str or path
        The name of the file.

    Returns
    -------
    dict
        The entries of the header.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from widemargin.files import dump, read_header
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "file.npz")
    ...     dump(path, np.arange(3.0), note="first try")
    ...     read_header(path)["note"]
    'first try'
    """
    with _opened(path) as (_, _, header):
        return header


def _unsigned(text: str) -> str:
    """The text of a header without its checksum."""
    return "{" + text[len(BEFORE) + 64 + len(AFTER) :]


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[_Entries, str, dict[str, Any]]]:
    """(entries, text of the header, header) of a file; refuses unknown formats."""
    with _refused(path), open(path, "rb") as stream:
        entries = _Entries(stream)
        if entries.sizes.get("header", 0) > 4 * MOST_HEADER:
            raise ValueError(f"its header has {entries.sizes['header']} bytes")
        written = entries.array("header")
        text = bytes(written).decode() if written.dtype == np.uint8 else str(written)
        try:
            header = json.loads(text)
        except RecursionError as deep:
            raise ValueError("its header is nested too deeply") from deep
        if not isinstance(header, dict) or not isinstance(header.get("widemargin"), int):
            raise ValueError("its header is none of widemargin's")
        if header["widemargin"] > FORMAT:
            raise Refusal(f"has format {header['widemargin']} and this version reads up to {FORMAT}: upgrade it")
        yield entries, text, header


class _Entries:
    """The arrays of an archive by name; refuses arrays that claim more bytes than the file has."""

    def __init__(self, stream: IO[bytes]) -> None:
        if stream.read(2) != b"PK":
            raise ValueError("it is no .npz file; model text of LIBSVM and LIBLINEAR is read by widemargin.load")
        self.archive = zipfile.ZipFile(stream)
        size, found = stream.seek(0, os.SEEK_END), self.archive.infolist()
        if len(found) > MOST_ARRAYS + 1:
            raise ValueError(f"it has {len(found)} entries, more than {MOST_ARRAYS}")
        for entry in found:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"its entry {entry.filename!r:.100} is compressed, and those of widemargin are not")
        if sum(entry.file_size for entry in found) > size:
            raise ValueError("its entries claim more bytes than it has")
        self.sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in found}
        if len(self.sizes) < len(found):
            raise ValueError("it has two entries of the same name")

    def array(self, name: str) -> np.ndarray:
        """The array of an entry; the archive's own checksum of the entry is checked too."""
        try:
            opened = self.archive.open(f"{name}.npy")
        except KeyError:
            raise ValueError(f"it lacks the array {name!r:.100}") from None
        with opened as entry:
            version = np.lib.format.read_magic(entry)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, columns_first, dtype = read[version](entry)
            if dtype.kind not in ARRAYS or dtype.itemsize > MOST_ITEM:
                raise ValueError(f"its array {name!r:.100} is of the type {str(dtype)!r:.100}")
            left = self.sizes[name] - entry.tell()
            if min(shape, default=0) < 0 or len(shape) > MOST_DIMENSIONS or math.prod(shape) * dtype.itemsize != left:
                raise ValueError(f"its array {name!r:.100} has the shape {shape!s:.100} and {left} bytes")
            content = np.empty(left, np.uint8)
            got = 0
            while more := entry.read(min(2**20, left - got) or 1):
                content[got : got + len(more)] = np.frombuffer(more, np.uint8)
                got += len(more)
        if got != left:
            raise ValueError(f"its array {name!r:.100} lacks {left - got} bytes")
        if left == 0:
            return np.empty(shape, dtype)
        found = content.view(dtype)
        return found.reshape(shape[::-1]).T if columns_first else found.reshape(shape)


@contextmanager
def _refused(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of reading to one sentence with the file's name and the reason."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Refusal as bad:
        raise ValueError(f"{os.fspath(path)} {bad}") from bad
    except UNREADABLE as bad:
        said: Any = f"it lacks {bad}" if isinstance(bad, KeyError) else bad
        if isinstance(bad, (OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError)):
            said = f"it is damaged or cut off, copy or save it again ({str(bad) or type(bad).__name__})"
        raise ValueError(f"{os.fspath(path)} is not a whole widemargin file: {said}") from bad
