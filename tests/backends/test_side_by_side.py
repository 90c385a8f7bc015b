"""Problems that are solved on a device side by side: each is solved as if it were alone."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import solvers
from widemargin.core.kernels.kernels import as_kernel
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import run

HINGE = losses.Single(losses.Hinge())
#: Triton's interpreter takes milliseconds for a move.
N, TOL = 70, 1e-2


def problems(rng, cache_rows=64, intercept="unregularized"):
    """Two problems with all examples and different C, and one with some of them."""
    from widemargin.backends.workspace import Problems

    X = rng.normal(size=(N, 3))
    y = np.where(X[:, 0] - X[:, 1] + 0.2 * rng.normal(size=N) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    whole = KernelProblem(
        as_kernel("rbf", 0.5, 2, 1.0),
        as_rows(X),
        y,
        HINGE,
        1.0 / N,
        intercept=intercept,
        cache_bytes=cache_rows * 4.0 * N,
    )
    some = np.concatenate([[0, 1], np.sort(rng.permutation(np.arange(2, N))[: N // 2])])
    parts = [whole, replace(whole, lam=0.1 / N), replace(whole, y=-y[some], lam=1.0 / some.size)]
    return Problems(whole, parts, [np.arange(N), np.arange(N), some])


def solved(kind, problem, **parameters):
    solver = solvers.make(kind, "smo", tol=TOL, **parameters)
    tol = 0.0 if kind == "devices" else TOL
    outcome = run(solver, problem, rng=np.random.default_rng(0), max_epochs=500, tol=tol)
    return solver, outcome


@pytest.mark.parametrize("intercept", ["unregularized", "none"])
@pytest.mark.parametrize(("cache_rows", "at_once"), [(64, 1), (10**4, 3)])
def test_each_reaches_its_own_optimum_with_a_true_certificate(cache_rows, at_once, intercept, rng, device):
    from widemargin.backends.workspace import DeviceSMOWorkspace

    given = problems(rng, cache_rows, intercept)
    solver, outcome = solved("devices", given, device=device, working_set=32)
    assert min(DeviceSMOWorkspace(given, device, 32).most, len(given.parts)) == at_once
    assert all(each.reached for each in outcome.state.states)
    certificates = solver.certificates(given, outcome.state)
    for part, rows, certificate in zip(given.parts, given.rows, certificates, strict=True):
        alone = replace(part, X=given.whole.rows(rows))
        exact, reached = solved("kernel", alone)
        other = exact.certificate(alone, reached.state)
        assert certificate.gap <= TOL * certificate.primal
        assert max(certificate.dual, other.dual) <= min(certificate.primal, other.primal) * (1.0 + 1e-5)
    # the joint model has an output for each problem, whose scores are the responses of training
    scores = outcome.model.decision_function(given.whole.X)
    for k, (point, state) in enumerate(solver.points(given, outcome.state, slice(None))):
        expected = point.multiple * state.f + point.bias
        np.testing.assert_allclose(scores[given.rows[k], k], expected, atol=1e-4)


def test_a_problem_goes_its_own_way_whoever_is_beside_it(rng, device):
    given = problems(rng)
    _, together = solved("devices", given, device=device, working_set=32)
    for k in range(2):  # those as wide as the widest, which alone have the same shape
        alone = replace(given, parts=given.parts[k : k + 1], rows=given.rows[k : k + 1])
        _, own = solved("devices", alone, device=device, working_set=32)
        np.testing.assert_array_equal(own.state.states[0].alpha, together.state.states[k].alpha)


def test_slices_do_not_change_the_bits(rng, device):
    given = problems(rng)
    solver = solvers.make("devices", "smo", tol=1e-3, device=device, working_set=32)
    states = [solver.init(given, np.random.default_rng(0)) for _ in range(2)]
    for state, part in zip(states, (1, 1000), strict=True):
        for _ in range(1000):
            solver.advance(given, state, part)
            if part == 1:
                state.drop_workspace()  # as after a kill
            if state.stalled:
                break
    for one, two in zip(states[0].states, states[1].states, strict=True):
        np.testing.assert_array_equal(one.alpha, two.alpha)
        assert one.counters.steps == two.counters.steps


def test_a_start_near_the_solution_takes_few_rounds(rng, device):
    given = problems(rng)
    solver, outcome = solved("devices", given, device=device, working_set=32)
    again = solver.init(given, np.random.default_rng(0), solver.duals(given, outcome.state))
    for own, before in zip(again.states, outcome.state.states, strict=True):
        np.testing.assert_allclose(own.f, before.f, atol=1e-4)
    solver.advance(given, again, 100)
    assert again.stalled
    assert again.counters.steps <= outcome.state.counters.steps


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
def test_rows_that_are_very_sparse_stay_so_and_give_the_same_kernel_values(kernel, rng, device):
    from widemargin.backends.blocks import Blocks, Sparse

    X = sp.random(40, 500, density=0.008, format="csr", random_state=int(rng.integers(1000)), dtype=np.float32)
    blocks = []
    for matrix in (X, X.toarray()):
        problem = KernelProblem(as_kernel(kernel, 0.5, 2, 1.0), as_rows(matrix), np.ones(40), HINGE, 1.0)
        blocks.append(Blocks(problem, device))
    assert isinstance(blocks[0].columns.Z, Sparse) == (kernel != "laplacian")
    import torch

    chosen, out = torch.arange(40, device=device), [torch.zeros((40, 40), device=device) for _ in range(2)]
    for own, values in zip(blocks, out, strict=True):
        own.fill(chosen, chosen, values)
    np.testing.assert_allclose(out[0].cpu().numpy(), out[1].cpu().numpy(), atol=1e-6)
    # a value does not depend on the rows beside it
    again = torch.zeros_like(out[0])
    for i in range(3):
        blocks[0].fill(chosen[i : i + 1], chosen[i : i + 1], again)
    np.testing.assert_array_equal(again[:3].cpu().numpy(), out[0][:3].cpu().numpy())


def test_a_single_problem_with_some_of_many_examples_starts_from_its_own_responses(rng, device, monkeypatch):
    from widemargin.backends import smo
    from widemargin.backends.workspace import Problems

    monkeypatch.setattr(smo, "LARGE", N)
    several = problems(rng)
    given = Problems(several.whole, several.parts[2:], several.rows[2:])
    part, rows, beta = given.parts[0], given.rows[0], np.zeros((1, N))
    beta[0, rows] = 0.5 * part.y
    solver = solvers.make("devices", "smo", tol=TOL, device=device, working_set=32)
    state = solver.init(given, np.random.default_rng(0), beta)
    found = solver.duals(given, state)
    assert found.any()
    responses = given.whole.model(found, np.zeros(1)).decision_function(given.whole.X)[rows, 0]
    np.testing.assert_allclose(state.states[0].f, responses, atol=1e-5 * np.abs(found).sum())
