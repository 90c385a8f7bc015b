"""Numbers that several threads read and write at once.

Without LLVM of its own :func:`claim` is not atomic: two threads may be told the same number and do the same work, to
the same bits. No number is left out.
"""

import os

from numba import types

from ..borrowing import CHECKED
from ..compiling.dispatch import inlined
from .emitting import EMITS, cgutils, emitted, ir

#: Whether a thread can let others have the processor while it waits; on Windows by another function.
YIELDS = EMITS and hasattr(os, "sched_yield")


@emitted(lambda number: number[0])
def look(typingctx, number):
    """What stands in the first place of an array, whoever writes it, when others had the processor."""

    def codegen(context, builder, sig, args):
        array = context.make_array(sig.args[0])(context, builder, args[0])
        if YIELDS:
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return builder.load_atomic(array.data, "acquire", 8)

    return number.dtype(number), codegen


def _claimed(counts, k):
    counts[k] += 1
    return counts[k] - 1


@emitted(_claimed)
def _claim(typingctx, counts, k):

    def codegen(context, builder, sig, args):
        array = context.make_array(sig.args[0])(context, builder, args[0])
        place, one = builder.gep(array.data, [args[1]]), ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", place, one, "monotonic")

    return types.int64(counts, types.int64), codegen


@inlined
def claim(counts, k):
    """counts[k], which is one more from then on: no two threads are told the same number."""
    if CHECKED:
        counts[k]  # tests the index
    return _claim(counts, k)
