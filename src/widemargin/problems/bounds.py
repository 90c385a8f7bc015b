"""Proven bounds of primal and dual values of kernel models, from scores with known errors.

For one or many binary problems. Given β, scores zᵢ and bounds of their errors, compute numbers P and D such that, for
all true scores within the errors,

    P ≥ objective of w = Σ βᵢΦ(xᵢ) with its bias,      D ≤ dual value of a multiple θβ in the box,

so that the minimum of the problem lies between D and P. A sum of n numbers may be wrong by n roundings of the sum of
their absolute values, which P and D include. A free bias demands Σ β = 0: the remainder that rounding leaves is
subtracted from the one coefficient where this costs least. Cost: O(n) for each problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

EPSILON = float(np.finfo(np.float64).eps)


class Members(NamedTuple):
    """How entries of tables belong to problems: ``total`` and ``least`` reduce the entries of each problem to one
    number, and ``spread`` copies a number for each problem to its entries.
    """

    total: Callable[[np.ndarray], np.ndarray]
    least: Callable[[np.ndarray], np.ndarray]
    spread: Callable[[np.ndarray], np.ndarray]


#: Each row of a table is a problem.
ROWS = Members(lambda of: of.sum(axis=1), lambda of: of.min(axis=1), lambda of: np.asarray(of)[:, None])


class Binary(NamedTuple):
    """Binary problems: the loss, targets and caps C sᵢ of the examples, λ, the constant that is added to kernel values,
    and whether the bias is free.
    """

    loss: Any
    y: np.ndarray
    cap: np.ndarray
    lam: Any
    constant: float
    is_free: bool

    def missed(self, scores: np.ndarray) -> np.ndarray:
        """How far each example is from zero loss: 1 − y z, or |z − y| − ε; negative where the loss is 0."""
        if self.loss.is_regression:
            return np.asarray(np.abs(scores - self.y) - self.loss.epsilon)
        return np.asarray(1.0 - self.y * scores)

    def bounds(
        self, beta: np.ndarray, scores: np.ndarray, bias: np.ndarray, error: np.ndarray, largest: float,
        members: Members = ROWS,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """(P, D) of each problem, as in the head of this file; ``largest`` bounds k(x, x), ``error`` the scores'."""
        total, least, spread = members
        root = np.broadcast_to(np.sqrt(self.lam), bias.shape)  # λ‖w‖² never overflows; ‖w‖² may
        unit, each = spread(root), spread(np.broadcast_to(self.lam, bias.shape))
        y, cap, f, size = self.y, self.cap, scores - spread(bias), np.abs(beta)
        epsilon = self.loss.epsilon if self.loss.is_regression else 0.0
        rounded, both = EPSILON * total(np.ones_like(beta)), total(beta)
        part, turned = unit * beta, unit * f
        off, norm2, turned = total(unit * size * (unit * error)), total(part * turned), total(np.abs(part * turned))
        beside = self.constant * (root * bias) * (2.0 * total(part) + root * bias)
        lost = total(each * cap * np.maximum(self.missed(scores) + error, 0.0))
        primal = 0.5 * (np.maximum(norm2, 0.0) + off + beside + rounded * turned) + (1.0 + rounded) * lost
        linear, norm2 = total(each * beta * y) - epsilon * total(each * size), norm2 + off + rounded * turned
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            theta = least(np.where(beta != 0.0, cap / size, np.inf))
            theta = np.where(norm2 > 0.0, np.minimum(theta, linear / norm2), theta)
            is_dual = linear > 0.0
            if not self.loss.is_regression:
                is_dual &= least(beta * y) >= 0.0
            theta = np.where(is_dual, theta, 0.0)
            dual = theta * linear - 0.5 * theta**2 * norm2 - rounded * theta * total(each * size * np.abs(y))
            left = theta * both
            if self.is_free and left.any():
                scaled, moved = spread(theta) * beta, spread(theta) * beta - spread(left)
                fits = (np.abs(moved) <= cap) & ((scaled * moved > 0.0) | self.loss.is_regression)
                slope = least(np.where(fits, np.abs(y - spread(theta) * f) + spread(theta) * error, np.inf))
                taken = self.lam * np.abs(left) * (slope + epsilon) + 0.5 * (root * left) ** 2 * largest
                dual -= np.where(left != 0.0, taken, 0.0)
        return primal, np.maximum(np.nan_to_num(dual, nan=0.0, neginf=0.0), 0.0)
