"""Numbers in text are read as Python reads them: to the nearest float64."""

import math
import struct
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from widemargin.core.compiling.dispatch import compiled
from widemargin.data.decimals import number


@compiled
def read(text, pos, values, known):
    """The numbers of a text, one a line, in place."""
    for k in range(values.size):
        pos, values[k], known[k] = number(text, pos)
        pos += 1


def read_all(tokens):
    text = np.frombuffer(("\n".join(tokens) + "\n").encode(), np.uint8)
    values, known = np.empty(len(tokens)), np.empty(len(tokens), bool)
    read(text, 0, values, known)
    return values, known


def check(token):
    (value,), (known,) = read_all([token])
    if known:  # else it is left to Python: its neighbours cannot be told apart, or it is too large
        assert struct.pack("d", value) == struct.pack("d", float(token))
    assert not (known and math.isinf(float(token)))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_comes_back_at_once(value):
    (found,), (known,) = read_all([repr(value)])
    assert known
    assert struct.pack("d", found) == struct.pack("d", value)


@given(st.from_regex(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,4})?", fullmatch=True))
@example("1e400")
@example("-1e400")
@example("0e999999999999999999")
@example("4.9406564584124654e-324")
@example("2.4703282292062327208299439634110764e-324")
@example("2.4703282292062328e-324")
@example("2.2250738585072011e-308")
@example("1.7976931348623157e308")
@example("1.7976931348623159e308")
@example("9007199254740993")
@example("9007199254740993.00000000000000000000001")
def test_any_decimal_is_the_nearest_float_or_left_to_python(token):
    check(token)


@given(st.integers(1, 2**53 - 1), st.integers(-1074, 900))
def test_a_number_in_the_middle_of_two_floats_goes_to_the_even_one_or_to_python(m, power):
    middle = Fraction(2 * m + 1) * Fraction(2) ** (power - 1)
    digits = str(middle.numerator) if middle.denominator == 1 else None
    if digits is None:
        scale = middle.denominator.bit_length() - 1  # the denominator is 2^scale, so 10^scale makes it whole
        digits = f"{middle.numerator * 5**scale}e-{scale}"
    check(digits)


def test_few_numbers_are_left_to_python(rng):
    tokens = [f"{x:.17g}" for x in rng.normal(size=20_000) * 10.0 ** rng.integers(-300, 300, 20_000)]
    values, known = read_all(tokens)
    assert known.all()
    np.testing.assert_array_equal(values, [float(token) for token in tokens])


def test_what_is_no_number_is_said_to_be_none():
    for token in ("", "x", "-", "+", ".", "-.", "e5", "1e", "1e+", "nan", "inf", "--1"):
        _, (known,) = read_all([token])
        assert not known, token
