"""The Stochastic Batch Perceptron against the textbook on the same draws, its averages, counters, states and C-form."""

import itertools
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from reference import sbp as textbook
from reference import water_level
from widemargin import SMO, StochasticBatchPerceptron
from widemargin.core.kernels.kernels import RBF, Linear
from widemargin.core.losses.losses import Hinge, Single, SquaredHinge
from widemargin.core.losses.water_level import draw, pour, room
from widemargin.core.rows.rows import as_rows
from widemargin.problems.kernel import KernelProblem
from widemargin.running import load_state, run, save_state
from widemargin.solvers.sbp import sbp
from widemargin.solvers.smo import dual, smo

INTERCEPTS = ["unregularized", "regularized", "none"]


def make(rng, n=60, *, intercept="none", C=1.0, kernel=None, outputs=1, **options):
    X = rng.normal(size=(n, 3)).astype(np.float32)
    signs = np.where(X @ rng.normal(size=(3, outputs)) + 0.5 * rng.normal(size=(n, outputs)) > 0.3, 1.0, -1.0).T
    signs[:, 0], signs[:, 1] = 1.0, -1.0
    y = np.ascontiguousarray(signs if outputs > 1 else signs[0])
    kernel = RBF(0.5) if kernel is None else kernel
    return KernelProblem(kernel, as_rows(X), y, Single(Hinge()), 1.0 / (C * n), intercept=intercept, **options)


def gram(problem):
    everything = np.arange(problem.n)
    return problem.matrix(everything, everything).block(everything).astype(np.float64) + problem.constant


def drawn_steps(solver, problem, rng, steps):
    """(state, the batches drawn, the iterates)."""
    state = solver.init(problem, rng)
    batches, iterates = [], []
    for _ in range(steps):
        assert solver.advance(problem, state, 1) == 1
        batches.append(state.drawn.copy())
        iterates.append((state.scale[:, None] * state.alpha, state.scale[:, None] * state.f))
    return state, batches, iterates


# ---------------------------------------------------------------- Algorithm 1


@pytest.mark.parametrize("batch_size", [1, 6, 7])
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("nu", [0.0, 0.01, 0.3])
def test_iterates_are_those_of_the_textbook_on_the_same_draws(batch_size, intercept, nu, rng):
    problem = make(rng, intercept=intercept, kernel=Linear())
    solver = StochasticBatchPerceptron(nu=nu, batch_size=batch_size, average="uniform")
    _, batches, ours = drawn_steps(solver, problem, rng, 70)
    expected = textbook.iterates(
        gram(problem), problem.y, nu, [batch[0] for batch in batches], intercept == "unregularized"
    )
    for (alpha, f), (alpha_expected, c_expected) in zip(ours, expected):
        # rows are the same float32 numbers here and there
        np.testing.assert_allclose(alpha[0], alpha_expected, atol=1e-9)
        np.testing.assert_allclose(problem.y * f[0], c_expected, atol=1e-7)


@pytest.mark.parametrize("average", ["uniform", "t", "suffix"])
def test_lazy_averages_are_the_averages_of_the_iterates(average, rng):
    problem = make(rng, kernel=Linear())
    solver = StochasticBatchPerceptron(nu=0.01, batch_size=4, average=average)
    state, _, iterates = drawn_steps(solver, problem, rng, 100)
    t = np.arange(1, 101)
    weights = {"uniform": np.ones(100), "t": t, "suffix": t > 32}[average]  # two powers of 2 back from 100 is 32
    for k, mean in enumerate(solver.averages(state)):
        expected = np.average([iterate[k] for iterate in iterates], axis=0, weights=weights)
        np.testing.assert_allclose(mean, expected, atol=1e-9 * np.abs(expected).max())


def test_a_batch_with_a_free_bias_is_drawn_half_from_each_class(rng):
    problem = make(rng, intercept="unregularized")
    _, batches, iterates = drawn_steps(StochasticBatchPerceptron(nu=0.05, batch_size=8), problem, rng, 20)
    for batch in batches:
        assert problem.y[batch[0]].sum() == 0.0
    assert abs(problem.y @ iterates[-1][0][0]) <= 1e-12


def test_the_odd_one_of_a_batch_with_a_free_bias_is_of_either_class_as_often(rng):
    problem = make(rng, intercept="unregularized")
    _, batches, _ = drawn_steps(StochasticBatchPerceptron(nu=0.05, batch_size=3), problem, rng, 400)
    positive = np.array([np.sum(problem.y[batch[0]] > 0) for batch in batches])
    assert set(positive.tolist()) == {1, 2}
    # six standard deviations of 400 tosses of a coin
    assert abs(np.sum(positive == 2) - 200) <= 60


