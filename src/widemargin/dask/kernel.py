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
from sklearn.exceptions import ConvergenceWarning

from .. import solvers
from ..core.kernels.kernels import class_of
from ..core.losses import losses
from ..estimators import kernel as local_kernel
from ..estimators.fit.fitting import Shown, now
from ..estimators.fit.jobs import Binaries
from ..estimators.fit.parameters import documented
from ..estimators.fit.proof import Exact
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from ..problems.parts import KernelPartsProblem, masses_of
from ..stopping import certified, without_proof
from ..warning import warn
from .examples import Examples
from .fitting import Cluster, ClusterClassifier, OnCluster
from .rows import ClusterRows

#: Kernel values in float64 that the workers compute per second, at least. A certificate that would take longer than the
#: time that is left is not computed.
COMPUTED_A_SECOND = 2e7
HINGE = losses.Single(losses.Hinge())
#: The attributes that are set on the estimator of the cluster and on that of one machine.
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
    return KernelProblem(kernel, rows, signs, HINGE, lam, weights if weighted else np.empty(0), intercept)


def masses(examples: tuple, kind: Any) -> np.ndarray:
    """The sums of the weights of positive and of negative examples, for each binary problem of a part."""
    X, y, s = examples
    unread = replace(kind.keywords["preparation"], centre=None, as_csr=False, as_float32=False)
    problem = kind((np.zeros((X.shape[0], 1)), y, s), preparation=unread)
    return masses_of(problem)


def lost(examples: tuple, kind: Any, model: KernelModel, largest: float) -> float:
    """An upper bound of Σ sᵢ × hinge over a part's examples and all binary problems, from scores in float64."""
    problem, everything = kind(examples), np.arange(examples[0].shape[0])
    exact = Exact(kind.keywords["preparation"], model.kernel, examples[0], everything, largest)
    scores, error = exact.scores(model, everything)
    parts = [problem.binary_part(q)[1:] for q in range(problem.n_outputs)]
    sums = [s @ np.maximum(0.0, 1.0 - y * scores[:, q] + error[:, q]) for q, (y, s) in enumerate(parts)]
    return (1.0 + problem.n * float(np.finfo(np.float64).eps)) * float(sum(sums))


