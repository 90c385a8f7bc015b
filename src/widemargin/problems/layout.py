"""How rows are scaled, centred, rounded and laid out before a kernel sees them; refusals where that cannot help.

Scaling. A kernel with a γ keeps its values when rows are divided by 2ᵉ and γ is multiplied by 2²ᵉ (Laplacian: 2ᵉ), and
a power of two changes no digit. Rows whose squares would leave the range of float32 are therefore divided to unit size,
and later code computes as with data of that size. For example, features near 10³⁰ are handled like features near 1.

Centring and rounding: see :class:`Preparation`. Rows to predict get the same treatment as those of training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..core.intrinsics.tiles import BESIDE, NEON
from ..core.kernels.kernels import as_kernel, class_of, resolve_gamma, with_gamma
from ..core.kernels.matrix import KernelMatrix
from ..core.kernels.measures import SOME_ENTRIES, Absolute, largest_size
from ..core.rows.distant import Distant
from ..core.rows.rows import CSRRows, DenseRows, as_matrix, as_rows, shape, take_rows
from ..core.sampling.visits import spread
from ..files import savable
from ..schemas import Array, Whole, maybe
from ..warning import warn
from .kernel import KernelProblem

WITHIN = 32  # rows are scaled if the largest entry is outside of 2^±32: its square must be in the range of float32
FAR = 2.0**50  # entries of new rows are clipped here for kernels of distances: far from all training examples
SMALLEST = 2.0**-100  # kernel values below lose digits in float32, or vanish
ALIKE = 2.0**-24  # kernel values that differ by less are equal in float32
VANISHING = 2.0**-900  # scores below vanish in float64's rounding and that of smaller weights
VANISHES = 104.0  # t from which exp(−t) is 0 in float32
UNEQUAL = 1e3  # largest feature / median feature above which the user is warned: distances see its square
FEW_ROWS = 16  # rows below which features are not compared
OVERFLOWS = 2.0**900  # sums of squares above are refused, because scores and weights are multiplied with them
FLOAT32_LARGEST = float(np.finfo(np.float32).max)
#: Share of non-zeros below which dense data is handled as CSR, whose products are then cheaper. With 32 registers dense
#: products are cheaper down to a smaller share.
SPARSE_BELOW = 0.15 if BESIDE > 1 or NEON else 0.25
SOME_ROWS = 1024  # rows from which the share of non-zeros is estimated
MOVED = 32.0  # units of 2⁻²⁴; data is rounded to float32 if no kernel value changes by more


def largest_entry(X: Any) -> float:
    """The largest absolute value of an entry of X; 0 if X is empty."""
    if isinstance(X, Distant):
        return X.largest_entry()
    entries = X.values if isinstance(X, DenseRows) else X.data if sp.issparse(X) or isinstance(X, CSRRows) else X
    entries = np.asarray(entries)
    if not entries.size:
        return 0.0
    few = max(1, SOME_ENTRIES * len(entries) // entries.size)  # parts that stay in cache for both passes
    parts = [entries[first : first + few] for first in range(0, len(entries), few)]
    return float(np.max(np.abs([(part.max(), part.min()) for part in parts])))


def exponent_of(X: Any) -> int:
    """The exponent e if rows must be divided by 2ᵉ, else 0."""
    largest = largest_entry(X)
    exponent = math.frexp(largest)[1]
    return exponent if largest > 0.0 and abs(exponent) > WITHIN else 0


def divided(X: Any, exponent: int) -> Any:
    """A copy of X divided by 2ᵉ; X itself if e is 0."""
    if exponent == 0:
        return X
    if isinstance(X, Distant):
        return X.prepared(exponent, math.inf, None, X.dtype)
    with np.errstate(over="ignore", under="ignore"):
        if sp.issparse(X):
            return sp.csr_matrix((np.ldexp(X.data, -exponent), X.indices, X.indptr), shape=X.shape)
        return np.ldexp(X, -exponent)


def times_power(value: float, exponent: int) -> float:
    """The value times 2ᵉ; infinity where that overflows."""
    with np.errstate(over="ignore"):
        return float(np.ldexp(value, exponent))


def scaled_kernel(name: Any, gamma: Any, degree: Any, coef0: Any, X: Any) -> tuple[Any, int, float]:
    """(kernel of rows divided by 2ᵉ, e, γ of the rows as they are) for a kernel's name, object or function."""
    cls = class_of(name)
    if not cls.has_gamma:
        return as_kernel(name, 1.0, degree, coef0), 0, 1.0
    gamma = getattr(name, "gamma", gamma)  # of an object
    exponent = exponent_of(X)
    power = cls.power * exponent
    if isinstance(gamma, str) and gamma == "scale":  # 1/(d var), which scales like 1/‖x‖²
        at_unit = resolve_gamma(gamma, divided(X, exponent))
        given, own = times_power(at_unit, -2 * exponent), times_power(at_unit, power - 2 * exponent)
        if not float(np.finfo(float).tiny) <= given < math.inf:
            raise ValueError(
                f"gamma='scale' is {given:.3g}: X has entries up to {largest_entry(X):.1e}, and float64 cannot hold "
                "1 / (n_features · variance): scale the data"
            )
    else:
        given = resolve_gamma(gamma, X)
        own = times_power(given, power)
    own = min(own, float(np.finfo(float).max))
    return as_kernel(with_gamma(name, own), own, degree, coef0), exponent, given


