"""Texts of parameters, attributes and results that several docstrings share: each is written once, in :class:`Texts`.

A docstring names an entry by a marker on a line of its own, and :func:`documented` puts the entry there at import::

    Parameters
    ----------
    {C}
    {max_seconds}
        Examples that were not reached are not remembered.

Lines that are indented below a marker follow the entry's own. ``{max_iter:passes}`` takes the variant ``max_iter
[passes]``. A parameter's default comes from the signature, so that the two cannot differ. ``help()``, the site and
doctests see whole docstrings. Editors that read sources without running them show the markers: a parameter's name in
the docstring, its type and default in the signature, and what is special to the class in full. Under ``python -OO``
there are no docstrings, and nothing is done.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])
MARKER = re.compile(r"(?m)^( *)\{(\w+)(?::(\w+))?\}$")


class Texts:
    """Each entry is a line with the name, the variant in brackets and the type, and an indented description.

    C : float
        Weight of the training errors against the width of the margin, > 0. A larger value allows fewer errors,
        a smaller one a wider margin.
    Cs : sequence of float
        Values of C.
    X [examples] : array or sparse matrix of shape (n, n_features)
        Training examples, dense or CSR, float32 or float64.
    X [kernel] : array, sparse matrix or tensor of shape (n, n_features)
        Training examples, dense or CSR, float32 or float64. With a precomputed kernel X is K(X, X), of shape
        (n, n). Tensors on a GPU need ``device="cuda"`` or "auto".
    X [path] : array or sparse matrix of shape (n, n_features)
        Training examples, as in :meth:`SVC.fit`.
    X [rows] : array or sparse matrix of shape (n, n_features)
        Rows to predict.
    X [collection] : Dask array or frame, or array or sparse matrix, of shape (n, n_features)
        Rows to predict.
    batch_size : int
        Number of examples in a step.
    budget : int
        Largest number of support vectors.
    cache_size : float or "auto"
        Memory for kernel rows, in megabytes. "auto" is 200, or half of the free memory of the GPU that trains.
        Kernel values between the variables of a working set take up to an eighth of this more, or 4 megabytes.
    callbacks : callable, list of callables or None
        Functions that are called at each checkpoint with a :class:`widemargin.running.Progress`. A function that
        returns ``True`` stops the training.
    certificate_ [exact] : Certificate or None
        Primal value, dual value and the gap between them, which bounds how far the objective is above its minimum,
        for the exact kernel.
    certificate_ [linear] : Certificate or None
        Primal value, dual value and the gap between them, which bounds how far the objective is above its minimum.
        The dual value is lowered by what rounding may have added to the gap. The gap is at most ``tol`` of the
        objective where ``stop_reason_`` is "tol". The certificate is None after ``partial_fit`` and where the
        solver proves nothing.
    certificate_ [none] : None
        Always None, because this model has no dual variables that could prove anything. All estimators have this
        attribute.
    certificate_ [parts] : Certificate
        Primal value, dual value and the gap between them.
    checkpoint : str, path or None
        File from which a killed fit continues, bit for bit. The file is written while ``fit`` runs and removed at its
        end. After Ctrl-C or ``max_seconds`` the file stays, and the next ``fit`` continues from it. A file of
        other data or other parameters is refused.
    checkpoint [parts] : str, path or None
        File from which a killed fit continues. The file is written while ``fit`` runs and removed at its end.
    checkpoint_every : float
        Least number of seconds between two writes of ``checkpoint``. 0 writes as often as possible.
    class_weight : dict, "balanced" or None
        Weights of the classes, by label. "balanced" gives all classes the same total weight. None weighs every
        example the same.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    client : distributed.Client or None
        The cluster. None is the current client's.
    coef0 : float
        Constant term of the kernels "poly" and "sigmoid". Other kernels ignore it.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    coef_ [classes] : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features: one row for two classes, else one row per class.
    coef_ [kernel] : ndarray of shape (n_problems, n_features)
        Weights of the features, a row per binary problem. The attribute exists for ``kernel="linear"`` only.
    degree : int
        Degree of the kernel "poly". Other kernels ignore it.
    device [predictions] : {"cpu", "cuda", "auto"}
        Where predictions are computed. "cuda" uses a GPU, "auto" uses one if there is one. Training is always on
        the CPU.
    dual_coef_ [classes] : ndarray of shape (1, n_vectors) or (n_classes, n_vectors)
        Coefficients of the support vectors.
    early_stopping : bool
        Whether to hold out ``validation_fraction`` of the examples and to stop when their weighted error has not
        improved at ``n_iter_no_change`` checkpoints in a row. The best model seen is kept.
    epsilon : float
        Half-width of the tube, in units of y. Errors up to this size cost nothing.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features. The attribute exists only if X was a frame whose columns have text as names.
    gamma : {"scale", "auto"} or float
        Factor γ of the kernel. "scale" is 1/(n_features × variance of X), "auto" is 1/n_features.
    gamma_ : float
        Value of γ in use, which ``gamma="scale"`` takes from the data. The attribute exists for kernels that
        have a γ.
    history_ : History
        One row per checkpoint, with the columns ``seconds``, ``epochs``, ``steps``, ``objective``, ``gap`` and
        the counters of work. ``history_["objective"]`` is a column, ``history_.to_frame()`` a pandas frame.
    history_ [budget] : History
        One row per checkpoint. ``objective`` takes the loss of each example at its visit; ``support_vectors``,
        ``model_bytes``, ``maintenances``, ``degradation`` (the mean of ‖Δ‖/η) and ``degradation_per_step``
        describe the budget.
    history_ [mean] : History
        A single row. ``history_["degradation"]`` is ‖w − w′‖ of the mean before and after it was compressed.
    history_ [parts] : History
        One row per checkpoint, as on one machine; an epoch is a round of messages to all parts.
    intercept [kernel] : {"auto", "unregularized", "regularized", "none"}
        Treatment of the intercept. "unregularized" leaves it free, as LIBSVM does. "regularized" adds 1 to the
        kernel. "none" leaves it out. "auto" is "unregularized" where the solver can do that, else "regularized".
    intercept [linear] : {"regularized", "none", "unregularized", "exact", "search"}
        Treatment of the intercept b. "regularized" makes b the weight of a constant feature, as LIBLINEAR does.
        "none" leaves b out. "unregularized" has no penalty on b: exactly by "sdca" and "interior", by sub-gradient
        steps in "pegasos". "exact" minimises over b inside each mini-batch of "pegasos" and is meant for large
        batches. "search" is an outer search over b.
    intercept [parts] : {"regularized", "unregularized", "none"}
        Treatment of the intercept b. "regularized" makes b the weight of a constant feature. "unregularized"
        leaves b free, and needs "interior". "none" leaves b out.
    intercept_ : ndarray of shape (1,)
        The intercept.
    intercept_ [classes] : ndarray of shape (1,) or (n_classes,)
        Intercepts: one for two classes, else one per class.
    kernel [rows] : {"rbf", "linear", "poly", "sigmoid", "laplacian"} or object
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is
        tanh(γ⟨x, z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁).
        An object of :mod:`widemargin.kernels` has its own parameters: ``RBF(gamma=0.1)``.
    kernel [callable] : {"rbf", "linear", "poly", "sigmoid", "laplacian"}, object or callable
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is
        tanh(γ⟨x, z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁). A callable gets two sets of rows and returns
        their kernel values.
        An object of :mod:`widemargin.kernels` has its own parameters: ``RBF(gamma=0.1)``.
    kernel [any] : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"}, object or callable
        The kernel. "rbf" is exp(−γ‖x − z‖²), "poly" is (γ⟨x, z⟩ + coef0)^degree, "sigmoid" is
        tanh(γ⟨x, z⟩ + coef0), "laplacian" is exp(−γ‖x − z‖₁). With "precomputed" X is the matrix of kernel
        values. A callable gets two sets of rows and returns their kernel values.
        An object of :mod:`widemargin.kernels` has its own parameters: ``RBF(gamma=0.1)``.
    lam : float or None
        Factor λ of the regulariser, λ = 1/(C n). If ``lam`` is given, ``C`` is ignored.
    lam [number] : float
        Factor λ of the regulariser. As a rule of thumb take 1/n to 10/n.
    loss [binary] : {"hinge", "squared_hinge", "log", "huberized"} or object
        Loss ℓ of an example at the margin z: max(0, 1 − z), its square, log(1 + exp(−z)), or the first with a
        rounded corner. "log" is logistic regression, and gives probabilities. An object of
        :mod:`widemargin.losses` has parameters: ``Huberized(delta=0.5)``.
    loss [regression] : str or object
        Loss of an example: "epsilon_insensitive", the distance of its error from the tube,
        "squared_epsilon_insensitive", its square, or "huberized_epsilon_insensitive", the first with rounded corners.
        An object of :mod:`widemargin.losses` has parameters, and its own ε:
        ``HuberizedEpsilon(epsilon=0.1, delta=0.5)``.
    max_bytes : float or None
        Largest memory of the model in bytes, which lowers ``budget`` to what fits. Vectors of sparse data take
        memory as their features occur, and the smallest vectors leave where the memory is full.
    max_feature_reads : int or None
        Largest number of stored entries of X that the solver may read, which ``history_["feature_reads"]`` counts.
        The model at that time is kept.
    max_iter [epochs] : int
        Largest number of epochs. An epoch visits as many examples as there are.
    max_iter [passes] : int
        Number of passes that ``fit`` makes over the examples.
    max_iter [parts] : int
        Number of passes that each part makes over its rows.
    max_iter [rounds] : int
        Largest number of rounds of messages to all parts.
    max_seconds : float or None
        Wall-clock limit of the whole call in seconds, compilation and evaluation included. ``fit`` then ends with
        the model that it has, and ``stop_reason_`` is "max_seconds".
    model_bytes_ : int
        Number of bytes that vectors and coefficients take.
    multi_class [budget] : {"crammer_singer", "ovr"}
        How more than two classes are told apart: by one joint loss, or by a hinge for each class against the rest.
        Both share the support vectors among all classes.
    n_features_in_ : int
        Number of features seen in ``fit`` or in the first ``partial_fit``.
    n_iter_ : int
        Number of epochs done, rounded up.
    n_iter_ [rounds] : int
        Number of rounds done.
    n_iter_no_change : int
        Number of checkpoints without improvement after which ``early_stopping`` ends the training.
    n_jobs [linear] : int or None
        Accepted as in other estimators; −1 is all processors. All solvers train on one thread, except that the
        products of "interior" on 400 features or more use the threads of BLAS.
    n_samples_seen_ : int
        Number of examples visited so far, with repetitions.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    parameters : values
        Further parameters of :class:`SVC`.
    random_state : int, Generator, RandomState or None
        Source of random numbers. The same integer gives the same model again; None draws a new seed in each call.
    random_state [fixed] : int, Generator, RandomState or None
        Source of random numbers. The same integer gives the same model again. None is a fixed seed here, so that
        two fits to the same data give the same model.
    sample_weight : array of shape (n,) or None
        Weights of the examples, numbers ≥ 0 that are not all zero. None is 1 for each.
    self
        The fitted estimator.
    shape_fit_ : tuple of int
        Shape of the training data.
    solver [parts] : {"auto", "interior", "admm"} or a configured solver
        Method that trains. "interior" is the interior point (:mod:`widemargin.solvers.interior`), 10 to 40 steps to
        any ``tol``; each part sends d² numbers, so this is for few features. "admm" is consensus ADMM with SDCA
        inside (:mod:`widemargin.solvers.consensus`), for many features. "auto" is "interior" up to 1,000 features.
    stop_reason_ : str
        Why training ended.
    stop_reason_ [budget] : str
        Why training ended: "max_iter", "max_seconds", "callback", "interrupted" (Ctrl-C) or "partial_fit".
    stop_reason_ [kernel] : str
        Why training ended: "tol", "max_iter", "max_seconds", "early_stopping" (classification only), "precision"
        (rounding allows no gap as small as ``tol``), "stalled" (rounding allows no progress), "callback" or
        "interrupted" (Ctrl-C).
    stop_reason_ [linear] : str
        Why training ended: "tol", "settled" (the objective no longer changed, at a gap above ``tol``), "max_iter",
        "max_seconds", "max_feature_reads", "early_stopping", "precision" (rounding allows no gap as small as
        ``tol``), "stalled" (the same where ``tol`` is 0), "callback", "interrupted" (Ctrl-C) or "partial_fit".
    stop_reason_ [mean] : str
        Why training ended: "max_iter".
    support_vectors_ : ndarray or sparse matrix of shape (n_vectors, n_features)
        The support vectors.
    support_vectors_ [merged] : ndarray or sparse matrix of shape (n_vectors, n_features)
        The support vectors. Merged vectors lie between rows of the data and are none of them.
    support_vectors_ [kernel] : ndarray or sparse matrix of shape (n_support, n_features)
        The support vectors. The matrix is empty for a precomputed kernel.
    tol [exact] : float
        Relative duality gap (P − D)/P at which training stops.
    tol [linear] : float
        Relative duality gap at which training stops. "pegasos", whose gap closes slowly, also stops when the
        objective changed by less than this share of itself while the number of epochs doubled: ``stop_reason_`` is
        then "settled". 0 switches both off.
    tol [parts] : float
        Relative duality gap at which training stops. 0 switches it off.
    traffic_ : dict
        Traffic between the driver and the workers: ``trips`` (messages to all parts), ``bytes_sent`` and
        ``bytes_received`` by the driver, and ``lost``: parts that were made again because their workers died.
    validation_fraction : float
        Share of the examples that ``early_stopping`` holds out, between 0 and 1.
    verbose : int
        1 shows a progress bar on standard error, 0 shows nothing.
    warm_start [kernel] : bool
        Whether ``fit`` starts from the dual variables of the last fit. It reaches the same optimum with less work
        where data or parameters have changed a little. It needs as many examples in the same order.
    warm_start [linear] : bool
        Whether ``fit`` continues from the weights of the last fit. Rows far from the origin are then not centred.
    y [labels] : array of shape (n,)
        Class labels, of any type.
    y [targets] : array of shape (n,)
        Targets, numbers.
    y [two] : array of shape (n,)
        Labels, of two classes.
    ValueError
        If a parameter, X, y or the weights make no sense; the message says what to do. The estimator is then as it
        was before.
    """


def _entries() -> Iterator[tuple[str, str]]:
    """(name and variant, text) of each entry of :class:`Texts`."""
    body = inspect.cleandoc(Texts.__doc__ or "").partition("\n\n")[2]
    for text in filter(None, re.split(r"(?m)^(?=\S)", body)):
        head = re.match(r"\S+(?: \[\w+\])?", text)
        assert head is not None
        yield head.group(), text.replace(head.group(), head.group().partition(" ")[0], 1).rstrip()


ENTRIES = dict(_entries())


def filled(doc: str, signature: inspect.Signature | None) -> str:
    """The docstring with the entries that its markers name, and with the defaults of the signature."""

    def entry(marker: re.Match) -> str:
        indent, name, variant = marker.groups()
        head, *rest = ENTRIES[f"{name} [{variant}]" if variant else name].split("\n")
        parameter = None if signature is None else signature.parameters.get(name)
        if parameter is not None and parameter.kind is parameter.VAR_KEYWORD:
            head = "**" + head
        elif parameter is not None and parameter.default is not parameter.empty:
            default = parameter.default
            head += f', default="{default}"' if isinstance(default, str) else f", default={default!r}"
        return "\n".join(indent + line for line in (head, *rest))

    return MARKER.sub(entry, inspect.cleandoc(doc))


def _wrapped(function: Any) -> Iterator[Any]:
    """A method and the functions that it wraps: decorators copy a docstring once, before it is filled."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def documented(target: Documented) -> Documented:
    """Fill the markers in the docstring of a class and of its public methods, or of a function; a decorator."""
    public = [name for name in vars(target) if not name.startswith("_")] if inspect.isclass(target) else []
    for outer in (target, *map(vars(target).get, public)):
        for each in _wrapped(outer):
            if each.__doc__ and MARKER.search(inspect.cleandoc(each.__doc__)):
                each.__doc__ = filled(each.__doc__, inspect.signature(inspect.unwrap(each)))
    return target
