"""Pegasos as the paper prints it, in NumPy: a plain w, every iterate kept; and the true optima of small problems.

Targets and losses of ``widemargin`` serve as names only; all values are computed here.
W has shape (d, outputs), b (outputs,), Z = XW + b, and s are the sample weights.
"""

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import entr, expit, log_expit, logsumexp, softmax

from widemargin.core.losses.losses import (
    EpsilonInsensitive,
    Hinge,
    Huberized,
    HuberizedEpsilon,
    Log,
    MulticlassHinge,
    MulticlassLog,
    OneVsRest,
    Single,
    SquaredEpsilon,
    SquaredHinge,
)
from widemargin.solvers.pegasos import Bottou, Constant, InverseTime, Norma

SQUARED = (SquaredHinge, SquaredEpsilon)
PIECEWISE_LINEAR = (Hinge, EpsilonInsensitive)


# ---------------------------------------------------------------- losses (Sec. 5)


def rounded(t, delta):
    """max(0, t) with a parabola of width δ at its corner."""
    return np.where(t <= 0.0, 0.0, np.where(t < delta, t**2 / (2.0 * delta), t - delta / 2.0))


def scalar_values(loss, z, y):
    """ℓ(z, y) for arrays of scores and targets."""
    match loss:
        case Hinge():
            return np.maximum(0.0, 1.0 - y * z)
        case SquaredHinge():
            return np.maximum(0.0, 1.0 - y * z) ** 2
        case Log():
            return -log_expit(y * z)
        case EpsilonInsensitive(epsilon):
            return np.maximum(0.0, np.abs(z - y) - epsilon)
        case SquaredEpsilon(epsilon):
            return np.maximum(0.0, np.abs(z - y) - epsilon) ** 2
        case Huberized(delta):
            return rounded(1.0 - y * z, delta)
        case HuberizedEpsilon(epsilon, delta):
            return rounded(np.abs(z - y) - epsilon, delta)


def scalar_slopes(loss, z, y):
    """ℓ'(z, y), the table of Sec. 5 with its third row corrected, and its squares."""
    match loss:
        case Hinge():
            return np.where(y * z < 1.0, -y, 0.0)
        case SquaredHinge():
            return -2.0 * y * np.maximum(0.0, 1.0 - y * z)
        case Log():
            return -y * expit(-y * z)
        case EpsilonInsensitive(epsilon):
            return np.where(z - y > epsilon, 1.0, np.where(y - z > epsilon, -1.0, 0.0))
        case SquaredEpsilon(epsilon):
            return 2.0 * (np.maximum(0.0, z - y - epsilon) - np.maximum(0.0, y - z - epsilon))
        case Huberized(delta):
            return -y * np.clip((1.0 - y * z) / delta, 0.0, 1.0)
        case HuberizedEpsilon(epsilon, delta):
            return np.clip((z - y - epsilon) / delta, 0.0, 1.0) - np.clip((y - z - epsilon) / delta, 0.0, 1.0)


def separate(target, y, outputs):
    """Labels and weights of each output, of shape (n, outputs), for ``Single`` and ``OneVsRest``."""
    if isinstance(target, Single):
        return y[:, None], np.ones((len(y), 1))
    own = y[:, None] == np.arange(outputs)
    return np.where(own, 1.0, -1.0), np.where(own, target.positive_weight, 1.0)


def values(target, Z, y):
    """Losses of the rows: one column per output, or one column in all for a joint loss."""
    if isinstance(target, (Single, OneVsRest)):
        labels, weights = separate(target, y, Z.shape[1])
        return weights * scalar_values(target.loss, Z, labels)
    own = y.astype(int)
    mine = np.take_along_axis(Z, own[:, None], axis=1)
    if isinstance(target, MulticlassHinge):
        return (target.cost[:, own].T + Z - mine).max(axis=1, keepdims=True)
    return logsumexp(Z, axis=1, keepdims=True) - mine


