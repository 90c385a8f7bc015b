"""What the tables and figures of the BSGD paper share: its data sets, its algorithms, the choice of their parameters.

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012), Sec. 7.1. Attributes have mean 0 and
standard deviation 1 on the training examples; the kernel is Gaussian.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks import datasets
from widemargin import BudgetedSVC
from widemargin.data.generators import checkerboard, gauss, waveform
from widemargin.solvers.budget import MarginPerceptronStep, NormaStep, PassiveAggressiveStep, Projectron

OUTPUT = datasets.ROOT / "bench_output" / "papers"
FOLDS, ORDERS, MOST_ROWS = 3, 3, 10_000
#: A change of the protocol makes cached results of older ones void.
PROTOCOL = 3


# ---------------------------------------------------------------- data


class Data(NamedTuple):
    """Where examples come from: a generator, a file split anew in each repetition, or files with their own split."""

    n_train: int  # 0: all there are
    n_test: int  # 0: those of the test file
    d: int
    generator: Callable | None = None


DATA = {
    "banana": Data(0, 1000, 2),
    "gauss": Data(10_000, 10_000, 2, gauss),
    "a9a": Data(0, 0, 123),
    "ijcnn1": Data(0, 10_000, 22),
    "checkerboard": Data(1_000_000, 20_000, 2, checkerboard),
    "dna": Data(0, 0, 180),
    "satimage": Data(0, 0, 36),
    "usps": Data(0, 0, 256),
    "pendigits": Data(0, 0, 16),
    "letter": Data(0, 0, 16),
    "shuttle": Data(0, 0, 9),
    "covtype": Data(0, 20_000, 54),
    "waveform": Data(500_000, 20_000, 21, waveform),
}


def examples(name, repetition, most=None, generated=None, scaled=True):
    """(X, y, X_test, y_test) of a repetition, in random order; ``most`` limits those for training.

    ``generated`` is the number asked of a generator.
    """
    data, rng = DATA[name], np.random.default_rng(1000 + repetition)
    if data.generator:
        X, y = data.generator(generated or min(data.n_train, most or data.n_train), rng)
        Z, t = data.generator(data.n_test, rng)
    elif data.n_test:
        X, y = datasets.load(name, data.d)
        order = rng.permutation(y.size)
        train, test = order[data.n_test :][:most], order[: data.n_test]
        X, y, Z, t = X[train], y[train], X[test], y[test]
    else:
        (X, y), (Z, t) = datasets.load(name, data.d), datasets.load(f"{name}.t", data.d)
        order = rng.permutation(y.size)[:most]
        X, y = X[order], y[order]
    X, Z = (M.toarray() if hasattr(M, "toarray") else M for M in (X, Z))
    if scaled:
        mean, deviation = X.mean(0, dtype=np.float64), X.std(0, dtype=np.float64)
        deviation[deviation == 0] = 1.0
        X, Z = (X - mean) / deviation, (Z - mean) / deviation
    return np.ascontiguousarray(X, np.float32), y, np.ascontiguousarray(Z, np.float32), t


# ---------------------------------------------------------------- algorithms


class Method(NamedTuple):
    """An algorithm of Table 3: the parameters of its estimator from those that are chosen.

    γ is always chosen, and a second parameter, whose coarse grid is given.
    """

    parameters: Callable
    second: tuple = (None,)


LAMBDAS = (1e-3, 1e-4, 1e-5)
METHODS = {
    "BPegasos+merge": Method(lambda lam: {"lam": lam}, LAMBDAS),
    "BPegasos+remove": Method(lambda lam: {"lam": lam, "maintenance": "remove"}, LAMBDAS),
    "BNorma+merge": Method(lambda lam: {"lam": lam, "step": NormaStep()}, LAMBDAS),
    "BMP+merge": Method(lambda radius: {"step": MarginPerceptronStep(1.0, radius)}, (3.0, 30.0, 300.0)),
    "MP+stop": Method(lambda _: {"step": MarginPerceptronStep(), "maintenance": "stop"}),
    "MP+random": Method(lambda _: {"step": MarginPerceptronStep(), "maintenance": "random"}),
    "BPA": Method(lambda C: {"step": PassiveAggressiveStep(C), "maintenance": "nearest"}, (0.01, 0.1, 1.0)),
    "BPegasos+project": Method(lambda lam: {"lam": lam, "maintenance": "project"}, LAMBDAS),
    "Projectron++": Method(
        lambda threshold: {"step": MarginPerceptronStep(), "maintenance": Projectron(threshold, "class")}
    ),
}


def model(method, budget, gamma, second, **more):
    return BudgetedSVC(budget=budget, gamma=gamma, **{**METHODS[method].parameters(second), **more})


# ---------------------------------------------------------------- parameters


def threshold(X, y, gamma, budget):
    """A threshold of Projectron++ that ends with 0.95 B to B vectors, or the nearest below B of twelve bisections.

    At threshold 1 nothing is ever far enough, and the model stays empty; at 0 it grows by all that is independent. None
    if no threshold below 1 keeps the budget: examples are nearly orthogonal at this γ.
    """
    low, high, best = 0.0, 1.0, (0, 1.0)
    for _ in range(12):
        middle = 0.5 * (low + high)
        tried = model("Projectron++", budget + budget // 20, gamma, middle, random_state=0).fit(X, y)
        count = len(tried.support_vectors_)
        if count > budget:
            low = middle
            continue
        high, best = middle, max(best, (count, middle))
        if count >= 0.95 * budget:
            break
    return best[1] if best[0] else None


def fold_accuracy(X, y, method, budget, gamma, second, **more):
    """Accuracy in cross-validation; rows come in random order, and folds are blocks of them.

    One pass depends on the order of its examples: the rest of a fold is learned in ``ORDERS`` orders.
    """
    right = 0
    for part in np.array_split(np.arange(y.size), FOLDS):
        rest = np.setdiff1d(np.arange(y.size), part, assume_unique=True)
        if method == "Projectron++":
            second = threshold(X[rest], y[rest], gamma, budget)
            if second is None:
                return 0.0
        for order in range(ORDERS):
            trained = model(method, budget, gamma, second, random_state=order, **more).fit(X[rest], y[rest])
            right += np.sum(trained.predict(X[part]) == y[part])
    return right / (ORDERS * y.size)


def choose(X, y, method, budget, **more):
    """(γ, second parameter, accuracy) by cross-validation: a coarse grid, then a finer one around its best point.

    Coarse: γd = 1/16, 1/4, 1, 4 (two attributes: 1/4, 1, 4, 16, 64), and the second parameter a factor of ten apart;
    fine: factors of 2 in γ and √10 in the second.
    """
    d, seconds, found = X.shape[1], METHODS[method].second, {}

    def measure(gamma, second):
        if (gamma, second) not in found:
            found[gamma, second] = fold_accuracy(X, y, method, budget, gamma, second, **more)

    for g in (0.25, 1, 4, 16, 64) if d == 2 else (1 / 16, 1 / 4, 1, 4):
        for second in seconds:
            measure(g / d, second)
    gamma, second = max(found, key=found.get)
    for finer in (gamma / 2, gamma, gamma * 2):
        for factor in (1.0,) if second is None else (1.0, math.sqrt(0.1), math.sqrt(10.0)):
            measure(finer, None if second is None else second * factor)
    best = max(found, key=found.get)
    return *best, found[best]


def transferred(method, second, n, n_train, power=0.5):
    """The second parameter for n_train examples, chosen with n: λ ∝ n^-power; 0 keeps λ, and 1 keeps C = 1/(λn)."""
    return second * (n / n_train) ** power if METHODS[method].second == LAMBDAS and n_train > n else second


# ---------------------------------------------------------------- results that are kept


class Kept:
    """Results in bench_output/cache, in JSON; a run that was broken off goes on where it stopped."""

    def __init__(self, name):
        self.path = datasets.CACHE / f"bsgd-{name}.json"

    def read(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def get(self, key, compute):
        """What is kept under the key, or else computed and kept; None if it is not kept and compute is None."""
        key, results = f"{key} #{PROTOCOL}", self.read()
        if key in results or compute is None:
            return results.get(key)
        found = compute()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({**self.read(), key: found}, indent=1))  # others may have written meanwhile
        part.replace(self.path)
        return found
