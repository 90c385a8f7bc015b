"""What a solver is, and the laws it keeps.

A solver is a dataclass of hyper-parameters. A solver works on a problem, which is frozen, and on a state, which holds
all arrays, scalars, generators and counters of one run. Three laws hold for every solver, and one test checks them:

1. ``model``, ``certificate``, ``evaluate`` and ``glimpse`` leave the state as it is, bit for bit.
2. advance(a), any looks, advance(b) is advance(a + b), saved and loaded in between or not.
3. Counters count work, never time; ``kernel_computed`` alone depends on the content of a cache.

Everything else that a run needs, such as a cache of kernel rows, is the *workspace* of the state. The workspace is made
where it is missing, and can be dropped at any time without changing a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.rows.rows import writable
from ..history import Counters

FIRST_SLICE = 64  # steps of the first slice of a run, unless the solver knows better
ENTRIES = 2**20  # entries of the data that linear solvers read in less than a slice


class State:
    """Base of the solvers' states, which are dataclasses."""

    #: (The problem, everything that can be made again); neither saved nor copied with the state.
    workspace: ClassVar[Any] = None
    #: Whether rounding allows no further progress.
    stalled: Any = False
    #: Whether training on another problem with the same examples or features can start from this state.
    resumes: ClassVar[bool] = True
    #: Whether the duality gap shrinks at the rate of the objective, so that the gap can serve as the stopping rule.
    tight: ClassVar[bool] = True

    counters: Counters

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "workspace"}

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Take the pickled values; copies read-only memory, because a run changes its state."""
        vars(self).update((name, writable(value)) for name, value in values.items())

    def work(self, problem: Any, make: Callable[[], Any]) -> Any:
        """The workspace for this problem, made if there is none."""
        if self.workspace is None or self.workspace[0] is not problem:
            self.workspace = problem, make()  # type: ignore[misc]
        return self.workspace[1]

    def drop_workspace(self) -> None:
        """Give the workspace's memory back."""
        vars(self).pop("workspace", None)


@dataclass(frozen=True)
class Capabilities:
    """What a solver can do; the defaults are those of a plain solver on the CPU."""

    #: What training approaches: the "optimum" of an objective, so that the model with the lowest objective is the best;
    #: a low "objective", where the last model is the best (Pegasos) or the objective is estimated (budgeted SGD); the
    #: solution for the solver's own "nu", which replaces C and whose gap says nothing; or few "mistakes" (Perceptron).
    aim: Literal["optimum", "objective", "nu", "mistakes"] = "objective"
    #: Kernel machines may have an unregularised intercept.
    free_intercept: bool = False
    #: ``init`` takes first dual variables, of shape (outputs, n), with the signs of w = Σ βᵢΦ(xᵢ).
    starts_from_duals: bool = False
    #: Learns from a stream, part by part.
    streams: bool = False
    #: Learns from data that is reached by row and by column only.
    remote: bool = False
    #: Trains several binary problems on the same examples as one.
    joins: bool = False
    #: The gap falls at an even rate, so that a run is looked at where it should reach ``tol``.
    steady: bool = False
    #: Computes kernel rows on a GPU: shares no rows, and needs no samples first under a time limit.
    on_device: bool = False
    #: Name of the solver that trains small pairs of classes at once; "" if there is none.
    for_pairs: str = ""
    #: Name of the solver of the same problems on a GPU; "" if there is none.
    for_device: str = ""
    #: The solver on a GPU has the same parameters, so that a configured solver can be moved there.
    same_parameters: bool = False
    #: Name of the solver on a GPU that trains many such problems side by side; "" if there is none.
    for_many: str = ""

    @property
    def exact(self) -> bool:
        """Whether training approaches the optimum of an objective."""
        return self.aim == "optimum"

    @property
    def minimises(self) -> bool:
        """Whether the aim is a low objective, so that the gap that is left says something."""
        return self.aim in ("optimum", "objective")


