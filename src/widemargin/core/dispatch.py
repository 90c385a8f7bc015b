"""Generic functions that dispatch on the NamedTuple class of their first argument.

A primitive such as ``row_dot`` or ``slope`` is declared once with :func:`generic`
and gets one implementation per layout, loss or kernel with ``@name.case(Class)``.
The same table serves interpreted code (tests, debugging) and code compiled by
Numba, where the choice is made at compile time and the case is inlined into its
caller. Loops that Python calls are compiled with :func:`compiled`, which keeps
their machine code on disk; functions that only such loops call are
:func:`inlined`, parts of them as the cases are. Numba would optimise each part
and make machine code of it, and once more of every function that it is part of;
here parts stay unfinished until the loop that Python calls is compiled whole,
which takes half the time where loops are deep. Where Python calls a part, as
tests do, it is interpreted.

Where machine code is kept, and when it is out of date, is in :mod:`.machine_code`;
what a loop may do with its arguments in :mod:`.borrowing`.
"""

import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core import event, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic, overload

from .machine_code import GENERICS, MachineCode

#: Reductions may be re-ordered and multiply-adds fused; nothing else is relaxed
#: (NaN and infinity keep their meaning).
REORDER = {"reassoc", "contract"}

OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": REORDER, "error_model": "numpy", "no_cfunc_wrapper": True}

#: Seconds of compilation in silence; then a line says what takes so long.
SILENCE = 1.0


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, and keep the machine code on disk where some folder can be written."""
    dispatcher = njit(pipeline_class=_LOOP, **OPTIONS)(function)
    dispatcher._cache = MachineCode(function)
    return dispatcher


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a part of the compiled loops that call it; where Python calls it, it is interpreted."""
    _compile_within(function, lambda *types, **named: function)
    return function


def apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a part of the compiled loops that call it, with one copy for all places that do.

    For parts that are large, called at several places, and not often enough for a call to cost anything.
    """
    _compile_within(function, lambda *types, **named: function, forced=False)
    return function


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


#: Passes that find nothing to do: loops have no closures, no expressions over whole arrays, no ``with``, no calls of
#: ``literally``, nothing that Numba inlines or runs in parallel by itself.
IDLE = (
    untyped_passes.WithLifting, untyped_passes.InlineClosureLikes, untyped_passes.RewriteDynamicRaises,
    untyped_passes.MakeFunctionToJitFunction, untyped_passes.InlineInlinables, untyped_passes.FindLiterallyCalls,
    untyped_passes.LiteralUnroll, untyped_passes.LiteralPropagationSubPipelinePass, typed_passes.InlineOverloads,
    typed_passes.NopythonRewrites, typed_passes.NoPythonSupportedFeatureValidation, typed_passes.DumpParforDiagnostics,
)  # fmt: skip


class _Options(Flags):
    """Options of a compilation. Numba looks up each call that it resolves by them: here they are compared at a glance.

    Its own hash is of the names of all options, and so the same for all of them.
    """

    _HASH = hash(Flags())

    def __hash__(self) -> int:
        return self._HASH

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Flags) and self._values == other._values) or super().__eq__(other)


class _Passes(PassManager):
    """Passes one after the other, without Numba's notes on each: its time, and the types in words."""

    def _runPass(self, index: int, step: Any, state: Any) -> None:
        step.analysis = self._analysis
        step.run_initialization(state)
        step.run_pass(state)
        step.run_finalizer(state)


def _pipeline(name: str, library: type[JITCodeLibrary], forced: bool) -> type[CompilerBase]:
    """Numba's pipeline, whose end puts its code into a library of this kind, to be inlined wherever it is called if so
    ``forced``.

    That is said at the end and not by an option, since what a function calls is compiled again for other options.
    """

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = name

        def run_pass(self, state: Any) -> bool:
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            state.flags = state.flags.copy()
            state.flags.forceinline = forced
            return super().run_pass(state)

    passes = _Passes("nopython")

    class Pipeline(CompilerBase):
        def __init__(self, typing: Any, target: Any, code: Any, args: Any, result: Any, flags: Any, names: Any) -> None:
            super().__init__(typing, target, code, args, result, _Options(flags), names)

        def define_pipelines(self) -> list[Any]:
            if not passes.finalized:  # the same for all functions
                passes.passes = [
                    (Lowering if step is NativeLowering else step, why)
                    for step, why in DefaultPassBuilder.define_nopython_pipeline(self.state).passes
                    if step not in IDLE
                ]
                passes.finalize()
            return [passes]

    return Pipeline


_LOOP = _pipeline("widemargin_loop", _Whole, False)
_PART, _INLINED_PART = (
    _pipeline("widemargin_part", _Unfinished, False),
    _pipeline("widemargin_inlined_part", _Unfinished, True),
)


def _compile_within(function: Callable[..., Any], choose: Callable[..., Any], forced: bool = True) -> None:
    """Let compiled loops that call ``function`` hold the code that ``choose`` finds for the types of its arguments.

    Where it is ``forced``, at every place that calls it; else once, unless it is short.
    """
    options = {**OPTIONS, "pipeline_class": _INLINED_PART if forced else _PART}
    overload(function, strict=False, jit_options=options)(choose)


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


class _CompilationNotice(event.Listener):
    """Says once in a process, on the logger "widemargin", that a wait is compilation, and where its result is kept."""

    def __init__(self) -> None:
        self.said, self.spent, self.since, self.depth = False, 0.0, 0.0, 0
        self.timer: threading.Timer | None = None

    @staticmethod
    def _is_ours(found: event.Event) -> bool:
        function = getattr(found.data["dispatcher"], "py_func", None)  # other libraries compile too
        return str(getattr(function, "__module__", "")).startswith("widemargin.")

    def on_start(self, found: event.Event) -> None:
        if self.said or not self._is_ours(found):
            return
        self.depth += 1
        if self.depth == 1:
            self.since = time.perf_counter()
            self.timer = threading.Timer(max(0.0, SILENCE - self.spent), self.say, [found.data["dispatcher"]])
            self.timer.daemon = True
            self.timer.start()

    def on_end(self, found: event.Event) -> None:
        if self.depth == 0 or not self._is_ours(found):
            return
        self.depth -= 1
        if self.depth == 0 and self.timer is not None:
            self.timer.cancel()
            self.spent += time.perf_counter() - self.since

    def say(self, dispatcher: Any) -> None:
        """The line; a logger that nobody has configured writes warnings to standard error."""
        self.said = True
        function, folder = dispatcher.py_func, dispatcher.stats.cache_path
        kept = f"kept in {folder}, and later processes start from it" if folder else "not kept on disk"
        logging.getLogger("widemargin").warning(
            "widemargin is compiling %s.%s and what comes after it for this kind of data, which takes some seconds "
            "to a minute, once (widemargin.warmup() compiles ahead); the machine code is %s",
            function.__module__,
            function.__name__,
            kept,
        )


event.register("numba:compile", _CompilationNotice())
event.register("numba:compile", _Undisturbed())


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

    def choose(first, *rest):
        return table.get(getattr(first, "instance_class", None))

    _compile_within(call, choose)

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
    GENERICS.append(call)
    return call
