"""The laws of every solver, one test over the registry: looking changes nothing, slices do not matter, counters count
work, a problem is frozen, dual variables have one shape and one sign.
"""

import copy
import itertools
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import backends, solvers
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.models import KernelModel, LinearModel
from widemargin.problems.kernel import KernelProblem
from widemargin.problems.linear import Problem
from widemargin.problems.parts import in_parts, kernel_in_parts
from widemargin.running import load_state, save_state
from widemargin.solvers.smo.pairs import PairsProblem

HINGE, TUBE = losses.Single(losses.Hinge()), losses.Single(losses.EpsilonInsensitive(0.1))
N, D, CLASSES = 560, 4, 3
#: Examples where each look takes long: still more than the 256 slots that a stream begins with and the 256 rows that
#: are read at once. SIMBA and parts of a kernel problem have no such number.
FEWER, FEW = 300, 160


def drawn(rng, regression, n=N):
    X = rng.normal(size=(n, D))
    scores = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)
    return X, scores if regression else np.where(scores > 0.0, 1.0, -1.0)


def linear(rng, n=N, *, several=False, sparse=False, regression=False, intercept="regularized"):
    X, y = drawn(rng, regression, n)
    target = TUBE if regression else HINGE
    if several:
        y, target = rng.integers(0, CLASSES, n).astype(float), losses.OneVsRest(losses.Hinge(), np.ones(CLASSES))
    rows = as_rows(sp.csr_matrix(X * (np.abs(X) > 0.5)) if sparse else X)
    return Problem(rows, y, target, 0.01, intercept=intercept, n_outputs=CLASSES if several else 1)


def kernel(rng, n=N, *, regression=False, intercept="regularized", weighted=False, several=False):
    X, y = drawn(rng, regression, n)
    if several:
        y = np.stack([y, rng.choice([-1.0, 1.0], n)])
    s = rng.uniform(0.5, 2.0, y.shape) if weighted else np.empty(0)
    target = TUBE if regression else HINGE
    return KernelProblem(RBF(0.5), as_rows(X), y, target, 1.0 / (3.0 * n), s, intercept, cache_bytes=60 * 4.0 * n)


def parted(rng, **kind):
    problem = linear(rng, **kind)
    return in_parts(problem, np.array_split(np.arange(problem.n), 3))


def kernel_parted(rng, **kind):
    problem = kernel(rng, FEW, **kind)
    return kernel_in_parts(problem, np.array_split(np.arange(problem.n), 3))


def pairs(rng):
    X = rng.normal(size=(60, D))
    whole = KernelProblem(RBF(0.5), as_rows(X), np.zeros(60), HINGE, 1.0)
    return PairsProblem(whole, np.cumsum([10, 12, 8, 15, 15]), 2.0, 0.0)


def sides(rng):
    from widemargin.backends.workspace import Problems

    whole = kernel(rng, intercept="unregularized")
    return Problems(whole, [whole, replace(whole, lam=0.3 / N)], [np.arange(N)] * 2)


#: A configured solver, and a problem for it; at least one for each entry of the registry.
CASES = {
    "linear/sdca": ({}, linear),
    "linear/sdca several": ({}, lambda rng: linear(rng, several=True, sparse=True)),
    "linear/sdca plain": ({"shrinking": False, "lag": False}, lambda rng: linear(rng, regression=True)),
    "linear/pegasos": ({}, linear),
    "linear/pegasos iid": (
        {"sampling": "iid", "batch_size": 7, "average": "suffix"},
        lambda rng: linear(rng, sparse=True),
    ),
    "linear/pegasos search": ({"projection": True}, lambda rng: linear(rng, intercept="search")),
    "linear/interior": ({}, linear),
    "linear/simba": ({"nu": 0.01}, lambda rng: linear(rng, FEW, sparse=True)),
    "linear/simba ascent": ({"ascent_after": 30}, lambda rng: linear(rng, FEW, sparse=True)),
    "linear/simba several": ({"nu": 0.01, "columns": "scaled"}, lambda rng: linear(rng, FEW, several=True)),
    "linear/simba C": ({"rows_per_step": 2}, lambda rng: linear(rng, FEW, sparse=True, intercept="unregularized")),
    "kernel/smo": ({"working_set": 16, "sample": 1}, lambda rng: kernel(rng, intercept="unregularized")),
    "kernel/smo sample": ({"working_set": 16, "sample": 2}, lambda rng: kernel(rng, weighted=True)),
    "kernel/smo tube": ({"working_set": 16}, lambda rng: kernel(rng, regression=True)),
    "kernel/sbp": ({"batch_size": 4}, lambda rng: kernel(rng, intercept="unregularized")),
    "kernel/sbp nu": ({"nu": 0.01, "average": "suffix"}, lambda rng: kernel(rng, several=True, weighted=True)),
    "kernel/sdca": ({}, lambda rng: kernel(rng, FEWER)),
    "kernel/sdca tube": ({"sampling": "iid"}, lambda rng: kernel(rng, FEWER, regression=True, weighted=True)),
    "kernel/pegasos": ({}, lambda rng: kernel(rng, FEWER)),
    "kernel/perceptron": ({}, lambda rng: kernel(rng, FEWER)),
    "budgeted/sgd": ({"budget": 20}, lambda rng: kernel(rng, intercept="none")),
    "incremental/tracker": ({}, lambda rng: kernel(rng, FEWER, intercept="unregularized", weighted=True)),
    "incremental/tracker random": (
        {"algorithm": "process", "choose": "random", "reprocess": 3, "average": True},
        lambda rng: kernel(rng, FEWER, several=True),
    ),
    "incremental/tracker budget": (
        {"choose": "random", "reprocess": 4, "budget": 30},
        lambda rng: kernel(rng, FEWER, intercept="none", several=True, weighted=True),
    ),
    "pairs/smo": ({}, pairs),
    "parts/admm": ({}, lambda rng: parted(rng, sparse=True)),
    "parts/interior": ({}, lambda rng: parted(rng, intercept="unregularized")),
    "parts/interior several": ({}, lambda rng: parted(rng, several=True, sparse=True)),
    "parts/admm several": ({"passes": 2}, lambda rng: parted(rng, several=True)),
    "kernel_parts/sbp": ({"batch_size": 4}, lambda rng: kernel_parted(rng, intercept="unregularized")),
    "kernel_parts/sbp nu": ({"nu": 0.01}, lambda rng: kernel_parted(rng, several=True, weighted=True)),
}


