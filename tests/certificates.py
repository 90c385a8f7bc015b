"""Kernel certificates against the data: ``python tests/certificates.py N SEED`` fits N machines and counts violations.

The primal and the dual value of each binary problem are computed anew in np.longdouble from the data as it was given,
with no part of the package. A certificate is violated where its primal value is below the model's, or its dual value
above that of the best multiple of the model's coefficients and above the primal value of a machine fitted to a tenth of
the gap, by more than 1e-9 of the primal value; and where one is above ``tol`` though ``stop_reason_`` is "tol". A tenth
of the machines have 600 to 3,000 examples, of which a certificate may go by some.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from widemargin import SVC, SVR, IncrementalSVC

#: Violations are more than this share of the primal value.
ALLOWED = 1e-9
KERNELS = ("rbf", "linear", "poly", "laplacian", "precomputed")
SOLVERS = ("smo", "sbp", "sdca", "pegasos", "perceptron")
#: Entries of differences of rows that are in memory at a time.
ENTRIES = 2**21


def drawn_traits(rng):
    """What a case is like."""
    traits = {
        "kernel": str(rng.choice(KERNELS)), "solver": str(rng.choice(SOLVERS, p=[0.4, 0.2, 0.2, 0.1, 0.1])),
        "dtype": str(rng.choice(["float32", "float64"])), "sparse": bool(rng.random() < 0.3),
        "weights": str(rng.choice(["none", "none", "wide", "skewed"])), "duplicates": bool(rng.random() < 0.3),
        "class weights": bool(rng.random() < 0.2), "offset": float(rng.choice([0.0, 0.0, 1e2, 1e5])),
        "large": bool(rng.random() < 0.1), "classes": int(rng.choice([2, 2, 2, 10])),
    }  # fmt: skip
    free = traits["solver"] in ("smo", "sbp")
    traits["intercept"] = str(rng.choice(["unregularized", "regularized", "none"] if free else ["regularized", "none"]))
    traits["estimator"] = "SVC"
    if traits["solver"] in ("smo", "sdca") and rng.random() < 0.3:
        traits["estimator"], traits["classes"] = "SVR", 1
    elif traits["kernel"] != "precomputed" and rng.random() < 0.15:
        traits["estimator"], traits["solver"], traits["class weights"] = "IncrementalSVC", "finish", False
        traits["classes"] = min(traits["classes"], 3)
    return traits


def targets(rng, X, traits):
    """Noisy functions of the rows: numbers, or labels of as many classes as are asked for, with some of each."""
    z = X @ rng.normal(size=X.shape[1]) / (np.abs(X).max() + 1e-9)
    z = z + rng.normal(size=z.size) * 10.0 ** rng.uniform(-2, 0)
    if traits["estimator"] == "SVR":
        return z
    if traits["classes"] == 2:
        return np.where(z > np.median(z), 1, -1)
    return np.argsort(np.argsort(z)) * traits["classes"] // z.size


def case(rng):
    """(estimator, X, y, weights, traits) drawn at random."""
    traits = drawn_traits(rng)
    large, precomputed = traits["large"], traits["kernel"] == "precomputed"
    least, most = (600, 1200 if precomputed else 3001) if large else (12 if traits["classes"] < 10 else 40, 90)
    n, d = int(rng.integers(least, most)), int(rng.integers(1, 8))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1) * (rng.random((n, d)) < (0.4 if traits["sparse"] else 1.0))
    if traits["duplicates"]:
        X[: n // 2] = X[n // 2 : 2 * (n // 2)]
    y = targets(rng, X, traits)
    X += traits["offset"] * (X != 0.0 if traits["sparse"] else 1.0)
    X = X.astype(traits["dtype"])
    weights = None if traits["weights"] == "none" else 10.0 ** rng.uniform(-2, 2, n)
    if traits["weights"] == "skewed":  # a few have nearly all of it
        weights = np.where(rng.random(n) < 5.0 / n, 1e3, 1e-2)
    options = {
        "C": 10.0 ** rng.uniform(-3, 4 if large else 7), "tol": 10.0 ** rng.uniform(-10, -2), "coef0": 1.0,
        "intercept": traits["intercept"], "degree": int(rng.integers(1, 4)), "kernel": traits["kernel"],
    }  # fmt: skip
    if not precomputed and rng.random() < 0.5:
        options["gamma"] = 10.0 ** rng.uniform(-2, 1) / (np.abs(X).max() ** 2 + 1e-9)
    if precomputed:
        traits["sparse"], own = False, X.astype(np.float64)
        X = np.exp(-0.3 * ((own[:, None] - own[None]) ** 2).sum(2)).astype(traits["dtype"])
        X = np.ascontiguousarray(np.maximum(X, X.T))
    if traits["sparse"]:
        X = sp.csr_matrix(X)
    if traits["estimator"] == "IncrementalSVC":
        options.pop("tol")
        return IncrementalSVC(**options), X, y, weights, traits
    options |= {"solver": traits["solver"], "max_iter": 30 if large else 300, "tol": 10.0 ** rng.uniform(-10, -2)}
    if traits["estimator"] == "SVR":
        return SVR(**options, epsilon=float(rng.choice([0.0, 0.1]))), X, y, weights, traits
    if traits["class weights"]:
        options["class_weight"] = {label: 10.0 ** rng.uniform(-1, 1) for label in np.unique(y).tolist()}
    return SVC(**options), X, y, weights, traits


def kernel_columns(model, X, support):
    """Kernel values of all rows with some, in longdouble; under a linear kernel of centred rows, as the model's are."""
    wide = (X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    if model.kernel == "precomputed":
        return wide[:, support]
    centre = model._preparation.centre
    if model.kernel == "linear" and centre is not None:
        wide = wide - centre.astype(np.longdouble)
    if model.kernel in ("linear", "poly"):
        inner = wide @ wide[support].T
        if model.kernel == "linear":
            return inner
        return (np.longdouble(model.gamma_) * inner + np.longdouble(model.coef0)) ** model.degree
    columns = np.empty((len(wide), len(support)), np.longdouble)
    step = max(1, ENTRIES // max(1, len(support) * wide.shape[1]))
    for first in range(0, len(wide), step):
        apart = wide[first : first + step, None] - wide[support][None]
        distance = np.abs(apart).sum(2) if model.kernel == "laplacian" else (apart * apart).sum(2)
        columns[first : first + step] = np.exp(-np.longdouble(model.gamma_) * distance)
    return columns


def binary_problems(model, y, weights):
    """(examples, targets, weights, β of the support vectors, bias) of each binary problem of a fitted machine."""
    s, support, coef = np.ones(y.size) if weights is None else weights, model.support_, np.atleast_2d(model.dual_coef_)
    everything, biases = np.arange(y.size), np.atleast_1d(model._model.intercept)
    if not hasattr(model, "classes_"):
        yield everything, y, s, coef[0], biases[0]
        return
    classes, given = model.classes_, getattr(model, "class_weight", None) or {}
    of_class = np.array([given.get(label, 1.0) for label in classes.tolist()])
    codes = np.searchsorted(classes, y)
    if classes.size == 2:
        yield everything, np.where(codes == 1, 1.0, -1.0), s * of_class[codes], coef[0], biases[0]
    elif isinstance(model, IncrementalSVC):
        for k in range(classes.size):
            yield everything, np.where(codes == k, 1.0, -1.0), s, coef[k], biases[k]
    else:
        for k, (i, j) in enumerate(combinations(range(classes.size), 2)):
            own, here = np.flatnonzero((codes == i) | (codes == j)), codes[support]
            beta = np.where(here == i, coef[j - 1], np.where(here == j, coef[i], 0.0))
            yield own, np.where(codes[own] == i, 1.0, -1.0), (s * of_class[codes])[own], beta, biases[k]


def all_values(model, X, y, weights):
    """(primal value of the model, largest dual value of a multiple of its coefficients) of each binary problem."""
    columns = kernel_columns(model, X, model.support_)
    return [
        _values(model, columns[own], np.searchsorted(own, model.support_[beta != 0]), t, s, beta, bias, beta != 0)
        for own, t, s, beta, bias in binary_problems(model, y, weights)
    ]


def values(model, X, y, weights):
    """Those of the only binary problem."""
    return all_values(model, X, y, weights)[0]


def _values(model, columns, places, t, s, beta, bias, used):
    n, regularised, epsilon = t.size, model._model.constant, np.longdouble(getattr(model, "epsilon", 0.0))
    beta, cap, t = beta[used].astype(np.longdouble), np.longdouble(model.C) * s.astype(np.longdouble), t.astype(float)
    f = columns[:, used] @ beta
    bias = np.longdouble(bias) + regularised * beta.sum()
    own = beta @ f[places]
    missed = np.abs(f + bias - t) - epsilon if hasattr(model, "epsilon") else 1 - t * (f + bias)
    primal = (own + regularised * bias**2) / 2 + cap @ np.maximum(missed, 0)
    linear = beta @ t[places] - epsilon * np.abs(beta).sum()
    own, dual = own + regularised * beta.sum() ** 2, np.longdouble(0)
    if linear > 0 and (hasattr(model, "epsilon") or (beta * t[places] >= 0).all()):
        theta = (cap[places] / np.abs(beta)).min()
        theta = min(theta, linear / own) if own > 0 else theta
        dual = theta * linear - theta**2 * own / 2
    lam = 1 / (np.longdouble(model.C) * n)
    return lam * primal, lam * dual


def tight(model, X, own, t, s):
    """The primal value of one binary problem's optimum, nearly."""
    regression = hasattr(model, "epsilon")
    names = ("C", "kernel", "degree", "coef0", "intercept", *(["epsilon"] if regression else []))
    options = {name: getattr(model, name) for name in names} | {"tol": 1e-9, "max_iter": 3000}
    if model.kernel not in ("linear", "precomputed"):
        options["gamma"] = model.gamma_
    rows = X[np.ix_(own, own)] if model.kernel == "precomputed" else X[own]
    best = (SVR if regression else SVC)(**options).fit(rows, t, s)
    return values(best, rows, t, s)[0]


def judged(model, X, y, weights, tol, found):
    """(what is violated, the largest excess of a primal and of a dual value) of a fitted machine's certificates."""
    certificates = [model.certificate_] if hasattr(model.certificate_, "gap") else list(model.certificate_)
    parts = binary_problems(model, y, weights)
    wrong, worst = set(), np.zeros(2)
    for certificate, part, (primal, dual) in zip(certificates, parts, all_values(model, X, y, weights), strict=True):
        found["no certificate"] += certificate is None
        if certificate is None:
            continue
        found["certificates"] += 1
        below, above = float(primal - certificate.primal), float(certificate.dual - dual)
        size = max(abs(certificate.primal), 1e-300)
        if above > ALLOWED * size:  # a dual value of other coefficients than the model's
            above = float(certificate.dual - tight(model, X, *part[:3]))
            found["dual of another point"] += 1
        worst = np.maximum(worst, [below / size, above / size])
        wrong |= {"primal"} if below > ALLOWED * size else set()
        wrong |= {"dual"} if above > ALLOWED * size else set()
        wrong |= {"tol"} if model.stop_reason_ == "tol" and certificate.relative_gap > tol else set()
    return sorted(wrong), worst


def main(count, seed):
    found, table, worst, until = Counter(), {}, np.zeros(2), time.monotonic() + float((*sys.argv, 1e9)[3])
    warnings.simplefilter("ignore")
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        model, X, y, weights, traits = case(rng)
        if time.monotonic() > until:
            print(f"out of time after {k}")
            break
        try:
            if traits["estimator"] == "IncrementalSVC":
                tol = 10.0 ** rng.uniform(-10, -2)
                model.partial_fit(X, y, np.unique(y), weights).finish(tol)
            else:
                tol = model.fit(X, y, weights).tol
        except ValueError as error:
            found[f"refused: {str(error)[:40]}"] += 1
            continue
        found[model.stop_reason_] += 1
        if model.certificate_ is None:
            found["no certificate"] += 1
            continue
        wrong, excess = judged(model, X, y, weights, tol, found)
        worst = np.maximum(worst, excess)
        for name in wrong:
            found[f"VIOLATED {name}"] += 1
            print(f"seed {seed} case {k}: {name} {excess} {model.stop_reason_} n={y.size} {model} {traits}", flush=True)
        for name, value in traits.items():
            row = table.setdefault((name, str(value)), [0, 0])
            row[0] += 1
            row[1] += bool(wrong)
    print(f"{'':14}{'':16}{'fits':>8}{'violations':>12}")
    for (name, value), (fits, violations) in sorted(table.items()):
        print(f"{name:14}{value:16}{fits:8}{violations:12}")
    print(dict(found), f"largest excess: primal {worst[0]:.1e}, dual {worst[1]:.1e} of the primal value")
    return sum(count for name, count in found.items() if name.startswith("VIOLATED"))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
