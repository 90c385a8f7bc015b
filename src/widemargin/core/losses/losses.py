"""Losses ℓ(z, y), convex in the scores z: value, sub-gradient and convex conjugate ℓ*(u) = sup_z uz − ℓ(z, y).

A scalar loss sees one score z and a target y, which is ±1 for classification and a real number for regression. With
the margin m = yz, v = yu, the residual r = z − y, and H_δ(t) = 0 for t ≤ 0, t²/(2δ) for 0 < t < δ, t − δ/2 beyond:

======================  ==========================  =============================================
loss                    ℓ(z, y)                     ℓ*(u)
======================  ==========================  =============================================
Hinge                   max(0, 1 − m)               v                        for −1 ≤ v ≤ 0
SquaredHinge            max(0, 1 − m)²              v + v²/4                 for v ≤ 0
Huberized               H_δ(1 − m)                  v + δv²/2                for −1 ≤ v ≤ 0
Log                     log(1 + exp(−m))            a log a + (1−a) log(1−a) for a = −v in [0, 1]
EpsilonInsensitive      max(0, |r| − ε)             uy + ε|u|                for |u| ≤ 1
SquaredEpsilon          max(0, |r| − ε)²            uy + ε|u| + u²/4
HuberizedEpsilon        H_δ(|r| − ε)                uy + ε|u| + δu²/2        for |u| ≤ 1
======================  ==========================  =============================================

A joint loss sees the scores of all classes and the index y of the true class:

* MulticlassHinge: max over r of δ(r, y) + z_r − z_y, with a cost matrix δ;
* MulticlassLog:   log Σ_r exp(z_r − z_y).

The sub-gradients of a joint loss are p − e_y with p in the simplex, and ℓ*(p − e_y) is −Σ p_r δ(r, y) and
Σ p_r log p_r.

Solvers see *targets*: ``Single(loss)`` for one score, ``OneVsRest(loss, positive_weight)`` for one binary problem per
class on the same rows, or a joint loss itself. Outside of its domain a conjugate is infinite.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...arguments import not_negative, positive
from ..borrowing import column
from ..compiling.dispatch import generic, inlined

#: A slope may leave the domain of the conjugate by this much: a few roundings.
DOMAIN = 1e-12

#: Losses for ±1 labels and for real targets, by the names that users give.
BINARY: dict[str, Any] = {}
REGRESSION: dict[str, Any] = {}
#: Losses of all classes together, by the name of the binary loss that each extends.
JOINT: dict[str, Any] = {}


def loss_class(
    names: dict[str, Any] | None = None,
    name: str = "",
    *,
    lipschitz: float = math.inf,
    smoothness: float = math.inf,
    above_zero: tuple[str, ...] = (),
) -> Callable[[Any], Any]:
    """Register a class of losses under a name in BINARY, REGRESSION or JOINT, and set its facts as attributes.

    A scalar loss needs one case each of :func:`value`, :func:`slope` and :func:`conjugate`. Its fields are its
    parameters: numbers ≥ 0. All but the first field of a loss of REGRESSION, which is ε, need a default. The facts:

    name            what users call the loss
    lipschitz       the largest norm of a sub-gradient in the scores; infinite if there is none
    smoothness      the largest second derivative in the scores; infinite if the loss has a kink
    above_zero      the fields that must be above 0
    is_regression   whether targets are real numbers, which the register says

    A fact that depends on the parameters is a property of the class instead.
    """

    def enter(cls: Any) -> Any:
        facts = {
            "name": name, "lipschitz": lipschitz, "smoothness": smoothness, "above_zero": above_zero,
            "is_regression": names is REGRESSION,
        }  # fmt: skip
        for fact, known in facts.items():
            if fact not in vars(cls):
                setattr(cls, fact, known)
        if names is not None:
            names[name] = cls
        return cls

    return enter


# ---------------------------------------------------------------- losses of users' arguments


def name_of(loss: Any) -> Any:
    """The name of a loss that is given by name or as an object."""
    return loss if isinstance(loss, str) else getattr(type(loss), "name", None)


def as_loss(loss: Any, register: dict[str, Any], *named: float) -> Any:
    """The loss of a user's argument: a name of the register, or an object of one of its classes.

    A loss that is given by name gets the fields ``named``; an object has its own, which are checked here.

    Examples
    --------
    >>> as_loss("epsilon_insensitive", REGRESSION, 0.1)
    EpsilonInsensitive(epsilon=0.1)
    >>> as_loss(Huberized(delta=2), BINARY)
    Huberized(delta=2.0)
    """
    if isinstance(loss, str) and loss in register:
        return register[loss](*named)
    if type(loss) not in register.values():
        example = Huberized(delta=0.5) if register is BINARY else HuberizedEpsilon(epsilon=0.1, delta=0.5)
        kind, other = ("regression", REGRESSION) if register is BINARY else ("classification", BINARY)
        why = ""
        if name_of(loss) in other:
            why = f", which is a loss for {kind}"
        elif hasattr(type(loss), "_fields") and type(loss) not in JOINT.values():
            why = ", whose class is not registered in this process: put it into a file that can be imported"
        raise ValueError(
            f"loss must be one of {', '.join(map(repr, register))} or an object of widemargin.losses such as "
            f"{example}, got {loss!r}{why}"
        )
    fields = {}
    for name, given in loss._asdict().items():
        if not isinstance(given, np.ndarray):
            fields[name] = (positive if name in loss.above_zero else not_negative)(name, given)
    return loss._replace(**fields)


# ---------------------------------------------------------------- what a scalar loss has


@generic
def value(loss, z, y):
    """The loss ℓ(z, y) of the score z for the target y."""


@generic
def slope(loss, z, y):
    """A sub-gradient of ℓ(·, y) at z; zero where the loss is zero."""


@generic
def conjugate(loss, u, y):
    """The convex conjugate ℓ*(u) of ℓ(·, y)."""


@inlined
def huber(t, delta):
    """H_δ(t): 0 for t ≤ 0, the parabola t²/(2δ) for 0 < t < δ, and the line t − δ/2 beyond."""
    t = max(0.0, t)
    return 0.5 * t * (t / delta) if t < delta else t - 0.5 * delta


# ---------------------------------------------------------------- losses for labels ±1


@loss_class(BINARY, "hinge", lipschitz=1.0)
class Hinge(NamedTuple):
    """The hinge loss max(0, 1 − yz)."""


@value.case(Hinge)
def hinge_value(loss, z, y):
    return max(0.0, 1.0 - y * z)


@slope.case(Hinge)
def hinge_slope(loss, z, y):
    if y * z < 1.0:
        return -y
    return 0.0 * y


@conjugate.case(Hinge)
def hinge_conjugate(loss, u, y):
    v = y * u
    if -1.0 - DOMAIN <= v <= DOMAIN:
        return v
    return np.inf


@loss_class(BINARY, "squared_hinge", smoothness=2.0)
class SquaredHinge(NamedTuple):
    """The squared hinge loss max(0, 1 − yz)²."""


@value.case(SquaredHinge)
def squared_hinge_value(loss, z, y):
    missing = max(0.0, 1.0 - y * z)
    return missing * missing


@slope.case(SquaredHinge)
def squared_hinge_slope(loss, z, y):
    return -2.0 * y * max(0.0, 1.0 - y * z)


@conjugate.case(SquaredHinge)
def squared_hinge_conjugate(loss, u, y):
    v = y * u
    if v <= DOMAIN:
        return v + 0.25 * v * v
    return np.inf


@loss_class(BINARY, "log", lipschitz=1.0, smoothness=0.25)
class Log(NamedTuple):
    """The logistic loss log(1 + exp(−yz))."""


@value.case(Log)
def log_value(loss, z, y):
    m = -y * z
    if m > 0.0:
        return m + math.log1p(math.exp(-m))
    return math.log1p(math.exp(m))


@slope.case(Log)
def log_slope(loss, z, y):
    m = y * z
    if m > 0.0:
        e = math.exp(-m)
        return -y * e / (1.0 + e)
    return -y / (1.0 + math.exp(m))


@conjugate.case(Log)
def log_conjugate(loss, u, y):
    a = -y * u
    if a < -DOMAIN or a > 1.0 + DOMAIN:
        return np.inf
    total = 0.0
    if a > 0.0:
        total += a * math.log(a)
    if a < 1.0:
        total += (1.0 - a) * math.log1p(-a)
    return total


@loss_class(BINARY, "huberized", lipschitz=1.0, above_zero=("delta",))
class Huberized(NamedTuple):
    """The Huberised hinge loss: the hinge with a parabola of width δ in place of its corner."""

    delta: float = 1.0

    @property
    def smoothness(self) -> float:
        """The second derivative 1/δ of the parabola."""
        return 1.0 / self.delta


@value.case(Huberized)
def huberized_value(loss, z, y):
    return huber(1.0 - y * z, loss.delta)


@slope.case(Huberized)
def huberized_slope(loss, z, y):
    return -y * min(max(0.0, 1.0 - y * z) / loss.delta, 1.0)


@conjugate.case(Huberized)
def huberized_conjugate(loss, u, y):
    v = y * u
    if -1.0 - DOMAIN <= v <= DOMAIN:
        return v + 0.5 * loss.delta * v * v
    return np.inf


# ---------------------------------------------------------------- losses for real targets


@loss_class(REGRESSION, "epsilon_insensitive", lipschitz=1.0)
class EpsilonInsensitive(NamedTuple):
    """The distance to the target beyond ε, max(0, |z − y| − ε)."""

    epsilon: float = 0.0


@value.case(EpsilonInsensitive)
def epsilon_insensitive_value(loss, z, y):
    return max(0.0, abs(z - y) - loss.epsilon)


@slope.case(EpsilonInsensitive)
def epsilon_insensitive_slope(loss, z, y):
    r = z - y
    if r > loss.epsilon:
        return 1.0
    if r < -loss.epsilon:
        return -1.0
    return 0.0


@conjugate.case(EpsilonInsensitive)
def epsilon_insensitive_conjugate(loss, u, y):
    if abs(u) <= 1.0 + DOMAIN:
        return u * y + loss.epsilon * abs(u)
    return np.inf


@loss_class(REGRESSION, "squared_epsilon_insensitive", smoothness=2.0)
class SquaredEpsilon(NamedTuple):
    """The squared distance to the target beyond ε, max(0, |z − y| − ε)²."""

    epsilon: float = 0.0


@value.case(SquaredEpsilon)
def squared_epsilon_value(loss, z, y):
    excess = max(0.0, abs(z - y) - loss.epsilon)
    return excess * excess


@slope.case(SquaredEpsilon)
def squared_epsilon_slope(loss, z, y):
    r = z - y
    return 2.0 * math.copysign(max(0.0, abs(r) - loss.epsilon), r)


@conjugate.case(SquaredEpsilon)
def squared_epsilon_conjugate(loss, u, y):
    return u * y + loss.epsilon * abs(u) + 0.25 * u * u


@loss_class(REGRESSION, "huberized_epsilon_insensitive", lipschitz=1.0, above_zero=("delta",))
class HuberizedEpsilon(NamedTuple):
    """The ε-insensitive loss with a parabola of width δ in place of each corner."""

    epsilon: float = 0.0
    delta: float = 1.0

    @property
    def smoothness(self) -> float:
        """The second derivative 1/δ of a parabola."""
        return 1.0 / self.delta


@value.case(HuberizedEpsilon)
def huberized_epsilon_value(loss, z, y):
    return huber(abs(z - y) - loss.epsilon, loss.delta)


@slope.case(HuberizedEpsilon)
def huberized_epsilon_slope(loss, z, y):
    r = z - y
    return math.copysign(min(max(0.0, abs(r) - loss.epsilon) / loss.delta, 1.0), r)


@conjugate.case(HuberizedEpsilon)
def huberized_epsilon_conjugate(loss, u, y):
    if abs(u) <= 1.0 + DOMAIN:
        return u * y + loss.epsilon * abs(u) + 0.5 * loss.delta * u * u
    return np.inf


# ---------------------------------------------------------------- the loss of an oracle's answer


@loss_class(lipschitz=1.0)
class StructuredHinge(NamedTuple):
    """max(0, δ − z): the loss of an argmax oracle's answer (Pegasos, Example 5); an argmax is never below 0.

    The row is φ(x, y) − φ(x, ŷ) for the oracle's ŷ, the target its cost δ(ŷ, y).
    """


@value.case(StructuredHinge)
def structured_hinge_value(loss, z, y):
    return max(0.0, y - z)


@slope.case(StructuredHinge)
def structured_hinge_slope(loss, z, y):
    if y - z > 0.0:
        return -1.0
    return 0.0


@conjugate.case(StructuredHinge)
def structured_hinge_conjugate(loss, u, y):
    if -1.0 - DOMAIN <= u <= DOMAIN:
        return u * y
    return np.inf


# ---------------------------------------------------------------- targets


class Single(NamedTuple):
    """One score per row, under a scalar loss."""

    loss: Any


class OneVsRest(NamedTuple):
    """One binary problem per class; class c's own examples weigh ``positive_weight[c]``."""

    loss: Any
    positive_weight: np.ndarray


