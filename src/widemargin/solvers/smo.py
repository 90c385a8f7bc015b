"""SMO: the exact dual of kernel SVMs, by large working sets with second-order selection inside.

Dual in the C-form, for variables v = 1 … m over the rows of the data::

    max  Σ h_v σ_v α_v − ½ Σ_{v,w} σ_v σ_w α_v α_w K(row v, row w)     0 ≤ α_v ≤ C_v,
    Σ σ_v α_v = 0                                                     where the bias is free

with signs σ and offsets h. A classifier has one variable per row with σ = h = y; a regressor with an
ε-tube has two, σ = +1, h = y − ε and σ = −1, h = y + ε. With responses f_i = Σ σ_v α_v K(i, row v), all
that matters of the gradient is e_v = h_v − f(row v): moving σ_v α_v up by t raises the dual by
t e_v − ½ t² K_vv. With a free bias pairs move against each other, and at the optimum

    max {e_v : σ_v α_v can rise}  ≤  b  ≤  min {e_v : σ_v α_v can fall};

without one, e_v ≤ 0 where it can rise and e_v ≥ 0 where it can fall.

A round takes a working set of a few hundred variables, gets the kernel rows it lacks in one block, solves the
problem restricted to them by pairs chosen with second-order information (Fan, Chen and Lin 2005; without a bias,
single coordinates of the largest gain), and adds the change to the responses in one pass. Rounds come in
*episodes* over an active set of variables; kernel rows, responses and cache are restricted to it, and the responses of
the others are brought up to date when it ends, from the variables that changed. This is shrinking with
gradient reconstruction, on a schedule:

1. a random eighth of the examples with eight times the bounds, whose solution divided by eight is feasible and
   whose responses tell which examples will matter;
2. the examples that violate their margin under it;
3. from then on, all variables but those at a bound with a margin to spare, until the gap is closed.

An episode goes once over its variables in random order and takes the violators it meets, which settles most bounded
variables; then each round takes the worst violators, half of the set from either end, and the free variables
of the last round. Few variables whose kernel matrix fits into the cache are one working set, which is plain SMO.

The duality gap costs O(m), since the responses are at hand:

    P − D = Σ_v (C_v [σ_v (e_v − b)]₊ − α_v σ_v (e_v − b)).

Fan, Chen, Lin: Working set selection using second order information for training support vector machines.
JMLR 6 (2005). Chang, Lin: LIBSVM (2011).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..core import losses
from ..core.dispatch import borrow, compiled
from ..core.kernel_cache import RowCache
from ..core.shuffling import shuffle
from ..history import Counters
from ..models import KernelModel
from ..problem import Certificate, KernelProblem
from ..running import Solver

#: Up to so many variables are one working set if their kernel matrix fits into the cache.
SMALL = 400
#: Relative gap at which an episode that only finds out which examples matter may stop.
ROUGHLY = 0.05
#: Violations this small are rounding.
ROUNDING = 1e-14
#: Smallest curvature of a direction; an indefinite kernel can have less.
TAU = 1e-12


@compiled
def solve_pairs(K, sigma, cap, alpha, e, tolerance, max_iter):
    """Maximise the dual over all variables given, pairs at a time, with Σ σα kept; changes alpha and e in place.

    K[v, w] is the kernel between the rows of v and w. Returns the number of pairs moved.
    """
    K, sigma, cap, alpha, e = borrow(K), borrow(sigma), borrow(cap), borrow(alpha), borrow(e)
    m = alpha.size
    for step in range(max_iter):
        i, top, bottom = -1, -np.inf, np.inf
        for v in range(m):
            if sigma[v] > 0.0:
                rises, falls = alpha[v] < cap[v], alpha[v] > 0.0
            else:
                rises, falls = alpha[v] > 0.0, alpha[v] < cap[v]
            if rises and e[v] > top:
                i, top = v, e[v]
            if falls and e[v] < bottom:
                bottom = e[v]
        if i < 0 or top - bottom <= tolerance:
            return step
        j, best = -1, 0.0
        for v in range(m):
            if sigma[v] > 0.0:
                falls = alpha[v] > 0.0
            else:
                falls = alpha[v] < cap[v]
            if falls and e[v] < top:
                difference = top - e[v]
                curvature = max(K[i, i] + K[v, v] - 2.0 * K[i, v], TAU)
                gain = difference * difference / curvature
                if gain > best:
                    j, best = v, gain
        if j < 0:
            return step
        t = (top - e[j]) / max(K[i, i] + K[j, j] - 2.0 * K[i, j], TAU)
        room = cap[i] - alpha[i] if sigma[i] > 0.0 else alpha[i]
        other = alpha[j] if sigma[j] > 0.0 else cap[j] - alpha[j]
        limit = min(room, other)
        if t >= limit:
            t = limit
        alpha[i] += sigma[i] * t
        alpha[j] -= sigma[j] * t
        # a variable that reached its bound stands on it exactly
        if t == room:
            alpha[i] = cap[i] if sigma[i] > 0.0 else 0.0
        if t == other:
            alpha[j] = 0.0 if sigma[j] > 0.0 else cap[j]
        for v in range(m):
            e[v] -= t * (K[i, v] - K[j, v])
    return max_iter


@compiled
def solve_singles(K, sigma, cap, alpha, e, tolerance, max_iter):
    """Maximise the dual over all variables given, one at a time, largest gain first; changes alpha and e in place."""
    K, sigma, cap, alpha, e = borrow(K), borrow(sigma), borrow(cap), borrow(alpha), borrow(e)
    m = alpha.size
    for step in range(max_iter):
        i, best, worst, move = -1, 0.0, 0.0, 0.0
        for v in range(m):
            low = -alpha[v] if sigma[v] > 0.0 else alpha[v] - cap[v]
            high = cap[v] - alpha[v] if sigma[v] > 0.0 else alpha[v]
            if (e[v] > 0.0 and high > 0.0) or (e[v] < 0.0 and low < 0.0):
                curvature = max(np.float64(K[v, v]), TAU)
                t = min(max(e[v] / curvature, low), high)
                gain = t * e[v] - 0.5 * t * t * curvature
                worst = max(worst, abs(e[v]))
                if gain > best:
                    i, best, move = v, gain, t
        if i < 0 or worst <= tolerance:
            return step
        low = -alpha[i] if sigma[i] > 0.0 else alpha[i] - cap[i]
        high = cap[i] - alpha[i] if sigma[i] > 0.0 else alpha[i]
        alpha[i] += sigma[i] * move
        if move == high:
            alpha[i] = cap[i] if sigma[i] > 0.0 else 0.0
        elif move == low:
            alpha[i] = 0.0 if sigma[i] > 0.0 else cap[i]
        for v in range(m):
            e[v] -= move * K[i, v]
    return max_iter


@compiled
def add_rows(rows, slots, coefficients, f):
    """f += Σ coefficient × row, in place, the columns in pieces that stay in cache."""
    rows, f = borrow(rows), borrow(f)
    for first in range(0, f.size, 2048):
        last = min(first + 2048, f.size)
        for r in range(slots.size):
            c = coefficients[r]
            if c != 0.0:
                s = slots[r]
                for i in range(first, last):
                    f[i] += c * rows[s, i]


@compiled
def violations(sigma, h, cap, row, alpha, f, up, down):
    """up[v] ← e_v where σ_vα_v can rise, else −∞; down[v] ← e_v where it can fall, else +∞; returns their extremes."""
    top, bottom = -np.inf, np.inf
    for v in range(alpha.size):
        e = h[v] - f[row[v]]
        if sigma[v] > 0.0:
            rises, falls = alpha[v] < cap[v], alpha[v] > 0.0
        else:
            rises, falls = alpha[v] > 0.0, alpha[v] < cap[v]
        up[v] = e if rises else -np.inf
        down[v] = e if falls else np.inf
        if rises and e > top:
            top = e
        if falls and e < bottom:
            bottom = e
    return top, bottom


@compiled
def excess(sigma, h, cap, row, alpha, f, b):
    """The duality gap Σ (C_v [σ_v(e_v − b)]₊ − α_vσ_v(e_v − b)) of the variables given."""
    total = 0.0
    for v in range(alpha.size):
        s = sigma[v] * (h[v] - f[row[v]] - b)
        total += cap[v] * max(0.0, s) - alpha[v] * s
    return total


@compiled
def primal_and_dual(sigma, h, cap, row, alpha, f, b):
    """(Σ C_v [σ_v(e_v − b)]₊, Σ h_vσ_vα_v, ‖w‖²) at the current point with bias b."""
    losses, linear, norm2 = 0.0, 0.0, 0.0
    for v in range(alpha.size):
        losses += cap[v] * max(0.0, sigma[v] * (h[v] - f[row[v]] - b))
        linear += h[v] * sigma[v] * alpha[v]
        norm2 += sigma[v] * alpha[v] * f[row[v]]
    return losses, linear, norm2


@compiled
def gather(rows, slots, row, out):
    """out[a, b] ← rows[slots[a], row[b]]."""
    for a in range(slots.size):
        for b in range(row.size):
            out[a, b] = rows[slots[a], row[b]]


# ---------------------------------------------------------------- variables, state and solver


@dataclass
class Variables:
    """Signs, offsets, bounds and rows of the dual variables."""

    sigma: np.ndarray
    h: np.ndarray
    cap: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, problem: KernelProblem) -> Variables:
        """One variable per example for the hinge, two for the ε-insensitive loss."""
        loss, caps = losses.scalar_loss(problem.target), problem.caps
        rows = np.arange(problem.n)
        if isinstance(loss, losses.Hinge):
            return cls(problem.y, problem.y, caps, rows)
        ones = np.ones(problem.n)
        h = np.concatenate([problem.y - loss.epsilon, problem.y + loss.epsilon])
        return cls(np.concatenate([ones, -ones]), h, np.tile(caps, 2), np.tile(rows, 2))


@dataclass
class Episode:
    """An active set being worked on; arrays are over its variables, ``rows`` and ``f`` over their examples."""

    active: np.ndarray
    rows: np.ndarray
    row: np.ndarray
    bound: float
    target: float
    alpha: np.ndarray
    f: np.ndarray
    order: np.ndarray
    position: int
    previous: np.ndarray
    rounds: int = 0


@dataclass
class State:
    """α and the responses f of all examples as of the last episode's end, and the episode under way."""

    alpha: np.ndarray
    f: np.ndarray
    rng: np.random.Generator
    episode: Episode | None = None
    episodes: int = 0
    promising: np.ndarray | None = None
    stalled: bool = False
    bias: float = 0.0
    primal: float = np.inf
    dual: float = 0.0
    counters: Counters = field(default_factory=Counters)


