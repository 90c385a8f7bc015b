"""Linear Pegasos: the compiled loop against the textbook, its averages, biases, sampling, counters and resume law."""

import math
from copy import deepcopy
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from reference import pegasos as textbook
from widemargin.core.losses import losses
from widemargin.core.losses.bias import BestBias, best_bias, mixed_slope, smoothed_slope
from widemargin.core.rows.rows import as_rows
from widemargin.files import _Writer
from widemargin.problems.linear import Problem
from widemargin.problems.objective import INTERCEPTS, NO_WEIGHTS
from widemargin.problems.structured import StructuredProblem
from widemargin.running import load_state, run, save_state
from widemargin.solvers.pegasos import Bottou, Constant, InverseTime, Norma, Pegasos, steps
from widemargin.solvers.pegasos.pegasos import AVERAGES, SAMPLINGS
from widemargin.solvers.pegasos.steps import SMALLEST_SCALE

#: Double precision: about a hundred steps, each rounding a few times by 1e-16 of the largest weight so far, and no
#: step that enlarges an earlier error more than a thousandfold.
TIGHT = 1e-9

LAYOUTS = {
    "dense": lambda X: X,
    "dense32": lambda X: X.astype(np.float32),
    "csr": sp.csr_matrix,
    "csr32_int64": lambda X: sp.csr_matrix(X, dtype=np.float32),
}


class Recorded(Pegasos):
    """Pegasos that notes the examples it visits."""

    def _next_visits(self, n, state, most):
        visits = super()._next_visits(n, state, most)
        self.__dict__.setdefault("seen", []).append(visits.copy())
        return visits

    @property
    def batches(self):
        """The visits so far, one row for each step."""
        return np.concatenate(self.seen).reshape(-1, self.batch_size)


def small(name, rng, layout="dense", lam=None, intercept="none", weighted=False, **size):
    """(problem, arguments of the textbook) for a loss by name; one of the weights is zero.

    λ is random, or the bias would be a simple fraction and a row of zeros could stand at its margin exactly.
    """
    X, y, target, outputs = textbook.small_data(name, rng, **size)
    lam = rng.uniform(0.05, 0.2) if lam is None else lam
    X = X.astype(np.float32).astype(np.float64) if "32" in layout else X
    s = np.append(rng.uniform(0.2, 2.0, len(y) - 1), 0.0) if weighted else NO_WEIGHTS
    rows = as_rows(LAYOUTS[layout](X))
    if "int64" in layout:  # the door has them for very large data only
        rows = rows._replace(indices=rows.indices.astype(np.int64), indptr=rows.indptr.astype(np.int64))
    problem = Problem(rows, y, target, lam, s, intercept, outputs)
    return problem, arguments(problem, X)


def arguments(problem, X):
    """What the textbook is told about a problem with rows X."""
    s = problem.sample_weight if problem.sample_weight.size else np.ones(problem.n)
    return {
        "X": X,
        "y": problem.y,
        "target": problem.target,
        "lam": problem.lam,
        "outputs": problem.n_outputs,
        "s": s,
        "intercept": problem.intercept,
    }


def textbook_iterates(solver, facts):
    """(w_1, b_1) … (w_{T+1}, b_{T+1}) of the textbook on the visits that a solver has noted."""
    ball = textbook.radius(**facts) if solver.projection else None
    return textbook.pegasos(batches=solver.batches, policy=solver.policy, ball=ball, **facts)


def size_of(iterates):
    """The largest weight and bias of all iterates: what rounding errors are measured against."""
    return max(np.abs(W).max(initial=0.0) for W, _ in iterates) + max(np.abs(b).max() for _, b in iterates)


def advanced(solver, problem, seed, n_steps):
    """The state after n_steps from a seed."""
    state = solver.init(problem, np.random.default_rng(seed))
    solver.advance(problem, state, n_steps)
    return state


def assert_close(found, expected, scale, tolerance, message=""):
    """Equality up to a share of the largest number that took part."""
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * scale, err_msg=str(message))


def assert_same_state(one, other):
    """Equality of two states bit for bit: arrays, counters, generator, position."""
    ours, theirs = _Writer(), _Writer()
    assert ours.tree(one, "", "state") == theirs.tree(other, "", "state")
    assert ours.random == theirs.random
    for name, array in ours.arrays.items():
        assert array.dtype == theirs.arrays[name].dtype, name
        np.testing.assert_array_equal(array, theirs.arrays[name], err_msg=name, strict=True)


# ---------------------------------------------------------------- the textbook

#: Each pair is a compilation of some seconds: dense rows with every loss, sparse ones with indices of 32 bits with one,
#: and those of 64 bits in single precision; that sparse rows give the run of dense ones is tested below.
DOUBLE = [(name, "dense") for name in (*textbook.LOSSES, *textbook.ROUNDED)] + [("hinge", "csr")]
POLICIES = (InverseTime(), Norma(), Norma(0.3), Constant(0.05), Bottou(0.7))


#: Where biases are exact, which is a loop of its own: losses with kinks, with a cap of steps, and of several outputs.
#: The best bias sees scores in float64 and no rows, and is tested with every loss by itself.
EXACT = ("hinge", "squared_hinge", "ovr_hinge")


