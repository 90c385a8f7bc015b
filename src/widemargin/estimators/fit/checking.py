"""What a fit is given, checked: the solver, the rows, the weights, and the examples that are held out.

Rows leave this module as arrays in C order, CSR matrices or :class:`Distant` rows, in float32 or float64. Data that is
so already is not copied.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_X_y
from sklearn.utils.validation import column_or_1d, validate_data

from ... import backends, solvers
from ...arguments import one_of
from ...backends.tensors import hosted, taken
from ...core.rows.distant import Distant
from ...core.rows.rows import checked_sparse, unlocked
from ...core.rows.sources import Remote, TwoWays, is_source
from ...problems.layout import OVERFLOWS, refuse_unless_finite


def check_solver(kind: str, solver: Any, example: str) -> None:
    """Refuse a solver that is neither the name of a solver of this kind nor a configured one."""
    if isinstance(solver, str):
        one_of("solver", solver, solvers.names(kind))
    elif not isinstance(solver, solvers.classes(kind)):
        names = ", ".join(map(repr, solvers.names(kind)))
        raise TypeError(f"solver must be one of {names} or a configured solver such as {example}, got {solver!r}")


def check_rows(
    estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool = True, distant: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """X, or (X, y), by scikit-learn's validation: dense in C order or CSR, in float32 or float64.

    Data that is so already is not copied. Repeated entries of sparse rows are summed, and their indices are sorted, in
    a copy. Tensors are read where they stand. Tensors on a GPU are refused unless ``distant``: the estimator computes
    there.
    """
    X, y = checked_sparse(taken(X)), y if isinstance(y, str) else hosted(y)
    if isinstance(X, Distant):
        if not distant:
            raise TypeError(f"X stands on {X.place}, and {type(estimator).__name__} computes on the CPU: give X.cpu()")
        return _check_distant(estimator, X, y, reset, **options)
    if is_source(X):
        raise TypeError(
            f"X is reached by row and by column ({type(X).__name__}), which only LinearSVC and LinearSVR take, in fit "
            "and predict: give an array or a sparse matrix"
        )
    if reset and _is_plain(X, y):  # a tenth of a millisecond less, of the two that a small fit takes
        validate_data(estimator, X, reset=True, skip_check_array=True)
        return _summed(X), y
    options |= {} if isinstance(y, str) else {"y": y}
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # it sums large entries to see whether one is infinite
            checked = validate_data(
                estimator,
                X,
                reset=reset,
                accept_sparse="csr",
                accept_large_sparse=True,
                dtype=[np.float64, np.float32],
                order="C",
                **options,
            )
    except (ValueError, TypeError) as error:
        _refuse_what_is_no_number(X, y if options.get("y_numeric", False) else None, error)
        raise
    if isinstance(y, str):
        return _summed(checked)
    return _summed(checked[0]), checked[1]


def _refuse_what_is_no_number(X: Any, y: Any, error: Exception) -> None:
    """Raise a sentence that names what holds no numbers, if an error of the validation says so.

    ``y`` holds the targets of a regressor. The labels of a classifier may be texts.
    """
    said = str(error)
    refuse_columns_without_numbers(X)
    if "could not convert string to float" not in said and "float() argument" not in said:
        return
    lacks = [name for name in ("shape", "row", "column") if not hasattr(X, name)]
    if lacks and (callable(getattr(X, "row", None)) or callable(getattr(X, "column", None))):
        raise TypeError(
            f"X must have shape, row(i) and column(j) to be read by row and by column, got {type(X).__name__} "
            f"without {' and '.join(lacks)}: add what is missing, or give an array"
        ) from error
    name = "y" if y is not None and _is_text(y) and not _is_text(X) else "X"
    if isinstance(error, TypeError):
        raise TypeError(f"{name} must hold numbers: {said}") from error
    value = said.split(":", 1)[-1].strip().removeprefix("np.str_(").removesuffix(")")
    raise ValueError(
        f"{name} must hold numbers, got the string {value}: encode text or categories as numbers first, "
        "for example with OneHotEncoder or TfidfVectorizer"
    ) from error


def refuse_columns_without_numbers(X: Any) -> None:
    """Raise an error that names the columns of a frame that hold texts, categories or dates, if there are any."""
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return
    found = [name for name in X.columns if (kind := np.asarray(X[name])).dtype.kind in "mM" or _is_text(kind)]
    if found:
        shown = ", ".join(repr(name) for name in found[:5]) + (", …" if len(found) > 5 else "")
        raise ValueError(
            f"X must hold numbers, and its column{'s' if len(found) > 1 else ''} {shown} "
            f"{'do' if len(found) > 1 else 'does'} not: encode categories before the estimator, "
            "make_column_transformer((OneHotEncoder(), columns), remainder='passthrough'), or drop them"
        )


def _check_distant(
    estimator: BaseEstimator, X: Distant, y: Any, reset: bool, y_numeric: bool = False, **options: Any
) -> Any:  # fmt: skip
    """X, or (X, y), of rows that stand on a GPU, checked there."""
    (n, d), name = X.shape, type(estimator).__name__
    for what, count in (("sample", n), ("feature", d)):
        if count < 1:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape=({n}, {d})) while a minimum of 1 is required by {name}."
            )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    refuse_unless_finite(X.largest_entry())
    if isinstance(y, str):
        return X
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    return X, check_X_y(np.broadcast_to(0.0, (n, 1)), y, y_numeric=y_numeric)[1]


def is_plain_array(X: Any) -> bool:
    """Whether scikit-learn's validation would return X as it is, if its entries are finite."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.size == 0 or not X.flags.c_contiguous:
        return False
    return X.dtype in (np.float32, np.float64) and X.dtype.isnative


