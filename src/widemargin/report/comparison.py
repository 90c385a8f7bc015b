"""A comparison of all solvers on the same rows with the same time limit: error, time and size of each model.

All contenders have the same C, γ, ε and λ = 1/(Cn), the same training rows and the same test rows. The clock counts the
time of ``fit``. Fits to a few rows compile the loops first; a fit that compiles nevertheless is repeated. Callbacks
keep the models of checkpoints, off the clock, and their errors are measured after training. scikit-learn's estimators
take no time limit: each runs in a process of its own (:mod:`.rivals`), which is killed at the limit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.base import clone

from ..core.compiling.notice import compilations
from ..estimators.budgeted import BudgetedSVC, BudgetedSVR
from ..estimators.halving import proven_gap
from ..estimators.incremental import IncrementalSVC
from ..estimators.kernel import SVC, SVR
from ..estimators.linear import LinearSVC, LinearSVR
from ..history import Stopwatch
from ..models import PairsModel
from ..problems.layout import scaled_kernel
from .results import RIVAL, Examples, Result, describe

#: The interior point takes part up to this number of features: its cost for each row grows with their square.
NARROW = 200
#: The numbers of support vectors of the budgeted machines.
BUDGETS = 100, 500
#: Passes of the machines that have no stopping rule.
PASSES = 10
#: Rows of the fits that only compile.
FEW = 240
#: The most models of checkpoints that are kept, beside the last one.
KEPT = 24


@dataclass(frozen=True)
class Setting:
    """The parameters that all contenders share."""

    C: float = 1.0
    gamma: Any = "scale"
    epsilon: float = 0.1
    max_seconds: float = 30.0


def settled(setting: Setting, X: Any) -> Setting:
    """The setting with γ as a number, so that all contenders have the same."""
    _, _, gamma = scaled_kernel("rbf", setting.gamma, 3, 0.0, X)
    return replace(setting, gamma=float(gamma))


def contenders(examples: Examples, setting: Setting) -> dict[str, Any]:
    """The estimators that are compared, by name. The setting has γ as a number."""
    lam = 1.0 / (setting.C * examples.n)
    limit: dict[str, Any] = {"max_seconds": setting.max_seconds, "random_state": 0}
    kernel = {"gamma": setting.gamma, **limit}
    linear = ["sdca", "pegasos"] + (["interior"] if examples.X.shape[1] <= NARROW else [])
    # SGD is best with averaging
    C, epsilon, alpha = setting.C, setting.epsilon, {"alpha": lam, "average": True, "random_state": 0}
    if examples.labels:
        found: dict[str, Any] = {f"LinearSVC {name}": LinearSVC(C, solver=name, **limit) for name in linear}
        found |= {f"SVC {name}": SVC(C, solver=name, **kernel) for name in ("smo", "sbp")}
        found |= {f"BudgetedSVC {size}": BudgetedSVC(size, lam=lam, max_iter=PASSES, **kernel) for size in BUDGETS}
        found["IncrementalSVC"] = IncrementalSVC(C, **kernel)
        # our loss: scikit-learn's default, the squared hinge, would be another problem
        found[RIVAL + "LinearSVC"] = svm.LinearSVC(C=C, loss="hinge", random_state=0)
        found[RIVAL + "SGDClassifier"] = linear_model.SGDClassifier(loss="hinge", **alpha)
        found[RIVAL + "SVC"] = svm.SVC(C=C, gamma=setting.gamma)
        return found
    found = {f"LinearSVR {name}": LinearSVR(C=C, epsilon=epsilon, solver=name, **limit) for name in linear}
    found["SVR smo"] = SVR(C=C, epsilon=epsilon, **kernel)
    for size in BUDGETS:
        found[f"BudgetedSVR {size}"] = BudgetedSVR(size, lam=lam, epsilon=epsilon, max_iter=PASSES, **kernel)
    found[RIVAL + "LinearSVR"] = svm.LinearSVR(C=C, epsilon=epsilon, loss="epsilon_insensitive", random_state=0)
    sgd = linear_model.SGDRegressor(loss="epsilon_insensitive", epsilon=epsilon, **alpha)
    found[RIVAL + "SGDRegressor"] = sgd
    found[RIVAL + "SVR"] = svm.SVR(C=C, gamma=setting.gamma, epsilon=epsilon)
    return found


def chosen(found: dict[str, Any], only: list[str], skip: list[str]) -> dict[str, Any]:
    """Estimators whose names contain a word of ``only``, or all if there is none, but no word of ``skip``."""
    for option, words in (("only", only), ("skip", skip)):
        for word in words:
            if not any(word.lower() in name.lower() for name in found):
                raise ValueError(f"--{option} {word!r} is part of no name here: these are {', '.join(found)}")
    has_word = lambda name, words: any(word.lower() in name.lower() for word in words)  # noqa: E731
    left = [name for name in found if (not only or has_word(name, only)) and not has_word(name, skip)]
    if not left:
        raise ValueError("--only and --skip leave nothing to compare")
    return {name: found[name] for name in left}


def compare(
    estimators: dict[str, Any], examples: Examples, max_seconds: float, begins: Callable[[str], Any] = lambda name: None
) -> Iterator[Result]:
    """Yield the result of each contender when it ends; after Ctrl-C the last one has the stop reason "interrupted".

    ``begins`` is called with the name of each contender when it begins. The stop reason of a failed one says why.
    """
    from . import rivals

    for name, estimator in estimators.items():
        begins(name)
        run = partial(rivals.run, max_seconds=max_seconds) if name.startswith(RIVAL) else _run
        result = Result(name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the table says what did not converge
                run(result, estimator, examples)
        except KeyboardInterrupt:
            result.stop_reason = "interrupted"
        except (ValueError, TypeError, MemoryError, ArithmeticError) as bad:
            result.stop_reason = "failed: " + " ".join(str(bad).split())
        yield result
        if result.stop_reason == "interrupted":
            return


def _run(result: Result, estimator: Any, examples: Examples) -> None:
    """Train an estimator of this library, and fill in its result."""
    _compile(estimator, examples)
    with compilations() as compiled:
        model, kept = _fitted(estimator, examples)
    if compiled.loops and model.stop_reason_ != "interrupted":
        model, kept = _fitted(estimator, examples)
    result.seconds = kept.watch.seconds
    result.stop_reason = model.stop_reason_
    for seconds, each in kept.models[:-1]:
        predicted = _predictions(each, model, examples)
        if predicted is not None:
            result.curve.append((seconds, examples.error(predicted)))
    describe(result, model, examples)
    result.relative_gap = proven_gap(model)


def _fitted(estimator: Any, examples: Examples) -> tuple[Any, Kept]:
    """(a fitted copy of the estimator, the models of its checkpoints)."""
    kept = Kept()
    model = clone(estimator).set_params(callbacks=kept)
    with kept.watch:
        model.fit(examples.X, examples.y)
    return model, kept


def _compile(estimator: Any, examples: Examples) -> None:
    """Fit a few rows of the data, so that the clock does not count compilation."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(examples.n)[:FEW]
    if examples.labels:  # include each class, even if it is rare
        rows = np.union1d(rows, np.unique(examples.y, return_index=True)[1])
    X, y = examples.X[rows], examples.y[rows]
    for variant in ({"max_seconds": 1e6}, {"max_seconds": 1e6, "max_iter": 1}):  # limits use loops of their own
        model = clone(estimator)
        if getattr(model, "budget", None) is not None:
            variant = {**variant, "budget": 20}  # small enough for vectors to be merged
        if model.set_params(**variant).fit(X, y).stop_reason_ == "interrupted":
            raise KeyboardInterrupt
        model.predict(X)


class Kept:
    """A callback that keeps (time since the fit began without the callback's own, model) of checkpoints."""

    def __init__(self) -> None:
        self.models: list[tuple[float, Any]] = []
        self.watch = Stopwatch()

    def __call__(self, progress: Any) -> None:
        self.watch.__exit__()
        if len(self.models) > KEPT:  # drop every other one of the older half
            self.models = self.models[: KEPT // 2 : 2] + self.models[KEPT // 2 :]
        self.models.append((self.watch.seconds, progress.model()))
        self.watch.__enter__()


def _predictions(model: Any, estimator: Any, examples: Examples) -> np.ndarray | None:
    """The predictions of the model of a checkpoint; None if it is the model of a part of the problem only."""
    if isinstance(model, PairsModel):
        return None
    scores = model.decision_function(examples.test_X)
    if not examples.labels:
        return scores[:, 0]
    classes = estimator.classes_
    if scores.shape[1] == 1 and classes.size == 2:
        return classes[(scores[:, 0] > 0.0).astype(int)]
    return classes[np.argmax(scores, axis=1)] if scores.shape[1] == classes.size else None
