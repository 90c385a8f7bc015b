"""Kernels, each with all that is known of it.

    Linear       ⟨x, z⟩
    RBF          exp(−γ‖x − z‖²)
    Polynomial   (γ⟨x, z⟩ + c)^degree
    Sigmoid      tanh(γ⟨x, z⟩ + c)
    Laplacian    exp(−γ‖x − z‖₁)
    Precomputed  the data matrix is the kernel matrix
    BlackBox     a Python function of two sets of rows

A kernel of rows is a function of one of the measures of :mod:`.measures`. It stands here whole: a class whose fields
are its parameters (γ, coef0, degree), entered with its facts by :func:`kernel_class`, and one case each of
:func:`value_of` and :func:`finish`, the function itself for one number and for many; ``of_array(xp, sums)`` is the same
for an array of another library, whose exp and tanh are ``xp``'s, and may change it. Everyone else reads the facts.
:func:`between` is one kernel value, from two rows, in float64; :class:`.kernel_matrix.KernelMatrix` gives many.
"""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .dispatch import generic
from .distant import Distant
from .exp import exp_many
from .extremes import largest_of
from .measures import Absolute, Inner, Squared, row_sum
from .rows import as_matrix

# ---------------------------------------------------------------------------------------------
# What is known of a kernel

#: Kernels by the names that users give.
KERNELS: dict[str, Any] = {}


@generic
def measure_of(kernel):
    """The measure of which a kernel of rows is a function."""


@generic
def value_of(kernel, total):
    """The kernel value of a measure, in float64."""


@generic
def finish(kernel, sums, count, values):
    """values[j] ← the kernel value of the measure sums[j], in place; changes sums, those of exp(−γΣ) to −γΣ."""


@generic
def between(kernel, X, i, Z, j):
    """k(xᵢ, zⱼ) in float64; X and Z have the same layout, CSR rows their indices sorted."""


def _of_measure(kernel, X, i, Z, j):
    return value_of(kernel, row_sum(measure_of(kernel), X, i, Z, j))


def kernel_class(name: str | None, measure: Any = None, **facts: Any) -> Callable[[Any], Any]:
    """Enter a class of kernels under its name, and hang on it what all others may ask about its kernels.

    ``measure``, a class of :mod:`.measures`, is what the kernel is a function of; :func:`value_of` and :func:`finish`
    need a case for that function. A kernel of distances has a γ such that a value changes by at most γ times what its
    distance changes by. The facts, each with the value it has unless the class says otherwise:

    name            what users call it; None for a function of theirs
    measure         None where values are not computed from rows here
    of_rows         it has a measure
    of_distances    by its measure: it does not change when all rows are moved alike
    has_gamma       it has a parameter γ
    power           dividing all rows by s multiplies γ by s to this power
    unit_diagonal   k(x, x) = 1; True for kernels of distances
    is_definite     positive semi-definite for certain; True
    steepness       of a kernel of distances: |k(x, z) − k(x′, z)| ≤ steepness ‖x − x′‖ (the ‖·‖₁ of Absolute); infinite
    reach           a method, for kernels of inner products with a slope: see :func:`reach_of`
    is_linear       ⟨x, z⟩, so that the machine has weights of features; False
    is_gaussian     exp(−γ‖x − z‖²), so that two vectors merge into one; False
    is_table        the data matrix is the kernel matrix; False
    is_function     a Python function, which takes the rows as users gave them; False
    """

    def enter(cls: Any) -> Any:
        of_distances = measure in (Squared, Absolute)
        known = {
            "name": name, "measure": measure, "of_rows": measure is not None, "of_distances": of_distances,
            "has_gamma": "gamma" in getattr(cls, "_fields", ()), "power": 1 if measure is Absolute else 2,
            "unit_diagonal": of_distances, "is_definite": True, "steepness": math.inf, "is_linear": False,
            "is_gaussian": False, "is_table": False, "is_function": False,
        }  # fmt: skip
        for fact, usual in known.items():
            if fact not in vars(cls):
                setattr(cls, fact, facts.get(fact, usual))
        if name is not None:
            KERNELS[name] = cls
        if measure is not None:
            measure_of.case(cls)(lambda kernel: measure())
            between.case(cls)(_of_measure)
        return cls

    return enter


def class_of(kernel: Any) -> Any:
    """The class of a kernel given as users do, by name or as a function, or as an object; to read its facts.

    Of a name that does not exist as little is known as of a function.
    """
    if isinstance(kernel, str):
        return KERNELS.get(kernel, BlackBox)
    return type(kernel) if is_kernel(kernel) else BlackBox


def is_kernel(kernel: Any) -> bool:
    """Whether this is an object of a class of kernels."""
    return isinstance(kernel, (BlackBox, *KERNELS.values()))


