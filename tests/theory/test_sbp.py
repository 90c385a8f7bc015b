"""Lemmas 3.1 and 3.2 of the SBP paper: the distribution of the water level is a supergradient of it, and the average
iterate is within O(1/√T) of the optimum of the slack-constrained problem.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin import StochasticBatchPerceptron
from widemargin.core.kernels.kernels import Linear
from widemargin.core.losses.losses import Hinge, Single
from widemargin.core.losses.water_level import fill
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem

N = 4


def orthonormal(intercept):
    """n orthonormal examples, half of each class: by symmetry w* = Σ yᵢxᵢ/√n, and f(w*) = 1/√n + ν."""
    y = np.where(np.arange(N) % 2 == 0, 1.0, -1.0)
    return KernelProblem(Linear(), as_rows(np.eye(N)), y, Single(Hinge()), 1.0 / N, intercept=intercept)


def unequal(intercept):
    """Six orthogonal examples of lengths aᵢ, and f(w*) at ν = 0: uniform draws would end at another w.

    Without a bias f(w*) = g(all), where g = 1/√Σ aᵢ⁻² and w*ᵢ ∝ 1/aᵢ; with one ½√(g(positive)² + g(negative)²).
    """
    a, y = np.linspace(0.4, 1.0, 6), np.tile([1.0, -1.0], 3)
    problem = KernelProblem(Linear(), as_rows(np.diag(a)), y, Single(Hinge()), 1.0 / 6.0, intercept=intercept)
    if intercept == "none":
        return problem, 1.0 / np.sqrt(np.sum(a**-2))
    return problem, 0.5 * np.sqrt(sum(1.0 / np.sum(a[y == sign] ** -2) for sign in (1.0, -1.0)))


def level(problem, f, nu):
    return fill(problem.y * f, problem.n * nu, y=problem.y if problem.has_free_bias else None).level


heights = st.lists(st.tuples(*[st.floats(-10.0, 10.0, width=32)] * 2), min_size=2, max_size=30)


@given(heights, st.floats(0.0, 50.0), st.booleans(), st.data())
def test_lemma_3_1_the_distribution_of_the_level_is_a_supergradient(pairs, volume, two, data):
    """f(w + v) ≤ f(w) + Σ p*ᵢ yᵢ⟨v, Φ(xᵢ)⟩ for any v, where responses cᵢ = yᵢ⟨w, Φ(xᵢ)⟩ are all that f sees of w."""
    here, there = np.array(pairs, float).T
    n = here.size
    s = np.array(data.draw(st.lists(st.floats(0.125, 4.0, width=32), min_size=n, max_size=n)))
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0) if two else None
    found, moved = fill(here, volume, y=y, s=s), fill(there, volume, y=y, s=s)
    assert found.p.min() >= 0.0
    assert found.p.sum() == pytest.approx(1.0)
    assert moved.level <= found.level + found.p @ (there - here) + 1e-9


@pytest.mark.parametrize(
    ("intercept", "nu", "batch_size"), [("none", 0.0, 1), ("none", 0.02, 4), ("unregularized", 0.5, 1)]
)
def test_the_average_iterate_is_within_the_regret_bound_of_the_optimum(intercept, nu, batch_size, rng):
    """Zinkevich: with steps 1/√t, ‖w − w*‖ ≤ 2 and supergradients of norm ≤ 1 the regret is ≤ 3√T.

    The draws add a martingale with increments ≤ 4, by Azuma above 4 √(2 T log(1/δ)) with probability δ = 1e-9.
    The bound is below the error of w = 0, 1/√n = 0.5, from T = 3,310 on: only the last T tells.
    """
    problem, optimum = orthonormal(intercept), 1.0 / np.sqrt(N) + nu
    solver = StochasticBatchPerceptron(nu=nu, batch_size=batch_size, average="uniform")
    state = solver.init(problem, rng)
    for T in (16, 512, 4096):
        while state.t < T:
            solver.advance(problem, state, T - state.t)
        alpha, f = solver.averages(state)
        reached = level(problem, f[0], nu)
        assert reached <= optimum + 1e-6  # ‖w̄‖ ≤ 1
        assert optimum - reached <= (3.0 + 4.0 * np.sqrt(2.0 * np.log(1e9))) / np.sqrt(T)
        assert float(alpha[0] @ (problem.y * f[0])) <= 1.0 + 1e-9


@pytest.mark.parametrize("case", ["equal", "slack", "unequal", "unequal, with a bias"])
def test_the_error_falls_as_one_over_root_t(case, rng):
    """In the mean over runs the regret bound alone holds: 3/√T, without the term for bad luck."""
    nu = 0.02 if case == "slack" else 0.0
    problem, optimum = orthonormal("none"), 1.0 / np.sqrt(N) + nu
    if case.startswith("unequal"):
        problem, optimum = unequal("none" if case == "unequal" else "unregularized")
    solver = StochasticBatchPerceptron(nu=nu, batch_size=1, average="uniform")
    errors = {64: [], 512: []}
    for _ in range(4):
        state = solver.init(problem, rng)
        for T, found in errors.items():
            while state.t < T:
                solver.advance(problem, state, T - state.t)
            found.append(optimum - level(problem, solver.averages(state)[1][0], nu))
            assert found[-1] >= -1e-6  # ‖w̄‖ ≤ 1
    for T, found in errors.items():
        assert np.mean(found) <= 3.0 / np.sqrt(T)


def test_any_distribution_bounds_the_optimum_from_above(rng):
    """Weak duality of the game: f(w) ≤ ‖Σ pᵢyᵢΦᵢ‖ + nν max pᵢ for every p; uniform p attains it at the optimum."""
    problem, nu = orthonormal("none"), 0.02
    solver = StochasticBatchPerceptron(nu=nu, batch_size=4, average="t")
    state = solver.init(problem, rng)
    while state.t < 2048:
        solver.advance(problem, state, 2048)
    _, f = solver.averages(state)
    reached = fill(problem.y * f[0], N * nu)
    for p in (reached.p, rng.dirichlet(np.ones(N)), np.full(N, 1.0 / N)):
        assert reached.level <= np.linalg.norm(p) + N * nu * p.max() + 1e-9
    uniform = np.full(N, 1.0 / N)
    assert np.linalg.norm(uniform) + N * nu * uniform.max() == pytest.approx(1.0 / np.sqrt(N) + nu)
