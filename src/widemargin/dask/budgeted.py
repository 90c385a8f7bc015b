"""Budgeted kernel machines on a cluster: the compressed and refitted mean of one machine per part.

1. Each part trains a machine on its own rows, in orders drawn from (seed, part).
2. The mean of all machines is compressed to B vectors V, which loses accuracy.
3. With V fixed, a machine is linear in B features::

       w = Σ aⱼΦ(vⱼ) = Φ(V)Ru,      R Rᵀ = K(V, V)⁻¹,      ‖w‖² = ‖u‖²,      ⟨w, Φ(x)⟩ = ⟨u, Rᵀk(V, x)⟩.

   Each part solves the linear problem of its own rows for u by SDCA. The mean of all u is the model.

Cost: two messages to each part and back, for any budget. Parts do not communicate, so Dask only has to repeat the parts
of a worker that dies, with the same bits.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import solvers
from ..arguments import flag, generator
from ..core.kernels.kernels import resolve_gamma, with_gamma
from ..core.kernels.matrix import KernelMatrix
from ..core.rows.rows import DenseRows, shape
from ..estimators import budgeted
from ..estimators.fit.fitting import now
from ..estimators.fit.parameters import documented
from ..history import History
from ..problems.linear import Problem
from ..running import run
from ..solvers.budget.reduce import holding
from ..warning import warn
from .examples import Examples
from .fitting import ClusterClassifier, ClusterRegressor, OnCluster
from .rows import ClusterRows

#: Rows that a machine gets at a time.
AT_ONCE = 2**14
#: The most entries of a part's feature matrix. If a part has more rows, a random sample of them is used.
MOST_NUMBERS = 2**25
#: The relative gap at which a part's linear problem is solved. More precision would be lost in the mean.
CLOSE_ENOUGH = 1e-2
#: The most epochs of a part's linear problem. Joint losses have no gap and take all of them.
EPOCHS = 20
#: Eigenvalues of K(V, V) below this share of the largest are left out, because R would magnify rounding errors.
FLAT = 1e-10
#: A warning names a part without rows of a class that it should have EXPECTED rows of. By chance that happens once in
#: 5e8 times.
EXPECTED = 20.0


def trained(examples: tuple, number: int, machine: Any, classes: np.ndarray | None, seed: int, passes: int) -> Any:
    """Train a machine on a part's examples."""
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
    """R of shape (vectors, rank): R Rᵀ is the inverse of the vectors' kernel matrix on its range."""
    vectors = machine._state.vectors()
    K = KernelMatrix(machine._trained_kernel, vectors, dtype=np.float64).block(np.arange(shape(vectors)[0]))
    values, directions = np.linalg.eigh(0.5 * (K + K.T))
    kept = values > FLAT * max(float(values[-1]), 0.0)
    return directions[:, kept] / np.sqrt(values[kept])


def refitted(examples: tuple, number: int, machine: Any, root: np.ndarray, of_class: Any, seed: int) -> np.ndarray:
    """Solve the linear problem of a part's rows in the span of a machine's vectors: u of shape (outputs, rank)."""
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


