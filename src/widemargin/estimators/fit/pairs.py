"""All pairs of small classes in one run.

A run for each pair would be overhead mostly, where classes are small. So :class:`PairwiseSMO` treats all pairs in one
run, and leaves those that are too hard to a run of their own. Coefficients of all pairs are one table, in the layout of
:mod:`widemargin.core.kernels.pairs`, because there may be half a million pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
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
from .session import Job, Session, at_least_nothing, exact_for, refined, warn_without_proof

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
    results : the history of all runs, why training of each pair ended, and its certificate
    """

    session: Session
    binaries: Binaries
    order: np.ndarray
    problem: PairsProblem
    solver: Any
    state: Any
    results: Results

    def model(self, p: int, part: KernelProblem) -> KernelModel:
        """The machine of pair p, without vectors."""
        beta, bias = self.state.results.beta[self.problem.where(*self.binaries.pairs[p])], self.state.results.bias
        used = np.flatnonzero(beta)
        return KernelModel(part.kernel, used, None, beta[None, used], bias[p : p + 1], part.constant)

    def put(self, p: int, model: KernelModel) -> None:
        """Replace the machine of pair p; the scores that the run knows are of the old one."""
        where, results = self.problem.where(*self.binaries.pairs[p]), self.state.results
        results.beta[where], results.bias[p] = 0.0, model.intercept[0]
        results.beta[where[0][model.support], where[1][model.support]] = model.coef[0]
        self.solver.known(self.problem, self.state)[where] = np.nan

    def add(self, p: int, outcome: Outcome) -> None:
        """Note why a run of pair p ended, and its history."""
        self.results.reasons[p] = outcome.stop_reason
        self.results.history.rows += [{"problem": p, **row} for row in outcome.history]


def train(session: Session, binaries: Binaries) -> None:
    """Train all pairs in one run, those that are too hard for it by themselves, and set the machine's attributes."""
    machine, codes = session.machine, binaries.codes
    order = np.argsort(codes, kind="stable")
    # 1) all pairs
    pairs, outcome = _run(session, binaries, order)
    solver, problem, state, results = pairs.solver, pairs.problem, pairs.state, pairs.results
    ended = outcome.stop_reason in ("tol", "max_iter")
    # 2) the hard ones; and w = 0 where that is better
    if ended:
        _train_hard(pairs)
    solver.settle(problem, state)
    # 3) certificates
    lams, results.rounds = problem.lams(), state.results.rounds
    results.certificates = Certificates(lams * state.results.primal, lams * state.results.dual)
    if not session.indefinite:
        _prove(pairs, results.certificates)
    # 4) attributes
    model = solver.model(problem, state)
    machine._conclude(
        session, results, worst_reason(results.reasons, results.certificates) if ended else outcome.stop_reason
    )
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
    results = Results(History([{"problem": -1, **row} for row in outcome.history]), reasons=state.reasons.tolist())
    return SmallPairs(session, binaries, order, problem, solver, state, results), outcome


def _train_hard(pairs: SmallPairs) -> None:
    """Give the hard pairs a run each, and keep the model that is known to be better.

    Their runs begin where the fit began: from where the pairs are it takes as long or longer (docs/notes/smo.md).
    """
    hard, results, lams = pairs.solver.hard(pairs.state).tolist(), pairs.state.results, pairs.problem.lams()
    for job, solved in one_by_one(pairs.session, jobs_of(pairs.session, pairs.binaries, hard), len(hard)):
        p = job.number
        if solved is None:
            pairs.results.reasons[p] = "max_seconds"
            continue
        outcome, certificate, of_sample = solved
        primal = outcome.objective if certificate is None else certificate.primal
        if not of_sample and primal <= lams[p] * results.primal[p]:
            pairs.put(p, outcome.model)
            results.primal[p] = primal / lams[p]
        if certificate is not None:
            results.dual[p] = max(results.dual[p], certificate.dual / lams[p])
        results.rounds[p] += outcome.state.counters.steps
        pairs.add(p, outcome)


def _prove(pairs: SmallPairs, certificates: Certificates) -> None:
    """Compute the certificates of all pairs anew, in place; train those on in float64 whose gap is above ``tol``."""
    session, binaries, problem, results = pairs.session, pairs.binaries, pairs.problem, pairs.state.results
    tol = session.tol
    exact = exact_for(session.machine, local(session.X), pairs.order, problem.whole.kernel, session.deadline)
    try:
        found = exact.of_pairs(problem, results.beta, results.bias, pairs.solver.known(problem, pairs.state))
        certificates.primal[:], certificates.dual[:] = found
    except Late:
        certificates.primal[:], certificates.dual[:] = np.nan, np.nan
        if told():
            pairs.results.reasons = ["interrupted"] * len(binaries)
        warn_without_proof(session)
        return
    ended = np.isin(pairs.results.reasons, ("tol", "stalled")) & (tol > 0)
    short = np.flatnonzero(ended & (certificates.gaps > tol * certificates.primal)).tolist()
    for p, (chosen, part) in zip(short, problems_of(session, binaries, short), strict=True):
        own = pairs.model(p, part)
        outcome = Outcome(None, own, History(), pairs.results.reasons[p], certificates[p].primal)
        outcome, certificate = refined(session, Job(p, chosen, part, session.rng), outcome, certificates[p])
        certificate = at_least_nothing(tol, session.solver.capabilities.exact, part, outcome, certificate)
        if outcome.model is not own:
            pairs.put(p, outcome.model)
        pairs.add(p, outcome)
        certificates.replace(p, certificate)
