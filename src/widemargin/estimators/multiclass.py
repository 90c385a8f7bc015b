"""How a problem of several classes becomes one that solvers know."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import losses


def target_of(
    n_classes: int, loss: str, multi_class: str, positive_weight: np.ndarray, cost_matrix: Any = None
) -> tuple[Any, int]:
    """(target, number of outputs): a joint loss, the sum of those of each class against the rest, or of two classes.

    ``positive_weight`` are weights of each class's own examples against the rest, ``cost_matrix`` the costs of a joint
    hinge, 1 for every error if None.
    """
    if multi_class == "crammer_singer":
        return (losses.MulticlassLog() if loss == "log" else _joint_hinge(n_classes, cost_matrix)), n_classes
    single = losses.BINARY[loss]()
    return (losses.Single(single), 1) if n_classes == 2 else (losses.OneVsRest(single, positive_weight), n_classes)


def _joint_hinge(n_classes: int, cost_matrix: Any) -> Any:
    """The hinge of all classes together, with the cost of each error."""
    try:
        cost = 1.0 - np.eye(n_classes) if cost_matrix is None else np.asarray(cost_matrix, np.float64)
    except (ValueError, TypeError) as error:
        raise type(error)(f"cost_matrix must hold numbers: {error}") from error
    if cost.shape != (n_classes, n_classes):
        raise ValueError(f"cost_matrix must have shape ({n_classes}, {n_classes}), got {cost.shape}")
    wrong = ~np.isfinite(cost) | (cost < 0) | (np.eye(n_classes, dtype=bool) & (cost != 0))
    if wrong.any():
        r, c = np.argwhere(wrong)[0]
        raise ValueError(f"cost_matrix must be finite, ≥ 0 and zero on its diagonal, got {cost[r, c]} at [{r}, {c}]")
    return losses.MulticlassHinge(np.ascontiguousarray(cost))


def targets_of(codes: np.ndarray, outputs: int) -> np.ndarray:
    """What a target compares scores with: ±1 for one output, else the codes."""
    return 2.0 * codes - 1.0 if outputs == 1 else codes.astype(np.float64)
