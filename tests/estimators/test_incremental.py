"""IncrementalSVC: streams in any cut, the way to the SVM and back, forgetting, classes that come later, files."""

import copy
import pickle
import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import widemargin
from certificates import ALLOWED, values
from widemargin import SVC, IncrementalSVC, Tracker, compress
from widemargin.estimators import incremental
from widemargin.estimators.fit.proof import SHARE

STOCHASTIC = (
    "one pass: an example of weight 2 and one that is there twice are other steps, in other places of the order"
)


@parametrize_with_checks(
    [IncrementalSVC(), IncrementalSVC(intercept="none", solver=Tracker("process", "random", 10), max_iter=3)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": STOCHASTIC,
        "check_sample_weight_equivalence_on_sparse_data": STOCHASTIC,
    },
)
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)


def data(rng, n=300, classes=2):
    X = rng.normal(size=(n, 3))
    heights = np.sin(2 * X @ rng.normal(size=(3, classes))) + 0.3 * rng.normal(size=(n, classes))
    y = heights.argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X, y


def same(one, other, X):
    np.testing.assert_array_equal(one.support_, other.support_)
    mine, its = (sp.csr_matrix(model.support_vectors_).toarray() for model in (one, other))
    np.testing.assert_array_equal(mine, its)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


CONFIGURATIONS = {
    "pairs": {},
    "greedy": {"intercept": "none", "solver": Tracker(reprocess=2, average=True)},
    "random": {"solver": Tracker("random", "random", 3)},
    "process": {"solver": Tracker("process", "random", 3), "intercept": "none"},
    "lasvm": {"solver": Tracker("lasvm", "random", 3), "memory": "support"},
    "auto": {"solver": Tracker(reprocess="auto", gap=0.05)},
    "support": {"memory": "support", "class_weight": "balanced"},
    "window": {"window": 20, "class_weight": "balanced"},
    "window, support": {"window": 20, "memory": "support"},
    "window, auto": {"window": 20, "solver": Tracker(reprocess="auto", gap=0.05)},
    "budget": {"budget": 20},
    "linear": {"kernel": "linear"},
    "linear, support": {"kernel": "linear", "memory": "support", "intercept": "regularized"},
    "linear, window": {"kernel": "linear", "window": 20},
    "laplacian": {"kernel": "laplacian", "window": 20},
}


def made(name, **parameters):
    return IncrementalSVC(**{"C": 2.0, "gamma": 0.7, **CONFIGURATIONS[name], **parameters})


