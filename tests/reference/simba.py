"""SIMBA as the paper prints it (Algorithm 1, with its bias and its adaptive rates), in plain NumPy."""

import numpy as np


def slack(p, mass):
    """ξ: 2 on the largest p until the mass is spent; those that are equal share what is left for them."""
    xi, left = np.zeros(p.size), np.ones(p.size, bool)
    while mass > 0.0 and left.any():
        among = left & (p >= p[left].max() * (1.0 - 1e-10))
        xi[among] = min(2.0, mass / among.sum())
        mass, left = mass - xi[among].sum(), left & ~among
    return xi


def chances(u, rule, rms):
    """The chance of each column."""
    size = {"squared": u * u, "absolute": np.abs(u), "scaled": np.abs(u) * rms}[rule]
    return size / size.sum()


def simba(
    X, y, nu, uniforms, *, primal="adaptive", dual="quadratic", rate="adaptive", rule="squared", bias=False, rms=None
):
    """(w̄, b̄, p) after as many steps as ``uniforms`` has pairs (example, column); ‖xᵢ‖ ≤ 1."""
    Z, T, n = y[:, None] * X, len(uniforms), y.size
    q, sums, total, bias_total = np.ones(n), np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0.0
    rms = np.sqrt(np.mean(X * X, axis=0)) if rms is None else rms
    for t, (first, second) in enumerate(uniforms, start=1):
        p = q / q.sum()
        i = np.searchsorted(np.cumsum(q), first * q.sum(), side="right")
        sums += Z[i] / np.sqrt(2.0 * t) if primal == "adaptive" else Z[i]
        u = sums / {"adaptive": 1.0, "averaging": np.sqrt(2.0 * t), "fixed": np.sqrt(2.0 * T)}[primal]
        w = u / max(1.0, np.linalg.norm(u))
        xi, b = slack(p, n * nu), np.sign(p @ y) if bias and abs(p @ y) > 1e-10 else 0.0
        eta = np.sqrt(np.log(n) / (t if rate == "adaptive" else T))
        v = xi + b * y
        if w.any():
            P = chances(w, rule, rms)
            j = np.searchsorted(np.cumsum(P), second, side="right")
            v = v + Z[:, j] * w[j] / P[j]
        z = eta * np.clip(v, -1.0 / eta, 1.0 / eta)
        q *= 1.0 - z + z * z if dual == "quadratic" else np.exp(-z)
        total, bias_total = total + w, bias_total + b
    return total / T, bias_total / T, q / q.sum()