@documented
class SVC(ClusterClassifier, OnCluster):
    """Kernel support vector classification on a Dask cluster, by the Stochastic Batch Perceptron.

    It solves the slack-constrained form of :class:`widemargin.StochasticBatchPerceptron` over all rows of a Dask
    collection, at a given ν or at one that a sample gives for ``C``. What is learnt depends on the data and its
    chunks, never on the workers: how many there are, who is faster, and who dies on the way.

    Parameters
    ----------
    {C}
    {kernel:callable}
    {gamma}
        The variance is that of all rows.
    {degree}
    {coef0}
    solver : {"auto", "sbp"} or StochasticBatchPerceptron, default="auto"
        The method that trains, of which there is one. ``StochasticBatchPerceptron(nu=…)`` solves the slack-constrained
        form at that ν, as on one machine; without ν it is found from a sample of at most 4,000 rows, and the multiple
        of w is the best for C. There is no SMO after it.
    intercept : {"auto", "unregularized", "regularized", "none"}, default="auto"
        What is done about the intercept. "unregularized" leaves it free, "regularized" adds 1 to the kernel, "none"
        leaves it out. "auto" is "unregularized".
    {class_weight}
    {lam}
    tol : float, default=1e-3
        The relative change of the objective, while the number of draws doubled, at which training stops.
    max_iter : int, default=1000
        The largest number of epochs, each of as many draws as there are rows.
    {max_seconds}
    {random_state:fixed}
    {client}
    {checkpoint:parts}
        It holds 16 bytes for each row and class.
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    support_ : ndarray of shape (n_vectors,)
        The indices of the support vectors among all rows.
    {support_vectors_}
    {n_support_}
    {dual_coef_:classes}
    {intercept_:classes}
    {classes_}
    {gamma_}
    history_ : History
        One row per checkpoint.
    certificate_ : Certificate or None
        The primal and the dual value of the sum of all binary problems at ``C``, for the exact kernel: valid, but
        loose, because the ν-form does not aim at a small gap. None for kernels that are not known to be positive
        semi-definite, and if time was too short, which a warning says.
    {stop_reason_}
    {n_iter_}
    {traffic_}

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
        if class_of(self.kernel).is_table:
            raise ValueError("a precomputed kernel has no rows that could be sent to other parts: give the data itself")
        self._machine()._check_parameters()

    def _solver(self) -> Any:
        given = {} if isinstance(self.solver, str) else self.solver.get_params()
        return solvers.make("kernel_parts", "sbp", **given)

    def _machine(self) -> Any:
        """The estimator on one machine, before it is fitted."""
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
            HINGE, self._lam(examples.n), machine._intercept(), sums,
        )  # fmt: skip
        outcome = self._trained(self._solver(), problem, started, Shown(X, y, None, machine._finished), rng)
        self.certificate_ = self._proven(problem, rows, machine, kind, outcome, started)
        if self.certificate_ is not None:
            self.stop_reason_ = certified(self.stop_reason_, self.certificate_.relative_gap, self.tol, tight=False)
        self._adopt(machine, rows, outcome.model, outcome.state)
        self._warn_if_unfinished(replace(outcome, stop_reason=self.stop_reason_))

    def _proven(
        self, problem: KernelPartsProblem, rows: ClusterRows, machine: Any, kind: Any, outcome: Any, started: float
    ) -> Certificate | None:  # fmt: skip
        """The certificate of the model for the kernel that was asked for, from scores of all examples in float64, which
        the workers compute; None for kernels that are not known to be definite, and where time is too short.
        """
        model, state, m, n = outcome.model, outcome.state, outcome.model.support.size, problem.n
        if not model.kernel.is_definite:
            return None
        left = math.inf if self.max_seconds is None else started + self.max_seconds - now()
        left = 0.0 if self.stop_reason_ == "interrupted" else left
        if m * n > COMPUTED_A_SECOND * max(left, 0.2):
            warn(without_proof(type(machine).__name__, self.stop_reason_ == "interrupted"), ConvergenceWarning)
            return None
        slots = state.places(model.support)
        everything, nothing = np.arange(m), Certificate(0.0, 0.0, 0.0)
        here = Exact(machine._preparation, model.kernel, rows.local(model.support), everything, machine._largest)
        model = replace(model, support=everything, vectors=here.vectors(everything))
        primal = sum(rows.examples.asked(partial(lost, kind=kind, model=model, largest=machine._largest))) / n
        if m == 0:
            return Certificate(primal, 0.0, primal)
        # the support vectors alone have the norm and the dual value of all, at the same C, and losses of their own
        few = [
            KernelProblem(
                model.kernel, None, state.signs[q, slots], problem.target, 1.0 / (problem.C * m),
                state.weights[q, slots], problem.intercept,
            )
            for q in range(problem.n_outputs)
        ]  # fmt: skip
        bare = [replace(each, sample_weight=np.zeros(m)) for each in few]
        primal += here.certificate(bare, model, nothing, 0.0, None).primal * m / n  # type: ignore[union-attr]
        dual = here.certificate(few, model, nothing, 0.0, None).dual * m / n  # type: ignore[union-attr]
        return Certificate(primal, dual, primal - dual)

    def _adopt(self, machine: Any, rows: ClusterRows, model: KernelModel, state: Any) -> None:
        """Have the estimator of one machine fitted, support vectors by class, and take over what it has learnt."""
        signs = state.signs[:, state.places(model.support)]
        codes = (signs[0] > 0.0).astype(np.intp) if len(signs) == 1 else signs.argmax(axis=0)
        order = np.argsort(codes, kind="stable")
        support, coef, codes = model.support[order], model.coef[:, order], codes[order]
        own = rows.local(support)
        whole = KernelProblem(model.kernel, None, codes, HINGE, 1.0, intercept=machine._intercept())
        machine._adopt(own, whole, codes, np.arange(support.size), coef, model.intercept, [])
        machine.n_support_ = np.bincount(codes, minlength=self.classes_.size).astype(np.int32)
        machine.support_, machine._model = support, replace(machine._model, support=support)
        machine.shape_fit_, machine._only_predicts = rows.shape, "was trained on a cluster"
        for name in ("history_", "certificate_", "stop_reason_", "n_iter_"):
            setattr(machine, name, copy.copy(getattr(self, name)))
        for name in LEARNT:
            setattr(self, name, getattr(machine, name))
        self._local = machine

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_local")

    @property
    def gamma_(self) -> float:
        """The γ in use, which ``gamma="scale"`` takes from all rows."""
        return self.to_local().gamma_
