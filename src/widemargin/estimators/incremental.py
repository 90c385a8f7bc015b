"""Kernel machines that follow the optimum of the examples seen so far, take examples back, and forget old ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..arguments import not_negative, one_of, positive, whole
from ..core import losses
from ..core.kernels import class_of
from ..core.panels import way_of
from ..core.rows import CSRRows, DenseRows, as_matrix, dtype_of, take_rows
from ..files import savable
from ..history import History
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.layout import Preparation, divided, finite_scores
from ..problems.objective import Certificate
from ..problems.precision import settled
from ..running import run
from ..schemas import ANYTHING, Array, Own, Row, Whole, Within
from ..solvers.tracking import State
from ..warning import warn
from .fitting import Shown, Turn, all_or_nothing, check_solver, settled_gamma, with_callbacks
from .labels import class_weights, weighted
from .multiclass import targets_of
from .saving import learnt
from .streaming import GrowingClassifier, KernelStream, weights_of_part

#: Examples of partial_fit between looks at Ctrl-C.
SLICE = 256
#: Rows that are not needed any more are given up when there are this many times those that are, and so many more.
IDLE, IDLE_ROWS = 2, 256
#: finish solves the problem of the vectors to so many times the tolerance before it looks at the others.
ROUGHER = 10.0
#: A repair lets examples join the vectors so many times at most; gaps below the second number are rounding.
MOST_TURNS, ROUNDING = 20, 1e-7
HINGE = losses.Single(losses.Hinge())


class Solved(NamedTuple):
    """A binary problem solved: dual variables, responses, what is proven, why it ended and after how long."""

    beta: np.ndarray
    f: np.ndarray
    certificate: Certificate
    stop_reason: str
    seconds: float


class Made:
    """An attribute that is made of what was learnt when it is asked for, and kept in ``_made``; it can be set."""

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
    """The problem of the examples so far: C is a number that does not depend on how many they are, to the bit."""

    cost: float = 1.0

    @property
    def C(self) -> float:  # type: ignore[override]
        """The trade-off as it was given."""
        return self.cost


def gaps_of(problem: KernelProblem, beta: np.ndarray, f: np.ndarray, bias: np.ndarray) -> tuple[float, np.ndarray]:
    """(P − D)/ΣC of dual variables with their responses, and what each example adds to P − D, of shape (outputs, n)."""
    e = problem.signs - f - bias[:, None]
    caps = np.array([problem.caps_of(q) for q in range(problem.n_outputs)])
    room = np.where(e > 0.0, np.maximum(problem.signs, 0.0), np.minimum(problem.signs, 0.0)) * caps - beta
    return float(np.sum(room * e) / max(caps.sum(), np.finfo(float).tiny)), room * e


def appended(old: np.ndarray, n: int, new: np.ndarray) -> np.ndarray:
    """An array whose first n entries are those of ``old`` and the next ones new; in the memory of the old one where
    that has room behind them, which nobody uses.
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
    """The examples that are remembered, in the order in which they were seen; arrays have room behind the first n.

    ``codes`` are the places of labels among the classes, ``weights`` all that multiplies C, ``numbers`` those of
    arrival, ``y`` the signs of shape (n, outputs).
    """

    rows: Any
    codes: np.ndarray
    weights: np.ndarray
    numbers: np.ndarray
    y: np.ndarray
    n: int

    @classmethod
    def of(cls, rows: Any, outputs: int) -> Archive:
        """An empty one for rows like these."""
        rows = take_rows(rows, np.empty(0, np.int64))
        return cls(rows, np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64), np.empty((0, outputs)), 0)

    def _to_parts(self) -> dict[str, Any]:
        names = ("codes", "weights", "numbers", "y")
        return {"rows": self.X, **{name: getattr(self, name)[: self.n] for name in names}, "n": self.n}

    @property
    def X(self) -> Any:
        """The rows."""
        rows, n = self.rows, self.n
        if isinstance(rows, DenseRows):
            return DenseRows(rows.values[:n])
        entries = int(rows.indptr[n])
        return CSRRows(rows.data[:entries], rows.indices[:entries], rows.indptr[: n + 1], rows.n_features)

    def extended(self, rows: Any, codes: np.ndarray, weights: np.ndarray, numbers: np.ndarray, y: Any) -> Archive:
        """With more examples behind these."""
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
        return Archive(
            new, appended(self.codes, n, codes), appended(self.weights, n, weights),
            appended(self.numbers, n, numbers), appended(self.y, n, y), n + codes.size,
        )  # fmt: skip

    def taken(self, kept: np.ndarray) -> Archive:
        """A copy of some of them."""
        return Archive(
            take_rows(self.X, kept), self.codes[kept], self.weights[kept], self.numbers[kept], self.y[kept], kept.size
        )

    def recoded(self, codes: np.ndarray, y: np.ndarray) -> Archive:
        """With other classes."""
        return replace(self, codes=codes, y=y)


