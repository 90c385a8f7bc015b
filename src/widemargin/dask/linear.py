"""Linear support vector machines on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from .. import solvers
from ..arguments import not_negative, one_of
from ..core import losses
from ..estimators import linear
from ..estimators.fitting import Shown, Turn
from ..models import LinearModel
from ..problems.objective import Certificate
from ..problems.parts import PartsProblem
from .examples import NARROW, Examples
from .fitting import ClusterClassifier, ClusterRegressor, OnCluster

#: The solver that "auto" turns to where features are few.
FOR_NARROW = "interior"


class _LinearOnCluster(OnCluster):
    """What the linear classifier and regressor share."""

    loss: str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of("intercept", self.intercept, ("regularized", "none", "unregularized"))
        if isinstance(self.solver, str):
            one_of("solver", self.solver, solvers.names("parts"))
        elif not isinstance(self.solver, solvers.classes("parts")):
            names = ", ".join(map(repr, solvers.names("parts")))
            raise TypeError(f"solver must be one of {names} or a configured solver, got {self.solver!r}")

    def _solver(self, problem: PartsProblem) -> Any:
        """The solver in use; "auto" is the interior point on narrow data, where it has the loss."""
        if not isinstance(self.solver, str):
            return self.solver
        if self.solver != "auto":
            return solvers.make("parts", self.solver)
        narrow = solvers.make("parts", FOR_NARROW)
        try:
            narrow.check(problem)
        except ValueError:
            return solvers.make("parts")
        return narrow if problem.d <= NARROW else solvers.make("parts")

    def _attributes(self, model: LinearModel) -> dict[str, Any]:
        return {"coef_": model.coef, "intercept_": model.intercept}

    def _fit_parts(self, problem: PartsProblem, started: float, X: Any, y: Any) -> None:  # type: ignore[override]
        solver = self._solver(problem)
        shown = Shown(X, y, self._attributes)
        try:
            outcome = self._run(solver, problem, Turn(started), shown, rng=self._generator())
        finally:
            if problem.place.made is not None:
                problem.place.made.close()
        for name, value in self._attributes(outcome.model).items():
            setattr(self, name, value)
        dual = max(outcome.dual, 0.0)
        self.certificate_ = Certificate(outcome.objective, dual, outcome.objective - dual)
        made = problem.place.made
        self.traffic_ = {name: getattr(made, name) for name in ("trips", "bytes_sent", "bytes_received", "lost")}
        self._warn_if_unfinished(outcome)


class LinearSVC(ClusterClassifier, _LinearOnCluster):
    """Linear support vector classification on a Dask cluster, with a true duality gap.

    Minimises what :class:`widemargin.LinearSVC` does, over all rows of a Dask collection. What is learnt depends on
    the data and its chunks, never on the workers: how many there are, who is faster, and who dies on the way.

    Parameters
    ----------
    C : float, default=1.0
        How closely the training set is fitted, a number > 0. A larger value allows fewer errors, a smaller one a wider
        margin.
    loss : {"hinge", "squared_hinge", "log"}, default="hinge"
        The loss of an example, as in :class:`widemargin.LinearSVC`.
    solver : {"auto", "interior", "admm"} or a configured solver, default="auto"
        The method that trains. "interior" is the interior point (:mod:`widemargin.solvers.interior`), some 10 to 40
        steps to any ``tol``, for data with few features, of which each part sends the products: d² numbers. "admm" is
        consensus ADMM with SDCA inside (:mod:`widemargin.solvers.consensus`), for data with many. "auto" is "interior"
        up to 1,000 features, but for ``loss="log"``, which "admm" alone has.
    intercept : {"regularized", "unregularized", "none"}, default="regularized"
        What is done about the intercept b. "regularized" makes it the weight of a constant feature. "unregularized"
        leaves it free, and needs "interior". "none" leaves it out.
    class_weight : dict, "balanced" or None, default=None
        The weights of the classes, by label. "balanced" gives all classes the same total weight. None weighs every
        example the same.
    lam : float or None, default=None
        The factor λ of the regulariser, λ = 1/(C n). If it is given, ``C`` is not looked at.
    tol : float, default=1e-3
        The relative duality gap at which training stops. 0 switches it off.
    max_iter : int, default=1000
        The largest number of rounds.
    max_seconds : float or None, default=None
        A wall-clock limit for the whole call. The best model so far is kept, and ``stop_reason_`` says "max_seconds".
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers. The same integer gives the same model again; None draws a new seed in each call.
    client : distributed.Client or None, default=None
        The cluster. None is that of the current client.
    checkpoint : str, path or None, default=None
        A file from which a fit that was killed goes on. It is written while ``fit`` runs and removed at its end. It
        holds the variables of all parts, some 8 bytes for each row and class, and more on wide data.
    checkpoint_every : float, default=60
        The least number of seconds between two writes of ``checkpoint``. 0 writes as often as possible.
    callbacks : callable, list of callables or None, default=None
        Functions that are called at each checkpoint with a :class:`widemargin.running.Progress`. Returning ``True``
        stops the training.
    verbose : int, default=0
        1 shows a progress bar on standard error, 0 shows nothing.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights of the features: one row for two classes, else one row per class.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts, one per row of ``coef_``.
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    history_ : History
        One row per checkpoint, as on one machine; an epoch is a round.
    certificate_ : Certificate
        The primal value, the dual value and the gap between them.
    stop_reason_ : str
        Why training ended.
    n_iter_ : int
        The number of rounds done.
    traffic_ : dict
        Numbers of the talk with the workers: ``trips`` (messages to all parts), ``bytes_sent`` and ``bytes_received``
        by the driver, and ``lost``: parts that were made again because their workers died.

    See Also
    --------
    widemargin.LinearSVC : The same on one machine.
    LinearSVR : The same for regression.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.dask import LinearSVC
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> rows, labels = da.from_array(X, chunks=(30, 2)), da.from_array(y, chunks=30)
    >>> with Client(processes=False, dashboard_address=None):
    ...     model = LinearSVC(C=1.0).fit(rows, labels)
    ...     right = float(model.score(rows, labels))
    >>> bool(model.certificate_.relative_gap <= 1e-3), right > 0.8
    (True, True)
    >>> model.predict(X[:3]).shape, model.decision_function(X[:3]).shape
    ((3,), (3,))
    >>> type(model.to_local())
    <class 'widemargin.estimators.linear.LinearSVC'>
    """

    local = linear.LinearSVC

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        solver: Any = "auto",
        intercept: str = "regularized",
        class_weight: Mapping[Any, float] | str | None = None,
        lam: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        client: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of("loss", self.loss, losses.BINARY)


class LinearSVR(ClusterRegressor, _LinearOnCluster):
    """Linear support vector regression on a Dask cluster, with a true duality gap.

    Minimises what :class:`widemargin.LinearSVR` does, over all rows of a Dask collection.

    Parameters
    ----------
    epsilon : float, default=0.0
        The half-width of the tube, in units of y. Errors up to this size cost nothing.
    C : float, default=1.0
        How closely the training set is fitted, a number > 0. A larger value allows fewer errors, a smaller one a wider
        margin.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        The loss of an example: how far its error is outside the tube, or the square of that.
    solver : {"auto", "interior", "admm"} or a configured solver, default="auto"
        The method that trains, as in :class:`LinearSVC`.
    intercept : {"regularized", "unregularized", "none"}, default="regularized"
        What is done about the intercept b. "regularized" makes it the weight of a constant feature. "unregularized"
        leaves it free, and needs "interior". "none" leaves it out.
    lam : float or None, default=None
        The factor λ of the regulariser, λ = 1/(C n). If it is given, ``C`` is not looked at.
    tol : float, default=1e-3
        The relative duality gap at which training stops. 0 switches it off.
    max_iter : int, default=1000
        The largest number of rounds.
    max_seconds : float or None, default=None
        A wall-clock limit for the whole call. The best model so far is kept, and ``stop_reason_`` says "max_seconds".
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers. The same integer gives the same model again; None draws a new seed in each call.
    client : distributed.Client or None, default=None
        The cluster. None is that of the current client.
    checkpoint : str, path or None, default=None
        A file from which a fit that was killed goes on. It is written while ``fit`` runs and removed at its end. It
        holds the variables of all parts, some 8 bytes for each row and class, and more on wide data.
    checkpoint_every : float, default=60
        The least number of seconds between two writes of ``checkpoint``. 0 writes as often as possible.
    callbacks : callable, list of callables or None, default=None
        Functions that are called at each checkpoint with a :class:`widemargin.running.Progress`. Returning ``True``
        stops the training.
    verbose : int, default=0
        1 shows a progress bar on standard error, 0 shows nothing.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The weights of the features.
    intercept_ : ndarray of shape (1,)
        The intercept.
    history_ : History
        One row per checkpoint, as on one machine; an epoch is a round.
    certificate_ : Certificate
        The primal value, the dual value and the gap between them.
    stop_reason_ : str
        Why training ended.
    n_iter_ : int
        The number of rounds done.
    traffic_ : dict
        Numbers of the talk with the workers: ``trips`` (messages to all parts), ``bytes_sent`` and ``bytes_received``
        by the driver, and ``lost``: parts that were made again because their workers died.

    See Also
    --------
    widemargin.LinearSVR : The same on one machine.
    LinearSVC : The same for classification.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.dask import LinearSVR
    >>> X, _ = make_moons(60, noise=0.1, random_state=0)
    >>> rows, targets = da.from_array(X, chunks=(30, 2)), da.from_array(X[:, 0] - X[:, 1], chunks=30)
    >>> with Client(processes=False, dashboard_address=None):
    ...     model = LinearSVR(epsilon=0.01).fit(rows, targets)
    ...     explained = float(model.score(rows, targets))
    >>> bool(model.certificate_.relative_gap <= 1e-3), explained > 0.9
    (True, True)
    >>> model.predict(X[:3]).shape
    (3,)
    >>> type(model.to_local())
    <class 'widemargin.estimators.linear.LinearSVR'>
    """

    local = linear.LinearSVR

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        solver: Any = "auto",
        intercept: str = "regularized",
        lam: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        client: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        not_negative("epsilon", self.epsilon)
        one_of("loss", self.loss, losses.REGRESSION)

    def _encode_parts(self, examples: Examples) -> tuple[list, Any, int]:  # type: ignore[override]
        return examples.parts, losses.Single(losses.REGRESSION[self.loss](float(self.epsilon))), 1

    def _attributes(self, model: LinearModel) -> dict[str, Any]:
        return {"coef_": np.asarray(model.coef)[0], "intercept_": model.intercept}
