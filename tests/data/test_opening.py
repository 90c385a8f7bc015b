"""Data by its bytes, its suffix or its name; archives; the registry."""

import io
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from widemargin.data import Generated, InMemory, open_data, registry, write_data
from widemargin.data.chunks import memory
from widemargin.data.libsvm import LibsvmText

TEXT = "1 1:0.5 3:2\n-1 2:1\n"


def test_a_file_is_known_by_its_bytes(tmp_path):
    X, y = np.eye(3), np.arange(3)
    write_data(tmp_path / "a.npz", X, y)
    (tmp_path / "b").write_bytes((tmp_path / "a.npz").read_bytes())
    np.testing.assert_array_equal(open_data(tmp_path / "b").load()[0], X)
    (tmp_path / "c.txt").write_text(TEXT)
    assert open_data(tmp_path / "c.txt").load()[0].shape == (2, 3)
    (tmp_path / "d.csv").write_text(TEXT)
    assert open_data(tmp_path / "d.csv", format="libsvm").load()[0].shape == (2, 3)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert open_data("-").load()[0].shape == (2, 3)


def test_what_is_not_there_or_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file 'nothing', and no data set of that name.*a9a"):
        open_data("nothing")
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        open_data(tmp_path)
    (tmp_path / "c").write_text(TEXT)
    with pytest.raises(TypeError, match=r"target is for csv and parquet and npz, and .* is read as libsvm"):
        open_data(tmp_path / "c", target="y")
    with pytest.raises(TypeError, match="colour is no option of open_data"):
        open_data(tmp_path / "c", colour=1)
    with pytest.raises(ValueError, match="format must be one of 'auto'"):
        open_data(tmp_path / "c", format="arff")
    with pytest.raises(ValueError, match="on_bad_line must be one of 'raise', 'skip'"):
        open_data(tmp_path / "c", on_bad_line="ignore")
    opened = open_data(tmp_path / "c")
    assert open_data(opened) is opened


def test_lines_are_skipped_of_formats_that_have_lines_only(tmp_path):
    for name in ("data.parquet", "data.npz"):
        write_data(tmp_path / name, np.eye(2), [0, 1])
        with pytest.raises(TypeError, match=r"on_bad_line is for libsvm and csv, and .* is read as \w+: leave it out"):
            open_data(tmp_path / name, on_bad_line="skip")
    write_data(tmp_path / "data.csv", np.eye(2), [0, 1])
    assert open_data(tmp_path / "data.csv", on_bad_line="skip").load()[0].shape == (2, 2)
    with pytest.raises(ValueError, match="on_bad_line must be one of 'raise', 'skip', got 'drop'"):
        open_data(tmp_path / "data.csv", on_bad_line="drop")


def test_a_set_of_scikit_learn():
    X, y = open_data("sklearn:digits").load()
    A, b = load_digits(return_X_y=True)
    np.testing.assert_array_equal(X, A)
    np.testing.assert_array_equal(y, b)
    with pytest.raises(ValueError, match=r"scikit-learn has no data set 'nothing'; it has .*digits"):
        open_data("sklearn:nothing")
    with pytest.raises(ValueError, match="no table of rows and targets"):
        open_data("sklearn:sample_images")


def test_amounts_of_memory():
    assert [memory("m", v) for v in (1000, "1000", "1 kB", "2MB", "1.5 GiB", "1t")] == [
        1000, 1000, 1024, 2**21, 3 * 2**29, 2**40,
    ]  # fmt: skip
    for bad in ("much", "-1", "1 XB", 0, None):
        with pytest.raises((ValueError, TypeError), match="m must be"):
            memory("m", bad)


def test_generated_data_and_arrays_are_sources_too(rng):
    made = Generated(lambda k: (np.full((3, 2), k), np.full(3, k)), 4)
    assert made.load()[1].tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    X, y = rng.normal(size=(500, 3)), rng.integers(2, size=500)
    held = InMemory(X, y, max_memory=4000)
    np.testing.assert_array_equal(np.concatenate([A for A, _ in held]), X)
    assert len(list(held)) > 1
    order = np.concatenate([A for A, _ in held.shuffled(rng)])
    np.testing.assert_array_equal(np.sort(order, axis=0), np.sort(X, axis=0))


