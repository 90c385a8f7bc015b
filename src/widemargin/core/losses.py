"""Losses, each convex in the scores z, with value, sub-gradient and convex conjugate.

Scalar losses see one score z and a target y (±1 for classification, a real
number for regression):

======================  ==========================  =============================================
loss                    ℓ(z, y)                     ℓ*(u) = sup_z uz − ℓ(z, y), with v = yu
======================  ==========================  =============================================
Hinge                   max(0, 1 − yz)              v                        for −1 ≤ v ≤ 0
SquaredHinge            max(0, 1 − yz)²             v + v²/4                 for v ≤ 0
Log                     log(1 + exp(−yz))           a log a + (1−a) log(1−a) for a = −v in [0, 1]
EpsilonInsensitive      max(0, |z − y| − ε)         uy + ε|u|                for |u| ≤ 1
SquaredEpsilon          max(0, |z − y| − ε)²        uy + ε|u| + u²/4
======================  ==========================  =============================================

Joint losses see the scores of all classes and the index y of the true one:

* MulticlassHinge: max over r of δ(r, y) + z_r − z_y, with a cost matrix δ;
* MulticlassLog:   log Σ_r exp(z_r − z_y).

Their sub-gradients are p − e_y with p in the simplex, and ℓ*(p − e_y) is
−Σ p_r δ(r, y) and Σ p_r log p_r.

The loops of the solvers see *targets*: ``Single(loss)`` for one score,
``OneVsRest(loss, positive_weight)`` for one binary problem per class over the
same rows, or a joint loss itself. Outside its domain a conjugate is infinite.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .borrowing import column
from .dispatch import generic

#: Slack of the conjugates' domains, a few units of rounding of a slope.
DOMAIN = 1e-12

#: Losses by the names that users give, for classification with ±1 labels and for regression.
BINARY: dict[str, Any] = {}
REGRESSION: dict[str, Any] = {}
#: Losses that treat all classes jointly, by the binary loss they extend.
JOINT: dict[str, Any] = {}


def loss_class(
    names: dict[str, Any] | None = None, name: str = "", *, lipschitz: float = math.inf, smoothness: float = math.inf
) -> Callable[[Any], Any]:
    """Enter a class of losses under its name in BINARY, REGRESSION or JOINT, and hang on it what others may ask.

    A scalar loss needs one case each of :func:`value`, :func:`slope` and :func:`conjugate`; one of REGRESSION has a
    field, ε. The facts:

    lipschitz       the largest norm of a sub-gradient in the scores; infinite where there is none
    smoothness      the largest second derivative in the scores; infinite where the loss has a kink
    is_regression   by its register: targets are real numbers
    """

    def enter(cls: Any) -> Any:
        cls.lipschitz, cls.smoothness, cls.is_regression = lipschitz, smoothness, names is REGRESSION
        if names is not None:
            names[name] = cls
        return cls

    return enter


@loss_class(BINARY, "hinge", lipschitz=1.0)
class Hinge(NamedTuple):
    """The hinge loss max(0, 1 − yz)."""


@loss_class(BINARY, "squared_hinge", smoothness=2.0)
class SquaredHinge(NamedTuple):
    """The squared hinge loss max(0, 1 − yz)²."""


@loss_class(BINARY, "log", lipschitz=1.0, smoothness=0.25)
class Log(NamedTuple):
    """The logistic loss log(1 + exp(−yz))."""


@loss_class(REGRESSION, "epsilon_insensitive", lipschitz=1.0)
class EpsilonInsensitive(NamedTuple):
    """The distance to the target beyond ε, max(0, |z − y| − ε)."""

    epsilon: float


@loss_class(REGRESSION, "squared_epsilon_insensitive", smoothness=2.0)
class SquaredEpsilon(NamedTuple):
    """The squared distance to the target beyond ε, max(0, |z − y| − ε)²."""

    epsilon: float


@loss_class(lipschitz=1.0)
class StructuredHinge(NamedTuple):
    """max(0, δ − z): the loss of an argmax oracle's answer (Pegasos, Example 5); an argmax is never below 0.

    The row is φ(x, y) − φ(x, ŷ) for the oracle's ŷ, the target its cost δ(ŷ, y).
    """


@loss_class(JOINT, "hinge", lipschitz=math.sqrt(2.0))
class MulticlassHinge(NamedTuple):
    """The multi-class hinge loss, max over r of cost[r, y] + z_r − z_y; the diagonal of ``cost`` is zero."""

    cost: np.ndarray


@loss_class(JOINT, "log", lipschitz=math.sqrt(2.0), smoothness=0.5)
class MulticlassLog(NamedTuple):
    """The multi-class logistic loss log Σ_r exp(z_r − z_y)."""


class Single(NamedTuple):
    """One score per row, under a scalar loss."""

    loss: Any


class OneVsRest(NamedTuple):
    """One binary problem per class; class c's own examples weigh ``positive_weight[c]``."""

    loss: Any
    positive_weight: np.ndarray


