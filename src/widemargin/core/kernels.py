"""Kernels, and blocks of rows of a kernel matrix whose values never depend on the block.

    Linear       ⟨x, z⟩
    RBF          exp(−γ‖x − z‖²)
    Polynomial   (γ⟨x, z⟩ + c)^degree
    Sigmoid      tanh(γ⟨x, z⟩ + c)
    Laplacian    exp(−γ‖x − z‖₁)
    Precomputed  the data matrix is the kernel matrix
    BlackBox     a Python function of two sets of rows

:func:`pair` is one kernel value, from two rows, in float64. :class:`KernelMatrix` gives
many: rows I of the matrix K[i, j] = k(xᵢ, zⱼ), each against all zⱼ.

How a block is computed. Sixteen rows at a time are packed into a tile with one column per row, so
that feature k of the sixteen stands in one or two vector registers. Then, for a row v, and for its
entries vₖ in order,

    s ← s + m(tileₖ, vₖ)        (sixteen sums, in registers)

with one of four measures m:

    Inner       x z                                Σ = ⟨x, z⟩
    Squared     (x − z)²                           Σ = ‖x − z‖²
    Absolute    |x − z|                            Σ = ‖x − z‖₁
    Overlap     min(|x|, |z|) if xz > 0, else 0    Σ = (‖x‖₁ + ‖z‖₁ − ‖x − z‖₁) / 2

Dense data: all rows of Z are packed once, and the rows of X asked for are held against each tile, a dozen
at a time. CSR data: the rows of X asked for are packed and held against each row of Z. Inner and Overlap
vanish where x does, so only the columns that occur in the tile count: they are renumbered, the tile
holds those alone, and its size is bounded by the entries of its rows however many features there are. Last,
a pass maps sums to kernel values: both distances are Σ itself, or size(x) + size(z) − 2Σ, clipped at 0,
with ‖x‖² or ‖x‖₁ as size. Sizes are sums of the same terms in the same order as Σ of a row with itself, so
that the distance of two equal rows is 0 and their kernel value 1, to the bit.

The law. The sixteen sums are independent, there are always sixteen (padded with zeros), and each
runs over the same terms in the same order: the bits of a row are the same whichever rows it
is asked for with, in whichever order, on any number of threads; and K[i, j] and K[j, i] are the same
bits. Products by BLAS do not have this property. With OpenBLAS a row in a block differs in its last
bits from the same row alone, and from itself at another place in the block (float32 on Haswell and
Zen from 16 rows on; float64 on AVX-512 if the number of columns is no multiple of 8), in a block of another
height (small matrices have kernels of their own), and on another number of threads. Calls of
exactly 8 rows against padded columns would cure all but the last, at a quarter of the speed.

Cancellation. ‖x‖² + ‖z‖² − 2⟨x, z⟩ has an error near ε max(‖x‖², ‖z‖²), and γ times that
is the relative error of the kernel value. Where γ max ‖zⱼ‖² exceeds 0.05/√ε (data far from the
origin, or a large γ) dense rows are compared by Squared, which has no cancellation, costs up to
twice as much, and needs no centred copy of the data. CSR rows are always accumulated in float64, which
moves the limit to 3e6; beyond it they are compared pair by pair. The choice depends on Z and γ
alone, so a prediction does not depend on its batch.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .dispatch import borrow, compiled, generic
from .exp import exp
from .measures import Absolute, Inner, Overlap, Squared, row_sum, sizes
from .rows import CSRRows, DenseRows, borrowed, n_rows

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


def names_of(fact: str = "name") -> tuple[str, ...]:
    """Names of the kernels of which a fact is true."""
    return tuple(name for name, cls in KERNELS.items() if getattr(cls, fact))


# ---------------------------------------------------------------------------------------------
# Kernels


@kernel_class("linear", Inner, is_linear=True)
class Linear(NamedTuple):
    """k(x, z) = ⟨x, z⟩."""


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
    """k(x, z) = exp(−gamma‖x − z‖²)."""

    gamma: float

    @property
    def steepness(self) -> float:
        """Of exp(−γt²)."""
        return math.sqrt(2.0 * self.gamma / math.e)


@value_of.case(RBF)
def _(kernel, total):
    return np.exp(-kernel.gamma * min(total, _LARGEST))


@finish.case(RBF)
def _(kernel, sums, count, values):
    gamma, zero, largest = sums.dtype.type(kernel.gamma), sums.dtype.type(0), np.finfo(sums.dtype).max
    for j in range(count):
        distance = sums[j] if sums[j] <= largest else largest  # also where infinities met
        distance = distance if distance > zero else zero
        sums[j] = -gamma * distance
        values[j] = sums[j]
    for j in range(count):  # a loop of its own: sums may be wider numbers than values, and fewer of them fit a register
        values[j] = exp(values[j])


@kernel_class("poly", Inner)
class Polynomial(NamedTuple):
    """k(x, z) = (gamma⟨x, z⟩ + coef0)^degree."""

    gamma: float
    coef0: float
    degree: int


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
    """k(x, z) = tanh(gamma⟨x, z⟩ + coef0)."""

    gamma: float
    coef0: float


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
    """k(x, z) = exp(−gamma‖x − z‖₁)."""

    gamma: float

    @property
    def steepness(self) -> float:
        """Of exp(−γt)."""
        return self.gamma


value_of.case(Laplacian)(value_of.table[RBF])
finish.case(Laplacian)(finish.table[RBF])


@kernel_class("precomputed", is_table=True, is_definite=False)
class Precomputed(NamedTuple):
    """k(xᵢ, xⱼ) is entry (i, j) of the data matrix."""


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
    matrix = _matrix(X)
    n_features = max(1, matrix.shape[1])
    if gamma == "auto":
        return 1.0 / n_features
    if gamma == "scale":
        variance = _variance(matrix)
        return 1.0 / (n_features * variance) if variance > 0 else 1.0
    raise ValueError(f"gamma must be 'scale', 'auto' or a number >= 0, got {gamma!r}.")


# ---------------------------------------------------------------------------------------------
# Two rows


@compiled
def pair(kernel, X, i, j):
    """k(xᵢ, xⱼ) in float64."""
    return between(kernel, X, i, X, j)


@compiled
def _self_values(kernel, X, out):
    """out[i] ← k(xᵢ, xᵢ), in place."""
    X, out = borrowed(X), borrow(out)
    for i in range(out.size):
        out[i] = between(kernel, X, i, X, i)


def largest_value(kernel: Any, X: Any) -> float:
    """max k(x, x), which bounds all values of a positive semi-definite kernel; of a function, over some rows."""
    if kernel.unit_diagonal:
        return 1.0
    if kernel.is_function:
        matrix = _matrix(X)
        n = matrix.shape[0]
        some = np.unique(np.linspace(0, n - 1, min(n, 64)).astype(np.int64))
        values = KernelMatrix(kernel, matrix[some]).diagonal()
    elif kernel.is_table:
        values = _matrix(X).diagonal()
    else:
        values = np.empty(_shape(X)[0])
        _self_values(kernel, X, values)
    return float(np.abs(values).max(initial=0.0))


# ---------------------------------------------------------------------------------------------
# Sixteen rows against every row of Z

LANES = 16  # rows in a tile
CHUNK = 192  # columns between two maps from sums to kernel values
DEPTH = 256  # dense features summed at a stretch: bounds the rounding error and keeps the tile in the first cache
# Dense rows held against a tile together, times bytes: 12 × 16 float32 sums are 12 registers of AVX-512, 6 × 16 are 12
# of AVX2. What is left over goes in groups of a third of that.
GROUP_BYTES = 48 if binding.get_host_cpu_features().get("avx512f") else 24
HEIGHT = 96  # dense rows held against a tile before the next tile is read
TILE_ENTRIES = 2**17  # of sparse rows in a tile, unless one row alone has more


def _add_term(builder: ir.IRBuilder, measure: type, total: Any, x: Any, z: Any) -> Any:
    """Emit total + m(x, z), for vectors."""
    fused = ("contract",)
    if measure is Inner:
        return builder.fadd(total, builder.fmul(x, z, flags=fused), flags=fused)
    if measure is Overlap:
        zero = ir.Constant(x.type, [0.0] * LANES)
        low = builder.select(builder.fcmp_ordered("<", x, z), x, z)
        high = builder.select(builder.fcmp_ordered(">", x, z), x, z)
        above = builder.select(builder.fcmp_ordered(">", low, zero), low, zero)
        below = builder.select(builder.fcmp_ordered("<", high, zero), builder.fneg(high), zero)
        return builder.fadd(total, builder.fadd(above, below))
    difference = builder.fsub(x, z)
    if measure is Squared:
        return builder.fadd(total, builder.fmul(difference, difference, flags=fused), flags=fused)
    bits = 32 if isinstance(x.type.element, ir.FloatType) else 64
    name = f"llvm.fabs.v{LANES}f{bits}"
    magnitude = cgutils.get_or_insert_function(builder.module, ir.FunctionType(x.type, [x.type]), name)
    return builder.fadd(total, builder.call(magnitude, [difference]))


class _Emitter:
    """The vector instructions that the two loops below share."""

    def __init__(self, context, builder, tile_type, source_type):
        self.builder = builder
        self.element = context.get_data_type(tile_type.dtype)
        self.vector = ir.VectorType(self.element, LANES)
        self.align = tile_type.dtype.bitwidth // 8
        self.widen = source_type.dtype != tile_type.dtype

    def sums(self) -> Any:
        place = cgutils.alloca_once(self.builder, self.vector)
        self.builder.store(ir.Constant(self.vector, [0.0] * LANES), place)
        return place

    def row(self, array: Any, index: Any) -> Any:
        """Pointer to the sixteen entries of row ``index`` of an array with sixteen columns."""
        start = self.builder.gep(array.data, [self.builder.mul(index, index.type(LANES))])
        return self.builder.bitcast(start, self.vector.as_pointer())

    def load(self, pointer: Any) -> Any:
        return self.builder.load(pointer, align=self.align)

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, pointer, align=self.align)

    def spread(self, pointer: Any) -> Any:
        """The number at a pointer, in all sixteen lanes."""
        number = self.builder.load(pointer)
        if self.widen:
            number = self.builder.fpext(number, self.element)
        undefined = ir.Constant(self.vector, ir.Undefined)
        i32 = ir.IntType(32)
        first = self.builder.insert_element(undefined, number, i32(0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(i32, LANES), [0] * LANES))


def _require_c_order(*arrays: Any) -> None:
    if any(array.layout != "C" for array in arrays):
        raise TypingError("arrays must be C-ordered")


def _adder(group_bytes: int) -> Any:
    """The intrinsic that holds ``group_bytes`` / itemsize rows against a tile at once."""

    @intrinsic
    def add(typingctx, measure, tile, V, j, start, end, sums, column):
        """sums[j + g, column:column + 16] += Σₖ m(tile[k], V[j + g, k]) for a group of rows g and start ≤ k < end.

        Rows behind the last one repeat it; sums must have room for a whole group.
        """
        _require_c_order(tile, V, sums)
        signature = types.void(measure, tile, V, j, start, end, sums, column)

        def codegen(context, builder, sig, args):
            emit = _Emitter(context, builder, sig.args[1], sig.args[2])
            array = {k: context.make_array(sig.args[k])(context, builder, args[k]) for k in (1, 2, 6)}
            tile, V, totals = array[1], array[2], array[6]
            j, start, end, column = args[3], args[4], args[5], args[7]
            n, width = builder.extract_value(V.shape, 0), builder.extract_value(V.shape, 1)
            last = builder.sub(n, n.type(1))
            group = range(group_bytes // emit.align)
            sums = [emit.sums() for g in group]
            rows = []
            for g in group:
                row = builder.add(j, j.type(g))
                row = builder.select(builder.icmp_signed("<", row, last), row, last)
                rows.append(builder.gep(V.data, [builder.mul(row, width)]))
            with cgutils.for_range_slice(builder, start, end, start.type(1), inc=True) as (k, _):
                x = emit.load(emit.row(tile, k))
                for g in group:
                    z = emit.spread(builder.gep(rows[g], [k]))
                    builder.store(_add_term(builder, sig.args[0].instance_class, builder.load(sums[g]), x, z), sums[g])
            for g in group:
                row = builder.mul(builder.add(j, j.type(g)), builder.extract_value(totals.shape, 1))
                place = builder.bitcast(builder.gep(totals.data, [builder.add(row, column)]), emit.vector.as_pointer())
                emit.store(builder.fadd(emit.load(place), builder.load(sums[g])), place)
            return context.get_dummy_value()

        return signature, codegen

    return add


_add_many, _add_few = _adder(GROUP_BYTES), _adder(GROUP_BYTES // 3)


@intrinsic
def _sum_sparse(typingctx, measure, tile, slot, data, indices, start, end, S, s):
    """S[s] ← Σₚ m(tile[slot[indices[p]]], data[p]) for start ≤ p < end, in place."""
    _require_c_order(tile, slot, data, indices, S)
    signature = types.void(measure, tile, slot, data, indices, start, end, S, s)

    def codegen(context, builder, sig, args):
        emit = _Emitter(context, builder, sig.args[1], sig.args[3])
        array = {k: context.make_array(sig.args[k])(context, builder, args[k]) for k in (1, 2, 3, 4, 7)}
        tile, slot, data, indices, S = (array[k] for k in (1, 2, 3, 4, 7))
        start, end, s = args[5], args[6], args[8]
        sums = emit.sums()
        with cgutils.for_range_slice(builder, start, end, start.type(1), inc=True) as (p, _):
            column = builder.load(builder.gep(slot.data, [builder.load(builder.gep(indices.data, [p]))]))
            x = emit.load(emit.row(tile, builder.sext(column, p.type)))
            z = emit.spread(builder.gep(data.data, [p]))
            builder.store(_add_term(builder, sig.args[0].instance_class, builder.load(sums), x, z), sums)
        emit.store(builder.load(sums), emit.row(S, s))
        return context.get_dummy_value()

    return signature, codegen


@generic
def _complete(measure, sums, weight, x_size, z_size):
    """sums ← the measure of whole rows, in place: distances are x_size + z_size + weight · sums."""


@_complete.case(Inner)
def _(measure, sums, weight, x_size, z_size):
    pass


def _add_sizes(measure, sums, weight, x_size, z_size):
    weight = sums.dtype.type(weight)
    for j in range(CHUNK):
        sums[j] = x_size + z_size[j] + weight * sums[j]


_complete.case(Squared)(_add_sizes)
_complete.case(Absolute)(_add_sizes)


@compiled
def _dense_sums(measure, X, out):
    """out[i] ← Σ of row i with itself, as a block of rows against tiles sums it; out has the dtype of the sums."""
    values, out = borrow(X.values), borrow(out)
    n, n_features = values.shape
    few = GROUP_BYTES // 3 // out.itemsize
    block, tile = np.empty((LANES, n_features), out.dtype), np.empty((n_features, LANES), out.dtype)
    sums = np.empty((LANES + few, CHUNK), out.dtype)
    for start in range(0, n, LANES):
        rows = min(LANES, n - start)
        for r in range(LANES):
            for k in range(n_features):
                value = out.dtype.type(values[start + min(r, rows - 1), k])
                block[r, k] = value
                tile[k, r] = value
        sums[:] = 0
        for k in range(0, n_features, DEPTH):
            end = min(k + DEPTH, n_features)
            for j in range(0, rows, few):
                _add_few(measure, tile, block, j, k, end, sums, 0)
        for r in range(rows):
            out[start + r] = sums[r, r]


@compiled
def _sparse_sums(measure, X, out):
    """out[i] ← Σ of row i with itself, as a tile sums it against rows."""
    X, out = borrowed(X), borrow(out)
    longest = np.int64(0)
    for i in range(n_rows(X)):
        longest = max(longest, np.int64(X.indptr[i + 1] - X.indptr[i]))
    places = np.arange(longest).astype(np.int32)
    tile, own = np.zeros((longest, LANES), out.dtype), np.empty(longest, X.data.dtype)
    S = np.empty((1, LANES), out.dtype)
    for i in range(n_rows(X)):
        low, size = np.int64(X.indptr[i]), np.int64(X.indptr[i + 1] - X.indptr[i])
        for k in range(size):
            own[k] = X.data[low + k]
            tile[k, 0] = own[k]
        _sum_sparse(measure, tile, places, own, places, np.int64(0), size, S, np.int64(0))
        out[i] = S[0, 0]


class Packed(NamedTuple):
    """Dense rows X, and all rows of Z in tiles of shape (tile, feature, row of the tile).

    The sizes have the dtype of the sums, and ``z_size`` is padded to whole chunks; they are 0 where ``weight``, that of
    sums in distances, is 1. ``same``: Z is X and the diagonal is 1.
    """

    kernel: Any
    measure: Any
    weight: float
    X: DenseRows
    tiles: np.ndarray
    x_size: np.ndarray
    z_size: np.ndarray
    same: bool


class Scattered(NamedTuple):
    """CSR rows X and Z; ``slot`` (n_features, int32) is working space full of zeros. The rest as in Packed."""

    kernel: Any
    measure: Any
    weight: float
    X: CSRRows
    Z: CSRRows
    x_size: np.ndarray
    z_size: np.ndarray
    same: bool
    slot: np.ndarray


class PairByPair(NamedTuple):
    """Rows of which no sum over tiles is precise enough."""

    kernel: Any
    X: Any
    Z: Any
    same: bool


@generic
def _compute(recipe, I, places, first, last, out):
    """out[places[r], j] ← k(row I[r], column j) for first ≤ j < last; first is a multiple of CHUNK."""


@compiled
def accumulate(V, measure, tile, S):
    """S[j] ← Σₖ m(tile[k], V[j, k]) for every dense row of V; S has at least as many, and a multiple of a group's."""
    few = GROUP_BYTES // 3 // S.itemsize
    S[:] = 0
    for k in range(0, V.shape[1], DEPTH):
        end = min(k + DEPTH, V.shape[1])
        j = 0
        while V.shape[0] - j > 2 * few:
            _add_many(measure, tile, V, j, k, end, S, 0)
            j += 3 * few
        while j < V.shape[0]:
            _add_few(measure, tile, V, j, k, end, S, 0)
            j += few


