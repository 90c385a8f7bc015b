"""Kernel support vector machines with scikit-learn's conventions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..arguments import flag, not_negative, one_of
from ..backends.tensors import as_given
from ..core import losses
from ..core.kernels import class_of
from ..files import savable
from .fitting import Shown, Turn, all_or_nothing, with_callbacks
from .labels import Numeric, class_weights
from .machine import KernelMachine, Task
from .multiclass import Binaries, Decomposed


@savable()
class SVC(Decomposed):
    """Kernel support vector classification.

    For two classes it minimises

    .. math:: \\frac12 \\|w\\|^2 + C \\sum_i s_i \\max(0, 1 - y_i (\\langle w, \\Phi(x_i)\\rangle + b)),

    the problem of ``sklearn.svm.SVC`` at the same ``C``, until the relative duality gap is at most ``tol``.

    Parameters
    ----------
    C : float, default=1.0
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, default="rbf"
        A callable gets two sets of rows and returns their kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    solver : {"auto", "smo", "sbp", "sdca", "pegasos", "perceptron"} or a configured solver, default="auto"
        "auto" is "smo", the exact one. "sbp", the Stochastic Batch Perceptron, has a good classifier soonest and then
        goes on to the same optimum; ``StochasticBatchPerceptron(nu=…)`` solves the slack-constrained form at that ν
        and ignores C. "sdca" is exact too, one coordinate at a time; "pegasos" (Fig. 3 of its paper) and "perceptron"
        (one pass: ``max_iter=1``) are for comparison.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One classifier per pair of classes, as LIBSVM, or per class against the rest; with "sbp" the latter are
        trained together and share every kernel row.
    intercept : {"auto", "unregularized", "regularized", "none"}, default="auto"
        "auto" is "unregularized", as in LIBSVM, where the solver can ("smo", "sbp"), else "regularized", which adds
        1 to the kernel.
    class_weight : dict, "balanced" or None
    cache_size : float or "auto", default="auto"
        Megabytes for kernel rows; "auto" is 200, and half of the free memory of a GPU that is trained on.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Of the scores of one-vs-one classifiers: (n, n_classes), or (n, n_pairs).
    break_ties : bool, default=False
        Whether equal votes of one-vs-one classifiers are decided by their scores; else the first class wins.
    lam : float, optional
        λ of each binary problem; overrides ``C``.
    tol : float, default=1e-3
        Relative duality gap (P − D)/P at which training stops.
    max_iter : int, default=1000
        Most epochs of each binary problem; an epoch visits as many variables as there are examples.
    max_seconds : float, optional
        Wall-clock limit for the whole fit; the model so far is kept.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the examples and stop when their weighted error has not improved at
        ``n_iter_no_change`` checkpoints in a row; the best model seen is kept. The rule the SBP paper recommends.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=3
    warm_start : bool, default=False
        Start ``fit`` from the dual variables of the last one, taken into the new box: the same optimum in less work
        where data or parameters have changed a little. Needs as many examples, in the same order, and the same classes;
        for "smo", "sdca" and "sbp", which is then at its second part.
    n_jobs : int, optional
        Threads that compute kernel values, −1 for all processors; they do not change the result.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        "cuda" trains and predicts on a GPU, by torch (``pip install 'widemargin[gpu]'``): the solver is "smo" or
        "sbp", and ``cache_size`` is memory of the GPU; "auto" does so where there is a GPU and one of these solvers.
        The machine is the same, and predicts on the CPU where there is no GPU. Tensors of torch on the GPU are read
        where they stand, and predictions for them are tensors there.
    random_state : int, Generator, RandomState or None, default=None
        Of the order in which examples are looked at, and of what ``early_stopping`` holds out. None is a fixed seed,
        for every solver: two fits to the same data are the same model.
    checkpoint, checkpoint_every, callbacks, verbose
        As in :class:`LinearSVC`.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors, by class.
    support_vectors_, n_support_, dual_coef_, intercept_, coef_, classes_
        As in scikit-learn; ``coef_`` for the linear kernel only.
    shape_fit_ : tuple
        Shape of the training data, as in scikit-learn.
    gamma_ : float
        The γ in use, which ``gamma="scale"`` takes from the data.
    certificate_ : Certificate or sequence of them
        Primal value, dual value and gap of each binary problem; None for an indefinite kernel, for the best of
        several models that early stopping kept, and for a problem
        whose dual variables are too large for float32 kernel values and too many to compute it in float64.
    history_ : History
        With a column ``problem`` that numbers the binary problems.
    stop_reason_ : str
        As in :class:`LinearSVC`, or "stalled": rounding allows no further progress.
    n_iter_ : ndarray
        Rounds (SMO) or visits of each binary problem.

    Notes
    -----
    For probabilities wrap it: ``CalibratedClassifierCV(SVC())``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = SVC(C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98), bool(model.certificate_.relative_gap <= 1e-3)
    (True, True)
    """

    def __init__(
        self,
        C=1.0,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        *,
        solver="auto",
        multi_class="ovo",
        intercept="auto",
        class_weight=None,
        cache_size="auto",
        decision_function_shape="ovr",
        break_ties=False,
        lam=None,
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=3,
        warm_start=False,
        n_jobs=None,
        device="cpu",
        random_state=None,
        checkpoint=None,
        checkpoint_every=60,
        callbacks=None,
        verbose=0,
    ):
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
    def fit(self, X, y, sample_weight=None):
        """Train on (X, y): dense or CSR, float32 or float64; or, with a precomputed kernel, on K(X, X).

        X, y and the weights may be tensors, on a GPU with ``device="cuda"`` or "auto".
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
        counts = np.bincount(codes).astype(float)
        of_class = class_weights(self.class_weight, self.classes_, counts)
        weighted = weights.size > 0 or self.class_weight is not None
        task = self._task(X, y, started, self._n_rows_of_duals(), start)
        return task, Binaries(codes, weights, of_class, weighted, self._in_pairs())


