"""Budgeted kernel machines on a cluster: one for each part, their mean made as small as one of them, and refitted.

Each part's machine makes its passes over the part's rows, in orders drawn from (seed, part). The mean of them all is
compressed to B vectors V, which loses something. With V fixed, a machine is linear in B features::

    w = Σ aⱼΦ(vⱼ) = Φ(V)Ru,      R Rᵀ = K(V, V)⁻¹,      ‖w‖² = ‖u‖²,      ⟨w, Φ(x)⟩ = ⟨u, Rᵀk(V, x)⟩,

so each part solves the linear problem of its own rows for u, by SDCA, and the mean of these u is the machine: one more
message each way, whatever the budget. Parts do not talk to each other, so that a worker that dies costs its own parts
only, which Dask computes again to the same bits.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..arguments import generator
from ..core.interrupts import at_once
from ..core.kernel_matrix import KernelMatrix
from ..core.rows import DenseRows, shape
from ..estimators import budgeted
from ..estimators.fitting import now
from ..history import History
from ..problems.linear import Problem
from ..running import run
from ..solvers.budget.reduce import holding
from ..warning import warn
from .examples import Examples
from .fitting import ClusterClassifier, ClusterRegressor, OnCluster

#: Rows at a time that a machine is given in its own order.
AT_ONCE = 2**14
#: Most numbers of the features of a part's rows; of more rows some are drawn.
MOST_NUMBERS = 2**25
#: The relative gap and the epochs at which a part's linear problem ends; joint losses, which have no gap, end by these.
CLOSE_ENOUGH, EPOCHS = 1e-2, 20
#: Directions of the vectors' span whose share of the longest is less are left out.
FLAT = 1e-10
#: A part lacks a class where it has none of so many rows that it would have on average: chance does that once in 5e8.
EXPECTED = 20.0


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


def root_of(machine: Any) -> np.ndarray:
    """R of shape (vectors, rank), with R Rᵀ the inverse of the vectors' kernel matrix on its range."""
    vectors = machine._state.vectors()
    K = KernelMatrix(machine._trained_kernel, vectors, dtype=np.float64).block(np.arange(shape(vectors)[0]))
    values, directions = np.linalg.eigh(0.5 * (K + K.T))
    kept = values > FLAT * max(float(values[-1]), 0.0)
    return directions[:, kept] / np.sqrt(values[kept])


