"""What the exact kernel solver computes: kernel rows, rounds and processor seconds over data sets of many kinds.

    python -m benchmarks.micro.smo_rows [names] [working_set=256 ...]

Rows are kernel values over n. Compilation and reading are off the clock; further arguments are those of SMO. The last
sets are of regression.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from benchmarks import datasets
from widemargin import SMO, SVC, SVR


def one_class(name, n_features, scale, label, rows):
    X, y = datasets.load(name, n_features)
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:rows]
    return X[chosen].toarray() / np.float32(scale), y[chosen] == label


def standardised(name, n_features, label, rows, features=None):
    X, y = datasets.load(name, n_features)
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:rows]
    return StandardScaler().fit_transform(X[chosen].toarray()[:, :features]).astype(np.float32), y[chosen] == label


def feature_pairs(rows=32561, width=300):
    """a9a's features and products of pairs of the frequent ones: sparse binary rows."""
    X, y = datasets.load("a9a", 123)
    X = X[:rows].tocsc()
    often = np.argsort(-np.asarray(X.sum(0))[0])
    left, right = np.triu_indices(30, 1)
    products = [X[:, [often[i]]].multiply(X[:, [often[j]]]) for i, j in zip(left, right, strict=True)]
    products = sp.hstack(products).tocsc()
    frequent = np.argsort(-np.asarray(products.sum(0))[0], kind="stable")[20 : width - 103]
    return sp.hstack([X, products[:, frequent]]).tocsr().astype(np.float32), y[:rows]


def frequent_words(width=300):
    """reuters-money-fx, the words that occur in most documents, present or not."""
    X = sp.vstack([datasets.load(name, 15257)[0] for name in ("reuters-money-fx", "reuters-money-fx.t")]).tocsc()
    y = np.concatenate([datasets.load(name, 15257)[1] for name in ("reuters-money-fx", "reuters-money-fx.t")])
    often = np.argsort(-np.diff(X.indptr), kind="stable")[:width]
    X = X[:, np.sort(often)].tocsr()
    X.data[:] = 1.0
    return X, y


def noisy(n, d, share, seed=0):
    """Two overlapping classes on a few smooth bumps: `share` of the labels are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, -1]
    return X, (f > 0) ^ (rng.random(n) < share)


def regression(name, n_features):
    """Features and targets with mean 0 and variance 1."""
    X, y = datasets.load(name, n_features)
    return StandardScaler().fit_transform(X.toarray()).astype(np.float32), (y - y.mean()) / y.std()


def digits(rows):
    """mnist, the digit as a number."""
    X, y = datasets.load("mnist", 784)
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:rows]
    return X[chosen].toarray() / np.float32(255), y[chosen].astype(float)


#: Data, γ and C.
SETS = {
    "a9a": (lambda: datasets.load("a9a", 123), 0.05, 1.0),
    "a9a wide": (lambda: datasets.load("a9a", 123), 0.005, 1.0),
    "pairs": (feature_pairs, 0.01, 1.0),
    "words": (frequent_words, 0.05, 1.0),
    "images": (lambda: one_class("mnist", 784, 255, 3, 15000), 0.02, 10.0),
    "mnist 8": (lambda: one_class("mnist", 784, 255, 8, 30000), 0.02, 1.0),
    "usps": (lambda: one_class("usps", 256, 1, 3, 7291), 1 / 128, 10.0),
    "shuttle": (lambda: standardised("shuttle", 9, 1, 43500), 1.0, 10.0),
    "covtype": (lambda: standardised("covtype", 54, 2, 20000, 10), 1.0, 1.0),
    "letter": (lambda: standardised("letter", 16, 5, 16000), 1 / 16, 10.0),
    "ijcnn1": (lambda: standardised("ijcnn1", 22, 1, 30000), 0.1, 10.0),
    "reuters": (lambda: datasets.load("reuters-money-fx", 15257), 1.0, 10.0),
    "noisy": (lambda: noisy(30000, 3, 0.02), 2.0, 10.0),
    "banana": (lambda: standardised("banana", 2, 1, 5300), 1.0, 10.0),
    "separable": (lambda: noisy(60000, 3, 0.0), 1.0, 100.0),
}
#: … and ε.
REGRESSIONS = {
    "digits": (lambda: digits(15000), 0.02, 10.0, 0.5),
    "cadata": (lambda: regression("cadata", 8), 0.125, 1.0, 0.1),
    "cadata, C = 100": (lambda: regression("cadata", 8), 0.125, 100.0, 0.1),
    "cpusmall": (lambda: regression("cpusmall", 12), 0.1, 1.0, 0.05),
    "cpusmall, C = 100": (lambda: regression("cpusmall", 12), 0.1, 100.0, 0.05),
}


def machine(name, **parameters):
    """The data of a set, and an exact machine for it."""
    if name in SETS:
        get, gamma, C = SETS[name]
        return *get(), SVC(gamma=gamma, C=C, random_state=0, **parameters)
    get, gamma, C, epsilon = REGRESSIONS[name]
    return *get(), SVR(gamma=gamma, C=C, epsilon=epsilon, random_state=0, **parameters)


def main(arguments):
    options = dict(a.split("=") for a in arguments if "=" in a and " = " not in a)
    options = {key: float(value) if "." in value else int(value) for key, value in options.items()}
    names = [a for a in arguments if "=" not in a or " = " in a] or [*SETS, *REGRESSIONS]
    total = 0.0
    for name in names:
        X, y, model = machine(name, solver=SMO(**options))
        model.fit(X[:600], y[:600])
        since = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - since
        history, n = model.history_, X.shape[0]
        rows, rounds = history["kernel_computed"][-1] / n, history["steps"][-1]
        total += seconds
        certificate = model.certificate_
        print(
            f"{name:17} n {n:6}  vectors {model.support_.size:6}  rows {rows:7.0f}  rounds {rounds:5.0f}  "
            f"{seconds:6.2f} s  gap {certificate.gap / certificate.primal:.1e}",
            flush=True,
        )
    print(f"{total:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
