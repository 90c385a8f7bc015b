"""Certificates of kernel machines for the kernel that was asked for: on the data as given, in exact arithmetic.

Solvers keep kernel values in float32, and what they know of a model are its scores for these values. Here the scores
are computed anew in float64 from the data as it was given, with a proven bound of what rounding may still have changed
(:func:`exact_scores`; the bound is that of :func:`widemargin.core.kernels.reach_of`). Both values of the certificate
allow for it: the primal value is not below the model's, the dual value not above one of the dual's.

All scores of n examples and m support vectors cost nm kernel values, which may be as many as training took. Of more
than FEW examples k = 256 are drawn first, by their weights, and then 2,048. Their scores are compared with those that
the solver knows. With L = ln 1e6 and M the largest difference, two things hold, each with a probability of 1 − 1e-6:
the mean over all examples, where those above M count as M, is at most the sample's plus M√(L/2k) (Dvoretzky, Kiefer,
Wolfowitz); and no more than the share L/k of all weight has larger differences (Wilks). These are allowed to be BEYOND
times M on the average. Where the sum of all that is more than SHARE of ``tol``, or of the gap that is left, all scores
are computed.

Massart: The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality. Annals of Probability 18 (1990).
Wilks: Determination of sample sizes for setting tolerance limits. Annals of Mathematical Statistics 12 (1941).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.distant import Distant
from ..core.interrupts import safe_place
from ..core.kernel_matrix import KernelMatrix
from ..core.kernels import reach_of
from ..core.measures import Absolute
from ..core.rows import as_matrix, some_rows
from ..models import KernelModel
from ..problems.kernel import KernelProblem
from ..problems.layout import Preparation
from ..problems.objective import Certificate

#: All scores of no more examples than FEW are computed; else those of so many are compared first, of 8 times as many
#: at least.
FEW, SAMPLES = 512, (256, 2048)
#: ln(1/p) for the probability p that a sample misleads; what unseen errors may be, in units of the largest seen.
UNLIKELY, BEYOND = math.log(1e6), 20.0
#: Errors that are not computed may have this share of ``tol``, or of the gap.
SHARE = 0.1
#: Entries of the data that are brought to float64 at a time, and kernel values that are computed.
ENTRIES, VALUES = 2**21, 2**22
#: u: the relative error of a number rounded to float64.
ROUNDING = 2.0**-53


def mean_at_most(seen: np.ndarray) -> float:
    """A bound of the mean of all numbers ≥ 0 from some that were drawn: see the head of this file."""
    room = math.sqrt(UNLIKELY / (2.0 * seen.size)) + BEYOND * UNLIKELY / seen.size
    return float(seen.mean() + room * seen.max())


class Exact:
    """The scores of some models of one kernel on the user's data, in float64.

    Parameters
    ----------
    preparation : how training laid out the rows
    kernel : the kernel of the rows that are laid out so
    X : the data as given
    chosen : the examples that support vectors are numbered among
    largest : at least max |k(x, x)|
    threads : threads that score
    """

    def __init__(
        self, preparation: Preparation, kernel: Any, X: Any, chosen: np.ndarray, largest: float, threads: int = 1
    ) -> None:  # fmt: skip
        self.preparation, self.kernel = replace(preparation, as_float32=False), kernel
        self.X, self.chosen, self.largest, self.threads = X, chosen, largest, threads

    def rows(self, which: np.ndarray) -> Any:
        """Some examples, as the kernel takes them, in float64."""
        own = self.chosen[which]
        if self.kernel.is_function:
            return self.X[own]
        X = self.X[np.ix_(own, self.chosen)] if self.kernel.is_table else self.X[own]
        return self.preparation.rows(self.kernel, X.astype(np.float64, copy=False), known=True)

    def vectors(self, which: np.ndarray) -> Any:
        """Support vectors, which a table has none of."""
        return None if self.kernel.is_table else self.rows(which)

    def scores(self, model: Any, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(scores, what they may be off by) of some examples, both of shape (examples, outputs).

        ``model`` has the support vectors of :meth:`vectors`.
        """
        n, width = which.size, max(1, self.X.shape[1])
        few = n
        if not (self.kernel.is_function or isinstance(self.X, Distant)):
            few = max(256, min(ENTRIES // width, VALUES // max(1, model.support.size)))
        cancels = self._cancels(model.vectors)
        own, terms = self._reach(model.vectors, model.support.size, cancels)
        # Σ |β| and Σ |β|r over the support vectors of each output
        table = np.stack([np.ones(model.support.size), own], axis=1)
        sizes, combined = np.abs(model.coef), getattr(model, "combined", None)
        sums = sizes @ table if combined is None else replace(model, coef=sizes).combined(table)
        scores = np.empty((n, sums.shape[0]))
        error = np.empty_like(scores)
        for first in range(0, n, few):
            part = slice(first, min(first + few, n))
            safe_place()
            rows = self.rows(which[part])
            scores[part] = model.decision_function(rows, threads=self.threads)
            reach, more = self._reach(rows, part.stop - part.start, cancels)
            rounded, added = max(terms, more), model.support.size + 8.0
            if self.kernel.of_distances:
                error[part] = (rounded * (1.0 + reach) + added)[:, None] * sums[:, 0]
                error[part] += rounded * sums[:, 1]
            else:
                error[part] = (rounded + added) * (reach[:, None] * sums[:, 1] + sums[:, 0])
            error[part] = ROUNDING * (error[part] + 4.0 + 4.0 * np.abs(scores[part]))
        return scores, error

    def _cancels(self, vectors: Any) -> bool:
        """Whether distances are made of ‖x‖² + ‖z‖² − 2⟨x, z⟩."""
        if not self.kernel.of_distances or isinstance(vectors, Distant):
            return self.kernel.of_distances
        return not KernelMatrix(self.kernel, some_rows(vectors, 0, 0), vectors).differences

    def _reach(self, rows: Any, count: int, cancels: bool) -> tuple[np.ndarray, float]:
        """(what kernel values of some rows may be off by, in roundings, their number): γ‖x‖² or γ‖x‖₁ for distances
        that cancel, 0 for others, else the root of :func:`reach_of`. Given values are not rounded.
        """
        kernel = self.kernel
        if not kernel.of_rows:
            return np.full(count, np.sqrt(self.largest)), 2.0
        squared = kernel.measure is not Absolute
        if isinstance(rows, Distant):
            sizes, terms = np.full(count, rows.sizes(squared)[1]), rows.shape[1]
        else:
            matrix = as_matrix(rows)
            if sp.issparse(matrix):
                sizes = np.asarray((matrix.multiply(matrix) if squared else abs(matrix)).sum(axis=1)).ravel()
                terms = int(np.diff(matrix.indptr).max(initial=0))
            else:
                sizes = np.einsum("ij,ij->i", matrix, matrix) if squared else np.abs(matrix).sum(axis=1)
                terms = matrix.shape[1]
        if not kernel.of_distances:
            return np.sqrt(reach_of(kernel, sizes)), 2.0 * terms + 20.0
        reach = kernel.gamma * sizes if cancels else np.zeros(count)
        return reach, 2.0 * terms + 20.0

    def certificate(
        self, parts: list[KernelProblem], model: KernelModel, known: Certificate, tol: float,
        seen: tuple[np.ndarray, float] | None, short: bool = False,
    ) -> Certificate | None:  # fmt: skip
        """The certificate of the sum of some binary problems, one for each row of the model's coefficients.

        ``known`` is what the solver knows, and ``seen`` what it goes by, if it can tell: see
        :meth:`widemargin.solvers.protocol.Solver.scores`. Where time is ``short`` for all scores, those of some do,
        and None is the answer where none are known.
        """
        model, problem = replace(model, vectors=self.vectors(model.support)), parts[0]
        if seen is not None and problem.n > FEW:
            for size in SAMPLES:
                if size == SAMPLES[0] or 8 * size <= problem.n:
                    found = self._sampled(parts, model, known, np.inf if short else tol, seen, size)
                    if found is not None:
                        return found
        if short and problem.n > FEW:
            return None
        scores, error = self.scores(model, np.arange(problem.n))
        values = np.zeros(2)
        for q, part in enumerate(parts):
            beta = np.zeros(part.n)
            beta[model.support] = model.coef[q]
            values += part.bounded(beta, scores[:, q], float(model.intercept[q]), error[:, q], self.largest + 1.0)[:2]
        return Certificate(float(values[0]), float(values[1]), float(values[0] - values[1]))

    def _sampled(
        self, parts: list[KernelProblem], model: KernelModel, known: Certificate, tol: float,
        seen: tuple[np.ndarray, float], count: int,
    ) -> Certificate | None:  # fmt: skip
        """The certificate by the scores of some examples; None if these do not tell enough."""
        allowed, rng = SHARE * max(tol * abs(known.primal), known.gap), np.random.default_rng(0)
        off, (responses, times) = 0.0, seen
        for q, part in enumerate(parts):
            s = part.binary_part(0)[2]
            which = np.sort(rng.choice(part.n, count, p=s / s.sum()))
            own = replace(model, coef=model.coef[q : q + 1], intercept=model.intercept[q : q + 1])
            scores, error = self.scores(own, which)
            apart = mean_at_most(np.abs(scores[:, 0] - responses[q, which]) + error[:, 0])
            cap, size = part.caps, np.zeros(part.n)
            size[model.support] = np.abs(model.coef[q])
            off += part.lam * apart * max(1.0, times) * float(cap.sum() + 0.5 * np.maximum(cap, size).sum())
            if part.has_free_bias:
                off += part.lam * abs(float(model.coef[q].sum())) * (2.0 + abs(float(model.intercept[q])))
        if not off <= allowed or known.gap < -off:
            return None
        primal, dual = known.primal + off, known.dual - off
        return Certificate(primal, dual, primal - dual)
