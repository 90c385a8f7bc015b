"""Certificates of kernel machines for the kernel that was asked for: on the data as given, in exact arithmetic.

Given: a model, dual variables β, and the scores that the solver knows, from kernel values in float32. Found: a primal
value that the model's is not above, and a dual value that the dual's is not below. Both allow for rounding in float64,
with the proven bound of :func:`widemargin.core.kernels.kernels.reach_of` (:meth:`Exact.scores`).

Cost: all scores of n examples and m support vectors take nm kernel values, perhaps as many as training took. But few
examples matter: support vectors, for the dual value, and examples that violate what their loss asks for, or nearly. So
a sample of them is drawn first.

1. An example is drawn with a probability in proportion to wᵢ = max(½|βᵢ|, C sᵢ) ρᵢ, which is the most that an error of
   its score may change. ρᵢ is 1 + rᵢ over the mean of r, where r says how rounding grows with a row
   (:meth:`Exact.reach`). The exact scores of the drawn examples are compared with the scores that the solver knows.
2. Let v be the change of the objective for a drawn example, over its wᵢ; 0 where the change is for the better. Let M be
   the largest error over ρ of the k drawn examples, and at least half of what float32 rounds a sum of independent terms
   by, ‖β‖ max k(x, x) 2⁻²⁴. Let L = ln 2e7. With a probability of 1 − 5e-8 each, at most the share L/k of all weight
   has errors above M (Wilks), and the rest changes the objective by at most Σw times mean v + M√(L/2k) (Dvoretzky,
   Kiefer, Wolfowitz, Massart).
3. Two things are assumed of what was not seen: the share of weight with errors above tM falls with t as 1/t at least,
   and no error is above BEYOND times M.
4. If all that may change is more than SHARE of ``tol``, or of the gap that is left, more examples are drawn; in the end
   the scores of all examples that matter are computed. The scores of the others are taken to be off by at most BEYOND
   times the largest difference.

Of no more than FEW examples all scores are computed, and nothing is assumed.

Wilks: Determination of sample sizes for setting tolerance limits. Annals of Mathematical Statistics 12 (1941).
Massart: The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality. Annals of Probability 18 (1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...core.kernels.kernels import reach_of
from ...core.kernels.matrix import KernelMatrix
from ...core.kernels.measures import Absolute
from ...core.kernels.pairs import pairs_of
from ...core.rows.distant import Distant
from ...core.rows.rows import as_matrix, some_rows
from ...core.threads.interrupts import safe_place, told
from ...models import KernelModel
from ...problems.bounds import Binary
from ...problems.kernel import KernelProblem
from ...problems.layout import Preparation
from ...problems.objective import Certificate
from ...problems.precision import largest_error
from ...solvers.smo.pairs import PairsProblem, members_of
from .fitting import now

FEW = 512  # examples. Of so many or fewer all scores are computed: a sample would save nothing
#: Sizes of the samples that are drawn, while twice as many examples matter.
SAMPLES = 64, 128, 256, 512, 1024
UNLIKELY = math.log(2e7)  # ln(1/p): p bounds each of three statements on five samples, less than 1e-6 in all
BEYOND = 20.0  # unseen errors may be so many times the largest seen
NEAR = 100.0  # an example matters within so many roundings of float32 of what its loss asks for
SHARE = 0.1  # share of tol, or of the gap, that errors may have which are not computed
ENTRIES = 2**21  # entries of the data that are brought to float64 at a time: 16 MB
VALUES = 2**18  # kernel values that are computed at a time
ROUNDING = 2.0**-53  # u: the relative error of a number rounded to float64
GRACE = 0.1  # seconds that scores may take where no time is left
FREE = 2**21  # kernel values that are computed in any case, before the clock is looked at


class Late(Exception):
    """Raised where there is no time for all scores."""


def over_pairs(c: int, table: np.ndarray, coef: np.ndarray, classes: np.ndarray, k: int) -> np.ndarray:
    """Σ_v coefficient × table[:, v] over the vectors of class c and of another one, for each of the k − 1 others.

    ``coef`` is in the layout of :mod:`widemargin.core.kernels.pairs`, and ``classes`` are those of the vectors, in
    order.
    """
    here, sums = classes == c, np.zeros((len(table), k))
    theirs = table * (coef[np.where(classes > c, c, c - 1), np.arange(classes.size)] * ~here)
    present, starts = np.unique(classes, return_index=True)
    if present.size:
        sums[:, present] = np.add.reduceat(theirs, starts, axis=1)
    return np.asarray(table[:, here] @ coef[:, here].T + np.delete(sums, c, axis=1))


class Draw:
    """Examples of a binary problem, drawn in proportion to what an error of their scores may change.

    Parameters
    ----------
    half : ½|β|: how an error of a score changes ½‖w‖²
    cap : C s: how an error of a score may change a loss
    missed : the argument of each loss's positive part; negative where an example satisfies what its loss asks for
    reach : how rounding grows with a row, for the examples that matter; half of the sample is drawn by it
    rounded : about how much float32 rounds scores by
    """

    def __init__(
        self, half: np.ndarray, cap: np.ndarray, missed: np.ndarray, reach: np.ndarray, rounded: float
    ) -> None:  # fmt: skip
        self.cap, self.missed, self.rounded = cap, missed, rounded
        self.near = missed > -NEAR * rounded
        most = np.maximum(half, cap * self.near)
        usual = float(most @ reach) / max(float(most.sum()), 1e-300)
        self.scale = 1.0 + (reach / usual if usual > 0.0 else 0.0 * reach)
        self.weight = most * self.scale
        self.count = int(np.count_nonzero(self.weight))
        self.which, self.seen, self.largest = np.empty(0, np.int64), np.empty((3, 0)), rounded
        if self.count:
            shares = self.weight / self.weight.sum()
            self.which = np.random.default_rng(0).choice(half.size, max(SAMPLES, default=0), p=shares)

    def add(self, error: np.ndarray, losses: np.ndarray, halves: np.ndarray) -> None:
        """Add what was seen of the next drawn examples: errors, increases of their losses, changes of ½βᵢ × score."""
        which = self.which[self.seen.shape[1] :][: error.size]
        changes = np.maximum([self.cap[which] * losses + halves, -halves], 0.0) / self.weight[which]
        self.seen = np.hstack([self.seen, np.vstack([error / self.scale[which], changes])])
        self.largest = max(float(error.max()), self.largest)

    def off(self, size: int) -> np.ndarray:
        """(increase of the primal value, decrease of the dual value), over λ, that known scores may hide.

        ``size`` is the number of examples that were drawn, or would be, with errors like those seen.
        """
        if not self.count:
            return np.zeros(2)
        most, share, unseen = float(self.seen[0].max()), min(1.0, UNLIKELY / size), BEYOND * self.largest
        mean = np.minimum(most, self.seen[1:].mean(axis=1) + most * math.sqrt(UNLIKELY / (2.0 * size)))
        found = self.weight.sum() * (mean + share * max(most, 0.5 * self.rounded) * math.log(BEYOND))
        found[0] += self.cap[~self.near] @ np.maximum(self.missed + unseen, 0.0)[~self.near]
        return np.asarray(found)


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
    deadline : when scores are to be done, on the clock of :func:`widemargin.estimators.fit.fitting.now`
    """

    def __init__(
        self, preparation: Preparation, kernel: Any, X: Any, chosen: np.ndarray, largest: float, threads: int = 1,
        deadline: float = math.inf,
    ) -> None:  # fmt: skip
        self.preparation, self.kernel = replace(preparation, as_float32=False), kernel
        self.X, self.chosen, self.largest, self.threads = X, chosen, largest, threads
        self._faced: tuple[Any, ...] = (None,)
        #: The largest errors of float32 that were seen: see :func:`widemargin.problems.precision.largest_error`.
        self.errors: list[float] = []
        self._was_told, grace = told(), now() + GRACE
        self._until, self._computed = grace if self._was_told else max(deadline, grace), 0

    def _check_time(self, values: int) -> None:
        """Raise Late if there is no time for so many more kernel values."""
        safe_place()
        self._computed += values
        if self._computed > FREE and (now() > self._until or (told() and not self._was_told)):
            raise Late

    def rows(self, which: np.ndarray) -> Any:
        """Some examples, as the kernel takes them, in float64."""
        own = self.chosen[which]
        if self.kernel.is_function:
            return self.X[own]
        X = self.X[np.ix_(own, self.chosen)] if self.kernel.is_table else self.X[own]
        return self.preparation.rows(self.kernel, X.astype(np.float64, copy=False), known=True)

    def vectors(self, which: np.ndarray) -> Any:
        """The support vectors as the kernel takes them; None for a table of kernel values."""
        return None if self.kernel.is_table else self.rows(which)

    def scores(self, model: Any, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(scores, bounds of their errors) of some examples, both of shape (examples, outputs).

        ``model`` has the support vectors that :meth:`vectors` gives.
        """
        n, width = which.size, max(1, self.X.shape[1])
        few = n
        if not (self.kernel.is_function or isinstance(self.X, Distant)):
            few = max(64, min(ENTRIES // width, VALUES // max(1, model.support.size)))
        matrix, own, terms, cancels = self._facing(model.vectors, model.support.size)
        offsets = model.intercept + model.constant * model.coef.sum(axis=1)
        table = np.stack([np.ones(model.support.size), own], axis=1)
        sums = np.abs(model.coef) @ table
        scores = np.empty((n, sums.shape[0]))
        error = np.empty_like(scores)
        for first in range(0, n, few):
            part = slice(first, min(first + few, n))
            self._check_time((part.stop - first) * model.support.size)
            rows = self.rows(which[part])
            if matrix is None:
                scores[part] = model.decision_function(rows)
            else:
                scores[part] = self._values(matrix, rows, model.support) @ model.coef.T + offsets
            reach, more = self._reach(rows, part.stop - part.start, cancels)
            error[part] = self._error(reach, max(terms, more), sums, model.support.size, scores[part])
        return scores, error

    def _error(
        self, reach: np.ndarray, rounded: float, sums: np.ndarray, count: int, scores: np.ndarray
    ) -> np.ndarray:  # fmt: skip
        """Bounds of the errors of the scores of rows of this reach.

        ``sums`` are Σ |β| and Σ |β|r of each output, over its ``count`` support vectors of reach r.
        """
        added = count + 8.0
        if self.kernel.of_distances:
            error = (rounded * (1.0 + reach) + added)[:, None] * sums[:, 0] + rounded * sums[:, 1]
        else:
            error = (rounded + added) * (reach[:, None] * sums[:, 1] + sums[:, 0])
        return np.asarray(ROUNDING * (error + 4.0 + 4.0 * np.abs(scores)))

    def _facing(self, vectors: Any, count: int) -> tuple[Any, np.ndarray, float, bool]:
        """(kernel matrix, reach and roundings of the support vectors, whether distances cancel); the answer is kept.

        The matrix has the support vectors as columns and no rows yet. It is None for tables, and where a GPU scores.
        """
        if vectors is None or self._faced[0] is not vectors:
            matrix = None
            if not (self.kernel.is_table or isinstance(vectors, Distant)):
                nothing = vectors[:0] if self.kernel.is_function else some_rows(vectors, 0, 0)
                matrix = KernelMatrix(self.kernel, nothing, vectors, threads=self.threads)
            # where distances are computed as ‖x‖² + ‖z‖² − 2⟨x, z⟩, digits cancel
            cancels = self.kernel.of_distances and (matrix is None or not matrix.differences)
            self._faced = vectors, matrix, *self._reach(vectors, count, cancels), cancels
        return self._faced[1:]

    def _values(self, matrix: Any, rows: Any, support: np.ndarray) -> np.ndarray:
        """Kernel values of some rows with the support vectors, in float64."""
        if self.kernel.is_table:
            return np.asarray(rows.values[:, support])
        facing = matrix.facing(rows)
        return np.asarray(facing.block(np.arange(facing.shape[0])))

    def _reach(self, rows: Any, count: int, cancels: bool) -> tuple[np.ndarray, float]:
        """(reach of each row, number of roundings): a kernel value's error is bounded by both and the rounding unit.

        The reach is γ‖x‖² or γ‖x‖₁ for distances that cancel, 0 for other distances, and else the root of
        :func:`reach_of`. Kernel values that were given are not rounded.
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

    def reach(self, model: Any, others: np.ndarray, n: int) -> np.ndarray:
        """How rounding grows with each of n rows (:meth:`_reach`), for support vectors and some others; else 0."""
        _, own, _, cancels = self._facing(model.vectors, model.support.size)
        reach = np.zeros(n)
        others = np.setdiff1d(others, model.support)
        few = max(64, ENTRIES // max(1, self.X.shape[1]))
        for first in range(0, others.size if self.kernel.of_rows else 0, few):
            part = others[first : first + few]
            self._check_time(0)
            reach[part] = self._reach(self.rows(part), part.size, cancels)[0]
        reach[model.support] = own
        return reach

    def certificate(
        self, parts: list[KernelProblem], model: KernelModel, known: Certificate, tol: float,
        seen: tuple[np.ndarray, float] | None,
    ) -> Certificate | None:  # fmt: skip
        """The certificate of the sum of some binary problems, one for each row of the model's coefficients.

        ``known`` is the solver's certificate, and ``seen`` are the scores it goes by, if the solver knows them: see
        :meth:`widemargin.solvers.protocol.Solver.scores`. If there is no time for all scores, the certificate is that
        of the last sample; it is None where no sample was drawn.
        """
        model, found = replace(model, vectors=self.vectors(model.support)), None
        each = [part.as_binary() for part in parts]
        binary = each[0]._replace(
            y=np.concatenate([of.y for of in each]), cap=np.concatenate([of.cap for of in each]),
            lam=np.array([of.lam for of in each]),
        )  # fmt: skip
        beta = np.zeros(binary.y.shape)
        beta[:, model.support] = model.coef
        responses, times = (np.full(beta.shape, np.nan), 1.0) if seen is None else seen

        def score(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            scores, error = self.scores(model, rows)
            self.errors.append(largest_error(responses[:, rows], scores.T))
            return scores.T, error.T

        try:
            allowed = SHARE * max(tol * abs(known.primal), known.gap)
            for off in self._sampled(binary, beta, model, responses, max(1.0, times), allowed):
                gap = known.gap + float(off.sum())
                found = Certificate(known.primal + float(off[0]), known.dual - float(off[1]), gap)
                closed = tol * abs(known.primal)
                if off.max() <= allowed and gap >= 0.0 and (gap <= closed or known.gap > closed):
                    return found
            scores, error = self._scored(binary.missed(responses), beta, responses, score)
        except Late:
            return found
        values = [v.sum() for v in binary.bounds(beta, scores, model.intercept, error, self.largest + 1.0)]
        return Certificate(float(values[0]), float(values[1]), float(values[0] - values[1]))

    def _sampled(
        self, binary: Binary, beta: np.ndarray, model: KernelModel, responses: np.ndarray, times: float, allowed: float
    ) -> Iterator[np.ndarray]:  # fmt: skip
        """Yield (increase of the primal value, decrease of the dual value) that known responses may hide.

        The estimates are those of larger and larger samples, as long as a larger sample may show that no more is hidden
        than is allowed.
        """
        if beta.shape[1] <= FEW or np.isnan(responses).any():
            return
        missed, slack = binary.missed(responses), np.zeros(len(beta))
        reach = self.reach(model, np.flatnonzero((missed > -NEAR * self._rounded(beta)).any(axis=0)), beta.shape[1])
        half = 0.5 * times**2 * beta
        draws = [
            Draw(np.abs(half[q]), binary.cap[q], missed[q], reach, self._rounded(beta[q : q + 1]))
            for q in range(len(beta))
        ]
        for q, c in enumerate(beta):
            if binary.is_free and c.any():  # Σ β is to be 0
                slope = np.abs(binary.y[q] - responses[q] + model.intercept[q])[c != 0.0].min()
                slack[q] = times * abs(float(c.sum())) * (slope + 2.0)

        def off(size: int) -> np.ndarray:
            found = np.array([draw.off(size) for draw in draws])
            found[:, 1] += slack
            return np.asarray(binary.lam @ found)

        matter = min(draw.count or beta.size for draw in draws)
        sizes = [size for size in SAMPLES if 2 * size <= matter]
        while sizes:
            for q, draw in enumerate(draws):
                if not draw.count:  # β is 0, and no error changes a loss
                    continue
                which = draw.which[draw.seen.shape[1] : sizes[0]]
                own = replace(model, coef=model.coef[q : q + 1], intercept=model.intercept[q : q + 1])
                scores, error = (of[:, 0] for of in self.scores(own, which))
                part = binary._replace(y=binary.y[q, which])
                losses = np.maximum(part.missed(scores) + error, 0.0) - np.maximum(missed[q, which], 0.0)
                moved = scores - responses[q, which]
                self.errors.append(largest_error(responses[q : q + 1, which], scores[None]))
                draw.add(np.abs(moved) + error, losses, half[q, which] * moved + np.abs(half[q, which]) * error)
            yield off(sizes[0])
            sizes = [size for size in sizes[1:] if off(size).max() <= allowed]

    def _scored(
        self, missed: np.ndarray, beta: np.ndarray, known: np.ndarray,
        score: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """(scores of all examples, bounds of their errors); the scores of the examples that matter are exact.

        ``known`` are approximate scores, NaN where they are not known; ``missed`` are the arguments of the losses at
        these scores; ``score`` computes the scores of some examples, with bounds of their errors.
        """
        n = known.shape[1]
        scores, error, done, apart = known.copy(), np.zeros(known.shape), np.zeros(n, bool), self._rounded(beta)
        for limit in (0.0, BEYOND):
            matter = ((beta != 0.0) | ~(missed <= -limit * apart)).any(axis=0) | (n <= FEW)
            rows = np.flatnonzero(matter & ~done)
            if rows.size:
                scores[:, rows], error[:, rows] = score(rows)
                differ = np.abs(scores[:, rows] - known[:, rows]) + error[:, rows]
                apart = max(apart, float(np.nanmax(differ, initial=0.0)))
                done[rows] = True
        error[:, ~done] = BEYOND * apart
        return scores, error

    def _rounded(self, beta: np.ndarray) -> float:
        """About how much float32 rounds scores by."""
        unit = float(np.max(np.abs(beta), initial=0.0)) or 1.0  # whose square may be beyond float64
        return 2.0**-24 * self.largest * unit * float(np.sqrt(np.max(np.sum((beta / unit) ** 2, axis=1))))

    def of_pairs(
        self, problem: PairsProblem, beta: np.ndarray, bias: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(primal, dual) of all pairs of classes, from coefficients and scores in the layout of their solver.

        The kernel values of an example are computed once for all its pairs. Raises Late.
        """
        k, codes = problem.n_classes, np.repeat(np.arange(problem.n_classes), problem.sizes)
        support, (first, second) = np.flatnonzero(beta.any(axis=0)), pairs_of(k)
        coef, classes, vectors = beta[:, support], codes[support], self.vectors(support)
        matrix, own, terms, cancels = self._facing(vectors, support.size)
        ones, biases = np.stack([np.ones(support.size), own]), np.empty((k - 1, k))
        biases[second - 1, first] = biases[first, second] = bias

        def score(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            scores, error = np.zeros((2, k - 1, rows.size))
            for c in np.unique(codes[rows]).tolist():
                of_class = codes[rows] == c
                self._check_time(int(np.count_nonzero(of_class)) * support.size)
                data = self.rows(rows[of_class])
                K = self._values(matrix, data, support)
                found = over_pairs(c, K + problem.whole.constant, coef, classes, k) + biases[:, c]
                sums = over_pairs(c, ones, np.abs(coef), classes, k).T
                reach, more = self._reach(data, len(K), cancels)
                error[:, of_class] = self._error(reach, max(terms, more), sums, support.size, found).T
                scores[:, of_class] = found.T
            return scores, error

        missed = 1.0 - np.where(np.arange(k - 1)[:, None] >= codes, known, -known)
        scores, error = self._scored(missed, beta, known, score)
        lams, weights, values = problem.lams(), problem.weights, np.zeros((2, bias.size))
        caps = 1.0 / (lams * problem.over_pairs(problem.sizes))
        for i in range(k - 1):
            pairs = slice(i * (2 * k - i - 1) // 2, (i + 1) * (2 * k - i - 2) // 2)
            taken, members = members_of(i, problem.sizes)
            y = np.where(taken(np.broadcast_to(codes, beta.shape)) == i, 1.0, -1.0)
            cap = members.spread(caps[pairs]) * taken(np.broadcast_to(weights, beta.shape))
            binary = Binary(
                problem.whole.loss, y, cap, lams[pairs], problem.whole.constant, problem.whole.has_free_bias
            )
            values[:, pairs] = binary.bounds(
                taken(beta), taken(scores), bias[pairs], taken(error), self.largest + 1.0, members
            )
        return values[0], values[1]
