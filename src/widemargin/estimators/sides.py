"""Kernel machines that are trained on a device side by side: classes, values of C, folds; all share kernel rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import backends, solvers
from ..history import History
from ..models import KernelModel
from ..running import Outcome
from .fitting import Shown, Turn
from .machine import Task


def run_side_by_side(machine: Any, task: Task, problems: Any, start: np.ndarray | None = None) -> tuple[Any, Outcome]:
    """The solver and the outcome of a run of several problems, with the limits and callbacks of a machine."""
    own = machine._configured()
    solver = solvers.make("devices", own.for_many, tol=own.tol, device=backends.GPU)
    state = solver.init(problems, task.rng, start)
    limits = Turn(task.started, tol=0.0, name="side by side")
    return solver, machine._run(solver, problems, limits, Shown(task.X, task.y), state=state)


class Sides:
    """Binary problems on a device of (machine, its :class:`.multiclass.Binaries`) that differ in C or in weights."""

    def __init__(self, task: Task, machines: Sequence[tuple[Any, Any]]) -> None:
        from ..backends.workspace import Problems

        self.task, self.machines = task, machines
        rows, parts = [], []
        for machine, binaries in machines:
            for k in range(len(binaries)):
                chosen, y, s = binaries.binary(k)
                weights = s if binaries.weighted else np.empty(0)
                rows.append(chosen)
                parts.append(replace(task.whole, y=y, lam=machine._lam(chosen.size), sample_weight=weights))
        self.problems, self.start = Problems(task.whole, parts, rows), None
        if isinstance(task.start, np.ndarray):
            self.start = np.zeros((len(parts), task.whole.n))
            for k, (binaries, own) in enumerate((each, q) for _, each in machines for q in range(len(each))):
                self.start[k, rows[k]] = task.start[binaries.rows_of(own, rows[k]), rows[k]]

    def train(self, first: Any) -> None:
        """Train them, with the limits and callbacks of the first, and set the attributes of each machine."""
        task, problems = self.task, self.problems
        solver, outcome = run_side_by_side(first, task, problems, self.start)
        state, certificates = outcome.state, solver.certificates(problems, outcome.state)
        history = History([{"problem": -1, **row} for row in outcome.history])
        stopped = outcome.stop_reason if outcome.stop_reason != "stalled" else ""
        reasons = ["tol" if each.reached else "stalled" if each.stalled else stopped for each in state.states]
        found, place = solver.machines(problems, state), 0
        for machine, binaries in self.machines:
            part = slice(place, place + len(binaries))
            place = part.stop
            proven = [self._proven(machine, k, found[k], reasons[k], certificates[k]) for k in range(place)[part]]
            for k, certificate in enumerate(proven, part.start):
                if certificate is not None and machine._falls_short(reasons[k], certificate):
                    reasons[k] = "precision"
            reason = stopped or next((each for each in reasons[part] if each != "tol"), "tol")
            rounds = np.array([each.counters.steps for each in state.states[part]])
            machine._conclude(task, history, reason, rounds, proven, reasons[part])
            coefficients = [
                (rows[support], coef) for rows, (support, coef, _) in zip(problems.rows[part], found[part], strict=True)
            ]
            machine._put_together(task, binaries, coefficients, np.array([bias for *_, bias in found[part]]))

    def _proven(
        self, machine: Any, k: int, found: tuple[np.ndarray, np.ndarray, float], reason: str, certificate: Any
    ) -> Any:
        """The certificate of problem k, checked."""
        if self.task.indefinite:
            return certificate
        part, (support, coef, bias) = self.problems.parts[k], found
        model = KernelModel(part.kernel, support, None, coef[None], np.array([bias]), part.constant)
        rows = self.problems.rows[k]
        return machine._checked([part], self.task.X, rows, model, certificate, None, self.task.deadline)