def slopes(target, Z, y):
    """Sub-gradients in the scores, of shape (n, outputs)."""
    if isinstance(target, (Single, OneVsRest)):
        labels, weights = separate(target, y, Z.shape[1])
        return weights * scalar_slopes(target.loss, Z, labels)
    own = y.astype(int)
    truth = np.eye(Z.shape[1])[own]
    if isinstance(target, MulticlassLog):
        return softmax(Z, axis=1) - truth
    mine = np.take_along_axis(Z, own[:, None], axis=1)
    worst = (target.cost[:, own].T + Z - mine).argmax(axis=1)
    return np.eye(Z.shape[1])[worst] - truth


def scalar_conjugates(loss, u, y):
    """ℓ*(u) for arrays of slopes and targets; slopes may leave its domain by rounding only."""
    match loss:
        case Hinge():
            assert np.all((y * u >= -1.0 - 1e-9) & (y * u <= 1e-9))
            return y * u
        case SquaredHinge():
            assert np.all(y * u <= 1e-9)
            return y * u + u**2 / 4.0
        case Log():
            a = -y * u
            assert np.all((a >= -1e-9) & (a <= 1.0 + 1e-9))
            return -entr(np.clip(a, 0.0, 1.0)) - entr(np.clip(1.0 - a, 0.0, 1.0))
        case EpsilonInsensitive(epsilon):
            assert np.all(np.abs(u) <= 1.0 + 1e-9)
            return u * y + epsilon * np.abs(u)
        case SquaredEpsilon(epsilon):
            return u * y + epsilon * np.abs(u) + u**2 / 4.0
        case Huberized(delta):
            assert np.all((y * u >= -1.0 - 1e-9) & (y * u <= 1e-9))
            return y * u + delta * u**2 / 2.0
        case HuberizedEpsilon(epsilon, delta):
            assert np.all(np.abs(u) <= 1.0 + 1e-9)
            return u * y + epsilon * np.abs(u) + delta * u**2 / 2.0


def conjugates(target, G, y):
    """The conjugates of the rows at slopes G, one column per output, or one in all for a joint loss."""
    if isinstance(target, (Single, OneVsRest)):
        labels, weights = separate(target, y, G.shape[1])
        return weights * scalar_conjugates(target.loss, G / weights, labels)
    own = y.astype(int)
    P = G + np.eye(G.shape[1])[own]
    assert np.all(P >= -1e-9)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9)
    if isinstance(target, MulticlassHinge):
        return -np.sum(P * target.cost[:, own].T, axis=1, keepdims=True)
    return -np.sum(entr(np.clip(P, 0.0, None)), axis=1, keepdims=True)


def penalised(W, b, intercept):
    """The squared norm that the objective charges for."""
    return np.sum(W**2) + (np.sum(b**2) if intercept == "regularized" else 0.0)


def objective(X, y, target, lam, W, b, s=1.0, intercept="none"):
    """λ/2 ‖W‖² + (1/n) Σ sᵢ ℓᵢ, b² in the norm where it is regularised; Eq. (1), and Eq. (7) for some of the rows."""
    losses = values(target, X @ W + b, y).sum(axis=1)
    return 0.5 * lam * penalised(W, b, intercept) + np.mean(s * losses)


# ---------------------------------------------------------------- the algorithm (Fig. 2)


def step_size(policy, lam, n, t):
    """η_t of each policy, never more than 1/λ: a longer step would turn w round."""
    match policy:
        case InverseTime():
            eta = 1.0 / (lam * t)
        case Norma(p):
            eta = (0.5 * np.sqrt(2.0 + 0.5 * n**-0.5) if p is None else p) / (lam * np.sqrt(t))
        case Constant(eta):
            pass
        case Bottou(eta0):
            eta = eta0 / (1.0 + lam * eta0 * t)
    return min(eta, 1.0 / lam)


def capped(eta, target, X, s, intercept):
    """η at most the inverse smoothness of the batch, for squared losses; a bias adds 1 to ‖x‖²."""
    if not isinstance(getattr(target, "loss", None), SQUARED):
        return eta
    norms2 = np.sum(X**2, axis=1) + (intercept != "none")
    return min(eta, 1.0 / max(2.0 * np.mean(s * norms2), np.finfo(float).tiny))


def project(W, b, radius, intercept, joint, G):
    """The nearest point of the ball, for all outputs together or for each on its own (Eq. 6), and its slopes G."""
    norm2 = np.sum(W**2, axis=0) + (b**2 if intercept == "regularized" else 0.0)
    norm = np.sqrt(norm2.sum() if joint else norm2)
    factor = np.where(norm > radius, radius / np.where(norm > radius, norm, 1.0), 1.0)
    return factor * W, factor * b if intercept == "regularized" else b, factor * G


