"""Parity with LIBSVM and LIBLINEAR: the same problem, judged by a neutral party.

The judge is this file: from the coefficients and the intercept of a model, and a kernel matrix computed in float64
by scikit-learn, it computes P = ½ cᵀKc + Σ Cᵢ ℓᵢ. Ours must be at most ``TOL`` above theirs.

How far may two such models be apart? P is strongly convex in w, so a model with P(w) − D ≤ g, for a feasible dual
value D, has w within √(2g) of w*, and ⟨w, Φ(x)⟩ within that times √K(x, x); a free bias follows the responses of the
free support vectors and adds as much again, for the largest K. ``margin`` below is the sum over both models;
predictions must be equal where |decision| is larger.
"""

import bz2
import io
import warnings
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import datasets
from sklearn import svm as libsvm
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import scale

from widemargin import SVC, SVR, LinearSVC, LinearSVR

#: Relative duality gap asked of ours; theirs get a tolerance on the gradient far below it.
TOL = 1e-5
THEIRS = {"tol": 1e-6, "cache_size": 100}

#: Kernel rows are float32: a value is rounded by ε₃₂ = 6e-8 of itself, and so is P, up to some cancellation.
ROUNDING = 1e-5


# ---------------------------------------------------------------- data sets


def text_like(n=300, d=2000, density=0.01):
    """Rows of few positive numbers of unit length, labels by a few informative words."""
    rng = np.random.default_rng(7)
    X = sp.random(n, d, density, "csr", random_state=7)
    X = sp.csr_matrix(X.multiply(1.0 / np.maximum(sp.linalg.norm(X, axis=1), 1e-12)[:, None]))
    return X, np.where(X @ rng.normal(size=d) > 0, 1, -1)


def blobs():
    X, y = datasets.make_blobs(240, centers=4, cluster_std=2.5, random_state=0)
    return scale(X), y


def bundled(name, classes=None, n=None):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = scale(X)
    if classes is not None:
        X, y = X[np.isin(y, classes)], y[np.isin(y, classes)]
    return X[:n], y[:n]


SETS = {
    "iris": lambda: bundled("iris"),
    "wine": lambda: bundled("wine"),
    "breast_cancer": lambda: bundled("breast_cancer", n=300),
    "digits": lambda: bundled("digits", n=500),
    "digits 3 or 8": lambda: bundled("digits", classes=[3, 8]),
    "diabetes": lambda: bundled("diabetes"),
    "moons": lambda: datasets.make_moons(300, noise=0.25, random_state=0),
    "many moons": lambda: datasets.make_moons(2200, noise=0.25, random_state=0),
    "circles": lambda: datasets.make_circles(250, noise=0.1, factor=0.5, random_state=0),
    "blobs": blobs,
    "text-like": text_like,
}


def stored(folder, name, n):
    """The first n examples of a file of the benchmark data."""
    path = folder / f"{name}.bz2"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the benchmark data")
    with bz2.open(path) as file:
        lines = b"".join(islice(file, n))
    X, y = datasets.load_svmlight_file(io.BytesIO(lines))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # LIBSVM takes no others
    return X, y


# ---------------------------------------------------------------- the judge


def kernel_matrix(parameters, X, Z):
    kernel, gamma = parameters.get("kernel", "rbf"), parameters.get("gamma", 1.0)
    if callable(kernel):
        return kernel(X, Z)
    if kernel == "linear":
        return linear_kernel(X, Z)
    if kernel == "poly":
        return polynomial_kernel(X, Z, parameters.get("degree", 3), gamma, parameters.get("coef0", 0.0))
    return {"rbf": rbf_kernel, "laplacian": laplacian_kernel}[kernel](X, Z, gamma)


def objective(K, loss, caps, coefficients, b):
    """P at Σ cᵢΦ(xᵢ), b: the loss is a function of the scores."""
    f = K @ coefficients
    return 0.5 * coefficients @ f + caps @ loss(f + b)


def hinge(y):
    return lambda scores: np.maximum(0.0, 1.0 - y * scores)


def tube(y, epsilon):
    return lambda scores: np.maximum(0.0, np.abs(scores - y) - epsilon)


def over_rows(model, n, row=0):
    full = np.zeros(n)
    full[model.support_] = (
        np.asarray(model.dual_coef_[row].todense()).ravel()
        if sp.issparse(model.dual_coef_)
        else (model.dual_coef_[row])
    )
    return full


