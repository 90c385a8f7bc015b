"""Files: what goes in comes out bit for bit, written at once, read without pickle, refused with a sentence."""

import errno
import importlib
import json
import os
import pickle
import struct
import sys
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fresh
import widemargin
from widemargin import Pegasos, files, schemas
from widemargin.core.kernels.kernels import RBF, BlackBox
from widemargin.core.losses.losses import BINARY, OneVsRest
from widemargin.core.rows.rows import as_rows
from widemargin.files import FORMAT, dump, load, read_npz, savable, write_npz
from widemargin.history import Counters, History
from widemargin.models import KernelModel, LinearModel, PairsModel
from widemargin.problems.objective import Certificate, Certificates
from widemargin.solvers.pegasos.pegasos import Bottou, PegasosState

for home in set(widemargin._HOMES.values()):
    importlib.import_module(f"widemargin.{home}")
files._register_tuples()


def same(one, other):
    """Whether two values are of the same classes and the same bits, all the way down."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif sp.issparse(one):
        same([one.shape, one.data, one.indices, one.indptr], [other.shape, other.data, other.indices, other.indptr])
    elif isinstance(one, (np.random.Generator, np.random.RandomState)):
        copies = pickle.loads(pickle.dumps((one, other)))
        np.testing.assert_array_equal(copies[0].normal(size=3), copies[1].normal(size=3))
    elif type(one) in (list, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif type(one) is dict:
        same(list(one.items()), list(other.items()))
    elif type(one) in files.SCHEMAS:
        take = files.SCHEMAS[type(one)].take
        same(take(one), take(other))
    else:
        np.testing.assert_equal(one, other)


def again(value, folder):
    dump(folder / "value.npz", value)
    return load(folder / "value.npz")


@pytest.fixture
def model(rng):
    return LinearModel(rng.normal(size=(3, 5)), rng.normal(size=3))


# ---------------------------------------------------------------- round trips

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | hnp.from_dtype(np.dtype(np.float32)) | hnp.from_dtype(np.dtype(np.int64)) | st.booleans().map(np.bool_)
)  # fmt: skip
ARRAYS = hnp.arrays(
    hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.floating_dtypes() | hnp.unicode_string_dtypes(min_len=1),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
GENERATORS = st.builds(
    lambda bits, seed: np.random.Generator(getattr(np.random, bits)(seed)),
    st.sampled_from(sorted(schemas.BITS)),
    st.integers(0, 99),
) | st.builds(np.random.RandomState, st.integers(0, 99))
COUNTS = st.integers(-(2**63), 2**63)
NATURAL = st.integers(0, 2**53)
TUPLES = (
    st.builds(RBF, st.floats()) | st.builds(Counters, NATURAL, NATURAL) | st.builds(Bottou, st.none() | st.floats())
)
VALUES = st.recursive(
    SCALARS | ARRAYS | GENERATORS | TUPLES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans() | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=50)
@given(value=VALUES)
def test_whatever_can_be_saved_comes_back_as_it_was(value, tmp_path_factory):
    same(again(value, tmp_path_factory.mktemp("values")), value)


def test_what_is_registered_is_what_files_may_hold():
    public = {"LinearSVC", "LinearSVR", "SVC", "SVR", "BudgetedSVC", "BudgetedSVR", "LinearModel", "KernelModel"}
    public |= {"PairsModel", "History", "Counters", "Certificate", "Certificates", "RBF", "Linear", "Hinge"}
    solvers = {"Pegasos", "SDCA", "Interior", "SMO", "StochasticBatchPerceptron", "BudgetedSGD"}
    assert public | solvers | {f"{solver}.State" for solver in solvers} <= files._KINDS.keys()


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_kernel_models_score_as_before(layout, rng, tmp_path):
    X, new = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    vectors, support = as_rows(layout(X)), np.arange(6)
    one = KernelModel(RBF(0.5), support, vectors, rng.normal(size=(2, 6)), rng.normal(size=2), 1.0)
    pairs = PairsModel(RBF(0.5), support, vectors, rng.normal(size=(2, 6)), rng.normal(size=3), np.array([2, 4, 6]))
    for model in (one, pairs):
        model.save(tmp_path / "model.npz")
        found = type(model).load(tmp_path / "model.npz")
        same(found, model)
        rows = as_rows(layout(new))
        np.testing.assert_array_equal(found.decision_function(rows), model.decision_function(rows))


def test_a_history_keeps_its_columns_their_order_and_what_is_missing(tmp_path):
    history = History()
    history.append(Counters(1), objective=0.5, problem=0)
    history.append(Counters(2), gap=np.float64(0.25), seconds=1)
    history.append(seconds=2.5)
    found = again(history, tmp_path)
    assert found == history
    assert found.columns == history.columns
    assert [type(value) for value in found.rows[0].values()] == [type(value) for value in history.rows[0].values()]
    assert again(History(), tmp_path) == History()


def test_certificates_keep_those_that_are_missing(tmp_path):
    found = again(Certificates(np.array([1.0, np.nan]), np.array([0.5, np.nan])), tmp_path)
    assert list(found) == [Certificate(1.0, 0.5, 0.5), None]


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_matrices_keep_class_and_types(container, rng, tmp_path):
    X = container(rng.normal(size=(4, 3)).astype(np.float32) * (rng.random((4, 3)) < 0.5))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    found = again({"X": X}, tmp_path)["X"]
    np.testing.assert_array_equal(found.toarray(), X.toarray())
    assert type(found) is container
    assert found.dtype == np.float32


def test_what_is_one_object_is_one_again(rng, tmp_path):
    array = rng.normal(size=1000)
    found = again([array, (rng, {"a": array}), rng], tmp_path)
    assert found[0] is found[1][1]["a"]
    assert found[2] is found[1][0]
    assert (tmp_path / "value.npz").stat().st_size < 2 * array.nbytes


def test_arrays_of_objects_hold_text_and_numbers(tmp_path):
    for array in (np.array(["b", "ä\0", "\ud800"], dtype=object), np.array([[1, 2.5], [True, "x"]], dtype=object)):
        same(again(array, tmp_path), array)
    with pytest.raises(TypeError, match=r"ndarray is an array of objects such as \[\]: only text and numbers"):
        dump(tmp_path / "odd.npz", np.array([None, [], 1], dtype=object)[1:])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1, len], r"list\[1\] is <built-in function len>, and a file holds no builtin_function_or_method"),
        (KernelModel(BlackBox(len), None, None, None, None), r"KernelModel\.kernel is BlackBox.* holds no BlackBox"),
        (KernelModel(RBF(1.0), None, None, None, None, 0.0, len), r"KernelModel\.prepare is <built-in function len>"),
        ({"a": {1}}, r"dict\['a'\] is \{1\}, and a file holds no set"),
        (sp.coo_matrix(np.eye(2)), "holds no coo_matrix"),
    ],
    ids=["function", "black box", "model of a run", "set", "coo"],
)
def test_what_cannot_be_saved_is_named_and_leaves_the_old_file(value, said, tmp_path):
    dump(tmp_path / "value.npz", 1)
    with pytest.raises(TypeError, match=said):
        dump(tmp_path / "value.npz", value)
    assert load(tmp_path / "value.npz") == 1


def test_a_class_is_known_by_the_name_it_was_registered_with(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_KINDS", dict(files._KINDS))

    class Moved:
        def __init__(self, x):
            self.x = x

        def _to_parts(self):
            return vars(self)

    with pytest.raises(TypeError, match="holds no Moved"):
        dump(tmp_path / "moved.npz", Moved(3))
    savable("tests.Place")(Moved)
    dump(tmp_path / "moved.npz", Moved(3))
    assert read_npz(tmp_path / "moved.npz")[0]["kind"] == "tests.Place"
    assert load(tmp_path / "moved.npz").x == 3
    with pytest.raises(ValueError, match=r"files know .*Moved.* as 'tests\.Place', so .* needs another name"):
        savable("tests.Place")(LinearModel)


FRESH = """
import sys
from widemargin.files import load
print(type(load(sys.argv[1])).__name__)
"""


def test_a_fresh_process_finds_the_classes_of_a_file(rng, tmp_path):
    target = OneVsRest(BINARY["hinge"](), np.ones(3))
    for value in (Pegasos(step=Bottou(0.1)), target):
        dump(tmp_path / "value.npz", value)
        done = fresh.run(FRESH, tmp_path / "value.npz")
        assert done.stdout.strip() == type(value).__name__, done.stderr


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_model_comes_back_bit_for_bit(dtype, rng, tmp_path):
    model = LinearModel(rng.normal(size=(2, 4)).astype(dtype), rng.normal(size=2))
    path = tmp_path / "model.npz"
    model.save(path, classes=["a", "b"])
    back = LinearModel.load(path)
    np.testing.assert_array_equal(back.coef, model.coef)
    np.testing.assert_array_equal(back.intercept, model.intercept)
    assert back.coef.dtype == dtype
    header, arrays = read_npz(path)
    assert (header["widemargin"], header["kind"], header["classes"]) == (FORMAT, "LinearModel", ["a", "b"])
    assert set(arrays) == {"content/coef", "content/intercept"}


def test_a_path_may_be_text_and_keeps_its_name(model, tmp_path):
    path = str(tmp_path / "no suffix")
    model.save(path)
    assert os.listdir(tmp_path) == ["no suffix"]
    np.testing.assert_array_equal(LinearModel.load(path).coef, model.coef)


def test_saving_again_replaces_the_file(model, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    LinearModel(2 * model.coef, model.intercept).save(path)
    np.testing.assert_array_equal(LinearModel.load(path).coef, 2 * model.coef)
    assert os.listdir(tmp_path) == ["model.npz"]


@pytest.mark.parametrize("failure", [OSError("No space left on device"), KeyboardInterrupt()], ids=["disk", "Ctrl-C"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(model, tmp_path, monkeypatch, failure):
    path = tmp_path / "model.npz"
    model.save(path)
    before = path.read_bytes()

    def breaks(file, **arrays):
        file.write(b"half a file")
        raise failure

    monkeypatch.setattr(files.np, "savez", breaks)
    with pytest.raises(type(failure)):
        LinearModel(2 * model.coef, model.intercept).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


def test_a_saved_file_has_the_permissions_of_any_new_file(model, tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    model.save(tmp_path / "model.npz")
    assert (tmp_path / "model.npz").stat().st_mode == ordinary.stat().st_mode


def test_a_folder_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is no folder; make it first"):
        model.save(tmp_path / "nowhere" / "model.npz")


# ---------------------------------------------------------------- files that are no models


class _Bomb:
    """Pickled, it would run code when read."""

    def __reduce__(self):
        return (pytest.fail, ("a file was unpickled",))


def _truncated(path):
    LinearModel(np.ones((1, 1000)), np.ones(1)).save(path)
    path.write_bytes(path.read_bytes()[:4000])


def _damaged(path):
    LinearModel(np.ones((1, 1000)), np.ones(1)).save(path)
    content = bytearray(path.read_bytes())
    content[-5000] ^= 0xFF  # a bit rotted inside an array: the checksum of the archive tells
    path.write_bytes(bytes(content))


def _npz(**arrays):
    def write(path):
        with path.open("wb") as file:
            np.savez(file, **arrays)

    return write


def _npy(path):
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def _pickle(path):
    path.write_bytes(pickle.dumps(_Bomb()))


def _header(**entries):
    """A header of format 2, which has no checksum."""
    return np.array(json.dumps({"widemargin": 2, "kind": "LinearModel", "random": {}, **entries}))


def _zip(write, compression=zipfile.ZIP_STORED, name="content/coef.npy"):
    """An archive with a whole model's header, and ``write`` for its weights."""

    def make(path):
        LinearModel(np.ones((1, 3)), np.ones(1)).save(path)
        with zipfile.ZipFile(path) as archive:
            entries = {entry: archive.read(entry) for entry in archive.namelist()}
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
            warnings.simplefilter("ignore")  # of names that are there twice
            for entry in entries:
                archive.writestr(entry, entries[entry] if entry != name else write(entries[entry]))
            if name not in entries:
                archive.writestr(name, write(b""))

    return make


