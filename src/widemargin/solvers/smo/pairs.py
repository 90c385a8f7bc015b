"""SMO on every pair of small classes.

Problem: the dual of :mod:`.dual` for each pair of classes, on the examples of both. Given are all examples, sorted by
class, and a relative duality gap. The state is β of all pairs, and what each has reached.

A step solves one pair. Where its examples are few, a round takes all of them as its working set, so SMO is its inner
loop alone: pairs of variables chosen with second-order information (:func:`.rounds.solve_pairs`; single variables
without a free bias), until the gap is closed. A pair then costs microseconds, and one compiled call solves many. A pair
that takes many moves is left to the caller: SMO itself, which looks at the clock between its rounds, finishes it.

Kernel values are shared. The rows of class i against all examples are one block of the kernel matrix, and the block of
each class against itself is kept. k classes of s examples take k²s² kernel values, half of what k²/2 separate problems
take, and memory for s rows.

Cost of a pair with m examples: O(m) for each pair of variables moved, O(m²) to lay out its kernel matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.borrowing import borrow, square
from ...core.compiling.dispatch import compiled, inlined
from ...core.kernels.pairs import first_pair, pairs_of
from ...files import savable
from ...history import Counters
from ...models import PairsModel
from ...problems.bounds import Members
from ...problems.kernel import KernelProblem
from ...problems.objective import Certificate
from ...schemas import Array, Whole, Within
from .. import protocol
from ..protocol import Solver
from .dual import excess, middle, violations
from .rounds import ROUNDING, WorkingSet, solve

# Tuned numbers; docs/notes/smo.md has the measurements.
MOVES, MOVES_EACH = 10_000, 50  # a pair is hard that takes more moves than MOVES and MOVES_EACH for each example
MOVES_A_CALL = 2**17  # moves after which a compiled call begins no further pair: it hears of no limit and no Ctrl-C
FIRST_CHECKPOINT = 2**14  # pairs before the first checkpoint; the others come when their number has doubled

#: How a pair ended: not begun; its gap is closed; all its rounds made; rounding allows no further progress; too hard
#: for the inner loop alone. And the words that users read.
WAITING, CLOSED, ALL_ROUNDS, STALLED, HARD = 0, 1, 2, 3, 4
ENDS = ("", "tol", "max_iter", "stalled", "")


class PairsRule(NamedTuple):
    """The rule of all pairs. C = 0 stands for 1/(λm); a gap of ``share`` of the dual value is closed."""

    free_bias: bool
    constant: float
    C: float
    lam: float
    share: float
    max_rounds: int
    tightening: float


@savable(
    "PairwiseSMO.Results", beta=Array("classes-1", "n"), bias=Array("pairs"), primal=Array("pairs"),
    dual=Array("pairs"), rounds=Array("pairs", dtype=np.int32, low=0),
    ended=Array("pairs", dtype=np.int8, low=0, high=HARD),
)  # fmt: skip
class Results(NamedTuple):
    """The signed dual variables of all pairs, in the layout of :mod:`widemargin.core.kernels.pairs`, and what each pair
    has reached.
    """

    beta: np.ndarray
    bias: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    rounds: np.ndarray
    ended: np.ndarray


class PairsSpace(NamedTuple):
    """What loops work on and can be made again.

    Of all classes: where the examples of each end, the examples' weights, and kernel values up to class ``held[0]``,
    whose rows are in ``block``; the values of class c against itself stand in ``own`` from places[c] on. Of all pairs:
    ``scores`` on their examples, NaN where they are not known. Of one pair: its kernel matrix, its variables, their
    responses and numbers.
    """

    ends: np.ndarray
    weight: np.ndarray
    block: np.ndarray
    own: np.ndarray
    places: np.ndarray
    held: np.ndarray
    scores: np.ndarray
    K: np.ndarray
    members: WorkingSet
    f: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, problem: PairsProblem) -> PairsSpace:
        """The arrays for a problem, with nothing held in them yet."""
        sizes, n = problem.sizes, int(problem.ends[-1])
        largest, places = int(np.sort(sizes)[-2:].sum()), np.concatenate([[0], np.cumsum(sizes**2)])
        return cls(
            problem.ends, problem.weights, np.empty((int(sizes.max()), n), np.float32),
            np.empty(int(places[-1]), np.float32), places, np.array([-1]), np.full((sizes.size - 1, n), np.nan),
            np.empty(largest**2, np.float32), WorkingSet.of(largest), np.empty(largest), np.arange(largest),
        )  # fmt: skip


@inlined
def start_of(ends, c):
    """Where the examples of class c begin."""
    return ends[c - 1] if c > 0 else 0


@inlined
def primal_and_dual(members, f, m, b):
    """(primal value, dual value) of the pair's α with bias b."""
    sigma, cap, alpha = members.sigma, members.cap, members.alpha
    losses, linear, norm2 = 0.0, 0.0, 0.0
    for v in range(m):
        losses += cap[v] * max(0.0, sigma[v] * (sigma[v] - f[v] - b))
        linear += sigma[v] * sigma[v] * alpha[v]
        norm2 += sigma[v] * alpha[v] * f[v]
    return 0.5 * norm2 + losses, linear - 0.5 * norm2