@pytest.mark.parametrize(("classes", "layout"), [(2, "dense"), (3, "sparse")])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_any_cut_of_a_stream_is_the_same_model(name, classes, layout, rng):
    window = CONFIGURATIONS[name].get("window", 0)
    X, y = data(rng, 3 * window or 60, classes)  # a window moves on by twice its length
    if layout == "sparse":
        X = sp.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0), dtype=np.float32)
    s = rng.uniform(0.0, 2.0, y.size)
    s[rng.random(y.size) < 0.1] = 0.0
    cuts = {
        "whole": [np.arange(y.size)],
        "single": np.arange(y.size)[:, None],
        "parts": np.split(np.arange(y.size), np.sort(rng.choice(y.size, 6, replace=False))),
    }
    found = {}
    for cut, parts in cuts.items():
        found[cut] = made(name, cache_size=200 if cut == "whole" else 0.05)
        for part in parts:
            if part.size:
                found[cut].partial_fit(X[part], y[part], classes=range(classes), sample_weight=s[part])
    same(found["whole"], found["single"], X)
    same(found["whole"], found["parts"], X)
    assert found["single"].n_samples_seen_ == y.size


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_saved_and_a_pickled_model_go_on_like_the_one_they_came_from(name, rng, tmp_path):
    X, y = data(rng, 200, 3)
    names = np.array(["ant", "bee", "cat"])[y]
    model = made(name).partial_fit(X[:120], names[:120], classes=["ant", "bee", "cat"])
    model.predict(X)
    model.save(tmp_path / "model.npz")
    others = [IncrementalSVC.load(tmp_path / "model.npz"), widemargin.load(tmp_path / "model.npz")]
    others += [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for other in others:
        same(model, other, X)
    model.partial_fit(X[120:], names[120:])
    for other in others:
        same(model, other.partial_fit(X[120:], names[120:]), X)
    assert clone(model).get_params().keys() == model.get_params().keys()


@pytest.mark.parametrize("intercept", ["unregularized", "regularized", "none"])
@pytest.mark.parametrize("classes", [2, 3])
def test_finish_agrees_with_svc(classes, intercept, rng):
    X, y = data(rng, 300, classes)
    s = rng.uniform(0.5, 2.0, y.size)
    model = IncrementalSVC(C=2.0, gamma=0.7, intercept=intercept)
    for part in np.array_split(np.arange(y.size), 3):
        model.partial_fit(X[part], y[part], classes=range(classes), sample_weight=s[part])
    rough = model.duality_gap()
    assert model.finish(1e-4) is model
    exact = SVC(C=2.0, gamma=0.7, intercept=intercept, multi_class="ovr", tol=1e-4).fit(X, y, sample_weight=s)
    mine, its = (
        np.atleast_2d(c) if isinstance(c, tuple) else np.array(c) for c in (model.certificate_, exact.certificate_)
    )
    np.testing.assert_allclose(mine[:, 0], its[:, 0], rtol=2.1e-4)
    assert (mine[:, 2] <= 1e-4 * mine[:, 0]).all()
    assert model.stop_reason_ == "tol"
    # the gap is that of the certificate, over the mean of the bounds: P − D over λ = 1/(C n)
    assert model.duality_gap() * s.mean() == pytest.approx(mine[:, 2].mean(), abs=2e-6)
    assert model.duality_gap() <= rough + 1e-6
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=0.1)
    # and it goes on from there
    model.partial_fit(X[:20], y[:20])
    assert model.certificate_ is None
    assert model.n_samples_seen_ == y.size + 20