def _array(shape, dtype="<f8", content=bytes(24)):
    """An entry with a header that says this of its content."""
    said = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return lambda old: b"\x93NUMPY\x01\x00" + struct.pack("<H", len(said) + 1) + said + b"\n" + content


def _claims(path):
    """Entries that all lie in the same bytes, each as large as the file."""
    LinearModel(np.ones((1, 1000)), np.ones(1)).save(path)
    content = path.read_bytes()
    start = content.index(b"PK\x01\x02")
    end = content.index(b"PK\x05\x06")
    entries, last = content[start:end], bytearray(content[end:])
    count = entries.count(b"PK\x01\x02")
    first = entries[: entries.index(b"PK\x01\x02", 4)]
    more = b"".join(first.replace(b"header.npy", b"%06d.npy" % k) for k in range(200))
    struct.pack_into("<HHII", last, 8, count + 200, count + 200, len(entries + more), start)
    path.write_bytes(content[:start] + entries + more + bytes(last))


def _nested(path):
    deep = "[" * 100000 + "]" * 100000
    _npz(header=np.array(json.dumps({"widemargin": 2, "random": {}, "content": 0})[:-2] + deep + "}"))(path)


def _signed(**entries):
    """A file of the present format with a right checksum."""
    header = {"kind": "LinearModel", "random": {}, **entries}
    return lambda path: write_npz(path, header, **{"content/coef": np.ones((1, 3))})