def every_option(name, layout):
    """(solver, intercept, weighted): each step with each intercept and projection, the other options in turn."""
    exact = name in EXACT and layout == "dense"
    intercepts = ("none", "regularized", "unregularized") + (("exact",) if exact else ())
    for i, (step, intercept, projection) in enumerate(product(POLICIES, intercepts, (False, True))):
        average, sampling, k = AVERAGES[i // 5 % 4], SAMPLINGS[i // 3 % 3], (1, 4, 5)[i % 3]
        yield Recorded(step, average, sampling, k, projection), intercept, i // 7 % 2 == 1


def compare_with_the_textbook(name, layout, rng, tolerance):
    """Run every option beside the textbook; the set of those effects that really took place."""
    effects = set()
    for solver, intercept, weighted in every_option(name, layout):
        problem, facts = small(name, rng, layout, intercept=intercept, weighted=weighted)
        state = advanced(solver, problem, rng.integers(2**32), 40)  # a suffix begins again at 32
        iterates = textbook_iterates(solver, facts)
        kinds = {"none": iterates[-1]}
        if solver.average != "none":
            kinds[solver.average] = textbook.average(iterates[:-1], solver.average)
        for kind, (W, b) in kinds.items():
            found = solver._weights(state, kind)
            assert found[0].dtype == problem.dtype
            assert_close(found[0], W, size_of(iterates), tolerance, (solver, intercept))
            if intercept != "exact":  # where the best b may be an interval; its value is tested below
                assert_close(found[1], b, size_of(iterates), tolerance, (solver, intercept))

        if solver.projection:
            free = textbook.pegasos(batches=solver.batches, policy=solver.policy, **facts)
            if np.abs(free[-1][0] - iterates[-1][0]).max() > 1e-3:
                effects.add("projected")
        first, eta = solver.batches[0], textbook.step_size(solver.policy, facts["lam"], problem.n, 1)
        if textbook.capped(eta, facts["target"], facts["X"][first], facts["s"][first], intercept) < eta:
            effects.add("capped")
    return effects


@pytest.mark.parametrize(("name", "layout"), DOUBLE)
def test_the_compiled_loop_equals_the_textbook_on_the_same_visits(name, layout, rng):
    effects = compare_with_the_textbook(name, layout, rng, TIGHT)
    # else the comparison would not have seen the cap of squared losses, or the projection of the others
    assert ("capped" if name.startswith("squared") else "projected") in effects


def test_the_compiled_loop_equals_the_textbook_in_single_precision(rng):
    # a loss with continuous slopes: a hinge decides by yz < 1, and where double precision says 1 ± 1e-7 float32
    # may decide otherwise. A step rounds by 6e-8 of the largest weight; the sums of forty steps whose parts S·v and u
    # cancel may lose forty times forty of these: 1e-4.
    compare_with_the_textbook("squared_hinge", "csr32_int64", rng, 1e-4)


@pytest.mark.parametrize("name", ["hinge", "epsilon", "ovr_hinge", "multiclass_hinge"])
def test_sparse_and_dense_rows_give_the_same_run(name, rng):
    problem, facts = small(name, rng, intercept="regularized", weighted=True, zeros=0.8, n=30, d=10)
    sparse = replace(problem, X=as_rows(sp.csr_matrix(facts["X"])))
    seed = rng.integers(2**32)
    for solver in (Pegasos("pegasos", "suffix"), Pegasos("norma", "weighted", "iid", 4, projection=True)):
        one, other = (advanced(solver, p, seed, 200) for p in (problem, sparse))
        # the same sums without their zero terms: only the order of additions may differ
        for a, b in zip(solver.weights(problem, one), solver.weights(sparse, other), strict=True):
            assert_close(b, a, np.abs(a).max(), TIGHT)
        np.testing.assert_array_equal(one.order, other.order)
        assert one.counters.updates == other.counters.updates
        assert one.counters.feature_reads > other.counters.feature_reads


@pytest.mark.parametrize("intercept", ["none", "regularized"])
def test_norms_are_those_of_the_weights_when_a_run_with_projections_goes_on(intercept, rng):
    problem, _ = small("ovr_hinge", rng, intercept=intercept, weighted=True, n=30, d=5)
    solver = Pegasos("norma", "none", projection=True)
    state = advanced(solver, problem, rng.integers(2**32), 60)
    assert np.any(state.w.scale != 1.0)
    state.w.norm2[:] = -1.0
    solver.bind(problem, state)
    W, b = state.w.scale * state.w.V.astype(np.float64), state.w.b
    norm2 = (W**2).sum(axis=0) + (b**2 if intercept == "regularized" else 0.0)
    np.testing.assert_allclose(state.w.norm2, norm2, rtol=1e-6)


# ---------------------------------------------------------------- averages


def recorded_iterates(problem, solver, seed, n_steps):
    """w_1 … w_T and b_1 … b_T of the compiled loop itself, taken one step at a time."""
    state = solver.init(problem, np.random.default_rng(seed))
    iterates, scales = [], []
    for _ in range(n_steps):
        iterates.append(solver._weights(state, "none"))
        solver.advance(problem, state, 1)
        scales.append(state.w.scale.copy())
    return iterates, np.array(scales)


@pytest.mark.parametrize("kind", ["uniform", "weighted", "suffix"])
@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
@pytest.mark.parametrize("name", ["hinge", "ovr_hinge"])
def test_every_average_is_the_mean_of_the_iterates_it_names_at_any_time(kind, intercept, name, rng):
    problem, _ = small(name, rng, intercept=intercept)
    seed = rng.integers(2**32)
    iterates, _ = recorded_iterates(problem, Pegasos("norma"), seed, 33)
    for T in (1, 2, 3, 4, 7, 8, 9, 15, 16, 31, 32, 33):
        solver = Pegasos("norma", kind)
        found = solver.weights(problem, advanced(solver, problem, seed, T))
        for part, expected in zip(found, textbook.average(iterates[:T], kind), strict=True):
            assert_close(part, expected, size_of(iterates), TIGHT, T)


@pytest.mark.parametrize("kind", ["uniform", "weighted", "suffix"])
@pytest.mark.parametrize("step", [InverseTime(), Constant(5.0)])
def test_averages_pass_through_the_folding_of_a_small_scale(kind, step, rng):
    # 1/(λt) shrinks the scale to 1/t of its size after a fold, a constant step with ηλ = ½ halves it each time
    problem, _ = small("ovr_hinge", rng, lam=0.1, intercept="regularized")
    seed, T = rng.integers(2**32), 2500 if step == InverseTime() else 60
    for projection in (False, True):
        iterates, scales = recorded_iterates(problem, Pegasos(step, projection=projection), seed, T)
        folds = 1 + np.flatnonzero(scales[1:, 0] > scales[:-1, 0])
        assert folds.size >= 1
        assert scales.min() >= SMALLEST_SCALE or projection
        solver = Pegasos(step, kind, projection=projection)
        found = solver.weights(problem, advanced(solver, problem, seed, T))
        for part, expected in zip(found, textbook.average(iterates, kind), strict=True):
            assert_close(part, expected, size_of(iterates), TIGHT, projection)


# ---------------------------------------------------------------- the law of advance, and of resuming

ANY_SAMPLING = [(sampling, k) for sampling in SAMPLINGS for k in (1, 4, 17)]


@pytest.mark.parametrize("intercept", ["unregularized", "search"])
@pytest.mark.parametrize(("sampling", "k"), ANY_SAMPLING)
def test_advancing_in_parts_is_advancing_at_once_bit_for_bit(sampling, k, intercept, rng):
    problem, _ = small("hinge", rng, intercept=intercept, weighted=True)
    solver = Pegasos(Bottou(), "suffix", sampling, k, projection=True, search_epochs=2)
    seed = rng.integers(2**32)
    whole, parts = advanced(solver, problem, seed, 100), advanced(solver, problem, seed, 0)
    for n_steps in (1, 0, 16, 1, 40, 42):
        solver.advance(problem, parts, n_steps)
    assert_same_state(whole, parts)
    assert whole.counters.steps == 100
    if intercept == "search":
        # runs of two epochs, and longer ones after a stage that closed
        runs = 100 // (2 * solver.steps_per_epoch(problem))
        assert min(runs, 3) <= whole.search.rounds <= runs


def test_a_long_draw_of_independent_examples_can_be_cut_anywhere(rng):
    # uniforms are drawn in blocks of 65536, so this crosses two ends of blocks
    problem, _ = small("hinge", rng)
    seed = rng.integers(2**32)
    for k, n_steps in ((1, 140_000), (4, 35_000)):
        solver = Pegasos("pegasos", "none", "iid", k)
        parts = advanced(solver, problem, seed, n_steps // 3)
        solver.advance(problem, parts, n_steps - n_steps // 3)
        assert_same_state(advanced(solver, problem, seed, n_steps), parts)


@pytest.mark.parametrize("intercept", ["regularized", "search"])
@pytest.mark.parametrize(("sampling", "k"), ANY_SAMPLING)
def test_a_run_that_was_saved_and_loaded_goes_on_as_if_nothing_had_happened(sampling, k, intercept, rng, tmp_path):
    problem, _ = small("hinge", rng, intercept=intercept)
    solver = Pegasos("bottou", "weighted", sampling, k, search_epochs=3)
    seed = rng.integers(2**32)
    whole = run(solver, problem, rng=np.random.default_rng(seed), max_epochs=10)
    half = run(solver, problem, rng=np.random.default_rng(seed), max_epochs=5)
    save_state(tmp_path / "half.npz", half.state)
    loaded = load_state(tmp_path / "half.npz")
    assert_same_state(half.state, loaded)
    rest = run(solver, problem, state=loaded, max_epochs=5)
    assert_same_state(whole.state, rest.state)
    np.testing.assert_array_equal(whole.W, rest.W)
    np.testing.assert_array_equal(whole.b, rest.b)
    assert whole.objective == rest.objective


@pytest.mark.parametrize("intercept", [*INTERCEPTS, "structured"])
def test_advancing_by_nothing_compiles_and_changes_nothing(intercept, rng, monkeypatch):
    # ``run`` does so before it starts the clock
    if intercept == "structured":
        problem = StructuredProblem([(0, 0)] * 3, lambda w, x, y: (np.ones(2), 1.0), 2, 0.1)
    else:
        problem, _ = small("hinge", rng, intercept=intercept)
    solver = Pegasos("pegasos")
    state = solver.init(problem, rng)
    before, calls = deepcopy(state), []
    monkeypatch.setattr(steps, "take_steps", lambda *args: calls.append(args) or (0, 0))
    solver.advance(problem, state, 0)
    assert len(calls) == 1
    assert calls[0][0].order.size == 0
    assert_same_state(before, state)


# ---------------------------------------------------------------- counters and sampling


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", ["hinge", "ovr_hinge"])
def test_counters_equal_their_formulas(name, layout, rng):
    problem, facts = small(name, rng, layout, intercept="regularized", weighted=True)
    row_sizes = np.count_nonzero(facts["X"], axis=1) if layout == "csr" else np.full(problem.n, problem.d)
    for sampling, k in ANY_SAMPLING:
        solver = Recorded("pegasos", "weighted", sampling, k)
        counters = advanced(solver, problem, rng.integers(2**32), 50).counters
        batches = solver.batches
        moving = 0
        for (W, b), A in zip(textbook_iterates(solver, facts), batches, strict=False):
            G = facts["s"][A, None] * textbook.slopes(facts["target"], facts["X"][A] @ W + b, facts["y"][A])
            moving += np.count_nonzero(G.any(axis=1))
        assert counters.steps == 50
        assert counters.visits == 50 * k == batches.size
        assert counters.feature_reads == row_sizes[batches].sum()
        assert counters.updates == moving
        assert 0 < moving < batches.size
        assert counters.kernel_evals == 0


def visits_of(sampling, k, n, n_steps, rng):
    """The batches of a run on n examples, of shape (n_steps, k)."""
    X = rng.normal(size=(n, 2))
    problem = Problem(as_rows(X), np.where(np.arange(n) % 2, 1.0, -1.0), losses.Single(losses.Hinge()), 0.1)
    solver = Recorded("pegasos", "none", sampling, k)
    advanced(solver, problem, rng.integers(2**32), n_steps)
    return solver.batches


def test_independent_batches_are_subsets_without_repetition(rng):
    for k in (2, 5, 12):
        batches = np.sort(visits_of("iid", k, 13, 200, rng), axis=1)
        assert (np.diff(batches, axis=1) > 0).all()
        assert batches.min() == 0
        assert batches.max() == 12
        assert len(np.unique(batches, axis=0)) > 1


def test_independent_draws_reach_every_example_and_repeat(rng):
    visits = visits_of("iid", 1, 5, 2000, rng).ravel()
    # an example is missed with probability 0.8^2000, and none repeats at once with the same
    assert set(visits) == set(range(5))
    assert (visits[1:] == visits[:-1]).any()


def test_a_batch_of_all_examples_is_the_full_batch(rng):
    for sampling in SAMPLINGS:
        batches = visits_of(sampling, 11, 11, 20, rng)
        np.testing.assert_array_equal(np.sort(batches, axis=1), np.tile(np.arange(11), (20, 1)))


@pytest.mark.parametrize("k", [1, 4, 7])
def test_a_permutation_visits_every_example_once_per_epoch(k, rng):
    n = 23
    epochs = visits_of("permutation", k, n, 5 * n, rng).reshape(-1, n)  # 5k epochs, batches across their ends
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(n), (5 * k, 1)))
    # two of the permutations are the same with probability (5k)²/23!, less than 1e-18
    assert len(np.unique(epochs, axis=0)) == 5 * k


@pytest.mark.parametrize("k", [1, 4, 7])
def test_fixed_sampling_repeats_one_order(k, rng):
    n = 23
    epochs = visits_of("fixed", k, n, 5 * n, rng).reshape(-1, n)
    np.testing.assert_array_equal(np.sort(epochs[0]), np.arange(n))
    np.testing.assert_array_equal(epochs, np.tile(epochs[0], (5 * k, 1)))


# ---------------------------------------------------------------- the bias


def lopsided(rng, intercept, lam, loss=losses.Hinge(), n=20):  # noqa: B008
    """Short rows, R ≤ 0.3, and one negative example in five: without a bias hardly anything can be fitted."""
    X = rng.normal(size=(n, 3))
    X *= 0.3 / np.linalg.norm(X, axis=1).max()
    y = np.where(np.arange(n) % 5 == 0, -1.0, 1.0)
    return Problem(as_rows(X), y, losses.Single(loss), lam, intercept=intercept), X


def suboptimality(problem, X, W, b):
    """P(W, b) − P*, both by the textbook."""
    facts = arguments(problem, X)
    best = textbook.optimum(**facts)
    del facts["outputs"]
    return textbook.objective(W=W, b=b, **facts) - textbook.objective(W=best[0], b=best[1], **facts)


def test_a_regularized_bias_reaches_the_optimum_that_charges_for_it(rng):
    problem, X = lopsided(rng, "regularized", lam=1.0)
    T, c = 20_000, 4.0 * (0.3**2 + 1.0)
    solver = Pegasos("pegasos", "uniform", "iid", batch_size=20)
    W, b = solver.weights(problem, advanced(solver, problem, rng.integers(2**32), T))
    bound = c * (1.0 + math.log(T)) / (2.0 * problem.lam * T)  # Corollary 1, with ‖(x, 1)‖² ≤ R² + 1
    assert suboptimality(problem, X, W, b) <= bound
    # no confusion with a free bias: its optimum is b = 1 or farther, which costs b²/2
    free = textbook.optimum(**{**arguments(problem, X), "intercept": "unregularized"})
    assert suboptimality(problem, X, *free) > 10.0 * bound


def test_an_unregularized_bias_reaches_the_free_optimum(rng):
    problem, X = lopsided(rng, "unregularized", lam=0.5)
    T, eta = 100_000, 0.004
    solver = Pegasos(Constant(eta), "uniform", "iid", batch_size=20)
    W, b = solver.weights(problem, advanced(solver, problem, rng.integers(2**32), T))
    best = textbook.optimum(**arguments(problem, X))
    # sub-gradient descent with constant steps on any convex function: D²/(2ηT) + ηG²/2 above the minimum in the mean,
    # where ‖w‖ ≤ R/λ makes G² ≤ (2R)² + 1
    bound = (np.sum(best[0] ** 2) + best[1][0] ** 2) / (2.0 * eta * T) + 0.5 * eta * (4.0 * 0.3**2 + 1.0)
    assert suboptimality(problem, X, W, b) <= bound
    # without a bias no score leaves ±R²/λ = ±0.18
    none = textbook.optimum(**{**arguments(problem, X), "intercept": "none"})
    assert suboptimality(problem, X, *none) > 10.0 * bound


def test_an_exact_bias_reaches_the_free_optimum_with_full_batches(rng):
    problem, X = lopsided(rng, "exact", lam=0.5)
    T = 5_000
    solver = Pegasos("pegasos", "uniform", "iid", batch_size=20)
    W, b = solver.weights(problem, advanced(solver, problem, rng.integers(2**32), T))
    # Corollary 1 for λ/2 ‖w‖² + min over b, whose sub-gradients are bounded as without a bias (Sec. 6)
    bound = 4.0 * 0.3**2 * (1.0 + math.log(T)) / (2.0 * problem.lam * T)
    assert suboptimality(problem, X, W, b) <= bound
    none = textbook.optimum(**{**arguments(problem, X), "intercept": "none"})
    assert suboptimality(problem, X, *none) > 10.0 * bound


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_bias_minimises_the_full_batch_at_every_step(name, rng):
    problem, facts = small(name, rng, intercept="exact", weighted=True)
    solver = Pegasos("norma", "none", "fixed", batch_size=problem.n)
    state = solver.init(problem, np.random.default_rng(rng.integers(2**32)))
    labels, weights = textbook.separate(facts["target"], facts["y"], facts["outputs"])
    for _ in range(20):
        W, _ = solver._weights(state, "none")
        solver.advance(problem, state, 1)
        for c in range(problem.n_outputs):
            z, s = facts["X"] @ W[:, c], facts["s"] * weights[:, c]
            best, _ = textbook.best_bias(facts["target"].loss, z, labels[:, c], s)
            at_best, found = (
                s @ textbook.scalar_values(facts["target"].loss, z + b, labels[:, c]) for b in (best, state.w.b[c])
            )
            assert found == pytest.approx(at_best, rel=1e-12, abs=1e-12)  # sums of 17 terms of size 1


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("k", [5, 17])
def test_an_exact_bias_leaves_nothing_to_a_constant_feature(name, k, rng):
    # its slopes sum to zero over the batch, which are the steps of the weight of a feature that is always 1
    _, facts = small(name, rng)
    X = np.column_stack([facts["X"], np.ones(17)])
    problem = Problem(as_rows(X), facts["y"], facts["target"], 0.1, intercept="exact", n_outputs=facts["outputs"])
    solver = Pegasos("pegasos", "none", batch_size=k)
    W, _ = solver._weights(advanced(solver, problem, rng.integers(2**32), 100), "none")
    # a step adds at most η = 10/t times the rounding of a sum of slopes, which are at most as large as the scores
    assert np.abs(W[-1]).max() <= 1e-12 * (1.0 + np.abs(W).max())
    assert np.abs(W[:-1]).max() > 1e-3


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "log", "epsilon", "squared_epsilon", "ovr_hinge"])
def test_the_search_over_the_bias_finds_the_free_optimum(name, rng):
    problem, facts = small(name, rng, intercept="search", weighted=True)
    best_W, best_b = textbook.optimum(**facts)
    del facts["outputs"]
    minimum = textbook.objective(W=best_W, b=best_b, **facts)
    tol = 1e-3
    solver = Pegasos()
    outcome = run(solver, problem, rng=np.random.default_rng(rng.integers(2**32)), max_epochs=4000, tol=tol)
    reached = textbook.objective(W=outcome.W, b=outcome.b, **facts)
    assert reached == pytest.approx(outcome.objective, rel=1e-12)
    # runs that changed by tol when they became twice as long are off by about as much, and b by as much again: the
    # room is for the noise of that estimate. At max_iter, a hundred times 1/(λn) = 1, no claim is made but this one
    assert reached <= minimum * (1.0 + 10.0 * tol)
    assert reached >= minimum * (1.0 - 1e-6)
    search = outcome.state.search
    if outcome.stop_reason == "tol":
        assert outcome.doubt == ""
        assert search.excess.sum() <= tol * reached
    else:
        assert outcome.stop_reason == "max_iter"


