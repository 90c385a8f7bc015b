"""Kernel machines that follow the optimum of the examples seen so far, take examples back, and forget old ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..arguments import not_negative, one_of, positive
from ..core.kernels.kernels import class_of
from ..core.kernels.matrix import largest_value
from ..core.kernels.panels import way_of
from ..core.losses import losses
from ..core.rows.rows import CSRRows, DenseRows, as_matrix, dtype_of, shape, take_rows
from ..core.threads.interrupts import told, unless_told
from ..files import savable
from ..history import History
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.layout import Preparation, divided, finite_scores
from ..problems.objective import Certificate
from ..problems.precision import settled
from ..running import run
from ..schemas import ANYTHING, Array, Own, Row, Whole, Within
from ..solvers.tracking.state import TrackerState
from ..stopping import certified, short_of_tol, without_proof
from ..warning import warn
from .fit.checking import check_solver
from .fit.fitting import Shown, Turn, all_or_nothing, now, with_callbacks
from .fit.labels import class_weights, weighted
from .fit.multiclass import targets_of
from .fit.parameters import documented
from .fit.proof import Exact
from .fit.saving import learnt
from .fit.streaming import KernelStream, StreamedClassifier

SLICE = 256  # examples of partial_fit between looks at Ctrl-C
#: Rows that are no longer needed are given up when all rows are IDLE times the needed ones and IDLE_ROWS more.
IDLE, IDLE_ROWS = 2, 256
ROUGHER = 10.0  # finish solves the problem of the vectors to so many times its tolerance before it takes the others
MOST_TURNS = 20  # how often a repair lets examples join the vectors
ROUNDING = 1e-7  # a normalised gap below this is rounding, which no repair closes
HINGE = losses.Single(losses.Hinge())


class Solved(NamedTuple):
    """A binary problem solved: dual variables, responses, why SMO ended and after how many seconds."""

    beta: np.ndarray
    f: np.ndarray
    stop_reason: str
    seconds: float


class Look(NamedTuple):
    """A model's normalised gap (P − D)/ΣC, the share of each example in P − D, its dual variables and responses."""

    gap: float
    lacks: np.ndarray
    beta: np.ndarray
    f: np.ndarray


