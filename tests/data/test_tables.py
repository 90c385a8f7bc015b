"""Tables: columns become features as their types say, the target has a name, what is wrong is told with its row."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from streams import Once
from widemargin.data import open_data, write_data
from widemargin.data.tables import arrow

pa = pytest.importorskip("pyarrow")

CSV = "age,colour,wild,target\n30,red,true,cat\n41.5,blue,false,dog\n7,red,true,cat\n"


def csv(tmp_path, text=CSV, name="data.csv", **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_data(path, **options)


def parquet(tmp_path, columns, groups=10**6, **options):
    path = tmp_path / "data.parquet"
    arrow("parquet").write_table(pa.table(columns), path, row_group_size=groups)
    return open_data(path, **options)


def test_numbers_and_truth_values_are_features_and_text_is_one_for_each_value(tmp_path):
    opened = csv(tmp_path, categories="onehot")
    X, y = opened.load()
    assert opened.feature_names == ["age", "colour=blue", "colour=red", "wild"]
    assert X.tolist() == [[30, 0, 1, 1], [41.5, 1, 0, 0], [7, 0, 1, 1]]
    assert y.tolist() == ["cat", "dog", "cat"]
    assert opened.categories == {"colour": ["blue", "red"]}
    other = csv(tmp_path, "age,colour,wild,target\n1,blue,true,dog\n", categories=opened.categories)
    assert other.load()[0].tolist() == [[1, 1, 0, 1]]
    with pytest.raises(
        ValueError, match=r"row 1: the column 'colour' has the value 'green', which is none of those known"
    ):
        csv(tmp_path, "age,colour,wild,target\n1,green,true,dog\n", categories=opened.categories).load()


def test_columns_can_be_chosen_and_the_target_named(tmp_path):
    X, y = csv(tmp_path, columns=["age"], target="wild").load()
    assert (X.tolist(), y.tolist()) == ([[30], [41.5], [7]], [True, False, True])
    X, y = csv(tmp_path, columns=["wild", "age"], target=-1).load()
    assert X.tolist() == [[1, 30], [0, 41.5], [1, 7]]
    X, y = csv(tmp_path, columns=["age"], target="").load()
    assert y.tolist() == [0, 0, 0]
    X, y = csv(tmp_path, "1,2\n3,4\n", header=False, target=1).load()
    assert (X.tolist(), y.tolist()) == ([[1], [3]], [2, 4])
    X, y = csv(tmp_path, "a\ty\n1\t2\n", name="data.tsv").load()
    assert (X.tolist(), y.tolist()) == ([[1]], [2])


def test_many_values_of_text_make_sparse_rows(tmp_path):
    text = "word,size,y\n" + "".join(f"w{k},{k},{k % 2}\n" for k in range(50))
    X, _ = csv(tmp_path, text, categories="onehot").load()
    assert sp.issparse(X)
    order = sorted(f"w{k}" for k in range(50))
    expected = np.zeros((50, 51))
    for k in range(50):
        expected[k, order.index(f"w{k}")] = 1
        expected[k, 50] = k
    np.testing.assert_array_equal(X.toarray(), expected)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (CSV, {}, "the column 'colour' is text: give categories='onehot'"),
        (
            CSV,
            {"target": "x"},
            "has no column 'x' for the target: give target=, one of 'age', 'colour', 'wild', 'target'",
        ),
        (CSV, {"target": 9}, "has 4 columns, and target=9 is none of them"),
        (CSV, {"columns": ["x"]}, "has no column 'x'"),
        (CSV, {"columns": ["target"]}, "the target 'target' cannot be a feature too"),
        ("a,b\n1,2\n", {}, "which column is the target"),
        ("a,y\n1,2\n,3\n", {}, "row 2: the column 'a' has no value"),
        ("a,y\n1,2\n2,\n", {}, "row 2: the column 'y' has no value"),
        ("a,y\n1e400,2\n", {}, "row 1: the column 'a' has inf, which is no finite float64"),
        ("a,y\n1,2\n1,2,3\n", {}, "cannot be read as CSV"),
        ("a,a,y\n1,2,3\n", {}, "has the column 'a' twice"),
        ("y\n1\n", {}, "has no column beside the target 'y'"),
        ("when,y\n2020-01-01 10:00:00,1\n", {}, "the column 'when' has the type timestamp"),
        ("", {}, "holds no examples"),
    ],
)
def test_what_is_wrong_is_told(text, options, said, tmp_path):
    with pytest.raises(ValueError, match=r"data\.csv") as told:
        csv(tmp_path, text, **options).load()
    assert said in str(told.value)


def test_a_value_that_is_no_number_is_told(tmp_path):
    rows = ["a,y"] + ["1,2"] * 300_000 + ["x,2"]  # beyond what the types were taken from
    with pytest.raises(ValueError, match=r"data.csv cannot be read as CSV.*conversion error.*'x'"):
        csv(tmp_path, "\n".join(rows) + "\n").load()


def test_lines_with_too_many_values_are_skipped_and_counted(tmp_path):
    opened = csv(tmp_path, "a,y\n1,2\n1,2,3\n4,5\n", on_bad_line="skip")
    X, _ = opened.load()
    assert X.tolist() == [[1], [4]]
    assert opened.skipped == 1
    assert "has 3 columns, where the first has 2" in opened.faults[0]


def test_compressed_csv(tmp_path):
    X, _ = csv(tmp_path, gzip.compress(b"a,y\n1,2\n"), name="data.csv.gz").load()
    assert X.tolist() == [[1]]


def test_a_stream_of_csv_is_kept_on_disk():
    opened = open_data(Once(CSV.encode()), format="csv", categories="onehot")
    assert opened.load()[0].tolist() == [[30, 0, 1, 1], [41.5, 1, 0, 0], [7, 0, 1, 1]]
    assert opened.summary().n_rows == 3


def test_a_whole_number_first_and_another_later(tmp_path):
    text = "a,y\n" + "1,0\n" * 300_000 + "1.5,1\n"
    X, y = csv(tmp_path, text).load()
    assert (X[-1, 0], y.dtype.kind, X.shape) == (1.5, "i", (300_001, 1))


def test_types_of_parquet(tmp_path):
    columns = {
        "i": pa.array([1, 2], pa.int8()),
        "d": pa.array([1.5, 2.5]).cast(pa.decimal128(5, 2)),
        "b": pa.array([True, False]),
        "c": pa.array(["u", "v"]).dictionary_encode(),
        "label": pa.array(["p", "q"]).dictionary_encode(),
    }
    opened = parquet(tmp_path, columns, categories="onehot", dtype=np.float32)
    X, y = opened.load()
    assert X.dtype == np.float32
    assert X.tolist() == [[1, 1.5, 1, 1, 0], [2, 2.5, 0, 0, 1]]
    assert y.tolist() == ["p", "q"]
    with pytest.raises(ValueError, match=r"the column 'i' has the type list<"):
        parquet(tmp_path, {"i": pa.array([[1], [2]]), "y": pa.array([1, 2])}).load()


def test_chunks_and_groups_of_parquet_hold_each_row_once(tmp_path, rng):
    n = 5000
    opened = parquet(tmp_path, {"a": np.arange(n) * 1.0, "y": np.arange(n)}, groups=100, max_memory=20_000)
    assert len(opened._parts()) == 50
    assert np.concatenate([y for _, y in opened]).tolist() == list(range(n))
    order = np.concatenate([y for _, y in opened.shuffled(rng)])
    assert sorted(order) == list(range(n))
    assert order.tolist() != list(range(n))
    assert max(X.nbytes for X, _ in opened) <= 5000
    found = opened.summary()
    assert (found.n_rows, found.n_features) == (n, 1)


def test_a_damaged_parquet_file_is_told(tmp_path):
    parquet(tmp_path, {"a": [1.0], "y": [1]})
    path = tmp_path / "data.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"data.parquet is no whole Parquet file"):
        open_data(path).load()


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet"])
@pytest.mark.parametrize("labels", ["text", "numbers"])
def test_what_is_written_comes_back_exactly(suffix, labels, rng, tmp_path):
    X = rng.normal(size=(200, 3))
    y = np.array(["yes", "no"])[rng.integers(2, size=200)] if labels == "text" else rng.integers(5, size=200)
    path = tmp_path / f"data.{suffix}"
    write_data(path, sp.csr_matrix(X) if suffix == "csv" else X, y, names=["a", "b", "c"], target="what")
    opened = open_data(path, target="what")
    A, b = opened.load()
    np.testing.assert_array_equal(A, X)
    np.testing.assert_array_equal(b, y)
    assert opened.feature_names == ["a", "b", "c"]
    before = path.read_bytes()
    with pytest.raises(ValueError, match="feature_names must name 3 features, got 1"):
        write_data(path, X, y, names=["a"])
    with pytest.raises(ValueError, match="a feature has the name of the target"):
        write_data(path, X, y, names=["a", "b", "c"], target="c")
    assert path.read_bytes() == before


def test_pyarrow_missing_is_told(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"needs the package pyarrow: pip install 'widemargin\[files\]'"):
        open_data(tmp_path / "data.parquet").load()


def test_line_ends_within_quotes_beyond_a_block(tmp_path):
    rows = "".join(f'{k},"a\nb",1\n' for k in range(120_000))
    X, _ = csv(tmp_path, "n,text,y\n" + rows, columns=["n"]).load()
    assert X[:, 0].tolist() == list(range(120_000))


def test_targets_that_are_whole_at_first(tmp_path):
    text = "a,y\n" + "1,2\n" * 300_000 + "1,2.5\n"
    _, y = csv(tmp_path, text).load()
    assert (y[0], y[-1], y.size) == (2.0, 2.5, 300_001)


def test_few_rows_of_many_columns_are_read_at_a_time(tmp_path, monkeypatch):
    columns = {f"c{k}": np.arange(500.0) for k in range(300)}
    opened = parquet(tmp_path, {**columns, "y": np.arange(500)}, max_memory="1 MB")
    sizes = [piece.X.nbytes for piece, _ in opened._pieces(None)]
    assert max(sizes) <= 2**20 / 4
    np.testing.assert_array_equal(np.concatenate([y for _, y in opened]), np.arange(500))


def test_a_table_to_be_predicted_needs_no_target(tmp_path):
    opened = csv(tmp_path, "a,b\n1,2\n")
    opened.optional = True
    assert opened.load()[0].tolist() == [[1, 2]]


def test_blocks_of_little_memory_hold_the_same_rows(tmp_path, rng):
    lines = [f'{k},"{"x" * int(rng.integers(0, 200))}\n{k % 7}",{k % 2}' for k in range(2000)]
    text = "a,note,label\n" + "\n".join(lines) + "\n"
    opened = csv(tmp_path, text, columns=["a"], max_memory="64 kB")
    rows = [(x[0], label) for X, y in opened for x, label in zip(X, y)]
    assert rows == [(k, k % 2) for k in range(2000)]
    assert opened._block < len(text) / 8
    np.testing.assert_array_equal(csv(tmp_path, text, columns=["a"]).load()[0].ravel(), np.arange(2000))


def test_a_line_too_long_for_little_memory_is_told_with_the_remedy(tmp_path):
    text = "a,note,label\n" + "1,x,0\n" * 200_000 + f"2,{'x' * 100_000},1\n" + "3,x,0\n" * 10
    with pytest.raises(ValueError, match=r"data\.csv has a line that is too long for its blocks: raise max_memory="):
        list(csv(tmp_path, text, columns=["a"], max_memory="64 kB"))
    assert sum(y.size for _, y in csv(tmp_path, text, columns=["a"])) == 200_011
