"""Sparse rows that point outside of their matrix are refused in a sentence by all that takes rows, and hurt nothing."""

import os
import re

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import (
    SVC,
    SVR,
    BudgetedSVC,
    BudgetedSVR,
    IncrementalSVC,
    LinearSVC,
    LinearSVR,
    Simba,
    TwoWays,
    pareto_path,
    svm_path,
)
from widemargin.core.rows.rows import checked_sparse
from widemargin.data import FourierFeatures, InMemory, write_data
from widemargin.estimators.grids import svm_grid
from widemargin.teaching import RandomTeacher, teach

N, D = 20, 5
LABELS = np.arange(N) % 2
TARGETS = np.linspace(-1.0, 1.0, N)
STRAYS = [10**6, 2**31 - 1, -(2**31), 99, -7]
ESTIMATORS = [
    pytest.param(LinearSVC, {}, id="LinearSVC"),
    pytest.param(LinearSVR, {}, id="LinearSVR"),
    pytest.param(SVC, {"gamma": 0.5}, id="SVC"),
    pytest.param(SVR, {"gamma": 0.5}, id="SVR"),
    pytest.param(BudgetedSVC, {"budget": 8, "gamma": 0.5, "lam": 1e-2}, id="BudgetedSVC"),
    pytest.param(BudgetedSVR, {"budget": 8, "gamma": 0.5, "lam": 1e-2}, id="BudgetedSVR"),
    pytest.param(IncrementalSVC, {"gamma": 0.5}, id="IncrementalSVC"),
]


def drawn(index=np.int32, kind=sp.csr_matrix):
    """Sparse rows, of which the fourth has entries."""
    values = np.random.default_rng().normal(size=(N, D)) * (np.arange(N)[:, None] % 4 != np.arange(D))
    X = kind(values)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def strayed(stray, index=np.int32):
    """(X with one index changed, the row that it is in)."""
    X = drawn(index)
    at = int(np.random.default_rng().integers(X.nnz))
    X.indices[at] = stray
    return X, int(np.searchsorted(X.indptr, at, side="right")) - 1


def refused(call, *words):
    with pytest.raises(ValueError, match=".*".join(map(re.escape, words))):
        call()


def named(row, stray):
    return f"row {row} names column {stray}, but X has {D} columns (0..{D - 1})"


def of_rows(model, y):
    """All that an estimator does with rows, by name."""
    methods = ("fit", "partial_fit", "predict", "decision_function", "predict_proba", "predict_log_proba", "score")
    for name in methods:
        if hasattr(model, name):
            method = getattr(model, name)
            yield name, method if "predict" in name or "decision" in name else lambda X, method=method: method(X, y)


@pytest.mark.parametrize(("estimator", "parameters"), ESTIMATORS)
def test_each_method_names_the_row_and_the_column_that_is_not_there(estimator, parameters):
    y = TARGETS if estimator.__name__.endswith("R") else LABELS
    model = estimator(**parameters).fit(drawn(), y)
    found = dict(of_rows(model, y))
    assert {"fit", "predict", "score"} <= set(found)
    for name, method in found.items():
        for stray in STRAYS:
            for index in (np.int32, np.int64):
                X, row = strayed(stray, index)
                refused(lambda method=method, X=X: method(X), named(row, stray))
        method(drawn(np.int64))
        assert np.isfinite(model.predict(drawn())).all(), name


@pytest.mark.parametrize("stray", STRAYS)
def test_all_else_that_takes_rows_refuses_them(stray, tmp_path):
    X, row = strayed(stray)
    said = named(row, stray)
    learner = LinearSVC(solver="pegasos").fit(drawn(), LABELS)
    refused(lambda: teach(learner, X, RandomTeacher(), LABELS, labels=3), said)
    refused(lambda: svm_path(X, LABELS, [1.0], gamma=0.5), said)
    refused(lambda: pareto_path(X, LABELS, Cs=[1.0], gamma=0.5), said)
    refused(lambda: svm_grid(X, LABELS, Cs=[1.0], gammas=[0.5]), said)
    refused(lambda: InMemory(X, LABELS), said)
    refused(lambda: FourierFeatures(X, 4, 1.0), said)
    for suffix in ("svm", "npz", "csv", "parquet"):
        refused(lambda suffix=suffix: write_data(tmp_path / f"data.{suffix}", X, LABELS), said)
    refused(lambda: TwoWays(X, drawn().tocsc()), f"row {row} names column {stray}, but rows has {D} columns")
    across = drawn().T.tocsc()
    across.indices[0] = stray
    refused(lambda: TwoWays(drawn(), across), f"names row {stray}, but columns has")

    class Stray:
        shape = (N, D)

        def row(self, i):
            line = sp.csr_array(np.ones((1, D)))
            line.indices[2] = stray
            return line

        def column(self, j):
            return np.ones(N)

    simba = LinearSVC(solver=Simba(nu=0.1), max_iter=1, tol=0)
    refused(lambda: simba.fit(Stray(), LABELS), f"row 0 names column {stray}, but the line has {D} columns")


