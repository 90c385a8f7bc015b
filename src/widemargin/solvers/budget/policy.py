"""Budget policies: how a model of more than B vectors becomes one of B vectors, W ← W − Δ, with the loss ‖Δ‖.

A policy is a frozen dataclass of parameters, derived from :class:`Policy`. Its ``prepare`` makes the NamedTuple that
the compiled loop sees. The case of :func:`maintain` for that NamedTuple is called after each new vector, changes the
:class:`Machine` in place, and returns ‖Δ‖².

Users give a policy as an object, ``BudgetedSVC(maintenance=Merge(vectors=3))``, or by the name under which
:func:`register` entered it in this process. An object is pickled with a reference to its class, and saved in files.

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012), Sec. 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.compiling.dispatch import apart, compiled, generic
from ...core.intrinsics.hints import use_wide_registers
from ...core.kernels.expansion import (
    Expansion,
    Metric,
    Vectors,
    correlation,
    drop_term,
    enlarged,
    no_vectors,
    padded,
    vector_sums,
    with_columns,
)
from ...core.kernels.kernels import finish
from ...core.kernels.tiles import LANES
from ...files import savable
from ...problems.kernel import KernelProblem
from ...schemas import FLOATS, Array, Within
from .steps import Schedule

# ---------------------------------------------------------------- the machine


def _law(budget: Any, sizes: dict[str, int]) -> str | None:
    capacity, square = sizes["capacity"], sizes["square"]
    if square not in (0, capacity, 2 * capacity) or sizes["inverted"] not in (0, square):
        return f"K and inverse have {square} and {sizes['inverted']} rows for {capacity} vectors"
    if sizes["placed"] not in (0, 2 * capacity) or (sizes["placed"] > 0) != (square == 2 * capacity > 0):
        return f"classes has {sizes['placed']} entries for {capacity} vectors and a K of {square} rows"
    if sizes["placed"] and budget.classes.max() >= max(sizes["outputs"], 2):
        return f"classes has class {budget.classes.max()} of {sizes['outputs']}"
    dtypes = {array.dtype for array in (budget.vectors.Z, budget.vectors.size, budget.A, budget.norm2)}
    return None if len(dtypes) == 1 else f"its arrays are of {' and '.join(sorted(map(str, dtypes)))}"


@savable(
    vectors=Within(Vectors), A=Array("outputs", "capacity", dtype=FLOATS), norm2=Array("capacity", dtype=FLOATS),
    age=Array("capacity", dtype=np.int64, low=0), K=Array("square", "square"), inverse=Array("inverted", "inverted"),
    classes=Array("placed", dtype=np.int64, low=0), law=_law,
)  # fmt: skip
class Budget(NamedTuple):
    """All arrays of a machine: the vectors with their coefficients, and the matrices of the policy.

    K and ``inverse`` are the kernel matrix of the vectors and its inverse, of size 0 where the policy keeps none. Where
    classes have spans of their own, vector j stands in K twice, at 2j for its own class and at 2j + 1 for the
    runner-up; K is 0 between classes, and ``classes`` has the class of each row. Elsewhere ``classes`` is empty.
    """

    vectors: Vectors
    A: np.ndarray
    norm2: np.ndarray
    age: np.ndarray
    K: np.ndarray
    inverse: np.ndarray
    classes: np.ndarray

    @property
    def expansion(self) -> Expansion:
        """The vectors with their coefficients."""
        return Expansion(self.vectors, self.A, self.norm2, self.age)


#: Numbers of the loop: the scale of all coefficients, ‖W‖² without the scale (if a policy or a radius needs ‖W‖), the
#: sums of losses at visits and of ‖Δ‖/η, and one number of the policy.
AMOUNTS = np.dtype((np.record, [(name, np.float64) for name in ("scale", "norm2", "loss", "lost", "own")]))
#: Counts of the loop: steps, vectors held, maintenances, updates (vectors that came), kernel values, entries read, one
#: count of the policy, and examples visited.
_COUNTS = ("steps", "vectors", "maintained", "updates", "evals", "reads", "own", "visits")
TALLY = np.dtype((np.record, [(name, np.int64) for name in _COUNTS]))


class Scratch(NamedTuple):
    """Working space of the loop."""

    x: np.ndarray  # a vector, as a column of Z
    sums: np.ndarray  # distances or inner products to all vectors; −γ‖x − z‖² after ``finish``
    k: np.ndarray  # kernel values with all vectors
    z: np.ndarray  # scores
    g: np.ndarray  # slopes of each example of a step
    losses: np.ndarray  # of each example of a step


class Machine(NamedTuple):
    """A machine at work, as compiled code sees it; all but ``limit`` and ``track`` change."""

    metric: Metric
    expansion: Expansion
    amounts: Any  # of AMOUNTS
    tally: Any  # of TALLY
    work: Scratch
    limit: int  # most vectors
    track: bool  # whether ‖W‖² must be kept up to date


def columns(vectors: int) -> int:
    """Columns for so many vectors and one more: an odd number of registers, so that features share no cache sets."""
    lanes = -(-(vectors + 1) // LANES)
    return LANES * (lanes + (lanes + 1) % 2)


def no_budget(policy: Policy, d: int, outputs: int, capacity: int, dtype: Any, sparse: bool) -> Budget:
    """Arrays without vectors, for d features."""
    square = policy.places(outputs) * capacity
    inverse, classes = square if policy.inverts else 0, square if policy.places(outputs) > 1 else 0
    return Budget(
        no_vectors(d, capacity, dtype, sparse), np.zeros((outputs, capacity), dtype), np.zeros(capacity, dtype),
        np.zeros(capacity, np.int64), np.zeros((square, square)), np.zeros((inverse, inverse)),
        np.zeros(classes, np.int64),
    )  # fmt: skip


def with_room(budget: Budget, vectors: int) -> Budget:
    """The same arrays, with room for so many vectors."""
    n = columns(vectors)
    side = 2 * n if budget.classes.size else n
    K, inverse = (enlarged(square, side, side) if square.size else square for square in (budget.K, budget.inverse))
    return Budget(
        with_columns(budget.vectors, n), enlarged(budget.A, len(budget.A), n), enlarged(budget.norm2, n),
        enlarged(budget.age, n), K, inverse, enlarged(budget.classes, side if budget.classes.size else 0),
    )  # fmt: skip


def in_float64(budget: Budget) -> Budget:
    """The same arrays, in float64 where they were float32."""

    def wide(part: Any) -> Any:
        narrow = {name: array for name, array in part._asdict().items() if getattr(array, "dtype", None) == np.float32}
        return part._replace(**{name: array.astype(np.float64) for name, array in narrow.items()})

    return wide(budget._replace(vectors=wide(budget.vectors)))


# ---------------------------------------------------------------- policies


@dataclass(frozen=True)
class Policy:
    """Base of the policies, which are dataclasses of parameters."""

    #: Whether the inverse of K is kept; vectors are then float64.
    inverts: ClassVar[bool] = False
    #: Whether ‖W‖² must be kept up to date.
    follows_norm: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        savable()(cls)

    def places(self, outputs: int) -> int:
        """Rows and columns of K for each vector; 0: there is no K."""
        return 0

    def check(self, solver: Any, problem: KernelProblem, rule: Schedule) -> None:
        """Refuse parameters, kernels, losses or steps (``rule``) that do not suit the policy, in one sentence."""

    def prepare(self, budget: Budget, seed: int) -> Any:
        """The NamedTuple for which :func:`maintain` has a case, for these arrays; ``seed`` is the seed of the run."""
        raise NotImplementedError

    def divide(self, budget: Budget) -> Budget:
        """The policy's arrays when one score became the scores of two classes."""
        return budget


