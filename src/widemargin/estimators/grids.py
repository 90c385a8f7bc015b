"""Cross-validated scores of kernel classifiers over a grid of C and γ: on a GPU all folds and C of a γ at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from ..arguments import positive
from ..backends.tensors import hosted, taken
from ..core.blas import one_blas_thread
from ..core.interrupts import Interrupts, heeded
from ..core.kernels import class_of
from ..core.pairs import add_votes, first_pair
from ..core.rows import checked_sparse
from .kernel import SVC
from .labels import class_weights
from .machine import Task
from .multiclass import Binaries
from .sides import run_side_by_side


@dataclass
class SVMGrid:
    """What :func:`widemargin.svm_grid` found.

    Attributes
    ----------
    Cs : list of float
        The values of C, as they were given.
    gammas : list
        The values of γ, as they were given.
    scores : ndarray of shape (n_gammas, n_Cs, n_folds)
        The share of the held-out examples of each fold that are classified correctly. It is NaN for
        machines that Ctrl-C left unfinished.
    gaps : ndarray of shape (n_gammas, n_Cs, n_folds)
        The largest relative duality gap of the machines of a fold. It is NaN where a kernel is
        indefinite.
    mean : ndarray of shape (n_gammas, n_Cs)
        The mean score over the folds.
    best_params : dict
        The ``"C"`` and ``"gamma"`` with the best mean score, and of equals the smallest C.
    best_score : float
        The best mean score.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import svm_grid
    >>> grid = svm_grid(*make_moons(60, noise=0.2, random_state=0), Cs=[1.0, 10.0], cv=3)
    >>> sorted(grid.best_params), grid.mean.shape
    (['C', 'gamma'], (1, 2))
    """

    Cs: list[float]
    gammas: list[Any]
    scores: np.ndarray
    gaps: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Mean score over the folds, of shape (n_gammas, n_Cs); NaN where a fold is missing."""
        return self.scores.mean(axis=2)

    @property
    def best_params(self) -> dict[str, Any]:
        """``{"C": …, "gamma": …}`` with the best mean score; of equals the smallest C, which is the simplest."""
        mean, best = self.mean, self.best_score
        g, c = min(np.argwhere(mean == best).tolist(), key=lambda place: self.Cs[place[1]])
        return {"C": self.Cs[c], "gamma": self.gammas[g]}

    @property
    def best_score(self) -> float:
        """The best mean score of those that all folds have."""
        if np.isnan(self.mean).all():
            raise ValueError("no pair of C and γ was finished in all folds: give it more time, or fewer Cs and folds")
        return float(np.nanmax(self.mean))


@heeded()
@one_blas_thread()
def svm_grid(
    X: Any,
    y: Any,
    Cs: Any,
    *,
    gammas: Any = ("scale",),
    cv: Any = 5,
    sample_weight: Any = None,
    **parameters: Any,
) -> SVMGrid:
    """Cross-validate :class:`SVC` for all pairs of a C and a γ.

    On a GPU (``device="cuda"``) the machines of all folds and all C of a γ are trained side by side and
    share kernel rows. On the CPU each fold goes through the C from the smallest to the largest, each
    from the solution of the one before.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features)
        The examples, as in :meth:`SVC.fit`.
    y : array of shape (n,)
        The class labels.
    Cs : sequence of float
        The values of C.
    gammas : sequence of float, "scale" or "auto", default=("scale",)
        The values of γ. On a GPU "scale" is that of all examples, held-out ones among them.
    cv : int, cross-validation generator or an iterable, default=5
        The folds, as in scikit-learn. A number makes stratified folds.
    sample_weight : array of shape (n,) or None, default=None
        The weights of the examples, for training. Scores count examples.
    **parameters : values
        Further parameters of :class:`SVC`.

    Returns
    -------
    SVMGrid
        The scores and gaps of all machines, and the best parameters.

    See Also
    --------
    svm_path : The machines themselves, for many C.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, svm_grid
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> grid = svm_grid(X, y, Cs=[1.0, 10.0], gammas=[0.5, 2.0], cv=3)
    >>> grid.scores.shape
    (2, 2, 3)
    >>> model = SVC(**grid.best_params).fit(X, y)
    """
    for name in ("C", "gamma", "lam", "early_stopping", "checkpoint", "warm_start"):
        if parameters.get(name):
            raise ValueError(
                f"svm_grid takes no {name}={parameters[name]!r}: it has machines for each of Cs, gammas; leave it out"
            )
    for name, values in (("Cs", Cs), ("gammas", gammas)):
        if isinstance(values, (int, float, str)) or len(values) == 0:
            raise ValueError(f"{name} must be a sequence, got {values!r}: give a list such as [0.1, 1, 10]")
    Cs, gammas = [positive("each of Cs", C) for C in Cs], list(gammas)
    X, y, sample_weight = checked_sparse(taken(X)), hosted(y), hosted(sample_weight, "sample_weight")
    folds = list(check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y))
    scores, gaps = np.full((2, len(gammas), len(Cs), len(folds)), np.nan)
    with Interrupts() as interrupts:
        for g, gamma in enumerate(gammas):
            model = SVC(gamma=gamma, **parameters)
            model._check_parameters()
            across = _on_device if model._trains_side_by_side() else _in_turn
            if not across(model, X, np.asarray(y), Cs, folds, sample_weight, scores[g], gaps[g], interrupts):
                break
    return SVMGrid(Cs, gammas, scores, gaps)


