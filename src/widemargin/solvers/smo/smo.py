"""SMO: the exact dual of kernel SVMs, by working sets of hundreds of variables, in episodes over an active set.

Problem: the dual of :mod:`.dual`, for variables v over the rows of the data::

    max  Σ h_v σ_v α_v − ½ Σ_{v,w} σ_v σ_w α_v α_w K(row v, row w)     0 ≤ α_v ≤ C_v,
    Σ σ_v α_v = 0                                                      where the bias is free

Given are a :class:`KernelProblem` and a relative duality gap. The state is α with the responses f of all examples as of
the end of the last episode, and the episode under way.

A step is a round (:mod:`.rounds`): a working set is chosen, its missing kernel rows are computed in one block, the
dual is solved on it by pairs chosen with second-order information (Fan, Chen and Lin 2005), and the change is added to
the responses.

Rounds come in *episodes* over an active set of variables. Kernel rows, responses and cache are restricted to its
examples. At its end the *closing* adds the kernel rows of the variables that changed to the responses of all other
examples. This is shrinking with gradient reconstruction, on a schedule:

1. The first episode has a random eighth of the examples, with eight times the bounds. If most of its support vectors
   are free, their α are about those of the problem, and the next episode begins with them, clipped to the bounds. If
   most stand at their bounds, it begins with α over eight, which is feasible, and has the examples that violate their
   margin under the sample's solution.
2. If most are free, the next episode has all variables. Its kernel rows are over all examples, and none is computed
   twice while they fit into the cache. A narrower active set would cost about one more row for each support vector at
   its end. So it is narrowed once as much has been spent on rows computed again and on adding rows to f.
3. From then on an episode has all variables but those at a bound that are far from violating their margin, until the
   gap is closed.

The first episode, and each over fewer variables than all, begins with a pass over its variables in random order: rounds
take the violators that come next, as long as these are frequent. That settles most bounded variables. After this pass,
and in later episodes over all variables from the start, rounds take the worst violators.

Cost: that of the rounds, one kernel row over n examples for each variable that enters, and O(n) for a certificate.

LIBSVM moves two variables at a time, computes one row at a time, shrinks by a rule of thumb and stops at a violation of
the optimality conditions. Here working sets are large, rows come in blocks, shrinking counts costs, and the duality gap
says when to stop.

Fan, Chen, Lin: Working set selection using second order information for training support vector machines.
JMLR 6 (2005). Chang, Lin: LIBSVM (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.kernels.cache import RowCache
from ...core.losses import losses
from ...core.sampling.visits import shuffle
from ...files import savable
from ...history import Counters
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...schemas import COUNT, Array, Own, Whole, Within, maybe, permutation
from ...warning import warn
from .. import protocol
from . import rounds
from .dual import ROUGHLY, DualSolver, Point, Variables, free_bias, lightened
from .rounds import Active, SMORule, Space, add_kernel_rows, gather_shared, work

# Tuned numbers; docs/notes/smo.md has the measurements.
PORTION, LEAST = 32, 32  # a round takes one in PORTION of a small active set's variables, but at least LEAST
ROOM = 4  # a working set has room for so many times the new variables at least, however small the cache
SET_SHARE = 0.125  # part of the cache's bytes, beside the cache, for the values between the variables of a working set
HELD_SHARE = 0.8  # part of the cache's rows that new variables may ask for at once
LEAST_SAMPLED = 250  # examples of the smallest sample; smaller problems begin with all examples
CLOSER, NEARLY = 0.03, 0.4  # targets of narrowed episodes: this share of the gap, but not below this share of tol
BELOW = 0.95  # share of tol at which episodes stop: the certificate in float64 is slightly another number
PRICE = 10.0  # cost of a kernel value in additions to f, beside one for each entry of the data that it looks at
AT_ONCE = 2**22  # an episode's kernel matrix of at most this price is computed whole before its first round
BLOCK_SHARE = 0.5  # part of the cache, which is empty then, for a block of rows that ends an episode
BLOCK_VALUES, BLOCK_ROWS = 2**23, 256  # most kernel values and rows of such a block; about 0.1 s
FOR_THREADS = 2.0**19  # kernel values in the rows of a working set from which on threads look up and add

_compiled_for: set[tuple] = set()


def among(rows: np.ndarray, n: int) -> np.ndarray:
    """Which of the numbers below n are among the given ones."""
    here = np.zeros(n, bool)
    here[rows] = True
    return here


@savable(
    "SMO.Episode", active=Array("active", dtype=np.int64, low=0, high="variables-1"),
    rows=Array("rows", dtype=np.int64, low=0, high="n-1"), row=Array("active", dtype=np.int64, low=0, high="rows-1"),
    alpha=Array("active"), f=Array("rows"), order=permutation("active", np.int64), position=Whole(0, "active"),
    previous=Array(None, dtype=np.int64, low=-1, high="active-1"), spent=Array(1),
    last=Array("rows", dtype=np.int32, low=0, high="rounds"), rounds=Whole(0, "most_rounds", size="rounds"),
)  # fmt: skip
@dataclass
class Episode:
    """An episode under way; arrays are over its variables, ``rows``, ``f`` and ``last`` over their examples.

    ``bound`` multiplies the bounds of the problem. The episode ends at a gap of ``target``; 0 stands for
    :data:`ROUGHLY` of the dual value, −1 for the solver's tolerance. ``last`` is the round in which a row was used
    last, and ``spent`` the cost of additions to f and of rows that a cache has dropped.
    """

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
    last: np.ndarray
    spent: np.ndarray
    rounds: int = 0
    gave_up: bool = False

    @classmethod
    def over(cls, active: np.ndarray, variables: Variables, f: np.ndarray, **more: Any) -> Episode:
        """The start of an episode over some variables, where f are the responses of all examples."""
        rows = np.flatnonzero(among(variables.row[active], f.size))
        place = np.empty(f.size, np.int64)
        place[rows] = np.arange(rows.size)
        return cls(
            active=active, rows=rows, row=place[variables.row[active]], f=f[rows], previous=np.empty(0, np.int64),
            last=np.zeros(rows.size, np.int32), spent=np.zeros(1), **more,
        )  # fmt: skip

    def taken_over(self, state: SMOState, closing: Closing, constant: float) -> tuple[np.ndarray, np.ndarray]:
        """The state's α and responses at this episode's own point, where the closing has all of its rows."""
        alpha, f = state.alpha.copy(), state.f.copy()
        f[closing.others] += closing.responses(0, constant)
        alpha[self.active], f[self.rows] = self.alpha, self.f
        return alpha, f

    def is_mostly_free(self, variables: Variables) -> bool:
        """Whether most support vectors are free."""
        used = self.alpha > 0.0
        free = used & (self.alpha < variables.cap[self.active] * self.bound)
        return bool(2 * np.count_nonzero(free) > np.count_nonzero(used))

    def feasible(self, variables: Variables, balanced: bool) -> np.ndarray:
        """A sample's point within the bounds of the problem, and with Σ σα = 0 if ``balanced``.

        If most support vectors are free, their α are about those of the problem and are clipped. If most stand at
        their bounds, the examples outside of the sample will share their weight.
        """
        if not self.is_mostly_free(variables):
            return self.alpha / self.bound
        return lightened(self.alpha, variables.sigma[self.active], variables.cap[self.active], balanced)


@savable(
    "SMO.Closing", rows=Array((0, "changed"), dtype=np.int64, low=0, high="n-1"), per_row=Array("points", "changed"),
    others=Array("others", dtype=np.int64, low=0, high="n-1"), f=Array("points", "others"),
    position=Whole(0, "changed"),
)  # fmt: skip
@dataclass
class Closing:
    """The end of an episode under way: f[p] += Σ per_row[p] × kernel row over the other examples, for points p.

    ``position`` of the ``rows`` have been added. After a sample the points are its own and the feasible one, and the
    other examples are all.
    """

    rows: np.ndarray
    per_row: np.ndarray
    others: np.ndarray
    f: np.ndarray
    position: int = 0

    @classmethod
    def of(cls, variables: Variables, chosen: np.ndarray, changes: np.ndarray, others: np.ndarray) -> Closing:
        """For changes of the chosen variables' α, one line for each point."""
        rows, place = np.unique(variables.row[chosen], return_inverse=True)
        per_row = np.stack([np.bincount(place, variables.sigma[chosen] * change, rows.size) for change in changes])
        return cls(rows if others.size else rows[:0], per_row, others, np.zeros((len(changes), others.size)))

    @property
    def values(self) -> int:
        """The number of kernel values that it takes in all."""
        return self.rows.size * self.others.size

    def responses(self, point: int, constant: float) -> np.ndarray:
        """What a point adds to the responses of the other examples, with the kernel's constant."""
        return self.f[point] + constant * self.per_row[point].sum()


