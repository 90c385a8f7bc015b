"""Kernel support vector machines with scikit-learn's conventions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import solvers
from ..arguments import flag, generator, not_negative, one_of, positive, threads
from ..core import losses
from ..core.kernel_cache import RowCache
from ..core.kernel_matrix import largest_value
from ..core.kernels import KERNELS, class_of
from ..core.measures import Absolute, sizes
from ..core.pairs import add_votes, first_pair
from ..core.rows import DenseRows, as_rows, dtype_of
from ..files import savable
from ..history import History
from ..models import KernelModel, PairsModel
from ..problems.kernel import KernelProblem
from ..problems.objective import Certificate, Certificates
from ..running import Interrupts, Outcome
from ..solvers.pairs import PairsProblem
from ..stopping import ROUNDED
from .fitting import (
    UNFINISHED,
    Shown,
    TrainedByRun,
    Turn,
    all_or_nothing,
    check_rows,
    check_solver,
    held_out,
    now,
    with_callbacks,
)
from .labels import Labelled, Numeric, class_weights
from .ladder import Ladder
from .scaling import check_values, divided, finite, largest_entry, new_rows, scaled_kernel, warn_if_too_small

#: Dense data with a smaller share of non-zeros is handled as CSR: its products are cheaper.
SPARSE_BELOW = 0.25
#: Data is rounded to float32 where no kernel value changes by more than this many times 2⁻²⁴.
MOVED = 32.0
#: Kernel values computed in float64, at most, to make a certificate true; and in a second, if time is short.
RECOMPUTED, RECOMPUTED_A_SECOND = 2e8, 2e7
#: Under a time limit, the share of it for samples, where the Stochastic Batch Perceptron can have the rest.
FOR_SAMPLES = 0.25
#: The share of a certified gap, or of ``tol``, that errors of float32 kernel values may have without that.
ERROR_SHARE = 0.25
#: The part of the cache that holds whole kernel rows for all binary problems, where they share them.
SHARED = 0.6
#: More pairs of classes than this are trained in one run, where their kernel matrices have at most so many values, on
#: the average.
MANY_PAIRS = 100
SMALL_PAIR = 2**16
#: The part of the cache that the kernel matrix of the largest such pair, and the rows of the largest class, may take.
PAIR_SHARE = 0.25
#: u: the relative error of a number rounded to float32.
FLOAT32_ROUNDING = 2.0**-24
FLOAT32_LARGEST = float(np.finfo(np.float32).max)
#: A kernel whose smallest eigenvalue on a sample is below this share of the largest is indefinite.
INDEFINITE = 1e-5


def moved_by_float32(kernel: Any, X: Any, centre: np.ndarray | None = None) -> float:
    """By how much at most a kernel value changes when rows are rounded to float32, in units of u = 2⁻²⁴.

    Rounding moves a row by at most u times its length, so a distance by at most 2uR, where R is the largest
    length of a row (less the centre), and a value by the kernel's steepness times that. Infinite where an entry is
    beyond float32.
    """
    most, tiny = FLOAT32_LARGEST, float(np.finfo(np.float32).tiny)
    squared, largest = kernel.measure is not Absolute, 0.0
    n, width = X.shape
    step = max(1, 2**20 // max(1, width))
    for first in range(0, n, step):
        part = X[first : first + step].astype(np.float64)
        part = abs(part if centre is None else part - centre)
        if part.max() > most:
            return math.inf
        if squared:
            part = part.multiply(part) if sp.issparse(part) else part * part
        largest = max(largest, float(np.max(part.sum(axis=1))))
    # entries too small for float32 to keep their relative precision are moved by u times its smallest normal number
    if squared:
        return 2.0 * kernel.steepness * (math.sqrt(largest) + math.sqrt(width) * tiny)
    return 2.0 * kernel.steepness * (largest + width * tiny)


@savable()
@dataclass
class Preparation:
    """How rows are laid out for kernel values: what keeps their precision and costs least.

    Kernels of distances do not change when a vector is subtracted from all rows, so dense float64 data is centred
    before it is rounded to float32; that halves memory and doubles speed. Sparse data cannot be centred. Data is
    rounded only where no kernel value changes by more than :data:`MOVED` roundings of float32, that is where √γ times
    the largest ‖x‖ is below 18 (Laplacian: γ times the largest ‖x‖₁ below 16; see :func:`moved_by_float32`). Other data
    stays float64, and dense data with few non-zeros is made CSR only where the same holds. Under a linear kernel a free
    bias takes up the shift, and dense data is centred too, since kernel rows are kept in float32. Other kernels keep
    the data.
    """

    centre: np.ndarray | None
    as_float32: bool
    as_csr: bool
    #: Rows are divided by two to this power first.
    exponent: int = 0

    @classmethod
    def of(cls, kernel: Any, X: Any, free_bias: bool) -> Preparation:
        """The preparation that suits the training data."""
        if not kernel.of_rows:
            return cls(None, False, False)
        of_distances, wide = kernel.of_distances, X.dtype == np.float64
        if sp.issparse(X):
            return cls(None, of_distances and wide and moved_by_float32(kernel, X) <= MOVED, True)
        if np.count_nonzero(X) < SPARSE_BELOW * X.size:
            if not of_distances:
                return cls(None, False, True)
            if moved_by_float32(kernel, X) <= MOVED:
                return cls(None, wide, True)
        if of_distances and wide:
            centre = X.mean(axis=0, dtype=np.float64)
            return cls(centre, moved_by_float32(kernel, X, centre) <= MOVED, False)
        shiftable = kernel.is_linear and free_bias
        return cls(X.mean(axis=0, dtype=np.float64) if shiftable else None, False, False)

    def rows(self, kernel: Any, X: Any) -> Any:
        """Return X as the rows that the kernel takes."""
        if kernel.is_function:
            return X
        X = new_rows(kernel, X, self.exponent)
        if self.as_csr and not sp.issparse(X):
            X = sp.csr_matrix(X)
        elif sp.issparse(X) and not self.as_csr:
            X = X.toarray()
        if self.centre is not None:
            centred = np.empty(X.shape, np.float32 if self.as_float32 else X.dtype)
            step = max(1, 2**18 // max(1, X.shape[1]))
            with np.errstate(over="ignore"):
                for first in range(0, X.shape[0], step):  # in blocks that stay in cache
                    part = slice(first, first + step)
                    np.subtract(X[part], self.centre, out=centred[part], casting="same_kind")
            X = centred
        if self.as_float32 and X.dtype != np.float32:
            with np.errstate(over="ignore"):  # a new row beyond float32 is far from all that were trained on
                X = X.astype(np.float32)
        return as_rows(X)


def _rounding(kernel: Any, rows: Any, largest: float) -> float:
    """The typical error of a kernel value kept in float32: its rounding, and that of a distance of float32 rows.

    ‖x‖² + ‖z‖² − 2⟨x, z⟩ has an error near 2u‖x‖² in float32, and is used up to γ max ‖x‖² = 145.
    """
    error = largest
    if kernel.of_distances and dtype_of(rows) == np.float32:
        most = MOVED if kernel.measure is Absolute else 2.0 * 145.0
        error += min(2.0 * kernel.gamma * sizes(kernel.measure(), rows)[1], most)
    return FLOAT32_ROUNDING * error


class _Kernel(TrainedByRun):
    """What the kernel classifier and regressor share."""

    C: float
    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    lam: float | None
    solver: Any
    intercept: str
    cache_size: float
    n_jobs: int | None
    warm_start: bool
    random_state: Any
    classes_: np.ndarray
    support_: np.ndarray
    dual_coef_: np.ndarray
    _model: Any

    def _check_parameters(self) -> None:
        positive("C", self.C)
        if not isinstance(self.kernel, str) and not callable(self.kernel):
            names = ", ".join(map(repr, KERNELS))
            raise ValueError(
                f"kernel must be one of {names} or a function f(A, B), got {self.kernel!r}: give the kernel's name, "
                "and its parameters as gamma, degree and coef0"
            )
        if self.lam is not None:
            positive("lam", self.lam)
        positive("cache_size", self.cache_size)
        one_of("intercept", self.intercept, ("auto", "unregularized", "regularized", "none"))
        check_solver("kernel", self.solver, "SMO()")
        flag("warm_start", self.warm_start)
        if self.warm_start and not self._configured().warm:
            raise ValueError(
                f"warm_start starts from dual variables in the box of C, which solver={self.solver!r} does not have: "
                "use 'smo', 'sdca' or 'sbp' without nu, or warm_start=False"
            )
        threads(self.n_jobs)
        if isinstance(self.gamma, str):
            one_of("gamma", self.gamma, ("scale", "auto"))
        self._check_limits()

    def _configured(self) -> Any:
        """The solver, refining to this estimator's ``tol``."""
        solver = solvers.make("kernel", self.solver) if isinstance(self.solver, str) else self.solver
        refines = "tol" in solver.get_params()
        return replace(solver, tol=max(float(self.tol), 1e-12)) if refines else solver

    def _is_nu_form(self) -> bool:
        """Whether the solver has its own ν and does not look at C; its gap says nothing then."""
        return self._configured().form == "nu"

    def _check_data(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        X, y = check_rows(self, X, y, **options)
        if class_of(self.kernel).is_table:
            if sp.issparse(X):
                raise TypeError("a precomputed kernel must be a dense matrix, got a sparse one: use X.toarray()")
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"a precomputed kernel must be square, got shape {X.shape}")
            scale = max(abs(X.max()), abs(X.min()), 1e-300)
            if scale > FLOAT32_LARGEST:
                raise ValueError(f"{KernelProblem.overflow} (the largest is {scale:.1e})")
            for first in range(0, X.shape[0], 1024):
                part = slice(first, first + 1024)
                if np.abs(X[part] - X[:, part].T).max() > 1e-5 * scale:
                    raise ValueError(
                        "a precomputed kernel must be symmetric and this matrix is not: give K(X, X), or (K + K.T)/2"
                    )
        return X, y

    def _prepare(self, X: Any) -> tuple[Any, Any]:
        """(kernel, rows) for training; remembers how rows are laid out."""
        kernel, exponent, self._gamma = scaled_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
        with np.errstate(over="ignore", invalid="ignore"):
            free = self._intercept() == "unregularized"
            self._preparation = replace(Preparation.of(kernel, divided(X, exponent), free), exponent=exponent)
            rows = self._preparation.rows(kernel, X)
            largest = largest_value(kernel, rows)
        check_values(kernel, self._gamma, rows, largest, largest_entry(X))
        C = self.C if self.lam is None else 1.0 / (float(self.lam) * X.shape[0])
        warn_if_too_small(C, X.shape[0], largest, self._intercept(), X, "data")
        self._kernel_error = _rounding(kernel, rows, largest)
        return kernel, rows

    def _along_centre(self, X: Any, support: np.ndarray) -> np.ndarray:
        """⟨x − centre, centre⟩ of the support vectors x of a linear kernel, which the intercept of the user's own rows
        takes up; zeros where rows were not centred."""
        if self._preparation.centre is None or not class_of(self.kernel).is_linear:
            return np.zeros(support.size)
        centred = np.asarray(X[support], np.float64) - self._preparation.centre
        return centred @ self._preparation.centre

    def _checked(
        self, parts: list[KernelProblem], X: Any, chosen: np.ndarray, model: KernelModel, reason: str,
        certificate: Certificate, deadline: float = math.inf,
    ) -> Certificate | None:  # fmt: skip
        """The certificate of the sum of some binary problems on the same examples, one for each row of the model's
        coefficients; where errors of float32 kernel values may matter, computed anew in float64.

        Independent errors ε of kernel values give responses errors near ‖α‖ε, and their mean, and so P and D,
        errors near ‖α‖ε/√n, which is C ε where all are at their bound. Above ERROR_SHARE of the certified gap (or
        of ``tol``), or if P is above that of w = 0, the certificate need not be true. None, and a warning, where
        the support vectors and examples are too many.
        """
        allowed = ERROR_SHARE * max(self.tol * abs(certificate.primal), certificate.gap)
        problem = parts[0]
        error = float(np.sum(np.sqrt(np.sum(model.coef**2, axis=1) / problem.n)))
        error *= self._kernel_error + FLOAT32_ROUNDING * problem.constant
        at_zero = sum(part.value_at_zero() for part in parts)
        worse = reason in ("tol", "stalled") and certificate.primal > at_zero * (1.0 + 1e-3)
        if error <= allowed and not worse and certificate.gap >= -ROUNDED * abs(certificate.primal):
            return certificate
        largest = np.abs(model.coef).max(initial=0.0)
        cause = f"kernel values are kept in float32, too coarse for dual variables up to {largest:.1e}"
        if largest == 0.0:
            cause = "kernel values are kept in float32, and no dual variables are small enough for values so large"
        remedy = "lower C, or scale the data or gamma"
        affordable = min(RECOMPUTED, RECOMPUTED_A_SECOND * max(deadline - now(), 0.2))
        if model.support.size * problem.n > affordable:
            warnings.warn(
                f"{cause}, and there is no certificate: {remedy}, or raise tol", ConvergenceWarning, stacklevel=4
            )
            return None
        X = X[np.ix_(chosen, chosen)] if problem.kernel.is_table else X[chosen]
        X = X if problem.kernel.is_function else X.astype(np.float64, copy=False)
        rows = replace(self._preparation, as_float32=False).rows(problem.kernel, X)
        values = np.zeros(3)
        for part, coefficients, bias in zip(parts, model.coef, model.intercept, strict=True):
            used = coefficients != 0.0
            values += part.certificate_of(rows, model.support[used], coefficients[used], float(bias))
        exact = Certificate(*values.tolist())
        if reason == "tol" and exact.gap > 2.0 * self.tol * abs(exact.primal):
            warnings.warn(
                f"{type(self).__name__} has a relative duality gap of {exact.relative_gap:.1e}, short of "
                f"tol={self.tol:g}: {cause}: {remedy}",
                ConvergenceWarning,
                stacklevel=4,
            )
        return exact

    def _deadline(self, started: float) -> float:
        """When the time limit is reached; infinity without one."""
        return math.inf if self.max_seconds is None else started + self.max_seconds

    def _solve(
        self, solver: Any, problem: KernelProblem, rng: np.random.Generator, limits: Turn, shown: Shown | None,
        *, state: Any = None, validation: Any = None,
    ) -> tuple[Outcome, Certificate | None, bool]:  # fmt: skip
        """(outcome, certificate, whether the model is that of a sample) of a solver on a problem.

        Under a time limit an exact solver first has samples of the problem; and if all examples will take too long,
        the hinge is left to the Stochastic Batch Perceptron, which has a good model of all of them early on.
        """
        until = limits.until
        if until == math.inf or not solver.exact or state or validation:
            only = self._run(solver, problem, limits, shown, state=state, rng=rng, validation=validation)
            return only, self._certify(solver, problem, only), False
        # a generator of its own, so that a limit that is not reached changes nothing
        free, since = problem.freed(), now()
        ladder = Ladder(free, deepcopy(rng), float(self.tol), now)
        perceptron = self._perceptron(free)
        fits = ladder.climb(since + (until - since) * (1.0 if perceptron is None else FOR_SAMPLES), until)
        rung, on = ladder.best, problem
        if not fits and perceptron is not None:
            solver, on = perceptron, free
        outcome, least = None, math.inf
        if rung is not None:
            rung_model, charge = problem.adopted(rung.model)
            least = rung.at_most + charge
            at_zero, nothing = problem.at_zero()
            if at_zero <= least:
                rung_model, least, rung.is_exact = nothing, at_zero, True
        late = rung is not None and now() >= until
        if not (ladder.interrupted or late):
            outcome = self._run(solver, on, limits, shown, rng=rng)
            outcome.history = ladder.history.followed_by(outcome.history)
            certificate = self._certify(solver, on, outcome)
            outcome.model, charge = problem.adopted(outcome.model)
            outcome.objective += charge
            if certificate is not None and charge > 0.0:
                certificate = Certificate(certificate.primal + charge, certificate.dual, certificate.gap + charge)
                if certificate.gap > self.tol * certificate.primal and outcome.stop_reason == "tol":
                    outcome.stop_reason = "max_seconds"  # the limit chose the free problem, whose optimum is another
            if outcome.stop_reason == "tol" or outcome.objective <= least:
                return outcome, certificate, False
        assert rung is not None
        if outcome is None:
            reason = "interrupted" if ladder.interrupted else "max_seconds"
            outcome = Outcome(solver.init(on, rng), None, ladder.history, reason, math.inf)
        outcome.model, outcome.objective, outcome.is_last = rung_model, least, False
        return outcome, self._certify(solver, on, outcome) if rung.is_exact else None, True

    def _perceptron(self, problem: KernelProblem) -> Any:
        """The Stochastic Batch Perceptron, if it can solve the problem; or None."""
        solver = solvers.make("kernel", "sbp", tol=max(float(self.tol), 1e-12))
        try:
            solver.check(problem)
        except ValueError:
            return None
        return solver

    def _certify(self, solver: Any, problem: KernelProblem, outcome: Outcome) -> Certificate | None:
        """What is proven of an outcome: nothing where validation chose its model."""
        if outcome.is_last:
            return solver.certificate(problem, outcome.state)
        if not solver.exact or "validation_error" in outcome.history.columns:
            return None
        dual = max(outcome.dual, 0.0)  # no loss is negative
        return Certificate(outcome.objective, dual, outcome.objective - dual)

    def _intercept(self) -> str:
        if self.intercept != "auto":
            return self.intercept
        return "unregularized" if self._configured().free_bias else "regularized"

    def _duals(self) -> np.ndarray:
        """The dual variables β of all examples of the last fit, in the layout of ``dual_coef_``."""
        beta = np.zeros((self.dual_coef_.shape[0], self.shape_fit_[0]))
        beta[:, self.support_] = self.dual_coef_
        return beta

    def _starting_point(self, X: Any, n_rows: int) -> Any:
        """The dual variables of the last fit, where ``warm_start`` asks for them; else None."""
        last = getattr(self, "shape_fit_", None)
        self.shape_fit_ = X.shape
        if not self.warm_start or not hasattr(self, "support_") or last is None:
            return None
        found = (self.dual_coef_.shape[0], last[0])
        if found != (n_rows, X.shape[0]):
            raise ValueError(
                f"warm_start needs as many examples and binary problems as the last fit, {last[0]} and "
                f"{self.dual_coef_.shape[0]} rows of dual_coef_, got {X.shape[0]} and {n_rows}: set warm_start=False "
                "to start anew"
            )
        return self._duals()

    @staticmethod
    def _state_from(
        solver: Any, problem: KernelProblem, rng: np.random.Generator, start: Any, promising: np.ndarray | None = None
    ) -> Any:
        """A state to go on from: promising examples, β of the examples, or an earlier state; or None."""
        if promising is not None:
            return solver.init(problem, rng, promising=promising)
        if isinstance(start, np.ndarray):
            return solver.init(problem, rng, duals=start)
        return None if start is None else solver.again(problem, rng, start)

    def _generator(self) -> np.random.Generator:
        """The generator of ``random_state``; None is a fixed seed, so that two fits to the same data are the same."""
        return generator(0 if self.random_state is None else self.random_state)

    def _cache_bytes(self) -> float:
        return float(self.cache_size) * 2**20

    def _is_indefinite(self, kernel: Any, rows: Any, n: int, rng: np.random.Generator) -> bool:
        """Whether a sample of the kernel matrix has a negative eigenvalue; known definite kernels are not asked."""
        if kernel.is_definite:
            return False
        chosen = np.sort(rng.choice(n, min(n, 200), replace=False))
        problem = KernelProblem(kernel, rows, np.ones(n), losses.Single(losses.Hinge()), 1.0)
        K = problem.matrix(chosen, chosen).block(np.arange(chosen.size)).astype(np.float64)
        if not np.isfinite(K).all():
            raise ValueError(KernelProblem.overflow)
        eigenvalues = np.linalg.eigvalsh(0.5 * (K + K.T))
        return bool(eigenvalues[0] < -INDEFINITE * max(abs(eigenvalues[-1]), 1e-300))

    def _warn(
        self, certificates: Sequence[Certificate | None], indefinite: bool, reasons: Any,
        estimated: bool = False,
    ) -> None:  # fmt: skip
        """Say which fits stopped short of ``tol``, and where the model is that of a sample."""
        if estimated and not indefinite:
            warnings.warn(
                f"{type(self).__name__} had no time for all examples (stop_reason_={self.stop_reason_!r}) and returns "
                "the machine of a sample, whose objective on all of them is not known: there is no certificate; "
                "raise max_seconds for one",
                ConvergenceWarning,
                stacklevel=4,
            )
        proven = certificates if isinstance(certificates, Certificates) else Certificates.of(certificates)
        unfinished = np.isin(reasons, UNFINISHED) & (proven.gaps > self.tol * np.abs(proven.primal))
        # one that does not minimise the objective has a gap that says nothing
        if unfinished.any() and self._configured().minimises and self.tol > 0 and not indefinite:
            worst = np.max(proven.gaps[unfinished] / np.maximum(np.abs(proven.primal[unfinished]), 1e-300))
            warnings.warn(
                f"{type(self).__name__} stopped with a relative duality gap of {worst:.1e}, short of tol={self.tol:g} "
                f"(stop_reason_={self.stop_reason_!r}): raise max_iter, max_seconds or tol, or scale the data",
                ConvergenceWarning,
                stacklevel=3,
            )
        if indefinite:
            warnings.warn(
                "the kernel is not positive semi-definite: training stopped at a stationary point, and there is no "
                "certificate",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _partly(self, model: KernelModel) -> dict[str, Any]:
        """What a checkpoint's model needs to predict."""
        known = {"_model": model, "_preparation": self._preparation}
        return {**known, "classes_": self.classes_} if hasattr(self, "classes_") else known

    def _decisions(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._model.decision_function(self._rows_for(self._model, X), threads=threads(self.n_jobs))
        return finite(scores, X)

    def _finished(self, model: KernelModel, own: np.ndarray | None = None) -> KernelModel:
        """As for all estimators; ``own`` are the examples of the model's problem among all."""
        return super()._finished(model if own is None else replace(model, support=own[model.support]))

    def _rows_for(self, model: KernelModel, X: Any) -> Any:
        return self._preparation.rows(model.kernel, super()._rows_for(model, X))

    @property
    def gamma_(self) -> float:
        """The γ in use; for the kernels that have one."""
        if not class_of(self.kernel).has_gamma:
            raise AttributeError(f"gamma_ exists for kernels with a γ only, and the kernel is {self.kernel!r}")
        check_is_fitted(self)
        return self._gamma

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, one row per binary problem; for ``kernel="linear"`` only."""
        if not class_of(self.kernel).is_linear:
            raise AttributeError(f"coef_ exists for kernel='linear' only, and the kernel is {self.kernel!r}")
        check_is_fitted(self)
        vectors, centre = self.support_vectors_, self._preparation.centre
        vectors = vectors if centre is None else vectors - centre
        if isinstance(self._model, PairsModel):
            return self._model.combined(vectors.toarray() if sp.issparse(vectors) else vectors)
        return np.asarray(self._model.coef @ vectors)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = class_of(self.kernel).is_table
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


@savable()
class SVC(Labelled, _Kernel):
    """Kernel support vector classification.

    For two classes it minimises

    .. math:: \\frac12 \\|w\\|^2 + C \\sum_i s_i \\max(0, 1 - y_i (\\langle w, \\Phi(x_i)\\rangle + b)),

    the problem of ``sklearn.svm.SVC`` at the same ``C``, until the relative duality gap is at most ``tol``.

    Parameters
    ----------
    C : float, default=1.0
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, default="rbf"
        A callable gets two sets of rows and returns their kernel values.
    gamma : {"scale", "auto"} or float, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    solver : {"auto", "smo", "sbp", "sdca", "pegasos", "perceptron"} or a configured solver, default="auto"
        "auto" is "smo", the exact one. "sbp", the Stochastic Batch Perceptron, has a good classifier soonest and then
        goes on to the same optimum; ``StochasticBatchPerceptron(nu=…)`` solves the slack-constrained form at that ν
        and ignores C. "sdca" is exact too, one coordinate at a time; "pegasos" (Fig. 3 of its paper) and "perceptron"
        (one pass: ``max_iter=1``) are for comparison.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One classifier per pair of classes, as LIBSVM, or per class against the rest; with "sbp" the latter are
        trained together and share every kernel row.
    intercept : {"auto", "unregularized", "regularized", "none"}, default="auto"
        "auto" is "unregularized", as in LIBSVM, where the solver can ("smo", "sbp"), else "regularized", which adds
        1 to the kernel.
    class_weight : dict, "balanced" or None
    cache_size : float, default=200
        Megabytes for kernel rows.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Of the scores of one-vs-one classifiers: (n, n_classes), or (n, n_pairs).
    break_ties : bool, default=False
        Whether equal votes of one-vs-one classifiers are decided by their scores; else the first class wins.
    lam : float, optional
        λ of each binary problem; overrides ``C``.
    tol : float, default=1e-3
        Relative duality gap (P − D)/P at which training stops.
    max_iter : int, default=1000
        Most epochs of each binary problem; an epoch visits as many variables as there are examples.
    max_seconds : float, optional
        Wall-clock limit for the whole fit; the model so far is kept.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the examples and stop when their weighted error has not improved at
        ``n_iter_no_change`` checkpoints in a row; the best model seen is kept. The rule the SBP paper recommends.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=3
    warm_start : bool, default=False
        Start ``fit`` from the dual variables of the last one, taken into the new box: the same optimum in less work
        where data or parameters have changed a little. Needs as many examples, in the same order, and the same classes;
        for "smo", "sdca" and "sbp", which is then at its second part.
    n_jobs : int, optional
        Threads that compute kernel values, −1 for all processors; they do not change the result.
    random_state : int, Generator, RandomState or None, default=None
        Of the order in which examples are looked at, and of what ``early_stopping`` holds out. None is a fixed seed,
        for every solver: two fits to the same data are the same model.
    callbacks, verbose
        As in :class:`LinearSVC`.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of the support vectors, by class.
    support_vectors_, n_support_, dual_coef_, intercept_, coef_, classes_
        As in scikit-learn; ``coef_`` for the linear kernel only.
    shape_fit_ : tuple
        Shape of the training data, as in scikit-learn.
    gamma_ : float
        The γ in use, which ``gamma="scale"`` takes from the data.
    certificate_ : Certificate or sequence of them
        Primal value, dual value and gap of each binary problem; None for an indefinite kernel, for the best of
        several models that early stopping kept, and for a problem
        whose dual variables are too large for float32 kernel values and too many to compute it in float64.
    history_ : History
        With a column ``problem`` that numbers the binary problems.
    stop_reason_ : str
        As in :class:`LinearSVC`, or "stalled": rounding allows no further progress.
    n_iter_ : ndarray
        Rounds (SMO) or visits of each binary problem.

    Notes
    -----
    For probabilities wrap it: ``CalibratedClassifierCV(SVC())``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = SVC(C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98), bool(model.certificate_.relative_gap <= 1e-3)
    (True, True)
    """

    support_: np.ndarray
    certificate_: Any

    def __init__(
        self,
        C=1.0,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        *,
        solver="auto",
        multi_class="ovo",
        intercept="auto",
        class_weight=None,
        cache_size=200,
        decision_function_shape="ovr",
        break_ties=False,
        lam=None,
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=3,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        callbacks=None,
        verbose=0,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.solver = solver
        self.multi_class = multi_class
        self.intercept = intercept
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        one_of("multi_class", self.multi_class, ("ovo", "ovr"))
        one_of("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo":
            raise ValueError(
                "decision_function_shape='ovo' asks for scores of pairs, and multi_class='ovr' trains none: "
                "use multi_class='ovo', or decision_function_shape='ovr'"
            )
        for name in ("early_stopping", "break_ties"):
            flag(name, getattr(self, name))
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties decides by scores of classes, and decision_function_shape='ovo' has scores of pairs: "
                "use decision_function_shape='ovr'"
            )
        if self.early_stopping and class_of(self.kernel).is_table:
            raise ValueError(
                "early_stopping needs rows to hold out, and a precomputed kernel has none: switch it off or give data"
            )

    @all_or_nothing
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on (X, y): dense or CSR, float32 or float64; or, with a precomputed kernel, on K(X, X)."""
        self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, start: Any = None) -> Any:
        """Train, from the β of a path's last machine or its solver's state, if it is given; returns the last state."""
        started = now()
        self._check_parameters()
        X, y, weights = self._examples(X, y, sample_weight)
        codes = self._encode(y, goes_on=self.warm_start and hasattr(self, "support_"))
        n_classes = self.classes_.size
        last = self._starting_point(X, self._n_rows_of_duals())
        start = last if start is None else start
        counts = np.bincount(codes, minlength=n_classes).astype(float)
        of_class = class_weights(self.class_weight, self.classes_, counts)
        rng = self._generator()
        kernel, rows = self._prepare(X)
        indefinite = self._is_indefinite(kernel, rows, y.size, rng)
        training = None
        self._held_out: Any = None
        if self.early_stopping:
            training, others = held_out(rng, y.size, self.validation_fraction, codes, weights)
            everything = KernelProblem(kernel, rows, np.zeros(y.size), losses.Single(losses.Hinge()), 1.0)
            of_others = weights[others] if weights.size else np.ones(others.size)
            self._held_out = everything.rows(others), codes[others], of_others, of_class
            X, y, codes, rows = X[training], y[training], codes[training], everything.rows(training)
            weights = weights[training] if weights.size else weights
            start = start[:, training] if isinstance(start, np.ndarray) else start
        problems = self._problems(kernel, rows, codes, weights, of_class)
        solver, several = self._configured(), n_classes > 2 and self.multi_class == "ovr"
        # under a time limit each class has its share of it
        shares_time = self.max_seconds is not None and solver.exact
        state = None
        if solver.joins and several and not shares_time and start is None:
            self._train_together(list(problems), started, rng, X, y, codes, indefinite)
        elif self._has_many_small_pairs(codes):
            self._train_pairs(kernel, rows, weights, of_class, started, X, y, codes, indefinite, start)
        else:
            state = self._train(problems, started, rng, X, y, codes, indefinite, start=start)
        if training is not None:
            self.support_ = training[self.support_]
            del self._held_out
        return state

    def _validation(self, k: int, problem: KernelProblem) -> KernelProblem | None:
        """The held-out examples of binary problem k, or of all of them together for k = −1."""
        if self._held_out is None:
            return None
        rows, codes, weights, of_class = self._held_out
        n_classes = self.classes_.size
        if k < 0:
            own = codes[None, :] == np.arange(n_classes)[:, None]
            s = weights * np.where(own, of_class[:, None], 1.0)
            return replace(problem, X=rows, y=np.where(own, 1.0, -1.0), sample_weight=s, shared=None)
        chosen = np.arange(codes.size)
        if n_classes == 2 or self.multi_class == "ovr":
            own = codes == (1 if n_classes == 2 else k)
            s = weights * (of_class[codes] if n_classes == 2 else np.where(own, of_class[k], 1.0))
        else:
            pair = list(combinations(range(n_classes), 2))[k]
            chosen = np.flatnonzero(np.isin(codes, pair))
            own = codes[chosen] == pair[0]
            s = weights[chosen] * of_class[codes[chosen]]
        rows = replace(problem, X=rows, y=np.zeros(codes.size), sample_weight=np.empty(0), shared=None).rows(chosen)
        return replace(problem, X=rows, y=np.where(own, 1.0, -1.0), sample_weight=s, shared=None)

    def _problems(
        self, kernel: Any, rows: Any, codes: np.ndarray, weights: np.ndarray, of_class: np.ndarray,
        pairs: Iterable[tuple[int, int]] | None = None,
    ) -> Iterable[tuple[np.ndarray, KernelProblem]]:  # fmt: skip
        """(rows, problem) of each binary problem, or of some ``pairs`` of classes.

        Classes against the rest share kernel rows where a third of all fit. Pairs do not: whole rows would be computed
        where a pair needs two classes' columns.
        """
        n_classes, everything = of_class.size, np.arange(codes.size)
        weighted = weights.size > 0 or self.class_weight is not None
        full = weights if weights.size else np.ones(codes.size)
        intercept, n_bytes = self._intercept(), self._cache_bytes()
        whole_problem = KernelProblem(
            kernel, rows, np.zeros(codes.size), losses.Single(losses.Hinge()), 1.0, threads=threads(self.n_jobs)
        )

        shared = None
        if n_classes > 2 and self.multi_class == "ovr" and n_bytes * SHARED / (4.0 * codes.size) >= codes.size / 3:
            shared = RowCache(whole_problem.matrix(everything, everything), SHARED * n_bytes)
            n_bytes *= 1.0 - SHARED

        def problem(chosen: np.ndarray, y: np.ndarray, s: np.ndarray) -> KernelProblem:
            if kernel.is_table:
                own = DenseRows(rows.values[np.ix_(chosen, chosen)]) if chosen.size < codes.size else rows
            else:
                own = whole_problem.rows(chosen) if chosen.size < codes.size else rows
            lam = float(self.lam) if self.lam is not None else 1.0 / (self.C * chosen.size)
            return KernelProblem(
                kernel, own, y, losses.Single(losses.Hinge()), lam, s if weighted else np.empty(0), intercept,
                n_bytes, threads(self.n_jobs), None if shared is None else (shared, chosen),
            )  # fmt: skip

        if n_classes == 2 or self.multi_class == "ovr":
            for c in [1] if n_classes == 2 else range(n_classes):
                own = codes == c
                s = full * (of_class[codes] if n_classes == 2 else np.where(own, of_class[c], 1.0))
                yield everything, problem(everything, np.where(own, 1.0, -1.0), s)
            return
        members = [np.flatnonzero(codes == c) for c in range(n_classes)]
        for i, j in combinations(range(n_classes), 2) if pairs is None else pairs:
            chosen = np.concatenate([members[i], members[j]])
            y = np.concatenate([np.ones(members[i].size), -np.ones(members[j].size)])
            yield chosen, problem(chosen, y, full[chosen] * of_class[codes[chosen]])

    def _train(
        self, problems: Iterable[tuple[np.ndarray, KernelProblem]], started: float, rng: np.random.Generator,
        X: Any, y: np.ndarray, codes: np.ndarray, indefinite: bool,
        promising: list[np.ndarray] | None = None, history: History | None = None, start: Any = None,
    ) -> Any:  # fmt: skip
        """Run each binary problem and put their support vectors together, from ``promising`` examples or ``start``,
        the β of :meth:`_starting_point`; returns the state of the last one."""
        history, solver = History() if history is None else history, self._configured()
        coefficients, intercepts, reasons, rounds = [], [], [], []
        certificates: list[Certificate | None] = []
        seed, unfinished, stopped, estimated = int(rng.integers(2**63)), None, False, False
        deadline, n_classes = self._deadline(started), self.classes_.size
        count = 1 if n_classes == 2 else n_classes if self.multi_class == "ovr" else n_classes * (n_classes - 1) // 2
        attributes = self._partly if self.classes_.size == 2 else None
        for k, (chosen, problem) in enumerate(problems):
            if k > 0 and solver.exact and not stopped and now() >= deadline:  # there is time for nothing but w = 0
                value, nothing = problem.at_zero()
                coefficients.append((chosen[:0], np.empty(0)))
                intercepts.append(nothing.intercept[0])
                reasons.append("max_seconds")
                certificates.append(Certificate(value, 0.0, value))
                rounds.append(0)
                continue
            rng = np.random.default_rng(seed)  # the same for all, so that problems which share rows ask for the same
            beta = self._beta_of(k, chosen, codes, start) if isinstance(start, np.ndarray) else start
            state = self._state_from(solver, problem, rng, beta, None if promising is None else promising[k])
            left = deadline - now()
            # the problems that are left after Ctrl-C get what takes no time
            until = now() if stopped else deadline if left == math.inf else now() + left / max(1, count - k)
            outcome, certificate, is_sample = self._solve(
                solver, problem, rng, Turn(started, until, 1e-9 if stopped and not solver.exact else None),
                None if stopped else Shown(X, y, attributes, partial(self._finished, own=chosen)),
                state=state, validation=self._validation(k, problem),
            )  # fmt: skip
            coefficients.append((chosen[outcome.model.support], outcome.model.coef[0]))
            intercepts.append(outcome.model.intercept[0])
            reasons.append(outcome.stop_reason)
            if certificate is not None and not indefinite:
                ended = "" if self._is_nu_form() else outcome.stop_reason  # ν does not look for a small gap
                certificate = self._checked([problem], X, chosen, outcome.model, ended, certificate, deadline)
            certificates.append(certificate)
            estimated = estimated or (is_sample and certificate is None)
            if outcome.stop_reason == "max_iter":
                unfinished = outcome
            rounds.append(outcome.state.counters.steps)
            for row in outcome.history:
                history.append(None, problem=k, **row)
            stopped = stopped or outcome.stop_reason == "interrupted"
            if count > 1:  # the next one's kernel rows want the memory
                outcome.state.drop_workspace()
        self.history_ = history
        self.stop_reason_ = "interrupted" if stopped else next((r for r in reasons if r != "tol"), "tol")
        self.n_iter_ = np.array(rounds)
        self.certificate_ = None if indefinite else certificates[0] if len(certificates) == 1 else certificates
        self._warn(certificates, indefinite, reasons, estimated)
        if self._is_nu_form() and unfinished is not None:
            self._warn_if_unfinished(unfinished)
        self._adopt(X, codes, coefficients, np.array(intercepts), problem)
        return outcome.state

    def _train_together(
        self, problems: list[tuple[np.ndarray, KernelProblem]], started: float, rng: np.random.Generator,
        X: Any, y: np.ndarray, codes: np.ndarray, indefinite: bool,
    ) -> None:  # fmt: skip
        """Run the classes against the rest as one, with every kernel row shared; then, for the C-form, SMO on each."""
        parts = [problem for _, problem in problems]
        weights = np.stack([p.sample_weight for p in parts]) if parts[0].sample_weight.size else np.empty(0)
        joint = replace(
            parts[0], y=np.stack([p.y for p in parts]), sample_weight=weights, shared=None,
            cache_bytes=self._cache_bytes(),
        )  # fmt: skip
        solver = self._configured()
        validation = self._validation(-1, joint)
        # for the C-form the number of draws ends this part, not tol
        limits = Turn(started) if self._is_nu_form() else Turn(started, max_epochs=solver.first_part, tol=0.0)
        outcome = self._run(solver, joint, limits, Shown(X, y), rng=rng, validation=validation)
        history = History()
        for row in outcome.history:
            history.append(None, problem=-1, **row)
        if not self._is_nu_form() and outcome.stop_reason == "max_iter":
            promising = solver.promising(joint, outcome.state)
            outcome.state.drop_workspace()
            self._train(problems, started, rng, X, y, codes, indefinite, promising, history)
            return
        self.history_, self.stop_reason_ = history, outcome.stop_reason
        self.n_iter_ = np.full(len(parts), outcome.state.counters.steps)
        certificate = None if indefinite or not outcome.is_last else solver.certificate(joint, outcome.state)
        if certificate is not None:
            ended = "" if self._is_nu_form() else outcome.stop_reason
            certificate = self._checked(parts, X, np.arange(codes.size), outcome.model, ended, certificate)
        self.certificate_ = certificate
        self._warn([certificate], indefinite, [outcome.stop_reason])
        if self._is_nu_form():
            self._warn_if_unfinished(outcome)
        coefficients = [(outcome.model.support[row != 0.0], row[row != 0.0]) for row in outcome.model.coef]
        self._adopt(X, codes, coefficients, outcome.model.intercept, joint)

    def _n_rows_of_duals(self) -> int:
        """The number of rows of ``dual_coef_``."""
        k = self.classes_.size
        return 1 if k == 2 else k if self.multi_class == "ovr" else k - 1

    def _beta_of(self, k: int, chosen: np.ndarray, codes: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """The dual variables β of the chosen examples in binary problem k."""
        if self.classes_.size == 2 or self.multi_class == "ovr":
            return beta[k, chosen]
        i, j = codes[chosen[0]], codes[chosen[-1]]  # a pair has the examples of its first class first
        return beta[np.where(codes[chosen] == i, j - 1, i), chosen]

    def _has_many_small_pairs(self, codes: np.ndarray) -> bool:
        """Whether pairs of classes are so many and so small that a run for each is mostly overhead."""
        sizes = np.bincount(codes).astype(float)
        k, pairs = sizes.size, sizes.size * (sizes.size - 1) / 2
        own = self._configured()
        # under a time limit the hinge is solved by what has models soonest, for many small pairs as for large ones
        exact = (own.for_pairs or (own.exact and self.max_seconds is not None)) and not self.early_stopping
        if not exact or self.multi_class != "ovo" or pairs <= MANY_PAIRS:
            return False
        values = ((k - 2) * np.sum(sizes**2) + np.sum(sizes) ** 2) / pairs  # the mean of (s + t)² over the pairs
        largest = max(np.sort(sizes)[-2:].sum() ** 2, sizes.max() * codes.size)
        return values <= SMALL_PAIR and 4.0 * largest <= PAIR_SHARE * self._cache_bytes()

    def _train_pairs(
        self, kernel: Any, rows: Any, weights: np.ndarray, of_class: np.ndarray, started: float, X: Any, y: np.ndarray,
        codes: np.ndarray, indefinite: bool, start: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Train the pairs of many small classes in one run."""
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes))
        n_bytes = self._cache_bytes()
        weighted = weights.size > 0 or self.class_weight is not None
        whole = KernelProblem(
            kernel, rows, np.zeros(codes.size), losses.Single(losses.Hinge()), 1.0,
            (weights if weights.size else 1.0) * of_class[codes] if weighted else np.empty(0), self._intercept(),
            n_bytes, threads(self.n_jobs),
        )  # fmt: skip
        problem = PairsProblem(
            whole.take(order), ends, 0.0 if self.lam is not None else float(self.C), float(self.lam or 0.0)
        )
        name, tol = self._configured().for_pairs or "auto", max(float(self.tol), 1e-12)
        solver = solvers.make("pairs", name, tol=tol, max_rounds=self.max_iter)
        state = solver.init(problem, duals=None if start is None else start[:, order])
        limits = Turn(started, max_epochs=1)
        if self.max_seconds is not None:  # all pairs roughly, and then each to the end
            outcome = self._run(solver.rough(), problem, limits, None, state=state)
            state = solver.again(state)
        if self.max_seconds is None or outcome.stop_reason == "max_iter":
            shown = Shown(X, y, finish=partial(self._finished, own=order))
            outcome = self._run(solver, problem, limits, shown, state=state)
        with Interrupts() as interrupts:  # Ctrl-C no longer needs to end anything
            if outcome.state.done < problem.n_pairs:
                solver.settle(problem, state)
            model, history = solver.model(problem, state), History()
            for row in outcome.history:
                history.append(None, problem=-1, **row)
            self.history_, self.n_iter_ = history, state.results.rounds
            reasons = state.reasons
            short = next((reason for reason in np.unique(reasons).tolist() if reason != "tol"), "tol")
            self.stop_reason_ = short if outcome.stop_reason in ("tol", "max_iter") else outcome.stop_reason
            lams = problem.lams()
            certificates = Certificates(lams * state.results.primal, lams * state.results.dual)
            if not indefinite:
                self._check_pairs(
                    certificates, problem, state.results, reasons, X, codes, order, rows, weights, of_class
                )  # fmt: skip
            self.certificate_ = None if indefinite else certificates
            self._warn(certificates, indefinite, reasons)
            self._adopt_pairs(X, codes, order[model.support], model.coef, model.intercept, whole)
        if interrupts.seen:
            self.stop_reason_ = "interrupted"

    def _check_pairs(
        self, certificates: Certificates, problem: PairsProblem, results: Any, reasons: list[str], X: Any,
        codes: np.ndarray, order: np.ndarray, rows: Any, weights: np.ndarray, of_class: np.ndarray,
    ) -> None:  # fmt: skip
        """Compute anew, in place, the certificates for which errors of float32 kernel values may matter."""
        k, ends, beta, biases = problem.n_classes, problem.ends, results.beta, results.bias
        # ‖α‖² of a class against another
        of_classes = np.stack([np.add.reduceat(row**2, ends - problem.sizes) for row in beta])
        first, second = np.triu_indices(k, 1)
        norms2 = of_classes[second - 1, first] + of_classes[first, second]
        error = np.sqrt(norms2 / problem.over_pairs(problem.sizes))
        error *= self._kernel_error + FLOAT32_ROUNDING * problem.whole.constant
        primal, gap = certificates.primal, certificates.primal - certificates.dual
        sums = np.add.reduceat(problem.weights, ends - problem.sizes)
        at_zero = problem.over_pairs(sums) / problem.over_pairs(problem.sizes)
        doubtful = error > ERROR_SHARE * np.maximum(self.tol * np.abs(primal), gap)
        doubtful |= (primal > at_zero * (1.0 + 1e-3)) | (gap < -ROUNDED * np.abs(primal))
        found = np.flatnonzero(doubtful)
        pairs = [(int(first[p]), int(second[p])) for p in found]
        place = np.empty(codes.size, np.int64)
        place[order] = np.arange(codes.size)
        parts = self._problems(problem.whole.kernel, rows, codes, weights, of_class, pairs)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for p, (i, j), (chosen, part) in zip(found.tolist(), pairs, parts, strict=True):
                coef = beta[np.where(codes[chosen] == i, j - 1, i), place[chosen]]
                used, bias = np.flatnonzero(coef), biases[p : p + 1]
                model = KernelModel(part.kernel, used, part.rows(used), coef[None, used], bias, part.constant)
                certificates.replace(p, self._checked([part], X, chosen, model, reasons[p], certificates[p]))
        if said:
            text = f"{said[0].message} (so for {len(said)} of {problem.n_pairs} pairs of classes)"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)

    def _adopt(
        self, X: Any, codes: np.ndarray, coefficients: list[tuple[np.ndarray, np.ndarray]], intercepts: np.ndarray,
        problem: KernelProblem,
    ) -> None:  # fmt: skip
        """Set scikit-learn's attributes from (rows, coefficients) of each problem's support vectors."""
        n_classes, place = self.classes_.size, np.zeros(codes.size, np.int64)
        for rows, _ in coefficients:
            place[rows] = 1
        used = np.flatnonzero(place)
        support = used[np.argsort(codes[used], kind="stable")]
        place[support] = np.arange(support.size)
        if n_classes > 2 and self.multi_class == "ovo":
            M = np.zeros((n_classes - 1, support.size))
            for (i, j), (rows, values) in zip(combinations(range(n_classes), 2), coefficients, strict=True):
                M[np.where(codes[rows] == i, j - 1, i), place[rows]] = values
            self._adopt_pairs(X, codes, support, M, intercepts, problem)
            return
        M = np.zeros((len(coefficients), support.size))
        for k, (rows, values) in enumerate(coefficients):
            M[k, place[rows]] = values
        self._set_support(X, codes, support)
        kernel = problem.kernel
        self._model = KernelModel(kernel, support, self._support_rows(kernel, X), M, intercepts, problem.constant)
        self.dual_coef_ = M
        self.intercept_ = intercepts + M @ (problem.constant - self._along_centre(X, support))

    def _adopt_pairs(
        self, X: Any, codes: np.ndarray, support: np.ndarray, coef: np.ndarray, intercepts: np.ndarray,
        problem: KernelProblem,
    ) -> None:  # fmt: skip
        """Set scikit-learn's attributes from support vectors by class and their coefficients in LIBSVM's layout."""
        self._set_support(X, codes, support)
        kernel, ends = problem.kernel, np.cumsum(self.n_support_, dtype=np.int64)
        vectors = self._support_rows(kernel, X)
        self._model = PairsModel(kernel, support, vectors, coef, intercepts, ends, problem.constant)
        self.dual_coef_ = coef
        constant = np.full((support.size, 1), problem.constant)
        self.intercept_ = intercepts + self._model.combined(constant - self._along_centre(X, support)[:, None])[:, 0]

    def _set_support(self, X: Any, codes: np.ndarray, support: np.ndarray) -> None:
        self.support_ = support
        self.n_support_ = np.bincount(codes[support], minlength=self.classes_.size).astype(np.int32)
        self.support_vectors_ = np.empty((0, 0)) if class_of(self.kernel).is_table else X[support]

    def _support_rows(self, kernel: Any, X: Any) -> Any:
        if kernel.is_table:
            return None
        return self._preparation.rows(kernel, X[self.support_])

    def decision_function(self, X):
        """Scores; for two classes of shape (n,), positive meaning ``classes_[1]``."""
        if self._votes_decide() and self.decision_function_shape == "ovr":
            return self._votes(X)[1]
        scores = self._decisions(X)
        return scores[:, 0] if self.classes_.size == 2 else scores

    def _votes_decide(self) -> bool:
        check_is_fitted(self)
        return self.classes_.size > 2 and self.multi_class == "ovo"

    def _votes(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Votes of the pairs for each class, and the same with their scores deciding between equals."""
        X = check_rows(self, X, reset=False)
        n, k = X.shape[0], self.classes_.size
        votes, sums = np.zeros((n, k)), np.zeros((n, k))
        block: Any = None
        for rows, i, scores in self._parts(X):
            if block is None or block[0] != rows:
                block = rows, np.zeros((k, scores.shape[1])), np.zeros((k, scores.shape[1]))
            add_votes(scores, i, block[1], block[2])
            if i == k - 2:
                count = rows.stop - rows.start
                votes[rows], sums[rows] = block[1][:, :count].T, block[2][:, :count].T
        sums = finite(sums, X)
        return votes, votes + sums / (3.0 * (np.abs(sums) + 1.0))

    def _parts(self, X: Any) -> Iterable[tuple[slice, int, np.ndarray]]:
        """Scores of pairs as :meth:`PairsModel.parts`; also of a model whose pairs share merged vectors."""
        rows, k = self._preparation.rows(self._model.kernel, X), self.classes_.size
        if isinstance(self._model, PairsModel):
            yield from self._model.parts(rows, threads=threads(self.n_jobs))
            return
        scores = self._model.decision_function(rows, threads=threads(self.n_jobs)).T
        for i in range(k - 1):
            yield slice(0, X.shape[0]), i, np.ascontiguousarray(scores[first_pair(i, k) : first_pair(i + 1, k)])

    def predict(self, X):
        """Labels: by the sign, by votes of the pairs, or by the highest score against the rest."""
        if self._votes_decide():
            codes = self._votes(X)[int(self.break_ties)].argmax(axis=1)
        else:
            scores = self._decisions(X)
            codes = (scores[:, 0] > 0).astype(np.intp) if self.classes_.size == 2 else scores.argmax(axis=1)
        return self.classes_[codes]


@savable()
class SVR(Numeric, _Kernel):
    """Kernel support vector regression with an ε-tube.

    Minimises

    .. math:: \\frac12 \\|w\\|^2 + C \\sum_i s_i \\max(0, |\\langle w, \\Phi(x_i)\\rangle + b - y_i| - \\varepsilon),

    the problem of ``sklearn.svm.SVR``, until the relative duality gap is at most ``tol``.

    Parameters
    ----------
    kernel, gamma, degree, coef0, C, intercept, cache_size, lam, tol, max_iter, max_seconds, warm_start, n_jobs, \
    random_state, callbacks, verbose
        As in :class:`SVC`.
    solver : {"auto", "smo", "sdca"} or a configured solver, default="auto"
        Those of :class:`SVC` that solve the ε-insensitive loss; "auto" is "smo".
    epsilon : float, default=0.1
        Errors up to this size cost nothing, in units of y.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_, coef_, gamma_, certificate_, history_, stop_reason_
        As in :class:`SVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import SVR
    >>> x = np.linspace(0, 6, 100)[:, None]
    >>> model = SVR(C=10.0, epsilon=0.01).fit(x, np.sin(x[:, 0]))
    >>> bool(np.abs(model.predict(x) - np.sin(x[:, 0])).max() < 0.1)
    True
    """

    def __init__(
        self,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        *,
        C=1.0,
        epsilon=0.1,
        solver="auto",
        intercept="auto",
        cache_size=200,
        lam=None,
        tol=1e-3,
        max_iter=1000,
        max_seconds=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        callbacks=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.epsilon = epsilon
        self.solver = solver
        self.intercept = intercept
        self.cache_size = cache_size
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on (X, y); see :meth:`SVC.fit`."""
        started = now()
        self._check_parameters()
        not_negative("epsilon", self.epsilon)
        X, y, weights = self._examples(X, y, sample_weight)
        start = self._starting_point(X, 1)
        rng = self._generator()
        kernel, rows = self._prepare(X)
        indefinite = self._is_indefinite(kernel, rows, y.size, rng)
        lam = float(self.lam) if self.lam is not None else 1.0 / (self.C * y.size)
        problem = KernelProblem(
            kernel, rows, y, losses.Single(losses.EpsilonInsensitive(float(self.epsilon))), lam, weights,
            self._intercept(), self._cache_bytes(), threads(self.n_jobs),
        )  # fmt: skip
        solver = self._configured()
        state = self._state_from(solver, problem, rng, None if start is None else start[0])
        deadline = self._deadline(started)
        outcome, certificate, is_sample = self._solve(
            solver, problem, rng, Turn(started, deadline), Shown(X, y, self._partly), state=state
        )
        self.history_, self.stop_reason_ = outcome.history, outcome.stop_reason
        self.n_iter_ = max(1, math.ceil(outcome.history.last("epochs")))
        if certificate is not None and not indefinite:
            everything, reason = np.arange(y.size), outcome.stop_reason
            certificate = self._checked([problem], X, everything, outcome.model, reason, certificate, deadline)
        self.certificate_: Any = None if indefinite else certificate
        self._warn([certificate], indefinite, [outcome.stop_reason], is_sample and certificate is None)
        self._model = outcome.model
        self.support_ = outcome.model.support
        self.support_vectors_ = np.empty((0, 0)) if class_of(self.kernel).is_table else X[self.support_]
        self.dual_coef_ = outcome.model.coef
        shift = problem.constant - self._along_centre(X, self.support_)
        self.intercept_ = outcome.model.intercept + self.dual_coef_ @ shift
        self.n_support_ = np.array([self.support_.size], dtype=np.int32)
        return self

    def predict(self, X):
        """Predicted targets, of shape (n,)."""
        return self._decisions(X)[:, 0]


def svm_path(X, y, Cs, *, sample_weight=None, **parameters):
    """Fit an :class:`SVC` for each of a sequence of C, each from the solution of the one before.

    Parameters
    ----------
    X, y : as in :meth:`SVC.fit`, two classes
    Cs : sequence of float
        In any order; they are trained from the smallest to the largest.
    **parameters : of :class:`SVC`

    Returns
    -------
    list of SVC
        In the order of ``Cs``; after Ctrl-C only those that were trained by then, the last one with
        ``stop_reason_`` "interrupted".

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import svm_path
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> [model.C for model in svm_path(X, y, [0.1, 1.0, 10.0])]
    [0.1, 1.0, 10.0]
    """
    if isinstance(Cs, (int, float)) or len(Cs) == 0:
        raise ValueError(f"Cs must be a sequence of numbers > 0, got {Cs!r}: give a list such as [0.1, 1, 10]")
    Cs = [positive("each of Cs", C) for C in Cs]
    for name in ("C", "early_stopping"):
        if parameters.get(name):
            raise ValueError(
                f"a path takes no {name}: its models have the C of Cs and go on from each other's examples"
            )
    labels = np.unique(y)
    if labels.size != 2:
        raise ValueError(f"a path needs two classes, got {labels.size}: {labels.tolist()}")
    models: dict[float, SVC] = {}
    last: SVC | None = None
    for C in sorted(set(Cs)):
        model = SVC(C=C, **parameters)
        model._fit(X, y, sample_weight, None if last is None else last._duals() * (C / last.C))
        models[C] = last = model
        if model.stop_reason_ == "interrupted":
            break
    return [models[C] for C in Cs if C in models]
