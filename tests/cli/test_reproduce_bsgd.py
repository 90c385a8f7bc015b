"""The arithmetic of the BSGD paper's tables: what is worse, what is below the paper, what is carried over."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.papers import bsgd_table3

    return bsgd_table3


def test_the_papers_table_is_read_whole(tables):
    paper, vectors = tables.printed()
    budgeted = [key for key in paper if key[2]]
    assert len(budgeted) == 218
    assert len(paper) - len(budgeted) == len(vectors) == 4 * len(tables.DATA)
    assert paper["letter", "BPegasos+merge", 500] == (89.68, 0.61)
    assert (paper["dna", "MP", None], vectors["dna", "MP"]) == ((93.36, 0.93), 0.8)


def test_rows_and_orders_of_cross_validation_are_a_cells_own_or_its_methods(tables):
    cuts = [
        tables.cut_of(name, method, budget, False)[:2]
        for name, method, budget in (
            ("covtype", "Projectron++", 500), ("covtype", "Projectron++", 100), ("covtype", "LIBSVM", None),
            ("a9a", "BPegasos+project", 500), ("a9a", "BPegasos+project", 100), ("usps", "MP+stop", 100),
        )
    ]  # fmt: skip
    assert cuts == [(10_000, 1), (2000, 1), (6000, 1), (10_000, 3), (10_000, 1), (10_000, 3)]
    assert tables.cut_of("covtype", "LIBSVM", None, True) == tables.protocol("LIBSVM", True)


def test_cells_are_worse_by_a_one_sided_test_and_moved_ones_have_five_runs(tables, rng):
    high, shift = rng.normal(90.0, 0.5, 5), 50.0
    cells = [{"accuracies": list(high)}, {"accuracies": list(high - shift)}]
    assert tables.worse(cells[1], cells[0])
    assert not tables.worse(cells[0], cells[1])
    assert not tables.worse(cells[0], cells[0])
    moved = {"moved": [float(high.mean()), float(high.std(ddof=1))]}
    assert tables.mean_of(moved) == pytest.approx(tables.mean_of(cells[0]))
    low = rng.normal(89.5, 0.5, 3)
    p = ttest_ind(high, low, equal_var=False, alternative="greater").pvalue
    assert tables.worse({"accuracies": list(low)}, cells[0]) == (p < 0.05)
    p = ttest_1samp(low, 90.0, alternative="less").pvalue  # one run is a fixed number
    assert tables.worse({"accuracies": list(low)}, {"accuracies": [90.0]}) == (p < 0.05)
    assert tables.worse({"accuracies": [89.0]}, {"accuracies": [90.0]})


def test_cells_below_the_paper_are_those_a_deviation_and_a_point_below(tables):
    paper = {("letter", "BPA", 100): (90.0, 0.5), ("letter", "MP", None): (90.0, 0.5)}
    cells = {key: {"accuracies": [88.4]} for key in paper}
    assert tables.below(cells, paper) == [("letter", "BPA", 100)]
    cells["letter", "BPA", 100] = {"accuracies": [88.6]}
    assert tables.below(cells, paper) == []


def test_lambda_falls_with_the_root_of_the_rows_and_a_radius_stays(tables):
    found = tables.Chosen(0.5, 1e-3, "", 100)
    assert found.model("BPegasos+merge", 10, 400).lam == pytest.approx(5e-4)
    assert found._replace(second=30.0).model("BMP+merge", 10, 400).step.radius == 30.0
    assert found.model("Pegasos", None, 400).budget == 400
    eta = found._replace(variant="½√(2 + ½√N)").model("BNorma+merge", 10, 400).step.eta
    assert eta == pytest.approx(0.5 * np.sqrt(12.0))


def test_a_start_is_refined_even_where_a_trial_has_no_fine_grid(tables, monkeypatch):
    import benchmarks.papers.bsgd as shared

    start, tried = tables.Chosen(0.5, 1e-3, "", 90), []
    monkeypatch.setattr(shared, "fold_accuracy", lambda *given, **more: tried.append(given[4]) or given[4][0])
    found = tables.choose(np.zeros((90, 3)), np.zeros(90), "Pegasos", None, 90, shared.Protocol(90, 1, 0), start)
    assert len(tried) == 9
    assert found.gamma == 1.0
    assert found.second == pytest.approx(start.second)
