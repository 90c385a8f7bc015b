"""Losses: every registered one keeps the laws of a convex loss, its sub-gradient and its conjugate.

The tests run over the registries ``BINARY``, ``REGRESSION`` and ``JOINT``: a loss is tested because it is registered.
"""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from widemargin.core.compiling.dispatch import compiled
from widemargin.core.losses import losses

#: Rounding of a handful of float64 operations, relative to the largest number among them.
ROUNDING = 1e-12

#: Fields a registered loss may have, with values to test it at.
EPSILONS = (0.0, 0.25, 1.5)
DELTAS = (0.125, 1.0, 2.5)
COST = np.array([[0.0, 1.0, 2.5], [0.5, 0.0, 1.0], [3.0, 0.25, 0.0]])

scores = st.floats(-50, 50, allow_subnormal=False)
shares = st.floats(0, 1, allow_subnormal=False)
labels = st.sampled_from([-1.0, 1.0])
targets = st.floats(-20, 20, allow_subnormal=False)


def built(cls):
    """The loss at each value of its fields that is tested."""
    if cls._fields == ("epsilon", "delta"):
        return [cls(epsilon, delta) for epsilon, delta in zip(EPSILONS, DELTAS, strict=True)]
    if "delta" in cls._fields:
        return [cls(delta=delta) for delta in DELTAS]
    if "epsilon" in cls._fields:
        return [cls(epsilon=epsilon) for epsilon in EPSILONS]
    if "cost" in cls._fields:
        return [cls(cost=1.0 - np.eye(3)), cls(cost=COST)]
    assert not cls._fields, f"say here at which values {cls.__name__} is to be tested"
    return [cls()]


SCALAR = [
    pytest.param(loss, y, id="-".join(map(str, [name, *loss])))
    for registry, y in ((losses.BINARY, labels), (losses.REGRESSION, targets))
    for name, cls in registry.items()
    for loss in built(cls)
]
JOINT = [
    pytest.param(loss, id=f"{name}-{number}")
    for name, cls in losses.JOINT.items()
    for number, loss in enumerate(built(cls))
]
REGISTERED = [*losses.BINARY.values(), *losses.REGRESSION.values(), *losses.JOINT.values()]


def law(**strategies):
    """A property over drawn values; forty of them for each of a hundred cases is enough to find a slip."""
    return lambda test: settings(max_examples=40)(given(**strategies)(test))


def slack(*numbers):
    return ROUNDING * (1.0 + max(abs(number) for number in numbers))


# ---------------------------------------------------------------- scalar losses


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data())
def test_a_loss_is_never_negative(loss, y, data):
    assert losses.value(loss, data.draw(scores), data.draw(y)) >= 0.0


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), a=scores, b=scores, share=shares)
def test_a_loss_is_convex(loss, y, data, a, b, share):
    y = data.draw(y)
    at_a, at_b = losses.value(loss, a, y), losses.value(loss, b, y)
    between = losses.value(loss, share * a + (1 - share) * b, y)
    assert between <= share * at_a + (1 - share) * at_b + slack(at_a, at_b)


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), z=scores, other=scores)
def test_a_slope_is_a_subgradient(loss, y, data, z, other):
    y = data.draw(y)
    here, there = losses.value(loss, z, y), losses.value(loss, other, y)
    g = losses.slope(loss, z, y)
    assert there >= here + g * (other - z) - slack(here, there, g * (other - z))


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), z=scores)
def test_a_slope_is_zero_where_the_loss_is(loss, y, data, z):
    y = data.draw(y)
    if losses.value(loss, z, y) == 0.0:
        assert abs(losses.slope(loss, z, y)) < 1e-150  # whose square is below the range of float64


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), z=scores)
def test_a_slope_is_the_finite_difference_off_the_kinks(loss, y, data, z):
    y, h = data.draw(y), 1e-4
    below, above = losses.slope(loss, z - h, y), losses.slope(loss, z + h, y)
    smoothness = loss.smoothness
    if smoothness == math.inf:
        assume(below == above)  # no kink within [z − h, z + h]
        smoothness = 0.0
    difference = (losses.value(loss, z + h, y) - losses.value(loss, z - h, y)) / (2 * h)
    rounding = slack(losses.value(loss, z + h, y), losses.value(loss, z - h, y)) / h
    assert abs(difference - losses.slope(loss, z, y)) <= smoothness * h + rounding


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), z=scores, u=st.floats(-60, 60, allow_subnormal=False))
def test_fenchel_and_young_hold_for_every_slope_and_score(loss, y, data, z, u):
    y = data.draw(y)
    here, conjugate = losses.value(loss, z, y), losses.conjugate(loss, u, y)
    rounding = slack(here, u * z, 0.0 if math.isinf(conjugate) else conjugate)
    # the slack DOMAIN of the conjugate's domain counts for |z| times as much
    assert here + conjugate >= u * z - rounding - 50 * losses.DOMAIN


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), z=scores)
def test_fenchel_and_young_are_equal_at_the_slope(loss, y, data, z):
    y = data.draw(y)
    u = losses.slope(loss, z, y)
    here, conjugate = losses.value(loss, z, y), losses.conjugate(loss, u, y)
    assert math.isfinite(conjugate)
    assert abs(here + conjugate - u * z) <= slack(here, conjugate, u * z, y * u)


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), beyond=st.floats(1e-6, 100))
def test_a_conjugate_is_infinite_outside_its_domain(loss, y, data, beyond):
    """The domain is the range of the slopes, whose ends are the slopes far out where they do not grow without bound."""
    y = data.draw(y)
    bounded = 0
    for end, side in ((1e9, 1.0), (-1e9, -1.0)):
        limit = losses.slope(loss, end, y)
        if abs(limit) <= 1.0:
            bounded += 1
            assert losses.conjugate(loss, limit + side * beyond, y) == math.inf
    assert bounded == 2 or loss.lipschitz == math.inf