def _sparse(indices=(0, 1), indptr=(0, 2), n_features=2):
    parts = {"data": [1.0, 2.0], "indices": np.array(indices, np.int32), "indptr": np.array(indptr, np.int32)}
    arrays = {f"content/{name}": np.asarray(part) for name, part in parts.items()}
    tree = {name: {"array": f"content/{name}"} for name in parts}
    content = {"class": "CSRRows", "parts": {**tree, "n_features": n_features}}
    return lambda path: write_npz(path, {"kind": "CSRRows", "random": {}, "content": content}, **arrays)


def _tree(**parts):
    return {"class": "LinearModel", "parts": parts}


ARRAY = {"array": "content/coef"}
NO_MODELS = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("1 1:0.5 2:1.5\n"),
    "a pickle": _pickle,
    "an .npy array": _npy,
    "a truncated model": _truncated,
    "a damaged model": _damaged,
    "an .npz without a header": _npz(coef=np.ones((1, 2))),
    "a header that is not JSON": _npz(header=np.array("not json")),
    "a header that is not an object": _npz(header=np.array("[1, 2]")),
    "a header of another program": _npz(header=np.array('{"kind": "LinearModel"}')),
    "a header without content": _npz(header=_header()),
    "a model without its arrays": _npz(header=_header(content=_tree(coef=ARRAY, intercept=ARRAY))),
    "a model of version 0.1 without its arrays": _npz(header=_header(widemargin=1)),
    "a model without a part": _npz(header=_header(content=_tree(coef=1.0))),
    "a model with a part too many": _npz(header=_header(content=_tree(coef=1.0, intercept=1.0, slope=1.0))),
    "a tree with an unknown branch": _npz(header=_header(content={"_class__": "LinearModel"})),
    "an array of pickled objects": _npz(
        header=_header(content=_tree(coef=ARRAY, intercept=ARRAY)), **{"content/coef": np.array([_Bomb()], object)}
    ),
    "a header without its checksum": _npz(header=_header(widemargin=3)),
    "a header with another checksum": _npz(header=_header(widemargin=3, checksum="0" * 64)),
    "a compressed entry": _zip(_array((2**20,), content=bytes(2**23)), zipfile.ZIP_DEFLATED),
    "entries that claim more than there is": _claims,
    "thousands of entries": lambda path: _zip_of_many(path),
    "two entries of one name": lambda path: _zip_twice(path),
    "a shape far beyond its bytes": _zip(_array((2**40,))),
    "a shape that overflows": _zip(_array((2**62, 2**62))),
    "a negative shape": _zip(_array((-1, -3))),
    "too many dimensions": _zip(_array((1,) * 40 + (3,))),
    "a huge type": _zip(_array((0,), "<U900000000", b"")),
    "a structured type": _zip(_array((3,), [("a", "<f8")])),
    "a type that is none": _zip(_array((3,), "nonsense")),
    "an array of an unknown version": _zip(lambda old: old[:6] + b"\x09" + old[7:]),
    "a deeply nested header": _nested,
    "a scalar that is a bomb": _signed(content={"scalar": "V", "value": 10**14}),
    "a text of a huge shape": _signed(content={"objects": [], "shape": [10**9, 10**9]}),
    "an unknown source of random numbers": _signed(content={"random": "rng"}),
    "weights without an intercept that fits": _signed(content=_tree(coef=ARRAY, intercept=ARRAY)),
    "weights that are no array": _signed(content=_tree(coef=1.0, intercept=1.0)),
    "a history without end": _signed(
        content={"class": "History", "parts": {"length": 10**13, "columns": {"dict": []}}}
    ),
    "sparse rows with features that are not there": _sparse(indices=(0, 7)),
    "sparse rows with negative features": _sparse(indices=(0, -1)),
    "sparse rows that end elsewhere": _sparse(indptr=(0, 900)),
    "sparse rows that go back": _sparse(indptr=(0, 2, 1, 2)),
}