@_compute.case(Packed)
def _(recipe, I, places, first, last, out):
    values, tiles, z_size = borrow(recipe.X.values), borrow(recipe.tiles), borrow(recipe.z_size)
    n_features = values.shape[1]
    height = min(HEIGHT, I.size)
    many, few = GROUP_BYTES // z_size.itemsize, GROUP_BYTES // 3 // z_size.itemsize
    V = np.empty((height, n_features), z_size.dtype)
    sums = np.empty((height + many, CHUNK), z_size.dtype)
    sizes, kept = np.empty(height, z_size.dtype), np.empty(CHUNK, out.dtype)
    for start in range(0, I.size, height):
        rows = min(height, I.size - start)
        block = V[:rows]
        for r in range(rows):
            i = I[start + r]
            sizes[r] = recipe.x_size[i]
            for k in range(n_features):
                block[r, k] = values[i, k]
        for a in range(first, last, CHUNK):
            u, end_tile = a // LANES, min((a + CHUNK) // LANES, tiles.shape[0])
            sums[:] = 0
            for k in range(0, n_features, DEPTH):
                end = min(k + DEPTH, n_features)
                j = 0
                while rows - j > 2 * few:
                    for v in range(u, end_tile):
                        _add_many(recipe.measure, tiles[v], block, j, k, end, sums, (v - u) * LANES)
                    j += many
                while j < rows:
                    for v in range(u, end_tile):
                        _add_few(recipe.measure, tiles[v], block, j, k, end, sums, (v - u) * LANES)
                    j += few
            _map(recipe, I, places, start, rows, a, last, sums, sizes, kept, out)


