"""Generic functions that dispatch on the NamedTuple class of their first argument.

A primitive such as ``row_dot`` or ``slope`` is declared once with :func:`generic`
and gets one implementation per layout, loss or kernel with ``@name.case(Class)``.
The same table serves interpreted code (tests, debugging) and code compiled by
Numba, where the choice is made at compile time and the case is inlined into its
caller. Loops that Python calls are compiled with :func:`compiled`, which keeps
their machine code on disk; functions that only such loops call are
:func:`inlined`, parts of them as the cases are. Where Python calls a part, as
tests do, it is interpreted.

How loops and parts are compiled is in :mod:`.compiling`; where machine code is
kept, and when it is out of date, in :mod:`.machine_code`; what a loop may do
with its arguments in :mod:`.borrowing`.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from numba import config, njit, types
from numba.core import event
from numba.extending import intrinsic, overload

from .borrowing import CHECKED
from .compiling import INLINED_PART, LOOP, PART
from .interrupts import heeded
from .machine_code import GENERICS, MachineCode

#: Reductions may be re-ordered and multiply-adds fused; nothing else is relaxed
#: (NaN and infinity keep their meaning).
REORDER = {"reassoc", "contract"}

#: Loops have nothing for debuggers, whatever NUMBA_DEBUGINFO says: Numba cannot tell these of tuples without members.
OPTIONS: dict[str, Any] = {
    "nogil": True, "fastmath": REORDER, "error_model": "numpy", "no_cfunc_wrapper": True, "debug": False,
    "boundscheck": CHECKED,
}  # fmt: skip

#: Seconds of compilation in silence; then a line says what takes so long.
SILENCE = 1.0


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, and keep the machine code on disk where some folder can be written.

    It does not call itself.
    """
    if config.DISABLE_JIT:
        return _refused(function)
    dispatcher = njit(pipeline_class=LOOP, **OPTIONS)(function)
    dispatcher._cache = MachineCode(function)
    dispatcher.get_call_template = lambda *types: _part(function).get_call_template(*types)
    dispatcher.get_overload = lambda signature: _part(function).get_overload(signature)
    return dispatcher


def _refused(function: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for a loop where Numba is told to compile nothing."""

    def call(*args: Any, **named: Any) -> Any:
        raise RuntimeError(
            f"NUMBA_DISABLE_JIT is set, and {function.__module__}.{function.__name__} runs compiled only: leave the "
            "variable out of the environment"
        )

    return call


@cache
def _part(function: Callable[..., Any]) -> Any:
    """A loop as a part of others, where these call it; its own code takes arguments as Python gives them."""
    return njit(pipeline_class=PART, no_cpython_wrapper=True, **OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a part of the compiled loops that call it; where Python calls it, it is interpreted."""
    compile_within(function, lambda *types, **named: function)
    return function


def apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a part of the compiled loops that call it, with one copy for all places that do.

    For parts that are large, called at several places, and not often enough for a call to cost anything.
    """
    compile_within(function, lambda *types, **named: function, forced=False)
    return function


def compile_within(function: Callable[..., Any], choose: Callable[..., Any], forced: bool = True) -> None:
    """Let compiled loops that call ``function`` hold the code that ``choose`` finds for the types of its arguments.

    Where it is ``forced``, at every place that calls it; else once, unless it is short.
    """
    options = {**OPTIONS, "pipeline_class": INLINED_PART if forced else PART}
    overload(function, strict=False, jit_options=options)(choose)


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


class _Heeded(event.Listener):
    """Lets signals wait while a loop is compiled: an exception that is raised in a callback of LLVM would be lost."""

    def on_start(self, found: event.Event) -> None:
        heeded().__enter__()

    def on_end(self, found: event.Event) -> None:
        heeded().__exit__()


event.register("numba:compile", _CompilationNotice())
event.register("numba:compile", _Heeded())


@intrinsic
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


def generic(stub: Callable[..., Any]) -> Any:
    """Make ``stub`` a generic function; register cases with ``@stub.case(Class)``."""
    table: dict[Any, Callable[..., Any]] = {}

    def call(first, *rest):
        return table[type(first)](first, *rest)

    def choose(first, *rest):
        return table.get(getattr(first, "instance_class", None))

    compile_within(call, choose)

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
