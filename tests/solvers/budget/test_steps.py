"""Step sizes."""

from dataclasses import replace

import numpy as np
import pytest

from budgets import dense, make, scores_at, solver_of
from widemargin.solvers.budget import STEPS, PassiveAggressiveStep, PegasosStep, Remove


@pytest.mark.parametrize("C", [1e6, np.inf])
def test_passive_steps_end_on_the_margin(C, rng):
    problem = make(rng)
    problem = replace(problem, sample_weight=np.empty(0))
    solver = solver_of(Remove("smallest"), 500, PassiveAggressiveStep(C))
    state = solver.init(problem, rng)
    for i in range(30):
        solver.advance(problem, state, 1)
        assert problem.y[i] * scores_at(state, dense(problem)[[i]])[0, 0] >= 1 - 1e-9


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
