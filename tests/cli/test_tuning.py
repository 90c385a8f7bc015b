"""``widemargin tune``: the best of the last rung, trained on all rows and saved; what is wrong is one sentence."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")

import fresh
import widemargin
from widemargin.cli import main
from widemargin.data import write_data
from widemargin.estimators import halving


@pytest.fixture
def folder(rng, tmp_path, monkeypatch):
    """(X, y) of 500 rows, in data.npz of the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    X = rng.normal(size=(500, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=500) > 0.5, 1, -1)
    write_data("data.npz", X, y)
    return X, y


def tuned(capsys, *arguments, code=0):
    assert main(["tune", "data.npz", "--quiet", "--min-rows", "100", "--json", *arguments]) == code
    return json.loads(capsys.readouterr().out)


def lowest(rung):
    return min(rung["tried"], key=lambda each: (each["error"], each["C"], each["gamma"] or 0.0))


def test_the_best_of_the_last_rung_is_trained_on_all_rows_and_saved(folder, capsys):
    found = tuned(capsys, "--Cs", "0.001,0.01,0.1,1,10", "-o", "best.npz")
    assert [rung["rows"] for rung in found["rungs"]] == [134, 400]
    assert len(found["rungs"][-1]["tried"]) == 2
    best = lowest(found["rungs"][-1])
    assert (found["C"], found["validation error"]) == (best["C"], best["error"])
    assert all(each["relative_gap"] <= 1e-3 for rung in found["rungs"] for each in rung["tried"])
    X, y = folder
    model, alone = widemargin.load("best.npz"), widemargin.LinearSVC(C=best["C"], random_state=0).fit(X, y)
    assert np.array_equal(model.coef_, alone.coef_)
    assert found["relative_gap"] == alone.certificate_.relative_gap
    assert (found["rows"], found["search"], found["stop_reason"]) == (500, "done", "tol")


def test_gamma_is_searched_too_and_the_table_names_the_best_once(folder, capsys):
    assert (
        main(["tune", "data.npz", "-e", "SVC", "--Cs", "1,10", "--gammas", "0.001,0.5,500", "--min-rows", "100"]) == 0
    )
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 6 + 2
    lines = said.out.splitlines()
    (best,) = (line.split() for line in lines if line.endswith("best"))
    model = widemargin.load("model.npz")
    assert (f"{model.C:.4g}", f"{model.gamma:.4g}") == (best[1], best[2])
    assert model.gamma == 0.5  # bumps that neither of the others can see
    assert any(line.startswith("relative_gap: ") for line in lines)


def test_numbers_are_predicted_too(folder, capsys, rng):
    X = folder[0]
    y = X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=500)
    write_data("data.npz", X, y)
    found = tuned(capsys, "-e", "LinearSVR", "--Cs", "0.0001,1", "--epsilon", "0.05")
    assert found["C"] == 1.0
    assert found["validation error"] < 0.5
    assert widemargin.load("model.npz").epsilon == 0.05


def test_ctrl_c_trains_the_best_so_far(folder, capsys, monkeypatch):
    real, calls = halving.error_of, []

    def error_of(*given):
        calls.append(given)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(halving, "error_of", error_of)
    found = tuned(capsys, "--Cs", "0.01,0.1,1,10", code=130)
    first, second = found["rungs"]
    assert (first["whole"], second["whole"], second["tried"]) == (True, False, [])
    assert found["C"] == widemargin.load("model.npz").C == lowest(first)["C"]
    assert found["search"] == "interrupted"


def test_ctrl_c_before_anything_was_tried_leaves_no_file(folder, capsys, monkeypatch, tmp_path):
    def error_of(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(halving, "error_of", error_of)
    assert main(["tune", "data.npz", "-q"]) == 130
    assert not (tmp_path / "model.npz").exists()
    assert "interrupted" in capsys.readouterr().err


def test_the_end_of_the_grid_is_told(folder, capsys):
    assert main(["tune", "data.npz", "-q", "--Cs", "1e-6,1e-5"]) == 0
    assert "The best C is at the end of those tried: --Cs can go on." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["-e", "BudgetedSVC"], "tune has LinearSVC, SVC, LinearSVR, SVR"),
        (["--Cs", "1,zero"], "--Cs must be numbers > 0 with commas between, got '1,zero'"),
        (["--Cs", "1,-1"], "--Cs must be numbers > 0"),
        (["--gammas", "1"], "--gammas is for machines with a γ"),
        (["--validation", "1.5"], "--validation must be between 0 and 1"),
        (["--max-seconds", "-1"], "--max-seconds must be"),
        (["--factor", "1"], "factor must be 2 or more"),
        (["--loss", "nought"], "loss must be one of"),
        (["-o", "no/such/model.npz"], "no/such is no folder"),
    ],
)
def test_bad_input_is_one_sentence(given, said, folder, capsys):
    assert main(["tune", "data.npz", "-q", *given]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1


def test_as_a_command_of_its_own(folder):
    done = fresh.run(fresh.COMMAND, "tune", "data.npz", "-q", "--Cs", "0.1,1", "-o", "m.npz")
    assert (done.returncode, done.stderr) == (0, "")
    assert "output: m.npz" in done.stdout
    assert widemargin.load("m.npz").C in (0.1, 1.0)