@pytest.mark.parametrize("name", ["pairs", "greedy", "random", "process"])
def test_unlearning_then_finishing_is_training_without(name, rng):
    X, y = data(rng, 240)
    model = made(name).partial_fit(X, y, classes=[0, 1])
    gone = rng.choice(y.size, 60, replace=False)
    model.unlearn(gone[:1]).unlearn(gone[1:])
    assert not np.isin(model.support_, gone).any()
    left = np.setdiff1d(np.arange(y.size), gone)
    other = made(name).partial_fit(X[left], y[left], classes=[0, 1])
    assert model.duality_gap() < 2.0
    one, two = model.finish(1e-4), other.finish(1e-4)
    assert one.certificate_.primal == pytest.approx(two.certificate_.primal, rel=2.1e-4)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=0.1)
    assert one.certificate_.dual <= two.certificate_.primal * (1.0 + 1e-6)
    assert one.unlearn(left[0]).certificate_ is None  # what was proven is not proven of the others


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_repair_brings_the_gap_back_to_what_it_was(name, rng):
    X, y = data(rng, 200, 3)
    model = made(name).partial_fit(X, y, classes=[0, 1, 2])
    for repair in ("auto", 1e-3):
        gap = model.duality_gap() if repair == "auto" else repair
        model.unlearn(rng.choice(model.support_, model.support_.size // 3, replace=False), repair=repair)
        # a model that keeps its vectors alone has forgotten the others by now: its gap is for each of fewer examples
        fewer = X.shape[0] / model.support_.size if model.memory == "support" else 1.0
        assert model.duality_gap() <= fewer * gap * (1.0 + 1e-4) + 1e-6
    assert model.partial_fit(X[:20], y[:20]).predict(X).shape == y.shape


def test_a_repair_takes_place_where_vectors_go_and_it_is_wanted(rng, monkeypatch):
    X, y = data(rng, 200)
    model = made("pairs").partial_fit(X, y, classes=[0, 1])
    computed, gone = model._state.counters.kernel_computed, rng.choice(model.support_, 10, replace=False)
    slots = model._state.vectors
    apart = np.setdiff1d(np.arange(200), model._state.example[slots])[:3]
    for indices, repair in ((gone, 0), (apart, 1e-9)):
        other = copy.deepcopy(model).unlearn(indices, repair=repair)
        assert other._state.counters.kernel_computed - computed <= slots.size * (slots.size + 1)  # rows of vectors
        assert not np.isin(indices, other.support_).any()
    np.testing.assert_array_equal(other.dual_coef_, model.dual_coef_)
    with pytest.raises(ValueError, match="repair must be 'auto' or a gap ≥ 0, got 'full'"):
        model.unlearn(0, repair="full")
    with pytest.raises(ValueError, match="repair must be 'auto' or a gap ≥ 0, got None"):
        model.unlearn(0, repair=None)
    with pytest.raises(ValueError, match="repair must be"):
        model.unlearn(0, repair=-1.0)
    monkeypatch.setattr(incremental, "MOST_TURNS", 0)
    with pytest.warns(ConvergenceWarning, match="ended at a gap of"):
        model.unlearn(gone, repair=1e-6)


def test_what_was_unlearnt_forgotten_or_never_seen_cannot_be_unlearnt(rng):
    X, y = data(rng, 100)
    model = IncrementalSVC(gamma=1.0).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="example 100 was never seen: those seen have the numbers 0 to 99"):
        model.unlearn([3, 100])
    with pytest.raises(ValueError, match="example -1 was never seen"):
        model.unlearn(-1)
    with pytest.raises(TypeError, match="indices must be the numbers of examples"):
        model.unlearn([0.5])
    model.unlearn(7)
    with pytest.raises(ValueError, match="example 7 is not remembered any more"):
        model.unlearn([5, 7])
    model = IncrementalSVC(gamma=1.0, window=30).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="example 69 is not remembered any more: it was forgotten"):
        model.unlearn(69)
    model.unlearn(70)
    model = IncrementalSVC(gamma=1.0, memory="support").partial_fit(X, y, classes=[0, 1])
    lost = np.setdiff1d(np.arange(100), model._archive.numbers[model._remembered()])
    with pytest.raises(ValueError, match=f"example {lost[0]} is not remembered any more"):
        model.unlearn(lost)
    model.unlearn(np.setdiff1d(np.arange(100), lost))
    assert model.support_.size == 0
    assert model.duality_gap() == 0.0
    assert np.isfinite(model.partial_fit(X, y).decision_function(X)).all()
    with pytest.raises(NotFittedError):
        IncrementalSVC().unlearn(0)


def values_of(model, X, y, C, s, kept):
    """Primal and dual value of a binary model by their definitions, in the C-form."""
    beta, gamma = np.zeros(y.size), 0.7
    beta[model.support_] = model.dual_coef_[0]
    rbf = model.kernel == "rbf"
    K = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(2)) if rbf else X @ X.T
    margins, norm2 = (2.0 * y - 1.0) * model.decision_function(X), beta @ K @ beta
    losses = np.maximum(0.0, 1.0 - margins[kept])
    return 0.5 * norm2 + C * s[kept] @ losses, np.abs(beta).sum() - 0.5 * norm2


