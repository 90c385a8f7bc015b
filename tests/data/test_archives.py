"""Archives of arrays are read a few rows at a time, and what is wrong with them is told."""

import io
import tempfile
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin.data import open_data, write_data


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

    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        file.write(data)
        file.flush()
        try:
            open_data(file.name, format="npz").load()
        except (ValueError, zipfile.BadZipFile) as told:
            assert file.name in str(told)  # noqa: PT017


def test_columns_beyond_int32_keep_their_numbers(tmp_path):
    X = sp.csr_matrix((np.ones(2), np.array([5, 3 * 10**9 - 1]), np.array([0, 1, 2])), (2, 3 * 10**9))
    write_data(tmp_path / "data.npz", X, [0, 1])
    assert open_data(tmp_path / "data.npz").load()[0].indices.tolist() == [5, 3 * 10**9 - 1]
