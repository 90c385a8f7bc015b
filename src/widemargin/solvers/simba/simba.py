"""SIMBA: a linear SVM learnt from single rows and columns, for features that are expensive to look at.

Problem. The slack-constrained form. With labels folded into unit rows, zᵢ = yᵢxᵢ/R where R = max ‖xᵢ‖,

    max over ‖w‖ ≤ 1, |b| ≤ 1, ξ ∈ Ξ of min over i of ⟨w, zᵢ⟩ + yᵢb + ξᵢ,      Ξ = {0 ≤ ξ ≤ 2, Σ sᵢξᵢ ≤ nν}.

Given: rows and columns one by one, labels, weights sᵢ, ν or a sample to find ν on.

State: importance qᵢ of the examples, whose share is the distribution p; U, a sum of rows, with w = a U; lazy averages.

Step. The problem is a game between (w, b, ξ) and p (Hazan, Koren and Srebro, 2011, Algorithm 1). A step

1. draws i ∝ p, *reads row i* and takes a step of w along zᵢ; w goes back to the ball, u keeps what it was:
   u += zᵢ/√(2t) ("adaptive"), u = Σ z/√(2t) ("averaging") or u = Σ z/√(2T) ("fixed", as printed), w = u/max(1, ‖u‖);
2. answers p by the best slack, 2 on the largest p until the mass nν is spent, where equal ones share what is left for
   them, and the best bias, the sign of Σ pᵢyᵢ;
3. draws j ∝ w_j² (or |w_j|, or |w_j| times the root mean square of feature j), *reads column j*, and multiplies every
   qᵢ by 1 − η vᵢ + η² vᵢ² (or exp(−η vᵢ)), where vᵢ = zᵢ(j) w_j/P(j) + ξᵢ + yᵢb, clipped to ±1/η, estimates the value
   of example i without bias but for the clipping; η = √(log n/t), or √(log n/T).

The predictor is the average of (w, b), divided by its water level at nν, as in the Stochastic Batch Perceptron.
Averages are lazy: with w_t = a_t U_t, U_t = U_{t−1} + g_t and A_t = a_1 + … + a_t, Σ w = A_T U_T − Σ A_{t−1} g_t.

Cost. Dense: one sweep over a row, which also sums the weights of columns by blocks, and one over a column, which sums
importance; the factors of importance have the precision of the data, importance and weights that of float64. Sparse:
the entries of the row and the column, and the examples with slack. The factor that all other examples of a class share
is kept beside their importance (two sides, one for each class). Examples and columns are drawn by three levels of
blocks (:mod:`widemargin.core.sampling.sampler`); slack finds the largest q by the tops of blocks
(:mod:`widemargin.core.sampling.cover`).

Different from the paper: the default rates need no T; a regularised intercept is a constant feature, which nobody has
to read; line 13 prints p_t where p_{t+1} is meant; where the water level is not positive, the multiple of the average
with the lowest objective is taken.

E. Hazan, T. Koren, N. Srebro: Beating SGD: Learning SVMs in Sublinear Time. NIPS 24 (2011).
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from ...arguments import not_negative, positive, whole
from ...core.losses import losses
from ...core.losses.water_level import pour, room
from ...core.rows.columns import as_columns
from ...core.rows.rows import CSRRows, DenseRows
from ...core.rows.sources import Remote
from ...core.sampling.cover import tops_of
from ...core.sampling.importance import Examples, Scratch, Side
from ...core.sampling.sampler import NARROW, WIDE, Sampler, blocks, sampler_of, sum_all
from ...files import savable
from ...history import Counters
from ...models import LinearModel
from ...problems.linear import Problem
from ...problems.objective import Certificate, sum_of_squares
from ...schemas import Array, Own, blank, maybe
from .. import make, protocol
from ..protocol import Solver
from . import steps
from .steps import DUALS, PRIMALS, RULES, Directions, Game, Seen

SAMPLE = 2000  # examples of each half of the sample that finds ν: one is trained on, both give a mean loss
SAMPLE_EPOCHS = 50  # passes over the half that is trained on
LOOKED_AT = 1000  # rows that are read for sizes, ν and the level where a pass over the data is not to be had
AT_ONCE = 4096  # steps whose random numbers are drawn together
ONE = losses.Single(losses.Hinge())


def stored_entries(X: DenseRows | CSRRows) -> int:
    """How many entries of a matrix are stored."""
    return X.data.size if isinstance(X, CSRRows) else X.values.size


def longest(lines: DenseRows | CSRRows) -> int:
    """The largest number of stored entries in a row."""
    return int(np.diff(lines.indptr).max(initial=0)) if isinstance(lines, CSRRows) else lines.values.shape[1]


@savable()
@dataclass
class ReadCounters(Counters):
    """Counters of a solver that reads single rows and columns.

    Attributes
    ----------
    feature_reads_dense : int
        The other way to count: d for each row and n for each column, whatever is stored.
    first_reads : int
        Stored entries that steps read for the first time, by row or by column.
    preparation_reads : int
        Stored entries read to find the size of the rows, ν, the size of the columns and the final level. Evaluation at
        checkpoints is not counted, as in all solvers.
    """

    feature_reads_dense: int = 0
    first_reads: int = 0
    preparation_reads: int = 0


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    with np.errstate(over="ignore", invalid="ignore"):
        importance = (state.scale[:, :, None] * state.q).sum(axis=(1, 2))
    wrong = importance[~((importance > 0.0) & (importance < np.inf))]
    return f"the importance of all examples is {wrong[0]}" if wrong.size else None


Sides = Annotated[np.ndarray, Array("outputs", "sides")]
PerExample = Annotated[np.ndarray, Array("outputs", "n")]
PerColumn = Annotated[np.ndarray, Array("outputs", "width")]


@savable("Simba.State", law=_law)
@dataclass
class SimbaState(protocol.State):
    """A run. The first axis is the outputs; the second one of importance is the sides."""

    #: R.
    size: float
    rng: np.random.Generator
    #: Importance, its scale, and the sums that draws go by; weights are apart only where examples have some.
    q: Annotated[np.ndarray, Array("outputs", "sides", "n", low=0.0)]
    scale: Sides
    fine: Annotated[np.ndarray, Array("outputs", "sides", "blocks")]
    coarse: Annotated[np.ndarray, Array("outputs", "sides", "upper")]
    changes: Annotated[np.ndarray, Array("outputs", "sides", 1, dtype=np.int64, low=0)]
    #: U, the lag of its average, the same in coefficients of the examples, and the sums that draws of columns go by.
    sums: PerColumn
    lag: PerColumn
    coefficients: PerExample
    coefficients_lag: PerExample
    column_fine: Annotated[np.ndarray, Array("outputs", "column_blocks")]
    column_coarse: Annotated[np.ndarray, Array("outputs", "column_upper")]
    column_changes: Annotated[np.ndarray, Array("outputs", 1, dtype=np.int64, low=0)]
    #: The scalars that :data:`.steps.COURSE` names.
    course: Annotated[np.ndarray, Array("outputs", len(steps.COURSE))]
    #: Rows and columns that were read.
    rows_read: Annotated[np.ndarray, Array("n", dtype=np.bool_)]
    columns_read: Annotated[np.ndarray, Array("d", dtype=np.bool_)]
    #: ν, and the root mean squares of the columns.
    nu: Annotated[np.ndarray, Array("outputs")]
    rms: Annotated[np.ndarray, Array((0, "width"))]
    #: The examples that are looked at as a whole, all if there are none.
    level_rows: Annotated[np.ndarray, Array(None, dtype=np.int64, low=0, high="n-1", distinct=True)]
    counters: Annotated[Any, Own(Counters)] = field(default_factory=ReadCounters)
    #: SDCA's state, once it has taken over.
    ascent: Annotated[Any, maybe(Own(protocol.State, n="n", d="d", outputs="outputs"))] = None

    resumes = False

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether rounding allows no further progress."""
        return self.ascent is not None and self.ascent.stalled

    def drop_workspace(self) -> None:
        """Give the workspace's memory back."""
        super().drop_workspace()
        if self.ascent is not None:
            self.ascent.drop_workspace()


