"""What stands for borrowed arrays where Numba's inside is not known: ordinary arrays, by Numba's manual."""

from collections.abc import Callable
from typing import Any

from numba.extending import intrinsic, overload

#: Options of loops, of their parts, and of parts that are inlined wherever they are called.
LOOP: dict[str, Any] = {}
PART: dict[str, Any] = {}
INLINED_PART: dict[str, Any] = {"forceinline": True}


def _in_loops(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that compiled loops may call."""
    overload(function, strict=False)(lambda *types: function)
    return function


@intrinsic
def borrow(typingctx, value):
    """The same array or tuple, counted once more; Numba's functions cannot return what has records, as some have."""

    def codegen(context, builder, signature, args):
        context.nrt.incref(builder, signature.return_type, args[0])
        return args[0]

    return value(value), codegen


@_in_loops
def flat(array):
    """A C-ordered array as one dimension."""
    return array.reshape(array.size)


@_in_loops
def column(array):
    """The same matrix, which has one column."""
    return array


@_in_loops
def square(line, size):
    """The first size² entries of a C-ordered line as a matrix of that many rows and columns."""
    return line[: size * size].reshape((size, size))


def keep(*_: Any) -> None:
    """No machine code is kept on disk."""
