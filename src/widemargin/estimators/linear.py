"""Linear support vector machines with scikit-learn's conventions."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_expit, log_softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .. import solvers
from ..core import losses
from ..core.rows import as_matrix, as_rows
from ..files import savable
from ..history import History, Stopwatch
from ..models import LinearModel
from ..problems.linear import Problem
from ..problems.objective import INTERCEPTS, Certificate
from ..running import Interrupts
from .fitting import (
    Shown,
    TrainedByRun,
    Turn,
    all_or_nothing,
    check_rows,
    check_sample_weight,
    check_solver,
    class_weights,
    generator,
    held_out,
    not_negative,
    now,
    numeric_targets,
    one_of,
    positive,
    threads,
    with_callbacks,
)
from .scaling import check_features, finite

#: The solver that "auto" turns to where the exact one cannot go: streams, joint losses, other intercepts.
ANY = "pegasos"
#: The one that it turns to where features are few and the largest is so many times the size of the median one.
ROBUST, FEW_FEATURES, UNLIKE = "interior", 200, 100.0


def _streams(estimator: Any) -> bool:
    """Whether the solver can learn from parts; "auto" streams with the solver that takes anything."""
    solver = estimator.solver
    if isinstance(solver, str):
        if solver not in solvers.REGISTRY["linear"]:
            return True  # "auto", or what ``fit`` will refuse in a sentence
        solver = solvers.solver_class("linear", solver)
    if not getattr(solver, "streams", True):
        name = solver.__name__ if isinstance(solver, type) else type(solver).__name__
        raise AttributeError(f"partial_fit needs the solver {ANY!r}: {name} keeps a variable for each example")
    return True


def _is_logistic(estimator: Any) -> bool:
    """Whether the loss is the logistic one, so that scores are log-odds; raises if not."""
    if estimator.loss != "log":
        raise AttributeError(f"probabilities need loss='log', got {estimator.loss!r}: its scores are no log-odds")
    return True


class _Linear(TrainedByRun):
    """What the linear classifier and regressor share."""

    C: float
    lam: float | None
    loss: str
    solver: Any
    intercept: str
    early_stopping: bool
    validation_fraction: float
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    classes_: np.ndarray
    history_: Any
    certificate_: Any
    _state: Any

    def _check_parameters(self) -> None:
        positive("C", self.C)
        if self.lam is not None:
            positive("lam", self.lam)
        one_of("intercept", self.intercept, INTERCEPTS)
        check_solver("linear", self.solver, "Pegasos()")
        if not isinstance(self.early_stopping, (bool, np.bool_)):
            raise TypeError(f"early_stopping must be True or False, got {self.early_stopping!r}")
        self._check_limits()

    def _solver(self, exact: bool, robust: bool = False) -> Any:
        """The solver in use; "auto" is the exact one where it can be, else the one that takes anything."""
        if not isinstance(self.solver, str):
            solver = self.solver
        else:
            name = self.solver
            if name == "auto":
                name = ANY if not exact else ROBUST if robust else name
            solver = solvers.make("linear", name)
        if self.n_jobs is not None and "n_jobs" in solver.get_params():
            solver = replace(solver, n_jobs=threads(self.n_jobs))
        if self.intercept == "exact" and solver.get_params().get("batch_size") == 1:
            raise ValueError(
                "intercept='exact' minimises b inside each mini-batch, and a batch of 1 leaves nothing to learn but b: "
                "use solver=Pegasos(batch_size=100) or more, or another intercept"
            )
        return solver

    def _wants_robust(self, problem: Problem) -> bool:
        """Whether features are few, and of sizes so different that coordinate ascent takes for ever."""
        if self.solver != "auto" or problem.d > FEW_FEATURES or problem.ratio_of_sizes() <= UNLIKE:
            return False
        try:
            solvers.make("linear", ROBUST).check(problem)
        except ValueError:
            return False
        return True

    def _exactly(self, problem: Problem, state: Any) -> bool:
        """Whether the solver that "auto" prefers can solve the problem, and go on from the last fit's state."""
        preferred = solvers.make("linear")
        try:
            preferred.check(problem)
        except ValueError:
            return False
        return state is None or preferred.can_go_on(problem, state)

    def _check_features(self, problem: Problem) -> None:
        """Refuse features that are too large to compute with, and warn of those that C cannot use."""
        loss, y, slope = losses.scalar_loss(problem.target), problem.y, 1.0
        if loss.lipschitz == math.inf:
            slope = loss.smoothness * (1.0 if problem.n_outputs > 1 else max(1.0, float(np.abs(y).max())))
        check_features(as_matrix(problem.X), problem.C, self.intercept, slope * problem.mean_weight)

    def _lam(self, n: int) -> float:
        return float(self.lam) if self.lam is not None else 1.0 / (self.C * n)

    def _attributes(self, model: LinearModel) -> dict[str, Any]:
        return {"coef_": model.coef, "intercept_": model.intercept}

    def _adopt(self, model: LinearModel) -> None:
        for name, value in self._attributes(model).items():
            setattr(self, name, value)

    def _fit_problem(self, problem: Problem, started: float, X: Any, y: Any, labels: np.ndarray | None) -> None:
        """Train on a problem; go on from the last state when ``warm_start`` asks for it."""
        self._check_features(problem)
        rng = generator(self.random_state)
        validation = None
        if self.early_stopping:
            training, holdout = held_out(rng, problem.n, self.validation_fraction, labels, problem.sample_weight)
            validation, problem = problem.take(holdout), problem.take(training)
        state = getattr(self, "_state", None) if self.warm_start else None
        if state is not None and not state.resumes:
            state = None  # an interior point of another problem is no start
        solver = self._solver(self._exactly(problem, state), state is None and self._wants_robust(problem))
        history = None
        if state is not None and solver.resumes:
            # copies: a fit that fails leaves the old state as it was
            state, history = self._go_on(solver, problem, copy.deepcopy(state), rng), History(list(self.history_))
        else:
            state = None
        outcome = self._run(
            solver, problem, Turn(started), Shown(X, y, self._attributes), state=state, rng=rng,
            validation=validation, history=history,
        )  # fmt: skip
        self._state = outcome.state
        self._adopt(outcome.model)
        gap = outcome.history.rows[-1].get("gap")
        # whoever is out of patience does not wait for a dual value; the best that was seen stands, or the trivial one
        dual = max(outcome.dual, 0.0)
        self.certificate_ = Certificate(outcome.objective, dual, outcome.objective - dual)
        if outcome.stop_reason not in ("max_seconds", "interrupted") and gap is None:
            try:
                self.certificate_ = problem.certificate(outcome.W, outcome.b)
            except KeyboardInterrupt:
                self.stop_reason_ = "interrupted"
        self._warn_if_unfinished(outcome)

    def _go_on(self, solver: Any, problem: Problem, state: Any, rng: np.random.Generator) -> Any:
        """The last fit's state, bound to the problem; for a solver that "auto" turned to, one at the last weights."""
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
        """A state at the weights of another solver, as many steps old as that made visits."""
        model = LinearModel(np.atleast_2d(self.coef_), self.intercept_)
        return solver.init(problem, rng, model, replace(state.counters))

    def _partial_fit_problem(self, problem: Problem, started: float) -> None:
        """One pass over the examples in the order given, from the last state on."""
        self._check_features(problem)
        solver = self._solver(exact=False)
        # a stream's part has the size it has, so batches may be smaller; its order is the stream's
        solver.check_batch_size()
        solver = replace(solver, batch_size=min(solver.batch_size, problem.n), sampling="fixed")
        solver.check(problem)
        state = getattr(self, "_state", None)
        if state is None:
            state = solver.init(problem, generator(self.random_state))
        elif isinstance(state, solver.state_class):
            state = replace(state)
        else:
            state = self._at_last_weights(solver, problem, state, generator(self.random_state))
        solver.bind(problem, state, in_order=True)
        solver.advance(problem, state, 0)
        with Interrupts() as interrupts:  # Ctrl-C waits for the end of the pass
            self._undo = "forget"  # weights change in place
            with Stopwatch() as watch:
                solver.advance(problem, state, problem.n // solver.batch_size)
                rest = problem.n % solver.batch_size
                if rest:
                    replace(solver, batch_size=rest).advance(problem, state, 1)
            self._state = state
            self._adopt(solver.model(problem, state))
            self.n_iter_ = 1
            self.stop_reason_ = "interrupted" if interrupts.seen else "partial_fit"
            self.certificate_ = None  # what was proven of older weights does not hold for these
            self.history_ = getattr(self, "history_", None) or History()
            seconds, epochs = self.history_.last("seconds"), self.history_.last("epochs")
            self.history_.append(state.counters, epochs=epochs + 1.0, seconds=seconds + watch.seconds)
            self._undo = "keep"
        if interrupts.seen:
            raise KeyboardInterrupt(f"partial_fit: the model has learnt these {problem.n} examples too")

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(LinearModel(self.coef_, self.intercept_).decision_function(X), X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@savable()
class LinearSVC(ClassifierMixin, _Linear):
    """Linear support vector classification at any scale.

    Minimises, with labels ±1 for two classes,

    .. math:: \\frac{\\lambda}{2} \\|w\\|^2 + \\frac1n \\sum_i s_i \\, \\ell(y_i (\\langle w, x_i\\rangle + b)),
              \\qquad \\lambda = \\frac{1}{C n},

    which is the problem of ``sklearn.svm.LinearSVC`` at the same ``C``. More classes are
    treated one against the rest, or jointly.

    Parameters
    ----------
    C : float, default=1.0
        Trade-off: larger values fit the training set more closely.
    loss : {"hinge", "squared_hinge", "log"}, default="hinge"
    solver : {"auto", "sdca", "interior", "pegasos"} or a configured solver, default="auto"
        The method, or a configured one: ``Pegasos(batch_size=16, average="weighted")``, ``SDCA(n_jobs=2)``. "sdca" is
        exact, and stops at a proven duality gap; it has ``intercept="regularized"`` or "none" and
        ``multi_class="ovr"``, and keeps a variable for each example and class. "pegasos" has all intercepts and the
        joint losses, and learns from streams; it bounds its distance to the optimum loosely, if at all. "auto" is
        "sdca" where it can be, else "pegasos", and always "pegasos" in ``partial_fit``. Both want features of like
        size. "interior" minds neither their sizes nor a large C (while C n ‖x‖² is below 1e20 or so, where rounding
        ends what can be proven): some thirty passes to a gap of 1e-6, for data with few features (a pass is n × d²
        work) and any loss but the log-loss. "auto" turns to it where few features differ much in size.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        One classifier per class against the rest, or one joint loss: the multi-class
        hinge (``loss="hinge"``) or the multi-class log-loss (``loss="log"``).
    intercept : {"regularized", "none", "unregularized", "exact", "search"}, default="regularized"
        "regularized": the weight of a constant feature, as in LIBLINEAR; "unregularized":
        sub-gradient steps on b without penalty; "exact": b minimised inside each
        mini-batch, for large batches; "search": an outer search over b.
    class_weight : dict, "balanced" or None
        Weights of the classes. Against the rest, the weight is that of the class's own examples.
    cost_matrix : array of shape (n_classes, n_classes), optional
        For ``multi_class="crammer_singer", loss="hinge"``: entry [r, y] is the cost of
        predicting class r where class y is true.
    lam : float, optional
        λ itself; overrides ``C``.
    tol : float, default=1e-3
        "sdca": stop at this relative duality gap. "pegasos": stop when the objective changed by less than this share
        of itself while the number of epochs doubled, and no step scaled to each feature gains more than that.
        0 switches it off.
    max_iter : int, default=1000
        Most epochs (passes over the examples).
    max_seconds : float, optional
        Wall-clock limit, everything included; the model so far is kept.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the examples, stop when their error, weighted as the loss is
        (``sample_weight``, ``class_weight``), has not improved for ``n_iter_no_change`` checkpoints, and keep the best
        weights.
    warm_start : bool, default=False
        Go on from the last fit.
    n_jobs : int, optional
        Threads of "sdca" on sparse data with more features than examples, where they share the features of each row;
        the result then depends on their number, within ``tol``, but never on timing. All else is done by one thread.
    random_state : int, Generator, RandomState or None
    callbacks : callable or list of callables, optional
        Called with a :class:`widemargin.running.Progress` at each checkpoint; returning
        ``True`` stops the training.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray
    history_ : History
        A row per checkpoint: seconds, epochs, counters, objective, …; ``history_.to_frame()``.
    certificate_ : Certificate
        Primal value, dual value, and the gap that bounds the distance to the optimum: at most ``tol`` of the objective
        after "sdca" stopped by it. Pegasos keeps no dual variables, and its gap is often as large as the objective.
    stop_reason_ : str
        "tol", "max_iter", "max_seconds", "early_stopping", "callback" or "interrupted".
    n_iter_ : int
        Epochs done.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC
    >>> X, y = make_classification(n_samples=500, class_sep=2.0, random_state=0)
    >>> model = LinearSVC(C=1.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.stop_reason_
    'tol'
    """

    def __init__(
        self,
        C=1.0,
        *,
        loss="hinge",
        solver="auto",
        multi_class="ovr",
        intercept="regularized",
        class_weight=None,
        cost_matrix=None,
        lam=None,
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=3,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        callbacks=None,
        verbose=0,
    ):
        self.C = C
        self.loss = loss
        self.solver = solver
        self.multi_class = multi_class
        self.intercept = intercept
        self.class_weight = class_weight
        self.cost_matrix = cost_matrix
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    # -- what is minimised

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of("loss", self.loss, losses.BINARY)
        one_of("multi_class", self.multi_class, ("ovr", "crammer_singer"))
        if self.multi_class == "crammer_singer" and self.loss not in losses.JOINT:
            raise ValueError(
                f"multi_class='crammer_singer' has the losses {', '.join(map(repr, losses.JOINT))}, got {self.loss!r}: "
                "choose one of them or multi_class='ovr'"
            )
        if self.cost_matrix is not None and (self.multi_class != "crammer_singer" or self.loss != "hinge"):
            raise ValueError("cost_matrix needs multi_class='crammer_singer' and loss='hinge': set both, or drop it")

    def _target(self, positive_weight: np.ndarray) -> tuple[Any, int]:
        """(target, number of outputs) for the classes known."""
        n_classes = self.classes_.size
        if self.multi_class == "crammer_singer":
            if self.loss == "log":
                return losses.MulticlassLog(), n_classes
            try:
                cost = 1.0 - np.eye(n_classes) if self.cost_matrix is None else np.asarray(self.cost_matrix, np.float64)
            except (ValueError, TypeError) as error:
                raise type(error)(f"cost_matrix must hold numbers: {error}") from error
            if cost.shape != (n_classes, n_classes):
                raise ValueError(f"cost_matrix must have shape ({n_classes}, {n_classes}), got {cost.shape}")
            wrong = ~np.isfinite(cost) | (cost < 0) | (np.eye(n_classes, dtype=bool) & (cost != 0))
            if wrong.any():
                r, c = np.argwhere(wrong)[0]
                raise ValueError(
                    f"cost_matrix must be finite, ≥ 0 and zero on its diagonal, got {cost[r, c]} at [{r}, {c}]"
                )
            return losses.MulticlassHinge(np.ascontiguousarray(cost)), n_classes
        loss = losses.BINARY[self.loss]()
        if n_classes == 2:
            return losses.Single(loss), 1
        return losses.OneVsRest(loss, positive_weight), n_classes

    def _problem(self, X: Any, codes: np.ndarray, weights: np.ndarray, counts: np.ndarray, n: int) -> Problem:
        """The problem for class indices ``codes``; λ is that of n examples."""
        of_class = class_weights(self.class_weight, self.classes_, counts)
        target, outputs = self._target(of_class)
        if self.class_weight is not None and not isinstance(target, losses.OneVsRest):
            of_example = of_class[codes.astype(np.intp)]
            weights = of_example * weights if weights.size else of_example
        y = 2.0 * codes - 1.0 if outputs == 1 else codes
        return Problem(as_rows(X), y, target, self._lam(n), weights, self.intercept, outputs)

    # -- fitting

    @all_or_nothing
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on (X, y).

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            float32 and float64, dense C-ordered and CSR data are used without a copy; 64-bit indices that fit into 32
            bits are narrowed.
        y : array of shape (n,)
            Class labels, of any type.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        started = now()
        self._check_parameters()
        X, y = check_rows(self, X, y)
        check_classification_targets(y)
        y = column_or_1d(y)
        weights = check_sample_weight(sample_weight, y.size)
        classes = np.unique(y)
        if classes.size < 2:
            raise ValueError(
                f"LinearSVC needs examples of at least 2 classes, got 1 class only: {classes.tolist()[0]!r}"
            )
        if self.warm_start and hasattr(self, "classes_") and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start needs the classes of the last fit, {self.classes_.tolist()}, got {classes.tolist()}: "
                "set warm_start=False to start anew"
            )
        self.classes_ = classes
        codes = self._codes(y)
        counts = self._count(codes, weights)
        problem = self._problem(X, codes, weights, counts, codes.size)
        self._fit_problem(problem, started, X, y, codes if self.early_stopping else None)
        self._seen, self._counts = float(codes.size), counts
        return self

    @available_if(_streams)
    @all_or_nothing
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train on more examples: one pass over them, in the order given.

        Parameters
        ----------
        X, y : as in :meth:`fit`
        classes : array, needed at the first call
            All the labels that will ever come.
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self

        Notes
        -----
        λ is 1/(C n) with n the number of examples seen so far, and "balanced" class
        weights come from the counts so far. Steps that need a whole problem,
        ``intercept="search"`` and early stopping, belong to ``fit``.
        """
        started = now()
        self._check_parameters()
        if self.intercept == "search":
            raise ValueError("intercept='search' trains anew for each b: use it with fit, or another intercept here")
        first = not hasattr(self, "coef_")
        X, y = check_rows(self, X, y, reset=first)
        y = column_or_1d(y)
        weights = check_sample_weight(sample_weight, y.size)
        if first:
            if classes is None:
                raise ValueError("classes must be given at the first call of partial_fit: all labels that will come")
            classes = np.unique(classes)
            check_classification_targets(classes)
            if classes.size < 2:
                raise ValueError(f"LinearSVC needs at least 2 classes, got 1 class only: {classes.tolist()}")
            self.classes_ = classes
            self._seen, self._counts = 0.0, np.zeros(classes.size)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got {np.unique(classes).tolist()}"
            )
        codes = self._codes(y)
        self._seen += codes.size
        self._counts = self._counts + self._count(codes, weights)
        problem = self._problem(X, codes, weights, self._counts, int(self._seen))
        self._partial_fit_problem(problem, started)
        return self

    def _count(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Examples of each class, each counted with its weight."""
        counts = np.bincount(codes.astype(np.intp), weights if weights.size else None, self.classes_.size)
        return counts.astype(float)

    def _codes(self, y: np.ndarray) -> np.ndarray:
        """The labels as indices into ``classes_``, in float64."""
        places = np.minimum(np.searchsorted(self.classes_, y), self.classes_.size - 1)
        unknown = self.classes_[places] != y
        if unknown.any():
            strange = y[unknown].tolist()[0]
            raise ValueError(
                f"y holds the label {strange!r}, which is not among the classes {self.classes_.tolist()}: "
                "announce all labels with classes= at the first call of partial_fit"
            )
        return places.astype(np.float64)

    # -- predicting

    def decision_function(self, X):
        """Scores: of shape (n,) for two classes (positive means ``classes_[1]``), else (n, n_classes)."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X):
        """The labels with the highest score."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    @available_if(_is_logistic)
    def predict_log_proba(self, X):
        """Logarithms of the probabilities of :meth:`predict_proba`."""
        scores = self._scores(X)
        if self.multi_class == "crammer_singer":
            return log_softmax(scores, axis=1)
        if scores.shape[1] == 1:
            return log_expit(np.hstack([-scores, scores]))
        return log_softmax(log_expit(scores), axis=1)

    @available_if(_is_logistic)
    def predict_proba(self, X):
        """Probabilities of the classes, of shape (n, n_classes), where ``loss="log"``.

        1/(1 + exp(−z)) of the score z; of several classes against the rest, each one's divided by their sum; of a joint
        loss exp(z_c)/Σ exp(z_r).
        """
        return np.exp(self.predict_log_proba(X))


@savable()
class LinearSVR(RegressorMixin, _Linear):
    """Linear support vector regression at any scale.

    Minimises

    .. math:: \\frac{\\lambda}{2} \\|w\\|^2
              + \\frac1n \\sum_i s_i \\max(0, |\\langle w, x_i\\rangle + b - y_i| - \\varepsilon)^p,
              \\qquad \\lambda = \\frac{1}{C n},

    with p = 1 for ``loss="epsilon_insensitive"`` and p = 2 for
    ``loss="squared_epsilon_insensitive"``.

    Parameters
    ----------
    epsilon : float, default=0.0
        Errors up to this size cost nothing, in units of y.
    C : float, default=1.0
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
    solver, intercept, lam, tol, max_iter, max_seconds, early_stopping, validation_fraction, n_iter_no_change, \
    warm_start, n_jobs, random_state, callbacks, verbose
        As in :class:`LinearSVC`; the validation error is the weighted mean absolute error. "auto" is "sdca" for both
        losses, which stops when the relative duality gap is at most ``tol``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)
    history_, certificate_, stop_reason_, n_iter_
        As in :class:`LinearSVC`.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from widemargin import LinearSVR
    >>> X, y = make_regression(n_samples=500, n_features=5, noise=1.0, random_state=0)
    >>> model = LinearSVR(C=10.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        *,
        epsilon=0.0,
        C=1.0,
        loss="epsilon_insensitive",
        solver="auto",
        intercept="regularized",
        lam=None,
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=3,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        callbacks=None,
        verbose=0,
    ):
        self.epsilon = epsilon
        self.C = C
        self.loss = loss
        self.solver = solver
        self.intercept = intercept
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        not_negative("epsilon", self.epsilon)
        one_of("loss", self.loss, losses.REGRESSION)

    def _problem(self, X: Any, y: np.ndarray, weights: np.ndarray, n: int) -> Problem:
        loss = losses.REGRESSION[self.loss](float(self.epsilon))
        return Problem(as_rows(X), y, losses.Single(loss), self._lam(n), weights, self.intercept, 1)

    def _attributes(self, model: LinearModel) -> dict[str, Any]:
        return {"coef_": model.coef[0], "intercept_": model.intercept}

    @all_or_nothing
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on (X, y); see :meth:`LinearSVC.fit`."""
        started = now()
        self._check_parameters()
        X, y = check_rows(self, X, y, y_numeric=True)
        y = numeric_targets(column_or_1d(y))
        weights = check_sample_weight(sample_weight, y.size)
        self._fit_problem(self._problem(X, y, weights, y.size), started, X, y, None)
        self._seen = float(y.size)
        return self

    @available_if(_streams)
    @all_or_nothing
    def partial_fit(self, X, y, sample_weight=None):
        """Train on more examples: one pass over them, in the order given; λ is 1/(C n) with n those seen so far."""
        started = now()
        self._check_parameters()
        if self.intercept == "search":
            raise ValueError("intercept='search' trains anew for each b: use it with fit, or another intercept here")
        first = not hasattr(self, "coef_")
        X, y = check_rows(self, X, y, reset=first, y_numeric=True)
        y = numeric_targets(column_or_1d(y))
        weights = check_sample_weight(sample_weight, y.size)
        self._seen = (0.0 if first else self._seen) + y.size
        self._partial_fit_problem(self._problem(X, y, weights, int(self._seen)), started)
        return self

    def predict(self, X):
        """Predicted targets, of shape (n,)."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(np.asarray(X @ self.coef_) + self.intercept_[0], X)