@loss_class(JOINT, "hinge", lipschitz=math.sqrt(2.0))
class MulticlassHinge(NamedTuple):
    """The multi-class hinge loss, max over r of cost[r, y] + z_r − z_y; the diagonal of ``cost`` is zero."""

    cost: np.ndarray


@loss_class(JOINT, "log", lipschitz=math.sqrt(2.0), smoothness=0.5)
class MulticlassLog(NamedTuple):
    """The multi-class logistic loss log Σ_r exp(z_r − z_y)."""


@generic
def total_value(target, z, y):
    """The loss of the scores z of one row."""


@generic
def slopes(target, z, y, g):
    """g ← a sub-gradient of the loss in the scores z of one row."""


@generic
def total_conjugate(target, g, y):
    """The conjugate at the slopes g of one row."""


@generic
def output_values(target, z, y, out):
    """out[c] += the loss of output c; a joint loss puts its whole value into out[0]."""


@generic
def output_conjugates(target, g, y, weight, out):
    """out[c] += weight × the conjugate of output c at its slope g[c]; a joint loss puts its own into out[0]."""


@generic
def output_count(target, z):
    """The number of outputs: the constant 1 for one score, so that the compiler removes loops over outputs."""


@generic
def output_columns(target, V):
    """A borrowed matrix with a column for each output; the only column of one output is known to be contiguous."""


