"""Budgeted kernel machines on a cluster: one for each part, and their mean, made as small as one of them.

Each part's machine makes its passes over the part's rows, in orders drawn from (seed, part). Parts do not talk to each
other, so that a worker that dies costs its own parts only, which Dask computes again to the same bits.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..arguments import generator
from ..estimators import budgeted
from ..estimators.fitting import now
from ..history import History
from .examples import Examples
from .fitting import ClusterClassifier, ClusterRegressor, OnCluster

#: Rows at a time that a machine is given in its own order.
AT_ONCE = 2**14


def trained(examples: tuple, number: int, machine: Any, classes: np.ndarray | None, seed: int, passes: int) -> Any:
    """A machine that has made its passes over a part's examples."""
    X, y, s = examples
    rng, machine = np.random.default_rng([seed, number]), copy.deepcopy(machine)
    machine.set_params(random_state=int(rng.integers(2**31)))
    for _ in range(passes):
        order = rng.permutation(len(y))
        for first in range(0, order.size, AT_ONCE):
            rows = order[first : first + AT_ONCE]
            known = {} if classes is None else {"classes": classes}
            machine.partial_fit(X[rows], y[rows], sample_weight=s[rows] if s.size else None, **known)
    return machine


def summed(examples: tuple, mean: float) -> np.ndarray:
    """(Number, sum, sum of squares) of the entries of a part's rows less ``mean``."""
    X = examples[0]
    values = (X.data if sp.issparse(X) else X).astype(np.float64, copy=False) - mean
    zeros = X.shape[0] * X.shape[1] - values.size
    squares = float(np.sum(values**2)) + zeros * mean**2
    return np.array([float(values.size + zeros), float(values.sum()) - zeros * mean, squares])


class _BudgetedOnCluster(OnCluster):
    """What the classifier and the regressor share."""

    learnt = ()
    #: What fits on one machine have beside, and these have not.
    tol, max_seconds, checkpoint, checkpoint_every, callbacks, verbose = 0.0, None, None, 60, None, 0

    budget: int

    def _machine(self, gamma: Any) -> Any:
        """The machine of a part."""
        names = self.local().get_params(deep=False)
        same = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        machine = self.local(**{**same, "gamma": gamma, "max_iter": 1, "random_state": None})
        machine._check_parameters()
        return machine

    def _problem(self, examples: Examples) -> Any:
        return examples

    def _gamma_of(self, examples: Examples) -> Any:
        """γ as a number, where it is that of the rows of all parts."""
        if self.gamma != "scale":
            return self.gamma
        totals, mean = np.zeros(3), 0.0
        for _ in range(2):  # about the mean, which the first look tells
            totals = sum(examples.client.gather(examples.mapped(summed, mean)))
            mean = totals[1] / totals[0] + mean
        variance = totals[2] / totals[0] - (totals[1] / totals[0]) ** 2
        return 1.0 / (examples.d * variance) if variance > 0.0 else 1.0

    def _fit_parts(self, examples: Examples, started: float, X: Any, y: Any) -> None:  # type: ignore[override]
        machine, classes = self._machine(self._gamma_of(examples)), None
        if not self.numeric:
            classes, _ = examples.labels()
            if classes.size < 2:
                name, only = type(self).__name__, classes.tolist()[0]
                raise ValueError(f"{name} needs examples of at least 2 classes, got 1 class only: {only!r}")
            self.classes_ = classes
        seed = int(generator(self.random_state).integers(2**63))
        client, numbers = examples.client, list(range(len(examples.parts)))
        options = {"machine": machine, "classes": classes, "seed": seed, "passes": self.max_iter}
        machines = client.gather(client.map(trained, examples.parts, numbers, **options, pure=False))
        self._local = budgeted.average(machines, self.budget)
        self._local.set_params(max_iter=self.max_iter, random_state=self.random_state)
        self.n_iter_, self.stop_reason_, self.certificate_ = self.max_iter, "max_iter", None
        self.history_ = History()
        self.history_.append(
            epochs=float(self.max_iter), seconds=now() - started, visits=self.max_iter * examples.n,
            parts=len(machines), degradation=self._local.degradation_,
        )  # fmt: skip
        for name in ("n_iter_", "stop_reason_", "history_", "certificate_", "n_features_in_"):
            setattr(self._local, name, getattr(self, name))

    def to_local(self) -> Any:
        """The estimator of one machine: the mean of those of the parts."""
        check_is_fitted(self, "_local")
        return copy.copy(self._local)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_local")

    @property
    def support_vectors_(self) -> Any:
        """Vectors of the model, as rows."""
        return self.to_local().support_vectors_

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the vectors, of shape (n_outputs, n_vectors)."""
        return self.to_local().dual_coef_


class BudgetedSVC(ClusterClassifier, _BudgetedOnCluster):
    """Kernel classification with at most ``budget`` support vectors on a Dask cluster.

    The mean of a :class:`widemargin.BudgetedSVC` for each part, compressed to ``budget`` vectors.

    Parameters
    ----------
    budget, kernel, gamma, degree, coef0, lam, step, maintenance, max_iter, batch_size, multi_class, class_weight, \
    random_state
        As in :class:`widemargin.BudgetedSVC`. ``gamma="scale"`` is that of all rows.
    client : distributed.Client, optional

    Attributes
    ----------
    support_vectors_, dual_coef_, classes_, history_, stop_reason_, n_iter_
        ``history_["degradation"]`` is ‖w − w′‖ of the mean before and after it was compressed.
    """

    local = budgeted.BudgetedSVC

    def __init__(
        self,
        budget=500,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        lam=1e-4,
        step="pegasos",
        maintenance="merge",
        max_iter=1,
        batch_size=1,
        multi_class="crammer_singer",
        class_weight=None,
        random_state=None,
        client=None,
    ):
        self._keep(locals())


class BudgetedSVR(ClusterRegressor, _BudgetedOnCluster):
    """Kernel regression with an ε-tube and at most ``budget`` support vectors on a Dask cluster.

    The mean of a :class:`widemargin.BudgetedSVR` for each part, compressed to ``budget`` vectors.

    Parameters
    ----------
    budget, kernel, gamma, degree, coef0, lam, epsilon, step, maintenance, max_iter, batch_size, random_state
        As in :class:`widemargin.BudgetedSVR`. ``gamma="scale"`` is that of all rows.
    client : distributed.Client, optional
    """

    local = budgeted.BudgetedSVR

    def __init__(
        self,
        budget=500,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        lam=1e-4,
        epsilon=0.1,
        step="norma",
        maintenance="merge",
        max_iter=1,
        batch_size=1,
        random_state=None,
        client=None,
    ):
        self._keep(locals())