def test_the_model_is_the_average_over_its_water_level(rng):
    problem = make(rng, intercept="unregularized")
    solver = StochasticBatchPerceptron(nu=0.2, batch_size=4)
    state, _, _ = drawn_steps(solver, problem, rng, 64)
    alpha, f = solver.averages(state)
    level = water_level.by_sorting_with_bias(problem.y * f[0], problem.y, problem.n * 0.2)
    assert level > 0.0
    model = solver.model(problem, state)
    np.testing.assert_allclose(model.coef[0], (problem.y * alpha[0] / level)[model.support], rtol=1e-9)
    # Lemma 2.1's reading of the level: the mean hinge of the predictor is nν/(nγ)
    margins = problem.y * model.decision_function(problem.X)[:, 0]
    assert np.mean(np.maximum(0.0, 1.0 - margins)) == pytest.approx(0.2 / level, rel=1e-4)


def test_a_level_below_zero_never_turns_the_classifier_round(rng):
    """Contradictory labels at ν = 0: no margin is positive, and the predictor points along w̄ all the same."""
    problem = make(rng)
    problem = replace(problem, y=rng.choice([-1.0, 1.0], problem.n))
    problem.y[:2] = 1.0, -1.0
    problem.X.values[1] = problem.X.values[0]
    solver = StochasticBatchPerceptron(nu=0.0, batch_size=4)
    state, _, _ = drawn_steps(solver, problem, rng, 40)
    alpha, f, _, level = solver.predictor(problem, state)
    assert level[0] <= 0.0
    assert alpha.min() >= 0.0
    row = solver.evaluate(problem, state, None)
    assert row["objective"] <= 1.0 + 1e-9  # w = 0 is on the ray
    for multiple in (0.9, 1.1):
        margins = problem.y * f[0] * multiple
        norm2 = multiple**2 * float(alpha[0] @ (problem.y * f[0]))
        value = 0.5 * problem.lam * norm2 + np.mean(np.maximum(0.0, 1.0 - margins))
        assert row["objective"] <= value + 1e-9


# ---------------------------------------------------------------- several binary problems, weights


def test_binary_problems_trained_together_are_those_trained_alone(rng):
    """Draws differ, but each problem's iterates are the textbook's on its own draws."""
    problem = make(rng, outputs=3, kernel=Linear())
    state, batches, iterates = drawn_steps(StochasticBatchPerceptron(nu=0.05, batch_size=4), problem, rng, 30)
    for q in range(3):
        expected = textbook.iterates(gram(problem), problem.y[q], 0.05, [batch[q] for batch in batches])
        np.testing.assert_allclose(iterates[-1][0][q], expected[-1][0], atol=1e-9)
    assert state.counters.kernel_computed <= problem.n * (problem.n + 1)  # each row once, and the diagonal


@pytest.mark.parametrize("intercept", ["unregularized", "none"])
def test_a_weight_of_two_is_the_example_twice(intercept, rng):
    """The level, b and p* of a step are optimal where an example of weight 2 stands twice with weight 1.

    b: with it, one basin has the same level. p*, from the points that numbers evenly over [0, 1) draw: half of it on
    each class, and no slack gains against it, Σ pc + V max p = level, p being over the examples that stand twice.
    """
    problem = make(rng, intercept=intercept)
    doubled = rng.integers(1, 3, problem.n)
    twice = np.repeat(np.arange(problem.n), doubled)
    problem = replace(problem, sample_weight=doubled.astype(float))
    free, volume, many = intercept == "unregularized", problem.n * 0.1, 200_000
    solver = StochasticBatchPerceptron(nu=0.1, batch_size=2)
    state, _, iterates = drawn_steps(solver, problem, rng, 50)
    before, y = iterates[-2][1][0], problem.y
    c = (y * before)[twice]
    level = water_level.by_sorting_with_bias(c, y[twice], volume) if free else water_level.by_sorting(c, volume)
    assert state.level[0] == pytest.approx(level, abs=1e-9)
    assert water_level.by_sorting(c + state.bias[0] * y[twice], volume) == pytest.approx(level, abs=1e-9)
    space, window = room(problem.n), np.array([0.0, 0.0, np.inf])
    pour(before, y, problem.sample_weight, volume, free, window, space)
    p, drawn = np.zeros(problem.n), np.empty(many, np.int64)
    for basin in range(2 if free else 1):
        draw(before, y, problem.sample_weight, free, space, basin, (np.arange(many) + 0.5) / many, drawn)
        p += np.bincount(drawn, minlength=problem.n) / many * (0.5 if free else 1.0)
    each = (p / doubled)[twice]
    assert each @ c + volume * each.max() == pytest.approx(level, abs=1e-3)  # drawn to 1/many, times c and V
    if free:
        assert p[y > 0].sum() == pytest.approx(0.5)


