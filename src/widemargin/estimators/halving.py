"""Successive halving: the C and γ of a machine, from errors on held-out rows.

A grid of candidates is trained on few rows. The best of them, one in ``factor``, go on to ``factor`` times as many
rows, until the last few have all rows. The rows of a rung are among the rows of the next rung, and have each class in
its proportion. On a rung the machines of one γ are trained from the smallest C to the largest, each from the solution
of the one before. Their certificates say how near to the optimum the machines are whose errors are compared.

Jamieson, Talwalkar: Non-stochastic best arm identification and hyperparameter optimization. AISTATS 2016. Here a budget
is a number of rows, and what a candidate costs on a rung is what its training takes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from ..arguments import positive, whole
from .fit.fitting import now
from .fit.session import largest_gap

FOR_SEARCH = 0.6  # share of a time limit for the search; the rest is for training the best candidate on all rows


@dataclass(frozen=True)
class Tried:
    """A candidate on a rung. ``gamma`` is None for machines without γ, ``relative_gap`` where nothing is proven."""

    C: float
    gamma: float | None
    error: float
    relative_gap: float | None
    stop_reason: str

    @property
    def rank(self) -> tuple[float, float, float]:
        """The order of candidates: by error, then the smaller C, which is the simpler machine, then the smaller γ."""
        return self.error, self.C, self.gamma or 0.0


@dataclass
class Rung:
    """The candidates tried on so many rows; ``whole`` says that none was left out."""

    rows: int
    tried: list[Tried] = field(default_factory=list)
    whole: bool = False

    def best(self, count: int = 1) -> list[Tried]:
        """The best candidates by rank."""
        return sorted(self.tried, key=lambda each: each.rank)[:count]


@dataclass
class Search:
    """The rungs, and why there are no more: "done", "max_seconds" or "interrupted"."""

    rungs: list[Rung] = field(default_factory=list)
    stop_reason: str = "done"

    @property
    def best(self) -> Tried | None:
        """The best of the last whole rung; without a whole rung, of the last one; None if nothing was tried."""
        known = [rung for rung in self.rungs if rung.tried]
        finished = [rung for rung in known if rung.whole]
        return (finished or known)[-1].best()[0] if known else None


def sizes(n: int, candidates: int, factor: int, min_rows: int) -> list[int]:
    """The number of rows of each rung. The last has all rows, and about ``factor`` candidates or fewer.

    >>> sizes(27000, 27, 3, 500)
    [3000, 9000, 27000]
    """
    by_candidates = math.ceil(math.log(max(candidates, 2), factor) - 1e-9)
    by_rows = 1 + math.floor(math.log(max(n / min_rows, 1.0), factor) + 1e-9)
    return [math.ceil(n / factor**k) for k in reversed(range(max(1, min(by_candidates, by_rows))))]


def nested(y: np.ndarray, labels: bool, rng: np.random.Generator) -> np.ndarray:
    """An order of the rows in which the first rows, however many, have each class in its proportion."""
    order = rng.permutation(y.size)
    if not labels:
        return order
    place = np.empty(y.size)
    for label in np.unique(y):
        own = order[y[order] == label]
        place[own] = np.arange(own.size) / own.size
    return order[np.argsort(place[order], kind="stable")]


def error_of(model: Any, X: Any, y: np.ndarray) -> float:
    """The share of wrong labels of a classifier; the root of the mean square error of a regressor."""
    predicted = model.predict(X)
    if is_classifier(model):
        return float(np.mean(predicted != y))
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def successive_halving(
    model: Any,
    training: tuple[Any, np.ndarray],
    held: tuple[Any, np.ndarray],
    *,
    Cs: Sequence[float],
    gammas: Sequence[float | None] = (None,),
    factor: int = 3,
    min_rows: int = 500,
    max_seconds: float | None = None,
    random_state: int = 0,
    said: Callable[[int, Tried], Any] = lambda rows, tried: None,
) -> Search:
    """Search the grid of Cs and gammas for the machine with the lowest error on held-out rows.

    Parameters
    ----------
    model : LinearSVC, LinearSVR, SVC or SVR
        The estimator. Its other parameters are those of all candidates, and it is not changed.
    training, held : tuples (X, y)
        The rows and targets that rungs take theirs from, and those that errors are measured on.
    Cs, gammas : sequences of float
        The values of ``C``, and of ``gamma``, which is ``(None,)`` by default, for machines without one.
    factor : int, default=3
        By how much rungs grow, and candidates become fewer, 2 or more.
    min_rows : int, default=500
        The least number of rows of a rung.
    max_seconds : float or None, default=None
        A limit of the search. A candidate that it ends counts as tried.
    random_state : int, default=0
        The seed of the order in which rungs take rows.
    said : callable, optional
        A function that is called with the rows of the rung and each candidate as it was tried.

    Returns
    -------
    Search
        Its ``rungs`` have ``rows`` and what was ``tried``; ``best``, of the last whole rung, has ``C`` and ``gamma``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC
    >>> from widemargin.estimators.halving import successive_halving
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> found = successive_halving(
    ...     SVC(), (X[:800], y[:800]), (X[800:], y[800:]), Cs=[0.1, 1, 10], gammas=[0.01, 1.0, 100.0], min_rows=100
    ... )
    >>> [(rung.rows, len(rung.tried)) for rung in found.rungs], found.best.gamma
    ([(267, 9), (800, 3)], 1.0)
    """
    if whole("factor", factor) < 2:
        raise ValueError(f"factor must be 2 or more, got {factor}")
    whole("min_rows", min_rows)
    grid = _candidates(Cs, gammas)
    deadline = math.inf if max_seconds is None else now() + positive("max_seconds", max_seconds)
    order = nested(training[1], is_classifier(model), np.random.default_rng(random_state))
    rungs = [np.sort(order[:rows]) for rows in sizes(order.size, len(grid), factor, min_rows)]
    return _search(model, training, held, grid, rungs, factor, deadline, said)


def _candidates(Cs: Sequence[float], gammas: Sequence[float | None]) -> list[tuple[float, float | None]]:
    """All pairs (C, γ), for each γ from the smallest C on."""
    grid = [(positive("each of Cs", C), gamma) for gamma in gammas for C in sorted(set(Cs))]
    if not grid:
        raise ValueError("the search has no candidates: give Cs and gammas")
    return grid


def _search(
    model: Any, training: tuple[Any, np.ndarray], held: tuple[Any, np.ndarray], left: list[Any],
    chosen: list[np.ndarray], factor: int, deadline: float, said: Callable[[int, Tried], Any],
) -> Search:  # fmt: skip
    """Try the candidates that are ``left`` on each set of ``chosen`` rows; the best of a rung go on to the next."""
    search, (X, y) = Search(), training
    for rows in chosen:
        rung = Rung(rows.size)
        search.rungs.append(rung)
        try:
            for tried in _climb(model, X[rows], y[rows], held, left, deadline):
                rung.tried.append(tried)
                said(rows.size, tried)
        except KeyboardInterrupt:
            search.stop_reason = "interrupted"
            break
        if len(rung.tried) < len(left) or rung.tried[-1].stop_reason == "max_seconds":
            search.stop_reason = "max_seconds"
            break
        if all(each.error == math.inf for each in rung.tried):
            raise ValueError(rung.tried[0].stop_reason.removeprefix("failed: "))
        rung.whole = True
        going = {(each.C, each.gamma) for each in rung.best(math.ceil(len(left) / factor))}
        left = [each for each in left if each in going]
    return search


def _climb(
    model: Any, X: Any, y: np.ndarray, held: tuple[Any, np.ndarray], left: list[Any], deadline: float
) -> Iterator[Tried]:
    """Try the candidates on a rung, for each γ from the smallest C on, warm-started, until time is up.

    Ctrl-C raises KeyboardInterrupt, because the error of an interrupted machine says nothing.
    """
    for gamma in dict.fromkeys(gamma for _, gamma in left):
        machine = clone(model).set_params(warm_start=True, **({} if gamma is None else {"gamma": gamma}))
        for C in (C for C, own in left if own == gamma):
            seconds = None if deadline == math.inf else max(deadline - now(), 1e-3)
            machine.set_params(C=C, max_seconds=seconds)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the gap says which machines did not converge
                    machine.fit(X, y)
            except (ValueError, ArithmeticError) as bad:
                yield Tried(C, gamma, math.inf, None, "failed: " + " ".join(str(bad).split()))
                continue
            if machine.stop_reason_ == "interrupted":
                raise KeyboardInterrupt
            yield Tried(C, gamma, error_of(machine, *held), proven_gap(machine), machine.stop_reason_)
            if now() >= deadline:
                return


def proven_gap(model: Any) -> float | None:
    """The largest relative duality gap of a model's certificates; None where one is missing."""
    largest = largest_gap(getattr(model, "certificate_", None))
    return largest if np.isfinite(largest) else None
