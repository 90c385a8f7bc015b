"""The types of borrowed arrays and tuples, and what loops do with them.

A borrowed array has the model of Numba's arrays, but nothing in it is counted, and its indices do not wrap. A borrowed
NamedTuple is one address. With ``WIDEMARGIN_CHECKED=1`` every index is tested (:mod:`.settings`).
"""

import hashlib
import operator
import sys
from functools import cache, reduce
from typing import Any, NamedTuple

from numba import types
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_cast,
    lower_getattr,
    lower_getattr_generic,
    models,
    register_model,
)  # fmt: skip

from .settings import CHECKED, OutOfRange
from .undocumented import ArrayType, AttributeTemplate, BaseLower, Constant, TypingError, arrayobj, cgutils

# ---------------------------------------------------------------- tests of indices

BEYOND = "index {index} is out of range for {size} entries"


def _refuse(context: Any, builder: Any, wrong: Any, index: Any, size: Any, why: str) -> None:
    """Raise where ``wrong``, with the function and the line that are being compiled before the reason."""
    frame: Any = sys._getframe(1)
    while not isinstance(frame.f_locals.get("self"), BaseLower):
        frame = frame.f_back
    lower = frame.f_locals["self"]
    name = lower.func_ir.func_id
    why = f"{name.modname}.{name.func_qualname}, line {lower.loc.line}: {why}"
    with cgutils.if_unlikely(builder, wrong):
        found, kinds = (why, index, size), (None, types.intp, types.intp)
        context.call_conv.return_dynamic_user_exc(builder, OutOfRange, found, kinds, lower.loc, name.func_name)


def _refuse_index(context: Any, builder: Any, place: Any, size: Any, axis: Any = None) -> None:
    """Raise where there is no such place."""
    why = f"{BEYOND} of axis {axis}" if isinstance(axis, int) and axis else BEYOND
    _refuse(context, builder, builder.icmp_unsigned(">=", place, size), place, size, why)


def _check_ordinary(context: Any, builder: Any, place: Any, size: Any, axis: Any = None) -> None:
    """Stands for Numba's own test, which does not say the index; Numba has added the size to a negative one."""
    negative = builder.icmp_signed("<", place, place.type(0))
    _refuse_index(context, builder, builder.select(negative, builder.sub(place, size), place), size, axis)


if CHECKED:
    cgutils.do_boundscheck = _check_ordinary

# ---------------------------------------------------------------- arrays


class BorrowedArray(types.Array):
    """The type of an array that is not counted, nor are its slices."""

    def __init__(self, dtype: Any, ndim: int, layout: str, readonly: bool = False, aligned: bool = True) -> None:
        name = f"borrowed({dtype}, {ndim}d, {layout}, {readonly}, {aligned})"
        super().__init__(dtype, ndim, layout, readonly=readonly, name=name, aligned=aligned)

    def copy(self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None) -> Any:
        """The type of a view."""
        return BorrowedArray(
            self.dtype if dtype is None else dtype,
            self.ndim if ndim is None else ndim,
            self.layout if layout is None else layout,
            not self.mutable if readonly is None else readonly,
            self.aligned,
        )


@register_model(BorrowedArray)
class _Uncounted(models.ArrayModel):
    """As Numba's, but for nothing in it to count; functions are given the whole, where Numba gives them its numbers."""

    def traverse(self, builder: Any) -> list[Any]:
        return []

    def has_nrt_meminfo(self) -> bool:
        return False

    def inner_models(self) -> list[Any]:
        return []

    def get_argument_type(self) -> Any:
        return self.get_value_type()

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, builder: Any, value: Any) -> Any:
        return value


@lower_cast(BorrowedArray, types.Array)
def _as_any_array(context: Any, builder: Any, kind: Any, wanted: Any, value: Any) -> Any:
    """Where Numba counts after all, it finds no owner."""
    for owner in (0, 1):
        value = builder.insert_value(value, cgutils.get_null_value(value.type.elements[owner]), owner)
    return value


# what stands where in an array
ENTRIES, ITEMSIZE, DATA, SHAPE, STRIDES = 2, 3, 4, 5, 6


