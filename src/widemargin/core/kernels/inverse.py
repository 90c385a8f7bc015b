"""The inverse of a kernel matrix K of vectors, updated when a vector comes or goes, in O(n²) operations.

Arrays have room for more vectors than there are; the first ``count`` rows and columns are in use. For a new vector x,
``onto`` = K⁻¹ k(x, ·) are the coefficients of its projection onto the span of the others, and
``pivot`` = k(x, x) − ⟨onto, k(x, ·)⟩ is its squared distance from that span::

    with_one_more(inverse, count, onto, pivot)      # K⁻¹ of count + 1 vectors
    without(inverse, count, p, onto)                # K⁻¹ of all but vector p, and the projection of p onto them
"""

import numpy as np

from ..compiling.dispatch import inlined

INVERSE_ERROR = 1e-5  # largest entry of K K⁻¹ − I; beyond this K⁻¹ is computed anew
SPAN = 1e-4  # share of k(x, x); a vector whose squared distance from the span is smaller counts as lying in it


@inlined
def invert(K, inverse, count):
    """inverse ← K⁻¹ of the leading count × count block; does nothing if a kernel value is infinite or NaN."""
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
    """out ← the first ``count`` entries of row · K⁻¹."""
    for j in range(count):
        out[j] = 0.0
    for l in range(count):
        f, other = row[l], inverse[l]
        if f != 0.0:
            for j in range(count):
                out[j] += f * other[j]


@inlined
def mended(K, inverse, count, row, column):
    """Test one row of K K⁻¹ = I. If its error is too large, compute K⁻¹ anew in place and return True.

    Errors are measured for vectors scaled to length 1. ``column`` is working memory.
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
    """Add a vector: K⁻¹ ← [[K⁻¹ + ccᵀ/δ, −c/δ], [−cᵀ/δ, 1/δ]] in place, with c = ``onto`` and δ = ``pivot``."""
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
    """Remove vector p, in place: K⁻¹ ← K⁻¹ − ffᵀ/g with f = column p of K⁻¹ and g = f_p, and zeros for vector p.

    onto ← the coefficients of the projection of vector p onto the others. Returns 1/g, its squared distance from them.
    """
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
def projected(K, inverse, ridge, place, count, onto):
    """onto ← the projection of vector ``place``, whose row of K is known, onto the first ``count`` vectors, in place.

    K has ridges on its diagonal. Returns its squared distance from them without ridges, and with ridges.
    """
    pivot = K[place, place]
    product(K[place], inverse, count, onto)
    for i in range(count):
        pivot -= onto[i] * K[place, i]
    return max(pivot - ridge * K[place, place] - ridge_of(ridge, K, count, onto), 0.0), pivot


@inlined
def ridge_of(ridge, K, count, onto):
    """The ridge's share of a projection's squared length, ridge Σ c_j² K_jj, for coefficients c = ``onto``."""
    total = 0.0
    for j in range(count):
        total += onto[j] * onto[j] * K[j, j]
    return ridge * total
