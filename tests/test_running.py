"""The training loop: checkpoints, clock, stopping, interrupts, resume, and states on disk.

Most tests run a toy whose weights are the number of its steps, so that what comes back says when it was taken.
"""

import math
import signal
import textwrap
import threading
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import fresh
from widemargin.core.kernels.kernels import RBF
from widemargin.core.losses import losses
from widemargin.core.rows.rows import DenseRows, as_rows
from widemargin.files import dump, load
from widemargin.history import Counters, History
from widemargin.models import KernelModel, LinearModel
from widemargin.problems.linear import Problem
from widemargin.running import SLICE, Best, Progress, load_state, run, save_state
from widemargin.solvers.pegasos.pegasos import Bottou, Pegasos, PegasosState
from widemargin.solvers.protocol import Capabilities, Solver
from widemargin.solvers.protocol import State as BaseState
from widemargin.stopping import Patience, reason_to_stop

PER_EPOCH = 10


@dataclass
class ToyState(BaseState):
    counters: Counters = field(default_factory=Counters)


@dataclass
class Toy(Solver):
    """Counts steps, each of which takes ``cost`` seconds of ``clock``; ``during`` is called within each ``advance``."""

    clock: Any = None
    cost: float = 0.0
    compilation: float = 0.0
    during: Any = None
    per_epoch: int = PER_EPOCH
    calls: list[int] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)

    def init(self, problem, rng):
        return ToyState()

    def steps_per_epoch(self, problem):
        return self.per_epoch

    def advance(self, problem, state, n_steps):
        took = self.cost * n_steps if n_steps else self.compilation
        self.calls.append(n_steps)
        if took:
            self.clock.sleep(took)
        state.counters.steps += n_steps
        if n_steps and self.during is not None:
            self.during(state.counters.steps)
        self.durations.append(took)
        return n_steps

    def weights(self, problem, state):
        return np.array([[float(state.counters.steps)]]), np.zeros(1)

    def model(self, problem, state):
        W, b = self.weights(problem, state)
        return LinearModel(W.T, b)

    def evaluate(self, problem, state, model):
        return {"objective": problem.primal(model.coef.T, model.intercept)}


class ToyProblem:
    """Its objective is a function of the number of steps."""

    dtype: ClassVar = np.dtype(float)

    def __init__(self, objective=lambda steps: 1.0 / steps):
        self.objective = objective

    def primal(self, W, b):
        return self.objective(W[0, 0])


class ToyValidation:
    """Its error is a function of the number of steps the model was trained for."""

    def __init__(self, error):
        self.error = error

    def errors(self, model):
        return self.error(model.coef[0, 0])


# ---------------------------------------------------------------- checkpoints and history


def test_checkpoints_stand_at_powers_of_two_and_at_the_end():
    outcome = run(Toy(), ToyProblem(), max_epochs=10)
    np.testing.assert_array_equal(outcome.history["epochs"], [1, 2, 4, 8, 10])
    np.testing.assert_array_equal(outcome.history["steps"], [10, 20, 40, 80, 100])
    np.testing.assert_array_equal(outcome.history["objective"], 1.0 / outcome.history["steps"])
    assert outcome.stop_reason == "max_iter"
    assert outcome.W[0, 0] == 100
    assert outcome.objective == 0.01


@dataclass
class Doubtful(Toy):
    """Knows a better point up to some number of steps."""

    until: float = math.inf

    def doubt(self, problem, state, tol):
        return "a better point is known" if state.counters.steps < self.until else ""


def test_an_objective_that_no_longer_changes_is_no_convergence_where_the_solver_knows_better():
    flat = ToyProblem(lambda steps: 1.0)
    assert run(Toy(), flat, max_epochs=100, tol=0.1).history["epochs"][-1] == 2
    late = run(Doubtful(until=80), flat, max_epochs=100, tol=0.1)
    assert (late.stop_reason, late.history["epochs"][-1], late.doubt) == ("tol", 8, "")
    never = run(Doubtful(), flat, max_epochs=100, tol=0.1)
    assert (never.stop_reason, never.doubt) == ("max_iter", "a better point is known")
    assert run(Doubtful(), flat, max_epochs=100).doubt == ""  # nobody asked


