"""All pairs of small classes in one run.

A run for each pair would be overhead mostly, where classes are small. So :class:`PairwiseSMO` treats all pairs in one
run, and leaves those that are too hard to a run of their own. Coefficients of all pairs are one table, in the layout of
:mod:`widemargin.core.kernels.pairs`, because there may be half a million pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ... import solvers
from ...core.rows.distant import local, local_rows
from ...core.threads.interrupts import told
from ...history import History
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificates
from ...running import Outcome
from ...solvers.smo.pairs import PairsProblem
from .fitting import Shown, Turn
from .jobs import Binaries, Results, jobs_of, one_by_one, problems_of, worst_reason
from .proof import Late
from .session import Job, Session, at_least_nothing, refined, warn_without_proof

#: Pairs of three classes, and of more, are trained in one run if the mean of their kernel matrices has at most so many
#: values. Above: a run for each pair costs less. Pairs of more classes have more rows in common (docs/notes/smo.md).
SMALL_PAIRS = 2**16, 2**18
#: The part of the cache that the kernel matrix of the largest such pair, and the rows of the largest class, may take.
PAIR_SHARE = 0.25


def are_small(session: Session, binaries: Binaries) -> bool:
    """Whether the problems are pairs of classes that are so small that a run for each is mostly overhead."""
    machine, own = session.machine, session.solver.capabilities
    # under a time limit the hinge is solved by what has models soonest, for small pairs as for large ones
    exact = (own.for_pairs or (own.exact and machine.max_seconds is not None)) and not machine.early_stopping
    if not exact or not binaries.in_pairs:
        return False
    sizes = np.bincount(binaries.codes).astype(float)
    k = sizes.size
    values = ((k - 2) * np.sum(sizes**2) + np.sum(sizes) ** 2) / len(binaries)  # the mean of (s + t)² over the pairs
    largest = max(np.sort(sizes)[-2:].sum() ** 2, sizes.max() * binaries.codes.size)
    return values <= SMALL_PAIRS[k > 3] and 4.0 * largest <= PAIR_SHARE * session.whole.cache_bytes


@dataclass
class SmallPairs:
    """The pairs of a fit in one run.

    Attributes
    ----------
    order : the examples by class, as ``problem`` has them
    reasons, history : why training of each pair ended, and the rows of all runs
    """

    session: Session
    binaries: Binaries
    order: np.ndarray
    problem: PairsProblem
    solver: Any
    state: Any
    reasons: list[str]
    history: History

    @cached_property
    def places(self) -> np.ndarray:
        """The place of each example in ``order``."""
        places = np.empty(self.order.size, np.int64)
        places[self.order] = np.arange(self.order.size)
        return places

    @property
    def results(self) -> Any:
        """What the solver's state has of each pair."""
        return self.state.results

    def where(self, p: int, chosen: np.ndarray) -> tuple[Any, np.ndarray]:
        """Where the table of coefficients has the chosen examples of pair p."""
        return self.binaries.rows_of(p, chosen), self.places[chosen]

    def model(self, p: int, chosen: np.ndarray, part: KernelProblem) -> KernelModel:
        """The machine of pair p, without vectors."""
        coef = self.results.beta[self.where(p, chosen)]
        used = np.flatnonzero(coef)
        return KernelModel(part.kernel, used, None, coef[None, used], self.results.bias[p : p + 1], part.constant)

    def put(self, p: int, chosen: np.ndarray, model: KernelModel) -> None:
        """Replace the machine of pair p; the scores that the run knows are of the old one."""
        coef, where = np.zeros(chosen.size), self.where(p, chosen)
        coef[model.support] = model.coef[0]
        self.results.beta[where], self.results.bias[p] = coef, model.intercept[0]
        self.solver.known(self.problem, self.state)[where] = np.nan

    def add(self, p: int, outcome: Outcome) -> None:
        """Note why a run of pair p ended, and its history."""
        self.reasons[p] = outcome.stop_reason
        self.history.rows += [{"problem": p, **row} for row in outcome.history]


def train(session: Session, binaries: Binaries) -> None:
    """Train all pairs in one run, those that are too hard for it by themselves, and set the machine's attributes."""
    machine, codes = session.machine, binaries.codes
    order = np.argsort(codes, kind="stable")
    # 1) all pairs
    pairs, outcome = _run(session, binaries, order)
    solver, problem, state = pairs.solver, pairs.problem, pairs.state
    ended = outcome.stop_reason in ("tol", "max_iter")
    # 2) the hard ones; and w = 0 where that is better
    if ended:
        _train_hard(pairs)
    solver.settle(problem, state)
    # 3) certificates
    lams = problem.lams()
    certificates = Certificates(lams * state.results.primal, lams * state.results.dual)
    if not session.indefinite:
        _prove(pairs, certificates)
    reason = worst_reason(pairs.reasons, certificates) if ended else outcome.stop_reason
    # 4) attributes
    model = solver.model(problem, state)
    rounds, reasons = state.results.rounds, pairs.reasons
    results = Results(pairs.history, reasons=reasons, certificates=certificates, rounds=rounds)
    machine._conclude(session, results, reason)
    machine._adopt(
        session.X, session.whole, codes, order[model.support], model.coef, model.intercept, session.errors, True
    )  # fmt: skip


