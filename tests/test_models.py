"""Models and their files: written at once, read without pickle, refused with a sentence."""

import json
import os
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import models
from widemargin.models import FORMAT, LinearModel, read_npz, write_npz


@pytest.fixture
def model(rng):
    return LinearModel(rng.normal(size=(3, 5)), rng.normal(size=3))


def test_scores_are_the_matrix_product_plus_the_intercept(model, rng):
    X = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.5)
    expected = X @ model.coef.T + model.intercept
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-13, atol=1e-13)
    for container in (sp.csr_matrix, sp.csr_array):
        scores = model.decision_function(container(X))
        assert type(scores) is np.ndarray
        np.testing.assert_allclose(scores, expected, rtol=1e-13, atol=1e-13)


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
    assert header == {"widemargin": FORMAT, "kind": "LinearModel", "classes": ["a", "b"]}
    assert set(arrays) == {"coef", "intercept"}


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

    monkeypatch.setattr(models.np, "savez", breaks)
    with pytest.raises(type(failure)):
        LinearModel(2 * model.coef, model.intercept).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


def test_a_saved_file_has_the_permissions_of_any_new_file(model, tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    model.save(tmp_path / "model.npz")
    assert (tmp_path / "model.npz").stat().st_mode == ordinary.stat().st_mode


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
    content[1500] ^= 0xFF  # a bit rotted inside an array: the checksum of the archive tells
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
    "a model without its arrays": _npz(header=np.array(json.dumps({"widemargin": FORMAT, "kind": "LinearModel"}))),
    "an array of pickled objects": _npz(
        header=np.array(json.dumps({"widemargin": FORMAT, "kind": "LinearModel"})),
        coef=np.array([_Bomb()], dtype=object),
        intercept=np.zeros(1),
    ),
}


@pytest.mark.parametrize("what", NO_MODELS)
def test_a_file_that_is_no_model_is_refused_by_name(what, tmp_path):
    path = tmp_path / "wrong.npz"
    NO_MODELS[what](path)
    with pytest.raises(ValueError, match=r"wrong\.npz"):
        LinearModel.load(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    write_npz(tmp_path / "state.npz", {"kind": "State"}, coef=np.ones((1, 1)), intercept=np.ones(1))
    with pytest.raises(ValueError, match=r"state\.npz holds a State, not a LinearModel"):
        LinearModel.load(tmp_path / "state.npz")


def test_a_file_of_a_newer_format_asks_for_an_upgrade(tmp_path):
    header = json.dumps({"widemargin": FORMAT + 1, "kind": "LinearModel"})
    _npz(header=np.array(header), coef=np.ones((1, 2)), intercept=np.zeros(1))(tmp_path / "new.npz")
    with pytest.raises(ValueError, match=rf"new\.npz has format {FORMAT + 1}.*upgrade"):
        LinearModel.load(tmp_path / "new.npz")


def test_a_missing_file_is_just_that(tmp_path):
    with pytest.raises(FileNotFoundError):
        LinearModel.load(tmp_path / "nowhere.npz")


def test_a_folder_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is no folder; make it first"):
        model.save(tmp_path / "nowhere" / "model.npz")
