"""The larger and the smaller of two numbers, such that loops which search for extremes become vector code; the largest
number of a type.

A comparison and a choice keep the order of a loop, since NaN and the sign of zero depend on it; these promise
that neither matters. Infinities are welcome, NaN is not. Plain versions, a comparison and a choice, return the same
numbers but for the sign of zero.
"""

from typing import Any

import numpy as np
from numba import types

from ..compiling.dispatch import compile_within
from .emitting import cgutils, emitted, ir


def _extreme(name: str, plain: Any) -> Any:
    @emitted(plain)
    def extreme(typingctx, a, b):
        def codegen(context, builder, signature, args):
            number = args[0].type
            kind = ir.FunctionType(number, [number, number])
            bits = 32 if signature.return_type == types.float32 else 64
            function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.f{bits}")
            return builder.call(function, args, fastmath=("nnan", "nsz", "reassoc"))

        number = types.float32 if a == b == types.float32 else types.float64
        return number(number, number), codegen

    return extreme


larger = _extreme("maxnum", lambda a, b: a if a > b else b)
smaller = _extreme("minnum", lambda a, b: a if a < b else b)


def largest_of(array):
    """The largest finite number of an array's type."""
    return np.finfo(array.dtype).max


def _largest(array):
    number = np.finfo(str(array.dtype)).max
    return lambda array: number


compile_within(largest_of, _largest)