def test_the_objective_of_the_best_model_is_the_one_it_had():
    """Not that of the state, which went on."""

    class OfTheState(Toy):
        def evaluate(self, problem, state, model):
            return {"objective": problem.primal(np.array([[float(state.counters.steps)]]), None)}

    best_at_20 = ToyValidation(lambda steps: abs(steps - 20))
    outcome = run(OfTheState(), ToyProblem(), max_epochs=8, validation=best_at_20, patience=9)
    assert not outcome.is_last
    assert outcome.objective == 1.0 / 20


def test_epochs_may_be_a_fraction_and_never_less_than_a_step():
    np.testing.assert_array_equal(run(Toy(), ToyProblem(), max_epochs=2.5).history["epochs"], [1, 2, 2.5])
    assert run(Toy(), ToyProblem(), max_epochs=1e-9).state.counters.steps == 1


def test_checkpoints_may_be_given_in_steps():
    outcome = run(Toy(), ToyProblem(lambda steps: steps), max_epochs=3, checkpoints=[7, 0, 3, 1000])
    np.testing.assert_array_equal(outcome.history["steps"], [0, 3, 7, 30])


def test_a_history_has_the_columns_users_read():
    outcome = run(Toy(), ToyProblem(), max_epochs=2, validation=ToyValidation(lambda steps: 0.5))
    expected = {
        "seconds",
        "epochs",
        "steps",
        "visits",
        "updates",
        "feature_reads",
        "kernel_evals",
        "kernel_computed",
        "objective",
    }
    assert set(outcome.history.columns) == expected | {"validation_error"}
    assert set(run(Toy(), ToyProblem(), max_epochs=2).history.columns) == expected
    assert np.all(np.diff(outcome.history["seconds"]) >= 0)


def test_a_run_starts_a_state_from_the_given_generator(rng):
    class Drawing(Toy):
        def init(self, problem, rng):
            self.drawn = rng.random()
            return ToyState()

    seed, solver = int(rng.integers(2**31)), Drawing()
    run(solver, ToyProblem(), rng=np.random.default_rng(seed), max_epochs=1)
    assert solver.drawn == np.random.default_rng(seed).random()


def test_slices_add_up_to_the_checkpoints(clock):
    solver = Toy(clock, cost=2e-5, per_epoch=5000)
    outcome = run(solver, ToyProblem(), max_epochs=2)
    assert sum(solver.calls) == outcome.state.counters.steps == 10_000
    assert {5000, 10_000} <= set(np.cumsum(solver.calls).tolist())


def test_slices_are_about_a_tenth_of_a_second_from_the_first(clock):
    """However slow a step is: Ctrl-C, time limits and the progress bar wait for a slice."""
    solver = Toy(clock, cost=1e-3, per_epoch=4000)
    run(solver, ToyProblem(), max_epochs=1, max_seconds=0.5)
    assert len(solver.durations) > 2
    assert max(solver.durations) <= SLICE + solver.cost


def test_no_slice_is_more_than_sixteen_times_the_one_before(clock):
    """Steps that were quick at first may become slow: a slice is not planned from a moment's speed alone."""
    solver = Toy(clock, cost=1e-12, per_epoch=10**9)
    run(solver, ToyProblem(), max_epochs=1)
    calls = np.array(solver.calls[1:])  # the first compiles
    assert calls.size > 2
    assert (calls[1:] <= 16 * calls[:-1]).all()


def test_every_slice_is_reported():
    seen = []
    run(Toy(), ToyProblem(), max_epochs=4, on_slice=lambda progress: seen.append((progress.steps, dict(progress.row))))
    steps = [step for step, _ in seen]
    assert steps == sorted(steps)
    assert {10, 20, 40} <= set(steps)
    assert all(row == {} for _, row in seen)


# ---------------------------------------------------------------- the clock