def test_a_stage_of_the_search_bounds_what_its_bias_can_miss(rng):
    """Full batches of a smooth loss make J(b) nearly exact: then convexity bounds the distance to the least J."""
    problem, facts = small("log", rng, intercept="search")
    best_W, best_b = textbook.optimum(**facts)
    del facts["outputs"]
    minimum = textbook.objective(W=best_W, b=best_b, **facts)
    solver = Pegasos(Constant(0.5), "none", "iid", batch_size=problem.n, search_epochs=500)
    state = solver.init(problem, np.random.default_rng(0))
    bounds = []
    for _ in range(60):
        rounds = state.search.rounds
        while state.search.rounds < rounds + 3:
            solver.advance(problem, state, 25)
        excess = state.search.excess[0]
        if np.isfinite(excess):
            # (1 − ηλ)^500 < 1e-5 of the first distance is left in w, and as P is flat there, its square in P
            assert state.search.best_objective[0] - minimum <= excess + 1e-6
            bounds.append(excess)
        if len(bounds) == 4:
            break
    # ρ is quartered each time, and J has a bounded curvature
    assert len(bounds) == 4
    assert bounds[-1] < bounds[0]
    assert abs(state.search.best_b[0] - best_b[0]) < 0.1


def test_runs_of_a_stage_share_their_start_and_their_visits(rng):
    problem, _ = small("hinge", rng, intercept="search")
    solver = Pegasos(step=Bottou(0.1), search_epochs=2)
    state = solver.init(problem, np.random.default_rng(rng.integers(2**32)))
    begins = []
    for _ in range(3):
        begins.append((state.t, state.w.V.copy(), state.rng.bit_generator.state, state.order.copy()))
        solver.advance(problem, state, 2 * problem.n)
    for t, V, generator, order in begins[1:]:
        assert t == begins[0][0]
        np.testing.assert_array_equal(V, begins[0][1])
        assert generator == begins[0][2]
        np.testing.assert_array_equal(order, begins[0][3])
    assert state.t == 2 * problem.n  # the next stage goes on