@inlined
def lay_out(space, i, j, constant, K):
    """K ← the kernel matrix of the examples of classes j and i, plus a constant; those of j come first."""
    ends, block, own, place = space.ends, space.block, space.own, space.places[j]
    start, before = start_of(ends, i), start_of(ends, j)
    n, m = ends[j] - before, ends[i] - start
    shift = np.float32(constant)
    for r in range(n):
        for c in range(n):
            K[r, c] = own[place + r * n + c] + shift
    for r in range(m):
        for c in range(n):
            value = block[r, before + c] + shift
            K[n + r, c] = value
            K[c, n + r] = value
        for c in range(m):
            K[n + r, n + c] = block[r, start + c] + shift


@inlined
def take_up(space, i, j, rule, results, K):
    """members, f ← the dual of the pair of classes j and i at the β that results hold, made feasible."""
    here, f, ends, weight, beta = space.members, space.f, space.ends, space.weight, results.beta
    s, cap, a, diagonal = here.sigma, here.cap, here.alpha, here.diagonal
    start, before = start_of(ends, i), start_of(ends, j)
    n = ends[j] - before
    m = n + ends[i] - start
    C = rule.C if rule.C > 0.0 else 1.0 / (rule.lam * m)
    above, below = 0.0, 0.0
    for v in range(m):
        s[v] = 1.0 if v < n else -1.0
        given = beta[i - 1, before + v] if v < n else beta[j, start + v - n]
        cap[v] = C * weight[before + v if v < n else start + v - n]
        a[v] = min(max(s[v] * given, 0.0), cap[v])
        diagonal[v] = K[v, v]
        above, below = (above + a[v], below) if v < n else (above, below + a[v])
    if rule.free_bias and above != below:  # Σ σα = 0 again, within the box
        for v in range(m):
            own_sum, other_sum = (above, below) if v < n else (below, above)
            a[v] *= min(1.0, other_sum / own_sum) if own_sum > 0.0 else 0.0
    f[:m] = 0.0
    if above > 0.0 or below > 0.0:
        for v in range(m):
            for w in range(m):
                f[w] += s[v] * a[v] * K[v, w]


@inlined
def close_gap(rule, K, space, m):
    """Rounds on all m variables of a pair until its gap is closed, in place; returns (how it ended, bias, rounds,
    moves).
    """
    here, f, row = space.members, space.f[:m], space.numbers[:m]
    s, cap, a, e, up, down = here.sigma[:m], here.cap[:m], here.alpha[:m], here.e, here.up, here.down
    ended, b, rounds, moves, most = WAITING, 0.0, 0, 0, MOVES + MOVES_EACH * m
    while ended == WAITING:
        top, bottom = violations(s, s, cap, row, a, f, up, down)
        violation = max(top, -bottom, 0.0)
        if rule.free_bias:
            violation, b = top - bottom, middle(top, bottom)
        gap, dual = excess(s, s, cap, row, a, f, b)
        if gap <= rule.share * abs(dual) or violation <= ROUNDING:
            ended = CLOSED
        elif rounds >= rule.max_rounds:
            ended = ALL_ROUNDS
        elif not np.isfinite(gap):
            ended = STALLED
        elif moves >= most:
            ended = HARD
        else:
            for v in range(m):
                e[v] = s[v] - f[v]
            tolerance = max(rule.tightening * violation, ROUNDING)
            moved = solve(rule.free_bias, K, here, m, tolerance, most - moves)
            for v in range(m):
                f[v] = s[v] - e[v]
            rounds += 1
            moves += moved
            if moved == 0:
                ended = STALLED
    return ended, b, rounds, moves


