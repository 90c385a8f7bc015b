"""Sources of rows and columns: one that remembers all that it has read, and one that computes what is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..arguments import generator, positive, whole
from ..core.rows.rows import checked_sparse
from ..core.rows.sources import Source


class Remembering:
    """A source that reads each value of another source at most once, for values that cost money or time.

    The other source may have a method ``values(rows, columns)`` that returns single entries. If it has, a row or a
    column is completed by the entries that are not known from earlier columns and rows.

    Parameters
    ----------
    source : Source
        The source that is asked.

    Attributes
    ----------
    shape : tuple of int
        The number of examples and of features.
    asked : int
        The number of values read from the other source (of sparse rows and columns, those that are not zero).

    See Also
    --------
    widemargin.Source : What the other source must offer.
    widemargin.Simba : The solver that reads one row and one column per step.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.data import Remembering
    >>> class Laboratory:
    ...     shape = 100, 3
    ...     def row(self, i):
    ...         return np.array([self.values([i], [j])[0] for j in range(3)])
    ...     def column(self, j):
    ...         return np.array([self.values([i], [j])[0] for i in range(100)])
    ...     def values(self, rows, columns):
    ...         return np.sin(np.asarray(rows) + 10.0 * np.asarray(columns))
    >>> known = Remembering(Laboratory())
    >>> _ = known.row(5), known.column(1), known.row(5)
    >>> known.asked
    102
    """

    def __init__(self, source: Source) -> None:
        self.source, self.shape, self.asked = source, tuple(source.shape), 0
        self._rows: dict[int, Any] = {}
        self._columns: dict[int, Any] = {}

    def row(self, i: int) -> Any:
        """Return the features of example i.

        Parameters
        ----------
        i : int
            The place of the example.

        Returns
        -------
        array or sparse array
            As many values as there are features.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin import TwoWays
        >>> from widemargin.data import Remembering
        >>> known = Remembering(TwoWays(np.array([[1.0, 2.0], [3.0, 4.0]])))
        >>> known.row(1).tolist()
        [3.0, 4.0]
        """
        return self._line(int(i), self._rows, self._columns, self.source.row, lambda rest: ([i] * rest.size, rest), 1)

    def column(self, j: int) -> Any:
        """Return feature j of all examples.

        Parameters
        ----------
        j : int
            The place of the feature.

        Returns
        -------
        array or sparse array
            As many values as there are examples.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin import TwoWays
        >>> from widemargin.data import Remembering
        >>> known = Remembering(TwoWays(np.array([[1.0, 2.0], [3.0, 4.0]])))
        >>> known.column(1).tolist()
        [2.0, 4.0]
        """
        return self._line(
            int(j), self._columns, self._rows, self.source.column, lambda rest: (rest, [j] * rest.size), 0
        )

    def _line(self, k: int, known: dict[int, Any], across: dict[int, Any], ask: Any, places: Any, axis: int) -> Any:
        if k in known:
            return known[k]
        if not hasattr(self.source, "values") or any(sp.issparse(line) for line in across.values()):
            line = ask(k)
            self.asked += line.nnz if sp.issparse(line) else np.size(line)
        else:
            line, missing = np.empty(self.shape[axis]), np.ones(self.shape[axis], bool)
            for place, other in across.items():
                line[place], missing[place] = other[k], False
            rest = np.flatnonzero(missing)
            if rest.size:
                line[rest] = self.source.values(*places(rest))
            self.asked += rest.size
        known[k] = line
        return line


class FourierFeatures:
    """Random Fourier features of the Gaussian kernel, computed when they are read.

    A linear machine of them is nearly a kernel machine. Feature j of x is √(2/D) cos(⟨ωⱼ, x⟩ + φⱼ) with ωⱼ normal of
    variance 2γ and φⱼ uniform, so that inner products are exp(−γ‖x − z‖²) up to O(1/√D). No row is longer than √2. A
    row takes D × d operations, a column n × d, and nothing of size n × D is ever held.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The examples.
    n_features : int
        The number D of features.
    gamma : float
        The factor γ of the kernel, > 0.
    random_state : int, Generator, RandomState or None, default=None
        The source of random numbers. The same integer gives the same features again.

    Attributes
    ----------
    shape : tuple of int
        The numbers n and D.
    directions : ndarray of shape (D, d)
        The ωⱼ, as rows.
    phases : ndarray of shape (D,)
        The φⱼ.

    See Also
    --------
    widemargin.Simba : The solver that reads one row and one column per step.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVC, Simba
    >>> from widemargin.data import FourierFeatures
    >>> rng = np.random.default_rng(0)
    >>> X, X_new = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    >>> inside = lambda X: np.sum(X**2, axis=1) < 1.4
    >>> features = FourierFeatures(X, n_features=100, gamma=1.0, random_state=0)
    >>> solver = Simba(nu=1e-3, size=2.0)
    >>> model = LinearSVC(solver=solver, max_iter=10, tol=0, random_state=0).fit(features, inside(X))
    >>> bool(model.score(features.of(X_new), inside(X_new)) > 0.85)
    True
    """

    def __init__(self, X: Any, n_features: int, gamma: float, random_state: Any = None) -> None:
        rng = generator(random_state)
        width = whole("n_features", n_features)
        self.X = _matrix(X)
        self.shape = self.X.shape[0], width
        self.directions = rng.normal(size=(width, self.X.shape[1])) * math.sqrt(2.0 * positive("gamma", gamma))
        self.phases = rng.uniform(0.0, 2.0 * math.pi, width)

    def of(self, X: Any) -> FourierFeatures:
        """Return the same features of other examples, to predict them.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_new, d)
            The other examples.

        Returns
        -------
        FourierFeatures
            Features with the same directions and phases.

        Examples
        --------
        >>> from widemargin.data import FourierFeatures
        >>> features = FourierFeatures([[0.0, 1.0], [2.0, 3.0]], n_features=5, gamma=1.0, random_state=0)
        >>> features.of([[2.0, 3.0]]).row(0).tolist() == features.row(1).tolist()
        True
        """
        other = object.__new__(FourierFeatures)
        other.X, other.directions, other.phases = _matrix(X), self.directions, self.phases
        other.shape = other.X.shape[0], self.shape[1]
        return other

    def row(self, i: int) -> np.ndarray:
        """Return the features of example i.

        Parameters
        ----------
        i : int
            The place of the example.

        Returns
        -------
        ndarray
            As many values as there are features.

        Examples
        --------
        >>> from widemargin.data import FourierFeatures
        >>> features = FourierFeatures([[0.0, 1.0], [2.0, 3.0]], n_features=5, gamma=1.0, random_state=0)
        >>> features.row(1).shape
        (5,)
        """
        x = self.X[[i]].toarray()[0] if sp.issparse(self.X) else np.asarray(self.X[i])
        return math.sqrt(2.0 / self.shape[1]) * np.cos(self.directions @ x + self.phases)

    def column(self, j: int) -> np.ndarray:
        """Return feature j of all examples.

        Parameters
        ----------
        j : int
            The place of the feature.

        Returns
        -------
        ndarray
            As many values as there are examples.

        Examples
        --------
        >>> from widemargin.data import FourierFeatures
        >>> features = FourierFeatures([[0.0, 1.0], [2.0, 3.0]], n_features=5, gamma=1.0, random_state=0)
        >>> features.column(4).shape
        (2,)
        """
        return math.sqrt(2.0 / self.shape[1]) * np.cos(self.X @ self.directions[j] + self.phases[j])


def _matrix(X: Any) -> Any:
    """X as a matrix whose rows can be indexed."""
    return checked_sparse(X) if sp.issparse(X) else np.asarray(X)