def test_a_search_bound_to_another_problem_forgets_what_runs_were_worth(rng):
    problem, _ = small("hinge", rng, intercept="search")
    solver = Pegasos(step=Bottou(0.1))
    state = advanced(solver, problem, rng.integers(2**32), 6 * problem.n)
    harder = Problem(problem.X, problem.y, problem.target, 100.0, intercept="search")
    solver.bind(harder, state)
    solver.advance(harder, state, 3 * problem.n)
    W, b = solver.weights(harder, state)
    assert state.search.best_objective.sum() == pytest.approx(harder.primal(W, b), rel=1e-12)


# ---------------------------------------------------------------- what speaks against convergence


@pytest.mark.parametrize("name", textbook.LOSSES)
@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
def test_a_scaled_step_never_promises_more_than_there_is_to_gain(name, intercept, rng):
    problem, facts = small(name, rng, intercept=intercept, weighted=True)
    best_W, best_b = textbook.optimum(**facts)
    del facts["outputs"]
    minimum = textbook.objective(W=best_W, b=best_b, **facts)
    for size in (0.0, 1e-3, 1.0):
        W = best_W + size * rng.normal(size=best_W.shape)
        b = best_b + size * rng.normal(size=best_b.shape) * (intercept != "none")
        here = textbook.objective(W=W, b=b, **facts)
        gain = problem.gain_of_scaled_step(W, b, np.inf)
        assert 0.0 <= gain <= 1.0 - minimum / here + 1e-7  # the textbook's optimum is one up to its tolerance
    # at zero something is left to gain, and the step finds it
    W, b = np.zeros_like(best_W), np.zeros_like(best_b)
    if textbook.objective(W=W, b=b, **facts) > 1.2 * minimum:
        assert problem.gain_of_scaled_step(W, b, 1e-3) > 1e-3


