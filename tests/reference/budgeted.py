"""Budgeted SGD as the paper prints it, one Python step after the other."""

import numpy as np


def bsgd(X, slope, kernel, lam, eta, budget, maintain, radius=np.inf):
    """Algorithm 1: returns the vectors, their rows of coefficients, and ‖Δ‖/η of every maintenance."""
    V, A, lost = np.empty((0, X.shape[1])), np.empty((0, slope(0, None).size)), []
    for t, x in enumerate(X, 1):
        g = slope(t - 1, A.T @ kernel(V, x[None])[:, 0])
        A = (1.0 - eta(t) * lam) * A
        if g.any():
            V, A = np.vstack([V, x]), np.vstack([A, -eta(t) * g])
            if len(V) > budget:
                W, C = maintain(V, A, kernel)
                both, signed = np.vstack([V, W]), np.vstack([A, -C])
                lost.append(np.sqrt(max(np.sum(kernel(both, both) * (signed @ signed.T)), 0.0)) / eta(t))
                V, A = W, C
        norm = np.sqrt(np.sum(kernel(V, V) * (A @ A.T)))
        A = A * min(1.0, radius / norm) if norm > 0 else A
    return V, A, np.array(lost)


def smallest(V, A, kernel):
    """arg min ‖α_j‖² k(x_j, x_j)."""
    return int(np.argmin(np.sum(A**2, axis=1) * np.diag(kernel(V, V))))


def remove(V, A, kernel):
    """Removal (Sec. 6.1)."""
    p = smallest(V, A, kernel)
    return np.delete(V, p, 0), np.delete(A, p, 0)


def project(V, A, kernel):
    """Projection of the smallest onto the rest (Eq. 6.3)."""
    p = smallest(V, A, kernel)
    W = np.delete(V, p, 0)
    onto = np.linalg.lstsq(kernel(W, W), kernel(W, V[[p]])[:, 0], rcond=1e-12)[0]
    return W, np.delete(A, p, 0) + np.outer(onto, A[p])


def merged(a, b, kappa):
    """(‖Δ‖², h, α_z) of the best merge of coefficients a and b: all h of a grid, then ever finer around the best."""
    low, high = 0.0, 1.0
    for _ in range(12):
        h = np.linspace(low, high, 101)[:, None]
        z = a * kappa ** ((1 - h) ** 2) + b * kappa ** (h**2)
        best = int(np.argmax(np.sum(z**2, axis=1)))
        low, high = h[max(best - 1, 0), 0], h[min(best + 1, 100), 0]
    return np.sum(a**2) + np.sum(b**2) + 2 * kappa * np.sum(a * b) - np.sum(z[best] ** 2), h[best, 0], z[best]


def merge(V, A, kernel):
    """Merging of the smallest with its best partner (Sec. 6.3)."""
    m = smallest(V, A, kernel)
    found = [(*merged(A[m], A[n], kernel(V[[m]], V[[n]])[0, 0]), n) for n in range(len(V)) if n != m]
    _, h, z, n = min(found, key=lambda one: one[0])
    W, C = V.copy(), A.copy()
    W[n], C[n] = h * V[m] + (1 - h) * V[n], z
    return np.delete(W, m, 0), np.delete(C, m, 0)
