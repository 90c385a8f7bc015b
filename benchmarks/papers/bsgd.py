"""What the tables and figures of the BSGD paper share: its data sets, its algorithms, the choice of their parameters.

Wang, Crammer, Vucetic: Breaking the curse of kernelization. JMLR 13 (2012), Sec. 7.1. Attributes have mean 0 and
standard deviation 1 on the training examples; the kernel is Gaussian.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.svm import SVC

from benchmarks import datasets
from widemargin import BudgetedSVC
from widemargin.data.generators import checkerboard, gauss, waveform
from widemargin.solvers.budget import MarginPerceptronStep, NormaStep, PassiveAggressiveStep, Projectron

FOLDS = 3


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

    γ is always chosen, a second parameter, whose coarse grid is given, and one of the variants, which may depend on the
    number of training examples.
    """

    parameters: Callable
    second: tuple = (None,)
    variants: tuple = ("",)


LAMBDAS = (1e-3, 1e-4, 1e-5)
#: Norma's η, for N examples. The paper has two: 1, and one whose exponent has lost its sign in print; the Pegasos
#: paper, which it cites, has N^-0.5. Both signs are tried, lest the rival be weaker than it was.
ETAS = {
    "1": lambda n: 1.0,
    "½√(2 + ½/√N)": lambda n: 0.5 * math.sqrt(2.0 + 0.5 / math.sqrt(n)),
    "½√(2 + ½√N)": lambda n: 0.5 * math.sqrt(2.0 + 0.5 * math.sqrt(n)),
}
#: The margin perceptron's step η, with a radius U and N examples. The paper names none; where it writes the update with
#: a projection there is none, which is 1, and the bound of its Theorem 3, 2U²/(Nη) + 2η, is least at U/√N.
SIZES = {
    "1": lambda radius, n: 1.0,
    "0.1": lambda radius, n: 0.1,
    "U/√N": lambda radius, n: radius / math.sqrt(n),
}
#: Which of the equal coefficients that Pegasos steps make is removed; the paper's choice is "arbitrary".
TIES = {"oldest": "remove", "random": "random", "newest": "stop"}


def pegasos(**more):
    """Parameters of Pegasos steps."""
    return lambda lam, variant, n: {"lam": lam, **more}


def norma(**more):
    """Parameters of Norma's steps."""
    return lambda lam, variant, n: {"lam": lam, "step": NormaStep(ETAS[variant](n)), **more}


def perceptron(**more):
    """Parameters of a margin perceptron, whose second parameter is a radius, if it has one; without, its step is 1."""
    return lambda radius, variant, n: {
        "step": MarginPerceptronStep(SIZES[variant or "1"](radius, n), radius or math.inf), **more
    }  # fmt: skip


BUDGETED = {
    "BPegasos+merge": Method(pegasos(), LAMBDAS),
    "BPegasos+project": Method(pegasos(maintenance="project"), LAMBDAS),
    "BPegasos+remove": Method(lambda lam, variant, n: {"lam": lam, "maintenance": TIES[variant]}, LAMBDAS, tuple(TIES)),
    "BNorma+merge": Method(norma(), LAMBDAS, tuple(ETAS)),
    "BMP+merge": Method(perceptron(), (3.0, 30.0, 300.0), tuple(SIZES)),
    "MP+stop": Method(perceptron(maintenance="stop")),
    "MP+random": Method(perceptron(maintenance="random")),
    "BPA": Method(lambda C, variant, n: {"step": PassiveAggressiveStep(C), "maintenance": "nearest"}, (0.01, 0.1, 1.0)),
    "Projectron++": Method(
        lambda threshold, variant, n: {
            "step": MarginPerceptronStep(),
            "maintenance": Projectron(threshold, "class"),
        }
    ),
}
#: Perceptrons that drop vectors like narrow kernels, in which the others are of little use to each other: γd = 16, too.
NARROW = ("MP+stop", "MP+random")
#: Without a budget: as many vectors as there are examples.
ONLINE = {
    "Pegasos": Method(pegasos(maintenance="remove"), LAMBDAS),
    "Norma": Method(norma(maintenance="remove"), LAMBDAS, tuple(ETAS)),
    "MP": Method(perceptron(maintenance="remove")),
}
OFFLINE = {"LIBSVM": Method(lambda C, variant, n: {"C": C}, (1.0, 10.0, 100.0))}
METHODS = {**OFFLINE, **ONLINE, **BUDGETED}


def model(method, budget, gamma, second, variant="", n=0, **more):
    """The estimator of an algorithm; n is the number of examples it will learn from, where there is no budget."""
    parameters = METHODS[method].parameters(second, variant or METHODS[method].variants[0], n)
    if method in OFFLINE:
        return SVC(gamma=gamma, cache_size=500, **parameters)
    return BudgetedSVC(budget=budget or n, gamma=gamma, **{**parameters, **more})