# ---------------------------------------------------------------- counters, caches, states


@pytest.mark.parametrize("rows", [20, 1000])
def test_kernel_values_are_counted_exactly(rows, rng, matrices):
    problem = make(rng, 400, cache_bytes=4 * 400 * rows)
    solver = StochasticBatchPerceptron(nu=0.05, batch_size=8)
    state = solver.init(problem, rng)
    fetched = 0
    for _ in range(50):
        solver.advance(problem, state, 1)
        fetched += np.unique(state.drawn).size
    assert state.counters.kernel_computed == sum(matrix.evaluations for matrix in matrices)
    assert state.counters.visits == 50 * 8
    # a row was computed or was there
    assert state.counters.kernel_evals == fetched * problem.n


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_cache_and_threads_change_no_bit(intercept, rng):
    seed, found = int(rng.integers(2**32)), []
    for rows, threads in ((20, 1), (400, 1), (400, 2)):
        problem = make(np.random.default_rng(seed), 300, intercept=intercept, cache_bytes=1200 * rows, threads=threads)
        solver = StochasticBatchPerceptron(nu=0.02, batch_size=8)
        state = solver.init(problem, np.random.default_rng(seed))
        for _ in range(40):
            solver.advance(problem, state, 1)
        found.append((state.alpha.tobytes(), state.f.tobytes(), state.f_sum.tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("nu", [None, 0.01])
@pytest.mark.parametrize("average", ["suffix", "t"])
def test_a_saved_state_goes_on_as_if_nothing_had_happened(nu, average, rng, tmp_path):
    problem, seed = make(rng, 450, intercept="unregularized"), int(rng.integers(2**32))
    solver = StochasticBatchPerceptron(nu=nu, average=average, batch_size=4)

    def advance(state, steps):
        while steps > 0:
            steps -= solver.advance(problem, state, steps)

    whole, halted = (solver.init(problem, np.random.default_rng(seed)) for _ in range(2))
    for half in (9, 20):  # 23 steps draw a fifth of the examples: the second half ends with SMO at work
        advance(whole, half)
        advance(halted, half)
        save_state(tmp_path / "state.npz", halted)
        halted = load_state(tmp_path / "state.npz")
    assert (halted.polish is not None) == (nu is None)
    advance(whole, 5)
    advance(halted, 5)
    models = solver.model(problem, whole), solver.model(problem, halted)
    assert models[0].coef.tobytes() == models[1].coef.tobytes()
    assert models[0].intercept == models[1].intercept
    assert whole.alpha.tobytes() == halted.alpha.tobytes()


def test_steps_may_be_asked_for_in_any_portions(rng):
    problem, seed = make(rng, 200), int(rng.integers(2**32))
    solver = StochasticBatchPerceptron(nu=0.01, batch_size=4)
    states = [solver.init(problem, np.random.default_rng(seed)) for _ in range(2)]
    assert solver.advance(problem, states[0], 1000) == 32  # where the first checkpoint stands
    for portion in (5, 20, 7):
        solver.advance(problem, states[1], portion)
    assert states[0].alpha.tobytes() == states[1].alpha.tobytes()
    assert states[0].window.tobytes() == states[1].window.tobytes()


# ---------------------------------------------------------------- the C-form


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_without_nu_the_optimum_of_the_c_form_is_reached(intercept, rng):
    problem = make(rng, 600, intercept=intercept, C=2.0)
    outcome = run(StochasticBatchPerceptron(tol=1e-4), problem, rng=rng, tol=1e-4, max_epochs=1000)
    exact = run(SMO(tol=1e-6), problem, rng=rng, tol=1e-6, max_epochs=10000)
    assert outcome.stop_reason == "tol"
    assert outcome.objective <= exact.objective * (1.0 + 1e-4)


def test_every_checkpoint_has_a_certificate_that_holds(rng):
    problem = make(rng, 600, intercept="unregularized", C=2.0)
    exact = run(SMO(tol=1e-6), problem, rng=rng, tol=1e-6, max_epochs=10000)
    optimum = exact.objective
    outcome = run(StochasticBatchPerceptron(batch_size=1), problem, rng=rng, tol=1e-4, max_epochs=1000)
    objective, gap = outcome.history["objective"], outcome.history["gap"]
    assert np.all(objective >= optimum * (1.0 - 1e-5))
    assert np.all(objective - gap <= optimum * (1.0 + 1e-5))


def test_the_model_never_gets_worse_when_smo_takes_over(rng):
    problem = make(rng, 600, intercept="unregularized")
    solver = StochasticBatchPerceptron()
    state = solver.init(problem, rng)
    while state.polish is None:
        solver.advance(problem, state, 1)
    for _ in range(3):
        model = solver.model(problem, state)
        margins = problem.y * model.decision_function(problem.X)[:, 0]
        norm2 = float(model.coef[0] @ gram(problem)[np.ix_(model.support, model.support)] @ model.coef[0])
        value = 0.5 * problem.lam * norm2 + float(np.mean(np.maximum(0.0, 1.0 - margins)))
        assert value <= state.reached * (1.0 + 1e-5)
        solver.advance(problem, state, 1)


def test_what_sbp_cannot_solve_is_refused_in_a_sentence(rng):
    problem = make(rng)
    for name, value, said in [
        ("nu", -1.0, "nu must be a number ≥ 0, got -1.0"),
        ("batch_size", 0, "batch_size must be an integer ≥ 1, got 0"),
        ("average", "none", "average must be 'suffix', 't' or 'uniform', got 'none'"),
        ("step", 0.0, "step must be a number > 0, got 0.0"),
    ]:
        with pytest.raises(ValueError, match=said):
            StochasticBatchPerceptron(**{name: value}).init(problem, rng)
    with pytest.raises(ValueError, match="solves the hinge loss, got SquaredHinge: use SMO"):
        StochasticBatchPerceptron().init(replace(problem, target=Single(SquaredHinge())), rng)


def test_the_handover_does_not_depend_on_the_portions(rng):
    problem, seed = make(rng, 640, intercept="unregularized"), int(rng.integers(2**32))
    solver = StochasticBatchPerceptron()
    states = [solver.init(problem, np.random.default_rng(seed)) for _ in range(2)]
    while states[0].polish is None:
        solver.advance(problem, states[0], 1000)
    while states[1].polish is None:
        solver.advance(problem, states[1], int(rng.integers(1, 4)))
    assert states[0].t == states[1].t
    assert states[0].polish.alpha.tobytes() == states[1].polish.alpha.tobytes()
    assert states[0].polish.f.tobytes() == states[1].polish.f.tobytes()


# ---------------------------------------------------------------- ν from a sample


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_search_for_nu_may_be_stopped_and_saved_anywhere(outputs, rng, tmp_path):
    """One round at a time, each from a file, ends with the bits of one long call; values are counted exactly."""
    problem, seed = make(rng, 4200, outputs=outputs, intercept="unregularized"), int(rng.integers(2**32))
    solver = StochasticBatchPerceptron()
    whole, halted = (solver.init(problem, np.random.default_rng(seed)) for _ in range(2))
    while whole.t < 2:
        solver.advance(problem, whole, 2 - whole.t)
    rounds = 0
    while halted.t < 2:
        if rounds % 7 == 0:
            model = solver.model(problem, halted)  # there is one at any time
            assert np.isfinite(model.decision_function(problem.rows(np.arange(5)))).all()
            save_state(tmp_path / "state.npz", halted)
            halted = load_state(tmp_path / "state.npz")
        solver.advance(problem, halted, 1)
        rounds += 1
    assert rounds > 2 + outputs
    assert whole.sought == halted.sought == outputs
    assert whole.nu.tobytes() == halted.nu.tobytes()
    assert whole.alpha.tobytes() == halted.alpha.tobytes()
    assert whole.rng.random() == halted.rng.random()


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_nu_is_the_geometric_mean_of_the_hinges_in_and_out_of_the_sample_over_the_norm(
    intercept, goes_on, rng, monkeypatch
):
    """Out of the sample are all other examples, or as many as there are in it where their responses are not needed."""
    solver, start, seen = StochasticBatchPerceptron(), StochasticBatchPerceptron._start, []

    def watched(self, problem, state, sample, trial):
        others = np.setdiff1d(np.arange(problem.n), sample.chosen) if goes_on else sample.others
        seen.append((sample.rows, others, trial.alpha.copy(), trial.bias))
        return start(self, problem, state, sample, trial) if goes_on else None

    monkeypatch.setattr(StochasticBatchPerceptron, "_start", watched)
    for _ in range(10):
        problem = make(rng, 1200, intercept=intercept)
        state = solver.init(problem, rng)
        while state.sought == 0:
            solver.advance(problem, state, 1)
        chosen, others, alpha, bias = seen.pop()
        assert seen == []
        assert np.intersect1d(chosen, others).size == 0
        assert chosen.size == 500
        assert others.size == (700 if goes_on else 500)
        y, K = problem.y, gram(problem)
        beta = np.zeros(problem.n)
        beta[chosen] = y[chosen] * alpha
        f = K @ beta + bias
        inside, outside = (np.mean(np.maximum(0.0, 1.0 - y[rows] * f[rows])) for rows in (chosen, others))
        assert state.nu[0] == pytest.approx(np.sqrt(inside * outside / (beta @ K @ beta)), rel=1e-4)
        if inside != pytest.approx(outside, rel=1e-3):  # else either alone would have passed
            return
    pytest.fail("both hinges are the same in every sample")


def test_each_class_has_the_nu_of_its_own_sample_and_labels(rng, monkeypatch):
    solver, hinge_of, last = StochasticBatchPerceptron(), StochasticBatchPerceptron._loss_elsewhere, {}

    def watched(self, problem, state, sample, trial):
        last[state.sought] = sample.rows, sample.others, trial.alpha.copy(), trial.bias
        return hinge_of(self, problem, state, sample, trial)

    monkeypatch.setattr(StochasticBatchPerceptron, "_loss_elsewhere", watched)
    problem = make(rng, 1200, outputs=3, intercept="unregularized")
    state = solver.init(problem, rng)
    while state.sought < 3:
        solver.advance(problem, state, 1)
    K = gram(problem)
    for q, (chosen, others, alpha, bias) in last.items():
        y, beta = problem.signs[q], np.zeros(problem.n)
        beta[chosen] = y[chosen] * alpha
        f = K @ beta + bias
        inside, outside = (np.mean(np.maximum(0.0, 1.0 - y[rows] * f[rows])) for rows in (chosen, others))
        assert state.nu[q] == pytest.approx(np.sqrt(inside * outside / (beta @ K @ beta)), rel=1e-4)
    assert last.keys() == {0, 1, 2}


def test_a_hinge_that_rounding_has_made_negative_is_none(rng):
    """It comes as the difference of two sums."""
    solver, problem = StochasticBatchPerceptron(), make(rng)
    state = solver.init(problem, rng)
    solver._set_nu(state, 1.0, 0.1, -1e-12)
    assert state.nu[0] == 0.0
    assert state.sought == 1


def test_each_class_that_has_weight_is_in_the_sample(rng):
    for _ in range(20):
        problem = make(rng, 200, outputs=3)
        problem = replace(problem, sample_weight=rng.uniform(0.5, 1.0, 200) * (rng.random(200) < 0.05))
        order = StochasticBatchPerceptron._classes_first(problem, rng.permutation(200), 20)
        np.testing.assert_array_equal(np.sort(order), np.arange(200))
        for y, sign in itertools.product(problem.signs, (-1.0, 1.0)):
            own = (y == sign) & (problem.sample_weight > 0.0)
            assert own[order[:20]].any() == own.any()


def test_values_of_the_sample_are_counted(rng, matrices):
    problem = make(rng, 3000)
    solver = StochasticBatchPerceptron()
    state = solver.init(problem, rng)
    while state.polish is None:  # its own rows, those over all examples, and those of the draws
        solver.advance(problem, state, 3)
        assert state.counters.kernel_computed == sum(matrix.evaluations for matrix in matrices)


def test_a_run_can_stop_while_nu_is_sought(rng):
    problem = make(rng, 5000, intercept="unregularized")
    seen = []
    outcome = run(StochasticBatchPerceptron(), problem, rng=rng, max_seconds=1e-9, on_slice=seen.append)
    assert outcome.stop_reason == "max_seconds"
    assert len(seen) == 1
    # the best multiple of the first step's w, with its best bias, is no worse than w = 0
    assert outcome.objective <= 1.0 + 1e-6


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_class_alone_is_solved_without_a_bias(sign, rng):
    problem = make(rng, 300, C=2.0)
    problem.y[:] = sign
    outcome = run(StochasticBatchPerceptron(tol=1e-4), problem, rng=rng, tol=1e-4, max_epochs=1000)
    assert outcome.stop_reason == "tol"
    assert np.all(outcome.model.coef * sign >= 0.0)


@pytest.mark.parametrize("average", ["t", "suffix", "uniform"])
def test_a_run_again_starts_from_the_average(average, rng):
    problem = make(rng, 200)
    solver = StochasticBatchPerceptron(nu=0.05, average=average)
    earlier, _, _ = drawn_steps(solver, problem, rng, 32)
    again = solver.again(problem, rng, earlier)
    for mean, start in zip(solver.averages(again), solver.averages(earlier)):
        np.testing.assert_array_equal(mean, start)
    assert again.t == 8
    assert np.isfinite(solver.certificate(problem, again).primal)
    solver.advance(problem, again, 1)  # then the average is that of its own iterates
    np.testing.assert_allclose(solver.averages(again)[0], again.scale[:, None] * again.alpha, atol=1e-12)


@pytest.mark.parametrize("intercept", ["unregularized", "none"])
def test_a_step_makes_at_most_three_passes_over_the_examples(intercept, rng):
    """Beside computing kernel rows, in the mean, adding the rows included, where no class is covered whole: no window
    then says that nothing of the class is above, and each level is found among all examples.
    """
    problem = make(rng, 3000, intercept=intercept)
    score = problem.X.values @ rng.normal(size=3) + 0.5 * rng.normal(size=3000)
    problem = replace(problem, y=np.where(score > np.median(score), 1.0, -1.0))
    solver = StochasticBatchPerceptron(nu=0.05)
    state = solver.init(problem, rng)
    while state.t < 256:
        solver.advance(problem, state, 256 - state.t)
    assert state.passes <= 3 * 256


def test_dual_variables_of_the_average_lie_in_the_box(rng):
    """The Perceptron's coefficients know no C: a few draws that stand for all examples must be made smaller."""
    X = rng.normal(size=(600, 3))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=600) > 0.0, 1.0, -1.0)
    problem = KernelProblem(RBF(0.5), as_rows(X), y, Single(Hinge()), 1.0 / (0.05 * 600), intercept="none")
    solver = StochasticBatchPerceptron(batch_size=1)
    state = solver.init(problem, rng)
    while state.t < 4:
        solver.advance(problem, state, 1)
    assert state.polish is None
    largest = np.abs(solver.predictor(problem, state)[0]).max()  # above 0.05 for nearly all seeds
    assert np.abs(solver.duals(problem, state)).max() == pytest.approx(min(largest, 0.05), rel=1e-9)


