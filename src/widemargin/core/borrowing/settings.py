"""What the environment says of loops when this module is imported.

With ``WIDEMARGIN_CHECKED=1`` loops are compiled with a test of every index: of borrowed arrays by :mod:`.arrays`,
of ordinary ones by Numba. Where LLVM is written that indexes arrays, plain versions stand for it. The first index that
is out of range raises :class:`OutOfRange`. Without the variable none of the tests is compiled.

With ``WIDEMARGIN_PLAIN=1`` everyday Numba has to do, as with a Numba that lacks what the library knows of its inside.
Only tests set it.
"""

import os

CHECKED, PLAIN = (os.environ.get(f"WIDEMARGIN_{name}", "0") not in ("", "0") for name in ("CHECKED", "PLAIN"))


class OutOfRange(IndexError):
    """An index is out of range in a loop that was compiled with tests: says the function, the line and the index."""

    def __str__(self) -> str:
        sentence, index, size = self.args
        return sentence.format(index=index, size=size)
