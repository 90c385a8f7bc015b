"""Kernel machines: kernel and rows in; a solver, or samples and a solver in a limited time; a true certificate out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import backends, solvers
from ..arguments import flag, one_of, positive, threads
from ..backends.tensors import taken
from ..core import losses
from ..core.distant import Distant, local, local_rows
from ..core.kernel_matrix import largest_value
from ..core.kernels import KERNELS, class_of
from ..history import History
from ..models import KernelModel, PairsModel
from ..problems.kernel import KernelProblem
from ..problems.layout import (
    FLOAT32_LARGEST,
    Preparation,
    check_values,
    divided,
    finite_scores,
    lengths,
    scaled_kernel,
    warn_if_too_small,
)
from ..problems.objective import Certificate, Certificates
from ..problems.precision import sample, settled
from ..running import Outcome
from ..schemas import FLOATS, INDICES, Array, Matrix, Own, Real, Record
from ..stopping import short_of_tol
from ..warning import warn
from .fitting import (
    UNFINISHED,
    Shown,
    TrainedByRun,
    Turn,
    check_rows,
    check_solver,
    is_plain_array,
    now,
    predicts_on_device,
    rows_to_score,
    settled_gamma,
)
from .ladder import Ladder
from .proof import Exact
from .saving import learnt

#: Bytes for kernel rows on the CPU, where cache_size does not say.
CACHE = 200 * 2**20
#: Kernel values that are computed in float64 in a second, at least, for a certificate under a time limit.
RECOMPUTED_A_SECOND = 2e7
#: How many times as many on a GPU.
FASTER = 100.0
#: Under a time limit, the share of it for samples, where the Stochastic Batch Perceptron can have the rest.
FOR_SAMPLES = 0.25
#: A kernel whose smallest eigenvalue on a sample is below this share of the largest is indefinite.
INDEFINITE = 1e-5


@dataclass(frozen=True)
class Task:
    """A fit: the examples as they were given, and as the kernel takes them, and what is known before training."""

    X: Any
    y: np.ndarray
    #: All examples, without targets.
    whole: KernelProblem
    started: float
    #: When the time limit is reached; infinity without one.
    deadline: float
    rng: np.random.Generator
    indefinite: bool
    #: Dual variables to start from, in the layout of ``dual_coef_``, or a solver's state; or None.
    start: Any = None


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

    cache_size: Any
    device: str
    support_: np.ndarray
    dual_coef_: np.ndarray
    _model: Any

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.kernel, str) and not callable(self.kernel):
            names = ", ".join(map(repr, KERNELS))
            raise ValueError(
                f"kernel must be one of {names} or a function f(A, B), got {self.kernel!r}: give the kernel's name, "
                "and its parameters as gamma=, degree= and coef0="
            )
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
            self._configured()  # whose states a checkpoint's file may hold
        flag("warm_start", self.warm_start)
        if self.warm_start and not self._configured().warm:
            raise ValueError(
                f"warm_start starts from dual variables in the box of C, which solver={self.solver!r} does not have: "
                "use 'smo', 'sdca' or 'sbp' without nu, or warm_start=False"
            )
        threads(self.n_jobs)
        if isinstance(self.gamma, str):
            one_of("gamma", self.gamma, ("scale", "auto"))

    def _configured(self) -> Any:
        """The solver, refining to this estimator's ``tol``."""
        solver = solvers.make("kernel", self.solver) if isinstance(self.solver, str) else self.solver
        if self._trains_on_device():
            own = solver.get_params() if solver.as_configured else {}
            solver = solvers.make("device", solver.for_device, device=backends.GPU, **own)
            if self.max_seconds is not None and "sample" in solver.get_params():
                solver = replace(solver, sample=1)  # of whose machine the value is not known for long
        refines = "tol" in solver.get_params()
        return replace(solver, tol=max(float(self.tol), 1e-12)) if refines else solver

    def _has_device_solver(self) -> bool:
        if isinstance(self.solver, str):
            return bool(solvers.solver_class("kernel", self.solver).for_device)
        return bool(self.solver.for_device) and self.solver.as_configured

    def _trains_on_device(self) -> bool:
        """Whether training is on a GPU; refuses to where one is asked for and there is none."""
        return self._has_device_solver() and backends.resolved(self.device) == "cuda"

    def _trains_side_by_side(self) -> bool:
        """Whether problems with the same examples are trained on a GPU at once."""
        return bool(self._trains_on_device() and self._configured().for_many)

    def _scores_on_device(self, model: Any) -> bool:
        return predicts_on_device(self.device, model.kernel)

    def _to_score(self, X: Any) -> Any:
        X = rows_to_score(self, X, self._scores_on_device(self._model))
        return X if self._model.kernel.of_rows else local(X)

    def _scored(self, model: KernelModel, X: Any) -> np.ndarray:
        """Scores of rows as given: on a GPU where they stand on one, or one is asked for and there is one."""
        if isinstance(X, Distant) or self._scores_on_device(model):
            from ..backends.scoring import scores

            return scores(model, X, self._preparation, backends.GPU)
        rows = self._preparation.rows(model.kernel, X)
        return model.decision_function(rows, threads=threads(self.n_jobs))

    def _is_nu_form(self) -> bool:
        """Whether the solver has its own ν and does not look at C; its gap says nothing then."""
        return self._configured().form == "nu"

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
        """X where training reads it: dense rows on the device, if it is used; what tables and functions take, here."""
        if not class_of(self.kernel).of_rows:
            return local(X)
        on_device = self._trains_on_device()
        if isinstance(X, Distant) and not on_device:
            raise ValueError(
                f"X stands on {X.place}, and device={self.device!r} with solver={self.solver!r} trains on the CPU: use "
                "device='cuda' and solver='smo' or 'sbp', or give X.cpu()"
            )
        if on_device and is_plain_array(X):
            from ..backends.rows import DeviceRows

            return DeviceRows.of_host(X, backends.GPU)
        return X

    def _prepare(self, X: Any) -> tuple[Any, Any]:
        """(kernel, rows) for training; remembers how rows are laid out."""
        kernel, exponent, self._gamma = scaled_kernel(self.kernel, self.gamma, self.degree, self.coef0, X)
        with np.errstate(over="ignore", invalid="ignore"):
            free = self._intercept() == "unregularized"
            prepared = Preparation.of(kernel, divided(X, exponent), free, stays_dense=self._trains_on_device())
            self._preparation = replace(prepared, exponent=exponent)
            rows = self._preparation.rows(kernel, X, known=True)
            largest, longest = largest_value(kernel, rows), lengths(kernel, rows, threads(self.n_jobs))[0]
        check_values(kernel, self._gamma, rows, largest, longest, X)
        C = self.C if self.lam is None else 1.0 / (float(self.lam) * X.shape[0])
        warn_if_too_small(C, X.shape[0], largest, self._intercept(), X, "data")
        self._largest = largest
        return kernel, rows

    def _along_centre(self, vectors: Any) -> Any:
        """⟨x − centre, centre⟩ of the support vectors x of a linear kernel, which the intercept of the user's own rows
        takes up; zero where rows were not centred."""
        if self._preparation.centre is None or not class_of(self.kernel).is_linear:
            return 0.0
        centred = np.asarray(vectors, np.float64) - self._preparation.centre
        return centred @ self._preparation.centre

    def _exact(self, X: Any, chosen: np.ndarray, kernel: Any) -> Exact:
        """What scores models of the chosen examples in float64."""
        return Exact(self._preparation, kernel, X, chosen, self._largest, threads(self.n_jobs))

    def _checked(
        self, parts: list[KernelProblem], X: Any, chosen: np.ndarray, model: KernelModel, certificate: Certificate,
        seen: Any = None, deadline: float = math.inf,
    ) -> Certificate | None:  # fmt: skip
        """The certificate of the sum of some binary problems on the same examples, one for each row of the model's
        coefficients, for the kernel that was asked for; None where time is too short.

        ``seen`` has the scores that the certificate is of, if they are known: see :mod:`.proof`.
        """
        problem, exact = parts[0], self._exact(X, chosen, parts[0].kernel)
        affordable = RECOMPUTED_A_SECOND * max(deadline - now(), 0.2) * (FASTER if isinstance(X, Distant) else 1.0)
        short = model.support.size * problem.n > affordable
        found = exact.certificate(parts, model, certificate, self.tol, seen, short)
        if found is None:
            warn(
                f"{type(self).__name__} had no time to compute the {model.support.size} × {problem.n} kernel values of "
                "a certificate in float64, and there is none: raise max_seconds for one",
                ConvergenceWarning,
            )
        return found

    def _proven(
        self, task: Task, solver: Any, problem: KernelProblem, chosen: np.ndarray, limits: Turn, shown: Shown | None,
        *, rng: np.random.Generator, state: Any = None, validation: Any = None,
    ) -> tuple[Outcome, Certificate | None, bool]:  # fmt: skip
        """As :meth:`_solve`, of the problem of the chosen examples, with the certificate checked."""
        solved = self._solve(solver, problem, rng, limits, shown, state=state, validation=validation)
        return self._with_proof(task, problem, chosen, limits, *solved)

    def _with_proof(
        self, task: Task, problem: KernelProblem, chosen: np.ndarray, limits: Turn, outcome: Outcome,
        certificate: Certificate | None, is_sample: bool,
    ) -> tuple[Outcome, Certificate | None, bool]:  # fmt: skip
        """What :meth:`_solve` found, with the certificate checked; trained on in float64 where ``tol`` wants it."""
        if certificate is not None and not task.indefinite:
            deadline = now() if outcome.stop_reason == "interrupted" else task.deadline
            check = partial(self._checked, [problem], task.X, chosen, deadline=deadline)
            certificate = check(outcome.model, certificate, outcome.scores)
            if certificate is not None:
                short = self._falls_short(outcome.stop_reason, certificate)
                if short and self._configured().exact:
                    outcome, certificate = self._refined(task, problem, chosen, outcome, certificate, limits)
                elif short:
                    outcome.stop_reason = "settled"
                outcome.model, certificate = self._at_least_nothing(problem, outcome.model, certificate)
        return outcome, certificate, is_sample and certificate is None

    def _at_least_nothing(
        self, problem: KernelProblem, model: KernelModel, certificate: Certificate
    ) -> tuple[KernelModel, Certificate]:  # fmt: skip
        """The model of an exact solver with its certificate, or that of w = 0 where it is the better one."""
        if not self._configured().exact or certificate.gap <= self.tol * abs(certificate.primal):
            return model, certificate
        value, nothing = problem.at_zero()
        if certificate.primal <= value:
            return model, certificate
        return nothing, Certificate(value, certificate.dual, value - certificate.dual)

    def _falls_short(self, reason: str, certificate: Certificate) -> bool:
        """Whether a gap is above ``tol`` that training took for closed, or could not close."""
        ended = self.tol > 0 and reason in ("tol", "stalled")
        return bool(ended and certificate.gap > self.tol * abs(certificate.primal))

    def _refined(
        self, task: Task, problem: KernelProblem, chosen: np.ndarray, outcome: Outcome, certificate: Certificate,
        limits: Turn,
    ) -> tuple[Outcome, Certificate]:  # fmt: skip
        """The outcome and certificate after more training, from the point reached, with kernel values in float64.

        The reason is "precision" where that has ended, and the gap is still above ``tol``.
        """
        outcome = replace(outcome, stop_reason="precision")
        if isinstance(task.X, Distant) or now() >= task.deadline:
            outcome.stop_reason = "precision" if now() < task.deadline else "max_seconds"
            return outcome, certificate
        exact, everything = self._exact(task.X, chosen, problem.kernel), np.arange(problem.n)
        fine = replace(problem, X=exact.rows(everything), dtype=np.dtype(np.float64), shared=None)
        solver = solvers.make("kernel", "smo", tol=max(0.5 * float(self.tol), 1e-13))  # the rest is for rounding
        beta, seed = np.zeros((1, problem.n)), np.random.default_rng(0)
        beta[0, outcome.model.support] = outcome.model.coef[0]
        with np.errstate(over="ignore", invalid="ignore"):
            state = solver.init(fine, seed, duals=beta)
            own = replace(limits, name=f"{limits.name} in float64")
            more, known, _ = self._solve(solver, fine, seed, own, None, state=state)
        history = History([{**row, "bits": 64.0} for row in more.history])
        outcome.history = outcome.history.followed_by(history)
        found = None if known is None else self._checked([fine], task.X, chosen, more.model, known, more.scores)
        if found is not None:
            dual = max(certificate.dual, found.dual)
            if found.primal <= certificate.primal:
                outcome.model, outcome.is_last, outcome.objective = more.model, False, found.primal
            primal = min(certificate.primal, found.primal)
            certificate = Certificate(primal, dual, primal - dual)
        if certificate.gap <= self.tol * abs(certificate.primal):
            outcome.stop_reason = "tol"
        elif more.stop_reason not in ("tol", "stalled"):
            outcome.stop_reason = more.stop_reason
        return outcome, certificate

    def _solve(
        self, solver: Any, problem: KernelProblem, rng: np.random.Generator, limits: Turn, shown: Shown | None,
        *, state: Any = None, validation: Any = None,
    ) -> tuple[Outcome, Certificate | None, bool]:  # fmt: skip
        """(outcome, certificate, whether the model is that of a sample) of a solver on a problem.

        Under a time limit an exact solver first has samples of the problem; and if all examples will take too long,
        the hinge is left to the Stochastic Batch Perceptron, which has a good model of all of them early on. A run in a
        checkpoint goes on.
        """
        until = limits.until
        if until == math.inf or not solver.exact or solver.on_device or state or validation:
            only = self._run(solver, problem, limits, shown, state=state, rng=rng, validation=validation)
            return only, self._certify(solver, problem, only), only.estimated
        # a generator of its own, so that a limit that is not reached changes nothing
        free, since = problem.freed(), now()
        ladder = Ladder(free, deepcopy(rng), float(self.tol), now)
        perceptron = self._perceptron(free)
        if self._is_kept(limits, solver, problem):
            fits = True
        elif perceptron is not None and self._is_kept(limits, perceptron, free):
            fits = False
        else:
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
            outcome.model, charge = problem.adopted(outcome.model)  # which has the same scores
            outcome.objective += charge
            if certificate is not None and charge > 0.0:
                certificate = Certificate(certificate.primal + charge, certificate.dual, certificate.gap + charge)
                if certificate.gap > self.tol * certificate.primal and outcome.stop_reason == "tol":
                    outcome.stop_reason = "max_seconds"  # the limit chose the free problem, whose optimum is another
            if outcome.stop_reason == "tol" or outcome.objective <= least:
                return outcome, certificate, outcome.estimated
        assert rung is not None
        if outcome is None:
            reason = "interrupted" if ladder.interrupted else "max_seconds"
            outcome = Outcome(solver.init(on, rng), None, ladder.history, reason, math.inf)
        outcome.model, outcome.objective, outcome.is_last, outcome.estimated = rung_model, least, False, False
        outcome.scores = None
        return outcome, self._certify(solver, on, outcome) if rung.is_exact else None, True

    def _is_kept(self, limits: Turn, solver: Any, problem: KernelProblem) -> bool:
        """Whether a checkpoint has a part of this run, so that samples have nothing to tell."""
        record = self._record(limits, solver, problem)
        return record is not None and record.has_own

    def _perceptron(self, problem: KernelProblem) -> Any:
        """The Stochastic Batch Perceptron, if it can solve the problem; or None."""
        solver = solvers.make("kernel", "sbp", tol=max(float(self.tol), 1e-12))
        try:
            solver.check(problem)
        except ValueError:
            return None
        return solver

    def _certify(self, solver: Any, problem: KernelProblem, outcome: Outcome) -> Certificate | None:
        """What is proven of an outcome: nothing where its value is an estimate, or validation chose its model."""
        if outcome.estimated:
            return None
        if outcome.is_last:
            outcome.scores = solver.scores(problem, outcome.state)
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

    def _cache_bytes(self) -> float:
        if self.cache_size != "auto":
            return float(self.cache_size) * 2**20
        return backends.memory() / 2 if self._trains_on_device() else CACHE

    def _task(self, X: Any, y: np.ndarray, started: float, n_rows: int, start: Any = None) -> Task:
        """A fit to these examples, from ``start`` or where ``warm_start`` says; n_rows as in ``dual_coef_``."""
        last = self._starting_point(X, n_rows)
        rng = self._generator()
        kernel, rows = self._prepare(X)
        whole = KernelProblem(
            kernel, rows, np.zeros(y.size), losses.Single(losses.Hinge()), 1.0, intercept=self._intercept(),
            cache_bytes=self._cache_bytes(), threads=threads(self.n_jobs),
        )  # fmt: skip
        deadline = math.inf if self.max_seconds is None else started + self.max_seconds
        indefinite = self._is_indefinite(whole, rng)
        return Task(X, y, whole, started, deadline, rng, indefinite, last if start is None else start)

    @staticmethod
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

    def _conclude(
        self, task: Task, history: History, reason: str, rounds: Any, certificates: Any, reasons: Any,
        estimated: bool = False,
    ) -> None:  # fmt: skip
        """Set what is known of the training of some binary problems, and warn of what they fall short of."""
        self.history_, self.stop_reason_, self.n_iter_ = history, reason, rounds
        self.certificate_ = None if task.indefinite else certificates[0] if len(certificates) == 1 else certificates
        self._warn(certificates, task.indefinite, reasons, estimated)

    def _adopt(
        self, task: Task, codes: np.ndarray, support: np.ndarray, coef: np.ndarray, intercepts: np.ndarray,
        in_pairs: bool = False,
    ) -> None:  # fmt: skip
        """Set scikit-learn's attributes from coefficients of support vectors, which stand by the codes of classes.

        Those of pairs are in LIBSVM's layout.
        """
        kernel, constant = task.whole.kernel, task.whole.constant
        own = np.empty((0, 0)) if kernel.is_table else local(task.X, support)
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
            some = local(task.X, sample(task.X.shape[0], intercepts.size))
            model, self._preparation = settled(model, self._preparation, own, some)
        self._model = model

    def _warn(
        self, certificates: Sequence[Certificate | None], indefinite: bool, reasons: Any,
        estimated: bool = False,
    ) -> None:  # fmt: skip
        """Say which fits stopped short of ``tol``, and where the model is that of a sample."""
        if estimated and not indefinite:
            warn(
                f"{type(self).__name__} had no time for all examples (stop_reason_={self.stop_reason_!r}) and returns "
                "the machine of a sample, whose objective on all of them is not known: there is no certificate; "
                f"{'raise max_seconds' if self.stop_reason_ == 'max_seconds' else 'let it go on'} for one",
                ConvergenceWarning,
            )
        self._warn_of_precision(certificates, indefinite, reasons)
        proven = certificates if isinstance(certificates, Certificates) else Certificates.of(certificates)
        unfinished = np.isin(reasons, UNFINISHED) & (proven.gaps > self.tol * np.abs(proven.primal))
        # one that does not minimise the objective has a gap that says nothing
        if unfinished.any() and self._configured().minimises and self.tol > 0 and not indefinite:
            worst = np.max(proven.gaps[unfinished] / np.maximum(np.abs(proven.primal[unfinished]), 1e-300))
            warn(
                f"{type(self).__name__} stopped with a relative duality gap of {worst:.1e}, short of tol={self.tol:g} "
                f"(stop_reason_={self.stop_reason_!r}): raise max_iter, max_seconds or tol, or scale the data",
                ConvergenceWarning,
            )
        if indefinite:
            warn(
                "the kernel is not positive semi-definite: training stopped at a stationary point, and there is no "
                "certificate",
                ConvergenceWarning,
            )

    def _warn_of_precision(self, certificates: Sequence[Certificate | None], indefinite: bool, reasons: Any) -> None:
        """Say which gap was reached where rounding allows none of ``tol``."""
        known = [c for c, reason in zip(certificates, reasons, strict=True) if c is not None and reason == "precision"]
        if known and not indefinite:
            worst = max(c.relative_gap for c in known)
            several = f" ({len(known)} of {len(certificates)} binary problems)" if len(certificates) > 1 else ""
            remedy = "raise tol, lower C, or scale the data or gamma" + several
            warn(short_of_tol(type(self).__name__, worst, self.tol, remedy), ConvergenceWarning)

    def _partly(self, model: KernelModel) -> dict[str, Any]:
        """What a checkpoint's model needs to predict."""
        known = {"_model": model, "_preparation": self._preparation}
        return {**known, "classes_": self.classes_} if hasattr(self, "classes_") else known

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
        if isinstance(self._model, PairsModel):
            return self._model.combined(vectors.toarray() if sp.issparse(vectors) else vectors)
        return np.asarray(self._model.coef @ vectors)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = class_of(self.kernel).is_table
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags
