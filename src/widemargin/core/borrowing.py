"""Arrays and tuples of arrays as compiled loops hold them: the caller's, neither owned nor copied.

Numba counts references to an array each time it is touched, and those atomic increments cost more than a short sparse
row. It hands a tuple to a function as all of its numbers, three hundred for a machine of forty arrays, at every call
of every part. LLVM removes most of this, after it has compiled it. A loop therefore starts
with :func:`borrow` on its arguments: an array is the same memory, not counted; a NamedTuple is the address of its
fields, which are borrowed as they are named. The caller holds the arrays for as long as the loop runs, so only
arguments may be borrowed, never arrays made inside; and what is borrowed is not returned.

An index into a borrowed array is a place: only one that is written as a number may be negative. Numba would look at the
sign of every other one.
"""

import hashlib
import operator
from functools import cache
from typing import Any

from llvmlite.ir import Constant
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import ArrayModel, PrimitiveModel
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin, lower_cast, lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, register_model
from numba.np import arrayobj

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
class _Uncounted(ArrayModel):
    """As Numba's, but for nothing in it to count."""

    def traverse(self, builder: Any) -> list[Any]:
        return []

    def has_nrt_meminfo(self) -> bool:
        return False


@lower_cast(BorrowedArray, types.Array)
def _as_any_array(context: Any, builder: Any, kind: Any, wanted: Any, value: Any) -> Any:
    return value


def _position(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """An index as it stands; one that is written as a negative number counts from the end, as in Python."""
    if isinstance(index, Constant):
        return arrayobj.fix_integer_index(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp)


def _place(context: Any, builder: Any, kind: Any, array: Any, index_kind: Any, index: Any) -> Any:
    """The address of one entry; None where the index is not one integer for each dimension."""
    several = isinstance(index_kind, types.BaseTuple)
    kinds = index_kind.types if several else (index_kind,)
    if len(kinds) != kind.ndim or not all(isinstance(each, types.Integer) for each in kinds):
        return None
    parts = cgutils.unpack_tuple(builder, index) if several else [index]
    _, _, _, _, data, shape, strides = cgutils.unpack_tuple(builder, array)
    shape, strides = cgutils.unpack_tuple(builder, shape), cgutils.unpack_tuple(builder, strides)
    parts = [
        _position(context, builder, each, part, size) for each, part, size in zip(kinds, parts, shape, strict=True)
    ]
    return cgutils.get_item_pointer2(context, builder, data, shape, strides, kind.layout, parts)


@lower_builtin(operator.getitem, BorrowedArray, types.Integer)
@lower_builtin(operator.getitem, BorrowedArray, types.BaseTuple)
def _get_entry(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, index_kind = signature.args
    place = _place(context, builder, kind, args[0], index_kind, args[1])
    if place is None:
        several = isinstance(index_kind, types.BaseTuple)
        view = arrayobj.getitem_array_tuple if several else arrayobj.getitem_arraynd_intp
        return view(context, builder, signature, args)
    return arrayobj.load_item(context, builder, kind, place)


@lower_builtin(operator.setitem, BorrowedArray, types.Any, types.Any)
def _set_entry(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, index_kind, value_kind = signature.args
    place = _place(context, builder, kind, args[0], index_kind, args[1])
    if place is None:
        return arrayobj.setitem_array(context, builder, signature, args)
    value = context.cast(builder, args[2], value_kind, kind.dtype)
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
class _Address(PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, cgutils.voidptr_t)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Borrowed

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.field(name)


@cache
def _offset(context: Any, kind: Any, place: int) -> int:
    """Bytes before a field; a tuple of fields of one type is an array to Numba."""
    layout = context.get_value_type(kind)
    if isinstance(kind, types.NamedUniTuple):
        return int(place * layout.element.get_abi_size(context.target_data))
    return int(layout.get_element_offset(context.target_data, place))


@lower_getattr_generic(Borrowed)
def _field(context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    """Load one field; a tuple in a tuple is where it is."""
    place = kind.kind.fields.index(name)
    held = kind.kind[place]
    address = cgutils.pointer_add(builder, address, _offset(context, kind.kind, place))
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
    if type(kind) is types.Array:  # where Numba counts after all, it finds no owner
        for owner in (0, 1):
            value = builder.insert_value(value, cgutils.get_null_value(value.type.elements[owner]), owner)
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
        source = context.make_array(signature.args[0])(context, builder, args[0])
        view = context.make_array(signature.return_type)(context, builder)
        itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        arrayobj.populate_array(view, source.data, [source.nitems], [itemsize], itemsize, meminfo=None)
        return view._getvalue()

    return line(array), codegen


@intrinsic
def square(typingctx, line, size):
    """The first size² entries of a C-ordered line as a borrowed array of that many rows and columns."""
    if line.layout != "C" or line.ndim != 1:
        raise TypingError("square takes C-ordered lines only")
    whole = BorrowedArray(line.dtype, 2, "C", not line.mutable)

    def codegen(context, builder, signature, args):
        source = context.make_array(signature.args[0])(context, builder, args[0])
        view = context.make_array(signature.return_type)(context, builder)
        itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(line.dtype)))
        strides = [builder.mul(args[1], itemsize), itemsize]
        arrayobj.populate_array(view, source.data, [args[1], args[1]], strides, itemsize, meminfo=None)
        return view._getvalue()

    return whole(line, types.intp), codegen
