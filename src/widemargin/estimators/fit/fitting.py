"""What all estimators share: a base class whose ``_run`` trains with :func:`widemargin.running.run`, and the frame
around every call, which goes back to the old model after an error.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, wraps
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ...arguments import generator, not_negative, positive, whole
from ...checkpoints import Checkpoint, Record
from ...core.compiling.notice import compilations
from ...core.kernels.kernels import class_of
from ...core.rows.distant import local
from ...core.threads.blas import one_blas_thread
from ...core.threads.interrupts import Interrupts, heeded
from ...files import Saved, dump
from ...history import History
from ...progress import ProgressBar
from ...running import STOPPED, Outcome, Progress, run
from ...stopping import short_of_tol
from ...warning import warn
from .checking import check_rows
from .checkpointing import opened
from .expected import where_to_look
from .nested import with_nested, without_nested
from .notebooks import line_on_training
from .saving import LEFT_OUT

try:  # scikit-learn's own callback protocol, in versions that have it
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks of its own."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the method as it is."""
        return method


def all_or_nothing(method: Callable[..., Any] | None = None, *, raises: bool = False) -> Callable[..., Any]:
    """Decorate a method so that a call that raises leaves the estimator as it was: with the old model whole, or none.

    The call and the runs in it hear of Ctrl-C from beginning to end. After Ctrl-C the call returns with "interrupted"
    as ``stop_reason_``. With ``raises`` the call raises KeyboardInterrupt instead, after the method has done its work.

    A method that changes its state in place cannot go back. It first sets ``self._undo`` to "forget": an error then
    leaves an unfitted estimator. When all attributes are those of the new state it sets "keep": an error after that
    takes nothing back. Of a method that sets neither, the old attributes come back.
    """
    if method is None:
        return partial(all_or_nothing, raises=raises)

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            compiling = compilations(self, args[0] if args else options.get("X"))
            with Interrupts(anew=True) as interrupts, one_blas_thread(), compiling as spent:
                done = method(self, *args, **options)
                if interrupts.seen and raises:
                    raise KeyboardInterrupt(f"{method.__name__} was heard out: what it does is done")
                if interrupts.seen:  # perhaps after the last run
                    self.stop_reason_ = "interrupted"
                _say_what_compiling_took(self, spent.seconds)
            self._undo = "keep"  # the fit is done, whatever happens to the checkpoint
            if self._checkpoint is not None:
                with heeded():
                    self._checkpoint.end(self.stop_reason_ in STOPPED)
            return done
        except BaseException:
            undo = vars(self).get("_undo", "restore")
            if undo == "forget":
                known = self.get_params(deep=False)
                before = {n: value for n, value in before.items() if n in known or n.startswith(("_skl", "_metadata"))}
            if undo != "keep":
                vars(self).clear()
                vars(self).update(before)
            raise
        finally:
            vars(self).pop("_undo", None)
            vars(self).pop("_checkpoint", None)

    return call


def _say_what_compiling_took(estimator: Any, seconds: float) -> None:
    """Warn if a time limit was reached and compilation had used more than half of it."""
    limit = getattr(estimator, "max_seconds", None)
    if limit is not None and seconds > 0.5 * limit and getattr(estimator, "stop_reason_", "") == "max_seconds":
        warn(
            f"compiling took {seconds:.1f} s of max_seconds={limit:g}, which left little or nothing for training: "
            "fit again (what was compiled is kept), or raise max_seconds",
            ConvergenceWarning,
        )


LOGGER = logging.getLogger("widemargin")
#: Reasons to stop before ``tol`` is reached, but for rules of the user's own: a callback, or early stopping.
UNFINISHED = ("max_iter", "stalled", "max_seconds", "max_feature_reads", "interrupted")


@dataclass(frozen=True)
class Turn:
    """The limits of one run of a fit.

    Attributes
    ----------
    started : when the fit began
    until : when the run must end, on the clock of :func:`now`, since other jobs wait for their turn; with infinity the
        estimator's own ``max_seconds`` holds
    max_epochs, tol : instead of the estimator's own, if given
    name : the name of the run in a checkpoint
    interrupts : who hears of Ctrl-C, where the run is one of several on threads
    """

    started: float
    until: float = math.inf
    max_epochs: float | None = None
    tol: float | None = None
    name: str = "all"
    interrupts: Interrupts | None = None


