"""Budgeted SGD: kernel machines that never hold more than B support vectors.

The problem is λ/2 ‖W‖² + (1/n) Σ sᵢ ℓ(Wᵀ Φ(xᵢ), yᵢ) without intercept, for one score (hinge, ε-insensitive) or one per
class (the joint hinge of Crammer and Singer, or a hinge per class against the rest), with W = Σ_j Φ(z_j) α_jᵀ over
at most B vectors z_j with rows α_j of coefficients. Step t, on the example (x, y) (Algorithm 1 of the paper)::

    g   ← sub-gradient of ℓ at the scores Σ_j α_j k(z_j, x)
    W   ← (1 − η_t λ) W
    if g ≠ 0:  add the vector x with coefficients −η_t s g;  if there are more than B vectors, W ← W − Δ_t
    W   ← W min(1, U/‖W‖)                                     (where there is a radius U)

=====================  =====  ==============  =====
step                   λ      η_t             U
=====================  =====  ==============  =====
PegasosStep            > 0    1/(λt)          –
NormaStep              > 0    η/√t            –
MarginPerceptronStep   0      η               U
PassiveAggressiveStep  0      min(C, ℓ/‖gΦ‖²) –
=====================  =====  ==============  =====

Maintenance, Δ_t, keeps the number of vectors: see :mod:`.maintenance` for the policies.

Theorem 1: with ‖Φ‖ ≤ 1 and E_t = Δ_t/η_t, ‖E_t‖ ≤ 1, the mean instantaneous objective of Pegasos steps is within
(λU + 2)²(ln N + 1)/(2λN) + 2U Ē of the optimum's, Ē = Σ ‖E_t‖/N. The solver records Ē over steps and over
maintenances.

Deviations. The paper keeps two-class coefficients as Crammer-Singer pairs, which is the one-score problem here with
λ/2. Scores are computed in the precision of the buffer, float32 by default.

Cost of a step: k kernel values for k vectors, O(kd) or O(k nnz), and nothing else for examples that lie outside of the
margin. Vectors are kept feature by feature (:mod:`widemargin.core.vectors`). W is kept as a scalar times coefficients,
so decay costs O(1).

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.dispatch import borrow, compiled, generic, use_wide_registers
from ..core.kernel_matrix import KernelMatrix
from ..core.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid, finish, value_of
from ..core.losses import Hinge, MulticlassHinge, Single, output_count, slopes, total_value
from ..core.measures import Inner
from ..core.rows import CSRRows, DenseRows, as_matrix, as_rows, borrowed, dtype_of, row_size, shape
from ..core.shuffling import shuffle
from ..core.tiles import LANES
from ..core.vectors import (
    FIRST_ROWS,
    Vectors,  # noqa: F401 (states in files name it)
    as_data,
    enlarged,
    from_product,
    gather,
    is_sparse,
    lacks,
    measures,
    n_features,
    no_vectors,
    own_sum,
    padded,
    recentre,
    row_sums,
    rows_in_use,
    score_rows,
    wants_rows,
    whole_rows,
    with_columns,
    with_rows,
    write_row,
)
from ..files import savable
from ..history import Counters
from ..models import KernelModel
from ..problem import KernelProblem
from ..running import Solver
from .maintenance import (
    COUNT,
    EVALS,
    LOSS,
    LOST,
    MAINTAINED,
    NORM2,
    READS,
    SCALE,
    SPANS,
    STEP,
    UPDATES,
    VISITS,
    WHICH,
    Budget,
    Forget,
    Merge,
    Nearest,
    Project,
    Remove,
    Scratch,
    at_work,
    by_class,
    maintain,
    remove,
    shrink,
    smallest,
)

#: Vectors there is room for at first; more as they come, unless max_bytes sets the room.
FIRST_VECTORS = 1023
#: Coefficients are brought to scale 1 when their scale has become this small.
SMALLEST_SCALE = 1e-9
#: Coefficients are multiples of 1/λ, and their squares, times weights and kernel values, are in single precision.
SMALLEST_LAM = 1e-12
#: γ‖z‖²√ε up to which squared distances may be made of norms and products when rows are scored (see core.kernels).
CANCELS = 0.05


# ---------------------------------------------------------------- step rules


@savable()
class PegasosStep(NamedTuple):
    """η_t = 1/(λt)."""


@savable()
class NormaStep(NamedTuple):
    """η_t = η/√t."""

    eta: float = 1.0


@savable()
class MarginPerceptronStep(NamedTuple):
    """η_t = η, without regularisation, and a projection to the ball of radius U."""

    eta: float = 1.0
    radius: float = math.inf


@savable()
class PassiveAggressiveStep(NamedTuple):
    """The shortest step that makes the loss zero, but at most C (PA-I, or PA for C = ∞); without regularisation."""

    C: float = 1.0


STEPS: dict[str, type] = {
    "pegasos": PegasosStep,
    "norma": NormaStep,
    "margin_perceptron": MarginPerceptronStep,
    "passive_aggressive": PassiveAggressiveStep,
}


def columns(vectors: int) -> int:
    """Columns for so many vectors and one to come: an odd number of registers, lest features share cache sets."""
    lanes = -(-(vectors + 1) // LANES)
    return LANES * (lanes + (lanes + 1) % 2)


class Schedule(NamedTuple):
    """What the loop sees of a step rule: η_t = eta/t^power, at most loss/‖gΦ‖² if ``passive``."""

    lam: float
    eta: float
    power: float
    radius: float
    passive: bool


def schedule(step: Any, lam: float) -> Schedule:
    """The schedule of a step rule."""
    for name, value in getattr(step, "_asdict", dict)().items():
        if isinstance(value, bool) or not isinstance(value, Real) or value != value:
            raise TypeError(f"{name} of {type(step).__name__} must be a number, got {value!r}")
    if isinstance(step, PegasosStep):
        if lam < SMALLEST_LAM:
            raise ValueError(f"Pegasos steps, 1/(lam t), need lam ≥ {SMALLEST_LAM:g}, got {lam}: use NormaStep(eta)")
        return Schedule(lam, 1.0 / lam, 1.0, math.inf, False)
    if isinstance(step, NormaStep):
        if step.eta * lam >= 1.0:
            raise ValueError(f"eta · lam must be < 1 for Norma steps, got {step.eta} · {lam}: choose a smaller eta")
        return Schedule(lam, float(step.eta), 0.5, math.inf, False)
    if isinstance(step, MarginPerceptronStep):
        return Schedule(0.0, float(step.eta), 0.0, float(step.radius), False)
    if isinstance(step, PassiveAggressiveStep):
        return Schedule(0.0, float(step.C), 0.0, math.inf, True)
    raise TypeError(f"step must be one of {', '.join(c.__name__ for c in STEPS.values())}, got {step!r}")


# ---------------------------------------------------------------- the loop


class OneByOne(NamedTuple):
    """A step for each example."""


class Batch(NamedTuple):
    """A step for ``size`` examples, whose scores come from one matrix product of their rows with the vectors."""

    size: int
    most: float  # largest ‖x‖² of a row whose distances may be made of norms and products
    rows: np.ndarray
    own: np.ndarray
    products: np.ndarray


@generic
def examples_per_step(batch):
    """Number of examples of a step: the constant 1 where the class says so."""


@examples_per_step.case(OneByOne)
def _(batch):
    return 1


@examples_per_step.case(Batch)
def _(batch):
    return batch.size


@generic
def multiply(batch, X, measure, order, first, count, vectors):
    """batch.products ← inner products of ``count`` examples with all vectors, in place."""


@multiply.case(OneByOne)
def _(batch, X, measure, order, first, count, vectors):
    pass


@multiply.case(Batch)
def _(batch, X, measure, order, first, count, vectors):
    rows, own = borrow(batch.rows), borrow(batch.own)
    for r in range(count):
        own[r] = gather(X, order[first + r], measure, vectors, rows[r])
    np.dot(batch.rows, vectors.Z, batch.products)


@generic
def sums_of(batch, X, i, r, measure, beyond, vectors, m, work):
    """work.sums ← the measure of example r of a batch, row i, and all vectors, in place; returns its size."""


@sums_of.case(OneByOne)
def _(batch, X, i, r, measure, beyond, vectors, m, work):
    return row_sums(X, i, measure, beyond, vectors, m, work.x, work.sums)


@sums_of.case(Batch)
def _(batch, X, i, r, measure, beyond, vectors, m, work):
    own, products, size, sums = batch.own[r], batch.products[r], vectors.size, work.sums
    if own > batch.most:
        return row_sums(X, i, measure, beyond, vectors, m, work.x, sums)
    for j in range(m):
        sums[j] = from_product(measure, own, size[j], products[j])
    return np.float64(own)


@generic
def again(batch, changed):
    """Whether the kernel values of an example must be computed anew, as vectors may have changed since its score."""


@again.case(OneByOne)
def _(batch, changed):
    return changed


@again.case(Batch)
def _(batch, changed):
    return True


@compiled
def learn(
    kernel,
    measure,
    beyond,
    X,
    target,
    y,
    weight,
    order,
    rule,
    batch,
    policy,
    budget,
    limit,
    most_rows,
    counts,
    values,
    work,
    track,
):
    """Algorithm 1 over the examples in order; changes the budget and its scalars in place; returns how many it saw.

    It ends early where vectors need more columns than there are, or those of sparse data more rows, of at most
    ``most_rows``. With all of those taken, the smallest vectors leave until a new one fits. ``track`` says whether ‖W‖²
    must be kept up to date.
    """
    use_wide_registers()
    X, y, weight, order = borrowed(X), borrow(y), borrow(weight), borrow(order)
    counts, values = borrow(counts), borrow(values)
    budget = Budget(
        borrowed(budget.vectors), borrow(budget.A), borrow(budget.norm2), borrow(budget.age), borrow(budget.K),
        borrow(budget.inverse), borrow(budget.classes),
    )  # fmt: skip
    work = Scratch(
        borrow(work.x), borrow(work.other), borrow(work.sums), borrow(work.k), borrow(work.out), borrow(work.products),
        borrow(work.z), borrow(work.g), borrow(work.losses), borrow(work.merged), borrow(work.column),
        borrow(work.others), borrow(work.chosen),
    )  # fmt: skip
    vectors, A, z, k, losses = budget.vectors, budget.A, work.z, work.k, work.losses
    outputs = output_count(target, z)
    together = examples_per_step(batch)
    for first in range(0, order.size, together):
        examples = min(together, order.size - first)
        if min(limit, counts[COUNT] + examples) >= A.shape[1]:
            return first
        if wants_rows(X, order, first, examples, vectors, most_rows):
            return first
        counts[STEP] += 1
        t, count, scale = counts[STEP], counts[COUNT], values[SCALE]
        m = padded(count)
        multiply(batch, X, measure, order, first, examples, vectors)
        counts[EVALS] += count * examples
        counts[VISITS] += examples
        violated, own = False, 0.0
        for r in range(examples):
            i, g = order[first + r], work.g[r]
            own = sums_of(batch, X, i, r, measure, beyond, vectors, m, work)
            finish(kernel, work.sums, m, k)
            counts[READS] += row_size(X, i)
            for c in range(outputs):
                row, f = A[c], A.dtype.type(0)
                for j in range(m):
                    f += row[j] * k[j]
                z[c] = scale * f
            importance = weight[i] if weight.size else 1.0
            losses[r] = importance * total_value(target, z, y[i])
            values[LOSS] += losses[r]
            slopes(target, z, y[i], g)
            for c in range(outputs):
                g[c] *= importance / together  # a short batch is a short step
                violated |= g[c] != 0.0

        eta = rule.eta
        if rule.power == 1.0:
            eta /= t
            scale = 1.0 / t  # the product of all 1 − 1/t, without its roundings: equal coefficients stay equal
        elif rule.power == 0.5:
            eta /= np.sqrt(t)
            scale *= 1.0 - eta * rule.lam
        if scale < SMALLEST_SCALE and rule.power != 1.0:
            for c in range(outputs):
                for j in range(m):
                    A[c, j] *= scale
            for j in range(m):
                budget.norm2[j] *= scale * scale
            values[NORM2] *= scale * scale
            scale = 1.0
        values[SCALE] = scale
        if not violated:
            continue

        for r in range(examples):
            i, g, slope2 = order[first + r], work.g[r], 0.0
            for c in range(outputs):
                slope2 += g[c] * g[c]
            if slope2 == 0.0:
                continue
            missing = lacks(X, i, vectors)
            changed = missing > 0
            while missing > 0 and counts[COUNT] > 0:
                j = smallest(budget, counts[COUNT])
                lost = remove(j, False, kernel, measure, budget, counts, values, work, track)
                counts[MAINTAINED] += 1
                values[LOST] += np.sqrt(lost) * values[SCALE] / eta
                missing = lacks(X, i, vectors)
            count, scale = counts[COUNT], values[SCALE]
            if again(batch, changed):
                own = row_sums(X, i, measure, beyond, vectors, padded(count), work.x, work.sums)
                finish(kernel, work.sums, padded(count), k)
                counts[EVALS] += count
            self_k = value_of(kernel, own_sum(measure, own))
            step = eta
            if rule.passive:
                room = slope2 * self_k
                if room == 0.0:  # Φ(x) = 0
                    continue
                step = min(eta, losses[r] / room)
            counts[UPDATES] += 1
            added = 0.0
            for c in range(outputs):
                a = -step * g[c] / scale
                A[c, count] = a
                added += a * a
            if track:
                values[NORM2] += added * self_k
                for c in range(outputs):
                    f, row = 0.0, A[c]
                    for j in range(count):
                        f += np.float64(row[j]) * np.float64(k[j])
                    values[NORM2] += 2.0 * row[count] * f
            write_row(X, i, work.x, vectors, count)
            vectors.size[count], budget.norm2[count], budget.age[count] = own, added * self_k, counts[UPDATES]
            counts[COUNT] = count + 1
            k[count] = self_k
            work.sums[count] = 0
            lost = maintain(policy, kernel, measure, budget, limit, counts, values, work, track)
            if lost >= 0.0:
                counts[MAINTAINED] += 1
                values[LOST] += np.sqrt(lost) * values[SCALE] / step
        if track:
            norm = values[SCALE] * np.sqrt(max(values[NORM2], 0.0))
            if norm > rule.radius:
                values[SCALE] *= rule.radius / norm
    return order.size


# ---------------------------------------------------------------- state and solver


@savable("BudgetedSGD.State")
@dataclass
class State:
    """Everything a run goes on from.

    Attributes
    ----------
    budget : Budget
    values, counts : the scalars of the loop
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
    def support(self) -> int:
        """Number of vectors."""
        return int(self.counts[COUNT])

    @property
    def model_bytes(self) -> int:
        """Bytes of the vectors and coefficients in use."""
        vectors, A = self.budget.vectors, self.budget.A
        return self.support * (rows_in_use(vectors) + A.shape[0]) * A.itemsize

    def vectors(self, dtype: Any = np.float64) -> DenseRows | CSRRows:
        """The vectors as rows where the data stands, in its layout."""
        return as_data(self.budget.vectors, self.support, dtype)

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients with their scale (outputs × vectors), in float64."""
        return self.values[SCALE] * self.budget.A[:, : self.support].astype(np.float64)


@savable()
@dataclass
class BudgetedSGD(Solver):
    """Stochastic gradient descent for kernel machines on a budget of support vectors (see the module).

    Parameters
    ----------
    budget : int
        Most vectors kept.
    step : PegasosStep, NormaStep, MarginPerceptronStep or PassiveAggressiveStep
    maintenance : Merge, Project, Remove, Forget or Nearest
        Merge takes the Gaussian kernel only.
    sampling : {"permutation", "fixed"}
        A new order of the examples in each epoch, or always the order given.
    precision : {"auto", "float32", "float64"}
        Of vectors, coefficients and kernel values. "auto": float64 for projection and where a kernel of float64 data
        is no function of distances, else float32.
    batch_size : int
        Examples of a step, which is then made with the mean of their sub-gradients; their scores come from one matrix
        product.
    max_bytes : float
        The vectors of sparse data have a row of memory for every feature that occurs in one of them; these rows stay
        within so many bytes. When they are full, the smallest vectors leave until a new one fits.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.core.kernels import RBF
    >>> from widemargin.core.losses import Hinge, Single
    >>> from widemargin.core.rows import as_rows
    >>> from widemargin.problem import KernelProblem
    >>> from widemargin.running import run
    >>> from widemargin.solvers.budgeted import BudgetedSGD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    >>> problem = KernelProblem(RBF(2.0), as_rows(X), y, Single(Hinge()), 1e-3, intercept="none")
    >>> outcome = run(BudgetedSGD(budget=20), problem, rng=rng, max_epochs=1)
    >>> bool(problem.errors(outcome.model) < 0.1), outcome.state.support
    (True, 20)
    """

    budget: int = 500
    step: Any = field(default_factory=PegasosStep)
    maintenance: Any = field(default_factory=Merge)
    sampling: str = "permutation"
    precision: str = "auto"
    batch_size: int = 1
    max_bytes: float = math.inf

    def check(self, problem: KernelProblem) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        kernel = problem.kernel
        if self.budget < 1:
            raise ValueError(f"budget must be ≥ 1, got {self.budget}")
        if not isinstance(kernel, (RBF, Laplacian, Linear, Polynomial, Sigmoid)):
            raise ValueError(
                f"BudgetedSGD computes kernels of vectors, and {type(kernel).__name__} is none of 'rbf', 'laplacian', "
                "'linear', 'poly', 'sigmoid': choose one of them"
            )
        if not isinstance(self.maintenance, (Merge, Project, Remove, Forget, Nearest)):
            raise TypeError(f"maintenance must be Merge, Project, Remove, Forget or Nearest, got {self.maintenance!r}")
        others = "'remove'" if isinstance(kernel, Sigmoid) else "'project' or 'remove'"
        if isinstance(self.maintenance, Merge):
            if not isinstance(kernel, RBF):
                raise ValueError(
                    f"merging needs the Gaussian kernel 'rbf', got {type(kernel).__name__}: use maintenance={others}"
                )
            if not isinstance(self.maintenance.vectors, (int, np.integer)):
                raise TypeError(f"Merge takes a whole number of vectors, got {self.maintenance.vectors!r}")
            if self.budget < 2 or not 2 <= self.maintenance.vectors <= self.budget + 1:
                raise ValueError(
                    f"merging {self.maintenance.vectors} vectors needs a budget ≥ 2 and 2 ≤ vectors ≤ budget + 1, got "
                    f"budget {self.budget}"
                )
            if self.maintenance.table_size < 2:
                raise ValueError(f"table_size must be ≥ 2, got {self.maintenance.table_size}")
        if isinstance(self.maintenance, Remove) and self.maintenance.which not in WHICH:
            raise ValueError(f"Remove takes {', '.join(map(repr, WHICH))}, got {self.maintenance.which!r}")
        if isinstance(self.maintenance, Project) and isinstance(kernel, Sigmoid):
            raise ValueError("projection needs a positive definite kernel, and 'sigmoid' is none: use 'remove'")
        if isinstance(self.maintenance, Project) and not (
            isinstance(self.maintenance.threshold, Real) and 0.0 <= self.maintenance.threshold < 1.0
        ):
            raise ValueError(
                f"threshold is a distance from the span, of vectors of length 1 or so: 0 ≤ threshold < 1, got "
                f"{self.maintenance.threshold!r}"
            )
        if isinstance(self.maintenance, Project):
            if self.maintenance.span not in SPANS:
                raise ValueError(f"span must be 'all' or 'class', got {self.maintenance.span!r}")
            if self.maintenance.span == "class" and not self.maintenance.mistakes_only:
                raise ValueError("span='class' is Projectron's: use Projectron(threshold, 'class'), or span='all'")
        rule = schedule(self.step, problem.lam)
        if isinstance(self.maintenance, Project) and self.maintenance.mistakes_only:
            self._check_projectron(problem, rule)
        if isinstance(self.maintenance, Nearest):
            if not isinstance(kernel, (RBF, Laplacian)):
                raise ValueError(
                    f"Nearest needs a kernel of distances, 'rbf' or 'laplacian', got {type(kernel).__name__}: use "
                    f"maintenance={others}"
                )
            if math.isfinite(rule.radius):
                raise ValueError("Nearest does not follow ‖w‖: use a step without a radius")
        if isinstance(self.maintenance, Forget) and not isinstance(self.step, MarginPerceptronStep):
            raise ValueError(f"Forget shrinks the steps of step='margin_perceptron' only, got {self.step!r}: use that")
        if self.batch_size > 1 and isinstance(self.step, PassiveAggressiveStep):
            raise ValueError("PassiveAggressiveStep settles one example at a time: use batch_size=1")
        if not (rule.eta > 0.0 and (math.isfinite(rule.eta) or rule.passive) and rule.radius > 0.0):
            raise ValueError(f"step sizes must be > 0 and finite, and a radius > 0, got {self.step!r}")
        if isinstance(problem.target, Single) and isinstance(problem.target.loss, Hinge):
            wrong = problem.y[np.abs(problem.y) != 1.0]
            if wrong.size:
                raise ValueError(f"labels of the hinge are −1 and 1, got {wrong[0]}: recode y")
        if problem.intercept != "none":
            raise ValueError(f"BudgetedSGD has no intercept, got {problem.intercept!r}: use intercept='none'")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be ≥ 1, got {self.batch_size}")
        if self.batch_size > 1 and isinstance(kernel, Laplacian):
            raise ValueError("batches come from a matrix product, and the Laplacian kernel has none: use batch_size=1")
        if self.sampling not in ("permutation", "fixed"):
            raise ValueError(f"sampling must be 'permutation' or 'fixed', got {self.sampling!r}")
        if self.precision not in ("auto", "float32", "float64"):
            raise ValueError(f"precision must be 'auto', 'float32' or 'float64', got {self.precision!r}")

    def _check_projectron(self, problem: KernelProblem, rule: Schedule) -> None:
        target = problem.target
        if not isinstance(self.step, MarginPerceptronStep) or math.isfinite(rule.radius):
            raise ValueError(
                f"Projectron needs step='margin_perceptron' (MarginPerceptronStep without a radius), got {self.step!r}"
            )
        if self.maintenance.threshold == 0.0:
            raise ValueError("Projectron with threshold 0 would make no step for margin errors: use a threshold > 0")
        if self.batch_size > 1:
            raise ValueError("Projectron settles one example at a time: use batch_size=1")
        joint = isinstance(target, MulticlassHinge) and np.array_equal(target.cost, 1.0 - np.eye(problem.n_outputs))
        if not joint and not (isinstance(target, Single) and isinstance(target.loss, Hinge)):
            raise ValueError(
                "Projectron tells mistakes from margin errors by one hinge, of two classes or joint (multi_class="
                f"'crammer_singer'), got {type(target).__name__}: use Project(threshold)"
            )

    def dtype(self, problem: KernelProblem) -> np.dtype:
        """Of the buffer."""
        if self.precision != "auto":
            return np.dtype(self.precision)
        if isinstance(self.maintenance, Project):
            return np.dtype(np.float64)
        X, kernel = problem.X, problem.kernel
        if isinstance(kernel, RBF) and isinstance(X, CSRRows) and problem.n:
            # ‖x − z‖² of sparse rows is made of sizes, and cannot be centred: the first row says how much cancels
            size = float(np.sum(np.square(X.data[X.indptr[0] : X.indptr[1]], dtype=np.float64)))
            if kernel.gamma * size * math.sqrt(np.finfo(np.float32).eps) > CANCELS:
                return np.dtype(np.float64)
        return np.dtype(np.float32) if isinstance(kernel, (RBF, Laplacian)) else dtype_of(X)

    def _bytes(self, d: int, outputs: int, itemsize: int, sparse: bool) -> tuple[float, float, float]:
        """(a, b, c): buffers for a capacity of n vectors, with the fewest rows, hold a + b n + c n² bytes."""
        rows = d if not sparse else whole_rows(d + 1 if self._squares else min(d + 1, FIRST_ROWS))
        fixed = 16 + (4 * d + 12 * rows if sparse else 8 * d)
        linear = (rows + outputs + 2) * itemsize + 8
        if by_class(self.maintenance, outputs):
            return fixed, linear + 16, 64
        return fixed, linear, 16 if self._squares else 0

    def within(self, n_bytes: float, d: int, outputs: int, itemsize: int, sparse: bool) -> BudgetedSGD:
        """The same with the largest budget up to this one whose buffers stay within n_bytes, padding included."""
        fixed, linear, square = self._bytes(d, outputs, 8 if self._squares else itemsize, sparse)
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

    @property
    def _squares(self) -> bool:
        """Whether kernel matrices of the vectors are kept."""
        return isinstance(self.maintenance, (Project, Nearest))

    def _most_rows(self, state: State) -> int:
        """Rows of Z that max_bytes leave to sparse vectors; at most one for each feature and one of zeros."""
        vectors, A = state.budget.vectors, state.budget.A
        all_rows = whole_rows(n_features(vectors) + 1)
        if not is_sparse(vectors) or self._squares or math.isinf(self.max_bytes):
            return all_rows
        capacity, fixed = A.shape[1], 16 + 4 * n_features(vectors)
        left = self.max_bytes - fixed - capacity * ((A.shape[0] + 2) * A.itemsize + 8)
        return max(min(all_rows, int(left / (capacity * A.itemsize + 12)) // 4 * 4), vectors.Z.shape[0])

    def init(self, problem: KernelProblem, rng: np.random.Generator) -> State:
        """No vectors; the centre of dense ones is the first row, until they say otherwise."""
        self.check(problem)
        d, outputs, dtype = shape(problem.X)[1], problem.n_outputs, self.dtype(problem)
        capacity = columns(self.budget if math.isfinite(self.max_bytes) else min(self.budget, FIRST_VECTORS))
        apart = by_class(self.maintenance, outputs)
        square = (2 if apart else 1) * capacity if self._squares else 0
        inverse, classes = square if isinstance(self.maintenance, Project) else 0, square if apart else 0
        vectors = no_vectors(d, capacity, dtype, isinstance(problem.X, CSRRows))
        if isinstance(problem.X, DenseRows) and isinstance(problem.kernel, (RBF, Laplacian)) and problem.n:
            vectors.centre[:] = problem.X.values[0]
        budget = Budget(
            vectors, np.zeros((outputs, capacity), dtype), np.zeros(capacity, dtype), np.zeros(capacity, np.int64),
            np.zeros((square, square)), np.zeros((inverse, inverse)), np.zeros(classes, np.int64),
        )  # fmt: skip
        values, counts = np.zeros(5), np.zeros(8, np.int64)
        values[SCALE] = 1.0
        seed = int(rng.integers(2**62))
        state = State(budget, values, counts, seed, np.empty(0, np.int64), 0, rng)
        self.bind(problem, state)
        return state

    def _enlarge(self, state: State, vectors: int) -> None:
        """Room for so many vectors, in place."""
        b, n = state.budget, columns(vectors)
        side = 2 * n if b.classes.size else n
        K, inverse = (enlarged(square, side, side) if square.size else square for square in (b.K, b.inverse))
        state.budget = Budget(
            with_columns(b.vectors, n), enlarged(b.A, len(b.A), n), enlarged(b.norm2, n), enlarged(b.age, n),
            K, inverse, enlarged(b.classes, side if b.classes.size else 0),
        )  # fmt: skip

    def bind(self, problem: KernelProblem, state: State) -> None:
        """Begin with the examples of a (new) problem, from the state as it is."""
        self.check(problem)
        A, sparse = state.budget.A, isinstance(problem.X, CSRRows)
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
        needs = self._squares, isinstance(self.maintenance, Project), by_class(self.maintenance, A.shape[0])
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
        """n, or as many batches as hold n examples."""
        return -(-problem.n // self.batch_size)

    def _scratch(self, state: State) -> Scratch:
        Z, outputs = state.budget.vectors.Z, state.budget.A.shape[0]
        (d, capacity), dtype = Z.shape, Z.dtype
        joint = outputs > 1 and isinstance(self.maintenance, Merge)
        vectors = self.maintenance.vectors if isinstance(self.maintenance, Merge) else 1
        side = max(capacity, len(state.budget.K))
        return Scratch(
            np.zeros(d, dtype), np.zeros(d, dtype), np.zeros(capacity, dtype), np.zeros(capacity, dtype),
            np.zeros(capacity, dtype), np.zeros((2 if joint else 0, capacity), dtype), np.zeros(outputs),
            np.zeros((self.batch_size, outputs)), np.zeros(self.batch_size), np.zeros(outputs), np.zeros(side),
            np.zeros(side), np.zeros(vectors + 1, np.int64),
        )  # fmt: skip

    def advance(self, problem: KernelProblem, state: State, n_steps: int) -> None:
        """Take n_steps steps, in place. advance(a) then advance(b) is advance(a + b), bit for bit."""
        (measure, beyond), rule = measures(problem.kernel), schedule(self.step, problem.lam)
        policy = at_work(self.maintenance, state.budget.A.dtype.name, state.seed, problem.n_outputs)
        track = math.isfinite(rule.radius) or isinstance(self.maintenance, Forget)
        most_rows, work, batch = self._most_rows(state), self._scratch(state), self._batch(problem, state)
        while True:
            # vectors are centred whenever the number of steps has doubled
            steps = min(n_steps, (1 << int(state.counts[STEP]).bit_length()) - int(state.counts[STEP]))
            order, seen = self._next_visits(problem, state, steps * self.batch_size), 0
            while True:
                seen += learn(
                    problem.kernel, measure, beyond, problem.X, problem.target, problem.y, problem.sample_weight,
                    order[seen:], rule, batch, policy, state.budget, self.budget, most_rows, state.counts,
                    state.values, work, track,
                )  # fmt: skip
                if seen == order.size:
                    break
                if min(self.budget, state.support + self.batch_size) >= state.budget.A.shape[1]:
                    self._enlarge(state, min(self.budget, 2 * state.support + self.batch_size))
                    work, batch = self._scratch(state), self._batch(problem, state)
                    continue
                vectors = state.budget.vectors
                needed = self.batch_size * int(np.diff(problem.X.indptr).max())
                rows = whole_rows(len(vectors.Z) + max(len(vectors.Z) // 2, needed))
                state.budget = state.budget._replace(vectors=with_rows(vectors, min(rows, most_rows)))
                work, batch = self._scratch(state), self._batch(problem, state)
            taken = int(state.counts[STEP])
            if order.size and taken & (taken - 1) == 0:
                recentre(problem.kernel, state.budget.vectors, state.support)
            n_steps -= -(-order.size // self.batch_size)
            if n_steps <= 0:
                break
        c = state.counts
        state.counters = Counters(int(c[STEP]), int(c[VISITS]), int(c[UPDATES]), int(c[READS]), int(c[EVALS]))

    def _batch(self, problem: KernelProblem, state: State) -> OneByOne | Batch:
        if self.batch_size == 1:
            return OneByOne()
        (d, capacity), dtype, most = state.budget.vectors.Z.shape, state.budget.A.dtype, math.inf
        if isinstance(problem.kernel, RBF):
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
        steps, maintained = max(int(state.counts[STEP]), 1), int(state.counts[MAINTAINED])
        visits = max(int(state.counts[VISITS]), 1)
        return {
            "objective": 0.5 * problem.lam * self.norm2(problem, state) + state.values[LOSS] / visits,
            "degradation": state.values[LOST] / max(maintained, 1),
            "degradation_per_step": state.values[LOST] / steps,
            "maintenances": float(maintained),
            "support_vectors": float(state.support),
            "model_bytes": float(state.model_bytes),
        }

    def norm2(self, problem: KernelProblem, state: State) -> float:
        """‖W‖², from all pairs of vectors."""
        if state.support == 0:
            return 0.0
        coefficients = state.coefficients
        K = KernelMatrix(problem.kernel, state.vectors())
        return float(
            np.einsum("ci,ij,cj->", coefficients, K.block(np.arange(state.support)), coefficients, optimize=True)
        )

    def model(self, problem: KernelProblem, state: State) -> KernelModel:
        """A finished copy, whose vectors stand where the data does."""
        return KernelModel(
            problem.kernel, np.arange(state.support), state.vectors(dtype_of(problem.X)), state.coefficients,
            np.zeros(problem.n_outputs), 0.0,
        )  # fmt: skip


def scores(kernel: Any, X: Any, state: State) -> np.ndarray:
    """Scores of rows X (in the layout of the state), of shape (n, n_outputs), straight from the buffer of vectors."""
    vectors, A, count = state.budget.vectors, state.budget.A, state.support
    out, V = np.empty((shape(X)[0], A.shape[0])), np.empty((0, 0), A.dtype)
    measure, beyond = measures(kernel)
    if isinstance(X, DenseRows):
        V = np.ascontiguousarray(vectors.Z[:, :count].T)
    if isinstance(kernel, RBF) and V.size:
        size = vectors.size[:count]
        if kernel.gamma * float(size.max()) * math.sqrt(np.finfo(V.dtype).eps) <= CANCELS:
            measure, V = Inner(), np.column_stack([-2.0 * V, np.ones_like(size), size]).astype(V.dtype)
    score_rows(X, kernel, measure, beyond, V, vectors, A, count, state.values[SCALE], out)
    return out


# ---------------------------------------------------------------- models made smaller


def merged_vectors(kernel: RBF, vectors: np.ndarray, coefficients: np.ndarray, budget: int) -> np.ndarray:
    """The ``budget`` vectors that are left when the smallest is merged with its best partner, again and again."""
    n, d = vectors.shape
    outputs, capacity, nothing = coefficients.shape[0], -(-(n + 1) // LANES) * LANES, np.zeros((0, 0))
    solver = BudgetedSGD(budget, maintenance=Merge(), precision="float64")
    held = Budget(
        no_vectors(d, capacity, np.float64, False), np.zeros((outputs, capacity)), np.zeros(capacity),
        np.zeros(capacity, np.int64), nothing, nothing, np.zeros(0, np.int64),
    )  # fmt: skip
    held.vectors.Z[:, :n], held.A[:, :n] = vectors.T, coefficients
    held.vectors.size[:n] = np.einsum("ij,ij->i", vectors, vectors)
    held.norm2[:n] = np.sum(coefficients**2, axis=0)
    counts, values = np.zeros(8, np.int64), np.zeros(5)
    counts[COUNT], values[SCALE] = n, 1.0
    state = State(held, values, counts, 0, np.empty(0, np.int64), 0, np.random.default_rng(0))
    policy, work = at_work(solver.maintenance, "float64", 0, outputs), solver._scratch(state)
    shrink(kernel, measures(kernel)[0], policy, held, budget, counts, values, work)
    return as_matrix(state.vectors())


def spanning(matrix: KernelMatrix, scores: np.ndarray, budget: int) -> np.ndarray:
    """Rows, one after the other, each the one that takes most from what is left of w (orthogonal matching pursuit).

    ``scores`` are those of w (outputs × n). With L the rows of a Cholesky factor of the kernel matrix, of the rows
    taken first, what is left of Φ(x_i) has the square d_i = k_ii − Σ_t L_ti², and of w at x_i the score f_i; taking
    row i lessens ‖w‖² by Σ_c f_ci²/d_i.
    """
    left, own, f, taken = matrix.diagonal().astype(np.float64), matrix.diagonal(), scores.copy(), []
    L = np.empty((budget, left.size))
    for t in range(budget):
        gain = np.where(left > 1e-8 * own, np.sum(f * f, axis=0) / np.maximum(left, 1e-300), 0.0)
        i = int(gain.argmax())
        if gain[i] == 0.0:
            break
        L[t] = (matrix.block(np.array([i]))[0] - L[:t, i] @ L[:t]) / math.sqrt(left[i])
        f -= np.outer(f[:, i] / math.sqrt(left[i]), L[t])
        left = left - L[t] ** 2
        left[i] = 0.0
        taken.append(i)
    return np.array(taken, np.intp)


def reduced(
    kernel: Any, rows: DenseRows | CSRRows, coefficients: np.ndarray, budget: int, ways: tuple[str, ...]
) -> tuple[DenseRows | CSRRows, np.ndarray, np.ndarray, np.ndarray]:
    """(rows, coefficients, ‖w − w′‖², ‖w‖²): w = Σ_j coefficients[:, j] Φ(row j), and w′ of ``budget`` rows.

    The norms are those of each output. ``ways`` to choose rows are "merge" and "project" (see :func:`spanning`); both
    see outputs of norm 1. Then w is projected onto the span of those rows, with a ridge that keeps their kernel matrix
    regular; of several ways the one that loses least is taken.
    """
    if isinstance(kernel, Sigmoid):
        raise ValueError("compress projects onto a span, and 'sigmoid' is no positive definite kernel: use another")
    matrix, n = as_matrix(rows).astype(np.float64), shape(rows)[0]
    rows = as_rows(matrix)
    whole, scores = KernelMatrix(kernel, rows), np.empty_like(coefficients, dtype=np.float64)
    blocks = [np.arange(first, min(first + 1024, n)) for first in range(0, n, 1024)]
    for some in blocks:
        scores[:, some] = coefficients @ whole.block(some).T
    norm2 = np.sum(scores * coefficients, axis=1)
    unit = np.where(norm2 > 0.0, 1.0 / np.sqrt(np.maximum(norm2, 1e-300)), 0.0)[:, None]
    found = []
    for way in ways:
        if way == "project":
            kept = matrix[spanning(whole, unit * scores, budget)]
        elif isinstance(rows, DenseRows):
            kept = merged_vectors(kernel, matrix, unit * coefficients, budget)
        else:  # features that no vector has stay zero
            used = np.unique(rows.indices)
            few = sp.csr_matrix(merged_vectors(kernel, matrix[:, used].toarray(), unit * coefficients, budget))
            kept = sp.csr_matrix((few.data, used[few.indices], few.indptr), (few.shape[0], matrix.shape[1]))
        chosen = as_rows(kept)
        count = shape(chosen)[0]
        K, across = KernelMatrix(kernel, chosen).block(np.arange(count)), KernelMatrix(kernel, rows, chosen)
        onto = sum((coefficients[:, some] @ across.block(some) for some in blocks), np.zeros((len(norm2), count)))
        ridge = 1e-10 * max(float(np.trace(K)) / max(count, 1), 1e-300)
        best = np.linalg.solve(K + ridge * np.eye(count), onto.T).T
        lost = norm2 - 2.0 * np.sum(best * onto, axis=1) + np.sum((best @ K) * best, axis=1)
        found.append((chosen, best, np.maximum(lost, 0.0), norm2))
    return min(found, key=lambda one: float(np.sum(one[2] * unit[:, 0] ** 2)))
