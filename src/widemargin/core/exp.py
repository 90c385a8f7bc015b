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

# Multiply-adds may be fused. Re-ordering would undo the two-part ln 2, whatever the caller allows itself.
_elementary = njit(nogil=True, fastmath={"contract"}, error_model="numpy")

F = np.float32
D = np.float64

_LOG2E = 1 / np.log(2.0)
_LOG2E_32 = F(_LOG2E)
_HIGH_32, _LOW_32 = F(0.693359375), F(-2.12194440e-4)
_HIGH_64, _LOW_64 = D(6.93145751953125e-1), D(1.42860682030941723212e-6)
_SMALLEST_32 = F(-87.33654)  # ln of the smallest normal number
_SMALLEST_64 = D(-708.3964185322641)
_LARGEST_32 = F(88.7)
_LARGEST_64 = D(709.7)
_TAYLOR_32 = tuple(F(1 / factorial(k)) for k in range(6, -1, -1))
_TAYLOR_64 = tuple(D(1 / factorial(k)) for k in range(12, -1, -1))
_LEAD_32 = F(1 / factorial(7))
_LEAD_64 = D(1 / factorial(13))
_HALF_32, _HALF_64 = F(0.5), D(0.5)
_ZERO_32, _ZERO_64 = F(0.0), D(0.0)


@_elementary
def exp32(x):
    """The exponential of one float32, as a float32."""
    y = _SMALLEST_32 if x < _SMALLEST_32 else x
    y = _LARGEST_32 if y > _LARGEST_32 else y
    n = np.floor(y * _LOG2E_32 + _HALF_32)
    r = y - n * _HIGH_32 - n * _LOW_32
    p = _LEAD_32
    for c in _TAYLOR_32:
        p = p * r + c
    scale = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    return _ZERO_32 if x < _SMALLEST_32 else p * scale


@_elementary
def exp64(x):
    """The exponential of one float64, as a float64."""
    y = _SMALLEST_64 if x < _SMALLEST_64 else x
    y = _LARGEST_64 if y > _LARGEST_64 else y
    n = np.floor(y * _LOG2E + _HALF_64)
    r = y - n * _HIGH_64 - n * _LOW_64
    p = _LEAD_64
    for c in _TAYLOR_64:
        p = p * r + c
    # AVX2 converts to 32-bit integers only; n fits.
    scale = np.int64((np.int64(np.int32(n)) + np.int64(1023)) << np.int64(52)).view(np.float64)
    return _ZERO_64 if x < _SMALLEST_64 else p * scale


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
