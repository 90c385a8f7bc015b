"""Data is known by its bytes, its suffix or its name."""

import io
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from widemargin.data import open_data, write_data

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
