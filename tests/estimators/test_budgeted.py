"""BudgetedSVC and BudgetedSVR: scikit-learn's contract, streams, files, announced classes, running weights."""

import copy
import pickle
import re
import signal
from dataclasses import is_dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from checks import without
from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, compress
from widemargin.estimators import budgeted as estimators
from widemargin.estimators.budgeted import average
from widemargin.models import LinearModel
from widemargin.solvers.budget import BudgetedSGD, MarginPerceptronStep, Merge, NormaStep, Project, Projectron, Remove

STOCHASTIC = (
    "steps are stochastic: an example of weight 2 is one step of twice the length, a repeated one is two steps, in "
    "other places of the order"
)


#: Two classes of float32 rows are in check_estimators_dtypes; other losses see scores, which are float64 always.
OTHER_LOSSES_OF_FLOAT32 = re.compile("check_classifiers_train.*float32|BudgetedSVR.*(check_estimators_dtypes|float32)")


@without(
    OTHER_LOSSES_OF_FLOAT32,
    parametrize_with_checks(
        [BudgetedSVC(budget=50, lam=0.02, max_iter=5), BudgetedSVR(budget=50, max_iter=5)],
        expected_failed_checks=lambda estimator: {
            "check_sample_weight_equivalence_on_dense_data": STOCHASTIC,
            "check_sample_weight_equivalence_on_sparse_data": STOCHASTIC,
        },
    ),
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)


def data(rng, n=200, classes=2):
    X = rng.normal(size=(n, 3))
    heights = np.sin(2 * X @ rng.normal(size=(3, classes)))
    y = heights.argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X, y, heights[:, 0]


def quick(estimator=BudgetedSVC, **parameters):
    return estimator(**{"budget": 20, "gamma": 1.0, "lam": 0.01, "random_state": 0, **parameters})


@pytest.fixture
def double(monkeypatch):
    """Vectors in double precision, as in the tests of the solver, which compile the loops for it."""

    def solver_class(*names):
        assert names == ("budgeted", "sgd")
        return partial(BudgetedSGD, precision="float64")

    monkeypatch.setattr(estimators.solvers, "solver_class", solver_class)


def same(one, other, X):
    mine, its = (sp.csr_matrix(model.support_vectors_).toarray() for model in (one, other))
    np.testing.assert_array_equal(mine, its)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def unchanged(found, before):
    """Assert that two values are the same, arrays and all else within them bit for bit."""
    assert type(found) is type(before)
    if isinstance(found, np.ndarray):
        np.testing.assert_array_equal(found, before)
    elif isinstance(found, np.random.Generator):
        unchanged(found.bit_generator.state, before.bit_generator.state)
    elif isinstance(found, dict) or is_dataclass(found):
        found, before = (dict(value if isinstance(value, dict) else vars(value)) for value in (found, before))
        found.pop("workspace", None)  # which is no part of a state
        assert found.keys() == before.keys()
        for name, value in found.items():
            unchanged(value, before[name])
    elif isinstance(found, (list, tuple)):
        assert len(found) == len(before)
        for one, other in zip(found, before, strict=True):
            unchanged(one, other)
    else:
        assert found == before


def refused(said, model, *args, **options):
    """Assert that partial_fit refuses this in a sentence, and that nothing of the model has changed."""
    before = copy.deepcopy(vars(model))
    with pytest.raises(ValueError, match=said) as error:
        model.partial_fit(*args, **options)
    unchanged(vars(model), before)
    return str(error.value)


def held(model):
    return sum(array.nbytes for array in (*model._state.budget[1:], *model._state.budget.vectors))


