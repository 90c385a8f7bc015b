"""How loops are compiled: Numba's compiler, without what compiled loops do not need.

Numba optimises each function, makes machine code of it, and does so again for every function that it is part of; here
the code of parts stays unfinished until the loop that Python calls is compiled whole. Functions of Numba's own, such as
``max`` and ``np.empty``, are parts of our loops as ours are. Passes that find nothing to do are left out. What an
operator returns for numbers and arrays is remembered, where Numba tries a dozen cases each time.

What LLVM is given stays the same but for what it would remove at once. Functions of others are compiled as ever.
"""

import gc
from functools import cache
from typing import Any

from numba import types
from numba.core import cgutils, config, event, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import NativeLowering
from numba.core.typing.context import Context
from numba.core.typing.templates import _IntrinsicTemplate, _OverloadFunctionTemplate

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
    """Numba's translation to LLVM, without sizes of variables for debuggers, and without the end of those that own
    nothing, which Numba reads and overwrites where their lives end.
    """

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)

    def _owns(self, name: str) -> bool:
        return bool(self.context.data_model_manager[self.typeof(name)].contains_nrt_meminfo())

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


#: The typing context of our loops for one of Numba's: one object, by which Numba knows what it has compiled.
_typing = cache(_Typing)


# ---------------------------------------------------------------- pipelines


def _pipeline(
    name: str, library: type[JITCodeLibrary], forced: bool = False, changes: dict[Any, Any] = LEAN
) -> type[CompilerBase]:
    """Numba's pipeline with some passes changed, whose end puts its code into a library of this kind, to be inlined
    wherever it is called if so ``forced``.

    That is said at the end and not by an option, since what a function calls is compiled again for other options.
    """

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = name
        lowering_class = Lower if config.DEBUGINFO_DEFAULT else _Lower

        def run_pass(self, state: Any) -> bool:
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            state.flags = state.flags.copy()
            state.flags.forceinline = forced
            return super().run_pass(state)

    passes = _Passes("nopython")

    class Pipeline(CompilerBase):
        def __init__(self, typing: Any, target: Any, code: Any, args: Any, result: Any, flags: Any, names: Any) -> None:
            super().__init__(_typing(typing), target, code, args, result, _Options(flags), names)
            # Numba looks for a function "__array__" wherever an array is used, and imports all of itself to find none
            context = self.state.targetctx
            context.refresh = lambda: [context.install_registry(each) for each in list(context._registries)]

        def define_pipelines(self) -> list[Any]:
            if not passes.finalized:  # the same for all functions
                ours = {**changes, NativeLowering: Lowering}
                steps = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
                passes.passes = [(ours.get(step, step), why) for step, why in steps if ours.get(step, step) is not None]
                passes.finalize()
            return [passes]

    return Pipeline


LOOP = _pipeline("widemargin_loop", _Whole)
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