@_compute.case(Scattered)
def _(recipe, I, places, first, last, out):
    X, Z, z_size, slot = borrowed(recipe.X), borrowed(recipe.Z), borrow(recipe.z_size), borrow(recipe.slot)
    S = np.empty((CHUNK, LANES), z_size.dtype)
    sums = np.zeros((LANES, CHUNK), z_size.dtype)
    sizes, kept = np.empty(LANES, z_size.dtype), np.empty(CHUNK, out.dtype)
    start = 0
    while start < I.size:
        rows, entries = 0, np.int64(0)
        while rows < LANES and start + rows < I.size:
            i = I[start + rows]
            more = np.int64(X.indptr[i + 1] - X.indptr[i])
            if rows > 0 and entries + more > TILE_ENTRIES:
                break
            entries += more
            rows += 1
        # place 0 of the tile is a row of zeros, for all features that do not occur
        tile, used = np.zeros((entries + 1, LANES), z_size.dtype), 0
        for r in range(rows):
            i = I[start + r]
            sizes[r] = recipe.x_size[i]
            for p in range(X.indptr[i], X.indptr[i + 1]):
                column = X.indices[p]
                if slot[column] == 0:
                    used += 1
                    slot[column] = used
                tile[slot[column], r] = X.data[p]
        for a in range(first, last, CHUNK):
            b = min(a + CHUNK, last)
            for j in range(a, b):
                low, high = np.int64(Z.indptr[j]), np.int64(Z.indptr[j + 1])
                _sum_sparse(recipe.measure, tile, slot, Z.data, Z.indices, low, high, S, j - a)
            for t in range(rows):
                for j in range(b - a):
                    sums[t, j] = S[j, t]
            _map(recipe, I, places, start, rows, a, last, sums, sizes, kept, out)
        for r in range(rows):
            i = I[start + r]
            for p in range(X.indptr[i], X.indptr[i + 1]):
                slot[X.indices[p]] = 0
        start += rows


