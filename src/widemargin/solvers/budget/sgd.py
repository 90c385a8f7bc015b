"""Budgeted SGD: kernel machines that never hold more than B support vectors.

The problem is λ/2 ‖W‖² + (1/n) Σ sᵢ ℓ(Wᵀ Φ(xᵢ), yᵢ) without intercept, for one score (hinge, ε-insensitive) or one per
class (the joint hinge of Crammer and Singer, or a hinge per class against the rest), with W = Σ_j Φ(z_j) α_jᵀ over
at most B vectors z_j with rows α_j of coefficients. Step t, on the example (x, y) (Algorithm 1 of the paper)::

    g   ← sub-gradient of ℓ at the scores Σ_j α_j k(z_j, x)
    W   ← (1 − η_t λ) W
    if g ≠ 0:  add the vector x with coefficients −η_t s g;  if there are more than B vectors, W ← W − Δ_t
    W   ← W min(1, U/‖W‖)                                     (where there is a radius U)

Passive steps (of ILK and PA) take g after W has decayed. See :mod:`.steps` for η_t and U, and :mod:`.policy` for the
policies that make Δ_t.

Theorem 1: with ‖Φ‖ ≤ 1 and E_t = Δ_t/η_t, ‖E_t‖ ≤ 1, the mean instantaneous objective of Pegasos steps is within
(λU + 2)²(ln N + 1)/(2λN) + 2U Ē of the optimum's, Ē = Σ ‖E_t‖/N. The solver records Ē over steps and over
maintenances.

Deviations. The paper keeps two-class coefficients as Crammer-Singer pairs, which is the one-score problem here with
λ/2. Scores are computed in the precision of the buffer, float32 by default.

Cost of a step: k kernel values for k vectors, O(kd) or O(k nnz), and nothing else for examples that lie outside of the
margin. Vectors are kept feature by feature (:mod:`widemargin.core.expansion`). W is kept as a scalar times
coefficients, so decay costs O(1).

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...core.borrowing import borrow
from ...core.dispatch import compiled, generic, inlined, use_wide_registers
from ...core.expansion import (
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
from ...core.interrupts import PROMPT, safe_place
from ...core.kernel_matrix import KernelMatrix
from ...core.kernels import finish, names_of, value_of
from ...core.losses import Hinge, Single, output_count, slopes, total_value
from ...core.measures import Inner, Squared
from ...core.rows import CSRRows, DenseRows, dtype_of, row_size, shape, some_rows
from ...core.step_sizes import step_size
from ...core.tiles import LANES
from ...core.visits import shuffle
from ...files import savable
from ...history import Counters
from ...models import KernelModel
from ...problems.kernel import KernelProblem
from ...schemas import Array, Whole, Within
from .. import protocol
from ..protocol import Solver
from .batches import Batch, OneByOne, again, examples_per_step, multiply, sums_of
from .merge import Merge
from .policy import (
    AMOUNTS,
    TALLY,
    Budget,
    Machine,
    Policy,
    Scratch,
    columns,
    maintain,
    no_budget,
    remove,
    with_room,
)
from .steps import STEPS, PegasosStep, Schedule, Step

#: Vectors there is room for at first; more as they come, unless max_bytes sets the room.
FIRST_VECTORS = 1023
#: Coefficients are brought to scale 1 when their scale has become this small.
SMALLEST_SCALE = 1e-9
#: γ‖z‖²√ε up to which squared distances may be made of norms and products when rows are scored (see core.kernels).
CANCELS = 0.05
#: Coefficients and γ above which the buffer is float64: squares of coefficients, or γ times a distance, may overflow.
BEYOND = 1e17


# ---------------------------------------------------------------- the loop


class Examples(NamedTuple):
    """What is learnt from; ``weight`` is of size 0 where all are 1."""

    X: Any
    y: np.ndarray
    weight: np.ndarray
    target: Any


@inlined
def look(examples, order, first, count, batch, machine):
    """work.g, work.losses ← slopes and losses of the examples of a step, in place.

    Returns whether any slope is not zero, and the size of the last row.
    """
    use_wide_registers()
    X, y, weight, target = examples.X, examples.y, examples.weight, examples.target
    A, amounts, tally, work = machine.expansion.A, machine.amounts, machine.tally, machine.work
    z, k, scale, m = work.z, work.k, amounts.scale, padded(tally.vectors)
    outputs, together = output_count(target, z), examples_per_step(batch)
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
    """Count a maintenance that lost ‖Δ‖², given without scales, in place."""
    machine.tally.maintained += 1
    machine.amounts.lost += np.sqrt(lost) * machine.amounts.scale / step


@generic
def make_room(X, i, eta, machine):
    """Remove the smallest vectors, in place, until the features of row i fit; returns whether there was too little."""


@make_room.case(DenseRows)
def _(X, i, eta, machine):
    return False


@make_room.case(CSRRows)
def _(X, i, eta, machine):
    missing = lacks(X, i, machine.expansion.vectors)
    changed = missing > 0
    while missing > 0 and machine.tally.vectors > 0:
        j = smallest(machine.expansion, machine.tally.vectors)
        record(remove(machine, j, False), eta, machine)
        missing = lacks(X, i, machine.expansion.vectors)
    return changed


@inlined
def append(X, i, own, self_k, g, step, machine):
    """Add row i with coefficients −step · g, in place; work.k is its kernel row and becomes that with itself."""
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
def update(examples, i, r, own, eta, rule, batch, policy, machine):
    """Make the step of example r of a batch, row i of the given size, and keep the budget, in place."""
    X, metric, work, tally, g = examples.X, machine.metric, machine.work, machine.tally, machine.work.g[r]
    slope2, step = 0.0, eta
    for c in range(machine.expansion.A.shape[0]):
        slope2 += g[c] * g[c]
    if slope2 == 0.0:
        return
    if again(batch, make_room(X, i, eta, machine)):
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

    It ends early where vectors need more columns than there are, or those of sparse data more rows, of at most
    ``most_rows``. With all of those taken, the smallest vectors leave until a new one fits.
    """
    use_wide_registers()
    examples, order, batch = borrow(examples), borrow(order), borrow(batch)
    policy, machine = borrow(policy), borrow(machine)
    expansion, amounts, tally = machine.expansion, machine.amounts, machine.tally
    together = examples_per_step(batch)
    for first in range(0, order.size, together):
        count = min(together, order.size - first)
        if min(machine.limit, tally.vectors + count) >= expansion.A.shape[1]:
            return first
        if wants_rows(examples.X, order, first, count, expansion.vectors, most_rows):
            return first
        tally.steps += 1
        # a passive step looks at what decay has left; the others' slopes are those before it
        eta = decay(rule, machine) if rule.passive else 0.0
        violated, own = look(examples, order, first, count, batch, machine)
        if not rule.passive:
            eta = decay(rule, machine)
        if not violated:
            continue
        for r in range(count):
            update(examples, order[first + r], r, own, eta, rule, batch, policy, machine)
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
    seed=Whole(0, 2**63), order=Array((0, "n"), dtype=np.int64, low=0, high="n-1"), position=Whole(0), law=_law,
)  # fmt: skip
@dataclass
class State(protocol.State):
    """Everything a run goes on from.

    Attributes
    ----------
    budget : Budget
    values, counts : the numbers of the loop, which ``amounts`` and ``tally`` name
    order, position : of the visits of this epoch
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
        """The record of ``values``: scale, norm2, loss, lost and the policy's own; it changes with them."""
        return self.values.view(AMOUNTS)[0]

    @property
    def tally(self) -> Any:
        """The record of ``counts``: steps, vectors, maintained, updates, evals, reads, the policy's own, visits."""
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
        """Bytes of all arrays, with what is not in use."""
        return sum(array.nbytes for array in (*self.budget.vectors, *self.budget[1:]))

    def vectors(self, dtype: Any = np.float64) -> DenseRows | CSRRows:
        """The vectors as rows where the data stands, in its layout."""
        return as_data(self.budget.vectors, self.support, dtype)

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients with their scale (outputs × vectors), in float64."""
        return self.amounts.scale * self.budget.A[:, : self.support].astype(np.float64)

    def machine(self, kernel: Any, limit: int, track: bool, batch_size: int = 1) -> Machine:
        """The state as compiled code sees it, with memory for steps of so many examples."""
        Z, outputs = self.budget.vectors.Z, self.budget.A.shape[0]
        (d, capacity), dtype = Z.shape, Z.dtype
        work = Scratch(
            np.zeros(d, dtype), np.zeros(capacity, dtype), np.zeros(capacity, dtype), np.zeros(outputs),
            np.zeros((batch_size, outputs)), np.zeros(batch_size),
        )  # fmt: skip
        return Machine(metric_of(kernel), self.budget.expansion, self.amounts, self.tally, work, limit, track)

    def with_classes(self, places: np.ndarray, outputs: int, share: float, policy: Policy) -> State:
        """The same model among more classes, of which the old ones have these places.

        One score f becomes (−share f, share f): 1 for margins against the rest, ½ where their difference is the margin.
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