def _in_turn(
    model: SVC, X: Any, y: np.ndarray, Cs: list[float], folds: list[tuple[np.ndarray, np.ndarray]],
    sample_weight: Any, scores: np.ndarray, gaps: np.ndarray, interrupts: Interrupts,
) -> bool:  # fmt: skip
    """scores, gaps (n_Cs × n_folds) ← of machines that start from the one before in their fold; False on Ctrl-C."""
    table = isinstance(model.kernel, str) and class_of(model.kernel).is_table
    for k, (train, test) in enumerate(folds):
        s = None if sample_weight is None else np.asarray(sample_weight)[train]
        known, new = (X[train][:, train], X[test][:, train]) if table else (X[train], X[test])
        last: SVC | None = None
        for c in np.argsort(Cs, kind="stable").tolist():
            own = SVC(**{**model.get_params(deep=False), "C": Cs[c]})
            own._fit(known, y[train], s, None if last is None else last._duals() * (own.C / last.C))
            if own.stop_reason_ == "interrupted":
                return False
            score = np.mean(own.predict(new) == y[test])
            if interrupts.seen:
                return False
            scores[c, k], last = score, own
            gaps[c, k] = _largest_gap(own.certificate_)
    return True


def _largest_gap(certificates: Any) -> float:
    """The largest relative gap of the certificates of a machine; NaN where there is none."""
    if certificates is None:
        return np.nan
    several = [certificates] if hasattr(certificates, "gap") else list(certificates)
    return max((np.nan if each is None else each.relative_gap for each in several), default=np.nan)


def _on_device(
    model: SVC, X: Any, y: np.ndarray, Cs: list[float], folds: list[tuple[np.ndarray, np.ndarray]],
    sample_weight: Any, scores: np.ndarray, gaps: np.ndarray, interrupts: Interrupts,
) -> bool:  # fmt: skip
    """As :func:`_in_turn`, all machines side by side.

    Every problem has all examples, those that it does not train on with weight 0: so the responses of training have
    the scores of the held-out ones.
    """
    task, binaries = model._given(X, y, sample_weight)
    whole = [_fold(model, binaries, train) for train, _ in folds]
    parts = [part for C in Cs for own in whole for part in _parts(task, own, C)]
    from ..backends.workspace import Problems

    problems = Problems(task.whole, parts, [np.arange(task.whole.n)] * len(parts))
    solver, outcome = run_side_by_side(model, task, problems)
    if interrupts.seen:
        return False
    certificates, place, count = solver.certificates(problems, outcome.state), 0, len(binaries)
    for c in range(len(Cs)):
        for k, (_, test) in enumerate(folds):
            own = slice(place, place + count)
            values = np.stack(
                [
                    point.multiple * state.f[test] + point.bias
                    for point, state in solver.points(problems, outcome.state, own)
                ]
            )
            scores[c, k] = np.mean(_decided(values, model) == binaries.codes[test])
            gaps[c, k] = np.nan if task.indefinite else _largest_gap(certificates[own])
            place = own.stop
    return True


def _fold(model: SVC, binaries: Binaries, train: np.ndarray) -> Binaries:
    """The same problems with the weights that they have in a fold: 0 for what is held out."""
    own = binaries.take(train)
    weights = np.zeros(binaries.codes.size)
    weights[train] = own.weights if own.weights.size else 1.0
    counts = np.bincount(own.codes, minlength=binaries.of_class.size).astype(float)
    if not counts.all():
        missing = model.classes_.tolist()[np.flatnonzero(counts == 0)[0]]
        raise ValueError(f"a fold has no example of class {missing!r} to train on: use fewer folds")
    model._check_weights(own.codes, own.weights)
    of_class = class_weights(model.class_weight, model.classes_, counts)
    return replace(binaries, weights=weights, of_class=of_class, weighted=True)


def _parts(task: Task, binaries: Binaries, C: float) -> list[Any]:
    """The binary problems as ones of all examples."""
    n, parts = binaries.codes.size, []
    for k in range(len(binaries)):
        chosen, y, s = binaries.binary(k)
        signs, weights = np.ones(n), np.zeros(n)
        signs[chosen], weights[chosen] = y, s
        parts.append(replace(task.whole, y=signs, sample_weight=weights, lam=1.0 / (C * n)))
    return parts


def _decided(scores: np.ndarray, model: SVC) -> np.ndarray:
    """Codes of the classes, from the scores of all binary problems."""
    if scores.shape[0] == 1:
        return (scores[0] > 0.0).astype(np.int64)
    if not model._in_pairs():
        return scores.argmax(axis=0)
    k = model.classes_.size
    votes, sums = np.zeros((k, scores.shape[1])), np.zeros((k, scores.shape[1]))
    for i in range(k - 1):
        add_votes(np.ascontiguousarray(scores[first_pair(i, k) : first_pair(i + 1, k)]), i, votes, sums)
    return (votes + sums / (3.0 * (np.abs(sums) + 1.0)) if model.break_ties else votes).argmax(axis=0)
