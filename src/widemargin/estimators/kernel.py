"""Kernel support vector machines with scikit-learn's conventions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np

from ..arguments import flag, not_negative, one_of
from ..backends.tensors import as_given
from ..core import losses
from ..core.kernels import class_of
from ..files import savable
from .fitting import Shown, Turn, all_or_nothing, with_callbacks
from .labels import Numeric, class_weights
from .machine import MACHINE, KernelMachine, Task
from .multiclass import Binaries, Decomposed


@savable(**MACHINE)
class SVC(Decomposed):
    """Kernel support vector classification with a proven duality gap.

    For two classes it minimises ::

        ½ ‖w‖² + C Σᵢ sᵢ max(0, 1 − yᵢ (⟨w, Φ(xᵢ)⟩ + b)),

    the problem of ``sklearn.svm.SVC`` at the same ``C``, until the relative duality gap is at most
    ``tol``. Use it for up to some hundred thousand examples on a CPU, more on a GPU.
    :class:`BudgetedSVC` takes data of any length.

    Parameters
    ----------
    C : float, default=1.0
        How closely the training set is fitted, a number > 0. A larger value allows fewer errors, a
        smaller one a wider margin.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, default="rbf"
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is tanh(γ⟨x,
        z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁). With "precomputed" X is the matrix of kernel
        values. A callable gets two sets of rows and returns their kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        The factor γ of the kernel. "scale" is 1/(n_features × variance of X), "auto" is 1/n_features.
    degree : int, default=3
        The degree of the kernel "poly". Other kernels do not look at it.
    coef0 : float, default=0.0
        The constant term of the kernels "poly" and "sigmoid". Other kernels do not look at it.
    solver : {"auto", "smo", "sbp", "sdca", "pegasos", "perceptron"} or a configured solver, default="auto"
        The method that trains. "auto" is "smo", the exact one. "sbp", the Stochastic Batch Perceptron,
        has a good classifier soonest and then goes on to the same optimum;
        ``StochasticBatchPerceptron(nu=…)`` solves the slack-constrained form at that ν and ignores C.
        "sdca" is exact too, one coordinate at a time. "pegasos" and "perceptron" are for comparison.
    multi_class : {"ovo", "ovr"}, default="ovo"
        How more than two classes are told apart: one classifier per pair of classes, as in LIBSVM, or
        one per class against the rest. With "sbp" the latter are trained together and share every
        kernel row.
    intercept : {"auto", "unregularized", "regularized", "none"}, default="auto"
        What is done about the intercept. "unregularized" leaves it free, as LIBSVM does. "regularized"
        adds 1 to the kernel. "none" leaves it out. "auto" is "unregularized" where the solver can do
        that ("smo", "sbp"), else "regularized".
    class_weight : dict, "balanced" or None, default=None
        The weights of the classes, by label. "balanced" gives all classes the same total weight. None
        weighs every example the same.
    cache_size : float or "auto", default="auto"
        The memory for kernel rows, in megabytes. "auto" is 200, or half of the free memory of the GPU
        that is trained on. Values between variables at work take up to an eighth of it more, or 4.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        The shape of the scores of one-vs-one classifiers: (n, n_classes) or (n, n_pairs).
    break_ties : bool, default=False
        Whether equal votes of one-vs-one classifiers are decided by their scores. Otherwise the first
        class wins.
    lam : float or None, default=None
        The factor λ = 1/(C n) of each binary problem. If it is given, ``C`` is not looked at.
    tol : float, default=1e-3
        The relative duality gap (P − D)/P at which training stops.
    max_iter : int, default=1000
        The largest number of epochs of each binary problem. An epoch visits as many variables as there
        are examples.
    max_seconds : float or None, default=None
        A wall-clock limit for the whole call, compilation and evaluation included. The model at that
        time is kept, and ``stop_reason_`` says "max_seconds".
    early_stopping : bool, default=False
        Whether to hold out ``validation_fraction`` of the examples and to stop when their weighted
        error has not improved at ``n_iter_no_change`` checkpoints in a row. The best model seen is
        kept.
    validation_fraction : float, default=0.1
        The share of the examples that ``early_stopping`` holds out, between 0 and 1.
    n_iter_no_change : int, default=3
        The number of checkpoints without improvement after which ``early_stopping`` ends the training.
    warm_start : bool, default=False
        Whether ``fit`` starts from the dual variables of the last fit. It reaches the same optimum with
        less work where data or parameters have changed a little. It needs as many examples in the same
        order, the same classes, and "smo", "sdca" or "sbp".
    n_jobs : int or None, default=None
        The number of threads, −1 for all processors. They share the kernel values, or train pairs of
        classes side by side, unless somebody is told how it goes (``callbacks``, ``verbose``). It does
        not change the result.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to train and predict. "cuda" does both on a GPU, by torch (``pip install
        'widemargin[gpu]'``), with the solver "smo" or "sbp". "auto" does so where there is a GPU and
        one of these solvers. Tensors on the GPU are read where they stand.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers, for the order in which examples are looked at and for what
        ``early_stopping`` holds out. None is a fixed seed here, so that two fits to the same data give
        the same model.
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
        The rows of the support vectors in the training data, ordered by class.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        The support vectors. It is empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        The number of support vectors of each class.
    dual_coef_ : ndarray of shape (n_classes − 1, n_support) or (n_classes, n_support)
        The coefficients of the support vectors, in scikit-learn's layout. With ``multi_class="ovr"``
        and more than two classes there is a row per class.
    intercept_ : ndarray of shape (n_problems,)
        The intercepts of the binary problems.
    coef_ : ndarray of shape (n_problems, n_features)
        The weights of the features, a row per binary problem. It exists for ``kernel="linear"`` only.
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    shape_fit_ : tuple of int
        The shape of the training data.
    gamma_ : float
        The value of γ in use, which ``gamma="scale"`` takes from the data. It exists for the kernels
        that have a γ.
    certificate_ : Certificate, sequence of them or None
        The primal value, the dual value and the gap between them, which bounds how far the objective is
        above its minimum, for the exact kernel. There is one for each binary problem. It is None for an
        indefinite kernel, for a model that early stopping kept, and where time ran out before its value
        was known.
    history_ : History
        One row per checkpoint, with the columns ``problem`` (the number of the binary problem),
        ``seconds``, ``objective``, ``gap``, ``kernel_evals`` and other counters of work.
        ``history_["gap"]`` is a column, ``history_.to_frame()`` a pandas frame.
    stop_reason_ : str
        Why training ended: "tol", "max_iter", "max_seconds", "early_stopping", "precision"
        (rounding allows no gap as small as ``tol``), "stalled" (rounding allows no progress), "callback" or
        "interrupted" (Ctrl-C).
    n_iter_ : ndarray of shape (n_problems,)
        The number of rounds ("smo") or steps of each binary problem.
    n_features_in_ : int
        The number of features seen in ``fit`` or in the first ``partial_fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features. It exists only if X was a frame whose columns have text as names.

    See Also
    --------
    SVR : The same for regression.
    svm_path : Many values of C, each from the solution before.
    svm_grid : Cross-validation over C and γ.
    compress : Fewer support vectors, for fast predictions.
    BudgetedSVC : A fixed number of support vectors, for data of any length.

    Notes
    -----
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
        X : array, sparse matrix or tensor of shape (n, n_features)
            The examples, dense or CSR, float32 or float64. With a precomputed kernel it is K(X, X), of
            shape (n, n). Tensors on a GPU need ``device="cuda"`` or "auto".
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
        >>> from widemargin import SVC
        >>> SVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]).stop_reason_
        'tol'
        """
        self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, start: Any = None) -> Any:
        """Train, from the β of a path's last machine or its solver's state, if it is given; returns the last state."""
        return self._train(*self._given(X, y, sample_weight, start))

    def _given(self, X: Any, y: Any, sample_weight: Any, start: Any = None) -> tuple[Task, Binaries]:
        """What a fit trains on, checked and prepared."""
        started, X, y, weights = self._begin(X, y, sample_weight)
        codes = self._encode(y, goes_on=self.warm_start and hasattr(self, "support_"))
        self._check_weights(codes, weights)
        counts = np.bincount(codes).astype(float)
        of_class = class_weights(self.class_weight, self.classes_, counts)
        weighted = weights.size > 0 or self.class_weight is not None
        task = self._task(X, y, started, self._n_rows_of_duals(), start)
        return task, Binaries(codes, weights, of_class, weighted, self._in_pairs())


@savable(**MACHINE)
class SVR(Numeric, KernelMachine):
    """Kernel support vector regression with an ε-tube and a proven duality gap.

    It minimises ::

        ½ ‖w‖² + C Σᵢ sᵢ max(0, |⟨w, Φ(xᵢ)⟩ + b − yᵢ| − ε),

    the problem of ``sklearn.svm.SVR`` at the same parameters, until the relative duality gap is at most
    ``tol``.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, default="rbf"
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is tanh(γ⟨x,
        z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁). With "precomputed" X is the matrix of kernel
        values. A callable gets two sets of rows and returns their kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
        The factor γ of the kernel. "scale" is 1/(n_features × variance of X), "auto" is 1/n_features.
    degree : int, default=3
        The degree of the kernel "poly". Other kernels do not look at it.
    coef0 : float, default=0.0
        The constant term of the kernels "poly" and "sigmoid". Other kernels do not look at it.
    C : float, default=1.0
        How closely the training set is fitted, a number > 0. A larger value allows fewer errors, a
        smaller one a wider margin.
    epsilon : float, default=0.1
        The half-width of the tube, in units of y. Errors up to this size cost nothing.
    solver : {"auto", "smo", "sdca"} or a configured solver, default="auto"
        The method that trains: those of :class:`SVC` that solve the ε-insensitive loss. "auto" is
        "smo".
    intercept : {"auto", "unregularized", "regularized", "none"}, default="auto"
        What is done about the intercept. "unregularized" leaves it free, as LIBSVM does. "regularized"
        adds 1 to the kernel. "none" leaves it out. "auto" is "unregularized" where the solver can do
        that ("smo"), else "regularized".
    cache_size : float or "auto", default="auto"
        The memory for kernel rows, in megabytes. "auto" is 200, or half of the free memory of the GPU
        that is trained on. Values between variables at work take up to an eighth of it more, or 4.
    lam : float or None, default=None
        The factor λ of the regulariser, λ = 1/(C n). If it is given, ``C`` is not looked at.
    tol : float, default=1e-3
        The relative duality gap (P − D)/P at which training stops.
    max_iter : int, default=1000
        The largest number of epochs. An epoch visits as many variables as there are examples.
    max_seconds : float or None, default=None
        A wall-clock limit for the whole call, compilation and evaluation included. The model at that
        time is kept, and ``stop_reason_`` says "max_seconds".
    warm_start : bool, default=False
        Whether ``fit`` starts from the dual variables of the last fit. It reaches the same optimum with
        less work where data or parameters have changed a little. It needs as many examples in the same
        order.
    n_jobs : int or None, default=None
        The number of threads that compute kernel values, −1 for all processors. It does not change the
        result.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to train and predict. "cuda" does both on a GPU, by torch (``pip install
        'widemargin[gpu]'``), with the solver "smo". "auto" does so where there is a GPU and that
        solver. Tensors on the GPU are read where they stand.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers, for the order in which examples are looked at. None is a fixed
        seed here, so that two fits to the same data give the same model.
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
        The rows of the support vectors in the training data.
    support_vectors_ : ndarray or sparse matrix of shape (n_support, n_features)
        The support vectors. It is empty for a precomputed kernel.
    n_support_ : ndarray of shape (1,)
        The number of support vectors.
    dual_coef_ : ndarray of shape (1, n_support)
        The coefficients of the support vectors.
    intercept_ : ndarray of shape (1,)
        The intercept.
    coef_ : ndarray of shape (1, n_features)
        The weights of the features. It exists for ``kernel="linear"`` only.
    shape_fit_ : tuple of int
        The shape of the training data.
    gamma_ : float
        The value of γ in use, which ``gamma="scale"`` takes from the data. It exists for the kernels
        that have a γ.
    certificate_ : Certificate or None
        The primal value, the dual value and the gap between them, which bounds how far the objective is
        above its minimum, for the exact kernel. It is None for an indefinite kernel, and where time ran
        out before its value was known.
    history_ : History
        One row per checkpoint, with the columns ``seconds``, ``epochs``, ``steps``, ``objective``,
        ``gap`` and the counters of work. ``history_["objective"]`` is a column, ``history_.to_frame()``
        a pandas frame.
    stop_reason_ : str
        Why training ended: "tol", "max_iter", "max_seconds", "precision" (rounding allows no gap as small as
        ``tol``), "stalled" (rounding allows no progress), "callback" or "interrupted" (Ctrl-C).
    n_iter_ : int
        The number of epochs done, rounded up.
    n_features_in_ : int
        The number of features seen in ``fit`` or in the first ``partial_fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features. It exists only if X was a frame whose columns have text as names.

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

    epsilon: float

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
        X : array, sparse matrix or tensor of shape (n, n_features)
            The examples, dense or CSR, float32 or float64. With a precomputed kernel it is K(X, X), of
            shape (n, n). Tensors on a GPU need ``device="cuda"`` or "auto".
        y : array of shape (n,)
            The targets, numbers.
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
        >>> from widemargin import SVR
        >>> SVR(gamma=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).stop_reason_
        'tol'
        """
        started, X, y, weights = self._begin(X, y, sample_weight)
        task = self._task(X, y, started, 1)
        target = losses.Single(losses.EpsilonInsensitive(float(self.epsilon)))
        problem = replace(task.whole, y=y, target=target, lam=self._lam(y.size), sample_weight=weights)
        solver, rng, shown = self._configured(), task.rng, Shown(X, y, self._partly)
        state = self._state_from(solver, problem, rng, None if task.start is None else task.start[0])
        limits = Turn(started, task.deadline)
        outcome, certificate, is_guess = self._proven(
            task, solver, problem, np.arange(y.size), limits, shown, rng=rng, state=state
        )
        reason, epochs = outcome.stop_reason, max(1, math.ceil(outcome.history.last("epochs")))
        self._conclude(task, outcome.history, reason, epochs, [certificate], [reason], is_guess)
        model, one_class = outcome.model, np.zeros(y.size, np.intp)
        self._adopt(task, one_class, model.support, model.coef, model.intercept)
        return self

    @as_given
    def predict(self, X: Any) -> Any:
        """Return the predicted targets.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.

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