def handed_over(problem, rng):
    """The solver, a state right after SMO took over, and the one before the step that did it."""
    solver = StochasticBatchPerceptron()
    state = solver.init(problem, rng)
    while state.polish is None:
        before = deepcopy(state)
        solver.advance(problem, state, 1)
    return solver, state, before


def many(rng, C, n=3000, noise=0.0):
    X = rng.normal(size=(n, 20))
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return KernelProblem(RBF(0.05), as_rows(X), y, Single(Hinge()), 1.0 / (C * n), intercept="unregularized")


@pytest.mark.parametrize("C", [0.02, 1.0, 1000.0])
def test_smo_takes_over_by_margins_below_one_or_where_the_sample_has_more(C, rng):
    problem = many(rng, C)
    n, y = problem.n, problem.y
    solver, state, before = handed_over(problem, rng)
    draws = state.t * solver.batch_size
    assert draws >= 32  # never at once
    assert solver.evaluate(problem, state, None)["handed_over_after"] == draws
    _, f, bias, _ = solver.predictor(problem, state)
    assert draws >= min(n / 5, state.wet / 4) or state.late
    if state.t & (state.t - 1) == 0:  # when both were looked at
        assert state.wet == np.count_nonzero(y * (f[0] + bias[0]) < 1.0)
        rows, value = np.count_nonzero(before.start.alpha), SMO().certificate(problem, before.start).primal
        assert state.late == ((4 if before.start.narrow else 8) * draws >= rows and state.reached > value)
    assert not before.late
    assert before.t * solver.batch_size < min(n / 5, before.wet / 4)


