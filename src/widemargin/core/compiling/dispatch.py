"""Generic functions that dispatch on the NamedTuple class of their first argument, and how loops are compiled.

A primitive such as ``row_dot`` or ``slope`` is declared once with :func:`generic`
and gets one implementation per layout, loss or kernel with ``@name.case(Class)``, or for
several classes at once.
The same table serves interpreted code (tests, debugging) and compiled code, where
Numba chooses the case at compile time and puts it into its caller.

Loops that Python calls are :func:`compiled`, and their machine code is kept on
disk (:mod:`.machine_code`). Functions that only such loops call are their parts:
:func:`inlined` at each call, or :func:`apart` with one copy for all calls. Where
Python calls a part, as tests do, it is interpreted.
"""

from collections.abc import Callable
from typing import Any

from numba import config, njit
from numba.extending import overload

from ..borrowing import CHECKED, INLINED_PART, LOOP, PART, keep
from . import notice  # noqa: F401 – it listens from here on
from .machine_code import GENERICS, Shelf

#: Reductions may be re-ordered and multiply-adds fused; nothing else is relaxed
#: (NaN and infinity keep their meaning).
REORDER = {"reassoc", "contract"}

#: Loops have nothing for debuggers, whatever NUMBA_DEBUGINFO says: Numba cannot tell these of tuples without members.
OPTIONS: dict[str, Any] = {
    "nogil": True, "fastmath": REORDER, "error_model": "numpy", "debug": False, "boundscheck": CHECKED,
}  # fmt: skip


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, and keep the machine code on disk where some folder can be written.

    It does not call itself.
    """
    if config.DISABLE_JIT:
        return _refused(function)
    dispatcher = njit(**OPTIONS, **LOOP)(function)
    keep(dispatcher, Shelf(function))
    return dispatcher


def _refused(function: Callable[..., Any]) -> Callable[..., Any]:
    """What stands for a loop where Numba is told to compile nothing."""

    def call(*args: Any, **named: Any) -> Any:
        raise RuntimeError(
            f"NUMBA_DISABLE_JIT is set, and {function.__module__}.{function.__name__} runs compiled only: leave the "
            "variable out of the environment"
        )

    return call


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


def compile_within(
    function: Callable[..., Any], choose: Callable[..., Any], forced: bool = True, fastmath: set[str] = REORDER
) -> None:
    """Let compiled loops that call ``function`` hold the code that ``choose`` finds for the types of its arguments.

    Where it is ``forced``, at every place that calls it; else once, unless it is short.
    """
    options = {**OPTIONS, "fastmath": fastmath, **(INLINED_PART if forced else PART)}
    overload(function, strict=False, jit_options=options)(choose)


def generic(stub: Callable[..., Any]) -> Any:
    """Make ``stub`` a generic function; register cases with ``@stub.case(Class)``."""
    table: dict[Any, Callable[..., Any]] = {}

    def call(first, *rest):
        return table[type(first)](first, *rest)

    def choose(first, *rest):
        return table.get(getattr(first, "instance_class", None))

    compile_within(call, choose)

    def case(*classes: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            table.update(dict.fromkeys(classes, function))
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
