"""Consensus ADMM as the textbook has it (Boyd et al., Sec. 7.1), in NumPy, with coordinate ascent for the hinge inside.

No intercept and a fixed ρ: part k minimises ρ/2 ‖w − (z − u)‖² + C Σ max(0, 1 − y⟨w, x⟩) by passes over its rows.
"""

import numpy as np


def rounds(parts, C, rho, theta, passes, seed, count):
    """z after so many rounds, for parts (X, y)."""
    K, d = len(parts), parts[0][0].shape[1]
    z, u, alpha = np.zeros(d), np.zeros((K, d)), [np.zeros(len(y)) for _, y in parts]
    for number in range(count):
        copies = np.empty((K, d))
        for k, (X, y) in enumerate(parts):
            rng, order = np.random.default_rng([seed, number, k]), np.arange(len(y), dtype=np.int32)
            for _ in range(passes):
                rng.shuffle(order)
                for i in order:
                    w = z - u[k] + X.T @ (alpha[k] * y) / rho
                    step = rho * (1.0 - y[i] * (X[i] @ w)) / (X[i] @ X[i])
                    alpha[k][i] = min(max(alpha[k][i] + step, 0.0), C)
            copies[k] = theta * (z - u[k] + X.T @ (alpha[k] * y) / rho) + (1.0 - theta) * z
        z = rho * (copies + u).sum(axis=0) / (1.0 + K * rho)
        u += copies - z
    return z