def test_evaluation_callbacks_and_compilation_are_not_training_time(clock):
    def slow(_):
        clock.sleep(0.1)
        return 1.0

    problem, solver = ToyProblem(slow), Toy(clock, cost=1e-3, compilation=0.2)
    outcome = run(solver, problem, max_epochs=2, callbacks=[lambda progress: clock.sleep(0.1)])
    assert outcome.history["seconds"][-1] == pytest.approx(20 * 1e-3)


def test_max_seconds_stops_promptly_with_a_model(clock):
    began, cost = clock.now, 1e-4
    outcome = run(Toy(clock, cost=cost), ToyProblem(), max_epochs=1e9, max_seconds=0.3)
    elapsed = clock.now - began
    assert outcome.stop_reason == "max_seconds"
    assert 0.3 - cost <= elapsed <= 0.3 + SLICE + cost
    assert outcome.W[0, 0] == outcome.state.counters.steps == outcome.history["steps"][-1] > 0


def test_max_seconds_counts_from_the_time_given(clock):
    outcome = run(Toy(), ToyProblem(), max_epochs=100, max_seconds=10, started=clock.now - 11)
    assert outcome.stop_reason == "max_seconds"
    assert len(outcome.history) == 1


# ---------------------------------------------------------------- stopping


def test_tol_stops_when_the_objective_changes_less_while_the_work_doubles():
    outcome = run(Toy(), ToyProblem(lambda steps: 1.0 + 1.0 / steps), max_epochs=1000, tol=0.01)
    # |1/10·2^(k−1) − 1/10·2^k| = 1/10·2^k ≤ 0.01 (1 + 1/10·2^k) first at k = 4: 16 epochs
    assert outcome.stop_reason == "tol"
    assert outcome.history["epochs"][-1] == 16


def test_tol_is_relative_to_the_objective():
    for scale in (1e-20, 1.0, 1e20):
        outcome = run(Toy(), ToyProblem(lambda s, scale=scale: scale * (1.0 + 1.0 / s)), max_epochs=1000, tol=0.01)
        assert outcome.history["epochs"][-1] == 16


def test_a_tol_of_zero_never_stops():
    outcome = run(Toy(), ToyProblem(lambda steps: 1.0), max_epochs=16, tol=0.0)
    assert outcome.stop_reason == "max_iter"


@pytest.mark.parametrize("answer", [True, np.True_], ids=["True", "np.True_"])
def test_a_callback_that_answers_true_stops_the_run(answer):
    outcome = run(Toy(), ToyProblem(), max_epochs=100, callbacks=[lambda progress: answer])
    assert outcome.stop_reason == "callback"
    assert outcome.history["epochs"][-1] == 1


@pytest.mark.parametrize("answer", [None, False, np.False_, 0])
def test_other_answers_let_it_go_on(answer):
    assert run(Toy(), ToyProblem(), max_epochs=4, callbacks=[lambda progress: answer]).stop_reason == "max_iter"


def test_every_callback_is_called_even_when_one_stops():
    seen = []
    run(Toy(), ToyProblem(), max_epochs=4, callbacks=[lambda progress: True, seen.append])
    assert len(seen) == 1


def test_callbacks_get_the_progress_of_the_run():
    seen = []

    def look(progress):
        assert isinstance(progress, Progress)
        row, weight = dict(progress.row), progress.model().coef[0, 0]
        seen.append((progress.steps, progress.epochs, progress.max_epochs, row, weight))
        assert progress.row is progress.history.rows[-1]
        assert progress.seconds == progress.row["seconds"]

    outcome = run(Toy(), ToyProblem(), max_epochs=4, callbacks=[look])
    for k, row in enumerate(outcome.history):
        assert seen[k] == (10 * 2**k, 2.0**k, 4.0, row, 10 * 2**k)


def test_early_stopping_returns_the_weights_of_the_lowest_validation_error():
    error = {10: 0.5, 20: 0.2, 40: 0.3, 80: 0.2, 160: 0.4}
    outcome = run(
        Toy(), ToyProblem(lambda steps: 1 / steps), max_epochs=1000, validation=ToyValidation(error.get), patience=3
    )
    assert outcome.stop_reason == "early_stopping"
    np.testing.assert_array_equal(outcome.history["validation_error"], [0.5, 0.2, 0.3, 0.2, 0.4])
    assert outcome.W[0, 0] == 20
    assert outcome.objective == 1 / 20
    assert outcome.state.counters.steps == 160  # the state can go on from where it is