_MODEL = Own(KernelModel, d="d")


@savable(
    **learnt(
        "classes_", "_preparation", "_trained_kernel", _archive=Within(Archive), _state=Within(State),
        _preparation=Own(Preparation, d="d"), _made=Row({"_model": _MODEL}, rest=ANYTHING, needs=()),
        _model=_MODEL,
        _kind=Row({}, rest=ANYTHING, needs=("C", "intercept", "algorithm", "memory", "window", "budget")),
    )
)  # fmt: skip
class IncrementalSVC(GrowingClassifier, KernelStream):
    """Kernel classification that follows the SVM of all examples so far, one example at a time.

    After each example it is close to the minimum of ::

        ½ ‖w‖² + C Σᵢ sᵢ max(0, 1 − yᵢ (⟨w, Φ(xᵢ)⟩ + b))

    over the examples seen, which is the problem of :class:`SVC`. :meth:`duality_gap` says how close,
    :meth:`finish` goes to the minimum, :meth:`unlearn` takes examples back. More than two classes are
    each trained against the rest. Use it for streams of up to some ten thousand remembered examples,
    and for streams that drift.

    Parameters
    ----------
    C : float, default=1.0
        How closely the training set is fitted, a number > 0. A larger value allows fewer errors, a
        smaller one a wider margin.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian"}, default="rbf"
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is tanh(γ⟨x,
        z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁).
    gamma : {"scale", "auto"} or float, default="scale"
        The factor γ of the kernel. "scale" is 1/(n_features × variance of X), "auto" is 1/n_features.
        It is settled by the first call of ``fit`` or ``partial_fit``.
    degree : int, default=3
        The degree of the kernel "poly". Other kernels do not look at it.
    coef0 : float, default=0.0
        The constant term of the kernels "poly" and "sigmoid". Other kernels do not look at it.
    solver : "auto" or Tracker, default="auto"
        The method that learns an example. "auto" is ``Tracker()``; ``Tracker(reprocess=3)`` sets its
        options.
    intercept : {"auto", "unregularized", "regularized", "none"}, default="auto"
        What is done about the intercept. "unregularized" leaves it free, as LIBSVM does. "regularized"
        adds 1 to the kernel. "none" leaves it out. "auto" is "unregularized" where the solver can do
        that, else "regularized".
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
    class_weight : dict, "balanced" or None, default=None
        The weights of the classes, by label. "balanced" gives all classes the same total weight; in
        ``partial_fit`` it weighs an example by the counts seen up to it. None weighs every example the
        same.
    cache_size : float, default=200
        The memory for kernel values, in megabytes.
    max_iter : int, default=1
        The number of passes that ``fit`` makes over the examples.
    max_seconds : float or None, default=None
        A wall-clock limit for ``fit``. The model at that time is kept, and examples it has not seen are
        not remembered.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where predictions are computed. "cuda" uses a GPU, "auto" uses one if there is one. Training is
        always on the CPU.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers, for the order in which ``fit`` sees the examples and for the
        solver's draws. None is a fixed seed here.
    checkpoint : str, path or None, default=None
        A file from which a fit that was killed goes on, bit for bit. It is written while ``fit`` runs
        and removed at its end. After Ctrl-C or ``max_seconds`` it stays, and the next ``fit`` goes on
        from it. A file of other data or other parameters is refused.
    checkpoint_every : float, default=60
        The least number of seconds between two writes of ``checkpoint``. 0 writes as often as possible.
    callbacks : callable, list of callables or None, default=None
        Functions that are called at each checkpoint with a :class:`widemargin.running.Progress`.
        Returning ``True`` stops the training.
    verbose : int, default=0
        1 shows a progress bar on standard error, 0 shows nothing.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        The numbers of the support vectors. Examples are numbered from 0 on as they arrive, those of
        ``fit`` by their rows.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        The support vectors, in the order of ``support_``.
    n_support_ : ndarray of shape (n_classes,)
        The number of support vectors of each class.
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        The coefficients of the support vectors.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts, one per binary problem.
    coef_ : ndarray of shape (n_problems, n_features)
        The weights of the features, a row per binary problem. It exists for ``kernel="linear"`` only.
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    gamma_ : float
        The value of γ in use, which ``gamma="scale"`` takes from the data. It exists for the kernels
        that have a γ.
    n_samples_seen_ : int
        The number of examples that have arrived.
    online_error_ : float
        The share of the examples that was predicted wrongly when it arrived, before it was learnt.
    certificate_ : Certificate, list of them or None
        What :meth:`finish` has proven, one certificate for each binary problem. It is None before, and
        when examples have come or gone since.
    history_ : History
        One row per checkpoint, with ``seconds``, ``visits``, ``online_error``, ``kernel_evals`` and
        others. ``objective`` takes the loss of each example when it was visited.
    stop_reason_ : str
        Why training ended: "max_iter", "max_seconds", "callback", "interrupted" (Ctrl-C),
        "partial_fit", or after :meth:`finish` "tol".
    n_iter_ : int
        The number of epochs done, rounded up.
    n_features_in_ : int
        The number of features seen in ``fit`` or in the first ``partial_fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features. It exists only if X was a frame whose columns have text as names.

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

    divisible = True
    TRAINING = (*KernelStream.TRAINING, "_archive", "_arrived")
    tol = 0.0
    lam = None
    _seed = 0
    _weights_of_part = staticmethod(weights_of_part)

    memory: str
    window: int | None
    budget: int | None
    cache_size: float
    certificate_: Any
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
        for name in ("window", "budget"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
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
        return "unregularized" if self._configured().free_bias else "regularized"

    def _kind_now(self) -> dict[str, Any]:
        """What a running model keeps."""
        solver = self._configured()
        limits = {"window": solver.window, "budget": solver.budget}
        kind = {"C": float(self.C), "intercept": self._intercept(), "algorithm": solver.algorithm}
        return {**kind, "memory": self.memory, **limits}

    # -- problems

    def _problem_of_part(
        self, X: Any, codes: np.ndarray, weights: np.ndarray, class_weight: np.ndarray | None,
        numbers: np.ndarray | None = None,
    ) -> Growing:  # fmt: skip
        """The problem of all examples that are remembered and these new ones."""
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
        weights = weights if class_weight is None else weighted(class_weight, weights)
        weights = weights if weights.size else np.ones(codes.size)
        if numbers is None:
            numbers = np.arange(self._arrived, self._arrived + codes.size)
        self._archive = self._archive.extended(rows, codes, weights, numbers, self._signs(codes, k).T)
        return self._problem(kernel)

    @staticmethod
    def _signs(codes: np.ndarray, n_classes: int) -> np.ndarray:
        """±1 of shape (outputs, n)."""
        if n_classes == 2:
            return targets_of(codes, 1)[None]
        return np.where(codes == np.arange(n_classes)[:, None], 1.0, -1.0)

    def _problem(self, kernel: Any) -> Growing:
        archive, C = self._archive, float(self.C)
        n = archive.n
        return Growing(
            kernel, archive.X, archive.y[:n].T, HINGE, 1.0 / (C * max(n, 1)), archive.weights[:n],
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
        new = problem.n - (0 if state is None else state.known)
        return [(solver, min(new - first, SLICE)) for first in range(0, new, SLICE)]

    def _adopt_part(self, solver: Any, problem: Growing, state: Any, passes: float, seconds: float) -> None:
        self._passes, self._seconds = passes, seconds
        self._settle(solver, state)

    def _settle(self, solver: Any, state: Any) -> None:
        """Take over a state that has seen the first examples of the archive; the others were not learnt."""
        known = len(self._archive.numbers[: state.known])
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
        """Take examples that are not remembered out of the archive: now, or when they are many."""
        everything = self._kind["memory"] == "all" and self._kind["budget"] is None and self._kind["window"] is None
        most = self._state.count if self._kind["window"] is None else self._kind["window"]
        if everything or not (at_once or self._archive.n > IDLE * most + IDLE_ROWS):
            return
        kept = self._remembered()
        if kept.size < self._archive.n:
            self._archive, self._state = self._archive.taken(kept), solver.renumbered(self._state, kept)

    def _measured(self, solver: Any, problem: Growing, state: Any, stopped: bool) -> dict[str, float] | None:
        # rows are kept: a stream of single examples gets one at each doubling
        if stopped or state.counters.visits >= 2 * self.history_.last("visits"):
            return solver.evaluate(problem, state, None)
        return None

    def _with_classes(self, places: np.ndarray, n_classes: int) -> None:
        archive, sources = self._archive, np.full(n_classes, -1)
        sources[places] = np.arange(places.size) if places.size > 2 else [-2, 0]
        codes = places[archive.codes[: archive.n]]
        self._archive = archive.recoded(codes, np.ascontiguousarray(self._signs(codes, n_classes).T))
        self._state = self._configured().with_outputs(self._state, sources)
        self._forget_made()

    # -- at rest

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train anew on (X, y), in ``max_iter`` passes over the examples in one random order.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The examples, dense or CSR, float32 or float64.
        y : array of shape (n,)
            The class labels, of any type.
        sample_weight : array of shape (n,) or None, default=None
            The weights of the examples, numbers ≥ 0 that are not all zero. None is 1 for each.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, X, y or the weights make no sense; the message says what to do. The
            estimator is then as it was before.

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
        of_example = None if self.class_weight is None else of_class[codes]
        order = rng.permutation(codes.size)
        problem = self._problem_of_part(
            X[order], codes[order], weights[order] if weights.size else weights,
            None if of_example is None else of_example[order], order,
        )  # fmt: skip
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
        self
            The fitted estimator.

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
        problem, state = self._problem(self._trained_kernel), self._state.again()
        narrow, outputs = self._narrowed(problem), range(problem.n_outputs)
        # first among the vectors, whose responses are known: those of the others take all kernel values with them
        near, slots = replace(state, beta=state.beta.copy(), e=state.e.copy()), state.vectors
        left: list[Any] = [max_seconds] * len(outputs)
        interrupted = False
        for q in outputs if slots.size else ():
            part = self._binary(narrow, q).take(state.example[slots])
            found = self._solved(part, state.beta[q, slots], part.y - state.e[q, slots], ROUGHER * tol, max_seconds)
            near.beta[q, slots], near.e[q, slots] = found.beta, part.y - found.f
            if found.stop_reason == "interrupted":  # what comes next only proves where it stands
                left, interrupted = [1e-3] * len(left), True
                break
            if max_seconds is not None:
                left[q] = max(max_seconds - found.seconds, 1e-3)
        beta, f = solver.duals(problem, near), solver.responses(narrow, near)
        certificates, reasons = [], []
        for q in outputs:
            found = self._solved(self._binary(narrow, q), beta[q], f[q], tol, left[q])
            beta[q], f[q] = found.beta, found.f
            certificates.append(found.certificate)
            reasons.append(found.stop_reason)
            if found.stop_reason == "interrupted":
                left, interrupted = [1e-3] * len(left), True
        self._undo = "forget"  # vectors change in place
        solver.adopt(problem, state, beta, f)
        self._state = state
        self._forget_made()
        definite = self._trained_kernel.is_definite
        self.certificate_ = None if not definite else certificates[0] if len(certificates) == 1 else certificates
        ends = (reason for reason in reasons if reason != "tol")
        self.stop_reason_ = "interrupted" if interrupted else next(ends, "tol")
        self._undo = "keep"
        return self

    def _solved(self, part: KernelProblem, beta: np.ndarray, f: np.ndarray, tol: float, seconds: Any) -> Solved:
        """The solution of a binary problem, from dual variables with known responses."""
        smo = solvers.make("kernel", "smo", tol=max(tol, 1e-12), onward=True)
        start = smo.init(part, self._generator(), duals=beta[None], responses=f)
        outcome = run(smo, part, state=start, max_epochs=1000, max_seconds=seconds, tol=tol, history=History())
        return Solved(
            smo.duals(part, outcome.state)[0], outcome.state.f, smo.certificate(part, outcome.state),
            outcome.stop_reason, outcome.history.last("seconds"),
        )  # fmt: skip

    def _narrowed(self, problem: Growing) -> Growing:
        """The problem with rows in the precision that the tracker computes in."""
        X = problem.X
        if isinstance(X, DenseRows) and way_of(problem.kernel, X, self._state.reach)[1].dtype != dtype_of(X):
            return replace(problem, X=DenseRows(X.values.astype(np.float32)))
        return problem

    def _binary(self, problem: Growing, q: int) -> KernelProblem:
        """Output q as a problem of its own."""
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
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If an example was never seen, or is not remembered any more.

        Notes
        -----
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
        if repair != "auto":
            if isinstance(repair, str):
                raise ValueError(f"repair must be 'auto' or a gap ≥ 0, got {repair!r}")
            not_negative("repair", repair)
        solver = self._configured()
        self._give_up_rows(solver, at_once=True)
        places = self._places(indices)
        problem, state = self._problem(self._trained_kernel), self._state.again()
        kept = np.setdiff1d(np.arange(self._archive.n), places)
        beta, f, narrow = solver.duals(problem, state), None, self._narrowed(problem)
        repairs = repair != 0 and kept.size > 0 and bool(np.any(beta[:, places]))
        if repairs and repair == "auto":
            f = solver.responses(narrow, state)
            repair = gaps_of(problem, beta, f, solver.bias(problem, state))[0]
        self._undo = "forget"  # vectors change in place
        solver.bind(problem, state)
        solver.forget(problem, state, places)
        if f is not None:
            beta, f = solver.duals(problem, state), solver.responses(narrow, state, (beta, f))
        self._archive, self._state = self._archive.taken(kept), solver.renumbered(state, kept)
        self.certificate_ = None
        self._forget_made()
        self._undo = "keep"
        if repairs:
            self._repair(solver, float(repair), None if f is None else (beta[:, kept], f[:, kept]))
        return self

    def _repair(self, solver: Any, gap: float, start: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Let the examples that lack something join the vectors, and REPROCESS, until the normalised gap is at most so
        large; ``start`` has dual variables whose responses are known.
        """
        problem, state = self._problem(self._trained_kernel), self._state
        plain, narrow = replace(solver, average=False), self._narrowed(problem)
        for turn in range(1 + MOST_TURNS):
            used = plain if turn else solver
            f = used.responses(narrow, state, start)
            start = used.duals(problem, state), f
            found, lacks = gaps_of(problem, *start, solver.bias(problem, state))
            if found <= max(gap, ROUNDING) or turn == MOST_TURNS:
                break
            if used.average:
                start = plain.duals(problem, state), plain.responses(narrow, state, start)
            moved = state.counters.updates
            self._undo = "forget"
            plain.adopt(problem, state, *start, np.any(lacks > 0.0, axis=0))
            plain.repair(problem, state, 0.5 * gap)
            self._forget_made()
            self._undo = "keep"
            if state.counters.updates == moved:
                break
        if found > max(gap, ROUNDING):
            warn(
                f"unlearn(repair={gap:.3g}) ended at a gap of {found:.3g}: call finish(tol), which goes on to the "
                "optimum",
                ConvergenceWarning,
            )

    def _places(self, indices: Any) -> np.ndarray:
        """The places in the archive of examples given by number; refuses those that are not remembered."""
        given = np.atleast_1d(np.asarray(indices))
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise TypeError(f"indices must be the numbers of examples, integers ≥ 0, got {indices!r}")
        given = np.unique(given.astype(np.int64))
        if given.size and (given[0] < 0 or given[-1] >= self._arrived):
            bad = given[0] if given[0] < 0 else given[-1]
            raise ValueError(f"example {bad} was never seen: those seen have the numbers 0 to {self._arrived - 1}")
        remembered = np.sort(self._remembered())
        numbers = self._archive.numbers[remembered]
        order = np.argsort(numbers)
        found = np.minimum(np.searchsorted(numbers[order], given), max(numbers.size - 1, 0))
        lost = given[numbers[order][found] != given] if numbers.size else given
        if lost.size:
            raise ValueError(
                f"example {lost[0]} is not remembered any more: it was forgotten (memory={self._kind['memory']!r}, "
                f"window={self._kind['window']}, budget={self._kind['budget']}) or unlearnt before; leave it out"
            )
        return np.sort(remembered[order][found])

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
        problem, state = self._problem(self._trained_kernel), self._state
        if problem.n == 0:
            return 0.0
        beta, f = solver.duals(problem, state), solver.responses(self._narrowed(problem), state)
        return gaps_of(problem, beta, f, solver.bias(problem, state))[0]

    # -- what is learnt

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in vars(self) or "_model" in vars(self).get("_made", {})

    @Made
    def _model(self) -> KernelModel:
        found = self._configured().model(self._problem(self._trained_kernel), self._state)
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

    gamma_ = property(settled_gamma)

    @property
    def n_samples_seen_(self) -> int:
        """Examples that have arrived."""
        check_is_fitted(self)
        return self._state.came

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
        X, on_device = self._to_score(X, self._model.kernel)
        if on_device:
            return self._scored_there(self._model, X, self._preparation)
        model = self._model
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
