"""Generated data: the papers' artificial sets, and one whose best separator is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arguments import not_negative, positive, whole

#: The share of noise in the squared length of a row.
NOISE = 0.1


class RareGroups:
    """Dense unit rows of a common group, and of rare groups that contradict its rule.

    The directions e₀, e₁, … are orthonormal and dense. With noise that is orthogonal to all of them, a row is

        common:           x = y a e₀ + noise,
        rare group g:     x = y a (e_g − κ e₀) + noise,      a² (1 + κ²) = 0.9.

    A rare row contradicts the common ones, and only rows of its group show e_g. A solver that draws rows at random has
    to wait for them. For G rare groups the separator with margin 1 has the squared norm B² = 1/a² + G (1 + κ)²/a². If a
    group has m rows, their noise of squared length 0.1 separates them too:

        B² = 1/a² + G (1 + κ)²/(a² + 0.1/m).

    κ is chosen so that B² = ``norm2``.

    Parameters
    ----------
    n : int
        The number of rows for which B² is ``norm2``.
    d : int
        The number of features.
    rng : numpy.random.Generator
        The source of random numbers, which draws the directions.
    groups : int, default=4
        The number G of rare groups.
    share : float, default=0.001
        The share of each rare group among the rows.
    norm2 : float, default=25.0
        The square B² of the separator's norm.
    flipped : float, default=0.0
        The share of labels that are wrong, from 0 to 0.5.

    Attributes
    ----------
    directions : ndarray of shape (groups + 1, d)
        The directions e₀, e₁, …, as rows.
    kappa : float
        The chosen κ.

    See Also
    --------
    rare_groups : Rows of such groups in one call.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data.generators import RareGroups
    >>> rng = np.random.default_rng(0)
    >>> made = RareGroups(1000, 50, rng, groups=2, share=0.01)
    >>> X, y = made.rows(made.members(100, rng), rng)
    >>> X.shape, bool(np.allclose(np.linalg.norm(X, axis=1), 1.0, atol=1e-5))
    ((100, 50), True)
    """

    def __init__(
        self,
        n: int,
        d: int,
        rng: np.random.Generator,
        *,
        groups: int = 4,
        share: float = 0.001,
        norm2: float = 25.0,
        flipped: float = 0.0,
    ) -> None:
        whole("n", n), whole("groups", groups)
        positive("share", share), positive("norm2", norm2)
        if whole("d", d) < groups + 2:
            raise ValueError(f"d must be at least {groups + 2} for {groups} rare groups, got {d}")
        if groups * share >= 1.0:
            raise ValueError(f"share must be less than 1/groups = {1.0 / groups:g}, got {share!r}")
        if not_negative("flipped", flipped) > 0.5:
            raise ValueError(f"flipped must be a number from 0 to 0.5, got {flipped!r}")
        self.groups, self.share, self.flipped = groups, share, flipped
        self.directions = np.linalg.qr(rng.normal(size=(d, groups + 1)))[0].T
        self.kappa = self._kappa(norm2, max(1, round(n * share)))

    def _norm2(self, kappa: float, rows: int) -> float:
        """B² for κ and a number of rows in each rare group."""
        a2 = (1.0 - NOISE) / (1.0 + kappa * kappa)
        return 1.0 / a2 + self.groups * (1.0 + kappa) ** 2 / (a2 + NOISE / rows)

    def _kappa(self, norm2: float, rows: int) -> float:
        """κ for a B², by bisection, since B² grows with κ."""
        low, high = 0.0, 1e4
        least, most = self._norm2(low, rows), self._norm2(high, rows)
        if not least <= norm2 <= most:
            raise ValueError(
                f"norm2 must lie between {least:.3g} and {most:.3g} for {self.groups} rare groups of {rows} rows, "
                f"got {norm2!r}"
            )
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._norm2(middle, rows) < norm2 else (low, middle)
        return low

    def members(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return the groups of n rows in random order.

        Parameters
        ----------
        n : int
            The number of rows.
        rng : numpy.random.Generator
            The source of random numbers, which draws the order.

        Returns
        -------
        ndarray of shape (n,)
            The group of each row. 0 is the common group, and each rare group has its share.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.data.generators import RareGroups
        >>> rng = np.random.default_rng(0)
        >>> np.bincount(RareGroups(1000, 50, rng, groups=2, share=0.01).members(1000, rng)).tolist()
        [980, 10, 10]
        """
        group, rare = np.zeros(n, np.int64), max(1, round(n * self.share))
        group[: self.groups * rare] = np.repeat(np.arange(1, self.groups + 1), rare)[:n]
        return rng.permutation(group)

    def rows(self, group: np.ndarray, rng: np.random.Generator, dtype: Any = np.float32) -> tuple:
        """Return rows of the groups given, and their labels.

        Parameters
        ----------
        group : array of int of shape (m,)
            The group of each row, as :meth:`members` gives them.
        rng : numpy.random.Generator
            The source of random numbers, which draws labels and noise.
        dtype : float32 or float64, default=float32
            The type of X.

        Returns
        -------
        X : ndarray of shape (m, d)
            The rows, of length 1.
        y : ndarray of shape (m,)
            Their labels, −1 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin.data.generators import RareGroups
        >>> rng = np.random.default_rng(0)
        >>> X, y = RareGroups(1000, 50, rng, groups=2, share=0.01).rows(np.array([0, 0, 1, 2]), rng)
        >>> X.shape, y.shape
        ((4, 50), (4,))
        """
        y, a = rng.choice([-1.0, 1.0], group.size), math.sqrt((1.0 - NOISE) / (1.0 + self.kappa**2))
        signal = np.zeros((group.size, self.groups + 1))
        signal[:, 0] = -self.kappa * a
        signal[np.arange(group.size), group] = a
        signal[group == 0, 0] = a
        directions = self.directions.astype(dtype)
        X = rng.standard_normal((group.size, directions.shape[1]), dtype=np.dtype(dtype).type)
        X -= (X @ directions.T) @ directions
        noise = np.sqrt(1.0 - np.sum(signal * signal, axis=1))
        X *= (noise / np.sqrt(np.einsum("ij,ij->i", X, X))).astype(dtype)[:, None]
        X += (y[:, None] * signal).astype(dtype) @ directions
        return X, np.where(rng.random(group.size) < self.flipped, -y, y)


