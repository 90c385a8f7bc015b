"""Samples under a time limit: models of growing samples, so that there is a good one whenever time is up.

An exact solver on all n examples may have nothing to show for a long time. A sample of m examples with the same C is a
problem of its own: its solution costs about (m/n)² as much, and predicts nearly as well. (The same λ would make the
bounds n/m times as large, and a small sample would be fitted without an error where C is large.) So *rungs* of 500,
2,000, 8,000 … examples are solved, one after the other, while a larger one fits into the time for them.

The objective of a rung's model on all examples is estimated on a *probe*: examples drawn from the other end of the
order in which rungs are drawn, and some of the rung's own examples, which count by their share. The model's multiple
and its bias are the best ones on the probe. If the problem has at most :data:`PROBE` examples, they all are the probe,
and the values are exact.

Examples of weight s are drawn by priority: those with the largest s/u, for uniform numbers u. The probe has those with
the largest s/(1 − u). So all heavy examples are drawn. A drawn example stands for a weight of max(s, τ), where τ is the
first s/u that was not drawn (Duffield, Lund, Thorup: Priority sampling for estimation of arbitrary subset sums. JACM
54, 2007). In the probe both classes are drawn as if they had the same weight in all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ...core.losses.losses import Hinge, scalar_loss
from ...history import Counters, History
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...running import run
from ...solvers import make

# Limits of rungs and of the probe; `python -m benchmarks.peers.time_limit` measures what they lead to.
FIRST = 500  # examples of the first rung, which is solved however little time there is
PROBE = 2048  # most examples of the probe. Fewer: estimates with larger errors; more: time that rungs want
GROWTH = 4.0  # a rung is at most this many times the one before
LEAST = 1.4  # a rung is at least this many times the one before: a smaller step teaches too little
SHARE = 0.7  # share of the time left that a rung may take by the square law; the rest is for a wrong prediction
FITS = 0.7  # share of the time left that all examples may take as predicted; above: they are not begun
# The least and the largest power of n that time is taken to grow with. Small rungs would promise less than the least:
# most of their time is not for kernel values.
POWERS = 1.75, 2.5
ENOUGH = 1e-2  # relative gap to which rungs are solved, at the best: a sample's own error is larger
FIRST_EPOCHS = 50.0  # most epochs of the first rung


@dataclass
class Rung:
    """The solution of a sample: its model and an estimate of the model's objective on all examples.

    ``is_exact`` says that the objective is no estimate; else ``error`` is its standard error.
    """

    examples: int
    model: KernelModel
    objective: float
    is_exact: bool
    error: float

    @property
    def at_most(self) -> float:
        """An upper bound of the objective on all examples: the estimate and twice its standard error."""
        return self.objective + 2.0 * self.error


class Drawn(NamedTuple):
    """Drawn examples in their order, and the weights they stand for, whose sum is that of all examples."""

    chosen: np.ndarray
    weights: np.ndarray


class Draws:
    """The order in which examples are drawn by priority, for rungs and for the probe."""

    def __init__(self, problem: KernelProblem, rng: np.random.Generator) -> None:
        n = problem.n
        self.s = problem.sample_weight if problem.sample_weight.size else np.ones(n)
        u = (rng.permutation(n) + 0.5) / n
        evenly, first = self.s.copy(), np.empty(0, np.int64)
        if isinstance(scalar_loss(problem.target), Hinge):
            classes = [(problem.y == sign) & (self.s > 0.0) for sign in (1.0, -1.0)]
            for own in classes:
                evenly[own] /= max(float(self.s[own].sum()), 1e-300)
            # one of each class is in every rung
            first = np.array([np.flatnonzero(own)[np.argmin(u[own])] for own in classes if own.any()], np.int64)
        self.of_rungs, self.of_probe = self.s / u, evenly / (1.0 - u)
        self.of_rungs[first] = np.inf
        self.evenly = evenly

    def rung(self, size: int) -> Drawn:
        """A sample of this size to train on. A larger sample holds all smaller ones."""
        return self._drawn(self.of_rungs, self.s, size)

    def probe(self, size: int) -> Drawn:
        """A sample of this size to test on. It shares as few examples with rungs as possible."""
        return self._drawn(self.of_probe, self.evenly, size)

    def is_all(self, drawn: Drawn) -> bool:
        """Whether every example with a weight was drawn, so that sums over the sample are exact."""
        return drawn.chosen.size >= int(np.count_nonzero(self.s))

    def among(self, rung: Drawn, probe: Drawn) -> Drawn:
        """The probe together with some of the rung's own examples.

        The losses of a rung's own examples are smaller, so they stand only for the examples of the rung.
        """
        outside = ~np.isin(probe.chosen, rung.chosen)
        rest = float(self.s.sum() - self.s[rung.chosen].sum())
        if self.is_all(probe) or not outside.any() or rest <= 0.0:
            return probe
        # smaller rungs are samples of larger ones, with this chance
        some = self.rung(min(rung.chosen.size, PROBE // 2))
        own = self.s[some.chosen] * some.weights / rung.weights[np.searchsorted(rung.chosen, some.chosen)]
        others = probe.weights[outside]
        found = np.concatenate([some.chosen, probe.chosen[outside]])
        weights = np.concatenate([own * ((self.s.sum() - rest) / own.sum()), others * (rest / others.sum())])
        order = np.argsort(found)
        return Drawn(found[order], weights[order])

    def _drawn(self, priority: np.ndarray, measure: np.ndarray, size: int) -> Drawn:
        size = min(size, int(np.count_nonzero(self.s)))
        if size >= self.s.size:
            return Drawn(np.arange(self.s.size), self.s)
        order = np.argpartition(-priority, size)
        chosen, limit = np.sort(order[:size]), float(priority[order[size]])
        with np.errstate(divide="ignore"):
            weights = self.s[chosen] * np.maximum(1.0, limit / measure[chosen])
        return Drawn(chosen, weights * (self.s.sum() / weights.sum()))


@dataclass
class Ladder:
    """The rungs of a binary problem or a regression.

    ``best`` is the rung with the lowest objective; ``paces`` are (examples, seconds) of the last two rungs.
    """

    problem: KernelProblem
    rng: np.random.Generator
    tol: float
    clock: Callable[[], float]
    history: History = field(default_factory=History)
    counters: Counters = field(default_factory=Counters)
    best: Rung | None = None
    interrupted: bool = False
    paces: list[tuple[int, float]] = field(default_factory=list)

    def climb(self, until: float, deadline: float) -> bool:
        """Solve rungs until ``until``; returns whether all examples should be solved before the deadline."""
        n = self.problem.n
        if n <= 2 * FIRST:
            return True
        begun, draws, size = self.clock(), Draws(self.problem, self.rng), FIRST
        probe = draws.probe(min(n, PROBE))
        while True:
            since = self.clock()
            self._solve(draws, size, probe, until if size > FIRST else math.inf, begun)
            took, now = max(self.clock() - since, 1e-6), self.clock()
            if self.interrupted:
                return False
            self.paces = [*self.paces[-1:], (size, took)]
            if n <= PROBE or self._predicted(n) <= FITS * (deadline - now):
                return True
            growth = math.sqrt(SHARE * max(until - now, 0.0) / took)
            if growth < LEAST or size == n // 2:
                return False
            size = min(int(size * min(growth, GROWTH)), n // 2)

    def _predicted(self, n: int) -> float:
        """The seconds that n examples should take, by the power law through the last two rungs, or the square law."""
        (size, took), power = self.paces[-1], 2.0
        if len(self.paces) == 2:
            power = math.log(took / self.paces[0][1]) / math.log(size / self.paces[0][0])
        return took * (n / size) ** min(max(power, POWERS[0]), POWERS[1])

    def _solve(self, draws: Draws, size: int, probe: Drawn, until: float, begun: float) -> None:
        """Solve a rung of this size as far as time allows; keep it if it is the best so far."""
        problem, tol, drawn = self.problem, max(self.tol, ENOUGH), draws.rung(size)
        chosen = drawn.chosen
        limit = None if until == math.inf else max(until - self.clock(), 1e-9)
        share = chosen.size / problem.n
        part = replace(problem.take(chosen), lam=problem.lam / share, sample_weight=share * drawn.weights)
        outcome = run(
            make("kernel", "smo", tol=tol, sample=1), part, rng=self.rng, tol=tol, max_seconds=limit,
            max_epochs=FIRST_EPOCHS if limit is None else 1e9,
        )  # fmt: skip
        self.interrupted = outcome.stop_reason == "interrupted"
        for name, value in vars(outcome.state.counters).items():
            setattr(self.counters, name, getattr(self.counters, name) + value)
        rung = self._measured(drawn, outcome.model, draws, probe)
        self.history.append(
            self.counters, epochs=0.0, seconds=self.clock() - begun, objective=rung.objective, examples=chosen.size
        )
        if self.best is None or rung.objective < self.best.objective:
            self.best = rung

    def _measured(self, drawn: Drawn, model: KernelModel, draws: Draws, probe: Drawn) -> Rung:
        """The rung with the multiple of w and the bias that are best on the probe and some of its own examples."""
        problem, chosen, is_exact = self.problem, drawn.chosen, draws.is_all(probe)
        seen, support = draws.among(drawn, probe), chosen[model.support]
        size = seen.chosen.size
        bare = replace(model, support=support, vectors=problem.rows(support), intercept=np.zeros(1))
        there = replace(problem.take(seen.chosen), sample_weight=seen.weights * size / problem.n)
        f, own = (bare.decision_function(problem.rows(rows))[:, 0] for rows in (seen.chosen, support))
        norm2 = float(model.coef[0] @ own)
        multiple, bias, value = there.best_multiple(f, norm2)
        missed = there.as_binary().missed(multiple * f + bias)[0]
        lost, inside = seen.weights * np.maximum(missed, 0.0), np.isin(seen.chosen, chosen)
        spread = [part.size * float(np.var(part)) for part in (lost[inside], lost[~inside]) if part.size]
        error = 0.0 if is_exact else math.sqrt(sum(spread)) / problem.n
        self.counters.kernel_evals += support.size * (size + support.size)
        self.counters.kernel_computed += support.size * (size + support.size)
        found = replace(bare, coef=multiple * model.coef, intercept=np.array([bias]))
        return Rung(chosen.size, found, problem.lam * value, is_exact, error)
