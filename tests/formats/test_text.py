"""Model text of LIBSVM and LIBLINEAR: theirs predicts the same here, ours the same there, what is wrong has a line."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import widemargin
from reference import model_text
from widemargin import SVC, SVR, BudgetedSVC, IncrementalSVC, LinearSVC, LinearSVR, compress, export, load
from widemargin.core.kernels.kernels import KERNELS
from widemargin.formats.machine import Machine, estimator_of, machine_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

FOLDER = Path(__file__).parents[1] / "fixtures" / "peers"
EXPECTED = dict(np.load(FOLDER / "expected.npz"))
TEXTS = sorted(name for name in EXPECTED if name.endswith(("libsvm", "liblinear")))
#: Kernel values are kept in float32.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def rows_for(name):
    return EXPECTED["K" if "precomputed" in name else "X"]


def their(path, X):
    """What the other program says of a file, by the reference."""
    return getattr(model_text, path.suffix[1:])(path, X)


def clear(scores):
    """Rows whose scores are far enough from zero and from each other that rounding changes no label."""
    gaps = np.abs(np.diff(np.sort(scores, axis=1), axis=1)).min(axis=1, initial=np.inf)
    return (np.abs(scores).min(axis=1) > 1e-4) & (gaps > 1e-4)


# ---------------------------------------------------------------- theirs


@pytest.mark.parametrize("name", TEXTS)
def test_the_reference_does_what_their_programs_do(name):
    labels, scores = their(FOLDER / name, rows_for(name))
    columns = EXPECTED[f"{name}.scores"].shape[1]  # LIBLINEAR's has one for two classes, of whichever solver
    np.testing.assert_allclose(scores[:, :columns], EXPECTED[f"{name}.scores"], rtol=1e-9)
    np.testing.assert_allclose(labels, EXPECTED[name], rtol=1e-9)


@pytest.mark.parametrize("name", TEXTS)
def test_their_models_predict_here_as_there(name):
    model = load(FOLDER / name, n_features=18 if "precomputed" in name else None)
    found = model.predict(rows_for(name))
    if name.startswith("numbers"):
        np.testing.assert_allclose(found, EXPECTED[name], **CLOSE)
    else:
        np.testing.assert_array_equal(found, EXPECTED[name])
    if name.startswith("two") and "mcsvm" not in name:
        sign = (
            1.0
            if model.classes_[1] == int(model_text.parsed(FOLDER / name, "SV" if "svm" in name else "w")[0]["label"][0])
            else -1.0
        )
        np.testing.assert_allclose(
            sign * model.decision_function(rows_for(name)), EXPECTED[f"{name}.scores"][:, 0], **CLOSE
        )


@pytest.mark.parametrize("name", TEXTS)
def test_their_models_come_back_from_our_text_number_by_number(name, tmp_path):
    model = load(FOLDER / name)
    export(model, tmp_path / name)
    header, lines = model_text.parsed(tmp_path / name, "SV" if name.endswith("libsvm") else "w")
    theirs, their_lines = model_text.parsed(FOLDER / name, "SV" if name.endswith("libsvm") else "w")
    kept = ("label", "rho", "nr_sv", "total_sv", "gamma", "degree", "coef0", "kernel_type", "nr_class", "nr_feature")
    for key in kept:
        same = [k if key == "kernel_type" else float(k) for k in header.get(key, [])]
        if key != "nr_sv" or "nu" not in name:
            assert same == [k if key == "kernel_type" else float(k) for k in theirs.get(key, [])], key
    if name.endswith("libsvm"):
        numbers = [[tuple(map(float, word.split(":"))) for word in line] for line in lines]
        assert [[n for n in line if n[-1] != 0.0] for line in numbers] == [
            [n for word in line if (n := tuple(map(float, word.split(":"))))[-1] != 0.0] for line in their_lines
        ]
    elif header["bias"] == theirs["bias"]:
        assert np.array_equal(np.array(lines, float), np.array(their_lines, float))
    again = load(tmp_path / name)
    for attribute in ("dual_coef_", "intercept_", "coef_", "classes_", "n_support_"):
        if hasattr(model, attribute):
            np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute), strict=True)


# ---------------------------------------------------------------- ours


def data(rng):
    X = rng.normal(size=(60, 3))
    t = X[:, 0] + 0.3 * X[:, 1] * X[:, 2]
    return X, t, np.where(t > 0, 7, -1), np.array([5, -2, 9])[np.digitize(t, [-0.4, 0.4])]


OURS = {
    "SVC, two": lambda X, t, two, three: SVC(gamma=0.5).fit(X, two),
    "SVC, three": lambda X, t, two, three: SVC(kernel="poly", degree=2, coef0=1.0).fit(X, three),
    "SVC, sparse": lambda X, t, two, three: SVC(gamma=0.5).fit(sp.csr_matrix(X * (np.abs(X) > 0.7)), three),
    "SVC, huge": lambda X, t, two, three: SVC().fit(X * 1e100, two),
    "SVC, precomputed": lambda X, t, two, three: SVC(kernel="precomputed").fit(X @ X.T, three),
    "SVC, regularised intercept": lambda X, t, two, three: SVC(kernel="linear", intercept="regularized").fit(X, two),
    "SVR": lambda X, t, two, three: SVR(gamma=0.5).fit(X, t),
    "compressed": lambda X, t, two, three: compress(SVC(gamma=0.5).fit(X, three), 6),
    "budgeted": lambda X, t, two, three: BudgetedSVC(12, gamma=0.5, lam=0.01).fit(X, two),
    "incremental": lambda X, t, two, three: IncrementalSVC(gamma=0.5).fit(X, two),
    "LinearSVC, two": lambda X, t, two, three: LinearSVC().fit(X, two),
    "LinearSVC, three": lambda X, t, two, three: LinearSVC(loss="log").fit(X, three),
    "LinearSVC, none": lambda X, t, two, three: LinearSVC(intercept="none").fit(X, three),
    "LinearSVC, joint": lambda X, t, two, three: LinearSVC(multi_class="crammer_singer", max_iter=3).fit(X, three),
    "LinearSVC, joint two": lambda X, t, two, three: LinearSVC(multi_class="crammer_singer", max_iter=3).fit(X, two),
    "LinearSVR": lambda X, t, two, three: LinearSVR(epsilon=0.05).fit(X, t),
    "SVC as weights": lambda X, t, two, three: SVC(kernel="linear").fit(X, two),
}


@pytest.mark.parametrize("case", OURS)
def test_our_models_predict_there_as_here(case, rng, tmp_path):
    X, *targets = data(rng)
    model, new = OURS[case](X, *targets), rng.normal(size=(40, 3))
    new = new * 1e100 if "huge" in case else new @ X.T if "precomputed" in case else new
    linear = case.startswith("Linear") or case == "SVC as weights"
    path = tmp_path / ("model.liblinear" if linear else "model.libsvm")
    export(model, path)
    labels, scores = their(path, new)
    back = load(path, n_features=60 if "precomputed" in case else None)
    if hasattr(model, "classes_"):
        certain = clear(scores)
        np.testing.assert_array_equal(model.predict(new)[certain], labels[certain])
        np.testing.assert_array_equal(back.predict(new)[certain], labels[certain])
        np.testing.assert_allclose(back.decision_function(new), model.decision_function(new), **CLOSE)
        np.testing.assert_array_equal(back.classes_, model.classes_)
    else:
        np.testing.assert_allclose(model.predict(new), labels, **CLOSE)
        np.testing.assert_allclose(back.predict(new), labels, **CLOSE)
    for name in ("dual_coef_", "intercept_", "n_support_", "coef_"):
        same = case.startswith("Linear") or (
            case not in ("compressed", "budgeted", "incremental", "SVC as weights") and name != "coef_"
        )
        if same and hasattr(model, name) and hasattr(back, name):
            np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    known = getattr(back, "classes_", np.empty(0)).size
    y = next(target for target in targets if np.unique(target).size == known or (known == 0 and target is targets[0]))
    with pytest.raises(ValueError, match=r"warm_start goes on from .* comes from a model text of LIB.*call fit"):
        back.set_params(warm_start=True).fit(X @ X.T if "precomputed" in case else X, y)


def test_their_programs_read_our_text(rng, tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil", reason="pip install libsvm-official")
    liblinearutil = pytest.importorskip("liblinear.liblinearutil", reason="pip install liblinear-official")
    X, *targets = data(rng)
    new = rng.normal(size=(40, 3))
    for case in OURS:
        if any(word in case for word in ("huge", "precomputed")):
            continue
        model = OURS[case](X, *targets)
        linear = case.startswith("Linear") or case == "SVC as weights"
        path = tmp_path / ("model.liblinear" if linear else "model.libsvm")
        export(model, path)
        if linear:
            found = liblinearutil.predict([], new, liblinearutil.load_model(str(path)), "-q")
        else:
            found = svmutil.svm_predict([], new.tolist(), svmutil.svm_load_model(str(path)), "-q")
        certain = clear(their(path, new)[1]) if hasattr(model, "classes_") else np.full(40, True)
        np.testing.assert_allclose(model.predict(new)[certain], np.array(found[0])[certain], **CLOSE)


@given(
    numbers=st.data(), k=st.integers(2, 4), d=st.integers(1, 4),
    kind=st.sampled_from(["rbf", "poly", "linear", "sigmoid"]), regression=st.booleans(),
)  # fmt: skip
def test_any_numbers_come_back_exactly(numbers, k, d, kind, regression, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "model.libsvm"
    finite = st.floats(allow_nan=False, allow_infinity=False)
    draw = numbers.draw
    counts = np.array(draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)))
    n, outputs = int(counts.sum()), 1 if regression or k == 2 else k - 1
    coef = draw(hnp.arrays(np.float64, (outputs, n), elements=finite))
    if outputs == 1 and not regression:  # by class, so that their order is the one that is written
        coef = np.sort(coef, axis=1)
        counts = np.array([n - np.count_nonzero(coef > 0), np.count_nonzero(coef > 0)])
    vectors = sp.csr_matrix(draw(hnp.arrays(np.float64, (n, d), elements=st.floats(-1e9, 1e9))))
    values = {"gamma": 0.5, "coef0": draw(st.floats(-9, 9)), "degree": draw(st.integers(0, 9))}
    kernel = KERNELS[kind](*(values[name] for name in KERNELS[kind]._fields))
    pairs = 1 if regression else k * (k - 1) // 2
    intercept = draw(hnp.arrays(np.float64, pairs, elements=finite))
    labels = st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=k, max_size=k, unique=True)
    classes = None if regression else np.array(draw(labels))
    in_pairs = not regression and k > 2
    machine = Machine("", coef, intercept, d, classes, in_pairs, kernel, vectors, counts=None if regression else counts)
    export(estimator_of(machine, "nobody"), path)
    back = machine_of(load(path, n_features=d))
    np.testing.assert_array_equal(back.coef, coef)
    np.testing.assert_array_equal(back.intercept, intercept)
    np.testing.assert_array_equal(sp.csr_matrix(back.vectors).toarray(), vectors.toarray())
    assert back.kernel == kernel
    if n:
        assert load(path).n_features_in_ == d
    if not regression:
        np.testing.assert_array_equal(back.classes, classes)


# ---------------------------------------------------------------- what does not fit

REFUSED = {
    "libsvm of weights": (
        lambda X, t, two, three: LinearSVC().fit(X, two),
        "libsvm",
        "is linear: export to .liblinear",
    ),
    "laplacian": (
        lambda X, t, two, three: SVC(kernel="laplacian", gamma=0.5, solver="sdca").fit(X, two),
        "libsvm",
        r"LIBSVM has no laplacian kernel, only .*: train with one of these, or export to \.npz or \.onnx",
    ),
    "against the rest": (
        lambda X, t, two, three: SVC(multi_class="ovr").fit(X, three),
        "libsvm",
        "this SVC has a score for each of 3: train with multi_class='ovo', or export to",
    ),
    "budgeted": (
        lambda X, t, two, three: BudgetedSVC(12, gamma=0.5, lam=0.01).fit(X, three),
        "libsvm",
        r"this BudgetedSVC has a score for each of 3: export to \.npz or \.onnx",
    ),
    "names": (
        lambda X, t, two, three: LinearSVC().fit(X, np.where(t > 0, "yes", "no")),
        "liblinear",
        "labels that are whole numbers of 32 bits, and this model has 'no': train on numbers",
    ),
    "liblinear of a kernel": (
        lambda X, t, two, three: SVC(gamma=0.5).fit(X, two),
        "liblinear",
        "SVC has the kernel 'rbf': export to .libsvm, or train LinearSVC",
    ),
    "liblinear of pairs": (
        lambda X, t, two, three: SVC(kernel="linear").fit(X, three),
        "liblinear",
        "has pairs of classes, which vote: train with multi_class='ovr'",
    ),
    "joint log-loss": (
        lambda X, t, two, three: LinearSVC(loss="log", multi_class="crammer_singer", max_iter=3).fit(X, three),
        "liblinear",
        "LIBLINEAR has no joint loss of 'log' for several classes: train with",
    ),
    "a function": (
        lambda X, t, two, three: SVC(kernel=lambda A, B: A @ B.T).fit(X, two),
        "libsvm",
        "SVC has a kernel that is a function, .*: use a kernel with a name",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_the_remedy_and_leaves_the_old_file(case, rng, tmp_path):
    make, format, said = REFUSED[case]
    (tmp_path / "model").write_text("old")
    with pytest.raises(ValueError, match=said):
        export(make(*data(rng)), tmp_path / "model", format)
    assert (tmp_path / "model").read_text() == "old"


def test_a_name_says_the_format_or_the_caller_does(rng, tmp_path):
    X, _, two, _ = data(rng)
    model = LinearSVC().fit(X, two)
    with pytest.raises(
        ValueError, match=r"'.*model\.txt' does not say which format: end it in \.npz, .*, or give format="
    ):
        export(model, tmp_path / "model.txt")
    with pytest.raises(ValueError, match="format must be one of 'npz', 'libsvm', 'liblinear', 'onnx', got 'pmml'"):
        export(model, tmp_path / "model.txt", "pmml")
    with pytest.raises(TypeError, match="export takes a fitted estimator of widemargin, got 3"):
        export(3, tmp_path / "model.npz")
    with pytest.raises(FileNotFoundError, match="nowhere is no folder; make it first"):
        export(model, tmp_path / "nowhere" / "model.liblinear")
    export(model, tmp_path / "MODEL.NPZ")
    export(model, tmp_path / "model.txt", "liblinear")
    for path in tmp_path.iterdir():
        np.testing.assert_array_equal(load(path, LinearSVC).coef_, model.coef_)
    with pytest.raises(ValueError, match=r"model\.txt holds no SVC but a LinearSVC: load it as what it is"):
        load(tmp_path / "model.txt", SVC)
    with pytest.raises(ValueError, match=r"model\.txt is not a whole widemargin file: .* read by widemargin\.load"):
        LinearSVC.load(tmp_path / "model.txt")


# ---------------------------------------------------------------- text that is none


def changed(name, old, new):
    text = (FOLDER / name).read_text()
    assert old in text
    return text.replace(old, new, 1)


THREE, LINEAR = "three.rbf.libsvm", "three.l1loss.liblinear"
MALFORMED = {
    "an unknown key": (changed(THREE, "gamma 0.5", "gama 0.5"), "line 3: the key 'gama' is none of svm_type, "),
    "a repeated key": (
        changed(THREE, "nr_class 3", "nr_class 3\nnr_class 3"),
        "line 5: the key 'nr_class' is there twice",
    ),
    "a key without a value": (changed(THREE, "gamma 0.5", "gamma"), "line 3: the key 'gamma' has no value"),
    "an empty line": (changed(THREE, "gamma 0.5", ""), "line 3: it is empty"),
    "no gamma": (
        changed(THREE, "gamma 0.5\n", ""),
        "line 8: the lines above it lack 'gamma', which the rbf kernel has",
    ),
    "no labels": (changed(THREE, "label", "probA"), "line 9: the lines above it lack 'label'"),
    "two gammas": (changed(THREE, "gamma 0.5", "gamma 0.5 1"), "line 9: 'gamma' must have one value, got 2"),
    "a gamma that is none": (changed(THREE, "gamma 0.5", "gamma big"), "line 9: gamma must be a number, got 'big'"),
    "a negative gamma": (changed(THREE, "gamma 0.5", "gamma -1"), "line 9: gamma must be ≥ 0, got -1.0"),
    "an infinite gamma": (changed(THREE, "gamma 0.5", "gamma inf"), "line 9: gamma must be a finite number, got 'inf'"),
    "another kernel": (
        changed(THREE, "type rbf", "type laplace"),
        "line 9: kernel_type is 'laplace', which is none of",
    ),
    "another machine": (changed(THREE, "c_svc", "one_class"), "line 9: svm_type is 'one_class', and only c_svc, "),
    "a number of classes": (
        changed(THREE, "nr_class 3", "nr_class 2000000"),
        "line 9: 'rho' must have 1999999000000 values",
    ),
    "labels twice": (changed(THREE, "label -2 5", "label 5 5"), "line 9: a label is there twice"),
    "a label that is none": (
        changed(THREE, "label -2", "label 1.5"),
        "line 9: a label must be a whole number, got '1.5'",
    ),
    "counts that differ": (changed(THREE, "total_sv 1", "total_sv 2"), "line 9: nr_sv are .* vectors together"),
    "fewer vectors": ((FOLDER / THREE).read_text().rsplit("\n", 3)[0], "line 21: the file ends with 12 vectors"),
    "no coefficients": (changed(THREE, "SV\n", "SV\n1:3\n"), "line 10: it must begin with 2 coefficients"),
    "an entry that is none": (changed(THREE, "SV\n", "SV\n0 0 1\n"), "line 10: '1' is no index:value"),
    "indices that fall": (changed(THREE, "SV\n", "SV\n0 0 2:1 1:1\n"), "line 10: the index 1 comes after 2"),
    "an index of zero": (changed(THREE, "SV\n", "SV\n0 0 0:1\n"), "line 10: an index must be from 1 to"),
    "a huge index": (
        changed(THREE, "SV\n", "SV\n0 0 9999999999:1\n"),
        "line 10: an index must be from 1 to 2147483647",
    ),
    "a value that is none": (changed(THREE, "SV\n", "SV\n0 0 1:x\n"), "line 10: a value must be a number, got 'x'"),
    "a value of NaN": (
        changed(THREE, "SV\n", "SV\n0 0 1:nan\n"),
        "line 10: a value must be a finite number, got 'nan'",
    ),
    "one vector more": (changed(THREE, "SV\n", "SV\n0 0 1:1\n"), "the file ends with .* vectors, and total_sv is"),
    "no end": ("svm_type c_svc\nkernel_type rbf\n", "line 2: the file ends before 'SV': it was cut off"),
    "bytes": ("svm_type c_svc\nkernel_type rbf\xe9\n", "line 2: it is no text, but has the byte 0xe9"),
    "no number of an example": (
        changed("three.precomputed.libsvm", "0:1 \n", "1:1\n"),
        "line 9: a vector of a pre.* must be 0:number",
    ),
    "another solver": (
        changed(LINEAR, "L2R_L1LOSS_SVC_DUAL", "ONECLASS_SVM"),
        "line 6: solver_type is 'ONECLASS_SVM', and only",
    ),
    "fewer weights": (changed(LINEAR, "w\n", "w\n1 2\n"), "line 7: it must have 3 weights, got 2"),
    "one line of weights more": (changed(LINEAR, "w\n", "w\n1 2 3\n"), "ends with 5 lines of weights, .* ask for 4"),
    "a bias that overflows": (
        changed(LINEAR, "bias 2", "bias 1e308").rsplit("\n", 2)[0] + "\n1e9 1 1\n",
        r"line 10: its weights times the bias of 1e\+308 overflow",
    ),
    "one class": (changed(LINEAR, "nr_class 3", "nr_class 1"), "line 6: nr_class must be at least 2"),
    "a number of features": (changed(LINEAR, "nr_feature 3", "nr_feature 2000000000"), "ask for 2000000001"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_wrong_with_a_text_is_said_with_its_line(case, tmp_path):
    text, said = MALFORMED[case]
    (tmp_path / "model.txt").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"model\.txt, line \d+: ") as refused:
        load(tmp_path / "model.txt")
    refused.match(said)


@given(
    name=st.sampled_from(TEXTS),
    edits=st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True),
            st.integers(0, 5),
            st.sampled_from(b"|| |\n|0|-|:|1e999|99999999999|\0|nan|2|SV\n|w\n".split(b"|")),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_a_changed_text_is_read_or_refused_by_name(name, edits, tmp_path_factory):
    path, content = tmp_path_factory.mktemp("text") / "changed.txt", (FOLDER / name).read_bytes()
    for place, cut, new in edits:
        at = int(place * len(content))
        content = content[:at] + new + content[at + cut :]
    path.write_bytes(content)
    said = "changed.txt was read: what changed means something"
    try:
        assert hasattr(widemargin.load(path), "predict")
    except ValueError as refused:
        said = str(refused)
    assert "changed.txt" in said


def test_features_that_a_text_does_not_name_are_given(tmp_path):
    text = (FOLDER / "two.rbf.libsvm").read_text()
    (tmp_path / "model.txt").write_text(text)
    new = np.hstack([EXPECTED["X"], np.zeros((12, 2))])
    model = load(tmp_path / "model.txt", n_features=5)
    np.testing.assert_array_equal(model.predict(new), EXPECTED["two.rbf.libsvm"])
    with pytest.raises(ValueError, match=r"model\.txt, line \d+: an index must be from 1 to 2, got '3'"):
        load(tmp_path / "model.txt", n_features=2)
