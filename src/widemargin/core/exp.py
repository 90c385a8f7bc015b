"""The exponential function, written so that loops over it become vector code.

With n = ⌊x / ln 2 + ½⌋ and r = x − n ln 2 we have |r| ≤ ½ ln 2 and

    exp(x) = 2ⁿ exp(r),    exp(r) = 1 + r + r²/2! + … + rᵐ/m! + R,    |R| ≤ √2 |r|ᵐ⁺¹/(m + 1)!.

m = 7 leaves |R| < 8e-9 and m = 13 leaves |R| < 6e-18, both well below half a unit
in the last place of float32 and float64. ln 2 is subtracted in two parts, of which
the first has so few bits that its product with n is exact; 2ⁿ is made by writing
n into the exponent field. There is no branch and no table, so that a compiler
turns a loop of these calls into vector instructions.

Results below the smallest normal number are 0, and infinity begins half a
binary order of magnitude early, at 127.5 ln 2 ≈ 88.38 (float32) and
1023.5 ln 2 ≈ 709.4 (float64). NaN stays NaN. Largest relative errors measured
against a longer format: 7.7e-8 (float32) and 1.4e-16 (float64).
"""

from math import factorial

import numpy as np
from numba import njit, types
from numba.extending import overload


def _exponential(number, integer, bits, offset, high, low, smallest, largest, order):
    """The exponential of one number of this type; ``smallest`` is the logarithm of the smallest normal one.

    ``bits`` and ``offset`` are those of the exponent field, ``high`` + ``low`` is ln 2, ``order`` is m.
    """
    log2e, half, zero, shift, offset = number(1 / np.log(2.0)), number(0.5), number(0.0), integer(bits), integer(offset)
    high, low, smallest, largest = number(high), number(low), number(smallest), number(largest)
    lead, taylor = number(1 / factorial(order)), tuple(number(1 / factorial(k)) for k in range(order - 1, -1, -1))

    # Multiply-adds may be fused. Re-ordering would undo the two-part ln 2, whatever the caller allows itself.
    @njit(nogil=True, fastmath={"contract"}, error_model="numpy")
    def exponential(x):
        y = smallest if x < smallest else x
        y = largest if y > largest else y
        n = np.floor(y * log2e + half)
        r = y - n * high - n * low
        p = lead
        for c in taylor:
            p = p * r + c
        # AVX2 converts to 32-bit integers only; n fits.
        scale = integer((integer(np.int32(n)) + offset) << shift).view(number)
        return zero if x < smallest else p * scale

    return exponential


exp32 = _exponential(np.float32, np.int32, 23, 127, 0.693359375, -2.12194440e-4, -87.33654, 88.7, 7)
exp64 = _exponential(
    np.float64, np.int64, 52, 1023, 6.93145751953125e-1, 1.42860682030941723212e-6, -708.3964185322641, 709.7, 13
)


def exp(x):
    """exp of one float32 or float64, in its own precision; for compiled loops."""
    return exp32(x) if isinstance(x, np.float32) else exp64(np.float64(x))


@overload(exp)
def _overload_of_exp(x):
    if x == types.float32:
        return lambda x: exp32(x)
    if x == types.float64:
        return lambda x: exp64(x)
    return None


def _exponential_of_few(number, order):
    """The exponential of one number of [−1, 1], the square of the series of exp(x/2) up to this order."""
    lead, taylor = (
        number(0.5**order / factorial(order)),
        tuple(number(0.5**k / factorial(k)) for k in range(order - 1, -1, -1)),
    )

    @njit(nogil=True, fastmath={"contract"}, error_model="numpy")
    def exponential(x):
        p = lead
        for c in taylor:
            p = p * x + c
        return p * p

    return exponential


near32, near64 = _exponential_of_few(np.float32, 7), _exponential_of_few(np.float64, 14)


def exp_near_0(x):
    """exp of one number of [−1, 1] up to 4e-7 of itself (float32) and to rounding (float64); for compiled loops."""
    return near32(x) if isinstance(x, np.float32) else near64(np.float64(x))


@overload(exp_near_0)
def _overload_of_exp_near_0(x):
    if x == types.float32:
        return lambda x: near32(x)
    if x == types.float64:
        return lambda x: near64(x)
    return None