def rare_groups(n: int, d: int, rng: np.random.Generator, *, dtype: Any = np.float32, **options: Any) -> tuple:
    """Return n dense unit rows of a common group, and of rare groups that contradict its rule.

    Parameters
    ----------
    n : int
        The number of rows.
    d : int
        The number of features.
    rng : numpy.random.Generator
        The source of random numbers, which draws everything.
    dtype : float32 or float64, default=float32
        The type of X.
    **options : values
        The parameters ``groups``, ``share``, ``norm2`` and ``flipped`` of :class:`RareGroups`.

    Returns
    -------
    X : ndarray of shape (n, d)
        The rows, of length 1.
    y : ndarray of shape (n,)
        Their labels, −1 and 1.
    group : ndarray of shape (n,)
        Their groups; 0 is the common one.

    See Also
    --------
    RareGroups : The rule, and rows of further data with it.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data.generators import rare_groups
    >>> X, y, group = rare_groups(1000, 50, np.random.default_rng(0), groups=2, share=0.01, norm2=25.0)
    >>> X.shape, np.bincount(group).tolist()
    ((1000, 50), [980, 10, 10])
    """
    made = RareGroups(n, d, rng, **options)
    group = made.members(n, rng)
    return *made.rows(group, rng, dtype), group


def checkerboard(n: int, rng: np.random.Generator, *, fields: int = 4, dtype: Any = np.float32) -> tuple:
    """Return n uniform points of a board whose fields alternate, scaled to mean 0 and variance 1.

    Parameters
    ----------
    n : int
        The number of points.
    rng : numpy.random.Generator
        The source of random numbers, which draws everything.
    fields : int, default=4
        The number of fields along a side.
    dtype : float32 or float64, default=float32
        The type of X.

    Returns
    -------
    X : ndarray of shape (n, 2)
        The points.
    y : ndarray of shape (n,)
        Their labels, 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data.generators import checkerboard
    >>> X, y = checkerboard(1000, np.random.default_rng(0))
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 2), [0, 1])
    """
    whole("n", n), whole("fields", fields)
    X = rng.random((n, 2), dtype=np.dtype(dtype).type) * fields
    y = (X.astype(np.int64).sum(axis=1) % 2).astype(np.int64)
    X -= np.dtype(dtype).type(fields / 2)
    X /= np.dtype(dtype).type(fields / math.sqrt(12.0))
    return X, y


def gauss(n: int, rng: np.random.Generator, *, dtype: Any = np.float32) -> tuple:
    """Return n points of two overlapping clouds in the plane.

    They are N((0, 0), I) with the label 0 and N((2, 0), 4I) with 1.

    Parameters
    ----------
    n : int
        The number of points.
    rng : numpy.random.Generator
        The source of random numbers, which draws everything.
    dtype : float32 or float64, default=float32
        The type of X.

    Returns
    -------
    X : ndarray of shape (n, 2)
        The points.
    y : ndarray of shape (n,)
        Their labels, 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data.generators import gauss
    >>> X, y = gauss(1000, np.random.default_rng(0))
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 2), [0, 1])
    """
    y = rng.integers(2, size=whole("n", n))
    X = rng.normal(size=(n, 2)) * (1 + y)[:, None]
    X[:, 0] += 2 * y
    return X.astype(dtype), y


def waveform(n: int, rng: np.random.Generator, *, dtype: Any = np.float32) -> tuple:
    """Return n of Breiman's waveforms, each a random mixture of two of three triangles in 21 places, with unit noise.

    Parameters
    ----------
    n : int
        The number of rows.
    rng : numpy.random.Generator
        The source of random numbers, which draws everything.
    dtype : float32 or float64, default=float32
        The type of X.

    Returns
    -------
    X : ndarray of shape (n, 21)
        The waveforms.
    y : ndarray of shape (n,)
        Their labels, 0, 1 and 2: which two triangles are mixed.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data.generators import waveform
    >>> X, y = waveform(1000, np.random.default_rng(0))
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 21), [0, 1, 2])
    """
    places = np.arange(1, 22)
    triangles = np.stack([np.maximum(6 - np.abs(places - top), 0) for top in (11, 15, 7)])
    y = rng.integers(3, size=whole("n", n))
    first, second = np.array([0, 0, 1])[y], np.array([1, 2, 2])[y]
    u = rng.random((n, 1))
    X = u * triangles[first] + (1 - u) * triangles[second] + rng.normal(size=(n, 21))
    return X.astype(dtype), y