# ---------------------------------------------------------------- scalar losses


@generic
def value(loss, z, y):
    """The loss ℓ(z, y) of the score z for the target y."""


@generic
def slope(loss, z, y):
    """A sub-gradient of ℓ(·, y) at z; zero where the loss is."""


@generic
def conjugate(loss, u, y):
    """The convex conjugate ℓ*(u) of ℓ(·, y)."""


@value.case(Hinge)
def _(loss, z, y):
    return max(0.0, 1.0 - y * z)


@slope.case(Hinge)
def _(loss, z, y):
    if y * z < 1.0:
        return -y
    return 0.0 * y


@conjugate.case(Hinge)
def _(loss, u, y):
    v = y * u
    if -1.0 - DOMAIN <= v <= DOMAIN:
        return v
    return np.inf


@value.case(SquaredHinge)
def _(loss, z, y):
    m = max(0.0, 1.0 - y * z)
    return m * m


@slope.case(SquaredHinge)
def _(loss, z, y):
    return -2.0 * y * max(0.0, 1.0 - y * z)


@conjugate.case(SquaredHinge)
def _(loss, u, y):
    v = y * u
    if v <= DOMAIN:
        return v + 0.25 * v * v
    return np.inf


@value.case(Log)
def _(loss, z, y):
    m = -y * z
    if m > 0.0:
        return m + math.log1p(math.exp(-m))
    return math.log1p(math.exp(m))


@slope.case(Log)
def _(loss, z, y):
    m = y * z
    if m > 0.0:
        e = math.exp(-m)
        return -y * e / (1.0 + e)
    return -y / (1.0 + math.exp(m))


@conjugate.case(Log)
def _(loss, u, y):
    a = -y * u
    if a < -DOMAIN or a > 1.0 + DOMAIN:
        return np.inf
    total = 0.0
    if a > 0.0:
        total += a * math.log(a)
    if a < 1.0:
        total += (1.0 - a) * math.log1p(-a)
    return total


@value.case(EpsilonInsensitive)
def _(loss, z, y):
    return max(0.0, abs(z - y) - loss.epsilon)


@slope.case(EpsilonInsensitive)
def _(loss, z, y):
    r = z - y
    if r > loss.epsilon:
        return 1.0
    if r < -loss.epsilon:
        return -1.0
    return 0.0


@conjugate.case(EpsilonInsensitive)
def _(loss, u, y):
    if abs(u) <= 1.0 + DOMAIN:
        return u * y + loss.epsilon * abs(u)
    return np.inf


@value.case(SquaredEpsilon)
def _(loss, z, y):
    m = max(0.0, abs(z - y) - loss.epsilon)
    return m * m


@slope.case(SquaredEpsilon)
def _(loss, z, y):
    r = z - y
    m = max(0.0, abs(r) - loss.epsilon)
    return 2.0 * math.copysign(m, r)


@conjugate.case(SquaredEpsilon)
def _(loss, u, y):
    return u * y + loss.epsilon * abs(u) + 0.25 * u * u


@value.case(StructuredHinge)
def _(loss, z, y):
    return max(0.0, y - z)


@slope.case(StructuredHinge)
def _(loss, z, y):
    if y - z > 0.0:
        return -1.0
    return 0.0


@conjugate.case(StructuredHinge)
def _(loss, u, y):
    if -1.0 - DOMAIN <= u <= DOMAIN:
        return u * y
    return np.inf


# ---------------------------------------------------------------- targets


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


@total_value.case(Single)
def _(target, z, y):
    return value(target.loss, z[0], y)


@total_conjugate.case(Single)
def _(target, g, y):
    return conjugate(target.loss, g[0], y)


@output_values.case(Single)
def _(target, z, y, out):
    out[0] += value(target.loss, z[0], y)


@total_value.case(OneVsRest)
def _(target, z, y):
    total = 0.0
    for c in range(z.size):
        if y == c:
            total += target.positive_weight[c] * value(target.loss, z[c], 1.0)
        else:
            total += value(target.loss, z[c], -1.0)
    return total


