"""Arrays and tuples of arrays as compiled loops hold them: the caller's, neither owned nor copied.

Numba counts references to an array each time that a function is given it. The atomic increments cost more than a short
sparse row. Numba also hands a tuple to a function as all of its numbers, three hundred for a machine of forty arrays.
A loop therefore starts with :func:`borrow` on its arguments. A borrowed array is the same memory, not counted. A
borrowed NamedTuple is the address of its fields, and each field is borrowed when it is named. Loops run 1.4 to 3 times
as fast for it.

- Only arguments may be borrowed, because the caller holds them for as long as the loop runs. An array that the loop
  makes itself is freed too early when it is borrowed. A borrowed array is not returned.
- Borrowed arrays do not wrap. A negative index must be a literal (``a[-1]``); ``a[:-1]`` is not allowed.

Numba's manual names no way to make such types. So :mod:`.undocumented` imports what the manual does not name. Where one
of these names is missing, as may be in a Numba of the future, a borrowed array is an ordinary array, loops are slower,
and no machine code is kept on disk. ``WIDEMARGIN_PLAIN=1`` in the environment forces this, for tests.
"""

import numba

from ...warning import warn
from .settings import CHECKED, PLAIN, OutOfRange

__all__ = [
    "CHECKED", "INLINED_PART", "KNOWN", "LOOP", "PART", "PLAIN", "OutOfRange", "borrow", "column", "flat", "keep",
    "square",
]  # fmt: skip

try:
    if PLAIN:
        raise ImportError("WIDEMARGIN_PLAIN is set")
    from .arrays import borrow, column, flat, square
    from .machine import INLINED_PART, LOOP, PART, keep
except (ImportError, AttributeError) as missing:
    KNOWN = False
    from .plain import INLINED_PART, LOOP, PART, borrow, column, flat, keep, square  # type: ignore[assignment]

    warn(
        f"widemargin does not know Numba {numba.__version__} ({missing}): its loops are slower by up to 3 times, and "
        "every process compiles them anew; install another version of Numba or a newer widemargin",
        RuntimeWarning,
    )
else:
    #: Whether this Numba has all that borrowed arrays need.
    KNOWN = True