@pytest.mark.parametrize("maintenance", ["merge", "project", "random"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_stream_of_single_examples_is_one_call(maintenance, class_weight, rng):
    X, y, _ = data(rng, n=120)
    X[0] += 1e4  # where the first row is, vectors are centred, until they show that it is far away
    weights = rng.uniform(0.5, 2.0, y.size)
    weights[rng.choice(y.size, 20)] = weights[0] = 0.0
    whole, single, parts = (quick(maintenance=maintenance, class_weight=class_weight) for _ in range(3))
    whole.partial_fit(X, y, classes=[0, 1], sample_weight=weights)
    for i in range(y.size):
        single.partial_fit(X[[i]], y[[i]], classes=[0, 1], sample_weight=weights[[i]])
    for part in np.array_split(np.arange(y.size), 7):
        parts.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=weights[part])
    same(single, parts, X)
    same(whole, single, X)


@pytest.mark.parametrize("kind", ["two classes", "four classes", "regression"])
def test_a_saved_model_predicts_and_goes_on_like_the_one_it_came_from(kind, rng, tmp_path):
    X, y, t = data(rng, classes=4 if kind == "four classes" else 2)
    model = (
        quick(BudgetedSVR, step=NormaStep(0.5)) if kind == "regression" else quick(maintenance=Merge(table_size=100))
    )
    names = np.array(["ant", "bee", "cat", "dog"])
    y = t if kind == "regression" else names[y]
    more = {} if kind == "regression" else {"classes": np.unique(y)}
    model.partial_fit(X[:100], y[:100], **more)
    model.save(tmp_path / "model.npz")
    other = type(model).load(tmp_path / "model.npz")
    same(model, other, X)
    assert other.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    same(model.partial_fit(X[100:], y[100:]), other.partial_fit(X[100:], y[100:]), X)
    same(model, pickle.loads(pickle.dumps(model)), X)
    with pytest.raises(ValueError, match="holds no"):
        (BudgetedSVC if kind == "regression" else BudgetedSVR).load(tmp_path / "model.npz")


def test_a_fit_can_be_gone_on_with_and_a_second_fit_starts_anew(rng):
    X, y, _ = data(rng)
    model = quick().fit(X, y)
    before = model.dual_coef_.copy()
    assert not np.array_equal(model.partial_fit(X, y).dual_coef_, before)
    np.testing.assert_array_equal(model.fit(X, y).dual_coef_, before)
    assert not [name for name in vars(clone(model)) if name.endswith("_")]


@pytest.mark.parametrize(("multi_class", "maintenance"), [("crammer_singer", "merge"), ("ovr", "remove")])
@pytest.mark.usefixtures("double")
def test_labels_announced_later_join_those_that_are_known(multi_class, maintenance, rng):
    y = rng.integers(0, 4, 600)
    X = np.array([[2.0, 2.0, 0.0], [2.0, -2.0, 0.0], [-2.0, 2.0, 0.0], [-2.0, -2.0, 0.0]])[y]
    X += 0.3 * rng.normal(size=(600, 3))  # four heaps, well apart
    early = np.isin(y, [1, 3])
    model = quick(multi_class=multi_class, maintenance=maintenance, budget=60)
    model.partial_fit(X[early], y[early], classes=[1, 3])
    agreed, f = model.predict(X), model.decision_function(X)
    model._announce(np.arange(4))
    # before anything new is seen the old labels stand as they did, but for ties with those that have no score
    scores = model.decision_function(X)
    np.testing.assert_array_equal(np.where(scores[:, 3] > scores[:, 1], 3, 1), agreed)
    share = 1.0 if multi_class == "ovr" else 0.5
    np.testing.assert_allclose(scores[:, [1, 3]], share * np.column_stack([-f, f]), rtol=1e-5, atol=1e-6)
    assert not scores[:, [0, 2]].any()
    squares = np.sum(model._state.budget.A**2, axis=0)
    np.testing.assert_allclose(model._state.budget.norm2, squares, rtol=1e-5)
    for _ in range(5):
        model.partial_fit(X, y, classes=range(4))
    assert model.decision_function(X).shape == (600, 4)
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="announce it with classes="):
        model.partial_fit(X, y + 7)
    with pytest.raises(ValueError, match="is missing"):
        model.partial_fit(X, y, classes=[0, 1])