def warn_of_missing_classes(examples: Examples, classes: np.ndarray) -> None:
    """Warn if parts have no row of a class, although a random part would have some."""
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
    """Base of the classifier and the regressor."""

    learnt = ()
    #: Parameters that fits on one machine have, and these have not.
    tol, max_seconds, checkpoint, checkpoint_every, callbacks, verbose = 0.0, None, None, 60, None, 0

    budget: int
    refit: bool

    def _check_parameters(self) -> None:
        super()._check_parameters()
        flag("refit", self.refit)

    def _machine(self, gamma: Any) -> Any:
        """The machine of a part."""
        kernel = with_gamma(self.kernel, gamma)
        own = {"gamma": gamma} if kernel is self.kernel else {"kernel": kernel}
        machine = self.local(**{**self._same_parameters(), **own, "max_iter": 1, "random_state": None})
        machine._check_parameters()
        return machine

    def _problem(self, examples: Examples) -> Any:
        return examples

    def _fit_parts(self, examples: Examples, started: float, X: Any, y: Any) -> None:  # type: ignore[override]
        gamma, classes, of_class = getattr(self.kernel, "gamma", self.gamma), None, None
        machine = self._machine(resolve_gamma(gamma, ClusterRows(examples)) if gamma == "scale" else gamma)
        if not self.numeric:
            classes, of_class = examples.classes_for(self)
            self.classes_ = classes
            warn_of_missing_classes(examples, classes)
        seed = int(generator(self.random_state).integers(2**63))
        options = {"machine": machine, "classes": classes, "seed": seed, "passes": self.max_iter}
        machines = examples.asked(trained, range(len(examples.parts)), **options)
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
        """Replace the coefficients of the mean by the weighted mean of the best coefficients for each part's rows."""
        machine, root = self._local, root_of(self._local)
        options = {"machine": machine, "root": root, "of_class": of_class, "seed": seed}
        found = examples.asked(refitted, range(len(examples.parts)), **options)
        masses = [each.weight for each in examples.summaries]  # numbers of rows, or sums of their weights
        mean = sum(mass * u for mass, u in zip(masses, found, strict=True)) / examples.weight
        visits = machine._state.counters.visits
        machine._state = holding(machine._trained_kernel, machine._state.vectors(), mean @ root.T)
        machine._state.tally.visits = machine._state.counters.visits = visits

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


@documented
class BudgetedSVC(ClusterClassifier, _BudgetedOnCluster):
    """Kernel classification with at most ``budget`` support vectors on a Dask cluster.

    The mean of a :class:`widemargin.BudgetedSVC` for each part, compressed to ``budget`` vectors whose coefficients are
    then refitted.

    Parameters
    ----------
    {budget}
    {kernel:rows}
    {gamma}
        The variance is that of all rows.
    {degree}
    {coef0}
    {lam:number}
    step : str or a step rule, default="pegasos"
        The sizes of the steps, as in :class:`widemargin.BudgetedSVC`.
    maintenance : str or a policy, default="merge"
        What is done when there is one vector too many, as in :class:`widemargin.BudgetedSVC`.
    {max_iter:parts}
    {batch_size}
    {multi_class:budget}
    {class_weight}
    refit : bool, default=True
        Whether each part finds the coefficients of the compressed mean's vectors that are best for its rows, by the
        objective with ``lam``, and their mean is what is learnt; else coefficients are those of the compressed mean.
        Kernels that are not positive definite are not refitted.
    {random_state}
    {client}

    Attributes
    ----------
    {support_vectors_}
    dual_coef_ : ndarray of shape (n_outputs, n_vectors)
        The coefficients of the support vectors.
    {classes_}
    {history_:mean}
    {certificate_:none}
    {stop_reason_:mean}
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


@documented
class BudgetedSVR(ClusterRegressor, _BudgetedOnCluster):
    """Kernel regression with an ε-tube and at most ``budget`` support vectors on a Dask cluster.

    The mean of a :class:`widemargin.BudgetedSVR` for each part, compressed to ``budget`` vectors whose coefficients are
    then refitted.

    Parameters
    ----------
    {budget}
    {kernel:rows}
    {gamma}
        The variance is that of all rows.
    {degree}
    {coef0}
    {lam:number}
    {epsilon}
    step : str or a step rule, default="norma"
        The sizes of the steps, as in :class:`widemargin.BudgetedSVR`.
    maintenance : str or a policy, default="merge"
        What is done when there is one vector too many, as in :class:`widemargin.BudgetedSVR`.
    {max_iter:parts}
    {batch_size}
    refit : bool, default=True
        Whether each part finds the coefficients of the compressed mean's vectors that are best for its rows, by the
        objective with ``lam``, and their mean is what is learnt; else coefficients are those of the compressed mean.
        Kernels that are not positive definite are not refitted.
    {random_state}
    {client}

    Attributes
    ----------
    {support_vectors_}
    dual_coef_ : ndarray of shape (n_outputs, n_vectors)
        The coefficients of the support vectors.
    {history_:mean}
    {certificate_:none}
    {stop_reason_:mean}
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