def test_a_scaled_step_does_not_depend_on_the_units_of_the_features(rng):
    problem, facts = small("hinge", rng, lam=1e-12, zeros=0.0)
    W = rng.normal(size=(6, 1))
    units = 10.0 ** rng.integers(-3, 4, 6)
    other = Problem(as_rows(facts["X"] * units), problem.y, problem.target, 1e-12)
    ours, theirs = (
        p.gain_of_scaled_step(V, np.zeros(1), np.inf) for p, V in ((problem, W), (other, W / units[:, None]))
    )
    assert ours > 0.0
    assert theirs == pytest.approx(ours, rel=1e-4)  # λ is next to nothing beside the smallest mean square


FIVE_LOSSES = st.sampled_from(
    [
        losses.Hinge(),
        losses.SquaredHinge(),
        losses.Log(),
        *(kind(epsilon) for kind in (losses.EpsilonInsensitive, losses.SquaredEpsilon) for epsilon in (0.0, 0.25, 3.0)),
    ]
)
QUARTERS = st.integers(-12, 12).map(lambda i: i / 4.0)  # ties are common


@st.composite
def biased_scores(draw):
    """(loss, z, y, s): up to eight examples of any weight, of one class or two."""
    loss, n = draw(FIVE_LOSSES), draw(st.integers(1, 8))
    classes = isinstance(loss, (losses.Hinge, losses.SquaredHinge, losses.Log))
    many = {"min_size": n, "max_size": n}
    size = draw(st.sampled_from([1.0, 1e-3, 1e6]))
    z = size * np.array(draw(st.lists(QUARTERS | st.floats(-3.0, 3.0), **many)))
    y = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]) if classes else QUARTERS, **many)))
    s = np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 1.0 / 3.0]), **many)))
    return loss, z, y, s


