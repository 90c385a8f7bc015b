"""How Numba compiles loops and their parts, where that differs from its own way, and how it keeps their machine code.

Numba optimises each function, makes machine code of it, and does so again for every function that it is part of. Here
the code of a part stays unfinished until a loop is compiled whole: a first fit takes half of the time so.
"""

import pickle
from typing import Any

from ..threads.interrupts import heeded
from .undocumented import (
    CompilerBase,
    CompileResult,
    DefaultPassBuilder,
    JITCodeLibrary,
    NativeLowering,
    NullCache,
    PassManager,
    dumps,
    register_pass,
    rtsys,
)  # fmt: skip


class _Loop(JITCodeLibrary):
    """Code of a loop: optimised once, with all its parts, and not each function before that."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class _Part(_Loop):
    """Code of a part of loops: each loop that it is linked to optimises it and makes machine code of it."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0  # Python calls the interpreted function

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Objects of Python, of which compiled parts have none."""


def _pipeline(name: str, library: type[JITCodeLibrary], **flags: bool) -> dict[str, Any]:
    """Options by which Numba puts the code of a function into a library of this kind.

    The flags change at the end: those of the beginning are the same for loops and parts, since Numba compiles what a
    function calls again for other flags.
    """

    @register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(NativeLowering):
        _name = f"widemargin_{name}"

        def run_pass(self, state: Any) -> bool:
            state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            state.flags = state.flags.copy()
            for flag, value in flags.items():
                setattr(state.flags, flag, value)
            return super().run_pass(state)

    class Pipeline(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            passes = PassManager(name)
            for step, why in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
                passes.add_pass(Lowering if step is NativeLowering else step, why)
            passes.finalize()
            return [passes]

    return {"pipeline_class": Pipeline}


LOOP = _pipeline("loop", _Loop, no_cfunc_wrapper=True)
PART = _pipeline("part", _Part, no_cfunc_wrapper=True, no_cpython_wrapper=True)
INLINED_PART = _pipeline("inlined_part", _Part, no_cfunc_wrapper=True, no_cpython_wrapper=True, forceinline=True)

# ---------------------------------------------------------------- machine code on disk


class _Cache(NullCache):
    """What Numba asks for the machine code of a loop; ``shelf`` has it as bytes."""

    def __init__(self, shelf: Any) -> None:
        self.shelf = shelf

    @property
    def cache_path(self) -> Any:
        return self.shelf.folder

    @heeded()  # an exception that a handler raises while LLVM's lock is taken would leave it taken for other threads
    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)  # what compiling needs besides, Numba imports for that

        def rebuilt(data: bytes) -> Any:
            return CompileResult._rebuild(target_context, *pickle.loads(data))

        return self.shelf.load(sig, target_context.codegen().magic_tuple(), rebuilt)

    @heeded()
    def save_overload(self, sig: Any, data: Any) -> None:
        if not data.lifted and not data.library.has_dynamic_globals:
            self.shelf.save(sig, data.codegen.magic_tuple(), lambda: dumps(data._reduce()))


def keep(dispatcher: Any, shelf: Any) -> None:
    """Let a compiled loop keep its machine code on a shelf of :mod:`widemargin.core.compiling.machine_code`."""
    dispatcher._cache = _Cache(shelf)
