"""Jobs: the binary problems of a classifier, three executors that run them, and what came of them.

Two classes are one problem. More classes are one problem for each class against the rest, or one for each pair
(:class:`Binaries`). A :class:`.session.Job` is such a problem with its examples and its start. Executors run jobs one
by one, side by side on threads, or all at once on a device. :func:`one_by_one` and :func:`on_threads` are generators of
(job, what was solved and proven) in the order of the jobs, with None where there was no time. A new executor is one,
too; :func:`run_jobs` chooses it, and :class:`Results` takes what it yields. :func:`on_device` returns a list of the
same pairs with the outcome of its one run, and :func:`.multiclass.train_on_device` calls it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from ... import backends, solvers
from ...core.kernels.cache import RowCache
from ...core.sharing import in_turn
from ...core.threads.interrupts import Interrupts
from ...history import History
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate, Certificates
from ...running import Outcome
from .fitting import Shown, Turn, now
from .session import Job, Session, Solved, checked, falls_short, prove, solve

#: The part of the cache that holds whole kernel rows for all binary problems, where they share them.
SHARED = 0.6
#: The part of the cache that a pair trained by itself has: two can be trained at a time.
PAIR_CACHE = 0.5
#: Pairs of classes have threads of their own if the largest has at least this many examples. Below: the work of a pair
#: is too short for a thread.
LARGE_PAIR = 300

#: What an executor returns: :func:`run_jobs` closes it where it stops early.
Done = Generator[tuple[Job, Solved | None]]


@dataclass(frozen=True)
class Binaries:
    """The binary problems of several classes: one of two classes, each class against the rest, or each pair.

    The positive class is the second of two classes, the class against the rest, or the first of a pair.

    Attributes
    ----------
    codes : the class of each example, by its place among the sorted classes
    weights : the weights of the examples, empty for ones
    of_class : the weights of the classes
    weighted : whether there are weights at all
    in_pairs : whether the problems are the pairs of classes
    """

    codes: np.ndarray
    weights: np.ndarray
    of_class: np.ndarray
    weighted: bool
    in_pairs: bool

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of classes."""
        return list(combinations(range(self.of_class.size), 2))

    @cached_property
    def members(self) -> list[np.ndarray]:
        """The examples of each class."""
        return [np.flatnonzero(self.codes == c) for c in range(self.of_class.size)]

    @property
    def against_rest(self) -> bool:
        """Whether there is a problem for each class against the rest."""
        return len(self) > 1 and not self.in_pairs

    @property
    def n_rows(self) -> int:
        """The number of rows of ``dual_coef_``."""
        k = self.of_class.size
        return 1 if k == 2 else k - 1 if self.in_pairs else k

    def __len__(self) -> int:
        k = self.of_class.size
        return 1 if k == 2 else k * (k - 1) // 2 if self.in_pairs else k

    def binary(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(examples, labels ±1, weights) of binary problem k; a pair has the examples of its first class first."""
        codes, of_class = self.codes, self.of_class
        s = self.weights if self.weights.size else np.ones(codes.size)
        if self.in_pairs:
            i, j = self.pairs[k]
            chosen = np.concatenate([self.members[i], self.members[j]])
            return chosen, np.where(codes[chosen] == i, 1.0, -1.0), s[chosen] * of_class[codes[chosen]]
        two = of_class.size == 2
        own = codes == (1 if two else k)
        s = s * (of_class[codes] if two else np.where(own, of_class[k], 1.0))
        return np.arange(codes.size), np.where(own, 1.0, -1.0), s

    def rows_of(self, k: int, chosen: np.ndarray) -> Any:
        """The rows of ``dual_coef_`` in which the coefficients of some examples of binary problem k stand."""
        if not self.in_pairs:
            return k
        i, j = self.pairs[k]
        return np.where(self.codes[chosen] == i, j - 1, i)

    def take(self, chosen: np.ndarray) -> Binaries:
        """The same problems on some of the examples."""
        return replace(
            self, codes=self.codes[chosen], weights=self.weights[chosen] if self.weights.size else self.weights
        )


#: A session over the examples that early stopping holds out, and the binary problems of these; or None.
HeldOut = tuple[Session, Binaries] | None


def problems_of(
    session: Session, binaries: Binaries, numbers: Iterable[int]
) -> Iterator[tuple[np.ndarray, KernelProblem]]:
    """(examples, problem) of some of the binary problems.

    Classes against the rest share kernel rows where a third of all rows fits. Pairs do not: whole rows would be
    computed where a pair needs two classes' columns. A pair may have no example that is held out.
    """
    whole, n_bytes, shared = session.whole, session.whole.cache_bytes, None
    n_bytes *= PAIR_CACHE if binaries.in_pairs else 1.0
    shares = binaries.against_rest and not session.solver.capabilities.on_device
    if shares and n_bytes * SHARED / (4.0 * whole.n) >= whole.n / 3:
        everything = np.arange(whole.n)
        shared = RowCache(whole.matrix(everything, everything), SHARED * n_bytes)
        n_bytes *= 1.0 - SHARED
    for k in numbers:
        chosen, y, s = binaries.binary(k)
        yield chosen, replace(
            whole, X=whole.take(chosen).X if chosen.size < whole.n else whole.X, y=y,
            lam=session.machine._lam(max(1, chosen.size)), sample_weight=s if binaries.weighted else np.empty(0),
            cache_bytes=n_bytes, shared=None if shared is None else (shared, chosen),
        )  # fmt: skip


def jobs_of(
    session: Session, binaries: Binaries, numbers: Sequence[int] | None = None, *, problems: Any = None,
    promising: list[np.ndarray] | None = None, others: HeldOut = None,
) -> Iterator[Job]:  # fmt: skip
    """The jobs of all binary problems, or of some; ``problems`` are those of :func:`problems_of`, if they are known."""
    seed, numbers = int(session.rng.integers(2**63)), range(len(binaries)) if numbers is None else numbers
    problems = problems_of(session, binaries, numbers) if problems is None else problems
    given = isinstance(session.start, np.ndarray)
    held_out = iter(()) if others is None else problems_of(*others, numbers)

    def jobs() -> Iterator[Job]:
        for k, (chosen, problem) in zip(numbers, problems):
            start = session.start[binaries.rows_of(k, chosen), chosen] if given else session.start
            rng = np.random.default_rng(seed)  # the same for all: problems that share rows ask for the same rows
            _, validation = next(held_out, (None, None))
            yield Job(k, chosen, problem, rng, start, None if promising is None else promising[k], validation)

    return jobs()


# ---------------------------------------------------------------- executors


def one_by_one(session: Session, jobs: Iterable[Job], count: int) -> Done:
    """Run ``count`` jobs one after the other; under a time limit each may take an even share of the time that is left.

    After Ctrl-C each job that is left gets the model of a run that ends as soon as it begins.
    """
    solver, machine, stopped = session.solver, session.machine, False
    for place, job in enumerate(jobs):
        if place > 0 and solver.capabilities.exact and not stopped and now() >= session.deadline:
            yield job, None
            continue
        left = session.deadline - now()
        until = session.deadline if left == np.inf else now() + left / max(1, count - place)
        shown = Shown(session.X, session.y, machine._partly, partial(machine._finished, own=job.examples))
        limits = _at_once(session, job.name) if stopped else Turn(session.started, until, name=job.name)
        found = solve(session, solver, job, limits, None if stopped else shown)
        stopped = stopped or found.outcome.stop_reason == "interrupted"
        yield job, prove(session, job, found)
        if count > 1:  # the next one's kernel rows want the memory
            found.outcome.state.drop_workspace()


def _at_once(session: Session, name: str) -> Turn:
    """The limits of a run that ends as soon as it begins; one step, of a solver that does not approach an optimum."""
    return Turn(session.started, now(), None if session.solver.capabilities.exact else 1e-9, name=name)


def threads_for(session: Session, binaries: Binaries, others: HeldOut) -> int:
    """How many pairs of classes are trained at a time, as their kernel rows have room in the cache.

    It is one at a time where somebody is told how it goes or may end it, where a checkpoint keeps it, where Python or a
    device computes the kernel, and where pairs are small.
    """
    machine, whole = session.machine, session.whole
    watched = bool(machine.verbose or machine._own_callbacks() or getattr(machine, "_skl_callbacks", None))
    limited = machine._checkpoint is not None or session.deadline < np.inf or others is not None
    elsewhere = session.solver.capabilities.on_device or whole.kernel.is_function
    pair = float(np.sort(np.bincount(binaries.codes))[-2:].sum())
    if not binaries.in_pairs or watched or limited or elsewhere or pair < LARGE_PAIR:
        return 1
    return min(whole.threads, int(whole.cache_bytes // min(PAIR_CACHE * whole.cache_bytes, 4.0 * pair**2)))


def on_threads(session: Session, jobs: Iterable[Job], at_once: int, interrupts: Interrupts) -> Done:
    """Run some jobs at a time, each on threads of its own, which changes no bit of any; prove them in their order."""
    solver, threads = session.solver, session.whole.threads // at_once

    def work(job: Job) -> tuple[Job, Solved]:
        limits = _at_once(session, job.name) if interrupts.seen else Turn(session.started, name=job.name)
        own = replace(job, problem=replace(job.problem, threads=threads))
        try:
            found = solve(session, solver, own, replace(limits, interrupts=interrupts), None)
        except BaseException:
            interrupts.end()  # in_turn waits for the others before it raises
            raise
        found.outcome.state.drop_workspace()
        return job, found

    with interrupts:
        results = in_turn(work, ((job,) for job in jobs), at_once)
        try:
            for job, found in results:
                yield job, prove(session, job, found)
        except BaseException:
            interrupts.end()  # whatever the caller has met, nobody wants the rest
            raise
        finally:
            results.close()


def run_on_device(session: Session, problems: Any, start: np.ndarray | None = None) -> tuple[Any, Outcome]:
    """(solver, outcome) of a run of several problems on a device, with the callbacks of the session's machine."""
    own = session.solver
    solver = solvers.make("devices", own.capabilities.for_many, tol=own.tol, device=backends.GPU)
    state = solver.init(problems, session.rng, start)
    limits = Turn(session.started, tol=0.0, name="side by side")
    return solver, session.machine._run(solver, problems, limits, Shown(session.X, session.y), state=state)


def on_device(session: Session, jobs: Sequence[Job]) -> tuple[Outcome, list[tuple[Job, Solved]]]:
    """Run all jobs at once on a device, with every kernel row shared; (the outcome of the run, what came of each job).

    There is no training in float64 on a device: where rounding hides a gap above ``tol``, the reason is "precision".
    """
    from ...backends.workspace import Problems

    problems, start = Problems(session.whole, [job.problem for job in jobs], [job.examples for job in jobs]), None
    if isinstance(session.start, np.ndarray):
        start = np.zeros((len(jobs), session.whole.n))
        for line, job in zip(start, jobs, strict=True):
            line[job.examples] = job.start
    solver, outcome = run_on_device(session, problems, start)
    machines, known = solver.machines(problems, outcome.state), solver.certificates(problems, outcome.state)
    found = []
    for job, state, (support, coef, bias), certificate in zip(jobs, outcome.state.states, machines, known, strict=True):
        part, reason = job.problem, "tol" if state.reached else "stalled" if state.stalled else outcome.stop_reason
        model = KernelModel(part.kernel, support, None, coef[None], np.array([bias]), part.constant)
        if not session.indefinite:
            certificate = checked(session, [part], job.examples, model, certificate, None)
        if certificate is not None and falls_short(session.tol, reason, certificate):
            reason = "precision"
        found.append((job, Solved(Outcome(state, model, History(), reason, outcome.objective), certificate, False)))
    return outcome, found


# ---------------------------------------------------------------- results


@dataclass
class Results:
    """What came of the jobs, in their order: models, certificates, and why and after how many rounds each run ended.

    Attributes
    ----------
    coefficients : (examples, coefficients) of the support vectors of each problem
    of_sample : whether some model is that of a sample, because there was no time for all examples
    cut_short : the last outcome that ``max_iter`` ended, or None; of classes trained together, their outcome
    state : the state of the last run, to go on from
    """

    history: History = field(default_factory=History)
    coefficients: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    intercepts: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    certificates: Any = field(default_factory=list)
    rounds: Any = field(default_factory=list)
    of_sample: bool = False
    cut_short: Outcome | None = None
    state: Any = None

    def add(self, job: Job, solved: Solved | None) -> None:
        """Add what came of a job; w = 0 where there was no time for it."""
        if solved is None:
            value, model = job.problem.at_zero()
            certificate: Certificate | None = Certificate(value, 0.0, value)
            reason, rounds = "max_seconds", 0
        else:
            outcome, certificate, of_sample = solved
            model, reason, rounds = outcome.model, outcome.stop_reason, outcome.state.counters.steps
            self.history.rows += [{"problem": job.number, **row} for row in outcome.history]
            self.of_sample = self.of_sample or of_sample
            self.cut_short = outcome if reason == "max_iter" else self.cut_short
            self.state = outcome.state
        self.coefficients.append((job.examples[model.support], model.coef[0]))
        self.intercepts.append(model.intercept[0])
        self.reasons.append(reason)
        self.certificates.append(certificate)
        self.rounds.append(rounds)


def worst_reason(reasons: Sequence[str], certificates: Certificates) -> str:
    """The reason of the binary problem that is furthest from its optimum, among those with other reasons than "tol"."""
    gaps = certificates.gaps / np.maximum(np.abs(certificates.primal), 1e-300)
    short = [(math.isnan(gap), gap, reason) for gap, reason in zip(gaps, reasons, strict=True) if reason != "tol"]
    return max(short)[2] if short else "tol"


def run_jobs(
    session: Session, binaries: Binaries, jobs: Iterable[Job], others: HeldOut, results: Results
) -> bool:  # fmt: skip
    """Run all jobs of a fit, in turn or on threads, and add what comes of them; returns whether Ctrl-C ended some."""
    at_once, interrupts = threads_for(session, binaries, others), Interrupts()
    if at_once > 1:
        done = on_threads(session, jobs, at_once, interrupts)
    else:
        done = one_by_one(session, jobs, len(binaries))
    with closing(done):  # an error's frames may keep it
        for job, solved in done:
            results.add(job, solved)
    return "interrupted" in results.reasons or interrupts.seen
