"""The tracking algorithms as the textbooks have them, in NumPy, on a whole kernel matrix; the draws are given.

``draw(t)`` is the next number drawn from 0 … t − 1. Each yields what it has after every example.
"""

import numpy as np


def gradients(K, y, alpha):
    """g = 1 − y f."""
    return 1.0 - y * (K @ (alpha * y))


def best(K, y, C, alpha, i):
    """The change of αᵢ that raises the dual most, Eq. (3)."""
    return max(-alpha[i], min(C[i] - alpha[i], gradients(K, y, alpha)[i] / K[i, i]))


def dual(K, y, alpha):
    """D of Eq. (2)."""
    return alpha.sum() - 0.5 * (alpha * y) @ K @ (alpha * y)


def gap(K, y, C, alpha):
    """P(w(α)) − D(α) by the definitions, Eqs. (1) and (2)."""
    primal = 0.5 * (alpha * y) @ K @ (alpha * y) + C @ np.maximum(gradients(K, y, alpha), 0.0)
    return primal - dual(K, y, alpha)


def tracking(K, y, C, steps, draw, process):
    """Algorithm 1, and Algorithm 2 if ``process``; yields (α, ᾱ, the K iterates before each step) over all examples.

    The mean is taken before each step, as in the proofs.
    """
    alpha = np.zeros(y.size)
    for t in range(y.size):
        if process:
            alpha[t] += best(K, y, C, alpha, t)
        before = []
        for _ in range(steps):
            before.append(alpha.copy())
            i = draw(t + 1)
            alpha[i] += best(K, y, C, alpha, i)
        yield alpha.copy(), np.mean(before, axis=0), before


def greedy(K, y, C, steps):
    """PROCESS, then steps on the support vectors that gain most; yields α."""
    alpha = np.zeros(y.size)
    for t in range(y.size):
        alpha[t] += best(K, y, C, alpha, t)
        for _ in range(steps):
            change = np.array([best(K, y, C, alpha, i) if alpha[i] > 0.0 else 0.0 for i in range(t + 1)])
            gain = change * gradients(K, y, alpha)[: t + 1] - 0.5 * change**2 * K.diagonal()[: t + 1]
            if gain.max() > 0.0:
                alpha[gain.argmax()] += change[gain.argmax()]
        yield alpha.copy()


def randomised_lasvm(K, y, C, steps, draw):
    """Sec. 5: draws of examples without α are shortcut; yields α. Support vectors have places, which are drawn.

    A place that was left is given to the next that comes, the last left first; all other numbers are without α.
    """
    alpha, places, spare = np.zeros(y.size), [], []
    for t in range(y.size):
        alpha[t] += best(K, y, C, alpha, t)
        left = []
        if alpha[t] > 0.0:
            left.append(spare.pop() if spare else len(places))
            places[left[0] : left[0] + 1] = [t]
        for _ in range(steps):
            place = draw(max(t + 1, len(places)))
            if place < len(places) and places[place] >= 0 and alpha[places[place]] > 0.0:
                alpha[places[place]] += best(K, y, C, alpha, places[place])
                left += [place] if alpha[places[place]] == 0.0 else []
        for place in left:
            if places[place] >= 0 and alpha[places[place]] == 0.0:
                places[place] = -1
                spare.append(place)
        yield alpha.copy()


def pairs(K, y, C, steps):
    """LASVM with a free bias, keeping examples with α = 0 that violate or are extreme; yields (β, bias).

    Vectors have places as above; of equal ones, up to rounding, the first place counts.
    """
    beta, places, spare, waiting = np.zeros(y.size), [], [], []
    low, high = np.minimum(0.0, y * C), np.maximum(0.0, y * C)

    def ends():
        e = y - K @ beta
        top = max((e[i] for i in places if i >= 0 and beta[i] < high[i]), default=-np.inf)
        return e, top, min((e[i] for i in places if i >= 0 and beta[i] > low[i]), default=np.inf)

    for t in range(y.size):
        e, top, bottom = ends()
        new = (
            e[t] > bottom or bottom == np.inf > e[t] > top if y[t] > 0 else e[t] < top or top == -np.inf < e[t] < bottom
        )
        if new:
            place = spare.pop() if spare else len(places)
            places[place : place + 1], waiting = [t], [*waiting, t]
        for k in range(0 if new else 1, steps + 1):
            e, top, bottom = ends()
            first = t if k == 0 else next((i for i in places if i >= 0 and beta[i] < high[i] and e[i] >= top - 1e-9), t)
            if k == 0 or top - bottom > 1e-12:
                moved = step(K, e, beta, low, high, places, first, y[t] if k == 0 else 1.0)
                waiting += [i for i in moved if beta[i] == 0.0 and i not in waiting]
        e, top, bottom = ends()
        waiting = [i for i in waiting if beta[i] == 0.0]
        for i in list(waiting):
            idle = e[i] <= bottom + 1e-9 < np.inf if y[i] > 0 else e[i] >= top - 1e-9 > -np.inf
            if idle and (e[i] < top - 1e-9 if y[i] > 0 else e[i] > bottom + 1e-9):
                spare.append(places.index(i))
                places[spare[-1]] = -1
                waiting.remove(i)
        yield beta.copy(), 0.5 * (top + bottom) if np.isfinite(top - bottom) else min(top, bottom, key=abs)


def step(K, e, beta, low, high, places, i, sign):
    """βᵢ, which rises or falls by its sign, and its best partner move against each other, in place; returns the two."""
    allowed = beta > low if sign > 0 else beta < high
    others = [j for j in places if j >= 0 and allowed[j] and sign * (e[i] - e[j]) > 1e-12]
    if not others:
        return []
    curvature = {j: max(K[i, i] + K[j, j] - 2.0 * K[i, j], 1e-12) for j in others}
    gains = [(e[i] - e[j]) ** 2 / curvature[j] for j in others]
    j = next(j for j, gain in zip(others, gains) if gain >= max(gains) * (1.0 - 1e-9))
    up, down = (i, j) if sign > 0 else (j, i)
    t = min((e[up] - e[down]) / curvature[j], high[up] - beta[up], beta[down] - low[down])
    beta[up], beta[down] = beta[up] + t, beta[down] - t
    for k in (i, j):  # a variable that reaches a bound stands on it exactly
        near = [b for b in (low[k], high[k]) if abs(beta[k] - b) < 1e-12]
        beta[k] = near[0] if near else beta[k]
    return [up, down]


def batch(K, y, C, draws):
    """The batch counterpart of Sec. 6.3: steps on examples drawn from the whole set; returns α."""
    alpha = np.zeros(y.size)
    for i in draws:
        alpha[i] += best(K, y, C, alpha, i)
    return alpha