#: Policies by the names that users give.
MAINTENANCES: dict[str, Policy] = {}


def register(name: str, policy: Policy) -> None:
    """Enter a policy, with its parameters, under a name for ``BudgetedSVC(maintenance=…)``."""
    MAINTENANCES[name] = policy


def instead(problem: KernelProblem) -> str:
    """The policies to recommend for the kernel of a problem."""
    return "'project' or 'remove'" if problem.kernel.is_definite else "'remove'"


# ---------------------------------------------------------------- at work


@generic
def maintain(policy, machine):
    """Keep the budget after a new vector, the last one, whose kernel row is work.k, in place; returns ‖Δ‖².

    It is in units of the scale, that is, divided by amounts.scale², as ``expansion`` keeps its coefficients. Returns −1
    if there was nothing to do.
    """


@apart
def kernel_row(machine, j):
    """work.k ← the kernel values of vector j and all, in place; work.x ← vector j."""
    use_wide_registers()
    metric, Z, work, m = machine.metric, machine.expansion.vectors.Z, machine.work, padded(machine.tally.vectors)
    x = work.x
    for k in range(x.size):
        x[k] = Z[k, j]
    vector_sums(metric.measure, x, Z, m, work.sums)
    finish(metric.kernel, work.sums, m, work.k)
    work.sums[j] = 0 if work.sums[j] != work.sums[j] else work.sums[j]


@apart
def drop(machine, j):
    """Drop vector j, in place: the last vector moves to its column, and the last column becomes zero."""
    last = machine.tally.vectors - 1
    drop_term(machine.expansion, j, last)
    machine.tally.vectors = last


@apart
def remove(machine, j, known):
    """Remove vector j, in place; returns ‖Δ‖² in units of the scale.

    ``known``: work.k is the kernel row of vector j already, as that of the last vector when :func:`maintain` begins.
    """
    use_wide_registers()
    lost, tally, work = np.float64(machine.expansion.norm2[j]), machine.tally, machine.work
    if machine.track:
        if not known:
            kernel_row(machine, j)
            tally.evals += tally.vectors
        machine.amounts.norm2 += lost - 2.0 * correlation(machine.expansion.A, j, work.k, padded(tally.vectors))
    drop(machine, j)
    return lost


@compiled
def shrink(policy, machine, most):
    """Maintain until no more vectors than the limit are left, at most ``most`` times, in place."""
    use_wide_registers()
    while machine.tally.vectors > machine.limit and most > 0:
        most -= 1
        kernel_row(machine, machine.tally.vectors - 1)
        maintain(policy, machine)