@compiled
def solve_against(space, i, first, last, rule, results):
    """Solve the pairs of class i with the classes j from ``first`` up to ``last`` (< i), from the β that results hold.

    Changes ``results`` and the scores in place; returns (the class that is next, ``last`` if there was no end of moves,
    examples visited, pairs of variables or variables moved).
    """
    space, results = borrow(space), borrow(results)
    ends, scores, a, f = space.ends, space.scores, space.members.alpha, space.f
    start, visits, moves, j = start_of(ends, i), 0, 0, first
    while j < last and moves < MOVES_A_CALL:
        before = start_of(ends, j)
        n = ends[j] - before
        m = n + ends[i] - start
        # 1) open
        K = square(space.K, m)
        lay_out(space, i, j, rule.constant, K)
        take_up(space, i, j, rule, results, K)
        # 2) solve
        ended, b, rounds, moved = close_gap(rule, K, space, m)
        visits += rounds * m
        moves += moved
        # 3) commit
        p = first_pair(j, ends.size) + i - j - 1
        results.primal[p], results.dual[p] = primal_and_dual(space.members, f, m, b)
        results.bias[p], results.ended[p] = b, ended
        results.rounds[p] += rounds
        for v in range(n):
            results.beta[i - 1, before + v], scores[i - 1, before + v] = a[v], f[v] + b
        for v in range(n, m):
            results.beta[j, start + v - n], scores[j, start + v - n] = -a[v], f[v] + b
        j += 1
    return j, visits, moves