@pytest.mark.parametrize(
    ("kernel", "memory", "layout"),
    [("rbf", "all", "dense"), ("rbf", "support", "dense"), ("linear", "all", "dense"), ("linear", "all", "sparse")],
)
def test_the_gap_is_the_difference_of_primal_and_dual_by_definition(kernel, memory, layout, rng):
    X, y = data(rng, 150)
    rows = sp.csr_matrix(X, dtype=np.float32) if layout == "sparse" else X
    X = rows.toarray().astype(np.float64) if layout == "sparse" else X
    s = rng.uniform(0.5, 2.0, y.size)
    model = IncrementalSVC(C=3.0, kernel=kernel, gamma=0.7, memory=memory)
    model.partial_fit(rows, y, classes=[0, 1], sample_weight=s)
    gap, archive = model.duality_gap(), model._archive
    kept = archive.numbers[: archive.n]
    primal, dual = values_of(model, X, y, 3.0, s, kept)
    assert gap == pytest.approx((primal - dual) / (3.0 * s[kept].sum()), rel=1e-4)


@pytest.mark.parametrize(("C", "tol"), [(1.0, 0.3), (1.0, 1e-9), (1e4, 1e-3), (1e4, 1e-11)])
def test_what_finish_proves_is_proven_of_the_model_for_the_kernel_that_was_asked_for(C, tol, rng):
    X, y = data(rng, 400)
    model = IncrementalSVC(C=C, gamma=0.7).partial_fit(X, y, classes=[0, 1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ConvergenceWarning)
        model.finish(tol)
    primal, dual = values(model, X, y, None)
    certificate, slack = model.certificate_, ALLOWED * float(primal)
    room = float(primal) * (SHARE * max(tol, certificate.relative_gap) + 1e-6)  # of a bound by some of the examples
    assert primal - slack <= certificate.primal <= primal + room
    assert dual - room <= certificate.dual <= dual + slack
    assert model.stop_reason_ == ("tol" if certificate.relative_gap <= tol else "precision")
    assert [f"{certificate.relative_gap:.1e}" in str(each.message) for each in told] == [True] * (
        model.stop_reason_ == "precision"
    )
    assert tol < 1e-9 or model.stop_reason_ == "tol"


def test_fit_numbers_examples_by_their_rows_and_streams_go_on_behind(rng):
    X, y = data(rng, 200)
    model = IncrementalSVC(C=2.0, gamma=0.7, max_iter=2).fit(X, y)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert (np.diff(model.support_) > 0).all()
    np.testing.assert_array_equal(model.n_support_, np.bincount(y[model.support_]))
    model.partial_fit(X[:50] + 0.1, y[:50])
    assert model.n_samples_seen_ == 250
    np.testing.assert_array_equal(model.support_vectors_, np.concatenate([X, X[:50] + 0.1])[model.support_])
    assert model.support_.max() >= 200
    same(IncrementalSVC(gamma=0.7).fit(X, y), IncrementalSVC(gamma=0.7).fit(X, y), X)


@pytest.mark.parametrize("name", ["pairs", "greedy", "process"])
def test_classes_may_be_announced_later(name, rng):
    X, y = data(rng, 400, 4)
    first = np.flatnonzero(y[:200] < 3)[:120]
    first = first[y[first] > 0]  # of classes 1 and 2
    model = made(name).partial_fit(X[first], y[first], classes=[1, 2])
    model.partial_fit(X[:1], y[:1] * 0 + 1, classes=[0, 1, 2, 3])
    state = model._state
    K = np.exp(-0.7 * ((np.concatenate([X[first], X[:1]])[:, None] - X[first][None]) ** 2).sum(2))
    for q in range(4):  # responses of the old and the new outputs are those of their coefficients
        slots = state.vectors[state.example[state.vectors] < first.size]
        whole = np.zeros(first.size + 1)
        whole[state.example[state.vectors]] = state.beta[q, state.vectors]
        f = whole @ K
        signs = np.where(y[first] == q, 1.0, -1.0)
        constant = whole.sum() if model._intercept() == "regularized" else 0.0
        np.testing.assert_allclose(state.e[q, slots], (signs - f - constant)[state.example[slots]], atol=1e-4)
    model.partial_fit(X[200:], y[200:])
    seen = np.concatenate([first, [0], np.arange(200, 400)])
    labels = np.concatenate([y[first], [1], y[200:]])
    exact = SVC(C=2.0, gamma=0.7, multi_class="ovr", intercept=model._intercept(), tol=1e-4).fit(X[seen], labels)
    model.finish(1e-4)
    np.testing.assert_allclose(
        [c.primal for c in model.certificate_], [c.primal for c in exact.certificate_], rtol=2.1e-4
    )  # fmt: skip
    with pytest.raises(ValueError, match="classes must hold those of the earlier calls"):
        model.partial_fit(X, y, classes=[0, 1, 2])


def test_a_running_model_keeps_what_it_is_made_of(rng):
    X, y = data(rng)
    model = IncrementalSVC(gamma=1.0).partial_fit(X, y, classes=[0, 1])
    before = model.decision_function(X)
    for name, value in {"C": 2.0, "intercept": "none", "window": 10, "gamma": 2.0, "memory": "support"}.items():
        old = getattr(model, name)
        with pytest.raises(ValueError, match="a running model keeps its"):
            model.set_params(**{name: value}).partial_fit(X, y)
        model.duality_gap()
        assert model._archive.n == y.size  # a look gives nothing up either
        model.set_params(**{name: old})
        np.testing.assert_array_equal(model.decision_function(X), before)
        assert model.n_samples_seen_ == y.size


@pytest.mark.parametrize("second", [False, True])
def test_ctrl_c_leaves_the_model_of_the_examples_seen(second, rng, monkeypatch):
    X, y = data(rng, 600)
    monkeypatch.setattr(incremental, "SLICE", 50)
    model = IncrementalSVC(gamma=1.0).partial_fit(X[:100], y[:100], classes=[0, 1])
    advance, calls = Tracker.advance, []

    def interrupted(self, problem, state, n_steps):
        if n_steps:
            calls.append(n_steps)
            if len(calls) == 4:
                for _ in range(2 if second else 1):
                    signal.raise_signal(signal.SIGINT)
        return advance(self, problem, state, n_steps)

    monkeypatch.setattr(Tracker, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[100:], y[100:])
    monkeypatch.setattr(Tracker, "advance", advance)
    seen = 300  # to the end of the slice under way
    assert model.n_samples_seen_ == seen
    assert model.stop_reason_ == "interrupted"
    same(model, IncrementalSVC(gamma=1.0).partial_fit(X[:seen], y[:seen], classes=[0, 1]), X)
    model.partial_fit(X[seen:], y[seen:])
    same(model, IncrementalSVC(gamma=1.0).partial_fit(X, y, classes=[0, 1]), X)


@pytest.mark.parametrize("before", ["fit", "partial_fit", "finish"])
@pytest.mark.parametrize("at", ["responses", "forget", "repair"])
def test_ctrl_c_ends_a_repair_with_the_model_so_far_whatever_was_called_before(before, at, rng, monkeypatch):
    X, y = data(rng, 150)
    model = IncrementalSVC(gamma=1.0)
    model = model.partial_fit(X, y, classes=[0, 1]) if before == "partial_fit" else model.fit(X, y)
    if before == "finish":
        model.finish()
    gone, kept, pressed = rng.choice(model.support_, 20, replace=False), getattr(Tracker, at), []

    def interrupted(self, *given):
        pressed.append(signal.raise_signal(signal.SIGINT) if not pressed else None)
        return kept(self, *given)

    monkeypatch.setattr(Tracker, at, interrupted)
    with pytest.warns(ConvergenceWarning, match="Ctrl-C ended unlearn before the model was repaired"):
        model.unlearn(gone, repair="auto" if at == "responses" else 0.5e-6)
    assert len(pressed) == 1
    assert model.stop_reason_ == "interrupted"
    assert not np.isin(gone, model.support_).any()
    monkeypatch.undo()
    assert model.finish(1e-3).stop_reason_ == "tol"
    other = IncrementalSVC(gamma=1.0).fit(np.delete(X, gone, 0), np.delete(y, gone)).finish(1e-3)
    assert model.certificate_.primal == pytest.approx(other.certificate_.primal, rel=2.1e-3)


def test_a_time_limit_leaves_the_model_of_the_examples_seen(rng, clock):
    X, y = data(rng, 8000)
    clock.tick = 0.05
    model = IncrementalSVC(gamma=1.0, max_seconds=0.5).fit(X, y)
    assert model.stop_reason_ == "max_seconds"
    assert model._archive.n < 8000
    assert model.support_.size
    assert model.finish(0.1).certificate_.relative_gap <= 0.1


def test_a_window_forgets_a_drift(rng):
    X = rng.normal(size=(900, 2))
    y = np.where(np.arange(900) < 600, X[:, 0] > 0, X[:, 0] < 0).astype(int)
    model = IncrementalSVC(gamma=0.5, window=150)
    for part in np.array_split(np.arange(900), 90):
        model.partial_fit(X[part], y[part], classes=[0, 1])
        assert model._archive.n <= 2 * 150 + 256
    assert model.support_.min() >= 750
    only = IncrementalSVC(gamma=0.5).partial_fit(X[750:], y[750:], classes=[0, 1])
    assert model.finish(1e-4).certificate_.primal == pytest.approx(only.finish(1e-4).certificate_.primal, rel=2.1e-4)


def test_compress_takes_it(rng):
    X, y = data(rng, 400)
    model = IncrementalSVC(C=2.0, gamma=0.7).partial_fit(X, y, classes=[0, 1])
    small = compress(model, 40)
    assert small.support_vectors_.shape == (40, 3)
    assert (small.predict(X) == model.predict(X)).mean() > 0.9
    assert not hasattr(small, "support_")
    assert model.support_.size > 40
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(small)).predict(X), small.predict(X))