def test_running_balanced_weights_are_those_of_the_examples_seen_so_far(rng):
    y = rng.choice(3, size=30, p=[0.7, 0.2, 0.1])
    y[:3] = 0, 1, 2
    s = rng.uniform(0.5, 2.0, 30)
    model = BudgetedSVC(class_weight="balanced")
    model.classes_, model._counts = np.arange(3), np.zeros(3)
    found = model._count_part(y, s)
    for i in range(30):
        counts = np.bincount(y[: i + 1], s[: i + 1], 3)
        assert found[i] == pytest.approx(counts.sum() / (np.count_nonzero(counts) * counts[y[i]]))


def test_bytes_lower_the_budget_and_the_buffers_stay_within_them(rng):
    X, y, _ = data(rng, n=400)
    for maintenance in ("merge", "project"):
        model = quick(budget=5000, max_bytes=20000, maintenance=maintenance).fit(X, y)
        assert held(model) <= 20000
        assert model.support_vectors_.shape[0] > 10
        assert model.model_bytes_ <= 20000
    with pytest.raises(ValueError, match="max_bytes=10 is too little"):
        quick(max_bytes=10).fit(X, y)


def test_sparse_and_dense_data_can_follow_each_other(rng):
    X, y, _ = data(rng)
    X[rng.random(X.shape) < 0.5] = 0.0
    whole = quick().partial_fit(X, y, classes=[0, 1])
    mixed = quick().partial_fit(X[:100], y[:100], classes=[0, 1]).partial_fit(sp.csr_matrix(X[100:]), y[100:])
    same(whole, mixed, X)
    np.testing.assert_allclose(whole.decision_function(sp.csr_matrix(X)), whole.decision_function(X), rtol=1e-9)
    sparse = quick().partial_fit(sp.csr_matrix(X), y, classes=[0, 1])
    assert sp.issparse(sparse.support_vectors_)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(X)), sparse.decision_function(X), atol=1e-4)


def test_gamma_of_a_stream_is_that_of_its_first_part(rng):
    X, y, _ = data(rng)
    model = BudgetedSVC().partial_fit(X[:50], y[:50], classes=[0, 1])
    kernel = model._trained_kernel
    assert kernel.gamma == pytest.approx(1.0 / (3 * X[:50].var()))
    assert model.partial_fit(100 * X, y)._trained_kernel == kernel


def test_policies_are_named_or_given(rng):
    X, y, _ = data(rng)
    same(quick(maintenance="oldest").fit(X, y), quick(maintenance=Remove("oldest")).fit(X, y), X)
    for wrong, said in (
        ({"maintenance": "forgive"}, "maintenance must be one of"),
        ({"step": "long"}, "step must be one of"),
        ({"kernel": "precomputed"}, "no kernel matrix"),
        ({"kernel": "foo"}, "kernel must be one of 'linear', 'rbf', 'poly', 'sigmoid', 'laplacian', got 'foo'$"),
        ({"kernel": "linear"}, "merging needs the Gaussian kernel"),
        ({"multi_class": "ovo"}, "multi_class must be one of"),
    ):
        with pytest.raises(ValueError, match=said):
            quick(**wrong).fit(X, y)


def test_parameters_of_policies_can_be_searched_for(rng):
    X, y, _ = data(rng)
    model = quick(step="norma", maintenance=Merge())
    assert model.get_params()["step__eta"] == 1.0
    search = GridSearchCV(model, {"step__eta": [0.1, 0.5], "maintenance__vectors": [2, 3]}, cv=2).fit(X, y)
    best = search.best_estimator_
    assert best.step == NormaStep(search.best_params_["step__eta"])
    assert best.maintenance == Merge(search.best_params_["maintenance__vectors"])
    assert model.step == "norma"
    assert model.set_params(step__eta=0.3, step="norma").step == NormaStep(0.3)
    with pytest.raises(ValueError, match="step__length is no parameter of"):
        model.set_params(step__length=3)


def test_a_file_of_something_else_is_refused_in_a_sentence(rng, tmp_path):
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="is not a whole widemargin file"):
        BudgetedSVC.load(tmp_path / "foreign.npz")
    LinearModel(np.ones((1, 2)), np.zeros(1)).save(tmp_path / "linear.npz")
    with pytest.raises(ValueError, match="holds no BudgetedSVC but a LinearModel"):
        BudgetedSVC.load(tmp_path / "linear.npz")


