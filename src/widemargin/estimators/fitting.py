"""The fitting path all estimators share: rows and weights in, a run, its results out."""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, wraps
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numba.core.event import install_timer
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_X_y
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .. import backends, solvers
from ..arguments import generator, not_negative, one_of, positive, whole
from ..backends.tensors import hosted, taken
from ..checkpoints import Checkpoint, Record
from ..core.blas import one_blas_thread
from ..core.distant import Distant, local
from ..core.interrupts import Interrupts
from ..core.kernels import class_of
from ..core.rows import checked_sparse, unlocked
from ..core.sources import Remote, TwoWays, is_source
from ..history import History
from ..problems.layout import OVERFLOWS, refuse_unless_finite
from ..progress import ProgressBar
from ..running import STOPPED, Outcome, Progress, run
from ..stopping import short_of_tol
from ..warning import warn
from .checkpointing import opened
from .expected import ExpectedElsewhere
from .notebooks import ShownInNotebooks
from .saving import SavedEstimator

try:  # scikit-learn's own callback protocol, in versions that have it
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks of its own."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the method as it is."""
        return method


# ---------------------------------------------------------------- what goes in


def check_solver(kind: str, solver: Any, example: str) -> None:
    """Refuse what is neither the name of a solver of this kind nor a configured one."""
    if isinstance(solver, str):
        one_of("solver", solver, solvers.names(kind))
    elif not isinstance(solver, solvers.classes(kind)):
        names = ", ".join(map(repr, solvers.names(kind)))
        raise TypeError(f"solver must be one of {names} or a configured solver such as {example}, got {solver!r}")


def check_rows(
    estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool = True, distant: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """scikit-learn's validation, with dense C order or CSR, float32 or float64, and no copy of what is so already.

    Repeated entries of sparse rows are summed, and their indices sorted, in a copy. Tensors are taken where they stand;
    those on a GPU only by who can compute there, ``distant``.
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
    if reset and _is_plain(X, y):
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        return _summed(X), y
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # it sums large entries to see whether one is infinite
            checked = validate_data(
                estimator,
                X,
                **({} if isinstance(y, str) else {"y": y}),
                reset=reset,
                accept_sparse="csr",
                accept_large_sparse=True,
                dtype=[np.float64, np.float32],
                order="C",
                **options,
            )
    except (ValueError, TypeError) as error:
        said = str(error)
        refuse_columns_without_numbers(X)
        if "could not convert string to float" in said or "float() argument" in said:
            lacks = [name for name in ("shape", "row", "column") if not hasattr(X, name)]
            if lacks and (callable(getattr(X, "row", None)) or callable(getattr(X, "column", None))):
                raise TypeError(
                    f"X must have shape, row(i) and column(j) to be read by row and by column, got {type(X).__name__} "
                    f"without {' and '.join(lacks)}: add what is missing, or give an array"
                ) from error
            # labels of classes may be texts, and X is looked at first
            of_y = options.get("y_numeric", False) and _is_text(y) and not _is_text(X)
            name = "y" if of_y else "X"
            value = said.split(":", 1)[-1].strip().removeprefix("np.str_(").removesuffix(")")
            if isinstance(error, TypeError):
                raise TypeError(f"{name} must hold numbers: {said}") from error
            raise ValueError(
                f"{name} must hold numbers, got the string {value}: encode text or categories as numbers first, "
                "for example with OneHotEncoder or TfidfVectorizer"
            ) from error
        raise
    if isinstance(y, str):
        return _summed(checked)
    X, y = checked
    return _summed(X), y


def refuse_columns_without_numbers(X: Any) -> None:
    """Name the columns of a frame that hold texts, categories or dates; nothing else is a frame's fault."""
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
    """X, or (X, y), of rows that stand elsewhere, checked there."""
    (n, d), name = X.shape, type(estimator).__name__
    for what, count in (("sample", n), ("feature", d)):
        if count < 1:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape=({n}, {d})) while a minimum of 1 is required by {name}."
            )
    _keep_or_compare_width(estimator, d, reset)
    refuse_unless_finite(X.largest_entry())
    if isinstance(y, str):
        return X
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    return X, check_X_y(np.broadcast_to(0.0, (n, 1)), y, y_numeric=y_numeric)[1]


