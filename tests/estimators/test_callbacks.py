"""A callback can look at the model so far, with the rows that it would give the estimator."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, LinearSVC, LinearSVR
from widemargin.estimators.fit import pairs


def inner(A, B):
    product = A @ B.T
    return product.toarray() if sp.issparse(product) else product


MODELS = {
    # an exact solver that does not come to its tolerance returns its best checkpoint, not its last
    "LinearSVC": lambda **own: LinearSVC(tol=0.1, max_iter=10**5, random_state=0, **own),
    "LinearSVR": lambda **own: LinearSVR(tol=0.1, max_iter=10**5, random_state=0, **own),
    "LinearSVR-pegasos": lambda **own: LinearSVR(solver="pegasos", tol=0, max_iter=2, random_state=0, **own),
    "SVC": lambda **own: SVC(random_state=0, **own),
    "SVC-sbp": lambda **own: SVC(solver="sbp", random_state=0, **own),
    "SVC-linear": lambda **own: SVC(kernel="linear", random_state=0, **own),
    "SVC-callable": lambda **own: SVC(kernel=inner, random_state=0, **own),
    "SVR": lambda **own: SVR(random_state=0, **own),
    "BudgetedSVC": lambda **own: BudgetedSVC(10, random_state=0, **own),
    "BudgetedSVR": lambda **own: BudgetedSVR(10, random_state=0, **own),
}


def scores(model, X):
    """Of one output, whatever the estimator calls them."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("trained_on", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_a_model_in_a_callback_takes_what_the_estimator_takes(name, trained_on, rng):
    X = rng.normal(size=(60, 4)) + 3.0  # kernel machines centre dense rows, so this must be done to new ones too
    y = (X[:, 0] > 3.0).astype(int)
    new = rng.normal(size=(7, 4)) + 3.0
    seen = []

    def look(progress):
        seen.append([progress.model().decision_function(rows) for rows in (new, new.tolist(), sp.csc_matrix(new))])

    model = MODELS[name](callbacks=look).fit(trained_on(X), y)
    for found in seen[-1]:  # the last look is at the model that comes out
        assert found.shape == (7, 1)
        # the same sums, in another order where the layout or the buffer is another: float32 kernel values of vectors
        np.testing.assert_allclose(found[:, 0], scores(model, new), rtol=1e-3, atol=1e-4)


def test_a_model_in_a_callback_refuses_rows_of_another_width(rng):
    X = rng.normal(size=(60, 4))
    y, caught = (X[:, 0] > 0).astype(int), []

    def look(progress):
        with pytest.raises(ValueError, match="3 features, but"):
            progress.model().decision_function(X[:, :3])
        caught.append(True)

    for name in ("LinearSVC", "SVC", "BudgetedSVC"):
        MODELS[name](callbacks=look).fit(X, y)
    assert len(caught) >= 3


def test_a_model_kept_from_a_callback_stays_what_it_was(rng):
    """It knows how its own rows were laid out, not how those of the last fit were; and it can be pickled."""
    X, new = rng.normal(size=(60, 4)), rng.normal(size=(7, 4))
    y, kept = (X[:, 0] > 0).astype(int), []
    model = SVC(callbacks=lambda progress: kept.append(progress.model())).fit(X, y)
    expected = model.decision_function(new)
    model.set_params(callbacks=None).fit(X + 100.0, y)
    for one in (kept[-1], pickle.loads(pickle.dumps(kept[-1]))):
        np.testing.assert_allclose(one.decision_function(new)[:, 0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("together", [False, True])
def test_models_of_pairs_take_a_precomputed_kernel_of_all_examples(together, rng, monkeypatch):
    if not together:
        monkeypatch.setattr(pairs, "SMALL_PAIRS", (0, 0))
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    new, problems, scores = rng.normal(size=(5, 3)) @ X.T, [], []

    def look(progress):
        if not problems or progress.problem is not problems[-1]:
            problems.append(progress.problem)
            scores.append(None)
        scores[-1] = progress.model().decision_function(new)

    model = SVC(kernel="precomputed", decision_function_shape="ovo", callbacks=look).fit(X @ X.T, y)
    assert len(problems) == (1 if together else 3)
    np.testing.assert_allclose(np.column_stack(scores), model.decision_function(new), atol=1e-9)