@pytest.mark.parametrize("kind", ["two classes", "pairs of three", "regression", "sparse"])
def test_a_compressed_machine_predicts_like_the_one_it_came_from(kind, rng):
    X, y, t = data(rng, n=300, classes=3 if kind == "pairs of three" else 2)
    X = sp.csr_matrix(X) if kind == "sparse" else X
    full = SVR(gamma=0.3).fit(X, t) if kind == "regression" else SVC(C=1.0, gamma=0.3).fit(X, y)
    sizes = [full.support_vectors_.shape[0], 40, 10]
    models = [compress(full, size) for size in sizes]
    assert models[0].degradation_ == 0.0
    assert models[1].support_vectors_.shape == (min(40, sizes[0]), 3)
    lost = [model.relative_degradation_ for model in models]
    assert lost == sorted(lost)
    assert lost[-1] <= 1.0
    reached = full._scores(X)
    for model in models:
        # |⟨w − w′, Φ⟩| ≤ ‖w − w′‖ for ‖Φ‖ = 1, output by output; single precision of what predicts
        assert np.abs(model._scores(X) - reached).max() <= model.degradation_ + 1e-3 * np.abs(reached).max()
    assert hasattr(full, "support_")


@pytest.mark.parametrize(
    ("kernel", "maintenance", "classes", "sparse"), [("rbf", "merge", 3, False), ("laplacian", "remove", 0, True)]
)
def test_a_budgeted_machine_is_compressed_and_machines_are_averaged(
    rng, kernel, maintenance, classes, sparse, tmp_path
):
    X = rng.normal(size=(400, 3)) * (rng.random((400, 3)) < 0.8)
    y = rng.integers(0, classes, 400) if classes else rng.normal(size=400)
    rows = sp.csr_matrix(X) if sparse else X
    estimator, more = (BudgetedSVC, {"classes": range(classes)}) if classes else (BudgetedSVR, {})
    parts = [estimator(budget=40, kernel=kernel, gamma=0.7, maintenance=maintenance) for _ in range(2)]
    for part, some in zip(parts, (slice(0, 200), slice(200, 400)), strict=True):
        part.partial_fit(rows[some], y[some], **more)
    mean = (parts[0]._scores(rows) + parts[1]._scores(rows)) / 2.0
    whole, small = average(parts, 80), average(parts)
    np.testing.assert_allclose(whole._scores(rows), mean, atol=1e-4 * np.abs(mean).max())
    assert whole.degradation_ == 0.0
    assert small.support_vectors_.shape[0] == 40
    for model, of in ((small, mean), (compress(parts[0], 15), parts[0]._scores(rows))):
        # |⟨w − w′, Φ⟩| ≤ ‖w − w′‖ for ‖Φ‖ = 1
        assert np.abs(model._scores(rows) - of).max() <= model.degradation_ + 1e-3 * np.abs(of).max()
    small.save(tmp_path / "small.npz")
    np.testing.assert_array_equal(estimator.load(tmp_path / "small.npz").predict(rows), small.predict(rows))
    with pytest.raises(ValueError, match=f"this {estimator.__name__} was compressed"):
        small.partial_fit(rows, y)
    with pytest.raises(ValueError, match="average takes machines with one kernel and the same classes"):
        average([parts[0], estimator(gamma=0.1).fit(rows, y)])


