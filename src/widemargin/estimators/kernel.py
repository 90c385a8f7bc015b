"""Kernel support vector machines with scikit-learn's conventions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arguments import flag, not_negative, one_of
from ..backends.tensors import as_given
from ..core.kernels.kernels import class_of
from ..core.losses import losses
from ..core.rows.distant import local
from ..files import savable
from ..models import PairsModel
from ..problems.layout import finite_scores
from .fit.fitting import all_or_nothing, with_callbacks
from .fit.jobs import Binaries, Results, one_by_one
from .fit.labels import Labelled, Numeric, class_weights
from .fit.machine import MACHINE, KernelMachine
from .fit.multiclass import train
from .fit.parameters import documented
from .fit.session import Job, Session
from .fit.voting import has_many_pairs, votes_of, with_scores


@savable(**MACHINE)
@documented
class SVC(Labelled, KernelMachine):
    """Kernel support vector classification with a proven duality gap.

    For two classes it minimises ::

        ½ ‖w‖² + C Σᵢ sᵢ max(0, 1 − yᵢ (⟨w, Φ(xᵢ)⟩ + b)),

    the problem of ``sklearn.svm.SVC`` at the same ``C``, until the relative duality gap is at most
    ``tol``. Use it for up to some hundred thousand examples on a CPU, more on a GPU.
    :class:`BudgetedSVC` takes data of any length.

    Parameters
    ----------
    {C}
    {kernel:any}
    {gamma}
    {degree}
    {coef0}
    solver : {"auto", "smo", "sbp", "sdca", "pegasos", "perceptron"} or a configured solver, default="auto"
        The method that trains. "auto" is "smo", the exact one. "sbp", the Stochastic Batch Perceptron,
        has a good classifier soonest and then goes on to the same optimum;
        ``StochasticBatchPerceptron(nu=…)`` solves the slack-constrained form at that ν and ignores C.
        "sdca" is exact too, one coordinate at a time. "pegasos" and "perceptron" are for comparison.
    multi_class : {"ovo", "ovr"}, default="ovo"
        How more than two classes are told apart: one classifier per pair of classes, as in LIBSVM, or
        one per class against the rest. With "sbp" the latter are trained together and share every
        kernel row.
    {intercept:kernel}
        These solvers are "smo" and "sbp".
    {class_weight}
    {cache_size}
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        The shape of the scores of one-vs-one classifiers: (n, n_classes) or (n, n_pairs).
    break_ties : bool, default=False
        Whether equal votes of one-vs-one classifiers are decided by their scores. Otherwise the first
        class wins.
    {lam}
        The value is that of each binary problem.
    {tol:exact}
    {max_iter:epochs}
        The limit is that of each binary problem.
    {max_seconds}
    {early_stopping}
    {validation_fraction}
    {n_iter_no_change}
    {warm_start:kernel}
        It also needs the same classes, and "smo", "sdca" or "sbp".
    n_jobs : int or None, default=None
        The number of threads, −1 for all processors. They share the kernel values, or train pairs of
        classes side by side unless ``callbacks`` or ``verbose`` are set. Their number does not change
        the result.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to train and predict. "cuda" does both on a GPU, by torch (``pip install
        'widemargin[gpu]'``), with the solver "smo" or "sbp". "auto" does so where there is a GPU and
        one of these solvers. Tensors on the GPU are used without a copy.
    {random_state:fixed}
        It decides the order of the examples and what ``early_stopping`` holds out.
    {checkpoint}
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        The rows of the support vectors in the training data, ordered by class.
    {support_vectors_:kernel}
    {n_support_}
    dual_coef_ : ndarray of shape (n_classes − 1, n_support) or (n_classes, n_support)
        The coefficients of the support vectors, in scikit-learn's layout. With ``multi_class="ovr"``
        and more than two classes there is a row per class.
    intercept_ : ndarray of shape (n_problems,)
        The intercepts of the binary problems.
    {coef_:kernel}
    {classes_}
    {shape_fit_}
    {gamma_}
    certificate_ : Certificate, sequence of them or None
        The primal value, the dual value and the gap between them, which bounds how far the objective is
        above its minimum, for the exact kernel. There is one for each binary problem. It is None for an
        indefinite kernel, for a model that early stopping kept, and where time ran out before its value
        was known.
    history_ : History
        One row per checkpoint, with the columns ``problem`` (the number of the binary problem),
        ``seconds``, ``objective``, ``gap``, ``kernel_evals`` and other counters of work.
        ``history_["gap"]`` is a column, ``history_.to_frame()`` a pandas frame.
    {stop_reason_:kernel}
    n_iter_ : ndarray of shape (n_problems,)
        The number of rounds ("smo") or steps of each binary problem.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    SVR : The same for regression.
    svm_path : Many values of C, each from the solution before.
    svm_grid : Cross-validation over C and γ.
    compress : Fewer support vectors, for fast predictions.
    BudgetedSVC : A fixed number of support vectors, for data of any length.

    Notes
    -----
    The loss is the hinge; :class:`LinearSVC` has others.

    For probabilities wrap it: ``CalibratedClassifierCV(SVC())``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC
    >>> X, y = make_moons(80, noise=0.1, random_state=0)
    >>> model = SVC(C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> bool(model.certificate_.relative_gap <= 1e-3)
    True
    >>> bool(model.n_support_.sum() == len(model.support_))
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        solver: Any = "auto",
        multi_class: str = "ovo",
        intercept: str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        cache_size: float | str = "auto",
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        lam: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        warm_start: bool = False,
        n_jobs: int | None = None,
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
        one_of("multi_class", self.multi_class, ("ovo", "ovr"))
        one_of("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo":
            raise ValueError(
                "decision_function_shape='ovo' asks for scores of pairs, and multi_class='ovr' trains none: "
                "use multi_class='ovo', or decision_function_shape='ovr'"
            )
        for name in ("early_stopping", "break_ties"):
            flag(name, getattr(self, name))
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties decides by scores of classes, and decision_function_shape='ovo' has scores of pairs: "
                "use decision_function_shape='ovr'"
            )
        if self.early_stopping and class_of(self.kernel).is_table:
            raise ValueError(
                "early_stopping needs rows to hold out, and a precomputed kernel has none: switch it off or give data"
            )

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on (X, y), from scratch unless ``warm_start`` is set.

        A :class:`sklearn.exceptions.ConvergenceWarning` says when training ended short of ``tol``.

        Parameters
        ----------
        {X:kernel}
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
        >>> from widemargin import SVC
        >>> SVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]).stop_reason_
        'tol'
        """
        self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, start: Any = None) -> Any:
        """Train, from the β of a path's last machine or its solver's state, if given; returns the last state."""
        session, binaries = self._laid_out(X, y, sample_weight, start)
        return train(session, binaries)  # makes jobs, runs and proves them, sets the attributes

    def _laid_out(self, X: Any, y: Any, sample_weight: Any, start: Any = None) -> tuple[Session, Binaries]:
        """The examples checked, the labels encoded, the rows laid out for the kernel."""
        started, X, y, weights = self._begin(X, y, sample_weight)
        codes = self._encode(y, goes_on=self.warm_start and hasattr(self, "support_"))
        self._check_weights(codes, weights)
        of_class = class_weights(self.class_weight, self.classes_, np.bincount(codes).astype(float))
        weighted = weights.size > 0 or self.class_weight is not None
        binaries = Binaries(codes, weights, of_class, weighted, self._in_pairs())
        return self._session(X, y, started, binaries.n_rows, start), binaries

    def _in_pairs(self) -> bool:
        return self.classes_.size > 2 and self.multi_class == "ovo"

    # -- predicting

    @as_given
    def decision_function(self, X: Any) -> Any:
        """Return the scores of rows.

        For two classes a positive score means ``classes_[1]``. For more, the scores of one-vs-one
        classifiers are votes, with the scores of the pairs deciding between equals, unless
        ``decision_function_shape="ovo"`` asks for the pairs themselves.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n,), (n, n_classes) or (n, n_pairs)
            The scores.

        Examples
        --------
        >>> from widemargin import SVC
        >>> model = SVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> (model.decision_function([[0.0], [3.0]]) > 0.0).tolist()
        [False, True]
        """
        check_is_fitted(self)
        if self._in_pairs() and self.decision_function_shape == "ovr":
            return self._votes(X)[1]
        return super().decision_function(X)

    @as_given
    def predict(self, X: Any) -> Any:
        """Return the predicted labels.

        They are decided by the sign of the score for two classes, by the votes of the pairs, or by the
        highest score against the rest.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n,)
            The labels, from ``classes_``.

        Examples
        --------
        >>> from widemargin import SVC
        >>> model = SVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> model.predict([[0.0], [3.0]]).tolist()
        ['no', 'yes']
        """
        check_is_fitted(self)
        if self._in_pairs():
            return self.classes_[self._votes(X)[int(self.break_ties)].argmax(axis=1)]
        return super().predict(X)

    def _votes(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Votes of the pairs for each class, and the same with their scores deciding between equals."""
        votes, sums = np.hsplit(finite_scores(partial(votes_of, self), self._to_score(X)), 2)
        return votes, with_scores(votes, sums)

    def _scores_on_device(self, model: Any) -> bool:
        return super()._scores_on_device(model) and not has_many_pairs(model)

    def _scored(self, model: Any, X: Any) -> np.ndarray:
        """As of all kernel machines; a GPU has a coefficient for each pair and vector, or none if they are too many."""
        if has_many_pairs(model):
            X = local(X)
        elif isinstance(model, PairsModel) and self._scores_there(model, X):
            model = model.whole()
        return super()._scored(model, X)


