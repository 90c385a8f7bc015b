"""SMO on every pair of small classes.

Each pair of classes is a problem of :mod:`.smo` on its own examples. Where these are few, a round takes all of them as
its working set, so that SMO is its inner loop alone: pairs of variables chosen with second-order information
(:func:`.smo.solve_pairs`; single ones without a free bias), until the gap is closed. A pair then costs microseconds,
and one compiled call treats many. A pair that takes many moves is left to who runs this: SMO itself, which looks at the
clock between its rounds, brings it to its end.

Kernel values are shared: class i is held against the classes before it in one block of rows of the kernel matrix of all
examples, and the block of each class against itself is kept. k classes of s examples take k²s² kernel values, half of
what k²/2 separate problems take, and memory for s rows.

Cost of a pair with m examples: O(m) for each pair of variables moved, O(m²) to lay out its kernel matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.borrowing import borrow, square
from ..core.dispatch import compiled, inlined
from ..core.pairs import first_pair, pairs_of
from ..files import savable
from ..history import Counters
from ..models import PairsModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate
from ..schemas import Array, Whole, Within
from . import protocol
from .protocol import Solver
from .smo import DIAGONAL, ROUNDING, Pairs, Singles, excess, line, middle, solve, violations, way_of

#: How a pair ended: not begun; its gap is closed; all its rounds made; rounding allows no further progress; it is too
#: hard for the inner loop alone.
WAITING, CLOSED, ALL_ROUNDS, STALLED, HARD = 0, 1, 2, 3, 4
ENDS = ("", "tol", "max_iter", "stalled", "")
#: A pair is hard that takes more moves than so many, and so many for each example. Most take less than one and few more
#: than ten, or thousands (docs/notes/smo.md).
MOVES, MOVES_EACH = 10_000, 50
#: A compiled call begins no further pair after so many moves: it hears of no limit and of no Ctrl-C.
MOVES_A_CALL = 2**17
#: The first checkpoint comes after this many pairs, the others when their number has doubled.
FIRST_CHECKPOINT = 2**14


class Rule(NamedTuple):
    """What pairs are solved by; C = 0 stands for 1/(λm), and ``share`` of the dual value is a gap small enough."""

    way: Pairs | Singles
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
    """Of all pairs the signed dual variables, in the layout of :mod:`widemargin.core.pairs`, and what was reached."""

    beta: np.ndarray
    bias: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    rounds: np.ndarray
    ended: np.ndarray


class Space(NamedTuple):
    """Working space of a pair: its kernel matrix, eight numbers for each variable, and their numbers."""

    K: np.ndarray
    values: np.ndarray
    numbers: np.ndarray


class Classes(NamedTuple):
    """The examples, sorted by class: where each class ends, their weights, and kernel values.

    ``block`` are the kernel rows of one class; the values of class c against itself stand in ``own`` from places[c] on.
    """

    block: np.ndarray
    own: np.ndarray
    places: np.ndarray
    ends: np.ndarray
    weight: np.ndarray


@inlined
def primal_and_dual(sigma, h, cap, row, alpha, f, b):
    """(Σ C_v [σ_v(e_v − b)]₊, Σ h_vσ_vα_v, ‖w‖²) at the current point with bias b."""
    losses, linear, norm2 = 0.0, 0.0, 0.0
    for v in range(alpha.size):
        losses += cap[v] * max(0.0, sigma[v] * (h[v] - f[row[v]] - b))
        linear += h[v] * sigma[v] * alpha[v]
        norm2 += sigma[v] * alpha[v] * f[row[v]]
    return losses, linear, norm2


@inlined
def lay_out(classes, i, j, constant, K):
    """K ← the kernel matrix of the examples of classes j and i, plus a constant; j's come first."""
    block, own, places, ends = classes.block, classes.own, classes.places, classes.ends
    start, before = ends[i - 1], ends[j - 1] if j > 0 else 0
    n, m = ends[j] - before, ends[i] - start
    shift = np.float32(constant)
    for r in range(n):
        for c in range(n):
            K[r, c] = own[places[j] + r * n + c] + shift
    for r in range(m):
        for c in range(n):
            value = block[r, before + c] + shift
            K[n + r, c] = value
            K[c, n + r] = value
        for c in range(m):
            K[n + r, n + c] = block[r, start + c] + shift