def _zip_of_many(path):
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(files.MOST_ARRAYS + 2):
            archive.writestr(f"{k}.npy", b"")


def _zip_twice(path):
    _zip(lambda old: old)(path)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("header.npy", archive.read("header.npy"))


@pytest.mark.parametrize("what", NO_MODELS)
def test_a_file_that_is_no_model_is_refused_by_name(what, tmp_path):
    path = tmp_path / "wrong.npz"
    NO_MODELS[what](path)
    for read in (LinearModel.load, load, widemargin.SVC.load):
        with pytest.raises(ValueError, match=r"wrong\.npz is not a whole widemargin file: ."):
            read(path)


@pytest.mark.parametrize("what", [_truncated, _damaged, _npz(coef=np.ones(3))])
def test_damage_is_said_in_words_of_ours(what, tmp_path):
    what(tmp_path / "wrong.npz")
    with pytest.raises(
        ValueError, match=r"it is damaged or cut off, copy or save it again \(.|it lacks the array 'header'"
    ):
        load(tmp_path / "wrong.npz")


def test_a_file_that_was_read_is_written_with_other_arrays_and_a_new_checksum(tmp_path):
    path = tmp_path / "model.npz"
    LinearModel(np.ones((1, 3)), np.ones(1)).save(path)
    header, arrays = read_npz(path)
    write_npz(path, header, **{**arrays, "content/coef": np.full((1, 3), 2.0)})
    assert (load(path).coef == 2.0).all()
    assert read_npz(path)[0]["checksum"] != header["checksum"]


