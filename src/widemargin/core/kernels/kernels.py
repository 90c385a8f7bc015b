"""Kernels k(x, z): their formulas, and all that the rest of the library knows of each.

    ===========  ====================================  =========================
    class        k(x, z)                               measure of the two rows
    ===========  ====================================  =========================
    Linear       ⟨x, z⟩                                ⟨x, z⟩, ``Inner``
    Polynomial   (γ⟨x, z⟩ + c)^degree                  ⟨x, z⟩, ``Inner``
    Sigmoid      tanh(γ⟨x, z⟩ + c)                     ⟨x, z⟩, ``Inner``
    RBF          exp(−γ‖x − z‖²)                       ‖x − z‖², ``Squared``
    Laplacian    exp(−γ‖x − z‖₁)                       ‖x − z‖₁, ``Absolute``
    Precomputed  an entry of the data matrix           none
    BlackBox     a Python function of two sets of rows none
    ===========  ====================================  =========================

A kernel of rows is a function of one measure of two rows (see :mod:`.measures`). Everything about a kernel stands in
this file: a class whose fields are its parameters (γ, c = ``coef0``, degree), registered with its facts by
:func:`kernel_class`; the kernel as a function of one measure in float64, a case of :func:`value_of`; the same for an
array of measures in any precision, a case of :func:`finish`; and ``of_array(xp, sums)``, the same for an array of
another library, which takes exp and tanh from the module ``xp`` and may change ``sums``. Other files read the facts and
never ask for the class.

:func:`between` computes one kernel value of two rows in float64, and
:class:`widemargin.core.kernels.matrix.KernelMatrix` computes blocks of them.
"""

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..compiling.dispatch import generic
from ..intrinsics.exp import exp_many
from ..intrinsics.extremes import largest_of
from ..rows.distant import Distant
from ..rows.rows import as_matrix
from .measures import Absolute, Inner, Squared, row_sum

# ---------------------------------------------------------------------------------------------
# What is known of a kernel

#: Kernels by the names that users give.
KERNELS: dict[str, Any] = {}


@generic
def measure_of(kernel):
    """The measure of which a kernel of rows is a function."""


@generic
def value_of(kernel, total):
    """The kernel value for one measure of two rows, in float64."""


@generic
def finish(kernel, sums, count, values):
    """values[j] ← the kernel value of the measure sums[j] for j < count, in place.

    The call may overwrite ``sums``; for RBF and Laplacian the new contents are the exponents −γ·measure.
    """


@generic
def between(kernel, X, i, Z, j):
    """k(xᵢ, zⱼ) in float64; X and Z have the same layout, and the indices of CSR rows are sorted."""


def value_between(kernel, X, i, Z, j):
    return value_of(kernel, row_sum(X, i, Z, j, measure_of(kernel)))