@_compute.case(PairByPair)
def _(recipe, I, places, first, last, out):
    X, Z = borrowed(recipe.X), borrowed(recipe.Z)
    for r in range(I.size):
        for j in range(first, last):
            out[places[r], j] = between(recipe.kernel, X, I[r], Z, j)
        if recipe.same and first <= I[r] < last:
            out[places[r], I[r]] = 1


@compiled
def _map(recipe, I, places, start, rows, a, last, sums, sizes, kept, out):
    """out[places[start + r], j] ← the kernel values of sums[r, j − a], for a ≤ j < min(a + CHUNK, last).

    Whole chunks are mapped, the last one with whatever stands behind its end, so that all values go through the
    same vector instructions.
    """
    z_size = borrow(recipe.z_size)[a : a + CHUNK]
    b = min(a + CHUNK, last)
    for r in range(rows):
        _complete(measure_of(recipe.kernel), sums[r], recipe.weight, sizes[r], z_size)
        finish(recipe.kernel, sums[r], CHUNK, kept)
        place, i = places[start + r], I[start + r]
        for j in range(b - a):
            out[place, a + j] = kept[j]
        if recipe.same and a <= i < b:
            out[place, i] = 1


@compiled
def compute_rows(recipe, I, places, first, last, out):
    """out[places[r], j] ← k(row I[r], column j) for first ≤ j < last, in place; first is a multiple of CHUNK."""
    _compute(recipe, borrow(I), borrow(places), first, last, borrow(out))