def test_wide_sparse_machines_are_compressed_to_some_of_their_vectors(rng, monkeypatch):
    X, y, _ = data(rng, n=300)
    full = SVC(C=1.0, gamma=0.3).fit(sp.csr_matrix(X), y)
    monkeypatch.setattr(estimators, "MERGING_BYTES", 100)
    with pytest.raises(MemoryError, match=r"vectors with 3 features takes .* GiB: use maintenance='project'"):
        compress(full, 20, maintenance="merge")
    small = compress(full, 20)
    assert sp.issparse(small.support_vectors_)
    assert small.support_vectors_.shape == (20, 3)
    apart = np.abs(small.support_vectors_.toarray()[:, None] - full.support_vectors_.toarray()[None]).max(axis=2)
    assert apart.min(axis=1).max() <= 1e-6
    reached = full.decision_function(X)
    assert np.abs(small.decision_function(X) - reached).max() <= small.degradation_ + 1e-3 * np.abs(reached).max()
    with pytest.raises(ValueError, match="'merge' for kernel='rbf' and budget ≥ 2, got 'merge' for Polynomial"):
        compress(SVC(kernel="poly").fit(X, y), 5, maintenance="merge")


@pytest.mark.parametrize("way", ["fit", "partial_fit", "load"])
def test_a_running_model_keeps_what_it_began_with(way, rng, tmp_path):
    X, y, _ = data(rng)
    model = quick(step="norma", maintenance="remove")
    model = model.fit(X, y) if way == "fit" else model.partial_fit(X, y, classes=[0, 1])
    if way == "load":
        model.save(tmp_path / "model.npz")
        model = BudgetedSVC.load(tmp_path / "model.npz")
    predicted, twin = model.decision_function(X), copy.deepcopy(model)
    for changed, said in (
        ({"step": "pegasos"}, "keeps its step and maintenance, NormaStep and Remove, got PegasosStep and Remove"),
        ({"maintenance": "merge"}, "keeps its step and maintenance, NormaStep and Remove, got NormaStep and Merge"),
        ({"kernel": "linear"}, r"keeps its kernel, RBF\(gamma=1.0\), got Linear\(\)"),
        ({"kernel": "laplacian"}, r"keeps its kernel, RBF\(gamma=1.0\), got Laplacian\(gamma=1.0\)"),
        ({"gamma": 3.0}, r"keeps its kernel, RBF\(gamma=1.0\), got RBF\(gamma=3.0\)"),
        ({"budget": 1}, "a running model does not shrink; set budget to [0-9]+ or more"),
    ):
        before = {name: getattr(model, name) for name in changed}
        refused(said, model.set_params(**changed), X, y)
        np.testing.assert_array_equal(model.decision_function(X), predicted)
        model.set_params(**before)
    same(model.partial_fit(X, y), twin.partial_fit(X, y), X)


def test_a_radius_is_there_from_the_first_step_on(rng):
    X, y, _ = data(rng)
    model = quick(step="margin_perceptron").fit(X, y).set_params(step=MarginPerceptronStep(radius=0.1))
    refused("keeps its step and maintenance, MarginPerceptronStep and Merge, got .* with a radius", model, X, y)


def test_the_kernel_of_a_model_is_in_its_file(rng, tmp_path):
    X, y, _ = data(rng)
    model = BudgetedSVC(20, kernel="poly", lam=0.01, degree=2, coef0=0.5, maintenance="project").fit(X, y)
    model.save(tmp_path / "model.npz")
    other = BudgetedSVC.load(tmp_path / "model.npz")
    unchanged(other._trained_kernel, model._trained_kernel)
    np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))


def test_a_refused_call_changes_nothing(rng):
    X, y, t = data(rng, classes=3)
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    gaps[0] = np.nan
    for model, step in (
        (quick(class_weight="balanced"), "choose a smaller eta"),
        (quick(class_weight="balanced").fit(X, y), "keeps its step"),
    ):
        refused("NaN", model, gaps, y, classes=range(3))
        refused("not among the classes", model, X, y + 7, classes=range(4))
        refused("sample_weight must be ≥ 0", model, X, y, classes=range(3), sample_weight=-np.ones(y.size))
        refused("class_weight names the class 9", model.set_params(class_weight={9: 1.0}), X, y, classes=range(5))
        refused(step, model.set_params(class_weight="balanced", step=NormaStep(1e9)), X, y, classes=range(5))
    refused("is missing", model, X, y, classes=[0, 1])
    for regressor in (quick(BudgetedSVR), quick(BudgetedSVR).fit(X, t)):
        refused("NaN", regressor, gaps, t)
        refused("choose a smaller eta", regressor.set_params(step=NormaStep(1e9)), X, t)


