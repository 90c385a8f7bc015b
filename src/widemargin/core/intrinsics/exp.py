"""The exponential function, written so that loops over it become vector code.

With n the integer nearest to x / ln 2 and r = x − n ln 2 we have |r| ≤ a = ½ ln 2 and

    exp(x) = 2ⁿ exp(r),    exp(r) ≈ 1 + (r + r² q(r)),

where q is the polynomial of degree m − 2 that is (exp(r) − 1 − r)/r² at the Chebyshev points of [−a, a]. That is
wrong by at most √2 aᵐ⁺¹ 2²⁻ᵐ/(m + 1)!: m = 6 leaves 1.1e-8 and m = 12 2.4e-19, both well below half a unit in the last
place of float32 and float64. Terms are taken in pairs, (c₄ + c₅r) r² + (c₂ + c₃r), so that fewer of them wait for each
other. ln 2 is subtracted in two parts, of which the first has so few bits that its product with n is exact. A sum with
1.5 · 2ᵇ, b the bits of a mantissa, is rounded to an integer, and n stands in its last bits: from there it is moved to
the exponent field of 2ⁿ. There is no branch, no table and no conversion, so that loops become vector instructions, and
:func:`exp_many` emits those of four registers of NEON or one of AVX-512 side by side.

Results below the smallest normal number are 0, and infinity begins half a
binary order of magnitude early, at 127.5 ln 2 ≈ 88.38 (float32) and
1023.5 ln 2 ≈ 709.4 (float64). NaN stays NaN. Largest relative errors measured
against a longer format: 8.9e-8 (float32) and 1.6e-16 (float64).
"""

from collections.abc import Callable
from math import factorial, log
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numpy.polynomial.chebyshev import cheb2poly, chebinterpolate

from ..compiling.dispatch import compile_within
from .emitting import FUSED, emitted, ir

#: Bytes of numbers whose exponentials are computed side by side.
TOGETHER = 64


class _Series(NamedTuple):
    """What belongs to a type of numbers: the bits of its mantissa, the offset of exponents, the two parts of ln 2, the
    logarithm of the smallest normal number, one beyond that of the largest, and m, which is even.
    """

    bits: int
    offset: int
    high: float
    low: float
    smallest: float
    largest: float
    order: int

    @property
    def coefficients(self) -> list[float]:
        """Those of q, from the constant on: of the series, and a polynomial through what it leaves out."""
        a, degree = 0.5 * log(2.0), self.order - 2

        def rest(x):
            return sum((a * x) ** k / factorial(k + 2) for k in range(degree + 1, degree + 20))

        through = cheb2poly(chebinterpolate(rest, degree))
        return [1 / factorial(k + 2) + float(more) / a**k for k, more in enumerate(through)]


SERIES = {
    types.float32: _Series(23, 127, 0.693359375, -2.12194440e-4, -87.33654, 88.7, 6),
    types.float64: _Series(52, 1023, 6.93145751953125e-1, 1.42860682030941723212e-6, -708.3964185322641, 709.7, 12),
}


def _plain(number: Any, integer: Any, series: _Series) -> Any:
    """exp of one number of this type, as :func:`_emit` has it; integers have as many bits."""
    smallest, largest, high, low, inverse, shift, one = map(
        number, (series.smallest, series.largest, -series.high, -series.low, 1.0 / log(2.0), 1.5 * 2.0**series.bits, 1)
    )
    c, last, offset, bits = tuple(map(number, series.coefficients)), series.order - 4, series.offset, series.bits

    def exponential(x):
        y = largest if x > largest else x
        shifted = shift + y * inverse
        n = shifted - shift
        r = (y + n * high) + n * low
        square, q = r * r, c[last + 2]
        for k in range(last, -1, -2):
            q = (c[k] + r * c[k + 1]) + square * q
        power = integer((number(shifted).view(integer) + offset) << bits).view(number)
        return number(0) if x < smallest else (one + (r + square * q)) * power

    return exponential