@dataclass
class SMO(Solver):
    """Exact dual solver for kernel classification and regression.

    Parameters
    ----------
    working_set : int
        Variables per round.
    tol : float
        Relative duality gap at which episodes stop refining; the run stops at its own ``tol``.
    slack, first_slack : float
        A variable at its bound leaves the active set when its margin is this far from being violated; the second
        is for the set chosen by the sample.
    sample : int
        The first episode takes one in this many examples; 1 starts with all.
    max_rounds : int
        Most rounds of one episode.
    """

    working_set: int = 256
    tol: float = 1e-3
    slack: float = 0.3
    first_slack: float = 0.1
    sample: int = 8
    max_rounds: int = 2000

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        loss = losses.scalar_loss(problem.target)
        if not isinstance(loss, (losses.Hinge, losses.EpsilonInsensitive)):
            raise ValueError(
                f"SMO solves the hinge and the ε-insensitive loss, got {type(loss).__name__}: choose one of them "
                "or another solver"
            )
        for name, least in (("working_set", 2), ("sample", 1), ("max_rounds", 1)):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise ValueError(f"{name} must be an integer ≥ {least}, got {value!r}")

    def init(
        self, problem: KernelProblem, rng: np.random.Generator, alpha: np.ndarray | None = None,
        promising: np.ndarray | None = None,
    ) -> State:  # fmt: skip
        """α = 0, or a given feasible α, whose responses are then computed; the first episode may be given, too."""
        self.check(problem)
        variables = Variables.of(problem)
        state = State(np.zeros(variables.h.size), np.zeros(problem.n), rng)
        if alpha is not None:
            state.alpha[:] = np.clip(alpha, 0.0, variables.cap)
            if problem.has_free_bias:
                state.alpha[:] = balance(state.alpha, variables.sigma, variables.cap)
            support = np.flatnonzero(state.alpha)
            self._add_responses(problem, variables, state, support, state.alpha[support], np.arange(problem.n))
            state.episodes = 2
        if promising is not None:
            state.promising, state.episodes = promising, 1
        self._close(problem, variables, state)
        return state

    # -- rounds

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """Take up to n_steps rounds, stopping where an episode ends; returns the number taken."""
        variables = Variables.of(problem)
        for step in range(n_steps):
            if state.episode is None:
                self._open(problem, variables, state)
            episode = state.episode
            assert episode is not None
            cache = self._cache(problem, state, episode)
            if not self._round(problem, variables, state, episode, cache):
                self.finish(problem, state)
                if state.promising is None:
                    return step + 1
        return n_steps

    def at_checkpoint(self, state: State) -> bool:
        """Whether all responses are up to date."""
        return state.episode is None and state.promising is None

    def _open(self, problem: KernelProblem, variables: Variables, state: State) -> None:
        """Choose the next active set."""
        n = problem.n
        target, bound = 0.0, 1.0  # a target of 0 means ROUGHLY of the dual value reached
        if state.episodes == 0 and self.sample > 1 and n > 1000 * self.sample // 4:
            chosen = np.sort(state.rng.choice(n, n // self.sample, replace=False))
            active = np.flatnonzero(np.isin(variables.row, chosen))
            bound = n / chosen.size
        elif state.promising is not None:
            active = state.promising
        elif state.episodes == 0:
            active = np.arange(variables.h.size)
            target = -1.0  # to the end
        else:
            s = variables.sigma * (variables.h - state.f[variables.row] - state.bias)
            idle = np.where(state.alpha >= variables.cap, s >= self.slack, (state.alpha <= 0.0) & (s <= -self.slack))
            active = np.flatnonzero(~idle)
            target = max(0.1 * (state.primal - state.dual), 0.4 * self.tol * abs(state.primal))
        if active.size < 2:
            active = np.arange(variables.h.size)
        rows, row = np.unique(variables.row[active], return_inverse=True)
        order = np.arange(active.size)
        shuffle(order, state.rng)
        state.episode = Episode(
            active=active, rows=rows, row=row, bound=bound, target=target, alpha=state.alpha[active],
            f=state.f[rows], order=order, position=0, previous=np.empty(0, np.int64),
        )  # fmt: skip

    def _cache(self, problem: KernelProblem, state: State, episode: Episode) -> RowCache:
        """The rows of the episode's examples against each other, as many as fit."""
        kept = getattr(problem, "_kept", None)
        if kept is None or kept[0] is not episode.rows:
            if problem.gram is not None:
                whole = episode.rows.size == problem.n
                gram = problem.gram if whole else problem.gram[np.ix_(episode.rows, episode.rows)]
                kept = (episode.rows, RowCache.of_all(gram))
            else:
                matrix = problem.matrix(episode.rows, episode.rows)
                kept = (episode.rows, RowCache(matrix, problem.cache_bytes))
            problem._kept = kept  # type: ignore[attr-defined]
        return kept[1]

    def _round(
        self, problem: KernelProblem, variables: Variables, state: State, episode: Episode, cache: RowCache
    ) -> bool:
        """One working set; False when the episode has reached its target instead."""
        active = episode.active
        sigma, h = variables.sigma[active], variables.h[active]
        cap = variables.cap[active] * episode.bound
        m = active.size
        up, down = np.empty(m), np.empty(m)
        top, bottom = violations(sigma, h, cap, episode.row, episode.alpha, episode.f, up, down)
        bias = _bias(top, bottom) if problem.has_free_bias else 0.0
        violation = top - bottom if problem.has_free_bias else max(top, -bottom, 0.0)
        gap = excess(sigma, h, cap, episode.row, episode.alpha, episode.f, bias)
        target = episode.target
        if target <= 0.0:
            share = ROUGHLY if target == 0.0 else 0.4 * self.tol
            target = share * abs(float(np.sum(h * sigma * episode.alpha)))
        if (gap <= target and episode.rounds > 0) or violation <= ROUNDING or episode.rounds >= self.max_rounds:
            return False

        most = max(2, min(self.working_set, cache.capacity * 4 // 5))
        if m <= SMALL and cache.capacity >= episode.rows.size:
            chosen = np.arange(m)
        else:
            chosen = self._choose(episode, sigma, h, cap, bias, up, down, top, bottom, most)
        rows, place = np.unique(episode.row[chosen], return_inverse=True)
        computed = cache.misses
        slots = cache.fetch(rows)
        state.counters.kernel_evals += (cache.misses - computed) * cache.rows.shape[1]
        if chosen.size == rows.size == cache.rows.shape[1] and np.array_equal(slots, chosen):
            K = cache.rows if not problem.constant else cache.rows + np.float32(problem.constant)
        else:
            K = np.empty((chosen.size, chosen.size), np.float32)
            gather(cache.rows, slots[place], episode.row[chosen], K)
            if problem.constant:
                K += np.float32(problem.constant)
        alpha, e = episode.alpha[chosen], h[chosen] - episode.f[episode.row[chosen]]
        solve = solve_pairs if problem.has_free_bias else solve_singles
        moved = solve(K, sigma[chosen], cap[chosen], alpha, e, max(0.1 * violation, ROUNDING), 100 * chosen.size)
        change = sigma[chosen] * (alpha - episode.alpha[chosen])
        episode.alpha[chosen] = alpha
        per_row = np.bincount(place, change, rows.size)
        add_rows(cache.rows, slots, per_row, episode.f)
        if problem.constant:
            episode.f += problem.constant * change.sum()
        episode.previous = chosen[(alpha > 0.0) & (alpha < cap[chosen])]
        episode.rounds += 1
        counters = state.counters
        counters.steps += 1
        counters.visits += chosen.size
        counters.updates += int(moved)
        return True

    def _choose(
        self, episode: Episode, sigma: np.ndarray, h: np.ndarray, cap: np.ndarray, bias: float,
        up: np.ndarray, down: np.ndarray, top: float, bottom: float, most: int,
    ) -> np.ndarray:  # fmt: skip
        """The next working set: violators in random order once through, then the worst ones."""
        alpha, m = episode.alpha, episode.active.size
        if episode.position < m:
            waiting = episode.order[episode.position :]
            if episode.rounds == 0 and not alpha.any():
                found = np.arange(min(most, waiting.size))
            else:
                s = sigma[waiting] * (h[waiting] - episode.f[episode.row[waiting]] - bias)
                rises = (alpha[waiting] < cap[waiting]) & (s > 0.05)
                falls = (alpha[waiting] > 0.0) & (s < -0.05)
                found = np.flatnonzero(rises | falls)[:most]
            episode.position = m if found.size < most else episode.position + int(found[-1]) + 1
            if found.size >= most // 2:
                return waiting[found]
        half = max(1, min(most // 2, m - 1))
        rising = np.argpartition(-up, half - 1)[:half]
        falling = np.argpartition(down, half - 1)[:half]
        floor, ceiling = (bottom, top) if np.isfinite(top) and np.isfinite(bottom) else (0.0, 0.0)
        chosen = np.unique(np.concatenate([rising[up[rising] > floor], falling[down[falling] < ceiling]]))
        return np.unique(np.concatenate([chosen, episode.previous[-(most // 4) :]]))

    # -- the end of an episode

    def finish(self, problem: KernelProblem, state: State) -> None:
        """End the episode under way: bring all responses, the bias and the gap up to date."""
        episode = state.episode
        if episode is None:
            return
        variables = Variables.of(problem)
        before = state.alpha[episode.active]
        changed = np.flatnonzero(episode.alpha != before)
        state.stalled = changed.size == 0 and episode.bound == 1.0
        state.alpha[episode.active] = episode.alpha
        others = np.setdiff1d(np.arange(problem.n), episode.rows, assume_unique=True)
        problem._kept = None  # type: ignore[attr-defined]
        self._add_responses(
            problem, variables, state, episode.active[changed], (episode.alpha - before)[changed], others
        )
        state.f[episode.rows] = episode.f
        state.episode = None
        state.episodes += 1
        self._close(problem, variables, state)
        state.promising = None
        if episode.bound != 1.0:
            # which examples matter is known now; the point itself is made feasible
            s = variables.sigma * (variables.h - state.f[variables.row] - state.bias)
            state.promising = np.flatnonzero((s > -self.first_slack) | (state.alpha > 0.0))
            state.alpha /= episode.bound
            state.f /= episode.bound
            self._close(problem, variables, state)

    def _add_responses(
        self, problem: KernelProblem, variables: Variables, state: State, chosen: np.ndarray, change: np.ndarray,
        others: np.ndarray,
    ) -> None:  # fmt: skip
        """f[others] += Σ σ_v change_v K(row v, ·) over the chosen variables."""
        if chosen.size == 0 or others.size == 0:
            return
        rows, place = np.unique(variables.row[chosen], return_inverse=True)
        per_row = np.bincount(place, variables.sigma[chosen] * change, rows.size)
        f = np.zeros(others.size)
        if problem.gram is not None:
            f += per_row @ problem.gram[np.ix_(rows, others)]
        else:
            matrix = problem.matrix(rows, others)
            height = int(max(16, min(256, problem.cache_bytes // (4 * others.size))))
            for first in range(0, rows.size, height):
                block = matrix.block(np.arange(first, min(first + height, rows.size)))
                add_rows(block, np.arange(block.shape[0]), per_row[first : first + height], f)
            state.counters.kernel_evals += matrix.evaluations
        state.f[others] += f + problem.constant * per_row.sum()

    def _close(self, problem: KernelProblem, variables: Variables, state: State) -> None:
        """Bias, primal and dual from the responses."""
        v = variables
        space = np.empty(v.h.size), np.empty(v.h.size)
        top, bottom = violations(v.sigma, v.h, v.cap, v.row, state.alpha, state.f, *space)
        state.bias = _bias(top, bottom) if problem.has_free_bias else 0.0
        total, linear, norm2 = primal_and_dual(v.sigma, v.h, v.cap, v.row, state.alpha, state.f, state.bias)
        state.primal, state.dual = 0.5 * norm2 + total, linear - 0.5 * norm2

    # -- output

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """Rounds that visit as many variables as there are examples."""
        return max(1, -(-problem.n // self.working_set))

    def certificate(self, problem: KernelProblem, state: State) -> Certificate:
        """Primal, dual and gap in the λ-form."""
        self.finish(problem, state)
        primal, dual = problem.lam * state.primal, problem.lam * state.dual
        return Certificate(primal, dual, primal - dual)

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel) -> dict[str, float]:
        """Objective and gap of the current point."""
        certificate = self.certificate(problem, state)
        return {"objective": certificate.primal, "gap": certificate.gap}

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """Support vectors, their coefficients σα summed over the variables of a row, and the bias."""
        self.finish(problem, state)
        variables = Variables.of(problem)
        coefficients = np.bincount(variables.row, variables.sigma * state.alpha, problem.n)
        support = np.flatnonzero(coefficients)
        return KernelModel(
            problem.kernel, support, problem.rows(support), coefficients[support][None, :],
            np.array([state.bias]), problem.constant,
        )  # fmt: skip


def _bias(top: float, bottom: float) -> float:
    """The middle of the interval of optimal biases; its finite end where it has only one."""
    if np.isfinite(top) and np.isfinite(bottom):
        return 0.5 * (top + bottom)
    return top if np.isfinite(top) else bottom if np.isfinite(bottom) else 0.0


def balance(alpha: np.ndarray, sigma: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """The nearest point of the box with Σ σα = 0: α − σt clipped, t found by bisection."""
    low, high = -float(cap.max()), float(cap.max())
    for _ in range(100):
        t = 0.5 * (low + high)
        if np.sum(sigma * np.clip(alpha - sigma * t, 0.0, cap)) > 0:
            low = t
        else:
            high = t
    return np.clip(alpha - sigma * high, 0.0, cap)