def test_parameters_of_the_solver_are_searched(rng):
    X, y = data(rng, 120)
    search = GridSearchCV(IncrementalSVC(solver=Tracker()), {"solver__reprocess": [0, 2], "C": [1.0, 10.0]}, cv=2)
    assert search.fit(X, y).best_params_["solver__reprocess"] in (0, 2)


REFUSED = {
    "kernel": ({"kernel": "precomputed"}, "a stream has no kernel matrix"),
    "callable": ({"kernel": lambda A, B: A @ B.T}, "a stream has no kernel matrix"),
    "memory": ({"memory": "some"}, "memory must be one of 'all', 'support', got 'some'"),
    "window": ({"window": 0}, "window must be ≥ 1, got 0"),
    "budget": ({"budget": 0}, "budget must be ≥ 1, got 0"),
    "solver": ({"solver": "smo"}, "solver must be one of 'auto', 'tracker', got 'smo'"),
    "steps": ({"solver": Tracker(reprocess="many")}, "reprocess must be a number of steps or 'auto'"),
    "pairs": ({"solver": Tracker("process"), "intercept": "unregularized"}, "an unregularised intercept needs pairs"),
    "C": ({"C": 0.0}, "C must be > 0"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_parameters_are_refused_in_a_sentence(what, rng):
    parameters, said = REFUSED[what]
    X, y = data(rng)
    for call in (lambda m: m.fit(X, y), lambda m: m.partial_fit(X, y, classes=[0, 1])):
        model = IncrementalSVC(**parameters)
        with pytest.raises(ValueError, match=said):
            call(model)
        assert not hasattr(model, "_state")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["pairs", "lasvm", "window"])
def test_the_online_error_is_that_of_predicting_each_example_before_it_is_learnt(name, classes, rng):
    X, y = data(rng, 100, classes)
    model = IncrementalSVC(C=2.0, gamma=0.5, **CONFIGURATIONS[name]).partial_fit(X[:5], y[:5], np.arange(classes))
    wrong = round(5 * model.online_error_)
    for i in range(5, 100):
        wrong += model.predict(X[i : i + 1])[0] != y[i]
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert model.online_error_ == pytest.approx(wrong / 100)
    at_once = IncrementalSVC(C=2.0, gamma=0.5, **CONFIGURATIONS[name]).partial_fit(X, y, np.arange(classes))
    assert at_once.online_error_ == model.online_error_


def test_bounds_that_round_do_not_move_the_intercept(rng):
    """1/(λn) may be one bit below C, and a variable at its bound stays there."""
    for n in (301, 303, 311, 330):
        X, y = data(rng, n)
        model = IncrementalSVC(C=3.0, gamma=0.5).fit(X, y).finish(1e-6)
        exact = SVC(C=3.0, gamma=0.5, tol=1e-6).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=0.02)