# ---------------------------------------------------------------- parameters


class Chosen(NamedTuple):
    """γ, the second parameter for N training rows, the variant, and what cross-validation said of them."""

    gamma: float
    second: float | None
    variant: str
    n: int
    accuracy: float | None = None

    def model(self, method, budget, n, **more):
        """The estimator for n training rows: λ ∝ 1/√n."""
        second = transferred(method, self.second, self.n, n)
        return model(method, budget, self.gamma, second, self.variant, n, **more)


class Protocol(NamedTuple):
    """How parameters are chosen: rows at most, and the orders in which each fold is learned, coarse and fine."""

    rows: int
    coarse: int = 1
    fine: int = 3


def protocol(method, quick=False):
    """The cuts of cross-validation: one pass on a budget depends on the order of its examples, the others less."""
    if quick:
        return Protocol(450, 1, 0)
    if method in OFFLINE:
        return Protocol(1500, 1, 1)
    if method in ONLINE:
        return Protocol({"Pegasos": 6000, "Norma": 1500, "MP": 2000}[method], 1, 1)
    if method == "Projectron++":
        return Protocol(2000, 1, 0)
    return Protocol(3000 if method == "BNorma+merge" else 6000)


def threshold(X, y, gamma, budget, tries=12):
    """A threshold of Projectron++ that ends with 0.95 B to B vectors, or the nearest below B of some bisections.

    At threshold 1 nothing is ever far enough, and the model stays empty; at 0 it grows by all that is independent. None
    if no threshold below 1 keeps the budget: examples are nearly orthogonal at this γ.
    """
    low, high, best = 0.0, 1.0, (0, 1.0)
    for _ in range(tries):
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


def fold_accuracy(X, y, method, budget, point, orders, **more):
    """Accuracy in cross-validation; rows come in random order, and folds are blocks of them."""
    right, (gamma, second, variant) = 0, point
    for number, part in enumerate(np.array_split(np.arange(y.size), FOLDS)):
        rest = np.setdiff1d(np.arange(y.size), part, assume_unique=True)
        if method == "Projectron++" and number == 0:
            second = threshold(X[rest], y[rest], gamma, budget, 8)
            if second is None:
                return 0.0
        for order in range(orders):
            tried = model(method, budget, gamma, second, variant, rest.size, **more)
            if method not in OFFLINE:
                tried.set_params(random_state=order)
            right += np.sum(tried.fit(X[rest], y[rest]).predict(X[part]) == y[part])
    return right / (orders * y.size)


def choose(X, y, method, budget, n_train, cut, start=None, **more):
    """Parameters for n_train rows by cross-validation: a coarse grid, then a finer one around its best point.

    Coarse: γd = 1/16, 1/4, 1, 4, and 16 for some (two attributes: 1/4, 1, 4, 16, 64), the second parameter a factor of
    ten apart, and all variants; fine: factors of 2 in γ and √10 in the second, learned in more orders. With a
    ``start``, parameters of another algorithm, the fine grid is around that.
    """
    X, y = X[: cut.rows], y[: cut.rows]
    (d, n), (_, seconds, variants) = (X.shape[1], y.size - y.size // FOLDS), METHODS[method]
    if start:
        best = start.gamma, transferred(method, start.second, start.n, n), start.variant
    else:
        widths = (0.25, 1, 4, 16, 64) if d == 2 else (1 / 16, 1 / 4, 1, 4, 16)[: 5 if method in NARROW else 4]
        points = [(g / d, second, variant) for g in widths for second in seconds for variant in variants]
        found = {point: fold_accuracy(X, y, method, budget, point, cut.coarse, **more) for point in points}
        best = max(found, key=found.get)
    if cut.fine or start:
        gamma, second, variant = best
        factors = (1.0,) if second is None else (1.0, math.sqrt(0.1), math.sqrt(10.0))
        points = [(gamma * g, second and second * f, variant) for g in (1.0, 0.5, 2.0) for f in factors]
        found = {point: fold_accuracy(X, y, method, budget, point, cut.fine or 1, **more) for point in points}
        best = max(found, key=found.get)
    gamma, second, variant = best
    return Chosen(gamma, transferred(method, second, n, n_train), variant, n_train, found[best])


def transferred(method, second, n, n_train):
    """The second parameter for n_train examples, chosen with n: λ ∝ 1/√n; others are kept."""
    return second * math.sqrt(n / n_train) if METHODS[method].second == LAMBDAS else second
