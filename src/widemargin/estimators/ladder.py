"""Under a time limit: machines of growing samples, so that there is a good one whenever time is up.

An exact solver on all n examples may have nothing to show for a long time. A sample of m of them, with the same C,
is a problem of its own whose solution costs about (m/n)² as much and predicts nearly as well. (With the same λ the
bounds would be n/m times as large, and a small sample would be fitted without an error where C is large.) So rungs of
500, 2,000, 8,000 … examples are solved one after the other while a larger one fits into the time for them.
The value of a rung's solution is estimated on a probe, examples from the other end of the order in which the rungs
take theirs; its multiple and its bias are the best ones there. A problem of at most :data:`PROBE` examples is its own
probe, and the values are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..history import Counters, History
from ..models import KernelModel
from ..problem import KernelProblem
from ..running import run
from ..solvers.smo import SMO

#: Examples of the first rung, which is solved however little time there is; most examples of the probe.
FIRST, PROBE = 500, 2048
#: With less time than so many seconds the first rung is half of that, and the probe a quarter.
HURRY = 0.1
#: A rung is at most this many times the one before, and no less than LEAST times.
GROWTH, LEAST = 4.0, 1.4
#: The share of the time left that a rung is allowed to take by the square law; and that of all examples.
SHARE, FITS = 0.7, 0.25
#: Relative gap to which rungs are solved, at the best, and most epochs of the first.
ENOUGH, FIRST_EPOCHS = 1e-2, 50.0


@dataclass
class Rung:
    """The solution of a sample: its model, and the objective on the probe."""

    examples: int
    model: KernelModel
    objective: float
    is_exact: bool  # whether the objective is that of all examples


@dataclass
class Ladder:
    """Rungs of a binary problem or a regression; ``best`` is the one with the lowest objective."""

    problem: KernelProblem
    rng: np.random.Generator
    tol: float
    clock: Callable[[], float]
    history: History = field(default_factory=History)
    counters: Counters = field(default_factory=Counters)
    best: Rung | None = None
    interrupted: bool = False

    def climb(self, until: float, deadline: float) -> bool:
        """Solve rungs until ``until``; returns whether, by the square law, all examples fit before the deadline."""
        n = self.problem.n
        if n <= 2 * FIRST:
            return True
        order = self._order()
        begun = self.clock()
        hurry = n > PROBE and deadline - begun < HURRY
        first = size = FIRST // 2 if hurry else FIRST
        probe = np.arange(n) if n <= PROBE else np.sort(order[-(PROBE // 4 if hurry else PROBE) :])
        while True:
            since = self.clock()
            self._solve(np.sort(order[:size]), probe, until if size > first else math.inf, begun)
            took, now = max(self.clock() - since, 1e-6), self.clock()
            if self.interrupted:
                return False
            if n <= PROBE or took * (n / size) ** 2 <= FITS * (deadline - now):
                return True
            growth = math.sqrt(SHARE * max(until - now, 0.0) / took)
            if growth < LEAST or size == n // 2:
                return False
            size = min(int(size * min(growth, GROWTH)), n // 2)

    def _order(self) -> np.ndarray:
        """Random, with an example of each class first."""
        order = self.rng.permutation(self.problem.n)
        y = self.problem.y[order]
        if np.unique(y[:64]).size > 2:  # a regression
            return order
        first = np.unique([np.flatnonzero(y == sign)[0] for sign in (1.0, -1.0) if np.any(y == sign)])
        return np.concatenate([order[first], np.delete(order, first)])

    def _solve(self, chosen: np.ndarray, probe: np.ndarray, until: float, begun: float) -> None:
        """Solve a rung as far as time allows, and keep it if it is the best."""
        problem, tol = self.problem, max(self.tol, ENOUGH)
        limit = None if until == math.inf else max(until - self.clock(), 1e-9)
        part = replace(problem.take(chosen), lam=problem.lam * problem.n / chosen.size)
        outcome = run(
            SMO(tol=tol, sample=1), part, rng=self.rng, tol=tol, max_seconds=limit,
            max_epochs=FIRST_EPOCHS if limit is None else 1e9,
        )  # fmt: skip
        self.interrupted = outcome.stop_reason == "interrupted"
        for name, value in vars(outcome.state.counters).items():
            setattr(self.counters, name, getattr(self.counters, name) + value)
        rung = self._measured(chosen, outcome.model, probe)
        self.history.append(
            self.counters, epochs=0.0, seconds=self.clock() - begun, objective=rung.objective, examples=chosen.size
        )
        if self.best is None or rung.objective < self.best.objective:
            self.best = rung

    def _measured(self, chosen: np.ndarray, model: KernelModel, probe: np.ndarray) -> Rung:
        """The best multiple of a rung's w on the probe, and its objective there."""
        problem, support = self.problem, chosen[model.support]
        bare = replace(model, support=support, vectors=problem.rows(support), intercept=np.zeros(1))
        there = problem.take(probe)
        f, own = (bare.decision_function(problem.rows(rows))[:, 0] for rows in (probe, support))
        multiple, bias, value = there.best_multiple(f, float(model.coef[0] @ own))
        self.counters.kernel_evals += support.size * (probe.size + support.size)
        found = replace(bare, coef=multiple * model.coef, intercept=np.array([bias]))
        return Rung(chosen.size, found, problem.lam * value, probe.size == problem.n)
