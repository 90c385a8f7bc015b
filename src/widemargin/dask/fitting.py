"""The base classes of the estimators on a cluster: from examples to problems in parts, and lazy predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import dask
import dask.array as da
import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..core.losses import losses
from ..core.rows.rows import as_rows, unlocked
from ..estimators.fit.checkpointing import opened_for
from ..estimators.fit.fitting import Shown, TrainedByRun, Turn, all_or_nothing, now
from ..estimators.fit.labels import weighted
from ..estimators.fit.multiclass import target_of, targets_of
from ..estimators.fit.parameters import documented
from ..problems.layout import refuse_overflow
from ..problems.linear import Problem
from ..problems.parts import PartsProblem
from .actors import DaskParts
from .examples import Examples, blocks_of, client_of, columns_of, rows_of

#: What :class:`.actors.DaskParts` counts of the messages to parts.
TRAFFIC = "trips", "bytes_sent", "bytes_received", "lost"


class Cluster:
    """The place of the parts of a fit; see :class:`widemargin.problems.parts.Here`."""

    def __init__(self, client: Any, examples: list, kind: Callable[[tuple], Any]) -> None:
        self.client, self.examples, self.kind = client, examples, kind
        self.made: DaskParts | None = None

    def parts(self, make: Callable[..., Any]) -> DaskParts:
        """Make the parts on the workers: ``make(problem, number)`` for each part."""
        self.made = DaskParts(self.client, self.examples, self.kind, make)
        return self.made


def linear_part(examples: tuple, dtype: Any, **kind: Any) -> Problem:
    """The problem of a part's examples, in the precision of the rows of all parts."""
    X, y, s = examples
    return Problem(as_rows(X.astype(dtype, copy=False)), unlocked(y), sample_weight=unlocked(s), **kind)


def encoded(examples: tuple, classes: np.ndarray, outputs: int, class_weight: np.ndarray | None) -> tuple:
    """A part's examples with targets for solvers, and with weights multiplied by those of their classes."""
    X, y, s = examples
    codes = np.searchsorted(classes, y)
    return X, targets_of(codes, outputs), s if class_weight is None else weighted(class_weight[codes], s)


def losses_at_zero(examples: tuple, kind: dict[str, Any]) -> np.ndarray:
    """Σ sᵢ × loss of a part's examples for each output, if all scores are zero."""
    X, y, s = examples
    problem = Problem(as_rows(X[:, :0]), y, sample_weight=s, **kind)
    return problem.n * problem.output_losses(np.zeros((0, problem.n_outputs)), np.zeros(problem.n_outputs))


