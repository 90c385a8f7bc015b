"""Figures from fitted estimators and their histories. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .history import History

#: Axis labels of the history's columns.
LABELS = {
    "seconds": "training time (s)",
    "epochs": "epochs",
    "steps": "steps",
    "visits": "examples visited",
    "feature_reads": "entries of X read",
    "kernel_evals": "kernel values computed",
    "objective": "primal objective",
    "gap": "duality gap",
    "validation_error": "validation error",
    "test_error": "test error",
    "online_error": "error before learning",
    "labels": "labels",
}


def convergence(
    estimators: Any, *, x: str = "seconds", y: str = "objective", optimum: float | None = None, ax: Any = None
) -> Any:
    """Draw a column of the history against another.

    Parameters
    ----------
    estimators : a fitted estimator, a History, a sequence of them, or a mapping from names to them
    x, y : columns of the history
    optimum : float, optional
        Draw y − optimum on a logarithmic axis instead of y.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    named = _named(estimators)
    for name, history in named.items():
        horizontal, vertical = history[x], history[y]
        known = np.isfinite(horizontal) & np.isfinite(vertical)
        horizontal, vertical = horizontal[known], vertical[known]
        if optimum is not None:
            vertical = np.maximum(vertical - optimum, np.finfo(float).eps * abs(optimum))
        ax.plot(horizontal, vertical, marker="o", markersize=3, label=name)
    if optimum is not None:
        ax.set_yscale("log")
    positive = all(np.nanmin(history[x].astype(float), initial=np.inf) > 0 for history in named.values())
    if positive:
        ax.set_xscale("log")
    ax.set_xlabel(LABELS.get(x, x))
    ax.set_ylabel(LABELS.get(y, y) + (" above the optimum" if optimum is not None else ""))
    ax.grid(alpha=0.3)
    if len(named) > 1:
        ax.legend(frameon=False)
    return ax


def pareto(paths: Any, *, ax: Any = None) -> Any:
    """Draw the Pareto front of :func:`widemargin.pareto_path`: mean hinge against norm.

    Parameters
    ----------
    paths : a path, a sequence of them, or a mapping from names to paths
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    if isinstance(paths, Sequence):
        paths = dict(enumerate(paths))
    named = paths if isinstance(paths, Mapping) else {"": paths}
    for path in named.values():
        if not (hasattr(path, "norms") and hasattr(path, "hinges")):
            raise TypeError(f"pareto draws what pareto_path returns, got {path!r}: call pareto_path first")
    ax = _axes(ax)
    for name, path in named.items():
        order = np.argsort(path.norms)
        ax.plot(path.norms[order], path.hinges[order], marker="o", markersize=3, label=str(name))
    ax.set_xscale("log")
    ax.set_xlabel("‖w‖ (1 / margin)")
    ax.set_ylabel("mean hinge loss")
    ax.grid(alpha=0.3)
    if len(named) > 1:
        ax.legend(frameon=False)
    return ax


def _axes(ax: Any) -> Any:
    """The axes given, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise ImportError("plots need matplotlib: pip install 'widemargin[plots]'") from missing
    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


def _named(estimators: Any) -> dict[str, History]:
    """The histories of one estimator, of a list or of a dictionary, by the names for the legend."""
    if isinstance(estimators, Mapping):
        return {str(name): _history(each) for name, each in estimators.items()}
    if isinstance(estimators, Sequence):
        return {f"{i}: {type(each).__name__}": _history(each) for i, each in enumerate(estimators)}
    return {type(estimators).__name__: _history(estimators)}


def _history(estimator: Any) -> History:
    if isinstance(estimator, History):
        return estimator
    history = getattr(estimator, "history_", None)
    if not isinstance(history, History):
        raise TypeError(f"convergence draws fitted estimators or histories, got {estimator!r}: call fit first")
    return history