@dataclass
class SimbaWorkspace:
    """The columns of the data, the problem of the examples looked at, and what compiled steps see, by output."""

    columns: DenseRows | CSRRows | None
    part: Problem
    examples: list[Examples]
    directions: list[Directions]
    scratch: Scratch


@savable()
@dataclass
class Simba(Solver):
    """SIMBA: linear classifiers learnt from one row and one column per step.

    It solves the slack-constrained form. Use it where looking at a feature is what costs, with a
    :class:`Source`.

    Parameters
    ----------
    nu : float or None, default=None
        The mean slack per example, for a margin of rows of size 1. None finds the ν of the problem's C
        on a sample.
    primal : {"adaptive", "averaging", "fixed"}, default="adaptive"
        The step of w. zᵢ/√(2t) is added, or the sum of all z is divided by √(2t), or by √(2T) as
        printed in the paper.
    dual : {"quadratic", "exponential"}, default="quadratic"
        The factor of an example's importance: 1 − ηv + η²v², or exp(−ηv).
    rate : {"adaptive", "fixed"}, default="adaptive"
        The rate η: √(log n/t), or √(log n/T).
    columns : {"squared", "absolute", "scaled"}, default="squared"
        How columns are drawn: in proportion to wⱼ², to the size of wⱼ, or to the size of wⱼ times the
        root mean square of feature j, which takes a pass over the data.
    horizon : int or None, default=None
        The number of steps T, for what is "fixed".
    rows_per_step : int, default=1
        The number of rows drawn in each step; w takes their mean.
    columns_per_step : int, default=1
        The number of columns drawn in each step; v takes their mean.
    size : float or None, default=None
        An upper bound of the norms of the rows, with the constant 1 of a regularised intercept. None
        takes a pass to find it.
    level_sample : int or None, default=None
        The number of examples on which the final level and the objective are found. Nothing else is
        read then, and nothing is certified. None takes all, or 1,000 of data that is not in memory.
    ascent_after : int or None, default=None
        The number of steps after which dual ascent (SDCA) goes on from the rows drawn, to a proven gap.
        An epoch of it reads all rows. None never does.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import LinearSVC, Simba
    >>> X, y = make_classification(n_samples=60, class_sep=2.0, random_state=0)
    >>> solver = Simba(nu=1e-3, rows_per_step=4)
    >>> model = LinearSVC(solver=solver, tol=0, max_iter=5, random_state=0).fit(X, y)
    >>> model.stop_reason_
    'max_iter'
    """

    nu: float | None = None
    primal: str = "adaptive"
    dual: str = "quadratic"
    rate: str = "adaptive"
    columns: str = "squared"
    horizon: int | None = None
    rows_per_step: int = 1
    columns_per_step: int = 1
    size: float | None = None
    level_sample: int | None = None
    ascent_after: int | None = None

    state_class = SimbaState
    capabilities = protocol.Capabilities(remote=True)

    @property
    def _sdca(self) -> Any:
        return make("linear", "sdca")

    def certifies(self, problem: Problem) -> bool:
        """What is not looked at as a whole is not certified."""
        return self._looked_at(problem) == problem.n

    def _looked_at(self, problem: Problem) -> int:
        """How many examples are looked at as a whole."""
        if self.level_sample is not None:
            return min(self.level_sample, problem.n)
        return problem.n if problem.is_open else min(LOOKED_AT, problem.n)

    def most_reads(self, problem: Problem) -> int:
        """Stored entries that a step may read."""
        row = problem.d if isinstance(problem.X, Remote) else longest(problem.X)
        # a column of sparse rows may have them all
        column = problem.n if problem.columns is None else longest(problem.columns)
        return problem.n_outputs * (self.rows_per_step * row + self.columns_per_step * column)

    def check(self, problem: Problem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        if problem.is_joint or not isinstance(losses.scalar_loss(problem.target), losses.Hinge):
            raise ValueError(
                "Simba solves the hinge loss, each output apart: use loss='hinge' with multi_class='ovr', or SDCA"
            )
        if problem.intercept not in ("none", "regularized", "unregularized"):
            raise ValueError(
                "Simba has the intercepts 'regularized', 'unregularized' and 'none', "
                f"got {problem.intercept!r}: use one of them, or Pegasos"
            )
        for name, known in (("primal", PRIMALS), ("dual", DUALS), ("columns", RULES), ("rate", ("adaptive", "fixed"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if "fixed" in (self.primal, self.rate) and not (
            isinstance(self.horizon, (int, np.integer)) and self.horizon > 0
        ):
            raise ValueError(
                "primal='fixed' and rate='fixed' need the number of steps: set horizon to an integer ≥ 1, "
                f"got {self.horizon!r}"
            )
        if self.nu is not None and not_negative("nu", self.nu) > 1.0:
            raise ValueError(f"nu must be a number from 0 to 1, got {self.nu!r}")
        for name in ("rows_per_step", "columns_per_step"):
            whole(name, getattr(self, name))
        if self.size is not None:
            positive("size", self.size)
        for name in ("level_sample", "ascent_after"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.ascent_after is not None:
            self._check_ascent(problem)

    def _check_ascent(self, problem: Problem) -> None:
        """Refuse dual ascent where it cannot go."""
        if isinstance(problem.X, Remote):
            raise ValueError(
                "ascent_after needs whole passes over the rows, and X is reached by row and by column only: "
                "set ascent_after=None"
            )
        if not self.certifies(problem):
            raise ValueError(
                f"ascent_after reads all rows, and {self._looked_at(problem)} of {problem.n} are looked at: set "
                f"level_sample={problem.n}, or drop ascent_after"
            )
        if isinstance(problem.X, DenseRows) and not problem.X.values.flags.c_contiguous:
            raise ValueError("ascent_after needs rows in C order, got Fortran order: give TwoWays such rows too")
        self._sdca.check(problem)

    def sizes(self, problem: Problem) -> dict[str, int]:
        """With the sides of an intercept, and the blocks of the sums that draws go by."""
        width, least = problem.d + (problem.intercept == "regularized"), self._least_blocks(problem)
        sides = 2 if self._has_sides(problem) else 1
        of_examples, of_columns = blocks(problem.n, least), blocks(width, least)
        return {
            **super().sizes(problem), "sides": sides, "width": width, "blocks": of_examples[1],
            "upper": of_examples[2], "column_blocks": of_columns[1], "column_upper": of_columns[2],
        }  # fmt: skip

    def first_slice(self, problem: Problem) -> int:
        """One step where a row may take any time to come."""
        return 1 if isinstance(problem.X, Remote) else super().first_slice(problem)

    def doubt(self, problem: Problem, state: SimbaState, tol: float) -> str:
        """Before dual ascent a value that stands still proves nothing."""
        waits = self.ascent_after is not None and state.ascent is None
        return f"dual ascent begins after {self.ascent_after} steps" if waits else ""

    def steps_per_epoch(self, problem: Problem) -> int:
        """Steps that draw as many rows as there are examples."""
        return max(1, -(-problem.n // self.rows_per_step))

    # -- beginning

    def init(self, problem: Problem, rng: np.random.Generator) -> SimbaState:
        """w = 0, and every example as important as every other."""
        self.check(problem)
        level_rows = np.empty(0, np.int64)
        if self._looked_at(problem) < problem.n:
            level_rows = np.sort(rng.choice(problem.n, self._looked_at(problem), replace=False))
        part, counters, sizes = self._part(problem, level_rows), ReadCounters(), self.sizes(problem)
        sizes["sides"] = 2 if self._has_sides(part) else 1
        # a sample is read once, and all of the data once for each purpose
        purposes = 1 + (self.size is None) + (self.columns == "scaled") if part is problem else 1
        counters.preparation_reads += purposes * stored_entries(part.X)
        state = SimbaState(self._size(part), rng, counters=counters, **blank(SimbaState, sizes))
        state.level_rows, state.scale[:] = level_rows, 1.0
        if self.columns == "scaled":
            squares = part.column_squares()
            if part is not problem:  # what a sample has not seen may be there
                squares = np.maximum(squares, squares.mean() / part.n)
            state.rms = np.sqrt(np.append(squares, part.mean_weight)[: sizes["width"]])
        for c in range(problem.n_outputs):
            y, _ = self._labels(problem, c)
            state.q[c] = [y > 0.0, y < 0.0] if sizes["sides"] == 2 else 1.0
            state.nu[c] = self._nu_of_sample(part, state, c, part is problem) if self.nu is None else float(self.nu)
        for own in state.work(problem, lambda: self._workspace(problem, state, part)).examples:
            sum_all(own.first.sampler)
            sum_all(own.second.sampler)
        return state

    @staticmethod
    def _least_blocks(problem: Problem) -> int:
        """Sweeps over all that is dense go along wide blocks."""
        return NARROW if isinstance(problem.X, CSRRows) else WIDE

    @staticmethod
    def _has_sides(problem: Problem) -> bool:
        """Whether what an intercept does to examples is kept aside, by class: where steps do not touch them all."""
        return isinstance(problem.X, CSRRows) and problem.intercept != "none"

    @staticmethod
    def _labels(problem: Problem, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels ±1 and weights of output c, which are empty if all are 1."""
        _, y, s = problem.binary_part(c)
        return y, np.empty(0) if np.all(s == 1.0) else s

    @staticmethod
    def _signed(problem: Problem, alpha: np.ndarray) -> np.ndarray:
        """α of shape (outputs, n) with the signs of the labels."""
        return np.stack([problem.binary_part(c)[1] for c in range(problem.n_outputs)]) * alpha

    def _size(self, problem: Problem) -> float:
        """R, which no row exceeds."""
        if self.size is not None:
            return float(self.size)
        largest = float(problem.squared_lengths().max(initial=0.0)) + (problem.intercept == "regularized")
        return math.sqrt(largest) if largest > 0.0 else 1.0

    def _nu_of_sample(self, problem: Problem, state: SimbaState, c: int, counted: bool) -> float:
        """ν = mean hinge/‖w‖ on unit rows, of the optimum of a sample: the mean of its loss inside and outside.

        The rows of the sample are counted as read, unless they were before.
        """
        size = min(SAMPLE, problem.n // 2)
        if size < 2:
            return 1e-3
        order = state.rng.permutation(problem.n)[: 2 * size]
        _, y, s = problem.binary_part(c)
        parts = []
        for chosen in (np.sort(order[:size]), np.sort(order[size:])):
            parts.append(replace(problem.take(chosen), y=y[chosen], sample_weight=s[chosen], target=ONE, n_outputs=1))
            state.counters.preparation_reads += stored_entries(parts[-1].X) if counted else 0
        solver, free = make("linear", "sdca"), problem.intercept == "unregularized"
        train = replace(parts[0], intercept="regularized") if free else parts[0]
        trial = solver.init(train, np.random.default_rng(state.rng.integers(2**63)))
        solver.advance(train, trial, SAMPLE_EPOCHS * solver.steps_per_epoch(train))
        W, b = solver.weights(train, trial)
        b = parts[0].best_intercept(W) if free else b
        norm = math.sqrt(sum_of_squares(W) + (sum_of_squares(b) if problem.intercept == "regularized" else 0.0))
        inside, outside = (float(each.output_losses(W, b).sum()) for each in parts)
        return min(1.0, math.sqrt(inside * outside) / (norm * state.size)) if norm > 0.0 else 1e-3

    # -- steps

    def _rule(self, problem: Problem, state: SimbaState, c: int) -> steps.SimbaRule:
        """The numbers that steps of output c go by."""
        weight = float(problem.binary_part(c)[2].sum())
        return steps.SimbaRule(
            PRIMALS.index(self.primal), DUALS.index(self.dual), RULES.index(self.columns), float(self.horizon or 0),
            self.rate == "fixed", problem.intercept == "unregularized", problem.intercept == "regularized",
            problem.n * float(state.nu[c]), 1.0 / state.size, math.log(max(2.0, weight)),
        )  # fmt: skip

    @staticmethod
    def _part(problem: Problem, chosen: np.ndarray) -> Problem:
        """The problem of the examples that are looked at as a whole, all if none are chosen, fetched if need be."""
        if chosen.size:
            return problem.take(chosen)
        return problem.take(np.arange(problem.n)) if isinstance(problem.X, Remote) else problem

    def _space(self, problem: Problem, state: SimbaState) -> SimbaWorkspace:
        return state.work(problem, lambda: self._workspace(problem, state, self._part(problem, state.level_rows)))

    def _workspace(self, problem: Problem, state: SimbaState, part: Problem) -> SimbaWorkspace:
        """The columns, and the state's arrays as compiled steps see them; what is not kept follows from what is."""
        n, least = problem.n, self._least_blocks(problem)
        mixed = np.empty(0 if isinstance(problem.X, CSRRows) else n, problem.dtype)
        scratch = Scratch(
            np.zeros(n), np.zeros(n, bool), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), mixed
        )
        nobody = Side(np.empty(0), np.ones(1), sampler_of(np.empty(0)), tops_of(np.empty(0)))
        examples, directions = [], []
        for c in range(problem.n_outputs):
            (y, s), sides, shift = self._labels(problem, c), [], blocks(n, least)[0]
            for g, q in enumerate(state.q[c]):
                weights, sums = s * q if s.size else q, (state.fine[c, g], state.coarse[c, g], state.changes[c, g])
                sides.append(Side(q, state.scale[c, g : g + 1], Sampler(weights, *sums, shift), tops_of(q, least)))
            examples.append(Examples(y.astype(problem.dtype), s, *(*sides, nobody)[:2]))
            weights = steps.column_weight(state.sums[c], state.rms, slice(None), RULES.index(self.columns))
            shift = blocks(weights.size, least)[0]
            sampler = Sampler(weights, state.column_fine[c], state.column_coarse[c], state.column_changes[c], shift)
            coefficients = state.coefficients[c], state.coefficients_lag[c]
            directions.append(Directions(state.sums[c], state.lag[c], *coefficients, sampler, state.rms))
        columns = problem.columns
        if columns is None and not isinstance(problem.X, Remote):
            columns = as_columns(problem.X)
        return SimbaWorkspace(columns, part, examples, directions, scratch)

    def advance(self, problem: Problem, state: SimbaState, n_steps: int) -> int:
        """Take n_steps steps of every output, in place; where dual ascent has taken over, as many visits as rows."""
        left, last = n_steps, math.inf if self.ascent_after is None else self.ascent_after
        if state.ascent is None:
            own = int(min(n_steps, last - state.counters.steps))
            self._take_steps(problem, state, own)
            left -= own
            if state.counters.steps >= last:
                self._hand_over(problem, state)
        if state.ascent is not None:
            state.counters = state.ascent.counters  # one account for both
            self._sdca.advance(problem, state.ascent, left * self.rows_per_step)
        return n_steps

    def _hand_over(self, problem: Problem, state: SimbaState) -> None:
        """Start dual ascent at the coefficients of the rows drawn, which reads all of them from now on."""
        state.ascent = self._sdca.init(problem, deepcopy(state.rng), self.duals(problem, state))
        state.counters.first_reads = stored_entries(problem.X)
        state.ascent.counters = state.counters
        state.workspace = problem, None  # type: ignore[misc]

    def _take_steps(self, problem: Problem, state: SimbaState, n_steps: int) -> None:
        space = self._space(problem, state)
        drawn, left = self.rows_per_step + self.columns_per_step, n_steps
        first = not isinstance(problem.X, Remote)  # no steps compile
        counts = np.zeros(1, steps.READS).view(np.recarray)
        seen = [Seen(mask, np.array([np.count_nonzero(mask)])) for mask in (state.rows_read, state.columns_read)]
        rows, columns = np.empty(self.rows_per_step, np.int64), np.empty(self.columns_per_step, np.int64)
        draws = steps.Draws(rows, columns, np.empty(columns.size))
        games = [
            Game(
                self._rule(problem, state, c), space.examples[c], space.directions[c], seen[0], seen[1], counts,
                state.course[c].view(steps.COURSE, np.recarray), draws, space.scratch,
            )
            for c in range(problem.n_outputs)
        ]  # fmt: skip
        while left > 0 or first:
            uniforms = state.rng.random((min(left, AT_ONCE), problem.n_outputs, drawn))
            for c, game in enumerate(games):
                own = np.ascontiguousarray(uniforms[:, c])
                if isinstance(problem.X, Remote):
                    steps.take_remote_steps(problem.X, own, game)
                else:
                    steps.take_steps(problem.X, space.columns, own, game)
            left, first = left - len(uniforms), False
        counters = state.counters
        counters.steps += n_steps
        counters.visits += n_steps * self.rows_per_step
        counters.updates += n_steps * self.rows_per_step
        counters.feature_reads += int(counts[0].stored)
        counters.feature_reads_dense += int(counts[0].dense)
        counters.first_reads += int(counts[0].first)

    # -- output

    def averages(self, state: SimbaState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(w̄, b̄, ᾱ) over the steps: weights and coefficients of rows of size 1, of shape (outputs, …)."""
        course = state.course.view(steps.COURSE)
        t, total = np.maximum(course["t"], 1.0), course["total"]
        w, alpha = (total * state.sums - state.lag) / t, (total * state.coefficients - state.coefficients_lag) / t
        return w, (course["bias"] / t)[:, 0], alpha

    def predictor(self, problem: Problem, state: SimbaState) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(W, b, level, multiple): the average over its water level at nν; without ``nu``, or where that is not above
        0, the best multiple of it.
        """
        w, bias, _ = self.averages(state)
        W, d = (w / state.size).astype(np.float64), problem.d
        part = self._space(problem, state).part
        b, level, multiple = np.zeros(problem.n_outputs), np.zeros(problem.n_outputs), np.zeros(problem.n_outputs)
        for c in range(problem.n_outputs):
            y, s = self._labels(part, c)
            f = part.column_scores(np.ascontiguousarray(W[c : c + 1, :d].T), 0) + (W[c, d] if W.shape[1] > d else 0.0)
            window = np.array([0.0, 0.0, np.inf])
            level[c] = pour(f + bias[c], y, s, part.n * state.nu[c], False, window, room(part.n)).level
            if level[c] > 0.0 and self.nu is not None:
                multiple[c], b[c] = 1.0 / level[c], bias[c] / level[c]
            else:
                multiple[c], b[c], _ = part.best_multiple(f, sum_of_squares(W[c]), c)
            W[c] *= multiple[c]
            if W.shape[1] > d:
                b[c] = W[c, d]
        return W[:, :d].T.copy(), b, level, multiple

    def model(self, problem: Problem, state: SimbaState) -> LinearModel:
        """A finished copy of the current model."""
        if state.ascent is not None:
            return self._sdca.model(problem, state.ascent)
        W, b, _, _ = self.predictor(problem, state)
        return LinearModel(W.T.astype(problem.dtype), b)

    def certificate(self, problem: Problem, state: SimbaState) -> Certificate | None:
        """Primal value of the model, and the better of two dual values: from its slopes, and of the rows drawn.

        None where the objective is known on a sample only.
        """
        if state.ascent is not None:
            return self._sdca.certificate(problem, state.ascent)
        if state.level_rows.size:
            return None
        W, b, _, _ = self.predictor(problem, state)
        problem = self._space(problem, state).part
        W = W.astype(problem.dtype)
        known = -math.inf
        if problem.intercept != "unregularized":
            w, _, alpha = self.averages(state)
            beta = self._signed(problem, alpha) / state.size**2
            norm2 = np.array([sum_of_squares(each) for each in w]) / state.size**2
            known = problem.dual_of_multiple(beta, problem.lam * norm2 * (1.0 + 1e-9))
        return problem.certificate(W, b, known)

    def evaluate(self, problem: Problem, state: SimbaState, model: LinearModel) -> dict[str, float]:
        """Objective in the λ-form, and where the predictor stands: level, norm, mean hinge (means over outputs)."""
        if state.ascent is not None:
            return self._sdca.evaluate(problem, state.ascent, model)
        W, b, level, _ = self.predictor(problem, state)
        part = self._space(problem, state).part
        hinge = part.output_losses(W.astype(part.dtype), b)
        norms = np.sqrt([sum_of_squares(each) for each in W.T])
        return {
            "objective": part.primal(W.astype(part.dtype), b), "level": float(level.mean()),
            "norm": float(norms.mean()), "hinge": float(hinge.mean()), "nu": float(state.nu.mean()),
        }  # fmt: skip

    def duals(self, problem: Problem, state: SimbaState) -> np.ndarray:
        """The largest multiple of the coefficients of the rows drawn that lies in the box, of shape (outputs, n)."""
        if state.ascent is not None:
            return self._sdca.duals(problem, state.ascent)
        _, _, alpha = self.averages(state)
        beta = self._signed(problem, np.maximum(alpha, 0.0))
        caps = np.stack([problem.caps_of(c) for c in range(problem.n_outputs)])
        with np.errstate(divide="ignore"):
            share = np.min(caps / np.abs(beta), axis=1, initial=np.inf, where=beta != 0.0)
        multiple = self.predictor(problem, state)[3] / state.size**2
        return beta * np.minimum(share, multiple)[:, None]