@pytest.mark.parametrize(("loss", "y"), SCALAR)
@law(data=st.data(), z=scores, other=scores)
def test_the_constants_of_a_scalar_loss_bound_it(loss, y, data, z, other):
    y = data.draw(y)
    g, h = losses.slope(loss, z, y), losses.slope(loss, other, y)
    assert abs(g) <= loss.lipschitz * (1 + ROUNDING)
    if loss.smoothness < math.inf:
        assert abs(g - h) <= loss.smoothness * abs(z - other) + slack(g, h)


@pytest.mark.parametrize(("loss", "y"), SCALAR)
def test_the_constants_of_a_scalar_loss_are_tight(loss, y):
    wide = np.linspace(-1e3, 1e3, 20_001)
    steepest = max(abs(losses.slope(loss, z, y)) for z in wide for y in (-1.0, 1.0))
    if loss.lipschitz < math.inf:
        assert steepest == pytest.approx(loss.lipschitz, rel=1e-9)
    else:
        assert steepest > 1e3
    fine = np.linspace(-3, 3, 6001)
    slopes = np.array([losses.slope(loss, z, 1.0) for z in fine])
    bend = np.max(np.abs(np.diff(slopes)) / np.diff(fine))
    if loss.smoothness < math.inf:
        assert bend == pytest.approx(loss.smoothness, rel=1e-3)  # the grid may miss the steepest bend by h²
    else:
        assert bend > 500.0  # a jump of the slope over one cell of 1e-3


@pytest.mark.parametrize("cls", REGISTERED, ids=lambda cls: cls.__name__)
def test_a_registered_loss_has_all_its_parts(cls):
    for loss in built(cls):
        assert loss.lipschitz > 0.0
        assert loss.smoothness > 0.0
    parts = (
        (
            losses.total_value,
            losses.slopes,
            losses.total_conjugate,
            losses.output_values,
            losses.output_conjugates,
            losses.output_count,
        )
        if cls in losses.JOINT.values()
        else (losses.value, losses.slope, losses.conjugate)
    )
    assert [part.__name__ for part in parts if cls not in part.table] == []


def test_joint_losses_extend_binary_ones_of_the_same_name():
    assert set(losses.JOINT) <= set(losses.BINARY)
    assert not set(losses.BINARY) & set(losses.REGRESSION)


@pytest.mark.parametrize("z", [1e300, 1e308, 745.0, 710.0, 700.0, 37.0, 1e-300])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_log_loss_survives_extreme_scores(z, sign):
    loss = losses.Log()
    with np.errstate(all="raise"):
        right, wrong = losses.value(loss, sign * z, sign), losses.value(loss, -sign * z, sign)
        g_right, g_wrong = losses.slope(loss, sign * z, sign), losses.slope(loss, -sign * z, sign)
    # log(1 + e^z) = z + log(1 + e^−z), and e^−z is either below rounding or not small
    assert wrong == pytest.approx(z + math.log1p(math.exp(-z)), rel=1e-15)
    assert right == pytest.approx(math.log1p(math.exp(-z)), rel=1e-15)
    assert -1.0 <= sign * g_wrong <= -0.5 <= sign * g_right <= 0.0
    assert losses.conjugate(loss, g_wrong, sign) <= 0.0
    assert losses.conjugate(loss, g_right, sign) <= 0.0


