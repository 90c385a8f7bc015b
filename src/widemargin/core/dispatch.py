"""Generic functions that dispatch on the NamedTuple class of their first argument.

A primitive such as ``row_dot`` or ``slope`` is declared once with :func:`generic`
and gets one implementation per layout, loss or kernel with ``@name.case(Class)``.
The same table serves interpreted code (tests, debugging) and code compiled by
Numba, where the choice is made at compile time and the case is inlined into its
caller. Loops are compiled with :func:`compiled`, which keeps their machine code
on disk; the cases become part of the loops that call them.

Numba counts references to the arrays of a tuple each time they are touched, and
those atomic increments cost more than a short sparse row. A loop therefore
starts with :func:`borrow` on its arrays: the same memory, not counted. The
caller holds the arrays for as long as the loop runs, so only arguments may be
borrowed, never arrays made inside.
"""

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

#: Reductions may be re-ordered and multiply-adds fused; nothing else is relaxed
#: (NaN and infinity keep their meaning).
REORDER = {"reassoc", "contract"}

OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": REORDER, "error_model": "numpy"}

compiled = njit(cache=True, **OPTIONS)


@intrinsic
def borrow(typingctx, array):
    """The same array without reference counting; for arguments of a compiled loop only."""

    def codegen(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), codegen


@intrinsic
def flat(typingctx, array):
    """A C-ordered array as one borrowed dimension: its stride is then known to the compiler."""
    if array.layout != "C":
        raise TypingError("flat takes C-ordered arrays only")
    line = types.Array(array.dtype, 1, "C", readonly=not array.mutable)

    def codegen(context, builder, signature, args):
        source = context.make_array(signature.args[0])(context, builder, args[0])
        view = context.make_array(signature.return_type)(context, builder)
        itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        populate_array(view, source.data, [source.nitems], [itemsize], itemsize, meminfo=None)
        return view._getvalue()

    return line(array), codegen


@intrinsic
def use_wide_registers(typingctx):
    """Let the loops of the function that calls this use 512-bit registers where the machine has them.

    LLVM prefers 256 bits on most such machines, for fear of a lower clock; loops that are exponentials from end to
    end run up to 1.7 times as fast with 512.
    """

    def codegen(context, builder, signature, args):
        # llvmlite writes attributes as they stand, but its own add() knows only those without a value
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


def generic(stub: Callable[..., Any]) -> Any:
    """Make ``stub`` a generic function; register cases with ``@stub.case(Class)``."""
    table: dict[Any, Callable[..., Any]] = {}

    def call(first, *rest):
        return table[type(first)](first, *rest)

    @overload(call, strict=False, jit_options={**OPTIONS, "forceinline": True})
    def _overload_of_call(first, *rest):
        return table.get(getattr(first, "instance_class", None))

    def case(cls: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            table[cls] = function
            return function

        return register

    call.case = case  # type: ignore[attr-defined]
    call.table = table  # type: ignore[attr-defined]
    call.__name__ = stub.__name__
    call.__qualname__ = stub.__qualname__
    call.__doc__ = stub.__doc__
    call.__module__ = stub.__module__
    return call