@compiled
def solve_against(classes, i, first, last, rule, results, space):
    """Solve the pairs of class i with the classes j from ``first`` up to ``last`` (< i), from the β that results hold.

    Changes ``results`` in place; returns (the class that is next, ``last`` if there was no end of moves, examples
    visited, pairs of variables or variables moved).
    """
    classes, results, space = borrow(classes), borrow(results), borrow(space)
    ends, weight = classes.ends, classes.weight
    k, start, visits, moves = ends.size, ends[i - 1], 0, 0
    j = first
    while j < last and moves < MOVES_A_CALL:
        before = ends[j - 1] if j > 0 else 0
        n = ends[j] - before
        m = n + ends[i] - start
        K, values, row = square(space.K, m), space.values, space.numbers[:m]
        lay_out(classes, i, j, rule.constant, K)
        s, cap, a, e = line(values, 0, m), line(values, 1, m), line(values, 2, m), line(values, 3, m)
        f, diagonal = line(values, 4, m), line(values, DIAGONAL, m)
        up, down = line(values, DIAGONAL + 1, m), line(values, DIAGONAL + 2, m)
        C = rule.C if rule.C > 0.0 else 1.0 / (rule.lam * m)
        above, below = 0.0, 0.0
        for v in range(m):
            s[v] = 1.0 if v < n else -1.0
            given = results.beta[i - 1, before + v] if v < n else results.beta[j, start + v - n]
            cap[v] = C * weight[before + v if v < n else start + v - n]
            a[v] = min(max(s[v] * given, 0.0), cap[v])
            diagonal[v] = K[v, v]
            above, below = (above + a[v], below) if v < n else (above, below + a[v])
        if rule.free_bias and above != below:  # Σ σα = 0 again, within the box
            for v in range(m):
                own_sum, other_sum = (above, below) if v < n else (below, above)
                a[v] *= min(1.0, other_sum / own_sum) if own_sum > 0.0 else 0.0
        f[:] = 0.0
        if above > 0.0 or below > 0.0:
            for v in range(m):
                for w in range(m):
                    f[w] += s[v] * a[v] * K[v, w]
        rounds, ended, b, left = 0, WAITING, 0.0, MOVES + MOVES_EACH * m
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
            elif left <= 0:
                ended = HARD
            else:
                for v in range(m):
                    e[v] = s[v] - f[v]
                tolerance = max(rule.tightening * violation, ROUNDING)
                moved = solve(rule.way, K, s, cap, a, e, values, tolerance, left)
                for v in range(m):
                    f[v] = s[v] - e[v]
                rounds += 1
                visits += m
                moves += moved
                left -= moved
                if moved == 0:
                    ended = STALLED
        losses, linear, norm2 = primal_and_dual(s, s, cap, row, a, f, b)
        p = first_pair(j, k) + i - j - 1
        results.bias[p], results.primal[p], results.dual[p] = b, 0.5 * norm2 + losses, linear - 0.5 * norm2
        results.rounds[p] += rounds
        results.ended[p] = ended
        for v in range(n):
            results.beta[i - 1, before + v] = a[v]
        for v in range(n, m):
            results.beta[j, start + v - n] = -a[v]
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
        sizes = self.ends.copy()
        sizes[1:] -= self.ends[:-1]
        return sizes

    def lams(self) -> np.ndarray:
        """The regularisation λ of each pair."""
        sizes = self.over_pairs(self.sizes)
        return 1.0 / (self.C * sizes) if self.C > 0.0 else np.full(sizes.size, self.lam)


class Kept(NamedTuple):
    """What can be made again: kernel rows of one class, ``held[0]``, and the blocks of the classes up to ``held[1]``
    against themselves.
    """

    matrix: Any
    block: np.ndarray
    own: np.ndarray
    places: np.ndarray
    held: np.ndarray
    space: Space

    @classmethod
    def of(cls, problem: PairsProblem) -> Kept:
        """The arrays for a problem, with nothing held in them yet."""
        sizes, n = problem.sizes, int(problem.ends[-1])
        everything, largest = np.arange(n), int(np.sort(sizes)[-2:].sum())
        places = np.concatenate([[0], np.cumsum(sizes**2)])
        space = Space(np.empty(largest**2, np.float32), np.empty((8, largest)), np.arange(largest))
        return cls(
            problem.whole.matrix(everything, everything), np.empty((int(sizes.max()), n), np.float32),
            np.empty(int(places[-1]), np.float32), places, np.array([-1, -1]), space,
        )  # fmt: skip


