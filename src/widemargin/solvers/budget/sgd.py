"""Budgeted SGD: kernel machines that never hold more than B support vectors.

Problem, without intercept, for one score (hinge, ε-insensitive) or one score per class (the joint hinge of Crammer and
Singer, or a hinge per class against the rest)::

    min over W   λ/2 ‖W‖² + (1/n) Σ sᵢ ℓ(Wᵀ Φ(xᵢ), yᵢ),      W = Σ_j Φ(z_j) α_jᵀ over at most B vectors z_j.

Given: a :class:`widemargin.problems.kernel.KernelProblem`, or the parts of a stream, one problem each.

State (:class:`BudgetedState`): the vectors z_j, their coefficients α_j, the scale of W, and counts.

Step t, on the example (x, y) (Algorithm 1 of the paper)::

    g   ← sub-gradient of ℓ at the scores Σ_j α_j k(z_j, x)
    W   ← (1 − η_t λ) W
    if g ≠ 0:  add the vector x with coefficients −η_t s g;  if there are more than B vectors, W ← W − Δ_t
    W   ← W min(1, U/‖W‖)                                     (if there is a radius U)

Passive steps (ILK and PA) compute g after W has decayed. See :mod:`.steps` for η_t and U, and :mod:`.policy` for Δ_t.

Theorem 1: with ‖Φ‖ ≤ 1 and E_t = Δ_t/η_t, ‖E_t‖ ≤ 1, the mean instantaneous objective of Pegasos steps is within
(λU + 2)²(ln N + 1)/(2λN) + 2U Ē of the optimum's, Ē = Σ ‖E_t‖/N. The solver records Ē over steps and over
maintenances.

Cost of a step: k kernel values for k vectors, O(kd) or O(k nnz), and nothing else for examples outside of the margin.
Vectors are stored feature by feature (:mod:`widemargin.core.kernels.expansion`). W is stored as a scalar times
coefficients, so decay costs O(1).

What differs from the paper: the paper stores two-class coefficients as Crammer-Singer pairs, which is the one-score
problem here with λ/2. Scores are computed in the precision of the vectors, float32 by default.

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...core.borrowing import borrow
from ...core.compiling.dispatch import compiled, generic, inlined
from ...core.intrinsics.hints import use_wide_registers
from ...core.kernels.expansion import (
    FIRST_ROWS,
    TILES,
    as_data,
    from_product,
    is_sparse,
    lacks,
    metric_of,
    n_features,
    own_sum,
    padded,
    recentre,
    row_sums,
    rows_in_use,
    score_rows,
    smallest,
    wants_rows,
    whole_rows,
    with_rows,
    write_row,
)
from ...core.kernels.kernels import finish, names_of, value_of
from ...core.kernels.matrix import KernelMatrix
from ...core.kernels.measures import Inner, Squared
from ...core.kernels.tiles import LANES
from ...core.losses.losses import Hinge, Single, output_count, slopes, total_value
from ...core.losses.step_sizes import step_size
from ...core.rows.rows import CSRRows, DenseRows, dtype_of, row_size, shape, some_rows
from ...core.sampling.visits import shuffle
from ...core.threads.interrupts import PROMPT, safe_place
from ...files import savable
from ...history import Counters
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...schemas import COUNT, Array, Whole, Within
from .. import protocol
from ..protocol import Solver
from .batches import Batch, OneByOne, multiply, sums_of
from .merge import Merge
from .policy import (
    AMOUNTS,
    TALLY,
    Budget,
    Machine,
    Policy,
    Scratch,
    columns,
    in_float64,
    maintain,
    no_budget,
    remove,
    with_room,
)
from .steps import STEPS, PegasosStep, Schedule, Step

FIRST_VECTORS = 1023  # room at first, doubled as vectors come, unless max_bytes sets the room
SMALLEST_SCALE = 1e-9  # below: coefficients are multiplied by their scale, which becomes 1
CANCELS = 0.05  # largest γ‖z‖²√ε for which squared distances may be computed from norms and products
BEYOND = 1e17  # coefficients or γ above need float64: squares of coefficients, or γ times a distance, could overflow


# ---------------------------------------------------------------- the loop


class Examples(NamedTuple):
    """The examples of a problem; ``weight`` is empty where all weights are 1."""

    X: Any
    y: np.ndarray
    weight: np.ndarray
    target: Any


@inlined
def look(examples, order, first, count, batch, machine):
    """work.g, work.losses ← slopes and losses of the examples of a step, in place.

    Returns (whether any slope is not zero, the size of the last row).
    """
    use_wide_registers()
    X, y, weight, target = examples.X, examples.y, examples.weight, examples.target
    A, amounts, tally, work = machine.expansion.A, machine.amounts, machine.tally, machine.work
    z, k, scale, m = work.z, work.k, amounts.scale, padded(tally.vectors)
    outputs, together = output_count(target, z), work.losses.size
    multiply(batch, X, order, first, count, machine)
    tally.evals += tally.vectors * count
    tally.visits += count
    violated, own = False, 0.0
    for r in range(count):
        i, g = order[first + r], work.g[r]
        own = sums_of(batch, X, i, r, m, machine)
        finish(machine.metric.kernel, work.sums, m, k)
        tally.reads += row_size(X, i)
        for c in range(outputs):
            row, f = A[c], A.dtype.type(0)
            for j in range(m):
                f += row[j] * k[j]
            z[c] = scale * f
        importance = weight[i] if weight.size else 1.0
        work.losses[r] = importance * total_value(target, z, y[i])
        amounts.loss += work.losses[r]
        slopes(target, z, y[i], g)
        for c in range(outputs):
            g[c] *= importance / together  # a short batch is a short step
            violated |= g[c] != 0.0
    return violated, own


@inlined
def decay(rule, machine):
    """W ← (1 − η_t λ) W, in place; returns η_t."""
    amounts, A, t = machine.amounts, machine.expansion.A, machine.tally.steps
    eta, scale, power = step_size(rule.step, t), amounts.scale, rule.step.power
    if power == 1.0:
        scale = 1.0 / t  # the product of all 1 − 1/t, without its roundings: equal coefficients stay equal
    elif power == 0.5:
        scale *= 1.0 - eta * rule.lam
    if scale < SMALLEST_SCALE and power != 1.0:
        m = padded(machine.tally.vectors)
        for c in range(A.shape[0]):
            for j in range(m):
                A[c, j] *= scale
        for j in range(m):
            machine.expansion.norm2[j] *= scale * scale
        amounts.norm2 *= scale * scale
        scale = 1.0
    amounts.scale = scale
    return eta


@inlined
def record(lost, step, machine):
    """Count a maintenance that lost ‖Δ‖² in units of the scale, in place."""
    machine.tally.maintained += 1
    machine.amounts.lost += np.sqrt(lost) * machine.amounts.scale / step


@generic
def make_room(X, i, eta, machine):
    """Remove the smallest vectors, in place, until the features of row i fit; returns whether any had to go."""


@make_room.case(DenseRows)
def make_no_room(X, i, eta, machine):
    return False


@make_room.case(CSRRows)
def make_room_for_features(X, i, eta, machine):
    missing = lacks(X, i, machine.expansion.vectors)
    changed = missing > 0
    while missing > 0 and machine.tally.vectors > 0:
        j = smallest(machine.expansion, machine.tally.vectors)
        record(remove(machine, j, False), eta, machine)
        missing = lacks(X, i, machine.expansion.vectors)
    return changed


@inlined
def append(X, i, own, self_k, g, step, machine):
    """Add row i with coefficients −step · g, in place; work.k is its kernel row, and gets its own kernel value."""
    use_wide_registers()
    expansion, amounts, tally, k = machine.expansion, machine.amounts, machine.tally, machine.work.k
    A, count, scale = expansion.A, tally.vectors, amounts.scale
    tally.updates += 1
    added = 0.0
    for c in range(A.shape[0]):
        a = -step * g[c] / scale
        A[c, count] = a
        added += a * a
    if machine.track:
        amounts.norm2 += added * self_k
        for c in range(A.shape[0]):
            f, row = 0.0, A[c]
            for j in range(count):
                f += np.float64(row[j]) * np.float64(k[j])
            amounts.norm2 += 2.0 * row[count] * f
    write_row(X, i, machine.work.x, expansion.vectors, count)
    expansion.vectors.size[count], expansion.norm2[count] = own, added * self_k
    expansion.age[count] = tally.updates
    tally.vectors = count + 1
    k[count] = self_k
    machine.work.sums[count] = 0


@inlined
def update(examples, i, r, own, eta, rule, policy, machine):
    """Make the step of row i, example r of the step, whose size is ``own``, and keep the budget, in place."""
    X, metric, work, tally, g = examples.X, machine.metric, machine.work, machine.tally, machine.work.g[r]
    slope2, step = 0.0, eta
    for c in range(machine.expansion.A.shape[0]):
        slope2 += g[c] * g[c]
    if slope2 == 0.0:
        return
    made_room = make_room(X, i, eta, machine)
    if made_room or work.losses.size > 1:  # vectors may have changed since the scores
        own = row_sums(X, i, metric, machine.expansion.vectors, padded(tally.vectors), work.x, work.sums)
        finish(metric.kernel, work.sums, padded(tally.vectors), work.k)
        tally.evals += tally.vectors
    self_k = value_of(metric.kernel, own_sum(metric.measure, own))
    if rule.passive:
        room = slope2 * self_k
        if room == 0.0:  # Φ(x) = 0
            return
        step = min(eta, work.losses[r] / room)
    append(X, i, own, self_k, g, step, machine)
    lost = maintain(policy, machine)
    if lost >= 0.0:
        record(lost, step, machine)


@compiled
def learn(examples, order, rule, batch, policy, machine, most_rows):
    """Algorithm 1 over the examples in order; changes the machine in place; returns how many it saw.

    Ends early where vectors need more columns, or vectors of sparse data more rows than there are, up to ``most_rows``
    rows. With all rows taken, the smallest vectors leave until a new one fits.
    """
    use_wide_registers()
    examples, order, batch = borrow(examples), borrow(order), borrow(batch)
    policy, machine = borrow(policy), borrow(machine)
    expansion, amounts, tally = machine.expansion, machine.amounts, machine.tally
    together = machine.work.losses.size
    for first in range(0, order.size, together):
        count = min(together, order.size - first)
        if min(machine.limit, tally.vectors + count) >= expansion.A.shape[1]:
            return first
        if wants_rows(examples.X, order, first, count, expansion.vectors, most_rows):
            return first
        tally.steps += 1
        # passive steps use the slopes after decay, the others the slopes before
        eta = decay(rule, machine) if rule.passive else 0.0
        violated, own = look(examples, order, first, count, batch, machine)
        if not rule.passive:
            eta = decay(rule, machine)
        if not violated:
            continue
        for r in range(count):
            update(examples, order[first + r], r, own, eta, rule, policy, machine)
        if machine.track:
            norm = amounts.scale * np.sqrt(max(amounts.norm2, 0.0))
            if norm > rule.radius:
                amounts.scale *= rule.radius / norm
    return order.size


# ---------------------------------------------------------------- state and solver


def _law(state: Any, sizes: dict[str, int]) -> str | None:
    count, capacity, budget = int(state.counts.view(TALLY)[0].vectors), sizes["capacity"], state.budget
    if not 0 <= count < capacity:
        return f"{count} vectors are held where there is room for {capacity - 1}"
    if budget.vectors.Z[:, count:].any() or budget.A[:, count:].any():
        return f"there is something behind the {count} vectors held"
    known = state.order.size or math.inf  # examples in the order given have no order of visits
    return None if state.position <= known else f"position is {state.position}, of {known} visits"


@savable(
    "BudgetedSGD.State", budget=Within(Budget), values=Array(5), counts=Array(8, dtype=np.int64, low=0),
    seed=Whole(0, 2**63), order=Array((0, "n"), dtype=np.int64, low=0, high="n-1"), position=COUNT, law=_law,
)  # fmt: skip
@dataclass
class BudgetedState(protocol.State):
    """All that a run knows.

    Attributes
    ----------
    budget : the vectors with their coefficients, and the matrices of the policy
    values, counts : the numbers of the loop, named by ``amounts`` and ``tally``
    order, position : the order of visits of this epoch, and how many were made
    """

    budget: Budget
    values: np.ndarray
    counts: np.ndarray
    seed: int
    order: np.ndarray
    position: int
    rng: np.random.Generator
    counters: Counters = field(default_factory=Counters)

    @property
    def amounts(self) -> Any:
        """A view of ``values``, with the names of AMOUNTS."""
        return self.values.view(AMOUNTS)[0]

    @property
    def tally(self) -> Any:
        """A view of ``counts``, with the names of TALLY."""
        return self.counts.view(TALLY)[0]

    @property
    def support(self) -> int:
        """The number of vectors held."""
        return int(self.tally.vectors)

    @property
    def model_bytes(self) -> int:
        """Bytes of the vectors and coefficients in use."""
        vectors, A = self.budget.vectors, self.budget.A
        return self.support * (rows_in_use(vectors) + A.shape[0]) * A.itemsize

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays, used or not."""
        return sum(array.nbytes for array in (*self.budget.vectors, *self.budget[1:]))

    def vectors(self, dtype: Any = np.float64) -> DenseRows | CSRRows:
        """The vectors as rows of data, in the layout of the data."""
        return as_data(self.budget.vectors, self.support, dtype)

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients with their scale (outputs × vectors), in float64."""
        return self.amounts.scale * self.budget.A[:, : self.support].astype(np.float64)

    def machine(self, kernel: Any, limit: int, track: bool, batch_size: int = 1) -> Machine:
        """The state as compiled code sees it, with working space for steps of so many examples."""
        Z, outputs = self.budget.vectors.Z, self.budget.A.shape[0]
        (d, capacity), dtype = Z.shape, Z.dtype
        work = Scratch(
            np.zeros(d, dtype), np.zeros(capacity, dtype), np.zeros(capacity, dtype), np.zeros(outputs),
            np.zeros((batch_size, outputs)), np.zeros(batch_size),
        )  # fmt: skip
        return Machine(metric_of(kernel), self.budget.expansion, self.amounts, self.tally, work, limit, track)

    def with_classes(self, places: np.ndarray, outputs: int, share: float, policy: Policy) -> BudgetedState:
        """The same model with more classes, among which the old classes have these places.

        One score f becomes (−share f, share f): share is 1 for one-vs-rest, and ½ where the difference is the margin.
        """
        budget, values = self.budget, self.values.copy()
        A, norm2 = budget.A, budget.norm2
        if len(A) == 1:
            A, norm2 = np.concatenate([-share * A, share * A]), norm2 * (2.0 * share**2)
            values.view(AMOUNTS)[0].norm2 *= 2.0 * share**2
            budget = policy.divide(budget)
        wider = np.zeros((outputs, A.shape[1]), A.dtype)
        wider[places] = A
        budget = budget._replace(A=wider, norm2=norm2.copy(), classes=places[budget.classes])
        return replace(self, budget=budget, values=values)


def new_state(budget: Budget, seed: int, rng: np.random.Generator) -> BudgetedState:
    """The state before the first step."""
    state = BudgetedState(budget, np.zeros(5), np.zeros(8, np.int64), seed, np.empty(0, np.int64), 0, rng)
    state.amounts.scale = 1.0
    return state


@savable()
@dataclass
class BudgetedSGD(Solver):
    """Stochastic gradient descent for kernel machines on a budget of support vectors.

    It is the method of :class:`BudgetedSVC` and :class:`BudgetedSVR`, which have its options as
    parameters of their own; use it directly to run it on a problem.

    Parameters
    ----------
    budget : int, default=500
        The largest number of vectors.
    step : step rule, default=PegasosStep()
        The sizes of the steps: PegasosStep(), NormaStep(), ImplicitStep(), MarginPerceptronStep() or
        PassiveAggressiveStep().
    maintenance : Policy, default=Merge()
        What is done when there is one vector too many: Merge(), Project() or another policy. Merge
        takes the Gaussian kernel only.
    sampling : {"permutation", "fixed"}, default="permutation"
        The order of visits: a new one in each epoch, or always the order given.
    precision : {"auto", "float32", "float64"}, default="auto"
        The precision of vectors, coefficients and kernel values. "auto" is float64 for projection and
        where a kernel of float64 data is no function of distances, else float32.
    batch_size : int, default=1
        The number of examples of a step, which is made with the mean of their sub-gradients.
    max_bytes : float, default=inf
        The largest memory of the vectors of sparse data. When it is full, the smallest vectors leave
        until a new one fits.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import BudgetedSGD
    >>> from widemargin.core.kernels.kernels import RBF
    >>> from widemargin.core.losses.losses import Hinge, Single
    >>> from widemargin.core.rows.rows import as_rows
    >>> from widemargin.problems.kernel import KernelProblem
    >>> from widemargin.running import run
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    >>> problem = KernelProblem(RBF(2.0), as_rows(X), y, Single(Hinge()), 1e-3, intercept="none")
    >>> outcome = run(BudgetedSGD(budget=20), problem, rng=rng, max_epochs=1)
    >>> outcome.state.support <= 20
    True
    """

    budget: int = 500
    step: Step = field(default_factory=PegasosStep)
    maintenance: Policy = field(default_factory=Merge)
    sampling: str = "permutation"
    precision: str = "auto"
    batch_size: int = 1
    max_bytes: float = math.inf

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        kernel = problem.kernel
        if self.budget < 1:
            raise ValueError(f"budget must be ≥ 1, got {self.budget}")
        if not kernel.of_rows:
            raise ValueError(
                f"BudgetedSGD computes kernels of vectors, and {type(kernel).__name__} is none of "
                f"{', '.join(map(repr, names_of('of_rows')))}: choose one of them"
            )
        if not isinstance(self.maintenance, Policy):
            raise TypeError(f"maintenance must be a policy such as Merge(), got {self.maintenance!r}")
        rule = self._rule(problem)
        self.maintenance.check(self, problem, rule)
        if self.batch_size > 1 and rule.passive:
            raise ValueError(f"{type(self.step).__name__} settles one example at a time: use batch_size=1")
        if isinstance(problem.target, Single) and isinstance(problem.target.loss, Hinge):
            wrong = problem.y[np.abs(problem.y) != 1.0]
            if wrong.size:
                raise ValueError(f"labels of the hinge are −1 and 1, got {wrong[0]}: recode y")
        if problem.intercept != "none":
            raise ValueError(f"BudgetedSGD has no intercept, got {problem.intercept!r}: use intercept='none'")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be ≥ 1, got {self.batch_size}")
        if self.batch_size > 1 and kernel.measure not in from_product.table:
            raise ValueError(
                f"batches come from a matrix product, and the {type(kernel).__name__} kernel has none: use batch_size=1"
            )
        if self.sampling not in ("permutation", "fixed"):
            raise ValueError(f"sampling must be 'permutation' or 'fixed', got {self.sampling!r}")
        if self.precision not in ("auto", "float32", "float64"):
            raise ValueError(f"precision must be 'auto', 'float32' or 'float64', got {self.precision!r}")

    def sizes(self, problem: KernelProblem) -> dict[str, int]:
        """The sizes of the schema, with the features of the rows."""
        return {**super().sizes(problem), "d": shape(problem.X)[1]}

    def _rule(self, problem: KernelProblem) -> Schedule:
        if not isinstance(self.step, Step):
            raise TypeError(f"step must be one of {', '.join(c.__name__ for c in STEPS.values())}, got {self.step!r}")
        return self.step.schedule(problem.lam)

    def dtype(self, problem: KernelProblem) -> np.dtype:
        """The dtype of the buffer."""
        if self.precision != "auto":
            return np.dtype(self.precision)
        if self.maintenance.inverts or self.is_beyond(problem):
            return np.dtype(np.float64)
        X, kernel = problem.X, problem.kernel
        if kernel.measure is Squared and isinstance(X, CSRRows) and problem.n:
            # ‖x − z‖² of sparse rows is computed from sizes, without a centre: the first row shows how much cancels
            size = float(np.sum(np.square(X.data[X.indptr[0] : X.indptr[1]], dtype=np.float64)))
            if kernel.gamma * size * math.sqrt(np.finfo(np.float32).eps) > CANCELS:
                return np.dtype(np.float64)
        return np.dtype(np.float32) if kernel.of_distances else dtype_of(X)

    def is_beyond(self, problem: KernelProblem) -> bool:
        """Whether squares of coefficients, or γ times a distance, could overflow float32."""
        size = self._rule(problem).step.scale  # infinite where the loss alone limits a step
        longest = float(problem.sample_weight.max(initial=1.0)) * max(
            1.0 / problem.lam, size if size < math.inf else 0.0
        )
        return max(longest, getattr(problem.kernel, "gamma", 1.0)) > BEYOND

    def _bytes(self, d: int, outputs: int, itemsize: int, sparse: bool) -> tuple[float, float, float]:
        """(a, b, c): arrays for n vectors, with the fewest rows, take a + b n + c n² bytes."""
        rows = d if not sparse else whole_rows(d + 1 if self.maintenance.places(outputs) else min(d + 1, FIRST_ROWS))
        fixed = 16 + (4 * d + 12 * rows if sparse else 8 * d)
        linear = (rows + outputs + 2) * itemsize + 8
        places = self.maintenance.places(outputs)
        return fixed, linear + (8 * places if places > 1 else 0), 16 * places * places

    def within(self, n_bytes: float, d: int, outputs: int, itemsize: int, sparse: bool) -> BudgetedSGD:
        """The same solver with the largest budget, up to its own, whose arrays take at most n_bytes."""
        fixed, linear, square = self._bytes(d, outputs, 8 if self.maintenance.places(outputs) else itemsize, sparse)
        left = max(n_bytes - fixed, 0.0)
        capacity = left / linear if not square else (math.sqrt(linear**2 + 4 * square * left) - linear) / (2 * square)
        lanes = int(capacity) // LANES
        budget = (lanes - (lanes + 1) % 2) * LANES - 1  # an odd number of registers, as in columns()
        if budget < 2:
            least = math.ceil(fixed + (linear + square * LANES) * LANES)
            raise ValueError(
                f"max_bytes={n_bytes:g} is too little for the fewest vectors there is memory for, {LANES - 1} of {d} "
                f"features: set it to {least} or more"
            )
        return replace(self, budget=min(self.budget, budget), max_bytes=float(n_bytes))

    def _most_rows(self, state: BudgetedState) -> int:
        """Rows of Z that fit into max_bytes; at most one for each feature and one of zeros."""
        vectors, A = state.budget.vectors, state.budget.A
        all_rows = whole_rows(n_features(vectors) + 1)
        if not is_sparse(vectors) or state.budget.K.size or math.isinf(self.max_bytes):
            return all_rows
        capacity, fixed = A.shape[1], 16 + 4 * n_features(vectors)
        left = self.max_bytes - fixed - capacity * ((A.shape[0] + 2) * A.itemsize + 8)
        return max(min(all_rows, int(left / (capacity * A.itemsize + 12)) // 4 * 4), vectors.Z.shape[0])

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> BudgetedState:
        """The state without vectors; the first row is the centre of dense vectors until vectors come."""
        self.check(problem)
        capacity = columns(self.budget if math.isfinite(self.max_bytes) else min(self.budget, FIRST_VECTORS))
        d, sparse = shape(problem.X)[1], isinstance(problem.X, CSRRows)
        budget = no_budget(self.maintenance, d, problem.n_outputs, capacity, self.dtype(problem), sparse)
        if not sparse and problem.kernel.of_distances and problem.n:
            budget.vectors.centre[:] = problem.X.values[0]
        state = new_state(budget, int(rng.integers(2**62)), rng)
        self.bind(problem, state)
        return state

    def bind(self, problem: KernelProblem, state: BudgetedState, in_order: bool = True) -> None:
        """Point the state at the examples of a problem; the model stays."""
        self.check(problem)
        A, sparse, policy = state.budget.A, isinstance(problem.X, CSRRows), self.maintenance
        expected = (shape(problem.X)[1], problem.n_outputs)
        got = (n_features(state.budget.vectors), A.shape[0])
        if expected != got:
            raise ValueError(f"the state is of {got} features and outputs, the problem of {expected}")
        if sparse != is_sparse(state.budget.vectors):
            raise ValueError(f"the state is of {'dense' if sparse else 'sparse'} rows, the problem is not: convert it")
        if sparse and problem.n:
            most, widest = self._most_rows(state), int(np.diff(problem.X.indptr).max())
            if widest >= most:
                raise ValueError(
                    f"max_bytes={self.max_bytes:g} has room for vectors of {most - 1} features, and a row has "
                    f"{widest}: raise it, or lower budget"
                )
        places = policy.places(A.shape[0])
        needs = places > 0, policy.inverts, places > 1
        if needs != tuple(array.size > 0 for array in (state.budget.K, state.budget.inverse, state.budget.classes)):
            raise ValueError(
                "states of projection, of projection with span='class' and of other maintenance cannot go on as each "
                "other: start anew"
            )
        if state.support > self.budget:
            raise ValueError(
                f"the model has {state.support} vectors and budget is {self.budget}: a running model does not shrink: "
                "start anew"
            )
        if (
            A.dtype == np.float32
            and self.precision == "auto"
            and math.isinf(self.max_bytes)
            and self.is_beyond(problem)
        ):
            state.drop_workspace()  # later examples may weigh more than those for which the precision was chosen
            state.budget = in_float64(state.budget)
        state.order, state.position = np.empty(0, np.int64), 0

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """The number of batches that hold all examples."""
        return -(-problem.n // self.batch_size)

    def advance(self, problem: KernelProblem, state: BudgetedState, n_steps: int) -> int:
        """Take n_steps steps, in place; returns how many were taken."""
        begun = int(state.tally.steps)
        while True:
            # vectors are centred anew whenever the number of steps has doubled
            taken = int(state.tally.steps)
            steps = min(n_steps - (taken - begun), (1 << taken.bit_length()) - taken)
            order = self._next_visits(problem, state, steps * self.batch_size)
            self._learn(problem, state, order)
            taken = int(state.tally.steps)
            if order.size and taken & (taken - 1) == 0:
                recentre(problem.kernel, state.budget.vectors, state.support)
            if taken - begun >= n_steps:
                break
        tally = state.tally
        counts = (tally.steps, tally.visits, tally.updates, tally.reads, tally.evals, tally.evals)
        state.counters = Counters(*map(int, counts))
        return taken - begun

    def _learn(self, problem: KernelProblem, state: BudgetedState, order: np.ndarray) -> None:
        """Take steps on the examples in order, in place, and make room for vectors and their features."""
        examples = Examples(problem.X, problem.y, problem.sample_weight, problem.target)
        rule, most_rows, seen = self._rule(problem), self._most_rows(state), 0
        track = math.isfinite(rule.radius) or self.maintenance.follows_norm
        while True:
            machine = state.machine(problem.kernel, self.budget, track, self.batch_size)
            policy, batch = self.maintenance.prepare(state.budget, state.seed), self._batch(problem, state)
            seen += learn(examples, order[seen:], rule, batch, policy, machine, most_rows)
            if seen == order.size:
                break
            if min(self.budget, state.support + self.batch_size) >= state.budget.A.shape[1]:
                state.budget = with_room(state.budget, min(self.budget, 2 * state.support + self.batch_size))
                continue
            vectors = state.budget.vectors
            needed = self.batch_size * int(np.diff(problem.X.indptr).max())
            rows = whole_rows(len(vectors.Z) + max(len(vectors.Z) // 2, needed))
            state.budget = state.budget._replace(vectors=with_rows(vectors, min(rows, most_rows)))

    def _batch(self, problem: KernelProblem, state: BudgetedState) -> OneByOne | Batch:
        if self.batch_size == 1:
            return OneByOne()
        (d, capacity), dtype, most = state.budget.vectors.Z.shape, state.budget.A.dtype, math.inf
        if problem.kernel.measure is Squared:
            most = CANCELS / max(problem.kernel.gamma * math.sqrt(np.finfo(dtype).eps), 1e-300)
        k = self.batch_size
        return Batch(most, np.zeros((k, d), dtype), np.zeros(k, dtype), np.zeros((k, capacity), dtype))

    def _next_visits(self, problem: KernelProblem, state: BudgetedState, most: int) -> np.ndarray:
        """The next examples: at most ``most``, and at most to the end of the epoch, where a batch may be short."""
        n = problem.n
        if most == 0:
            return np.empty(0, np.int64)
        if state.position == n:
            state.position, state.order = 0, np.empty(0, np.int64)
        first, last = state.position, min(state.position + most, n)
        if self.sampling == "fixed":
            visits = np.arange(first, last)
        else:
            if state.order.size != n:
                state.order = np.arange(n)
                shuffle(state.order, state.rng)
            visits = state.order[first:last]
        state.position = last
        return visits

    # -- output

    def evaluate(
        self, problem: KernelProblem, state: BudgetedState, model: KernelModel | None = None
    ) -> dict[str, float]:
        """The columns of a checkpoint.

        ``objective`` is λ/2 ‖W‖² plus the mean loss of examples at the time of their visits: an estimate without
        further kernel values. ``degradation`` is the mean of ‖Δ‖/η over maintenances, ``degradation_per_step`` (Ē of
        Theorem 1) over all steps.
        """
        tally, amounts = state.tally, state.amounts
        steps, maintained = max(int(tally.steps), 1), int(tally.maintained)
        visits = max(int(tally.visits), 1)
        return {
            "objective": 0.5 * problem.lam * self.norm2(problem, state) + amounts.loss / visits,
            "degradation": amounts.lost / max(maintained, 1),
            "degradation_per_step": amounts.lost / steps,
            "maintenances": float(maintained),
            "support_vectors": float(state.support),
            "model_bytes": float(state.model_bytes),
        }

    def certificate(self, problem: KernelProblem, state: BudgetedState) -> None:
        """None: the objective is only estimated, and there is no dual point."""
        return None

    def norm2(self, problem: KernelProblem, state: BudgetedState) -> float:
        """The squared norm ‖W‖², computed from all pairs of vectors."""
        kernel, count, coefficients = problem.kernel, state.support, state.coefficients
        if kernel.measure in from_product.table:  # nothing to compile
            V = state.budget.vectors.Z[:, :count].astype(np.float64)
            products = V.T @ V
            size = np.diag(products)
            K = value_of(kernel, from_product(kernel.measure(), size[:, None], size, products))
        else:
            K = KernelMatrix(kernel, state.vectors()).block(np.arange(count))
        return float(np.sum((coefficients @ K) * coefficients))

    def model(self, problem: KernelProblem, state: BudgetedState) -> KernelModel:
        """A finished copy; its vectors are rows of data."""
        return KernelModel(
            problem.kernel, np.arange(state.support), state.vectors(dtype_of(problem.X)), state.coefficients,
            np.zeros(problem.n_outputs), 0.0,
        )  # fmt: skip


def scores(kernel: Any, X: Any, state: BudgetedState) -> np.ndarray:
    """The scores of rows X, in the layout of the state, of shape (n, n_outputs)."""
    vectors, A, count, metric = state.budget.vectors, state.budget.A, state.support, metric_of(kernel)
    out, V = np.empty((shape(X)[0], A.shape[0])), np.empty((0, 0), A.dtype)
    if isinstance(X, DenseRows):
        V = np.ascontiguousarray(vectors.Z[:, :count].T)
    if kernel.measure is Squared and V.size:
        size = vectors.size[:count]
        if kernel.gamma * float(size.max()) * math.sqrt(np.finfo(V.dtype).eps) <= CANCELS:
            metric = metric._replace(measure=Inner())
            V = np.column_stack([-2.0 * V, np.ones_like(size), size]).astype(V.dtype)
    tile = TILES * LANES
    step = tile * max(1, PROMPT // (tile * max(1, count) * (16 + vectors.Z.shape[0])))
    for first in range(0, len(out), step):
        safe_place()
        part = some_rows(X, first, min(first + step, len(out)))
        score_rows(part, metric, V, state.budget.expansion, count, state.amounts.scale, out[first : first + step])
    return out
