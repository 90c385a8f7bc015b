"""The solvers, one file each, and the registry: who solves what kind of problem, by the name that users give.

A new solver is one file and one line here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

#: kind of problem → name → module:class, modules relative to this package; the first is meant by "auto".
REGISTRY = {
    "linear": {
        "sdca": ".sdca:SDCA",
        "pegasos": ".pegasos.pegasos:Pegasos",
        "interior": ".interior:Interior",
        "simba": ".simba.simba:Simba",
    },
    "kernel": {
        "smo": ".smo.smo:SMO",
        "sbp": ".sbp.sbp:StochasticBatchPerceptron",
        "sdca": ".visits.sdca:KernelSDCA",
        "pegasos": ".visits.pegasos:KernelPegasos",
        "perceptron": ".visits.perceptron:KernelPerceptron",
    },
    "budgeted": {"sgd": ".budget.sgd:BudgetedSGD"},
    "incremental": {"tracker": ".tracking.tracker:Tracker"},
    "pairs": {"smo": ".smo.pairs:PairwiseSMO"},
    "parts": {"admm": ".consensus:ConsensusADMM", "interior": ".interior:InteriorOnParts"},
    "kernel_parts": {"sbp": ".sbp.parts:SBPOnParts"},
    "device": {"smo": "..backends.smo:DeviceSMO", "sbp": "..backends.sbp:DeviceSBP"},
    "devices": {"smo": "..backends.smo:SideBySide"},
}


def names(kind: str) -> list[str]:
    """The names of the solvers of a kind, "auto" first."""
    return ["auto", *REGISTRY[kind]]


@cache
def solver_class(kind: str, name: str) -> Any:
    """The class of the solver of this kind that has this name; "auto" is the first."""
    module, own = REGISTRY[kind][next(iter(REGISTRY[kind])) if name == "auto" else name].split(":")
    return getattr(import_module(module, __name__), own)


def make(kind: str, name: str = "auto", **parameters: Any) -> Any:
    """A solver of this kind and name, with these parameters.

    >>> make("linear", "pegasos", batch_size=16).batch_size
    16
    """
    return solver_class(kind, name)(**parameters)


def classes(kind: str) -> tuple[Any, ...]:
    """The classes of all solvers of a kind."""
    return tuple(solver_class(kind, name) for name in REGISTRY[kind])