def test_looking_and_unlearning_leave_the_mean_of_the_others_alone(rng):
    X, y = data(rng, 900)
    solver = Tracker(reprocess=4, average=True)
    model = IncrementalSVC(C=2.0, gamma=0.5, intercept="none", solver=solver, memory="support")
    for i in range(0, 900, 30):
        model.partial_fit(X[i : i + 30], y[i : i + 30], classes=[0, 1])
        before = model.decision_function(X[:50])
        model.duality_gap()  # gives up rows
        np.testing.assert_array_equal(model.decision_function(X[:50]), before)


def test_a_window_does_not_remember_more_after_unlearning(rng):
    X, y = data(rng, 100)
    model = IncrementalSVC(gamma=0.5, window=30).partial_fit(X, y, classes=[0, 1]).unlearn(75)
    with pytest.raises(ValueError, match="example 69 is not remembered"):
        model.unlearn(69)
    assert model.n_samples_seen_ == 100
    with pytest.raises(ValueError, match="max_iter=2 passes would see again"):
        IncrementalSVC(window=30, max_iter=2).fit(X, y)
    whole = IncrementalSVC(gamma=0.5).partial_fit(X[:4], y[:4], classes=[0, 1])
    with pytest.raises(ValueError, match="finish needs examples"):
        whole.unlearn([0, 1, 2, 3]).finish()