def reach_of(kernel: Any, sizes: Any) -> Any:
    """A number r(x) of each row, from ‖x‖², for the rounding of a kernel of inner products.

    Rounding by factors 1 ± u puts a sum of m terms xz off by mu‖x‖‖z‖ at most, in whatever order they are summed, and
    the kernel value by (2m + 20)u √(r(x)r(z)), which is never below |k(x, z)| u. A value of a kernel of distances is
    off by (2m + 20)u(1 + γ‖x‖² + γ‖z‖²), with ‖·‖₁ for Absolute, and by (2m + 20)u where differences are summed.
    """
    reach = getattr(kernel, "reach", None)
    return np.abs(kernel.of_array(np, np.array(sizes, np.float64))) if reach is None else reach(sizes)


def names_of(fact: str = "name") -> tuple[str, ...]:
    """Names of the kernels of which a fact is true."""
    return tuple(name for name, cls in KERNELS.items() if getattr(cls, fact))


# ---------------------------------------------------------------------------------------------
# Kernels


@kernel_class("linear", Inner, is_linear=True)
class Linear(NamedTuple):
    """The inner product, k(x, z) = ⟨x, z⟩."""

    def of_array(self, xp: Any, sums: Any) -> Any:
        return sums


@value_of.case(Linear)
def _(kernel, total):
    return total


@finish.case(Linear)
def _(kernel, sums, count, values):
    for j in range(count):
        values[j] = sums[j]


# A distance may overflow; γ = 0 times infinity would be NaN.
_LARGEST = float(np.finfo(np.float64).max)


@kernel_class("rbf", Squared, is_gaussian=True)
class RBF(NamedTuple):
    """The Gaussian kernel, k(x, z) = exp(−gamma‖x − z‖²)."""

    gamma: float

    @property
    def steepness(self) -> float:
        """The steepest slope of exp(−γt²) over the distance t."""
        return math.sqrt(2.0 * self.gamma / math.e)

    def of_array(self, xp: Any, sums: Any) -> Any:
        sums *= -self.gamma
        return xp.exp(sums, out=sums)


@value_of.case(RBF)
def _(kernel, total):
    return np.exp(-kernel.gamma * np.minimum(total, _LARGEST))


@finish.case(RBF)
def _(kernel, sums, count, values):
    gamma, zero, largest = sums.dtype.type(kernel.gamma), sums.dtype.type(0), largest_of(sums)
    for j in range(count):
        distance = sums[j] if sums[j] <= largest else largest  # also where infinities met
        distance = distance if distance > zero else zero
        sums[j] = -gamma * distance
        values[j] = sums[j]
    exp_many(values, count)


@kernel_class("poly", Inner)
class Polynomial(NamedTuple):
    """The polynomial kernel, k(x, z) = (gamma⟨x, z⟩ + coef0)^degree."""

    gamma: float
    coef0: float
    degree: int

    def of_array(self, xp: Any, sums: Any) -> Any:
        return (self.gamma * sums + self.coef0) ** self.degree

    def reach(self, sizes: Any) -> Any:
        """Of a power: the degree times the largest value, of which a relative change of the sum is that many times."""
        return max(1, self.degree) * (self.gamma * sizes + abs(self.coef0)) ** self.degree


@value_of.case(Polynomial)
def _(kernel, total):
    return (kernel.gamma * total + kernel.coef0) ** kernel.degree


@finish.case(Polynomial)
def _(kernel, sums, count, values):
    gamma, coef0 = sums.dtype.type(kernel.gamma), sums.dtype.type(kernel.coef0)
    for j in range(count):
        sums[j] = gamma * sums[j] + coef0
        values[j] = 1
    power = kernel.degree
    while power > 0:
        if power & 1:
            for j in range(count):
                values[j] *= sums[j]
        power >>= 1
        if power > 0:
            for j in range(count):
                sums[j] *= sums[j]


@kernel_class("sigmoid", Inner, is_definite=False)
class Sigmoid(NamedTuple):
    """The sigmoid kernel, k(x, z) = tanh(gamma⟨x, z⟩ + coef0), which is not positive semi-definite."""

    gamma: float
    coef0: float

    def of_array(self, xp: Any, sums: Any) -> Any:
        return xp.tanh(self.gamma * sums + self.coef0)

    def reach(self, sizes: Any) -> Any:
        """The slope is at most 1."""
        return 1.0 + self.gamma * sizes + abs(self.coef0)


@value_of.case(Sigmoid)
def _(kernel, total):
    return np.tanh(kernel.gamma * total + kernel.coef0)


@finish.case(Sigmoid)
def _(kernel, sums, count, values):
    gamma, coef0 = sums.dtype.type(kernel.gamma), sums.dtype.type(kernel.coef0)
    for j in range(count):
        values[j] = np.tanh(gamma * sums[j] + coef0)


@kernel_class("laplacian", Absolute)
class Laplacian(NamedTuple):
    """The Laplacian kernel, k(x, z) = exp(−gamma‖x − z‖₁)."""

    gamma: float

    @property
    def steepness(self) -> float:
        """The steepest slope of exp(−γt) over the distance t."""
        return self.gamma

    def of_array(self, xp: Any, sums: Any) -> Any:
        sums *= -self.gamma
        return xp.exp(sums, out=sums)


value_of.case(Laplacian)(value_of.table[RBF])
finish.case(Laplacian)(finish.table[RBF])