def longest_row(kernel: Any, rows: Any, threads: int = 1) -> float:
    """The largest size of a row, ‖x‖² or ‖x‖₁; 0 for kernels without distances."""
    return largest_size(kernel.measure(), rows, threads) if kernel.of_distances else 0.0


def check_values(kernel: Any, gamma: float, rows: Any, largest: float, longest: float, X: Any) -> None:
    """Refuse kernel values outside of the range of float32; warn if all examples look alike to the kernel.

    ``largest`` is max |k(x, x)|, ``longest`` the result of :func:`longest_row`, X the data as given.
    """
    if not largest <= FLOAT32_LARGEST:
        up_to = f"data up to {largest_entry(X):.1e}"
        raise ValueError(f"{KernelProblem.overflow} (the largest is {largest:.1e}, of {up_to})")
    if not kernel.of_rows:
        if largest < SMALLEST:
            warn(
                f"kernel values of examples with themselves are {largest:.1e} at most, which is nothing in float32: "
                "scale the kernel or the data"
            )
    elif kernel.of_distances:
        _check_distances(kernel, gamma, rows, longest, X)
    elif largest < SMALLEST and largest_entry(as_matrix(rows)) > 0.0:
        raise ValueError(
            f"kernel values are below float32 (the largest is {largest:.1e}, of data up to {largest_entry(X):.1e}): "
            "scale the data, or raise gamma"
        )


def _check_distances(kernel: Any, gamma: float, rows: Any, longest: float, X: Any) -> None:
    n = shape(rows)[0]

    def remedy() -> str:
        return f"gamma={gamma:.3g} and data up to {largest_entry(X):.1e}: scale the data, or use another gamma"

    if longest > 0.0 and 4.0 * kernel.gamma * longest < ALIKE:
        warn(f"all kernel values are 1 in float32, so no two examples are told apart, with {remedy()}")
    elif n > 1 and kernel.gamma * longest > VANISHES:
        some = take_rows(rows, np.unique(np.linspace(0, n - 1, min(n, 64)).astype(np.int64)))
        K = KernelMatrix(kernel, some, dtype=np.float64).block(np.arange(shape(some)[0]))
        off = K[~np.eye(K.shape[0], dtype=bool)]
        if off.max(initial=0.0) < math.exp(-VANISHES):
            warn(f"kernel values between examples are 0 in float32, so nothing is learnt of new ones, with {remedy()}")


def new_rows(kernel: Any, X: Any, exponent: int) -> Any:
    """Rows to predict, divided by 2ᵉ; for kernels of distances also clipped at ±FAR."""
    X = divided(X, exponent)
    if kernel.of_distances and largest_entry(X) > FAR:
        if sp.issparse(X):
            return sp.csr_matrix((np.clip(X.data, -FAR, FAR), X.indices, X.indptr), shape=X.shape)
        return np.clip(X, -FAR, FAR)
    return X


def moved_by_float32(kernel: Any, X: Any, centre: np.ndarray | None = None) -> float:
    """A bound, in units of u = 2⁻²⁴, of the change of a kernel value when rows are rounded to float32.

    Rounding moves a row by at most u times its length, a distance by at most 2uR, where R is the largest length of a
    row (less the centre), and a kernel value by the kernel's steepness times that. Infinite if an entry is outside of
    the range of float32.
    """
    squared, tiny, width = kernel.measure is not Absolute, float(np.finfo(np.float32).tiny), X.shape[1]
    largest = X.sizes(squared, centre)[1] if isinstance(X, Distant) else _largest_size(X, squared, centre)
    if largest > (FLOAT32_LARGEST**2 if squared else FLOAT32_LARGEST):
        return math.inf
    # an entry below float32's smallest normal number is moved by u times that number
    if squared:
        return 2.0 * kernel.steepness * (math.sqrt(largest) + math.sqrt(width) * tiny)
    return 2.0 * kernel.steepness * (largest + width * tiny)