def test_a_part_that_fails_when_vectors_have_changed_in_place_leaves_no_machine(rng, monkeypatch):
    """There is no way back to the machine of before, and none of half a part is left."""
    X, y, _ = data(rng)
    model = quick().partial_fit(X, y, classes=[0, 1])

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(BudgetedSVC, "_adopt_part", fail)
    with pytest.raises(MemoryError):
        model.partial_fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_classes_for_which_there_are_no_bytes_are_refused_and_the_stream_goes_on(layout, rng):
    X, y, _ = data(rng, classes=3)
    early = y < 2
    model = quick(budget=5000, max_bytes=20000).partial_fit(layout(X[early]), y[early], classes=[0, 1])
    twin = copy.deepcopy(model)
    # the buffers of a budget that bytes have set leave room for one more register of vectors, not for two more outputs
    said = refused("max_bytes is 20000: set it to", model, layout(X), y, classes=[0, 1, 2])
    same(model.partial_fit(layout(X[early]), y[early]), twin.partial_fit(layout(X[early]), y[early]), layout(X))
    enough = int(re.search("set it to ([0-9]+) or more", said)[1])
    refused("max_bytes is", model.set_params(max_bytes=enough - 1), layout(X), y, classes=[0, 1, 2])
    model.set_params(max_bytes=enough).partial_fit(layout(X), y, classes=[0, 1, 2])
    assert held(model) == enough
    assert model.decision_function(layout(X)).shape == (y.size, 3)


@pytest.mark.parametrize("length", [1.0, 1e4])
def test_a_sparse_stream_within_bytes_is_never_refused(length, rng):
    """Rows far from the origin are kept in float64, in twice the bytes."""
    X = length * sp.random(300, 200, density=0.05, format="csr", random_state=int(rng.integers(2**31)))
    y, most = rng.integers(0, 2, 300), float(rng.integers(60_000, 90_000))
    model = BudgetedSVC(1000, gamma=1.0, lam=0.01, max_bytes=most)
    for part in np.array_split(np.arange(300), 10):
        model.partial_fit(X[part], y[part], classes=[0, 1])
        assert held(model) <= most


def test_zero_weights_are_steps_of_a_stream_and_nothing_to_fit(rng):
    X, y, t = data(rng)
    for model, target, more in ((quick(), y, {"classes": [0, 1]}), (quick(BudgetedSVR), t, {})):
        model.partial_fit(X, target, sample_weight=np.zeros(y.size), **more)
        assert model.support_vectors_.shape == (0, 3)
        assert model._state.counters.steps == y.size
        model.partial_fit(X, target, sample_weight=0)
        assert model._state.counters.steps == 2 * y.size
        with pytest.raises(ValueError, match="must not be all zero"):
            model.fit(X, target, sample_weight=np.zeros(y.size))


@pytest.mark.usefixtures("double")
def test_a_stream_of_whole_batches_is_one_call(rng):
    X, y, _ = data(rng)
    whole, parts = (quick(batch_size=4, maintenance="remove") for _ in range(2))
    whole.partial_fit(X, y, classes=[0, 1])
    for first, last in ((0, 4), (4, 88), (88, 96), (96, 200)):
        parts.partial_fit(X[first:last], y[first:last], classes=[0, 1])
    same(whole, parts, X)


def test_a_file_keeps_the_history_and_it_goes_on(rng, tmp_path):
    X, y, _ = data(rng)
    model = quick(max_iter=3).fit(X, y)
    model.save(tmp_path / "model.npz")
    other = BudgetedSVC.load(tmp_path / "model.npz")
    for name in ("history_", "n_iter_", "stop_reason_"):
        assert getattr(other, name) == getattr(model, name)
    trained = model.history_.last("seconds")
    for one in (model, other):
        for _ in range(3):
            one.partial_fit(X, y)
        assert one.history_["epochs"].tolist() == [1, 2, 3, 6]
        assert one.history_["visits"].tolist() == [200, 400, 600, 1200]
        assert one.history_.last("seconds") > trained
    other.save(tmp_path / "model.npz")
    again = BudgetedSVC.load(tmp_path / "model.npz")
    assert (again.n_iter_, again.stop_reason_) == (1, "partial_fit")
    assert again.history_ == other.history_


