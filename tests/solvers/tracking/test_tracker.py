"""The tracker: equal to the textbook on the same random numbers, whatever is in memory; forgetting; several outputs."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from reference import tracking as textbook
from widemargin.core.kernels.kernels import RBF, Laplacian, Linear
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.core.sampling.visits import STRIDE, uniform
from widemargin.problems.kernel import KernelProblem
from widemargin.solvers.tracking.state import PROGRESS
from widemargin.solvers.tracking.steps import choose_old
from widemargin.solvers.tracking.tracker import Tracker
from widemargin.solvers.visits.sdca import KernelSDCA

HINGE = losses.Single(losses.Hinge())
C = 2.0


def data(rng, n=80, d=3, sparse=False):
    """Rows, dense ones in float64 and sparse ones in float32; the same numbers in float64; labels."""
    X = rng.normal(size=(n, d)).astype(np.float32 if sparse else np.float64)
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X[:, 1:][np.abs(X[:, 1:]) < 0.3] = 0.0  # no two rows are equal: which of them moves would be a matter of rounding
    return as_rows(sp.csr_matrix(X) if sparse else X), X.astype(np.float64), y


def exact_data(rng, sparse, n=80):
    """The same, with inner products that are exact: of two examples that are nearly alike rounding may choose either.

    Of two with the same y x it may, too: these are drawn again.
    """
    while True:
        _, X, y = data(rng, n)
        X = np.round(64.0 * X) / 64.0
        if np.unique(y[:, None] * X, axis=0).shape[0] == y.size:
            return as_rows(sp.csr_matrix(X.astype(np.float32)) if sparse else X), X, y


def problem_of(rows, y, kernel=None, intercept="none", C=C, **options):
    n = y.shape[-1]
    return KernelProblem(
        RBF(0.7) if kernel is None else kernel, rows, y, HINGE, 1.0 / (C * n), intercept=intercept, **options
    )


def gram(X, kernel=None, constant=0.0):
    kernel = RBF(0.7) if kernel is None else kernel
    if isinstance(kernel, Linear):
        return X @ X.T + constant
    apart = X[:, None] - X[None]
    power = np.abs(apart).sum(2) if isinstance(kernel, Laplacian) else (apart**2).sum(2)
    return np.exp(-kernel.gamma * power) + constant


def draws_of(state):
    """The numbers that a tracker draws, one after the other."""
    drawn = iter(range(10**9))

    def draw(t):
        with np.errstate(over="ignore"):
            return int(uniform(np.uint64(state.seed) + STRIDE * np.uint64(next(drawn) + 1)) * t)

    return draw


#: In both precisions, too: each is compiled anew with a linear kernel.
in_both_layouts = pytest.mark.parametrize("sparse", [False, True])


@in_both_layouts
@pytest.mark.parametrize("kernel", [RBF(0.7), Laplacian(0.5), Linear()])
@pytest.mark.parametrize("algorithm", ["random", "process"])
def test_algorithms_1_and_2_and_their_means_are_the_textbooks(algorithm, kernel, sparse, rng):
    rows, X, y = data(rng, sparse=sparse)
    problem = problem_of(rows, y, kernel, "regularized")
    plain, mean = (Tracker(algorithm, "random", 3, average) for average in (False, True))
    state = plain.init(problem, rng)
    K = gram(X, kernel, 1.0)
    steps = textbook.tracking(K, y, np.full(y.size, C), 3, draws_of(state), algorithm == "process")
    for alpha, averaged, _ in steps:
        plain.advance(problem, state, 1)
        np.testing.assert_allclose(plain.duals(problem, state)[0] * y, alpha, atol=2e-4)
        np.testing.assert_allclose(mean.duals(problem, state)[0] * y, averaged, atol=2e-4)


@in_both_layouts
def test_the_greedy_choice_is_the_textbooks(sparse, rng):
    rows, X, y = exact_data(rng, sparse)
    problem, solver = problem_of(rows, y, Linear()), Tracker("lasvm", "greedy", 3)
    state = solver.init(problem, rng)
    for alpha in textbook.greedy(X @ X.T, y, np.full(y.size, C), 3):
        solver.advance(problem, state, 1)
        np.testing.assert_allclose(solver.duals(problem, state)[0] * y, alpha, atol=1e-8)


def test_the_greedy_choice_is_among_vectors_alone(rng):
    """Where the dual would gain most by an example that has just lost its α: many steps after each bring this about."""
    solver, C = Tracker("lasvm", "greedy", 10), 0.5
    for _ in range(10):
        rows, X, y = exact_data(rng, sparse=False, n=40)
        problem = problem_of(rows, y, Linear(), C=C)
        state = solver.init(problem, rng)
        for alpha in textbook.greedy(X @ X.T, y, np.full(y.size, C), 10):
            solver.advance(problem, state, 1)
            np.testing.assert_allclose(solver.duals(problem, state)[0] * y, alpha, atol=1e-8)


@in_both_layouts
def test_the_randomised_lasvm_is_the_textbooks(sparse, rng):
    rows, X, y = data(rng, sparse=sparse)
    problem, solver = problem_of(rows, y), Tracker("lasvm", "random", 4)
    state = solver.init(problem, rng)
    for alpha in textbook.randomised_lasvm(gram(X), y, np.full(y.size, C), 4, draws_of(state)):
        solver.advance(problem, state, 1)
        np.testing.assert_allclose(solver.duals(problem, state)[0] * y, alpha, atol=2e-4)
    assert state.progress["draws"] == 4 * y.size


@in_both_layouts
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_pairs_with_a_free_bias_are_the_textbooks(steps, sparse, rng):
    """Two variables that moved have the same e: which one is next is decided by exact kernel values."""
    rows, X, y = exact_data(rng, sparse)
    problem, solver = problem_of(rows, y, Linear(), "unregularized"), Tracker(reprocess=steps)
    state = solver.init(problem, rng)
    for beta, bias in textbook.pairs(X @ X.T, y, np.full(y.size, C), steps):
        solver.advance(problem, state, 1)
        np.testing.assert_allclose(solver.duals(problem, state)[0], beta, atol=1e-8)
        np.testing.assert_allclose(solver.bias(problem, state)[0], bias, atol=1e-8)
        if 1e-11 < state.top[0] - state.bottom[0] < 2e-4:
            break  # gains so small are a matter of rounding


def test_an_example_without_weight_takes_no_step_where_another_output_has_use_for_it(rng):
    rows, _, y = data(rng)
    s = np.ones((2, y.size))
    s[0, rng.random(y.size) < 0.5] = 0.0
    problem = problem_of(rows, np.stack([y, y]), intercept="unregularized", sample_weight=s)
    solver = Tracker(reprocess=0)
    state, taken = solver.init(problem, rng), np.zeros(2, int)
    for weights in s.T:
        solver.advance(problem, state, 1)
        assert np.all(state.trailed[weights == 0.0] == 0)
        taken += state.trailed
    assert np.all(taken > 0)


@pytest.mark.parametrize("size", [1.0, 1e9])
def test_the_largest_of_what_can_rise_is_next_however_large_it_is(size, rng):
    rows, _, y = data(rng)
    problem, solver = problem_of(rows, y, intercept="unregularized"), Tracker()
    state = solver.init(problem, rng)
    solver.advance(problem, state, y.size)
    rule, held, count = solver._rule(problem, state), state.held, state.count
    e, beta = size * rng.permutation(count), held.beta[0, :count]
    rising, falling = (
        held.live[:count] & (beta < held.high[0, :count]),
        held.live[:count] & (beta > held.low[0, :count]),
    )
    held.e[0, :count], held.top[0], held.bottom[0] = e, e[rising].max(), e[falling].min()
    best = e.tolist().index(held.top[0]) if held.top[0] > held.bottom[0] else -1
    named = held._replace(progress=held.progress.view(np.recarray))  # as interpreted code reads the fields
    assert choose_old(rule, named, 0, np.empty(count)) == (best, True)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_search_for_the_next_of_a_pair_ends_with_the_slots_whatever_a_file_has_for_the_largest(count, rng):
    progress = np.zeros(1, PROGRESS).view(np.recarray)
    progress[0].count = count
    tables = rng.normal(size=(2, 1, count))
    held = SimpleNamespace(progress=progress, e=tables[0], up=tables[1], top=np.array([1e9]), bottom=np.array([-1e9]))
    assert choose_old(SimpleNamespace(pairs=True), held, 0, None) == (count - 1, True)


def test_the_batch_counterpart_is_sdca_with_independent_draws(rng):
    rows, X, y = data(rng)
    problem, solver = problem_of(rows, y), KernelSDCA(sampling="iid", shrinking=False)
    state = solver.init(problem, np.random.default_rng(5))
    solver.advance(problem, state, 300)
    draws = (np.random.default_rng(5).random(300) * y.size).astype(int)
    alpha = textbook.batch(gram(X), y, np.full(y.size, C), draws)
    np.testing.assert_allclose(solver.duals(problem, state)[0] * y, alpha, atol=2e-4)


CONFIGURATIONS = {
    "random": ({"algorithm": "random", "choose": "random", "reprocess": 3}, "none"),
    "process": ({"algorithm": "process", "choose": "greedy", "reprocess": 2}, "regularized"),
    "lasvm": ({"choose": "random", "reprocess": 5}, "none"),
    "greedy": ({"reprocess": 3, "average": True}, "regularized"),
    "pairs": ({}, "unregularized"),
    "auto": ({"reprocess": "auto", "gap": 0.05}, "unregularized"),
    "window": ({"window": 30}, "unregularized"),
    "window of one": ({"window": 25, "reprocess": 2}, "none"),
    "budget": ({"budget": 12}, "unregularized"),
    "budget of one": ({"budget": 12, "choose": "random"}, "none"),
}


def responses(problem, state, K, q=0):
    beta = np.zeros(problem.n)
    slots = state.vectors
    beta[state.example[slots]] = state.beta[q, slots]
    return beta, K @ beta + problem.constant * beta.sum()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_responses_and_boxes_hold_along_the_stream_with_many_outputs_and_little_memory(name, sparse, rng):
    """e = y − f of all vectors, against the definition; with rows for a few vectors only, which are computed anew."""
    parameters, intercept = CONFIGURATIONS[name]
    rows, X, y = data(rng, 240, sparse=sparse)
    several = np.stack([y, np.where(X[:, 2] > 0.5, 1.0, -1.0), -y])
    s = rng.uniform(0.0, 2.0, y.size)
    s[rng.random(y.size) < 0.1] = 0.0
    problem = problem_of(rows, several, intercept=intercept, cache_bytes=1.0, sample_weight=np.tile(s, (3, 1)))
    solver, K = Tracker(**parameters), gram(X)
    state = solver.init(problem, rng)
    for end in (1, 2, 30, 130, 240):
        solver.advance(problem, state, end - state.counters.visits)
        for q in range(3):
            slots = state.vectors
            beta, f = responses(problem, state, K, q)
            np.testing.assert_allclose(
                state.e[q, slots], several[q, state.example[slots]] - f[state.example[slots]], atol=2e-4
            )
            assert (beta * several[q] >= 0.0).all()
            assert (beta * several[q] <= C * s).all()
            assert intercept != "unregularized" or abs(beta.sum()) < 1e-9
            examples = state.example[slots]
            if "window" in parameters:
                assert examples.min(initial=end) >= end - parameters["window"]
            if "budget" in parameters:
                assert examples.size <= parameters["budget"]
            if parameters.get("algorithm", "lasvm") != "lasvm":
                np.testing.assert_array_equal(examples, np.arange(end))


#: Rows change neither the algorithm nor its options: each configuration with one kind of them.
WITH_ROWS = [(name, place % 2 == 1) for place, name in enumerate(CONFIGURATIONS)]


@pytest.mark.parametrize(("name", "sparse"), WITH_ROWS)
def test_the_w_of_a_linear_kernel_is_the_sum_of_its_vectors(name, sparse, rng):
    """Along a stream of several outputs with little memory, after forgetting, with more outputs, and from outside."""
    parameters, intercept = CONFIGURATIONS[name]
    rows, X, y = data(rng, 240, sparse=sparse)
    several = np.stack([y, np.where(X[:, 2] > 0.5, 1.0, -1.0), -y])
    problem = problem_of(rows, several, Linear(), intercept, cache_bytes=1.0)
    solver = Tracker(**parameters)

    def check(state):
        beta = np.zeros((state.beta.shape[0], problem.n))
        beta[:, state.example[state.vectors]] = state.beta[:, state.vectors]
        scale = 1e-12 * (1.0 + 240 * C * np.abs(X).max())  # rounding of some thousand steps
        np.testing.assert_allclose(state.w[:, :-1, 0], beta @ X, rtol=0.0, atol=scale)
        np.testing.assert_allclose(state.w[:, -1, 0], problem.constant * beta.sum(axis=1), rtol=0.0, atol=scale)

    state = solver.init(problem, rng)
    for end in (1, 2, 30, 130, 240):
        solver.advance(problem, state, end - state.counters.visits)
        check(state)
    check(solver.with_outputs(state, np.array([0, 1, 2, -1])))
    check(solver.with_outputs(state, np.array([-2, 0])))
    solver.forget(problem, state, rng.choice(np.arange(140, 240), 40, replace=False))
    check(state)
    beta = several * rng.uniform(0.0, C, several.shape)
    solver.adopt(problem, state, beta, beta @ gram(X, Linear(), problem.constant))
    check(state)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", ["none", "unregularized"])
def test_a_linear_kernel_takes_the_values_of_examples_that_become_vectors_alone(intercept, sparse, rng):
    rows, _, y = data(rng, 300, sparse=sparse)
    problem, solver, expected = problem_of(rows, y, Linear(), intercept), Tracker(), 0
    state, whole = solver.init(problem, rng), solver.init(problem, rng)
    for _ in range(y.size):
        live = int(state.progress["live"])
        solver.advance(problem, state, 1)
        expected += live if state.progress["new"] >= 0 else 0
        assert state.counters.kernel_evals == expected
    solver.advance(problem, whole, y.size)
    assert whole.counters.kernel_evals == expected


@pytest.mark.parametrize(("kernel", "sparse"), [(RBF(0.7), True), (Linear(), False)])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_neither_memory_nor_slices_nor_a_lost_workspace_change_a_bit(name, sparse, kernel, rng):
    parameters, intercept = CONFIGURATIONS[name]
    rows, _, y = data(rng, 240, sparse=sparse)
    solver, ends = Tracker(**parameters), []
    for cache_bytes, step, drops in ((1e8, 240, False), (1.0, 240, False), (1e5, 7, False), (1e8, 80, True)):
        problem = problem_of(rows, y, kernel, intercept, cache_bytes=cache_bytes)
        state = solver.init(problem, np.random.default_rng(3))
        for first in range(0, 240, step):
            solver.advance(problem, state, min(step, 240 - first))
            if drops:
                state.drop_workspace()
        model = solver.model(problem, state)
        ends.append(
            [a.tobytes() for a in (model.support, model.coef, model.intercept, state.e[:, state.vectors], state.w)]
        )
    assert all(end == ends[0] for end in ends)


def test_kernel_values_stay_within_their_memory(rng):
    rows, _, y = data(rng, 3000)
    problem = problem_of(rows, rng.permutation(y), cache_bytes=8e6)  # nothing to learn: most examples are vectors
    solver = Tracker("process", "random", 2)
    state = solver.init(problem, rng)
    for _ in range(6):
        solver.advance(problem, state, 500)
        space = state.workspace[1]
        held = space.panels.pool, space.panels.tail, space.panels.piece_of, space.rows, *space.space[:3]
        assert sum(array.nbytes for array in held) <= 1.1 * 8e6
    assert 4.0 * 3000**2 > 8e6  # all of them would not fit
    assert state.counters.kernel_computed > 3000 * 3001 // 2
    assert state.counters.kernel_evals == 3000 * 2999 // 2


@pytest.mark.parametrize("name", [n for n, (p, _) in CONFIGURATIONS.items() if not {"window", "budget"} & set(p)])
@pytest.mark.parametrize("kernel", [RBF(0.7), Linear()])
def test_the_dual_never_decreases(name, kernel, rng):
    parameters, intercept = CONFIGURATIONS[name]
    rows, X, y = data(rng, 150)
    problem, solver = problem_of(rows, y, kernel, intercept), Tracker(**{**parameters, "average": False})
    state, K, last = solver.init(problem, rng), gram(X, kernel, float(intercept == "regularized")), 0.0
    for _ in range(y.size):
        solver.advance(problem, state, 1)
        now = textbook.dual(K, y, y * solver.duals(problem, state)[0])
        assert now >= last - 1e-5 * (1.0 + abs(last))  # float32 kernel values
        last = now


def test_auto_holds_the_gap_of_the_examples_where_all_are_kept(rng):
    rows, X, y = data(rng, 200)
    problem = problem_of(rows, y)
    solver = Tracker("process", "greedy", "auto", gap=0.02)
    state, K = solver.init(problem, rng), gram(X)
    for t in range(1, y.size + 1):
        solver.advance(problem, state, 1)
        alpha = (y * solver.duals(problem, state)[0])[:t]
        assert textbook.gap(K[:t, :t], y[:t], np.full(t, C), alpha) / (C * t) <= 0.02 + 1e-6


@pytest.mark.parametrize("intercept", ["none", "unregularized"])
def test_a_gap_that_is_held_anyhow_leaves_the_steps_on_new_examples(intercept, rng):
    rows, _, y = data(rng)
    problem, found = problem_of(rows, y, intercept=intercept), []
    for solver in (Tracker(reprocess=0), Tracker(reprocess="auto", gap=1e6)):
        state = solver.init(problem, rng)
        solver.advance(problem, state, y.size)
        found.append(solver.duals(problem, state))
    assert found[0].any()
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("intercept", ["none", "unregularized"])
def test_as_many_leave_a_budget_as_are_too_many_for_it(intercept, rng):
    """From outside there may be any number of vectors; the oldest leave."""
    rows, X, y = data(rng)
    problem, solver = problem_of(rows, y, intercept=intercept), Tracker(budget=12)
    state, beta = solver.init(problem, rng), np.zeros((1, y.size))
    solver.advance(problem, state, y.size)
    pairs = np.stack([rng.permutation(np.flatnonzero(y == sign))[:10] for sign in (1.0, -1.0)])
    beta[0, pairs] = [[0.5 * C], [-0.5 * C]]
    solver.adopt(problem, state, beta, beta @ gram(X, constant=problem.constant))
    solver.advance(problem, state, 1)
    kept = state.example[state.vectors]
    assert state.progress["live"] == kept.size <= 12
    assert kept.min() >= np.sort(pairs, axis=None)[-12]
    found, f = responses(problem, state, gram(X))
    np.testing.assert_allclose(state.e[0, state.vectors], (y - f)[kept], atol=2e-4)
    assert intercept == "none" or abs(found.sum()) < 1e-9


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_far_from_the_origin_are_learnt_as_near_ones_are(sparse, rng):
    """A row that reaches further than all before changes the way to compute distances; what was held is dropped."""
    _, X, y = data(rng, 150)
    far = X + np.array([0.0, 30.0, 3e3])[np.arange(150) // 50][:, None]  # γ‖x‖² up to 2e7
    problem, solver = problem_of(as_rows(sp.csr_matrix(far) if sparse else far), y), Tracker()
    state = solver.init(problem, rng)
    solver.advance(problem, state, 150)
    *_, alpha = textbook.greedy(gram(far), y, np.full(150, C), 1)
    np.testing.assert_allclose(solver.duals(problem, state)[0] * y, alpha, atol=2e-3)


@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
def test_forgotten_examples_leave_responses_of_the_others_alone(intercept, rng):
    rows, X, y = data(rng, 200)
    problem, solver = problem_of(rows, y, intercept=intercept), Tracker(reprocess=0)
    state = solver.init(problem, rng)
    solver.advance(problem, state, 200)
    gone = rng.choice(200, 60, replace=False)
    solver.forget(problem, state, gone)
    assert not np.isin(state.example[state.vectors], gone).any()
    beta, f = responses(problem, state, gram(X))
    np.testing.assert_allclose(state.e[0, state.vectors], (y - f)[state.example[state.vectors]], atol=2e-4)
    assert (beta * y >= 0.0).all()
    assert (beta * y <= C).all()
    assert intercept != "unregularized" or abs(beta.sum()) < 1e-9
    assert state.mass[0] == pytest.approx(C * 140)
    # all of one class: there is nothing to learn any more
    solver.forget(problem, state, np.setdiff1d(np.flatnonzero(y > 0), gone))
    assert intercept != "unregularized" or not solver.duals(problem, state).any()


REFUSED = {
    "algorithm": ({"algorithm": "lasso"}, "algorithm must be one of 'lasvm', 'process', 'random', got 'lasso'"),
    "choose": ({"choose": "best"}, "choose must be one of"),
    "reprocess": ({"reprocess": "many"}, "reprocess must be a number of steps or 'auto', got 'many'"),
    "no steps": ({"algorithm": "random", "choose": "random", "reprocess": 0}, "reprocess must be ≥ 1, got 0"),
    "gap": ({"gap": 0.0}, "gap must be > 0"),
    "window": ({"window": 0}, "window must be ≥ 1, got 0"),
    "pairs": ({"algorithm": "process"}, "an unregularised intercept needs pairs"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_parameters_are_refused_in_a_sentence(what, rng):
    parameters, said = REFUSED[what]
    rows, _, y = data(rng)
    with pytest.raises(ValueError, match=said):
        Tracker(**parameters).init(problem_of(rows, y, intercept="unregularized"), rng)


def test_adopted_variables_that_reach_a_bound_up_to_rounding_stand_on_it(rng):
    rows, X, y = data(rng)
    problem, solver = problem_of(rows, y, intercept="unregularized"), Tracker()
    state = solver.init(problem, rng)
    alpha = np.zeros(y.size)
    for sign in (1.0, -1.0):  # on the bound, a hair below it, and a hair above 0
        alpha[np.flatnonzero(y == sign)[:4]] = C, C * (1.0 - 1e-15), C * 1e-15, C * 0.5
    beta = (y * alpha)[None]
    solver.adopt(problem, state, beta, beta @ gram(X))
    taken, low, high, up, down = (
        getattr(state, name)[0, : state.count] for name in ("beta", "low", "high", "up", "down")
    )
    assert set(np.abs(taken)) == {0.0, 0.5 * C, C}
    np.testing.assert_array_equal(up == -np.inf, taken == high)
    np.testing.assert_array_equal(down == np.inf, taken == low)


def test_what_the_mean_has_of_an_example_that_goes_is_lost(rng):
    rows, _, y = data(rng)
    problem, solver = problem_of(rows, y), Tracker(average=True)
    state = solver.init(problem, rng)
    solver.advance(problem, state, y.size)
    slot = state.vectors[0]
    gone = state.example[slot]
    solver.forget(problem, state, np.array([gone]))
    kept = np.setdiff1d(np.arange(y.size), gone)
    state.trail[:], state.steps[:], state.trailed[:] = 0.0, 1, 1
    examples, coefficients = solver.coefficients(state)
    state.trail_slot[0, 0], state.trail[0, 0] = slot, 1.0  # as if a step had moved it before it went
    found = solver.coefficients(solver.renumbered(state, kept))
    np.testing.assert_array_equal(kept[found[0]], examples)
    np.testing.assert_array_equal(found[1], coefficients)


def test_others_take_over_what_a_forgotten_vector_leaves_the_best_first(rng):
    rows, X, y = data(rng)
    problem, solver = problem_of(rows, y, intercept="unregularized"), Tracker(reprocess=0)
    state = solver.init(problem, rng)
    solver.advance(problem, state, y.size)
    K, low, high = gram(X), np.minimum(C * y, 0.0), np.maximum(C * y, 0.0)
    for sign in (1.0, -1.0):
        beta = solver.duals(problem, state)[0]
        gone = np.argmax(sign * beta)
        owed, beta[gone] = beta[gone], 0.0
        others = np.setdiff1d(state.example[state.vectors], gone)
        while abs(owed) > 1e-12:
            room = np.maximum(sign * ((high if sign > 0.0 else low) - beta), 0.0)
            able = others[room[others] > 0.0]
            best = able[np.argmax(sign * (y - K @ beta)[able])]
            change = sign * min(abs(owed), room[best])
            beta[best] += change
            owed -= change
        solver.forget(problem, state, np.array([gone]))
        np.testing.assert_allclose(solver.duals(problem, state)[0], beta, atol=1e-5)


def test_a_fourth_class_joins_three_whatever_the_kernel_keeps(rng):
    rows, _, y = data(rng)
    solver = Tracker()
    problem = problem_of(rows, np.stack([y, -y, y]), intercept="unregularized")
    state = solver.init(problem, rng)
    solver.advance(problem, state, 40)
    more = solver.with_outputs(state, np.array([0, 1, 2, -1]))
    k = state.count
    np.testing.assert_array_equal(more.beta[:3], state.beta)
    assert not more.beta[3].any()
    np.testing.assert_array_equal(more.e[3, :k], -1.0)
    assert more.w.size == 0