def kernel_class(name: str | None, measure: Any = None, **facts: Any) -> Callable[[Any], Any]:
    """Register a class of kernels under a name, and set its facts as attributes.

    ``measure`` is a class of :mod:`.measures`: the number of two rows of which the kernel is a function. A kernel with
    a measure needs a case each of :func:`value_of` and :func:`finish`. A fact that depends on the parameters is a
    property of the class instead. The facts, with their defaults:

    name            what users call the kernel; None for a Python function
    measure         None if kernel values are not computed from rows here
    of_rows         whether the kernel has a measure
    of_distances    whether the measure is a distance, so that moving all rows alike changes no kernel value
    has_gamma       whether there is a field γ
    power           dividing all rows by s multiplies γ by s to this power; 1 for Absolute, else 2
    unit_diagonal   whether k(x, x) = 1; True for kernels of distances
    is_definite     whether the kernel is certainly positive semi-definite; True
    steepness       of a kernel of distances: |k(x, z) − k(x′, z)| ≤ steepness ‖x − x′‖, ‖·‖₁ for Absolute; infinite
    reach           a method of kernels of inner products with a slope: see :func:`reach_of`
    is_linear       whether k(x, z) = ⟨x, z⟩, so that a machine has weights of features; False
    is_gaussian     whether k(x, z) = exp(−γ‖x − z‖²), so that two vectors can merge into one; False
    is_table        whether the data matrix is the kernel matrix; False
    is_function     whether the kernel is a Python function, which takes rows as users gave them; False
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
            between.case(cls)(value_between)
        return cls

    return enter


def class_of(kernel: Any) -> Any:
    """The class of a kernel that is given by name, as an object or as a function; callers read facts from the class.

    For a function, and for a name that does not exist, the class is BlackBox, which has no facts to rely on.
    """
    if isinstance(kernel, str):
        return KERNELS.get(kernel, BlackBox)
    return type(kernel) if is_kernel(kernel) else BlackBox


def is_kernel(kernel: Any) -> bool:
    """Whether this is an object of a registered class of kernels."""
    return isinstance(kernel, (BlackBox, *KERNELS.values()))


def reach_of(kernel: Any, sizes: Any) -> Any:
    """A number r(x) for each row, from its ‖x‖², that bounds the rounding error of a kernel of inner products.

    Let u be the unit of rounding and m the number of terms. A sum of m products has an error of at most mu‖x‖‖z‖ in
    any order of summation. The kernel value then has an error of at most (2m + 20)u √(r(x)r(z)), and this bound is at
    least |k(x, z)| u. A value of a kernel of distances has an error of at most (2m + 20)u(1 + γ‖x‖² + γ‖z‖²), with
    ‖·‖₁ for Absolute, and of at most (2m + 20)u where differences of the rows are summed.
    """
    reach = getattr(kernel, "reach", None)
    return np.abs(kernel.of_array(np, np.array(sizes, np.float64))) if reach is None else reach(sizes)


def names_of(fact: str = "name") -> tuple[str, ...]:
    """Names of the kernels for which a fact is true."""
    return tuple(name for name, cls in KERNELS.items() if getattr(cls, fact))


# ---------------------------------------------------------------------------------------------
# Kernels


@kernel_class("linear", Inner, is_linear=True)
class Linear(NamedTuple):
    """The inner product, k(x, z) = ⟨x, z⟩."""

    def of_array(self, xp: Any, sums: Any) -> Any:
        return sums


@value_of.case(Linear)
def linear_value(kernel, total):
    return total


@finish.case(Linear)
def linear_values(kernel, sums, count, values):
    for j in range(count):
        values[j] = sums[j]


# A distance may overflow; γ = 0 times infinity would be NaN.
_LARGEST = float(np.finfo(np.float64).max)


@kernel_class("rbf", Squared, is_gaussian=True)
class RBF(NamedTuple):
    """The Gaussian kernel, k(x, z) = exp(−gamma‖x − z‖²)."""

    gamma: Any = "scale"

    @property
    def steepness(self) -> float:
        """The steepest slope of exp(−γt²) over the distance t."""
        return math.sqrt(2.0 * self.gamma / math.e)

    def of_array(self, xp: Any, sums: Any) -> Any:
        sums *= -self.gamma
        return xp.exp(sums, out=sums)


@value_of.case(RBF)
def rbf_value(kernel, total):
    return np.exp(-kernel.gamma * np.minimum(total, _LARGEST))


@finish.case(RBF)
def rbf_values(kernel, sums, count, values):
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

    gamma: Any = "scale"
    coef0: float = 0.0
    degree: int = 3

    def of_array(self, xp: Any, sums: Any) -> Any:
        return (self.gamma * sums + self.coef0) ** self.degree

    def reach(self, sizes: Any) -> Any:
        """The largest value times the degree: a relative change of the sum grows by that factor in a power."""
        return max(1, self.degree) * (self.gamma * sizes + abs(self.coef0)) ** self.degree


@value_of.case(Polynomial)
def polynomial_value(kernel, total):
    return (kernel.gamma * total + kernel.coef0) ** kernel.degree


@finish.case(Polynomial)
def polynomial_values(kernel, sums, count, values):
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

    gamma: Any = "scale"
    coef0: float = 0.0

    def of_array(self, xp: Any, sums: Any) -> Any:
        return xp.tanh(self.gamma * sums + self.coef0)

    def reach(self, sizes: Any) -> Any:
        """The slope of tanh is at most 1."""
        return 1.0 + self.gamma * sizes + abs(self.coef0)


@value_of.case(Sigmoid)
def sigmoid_value(kernel, total):
    return np.tanh(kernel.gamma * total + kernel.coef0)


@finish.case(Sigmoid)
def sigmoid_values(kernel, sums, count, values):
    gamma, coef0 = sums.dtype.type(kernel.gamma), sums.dtype.type(kernel.coef0)
    for j in range(count):
        values[j] = np.tanh(gamma * sums[j] + coef0)


@kernel_class("laplacian", Absolute)
class Laplacian(NamedTuple):
    """The Laplacian kernel, k(x, z) = exp(−gamma‖x − z‖₁)."""

    gamma: Any = "scale"

    @property
    def steepness(self) -> float:
        """The steepest slope of exp(−γt) over the distance t."""
        return self.gamma

    def of_array(self, xp: Any, sums: Any) -> Any:
        sums *= -self.gamma
        return xp.exp(sums, out=sums)


value_of.case(Laplacian)(rbf_value)
finish.case(Laplacian)(rbf_values)


@kernel_class("precomputed", is_table=True, is_definite=False)
class Precomputed(NamedTuple):
    """The kernel value k(xᵢ, xⱼ) is entry (i, j) of the data matrix."""


@between.case(Precomputed)
def precomputed_value(kernel, X, i, Z, j):
    return np.float64(X.values[i, j])


@kernel_class(None, is_function=True, is_definite=False)
class BlackBox:
    """A user's function ``f(A, B)`` that returns the (len(A), len(B)) kernel values of two sets of rows.

    The function is called with ``rows_per_call`` rows of A at a time. With one row, the default, the value of a pair of
    rows never depends on the other rows of the call. A larger number is faster.
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


def with_gamma(kernel: Any, gamma: float) -> Any:
    """A kernel object with this γ; names, functions and kernels without a γ are returned as they are."""
    return kernel._replace(gamma=gamma) if is_kernel(kernel) and type(kernel).has_gamma else kernel


def as_kernel(kernel: Any, gamma: Any = 1.0, degree: Any = 3, coef0: Any = 0.0) -> Any:
    """The kernel of scikit-learn style arguments: a name and its parameters, an object, or a function.

    Parameters that the kernel does not have are ignored. An object has its own parameters, which are checked.

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
    known = [name for name in cls._fields if name in given]
    return cls(**{name: check.get(name, partial(_number, name))(given[name]) for name in known})


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
    1 / n_features; a number is itself. X is an array, a SciPy sparse matrix or a layout of
    :mod:`widemargin.core.rows.rows`.

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
