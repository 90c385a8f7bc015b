"""Training on chunks: each row once an epoch, λ of the whole, the memory of the source."""

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from widemargin import SVC, BudgetedSVC, IncrementalSVC, LinearSVC, LinearSVR
from widemargin.data import Generated, InMemory, train


class Listener:
    """Notes what it is taught."""

    def __init__(self):
        self.chunks = []

    def partial_fit(self, X, y, classes=None):
        self.chunks.append((X.copy(), y.copy(), classes))
        return self


def numbered(n=3000, **options):
    X = np.arange(2.0 * n).reshape(n, 2)
    return InMemory(X, np.arange(n) % 3, max_memory=16_000, **options), X


def test_each_epoch_has_each_row_once_in_its_own_order():
    source, X = numbered()
    model = Listener()
    assert train(model, source, epochs=3, random_state=1) is model
    rows = np.concatenate([A for A, _, _ in model.chunks]).reshape(3, *X.shape)
    for epoch in rows:
        np.testing.assert_array_equal(np.sort(epoch[:, 0]), X[:, 0])
    assert not np.array_equal(rows[0], rows[1])
    assert all(np.array_equal(A[:, 0] // 2 % 3, y) for A, y, _ in model.chunks)
    assert all(classes.tolist() == [0, 1, 2] for _, _, classes in model.chunks)
    assert max(A.nbytes for A, _, _ in model.chunks) <= 16_000 / 4
    again = train(Listener(), source, epochs=3, random_state=1)
    np.testing.assert_array_equal(np.concatenate([A for A, _, _ in again.chunks]).reshape(rows.shape), rows)
    plain = train(Listener(), source, shuffle=False)
    np.testing.assert_array_equal(np.concatenate([A for A, _, _ in plain.chunks]), X)


def test_lambda_is_that_of_all_rows_and_the_parameter_comes_back(rng):
    X = rng.normal(size=(600, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=600) > 0
    seen = []
    source = InMemory(X, y, max_memory=8000)
    model = train(LinearSVC(C=2.0, random_state=0), source, epochs=2, callbacks=lambda p: seen.append(p.model.lam))
    assert set(seen) == {1.0 / (2.0 * 600)}
    assert model.lam is None
    given = train(LinearSVC(lam=0.5, random_state=0), source, callbacks=lambda p: seen.append(p.model.lam))
    assert seen[-1] == given.lam == 0.5

    def fails(passed):
        raise RuntimeError("no")

    failed = LinearSVC(C=2.0)
    with pytest.raises(RuntimeError, match="no"):
        train(failed, source, callbacks=fails)
    assert failed.lam is None


def test_in_order_it_is_the_stream_of_partial_fits(rng):
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] > 0).astype(int)
    source = InMemory(X, y, max_memory=4000)
    trained = train(LinearSVC(C=1.0, random_state=3), source, epochs=2, shuffle=False)
    by_hand = LinearSVC(lam=1 / 300, random_state=3)
    for _ in range(2):
        for A, b in source:
            by_hand.partial_fit(A, b, classes=[0, 1])
    np.testing.assert_array_equal(trained.coef_, by_hand.coef_)


@pytest.mark.parametrize("model", [BudgetedSVC(20, gamma=0.5, random_state=0), SGDClassifier(random_state=0)])
def test_any_estimator_with_partial_fit_is_trained(model, rng):
    X = rng.normal(size=(1000, 3))
    y = np.where(X[:, 0] > 0, "up", "down")
    source = InMemory(X, y, max_memory=8000)
    assert train(model, source, epochs=3, random_state=0).score(X, y) > 0.85


def test_regression_and_incremental_machines(rng):
    X = rng.normal(size=(300, 3))
    source = InMemory(X, X[:, 0], max_memory=8000)
    assert train(LinearSVR(epsilon=0.0, C=10.0, random_state=0), source, epochs=5).score(X, X[:, 0]) > 0.0
    labelled = InMemory(X, X[:, 0] > 0, max_memory=8000)
    assert train(IncrementalSVC(gamma=0.5), labelled).score(X, X[:, 0] > 0) > 0.8
    with pytest.raises(ValueError, match="epochs must be 1 for IncrementalSVC"):
        train(IncrementalSVC(), labelled, epochs=2)


def test_it_ends_when_told():
    source, _ = numbered()
    model = Listener()
    train(model, source, callbacks=lambda passed: passed.rows >= 400)
    assert 400 <= sum(len(y) for _, y, _ in model.chunks) < 1000
    limited = Listener()
    train(limited, source, epochs=1000, max_seconds=1e-9)
    assert len(limited.chunks) == 1


def test_ctrl_c_keeps_the_model():
    source, _ = numbered()

    class Interrupted(Listener):
        classes_ = np.arange(3)

        def partial_fit(self, X, y, classes=None):
            if len(self.chunks) == 2:
                raise KeyboardInterrupt
            return super().partial_fit(X, y, classes)

    model = train(Interrupted(), source)
    assert len(model.chunks) == 2
    assert model.stop_reason_ == "interrupted"


def test_ctrl_c_before_the_first_chunk_leaves_a_fitted_model_as_it_is(rng):
    class Interrupted(InMemory):
        def shuffled(self, rng):
            raise KeyboardInterrupt

    X = rng.normal(size=(50, 2))
    source = Interrupted(X, X[:, 0] > 0.0)
    with pytest.raises(KeyboardInterrupt):
        train(LinearSVC(), source)
    model = LinearSVC(solver="pegasos", random_state=0).fit(X, X[:, 0] > 0.0)
    before = model.coef_.copy()
    assert train(model, source) is model
    assert (model.stop_reason_, model.lam) == ("interrupted", None)
    np.testing.assert_array_equal(model.coef_, before)


def test_what_cannot_be_trained_is_told():
    source, _ = numbered()
    with pytest.raises(TypeError, match="has no partial_fit"):
        train(SVC(), source)
    with pytest.raises(ValueError, match="holds no examples"):
        train(Listener(), Generated(lambda k: None, 0), classes=[0, 1])
    with pytest.raises(ValueError, match="more than ten thousand labels"):
        train(Listener(), InMemory(np.ones((10_001, 1)), np.arange(10_001.0)))
