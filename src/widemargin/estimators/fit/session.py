"""One fit of a kernel machine: its session, the runs of solvers in it, and their proofs.

A :class:`Session` holds what is known before training. :func:`solve` runs a solver, under a time limit after samples.
:func:`prove` computes the certificate anew in float64 on the data as the user gave it (:mod:`.proof`), and trains on in
float64 where rounding has hidden a gap above ``tol``.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ... import solvers
from ...arguments import threads
from ...core.rows.distant import Distant
from ...core.threads.interrupts import told
from ...history import History
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate
from ...running import Outcome
from ...stopping import without_proof
from ...warning import warn
from .fitting import Shown, Turn, now
from .ladder import Ladder, Rung
from .proof import Exact

#: The share of a time limit for samples, where the Stochastic Batch Perceptron can have the rest.
FOR_SAMPLES = 0.25


@dataclass(frozen=True)
class Session:
    """One fit of a kernel machine.

    Attributes
    ----------
    machine : the estimator, whose parameters hold, and which runs solvers with its callbacks and its checkpoint
    solver : the solver that was asked for, configured
    X, y : the examples as the user gave them
    whole : all examples as the kernel takes them, without targets
    started, deadline : times, on the clock of :func:`.fitting.now`; the deadline is infinite without a time limit
    rng : the generator of the fit
    indefinite : whether the kernel has negative eigenvalues, so that nothing is proven
    start : dual variables to start from, in the layout of ``dual_coef_``; or a solver's state; or None
    errors : the largest errors of float32 that the proofs saw; see :func:`widemargin.problems.precision.settled`
    """

    machine: Any
    solver: Any
    X: Any
    y: np.ndarray
    whole: KernelProblem
    started: float
    deadline: float
    rng: np.random.Generator
    indefinite: bool
    start: Any = None
    errors: list[float] = field(default_factory=list)

    @property
    def tol(self) -> float:
        """The relative duality gap that was asked for."""
        return float(self.machine.tol)

    def is_kept(self, limits: Turn, solver: Any, problem: Any) -> bool:
        """Whether the checkpoint has a part of this run."""
        record = self.machine._record(limits, solver, problem)
        return record is not None and record.has_own


def exact_for(machine: Any, X: Any, chosen: np.ndarray, kernel: Any, deadline: float = math.inf) -> Exact:
    """What computes scores of the chosen examples of X in float64, with the layout of a machine's training."""
    return Exact(machine._preparation, kernel, X, chosen, machine._largest, threads(machine.n_jobs), deadline)


@dataclass(frozen=True)
class Job:
    """A binary problem, or a regression, to be solved.

    Attributes
    ----------
    number : the number of the binary problem
    examples : the indices of its examples among those of the fit
    problem : the problem on these examples
    rng : the generator of its run
    start : dual variables of its examples to start from, or the state of another run; or None
    promising : the examples of the first active set, if they are known
    validation : the problem on held-out examples, or None
    """

    number: int
    examples: np.ndarray
    problem: KernelProblem
    rng: np.random.Generator
    start: Any = None
    promising: np.ndarray | None = None
    validation: KernelProblem | None = None

    @property
    def name(self) -> str:
        """The name of its run in a checkpoint."""
        return f"problem {self.number}"

    def state(self, solver: Any) -> Any:
        """The state to begin with; None where there is nothing to start from."""
        if self.promising is not None:
            return solver.init(self.problem, self.rng, promising=self.promising)
        if isinstance(self.start, np.ndarray):
            return solver.init(self.problem, self.rng, duals=self.start)
        return None if self.start is None else solver.again(self.problem, self.rng, self.start)


class Solved(NamedTuple):
    """What came of a job: ``of_sample`` says that the model is that of a sample, and that nothing is proven of it.

    Before :func:`prove` it says the first alone.
    """

    outcome: Outcome
    certificate: Certificate | None
    of_sample: bool


# ---------------------------------------------------------------- runs


def solve(session: Session, solver: Any, job: Job, limits: Turn, shown: Shown | None) -> Solved:
    """Run a solver on a job.

    Under a time limit an exact solver first solves samples of the problem, so that there is a model early on.
    """
    state, validation = job.state(solver), job.validation
    able = solver.capabilities
    if limits.until == math.inf or not able.exact or able.on_device or state or validation:
        run = session.machine._run
        outcome = run(solver, job.problem, limits, shown, state=state, rng=job.rng, validation=validation)
        return Solved(outcome, _known(solver, job.problem, outcome), False)
    return _solve_in_time(session, solver, job, limits, shown)