def new_state(budget: Budget, seed: int, rng: np.random.Generator) -> State:
    """The state before the first step."""
    state = State(budget, np.zeros(5), np.zeros(8, np.int64), seed, np.empty(0, np.int64), 0, rng)
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
    >>> from widemargin.core.kernels import RBF
    >>> from widemargin.core.losses import Hinge, Single
    >>> from widemargin.core.rows import as_rows
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
        """With the features of the rows."""
        return {**super().sizes(problem), "d": shape(problem.X)[1]}

    def _rule(self, problem: KernelProblem) -> Schedule:
        if not isinstance(self.step, Step):
            raise TypeError(f"step must be one of {', '.join(c.__name__ for c in STEPS.values())}, got {self.step!r}")
        return self.step.schedule(problem.lam)

    def dtype(self, problem: KernelProblem) -> np.dtype:
        """The dtype of the buffer."""
        if self.precision != "auto":
            return np.dtype(self.precision)
        if self.maintenance.inverts:
            return np.dtype(np.float64)
        X, kernel = problem.X, problem.kernel
        longest = float(problem.sample_weight.max(initial=1.0)) / problem.lam  # of Pegasos steps
        if max(longest, getattr(kernel, "gamma", 1.0)) > BEYOND:
            return np.dtype(np.float64)
        if kernel.measure is Squared and isinstance(X, CSRRows) and problem.n:
            # ‖x − z‖² of sparse rows is made of sizes, and cannot be centred: the first row says how much cancels
            size = float(np.sum(np.square(X.data[X.indptr[0] : X.indptr[1]], dtype=np.float64)))
            if kernel.gamma * size * math.sqrt(np.finfo(np.float32).eps) > CANCELS:
                return np.dtype(np.float64)
        return np.dtype(np.float32) if kernel.of_distances else dtype_of(X)

    def _bytes(self, d: int, outputs: int, itemsize: int, sparse: bool) -> tuple[float, float, float]:
        """(a, b, c): buffers for a capacity of n vectors, with the fewest rows, hold a + b n + c n² bytes."""
        rows = d if not sparse else whole_rows(d + 1 if self.maintenance.places(outputs) else min(d + 1, FIRST_ROWS))
        fixed = 16 + (4 * d + 12 * rows if sparse else 8 * d)
        linear = (rows + outputs + 2) * itemsize + 8
        places = self.maintenance.places(outputs)
        return fixed, linear + (8 * places if places > 1 else 0), 16 * places * places

    def within(self, n_bytes: float, d: int, outputs: int, itemsize: int, sparse: bool) -> BudgetedSGD:
        """The same with the largest budget up to this one whose buffers stay within n_bytes, padding included."""
        fixed, linear, square = self._bytes(d, outputs, 8 if self.maintenance.places(outputs) else itemsize, sparse)
        left = max(n_bytes - fixed, 0.0)
        capacity = left / linear if not square else (math.sqrt(linear**2 + 4 * square * left) - linear) / (2 * square)
        lanes = int(capacity) // LANES
        budget = (lanes - (lanes + 1) % 2) * LANES - 1  # an odd number of registers, as init has it
        if budget < 2:
            least = math.ceil(fixed + (linear + square * LANES) * LANES)
            raise ValueError(
                f"max_bytes={n_bytes:g} is too little for the fewest vectors there is memory for, {LANES - 1} of {d} "
                f"features: set it to {least} or more"
            )
        return replace(self, budget=min(self.budget, budget), max_bytes=float(n_bytes))

    def _most_rows(self, state: State) -> int:
        """Rows of Z that max_bytes leave to sparse vectors; at most one for each feature and one of zeros."""
        vectors, A = state.budget.vectors, state.budget.A
        all_rows = whole_rows(n_features(vectors) + 1)
        if not is_sparse(vectors) or state.budget.K.size or math.isinf(self.max_bytes):
            return all_rows
        capacity, fixed = A.shape[1], 16 + 4 * n_features(vectors)
        left = self.max_bytes - fixed - capacity * ((A.shape[0] + 2) * A.itemsize + 8)
        return max(min(all_rows, int(left / (capacity * A.itemsize + 12)) // 4 * 4), vectors.Z.shape[0])

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> State:
        """No vectors; the centre of dense ones is the first row, until they say otherwise."""
        self.check(problem)
        capacity = columns(self.budget if math.isfinite(self.max_bytes) else min(self.budget, FIRST_VECTORS))
        d, sparse = shape(problem.X)[1], isinstance(problem.X, CSRRows)
        budget = no_budget(self.maintenance, d, problem.n_outputs, capacity, self.dtype(problem), sparse)
        if not sparse and problem.kernel.of_distances and problem.n:
            budget.vectors.centre[:] = problem.X.values[0]
        state = new_state(budget, int(rng.integers(2**62)), rng)
        self.bind(problem, state)
        return state

    def bind(self, problem: KernelProblem, state: State, in_order: bool = True) -> None:
        """Begin with the examples of a (new) problem, from the state as it is."""
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
        state.order, state.position = np.empty(0, np.int64), 0

    def steps_per_epoch(self, problem: KernelProblem) -> int:
        """One for each example, or as many batches as hold them all."""
        return -(-problem.n // self.batch_size)

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> int:
        """Take n_steps steps, in place, and return how many; advance(a) then advance(b) is advance(a + b)."""
        begun = int(state.tally.steps)
        while True:
            # vectors are centred whenever the number of steps has doubled
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
        evals = int(tally.evals)
        state.counters = Counters(
            int(tally.steps), int(tally.visits), int(tally.updates), int(tally.reads), evals, evals
        )  # fmt: skip
        return taken - begun

    def _learn(self, problem: KernelProblem, state: State, order: np.ndarray) -> None:
        """Steps on the examples in order, in place, with more room for vectors and their features as they need it."""
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

    def _batch(self, problem: KernelProblem, state: State) -> OneByOne | Batch:
        if self.batch_size == 1:
            return OneByOne()
        (d, capacity), dtype, most = state.budget.vectors.Z.shape, state.budget.A.dtype, math.inf
        if problem.kernel.measure is Squared:
            most = CANCELS / max(problem.kernel.gamma * math.sqrt(np.finfo(dtype).eps), 1e-300)
        k = self.batch_size
        return Batch(k, most, np.zeros((k, d), dtype), np.zeros(k, dtype), np.zeros((k, capacity), dtype))

    def _next_visits(self, problem: KernelProblem, state: State, most: int) -> np.ndarray:
        """The next examples, at most so many and at most to the end of the epoch, where a batch may be short."""
        n = problem.n
        if most == 0:
            return np.empty(0, np.int64)
        if state.position == n:
            state.position, state.order = 0, np.empty(0, np.int64)
        first, last = state.position, min(state.position + most, n)
        if self.sampling == "fixed":
            last = min(last, first + self.batch_size * max(65536 // self.batch_size, 1))
            visits = np.arange(first, last)
        else:
            if state.order.size != n:
                state.order = np.arange(n)
                shuffle(state.order, state.rng)
            visits = state.order[first:last]
        state.position = last
        return visits

    # -- output

    def evaluate(self, problem: KernelProblem, state: State, model: KernelModel | None = None) -> dict[str, float]:
        """What a checkpoint records.

        ``objective`` is λ/2 ‖W‖² plus the mean loss of the examples at the time of their visit: an estimate that costs
        nothing. ``degradation`` is the mean of ‖Δ‖/η over maintenances, ``degradation_per_step`` (Ē of Theorem 1) over
        all steps.
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

    def certificate(self, problem: KernelProblem, state: State) -> None:
        """None: the objective is only estimated, by losses at the time of visits, and no dual point comes with it."""
        return None

    def norm2(self, problem: KernelProblem, state: State) -> float:
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

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """A finished copy, whose vectors stand where the data does."""
        return KernelModel(
            problem.kernel, np.arange(state.support), state.vectors(dtype_of(problem.X)), state.coefficients,
            np.zeros(problem.n_outputs), 0.0,
        )  # fmt: skip


def scores(kernel: Any, X: Any, state: State) -> np.ndarray:
    """Scores of rows X (in the layout of the state), of shape (n, n_outputs), straight from the buffer of vectors."""
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
