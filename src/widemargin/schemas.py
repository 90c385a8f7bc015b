"""Schemas: what each field of a savable class may hold; checked when a file is read.

A class is registered with its fields (:func:`.files.savable`). For text, numbers, flags, generators and registered
classes the annotation is enough. An array declares its dtype, its shape in named sizes, and its range::

    @savable("Example.State", order=Array("n", dtype=INDICES, low=0, high="n-1"), position=Whole(0, "n"))

or the annotation itself holds the field: ``order: Annotated[np.ndarray, Array("n", dtype=INDICES)]``.

A name of a size means the same number everywhere in its *scope*; the first occurrence binds it. A whole file, a state
or an estimator is a scope. A field :class:`Within` shares the scope of the object around it; other objects have their
own. Ranges are checked after all sizes are known, and last the ``law``: a function of the object and the sizes that
returns what is wrong, or None.

Compiled loops check no bounds. A value that a schema accepts must therefore never lead a loop out of an array or make
it endless.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

#: Dtypes of arrays: numbers that are summed, numbers of data, indices.
DOUBLE, FLOATS, INDICES = (np.float64,), (np.float32, np.float64), (np.int32, np.int64)
LEAST, MOST = -(2**63), 2**64 - 1  # range of Python's integers that fit into 64 bits

Law = Callable[[Any, dict[str, int]], str | None]


class Damaged(ValueError):
    """A value that its schema does not allow, as a sentence that begins with the place in the file."""


class Record:
    """The parts, by name, of an object that is not made yet, with the schema of its class."""

    def __init__(self, schema: Schema, parts: dict[str, Any]) -> None:
        self.schema, self.parts = schema, parts

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["parts"][name]
        except KeyError:
            raise AttributeError(f"its {name} is missing") from None


@dataclass(eq=False)
class Schema:
    """A class that can be saved: its ``name`` in files, and what its parts may hold.

    ``take`` returns an object's parts by name, and ``make`` makes an object of parts. The ``declared`` fields take
    precedence over annotations.
    """

    name: str
    cls: type
    take: Callable[[Any], dict[str, Any]]
    make: Callable[..., Any]
    declared: dict[str, Field]
    law: Law | None
    known: dict[str, Field | None] | None = None  # once the annotations are read

    def fields(self) -> dict[str, Field | None]:
        """The field of each part by name; None if neither a declaration nor the annotation gives one."""
        if self.known is None:
            own = names_of(self.cls)
            hints = _hints(self.cls) if set(own) - set(self.declared) else {}
            said = {name: _said(hints[name]) for name in own if name in hints}
            self.known = {name: self.declared.get(name, said.get(name)) for name in (*own, *self.declared)}
        return self.known


def names_of(cls: Any) -> list[str]:
    """The names of the fields of a dataclass or NamedTuple."""
    return [f.name for f in fields(cls)] if is_dataclass(cls) else list(getattr(cls, "_fields", ()))


#: The schema of each registered class.
SCHEMAS: dict[type, Schema] = {}


def _hints(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError:  # a class inside a function may use the function's local names
        return {}


def _said(hint: Any) -> Field | None:
    """The field that an annotation stands for; None if it does not say enough."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[1]
    plain: dict[Any, Field] = {int: Whole(), float: Real(), bool: Flag(), str: Text(), type(None): Nothing()}
    if hint in plain:
        return plain[hint]
    if hint is np.random.Generator:
        return Random()
    origin, inner = get_origin(hint), [_said(each) for each in get_args(hint) if each is not Ellipsis]
    if origin in (Union, types.UnionType) and None not in inner:
        return Either(*inner)  # type: ignore[arg-type]
    if origin in (list, tuple, dict) and None not in inner:
        return Each(inner[-1], origin)  # type: ignore[arg-type]
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields")):
        return Own(hint)
    return None


# ---------------------------------------------------------------- a check


class Scope:
    """The sizes that are known so far, and checks to be made when all sizes are known."""

    def __init__(self, sizes: dict[str, int] | None = None) -> None:
        self.sizes = dict(sizes or {})
        self.later: list[Callable[[], None]] = []

    def value(self, bound: Any) -> Any:
        """The number that a bound stands for: itself, or a size such as "n-1"; None if the size is not known."""
        if not isinstance(bound, str):
            return bound
        name, more = _split(bound)
        return None if name not in self.sizes else self.sizes[name] + more

    def bind(self, name: str, size: int, place: str) -> None:
        """Bind a size to this value; refuse another value than it has."""
        if self.sizes.setdefault(name, size) != size:
            raise Damaged(f"{place} says that {name} is {size}, and elsewhere it is {self.sizes[name]}")

    def fits(self, dim: Any, size: int) -> bool:
        """Whether a dimension of a shape may have this size; binds a name without a value."""
        if isinstance(dim, tuple):
            return any(self.fits(each, size) for each in dim)
        if dim is None or isinstance(dim, int):
            return dim is None or dim == size
        name, more = _split(dim)
        return size >= more and self.sizes.setdefault(name, size - more) == size - more

    def said(self, shape: tuple[Any, ...]) -> str:
        """A shape as text, with the sizes that are known."""

        def each(dim: Any) -> str:
            if isinstance(dim, tuple):
                return " or ".join(map(each, dim))
            known = self.value(dim)
            return "any" if dim is None else f"{dim} = {known}" if known != dim and known is not None else str(dim)

        return f"({', '.join(map(each, shape))})"

    def end(self) -> None:
        """Make the checks that waited for sizes."""
        for look in self.later:
            look()


def _split(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\w+?)([+-]\d+)?", name)
    assert found is not None, name
    return found[1], int(found[2] or 0)


def check(value: Any, place: str = "", **sizes: int) -> dict[str, int]:
    """Refuse an object or record that its schema does not allow. Some sizes may be given; returns all of them."""
    scope = Scope(sizes)
    _check_record(value, place, scope) if _schema_of(value) else Anything().check(value, place, scope)
    scope.end()
    return scope.sizes


def _schema_of(value: Any) -> Schema | None:
    return value.schema if isinstance(value, Record) else SCHEMAS.get(type(value))


def class_of(value: Any) -> Any:
    """The class of an object, or of the object of a record."""
    return value.schema.cls if isinstance(value, Record) else type(value)


def _check_record(value: Any, place: str, scope: Scope) -> None:
    schema = _schema_of(value)
    assert schema is not None
    known = schema.fields()
    parts = value.parts if isinstance(value, Record) else schema.take(value)
    for name, field in known.items():  # in the order of the schema, so that the same fields bind the sizes
        if name in parts:
            (field or ANYTHING).check(parts[name], _below(place, name), scope)
    for name in parts.keys() - known.keys():
        ANYTHING.check(parts[name], _below(place, name), scope)
    if schema.law is not None:
        held = [id(part) for part in parts.values() if isinstance(part, np.ndarray) and part.size]
        if len(set(held)) < len(held):  # a loop would write to one and read the other
            raise Damaged(f"{place or schema.cls.__name__}: two of its parts are one array")
        scope.later.append(lambda: _obey(schema, parts, place, scope))


def _obey(schema: Schema, parts: dict[str, Any], place: str, scope: Scope) -> None:
    wrong = schema.law(Record(schema, parts), scope.sizes)  # type: ignore[misc]
    if wrong:
        raise Damaged(f"{place or schema.cls.__name__}: {wrong}")


def _below(place: str, name: Any) -> str:
    return f"{place}/{name}" if place else str(name)


def _items(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """(place, item) of each item of a list, tuple or dictionary."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield _below(place, name), item


def _named(cls: type) -> str:
    """The name of a class with its module, because names of classes repeat."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__qualname__}"


def _spoken(value: Any) -> str:
    return f"{value!r:.60}" if not isinstance(value, np.generic) else f"{value:.6g}"


# ---------------------------------------------------------------- kinds of fields


class Field:
    """Base of fields: what a part may hold."""

    def check(self, value: Any, place: str, scope: Scope) -> None:
        """Refuse a value that the field does not allow."""
        raise NotImplementedError

    def hold(self, value: Any, place: str, **sizes: int) -> None:
        """:meth:`check` a value by itself, with these sizes."""
        scope = Scope(sizes)
        self.check(value, place, scope)
        scope.end()

    @staticmethod
    def refuse(place: str, value: Any, must: str) -> Any:
        """Raise an error: what a place holds, and what it must be."""
        raise Damaged(f"{place} holds {_spoken(value)}, but must be {must}")


class Anything(Field):
    """Anything that a file can hold; objects inside are checked against their own schemas."""

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if _schema_of(value) is not None:
            check(value, place)
        elif type(value) in (list, tuple, dict):
            for below, item in _items(value, place):
                self.check(item, below, scope)


class Typed(Field):
    """Base of fields that allow all values of some types."""

    types: tuple[type, ...]
    must: str

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, self.types):
            self.refuse(place, value, self.must)