def test_draws_end_where_the_sample_needed_fewer_rows_for_more(rng):
    """A quarter of the sample's rows, or an eighth where most of its vectors are free: 200 are between them."""
    problem = many(rng, 0.02, noise=0.5)
    solver = StochasticBatchPerceptron()
    state = solver.init(problem, rng)
    while state.t < 2:
        solver.advance(problem, state, 1)
    start = state.start
    start.alpha[:], start.alpha[:200] = 0.0, 1.0
    for better, narrow, late in [(True, False, True), (True, True, False), (False, False, False)]:
        start.point = dual.Point(1.0, 0.0, 0.0 if better else np.inf)
        start.narrow = narrow
        solver._count(problem, state)
        assert state.late == late


def test_a_point_of_smo_that_is_no_better_is_not_the_model(rng, monkeypatch):
    problem = many(rng, 100.0, noise=0.2)
    solver, state, _ = handed_over(problem, rng)
    while not sbp.at_look(state.polish):
        solver.advance(problem, state, 1000)
    primal = state.reached
    worse = {"objective": 2.0 * primal, "gap": primal}, lambda: None
    monkeypatch.setattr(smo.SMO, "glimpse", lambda *_: worse)
    model, (measured, made) = solver.model(problem, state), solver.glimpse(problem, state, np.inf)
    assert measured == {"objective": primal, "gap": 0.0}
    assert solver.evaluate(problem, state, model)["objective"] == primal
    assert value_of(problem, model) == pytest.approx(primal, rel=1e-4)
    np.testing.assert_array_equal(made().coef, model.coef)


