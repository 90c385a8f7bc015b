"""How Python calls a loop: its arguments are written into one block of memory, whose address is all that the loop gets.

Numba's own wrapper takes each number and array out of its tuple by itself, with what to do about each failure, and
hands all of their numbers to the function: two thousand lines to LLVM for the loop of a machine with forty arrays. Here
one call of Python's ``PyArg_ParseTuple`` writes them where the loop reads them. What else may be an argument, Numba
unpacks.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.callwrapper import PyCallWrapper, _ArgManager
from numba.core.runtime.nrtdynmod import incref_decref_ty

from .borrowing import layout

#: How Python's own conversions call these types.
UNITS = {types.float64: "d", types.int64: "L"}
INT = ir.IntType(32)
#: That a function keeps no address that it is given, in the words of this LLVM.
STAYS = next(words for words in ("captures(none)", "nocapture") if words in ir.values.ArgumentAttributes._known)


@cache
def block_of(kinds: tuple[Any, ...]) -> Any:
    """The arguments as one tuple, which stands in memory as Numba has tuples there."""
    return types.BaseTuple.from_types(kinds)


def declare_loop(context: Any, module: Any, described: Any) -> Any:
    """The loop as a function of the addresses of its result, of what it raises, and of its arguments, which stay."""
    result, raised = context.call_conv.get_function_type(described.restype, ()).args
    kind = ir.FunctionType(INT, [result, raised, cgutils.voidptr_t])
    function = cgutils.get_or_insert_function(module, kind, described.mangled_name)
    for each, name in zip(function.args, ("retptr", "excinfo", "arguments"), strict=True):
        each.name = name
        each.add_attribute("noalias")
        each.add_attribute(STAYS)
    block = function.args[2].attributes
    block.align = 8
    block.dereferenceable = layout(context, block_of(described.argtypes)).size
    return function


def load_arguments(context: Any, builder: Any, described: Any) -> list[Any]:
    """The arguments, in the loop."""
    block, kinds = builder.function.args[2], described.argtypes
    return [
        builder.load(cgutils.pointer_add(builder, block, start, context.get_value_type(kind).as_pointer()))
        for kind, start in zip(kinds, layout(context, block_of(kinds)).offsets, strict=True)
    ]


class Wrapper(PyCallWrapper):
    """What Python calls: it fills the block, calls the loop, gives the arrays back, and makes an object of the result.

    Arrays are held as Numba does, by a count of their owner, for as long as the loop runs.
    """

    def build_wrapper(self, api: Any, builder: Any, closure: Any, args: Any, kws: Any) -> None:
        """Write the function, whose name and arguments are Numba's."""
        environment = self.get_env(api, builder)
        kind = block_of(self.fndesc.argtypes)
        size = layout(self.context, kind).size
        block = builder.bitcast(builder.alloca(ir.ArrayType(ir.IntType(64), -(-size // 8))), cgutils.voidptr_t)
        cgutils.memset(builder, block, ir.IntType(64)(size), 0)
        leaves = list(self._leaves(kind))
        release = self._release([place for held, place in leaves if type(held) is types.Array])
        failed = builder.append_basic_block("failed")
        with builder.goto_block(failed):
            builder.call(release, [block])
            builder.ret(api.get_null_object())
        others = _ArgManager(self.context, builder, api, environment, failed, len(leaves))
        self._unpack(api, builder, args, block, leaves, others)
        status, result = self._call(api, builder, block)
        others.emit_cleanup()
        builder.call(release, [block])
        with builder.if_then(status.is_ok, likely=True):
            with builder.if_then(status.is_none):
                api.return_none()
            builder.ret(api.from_native_return(self._simplified_return_type(), result, environment))
        self.context.call_conv.raise_error(builder, api, status)
        builder.ret(api.get_null_object())

    def _unpack(self, api: Any, builder: Any, args: Any, block: Any, leaves: Any, others: _ArgManager) -> None:
        """Fill the block; of what is neither an array nor a usual number, Numba takes care."""
        convert, places, later = self._convert(api), [], []
        for kind, start in leaves:
            place = cgutils.pointer_add(builder, block, start)
            if type(kind) is types.Array:
                places += [convert, place]
            elif kind in UNITS:
                places.append(place)
            else:
                found = builder.alloca(INT if kind is types.boolean else api.pyobj)
                places.append(found)
                later.append((kind, found, place))
        words = "".join(map(_units, self.fndesc.argtypes))
        words = self.context.insert_const_string(self.module, f"{words}:{self.fndesc.qualname}")
        variadic = ir.FunctionType(INT, [api.pyobj, words.type], var_arg=True)
        parse = cgutils.get_or_insert_function(self.module, variadic, "PyArg_ParseTuple")
        done = builder.call(parse, [args, words, *places])
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, done)):
            builder.branch(others.nextblk)
        for kind, found, place in later:
            value = builder.load(found)
            if isinstance(kind, types.Omitted):
                continue
            value = cgutils.is_not_null(builder, value) if kind is types.boolean else others.add_arg(value, kind)
            builder.store(value, builder.bitcast(place, value.type.as_pointer()))

    def _call(self, api: Any, builder: Any, block: Any) -> tuple[Any, Any]:
        """Call the loop, other threads of Python beside it where they may run."""
        calls, kind = self.context.call_conv, self.fndesc.restype
        result = cgutils.alloca_once(builder, calls.get_return_type(kind).pointee)
        raised = cgutils.alloca_once(builder, self.func.args[1].type.pointee)
        thread = api.save_thread() if self.release_gil else None
        code = builder.call(self.func, [result, raised, block], attrs=("noinline",))
        if thread is not None:
            api.restore_thread(thread)
        status = calls._get_return_status(builder, code, builder.load(raised))
        return status, self.context.get_returned_value(builder, kind, builder.load(result))

    def _convert(self, api: Any) -> Any:
        """A function that writes an array where it is told; 0 says that it could not."""
        kind = ir.FunctionType(INT, [api.pyobj, cgutils.voidptr_t])
        convert = ir.Function(self.module, kind, "convert")
        convert.linkage = "internal"
        builder = ir.IRBuilder(convert.append_basic_block())
        code = self.context.get_python_api(builder).nrt_adapt_ndarray_from_python(*convert.args)
        builder.ret(builder.zext(cgutils.is_null(builder, code), INT))
        return convert

    def _release(self, places: list[int]) -> Any:
        """A function that lets go of the arrays in a block; one that was not written has no owner."""
        release = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t]), "release")
        release.linkage = "internal"
        release.attributes.add("noinline")
        builder = ir.IRBuilder(release.append_basic_block())
        let_go = cgutils.get_or_insert_function(self.module, incref_decref_ty, "NRT_decref")
        for start in places:
            place = cgutils.pointer_add(builder, release.args[0], start, cgutils.voidptr_t.as_pointer())
            builder.call(let_go, [builder.load(place)])
        builder.ret_void()
        return release

    def _leaves(self, kind: Any, start: int = 0) -> Iterator[tuple[Any, int]]:
        """All that is not a tuple in a tuple, in its order, each with the bytes before it."""
        for held, place in zip(kind, layout(self.context, kind).offsets, strict=True):
            if isinstance(held, types.BaseTuple):
                yield from self._leaves(held, start + place)
            else:
                yield held, start + place


def _units(kind: Any) -> str:
    """A type in the words of ``PyArg_ParseTuple``."""
    if isinstance(kind, types.BaseTuple):
        return f"({''.join(map(_units, kind))})"
    return "O&" if type(kind) is types.Array else UNITS.get(kind, "p" if kind is types.boolean else "O")