class Nothing(Typed):
    """None."""

    types, must = (type(None),), "None"


class Flag(Typed):
    """True or False."""

    types, must = (bool, np.bool_), "True or False"


class Random(Typed):
    """A random generator; :func:`check_random` has checked its state."""

    types, must = (np.random.Generator,), "a source of random numbers"


class Text(Field):
    """A text; if choices are given, one of them."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            self.refuse(place, value, f"one of {', '.join(self.choices)}" if self.choices else "a text")


class Real(Field):
    """A number from ``low`` to ``high``; infinity and NaN are allowed unless ``finite``."""

    def __init__(self, low: float = -np.inf, high: float = np.inf, finite: bool = False) -> None:
        self.low, self.high, self.finite = low, high, finite

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
            self.refuse(place, value, "a number")
        if isinstance(value, int) and not LEAST <= value <= MOST:  # compiled code has no such integer
            self.refuse(place, value, f"an integer from {LEAST} to {MOST}, or with a point")
        if value < self.low or value > self.high or (self.finite and not np.isfinite(value)):
            self.refuse(place, value, f"a finite number from {self.low:g} to {self.high:g}")


class Whole(Field):
    """An integer from ``low`` to ``high``, which may be names of sizes; it binds ``size`` if that is given."""

    def __init__(self, low: int | str = LEAST, high: int | str = MOST, size: str = "") -> None:
        self.low, self.high, self.size = low, high, size

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
            self.refuse(place, value, "an integer")
        if self.size:
            scope.bind(self.size, int(value), place)
        scope.later.append(lambda: self._range(value, place, scope))

    def _range(self, value: int, place: str, scope: Scope) -> None:
        low, high = scope.value(self.low), scope.value(self.high)
        if (low is not None and value < low) or (high is not None and value > high):
            self.refuse(place, value, f"in {low}..{high}")


class Array(Field):
    """An array whose shape is given by numbers, names of sizes such as "n" or "n+1", None for any, or tuples of these.

    Parameters
    ----------
    dtype : allowed dtypes; None for any
    low, high : range of the entries, as numbers or names of sizes
    finite : whether all entries must be finite; ``"inf"`` allows infinity, False also NaN
    order : whether the array must be in C order, which compiled loops need
    rising, distinct : whether entries must not fall, and whether all must differ
    """

    def __init__(
        self, *shape: Any, dtype: Any = DOUBLE, low: Any = None, high: Any = None, finite: bool | str = True,
        order: bool = True, rising: bool = False, distinct: bool = False,
    ) -> None:  # fmt: skip
        self.shape, self.finite, self.order = shape, finite, order
        self.dtypes = () if dtype is None else tuple(map(np.dtype, dtype if isinstance(dtype, tuple) else (dtype,)))
        self.low, self.high, self.rising, self.distinct = low, high, rising, distinct

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, np.ndarray):
            self.refuse(place, value, "an array")
        if self.dtypes and value.dtype not in self.dtypes:
            raise Damaged(f"{place} has numbers of {value.dtype}, but must have {' or '.join(map(str, self.dtypes))}")
        fits = value.ndim == len(self.shape)
        if not fits or not all(map(scope.fits, self.shape, value.shape)):
            raise Damaged(f"{place} has the shape {value.shape}, but must have {scope.said(self.shape)}")
        if self.order and not value.flags.c_contiguous:
            raise Damaged(f"{place} is not in C order")
        scope.later.append(lambda: self._entries(value, place, scope))

    def _entries(self, value: np.ndarray, place: str, scope: Scope) -> None:
        """Check range, finiteness and order of the entries."""
        if value.size == 0:
            return
        if value.dtype.kind == "f" and self.finite:
            least, most = value.min(), value.max()  # NaN if there is one
            bad = least if not np.isfinite(least) else most
            if np.isnan(bad) or (self.finite is True and not np.isfinite(bad)):
                self.refuse(place, bad, "finite" if self.finite is True else "no NaN")
        low, high = scope.value(self.low), scope.value(self.high)
        if low is not None and value.min() < low:
            self.refuse(place, value.min(), f"in {low}..{'' if high is None else high}")
        if high is not None and value.max() > high:
            self.refuse(place, value.max(), f"in {'' if low is None else low}..{high}")
        if self.rising and (np.diff(value) < 0).any():
            raise Damaged(f"{place} falls, but must rise")
        if self.distinct and np.unique(value).size < value.size:
            raise Damaged(f"{place} has an entry twice, but must be distinct")


def arrays_of(cls: type) -> dict[str, Array]:
    """The fields of a registered class that are arrays, by name."""
    return {name: field for name, field in SCHEMAS[cls].fields().items() if isinstance(field, Array)}


def blank(cls: type, sizes: dict[Any, int], dtype: Any = None) -> dict[str, np.ndarray]:
    """Zeros for the arrays of a registered class, by name, of this type where a field allows it.

    Of several sizes that a field allows the first is taken, and 0 where it allows any.
    """
    found = {}
    for name, field in arrays_of(cls).items():
        shape = [size[0] if isinstance(size, tuple) else size for size in field.shape]
        kind = dtype if dtype in field.dtypes else field.dtypes[0]
        found[name] = np.zeros([sizes.get(size, size) or 0 for size in shape], kind)
    return found


class Matrix(Field):
    """A user's rows: an array or sparse matrix of floating numbers; the shape is given as in :class:`Array`."""

    def __init__(self, *shape: Any) -> None:
        self.shape = shape

    def check(self, value: Any, place: str, scope: Scope) -> None:
        shape, kind = getattr(value, "shape", ()), getattr(getattr(value, "dtype", None), "kind", "")
        if kind != "f" or len(shape) != len(self.shape) or not all(map(scope.fits, self.shape, shape)):
            self.refuse(place, shape or value, f"floating numbers of shape {scope.said(self.shape)}")