@savable()
class SVR(Numeric, KernelMachine):
    """Kernel support vector regression with an ε-tube.

    Minimises

    .. math:: \\frac12 \\|w\\|^2 + C \\sum_i s_i \\max(0, |\\langle w, \\Phi(x_i)\\rangle + b - y_i| - \\varepsilon),

    the problem of ``sklearn.svm.SVR``, until the relative duality gap is at most ``tol``.

    Parameters
    ----------
    kernel, gamma, degree, coef0, C, intercept, cache_size, lam, tol, max_iter, max_seconds, warm_start, n_jobs, \
    device, random_state, checkpoint, checkpoint_every, callbacks, verbose
        As in :class:`SVC`.
    solver : {"auto", "smo", "sdca"} or a configured solver, default="auto"
        Those of :class:`SVC` that solve the ε-insensitive loss; "auto" is "smo".
    epsilon : float, default=0.1
        Errors up to this size cost nothing, in units of y.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, coef_, gamma_, certificate_, history_, stop_reason_
        As in :class:`SVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVR
    >>> x = np.linspace(0, 6, 100)[:, None]
    >>> model = SVR(C=10.0, epsilon=0.01).fit(x, np.sin(x[:, 0]))
    >>> bool(np.abs(model.predict(x) - np.sin(x[:, 0])).max() < 0.1)
    True
    """

    epsilon: float

    def __init__(
        self,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        *,
        C=1.0,
        epsilon=0.1,
        solver="auto",
        intercept="auto",
        cache_size="auto",
        lam=None,
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        warm_start=False,
        n_jobs=None,
        device="cpu",
        random_state=None,
        checkpoint=None,
        checkpoint_every=60,
        callbacks=None,
        verbose=0,
    ):
        self._keep(locals())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        not_negative("epsilon", self.epsilon)

    @all_or_nothing
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on (X, y); see :meth:`SVC.fit`."""
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
    def predict(self, X):
        """Predicted targets, of shape (n,)."""
        return self._scores(X)[:, 0]