def _run(session: Session, binaries: Binaries, order: np.ndarray) -> tuple[SmallPairs, Outcome]:
    """Run the solver of all pairs; under a time limit roughly first, so that every pair has a model."""
    machine, codes, weights = session.machine, binaries.codes, binaries.weights
    of_example = (weights if weights.size else 1.0) * binaries.of_class[codes]
    rows = local_rows(session.whole.X)  # small problems are solved on the CPU
    whole = replace(session.whole, X=rows, sample_weight=of_example if binaries.weighted else np.empty(0))
    C, lam = 0.0 if machine.lam is not None else float(machine.C), float(machine.lam or 0.0)
    problem = PairsProblem(whole.take(order), np.cumsum(np.bincount(codes)), C, lam)
    name, tol = session.solver.capabilities.for_pairs or "auto", max(session.tol, 1e-12)
    solver = solvers.make("pairs", name, tol=tol, max_rounds=machine.max_iter)
    state = solver.init(problem, duals=None if session.start is None else session.start[:, order])
    limits = Turn(session.started, max_epochs=1)
    if machine.max_seconds is not None:
        outcome = machine._run(solver.rough(), problem, replace(limits, name="roughly"), None, state=state)
        state = solver.again(outcome.state)
    if machine.max_seconds is None or outcome.stop_reason == "max_iter":
        shown = Shown(session.X, session.y, finish=partial(machine._finished, own=order))
        outcome = machine._run(solver, problem, limits, shown, state=state)
        state = outcome.state
    history = History([{"problem": -1, **row} for row in outcome.history])
    return SmallPairs(session, binaries, order, problem, solver, state, state.reasons.tolist(), history), outcome


def _train_hard(pairs: SmallPairs) -> None:
    """Give the hard pairs a run each, and keep the model that is known to be better.

    Their runs begin where the fit began: from where the pairs are it takes as long or longer (docs/notes/smo.md).
    """
    hard, results, lams = pairs.solver.hard(pairs.state).tolist(), pairs.results, pairs.problem.lams()
    for job, solved in one_by_one(pairs.session, jobs_of(pairs.session, pairs.binaries, hard), len(hard)):
        p = job.number
        if solved is None:
            pairs.reasons[p] = "max_seconds"
            continue
        outcome, certificate, of_sample = solved
        primal = outcome.objective if certificate is None else certificate.primal
        if not of_sample and primal <= lams[p] * results.primal[p]:
            pairs.put(p, job.examples, outcome.model)
            results.primal[p] = primal / lams[p]
        if certificate is not None:
            results.dual[p] = max(results.dual[p], certificate.dual / lams[p])
        results.rounds[p] += outcome.state.counters.steps
        pairs.add(p, outcome)


def _prove(pairs: SmallPairs, certificates: Certificates) -> None:
    """Compute the certificates of all pairs anew, in place; train those on in float64 whose gap is above ``tol``."""
    session, results, tol = pairs.session, pairs.results, pairs.session.tol
    known = pairs.solver.known(pairs.problem, pairs.state)
    try:
        exact = replace(session, X=local(session.X)).exact(pairs.order, pairs.problem.whole.kernel, session.deadline)
        found = exact.of_pairs(pairs.problem, results.beta, results.bias, known)
        certificates.primal[:], certificates.dual[:] = found
    except Late:
        certificates.primal[:], certificates.dual[:] = np.nan, np.nan
        if told():
            pairs.reasons[:] = ["interrupted"] * len(pairs.reasons)
        warn_without_proof(session)
        return
    ended = np.isin(pairs.reasons, ("tol", "stalled")) & (tol > 0)
    short = np.flatnonzero(ended & (certificates.gaps > tol * certificates.primal)).tolist()
    for p, (chosen, part) in zip(short, problems_of(session, pairs.binaries, short), strict=True):
        own = pairs.model(p, chosen, part)
        outcome = Outcome(None, own, History(), pairs.reasons[p], certificates[p].primal)
        outcome, certificate = refined(session, Job(p, chosen, part, session.rng), outcome, certificates[p])
        certificate = at_least_nothing(tol, session.solver.capabilities.exact, part, outcome, certificate)
        if outcome.model is not own:
            pairs.put(p, chosen, outcome.model)
        pairs.add(p, outcome)
        certificates.replace(p, certificate)