class Solved(NamedTuple):
    """The solution of a sample: its examples, ascending, the α of the problem with n over their number times the
    bounds, and their responses.
    """

    rows: np.ndarray
    alpha: np.ndarray
    f: np.ndarray


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    if sizes["variables"] not in (sizes["n"], 2 * sizes["n"]):
        return f"alpha has {sizes['variables']} variables of {sizes['n']} examples"
    closing, episode = state.closing, state.episode
    if closing is not None and (episode is None or closing.position > closing.rows.size or not len(closing.f)):
        return "closing is that of no episode"
    return None


@savable(
    "SMO.State", alpha=Array("variables", low=0.0), f=Array("n"), episode=maybe(Within(Episode)),
    closing=maybe(Within(Closing)), episodes=COUNT, point=Own(Point), law=_law,
    promising=maybe(Array(None, dtype=np.int64, low=0, high="variables-1", distinct=True)),
)  # fmt: skip
@dataclass
class SMOState(protocol.State):
    """α and the responses f of all examples as of the end of the last episode, and the episode under way.

    The next episode is over the ``promising`` variables, if there are any. ``narrow``: rows over all examples have
    become too dear, so that episodes leave idle variables out. ``stalled``: the last episode changed no α.
    ``loss_of_sample`` is the mean loss of the sample's own solution on all examples. ``primal`` and ``dual`` are the
    values of w(α) with ``bias``, and of α; ``point`` is the best primal point that can be made of α, which is the
    model.
    """

    alpha: np.ndarray
    f: np.ndarray
    rng: np.random.Generator
    episode: Episode | None = None
    closing: Closing | None = None
    episodes: int = 0
    promising: np.ndarray | None = None
    narrow: bool = False
    loss_of_sample: float = np.inf
    stalled: bool = False
    bias: float = 0.0
    primal: float = np.inf
    dual: float = 0.0
    point: Point = field(default_factory=lambda: Point(1.0, 0.0, np.inf))
    counters: Counters = field(default_factory=Counters)