def _keep_or_compare_width(estimator: Any, d: int, reset: bool) -> None:
    """Set ``n_features_in_`` of an estimator whose features have no names, or refuse another number of them."""
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = d
    elif d != estimator.n_features_in_:
        name, known = type(estimator).__name__, estimator.n_features_in_
        raise ValueError(f"X has {d} features, but {name} is expecting {known} features as input")


def is_plain_array(X: Any) -> bool:
    """Whether X is an array that scikit-learn's validation would return as it is, if its entries are finite."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.size == 0 or not X.flags.c_contiguous:
        return False
    return X.dtype in (np.float32, np.float64) and X.dtype.isnative


def predicts_on_device(device: str, kernel: Any) -> bool:
    """Whether scores of the host's rows are computed on a GPU: if one is asked for and there is one."""
    return device != "cpu" and kernel.of_rows and not backends.lacking()


def rows_to_score(estimator: BaseEstimator, X: Any, on_device: bool) -> Any:
    """Rows to predict, checked; on a device, whether an array's entries are finite is looked at where they are read."""
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
    """(X, y) of data that is reached by row and by column, or X alone; nothing of X is read."""
    if not isinstance(X, TwoWays):
        X = Remote(X)
    n, d = X.shape
    _keep_or_compare_width(estimator, d, reset)
    if isinstance(y, str):
        return X
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    if y.size != n:
        raise ValueError(f"X and y must have as many examples, got {n} and {y.size}")
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
    """Whether numbers cannot be made of them; sparse matrices hold numbers."""
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


# ---------------------------------------------------------------- the run