@documented
class OnCluster(TrainedByRun):
    """Base of the estimators that train on a cluster and predict lazily."""

    client: Any
    #: The estimator on one machine, which :meth:`to_local` returns.
    local: ClassVar[Any]
    #: Whether targets are numbers.
    numeric: ClassVar[bool]
    #: The attributes that are learnt, beside ``classes_``.
    learnt: ClassVar[tuple[str, ...]] = ("coef_", "intercept_", "history_", "certificate_", "stop_reason_", "n_iter_")

    never_matters = ("client",)
    #: (futures of encoded examples, target, number of outputs) of examples.
    _encode_parts: Callable[[Examples], tuple[list, Any, int]]
    #: Train on a problem in parts.
    _fit_parts: Callable[..., None]

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on (X, y), where they lie.

        Parameters
        ----------
        X : Dask array or frame of shape (n, n_features)
            The examples, in chunks of rows, dense or scipy.sparse, perhaps of unknown sizes. A chunk is a part, or
            several where there are very many. Chunks of columns are put together.
        y : Dask array or series of shape (n,)
            Labels of the examples, or targets for a regressor.
        sample_weight : Dask array or series of shape (n,) or None, default=None
            The weights of the examples, numbers ≥ 0. None is 1 for each.

        Returns
        -------
        estimator
            The estimator itself.
        """
        started = now()
        self._check_parameters()
        examples = Examples(
            client_of(self.client), X, y, sample_weight, numeric=self.numeric, digested=self.checkpoint is not None
        )
        self.n_features_in_, names = examples.d, columns_of(X)
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, object)
        if self.checkpoint is not None:
            self._checkpoint = opened_for(self, {"the parts": " ".join(s.digest[:16] for s in examples.summaries)})
        self._fit_parts(self._problem(examples), started, X, y)
        return self

    def _trained(self, solver: Any, problem: Any, started: float, shown: Shown, rng: Any) -> Any:
        """Run a solver on a problem in parts, release the parts, and keep the numbers of the traffic with them."""
        try:
            return self._run(solver, problem, Turn(started), shown, rng=rng)
        finally:
            made = problem.place.made
            if made is not None:
                made.close()
                self.traffic_ = {each: getattr(made, each) for each in TRAFFIC}

    def _problem(self, examples: Examples) -> PartsProblem:
        """The problem to minimise, in parts on the workers."""
        refuse_overflow(examples.entry, examples.d)
        parts, target, outputs = self._encode_parts(examples)
        lam = self._lam(examples.n)
        kind = {"target": target, "lam": lam, "intercept": self.intercept, "n_outputs": outputs}
        client = examples.client
        at_zero = sum(client.gather(client.map(losses_at_zero, parts, kind=kind, pure=False))) / examples.n
        scale = (examples.largest or 1.0) if self.numeric else 1.0
        entries = sum(each.entries for each in examples.summaries)
        return PartsProblem(
            Cluster(client, parts, partial(linear_part, dtype=examples.dtype, **kind)), examples.n, examples.d, outputs,
            examples.dtype, target, lam, self.intercept, at_zero, entries, scale,
        )  # fmt: skip

    # -- afterwards

    def to_local(self) -> Any:
        """Return the estimator of one machine with what was learnt.

        It predicts, is saved and exported without a cluster.

        Returns
        -------
        estimator
            The estimator of :mod:`widemargin` with the same name.
        """
        if hasattr(self, "_local"):
            return copy.copy(self._local)
        check_is_fitted(self)
        model = self.local(**{**self._same_parameters(), "solver": "auto", "checkpoint": None})
        for name in (*self.learnt, "classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, copy.copy(getattr(self, name)))
        model._only_predicts = "was trained on a cluster"
        return model

    def _same_parameters(self) -> dict[str, Any]:
        """The parameters that the estimator of one machine has, too."""
        names = self.local().get_params(deep=False)
        return {name: value for name, value in self.get_params(deep=False).items() if name in names}

    def save(self, path: Any, **options: Any) -> None:
        """Write what was learnt to a file, as the estimator of one machine (:meth:`to_local`).

        Parameters
        ----------
        path : str or path
            The name of the file.
        **options : values
            Options of ``save`` of the estimator of one machine, such as ``state``.

        Examples
        --------
        >>> import os, tempfile
        >>> import dask.array as da
        >>> import widemargin
        >>> from distributed import Client
        >>> from widemargin.dask import LinearSVC
        >>> rows, labels = da.from_array([[0.0], [1.0], [2.0], [3.0]], chunks=2), da.from_array([0, 0, 1, 1], chunks=2)
        >>> with Client(processes=False, dashboard_address=None):
        ...     model = LinearSVC().fit(rows, labels)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.npz")
        ...     model.save(path)
        ...     widemargin.load(path).predict([[3.0]]).tolist()
        [1]
        """
        self.to_local().save(path, **options)

    def _on_blocks(self, X: Any, method: str, dtype: Any, width: int | None = None) -> Any:
        """Apply a method of the local estimator to rows: at once, or lazily to the blocks of a Dask collection."""
        model = self.to_local()
        if not dask.is_dask_collection(X):
            return getattr(model, method)(X)
        vars(model).pop("feature_names_in_", None)  # blocks of frames are arrays
        X = self._checked_rows(X)
        shape = {"drop_axis": 1} if width is None else {"chunks": (X.chunks[0], (width,))}
        meta = np.empty((0,) if width is None else (0, width), dtype)
        return X.map_blocks(partial(_said_of_block, model, method, meta), dtype=dtype, meta=meta, **shape)

    def _checked_rows(self, X: Any) -> Any:
        names, known = columns_of(X) or (), getattr(self, "feature_names_in_", ())
        for name, other in zip(names, known, strict=False):
            if name != other:
                raise ValueError(
                    f"X has the column {name!r} where that of the fit had {other!r}: give "
                    "X[list(model.feature_names_in_)]"
                )
        X = rows_of(X)
        if X.shape[1] != self.n_features_in_:
            name, known = type(self).__name__, self.n_features_in_
            raise ValueError(f"X has {X.shape[1]} features, but {name} is expecting {known} features as input")
        return X

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean accuracy of a classifier, or R² of a regressor, as scikit-learn does.

        Parameters
        ----------
        {X:collection}
        y : Dask array or series, or array, of shape (n,)
            True labels or targets of the rows.
        sample_weight : Dask array or series, or array, of shape (n,), or None, default=None
            The weights of the rows. None is 1 for each.

        Returns
        -------
        float
            The score. For Dask collections it is a lazy number, which ``float(…)`` or ``.compute()`` computes.
        """
        model = self.to_local()
        if not dask.is_dask_collection(X):
            return model.score(X, y, sample_weight)
        vars(model).pop("feature_names_in_", None)
        X = self._checked_rows(X)
        ys = blocks_of(y, X, "y")
        weights = [None] * len(ys) if sample_weight is None else blocks_of(sample_weight, X, "sample_weight")
        model, said = dask.delayed(model), dask.delayed(self._block_sums)
        sums = [said(model, x, y, s) for x, y, s in zip(X.to_delayed().ravel(), ys, weights, strict=True)]
        return da.from_delayed(dask.delayed(self._score_of_sums)(sums), (), float)

    #: The sums of a block for :meth:`score`, and the score from the sums of all blocks.
    _block_sums: Callable[..., np.ndarray]
    _score_of_sums: Callable[[list[np.ndarray]], float]


