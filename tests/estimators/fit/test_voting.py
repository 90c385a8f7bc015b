"""Votes of the pairs of classes."""

import numpy as np

from widemargin import SVC


def test_scores_of_pairs_decide_between_equal_votes_and_never_against_more_of_them(rng):
    X, y = rng.normal(size=(90, 2)), rng.integers(0, 4, 90)
    model = SVC(100.0, gamma=5.0).fit(X, y)
    Z = 3.0 * rng.normal(size=(200, 2))
    votes, scores = model._votes(Z)
    assert (votes.sum(axis=1) == 6).all()
    assert (np.abs(scores - votes) < 1.0 / 3.0).all()
    assert (np.round(scores) == votes).all()
