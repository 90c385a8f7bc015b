"""How data is laid out, scaled and rounded, by how much at most that moves a value, and sentences where none helps.

A kernel with a γ does not change when the rows are divided by 2ᵉ and γ is multiplied by 2²ᵉ (Laplacian: 2ᵉ), and a
power of two changes no digit of a number. So rows whose squares would leave the range of float32 are brought to unit
size, and all that follows computes as with data of that size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..core.distant import Distant
from ..core.kernel_matrix import KernelMatrix
from ..core.kernels import as_kernel, class_of, resolve_gamma
from ..core.measures import SOME_ENTRIES, Absolute, sizes
from ..core.rows import CSRRows, DenseRows, as_matrix, as_rows, shape, take_rows
from ..core.tiles import BESIDE, NEON
from ..core.visits import spread
from ..files import savable
from ..schemas import Array, Whole, maybe
from ..warning import warn
from .kernel import KernelProblem

#: Rows stay as they are while the largest entry is between 2⁻³² and 2³²: its square is in the range of float32.
WITHIN = 32
#: New rows of kernels of distances are cut off here, where they are far from all examples of training.
FAR = 2.0**50
#: Kernel values smaller than this lose digits in float32, or vanish.
SMALLEST = 2.0**-100
#: Kernel values that differ by less are equal in float32.
ALIKE = 2.0**-24
#: Scores smaller than this vanish among their own rounding and that of smaller weights.
VANISHING = 2.0**-900
#: exp(−t) is 0 in float32.
VANISHES = 104.0
#: How many times the median feature the largest may be; squared, this is the share that distances have of it.
UNEQUAL, FEW_ROWS = 1e3, 16
#: Sums of squares of features are refused beyond this, since scores and weights are multiplied with them.
OVERFLOWS = 2.0**900
FLOAT32_LARGEST = float(np.finfo(np.float32).max)
#: Dense data with a smaller share of non-zeros is handled as CSR: its products are cheaper. Where there are 32 vector
#: registers dense ones are cheaper still.
SPARSE_BELOW = 0.15 if BESIDE > 1 or NEON else 0.25
#: Rows by which the share is told.
SOME_ROWS = 1024
#: Data is rounded to float32 where no kernel value changes by more than this many times 2⁻²⁴.
MOVED = 32.0
#: u: the relative error of a number rounded to float32.
FLOAT32_ROUNDING = 2.0**-24


def largest_entry(X: Any) -> float:
    """The largest absolute value of an entry of X, 0 if there is none."""
    if isinstance(X, Distant):
        return X.largest_entry()
    entries = X.values if isinstance(X, DenseRows) else X.data if sp.issparse(X) or isinstance(X, CSRRows) else X
    entries = np.asarray(entries)
    if not entries.size:
        return 0.0
    few = max(1, SOME_ENTRIES * len(entries) // entries.size)  # so that they are read from memory once
    parts = [entries[first : first + few] for first in range(0, len(entries), few)]
    return float(np.max(np.abs([(part.max(), part.min()) for part in parts])))


def exponent_of(X: Any) -> int:
    """The e for which rows are divided by 2ᵉ; 0 where they stay as they are."""
    largest = largest_entry(X)
    exponent = math.frexp(largest)[1]
    return exponent if largest > 0.0 and abs(exponent) > WITHIN else 0


def divided(X: Any, exponent: int) -> Any:
    """A copy of X divided by 2ᵉ; X itself where e is 0."""
    if exponent == 0:
        return X
    if isinstance(X, Distant):
        return X.prepared(exponent, math.inf, None, X.dtype)
    with np.errstate(over="ignore", under="ignore"):
        if sp.issparse(X):
            return sp.csr_matrix((np.ldexp(X.data, -exponent), X.indices, X.indptr), shape=X.shape)
        return np.ldexp(X, -exponent)


def times_power(value: float, exponent: int) -> float:
    """The value times 2ᵉ; infinite, and no error, where it overflows."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def scaled_kernel(name: Any, gamma: Any, degree: Any, coef0: Any, X: Any) -> tuple[Any, int, float]:
    """(kernel of rows divided by 2ᵉ, e, γ of the rows as they are) for a kernel's name or function."""
    cls = class_of(name)
    if not cls.has_gamma:
        return as_kernel(name, 1.0, degree, coef0), 0, 1.0
    exponent = exponent_of(X)
    power = cls.power * exponent
    if isinstance(gamma, str) and gamma == "scale":  # 1/(d var), which is that of a squared length
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
    return as_kernel(name, min(own, float(np.finfo(float).max)), degree, coef0), exponent, given