def _said_of_block(model: Any, method: str, empty: np.ndarray, rows: Any) -> np.ndarray:
    return getattr(model, method)(rows) if rows.shape[0] else empty


@documented
class ClusterClassifier(ClassifierMixin, OnCluster):
    """Base of the classifiers on a cluster."""

    numeric = False
    score = OnCluster.score
    class_weight: Any
    loss: str

    def _encode_parts(self, examples: Examples) -> tuple[list, Any, int]:  # type: ignore[override]
        self.classes_, of_class = examples.classes_for(self)
        target, outputs = target_of(self.classes_.size, self.loss, "ovr", of_class)
        own = of_class if self.class_weight is not None and isinstance(target, losses.Single) else None
        return (
            examples.mapped(partial(encoded, classes=self.classes_, outputs=outputs, class_weight=own)),
            target,
            outputs,
        )

    def predict(self, X: Any) -> Any:
        """Return the predicted labels.

        Parameters
        ----------
        {X:collection}

        Returns
        -------
        array of shape (n,)
            The labels, from ``classes_``. Of a Dask collection the answer is lazy: a Dask array that ``.compute()``
            computes.
        """
        check_is_fitted(self)
        return self._on_blocks(X, "predict", self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Return the scores of rows.

        Parameters
        ----------
        {X:collection}

        Returns
        -------
        array of shape (n,) or (n, n_classes)
            The scores. For two classes a positive one means ``classes_[1]``. Of a Dask collection the answer is lazy: a
            Dask array that ``.compute()`` computes.
        """
        check_is_fitted(self)
        width = None if self.classes_.size == 2 else self.classes_.size
        return self._on_blocks(X, "decision_function", np.float64, width)

    @staticmethod
    def _block_sums(model: Any, X: Any, y: Any, s: Any) -> np.ndarray:  # type: ignore[override]
        s = np.ones(X.shape[0]) if s is None else np.asarray(s, np.float64)
        right = model.predict(X) == np.asarray(y) if X.shape[0] else np.empty(0)
        return np.array([float(s @ right), float(s.sum())])

    @staticmethod
    def _score_of_sums(sums: list[np.ndarray]) -> float:  # type: ignore[override]
        right, all_ = np.sum(sums, axis=0)
        return np.float64(right / all_)


@documented
class ClusterRegressor(RegressorMixin, OnCluster):
    """Base of the regressors on a cluster."""

    numeric = True
    score = OnCluster.score

    def predict(self, X: Any) -> Any:
        """Return the predicted targets.

        Parameters
        ----------
        {X:collection}

        Returns
        -------
        array of shape (n,)
            The targets. Of a Dask collection the answer is lazy: a Dask array that ``.compute()`` computes.
        """
        check_is_fitted(self)
        return self._on_blocks(X, "predict", np.float64)

    @staticmethod
    def _block_sums(model: Any, X: Any, y: Any, s: Any) -> np.ndarray:  # type: ignore[override]
        y = np.asarray(y, np.float64)
        s = np.ones(y.size) if s is None else np.asarray(s, np.float64)
        errors = y - model.predict(X) if y.size else y
        weight = float(s.sum())
        mean = float(s @ y) / weight if weight > 0.0 else 0.0
        return np.array([weight, mean, float(s @ (y - mean) ** 2), float(s @ errors**2)])

    @staticmethod
    def _score_of_sums(sums: list[np.ndarray]) -> float:  # type: ignore[override]
        weights, means, spreads, errors = np.transpose(sums)
        mean = weights @ means / weights.sum()  # sums of squared targets would cancel all digits
        spread, error = spreads.sum() + weights @ (means - mean) ** 2, errors.sum()
        if spread == 0.0:  # as in scikit-learn
            return np.float64(error == 0.0)
        return np.float64(1.0 - error / spread)
