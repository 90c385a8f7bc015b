"""Mehrotra's predictor and corrector on the whole system, in NumPy: nothing is eliminated, no sum is kept.

The box problem max Σ pα − qα²/2 − ½wᵀDw, 0 ≤ α ≤ u (infinite: no bound), Dw = Zᵀ(σα): rows of Z, σ, p, u and q have an
entry for each variable, D is a diagonal.
"""

import numpy as np


def newton(Z, D, sigma, q, alpha, room, lower, upper, right):
    """The changes (Δw, Δα, Δl, Δm) for the four right sides of the linearised conditions."""
    n, d = Z.shape
    S, I, O = sigma[:, None] * Z, np.eye(n), np.zeros((n, n))
    whole = np.block(
        [
            [S, np.diag(q), -I, I],
            [np.diag(D), -S.T, np.zeros((d, 2 * n))],
            [np.zeros((n, d)), np.diag(lower), np.diag(alpha), O],
            [np.zeros((n, d)), -np.diag(upper), O, np.diag(room)],
        ]
    )
    return np.split(np.linalg.solve(whole, np.concatenate(right)), [d, d + n, d + 2 * n])


def longest(values, changes):
    """How far all values stay positive."""
    return min([1.0 / 0.995, *(-v / c for v, c in zip(np.concatenate(values), np.concatenate(changes)) if c < 0.0)])


def steps(Z, D, sigma, p, u, q, n_steps, scale):
    """(w, α) after so many steps from w = 0, α at a quarter of its box, or of the scale of the targets over q, and
    multipliers at that scale.
    """
    bounded = np.isfinite(u)
    w, alpha = np.zeros(Z.shape[1]), np.where(bounded, 0.25 * u, 0.25 * scale / np.where(q > 0.0, q, 1.0))
    room, lower, upper = np.where(bounded, u - alpha, 1.0), np.full(u.size, scale), scale * bounded
    for _ in range(n_steps):
        first = [p + lower - upper - sigma * (Z @ w) - q * alpha, Z.T @ (sigma * alpha) - D * w]
        point = Z, D, sigma, q, alpha, room, lower, upper
        mean = (alpha @ lower + room @ upper) / (u.size + bounded.sum())
        _, da, dl, dm = newton(*point, [*first, -alpha * lower, -room * upper])
        t = min(1.0, longest((alpha, lower, room, upper), (da, dl, -da * bounded, dm)))
        after = (alpha + t * da) @ (lower + t * dl) + (room - t * da * bounded) @ (upper + t * dm)
        tau = mean * min(0.4, (after / (alpha @ lower + room @ upper)) ** 3)
        e, f = (np.clip(product, -6.0 * mean, 6.0 * mean) for product in (da * dl, -da * dm))
        right = [*first, tau - e - alpha * lower, (tau - f - room * upper) * bounded]
        dw, da, dl, dm = newton(*point, right)
        t = 0.995 * longest((alpha, lower, room, upper), (da, dl, -da * bounded, dm))
        w, alpha, lower, upper = w + t * dw, alpha + t * da, lower + t * dl, upper + t * dm
        room = np.where(bounded, room - t * da, 1.0)
    return w, alpha