@settings(max_examples=50)
@given(biased_scores(), st.sampled_from([0.0, 0.3]))
@example((losses.Log(), np.array([-2.0, 1.0]), np.array([1.0, 1.0]), np.ones(2)), 0.0)
@example((losses.Hinge(), np.array([0.5, 0.5, 0.5]), np.array([1.0, -1.0, -1.0]), np.ones(3)), 0.0)
@example((losses.Hinge(), np.zeros(2), np.array([1.0, -1.0]), np.zeros(2)), 0.0)
@example((losses.EpsilonInsensitive(0.0), np.zeros(2), np.array([0.0, 0.25]), np.array([0.5, 1.0 / 3.0])), 0.3)
def test_the_best_bias_is_one_by_brute_force(scores, width):
    loss, z, y, s = scores

    def total(b):
        return s @ textbook.scalar_values(loss, z + b, y)

    kinks = np.concatenate([y - z - getattr(loss, "epsilon", 0.0), y - z + getattr(loss, "epsilon", 0.0)])
    ends = kinks.min() - 40.0, kinks.max() + 40.0
    smooth = minimize_scalar(total, bounds=ends, method="bounded", options={"xatol": 1e-12}).x
    lowest = min(total(b) for b in (*kinks, *ends, smooth))
    best = BestBias(*best_bias(loss, z, y, s, 0.0, 0.0))
    lo, hi, _ = best
    assert lo <= hi
    # scores of size |z| are rounded by 1e-16 of it, and the loss follows with its slope, which is at most |z| too
    rounding = 1e-14 * (1.0 + np.abs(z).max())
    for b in (lo, hi):
        assert total(b) <= lowest + rounding * (1.0 + s.sum()) * (1.0 + math.sqrt(lowest))

    # each slope of the mixture is a sub-gradient at its score, and they sum to zero
    g = np.array([mixed_slope(loss, z[i], y[i], 0.0, best) for i in range(z.size)])
    steepest = 1.0 + np.abs(g).max()
    assert abs(s @ g) <= 1e-12 * s.sum() * steepest * (1.0 + np.abs(z).max())
    here = textbook.scalar_values(loss, z + lo, y)
    for shift in (-5.0, -0.1, 0.1, 5.0):
        there = textbook.scalar_values(loss, z + lo + shift, y)
        assert (there >= here + g * shift - rounding * steepest * (1.0 + np.sqrt(there))).all()

    best = BestBias(*best_bias(loss, z, y, s, width, 0.0))

    def slopes(b):
        return np.array([smoothed_slope(loss, z[i] + b, y[i], width) for i in range(z.size)])

    # the sum of slopes rises with b and is 0 about the best one. Where a score of the average is a kink, compiled code,
    # which fuses multiply-adds, may see it on the other side: then the mixture of these slopes need not be 0
    about = 1e-12 * (1.0 + np.abs(z).max() + abs(best.lo))
    g = np.array([mixed_slope(loss, z[i], y[i], width, best) for i in range(z.size)])
    allowed = 1e-12 * s.sum() * (1.0 + np.abs(g).max()) * (1.0 + np.abs(z).max())
    before, after = slopes(best.lo - about), slopes(best.hi + about)
    assert s @ before <= allowed + about * s.sum()
    assert s @ after >= -allowed - about * s.sum()
    beside = np.abs(before - slopes(best.lo)).max() + np.abs(after - slopes(best.hi)).max()
    if beside <= 1e-6:
        assert abs(s @ g) <= allowed


# ---------------------------------------------------------------- the dual point behind w

#: Losses whose conjugate is linear along means of slopes: the bound is the dual value itself.
EXACT_BOUNDS = ("hinge", "ovr_hinge", "multiclass_hinge")
CHARGED = ("none", "regularized")


def best_dual_of_slopes(facts, mean, most, A, norms2):
    """D of the multiple of mean slopes that a bound with A, ‖w‖² and M takes, by the textbook."""
    theta = np.clip(np.minimum(1.0 / most, A / np.maximum(facts["lam"] * norms2, 1e-300)), 0.0, None)
    told = {name: facts[name] for name in ("X", "y", "target", "lam", "s", "intercept")}
    return textbook.dual_value(G=theta * mean, **told).sum()


def least(facts):
    """The least objective, by the textbook."""
    W, b = textbook.optimum(**facts)
    told = {name: value for name, value in facts.items() if name != "outputs"}
    return textbook.objective(W=W, b=b, **told)