def test_patience_starts_afresh_with_each_improvement():
    error = {10: 0.5, 20: 0.6, 40: 0.4, 80: 0.5, 160: 0.4, 320: 0.1}
    outcome = run(Toy(), ToyProblem(), max_epochs=1000, validation=ToyValidation(error.get), patience=2)
    assert outcome.W[0, 0] == 40
    assert outcome.history["steps"][-1] == 160


def test_the_best_weights_come_back_whatever_ends_a_run_with_validation():
    error = {10: 0.1, 20: 0.2, 40: 0.3}
    outcome = run(Toy(), ToyProblem(), max_epochs=4, validation=ToyValidation(error.get))
    assert (outcome.stop_reason, outcome.W[0, 0]) == ("max_iter", 10)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_objective_that_is_no_number_says_what_to_do(value):
    with pytest.raises(ValueError, match=rf"objective became {value} after 10 steps.*scale the features"):
        run(Toy(), ToyProblem(lambda steps: value), max_epochs=4)


class Exact(Toy):
    """Goes to the optimum of its objective, as far as ``run`` knows; its gap is half of the objective."""

    capabilities = Capabilities(aim="optimum")

    def evaluate(self, problem, state, model):
        objective = problem.primal(model.coef.T, model.intercept)
        return {"objective": objective, "gap": 0.5 * objective}


class Valley(ToyProblem):
    """Lowest after 20 steps; 0.9 at zero."""

    def __init__(self, at_zero=0.9):
        super().__init__(lambda steps: 0.1 + abs(steps - 20) / 100)
        self.zero = at_zero

    def at_zero(self):
        return self.zero, LinearModel(np.zeros((1, 1)), np.zeros(1))


@pytest.mark.parametrize("exact", [True, False])
def test_an_exact_solver_that_is_stopped_gives_the_best_model_seen_and_others_their_last(exact):
    outcome = run((Exact if exact else Toy)(), Valley(), max_epochs=8)
    assert outcome.stop_reason == "max_iter"
    assert outcome.W[0, 0] == (20 if exact else 80)
    assert outcome.objective == pytest.approx(0.1 if exact else 0.7)
    assert outcome.is_last is not exact
    assert outcome.history["objective"][-1] == pytest.approx(0.7)
    # the highest dual value seen was that of the last checkpoint
    assert outcome.dual == (pytest.approx(0.35) if exact else -math.inf)


def test_checkpoints_with_a_vacuous_gap_do_not_count_against_early_stopping():
    """The error rises at first; with a gap of the whole objective it is let go on, with half of it it is stopped."""
    validation = ToyValidation(lambda steps: abs(steps - 320) / 1000 if steps >= 160 else 0.4 + steps / 1000)
    for gap, steps in ((1.0, 320), (0.5, 10)):

        class Bounded(Exact):
            def evaluate(self, problem, state, model, gap=gap):
                return {"objective": 1.0, "gap": gap if state.counters.steps < 160 else 0.0}

        outcome = run(Bounded(), Valley(), max_epochs=1e6, validation=validation, patience=2)
        assert (outcome.stop_reason, outcome.W[0, 0]) == ("early_stopping", steps)


def test_an_exact_solver_that_is_stopped_is_no_worse_than_zero():
    outcome = run(Exact(), Valley(at_zero=0.05), max_epochs=8)
    assert (outcome.W[0, 0], outcome.objective, outcome.is_last) == (0.0, 0.05, False)


def test_the_tolerance_gives_the_model_of_the_state():
    outcome = run(Exact(), Valley(at_zero=0.05), max_epochs=8, tol=0.6)
    assert (outcome.stop_reason, outcome.W[0, 0], outcome.is_last) == ("tol", 10.0, True)


