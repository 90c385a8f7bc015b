"""How loops are compiled: Numba's compiler, without what compiled loops do not need.

Numba optimises each function, makes machine code of it, and does so again for every function that it is part of; here
the code of parts stays unfinished until the loop that Python calls is compiled whole. Functions of Numba's own, such as
``max`` and ``np.empty``, are parts of our loops as ours are. Passes that find nothing to do are left out. What an
operator returns for numbers and arrays is remembered, where Numba tries a dozen cases each time.

What LLVM is given stays the same but for what it would remove at once. Functions of others are compiled as ever.
"""

import gc
from functools import cache
from typing import Any, NamedTuple

from llvmlite.ir import IntType, IRBuilder
from numba import types
from numba.core import base, cgutils, event, typed_passes, untyped_passes
from numba.core.callconv import CPUCallConv
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.cpu import CPUContext
from numba.core.ir import Arg, Assign, Del
from numba.core.ir_utils import build_definitions, get_definition, guard
from numba.core.lowering import Lower
from numba.core.runtime.context import NRTContext
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import NativeLowering
from numba.core.typing.context import Context
from numba.core.typing.templates import _IntrinsicTemplate, _OverloadFunctionTemplate

from .borrowing import borrow
from .calling import Wrapper, declare_loop, load_arguments

# ---------------------------------------------------------------- code that is finished once


class _Whole(JITCodeLibrary):
    """Code of a loop: optimised once, with all its parts, and not each function before that."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class _Unfinished(_Whole):
    """Code of a part: the loop that it is linked to optimises it and makes machine code of it, once."""

    def get_pointer_to_function(self, name: str) -> int:
        return 0  # there is none: Python calls the interpreted function

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Objects of Python, of which compiled parts have none."""


# ---------------------------------------------------------------- passes


@register_pass(mutates_CFG=False, analysis_only=False)
class _SSA(untyped_passes.ReconstructSSA):
    """Numba's, without the lifetimes of variables, which are found again before they are used."""

    _name = "widemargin_ssa"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = reconstruct_ssa(state.func_ir)
        self._patch_locals(state)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _NoPhis(typed_passes.PreLowerStripPhis):
    """Numba's, without the lifetimes of variables."""

    _name = "widemargin_no_phis"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


#: Passes of Numba that loops do without, and what stands in their place. Loops have no closures, no expressions over
#: whole arrays, no ``with``, no calls of ``literally``, nothing that Numba inlines or runs in parallel by itself.
LEAN = {
    **dict.fromkeys((
        untyped_passes.IRProcessing, untyped_passes.WithLifting, untyped_passes.InlineClosureLikes,
        untyped_passes.RewriteDynamicRaises, untyped_passes.MakeFunctionToJitFunction, untyped_passes.InlineInlinables,
        untyped_passes.FindLiterallyCalls, untyped_passes.LiteralUnroll,
        untyped_passes.LiteralPropagationSubPipelinePass, typed_passes.InlineOverloads, typed_passes.NopythonRewrites,
        typed_passes.NoPythonSupportedFeatureValidation, typed_passes.DumpParforDiagnostics,
    )),
    untyped_passes.ReconstructSSA: _SSA,
    typed_passes.PreLowerStripPhis: _NoPhis,
}  # fmt: skip


class _Passes(PassManager):
    """Passes one after the other, without Numba's notes on each: its time, and the types in words."""

    def _runPass(self, index: int, step: Any, state: Any) -> None:
        step.analysis = self._analysis
        step.run_initialization(state)
        step.run_pass(state)
        step.run_finalizer(state)