#: A counter; sums of such numbers fit into int64, and exactly into float64.
COUNT = Whole(0, 2**53)


def permutation(n: str, dtype: Any = INDICES) -> Array:
    """A permutation of 0 … n − 1."""
    return Array(n, dtype=dtype, low=0, high=f"{n}-1", distinct=True)


class Either(Field):
    """One of several fields, the first that allows the value."""

    def __init__(self, *choices: Field) -> None:
        self.choices = choices

    def check(self, value: Any, place: str, scope: Scope) -> None:
        said = None
        for choice in self.choices:
            sizes, waiting = dict(scope.sizes), len(scope.later)  # to go back to
            try:
                choice.check(value, place, scope)
                return
            except Damaged as bad:
                said = bad if said is None or not isinstance(choice, Nothing) else said
                scope.sizes = sizes
                del scope.later[waiting:]
        raise said or Damaged(f"{place} is missing")


def maybe(field: Field) -> Either:
    """None, or a value of the field."""
    return Either(Nothing(), field)


class Each(Field):
    """A list, tuple or dictionary of values of one field; with ``alone`` each value has a scope of its own."""

    def __init__(self, field: Field, kind: Any = (list, tuple), alone: bool = False) -> None:
        self.field, self.kind, self.alone = field, kind, alone

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, self.kind):
            self.refuse(place, value, "a list" if self.kind is not dict else "a dictionary")
        for below, item in _items(value, place):
            if self.alone:
                self.field.hold(item, below)
            else:
                self.field.check(item, below, scope)


class Pair(Field):
    """A tuple of two."""

    def __init__(self, first: Field, second: Field) -> None:
        self.first, self.second = first, second

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, tuple) or len(value) != 2:
            self.refuse(place, value, "a pair")
        self.first.check(value[0], _below(place, 0), scope)
        self.second.check(value[1], _below(place, 1), scope)