def _emit(builder: Any, series: _Series, x: Any) -> Any:
    """Emit exp(x) for a vector: what :func:`_plain` computes for a number.

    Multiply-adds may be fused. Re-ordering would undo the two parts of ln 2.
    """
    kind, fused, lanes = x.type, tuple(FUSED), x.type.count
    integer = ir.VectorType(ir.IntType(64 if series.bits > 23 else 32), lanes)

    def constant(value, of=kind):
        return ir.Constant(of, [value] * lanes)

    def add(total, a, b):
        return builder.fadd(total, builder.fmul(a, b, flags=fused), flags=fused)

    y = builder.select(builder.fcmp_ordered(">", x, constant(series.largest)), constant(series.largest), x)
    shift = constant(1.5 * 2.0**series.bits)
    shifted = add(shift, y, constant(1.0 / log(2.0)))
    n = builder.fsub(shifted, shift)
    r = add(add(y, n, constant(-series.high)), n, constant(-series.low))
    square, c = builder.fmul(r, r), series.coefficients
    q = constant(c[-1])
    for k in range(series.order - 4, -1, -2):
        q = add(add(constant(c[k]), r, constant(c[k + 1])), square, q)
    power = builder.shl(builder.bitcast(shifted, integer), constant(series.bits, integer))
    power = builder.bitcast(builder.add(power, constant(series.offset << series.bits, integer)), kind)
    result = builder.fmul(builder.fadd(constant(1.0), add(r, square, q)), power)
    # far below the smallest number the power is anything
    return builder.select(builder.fcmp_ordered("<", x, constant(series.smallest)), constant(0.0), result)


def _of_one(single: Callable[[Any], Any], double: Callable[[Any], Any]) -> Any:
    """A function of one float32 or float64, in its own precision, for compiled loops; compiled alone for Python."""
    single_alone, double_alone = (njit(nogil=True, fastmath=FUSED)(each) for each in (single, double))

    def call(x):
        return single_alone(x) if isinstance(x, np.float32) else double_alone(np.float64(x))

    compile_within(call, lambda x: {types.float32: single, types.float64: double}.get(x), fastmath=FUSED)
    return call


#: exp of one number.
exp = _of_one(_plain(np.float32, np.int32, SERIES[types.float32]), _plain(np.float64, np.int64, SERIES[types.float64]))


def exp_many(values, count):
    """values[j] ← exp(values[j]) for j < count, a multiple of 16, in place; for compiled loops."""
    for j in range(count):
        values[j] = exp(values[j])


def _one_after_the_other(values, j):
    for i in range(j, j + TOGETHER // values.itemsize):
        values[i] = exp(values[i])


@emitted(_one_after_the_other, indexes=True)
def _exp_together(typingctx, values, j):
    """values[j:] ← exp(values[j:]), TOGETHER bytes of them, in place."""

    def codegen(context, builder, signature, args):
        array = context.make_array(values)(context, builder, args[0])
        itemsize = values.dtype.bitwidth // 8
        kind = ir.VectorType(context.get_data_type(values.dtype), TOGETHER // itemsize)
        place = builder.bitcast(builder.gep(array.data, [args[1]]), kind.as_pointer())
        builder.store(_emit(builder, SERIES[values.dtype], builder.load(place, align=itemsize)), place, align=itemsize)
        return context.get_dummy_value()

    return types.void(values, types.int64), codegen


def _many(values, count):
    for j in range(0, count, TOGETHER // values.itemsize):
        _exp_together(values, j)


compile_within(exp_many, lambda values, count: _many)


def _exponential_of_few(number, order):
    """The exponential of one number of [−1, 1], the square of the series of exp(x/2) up to this order."""
    lead, *rest = (number(0.5**k / factorial(k)) for k in range(order, -1, -1))
    taylor = tuple(rest)

    def exponential(x):
        p = lead
        for c in taylor:
            p = p * x + c
        return p * p

    return exponential


#: exp of one number of [−1, 1], up to 4e-7 of itself (float32) and to rounding (float64).
exp_near_0 = _of_one(_exponential_of_few(np.float32, 7), _exponential_of_few(np.float64, 14))