def refitted(examples: tuple, number: int, machine: Any, root: np.ndarray, of_class: Any, seed: int) -> np.ndarray:
    """The weights u of a part's own rows in the span of a machine's vectors, of shape (outputs, rank)."""
    X, y, s = examples
    rng = np.random.default_rng([seed, number, 1])
    most = max(1, MOST_NUMBERS // max(1, root.shape[1]))
    if len(y) > most:
        chosen = np.sort(rng.choice(len(y), most, replace=False))
        X, y, s = X[chosen], y[chosen], s[chosen] if s.size else s
    if of_class is None:
        problem = machine._problem_of_part(X, y, s)
    else:
        codes = np.searchsorted(machine.classes_, y)
        problem = machine._problem_of_part(X, codes, s, None if machine.class_weight is None else of_class[codes])
    across = KernelMatrix(problem.kernel, problem.X, machine._state.vectors(), dtype=np.float64)
    features = np.empty((problem.n, root.shape[1]))
    for first in range(0, problem.n, AT_ONCE):
        some = np.arange(first, min(first + AT_ONCE, problem.n))
        features[some] = across.block(some) @ root
    linear = Problem(
        DenseRows(features), problem.y, problem.target, problem.lam, sample_weight=problem.sample_weight,
        intercept="none", n_outputs=problem.n_outputs,
    )  # fmt: skip
    solver = solvers.make("linear", "pegasos" if linear.is_joint else "sdca")
    return run(solver, linear, rng=rng, max_epochs=EPOCHS, tol=0.0 if linear.is_joint else CLOSE_ENOUGH).model.coef


def summed(examples: tuple, mean: float) -> np.ndarray:
    """(Number, sum, sum of squares) of the entries of a part's rows less ``mean``."""
    X = examples[0]
    values = (X.data if sp.issparse(X) else X).astype(np.float64, copy=False) - mean
    zeros = X.shape[0] * X.shape[1] - values.size
    squares = float(np.sum(values**2)) + zeros * mean**2
    return np.array([float(values.size + zeros), float(values.sum()) - zeros * mean, squares])


def warn_of_missing_classes(examples: Examples, classes: np.ndarray) -> None:
    """Warn where parts have no row of a class of which chance alone would have given them some."""
    counts = np.zeros((len(examples.summaries), classes.size))
    for part, each in zip(counts, examples.summaries, strict=True):
        part[np.searchsorted(classes, each.labels)] = each.counts
    sizes = np.array([each.n for each in examples.summaries])
    lacks = (counts == 0.0) & (np.outer(sizes, counts.sum(axis=0) / counts.sum()) >= EXPECTED)
    if lacks.any():
        part, label = np.argwhere(lacks)[0].tolist()
        few = np.count_nonzero(lacks.any(axis=1))
        warn(
            f"{few} of {len(sizes)} parts have no row of some class (part {part} none of "
            f"{classes.tolist()[label]!r}): each part trains a machine of its own rows, and the mean of such machines "
            "errs more. Shuffle the rows before they are cut into chunks"
        )


class _BudgetedOnCluster(OnCluster):
    """What the classifier and the regressor share."""

    learnt = ()
    #: What fits on one machine have beside, and these have not.
    tol, max_seconds, checkpoint, checkpoint_every, callbacks, verbose = 0.0, None, None, 60, None, 0

    budget: int
    refit: bool

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.refit, (bool, np.bool_)):
            raise TypeError(f"refit must be True or False, got {self.refit!r}")

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
        machine, classes, of_class = self._machine(self._gamma_of(examples)), None, None
        if not self.numeric:
            classes, of_class = examples.classes_for(self)
            self.classes_ = classes
            warn_of_missing_classes(examples, classes)
        seed = int(generator(self.random_state).integers(2**63))
        client, numbers = examples.client, list(range(len(examples.parts)))
        options = {"machine": machine, "classes": classes, "seed": seed, "passes": self.max_iter}
        with at_once():  # a second Ctrl-C ends the wait
            machines = client.gather(client.map(trained, examples.parts, numbers, **options, pure=False))
        self._local = budgeted.average(machines, self.budget)
        if self.refit and self._local._trained_kernel.is_definite and self._local._state.support:
            self._refit(examples, of_class, seed)
        self._local.set_params(max_iter=self.max_iter, random_state=self.random_state)
        self.n_iter_, self.stop_reason_, self.certificate_ = self.max_iter, "max_iter", None
        self.history_ = History()
        self.history_.append(
            epochs=float(self.max_iter), seconds=now() - started, visits=self.max_iter * examples.n,
            parts=len(machines), degradation=self._local.degradation_,
        )  # fmt: skip
        for name in ("n_iter_", "stop_reason_", "history_", "certificate_", "n_features_in_"):
            setattr(self._local, name, getattr(self, name))

    def _refit(self, examples: Examples, of_class: np.ndarray | None, seed: int) -> None:
        """Give the vectors of the mean the best coefficients of each part's rows, on average by their weights."""
        machine, root = self._local, root_of(self._local)
        client, numbers = examples.client, list(range(len(examples.parts)))
        options = {"machine": machine, "root": root, "of_class": of_class, "seed": seed}
        with at_once():
            found = client.gather(client.map(refitted, examples.parts, numbers, **options, pure=False))
        masses = [each.weight for each in examples.summaries]  # rows, or their weights: who has none says nothing
        mean = sum(mass * u for mass, u in zip(masses, found, strict=True)) / examples.weight
        visits = machine._state.counters.visits
        machine._state = holding(machine._trained_kernel, machine._state.vectors(), mean @ root.T)
        machine._state.tally.visits = machine._state.counters.visits = visits

    def to_local(self) -> Any:
        """Return the estimator of one machine: the mean of those of the parts.

        Returns
        -------
        estimator
            The estimator of :mod:`widemargin` with the same name.
        """
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

    The mean of a :class:`widemargin.BudgetedSVC` for each part, compressed to ``budget`` vectors whose coefficients are
    then refitted.

    Parameters
    ----------
    budget : int, default=500
        The largest number of support vectors.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian"}, default="rbf"
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is
        tanh(γ⟨x, z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁).
    gamma : {"scale", "auto"} or float, default="scale"
        The factor γ of the kernel. "scale" is 1/(n_features × variance of X), with the variance of all rows, "auto" is
        1/n_features.
    degree : int, default=3
        The degree of the kernel "poly". Other kernels do not look at it.
    coef0 : float, default=0.0
        The constant term of the kernels "poly" and "sigmoid". Other kernels do not look at it.
    lam : float, default=1e-4
        The factor λ of the regulariser.
    step : str or a step rule, default="pegasos"
        The sizes of the steps, as in :class:`widemargin.BudgetedSVC`.
    maintenance : str or a policy, default="merge"
        What is done when there is one vector too many, as in :class:`widemargin.BudgetedSVC`.
    max_iter : int, default=1
        The number of passes that each part makes over its rows.
    batch_size : int, default=1
        The number of examples of a step.
    multi_class : {"crammer_singer", "ovr"}, default="crammer_singer"
        How more than two classes are told apart: by one joint loss, or by a hinge for each class against the rest.
    class_weight : dict, "balanced" or None, default=None
        The weights of the classes, by label. "balanced" gives all classes the same total weight. None weighs every
        example the same.
    refit : bool, default=True
        Whether each part finds the coefficients of the compressed mean's vectors that are best for its rows, by the
        objective with ``lam``, and their mean is what is learnt; else coefficients are those of the compressed mean.
        Kernels that are not positive definite are not refitted.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers. The same integer gives the same model again; None draws a new seed in each call.
    client : distributed.Client or None, default=None
        The cluster. None is that of the current client.

    Attributes
    ----------
    support_vectors_ : ndarray or sparse matrix of shape (n_vectors, n_features)
        The support vectors.
    dual_coef_ : ndarray of shape (n_outputs, n_vectors)
        The coefficients of the support vectors.
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    history_ : History
        A single row. ``history_["degradation"]`` is ‖w − w′‖ of the mean before and after it was compressed.
    certificate_ : None
        Nothing is proven of this model.
    stop_reason_ : str
        Why training ended: "max_iter".
    n_iter_ : int
        The number of passes.

    See Also
    --------
    widemargin.BudgetedSVC : The same on one machine.
    BudgetedSVR : The same for regression.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.dask import BudgetedSVC
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> rows, labels = da.from_array(X, chunks=(30, 2)), da.from_array(y, chunks=30)
    >>> with Client(processes=False, dashboard_address=None):
    ...     model = BudgetedSVC(10, gamma=1.0, lam=1e-3, random_state=0).fit(rows, labels)
    ...     right = float(model.score(rows, labels))
    >>> len(model.support_vectors_) <= 10, right > 0.8
    (True, True)
    >>> model.predict(X[:3]).shape, model.decision_function(X[:3]).shape
    ((3,), (3,))
    >>> type(model.to_local())
    <class 'widemargin.estimators.budgeted.BudgetedSVC'>
    """

    local = budgeted.BudgetedSVC

    def __init__(
        self,
        budget: int = 500,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        lam: float | None = 1e-4,
        step: Any = "pegasos",
        maintenance: Any = "merge",
        max_iter: int = 1,
        batch_size: int = 1,
        multi_class: str = "crammer_singer",
        class_weight: Mapping[Any, float] | str | None = None,
        refit: Any = True,
        random_state: Any = None,
        client: Any = None,
    ) -> None:
        self._keep(locals())


class BudgetedSVR(ClusterRegressor, _BudgetedOnCluster):
    """Kernel regression with an ε-tube and at most ``budget`` support vectors on a Dask cluster.

    The mean of a :class:`widemargin.BudgetedSVR` for each part, compressed to ``budget`` vectors whose coefficients are
    then refitted.

    Parameters
    ----------
    budget : int, default=500
        The largest number of support vectors.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian"}, default="rbf"
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is
        tanh(γ⟨x, z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁).
    gamma : {"scale", "auto"} or float, default="scale"
        The factor γ of the kernel. "scale" is 1/(n_features × variance of X), with the variance of all rows, "auto" is
        1/n_features.
    degree : int, default=3
        The degree of the kernel "poly". Other kernels do not look at it.
    coef0 : float, default=0.0
        The constant term of the kernels "poly" and "sigmoid". Other kernels do not look at it.
    lam : float, default=1e-4
        The factor λ of the regulariser.
    epsilon : float, default=0.1
        The half-width of the tube, in units of y. Errors up to this size cost nothing.
    step : str or a step rule, default="norma"
        The sizes of the steps, as in :class:`widemargin.BudgetedSVR`.
    maintenance : str or a policy, default="merge"
        What is done when there is one vector too many, as in :class:`widemargin.BudgetedSVR`.
    max_iter : int, default=1
        The number of passes that each part makes over its rows.
    batch_size : int, default=1
        The number of examples of a step.
    refit : bool, default=True
        Whether each part finds the coefficients of the compressed mean's vectors that are best for its rows, by the
        objective with ``lam``, and their mean is what is learnt; else coefficients are those of the compressed mean.
        Kernels that are not positive definite are not refitted.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers. The same integer gives the same model again; None draws a new seed in each call.
    client : distributed.Client or None, default=None
        The cluster. None is that of the current client.

    Attributes
    ----------
    support_vectors_ : ndarray or sparse matrix of shape (n_vectors, n_features)
        The support vectors.
    dual_coef_ : ndarray of shape (n_outputs, n_vectors)
        The coefficients of the support vectors.
    history_ : History
        A single row. ``history_["degradation"]`` is ‖w − w′‖ of the mean before and after it was compressed.
    certificate_ : None
        Nothing is proven of this model.
    stop_reason_ : str
        Why training ended: "max_iter".
    n_iter_ : int
        The number of passes.

    See Also
    --------
    widemargin.BudgetedSVR : The same on one machine.
    BudgetedSVC : The same for classification.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.dask import BudgetedSVR
    >>> X, _ = make_moons(60, noise=0.1, random_state=0)
    >>> rows, targets = da.from_array(X, chunks=(30, 2)), da.from_array(X[:, 0] - X[:, 1], chunks=30)
    >>> with Client(processes=False, dashboard_address=None):
    ...     model = BudgetedSVR(10, gamma=1.0, lam=1e-3, random_state=0).fit(rows, targets)
    ...     explained = float(model.score(rows, targets))
    >>> len(model.support_vectors_) <= 10, explained > 0.5
    (True, True)
    >>> model.predict(X[:3]).shape
    (3,)
    >>> type(model.to_local())
    <class 'widemargin.estimators.budgeted.BudgetedSVR'>
    """

    local = budgeted.BudgetedSVR

    def __init__(
        self,
        budget: int = 500,
        *,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        lam: float | None = 1e-4,
        epsilon: float = 0.1,
        step: Any = "norma",
        maintenance: Any = "merge",
        max_iter: int = 1,
        batch_size: int = 1,
        refit: Any = True,
        random_state: Any = None,
        client: Any = None,
    ) -> None:
        self._keep(locals())