def all_or_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """A call that raises leaves the estimator as it was before: the old model whole, or none.

    It hears of Ctrl-C from its beginning to its end, and so do the runs in it.

    A method that changes its state in place cannot go back: it sets ``_undo`` to "forget" first, with which a failure
    leaves an unfitted estimator, and to "keep" when all attributes are those of the new state.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            timer = install_timer("numba:compile", partial(_say_what_compiling_took, self))
            with Interrupts(anew=True) as interrupts, one_blas_thread(), timer:
                done = method(self, *args, **options)
                if self._checkpoint is not None:
                    self._checkpoint.end(self.stop_reason_ in STOPPED)
                if interrupts.seen and self.stop_reason_ == "partial_fit":
                    raise KeyboardInterrupt(f"{method.__name__} was heard out: what it does is done")
                if interrupts.seen:  # perhaps when nothing was left to end
                    self.stop_reason_ = "interrupted"
            return done
        except BaseException:
            undo = vars(self).get("_undo", "restore")
            if undo == "forget":
                known = self.get_params(deep=False)
                before = {n: value for n, value in before.items() if n in known or n.startswith(("_skl", "_metadata"))}
            if undo != "keep":
                vars(self).clear()
                vars(self).update(before)
            raise
        finally:
            vars(self).pop("_undo", None)
            vars(self).pop("_checkpoint", None)

    return call


def _say_what_compiling_took(estimator: Any, seconds: float) -> None:
    """Warn where compilation used up the better part of a time limit that was reached."""
    limit = getattr(estimator, "max_seconds", None)
    if limit is not None and seconds > 0.5 * limit and getattr(estimator, "stop_reason_", "") == "max_seconds":
        warn(
            f"compiling took {seconds:.1f} s of max_seconds={limit:g}, which left little or nothing for training: "
            "fit again (what was compiled is kept), or raise max_seconds",
            ConvergenceWarning,
        )


LOGGER = logging.getLogger("widemargin")
#: Reasons to stop that leave ``tol`` unmet without the user's own rule having ended training.
UNFINISHED = ("max_iter", "stalled", "max_seconds", "max_feature_reads", "interrupted")


@dataclass(frozen=True)
class Turn:
    """When a run ends, where that is not the estimator's own limit.

    ``started`` is when the fit began, ``until`` a time before its end, where other problems wait for their turn.
    """

    started: float
    until: float = math.inf
    max_epochs: float | None = None
    tol: float | None = None
    #: What checkpoints call the run.
    name: str = "all"
    #: Who sees Ctrl-C, where the run is one of several on threads.
    interrupts: Interrupts | None = None


@dataclass(frozen=True)
class Shown:
    """What callbacks are shown: the data, the attributes an estimator has with a model, and how a model is finished."""

    X: Any
    y: Any
    attributes: Callable[[Any], dict[str, Any]] | None = None
    finish: Callable[[Any], Any] | None = None


class TrainedByRun(SavedEstimator, ShownInNotebooks, ExpectedElsewhere, CallbackSupportMixin, BaseEstimator):
    """Base of the estimators that train with :func:`widemargin.running.run`.

    After ``fit`` they have ``history_``, ``certificate_``, ``stop_reason_``, ``n_iter_``.
    """

    # parameters, of which each estimator has some
    C: float
    lam: Any
    solver: Any
    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    intercept: str
    multi_class: str
    tol: float
    max_iter: int
    max_seconds: float | None
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    checkpoint: Any
    checkpoint_every: float
    callbacks: Any
    verbose: int
    #: Parameters of which no bit of the result depends.
    never_matters: ClassVar[tuple[str, ...]] = ()
    #: Where a fit under way is kept.
    _checkpoint: Checkpoint | None = None
    #: The seed that ``random_state=None`` stands for; None for a new one each time.
    _seed: ClassVar[int | None] = None
    #: (X, y, weights) of what a user gives, checked.
    _examples: Callable[..., tuple[Any, np.ndarray, np.ndarray]]

    def _keep(self, given: dict[str, Any]) -> None:
        """Keep the parameters of ``__init__``, which are its ``locals()``, as they were given and do no more."""
        self.__dict__.update({name: value for name, value in given.items() if name not in ("self", "__class__")})

    def set_params(self, **parameters: Any) -> Any:
        """Set parameters by name.

        Parameters
        ----------
        **parameters : values
            The parameters. Those of a configured solver are set as ``solver__batch_size=16``.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If a nested parameter is set where the solver is a name: give a solver object.

        Examples
        --------
        >>> from widemargin import LinearSVC, Pegasos
        >>> LinearSVC(solver=Pegasos()).set_params(solver__batch_size=16).solver.batch_size
        16
        """
        for name in parameters:
            part, nested, own = name.partition("__")
            value = parameters.get(part, getattr(self, part, None))
            if nested and isinstance(value, str):
                raise ValueError(
                    f"{name} sets a parameter of a configured {part}, and {part} is the name {value!r}: "
                    f"give an object, such as {part}=Pegasos({own}=…), or set {part} to one in the same call"
                )
        return super().set_params(**parameters)

    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense, of those that every estimator has."""
        if hasattr(self, "C"):
            positive("C", self.C)
        if self.lam is not None:
            positive("lam", self.lam)
        not_negative("tol", self.tol)
        whole("max_iter", self.max_iter)
        if self.max_seconds is not None:
            positive("max_seconds", self.max_seconds)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, os.PathLike)):
            raise TypeError(f"checkpoint must be the name of a file or None, got {self.checkpoint!r}")
        not_negative("checkpoint_every", self.checkpoint_every)
        whole("n_iter_no_change", getattr(self, "n_iter_no_change", 1))
        if not isinstance(self.verbose, np.bool_) and not (isinstance(self.verbose, Integral) and self.verbose >= 0):
            raise ValueError(f"verbose must be 0 or False for silence, 1 or True for a bar, got {self.verbose!r}")
        for callback in self._own_callbacks():
            if not callable(callback):
                raise TypeError(f"callbacks must be callables that take one argument, got {callback!r}")

    def _own_callbacks(self) -> list[Any]:
        if self.callbacks is None:
            return []
        if callable(self.callbacks):
            return [self.callbacks]
        if not isinstance(self.callbacks, Iterable):
            raise TypeError(f"callbacks must be a callable or a list of callables, got {self.callbacks!r}")
        return list(self.callbacks)

    def _run(
        self,
        solver: Any,
        problem: Any,
        limits: Turn,
        shown: Shown | None,
        *,
        state: Any = None,
        rng: np.random.Generator | None = None,
        validation: Any = None,
        history: History | None = None,
    ) -> Outcome:
        """Train, with this estimator's limits, callbacks and progress bar; sets what every estimator has.

        Where nothing is shown, there are no callbacks and no bar.
        """
        callbacks: list[Any] = []
        bar = root = None
        if shown is not None:
            finish = shown.finish or self._finished
            callbacks += [partial(_with_models, each, finish) for each in self._own_callbacks()]
            if getattr(self, "_skl_callbacks", None):
                shown = replace(shown, X=local(shown.X))
            root = self._root_context(shown.X, shown.y)
            if root is not None:
                callbacks.append(_TaskPerCheckpoint(self, root, shown.X, shown.y, shown.attributes))
            bar = ProgressBar(type(self).__name__) if self.verbose else None
        record = self._record(limits, solver, problem)
        # what overflows ends in an objective that is not finite, which is refused in a sentence
        with bar or nullcontext(), np.errstate(over="ignore", invalid="ignore"):
            if shown is not None and record is not None and not record.has_own and record.owner.passed:
                self._tell(bar, 0.0, False)
            outcome = run(
                solver,
                problem,
                state=state,
                rng=rng,
                max_epochs=self.max_iter if limits.max_epochs is None else limits.max_epochs,
                max_feature_reads=getattr(self, "max_feature_reads", None),
                max_seconds=self.max_seconds if limits.until == math.inf else limits.until - limits.started,
                tol=self.tol if limits.tol is None else limits.tol,
                validation=validation,
                patience=getattr(self, "n_iter_no_change", 1),
                callbacks=[*callbacks, *([bar.on_checkpoint] if bar else [])],
                on_slice=bar.on_slice if bar else None,
                on_resume=partial(self._tell, bar) if shown is not None else None,
                history=history,
                checkpoint=record,
                interrupts=limits.interrupts,
                started=limits.started,
            )
        self.history_ = outcome.history
        self.stop_reason_ = outcome.stop_reason
        self.n_iter_: Any = max(1, math.ceil(outcome.history.last("epochs")))
        if root is not None and shown is not None:
            attributes = shown.attributes
            root.call_on_fit_task_end(
                estimator=self,
                X=shown.X,
                y=shown.y,
                reconstruction_attributes=lambda: attributes(outcome.model) if attributes else {},
            )
        return outcome

    def _tell(self, bar: ProgressBar | None, epochs: float, ended: bool) -> None:
        """Say once in a fit, in a line of the bar and to the logger, where it goes on from."""
        kept, place = self._checkpoint, "the last fit"
        if kept is not None:
            kept.passed += ended
            if ended or kept.told:
                return
            kept.told, place = True, str(kept.path)
            if kept.passed:
                place += f" after {kept.passed} run{'s' * (kept.passed > 1)},"
        text = f"{type(self).__name__} goes on from {place} at epoch {epochs:.4g}"
        LOGGER.info(text)
        if bar is not None:
            bar.say(text)

    def _begin(self, X: Any, y: Any, sample_weight: Any) -> tuple[float, Any, np.ndarray, np.ndarray]:
        """(time, X, y, weights) of a fit, when the parameters and they have been checked."""
        started = now()
        self._check_parameters()
        X, y, weights = self._examples(X, y, sample_weight)
        if self.checkpoint is not None:
            self._checkpoint = opened(self, X, y, weights)
        return started, X, y, weights

    def _generator(self) -> np.random.Generator:
        """The generator of ``random_state``; in a fit that was killed, where that began."""
        rng = generator(self._seed if self.random_state is None else self.random_state)
        return rng if self._checkpoint is None else self._checkpoint.generator(rng)

    def _record(self, limits: Turn, solver: Any, problem: Any) -> Record | None:
        """What the checkpoint keeps of a run, if there is one."""
        if self._checkpoint is None:
            return None
        return self._checkpoint.record(limits.name, f"{solver!r} {getattr(problem, 'intercept', '')}")

    def _lam(self, n: int) -> float:
        """λ of n examples."""
        return float(self.lam) if self.lam is not None else 1.0 / (self.C * n)

    def _check_data(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """(X, y) to train on, as :func:`check_rows` has them."""
        return check_rows(self, X, y, **options)

    def _rows_for(self, model: Any, X: Any) -> Any:
        """What users give, as the rows that a model takes."""
        return check_rows(self, X, reset=False)

    def _finished(self, model: Any) -> Any:
        """A solver's model at a checkpoint, with a decision function for all that this estimator's takes."""
        known = copy.copy(self)  # what is known of the data by now, whatever comes later
        known.callbacks = None
        return replace(model, prepare=partial(known._rows_for, model))

    def _root_context(self, X: Any, y: Any) -> Any:
        if not getattr(self, "_skl_callbacks", None):
            return None
        root = self._init_callback_context(max_subtasks=None)
        root.call_on_fit_task_begin(estimator=self, X=X, y=y)
        return root

    def _warn_if_unfinished(self, outcome: Outcome, reached: float | None = None) -> None:
        """Warn when ``tol`` was asked for and something else ended training first, at a relative gap that was
        ``reached``, by default the last one.
        """
        if outcome.stop_reason == "precision":
            if reached is None:
                reached = float(outcome.history.last("gap")) / max(abs(outcome.objective), 1e-300)
            remedy = "scale the features, raise tol, or take a smaller C"
            warn(short_of_tol(type(self).__name__, reached, self.tol, remedy), ConvergenceWarning)
        if outcome.stop_reason not in UNFINISHED or self.tol <= 0 or self.max_iter <= 1:
            return
        objectives = outcome.history["objective"]
        change = abs(objectives[-1] - objectives[-2]) / abs(objectives[-1]) if len(objectives) > 1 else math.nan
        name, ended = type(self).__name__, f"stop_reason_={outcome.stop_reason!r}"
        gap = outcome.history.rows[-1].get("gap")
        if gap is not None and outcome.state.tight:
            gap /= abs(objectives[-1])
            if gap > self.tol:
                warn(
                    f"{name} stopped with a relative duality gap of {gap:.1e}, short of tol={self.tol:g} ({ended}): "
                    "raise max_iter, max_seconds or tol, or scale the features"
                    + (" (solver='interior' minds their sizes less, if they are few)" if outcome.state.resumes else ""),
                    ConvergenceWarning,
                )
        elif outcome.stop_reason == "max_iter" and (outcome.doubt or not change <= self.tol):
            warn(
                f"{name} used all max_iter={self.max_iter} epochs and its objective still changed "
                f"by {change:.1e} of itself (tol={self.tol:g}){'; ' if outcome.doubt else ''}{outcome.doubt}: raise "
                "max_iter, or tol, or set tol=0 to say that the number of epochs is what you want",
                ConvergenceWarning,
            )


def _with_models(callback: Callable[[Progress], Any], finish: Callable[[Any], Any], progress: Progress) -> Any:
    """Call a callback with a progress whose models are finished by ``finish``."""
    return callback(replace(progress, finish=finish))


class _TaskPerCheckpoint:
    """Tells scikit-learn's callbacks of each checkpoint as a task of its own."""

    def __init__(self, estimator: Any, root: Any, X: Any, y: Any, attributes: Any) -> None:
        self.estimator, self.root, self.X, self.y, self.attributes = estimator, root, X, y, attributes

    def __call__(self, progress: Progress) -> bool:
        task = self.root.subcontext(task_name="checkpoint")
        given = {
            "estimator": self.estimator,
            "X": self.X,
            "y": self.y,
            "metadata": dict(progress.row),
            "reconstruction_attributes": lambda: self.attributes(progress.model()) if self.attributes else {},
        }
        task.call_on_fit_task_begin(**given)
        return bool(task.call_on_fit_task_end(**given))


def held_out(
    rng: np.random.Generator, n: int, fraction: float, labels: np.ndarray | None, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(training, validation) indices, sorted; of each class its share where there are labels.

    An example of weight zero can tell nothing of an error, so it is not held out; empty weights are all ones.
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


def settled_gamma(estimator: Any) -> float:
    """The γ in use, as the first examples settled it; for the kernels that have one."""
    if not class_of(estimator.kernel).has_gamma:
        raise AttributeError(f"gamma_ exists for kernels with a γ only, and the kernel is {estimator.kernel!r}")
    check_is_fitted(estimator)
    return estimator._gamma


def now() -> float:
    """The clock that ``max_seconds`` is measured on."""
    return time.perf_counter()