def radius(X, y, target, lam, outputs, s, intercept):
    """A ball that holds the optimum for any intercept: √(2P(0)/λ); √(P(0)/λ) for the hinge (proof of Theorem 1)."""
    at_zero = np.mean(s[:, None] * values(target, np.zeros((len(y), outputs)), y), axis=0)
    return np.sqrt((1.0 if isinstance(getattr(target, "loss", None), Hinge) else 2.0) * at_zero / lam)


def pegasos(X, y, target, lam, batches, policy, outputs=1, s=None, intercept="none", ball=None):
    """(w_1, b_1) … (w_{T+1}, b_{T+1}) for the given batches; projected where a ball's radius is given."""
    return [
        (W, b) for W, b, _, _ in pegasos_with_slopes(X, y, target, lam, batches, policy, outputs, s, intercept, ball)
    ]


def pegasos_with_slopes(X, y, target, lam, batches, policy, outputs=1, s=None, intercept="none", ball=None):
    """The same with the weighted slopes of all examples that each w is made of, λw = −(1/n) Xᵀ Ḡ, and their weights.

    Slopes of an example whose weight is at most 1 are those of a dual point.
    """
    s = np.ones(len(y)) if s is None else s
    joint = not isinstance(target, (Single, OneVsRest))
    W, b = np.zeros((X.shape[1], outputs)), np.zeros(outputs)
    mean, weight = np.zeros((len(y), outputs)), np.zeros(len(y))
    iterates = [(W, b, mean, weight)]
    for t, A in enumerate(batches, 1):
        if intercept == "exact":
            G = balanced_slopes(target, X[A] @ W, y[A], s[A])
        else:
            G = s[A, None] * slopes(target, X[A] @ W + b, y[A])
        eta = capped(step_size(policy, lam, len(y), t), target, X[A], s[A], intercept)
        W = (1.0 - eta * lam) * W - eta / len(A) * X[A].T @ G
        if intercept == "regularized":
            b = (1.0 - eta * lam) * b - eta / len(A) * G.sum(axis=0)
        elif intercept == "unregularized":
            b = b - eta / len(A) * G.sum(axis=0)
        mean, weight = (1.0 - eta * lam) * mean, (1.0 - eta * lam) * weight
        np.add.at(mean, A, eta * lam * len(y) / len(A) * G)
        np.add.at(weight, A, eta * lam * len(y) / len(A))
        if ball is not None:
            W, b, mean = project(W, b, ball, intercept, joint, mean)
        iterates.append((W, b, mean, weight))
    return iterates


def dual_value(X, y, target, lam, G, s, intercept):
    """D of weighted slopes G of shape (n, outputs), for each output, or the whole of a joint loss."""
    n, used = len(y), s > 0.0
    values = -np.sum(s[used, None] * conjugates(target, G[used] / s[used, None], y[used]), axis=0) / n
    norms2 = np.sum((X.T @ G / n) ** 2, axis=0)
    if intercept == "regularized":
        norms2 += np.mean(G, axis=0) ** 2
    joint = not isinstance(target, (Single, OneVsRest))
    return values - (norms2.sum() if joint else norms2) / (2.0 * lam)


