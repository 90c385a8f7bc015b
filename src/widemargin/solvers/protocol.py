"""What a solver is, and the laws it keeps.

A solver is a dataclass of hyper-parameters. It works on a problem, which is frozen, and on a state, which is whole:
arrays, scalars, generator and counters of one run. Three laws hold for every solver, and one test holds them to it:

1. ``model``, ``certificate``, ``evaluate`` and ``glimpse`` look at a state and leave it as it is, bit for bit.
2. advance(a), any looks, advance(b) is advance(a + b); so is saving, loading and going on.
3. Counters count work, never the clock; ``kernel_computed`` alone depends on what a cache still held.

What a run needs beyond its state, such as a cache of kernel rows, is the state's *workspace*: it is made where it is
missing and can be dropped at any time without changing a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np

from ..core.rows import writable
from ..history import Counters

#: Steps of the first slice of a run, where a solver with long steps does not say otherwise.
FIRST_SLICE = 64
#: Entries of the data that linear solvers certainly read in less than a slice.
ENTRIES = 2**20


class State:
    """Base of the solvers' states, which are dataclasses."""

    #: What can be made again; neither saved nor copied with the state.
    workspace: ClassVar[Any] = None
    #: Whether rounding allows no further progress.
    stalled: Any = False
    #: Whether it is a start for another problem with the same examples or features.
    resumes: ClassVar[bool] = True
    #: Whether its gap closes about as fast as its objective falls, so that it says when to stop.
    tight: ClassVar[bool] = True

    counters: Counters

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "workspace"}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Take what was pickled. A run changes its state, so what came as memory that can only be read is copied."""
        vars(self).update((name, writable(value)) for name, value in values.items())

    def work(self, problem: Any, make: Callable[[], Any]) -> Any:
        """The workspace for this problem, made if there is none."""
        if self.workspace is None or self.workspace[0] is not problem:
            self.workspace = problem, make()  # type: ignore[misc]
        return self.workspace[1]

    def drop_workspace(self) -> None:
        """Give the workspace's memory back."""
        vars(self).pop("workspace", None)