@dataclass(frozen=True, eq=False)
class PairsProblem:
    """All pairs of classes of one kernel problem.

    Parameters
    ----------
    whole : KernelProblem
        All examples, by class; its own y and λ are not looked at.
    ends : ndarray
        Where the examples of each class end.
    C, lam : float
        C of every pair; or, where C is 0, λ of every pair.
    """

    whole: KernelProblem
    ends: np.ndarray
    C: float
    lam: float

    overflow = KernelProblem.overflow

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return self.ends.size

    @property
    def n_pairs(self) -> int:
        """The number of pairs of classes."""
        return self.ends.size * (self.ends.size - 1) // 2

    @property
    def weights(self) -> np.ndarray:
        """The sample weights of all examples, 1 without them."""
        weights = self.whole.sample_weight
        return weights if weights.size else np.ones(int(self.ends[-1]))

    def over_pairs(self, of_class: np.ndarray) -> np.ndarray:
        """The sum of two classes' values, for each pair."""
        first, second = pairs_of(self.n_classes)
        return of_class[first] + of_class[second]

    @property
    def sizes(self) -> np.ndarray:
        """The number of examples of each class."""
        return np.diff(self.ends, prepend=0)

    def where(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Where β has the examples of the pair of classes i < j, those of class i first."""
        own, others = (np.arange(self.ends[c - 1] if c > 0 else 0, self.ends[c]) for c in (i, j))
        return np.repeat([j - 1, i], [own.size, others.size]), np.concatenate([own, others])

    def lams(self) -> np.ndarray:
        """The regularisation λ of each pair."""
        sizes = self.over_pairs(self.sizes)
        return 1.0 / (self.C * sizes) if self.C > 0.0 else np.full(sizes.size, self.lam)


def members_of(i: int, sizes: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], Members]:
    """The pairs of class i with all later classes: (a function that takes their entries out of a table in the layout of
    :mod:`widemargin.core.kernels.pairs`, those of class i first; to which pair each entry belongs).
    """
    own, others, first = int(sizes[i]), sizes[i + 1 :], int(sizes[:i].sum())
    m, ends = others.size, np.cumsum(others)
    starts = np.concatenate([np.arange(m) * own, m * own + ends - others])
    number = np.concatenate([np.repeat(np.arange(m), own), np.repeat(np.arange(m), others)])

    def taken(table: np.ndarray) -> np.ndarray:
        return np.concatenate([table[i:, first : first + own].ravel(), table[i, first + own :]])[None]

    def joined(two: np.ufunc, of: np.ndarray) -> np.ndarray:
        by_class = two.reduceat(of[0], starts)
        return np.asarray(two(by_class[:m], by_class[m:]))

    return taken, Members(partial(joined, np.add), partial(joined, np.minimum), lambda of: np.asarray(of)[number][None])


@savable("PairwiseSMO.State", results=Within(Results), done=Whole(0, "pairs"))
@dataclass
class PairwiseSMOState(protocol.State):
    """The dual variables β, what each pair has reached, and the number of pairs solved."""

    results: Results
    done: int = 0
    counters: Counters = field(default_factory=Counters)

    @property
    def reasons(self) -> np.ndarray:
        """Why training of each pair ended, in words."""
        return np.array(ENDS)[self.results.ended]


@savable()
@dataclass
class PairwiseSMO(Solver):
    """SMO on all pairs of classes, one after another; a step is a pair.

    Parameters
    ----------
    tol : float
        Relative duality gap of each pair.
    max_rounds : int
        Most rounds of a pair.
    tightening : float
        A round ends when its largest violation is this share of what it was.
    """

    tol: float = 1e-3
    max_rounds: int = 1000
    tightening: float = 0.1

    capabilities = protocol.Capabilities(starts_from_duals=True)

    def init(self, problem: PairsProblem, rng: Any = None, duals: np.ndarray | None = None) -> PairwiseSMOState:
        """β = 0, or a given β of shape (n_classes − 1, n), which each pair takes into its box; no randomness."""
        n, pairs = int(problem.ends[-1]), problem.n_pairs
        start = np.zeros((problem.n_classes - 1, n)) if duals is None else np.array(duals, np.float64, order="C")
        bias, primal = self._at_zero(problem)
        return PairwiseSMOState(
            Results(
                start, bias, primal, np.zeros(pairs), np.zeros(pairs, np.int32), np.full(pairs, WAITING, np.int8)
            )
        )  # fmt: skip

    def _at_zero(self, problem: PairsProblem) -> tuple[np.ndarray, np.ndarray]:
        """(bias, primal value) of β = 0 for each pair: a free bias is the sign of the heavier class."""
        first, second = pairs_of(problem.n_classes)
        of_class = np.add.reduceat(problem.weights, problem.ends - problem.sizes)
        C = problem.C if problem.C > 0.0 else 1.0 / (problem.lam * problem.over_pairs(problem.sizes))
        if not problem.whole.has_free_bias:
            return np.zeros(first.size), C * (of_class[first] + of_class[second])
        return np.sign(of_class[first] - of_class[second]), C * 2.0 * np.minimum(of_class[first], of_class[second])

    def sizes(self, problem: PairsProblem) -> dict[str, int]:
        """Those of its dual variables."""
        return {"classes": problem.n_classes, "n": int(problem.ends[-1]), "pairs": problem.n_pairs}

    def advance(self, problem: PairsProblem, state: PairwiseSMOState, n_steps: int) -> int:
        """Solve up to n_steps pairs, stopping at a checkpoint; returns their number."""
        taken, spent, counters, whole = 0, 0, state.counters, problem.whole
        matrix, space = self._workspace(problem, state)
        rule = PairsRule(
            whole.has_free_bias, whole.constant, problem.C, problem.lam, 0.95 * self.tol, self.max_rounds,
            self.tightening,
        )  # fmt: skip
        if n_steps == 0:  # compiles
            solve_against(space, 1, 0, 0, rule, state.results)
        while taken < n_steps and state.done < problem.n_pairs:
            i = (1 + math.isqrt(8 * state.done + 1)) // 2
            first = state.done - i * (i - 1) // 2
            last = min(i, first + n_steps - taken, first + self._next_look(state) - state.done)
            before = matrix.evaluations
            self._fill(problem, matrix, space, i)
            if first == 0:  # the rows of a class, and of the first two with the second
                rows = problem.sizes[i] + (problem.sizes[0] if i == 1 else 0)
                counters.kernel_evals += int(rows) * int(problem.ends[-1])
            done, visits, moves = solve_against(space, i, first, last, rule, state.results)
            state.done += done - first
            taken += done - first
            counters.kernel_computed += matrix.evaluations - before
            counters.visits += int(visits)
            counters.updates += int(moves)
            spent += moves
            if spent >= MOVES_A_CALL or self.at_checkpoint(state):
                break
        counters.steps = int(state.results.rounds.sum())
        return taken

    def rough(self) -> PairwiseSMO:
        """The solver that gives each pair a few moves, so that all have some when time is short."""
        return replace(self, max_rounds=1, tightening=0.5)

    def again(self, state: PairwiseSMOState) -> PairwiseSMOState:
        """A state that solves all pairs once more, from where they are."""
        return PairwiseSMOState(state.results, 0, state.counters)

    def hard(self, state: PairwiseSMOState) -> np.ndarray:
        """The pairs that were left as too hard for this solver."""
        return np.flatnonzero(state.results.ended == HARD)

    def known(self, problem: PairsProblem, state: PairwiseSMOState) -> np.ndarray:
        """Scores of all pairs on their examples, in the layout of β, NaN where they are not known; an array that pairs
        write into as they are solved.
        """
        return self._workspace(problem, state)[1].scores

    def settle(self, problem: PairsProblem, state: PairwiseSMOState) -> None:
        """Set pairs that are worse than β = 0 to it."""
        results, scores, (bias, at_zero) = state.results, self.known(problem, state), self._at_zero(problem)
        first, second = pairs_of(problem.n_classes)
        for p in np.flatnonzero(results.primal > at_zero).tolist():
            where = problem.where(int(first[p]), int(second[p]))
            results.beta[where], scores[where] = 0.0, bias[p]
            results.bias[p], results.primal[p], results.dual[p] = bias[p], at_zero[p], 0.0

    @staticmethod
    def _next_look(state: PairwiseSMOState) -> int:
        return max(FIRST_CHECKPOINT, 2 ** state.done.bit_length())

    def at_checkpoint(self, state: PairwiseSMOState) -> bool:
        """Whether the number of pairs has doubled, or all are solved."""
        done = state.done
        return done == state.results.bias.size or (done >= FIRST_CHECKPOINT and done & (done - 1) == 0)

    def steps_per_epoch(self, problem: PairsProblem) -> int:
        """A step is a pair."""
        return problem.n_pairs

    @staticmethod
    def _workspace(problem: PairsProblem, state: PairwiseSMOState) -> tuple[Any, PairsSpace]:
        everything = np.arange(int(problem.ends[-1]))
        return state.work(problem, lambda: (problem.whole.matrix(everything, everything), PairsSpace.of(problem)))

    def _fill(self, problem: PairsProblem, matrix: Any, space: PairsSpace, i: int) -> None:
        """block ← kernel rows of class i; the classes up to it, which come before, are held against themselves."""
        for c in range(int(space.held[0]) + 1, i + 1):
            count, end = int(problem.sizes[c]), int(problem.ends[c])
            rows = np.arange(end - count, end)
            matrix.fill(rows, np.arange(count), space.block)
            space.own[space.places[c] : space.places[c + 1]] = space.block[:count, rows].ravel()
            space.held[0] = c

    def certificate(self, problem: PairsProblem, state: PairwiseSMOState) -> Certificate:
        """Primal and dual values summed over the pairs; those that wait are at 0."""
        lams, results = problem.lams(), state.results
        primal, dual = float(lams @ results.primal), float(lams @ results.dual)
        return Certificate(primal, dual, primal - dual)

    def duals(self, problem: PairsProblem, state: PairwiseSMOState) -> np.ndarray:
        """β in the layout of :mod:`widemargin.core.kernels.pairs`, of shape (n_classes − 1, n)."""
        return state.results.beta

    def model(self, problem: PairsProblem, state: PairwiseSMOState) -> PairsModel:
        """A finished copy: the vectors of all pairs, by class."""
        used = np.flatnonzero(state.results.beta.any(axis=0))
        ends = np.searchsorted(used, problem.ends)
        return PairsModel(
            problem.whole.kernel, used, problem.whole.rows(used), state.results.beta.take(used, axis=1),
            state.results.bias.copy(), ends, problem.whole.constant,
        )  # fmt: skip