def test_validation_does_not_make_a_model_of_another_point_the_states():
    """The model at the end comes from a look; what the solver proves of its state is about another."""

    class Between(Exact):
        def knows(self, state):
            return False

        def glimpse(self, problem, state, most):
            model = self.model(problem, state)
            return Exact.evaluate(self, problem, state, model), lambda: model

    outcome = run(Between(), Valley(), max_epochs=2, validation=ToyValidation(lambda steps: 1.0 / steps))
    assert (outcome.W[0, 0], outcome.is_last) == (20.0, False)


def test_the_best_model_is_kept_in_a_file(tmp_path):
    best, model = Best(), KernelModel(RBF(1.0), np.arange(2), as_rows(np.eye(2)), np.ones((1, 2)), np.zeros(1))
    best.offer({"objective": 0.5, "gap": 0.1}, lambda: model)
    dump(tmp_path / "best.npz", best.light())
    problem = SimpleNamespace(rows=lambda chosen: as_rows(np.eye(2)[chosen]), kernel=RBF(1.0))
    kept = load(tmp_path / "best.npz").on(problem)
    assert kept.measured == best.measured
    np.testing.assert_array_equal(kept.model.decision_function(model.vectors), model.decision_function(model.vectors))


def test_a_limit_has_looks_between_checkpoints(clock):
    """Slices of 64, then 100 steps; the first checkpoint stands at 6,400, and the objective rises from 64 on."""
    problem = Valley()
    outcome = run(Exact(clock, cost=1e-3, per_epoch=6400), problem, max_epochs=1e6, max_seconds=0.5)
    assert outcome.stop_reason == "max_seconds"
    assert outcome.state.counters.steps > 400
    assert outcome.W[0, 0] == 64
    assert outcome.objective == problem.objective(64)


def test_a_step_that_would_end_well_behind_the_limit_is_not_begun(clock):
    begun = clock()
    outcome = run(Toy(clock, cost=1.0), ToyProblem(), max_epochs=1e6, max_seconds=200.4)
    assert outcome.state.counters.steps == 200
    assert clock() - begun <= 201.0


@pytest.mark.parametrize("steps", [4.0, 10.0])
def test_however_long_steps_are_none_is_begun_that_ends_half_a_second_behind_the_limit(clock, steps, rng):
    limit, begun = float(steps * rng.uniform(100.0, 200.0)), clock()  # behind the first slice
    run(Toy(clock, cost=steps), ToyProblem(), max_epochs=1e6, max_seconds=limit)
    assert clock() - begun <= limit + 0.5


# ---------------------------------------------------------------- Ctrl-C


def interrupt(times=1):
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_gives_the_model_so_far():
    before = signal.getsignal(signal.SIGINT)
    solver = Toy(during=lambda steps: interrupt() if steps == 20 else None)
    outcome = run(solver, ToyProblem(), max_epochs=1e6)
    assert outcome.stop_reason == "interrupted"
    assert outcome.W[0, 0] == outcome.history["steps"][-1] == 20
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_during_an_evaluation_stops_too():
    outcome = run(Toy(), ToyProblem(), max_epochs=1e6, callbacks=[lambda progress: interrupt()])
    assert outcome.stop_reason == "interrupted"
    assert len(outcome.history) == 1


def test_a_second_ctrl_c_raises():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(Toy(during=lambda steps: interrupt(2)), ToyProblem(), max_epochs=1e6)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_is_restored_when_a_callback_fails():
    before = signal.getsignal(signal.SIGINT)

    def fail(progress):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        run(Toy(), ToyProblem(), max_epochs=2, callbacks=[fail])
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_the_user_comes_back():
    before = signal.getsignal(signal.SIGINT)
    mine = lambda number, frame: None  # noqa: E731
    signal.signal(signal.SIGINT, mine)
    try:
        assert run(Toy(during=lambda steps: interrupt()), ToyProblem()).stop_reason == "interrupted"
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_outside_the_main_thread_leaves_signals_alone():
    before, found = signal.getsignal(signal.SIGINT), []

    def work():
        callbacks = [lambda progress: found.append(signal.getsignal(signal.SIGINT))]
        found.append(run(Toy(), ToyProblem(), max_epochs=1, callbacks=callbacks).stop_reason)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before, "max_iter"]