@compiled
def _pack(values, tiles):
    """tiles[u, k, t] ← values[16 u + t, k]; rows behind the last are zeros."""
    values, tiles = borrow(values), borrow(tiles)
    n, n_features = values.shape
    for u in range(tiles.shape[0]):
        for k in range(n_features):
            for t in range(LANES):
                i = u * LANES + t
                tiles[u, k, t] = values[i, k] if i < n else 0


# ---------------------------------------------------------------------------------------------
# The kernel matrix


def _matrix(X: Any) -> Any:
    """The matrix of a layout, without a copy; any other matrix is itself, made sliceable by rows."""
    if isinstance(X, DenseRows):
        return X.values
    if isinstance(X, CSRRows):
        return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(len(X.indptr) - 1, X.n_features))
    if sp.issparse(X):
        return X if X.format in ("csr", "csc") else X.tocsr()
    return X if hasattr(X, "shape") else np.asarray(X)


def _shape(X: Any) -> tuple[int, int]:
    return X.values.shape if isinstance(X, DenseRows) else (len(X.indptr) - 1, int(X.n_features))


def _of_data(dtype: Any) -> np.dtype:
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _check_layout(name: str, rows: Any) -> None:
    if not isinstance(rows, DenseRows | CSRRows):
        raise TypeError(f"{name} must be DenseRows or CSRRows, got {type(rows).__name__}.")
    arrays = [rows.values] if isinstance(rows, DenseRows) else [rows.data, rows.indices, rows.indptr]
    if arrays[0].dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must hold float32 or float64 numbers, got {arrays[0].dtype}; use astype(np.float64).")
    if not all(array.flags.c_contiguous for array in arrays):
        raise ValueError(f"{name} must be C-ordered; use np.ascontiguousarray.")


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose first entry, and so every row of sixteen, starts a cache line."""
    count = math.prod(shape)
    raw = np.empty(count + LANES, dtype)
    start = -raw.ctypes.data % 64 // dtype.itemsize
    return raw[start : start + count].reshape(shape)


class _FromRows:
    """Rows of K computed from rows of the data."""

    def __init__(self, kernel: Any, X: Any, Z: Any, dtype: Any, threads: int):
        Z = X if Z is None else Z
        _check_layout("X", X)
        _check_layout("Z", Z)
        if type(X) is not type(Z):
            raise TypeError(f"X is {type(X).__name__} and Z is {type(Z).__name__}; give both the same layout.")
        (n, width), (m, z_width) = _shape(X), _shape(Z)
        if width != z_width:
            raise ValueError(f"X has {width} features and Z has {z_width}; they must have the same features.")
        self.kernel, self.X, self.Z, self.threads = kernel, X, Z, threads
        self.shape = (n, m)
        data = Z.values if isinstance(Z, DenseRows) else Z.data
        self.dtype = np.dtype(data.dtype if dtype is None else dtype)
        self.entries_per_row = data.size // max(1, m)
        self.recipe = self._choose()
        # working space, one for each thread that was ever at work on sparse rows
        self._slots = [self.recipe.slot] if isinstance(self.recipe, Scattered) else []

    def _choose(self) -> Packed | Scattered | PairByPair:
        """Choose the measure, the dtype of the sums, and the sizes of Z, from Z and the kernel alone."""
        kernel, X, Z, m = self.kernel, self.X, self.Z, self.shape[1]
        sparse, same = isinstance(Z, CSRRows), kernel.unit_diagonal and Z is X
        accumulator = np.dtype(np.float64) if sparse else Z.values.dtype
        measure: Any = Inner()
        weight = 1.0
        if kernel.of_distances:
            largest = sizes(kernel.measure(), Z)[0]
            # γ and the distances must both be in the range of the sums, with room to spare.
            most = float(np.finfo(accumulator).max) ** 0.75
            if largest > most or not (kernel.gamma == 0 or 1 / most < kernel.gamma < most):
                accumulator = np.dtype(np.float64)
            limits = np.finfo(accumulator)
            cancels = not (largest < limits.max and kernel.gamma * largest * math.sqrt(limits.eps) <= 0.05)
            if sparse and cancels:
                return PairByPair(kernel, X, Z, same)
            if sparse:
                measure, weight = (Overlap() if kernel.measure is Absolute else Inner()), -2.0
            elif kernel.measure is Squared and not cancels:
                weight = -2.0
            else:
                measure = kernel.measure()
        z_size = np.zeros(-(-m // CHUNK) * CHUNK, accumulator)
        x_size = z_size if Z is X else np.zeros(self.shape[0], accumulator)
        if weight < 0.0:
            own_sums = _sparse_sums if sparse else _dense_sums
            own_sums(measure, Z, z_size)
            if Z is not X:
                own_sums(measure, X, x_size)
        if sparse:
            return Scattered(kernel, measure, weight, X, Z, x_size, z_size, same, np.zeros(X.n_features, np.int32))
        tiles = _aligned((-(-m // LANES), Z.values.shape[1], LANES), accumulator)
        _pack(Z.values, tiles)
        return Packed(kernel, measure, weight, X, tiles, x_size, z_size, same)

    def _piece(self, I: np.ndarray, places: np.ndarray, first: int, last: int, out: np.ndarray) -> None:
        """Columns first to last of out; first is a multiple of CHUNK."""
        recipe = self.recipe
        if isinstance(recipe, Scattered):
            try:
                slot = self._slots.pop()
            except IndexError:
                slot = np.zeros(recipe.slot.size, np.int32)
            recipe = recipe._replace(slot=slot)
        compute_rows(recipe, I, places, first, last, out)
        if isinstance(recipe, Scattered):
            self._slots.append(recipe.slot)

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        m = self.shape[1]
        pieces = min(self.threads, -(-m // CHUNK), len(I) * m * self.entries_per_row // 2**23)
        if pieces <= 1:
            self._piece(I, places, 0, m, out)
            return
        step = -(-m // (pieces * CHUNK)) * CHUNK
        with ThreadPoolExecutor(pieces) as pool:
            futures = [pool.submit(self._piece, I, places, a, min(a + step, m), out) for a in range(0, m, step)]
        for future in futures:
            future.result()

    def diagonal(self) -> tuple[np.ndarray, int]:
        out = np.ones(self.shape[0])
        if self.kernel.unit_diagonal:
            return out, 0
        _self_values(self.kernel, self.X, out)
        return out, len(out)


class _FromTable:
    """Rows of K taken from a given matrix."""

    def __init__(self, X: Any, Z: Any, dtype: Any):
        if isinstance(X, CSRRows) or sp.issparse(X):
            raise TypeError("a precomputed kernel must be a dense matrix, got a sparse one; use X.toarray().")
        if Z is not None:
            raise ValueError("a precomputed kernel has its columns in X; leave Z out.")
        self.table = _matrix(X)
        self.shape = self.table.shape
        self.dtype = _of_data(self.table.dtype) if dtype is None else np.dtype(dtype)

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        out[places] = self.table[I]

    def diagonal(self) -> tuple[np.ndarray, int]:
        n, m = self.shape
        if n != m:
            raise ValueError(f"the diagonal of a precomputed kernel needs a square matrix, got shape ({n}, {m}).")
        return np.asarray(self.table.diagonal(), dtype=np.float64), n


class _FromFunction:
    """Rows of K returned by a user's function."""

    def __init__(self, kernel: BlackBox, X: Any, Z: Any, dtype: Any):
        self.kernel = kernel
        self.A = _matrix(X)
        self.B = self.A if Z is None else _matrix(Z)
        self.shape = (self.A.shape[0], self.B.shape[0])
        self.dtype = _of_data(getattr(self.B, "dtype", None)) if dtype is None else np.dtype(dtype)

    def call(self, A: Any, B: Any) -> np.ndarray:
        expected = (A.shape[0], B.shape[0])
        values = self.kernel.function(A, B)
        values = values.toarray() if sp.issparse(values) else np.asarray(values)
        if values.shape != expected:
            raise ValueError(
                f"the kernel function must return an array of shape {expected} for {expected[0]} rows against "
                f"{expected[1]}, got shape {values.shape}."
            )
        if values.dtype.kind not in "biuf":
            raise ValueError(f"the kernel function must return real numbers, got dtype {values.dtype}.")
        if not np.isfinite(values).all():
            raise ValueError(
                "the kernel function returned NaN or infinity, and its values must be finite: scale the data, or mend "
                "the function"
            )
        return values

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        step = self.kernel.rows_per_call
        for start in range(0, len(I), step):
            out[places[start : start + step]] = self.call(self.A[I[start : start + step]], self.B)

    def diagonal(self) -> tuple[np.ndarray, int]:
        n = self.shape[0]
        return np.array([self.call(self.A[[i]], self.A[[i]])[0, 0] for i in range(n)], dtype=np.float64), n


