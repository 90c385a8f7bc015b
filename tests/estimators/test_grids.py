"""Cross-validated scores over a grid are those of machines that are trained one by one."""

import signal

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from widemargin import SVC, svm_grid

CS, GAMMAS = [3.0, 0.3], [0.05, 0.5]


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_a_grid_search(classes, rng):
    X, y = make_classification(
        150, 5, n_informative=5, n_redundant=0, n_classes=classes, class_sep=2.0, random_state=int(rng.integers(1000))
    )
    folds = StratifiedKFold(3)
    grid = svm_grid(X, y, CS, gammas=GAMMAS, cv=folds, tol=1e-5)
    assert grid.scores.shape == grid.gaps.shape == (2, 2, 3)
    assert grid.gaps.max() <= 2e-5  # errors of float32 kernel values among it
    search = GridSearchCV(SVC(tol=1e-5), {"gamma": GAMMAS, "C": CS}, cv=folds).fit(X, y)
    theirs = search.cv_results_
    for g, gamma in enumerate(GAMMAS):
        for c, C in enumerate(CS):
            place = theirs["params"].index({"gamma": gamma, "C": C})
            for fold in range(3):  # an example may lie on the boundary
                assert abs(theirs[f"split{fold}_test_score"][place] - grid.scores[g, c, fold]) <= 1.0 / 50 + 1e-9
    assert grid.best_score == grid.mean.max()
    own = grid.best_params
    assert grid.mean[GAMMAS.index(own["gamma"]), CS.index(own["C"])] == grid.best_score


def test_of_equals_the_smallest_C_is_best(rng):
    X = np.concatenate([rng.normal(size=(20, 2)) - 20.0, rng.normal(size=(20, 2)) + 20.0])
    assert svm_grid(X, np.repeat([0, 1], 20), [10.0, 1.0, 5.0], gammas=[0.01]).best_params == {"C": 1.0, "gamma": 0.01}


def test_a_precomputed_kernel_is_that_of_its_rows(rng):
    X, y = rng.normal(size=(60, 3)), np.repeat([0, 1], 30)
    X[30:, 0] += 1.0
    by_rows = svm_grid(X, y, CS, gammas=[1.0], kernel="linear", cv=3)
    by_table = svm_grid(X @ X.T, y, CS, gammas=[1.0], kernel="precomputed", cv=3)
    assert np.abs(by_rows.scores - by_table.scores).max() <= 1.0 / 20 + 1e-9  # an example may lie on the boundary


def test_ctrl_c_leaves_what_was_finished(rng):
    X, y, seen = rng.normal(size=(300, 3)), np.tile([0, 1], 150), []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == stop:
            signal.raise_signal(signal.SIGINT)

    stop = 0
    whole = svm_grid(X, y, CS, gammas=GAMMAS, cv=2, callbacks=[interrupt])
    assert np.isfinite(whole.scores).all()
    stop, looks = len(seen), len(seen)
    seen.clear()
    cut = svm_grid(X, y, CS, gammas=GAMMAS, cv=2, callbacks=[interrupt])  # in the last machine: of the largest C
    np.testing.assert_array_equal(np.isnan(cut.scores), [[[False, False]] * 2, [[False, True], [False, False]]])
    np.testing.assert_array_equal(cut.scores[0], whole.scores[0])
    assert cut.best_score == np.nanmax(cut.mean)
    assert len(seen) == looks
    stop = 1
    seen.clear()
    with pytest.raises(ValueError, match="no pair of C and γ was finished in all folds"):
        _ = svm_grid(X, y, CS, gammas=GAMMAS, cv=2, callbacks=[interrupt]).best_params


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Cs": 1.0}, r"Cs must be a sequence, got 1.0: give a list"),
        ({"Cs": []}, "Cs must be a sequence"),
        ({"Cs": [1.0, -1.0]}, "each of Cs must be > 0"),
        ({"gammas": "scale"}, "gammas must be a sequence, got 'scale'"),
        ({"C": 2.0}, "svm_grid takes no C=2.0"),
        ({"checkpoint": "file"}, "svm_grid takes no checkpoint='file'"),
    ],
)
def test_refusals(given, message, rng):
    with pytest.raises(ValueError, match=message):
        svm_grid(rng.normal(size=(10, 2)), np.repeat([0, 1], 5), **{"Cs": [1.0], **given})