def _solve_in_time(session: Session, solver: Any, job: Job, limits: Turn, shown: Shown | None) -> Solved:
    """Solve growing samples (:mod:`.ladder`), and then all examples; return the better of the two models.

    If all examples will take too long, the Stochastic Batch Perceptron solves the hinge, because it has a good model of
    all examples early on. A run that a checkpoint has a part of goes on at once.
    """
    # 1) samples, with a generator of their own, so that a limit that is not reached changes nothing
    problem, until, since = job.problem, limits.until, now()
    free = problem.freed()
    ladder = Ladder(free, deepcopy(job.rng), session.tol, now)
    perceptron = _perceptron(free, session.tol)
    if session.is_kept(limits, solver, problem):
        fits = True
    elif perceptron is not None and session.is_kept(limits, perceptron, free):
        fits = False
    else:
        fits = ladder.climb(since + (until - since) * (1.0 if perceptron is None else FOR_SAMPLES), until)
    best = None if ladder.best is None else _of_all(problem, ladder.best)
    on = problem
    if not fits and perceptron is not None:
        solver, on = perceptron, free
    # 2) all examples, if there is time
    outcome = None
    if not (ladder.interrupted or (best is not None and now() >= until)):
        outcome = session.machine._run(solver, on, limits, shown, rng=job.rng)
        outcome.history = ladder.history.followed_by(outcome.history)
        certificate = _charged(problem, outcome, _known(solver, on, outcome), session.tol)
        if outcome.stop_reason == "tol" or best is None or outcome.objective <= best.objective:
            return Solved(outcome, certificate, False)
    # 3) the model of the best sample
    assert best is not None
    if outcome is None:
        reason = "interrupted" if ladder.interrupted else "max_seconds"
        outcome = Outcome(solver.init(on, job.rng), None, ladder.history, reason, math.inf)
    outcome.model, outcome.objective, outcome.is_last = best.model, best.objective, False
    outcome.scores = None
    return Solved(outcome, _known(solver, on, outcome) if best.is_exact else None, True)


def _of_all(problem: KernelProblem, rung: Rung) -> Rung:
    """A rung's model as one of the problem, with a value that its objective is below; or w = 0 where that is better."""
    model, charge = problem.adopted(rung.model)
    at_zero, nothing = problem.at_zero()
    if at_zero <= rung.at_most + charge:
        return replace(rung, model=nothing, objective=at_zero, is_exact=True)
    return replace(rung, model=model, objective=rung.at_most + charge)


def _charged(
    problem: KernelProblem, outcome: Outcome, certificate: Certificate | None, tol: float
) -> Certificate | None:  # fmt: skip
    """Make the outcome one of the problem, in place, if it is that of the problem with a free intercept; returns the
    certificate of the problem.
    """
    outcome.model, charge = problem.adopted(outcome.model)  # which has the same scores
    outcome.objective += charge
    if certificate is not None and charge > 0.0:
        certificate = Certificate(certificate.primal + charge, certificate.dual, certificate.gap + charge)
        if certificate.gap > tol * certificate.primal and outcome.stop_reason == "tol":
            outcome.stop_reason = "max_seconds"  # the limit chose the free problem, whose optimum is another
    return certificate


def _perceptron(problem: KernelProblem, tol: float) -> Any:
    """The Stochastic Batch Perceptron, if it can solve the problem; or None."""
    solver = solvers.make("kernel", "sbp", tol=max(tol, 1e-12))
    try:
        solver.check(problem)
    except ValueError:
        return None
    return solver


def _known(solver: Any, problem: KernelProblem, outcome: Outcome) -> Certificate | None:
    """The certificate of an outcome by what the solver knows; None where a validation error chose the model."""
    if outcome.is_last:
        outcome.scores = solver.scores(problem, outcome.state)
        return solver.certificate(problem, outcome.state)
    if not solver.capabilities.exact or "validation_error" in outcome.history.columns:
        return None
    dual = max(outcome.dual, 0.0)  # no loss is negative
    return Certificate(outcome.objective, dual, outcome.objective - dual)


# ---------------------------------------------------------------- proofs


def prove(session: Session, job: Job, solved: Solved) -> Solved:
    """What came of a job, with its certificate computed anew in float64.

    If the gap is then above ``tol``, although the run ended with "tol" or "stalled", an exact solver trains on with
    kernel values in float64. After other reasons the larger gap is left as it is.
    """
    outcome, certificate, of_sample = solved
    if certificate is None or session.indefinite:
        return Solved(outcome, certificate, of_sample and certificate is None)
    deadline = now() if outcome.stop_reason == "interrupted" else session.deadline
    proven = checked(session, [job.problem], job.examples, outcome.model, certificate, outcome.scores, deadline)
    if told():
        outcome.stop_reason = "interrupted"
    if proven is not None:
        exact, short = session.solver.capabilities.exact, falls_short(session.tol, outcome.stop_reason, proven)
        if short and exact:
            outcome.state.drop_workspace()  # kernel rows in float64 want its memory
            outcome, proven = refined(session, job, outcome, proven)
        elif short:
            outcome.stop_reason = "settled"
        proven = at_least_nothing(session.tol, exact, job.problem, outcome, proven)
    return Solved(outcome, proven, of_sample and proven is None)