@pytest.mark.parametrize(("loss", "y"), SCALAR)
def test_losses_with_bounded_slopes_stay_finite_far_out(loss, y):
    if loss.lipschitz == math.inf:
        assert losses.value(loss, -1e300, 1.0) == math.inf  # a square beyond float64 is infinite, not an error
        return
    for z in (-1e300, 1e300):
        for y in (-1.0, 1.0):
            assert math.isfinite(losses.value(loss, z, y))
            assert abs(losses.slope(loss, z, y)) <= 1.0


def test_the_structured_hinge_is_the_cost_less_the_margin():
    loss = losses.StructuredHinge()
    assert losses.value(loss, 0.25, 2.0) == 1.75
    assert losses.slope(loss, 0.25, 2.0) == -1.0


# ---------------------------------------------------------------- joint losses

three_scores = st.lists(scores, min_size=3, max_size=3).map(np.array)
classes = st.integers(0, 2).map(float)


def joint_slopes(target, z, y):
    g = np.full(z.size, np.nan)
    losses.slopes(target, z, y, g)
    return g


@pytest.mark.parametrize("loss", JOINT)
@law(a=three_scores, b=three_scores, y=classes, share=shares)
def test_a_joint_loss_is_convex_and_never_negative(loss, a, b, y, share):
    at_a, at_b = losses.total_value(loss, a, y), losses.total_value(loss, b, y)
    assert at_a >= 0.0
    between = losses.total_value(loss, share * a + (1 - share) * b, y)
    assert between <= share * at_a + (1 - share) * at_b + slack(at_a, at_b, *a, *b)


@pytest.mark.parametrize("loss", JOINT)
@law(a=three_scores, b=three_scores, y=classes)
def test_the_slopes_of_a_joint_loss_are_a_subgradient(loss, a, b, y):
    here, there = losses.total_value(loss, a, y), losses.total_value(loss, b, y)
    g = joint_slopes(loss, a, y)
    assert there >= here + g @ (b - a) - slack(here, there, *a, *b)
    assert abs(g.sum()) <= ROUNDING
    assert np.linalg.norm(g) <= loss.lipschitz * (1 + ROUNDING)
    if loss.smoothness < math.inf:
        bend = np.linalg.norm(g - joint_slopes(loss, b, y))
        assert bend <= loss.smoothness * np.linalg.norm(a - b) + ROUNDING


@pytest.mark.parametrize("loss", JOINT)
@law(z=three_scores, y=classes)
def test_the_slopes_of_a_joint_loss_are_finite_differences_off_the_kinks(loss, z, y):
    h = 1e-4
    g, kinked = joint_slopes(loss, z, y), loss.smoothness == math.inf
    for c in range(3):
        step = h * np.eye(3)[c]
        if kinked and not np.array_equal(joint_slopes(loss, z - step, y), joint_slopes(loss, z + step, y)):
            assume(False)
        difference = (losses.total_value(loss, z + step, y) - losses.total_value(loss, z - step, y)) / (2 * h)
        assert abs(difference - g[c]) <= (0.0 if kinked else h) + slack(*z) / h


@pytest.mark.parametrize("loss", JOINT)
@law(z=three_scores, y=classes, p=st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(np.array))
def test_fenchel_and_young_hold_for_joint_losses(loss, z, y, p):
    here = losses.total_value(loss, z, y)
    g = joint_slopes(loss, z, y)
    assert abs(here + losses.total_conjugate(loss, g, y) - g @ z) <= slack(here, *z) + 50 * losses.DOMAIN
    any_slopes = p / p.sum() - np.eye(3)[int(y)]
    conjugate = losses.total_conjugate(loss, any_slopes, y)
    assert math.isfinite(conjugate)
    assert here + conjugate >= any_slopes @ z - slack(here, *z)


