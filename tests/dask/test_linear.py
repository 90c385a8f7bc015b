"""Estimators on a cluster: what is learnt is that of one machine, whatever the collections look like."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import widemargin

da = pytest.importorskip("dask.array")

import dask  # noqa: E402
import distributed  # noqa: E402
from distributed import Client  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from widemargin import dask as on_dask  # noqa: E402
from widemargin.dask import examples  # noqa: E402


def drawn(rng, n=240, d=8, classes=2):
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    scores = X @ rng.normal(size=(d, classes)) + 0.1
    return X, scores.argmax(axis=1), scores[:, 0]


def optimum(estimator, X, y, weights=None):
    return estimator(tol=1e-6, max_iter=20000).fit(X, y, weights).certificate_


def agrees(model, best):
    """Whether a certificate is true and closed: the optimum is between its two values."""
    found = model.certificate_
    assert model.stop_reason_ == "tol"
    assert 0.0 <= found.gap == found.primal - found.dual <= 1e-3 * found.primal
    assert found.dual <= best.primal * (1.0 + 1e-9)
    assert best.dual <= found.primal * (1.0 + 1e-9)


def test_without_dask_there_is_a_sentence_with_the_remedy():
    script = "import sys; sys.modules['dask'] = None\nimport widemargin\nimport widemargin.dask"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, timeout=300)
    assert done.returncode != 0
    assert "pip install 'widemargin[dask]'" in done.stderr


@pytest.mark.parametrize(("solver", "classes"), [("interior", 2), ("interior", 3), ("admm", 3)])
def test_a_classifier_finds_the_optimum_of_one_machine(client, rng, solver, classes):
    X, y, _ = drawn(rng, d=8 if solver == "interior" else 400, classes=classes)  # wide data is ADMM's
    names = np.array(["ant", "bee", "cat"])[y]
    weights = rng.integers(0, 3, len(y)).astype(float)
    columns = X.shape[1] // 2
    given = da.from_array(X, chunks=(70, columns)), da.from_array(names, chunks=100), da.from_array(weights, chunks=50)
    model = on_dask.LinearSVC(solver=solver, class_weight="balanced", random_state=0).fit(*given)
    agrees(model, optimum(lambda **o: widemargin.LinearSVC(class_weight="balanced", **o), X, names, weights))
    assert model.classes_.tolist() == np.unique(names).tolist()


@pytest.mark.parametrize("solver", ["interior", "admm"])
def test_a_gap_that_rounding_does_not_allow_is_called_precision_and_is_never_tol(client, rng, solver):
    X, y, _ = drawn(rng)
    for tol in (1e-3, 1e-16):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = on_dask.LinearSVC(C=10.0 ** rng.uniform(-2, 6), solver=solver, tol=tol, max_iter=60).fit(
                da.from_array(X, chunks=(80, 8)), da.from_array(y, chunks=80)
            )
        gap, said = model.certificate_.relative_gap, [str(each.message) for each in told]
        assert model.stop_reason_ in (("tol",) if gap <= tol else ("precision", "max_iter"))
        assert model.stop_reason_ == "tol" or said
        assert model.stop_reason_ != "precision" or any(f"{gap:.1e}" in text for text in said)
        assert model.to_local().stop_reason_ == model.stop_reason_


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_a_regressor_finds_the_optimum_of_one_machine(client, rng, loss):
    X, _, t = drawn(rng)
    t = 50.0 + 10.0 * t
    model = on_dask.LinearSVR(C=0.1, epsilon=0.1, loss=loss).fit(da.from_array(X, chunks=(60, 8)), da.from_array(t, 60))
    agrees(model, optimum(lambda **o: widemargin.LinearSVR(C=0.1, epsilon=0.1, loss=loss, **o), X, t))
    score = model.score(da.from_array(X, chunks=(50, 8)), da.from_array(t, chunks=50))
    assert float(score) == pytest.approx(model.to_local().score(X, t), abs=1e-9)
    weights = rng.random(len(t))
    score = model.score(da.from_array(X, chunks=(50, 8)), da.from_array(t, 60), da.from_array(weights, 70))
    assert float(score) == pytest.approx(model.to_local().score(X, t, weights), abs=1e-9)


def test_scores_of_targets_far_from_zero_and_all_alike_are_those_of_the_local_estimator(client, rng):
    X, _, t = drawn(rng)
    D = da.from_array(X, chunks=(50, 8))
    model = on_dask.LinearSVR().fit(D, da.from_array(t, chunks=50))
    model.intercept_ = model.intercept_ + 2.0**27
    local, weights = model.to_local(), rng.integers(0, 2, len(t)).astype(float)
    weights[:50] = 0.0  # a chunk without weight
    score = model.score(D, da.from_array(2.0**27 + t, chunks=50), da.from_array(weights, chunks=50))
    assert float(score) == pytest.approx(local.score(X, 2.0**27 + t, weights), abs=1e-6)
    assert float(model.score(D, da.ones(len(t), chunks=50))) == local.score(X, np.ones(len(t))) == 0.0


@pytest.mark.parametrize("solver", ["interior", "admm"])
def test_chunks_of_float32_among_others_have_the_certificate_of_the_model(client, rng, solver):
    X, y, _ = drawn(rng)
    X[80:160] = X[80:160].astype(np.float32)

    def some_rounded(block, block_info=None):
        return block.astype(np.float32) if block_info[0]["chunk-location"][0] == 1 else block

    rows = da.from_array(X, chunks=(80, 8)).map_blocks(some_rounded, dtype=float)
    model = on_dask.LinearSVC(solver=solver, random_state=0, tol=0, max_iter=4)
    model.fit(rows, da.from_array(y, chunks=80))
    w, b = model.coef_[0], model.intercept_[0]
    assert w.dtype == np.float64
    hinge = np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * (X @ w + b)).mean()
    assert model.certificate_.primal == pytest.approx(0.5 * (w @ w + b * b) / len(y) + hinge, rel=1e-12)


def test_chunks_of_sparse_rows_and_of_unknown_sizes_are_the_same_examples(client, rng):
    X, y, _ = drawn(rng)
    X[np.abs(X) < 0.1] = 0.0
    D, labels = da.from_array(X, chunks=(80, 8)), da.from_array(y, chunks=80)
    plain = on_dask.LinearSVC(random_state=0).fit(D, labels)
    sparse = D.map_blocks(sp.csr_matrix, dtype=X.dtype)
    unknown = (
        D[da.from_array(np.ones(len(y), bool), chunks=80)],
        labels[da.from_array(np.ones(len(y), bool), chunks=80)],
    )
    assert np.isnan(unknown[0].shape[0])
    for rows, targets in ((sparse, labels), unknown):
        model = on_dask.LinearSVC(random_state=0).fit(rows, targets)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6, atol=1e-8)
        assert (model.predict(rows).compute() == plain.to_local().predict(X)).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_chunks_of_columns_of_unknown_sizes_and_without_rows_are_the_same_examples(client, rng, sparse):
    X, y, _ = drawn(rng, classes=3)
    stay = np.arange(len(y)) // 80 != 1  # nothing stays of the second chunk
    D, labels, kept = (da.from_array(a, chunks=(80, 8)[: a.ndim]) for a in (X, y, stay))
    rows = D.map_blocks(sp.csr_matrix, dtype=X.dtype)[kept] if sparse else D.rechunk((80, 3))[kept]
    assert np.isnan(rows.shape[0])
    model = on_dask.LinearSVC(random_state=0).fit(rows, labels[kept])
    plain = on_dask.LinearSVC(random_state=0).fit(*(da.from_array(a[stay], 80) for a in (X, y)))
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6, atol=1e-8)
    for method in ("predict", "decision_function"):
        said, local = getattr(model, method)(rows).compute(), getattr(model.to_local(), method)(X[stay])
        np.testing.assert_allclose(said, local, rtol=1e-9, atol=1e-12)
    assert float(model.score(rows, labels[kept])) == pytest.approx(model.to_local().score(X[stay], y[stay]))


@pytest.mark.parametrize("layout", ["dense", "canonical", "with repeated entries"])
def test_persisted_chunks_are_not_held_twice_and_stay_as_they_are(client, rng, layout):
    X, _, t = drawn(rng)
    block = sp.csr_matrix(X)
    if layout == "with repeated entries":
        block = sp.csr_matrix((np.ones(4), np.zeros(4, np.int64), np.array([0, 2, 4])), shape=(2, 8))
        t = t[:2]
    rows = da.from_array(X, chunks=X.shape)
    if layout != "dense":
        rows = da.from_delayed(dask.delayed(block.copy()), (len(t), 8), float, meta=block[:0])
    rows, targets = client.persist([rows, da.from_array(t, chunks=len(t))])
    own, known = client.gather([distributed.futures_of(each)[0] for each in (rows, targets)])
    before = own.copy()
    found = examples.Examples(client, rows, targets, None, numeric=True, digested=False)
    X_part, y_part, _ = client.gather(found.parts[0])
    one, other = (part if isinstance(part, np.ndarray) else part.data for part in (X_part, own))
    assert np.shares_memory(one, other) == (layout != "with repeated entries")
    assert np.shares_memory(y_part, known)
    same = own == before if layout == "dense" else own.data == before.data
    assert same.all()


def test_chunks_that_are_put_together_keep_their_order(client, rng, monkeypatch):
    monkeypatch.setattr(examples, "MOST_NARROW_PARTS", 2)
    X, _, t = drawn(rng, n=90, d=3)
    weights = rng.random(90)
    given = da.from_array(X, chunks=(20, 3)), da.from_array(t, chunks=20), da.from_array(weights, chunks=20)
    parts = client.gather(examples.Examples(client, *given, numeric=True, digested=False).parts)
    assert len(parts) == 2
    for found, whole in zip(zip(*parts, strict=True), (X, t, weights), strict=True):
        np.testing.assert_array_equal(np.concatenate(found), whole)


def test_frames_are_examples_with_names(client, rng):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, _ = drawn(rng, d=3)
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y), npartitions=3)
    model = on_dask.LinearSVC(random_state=0).fit(frame[["a", "b", "c"]], frame["y"])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"X has the column 'c' where that of the fit had 'a': give X\["):
        model.predict(frame[["c", "b", "a"]])
    right = model.predict(frame[["a", "b", "c"]]).compute() == y
    assert float(model.score(frame[["a", "b", "c"]], frame["y"])) == pytest.approx(right.mean())


def test_predictions_wait_to_be_computed_and_are_those_of_the_local_estimator(client, rng, tmp_path):
    X, y, _ = drawn(rng, classes=3)
    D, labels = da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=100)
    model = on_dask.LinearSVC(random_state=0).fit(D, labels)
    local = model.to_local()
    assert type(local) is widemargin.LinearSVC
    assert isinstance(model.predict(D), da.Array)
    np.testing.assert_array_equal(model.predict(D).compute(), local.predict(X))
    np.testing.assert_array_equal(model.decision_function(D).compute(), local.decision_function(X))
    np.testing.assert_array_equal(model.predict(X), local.predict(X))
    weights = rng.random(len(y))
    score = model.score(D, labels, da.from_array(weights, chunks=60))
    assert float(score) == pytest.approx(local.score(X, y, weights))
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(widemargin.load(tmp_path / "model.npz").predict(X), local.predict(X))
    with pytest.raises(ValueError, match="X has 7 features, but LinearSVC is expecting 8"):
        model.predict(D[:, :7])


def test_bits_depend_on_chunks_alone_and_not_on_workers(client, rng):
    X, y, _ = drawn(rng)
    given = da.from_array(X, chunks=(50, 8)), da.from_array(y, chunks=50)
    one = on_dask.LinearSVC(random_state=3, client=client).fit(*given)
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None, set_as_default=False
    ) as other:
        two = on_dask.LinearSVC(random_state=3, client=other).fit(*given)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    assert one.traffic_ == two.traffic_


def test_what_travels_is_what_the_formula_says(client, rng):
    X, y, _ = drawn(rng, n=200, d=6)
    parts, rounds = 4, 8
    model = on_dask.LinearSVC(solver="admm", random_state=0, tol=0, max_iter=rounds)
    model.fit(da.from_array(X, chunks=(50, 6)), da.from_array(y, chunks=50))
    looks = len(model.history_)
    # out: z, v, (ρ, ρ before), θ, number, passes; for a look z and v. Back: cₖ, Σ β, ‖w‖², slope, changes; two sums.
    assert model.traffic_["bytes_sent"] == parts * 8 * (rounds * (6 + 1 + 2 + 3) + looks * (6 + 1))
    assert model.traffic_["bytes_received"] == parts * 8 * (rounds * (6 + 1 + 1 + 1 + 1) + looks * 2)


@pytest.mark.parametrize("solver", ["interior", "admm"])
def test_a_driver_that_is_restarted_goes_on_to_the_same_bits(client, rng, tmp_path, solver):
    X, y, _ = drawn(rng)
    given = da.from_array(X, chunks=(50, 8)), da.from_array(y, chunks=50)
    options = {"random_state": 5, "tol": 0, "max_iter": 8, "solver": solver}
    whole = on_dask.LinearSVC(**options).fit(*given)

    def dies(progress):
        if progress.row["steps"] == 4:
            raise MemoryError("the driver is gone")

    kept = {**options, "checkpoint": tmp_path / "fit.npz", "checkpoint_every": 0}
    with pytest.raises(MemoryError):
        on_dask.LinearSVC(**kept, callbacks=dies).fit(*given)
    assert (tmp_path / "fit.npz").exists()
    seen = []
    again = on_dask.LinearSVC(**kept, callbacks=lambda progress: seen.append(progress.row["steps"])).fit(*given)
    assert min(seen) > 2
    np.testing.assert_array_equal(again.coef_, whole.coef_)
    assert not (tmp_path / "fit.npz").exists()
    with pytest.raises(MemoryError):
        on_dask.LinearSVC(**kept, callbacks=dies).fit(*given)
    with pytest.raises(ValueError, match="is that of another problem: the parts"):
        on_dask.LinearSVC(**kept).fit(given[0] + 1.0, given[1])


@pytest.mark.parametrize("estimator", [on_dask.LinearSVC, on_dask.SVC, on_dask.BudgetedSVC])
def test_weights_that_leave_one_class_are_refused_as_one_class_is(client, rng, estimator):
    X, y, _ = drawn(rng)
    given = da.from_array(X, chunks=(80, 8)), da.from_array(y, chunks=80)
    only = y.max()
    with pytest.raises(ValueError, match=f"at least 2 classes with a weight > 0, and only {only.item()!r} has one"):
        estimator().fit(*given, sample_weight=da.from_array(np.where(y == only, 2.0, 0.0), chunks=80))
    with pytest.raises(ValueError, match=f"at least 2 classes with a weight > 0, and only {only.item()!r} has one"):
        estimator(class_weight={label: float(label == only) for label in np.unique(y).tolist()}).fit(*given)


def test_callbacks_and_limits_end_a_fit_with_the_model_so_far(client, rng):
    X, y, _ = drawn(rng)
    given = da.from_array(X, chunks=(80, 8)), da.from_array(y, chunks=80)
    model = on_dask.LinearSVC(tol=0, callbacks=lambda progress: progress.row["steps"] >= 2).fit(*given)
    assert model.stop_reason_ == "callback"
    assert model.history_.last("steps") == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = on_dask.LinearSVC(tol=1e-12, max_iter=3).fit(*given)
    assert model.stop_reason_ == "max_iter"
    assert model.certificate_.primal <= 1.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: (np.asarray(X), y), "X must be a Dask array or frame, got ndarray"),
        (lambda X, y: (X, y[:100]), "X and y must have as many rows, got 240 and 100"),
        (lambda X, y: (X, da.zeros(240, chunks=80)), "needs examples of at least 2 classes, got 1 class only: 0.0"),
        (lambda X, y: (X * np.nan, y), "X has values that are NaN or infinite"),
        (lambda X, y: (X[X[:, 0] > 0], y.rechunk(40)), "of unknown sizes: call compute_chunk_sizes"),
        (lambda X, y: (X[:, 0], y), "X must have 2 dimensions, got 1"),
        (lambda X, y: (X[X[:, 0] > 0], y[y >= 0]), "rows and that of y 80: align them"),
        (lambda X, y: (X[X[:, 0] > 9], y[X[:, 0] > 9]), "X has no rows: give some examples"),
        (lambda X, y: (X.map_blocks(lambda block: block.astype(str)), y), "X must hold numbers, got <U32: encode text"),
        (lambda X, y: (X * np.where(np.arange(240) < 80, 1e200, 1.0)[:, None], y), "sums of their squares overflow"),
        (lambda X, y: (X, X[:, 0]), "y must hold labels, got the number .*: use a regressor"),
        (lambda X, y: (X, da.from_array(np.array([None, "a"] * 120, object), 80)), "y has labels of several kinds"),
    ],
)
def test_what_cannot_be_is_a_sentence(client, rng, change, said):
    X, y, _ = drawn(rng)
    X, y = change(da.from_array(X, chunks=(80, 8)), da.from_array(y, chunks=80))
    with pytest.raises((ValueError, TypeError), match=said):
        on_dask.LinearSVC().fit(X, y)