@generic
def output_loss(target):
    """The scalar loss of an output; a joint loss has none and returns a loss that is not used."""


@generic
def output_label(target, y, c):
    """The target of output c where the target of the row is y."""


@generic
def output_weight(target, y, c):
    """The weight of output c where the target of the row is y."""


# ---------------------------------------------------------------- one score, or each class against the rest


@output_count.case(Single)
def one_output(target, z):
    return 1


@output_columns.case(Single)
def only_column(target, V):
    return column(V)


@output_label.case(OneVsRest)
def label_against_rest(target, y, c):
    if y == c:
        return 1.0
    return -1.0


@output_weight.case(OneVsRest)
def weight_against_rest(target, y, c):
    if y == c:
        return target.positive_weight[c]
    return 1.0


@output_loss.case(Single)
@output_loss.case(OneVsRest)
def separate_output_loss(target):
    return target.loss


@total_value.case(Single)
def single_value(target, z, y):
    return value(target.loss, z[0], y)


@total_value.case(OneVsRest)
def one_vs_rest_value(target, z, y):
    total = 0.0
    for c in range(z.size):
        if y == c:
            total += target.positive_weight[c] * value(target.loss, z[c], 1.0)
        else:
            total += value(target.loss, z[c], -1.0)
    return total


@output_values.case(Single)
def single_output_value(target, z, y, out):
    out[0] += value(target.loss, z[0], y)