@lower_getattr(BorrowedArray, "size")
def _size(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return builder.extract_value(array, ENTRIES)


@lower_getattr(BorrowedArray, "shape")
def _shape(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return builder.extract_value(array, SHAPE)


class _Index(NamedTuple):
    """An index of integers, one for each of the first dimensions, and perhaps the two ends of a slice of the next."""

    places: list[Any]
    ends: list[Any]


def _understood(context: Any, builder: Any, array: Any, index_kind: Any, index: Any) -> _Index | None:
    """An index as it stands, tested where loops are; None where it is of another sort.

    An integer that is written as a negative number counts from the end, as in Python.
    """
    kinds, parts = (index_kind,), [index]
    if isinstance(index_kind, types.BaseTuple):
        kinds, parts = index_kind.types, cgutils.unpack_tuple(builder, index)
    found, known = _Index([], []), True
    for axis, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
        size = builder.extract_value(array, [SHAPE, axis])
        if isinstance(kind, types.Integer):
            is_negative = isinstance(part, Constant) and part.constant < 0
            place = builder.add(part, size) if is_negative else context.cast(builder, part, kind, types.intp)
            found.places.append(place)
            if CHECKED:
                _refuse_index(context, builder, place, size, axis)
        elif isinstance(kind, types.SliceType) and not kind.has_step:
            known = known and axis == len(kinds) - 1
            found.ends[:] = (builder.extract_value(part, k) for k in (0, 1))
            for end in found.ends if CHECKED else ():
                words = "a slice of {size} entries has the end {index}, and borrowed arrays do not wrap"
                _refuse(context, builder, builder.icmp_signed("<", end, end.type(0)), end, size, words)
        else:
            known = False
    return found if known else None


def _address(builder: Any, kind: Any, array: Any, places: list[Any]) -> Any:
    """Where the entry, or the row of entries, with these first indices begins."""
    data = builder.extract_value(array, DATA)
    if kind.layout == "C":
        place = places[0]
        for axis in range(1, kind.ndim):
            place = builder.mul(place, builder.extract_value(array, [SHAPE, axis]))
            if axis < len(places):
                place = builder.add(place, places[axis])
        return builder.gep(data, [place])
    steps = [builder.mul(place, builder.extract_value(array, [STRIDES, axis])) for axis, place in enumerate(places)]
    return cgutils.pointer_add(builder, data, reduce(builder.add, steps))


def _view(context: Any, builder: Any, signature: Any, array: Any, index: _Index) -> Any:
    """The rest of an array at its first indices, from one place to another in the next dimension if those are given."""
    kind, places = signature.args[0], index.places
    axes = range(len(places), kind.ndim)
    shape = [builder.extract_value(array, [SHAPE, axis]) for axis in axes]
    if index.ends:
        first, last = index.ends
        last = builder.select(builder.icmp_signed("<", last, shape[0]), last, shape[0])
        length = builder.sub(last, first)
        shape[0] = builder.select(builder.icmp_signed(">", length, length.type(0)), length, length.type(0))
        places = [*places, first]
    strides = [builder.extract_value(array, [STRIDES, axis]) for axis in axes]
    return _array(context, builder, signature.return_type, _address(builder, kind, array, places), shape, strides)


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any], strides: list[Any]) -> Any:
    """A borrowed array that begins at an address."""
    itemsize = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    array = cgutils.get_null_value(context.get_value_type(kind))
    array = builder.insert_value(array, reduce(builder.mul, shape), ENTRIES)
    array = builder.insert_value(array, context.get_constant(types.intp, itemsize), ITEMSIZE)
    array = builder.insert_value(array, data, DATA)
    for axis in range(kind.ndim):
        array = builder.insert_value(array, shape[axis], [SHAPE, axis])
        array = builder.insert_value(array, strides[axis], [STRIDES, axis])
    return array


