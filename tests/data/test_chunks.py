"""Chunks keep to the memory that they are given, whatever the data looks like."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin.data import Generated, InMemory, open_data, write_data
from widemargin.data.chunks import memory


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


def test_too_little_memory_and_what_a_source_is_called():
    with pytest.raises(ValueError, match="max_memory must be at least 1024 bytes, got 10"):
        InMemory(np.eye(2), [0, 1], max_memory=10)
    assert repr(InMemory(np.eye(2), [0, 1])) == "InMemory('the data', max_memory=268435456)"


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
