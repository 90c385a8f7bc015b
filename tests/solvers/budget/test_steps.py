"""Step sizes."""

from dataclasses import replace

import numpy as np
import pytest

from budgets import dense, gauss, make, scores_at, solver_of, vectors_of
from widemargin.solvers.budget import STEPS, ImplicitStep, PassiveAggressiveStep, PegasosStep, Remove


@pytest.mark.parametrize("C", [1e6, np.inf])
def test_passive_steps_end_on_the_margin(C, rng):
    problem = make(rng)
    problem = replace(problem, sample_weight=np.empty(0))
    solver = solver_of(Remove("smallest"), 500, PassiveAggressiveStep(C))
    state = solver.init(problem, rng)
    for i in range(30):
        solver.advance(problem, state, 1)
        assert problem.y[i] * scores_at(state, dense(problem)[[i]])[0, 0] >= 1 - 1e-9


def test_an_implicit_step_minimises_distance_and_objective(rng):
    problem = make(rng, 60)
    solver = solver_of(Remove("smallest"), 500, ImplicitStep(2.0))
    state = solver.init(problem, rng)
    circle = np.linspace(0.0, 2 * np.pi, 16, endpoint=False)
    near, kinds = np.concatenate([far * np.array([np.cos(circle), np.sin(circle)]) for far in (1e-3, 1e-1)], 1), set()
    for i, x in enumerate(dense(problem)):
        held, A = vectors_of(state), state.coefficients[0]
        norm2, margin = A @ gauss(held, held) @ A, problem.y[i] * scores_at(state, x[None])[0, 0]
        solver.advance(problem, state, 1)
        after, most = state.coefficients[0], 2.0 / np.sqrt(i + 1)
        # the minimiser is W = a W_t + b y Φ(x)
        b = problem.y[i] * after[-1] if after.size > A.size else 0.0
        a = after[0] / A[0] if A.size else 1.0 - most * problem.lam
        eta, s = most / (1.0 - most * problem.lam), problem.sample_weight[i]
        values = [
            0.5 * ((a - 1) ** 2 * norm2 + 2 * (a - 1) * b * margin + b * b)
            + 0.5 * eta * problem.lam * (a * a * norm2 + 2 * a * b * margin + b * b)
            + eta * s * np.maximum(0.0, 1 - a * margin - b)
            for a, b in ((a, b), (a + near[0], b + near[1]))
        ]
        # convex in a and b, so it is a minimum if no direction goes down
        assert values[0] <= values[1].min() + 1e-12 * (1 + norm2)
        kinds.add(int(b > 0.0) + int(b >= most * s * (1 - 1e-9)))
    assert {1, 2} <= kinds  # steps to the margin, and steps of the largest size


@pytest.mark.parametrize("name", STEPS)
def test_every_step_rule_has_a_schedule_and_numbers_are_all_it_takes(name):
    rule = STEPS[name]().schedule(0.5)
    assert rule.step.scale > 0.0
    assert rule.radius == np.inf
    assert rule.is_constant == (name == "margin_perceptron")
    for field in vars(STEPS[name]()):
        with pytest.raises(TypeError, match=f"{field} of {STEPS[name].__name__} must be a number, got True"):
            STEPS[name](**{field: True}).schedule(0.5)


def test_pegasos_steps_need_a_lambda():
    with pytest.raises(ValueError, match=r"need lam ≥ 1e-12, got 0\.0: use NormaStep"):
        PegasosStep().schedule(0.0)
