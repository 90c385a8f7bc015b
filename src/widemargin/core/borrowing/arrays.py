"""The types of borrowed arrays and tuples, and what loops do with them.

A borrowed array has the model of Numba's arrays, but nothing in it is counted, and its indices do not wrap. A borrowed
NamedTuple is one address. With ``WIDEMARGIN_CHECKED=1`` every index is tested (:mod:`.settings`).
"""

import ctypes
import hashlib
import operator
import sys
from functools import cache, reduce
from typing import Any

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

from .settings import CHECKED, FOUND, OutOfRange
from .undocumented import ArrayType, AttributeTemplate, BaseLower, Constant, TypingError, arrayobj, binding, cgutils

# ---------------------------------------------------------------- tests of indices

binding.add_symbol("widemargin_out_of_range", ctypes.addressof(FOUND))


def _refuse(context: Any, builder: Any, wrong: Any, index: Any, size: Any, sentence: str) -> None:
    """Raise where ``wrong``, with the function and the line that are being compiled before the sentence."""
    frame: Any = sys._getframe(1)
    while not isinstance(frame.f_locals.get("self"), BaseLower):
        frame = frame.f_back
    lower = frame.f_locals["self"]
    name, found = lower.func_ir.func_id, ArrayType(index.type, 2)
    sentence = f"{name.modname}.{name.func_qualname}, line {lower.loc.line}: {sentence}"
    if "widemargin_out_of_range" not in builder.module.globals:
        cgutils.add_global_variable(builder.module, found, "widemargin_out_of_range")
    with cgutils.if_unlikely(builder, wrong):
        values = builder.insert_value(builder.insert_value(Constant(found, None), index, 0), size, 1)
        builder.store(values, builder.module.globals["widemargin_out_of_range"])
        context.call_conv.return_user_exc(builder, OutOfRange, (sentence,), lower.loc, name.func_name)


def check_index(context: Any, builder: Any, size: Any, index: Any, axis: Any = 0) -> None:
    """Where loops are checked, emit a test that 0 ≤ index < size."""
    if CHECKED:
        _refuse_index(context, builder, size, index, index, axis)


def _refuse_index(context: Any, builder: Any, size: Any, place: Any, index: Any, axis: Any) -> None:
    """Raise where there is no such place; ``index`` is what was asked for."""
    words = "index {index} is out of range for {size} entries"
    if isinstance(axis, int) and axis:
        words += f" of axis {axis}"
    _refuse(context, builder, builder.icmp_unsigned(">=", place, size), index, size, words)


def check_range(context: Any, builder: Any, size: Any, start: Any, stop: Any) -> None:
    """Where loops are checked, emit a test that 0 ≤ start and stop ≤ size."""
    if CHECKED:
        below = builder.icmp_signed("<", start, start.type(0))
        wrong = builder.or_(below, builder.icmp_signed(">", stop, size))
        index = builder.select(below, start, builder.sub(stop, stop.type(1)))
        _refuse(context, builder, wrong, index, size, "index {index} is out of range for {size} entries")


def _check(context: Any, builder: Any, array: Any, index_kind: Any, index: Any) -> None:
    """Test an index of a borrowed array, as far as it is made of integers and slices without a step."""
    if not CHECKED:
        return
    for axis, (kind, part) in enumerate(zip(*_parts(builder, index_kind, index), strict=True)):
        size = builder.extract_value(array, [SHAPE, axis])
        if isinstance(kind, types.Integer):
            place = _position(context, builder, kind, part, size)
            _refuse_index(context, builder, size, place, context.cast(builder, part, kind, types.intp), axis)
        elif not isinstance(kind, types.SliceType):
            return  # Numba's
        elif not kind.has_step:
            for end in (builder.extract_value(part, k) for k in (0, 1)):
                words = "a slice of {size} entries has the end {index}, and borrowed arrays do not wrap"
                _refuse(context, builder, builder.icmp_signed("<", end, end.type(0)), end, size, words)


def _check_ordinary(context: Any, builder: Any, place: Any, size: Any, axis: Any = None) -> None:
    """Stands for Numba's own test, which does not say the index; Numba has added the size to a negative one."""
    negative = builder.icmp_signed("<", place, place.type(0))
    index = builder.select(negative, builder.sub(place, size), place)
    _refuse_index(context, builder, size, place, index, axis)


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


def _parts(builder: Any, index_kind: Any, index: Any) -> tuple[Any, Any]:
    """The types and values of what an index has for each dimension."""
    if isinstance(index_kind, types.BaseTuple):
        return index_kind.types, cgutils.unpack_tuple(builder, index)
    return (index_kind,), [index]


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


def _entry(context: Any, builder: Any, kind: Any, array: Any, index_kind: Any, index: Any) -> Any:
    """The address of one entry; None where the index is not one integer for each dimension."""
    kinds, parts = _parts(builder, index_kind, index)
    if len(kinds) != kind.ndim or not all(isinstance(each, types.Integer) for each in kinds):
        return None
    return _address(builder, kind, array, _positions(context, builder, array, kinds, parts))