@savable(**MACHINE)
@documented
class SVR(Numeric, KernelMachine):
    """Kernel support vector regression with an ε-tube and a proven duality gap.

    It minimises ::

        ½ ‖w‖² + C Σᵢ sᵢ max(0, |⟨w, Φ(xᵢ)⟩ + b − yᵢ| − ε),

    the problem of ``sklearn.svm.SVR`` at the same parameters, until the relative duality gap is at most
    ``tol``.

    Parameters
    ----------
    {kernel:any}
    {gamma}
    {degree}
    {coef0}
    {C}
    {epsilon}
    solver : {"auto", "smo", "sdca"} or a configured solver, default="auto"
        The method that trains: those of :class:`SVC` that solve the ε-insensitive loss. "auto" is
        "smo".
    {intercept:kernel}
        This solver is "smo".
    {cache_size}
    {lam}
    {tol:exact}
    {max_iter:epochs}
    {max_seconds}
    {warm_start:kernel}
    n_jobs : int or None, default=None
        The number of threads that compute kernel values, −1 for all processors. Their number does not
        change the result.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to train and predict. "cuda" does both on a GPU, by torch (``pip install
        'widemargin[gpu]'``), with the solver "smo". "auto" does so where there is a GPU and that
        solver. Tensors on the GPU are used without a copy.
    {random_state:fixed}
        It decides the order of the examples.
    {checkpoint}
    {checkpoint_every}
    {callbacks}
    {verbose}

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        The rows of the support vectors in the training data.
    {support_vectors_:kernel}
    n_support_ : ndarray of shape (1,)
        The number of support vectors.
    dual_coef_ : ndarray of shape (1, n_support)
        The coefficients of the support vectors.
    {intercept_}
    coef_ : ndarray of shape (1, n_features)
        The weights of the features. It exists for ``kernel="linear"`` only.
    {shape_fit_}
    {gamma_}
    {certificate_:exact}
        It is None for an indefinite kernel, and where time ran out before its value was known.
    {history_}
    {stop_reason_:kernel}
    {n_iter_}
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    SVC : The same for classification.
    BudgetedSVR : A fixed number of support vectors, for data of any length.
    compress : Fewer support vectors, for fast predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVR
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> model = SVR(C=10.0, epsilon=0.01).fit(x, np.sin(x[:, 0]))
    >>> bool(np.abs(model.predict(x) - np.sin(x[:, 0])).max() < 0.1)
    True
    >>> model.stop_reason_
    'tol'
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        solver: Any = "auto",
        intercept: str = "auto",
        cache_size: float | str = "auto",
        lam: float | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
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

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on (X, y), from scratch unless ``warm_start`` is set.

        A :class:`sklearn.exceptions.ConvergenceWarning` says when training ended short of ``tol``.

        Parameters
        ----------
        {X:kernel}
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
        >>> from widemargin import SVR
        >>> SVR(gamma=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).stop_reason_
        'tol'
        """
        started, X, y, weights = self._begin(X, y, sample_weight)
        session = self._session(X, y, started, 1)
        target = losses.Single(losses.EpsilonInsensitive(float(self.epsilon)))
        problem = replace(session.whole, y=y, target=target, lam=self._lam(y.size), sample_weight=weights)
        start = None if session.start is None else session.start[0]
        job = Job(0, np.arange(y.size), problem, session.rng, start)
        [(_, solved)] = one_by_one(session, [job], 1)
        assert solved is not None  # the first job always runs
        outcome, certificate, of_sample = solved
        reason, epochs = outcome.stop_reason, max(1, math.ceil(outcome.history.last("epochs")))
        results = Results(
            outcome.history, reasons=[reason], certificates=[certificate], rounds=epochs, of_sample=of_sample
        )
        self._conclude(session, results, reason)
        model, one_class = outcome.model, np.zeros(y.size, np.intp)
        self._adopt(X, session.whole, one_class, model.support, model.coef, model.intercept, session.errors)
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
        >>> from widemargin import SVR
        >>> SVR(gamma=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).predict([[0.5], [1.5]]).shape
        (2,)
        """
        return self._scores(X)[:, 0]