@kernel_class("precomputed", is_table=True, is_definite=False)
class Precomputed(NamedTuple):
    """The kernel value k(xᵢ, xⱼ) is entry (i, j) of the data matrix."""


@between.case(Precomputed)
def _(kernel, X, i, Z, j):
    return np.float64(X.values[i, j])


@kernel_class(None, is_function=True, is_definite=False)
class BlackBox:
    """A user's function ``f(A, B)`` that returns the (len(A), len(B)) kernel values of two sets of rows.

    The function is called with ``rows_per_call`` rows of A at a time. One is the default, because
    only then do the values not depend on which rows a block asked for, whatever the
    function does inside; a larger number is faster where that is no concern.
    """

    function: Callable[[Any, Any], Any]
    rows_per_call: int

    def __init__(self, function: Callable[[Any, Any], Any], rows_per_call: int = 1):
        if not callable(function):
            raise TypeError(f"a black-box kernel must be a function f(A, B), got {function!r}.")
        if not isinstance(rows_per_call, Integral) or rows_per_call < 1:
            raise ValueError(f"rows_per_call must be an integer >= 1, got {rows_per_call!r}.")
        self.function = function
        self.rows_per_call = int(rows_per_call)

    def __repr__(self) -> str:
        return f"BlackBox({self.function!r}, rows_per_call={self.rows_per_call})"


# ---------------------------------------------------------------------------------------------
# Kernels of users' arguments


def _number(name: str, value: Any) -> float:
    if isinstance(value, str):
        remedy = "; resolve_gamma turns 'scale' and 'auto' into one." if name == "gamma" else "."
        raise ValueError(f"{name} must be a number, got {value!r}{remedy}")
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}.")
    return float(value)


def _gamma(value: Any) -> float:
    gamma = _number("gamma", value)
    if gamma < 0:
        raise ValueError(f"gamma must be >= 0, got {value!r}.")
    return gamma


def _degree(value: Any) -> int:
    degree = _number("degree", value)
    if degree < 0 or degree != int(degree):
        raise ValueError(f"degree must be an integer >= 0, got {value!r}.")
    return int(degree)


def as_kernel(kernel: Any, gamma: Any = 1.0, degree: Any = 3, coef0: Any = 0.0) -> Any:
    """The kernel of scikit-learn style arguments: a name or a function, and its parameters.

    Parameters that the kernel does not have are ignored; a kernel of this module is checked and returned.

    Examples
    --------
    >>> as_kernel("poly", gamma=0.5, degree=2, coef0=1)
    Polynomial(gamma=0.5, coef0=1.0, degree=2)
    """
    if isinstance(kernel, BlackBox):
        return kernel
    cls: Any
    if is_kernel(kernel):
        given, cls = kernel._asdict(), type(kernel)
    elif isinstance(kernel, str) and kernel in KERNELS:
        given, cls = {"gamma": gamma, "degree": degree, "coef0": coef0}, KERNELS[kernel]
    elif callable(kernel):
        return BlackBox(kernel)
    else:
        names = ", ".join(map(repr, KERNELS))
        raise ValueError(f"kernel must be one of {names} or a function f(A, B), got {kernel!r}.")
    check = {"gamma": _gamma, "degree": _degree, "coef0": lambda value: _number("coef0", value)}
    return cls(*(check[name](given[name]) for name in cls._fields))


def _variance(X: Any) -> float:
    """Variance of all entries of a matrix, zeros included, in float64 and without a copy of the matrix."""
    if isinstance(X, Distant):
        return X.variance()
    count = X.shape[0] * X.shape[1]
    if sp.issparse(X) and X.format not in ("csr", "csc"):
        X = X.tocsr()
    entries = X.data if sp.issparse(X) else X
    if count == 0:
        return 0.0
    step = max(1, 2**20 // max(1, math.prod(entries.shape[1:])))
    pieces = [entries[start : start + step] for start in range(0, len(entries), step)]
    mean = sum(float(np.sum(piece, dtype=np.float64)) for piece in pieces) / count
    squares = sum(float(np.sum((piece.astype(np.float64) - mean) ** 2)) for piece in pieces)
    return (squares + (count - entries.size) * mean**2) / count


def resolve_gamma(gamma: Any, X: Any) -> float:
    """The number that ``gamma`` stands for, as in scikit-learn.

    "scale" is 1 / (n_features · variance of all entries of X), or 1 if they are all equal; "auto" is
    1 / n_features; a number is itself. X is an array, a SciPy sparse matrix or a layout of :mod:`.rows`.

    Examples
    --------
    >>> resolve_gamma("auto", np.ones((3, 4)))
    0.25
    """
    if not isinstance(gamma, str):
        return _gamma(gamma)
    matrix = as_matrix(X)
    n_features = max(1, matrix.shape[1])
    if gamma == "auto":
        return 1.0 / n_features
    if gamma == "scale":
        variance = _variance(matrix)
        return 1.0 / (n_features * variance) if variance > 0 else 1.0
    raise ValueError(f"gamma must be 'scale', 'auto' or a number >= 0, got {gamma!r}.")
