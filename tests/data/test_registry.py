"""The papers' data sets: looked for in the folder first, else downloaded, checked and kept."""

import io

import pytest

from widemargin.data import open_data, registry
from widemargin.data.libsvm import LibsvmText

TEXT = "1 1:0.5 3:2\n-1 2:1\n"


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