@pytest.mark.parametrize("name", textbook.LOSSES)
def test_the_bound_is_no_more_than_the_dual_value_of_the_mean_slopes(name, rng):
    joint = name.startswith("multiclass")
    for i, (policy, intercept, projection) in enumerate(product(POLICIES, CHARGED, (False, True))):
        k, n_steps = (1, 4, 5, 17)[i // 2 % 4], int(rng.choice([1, 16, 17, 18, 34, 60]))
        solver = Recorded(policy, AVERAGES[i % 4], ("permutation", "fixed")[i % 2], k, projection)
        problem, facts = small(name, rng, intercept=intercept, weighted=i // 3 % 2 == 1)
        state = advanced(solver, problem, rng.integers(2**32), n_steps)
        ball = textbook.radius(**facts) if projection else None
        W, b, mean, weight = textbook.pegasos_with_slopes(batches=solver.batches, policy=policy, ball=ball, **facts)[-1]

        most = problem.n * state.dual.most
        assert most >= weight.max() * (1.0 - TIGHT)
        if isinstance(policy, (InverseTime, Bottou)) and not name.startswith("squared"):
            assert most == pytest.approx(weight.max(), rel=TIGHT)  # all visits weigh the same

        norms2 = np.sum(W**2, axis=0) + (b**2 if intercept == "regularized" else 0.0)
        A, norms2 = (state.dual.A[:1], norms2.sum()) if joint else (state.dual.A, norms2)
        bound = solver.dual_of_visits(problem, state)
        value = best_dual_of_slopes(facts, mean, most, A, norms2)
        # rounding is a share of A and of λ‖w‖², whose difference a bound is
        rounding = TIGHT * float(np.sum(np.abs(A) / most + facts["lam"] * norms2 / most**2) + 1.0)
        assert 0.0 <= bound <= value + rounding
        if name in EXACT_BOUNDS:
            assert bound == pytest.approx(value, abs=rounding)
        assert value <= least(facts) + 1e-7 + rounding


@settings(max_examples=50)
@given(
    st.sampled_from(textbook.LOSSES),
    st.sampled_from(POLICIES),
    st.sampled_from(AVERAGES),
    st.sampled_from(["permutation", "fixed"]),
    st.integers(1, 11),
    st.tuples(st.booleans(), st.booleans(), st.sampled_from(CHARGED)),
    st.sampled_from([1e-4, 1e-2, 1.0, 100.0]),
    st.integers(0, 150),
    st.integers(0, 2**32 - 1),
)
def test_no_model_is_farther_from_the_optimum_than_its_gap(
    name, policy, average, sampling, k, options, lam, n_steps, seed
):
    projection, weighted, intercept = options
    problem, facts = small(name, np.random.default_rng(seed), lam=lam, intercept=intercept, weighted=weighted, n=11)
    solver = Pegasos(policy, average, sampling, k, projection)
    state = advanced(solver, problem, seed, n_steps)
    minimum = least(facts)
    model = solver.model(problem, state)
    measured, certificate = solver.evaluate(problem, state, model), solver.certificate(problem, state)
    assert measured["objective"] == certificate.primal
    # the certificate's dual value is lowered by what rounding may have added
    assert certificate.gap <= measured["gap"] + 1e-12 * (1.0 + certificate.primal)
    # the textbook's optimum is one up to its tolerance
    assert certificate.dual <= minimum + 1e-7 * (1.0 + minimum)
    assert certificate.gap >= certificate.primal - minimum - 1e-7 * (1.0 + minimum)


@pytest.mark.parametrize("layout", ["dense32", "csr32_int64"])
def test_in_single_precision_too_the_bound_lies_below_the_optimum(layout, rng):
    name = "hinge" if layout == "dense32" else "squared_hinge"
    problem, facts = small(name, rng, layout, intercept="regularized")
    minimum = least(facts)
    solver = Pegasos("pegasos")
    state = solver.init(problem, rng)
    for _ in range(20):
        solver.advance(problem, state, 50 * problem.n)
        bound = solver.dual_of_visits(problem, state)
        assert bound <= minimum * (1.0 + 1e-7)
    assert bound >= 0.9 * minimum  # after 1000 epochs it says something


def test_after_whole_epochs_every_example_weighs_the_same(rng):
    problem, _ = small("hinge", rng)
    solver, n = Pegasos("pegasos"), problem.n
    state = solver.init(problem, rng)
    for epoch in range(5):
        solver.advance(problem, state, 1)  # one example has a visit more than others
        assert n * state.dual.most == pytest.approx((epoch + 1) * n / (epoch * n + 1), rel=1e-12)
        solver.advance(problem, state, n - 1)
        assert n * state.dual.most == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_gap_is_told_of_visits_that_make_a_dual_point_only(intercept, sampling, rng):
    problem, _ = small("hinge", rng, intercept=intercept)
    solver = Pegasos("pegasos", sampling=sampling)
    state = advanced(solver, problem, rng.integers(2**32), 40)
    known = sampling != "iid" and intercept in CHARGED
    assert ("gap" in solver.evaluate(problem, state, solver.model(problem, state))) == known
    if not known:
        assert solver.certificate(problem, state) == problem.certificate(*solver.weights(problem, state))

    # neither weights from elsewhere nor visits of another problem are of such visits
    started = solver.init(problem, rng, solver.model(problem, state))
    solver.bind(problem, state)
    for other in (started, state):
        solver.advance(problem, other, 40)
        assert math.isnan(solver.dual_of_visits(problem, other))


def test_a_state_of_an_older_file_goes_on_without_a_gap(rng):
    problem, _ = small("ovr_hinge", rng)
    solver = Pegasos("pegasos")
    state = advanced(solver, problem, rng.integers(2**32), 20)
    older = type(state)(**{name: part for name, part in vars(state).items() if name != "dual"})
    solver.advance(problem, older, 20)
    solver.advance(problem, state, 20)
    np.testing.assert_array_equal(state.w.V, older.w.V)
    assert math.isnan(solver.dual_of_visits(problem, older))
    assert not math.isnan(solver.dual_of_visits(problem, state))


# ---------------------------------------------------------------- structured outputs


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("projection", [False, True])
def test_an_argmax_over_classes_gives_the_multiclass_hinge(k, projection, rng):
    problem, facts = small("multiclass_hinge", rng)
    X, y, cost = facts["X"], facts["y"].astype(int), facts["target"].cost

    def oracle(w, x, own):
        scores = w.reshape(problem.d, 3).T @ x
        worst = int(np.argmax(cost[:, own] + scores - scores[own]))
        difference = np.zeros((problem.d, 3))
        difference[:, own] += x
        difference[:, worst] -= x
        return difference.ravel(), cost[worst, own]

    structured = StructuredProblem(list(zip(X, y, strict=True)), oracle, problem.d * 3, problem.lam)
    seed = rng.integers(2**32)
    for average, sampling in zip(AVERAGES, ("iid", "permutation", "fixed", "iid"), strict=True):
        solver = Pegasos("pegasos", average, sampling, k, projection)
        W, b = solver.weights(problem, advanced(solver, problem, seed, 60))
        w, _ = solver.weights(structured, advanced(solver, structured, seed, 60))
        assert_close(w[:, 0].reshape(problem.d, 3), W, 1.0 + np.abs(W).max(), TIGHT)
        assert structured.primal(w, b[:1]) == pytest.approx(problem.primal(W, b), rel=1e-9)
    assert solver.certificate(structured, solver.init(structured, rng)) is None


# ---------------------------------------------------------------- Bottou's first step


def found_eta0(X, problem, factor, seed):
    """(η₀, scores) after an epoch on the data times a factor, with λ so that nothing else changes."""
    scaled = Problem(as_rows(factor * X), problem.y, problem.target, factor**2 * problem.lam, problem.sample_weight)
    solver = Pegasos(Bottou(), "weighted")
    state = advanced(solver, scaled, seed, problem.n)
    return state.eta0, factor * X @ solver.weights(scaled, state)[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["hinge", "log"])
def test_the_search_for_eta0_does_not_depend_on_the_scale_of_the_data(name, weighted, rng):
    problem, facts = small(name, rng, weighted=weighted, lam=1e-3, n=40)
    seed = rng.integers(2**32)
    eta0, scores = found_eta0(facts["X"], problem, 1.0, seed)
    assert 0.0 < eta0 <= 1.0 / problem.lam
    for factor in (2.0**20, 2.0**-20):  # powers of two scale without rounding
        scaled_eta0, scaled_scores = found_eta0(facts["X"], problem, factor, seed)
        assert scaled_eta0 == eta0 / factor**2
        np.testing.assert_array_equal(scaled_scores, scores)
    # other factors round, by 1e-16 a step; only a trial that ends in a tie to 1e-15 could choose another η₀
    scaled_eta0, scaled_scores = found_eta0(facts["X"], problem, 37.0, seed)
    assert scaled_eta0 == pytest.approx(eta0 / 37.0**2, rel=1e-9)
    assert_close(scaled_scores, scores, np.abs(scores).max(), TIGHT)


def test_eta0_is_the_best_that_was_tried_and_at_most_the_inverse_of_lambda(rng, monkeypatch):
    tried = {}
    take = Pegasos._advance

    def noted(self, problem, state, n_steps):
        take(self, problem, state, n_steps)
        tried[state.eta0] = problem.primal(*self._weights(state, "none"))

    monkeypatch.setattr(Pegasos, "_advance", noted)
    for lam in (1e-6, 1e-2, 1.0, 1e4):
        problem, _ = small("hinge", rng, lam=lam)
        tried.clear()
        state = Pegasos(Bottou(), "none").init(problem, np.random.default_rng(rng.integers(2**32)))
        best = min(tried, key=tried.get)
        assert state.eta0 == min(best, 1.0 / lam)
        assert best / 2.0 in tried
        assert best * 2.0 in tried or best * 2.0 > 1.0 / lam
        # the trials leave no trace
        assert state.t == state.counters.visits == 0
        assert not state.w.V.any()


# ---------------------------------------------------------------- odd inputs


def odd_rows(kind, rng):
    """Rows that have made solvers fail."""
    X = rng.normal(size=(2 if kind == "two examples" else 12, 200 if kind == "many features" else 4))
    if kind == "zero rows":
        X[1::2] = 0.0
    elif kind == "nothing but zeros":
        X[:] = 0.0
    elif kind == "a constant feature":
        X[:, 0] = 7.0
    elif kind in ("huge", "tiny"):
        X *= 1e30 if kind == "huge" else 1e-30
    elif kind == "huge and tiny":
        X *= np.array([1e30, 1.0, 1e-30, 1e-15])
    return X


ODD = (
    "zero rows",
    "nothing but zeros",
    "a constant feature",
    "two examples",
    "many features",
    "huge",
    "tiny",
    "huge and tiny",
)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "log"])
def test_odd_rows_are_handled_as_the_textbook_handles_them(name, kind, rng):
    X = odd_rows(kind, rng)
    y = np.where(np.arange(len(X)) % 2, 1.0, -1.0)
    intercepts = ("none", "regularized", "unregularized", *(("exact",) if name in EXACT else ()))
    for step, intercept, projection in product(("pegasos", "bottou"), intercepts, (False, True)):
        lam = rng.uniform(0.05, 0.2)
        problem = Problem(as_rows(X), y, losses.Single(textbook.BINARY[name]), lam, intercept=intercept)
        solver = Recorded(step, "weighted", batch_size=2, projection=projection)
        state = advanced(solver, problem, rng.integers(2**32), 50)
        W, b = solver.weights(problem, state)
        assert np.isfinite(W).all()
        assert np.isfinite(b).all()
        assert math.isfinite(problem.primal(W, b))
        assert problem.certificate(W, b).gap >= -1e-9 * problem.primal(W, b)
        solver.step = Bottou(state.eta0) if step == "bottou" else InverseTime()
        if intercept == "exact" and "huge" in kind:
            continue  # break points y − z of size 1e60 do not show y: every b there is as good as the other
        iterates = textbook_iterates(solver, arguments(problem, X))
        # w is a combination of rows: rounding is measured against the largest coefficient times the feature
        sizes = np.abs(X).max(axis=0)[:, None]
        sizes = sizes * max(np.max(np.abs(W) / np.maximum(sizes, 1e-300)) for W, _ in iterates)
        last = solver._weights(state, "none")[0]
        assert (np.abs(last - iterates[-1][0]) <= TIGHT * sizes).all(), (step, intercept, projection)