@pytest.mark.parametrize("C", [0.02, 1000.0])
def test_smo_goes_on_from_the_samples_solution_and_has_the_rows_of_the_draws(C, rng):
    problem = many(rng, C, noise=0.5)
    _, state, before = handed_over(problem, rng)
    start, polish, y, K = before.start, state.polish, problem.y, gram(problem)
    np.testing.assert_array_equal(polish.alpha, start.alpha)
    # feasible, and its responses are its own
    assert polish.alpha.min() >= 0.0
    assert np.all(polish.alpha <= problem.caps)
    assert abs(y @ polish.alpha) <= 1e-9 * polish.alpha.sum()
    np.testing.assert_allclose(polish.f, K @ (y * polish.alpha), atol=1e-5 * polish.alpha.sum())
    if not polish.narrow:
        drawn = np.flatnonzero(before.alpha[0])
        whole = smo.SMOWorkspace.of(problem, polish).whole
        assert drawn.size > 0
        assert np.all(whole.slot_of[drawn] >= 0)


def test_until_smo_takes_over_the_model_is_the_better_of_the_draws_and_the_samples(rng):
    problem = many(rng, 1.0)
    K, y = gram(problem), problem.y
    _, _, state = handed_over(problem, rng)
    solver = StochasticBatchPerceptron()
    alpha, f, bias, _ = solver.predictor(problem, state)
    own = problem.certificate(problem.signs * alpha, f, bias).primal
    value = min(own, SMO().certificate(problem, state.start).primal)
    model, certificate = solver.model(problem, state), solver.certificate(problem, state)
    margins = y * model.decision_function(problem.X)[:, 0]
    norm2 = float(model.coef[0] @ K[np.ix_(model.support, model.support)] @ model.coef[0])
    assert 0.5 * problem.lam * norm2 + np.mean(np.maximum(0.0, 1.0 - margins)) == pytest.approx(value, rel=1e-4)
    assert certificate.primal == pytest.approx(value, rel=1e-9)