FIT_AND_INTERRUPT = """
import os, signal, threading, time
import numpy as np
from widemargin import LinearSVC

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 5))
y = X[:, 0] > 0
model = LinearSVC(tol=0, max_iter=10**9, random_state=0)
model.max_iter = 1
model.fit(X, y)  # compiles
model.max_iter = 10**9
before = signal.getsignal(signal.SIGINT)
{how}
print(model.stop_reason_, model.coef_.shape, signal.getsignal(signal.SIGINT) is before)
"""


def in_a_process(how):
    script = FIT_AND_INTERRUPT.format(how=textwrap.dedent(how))
    return fresh.run(script)


def test_a_fit_that_is_interrupted_from_outside_has_a_model():
    done = in_a_process(
        """
        def soon(progress):
            if len(progress.history) == 1:
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

        model.set_params(callbacks=soon).fit(X, y)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "interrupted (1, 5) True"


def test_a_fit_that_is_interrupted_twice_raises():
    done = in_a_process(
        """
        def twice(progress):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

        model.set_params(callbacks=twice)
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            model.stop_reason_ = "raised"
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("raised (1, 5) True")


# ---------------------------------------------------------------- resume and states on disk


def test_a_resumed_run_continues_its_history(clock):
    first = run(Toy(clock, cost=1e-3), ToyProblem(), max_epochs=2)
    before = [dict(row) for row in first.history]
    second = run(Toy(clock, cost=1e-3), ToyProblem(), state=first.state, history=first.history, max_epochs=4)
    history = second.history
    assert history.rows[: len(before)] == before
    np.testing.assert_array_equal(history["steps"], [10, 20, 30, 40, 60])
    assert np.all(np.diff(history["seconds"]) > 0)
    assert second.W[0, 0] == 60


def test_the_epochs_of_a_resumed_run_go_on():
    """Columns that count work never fall, or a plot over them would run backwards."""
    first = run(Toy(), ToyProblem(), max_epochs=2)
    second = run(Toy(), ToyProblem(), state=first.state, history=first.history, max_epochs=4)
    np.testing.assert_array_equal(second.history["epochs"], [1, 2, 3, 4, 6])


def small_problem(rng, intercept="regularized"):
    X = rng.normal(size=(50, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=50) > 0, 1.0, -1.0)
    return Problem(as_rows(X), y, losses.Single(losses.Hinge()), 0.02, intercept=intercept)


def parts_of(state, name=""):
    """All arrays and scalars of a state by name, and the generator's own state."""
    if isinstance(state, np.random.Generator):
        return {name: state.bit_generator.state}
    if hasattr(state, "__dataclass_fields__"):
        children = {part: getattr(state, part) for part in state.__dataclass_fields__}
    elif hasattr(state, "_fields"):
        children = state._asdict()
    elif isinstance(state, np.ndarray) and state.dtype.names:  # NumPy finds no NaN equal to another in a record
        children = {part: state[part] for part in state.dtype.names}
    else:
        return {name: state}
    found = {}
    for part, child in children.items():
        found |= parts_of(child, f"{name}.{part}")
    return found


@pytest.mark.parametrize(
    ("solver", "intercept"),
    [
        (Pegasos(average="suffix", batch_size=3), "regularized"),
        (Pegasos(step="pegasos", average="none", sampling="iid", projection=True), "unregularized"),
        (Pegasos(step=Bottou(0.1), average="uniform", sampling="fixed", search_epochs=1), "search"),
    ],
    ids=["suffix", "paper", "search"],
)
def test_a_run_over_a_file_equals_a_run_in_one_go(solver, intercept, rng, tmp_path):
    problem, seed = small_problem(rng, intercept), int(rng.integers(2**31))
    whole = run(solver, problem, rng=np.random.default_rng(seed), max_epochs=6)

    half = run(solver, problem, rng=np.random.default_rng(seed), max_epochs=3)
    save_state(tmp_path / "state.npz", half.state, solver=repr(solver))
    state = load_state(tmp_path / "state.npz")
    assert type(state) is PegasosState
    for name, part in parts_of(half.state).items():
        np.testing.assert_equal(parts_of(state)[name], part, err_msg=name)

    rest = run(solver, problem, state=state, history=half.history, max_epochs=3)
    np.testing.assert_array_equal(rest.W, whole.W)
    np.testing.assert_array_equal(rest.b, whole.b)
    ours, theirs = parts_of(rest.state), parts_of(whole.state)
    assert ours.keys() == theirs.keys()
    for name, part in theirs.items():
        np.testing.assert_equal(ours[name], part, err_msg=name)
    assert rest.history["objective"][-1] == whole.history["objective"][-1]


def test_a_loaded_state_may_be_changed(rng, tmp_path):
    problem, solver = small_problem(rng), Pegasos()
    state = run(solver, problem, rng=rng, max_epochs=1).state
    save_state(tmp_path / "state.npz", state)
    loaded = load_state(tmp_path / "state.npz")
    solver.advance(problem, loaded, 5)
    assert loaded.t == state.t + 5


def test_a_state_of_other_data_is_refused(rng, tmp_path):
    problem, solver = small_problem(rng), Pegasos()
    save_state(tmp_path / "state.npz", run(solver, problem, rng=rng, max_epochs=1).state)
    other = replace(problem, X=DenseRows(np.ones((problem.n, problem.d + 1))))
    with pytest.raises(ValueError, match=rf"state/.* has the shape .*, but must have \(d = {other.d}"):
        run(solver, other, state=load_state(tmp_path / "state.npz"), max_epochs=1)


def test_a_file_that_is_no_state_is_refused(tmp_path):
    LinearModel(np.ones((1, 2)), np.zeros(1)).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"model\.npz holds a LinearModel, not a solver's state"):
        load_state(tmp_path / "model.npz")


