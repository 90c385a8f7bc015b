"""Algorithm 1 of the SBP paper, in NumPy, with batches; the draws are given."""

import numpy as np

from reference.water_level import by_sorting, by_sorting_with_bias


def iterates(K, y, nu, batches, bias=False, eta0=None):
    """α and c after each batch of drawn points, which must be covered by the water."""
    n = y.size
    eta0 = 1.0 / np.sqrt(K.diagonal().max()) if eta0 is None else eta0
    alpha, c, kept = np.zeros(n), np.zeros(n), []
    for t, batch in enumerate(batches, start=1):
        if bias:
            level = by_sorting_with_bias(c, y, n * nu)
            # each class is covered up to its own surface: as many points of one as of the other
            k = np.searchsorted(pairs(c, y), 2 * level, side="left")
            tops = {sign: np.sort(c[y == sign])[max(k, 1) - 1] for sign in (1.0, -1.0)}
        else:
            tops = dict.fromkeys((1.0, -1.0), by_sorting(c, n * nu))
        assert all(c[i] <= tops[y[i]] + 1e-9 for i in batch)
        eta = eta0 / np.sqrt(t) / len(batch)
        for i in batch:
            alpha[i] += eta
        c = y * (K @ (alpha * y))
        r = np.sqrt(alpha @ c)
        if r > 1.0:
            alpha, c = alpha / r, c / r
        kept.append((alpha.copy(), c.copy()))
    return kept


def pairs(c, y):
    positive, negative = np.sort(c[y > 0]), np.sort(c[y < 0])
    k = min(positive.size, negative.size)
    return positive[:k] + negative[:k]