@lower_builtin(operator.getitem, BorrowedArray, types.Integer)
@lower_builtin(operator.getitem, BorrowedArray, types.SliceType)
@lower_builtin(operator.getitem, BorrowedArray, types.BaseTuple)
def _get_entry(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, index_kind = signature.args
    found = _understood(context, builder, args[0], index_kind, args[1])
    if found is None:
        several = isinstance(index_kind, types.BaseTuple)
        by_numba = arrayobj.getitem_array_tuple if several else arrayobj.getitem_arraynd_intp
        return by_numba(context, builder, signature, args)
    if isinstance(signature.return_type, types.Array):
        return _view(context, builder, signature, args[0], found)
    return arrayobj.load_item(context, builder, kind, _address(builder, kind, args[0], found.places))


@lower_builtin(operator.setitem, BorrowedArray, types.Any, types.Any)
def _set_entry(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    (kind, index_kind, value_kind), (array, index, value) = signature.args, args
    found = _understood(context, builder, array, index_kind, index)
    if found is None or found.ends or len(found.places) < kind.ndim:
        return arrayobj.setitem_array(context, builder, signature, args)
    value = context.cast(builder, value, value_kind, kind.dtype)
    arrayobj.store_item(context, builder, kind, value, _address(builder, kind, array, found.places))


# ---------------------------------------------------------------- tuples


class Borrowed(types.Type):
    """The type of a borrowed NamedTuple: the address of its fields, which stay where they are."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.instance_class = kind, kind.instance_class
        digest = hashlib.sha256(str(kind).encode()).hexdigest()[:16]
        super().__init__(f"Borrowed{kind.instance_class.__name__}{digest}")

    @property
    def key(self) -> Any:
        return self.kind

    def field(self, name: str) -> Any:
        """The type of a field; None if there is none of this name."""
        return _lent(self.kind[self.kind.fields.index(name)]) if name in self.kind.fields else None


def _lent(kind: Any) -> Any:
    """The type that a value of this type has when it is borrowed."""
    if isinstance(kind, types.BaseNamedTuple):
        return Borrowed(kind)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([_lent(part) for part in kind])
    if type(kind) is types.Array:
        return BorrowedArray(kind.dtype, kind.ndim, kind.layout, not kind.mutable, kind.aligned)
    return kind


@register_model(Borrowed)
class _Address(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, cgutils.voidptr_t)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Borrowed

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.field(name)


@cache
def _offsets(context: Any, kind: Any) -> list[int]:
    """Where the fields of a tuple begin, in bytes; one whose fields have one type is an array to Numba."""
    held, sizes = context.get_value_type(kind), context.target_data
    if isinstance(held, ArrayType):
        return [k * held.element.get_abi_size(sizes) for k in range(len(kind))]
    return [held.get_element_offset(sizes, k) for k in range(len(kind))]


@lower_getattr_generic(Borrowed)
def _field(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    """Load one field; a tuple in a tuple is where it is."""
    place = kind.kind.fields.index(name)
    held = kind.kind[place]
    address = cgutils.pointer_add(builder, address, _offsets(context, kind.kind)[place])
    if isinstance(held, types.BaseNamedTuple):
        return address
    value = builder.load(builder.bitcast(address, context.get_value_type(held).as_pointer()))
    return _lend(context, builder, held, value)


def _lend(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same value as one of the type that it has when it is borrowed."""
    if isinstance(kind, types.BaseNamedTuple):
        return builder.bitcast(cgutils.alloca_once_value(builder, value), cgutils.voidptr_t)
    if isinstance(kind, types.BaseTuple):
        parts = [_lend(context, builder, each, builder.extract_value(value, k)) for k, each in enumerate(kind)]
        return context.make_tuple(builder, _lent(kind), parts)
    return value


@intrinsic
def borrow(typingctx, value):
    """The same array, or NamedTuple with arrays, not counted; for arguments of a compiled loop only."""

    def codegen(context, builder, signature, args):
        return _lend(context, builder, signature.args[0], args[0])

    return _lent(value)(value), codegen


def _reshaped(context: Any, builder: Any, kind: Any, array: Any, shape: list[Any]) -> Any:
    """The entries of a C-ordered array in another shape, whose strides are known to the compiler."""
    strides = [context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))]
    for size in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], size))
    return _array(context, builder, kind, builder.extract_value(array, DATA), shape, strides)


@intrinsic
def flat(typingctx, array):
    """A C-ordered array as one borrowed dimension: its stride is then known to the compiler."""
    if array.layout != "C":
        raise TypingError("flat takes C-ordered arrays only")
    line = BorrowedArray(array.dtype, 1, "C", not array.mutable)

    def codegen(context, builder, signature, args):
        return _reshaped(context, builder, line, args[0], [builder.extract_value(args[0], ENTRIES)])

    return line(array), codegen


@intrinsic
def column(typingctx, array):
    """A C-ordered array of one column, which the compiler then knows: it leaves out what is for several."""
    if array.layout != "C" or array.ndim != 2 or not isinstance(array, BorrowedArray):
        raise TypingError("column takes borrowed C-ordered matrices only")

    def codegen(context, builder, signature, args):
        shape = [builder.extract_value(args[0], ENTRIES), context.get_constant(types.intp, 1)]
        return _reshaped(context, builder, array, args[0], shape)

    return array(array), codegen


@intrinsic
def square(typingctx, line, size):
    """The first size² entries of a C-ordered line as a borrowed array of that many rows and columns."""
    if line.layout != "C" or line.ndim != 1:
        raise TypingError("square takes C-ordered lines only")
    whole = BorrowedArray(line.dtype, 2, "C", not line.mutable)

    def codegen(context, builder, signature, args):
        if CHECKED:
            last = builder.sub(builder.mul(args[1], args[1]), args[1].type(1))
            entries = builder.extract_value(args[0], ENTRIES)
            _refuse(context, builder, builder.icmp_signed(">=", last, entries), last, entries, BEYOND)
        return _reshaped(context, builder, whole, args[0], [args[1], args[1]])

    return whole(line, types.intp), codegen