if not backends.lacking():
    CASES |= {
        "device/smo": ({"working_set": 64}, lambda rng: kernel(rng, intercept="unregularized")),
        "device/smo weighted": ({"working_set": 32}, lambda rng: kernel(rng, weighted=True)),
        "device/smo tube": ({"working_set": 64}, lambda rng: kernel(rng, regression=True, intercept="unregularized")),
        "device/sbp": ({"batch_size": 4, "tol": 1e-12}, lambda rng: kernel(rng, intercept="unregularized")),
        "device/sbp nu": ({"nu": 0.01, "average": "suffix"}, lambda rng: kernel(rng, several=True, weighted=True)),
        "devices/smo": ({"working_set": 64}, sides),
    }


def test_every_registered_solver_has_a_case():
    registered = {f"{kind}/{name}" for kind, names in solvers.REGISTRY.items() for name in names}
    registered -= {"device/smo", "device/sbp", "devices/smo"} if backends.lacking() else set()
    assert registered == {case.split()[0] for case in CASES}


def built(case, rng):
    parameters, problem = CASES[case]
    return solvers.make(*case.split()[0].split("/"), **parameters), problem(rng)


def bits(value):
    """All that a state consists of, as comparable values; the workspace and what was computed are no part of it."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if is_dataclass(value):
        return {f.name: bits(getattr(value, f.name)) for f in fields(value) if f.name != "kernel_computed"}
    if isinstance(value, tuple):
        return [bits(part) for part in value]
    return repr(value)


def look(solver, problem, state):
    """Look at a state in every way there is."""
    model = solver.model(problem, state)
    solver.evaluate(problem, state, model)
    solver.certificate(problem, state)
    solver.duals(problem, state)
    solver.glimpse(problem, state, np.inf)
    solver.doubt(problem, state, 1e-3)


def advance(solver, problem, state, visits, step, between=lambda state: state):
    """Go on, ``step`` steps at a time, until so many visits are made and the point is known; returns the state."""
    while state.counters.visits < visits or not solver.knows(state):
        taken = solver.advance(problem, state, step)
        assert isinstance(taken, (int, np.integer))
        state = between(state)
    return state


@pytest.mark.parametrize("case", CASES)
def test_looking_leaves_the_state_as_it_is_bit_for_bit(case, rng):
    solver, problem = built(case, rng)
    state = solver.init(problem, rng)
    for _ in range(12):
        before = bits(state)
        look(solver, problem, state)
        assert bits(state) == before
        solver.advance(problem, state, 3)


@pytest.mark.parametrize("case", CASES)
def test_neither_slices_nor_looks_nor_files_nor_a_lost_workspace_change_a_bit(case, rng, tmp_path):
    solver, problem = built(case, rng)
    start = solver.init(problem, rng)
    visits = 2 * problem.n if hasattr(problem, "n") else 100
    step = max(1, solver.steps_per_epoch(problem) // 7)

    def looked_at(state):
        look(solver, problem, state)
        return state

    def saved(state):
        save_state(tmp_path / "state.npz", state)
        return load_state(tmp_path / "state.npz")

    def bare(state):
        state.drop_workspace()
        return state

    slices = itertools.count()

    def in_turn(state):
        return (saved, bare, copy.deepcopy)[next(slices) % 3](state)

    def ended(visits, step, between):
        state = advance(solver, problem, copy.deepcopy(start), visits, step, between)
        return bits(state), bits(solver.certificate(problem, state)), state.counters.visits

    def now_and_then(state):
        return looked_at(state) if next(slices) % 8 == 0 else state

    plain = ended(visits, step, lambda state: state)
    assert ended(visits, step, looked_at) == plain
    assert ended(visits, step, in_turn) == plain
    if next(slices) < 3:  # not each of them had its turn
        for between in (bare, copy.deepcopy):
            assert ended(visits, step, between) == plain
    state = advance(solver, problem, copy.deepcopy(start), plain[2], 1, now_and_then)
    while bits(state) != plain[0] and state.counters.visits == plain[2]:  # what takes no visit, as an episode's end
        solver.advance(problem, state, 1)
    assert (bits(state), bits(solver.certificate(problem, state)), state.counters.visits) == plain


@pytest.mark.parametrize("case", CASES)
def test_a_problem_is_frozen_and_nothing_is_hung_on_it(case, rng):
    solver, problem = built(case, rng)
    known = set(vars(problem))
    state = solver.init(problem, rng)
    solver.advance(problem, state, 5)
    look(solver, problem, state)
    assert set(vars(problem)) == known
    for field in fields(problem):
        with pytest.raises(FrozenInstanceError):
            setattr(problem, field.name, None)


@pytest.mark.parametrize("case", CASES)
def test_dual_variables_have_one_shape_and_the_signs_of_w(case, rng):
    solver, problem = built(case, rng)
    state = solver.init(problem, rng)
    advance(solver, problem, state, 60, max(1, solver.steps_per_epoch(problem) // 7))
    beta = solver.duals(problem, state)
    if beta is None:
        assert not solver.capabilities.exact
        return
    n = problem.n if hasattr(problem, "n") else problem.ends[-1]
    outputs = problem.n_outputs if hasattr(problem, "n_outputs") else problem.n_classes - 1
    assert beta.shape == (outputs, n)
    assert np.isfinite(beta).all()
    model = solver.model(problem, state)
    if isinstance(model, KernelModel) and getattr(state, "polish", None) is None:  # w is a multiple of Σ βᵢΦ(xᵢ)
        full = np.zeros_like(beta)
        full[:, model.support] = model.coef
        for mine, own in zip(full, beta, strict=True):
            multiple = (mine @ own) / max(own @ own, 1e-300)
            np.testing.assert_allclose(mine, multiple * own, atol=1e-12 * (1.0 + np.abs(mine).max()))
            assert multiple >= 0.0
    if solver.capabilities.exact and not isinstance(model, LinearModel) and isinstance(problem, KernelProblem):
        assert (np.abs(beta) <= problem.C * (problem.sample_weight if problem.sample_weight.size else 1.0) + 1e-9).all()


@pytest.mark.parametrize("case", CASES)
def test_a_certificate_is_true_or_there_is_none(case, rng):
    solver, problem = built(case, rng)
    state = solver.init(problem, rng)
    duals, primals = [], []
    for _ in range(6):
        certificate = solver.certificate(problem, state)
        if certificate is not None:
            assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, abs=1e-12)
            duals.append(certificate.dual)
            primals.append(certificate.primal)
        solver.advance(problem, state, max(1, solver.steps_per_epoch(problem) // 2))
    if duals and not case.startswith("pairs"):  # whose pairs come one after the other
        assert max(duals) <= min(primals) * (1.0 + 1e-6) + 1e-9  # any lower bound is below any value


@pytest.mark.parametrize("case", CASES)
def test_unknown_parameters_are_refused(case, rng):
    solver, _ = built(case, rng)
    with pytest.raises(ValueError, match="has no parameter 'colour'; it has"):
        solver.set_params(colour=1)
    with pytest.raises(TypeError):
        type(solver)(colour=1)
    assert solver.get_params() == type(solver)(**solver.get_params()).get_params()


def starts_from_duals(case):
    return solvers.make(*case.split()[0].split("/"), **CASES[case][0]).capabilities.starts_from_duals


@pytest.mark.parametrize("case", [case for case in CASES if starts_from_duals(case)])
def test_a_start_from_dual_variables_is_certified_at_once(case, rng):
    solver, problem = built(case, rng)
    cold = solver.init(problem, rng)
    visits = 6 * 60 if case.startswith("pairs") else 6 * problem.n
    advance(solver, problem, cold, visits, solver.steps_per_epoch(problem))
    warm = solver.init(problem, rng, duals=solver.duals(problem, cold))
    if case.startswith("pairs"):
        return
    before, after = solver.certificate(problem, cold), solver.certificate(problem, warm)
    # the same dual point, made feasible again, in other roundings
    assert after.dual >= before.dual - 1e-5 * abs(before.primal)
