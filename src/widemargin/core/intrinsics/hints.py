"""Hints to the processor and to LLVM, which change no value. Plain versions do nothing.

But :func:`one_by_one` keeps LLVM from re-ordering a sum: without the hint a sum differs in its last bits.
"""

from typing import Any

from numba import types

from .emitting import cgutils, emitted, ir


def emit_prefetch(builder: Any, pointer: Any) -> None:
    """Emit a request for the cache line at a pointer, which changes nothing and may point anywhere."""
    pointer, i32 = builder.bitcast(pointer, cgutils.voidptr_t), ir.IntType(32)
    function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
    function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    builder.call(function, [pointer, i32(0), i32(3), i32(1)])


@emitted(lambda array, index: None)
def prefetch(typingctx, array, index):
    """Ask the memory system for the cache line of ``array[index]``; changes nothing."""

    def codegen(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        emit_prefetch(builder, builder.gep(view.data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, index), codegen


@emitted(lambda: None)
def one_by_one(typingctx):
    """Keep the loop that this stands in from becoming vector code; it costs nothing."""

    def codegen(context, builder, signature, args):
        nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "", side_effect=True)
        builder.call(nothing, [])
        return context.get_dummy_value()

    return types.void(), codegen


@emitted(lambda: None)
def use_wide_registers(typingctx):
    """Let the loops of the function that calls this use 512-bit registers where the machine has them.

    LLVM prefers 256 bits on most such machines, for fear of a lower clock; loops with many exponentials are faster
    with 512.
    """

    def codegen(context, builder, signature, args):
        # llvmlite writes attributes as they stand, but its own add() knows only those without a value
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen
