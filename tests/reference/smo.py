"""The dual of a kernel SVM as the textbook has it, in NumPy, solved by a general method for tiny problems.

Variables v have signs σ, offsets h and bounds C; K is the kernel between the variables' rows::

    D(α) = Σ hσα − ½ (σα)ᵀK(σα),   0 ≤ α ≤ C,   Σ σα = 0 where the bias is free
    P(α, b) = ½ (σα)ᵀK(σα) + Σ C [σ(h − f − b)]₊,   f = K(σα)
"""

import numpy as np
from scipy.optimize import minimize


def variables(y, epsilon, caps):
    """(σ, h, C, row) of a classifier (epsilon is None) or of a regressor with an ε-tube."""
    rows, ones = np.arange(y.size), np.ones(y.size)
    if epsilon is None:
        return y, y, caps, rows
    sigma, h = np.concatenate([ones, -ones]), np.concatenate([y - epsilon, y + epsilon])
    return sigma, h, np.tile(caps, 2), np.tile(rows, 2)


def dual_value(K, sigma, h, alpha):
    c = sigma * alpha
    return h @ c - 0.5 * c @ K @ c


def primal_value(K, sigma, h, cap, alpha, b):
    c = sigma * alpha
    return 0.5 * c @ K @ c + cap @ np.maximum(0.0, sigma * (h - K @ c - b))


def best_bias(K, sigma, h, cap, alpha):
    """The b with the lowest primal value, which is piecewise linear in b with kinks where h − f = b."""
    kinks = h - K @ (sigma * alpha)
    return min(kinks, key=lambda b: primal_value(K, sigma, h, cap, alpha, b))


def optimum(K, sigma, h, cap, free_bias):
    """α* by sequential quadratic programming, in units in which the largest bound is 1."""
    unit = cap.max()
    Q = unit * (sigma[:, None] * K * sigma[None, :])
    found = minimize(
        lambda a: 0.5 * a @ Q @ a - (h * sigma) @ a,
        np.zeros(h.size),
        jac=lambda a: Q @ a - h * sigma,
        bounds=[(0.0, c / unit) for c in cap],
        constraints=[{"type": "eq", "fun": lambda a: sigma @ a, "jac": lambda a: sigma}] if free_bias else [],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return unit * np.clip(found.x, 0.0, cap / unit)


def optimal_values(K, sigma, h, cap, free_bias):
    """(P, D) at the optimum, which agree as far as the method came."""
    alpha = optimum(K, sigma, h, cap, free_bias)
    b = best_bias(K, sigma, h, cap, alpha) if free_bias else 0.0
    return primal_value(K, sigma, h, cap, alpha, b), dual_value(K, sigma, h, alpha)


def move_pairs(K, sigma, cap, alpha, e, most):
    """Up to ``most`` pairs chosen by second-order information (Fan, Chen and Lin 2005), in place; returns how many.

    The first of a pair has the largest e of those whose σα can rise, the second promises the largest gain with it.
    Differences of rows have the precision of K.
    """
    wide = K.astype(np.float64)
    for moved in range(most):
        rises = np.where(sigma > 0.0, alpha < cap, alpha > 0.0)
        falls = np.where(sigma > 0.0, alpha > 0.0, alpha < cap)
        i = int(np.argmax(np.where(rises, e, -np.inf)))
        if not rises[i] or not np.any(falls & (e < e[i])):
            return moved
        curvature = wide[i, i] + wide.diagonal() - 2.0 * wide[i]
        gains = np.where(falls & (e < e[i]), (e[i] - e) ** 2 / np.maximum(curvature, 1e-12), -1.0)
        j = int(np.argmax(gains))
        rooms = [cap[v] - alpha[v] if up == (sigma[v] > 0.0) else alpha[v] for v, up in ((i, True), (j, False))]
        t = min((e[i] - e[j]) / max(curvature[j], 1e-12), *rooms)
        alpha[i] += sigma[i] * t
        alpha[j] -= sigma[j] * t
        for v, room in zip((i, j), rooms, strict=True):
            if t == room:  # on the bound that is nearer
                alpha[v] = cap[v] if alpha[v] > 0.5 * cap[v] else 0.0
        e -= t * (K[i] - K[j])
    return most