def pair_over_rows(model, codes, i, j):
    """Coefficients of the classifier of class i against class j in LIBSVM's layout."""
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    full, of = np.zeros(codes.size), codes[model.support_]
    full[model.support_[of == i]] = dual[j - 1, of == i]
    full[model.support_[of == j]] = dual[i, of == j]
    return full


def margin(values, dual, K):
    """How far decisions of models with these primal values may be apart, for each row."""
    lengths = np.sqrt(K.diagonal())
    gaps = [max(value - dual, 0.0) + ROUNDING * value for value in values]
    return sum(np.sqrt(2.0 * gap) for gap in gaps) * (lengths + lengths.max())


def assert_no_worse(ours, theirs):
    assert ours <= theirs * (1.0 + TOL + ROUNDING)


def fitted(model, X, y, weights=None):
    """Fitted, with warnings of non-convergence as errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(X, y, sample_weight=weights)


# ---------------------------------------------------------------- classification


BINARY = [
    ("breast_cancer", {"kernel": "rbf", "gamma": 0.03, "C": 1.0}),
    ("breast_cancer", {"kernel": "linear", "C": 0.1}),
    ("breast_cancer", {"kernel": laplacian_kernel, "C": 1.0}),
    ("digits 3 or 8", {"kernel": "rbf", "gamma": 0.01, "C": 5.0}),
    ("digits 3 or 8", {"kernel": "poly", "gamma": 0.02, "degree": 2, "coef0": 1.0, "C": 0.5}),
    ("moons", {"kernel": "rbf", "gamma": 1.0, "C": 10.0}),
    ("moons", {"kernel": "poly", "gamma": 1.0, "degree": 3, "coef0": 1.0, "C": 1.0}),
    ("many moons", {"kernel": "rbf", "gamma": 1.0, "C": 1.0}),  # above 2000 examples training starts with a sample
    ("circles", {"kernel": "rbf", "gamma": 0.5, "C": 1.0}),
    ("circles", {"kernel": "linear", "C": 1.0}),
    ("text-like", {"kernel": "linear", "C": 1.0}),
    ("text-like", {"kernel": "rbf", "gamma": 0.7, "C": 2.0}),
]


def check_binary(X, labels, parameters, weights=None, class_weight=None):
    ours = fitted(SVC(**parameters, class_weight=class_weight, tol=TOL, random_state=0), X, labels, weights)
    theirs = libsvm.SVC(**parameters, class_weight=class_weight, **THEIRS)
    if sp.issparse(X) and callable(parameters.get("kernel")):
        theirs.fit(X.toarray(), labels, weights)
    else:
        theirs.fit(X, labels, weights)
    n, y = labels.size, np.where(labels == ours.classes_[1], 1.0, -1.0)
    caps = parameters["C"] * (np.ones(n) if weights is None else weights)
    caps = caps * np.array([(class_weight or {}).get(label, 1.0) for label in labels])
    K = kernel_matrix(parameters, X, X)
    values = [objective(K, hinge(y), caps, over_rows(m, n), m.intercept_[0]) for m in (ours, theirs)]
    assert_no_worse(*values)
    # the certificate speaks of the λ-form, λ = 1/(Cn), and is true: its dual bounds theirs from below
    lam = 1.0 / (parameters["C"] * n)
    assert ours.certificate_.primal == pytest.approx(lam * values[0], rel=ROUNDING)
    assert ours.certificate_.dual <= lam * values[1] * (1.0 + ROUNDING)
    decisions, apart = (
        (ours.decision_function(X), theirs.decision_function(X)),
        margin(values, ours.certificate_.dual / lam, K),
    )
    assert np.all(np.abs(decisions[0] - decisions[1]) <= apart)
    sure = np.abs(decisions[1]) > apart
    assert sure.mean() > 0.5 or weights is not None  # else the comparison says nothing; random weights may make it so
    np.testing.assert_array_equal(ours.predict(X)[sure], theirs.predict(X)[sure])


@pytest.mark.parametrize(
    ("name", "parameters"),
    BINARY,
    ids=lambda p: p if isinstance(p, str) else getattr(p["kernel"], "__name__", p["kernel"]),
)
def test_two_classes_have_libsvms_optimum(name, parameters):
    check_binary(*SETS[name](), parameters)


@pytest.mark.parametrize("name", ["moons", "circles", "digits 3 or 8"])
def test_a_large_C_has_libsvms_optimum_to_within_the_certified_gap(name):
    """At C = 1e4 the rounding of float32 kernel values times α shows, and the certificate says how much."""
    (X, labels), C, gamma = SETS[name](), 1e4, 0.5 / SETS[name]()[0].shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = SVC(C=C, gamma=gamma, random_state=0).fit(X, labels)
        theirs = libsvm.SVC(C=C, gamma=gamma, max_iter=1000000).fit(X, labels)
    n, y = labels.size, np.where(labels == ours.classes_[1], 1.0, -1.0)
    K, caps = rbf_kernel(X, X, gamma), np.full(labels.size, C)
    values = [objective(K, hinge(y), caps, over_rows(m, n), m.intercept_[0]) / (C * n) for m in (ours, theirs)]
    certificate = ours.certificate_
    assert certificate.relative_gap < 0.1
    assert certificate.primal == pytest.approx(values[0], rel=1e-3)
    assert certificate.dual <= values[1] * (1.0 + 1e-3)
    assert values[0] - values[1] <= certificate.gap + 1e-3 * values[1]


@pytest.mark.parametrize("name", ["moons", "text-like", "digits 3 or 8"])
@pytest.mark.parametrize("how", ["sample weights", "class weights", "both"])
def test_weights_mean_what_libsvms_mean(name, how, rng):
    X, y = SETS[name]()
    weights = rng.uniform(0.1, 3.0, y.size) if how != "class weights" else None
    class_weight = {int(np.unique(y)[0]): 2.5, int(np.unique(y)[1]): 0.5} if how != "sample weights" else None
    check_binary(X, y, {"kernel": "rbf", "gamma": 0.05, "C": 2.0}, weights, class_weight)


@pytest.mark.parametrize("name", ["iris", "wine", "digits", "blobs"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_every_pair_of_classes_has_libsvms_optimum(name, kernel):
    X, labels = SETS[name]()
    parameters = {"kernel": kernel, "gamma": 0.3 / X.shape[1], "C": 1.0}
    ours = fitted(SVC(**parameters, tol=TOL, random_state=0, decision_function_shape="ovo"), X, labels)
    theirs = libsvm.SVC(**parameters, decision_function_shape="ovo", **THEIRS).fit(X, labels)
    codes, K = np.searchsorted(ours.classes_, labels), kernel_matrix(parameters, X, X)
    scores, own_scores, sure = theirs.decision_function(X), ours.decision_function(X), np.ones(labels.size, bool)
    pairs = [(i, j) for i in range(ours.classes_.size) for j in range(i + 1, ours.classes_.size)]
    for k, (i, j) in enumerate(pairs):
        own = np.isin(codes, [i, j])
        y, caps = np.where(codes[own] == i, 1.0, -1.0), np.ones(own.sum())
        values = [
            objective(K[np.ix_(own, own)], hinge(y), caps, pair_over_rows(m, codes, i, j)[own], m.intercept_[k])
            for m in (ours, theirs)
        ]
        assert_no_worse(*values)
        assert ours.certificate_[k].primal == pytest.approx(values[0] / own.sum(), rel=ROUNDING)
        apart = margin(values, ours.certificate_[k].dual * own.sum(), K)
        assert np.all(np.abs(own_scores[:, k] - scores[:, k]) <= apart)
        sure &= np.abs(scores[:, k]) > apart
    # a vote for another class needs a sign to change
    np.testing.assert_array_equal(ours.predict(X)[sure], theirs.predict(X)[sure])


@pytest.mark.parametrize("name", ["iris", "wine", "blobs"])
def test_one_versus_rest_is_scikit_learns(name):
    X, labels = SETS[name]()
    parameters = {"kernel": "rbf", "gamma": 0.2, "C": 2.0}
    ours = fitted(SVC(**parameters, multi_class="ovr", tol=TOL, random_state=0), X, labels)
    theirs = OneVsRestClassifier(libsvm.SVC(**parameters, **THEIRS)).fit(X, labels)
    K, scores, margins = kernel_matrix(parameters, X, X), theirs.decision_function(X), []
    for c, label in enumerate(ours.classes_):
        y, caps = np.where(labels == label, 1.0, -1.0), np.full(labels.size, 2.0)
        own = theirs.estimators_[c]
        first = objective(K, hinge(y), caps, over_rows(ours, y.size, c), ours.intercept_[c])
        second = objective(K, hinge(y), caps, over_rows(own, y.size), own.intercept_[0])
        assert_no_worse(first, second)
        margins.append(margin([first, second], ours.certificate_[c].dual * 2.0 * y.size, K))
    # the winner cannot change where its lead is more than two scores can move
    ordered = np.sort(scores, axis=1)
    sure = ordered[:, -1] - ordered[:, -2] > 2 * np.max(margins, axis=0)
    np.testing.assert_array_equal(ours.predict(X)[sure], theirs.predict(X)[sure])
    assert sure.mean() > 0.5


# ---------------------------------------------------------------- intercepts that LIBSVM does not have


@pytest.mark.parametrize("intercept", ["regularized", "none"])
@pytest.mark.parametrize("solver", ["smo", "sdca"])
@pytest.mark.parametrize("name", ["breast_cancer", "text-like", "circles"])
def test_a_linear_kernel_without_a_free_bias_has_liblinears_optimum(name, solver, intercept):
    X, labels = SETS[name]()
    C = 0.2
    ours = SVC(C=C, kernel="linear", solver=solver, intercept=intercept, tol=TOL, random_state=0)
    ours = fitted(ours, X, labels)
    theirs = libsvm.LinearSVC(
        C=C, loss="hinge", dual=True, fit_intercept=intercept == "regularized", tol=1e-8, max_iter=100000
    ).fit(X, labels)
    y, dense = np.where(labels == ours.classes_[1], 1.0, -1.0), X.toarray() if sp.issparse(X) else X
    w = [dense.T @ over_rows(ours, y.size), theirs.coef_[0]]
    b = [ours.intercept_[0], np.ravel(theirs.intercept_)[0]]
    if intercept == "none":
        assert b == [0.0, 0.0]
    # a regularised intercept is the weight of a constant feature of value 1
    values = [0.5 * (v @ v + c * c) + C * hinge(y)(dense @ v + c).sum() for v, c in zip(w, b)]
    assert_no_worse(*values)
    assert ours.certificate_.primal == pytest.approx(values[0] / (C * y.size), rel=ROUNDING)
    dual = ours.certificate_.dual * C * y.size
    sure = np.abs(dense @ w[1] + b[1]) > margin(values, dual, dense @ dense.T + 1.0)
    np.testing.assert_array_equal(ours.predict(X)[sure], theirs.predict(X)[sure])


# ---------------------------------------------------------------- regression


def check_regression(X, y, parameters, weights=None):
    ours = fitted(SVR(**parameters, tol=TOL, random_state=0), X, y, weights)
    theirs = libsvm.SVR(**parameters, **THEIRS).fit(X, y, weights)
    K, n = kernel_matrix(parameters, X, X), y.size
    caps = parameters["C"] * (np.ones(n) if weights is None else weights)
    loss = tube(y, parameters["epsilon"])
    values = [objective(K, loss, caps, over_rows(m, n), m.intercept_[0]) for m in (ours, theirs)]
    assert_no_worse(*values)
    assert ours.certificate_.primal == pytest.approx(values[0] / (parameters["C"] * n), rel=ROUNDING)
    apart = margin(values, ours.certificate_.dual * parameters["C"] * n, K)
    assert np.all(np.abs(ours.predict(X) - theirs.predict(X)) <= apart)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kernel", "more"),
    [("rbf", {"gamma": 0.1}), ("linear", {}), ("poly", {"gamma": 0.1, "degree": 2, "coef0": 1.0})],
)
def test_regression_has_libsvms_optimum(kernel, more, weighted, rng):
    X, y = SETS["diabetes"]()
    weights = rng.uniform(0.1, 2.0, y.size) if weighted else None
    check_regression(X, y / 50.0, {"kernel": kernel, "C": 1.0, "epsilon": 0.2, **more}, weights)


@pytest.mark.parametrize("intercept", ["regularized", "none"])
def test_linear_regression_without_a_free_bias_has_liblinears_optimum(intercept):
    X, y = SETS["diabetes"]()
    y, C, epsilon = y / 50.0, 0.1, 0.3
    ours = fitted(SVR("linear", C=C, epsilon=epsilon, intercept=intercept, tol=TOL, random_state=0), X, y)
    theirs = libsvm.LinearSVR(
        C=C, epsilon=epsilon, fit_intercept=intercept == "regularized", dual=True, tol=1e-8, max_iter=100000
    ).fit(X, y)
    w, b = [X.T @ over_rows(ours, y.size), theirs.coef_], [ours.intercept_[0], np.ravel(theirs.intercept_)[0]]
    values = [0.5 * (v @ v + c * c) + C * tube(y, epsilon)(X @ v + c).sum() for v, c in zip(w, b)]
    assert_no_worse(*values)
    apart = margin(values, ours.certificate_.dual * C * y.size, X @ X.T + 1.0)
    assert np.all(np.abs(X @ w[0] + b[0] - X @ w[1] - b[1]) <= apart)


# ---------------------------------------------------------------- linear machines against LIBLINEAR


def powered(loss, power):
    return lambda scores: loss(scores) ** power


def check_linear(X, ours, theirs, losses, caps, C):
    """Objectives and scores of two linear models with an output for each of the losses.

    P is strongly convex in (w, b), so ‖(w, b) − (w*, b*)‖² ≤ 2(P − D) and a score is within ‖(x, 1)‖ times the root of
    that. Returns the scores of theirs and by how much both models' together may be apart, in each output.
    """
    n, lengths = X.shape[0], np.sqrt(np.asarray(sp.csr_matrix(X).multiply(X).sum(axis=1)).ravel() + 1.0)
    W = [np.atleast_2d(m.coef_) for m in (ours, theirs)]
    b = [np.broadcast_to(np.ravel(m.intercept_), len(losses)) for m in (ours, theirs)]
    scores = [np.asarray(X @ w.T) + c for w, c in zip(W, b)]
    values = np.array(
        [
            [0.5 * (w[k] @ w[k] + c[k] ** 2) + caps @ loss(z[:, k]) for k, loss in enumerate(losses)]
            for w, c, z in zip(W, b, scores)
        ]
    )
    # the certificate speaks of the sum over outputs in the λ-form, and so does tol
    scale = C * n
    certificate = ours.certificate_
    assert certificate.primal == pytest.approx(values[0].sum() / scale, rel=1e-9)
    assert certificate.relative_gap <= TOL
    assert values[0].sum() <= values[1].sum() * (1.0 + TOL)
    assert certificate.dual * scale <= values[1].sum() * (1.0 + 1e-9)
    # D is known for the sum; no output's gap is negative, so none is larger than the sum
    gaps = np.maximum(values.sum(axis=1) - certificate.dual * scale, 0.0) + 1e-9 * values.sum(axis=1)
    apart = np.sqrt(2.0 * gaps).sum() * lengths
    assert np.all(np.abs(scores[0] - scores[1]) <= apart[:, None])
    return scores[1], apart


def linear_weights(how, y, rng):
    return rng.uniform(0.1, 3.0, y.size) if how == "weighted" else None


LINEAR = [("breast_cancer", 0.1), ("digits 3 or 8", 0.01), ("moons", 1.0), ("circles", 0.1), ("text-like", 1.0),
          ("iris", 1.0), ("wine", 0.1), ("blobs", 0.1)]  # fmt: skip


def check_linear_classifier(X, labels, C, loss, intercept, weights):
    options = {"C": C, "loss": loss}
    ours = fitted(
        # beyond TOL, since the scores of circles are small
        LinearSVC(**options, solver="sdca", intercept=intercept, tol=1e-3 * TOL, max_iter=50000, random_state=0),
        X, labels, weights,
    )  # fmt: skip
    theirs = libsvm.LinearSVC(
        **options, dual=True, fit_intercept=intercept == "regularized", tol=1e-7, max_iter=200000, random_state=0
    ).fit(X, labels, weights)
    classes = ours.classes_[1:] if ours.classes_.size == 2 else ours.classes_
    power = 2 if loss == "squared_hinge" else 1
    losses = [powered(hinge(np.where(labels == label, 1.0, -1.0)), power) for label in classes]
    caps = C * (np.ones(labels.size) if weights is None else weights)
    scores, apart = check_linear(X, ours, theirs, losses, caps, C)
    if len(losses) == 1:
        sure = np.abs(scores[:, 0]) > apart
    else:  # the winner cannot change where its lead is more than two scores can move
        ordered = np.sort(scores, axis=1)
        sure = ordered[:, -1] - ordered[:, -2] > 2.0 * apart
    assert sure.mean() > 0.5 or weights is not None  # else the comparison says nothing; random weights may make it so
    np.testing.assert_array_equal(ours.predict(X)[sure], theirs.predict(X)[sure])


@pytest.mark.parametrize(("name", "C"), LINEAR)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", ["regularized", "none"])
@pytest.mark.parametrize("how", ["weighted", "unweighted"])
def test_sdca_has_liblinears_optimum_in_classification(name, C, loss, intercept, how, rng):
    X, labels = SETS[name]()
    check_linear_classifier(X, labels, C, loss, intercept, linear_weights(how, labels, rng))


def check_linear_regressor(X, y, C, loss, intercept, weights, epsilon):
    options = {"C": C, "loss": loss, "epsilon": epsilon}
    ours = fitted(
        LinearSVR(**options, solver="sdca", intercept=intercept, tol=TOL, max_iter=50000, random_state=0), X, y, weights
    )
    theirs = libsvm.LinearSVR(
        **options, dual=True, fit_intercept=intercept == "regularized", tol=1e-7, max_iter=200000, random_state=0
    ).fit(X, y, weights)
    power = 2 if loss.startswith("squared") else 1
    caps = C * (np.ones(y.size) if weights is None else weights)
    check_linear(X, ours, theirs, [powered(tube(y, epsilon), power)], caps, C)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("intercept", ["regularized", "none"])
@pytest.mark.parametrize("how", ["weighted", "unweighted"])
@pytest.mark.parametrize("name", ["diabetes", "text-like"])
def test_sdca_has_liblinears_optimum_in_regression(name, loss, intercept, how, rng):
    X, y = SETS[name]()
    y = y / 50.0 if name == "diabetes" else np.asarray(X @ rng.normal(size=X.shape[1]))
    check_linear_regressor(X, y, 0.1, loss, intercept, linear_weights(how, y, rng), 0.3)


# ---------------------------------------------------------------- benchmark data


@pytest.mark.parametrize(
    ("name", "n", "dense", "parameters"),
    [
        ("a9a", 600, False, {"kernel": "rbf", "gamma": 0.05, "C": 1.0}),
        ("a9a", 600, False, {"kernel": "linear", "C": 0.5}),
        ("a9a", 3000, False, {"kernel": "rbf", "gamma": 0.05, "C": 1.0}),  # training starts with a sample
        ("banana", 500, True, {"kernel": "rbf", "gamma": 1.0, "C": 10.0}),
        ("phoneme", 500, True, {"kernel": "rbf", "gamma": 0.5, "C": 10.0}),
    ],
)
def test_two_classes_of_the_benchmark_data_have_libsvms_optimum(name, n, dense, parameters, data_folder):
    X, y = stored(data_folder, name, n)
    check_binary(X.toarray() if dense else X, y, parameters)


def test_usps_has_libsvms_optimum_in_every_pair(data_folder, monkeypatch):
    X, y = stored(data_folder, "usps", 500)
    monkeypatch.setitem(SETS, "usps", lambda: (X.toarray(), y))
    test_every_pair_of_classes_has_libsvms_optimum("usps", "rbf")


def test_cadata_has_libsvms_optimum(data_folder):
    X, y = stored(data_folder, "cadata", 500)
    check_regression(scale(X.toarray()), y / 1e5, {"kernel": "rbf", "gamma": 0.1, "C": 1.0, "epsilon": 0.1})


@pytest.mark.parametrize(
    ("name", "n", "C", "loss"),
    [
        *(("a9a", 1000, 0.1, loss) for loss in ("hinge", "squared_hinge")),
        *(("ijcnn1", 1000, 1.0, loss) for loss in ("hinge", "squared_hinge")),
        ("dna", 500, 0.01, "hinge"),  # three classes and the squared one are above, on rows of other data
    ],
)
def test_linear_classes_of_the_benchmark_data_have_liblinears_optimum(name, n, C, loss, data_folder):
    X, y = stored(data_folder, name, n)
    check_linear_classifier(X, y, C, loss, "regularized", None)


@pytest.mark.parametrize("name", ["cadata", "cpusmall"])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_linear_regression_of_the_benchmark_data_has_liblinears_optimum(name, loss, data_folder):
    X, y = stored(data_folder, name, 500)
    check_linear_regressor(scale(X.toarray()), scale(y), 0.1, loss, "regularized", None, 0.1)