def test_class_weights_with_numbers_for_labels_survive_a_file(tmp_path, rng):
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    model = BudgetedSVC(budget=20, gamma=0.5, class_weight={0: 2.0, 1: 1.0}).partial_fit(X, y, classes=[0, 1])
    model.save(tmp_path / "model.npz")
    again = BudgetedSVC.load(tmp_path / "model.npz")
    assert again.class_weight == {0: 2.0, 1: 1.0}
    np.testing.assert_array_equal(again.partial_fit(X, y).dual_coef_, model.partial_fit(X, y).dual_coef_)


def test_single_examples_do_not_fill_the_history(rng):
    X, y = rng.normal(size=(70, 3)), rng.integers(0, 2, 70)
    model = BudgetedSVC(budget=20, gamma=0.5)
    for i in range(70):
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
    assert np.asarray(model.history_["visits"]).tolist() == [1, 2, 4, 8, 16, 32, 64]


def test_a_compressed_linear_machine_has_the_weights_it_decides_by(rng):
    X = rng.normal(size=(120, 4)) + 20.0
    small = compress(SVC(kernel="linear", C=1.0).fit(X, (X[:, 0] + rng.normal(size=120) > 20.0).astype(int)), 6)
    np.testing.assert_allclose(X @ small.coef_[0] + small.intercept_[0], small.decision_function(X), atol=1e-3)


def test_ctrl_c_in_a_stream_raises_when_the_model_says_how_far_it_came(rng, monkeypatch):
    X, y, _ = data(rng, n=200)
    weights = rng.uniform(0.5, 1.5, 200)
    monkeypatch.setattr(estimators, "SLICE", 10)
    model, advance, calls = quick(class_weight="balanced"), BudgetedSGD.advance, []

    def interrupted(self, problem, state, n_steps):
        advance(self, problem, state, n_steps)
        calls.append(n_steps)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(BudgetedSGD, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt, match="the model has seen 30 examples by now"):
        model.partial_fit(X, y, classes=[0, 1], sample_weight=weights)
    assert calls == [0, 10, 10, 10]
    assert model.n_samples_seen_ == 30 == model.history_.last("visits")
    assert model.stop_reason_ == "interrupted"
    model.partial_fit(X[30:], y[30:], sample_weight=weights[30:])
    same(model, quick(class_weight="balanced").partial_fit(X, y, classes=[0, 1], sample_weight=weights), X)


def test_a_projectron_with_a_budget_it_never_reaches_has_memory_for_what_it_needs(rng):
    X, y, _ = data(rng)
    model = BudgetedSVC(10**6, gamma=1.0, step="margin_perceptron", maintenance="projectron").fit(X, y)
    assert model.support_vectors_.shape[0] < 200
    assert model.gamma_ == 1.0
    assert model.n_samples_seen_ == 200
    with pytest.raises(ValueError, match="Projectron needs step='margin_perceptron'"):
        BudgetedSVC(10, maintenance="projectron").fit(X, y)
    with pytest.raises(ValueError, match="one hinge, of two classes or joint"):
        BudgetedSVC(10, step="margin_perceptron", maintenance="projectron", multi_class="ovr").fit(
            X, np.arange(200) % 3
        )