class Solver:
    """Base of the solvers: what each has, and what those that differ say instead.

    A solver defines ``check(problem)``, ``init(problem, rng)``, ``advance(problem, state, n_steps)``,
    ``model(problem, state)``, ``certificate(problem, state)`` and ``steps_per_epoch(problem)``. What it can do stands
    in the attributes below, which estimators read: nobody asks for its class.
    """

    #: What the objective is a function of: "C" (or λ), or "nu".
    form: ClassVar[Any] = "C"
    #: Whether it can leave the intercept unregularised in a kernel machine.
    free_bias: ClassVar[bool] = False
    #: Whether ``init`` takes dual variables to start from, of shape (outputs, n), with the signs of w = Σ βᵢΦ(xᵢ).
    warm: ClassVar[Any] = False
    #: Whether it learns from a stream, part by part.
    streams: ClassVar[bool] = False
    #: Whether it learns from data that is reached by row and by column only.
    remote: ClassVar[bool] = False
    #: Whether it trains several binary problems on the same examples as one.
    joins: ClassVar[Any] = False
    #: The class of its states.
    state_class: ClassVar[type] = State
    #: Whether its aim is the objective, so that a gap left says something.
    minimises: ClassVar[Any] = True
    #: Whether its gap falls at an even rate, so that a run is looked at where it should reach ``tol``.
    steady: ClassVar[bool] = False
    #: Whether it goes to the optimum of an objective it knows, so that the model with the lowest one is the best.
    #: Pegasos' last iterate is its paper's choice, budgeted SGD only estimates its objective, and the Perceptron and
    #: the ν-form have another aim.
    exact: ClassVar[Any] = False
    #: The name of the solver of its kind that trains small pairs of classes at once; "" if there is none.
    for_pairs: ClassVar[str] = ""
    #: The name of the solver of the same problems on a GPU; "" if there is none.
    for_device: ClassVar[str] = ""
    #: Whether that one has the same parameters, so that a configured solver can be asked to go there.
    as_configured: ClassVar[bool] = False
    #: Whether it has kernel rows of its own, on a GPU: it has no use for shared ones, and its models come so soon that
    #: a time limit needs no samples first.
    on_device: ClassVar[bool] = False
    #: The name of the solver on a GPU that trains many such problems side by side; "" if there is none.
    for_many: ClassVar[str] = ""

    @property
    def resumes(self) -> bool:
        """Whether a state can be bound to another problem."""
        return self.state_class.resumes  # type: ignore[attr-defined]

    # -- work

    def sizes(self, problem: Any) -> dict[str, int]:
        """The sizes of the schema that a state of this problem has."""
        known = {"n": "n", "d": "d", "outputs": "n_outputs"}
        return {size: int(getattr(problem, name)) for size, name in known.items() if hasattr(problem, name)}

    def check(self, problem: Any) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        raise NotImplementedError

    def init(self, problem: Any, rng: np.random.Generator) -> Any:
        """The state before the first step; solvers that are ``warm`` take dual variables to start from, too."""
        raise NotImplementedError

    def advance(self, problem: Any, state: Any, n_steps: int) -> int:
        """Take up to n_steps steps, in place; returns how many it took. No steps compile what steps need."""
        raise NotImplementedError

    def bind(self, problem: Any, state: Any, in_order: bool = False) -> None:
        """Point a state at another problem, with new examples in the order given if ``in_order``; refuses one that
        does not fit.
        """
        raise NotImplementedError

    def first_slice(self, problem: Any) -> int:
        """Steps that certainly take less than a slice."""
        return FIRST_SLICE

    def steps_per_epoch(self, problem: Any) -> int:
        """Steps that visit as many examples as there are."""
        raise NotImplementedError

    def most_reads(self, problem: Any) -> int:
        """Stored entries of the data that a step of a linear solver may read; eight passes over its visits at most."""
        return 8 * problem.d * -(-problem.n // self.steps_per_epoch(problem))

    def at_checkpoint(self, state: Any) -> bool | None:
        """Whether a state is one to be looked at, where the solver says so itself; None leaves it to the run."""
        return None

    def doubt(self, problem: Any, state: Any, tol: float) -> str:
        """What speaks against convergence where the objective has stopped changing, in words; "" if nothing does."""
        return ""

    # -- looks

    def model(self, problem: Any, state: Any) -> Any:
        """A finished copy of what the solver stands for now."""
        raise NotImplementedError

    def certifies(self, problem: Any) -> bool:
        """Whether it says how far from the optimum its model of this problem is."""
        return True

    def certificate(self, problem: Any, state: Any) -> Any:
        """What is proven of the model; None where nothing is."""
        raise NotImplementedError

    def evaluate(self, problem: Any, state: Any, model: Any) -> dict[str, float]:
        """The columns of a checkpoint: "objective", and "gap" if the solver knows it.

        Where the objective is an estimate, "examples" says from how many, and nothing is proven: the gap is infinite.
        """
        certificate = self.certificate(problem, state)
        return {"objective": certificate.primal, "gap": certificate.gap}

    def knows(self, state: Any) -> bool:
        """Whether the value of the present point takes no further kernel values."""
        return True

    def glimpse(self, problem: Any, state: Any, most: float) -> tuple[dict[str, float], Callable[[], Any]] | None:
        """What :meth:`evaluate` says of the present point, and how to get its model; None if that takes more than
        ``most`` kernel values.
        """
        model = self.model(problem, state)
        return self.evaluate(problem, state, model), lambda: model

    def duals(self, problem: Any, state: Any) -> np.ndarray | None:
        """The dual variables of shape (outputs, n), with the signs of w = Σ βᵢΦ(xᵢ); None for solvers without them."""
        return None

    def scores(self, problem: Any, state: Any) -> tuple[np.ndarray, float] | None:
        """(the scores of all examples by the model, of shape (outputs, n), and how many times the model is the point
        whose dual value is certified); None where they are not known.
        """
        return None

    # -- parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name, as scikit-learn's searches want them.

        Parameters
        ----------
        deep : bool, default=True
            It is there for scikit-learn; solvers have no nested parameters.

        Returns
        -------
        dict
            The values by name.

        Examples
        --------
        >>> from widemargin import SDCA
        >>> SDCA(n_jobs=2).get_params()["n_jobs"]
        2
        """
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Solver:
        """Set hyper-parameters by name.

        Parameters
        ----------
        **params : values
            The new values.

        Returns
        -------
        self
            The solver.

        Raises
        ------
        ValueError
            If the solver has no such parameter.

        Examples
        --------
        >>> from widemargin import SDCA
        >>> SDCA().set_params(n_jobs=2).n_jobs
        2
        """
        names = list(self.get_params())
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(names)}")
            setattr(self, name, value)
        return self


def checked_duals(duals: Any, outputs: int, n: int) -> np.ndarray:
    """Dual variables to start from, as float64 of shape (outputs, n); refuses what are none."""
    duals = np.atleast_2d(np.asarray(duals, np.float64))
    if duals.shape != (outputs, n) or not np.isfinite(duals).all():
        raise ValueError(f"duals must be finite and of shape ({outputs}, {n}), got the shape {duals.shape}")
    return duals
