"""Kernel support vector machines on a cluster, by the Stochastic Batch Perceptron over parts."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..core import losses
from ..core.kernels import class_of
from ..estimators import kernel as local_kernel
from ..estimators.fitting import Shown, Turn
from ..estimators.machine import Task
from ..estimators.multiclass import Binaries
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.parts import KernelPartsProblem, masses_of
from .examples import Examples
from .fitting import Cluster, ClusterClassifier, OnCluster
from .rows import ClusterRows

#: What is learnt, and set on both estimators.
LEARNT = ("support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_")


def part_of(
    examples: tuple, kernel: Any, preparation: Any, dtype: Any, classes: np.ndarray, of_class: np.ndarray,
    weighted: bool, lam: float, intercept: str,
) -> KernelProblem:  # fmt: skip
    """The problem of a part: one of two classes, or each class against the rest."""
    X, y, s = examples
    binaries = Binaries(np.searchsorted(classes, y), s, of_class, weighted, False)
    _, signs, weights = map(np.stack, zip(*map(binaries.binary, range(len(binaries))), strict=True))
    rows = preparation.rows(kernel, X.astype(dtype, copy=False))
    hinge = losses.Single(losses.Hinge())
    return KernelProblem(kernel, rows, signs, hinge, lam, weights if weighted else np.empty(0), intercept)


def masses(examples: tuple, kind: Any) -> np.ndarray:
    """Sums of the weights of the positive and of the negative examples of each binary problem of a part."""
    X, y, s = examples
    unread = replace(kind.keywords["preparation"], centre=None, as_csr=False, as_float32=False)
    problem = kind((np.zeros((X.shape[0], 1)), y, s), preparation=unread)
    return masses_of(problem)


class SVC(ClusterClassifier, OnCluster):
    """Kernel support vector classification on a Dask cluster, by the Stochastic Batch Perceptron.

    It solves the slack-constrained form of :class:`widemargin.StochasticBatchPerceptron` over all rows of a Dask
    collection, at a given ν or at one that a sample gives for ``C``. What is learnt depends on the data and its
    chunks, never on the workers: how many there are, who is faster, and who dies on the way.

    Parameters
    ----------
    C : float, default=1.0
        How closely the training set is fitted, a number > 0. A larger value allows fewer errors, a smaller one a wider
        margin.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian"} or callable, default="rbf"
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is
        tanh(γ⟨x, z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁). A callable gets two sets of rows and
        returns their kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        The factor γ of the kernel. "scale" is 1/(n_features × variance of X), with the variance of all rows, "auto" is
        1/n_features.
    degree : int, default=3
        The degree of the kernel "poly". Other kernels do not look at it.
    coef0 : float, default=0.0
        The constant term of the kernels "poly" and "sigmoid". Other kernels do not look at it.
    solver : {"auto", "sbp"} or StochasticBatchPerceptron, default="auto"
        The method that trains, of which there is one. ``StochasticBatchPerceptron(nu=…)`` solves the slack-constrained
        form at that ν, as on one machine; without ν it is found from a sample of at most 4,000 rows, and the multiple
        of w is the best for C. There is no SMO after it.
    intercept : {"auto", "unregularized", "regularized", "none"}, default="auto"
        What is done about the intercept. "unregularized" leaves it free, "regularized" adds 1 to the kernel, "none"
        leaves it out. "auto" is "unregularized".
    class_weight : dict, "balanced" or None, default=None
        The weights of the classes, by label. "balanced" gives all classes the same total weight. None weighs every
        example the same.
    lam : float or None, default=None
        The factor λ of the regulariser, λ = 1/(C n). If it is given, ``C`` is not looked at.
    tol : float, default=1e-3
        The relative change of the objective, while the number of draws doubled, at which training stops.
    max_iter : int, default=1000
        The largest number of epochs, each of as many draws as there are rows.
    max_seconds : float or None, default=None
        A wall-clock limit for the whole call. The model at that time is kept, and ``stop_reason_`` says "max_seconds".
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers. The same integer gives the same model again. None is a fixed seed here, so that
        two fits to the same data give the same model.
    client : distributed.Client or None, default=None
        The cluster. None is that of the current client.
    checkpoint : str, path or None, default=None
        A file from which a fit that was killed goes on. It is written while ``fit`` runs and removed at its end. It
        holds 16 bytes for each row and class.
    checkpoint_every : float, default=60
        The least number of seconds between two writes of ``checkpoint``. 0 writes as often as possible.
    callbacks : callable, list of callables or None, default=None
        Functions that are called at each checkpoint with a :class:`widemargin.running.Progress`. Returning ``True``
        stops the training.
    verbose : int, default=0
        1 shows a progress bar on standard error, 0 shows nothing.

    Attributes
    ----------
    support_ : ndarray of shape (n_vectors,)
        The places of the support vectors among all rows.
    support_vectors_ : ndarray or sparse matrix of shape (n_vectors, n_features)
        The support vectors.
    n_support_ : ndarray of shape (n_classes,)
        The number of support vectors of each class.
    dual_coef_ : ndarray of shape (1, n_vectors) or (n_classes, n_vectors)
        The coefficients of the support vectors, each class against the rest.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts.
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    gamma_ : float
        The value of γ in use.
    history_ : History
        One row per checkpoint.
    certificate_ : Certificate or None
        The primal and the dual value of the sum of all binary problems at ``C``: true, but loose, since the ν-form does
        not look for a small gap. None for kernels that are not known to be positive semi-definite.
    stop_reason_ : str
        Why training ended.
    n_iter_ : int
        The number of epochs done, rounded up.
    traffic_ : dict
        Numbers of the talk with the workers: ``trips`` (messages to all parts), ``bytes_sent`` and ``bytes_received``
        by the driver, and ``lost``: parts that were made again because their workers died.

    See Also
    --------
    widemargin.SVC : The same on one machine.
    BudgetedSVC : For data of any length.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.dask import SVC
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> rows, labels = da.from_array(X, chunks=(30, 2)), da.from_array(y, chunks=30)
    >>> with Client(processes=False, dashboard_address=None):
    ...     model = SVC(gamma=1.0, max_iter=1, tol=0, random_state=0).fit(rows, labels)
    ...     right = float(model.score(rows, labels))
    >>> model.stop_reason_, right > 0.8
    ('max_iter', True)
    >>> model.predict(X[:3]).shape, model.decision_function(X[:3]).shape
    ((3,), (3,))
    >>> type(model.to_local())
    <class 'widemargin.estimators.kernel.SVC'>
    """

    local = local_kernel.SVC
    _seed = 0
    _local: Any

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        solver: Any = "auto",
        intercept: str = "auto",
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
        on_one_machine = solvers.solver_class("kernel", "sbp")
        known = isinstance(self.solver, (on_one_machine, *solvers.classes("kernel_parts")))
        if not known and self.solver not in solvers.names("kernel_parts"):
            raise ValueError(
                f"solver must be 'auto', 'sbp' or a configured {on_one_machine.__name__} on a cluster, got "
                f"{self.solver!r}"
            )
        if isinstance(self.kernel, str) and class_of(self.kernel).is_table:
            raise ValueError("a precomputed kernel has no rows that could be sent to other parts: give the data itself")
        self._machine()._check_parameters()

    def _solver(self) -> Any:
        given = {} if isinstance(self.solver, str) else self.solver.get_params()
        return solvers.make("kernel_parts", "sbp", **given)

    def _machine(self) -> Any:
        """The estimator of one machine, not fitted."""
        names = self.local().get_params(deep=False)
        same = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        fixed = {"solver": "sbp", "multi_class": "ovr", "checkpoint": None, "callbacks": None}
        return self.local(**{**same, **fixed})

    def _problem(self, examples: Examples) -> Any:
        return examples

    def _fit_parts(self, examples: Examples, started: float, X: Any, y: Any) -> None:  # type: ignore[override]
        self.classes_, of_class = examples.classes_for(self)
        machine, rows, rng = self._machine(), ClusterRows(examples), self._generator()
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if hasattr(self, name):
                setattr(machine, name, getattr(self, name))
        kernel, _ = machine._prepare(rows)
        weighted = self.class_weight is not None or any(each.weighted for each in examples.summaries)
        kind = partial(
            part_of, kernel=kernel, preparation=machine._preparation, dtype=examples.dtype, classes=self.classes_,
            of_class=of_class, weighted=weighted, lam=self._lam(examples.n), intercept=machine._intercept(),
        )  # fmt: skip
        sums = sum(examples.client.gather(examples.mapped(partial(masses, kind=kind))))
        problem = KernelPartsProblem(
            Cluster(examples.client, examples.parts, kind), np.array([each.n for each in examples.summaries]), kernel,
            losses.Single(losses.Hinge()), self._lam(examples.n), machine._intercept(), sums,
        )  # fmt: skip
        solver = self._solver()
        try:
            outcome = self._run(solver, problem, Turn(started), Shown(X, y, None, machine._finished), rng=rng)
            certificate = solver.certificate(problem, outcome.state) if kernel.is_definite else None
        finally:
            if problem.place.made is not None:
                problem.place.made.close()
        made = problem.place.made
        self.traffic_ = {name: getattr(made, name) for name in ("trips", "bytes_sent", "bytes_received", "lost")}
        self.certificate_ = certificate
        self._adopt(machine, rows, outcome.model, outcome.state)
        self._warn_if_unfinished(outcome)

    def _adopt(self, machine: Any, rows: ClusterRows, model: KernelModel, state: Any) -> None:
        """Have the estimator of one machine fitted, support vectors by class, and take over what it has learnt."""
        slots = {each: place for place, each in enumerate(state.ids.tolist())}
        signs = state.signs[:, [slots[each] for each in model.support.tolist()]]
        codes = (signs[0] > 0.0).astype(np.intp) if len(signs) == 1 else signs.argmax(axis=0)
        order = np.argsort(codes, kind="stable")
        support, coef, codes = model.support[order], model.coef[:, order], codes[order]
        own = rows.local(support)
        whole = KernelProblem(
            model.kernel, None, codes, losses.Single(losses.Hinge()), 1.0, intercept=machine._intercept()
        )
        task = Task(own, codes, whole, 0.0, math.inf, state.rng, False)
        machine._adopt(task, codes, np.arange(support.size), coef, model.intercept)
        machine.n_support_ = np.bincount(codes, minlength=self.classes_.size).astype(np.int32)
        machine.support_, machine._model = support, replace(machine._model, support=support)
        machine.shape_fit_, machine._only_predicts = rows.shape, "was trained on a cluster"
        for name in ("history_", "certificate_", "stop_reason_", "n_iter_"):
            setattr(machine, name, copy.copy(getattr(self, name)))
        for name in LEARNT:
            setattr(self, name, getattr(machine, name))
        self._local = machine

    def to_local(self) -> Any:
        """Return the estimator of one machine with what was learnt.

        It predicts, is saved and exported without a cluster.

        Returns
        -------
        estimator
            The estimator of :mod:`widemargin` with the same name.
        """
        check_is_fitted(self, "_local")
        return copy.copy(self._local)

    @property
    def gamma_(self) -> float:
        """The γ in use, which ``gamma="scale"`` takes from all rows."""
        return self.to_local().gamma_