class Made:
    """An attribute that is computed from the state when it is asked for, and kept in ``_made``. It can be set."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make, self.__doc__, self.name = make, make.__doc__, make.__name__

    def __get__(self, owner: Any, cls: type) -> Any:
        if owner is None:
            return self
        held = vars(owner).get("_made", {})
        if self.name not in held:
            if "_state" not in vars(owner):
                raise AttributeError(
                    f"{cls.__name__} has {self.name} after fit or partial_fit, if not compressed: call one of them"
                )
            held[self.name] = self.make(owner)
        return held[self.name]

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__["_made"] = {**vars(owner).get("_made", {}), self.name: value}

    def __delete__(self, owner: Any) -> None:
        held = owner.__dict__["_made"]
        owner.__dict__["_made"] = {name: value for name, value in held.items() if name != self.name}


@dataclass(frozen=True, eq=False)
class Growing(KernelProblem):
    """The problem of the examples so far. C does not depend on the number of examples, to the bit."""

    cost: float = 1.0

    @property
    def C(self) -> float:  # type: ignore[override]
        """The parameter C as the user gave it."""
        return self.cost


def _check_repair(repair: Any) -> None:
    """Refuse a ``repair`` that is neither "auto" nor a gap ≥ 0."""
    if isinstance(repair, (bool, type(None))) or (isinstance(repair, str) and repair != "auto"):
        raise ValueError(f"repair must be 'auto' or a gap ≥ 0, got {repair!r}")
    if not isinstance(repair, str):
        not_negative("repair", repair)


def appended(old: np.ndarray, n: int, new: np.ndarray) -> np.ndarray:
    """An array with the first n entries of ``old``, followed by ``new``.

    It is the old array, changed in place, if that has room behind its first n entries.
    """
    total = n + new.shape[0]
    if total > old.shape[0]:
        larger = np.empty((max(total, old.shape[0] + old.shape[0] // 2), *old.shape[1:]), old.dtype)
        larger[:n] = old[:n]
        old = larger
    old[n:total] = new
    return old


@savable(
    "IncrementalSVC.Archive", n=Whole(0, size="n"), rows=Own(DenseRows, CSRRows, n="n", d="d"),
    codes=Array("n", dtype=np.int64, low=0, high="classes-1"), weights=Array("n", low=0.0),
    numbers=Array("n", dtype=np.int64, low=0, distinct=True), y=Array("n", "outputs", low=-1.0, high=1.0),
)  # fmt: skip
@dataclass(frozen=True)
class Archive:
    """The remembered examples, in the order in which they were seen; the arrays have room behind the first n.

    ``codes`` are the places of labels among the classes, ``weights`` the factors of C, ``numbers`` the places in the
    order of arrival, ``y`` the signs, of shape (n, outputs).
    """

    rows: Any
    codes: np.ndarray
    weights: np.ndarray
    numbers: np.ndarray
    y: np.ndarray
    n: int

    @classmethod
    def of(cls, rows: Any, outputs: int) -> Archive:
        """An empty archive for rows like these."""
        rows = take_rows(rows, np.empty(0, np.int64))
        return cls(rows, np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), np.empty((0, outputs)), 0)

    def _columns(self) -> dict[str, np.ndarray]:
        """The first n entries of the arrays beside the rows, by name."""
        return {name: getattr(self, name)[: self.n] for name in ("codes", "weights", "numbers", "y")}

    def _to_parts(self) -> dict[str, Any]:
        return {"rows": self.X, **self._columns(), "n": self.n}

    @property
    def X(self) -> Any:
        """The rows."""
        rows, n = self.rows, self.n
        if isinstance(rows, DenseRows):
            return DenseRows(rows.values[:n])
        entries = int(rows.indptr[n])
        return CSRRows(rows.data[:entries], rows.indices[:entries], rows.indptr[: n + 1], rows.n_features)

    def extended(self, rows: Any, **columns: np.ndarray) -> Archive:
        """The archive with more examples behind these."""
        n, own = self.n, self.rows
        new: Any
        if isinstance(own, DenseRows):
            new = DenseRows(appended(own.values, n, rows.values))
        else:
            entries = int(own.indptr[n])
            ends = rows.indptr[1:].astype(np.int64) - int(rows.indptr[0]) + entries
            indptr = own.indptr if ends.max(initial=0) < 2**31 else own.indptr.astype(np.int64)
            new = CSRRows(
                appended(own.data, entries, rows.data), appended(own.indices, entries, rows.indices),
                appended(indptr, n + 1, ends), own.n_features,
            )  # fmt: skip
        longer: Any = {name: appended(getattr(self, name), n, values) for name, values in columns.items()}
        return Archive(rows=new, n=n + shape(rows)[0], **longer)

    def taken(self, kept: np.ndarray) -> Archive:
        """A copy with some of the examples."""
        some: Any = {name: values[kept] for name, values in self._columns().items()}
        return Archive(rows=take_rows(self.X, kept), n=kept.size, **some)


_MODEL = Own(KernelModel, d="d")


@savable(
    **learnt(
        "classes_", "_preparation", "_trained_kernel", "_gamma", goes_on_with=("_kind",),
        _archive=Within(Archive), _state=Within(TrackerState),
        _preparation=Own(Preparation, d="d"), _made=Row({"_model": _MODEL}, rest=ANYTHING, needs=()),
        _model=_MODEL,
        _kind=Row({}, rest=ANYTHING, needs=("C", "intercept", "algorithm", "memory", "window", "budget")),
    )
)  # fmt: skip
@documented
class IncrementalSVC(StreamedClassifier, KernelStream):
    """Kernel classification that follows the SVM of all examples so far, one example at a time.

    After each example it is close to the minimum of ::

        ½ ‖w‖² + C Σᵢ sᵢ max(0, 1 − yᵢ (⟨w, Φ(xᵢ)⟩ + b))

    over the examples seen, which is the problem of :class:`SVC`. :meth:`duality_gap` says how close,
    :meth:`finish` goes to the minimum, :meth:`unlearn` takes examples back. More than two classes are
    each trained against the rest. Use it for streams of up to some ten thousand remembered examples,
    and for streams that drift.

    Parameters
    ----------
    {C}
    {kernel:rows}
    {gamma}
        The first call of ``fit`` or ``partial_fit`` settles the value.
    {degree}
    {coef0}
    solver : "auto" or Tracker, default="auto"
        The method that learns an example. "auto" is ``Tracker()``; ``Tracker(reprocess=3)`` sets its
        options.
    {intercept:kernel}
    memory : {"all", "support"}, default="all"
        Which examples are remembered: all, or the support vectors and those that may become some soon.
        ``finish``, ``unlearn`` and ``duality_gap`` speak of the examples that are remembered.
    window : int or None, default=None
        The number of examples that are remembered. Older ones are forgotten, which suits streams that
        drift.
    budget : int or None, default=None
        The largest number of support vectors. The oldest one is forgotten first, and other examples are
        not remembered, so that the machine is about that of the last examples, as many as vectors or
        twice as many. It suits streams that drift; on others whose classes overlap :class:`BudgetedSVC`
        is much better.
    {class_weight}
        In ``partial_fit`` "balanced" uses the counts of the classes seen so far.
    cache_size : float, default=200
        The memory for kernel values, in megabytes.
    {max_iter:passes}
    {max_seconds}
        Examples that ``fit`` has not seen by then are not remembered.
    {device:predictions}
    {random_state:fixed}
        It decides the order in which ``fit`` sees the examples, and the solver's draws.
    {checkpoint}
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        The numbers of the support vectors. Examples are numbered from 0 in the order of arrival, those
        of ``fit`` by their rows.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        The support vectors, in the order of ``support_``.
    {n_support_}
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        The coefficients of the support vectors.
    {intercept_:classes}
    {coef_:kernel}
    {classes_}
    {gamma_}
    n_samples_seen_ : int
        The number of examples that have arrived.
    online_error_ : float
        The share of the examples that was predicted wrongly when it arrived, before it was learnt.
    certificate_ : Certificate, list of them or None
        The result of :meth:`finish`, one certificate for each binary problem. It is None before, and
        after examples have been added or removed.
    history_ : History
        One row per checkpoint, with ``seconds``, ``visits``, ``online_error``, ``kernel_evals`` and
        others. ``objective`` takes the loss of each example when it was visited.
    stop_reason_ : str
        Why training ended: "max_iter", "max_seconds", "callback", "interrupted" (Ctrl-C),
        "partial_fit", or after :meth:`finish` "tol".
    {n_iter_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    Tracker : The options of the method.
    BudgetedSVC : Constant memory and time, for streams without end.
    SVC : The exact machine of a whole data set.

    Notes
    -----
    A stream in one call and in many gives the same model, bit for bit, if ``gamma`` is a number.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import IncrementalSVC
    >>> X, y = make_moons(90, noise=0.1, random_state=0)
    >>> model = IncrementalSVC(C=10.0, gamma=1.0)
    >>> for i in range(0, 90, 30):
    ...     model = model.partial_fit(X[i : i + 30], y[i : i + 30], classes=[0, 1])
    >>> model.n_samples_seen_
    90
    >>> bool(model.finish(1e-3).certificate_.relative_gap <= 1e-3)
    True
    """

    TRAINING = (*KernelStream.TRAINING, "_archive", "_arrived")
    tol = 0.0
    lam = None
    _seed = 0

    _archive: Archive
    _preparation: Preparation

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
        memory: Any = "all",
        window: int | None = None,
        budget: int | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        cache_size: float | str = 200,
        max_iter: int = 1,
        max_seconds: float | None = None,
        device: str = "cpu",
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    # -- parameters

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_kernel()
        check_solver("incremental", self.solver, "Tracker()")
        one_of("intercept", self.intercept, ("auto", "unregularized", "regularized", "none"))
        one_of("memory", self.memory, ("all", "support"))
        positive("cache_size", self.cache_size)
        self._configured().check_parameters()
        forgets = [name for name in ("window", "budget") if getattr(self._configured(), name) is not None]
        if forgets and self.max_iter > 1:
            raise ValueError(
                f"max_iter={self.max_iter} passes would see again what {forgets[0]}={getattr(self, forgets[0])!r} has "
                "forgotten: set max_iter=1"
            )

    def _configured(self) -> Any:
        solver = solvers.make("incremental", self.solver) if isinstance(self.solver, str) else self.solver
        given = {name: getattr(self, name) for name in ("window", "budget") if getattr(self, name) is not None}
        return replace(solver, **given)

    def _intercept(self) -> str:
        if self.intercept != "auto":
            return self.intercept
        return "unregularized" if self._configured().capabilities.free_intercept else "regularized"

    def _kind_now(self) -> dict[str, Any]:
        """The parameters that a running model must keep."""
        solver = self._configured()
        limits = {"window": solver.window, "budget": solver.budget}
        kind = {"C": float(self.C), "intercept": self._intercept(), "algorithm": solver.algorithm}
        return {**kind, "memory": self.memory, **limits}

    # -- problems

    def _problem_of_part(
        self, X: Any, codes: np.ndarray, weights: np.ndarray, class_weight: np.ndarray | None,
        numbers: np.ndarray | None = None,
    ) -> Growing:  # fmt: skip
        """The problem of all remembered examples and these new ones."""
        kernel, k = self._kernel(X), self.classes_.size
        if not hasattr(self, "_state"):
            self._kind = self._kind_now()
            self._preparation = Preparation(None, False, not isinstance(X, np.ndarray), self._exponent)
        elif self._kind != (kind := self._kind_now()):
            changed = next(name for name, value in kind.items() if self._kind[name] != value)
            raise ValueError(
                f"a running model keeps its {changed}, {self._kind[changed]!r}, got {kind[changed]!r}: set it back, or "
                "fit anew"
            )
        rows = self._preparation.rows(kernel, X)
        if not hasattr(self, "_state"):
            self._archive, self._arrived = Archive.of(rows, 1 if k == 2 else k), 0
        weights = weighted(np.ones(codes.size) if class_weight is None else class_weight, weights)
        if numbers is None:
            numbers = np.arange(self._arrived, self._arrived + codes.size)
        self._archive = self._archive.extended(
            rows, codes=codes, weights=weights, numbers=numbers, y=self._signs(codes, k).T
        )
        return self._problem()

    @staticmethod
    def _signs(codes: np.ndarray, n_classes: int) -> np.ndarray:
        """±1 of shape (outputs, n)."""
        if n_classes == 2:
            return targets_of(codes, 1)[None]
        return np.where(codes == np.arange(n_classes)[:, None], 1.0, -1.0)

    def _problem(self) -> Growing:
        archive, C = self._archive, float(self.C)
        n = archive.n
        return Growing(
            self._trained_kernel, archive.X, archive.y[:n].T, HINGE, 1.0 / (C * max(n, 1)), archive.weights[:n],
            intercept=self._kind["intercept"], cache_bytes=float(self.cache_size) * 2**20, cost=C,
        )  # fmt: skip

    # -- streams

    def _start_anew(self) -> None:
        super()._start_anew()
        for name in ("_preparation", "_made"):
            self.__dict__.pop(name, None)

    def _begin_part(self, problem: Growing) -> tuple[Any, Any]:
        solver, state = self._configured(), getattr(self, "_state", None)
        if state is None:
            return solver, solver.init(problem, self._generator())
        return solver, state.again()

    def _slices(self, solver: Any, problem: Growing) -> list[tuple[Any, int]]:
        state = getattr(self, "_state", None)
        new = problem.n - (0 if state is None else int(state.progress["known"]))
        return [(solver, min(new - first, SLICE)) for first in range(0, new, SLICE)]

    def _adopt_part(self, solver: Any, problem: Growing, state: Any, passes: float, seconds: float) -> None:
        self._passes, self._seconds = passes, seconds
        self._settle(solver, state)

    def _settle(self, solver: Any, state: Any) -> None:
        """Adopt a state that has seen the first examples of the archive, and drop the examples that it has not."""
        known = len(self._archive.numbers[: state.progress["known"]])
        self._archive = replace(self._archive, n=known)
        self._arrived = max(self._arrived, int(self._archive.numbers[:known].max(initial=-1)) + 1)
        self._state, self.certificate_ = state, None
        self._forget_made()
        self._give_up_rows(solver, at_once=False)

    def _forget_made(self) -> None:
        self._made: dict[str, Any] = {}

    def _remembered(self) -> np.ndarray:
        """The places in the archive of the examples that are remembered."""
        state, n, window = self._state, self._archive.n, self._kind["window"]
        if window is None and (self._kind["memory"] == "support" or self._kind["budget"] is not None):
            return np.union1d(state.example[state.vectors], self._configured().coefficients(state)[0])
        return np.arange(max(0, n - (window or n)), n)

    def _give_up_rows(self, solver: Any, at_once: bool) -> None:
        """Remove examples that are not remembered from the archive: at once, or when there are many."""
        most = self._kind["window"] or self._state.count
        if not (at_once or self._archive.n > IDLE * most + IDLE_ROWS):
            return
        kept = self._remembered()
        if kept.size < self._archive.n:
            self._archive, self._state = self._archive.taken(kept), solver.renumbered(self._state, kept)

    def _with_classes(self, places: np.ndarray, n_classes: int) -> None:
        archive, sources = self._archive, np.full(n_classes, -1)
        sources[places] = np.arange(places.size) if places.size > 2 else [-2, 0]
        codes = places[archive.codes[: archive.n]]
        self._archive = replace(archive, codes=codes, y=np.ascontiguousarray(self._signs(codes, n_classes).T))
        self._state = self._configured().with_outputs(self._state, sources)
        self._forget_made()

    # -- at rest

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train anew on (X, y), in ``max_iter`` passes over the examples in one random order.

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
        >>> from widemargin import IncrementalSVC
        >>> IncrementalSVC(gamma=1.0, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).stop_reason_
        'max_iter'
        """
        started, X, y, weights = self._begin(X, y, sample_weight)
        self._start_anew()
        codes, rng = self._encode(y), self._generator()
        self._check_weights(codes, weights)
        self._counts = self._count(codes, weights)
        of_class = class_weights(self.class_weight, self.classes_, self._counts)
        order = rng.permutation(codes.size)
        weights, codes = weights[order] if weights.size else weights, codes[order]
        problem = self._problem_of_part(X[order], codes, weights, of_class[codes], order)
        solver = self._configured()
        outcome = self._run(solver, problem, Turn(started), Shown(X, y, self._partly), rng=rng)
        self._passes, self._seconds = outcome.history.last("epochs"), outcome.history.last("seconds")
        self._settle(solver, outcome.state)
        return self

    @all_or_nothing
    def finish(self, tol: float = 1e-3, max_seconds: float | None = None) -> Self:
        """Go on to the SVM of the remembered examples, until the relative duality gap is at most ``tol``.

        ``certificate_`` then says what is proven. Training can go on from there.

        Parameters
        ----------
        tol : float, default=1e-3
            The relative duality gap to reach.
        max_seconds : float or None, default=None
            A wall-clock limit for each binary problem.

        Returns
        -------
        {self}

        Examples
        --------
        >>> from widemargin import IncrementalSVC
        >>> model = IncrementalSVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.finish(1e-3).stop_reason_
        'tol'
        """
        check_is_fitted(self)
        self._refuse_without_state("finish")
        tol = not_negative("tol", tol)
        if max_seconds is not None:
            positive("max_seconds", max_seconds)
        solver = replace(self._configured(), average=False)
        self._give_up_rows(solver, at_once=True)
        if self._archive.n == 0:
            raise ValueError("finish needs examples, and none is remembered: learn some first")
        self._state.drop_workspace()  # its memory is SMO's now
        problem, state = self._problem(), self._state.again()
        narrow = self._narrowed(problem)
        near, left, interrupted = self._among_vectors(narrow, state, ROUGHER * tol, max_seconds)
        beta, f = solver.duals(problem, near), solver.responses(narrow, near)
        self._undo = "forget"  # vectors change in place
        certificates, reasons = self._closed(solver, problem, state, beta, f, tol, left, interrupted)
        self._state = state
        self._forget_made()
        self.certificate_ = certificates[0] if len(certificates) == 1 else certificates
        if not self._trained_kernel.is_definite:
            self.certificate_ = None
        ends = [reason for reason in reasons if reason != "tol"]
        self.stop_reason_ = "interrupted" if interrupted or "interrupted" in ends else next(iter(ends), "tol")
        self._undo = "keep"
        self._warn_of_certificates(tol, reasons, certificates)
        return self

    def _among_vectors(
        self, narrow: Growing, state: Any, tol: float, max_seconds: float | None
    ) -> tuple[Any, list[Any], bool]:  # fmt: skip
        """(state, seconds that are left for each output, whether Ctrl-C was heard) after SMO on the vectors alone.

        The responses of the vectors are known. Those of the other examples take all kernel values with them.
        """
        near, slots = replace(state, beta=state.beta.copy(), e=state.e.copy()), state.vectors
        left: list[Any] = [max_seconds] * narrow.n_outputs
        for q in range(narrow.n_outputs) if slots.size else ():
            part = self._binary(narrow, q).take(state.example[slots])
            found = self._solved_in_time(left, q, part, state.beta[q, slots], part.y - state.e[q, slots], tol)
            near.beta[q, slots], near.e[q, slots] = found.beta, part.y - found.f
            if found.stop_reason == "interrupted":  # what comes next only proves where it stands
                return near, left, True
        return near, left, False

    def _closed(
        self, solver: Any, problem: Growing, state: Any, beta: np.ndarray, f: np.ndarray, tol: float, left: list[Any],
        interrupted: bool,
    ) -> tuple[list[Certificate | None], list[str]]:  # fmt: skip
        """(certificates, why training ended) of all binary problems, solved from dual variables with their responses.

        The state adopts the solutions. Where float32 kernel values leave a gap, training goes on from the point reached
        with values in float64.
        """
        narrow, everything = self._narrowed(problem), np.arange(problem.n)
        certificates: list[Certificate | None] = [None] * problem.n_outputs
        reasons, unproven = ["tol"] * problem.n_outputs, list(range(problem.n_outputs))
        for bits, goal in ((32, tol), (64, 0.5 * tol)):  # the other half is for rounding
            on = narrow
            if bits == 64:
                on = replace(problem, X=self._exact(problem).rows(everything), dtype=np.dtype(np.float64))
            for q in unproven:
                start = f[q] if bits == 32 else None
                found = self._solved_in_time(left, q, self._binary(on, q), beta[q], start, goal)
                beta[q], f[q], reasons[q] = found.beta, found.f, found.stop_reason
                interrupted = interrupted or found.stop_reason == "interrupted"
            solver.adopt(problem, state, beta, f)
            model, beta = solver.model(problem, state), solver.duals(problem, state)
            if not problem.kernel.is_definite:
                break
            for q in unproven:
                part, own = self._binary(narrow, q), slice(q, q + 1)
                single = replace(model, coef=model.coef[own], intercept=model.intercept[own])
                known = part.certificate(beta[own], f[own], single.intercept)
                exact = self._exact(problem, 0.0 if interrupted else left[q])
                certificates[q] = proven = exact.certificate(
                    [part], single, known, tol, (f[own] + single.intercept, 1.0)
                )
                if proven is not None:
                    reasons[q] = certified(reasons[q], proven.relative_gap, tol, tight=True)
                else:
                    reasons[q] = "interrupted" if interrupted or told() else "max_seconds"
            unproven = [q for q in unproven if reasons[q] == "precision"]
            if interrupted or not unproven:
                break
        return certificates, reasons

    def _exact(self, problem: Growing, left: float | None = None) -> Exact:
        """What computes scores of the remembered examples in float64, within so many seconds."""
        preparation, everything = replace(self._preparation, exponent=0), np.arange(problem.n)  # they were scaled
        largest = largest_value(problem.kernel, problem.X)
        deadline = math.inf if left is None else now() + left
        return Exact(preparation, problem.kernel, as_matrix(problem.X), everything, largest, deadline=deadline)

    def _warn_of_certificates(self, tol: float, reasons: list[str], certificates: list[Certificate | None]) -> None:
        """Warn of the gap that was reached if rounding allows none of ``tol``, and of certificates without time."""
        pairs = zip(reasons, certificates, strict=True)
        gaps = [found.relative_gap for reason, found in pairs if reason == "precision" and found is not None]
        if gaps:
            remedy = "raise tol, lower C, or scale the data or gamma"
            warn(short_of_tol("IncrementalSVC.finish", max(gaps), tol, remedy), ConvergenceWarning)
        if None in certificates and self._trained_kernel.is_definite:
            warn(without_proof("IncrementalSVC.finish", "interrupted" in reasons), ConvergenceWarning)

    def _solved_in_time(
        self, left: list[Any], q: int, part: KernelProblem, beta: np.ndarray, f: np.ndarray | None, tol: float
    ) -> Solved:
        """:meth:`_solved` within the seconds that are ``left`` for output q, which become fewer, in place.

        After Ctrl-C next to none are left for all outputs.
        """
        found = self._solved(part, beta, f, tol, left[q])
        if found.stop_reason == "interrupted":
            left[:] = [1e-3] * len(left)
        elif left[q] is not None:
            left[q] = max(left[q] - found.seconds, 1e-3)
        return found

    def _solved(self, part: KernelProblem, beta: np.ndarray, f: np.ndarray | None, tol: float, seconds: Any) -> Solved:
        """The solution of a binary problem, from dual variables and their responses, if these are known."""
        smo = solvers.make("kernel", "smo", tol=max(tol, 1e-13), onward=True)
        start = smo.init(part, self._generator(), duals=beta[None], responses=f)
        outcome = run(smo, part, state=start, max_epochs=1000, max_seconds=seconds, tol=tol, history=History())
        return Solved(
            smo.duals(part, outcome.state)[0], outcome.state.f, outcome.stop_reason, outcome.history.last("seconds")
        )

    def _narrowed(self, problem: Growing) -> Growing:
        """The problem with rows in the precision that the tracker computes in."""
        X = problem.X
        if isinstance(X, DenseRows) and way_of(problem.kernel, X, self._state.reach).dtype != dtype_of(X):
            return replace(problem, X=DenseRows(X.values.astype(np.float32)))
        return problem

    def _binary(self, problem: Growing, q: int) -> KernelProblem:
        """The binary problem of output q."""
        return replace(problem, y=np.ascontiguousarray(problem.signs[q]))

    @all_or_nothing
    def unlearn(self, indices: Any, repair: float | str = "auto") -> Self:
        """Take examples back, and repair what their absence leaves undone.

        The model is then about as close to the SVM of the others as it was to that of all. :meth:`finish` afterwards
        gives the SVM of the others, as if these had never been there.

        Parameters
        ----------
        indices : int or array of int
            The numbers of the examples, as in ``support_``.
        repair : {"auto"} or float, default="auto"
            The normalised gap (:meth:`duality_gap`) until which the others are learnt again. "auto" is the gap before
            the call; gaps below 1e-7 are rounding. 0 leaves the repair out: each example that goes then makes room for
            as many steps as one that arrives has, and the gap may be several times as large as before.

        Returns
        -------
        {self}

        Raises
        ------
        ValueError
            If an example was never seen, or is not remembered any more.

        Notes
        -----
        Ctrl-C ends the repair, with a warning and ``stop_reason_`` "interrupted"; the examples are taken back all the
        same.

        A repair takes the kernel values of all remembered examples with all support vectors, as :meth:`duality_gap`
        does: give examples together, not one by one. Where no support vector goes, there is nothing to repair.

        Examples
        --------
        >>> from widemargin import IncrementalSVC
        >>> model = IncrementalSVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> bool(3 in model.unlearn([3]).support_)
        False
        """
        check_is_fitted(self)
        self._refuse_without_state("unlearn")
        _check_repair(repair)
        solver = self._configured()
        self._give_up_rows(solver, at_once=True)
        places = self._places(indices)
        problem, state = self._problem(), self._state.again()
        kept = np.setdiff1d(np.arange(self._archive.n), places)
        repairs = repair != 0 and kept.size > 0 and bool(np.any(solver.duals(problem, state)[:, places]))
        before = None
        if repairs and repair == "auto":
            before = unless_told(partial(self._look, solver, problem, state))
            repair = np.nan if before is None else before.gap
        known = self._take_back(solver, problem, state, places, kept, before)
        if repairs:
            self._repair(solver, float(repair), known)
        return self

    def _take_back(
        self, solver: Any, problem: Growing, state: Any, places: np.ndarray, kept: np.ndarray, before: Look | None
    ) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
        """Forget some examples; returns the dual variables and responses of the others, if all were known before."""
        self._undo, after = "forget", None  # vectors change in place
        solver.bind(problem, state)
        solver.forget(problem, state, places)
        if before is not None:
            after = unless_told(partial(self._look, solver, problem, state, (before.beta, before.f)))
        self._archive, self._state = self._archive.taken(kept), solver.renumbered(state, kept)
        self.certificate_ = None
        self._forget_made()
        self._undo = "keep"
        return None if after is None else (after.beta[:, kept], after.f[:, kept])

    def _look(self, solver: Any, problem: Growing, state: Any, start: Any = None) -> Look:
        """The gap of a model; ``start`` has other dual variables with their responses, if they are known."""
        beta, f = solver.duals(problem, state), solver.responses(self._narrowed(problem), state, start)
        e = problem.signs - f - solver.bias(problem, state)[:, None]
        caps = np.array([problem.caps_of(q) for q in range(problem.n_outputs)])
        room = np.where(e > 0.0, np.maximum(problem.signs, 0.0), np.minimum(problem.signs, 0.0)) * caps - beta
        return Look(float(np.sum(room * e) / max(caps.sum(), np.finfo(float).tiny)), room * e, beta, f)

    def _repair(self, solver: Any, gap: float, start: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Let the examples that violate their optimality condition join the vectors, and REPROCESS.

        The repair ends when the normalised gap is at most ``gap``, or with Ctrl-C. ``start`` has dual variables and
        their responses, if they are known.
        """
        problem, state, plain = self._problem(), self._state, replace(solver, average=False)

        def look(used: Any, start: Any) -> Look:
            """The gap, with the point where the repair goes on: a mean goes on at its last point."""
            seen = self._look(used, problem, state, start)
            if used.average and seen.gap > gap:
                last = self._look(plain, problem, state, (seen.beta, seen.f))
                return seen._replace(beta=last.beta, f=last.f)
            return seen

        for turn in range(1 + MOST_TURNS):
            seen = unless_told(partial(look, plain if turn else solver, start))
            if seen is None:
                warn(
                    "Ctrl-C ended unlearn before the model was repaired: the examples are taken back, and the gap may "
                    "be larger than before; call finish(tol), which goes on to the optimum",
                    ConvergenceWarning,
                )
                return
            found, start = seen.gap, (seen.beta, seen.f)
            if found <= max(gap, ROUNDING) or turn == MOST_TURNS:
                break
            moved = state.counters.updates
            self._undo = "forget"
            plain.adopt(problem, state, *start, np.any(seen.lacks > 0.0, axis=0))
            plain.repair(problem, state, 0.5 * gap)
            self._forget_made()
            self._undo = "keep"
            if state.counters.updates == moved and not told():
                break
        if found > max(gap, ROUNDING):
            warn(
                f"unlearn(repair={gap:.3g}) ended at a gap of {found:.3g}: call finish(tol), which goes on to the "
                "optimum",
                ConvergenceWarning,
            )

    def _places(self, indices: Any) -> np.ndarray:
        """The places in the archive of the examples with these numbers. Forgotten examples are refused."""
        given = np.atleast_1d(np.asarray(indices))
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise TypeError(f"indices must be the numbers of examples, integers ≥ 0, got {indices!r}")
        given = np.unique(given.astype(np.int64))
        if given.size and (given[0] < 0 or given[-1] >= self._arrived):
            bad = given[0] if given[0] < 0 else given[-1]
            raise ValueError(f"example {bad} was never seen: those seen have the numbers 0 to {self._arrived - 1}")
        remembered = self._remembered()
        numbers = self._archive.numbers[remembered]
        lost = np.setdiff1d(given, numbers)
        if lost.size:
            raise ValueError(
                f"example {lost[0]} is not remembered any more: it was forgotten (memory={self._kind['memory']!r}, "
                f"window={self._kind['window']}, budget={self._kind['budget']}) or unlearnt before; leave it out"
            )
        return remembered[np.isin(numbers, given)]

    def duality_gap(self) -> float:
        """Return how far the model is from the SVM of the remembered examples, (P − D)/(C n).

        It bounds both P − P* and D* − D, over C n. Of several binary problems it is the mean, and with
        sample weights Σ Cᵢ stands for C n. It takes the kernel values of all examples with all support
        vectors.

        Returns
        -------
        float
            The normalised gap, which is 0 at the optimum.

        Examples
        --------
        >>> from widemargin import IncrementalSVC
        >>> model = IncrementalSVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> bool(model.duality_gap() >= 0.0)
        True
        """
        check_is_fitted(self)
        self._refuse_without_state("duality_gap")
        solver = self._configured()
        self._give_up_rows(solver, at_once=True)
        problem = self._problem()
        return self._look(solver, problem, self._state).gap if problem.n else 0.0

    # -- what is learnt

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in vars(self) or "_model" in vars(self).get("_made", {})

    @Made
    def _model(self) -> KernelModel:
        found = self._configured().model(self._problem(), self._state)
        numbers = self._archive.numbers[found.support]
        order = np.argsort(numbers, kind="stable")
        vectors = take_rows(found.vectors, order)
        model = replace(found, support=numbers[order], vectors=vectors, coef=found.coef[:, order])
        return settled(model, self._preparation)[0]

    @Made
    def support_(self) -> np.ndarray:
        """The numbers of the support vectors."""
        return self._model.support

    @Made
    def support_vectors_(self) -> Any:
        """The support vectors, in the order of ``support_``."""
        return divided(as_matrix(self._model.vectors), -self._exponent)

    @Made
    def n_support_(self) -> np.ndarray:
        """The number of support vectors of each class."""
        archive = self._archive
        own = np.isin(archive.numbers[: archive.n], self.support_)
        return np.bincount(archive.codes[: archive.n][own], minlength=self.classes_.size).astype(np.int32)

    @Made
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the support vectors, of shape (n_outputs, n_support)."""
        return self._model.coef

    @Made
    def intercept_(self) -> np.ndarray:
        """The intercepts, of shape (n_outputs,)."""
        return self._model.intercept + self._model.constant * self._model.coef.sum(axis=1)

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, one row per binary problem; for ``kernel="linear"`` only."""
        if not class_of(self.kernel).is_linear:
            raise AttributeError(
                f"coef_ exists for kernel='linear' only, and the kernel is {self.kernel!r}: use dual_coef_ and "
                "support_vectors_"
            )
        check_is_fitted(self)
        return np.asarray(self._model.coef @ self.support_vectors_)

    @property
    def n_samples_seen_(self) -> int:
        """Examples that have arrived."""
        check_is_fitted(self)
        return int(self._state.progress["came"])

    @property
    def online_error_(self) -> float:
        """The share of the examples that was predicted wrongly when it arrived."""
        check_is_fitted(self)
        return self._state.online_error

    def _partly(self, model: KernelModel) -> dict[str, Any]:
        return {"_model": model, "_preparation": self._preparation, "classes_": self.classes_}

    def _rows_for(self, model: KernelModel, X: Any) -> Any:
        return self._preparation.rows(model.kernel, super()._rows_for(model, X))

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        model = self._model
        X, on_device = self._to_score(X, model.kernel)
        if on_device:
            return self._scored_there(model, X, self._preparation)
        return finite_scores(lambda part: model.decision_function(self._preparation.rows(model.kernel, part)), X)

    def _to_parts(self) -> dict[str, Any]:
        parts = super()._to_parts()
        if "_state" in vars(self):
            parts["fitted"]["_made"] = {}
        return parts

    def _without_state(self) -> Any:
        small = super()._without_state()
        for name, found in vars(type(self)).items():
            if isinstance(found, Made) and "_state" in vars(self):
                setattr(small, name, getattr(self, name))
        return small
