"""Paths of kernel SVMs, each from the solution of the one before, and the Pareto front on which they lie."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arguments import not_negative, positive
from ..backends.tensors import hosted, taken
from ..core.threads.blas import one_blas_thread
from ..core.threads.interrupts import Interrupts, heeded
from ..solvers import make
from .fit.checking import check_sample_weight
from .fit.labels import class_weights
from .fit.multiclass import train_on_device
from .fit.parameters import documented
from .kernel import SVC


@heeded()
@one_blas_thread()
@documented
def svm_path(X: Any, y: Any, Cs: Any, *, sample_weight: Any = None, **parameters: Any) -> list[SVC]:
    """Fit an :class:`SVC` for each of a sequence of C, each from the solution of the one before.

    On a GPU (``device="cuda"``) the machines are trained side by side and share kernel rows.

    Parameters
    ----------
    {X:path}
    {y:two}
    {Cs}
        They may come in any order, and are trained from the smallest to the largest.
    {sample_weight}
    {parameters}

    Returns
    -------
    list of SVC
        The machines, in the order of ``Cs``. After Ctrl-C there are only those trained by then, the
        last one with ``stop_reason_`` "interrupted".

    See Also
    --------
    svm_grid : Cross-validation over C and γ.
    pareto_path : The front of norm and loss.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import svm_path
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> [model.C for model in svm_path(X, y, [0.1, 1.0, 10.0])]
    [0.1, 1.0, 10.0]
    """
    return _at_Cs(X, y, Cs, sample_weight, parameters, lambda model: model)


def _at_Cs(
    X: Any, y: Any, Cs: Any, sample_weight: Any, parameters: dict[str, Any], look: Callable[[SVC], Any]
) -> list[Any]:
    """What a look at each machine of a path over C gives, as soon as it is trained."""
    _refuse_checkpoint(parameters)
    if isinstance(Cs, (int, float)) or len(Cs) == 0:
        raise ValueError(f"Cs must be a sequence of numbers > 0, got {Cs!r}: give a list such as [0.1, 1, 10]")
    Cs = [positive("each of Cs", C) for C in Cs]
    for name in ("C", "early_stopping"):
        if parameters.get(name):
            raise ValueError(f"a path takes no {name}: its models have the C of Cs and share examples: leave it out")
    X, y = taken(X), hosted(y)
    _check_classes("a path", y)
    values, asked = sorted(set(Cs)), SVC(**parameters)
    asked._check_parameters()
    if asked._trains_side_by_side():
        models = dict(zip(values, _side_by_side(X, y, values, sample_weight, parameters)))
        return [look(models[C]) for C in Cs]

    def train(C: float, last: SVC | None) -> SVC:
        model = SVC(C=C, **parameters)
        model._fit(X, y, sample_weight, None if last is None else last._duals() * (C / last.C))
        return model

    return _in_turn(Cs, values, train, look)


def _side_by_side(X: Any, y: Any, Cs: list[float], sample_weight: Any, parameters: dict[str, Any]) -> list[SVC]:
    """A machine for each C, all trained on a GPU at once."""
    models = [SVC(C=C, **parameters) for C in Cs]
    session, binaries = models[0]._laid_out(X, y, sample_weight)
    for model in models[1:]:
        model.__dict__.update({**vars(models[0]), **model.get_params(deep=False)})
    train_on_device(session, [(model, binaries) for model in models])
    return models


def _refuse_checkpoint(parameters: dict[str, Any]) -> None:
    if parameters.get("checkpoint") is not None:
        raise ValueError(
            "a path takes no checkpoint, which is the file of one fit: fit an SVC for each C, with a file of its own"
        )


def _check_classes(who: str, y: Any) -> None:
    labels = np.unique(y)
    if labels.size != 2:
        raise ValueError(f"{who} needs two classes, got {labels.size}: {labels.tolist()}: give one against the rest")


def _in_turn(
    asked: list[float], values: list[float], train: Callable[[float, SVC | None], SVC], look: Callable[[SVC], Any]
) -> list[Any]:
    """Looks at a machine for each value, trained from the one before, in the order asked for; after Ctrl-C only those
    at the first ones.
    """
    found: dict[float, Any] = {}
    last: SVC | None = None
    with Interrupts() as interrupts:
        for value in values:
            last = train(value, last)
            found[value] = look(last)
            if interrupts.seen:
                last.stop_reason_ = "interrupted"
                break
    return [found[value] for value in asked if value in found]


@dataclass
class ParetoPath:
    """The points of :func:`widemargin.pareto_path`, in the order of the parameters given.

    Attributes
    ----------
    norms : ndarray
        The norms ‖w‖ of the machines.
    hinges : ndarray
        Their mean (weighted) hinge losses on the training examples.
    nus : ndarray
        hinges / norms: the ν whose optimum a point is, where it is one.
    models : list of SVC
        The machines.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import pareto_path
    >>> path = pareto_path(*make_moons(60, noise=0.2, random_state=0), Cs=[1.0, 10.0])
    >>> len(path), path.models[0].C
    (2, 1.0)
    """

    norms: np.ndarray
    hinges: np.ndarray
    nus: np.ndarray
    models: list[SVC]

    def __len__(self) -> int:
        return len(self.models)


@heeded()
@one_blas_thread()
@documented
def pareto_path(
    X: Any, y: Any, *, nus: Any = None, Cs: Any = None, sample_weight: Any = None, **parameters: Any
) -> ParetoPath:
    """Compute the front of (‖w‖, mean hinge) of two-class kernel SVMs.

    With ``Cs`` the points are optima of ½‖w‖² + C Σ hinge, solved to ``tol``. With ``nus`` they are
    those of the slack-constrained form, max {margin : ‖w‖ ≤ 1, mean slack ≤ ν}, by the Stochastic Batch
    Perceptron, which come near the front soon and reach it slowly. Each point starts from the one
    before.

    Parameters
    ----------
    {X:path}
    {y:two}
    nus : sequence of float or None, default=None
        The values of ν ≥ 0, in any order. Give these or ``Cs``.
    Cs : sequence of float or None, default=None
        The values of C > 0, in any order. Give these or ``nus``.
    {sample_weight}
    {parameters}
        With ``nus`` the solver is a StochasticBatchPerceptron, whose ν is replaced.

    Returns
    -------
    ParetoPath
        The points, in the order given. After Ctrl-C there are only those trained by then.

    See Also
    --------
    widemargin.plots.pareto : A picture of the front.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import pareto_path
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> path = pareto_path(X, y, Cs=[0.1, 1.0, 10.0])
    >>> bool((np.diff(path.norms) > 0).all()), bool((np.diff(path.hinges) < 0).all())
    (True, True)
    """
    _check_front(nus, Cs, parameters)
    X, y, sample_weight = taken(X), hosted(y), hosted(sample_weight, "sample_weight")
    at, values = (_at_nus, nus) if Cs is None else (_at_Cs, Cs)
    # machines are scored as they are trained, so that after Ctrl-C only the last one is left to score
    found = at(X, y, values, sample_weight, parameters, lambda model: (model, *_point(model, X, y, sample_weight)))
    models, *points = zip(*found)
    norms, hinges = np.array(points)
    with np.errstate(divide="ignore", invalid="ignore"):
        return ParetoPath(norms, hinges, np.where(norms > 0.0, hinges / norms, np.inf), list(models))


def _check_front(nus: Any, Cs: Any, parameters: dict[str, Any]) -> None:
    """Refuse parameters that a front cannot have, and both or neither of nus and Cs."""
    _refuse_checkpoint(parameters)
    if parameters.get("early_stopping"):
        raise ValueError(
            "pareto_path takes no early_stopping: its models go on from each other's examples: leave it out"
        )
    if (nus is None) == (Cs is None):
        raise ValueError("pareto_path takes either nus or Cs: give one of them")


def _point(model: SVC, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
    """(‖w‖, mean weighted hinge) of a machine, computed from its scores."""
    labels = np.asarray(y)
    own = labels == model.classes_[1]
    counts = np.array([np.count_nonzero(~own), np.count_nonzero(own)], float)
    weights = class_weights(model.class_weight, model.classes_, counts)[own.astype(int)]
    if sample_weight is not None:
        weights = weights * check_sample_weight(sample_weight, own.size)
    scores = model.decision_function(X)
    norm2 = float(model.dual_coef_[0] @ (scores[model.support_] - model._model.intercept[0]))
    slack = np.maximum(0.0, 1.0 - np.where(own, 1.0, -1.0) * scores)
    return math.sqrt(max(norm2, 0.0)), float(np.mean(weights * slack))


def _at_nus(
    X: Any, y: Any, nus: Any, sample_weight: Any, parameters: dict[str, Any], look: Callable[[SVC], Any]
) -> list[Any]:
    """What a look at each machine of a path over ν gives, trained from the largest value to the smallest."""
    if np.ndim(nus) != 1 or len(nus) == 0:
        raise ValueError(f"nus must be a sequence of numbers ≥ 0, got {nus!r}: give a list such as [0.1, 0.01]")
    nus = [not_negative("each of nus", nu) for nu in nus]
    _check_classes("pareto_path", y)
    base = parameters.pop("solver", "sbp")
    base = make("kernel", "sbp") if base == "sbp" else base
    if "nu" not in getattr(base, "get_params", dict)():
        raise TypeError(
            f"with nus the solver must be a StochasticBatchPerceptron, got {base!r}: leave it out or use Cs"
        )
    start: Any = None

    def train(nu: float, last: SVC | None) -> SVC:
        nonlocal start
        model = SVC(solver=replace(base, nu=nu), **parameters)
        start = model._fit(X, y, sample_weight, start)
        return model

    return _in_turn(nus, sorted(set(nus), reverse=True), train, look)