class _Lower(Lower):
    """Numba's translation to LLVM, without sizes of variables for debuggers, and without the beginning and the end of
    those that own nothing, which Numba fills with zeros, reads and overwrites where their lives begin and end. Ranges
    are counted down as Numba does, in fewer words: it tells of any step, and of what it is to raise for a step of 0.
    """

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        if self._owns(name):
            return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)
        with self.builder.goto_entry_block():
            return self.builder.alloca(lltype, name=name)

    def _owns(self, name: str) -> bool:
        return _is_counted(self.context.data_model_manager, self.typeof(name))

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if self._owns(name):
            super().storevar(value, name, argidx)
        elif name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if self._owns(name):
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if self._is_plain_range(expr):
            return self._range(resty, expr)
        if expr.op == "getiter" and self._is_plain_range(guard(get_definition, self.func_ir, expr.value)):
            return self._begin_range(resty, self.loadvar(expr.value.name))
        if expr.op == "iternext" and isinstance(self.typeof(expr.value.name), types.RangeIteratorType):
            return self._next_of_range(resty, self.loadvar(expr.value.name))
        if expr.op in ("pair_first", "pair_second") and not _is_counted(self.context.data_model_manager, resty):
            return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def _is_plain_range(self, made_by: Any) -> bool:
        """Whether an expression is a range of step 1."""
        if getattr(made_by, "op", None) != "call" or made_by.vararg is not None or made_by.kws:
            return False
        function = self.typeof(made_by.func.name)
        return isinstance(function, types.Function) and function.typing_key is range and len(made_by.args) < 3

    def _range(self, kind: Any, call: Any) -> Any:
        """A range of step 1: its first number, the one behind its last, the step."""
        builder, number = self.builder, self.context.get_value_type(kind.dtype)
        ends = [
            self.context.cast(builder, self.loadvar(each.name), self.typeof(each.name), kind.dtype)
            for each in call.args
        ]
        value = self.context.get_constant_undef(kind)
        for k, part in enumerate((*[number(0)][len(ends) - 1 :], *ends, number(1))):
            value = builder.insert_value(value, part, k)
        return value

    def _begin_range(self, kind: Any, numbers: Any) -> Any:
        """A range of step 1 before its first number: where the next one and the count of those left stand."""
        builder = self.builder
        first, last = (builder.extract_value(numbers, k) for k in (0, 1))
        with builder.goto_entry_block():
            current, left = builder.alloca(first.type), builder.alloca(first.type)
        builder.store(first, current)
        count = builder.sub(last, first)
        builder.store(builder.select(builder.icmp_signed(">", count, count.type(0)), count, count.type(0)), left)
        value = self.context.get_constant_undef(kind)
        for k, part in enumerate((current, last, first.type(1), left)):
            value = builder.insert_value(value, part, k)
        return value

    def _next_of_range(self, kind: Any, iterator: Any) -> Any:
        """The next number of a range, and whether there is one. They go through memory, as with Numba: were they in
        registers from the start, LLVM would unroll more loops than it is worth.
        """
        builder = self.builder
        current, step, left = (builder.extract_value(iterator, k) for k in (0, 2, 3))
        with builder.goto_entry_block():
            number, is_one = builder.alloca(step.type), builder.alloca(IntType(1))
        count = builder.load(left)
        more = builder.icmp_signed(">", count, count.type(0))
        builder.store(more, is_one)
        with builder.if_then(more):
            value = builder.load(current)
            builder.store(value, number)
            builder.store(builder.sub(count, count.type(1), flags=["nsw"]), left)
            builder.store(builder.add(value, step), current)
        pair = builder.insert_value(self.context.get_constant_undef(kind), builder.load(number), 0)
        return builder.insert_value(pair, builder.load(is_one), 1)


class _LowerLoop(_Lower):
    """The translation of a loop, which Python alone calls: it finds its arguments in memory, and does not count those
    that it borrows at once.
    """

    def setup_function(self, fndesc: Any) -> None:
        self.function = declare_loop(self.context, self.module, fndesc)
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def extract_function_arguments(self) -> Any:
        self.fnargs = load_arguments(self.context, self.builder, self.fndesc)
        self._lent = self._find_lent()
        return self.fnargs

    def _find_lent(self) -> set[str]:
        """The arguments that :func:`borrow` alone is given."""
        lent = set(self.fndesc.args)
        for block in self.blocks.values():
            for each in block.body:
                if not isinstance(each, Del) and not (isinstance(each, Assign) and self._only_lends(each.value)):
                    lent.difference_update(used.name for used in each.list_vars())
        return lent

    def _only_lends(self, value: Any) -> bool:
        """Whether it is an argument, or a loan of one."""
        if getattr(value, "op", None) != "call":
            return isinstance(value, Arg)
        return getattr(self.typeof(value.func.name), "typing_key", None) is borrow

    def _owns(self, name: str) -> bool:
        return name not in self._lent and super()._owns(name)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        return self.fnargs[inst.value.index] if inst.target.name in self._lent else super().lower_assign(ty, inst)

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        """What Python calls."""
        module = self.context.create_module("wrapper")
        loop = declare_loop(self.context, module, self.fndesc)
        Wrapper(self.context, module, loop, self.fndesc, self.env, self.call_helper, release_gil).build()
        self.library.add_ir_module(module)