# ---------------------------------------------------------------- archives


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_archives_come_back_in_chunks_and_whole(kind, packed, rng, tmp_path):
    X = rng.normal(size=(300, 4)).astype(np.float32)
    X[X < 0] = 0
    y, path = rng.integers(3, size=300), tmp_path / "data.npz"
    rows = X if kind == "dense" else sp.csr_matrix(X)
    write_data(path, rows, y)
    if packed:
        with np.load(path) as held:
            np.savez_compressed(path, **held)
    A, b = open_data(path).load()
    assert A.dtype == np.float32
    np.testing.assert_array_equal(A if kind == "dense" else A.toarray(), X)
    np.testing.assert_array_equal(b, y)
    chunks = [A for A, _ in open_data(path, max_memory=4000)]
    assert len(chunks) > 2
    np.testing.assert_array_equal(np.concatenate([A if kind == "dense" else A.toarray() for A in chunks]), X)
    assert open_data(path, dtype=np.float64).load()[0].dtype == np.float64


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": np.eye(2)}, "has no 'y' for the target: give target=, one of 'X'"),
        ({"y": np.zeros(2)}, "neither X nor data"),
        ({"X": np.eye(2), "y": np.zeros(3)}, r"X has the shape \(2, 2\) and y 3 entries"),
        ({"X": np.eye(2), "y": np.zeros((2, 2))}, "y has 2 dimensions"),
        ({"X": np.asfortranarray(np.ones((3, 2))), "y": np.zeros(3)}, "Fortran"),
        ({"X": np.array([[None]]), "y": np.zeros(1)}, "Python objects"),
        ({"header": np.zeros(1), "y": np.zeros(1)}, "holds a model, not data"),
        (
            {
                "data": np.ones(1),
                "indices": np.array([7]),
                "indptr": np.array([0, 1]),
                "shape": [1, 3],
                "y": np.zeros(1),
            },
            "an index is not below 3",
        ),
        (
            {"data": np.ones(1), "indices": np.array([0]), "indptr": np.array([0, 1, 0]), "shape": [2, 3], "y": [0, 1]},
            "indptr falls",
        ),
        (
            {
                "data": np.ones(1),
                "indices": np.array([0]),
                "indptr": np.array([0, 1]),
                "shape": [1, 1],
                "y": [0],
                "format": b"csc",
            },
            r"its matrix has the format 'csc': save X.tocsr\(\)",
        ),
    ],
)
def test_an_archive_of_something_else_is_told(arrays, said, tmp_path):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=rf"data.npz is no whole archive of data: .*{said}"):
        open_data(tmp_path / "data.npz").load()


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_changed_byte_of_an_archive_is_read_or_told(place, value):
    held = io.BytesIO()
    np.savez(held, X=np.eye(4), y=np.arange(4))
    data = bytearray(held.getvalue())
    data[place % len(data)] = value
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(data)
        file.flush()
        try:
            open_data(file.name, format="npz").load()
        except (ValueError, zipfile.BadZipFile) as told:
            assert file.name in str(told)  # noqa: PT017


# ---------------------------------------------------------------- the registry


def test_a_named_set_is_looked_for_in_the_folder_first(monkeypatch, tmp_path, data_folder):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(data_folder))
    X, _ = open_data("a9a").load()
    assert X.shape == (32561, 123)
    assert registry.sum_of(registry.find("a9a"), 123) == registry.DATASETS["a9a"].sum


class Answer(io.BytesIO):
    """What a server sends."""