@output_values.case(OneVsRest)
def one_vs_rest_output_values(target, z, y, out):
    for c in range(z.size):
        if y == c:
            out[c] += target.positive_weight[c] * value(target.loss, z[c], 1.0)
        else:
            out[c] += value(target.loss, z[c], -1.0)


@slopes.case(Single)
@slopes.case(OneVsRest)
def separate_slopes(target, z, y, g):
    for c in range(output_count(target, z)):
        g[c] = output_weight(target, y, c) * slope(target.loss, z[c], output_label(target, y, c))


@total_conjugate.case(Single)
@total_conjugate.case(OneVsRest)
def separate_conjugate(target, g, y):
    total = 0.0
    for c in range(output_count(target, g)):
        own = output_weight(target, y, c)
        if own > 0.0:
            total += own * conjugate(target.loss, g[c] / own, output_label(target, y, c))
    return total


@output_conjugates.case(Single)
@output_conjugates.case(OneVsRest)
def separate_output_conjugates(target, g, y, weight, out):
    for c in range(output_count(target, g)):
        own = output_weight(target, y, c)
        if own > 0.0:
            out[c] += weight * own * conjugate(target.loss, g[c] / own, output_label(target, y, c))


# ---------------------------------------------------------------- several outputs, tied by one loss or not


