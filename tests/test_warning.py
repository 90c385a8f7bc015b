"""Warnings name the line of the user's program, however deep in the library they were raised."""

import re
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.event import trigger_event
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from widemargin import SVC, LinearSVC
from widemargin.core.compiling import machine_code

SOURCES = Path(widemargin.__file__).parent


def point_here(call, text):
    """All warnings of a call that have the text point at the line it stands in."""
    with pytest.warns(Warning, match=text) as said:
        call()
    places = {(each.filename, each.lineno) for each in said if re.search(text, str(each.message))}
    assert places == {(__file__, call.__code__.co_firstlineno)}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 3))
    return X, np.where(X[:, 0] + rng.normal(size=60) > 0.0, 1, -1)


@pytest.mark.parametrize("model", [LinearSVC(solver="pegasos", max_iter=2, tol=1e-9), SVC(max_iter=2, tol=1e-12)])
def test_a_fit_that_did_not_converge_points_at_its_call(data, model):
    point_here(lambda: model.fit(*data), "raise max_iter")


def test_so_it_does_through_a_pipeline_in_a_search(data):
    model = make_pipeline(StandardScaler(), LinearSVC(solver="pegasos", max_iter=2, tol=1e-9))
    search = GridSearchCV(model, {"linearsvc__C": [1.0]}, cv=2)
    point_here(lambda: search.fit(*data), "LinearSVC used all max_iter=2")


def test_so_do_warnings_on_the_data(data):
    point_here(lambda: SVC(gamma=1e-12).fit(*data), "all kernel values are 1 in float32")


def test_so_do_warnings_on_files(data, tmp_path, monkeypatch):
    model = LinearSVC(callbacks=print).fit(*data)
    point_here(lambda: model.save(tmp_path / "model.npz"), "saved without callbacks")

    def full(*args, **options):
        raise OSError("no room")

    monkeypatch.setattr("widemargin.checkpoints.dump", full)
    model = LinearSVC(checkpoint=tmp_path / "run", checkpoint_every=0, random_state=0)
    point_here(lambda: model.fit(*data), "could not be written")


def test_so_do_warnings_on_compilation(data, monkeypatch):
    def compiles(progress):
        with trigger_event("numba:compile", data={"dispatcher": None}):
            time.sleep(0.01)

    model = LinearSVC(solver="pegasos", tol=0, max_iter=10**9, max_seconds=1e-3, callbacks=compiles)
    point_here(lambda: model.fit(*data), "compiling took")
    monkeypatch.setattr(machine_code, "_can_be_written", lambda folder: False)
    point_here(lambda: machine_code.folders("no folder"), "finds no folder to keep machine code in")


def test_nothing_else_in_the_library_warns_users():
    for file in SOURCES.rglob("*.py"):
        if file.name != "warning.py":
            assert not re.search(r"warnings\.warn|stacklevel", file.read_text()), file