@cache
def _is_counted(models: Any, kind: Any) -> bool:
    """Whether values of a type own something that Numba counts."""
    return bool(models[kind].contains_nrt_meminfo())


# ---------------------------------------------------------------- calls and counts


class _Calls(CPUCallConv):
    """Numba's calls of functions; what a part of a loop raises, the loop hands on as it is, for loops catch nothing."""

    class Status(NamedTuple):
        code: Any
        is_error: Any

    def call_function(
        self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None
    ) -> tuple[Any, Any]:
        caller = builder.function
        # Python calls, or "no number" is told
        if caller.args[1].name != "excinfo" or isinstance(resty, types.Optional):
            return super().call_function(builder, callee, resty, argtys, args, attrs)
        with builder.goto_entry_block():
            result = builder.alloca(self.get_return_type(resty).pointee)
        given = self._get_arg_packer(argtys).as_arguments(builder, args)
        code = builder.call(callee, [result, caller.args[1], *given], attrs=attrs or ())
        status = self.Status(code, builder.icmp_signed("!=", code, code.type(0)))
        return status, self.context.get_returned_value(builder, resty, builder.load(result))

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        if isinstance(status, self.Status):
            builder.ret(status.code)
        else:
            super().return_status_propagate(builder, status)


class _Owners(NRTContext):
    """Numba's counting, which finds the owners in tuples of arrays without taking all else out of them."""

    def get_meminfos(self, builder: Any, ty: Any, val: Any) -> list[Any]:
        if not _is_counted(self._context.data_model_manager, ty):
            return []
        if type(ty) is types.Array:
            return [(ty, builder.extract_value(val, 0))]
        if isinstance(ty, types.BaseTuple):
            parts = ((each, builder.extract_value(val, k)) for k, each in enumerate(ty))
            return [owner for each, part in parts for owner in self.get_meminfos(builder, each, part)]
        return super().get_meminfos(builder, ty, val)


class _Target(CPUContext):
    """Numba's target context with calls and counting of our own, which shares its state.

    What was defined since is found in the registries it has, where Numba imports all of itself again, each time that it
    looks for a function and finds none, such as ``__array__`` of every array.
    """

    def __init__(self, context: Any) -> None:
        context.typing_context.refresh()  # first, as Numba does: it tries functions in the order in which they came
        context.refresh()
        self.__dict__ = context.__dict__

    def refresh(self) -> None:
        for each in list(self._registries):
            self.install_registry(each)

    @property
    def call_conv(self) -> Any:
        return _Calls(self)

    @property
    def nrt(self) -> Any:
        return _Owners(self, self.enable_nrt)


# ---------------------------------------------------------------- what is known of calls


class _Options(Flags):
    """Options of a compilation. Numba looks up each call that it resolves by them: here they are compared at a glance.

    Its own hash is of the names of all options, and so the same for all of them.
    """

    #: What is of no matter to the functions that are called: how Python calls this one.
    _OWN = {"no_cpython_wrapper", "no_cfunc_wrapper", "release_gil", "forceinline"}
    _HASH = hash(Flags())
    _DEFAULTS = Flags().values()
    _told: dict[str, Any] | None = None

    def __hash__(self) -> int:
        return self._HASH

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Options) and self._for_calls() == other._for_calls()

    def _for_calls(self) -> dict[str, Any]:
        """Those that are not as Numba has them by default; no option changes once it was looked at."""
        if self._told is None:
            self._told = {
                name: value
                for name, value in self._values.items()
                if name not in self._OWN and value != self._DEFAULTS[name]
            }
        return self._told


class _Typing(Context):
    """Numba's typing context, with a memory of what operators return for numbers and arrays.

    Numba tries a dozen cases for each sum or comparison that it meets, some twice. All else is its own context's: the
    two share their state.
    """

    _KNOWN: dict[Any, Any] = {}

    def __init__(self, context: Any) -> None:
        self.__dict__ = context.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        key = (func if isinstance(func, types.Type) else self._lookup_global(func)), args
        if kws or not _is_always_the_same(*key):
            return super().resolve_function_type(func, args, kws)
        found = self._KNOWN.get(key)
        if found is None:
            found = self._KNOWN[key] = super().resolve_function_type(func, args, kws)
        return found