def test_labels_announced_later_have_spans_of_their_own(rng):
    X, y, _ = data(rng, 240, classes=4)
    model = quick(budget=200, step="margin_perceptron", maintenance=Projectron(0.3, "class"))
    # two labels have one score; then a third comes before them, and a fourth between them
    for labels, rows in (([2, 4], slice(80)), ([1, 2, 4], slice(80, 160)), ([1, 2, 3, 4], slice(160, 240))):
        codes = y[rows] % len(labels)
        model.partial_fit(X[rows], np.array(labels)[codes], classes=labels)
        b, count = model._state.budget, model._state.support
    V, classes = model.support_vectors_, b.classes[: 2 * count]
    k = np.exp(-np.sum((V[:, None] - V[None]) ** 2, axis=2))
    expected = np.kron(k, np.ones((2, 2))) * (classes[:, None] == classes[None])
    K, inverse = (square[: 2 * count, : 2 * count] for square in (b.K, b.inverse))
    np.testing.assert_allclose(K, expected, atol=1e-6)  # but for the ridge
    assert np.abs(K @ inverse - np.eye(2 * count)).max() <= 1e-3
    assert (classes[::2] != classes[1::2]).all()
    # only classes of which a vector is have coefficients of it
    mine = np.zeros((4, count), bool)
    mine[classes[::2], np.arange(count)] = mine[classes[1::2], np.arange(count)] = True
    assert not model.dual_coef_[~mine].any()
    assert set(classes.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("classes", "said"),
    [([], "at least 2 labels, got"), ([1, None], "labels of one kind"), ([0, 1, np.nan], "without NaN, got")],
)
def test_classes_are_labels_of_one_kind(classes, said, rng):
    X, y, _ = data(rng)
    with pytest.raises(ValueError, match=said):
        quick().partial_fit(X, y, classes=classes)
    assert quick().partial_fit(X, y, classes={0, 1}).classes_.tolist() == [0, 1]


def test_parameters_that_are_no_numbers_are_named(rng):
    X, y, _ = data(rng)
    with pytest.raises(TypeError, match="eta of NormaStep must be a number, got 'a'"):
        quick(step=NormaStep("a")).fit(X, y)
    with pytest.raises(ValueError, match="0 ≤ threshold < 1, got 'a'"):
        quick(maintenance=Project("a")).fit(X, y)
    with pytest.raises(ValueError, match="step__eta is no parameter of BudgetedSVC: step is 'pegasos'"):
        quick().set_params(step__eta=1.0)


def test_files_keep_the_seed(rng, tmp_path):
    X, y, _ = data(rng)
    quick(random_state=3).fit(X, y).save(tmp_path / "model.npz")
    assert BudgetedSVC.load(tmp_path / "model.npz").random_state == 3


@pytest.mark.parametrize("fitted", [False, True])
def test_where_float32_is_kept_a_part_that_overflows_is_refused_and_the_machine_is_that_of_before(fitted, rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    quick = {"budget": 20, "max_bytes": 20_000, "random_state": 0}
    model, other = (BudgetedSVC(**quick).partial_fit(X, y, classes=[0, 1]) for _ in range(2))
    if fitted:
        model.fit(X, y), other.fit(X, y)
    with pytest.raises(ValueError, match="coefficients overflowed float32: scale the data or sample_weight"):
        model.partial_fit(X, y, sample_weight=np.full(60, 1e50))
    np.testing.assert_array_equal(model.decision_function(X), other.decision_function(X))
    for each in (model, other):
        each.partial_fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), other.decision_function(X))
    assert model.history_.rows[-1]["visits"] == other.history_.rows[-1]["visits"]


@pytest.mark.parametrize("size", [1e30, 1e39])
def test_steps_that_are_larger_than_float32_has_room_for_are_taken_in_float64(size, rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    model = BudgetedSVC(budget=60, step=MarginPerceptronStep(eta=size), max_iter=1, random_state=0).fit(X, y)
    steps = model.dual_coef_ / size  # none was merged
    assert np.abs(steps).max() >= 1.0
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-12)


def test_parts_that_weigh_more_than_float32_has_room_for_are_learnt_in_float64(rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    X[:, 0] += 2.0 * y
    model = BudgetedSVC(budget=20, random_state=0).partial_fit(X, y, classes=[0, 1])
    before = model.decision_function(X)
    model.partial_fit(X, y, sample_weight=np.full(60, 1e30))
    assert np.isfinite(model.dual_coef_).all()
    assert np.abs(model.decision_function(X)).max() > 1e20 * np.abs(before).max()
    assert model.score(X, y) > 0.6
