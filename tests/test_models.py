"""Models score rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin import models
from widemargin.core.kernels.kernels import RBF, BlackBox, Precomputed
from widemargin.core.rows.rows import DenseRows
from widemargin.models import KernelModel, LinearModel, PairsModel


@pytest.fixture
def model(rng):
    return LinearModel(rng.normal(size=(3, 5)), rng.normal(size=3))


def test_scores_are_the_matrix_product_plus_the_intercept(model, rng):
    X = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.5)
    expected = X @ model.coef.T + model.intercept
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-13, atol=1e-13)
    for container in (sp.csr_matrix, sp.csr_array):
        scores = model.decision_function(container(X))
        assert type(scores) is np.ndarray
        np.testing.assert_allclose(scores, expected, rtol=1e-13, atol=1e-13)


def test_scores_of_pairs_do_not_depend_on_how_many_rows_are_computed_together(rng, monkeypatch):
    V, X = rng.normal(size=(6, 3)), rng.normal(size=(150, 3))
    coef, offsets = rng.normal(size=(2, 6)), rng.normal(size=3)
    model = PairsModel(RBF(0.5), np.arange(6), DenseRows(V), coef, offsets, np.array([2, 4, 6]))
    monkeypatch.setattr(PairsModel, "VALUES", 6 * 64)  # two blocks of rows at a time
    K = np.exp(-0.5 * np.sum((X[:, None] - V) ** 2, axis=2))
    expected = np.empty((150, 3))
    for pair, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        # the coefficients of class i against j stand in row j − 1, those of j against i in row i
        own, other = slice(2 * i, 2 * i + 2), slice(2 * j, 2 * j + 2)
        expected[:, pair] = K[:, own] @ coef[j - 1, own] + K[:, other] @ coef[i, other] + offsets[pair]
    found = model.decision_function(DenseRows(X))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for threads in (2, 3):
        np.testing.assert_array_equal(model.decision_function(DenseRows(X), threads=threads), found)
    assert model.decision_function(DenseRows(X[:0]), threads=2).shape == (0, 3)
    # a function of users' rows is called by one thread
    model = PairsModel(BlackBox(lambda A, B: A @ B.T), np.arange(6), V, coef, offsets, np.array([2, 4, 6]))
    alone = model.decision_function(X)
    for threads in (2, 3):
        np.testing.assert_array_equal(model.decision_function(X, threads=threads), alone)


@given(st.integers(1, 10**6), st.integers(0, 10**5), st.integers(1, 100))
def test_all_threads_have_rows_to_score_and_none_takes_few_where_there_are_many(blocks, several, threads):
    found = models._blocks_in_piece(blocks, several, threads)
    each = -(-blocks // threads)  # as many as where each thread has one piece
    assert min(several, each) <= found <= each
    assert found == blocks if threads == 1 else found <= max(1, several, -(-each // models.PIECES))


@pytest.mark.parametrize("outputs", [1, 10])
@pytest.mark.parametrize("vectors", [50, 3000])
def test_scores_depend_neither_on_the_rows_beside_nor_on_threads(vectors, outputs, rng, monkeypatch):
    V, X = (rng.normal(size=(n, 3)).astype(np.float32) for n in (vectors, 1000))
    coef = rng.normal(size=(outputs, vectors))
    model = KernelModel(RBF(0.5), np.arange(vectors), DenseRows(V), coef, rng.normal(size=outputs))
    found = model.decision_function(DenseRows(X))
    K = np.exp(-0.5 * np.sum((X[:, None].astype(np.float64) - V) ** 2, axis=2))
    np.testing.assert_allclose(found, K @ coef.T + model.intercept, atol=1e-5 * np.abs(coef).sum())
    for n in (1, 33, 100, 1000):
        for threads in (1, 2, 3):
            np.testing.assert_array_equal(model.decision_function(DenseRows(X[:n]), threads=threads), found[:n])
    np.testing.assert_array_equal(model.decision_function(DenseRows(X[777:778])), found[777:778])
    monkeypatch.setattr(KernelModel, "VALUES", 40 * vectors)
    np.testing.assert_array_equal(model.decision_function(DenseRows(X), threads=2), found)


def test_a_table_without_a_column_for_each_support_vector_is_refused_in_a_sentence():
    table, support, two, ends = np.arange(16.0).reshape(2, 8), np.array([0, 7]), np.ones((1, 2)), np.array([1, 2])
    for model in (
        KernelModel(Precomputed(), support, None, two, np.zeros(1)),
        PairsModel(Precomputed(), support, None, two, np.zeros(1), ends),
    ):
        np.testing.assert_array_equal(np.ravel(model.decision_function(DenseRows(table))), table[:, 0] + table[:, 7])
        with pytest.raises(ValueError, match="the model has the example 7, and the kernel matrix 7 columns: give K"):
            model.decision_function(DenseRows(table[:, :7]))