@savable("PairwiseSMO.State", results=Within(Results), done=Whole(0, "pairs"))
@dataclass
class State(protocol.State):
    """The dual variables β, what each pair has reached, and how many pairs were treated."""

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

    warm = True

    def init(self, problem: PairsProblem, rng: Any = None, duals: np.ndarray | None = None) -> State:
        """β = 0, or a given β of shape (n_classes − 1, n), which each pair takes into its box; no randomness."""
        n, pairs = int(problem.ends[-1]), problem.n_pairs
        start = np.zeros((problem.n_classes - 1, n)) if duals is None else np.array(duals, np.float64, order="C")
        bias, primal = self._at_zero(problem)
        return State(
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

    def advance(self, problem: PairsProblem, state: State, n_steps: int) -> int:
        """Treat up to n_steps pairs, stopping at a checkpoint; returns their number."""
        taken, spent, kept = 0, 0, state.work(problem, lambda: Kept.of(problem))
        whole = problem.whole
        rule = Rule(
            way_of(whole), whole.has_free_bias, whole.constant, problem.C, problem.lam, 0.95 * self.tol,
            self.max_rounds, self.tightening,
        )  # fmt: skip
        classes = Classes(kept.block, kept.own, kept.places, problem.ends, problem.weights)
        if n_steps == 0:  # compiles
            solve_against(classes, 1, 0, 0, rule, state.results, kept.space)
        while taken < n_steps and state.done < problem.n_pairs:
            i = (1 + math.isqrt(8 * state.done + 1)) // 2
            first = state.done - i * (i - 1) // 2
            last = min(i, first + n_steps - taken, first + self._next_look(state) - state.done)
            before = kept.matrix.evaluations
            self._fill(problem, kept, i)
            if first == 0:  # the rows of a class, and of the first two with the second
                rows = problem.sizes[i] + (problem.sizes[0] if i == 1 else 0)
                state.counters.kernel_evals += int(rows) * int(problem.ends[-1])
            done, visits, moves = solve_against(classes, i, first, last, rule, state.results, kept.space)
            state.done += done - first
            taken += done - first
            counters = state.counters
            counters.kernel_computed += kept.matrix.evaluations - before
            counters.visits += int(visits)
            counters.updates += int(moves)
            spent += moves
            if spent >= MOVES_A_CALL or self.at_checkpoint(state):
                break
        state.counters.steps = int(state.results.rounds.sum())
        return taken

    def rough(self) -> PairwiseSMO:
        """The solver that gives each pair a few moves, so that all have some when time is short."""
        return replace(self, max_rounds=1, tightening=0.5)

    def again(self, state: State) -> State:
        """A state that treats all pairs once more, from where they are."""
        return State(state.results, 0, state.counters)

    def hard(self, state: State) -> np.ndarray:
        """The pairs that were left as too hard for this solver."""
        return np.flatnonzero(state.results.ended == HARD)

    def settle(self, problem: PairsProblem, state: State) -> None:
        """Set pairs that are worse than β = 0 to it."""
        results, ends, sizes = state.results, problem.ends, problem.sizes
        bias, at_zero = self._at_zero(problem)
        first, second = pairs_of(problem.n_classes)
        for p in np.flatnonzero(results.primal > at_zero).tolist():
            i, j = int(first[p]), int(second[p])
            results.beta[j - 1, ends[i] - sizes[i] : ends[i]] = 0.0
            results.beta[i, ends[j] - sizes[j] : ends[j]] = 0.0
            results.bias[p], results.primal[p], results.dual[p] = bias[p], at_zero[p], 0.0

    @staticmethod
    def _next_look(state: State) -> int:
        return max(FIRST_CHECKPOINT, 2 ** state.done.bit_length())

    def at_checkpoint(self, state: State) -> bool:
        """Whether the number of pairs has doubled, or all are treated."""
        done = state.done
        return done == state.results.bias.size or (done >= FIRST_CHECKPOINT and done & (done - 1) == 0)

    def steps_per_epoch(self, problem: PairsProblem) -> int:
        """A step is a pair."""
        return problem.n_pairs

    def _fill(self, problem: PairsProblem, kept: Kept, i: int) -> None:
        """block ← kernel rows of class i; the classes up to it are held against themselves, too."""
        ends, sizes, held = problem.ends, problem.sizes, kept.held
        again = [i] if held[0] != i else []
        for c in range(held[1] + 1, i + 1) if held[1] < i else again:
            count, rows = int(sizes[c]), np.arange(ends[c] - sizes[c], ends[c])
            kept.matrix.fill(rows, np.arange(count), kept.block)
            kept.own[kept.places[c] : kept.places[c + 1]] = kept.block[:count, rows].ravel()
            held[:] = c, max(held[1], c)

    def certificate(self, problem: PairsProblem, state: State) -> Certificate:
        """Primal and dual values summed over the pairs; those that wait are at 0."""
        lams, results = problem.lams(), state.results
        primal, dual = float(lams @ results.primal), float(lams @ results.dual)
        return Certificate(primal, dual, primal - dual)

    def duals(self, problem: PairsProblem, state: State) -> np.ndarray:
        """β in the layout of :mod:`widemargin.core.pairs`, of shape (n_classes − 1, n)."""
        return state.results.beta

    def model(self, problem: PairsProblem, state: State) -> PairsModel:
        """A finished copy: the vectors of all pairs, by class."""
        used = np.flatnonzero(state.results.beta.any(axis=0))
        ends = np.searchsorted(used, problem.ends)
        return PairsModel(
            problem.whole.kernel, used, problem.whole.rows(used), state.results.beta.take(used, axis=1),
            state.results.bias.copy(), ends, problem.whole.constant,
        )  # fmt: skip
