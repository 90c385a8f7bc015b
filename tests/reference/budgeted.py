"""Budgeted SGD as the paper prints it, one Python step after the other.

A step has several outcomes between which maintenance may choose; each is (‖Δ‖/η, vectors, coefficients).
Step rules of ``widemargin`` serve as names only.
"""

import numpy as np

from widemargin.solvers.budget import MarginPerceptronStep, NormaStep, PegasosStep


def step_size(rule, lam, t):
    """(η_t, λ) of Table 2."""
    match rule:
        case PegasosStep():
            return 1.0 / (lam * t), lam
        case NormaStep(eta):
            return eta / np.sqrt(t), lam
        case MarginPerceptronStep(eta):
            return eta, 0.0


def step(V, A, x, slope, kernel, lam, eta, budget, maintain, radius=np.inf):
    """All outcomes of one step of Algorithm 1 from vectors V with rows A of coefficients."""
    g = slope(A.T @ kernel(V, x[None])[:, 0])
    A = (1.0 - eta * lam) * A
    kept = [(V, A)]
    if g.any():
        V, A = np.vstack([V, x]), np.vstack([A, -eta * g])
        kept = maintain(V, A, kernel, len(V) > budget)
    return [
        (norm(np.vstack([V, W]), np.vstack([A, -C]), kernel) / eta, W, inside(W, C, kernel, radius)) for W, C in kept
    ]


def perceptron_batch(V, A, X, y, kernel, eta, budget, radius):
    """One step of a margin perceptron on a mini-batch X, in ±1 classes y: (vectors, coefficients), oldest first.

    The mean of the sub-gradients at the scores before the step; the oldest vectors go; then the ball of this radius.
    """
    wrong = y * (kernel(X, V) @ A) < 1
    V, A = np.vstack([V, X[wrong]])[-budget:], np.append(A, eta * y[wrong] / len(X))[-budget:]
    return V, inside(V, A[:, None], kernel, radius)[:, 0]


def norm(V, A, kernel):
    """‖Σ_j Φ(v_j) a_jᵀ‖."""
    return np.sqrt(max(np.sum(kernel(V, V) * (A @ A.T)), 0.0))


def inside(V, A, kernel, radius):
    """Projected to the ball of this radius."""
    return A * min(1.0, radius / max(norm(V, A, kernel), 1e-300))


def smallest(V, A, kernel):
    """arg min ‖α_j‖² k(x_j, x_j)."""
    return int(np.argmin(np.sum(A**2, axis=1) * np.diag(kernel(V, V))))


def remove(V, A, kernel, full):
    """Removal (Sec. 6.1) of any one."""
    return [(np.delete(V, p, 0), np.delete(A, p, 0)) for p in range(len(V))] if full else [(V, A)]


def project(V, A, kernel, full, span=1e-4):
    """Projection of the smallest onto the rest (Eq. 6.3), or of the newest where it nearly is in their span."""
    kept = [] if full else [(V, A)]
    for p in {smallest(V, A, kernel) if full else len(V) - 1, len(V) - 1}:
        W = np.delete(V, p, 0)
        onto = np.linalg.lstsq(kernel(W, W), kernel(W, V[[p]])[:, 0], rcond=1e-12)[0]
        distance2 = 1.0 - onto @ kernel(W, V[[p]])[:, 0]
        if (full and p == smallest(V, A, kernel)) or distance2 <= 1.01 * span:
            kept.append((W, np.delete(A, p, 0) + np.outer(onto, A[p])))
    return kept


def merged(a, b, kappa):
    """(‖Δ‖², h, α_z) of the best merge of coefficients a and b: all h of a grid, then ever finer around the best.

    After six of them h is known to 1e-10, and ‖Δ‖², which is flat there, to the last digit.
    """
    low, high = 0.0, 1.0
    for _ in range(6):
        h = np.linspace(low, high, 101)[:, None]
        z = a * kappa ** ((1 - h) ** 2) + b * kappa ** (h**2)
        best = int(np.argmax(np.sum(z**2, axis=1)))
        low, high = h[max(best - 1, 0), 0], h[min(best + 1, 100), 0]
    return np.sum(a**2) + np.sum(b**2) + 2 * kappa * np.sum(a * b) - np.sum(z[best] ** 2), h[best, 0], z[best]