def predicts_on_device(device: str, kernel: Any) -> bool:
    """Whether scores of rows in main memory are computed on a GPU: if one is asked for and there is one."""
    return device != "cpu" and kernel.of_rows and not backends.lacking()


def rows_to_score(estimator: BaseEstimator, X: Any, on_device: bool) -> Any:
    """Rows to predict, checked. Where a GPU reads an array, the GPU checks that its entries are finite."""
    fits = is_plain_array(X) and X.shape[1] == getattr(estimator, "n_features_in_", -1)
    if on_device and fits and not hasattr(estimator, "feature_names_in_"):
        return X
    return check_rows(estimator, X, reset=False, distant=True)


def _is_plain(X: Any, y: Any) -> bool:
    """Whether X and y are arrays that scikit-learn's validation would return as they are."""
    if is_plain_array(X):
        values = X
    else:
        n = X.shape[0] if type(X) in (sp.csr_matrix, sp.csr_array) and X.ndim == 2 else 0
        if n == 0 or X.shape[1] == 0 or X.dtype not in (np.float32, np.float64) or not X.dtype.isnative:
            return False
        values = X.data
    if type(y) is not np.ndarray or y.shape != X.shape[:1] or y.dtype.kind not in "biuf":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.vdot(values, values)) and np.isfinite(y.sum()))


def check_source(estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
    """X, or (X, y), of data that is reached by row and by column. No entry of X is read."""
    if not isinstance(X, TwoWays):
        X = Remote(X)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if isinstance(y, str):
        return X
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    if y.size != X.shape[0]:
        raise ValueError(f"X and y must have as many examples, got {X.shape[0]} and {y.size}")
    return X, y


def _summed(X: Any) -> Any:
    """X, or a copy whose sparse rows have no repeated and no unsorted entries."""
    if not sp.issparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    if not np.isfinite(X.data).all():
        raise ValueError("repeated entries of X sum to inf: scale the data")
    return X


def _is_text(values: Any) -> bool:
    """Whether the values cannot be made numbers. Sparse matrices hold numbers."""
    try:
        np.asarray(values.data if sp.issparse(values) else values, dtype=np.float64)
    except (ValueError, TypeError):
        return True
    return False


def check_sample_weight(sample_weight: Any, n: int) -> np.ndarray:
    """Weights as float64, one per example, none negative, not all zero; empty if none were given."""
    if sample_weight is None:
        return np.empty(0)
    sample_weight = hosted(sample_weight, "sample_weight")
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n, float(sample_weight))
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise type(error)(f"sample_weight must hold numbers, one per example: {error}") from error
    if weights.ndim != 1:
        raise ValueError(
            f"sample_weight must be 1-dimensional, got shape {weights.shape}: give one weight for each example"
        )
    if weights.size != n:
        raise ValueError(f"sample_weight must have one entry per example: expected {n}, got {weights.size}")
    if not np.isfinite(weights).all():
        raise ValueError(f"sample_weight must be finite, got {weights[~np.isfinite(weights)][0]}: replace or drop it")
    if weights.min() < 0:
        raise ValueError(f"sample_weight must be ≥ 0, got {weights.min()}: give 0 to leave an example out")
    if weights.max() > math.sqrt(OVERFLOWS):
        raise ValueError(
            f"sample_weight goes up to {weights.max():.1e}, and products of coefficients overflow: divide the weights "
            "by a number, and multiply C by it"
        )
    if weights.max() == 0:
        raise ValueError("sample_weight must not be all zero, got zeros only: give some example a positive weight")
    return unlocked(weights)


def held_out(
    rng: np.random.Generator, n: int, fraction: float, labels: np.ndarray | None, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(indices to train on, indices to hold out), sorted. Where there are labels, each class gives its share.

    An example of weight zero is not held out, because it says nothing of the error. Empty weights are all ones.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 < fraction < 1:
        raise ValueError(f"validation_fraction must be between 0 and 1, got {fraction!r}")
    chosen = np.zeros(n, dtype=bool)
    counts = weights > 0.0 if weights.size else np.ones(n, dtype=bool)
    groups = [counts] if labels is None else [(labels == label) & counts for label in np.unique(labels)]
    for group in map(np.flatnonzero, groups):
        count = max(0, min(max(1, round(fraction * group.size)), group.size - 1))
        chosen[rng.choice(group, count, replace=False)] = True
    if not chosen.any() or chosen.all():
        raise ValueError(
            f"early_stopping needs examples to hold out and to train on, got n_samples={n}: switch it off or add data"
        )
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