@output_values.case(MulticlassHinge)
@output_values.case(MulticlassLog)
def joint_output_values(target, z, y, out):
    out[0] += total_value(target, z, y)


@output_conjugates.case(MulticlassHinge)
@output_conjugates.case(MulticlassLog)
def joint_output_conjugates(target, g, y, weight, out):
    out[0] += weight * total_conjugate(target, g, y)


@output_loss.case(MulticlassHinge)
@output_loss.case(MulticlassLog)
def no_output_loss(target):
    return Hinge()


@output_count.case(OneVsRest)
@output_count.case(MulticlassHinge)
@output_count.case(MulticlassLog)
def several_outputs(target, z):
    return z.size


@output_columns.case(OneVsRest)
@output_columns.case(MulticlassHinge)
@output_columns.case(MulticlassLog)
def all_columns(target, V):
    return V


@output_label.case(Single)
@output_label.case(MulticlassHinge)
@output_label.case(MulticlassLog)
def label_of_row(target, y, c):
    return y


@output_weight.case(Single)
@output_weight.case(MulticlassHinge)
@output_weight.case(MulticlassLog)
def weight_of_one(target, y, c):
    return 1.0


# ---------------------------------------------------------------- joint losses


@total_value.case(MulticlassHinge)
def multiclass_hinge_value(target, z, y):
    own = int(y)
    best = 0.0
    for r in range(z.size):
        best = max(best, target.cost[r, own] + z[r] - z[own])
    return best


@slopes.case(MulticlassHinge)
def multiclass_hinge_slopes(target, z, y, g):
    own = int(y)
    worst, best = own, 0.0
    for r in range(z.size):
        g[r] = 0.0
        excess = target.cost[r, own] + z[r] - z[own]
        if excess > best:
            worst, best = r, excess
    if worst != own:
        g[worst] = 1.0
        g[own] = -1.0


@total_conjugate.case(MulticlassHinge)
def multiclass_hinge_conjugate(target, g, y):
    own = int(y)
    total = 0.0
    for r in range(g.size):
        if r != own:
            if g[r] < -DOMAIN:
                return np.inf
            total += target.cost[r, own] * g[r]
    if abs(g.sum()) > DOMAIN * g.size or g[own] < -1.0 - DOMAIN:
        return np.inf
    return -total


@total_value.case(MulticlassLog)
def multiclass_log_value(target, z, y):
    top = z.max()
    total = 0.0
    for r in range(z.size):
        total += math.exp(z[r] - top)
    return math.log(total) + top - z[int(y)]


@slopes.case(MulticlassLog)
def multiclass_log_slopes(target, z, y, g):
    top = z.max()
    total = 0.0
    for r in range(z.size):
        g[r] = math.exp(z[r] - top)
        total += g[r]
    for r in range(z.size):
        g[r] /= total
    g[int(y)] -= 1.0


@total_conjugate.case(MulticlassLog)
def multiclass_log_conjugate(target, g, y):
    own = int(y)
    total, mass = 0.0, 0.0
    for r in range(g.size):
        p = g[r]
        if r == own:
            p += 1.0
        if p < -DOMAIN:
            return np.inf
        mass += p
        if p > 0.0:
            total += p * math.log(p)
    if abs(mass - 1.0) > DOMAIN * g.size:
        return np.inf
    return total


# ---------------------------------------------------------------- the loss of a target


def scalar_loss(target: Any) -> Any:
    """The loss inside ``Single`` or ``OneVsRest``; a joint loss is its own."""
    return target.loss if isinstance(target, (Single, OneVsRest)) else target


def is_joint(target: Any) -> bool:
    """Whether the outputs are tied by one loss instead of being separate problems."""
    return not isinstance(target, (Single, OneVsRest))
