"""A target for several classes, and the training of their machines: jobs, an executor, results put together.

:func:`target_of` says what solvers minimise: one joint loss, or the sum of the losses of each class against the rest.
:func:`train` is the way of a kernel classifier, whose classes are told apart by binary machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from ...core.losses import losses
from ...core.rows.rows import unlocked
from ...history import History
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificates
from . import pairs
from .checking import held_out
from .fitting import Shown, Turn
from .jobs import Binaries, HeldOut, Results, jobs_of, on_device, problems_of, run_jobs, worst_reason
from .session import Job, Session, checked, falls_short


def target_of(
    n_classes: int, loss: Any, multi_class: str, positive_weight: np.ndarray, cost_matrix: Any = None
) -> tuple[Any, int]:
    """(target, number of outputs): a joint loss, the sum of those of each class against the rest, or of two classes.

    ``positive_weight`` are weights of each class's own examples against the rest, ``cost_matrix`` the costs of a joint
    hinge, 1 for every error if None.
    """
    single = losses.as_loss(loss, losses.BINARY)
    if multi_class == "crammer_singer":
        return (losses.MulticlassLog() if single.name == "log" else _joint_hinge(n_classes, cost_matrix)), n_classes
    return (losses.Single(single), 1) if n_classes == 2 else (losses.OneVsRest(single, positive_weight), n_classes)


def _joint_hinge(n_classes: int, cost_matrix: Any) -> Any:
    """The hinge of all classes together, with the cost of each error."""
    try:
        cost = 1.0 - np.eye(n_classes) if cost_matrix is None else np.asarray(cost_matrix, np.float64)
    except (ValueError, TypeError) as error:
        raise type(error)(f"cost_matrix must hold numbers: {error}") from error
    if cost.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost_matrix must have shape ({n_classes}, {n_classes}), got {cost.shape}: give a row and a column for "
            "each class"
        )
    wrong = ~np.isfinite(cost) | (cost < 0) | (np.eye(n_classes, dtype=bool) & (cost != 0))
    if wrong.any():
        r, c = np.argwhere(wrong)[0]
        raise ValueError(f"cost_matrix must be finite, ≥ 0 and zero on its diagonal, got {cost[r, c]} at [{r}, {c}]")
    return losses.MulticlassHinge(unlocked(np.ascontiguousarray(cost)))


def targets_of(codes: np.ndarray, outputs: int) -> np.ndarray:
    """What a target compares scores with: ±1 for one output, else the codes."""
    return 2.0 * codes - 1.0 if outputs == 1 else codes.astype(np.float64)


# ---------------------------------------------------------------- training


def train(session: Session, binaries: Binaries) -> Any:
    """Train the binary problems of a fit and set the machine's attributes; returns the state of the last run, or None
    if they were trained together.

    They are trained together where the solver can share its work, as small pairs in one run, all at once on a device,
    or each by itself.
    """
    machine, solver, results = session.machine, session.solver, None
    training = others = None
    if machine.early_stopping:
        session, binaries, training, others = _hold_out(session, binaries)
    able = solver.capabilities
    shares_time = machine.max_seconds is not None and able.exact  # each class has its share of a time limit
    if able.joins and binaries.against_rest and not shares_time and session.start is None:
        _train_together(session, binaries, others)
    elif pairs.are_small(session, binaries):
        pairs.train(session, binaries)
    elif able.for_many and len(binaries) > 1 and others is None:
        train_on_device(session, [(machine, binaries)])
    else:
        results = _train_each(session, binaries, jobs_of(session, binaries, others=others), others, Results())
    if training is not None:
        machine.support_ = training[machine.support_]
    return None if results is None else results.state


def _hold_out(session: Session, binaries: Binaries) -> tuple[Session, Binaries, np.ndarray, HeldOut]:
    """(session and problems of the examples to train on, their places, the examples that are held out)."""
    codes, whole, start = binaries.codes, session.whole, session.start
    share = session.machine.validation_fraction
    training, chosen = held_out(session.rng, codes.size, share, codes, binaries.weights)
    # without a cache, because no kernel rows of held-out examples are wanted
    held = replace(whole, X=whole.rows(chosen), y=np.zeros(chosen.size), cache_bytes=0.0)
    others = replace(session, whole=held), binaries.take(chosen)
    session = replace(
        session, X=session.X[training], y=session.y[training],
        whole=replace(whole, X=whole.rows(training), y=np.zeros(training.size)),
        start=start[:, training] if isinstance(start, np.ndarray) else start,
    )  # fmt: skip
    return session, binaries.take(training), training, others


def _as_one(session: Session, binaries: Binaries, parts: Sequence[KernelProblem]) -> KernelProblem:
    """The problems of the classes against the rest as one, with an output for each class."""
    weights = np.stack([part.sample_weight for part in parts]) if binaries.weighted else np.empty(0)
    return replace(session.whole, y=np.stack([part.y for part in parts]), lam=parts[0].lam, sample_weight=weights)


def _train_each(
    session: Session, binaries: Binaries, jobs: Iterable[Job], others: HeldOut, results: Results
) -> Results:  # fmt: skip
    """Run each job, in turn or on threads, and set the machine's attributes; ``results`` may have a history."""
    stopped = run_jobs(session, binaries, jobs, others, results)
    certificates = Certificates.of(results.certificates)
    _assemble(session, binaries, results, "interrupted" if stopped else worst_reason(results.reasons, certificates))
    return results


