"""Rows as kernels take them, and what is known of them before training."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.core.kernels.kernels import RBF, Laplacian, Linear
from widemargin.core.rows.rows import as_rows
from widemargin.problems import layout
from widemargin.problems.layout import largest_entry, longest_row


def test_the_longest_row_is_by_what_distances_are_made_of():
    rows = as_rows(np.array([[3.0, -4.0], [0.0, 0.0]]))
    assert longest_row(RBF(1.0), rows) == 25.0
    assert longest_row(Laplacian(1.0), rows) == 7.0
    assert longest_row(Linear(), rows) == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("place", [0, 36])
def test_the_largest_entry_is_that_of_all_parts_of_arrays_in_any_order(sign, place, rng, monkeypatch):
    monkeypatch.setattr(layout, "SOME_ENTRIES", 40)
    X = rng.uniform(-1.0, 1.0, (37, 6))
    X[place, 3] = 7.0 * sign
    for given in (X, np.asfortranarray(X), X[:, ::3], X.astype(np.float32), sp.csr_matrix(X), as_rows(X)):
        assert largest_entry(given) == 7.0
    X[place, 3] = np.nan
    assert np.isnan(largest_entry(X))
    assert largest_entry(X[:0]) == 0.0