@given(places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_file_with_changed_bytes_is_read_or_refused_by_name(places, tmp_path_factory):
    path = tmp_path_factory.mktemp("bytes") / "changed.npz"
    dump(path, {"model": LinearModel(np.ones((2, 3)), np.ones(2)), "rng": np.random.default_rng(0)})
    content = bytearray(path.read_bytes())
    for place, byte in places:
        content[int(place * len(content))] = byte
    path.write_bytes(bytes(content))
    said = "changed.npz was read: what changed means nothing"
    try:
        load(path)
    except ValueError as refused:
        said = str(refused)
    assert "changed.npz" in said


@given(changed=st.dictionaries(st.sampled_from(["coef", "intercept", "rows"]), VALUES, min_size=1))
def test_a_model_of_any_parts_with_a_right_checksum_is_whole_or_refused(changed, tmp_path_factory):
    path = tmp_path_factory.mktemp("parts") / "made.npz"
    dump(path, {"coef": np.ones((2, 3)), "intercept": np.ones(2), **changed})
    header, arrays = read_npz(path)
    (parts,) = header["content"].values()
    header["content"] = {"class": "LinearModel", "parts": {key: value for key, value in parts if key != "rows"}}
    del header["checksum"]
    write_npz(path, header, **arrays)
    said, model = "made.npz is not a whole widemargin file: nothing", None
    try:
        model = LinearModel.load(path)
    except ValueError as refused:
        said = str(refused)
    assert "made.npz is not a whole widemargin file: " in said
    if model is not None:
        assert model.decision_function(np.ones((4, model.coef.shape[1]))).shape == (4, model.coef.shape[0])


def test_what_is_too_much_for_a_file_is_refused_before_it_is_written(model, tmp_path):
    dump(tmp_path / "value.npz", 1)
    with pytest.raises(ValueError, match=r"value\.npz would have 0 arrays and .* keep numbers in arrays"):
        dump(tmp_path / "value.npz", "x" * (files.MOST_HEADER + 1))
    with pytest.raises(ValueError, match=rf"value\.npz would have {files.MOST_ARRAYS + 1} arrays and .* fewer of them"):
        dump(tmp_path / "value.npz", [np.ones(1) for _ in range(files.MOST_ARRAYS + 1)])
    assert load(tmp_path / "value.npz") == 1


FULL = """
import resource, signal, sys
import numpy as np
from widemargin.models import LinearModel
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    LinearModel(np.ones((1, 5000)), np.ones(1)).save(sys.argv[1])
except OSError as full:
    print(full.errno)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are of Unix")
def test_a_disk_that_is_full_while_saving_loses_no_earlier_file(model, tmp_path):
    model.save(tmp_path / "model.npz")
    done = fresh.run(FULL, tmp_path / "model.npz")
    assert done.stdout.strip() == str(errno.EFBIG), done.stderr
    same(LinearModel.load(tmp_path / "model.npz"), model)
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_a_header_is_read_alone(model, tmp_path):
    model.save(tmp_path / "model.npz", note="free words")
    header = files.read_header(tmp_path / "model.npz")
    assert (header["widemargin"], header["kind"], header["note"]) == (FORMAT, "LinearModel", "free words")


def test_a_file_of_another_kind_is_refused(tmp_path):
    dump(tmp_path / "state.npz", Counters())
    with pytest.raises(ValueError, match=r"state\.npz holds no LinearModel but a Counters: load it as what it is"):
        LinearModel.load(tmp_path / "state.npz")


def test_a_class_that_nobody_knows_is_named(tmp_path):
    write_npz(tmp_path / "new.npz", {"kind": "Oracle", "random": {}, "content": {"class": "Oracle", "parts": {}}})
    with pytest.raises(ValueError, match=r"new\.npz holds a Oracle, which this version does not know: upgrade it"):
        load(tmp_path / "new.npz")


#: Each name is looked for by a process that has imported nothing of ours but files.
NEW_PROCESSES = """
import os
from widemargin.files import _kind

for name in ("Consensus.State", "InteriorOnParts.State", "SBPOnParts.State", "Tracker.State"):
    child = os.fork()
    if child == 0:
        _kind(name)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_new_process_knows_the_states_of_all_solvers():
    done = fresh.run(NEW_PROCESSES)
    assert done.returncode == 0, done.stderr


def test_a_run_on_a_gpu_goes_on_where_there_is_one(tmp_path):
    name = "DeviceSMO.State of nowhere"  # a process that has used torch knows the real ones
    write_npz(tmp_path / "gpu.npz", {"kind": name, "random": {}, "content": {"class": name, "parts": {}}})
    with pytest.raises(ValueError, match=r"gpu\.npz holds a DeviceSMO.*, of a run on a GPU: go on where there is one"):
        load(tmp_path / "gpu.npz")


def test_a_state_of_version_01_asks_for_training_anew(tmp_path):
    write_npz(tmp_path / "old.npz", {"widemargin": 1, "kind": "State", "state": {}})
    with pytest.raises(ValueError, match=r"old\.npz holds a solver's state of version 0\.1, .*: train anew"):
        load(tmp_path / "old.npz")


def test_a_file_of_a_newer_format_asks_for_an_upgrade(tmp_path):
    _npz(header=_header(widemargin=FORMAT + 1, checksum="new"), coef=np.ones((1, 2)), intercept=np.zeros(1))(
        tmp_path / "new.npz"
    )
    with pytest.raises(ValueError, match=rf"new\.npz has format {FORMAT + 1}.*upgrade"):
        LinearModel.load(tmp_path / "new.npz")


def test_a_missing_file_is_just_that(tmp_path):
    with pytest.raises(FileNotFoundError):
        LinearModel.load(tmp_path / "nowhere.npz")


def test_the_states_of_solvers_have_names_that_do_not_depend_on_where_they_stand():
    assert files.SCHEMAS[PegasosState].name == "Pegasos.State"


def test_links_are_followed_and_pipes_written_to(model, tmp_path):
    real, link = tmp_path / "real.npz", tmp_path / "link.npz"
    link.symlink_to(real)
    model.save(link)
    assert link.is_symlink()
    assert real.is_file()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with files.replacing(pipe) as file:
            file.write(b"1 2 3")
        assert os.read(reader, 100) == b"1 2 3"
    finally:
        os.close(reader)
    assert not pipe.is_file()