@pytest.mark.parametrize(
    ("name", "intercept"),
    [
        *product(["squared_hinge", "squared_epsilon"], ["none", "regularized", "unregularized"]),
        ("squared_hinge", "exact"),
    ],
)
def test_squared_losses_stay_finite_under_a_tiny_lambda(name, intercept, rng):
    problem, _ = small(name, rng, lam=1e-12, intercept=intercept, weighted=True, n=40, zeros=0.0)
    start = problem.primal(np.zeros((problem.d, 1)), np.zeros(1))
    for step, k in product(("pegasos", "norma", "bottou", Constant(1e6)), (1, 4)):
        solver = Pegasos(step, "uniform", batch_size=k)
        W, b = solver.weights(problem, advanced(solver, problem, rng.integers(2**32), 2000))
        # a capped step comes no farther from any point that fits its batch
        assert problem.primal(W, b) <= 1e4 * start, (step, k)


def test_the_cap_of_squared_losses_counts_the_weight_of_the_positive_class(rng, monkeypatch):
    monkeypatch.setattr(steps, "borrow", lambda arrays: arrays)
    monkeypatch.setattr(steps, "take_steps", steps.take_steps.py_func)  # for some steps compiling does not pay
    # x₁ is in the class that weighs 100; the other two are close to it but not to each other. A step on x₁ that
    # overshoots a hundredfold and the two corrections leave it on the wrong side, twelve times farther away.
    X = np.array([[1.0, 0.0], [0.9, math.sqrt(0.19)], [0.9, -math.sqrt(0.19)]])
    target = losses.OneVsRest(losses.SquaredHinge(), np.array([100.0, 1.0]))
    problem = Problem(as_rows(X), np.array([0.0, 1.0, 1.0]), target, 1e-9, n_outputs=2)
    facts = {name: value for name, value in arguments(problem, X).items() if name != "outputs"}
    solver = Pegasos("pegasos", "none", "fixed")
    W, b = solver.weights(problem, advanced(solver, problem, rng.integers(2**32), 600))
    start = textbook.objective(W=np.zeros((2, 2)), b=np.zeros(2), **facts)
    assert textbook.objective(W=W, b=b, **facts) <= 1e4 * start


@pytest.mark.parametrize("intercept", ["none", "regularized", "unregularized"])
def test_the_cap_of_squared_losses_counts_the_bias(intercept, rng):
    """Under a tiny λ the first step is as long as the curvature of its example allows: to the margin, not beyond."""
    x, y = rng.normal(size=(1, 3)), rng.choice([-1.0, 1.0], 1)
    problem = Problem(as_rows(x), y, losses.Single(losses.SquaredHinge()), 1e-9, intercept=intercept)
    solver = Pegasos("pegasos", "none", "fixed")
    W, b = solver.weights(problem, advanced(solver, problem, rng.integers(2**32), 1))
    assert y[0] * (x @ W + b)[0, 0] == pytest.approx(1.0, rel=1e-6)


def test_the_objective_does_not_depend_on_how_the_weights_lie_in_memory(rng):
    problem, _ = small("hinge", rng)
    W = rng.normal(size=(problem.d, 3))[:, 1:2]
    assert problem.primal(W, np.zeros(1)) == pytest.approx(problem.primal(W.copy(), np.zeros(1)), rel=1e-12)