@total_conjugate.case(OneVsRest)
def _(target, g, y):
    total = 0.0
    for c in range(g.size):
        if y == c:
            weight = target.positive_weight[c]
            if weight > 0.0:
                total += weight * conjugate(target.loss, g[c] / weight, 1.0)
        else:
            total += conjugate(target.loss, g[c], -1.0)
    return total


@output_values.case(OneVsRest)
def _(target, z, y, out):
    for c in range(z.size):
        if y == c:
            out[c] += target.positive_weight[c] * value(target.loss, z[c], 1.0)
        else:
            out[c] += value(target.loss, z[c], -1.0)


for _separate in (Single, OneVsRest):

    @slopes.case(_separate)
    def _(target, z, y, g):
        for c in range(output_count(target, z)):
            g[c] = output_weight(target, y, c) * slope(target.loss, z[c], output_label(target, y, c))

    @output_conjugates.case(_separate)
    def _(target, g, y, weight, out):
        for c in range(output_count(target, g)):
            own = output_weight(target, y, c)
            if own > 0.0:
                out[c] += weight * own * conjugate(target.loss, g[c] / own, output_label(target, y, c))


for _joint in (MulticlassHinge, MulticlassLog):

    @output_values.case(_joint)
    def _(target, z, y, out):
        out[0] += total_value(target, z, y)

    @output_conjugates.case(_joint)
    def _(target, g, y, weight, out):
        out[0] += weight * total_conjugate(target, g, y)


@total_value.case(MulticlassHinge)
def _(target, z, y):
    own = int(y)
    best = 0.0
    for r in range(z.size):
        best = max(best, target.cost[r, own] + z[r] - z[own])
    return best


@slopes.case(MulticlassHinge)
def _(target, z, y, g):
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
def _(target, g, y):
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
def _(target, z, y):
    top = z.max()
    total = 0.0
    for r in range(z.size):
        total += math.exp(z[r] - top)
    return math.log(total) + top - z[int(y)]


@slopes.case(MulticlassLog)
def _(target, z, y, g):
    top = z.max()
    total = 0.0
    for r in range(z.size):
        g[r] = math.exp(z[r] - top)
        total += g[r]
    for r in range(z.size):
        g[r] /= total
    g[int(y)] -= 1.0


@total_conjugate.case(MulticlassLog)
def _(target, g, y):
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


# ---------------------------------------------------------------- one output of separate ones


@generic
def output_count(target, z):
    """Number of outputs: the constant 1 where the target says so, which lets loops over outputs dissolve."""


@output_count.case(Single)
def _(target, z):
    return 1


@generic
def output_columns(target, V):
    """A borrowed matrix with a column for each output; that of a single one is known to be alone."""


@output_columns.case(Single)
def _(target, V):
    return column(V)


for _several in (OneVsRest, MulticlassHinge, MulticlassLog):

    @output_count.case(_several)
    def _(target, z):
        return z.size

    @output_columns.case(_several)
    def _(target, V):
        return V


@generic
def output_loss(target):
    """The scalar loss of an output; a joint loss has none and answers with one that is not used."""


@generic
def output_label(target, y, c):
    """The target of output c where the row's target is y."""


@generic
def output_weight(target, y, c):
    """The weight of output c where the row's target is y."""


for _separate in (Single, OneVsRest):

    @output_loss.case(_separate)
    def _(target):
        return target.loss


for _joint in (MulticlassHinge, MulticlassLog):

    @output_loss.case(_joint)
    def _(target):
        return Hinge()


for _plain in (Single, MulticlassHinge, MulticlassLog):

    @output_label.case(_plain)
    def _(target, y, c):
        return y

    @output_weight.case(_plain)
    def _(target, y, c):
        return 1.0


@output_label.case(OneVsRest)
def _(target, y, c):
    if y == c:
        return 1.0
    return -1.0


@output_weight.case(OneVsRest)
def _(target, y, c):
    if y == c:
        return target.positive_weight[c]
    return 1.0


# ---------------------------------------------------------------- the loss of a target


def scalar_loss(target: Any) -> Any:
    """The loss inside ``Single`` or ``OneVsRest``; a joint loss is its own."""
    return target.loss if isinstance(target, (Single, OneVsRest)) else target


def is_joint(target: Any) -> bool:
    """Whether the outputs are tied by one loss instead of being separate problems."""
    return not isinstance(target, (Single, OneVsRest))
