"""Generated data: unit rows, groups of the size asked for, and a separator of the length asked for."""

import numpy as np
import pytest
from scipy.optimize import nnls

from widemargin.data.generators import RareGroups, checkerboard, gauss, rare_groups, waveform


def norm2_of_separator(X, y):
    """B²: the separator with margin 1 and least norm is Z'a for the a ≥ 0 that minimises ‖Z'a‖² − 2·1'a.

    With G = ZZ' = LL' this is least squares of L'a to L⁻¹1, and B² = 1'a. Rows more than d make G singular: a little is
    added to its diagonal.
    """
    Z = y[:, None] * X.astype(np.float64)
    L = np.linalg.cholesky(Z @ Z.T + 1e-9 * np.eye(y.size))
    return float(nnls(L.T, np.linalg.solve(L, np.ones(y.size)), maxiter=100 * y.size)[0].sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_have_size_one_and_groups_their_share(rng, dtype):
    X, y, group = rare_groups(1000, 60, rng, groups=3, share=0.02, norm2=25.0, dtype=dtype)
    assert X.shape == (1000, 60)
    assert X.dtype == dtype
    assert np.count_nonzero(X) > X.size - 10  # a single number cancels to 0 once in millions, in float32
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, atol=1e-5 if dtype == np.float32 else 1e-12)
    assert np.bincount(group).tolist() == [940, 20, 20, 20]
    assert set(y) == {-1.0, 1.0}


@pytest.mark.parametrize("norm2", [25.0, 275.0])
@pytest.mark.parametrize("d", [100, 400])
def test_the_best_separator_has_the_norm_asked_for(rng, norm2, d):
    X, y, _ = rare_groups(400, d, rng, share=0.03, norm2=norm2, dtype=np.float64)
    # the noise of rows is orthogonal on average only: in d dimensions it helps a little more or less than the rule says
    assert norm2_of_separator(X, y) == pytest.approx(norm2, rel=0.15)


def test_the_separator_of_the_rule_has_margin_one_on_every_row(rng):
    made = RareGroups(500, 80, rng, share=0.02, norm2=60.0)
    X, y = made.rows(made.members(500, rng), rng, np.float64)
    a = np.sqrt(0.9 / (1.0 + made.kappa**2))
    w = made.directions.T @ np.append(1.0, np.full(made.groups, 1.0 + made.kappa)) / a
    np.testing.assert_allclose(y * (X @ w), 1.0, rtol=1e-9)


def test_the_same_seed_gives_the_same_data():
    first, second = (rare_groups(300, 40, np.random.default_rng(7), flipped=0.1, share=0.01) for _ in range(2))
    for one, other in zip(first, second):
        np.testing.assert_array_equal(one, other)


def test_flipped_labels_are_as_many_as_asked_for_and_rows_stay(rng):
    seed = int(rng.integers(2**32))
    X, y, _ = rare_groups(4000, 20, np.random.default_rng(seed))
    Z, t, _ = rare_groups(4000, 20, np.random.default_rng(seed), flipped=0.2)
    np.testing.assert_array_equal(X, Z)
    assert np.mean(y != t) == pytest.approx(0.2, abs=0.04)  # more than six standard deviations


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"norm2": 1.0}, r"norm2 must lie between .* for 4 rare groups of 1 rows, got 1.0"),
        ({"share": 0.25}, "share must be less than 1/groups = 0.25, got 0.25"),
        ({"flipped": 0.6}, "flipped must be a number from 0 to 0.5, got 0.6"),
        ({"groups": 9}, "d must be at least 11 for 9 rare groups, got 10"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(rng, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        rare_groups(100, 10, rng, **options)


def test_a_board_alternates_and_is_scaled(rng):
    X, y = checkerboard(20_000, rng)
    field = np.floor(X.astype(np.float64) * np.sqrt(4 / 3) + 2).astype(int)
    inside = np.all(np.abs(X * np.sqrt(4 / 3) - np.round(X * np.sqrt(4 / 3))) > 1e-4, axis=1)
    np.testing.assert_array_equal(field.sum(axis=1)[inside] % 2, y[inside])
    assert set(field[inside].ravel()) == {0, 1, 2, 3}
    # five standard errors of mean and variance of a uniform number
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=5 / np.sqrt(20_000))
    np.testing.assert_allclose(X.var(axis=0), 1.0, atol=5 * np.sqrt(0.8 / 20_000))


def test_clouds_and_waves_have_the_means_they_should(rng):
    X, y = gauss(40_000, rng, dtype=np.float64)
    for label, mean, spread in ((0, [0, 0], 1.0), (1, [2, 0], 2.0)):
        mine = X[y == label]
        np.testing.assert_allclose(mine.mean(axis=0), mean, atol=6 * spread / np.sqrt(len(mine)))
        np.testing.assert_allclose(mine.std(axis=0), spread, rtol=6 / np.sqrt(2 * len(mine)))
    X, y = waveform(30_000, rng)
    assert X.dtype == np.float32
    tops = [(11, 15), (11, 7), (15, 7)]
    for label, (one, other) in enumerate(tops):
        places = np.arange(1, 22)
        mean = 0.5 * sum(np.maximum(6 - np.abs(places - top), 0) for top in (one, other))
        mine = X[y == label]
        np.testing.assert_allclose(mine.mean(axis=0), mean, atol=6 * 2.0 / np.sqrt(len(mine)))
