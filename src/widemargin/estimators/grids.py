"""Cross-validated scores of kernel classifiers over a grid of C and γ. A GPU trains all folds and C of a γ at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from ..arguments import positive
from ..backends.tensors import hosted, taken
from ..core.kernels.kernels import class_of
from ..core.rows.rows import checked_sparse
from ..core.threads.blas import one_blas_thread
from ..core.threads.interrupts import Interrupts, at_once, heeded, told, unless_told
from .fit.jobs import Binaries, run_on_device
from .fit.labels import class_weights
from .fit.parameters import documented
from .fit.session import Session, largest_gap
from .fit.voting import count_votes, pieces_of, with_scores
from .kernel import SVC

#: The folds: (examples to train on, examples to score); and what is found of machines.
Folds = list[tuple[np.ndarray, np.ndarray]]
Found = Iterator[tuple[int, int, float, float]]


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
@documented
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
    {X:path}
    {y:labels}
    {Cs}
    gammas : sequence of float, "scale" or "auto", default=("scale",)
        The values of γ. On a GPU "scale" is that of all examples, held-out ones among them.
    cv : int, cross-validation generator or an iterable, default=5
        The folds, as in scikit-learn. A number makes stratified folds.
    sample_weight : array of shape (n,) or None, default=None
        The weights of the examples, for training. Scores count examples.
    {parameters}

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
    _check_grid(Cs, gammas, parameters)
    Cs, gammas = [positive("each of Cs", C) for C in Cs], list(gammas)
    X, y, sample_weight = checked_sparse(taken(X)), hosted(y), hosted(sample_weight, "sample_weight")
    with at_once():
        folds = list(check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y))
    scores, gaps = np.full((2, len(gammas), len(Cs), len(folds)), np.nan)
    with Interrupts():
        for place, score, gap in _each(parameters, gammas, X, np.asarray(y), Cs, folds, sample_weight):
            scores[place], gaps[place] = score, gap
    return SVMGrid(Cs, gammas, scores, gaps)


def _each(
    parameters: dict[str, Any], gammas: list[Any], X: Any, y: np.ndarray, Cs: list[float], folds: Folds, weights: Any
) -> Iterator[tuple[tuple[int, int, int], float, float]]:
    """(numbers of γ, C and fold, score, gap) of all machines, γ by γ, on the GPU or in turn; fewer after Ctrl-C."""
    for g, gamma in enumerate(gammas):
        model = SVC(gamma=gamma, **parameters)
        model._check_parameters()
        across = _on_device if model._trains_side_by_side() else _in_turn
        for c, k, score, gap in across(model, X, y, Cs, folds, weights):
            yield (g, c, k), score, gap
        if told():
            return


def _check_grid(Cs: Any, gammas: Any, parameters: dict[str, Any]) -> None:
    """Refuse parameters that a grid sets itself, and values that are no sequences."""
    for name in ("C", "gamma", "lam", "early_stopping", "checkpoint", "warm_start"):
        if parameters.get(name):
            raise ValueError(
                f"svm_grid takes no {name}={parameters[name]!r}: it has machines for each of Cs, gammas; leave it out"
            )
    for name, values in (("Cs", Cs), ("gammas", gammas)):
        if isinstance(values, (int, float, str)) or len(values) == 0:
            raise ValueError(f"{name} must be a sequence, got {values!r}: give a list such as [0.1, 1, 10]")


def _in_turn(model: SVC, X: Any, y: np.ndarray, Cs: list[float], folds: Folds, weights: Any) -> Found:
    """(numbers of C and fold, score, largest gap) of each machine of a γ, until Ctrl-C.

    In each fold a machine starts from the machine of the next smaller C.
    """
    table = isinstance(model.kernel, str) and class_of(model.kernel).is_table
    for k, (train, test) in enumerate(folds):
        s = None if weights is None else np.asarray(weights)[train]
        known, new = (X[train][:, train], X[test][:, train]) if table else (X[train], X[test])
        last: SVC | None = None
        for c in np.argsort(Cs, kind="stable").tolist():
            own = SVC(**{**model.get_params(deep=False), "C": Cs[c]})
            own._fit(known, y[train], s, None if last is None else last._duals() * (own.C / last.C))
            found = None if own.stop_reason_ == "interrupted" else unless_told(partial(own.predict, new))
            if found is None:
                return
            last = own
            yield c, k, float(np.mean(found == y[test])), largest_gap(own.certificate_)


def _on_device(model: SVC, X: Any, y: np.ndarray, Cs: list[float], folds: Folds, weights: Any) -> Found:
    """As :func:`_in_turn`, with all machines side by side on a GPU.

    Every problem has all examples. The held-out ones have weight 0, so that training computes their scores, too.
    """
    session, binaries = model._laid_out(X, y, weights)
    whole = [_fold(model, binaries, train) for train, _ in folds]
    parts = [part for C in Cs for own in whole for part in _parts(session, own, C)]
    from ..backends.workspace import Problems

    problems = Problems(session.whole, parts, [np.arange(session.whole.n)] * len(parts))
    solver, outcome = run_on_device(session, problems)
    if told():
        return
    certificates, place, count = solver.certificates(problems, outcome.state), 0, len(binaries)
    for c in range(len(Cs)):
        for k, (_, test) in enumerate(folds):
            own = slice(place, place + count)
            points = solver.points(problems, outcome.state, own)
            values = np.stack([point.multiple * state.f[test] + point.bias for point, state in points])
            gap = np.nan if session.indefinite else largest_gap(certificates[own])
            yield c, k, float(np.mean(_decided(values, model) == binaries.codes[test])), gap
            place = own.stop


def _fold(model: SVC, binaries: Binaries, train: np.ndarray) -> Binaries:
    """The problems of a fold, with weight 0 for the examples that are held out."""
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


def _parts(session: Session, binaries: Binaries, C: float) -> list[Any]:
    """The binary problems of a machine, each on all examples."""
    n, parts = binaries.codes.size, []
    for k in range(len(binaries)):
        chosen, y, s = binaries.binary(k)
        signs, weights = np.ones(n), np.zeros(n)
        signs[chosen], weights[chosen] = y, s
        parts.append(replace(session.whole, y=signs, sample_weight=weights, lam=1.0 / (C * n)))
    return parts


def _decided(scores: np.ndarray, model: SVC) -> np.ndarray:
    """The predicted codes, from the scores of all binary problems."""
    if scores.shape[0] == 1:
        return (scores[0] > 0.0).astype(np.int64)
    if not model._in_pairs():
        return scores.argmax(axis=0)
    k = model.classes_.size
    counted = np.empty((scores.shape[1], 2, k))
    count_votes(pieces_of(scores, k), k, counted)
    votes, sums = counted[:, 0], counted[:, 1]
    return (with_scores(votes, sums) if model.break_ties else votes).argmax(axis=1)
