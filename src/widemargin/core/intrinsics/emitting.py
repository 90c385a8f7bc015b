"""Functions whose LLVM is written here, by Numba's ``intrinsic``, each beside a plain version in everyday Numba.

The plain version says what the function computes. It stands for the function where LLVM cannot be written, and has the
same bits unless its module says otherwise.
"""

from collections.abc import Callable
from typing import Any

from numba.extending import intrinsic

from ..borrowing import CHECKED, PLAIN
from ..compiling.dispatch import compile_within

try:
    if PLAIN:
        raise ImportError("WIDEMARGIN_PLAIN is set")
    from llvmlite import binding, ir
    from numba.core import cgutils
    from numba.core.errors import TypingError

    #: Whether LLVM is written here; else plain versions stand for all of it.
    EMITS = True
    #: What the processor can do, in LLVM's words.
    FEATURES = binding.get_host_cpu_features()
except ImportError:
    EMITS, FEATURES, ir, cgutils = False, {}, None, None
    TypingError = TypeError  # type: ignore[misc,assignment]


#: All that may be changed in what is written here: a product and a sum are one instruction.
FUSED = {"contract"}


def emitted(plain: Callable[..., Any], *, indexes: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Make a function that describes its types and LLVM, as Numba's ``intrinsic`` does, one for compiled loops.

    ``plain`` stands for it where LLVM cannot be written, and in checked loops where it ``indexes`` arrays: the indices
    of the plain version are tested. Of its sums only multiply-adds may be fused.
    """

    def choose(described: Callable[..., Any]) -> Any:
        if EMITS and not (CHECKED and indexes):
            return intrinsic(described)
        compile_within(plain, lambda *types: plain, fastmath=FUSED)
        return plain

    return choose