def checked(
    session: Session, parts: list[KernelProblem], chosen: np.ndarray, model: KernelModel, known: Certificate,
    scores: Any, deadline: float | None = None,
) -> Certificate | None:  # fmt: skip
    """The certificate of the sum of some binary problems on the same examples, for the kernel that was asked for.

    There is one problem for each row of the model's coefficients. ``scores`` are those that the certificate ``known``
    goes by, if the solver knows them: see :mod:`.proof`. The largest error seen is added to the session's. The answer
    is None, with a warning, where time is too short: until the ``deadline``, or that of the session.
    """
    deadline = session.deadline if deadline is None else deadline
    exact = exact_for(session.machine, session.X, chosen, parts[0].kernel, deadline)
    found = exact.certificate(parts, model, known, session.tol, scores)
    session.errors.append(max(exact.errors, default=math.inf))
    if found is None:
        warn_without_proof(session)
    return found


def largest_gap(certificates: Any) -> float:
    """The largest relative gap of a machine's certificates, of which there may be one; NaN where one is missing."""
    several = [certificates] if certificates is None or hasattr(certificates, "gap") else certificates
    return float(np.max([np.nan if each is None else each.relative_gap for each in several]))


def warn_without_proof(session: Session) -> None:
    """Warn that time was too short for a certificate."""
    warn(without_proof(type(session.machine).__name__, told()), ConvergenceWarning)


def falls_short(tol: float, reason: str, certificate: Certificate) -> bool:
    """Whether the gap is above ``tol`` although training took it for closed, or could not close it."""
    return bool(tol > 0 and reason in ("tol", "stalled") and certificate.gap > tol * abs(certificate.primal))


def at_least_nothing(
    tol: float, exact: bool, problem: KernelProblem, outcome: Outcome, certificate: Certificate
) -> Certificate:  # fmt: skip
    """The certificate of an outcome. If w = 0 is better than the model of an exact solver, it becomes the model."""
    if exact and certificate.gap > tol * abs(certificate.primal):
        value, nothing = problem.at_zero()
        if value < certificate.primal:
            outcome.model, certificate = nothing, Certificate(value, certificate.dual, value - certificate.dual)
    if outcome.stop_reason == "precision" and certificate.gap <= tol * abs(certificate.primal):
        outcome.stop_reason = "tol"
    return certificate


def refined(
    session: Session, job: Job, outcome: Outcome, certificate: Certificate
) -> tuple[Outcome, Certificate]:  # fmt: skip
    """The outcome and certificate after more training, from the point reached, with kernel values in float64.

    The reason is "precision" where that has ended, and the gap is still above ``tol``.
    """
    session.errors.append(math.inf)  # the scores that were compared are not those of a better model found here
    ended = "interrupted" if told() else "max_seconds" if now() >= session.deadline else "precision"
    outcome = replace(outcome, stop_reason=ended)
    if ended != "precision" or isinstance(session.X, Distant):
        return outcome, certificate
    n, beta = job.problem.n, np.zeros((1, job.problem.n))
    beta[0, outcome.model.support] = outcome.model.coef[0]
    rows = exact_for(session.machine, session.X, job.examples, job.problem.kernel).rows(np.arange(n))
    fine = replace(job.problem, X=rows, dtype=np.dtype(np.float64), shared=None)
    again = Job(job.number, job.examples, fine, np.random.default_rng(0), beta)
    solver = solvers.make("kernel", "smo", tol=max(0.5 * session.tol, 1e-13))  # the other half is for rounding
    limits = Turn(session.started, session.deadline, name=f"{job.name} in float64")
    with np.errstate(over="ignore", invalid="ignore"):
        more, known, _ = solve(session, solver, again, limits, None)
    outcome.history = outcome.history.followed_by(History([{**row, "bits": 64.0} for row in more.history]))
    found = None if known is None else checked(session, [fine], job.examples, more.model, known, more.scores)
    if found is not None:
        dual = max(certificate.dual, found.dual)
        if found.primal <= certificate.primal:
            outcome.model, outcome.is_last, outcome.objective = more.model, False, found.primal
        primal = min(certificate.primal, found.primal)
        certificate = Certificate(primal, dual, primal - dual)
    if more.stop_reason not in ("tol", "stalled") and certificate.gap > session.tol * abs(certificate.primal):
        outcome.stop_reason = more.stop_reason
    return outcome, certificate