class KernelMatrix:
    """The matrix K[i, j] = k(xᵢ, zⱼ), computed by blocks of rows on demand.

    Parameters
    ----------
    kernel : a kernel of this module
    X : DenseRows or CSRRows
        Row i of K belongs to row i of X. With BlackBox it may be any matrix that can be sliced by rows.
        CSR rows have no duplicate indices, and sorted ones.
    Z : same layout as X, optional
        Column j of K belongs to row j of Z. Default: X itself.
    dtype : float32 or float64, optional
        Of the values handed out. Default: the dtype of the data (of Z). Sums have the dtype of Z or more.
    threads : int
        Threads that share the columns of a block. They do not change a bit of it.

    Attributes
    ----------
    shape : (rows of X, rows of Z)
    dtype : dtype of the values
    evaluations : int
        Kernel values computed so far: len(I) · shape[1] for each block, and the length of the diagonal where it
        had to be computed (it is 1 for RBF and Laplacian).

    Examples
    --------
    >>> K = KernelMatrix(Linear(), DenseRows(np.array([[1.0, 0.0], [1.0, 2.0]])))
    >>> K.block([1])
    array([[1., 5.]])
    >>> K.evaluations
    2
    """

    kernel: Any
    shape: tuple[int, int]
    dtype: np.dtype
    threads: int
    evaluations: int

    def __init__(self, kernel: Any, X: Any, Z: Any = None, *, dtype: Any = None, threads: int = 1):
        if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
        if not isinstance(threads, Integral) or threads < 1:
            raise ValueError(f"threads must be an integer >= 1, got {threads!r}.")
        if not is_kernel(kernel):
            raise TypeError(f"kernel must be a kernel object (as_kernel makes one), got {kernel!r}.")
        self.kernel, self.threads = as_kernel(kernel), int(threads)
        self._source: _FromRows | _FromTable | _FromFunction
        if kernel.is_function:
            self._source = _FromFunction(kernel, X, Z, dtype)
        elif kernel.is_table:
            self._source = _FromTable(X, Z, dtype)
        else:
            self._source = _FromRows(self.kernel, X, Z, dtype, self.threads)
        n, m = self._source.shape
        self.shape = (int(n), int(m))
        self.dtype = self._source.dtype
        self.evaluations = 0

    def block(self, I: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Rows I of the matrix, written into ``out`` if given.

        The bits of a row depend on neither the other rows of I nor its position.
        """
        I = self._indices(I)
        expected = (len(I), self.shape[1])
        if out is None:
            out = np.empty(expected, self.dtype)
        elif out.shape != expected or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be a C-ordered {self.dtype} array of shape {expected}, got {out.dtype} of shape {out.shape}."
            )
        self.fill(I, np.arange(len(I)), out)
        return out

    def fill(self, I: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
        """out[places] ← rows I of the matrix, both as int64 arrays; nothing is checked."""
        if len(I) and self.shape[1]:
            self._source.fill(I, places, out)
        self.evaluations += len(I) * self.shape[1]

    @property
    def recipe(self) -> Any:
        """What compiled code needs to compute rows by :func:`compute_rows`; None where only Python can."""
        return getattr(self._source, "recipe", None)

    def diagonal(self) -> np.ndarray:
        """k(xᵢ, xᵢ) for every row of X, in float64."""
        values, evaluations = self._source.diagonal()
        self.evaluations += evaluations
        return values

    def _indices(self, I: Any) -> np.ndarray:
        I = np.atleast_1d(np.asarray(I))
        if I.size == 0:
            return np.empty(0, np.int64)
        if I.ndim != 1 or I.dtype.kind not in "iu":
            raise TypeError(f"rows must be given as a list of integers, got {I.dtype} of shape {I.shape}.")
        low, high = int(I.min()), int(I.max())
        if low < 0 or high >= self.shape[0]:
            bad = low if low < 0 else high
            raise IndexError(f"row {bad} does not exist: the matrix has {self.shape[0]} rows, counted from 0.")
        return np.ascontiguousarray(I, dtype=np.int64)
