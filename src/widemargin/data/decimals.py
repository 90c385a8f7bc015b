"""Compiled conversion of decimal text to the nearest float64.

A number is w·10^q, where w has up to nineteen digits.

1. If w ≤ 2⁵³ and |q| ≤ 22, both factors are floats, and one multiplication or division rounds correctly (Clinger 1990).
2. Else 128 bits of 5^q come from a table, and the leading bits of the product w·5^q are those of the result (Lemire,
   *Number parsing at a gigabyte per second*, 2021).
3. In a few cases out of 10¹⁸ the table does not decide, and for longer numbers the digits beyond the nineteenth may.
   Such a number, and one that is too large for float64, is not known here: the caller reads it with Python's ``float``.
"""

import math

import numpy as np

from ..core.compiling.dispatch import inlined

#: The powers q in the table. Below them w·10^q is 0 in float64, above them it is infinite.
LOWEST, HIGHEST = -342, 308
#: 10^k for all k for which that is exactly a float.
TENS = np.array([10.0**k for k in range(23)])


def _fives() -> tuple[np.ndarray, np.ndarray]:
    """The leading 128 bits of 5^q for all q of the table, as high and low words. Those of q < 0 are rounded up."""
    high, low = [], []
    for q in range(LOWEST, HIGHEST + 1):
        if q >= 0:
            five = 5**q
            bits = five << max(0, 128 - five.bit_length()) >> max(0, five.bit_length() - 128)
        else:
            five = 5**-q
            size = five.bit_length()
            bits = (1 << (size + 127 if q >= -27 else 2 * size + 128)) // five + 1
            bits >>= bits.bit_length() - 128
        high.append(bits >> 64)
        low.append(bits & (2**64 - 1))
    return np.array(high, np.uint64), np.array(low, np.uint64)


HIGH, LOW = _fives()
ZERO, ONE, TWO, THREE, TEN = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(10)
HALF, WORD, TOP = np.uint64(32), np.uint64(2**32 - 1), np.uint64(63)
ALL, NINE = np.uint64(2**64 - 1), np.uint64(0x1FF)
EXACT, HIDDEN = np.uint64(2**53), np.uint64(2**52)


@inlined
def product(a, b):
    """The 128 bits of a·b as (high word, low word)."""
    a1, a0, b1, b0 = a >> HALF, a & WORD, b >> HALF, b & WORD
    cross, other, least = a1 * b0, a0 * b1, a0 * b0
    middle = (least >> HALF) + (cross & WORD) + (other & WORD)
    return a1 * b1 + (cross >> HALF) + (other >> HALF) + (middle >> HALF), (middle << HALF) | (least & WORD)


@inlined
def nearest(w, q):
    """(w·10^q rounded to float64, whether that is known), for w > 0."""
    if q < LOWEST:
        return 0.0, True
    if q > HIGHEST:
        return 0.0, False
    zeros = 0
    while w >> TOP == ZERO:
        w <<= ONE
        zeros += 1
    high, low = product(w, HIGH[q - LOWEST])
    if high & NINE == NINE:  # a carry from the table's lower word may reach the bits that count
        carried, _ = product(w, LOW[q - LOWEST])
        low = low + carried
        if low < carried:
            high += ONE
    if low == ALL and not -27 <= q <= 55:
        return 0.0, False
    upper = high >> TOP
    shift = upper + np.uint64(9)
    m = high >> shift
    power = ((217706 * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if power <= 0:  # a subnormal number, or 0
        if power <= -63:
            return 0.0, True
        m >>= np.uint64(1 - power)
        m += m & ONE
        return math.ldexp(float(m >> ONE), -1074), True
    if low <= ONE and -4 <= q <= 23 and m & THREE == ONE and m << shift == high:
        m -= ONE  # exactly between two floats: round to even
    m += m & ONE
    m >>= ONE
    if m >= EXACT:
        m, power = HIDDEN, power + 1
    if power >= 2047:
        return 0.0, False
    return math.ldexp(float(m), int(power) - 1075), True


@inlined
def number(text, pos):
    """Read the number at a position of a text that ends with a line end: (position after it, value, whether known)."""
    c = text[pos]
    negative = c == 45
    if c == 43 or c == 45:
        pos += 1
        c = text[pos]
    w, digits, q, some, more = ZERO, 0, 0, False, False
    while 48 <= c <= 57:
        some = True
        if digits < 19:
            w = w * TEN + np.uint64(c - 48)
            digits += w != ZERO
        else:
            q += 1
            more = more or c != 48
        pos += 1
        c = text[pos]
    if c == 46:
        pos += 1
        c = text[pos]
        while 48 <= c <= 57:
            some = True
            if digits < 19:
                w = w * TEN + np.uint64(c - 48)
                digits += w != ZERO
                q -= 1
            else:
                more = more or c != 48
            pos += 1
            c = text[pos]
    if not some:
        return pos, 0.0, False
    if c == 69 or c == 101:
        pos += 1
        c = text[pos]
        falls = c == 45
        if c == 43 or c == 45:
            pos += 1
            c = text[pos]
        if not 48 <= c <= 57:
            return pos, 0.0, False
        power = 0
        while 48 <= c <= 57:
            power = min(10 * power + (c - 48), 10**9)
            pos += 1
            c = text[pos]
        q += -power if falls else power
    value, known = 0.0, True
    if w != ZERO:
        if w <= EXACT and -22 <= q <= 22 and not more:
            value = float(w) * TENS[q] if q >= 0 else float(w) / TENS[-q]
        else:
            value, known = nearest(w, q)
            if more and known:
                above, known = nearest(w + ONE, q)
                known = known and above == value
    return pos, -value if negative else value, known