def test_downloads_are_checked_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("WIDEMARGIN_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sent = TEXT.encode()
    (tmp_path / "x").write_bytes(sent)
    right = registry.Dataset("binary/tiny", 3, 2, registry.sum_of(tmp_path / "x", 3))
    asked = []

    def opened(url, timeout):
        asked.append(url)
        return Answer(sent)

    monkeypatch.setitem(registry.DATASETS, "tiny", right)
    path = registry._download("tiny", opened)
    assert asked == [f"{registry.PLACE}/binary/tiny"]
    assert path == registry.find("tiny")
    assert open_data("tiny").load()[0].shape == (2, 3)
    path.unlink()
    for wrong, said in [(right._replace(n_rows=3), "has 2 rows, not 3"), (right._replace(sum="0"), "another sum")]:
        monkeypatch.setitem(registry.DATASETS, "tiny", wrong)
        with pytest.raises(ValueError, match=said):
            registry._download("tiny", opened)
        assert registry.local("tiny") is None
    monkeypatch.setitem(registry.DATASETS, "tiny", right)

    def unreachable(url, timeout):
        raise OSError("no route")

    with pytest.raises(OSError, match=r"'tiny' is not in \$WIDEMARGIN_DATA, and .* cannot be read \(no route\)"):
        registry._download("tiny", unreachable)


def test_the_sum_does_not_depend_on_how_numbers_are_written(tmp_path):
    (tmp_path / "a").write_text("1 1:0.5\n-1 2:1 3:2\n")
    (tmp_path / "b").write_text("# c\n+1 1:5e-1\r\n-1.0 3:2 2:1.0\n")
    (tmp_path / "c").write_text("1 1:0.5\n-1 2:1 3:2.5\n")
    sums = [registry.sum_of(tmp_path / name, 3) for name in "abc"]
    assert sums[0] == sums[1] != sums[2]
    assert isinstance(open_data(tmp_path / "a"), LibsvmText)


def test_columns_beyond_int32_keep_their_numbers(tmp_path):
    X = sp.csr_matrix((np.ones(2), np.array([5, 3 * 10**9 - 1]), np.array([0, 1, 2])), (2, 3 * 10**9))
    write_data(tmp_path / "data.npz", X, [0, 1])
    assert open_data(tmp_path / "data.npz").load()[0].indices.tolist() == [5, 3 * 10**9 - 1]


def test_too_little_memory_and_what_a_source_is_called():
    with pytest.raises(ValueError, match="max_memory must be at least 1024 bytes, got 10"):
        InMemory(np.eye(2), [0, 1], max_memory=10)
    assert repr(InMemory(np.eye(2), [0, 1])) == "InMemory('the data', max_memory=268435456)"


# ---------------------------------------------------------------- memory

LIMIT = 2**20


def narrow(kind, d, folder, rng):
    """Data with few features, of which targets, ends of rows and places take more than the values."""
    n = 80_000 // d
    X, y = rng.normal(size=(n, d)), np.arange(n) % 2
    if kind == "generated":
        return Generated(lambda k: (X[k::20].copy(), y[k::20].copy()), 20, max_memory=LIMIT)
    if kind in ("array", "text"):
        return InMemory(X, y if kind == "array" else np.array(["no", "yes, and long"])[y], max_memory=LIMIT)
    if kind == "sparse":
        return InMemory(sp.csr_matrix(X), y, max_memory=LIMIT)
    path = folder / f"data.{kind}"
    write_data(path, X.round(3), y)
    if kind == "npz":
        np.savez_compressed(path, X=X, y=y)
    return open_data(path, max_memory=LIMIT, **({"n_jobs": 2} if kind == "svm" else {}))


def peak(chunks):
    """(bytes that Python held at a time, beyond those before; chunks)."""
    tracemalloc.start()
    try:
        count, rows = 0, 0
        for X, y in chunks:
            assert X.shape[0] == y.size
            count, rows = count + 1, rows + y.size
        return tracemalloc.get_traced_memory()[1], count
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("kind", ["generated", "array", "text", "sparse", "svm", "svm.gz", "csv", "parquet", "npz"])
def test_narrow_data_keeps_to_its_memory(kind, d, tmp_path, rng):
    source = narrow(kind, d, tmp_path, rng)
    source.summary()
    next(iter(source))  # what is imported and compiled at first is no memory of reading
    for chunks in (iter(source), source.shuffled(rng)):
        taken, count = peak(chunks)
        assert taken <= LIMIT
        assert count >= 2


def test_long_labels_count(tmp_path, rng):
    n = 10_000
    labels = np.array(["a", "b" * 60])[np.arange(n) % 2]
    np.savez(tmp_path / "data.npz", X=rng.normal(size=(n, 1)), y=labels)
    source = open_data(tmp_path / "data.npz", max_memory=LIMIT)
    next(iter(source))
    assert max(peak(chunks)[0] for chunks in (iter(source), source.shuffled(rng))) <= LIMIT
    # those that become longer on the way, too
    made = [(np.zeros((100, 1)), np.array([label] * 100)) for label in ("a", "b" * 60)]
    parts = Generated(lambda k: made[k % 2], 10, max_memory=40_000)
    assert max(X.nbytes + y.nbytes for X, y in parts) <= 10_000
    assert sum(y.size for _, y in parts) == 1000


def test_chunks_are_as_large_as_all_of_a_row_allows(rng):
    long = np.array(["a", "a label with as many as 30 letters"])
    X, y = rng.normal(size=(1000, 1)), long[(np.arange(1000) > 500).astype(int)]
    for source in (InMemory(X, y, max_memory=40_000), InMemory(sp.csr_matrix(X), np.arange(1000), max_memory=40_000)):
        held = [A.nbytes + b.nbytes if isinstance(A, np.ndarray) else 28 * b.size for A, b in source]
        assert max(held) <= 10_000
        assert sorted(held)[1] > 9_000  # but for the last one
        assert sum(b.size for _, b in source) == 1000
