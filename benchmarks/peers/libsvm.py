"""Kernel machines beside scikit-learn's SVC (LIBSVM): the same problem, the same cache, one thread.

``python -m benchmarks.peers.libsvm [a9a] [usps] [letter] [mnist]``. Compilation is off the clock. That both solved the
same problem is asserted by their dual objectives. :mod:`.kernel_peers` has more libraries, and two classes of some of
the rows; here are several classes, and all rows.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import itertools
import sys
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as RivalSVC

from benchmarks import datasets
from benchmarks.timing import clock, verdict
from widemargin import SVC

warnings.simplefilter("ignore", ConvergenceWarning)


def standardised(name, n_features):
    X, y = datasets.load(name, n_features, np.float64)
    Z, t = datasets.load(f"{name}.t", n_features, np.float64)
    scaler = StandardScaler().fit(X.toarray())
    return scaler.transform(X.toarray()), y, scaler.transform(Z.toarray()), t


def dense(name, n_features):
    (X, y), (Z, t) = datasets.load(name, n_features, np.float64), datasets.load(f"{name}.t", n_features, np.float64)
    return X.toarray(), y, Z.toarray(), t


def mnist_8():
    (X, y), (Z, t) = datasets.load("mnist", 784, np.float64), datasets.load("mnist.t", 784, np.float64)
    # dense, on which LIBSVM is faster than on the sparse matrix
    return X.toarray() / 255.0, (y == 8).astype(int), Z.toarray() / 255.0, (t == 8).astype(int)


PROBLEMS = {
    "a9a": (lambda: datasets.a9a(np.float64), {"gamma": 0.05, "C": 1.0}),
    "usps": (lambda: dense("usps", 256), {"gamma": 1 / 128, "C": 10.0}),
    "letter": (lambda: standardised("letter", 16), {"gamma": 1 / 16, "C": 10.0}),
    "mnist": (mnist_8, {"gamma": 0.02, "C": 1.0}),
}


def pairs(model):
    """(support vectors' places, coefficients) of each binary problem, from the layout that both libraries share."""
    dual = model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else model.dual_coef_
    if model.n_support_.size == 2:
        yield np.arange(dual.shape[1]), dual[0]
        return
    ends = np.cumsum(model.n_support_)
    of_class = [np.arange(end - count, end) for end, count in zip(ends, model.n_support_, strict=True)]
    for i, j in itertools.combinations(range(ends.size), 2):
        yield np.r_[of_class[i], of_class[j]], np.r_[dual[j - 1, of_class[i]], dual[i, of_class[j]]]


def dual_value(model, X):
    """Σα − ½ ‖w‖², summed over the binary problems, in float64 by blocks: a neutral party's."""
    total = 0.0
    for places, coefficients in pairs(model):
        used = coefficients != 0.0
        vectors, c = X[model.support_[places[used]]], coefficients[used]
        total += float(np.abs(c).sum())
        for i in range(0, c.size, 1024):
            total -= 0.5 * float(c[i : i + 1024] @ rbf_kernel(vectors[i : i + 1024], vectors, gamma=model.gamma) @ c)
    return total


def main(names):
    for name in names:
        get, parameters = PROBLEMS[name]
        X, y, Z, t = get()
        SVC(**parameters, max_iter=2).fit(X[:3000], y[:3000])
        SVC(**parameters).fit(X[:500], y[:500])
        ours, theirs = SVC(**parameters, random_state=0), RivalSVC(**parameters)
        turns = 5 if name in ("usps", "letter") else 1
        clocks = [(clock(lambda: ours.fit(X, y)), clock(lambda: theirs.fit(X, y))) for _ in range(turns)]
        seconds, rival = np.median(clocks, axis=0)
        predicting = clock(lambda: ours.predict(Z)), clock(lambda: theirs.predict(Z))
        print(f"{name}: {parameters}, medians of {turns}")
        print(f"    widemargin {seconds:8.2f} s, error {1 - ours.score(Z, t):.2%}, {ours.support_.size} vectors")
        print(f"    LIBSVM     {rival:8.2f} s, error {1 - theirs.score(Z, t):.2%}, {theirs.support_.size} vectors")
        print(f"    ratio      {verdict(seconds / rival, 1 / 3)}")
        faster = predicting[1] / predicting[0]
        print(f"    prediction {predicting[0]:.2f} s and {predicting[1]:.2f} s: {faster:.1f} times faster")
        a, b = dual_value(ours, X), dual_value(theirs, X)
        assert abs(a - b) <= 1e-3 * abs(b), (a, b)
        print(f"    dual value {a:.3f} and {b:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(PROBLEMS))