def lengths(kernel: Any, rows: Any, threads: int = 1) -> tuple[float, float]:
    """The largest and the mean of what distances of rows are made of, ‖x‖² or ‖x‖₁; 0 for other kernels."""
    return sizes(kernel.measure(), rows, threads) if kernel.of_distances else (0.0, 0.0)


def check_values(kernel: Any, gamma: float, rows: Any, largest: float, longest: float, X: Any) -> None:
    """Refuse kernel values beyond float32, above or below; warn of kernels that tell no two examples apart.

    ``largest`` is max |k(x, x)|, ``longest`` the largest of :func:`lengths`, X the data as given.
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
    """Rows to predict, divided by 2ᵉ; for kernels of distances cut off far from all examples of training."""
    X = divided(X, exponent)
    if kernel.of_distances and largest_entry(X) > FAR:
        if sp.issparse(X):
            return sp.csr_matrix((np.clip(X.data, -FAR, FAR), X.indices, X.indptr), shape=X.shape)
        return np.clip(X, -FAR, FAR)
    return X


def moved_by_float32(kernel: Any, X: Any, centre: np.ndarray | None = None) -> float:
    """By how much at most a kernel value changes when rows are rounded to float32, in units of u = 2⁻²⁴.

    Rounding moves a row by at most u times its length, so a distance by at most 2uR, where R is the largest
    length of a row (less the centre), and a value by the kernel's steepness times that. Infinite where an entry is
    beyond float32.
    """
    squared, tiny, width = kernel.measure is not Absolute, float(np.finfo(np.float32).tiny), X.shape[1]
    largest = X.sizes(squared, centre)[1] if isinstance(X, Distant) else _largest_size(X, squared, centre)
    if largest > (FLOAT32_LARGEST**2 if squared else FLOAT32_LARGEST):
        return math.inf
    # entries too small for float32 to keep their relative precision are moved by u times its smallest normal number
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
    """The share of entries that are not 0, of some rows from the first to the last; 1 if there are none."""
    n = X.shape[0]
    some = X if n <= SOME_ROWS else X[spread(n, SOME_ROWS)]
    return np.count_nonzero(some) / some.size if some.size else 1.0


@savable(centre=maybe(Array("d")), exponent=Whole(-5000, 5000))
@dataclass
class Preparation:
    """How rows are laid out for kernel values: what keeps their precision and costs least.

    Kernels of distances do not change when a vector is subtracted from all rows, so dense float64 data is centred
    before it is rounded to float32; that halves memory and doubles speed. Sparse data cannot be centred. Data is
    rounded only where no kernel value changes by more than :data:`MOVED` roundings of float32, that is where √γ times
    the largest ‖x‖ is below 18 (Laplacian: γ times the largest ‖x‖₁ below 16; see :func:`moved_by_float32`). Other data
    stays float64, and dense data with few non-zeros is made CSR only where the same holds. Under a linear kernel a free
    bias takes up the shift, and dense data is centred too, since kernel rows are kept in float32. Other kernels keep
    the data.
    """

    centre: np.ndarray | None
    as_float32: bool
    as_csr: bool
    #: Rows are divided by two to this power first.
    exponent: int = 0

    @classmethod
    def of(cls, kernel: Any, X: Any, free_bias: bool, stays_dense: bool = False) -> Preparation:
        """The preparation that suits the training data; dense data with few non-zeros may be asked to stay so."""
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
        """(e, far, centre, dtype): what is done to dense rows of a dtype, as :meth:`Distant.prepared` takes it."""
        far = FAR if kernel.of_distances else math.inf
        return self.exponent, far, self.centre, np.float32 if self.as_float32 else dtype

    def rows(self, kernel: Any, X: Any, known: bool = False) -> Any:
        """Return X as the rows that the kernel takes; known ones are those whose exponent this is."""
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
                for first in range(0, X.shape[0], step):  # in blocks that stay in cache
                    part = slice(first, first + step)
                    np.subtract(X[part], self.centre, out=centred[part], casting="same_kind")
            X = centred
        if self.as_float32 and X.dtype != np.float32:
            with np.errstate(over="ignore"):  # a new row beyond float32 is far from all that were trained on
                X = X.astype(np.float32)
        return as_rows(X)


def refuse_unless_finite(largest: float) -> None:
    """Refuse data whose largest entry is NaN or infinite."""
    if not math.isfinite(largest):
        what = "NaN" if math.isnan(largest) else "infinity"
        raise ValueError(f"Input X contains {what}: replace such entries, or drop the rows that have them")


def finite(scores: np.ndarray, X: Any) -> np.ndarray:
    """The scores; refuses those that overflowed."""
    if not np.isfinite(scores).all():
        raise ValueError(
            f"scores overflow for rows of X with entries up to {largest_entry(X):.1e}: scale them as the training data"
        )
    return scores


def finite_scores(score: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """Scores of the rows of X; rows of float32 whose scores overflow are scored in float64, and refused if those do."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = score(X)
        far = ~np.isfinite(scores).all(axis=1)
        if far.any() and not isinstance(X, Distant) and X.dtype == np.float32:
            scores[far] = score(X[far].astype(np.float64))
    return finite(scores, X)


