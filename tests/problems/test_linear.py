"""Linear problems: the value is what the formula says, and its certificate is a lower bound."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

from reference.pegasos import rounded
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.models import LinearModel
from widemargin.problems.linear import Problem
from widemargin.problems.objective import INTERCEPTS, NO_WEIGHTS

N, D = 40, 6
COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [3.0, 0.25, 0.0]])
POSITIVE = np.array([0.5, 1.0, 3.0])

#: name → (target, plain NumPy version of its loss for scores Z of shape (n, outputs))
TARGETS = {
    "hinge": (losses.Single(losses.Hinge()), lambda Z, y: np.maximum(0, 1 - y * Z[:, 0])),
    "squared_hinge": (losses.Single(losses.SquaredHinge()), lambda Z, y: np.maximum(0, 1 - y * Z[:, 0]) ** 2),
    "log": (losses.Single(losses.Log()), lambda Z, y: np.logaddexp(0, -y * Z[:, 0])),
    "epsilon": (
        losses.Single(losses.EpsilonInsensitive(0.3)),
        lambda Z, y: np.maximum(0, np.abs(Z[:, 0] - y) - 0.3),
    ),
    "squared_epsilon": (
        losses.Single(losses.SquaredEpsilon(0.3)),
        lambda Z, y: np.maximum(0, np.abs(Z[:, 0] - y) - 0.3) ** 2,
    ),
    "huberized": (losses.Single(losses.Huberized(0.5)), lambda Z, y: rounded(1 - y * Z[:, 0], 0.5)),
    "huberized_epsilon": (
        losses.Single(losses.HuberizedEpsilon(0.3, 0.5)),
        lambda Z, y: rounded(np.abs(Z[:, 0] - y) - 0.3, 0.5),
    ),
    "ovr hinge": (
        losses.OneVsRest(losses.Hinge(), POSITIVE),
        lambda Z, y: sum(
            np.where(y == c, POSITIVE[c], 1.0) * np.maximum(0, 1 - np.where(y == c, 1, -1) * Z[:, c]) for c in range(3)
        ),
    ),
    "joint hinge": (
        losses.MulticlassHinge(COST),
        lambda Z, y: (COST[:, y.astype(int)].T + Z - Z[np.arange(y.size), y.astype(int)][:, None]).max(axis=1),
    ),
    "joint log": (
        losses.MulticlassLog(),
        lambda Z, y: np.logaddexp.reduce(Z, axis=1) - Z[np.arange(y.size), y.astype(int)],
    ),
}
JOINT = ("joint hinge", "joint log")


def outputs_of(target):
    return 1 if isinstance(target, losses.Single) else 3


def problem_of(name, rng, intercept="none", weighted=True, lam=0.1, layout="dense"):
    target, _ = TARGETS[name]
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)
    if outputs_of(target) == 3:
        y = rng.permutation(np.arange(N) % 3).astype(float)
    elif "epsilon" in name:
        y = X[:, 0] + rng.normal(size=N)
    else:
        y = np.where(X[:, 0] + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0  # both classes are there
    weights = rng.uniform(0.1, 3.0, N) if weighted else NO_WEIGHTS
    rows = as_rows(X if layout == "dense" else sp.csr_matrix(X))
    return Problem(rows, y, target, lam, weights, intercept, outputs_of(target)), X


def numpy_primal(problem, X, W, b):
    """λ/2 ‖W‖² + (1/n) Σ sᵢ ℓ, with b² beside ‖W‖² when the intercept is regularised."""
    name = next(name for name, (target, _) in TARGETS.items() if type(target) is type(problem.target)
                and type(losses.scalar_loss(target)) is type(losses.scalar_loss(problem.target)))  # fmt: skip
    s = problem.sample_weight if problem.sample_weight.size else np.ones(problem.n)
    norm2 = np.sum(W**2) + (np.sum(b**2) if problem.intercept == "regularized" else 0.0)
    return 0.5 * problem.lam * norm2 + np.mean(s * TARGETS[name][1](X @ W + b, problem.y))


def test_every_registered_loss_is_in_this_file():
    tested = {type(losses.scalar_loss(target)) for target, _ in TARGETS.values()}
    assert tested == {*losses.BINARY.values(), *losses.REGRESSION.values(), *losses.JOINT.values()}


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", TARGETS)
def test_the_primal_is_the_formula_for_every_target_and_intercept(name, weighted, rng):
    for intercept in INTERCEPTS:
        if name in JOINT and intercept in ("exact", "search"):
            continue
        problem, X = problem_of(name, rng, intercept, weighted)
        W, b = rng.normal(size=(D, problem.n_outputs)), rng.normal(size=problem.n_outputs)
        if intercept == "none":
            b[:] = 0.0
        assert problem.primal(W, b) == pytest.approx(numpy_primal(problem, X, W, b), rel=1e-12)


@pytest.mark.parametrize("name", ["hinge", "ovr hinge"])
def test_the_primal_of_csr_rows_is_that_of_dense_ones(name, rng):
    problem, X = problem_of(name, rng, "regularized", layout="csr")
    W, b = rng.normal(size=(D, problem.n_outputs)), rng.normal(size=problem.n_outputs)
    assert problem.primal(W, b) == pytest.approx(numpy_primal(problem, X, W, b), rel=1e-12)


def test_output_losses_add_up_and_stand_by_output(rng):
    problem, X = problem_of("ovr hinge", rng)
    W, b = rng.normal(size=(D, 3)), rng.normal(size=3)
    parts = problem.output_losses(W, b)
    for c in range(3):
        loss, y, s = problem.binary_part(c)
        assert isinstance(loss, losses.Hinge)
        assert parts[c] == pytest.approx(np.mean(s * np.maximum(0, 1 - y * (X @ W[:, c] + b[c]))), rel=1e-12)
        np.testing.assert_allclose(problem.column_scores(W, c), X @ W[:, c], rtol=1e-12, atol=1e-12)


def test_sizes_and_conventions_of_a_problem(rng):
    problem, _ = problem_of("hinge", rng, lam=0.05)
    assert (problem.n, problem.d) == (N, D)
    assert math.isclose(problem.C, 1 / (0.05 * N))
    assert problem.dtype == np.float64
    assert not problem.is_joint
    assert problem.mean_weight == pytest.approx(problem.sample_weight.mean())
    assert problem_of("joint log", rng)[0].is_joint
    assert problem_of("hinge", rng, weighted=False)[0].mean_weight == 1.0


def test_taken_examples_are_a_problem_of_their_own_with_the_same_lambda(rng):
    problem, X = problem_of("ovr hinge", rng, "regularized")
    chosen = np.array([3, 0, 17])
    part = problem.take(chosen)
    assert (part.n, part.lam, part.intercept, part.n_outputs) == (3, problem.lam, "regularized", 3)
    np.testing.assert_array_equal(part.X.values, X[chosen])
    np.testing.assert_array_equal(part.y, problem.y[chosen])
    np.testing.assert_array_equal(part.sample_weight, problem.sample_weight[chosen])
    assert problem_of("hinge", rng, weighted=False)[0].take(chosen).sample_weight.size == 0


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_several_outputs_is_its_weighted_share_of_wrong_classes(weighted, rng):
    problem, X = problem_of("joint hinge", rng, weighted=weighted)
    W, b = rng.normal(size=(D, 3)), rng.normal(size=3)
    wrong = (X @ W + b).argmax(axis=1) != problem.y
    expected = np.average(wrong, weights=problem.sample_weight if weighted else None)
    assert problem.errors(LinearModel(W.T, b)) == pytest.approx(expected, rel=1e-12)


def test_one_against_the_rest_an_error_has_the_weight_of_its_class(rng):
    problem, X = problem_of("ovr hinge", rng)
    W, b = rng.normal(size=(D, 3)), rng.normal(size=3)
    wrong = (X @ W + b).argmax(axis=1) != problem.y
    of_class = problem.target.positive_weight
    assert np.ptp(of_class) > 0  # else the test says nothing
    weights = problem.sample_weight * np.array([of_class[int(c)] for c in problem.y])
    assert problem.errors(LinearModel(W.T, b)) == pytest.approx(np.average(wrong, weights=weights), rel=1e-12)


@pytest.mark.parametrize("name", ["epsilon", "squared_epsilon"])
def test_the_error_of_a_regression_is_the_weighted_mean_absolute_one(name, rng):
    problem, X = problem_of(name, rng)
    W, b = rng.normal(size=(D, 1)), rng.normal(size=1)
    expected = np.average(np.abs(X @ W[:, 0] + b[0] - problem.y), weights=problem.sample_weight)
    assert problem.errors(LinearModel(W.T, b)) == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------- the best intercept


@pytest.mark.parametrize("name", ["hinge", "log", "epsilon", "ovr hinge"])
def test_the_best_intercept_minimises_the_primal(name, rng):
    problem, X = problem_of(name, rng, "unregularized")
    W = rng.normal(size=(D, problem.n_outputs))
    b = problem.best_intercept(W)
    best = problem.primal(W, b)
    if name == "log":
        near = [scipy.optimize.minimize_scalar(lambda c: numpy_primal(problem, X, W, np.array([c]))).x]
    else:  # the minimum of a piecewise-linear function is at a break point of one of its terms
        Z = X @ W
        near = {
            "hinge": lambda: problem.y - Z[:, 0],
            "epsilon": lambda: np.concatenate([problem.y - Z[:, 0] - 0.3, problem.y - Z[:, 0] + 0.3]),
            "ovr hinge": lambda: np.concatenate([1 - Z.ravel(), -1 - Z.ravel()]),
        }[name]()
    for c in range(problem.n_outputs):
        for candidate in near:
            other = b.copy()
            other[c] = candidate
            # bisected to neighbouring numbers: only the rounding of the sum is left
            assert best <= numpy_primal(problem, X, W, other) * (1 + 1e-12)


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "log", "epsilon", "ovr hinge", "joint hinge", "joint log"])
@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
def test_the_dual_value_bounds_the_primal_everywhere(name, intercept, rng):
    problem, X = problem_of(name, rng, intercept)
    shape = (D, problem.n_outputs)
    size = rng.choice([0.01, 0.3, 3.0])
    W, b = size * rng.normal(size=shape), size * rng.normal(size=shape[1]) * (intercept != "none")
    certificate = problem.certificate(W, b)
    assert certificate.primal == pytest.approx(numpy_primal(problem, X, W, b), rel=1e-12)
    assert certificate.gap == certificate.primal - certificate.dual
    # weak duality: no point lies below; try the one at hand, random ones and a minimum found by a general method
    found = scipy.optimize.minimize(
        lambda v: numpy_primal(problem, X, v[: W.size].reshape(shape), v[W.size :] * (intercept != "none")),
        np.concatenate([W.ravel(), b]),
        method="L-BFGS-B",
        options={"maxiter": 30},
    ).fun
    values = [certificate.primal, found]
    for _ in range(20):
        other, c = rng.normal(size=shape), rng.normal(size=shape[1]) * (intercept != "none")
        values.append(numpy_primal(problem, X, rng.choice([0.1, 1.0]) * other, c))
    assert certificate.dual <= min(values) + 1e-10 * abs(found)


@pytest.mark.parametrize("far", ["rows", "targets"])
@pytest.mark.parametrize("name", TARGETS)
def test_what_rounding_takes_from_a_primal_value_is_known(name, far, rng):
    """Scores are small differences of products of large features, or of large targets and intercepts."""
    if far == "targets" and "epsilon" not in name:
        return
    for weighted in (True, False):
        problem, X = problem_of(name, rng, "unregularized", weighted)
        W, b = rng.normal(size=(D, problem.n_outputs)), rng.normal(size=problem.n_outputs)
        if far == "rows":
            W -= W.mean(axis=0)
            X = X + 1e6
            problem = replace(problem, X=as_rows(X))
        else:
            problem, b = replace(problem, y=problem.y + 1e8), b + 1e8
        exact = numpy_primal(problem, X.astype(np.longdouble), W.astype(np.longdouble), b)
        penalty, loss = problem.penalty(W, b), float(problem.output_losses(W, b).sum())
        lost = problem.lost_by_rounding(penalty, b, loss, np.sum(X**2, axis=1))
        assert abs(penalty + loss - exact) <= lost
        assert lost <= 1e-5 * (1.0 + exact)


def test_a_smooth_problem_at_its_optimum_has_no_gap(rng):
    """With a differentiable loss the slopes at the optimum solve the dual."""
    problem, X = problem_of("log", rng, "regularized")
    found = scipy.optimize.minimize(
        lambda v: numpy_primal(problem, X, v[:D, None], v[D:]), np.zeros(D + 1), method="BFGS", options={"gtol": 1e-7}
    )
    certificate = problem.certificate(found.x[:D, None], found.x[D:])
    # a gradient of 1e-5 (finite differences) leaves ‖∇‖²/2λ of gap
    assert -1e-12 <= certificate.relative_gap < 1e-6


@pytest.mark.parametrize("name", ["squared_hinge", "squared_epsilon", "hinge", "joint hinge", "joint log"])
@pytest.mark.parametrize("intercept", ["regularized", "unregularized"])
def test_a_certificate_is_never_worse_than_the_trivial_one(name, intercept, rng):
    """No loss is negative, and D(0) = 0 is a dual value: the gap is at most the primal value, however small λ is."""
    problem, _ = problem_of(name, rng, intercept, lam=1e-8)
    W, b = 0.1 * rng.normal(size=(D, problem.n_outputs)), np.zeros(problem.n_outputs)
    certificate = problem.certificate(W, b)
    assert certificate.dual >= 0.0
    assert 0.0 <= certificate.relative_gap <= 1.0


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("lam", [0.0, -1.0, math.nan, math.inf])
def test_a_lambda_that_is_no_regularisation_is_refused(lam, rng):
    with pytest.raises(ValueError, match=rf"lam must be a finite number > 0, got {lam}"):
        problem_of("hinge", rng, lam=lam)


def test_an_unknown_intercept_is_refused_by_name(rng):
    with pytest.raises(ValueError, match=r"intercept must be one of none, .*search, got 'free'"):
        problem_of("hinge", rng, "free")


@pytest.mark.parametrize("intercept", ["exact", "search"])
@pytest.mark.parametrize("name", JOINT)
def test_intercepts_of_one_output_at_a_time_refuse_a_joint_loss(name, intercept, rng):
    with pytest.raises(ValueError, match=rf"intercept='{intercept}' .*joint.*use .*'regularized'"):
        problem_of(name, rng, intercept)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_mean_squares_of_features_are_what_the_formula_says(layout, weighted, rng):
    X = (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5)).astype(np.float32)
    X[:, -1] = 0.0
    s = rng.uniform(0.0, 3.0, N) if weighted else NO_WEIGHTS
    problem = Problem(as_rows(layout(X)), np.ones(N), losses.Single(losses.Hinge()), 1.0, s)
    expected = np.sum((s if weighted else np.ones(N))[:, None] * X.astype(float) ** 2, axis=0) / N
    np.testing.assert_allclose(problem.column_squares(), expected, rtol=1e-12)
    used = expected[expected > 0.0]
    assert problem.ratio_of_sizes() == pytest.approx(math.sqrt(used.max() / np.median(used)))