def _train_together(session: Session, binaries: Binaries, others: HeldOut) -> None:
    """Run the classes against the rest as one problem, with every kernel row shared.

    For the ν-form that is all. For the C-form a number of draws ends the run, and SMO goes on with each class, from the
    examples that look promising.
    """
    machine, solver, is_nu_form = session.machine, session.solver, session.solver.capabilities.aim == "nu"
    problems = list(problems_of(session, binaries, range(len(binaries))))
    parts = [problem for _, problem in problems]
    joint, validation = _as_one(session, binaries, parts), None
    if others is not None:
        validation = _as_one(*others, [problem for _, problem in problems_of(*others, range(len(binaries)))])
    limits = Turn(session.started, name="together")
    if not is_nu_form:
        limits = replace(limits, max_epochs=solver.first_part, tol=0.0)
    shown = Shown(session.X, session.y)
    outcome = machine._run(solver, joint, limits, shown, rng=session.rng, validation=validation)
    results = Results(History([{"problem": -1, **row} for row in outcome.history]))
    if not is_nu_form and outcome.stop_reason == "max_iter":
        promising = solver.promising(joint, outcome.state)
        outcome.state.drop_workspace()
        jobs = jobs_of(session, binaries, problems=problems, promising=promising, others=others)
        _train_each(session, binaries, jobs, others, results)
        return
    model = outcome.model
    certificate = None if session.indefinite or not outcome.is_last else solver.certificate(joint, outcome.state)
    if certificate is not None:
        everything, seen = np.arange(joint.n), solver.scores(joint, outcome.state)
        certificate = checked(session, parts, everything, model, certificate, seen)
        if certificate is not None and falls_short(session.tol, outcome.stop_reason, certificate):
            outcome.stop_reason = "settled"
    results.coefficients = [(model.support[row != 0.0], row[row != 0.0]) for row in model.coef]
    results.intercepts, results.rounds = model.intercept.tolist(), [outcome.state.counters.steps] * len(parts)
    results.certificates, results.reasons, results.cut_short = [certificate], [outcome.stop_reason], outcome
    _assemble(session, binaries, results, outcome.stop_reason)


def train_on_device(session: Session, machines: Sequence[tuple[Any, Binaries]]) -> None:
    """Train machines that may differ in C and in weights on a device at once, and set the attributes of each."""
    jobs = [job for machine, binaries in machines for job in _jobs_on_device(session, machine, binaries)]
    outcome, found = on_device(session, jobs)
    # a run of several ends as "stalled" when no problem is left to work on, and each has a reason of its own
    stopped, left = outcome.stop_reason if outcome.stop_reason != "stalled" else "", iter(found)
    for machine, binaries in machines:
        results = Results(History([{"problem": -1, **row} for row in outcome.history]))
        for job, solved in islice(left, len(binaries)):
            results.add(job, solved)
        reason = stopped or next((each for each in results.reasons if each != "tol"), "tol")
        _assemble(replace(session, machine=machine), binaries, results, reason)


def _jobs_on_device(session: Session, machine: Any, binaries: Binaries) -> Iterable[Job]:
    """The jobs of a machine, whose problems have the rows of all examples."""
    given, none = isinstance(session.start, np.ndarray), np.empty(0)
    for k in range(len(binaries)):
        chosen, y, s = binaries.binary(k)
        lam, weights = machine._lam(chosen.size), s if binaries.weighted else none
        start = session.start[binaries.rows_of(k, chosen), chosen] if given else None
        problem = replace(session.whole, y=y, lam=lam, sample_weight=weights)
        yield Job(k, chosen, problem, session.rng, start)


def _assemble(session: Session, binaries: Binaries, results: Results, reason: str) -> None:
    """Set the machine's attributes from the results of all binary problems; support vectors stand by class."""
    machine, codes, place = session.machine, binaries.codes, np.zeros(binaries.codes.size, np.int64)
    machine._conclude(session, replace(results, rounds=np.array(results.rounds)), reason)
    if session.solver.capabilities.aim == "nu" and results.cut_short is not None:
        machine._warn_if_unfinished(results.cut_short)
    for rows, _ in results.coefficients:
        place[rows] = 1
    used = np.flatnonzero(place)
    support = used[np.argsort(codes[used], kind="stable")]
    place[support] = np.arange(support.size)
    coef = np.zeros((binaries.n_rows, support.size))
    for k, (rows, values) in enumerate(results.coefficients):
        coef[binaries.rows_of(k, rows), place[rows]] = values
    machine._adopt(
        session.X, session.whole, codes, support, coef, np.array(results.intercepts), session.errors, binaries.in_pairs
    )  # fmt: skip
