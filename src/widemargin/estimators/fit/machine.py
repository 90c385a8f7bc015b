"""What the kernel classifier and regressor share: parameters, the layout of rows, attributes, scores.

The way of a fit: :meth:`KernelMachine._session` lays out the rows and asks what is known before training; jobs are run
(:mod:`.jobs`) and proven (:mod:`.session`); :meth:`KernelMachine._conclude` and :meth:`KernelMachine._adopt` set
the attributes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ... import backends, solvers
from ...arguments import flag, one_of, positive, threads
from ...backends.tensors import taken
from ...core.kernels.kernels import KERNELS, class_of, is_kernel
from ...core.kernels.matrix import largest_value
from ...core.losses import losses
from ...core.rows.distant import Distant, local, local_rows
from ...models import KernelModel, PairsModel
from ...problems.kernel import KernelProblem
from ...problems.layout import (
    FLOAT32_LARGEST,
    Preparation,
    check_values,
    divided,
    finite_scores,
    longest_row,
    scaled_kernel,
    warn_if_too_small,
)
from ...problems.objective import Certificates
from ...problems.precision import sample, settled
from ...schemas import FLOATS, INDICES, Array, Matrix, Own, Real, Record
from ...stopping import short_of_tol
from ...warning import warn
from .checking import check_rows, check_solver, is_plain_array, predicts_on_device, rows_to_score
from .fitting import UNFINISHED, TrainedByRun, settled_gamma
from .jobs import Results
from .nested import refuse_twice
from .saving import learnt
from .session import Session

CACHE = 200 * 2**20  # bytes for kernel rows on the CPU where cache_size is "auto", as in scikit-learn
INDEFINITE = 1e-5  # a kernel is indefinite if its smallest eigenvalue on a sample is below −this × the largest


def _law(machine: Any, sizes: dict[str, int]) -> str | None:
    fitted = machine.fitted if isinstance(machine, Record) else vars(machine)
    n, support, own = fitted.get("shape_fit_", (0,))[0], fitted.get("support_"), fitted.get("n_support_")
    classes, model = sizes.get("classes", 0), fitted["_model"]
    parts = model.ends.size if hasattr(model, "ends") else 0
    outputs = 0 if parts else model.coef.shape[0]
    fitting = (1,) if classes == 2 else (classes, classes * (classes - 1) // 2)  # pairs of a compressed machine
    if classes and parts != classes and outputs not in fitting:
        return f"it has {classes} classes, and its model {parts or outputs}"
    if n and support is not None and support.size and support.max() >= n:
        return f"support_ has {support.max()}, and {n} examples were seen"
    return f"n_support_ sums up to {own.sum()}" if own is not None and own.sum() != sizes.get("support") else None


#: The schema of a kernel machine.
MACHINE = learnt(
    "_model", "_preparation", "intercept_", law=_law, _largest=Real(low=0),
    support_=Array("support", dtype=INDICES, low=0), n_support_=Array(None, dtype=INDICES, low=0),
    dual_coef_=Array(None, "support", dtype=FLOATS, order=False), support_vectors_=Matrix((0, "support"), (0, "d")),
    intercept_=Array(None, dtype=FLOATS), _preparation=Own(Preparation, d="d"),
    _model=Own(KernelModel, PairsModel, support="support", d="d"),
)  # fmt: skip


class KernelMachine(TrainedByRun):
    """What the kernel classifier and regressor share."""

    TRAINING = ("shape_fit_",)
    _seed = 0  # so that two fits to the same data are the same
    never_matters = ("n_jobs",)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        is_function = callable(self.kernel) and not isinstance(self.kernel, type)
        if not (isinstance(self.kernel, str) or is_function or is_kernel(self.kernel)):
            names = ", ".join(map(repr, KERNELS))
            raise ValueError(
                f"kernel must be one of {names}, an object of widemargin.kernels or a function f(A, B), got "
                f"{self.kernel!r}: give the kernel's name, and its parameters as gamma=, degree= and coef0="
            )
        refuse_twice(self, "kernel", "gamma", "degree", "coef0")
        if self.cache_size != "auto":
            positive("cache_size", self.cache_size)
        one_of("intercept", self.intercept, ("auto", "unregularized", "regularized", "none"))
        check_solver("kernel", self.solver, "SMO()")
        backends.check(self.device)
        if self.device == "cuda" and not self._has_device_solver():
            raise ValueError(
                "device='cuda' trains with solver='smo' and 'sbp', given by name, or StochasticBatchPerceptron(…), got "
                f"solver={self.solver!r}: use one of them or 'auto', or device='cpu'"
            )
        if self._trains_on_device():
            self._configured()  # registers the classes of its states, which a checkpoint's file may hold
        flag("warm_start", self.warm_start)
        if self.warm_start and not self._configured().capabilities.starts_from_duals:
            raise ValueError(
                f"warm_start starts from dual variables in the box of C, which solver={self.solver!r} does not have: "
                "use 'smo', 'sdca' or 'sbp' without nu, or warm_start=False"
            )
        threads(self.n_jobs)
        if isinstance(self.gamma, str):
            one_of("gamma", self.gamma, ("scale", "auto"))

    def _configured(self) -> Any:
        """The configured solver, for the device that trains, with this estimator's ``tol``."""
        solver = solvers.make("kernel", self.solver) if isinstance(self.solver, str) else self.solver
        if self._trains_on_device():
            able = solver.capabilities
            own = solver.get_params() if able.same_parameters else {}
            solver = solvers.make("device", able.for_device, device=backends.GPU, **own)
            if self.max_seconds is not None and "sample" in solver.get_params():
                solver = replace(solver, sample=1)  # a sample's model has no known value for long
        refines = "tol" in solver.get_params()
        return replace(solver, tol=max(float(self.tol), 1e-12)) if refines else solver

    def _has_device_solver(self) -> bool:
        if isinstance(self.solver, str):
            return bool(solvers.make("kernel", self.solver).capabilities.for_device)
        return bool(self.solver.capabilities.for_device) and self.solver.capabilities.same_parameters

    def _trains_on_device(self) -> bool:
        """Whether a GPU trains. Raises an error if a GPU is asked for and there is none."""
        return self._has_device_solver() and backends.resolved(self.device) == "cuda"

    def _trains_side_by_side(self) -> bool:
        """Whether several problems with the same examples are trained on a GPU at once."""
        return bool(self._trains_on_device() and self._configured().capabilities.for_many)

    def _scores_on_device(self, model: Any) -> bool:
        return predicts_on_device(self.device, model.kernel)

    def _scores_there(self, model: Any, X: Any) -> bool:
        """Whether rows are scored on a GPU: where they stand on one, or one is asked for and there is one."""
        return isinstance(X, Distant) or self._scores_on_device(model)

    def _to_score(self, X: Any) -> Any:
        X = rows_to_score(self, X, self._scores_on_device(self._model))
        return X if self._model.kernel.of_rows else local(X)

    def _scored(self, model: KernelModel, X: Any) -> np.ndarray:
        """The scores of rows as the user gave them."""
        if self._scores_there(model, X):
            from ...backends.scoring import scores

            return scores(model, X, self._preparation, backends.GPU)
        rows = self._preparation.rows(model.kernel, X)
        return model.decision_function(rows, threads=threads(self.n_jobs))

    def _check_data(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        X, y = check_rows(self, self._placed(taken(X)), y, distant=True, **options)
        X = self._placed(X)
        if class_of(self.kernel).is_table:
            if sp.issparse(X):
                raise TypeError("a precomputed kernel must be a dense matrix, got a sparse one: use X.toarray()")
            if X.shape[0] != X.shape[1]:
                raise ValueError(f"a precomputed kernel must be square, got shape {X.shape}: give K(X, X)")
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

    def _placed(self, X: Any) -> Any:
        """X where training reads it: dense rows on the GPU that trains; in main memory for tables and functions."""
        if not class_of(self.kernel).of_rows:
            return local(X)
        on_device = self._trains_on_device()
        if isinstance(X, Distant) and not on_device:
            raise ValueError(
                f"X stands on {X.place}, and device={self.device!r} with solver={self.solver!r} trains on the CPU: use "
                "device='cuda' and solver='smo' or 'sbp', or give X.cpu()"
            )
        if on_device and is_plain_array(X):
            from ...backends.rows import DeviceRows

            return DeviceRows.of_host(X, backends.GPU)
        return X

    def _prepare(self, X: Any) -> tuple[Any, Any]:
        """(kernel, rows) for training; ``_preparation`` remembers the layout for predictions."""
        kernel, exponent, self._gamma = scaled_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
        with np.errstate(over="ignore", invalid="ignore"):
            free = self._intercept() == "unregularized"
            prepared = Preparation.of(kernel, divided(X, exponent), free, stays_dense=self._trains_on_device())
            self._preparation = replace(prepared, exponent=exponent)
            rows = self._preparation.rows(kernel, X, known=True)
            largest, longest = largest_value(kernel, rows), longest_row(kernel, rows, threads(self.n_jobs))
        check_values(kernel, self._gamma, rows, largest, longest, X)
        C = self.C if self.lam is None else 1.0 / (float(self.lam) * X.shape[0])
        warn_if_too_small(C, X.shape[0], largest, self._intercept(), X, "data")
        self._largest = largest
        return kernel, rows

    def _along_centre(self, vectors: Any) -> Any:
        """⟨x − centre, centre⟩ of the support vectors x of a linear kernel; zero if rows were not centred.

        The intercept for the user's own rows takes these products up.
        """
        if self._preparation.centre is None or not class_of(self.kernel).is_linear:
            return 0.0
        centred = np.asarray(vectors, np.float64) - self._preparation.centre
        return centred @ self._preparation.centre

    def _intercept(self) -> str:
        if self.intercept != "auto":
            return self.intercept
        return "unregularized" if self._configured().capabilities.free_intercept else "regularized"

    def _duals(self) -> np.ndarray:
        """The dual variables β of all examples of the last fit, in the layout of ``dual_coef_``."""
        beta = np.zeros((self.dual_coef_.shape[0], self.shape_fit_[0]))
        beta[:, self.support_] = self.dual_coef_
        return beta

    def _starting_point(self, X: Any, n_rows: int) -> Any:
        """The dual variables of the last fit, where ``warm_start`` asks for them; else None."""
        if self.warm_start:
            self._refuse_without_state("warm_start")
        self.__dict__.pop("_only_predicts", None)
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

    def _cache_bytes(self) -> float:
        if self.cache_size != "auto":
            return float(self.cache_size) * 2**20
        return backends.memory() / 2 if self._trains_on_device() else CACHE

    def _session(self, X: Any, y: np.ndarray, started: float, n_rows: int, start: Any = None) -> Session:
        """A fit to these examples, which begins at ``start`` or where ``warm_start`` says.

        ``n_rows`` is the number of rows that ``dual_coef_`` will have.
        """
        last = self._starting_point(X, n_rows)
        rng = self._generator()
        kernel, rows = self._prepare(X)
        whole = KernelProblem(
            kernel, rows, np.zeros(y.size), losses.Single(losses.Hinge()), 1.0, intercept=self._intercept(),
            cache_bytes=self._cache_bytes(), threads=threads(self.n_jobs),
        )  # fmt: skip
        deadline = math.inf if self.max_seconds is None else started + self.max_seconds
        indefinite = _is_indefinite(whole, rng)
        start = last if start is None else start
        return Session(self, self._configured(), X, y, whole, started, deadline, rng, indefinite, start)

    def _conclude(self, session: Session, results: Results, reason: str) -> None:
        """Set what is known of the training of some binary problems, and warn where it fell short of ``tol``."""
        self.history_, self.stop_reason_, self.n_iter_ = results.history, reason, results.rounds
        known = results.certificates
        self.certificate_ = None if session.indefinite else known[0] if len(known) == 1 else known
        if session.indefinite:
            warn(
                "the kernel is not positive semi-definite: training stopped at a stationary point, and there is no "
                "certificate",
                ConvergenceWarning,
            )
            return
        if results.of_sample:
            warn(
                f"{type(self).__name__} had no time for all examples (stop_reason_={self.stop_reason_!r}) and returns "
                "the machine of a sample, whose objective on all of them is not known: there is no certificate; "
                f"{'raise max_seconds' if self.stop_reason_ == 'max_seconds' else 'let it go on'} for one",
                ConvergenceWarning,
            )
        self._warn_of_gaps(session.solver, known, np.asarray(results.reasons))

    def _warn_of_gaps(self, solver: Any, certificates: Any, reasons: np.ndarray) -> None:
        """Warn of the largest gap that rounding left open, and of the largest that a limit left above ``tol``."""
        name = type(self).__name__
        proven = certificates if isinstance(certificates, Certificates) else Certificates.of(certificates)
        gaps = proven.gaps / np.maximum(np.abs(proven.primal), np.finfo(float).tiny)
        rounded = (reasons == "precision") & ~np.isnan(gaps)
        if rounded.any():
            several = f" ({rounded.sum()} of {rounded.size} binary problems)" if rounded.size > 1 else ""
            remedy = "raise tol, lower C, or scale the data or gamma" + several
            warn(short_of_tol(name, gaps[rounded].max(), self.tol, remedy), ConvergenceWarning)
        unfinished = np.isin(reasons, UNFINISHED) & (gaps > self.tol)
        # the gap of a solver that does not minimise the objective says nothing
        if unfinished.any() and solver.capabilities.minimises and self.tol > 0:
            worst = int(np.argmax(np.where(unfinished, gaps, -np.inf)))
            ended = f"stop_reason_={self.stop_reason_!r}"
            if reasons[worst] != self.stop_reason_:  # which is that of another binary problem
                ended = f"{unfinished.sum()} of {unfinished.size} binary problems, {str(reasons[worst])!r}"
            warn(
                f"{name} stopped with a relative duality gap of {gaps[worst]:.1e}, short of "
                f"tol={self.tol:g} ({ended}): raise max_iter, max_seconds or tol, or scale the data",
                ConvergenceWarning,
            )

    def _adopt(
        self, X: Any, whole: KernelProblem, codes: np.ndarray, support: np.ndarray, coef: np.ndarray,
        intercepts: np.ndarray, errors: list[float], in_pairs: bool = False,
    ) -> None:  # fmt: skip
        """Set scikit-learn's attributes from the coefficients of support vectors, which stand by the codes of classes.

        ``whole`` has the kernel of the model, and ``errors`` are those of float32 that were seen. The coefficients of
        pairs are in LIBSVM's layout.
        """
        kernel, constant = whole.kernel, whole.constant
        own = np.empty((0, 0)) if kernel.is_table else local(X, support)
        self.support_, self.dual_coef_ = support, coef
        self.n_support_ = np.bincount(codes[support], minlength=codes.max() + 1).astype(np.int32)
        self.support_vectors_ = own
        vectors = None if kernel.is_table else self._preparation.rows(kernel, own.copy())  # the user has the others
        model: Any
        shift = np.full(support.size, constant) - self._along_centre(own)
        if not in_pairs:
            model = KernelModel(kernel, support, vectors, coef, intercepts, constant)
        else:
            ends = np.cumsum(self.n_support_, dtype=np.int64)
            model = PairsModel(kernel, support, vectors, coef, intercepts, ends, constant)
        self.intercept_ = intercepts + model.combined(shift[:, None])[:, 0]
        if kernel.of_rows:
            some = local(X, sample(X.shape[0], intercepts.size))
            model, self._preparation = settled(model, self._preparation, own, some, errors)
        self._model = model

    def _partly(self, model: KernelModel) -> dict[str, Any]:
        """The attributes that predict with a checkpoint's model; none where it is one of several."""
        known = {"_model": model, "_preparation": self._preparation}
        if not hasattr(self, "classes_"):
            return known
        return {**known, "classes_": self.classes_} if self.classes_.size == 2 else {}

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return finite_scores(partial(self._scored, self._model), self._to_score(X))

    def _finished(self, model: KernelModel, own: np.ndarray | None = None) -> KernelModel:
        """As for all estimators, with vectors that stand here; ``own`` are the examples of the model's problem."""
        support = model.support if own is None else own[model.support]
        return super()._finished(replace(model, support=support, vectors=local_rows(model.vectors)))

    def _rows_for(self, model: KernelModel, X: Any) -> Any:
        return self._preparation.rows(model.kernel, check_rows(self, X, reset=False, distant=True))

    gamma_ = property(settled_gamma)

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, one row per binary problem; for ``kernel="linear"`` only."""
        if not class_of(self.kernel).is_linear:
            raise AttributeError(
                f"coef_ exists for kernel='linear' only, and the kernel is {self.kernel!r}: use dual_coef_ and "
                "support_vectors_"
            )
        check_is_fitted(self)
        vectors: Any = self.support_vectors_
        centre = self._preparation.centre
        vectors = vectors if centre is None else vectors - centre
        if isinstance(self._model, PairsModel) and sp.issparse(vectors):
            vectors = vectors.toarray()
        return self._model.combined(vectors)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = class_of(self.kernel).is_table
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


def _is_indefinite(whole: KernelProblem, rng: np.random.Generator) -> bool:
    """Whether a sample of the kernel matrix has a negative eigenvalue; known definite kernels are not asked."""
    if whole.kernel.is_definite:
        return False
    chosen = np.sort(rng.choice(whole.n, min(whole.n, 200), replace=False))
    K = whole.matrix(chosen, chosen).block(np.arange(chosen.size)).astype(np.float64)
    if not np.isfinite(K).all():
        raise ValueError(KernelProblem.overflow)
    eigenvalues = np.linalg.eigvalsh(0.5 * (K + K.T))
    return bool(eigenvalues[0] < -INDEFINITE * max(abs(eigenvalues[-1]), 1e-300))