def _largest_size(X: Any, squared: bool, centre: np.ndarray | None) -> float:
    """The largest ‖x − centre‖², or ‖x − centre‖₁, of the rows."""
    largest, step = 0.0, max(1, 2**20 // max(1, X.shape[1]))
    for first in range(0, X.shape[0], step):
        part = X[first : first + step].astype(np.float64)
        part = abs(part if centre is None else part - centre)
        if squared:
            part = part.multiply(part) if sp.issparse(part) else part * part
        largest = max(largest, float(np.max(part.sum(axis=1))))
    return largest


def share_of_nonzeros(X: np.ndarray) -> float:
    """The share of entries that are not 0, in some evenly spaced rows; 1 if X is empty."""
    n = X.shape[0]
    some = X if n <= SOME_ROWS else X[spread(n, SOME_ROWS)]
    return np.count_nonzero(some) / some.size if some.size else 1.0


@savable(centre=maybe(Array("d")), exponent=Whole(-5000, 5000))
@dataclass
class Preparation:
    """How rows are laid out for kernel values: the cheapest way that keeps their precision.

    Centring. Kernels of distances keep their values if a vector is subtracted from all rows, so dense float64 data is
    centred before rounding. With a linear kernel and a free bias, which absorbs the shift, dense data is centred too,
    because kernel rows are kept in float32. Sparse data is not centred.

    Rounding. For kernels of distances, float64 data is rounded to float32, which halves memory and doubles speed, if no
    kernel value changes by more than :data:`MOVED` units of 2⁻²⁴: if √γ times the largest ‖x‖ is below 18 (Laplacian: γ
    times the largest ‖x‖₁ below 16; see :func:`moved_by_float32`). Dense data with few non-zeros becomes CSR under the
    same condition. Other kernels keep the precision of the data.
    """

    centre: np.ndarray | None
    as_float32: bool
    as_csr: bool
    #: e: rows are divided by 2ᵉ first.
    exponent: int = 0

    @classmethod
    def of(cls, kernel: Any, X: Any, free_bias: bool, stays_dense: bool = False) -> Preparation:
        """The preparation for training data X. ``stays_dense``: do not make dense data CSR."""
        if not kernel.of_rows:
            return cls(None, False, False)
        of_distances, wide = kernel.of_distances, X.dtype == np.float64
        distant = isinstance(X, Distant)
        if X.is_sparse if distant else sp.issparse(X):
            return cls(None, of_distances and wide and moved_by_float32(kernel, X) <= MOVED, True)
        if not stays_dense and not distant and share_of_nonzeros(X) < SPARSE_BELOW:
            if not of_distances:
                return cls(None, False, True)
            if moved_by_float32(kernel, X) <= MOVED:
                return cls(None, wide, True)
        if of_distances and wide:
            centre = X.mean(axis=0, dtype=np.float64)
            return cls(centre, moved_by_float32(kernel, X, centre) <= MOVED, False)
        shiftable = kernel.is_linear and free_bias
        return cls(X.mean(axis=0, dtype=np.float64) if shiftable else None, False, False)

    def steps(self, kernel: Any, dtype: Any) -> tuple[int, float, np.ndarray | None, Any]:
        """(e, far, centre, dtype) for dense rows of a dtype: the arguments of :meth:`Distant.prepared`."""
        far = FAR if kernel.of_distances else math.inf
        return self.exponent, far, self.centre, np.float32 if self.as_float32 else dtype

    def rows(self, kernel: Any, X: Any, known: bool = False) -> Any:
        """X as the rows that the kernel takes. ``known``: X is the training data, and need not be clipped."""
        if kernel.is_function:
            return X
        if isinstance(X, Distant):
            return X.prepared(*self.steps(kernel, X.dtype))
        X = divided(X, self.exponent) if known else new_rows(kernel, X, self.exponent)
        if self.as_csr and not sp.issparse(X):
            X = sp.csr_matrix(X)
        elif sp.issparse(X) and not self.as_csr:
            X = X.toarray()
        if self.centre is not None:
            centred = np.empty(X.shape, np.float32 if self.as_float32 else X.dtype)
            step = max(1, 2**18 // max(1, X.shape[1]))
            with np.errstate(over="ignore"):
                for first in range(0, X.shape[0], step):  # blocks that stay in cache
                    part = slice(first, first + step)
                    np.subtract(X[part], self.centre, out=centred[part], casting="same_kind")
            X = centred
        if self.as_float32 and X.dtype != np.float32:
            with np.errstate(over="ignore"):  # a new row outside of float32's range is far from all training rows
                X = X.astype(np.float32)
        return as_rows(X)


def refuse_unless_finite(largest: float) -> None:
    """Refuse data whose largest entry is NaN or infinite."""
    if not math.isfinite(largest):
        what = "NaN" if math.isnan(largest) else "infinity"
        raise ValueError(f"Input X contains {what}: replace such entries, or drop the rows that have them")


def finite(scores: np.ndarray, X: Any) -> np.ndarray:
    """Return the scores; refuse scores that overflowed."""
    if not np.isfinite(scores).all():
        raise ValueError(
            f"scores overflow for rows of X with entries up to {largest_entry(X):.1e}: scale them as the training data"
        )
    return scores


def finite_scores(score: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """Scores of the rows of X. Float32 rows with overflowing scores are scored in float64, then refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = score(X)
        far = ~np.isfinite(scores).all(axis=1)
        if far.any() and not isinstance(X, Distant) and X.dtype == np.float32:
            scores[far] = score(X[far].astype(np.float64))
    return finite(scores, X)


def warn_if_unequal(X: Any, name: str) -> None:
    """Warn if the largest feature is more than UNEQUAL times the median one; not for fewer than FEW_ROWS rows."""
    if X.shape[0] < FEW_ROWS:
        return
    of_features = abs(X).max(axis=0)
    of_features = of_features.toarray().ravel() if sp.issparse(of_features) else np.asarray(of_features)
    of_features = of_features[of_features > 0.0]
    if of_features.size > 1 and float(of_features.max()) > UNEQUAL * float(np.median(of_features)):
        warn(
            f"features differ in size: the largest goes up to {of_features.max():.1e}, half of them up to "
            f"{np.median(of_features):.1e} at most, and {name} hardly sees those: scale the features, for example with "
            "StandardScaler or MaxAbsScaler",
            ConvergenceWarning,
        )


def refuse_overflow(most: float, width: int) -> float:
    """An upper bound of ‖x‖² for entries up to ``most``; refuses data where it overflows."""
    largest = float(width) * most * most if most < math.sqrt(OVERFLOWS) else math.inf
    if most > 0.0:
        largest = max(largest, math.ulp(0.0))  # squares of numbers below 1e-162 underflow
    if largest > OVERFLOWS:
        raise ValueError(f"X has entries up to {most:.1e}, and sums of their squares overflow: scale the features")
    return largest


def check_features(X: Any, C: float, intercept: str, slope: float = 1.0) -> None:
    """Refuse features whose squares overflow; warn of features that are too small for C and the slope of the loss.

    For most data the sum of all squares, which takes half as long to compute as the largest entry, shows that neither
    is the case: the largest square lies between the mean and the sum of the squares.
    """
    n, width = shape(X)
    if isinstance(X, (DenseRows, CSRRows)):
        entries = X.values if isinstance(X, DenseRows) else X.data
        with np.errstate(over="ignore"):
            squares = width * float(np.vdot(entries, entries))
        if squares <= OVERFLOWS and C * slope * n * squares >= ALIKE * entries.size > 0:
            return
    largest = refuse_overflow(largest_entry(X), width)
    warn_if_too_small(C, n, largest, intercept, X, slope=slope)


def warn_if_too_small(
    C: float, n: int, largest: float, intercept: str, X: Any, name: str = "features", slope: float = 1.0
) -> None:
    """Warn if scores stay next to 0 for every w that C allows: |⟨w, x⟩| ≤ C n max ‖x‖² × the slope of the loss.

    ``largest`` is at least max ‖x‖². Without an intercept small scores still have the right signs until they underflow.
    """
    most = C * slope * n * largest
    if largest > 0.0 and most < (VANISHING if intercept == "none" else ALIKE):
        warn(
            f"with C={C:g} {name} up to {largest_entry(X):.1e} move no score by more than {most:.1e}: scale the "
            f"{name}, or raise C"
        )
