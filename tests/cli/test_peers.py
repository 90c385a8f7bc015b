"""What is measured beside others: goals, who is first, and that all solve the same problem."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("threadpoolctl")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def measuring(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.peers import measuring

    return measuring


def row(seconds, error, objective=None):
    known = {"setting": f"{seconds}", "bytes": 8, "predicting": 0.1, "megabytes": 1.0}
    return {**known, "seconds": seconds, "error": error, "objective": objective}


def test_the_quickest_setting_that_reaches_a_goal_counts_and_a_rival_that_wins_is_named(measuring):
    found = {
        "widemargin A": [row(1.0, 0.5, 9.0), row(4.0, 0.1, 1.0), row(8.0, 0.1, 1.0)],
        "rival B": [row(2.0, 0.105, 5.0)],
        "rival C": [{"setting": "1", "stopped": 60.0}],
    }
    goals = [
        ("to 1", lambda row: row["objective"] is not None and row["objective"] <= 1.0),
        ("to 0.11", lambda row: row["error"] <= 0.11),
    ]
    table = measuring.side_by_side(found, goals)
    assert "| widemargin A | **4,000 (4.0)** | 4,000 (4.0) | 10.00%" in table
    assert "| rival B | – | **2,000 (2.0)** | 10.50%" in table
    assert "| rival C | – | – | – |" in table
    first, second = measuring.verdicts({"set": found}, lambda _: goals, "widemargin")
    assert first == "set, to 1: widemargin A; no rival gets there."
    assert second == "set, to 0.11: rival B wins; widemargin A takes 2 times as long."


def test_a_fit_that_takes_too_long_is_stopped_and_its_later_settings_are_left_out(measuring):
    tried = []

    def fit(setting):
        tried.append(setting)
        while setting == "for ever":
            pass
        return setting

    slow = measuring.Contender("slow", ["quick", "for ever", "longer"], fit, lambda _: np.ones(2), lambda _: 8)
    found = measuring.measured([slow], np.ones(2), repeats=2, most=0.05)["slow"]
    assert [("stopped" in each, each.get("turns")) for each in found] == [(False, 2), (True, None)]
    assert "longer" not in tried
    assert found[0]["error"] == 0.0


def test_whoever_is_below_a_certified_bound_or_far_above_it_solves_another_problem(measuring):
    from benchmarks.peers import linear_peers

    def contender(name, exact):
        return measuring.Contender(name, [1], None, None, None, exact=exact)

    rows = {"a": [row(1.0, 0.1, 1.005)], "b": [row(1.0, 0.1, 3.0)]}
    linear_peers.assert_same([contender("a", True), contender("b", False)], rows, 1.0)
    for bound, exact in ((1.0, True), (3.1, False)):
        with pytest.raises(AssertionError):
            linear_peers.assert_same([contender("b", exact)], rows, bound)


def test_exponents_are_those_of_powers(measuring, rng):
    from benchmarks.peers import scaling

    sizes, power = np.array([10.0, 20.0, 80.0]), rng.uniform(-1.0, 3.0)
    assert scaling.slope(sizes, rng.uniform(0.1, 9.0) * sizes**power) == pytest.approx(power)


def test_only_what_pip_finds_nowhere_has_no_distribution(measuring, monkeypatch):
    import platform

    kind = platform.machine()
    monkeypatch.setattr(measuring, "PACKAGES", ("numpy", "no-such-thing", "neither-this"))
    monkeypatch.setattr(measuring, "NOWHERE", {kind: ("neither-this",), "abacus": ("no-such-thing",)})
    found = measuring.versions()
    assert found["numpy"] == np.__version__
    assert (found["no-such-thing"], found["neither-this"]) == ("not installed", f"no distribution for {kind}")
    assert "cores" in found["machine"]


def test_a_constant_beside_the_power_is_found_and_said_only_where_it_fits(measuring, rng):
    from benchmarks.peers import scaling

    sizes, theory = [100, 200, 400, 800], 1 + rng.integers(2)
    a, b = rng.uniform(0.5, 2.0), rng.uniform(0.5, 2.0) / 100.0**theory
    part = {"sizes": sizes, "seconds": [a + b * size**theory for size in sizes], "theory": int(theory), "why": ""}
    constant, off = scaling.fixed_part(part)
    assert constant == pytest.approx(a)
    assert off == pytest.approx(0.0, abs=1e-9)
    assert f"{a:.2g} s were spent at any size" in scaling.why_not("line", part)
    below = {**part, "seconds": [size**0.3 for size in sizes], "theory": 2}
    assert "not known" in scaling.why_not("line", below)
    assert scaling.why_not("line", below, "Because.").endswith("Because.")
    exact = {**part, "seconds": [b * size**theory for size in sizes]}
    growth = scaling.Growth("x", "X", "x", None, reasons={"curved": "Because."})
    assert growth.notes({"straight": exact}) == []
    assert growth.notes({"straight": exact, "curved": below}) == [scaling.why_not("curved", below, "Because.")]
    assert growth.notes({"curved": below}, quick=True) == [scaling.why_not("curved", below)]


def test_a_rival_that_is_better_in_anything_but_time_is_bold(measuring):
    found = {
        "widemargin A, tol": [row(1.0, 0.10) | {"bytes": 900, "megabytes": 5.1}, row(2.0, 0.101) | {"bytes": 7}],
        "rival B, passes, step": [row(3.0, 0.09) | {"bytes": 800, "predicting": 0.2, "megabytes": 4.9}],
        "rival C": [row(0.1, 0.5) | {"bytes": 1, "megabytes": 0.0}, {"setting": "1", "stopped": 60.0}],
    }
    heading, good = measuring.last_goal(found)
    assert heading == "to a test error of 9.90%"
    loose = [("to 0.11", lambda row: row["error"] <= 0.11)]
    assert measuring.beside_time({"set": found}, lambda _: loose, "widemargin").splitlines()[-1] == (
        "| set | **rival B 9.00%**; widemargin A 10.00% | **rival B 800 B**; widemargin A 900 B "
        "| widemargin A 100.0 ms; rival B 200.0 ms | even, 5 MB |"
    )
    none_of_ours = measuring.beside_time({"set": found}, lambda _: [(heading, good)], "widemargin").splitlines()[-1]
    assert "| **rival B 800 B**; ours – |" in none_of_ours