@dataclass
class EpisodeWork:
    """What an episode works with and can be made again: its cache and arrays made from the problem."""

    episode: Episode
    cache: RowCache
    part: Active
    rule: SMORule
    space: Space


class Seen(NamedTuple):
    """What a glimpse of an episode has found after so many rounds, and the kernel values that it took."""

    episode: Episode
    rounds: int
    values: int
    measured: dict[str, float]
    model: Callable[[], KernelModel]


@dataclass
class SMOWorkspace:
    """The variables of the problem; what the episode under way works with, or the kernel matrix of its closing; kernel
    rows over all examples, where an episode had or will have them, none in a ``passing`` workspace; memory for the
    values between variables of a working set; what was seen last.
    """

    variables: Variables
    kept: EpisodeWork | None = None
    matrix: Any = None
    whole: RowCache | None = None
    passing: bool = False
    memory: np.ndarray = field(default_factory=lambda: np.empty(0))
    seen: Seen | None = None

    @classmethod
    def of(cls, problem: KernelProblem, state: SMOState) -> SMOWorkspace:
        """The workspace of a run, made if there is none."""
        return state.work(problem, lambda: cls(Variables.of(problem)))


@savable()
@dataclass
class SMO(DualSolver):
    """Sequential minimal optimisation: the exact solver of kernel machines.

    It is what :class:`SVC` and :class:`SVR` use by default.

    Parameters
    ----------
    working_set : int, default=256
        The largest number of new variables that a round takes up, half as many where all variables are
        active. The free ones of the round before stay in, until there are four times this number, or
        more if the kernel values between them fit into memory of an eighth of the cache. Where many
        stay, up to a seventh as many are new.
    tol : float, default=1e-3
        The relative duality gap at which episodes stop refining. Estimators put their own ``tol`` here.
    slack : float, default=0.3
        How far a variable at its bound must be from violating its margin to leave the active set.
    first_slack : float, default=0.1
        The same for the active set that the sample chooses.
    sample : int, default=8
        The first episode takes one in this many examples. 1 starts with all.
    max_rounds : int, default=2000
        The largest number of rounds of one episode.
    onward : bool, default=False
        Whether the start is near the solution, so that episodes go to ``tol`` at once. The model is
        then w(α) and no multiple of it.
    early : bool, default=False
        Deprecated. It has no effect; ``True`` warns, and the parameter goes in version 0.5.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, SMO
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> bool(SVC(solver=SMO(working_set=64)).fit(X, y).certificate_.relative_gap <= 1e-3)
    True
    """

    working_set: int = 256
    tol: float = 1e-3
    slack: float = 0.3
    first_slack: float = 0.1
    sample: int = 8
    max_rounds: int = 2000
    onward: bool = False
    early: bool = False

    state_class = SMOState
    capabilities = replace(DualSolver.capabilities, for_device="smo")

    def __post_init__(self) -> None:
        if self.early:
            self.early = False
            warn("SMO(early=True) does nothing any more: leave `early` out, it goes in version 0.5", FutureWarning)

    def sizes(self, problem: KernelProblem) -> dict[str, int]:
        """With the variables, and the rounds that an episode may have."""
        variables = problem.n * (2 if losses.scalar_loss(problem.target).is_regression else 1)
        return {**super().sizes(problem), "variables": variables, "most_rounds": int(self.max_rounds)}

    def first_slice(self, problem: KernelProblem) -> int:
        """Rounds: one on a large problem, where it may compute as much as a slice, all of a small one."""
        return max(1, 2**15 // max(1, problem.n))

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """Rounds that take up as many new variables as there are examples."""
        return max(1, -(-problem.n // self.working_set))

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        self._check_loss(problem)
        for name, least in (("working_set", 2), ("sample", 1), ("max_rounds", 1)):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= least):
                raise ValueError(f"{name} must be an integer ≥ {least}, got {value!r}")

    # -- starts

    def init(
        self, problem: KernelProblem, rng: np.random.Generator, duals: np.ndarray | None = None,
        promising: np.ndarray | None = None, responses: np.ndarray | None = None, solved: Solved | None = None,
    ) -> SMOState:  # fmt: skip
        """α = 0, or given dual variables of shape (1, n), made feasible.

        ``promising`` are the variables of the first episode. ``responses`` are those to ``duals``; they are used if the
        dual variables are feasible as given. A ``solved`` sample takes the place of the first episode.
        """
        self.check(problem)
        variables = Variables.of(problem)
        state = SMOState(np.zeros(variables.h.size), np.zeros(problem.n), rng)
        if duals is not None:
            state.alpha[:] = self._nearest(problem, variables, duals)
            if responses is not None and np.array_equal(variables.signed(state.alpha)[0], np.ravel(duals)):
                state.f[:] = responses
            else:
                support, everything = np.flatnonzero(state.alpha), np.arange(problem.n)
                closing = Closing.of(variables, support, state.alpha[None, support], everything)
                self._add_all(problem, state.counters, closing, SMOWorkspace.of(problem, state))
                state.f[:] = closing.responses(0, problem.constant)
            state.episodes = 2  # no sample is drawn, and no pass in random order made
            whole = problem.dtype.itemsize * problem.n * np.count_nonzero(state.alpha)
            state.narrow = bool(whole > problem.cache_bytes)
        if promising is not None:
            state.promising, state.episodes = promising, 1
        if solved is None:
            self._close(problem, variables, state)
        else:  # nothing is known of the point until the responses are
            state.episode = self._solved_episode(problem, variables, solved)
            state.closing = self._closing(problem, variables, state, state.episode)
        return state

    @staticmethod
    def _solved_episode(problem: KernelProblem, variables: Variables, solved: Solved) -> Episode:
        """The end of the episode over a sample that was solved elsewhere."""
        active = np.flatnonzero(among(solved.rows, problem.n)[variables.row])
        bound, f = problem.n / solved.rows.size, np.zeros(problem.n)
        cap = variables.cap[active] * bound  # up to rounding those that it was solved with
        at_bound = solved.alpha >= cap * (1.0 - 1e-12)
        f[solved.rows] = solved.f
        return Episode.over(
            active, variables, f, bound=bound, target=0.0, alpha=np.where(at_bound, cap, solved.alpha),
            order=np.arange(active.size), position=active.size,
        )  # fmt: skip

    def lend(self, problem: KernelProblem, state: SMOState, cache: RowCache) -> None:
        """Give kernel rows over all examples, to be used and added to for as long as such rows are wanted."""
        SMOWorkspace.of(problem, state).whole = cache

    # -- rounds

    def advance(self, problem: KernelProblem, state: SMOState, n_steps: int) -> int:
        """Take up to n_steps rounds, stopping where an episode has ended; returns the number taken.

        The blocks of kernel rows that end an episode use up n_steps like rounds, but are not among those returned.
        The call ends sooner, even within a round, once a slice's kernel values were computed: rounds differ in them.
        """
        space, taken, left = SMOWorkspace.of(problem, state), 0, n_steps
        variables, enough = space.variables, state.counters.kernel_computed + problem.values_at_once
        if n_steps == 0:
            self._compile(problem)
        while left > 0 and state.counters.kernel_computed < enough:
            episode = state.episode or self._open(problem, variables, state)
            # 1) the end of an episode
            if state.closing is not None:
                left -= 1
                self._add_block(problem, state.counters, state.closing, space)
                if state.closing.position == state.closing.rows.size:
                    self._end(problem, space, state)
                    return taken if episode.rounds else 1  # else a run might never end
                continue
            # 2) its rounds
            kept, values = self._kept(problem, space, episode), enough - state.counters.kernel_computed
            made, reached = self._work(state.counters, kept, min(left, self.max_rounds - episode.rounds), values)
            taken += made
            left -= made
            if reached or episode.rounds >= self.max_rounds:
                space.kept = None  # its memory is the closing's now
                state.closing = self._closing(problem, variables, state, episode)
                left = max(left, 1)
        return taken

    def _compile(self, problem: KernelProblem) -> None:
        """Compile the rounds for this kind of problem, if that has not been done, on two of its examples."""
        kind = type(problem.kernel), type(problem.X), problem.threads > 1, problem.dtype
        if kind not in _compiled_for:
            few = problem.take(np.arange(min(2, problem.n)))
            state, space = SMO().init(few, np.random.default_rng(0)), SMOWorkspace(Variables.of(few))
            episode = self._open(few, space.variables, state)
            kept = self._kept(few, space, episode)
            kept.cache.fetch(episode.rows)
            work(kept.cache.held, kept.part, kept.rule, kept.space, episode.previous, 0, 0, 0)
            add_kernel_rows(kept.cache.rows, np.empty(0, np.int64), np.empty(0), episode.f)
            if problem.threads > 1:
                gather_shared(kept.cache, kept.rule, kept.space)
            _compiled_for.add(kind)

    def at_checkpoint(self, state: SMOState) -> bool:
        """Whether an episode has just ended."""
        return self.knows(state)

    def knows(self, state: SMOState) -> bool:
        """Whether all responses are up to date."""
        return state.episode is None

    def _open(self, problem: KernelProblem, variables: Variables, state: SMOState) -> Episode:
        """Begin an episode: choose its active set and its target."""
        n, m, bound, target = problem.n, variables.h.size, 1.0, 0.0
        if state.episodes == 0 and self.sample > 1 and n > LEAST_SAMPLED * self.sample:
            chosen = np.sort(state.rng.choice(n, n // self.sample, replace=False))
            active, bound = np.flatnonzero(among(chosen, n)[variables.row]), n / chosen.size
        elif state.promising is not None:
            active = state.promising
        elif state.episodes == 0 or not state.narrow:
            active, target = np.arange(m), -1.0  # all variables: its gap is that of the problem
        else:
            s = variables.margins(state.f, state.bias)
            idle = np.where(state.alpha >= variables.cap, s >= self.slack, (state.alpha <= 0.0) & (s <= -self.slack))
            active = np.flatnonzero(~idle)
            target = NEARLY * self.tol * abs(state.dual if self.onward else state.primal)
            target = target if self.onward else max(CLOSER * (state.primal - state.dual), target)
        if active.size < 2 or active.size == m:
            active = np.arange(m)
        order = np.arange(active.size)
        shuffle(order, state.rng)
        state.episode = Episode.over(
            active, variables, state.f, bound=bound, target=target, alpha=state.alpha[active], order=order,
            position=order.size if target < 0.0 and state.episodes else 0,
        )  # fmt: skip
        return state.episode

    def _kept(self, problem: KernelProblem, space: SMOWorkspace, episode: Episode) -> EpisodeWork:
        """What an episode works with and is no part of its state: the rows of its examples against each other, as many
        as fit, the bounds of its variables, working space.
        """
        if space.kept is not None and space.kept.episode is episode:
            return space.kept
        variables, whole = space.variables, space.whole
        if episode.rows.size == problem.n and whole is not None:
            cache = whole
        else:
            whole = space.whole = None  # its memory is the new one's
            cache = RowCache(problem.matrix(episode.rows, episode.rows), problem.cache_bytes)
            space.whole = cache if episode.rows.size == problem.n else None
        m = episode.active.size
        part = Active(
            variables.sigma[episode.active], variables.h[episode.active], variables.cap[episode.active] * episode.bound,
            episode.row, episode.alpha, episode.f, episode.order, episode.last, episode.spent,
        )  # fmt: skip
        # fewer new ones where rows are dear, being over all examples; a working set must fit into the cache
        most = max(2, self.working_set // 2) if m == variables.h.size else self.working_set
        most = max(2, min(most, int(HELD_SHARE * cache.capacity), max(LEAST, m // PORTION)))
        room = int(np.sqrt(SET_SHARE * problem.cache_bytes / problem.dtype.itemsize))
        room = max(most, min(max(ROOM * self.working_set, room), m, cache.capacity))
        price = PRICE + getattr(cache.matrix, "entries_per_row", 0)
        rule = SMORule(
            most, room, problem.has_free_bias, problem.constant, problem.kernel.of_rows,
            shared=FOR_THREADS if cache.matrix.threads > 1 else np.inf,
            target=episode.target, share=BELOW * self.tol if episode.target != 0.0 else ROUGHLY,
            price=price, patience=price if episode.target < 0.0 else np.inf,
        )  # fmt: skip
        width = rounds.apart_by(room)
        if space.memory.size < room * width:  # kept from episode to episode: memory that is touched first is dear
            space.memory = np.empty(room * width, problem.dtype)
        K = space.memory[: room * width].reshape(room, width)
        arrays = Space.of(m, K, max(self.max_rounds, episode.rounds))
        space.kept = EpisodeWork(episode, cache, part, rule, arrays)
        return space.kept

    def _work(self, counters: Counters, kept: EpisodeWork, n_rounds: int, values: int) -> tuple[int, bool]:
        """Up to n_rounds rounds of an episode, or until so many kernel values were computed; returns the number of
        rounds, and whether the episode is at its end.
        """
        episode, cache, space = kept.episode, kept.cache, kept.space
        before, size = cache.matrix.evaluations, episode.rows.size
        if cache.misses == 0 and cache.capacity == size and size**2 * kept.rule.price <= AT_ONCE:
            cache.fetch(np.arange(size))
        total, end, over = 0, rounds.GOING_ON, (rounds.REACHED, rounds.TIRED)
        while end not in over and total < n_rounds and cache.matrix.evaluations < before + values:
            end, made, visits, moves, episode.position, episode.previous = work(
                cache.held, kept.part, kept.rule, space, episode.previous, episode.position, episode.rounds,
                n_rounds - total,
            )  # fmt: skip
            episode.rounds += made
            total += made
            counters.steps += made
            counters.updates += moves
            counters.visits += visits
            counters.kernel_evals += visits * size
            if end == rounds.MISSING:
                cache.fetch(space.wanted[: int(space.open.listed[0])])
                if kept.rule.shared < np.inf:
                    gather_shared(cache, kept.rule, space)
            elif end == rounds.ADDING:
                change = space.members.change[: episode.previous.size]
                add_kernel_rows(cache.rows, space.slots, change, episode.f, cache.matrix.threads)
        counters.kernel_computed += cache.matrix.evaluations - before
        episode.gave_up = end == rounds.TIRED
        return total, end in over

    # -- the end of an episode

    def finish(self, problem: KernelProblem, state: SMOState) -> None:
        """End the episode under way: bring all responses, the bias and the gap up to date."""
        if state.episode is None:
            return
        space = SMOWorkspace.of(problem, state)
        if state.closing is None:
            space.kept = None
            state.closing = self._closing(problem, space.variables, state, state.episode)
        self._add_all(problem, state.counters, state.closing, space)
        self._end(problem, space, state)

    def _closing(self, problem: KernelProblem, variables: Variables, state: SMOState, episode: Episode) -> Closing:
        """What the changes of the episode under way will add to the responses of the examples outside of it."""
        if episode.bound != 1.0:  # a sample: all of its point, and of the one that the next episode begins with
            points = np.stack([episode.alpha, episode.feasible(variables, problem.has_free_bias)])
            others = np.arange(problem.n)
        else:
            points = (episode.alpha - state.alpha[episode.active])[None]
            others = np.flatnonzero(~among(episode.rows, problem.n))
        changed = np.flatnonzero(points.any(axis=0))
        return Closing.of(variables, episode.active[changed], points[:, changed], others)

    def _add_block(self, problem: KernelProblem, counters: Counters, closing: Closing, space: SMOWorkspace) -> None:
        """Add the next rows of a closing, about a tenth of a second's work, in place.

        Rows over all examples are kept for the episode that comes next.
        """
        left, width = closing.rows.size - closing.position, closing.others.size
        room = int(BLOCK_SHARE * problem.cache_bytes) // problem.dtype.itemsize
        at_once = max(64 * width, problem.values_at_once)
        most = min(BLOCK_ROWS, min(BLOCK_VALUES, at_once, room) // max(1, width))
        count = min(left, max(16, most // 16 * 16))
        if count == 0:
            return
        some = np.arange(closing.position, closing.position + count)
        if width == problem.n and not space.passing:
            if space.whole is None:
                everything = np.arange(problem.n)
                space.whole = RowCache(problem.matrix(everything, everything), problem.cache_bytes)
            matrix, before = space.whole.matrix, space.whole.matrix.evaluations
            block, here = space.whole.rows, space.whole.fetch(closing.rows[some])
        else:
            if space.matrix is None:
                space.matrix = problem.matrix(closing.rows, closing.others)
            matrix, before = space.matrix, space.matrix.evaluations
            block, here = np.empty((count, width), problem.dtype), np.arange(count)
            matrix.fill(some, here, block)
        for coefficients, f in zip(closing.per_row, closing.f, strict=True):
            add_kernel_rows(block, here, coefficients[some], f, problem.threads)
        counters.kernel_evals += count * width
        counters.kernel_computed += matrix.evaluations - before
        closing.position += count

    def _add_all(self, problem: KernelProblem, counters: Counters, closing: Closing, space: SMOWorkspace) -> None:
        """Add all rows of a closing that are left, in place."""
        while closing.position < closing.rows.size:
            self._add_block(problem, counters, closing, space)

    def _end(self, problem: KernelProblem, space: SMOWorkspace, state: Any) -> None:
        """Take over the episode's α and responses, now that the closing has all of its rows."""
        episode, closing, variables = state.episode, state.closing, space.variables
        space.matrix = space.seen = state.promising = None
        if episode.bound != 1.0:
            self._end_sample(problem, variables, state)
        else:
            state.stalled = np.array_equal(episode.alpha, state.alpha[episode.active])
            state.narrow |= episode.gave_up
            state.alpha, state.f = episode.taken_over(state, closing, problem.constant)
        state.episode = state.closing = None
        state.episodes += 1
        self._close(problem, variables, state)

    def _end_sample(self, problem: KernelProblem, variables: Variables, state: Any) -> None:
        """Take over a sample's point, made feasible, and choose what comes after it."""
        episode, closing, bias = state.episode, state.closing, 0.0
        active, state.narrow, state.stalled = episode.active, not episode.is_mostly_free(variables), False
        f = closing.responses(0, problem.constant)
        if problem.has_free_bias:
            # the sample's own bias: over all examples, two wrong labels would be the ends of the interval of biases
            e = variables.h[active] - episode.f[episode.row]
            bias = free_bias(variables.sigma[active], e, variables.cap[active] * episode.bound, episode.alpha)
        state.loss_of_sample = float(problem.mean_losses(f[None] + bias)[0])
        if state.narrow:
            violates = variables.margins(f, bias) > -self.first_slack
            violates[active] |= episode.alpha > 0.0
            state.promising = np.flatnonzero(violates)
        state.alpha[active] = episode.feasible(variables, problem.has_free_bias)
        state.f[:] = closing.responses(-1, problem.constant)

    # -- looks

    def glimpse(
        self, problem: KernelProblem, state: SMOState, most: float
    ) -> tuple[dict[str, float], Callable[[], KernelModel]] | None:
        """Measures and model of the point that the episode under way has come to, which is left as it is; None if
        the responses of the examples outside of it take more than ``most`` kernel values.
        """
        episode = state.episode
        if episode is None:
            return self.evaluate(problem, state, None), lambda: self.model(problem, state)
        space = SMOWorkspace.of(problem, state)
        variables, seen = space.variables, space.seen
        if seen is not None and seen.episode is episode and seen.rounds == episode.rounds and seen.values <= most:
            return seen.measured, seen.model
        closing = self._closing(problem, variables, state, episode)
        if closing.values > most:
            return None
        # what is done for a look is neither counted nor kept
        self._add_all(problem, Counters(), closing, SMOWorkspace(variables, passing=True))
        alpha, f = episode.taken_over(state, closing, problem.constant)
        bias, primal, dual = self._values(problem, variables, alpha, f)
        if episode.bound != 1.0:
            dual = -np.inf  # beyond the bounds
        point = self._point(problem, variables, alpha, f, bias, primal, dual)
        certificate = self._certificate(problem, point, max(dual, state.dual))
        measured = {"objective": certificate.primal, "gap": certificate.gap}
        model = partial(self._model, problem, variables.signed(alpha), point)
        space.seen = Seen(episode, episode.rounds, closing.values, measured, model)
        return measured, model
