"""Benchmark data: LIBSVM text files from a folder of yours, parsed once and kept as ``.npz``.

The folder is the one that ``$WIDEMARGIN_DATA`` names, or ``data`` in this checkout; nothing is downloaded.
"""

import os
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import MaxAbsScaler

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("WIDEMARGIN_DATA", ROOT / "data"))
CACHE = ROOT / "bench_output" / "cache"


def load(name, n_features=None, dtype=np.float32):
    """(X, y) of ``name.bz2``: X in CSR with 32-bit indices."""
    kept = CACHE / f"{name}-{n_features}.npz"
    if not kept.exists():
        source = DATA / f"{name}.bz2"
        if not source.exists():
            sys.exit(f"{source} is missing: set WIDEMARGIN_DATA to the folder of benchmark data")
        X, y = load_svmlight_file(str(source), n_features=n_features)
        CACHE.mkdir(parents=True, exist_ok=True)
        np.savez(kept, data=X.data, indices=X.indices.astype(np.int32), indptr=X.indptr, shape=X.shape, y=y)
    with np.load(kept) as f:
        X = sp.csr_matrix((f["data"].astype(dtype), f["indices"], f["indptr"]), shape=f["shape"])
        return X, f["y"]


def split(X, y, test, seed=0):
    """Shuffled (X, y, X_test, y_test) with a share of the rows held out."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    cut = round(test * X.shape[0])
    return X[order[cut:]], y[order[cut:]], X[order[:cut]], y[order[:cut]]


def a9a(dtype=np.float32):
    return *load("a9a", 123, dtype), *load("a9a.t", 123, dtype)


def news20(dtype=np.float32):
    return *load("news20-bigram", 1181833, dtype), *load("news20-bigram.t", 1181833, dtype)


def reuters(dtype=np.float32):
    return *load("reuters-money-fx", 15257, dtype), *load("reuters-money-fx.t", 15257, dtype)


def cov1(dtype=np.float32):
    """Class 1 of covtype against the rest, scaled to unit maximum, a tenth held out as in the Pegasos paper."""
    X, y = load("covtype", 54, dtype)
    return split(MaxAbsScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0), 0.1)


def there_is_data():
    """Whether the folder of benchmark data has files."""
    return DATA.is_dir() and any(DATA.iterdir())


def has(*names):
    """Whether these files can be loaded."""
    return all((DATA / f"{name}.bz2").exists() for name in names)
