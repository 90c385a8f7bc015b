"""The inverse of a kernel matrix whose rows come and go, O(n²) for each.

Matrices have room for more rows than they hold; ``count`` of them are in use. What others have of a vector, ``onto``,
is its projection onto them, and ``pivot`` its squared distance from them.
"""

import numpy as np

from .dispatch import inlined

#: Largest error of a row of K K⁻¹ − I.
INVERSE_ERROR = 1e-5
#: The squared distance from the span, as a share of k(x, x), up to which a vector nearly lies in it.
SPAN = 1e-4


@inlined
def invert(K, inverse, count):
    """inverse ← K⁻¹ of the leading count × count block, in place; kernel values that overflowed stay as they are."""
    whole = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            whole[i, j] = K[i, j]
            if not np.isfinite(K[i, j]):
                return
    whole = np.linalg.inv(whole)
    for i in range(count):
        for j in range(count):
            inverse[i, j] = 0.5 * (whole[i, j] + whole[j, i])


@inlined
def product(row, inverse, count, out):
    """out ← the first ``count`` of row · K⁻¹, in place."""
    for j in range(count):
        out[j] = 0.0
    for l in range(count):
        f, other = row[l], inverse[l]
        if f != 0.0:
            for j in range(count):
                out[j] += f * other[j]


@inlined
def mended(K, inverse, count, row, column):
    """Look at one row of K K⁻¹ = I; if it is wrong, compute K⁻¹ anew, in place, and return True.

    Errors are those of vectors of length 1; ``column`` is overwritten.
    """
    right = True
    product(K[row], inverse, count, column)
    column[row] -= 1.0
    for j in range(count):
        right &= abs(column[j]) * np.sqrt(K[j, j] / K[row, row]) <= INVERSE_ERROR
    if not right:
        invert(K, inverse, count)
    return not right


@inlined
def with_one_more(inverse, count, onto, pivot):
    """K⁻¹ ← [[E + ccᵀ/δ, −c/δ], [−cᵀ/δ, 1/δ]], in place: c = ``onto`` is what others have of it."""
    for i in range(count):
        row, f = inverse[i], onto[i] / pivot
        if f != 0.0:
            for j in range(count):
                row[j] += f * onto[j]
        row[count] = -f
        inverse[count, i] = -f
    inverse[count, count] = 1.0 / pivot


@inlined
def without(inverse, count, p, onto):
    """K⁻¹ ← E − ffᵀ/g, with zeros for vector p, in place; onto ← the projection of p onto the others. Returns 1/g."""
    g = inverse[p, p]
    for i in range(count):
        onto[i] = -inverse[i, p] / g
    for i in range(count):
        row, f = inverse[i], onto[i] * g
        for j in range(count):
            row[j] -= f * onto[j]
    for i in range(count):
        inverse[i, p] = inverse[p, i] = 0.0
    onto[p] = 0.0
    return 1.0 / g


@inlined
def ridge_of(ridge, K, count, onto):
    """The ridges of the others, as the projection has them: ridge Σ c_j² K_jj."""
    total = 0.0
    for j in range(count):
        total += onto[j] * onto[j] * K[j, j]
    return ridge * total