def test_each_layout_is_looked_at_before_it_is_converted():
    for kind, names in ((sp.csc_matrix, "column"), (sp.bsr_matrix, "block of rows")):
        X = kind(np.ones((6, 4)))
        X.indices[0] = 10**6
        refused(lambda X=X: LinearSVC().fit(X, [0, 1] * 3), f"{names} 0 names")
    X = sp.coo_matrix(np.ones((6, 4)))
    X.col[7] = -3
    refused(lambda X=X: LinearSVC().fit(X, [0, 1] * 3), "entry 7 names column -3, but X has 4 columns (0..3)")
    X = sp.lil_matrix(np.ones((6, 4)))
    X.rows[2][1] = 17
    refused(lambda X=X: LinearSVC().fit(X, [0, 1] * 3), "row 2 names column 17")


@pytest.mark.parametrize("stray", [*STRAYS, D, -1])  # with the next on either side
def test_a_line_of_one_dimension_is_looked_at_as_a_row(stray):
    lines = sp.coo_array(np.ones(D)), sp.coo_array(np.ones(D))
    if lines[0].ndim == 2:
        pytest.skip("this SciPy has no sparse arrays of one dimension")
    compressed = lines[1].tocsr()
    assert checked_sparse(lines[0]) is lines[0]
    assert checked_sparse(compressed) is compressed
    lines[0].coords[0][2] = compressed.indices[2] = stray
    for line in (lines[0], compressed):
        refused(lambda line=line: checked_sparse(line, "it"), f"names column {stray}, but it has {D} columns")


def test_keys_and_diagonals_are_looked_at_too():
    keys, diagonals = sp.dok_array(np.eye(3)), sp.dia_array(np.eye(3))
    for X in (keys, diagonals):
        np.testing.assert_array_equal(checked_sparse(X).toarray(), np.eye(3))
    keys._dict[(1, 99)] = 1.0
    refused(lambda: LinearSVC().fit(keys, [0, 1, 1]), "99")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X: X.indptr.__setitem__(3, X.nnz + 5), "does not rise"),
        (lambda X: X.indptr.__setitem__(3, -1), "does not rise"),
        (lambda X: X.indptr.__setitem__(-1, 10**6), "does not rise"),
        (lambda X: X.indptr.__setitem__(0, 1), "does not rise"),
        (lambda X: setattr(X, "indptr", X.indptr[:-1]), f"needs an indptr of {N + 1} whole numbers"),
        (lambda X: setattr(X, "indptr", X.indptr.astype(float)), "whole numbers"),
        (lambda X: setattr(X, "indices", X.indices.astype(float)), "no whole numbers"),
        (lambda X: setattr(X, "indices", X.indices[:-1]), "has data of shape"),
        (lambda X: setattr(X, "data", X.data[:3]), "has data of shape"),
        (lambda X: setattr(X, "data", np.append(X.data, 1.0)), "has data of shape"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change, said):
    X, model = drawn(), LinearSVC().fit(drawn(), LABELS)
    change(X)
    for call in (lambda: model.predict(X), lambda: LinearSVC().fit(X, LABELS)):
        refused(call, "X ", said, "make it anew")


def test_what_is_whole_passes_as_it_is():
    """Empty rows, no entries, no rows, unsorted and repeated entries, and room behind the last one."""
    X = drawn()
    assert checked_sparse(X) is X
    for whole in (sp.csr_matrix((N, D)), X[:0], sp.csr_array((3, 0)), X[::-1].tocsc(), sp.coo_array(X)):
        assert checked_sparse(whole) is whole
    unsorted = sp.csr_matrix((np.ones(3), [4, 1, 1], [0, 3]), shape=(1, D))
    roomy = drawn()
    roomy.data, roomy.indices = np.append(roomy.data, 7.0), np.append(roomy.indices, np.int32(99))
    assert checked_sparse(unsorted) is unsorted
    assert checked_sparse(roomy) is roomy
    model = LinearSVC().fit(X, LABELS)
    np.testing.assert_allclose(model.decision_function(unsorted), model.decision_function(unsorted.toarray()))


def test_a_part_of_a_cluster_refuses_them():
    examples = pytest.importorskip("widemargin.dask.examples")
    X, row = strayed(99)
    refused(lambda: examples.assembled([drawn(), X], [LABELS, LABELS], [], False), named(row, 99))


def test_an_archive_of_data_refuses_them(tmp_path):
    from widemargin.data import open_data

    path, X = os.fspath(tmp_path / "data.npz"), drawn()
    write_data(path, X, LABELS)
    arrays = dict(np.load(path, allow_pickle=False))
    arrays["indices"] = arrays["indices"].astype(np.int64)
    arrays["indices"][3] = 2**32 + 1
    np.savez(path, **arrays)
    refused(lambda: open_data(path).load(), "an index is not below 5")
