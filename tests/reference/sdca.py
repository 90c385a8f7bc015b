"""Dual coordinate ascent as the textbook has it (Hsieh et al., Algorithm 1), in NumPy, for any loss with a conjugate.

One output: labels y, caps C sᵢ, rows that hold the constant feature; α has the signs of w = Σ αᵢxᵢ. The maximum in one
coordinate is the root of the dual's slope, from the derivative of ℓ* alone: no closed form is used.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import xlogy

from widemargin.core.losses.losses import (
    EpsilonInsensitive,
    Hinge,
    Huberized,
    HuberizedEpsilon,
    Log,
    SquaredEpsilon,
    SquaredHinge,
)

TUBES = (EpsilonInsensitive, SquaredEpsilon, HuberizedEpsilon)


def charge(loss, a, y, cap):
    """cap ℓ*(−a/cap) and its derivative in a, inside the box."""
    match loss:
        case Hinge():
            return -y * a, -y
        case SquaredHinge():
            return -y * a + a**2 / (4.0 * cap), -y + a / (2.0 * cap)
        case Log():
            p, r = y * a / cap, 1.0 - y * a / cap
            return cap * (xlogy(p, p) + xlogy(r, r)), y * (np.log(p) - np.log(r)) if 0.0 < p < 1.0 else np.nan
        case EpsilonInsensitive(epsilon):
            return -y * a + epsilon * np.abs(a), -y + epsilon * np.sign(a)
        case SquaredEpsilon(epsilon):
            return -y * a + epsilon * np.abs(a) + a**2 / (4.0 * cap), -y + epsilon * np.sign(a) + a / (2.0 * cap)
        case Huberized(delta):
            return -y * a + delta * a**2 / (2.0 * cap), -y + delta * a / cap
        case HuberizedEpsilon(epsilon, delta):
            curved = delta * a**2 / (2.0 * cap)
            return -y * a + epsilon * np.abs(a) + curved, -y + epsilon * np.sign(a) + delta * a / cap


def maximum(loss, a, z, y, q, cap):
    """argmax over α in the box of −cap ℓ*(−α/cap) − (α − a) z − ½ q (α − a)²."""
    reach = 2.0 * abs(a) + 2.0 * (1.0 + abs(y) + abs(z)) / q  # beyond any maximum of the squared losses
    end = {Log: cap * (1.0 - 1e-15), SquaredHinge: reach, SquaredEpsilon: reach}.get(type(loss), cap)
    low, high = (-end, end) if isinstance(loss, TUBES) else sorted((y * end, y * 1e-15 * cap * isinstance(loss, Log)))
    if isinstance(loss, TUBES):
        pull = y - z + q * a  # slope at 0 but for the kink
        if abs(pull) <= loss.epsilon:
            return 0.0
        low, high = (0.0, high) if pull > 0.0 else (low, 0.0)

    def rise(x):
        return -charge(loss, x, y, cap)[1] - z - q * (x - a)

    if rise(low) <= 0.0 or rise(high) >= 0.0:
        return low if rise(low) <= 0.0 else high
    return brentq(rise, low, high, xtol=1e-300, rtol=1e-15)


def sdca(loss, X, y, caps, visits):
    """Yields (α, w) after each of the visits, from α = 0; the arrays are changed in place."""
    alpha, w = np.zeros(y.size), np.zeros(X.shape[1])
    for i in visits:
        if caps[i] > 0.0:
            new = maximum(loss, alpha[i], X[i] @ w, y[i], max(X[i] @ X[i], 1e-100), caps[i])
            w += (new - alpha[i]) * X[i]
            alpha[i] = new
        yield alpha, w


def dual(loss, X, y, caps, alpha):
    """D/λ = −Σ caps ℓ*(−α/caps) − ½‖w(α)‖²."""
    w = alpha @ X
    return -sum(charge(loss, *of)[0] for of in zip(alpha, y, caps) if of[2] > 0.0) - 0.5 * w @ w
