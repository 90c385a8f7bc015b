"""What a fit is given, checked: solvers by name, and the examples that are held out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin import solvers
from widemargin.estimators.fit.checking import check_solver, held_out

KINDS = ("linear", "kernel")


@pytest.mark.parametrize("kind", KINDS)
def test_solvers_are_known_by_name_and_as_objects(kind):
    for name in solvers.names(kind):
        check_solver(kind, name, "")
        check_solver(kind, solvers.make(kind, name), "")


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_of_a_solver_is_refused_with_those_there_are(kind):
    with pytest.raises(ValueError, match=r"solver must be one of 'auto'.*'pegasos'.*got 'newton'"):
        check_solver(kind, "newton", "")


@pytest.mark.parametrize("given", [None, 3, object, solvers.solver_class("linear", "pegasos")])
def test_what_is_no_solver_is_refused_with_an_example(given):
    with pytest.raises(TypeError, match=r"a configured solver such as Pegasos\(\), got"):
        check_solver("linear", given, "Pegasos()")


def test_a_solver_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="solver must be one of"):
        check_solver("kernel", solvers.make("linear", "pegasos"), "SMO()")


@st.composite
def examples(draw):
    """(seed, fraction, labels or None, weights, possibly none)."""
    n = draw(st.integers(2, 60))
    labels = draw(st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n).map(np.array))
    weights = draw(st.just([]) | st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=n, max_size=n))
    return draw(st.integers(0, 2**32 - 1)), draw(st.floats(0.01, 0.99)), n, labels, np.array(weights, float)


@given(examples())
def test_held_out_examples_are_a_share_of_each_class_and_all_have_weight(drawn):
    seed, fraction, n, labels, weights = drawn
    counts = weights > 0.0 if weights.size else np.ones(n, bool)
    groups = [counts] if labels is None else [counts & (labels == label) for label in np.unique(labels)]
    if all(group.sum() <= 1 for group in groups):
        with pytest.raises(ValueError, match="early_stopping needs examples"):
            held_out(np.random.default_rng(seed), n, fraction, labels, weights)
        return
    training, held = held_out(np.random.default_rng(seed), n, fraction, labels, weights)
    np.testing.assert_array_equal(np.sort(np.concatenate([training, held])), np.arange(n))
    assert training.size > 0 < held.size
    assert np.all(np.diff(training) > 0)
    assert np.all(np.diff(held) > 0)
    assert counts[held].all()
    for group in groups:
        size, share = int(group.sum()), int(group[held].sum())
        if size > 1:
            assert 1 <= share <= size - 1
            assert abs(share - fraction * size) <= 1.0
        else:
            assert share == 0  # the only example of a class is learned from
    again = held_out(np.random.default_rng(seed), n, fraction, labels, weights)
    np.testing.assert_array_equal(again[1], held)


@pytest.mark.parametrize("fraction", [0, 1, 0.0, 1.0, -0.1, True, "half", float("nan")])
def test_a_share_to_hold_out_lies_between_0_and_1(fraction, rng):
    with pytest.raises(ValueError, match="validation_fraction must be between 0 and 1"):
        held_out(rng, 10, fraction, None, np.empty(0))