def merge(V, A, kernel, full):
    """Merging (Sec. 6.3) of the smallest with any other."""
    m, kept = smallest(V, A, kernel), []
    for n in np.delete(np.arange(len(V)), m) if full else []:
        _, h, z = merged(A[m], A[n], kernel(V[[m]], V[[n]])[0, 0])
        W, C = V.copy(), A.copy()
        W[n], C[n] = h * V[m] + (1 - h) * V[n], z
        kept.append((np.delete(W, m, 0), np.delete(C, m, 0)))
    return kept or [(V, A)]


def forgetron(V, A, x, y, kernel, eta, budget, updates, forgotten):
    """One step of the self-tuned Forgetron (Dekel, Shalev-Shwartz and Singer), oldest vectors first.

    (vectors, coefficients, M, Q): M counts updates, Q is the sum of all Ψ so far, and φ is the largest with
    Ψ(φσ, φμ) + Q ≤ 15/32 M, Ψ(a, m) = a² + 2a(1 − m), σ the size of the oldest coefficient, μ its signed score.
    """
    if y * (kernel(x[None], V) @ A)[0] >= 1.0:
        return V, A, updates, forgotten
    V, A, updates, phi = np.vstack([V, x]), np.append(A, eta * y), updates + 1, 1.0
    if len(V) > budget:
        sigma, mu = abs(A[0]), np.sign(A[0]) * (kernel(V[:1], V) @ A)[0]

        def beyond(phi):
            return (phi * sigma) ** 2 + 2.0 * phi * sigma * (1.0 - phi * mu) + forgotten - 15.0 / 32.0 * updates

        if beyond(1.0) > 0.0:
            roots = np.roots([sigma**2 - 2.0 * sigma * mu, 2.0 * sigma, beyond(0.0)])
            phi = max(root.real for root in roots if abs(root.imag) < 1e-9 and 0.0 <= root.real <= 1.0)
        forgotten += beyond(phi) - beyond(0.0)
        V, A = V[1:], phi * A[1:]
    return V, A, updates, forgotten


def projectron(V, A, x, g, loss, importance, kernel, eta, threshold):
    """One step of Projectron++ (Orabona, Keshet and Caputo, Fig. 4): (‖Δ‖/η or None, vectors, coefficients).

    ``g`` is the slope without the importance, which is a longer step for mistakes and a larger limit for margin errors.
    """
    if loss <= 0.0:
        return None, V, A
    onto = np.linalg.lstsq(kernel(V, V), kernel(V, x[None])[:, 0], rcond=1e-12)[0] if len(V) else np.zeros(0)
    length2 = onto @ kernel(V, x[None])[:, 0] if len(V) else 0.0
    distance = np.sqrt(max(kernel(x[None], x[None])[0, 0] - length2, 0.0))
    tau = eta * importance
    if loss < 1.0:
        room = min(loss, 2.0 * (loss - distance / threshold))
        if room <= 0.0:
            return None, V, A
        tau = min(tau, room / (g @ g * length2))
    elif distance > threshold:
        return None, np.vstack([V, x]), np.vstack([A, -tau * g])
    return tau * np.linalg.norm(g) * distance / eta, V, A - tau * np.outer(onto, g)


def projectron_by_class(V, A, sets, x, own, other, loss, importance, kernel, eta, threshold, full):
    """The same with a span for each class, of the rows sets[c] of V: (‖Δ‖/η or None, vectors, coefficients, sets)."""
    if loss <= 0.0:
        return None, V, A, sets
    onto, distance2 = np.zeros((len(V), 2)), np.zeros(2)
    for side, c in enumerate((own, other)):
        S, k = V[sets[c]], kernel(V[sets[c]], x[None])[:, 0]
        onto[sets[c], side] = np.linalg.lstsq(kernel(S, S), k, rcond=1e-12)[0] if len(S) else np.zeros(0)
        distance2[side] = max(kernel(x[None], x[None])[0, 0] - onto[sets[c], side] @ k, 0.0)
    tau, length2 = eta * importance, 2.0 * kernel(x[None], x[None])[0, 0] - distance2.sum()
    if loss < 1.0:
        room = min(loss, 2.0 * (loss - np.sqrt(distance2.mean()) / threshold))
        if room <= 0.0:
            return None, V, A, sets
        tau = min(tau, room / length2)
    elif distance2.max() > threshold**2 and not full:
        new = np.zeros(A.shape[1])
        new[own], new[other] = tau, -tau
        grown = [rows + [len(V)] * (c in (own, other)) for c, rows in enumerate(sets)]
        return None, np.vstack([V, x]), np.vstack([A, new]), grown
    A = A.copy()
    A[:, own] += tau * onto[:, 0]
    A[:, other] -= tau * onto[:, 1]
    return tau * np.sqrt(distance2.sum()) / eta, V, A, sets
