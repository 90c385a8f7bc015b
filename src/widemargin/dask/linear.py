"""Linear support vector machines on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from .. import solvers
from ..arguments import not_negative, one_of
from ..core.losses import losses
from ..estimators import linear
from ..estimators.fit.fitting import Shown
from ..estimators.fit.nested import refuse_twice
from ..estimators.fit.parameters import documented
from ..models import LinearModel
from ..problems.objective import Certificate
from ..problems.parts import PartsProblem
from ..stopping import certified
from .examples import NARROW, Examples
from .fitting import ClusterClassifier, ClusterRegressor, OnCluster

#: The solver that "auto" chooses if there are few features.
FOR_NARROW = "interior"


class _LinearOnCluster(OnCluster):
    """Base of the linear classifier and regressor."""

    loss: Any

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of("intercept", self.intercept, ("regularized", "none", "unregularized"))
        if isinstance(self.solver, str):
            one_of("solver", self.solver, solvers.names("parts"))
        elif not isinstance(self.solver, solvers.classes("parts")):
            names = ", ".join(map(repr, solvers.names("parts")))
            raise TypeError(f"solver must be one of {names} or a configured solver, got {self.solver!r}")

    def _solver(self, problem: PartsProblem) -> Any:
        """The solver of a fit; "auto" is the interior point if there are few features."""
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
        shown = Shown(X, y, self._attributes)
        outcome = self._trained(self._solver(problem), problem, started, shown, self._generator())
        for name, value in self._attributes(outcome.model).items():
            setattr(self, name, value)
        dual = max(outcome.dual, 0.0)
        self.certificate_ = Certificate(outcome.objective, dual, outcome.objective - dual)
        gap = self.certificate_.relative_gap
        self.stop_reason_ = certified(self.stop_reason_, gap, self.tol, tight=True)
        self._warn_if_unfinished(replace(outcome, stop_reason=self.stop_reason_), gap)


@documented
class LinearSVC(ClusterClassifier, _LinearOnCluster):
    """Linear support vector classification on a Dask cluster, with a true duality gap.

    Minimises what :class:`widemargin.LinearSVC` does, over all rows of a Dask collection. What is learnt depends on
    the data and its chunks, never on the workers: how many there are, who is faster, and who dies on the way.

    Parameters
    ----------
    {C}
    {loss:binary}
    {solver:parts}
    {intercept:parts}
    {class_weight}
    {lam}
    {tol:parts}
    {max_iter:rounds}
    {max_seconds}
        The model is the best so far.
    {random_state}
    {client}
    {checkpoint:parts}
        It holds the variables of all parts, about 8 bytes for each row and class, and more on wide data.
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    {coef_:classes}
    {intercept_:classes}
    {classes_}
    {history_:parts}
    {certificate_:parts}
    {stop_reason_}
    {n_iter_:rounds}
    {traffic_}

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
        losses.as_loss(self.loss, losses.BINARY)


@documented
class LinearSVR(ClusterRegressor, _LinearOnCluster):
    """Linear support vector regression on a Dask cluster, with a true duality gap.

    Minimises what :class:`widemargin.LinearSVR` does, over all rows of a Dask collection.

    Parameters
    ----------
    {epsilon}
    {C}
    {loss:regression}
    {solver:parts}
    {intercept:parts}
    {lam}
    {tol:parts}
    {max_iter:rounds}
    {max_seconds}
        The model is the best so far.
    {random_state}
    {client}
    {checkpoint:parts}
        It holds the variables of all parts, about 8 bytes for each row and class, and more on wide data.
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    {coef_}
    {intercept_}
    {history_:parts}
    {certificate_:parts}
    {stop_reason_}
    {n_iter_:rounds}
    {traffic_}

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
        self._loss()
        refuse_twice(self, "loss", "epsilon")

    def _loss(self) -> Any:
        return losses.as_loss(self.loss, losses.REGRESSION, float(self.epsilon))

    def _encode_parts(self, examples: Examples) -> tuple[list, Any, int]:  # type: ignore[override]
        return examples.parts, losses.Single(self._loss()), 1

    def _attributes(self, model: LinearModel) -> dict[str, Any]:
        return {"coef_": np.asarray(model.coef)[0], "intercept_": model.intercept}