def test_single_steps_of_several_outputs_gain(rng):
    """A vector of another output does not stand in the way of one's own: many steps close the gap of the vectors."""
    X, y = data(rng, 300, 4)
    gaps = []
    for K in (1, 40):
        solver = Tracker(reprocess=K)
        model = IncrementalSVC(C=2.0, gamma=0.5, intercept="none", solver=solver, memory="support")
        gaps.append(model.partial_fit(X, y, range(4)).duality_gap())
    assert gaps[1] < 0.5 * gaps[0], gaps


@pytest.mark.parametrize("at", [0, 2, 3])
def test_one_interrupt_ends_all_parts_of_finish(monkeypatch, at):
    rng = np.random.default_rng()
    X = rng.standard_normal((90, 3))
    y = np.arange(90) % 3
    model = IncrementalSVC(gamma=1.0).partial_fit(X, y, classes=[0, 1, 2])
    solved, limits = IncrementalSVC._solved, []

    def pressed(self, part, beta, f, tol, seconds):
        limits.append(seconds)
        found = solved(self, part, beta, f, tol, seconds)
        return found._replace(stop_reason="interrupted") if len(limits) == at + 1 else found

    monkeypatch.setattr(IncrementalSVC, "_solved", pressed)
    model.finish(1e-6)
    assert model.stop_reason_ == "interrupted"
    assert limits == [None] * (at + 1) + [1e-3] * (len(limits) - at - 1)
    assert len(model.certificate_) == 3
    model.partial_fit(X[:5], y[:5])
    assert model.n_samples_seen_ == 95
