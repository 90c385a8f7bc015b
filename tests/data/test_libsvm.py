"""LIBSVM text: what is read is what stands there, whatever the way of reading; what is wrong is told with its line."""

import bz2
import gzip
import io
import lzma
import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from streams import Once
from widemargin.data import libsvm, open_data, write_data
from widemargin.data.libsvm import LibsvmText


def source(text, **options):
    return LibsvmText(io.BytesIO(text if isinstance(text, bytes) else text.encode()), **options)


def dense(text, **options):
    X, y = source(text, **options).load()
    return X.toarray().tolist(), y.tolist()


def slowly(text):
    """A reader of the same language, line by line: rows as dictionaries, labels, queries and the bad lines' numbers."""
    rows, labels, queries, bad = [], [], [], []
    for number, line in enumerate(text.split("\n"), 1):
        parts = line.partition("#")[0].replace("\r", " ").split()
        if not parts:
            continue
        try:
            label, qid = float(parts[0]), 0
            if "_" in parts[0] or not np.isfinite(label):
                raise ValueError
            if len(parts) > 1 and parts[1].startswith("qid:"):
                digits = parts.pop(1)[4:]
                if not digits.removeprefix("-").isdigit() or abs(int(digits)) >= 10**18:
                    raise ValueError
                qid = int(digits)
            row = {}
            for part in parts[1:]:
                index, colon, value = part.partition(":")
                if not colon or not index.isdigit() or not index.isascii() or "_" in value or value != value.strip():
                    raise ValueError
                if int(index) in row or int(index) > 2**31 - 2 or not np.isfinite(float(value)):
                    raise ValueError
                row[int(index)] = float(value)
        except ValueError:
            bad.append(number)
            continue
        rows.append(row), labels.append(label), queries.append(qid)
    return rows, labels, queries, bad


# ---------------------------------------------------------------- what stands there


def test_rows_labels_and_comments():
    text = "# a comment: with colons\n+1 1:0.5 3:2 # 4:4\n\n-1\t2:1e-3\r\n2.5   \n1 1:1"
    assert dense(text) == ([[0.5, 0, 2], [0, 1e-3, 0], [0, 0, 0], [1, 0, 0]], [1, -1, 2.5, 1])


def test_indices_begin_with_1_unless_one_is_0_or_it_is_said():
    assert dense("1 0:1 2:3")[0] == [[1, 0, 3]]
    assert dense("1 1:1 2:3")[0] == [[1, 3]]
    assert dense("1 1:1 2:3", zero_based=True)[0] == [[0, 1, 3]]
    with pytest.raises(ValueError, match=r"line 1 has the index 0 \('0:1'\).*zero_based=True"):
        dense("1 0:1", zero_based=False)


def test_entries_that_are_not_sorted_are_sorted():
    assert dense("1 3:3 1:1 2:2\n0 2:5")[0] == [[1, 2, 3], [0, 5, 0]]


@pytest.mark.parametrize("text", ["1\n-1\n", "1 \r\n-1", "# x\n1\n\n-1 # y\n"])
def test_labels_alone_are_rows_of_zeros(text):
    assert dense(text) == ([[0], [0]], [1, -1])
    assert dense(text, n_features=3)[0] == [[0, 0, 0], [0, 0, 0]]


def test_queries_come_where_they_are_asked_for():
    X, _, qid = source("1 qid:7 1:1\n0 qid:-3 1:2\n", query_id=True).load()
    assert (qid.tolist(), X.toarray().tolist()) == ([7, -3], [[1], [2]])
    assert len(source("1 qid:7 1:1\n").load()) == 2


def test_float32_is_the_rounded_float64(rng):
    values = rng.normal(size=500)
    text = "".join(f"1 1:{v!r}\n" for v in values.tolist())
    X, _ = source(text, dtype=np.float32).load()
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X.toarray()[:, 0], values.astype(np.float32))


@pytest.mark.parametrize("block", [4, 2**20])
def test_numbers_that_only_python_can_tell_apart_are_right(block):
    long = "1.00000000000000011102230246251565404236316680908203125"  # in the middle of two floats
    text = f"{long} 1:{long} 2:{long}1\n" * 600
    before = libsvm.BLOCK
    try:
        libsvm.BLOCK = block
        X, y = source(text).load()
    finally:
        libsvm.BLOCK = before
    assert set(y) == {float(long)}
    np.testing.assert_array_equal(X.toarray(), [[float(long), float(long + "1")]] * 600)


def test_a_line_that_python_reads_has_its_query_and_ends_at_its_comment():
    long = "1.00000000000000011102230246251565404236316680908203125"
    text = f"1 qid:2 1:1\n{long} qid:-7 2:{long}1 3:2 # 4:{long}\n-1 qid:5 1:3\n"
    for options in ({}, {"zero_based": False, "n_features": 3}):
        X, y, qid = source(text, query_id=True, **options).load()
        assert X.toarray().tolist() == [[1, 0, 0], [0, float(long + "1"), 2], [3, 0, 0]]
        assert (y.tolist(), qid.tolist()) == ([1, float(long), -1], [2, -7, 5])
    with pytest.raises(ValueError, match=r"line 1 has '1:3.40282356\S+', whose value is too large for float32"):
        dense("1 1:3.402823567797336616375393954e38", dtype=np.float32)


def test_a_million_columns_and_long_lines():
    columns = np.arange(4, 10**6 + 1, 4)
    text = "1 " + " ".join(f"{c}:1" for c in columns) + "\n0 5:2\n"
    assert len(text) > 2 * libsvm.BLOCK
    X, y = source(text).load()
    assert (X.shape, X.nnz, y.tolist()) == ((2, 10**6), columns.size + 1, [1, 0])
    reverse = "1 " + " ".join(f"{c}:{c}" for c in columns[::-1])
    X, _ = source(reverse).load()
    np.testing.assert_array_equal(X.data, columns)


def test_as_scikit_learn_reads_it(rng, tmp_path):
    X = sp.random(300, 50, density=0.2, format="csr", random_state=0)
    y = rng.integers(-2, 3, 300)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False, comment="made: here")
    A, b = load_svmlight_file(str(tmp_path / "data"), n_features=50)
    X2, y2 = open_data(tmp_path / "data", n_features=50).load()
    assert (A != X2).nnz == 0
    np.testing.assert_array_equal(b, y2)


