"""Data that is reached by row and by column: the same model as from a matrix, no more asked than needed, refusals."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import SDCA, SVC, BudgetedSVC, LinearSVC, LinearSVR, Pegasos, Simba, Source, TwoWays
from widemargin.data import FourierFeatures, Remembering
from widemargin.solvers.simba import steps

N, D = 60, 12


class Asked:
    """A source that notes what it was asked for."""

    def __init__(self, X):
        self.X, self.shape, self.rows, self.columns = X, X.shape, [], []

    def row(self, i):
        self.rows.append(i)
        return self.X[[i]] if sp.issparse(self.X) else self.X[i]

    def column(self, j):
        self.columns.append(j)
        return self.X[:, [j]] if sp.issparse(self.X) else self.X[:, j].tolist()


@pytest.fixture
def examples(rng):
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.7)
    return X, np.where(X @ rng.normal(size=D) + 0.1 > 0.0, "yes", "no")


def fitted(X, y, solver, **parameters):
    return LinearSVC(solver=solver, max_iter=3, tol=0, random_state=3, **parameters).fit(X, y)


def interpreted(X, y, solver, **parameters):
    """The same by steps that are interpreted, for sparse rows that are fetched: nothing else needs these compiled.

    They are parts of the loop on matrices, which is compiled for sparse rows too.
    """
    with pytest.MonkeyPatch.context() as plain:
        for name in ("choose_rows", "move", "answer"):
            plain.setattr(steps, f"{name}_now", getattr(steps, name))
        plain.setattr(steps, "larger", max)
        plain.setattr(steps, "smaller", min)
        return fitted(X, y, solver, **parameters)


def two_ways(X, tmp_path):
    """The matrix in memory and on disk, in either order and both."""
    for name, order in (("rows", "C"), ("columns", "F")):
        mapped = np.lib.format.open_memmap(tmp_path / name, "w+", X.dtype, X.shape, order == "F")
        mapped[:] = X
        mapped.flush()
    R, C = (np.load(tmp_path / name, mmap_mode="r") for name in ("rows", "columns"))
    assert R.flags.c_contiguous
    assert C.flags.f_contiguous
    return [TwoWays(X), TwoWays(np.asfortranarray(X)), TwoWays(R), TwoWays(C), TwoWays(R, C)]


@pytest.mark.parametrize(
    ("solver", "intercept"),
    [
        (Simba(nu=1e-2), "none"), (Simba(), "regularized"), (Simba(), "unregularized"),
        (Simba(nu=1e-3, rows_per_step=3, columns_per_step=2, columns="scaled"), "unregularized"),
        (Simba(level_sample=20, size=8.0), "regularized"),
    ],
)  # fmt: skip
def test_the_model_is_that_of_the_matrix(examples, solver, intercept, tmp_path):
    X, y = examples
    several = np.where(X[:, 0] > 0.5, "more", y)
    ways = (*two_ways(X, tmp_path), Asked(X))
    for labels, some in ((y, ways), (several, ways[-2:])):
        expected = fitted(X, labels, solver, intercept=intercept)
        for data in some:
            model = fitted(data, labels, solver, intercept=intercept)
            np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8)
            np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-8)
            for name in ("feature_reads", "first_reads"):
                np.testing.assert_array_equal(model.history_[name], expected.history_[name])
            np.testing.assert_allclose(model.decision_function(data), expected.decision_function(X), atol=1e-8)
            assert (model.certificate_ is None) == (solver.level_sample is not None)
    thin = sp.csr_array(X)
    expected = fitted(thin, y, solver, intercept=intercept)
    for fit, data in ((fitted, TwoWays(thin, thin.tocsc())), (interpreted, Asked(thin))):
        np.testing.assert_allclose(fit(data, y, solver, intercept=intercept).coef_, expected.coef_, atol=1e-8)


def test_only_what_is_counted_is_asked_for(examples):
    X, y = examples
    source = Asked(X)
    solver = Simba(nu=1e-2, level_sample=15, rows_per_step=2, columns_per_step=3)
    model = fitted(source, y, solver, intercept="none")
    steps = int(model.history_["steps"][-1])
    assert len(source.rows) == 15 + 2 * steps
    assert len(source.columns) <= 3 * steps
    assert model.history_["preparation_reads"][-1] == 15 * D
    assert model.history_["feature_reads"][-1] == D * (len(source.rows) - 15) + N * len(source.columns)
    looked, asked = set(source.rows[:15]), set(source.rows[15:])
    assert len(looked) == 15
    first = sum(i in asked or j in set(source.columns) for i in range(N) for j in range(D))
    assert model.history_["first_reads"][-1] == first
    assert isinstance(source, Source)
    assert fitted(Asked(X), y, "auto").history_["preparation_reads"][-1] == N * D  # fewer rows than are looked at


def test_a_limit_of_reads_ends_training_with_the_step_that_reaches_it(examples):
    X, y = examples
    for solver in (Simba(nu=1e-2, level_sample=10), Pegasos(), SDCA()):
        for data in (X, sp.csr_matrix(X)):
            limit = 3000
            model = LinearSVC(solver=solver, max_iter=10**6, tol=0, max_feature_reads=limit, random_state=1)
            model.fit(data, y)
            assert model.stop_reason_ == "max_feature_reads"
            reads = model.history_["feature_reads"][-1]
            # at most a step more, or what SDCA takes before its first
            assert limit <= reads <= limit + max(N + D, 2 * X.size if isinstance(solver, SDCA) else 0)
    with pytest.raises(ValueError, match="max_feature_reads must be > 0"):
        LinearSVC(max_feature_reads=0).fit(X, y)
    again = LinearSVC(solver=Simba(nu=1e-2), max_iter=1, tol=0, random_state=1, max_feature_reads=10**9).fit(X, y)
    assert again.stop_reason_ == "max_iter"


def test_values_that_were_paid_for_are_remembered(rng):
    X = rng.normal(size=(30, 8))

    class Shop(Asked):
        def __init__(self, X):
            super().__init__(X)
            self.sold = np.zeros(X.shape, int)

        def values(self, rows, columns):
            np.add.at(self.sold, (rows, columns), 1)
            return self.X[rows, columns]

    y = X[:, 0] > 0.0
    for source in (Shop(X), Asked(X), Asked(sp.csr_array(X))):
        known, fit = Remembering(source), interpreted if sp.issparse(source.X) else fitted
        model = fit(known, y, Simba(nu=1e-2, level_sample=5))
        np.testing.assert_allclose(model.coef_, fit(source, y, Simba(nu=1e-2, level_sample=5)).coef_, atol=1e-12)
        rows, columns = len(known._rows), len(known._columns)
        if isinstance(source, Shop):
            assert source.sold.max() == 1
            assert known.asked == source.sold.sum()
            assert known.asked == rows * 8 + columns * 30 - rows * columns
        else:
            assert known.asked == rows * 8 + columns * 30
        kept = known.row(3)
        np.testing.assert_array_equal(kept.toarray()[0] if sp.issparse(kept) else kept, X[3])


def test_features_that_a_sample_lacks_are_drawn_still(rng):
    X, y = rng.normal(size=(200, 3)), np.where(np.arange(200) % 2, 1, 0)
    X[:100, 2] = 0.0
    X[100:, 2] *= 10.0
    solver, drawn = Simba(nu=1e-2, columns="scaled", level_sample=1), []
    for seed in range(20):
        model = LinearSVC(solver=solver, max_iter=20, tol=0, random_state=seed, intercept="none").fit(X, y)
        if model._state.level_rows[0] < 100:  # with a chance of 1e-6 in none of them
            drawn.append(bool(model._state.columns_read[2]))
    assert drawn
    assert all(drawn)


def test_fourier_features_make_a_gaussian_kernel(rng):
    X, Z = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    features = FourierFeatures(X, n_features=4000, gamma=0.3, random_state=0)
    F = np.stack([features.row(i) for i in range(40)])
    np.testing.assert_allclose(F, np.stack([features.column(j) for j in range(4000)], axis=1), atol=1e-12)
    G = np.stack([features.of(Z).row(i) for i in range(30)])
    distances = np.sum((X[:, None] - Z[None]) ** 2, axis=2)
    # each product is a mean of 4000 numbers in [-2, 2]: off by 0.15 with a chance below 1e-9 (Hoeffding)
    assert np.abs(F @ G.T - np.exp(-0.3 * distances)).max() < 0.15 * np.sqrt(2.0)
    assert (np.linalg.norm(F, axis=1) <= np.sqrt(2.0)).all()
    thin = FourierFeatures(sp.csr_array(X), n_features=4000, gamma=0.3, random_state=0)
    np.testing.assert_allclose(thin.row(7), F[7], atol=1e-12)
    np.testing.assert_allclose(thin.column(7), F[:, 7], atol=1e-12)


def test_dual_ascent_takes_over_and_proves_a_gap(examples):
    X, y = examples
    solver = Simba(ascent_after=50)
    for data in (X, sp.csr_matrix(X), TwoWays(X)):
        if isinstance(data, TwoWays):
            solver = Simba(ascent_after=50, level_sample=N)
        model = LinearSVC(solver=solver, tol=1e-4, random_state=0).fit(data, y)
        exact = LinearSVC(solver="sdca", tol=1e-4, random_state=0).fit(X, y)
        assert model.stop_reason_ == "tol"
        assert 0.0 <= model.certificate_.gap <= 1e-4 * model.certificate_.primal
        assert model.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=2e-4)
    with pytest.raises(ValueError, match="ascent_after needs whole passes"):
        LinearSVC(solver=Simba(ascent_after=5)).fit(Asked(X), y)
    with pytest.raises(ValueError, match="rows in C order"):
        LinearSVC(solver=Simba(ascent_after=5)).fit(TwoWays(np.asfortranarray(X)), y)
    slow = LinearSVC(solver=Simba(ascent_after=4 * N), tol=1e-3, random_state=0).fit(X, y)
    assert slow.certificate_.gap <= 1e-3 * slow.certificate_.primal  # not before dual ascent
    with pytest.raises(ValueError, match="ascent_after reads all rows"):
        LinearSVC(solver=Simba(ascent_after=5, level_sample=5)).fit(X, y)


@pytest.mark.parametrize(("wrong", "sentence"), [
    (lambda X: TwoWays(X.astype(int)), "rows must be float32 or float64"),
    (lambda X: TwoWays(X, X[:, :3].copy()), "must be the same matrix"),
    (lambda X: TwoWays(X[:, ::2]), "C or Fortran order"),
    (lambda X: TwoWays(X.tolist()), "rows must be an array"),
    (lambda X: TwoWays(sp.csr_array(X)), "sparse rows have no columns"),
    (lambda X: TwoWays(X, sp.csc_array(X)), "both be sparse or both be arrays"),
    (lambda X: TwoWays(sp.csr_array(X), sp.csr_array(X)), "sparse columns must be CSC"),
])  # fmt: skip
def test_what_is_no_matrix_in_two_layouts_is_refused(examples, wrong, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        wrong(examples[0])


def test_sources_that_break_their_word_are_refused_in_a_sentence(examples):
    X, y = examples
    broken = X.copy()
    broken[:, 3] = np.nan
    short = Asked(X)
    short.row = lambda i: X[i, :-1]
    texts = Asked(X)
    texts.row = lambda i: ["a"] * D
    shapeless = Asked(X)
    shapeless.shape = "many"
    empty = Asked(X)
    empty.shape = (0, 3)
    for source, sentence in (
        (Asked(broken), r"Asked\.row\(\d+\) holds nan"),
        (short, rf"Asked\.row\(\d+\) must have {D} entries, got {D - 1}"),
        (texts, "must return an array of numbers"), (shapeless, "shape must be two integers"),
        (empty, "at least one example"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            fitted(source, y, Simba(nu=1e-2))
    half = SimpleNamespace(shape=X.shape, row=X.__getitem__)
    with pytest.raises(TypeError, match=r"column\(j\) .* got SimpleNamespace without column: add"):
        fitted(half, y, Simba(nu=1e-2))
    with pytest.raises(ValueError, match="as many examples, got 60 and 59"):
        fitted(Asked(X), y[1:], Simba(nu=1e-2))
    with pytest.raises(ValueError, match="SDCA makes passes"):
        fitted(Asked(X), y, "sdca")
    with pytest.raises(ValueError, match="early_stopping holds rows out"):
        fitted(Asked(X), y, "simba", early_stopping=True)
    with pytest.raises(ValueError, match="hinge"):
        LinearSVR().fit(Asked(X), X[:, 0])
    with pytest.raises(ValueError, match="requires y"):
        LinearSVC().fit(Asked(X), None)
    regressor = LinearSVR(random_state=0).fit(TwoWays(X), X[:, 0])
    np.testing.assert_allclose(regressor.predict(TwoWays(X)), regressor.predict(X))
    for estimator in (LinearSVR(), LinearSVC(), SVC(), BudgetedSVC()):
        learn = estimator.fit if isinstance(estimator, SVC) else estimator.partial_fit
        with pytest.raises(TypeError, match="give an array or a sparse matrix"):
            learn(Asked(X), X[:, 0] > 0.0)
    model = fitted(Asked(X), y, Simba(nu=1e-2))
    with pytest.raises(ValueError, match=f"X has {D - 1} features"):
        model.predict(Asked(X[:, 1:]))


def test_data_in_two_layouts_serves_every_linear_solver(examples):
    X, y = examples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for solver in ("auto", "sdca", "pegasos", "interior"):
            expected = fitted(X, y, solver).coef_
            for data in (TwoWays(X), TwoWays(X, np.asfortranarray(X)), TwoWays(np.asfortranarray(X))):
                np.testing.assert_allclose(fitted(data, y, solver).coef_, expected, rtol=1e-6, atol=1e-8)
