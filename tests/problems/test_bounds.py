"""Primal and dual values from scores with errors are bounds: against the textbook, and optima of quadratic programs."""

import numpy as np
import pytest
from scipy.optimize import minimize

from widemargin.core.losses.losses import EpsilonInsensitive, Hinge
from widemargin.problems.bounds import Binary

LOSSES = [Hinge(), EpsilonInsensitive(0.1)]
N = 8
#: The constant feature of a regularised bias, and whether the bias is free.
KINDS = [(0.0, False), (1.0, False), (0.0, True)]


def problem(rng, loss, constant, is_free):
    """A binary problem with the kernel matrix of points in the plane."""
    X = rng.normal(size=(N, 2))
    K = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2))
    y = rng.normal(size=N) if loss.is_regression else np.where(rng.random(N) < 0.5, 1.0, -1.0)
    return K, Binary(loss, y[None], rng.uniform(0.1, 3.0, (1, N)), rng.uniform(0.1, 2.0), constant, is_free)


def primal_value(binary, K, beta, bias):
    """λ(½‖w‖² + Σ cap × loss); a regularised bias is the weight of a constant feature of the root of the constant."""
    f, constant = K @ beta + bias, binary.constant
    norm2 = beta @ K @ beta + (bias**2 / constant if constant else 0.0)
    excess = np.abs(f - binary.y[0]) - binary.loss.epsilon if binary.loss.is_regression else 1.0 - binary.y[0] * f
    return binary.lam * (0.5 * norm2 + binary.cap[0] @ np.maximum(excess, 0.0))


def dual_value(binary, K, beta):
    epsilon = binary.loss.epsilon if binary.loss.is_regression else 0.0
    linear = binary.y[0] @ beta - epsilon * np.abs(beta).sum()
    return binary.lam * (linear - 0.5 * beta @ (K + binary.constant) @ beta)


def optimum(binary, K, is_free):
    """The variables of the largest dual value, with Σ β = 0 for a free bias."""
    y, cap, regression = binary.y[0], binary.cap[0], binary.loss.is_regression
    sides = np.array([1.0, -1.0]) if regression else y[:, None]  # β = Σ sides × α, α ≥ 0
    epsilon = binary.loss.epsilon if regression else 0.0
    linear = (sides * y[:, None] - epsilon).ravel()
    spread = np.zeros((N, linear.size))
    spread[np.repeat(np.arange(N), linear.size // N), np.arange(linear.size)] = np.broadcast_to(
        sides, (N, linear.size // N)
    ).ravel()
    H = spread.T @ (K + binary.constant) @ spread
    found = minimize(
        lambda a: 0.5 * a @ H @ a - linear @ a, np.zeros(linear.size), jac=lambda a: H @ a - linear, method="SLSQP",
        bounds=[(0.0, c) for c in np.repeat(cap, linear.size // N)], options={"ftol": 1e-14, "maxiter": 500},
        constraints=[{"type": "eq", "fun": lambda a: spread.sum(axis=0) @ a, "jac": lambda a: spread.sum(axis=0)}]
        if is_free else [],
    )  # fmt: skip
    return np.clip(spread @ found.x, -cap, cap)


def bounded(binary, K, beta, extra, scores, error):
    """(primal, dual) as proven."""
    found = binary.bounds(beta[None], scores[None], np.array([extra]), error[None], 1.0 + binary.constant)
    return float(found[0][0]), float(found[1][0])


def moved(binary, K, is_free, rng):
    """Coefficients beside the optimum, perhaps out of the box, and what is added to scores; Σ β = 0 for a free bias."""
    beta = optimum(binary, K, is_free) * rng.uniform(0.2, 2.0)
    if is_free:
        beta[0] -= beta.sum()
    return beta, rng.normal() if is_free or binary.constant else 0.0


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(("constant", "is_free"), KINDS)
def test_exact_scores_have_the_primal_value_and_the_dual_value_of_the_best_multiple(loss, constant, is_free, rng):
    for _ in range(10):
        K, binary = problem(rng, loss, constant, is_free)
        beta, extra = moved(binary, K, is_free, rng)
        primal, dual = bounded(binary, K, beta, extra, (K + constant) @ beta + extra, np.zeros(N))
        assert primal == pytest.approx(primal_value(binary, K, beta, constant * beta.sum() + extra), rel=1e-12)
        most = (binary.cap[0] / np.maximum(np.abs(beta), 1e-300)).min()
        once, twice = (dual_value(binary, K, theta * beta) for theta in (1.0, 2.0))
        slope = 2.0 * once - 0.5 * twice  # of the parabola at 0
        best = dual_value(binary, K, min(most, slope / (2.0 * (slope - once))) * beta) if slope > 0.0 else 0.0
        if not loss.is_regression and (beta * binary.y[0]).min() < 0.0:
            best = 0.0  # on the wrong side nothing is proven
        assert dual == pytest.approx(best, rel=1e-9, abs=1e-12 * primal)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(("constant", "is_free"), KINDS)
def test_scores_that_are_off_in_any_direction_give_bounds_and_no_more_than_errors_allow(loss, constant, is_free, rng):
    """All are off by as much as they may, so that the losses, or ‖w‖², or both seem smaller than they are."""
    for size in (1e-6, 1e-2):
        K, binary = problem(rng, loss, constant, is_free)
        beta, extra = moved(binary, K, is_free, rng)
        exact, error = (K + constant) @ beta + extra, size * rng.uniform(0.5, 1.0, N)
        true = primal_value(binary, K, beta, constant * beta.sum() + extra)
        proven = bounded(binary, K, beta, extra, exact, np.zeros(N))[1]
        allowed = binary.lam * (np.abs(beta) + 2.0 * binary.cap[0]) @ error
        for way in (np.sign(binary.y[0] - exact), -np.sign(beta), rng.choice([-1.0, 1.0], N)):
            primal, dual = bounded(binary, K, beta, extra, exact + way * error, error)
            assert true * (1.0 - 1e-12) <= primal <= true * (1.0 + 1e-12) + allowed
            assert dual <= proven + 1e-12 * true


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_no_dual_value_of_a_free_bias_is_above_the_optimum_though_coefficients_do_not_add_up_to_zero(loss, rng):
    """Without that condition the optimum is higher, and its variables are what is given here."""
    above = 0
    for _ in range(10):
        K, binary = problem(rng, loss, 0.0, True)
        best, beta = (optimum(binary, K, is_free) for is_free in (True, False))
        most = dual_value(binary, K, best)
        above += dual_value(binary, K, beta) > most * (1.0 + 1e-3)
        for given in (beta, best + 1e-3 * (beta - best)):
            _, dual = bounded(binary, K, given, 0.0, K @ given, np.zeros(N))
            assert dual <= most * (1.0 + 1e-7)
        assert dual >= most * 0.5  # so it is worth something near the optimum
    assert above
