"""Linear Pegasos: the compiled loop against the textbook, its averages, biases, sampling, counters and resume law."""

import math
from copy import deepcopy
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reference import pegasos as textbook
from scipy.optimize import minimize_scalar

from widemargin.core import losses
from widemargin.core.bias import best_bias, mixed_slope
from widemargin.core.rows import as_rows
from widemargin.problem import NO_WEIGHTS, Problem, StructuredProblem
from widemargin.running import _flatten, load_state, run, save_state
from widemargin.solvers.pegasos import (
    AVERAGES,
    SAMPLINGS,
    SMALLEST_SCALE,
    Bottou,
    Constant,
    InverseTime,
    Norma,
    Pegasos,
    State,
)

#: Double precision: about a hundred steps, each rounding a few times by 1e-16 of the largest weight so far, and no
#: step that enlarges an earlier error more than a thousandfold.
TIGHT = 1e-9

LAYOUTS = {
    "dense": lambda X: X,
    "dense32": lambda X: X.astype(np.float32),
    "csr": sp.csr_matrix,
    "csr_int64": lambda X: with_int64(sp.csr_matrix(X)),
    "csr32_int64": lambda X: with_int64(sp.csr_matrix(X, dtype=np.float32)),
}


def with_int64(X):
    """The same CSR matrix with 64-bit indices."""
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


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


def small(name, rng, layout="dense", lam=0.1, intercept="none", weighted=False, **size):
    """(problem, arguments of the textbook) for a loss by name; some of the weights are zero."""
    X, y, target, outputs = textbook.small_data(name, rng, **size)
    X = X.astype(np.float32).astype(np.float64) if "32" in layout else X
    s = rng.uniform(0.2, 2.0, len(y)) * (rng.random(len(y)) < 0.9) if weighted else None
    problem = Problem(
        as_rows(LAYOUTS[layout](X)), y, target, lam, NO_WEIGHTS if s is None else s, intercept, outputs
    )
    return problem, {"X": X, "y": y, "target": target, "lam": lam, "outputs": outputs, "s": s, "intercept": intercept}


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
    arrays, others = {}, {}
    assert _flatten(one, "", arrays) == _flatten(other, "", others)
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype, name
        np.testing.assert_array_equal(array, others[name], err_msg=name, strict=True)


# ---------------------------------------------------------------- the textbook

EVERY_LOSS_IN_BOTH_LAYOUTS = [(name, "dense") for name in textbook.LOSSES] + [
    ("hinge", "csr"),
    ("squared_hinge", "csr_int64"),
    ("log", "csr"),
    ("epsilon", "csr"),
    ("squared_epsilon", "csr"),
    ("ovr_hinge", "csr"),
    ("multiclass_hinge", "csr"),
    ("multiclass_log", "csr"),
]
POLICIES = (InverseTime(), Norma(), Norma(0.3), Constant(0.05), Bottou(0.7))


def every_option(joint):
    """Solver options and intercept: each step with each intercept and projection, the rest in turn."""
    intercepts = ("none", "regularized", "unregularized") + (() if joint else ("exact",))
    for i, (step, intercept, projection) in enumerate(product(POLICIES, intercepts, (False, True))):
        options = {"batch_size": (1, 4, 5)[i % 3], "sampling": SAMPLINGS[i // 3 % 3], "average": AVERAGES[i // 5 % 4]}
        yield {"step": step, "projection": projection, **options}, intercept, i // 7 % 2 == 1


def compare_with_the_textbook(name, layout, rng, tolerance):
    """Run every option against the textbook; tell which of projection and cap took effect."""
    effects = set()
    for options, intercept, weighted in every_option(joint=name.startswith("multiclass")):
        problem, given = small(name, rng, layout, intercept=intercept, weighted=weighted)
        s = np.ones(problem.n) if given["s"] is None else given["s"]
        solver = Recorded(**options)
        state = advanced(solver, problem, rng.integers(2**32), 60)
        bounds = textbook.radius(given["X"], given["y"], given["target"], given["lam"], given["outputs"], s)
        iterates = textbook.pegasos(
            batches=solver.batches, policy=solver.policy, ball=bounds if solver.projection else None, **given
        )
        scale = max(np.abs(W).max() for W, _ in iterates) + max(np.abs(b).max() for _, b in iterates)
        W, b = solver._weights(state, "none")
        assert W.dtype == problem.dtype
        assert_close(W, iterates[-1][0], scale, tolerance, (options, intercept))
        if intercept != "exact":
            assert_close(b, iterates[-1][1], scale, tolerance, (options, intercept))
        if solver.average != "none":
            W, b = solver._weights(state, solver.average)
            expected = textbook.average(iterates[:-1], solver.average)
            assert_close(W, expected[0], scale, tolerance, (options, intercept))
            if intercept != "exact":
                assert_close(b, expected[1], scale, tolerance, (options, intercept))
        norms2 = [np.sum(W**2, axis=0) + (intercept == "regularized") * b**2 for W, b in iterates]
        longest = np.sqrt(np.max([v.sum() if problem.is_joint else v / bounds**2 for v in norms2]))
        if solver.projection and longest * (1.0 if not problem.is_joint else 1.0 / bounds[0]) > 1.0 - 1e-9:
            effects.add("projected")
        first = solver.batches[0]
        if textbook.capped(1.0 / given["lam"], given["target"], given["X"][first], s[first], intercept) < 10.0:
            effects.add("capped")
    return effects


@pytest.mark.parametrize(("name", "layout"), EVERY_LOSS_IN_BOTH_LAYOUTS)
def test_the_compiled_loop_equals_the_textbook_on_the_same_visits(name, layout, rng):
    effects = compare_with_the_textbook(name, layout, rng, TIGHT)
    # else the comparison would not have seen the projection, or the cap of squared losses
    assert ("capped" if name.startswith("squared") else "projected") in effects


@pytest.mark.parametrize(("name", "layout"), [("log", "csr32_int64"), ("multiclass_log", "dense32")])
def test_the_compiled_loop_equals_the_textbook_in_single_precision(name, layout, rng):
    # smooth losses only: a hinge decides by y z < 1, and float32 may decide otherwise where double precision says
    # 1 ± 1e-7. A step rounds by 6e-8 of the largest weight, sixty steps by less than 4e-6, the lazy averages by
    # up to t times that because S·v and u cancel.
    compare_with_the_textbook(name, layout, rng, 1e-3)