def average(iterates, kind):
    """The mean of w_1 … w_T: all alike, weights ∝ t, or from the last but one power of two ≤ T on."""
    t = np.arange(1, len(iterates) + 1)
    newest = 2 ** (len(iterates).bit_length() - 1)
    weights = {"uniform": np.ones(len(t)), "weighted": t, "suffix": t >= newest // 2}[kind]
    return tuple(np.average(np.array(part), axis=0, weights=weights) for part in zip(*iterates, strict=True))


# ---------------------------------------------------------------- the bias (Sec. 6)


def best_bias(loss, z, y, s):
    """(b, slopes): a minimiser of Σ sᵢ ℓ(zᵢ + b, yᵢ), and sub-gradients sᵢgᵢ there that sum to zero (Eq. 24)."""
    if loss_falls_for_ever(loss, y, s):
        return np.inf * np.sign(y[0]), np.zeros(len(z))
    kinks = y - z
    width = getattr(loss, "epsilon", 0.0)
    if not isinstance(loss, PIECEWISE_LINEAR):
        reach = 1.0 + width
        while s @ scalar_slopes(loss, z + kinks.min() - reach, y) > 0 or (
            s @ scalar_slopes(loss, z + kinks.max() + reach, y) < 0
        ):
            reach *= 2.0
        b = brentq(lambda b: s @ scalar_slopes(loss, z + b, y), kinks.min() - reach, kinks.max() + reach, xtol=1e-15)
        return b, s * scalar_slopes(loss, z + b, y)
    breaks = np.unique(np.concatenate([kinks - width, kinks + width]))
    between = np.concatenate([breaks[:1] - 1.0, 0.5 * (breaks[1:] + breaks[:-1]), breaks[-1:] + 1.0])
    S = np.array([s * scalar_slopes(loss, z + b, y) for b in between])
    D = np.where(np.abs(S.sum(axis=1)) <= 1e-13 * s.sum(), 0.0, S.sum(axis=1))
    j = int(np.argmax(D >= 0.0))
    if D[j] == 0.0:
        return between[j], S[j]
    share = D[j] / (D[j] - D[j - 1])
    return breaks[j - 1], share * S[j - 1] + (1.0 - share) * S[j]


def loss_falls_for_ever(loss, y, s):
    """Whether no finite b is best: the log-loss of a single class."""
    return isinstance(loss, Log) and len(np.unique(y[s > 0])) < 2


def balanced_slopes(target, Z, y, s):
    """Slopes of a batch under the best bias of each output."""
    labels, weights = separate(target, y, Z.shape[1])
    columns = [best_bias(target.loss, Z[:, c], labels[:, c], s * weights[:, c])[1] for c in range(Z.shape[1])]
    return np.stack(columns, axis=1)


# ---------------------------------------------------------------- the optimum


def quadratic_program(P, q, G, h):
    """argmin ½uᵀPu + qᵀu subject to Gu ≤ h, by a primal-dual interior-point method."""
    u, slack, dual = np.zeros(len(q)), np.maximum(h, 1.0), np.ones(len(h))
    for _ in range(200):
        stationary, feasible = P @ u + q + G.T @ dual, G @ u + slack - h
        complementary = slack @ dual / len(h)
        if max(np.abs(stationary).max(), np.abs(feasible).max(), 1e2 * complementary) < 1e-10:
            return u
        # no less than half of what is enough: rounding would rule
        target = slack * dual - max(0.1 * complementary, 5e-13)
        right = stationary + G.T @ ((dual * feasible - target) / slack)
        # the ridge serves directions that cost nothing, as a bias common to all classes; it moves no optimum
        du = -np.linalg.solve(P + 1e-8 * np.eye(len(q)) + G.T @ (G * (dual / slack)[:, None]), right)
        dslack = -feasible - G @ du
        ddual = -(target + dual * dslack) / slack
        both, step = np.concatenate([slack, dual]), np.concatenate([dslack, ddual])
        length = min(1.0, 0.99 / max(np.max(-step / both), 1e-300))
        u, slack, dual = u + length * du, slack + length * dslack, dual + length * ddual
    raise ArithmeticError(f"no optimum found: {stationary}, {feasible}, {complementary}")


def affine_pieces(target, y, outputs):
    """(A, a): the loss of row i is the maximum over p of A[p, i]·zᵢ + a[p, i], or the square of that."""
    if isinstance(target, MulticlassHinge):
        own = y.astype(int)
        return np.eye(outputs)[:, None, :] - np.eye(outputs)[own], target.cost[:, own]
    nothing = np.zeros(len(y))
    if isinstance(target.loss, (Hinge, SquaredHinge)):
        A, a = [nothing, -y], [nothing, np.ones(len(y))]
    else:
        A, a = [nothing, nothing + 1.0, nothing - 1.0], [nothing, -y - target.loss.epsilon, y - target.loss.epsilon]
    return np.array(A)[:, :, None], np.array(a)


def minimise_pieces(F, charged, y, target, s, b):
    """argmin over V of ½ Σ charged·V² + Σ sᵢ ℓ(FV + b)ᵢ for a maximum of affine pieces, or its square."""
    (n, d), outputs = F.shape, len(b)
    A, a = affine_pieces(target, y, outputs)
    unknowns = d * outputs
    squared = isinstance(getattr(target, "loss", None), SQUARED)
    P = np.diag(np.concatenate([np.repeat(charged, outputs), 2.0 * s if squared else np.zeros(n)]))
    q = np.concatenate([np.zeros(unknowns), np.zeros(n) if squared else s])
    rows = (F[None, :, :, None] * A[:, :, None, :]).reshape(len(A), n, unknowns)
    G = np.concatenate([rows, np.broadcast_to(-np.eye(n), (len(A), n, n))], axis=2)
    u = quadratic_program(P, q, G.reshape(-1, unknowns + n), -(a + A @ b).reshape(-1))
    return u[:unknowns].reshape(d, outputs)


def minimise_smooth(F, charged, y, target, s, b):
    """argmin over V of ½ Σ charged·V² + Σ sᵢ ℓ(FV + b)ᵢ for a differentiable loss."""

    def value_and_gradient(v):
        V = v.reshape(-1, len(b))
        Z = F @ V + b
        gradient = charged[:, None] * V + F.T @ (s[:, None] * slopes(target, Z, y))
        return 0.5 * charged @ np.sum(V**2, axis=1) + s @ values(target, Z, y).sum(axis=1), gradient.ravel()

    start = np.zeros(F.shape[1] * len(b))
    return minimize(value_and_gradient, start, jac=True, method="BFGS", options={"gtol": 1e-11}).x.reshape(-1, len(b))


def optimum(X, y, target, lam, outputs=1, s=None, intercept="none", b=0.0):
    """(W*, b*) of the objective: b as given for the intercept "none", and free unless it is regularised."""
    n, d = X.shape
    s = np.ones(n) if s is None else s
    b = np.broadcast_to(b, outputs)
    if isinstance(target, OneVsRest):
        labels, weights = separate(target, y, outputs)
        parts = [
            optimum(X, labels[:, c], Single(target.loss), lam, 1, s * weights[:, c], intercept, b[c])
            for c in range(outputs)
        ]
        return np.hstack([W for W, _ in parts]), np.concatenate([b for _, b in parts])
    F = X if intercept == "none" else np.column_stack([X, np.ones(n)])
    charged = np.full(F.shape[1], lam)
    if intercept not in ("none", "regularized"):
        charged[d] = 0.0
    smooth = isinstance(target, MulticlassLog) or isinstance(getattr(target, "loss", None), Log)
    V = (minimise_smooth if smooth else minimise_pieces)(F, charged, y, target, s / n, b)
    return V[:d], b if intercept == "none" else V[d]


# ---------------------------------------------------------------- small random problems

BINARY = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "log": Log(), "huberized": Huberized(0.5)}
REGRESSION = {
    "epsilon": EpsilonInsensitive(0.3),
    "squared_epsilon": SquaredEpsilon(0.3),
    "huberized_epsilon": HuberizedEpsilon(0.3, 0.5),
}
MULTICLASS = ("ovr_hinge", "multiclass_hinge", "multiclass_log")
#: Losses with rounded corners, and all others.
ROUNDED = ("huberized", "huberized_epsilon")
LOSSES = tuple(name for name in (*BINARY, *REGRESSION, *MULTICLASS) if name not in ROUNDED)


def small_data(name, rng, n=17, d=6, zeros=0.4):
    """(X, y, target, outputs) for a loss by name: normal features, a share of them zero, every class present."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) >= zeros)
    if name in BINARY:
        y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return X, y, Single(BINARY[name]), 1
    if name in REGRESSION:
        return X, rng.normal(1.0, 2.0, n), Single(REGRESSION[name]), 1
    y = rng.integers(0, 3, n).astype(float)
    y[:3] = 0.0, 1.0, 2.0
    if name == "ovr_hinge":
        return X, y, OneVsRest(Hinge(), rng.uniform(0.5, 3.0, 3)), 3
    cost = rng.uniform(0.5, 2.0, (3, 3)) * (1.0 - np.eye(3))
    return X, y, MulticlassHinge(cost) if name == "multiclass_hinge" else MulticlassLog(), 3