def warn_if_unequal(X: Any, name: str) -> None:
    """Warn where one feature is so much larger than half of them that little else is seen; a few rows do not tell."""
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
    """What no sum of the squares of a row exceeds, for entries up to ``most``; a sentence where that overflows."""
    largest = float(width) * most * most if most < math.sqrt(OVERFLOWS) else math.inf
    if most > 0.0:
        largest = max(largest, math.ulp(0.0))  # squares vanish below 1e-162
    if largest > OVERFLOWS:
        raise ValueError(f"X has entries up to {most:.1e}, and sums of their squares overflow: scale the features")
    return largest


def check_features(X: Any, C: float, intercept: str, slope: float = 1.0) -> None:
    """Refuse features whose squares overflow; warn of features that are too small for C, losses having that slope.

    Of most data the sum of all squares says that neither is so, and takes half as long as the largest entry: that one's
    square is no more than the sum, and no less than the mean.
    """
    n, width = shape(X)
    if isinstance(X, (DenseRows, CSRRows)):
        entries = X.values if isinstance(X, DenseRows) else X.data
        with np.errstate(over="ignore"):
            squares = width * float(np.vdot(entries, entries))
        if squares <= OVERFLOWS and C * slope * n * squares >= ALIKE * entries.size > 0:
            return
    largest = refuse_overflow(largest_entry(X), width)
    warn_if_too_small(C * slope, n, largest, intercept, X)


def warn_if_too_small(C: float, n: int, largest: float, intercept: str, X: Any, name: str = "features") -> None:
    """Warn where weights that C allows can move no score: |⟨w, x⟩| ≤ C n max ‖x‖² for losses of slope ≤ 1.

    ``largest`` is max ‖x‖² or more. Without an intercept such scores have the right signs still, until they vanish.
    """
    most = C * n * largest
    if largest > 0.0 and most < (VANISHING if intercept == "none" else ALIKE):
        warn(
            f"with C={C:g} {name} up to {largest_entry(X):.1e} move no score by more than {most:.1e}: scale the "
            f"{name}, or raise C"
        )
