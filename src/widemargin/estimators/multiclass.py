"""How a problem of several classes becomes one that solvers know: one joint loss, or binary problems.

The binary problems of a kernel machine are solved one after the other, each class against the rest together, or many
small pairs together; then their support vectors are put together, and the machines of pairs vote.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..arguments import threads
from ..backends.tensors import as_given
from ..core import losses
from ..core.distant import Distant, local, local_rows
from ..core.interrupts import Interrupts
from ..core.kernel_cache import RowCache
from ..core.pairs import add_votes, first_pair
from ..core.rows import unlocked
from ..core.sharing import in_turn, share_out
from ..history import History
from ..models import KernelModel, PairsModel
from ..problems.kernel import KernelProblem
from ..problems.layout import finite_scores
from ..problems.objective import Certificate, Certificates
from ..running import Outcome
from ..solvers.pairs import PairsProblem
from .fitting import Shown, Turn, held_out, now
from .labels import Labelled
from .machine import KernelMachine, Task
from .proof import FEW, SAMPLES, SHARE, mean_at_most
from .sides import Sides

#: The part of the cache that holds whole kernel rows for all binary problems, where they share them.
SHARED = 0.6
#: Pairs of classes are trained in one run where their kernel matrices have at most so many values, on the average:
#: those of three classes, and of more, which have more rows in common (docs/notes/smo.md has what that saves).
SMALL_PAIRS = 2**16, 2**18
#: The part of the cache that the kernel matrix of the largest such pair, and the rows of the largest class, may take.
PAIR_SHARE = 0.25
#: The part of the cache that a pair trained by itself has: two can be trained at a time.
PAIR_CACHE = 0.5
#: Examples of pairs that are worth a thread.
LARGE_PAIR = 300
#: Coefficients of all pairs, at most, for scores on a GPU.
ON_DEVICE = 2**25


def target_of(
    n_classes: int, loss: str, multi_class: str, positive_weight: np.ndarray, cost_matrix: Any = None
) -> tuple[Any, int]:
    """(target, number of outputs): a joint loss, the sum of those of each class against the rest, or of two classes.

    ``positive_weight`` are weights of each class's own examples against the rest, ``cost_matrix`` the costs of a joint
    hinge, 1 for every error if None.
    """
    if multi_class == "crammer_singer":
        return (losses.MulticlassLog() if loss == "log" else _joint_hinge(n_classes, cost_matrix)), n_classes
    single = losses.BINARY[loss]()
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


def _has_many_pairs(model: Any) -> bool:
    """Whether a machine of pairs has too many coefficients for scores on a GPU."""
    return isinstance(model, PairsModel) and model.intercept.size * model.support.size > ON_DEVICE


def worst_reason(reasons: Sequence[str], certificates: Certificates) -> str:
    """Why training ended of the binary problem that is furthest from its optimum, of those short of "tol"."""
    gaps = certificates.gaps / np.maximum(np.abs(certificates.primal), 1e-300)
    short = [(math.isnan(gap), gap, reason) for gap, reason in zip(gaps, reasons, strict=True) if reason != "tol"]
    return max(short)[2] if short else "tol"


def targets_of(codes: np.ndarray, outputs: int) -> np.ndarray:
    """What a target compares scores with: ±1 for one output, else the codes."""
    return 2.0 * codes - 1.0 if outputs == 1 else codes.astype(np.float64)


@dataclass(frozen=True)
class Binaries:
    """The binary problems of several classes: one of two classes, each class against the rest, or each pair.

    Positive is the second of two classes, the class against the rest, the first of a pair.
    """

    codes: np.ndarray
    #: Of the examples, empty for ones; and of the classes.
    weights: np.ndarray
    of_class: np.ndarray
    #: Whether there are weights at all.
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


class Decomposed(Labelled, KernelMachine):
    """A kernel classifier whose classes are told apart by binary machines."""

    decision_function_shape: str
    break_ties: bool

    def _in_pairs(self) -> bool:
        return self.classes_.size > 2 and self.multi_class == "ovo"

    # -- training

    def _train(self, task: Task, binaries: Binaries) -> Any:
        """Train the binary problems, on what ``early_stopping`` leaves; returns the last state, if there is one."""
        training = others = state = None
        if self.early_stopping:
            codes, share = binaries.codes, self.validation_fraction
            training, chosen = held_out(task.rng, codes.size, share, codes, binaries.weights)
            others = replace(task.whole, X=task.whole.rows(chosen), y=np.zeros(chosen.size)), binaries.take(chosen)
            start, binaries = task.start, binaries.take(training)
            task = replace(
                task, X=task.X[training], y=task.y[training],
                whole=replace(task.whole, X=task.whole.rows(training), y=np.zeros(training.size)),
                start=start[:, training] if isinstance(start, np.ndarray) else start,
            )  # fmt: skip
        solver, several = self._configured(), len(binaries) > 1 and not binaries.in_pairs
        # under a time limit each class has its share of it
        shares_time = self.max_seconds is not None and solver.exact
        if solver.joins and several and not shares_time and task.start is None:
            self._train_together(task, binaries, others)
        elif self._has_small_pairs(binaries):
            self._train_pairs(task, binaries)
        elif solver.for_many and len(binaries) > 1 and others is None:
            self._train_side_by_side(task, binaries)
        else:
            state = self._train_one_by_one(task, binaries, others, self._problems(task, binaries))
        if training is not None:
            self.support_ = training[self.support_]
        return state

    def _problems(
        self, task: Task, binaries: Binaries, which: Iterable[int] | None = None
    ) -> Iterator[tuple[np.ndarray, KernelProblem]]:
        """(examples, problem) of all binary problems, or of some.

        Classes against the rest share kernel rows where a third of all fit. Pairs do not: whole rows would be computed
        where a pair needs two classes' columns.
        """
        whole, n_bytes, shared = task.whole, task.whole.cache_bytes, None
        n_bytes *= PAIR_CACHE if binaries.in_pairs else 1.0
        shares = len(binaries) > 1 and not binaries.in_pairs and not self._configured().on_device
        if shares and n_bytes * SHARED / (4.0 * whole.n) >= whole.n / 3:
            everything = np.arange(whole.n)
            shared = RowCache(whole.matrix(everything, everything), SHARED * n_bytes)
            n_bytes *= 1.0 - SHARED
        for k in range(len(binaries)) if which is None else which:
            chosen, y, s = binaries.binary(k)
            yield chosen, replace(
                whole, X=whole.take(chosen).X if chosen.size < whole.n else whole.X, y=y, lam=self._lam(chosen.size),
                sample_weight=s if binaries.weighted else np.empty(0), cache_bytes=n_bytes,
                shared=None if shared is None else (shared, chosen),
            )  # fmt: skip

    @staticmethod
    def _validation(others: tuple[KernelProblem, Binaries] | None, k: int, problem: KernelProblem) -> Any:
        """The held-out examples of binary problem k, or of all of them together for k = −1; None without any."""
        if others is None:
            return None
        whole, binaries = others
        if k < 0:
            _, y, s = map(np.stack, zip(*map(binaries.binary, range(len(binaries)))))
            return replace(problem, X=whole.X, y=y, sample_weight=s, shared=None)
        chosen, y, s = binaries.binary(k)
        order = np.argsort(chosen)
        return replace(problem, X=whole.rows(chosen[order]), y=y[order], sample_weight=s[order], shared=None)

    def _train_one_by_one(
        self, task: Task, binaries: Binaries, others: Any, problems: Iterable[tuple[np.ndarray, KernelProblem]],
        promising: list[np.ndarray] | None = None, history: History | None = None,
    ) -> Any:  # fmt: skip
        """Run each binary problem and put their support vectors together, from ``promising`` examples or the start of
        the task; returns the state of the last one."""
        history = History() if history is None else history
        coefficients, intercepts, reasons, rounds = [], [], [], []
        certificates: list[Certificate | None] = []

        def keep(
            chosen: np.ndarray, model: KernelModel, reason: str, certificate: Certificate | None, steps: int
        ) -> None:
            coefficients.append((chosen[model.support], model.coef[0]))
            intercepts.append(model.intercept[0])
            reasons.append(reason)
            certificates.append(certificate)
            rounds.append(steps)

        unfinished, estimated = None, False
        begin = self._beginner(task, binaries, range(len(binaries)), promising)
        at_once, interrupts = self._pairs_at_once(task, binaries, others), Interrupts()
        if at_once > 1:
            solved = self._solved_side_by_side(task, problems, begin, at_once, interrupts)
        else:
            solved = self._solved_in_turn(task, len(binaries), others, problems, begin)
        with closing(solved):  # an error's frames may keep them
            for k, (chosen, problem, found) in enumerate(solved):
                if found is None:
                    value, nothing = problem.at_zero()
                    keep(chosen, nothing, "max_seconds", Certificate(value, 0.0, value), 0)
                    continue
                limits = Turn(task.started, task.deadline, name=f"problem {k}")
                outcome, certificate, is_guess = self._with_proof(task, problem, chosen, limits, *found)
                keep(chosen, outcome.model, outcome.stop_reason, certificate, outcome.state.counters.steps)
                history.rows += [{"problem": k, **row} for row in outcome.history]
                estimated = estimated or is_guess
                unfinished = outcome if outcome.stop_reason == "max_iter" else unfinished
        stopped = "interrupted" in reasons or interrupts.seen
        reason = "interrupted" if stopped else worst_reason(reasons, Certificates.of(certificates))
        self._conclude(task, history, reason, np.array(rounds), certificates, reasons, estimated)
        if self._is_nu_form() and unfinished is not None:
            self._warn_if_unfinished(unfinished)
        self._put_together(task, binaries, coefficients, np.array(intercepts))
        return outcome.state

    def _beginner(
        self, task: Task, binaries: Binaries, which: Sequence[int], promising: list[np.ndarray] | None = None
    ) -> Callable[..., tuple[np.random.Generator, Any]]:
        """What makes (random numbers, state or None) from the place of a binary problem among some, and the problem."""
        solver, seed = self._configured(), int(task.rng.integers(2**63))

        def begin(place: int, chosen: np.ndarray, problem: KernelProblem) -> tuple[np.random.Generator, Any]:
            rng = np.random.default_rng(seed)  # the same for all, so that problems which share rows ask for the same
            k, given = which[place], isinstance(task.start, np.ndarray)
            start = task.start[binaries.rows_of(k, chosen), chosen] if given else task.start
            return rng, self._state_from(solver, problem, rng, start, None if promising is None else promising[k])

        return begin

    def _solved_in_turn(
        self, task: Task, count: int, others: Any, problems: Iterable[tuple[np.ndarray, KernelProblem]],
        begin: Callable[..., tuple[np.random.Generator, Any]],
    ) -> Generator[tuple[np.ndarray, KernelProblem, Any]]:  # fmt: skip
        """(examples, problem, what :meth:`_solve` found) of each problem; nothing was found where there was no time."""
        solver, stopped = self._configured(), False
        for k, (chosen, problem) in enumerate(problems):
            if k > 0 and solver.exact and not stopped and now() >= task.deadline:
                yield chosen, problem, None
                continue
            rng, state = begin(k, chosen, problem)
            left = task.deadline - now()
            # the problems that are left after Ctrl-C get what takes no time
            until = now() if stopped else task.deadline if left == math.inf else now() + left / max(1, count - k)
            limits = Turn(task.started, until, 1e-9 if stopped and not solver.exact else None, name=f"problem {k}")
            attributes = self._partly if self.classes_.size == 2 else None
            shown = None if stopped else Shown(task.X, task.y, attributes, partial(self._finished, own=chosen))
            validation = self._validation(others, k, problem)
            found = self._solve(solver, problem, rng, limits, shown, state=state, validation=validation)
            stopped = stopped or found[0].stop_reason == "interrupted"
            yield chosen, problem, found
            if count > 1:  # the next one's kernel rows want the memory
                found[0].state.drop_workspace()

    def _pairs_at_once(self, task: Task, binaries: Binaries, others: Any) -> int:
        """How many pairs of classes are trained at a time, each on threads of its own, as their kernel rows have room.

        It is one at a time where somebody is told how it goes or may end it, where it is kept, and where pairs are
        small.
        """
        told = bool(self.verbose or self._own_callbacks() or getattr(self, "_skl_callbacks", None))
        limited = self._checkpoint is not None or task.deadline < math.inf or others is not None
        elsewhere = self._configured().on_device or task.whole.kernel.is_function
        pair = float(np.sort(np.bincount(binaries.codes))[-2:].sum())
        if not binaries.in_pairs or told or limited or elsewhere or pair < LARGE_PAIR:
            return 1
        n_bytes = task.whole.cache_bytes
        return min(task.whole.threads, int(n_bytes // min(PAIR_CACHE * n_bytes, 4.0 * pair**2)))

    def _solved_side_by_side(
        self, task: Task, problems: Iterable[tuple[np.ndarray, KernelProblem]],
        begin: Callable[..., tuple[np.random.Generator, Any]], at_once: int, interrupts: Interrupts,
    ) -> Generator[tuple[np.ndarray, KernelProblem, Any]]:  # fmt: skip
        """As :meth:`_solved_in_turn`, some at a time, which changes no bit of any."""
        solver, threads = self._configured(), task.whole.threads // at_once
        with interrupts:

            def solve(k: int, chosen: np.ndarray, problem: KernelProblem) -> tuple[np.ndarray, KernelProblem, Any]:
                own, stopped = replace(problem, threads=threads), interrupts.seen
                limits = Turn(
                    task.started, now() if stopped else math.inf, 1e-9 if stopped and not solver.exact else None,
                    interrupts=interrupts,
                )  # fmt: skip
                try:
                    rng, state = begin(k, chosen, own)
                    found = self._solve(solver, own, rng, limits, None, state=state)
                except BaseException:
                    interrupts.end()  # in_turn waits for the others before it raises
                    raise
                found[0].state.drop_workspace()
                return chosen, problem, found

            results = in_turn(solve, ((k, *each) for k, each in enumerate(problems)), at_once)
            try:
                for each in results:  # noqa: UP028 – ``yield from`` closes them, and waits, before they are told
                    yield each
            except BaseException:
                interrupts.end()  # whatever the caller has met, nobody wants the rest
                raise
            finally:
                results.close()

    def _train_together(self, task: Task, binaries: Binaries, others: Any) -> None:
        """Run the classes against the rest as one, with every kernel row shared; then, for the C-form, SMO on each."""
        problems, is_nu_form, solver = list(self._problems(task, binaries)), self._is_nu_form(), self._configured()
        parts = [problem for _, problem in problems]
        weights = np.stack([p.sample_weight for p in parts]) if binaries.weighted else np.empty(0)
        joint = replace(
            parts[0], y=np.stack([p.y for p in parts]), sample_weight=weights, shared=None,
            cache_bytes=self._cache_bytes(),
        )  # fmt: skip
        # for the C-form the number of draws ends this part, not tol
        limits = Turn(task.started, name="together")
        if not is_nu_form:
            limits = replace(limits, max_epochs=solver.first_part, tol=0.0)
        validation = self._validation(others, -1, joint)
        outcome = self._run(solver, joint, limits, Shown(task.X, task.y), rng=task.rng, validation=validation)
        history = History([{"problem": -1, **row} for row in outcome.history])
        if not is_nu_form and outcome.stop_reason == "max_iter":
            promising = solver.promising(joint, outcome.state)
            outcome.state.drop_workspace()
            self._train_one_by_one(task, binaries, others, problems, promising, history)
            return
        certificate = None if task.indefinite or not outcome.is_last else solver.certificate(joint, outcome.state)
        if certificate is not None:
            everything = np.arange(joint.n)
            seen = solver.scores(joint, outcome.state)
            certificate = self._checked(parts, task.X, everything, outcome.model, certificate, seen)
            if certificate is not None and self._falls_short(outcome.stop_reason, certificate):
                outcome.stop_reason = "settled"
        rounds = np.full(len(parts), outcome.state.counters.steps)
        self._conclude(task, history, outcome.stop_reason, rounds, [certificate], [outcome.stop_reason])
        if is_nu_form:
            self._warn_if_unfinished(outcome)
        coefficients = [(outcome.model.support[row != 0.0], row[row != 0.0]) for row in outcome.model.coef]
        self._put_together(task, binaries, coefficients, outcome.model.intercept)

    def _train_side_by_side(self, task: Task, binaries: Binaries) -> None:
        """Run all binary problems on a device at once, with every kernel row shared."""
        Sides(task, [(self, binaries)]).train(self)

    def _has_small_pairs(self, binaries: Binaries) -> bool:
        """Whether pairs of classes are so small that a run for each is mostly overhead."""
        sizes = np.bincount(binaries.codes).astype(float)
        k, pairs = sizes.size, sizes.size * (sizes.size - 1) / 2
        own = self._configured()
        # under a time limit the hinge is solved by what has models soonest, for small pairs as for large ones
        exact = (own.for_pairs or (own.exact and self.max_seconds is not None)) and not self.early_stopping
        if not exact or self.multi_class != "ovo" or k == 2:
            return False
        values = ((k - 2) * np.sum(sizes**2) + np.sum(sizes) ** 2) / pairs  # the mean of (s + t)² over the pairs
        largest = max(np.sort(sizes)[-2:].sum() ** 2, sizes.max() * binaries.codes.size)
        return values <= SMALL_PAIRS[k > 3] and 4.0 * largest <= PAIR_SHARE * self._cache_bytes()

    def _train_pairs(self, task: Task, binaries: Binaries) -> None:
        """Train the pairs of small classes in one run, and then those that are too hard for it by themselves."""
        codes, weights = binaries.codes, binaries.weights
        order = np.argsort(codes, kind="stable")
        of_example = (weights if weights.size else 1.0) * binaries.of_class[codes]
        rows = local_rows(task.whole.X)  # small problems are solved on the CPU
        whole = replace(task.whole, X=rows, sample_weight=of_example if binaries.weighted else np.empty(0))
        C, lam = 0.0 if self.lam is not None else float(self.C), float(self.lam or 0.0)
        problem = PairsProblem(whole.take(order), np.cumsum(np.bincount(codes)), C, lam)
        name, tol = self._configured().for_pairs or "auto", max(float(self.tol), 1e-12)
        solver = solvers.make("pairs", name, tol=tol, max_rounds=self.max_iter)
        state = solver.init(problem, duals=None if task.start is None else task.start[:, order])
        limits = Turn(task.started, max_epochs=1)
        if self.max_seconds is not None:  # all pairs roughly, and then each to the end
            outcome = self._run(solver.rough(), problem, replace(limits, name="roughly"), None, state=state)
            state = solver.again(outcome.state)
        if self.max_seconds is None or outcome.stop_reason == "max_iter":
            shown = Shown(task.X, task.y, finish=partial(self._finished, own=order))
            outcome = self._run(solver, problem, limits, shown, state=state)
            state = outcome.state
        reasons, ended = state.reasons.tolist(), outcome.stop_reason in ("tol", "max_iter")
        history = History([{"problem": -1, **row} for row in outcome.history])
        if ended:
            hard = solver.hard(state).tolist()
            self._train_hard_pairs(task, binaries, problem, order, hard, state.results, reasons, history)
        solver.settle(problem, state)
        lams = problem.lams()
        certificates = Certificates(lams * state.results.primal, lams * state.results.dual)
        if not task.indefinite:
            self._check_pairs(task, binaries, problem, order, state, reasons, certificates, history)
        reason = worst_reason(reasons, certificates) if ended else outcome.stop_reason
        model = solver.model(problem, state)
        self._conclude(task, history, reason, state.results.rounds, certificates, reasons)
        self._adopt(task, codes, order[model.support], model.coef, model.intercept, True)

    def _train_hard_pairs(
        self, task: Task, binaries: Binaries, problem: PairsProblem, order: np.ndarray, hard: list[int], results: Any,
        reasons: list[str], history: History,
    ) -> None:  # fmt: skip
        """Run some pairs by themselves, and put what is found into ``results``, where it is known to be better, and
        into ``reasons`` and ``history``.

        They begin where the fit began: from where they are it takes as long or longer (docs/notes/smo.md).
        """
        lams, place = problem.lams(), np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        begin = self._beginner(task, binaries, hard)
        solved = self._solved_in_turn(task, len(hard), None, self._problems(task, binaries, hard), begin)
        for p, (chosen, own, found) in zip(hard, solved, strict=True):
            if found is None:
                reasons[p] = "max_seconds"
                continue
            limits = Turn(task.started, task.deadline, name=f"problem {p}")
            outcome, certificate, is_guess = self._with_proof(task, own, chosen, limits, *found)
            primal = outcome.objective if certificate is None else certificate.primal
            if not is_guess and primal <= lams[p] * results.primal[p]:
                coef = np.zeros(chosen.size)
                coef[outcome.model.support] = outcome.model.coef[0]
                results.beta[binaries.rows_of(p, chosen), place[chosen]] = coef
                results.bias[p], results.primal[p] = outcome.model.intercept[0], primal / lams[p]
            if certificate is not None:
                results.dual[p] = max(results.dual[p], certificate.dual / lams[p])
            results.rounds[p] += outcome.state.counters.steps
            reasons[p] = outcome.stop_reason
            history.rows += [{"problem": p, **row} for row in outcome.history]

    def _check_pairs(
        self, task: Task, binaries: Binaries, problem: PairsProblem, order: np.ndarray, state: Any,
        reasons: list[str], certificates: Certificates, history: History,
    ) -> None:  # fmt: skip
        """Check the certificates of all pairs, in place, and train those on in float64 whose gap is above ``tol``.

        Pairs differ in their coefficients only, so the scores of all pairs on some examples tell of each one what its
        float32 values are worth, in units of Σ |β|; those of which that is not enough are computed anew.
        """
        n, results, doubtful = order.size, state.results, np.ones(problem.n_pairs, bool)
        model = solvers.make("pairs", "smo").model(problem, state)
        if n > FEW:
            exact, which = self._exact(task.X, order, model.kernel), np.random.default_rng(0).choice(n, SAMPLES[0])
            scores, error = exact.scores(replace(model, vectors=exact.vectors(model.support)), which)
            everything = np.arange(n)
            K = problem.whole.matrix(everything, everything).block(which)[:, model.support].T + model.constant
            apart = np.abs(scores.T - model.combined(K) - model.intercept[:, None]) + error.T
            ones = np.ones((model.support.size, 1))
            size = replace(model, coef=np.abs(model.coef)).combined(ones)[:, 0]
            unit = mean_at_most((apart / np.maximum(size, 1e-300)[:, None]).max(axis=0))
            caps = problem.over_pairs(np.add.reduceat(problem.weights, problem.ends - problem.sizes))
            caps = caps / problem.over_pairs(problem.sizes)  # λ Σ C sᵢ
            off = 1.5 * caps * unit * size
            gap = certificates.gaps
            doubtful = ~(off <= SHARE * np.maximum(self.tol * certificates.primal, gap)) | (gap < -off)
            certificates.primal[~doubtful] += off[~doubtful]
            certificates.dual[~doubtful] -= off[~doubtful]
            fell = np.isin(reasons, ("tol", "stalled")) & (certificates.gaps > self.tol * certificates.primal)
            doubtful |= fell
        found, place = np.flatnonzero(doubtful).tolist(), np.empty(n, np.int64)
        place[order] = np.arange(n)
        for p, (chosen, part) in zip(found, self._problems(task, binaries, found), strict=True):
            where = binaries.rows_of(p, chosen), place[chosen]
            coef, bias = results.beta[where], results.bias[p : p + 1]
            used = np.flatnonzero(coef)
            own = KernelModel(part.kernel, used, None, coef[None, used], bias, part.constant)
            certificate = self._checked([part], task.X, chosen, own, certificates[p])
            if certificate is not None:
                outcome = Outcome(None, own, History(), reasons[p], certificate.primal)
                if self._falls_short(reasons[p], certificate):
                    limits = Turn(task.started, task.deadline, name=f"problem {p}")
                    outcome, certificate = self._refined(task, part, chosen, outcome, certificate, limits)
                model, certificate = self._at_least_nothing(part, outcome.model, certificate)
                if model is not own:
                    coef[:] = 0.0
                    coef[model.support] = model.coef[0]
                    results.beta[where], results.bias[p] = coef, model.intercept[0]
                reasons[p] = outcome.stop_reason
                history.rows += [{"problem": p, **row} for row in outcome.history]
            certificates.replace(p, certificate)

    def _put_together(
        self, task: Task, binaries: Binaries, coefficients: list[tuple[np.ndarray, np.ndarray]], intercepts: np.ndarray
    ) -> None:
        """Adopt the machines of all binary problems, given (rows, coefficients) of each one's support vectors."""
        codes, place = binaries.codes, np.zeros(binaries.codes.size, np.int64)
        for rows, _ in coefficients:
            place[rows] = 1
        used = np.flatnonzero(place)
        support = used[np.argsort(codes[used], kind="stable")]
        place[support] = np.arange(support.size)
        coef = np.zeros((self._n_rows_of_duals(), support.size))
        for k, (rows, values) in enumerate(coefficients):
            coef[binaries.rows_of(k, rows), place[rows]] = values
        self._adopt(task, codes, support, coef, intercepts, binaries.in_pairs)

    def _n_rows_of_duals(self) -> int:
        """The number of rows of ``dual_coef_``."""
        k = self.classes_.size
        return 1 if k == 2 else k if self.multi_class == "ovr" else k - 1

    # -- predicting

    @as_given
    def decision_function(self, X: Any) -> Any:
        """Return the scores of rows.

        For two classes a positive score means ``classes_[1]``. For more, the scores of one-vs-one
        classifiers are votes, with the scores of the pairs deciding between equals, unless
        ``decision_function_shape="ovo"`` asks for the pairs themselves.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n,), (n, n_classes) or (n, n_pairs)
            The scores.

        Examples
        --------
        >>> from widemargin import SVC
        >>> model = SVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> (model.decision_function([[0.0], [3.0]]) > 0.0).tolist()
        [False, True]
        """
        check_is_fitted(self)
        if self._in_pairs() and self.decision_function_shape == "ovr":
            return self._votes(X)[1]
        return super().decision_function(X)

    def _votes(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Votes of the pairs for each class, and the same with their scores deciding between equals."""
        counted = finite_scores(self._counted, self._to_score(X))
        votes, sums = np.hsplit(counted, 2)
        return votes, votes + sums / (3.0 * (np.abs(sums) + 1.0))

    def _counted(self, X: Any) -> np.ndarray:
        """The votes for each class, and beside them the sums of the scores that decide between equals."""
        n, k = X.shape[0], self.classes_.size
        counted = np.zeros((n, 2, k))

        def count(parts: Iterable[tuple[slice, int, np.ndarray]]) -> None:
            for rows, i, scores in parts:
                if i == 0:
                    own = np.zeros((2, k, scores.shape[1]))
                add_votes(scores, i, own[0], own[1])
                if i == k - 2:
                    size = rows.stop - rows.start
                    counted[rows] = own[:, :, :size].transpose(2, 0, 1)

        share_out(count, self._pieces(X), threads(self.n_jobs))
        return counted.reshape(n, 2 * k)

    def _scores_on_device(self, model: Any) -> bool:
        return super()._scores_on_device(model) and not _has_many_pairs(model)

    def _scored(self, model: Any, X: Any) -> np.ndarray:
        """As of all kernel machines; a GPU has a coefficient for each pair and vector, or none if they are too many."""
        if _has_many_pairs(model):
            X = local(X)
        elif isinstance(model, PairsModel) and (isinstance(X, Distant) or self._scores_on_device(model)):
            model = model.whole()
        return super()._scored(model, X)

    def _pieces(self, X: Any) -> Sequence[tuple[Iterable[tuple[slice, int, np.ndarray]]]]:
        """Scores of pairs as :meth:`PairsModel.pieces`; also of a model whose pairs share merged vectors."""
        k, model = self.classes_.size, self._model
        here = _has_many_pairs(model) or not (isinstance(X, Distant) or self._scores_on_device(model))
        if here and isinstance(model, PairsModel):
            return model.pieces(self._preparation.rows(model.kernel, local(X)), threads=threads(self.n_jobs))
        scores, rows = self._scored(model, X).T, slice(0, X.shape[0])
        own = (np.ascontiguousarray(scores[first_pair(i, k) : first_pair(i + 1, k)]) for i in range(k - 1))
        return [(((rows, i, part) for i, part in enumerate(own)),)]

    @as_given
    def predict(self, X: Any) -> Any:
        """Return the predicted labels.

        They are decided by the sign of the score for two classes, by the votes of the pairs, or by the
        highest score against the rest.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n,)
            The labels, from ``classes_``.

        Examples
        --------
        >>> from widemargin import SVC
        >>> model = SVC(gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> model.predict([[0.0], [3.0]]).tolist()
        ['no', 'yes']
        """
        check_is_fitted(self)
        if self._in_pairs():
            return self.classes_[self._votes(X)[int(self.break_ties)].argmax(axis=1)]
        return super().predict(X)
