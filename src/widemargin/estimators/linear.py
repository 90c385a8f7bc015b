"""Linear support vector machines with scikit-learn's conventions."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..arguments import flag, not_negative, one_of, positive, threads
from ..backends.tensors import as_given
from ..core.losses import losses
from ..core.rows.rows import as_matrix, as_rows, take_rows
from ..core.rows.sources import Remote, TwoWays, is_source
from ..files import savable
from ..history import History
from ..models import LinearModel
from ..problems.coordinates import Coordinates
from ..problems.layout import check_features, finite
from ..problems.linear import Problem
from ..problems.objective import INTERCEPTS, Certificate
from ..running import Outcome
from ..schemas import FLOATS, Array, Own
from ..solvers.protocol import State
from ..stopping import TELLING, certified
from ..warning import warn
from .fit import choosing
from .fit.checking import check_rows, check_sample_weight, check_solver, check_source, held_out
from .fit.fitting import Shown, TrainedByRun, Turn, all_or_nothing, with_callbacks
from .fit.labels import weighted
from .fit.multiclass import target_of, targets_of
from .fit.nested import refuse_twice
from .fit.parameters import documented
from .fit.saving import learnt
from .fit.streaming import StreamedClassifier, StreamedRegressor

#: What "auto" stands for where the exact solvers cannot be used: in streams, for joint losses, for other intercepts.
ANY = "pegasos"
#: What "auto" stands for where data is reached by row and by column only.
REMOTE = "simba"
#: What "auto" stands for where dual ascent would take longer (:mod:`widemargin.estimators.fit.choosing`) or proves
#: nothing, and where there are few features of very different sizes.
ROBUST = "interior"
FEW_FEATURES = 200  # features. With more, sizes do not decide: a step of the interior point grows with their cube
UNLIKE = 100.0  # size of the largest feature over that of the median one, above which dual ascent crawls


def _solves(name: str, problem: Problem) -> bool:
    """Whether the solver of this name can solve the problem."""
    try:
        solvers.make("linear", name).check(problem)
    except ValueError:
        return False
    return True


def _is_logistic(estimator: Any) -> bool:
    """Whether the loss is the logistic one, so that scores are log-odds; raises if not."""
    if losses.name_of(estimator.loss) != "log":
        raise AttributeError(
            f"probabilities need loss='log', got {estimator.loss!r}, whose scores are no log-odds: set it, or use "
            "CalibratedClassifierCV"
        )
    return True


#: What a linear model is.
_COEF, _INTERCEPT = Array("outputs", "d", dtype=FLOATS, order=False), Array("outputs", dtype=FLOATS)
#: Where training ended, perhaps in other coordinates of the features.
_STATE = Own(State, outputs="outputs")


class _Linear(TrainedByRun):
    """What the linear classifier and regressor share."""

    loss: Any
    divisible = False
    grows = False
    _weights_of_part = staticmethod(check_sample_weight)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of("intercept", self.intercept, INTERCEPTS)
        check_solver("linear", self.solver, "Pegasos()")
        flag("early_stopping", self.early_stopping)
        if self.max_feature_reads is not None:
            positive("max_feature_reads", self.max_feature_reads)

    def _check_data(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        whole = "reset" not in options  # and no part of a stream
        return check_source(self, X, y) if whole and is_source(X) else super()._check_data(X, y, **options)

    @staticmethod
    def _layout(X: Any) -> dict[str, Any]:
        """The data as arguments of a problem."""
        if isinstance(X, TwoWays):
            return {"X": X.by_rows, "columns": X.by_columns}
        return {"X": X if isinstance(X, Remote) else as_rows(X)}

    def _solver(self, auto: str, remote: bool = False) -> Any:
        """The configured solver; ``auto`` is the name of the one that "auto" stands for."""
        solver = self.solver
        if isinstance(solver, str):
            solver = solvers.make("linear", auto if solver == "auto" else solver)
        if remote and not solver.capabilities.remote:
            raise ValueError(
                f"X is reached by row and by column only, and {type(solver).__name__} makes passes over it: use "
                "solver='simba', or read X as a whole"
            )
        if self.n_jobs is not None and "n_jobs" in solver.get_params():
            solver = replace(solver, n_jobs=threads(self.n_jobs))
        if self.intercept == "exact" and solver.get_params().get("batch_size") == 1:
            raise ValueError(
                "intercept='exact' minimises b inside each mini-batch, and a batch of 1 leaves nothing to learn but b: "
                "use solver=Pegasos(batch_size=100) or more, or another intercept"
            )
        return solver

    def _auto(self, problem: Problem, state: Any) -> str:
        """The solver that "auto" stands for: it solves the problem, and goes on from the last fit's state, if any."""
        if isinstance(problem.X, Remote):
            return REMOTE
        exact = _solves("auto", problem) and (state is None or solvers.make("linear").can_go_on(problem, state))
        if state is None and self._wants_robust(problem, exact):
            return ROBUST
        return "auto" if exact else ANY

    def _wants_robust(self, problem: Problem, exact: bool) -> bool:
        """Whether "auto" is the interior point; ``exact`` says whether dual ascent can solve the problem."""
        if not _solves(ROBUST, problem):
            return False
        facts = choosing.Facts.of(problem, float(self.tol))
        if exact and facts.d <= FEW_FEATURES and facts.ratio > UNLIKE:
            return True
        if not choosing.has_time(self, facts):
            return False
        return choosing.RULE.prefers_interior(facts, self.max_iter) if exact else facts.work <= choosing.MOST_WORK

    def _problem(self, X: Any, y: np.ndarray, target: Any, weights: np.ndarray, outputs: int = 1) -> Problem:
        """The problem of more examples; λ is that of all examples seen by then."""
        self._seen += y.shape[0]
        return Problem(
            y=y, target=target, lam=self._lam(int(self._seen)), sample_weight=weights, intercept=self.intercept,
            n_outputs=outputs, **self._layout(X),
        )  # fmt: skip

    def _check_features(self, problem: Problem) -> None:
        """Refuse features that are too large to compute with, and warn of features that are too small for C."""
        loss, y, slope = losses.scalar_loss(problem.target), problem.y, 1.0
        if loss.lipschitz == math.inf:
            slope = loss.smoothness * (1.0 if problem.n_outputs > 1 else max(1.0, float(np.abs(y).max())))
        check_features(problem.X, problem.C, self.intercept, slope * problem.mean_weight)

    def _attributes(self, model: LinearModel) -> dict[str, Any]:
        return {"coef_": model.coef, "intercept_": model.intercept}

    def _adopt(self, model: LinearModel) -> None:
        self.__dict__.update(self._attributes(model))

    def _fit_problem(self, problem: Problem, started: float, X: Any, y: Any, labels: np.ndarray | None) -> None:
        """Train on a problem; go on from the last state when ``warm_start`` asks for it."""
        if problem.is_open:
            self._check_features(problem)
        rng = self._generator()
        # 1) the examples that are held out, and coordinates in which rows stand around the origin
        problem, validation = self._held_out(problem, labels, rng)
        given, outer = problem, lambda model: model
        moved = None if self.warm_start else Coordinates.of(problem)
        if moved is not None:
            problem, outer = moved.inner(problem), moved.outer
            validation = None if validation is None else moved.inner(validation)
        # 2) the solver, and the state that it goes on from
        solver, problem, last = self._solver_for(problem)
        state = history = None
        if last is not None:
            # copies: a fit that fails leaves the old state as it was
            state, history = self._go_on(solver, problem, copy.deepcopy(last), rng), History(list(self.history_))
        # 3) the run; scores in the user's own coordinates are rounded more, which the rest of tol is for
        shown = Shown(X, y, lambda model: self._attributes(outer(model)), lambda model: self._finished(outer(model)))
        turn = Turn(started, tol=None if moved is None else 0.5 * float(self.tol))
        outcome = self._run(solver, problem, turn, shown, state=state, rng=rng, validation=validation, history=history)
        # 4) the attributes, the state in the user's coordinates, and the certificate
        self._state, model = outcome.state, outer(outcome.model)
        self._adopt(model)
        if moved is not None:
            self._state = self._at_last_weights(solvers.make("linear", "pegasos"), given, outcome.state, rng)
        self._certify(solver, problem, None if moved is None else given, model, outcome)
        if not outcome.state.resumes:
            outcome.state.drop_workspace()  # nobody goes on from it
        gap = None if self.certificate_ is None else self.certificate_.relative_gap
        self._warn_if_unfinished(replace(outcome, stop_reason=self.stop_reason_), gap)

    def _held_out(
        self, problem: Problem, labels: np.ndarray | None, rng: np.random.Generator
    ) -> tuple[Problem, Problem | None]:  # fmt: skip
        """(the problem to train on, the problem of the examples that early stopping holds out or None)."""
        if not self.early_stopping:
            return problem, None
        if isinstance(problem.X, Remote):
            raise ValueError("early_stopping holds rows out, and X is reached by row and by column only: switch it off")
        training, chosen = held_out(rng, problem.n, self.validation_fraction, labels, problem.sample_weight)
        return problem.take(training), problem.take(chosen)

    def _solver_for(self, problem: Problem) -> tuple[Any, Problem, Any]:
        """(solver, the problem with rows as the solver reads them, the last fit's state to go on from or None)."""
        state = getattr(self, "_state", None) if self.warm_start else None
        if state is not None and not state.resumes:
            state = None  # an interior point of another problem is no start
        auto = self._auto(problem, state) if self.solver == "auto" else ""
        solver = self._solver(auto, isinstance(problem.X, Remote))
        if problem.columns is not None and not solver.capabilities.remote:  # passes want rows, each in one piece
            problem = replace(problem, X=as_rows(as_matrix(problem.X)), columns=None)
        return solver, problem, state if solver.state_class.resumes else None

    def _certify(
        self, solver: Any, problem: Problem, given: Problem | None, model: LinearModel, outcome: Outcome
    ) -> None:
        """Set the certificate of the model that was learnt, and correct the reason for which training ended.

        ``problem`` was solved; ``given`` is the problem in the user's coordinates, None where these are the same.
        """
        known = "gap" in outcome.history.rows[-1] and outcome.state.tight
        if not solver.certifies(problem):
            self.certificate_ = None
            return
        # after a time limit or Ctrl-C nobody waits for a dual value: the best that was seen stands, or zero
        primal, dual = outcome.objective, max(float(outcome.dual), 0.0)
        if outcome.stop_reason not in ("max_seconds", "interrupted") and not known:
            try:
                if outcome.is_last:
                    found = solver.certificate(problem, outcome.state)
                else:
                    found = problem.certificate(outcome.W, outcome.b)
                if found is not None:
                    primal, dual = found.primal, max(dual, found.dual)
            except KeyboardInterrupt:
                self.stop_reason_ = "interrupted"
        if given is not None:  # scores in the user's coordinates have errors of their own
            W, b = np.ascontiguousarray(model.coef.T), model.intercept
            penalty, loss = given.penalty(W, b), float(given.output_losses(W, b).sum())
            primal, lost = penalty + loss, given.lost_by_rounding(penalty, b, loss, given.squared_lengths())
            dual = max(0.0, dual - lost)
        self.certificate_ = Certificate(primal, dual, primal - dual)
        gap, reason = self.certificate_.relative_gap, self.stop_reason_
        self.stop_reason_ = certified(reason, gap, self.tol, known)
        silent = self.stop_reason_ == "settled" or (self.stop_reason_ == "max_iter" and not outcome.doubt)
        if self.tol > 0.0 and not known and silent and gap > TELLING:
            warn(
                f"{type(self).__name__} ended with next to nothing proven of its objective (a relative duality gap of "
                f"{gap:.1e}, stop_reason_={self.stop_reason_!r}): use a solver that proves its gap, such as 'sdca', or "
                "lower tol and raise max_iter",
                ConvergenceWarning,
            )

    def _go_on(self, solver: Any, problem: Problem, state: Any, rng: np.random.Generator) -> Any:
        """The last fit's state, bound to the problem; or one at the last weights, if "auto" is another solver now."""
        own = isinstance(state, solver.state_class)
        if not own and self.solver != "auto":
            raise ValueError("warm_start cannot change the solver: set warm_start=False to start anew")
        shape, known = (problem.d, problem.n_outputs), np.atleast_2d(self.coef_).T.shape
        if known != shape:
            raise ValueError(
                f"warm_start needs the shape of the last fit, {known} (features, outputs), got {shape}: "
                "set warm_start=False to start anew"
            )
        solver.check(problem)
        if not own:
            return self._at_last_weights(solver, problem, state, rng)
        solver.bind(problem, state)
        return state

    def _at_last_weights(self, solver: Any, problem: Problem, state: Any, rng: np.random.Generator) -> Any:
        """A solver's state at the weights that another solver has learnt, with the counters of its state."""
        model = LinearModel(np.atleast_2d(self.coef_), self.intercept_)
        return solver.init(problem, rng, model, replace(state.counters))

    # -- streams: see :mod:`.fit.streaming`

    def _has_way_back(self, state: Any) -> bool:
        return False

    def _measured(self, solver: Any, problem: Problem, state: Any, stopped: bool) -> dict[str, float]:
        return {}

    def _can_stream(self) -> bool:
        """Whether the solver can learn from parts; "auto" streams with the solver that takes anything."""
        cls = type(self.solver)
        if isinstance(self.solver, str) and self.solver in solvers.REGISTRY["linear"]:
            cls = solvers.solver_class("linear", self.solver)
        able = getattr(cls, "capabilities", None)  # None of "auto", and of what ``fit`` will refuse in a sentence
        if able is not None and not able.streams:
            raise AttributeError(
                f"partial_fit needs the solver {ANY!r}: {cls.__name__} keeps a variable for each example"
            )
        return True

    def _start_anew(self) -> None:
        if self.warm_start:
            self._refuse_without_state("warm_start")
        self.__dict__.pop("_only_predicts", None)
        self._seen = 0.0

    def _begin_part(self, problem: Problem) -> tuple[Any, Any]:
        if self.intercept == "search":
            raise ValueError("intercept='search' trains anew for each b: use it with fit, or another intercept here")
        self._check_features(problem)
        solver = self._solver(ANY)
        # a stream's part has the size it has, so batches may be smaller; its order is the stream's
        solver.check_batch_size()
        solver = replace(solver, batch_size=min(solver.batch_size, problem.n), sampling="fixed")
        solver.check(problem)
        state = getattr(self, "_state", None)
        if isinstance(state, solver.state_class):
            return solver, replace(state)
        rng = self._generator()
        if state is not None:
            return solver, self._at_last_weights(solver, problem, state, rng)
        if Coordinates.of(problem) is not None:
            warn(
                f"{type(self).__name__}: these rows lie far from the origin for their spread, and a stream is not "
                "centred, so little can be learnt: subtract the same row, such as the mean of the first part, from all "
                "that is learnt and predicted",
                UserWarning,
            )
        return solver, solver.init(problem, rng)

    def _slices(self, solver: Any, problem: Problem) -> list[tuple[Any, int]]:
        rest = problem.n % solver.batch_size
        last = [(replace(solver, batch_size=rest), 1)] if rest else []
        return [(solver, problem.n // solver.batch_size), *last]

    def _adopt_part(self, solver: Any, problem: Problem, state: Any, passes: float, seconds: float) -> None:
        self._adopt(solver.model(problem, state))

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if is_source(X):
            return self._scores_of_source(check_source(self, X, reset=False))
        X = check_rows(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(LinearModel(np.atleast_2d(self.coef_), self.intercept_).scores(X), X)

    def _scores_of_source(self, X: Any) -> np.ndarray:
        """Scores of rows that are fetched, some megabytes at a time."""
        (n, d), rows = X.shape, self._layout(X)["X"]
        blocks = np.split(np.arange(n), range(height := max(1, 2**20 // d), n, height))
        return np.concatenate([self._scores(as_matrix(take_rows(rows, block))) for block in blocks])


@savable(**learnt("classes_", "coef_", "intercept_", coef_=_COEF, intercept_=_INTERCEPT, _state=_STATE))
@documented
class LinearSVC(StreamedClassifier, _Linear):
    """Linear support vector classification at any scale.

    It minimises, with labels ±1 for two classes, ::

        λ/2 ‖w‖² + 1/n Σᵢ sᵢ ℓ(yᵢ (⟨w, xᵢ⟩ + b)),    λ = 1/(C n),

    where sᵢ are the weights of the examples. This is the problem of ``sklearn.svm.LinearSVC`` at the
    same ``C`` and loss. More classes are trained one against the rest, or jointly. Use it for text and
    other sparse data, for many examples, and wherever a linear model will do.

    Parameters
    ----------
    {C}
    {loss:binary}
    solver : {"auto", "sdca", "interior", "pegasos", "simba"} or a configured solver, default="auto"
        The method that trains. "auto" takes "sdca" or "interior", whichever should arrive sooner, and
        "pegasos" where neither can be used. "sdca" is dual coordinate ascent: exact, with a proven gap,
        for ``multi_class="ovr"`` and all intercepts but "exact" and "search". "interior" is an
        interior-point method: exact, unmoved by the sizes of features and by a large C, for few
        features and all losses but the joint and the Huberised ones. "pegasos" is stochastic gradient
        descent: it has all intercepts and the joint losses, and is what ``partial_fit`` uses. "simba"
        reads one row and one column per step, for features that are expensive to look at, and has the
        hinge only. A solver object sets the options of a method: ``Pegasos(batch_size=16)``.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        How more than two classes are told apart. "ovr" trains one classifier per class against the
        rest. "crammer_singer" trains one joint loss: the multi-class hinge for ``loss="hinge"``, the
        multi-class log-loss for ``loss="log"``.
    {intercept:linear}
    {class_weight}
        Where a class is trained against the rest, each example keeps the weight of its own class.
    cost_matrix : array of shape (n_classes, n_classes) or None, default=None
        The costs of errors, for ``multi_class="crammer_singer"`` with ``loss="hinge"``. Entry [r, y] is
        the cost of predicting class r where class y is true.
    {lam}
    {tol:linear}
    {max_iter:epochs}
    {max_seconds}
    {max_feature_reads}
    {early_stopping}
    {validation_fraction}
    {n_iter_no_change}
    {warm_start:linear}
    {n_jobs:linear}
    {random_state}
    {checkpoint}
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    {coef_:classes}
    {intercept_:classes}
    {classes_}
    {history_}
    {certificate_:linear}
    {stop_reason_:linear}
    {n_iter_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    LinearSVR : The same for regression.
    SVC : With a kernel.
    widemargin.data.train : Training on files that do not fit in memory.

    Notes
    -----
    In ``partial_fit`` λ is 1/(C n) with n the number of examples seen so far, and "balanced" class
    weights come from the counts so far. ``intercept="search"`` and early stopping need all examples and
    belong to ``fit``.

    "sdca" and "pegasos" want features of like size: scale them first.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> model = LinearSVC(C=1.0, random_state=0).fit(X, y)
    >>> model.stop_reason_
    'tol'
    >>> bool(model.certificate_.relative_gap <= 1e-3)
    True
    >>> model.predict(X[:3]).shape
    (3,)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: Any = "hinge",
        solver: Any = "auto",
        multi_class: str = "ovr",
        intercept: str = "regularized",
        class_weight: Mapping[Any, float] | str | None = None,
        cost_matrix: Any = None,
        lam: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        max_feature_reads: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: float = 60,
        callbacks: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    # -- what is minimised

    def _check_parameters(self) -> None:
        super()._check_parameters()
        loss = losses.as_loss(self.loss, losses.BINARY)
        one_of("multi_class", self.multi_class, ("ovr", "crammer_singer"))
        if self.multi_class == "crammer_singer" and loss.name not in losses.JOINT:
            raise ValueError(
                f"multi_class='crammer_singer' has the losses {', '.join(map(repr, losses.JOINT))}, got {self.loss!r}: "
                "choose one of them or multi_class='ovr'"
            )
        if self.cost_matrix is not None and (self.multi_class != "crammer_singer" or loss.name != "hinge"):
            raise ValueError("cost_matrix needs multi_class='crammer_singer' and loss='hinge': set both, or drop it")

    def _problem_of_part(self, X: Any, codes: np.ndarray, weights: np.ndarray, class_weight: np.ndarray) -> Problem:
        """The problem of more examples, for class indices ``codes``."""
        target, outputs = target_of(self.classes_.size, self.loss, self.multi_class, class_weight, self.cost_matrix)
        if self.class_weight is not None and not isinstance(target, losses.OneVsRest):
            weights = weighted(class_weight[codes], weights)
        return self._problem(X, targets_of(codes, outputs), target, weights, outputs)

    # -- fitting

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on (X, y), from scratch unless ``warm_start`` is set.

        A :class:`sklearn.exceptions.ConvergenceWarning` says when training ended short of ``tol``.

        Parameters
        ----------
        X : array, sparse matrix or source of shape (n, n_features)
            The examples. float32 and float64 data, dense in C order or CSR, is used without a copy.
            Data that is reached by row and by column only (:class:`widemargin.Source`) is learnt by
            "simba"; :class:`widemargin.TwoWays` holds a matrix in both layouts.
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
        >>> from widemargin import LinearSVC
        >>> LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]).classes_.tolist()
        ['no', 'yes']
        """
        started, X, y, weights = self._begin(X, y, sample_weight)
        codes = self._encode(y, goes_on=self.warm_start and hasattr(self, "classes_"))
        self._check_weights(codes, weights)
        self._start_anew()
        self._counts = np.zeros(self.classes_.size)
        problem = self._problem_of_part(X, codes, weights, self._count_part(codes, weights))
        self._fit_problem(problem, started, X, y, codes if self.early_stopping else None)
        return self

    # -- predicting

    @available_if(_is_logistic)
    @as_given
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of the probabilities of :meth:`predict_proba`.

        They are computed directly, so that they are finite where a probability rounds to 0.

        Parameters
        ----------
        {X:rows}

        Returns
        -------
        ndarray of shape (n, n_classes)
            The logarithms, with a column per class in the order of ``classes_``.

        Examples
        --------
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC(loss="log").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> bool((model.predict_log_proba([[0.5], [2.5]]) < 0.0).all())
        True
        """
        scores = self._scores(X)
        if self.multi_class == "crammer_singer":
            return log_softmax(scores, axis=1)
        if scores.shape[1] == 1:
            return log_expit(np.hstack([-scores, scores]))
        return log_softmax(log_expit(scores), axis=1)

    @available_if(_is_logistic)
    @as_given
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, for ``loss="log"`` only.

        For two classes they are 1/(1 + exp(−z)) of the score z. For several classes against the rest,
        each of these is divided by their sum. For the joint loss they are exp(z_c)/Σ exp(z_r). For
        other losses wrap the estimator in scikit-learn's ``CalibratedClassifierCV``.

        Parameters
        ----------
        {X:rows}

        Returns
        -------
        ndarray of shape (n, n_classes)
            The probabilities, with a column per class in the order of ``classes_``. Each row sums to 1.

        Raises
        ------
        AttributeError
            If the loss is another one.

        Examples
        --------
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC(loss="log").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.predict_proba([[0.5], [2.5]]).round(6).sum(axis=1).tolist()
        [1.0, 1.0]
        """
        return np.exp(self.predict_log_proba(X))


@savable(**learnt("coef_", "intercept_", coef_=Array("d", dtype=FLOATS), intercept_=_INTERCEPT, _state=_STATE))
@documented
class LinearSVR(StreamedRegressor, _Linear):
    """Linear support vector regression at any scale.

    It minimises ::

        λ/2 ‖w‖² + 1/n Σᵢ sᵢ max(0, |⟨w, xᵢ⟩ + b − yᵢ| − ε)ᵖ,    λ = 1/(C n),

    with p = 1 for ``loss="epsilon_insensitive"`` and p = 2 for ``loss="squared_epsilon_insensitive"``.
    This is the problem of ``sklearn.svm.LinearSVR`` at the same ``C``, ``epsilon`` and loss.

    Parameters
    ----------
    {epsilon}
    {C}
    {loss:regression}
    solver : {"auto", "sdca", "interior", "pegasos", "simba"} or a configured solver, default="auto"
        The method that trains, as in :class:`LinearSVC`. "auto" takes "sdca" or "interior", which stop
        at a proven gap, and "pegasos" where neither can be used. "simba" is for classification and is
        refused.
    {intercept:linear}
    {lam}
    {tol:linear}
    {max_iter:epochs}
    {max_seconds}
    {max_feature_reads}
    early_stopping : bool, default=False
        Whether to hold out ``validation_fraction`` of the examples and to stop when their weighted mean
        absolute error has not improved at ``n_iter_no_change`` checkpoints in a row. The best model
        seen is kept.
    {validation_fraction}
    {n_iter_no_change}
    {warm_start:linear}
    {n_jobs:linear}
    {random_state}
    {checkpoint}
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    {coef_}
    {intercept_}
    {history_}
    {certificate_:linear}
    {stop_reason_:linear}
    {n_iter_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    LinearSVC : The same for classification.
    SVR : With a kernel.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from widemargin import LinearSVR
    >>> X, y = make_regression(n_samples=60, n_features=5, noise=1.0, random_state=0)
    >>> model = LinearSVR(C=10.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.coef_.shape
    (5,)
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        C: float = 1.0,
        loss: Any = "epsilon_insensitive",
        solver: Any = "auto",
        intercept: str = "regularized",
        lam: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        max_feature_reads: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        warm_start: bool = False,
        n_jobs: int | None = None,
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
        self._loss()
        refuse_twice(self, "loss", "epsilon")

    def _loss(self) -> Any:
        return losses.as_loss(self.loss, losses.REGRESSION, float(self.epsilon))

    def _problem_of_part(self, X: Any, y: np.ndarray, weights: np.ndarray) -> Problem:
        return self._problem(X, y, losses.Single(self._loss()), weights)

    def _attributes(self, model: LinearModel) -> dict[str, Any]:
        return {"coef_": model.coef[0], "intercept_": model.intercept}

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on (X, y), from scratch unless ``warm_start`` is set.

        A :class:`sklearn.exceptions.ConvergenceWarning` says when training ended short of ``tol``.

        Parameters
        ----------
        {X:examples}
            Data in C order or in CSR is used without a copy.
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
        >>> from widemargin import LinearSVR
        >>> LinearSVR().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).stop_reason_
        'tol'
        """
        started, X, y, weights = self._begin(X, y, sample_weight)
        self._start_anew()
        self._fit_problem(self._problem_of_part(X, y, weights), started, X, y, None)
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
        >>> from widemargin import LinearSVR
        >>> LinearSVR().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).predict([[0.5], [1.5]]).shape
        (2,)
        """
        return self._scores(X)[:, 0]