@pytest.mark.parametrize("loss", JOINT)
@law(y=classes, beyond=st.floats(1e-6, 10))
def test_a_joint_conjugate_is_infinite_outside_its_domain(loss, y, beyond):
    """The domain is p − e_y for p in the simplex."""
    own, other, third = int(y), (int(y) + 1) % 3, (int(y) + 2) % 3
    negative, heavy, unbalanced = np.zeros(3), np.zeros(3), np.zeros(3)
    negative[[own, other, third]] = 0.0, -beyond, beyond
    heavy[[own, other]] = -1.0 - beyond, 1.0 + beyond
    unbalanced[other] = beyond
    for outside in (negative, heavy, unbalanced):
        assert losses.total_conjugate(loss, outside, y) == math.inf
    assert losses.total_conjugate(loss, np.zeros(3), y) == 0.0


@pytest.mark.parametrize("loss", JOINT)
def test_a_joint_loss_reaches_its_lipschitz_constant(loss):
    g = joint_slopes(loss, np.array([-100.0, 100.0, 0.0]), 0.0)
    assert np.linalg.norm(g) == pytest.approx(loss.lipschitz, rel=1e-12)


def test_the_joint_log_loss_reaches_its_smoothness():
    loss, h = losses.MulticlassLog(), 1e-5
    z, direction = np.array([0.0, 0.0, -1e3]), np.array([1.0, -1.0, 0.0]) / math.sqrt(2)
    bend = joint_slopes(loss, z + h * direction, 0.0) - joint_slopes(loss, z - h * direction, 0.0)
    # the third class has no mass, so ½ is attained; a central difference errs by h²
    assert np.linalg.norm(bend) / (2 * h) == pytest.approx(losses.MulticlassLog.smoothness, rel=1e-6)


@pytest.mark.parametrize("far", [700.0, 1e4, 1e300])
def test_the_joint_log_loss_survives_extreme_scores(far):
    loss = losses.MulticlassLog()
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        z = np.array([far, -far, 0.0])
        assert losses.total_value(loss, z, 0.0) == pytest.approx(0.0, abs=1e-300)
        assert losses.total_value(loss, z, 1.0) == pytest.approx(2 * far, rel=1e-15)
        np.testing.assert_allclose(joint_slopes(loss, z, 1.0), [1.0, -1.0, 0.0], atol=1e-300)


@law(z=st.lists(scores, min_size=2, max_size=2).map(np.array), y=st.integers(0, 1))
@pytest.mark.parametrize(
    ("joint", "binary"),
    [(losses.MulticlassHinge(1.0 - np.eye(2)), losses.Hinge()), (losses.MulticlassLog(), losses.Log())],
    ids=["hinge", "log"],
)
def test_a_joint_loss_of_two_classes_is_the_binary_one_of_the_difference(joint, binary, z, y):
    margin, sign = z[1] - z[0], 2.0 * y - 1.0
    expected, g = losses.value(binary, margin, sign), losses.slope(binary, margin, sign)
    assert losses.total_value(joint, z, float(y)) == pytest.approx(expected, rel=1e-12, abs=slack(*z))
    assume(abs(sign * margin - 1.0) > 1e-9)  # at the kink either slope is right
    np.testing.assert_allclose(joint_slopes(joint, z, float(y)), [-g, g], atol=slack(*z))


@law(z=three_scores, y=classes)
def test_the_cost_matrix_is_indexed_by_prediction_then_truth(z, y):
    own = int(y)
    expected = max(COST[r, own] + z[r] - z[own] for r in range(3))
    assert losses.total_value(losses.MulticlassHinge(COST), z, y) == pytest.approx(expected, rel=1e-12, abs=slack(*z))


# ---------------------------------------------------------------- one against the rest

OVR = [pytest.param(cls(), id=name) for name, cls in losses.BINARY.items()]
POSITIVE = np.array([0.5, 1.0, 3.0])


@pytest.mark.parametrize("loss", OVR)
@law(z=three_scores, y=classes)
def test_one_against_the_rest_is_the_sum_of_its_binary_problems(loss, z, y):
    target = losses.OneVsRest(loss, POSITIVE)
    signs = np.where(np.arange(3) == y, 1.0, -1.0)
    weights = np.where(np.arange(3) == y, POSITIVE, 1.0)
    values = [w * losses.value(loss, zc, s) for w, zc, s in zip(weights, z, signs)]
    gradients = [w * losses.slope(loss, zc, s) for w, zc, s in zip(weights, z, signs)]
    parts = np.full(3, 7.0)
    losses.output_values(target, z, y, parts)
    np.testing.assert_allclose(parts - 7.0, values, atol=slack(7.0, *values))
    assert losses.total_value(target, z, y) == pytest.approx(sum(values), rel=1e-12)
    np.testing.assert_array_equal(joint_slopes(target, z, y), gradients)
    assert [losses.output_label(target, y, c) for c in range(3)] == list(signs)
    assert [losses.output_weight(target, y, c) for c in range(3)] == list(weights)
    total = losses.total_value(target, z, y) + losses.total_conjugate(target, np.array(gradients), y)
    assert total == pytest.approx(float(np.dot(gradients, z)), rel=1e-9, abs=slack(*values, *(z * gradients)))


