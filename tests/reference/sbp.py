"""Algorithm 1 of the SBP paper, in NumPy, with batches; the draws are given."""

import numpy as np

from reference.water_level import by_sorting, by_sorting_with_bias, pairs


def iterates(K, y, nu, batches, bias=False):
    """α and c after each batch of drawn points, which must be covered by the water."""
    alpha, c, kept = np.zeros(y.size), np.zeros(y.size), []
    for t, batch in enumerate(batches, start=1):
        tops = dict.fromkeys((1.0, -1.0), by_sorting(c, y.size * nu))
        if bias:
            # each class is covered up to its own surface: as many points of one as of the other
            k = np.searchsorted(pairs(c, y), 2 * by_sorting_with_bias(c, y, y.size * nu), side="left")
            tops = {sign: np.sort(c[y == sign])[max(k, 1) - 1] for sign in (1.0, -1.0)}
        assert all(c[i] <= tops[y[i]] + 1e-9 for i in batch)
        for i in batch:
            alpha[i] += 1.0 / np.sqrt(K.diagonal().max() * t) / len(batch)
        c = y * (K @ (alpha * y))
        r = np.sqrt(alpha @ c)
        if r > 1.0:
            alpha, c = alpha / r, c / r
        kept.append((alpha.copy(), c.copy()))
    return kept
