"""Kernel machines with a fixed number of support vectors, for data that never ends."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..arguments import not_negative, one_of, positive, whole
from ..backends.tensors import as_given
from ..core.kernels.expansion import is_sparse
from ..core.losses import losses
from ..core.rows.rows import CSRRows, DenseRows, as_matrix, as_rows, dtype_of, shape, take_rows
from ..core.threads.interrupts import heeded
from ..files import savable
from ..history import History
from ..models import KernelModel, PairsModel
from ..problems.kernel import KernelProblem
from ..problems.layout import Preparation, divided, finite_scores, new_rows
from ..problems.precision import exact_scores, keeps_promise, sample, settled
from ..schemas import Pair, Text, Within
from ..solvers.budget import MAINTENANCES, STEPS, Policy
from ..solvers.budget.reduce import holding, reduced
from ..solvers.budget.sgd import BudgetedState, scores
from .fit.fitting import Shown, Turn, all_or_nothing, with_callbacks
from .fit.labels import class_weights, weighted
from .fit.multiclass import target_of, targets_of
from .fit.parameters import documented
from .fit.saving import learnt
from .fit.streaming import KernelStream, StreamedClassifier, StreamedRegressor

BLOCK = 2**12  # rows that are brought to a model's layout, dense or sparse, at a time
SLICE = 2**14  # steps of partial_fit between looks at Ctrl-C: some hundredths of a second
MERGING_BYTES = 2**32  # bytes that the vectors to be merged in compress may take
NOTHING = np.zeros(1)  # what a machine loses that has few enough vectors
#: Parameters that are policies, with the policies by name, to which users may add their own.
NAMED: dict[str, Mapping[str, Any]] = {
    "step": {name: rule() for name, rule in STEPS.items()},
    "maintenance": MAINTENANCES,
}


def in_layout(X: Any, sparse: bool) -> Any:
    """The rows as a sparse matrix, or as a dense one."""
    if sp.issparse(X) == sparse:
        return X
    return sp.csr_matrix(X) if sparse else X.toarray()


class _Budgeted(KernelStream):
    """What the classifier and the regressor share."""

    tol = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        whole("budget", self.budget)
        positive("lam", self.lam)
        whole("batch_size", self.batch_size)
        if self.max_bytes is not None:
            positive("max_bytes", self.max_bytes)
        for name, classes, example in (
            ("step", tuple(STEPS.values()), "a rule such as NormaStep()"),
            ("maintenance", Policy, "a policy such as Merge()"),
        ):
            given, known = getattr(self, name), NAMED[name]
            if isinstance(given, str):
                one_of(name, given, known)
            elif not isinstance(given, classes):
                raise TypeError(f"{name} must be one of {', '.join(map(repr, known))} or {example}, got {given!r}")
        self._check_kernel()

    def _meant(self, part: str, value: Any) -> Any:
        return NAMED[part].get(value, value) if part in NAMED and isinstance(value, str) else value

    def _policy(self, name: str) -> Any:
        return self._meant(name, getattr(self, name))

    def _solver(self, problem: KernelProblem, state: BudgetedState | None = None) -> Any:
        """The solver for a new state, or for a state that has its buffers already."""
        step, maintenance = self._policy("step"), self._policy("maintenance")
        solver = solvers.solver_class("budgeted", "sgd")(
            int(self.budget), step, maintenance, batch_size=int(self.batch_size)
        )
        if state is not None and state.support > solver.budget:
            raise ValueError(
                f"the model has {state.support} vectors and budget is {solver.budget}: a running model does not "
                f"shrink; set budget to {state.support} or more, or fit anew"
            )
        if self.max_bytes is None:
            return solver
        if state is not None:
            held = state.held_bytes
            if held > self.max_bytes:
                raise ValueError(
                    f"the running model would hold {held} bytes for {problem.n_outputs} outputs, max_bytes is "
                    f"{self.max_bytes:g}: set it to {held} or more, or start anew with all classes at the first call"
                )
            return replace(solver, budget=min(solver.budget, state.budget.A.shape[1] - 1), max_bytes=self.max_bytes)
        itemsize, sparse = solver.dtype(problem).itemsize, isinstance(problem.X, CSRRows)
        return solver.within(float(self.max_bytes), shape(problem.X)[1], problem.n_outputs, itemsize, sparse)

    def _problem(self, X: Any, y: np.ndarray, target: Any, weights: np.ndarray, outputs: int) -> KernelProblem:
        X = self._as_first(X)
        kernel = self._kernel(X)
        rows = as_rows(new_rows(kernel, X, self._exponent))
        return KernelProblem(kernel, rows, y, target, float(self.lam), weights, "none", outputs=outputs)

    def _as_first(self, X: Any) -> Any:
        """Rows in the layout of the first rows, dense or sparse."""
        state = getattr(self, "_state", None)
        return X if state is None else in_layout(X, is_sparse(state.budget.vectors))

    def _rows_for(self, model: KernelModel, X: Any) -> Any:
        X = in_layout(super()._rows_for(model, X), isinstance(model.vectors, CSRRows))
        return as_rows(new_rows(model.kernel, X, self._exponent))

    def _fit_problem(self, problem: KernelProblem, started: float, X: Any, y: Any) -> None:
        solver = self._solver(problem)
        rng, shown = self._generator(), Shown(X, y, self._partly)
        outcome = self._run(solver, problem, Turn(started), shown, rng=rng)
        last = outcome.history.last
        self._state, self.certificate_ = outcome.state, None  # the model is in the primal: no dual point comes with it
        self._adopt_part(solver, problem, outcome.state, last("epochs"), last("seconds"))

    # -- streams

    def _begin_part(self, problem: KernelProblem) -> tuple[Any, BudgetedState]:
        state = getattr(self, "_state", None)
        solver = replace(self._solver(problem, state), sampling="fixed")
        if state is None:
            state = solver.init(problem, self._generator())
        elif self._kind != (kind := self._kind_of(solver)):
            raise ValueError(
                f"a running model keeps its step and maintenance, {' and '.join(self._kind)}, got "
                f"{' and '.join(kind)}: set them back, or fit anew"
            )
        elif state.budget.A.dtype == np.float32 and solver.is_beyond(problem):
            return solver, replace(copy.deepcopy(state), rng=state.rng)  # the part may be refused when it is learnt
        return solver, replace(state)

    def _has_way_back(self, state: BudgetedState) -> bool:
        last = getattr(self, "_state", None)
        return last is None or last.values is not state.values

    def _slices(self, solver: Any, problem: KernelProblem) -> list[tuple[Any, int]]:
        steps = solver.steps_per_epoch(problem)
        return [(solver, min(steps - first, SLICE)) for first in range(0, steps, SLICE)]

    @staticmethod
    def _kind_of(solver: Any) -> tuple[str, str]:
        """The names of the step rule and of the policy, which a state keeps.

        A step rule with a radius follows ‖W‖ from the first step on, so that it is another kind.
        """
        bounded = " with a radius" if math.isfinite(getattr(solver.step, "radius", math.inf)) else ""
        return type(solver.step).__name__ + bounded, type(solver.maintenance).__name__

    def _adopt_part(
        self, solver: Any, problem: KernelProblem, state: BudgetedState, passes: float, seconds: float
    ) -> None:  # fmt: skip
        if not np.isfinite(state.coefficients).all():
            raise ValueError(
                f"coefficients overflowed {state.budget.A.dtype}: scale the data or sample_weight, or raise lam"
            )
        self._kind, self._passes, self._seconds = self._kind_of(solver), passes, seconds
        state.drop_workspace()

    def _partly(self, model: KernelModel) -> dict[str, Any]:
        return {"_model_at_checkpoint": model}

    # -- what is learnt

    @property
    def support_vectors_(self) -> Any:
        """The vectors of the model, as rows. Merged vectors are no rows of the data."""
        check_is_fitted(self, "_state")
        return divided(as_matrix(self._state.vectors()), -self._exponent)

    @property
    def dual_coef_(self) -> np.ndarray:
        """The coefficients of the vectors, of shape (n_outputs, n_vectors)."""
        check_is_fitted(self, "_state")
        return self._state.coefficients

    @property
    def model_bytes_(self) -> int:
        """The bytes that vectors and coefficients take."""
        check_is_fitted(self, "_state")
        return self._state.model_bytes

    @property
    def n_samples_seen_(self) -> int:
        """The number of examples visited so far."""
        check_is_fitted(self, "_state")
        return int(self._state.tally.visits)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        state, kernel = self._state, self._trained_kernel
        X, on_device = self._to_score(X, kernel)
        if on_device:
            return self._scored_there(self._as_model(), X, Preparation(None, False, False, self._exponent))
        as_trained = sp.issparse(X) == is_sparse(state.budget.vectors)

        def score(rows: Any) -> np.ndarray:
            by_buffer = partial(scores, kernel, state=state)
            one = by_buffer if self._float32_suffices(rows.dtype) else self._as_model().decision_function
            firsts = range(0, rows.shape[0], BLOCK)
            parts = [rows] if as_trained else (self._as_first(rows[first : first + BLOCK]) for first in firsts)
            return np.concatenate([one(as_rows(new_rows(kernel, part, self._exponent))) for part in parts])

        return finite_scores(score, X)

    def _as_model(self) -> KernelModel:
        """The model with its vectors as rows, in float64."""
        state = self._state
        places, bias = np.arange(state.support), np.zeros(1)
        return KernelModel(self._trained_kernel, places, state.vectors(), state.coefficients, bias)

    def _float32_suffices(self, dtype: np.dtype) -> bool:
        """Whether the buffer of vectors scores rows of a dtype as exactly as is promised; computed once for a state."""
        state, kernel = self._state, self._trained_kernel
        if state.budget.A.dtype == np.float64 or state.support == 0:
            return True
        answers: dict[np.dtype, bool] = state.work(kernel, dict)
        if dtype not in answers:
            some, model = take_rows(state.vectors(dtype), sample(state.support, len(state.budget.A))), self._as_model()
            expected = exact_scores(model, some, model.vectors)
            answers[dtype] = keeps_promise(scores(kernel, some, state).T, expected, dtype)
        return answers[dtype]

    # -- files

    def _to_parts(self) -> dict[str, Any]:
        parts = super()._to_parts()
        # the order of visits is about examples that are not in the file
        parts["fitted"]["_state"] = replace(self._state, order=np.empty(0, np.int64), position=0)
        return parts

    def _without_state(self) -> Any:
        small, state = super()._without_state(), self._state
        # predictions need the vectors of the state; the matrices of maintenance may be much larger
        none = np.empty((0, 0))
        small._state = replace(state, budget=state.budget._replace(K=none, inverse=none), rng=np.random.default_rng(0))
        return small

    @classmethod
    def _of_format_1(
        cls, header: dict[str, Any], state: Any, kernel: Any, classes: Any, counts: Any
    ) -> dict[str, Any]:  # fmt: skip
        """The attributes in a file of version 0.1."""
        fitted = {
            "_state": state, "_trained_kernel": kernel, "_kind": tuple(header["policies"]),
            "_exponent": header.get("exponent", 0), "_gamma": header.get("gamma", getattr(kernel, "gamma", 1.0)),
            "_passes": header["passes"], "_seconds": header["seconds"], "history_": History(header["history"]),
            "n_iter_": header["n_iter"], "stop_reason_": header["stop_reason"], "certificate_": None,
            "n_features_in_": header["n_features"],
        }  # fmt: skip
        if header["feature_names"]:
            fitted["feature_names_in_"] = np.array(header["feature_names"], dtype=object)
        if classes.size:
            fitted |= {"classes_": classes, "_counts": counts}
        return fitted


_FITTED = learnt(
    "_state", "_trained_kernel", "_exponent", "_gamma", goes_on_with=("_kind",), _state=Within(BudgetedState),
    _kind=Pair(Text(), Text()),
)  # fmt: skip


@savable(**_FITTED)
@documented
class BudgetedSVC(StreamedClassifier, _Budgeted):
    """Kernel classification with at most ``budget`` support vectors, for data of any length.

    It takes stochastic gradient steps on ::

        λ/2 ‖W‖² + 1/n Σᵢ sᵢ ℓ(W Φ(xᵢ), yᵢ)

    with the hinge for two classes and the joint hinge of Crammer and Singer for more. When an example
    would be one support vector too many, two are merged, one is projected, or one is removed. Memory
    and time per example are constant.

    Parameters
    ----------
    {budget}
    {kernel:rows}
    {gamma}
        The first call of ``fit`` or ``partial_fit`` settles the value.
    {degree}
    {coef0}
    {lam:number}
    step : {"pegasos", "norma", "implicit", "margin_perceptron", "passive_aggressive"} or a step rule, default="pegasos"
        The sizes of the steps. "pegasos" takes 1/(λt), "norma" 1/√t, "implicit" as much of that as an
        example needs, "margin_perceptron" steps of size 1 without regularisation, "passive_aggressive"
        the shortest step that corrects an example. Rules with parameters are in
        :mod:`widemargin.solvers.budget`, such as ``NormaStep(eta=0.5)``; searches set them as
        ``step__eta``.
    maintenance : str or a policy, default="merge"
        What is done when there is one vector too many. "merge" and "multi_merge" make one vector of two
        or more, for the kernel "rbf" only. "project" often loses less, and costs time and memory
        quadratic in the budget. "remove", "random" and "oldest" drop a vector; "stop" keeps the first
        ones. "projectron" and "forget" are for ``step="margin_perceptron"``, "nearest" for kernels of
        distances. Policies with parameters are in :mod:`widemargin.solvers.budget`; searches set them
        as ``maintenance__threshold``.
    {max_iter:passes}
    {max_bytes}
    {batch_size}
        Larger batches mean fewer steps, and faster ones where there are many features.
    {multi_class:budget}
    {class_weight}
        In ``partial_fit`` "balanced" uses the counts of the classes seen so far.
    {max_seconds}
    {device:predictions}
    {random_state}
    {checkpoint}
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    {support_vectors_:merged}
    {dual_coef_:classes}
    {classes_}
    {gamma_}
    {n_samples_seen_}
    {model_bytes_}
    {history_:budget}
    {certificate_:none}
    {stop_reason_:budget}
    {n_iter_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    BudgetedSVR : The same for regression.
    IncrementalSVC : Close to the exact SVM of a stream.
    compress : A trained SVC with fewer vectors.

    Notes
    -----
    There is no intercept.

    One call of ``partial_fit`` with many examples and many calls with one give the same model, if
    ``gamma`` is a number and ``batch_size`` is 1. With larger batches all calls before the last must
    hold whole batches. Weights of zero are allowed in ``partial_fit``, also zeros only.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import BudgetedSVC
    >>> X, y = make_moons(400, noise=0.1, random_state=0)
    >>> model = BudgetedSVC(budget=20, gamma=2.0, lam=1e-3, random_state=0).fit(X, y)
    >>> len(model.support_vectors_) <= 20
    True
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.partial_fit([[0.0, 0.0]], [2], classes=[0, 1, 2]).classes_.tolist()
    [0, 1, 2]
    """

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
        max_bytes: float | str | None = None,
        batch_size: int = 1,
        multi_class: str = "crammer_singer",
        class_weight: Mapping[Any, float] | str | None = None,
        max_seconds: float | None = None,
        device: str = "cpu",
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of("multi_class", self.multi_class, ("crammer_singer", "ovr"))

    def _problem_of_part(
        self, X: Any, codes: np.ndarray, weights: np.ndarray, class_weight: np.ndarray | None
    ) -> KernelProblem:  # fmt: skip
        """The problem of some examples, with the class weight of each; None for ones."""
        k = self.classes_.size
        target, outputs = target_of(k, "hinge", "ovr" if k == 2 else self.multi_class, np.ones(k))
        weights = weights if class_weight is None else weighted(class_weight, weights)
        return self._problem(X, targets_of(codes, outputs), target, weights, outputs)

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train anew on (X, y), in ``max_iter`` passes, each in an order of its own.

        Parameters
        ----------
        {X:examples}
        {y:labels}
        {sample_weight}

        Returns
        -------
        {self}

        Raises
        ------
        {ValueError}

        Examples
        --------
        >>> from widemargin import BudgetedSVC
        >>> BudgetedSVC(gamma=1.0, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).stop_reason_
        'max_iter'
        """
        started, X, y, weights = self._begin(X, y, sample_weight)
        self._start_anew()
        codes = self._encode(y)
        self._check_weights(codes, weights)
        self._counts = self._count(codes, weights)
        of_class = class_weights(self.class_weight, self.classes_, self._counts)
        of_example = None if self.class_weight is None else of_class[codes]
        self._fit_problem(self._problem_of_part(X, codes, weights, of_example), started, X, y)
        return self

    def _with_classes(self, places: np.ndarray, n_classes: int) -> None:
        share = 1.0 if self.multi_class == "ovr" else 0.5
        self._state = self._state.with_classes(places, n_classes, share, self._policy("maintenance"))


@savable(**_FITTED)
@documented
class BudgetedSVR(StreamedRegressor, _Budgeted):
    """Kernel regression with at most ``budget`` support vectors, for data of any length.

    It takes stochastic gradient steps on ::

        λ/2 ‖w‖² + 1/n Σᵢ sᵢ max(0, |⟨w, Φ(xᵢ)⟩ − yᵢ| − ε).

    There is no intercept: centre y, and scale it to unit size, which is the size of the steps.

    Parameters
    ----------
    {budget}
    {kernel:rows}
    {gamma}
        The first call of ``fit`` or ``partial_fit`` settles the value.
    {degree}
    {coef0}
    {lam:number}
    {epsilon}
    step : {"pegasos", "norma", "implicit", "margin_perceptron", "passive_aggressive"} or a step rule, default="norma"
        The sizes of the steps. "pegasos" takes 1/(λt), "norma" 1/√t, "implicit" as much of that as an
        example needs, "margin_perceptron" steps of size 1 without regularisation, "passive_aggressive"
        the shortest step that corrects an example. Rules with parameters are in
        :mod:`widemargin.solvers.budget`, such as ``NormaStep(eta=0.5)``; searches set them as
        ``step__eta``. The first steps of "pegasos", of size 1/λ, are too long for targets that have a
        size.
    maintenance : str or a policy, default="merge"
        What is done when there is one vector too many. "merge" and "multi_merge" make one vector of two
        or more, for the kernel "rbf" only. "project" often loses less, and costs time and memory
        quadratic in the budget. "remove", "random" and "oldest" drop a vector; "stop" keeps the first
        ones. "projectron" and "forget" are for ``step="margin_perceptron"``, "nearest" for kernels of
        distances. Policies with parameters are in :mod:`widemargin.solvers.budget`; searches set them
        as ``maintenance__threshold``.
    {max_iter:passes}
    {max_bytes}
    {batch_size}
        Larger batches mean fewer steps, and faster ones where there are many features.
    {max_seconds}
    {device:predictions}
    {random_state}
    {checkpoint}
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    {support_vectors_:merged}
    dual_coef_ : ndarray of shape (1, n_vectors)
        The coefficients of the support vectors.
    {gamma_}
    {n_samples_seen_}
    {model_bytes_}
    {history_:budget}
    {certificate_:none}
    {stop_reason_:budget}
    {n_iter_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    BudgetedSVC : The same for classification.
    SVR : The exact machine.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import BudgetedSVR
    >>> x = np.random.default_rng(0).uniform(-3, 3, size=(1000, 1))
    >>> model = BudgetedSVR(budget=20, gamma=1.0, epsilon=0.01, lam=1e-5, random_state=0)
    >>> model = model.fit(x, np.sin(x[:, 0]))
    >>> bool(np.abs(model.predict(x) - np.sin(x[:, 0])).mean() < 0.2)
    True
    """

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
        max_bytes: float | str | None = None,
        batch_size: int = 1,
        max_seconds: float | None = None,
        device: str = "cpu",
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        not_negative("epsilon", self.epsilon)

    def _problem_of_part(self, X: Any, y: np.ndarray, weights: np.ndarray) -> KernelProblem:
        return self._problem(X, y, losses.Single(losses.EpsilonInsensitive(float(self.epsilon))), weights, 1)

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train anew on (X, y), in ``max_iter`` passes, each in an order of its own.

        Parameters
        ----------
        {X:examples}
        {y:targets}
        {sample_weight}

        Returns
        -------
        {self}

        Raises
        ------
        {ValueError}

        Examples
        --------
        >>> from widemargin import BudgetedSVR
        >>> BudgetedSVR(gamma=1.0, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 0.1, 0.2, 0.3]).stop_reason_
        'max_iter'
        """
        started, rows, targets, weights = self._begin(X, y, sample_weight)
        self._start_anew()
        self._fit_problem(self._problem_of_part(rows, targets, weights), started, X, y)
        return self

    @as_given
    def predict(self, X: Any) -> Any:
        """Return the predicted targets.

        Parameters
        ----------
        {X:rows}

        Returns
        -------
        ndarray of shape (n,)
            The predicted targets.

        Examples
        --------
        >>> from widemargin import BudgetedSVR
        >>> BudgetedSVR(gamma=1.0, random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 0.5, 1.0]).predict([[0.5]]).shape
        (1,)
        """
        return self._scores(X)[:, 0]


def _ways(old: KernelModel, budget: int, maintenance: str | None) -> tuple[str, ...]:
    """The ways to make a model smaller: the one that was asked for, or all that can be used; refuses any other."""
    merges = old.kernel.is_gaussian and budget > 1
    if maintenance not in (None, "project") and not (maintenance == "merge" and merges):
        raise ValueError(
            f"compress takes maintenance='project', or 'merge' for kernel='rbf' and budget ≥ 2, got {maintenance!r} "
            f"for {type(old.kernel).__name__} and budget {budget}"
        )
    n = shape(old.vectors)[0]
    features = shape(old.vectors)[1] if isinstance(old.vectors, DenseRows) else np.unique(old.vectors.indices).size
    needed = 16 * n * features if n > budget else 0
    if maintenance == "merge" and needed > MERGING_BYTES:
        raise MemoryError(
            f"merging {n} vectors with {features} features takes {needed / 2**30:.1f} GiB: use maintenance='project'"
        )
    both = ("merge", "project") if merges and needed <= MERGING_BYTES else ("project",)
    return both if maintenance is None else (maintenance,)


def _degraded(model: Any, lost: np.ndarray, norm2: np.ndarray) -> Any:
    """A copy of a machine, with what it is about to lose: ‖w − w′‖² of each output, and ‖w‖²."""
    small = copy.copy(model)
    small.degradation_ = float(np.sqrt(lost.sum()))
    small.relative_degradation_ = float(np.sqrt(lost.sum() / norm2.sum())) if norm2.any() else 0.0
    return small


@heeded()
def _average(models: list[Any], budget: int, maintenance: str | None = None) -> Any:
    """The mean of budgeted machines with one kernel and the same classes, with at most ``budget`` vectors."""
    first = models[0]
    kernel, states = first._trained_kernel, [model._state for model in models]
    sparse = is_sparse(states[0].budget.vectors)
    stack = sp.vstack if sparse else np.concatenate
    rows = as_rows(stack([in_layout(as_matrix(state.vectors()), sparse) for state in states]))
    coefficients = np.hstack([state.coefficients for state in states]) / len(models)
    whole_model = KernelModel(kernel, np.arange(shape(rows)[0]), rows, coefficients, np.zeros(len(coefficients)))
    lost, norm2, ways = NOTHING, NOTHING, _ways(whole_model, budget, maintenance)
    if shape(rows)[0] > budget:
        rows, coefficients, lost, norm2 = reduced(kernel, rows, coefficients, budget, ways)
    small = _degraded(first, lost, norm2)
    small._state = holding(kernel, as_rows(as_matrix(rows)), coefficients)
    visits = sum(int(state.tally.visits) for state in states)
    small._state.tally.visits = small._state.counters.visits = visits
    small.budget, small.certificate_, small._only_predicts = budget, None, "was compressed"
    return small


def average(models: list[Any], budget: int | None = None) -> Any:
    """The mean of budgeted machines, made as small as one of them.

    Parameters
    ----------
    models : list of fitted BudgetedSVC or BudgetedSVR
        Estimators with the same γ, features and classes, each trained on other examples.
    budget : int, optional
        Largest number of vectors; by default that of the first estimator.

    Returns
    -------
    estimator
        Of the same class, to predict with; as of :func:`compress`, it has ``degradation_``.
    """
    first = models[0]
    for model in models:
        check_is_fitted(model)
        same = model._trained_kernel == first._trained_kernel and model._exponent == first._exponent
        if not same or not np.array_equal(getattr(model, "classes_", 0), getattr(first, "classes_", 0)):
            raise ValueError(
                "average takes machines with one kernel and the same classes, got others: fit them with a number as "
                "gamma, and announce all labels with classes= at the first call of partial_fit"
            )
    return _average(models, whole("budget", first.budget if budget is None else budget))


@heeded()
@documented
def compress(model: Any, budget: int, maintenance: str | None = None) -> Any:
    """Return a copy of a trained kernel machine with at most ``budget`` support vectors.

    Vectors are merged two by two, the smallest first, or taken one by one, each the one that leaves
    least of the old model. Then the old model is projected onto their span, which is the best that can
    be done with them. Use it to make predictions fast and models small.

    Parameters
    ----------
    model : fitted estimator
        An SVC, SVR, BudgetedSVC, BudgetedSVR or IncrementalSVC. Its kernel must be one of vectors,
        neither precomputed nor a callable.
    {budget}
    maintenance : {"merge", "project"} or None, default=None
        "merge" makes new vectors, for the kernel "rbf" only, and holds all of them in memory. "project"
        takes old ones. None tries both where it can, and keeps what loses less.

    Returns
    -------
    estimator
        An estimator of the same class, which predicts and does not go on training. ``support_``,
        ``n_support_`` and ``certificate_`` are gone. ``degradation_`` is ‖w − w′‖, which bounds the
        error of every score where k(x, x) = 1, and ``relative_degradation_`` is its share of ‖w‖.

    See Also
    --------
    BudgetedSVC : Training within a budget.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, compress
    >>> X, y = make_moons(80, noise=0.2, random_state=0)
    >>> full = SVC(C=10.0, gamma=1.0).fit(X, y)
    >>> small = compress(full, 10)
    >>> small.support_vectors_.shape
    (10, 2)
    >>> bool(small.relative_degradation_ < 0.5)
    True
    """
    check_is_fitted(model)
    budget = whole("budget", budget)
    if isinstance(model, _Budgeted):
        return _average([model], budget, maintenance)
    old = getattr(model, "_model", None)
    old = old.whole() if isinstance(old, PairsModel) else old
    if not isinstance(old, KernelModel) or not isinstance(old.vectors, (DenseRows, CSRRows)):
        raise TypeError(
            f"compress takes a kernel machine with support vectors, such as SVC with kernel='rbf', "
            f"or the last step of a pipeline, got {model!r}"
        )
    ways = _ways(old, budget, maintenance)
    if shape(old.vectors)[0] > budget:
        return _compressed(model, old, budget, ways)
    return _degraded(model, NOTHING, NOTHING)


def _compressed(model: Any, old: KernelModel, budget: int, ways: tuple[str, ...]) -> Any:
    """A copy of an exact kernel machine with the vectors that :func:`reduced` finds, to predict with."""
    kept, coefficients, lost, norm2 = reduced(old.kernel, old.vectors, old.coef, budget, ways)
    small = _degraded(model, lost, norm2)
    kept = as_matrix(kept).astype(dtype_of(old.vectors))
    rows = as_rows(kept)
    # a regularised intercept, kernel + 1, is the sum of the old coefficients
    intercept = old.intercept + old.constant * old.coef.sum(axis=1)
    small._model = KernelModel(old.kernel, np.arange(kept.shape[0]), rows, coefficients, intercept)
    small._model, small._preparation = settled(small._model, model._preparation)
    centre, exponent = model._preparation.centre, model._preparation.exponent
    small.support_vectors_ = divided(as_matrix(rows) if centre is None else kept + centre, -exponent)
    small.dual_coef_, small.intercept_ = coefficients, intercept
    if centre is not None and old.kernel.is_linear:  # the rows of the model are the user's less the centre
        small.intercept_ = intercept - coefficients @ (kept @ centre)
    for name in ("_state", "_archive", "support_", "n_support_", "certificate_"):
        if hasattr(small, name):
            delattr(small, name)
    return small