def _is_always_the_same(func: Any, args: Any) -> bool:
    """Whether a call is of an intrinsic function, or of an operator with numbers and arrays."""
    if type(func) is not types.Function:
        return False
    if getattr(func.typing_key, "__module__", None) == "_operator":
        return all(isinstance(each, (types.Number, types.Boolean, types.Literal, types.Array)) for each in args)
    return all(issubclass(each, _IntrinsicTemplate) for each in func.templates)


#: The contexts of our loops for those of Numba: one object each, by which Numba knows what it has compiled.
_typing, _target = cache(_Typing), cache(_Target)


# ---------------------------------------------------------------- pipelines


def _pipeline(
    name: str,
    library: type[JITCodeLibrary],
    forced: bool = False,
    changes: dict[Any, Any] = LEAN,
    lower: type[Lower] = _Lower,
) -> type[CompilerBase]:
    """Numba's pipeline with some passes changed, whose end puts its code into a library of this kind, to be inlined
    wherever it is called if so ``forced``.

    That is said at the end and not by an option, since what a function calls is compiled again for other options.
    """

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = name
        lowering_class = lower

        def run_pass(self, state: Any) -> bool:
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            state.flags = state.flags.copy()
            state.flags.forceinline = forced
            return super().run_pass(state)

    passes = _Passes("nopython")

    class Pipeline(CompilerBase):
        def __init__(self, typing: Any, target: Any, code: Any, args: Any, result: Any, flags: Any, names: Any) -> None:
            super().__init__(_typing(typing), _target(target), code, args, result, _Options(flags), names)

        def define_pipelines(self) -> list[Any]:
            if not passes.finalized:  # the same for all functions
                ours = {**changes, NativeLowering: Lowering}
                steps = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
                passes.passes = [(ours.get(step, step), why) for step, why in steps if ours.get(step, step) is not None]
                passes.finalize()
            return [passes]

    return Pipeline


LOOP = _pipeline("widemargin_loop", _Whole, lower=_LowerLoop)
PART = _pipeline("widemargin_part", _Unfinished)
INLINED_PART = _pipeline("widemargin_inlined_part", _Unfinished, forced=True)
_PART_OF_NUMBA = _pipeline("widemargin_part_of_numba", _Unfinished, changes={})

_decorator = _OverloadFunctionTemplate._get_jit_decorator


def _decorator_of_parts(template: Any) -> Any:
    """What compiles a function of Numba's own: within our loops it is a part as ours are."""
    decorator = _decorator(template)
    if not isinstance(template.context, _Typing) or "pipeline_class" in template._jit_options:
        return decorator
    return lambda **options: decorator(**options, pipeline_class=_PART_OF_NUMBA, no_cfunc_wrapper=True)


_OverloadFunctionTemplate._get_jit_decorator = _decorator_of_parts

#: Whether a translation takes a place in the source: Numba reads its signature for each sum and index anew.
base._has_loc = cache(base._has_loc)


# ---------------------------------------------------------------- peace


class _Undisturbed(event.Listener):
    """While a loop is compiled, keeps off what costs more than it tells.

    Python's collector of cyclic garbage walks a million objects in vain. Numba has a timer for each function under way,
    and tells all of them of every call of LLVM: here that of the loop is told, those of its parts are not.
    """

    def __init__(self) -> None:
        self.was_enabled = False
        self.told = event._registered["numba:llvm_lock"]
        self.under_way: list[Any] = []

    def on_start(self, found: event.Event) -> None:
        if not self.under_way:
            self.was_enabled = gc.isenabled()
            gc.disable()
        newest = self.told[-1] if self.under_way and self.told else None
        if isinstance(newest, event.TimingListener):
            self.told.remove(newest)
        else:
            newest = None
        self.under_way.append(newest)

    def on_end(self, found: event.Event) -> None:
        timer = self.under_way.pop()
        if timer is not None:
            self.told.append(timer)  # Numba takes it off itself
        if not self.under_way and self.was_enabled:
            gc.enable()


event.register("numba:compile", _Undisturbed())
