"""scikit-learn's checks, without those that would compile a kind of loop for themselves alone."""

import pytest


def without(some, checks):
    """The mark of ``parametrize_with_checks``, less pairs of an estimator and a check whose names a pattern finds."""
    names, pairs = checks.args
    kept = [pair for pair in pairs if not some.search(" ".join(map(str, values(pair))))]
    assert len(kept) < len(pairs)
    return pytest.mark.parametrize(names, kept, **checks.kwargs)


def values(pair):
    return getattr(pair, "values", pair)  # those that are expected to fail come with a mark
