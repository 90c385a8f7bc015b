"""What a certificate by a sample of the scores allows for, and what it takes the scores of the others to be off by."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import SMO, SVC
from widemargin.core.kernels.kernels import Linear
from widemargin.estimators.fit import proof
from widemargin.estimators.fit.proof import BEYOND, SAMPLES, UNLIKELY, Draw, Exact
from widemargin.estimators.fit.session import exact_for
from widemargin.problems.layout import Preparation

#: What float32 rounds scores by, and the size of their errors here.
ROUNDED, ERROR = 1e-9, 1e-6


def examples(rng, n=3000):
    """Labels, caps and scales of examples of very different weight; all of them matter."""
    cap, reach = 10.0 ** rng.uniform(-2, 2, n), rng.uniform(0.1, 10.0, n)
    return rng.choice([-1.0, 1.0], n), cap, 1.0 + reach * cap.sum() / (cap @ reach)


def seen(draw, size, half, moved, lost):
    """The draw when so many examples were compared, in two parts: ½β, changes of their scores and of their losses."""
    for part in (draw.which[: size // 2], draw.which[size // 2 : size]):
        draw.add(np.abs(moved[part]), lost[part], half[part] * moved[part])
    return draw


@pytest.mark.parametrize("size", SAMPLES)
@pytest.mark.parametrize("worse", ["primal", "dual"])
def test_equal_errors_are_allowed_for_by_the_formula(worse, size, rng):
    """Each moves the one value by a half of what it may at most."""
    y, cap, scale = examples(rng)
    half, moved = 0.5 * cap * y, -ERROR * scale * y
    lost = ERROR * scale if worse == "primal" else np.zeros(cap.size)
    draw = seen(Draw(np.abs(half), cap, np.zeros(cap.size), scale - 1.0, ROUNDED), size, half, moved, lost)
    share = UNLIKELY / size
    most = min(1.0, 0.5 + np.sqrt(0.5 * share)) + min(1.0, share) * np.log(BEYOND)
    off = draw.off(size)[["primal", "dual"].index(worse)]
    np.testing.assert_allclose(off, ERROR * (cap @ scale) * most, rtol=1e-9)


def test_rare_large_errors_change_no_more_than_is_allowed_for(rng):
    """The share of weight with errors above t falls as 1/t, up to the largest that is assumed."""
    for size in SAMPLES:
        y, cap, scale = examples(rng)
        half, missed = 0.5 * rng.random(cap.size) * cap * y, ROUNDED * rng.normal(size=cap.size)
        moved = ERROR * scale * np.minimum(1.0 / rng.random(cap.size), BEYOND) * rng.choice([-1.0, 1.0], cap.size)
        lost = np.maximum(missed - y * moved, 0.0) - np.maximum(missed, 0.0)
        draw = seen(Draw(np.abs(half), cap, missed, scale - 1.0, ROUNDED), size, half, moved, lost)
        primal, dual = draw.off(size)
        assert np.maximum(cap * lost + half * moved, 0.0).sum() <= primal
        assert np.maximum(-half * moved, 0.0).sum() <= dual


def test_examples_that_are_far_from_a_loss_are_not_drawn_and_have_one_by_the_largest_error(rng):
    y, cap, scale = examples(rng)
    half, far = 0.5 * cap * y, rng.random(cap.size) < 0.3
    half[far] = 0.0
    missed = np.where(far, -rng.uniform(0.5, 1.5, cap.size) * BEYOND * ERROR, 0.0)
    moved = -ERROR * y
    near = Draw(np.abs(half), cap, np.where(far, -1.0, 0.0), scale - 1.0, ROUNDED)
    draws = [near, Draw(np.abs(half), cap, missed, scale - 1.0, ROUNDED)]
    assert not far[draws[1].which].any()
    (less, dual), (more, same) = (seen(draw, 64, half, moved, np.full(cap.size, ERROR)).off(64) for draw in draws)
    assert same == dual
    np.testing.assert_allclose(more - less, cap[far] @ np.maximum(missed[far] + BEYOND * ERROR, 0.0), rtol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_rounding_grows_with_rows_as_products_of_their_features_do(kernel, rng):
    X = rng.normal(size=(200, 3)) * 10.0 ** rng.uniform(-1, 0.5, (200, 1)) * (rng.random((200, 3)) < 0.5)
    model = SVC(kernel=kernel, gamma=0.5, intercept="none", max_iter=3, tol=0).fit(sp.csr_matrix(X), X[:, 0] > 0)
    exact = exact_for(model, sp.csr_matrix(X), np.arange(200), model._model.kernel)
    machine = replace(model._model, vectors=exact.vectors(model._model.support))
    others = rng.choice(200, 60, replace=False)
    found, sizes = exact.reach(machine, others, 200), np.linalg.norm(X, axis=1)
    known = np.isin(np.arange(200), np.union1d(others, model.support_))
    np.testing.assert_allclose(found, np.where(known, 0.5 * sizes**2 if kernel == "rbf" else sizes, 0.0), rtol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_scores_have_room_for_sums_of_products_that_are_off_by_as_much_as_they_may(kernel, rng):
    """m products of features are off by mu‖x‖‖z‖; kernel values by that, or as γ times sums of three of them."""
    n, m, u = 16, 400, 2.0**-53
    X, y = rng.normal(size=m) + 1e-2 * rng.normal(size=(n, m)), np.arange(n) % 2
    model = SVC(kernel=kernel, gamma=0.5, intercept="none", max_iter=3, tol=0).fit(sp.csr_matrix(X), y)
    exact = exact_for(model, sp.csr_matrix(X), np.arange(n), model._model.kernel)
    machine = replace(model._model, vectors=exact.vectors(model.support_))
    error, Z, sizes = exact.scores(machine, np.arange(n))[1][:, 0], X[model.support_], np.linalg.norm(X, axis=1)
    off = m * u * np.outer(sizes, sizes[model.support_])
    if kernel == "rbf":
        off = m * u * np.add.outer(sizes, sizes[model.support_]) ** 2
        off *= 0.5 * np.exp(-0.5 * np.sum((X[:, None] - Z) ** 2, axis=2))
    assert (off @ np.abs(model.dual_coef_[0]) <= error).all()


def test_the_dual_value_is_that_of_what_the_model_is_a_multiple_of(rng, monkeypatch):
    calls, sampled, own = [], Exact._sampled, SMO.scores
    monkeypatch.setattr(Exact, "_sampled", lambda *call: calls.append(call) or sampled(*call))
    monkeypatch.setattr(SMO, "scores", lambda *given: (own(*given)[0], 3.0))
    X = rng.normal(size=(700, 3))
    SVC(gamma=0.5).fit(X, X[:, 0] + rng.normal(size=700) > 0.0)
    *rest, times, allowed = calls[0]
    assert times == 3.0
    once, thrice = (next(sampled(*rest, factor, allowed)) for factor in (1.0, times))
    assert thrice[1] > once[1]


def test_parts_of_a_sample_tell_what_the_whole_does(rng):
    """The largest error counts in whichever part it was seen."""
    y, cap, scale = examples(rng)
    far = np.arange(cap.size) % 4 == 0
    half, missed = np.where(far, 0.0, 0.5 * cap * y), np.where(far, -BEYOND * ERROR, 0.0)
    draws = [Draw(np.abs(half), cap, missed, scale - 1.0, ROUNDED) for _ in range(2)]
    moved = ERROR * rng.permutation(np.linspace(0.1, 3.0, cap.size))
    which = draws[0].which[:128]
    order = which[np.argsort(-moved[which])]  # the largest come first
    for draw, cuts in zip(draws, ((0, 128), (0, 50, 128)), strict=True):
        draw.which[:128] = order
        for first, last in pairwise(cuts):
            part = order[first:last]
            draw.add(moved[part], np.zeros(part.size), np.zeros(part.size))
    np.testing.assert_allclose(draws[0].off(128), draws[1].off(128), rtol=1e-12)


def test_half_of_what_is_drawn_goes_by_what_errors_change_alone(rng):
    """One row of enormous size takes no more than the other half."""
    _, cap, _ = examples(rng)
    reach = np.where(np.arange(cap.size) == rng.integers(cap.size), 1e9, 1.0)
    draw = Draw(0.5 * cap, cap, np.zeros(cap.size), reach, ROUNDED)
    assert (draw.weight >= cap).all()
    np.testing.assert_allclose(draw.weight.sum(), 2.0 * cap.sum())


def test_coefficients_that_do_not_add_up_to_zero_cost_the_dual_value_what_it_takes_to_mend_them(rng, monkeypatch):
    calls, sampled = [], Exact._sampled
    monkeypatch.setattr(Exact, "_sampled", lambda *call: calls.append(call) or sampled(*call))
    X = rng.normal(size=(700, 3))
    SVC(gamma=0.5).fit(X, X[:, 0] + rng.normal(size=700) > 1.5)
    exact, binary, beta, model, responses, *rest = calls[0]
    f, used = responses[0] - model.intercept[0], np.flatnonzero(beta[0])
    before, more = next(sampled(*calls[0])), beta.copy()
    change = 0.1 * np.sign(model.intercept[0])
    more[0, used[0]] += change
    after = next(sampled(exact, binary, more, model, responses, *rest))
    costs = np.abs(change * (binary.y[0] - f)[used] - 0.5 * change**2)
    assert costs.min() > 0.0
    assert after[1] - before[1] >= binary.lam * costs.min() * 0.9  # half of βᵢ is drawn by, too


def test_scores_that_are_not_computed_are_taken_to_be_off_by_more_than_any_that_were_seen(rng):
    """Those of support vectors and of examples with a loss come first, then those that errors may bring one."""
    n = 2000
    known, beta = rng.normal(size=(1, n)), np.where(rng.random((1, n)) < 0.1, 1.0, 0.0)
    missed, wrong = rng.uniform(-1e-3, 1e-4, (1, n)), rng.uniform(0.0, 1e-5, (1, n))
    wrong[(beta == 0.0) & (missed < 0.0)] *= 3.0
    error, computed = np.full((1, n), 1e-7), np.zeros(n, bool)

    def score(rows):
        computed[rows] = True
        return (known + wrong)[:, rows], error[:, rows]

    scores, off = Exact._scored(SimpleNamespace(_rounded=lambda beta: ROUNDED), missed, beta, known, score)
    first = (beta[0] != 0.0) | (missed[0] > 0.0)
    assert computed[first | (missed[0] > -BEYOND * wrong[0, first].max())].all()
    assert not computed.all()
    np.testing.assert_array_equal(scores, np.where(computed, known + wrong, known))
    np.testing.assert_array_equal(off[:, computed], error[:, computed])
    assert off[0, ~computed].min() >= BEYOND * wrong[0, computed].max()


@pytest.mark.parametrize("told", [False, True])
def test_after_ctrl_c_many_scores_have_a_moment_and_few_have_all_the_time_they_take(told, monkeypatch):
    clock = [5.0]
    monkeypatch.setattr(proof, "told", lambda: told)
    monkeypatch.setattr(proof, "now", lambda: clock[0])
    exact = Exact(Preparation(None, False, False), Linear(), np.ones((3, 2)), np.arange(3), 1.0)
    for later, values in ((10.0, proof.FREE), (0.5 * proof.GRACE, 1)):
        clock[0] = 5.0 + later
        exact._check_time(values)
    clock[0] = 5.0 + 2.0 * proof.GRACE
    with pytest.raises(proof.Late) if told else nullcontext():
        exact._check_time(1)