class Solver:
    """Base of the solvers.

    A solver defines ``check(problem)``, ``init(problem, rng)``, ``advance(problem, state, n_steps)``,
    ``model(problem, state)``, ``certificate(problem, state)`` and ``steps_per_epoch(problem)``. Estimators read what it
    can do from its ``capabilities`` and never ask for its class.
    """

    #: What the solver can do.
    capabilities: ClassVar[Any] = Capabilities()
    #: The class of its states.
    state_class: ClassVar[type] = State

    # -- work

    def sizes(self, problem: Any) -> dict[str, int]:
        """The sizes of the schema that a state of this problem has."""
        known = {"n": "n", "d": "d", "outputs": "n_outputs"}
        return {size: int(getattr(problem, name)) for size, name in known.items() if hasattr(problem, name)}

    def check(self, problem: Any) -> None:
        """Refuse what the solver cannot solve, in one sentence each."""
        raise NotImplementedError

    def init(self, problem: Any, rng: np.random.Generator) -> Any:
        """The state before the first step; solvers with ``starts_from_duals`` also take dual variables."""
        raise NotImplementedError

    def advance(self, problem: Any, state: Any, n_steps: int) -> int:
        """Take up to n_steps steps, in place; returns how many were taken. n_steps = 0 compiles the loops."""
        raise NotImplementedError

    def bind(self, problem: Any, state: Any, in_order: bool = False) -> None:
        """Point a state at another problem, with new examples in the order given if ``in_order``.

        Refuses problems that do not fit the state.
        """
        raise NotImplementedError

    def first_slice(self, problem: Any) -> int:
        """Steps that certainly take less than a slice."""
        return FIRST_SLICE

    def steps_per_epoch(self, problem: Any) -> int:
        """Steps that visit as many examples as there are."""
        raise NotImplementedError

    def most_reads(self, problem: Any) -> int:
        """Most stored entries of the data that a step of a linear solver reads: eight passes over its visits."""
        return 8 * problem.d * -(-problem.n // self.steps_per_epoch(problem))

    def at_checkpoint(self, state: Any) -> bool | None:
        """Whether the run should make a checkpoint now; None leaves the choice to the run."""
        return None

    def doubt(self, problem: Any, state: Any, tol: float) -> str:
        """A sentence against convergence where the objective has stopped changing; "" if there is none."""
        return ""

    # -- looks

    def model(self, problem: Any, state: Any) -> Any:
        """A finished copy of the current model."""
        raise NotImplementedError

    def certifies(self, problem: Any) -> bool:
        """Whether the solver has certificates for this problem."""
        return True

    def certificate(self, problem: Any, state: Any) -> Any:
        """The primal and dual values that are proven of the model; None if nothing is proven."""
        raise NotImplementedError

    def evaluate(self, problem: Any, state: Any, model: Any) -> dict[str, float]:
        """The columns of a checkpoint: "objective", and "gap" if the solver knows it."""
        certificate = self.certificate(problem, state)
        return {"objective": certificate.primal, "gap": certificate.gap}

    def knows(self, state: Any) -> bool:
        """Whether the objective of the current point takes no further kernel values."""
        return True

    def glimpse(self, problem: Any, state: Any, most: float) -> tuple[dict[str, float], Callable[[], Any]] | None:
        """(:meth:`evaluate` of the current point, a function that makes its model), or None.

        None if that takes more than ``most`` kernel values.
        """
        model = self.model(problem, state)
        return self.evaluate(problem, state, model), lambda: model

    def duals(self, problem: Any, state: Any) -> np.ndarray | None:
        """The dual variables of shape (outputs, n), with the signs of w = Σ βᵢΦ(xᵢ); None for solvers without them."""
        return None

    def scores(self, problem: Any, state: Any) -> tuple[np.ndarray, float] | None:
        """(The scores of all examples by the model, of shape (outputs, n), a factor), or None if they are not known.

        The factor times the model is the point whose dual value is certified.
        """
        return None

    # -- parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name, as scikit-learn's searches want them.

        Parameters
        ----------
        deep : bool, default=True
            Accepted for scikit-learn; solvers have no nested parameters.

        Returns
        -------
        dict
            The values by name.

        Examples
        --------
        >>> from widemargin import SDCA
        >>> SDCA(lag=False).get_params()["lag"]
        False
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
        >>> SDCA().set_params(lag=False).lag
        False
        """
        names = list(self.get_params())
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(names)}")
            setattr(self, name, value)
        return self


def checked_duals(duals: Any, outputs: int, n: int) -> np.ndarray:
    """First dual variables as float64 of shape (outputs, n); refuses other shapes and values that are not finite."""
    duals = np.atleast_2d(np.asarray(duals, np.float64))
    if duals.shape != (outputs, n) or not np.isfinite(duals).all():
        raise ValueError(f"duals must be finite and of shape ({outputs}, {n}), got the shape {duals.shape}")
    return duals