def value_of(problem, model):
    """The objective of a model, by kernel values of its vectors."""
    K = gram(problem)[np.ix_(model.support, model.support)]
    margins = problem.y * model.decision_function(problem.X)[:, 0]
    return 0.5 * problem.lam * float(model.coef[0] @ K @ model.coef[0]) + np.mean(np.maximum(0.0, 1.0 - margins))


def test_while_smo_works_on_all_examples_its_present_point_is_the_model(rng):
    """Checkpoints stand in between, at 8, 10, 12, 14, 16, 20 … rounds. Certificates are those of the model."""
    problem = many(rng, 100.0, noise=0.2)
    optimum = run(SMO(tol=1e-6), problem, rng=rng, tol=1e-6, max_epochs=10000).objective
    solver, state, _ = handed_over(problem, rng)
    seen = []
    while not seen or state.polish.episode is not None:
        solver.advance(problem, state, 1000)
        while state.polish.closing is not None and not solver.at_checkpoint(state):
            solver.advance(problem, state, 1000)
        assert solver.at_checkpoint(state)
        model, (primal, dual, _) = solver.model(problem, state), solver.certificate(problem, state)
        measured = solver.evaluate(problem, state, model)
        assert dual <= optimum * (1.0 + 1e-5) <= primal * (1.0 + 2e-5)
        assert measured["objective"] == primal == pytest.approx(value_of(problem, model), rel=1e-4, abs=1e-7)
        assert measured["handed_over_after"] == state.t * solver.batch_size
        if state.polish.episode is not None:
            assert sbp.is_wide(state.polish)
            seen.append(state.polish.episode.rounds)
        else:
            seen.append(0)
    looks = [power * quarters // 4 for power in 2 ** np.arange(3, 11) for quarters in (4, 5, 6, 7)]
    within = [rounds for rounds in seen if rounds > 0]
    assert within == looks[: len(within)]


def loss_of(problem, scores, norm2):
    """The objective in the λ-form."""
    losses = np.maximum(0.0, 1.0 - problem.y * scores) * (problem.sample_weight if problem.sample_weight.size else 1.0)
    return 0.5 * problem.lam * norm2 + losses.mean()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_samples_solution_keeps_its_bias_and_what_stands_at_a_bound(weighted, rng, monkeypatch):
    """Its bounds are n over its size times those of the problem, which may be another number in the last bit."""
    solver, start, seen = StochasticBatchPerceptron(), StochasticBatchPerceptron._start, []

    def watched(self, problem, state, sample, trial):
        seen.append((sample.part, trial))
        return start(self, problem, state, sample, trial)

    monkeypatch.setattr(StochasticBatchPerceptron, "_start", watched)
    for _ in range(10):
        n, C = int(rng.integers(2000, 4200)), float(10.0 ** rng.uniform(-1.5, 0.0))
        problem = many(rng, C, n, noise=0.5)
        if weighted:
            problem = replace(problem, sample_weight=rng.uniform(0.5, 1.5, n))
        state = solver.init(problem, rng)
        while state.start is None:
            solver.advance(problem, state, 1)
        (part, trial), episode = seen.pop(), state.start.episode
        caps = problem.caps[episode.active] * episode.bound
        np.testing.assert_array_equal(episode.alpha >= caps, trial.alpha >= part.caps)
        bias = dual.free_bias(part.y, part.y - episode.f, caps, episode.alpha)
        assert bias == pytest.approx(trial.bias, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_when_smo_has_taken_over_the_model_is_that_of_the_draws_or_the_samples_whichever_has_the_lower_value(
    weighted, rng
):
    """And the certificate is of it, until SMO has another point than the sample's."""
    solver, seen = StochasticBatchPerceptron(), set()
    for k in range(100):
        problem = many(rng, 1.0, noise=rng.uniform(0.0, 2.0 if k % 2 else 0.3))  # of little noise draws win at times
        if weighted:
            problem = replace(problem, sample_weight=rng.uniform(0.0, 2.0, problem.n))
        _, state, _ = handed_over(problem, rng)
        alpha, f, bias, _ = solver.predictor(problem, state)
        point, at = state.polish.point, state.polish
        both = f[0] + bias[0], point.multiple * at.f + point.bias
        norms = float(alpha[0] @ (problem.y * f[0])), point.multiple**2 * float(at.alpha @ (problem.y * at.f))
        values = [loss_of(problem, scores, norm2) for scores, norm2 in zip(both, norms)]
        if sbp.is_wide(at) or abs(values[0] - values[1]) < 1e-6:
            continue
        chosen = int(values[1] < values[0])
        primal, dual, _ = solver.certificate(problem, state)
        assert primal == pytest.approx(values[chosen], rel=1e-5)
        assert dual <= primal
        measured, made = solver.glimpse(problem, state, np.inf)
        assert measured["objective"] == primal == solver.evaluate(problem, state, None)["objective"]
        for model in (made(), solver.model(problem, state)):
            scores = model.decision_function(problem.X)[:, 0]
            np.testing.assert_allclose(scores, both[chosen], atol=1e-4 * np.abs(both[chosen]).max())
        seen.add(chosen)
        while state.polish.episodes < 2:
            solver.advance(problem, state, 1000)
        primal, others = solver.certificate(problem, state).primal, SMO().certificate(problem, state.polish).primal
        assert primal == pytest.approx(min(values[0], others), rel=1e-5)
        if seen == {0, 1}:
            return
    pytest.fail(f"of draws (0) and the sample's solution (1) the lower value was that of {seen} alone")


def test_the_sample_is_a_small_part_of_many_examples_and_half_of_few():
    for n in (40, 900, 3000, 20_000, 10**6):
        for n_outputs in (1, 3):
            size = sbp.largest_sample(n, n_outputs)
            assert size <= n // 2
            assert size <= max(500, n // 8)
            assert size >= min(n // 2, 500)
        assert size <= 4000  # several classes share its rows