@pytest.mark.parametrize("loss", OVR)
def test_a_class_of_weight_zero_drops_out(loss):
    target, z = losses.OneVsRest(loss, np.array([0.0, 1.0])), np.array([-3.0, -2.0])
    assert losses.total_value(target, z, 0.0) == losses.value(loss, -2.0, -1.0)
    g = joint_slopes(target, z, 0.0)
    assert g[0] == 0.0
    assert math.isfinite(losses.total_conjugate(target, g, 0.0))


def test_single_is_the_scalar_loss():
    target, z = losses.Single(losses.Hinge()), np.array([0.25])
    assert losses.total_value(target, z, -1.0) == 1.25
    assert joint_slopes(target, z, -1.0)[0] == 1.0
    assert losses.total_conjugate(target, np.array([0.5]), -1.0) == -0.5


@pytest.mark.parametrize("y", [0.0, 1.0, 2.5])
def test_the_conjugate_of_a_structured_loss_meets_it_at_its_slopes(y):
    loss = losses.StructuredHinge()
    for z in (y - 3.0, y - 0.5, y + 2.0):
        g = losses.slope(loss, z, y)
        assert losses.value(loss, z, y) + losses.conjugate(loss, g, y) == pytest.approx(g * z, abs=ROUNDING)
    assert losses.conjugate(loss, 0.5, y) == losses.conjugate(loss, -1.5, y) == math.inf


# ---------------------------------------------------------------- compiled


@compiled
def _compiled_parts(target, Z, y, values, G, conjugates):
    for i in range(y.size):
        values[i] = losses.total_value(target, Z[i], y[i])
        losses.slopes(target, Z[i], y[i], G[i])
        conjugates[i] = losses.total_conjugate(target, G[i], y[i])


COMPILED = [
    *(losses.Single(built(cls)[-1]) for cls in (*losses.BINARY.values(), *losses.REGRESSION.values())),
    losses.OneVsRest(losses.Log(), POSITIVE),
    *(built(cls)[-1] for cls in losses.JOINT.values()),
]


def _name(target):
    return "-".join(type(part).__name__ for part in (target, losses.scalar_loss(target)) if part is not None)


@pytest.mark.parametrize("target", COMPILED, ids=_name)
def test_the_conjugates_of_the_outputs_sum_to_that_of_the_row(target, rng):
    outputs = 1 if isinstance(target, losses.Single) else 3
    for y in (0.0, 1.0, 2.0) if outputs == 3 else (-1.0, 1.0):
        g, parts = joint_slopes(target, rng.normal(size=outputs), y), np.zeros(outputs)
        losses.output_conjugates(target, g, y, 0.5, parts)
        expected = losses.total_conjugate(target, g, y)
        assert 2.0 * parts.sum() == pytest.approx(expected, rel=ROUNDING, abs=ROUNDING)
        assert not losses.is_joint(target) or not parts[1:].any()


@pytest.mark.parametrize("target", COMPILED, ids=_name)
def test_a_compiled_loss_is_the_interpreted_one(target, rng):
    n, outputs = 200, 1 if isinstance(target, losses.Single) else 3
    Z = np.concatenate([rng.normal(size=(n // 2, outputs)), 300 * rng.normal(size=(n // 2, outputs))])
    y = rng.integers(0, 3, n).astype(float) if outputs == 3 else rng.choice([-1.0, 1.0], n)
    got = np.empty(n), np.empty((n, outputs)), np.empty(n)
    _compiled_parts(target, Z, y, *got)
    expected = np.empty(n), np.empty((n, outputs)), np.empty(n)
    _compiled_parts.py_func(target, Z, y, *expected)
    for one, other in zip(got, expected):
        # multiply-adds may be fused and sums re-ordered when compiled: a few roundings of scores up to 1e3
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