@dataclass(frozen=True)
class Shown:
    """What callbacks see of a run.

    Attributes
    ----------
    X, y : the data
    attributes : makes, of a model, the attributes with which an estimator predicts, for scikit-learn's callbacks
    finish : makes a solver's model one that takes the user's rows
    """

    X: Any
    y: Any
    attributes: Callable[[Any], dict[str, Any]] | None = None
    finish: Callable[[Any], Any] | None = None


class TrainedByRun(Saved, CallbackSupportMixin, BaseEstimator):
    """Base of the estimators that train with :func:`widemargin.running.run`.

    After ``fit`` they have ``history_``, ``certificate_``, ``stop_reason_``, ``n_iter_``. What users of scikit-learn
    look for in vain is named by a sentence that says where it is (:mod:`.expected`); a notebook shows a line on how
    training ended (:mod:`.notebooks`).
    """

    verbose: int
    certificate_: Any
    #: Parameters that change no bit of the result.
    never_matters: ClassVar[tuple[str, ...]] = ()
    #: Attributes that training goes on from, and predicting does not need.
    TRAINING: tuple[str, ...] = ("_state", "_counts", "_seen", "_kind", "_passes", "_seconds")
    #: Why this estimator only predicts; empty where training can go on, too.
    _only_predicts: str = ""
    #: The file that keeps the fit under way.
    _checkpoint: Checkpoint | None = None
    #: The seed that ``random_state=None`` stands for; None draws a new one in each call.
    _seed: ClassVar[int | None] = None

    def __getattr__(self, name: str) -> Any:
        # Python calls this where an attribute was not found, or where a property has refused, which then says so again
        where_to_look(self, name)
        return object.__getattribute__(self, name)

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + line_on_training(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle, line = super()._repr_mimebundle_(**options), line_on_training(self)
        if "text/html" in bundle and not bundle["text/html"].endswith(line):
            bundle["text/html"] += line
        return bundle

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- parameters

    def _keep(self, given: dict[str, Any]) -> None:
        """Keep the parameters of ``__init__``, given as its ``locals()``, and do no more."""
        self.__dict__.update({name: value for name, value in given.items() if name not in ("self", "__class__")})

    def _meant(self, part: str, value: Any) -> Any:
        """The object that the value of a parameter stands for."""
        return value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of solvers, losses, kernels, step rules and policies, as ``step__eta``.

        Returns
        -------
        dict
            The values by name.

        Examples
        --------
        >>> from widemargin import BudgetedSVC
        >>> BudgetedSVC(maintenance="project").get_params()["maintenance__threshold"]
        0.0
        """
        parameters = super().get_params(deep=deep)
        return with_nested(self, parameters) if deep else parameters

    def set_params(self, **parameters: Any) -> Any:
        """Set parameters by name.

        Parameters
        ----------
        **parameters : values
            The parameters. Those of a configured solver, loss, kernel, step rule or policy are set as
            ``solver__batch_size=16``.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If a nested parameter is set where the solver is a name: give a solver object.

        Examples
        --------
        >>> from widemargin import LinearSVC, Pegasos
        >>> LinearSVC(solver=Pegasos()).set_params(solver__batch_size=16).solver.batch_size
        16
        """
        return super().set_params(**without_nested(self, parameters))

    def _check_parameters(self) -> None:
        """Refuse values that make no sense of the parameters that all estimators share."""
        if hasattr(self, "C"):
            positive("C", self.C)
        if self.lam is not None:
            positive("lam", self.lam)
        not_negative("tol", self.tol)
        whole("max_iter", self.max_iter)
        if self.max_seconds is not None:
            positive("max_seconds", self.max_seconds)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, os.PathLike)):
            raise TypeError(f"checkpoint must be the name of a file or None, got {self.checkpoint!r}")
        not_negative("checkpoint_every", self.checkpoint_every)
        whole("n_iter_no_change", getattr(self, "n_iter_no_change", 1))
        if not isinstance(self.verbose, np.bool_) and not (isinstance(self.verbose, Integral) and self.verbose >= 0):
            raise ValueError(f"verbose must be 0 or False for silence, 1 or True for a bar, got {self.verbose!r}")
        for callback in self._own_callbacks():
            if not callable(callback):
                raise TypeError(f"callbacks must be callables that take one argument, got {callback!r}")

    def _own_callbacks(self) -> list[Any]:
        if self.callbacks is None:
            return []
        given = [self.callbacks] if callable(self.callbacks) else self.callbacks
        if not isinstance(given, Iterable):
            raise TypeError(f"callbacks must be a callable or a list of callables, got {given!r}")
        return list(given)

    def _run(
        self,
        solver: Any,
        problem: Any,
        limits: Turn,
        shown: Shown | None,
        *,
        state: Any = None,
        rng: np.random.Generator | None = None,
        validation: Any = None,
        history: History | None = None,
    ) -> Outcome:
        """Run a solver with this estimator's limits, callbacks, progress bar and checkpoint.

        Sets ``history_``, ``stop_reason_`` and ``n_iter_``. With None as ``shown`` there are no callbacks and no bar.
        """
        watchers: list[Any] = []
        bar = tasks = None
        if shown is not None:
            watchers = [partial(_with_models, each, shown.finish or self._finished) for each in self._own_callbacks()]
            tasks = _SklearnTasks(self, shown) if getattr(self, "_skl_callbacks", None) else None
            bar = ProgressBar(type(self).__name__) if self.verbose else None
            watchers += [each.on_checkpoint for each in (tasks, bar) if each is not None]
        record = self._record(limits, solver, problem)
        # what overflows ends in an objective that is not finite, which is refused in a sentence
        with bar or nullcontext(), np.errstate(over="ignore", invalid="ignore"):
            if shown is not None and record is not None and not record.has_own and record.owner.passed:
                self._tell(bar, 0.0, False)
            outcome = run(
                solver,
                problem,
                state=state,
                rng=rng,
                max_epochs=self.max_iter if limits.max_epochs is None else limits.max_epochs,
                max_feature_reads=getattr(self, "max_feature_reads", None),
                max_seconds=self.max_seconds if limits.until == math.inf else limits.until - limits.started,
                tol=self.tol if limits.tol is None else limits.tol,
                validation=validation,
                patience=getattr(self, "n_iter_no_change", 1),
                callbacks=watchers,
                on_slice=bar.on_slice if bar else None,
                on_resume=partial(self._tell, bar) if shown is not None else None,
                history=history,
                checkpoint=record,
                interrupts=limits.interrupts,
                started=limits.started,
            )
        self.history_ = outcome.history
        self.stop_reason_ = outcome.stop_reason
        self.n_iter_: Any = max(1, math.ceil(outcome.history.last("epochs")))
        if tasks is not None:
            tasks.end(outcome.model)
        return outcome

    def _tell(self, bar: ProgressBar | None, epochs: float, ended: bool) -> None:
        """Say once in a fit, in a line of the bar and to the logger, from where the training goes on."""
        kept, place = self._checkpoint, "the last fit"
        if kept is not None:
            kept.passed += ended
            if ended or kept.told:
                return
            kept.told, place = True, str(kept.path)
            if kept.passed:
                place += f" after {kept.passed} run{'s' * (kept.passed > 1)},"
        text = f"{type(self).__name__} goes on from {place} at epoch {epochs:.4g}"
        LOGGER.info(text)
        if bar is not None:
            bar.say(text)

    def _begin(self, X: Any, y: Any, sample_weight: Any) -> tuple[float, Any, np.ndarray, np.ndarray]:
        """(start time, X, y, weights) of a fit, all checked, with the checkpoint opened if there is one."""
        started = now()
        self._check_parameters()
        X, y, weights = self._examples(X, y, sample_weight)
        if self.checkpoint is not None:
            self._checkpoint = opened(self, X, y, weights)
        return started, X, y, weights

    def _generator(self) -> np.random.Generator:
        """The generator of ``random_state``. A fit that goes on after a kill gets it as it was when the fit began."""
        rng = generator(self._seed if self.random_state is None else self.random_state)
        return rng if self._checkpoint is None else self._checkpoint.generator(rng)

    def _record(self, limits: Turn, solver: Any, problem: Any) -> Record | None:
        """The checkpoint's record of a run; None without a checkpoint."""
        if self._checkpoint is None:
            return None
        return self._checkpoint.record(limits.name, f"{solver!r} {getattr(problem, 'intercept', '')}")

    def _lam(self, n: int) -> float:
        """The factor λ for n examples."""
        return float(self.lam) if self.lam is not None else 1.0 / (self.C * n)

    def _check_data(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """(X, y) to train on, checked by :func:`.checking.check_rows`."""
        return check_rows(self, X, y, **options)

    def _rows_for(self, model: Any, X: Any) -> Any:
        """The user's rows, as a model takes them."""
        return check_rows(self, X, reset=False)

    def _finished(self, model: Any) -> Any:
        """A solver's model at a checkpoint, whose decision function takes the user's rows."""
        known = copy.copy(self)  # the estimator as it is now, whatever it learns later
        known.callbacks = None
        return replace(model, prepare=partial(known._rows_for, model))

    def _warn_if_unfinished(self, outcome: Outcome, reached: float | None = None) -> None:
        """Warn if training ended before ``tol`` was reached.

        ``reached`` is the relative gap at the end, by default the last one of the history.
        """
        if outcome.stop_reason == "precision":
            if reached is None:
                reached = float(outcome.history.last("gap")) / max(abs(outcome.objective), 1e-300)
            remedy = "scale the features, raise tol, or take a smaller C"
            warn(short_of_tol(type(self).__name__, reached, self.tol, remedy), ConvergenceWarning)
        if outcome.stop_reason not in UNFINISHED or self.tol <= 0 or self.max_iter <= 1:
            return
        objectives = outcome.history["objective"]
        change = abs(objectives[-1] - objectives[-2]) / abs(objectives[-1]) if len(objectives) > 1 else math.nan
        name, ended = type(self).__name__, f"stop_reason_={outcome.stop_reason!r}"
        gap = outcome.history.rows[-1].get("gap")
        if gap is not None and outcome.state.tight:
            gap = gap / abs(objectives[-1]) if reached is None else reached
            if gap > self.tol:
                warn(
                    f"{name} stopped with a relative duality gap of {gap:.1e}, short of tol={self.tol:g} ({ended}): "
                    "raise max_iter, max_seconds or tol, or scale the features"
                    + (" (solver='interior' minds their sizes less, if they are few)" if outcome.state.resumes else ""),
                    ConvergenceWarning,
                )
        elif outcome.stop_reason == "max_iter" and (outcome.doubt or not change <= self.tol):
            warn(
                f"{name} used all max_iter={self.max_iter} epochs and its objective still changed "
                f"by {change:.1e} of itself (tol={self.tol:g}){'; ' if outcome.doubt else ''}{outcome.doubt}: raise "
                "max_iter, or tol, or set tol=0 to say that the number of epochs is what you want",
                ConvergenceWarning,
            )

    # -- files

    def save(self, path: str | os.PathLike[str], *, state: bool = True, **header: Any) -> None:
        """Write the parameters and all that was learnt to a ``.npz`` file.

        The file holds arrays and a JSON header, never pickled objects. Callbacks are left out, with a
        warning.

        Parameters
        ----------
        path : str or path
            The name of the file. The old file stays until the new one is whole.
        state : bool, default=True
            Whether training can go on from the file. Without its state an estimator predicts the same
            and the file is smaller, but ``partial_fit``, ``warm_start`` and the like are refused.
        **header : values
            Further entries of the file's JSON header.

        Raises
        ------
        TypeError
            If a parameter is a function, such as a callable kernel: pickle the estimator instead.

        Examples
        --------
        >>> import os, tempfile
        >>> from widemargin import LinearSVC
        >>> model = LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.npz")
        ...     model.save(path)
        ...     LinearSVC.load(path).predict([[3.0]]).tolist()
        [1]
        """
        check_is_fitted(self)
        for name, value in self.get_params(deep=False).items():
            if callable(value) and name != "callbacks":
                raise TypeError(
                    f"{type(self).__name__} with {name}={value!r} cannot be saved: a file holds no functions; pickle "
                    f"it, or set {name} to a name"
                )
        left = [said for name, said in LEFT_OUT.items() if vars(self).get(name)]
        if left:
            warn(
                f"{type(self).__name__} is saved without {' and '.join(left)}, which are functions: set them again "
                "after load"
            )
        kept = self if state else self._without_state()
        known = {"features": getattr(self, "n_features_in_", None), "state": not kept._only_predicts}
        if hasattr(self, "classes_"):
            known["classes"] = [c if isinstance(c, (str, int, float)) else str(c) for c in self.classes_.tolist()]
        dump(path, kept, **{**known, **header})

    def _without_state(self) -> Any:
        """A copy that predicts the same, without what training goes on from."""
        small = copy.copy(self)
        for name in self.TRAINING:
            small.__dict__.pop(name, None)
        small._only_predicts = self._only_predicts or "was saved with state=False"
        return small

    def _refuse_without_state(self, what: str) -> None:
        """Refuse to go on training where there is nothing to go on from."""
        if self._only_predicts:
            name = type(self).__name__
            raise ValueError(
                f"{what} goes on from where training ended, and this {name} {self._only_predicts}, which leaves what "
                f"predicts only: use a file that {name}.save wrote with state=True, or call fit to train anew"
            )

    def _to_parts(self) -> dict[str, Any]:
        known = {name: value for name, value in vars(self).items() if name not in LEFT_OUT}
        parameters = {name: known.pop(name) for name in self._get_param_names() if name in known}
        if isinstance(parameters.get("checkpoint"), os.PathLike):
            parameters["checkpoint"] = os.fspath(parameters["checkpoint"])
        return {"parameters": parameters, "fitted": known}

    @classmethod
    def _from_parts(cls, parameters: dict[str, Any], fitted: dict[str, Any]) -> Any:
        model = cls(**parameters)
        model.__dict__.update(fitted)
        return model


def _with_models(callback: Callable[[Progress], Any], finish: Callable[[Any], Any], progress: Progress) -> Any:
    """Call a callback with a progress whose models take the user's rows."""
    return callback(replace(progress, finish=finish))


class _SklearnTasks:
    """Tells scikit-learn's callbacks that a fit begins, of each checkpoint as a task of its own, and that it ends."""

    def __init__(self, estimator: Any, shown: Shown) -> None:
        self.attributes = shown.attributes or (lambda model: {})
        self.given = {"estimator": estimator, "X": local(shown.X), "y": shown.y}
        self.root = estimator._init_callback_context(max_subtasks=None)
        self.root.call_on_fit_task_begin(**self.given)

    def on_checkpoint(self, progress: Progress) -> bool:
        """A task that ends where it begins; a true answer stops the training."""
        task = self.root.subcontext(task_name="checkpoint")
        learnt = {"reconstruction_attributes": lambda: self.attributes(progress.model())}
        given = {**self.given, "metadata": dict(progress.row), **learnt}
        task.call_on_fit_task_begin(**given)
        return bool(task.call_on_fit_task_end(**given))

    def end(self, model: Any) -> None:
        """The fit has ended with this model."""
        self.root.call_on_fit_task_end(**self.given, reconstruction_attributes=lambda: self.attributes(model))


def settled_gamma(estimator: Any) -> float:
    """The value of γ in use, which the first examples have settled; for kernels that have a γ."""
    if not class_of(estimator.kernel).has_gamma:
        raise AttributeError(f"gamma_ exists for kernels with a γ only, and the kernel is {estimator.kernel!r}")
    check_is_fitted(estimator)
    return estimator._gamma


def now() -> float:
    """The clock that ``max_seconds`` is measured on."""
    return time.perf_counter()