@pytest.mark.parametrize("how", ["plain", "gz", "bz2", "xz", "zst"])
def test_compressed_text_is_known_by_its_bytes(how, tmp_path):
    text = b"".join(b"%d 1:%d\n" % (k % 2, k) for k in range(1000))
    if how == "zst":
        zstandard = pytest.importorskip("zstandard")
        packed = zstandard.compress(text[:500]) + zstandard.compress(text[500:])
    else:
        packed = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[how](text)
    path = tmp_path / "data.whatever"
    path.write_bytes(packed)
    X, _ = open_data(path).load()
    assert X.toarray()[:, 0].tolist() == list(range(1000))
    if how != "plain":
        path.write_bytes(packed[: len(packed) // 2])
        with pytest.raises(ValueError, match=f"data.whatever is damaged or cut off \\({how}\\)"):
            open_data(path).load()


def test_a_disk_that_fails_is_not_a_damaged_file(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(b"1 1:1\n"))

    def fails(self, *size):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(gzip.GzipFile, "read", fails)
    with pytest.raises(OSError, match="Input/output error"):
        open_data(path).load()


# ---------------------------------------------------------------- any way of reading is the same

PLAIN = st.lists(
    st.tuples(
        st.floats(-1e6, 1e6),
        st.dictionaries(st.integers(1, 40), st.floats(-1e30, 1e30, allow_subnormal=True), max_size=6),
        st.sampled_from(["\n", "\r\n", "\n\n", " # 1:2\n"]),
    ),
    min_size=1,
    max_size=60,
)


def text_of(rows):
    return "".join(f"{y!r} " + " ".join(f"{i}:{v!r}" for i, v in row.items()) + end for y, row, end in rows)


@given(PLAIN, st.integers(4, 200), st.integers(1, 3))
def test_blocks_threads_and_chunks_change_nothing(rows, block, n_jobs):
    text = text_of(rows)
    before = libsvm.BLOCK
    try:
        libsvm.BLOCK = block
        X, y = source(text, n_features=40, zero_based=False, n_jobs=n_jobs).load()
        chunks = list(source(text, n_features=40, zero_based=False, n_jobs=n_jobs, max_memory=2000))
    finally:
        libsvm.BLOCK = before
    expected = np.zeros((len(rows), 40))
    for r, (_, row, _) in enumerate(rows):
        for index, value in row.items():
            expected[r, index - 1] = value
    np.testing.assert_array_equal(X.toarray(), expected)
    np.testing.assert_array_equal(y, [label for label, _, _ in rows])
    np.testing.assert_array_equal(sp.vstack([A for A, _ in chunks]).toarray(), expected)
    np.testing.assert_array_equal(np.concatenate([b for _, b in chunks]), y)


def test_parts_of_a_file_hold_each_row_once_in_any_order(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK", 64)
    n = 2000
    path = tmp_path / "data"
    path.write_text("".join(f"{k} {k % 50 + 1}:1\n" for k in range(n)))
    opened = open_data(path, max_memory=40_000)
    assert len(opened._parts()) > 8
    assert [k for _, y in opened for k in y] == list(range(n))
    orders = [[int(k) for _, y in opened.shuffled(rng) for k in y] for _ in range(2)]
    for order in orders:
        assert sorted(order) == list(range(n))
    assert orders[0] != orders[1]
    chunks = [y for _, y in opened.shuffled(rng)]
    assert len(chunks) > 2
    # rows from all over the file are in a chunk together: it spans more than neighbours would
    assert max(np.ptp(y) for y in chunks) > n / 2
    for X, y in opened.shuffled(rng):
        np.testing.assert_array_equal(X.indices, y % 50)  # rows and labels stay together


def test_a_source_without_parts_is_shuffled_too(rng):
    text = "".join(f"{k} 1:{k}\n" for k in range(500))
    opened = source(text, max_memory=4000)
    order = [(int(k), X[i, 0]) for X, y in opened.shuffled(rng) for i, k in enumerate(y)]
    assert sorted(k for k, _ in order) == list(range(500))
    assert [k for k, _ in order] != list(range(500))
    assert all(k == v for k, v in order)


def test_chunks_are_within_their_memory(tmp_path):
    path = tmp_path / "data"
    path.write_text("".join(f"1 {k % 100 + 1}:1 {k % 100 + 101}:2\n" for k in range(20_000)))
    for bound in (20_000, 100_000):
        sizes = [X.data.nbytes + X.indices.nbytes + X.indptr.nbytes for X, _ in open_data(path, max_memory=bound)]
        assert max(sizes) <= bound / 4
        assert np.median(sizes) > bound / 16  # and not much smaller


def test_a_summary_says_what_is_there():
    found = source("1 1:1 5:2\n-1 2:1\nx\n1 1:1\n", on_bad_line="skip").summary()
    assert (found.n_rows, found.n_features, found.n_entries, found.skipped) == (3, 5, 4, 1)
    assert found.labels.tolist() == [-1, 1]
    many = source("".join(f"{k}.5 1:1\n" for k in range(10_001))).summary()
    assert many.labels is None


def test_a_stream_is_read_once():
    text = b"1 1:1\n0 2:1\n"
    X, _ = LibsvmText(Once(text)).load()
    assert X.shape == (2, 2)
    with pytest.raises(ValueError, match=r"can be read only once.*give n_features"):
        next(iter(LibsvmText(Once(text))))
    chunks = list(LibsvmText(Once(text), n_features=3))
    assert chunks[0][0].shape == (2, 3)
    with pytest.raises(ValueError, match="line 2 has the index 0"):
        list(LibsvmText(Once(b"1 1:1\n0 0:1\n"), n_features=3))


# ---------------------------------------------------------------- what is wrong


WRONG = {
    "x 1:1": "begins with 'x', which is no number: the label comes first",
    "1:2 3:4": "has the label '1:2', which is no finite number",
    "nan 1:1": "begins with 'nan'",
    "1e999 1:1": "has the label '1e999'",
    "1,2 1:1": "has several labels",
    "1 5": "has '5' where index:value should be",
    "1 a:1": "has 'a:1' where index:value should be",
    "1 :1": "has ':1', whose index is no integer",
    "1 -1:1": "has '-1:1' where index:value should be",
    "1 3000000000:1": "has '3000000000:1', whose index is beyond 2147483646",
    "1 99999999999999999999999:1": "whose index is beyond",
    "1 1:": "has '1:', whose value is no finite number",
    "1 1:x": "has '1:x', whose value is no finite number",
    "1 1:nan": "has '1:nan', whose value is no finite number",
    "1 1:1e400": "has '1:1e400', whose value is too large for float64",
    "1 1:1:1": "has '1:1:1', whose value is no finite number",
    "1 1:1 1:2": "has a feature twice",
    "1 2:1 1:1 2:2": "has a feature twice",
    "1 qid:x 1:1": "has 'qid:x', which is no qid:number",
    "1 1:1 qid:2": "has 'qid:2' where index:value should be",
    "\x00\x01": "begins with",
}


@pytest.mark.parametrize("line", list(WRONG))
def test_a_bad_line_is_told_with_its_number_or_skipped(line):
    text = f"1 1:1\n# comment\n{line}\n0 2:2\n"
    with pytest.raises(ValueError, match="the data, line 3 ") as told:
        dense(text)
    assert WRONG[line] in str(told.value)
    skipping = source(text, on_bad_line="skip")
    X, y = skipping.load()
    assert (X.toarray().tolist(), y.tolist()) == ([[1, 0], [0, 2]], [1, 0])
    assert skipping.skipped == 1
    assert skipping.faults[0].startswith("line 3 ")


def test_an_index_beyond_n_features_is_told():
    with pytest.raises(ValueError, match=r"line 1 has '4:1', whose index is beyond n_features=3"):
        dense("1 4:1\n", n_features=3)
    with pytest.raises(ValueError, match="has the index 3, with indices from 0 on, beyond n_features=3"):
        dense("1 0:1 3:1\n", n_features=3)


def test_too_large_for_float32():
    assert dense("1 1:1e39")[0] == [[1e39]]
    with pytest.raises(ValueError, match="too large for float32"):
        dense("1 1:1e39", dtype=np.float32)


def test_many_bad_lines_in_many_blocks_are_all_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK", 256)
    path = tmp_path / "data"
    path.write_text("".join("1 1:1\n" if k % 3 else "bad\n" for k in range(3000)))
    for options in ({}, {"n_jobs": 2}, {"max_memory": 40_000}):
        opened = open_data(path, on_bad_line="skip", **options)
        _, y = opened.load()
        assert (y.size, opened.skipped) == (2000, 1000)
    path.write_text("".join("1 1:1\n" if k != 2500 else "bad\n" for k in range(3000)))
    with pytest.raises(ValueError, match="line 2501 begins with 'bad'"):
        open_data(path, max_memory=40_000).load()


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_no_examples_are_told(text, tmp_path):
    path = tmp_path / "empty"
    path.write_text(text)
    with pytest.raises(ValueError, match="empty holds no examples"):
        open_data(path).load()
    assert list(open_data(path)) == []


ALPHABET = st.text(
    st.sampled_from(list("0123456789:.,+-eE #\n\r\tqidnaxf\x00é")), max_size=200
) | st.lists(
    st.sampled_from(
        ["1", "-1", "0.5", "1:1", "2:0.5", "3:1e400", "2:", ":", "qid:3", "#", "\n", "\r\n", " ", "1,2", "nan", "7:7"]
    ),
    max_size=80,
).map(" ".join)  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(ALPHABET, st.integers(4, 64))
def test_any_text_is_read_as_a_plain_reader_reads_it(text, block):
    rows, labels, queries, bad = slowly(text)
    before = libsvm.BLOCK
    try:
        libsvm.BLOCK = block
        opened = source(text, on_bad_line="skip", zero_based=True, query_id=True)
        try:
            X, y, qid = opened.load()
        except ValueError as told:
            assert "holds no examples" in str(told)  # noqa: PT017
            assert not rows
            X, y, qid = sp.csr_matrix((0, 1)), np.empty(0), np.empty(0)
    finally:
        libsvm.BLOCK = before
    assert [int(line.split()[1]) for line in opened.faults] == bad
    assert y.tolist() == labels
    assert qid.tolist() == queries
    got = [dict(zip(X[r].indices.tolist(), X[r].data.tolist())) for r in range(X.shape[0])]
    assert got == rows


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    opened = source(data, on_bad_line="skip")
    try:
        opened.load()
    except ValueError as told:
        assert "the data" in str(told)  # noqa: PT017


# ---------------------------------------------------------------- writing


@given(
    rows=st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4), min_size=1, max_size=20
    ),
    zero_based=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_what_is_written_comes_back_exactly(rows, zero_based, dtype, tmp_path_factory):
    with np.errstate(over="ignore"):
        X = np.array(rows).astype(dtype)
    X[~np.isfinite(X)] = 0.0
    y = X[:, 0].astype(np.float64)
    path = tmp_path_factory.mktemp("written") / "data.svm.gz"
    write_data(path, X, y, zero_based=zero_based)
    A, b = open_data(path, n_features=4, zero_based=zero_based, dtype=dtype).load()
    np.testing.assert_array_equal(A.toarray(), X)
    np.testing.assert_array_equal(b, y)


def test_integers_queries_and_chunks_are_written_plainly(tmp_path):
    path = tmp_path / "data"
    chunks = [(np.eye(2), np.array([1, -1]), np.array([3, -4])), (sp.csr_matrix([[0.0, 0.25]]), [1.5], [5])]
    write_data(path, iter(chunks))
    assert path.read_text() == "1 qid:3 1:1\n-1 qid:-4 2:1\n1.5 qid:5 2:0.25\n"


def test_rows_without_entries_are_written_as_their_labels(tmp_path):
    X = sp.csr_matrix(([0.5, -2.0], ([1, 3], [2, 0])), (5, 3))
    write_data(tmp_path / "data", X[1:], [0.5, 2, -1, 3])
    assert (tmp_path / "data").read_text() == "0.5 3:0.5\n2\n-1 1:-2\n3\n"
    write_data(tmp_path / "data", sp.csr_matrix((2, 3)), [1, 1])
    assert (tmp_path / "data").read_text() == "1\n1\n"


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "data"
    write_data(path, np.eye(2), [0, 1])
    before = path.read_bytes()
    for X, y, said in [
        ([[np.nan]], [1], "X must be finite"),
        ([[1.0]], [np.inf], "y must be finite"),
        ([[1.0]], ["a"], "number the labels"),
        ([[1.0]], [1, 2], "y must hold a number for each of 1 rows"),
    ]:
        with pytest.raises(ValueError, match=said):
            write_data(path, np.array(X), np.array(y))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["data"]
    with pytest.raises(FileNotFoundError, match="make it first"):
        write_data(tmp_path / "no" / "data", np.eye(2), [0, 1])


def test_truth_values_repeated_entries_and_large_indices(tmp_path):
    path = tmp_path / "data"
    twice = sp.csr_matrix((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), (1, 3))
    write_data(path, twice, np.array([True]))
    assert path.read_text() == "1 2:3\n"
    assert twice.nnz == 2
    wide = sp.csr_matrix((np.ones(1), np.array([2**31 - 1]), np.array([0, 1])), (1, 2**31))
    with pytest.raises(ValueError, match="X has the index 2147483648, and LIBSVM text has them up to 2147483646"):
        write_data(path, wide, [1])


# ---------------------------------------------------------------- what happens meanwhile


def test_a_file_that_has_grown_since_it_was_looked_through_is_told(tmp_path):
    path = tmp_path / "data"
    path.write_text("1 1:1 3:1\n" * 10)
    opened = open_data(path)
    assert opened.summary().n_features == 3
    with open(path, "a") as file:
        file.write("1 900000000:1\n")
    with pytest.raises(ValueError, match=r"line 11 has '900000000:1', whose index is beyond n_features=3"):
        list(opened)


def test_lines_are_counted_anew_in_each_pass(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK", 64)
    path = tmp_path / "data"
    path.write_text("".join("bad\n" if k % 5 == 0 else "1 1:1\n" for k in range(2000)))
    opened = open_data(path, on_bad_line="skip", max_memory=20_000)
    assert len(opened._parts()) > 4
    counted = []
    monkeypatch.setattr(
        opened, "_lines_before", lambda part, real=opened._lines_before: counted.append(part) or real(part)
    )
    for _ in range(3):
        rows = sum(y.size for _, y in opened.shuffled(rng))
        assert (rows, opened.skipped, len(opened.faults)) == (1600, 400, libsvm.NOTED)
    assert len(counted) <= 3 * len(opened._parts())  # once for each part, whatever stands in it
    numbers = [int(fault.split()[1]) for fault in opened.faults]
    assert all(number % 5 == 1 for number in numbers)


def test_rows_larger_than_a_chunk_are_shuffled_without_empty_chunks(rng):
    text = "".join(f"{k} " + " ".join(f"{c}:1" for c in range(1, 400)) + "\n" for k in range(7))
    chunks = [y for _, y in source(text, max_memory=4096).shuffled(rng)]
    assert all(y.size for y in chunks)
    assert sorted(np.concatenate(chunks)) == list(range(7))


def test_a_byte_order_mark_and_a_file_open_as_text(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"\xef\xbb\xbf1 1:1\n")
    assert open_data(path).load()[1].tolist() == [1]
    with open(path, encoding="utf-8-sig") as file:
        assert open_data(file).load()[1].tolist() == [1]
    with pytest.raises(TypeError, match="is open as text"):
        open_data(io.StringIO("1 1:1")).load()
