"""Kernel certificates against the data: ``python tests/certificates.py N SEED`` fits N machines and counts violations.

The primal and the dual value of each model are computed anew in np.longdouble from the data as it was given, with no
part of the package. A certificate is violated where its primal value is below the model's, or its dual value above that
of the best multiple of the model's coefficients and above the primal value of a machine fitted to a tenth of the gap,
by more than 1e-9 of the primal value; and where it is above ``tol`` though ``stop_reason_`` is "tol".
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import numpy as np
import scipy.sparse as sp

from widemargin import SVC, SVR

#: Violations are more than this share of the primal value.
ALLOWED = 1e-9
KERNELS = ("rbf", "linear", "poly", "laplacian", "precomputed")
SOLVERS = ("smo", "sbp", "sdca", "pegasos", "perceptron")


def case(rng):
    """(estimator, X, y, weights, traits) drawn at random."""
    n, d = int(rng.integers(12, 90)), int(rng.integers(1, 8))
    traits = {
        "kernel": str(rng.choice(KERNELS)), "solver": str(rng.choice(SOLVERS, p=[0.4, 0.2, 0.2, 0.1, 0.1])),
        "dtype": str(rng.choice(["float32", "float64"])), "sparse": bool(rng.random() < 0.3),
        "weights": bool(rng.random() < 0.4), "duplicates": bool(rng.random() < 0.3),
        "offset": float(rng.choice([0.0, 0.0, 1e2, 1e5])),
    }  # fmt: skip
    regression = traits["solver"] in ("smo", "sdca") and rng.random() < 0.3
    free = traits["solver"] in ("smo", "sbp")
    traits["intercept"] = str(rng.choice(["unregularized", "regularized", "none"] if free else ["regularized", "none"]))
    traits["estimator"] = "SVR" if regression else "SVC"
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1) * (rng.random((n, d)) < (0.4 if traits["sparse"] else 1.0))
    if traits["duplicates"]:
        X[: n // 2] = X[n // 2 : 2 * (n // 2)]
    score = X @ rng.normal(size=d) / (np.abs(X).max() + 1e-9) + rng.normal(size=n) * 10.0 ** rng.uniform(-2, 0)
    y = score if regression else np.where(score > np.median(score), 1, -1)
    X += traits["offset"] * (X != 0.0 if traits["sparse"] else 1.0)
    X = X.astype(traits["dtype"])
    weights = 10.0 ** rng.uniform(-2, 2, n) if traits["weights"] else None
    options = {
        "C": 10.0 ** rng.uniform(-3, 7), "tol": 10.0 ** rng.uniform(-10, -2), "solver": traits["solver"],
        "intercept": traits["intercept"], "max_iter": 300, "degree": int(rng.integers(1, 4)), "coef0": 1.0,
        "kernel": traits["kernel"],
    }  # fmt: skip
    if traits["kernel"] != "precomputed" and rng.random() < 0.5:
        options["gamma"] = 10.0 ** rng.uniform(-2, 1) / (np.abs(X).max() ** 2 + 1e-9)
    if regression:
        options["epsilon"] = float(rng.choice([0.0, 0.1]))
    if traits["kernel"] == "precomputed":
        traits["sparse"], own = False, X.astype(np.float64)
        X = np.ascontiguousarray(np.exp(-0.3 * ((own[:, None] - own[None]) ** 2).sum(2)).astype(traits["dtype"]))
    model = (SVR if regression else SVC)(**options)
    return model, sp.csr_matrix(X) if traits["sparse"] else X, y, weights, traits


def kernel_matrix(model, X):
    """The kernel matrix in longdouble; under a linear kernel of centred rows, as the model has them."""
    wide = (X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    if model.kernel == "precomputed":
        return wide
    if model.kernel in ("linear", "poly"):
        centre = model._preparation.centre
        wide = wide if centre is None or model.kernel == "poly" else wide - centre.astype(np.longdouble)
        inner = wide @ wide.T
        if model.kernel == "linear":
            return inner
        return (np.longdouble(model.gamma_) * inner + np.longdouble(model.coef0)) ** model.degree
    apart = wide[:, None] - wide[None]
    distance = np.abs(apart).sum(2) if model.kernel == "laplacian" else (apart * apart).sum(2)
    return np.exp(-np.longdouble(model.gamma_) * distance)


def values(model, X, y, weights):
    """(primal value of the model, largest dual value of a multiple of its coefficients) in longdouble."""
    n, s = y.size, np.ones(y.size) if weights is None else weights
    K, regularised = kernel_matrix(model, X), model._model.constant
    beta = np.zeros(n, np.longdouble)
    beta[model.support_] = model.dual_coef_[0].astype(np.longdouble)
    cap, t = np.longdouble(model.C) * s.astype(np.longdouble), y.astype(np.longdouble)
    bias = np.longdouble(model._model.intercept[0]) + regularised * beta.sum()
    f = K @ beta
    norm2 = beta @ f + regularised * bias**2
    missed = np.abs(f + bias - t) - np.longdouble(model.epsilon) if hasattr(model, "epsilon") else 1 - t * (f + bias)
    primal = norm2 / 2 + cap @ np.maximum(missed, 0)
    linear = beta @ t - (np.longdouble(model.epsilon) * np.abs(beta).sum() if hasattr(model, "epsilon") else 0)
    own, dual, used = beta @ f + regularised * beta.sum() ** 2, np.longdouble(0), beta != 0
    if linear > 0 and (hasattr(model, "epsilon") or (beta * t >= 0).all()):
        theta = (cap[used] / np.abs(beta[used])).min()
        theta = min(theta, linear / own) if own > 0 else theta
        dual = theta * linear - theta**2 * own / 2
    lam = 1 / (np.longdouble(model.C) * n)
    return lam * primal, lam * dual


def main(count, seed):
    rng, found, table, worst = np.random.default_rng(seed), Counter(), {}, np.zeros(2)
    warnings.simplefilter("ignore")
    for k in range(count):
        model, X, y, weights, traits = case(rng)
        try:
            model.fit(X, y, weights)
        except ValueError as error:
            found[f"refused: {str(error)[:40]}"] += 1
            continue
        certificate = model.certificate_
        found[model.stop_reason_] += 1
        found["no certificate"] += certificate is None
        if certificate is None:
            continue
        primal, dual = values(model, X, y, weights)
        below, above = float(primal - certificate.primal), float(certificate.dual - dual)
        size = max(abs(certificate.primal), 1e-300)
        if above > ALLOWED * size:  # a dual value of other coefficients than the model's
            tight = type(model)(**{**model.get_params(), "solver": "smo", "tol": 1e-9, "max_iter": 3000})
            above = float(certificate.dual - values(tight.fit(X, y, weights), X, y, weights)[0])
            found["dual of another point"] += 1
        wrong = {
            "primal": below > ALLOWED * size, "dual": above > ALLOWED * size,
            "tol": model.stop_reason_ == "tol" and certificate.relative_gap > model.tol,
        }  # fmt: skip
        worst = np.maximum(worst, [below / size, above / size])
        for name in [name for name, is_wrong in wrong.items() if is_wrong]:
            found[f"VIOLATED {name}"] += 1
            print(k, name, below / size, above / size, certificate, model, traits, model.stop_reason_)
        for name, value in traits.items():
            row = table.setdefault((name, str(value)), [0, 0])
            row[0] += 1
            row[1] += any(wrong.values())
    print(f"{'':14}{'':16}{'fits':>8}{'violations':>12}")
    for (name, value), (fits, violations) in sorted(table.items()):
        print(f"{name:14}{value:16}{fits:8}{violations:12}")
    print(dict(found), f"largest excess: primal {worst[0]:.1e}, dual {worst[1]:.1e} of the primal value")
    return sum(count for name, count in found.items() if name.startswith("VIOLATED"))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