class Row(Field):
    """A dictionary with the ``known`` entries; of these ``needs`` must be present (None: all).

    Further entries are values of the field ``rest``; None allows none.
    """

    def __init__(
        self, known: dict[str, Field], rest: Field | None = None, needs: Iterable[str] | None = None
    ) -> None:  # fmt: skip
        self.known, self.rest, self.needs = known, rest, tuple(known if needs is None else needs)

    def check(self, value: Any, place: str, scope: Scope) -> None:
        if not isinstance(value, dict):
            self.refuse(place, value, "a dictionary")
        missing = [name for name in self.needs if name not in value]
        odd = [name for name in value if name not in self.known]
        unnamed = [name for name in odd if not isinstance(name, str)]
        if missing or unnamed or (odd and self.rest is None):
            odd = unnamed or odd
            raise Damaged(f"{place} {f'lacks {missing[0]}' if missing else f'has {odd[0]!r:.60}, which nobody knows'}")
        for name in self.known:
            if name in value:
                self.known[name].check(value[name], _below(place, name), scope)
        for name in odd:
            self.rest.check(value[name], _below(place, name), scope)  # type: ignore[union-attr]


class Within(Field):
    """An object of one of these classes, in the scope of the object around it."""

    def __init__(self, *classes: type) -> None:
        self.classes = classes

    def check(self, value: Any, place: str, scope: Scope) -> None:
        self._class(value, place)
        _check_record(value, place, scope)

    def _class(self, value: Any, place: str) -> None:
        schema = _schema_of(value)
        if schema is None or (self.classes and not issubclass(schema.cls, self.classes)):
            names = " or ".join(map(_named, self.classes))
            self.refuse(place, value if schema is None else _named(schema.cls), f"a {names or 'registered object'}")


class Own(Within):
    """An object of one of these classes in its own scope; ``given`` maps sizes of that scope to outer sizes."""

    def __init__(self, *classes: type, **given: str) -> None:
        super().__init__(*classes)
        self.given = given

    def check(self, value: Any, place: str, scope: Scope) -> None:
        self._class(value, place)

        def look() -> None:
            known = {name: scope.value(outer) for name, outer in self.given.items()}
            check(value, place, **{name: size for name, size in known.items() if size is not None})

        if self.given:
            scope.later.append(look)
        else:
            look()


ANYTHING = Anything()

# ---------------------------------------------------------------- random numbers

_WORD = {"has_uint32": Whole(0, 1), "uinteger": Whole(0, 2**32 - 1)}
_PCG = {"state": Row({"state": Whole(0, 2**128 - 1), "inc": Whole(0, 2**128 - 1)}), **_WORD}


def _words(n: int) -> Array:
    return Array(n, dtype=np.uint64)


#: Fields of the states of NumPy's bit generators, by name.
BITS: dict[str, dict[str, Field]] = {
    "MT19937": {"state": Row({"key": Array(624, dtype=np.uint32), "pos": Whole(0, 624)})},
    "PCG64": _PCG,
    "PCG64DXSM": _PCG,
    "Philox": {
        "state": Row({"counter": _words(4), "key": _words(2)}), "buffer": _words(4), "buffer_pos": Whole(0, 4), **_WORD
    },
    "SFC64": {"state": Row({"state": _words(4)}), **_WORD},
}  # fmt: skip
_LEGACY = {"has_gauss": Whole(0, 1), "gauss": Real(finite=True)}


def check_random(state: Any, place: str, legacy: bool) -> str:
    """Refuse a state that no bit generator can have; returns the name of the bit generator."""
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if name not in BITS:
        raise Damaged(f"{place} is no source of random numbers that is known: {name!r:.60}")
    Row({"bit_generator": Text(), **BITS[name], **(_LEGACY if legacy else {})}).hold(state, place)
    if name == "MT19937" and not state["state"]["key"].any():
        raise Damaged(f"{place}/state/key holds zeros only, which draw the same number for ever")
    if BITS[name] is _PCG and state["state"]["inc"] % 2 == 0:
        raise Damaged(f"{place}/state/inc holds {state['state']['inc']}, but must be odd")
    return name
