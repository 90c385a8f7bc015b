"""All that the library takes of Numba's inside, which Numba's manual does not name: one import block.

Where a Numba lacks a name, :mod:`widemargin.core.borrowing` does without borrowed arrays, and tests hold that no other
module imports such names. (``cgutils``, ``errors`` and ``llvmlite`` are in the manual, for functions like these.)
"""

from llvmlite.ir import ArrayType, Constant
from numba.core import cgutils
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.errors import TypingError
from numba.core.lowering import BaseLower
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AttributeTemplate
from numba.np import arrayobj

__all__ = [
    "ArrayType", "AttributeTemplate", "BaseLower", "CompileResult", "CompilerBase", "Constant", "DefaultPassBuilder",
    "JITCodeLibrary", "NativeLowering", "NullCache", "PassManager", "TypingError", "arrayobj", "cgutils", "dumps",
    "register_pass", "rtsys",
]  # fmt: skip