def _position(context: Any, builder: Any, kind: Any, part: Any, size: Any) -> Any:
    """An index as it stands; one that is written as a negative number counts from the end, as in Python."""
    if isinstance(part, Constant) and part.constant < 0:
        return builder.add(part, size)
    return context.cast(builder, part, kind, types.intp)


def _positions(context: Any, builder: Any, array: Any, kinds: Any, parts: list[Any]) -> list[Any]:
    sizes = (builder.extract_value(array, [SHAPE, axis]) for axis in range(len(kinds)))
    return [_position(context, builder, *each) for each in zip(kinds, parts, sizes, strict=True)]


def _view(context: Any, builder: Any, signature: Any, array: Any, index: Any) -> Any:
    """The rest of an array at its first indices, from one place to another in the next dimension if those are given;
    None where the index is of another sort.
    """
    kind, index_kind = signature.args
    kinds, parts = _parts(builder, index_kind, index)
    cut = isinstance(kinds[-1], types.SliceType)
    whole = kinds[:-1] if cut else kinds
    if not all(isinstance(each, types.Integer) for each in whole) or (cut and kinds[-1].has_step):
        return None
    places = _positions(context, builder, array, whole, parts[: len(whole)])
    axes = range(len(whole), kind.ndim)
    shape = [builder.extract_value(array, [SHAPE, axis]) for axis in axes]
    if cut:
        first, last = (builder.extract_value(parts[-1], k) for k in (0, 1))
        last = builder.select(builder.icmp_signed("<", last, shape[0]), last, shape[0])
        length = builder.sub(last, first)
        shape[0] = builder.select(builder.icmp_signed(">", length, length.type(0)), length, length.type(0))
        places.append(first)
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
    _check(context, builder, args[0], index_kind, args[1])
    if not isinstance(signature.return_type, types.Array):
        place = _entry(context, builder, kind, args[0], index_kind, args[1])
        return arrayobj.load_item(context, builder, kind, place)
    view = _view(context, builder, signature, args[0], args[1])
    if view is not None:
        return view
    several = isinstance(index_kind, types.BaseTuple)
    by_numba = arrayobj.getitem_array_tuple if several else arrayobj.getitem_arraynd_intp
    return by_numba(context, builder, signature, args)


@lower_builtin(operator.setitem, BorrowedArray, types.Any, types.Any)
def _set_entry(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    (kind, index_kind, value_kind), (array, index, value) = signature.args, args
    _check(context, builder, array, index_kind, index)
    place = _entry(context, builder, kind, array, index_kind, index)
    if place is None:
        return arrayobj.setitem_array(context, builder, signature, args)
    value = context.cast(builder, value, value_kind, kind.dtype)
    arrayobj.store_item(context, builder, kind, value, place)


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


@intrinsic
def flat(typingctx, array):
    """A C-ordered array as one borrowed dimension: its stride is then known to the compiler."""
    if array.layout != "C":
        raise TypingError("flat takes C-ordered arrays only")
    line = BorrowedArray(array.dtype, 1, "C", not array.mutable)

    def codegen(context, builder, signature, args):
        data, size = builder.extract_value(args[0], DATA), builder.extract_value(args[0], ENTRIES)
        step = context.get_abi_sizeof(context.get_data_type(array.dtype))
        return _array(context, builder, line, data, [size], [context.get_constant(types.intp, step)])

    return line(array), codegen


@intrinsic
def column(typingctx, array):
    """A C-ordered array of one column, which the compiler then knows: it leaves out what is for several."""

    def codegen(context, builder, signature, args):
        step = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        shape = [builder.extract_value(args[0], ENTRIES), context.get_constant(types.intp, 1)]
        return _array(context, builder, array, builder.extract_value(args[0], DATA), shape, [step, step])

    if array.layout != "C" or array.ndim != 2 or not isinstance(array, BorrowedArray):
        raise TypingError("column takes borrowed C-ordered matrices only")
    return array(array), codegen


@intrinsic
def square(typingctx, line, size):
    """The first size² entries of a C-ordered line as a borrowed array of that many rows and columns."""
    if line.layout != "C" or line.ndim != 1:
        raise TypingError("square takes C-ordered lines only")
    whole = BorrowedArray(line.dtype, 2, "C", not line.mutable)

    def codegen(context, builder, signature, args):
        step = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(line.dtype)))
        strides = [builder.mul(args[1], step), step]
        check_range(context, builder, builder.extract_value(args[0], ENTRIES), args[1], builder.mul(args[1], args[1]))
        return _array(context, builder, whole, builder.extract_value(args[0], DATA), [args[1], args[1]], strides)

    return whole(line, types.intp), codegen
