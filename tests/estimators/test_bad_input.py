"""Bad input is refused in a sentence that names the thing, the value and, where there is one, the remedy."""

import re
import traceback

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.class_weight import compute_class_weight

from widemargin import SVC, BudgetedSVC, IncrementalSVC, LinearSVC, LinearSVR, Pegasos, pareto_path, svm_path
from widemargin.estimators.grids import svm_grid
from widemargin.estimators.linear import _is_logistic
from widemargin.solvers.pegasos import Bottou, Constant, Norma

N, D = 12, 3
X = np.random.default_rng(0).normal(size=(N, D))
LABELS = np.arange(N) % 2
TARGETS = X[:, 0] + 1.0
CLASSES = [0, 1]
BOTH = [pytest.param(LinearSVC, LABELS, id="SVC"), pytest.param(LinearSVR, TARGETS, id="SVR")]


def changed(value, at=(1, 2)):
    bad = X.copy()
    bad[at] = value
    return bad


def refused(call, *words, kind=(ValueError, TypeError)):
    """The sentence with which ``call`` is refused; it has all the words, and nothing of a compiler's."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    chain = [error]
    while chain[-1].__cause__ or chain[-1].__context__:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    assert not any("numba" in type(link).__module__ for link in chain)
    assert type(error).__module__ in ("builtins", "sklearn.exceptions", "sklearn.utils._param_validation")
    assert not isinstance(error, (AssertionError, IndexError, KeyError))
    message = str(error)
    missing = [word for word in words if not said(word, message)]
    assert not missing, f"{missing} not in: {message}"
    return message


def said(word, message):
    """A single letter, such as the name of an argument, must stand alone; the case of longer words is free."""
    if len(word) == 1 and word.isalpha():
        return re.search(rf"\b{word}\b", message) is not None
    return word.lower() in message.lower()


# ---------------------------------------------------------------- data

BAD_DATA = {
    "NaN": (lambda: changed(np.nan), ["X", "NaN"]),
    "infinity": (lambda: changed(np.inf), ["X", "infinity"]),
    "minus infinity": (lambda: changed(-np.inf), ["X", "infinity"]),
    "sparse NaN": (lambda: sp.csr_matrix(changed(np.nan)), ["X", "NaN"]),
    "sparse infinity": (lambda: sp.coo_array(changed(np.inf)), ["X", "infinity"]),
    "infinity in float32": (lambda: changed(1e39).astype(np.float32, copy=False), ["X", "infinity"]),
    "no examples": (lambda: X[:0], ["0 sample", "minimum of 1"]),
    "no features": (lambda: X[:, :0], ["0 feature", "minimum of 1"]),
    "one dimension": (lambda: X[:, 0], ["2D", "1D", "reshape"]),
    "three dimensions": (lambda: X[None], ["dim"]),
    "one example too few": (lambda: X[:-1], ["inconsistent", str(N - 1), str(N)]),
    "strings": (lambda: np.full((N, D), "red"), ["X", "'red'", "encode"]),
    "strings among numbers": (lambda: [[1.0, "red", 2.0]] * N, ["X", "'red'", "encode"]),
    "strings as objects": (lambda: np.full((N, D), "red", dtype=object), ["X", "'red'", "encode"]),
    "objects": (lambda: np.full((N, D), object(), dtype=object), ["X", "object", "number"]),
    "dictionaries": (lambda: np.full((N, D), {}, dtype=object), ["X", "dict", "number"]),
    "complex numbers": (lambda: X * 1j, ["complex"]),
    "a string": (lambda: "red", ["X", "'red'"]),
}


@pytest.mark.parametrize(("estimator", "y"), BOTH)
@pytest.mark.parametrize("what", BAD_DATA)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_bad_data_is_refused_at_fit(what, estimator, y):
    make, words = BAD_DATA[what]
    # no examples and no labels for them, or the lengths would be what is refused
    message = refused(lambda: estimator().fit(make(), y[:0] if what == "no examples" else y), *words)
    assert "np.str_" not in message


@pytest.mark.parametrize("what", [what for what in BAD_DATA if what != "one example too few"])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_bad_data_is_refused_at_partial_fit_and_predict(what):
    make, words = BAD_DATA[what]
    y = LABELS[:0] if what == "no examples" else LABELS
    refused(lambda: LinearSVC().partial_fit(make(), y, classes=CLASSES), *words)
    for model in (fitted(LinearSVC, LABELS), fitted(LinearSVR, TARGETS)):
        refused(lambda model=model: model.predict(make()), *words)


FITTED = {}


def fitted(estimator, y):
    """A model fitted once for the whole file."""
    if estimator not in FITTED:
        FITTED[estimator] = estimator(max_iter=5, tol=0, random_state=0).fit(X, y)
    return FITTED[estimator]


@pytest.mark.parametrize(("estimator", "y"), BOTH)
def test_the_wrong_number_of_features_at_predict_is_refused(estimator, y):
    model = fitted(estimator, y)
    for wrong in (X[:, :2], np.hstack([X, X]), sp.csr_matrix(X[:, :2])):
        words = estimator.__name__, f"{wrong.shape[1]} features", f"expecting {D}"
        refused(lambda wrong=wrong: model.predict(wrong), *words)


def test_the_wrong_number_of_features_in_a_later_part_is_refused():
    model = LinearSVC(random_state=0).partial_fit(X, LABELS, classes=CLASSES)
    refused(lambda: model.partial_fit(X[:, :2], LABELS), "2 features", f"expecting {D}")


@pytest.mark.parametrize("estimator", [LinearSVC, LinearSVR])
def test_predicting_before_fitting_is_refused(estimator):
    refused(lambda: estimator().predict(X), estimator.__name__, "not fitted yet", "fit", kind=NotFittedError)


# ---------------------------------------------------------------- labels and targets

BAD_LABELS = {
    "one class only": (np.full(N, 7), ["2 classes", "1 class", "7"]),
    "one class of strings": (np.full(N, "yes"), ["2 classes", "1 class", "'yes'"]),
    "continuous": (TARGETS, ["continuous", "label"]),
    "NaN": (np.where(LABELS, np.nan, 1.0), ["y", "NaN"]),
    "too few": (LABELS[:-1], ["inconsistent", str(N), str(N - 1)]),
    "too many": (np.append(LABELS, 1), ["inconsistent", str(N), str(N + 1)]),
    "several columns": (np.c_[LABELS, 1 - LABELS], ["y", "1d", f"({N}, 2)"]),
    "none": (None, ["y", "None"]),
    "mixed types": (np.array([1, "a"] * (N // 2), dtype=object), ["label"]),
}


@pytest.mark.parametrize("what", BAD_LABELS)
def test_bad_labels_are_refused(what):
    y, words = BAD_LABELS[what]
    message = refused(lambda: LinearSVC().fit(X, y), *words)
    assert "np.str_" not in message
    assert "np.int64" not in message


BAD_TARGETS = {
    "NaN": (np.where(LABELS, np.nan, 1.0), ["y", "NaN"]),
    "infinity": (np.where(LABELS, np.inf, 1.0), ["y", "infinity"]),
    "strings": (np.array(["a", "b"] * (N // 2)), ["y", "'a'", "number"]),
    "strings as objects": (np.array(["a", "b"] * (N // 2), dtype=object), ["y", "'a'", "number"]),
    "dictionaries": (np.array([{}] * N, dtype=object), ["y", "dict", "number"]),
    "too few": (TARGETS[:-1], ["inconsistent", str(N), str(N - 1)]),
    "several columns": (np.c_[TARGETS, TARGETS], ["y", "1d", f"({N}, 2)"]),
    "none": (None, ["y", "None"]),
}


@pytest.mark.parametrize("what", BAD_TARGETS)
def test_bad_targets_of_a_regression_are_refused(what):
    y, words = BAD_TARGETS[what]
    for call in (LinearSVR().fit, LinearSVR().partial_fit):
        message = refused(lambda call=call: call(X, y), *words)
        assert "X must hold" not in message


def test_the_first_part_needs_all_classes():
    refused(lambda: LinearSVC().partial_fit(X, LABELS), "classes", "first call", "all labels")
    refused(lambda: LinearSVC().partial_fit(X, LABELS, classes=[0]), "2 classes", "[0]")
    refused(lambda: LinearSVC().partial_fit(X, LABELS, classes=[0.5, 1.25]), "continuous")


@pytest.mark.parametrize("label", [2, -1, 0.5, "a"])
def test_a_label_that_was_not_announced_is_named(label):
    model = LinearSVC(random_state=0).partial_fit(X, LABELS, classes=CLASSES)
    y = np.array([label] * N) if isinstance(label, str) else np.where(LABELS, label, 0)
    before = model.coef_.copy()
    refused(lambda: model.partial_fit(X, y), "label", str(label), "[0, 1]", "classes=")
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X, LABELS)  # and goes on


def test_other_classes_in_a_later_part_are_refused():
    model = LinearSVC(random_state=0).partial_fit(X, LABELS, classes=CLASSES)
    refused(lambda: model.partial_fit(X, LABELS, classes=[0, 1, 2]), "classes", "[0, 1]", "[0, 1, 2]")


# ---------------------------------------------------------------- weights

BAD_WEIGHTS = {
    "negative": (np.where(LABELS, -0.5, 1.0), ["-0.5", "≥ 0"]),
    "all zero": (np.zeros(N), ["zero", "positive"]),
    "NaN": (np.where(LABELS, np.nan, 1.0), ["finite", "nan"]),
    "infinite": (np.where(LABELS, np.inf, 1.0), ["finite", "inf"]),
    "too large": (np.full(N, 1e200), ["1.0e+200", "divide"]),
    "too few": (np.ones(N - 1), [str(N), str(N - 1)]),
    "two columns": (np.ones((N, 2)), ["1-dimensional", f"({N}, 2)"]),
    "strings": (np.array(["heavy"] * N), ["'heavy'"]),
    "a string": ("heavy", ["'heavy'"]),
    "a negative number": (-1.0, ["-1.0", "≥ 0"]),
}


@pytest.mark.parametrize(("estimator", "y"), BOTH)
@pytest.mark.parametrize("what", BAD_WEIGHTS)
def test_bad_weights_are_refused(what, estimator, y):
    weights, words = BAD_WEIGHTS[what]
    refused(lambda: estimator().fit(X, y, sample_weight=weights), "sample_weight", *words)


# ---------------------------------------------------------------- parameters

BAD_NUMBERS = {
    "C": [0, 0.0, -1.0, np.nan, np.inf, "1", None, True],
    "lam": [0.0, -1e-3, np.nan, np.inf, "small"],
    "tol": [-1e-3, np.nan, np.inf, "x", None],
    "max_iter": [0, -5, 2.5, "many", None, np.inf],
    "max_seconds": [0, -1.0, np.nan, "long"],
    "n_iter_no_change": [0, 1.5, "x"],
}


@pytest.mark.parametrize(("estimator", "y"), BOTH)
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD_NUMBERS.items() for value in values])
def test_bad_numbers_are_refused(name, value, estimator, y):
    message = refused(lambda: estimator(**{name: value}).fit(X, y), f"{name} must be", f"got {value!r}")
    assert len(message.splitlines()) == 1


BAD_NAMES = {
    "loss": ["hing", None, 3, "epsilon"],
    "solver": ["sdcaa", None, 3, Pegasos],
    "intercept": ["yes", True, None],
    "early_stopping": ["yes", 1, None],
    "callbacks": [5, [5], "print", [None]],
}


@pytest.mark.parametrize(("estimator", "y"), BOTH)
@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD_NAMES.items() for value in values])
def test_unknown_names_are_refused_with_those_there_are(name, value, estimator, y):
    message = refused(lambda: estimator(**{name: value}).fit(X, y), f"{name} must be", "got")
    assert len(message.splitlines()) == 1
    loss = "epsilon_insensitive" if estimator is LinearSVR else "hinge"
    assert {"loss": loss, "solver": "pegasos", "intercept": "none"}.get(name, "") in message


@pytest.mark.parametrize("value", ["ovo", None, 2])
def test_an_unknown_treatment_of_classes_is_refused(value):
    refused(lambda: LinearSVC(multi_class=value).fit(X, LABELS), "multi_class must be", "'ovr'", f"got {value!r}")


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, "x", None])
def test_a_bad_epsilon_is_refused(epsilon):
    refused(lambda: LinearSVR(epsilon=epsilon).fit(X, TARGETS), "epsilon must be", f"got {epsilon!r}")


@pytest.mark.parametrize(("estimator", "y"), BOTH)
@pytest.mark.parametrize("random_state", ["lucky", -1, 1.5])
def test_a_bad_random_state_is_refused(random_state, estimator, y):
    refused(lambda: estimator(random_state=random_state).fit(X, y), "random_state", str(random_state))


@pytest.mark.parametrize(
    ("class_weight", "words"),
    [
        ("balance", ["'balanced'", "'balance'"]),
        (3, ["'balanced'", "dictionary", "3"]),
        ({7: 1.0}, ["class 7", "[0, 1]", "name 0"]),
        ({0: -1.0}, ["class 0", "≥ 0", "-1.0"]),
        ({0: "heavy"}, ["class 0", "'heavy'"]),
        ({0: np.nan}, ["class 0", "nan"]),
    ],
    ids=str,
)
def test_bad_class_weights_are_refused(class_weight, words):
    refused(lambda: LinearSVC(class_weight=class_weight).fit(X, LABELS), "class_weight", *words)


@pytest.mark.parametrize("estimator", [LinearSVC, SVC, BudgetedSVC])
def test_a_class_weight_may_name_classes_that_a_fold_lacks(estimator):
    """As scikit-learn has it: if all that are there are named too."""
    known, more = {0: 2.0, 1: 3.0}, {0: 2.0, 1: 3.0, 7: 5.0}
    np.testing.assert_array_equal(compute_class_weight(more, classes=np.array([0, 1]), y=LABELS), [2.0, 3.0])
    models = [estimator(class_weight=weights, random_state=0).fit(X, LABELS) for weights in (known, more)]
    np.testing.assert_array_equal(models[0].decision_function(X), models[1].decision_function(X))
    slip = {0: 2.0, 7: 5.0}
    with pytest.raises(ValueError, match="not in class_weight"):
        compute_class_weight(slip, classes=np.array([0, 1]), y=LABELS)
    refused(lambda: estimator(class_weight=slip).fit(X, LABELS), "class_weight", "class 7", "name 1")


@pytest.mark.parametrize("estimator", [LinearSVC, SVC, BudgetedSVC])
@pytest.mark.parametrize("verbose", ["x", -1, 0.5, None])
def test_a_verbosity_that_is_no_number_is_refused(estimator, verbose):
    refused(lambda: estimator(verbose=verbose).fit(X, LABELS), "verbose must be", f"got {verbose!r}")


def test_class_weights_that_leave_no_example_are_refused():
    """As all-zero sample weights are: nothing would be learnt, in silence."""
    refused(lambda: LinearSVC(class_weight={0: 0.0, 1: 0.0}).fit(X, LABELS), "class_weight", "0.0", "> 0")


@pytest.mark.parametrize("estimator", [LinearSVC, SVC, BudgetedSVC, IncrementalSVC])
def test_weights_that_leave_one_class_are_refused_as_one_class_is(estimator):
    weights = np.where(LABELS, 0.0, 1.5)
    said = "at least 2 classes", "weight > 0", repr(LABELS[0].item())
    refused(lambda: estimator().fit(X, LABELS, sample_weight=weights), *said)
    refused(lambda: estimator(class_weight={1 - LABELS[0].item(): 0.0, LABELS[0].item(): 1.0}).fit(X, LABELS), *said)


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (np.zeros((3, 3)), ["(2, 2)", "(3, 3)"]),
        ([0.0, 1.0], ["(2, 2)", "(2,)"]),
        ([[0.0, -1.0], [1.0, 0.0]], ["≥ 0"]),
        ([[0.0, np.nan], [1.0, 0.0]], ["finite"]),
        ([[1.0, 1.0], [1.0, 1.0]], ["diagonal"]),
        ([["a", "b"], ["c", "d"]], ["'a'"]),
    ],
    ids=["shape", "one dimension", "negative", "NaN", "diagonal", "strings"],
)
def test_a_bad_cost_matrix_is_refused(cost, words):
    model = LinearSVC(multi_class="crammer_singer", cost_matrix=cost)
    refused(lambda: model.fit(X, LABELS), "cost_matrix", *words)


def test_combinations_that_make_no_sense_are_refused():
    refused(lambda: LinearSVC(cost_matrix=1 - np.eye(2)).fit(X, LABELS), "cost_matrix", "crammer_singer", "hinge")
    joint = {"multi_class": "crammer_singer"}
    squared = LinearSVC(loss="squared_hinge", **joint)
    refused(lambda: squared.fit(X, LABELS), "crammer_singer", "'log'", "'squared_hinge'")
    for intercept in ("exact", "search"):
        refused(lambda i=intercept: LinearSVC(intercept=i, **joint).fit(X, LABELS), f"intercept='{intercept}'", "ovr")
    refused(lambda: LinearSVC(intercept="search").partial_fit(X, LABELS, classes=CLASSES), "intercept='search'", "fit")
    refused(lambda: LinearSVR(intercept="search").partial_fit(X, TARGETS), "intercept='search'", "fit")


@pytest.mark.parametrize(("estimator", "y"), BOTH)
@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, 3, "half", None, np.nan])
def test_a_bad_validation_fraction_is_refused(fraction, estimator, y):
    model = estimator(early_stopping=True, validation_fraction=fraction)
    refused(lambda: model.fit(X, y), "validation_fraction must be between 0 and 1", f"got {fraction!r}")


def test_too_few_examples_to_hold_any_out_are_refused():
    refused(lambda: LinearSVC(early_stopping=True).fit(X[:2], [0, 1]), "early_stopping", "n_samples=2", "switch it off")
    refused(lambda: LinearSVR(early_stopping=True).fit(X[:1], [0.5]), "early_stopping", "n_samples=1", "switch it off")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"step": "fast"}, ["step must be", "bottou", "'fast'"]),
        ({"step": 3}, ["step must be", "Bottou", "3"]),
        ({"step": Bottou}, ["step must be", "Bottou"]),
        ({"step": Bottou(0.0)}, ["eta0", "Bottou", "> 0", "0.0"]),
        ({"step": Bottou("a")}, ["eta0", "Bottou", "'a'"]),
        ({"step": Bottou(None, sample=0)}, ["sample", "Bottou", "0"]),
        ({"step": Constant(-1.0)}, ["eta", "Constant", "-1.0"]),
        ({"step": Norma(np.nan)}, ["p", "Norma", "nan"]),
        ({"average": "mean"}, ["average must be", "suffix", "'mean'"]),
        ({"average": None}, ["average must be", "None"]),
        ({"sampling": "random"}, ["sampling must be", "iid", "'random'"]),
        ({"batch_size": 0}, ["batch_size must be", "≥ 1", "0"]),
        ({"batch_size": 2.0}, ["batch_size must be", "integer", "2.0"]),
        ({"batch_size": True}, ["batch_size must be", "integer", "True"]),
        ({"batch_size": N + 1}, ["batch_size must be", str(N), str(N + 1)]),
        ({"search_epochs": 0}, ["search_epochs must be", "≥ 1", "0"]),
        ({"projection": "yes"}, ["projection must be", "True", "'yes'"]),
    ],
    ids=str,
)
def test_bad_parameters_of_the_solver_are_refused(parameters, words):
    refused(lambda: LinearSVC(solver=Pegasos(**parameters)).fit(X, LABELS), *words)


def test_unknown_parameters_of_the_solver_are_refused():
    model = LinearSVC(solver=Pegasos())
    refused(lambda: model.set_params(solver__batch=3), "Pegasos", "'batch'", "batch_size")


def test_a_warm_start_on_other_data_is_refused():
    model = LinearSVC(warm_start=True, random_state=0, tol=0, max_iter=2).fit(X, LABELS)
    refused(lambda: model.fit(X, LABELS + 1), "warm_start", "[0, 1]", "[1, 2]", "warm_start=False")
    refused(lambda: model.fit(X[:, :2], LABELS), "warm_start", "(3, 1)", "(2, 1)", "warm_start=False")


def test_refusals_leave_the_parameters_as_they_were():
    model = LinearSVC(C=-1.0)
    refused(lambda: model.fit(X, LABELS), "C")
    assert model.C == -1.0
    assert not hasattr(model, "coef_")


def test_a_refusal_shows_no_compiled_frames():
    """What a user sees ends in this package or in scikit-learn, not deep inside a compiler."""
    with pytest.raises(ValueError, match="batch_size") as caught:
        LinearSVC(solver=Pegasos(batch_size=0)).fit(X, LABELS)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not any("numba" in file for file in files)


#: Refusals that once named no remedy, and the remedy.
REMEDIES = {
    "name all labels at the first call, or use BudgetedSVC": lambda: (
        LinearSVC().partial_fit(X, LABELS, classes=CLASSES).partial_fit(X, LABELS, classes=[0, 1, 2])
    ),
    "2 is missing: add it, or leave classes out": lambda: (
        IncrementalSVC().partial_fit(X, LABELS, classes=[0, 1, 2]).partial_fit(X, LABELS, classes=CLASSES)
    ),
    "0; add examples of another": lambda: LinearSVC().fit(X, np.zeros(N, int)),
    "name the others that may come": lambda: LinearSVC().partial_fit(X, LABELS, classes=[0]),
    "use one of these, or SVC": lambda: BudgetedSVC(kernel=lambda A, B: A @ B.T).fit(X, LABELS),
    "the C of Cs and share examples: leave it out": lambda: svm_path(X, LABELS, [1.0], C=2.0),
    "go on from each other's examples: leave it out": lambda: pareto_path(X, LABELS, Cs=[1.0], early_stopping=True),
    "a path needs two classes, got 3: [0, 1, 2]: give one against the rest": lambda: svm_path(
        X, np.arange(N) % 3, [1.0]
    ),
    "pareto_path needs two classes, got 3: [0, 1, 2]: give one": lambda: pareto_path(X, np.arange(N) % 3, nus=[0.1]),
    "give a row and a column for each class": lambda: LinearSVC(multi_class="crammer_singer", cost_matrix=[[0.0]]).fit(
        X, LABELS
    ),
    "for each of Cs, gammas; leave it out": lambda: svm_grid(X, LABELS, Cs=[1.0], gammas=[1.0], C=2.0),
    "got shape (12, 11): give K(X, X)": lambda: SVC(kernel="precomputed").fit(np.ones((N, N - 1)), LABELS),
    "give one weight for each example": lambda: LinearSVC().fit(X, LABELS, sample_weight=np.ones((N, 1))),
    "got -1.0: give 0 to leave an example out": lambda: LinearSVC().fit(X, LABELS, sample_weight=-np.ones(N)),
    "set it, or use CalibratedClassifierCV": lambda: _is_logistic(LinearSVC()),
    "use dual_coef_ and support_vectors_": lambda: SVC().fit(X, LABELS).coef_,
    "the kernel is 'rbf': use dual_coef_": lambda: IncrementalSVC().fit(X, LABELS).coef_,
    "got 'cuda:1': use 'cuda', and set CUDA_VISIBLE_DEVICES=1": lambda: SVC(device="cuda:1").fit(X, LABELS),
    "set CUDA_VISIBLE_DEVICES=0 before the program starts": lambda: BudgetedSVC(device="cuda:0").fit(X, LABELS),
    "device must be one of 'cpu', 'cuda', 'auto', got 'gpu'": lambda: SVC(device="gpu").fit(X, LABELS),
}


@pytest.mark.parametrize("remedy", REMEDIES)
def test_a_refusal_says_what_to_do(remedy):
    refused(REMEDIES[remedy], remedy, kind=(ValueError, TypeError, AttributeError))