def test_a_state_of_an_unregistered_class_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"ToyState is ToyState\(.*, and a file holds no ToyState"):
        save_state(tmp_path / "toy.npz", ToyState())


# ---------------------------------------------------------------- solvers' parameters


def test_the_parameters_of_a_solver_are_its_fields():
    solver = Pegasos(batch_size=4)
    assert solver.get_params()["batch_size"] == 4
    assert set(solver.get_params()) == set(Pegasos.__dataclass_fields__)
    assert solver.set_params(batch_size=8, average="none") is solver
    assert (solver.batch_size, solver.average) == (8, "none")


def test_an_unknown_parameter_is_named_with_those_there_are():
    with pytest.raises(ValueError, match=r"Pegasos has no parameter 'batchsize'; it has step, .*batch_size"):
        Pegasos().set_params(batchsize=2)


def test_a_history_may_be_given_empty():
    history = History()
    assert run(Toy(), ToyProblem(), max_epochs=1, history=history).history is history


@pytest.mark.parametrize(("gap", "reason"), [(-1e-3, "tol"), (-0.1, "stalled"), (1e-3, "tol"), (0.1, "max_iter")])
def test_a_dual_value_above_the_primal_one_is_rounding_and_no_proof(gap, reason):
    class Rounded(Toy):
        def evaluate(self, problem, state, model):
            return {"objective": 1.0, "gap": gap}

    assert run(Rounded(), ToyProblem(), max_epochs=4, tol=1e-2).stop_reason == reason


def test_the_end_of_the_epochs_comes_before_lost_patience_and_a_stall():
    measured, patience = {"objective": 1.0, "gap": 0.5}, Patience(1, unimproved=1)
    assert reason_to_stop(measured, 1.0, 0.1, True, patience, True) == "max_iter"
    assert reason_to_stop(measured, 1.0, 0.1, False, patience, True) == "early_stopping"


def test_a_workspace_belongs_to_its_problem():
    state, one, other = ToyState(), [0], [0]
    assert state.work(one, lambda: "made for one") == "made for one"
    assert state.work(one, lambda: "made again") == "made for one"
    assert state.work(other, lambda: "made for the other") == "made for the other"
